/* Numbered barriers and fences (DOC: PTX ISA, barrier{.cta} and membar/fence).
 *
 * Arrivals are counted in threads: the active lanes, and with an explicit count also the lanes the
 * warp lacks (exited or beyond the block), since hardware counts such a warp as a whole. A barrier
 * without a count expects the living threads of the block. */
#include "interp/check_priv.h"

#include <stdio.h>

static uint32_t count_bits(uint32_t mask) { return (uint32_t)__builtin_popcount(mask); }

uint32_t ts__living_threads(const struct ts__block *block) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < block->warp_count; i++)
    count += count_bits(block->warps[i].alive);
  return count;
}

static void complete_when_full(struct ts__block *block, struct ts__barrier *barrier) {
  uint32_t needed =
      barrier->expected_threads ? barrier->expected_threads : ts__living_threads(block);
  if (barrier->arrived_threads == 0 || barrier->arrived_threads < needed) return;
  ts__flow(block, barrier->arrived_warps, barrier->waiting_warps);
  barrier->result[barrier->phase & 1] = barrier->true_threads;
  barrier->threads[barrier->phase & 1] = barrier->arrived_threads;
  barrier->phase++;
  barrier->arrived_threads = barrier->expected_threads = barrier->true_threads = 0;
  barrier->arrived_warps = barrier->waiting_warps = 0;
}

void ts__barrier_thread_exit(struct ts__block *block) {
  for (uint32_t i = 0; i < TS__NAMED_BARRIERS; i++) {
    struct ts__barrier *barrier = &block->barriers[i];
    if (barrier->arrived_threads && barrier->expected_threads == 0)
      complete_when_full(block, barrier);
  }
  ts__group_thread_exit(block);
}

static enum ts_status emit_sync(struct ts__warp *warp, const struct ts__code *code,
                                enum ts_event_kind kind, uint32_t object, uint64_t phase,
                                uint32_t work) {
  if (!ts__listening(warp->block)) return TS_OK;
  struct ts_event event = {.kind = (uint8_t)kind,
                           .sync_kind = TS_SYNC_BARRIER,
                           .src_space = 0xff,
                           .dst_space = 0xff,
                           .sync_object = object,
                           .sync_phase = (uint32_t)phase,
                           .work = work};
  return ts__emit(warp, code, event, NULL);
}

/* Adds the active lanes to the barrier's phase. FAULT ends the run. */
static enum ts__step arrive(struct ts__warp *warp, const struct ts__code *code, uint32_t number,
                            uint64_t expected, uint32_t true_threads, bool waits) {
  struct ts__block *block = warp->block;
  struct ts__barrier *barrier = &block->barriers[number];
  uint64_t bit = (uint64_t)1 << warp->index;
  enum ts__step step = TS__STEP_NEXT;
  if (expected % TS__LANES != 0)
    step = ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, TS_NONE, TS_NONE, NULL,
                      "barrier %u is asked for %llu threads, which is no multiple of 32", number,
                      (unsigned long long)expected);
  else if (barrier->arrived_threads && barrier->expected_threads != expected)
    step = ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, TS_NONE, TS_NONE, NULL,
                      "barrier %u is asked for %llu threads while others wait at it for %u", number,
                      (unsigned long long)expected, barrier->expected_threads);
  if (step == TS__STEP_FAULT) return step;
  if (block->check) ts__check_barrier_arrive(warp, code, number, barrier->phase);
  if (barrier->arrived_threads == 0) barrier->expected_threads = (uint32_t)expected;
  uint32_t threads = count_bits(warp->active);
  if (barrier->expected_threads && !(barrier->arrived_warps & bit))
    threads += TS__LANES - count_bits(warp->alive);
  barrier->arrived_threads += threads;
  barrier->true_threads += true_threads;
  barrier->arrived_warps |= bit;
  if (waits) barrier->waiting_warps |= bit;
  if (emit_sync(warp, code, TS_EVENT_ARRIVE, number, barrier->phase, threads) != TS_OK)
    return TS__STEP_FAULT;
  if (barrier->expected_threads && barrier->arrived_threads > barrier->expected_threads)
    step = ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, TS_NONE, TS_NONE,
                      "every participant must name the same number of threads",
                      "%u threads arrive at barrier %u, which expects %u", barrier->arrived_threads,
                      number, barrier->expected_threads);
  complete_when_full(block, barrier);
  return step;
}

/* The barrier number of operand 0, or TS_NONE after a report. */
static uint32_t barrier_number(struct ts__warp *warp, const struct ts__code *code) {
  uint64_t number = ts__operand_lane(warp, &code->operands[0], ts__first_lane(warp->active));
  if (number < TS__NAMED_BARRIERS) return (uint32_t)number;
  ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, TS_NONE, TS_NONE, NULL,
             "barrier %llu does not exist: there are %d", (unsigned long long)number,
             TS__NAMED_BARRIERS);
  return TS_NONE;
}

static uint64_t expected_threads(const struct ts__warp *warp, const struct ts__code *code) {
  uint64_t count = ts__operand_lane(warp, &code->operands[1], ts__first_lane(warp->active));
  return count > UINT32_MAX ? UINT32_MAX : count;
}

