/* Arrays in the lanes' registers: word w of lane l is at [w * 32 + l].
 *
 * The usual index is one number for the warp and a multiple of a word: then the elements are whole
 * rows of words, as registers are. */
#include "interp/interp_priv.h"

#include <string.h>

struct slots {
  _Alignas(64) uint64_t words[TS_MAX_VECTOR_LANES * TS__LANES];
};

enum { WORD_BITS = 32, OUT_OF_BOUNDS = -1 };

static unsigned element_bits(const struct ts__code *code) {
  return ts_dtype_bits((enum ts_dtype)code->dtype);
}

static enum ts__step report(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                            int64_t index) {
  const struct ts_function *function = warp->program->function;
  const struct ts_operand *source = ts_insn_operand(function, &function->insns.data[code->insn], 0);
  const struct ts_array *array = &function->arrays.data[source->index];
  return ts__hazard(warp, code, TS_DIAG_BOUNDS_LOCAL, lane, TS_NONE, NULL,
                    "%s of %u %s at element %lld of array %s, which has %llu elements of %s",
                    ts_op_info((enum ts_op)code->op)->mnemonic, code->lanes,
                    ts_dtype_name((enum ts_dtype)code->dtype), (long long)index,
                    array->name ? array->name : "?", (unsigned long long)array->elem_count,
                    ts_dtype_name((enum ts_dtype)array->dtype));
}

/* First bit of the elements at the index, or OUT_OF_BOUNDS. */
static int64_t bit_offset(const struct ts__code *code, int64_t index) {
  int64_t bits = element_bits(code), limit = (int64_t)code->operands[0].extra * 8;
  if (index < 0 || index > limit / bits - code->lanes) return OUT_OF_BOUNDS;
  return index * bits;
}

/* False when a wgmma in flight uses the words (it has been reported). */
static bool is_free(struct ts__warp *warp, const struct ts__code *code, int64_t first_bit,
                    bool is_write) {
  if (!ts__wgmma_in_flight(warp)) return true;
  int64_t last_bit = first_bit + (int64_t)element_bits(code) * code->lanes - 1;
  uint32_t first = (uint32_t)(first_bit / WORD_BITS), last = (uint32_t)(last_bit / WORD_BITS);
  uint32_t base = code->operands[0].offset / TS__LANES;
  return !ts__wgmma_conflict(warp, code, base + first, last - first + 1, is_write) ||
         warp->block->status == TS_OK;
}

static uint32_t *array_words(const struct ts__warp *warp, const struct ts__code *code) {
  return warp->local + code->operands[0].offset;
}

static uint32_t field_mask(unsigned bits) { return bits >= 32 ? UINT32_MAX : (1u << bits) - 1; }

/* --- single bits fields of one lane; fields may straddle words (6-bit types) */

static uint64_t read_field(const uint32_t *words, uint32_t lane, uint64_t bit, unsigned bits) {
  const uint32_t *word = words + bit / WORD_BITS * TS__LANES + lane;
  unsigned shift = bit % WORD_BITS;
  uint64_t value = word[0] >> shift;
  if (shift + bits > WORD_BITS) value |= (uint64_t)word[TS__LANES] << (WORD_BITS - shift);
  return bits == 64 ? value : value & (((uint64_t)1 << bits) - 1);
}

static void write_field(uint32_t *words, uint32_t lane, uint64_t bit, unsigned bits,
                        uint64_t value) {
  uint32_t *word = words + bit / WORD_BITS * TS__LANES + lane;
  unsigned shift = bit % WORD_BITS, low = shift + bits > WORD_BITS ? WORD_BITS - shift : bits;
  word[0] = (word[0] & ~(field_mask(low) << shift)) | ((uint32_t)value & field_mask(low)) << shift;
  if (low == bits) return;
  unsigned high = bits - low;
  value >>= low;
  word[TS__LANES] = (word[TS__LANES] & ~field_mask(high)) | ((uint32_t)value & field_mask(high));
}

static void set_slot(void *slots, bool is_wide, uint32_t k, uint64_t value) {
  if (is_wide)
    ((uint64_t *)slots)[k] = value;
  else
    ((uint32_t *)slots)[k] = (uint32_t)value;
}

