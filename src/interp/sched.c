/* Schedules: which warp runs next and when asynchronous operations are done.
 *
 * eager    warps ascending, each until it blocks or its slice ends; operations are done when issued
 * lazy     the same, but operations are done only when no warp can go on, oldest first
 * random   a generator seeded with seed and block index chooses warps, slices and completions
 *
 * All are orders that hardware may take, so a race-free kernel gives one result under all of them. */
#include "interp/check_priv.h"

#include <stdio.h>
#include <string.h>

enum {
  SLICE_INSNS = 1 << 16, /* long: a switch of warps costs cache; finite: a warp may poll memory */
  RANDOM_SLICE_INSNS = 64
};

enum outcome { OUTCOME_SLICE_END, OUTCOME_BLOCKED, OUTCOME_DONE, OUTCOME_FAULT };

static uint32_t lane_count(uint32_t mask) {
  return mask == UINT32_MAX ? 32 : (uint32_t)__builtin_popcount(mask);
}

/* An instruction has been executed by the lanes of the mask. */
static void count(struct ts_run_stats *stats, const struct ts__code *code, uint32_t mask) {
  stats->op_count[code->op]++;
  if (code->counts_lanes)
    stats->lane_op_count += code->dst_is_uniform ? code->lanes : code->lanes * lane_count(mask);
}

static bool emit_insn(struct ts__warp *warp, const struct ts__code *code) {
  struct ts_event event = {.kind = TS_EVENT_INSN, .src_space = 0xff, .dst_space = 0xff};
  warp->block->status = ts__emit(warp, code, event, NULL);
  return warp->block->status == TS_OK;
}

/* Lanes of both arms of a branch may wait for each other: each gets its turn before the warp counts
 * as blocked. */
static enum outcome blocked(struct ts__warp *warp, bool *was_switched) {
  if (!*was_switched && ts__control_switch(warp)) {
    *was_switched = true;
    return OUTCOME_SLICE_END;
  }
  warp->state = TS__WARP_BLOCKED;
  return OUTCOME_BLOCKED;
}

static enum outcome finished(struct ts__warp *warp) {
  warp->state = TS__WARP_DONE;
  warp->wait.kind = TS__WAIT_NONE;
  if (!ts__listening(warp->block)) return OUTCOME_DONE;
  warp->block->status = ts__emit(warp, NULL, (struct ts_event){.kind = TS_EVENT_END}, NULL);
  return warp->block->status == TS_OK ? OUTCOME_DONE : OUTCOME_FAULT;
}

/* Up to `slice` instructions; *executed counts those that were done. */
static enum outcome run_slice(struct ts__warp *warp, uint64_t slice, uint64_t *executed) {
  const struct ts__code *codes = warp->program->code;
  struct ts_run_stats *stats = warp->block->stats;
  bool is_listening = ts__listening(warp->block), was_switched = false;
  warp->state = TS__WARP_READY;
  for (*executed = 0; *executed < slice;) {
    const struct ts__code *code = codes + warp->pc;
    uint32_t active = warp->active;
    switch (code->exec(warp, code)) {
    case TS__STEP_NEXT: warp->pc++; break;
    case TS__STEP_JUMP: break;
    case TS__STEP_BLOCKED: {
      enum outcome outcome = blocked(warp, &was_switched);
      if (outcome == OUTCOME_SLICE_END) continue;
      return outcome;
    }
    case TS__STEP_DONE:
      count(stats, code, active);
      ++*executed;
      return finished(warp);
    case TS__STEP_FAULT: return OUTCOME_FAULT;
    }
    count(stats, code, active);
    ++*executed;
    was_switched = false;
    if (is_listening && code->emits_insn && !emit_insn(warp, code)) return OUTCOME_FAULT;
  }
  return OUTCOME_SLICE_END;
}

static enum outcome exceeded(struct ts__warp *warp) {
  const struct ts__program *program = warp->program;
  uint32_t insn = program->code[warp->pc].insn;
  warp->block->status =
      ts_fail(warp->block->ctx, TS_LIMIT, TS_DIAG_LIMIT, ts_insn_place(program->function, insn),
              "warp %u of block %u has executed %llu instructions, the limit that was set",
              warp->index, warp->block->index, (unsigned long long)warp->insn_count);
  return OUTCOME_FAULT;
}

/* Runs the warp; answers whether anything was done. The block's status tells of faults. */
static bool run_warp(struct ts__warp *warp, uint64_t slice) {
  uint64_t limit = warp->program->options->max_insns_per_warp, executed = 0;
  if (limit) {
    if (warp->insn_count >= limit) return exceeded(warp) == OUTCOME_FAULT;
    uint64_t left = limit - warp->insn_count;
    slice = left < slice ? left : slice;
  }
  enum outcome outcome = run_slice(warp, slice, &executed);
  warp->insn_count += executed;
  if (outcome == OUTCOME_FAULT && warp->block->status == TS_OK)
    warp->block->status = TS_HAZARD; /* a fault without a status of its own */
  return executed > 0;
}

