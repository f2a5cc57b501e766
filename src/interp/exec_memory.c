/* Loads and stores of global and shared memory.
 *
 * An access is first resolved: lane addresses, bounds, alignment, data in flight. Lanes that may
 * not proceed have been reported and are left out (loads give 0). Then the bytes move: what each
 * lane has is consecutive in memory, so a lane's words are a row and slots are columns, and the
 * move is a transposition. */
#include "interp/interp_priv.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { LARGEST_ALIGN_BYTES = 16, MAX_WORDS = TS_MAX_VECTOR_LANES * 2 };

/* Slots or words of a whole instruction. */
struct slots {
  _Alignas(64) uint64_t words[TS_MAX_VECTOR_LANES * TS__LANES];
};

/* --- addresses */

/* When slots are first + lane * step, as 64-bit numbers, says so. */
static bool is_affine32(const uint32_t *slots, bool is_signed, uint64_t *first, int64_t *step) {
  uint32_t difference = slots[1] - slots[0], wrong = 0;
  for (uint32_t lane = 0; lane < 28; lane++)
    wrong |= (slots[lane + 1] - slots[lane]) ^ difference;
  for (uint32_t lane = 28; lane < 31; lane++)
    wrong |= (slots[lane + 1] - slots[lane]) ^ difference;
  if (wrong) return false;
  int64_t begin = is_signed ? (int64_t)(int32_t)slots[0] : (int64_t)slots[0];
  int64_t end = is_signed ? (int64_t)(int32_t)slots[31] : (int64_t)slots[31];
  *first = (uint64_t)begin;
  *step = (int64_t)(int32_t)difference;
  return end - begin == 31 * *step;
}

/* Fills first and stride when one look tells that the addresses are affine. */
static bool find_affine(const struct ts__warp *warp, const struct ts__code *code,
                        struct ts__access *access) {
  const struct ts__operand *base = &code->operands[0], *index = &code->operands[1];
  if (!base->is_uniform) {
    const struct ts__operand *other = base;
    base = index;
    index = other;
    if (!base->is_uniform) return false;
  }
  bool is_swapped = base == &code->operands[1];
  int64_t base_scale = is_swapped ? code->scale : 1, index_scale = is_swapped ? 1 : code->scale;
  uint64_t start = ts__operand_lane(warp, base, 0) * (uint64_t)base_scale + (uint64_t)code->offset;
  uint64_t first;
  int64_t step = 0;
  if (index->is_uniform)
    first = ts__operand_lane(warp, index, 0);
  else if (warp->active != UINT32_MAX || ts__is_wide(index->dtype) ||
           !is_affine32(ts__operand_words(warp, index),
                        ts_dtype_is_signed_int((enum ts_dtype)index->dtype), &first, &step))
    return false;
  access->first = start + first * (uint64_t)index_scale;
  access->stride = step * index_scale;
  return true;
}

/* Lanes that do nothing repeat the first active lane, so that they need no care later. */
static void find_lanes(const struct ts__warp *warp, const struct ts__code *code,
                       struct ts__access *access) {
  ts__address_lanes(warp, code, &code->operands[0], &code->operands[1], code->scale, code->offset,
                    access->lane);
  uint64_t safe = access->lane[ts__first_lane(access->mask)];
  if (access->mask == UINT32_MAX) return;
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    if (!(access->mask >> lane & 1)) access->lane[lane] = safe;
}

static void spread_affine(struct ts__access *access) {
  uint64_t address = access->first;
  for (uint32_t lane = 0; lane < TS__LANES; lane++, address += (uint64_t)access->stride)
    access->lane[lane] = address;
}

static uint64_t lowest(const struct ts__access *access) {
  if (access->is_affine) return access->stride < 0 ? access->lane[31] : access->first;
  uint64_t low = access->lane[0];
  for (uint32_t lane = 1; lane < TS__LANES; lane++)
    low = access->lane[lane] < low ? access->lane[lane] : low;
  return low;
}

static uint64_t highest(const struct ts__access *access) {
  if (access->is_affine) return access->stride < 0 ? access->first : access->lane[31];
  uint64_t high = access->lane[0];
  for (uint32_t lane = 1; lane < TS__LANES; lane++)
    high = access->lane[lane] > high ? access->lane[lane] : high;
  return high;
}

/* A lane's access must be aligned to its size, or to the largest power of two that divides it, at
 * most 16 bytes. */
