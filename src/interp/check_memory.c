/* Checks of loads, stores, atomics and matrix rows: order and initialisation. */
#include "interp/check_priv.h"

#include <string.h>

enum { ROW_BYTES = 16, MAX_SHADOW_CELLS = 1 << 26 };

/* --- shared memory */

/* The lanes' bytes as few ranges as a look at neighbours finds. */
struct span {
  uint64_t begin, end;
  uint32_t lane; /* first one */
};

static uint32_t find_spans(const struct ts__access *access, struct span spans[TS__LANES]) {
  uint32_t count = 0;
  if (access->is_affine && access->stride == 0) {
    spans[0] =
        (struct span){access->low, access->low + access->size_bytes, ts__first_lane(access->mask)};
    return 1;
  }
  for (uint32_t rest = access->mask; rest; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    uint64_t begin = access->lane[lane], end = begin + access->size_bytes;
    if (count && spans[count - 1].end == begin)
      spans[count - 1].end = end;
    else if (count == 0 || spans[count - 1].begin > begin || spans[count - 1].end < end)
      spans[count++] = (struct span){begin, end, lane};
  }
  return count;
}

/* Whether lanes may share an address: those of ascending ranges do not. */
static bool may_meet(const struct ts__access *access, const struct span *spans, uint32_t count) {
  if (access->is_affine) return access->stride == 0 && (access->mask & (access->mask - 1));
  uint64_t bytes = spans[0].end - spans[0].begin;
  for (uint32_t i = 1; i < count; i++) {
    if (spans[i].begin < spans[i - 1].end) return true;
    bytes += spans[i].end - spans[i].begin;
  }
  return bytes < (uint64_t)__builtin_popcount(access->mask) * access->size_bytes;
}

/* The lane whose bytes hold the address. */
static uint32_t lane_at(const struct ts__access *access, uint64_t address) {
  for (uint32_t rest = access->mask; rest; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    if (address >= access->lane[lane] && address - access->lane[lane] < access->size_bytes)
      return lane;
  }
  return ts__first_lane(access->mask);
}

/* Two stores of the same bytes do no harm whatever their order: decided when the bytes are there.
 */
static void hold(struct ts__warp *warp, enum ts_space space, uint32_t lane, uint64_t address,
                 uint32_t size_bytes, const struct ts_conflict *conflict) {
  struct ts__held_conflict *held = &warp->block->check->held;
  const uint8_t *bytes = space == TS_SPACE_SHARED
                             ? warp->block->shared.data + address
                             : ts_device_pointer(warp->program->memory, address, size_bytes);
  if (!bytes || held->conflict.kind != TS_CONFLICT_NONE) return;
  if (size_bytes > sizeof held->old_bytes) size_bytes = sizeof held->old_bytes;
  *held = (struct ts__held_conflict){*conflict, space, lane, size_bytes, address, {0}};
  memcpy(held->old_bytes, bytes, size_bytes);
}

enum ts__step ts__check_stored(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__held_conflict *held = &warp->block->check->held;
  if (held->conflict.kind == TS_CONFLICT_NONE) return TS__STEP_NEXT;
  struct ts__held_conflict found = *held;
  held->conflict.kind = TS_CONFLICT_NONE;
  const uint8_t *bytes =
      found.space == TS_SPACE_SHARED
          ? warp->block->shared.data + found.address
          : ts_device_pointer(warp->program->memory, found.address, found.size_bytes);
  if (bytes && memcmp(bytes, found.old_bytes, found.size_bytes) == 0) return TS__STEP_NEXT;
  ts__check_conflict(warp, code, found.space, found.lane, true, &found.conflict, found.address,
                     found.size_bytes);
  return ts__after_checks(warp);
}

static void shared_conflict(struct ts__warp *warp, const struct ts__code *code, bool is_write,
                            const struct ts__access *access, const struct ts_conflict *conflict) {
  if (conflict->kind == TS_CONFLICT_NONE) return;
  uint32_t lane = lane_at(access, conflict->address);
  uint64_t address = access->lane[lane];
  if (conflict->kind == TS_CONFLICT_WRITE_AFTER_WRITE && code->op == TS_OP_st_shared)
    hold(warp, TS_SPACE_SHARED, lane, address, access->size_bytes, conflict);
  else
    ts__check_conflict(warp, code, TS_SPACE_SHARED, lane, is_write, conflict, address,
                       access->size_bytes);
}