/* Arrives on the first call, then answers BLOCKED until the phase is over. */
static enum ts__step sync_at(struct ts__warp *warp, const struct ts__code *code, uint32_t number,
                             uint64_t expected, uint32_t true_threads) {
  struct ts__barrier *barrier = &warp->block->barriers[number];
  if (warp->barrier_phase == 0) {
    warp->barrier_phase = barrier->phase + 1;
    enum ts__step step = arrive(warp, code, number, expected, true_threads, true);
    if (step != TS__STEP_NEXT) return step;
  }
  if (barrier->phase < warp->barrier_phase) {
    warp->wait = (struct ts__wait){.kind = TS__WAIT_BARRIER, .object = number};
    return TS__STEP_BLOCKED;
  }
  uint64_t phase = warp->barrier_phase - 1;
  warp->barrier_phase = 0;
  if (warp->block->check) ts__check_barrier_pass(warp, number, phase);
  if (emit_sync(warp, code, TS_EVENT_WAIT, number, phase, 0) != TS_OK) return TS__STEP_FAULT;
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_bar_sync(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t number = barrier_number(warp, code);
  if (number == TS_NONE) return ts__after_checks(warp);
  return sync_at(warp, code, number, expected_threads(warp, code), 0);
}

enum ts__step ts__exec_bar_arrive(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t number = barrier_number(warp, code);
  if (number == TS_NONE) return ts__after_checks(warp);
  return arrive(warp, code, number, expected_threads(warp, code), 0, false);
}

enum ts__step ts__exec_bar_red(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t number = barrier_number(warp, code);
  if (number == TS_NONE) return ts__after_checks(warp);
  const struct ts__barrier *barrier = &warp->block->barriers[number];
  uint32_t true_threads = 0;
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1)
    true_threads += ts__operand_lane(warp, &code->operands[2], ts__first_lane(lanes)) != 0;
  uint64_t phase = (warp->barrier_phase ? warp->barrier_phase : barrier->phase + 1) - 1;
  enum ts__step step = sync_at(warp, code, number, expected_threads(warp, code), true_threads);
  if (step != TS__STEP_NEXT) return step;
  const struct ts_function *function = warp->program->function;
  int64_t mode =
      ts_insn_attr(function, &function->insns.data[code->insn], TS_ATTR_mode, TS_IR_MODE_popc);
  uint32_t value = barrier->result[phase & 1], slots[TS__LANES];
  if (mode == TS_IR_MODE_and) value = value == barrier->threads[phase & 1];
  if (mode == TS_IR_MODE_or) value = value != 0;
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    slots[lane] = value;
  ts__write_slots32(warp, code, slots);
  return TS__STEP_NEXT;
}

/* Memory is sequentially consistent here, so fences order what is in order already. */
static enum ts__step fence(struct ts__warp *warp, const struct ts__code *code) {
  if (warp->block->check) ts__check_fence(warp, code);
  return TS__STEP_NEXT;
}
enum ts__step ts__exec_fence(struct ts__warp *warp, const struct ts__code *code) {
  return fence(warp, code);
}
enum ts__step ts__exec_fence_mbarrier_init(struct ts__warp *warp, const struct ts__code *code) {
  return fence(warp, code);
}
enum ts__step ts__exec_fence_proxy_async(struct ts__warp *warp, const struct ts__code *code) {
  (void)code;
  if (warp->block->check) ts__check_fence_async(warp);
  return TS__STEP_NEXT;
}

static void describe_mbarrier(const struct ts__warp *warp, char *text, size_t size_bytes) {
  const struct ts__mbarrier *mbarrier = ts__mbarrier_find(warp->block, warp->wait.object);
  char where[128];
  ts__shared_text(warp->block, warp->wait.object, where, sizeof where);
  if (!mbarrier) {
    snprintf(text, size_bytes, "waits for an mbarrier at %s that nobody initialised", where);
    return;
  }
  snprintf(
      text, size_bytes,
      "waits for the phase with parity %u of the mbarrier at %s; %llu phases are complete, the "
      "next lacks %u of %u arrivals and %lld bytes",
      warp->wait.parity, where, (unsigned long long)mbarrier->phase, mbarrier->pending,
      mbarrier->expected, (long long)mbarrier->tx_bytes);
}

void ts__wait_describe(const struct ts__warp *warp, char *text, size_t size_bytes) {
  const struct ts__block *block = warp->block;
  switch (warp->wait.kind) {
  case TS__WAIT_BARRIER: {
    const struct ts__barrier *barrier = &block->barriers[warp->wait.object];
    uint32_t needed =
        barrier->expected_threads ? barrier->expected_threads : ts__living_threads(block);
    snprintf(text, size_bytes, "waits at barrier %u, where %u of %u threads are", warp->wait.object,
             barrier->arrived_threads, needed);
    return;
  }
  case TS__WAIT_GROUP: {
    const struct ts__group *group = block->groups[warp->wait.object];
    uint32_t needed = 0;
    for (uint32_t i = 0; i < group->block_count; i++)
      needed += ts__living_threads(&group->blocks[i]);
    snprintf(text, size_bytes, "waits at the barrier of the %s, where %u of %u threads are",
             warp->wait.object == TS__GROUP_GRID ? "grid" : "cluster", group->arrived_threads,
             needed);
    return;
  }
  case TS__WAIT_MBARRIER: describe_mbarrier(warp, text, size_bytes); return;
  case TS__WAIT_CP_ASYNC: snprintf(text, size_bytes, "waits for cp.async groups"); return;
  case TS__WAIT_BULK: snprintf(text, size_bytes, "waits for bulk groups"); return;
  case TS__WAIT_WGMMA: snprintf(text, size_bytes, "waits for wgmma groups"); return;
  case TS__WAIT_NONE: break;
  }
  snprintf(text, size_bytes, "does not wait");
}