static uint64_t align_bytes_of(uint32_t size_bytes) {
  uint32_t power = size_bytes & (0u - size_bytes);
  return power < LARGEST_ALIGN_BYTES ? power : LARGEST_ALIGN_BYTES;
}

static bool is_aligned(const struct ts__access *access, uint64_t align_bytes) {
  uint64_t bits = access->first | (uint64_t)access->stride;
  if (!access->is_affine) {
    bits = 0;
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      bits |= access->lane[lane];
  }
  return (bits & (align_bytes - 1)) == 0;
}

/* Host pointer to the bytes [low, high], or NULL when they are not all in one object. */
static uint8_t *host_range(const struct ts__warp *warp, enum ts_space space, uint64_t low,
                           uint64_t size_bytes) {
  if (space == TS_SPACE_GLOBAL) return ts_device_pointer(warp->program->memory, low, size_bytes);
  const struct ts_shared_memory *shared = &warp->block->shared;
  if (low > shared->size_bytes || size_bytes > shared->size_bytes - low) return NULL;
  return shared->data + low;
}

/* --- faults, lane by lane */

static enum ts__step report_global(struct ts__warp *warp, const struct ts__code *code,
                                   uint32_t lane, uint64_t address, uint32_t size_bytes) {
  const struct ts_allocation *allocation = ts_device_find(warp->program->memory, address);
  if (!allocation)
    return ts__hazard(warp, code, TS_DIAG_BOUNDS_GLOBAL, lane, TS_NONE, NULL,
                      "%s of %u bytes at address 0x%llx, which is in no buffer",
                      ts_op_info((enum ts_op)code->op)->mnemonic, size_bytes,
                      (unsigned long long)address);
  enum ts_dtype dtype = (enum ts_dtype)allocation->dtype;
  int64_t bits = ts_dtype_bits(dtype) ? (int64_t)ts_dtype_bits(dtype) : 8;
  int64_t offset = ts_device_offset(address);
  int64_t element = offset >= 0 ? offset * 8 / bits : -((-offset * 8 + bits - 1) / bits);
  return ts__hazard(warp, code, TS_DIAG_BOUNDS_GLOBAL, lane, TS_NONE,
                    "guard the access, or check the shape that the kernel was given",
                    "%s of %u bytes at element %lld of buffer %s, which has %llu elements of %s",
                    ts_op_info((enum ts_op)code->op)->mnemonic, size_bytes, (long long)element,
                    allocation->name ? allocation->name : "?",
                    (unsigned long long)(allocation->size_bytes * 8 / (uint64_t)bits),
                    ts_dtype_name(dtype));
}

static enum ts__step report_shared(struct ts__warp *warp, const struct ts__code *code,
                                   uint32_t lane, uint64_t address, uint32_t size_bytes) {
  return ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE, NULL,
                    "%s of %u bytes at byte %lld of shared memory, of which the block has %llu",
                    ts_op_info((enum ts_op)code->op)->mnemonic, size_bytes, (long long)address,
                    (unsigned long long)warp->block->shared.size_bytes);
}

static enum ts__step report_alignment(struct ts__warp *warp, const struct ts__code *code,
                                      uint32_t lane, uint64_t address, uint64_t align_bytes) {
  return ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
                    "%s of %u bytes at an address that is %llu bytes past a multiple of %llu",
                    ts_op_info((enum ts_op)code->op)->mnemonic,
                    code->lanes * ts_dtype_bits((enum ts_dtype)code->dtype) / 8,
                    (unsigned long long)(address % align_bytes), (unsigned long long)align_bytes);
}

/* Takes the faulty lanes out of the mask; one report per kind of fault. */
static enum ts__step drop_faulty(struct ts__warp *warp, const struct ts__code *code,
                                 enum ts_space space, struct ts__access *access) {
  uint64_t align_bytes = align_bytes_of(access->size_bytes);
  bool said_bounds = false, said_alignment = false;
  enum ts__step step = TS__STEP_NEXT;
  for (uint32_t rest = access->mask; rest && step != TS__STEP_FAULT; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    uint64_t address = access->lane[lane];
    if (!host_range(warp, space, address, access->size_bytes)) {
      access->mask &= ~(1u << lane);
      if (said_bounds) continue;
      said_bounds = true;
      step = space == TS_SPACE_GLOBAL
                 ? report_global(warp, code, lane, address, access->size_bytes)
                 : report_shared(warp, code, lane, address, access->size_bytes);
    } else if (address & (align_bytes - 1)) {
      access->mask &= ~(1u << lane);
      if (said_alignment) continue;
      said_alignment = true;
      step = report_alignment(warp, code, lane, address, align_bytes);
    }
  }
  return step;
}