static uint32_t unset_lanes(const struct ts_race *race, const struct ts__access *access) {
  uint32_t lanes = 0;
  for (uint32_t rest = access->mask; rest; rest &= rest - 1) {
    uint32_t lane = ts__first_lane(rest);
    if (!ts_race_is_initialised(race, access->lane[lane], access->size_bytes)) lanes |= 1u << lane;
  }
  return lanes;
}

void ts__check_clear_tags(struct ts__check *check, uint64_t address, uint64_t size_bytes) {
  for (uint64_t i = address / ROW_BYTES;
       i < check->tag_count && i * ROW_BYTES < address + size_bytes; i++)
    check->tags[i].place = 0;
}

/* A store over what the warp itself has stored there: steps of a reduction by all lanes, of which
 * only some matter. */
static bool is_update(const struct ts_race *race, uint32_t warp, uint64_t address) {
  const struct ts_race_cell *cell = &race->cells[address >> race->granule_shift];
  return cell->write_stamp && !cell->is_async && cell->write_warp == warp;
}

static enum ts__step check_shared(struct ts__warp *warp, const struct ts__code *code,
                                  enum ts__access_kind kind, const struct ts__access *access) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor who = {
      .warp = warp->index, .insn = code->insn, .is_atomic = kind == TS__ACCESS_ATOMIC};
  struct span spans[TS__LANES];
  uint32_t count = find_spans(access, spans);
  bool is_set = true, reads_own = false;
  if (kind == TS__ACCESS_WRITE && !is_update(&check->race, warp->index, spans[0].begin))
    ts_use_begin(&check->use, code->insn, warp->index);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t begin = spans[i].begin, size_bytes = spans[i].end - begin;
    if (kind != TS__ACCESS_WRITE && is_set)
      is_set = ts_race_is_initialised(&check->race, begin, size_bytes);
    struct ts_conflict conflict = kind == TS__ACCESS_READ
                                      ? ts_race_read(&check->race, who, begin, size_bytes)
                                      : ts_race_write(&check->race, who, begin, size_bytes);
    shared_conflict(warp, code, kind != TS__ACCESS_READ, access, &conflict);
    if (kind != TS__ACCESS_WRITE) ts_use_read(&check->use, begin, size_bytes);
    reads_own |= conflict.is_own && kind == TS__ACCESS_READ;
    if (kind == TS__ACCESS_READ) continue;
    ts_use_put(&check->use, code->insn, begin, size_bytes);
    ts__check_clear_tags(check, begin, size_bytes);
    ts__check_mbarrier_bytes(warp, code, spans[i].lane, begin, size_bytes);
  }
  ts_use_end(&check->use);
  if (reads_own) ts__check_lane_reads(warp, code, access);
  if (kind == TS__ACCESS_WRITE) {
    for (uint32_t lanes = access->mask; lanes; lanes &= lanes - 1)
      ts_race_set_lane(&check->race, ts__first_lane(lanes), access->lane[ts__first_lane(lanes)],
                       access->size_bytes);
    if (may_meet(access, spans, count)) ts__check_lanes(warp, code, TS_SPACE_SHARED, access);
    uint32_t unset = ts__check_unset_lanes(warp, &code->operands[2]) & access->mask;
    for (; unset; unset &= unset - 1)
      ts_race_set_initialised(&check->race, access->lane[ts__first_lane(unset)], access->size_bytes,
                              false);
  } else if (!is_set) {
    ts__check_unset_load(warp, code, unset_lanes(&check->race, access), TS_DIAG_UNSET_SHARED);
  } else if (kind == TS__ACCESS_READ) {
    ts__check_unset_load(warp, code, 0, TS_DIAG_UNSET_SHARED);
  }
  return ts__after_checks(warp);
}

