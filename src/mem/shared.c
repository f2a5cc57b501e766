/* Shared memory of one block and its pending records.
 *
 * Invariants: a live record r is named (as r + 1) by granule_count > 0 granules of the map of its
 * side, all of them inside [begin, end) widened to granules; live_count is the number of live
 * records; dead records form the list first_free. */
#include "mem/mem.h"

#include <string.h>

enum { ALIGN_BYTES = 1024, SLACK_BYTES = 64, FILL_BYTE = 0xA5, MAX_RECORDS = UINT16_MAX };

static void *resize(const struct ts_allocator *allocator, void *block, uint64_t old_bytes,
                    uint64_t new_bytes) {
  return allocator->resize(allocator->user, block, (size_t)old_bytes, (size_t)new_bytes);
}

/* The granule of a byte, and the first granule from `end` on. */
static uint64_t granule_at(const struct ts_shared_memory *shared, uint64_t address) {
  return address >> shared->granule_shift;
}
static uint64_t granules_of(const struct ts_shared_memory *shared, uint64_t end) {
  return (end + ((uint64_t)1 << shared->granule_shift) - 1) >> shared->granule_shift;
}

/* Bytes of the one host block that holds data (aligned by hand) and both maps. */
static uint64_t data_bytes(uint64_t size_bytes) { return size_bytes + SLACK_BYTES + ALIGN_BYTES; }
static uint64_t map_bytes(const struct ts_shared_memory *shared) {
  return (granules_of(shared, shared->size_bytes) + 1) * sizeof(uint16_t);
}

enum ts_status ts_shared_init(struct ts_ctx *ctx, struct ts_shared_memory *shared,
                              const struct ts_allocator *allocator, uint64_t size_bytes,
                              uint32_t granule_bytes, uint32_t warp_count) {
  memset(shared, 0, sizeof *shared);
  shared->allocator = allocator;
  shared->size_bytes = size_bytes;
  shared->granule_shift = (uint32_t)__builtin_ctz(granule_bytes);
  shared->block = resize(allocator, NULL, 0, data_bytes(size_bytes));
  shared->write_record = resize(allocator, NULL, 0, map_bytes(shared));
  shared->read_record = resize(allocator, NULL, 0, map_bytes(shared));
  if (!shared->block || !shared->write_record || !shared->read_record) {
    ts_shared_free(shared);
    return ts_fail_memory(ctx);
  }
  uintptr_t pad = (0 - (uintptr_t)shared->block) & (ALIGN_BYTES - 1);
  shared->data = (uint8_t *)shared->block + pad;
  shared->touched_end = (uint32_t)granules_of(shared, size_bytes);
  ts_shared_reset(shared, warp_count);
  return TS_OK;
}

void ts_shared_reset(struct ts_shared_memory *shared, uint32_t warp_count) {
  memset(shared->data, FILL_BYTE, (size_t)shared->size_bytes + SLACK_BYTES);
  memset(shared->write_record, 0, shared->touched_end * sizeof *shared->write_record);
  memset(shared->read_record, 0, shared->touched_end * sizeof *shared->read_record);
  shared->touched_end = 0;
  shared->records.count = 0;
  shared->first_free = TS_PENDING_NONE;
  shared->live_count = 0;
  shared->warp_mask = warp_count >= 64 ? UINT64_MAX : ((uint64_t)1 << warp_count) - 1;
  shared->version++;
}

void ts_shared_free(struct ts_shared_memory *shared) {
  if (!shared->allocator) return;
  const struct ts_allocator *allocator = shared->allocator;
  if (shared->block) resize(allocator, shared->block, data_bytes(shared->size_bytes), 0);
  if (shared->write_record) resize(allocator, shared->write_record, map_bytes(shared), 0);
  if (shared->read_record) resize(allocator, shared->read_record, map_bytes(shared), 0);
  ts_vec_free(&shared->records, allocator);
  memset(shared, 0, sizeof *shared);
}

static bool is_source(enum ts_pending_kind kind) {
  return kind == TS_PENDING_STORE_SOURCE || kind == TS_PENDING_WGMMA_SOURCE;
}

