/* Whether what was brought to shared memory is used: each copy or store is a *delivery* of cells
 * (as large as those of the race shadow) that are read, or lost when they are overwritten, or the
 * block ends, before anybody has read them. A delivery of which at least half was read and the rest
 * lost is told of: a tile that is read at a wrong offset looks like that, while what nobody needs
 * (a stage that was loaded ahead) is lost as a whole, and of what is too large to load in parts
 * most. Zeros are never lost: a tile is filled up with them behind the edge of a tensor. */
#ifndef TS_MEM_USE_H
#define TS_MEM_USE_H

#include "base/diag.h"

enum { TS_USE_MAX_FINDINGS = 8 };

struct ts_use_delivery {
  uint32_t insn, warp;
  uint32_t cells, pending, lost; /* pending: neither read nor lost yet */
  uint32_t next_free;
  uint64_t first_lost;  /* address */
  uint32_t overwritten; /* by this instruction; TS_USE_NOBODY: the block ended */
};
#define TS_USE_NOBODY UINT32_MAX

/* The first partly lost delivery of an instruction. */
struct ts_use_finding {
  uint32_t insn, warp, overwritten;
  uint64_t lost_bytes, size_bytes, first_lost;
};

struct ts_use {
  const uint8_t *data; /* the bytes of the window */
  uint32_t granule_shift;
  uint64_t cell_count, touched_end;
  uint32_t *owners; /* per cell: delivery that put something there which nobody has read; 0 none */
  struct ts_use_delivery *deliveries; /* one for each cell, and one more; [0] is unused */
  uint32_t delivery_count;            /* that have been used */
  uint32_t first_free, open;          /* 0 none */
  struct ts_use_finding findings[TS_USE_MAX_FINDINGS];
  uint32_t finding_count;
  const struct ts_allocator *allocator;
};

enum ts_status ts_use_init(struct ts_ctx *ctx, struct ts_use *use, uint64_t size_bytes,
                           uint32_t granule_bytes);
/* For the first and each further block: data holds its window, widened to whole cells, as it is
 * before what ts_use_put tells of has been written. */
void ts_use_reset(struct ts_use *use, const uint8_t *data);
void ts_use_free(struct ts_use *use);

/* What ts_use_put writes until the end belongs to one delivery; other writes are not followed. */
void ts_use_begin(struct ts_use *use, uint32_t insn, uint32_t warp);
void ts_use_put(struct ts_use *use, uint32_t insn, uint64_t address, uint64_t size_bytes);
void ts_use_end(struct ts_use *use);
void ts_use_read(struct ts_use *use, uint64_t address, uint64_t size_bytes);
/* The block has ended: what is pending is lost. The findings are then complete. */
void ts_use_finish(struct ts_use *use);

#endif
