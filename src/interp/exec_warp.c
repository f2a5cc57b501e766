/* Instructions in which the lanes of a warp look at each other's values. Only active lanes take
 * part; a source lane that does not gives the reader its own value (hardware leaves it open). */
#include "interp/interp_priv.h"

#include <string.h>

enum { SLOTS = TS_MAX_VECTOR_LANES * TS__LANES };

/* --- shfl */

/* Source lane as PTX defines it, c = clamp and segment mask being made of the width as CUDA's
 * intrinsics do (DOC, PTX ISA, shfl.sync). */
static uint32_t shuffle_source(int64_t mode, uint32_t lane, uint32_t b, uint32_t width) {
  uint32_t segment_mask = (TS__LANES - width) & 31;
  uint32_t clamp = mode == TS_IR_MODE_up ? 0 : 31;
  uint32_t min_lane = lane & segment_mask;
  uint32_t max_lane = min_lane | (clamp & ~segment_mask);
  uint32_t distance = b & 31;
  switch (mode) {
  case TS_IR_MODE_up: /* lane - b >= max_lane, in signed numbers */
    return distance <= lane && lane - distance >= max_lane ? lane - distance : lane;
  case TS_IR_MODE_down: return lane + distance <= max_lane ? lane + distance : lane;
  case TS_IR_MODE_bfly: return (lane ^ distance) <= max_lane ? lane ^ distance : lane;
  default: return min_lane | (b & 31 & ~segment_mask);
  }
}

void ts__shuffle_sources(const struct ts__warp *warp, const struct ts__code *code,
                         uint32_t source[TS__LANES]) {
  const struct ts__operand *distance = &code->operands[1];
  if (distance->is_uniform && code->scale == TS_IR_MODE_bfly && warp->active == UINT32_MAX &&
      ts__operand_lane(warp, &code->operands[2], 0) == TS__LANES && code->operands[2].is_uniform) {
    uint32_t bits = (uint32_t)ts__operand_lane(warp, distance, 0) & 31;
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      source[lane] = lane ^ bits;
    return;
  }
  uint64_t b[TS__LANES], width[TS__LANES];
  ts__operand_lanes64(warp, &code->operands[1], b);
  ts__operand_lanes64(warp, &code->operands[2], width);
  for (uint32_t lane = 0; lane < TS__LANES; lane++) {
    uint32_t chosen = shuffle_source(code->scale, lane, (uint32_t)b[lane], (uint32_t)width[lane]);
    source[lane] = warp->active >> chosen & 1 ? chosen : lane;
  }
}

enum ts__step ts__exec_shfl(struct ts__warp *warp, const struct ts__code *code) {
  _Alignas(64) uint64_t scratch[SLOTS];
  _Alignas(64) uint64_t result[SLOTS];
  uint32_t source[TS__LANES];
  ts__shuffle_sources(warp, code, source);
  if (code->dst_is_wide) {
    const uint64_t *slots = ts__operand_slots64(warp, &code->operands[0], scratch);
    for (uint32_t i = 0; i < code->lanes; i++)
      for (uint32_t lane = 0; lane < TS__LANES; lane++)
        result[i * TS__LANES + lane] = slots[i * TS__LANES + source[lane]];
    ts__write_slots64(warp, code, result);
    return TS__STEP_NEXT;
  }
  const uint32_t *slots = ts__operand_slots32(warp, &code->operands[0], (uint32_t *)scratch);
  uint32_t *out = (uint32_t *)result;
  for (uint32_t i = 0; i < code->lanes; i++)
    warp->program->lanes->permute32(out + i * TS__LANES, slots + i * TS__LANES, source);
  ts__write_slots32(warp, code, out);
  return TS__STEP_NEXT;
}

/* --- results that are one number for the warp */

static void write_same(struct ts__warp *warp, const struct ts__code *code, uint64_t value) {
  if (code->dst_is_wide) {
    uint64_t slots[TS__LANES];
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      slots[lane] = value;
    ts__write_slots64(warp, code, slots);
    return;
  }
  uint32_t slots[TS__LANES];
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    slots[lane] = (uint32_t)value;
  ts__write_slots32(warp, code, slots);
}

