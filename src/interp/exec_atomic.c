/* Atomic operations on global and shared memory: lanes ascending, and in a lane the components
 * ascending, each a read-modify-write of its own. */
#include "interp/check_priv.h"

#include <string.h>

struct slots {
  _Alignas(64) uint64_t words[TS_MAX_VECTOR_LANES * TS__LANES];
};

/* A slot of either width: narrow ones are the low half. */
union slot {
  uint64_t wide;
  uint32_t narrow;
};

static union slot slot_of(bool is_wide, const void *slots, uint32_t k) {
  union slot slot = {0};
  if (is_wide)
    slot.wide = ((const uint64_t *)slots)[k];
  else
    slot.narrow = ((const uint32_t *)slots)[k];
  return slot;
}

static const void *value_slots(const struct ts__warp *warp, const struct ts__code *code, uint32_t i,
                               struct slots *scratch) {
  if (i >= code->operand_count) {
    memset(scratch->words, 0, sizeof scratch->words);
    return scratch->words;
  }
  if (ts__is_wide(code->dtype))
    return ts__operand_slots64(warp, &code->operands[i], scratch->words);
  return ts__operand_slots32(warp, &code->operands[i], (uint32_t *)scratch->words);
}

static uint64_t number(bool is_wide, union slot slot) { return is_wide ? slot.wide : slot.narrow; }

static union slot slot_from(bool is_wide, uint64_t value) {
  union slot slot = {0};
  if (is_wide)
    slot.wide = value;
  else
    slot.narrow = (uint32_t)value;
  return slot;
}

/* What the element becomes. inc and dec are unsigned and wrap at c (DOC, CUDA C Programming Guide,
 * atomicInc, atomicDec). */
static union slot updated(const struct ts__code *code, int64_t reduce, union slot old, union slot c,
                          union slot d) {
  bool is_wide = ts__is_wide(code->dtype);
  uint64_t old_number = number(is_wide, old), limit = number(is_wide, c);
  switch (reduce) {
  case TS_IR_REDUCE_exch:
  case TS_IR_REDUCE_store: return c;
  case TS_IR_REDUCE_load: return old;
  case TS_IR_REDUCE_cas: return old_number == limit ? d : old;
  case TS_IR_REDUCE_inc: return slot_from(is_wide, old_number >= limit ? 0 : old_number + 1);
  case TS_IR_REDUCE_dec:
    return slot_from(is_wide, old_number == 0 || old_number > limit ? limit : old_number - 1);
  default: {
    ts_binary_fn kernel = (ts_binary_fn)code->kernel;
    union slot result = {0};
    kernel(&result, &old, &c, 1);
    return result;
  }
  }
}

static void update_lane(const struct ts__code *code, int64_t reduce, uint8_t *target, uint32_t lane,
                        const void *c, const void *d, void *old_slots) {
  enum ts_dtype dtype = (enum ts_dtype)code->dtype;
  bool is_wide = ts__is_wide(code->dtype);
  uint32_t size_bytes = ts_dtype_bits(dtype) / 8;
  for (uint32_t i = 0; i < code->lanes; i++) {
    uint32_t k = i * TS__LANES + lane;
    union slot old = {0};
    ts_dtype_unpack(dtype, &old, target + i * size_bytes, 1);
    union slot result = updated(code, reduce, old, slot_of(is_wide, c, k), slot_of(is_wide, d, k));
    ts_dtype_pack(dtype, target + i * size_bytes, &result, 1);
    if (is_wide)
      ((uint64_t *)old_slots)[k] = old.wide;
    else
      ((uint32_t *)old_slots)[k] = old.narrow;
  }
}

static enum ts__step atomic(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                            bool has_dst) {
  struct ts__access access;
  struct slots c_slots, d_slots, old = {{0}};
  int64_t reduce = code->ext;
  enum ts__step step = ts__resolve(warp, code, space, true, &access);
  if (step != TS__STEP_NEXT) return step;
  if (ts__listening(warp->block)) {
    warp->block->status = ts__emit_memory(warp, code, space, true, &access);
    if (warp->block->status != TS_OK) return TS__STEP_FAULT;
  }
  if (warp->block->check &&
      ts__check_access(warp, code, space, TS__ACCESS_ATOMIC, &access) != TS__STEP_NEXT)
    return TS__STEP_FAULT;
  const void *c = value_slots(warp, code, 2, &c_slots);
  const void *d = reduce == TS_IR_REDUCE_cas ? value_slots(warp, code, 3, &d_slots) : c;
  for (uint32_t rest = access.mask; rest; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    update_lane(code, reduce, ts__access_pointer(warp, space, &access, lane), lane, c, d,
                old.words);
  }
  if (space == TS_SPACE_SHARED) warp->block->shared.version++;
  if (!has_dst) return TS__STEP_NEXT;
  if (code->dst_is_wide)
    ts__write_slots64(warp, code, old.words);
  else
    ts__write_slots32(warp, code, (const uint32_t *)old.words);
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_atom_global(struct ts__warp *warp, const struct ts__code *code) {
  return atomic(warp, code, TS_SPACE_GLOBAL, false);
}

enum ts__step ts__exec_atom_shared(struct ts__warp *warp, const struct ts__code *code) {
  return atomic(warp, code, TS_SPACE_SHARED, false);
}

enum ts__step ts__exec_atom_global_ret(struct ts__warp *warp, const struct ts__code *code) {
  return atomic(warp, code, TS_SPACE_GLOBAL, true);
}

enum ts__step ts__exec_atom_shared_ret(struct ts__warp *warp, const struct ts__code *code) {
  return atomic(warp, code, TS_SPACE_SHARED, true);
}
