/* mbarriers (DOC: PTX ISA, mbarrier): a phase completes when no arrival is pending and the
 * transaction count is zero; expect_tx may come after the transactions, so the count may go below
 * zero. A wait for parity p passes when the phase with that parity has completed: the number of
 * completed phases is odd for p = 0 and even for p = 1. */
#include "interp/check_priv.h"

#include <stdio.h>
#include <string.h>

enum { MBARRIER_BYTES = 8, MAX_COUNT = (1 << 20) - 1 };

/* Position of the first mbarrier at or after the address. */
static size_t lower_bound(const struct ts__block *block, uint32_t address) {
  size_t first = 0, last = block->mbarriers.count;
  while (first < last) {
    size_t middle = (first + last) / 2;
    if (block->mbarriers.data[middle].address < address)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

struct ts__mbarrier *ts__mbarrier_find(const struct ts__block *block, uint32_t address) {
  size_t i = lower_bound(block, address);
  if (i == block->mbarriers.count || block->mbarriers.data[i].address != address) return NULL;
  return block->mbarriers.data[i].is_initialised ? &block->mbarriers.data[i] : NULL;
}

static void complete_when_done(struct ts__mbarrier *mbarrier) {
  if (mbarrier->pending || mbarrier->tx_bytes) return;
  mbarrier->phase++;
  mbarrier->pending = mbarrier->expected;
  mbarrier->completed_warps = mbarrier->arrived_warps;
  mbarrier->arrived_warps = 0;
}

void ts__mbarrier_complete_tx(struct ts__block *block, uint32_t address, uint64_t bytes) {
  struct ts__mbarrier *mbarrier = ts__mbarrier_find(block, address);
  if (!mbarrier) return;
  mbarrier->tx_bytes -= (int64_t)bytes;
  complete_when_done(mbarrier);
}

/* Arrivals one after another, each of which may complete a phase. Answers how many found no pending
 * arrival left. */
static uint32_t arrive(struct ts__mbarrier *mbarrier, uint32_t count, uint64_t warps) {
  while (count && mbarrier->pending) {
    uint32_t step = count < mbarrier->pending ? count : mbarrier->pending;
    mbarrier->pending -= step;
    mbarrier->arrived_warps |= warps;
    count -= step;
    complete_when_done(mbarrier);
  }
  return count;
}

void ts__mbarrier_arrive(struct ts__block *block, uint32_t address, uint32_t count,
                         uint64_t warps) {
  struct ts__mbarrier *mbarrier = ts__mbarrier_find(block, address);
  if (mbarrier) arrive(mbarrier, count, warps);
}

/* phase: of those since the initialisation; UINT64_MAX none. work = arrivals, bytes = transaction
 * bytes expected. */
static enum ts_status emit_sync(struct ts__warp *warp, const struct ts__code *code,
                                struct ts_event event, const struct ts__block *block,
                                const struct ts__mbarrier *mbarrier, uint64_t phase) {
  event.sync_kind = TS_SYNC_MBARRIER;
  event.src_space = event.dst_space = 0xff;
  event.sync_object = mbarrier->address;
  event.sync_phase = phase == UINT64_MAX ? UINT32_MAX : (uint32_t)(mbarrier->first_phase + phase);
  event.cause = ts__event_target(warp, block);
  return ts__emit(warp, code, event, NULL);
}

enum ts_status ts__mbarrier_emit_arrivals(struct ts__warp *warp, const struct ts__code *code,
                                          const struct ts__block *block,
                                          const struct ts__mbarrier *mbarrier, uint32_t arrivals,
                                          uint64_t bytes) {
  uint64_t phase = mbarrier->phase;
  uint32_t room = mbarrier->pending;
  if (!ts__listening(warp->block)) return TS_OK;
  do {
    uint32_t step = arrivals < room || room == 0 ? arrivals : room;
    struct ts_event event = {.kind = TS_EVENT_ARRIVE, .work = step, .bytes = (uint32_t)bytes};
    TS_TRY(emit_sync(warp, code, event, block, mbarrier, phase++));
    arrivals -= step;
    bytes = 0;
    room = mbarrier->expected;
  } while (arrivals);
  return TS_OK;
}

/* Lanes of *remaining that name the same address as its first lane; they are taken out of it. */
static uint32_t take_group(const uint64_t addresses[TS__LANES], uint32_t *remaining) {
  uint64_t address = addresses[ts__first_lane(*remaining)];
  uint32_t group = 0;
  for (uint32_t lanes = *remaining; lanes; lanes &= lanes - 1)
    if (addresses[ts__first_lane(lanes)] == address) group |= lanes & (0 - lanes);
  *remaining &= ~group;
  return group;
}

struct ts__mbarrier *ts__mbarrier_require_in(struct ts__warp *warp, const struct ts__code *code,
                                             uint32_t lane, struct ts__block *block,
                                             uint64_t address) {
  struct ts__mbarrier *mbarrier =
      address > UINT32_MAX ? NULL : ts__mbarrier_find(block, (uint32_t)address);
  char where[128], whose[64] = "";
  if (mbarrier) return mbarrier;
  if (block != warp->block) snprintf(whose, sizeof whose, " of block %u", block->index);
  ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, lane, TS_NONE,
             block == warp->block
                 ? "mbarrier.init must come first, with a barrier before other threads use it"
                 : "mbarrier.init must come first, with cluster.sync before other blocks use it",
             "no mbarrier is initialised at %s%s",
             ts__shared_text(block, address, where, sizeof where), whose);
  return NULL;
}

struct ts__mbarrier *ts__mbarrier_require(struct ts__warp *warp, const struct ts__code *code,
                                          uint32_t lane, uint64_t address) {
  return ts__mbarrier_require_in(warp, code, lane, warp->block, address);
}

static bool may_initialise(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                           uint64_t address, uint64_t count) {
  char where[128];
  ts__shared_text(warp->block, address, where, sizeof where);
  if (!ts__shared_writable(warp, code, lane, address, MBARRIER_BYTES)) return false;
  if (address % MBARRIER_BYTES) {
    ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
               "an mbarrier at %s is not aligned to 8 bytes", where);
    return false;
  }
  if (count == 0 || count > MAX_COUNT) {
    ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, lane, TS_NONE, NULL,
               "the mbarrier at %s is initialised for %llu arrivals: 1 to %d are possible", where,
               (unsigned long long)count, MAX_COUNT);
    return false;
  }
  const struct ts__mbarrier *old = ts__mbarrier_find(warp->block, (uint32_t)address);
  if (old && (old->pending != old->expected || old->tx_bytes))
    ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, lane, TS_NONE, NULL,
               "the mbarrier at %s is initialised again in the middle of a phase", where);
  return warp->block->status == TS_OK;
}