/* --- data in flight (shared memory) */

/* Races are reported, and the access then sees or leaves the bytes as they are. */
static enum ts__step check_in_flight(struct ts__warp *warp, const struct ts__code *code,
                                     const struct ts__access *access, bool is_write) {
  const struct ts_shared_memory *shared = &warp->block->shared;
  uint64_t low = lowest(access), span = highest(access) - low + access->size_bytes;
  const struct ts_pending *record = is_write
                                        ? ts_pending_check_write(shared, warp->index, low, span)
                                        : ts_pending_check_read(shared, warp->index, low, span);
  if (!record && !(is_write && warp->block->wgmma_count)) return TS__STEP_NEXT;
  for (uint32_t rest = access->mask; rest; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    if (!ts__shared_settled(warp, code->insn, lane, access->lane[lane], access->size_bytes,
                            is_write))
      return TS__STEP_FAULT;
  }
  return TS__STEP_NEXT;
}

static bool has_in_flight(const struct ts__block *block, bool is_write) {
  return block->shared.live_count || (is_write && block->wgmma_count);
}

/* --- resolving */

enum ts__step ts__resolve(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                          bool is_write, struct ts__access *access) {
  access->mask = warp->active;
  access->size_bytes = (uint32_t)ts_dtype_packed_bytes((enum ts_dtype)code->dtype, code->lanes);
  access->is_affine = find_affine(warp, code, access);
  if (access->is_affine)
    spread_affine(access);
  else
    find_lanes(warp, code, access);
  uint64_t low = lowest(access), span = highest(access) - low + access->size_bytes;
  access->origin = host_range(warp, space, low, span);
  access->origin_address = low;
  if (!access->origin || !is_aligned(access, align_bytes_of(access->size_bytes))) {
    enum ts__step step = drop_faulty(warp, code, space, access);
    if (step == TS__STEP_FAULT || access->mask == 0) return step;
    access->is_affine = false;
    uint64_t safe = access->lane[ts__first_lane(access->mask)];
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      if (!(access->mask >> lane & 1)) access->lane[lane] = safe;
    /* The lanes that are left may lie in several buffers: each has its own pointer. */
    access->origin = NULL;
  }
  if (space == TS_SPACE_SHARED && has_in_flight(warp->block, is_write))
    return check_in_flight(warp, code, access, is_write);
  return TS__STEP_NEXT;
}

uint8_t *ts__access_pointer(const struct ts__warp *warp, enum ts_space space,
                            const struct ts__access *access, uint32_t lane) {
  if (access->origin) return access->origin + (access->lane[lane] - access->origin_address);
  return host_range(warp, space, access->lane[lane], access->size_bytes);
}

static void find_pointers(const struct ts__warp *warp, enum ts_space space,
                          const struct ts__access *access, uint8_t *pointers[TS__LANES]) {
  if (access->origin) {
    uint8_t *origin = access->origin;
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      pointers[lane] = origin + (access->lane[lane] - access->origin_address);
    return;
  }
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    pointers[lane] = ts__access_pointer(warp, space, access, lane);
}

enum ts_status ts__emit_memory(struct ts__warp *warp, const struct ts__code *code,
                               enum ts_space space, bool is_write,
                               const struct ts__access *access) {
  uint32_t lane_count = (uint32_t)__builtin_popcount(warp->active);
  uint64_t lanes[TS__LANES];
  struct ts_event event = {.kind = TS_EVENT_MEMORY,
                           .src_space = is_write ? TS_SPACE_LOCAL : (uint8_t)space,
                           .dst_space = is_write ? (uint8_t)space : TS_SPACE_LOCAL,
                           .bytes = lane_count * access->size_bytes};
  struct ts_footprint footprint = {.kind = TS_FOOTPRINT_AFFINE,
                                   .space = (uint8_t)space,
                                   .size_bytes = access->size_bytes,
                                   .base = access->first,
                                   .lane_stride = access->stride};
  if (!access->is_affine) {
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      lanes[lane] = warp->active >> lane & 1 ? access->lane[lane] : 0;
    footprint.kind = TS_FOOTPRINT_LANES;
    footprint.lanes = lanes;
  }
  return ts__emit(warp, code, event, &footprint);
}