static void load_lane(const struct ts__warp *warp, const struct ts__code *code, void *slots,
                      uint32_t lane, int64_t first_bit) {
  const uint32_t *words = array_words(warp, code);
  unsigned bits = element_bits(code);
  for (uint32_t i = 0; i < code->lanes; i++) {
    uint64_t value = 0;
    if (first_bit != OUT_OF_BOUNDS)
      value = read_field(words, lane, (uint64_t)first_bit + i * bits, bits);
    value = ts_dtype_slot((enum ts_dtype)code->dtype, value);
    set_slot(slots, code->dst_is_wide, i * TS__LANES + lane, value);
  }
}

/* --- one index for the warp */

/* Elements of up to 32 bits that do not start at a word: field by field. */
static void load_fields(const struct ts__warp *warp, const struct ts__code *code,
                        uint64_t first_bit, uint32_t *slots) {
  unsigned bits = element_bits(code);
  for (uint32_t i = 0; i < code->lanes; i++) {
    uint64_t bit = first_bit + i * bits;
    ts__slots_of_field(warp->program->lanes, slots + i * TS__LANES,
                       array_words(warp, code) + bit / WORD_BITS * TS__LANES,
                       (uint32_t)(bit % WORD_BITS), code->dtype);
  }
}

static void load_uniform(const struct ts__warp *warp, const struct ts__code *code,
                         uint64_t first_bit, void *slots) {
  const uint32_t *words = array_words(warp, code);
  const uint32_t *first = words + first_bit / WORD_BITS * TS__LANES;
  unsigned bits = element_bits(code);
  if (bits == 32)
    memcpy(slots, first, code->lanes * TS__LANES * sizeof *first);
  else if (64 % bits != 0)
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      load_lane(warp, code, slots, lane, (int64_t)first_bit);
  else if (first_bit % WORD_BITS == 0)
    ts__slots_of_words(warp->program->lanes, slots, first, code->dtype, code->lanes, TS__LANES);
  else
    load_fields(warp, code, first_bit, slots);
}

/* --- ld.local */

