/* Performance remark: few warps on an SM, and what keeps more from being there.
 *
 * Registers per thread are the assembler's choice and not known here, so that only shared memory,
 * threads, blocks and clusters are named; what is said to fit is an upper bound. */
#include "interp/check_priv.h"
#include "machine/occupancy.h"

#include <stdio.h>

/* GUESS: with fewer than four warps a scheduler cannot hide even the latency of arithmetic (about
 * four cycles), unless the warps have independent instructions or asynchronous copies in flight. */
enum { FEW_WARPS_PER_SUB_PARTITION = 4 };

static uint64_t blocks_of(const uint32_t size[3]) { return (uint64_t)size[0] * size[1] * size[2]; }

/* Shared bytes with which the number of blocks fits. */
static uint64_t shared_for(const struct ts_machine *m, uint32_t block_count) {
  uint64_t share = m->shared_bytes_per_sm / block_count;
  if (m->shared_granularity_bytes) share -= share % m->shared_granularity_bytes;
  return share - m->shared_reserved_bytes_per_block;
}

static void write_hint(char *text, size_t size_bytes, const struct ts_machine *m,
                       const struct ts_occupancy *found) {
  const char *remedy = ts_resource_remedy(found->limit);
  uint32_t next = found->blocks_per_sm + 1;
  if (found->limit == TS_RESOURCE_SHARED &&
      next * m->shared_reserved_bytes_per_block < m->shared_bytes_per_sm)
    snprintf(text, size_bytes, "%s: with at most %llu bytes per block %u fit", remedy,
             (unsigned long long)shared_for(m, next), next);
  else
    snprintf(text, size_bytes, "%s", remedy);
}

void ts__check_occupancy(struct ts_ctx *ctx, const struct ts__program *program) {
  const struct ts_machine *machine = program->machine;
  char message[256], hint[256];
  struct ts_block_needs needs = {
      .threads = program->threads_per_block,
      .shared_bytes = program->shared_bytes,
      .cluster_blocks = program->blocks_per_cluster,
  };
  struct ts_occupancy found = ts_occupancy_find(machine, &needs);
  bool is_grid_small =
      blocks_of(program->launch->grid) <= (uint64_t)found.blocks_per_sm * machine->sm_count;
  if (is_grid_small || found.limit == TS_RESOURCE_BLOCKS ||
      found.warps_per_sm >= FEW_WARPS_PER_SUB_PARTITION * machine->sub_partitions_per_sm)
    return;
  snprintf(
      message, sizeof message,
      "at most %u of %u warps are on an SM at a time: %s bounds it to %u block%s of %u threads "
      "with %llu bytes of shared memory",
      found.warps_per_sm, machine->max_warps_per_sm, ts_resource_name(found.limit),
      found.blocks_per_sm, found.blocks_per_sm == 1 ? "" : "s", needs.threads,
      (unsigned long long)needs.shared_bytes);
  write_hint(hint, sizeof hint, machine, &found);
  struct ts_diag diag = {.code = TS_DIAG_SPEED_OCCUPANCY,
                         .message = message,
                         .hint = hint,
                         .function = program->function->name,
                         .block = -1,
                         .warp = -1,
                         .lane = -1};
  ts_diag_add(ctx->diags, &diag);
}
