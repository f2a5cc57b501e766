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
  ts_race_reset(race, 0);
  return TS_OK;
}

enum ts_status ts_race_init_peers(struct ts_ctx *ctx, struct ts_race *race) {
  race->peer_reads = allocate(ctx->allocator, race->cell_count, sizeof *race->peer_reads);
  return race->peer_reads ? TS_OK : ts_fail_memory(ctx);
}

void ts_race_reset(struct ts_race *race, uint32_t block) {
  for (uint32_t w = 0; race->log && w < race->warp_count; w++)
    race->log->first_barrier[w].count = 0;
  race->first_agent = block * race->warp_count;
  memset(race->far, 0, sizeof race->far);
  memset(race->far_fenced, 0, sizeof race->far_fenced);
  memset(race->far_read, 0, sizeof race->far_read);
  memset(race->fenced, 0, sizeof race->fenced);
  if (race->peer_reads)
    memset(race->peer_reads, 0, (size_t)race->touched_end * sizeof *race->peer_reads);
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
  release(race->allocator, race->peer_reads, race->cell_count * sizeof *race->peer_reads);
  race->cells = NULL;
  race->read_stamps = NULL;
  race->peer_reads = NULL;
}

/* --- barriers that order something */

void ts_race_log_barrier(struct ts_race *race, uint32_t warp, uint32_t insn) {
  if (!race->log) return;
  /* Memory that is short loses remarks, not hazards. */
  while (race->log->first_barrier[warp].count <= race->clock[warp][warp])
    if (ts_vec_push(&race->log->first_barrier[warp], race->allocator, insn + 1)) return;
}

/* Something must come after the warp's accesses with the stamp. */
static void need_barrier(const struct ts_race *race, uint32_t warp, uint32_t stamp) {
  struct ts_barrier_log *log = race->log;
  if (stamp < log->first_barrier[warp].count)
    log->is_needed[log->first_barrier[warp].data[stamp] - 1] = 1;
}

/* ... after what an asynchronous write brought: the barrier may have passed on that somebody has
 * waited for it. */
static void need_last_barrier(const struct ts_race *race, uint32_t warp) {
  size_t count = race->log->first_barrier[warp].count;
  if (count) race->log->is_needed[race->log->first_barrier[warp].data[count - 1] - 1] = 1;
}

static void need_after_write(const struct ts_race *race, const struct ts_race_cell *cell,
                             uint32_t warp) {
  if (!cell->write_stamp || cell->write_peer) return;
  if (cell->is_async) need_last_barrier(race, warp);
  need_barrier(race, cell->write_warp, cell->write_stamp);
}

static void need_after_reads(const struct ts_race *race, const uint32_t *stamps) {
  for (uint32_t v = 0; v < race->warp_count; v++)
    if (stamps[v]) need_barrier(race, v, stamps[v]);
}

/* --- conflicts */

/* agent: the other one. */
static void note(const struct ts_race *race, struct ts_conflict *conflict,
                 enum ts_conflict_kind kind, uint32_t agent, uint32_t insn, uint64_t cell) {
  if (conflict->kind != TS_CONFLICT_NONE) return;
  *conflict = (struct ts_conflict){.kind = kind,
                                   .other_warp = agent % race->warp_count,
                                   .other_block = agent / race->warp_count,
                                   .other_insn = insn,
                                   .address = cell << race->granule_shift};
}

static uint32_t writer_of(const struct ts_race *race, const struct ts_race_cell *cell) {
  uint32_t first = cell->write_peer ? race->peer_agents[cell->write_peer - 1] : race->first_agent;
  return first + cell->write_warp;
}

static bool is_write_ordered(const struct ts_race *race, const struct ts_race_cell *cell,
                             struct ts_accessor who) {
  if (cell->is_async || (who.is_atomic && cell->is_atomic)) return true;
  if (cell->write_peer)
    return cell->write_stamp <= ts_far_stamp(race->far[who.warp], writer_of(race, cell));
  return cell->write_warp == who.warp ||
         cell->write_stamp <= race->clock[who.warp][cell->write_warp];
}

/* Generic writes reach asynchronous accesses only through a proxy fence. Whether a warp of another
 * block had one is not followed. */
