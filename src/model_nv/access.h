/* Memory accesses as the caches see them: footprints become bank wavefronts, lines and sectors, and
 * a launch's accesses become L2 hits and misses.
 *
 * Job: pure functions of footprints, an L1 tag array, and the L2 pass over a whole launch. Boundary:
 * no time; the SM model asks this what a request costs in requests, lines and misses. */
#ifndef TS_MODEL_NV_ACCESS_H
#define TS_MODEL_NV_ACCESS_H

#include "base/alloc.h"
#include "trace/trace.h"

enum { TS__LINE_BYTES = 128, TS__SECTOR_BYTES = 32, TS__LINES_LIMIT = 128 };

/* Wavefronts of a shared load or store of 1 to 16 bytes a lane; mask: active lanes.
 * MEASURED bench/device/banks.cu: 32 banks of 4 bytes; the lanes go in phases of 32, 16 or 8 for up
 * to 4, 8 or 16 bytes; equal words are one; never less than the number of phases, idle ones too. A
 * load whose active lanes l and l ^ 1 (or all l and l ^ 2) have equal addresses needs half as many
 * phases; a store never. */
uint32_t ts__shared_wavefronts(const struct ts_footprint *footprint, uint32_t mask, bool is_write);
/* What the same access would take without bank conflicts: its phases. */
uint32_t ts__shared_wavefronts_ideal(const struct ts_footprint *footprint, uint32_t mask,
                                     bool is_write);
/* ldmatrix, stmatrix: `matrices` phases of 8 row addresses of 16 bytes; lane 8p + r has row r of
 * matrix p. Ideal: one for each matrix. */
uint32_t ts__matrix_wavefronts(const struct ts_footprint *footprint, uint32_t matrices);

/* A line and its sectors in one number: line << 4 | mask of its four sectors. */
static inline uint64_t ts__line_of(uint64_t packed) { return packed >> 4; }
static inline uint32_t ts__sectors_of(uint64_t packed) { return (uint32_t)(packed & 15); }

/* Lines of a global access, packed, ascending, each once. */
struct ts__lines {
  uint32_t count;
  uint64_t line[TS__LINES_LIMIT];
};
/* Of a lane of AFFINE or LANES. */
static inline uint64_t ts__lane_address(const struct ts_footprint *footprint, uint32_t lane) {
  if (footprint->kind == TS_FOOTPRINT_LANES) return footprint->lanes[lane];
  return footprint->base + (uint64_t)lane * (uint64_t)footprint->lane_stride;
}
/* The shift of an instruction, all zero when there is none; shifts are sorted by insn, or NULL. */
const struct ts_shift *ts__find_shift(const struct ts_shift *shifts, uint32_t count, uint32_t insn);
/* AFFINE or LANES of at most 128 bytes a lane. shift_bytes is added to every address. */
void ts__coalesce(const struct ts_footprint *footprint, uint32_t mask, int64_t shift_bytes,
                  struct ts__lines *lines);

/* An access to global memory, as the recorder keeps it. */
struct ts__access {
  uint32_t insn;
  bool is_write, is_atomic, bypasses_l1; /* copies bypass L1 */
  uint32_t mask;                         /* active lanes, or copying lanes */
  uint32_t bytes;                        /* useful bytes */
  struct ts_footprint footprint;         /* LANES: lanes points into the recorder's arena */
};

/* Walks an access line by line. Boxes go row by row, clipped to the tensor (a tensor extent of 0 is
 * unknown: only negative coordinates are clipped); a line that ends one row and starts the next is
 * one. AFFINE with one address, such as a bulk copy, is one row of any length.
 *   struct ts__line_cursor cursor;
 *   ts__line_cursor_start(&cursor, access, shift);
 *   while ((count = ts__line_cursor_next(&cursor, packed, limit)) > 0) ... */
struct ts__line_cursor {
  struct ts__lines lines; /* AFFINE and LANES */
  bool has_rows;          /* the rest is for rows */
  uint64_t row_bytes;
  uint64_t stride_bytes[4]; /* of the outer dimensions */
  uint32_t extent[4], index[4];
  uint32_t at;                   /* next of lines */
  uint64_t line, last;           /* next line of the row at hand, and its last */
  uint64_t first_byte, end_byte; /* of the row */
  uint64_t held;                 /* packed line that the next row may add to; 0 none */
  bool is_done;
};
/* shift may be NULL. */
void ts__line_cursor_start(struct ts__line_cursor *cursor, const struct ts__access *access,
                           const struct ts_shift *shift);
/* Fills packed[0 .. limit) and answers how many; 0 at the end. */
uint32_t ts__line_cursor_next(struct ts__line_cursor *cursor, uint64_t *packed, uint32_t limit);

/* The lines of accesses by instruction, so that what repeats some lines further on is not walked
 * again. Zeros are an empty one. The accesses stay where they are as long as it is used. */
