/* Order around tcgen05. The tensor core counts as a warp of its own, one past those of the block: it
 * knows at a product what the issuing warp knew, reads the operands and writes its columns, and a
 * commit tells its mbarrier. So whoever has not waited for that mbarrier, the issuing warp included,
 * is not ordered after the product.
 *
 * Tensor memory has a cell for each column of the 32 lanes that one warp of a warpgroup has. */
#include "interp/check_priv.h"

#include <stdio.h>

enum { COLUMNS = 512, PARTS = 4 };

static uint32_t core_of(const struct ts__warp *warp) { return warp->program->warps_per_block; }

enum ts_status ts__check_tensor_init(struct ts__check *check) {
  if (!check->program->has_tensor) return TS_OK;
  return ts_global_race_init(check->ctx, &check->tensor, PARTS * COLUMNS, 1);
}

void ts__check_tensor_issue(struct ts__warp *warp) {
  struct ts_race *race = &warp->block->check->race;
  struct ts_clock clock = {.far = NULL};
  ts_race_release(race, warp->index, &clock);
  ts_race_acquire(race, core_of(warp), &clock);
}

void ts__check_tensor_operand(struct ts__warp *warp, const struct ts__code *code,
                              const struct ts__chunks *chunks) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor core = {.warp = core_of(warp), .insn = code->insn, .is_async = true};
  struct ts__unset_lines unset = {.any = false};
  ts__check_operand(warp, code, chunks, "in shared memory", true, 16, &unset);
  for (uint32_t i = 0; i < chunks->count; i++) {
    ts_race_note_read(&check->race, core, ts__chunk_address(chunks, i), TS__CHUNK_BYTES);
    ts_use_read(&check->use, ts__chunk_address(chunks, i), TS__CHUNK_BYTES);
  }
  if (unset.any)
    ts__hazard(warp, code, TS_DIAG_UNSET_SHARED, TS_NONE, TS_NONE,
               "check the descriptor, and that all of the tile has been written",
               "an operand of %s takes in bytes that nobody has written",
               ts_op_info((enum ts_op)code->op)->mnemonic);
}

void ts__check_tensor_commit(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                             uint32_t address, uint64_t phase) {
  struct ts__check *check = warp->block->check;
  ts__check_mbarrier_arrive(warp, code, lane, address, phase);
  struct ts_clock *clock = ts__check_mbarrier_clock(check, address, phase);
  if (clock) ts_race_release(&check->race, core_of(warp), clock);
}

/* --- tensor memory */

static void report(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                   uint32_t count, bool is_write, const struct ts_conflict *conflict) {
  const struct ts__program *program = warp->program;
  uint16_t other = program->code[conflict->other_insn].op;
  char who[32];
  if (other == TS_OP_tmem_dealloc || code->op == TS_OP_tmem_dealloc)
    warp->block->check->free_races = true;
  if (conflict->other_warp == core_of(warp))
    snprintf(who, sizeof who, "the tensor core");
  else
    snprintf(who, sizeof who, "warp %u", conflict->other_warp);
  const char *does = conflict->kind == TS_CONFLICT_WRITE_AFTER_READ ? "reads"
                     : other == TS_OP_tmem_dealloc                  ? "frees"
                                                                    : "writes";
  ts__hazard(
      warp, code, TS_DIAG_RACE_TENSOR, TS_NONE, conflict->other_insn,
      "a barrier between the two, or for a product a wait for the mbarrier of its commit; "
      "tensor memory is freed when all that use it are done",
      "%s of warp %u %s columns %u to %u of tensor memory, which %s of %s %s; nothing orders "
      "the two",
      ts_op_info((enum ts_op)code->op)->mnemonic, warp->index,
      code->op == TS_OP_tmem_dealloc ? "frees"
      : is_write                     ? "writes"
                                     : "reads",
      column, column + count - 1, ts_op_info((enum ts_op)other)->mnemonic, who, does);
}

/* One warp's lanes, or those of all. */
static bool access_parts(struct ts__warp *warp, const struct ts__code *code, uint32_t first,
                         uint32_t last, uint32_t agent, uint32_t column, uint32_t count,
                         bool is_write) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor who = {.warp = agent, .insn = code->insn};
  struct ts_conflict found = {0};
  bool is_contended;
  for (uint32_t part = first; part <= last; part++) {
    uint64_t offset = part * COLUMNS + column;
    struct ts_conflict conflict =
        is_write ? ts_global_race_write(&check->tensor, &check->race, warp->block->index, who,
                                        false, offset, count, &is_contended)
                 : ts_global_race_read(&check->tensor, &check->race, warp->block->index, who, false,
                                       offset, count);
    if (found.kind == TS_CONFLICT_NONE) found = conflict;
  }
  if (found.kind != TS_CONFLICT_NONE) report(warp, code, column, count, is_write, &found);
  return !check->free_races;
}

bool ts__check_tensor_access(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                             uint32_t count, bool is_write) {
  uint32_t part = warp->index % PARTS;
  return access_parts(warp, code, part, part, warp->index, column, count, is_write);
}

bool ts__check_tensor_product(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                              uint32_t count, bool is_write) {
  return access_parts(warp, code, 0, PARTS - 1, core_of(warp), column, count, is_write);
}

void ts__check_tensor_free(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                           uint32_t count) {
  access_parts(warp, code, 0, PARTS - 1, warp->index, column, count, true);
}
