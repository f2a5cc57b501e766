/* Checks of use: what is brought to shared memory and then read in part only. */
#include "interp/check_priv.h"

/* Elements outside of the tensor are read by whoever does not look at the edge: such boxes are not
 * followed, and neither are im2col ones, whose padding is outside. */
static bool is_inside(const struct ts__box *box) {
  const struct ts_tensormap *map = box->map;
  if (map->is_im2col) return false;
  for (uint32_t i = 0; i < map->rank; i++)
    if (box->coordinate[i] < 0 || (uint64_t)box->coordinate[i] + map->box[i] > map->size[i])
      return false;
  return true;
}

/* Lanes that copy deliver; lanes that fill with zeros, beyond an edge, only overwrite. */
static void put_lanes(struct ts_use *use, const struct ts__copy *copy, uint32_t lanes) {
  for (; lanes; lanes &= lanes - 1)
    ts_use_put(use, copy->code->insn, copy->lane_shared[ts__first_lane(lanes)], copy->size_bytes);
}

void ts__check_use_copy(struct ts__warp *warp, const struct ts__copy *copy) {
  struct ts_use *use = &warp->block->check->use;
  uint32_t insn = copy->code->insn;
  if (copy->kind == TS__COPY_CLUSTER) ts_use_read(use, copy->source, copy->size_bytes);
  if (copy->to != warp->block) return; /* a write from another block is not followed */
  switch (copy->kind) {
  case TS__COPY_CP_ASYNC:
    put_lanes(use, copy, copy->zero_lanes & ~copy->copy_lanes);
    ts_use_begin(use, insn, warp->index);
    put_lanes(use, copy, copy->copy_lanes);
    break;
  case TS__COPY_TMA_LOAD:
    if (is_inside(&copy->box)) ts_use_begin(use, insn, warp->index);
    ts_use_put(use, insn, copy->box.shared_address, copy->size_bytes);
    break;
  case TS__COPY_BULK_LOAD:
    ts_use_begin(use, insn, warp->index);
    ts_use_put(use, insn, copy->shared, copy->size_bytes);
    break;
  case TS__COPY_CLUSTER: ts_use_put(use, insn, copy->shared, copy->size_bytes); break;
  case TS__COPY_TMA_STORE: ts_use_read(use, copy->box.shared_address, copy->size_bytes); break;
  case TS__COPY_BULK_STORE: ts_use_read(use, copy->shared, copy->size_bytes); break;
  case TS__COPY_CP_ARRIVE: break;
  }
  ts_use_end(use);
}

static void report(struct ts__block *block, const struct ts_use_finding *finding) {
  const struct ts_function *function = block->program->function;
  bool is_over = finding->overwritten != TS_USE_NOBODY;
  char where[128];
  ts__hazard_at(&block->warps[finding->warp], finding->insn, TS_DIAG_UNUSED_SHARED, TS_NONE,
                is_over ? finding->overwritten : TS_NONE,
                "check offset, swizzle and extent with which the tile is read",
                "%llu of %llu bytes that %s brings to shared memory are never read, the others "
                "are; the first are at %s, %s",
                (unsigned long long)finding->lost_bytes, (unsigned long long)finding->size_bytes,
                ts_op_info((enum ts_op)function->insns.data[finding->insn].op)->mnemonic,
                ts__shared_text(block, finding->first_lost, where, sizeof where),
                is_over ? "and are overwritten" : "until the block ends");
}

/* Where something else went wrong, what is unread is a consequence. */
void ts__check_use_end(struct ts__block *block) {
  struct ts_use *use = &block->check->use;
  if (block->has_hazard) return;
  ts_use_finish(use);
  for (uint32_t i = 0; i < use->finding_count; i++)
    report(block, &use->findings[i]);
}