/* --- moving words: rows of memory <-> columns of slots */

#ifdef __SSE2__
static void transpose4(__m128i row[4]) {
  __m128i low01 = _mm_unpacklo_epi32(row[0], row[1]), high01 = _mm_unpackhi_epi32(row[0], row[1]);
  __m128i low23 = _mm_unpacklo_epi32(row[2], row[3]), high23 = _mm_unpackhi_epi32(row[2], row[3]);
  row[0] = _mm_unpacklo_epi64(low01, low23);
  row[1] = _mm_unpackhi_epi64(low01, low23);
  row[2] = _mm_unpacklo_epi64(high01, high23);
  row[3] = _mm_unpackhi_epi64(high01, high23);
}

/* Words w .. w + 3 of every lane. */
static void load_four(uint32_t *words, uint8_t *const pointers[TS__LANES], uint32_t w) {
  for (uint32_t lane = 0; lane < TS__LANES; lane += 4) {
    __m128i row[4];
    for (uint32_t i = 0; i < 4; i++)
      row[i] = _mm_loadu_si128((const __m128i *)(const void *)(pointers[lane + i] + 4 * w));
    transpose4(row);
    for (uint32_t i = 0; i < 4; i++)
      _mm_storeu_si128((__m128i *)(void *)(words + (w + i) * TS__LANES + lane), row[i]);
  }
}

static void store_four(const uint32_t *words, uint8_t *const pointers[TS__LANES], uint32_t w,
                       uint32_t mask) {
  for (uint32_t lane = 0; lane < TS__LANES; lane += 4) {
    __m128i row[4];
    for (uint32_t i = 0; i < 4; i++)
      row[i] = _mm_loadu_si128((const __m128i *)(const void *)(words + (w + i) * TS__LANES + lane));
    transpose4(row);
    for (uint32_t i = 0; i < 4; i++)
      if (mask >> (lane + i) & 1)
        _mm_storeu_si128((__m128i *)(void *)(pointers[lane + i] + 4 * w), row[i]);
  }
}
#endif

static void load_word(uint32_t *words, uint8_t *const pointers[TS__LANES], uint32_t w) {
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    memcpy(words + w * TS__LANES + lane, pointers[lane] + 4 * w, 4);
}

static void store_word(const uint32_t *words, uint8_t *const pointers[TS__LANES], uint32_t w,
                       uint32_t mask) {
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    if (mask >> lane & 1) memcpy(pointers[lane] + 4 * w, words + w * TS__LANES + lane, 4);
}

static void load_words(uint32_t *words, uint8_t *const pointers[TS__LANES], uint32_t word_count) {
  uint32_t w = 0;
#ifdef __SSE2__
  for (; w + 4 <= word_count; w += 4)
    load_four(words, pointers, w);
#endif
  for (; w < word_count; w++)
    load_word(words, pointers, w);
}

static void store_words(const uint32_t *words, uint8_t *const pointers[TS__LANES],
                        uint32_t word_count, uint32_t mask) {
  uint32_t w = 0;
#ifdef __SSE2__
  for (; w + 4 <= word_count; w += 4)
    store_four(words, pointers, w, mask);
#endif
  for (; w < word_count; w++)
    store_word(words, pointers, w, mask);
}

/* --- moving odd sizes, lane by lane */

static void load_lane(void *slots, const struct ts__code *code, const uint8_t *source,
                      uint32_t lane) {
  uint64_t components[TS_MAX_VECTOR_LANES];
  bool is_wide = ts__is_wide(code->dtype);
  ts_dtype_unpack((enum ts_dtype)code->dtype, components, source, code->lanes);
  for (uint32_t i = 0; i < code->lanes; i++) {
    uint32_t k = i * TS__LANES + lane;
    if (is_wide)
      ((uint64_t *)slots)[k] = components[i];
    else
      memcpy((uint32_t *)slots + k, (const uint8_t *)components + 4 * i, 4);
  }
}

