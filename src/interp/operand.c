/* Operands as lanes see them: splatting uniform values, widening integers, addresses, and merging
 * results under the active mask. */
#include "interp/interp_priv.h"

#include <string.h>

_Static_assert(TS_DTYPE_COUNT <= 64, "TS__WIDE_DTYPES has a bit per dtype");

const struct ts__lane_ops *ts__lane_ops_find(enum ts_isa isa) {
  if (isa >= TS_ISA_AVX512 && ts__lane_ops_avx512.splat32) return &ts__lane_ops_avx512;
  if (isa >= TS_ISA_AVX2 && ts__lane_ops_avx2.splat32) return &ts__lane_ops_avx2;
  return &ts__lane_ops_portable;
}

const uint32_t *ts__operand_slots32(const struct ts__warp *warp, const struct ts__operand *operand,
                                    uint32_t *scratch) {
  const uint32_t *words = ts__operand_words(warp, operand);
  if (!operand->is_uniform) return words;
  if (operand->base == TS__BASE_CONST) return warp->program->constants + operand->extra;
  warp->program->lanes->splat32(scratch, words, operand->lanes);
  return scratch;
}

const uint64_t *ts__operand_slots64(const struct ts__warp *warp, const struct ts__operand *operand,
                                    uint64_t *scratch) {
  const uint64_t *words = (const uint64_t *)(const void *)ts__operand_words(warp, operand);
  if (!operand->is_uniform) return words;
  if (operand->base == TS__BASE_CONST)
    return (const uint64_t *)(const void *)(warp->program->constants + operand->extra);
  warp->program->lanes->splat64(scratch, words, operand->lanes);
  return scratch;
}

/* A 32-bit slot widened as its dtype says. Slots of s8 and s16 are sign-extended already. */
static uint64_t widen(uint8_t dtype, uint32_t slot) {
  return ts_dtype_is_signed_int(dtype) ? (uint64_t)(int64_t)(int32_t)slot : slot;
}

void ts__operand_lanes64(const struct ts__warp *warp, const struct ts__operand *operand,
                         uint64_t out[TS__LANES]) {
  const uint32_t *words = ts__operand_words(warp, operand);
  if (operand->is_uniform) {
    uint64_t value = ts__operand_lane(warp, operand, 0);
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      out[lane] = value;
  } else if (ts__is_wide(operand->dtype)) {
    memcpy(out, words, TS__LANES * sizeof *out);
  } else if (ts_dtype_is_signed_int(operand->dtype)) {
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      out[lane] = (uint64_t)(int64_t)(int32_t)words[lane];
  } else {
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      out[lane] = words[lane];
  }
}

uint64_t ts__operand_lane(const struct ts__warp *warp, const struct ts__operand *operand,
                          uint32_t lane) {
  const uint32_t *words = ts__operand_words(warp, operand);
  uint32_t index = operand->is_uniform ? 0 : lane;
  if (!ts__is_wide(operand->dtype)) return widen(operand->dtype, words[index]);
  uint64_t value;
  memcpy(&value, words + 2 * index, sizeof value);
  return value;
}

void ts__address_lanes(const struct ts__warp *warp, const struct ts__code *code,
                       const struct ts__operand *base, const struct ts__operand *index,
                       int64_t scale, int64_t offset, uint64_t out[TS__LANES]) {
  (void)code;
  if (base->is_uniform) {
    uint64_t start = ts__operand_lane(warp, base, 0) + (uint64_t)offset;
    ts__operand_lanes64(warp, index, out);
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      out[lane] = start + out[lane] * (uint64_t)scale;
    return;
  }
  uint64_t steps[TS__LANES];
  ts__operand_lanes64(warp, base, out);
  ts__operand_lanes64(warp, index, steps);
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    out[lane] += steps[lane] * (uint64_t)scale + (uint64_t)offset;
}

void ts__blend(struct ts__warp *warp, const struct ts__code *code, const void *slots) {
  const struct ts__lane_ops *lanes = warp->program->lanes;
  uint32_t *dst = warp->regs + code->dst;
  uint32_t component_count = code->slot_count / TS__LANES;
  if (code->dst_is_wide)
    lanes->blend64((uint64_t *)(void *)dst, slots, component_count, warp->active);
  else
    lanes->blend32(dst, slots, component_count, warp->active);
}

/* A uniform dst keeps the first active lane's value of each component. */
void ts__write_slots32(struct ts__warp *warp, const struct ts__code *code, const uint32_t *slots) {
  uint32_t *dst = warp->regs + code->dst;
  if (code->dst_is_uniform) {
    uint32_t lane = ts__first_lane(warp->active);
    for (uint32_t i = 0; i < code->slot_count; i++)
      dst[i] = slots[i * TS__LANES + lane];
  } else if (ts__writes_all(warp, code)) {
    memcpy(dst, slots, code->slot_count * sizeof *dst);
  } else {
    ts__blend(warp, code, slots);
  }
}