enum ts__step ts__exec_mbarrier_init(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__block *block = warp->block;
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint64_t address = ts__operand_lane(warp, &code->operands[0], lane);
    uint64_t count = ts__operand_lane(warp, &code->operands[1], lane);
    if (!may_initialise(warp, code, lane, address, count)) continue;
    struct ts__mbarrier fresh = {.address = (uint32_t)address,
                                 .is_initialised = true,
                                 .expected = (uint32_t)count,
                                 .pending = (uint32_t)count,
                                 .tx_insn = code->insn};
    size_t i = lower_bound(block, fresh.address);
    size_t behind = block->mbarriers.count - i;
    bool is_known = behind && block->mbarriers.data[i].address == fresh.address;
    if (is_known) {
      const struct ts__mbarrier *old = &block->mbarriers.data[i];
      fresh.first_phase = old->first_phase + old->phase + 1;
    } else {
      if (ts_vec_reserve(&block->mbarriers, block->ctx->allocator, 1))
        return ts__fault_memory(warp);
      memmove(&block->mbarriers.data[i + 1], &block->mbarriers.data[i], behind * sizeof fresh);
      block->mbarriers.count++;
    }
    block->mbarriers.data[i] = fresh;
    if (block->check) ts__check_mbarrier_init(warp, code, lane, fresh.address);
    uint64_t image = count;
    memcpy(block->shared.data + address, &image, sizeof image);
    block->shared.version++;
    if (!ts__listening(block)) continue;
    struct ts_event event = {.kind = TS_EVENT_INSN, .work = fresh.expected};
    if (emit_sync(warp, code, event, block, &block->mbarriers.data[i], 0) != TS_OK)
      return TS__STEP_FAULT;
  }
  return ts__after_checks(warp);
}