/* --- asynchronous operations */

/* Does the oldest operation of the first block that has one which may be done; answers whether there
 * was one. */
static bool deliver_oldest(struct ts__unit *unit) {
  for (uint32_t b = 0; b < unit->block_count; b++) {
    struct ts__block *block = &unit->blocks[b];
    for (size_t i = 0; i < block->async.count; i++)
      if (ts__async_is_ready(block, i)) {
        enum ts_status status = ts__async_deliver(block, i);
        if (status != TS_OK) block->status = status;
        return true;
      }
  }
  return false;
}

/* --- deadlock */

static void append_warps(const struct ts__block *block, uint32_t pc, char *text,
                         size_t size_bytes) {
  size_t used = 0;
  uint32_t first = 0;
  for (uint32_t i = 0; i <= block->warp_count; i++) {
    const struct ts__warp *warp = i < block->warp_count ? &block->warps[i] : NULL;
    bool is_here = warp && warp->state != TS__WARP_DONE && warp->pc == pc;
    if (is_here) continue;
    if (first < i && used < size_bytes) {
      const char *comma = used ? ", " : "";
      int length = first + 1 == i
                       ? snprintf(text + used, size_bytes - used, "%s%u", comma, first)
                       : snprintf(text + used, size_bytes - used, "%s%u-%u", comma, first, i - 1);
      used += length > 0 ? (size_t)length : 0;
    }
    first = i + 1;
  }
}

static void report_site(struct ts__block *block, const struct ts__warp *warp) {
  const struct ts__program *program = block->program;
  const struct ts__code *code = &program->code[warp->pc];
  char warps[256] = "", what[256] = "", message[640];
  append_warps(block, warp->pc, warps, sizeof warps);
  ts__wait_describe(warp, what, sizeof what);
  snprintf(message, sizeof message, "warp%s %s wait%s at %s for ever: %s",
           warps[0] && (strchr(warps, '-') || strchr(warps, ',')) ? "s" : "", warps,
           strchr(warps, '-') || strchr(warps, ',') ? "" : "s",
           ts_op_info((enum ts_op)code->op)->mnemonic, what);
  struct ts_diag diag = {.code = TS_DIAG_DEADLOCK,
                         .message = message,
                         .place = ts_insn_place(program->function, code->insn),
                         .function = program->function->name,
                         .block = block->index,
                         .warp = warp->index,
                         .lane = warp->active ? (int64_t)ts__first_lane(warp->active) : -1};
  ts_diag_add(block->ctx->diags, &diag);
}

/* One line for each instruction at which warps of the block wait. */
static void report_waits(struct ts__block *block) {
  for (uint32_t i = 0; i < block->warp_count; i++) {
    const struct ts__warp *warp = &block->warps[i];
    bool is_first = warp->state != TS__WARP_DONE;
    for (uint32_t j = 0; j < i && is_first; j++)
      if (block->warps[j].state != TS__WARP_DONE && block->warps[j].pc == warp->pc)
        is_first = false;
    if (is_first) report_site(block, warp);
  }
}

static enum ts_status report_deadlock(struct ts__unit *unit) {
  for (uint32_t i = 0; i < unit->block_count; i++)
    report_waits(&unit->blocks[i]);
  for (uint32_t i = 0; i < unit->block_count; i++)
    ts__check_counts(&unit->blocks[i]);
  unit->blocks[0].has_hazard = true;
  return unit->blocks[0].status = TS_DEADLOCK;
}

/* --- eager and lazy */

static enum ts_status unit_status(const struct ts__unit *unit) {
  for (uint32_t i = 0; i < unit->block_count; i++)
    if (unit->blocks[i].status != TS_OK) return unit->blocks[i].status;
  return TS_OK;
}

static bool all_done(const struct ts__unit *unit) {
  for (uint32_t b = 0; b < unit->block_count; b++)
    for (uint32_t i = 0; i < unit->blocks[b].warp_count; i++)
      if (unit->blocks[b].warps[i].state != TS__WARP_DONE) return false;
  return true;
}

/* Every warp once; answers whether any did something. */
static bool run_round(struct ts__unit *unit) {
  bool progress = false;
  for (uint32_t b = 0; b < unit->block_count; b++) {
    struct ts__block *block = &unit->blocks[b];
    for (uint32_t i = 0; i < block->warp_count; i++) {
      if (block->warps[i].state == TS__WARP_DONE) continue;
      if (run_warp(&block->warps[i], SLICE_INSNS)) progress = true;
      if (block->status != TS_OK) return progress;
    }
  }
  return progress;
}

static bool release_waits(struct ts__unit *unit) {
  bool released = false;
  for (uint32_t i = 0; i < unit->block_count; i++)
    released |= ts__mbarrier_release(&unit->blocks[i]);
  return released;
}

/* Everybody is asked; *fruitless_rounds counts in vain. A round without progress may still have
 * recorded arrivals that release warps which had their turn earlier in it, so only a second one
 * proves that nobody can go on. */