static bool is_write_visible(const struct ts_race *race, const struct ts_race_cell *cell,
                             uint32_t warp) {
  return cell->is_async || cell->is_fenced || cell->write_peer ||
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

static bool is_own(const struct ts_race *race, const struct ts_race_cell *cell, uint32_t warp) {
  return cell->write_lane && cell->write_warp == warp &&
         cell->write_stamp == race->clock[warp][warp];
}

struct ts_conflict ts_race_check_read(const struct ts_race *race, struct ts_accessor who,
                                      uint64_t address, uint64_t size_bytes) {
  struct ts_conflict conflict = {0};
  bool any_own = false;
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++) {
    const struct ts_race_cell *cell = &race->cells[i];
    if (cell->write_stamp == 0) continue;
    any_own |= is_own(race, cell, who.warp);
    if (race->log) need_after_write(race, cell, who.warp);
    if (!is_write_ordered(race, cell, who))
      note(race, &conflict, TS_CONFLICT_READ_AFTER_WRITE, writer_of(race, cell), cell->write_insn,
           i);
    else if (who.is_async && !is_write_visible(race, cell, who.warp))
      note(race, &conflict, TS_CONFLICT_PROXY, writer_of(race, cell), cell->write_insn, i);
  }
  conflict.is_own = any_own;
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
    if (race->log) {
      need_after_write(race, cell, who.warp);
      need_after_reads(race, &race->read_stamps[i * race->warp_count]);
    }
    if (conflict.kind == TS_CONFLICT_NONE) {
      uint32_t reader = unordered_reader(race, &race->read_stamps[i * race->warp_count], who.warp);
      const struct ts_peer_read *peer_read = race->peer_reads ? &race->peer_reads[i] : NULL;
      if (cell->write_stamp && !is_write_ordered(race, cell, who))
        note(race, &conflict, TS_CONFLICT_WRITE_AFTER_WRITE, writer_of(race, cell),
             cell->write_insn, i);
      else if (reader < race->warp_count)
        note(race, &conflict, TS_CONFLICT_WRITE_AFTER_READ, race->first_agent + reader,
             cell->read_insn, i);
      else if (peer_read && peer_read->stamp > ts_far_stamp(race->far[who.warp], peer_read->agent))
        note(race, &conflict, TS_CONFLICT_WRITE_AFTER_READ, peer_read->agent, peer_read->insn, i);
    }
    fresh.read_insn = cell->read_insn;
    *cell = fresh;
  }
  touch(race, range);
  return conflict;
}

/* --- lanes of a warp */

void ts_race_meet(struct ts_race *race, uint32_t warp) { race->clock[warp][warp]++; }

void ts_race_set_lane(struct ts_race *race, uint32_t lane, uint64_t address, uint64_t size_bytes) {
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++)
    race->cells[i].write_lane = (uint8_t)(lane + 1);
}