static uint16_t *map_of(const struct ts_shared_memory *shared, enum ts_pending_kind kind) {
  return is_source(kind) ? shared->read_record : shared->write_record;
}

/* A number is generation << 16 | slot, so that one kept too long names nobody. */
static uint32_t number_of(const struct ts_shared_memory *shared, uint32_t slot) {
  return (shared->records.data[slot].generation & 0x7fff) << 16 | slot;
}

/* The live record of the number, or NULL. */
static struct ts_pending *live_record(const struct ts_shared_memory *shared, uint32_t number) {
  uint32_t slot = number & 0xffff;
  if (number == TS_PENDING_NONE || slot >= shared->records.count) return NULL;
  struct ts_pending *record = &shared->records.data[slot];
  return record->live && number_of(shared, slot) == number ? record : NULL;
}

bool ts_pending_is_live(const struct ts_shared_memory *shared, uint32_t number) {
  return live_record(shared, number) != NULL;
}

/* Takes the record out of use; its granules name nobody any more. */
static void bury(struct ts_shared_memory *shared, uint32_t slot) {
  struct ts_pending *record = &shared->records.data[slot];
  record->live = false;
  record->generation++;
  record->next_free = shared->first_free;
  shared->first_free = slot;
  shared->live_count--;
}

static void retire(struct ts_shared_memory *shared, uint32_t slot) {
  struct ts_pending *record = &shared->records.data[slot];
  uint16_t *map = map_of(shared, record->kind);
  uint64_t end = granules_of(shared, record->end);
  for (uint64_t g = granule_at(shared, record->begin); record->granule_count && g < end; g++)
    if (map[g] == slot + 1) {
      map[g] = 0;
      record->granule_count--;
    }
  bury(shared, slot);
}

static void mark(struct ts_shared_memory *shared, uint32_t slot, uint64_t first, uint64_t end) {
  struct ts_pending *record = &shared->records.data[slot];
  uint16_t *map = map_of(shared, record->kind);
  for (uint64_t g = first; g < end; g++) {
    uint16_t old = map[g];
    if (old == slot + 1) continue;
    if (old && --shared->records.data[old - 1].granule_count == 0) bury(shared, old - 1u);
    map[g] = (uint16_t)(slot + 1);
    record->granule_count++;
  }
  if (end > shared->touched_end) shared->touched_end = (uint32_t)end;
}

/* A slot without a live record, or TS_PENDING_NONE. */
static uint32_t take_slot(struct ts_shared_memory *shared) {
  static const struct ts_pending fresh;
  uint32_t slot = shared->first_free;
  if (slot != TS_PENDING_NONE) {
    shared->first_free = shared->records.data[slot].next_free;
    return slot;
  }
  slot = (uint32_t)shared->records.count;
  if (slot >= MAX_RECORDS || ts_vec_push(&shared->records, shared->allocator, fresh))
    return TS_PENDING_NONE;
  return slot;
}

uint32_t ts_pending_open(struct ts_shared_memory *shared, struct ts_pending record) {
  uint32_t slot = take_slot(shared);
  if (slot == TS_PENDING_NONE) return TS_PENDING_NONE;
  if (record.end > shared->size_bytes) record.end = shared->size_bytes;
  record.live = true;
  record.granule_count = 0;
  record.generation = shared->records.data[slot].generation;
  shared->records.data[slot] = record;
  shared->live_count++;
  shared->version++;
  if (record.begin < record.end)
    mark(shared, slot, granule_at(shared, record.begin), granules_of(shared, record.end));
  return number_of(shared, slot);
}

void ts_pending_extend(struct ts_shared_memory *shared, uint32_t number, uint64_t begin,
                       uint64_t end) {
  struct ts_pending *record = live_record(shared, number);
  if (end > shared->size_bytes) end = shared->size_bytes;
  if (!record || begin >= end) return;
  /* A granule of which the piece has a part only would answer for its neighbours' bytes, except in
   * the first piece: there begin and end still tell them apart. */
  uint64_t first = granules_of(shared, begin), last = granule_at(shared, end);
  if (record->granule_count == 0) {
    record->begin = begin;
    record->end = end;
    first = granule_at(shared, begin);
    last = granules_of(shared, end);
  }
  if (begin < record->begin) record->begin = begin;
  if (end > record->end) record->end = end;
  if (first < last) mark(shared, number & 0xffff, first, last);
}