static void store_lane(uint8_t *target, const struct ts__code *code, const void *slots,
                       uint32_t lane) {
  uint64_t components[TS_MAX_VECTOR_LANES];
  uint8_t bytes[TS_MAX_VECTOR_LANES * 8];
  bool is_wide = ts__is_wide(code->dtype);
  for (uint32_t i = 0; i < code->lanes; i++) {
    uint32_t k = i * TS__LANES + lane;
    if (is_wide)
      components[i] = ((const uint64_t *)slots)[k];
    else
      memcpy((uint8_t *)components + 4 * i, (const uint32_t *)slots + k, 4);
  }
  ts_dtype_pack((enum ts_dtype)code->dtype, bytes, components, code->lanes);
  uint32_t bits = ts_dtype_bits((enum ts_dtype)code->dtype) * code->lanes, whole = bits / 8;
  memcpy(target, bytes, whole);
  if (bits % 8 == 0) return;
  /* Elements of less than a byte beyond the last one stay. */
  uint8_t mask = (uint8_t)((1u << bits % 8) - 1);
  target[whole] = (uint8_t)((target[whole] & ~mask) | (bytes[whole] & mask));
}

#define LOAD_NARROW(name, type)                                                                    \
  static void name(uint32_t *slots, uint8_t *const pointers[TS__LANES]) {                          \
    for (uint32_t lane = 0; lane < TS__LANES; lane++) {                                            \
      type value;                                                                                  \
      memcpy(&value, pointers[lane], sizeof value);                                                \
      slots[lane] = (uint32_t)(int32_t)value;                                                      \
    }                                                                                              \
  }
LOAD_NARROW(load_u8, uint8_t)
LOAD_NARROW(load_s8, int8_t)
LOAD_NARROW(load_u16, uint16_t)
LOAD_NARROW(load_s16, int16_t)
#undef LOAD_NARROW

/* One element of 8 or 16 bits a lane; false when the access is something else. */
static bool load_one_narrow(uint32_t *slots, const struct ts__code *code,
                            uint8_t *const pointers[TS__LANES]) {
  bool is_signed = ts_dtype_is_signed_int((enum ts_dtype)code->dtype);
  if (code->lanes != 1 || code->dtype == TS_DTYPE_pred) return false;
  switch (ts_dtype_bits((enum ts_dtype)code->dtype)) {
  case 8: (is_signed ? load_s8 : load_u8)(slots, pointers); return true;
  case 16: (is_signed ? load_s16 : load_u16)(slots, pointers); return true;
  default: return false;
  }
}

static bool store_one_narrow(const uint32_t *slots, const struct ts__code *code,
                             uint8_t *const pointers[TS__LANES], uint32_t mask) {
  unsigned bits = ts_dtype_bits((enum ts_dtype)code->dtype);
  if (code->lanes != 1 || (bits != 8 && bits != 16)) return false;
  for (uint32_t lane = 0; lane < TS__LANES; lane++) {
    if (!(mask >> lane & 1)) continue;
    if (bits == 16) {
      uint16_t value = (uint16_t)slots[lane];
      memcpy(pointers[lane], &value, 2);
    } else {
      *pointers[lane] = (uint8_t)slots[lane];
    }
  }
  return true;
}

/* --- whole instructions */

/* The words of a lane, when the access is made of words that ts__slots_of_words understands. */
static uint32_t word_count_of(const struct ts__code *code, uint32_t size_bytes) {
  unsigned bits = ts_dtype_bits((enum ts_dtype)code->dtype);
  return size_bytes % 4 == 0 && 64 % bits == 0 ? size_bytes / 4 : 0;
}

static bool is_contiguous(const struct ts__access *access) {
  return access->is_affine && access->origin && access->stride == (int64_t)access->size_bytes;
}

static void load_slots(const struct ts__warp *warp, const struct ts__code *code,
                       enum ts_space space, const struct ts__access *access, void *slots) {
  uint32_t word_count = word_count_of(code, access->size_bytes);
  bool is_plain = ts_dtype_bits((enum ts_dtype)code->dtype) == 32;
  if (word_count == 1 && is_plain && is_contiguous(access)) {
    memcpy(slots, access->origin, TS__LANES * 4);
    return;
  }
  uint8_t *pointers[TS__LANES];
  find_pointers(warp, space, access, pointers);
  if (word_count && is_plain) {
    load_words(slots, pointers, word_count);
  } else if (word_count) {
    struct slots words;
    load_words((uint32_t *)words.words, pointers, word_count);
    ts__slots_of_words(slots, (const uint32_t *)words.words, code->dtype, code->lanes, TS__LANES);
  } else if (!load_one_narrow(slots, code, pointers)) {
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      load_lane(slots, code, pointers[lane], lane);
  }
}