enum { TS__LINE_LISTS = 64, TS__LINE_LIST_LIMIT = 512 };
struct ts__line_list {
  const struct ts__access *access; /* whose lines these are; NULL: of no use to others */
  uint64_t first_byte;             /* of that access */
  uint32_t count, sector_count;
  uint64_t packed[TS__LINE_LIST_LIMIT];
};
struct ts__line_lists {
  struct ts__line_list lists[TS__LINE_LISTS];
};
/* The access's lines are the list's, each offset_lines further on. Valid until the next call; NULL:
 * there are too many for a list. */
const struct ts__line_list *ts__line_lists_find(struct ts__line_lists *lists,
                                                const struct ts__access *access,
                                                const struct ts_shift *shift,
                                                uint64_t *offset_lines);

/* --- L1: tags of one SM, least recently used within a set */
struct ts__l1;
/* NULL when memory is short. Capacity 0: every load misses. */
struct ts__l1 *ts__l1_new(struct ts_arena *arena, uint64_t capacity_bytes);
void ts__l1_flush(struct ts__l1 *l1);
/* Looks the line up, fills its sectors, and answers the sectors that were missing. */
uint32_t ts__l1_load(struct ts__l1 *l1, uint64_t line, uint32_t sectors);
/* Write through, no allocation: drops nothing, updates present sectors. */
void ts__l1_store(struct ts__l1 *l1, uint64_t line, uint32_t sectors);

/* --- the L2 pass */

/* One block's way through global memory: the accesses of its stream in an order that its warps could
 * take, and how they shift. */
struct ts__l2_block {
  const struct ts__access *accesses;
  uint32_t access_count;
  const struct ts_shift *shifts; /* sorted by insn; NULL: none */
  uint32_t shift_count;
};

/* What became of the lines of one access of a block. Lines that are none of these hit. Writes never
 * miss: they allocate without reading (byte masks); atomics read. */
struct ts__l2_outcome {
  uint32_t line_count, sector_count; /* asked of L2 */
  uint32_t miss_lines;   /* fetched from DRAM by this access: first of all blocks to want them */
  uint32_t merged_lines; /* in flight because another block asked a moment ago: the latency of a
                            miss, no traffic */
  uint32_t far_lines;    /* that crossed from the other partition, missed ones included */
  uint32_t miss_sectors;
};

struct ts__l2_settings {
  uint64_t capacity_bytes;
  /* Lines fall by a hash into 16 groups whose capacities are this relative standard deviation apart,
   * each least recently used first out: a real cache's sets do not overflow all at once.
   * docs/timing-memory.md has the fit. 0: one group, all of the capacity to the last line. */
  double capacity_spread;
  /* A line is at home in one partition; the other keeps a copy of what its SMs read, in room for
   * half of this. So a working set up to this size is near to all, a larger one that is swept is far
   * for half of its reads, and DRAM traffic does not depend on it (MEASURED by others on an H100:
   * full speed up to 22 MB, half from 26 MB, no DRAM reads up to 50 MB). 0: one partition. */
  uint64_t duplicated_bytes;
  uint32_t concurrent_blocks;  /* resident on the chip at once, dispatched in order; even and odd
                                  places are in different partitions */
  uint32_t in_flight_accesses; /* a block's accesses that one DRAM latency spans; 0: none */
  uint32_t sample_shift; /* only 1 of 2^n lines is simulated; totals are scaled, outcomes get the
                            access's shares (those of all reads so far where no line was drawn) */
};

struct ts__l2_totals {
  uint64_t read_sectors, write_sectors;           /* asked of L2; atomics are reads */
  uint64_t atomic_sectors;                        /* of the reads: those that become dirty */
  uint64_t dram_read_sectors, dram_write_sectors; /* write-backs: of lines evicted in this pass */
  uint64_t far_sectors;                           /* read across the partitions */
  uint64_t footprint_bytes;                       /* distinct lines x 128 */
  uint64_t line_visits, walked_lines;             /* asked for; looked up one by one */
};

/* What one pass of all blocks found. */
struct ts__l2_pass {
  struct ts__l2_outcome *const *outcomes; /* NULL, or by block: NULL or an array for its accesses */
  struct ts__l2_totals totals;
};

/* Runs all blocks of a launch in lockstep over one L2: in a round each resident block does its next
 * access; the place of a block that is done goes to the next one. Each pass but the first finds the
 * cache as the one before has left it (back-to-back launches); its totals are filled, and its
 * outcomes where there are arrays for them. TS_LIMIT beyond 2^31 accesses. */
enum ts_status ts__l2_run(struct ts_ctx *ctx, const struct ts__l2_settings *settings,
                          const struct ts__l2_block *blocks, uint32_t block_count,
                          struct ts__l2_pass *passes, uint32_t pass_count);

#endif
