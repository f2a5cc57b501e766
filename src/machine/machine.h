/* Machines: limits and the numerics profile, read from machines/NAME.mach (constants for timing
 * come with the timing models). Every value in a file carries a source tag. */
#ifndef TS_MACHINE_MACHINE_H
#define TS_MACHINE_MACHINE_H

#include "base/diag.h"

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
};

/* The default machine (h200-sxm), compiled in. */
void ts_machine_default(struct ts_machine *machine);
/* Reads NAME.mach from the directory, or, when name has a '/' or ends in .mach, that file. The
 * built-in "h200" and "h200-sxm" need no file. */
enum ts_status ts_machine_load(struct ts_ctx *ctx, const char *directory, const char *name,
                               struct ts_machine *machine);

#endif
