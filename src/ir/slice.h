/* What of a launch must be computed to know its control flow and its addresses.
 *
 * Job: a backward slice over the IR of all launches of a plan. Timing asks which instructions can be
 * told without being computed, and whether tensors need contents at all. Boundary: knows launches,
 * no memory and no machine. Owner: the arena given. */
#ifndef TS_IR_SLICE_H
#define TS_IR_SLICE_H

#include "ir/launch.h"

/* Device addresses that are equal from this bit on are in one tensor. */
enum { TS_SLICE_TENSOR_SHIFT = 40 };

struct ts_slice {
  const bool
      *is_executed;     /* by instruction: its result or effect on memory is computed; control and
                              synchronisation always are */
  bool depends_on_data; /* control or addresses depend on contents of tensors */
  bool depends_on_results; /* ... or on what the launches themselves write to global memory */
  bool depends_on_atomics; /* ... or on what atomics return: the order of blocks may matter */
};

/* slices: one for each launch of the plan. tensors[i] (from the arena): device addresses of the
 * tensors whose contents must be real. TS_NO_MEMORY. Launches of unknown functions have an empty
 * slice. */
enum ts_status ts_slice_plan(struct ts_ctx *ctx, const struct ts_module *module,
                             const struct ts_launch_plan *plan, struct ts_arena *arena,
                             struct ts_slice **slices, const uint64_t **tensors,
                             uint32_t *tensor_count);

/* Bit i: operand i of the instruction decides an address, a predicate, a sync object or a shape. */
uint32_t ts_slice_roots(const struct ts_insn *insn);

#endif