void ts__check_write(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                     uint64_t address, uint64_t size_bytes) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor who = {.warp = warp->index, .insn = code->insn};
  struct ts_conflict conflict = ts_race_write(&check->race, who, address, size_bytes);
  ts_use_put(&check->use, code->insn, address, size_bytes);
  ts__check_clear_tags(check, address, size_bytes);
  if (conflict.kind != TS_CONFLICT_NONE)
    ts__check_conflict(warp, code, TS_SPACE_SHARED, lane, true, &conflict, address, size_bytes);
}

/* --- global memory */

/* The shadow of the address's allocation; its race is made when `makes`. NULL: none is kept. */
static struct ts__global_shadow *shadow_of(struct ts__warp *warp, uint64_t address) {
  struct ts__check *check = warp->block->check;
  uint64_t index = address >> TS_ADDRESS_SHIFT;
  if (index == 0 || index >= check->run->shadow_count) return NULL;
  struct ts__global_shadow *shadow = &check->run->shadows[index];
  if (!shadow->is_written || shadow->is_made) return shadow;
  const struct ts_allocation *allocation = ts_device_find(warp->program->memory, address);
  uint64_t cells = allocation->size_bytes / warp->program->global_granule_bytes + 1;
  if (check->run->cell_count + cells > MAX_SHADOW_CELLS) {
    if (!shadow->is_skipped)
      ts__hazard_at(warp, warp->program->code[warp->pc].insn, TS_DIAG_CHECK_PARTIAL, TS_NONE,
                    TS_NONE, "use smaller arguments",
                    "buffer %s is too large for a shadow: races in it are not looked for",
                    allocation->name ? allocation->name : "?");
    shadow->is_skipped = true;
    shadow->is_written = false;
    return shadow;
  }
  check->run->cell_count += cells;
  if (ts_global_race_init(warp->block->ctx, &shadow->race, allocation->size_bytes,
                          warp->program->global_granule_bytes) != TS_OK) {
    warp->block->status = TS_NO_MEMORY;
    return NULL;
  }
  shadow->is_made = true;
  return shadow;
}

/* Whether all bytes of the range have been set. */
static bool is_set(const struct ts__global_shadow *shadow, uint64_t offset, uint64_t size_bytes) {
  return !shadow->unset || !memchr(shadow->unset + offset, 1, size_bytes);
}

struct ts_conflict ts__check_global_range(struct ts__warp *warp, struct ts_accessor who,
                                          enum ts__access_kind kind, uint64_t address,
                                          uint64_t size_bytes, bool *was_set, bool *is_contended) {
  struct ts_conflict none = {0};
  struct ts__check *check = warp->block->check;
  struct ts__global_shadow *shadow = shadow_of(warp, address);
  if (!shadow || !ts_device_pointer(warp->program->memory, address, size_bytes)) return none;
  uint64_t offset = (uint64_t)ts_device_offset(address);
  if (kind != TS__ACCESS_WRITE && !is_set(shadow, offset, size_bytes)) *was_set = false;
  if (kind != TS__ACCESS_READ && shadow->unset) memset(shadow->unset + offset, 0, size_bytes);
  if (!shadow->is_made) return none;
  struct ts_conflict conflict =
      kind == TS__ACCESS_READ
          ? ts_global_race_read(&shadow->race, &check->race, warp->block->index, who,
                                check->checks_blocks, offset, size_bytes)
          : ts_global_race_write(&shadow->race, &check->race, warp->block->index, who,
                                 check->checks_blocks, offset, size_bytes, is_contended);
  conflict.address += address - offset;
  return conflict;
}

/* Sums of floats depend on the order in which the terms come: said once per buffer. */
void ts__check_order(struct ts__warp *warp, const struct ts__code *code, uint64_t address,
                     enum ts_dtype dtype, enum ts_ir_reduce reduce) {
  struct ts__check *check = warp->block->check;
  uint64_t index = address >> TS_ADDRESS_SHIFT;
  if (reduce != TS_IR_REDUCE_add || !ts_dtype_is_float(dtype)) return;
  if (index >= check->run->shadow_count || check->run->shadows[index].said_order) return;
  check->run->shadows[index].said_order = true;
  char where[160];
  ts__check_place_text(warp->block, TS_SPACE_GLOBAL, address, where, sizeof where);
  ts__hazard(warp, code, TS_DIAG_ORDER_DEPENDENT, TS_NONE, TS_NONE,
             "reduce in a fixed order where equal bits are wanted: partial sums in a buffer of "
             "their own, added by one block",
             "%s is added to by several warps or blocks in an order that hardware leaves open; "
             "the last bits of a sum of %s depend on it",
             where, ts_dtype_name(dtype));
}

