/* Machines: limits, the numerics profile and the constants of timing, read from machines/NAME.mach.
 * Every value in a file carries a source tag. The files of machines/ are compiled in. */
#ifndef TS_MACHINE_MACHINE_H
#define TS_MACHINE_MACHINE_H

#include "base/diag.h"

enum ts_timing_id {
#define TIMING(key, unit, text) TS_TIMING_##key,
#include "machine/timing.def"
#undef TIMING
  TS_TIMING_COUNT
};
const char *ts_timing_key(enum ts_timing_id id);
const char *ts_timing_unit(enum ts_timing_id id);
const char *ts_timing_text(enum ts_timing_id id);

enum ts_machine_tag { TS_TAG_NONE, TS_TAG_DOC, TS_TAG_MEASURED, TS_TAG_FITTED, TS_TAG_GUESS };

struct ts_machine {
  char name[32];    /* "h200-sxm" */
  char profile[32]; /* numerics profile: "nv_sm90" */
  uint32_t sm_count;
  uint32_t max_threads_per_block;
  uint64_t max_shared_bytes_per_block; /* static + dynamic, after opt-in */
  uint32_t max_grid[3], max_block[3];
  uint32_t max_registers_per_thread;
  uint64_t max_local_bytes_per_thread;
  uint64_t global_bytes;
  /* What the blocks on one SM share (machine/occupancy.h). */
  uint32_t sub_partitions_per_sm; /* each with its share of registers and warps */
  uint32_t max_warps_per_sm, max_blocks_per_sm;
  uint32_t registers_per_sm, register_allocation_unit; /* the latter per warp */
  uint64_t shared_bytes_per_sm;                        /* the system's part included */
  uint64_t shared_reserved_bytes_per_block;
  uint32_t shared_granularity_bytes;
  uint32_t barriers_per_sm;       /* named barriers (bar.sync) */
  uint32_t tensor_columns_per_sm; /* 0: no tensor memory */
  uint32_t max_cluster_blocks;
  /* Constants of the timing model; NaN: there is none, or the file does not say. */
  double timing[TS_TIMING_COUNT];
  uint8_t timing_tag[TS_TIMING_COUNT]; /* enum ts_machine_tag */
};

/* The default machine, h200-sxm. */
void ts_machine_default(struct ts_machine *machine);
/* Reads the file when name has a '/' or ends in .mach; else NAME.mach of the directory (which may be
 * NULL), or, when there is none, the one that is compiled in. "h200", "h100" and "h800" are short
 * for h200-sxm, h100-sxm and h800-pcie. */
enum ts_status ts_machine_load(struct ts_ctx *ctx, const char *directory, const char *name,
                               struct ts_machine *machine);

/* Names of the machines that are compiled in, sorted; NULL beyond the last. */
const char *ts_machine_built_in(uint32_t index);

/* A line of a machine file; texts are valid during the call. */
struct ts_machine_value {
  const char *key, *value, *unit, *tag, *source;
  const char *meaning; /* of a constant of timing, else "" */
};
struct ts_machine_listener {
  void (*take)(void *user, const struct ts_machine_value *value);
  void *user;
};
/* As ts_machine_load, and tells the listener (which may be NULL) every value in the file's order. */
enum ts_status ts_machine_describe(struct ts_ctx *ctx, const char *directory, const char *name,
                                   const struct ts_machine_listener *listener,
                                   struct ts_machine *machine);

#endif
