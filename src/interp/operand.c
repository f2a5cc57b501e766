/* Operands as lanes see them: splatting uniform values, widening integers, addresses, and merging
 * results under the active mask. */
#include "interp/interp_priv.h"

#include <string.h>

_Static_assert(TS_DTYPE_COUNT <= 64, "TS__WIDE_DTYPES has a bit per dtype");

/* Words of all ones for the lanes of a nibble of the mask. */
static const uint32_t nibble_masks[16][4] = {
#define ROW(n)                                                                                     \
  { (n) & 1 ? ~0u : 0, (n)&2 ? ~0u : 0, (n)&4 ? ~0u : 0, (n)&8 ? ~0u : 0 }
    ROW(0), ROW(1),  ROW(2),  ROW(3),  ROW(4),  ROW(5),  ROW(6), ROW(7), ROW(8),
    ROW(9), ROW(10), ROW(11), ROW(12), ROW(13), ROW(14), ROW(15)
#undef ROW
};

static void expand_mask(uint32_t mask, uint32_t words[TS__LANES]) {
  for (uint32_t i = 0; i < TS__LANES / 4; i++)
    memcpy(words + 4 * i, nibble_masks[mask >> 4 * i & 15], sizeof nibble_masks[0]);
}

const uint32_t *ts__operand_slots32(const struct ts__warp *warp, const struct ts__operand *operand,
                                    uint32_t *scratch) {
  const uint32_t *words = ts__operand_words(warp, operand);
  if (!operand->is_uniform) return words;
  if (operand->base == TS__BASE_CONST) return warp->program->constants + operand->extra;
  for (uint32_t i = 0; i < operand->lanes; i++) {
    uint32_t value = words[i];
    uint32_t *slots = scratch + i * TS__LANES;
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      slots[lane] = value;
  }
  return scratch;
}

const uint64_t *ts__operand_slots64(const struct ts__warp *warp, const struct ts__operand *operand,
                                    uint64_t *scratch) {
  const uint64_t *words = (const uint64_t *)(const void *)ts__operand_words(warp, operand);
  if (!operand->is_uniform) return words;
  if (operand->base == TS__BASE_CONST)
    return (const uint64_t *)(const void *)(warp->program->constants + operand->extra);
  for (uint32_t i = 0; i < operand->lanes; i++) {
    uint64_t value = words[i];
    uint64_t *slots = scratch + i * TS__LANES;
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      slots[lane] = value;
  }
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

static void blend32(uint32_t *dst, const uint32_t *slots, uint32_t component_count,
                    uint32_t active) {
  uint32_t mask[TS__LANES];
  expand_mask(active, mask);
  for (uint32_t i = 0; i < component_count; i++)
    for (uint32_t lane = 0; lane < TS__LANES; lane++) {
      uint32_t k = i * TS__LANES + lane;
      dst[k] = (dst[k] & ~mask[lane]) | (slots[k] & mask[lane]);
    }
}

static void blend64(uint64_t *dst, const uint64_t *slots, uint32_t component_count,
                    uint32_t active) {
  for (uint32_t i = 0; i < component_count; i++)
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      if (active >> lane & 1) dst[i * TS__LANES + lane] = slots[i * TS__LANES + lane];
}

void ts__blend(struct ts__warp *warp, const struct ts__code *code, const void *slots) {
  uint32_t *dst = warp->regs + code->dst;
  uint32_t component_count = code->slot_count / TS__LANES;
  if (code->dst_is_wide)
    blend64((uint64_t *)(void *)dst, slots, component_count, warp->active);
  else
    blend32(dst, slots, component_count, warp->active);
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

void ts__words_of_slots(uint32_t *words, const void *source, uint8_t dtype, uint32_t lanes,
                        uint32_t count) {
  unsigned bits = ts_dtype_bits((enum ts_dtype)dtype);
  if (bits == 64) {
    const uint64_t *slots = source;
    for (uint32_t i = 0; i < lanes; i++)
      for (uint32_t k = 0; k < count; k++) {
        words[2 * i * count + k] = (uint32_t)slots[i * count + k];
        words[(2 * i + 1) * count + k] = (uint32_t)(slots[i * count + k] >> 32);
      }
    return;
  }
  const uint32_t *slots = source;
  uint32_t mask = bits == 32 ? UINT32_MAX : (1u << bits) - 1, per_word = 32 / bits;
  for (uint32_t i = 0; i < lanes; i++) {
    uint32_t *word = words + i / per_word * count;
    uint32_t shift = i % per_word * bits;
    for (uint32_t k = 0; k < count; k++) {
      uint32_t field = (slots[i * count + k] & mask) << shift;
      word[k] = shift ? word[k] | field : field;
    }
  }
}

static uint32_t slot_of_field(uint8_t dtype, uint32_t field, unsigned bits) {
  if (dtype == TS_DTYPE_pred) return field != 0;
  if (!ts_dtype_is_signed_int((enum ts_dtype)dtype) || bits == 32) return field;
  uint32_t sign = 1u << (bits - 1);
  return (field ^ sign) - sign;
}

void ts__slots_of_words(void *target, const uint32_t *words, uint8_t dtype, uint32_t lanes,
                        uint32_t count) {
  unsigned bits = ts_dtype_bits((enum ts_dtype)dtype);
  if (bits == 64) {
    uint64_t *slots = target;
    for (uint32_t i = 0; i < lanes; i++)
      for (uint32_t k = 0; k < count; k++)
        slots[i * count + k] = words[2 * i * count + k] | (uint64_t)words[(2 * i + 1) * count + k]
                                                              << 32;
    return;
  }
  uint32_t *slots = target;
  uint32_t mask = bits == 32 ? UINT32_MAX : (1u << bits) - 1, per_word = 32 / bits;
  bool is_plain = dtype != TS_DTYPE_pred && !ts_dtype_is_signed_int((enum ts_dtype)dtype);
  for (uint32_t i = 0; i < lanes; i++) {
    const uint32_t *word = words + i / per_word * count;
    uint32_t shift = i % per_word * bits;
    for (uint32_t k = 0; k < count; k++)
      slots[i * count + k] = word[k] >> shift & mask;
    for (uint32_t k = 0; !is_plain && k < count; k++)
      slots[i * count + k] = slot_of_field(dtype, slots[i * count + k], bits);
  }
}