static void ask_all(struct ts__unit *unit, uint32_t *fruitless_rounds) {
  bool progress = run_round(unit);
  if (unit_status(unit) != TS_OK) return;
  if (progress || deliver_oldest(unit)) {
    *fruitless_rounds = 0;
  } else if (++*fruitless_rounds == 2) {
    if (!release_waits(unit)) report_deadlock(unit);
    *fruitless_rounds = 0;
  }
}

static enum ts_status run_in_order(struct ts__unit *unit) {
  uint32_t fruitless_rounds = 0;
  while (unit_status(unit) == TS_OK && !all_done(unit))
    ask_all(unit, &fruitless_rounds);
  return unit_status(unit);
}

/* --- random */

/* splitmix64 */
static uint64_t next_random(struct ts__block *block) {
  uint64_t z = block->random_state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* One of the operations that may be done, or none: chance decides that as well. */
static bool deliver_random(struct ts__block *block) {
  if (!block->async.count || next_random(block) % 4) return false;
  size_t start = (size_t)(next_random(block) % block->async.count);
  for (size_t i = 0; i < block->async.count; i++) {
    size_t index = (start + i) % block->async.count;
    if (!ts__async_is_ready(block, index)) continue;
    enum ts_status status = ts__async_deliver(block, index);
    if (status != TS_OK) block->status = status;
    return true;
  }
  return false;
}

/* A warp that is not done; NULL: there is none. The first block's generator decides. */
static struct ts__warp *random_warp(struct ts__unit *unit) {
  uint32_t warp_count = unit->blocks[0].warp_count, count = unit->block_count * warp_count;
  uint32_t start = (uint32_t)(next_random(&unit->blocks[0]) % count);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = (start + i) % count;
    struct ts__warp *warp = &unit->blocks[k / warp_count].warps[k % warp_count];
    if (warp->state != TS__WARP_DONE) return warp;
  }
  return NULL;
}

static enum ts_status run_random(struct ts__unit *unit) {
  uint32_t fruitless_tries = 0, fruitless_rounds = 0;
  for (;;) {
    struct ts__warp *warp = unit_status(unit) == TS_OK ? random_warp(unit) : NULL;
    if (!warp) return unit_status(unit);
    bool progress = deliver_random(warp->block);
    uint64_t slice = 1 + next_random(warp->block) % RANDOM_SLICE_INSNS;
    if (warp->block->status == TS_OK && run_warp(warp, slice)) progress = true;
    if (progress) {
      fruitless_tries = fruitless_rounds = 0;
    } else if (++fruitless_tries > 2 * unit->block_count * unit->blocks[0].warp_count) {
      /* Chance does not prove a deadlock: everybody is asked. */
      fruitless_tries = 0;
      ask_all(unit, &fruitless_rounds);
    }
  }
}

/* --- one warp last */

/* Does the oldest operation that may be done and is not of the warp, or is when `any`. */
static bool deliver_oldest_of(struct ts__block *block, uint32_t warp, bool any) {
  for (size_t i = 0; i < block->async.count; i++) {
    if ((!any && block->async.data[i].warp == warp) || !ts__async_is_ready(block, i)) continue;
    enum ts_status status = ts__async_deliver(block, i);
    if (status != TS_OK) block->status = status;
    return true;
  }
  return false;
}

/* Warps ascending without the last one; it and its copies only when nothing else is left. */
static enum ts_status run_last(struct ts__unit *unit) {
  uint32_t fruitless_rounds = 0;
  while (unit_status(unit) == TS_OK && !all_done(unit)) {
    bool progress = false;
    for (uint32_t b = 0; b < unit->block_count; b++) {
      struct ts__block *block = &unit->blocks[b];
      uint32_t last = (uint32_t)(block->program->options->seed % block->warp_count);
      for (uint32_t i = 0; i < block->warp_count && block->status == TS_OK; i++)
        if (i != last && block->warps[i].state != TS__WARP_DONE &&
            run_warp(&block->warps[i], SLICE_INSNS))
          progress = true;
      if (block->status == TS_OK && !progress) progress = deliver_oldest_of(block, last, false);
      if (block->status == TS_OK && !progress && block->warps[last].state != TS__WARP_DONE)
        progress = run_warp(&block->warps[last], 1);
      if (block->status == TS_OK && !progress) progress = deliver_oldest_of(block, last, true);
    }
    if (unit_status(unit) == TS_OK && !progress) ask_all(unit, &fruitless_rounds);
  }
  return unit_status(unit);
}

enum ts_status ts__unit_run(struct ts__unit *unit) {
  switch (unit->blocks[0].program->options->schedule) {
  case TS_SCHEDULE_RANDOM: TS_TRY(run_random(unit)); break;
  case TS_SCHEDULE_LAST: TS_TRY(run_last(unit)); break;
  default: TS_TRY(run_in_order(unit)); break;
  }
  for (uint32_t i = 0; i < unit->block_count; i++)
    TS_TRY(ts__async_drain(&unit->blocks[i]));
  return TS_OK;
}