/* expect_tx, then the arrivals, of the lanes of one group. */
static enum ts__step expect_and_arrive(struct ts__warp *warp, const struct ts__code *code,
                                       uint32_t group, struct ts__block *block, uint64_t address,
                                       uint64_t bytes, bool expects, bool arrives) {
  uint32_t lane = ts__first_lane(group);
  struct ts__mbarrier *mbarrier = ts__mbarrier_require_in(warp, code, lane, block, address);
  if (!mbarrier) return ts__after_checks(warp);
  char where[128];
  uint32_t arrivals = arrives ? (uint32_t)__builtin_popcount(group) : 0;
  if (ts__mbarrier_emit_arrivals(warp, code, block, mbarrier, arrivals, bytes) != TS_OK)
    return TS__STEP_FAULT;
  if (warp->block->check && arrives && block == warp->block)
    ts__check_mbarrier_arrive(warp, code, lane, mbarrier->address, mbarrier->phase);
  else if (warp->block->check && arrives)
    ts__check_peer_arrive(warp, code, block, mbarrier->address, mbarrier->phase);
  if (expects) {
    mbarrier->tx_bytes += (int64_t)bytes;
    mbarrier->tx_insn = code->insn;
    if (bytes > MAX_COUNT || mbarrier->tx_bytes > MAX_COUNT)
      return ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, lane, TS_NONE, NULL,
                        "the mbarrier at %s expects %lld bytes: at most %d can be counted",
                        ts__shared_text(block, address, where, sizeof where),
                        (long long)mbarrier->tx_bytes, MAX_COUNT);
    if (!arrives) complete_when_done(mbarrier);
  }
  /* What warps of other blocks have seen says nothing about this block's shared memory. */
  uint64_t warps = block == warp->block ? (uint64_t)1 << warp->index : 0;
  if (arrives && arrive(mbarrier, arrivals, warps))
    return ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, lane, TS_NONE,
                      "the count of mbarrier.init must be the number of arrivals in a phase",
                      "more than %u arrivals in a phase of the mbarrier at %s", mbarrier->expected,
                      ts__shared_text(block, address, where, sizeof where));
  return TS__STEP_NEXT;
}

enum ts__step ts__mbarrier_arrive_from(struct ts__warp *warp, const struct ts__code *code,
                                       uint32_t lane, struct ts__block *block, uint64_t address,
                                       uint64_t bytes, bool expects) {
  return expect_and_arrive(warp, code, 1u << lane, block, address, bytes, expects, true);
}

static enum ts__step update(struct ts__warp *warp, const struct ts__code *code, bool expects,
                            bool arrives) {
  uint64_t addresses[TS__LANES], bytes[TS__LANES] = {0};
  ts__operand_lanes64(warp, &code->operands[0], addresses);
  if (expects) ts__operand_lanes64(warp, &code->operands[1], bytes);
  uint32_t remaining = warp->active;
  while (remaining) {
    uint32_t group = take_group(addresses, &remaining);
    if (!expects) {
      enum ts__step step = expect_and_arrive(warp, code, group, warp->block,
                                             addresses[ts__first_lane(group)], 0, false, arrives);
      if (step != TS__STEP_NEXT) return step;
      continue;
    }
    /* Lane by lane: each lane's arrival follows its own expect_tx. */
    for (; group; group &= group - 1) {
      uint32_t lane = ts__first_lane(group);
      enum ts__step step = expect_and_arrive(warp, code, group & (0 - group), warp->block,
                                             addresses[lane], bytes[lane], true, arrives);
      if (step != TS__STEP_NEXT) return step;
    }
  }
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_mbarrier_expect_tx(struct ts__warp *warp, const struct ts__code *code) {
  return update(warp, code, true, false);
}

enum ts__step ts__exec_mbarrier_arrive(struct ts__warp *warp, const struct ts__code *code) {
  return update(warp, code, false, true);
}

enum ts__step ts__exec_mbarrier_arrive_expect_tx(struct ts__warp *warp,
                                                 const struct ts__code *code) {
  return update(warp, code, true, true);
}

enum ts__step ts__exec_mbarrier_complete_tx(struct ts__warp *warp, const struct ts__code *code) {
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint64_t address = ts__operand_lane(warp, &code->operands[0], lane);
    if (!ts__mbarrier_require(warp, code, lane, address)) return ts__after_checks(warp);
    ts__mbarrier_complete_tx(warp->block, (uint32_t)address,
                             ts__operand_lane(warp, &code->operands[1], lane));
  }
  return TS__STEP_NEXT;
}

