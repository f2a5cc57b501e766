/* The interpreter: runs a launch plan on device memory, values bit for bit.
 *
 * Warps are resumable agents without a host stack; any interleaving of them and of asynchronous
 * completions can be run. Blocks run on several host threads with the same bits and the same
 * diagnostics as on one. The interpreter never sees a timing model. */
#ifndef TS_INTERP_INTERP_H
#define TS_INTERP_INTERP_H

#include "ir/launch.h"
#include "machine/machine.h"
#include "mem/mem.h"
#include "trace/trace.h"

enum ts_schedule_kind {
  TS_SCHEDULE_EAGER,
  TS_SCHEDULE_LAZY,
  TS_SCHEDULE_RANDOM,
  TS_SCHEDULE_LAST /* as lazy, but warp `seed` of a block goes on only when nobody else can */
};

struct ts_run_options {
  const struct ts_machine *machine;
  enum ts_schedule_kind schedule;
  uint64_t seed;         /* of TS_SCHEDULE_RANDOM; the warp of TS_SCHEDULE_LAST */
  uint32_t worker_count; /* host threads, at least 1 */
  struct ts_sink *sink;  /* ts_sink_null when nobody listens; a real sink forces one worker */
  bool stop_at_first_hazard;
  /* Only control flow, addresses and what they depend on (ir/slice.h) are computed; all events are
   * told as in a full run. Tensors need contents only where ts_slice_plan says so. With the eager
   * schedule and without checks. */
  bool addresses_only;
  bool checks;                 /* all hazard checks; one worker, several times slower */
  bool check_numbers;          /* with checks: numeric alarms as well */
  bool check_speed;            /* with checks: performance remarks as well */
  uint64_t max_insns_per_warp; /* a warp that executes more ends the run with TS_LIMIT; 0 none */
  /* Called now and then from the main thread with blocks done so far; NULL is fine. */
  void (*progress)(void *user, uint64_t done_blocks, uint64_t all_blocks);
  void *progress_user;
};

struct ts_run_stats {
  uint64_t op_count[TS_OP_COUNT]; /* warp instructions executed, by op */
  uint64_t lane_op_count;         /* lanes x components of data instructions */
  uint64_t mac_count;             /* multiply-adds of matrix instructions */
  uint64_t tma_box_count, tma_bytes;
  uint64_t block_count, warp_count;
};

/* Runs all launches in order. TS_HAZARD, TS_DEADLOCK or TS_TRAP when the kernel is at fault (the
 * diagnostics say how; the memory holds what had been computed). */
enum ts_status ts_interp_run(struct ts_ctx *ctx, const struct ts_module *module,
                             const struct ts_launch_plan *plan, struct ts_device_memory *memory,
                             const struct ts_run_options *options, struct ts_run_stats *stats);

#endif
