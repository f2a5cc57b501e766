#include "mem/race.h"

#include <string.h>

static void *allocate(const struct ts_allocator *allocator, uint64_t count, uint64_t size_bytes) {
  if (count > SIZE_MAX / size_bytes) return NULL;
  void *data = allocator->resize(allocator->user, NULL, 0, (size_t)(count * size_bytes));
  if (data) memset(data, 0, (size_t)(count * size_bytes));
  return data;
}

static void release(const struct ts_allocator *allocator, void *data, uint64_t size_bytes) {
  if (data) allocator->resize(allocator->user, data, (size_t)size_bytes, 0);
}

static uint32_t log2_of(uint32_t granule_bytes) {
  return granule_bytes <= 1 ? 0 : 31 - (uint32_t)__builtin_clz(granule_bytes);
}

enum ts_status ts_race_init(struct ts_ctx *ctx, struct ts_race *race, uint64_t size_bytes,
                            uint32_t granule_bytes, uint32_t warp_count) {
  memset(race, 0, sizeof *race);
  race->allocator = ctx->allocator;
  race->warp_count = warp_count;
  race->granule_shift = log2_of(granule_bytes);
  race->cell_count = (size_bytes >> race->granule_shift) + 1;
  race->cells = allocate(ctx->allocator, race->cell_count, sizeof *race->cells);
  race->read_stamps = allocate(ctx->allocator, race->cell_count * warp_count, sizeof(uint32_t));
  if (!race->cells || !race->read_stamps) {
    ts_race_free(race);
    return ts_fail_memory(ctx);
  }
  ts_race_reset(race);
  return TS_OK;
}

void ts_race_reset(struct ts_race *race) {
  memset(race->cells, 0, (size_t)race->touched_end * sizeof *race->cells);
  memset(race->read_stamps, 0, (size_t)(race->touched_end * race->warp_count) * sizeof(uint32_t));
  race->touched_end = 0;
  memset(race->clock, 0, sizeof race->clock);
  memset(race->visible, 0, sizeof race->visible);
  for (uint32_t w = 0; w < race->warp_count; w++)
    race->clock[w][w] = 1;
}

void ts_race_free(struct ts_race *race) {
  if (!race->allocator) return;
  release(race->allocator, race->cells, race->cell_count * sizeof *race->cells);
  release(race->allocator, race->read_stamps,
          race->cell_count * race->warp_count * sizeof(uint32_t));
  race->cells = NULL;
  race->read_stamps = NULL;
}

static void note(struct ts_conflict *conflict, enum ts_conflict_kind kind, uint32_t warp,
                 uint32_t insn, uint64_t address) {
  if (conflict->kind != TS_CONFLICT_NONE) return;
  *conflict = (struct ts_conflict){
      .kind = kind, .other_warp = warp, .other_insn = insn, .address = address};
}

static bool is_write_ordered(const struct ts_race *race, const struct ts_race_cell *cell,
                             struct ts_accessor who) {
  return cell->is_async || cell->write_warp == who.warp ||
         cell->write_stamp <= race->clock[who.warp][cell->write_warp] ||
         (who.is_atomic && cell->is_atomic);
}

/* Generic writes reach asynchronous accesses only through a proxy fence. */
static bool is_write_visible(const struct ts_race *race, const struct ts_race_cell *cell,
                             uint32_t warp) {
  return cell->is_async || cell->is_fenced ||
         cell->write_stamp <= race->visible[warp][cell->write_warp];
}

/* First and one past the last cell of a range, cut to the window. */
struct range {
  uint64_t first, end;
};
static struct range range_of(uint64_t cell_count, uint32_t shift, uint64_t address,
                             uint64_t size_bytes) {
  struct range range = {address >> shift, (address + size_bytes + (1u << shift) - 1) >> shift};
  if (range.end > cell_count) range.end = cell_count;
  return range;
}

static void touch(struct ts_race *race, struct range range) {
  if (range.end > race->touched_end) race->touched_end = range.end;
}

struct ts_conflict ts_race_check_read(const struct ts_race *race, struct ts_accessor who,
                                      uint64_t address, uint64_t size_bytes) {
  struct ts_conflict conflict = {0};
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++) {
    const struct ts_race_cell *cell = &race->cells[i];
    if (cell->write_stamp == 0) continue;
    if (!is_write_ordered(race, cell, who))
      note(&conflict, TS_CONFLICT_READ_AFTER_WRITE, cell->write_warp, cell->write_insn,
           i << race->granule_shift);
    else if (who.is_async && !is_write_visible(race, cell, who.warp))
      note(&conflict, TS_CONFLICT_PROXY, cell->write_warp, cell->write_insn,
           i << race->granule_shift);
  }
  return conflict;
}