/* Active lanes of the member mask (of the first active lane: it must be one number). */
static uint32_t members(const struct ts__warp *warp, const struct ts__operand *mask) {
  uint32_t lane = ts__first_lane(warp->active);
  return (uint32_t)ts__operand_lane(warp, mask, lane) & warp->active;
}

/* any: some member's predicate holds; all: no member's fails; ballot: those that hold */
enum ts__step ts__exec_vote(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t lanes = members(warp, &code->operands[1]), ballot = 0;
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    if (ts__operand_lane(warp, &code->operands[0], lane)) ballot |= 1u << lane;
  ballot &= lanes;
  switch (code->scale) {
  case TS_IR_MODE_any: write_same(warp, code, ballot != 0); break;
  case TS_IR_MODE_all: write_same(warp, code, ballot == lanes); break;
  default: write_same(warp, code, ballot); break;
  }
  return TS__STEP_NEXT;
}

static uint32_t lanes_equal(const uint64_t value[TS__LANES], uint32_t lanes, uint64_t wanted) {
  uint32_t equal = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1)
    if (value[ts__first_lane(rest)] == wanted) equal |= rest & (0u - rest);
  return equal;
}

/* any: the members with this lane's value; all: the members when all have one value, else 0 */
enum ts__step ts__exec_match(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t lanes = members(warp, &code->operands[1]), result[TS__LANES];
  bool wants_all = code->scale == TS_IR_MODE_all;
  uint64_t value[TS__LANES];
  ts__operand_lanes64(warp, &code->operands[0], value);
  uint64_t first = value[lanes ? ts__first_lane(lanes) : 0];
  for (uint32_t lane = 0; lane < TS__LANES; lane++) {
    result[lane] = lanes_equal(value, lanes, wants_all ? first : value[lane]);
    if (wants_all && result[lane] != lanes) result[lane] = 0;
  }
  ts__write_slots32(warp, code, result);
  return TS__STEP_NEXT;
}

/* Lanes ascending. code->kernel is the operation. */
enum ts__step ts__exec_redux(struct ts__warp *warp, const struct ts__code *code) {
  ts_binary_fn kernel = (ts_binary_fn)code->kernel;
  uint32_t lanes = members(warp, &code->operands[1]);
  if (!lanes) {
    write_same(warp, code, 0);
    return TS__STEP_NEXT;
  }
  /* A slot of either width: 32-bit ones are the low half. */
  union {
    uint64_t wide;
    uint32_t narrow;
  } sum = {0}, term = {0};
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    uint64_t value = ts__operand_lane(warp, &code->operands[0], ts__first_lane(rest));
    if (code->dst_is_wide)
      term.wide = value;
    else
      term.narrow = (uint32_t)value;
    if (rest == lanes)
      sum = term;
    else
      kernel(&sum, &sum, &term, 1);
  }
  write_same(warp, code, code->dst_is_wide ? sum.wide : sum.narrow);
  return TS__STEP_NEXT;
}

/* Lane 0 of the elected warps: one per ceil(i / 32) warps, i = 0 for the block's first alone. */
enum ts__step ts__exec_elect(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t threads = (uint32_t)ts__operand_lane(warp, &code->operands[0], 0);
  uint32_t warps = (threads + TS__LANES - 1) / TS__LANES;
  bool is_elected_warp = warps ? warp->index % warps == 0 : warp->index == 0;
  uint32_t slots[TS__LANES] = {is_elected_warp};
  ts__write_slots32(warp, code, slots);
  return TS__STEP_NEXT;
}

/* Lanes that are active together are in step already, and the others meet them at a join. */
enum ts__step ts__exec_warp_sync(struct ts__warp *warp, const struct ts__code *code) {
  (void)warp;
  (void)code;
  return TS__STEP_NEXT;
}

/* Registers of a thread are not counted here: a hint. */
enum ts__step ts__exec_set_max_nreg(struct ts__warp *warp, const struct ts__code *code) {
  (void)warp;
  (void)code;
  return TS__STEP_NEXT;
}