static enum ts__step load_varying(struct ts__warp *warp, const struct ts__code *code, void *slots) {
  uint64_t index[TS__LANES];
  ts__operand_lanes64(warp, &code->operands[1], index);
  bool said = false;
  for (uint32_t rest = warp->active; rest; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    int64_t bit = bit_offset(code, (int64_t)index[lane]);
    if (bit == OUT_OF_BOUNDS && !said) {
      said = true;
      if (report(warp, code, lane, (int64_t)index[lane]) == TS__STEP_FAULT) return TS__STEP_FAULT;
    }
    if (bit != OUT_OF_BOUNDS && !is_free(warp, code, bit, false)) return TS__STEP_FAULT;
    load_lane(warp, code, slots, lane, bit);
  }
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_ld_local(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result;
  bool is_direct = ts__writes_all(warp, code);
  void *slots = is_direct ? (void *)(warp->regs + code->dst) : (void *)result.words;
  if (!code->operands[1].is_uniform) {
    /* Not in place: dst may be the index. */
    if (load_varying(warp, code, result.words) == TS__STEP_FAULT) return TS__STEP_FAULT;
    ts__blend(warp, code, result.words);
    return TS__STEP_NEXT;
  }
  int64_t index = (int64_t)ts__operand_lane(warp, &code->operands[1], 0);
  int64_t bit = bit_offset(code, index);
  if (bit == OUT_OF_BOUNDS) {
    enum ts__step step = report(warp, code, ts__first_lane(warp->active), index);
    if (step == TS__STEP_FAULT) return step;
    memset(slots, 0, code->slot_count * (code->dst_is_wide ? 8u : 4u));
  } else {
    if (!is_free(warp, code, bit, false)) return TS__STEP_FAULT;
    load_uniform(warp, code, (uint64_t)bit, slots);
  }
  if (!is_direct) ts__blend(warp, code, slots);
  return TS__STEP_NEXT;
}

/* --- st.local */

static uint64_t slot_at(const void *slots, bool is_wide, uint32_t k) {
  return is_wide ? ((const uint64_t *)slots)[k] : ((const uint32_t *)slots)[k];
}

static void store_lane(struct ts__warp *warp, const struct ts__code *code, const void *slots,
                       uint32_t lane, uint64_t first_bit) {
  uint32_t *words = array_words(warp, code);
  unsigned bits = element_bits(code);
  bool is_wide = ts__is_wide(code->dtype);
  for (uint32_t i = 0; i < code->lanes; i++)
    write_field(words, lane, first_bit + i * bits, bits,
                slot_at(slots, is_wide, i * TS__LANES + lane));
}

/* Rows of whole words under the active mask. */
static void store_rows(const struct ts__warp *warp, uint32_t *target, const uint32_t *rows,
                       uint32_t row_count) {
  if (warp->active == warp->alive)
    memcpy(target, rows, row_count * TS__LANES * sizeof *rows);
  else
    warp->program->lanes->blend32(target, rows, row_count, warp->active);
}

static void store_fields(const struct ts__warp *warp, const struct ts__code *code, uint32_t *words,
                         uint64_t first_bit, const uint32_t *slots) {
  unsigned bits = element_bits(code);
  for (uint32_t i = 0; i < code->lanes; i++) {
    uint64_t bit = first_bit + i * bits;
    warp->program->lanes->insert(words + bit / WORD_BITS * TS__LANES, slots + i * TS__LANES,
                                 (uint32_t)(bit % WORD_BITS), field_mask(bits), warp->active);
  }
}

static void store_uniform(struct ts__warp *warp, const struct ts__code *code, uint64_t first_bit,
                          const void *slots) {
  uint32_t *words = array_words(warp, code);
  uint32_t *first = words + first_bit / WORD_BITS * TS__LANES;
  unsigned bits = element_bits(code);
  uint32_t total_bits = bits * code->lanes;
  if (bits == 32) {
    store_rows(warp, first, slots, code->lanes);
  } else if (64 % bits != 0) {
    for (uint32_t rest = warp->active; rest; rest &= rest - 1)
      store_lane(warp, code, slots, ts__first_lane(rest), first_bit);
  } else if (first_bit % WORD_BITS == 0 && total_bits % WORD_BITS == 0) {
    struct slots rows;
    ts__words_of_slots(warp->program->lanes, (uint32_t *)rows.words, slots, code->dtype,
                       code->lanes, TS__LANES);
    store_rows(warp, first, (const uint32_t *)rows.words, total_bits / WORD_BITS);
  } else {
    store_fields(warp, code, words, first_bit, slots);
  }
}

static enum ts__step store_varying(struct ts__warp *warp, const struct ts__code *code,
                                   const void *slots) {
  uint64_t index[TS__LANES];
  ts__operand_lanes64(warp, &code->operands[1], index);
  bool said = false;
  for (uint32_t rest = warp->active; rest; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    int64_t bit = bit_offset(code, (int64_t)index[lane]);
    if (bit == OUT_OF_BOUNDS) {
      if (said) continue;
      said = true;
      if (report(warp, code, lane, (int64_t)index[lane]) == TS__STEP_FAULT) return TS__STEP_FAULT;
      continue;
    }
    if (!is_free(warp, code, bit, true)) return TS__STEP_FAULT;
    store_lane(warp, code, slots, lane, (uint64_t)bit);
  }
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_st_local(struct ts__warp *warp, const struct ts__code *code) {
  struct slots scratch;
  const struct ts__operand *value = &code->operands[2];
  const void *slots =
      ts__is_wide(code->dtype)
          ? (const void *)ts__operand_slots64(warp, value, scratch.words)
          : (const void *)ts__operand_slots32(warp, value, (uint32_t *)scratch.words);
  if (!code->operands[1].is_uniform) return store_varying(warp, code, slots);
  int64_t index = (int64_t)ts__operand_lane(warp, &code->operands[1], 0);
  int64_t bit = bit_offset(code, index);
  if (bit == OUT_OF_BOUNDS) return report(warp, code, ts__first_lane(warp->active), index);
  if (!is_free(warp, code, bit, true)) return TS__STEP_FAULT;
  store_uniform(warp, code, (uint64_t)bit, slots);
  return TS__STEP_NEXT;
}