/* Lanes that were left out load zeros. */
static void clear_dropped(const struct ts__warp *warp, const struct ts__code *code, uint32_t mask,
                          void *slots) {
  uint32_t dropped = warp->active & ~mask;
  for (uint32_t rest = dropped; rest; rest &= rest - 1)
    for (uint32_t i = 0; i < code->lanes; i++) {
      uint32_t k = i * TS__LANES + ts__first_lane(rest);
      if (code->dst_is_wide)
        ((uint64_t *)slots)[k] = 0;
      else
        ((uint32_t *)slots)[k] = 0;
    }
}

static enum ts__step load(struct ts__warp *warp, const struct ts__code *code, enum ts_space space) {
  struct ts__access access;
  struct slots result;
  enum ts__step step = ts__resolve(warp, code, space, false, &access);
  if (step != TS__STEP_NEXT) return step;
  if (ts__listening(warp->block)) {
    warp->block->status = ts__emit_memory(warp, code, space, false, &access);
    if (warp->block->status != TS_OK) return TS__STEP_FAULT;
  }
  uint32_t *dst = warp->regs + code->dst;
  if (code->dst_is_uniform) {
    uint32_t lane = ts__first_lane(warp->active);
    if (access.mask >> lane & 1)
      ts_dtype_unpack((enum ts_dtype)code->dtype, dst,
                      ts__access_pointer(warp, space, &access, lane), code->lanes);
    else
      memset(dst, 0, code->slot_count * (code->dst_is_wide ? 8u : 4u));
    return TS__STEP_NEXT;
  }
  bool is_direct = ts__writes_all(warp, code);
  void *slots = is_direct ? (void *)dst : (void *)result.words;
  if (access.mask) load_slots(warp, code, space, &access, slots);
  if (access.mask != warp->active) clear_dropped(warp, code, access.mask, slots);
  if (!is_direct) ts__blend(warp, code, slots);
  return TS__STEP_NEXT;
}

static void store_slots(const struct ts__warp *warp, const struct ts__code *code,
                        enum ts_space space, const struct ts__access *access, const void *slots) {
  uint32_t word_count = word_count_of(code, access->size_bytes);
  bool is_plain = ts_dtype_bits((enum ts_dtype)code->dtype) == 32;
  if (word_count == 1 && is_plain && is_contiguous(access)) {
    memcpy(access->origin, slots, TS__LANES * 4);
    return;
  }
  uint8_t *pointers[TS__LANES];
  find_pointers(warp, space, access, pointers);
  if (word_count && is_plain) {
    store_words(slots, pointers, word_count, access->mask);
  } else if (word_count) {
    struct slots words;
    ts__words_of_slots((uint32_t *)words.words, slots, code->dtype, code->lanes, TS__LANES);
    store_words((const uint32_t *)words.words, pointers, word_count, access->mask);
  } else if (!store_one_narrow(slots, code, pointers, access->mask)) {
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      if (access->mask >> lane & 1) store_lane(pointers[lane], code, slots, lane);
  }
}

static enum ts__step store(struct ts__warp *warp, const struct ts__code *code,
                           enum ts_space space) {
  struct ts__access access;
  struct slots scratch;
  enum ts__step step = ts__resolve(warp, code, space, true, &access);
  if (step != TS__STEP_NEXT) return step;
  if (ts__listening(warp->block)) {
    warp->block->status = ts__emit_memory(warp, code, space, true, &access);
    if (warp->block->status != TS_OK) return TS__STEP_FAULT;
  }
  if (!access.mask) return TS__STEP_NEXT;
  const struct ts__operand *value = &code->operands[2];
  const void *slots =
      ts__is_wide(code->dtype)
          ? (const void *)ts__operand_slots64(warp, value, scratch.words)
          : (const void *)ts__operand_slots32(warp, value, (uint32_t *)scratch.words);
  store_slots(warp, code, space, &access, slots);
  if (space == TS_SPACE_SHARED) warp->block->shared.version++;
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_ld_global(struct ts__warp *warp, const struct ts__code *code) {
  return load(warp, code, TS_SPACE_GLOBAL);
}

enum ts__step ts__exec_st_global(struct ts__warp *warp, const struct ts__code *code) {
  return store(warp, code, TS_SPACE_GLOBAL);
}

enum ts__step ts__exec_ld_shared(struct ts__warp *warp, const struct ts__code *code) {
  return load(warp, code, TS_SPACE_SHARED);
}

enum ts__step ts__exec_st_shared(struct ts__warp *warp, const struct ts__code *code) {
  return store(warp, code, TS_SPACE_SHARED);
}