/* The number of completed phases that the warp's next wait for the parity is for, if it waits for
 * phases in turn. */
static uint32_t wanted_phases(const struct ts__mbarrier *mbarrier, uint32_t warp, uint32_t parity) {
  uint32_t next = mbarrier->next[warp];
  return (next & 1) == parity ? next + 1 : next;
}

bool ts__mbarrier_release(struct ts__block *block) {
  bool released = false;
  for (uint32_t i = 0; i < block->warp_count; i++) {
    struct ts__warp *warp = &block->warps[i];
    if (warp->state != TS__WARP_BLOCKED || warp->wait.kind != TS__WAIT_MBARRIER) continue;
    const struct ts__mbarrier *mbarrier = ts__mbarrier_find(block, warp->wait.object);
    if (!mbarrier || wanted_phases(mbarrier, i, warp->wait.parity) >= mbarrier->phase) continue;
    char where[128];
    ts__hazard(warp, &block->program->code[warp->pc], TS_DIAG_WAIT_OVERTAKEN, TS_NONE, TS_NONE,
               "let every waiting warp also arrive, so that the phase cannot run ahead of it",
               "warp %u waits for a phase of the mbarrier at %s that was over before the warp "
               "looked: %llu phases are complete",
               i, ts__shared_text(block, warp->wait.object, where, sizeof where),
               (unsigned long long)mbarrier->phase);
    warp->wait.is_released = true;
    released = true;
  }
  return released;
}

/* Passes when the phase with the parity is over; then the warp sees what the phase's arrivals and
 * loads made visible. */
static enum ts__step wait_for(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                              uint64_t address, uint32_t parity) {
  struct ts__block *block = warp->block;
  struct ts__mbarrier *mbarrier = ts__mbarrier_require(warp, code, lane, address);
  if (!mbarrier) return ts__after_checks(warp);
  if ((mbarrier->phase & 1) == parity && !warp->wait.is_released) {
    warp->wait =
        (struct ts__wait){.kind = TS__WAIT_MBARRIER, .object = (uint32_t)address, .parity = parity};
    return TS__STEP_BLOCKED;
  }
  uint32_t wanted = wanted_phases(mbarrier, warp->index, parity);
  uint64_t seen = warp->wait.is_released ? wanted : mbarrier->phase;
  warp->wait.is_released = false;
  if (wanted <= mbarrier->phase) mbarrier->next[warp->index] = wanted + 1;
  uint64_t bit = (uint64_t)1 << warp->index;
  ts__observe_sync(block, (uint32_t)address, seen, bit);
  if (seen) ts__flow(block, mbarrier->completed_warps, bit);
  if (block->check) ts__check_mbarrier_pass(warp, (uint32_t)address, wanted < seen ? wanted : seen);
  if (!ts__listening(block)) return TS__STEP_NEXT;
  /* The phase that was waited for, whatever has been completed since. A fresh mbarrier lets a wait
   * for the odd parity pass: no phase. */
  uint64_t phase = (wanted < seen ? wanted : seen) - 1;
  struct ts_event event = {.kind = TS_EVENT_WAIT};
  return emit_sync(warp, code, event, block, mbarrier, phase) == TS_OK ? TS__STEP_NEXT
                                                                       : TS__STEP_FAULT;
}

enum ts__step ts__exec_mbarrier_wait(struct ts__warp *warp, const struct ts__code *code) {
  const struct ts__operand *address = &code->operands[0], *parity = &code->operands[1];
  uint32_t first = ts__first_lane(warp->active);
  uint32_t lanes = address->is_uniform && parity->is_uniform ? 1u << first : warp->active;
  uint64_t last_address = UINT64_MAX, last_parity = 0;
  for (; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint64_t lane_address = ts__operand_lane(warp, address, lane);
    uint64_t lane_parity = ts__operand_lane(warp, parity, lane) & 1;
    if (lane_address == last_address && lane_parity == last_parity) continue;
    enum ts__step step = wait_for(warp, code, lane, lane_address, (uint32_t)lane_parity);
    if (step != TS__STEP_NEXT) return step;
    last_address = lane_address;
    last_parity = lane_parity;
  }
  return TS__STEP_NEXT;
}