/* Whether the active lanes add one and the same value. */
static bool adds_equal(const struct ts__warp *warp, const struct ts__code *code, uint32_t lanes) {
  const struct ts__operand *value = &code->operands[2];
  uint64_t first = ts__operand_lane(warp, value, ts__first_lane(lanes));
  for (; lanes && !value->is_uniform; lanes &= lanes - 1)
    if (ts__operand_lane(warp, value, ts__first_lane(lanes)) != first) return false;
  return true;
}

/* All lanes add the same to one place that the program names: a missing guard more often than not.
 */
static void check_repeated(struct ts__warp *warp, const struct ts__code *code,
                           const struct ts__access *access) {
  bool is_one_place = code->operands[0].is_uniform && code->operands[1].is_uniform &&
                      code->operand_count > 2 && __builtin_popcount(access->mask) > 1;
  if (!is_one_place || code->ext != TS_IR_REDUCE_add || !adds_equal(warp, code, access->mask))
    return;
  char where[160];
  ts__check_place_text(warp->block, TS_SPACE_GLOBAL, access->low, where, sizeof where);
  ts__hazard(warp, code, TS_DIAG_ATOMIC_REPEATED, TS_NONE, TS_NONE,
             "guard it with one thread, as in `if tx == 0`, when it is meant once a block",
             "%d lanes of the warp add the same value to %s", __builtin_popcount(access->mask),
             where);
}

static enum ts__step check_global(struct ts__warp *warp, const struct ts__code *code,
                                  enum ts__access_kind kind, const struct ts__access *access) {
  struct ts_accessor who = {
      .warp = warp->index, .insn = code->insn, .is_atomic = kind == TS__ACCESS_ATOMIC};
  struct span spans[TS__LANES];
  uint32_t count = find_spans(access, spans);
  bool all_set = true, is_contended = false;
  for (uint32_t i = 0; i < count; i++) {
    uint64_t begin = spans[i].begin, size_bytes = spans[i].end - begin;
    struct ts_conflict conflict =
        ts__check_global_range(warp, who, kind, begin, size_bytes, &all_set, &is_contended);
    if (conflict.kind == TS_CONFLICT_NONE) continue;
    uint32_t lane = lane_at(access, conflict.address);
    if (conflict.kind == TS_CONFLICT_WRITE_AFTER_WRITE && kind == TS__ACCESS_WRITE)
      hold(warp, TS_SPACE_GLOBAL, lane, access->lane[lane], access->size_bytes, &conflict);
    else
      ts__check_conflict(warp, code, TS_SPACE_GLOBAL, lane, kind != TS__ACCESS_READ, &conflict,
                         access->lane[lane], access->size_bytes);
  }
  if (kind == TS__ACCESS_WRITE && may_meet(access, spans, count))
    ts__check_lanes(warp, code, TS_SPACE_GLOBAL, access);
  if (kind == TS__ACCESS_ATOMIC) {
    check_repeated(warp, code, access);
    bool lanes_meet =
        access->is_affine && access->stride == 0 && __builtin_popcount(access->mask) > 1;
    if (is_contended || lanes_meet)
      ts__check_order(warp, code, access->low, (enum ts_dtype)code->dtype,
                      (enum ts_ir_reduce)code->ext);
  }
  if (kind != TS__ACCESS_WRITE) ts__check_box_other_read(warp->block->check, access->low);
  if (kind == TS__ACCESS_READ)
    ts__check_unset_load(warp, code, all_set ? 0 : access->mask, TS_DIAG_UNSET_GLOBAL);
  return ts__after_checks(warp);
}

enum ts__step ts__check_access(struct ts__warp *warp, const struct ts__code *code,
                               enum ts_space space, enum ts__access_kind kind,
                               const struct ts__access *access) {
  if (warp->block->check->speed) ts__check_speed_access(warp, code, space, access);
  if (!access->mask) return TS__STEP_NEXT;
  enum ts__step step = space == TS_SPACE_SHARED ? check_shared(warp, code, kind, access)
                                                : check_global(warp, code, kind, access);
  if (kind == TS__ACCESS_ATOMIC && warp->block->check->order)
    ts__check_atomic_order(warp, code, space, access);
  return step;
}

