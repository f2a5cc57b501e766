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
};

/* The default machine (h200-sxm), compiled in. */
void ts_machine_default(struct ts_machine *machine);
/* Reads NAME.mach from the directory, or, when name has a '/' or ends in .mach, that file. The
 * built-in "h200" and "h200-sxm" need no file. */
enum ts_status ts_machine_load(struct ts_ctx *ctx, const char *directory, const char *name,
                               struct ts_machine *machine);

#endif