void ts_pending_retire(struct ts_shared_memory *shared, uint32_t number) {
  if (live_record(shared, number)) retire(shared, number & 0xffff);
}

void ts_pending_landed(struct ts_shared_memory *shared, uint32_t number) {
  struct ts_pending *record = live_record(shared, number);
  if (record) record->landed = true;
}

void ts_pending_set_sync(struct ts_shared_memory *shared, uint32_t number, uint32_t sync_address,
                         uint64_t sync_phase) {
  struct ts_pending *record = live_record(shared, number);
  if (!record) return;
  record->sync_address = sync_address;
  record->sync_phase = sync_phase;
}

static void observe(struct ts_shared_memory *shared, uint32_t slot, uint64_t warps) {
  struct ts_pending *record = &shared->records.data[slot];
  record->observed |= warps;
  if ((record->observed & shared->warp_mask) == shared->warp_mask) retire(shared, slot);
}

void ts_pending_observe(struct ts_shared_memory *shared, uint32_t number, uint64_t warps) {
  if (live_record(shared, number)) observe(shared, number & 0xffff, warps);
}

void ts_pending_observe_sync(struct ts_shared_memory *shared, uint32_t sync_address,
                             uint64_t phases, uint64_t warps) {
  if (shared->live_count == 0) return;
  for (uint32_t i = 0; i < shared->records.count; i++) {
    const struct ts_pending *record = &shared->records.data[i];
    if (record->live && record->landed && record->sync_address == sync_address &&
        record->sync_phase < phases)
      observe(shared, i, warps);
  }
}

void ts_pending_flow(struct ts_shared_memory *shared, uint64_t from_warps, uint64_t to_warps) {
  if (shared->live_count == 0) return;
  for (uint32_t i = 0; i < shared->records.count; i++) {
    const struct ts_pending *record = &shared->records.data[i];
    if (record->live && (record->observed & from_warps)) observe(shared, i, to_warps);
  }
}

void ts_pending_join(struct ts_shared_memory *shared, uint64_t warps) {
  ts_pending_flow(shared, warps, warps);
}

bool ts_pending_may_concern(const struct ts_shared_memory *shared, uint32_t warp, uint64_t begin,
                            uint64_t end) {
  if (shared->live_count == 0) return false;
  for (uint32_t i = 0; i < shared->records.count; i++) {
    const struct ts_pending *record = &shared->records.data[i];
    if (record->live && !(record->observed >> warp & 1) && begin < record->end &&
        end > record->begin && !is_source(record->kind))
      return true;
  }
  return false;
}

/* The record of the map that concerns the warp in the byte range, or NULL. */
static const struct ts_pending *find(const struct ts_shared_memory *shared, const uint16_t *map,
                                     uint32_t warp, uint64_t begin, uint64_t end) {
  uint64_t last = granules_of(shared, end);
  for (uint64_t g = granule_at(shared, begin); g < last; g++) {
    if (!map[g]) continue;
    const struct ts_pending *record = &shared->records.data[map[g] - 1];
    if (record->observed >> warp & 1) continue;
    if (begin < record->end && end > record->begin) return record;
  }
  return NULL;
}

const struct ts_pending *ts__pending_read_slow(const struct ts_shared_memory *shared, uint32_t warp,
                                               uint64_t address, uint64_t size_bytes) {
  return find(shared, shared->write_record, warp, address, address + size_bytes);
}

const struct ts_pending *ts__pending_write_slow(const struct ts_shared_memory *shared,
                                                uint32_t warp, uint64_t address,
                                                uint64_t size_bytes) {
  uint64_t end = address + size_bytes;
  const struct ts_pending *record = find(shared, shared->write_record, warp, address, end);
  return record ? record : find(shared, shared->read_record, warp, address, end);
}