/* --- rows of matrices */

/* The rows of one 8x8 matrix stand below each other in the tile that a TMA load wrote: their
 * places in the box have one column. */
static void check_layout(struct ts__warp *warp, const struct ts__code *code, uint32_t first_lane,
                         const struct ts__chunk_tag *const tags[8]) {
  const struct ts__chunk_tag *first = tags[0];
  for (uint32_t r = 1; r < 8; r++) {
    if (!tags[r] || !first || !first->place || !tags[r]->place || tags[r]->copy != first->copy)
      return;
    if (first->row_chunks == 0) return;
  }
  for (uint32_t r = 1; r < 8; r++) {
    uint32_t column = (first->place - 1) % first->row_chunks;
    if ((tags[r]->place - 1) % first->row_chunks == column) continue;
    ts__hazard(warp, code, TS_DIAG_LAYOUT_SWIZZLE, first_lane + r, first->insn,
               "the row addresses must apply the swizzle of the tensor map: address bits 4-6 xor "
               "bits 7-9 for 128 bytes",
               "the rows of a matrix come from columns %u and %u (of 16 bytes) of the tile that a "
               "load with a %u-byte swizzle wrote",
               column, (tags[r]->place - 1) % first->row_chunks,
               first->swizzle ? 16u << first->swizzle : 0);
    return;
  }
}

/* A row is what a lane of a 16-byte access has. */
static void rows_speed(struct ts__warp *warp, const struct ts__code *code,
                       uint8_t *const pointers[TS__LANES], uint32_t rows) {
  struct ts__access access = {.size_bytes = ROW_BYTES};
  for (uint32_t lane = 0; lane < rows; lane++) {
    if (!pointers[lane]) continue;
    access.lane[lane] = (uint64_t)(pointers[lane] - warp->block->shared.data);
    access.mask |= 1u << lane;
  }
  ts__check_speed_access(warp, code, TS_SPACE_SHARED, &access);
}

enum ts__step ts__check_rows(struct ts__warp *warp, const struct ts__code *code,
                             uint8_t *const pointers[TS__LANES], uint32_t rows, bool is_store) {
  struct ts__check *check = warp->block->check;
  const uint8_t *data = warp->block->shared.data;
  struct ts_accessor who = {.warp = warp->index, .insn = code->insn};
  const struct ts__chunk_tag *tags[8] = {0};
  uint32_t unset = 0;
  if (check->speed) rows_speed(warp, code, pointers, rows);
  if (is_store) ts_use_begin(&check->use, code->insn, warp->index);
  for (uint32_t lane = 0; lane < rows; lane++) {
    if (lane % 8 == 0) memset(tags, 0, sizeof tags);
    if (!pointers[lane]) continue;
    uint64_t address = (uint64_t)(pointers[lane] - data);
    struct ts_conflict conflict = is_store ? ts_race_write(&check->race, who, address, ROW_BYTES)
                                           : ts_race_read(&check->race, who, address, ROW_BYTES);
    if (conflict.kind != TS_CONFLICT_NONE)
      ts__check_conflict(warp, code, TS_SPACE_SHARED, lane, is_store, &conflict, address,
                         ROW_BYTES);
    if (is_store)
      ts_use_put(&check->use, code->insn, address, ROW_BYTES);
    else
      ts_use_read(&check->use, address, ROW_BYTES);
    if (is_store)
      ts__check_clear_tags(check, address, ROW_BYTES);
    else if (!ts_race_is_initialised(&check->race, address, ROW_BYTES))
      unset |= 1u << lane;
    tags[lane % 8] = &check->tags[address / ROW_BYTES];
    if (lane % 8 == 7 && !is_store) check_layout(warp, code, lane - 7, tags);
  }
  ts_use_end(&check->use);
  if (!is_store) ts__check_unset_load(warp, code, unset, TS_DIAG_UNSET_SHARED);
  return ts__after_checks(warp);
}