uint32_t ts_race_unmet_lane(const struct ts_race *race, uint32_t warp, uint32_t lane,
                            uint64_t address, uint64_t size_bytes, uint32_t *insn) {
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  for (uint64_t i = range.first; i < range.end; i++) {
    const struct ts_race_cell *cell = &race->cells[i];
    if (!is_own(race, cell, warp) || cell->write_lane == lane + 1) continue;
    *insn = cell->write_insn;
    return cell->write_lane - 1u;
  }
  return UINT32_MAX;
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

static void raise(uint32_t *stamps, const uint32_t *others, uint32_t count) {
  for (uint32_t v = 0; v < count; v++)
    if (others[v] > stamps[v]) stamps[v] = others[v];
}

void ts_race_release(struct ts_race *race, uint32_t warp, struct ts_clock *clock) {
  raise(clock->clock, race->clock[warp], race->warp_count);
  raise(clock->visible, race->visible[warp], race->warp_count);
  if (race->order) {
    raise(clock->fenced, race->fenced[warp], race->warp_count);
    clock->far = ts_far_join(race->order, clock->far, race->far[warp]);
    clock->far_fenced = ts_far_join(race->order, clock->far_fenced, race->far_fenced[warp]);
  }
  race->clock[warp][warp]++;
}

void ts_race_acquire(struct ts_race *race, uint32_t warp, const struct ts_clock *clock) {
  uint32_t own = race->clock[warp][warp];
  raise(race->clock[warp], clock->clock, race->warp_count);
  race->clock[warp][warp] = own;
  raise(race->visible[warp], clock->visible, race->warp_count);
  if (!race->order) return;
  raise(race->fenced[warp], clock->fenced, race->warp_count);
  race->far[warp] = ts_far_join(race->order, race->far[warp], clock->far);
  race->far_fenced[warp] = ts_far_join(race->order, race->far_fenced[warp], clock->far_fenced);
}

void ts_race_fence_async(struct ts_race *race, uint32_t warp) {
  memcpy(race->visible[warp], race->clock[warp], sizeof race->visible[warp]);
  /* Later writes of the warp must not count as fenced. */
  race->clock[warp][warp]++;
}

/* --- order between blocks */

void ts_race_fence(struct ts_race *race, uint32_t warp) {
  ts_race_learn(race, warp, race->far_read[warp], true);
  race->far_read[warp] = NULL;
  memcpy(race->fenced[warp], race->clock[warp], sizeof race->fenced[warp]);
  race->far_fenced[warp] = race->far[warp];
  race->clock[warp][warp]++;
}

const struct ts_far *ts_race_told(struct ts_race *race, uint32_t warp, enum ts_tell tell) {
  bool is_all = tell == TS_TELL_ALL;
  if (tell == TS_TELL_NOTHING) return NULL;
  const struct ts_far *told =
      ts_far_with(race->order, is_all ? race->far[warp] : race->far_fenced[warp], race->first_agent,
                  is_all ? race->clock[warp] : race->fenced[warp], race->warp_count);
  if (is_all) race->clock[warp][warp]++;
  return told;
}

/* What the set says about the block's own warps. */
static void raise_own(const struct ts_race *race, uint32_t *stamps, const struct ts_far *far) {
  for (uint32_t v = 0; v < race->warp_count; v++) {
    uint32_t stamp = ts_far_stamp(far, race->first_agent + v);
    if (stamp > stamps[v]) stamps[v] = stamp;
  }
}

void ts_race_learn_own(struct ts_race *race, uint32_t warp, const struct ts_far *far) {
  uint32_t own = race->clock[warp][warp];
  raise_own(race, race->clock[warp], far);
  race->clock[warp][warp] = own;
}

void ts_race_learn(struct ts_race *race, uint32_t warp, const struct ts_far *far, bool is_acquire) {
  const struct ts_far **known = is_acquire ? &race->far[warp] : &race->far_read[warp];
  const struct ts_far *joined = ts_far_join(race->order, *known, far);
  if (joined == *known) return;
  *known = joined;
  if (is_acquire) ts_race_learn_own(race, warp, far);
}

void ts_race_tell_clock(struct ts_race *race, struct ts_clock *clock, const struct ts_far *far) {
  clock->far = ts_far_join(race->order, clock->far, far);
  raise_own(race, clock->clock, far);
}

/* Whether what the agent did up to the stamp is ordered before the peer's warp. */
static bool peer_knows(const struct ts_race *peer, uint32_t warp, uint32_t agent, uint32_t stamp) {
  uint32_t own = agent - peer->first_agent;
  if (own < peer->warp_count) return own == warp || stamp <= peer->clock[warp][own];
  return stamp <= ts_far_stamp(peer->far[warp], agent);
}

struct ts_conflict ts_race_peer_read(struct ts_race *race, const struct ts_race *peer,
                                     struct ts_accessor who, uint64_t address,
                                     uint64_t size_bytes) {
  struct ts_conflict conflict = {0};
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  struct ts_peer_read read = {peer->first_agent + who.warp, peer->clock[who.warp][who.warp],
                              who.insn};
  for (uint64_t i = range.first; i < range.end; i++) {
    const struct ts_race_cell *cell = &race->cells[i];
    if (cell->write_stamp && !cell->is_async &&
        !peer_knows(peer, who.warp, writer_of(race, cell), cell->write_stamp))
      note(race, &conflict, TS_CONFLICT_READ_AFTER_WRITE, writer_of(race, cell), cell->write_insn,
           i);
    if (race->peer_reads) race->peer_reads[i] = read;
  }
  touch(race, range);
  return conflict;
}

/* The first read of the cell that the peer's warp does not know of. */
static struct ts_peer_read unknown_read(const struct ts_race *race, const struct ts_race *peer,
                                        uint32_t warp, uint64_t cell) {
  const uint32_t *stamps = &race->read_stamps[cell * race->warp_count];
  for (uint32_t v = 0; v < race->warp_count; v++)
    if (stamps[v] && !peer_knows(peer, warp, race->first_agent + v, stamps[v]))
      return (struct ts_peer_read){race->first_agent + v, stamps[v], race->cells[cell].read_insn};
  struct ts_peer_read read = {0};
  if (race->peer_reads) read = race->peer_reads[cell];
  if (read.stamp && peer_knows(peer, warp, read.agent, read.stamp)) read.stamp = 0;
  return read;
}

struct ts_conflict ts_race_peer_write(struct ts_race *race, const struct ts_race *peer,
                                      uint32_t rank, struct ts_accessor who, uint64_t address,
                                      uint64_t size_bytes) {
  struct ts_conflict conflict = {0};
  struct range range = range_of(race->cell_count, race->granule_shift, address, size_bytes);
  struct ts_race_cell fresh = {.write_stamp = peer->clock[who.warp][who.warp],
                               .write_insn = who.insn,
                               .write_warp = (uint8_t)who.warp,
                               .write_peer = (uint8_t)(rank + 1),
                               .is_async = who.is_async,
                               .is_initialised = true};
  for (uint64_t i = range.first; i < range.end; i++) {
    struct ts_race_cell *cell = &race->cells[i];
    struct ts_peer_read read = unknown_read(race, peer, who.warp, i);
    if (cell->write_stamp && !cell->is_async &&
        !peer_knows(peer, who.warp, writer_of(race, cell), cell->write_stamp))
      note(race, &conflict, TS_CONFLICT_WRITE_AFTER_WRITE, writer_of(race, cell), cell->write_insn,
           i);
    else if (read.stamp)
      note(race, &conflict, TS_CONFLICT_WRITE_AFTER_READ, read.agent, read.insn, i);
    fresh.read_insn = cell->read_insn;
    *cell = fresh;
  }
  touch(race, range);
  return conflict;
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

/* Whether the warp has been told of the access by another block. */
static bool is_known(const struct global_accessor *by, const struct ts_global_access *other) {
  uint32_t agent = (other->block - 1) * by->order->warp_count + other->warp;
  return by->order->order && other->stamp <= ts_far_stamp(by->order->far[by->who.warp], agent);
}

static bool is_ordered(const struct global_accessor *by, const struct ts_global_access *other) {
  if (other->block == 0 || (other->is_atomic && by->who.is_atomic)) return true;
  if (other->block != by->block + 1) return !by->checks_blocks || is_known(by, other);
  if (by->order->log) need_barrier(by->order, other->warp, other->stamp);
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
    if (cell->read.block && cell->read.block != block + 1) cell->other_read = cell->read;
    cell->read = access;
  }
  return conflict;
}

/* An atomic of one warp after one of another that nothing orders. */
static bool is_contention(const struct global_accessor *by, const struct ts_global_access *other) {
  if (!by->who.is_atomic || !other->is_atomic || other->block == 0) return false;
  if (other->block != by->block + 1) return !is_known(by, other);
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
    if (!is_ordered(&by, &cell->write))
      note_global(&conflict, TS_CONFLICT_WRITE_AFTER_WRITE, &cell->write, at);
    else if (!is_ordered(&by, &cell->read))
      note_global(&conflict, TS_CONFLICT_WRITE_AFTER_READ, &cell->read, at);
    else if (!is_ordered(&by, &cell->other_read))
      note_global(&conflict, TS_CONFLICT_WRITE_AFTER_READ, &cell->other_read, at);
    if (is_contention(&by, &cell->write)) *is_contended = true;
    cell->write = access;
  }
  return conflict;
}
