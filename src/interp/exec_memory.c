/* Loads and stores of global and shared memory.
 *
 * An access is first resolved: lane addresses, bounds, alignment, data in flight. Lanes that may
 * not proceed have been reported and are left out (loads give 0). Then the bytes move: what each
 * lane has is consecutive in memory, so a lane's words are a row and slots are columns, and the
 * move is a transposition. */
#include "interp/check_priv.h"

#include <string.h>

enum { LARGEST_ALIGN_BYTES = 16 };

/* Slots or words of a whole instruction. */
struct slots {
  _Alignas(64) uint64_t words[TS_MAX_VECTOR_LANES * TS__LANES];
};

/* --- addresses */

static void one_address(const struct ts__warp *warp, struct ts__access *access, uint64_t address) {
  access->low = access->high = access->bits = access->first = address;
  access->stride = 0;
  access->is_affine = true;
  warp->program->lanes->splat64(access->lane, &address, 1);
}

/* base + index * scale + offset in every lane. One of base and index is usually uniform, and the
 * other has 32 bits. */
static void find_addresses(const struct ts__warp *warp, const struct ts__code *code,
                           struct ts__access *access) {
  const struct ts__lane_ops *lanes = warp->program->lanes;
  const struct ts__operand *fixed = &code->operands[0], *index = &code->operands[1];
  int64_t fixed_scale = 1, scale = code->scale;
  if (!fixed->is_uniform) {
    const struct ts__operand *other = fixed;
    fixed = index;
    index = other;
    fixed_scale = code->scale;
    scale = 1;
  }
  if (!fixed->is_uniform || (!index->is_uniform && ts__is_wide(index->dtype))) {
    ts__address_lanes(warp, code, &code->operands[0], &code->operands[1], code->scale, code->offset,
                      access->lane);
    lanes->address_done(access);
    return;
  }
  uint64_t base = ts__operand_lane(warp, fixed, 0) * (uint64_t)fixed_scale + (uint64_t)code->offset;
  if (index->is_uniform)
    one_address(warp, access, base + ts__operand_lane(warp, index, 0) * (uint64_t)scale);
  else if (ts_dtype_is_signed_int((enum ts_dtype)index->dtype))
    lanes->address_s32(access, base, scale, ts__operand_words(warp, index));
  else
    lanes->address_u32(access, base, scale, ts__operand_words(warp, index));
}

/* A lane's access must be aligned to its size, or to the largest power of two that divides it, at
 * most 16 bytes. */
static uint64_t align_bytes_of(uint32_t size_bytes) {
  uint32_t power = size_bytes & (0u - size_bytes);
  return power < LARGEST_ALIGN_BYTES ? power : LARGEST_ALIGN_BYTES;
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
  uint64_t low = access->low, span = access->high - low + access->size_bytes;
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

static uint64_t span_of(const struct ts__access *access) {
  return access->high - access->low + access->size_bytes;
}

/* The lanes that are left may lie in several objects. */
static enum ts__step resolve_rest(struct ts__warp *warp, const struct ts__code *code,
                                  enum ts_space space, struct ts__access *access) {
  enum ts__step step = drop_faulty(warp, code, space, access);
  if (step == TS__STEP_FAULT || access->mask == 0) return step;
  warp->program->lanes->address_done(access);
  access->origin = host_range(warp, space, access->low, span_of(access));
  return step;
}

void ts__access_addresses(const struct ts__warp *warp, const struct ts__code *code,
                          struct ts__access *access) {
  access->mask = warp->active;
  access->size_bytes = (uint32_t)ts_dtype_packed_bytes((enum ts_dtype)code->dtype, code->lanes);
  find_addresses(warp, code, access);
}

enum ts__step ts__resolve(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                          bool is_write, struct ts__access *access) {
  ts__access_addresses(warp, code, access);
  access->origin = host_range(warp, space, access->low, span_of(access));
  if (!access->origin || access->bits & (align_bytes_of(access->size_bytes) - 1)) {
    enum ts__step step = resolve_rest(warp, code, space, access);
    if (step == TS__STEP_FAULT || access->mask == 0) return step;
  }
  if (space == TS_SPACE_SHARED && has_in_flight(warp->block, is_write))
    return check_in_flight(warp, code, access, is_write);
  return TS__STEP_NEXT;
}

uint8_t *ts__access_pointer(const struct ts__warp *warp, enum ts_space space,
                            const struct ts__access *access, uint32_t lane) {
  if (access->origin) return access->origin + (access->lane[lane] - access->low);
  return host_range(warp, space, access->lane[lane], access->size_bytes);
}

static void find_pointers(const struct ts__warp *warp, enum ts_space space,
                          const struct ts__access *access, uint8_t *pointers[TS__LANES]) {
  if (access->origin) {
    uint8_t *origin = access->origin;
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      pointers[lane] = origin + (access->lane[lane] - access->low);
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
    footprint.base = 0;
    footprint.lane_stride = 0;
    footprint.lanes = lanes;
  }
  return ts__emit(warp, code, event, &footprint);
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
  if (is_contiguous(access) && code->lanes == 1 &&
      ts_dtype_bits((enum ts_dtype)code->dtype) % 8 == 0) {
    ts_dtype_unpack((enum ts_dtype)code->dtype, slots, access->origin, TS__LANES);
    return;
  }
  uint8_t *pointers[TS__LANES];
  find_pointers(warp, space, access, pointers);
  if (word_count && is_plain) {
    warp->program->lanes->load_words(slots, pointers, word_count);
  } else if (word_count) {
    struct slots words;
    warp->program->lanes->load_words((uint32_t *)words.words, pointers, word_count);
    ts__slots_of_words(warp->program->lanes, slots, (const uint32_t *)words.words, code->dtype,
                       code->lanes, TS__LANES);
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
  if (warp->block->check &&
      ts__check_access(warp, code, space, TS__ACCESS_READ, &access) != TS__STEP_NEXT)
    return TS__STEP_FAULT;
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
    warp->program->lanes->store_words(slots, pointers, word_count, access->mask);
  } else if (word_count) {
    struct slots words;
    ts__words_of_slots(warp->program->lanes, (uint32_t *)words.words, slots, code->dtype,
                       code->lanes, TS__LANES);
    warp->program->lanes->store_words((const uint32_t *)words.words, pointers, word_count,
                                      access->mask);
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
  if (warp->block->check &&
      ts__check_access(warp, code, space, TS__ACCESS_WRITE, &access) != TS__STEP_NEXT)
    return TS__STEP_FAULT;
  const struct ts__operand *value = &code->operands[2];
  const void *slots =
      ts__is_wide(code->dtype)
          ? (const void *)ts__operand_slots64(warp, value, scratch.words)
          : (const void *)ts__operand_slots32(warp, value, (uint32_t *)scratch.words);
  store_slots(warp, code, space, &access, slots);
  if (space == TS_SPACE_SHARED) warp->block->shared.version++;
  return warp->block->check ? ts__check_stored(warp, code) : TS__STEP_NEXT;
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
