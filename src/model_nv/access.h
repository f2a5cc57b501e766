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

/* Wavefronts of a shared access: 32 banks of 4 bytes, phases of lanes by access width (DOC-like
 * rule of notes; MEASURED by the microbenchmarks). mask: active lanes; bytes per lane 1 .. 16. */
uint32_t ts__shared_wavefronts(const struct ts_footprint *footprint, uint32_t mask);
/* The least number that the bytes asked for could take. */
uint32_t ts__shared_wavefronts_ideal(const struct ts_footprint *footprint, uint32_t mask);
/* ldmatrix, stmatrix: `matrices` phases of 8 row addresses of 16 bytes; lane 8p + r has row r of
 * matrix p. */
uint32_t ts__matrix_wavefronts(const struct ts_footprint *footprint, uint32_t matrices);

/* Lines of a global access, ascending: line number << 4 | mask of its four sectors. */
struct ts__lines {
  uint32_t count;
  uint64_t line[TS__LINES_LIMIT];
};
/* AFFINE or LANES. shift_bytes is added to every address. */
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

/* A line-granular enumeration of the access, shifted; boxes are clipped to the tensor.
 * visit answers nothing; sectors as in ts__lines. */
void ts__access_lines(const struct ts__access *access, const struct ts_shift *shift,
                      void (*visit)(void *user, uint64_t line, uint32_t sectors), void *user);

/* --- L1: tags of one SM, least recently used within a set */
struct ts__l1;
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

/* What became of the lines of one access of a block. */
struct ts__l2_outcome {
  uint32_t line_count, sector_count; /* asked of L2 */
  uint32_t miss_lines;   /* fetched from DRAM by this access: first of all blocks to want them */
  uint32_t merged_lines; /* in flight because another block asked a moment ago: the latency of a
                            miss, no traffic */
  uint32_t miss_sectors;
};

struct ts__l2_settings {
  uint64_t capacity_bytes;   /* that a working set can use */
  uint64_t duplicated_bytes; /* up to this much, lines wanted from both partitions are kept twice */
  uint32_t concurrent_blocks;  /* resident on the chip at once, dispatched in order */
  uint32_t in_flight_accesses; /* a block's accesses that one DRAM latency spans */
  uint32_t sample_shift;       /* only 1 of 2^n lines is simulated, its counts scaled; 0: all */
};

struct ts__l2_totals {
  uint64_t read_sectors, write_sectors;           /* asked of L2 */
  uint64_t dram_read_sectors, dram_write_sectors; /* write-backs included */
  uint64_t footprint_bytes;                       /* distinct lines x 128 */
};

/* Runs all blocks of a launch in lockstep over one L2, `concurrent_blocks` at a time, a block that is
 * done making room for the next. passes 2: the first pass only warms the cache (back-to-back
 * launches). outcomes[b] is NULL or an array for block b's accesses that is filled. */
enum ts_status ts__l2_run(struct ts_ctx *ctx, const struct ts__l2_settings *settings,
                          const struct ts__l2_block *blocks, uint32_t block_count, uint32_t passes,
                          struct ts__l2_outcome *const *outcomes, struct ts__l2_totals *totals);

#endif