void ts_race_note_read(struct ts_race *race, struct ts_accessor who, uint64_t address,
                       uint64_t size_bytes) {
  uint32_t stamp = race->clock[who.warp][who.warp];
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++) {
    race->read_stamps[i * race->warp_count + who.warp] = stamp;
    race->cells[i].read_insn = who.insn;
  }
  touch(race, range);
}

struct ts_conflict ts_race_read(struct ts_race *race, struct ts_accessor who, uint64_t address,
                                uint64_t size_bytes) {
  struct ts_conflict conflict = ts_race_check_read(race, who, address, size_bytes);
  ts_race_note_read(race, who, address, size_bytes);
  return conflict;
}

/* The first warp whose read of the cell is not ordered before the warp's present, or its count. */
static uint32_t unordered_reader(const struct ts_race *race, const uint32_t *stamps,
                                 uint32_t warp) {
  const uint32_t *clock = race->clock[warp];
  for (uint32_t v = 0; v < race->warp_count; v++)
    if (stamps[v] > clock[v] && v != warp) return v;
  return race->warp_count;
}

struct ts_conflict ts_race_write(struct ts_race *race, struct ts_accessor who, uint64_t address,
                                 uint64_t size_bytes) {
  struct ts_conflict conflict = {0};
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  struct ts_race_cell fresh = {.write_stamp = race->clock[who.warp][who.warp],
                               .write_insn = who.insn,
                               .write_warp = (uint8_t)who.warp,
                               .is_async = who.is_async,
                               .is_atomic = who.is_atomic,
                               .is_fenced = who.is_fenced,
                               .is_initialised = true};
  for (uint64_t i = range.first; i < range.end; i++) {
    struct ts_race_cell *cell = &race->cells[i];
    if (conflict.kind == TS_CONFLICT_NONE) {
      uint64_t at = i << race->granule_shift;
      uint32_t reader = unordered_reader(race, &race->read_stamps[i * race->warp_count], who.warp);
      if (cell->write_stamp && !is_write_ordered(race, cell, who))
        note(&conflict, TS_CONFLICT_WRITE_AFTER_WRITE, cell->write_warp, cell->write_insn, at);
      else if (reader < race->warp_count)
        note(&conflict, TS_CONFLICT_WRITE_AFTER_READ, reader, cell->read_insn, at);
    }
    fresh.read_insn = cell->read_insn;
    *cell = fresh;
  }
  touch(race, range);
  return conflict;
}

bool ts_race_is_initialised(const struct ts_race *race, uint64_t address, uint64_t size_bytes) {
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++)
    if (!race->cells[i].is_initialised) return false;
  return true;
}

void ts_race_set_initialised(struct ts_race *race, uint64_t address, uint64_t size_bytes,
                             bool is_initialised) {
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++)
    race->cells[i].is_initialised = is_initialised;
  touch(race, range);
}

/* --- order */

void ts_race_release(struct ts_race *race, uint32_t warp, struct ts_clock *clock) {
  for (uint32_t v = 0; v < race->warp_count; v++) {
    if (race->clock[warp][v] > clock->clock[v]) clock->clock[v] = race->clock[warp][v];
    if (race->visible[warp][v] > clock->visible[v]) clock->visible[v] = race->visible[warp][v];
  }
  race->clock[warp][warp]++;
}

void ts_race_acquire(struct ts_race *race, uint32_t warp, const struct ts_clock *clock) {
  for (uint32_t v = 0; v < race->warp_count; v++) {
    if (v != warp && clock->clock[v] > race->clock[warp][v]) race->clock[warp][v] = clock->clock[v];
    if (clock->visible[v] > race->visible[warp][v]) race->visible[warp][v] = clock->visible[v];
  }
}

void ts_race_fence_async(struct ts_race *race, uint32_t warp) {
  memcpy(race->visible[warp], race->clock[warp], sizeof race->visible[warp]);
  /* Later writes of the warp must not count as fenced. */
  race->clock[warp][warp]++;
}

/* --- global memory */