void ts__write_slots64(struct ts__warp *warp, const struct ts__code *code, const uint64_t *slots) {
  uint64_t *dst = (uint64_t *)(void *)(warp->regs + code->dst);
  if (code->dst_is_uniform) {
    uint32_t lane = ts__first_lane(warp->active);
    for (uint32_t i = 0; i < code->slot_count; i++)
      dst[i] = slots[i * TS__LANES + lane];
  } else if (ts__writes_all(warp, code)) {
    memcpy(dst, slots, code->slot_count * sizeof *dst);
  } else {
    ts__blend(warp, code, slots);
  }
}

/* --- components and the little-endian 32-bit words they make up */

static uint32_t log2_of(unsigned bits) { return (uint32_t)__builtin_ctz(bits); }

static void words_of_wide(uint32_t *words, const uint64_t *slots, uint32_t lanes, uint32_t count) {
  for (uint32_t i = 0; i < lanes; i++)
    for (uint32_t k = 0; k < count; k++) {
      words[2 * i * count + k] = (uint32_t)slots[i * count + k];
      words[(2 * i + 1) * count + k] = (uint32_t)(slots[i * count + k] >> 32);
    }
}

static void wide_of_words(uint64_t *slots, const uint32_t *words, uint32_t lanes, uint32_t count) {
  for (uint32_t i = 0; i < lanes; i++)
    for (uint32_t k = 0; k < count; k++)
      slots[i * count + k] = words[2 * i * count + k] | (uint64_t)words[(2 * i + 1) * count + k]
                                                            << 32;
}

void ts__words_of_slots(const struct ts__lane_ops *ops, uint32_t *words, const void *slots,
                        uint8_t dtype, uint32_t lanes, uint32_t count) {
  unsigned bits = ts_dtype_bits((enum ts_dtype)dtype);
  const uint32_t *narrow = slots;
  if (bits == 64) {
    words_of_wide(words, slots, lanes, count);
  } else if (bits == 32) {
    memcpy(words, slots, (size_t)lanes * count * sizeof *words);
  } else if (count == TS__LANES) {
    ops->pack[log2_of(bits)](words, narrow, lanes);
  } else { /* a uniform value: one column */
    for (uint32_t i = 0; i < lanes; i++) {
      uint32_t shift = i % (32 / bits) * bits, w = i / (32 / bits);
      uint32_t value = (narrow[i] & ((1u << bits) - 1)) << shift;
      words[w] = shift ? words[w] | value : value;
    }
  }
}

/* Fields were zero-extended. */
static void finish_slots(const struct ts__lane_ops *ops, uint32_t *slots, uint8_t dtype,
                         unsigned bits, uint32_t lanes, uint32_t count) {
  bool is_signed = ts_dtype_is_signed_int((enum ts_dtype)dtype);
  uint32_t sign = 1u << (bits - 1);
  if (is_signed && count == TS__LANES) ops->sign_extend(slots, lanes, bits);
  for (uint32_t i = 0; is_signed && count != TS__LANES && i < lanes * count; i++)
    slots[i] = (slots[i] ^ sign) - sign;
  for (uint32_t i = 0; dtype == TS_DTYPE_pred && i < lanes * count; i++)
    slots[i] = slots[i] != 0;
}

void ts__slots_of_words(const struct ts__lane_ops *ops, void *slots, const uint32_t *words,
                        uint8_t dtype, uint32_t lanes, uint32_t count) {
  unsigned bits = ts_dtype_bits((enum ts_dtype)dtype);
  uint32_t *narrow = slots;
  if (bits == 64) {
    wide_of_words(slots, words, lanes, count);
  } else if (bits == 32) {
    memcpy(slots, words, (size_t)lanes * count * sizeof *words);
  } else {
    if (count == TS__LANES)
      ops->unpack[log2_of(bits)](slots, words, lanes);
    else
      for (uint32_t i = 0; i < lanes; i++)
        narrow[i] = words[i / (32 / bits)] >> i % (32 / bits) * bits & ((1u << bits) - 1);
    finish_slots(ops, slots, dtype, bits, lanes, count);
  }
}

void ts__slots_of_field(const struct ts__lane_ops *ops, uint32_t *slots, const uint32_t *word,
                        uint32_t shift, uint8_t dtype) {
  unsigned bits = ts_dtype_bits((enum ts_dtype)dtype);
  ops->field(slots, word, shift, (1u << bits) - 1);
  finish_slots(ops, slots, dtype, bits, 1, TS__LANES);
}