enum ts_status ts_global_race_init(struct ts_ctx *ctx, struct ts_global_race *race,
                                   uint64_t size_bytes, uint32_t granule_bytes) {
  memset(race, 0, sizeof *race);
  race->allocator = ctx->allocator;
  race->granule_shift = log2_of(granule_bytes);
  race->cell_count = (size_bytes >> race->granule_shift) + 1;
  race->cells = allocate(ctx->allocator, race->cell_count, sizeof *race->cells);
  return race->cells ? TS_OK : ts_fail_memory(ctx);
}

void ts_global_race_free(struct ts_global_race *race) {
  if (!race->allocator) return;
  release(race->allocator, race->cells, race->cell_count * sizeof *race->cells);
  race->cells = NULL;
}

struct global_accessor {
  const struct ts_race *order;
  uint32_t block;
  struct ts_accessor who;
  bool checks_blocks;
};

static bool is_ordered(const struct global_accessor *by, const struct ts_global_access *other) {
  if (other->block == 0 || (other->is_atomic && by->who.is_atomic)) return true;
  if (other->block != by->block + 1) return !by->checks_blocks;
  return other->warp == by->who.warp || other->stamp <= by->order->clock[by->who.warp][other->warp];
}

static void note_global(struct ts_conflict *conflict, enum ts_conflict_kind kind,
                        const struct ts_global_access *other, uint64_t offset) {
  if (conflict->kind != TS_CONFLICT_NONE) return;
  *conflict = (struct ts_conflict){.kind = kind,
                                   .other_warp = other->warp,
                                   .other_insn = other->insn,
                                   .other_block = other->block - 1,
                                   .address = offset};
}

struct ts_conflict ts_global_race_read(struct ts_global_race *race, const struct ts_race *order,
                                       uint32_t block, struct ts_accessor who, bool checks_blocks,
                                       uint64_t offset, uint64_t size_bytes) {
  struct ts_conflict conflict = {0};
  struct global_accessor by = {order, block, who, checks_blocks};
  struct ts_global_access access = {block + 1, order->clock[who.warp][who.warp], who.insn,
                                    (uint16_t)who.warp, false};
  struct range range = range_of(race->cell_count, race->granule_shift, offset, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++) {
    struct ts_global_cell *cell = &race->cells[i];
    if (!is_ordered(&by, &cell->write))
      note_global(&conflict, TS_CONFLICT_READ_AFTER_WRITE, &cell->write, i << race->granule_shift);
    if (cell->read.block && cell->read.block != block + 1) {
      cell->other_block = cell->read.block;
      cell->other_insn = cell->read.insn;
    }
    cell->read = access;
  }
  return conflict;
}

/* An atomic of one warp after one of another that nothing orders. */
static bool is_contention(const struct global_accessor *by, const struct ts_global_access *other) {
  if (!by->who.is_atomic || !other->is_atomic || other->block == 0) return false;
  if (other->block != by->block + 1) return true;
  return other->warp != by->who.warp && other->stamp > by->order->clock[by->who.warp][other->warp];
}

struct ts_conflict ts_global_race_write(struct ts_global_race *race, const struct ts_race *order,
                                        uint32_t block, struct ts_accessor who, bool checks_blocks,
                                        uint64_t offset, uint64_t size_bytes, bool *is_contended) {
  struct ts_conflict conflict = {0};
  struct global_accessor by = {order, block, who, checks_blocks};
  struct ts_global_access access = {block + 1, order->clock[who.warp][who.warp], who.insn,
                                    (uint16_t)who.warp, who.is_atomic};
  struct range range = range_of(race->cell_count, race->granule_shift, offset, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++) {
    struct ts_global_cell *cell = &race->cells[i];
    uint64_t at = i << race->granule_shift;
    struct ts_global_access other_read = {cell->other_block, 0, cell->other_insn, 0, false};
    if (!is_ordered(&by, &cell->write))
      note_global(&conflict, TS_CONFLICT_WRITE_AFTER_WRITE, &cell->write, at);
    else if (!is_ordered(&by, &cell->read))
      note_global(&conflict, TS_CONFLICT_WRITE_AFTER_READ, &cell->read, at);
    else if (cell->other_block && cell->other_block != block + 1 && checks_blocks)
      note_global(&conflict, TS_CONFLICT_WRITE_AFTER_READ, &other_read, at);
    if (is_contention(&by, &cell->write)) *is_contended = true;
    cell->write = access;
  }
  return conflict;
}
