/* One SM, cycle for cycle: warps in a queue by the cycle at which their next op could issue, served
 * in that order by issue slots, pipes and the servers behind them. */
#include "model_nv/sm_priv.h"

#include <string.h>

/* --- the queue of warps: a tree of winners, whose leaves are the warps
 *
 * queue[1] is the warp that goes first, queue[i] that of queue[2 i] and queue[2 i + 1]; of equal cycles
 * the one that asked first, or the lower warp. Nobody starves at a unit that many wait for. No cycle is
 * negative, so their bits are in their order, and no branch of the host depends on who wins. */

static const uint64_t never = UINT64_MAX;

static uint64_t bits_of(double cycle) {
  uint64_t bits;
  memcpy(&bits, &cycle, sizeof bits);
  return bits;
}

static void queue_init(struct ts__sm *sm, uint32_t warp_count) {
  sm->queue_size = 1;
  while (sm->queue_size < warp_count)
    sm->queue_size *= 2;
  for (uint32_t i = 0; i < 2 * sm->queue_size; i++)
    sm->queue[i] = (struct ts__queue_entry){never, never, i % sm->queue_size};
  sm->next_other = never;
}

static void queue_set(struct ts__sm *sm, uint32_t warp, uint64_t cycle_bits) {
  uint32_t at = sm->queue_size + warp;
  struct ts__queue_entry winner = {cycle_bits, bits_of(sm->warps[warp].asked_cycle), warp};
  sm->queue[at] = winner;
  for (; at > 1; at /= 2) {
    struct ts__queue_entry other = sm->queue[at ^ 1];
    bool is_first = other.cycle_bits < winner.cycle_bits;
    if (other.cycle_bits == winner.cycle_bits)
      is_first = other.asked_bits < winner.asked_bits ||
                 (other.asked_bits == winner.asked_bits && at % 2 != 0);
    winner.cycle_bits = is_first ? other.cycle_bits : winner.cycle_bits;
    winner.asked_bits = is_first ? other.asked_bits : winner.asked_bits;
    winner.warp = is_first ? other.warp : winner.warp;
    sm->queue[at / 2] = winner;
  }
}

/* Another warp than the one that is at work comes to the queue. */
static void queue_add(struct ts__sm *sm, uint32_t warp, double cycle) {
  uint64_t bits = bits_of(cycle);
  if (bits < sm->next_other) sm->next_other = bits;
  queue_set(sm, warp, bits);
}

/* The warp that goes first is at work: whatever it does, its place in the queue is set anew later. */
static uint32_t queue_start(struct ts__sm *sm) {
  uint32_t warp = sm->queue[1].warp;
  sm->next_other = never;
  for (uint32_t at = sm->queue_size + warp; at > 1; at /= 2) {
    uint64_t bits = sm->queue[at ^ 1].cycle_bits;
    sm->next_other = bits < sm->next_other ? bits : sm->next_other;
  }
  return warp;
}

/* --- spans and sums */

void ts__span(struct ts__sm *sm, const struct ts__warp_state *warp, const struct ts__op *op,
              enum ts_model_unit unit, double start, double end, uint32_t bytes) {
  if (!sm->spans || sm->span_status != TS_OK) return;
  const struct ts__block_state *block = &sm->blocks[warp->block];
  struct ts_span span = {.start_cycle = (uint64_t)start,
                         .end_cycle = (uint64_t)end,
                         .launch = sm->launch_index,
                         .unit = (uint16_t)unit,
                         .sm = 0,
                         .warp = warp->warp,
                         .block = sm->plan->sm_blocks[block->position],
                         .insn = op->insn,
                         .stall = warp->candidate_stall,
                         .stall_cycles =
                             start > warp->told_cycle ? (uint64_t)(start - warp->told_cycle) : 0,
                         .bytes = bytes};
  sm->span_status = sm->spans->emit(sm->spans, &span);
}

void ts__define(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                double cycle, enum ts_stall stall) {
  const struct ts_code_insn *insn = ts__insn_of(sm, op);
  uint32_t first = insn->first_ref + insn->use_count;
  for (uint32_t d = 0; d < insn->def_count; d++) {
    const struct ts_code_ref *def = &sm->code->refs[first + d];
    for (uint32_t i = 0; i < def->count; i++)
      warp->ready[def->first + i] = (struct ts__ready){cycle, (uint8_t)stall, false};
  }
}

/* A predicate that guards an instruction takes longer than one that is an operand. */
static double guard_cycles(const struct ts__sm *sm, const struct ts_code_insn *insn, uint32_t use) {
  if (!(insn->control & TS_CODE_GUARDED) || use + 1 < insn->use_count) return 0;
  return sm->timing[TS_TIMING_guard_latency] - sm->timing[TS_TIMING_alu_latency];
}

/* When the op's operands are there. wgmma reads its accumulator in the tensor core's own order. */
static void find_candidate(struct ts__sm *sm, struct ts__warp_state *warp) {
  const struct ts__op *op = &warp->ops[warp->pc];
  warp->candidate = warp->next_cycle;
  warp->candidate_stall = TS_STALL_NONE;
  const struct ts_code_insn *insn = ts__insn_of(sm, op);
  for (uint32_t u = 0; u < insn->use_count; u++) {
    const struct ts_code_ref *use = &sm->code->refs[insn->first_ref + u];
    uint32_t count = op->kind == TS__OP_WGMMA && use->count > 8 ? 1 : use->count;
    for (uint32_t i = 0; i < count; i++) {
      const struct ts__ready *ready = &warp->ready[use->first + i];
      double cycle = ready->cycle > 0 ? ready->cycle + guard_cycles(sm, insn, u) : 0;
      if (cycle <= warp->candidate) continue;
      warp->candidate = cycle;
      warp->candidate_stall = ready->stall;
    }
  }
  warp->asked_cycle = warp->candidate;
}

/* --- nodes */

static double wake_cycles(const struct ts__sm *sm, const struct ts__node *node) {
  switch ((enum ts_sync_kind)node->sync_kind) {
  case TS_SYNC_BARRIER:
    return sm->timing[TS_TIMING_barrier_base] +
           sm->timing[TS_TIMING_barrier_per_warp] * node->arriving_warps;
  case TS_SYNC_MBARRIER: return sm->timing[TS_TIMING_mbarrier_wake];
  default: return 0;
  }
}

/* The cycle at which the node and those before it are complete, or, for a wait for the sources only,
 * have been read; false: not known yet. */
static bool node_cycle(const struct ts__block_state *block, uint32_t node, bool sources_only,
                       double *cycle) {
  double done = 0, read = 0;
  for (uint32_t at = node; at != TS__NO_NODE; at = block->stream->nodes[at].previous) {
    const struct ts__node_state *state = &block->nodes[at];
    if (state->remaining) return false;
    if (state->cycle > done) done = state->cycle;
    if (state->read_cycle > read) read = state->read_cycle;
    if (state->is_folded) break;
  }
  block->nodes[node].cycle = done;
  block->nodes[node].read_cycle = read;
  block->nodes[node].is_folded = true;
  *cycle = sources_only ? read : done;
  return true;
}

static void wake(struct ts__sm *sm, struct ts__block_state *block, uint32_t node) {
  uint32_t waiter = block->nodes[node].first_waiter;
  block->nodes[node].first_waiter = 0;
  while (waiter) {
    struct ts__warp_state *warp = &sm->warps[waiter - 1];
    uint32_t slot = waiter - 1;
    waiter = warp->next_waiter;
    warp->is_waiting = false;
    queue_add(sm, slot, warp->candidate);
  }
}

void ts__node_contribute(struct ts__sm *sm, struct ts__block_state *block, uint32_t node,
                         uint32_t count, double cycle) {
  struct ts__node_state *state = &block->nodes[node];
  if (cycle > state->cycle) state->cycle = cycle;
  state->remaining = state->remaining > count ? state->remaining - count : 0;
  if (state->remaining == 0) wake(sm, block, node);
}

static void add_waiter(struct ts__sm *sm, struct ts__warp_state *warp, uint32_t node) {
  struct ts__node_state *state = &sm->blocks[warp->block].nodes[node];
  warp->is_waiting = true;
  warp->next_waiter = state->first_waiter;
  state->first_waiter = (uint32_t)(warp - sm->warps) + 1;
}

/* The first of the node and its predecessors that is not complete. */
static uint32_t incomplete_node(const struct ts__block_state *block, uint32_t node) {
  while (block->nodes[node].remaining == 0)
    node = block->stream->nodes[node].previous;
  return node;
}

/* --- ops that the SM carries out itself */

static const enum ts_timing_id intervals[TS__PIPE_COUNT] = {
    [TS__PIPE_FP32] = TS_TIMING_fp32_interval, [TS__PIPE_ALU] = TS_TIMING_alu_interval,
    [TS__PIPE_IMAD] = TS_TIMING_imad_interval, [TS__PIPE_FP16] = TS_TIMING_fp16_interval,
    [TS__PIPE_FP64] = TS_TIMING_fp64_interval, [TS__PIPE_CVT] = TS_TIMING_cvt_interval,
    [TS__PIPE_XU] = TS_TIMING_xu_interval,     [TS__PIPE_EITHER] = TS_TIMING_alu_interval};

/* Plain integer arithmetic goes where there is room: the compiler spreads it over two pipes. */
static enum ts__pipe pipe_of(const struct ts__sm *sm, uint32_t sub, const struct ts__cost *cost) {
  if (cost->pipe != TS__PIPE_EITHER) return (enum ts__pipe)cost->pipe;
  const struct ts__server *pipes = sm->pipe[sub];
  return pipes[TS__PIPE_IMAD].free_cycle < pipes[TS__PIPE_ALU].free_cycle ? TS__PIPE_IMAD
                                                                          : TS__PIPE_ALU;
}

static double do_alu(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                     enum ts_stall *stall) {
  static const struct ts__cost other = {.slots = 1, .latency = 4};
  const struct ts__cost *cost =
      op->insn < sm->code->insn_count ? &sm->plan->costs[op->insn] : &other;
  double at = warp->candidate;
  if (cost->slots == 0) { /* renamed or folded */
    ts__define(sm, warp, op, at, (enum ts_stall)warp->candidate_stall);
    return at;
  }
  enum ts__pipe chosen = pipe_of(sm, warp->sub, cost);
  struct ts__server *issue = &sm->issue[warp->sub], *pipe = &sm->pipe[warp->sub][chosen];
  struct ts__server *xu = &sm->pipe[warp->sub][TS__PIPE_XU];
  double interval = cost->pipe == TS__PIPE_NONE ? 1 : sm->timing[intervals[cost->pipe]];
  double xu_interval = sm->timing[TS_TIMING_xu_interval];
  double start = at;
  if (issue->free_cycle > start) start = issue->free_cycle, *stall = TS_STALL_ISSUE;
  if (cost->pipe_slots && pipe->free_cycle > start)
    start = pipe->free_cycle, *stall = TS_STALL_PIPE;
  if (cost->xu_slots && xu->free_cycle > start) start = xu->free_cycle, *stall = TS_STALL_PIPE;
  double pipe_cycles = cost->pipe_slots * interval, xu_cycles = cost->xu_slots * xu_interval;
  ts__serve(issue, start, cost->slots);
  if (cost->pipe_slots) ts__serve(pipe, start, pipe_cycles);
  if (cost->xu_slots) ts__serve(xu, start, xu_cycles);
  double span = cost->slots;
  if (pipe_cycles - interval + 1 > span) span = pipe_cycles - interval + 1;
  if (xu_cycles - xu_interval + 1 > span) span = xu_cycles - xu_interval + 1;
  if (cost->serial_cycles > span) span = cost->serial_cycles;
  warp->next_cycle = start + span;
  bool is_slow = cost->xu_slots || cost->pipe == TS__PIPE_XU;
  ts__define(sm, warp, op, warp->next_cycle - 1 + cost->latency,
             is_slow ? TS_STALL_SHORT : TS_STALL_FIXED);
  return start;
}

/* One issue slot, then `cycles` until the warp goes on. */
static double issue_only(struct ts__sm *sm, struct ts__warp_state *warp, double cycles,
                         enum ts_stall *stall) {
  struct ts__server *issue = &sm->issue[warp->sub];
  if (issue->free_cycle > warp->candidate) *stall = TS_STALL_ISSUE;
  double start = ts__serve(issue, warp->candidate, 1);
  warp->next_cycle = start + (cycles > 1 ? cycles : 1);
  return start;
}

/* The way back in a loop: the jump costs a fetch, and a body takes a while however short it is. */
static void loop_back(struct ts__sm *sm, struct ts__warp_state *warp, double cycle) {
  double least = warp->loop_cycle + sm->timing[TS_TIMING_loop_cycles];
  warp->next_cycle = cycle + sm->timing[TS_TIMING_branch_cycles];
  if (warp->loop_cycle > 0 && warp->next_cycle < least) warp->next_cycle = least;
  warp->loop_cycle = warp->next_cycle;
}

/* Where lanes may part, the branch itself, and at the end of each side the meeting: when lanes have
 * parted, those that are through wait for the others, or go to the other side. */
static double meet_cycles(const struct ts__sm *sm, const struct ts__warp_state *warp,
                          const struct ts_code_insn *insn, const struct ts__op *op) {
  const double *timing = sm->timing;
  if (!(insn->control & TS_CODE_MEETS)) return 0;
  if (insn->op == TS_OP_cbr)
    return timing[TS_TIMING_branch_meet] + (op->aux2 == 0 ? timing[TS_TIMING_branch_cycles] : 0);
  uint32_t lanes = warp->warp + 1u < sm->warps_per_block ? TS__WARP_LANES : sm->last_warp_lanes;
  bool is_apart = op->lanes < lanes, has_else = insn->control & TS_CODE_HAS_ELSE;
  return (is_apart ? timing[TS_TIMING_branch_apart] : 0) +
         (is_apart && has_else ? 0 : timing[TS_TIMING_branch_meet]);
}

static double do_branch(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                        enum ts_stall *stall) {
  const struct ts_code_insn *insn = ts__insn_of(sm, op);
  bool is_free = (insn->flags & TS_CODE_FREE) != 0;
  double cycles = meet_cycles(sm, warp, insn, op);
  double start = is_free && cycles == 0 ? warp->candidate : issue_only(sm, warp, cycles, stall);
  if (op->aux) loop_back(sm, warp, start);
  return start;
}

static double do_fence(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                       enum ts_stall *stall) {
  double cycles = 1;
  switch (ts__insn_of(sm, op)->op) {
  case TS_OP_fence: cycles = sm->timing[TS_TIMING_fence_gpu_cycles]; break;
  case TS_OP_fence_proxy_async: cycles = sm->timing[TS_TIMING_fence_cycles]; break;
  case TS_OP_fence_mbarrier_init: cycles = sm->timing[TS_TIMING_fence_init_cycles]; break;
  case TS_OP_set_max_nreg: cycles = sm->timing[TS_TIMING_setmaxnreg_cycles]; break;
  default: break;
  }
  return issue_only(sm, warp, cycles, stall);
}

static double do_arrive(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                        enum ts_stall *stall) {
  struct ts__block_state *block = &sm->blocks[warp->block];
  double start = op->aux2 ? warp->candidate : issue_only(sm, warp, 1, stall);
  if (op->payload == TS__NO_NODE) return start;
  double done = start;
  if (block->stream->nodes[op->payload].sync_kind == TS_SYNC_MBARRIER) {
    /* Arrivals of the lanes of a warp are combined; the unit is the SM's. */
    done = ts__serve(&sm->lsu, start, sm->timing[TS_TIMING_lsu_interval]) +
           sm->timing[TS_TIMING_mbarrier_arrive];
    uint16_t what = ts__insn_of(sm, op)->op;
    bool is_deferred = what == TS_OP_cp_async_mbarrier || what == TS_OP_tcgen05_commit;
    if (is_deferred && warp->last_async > done) done = warp->last_async;
    if (op->aux) done += sm->timing[TS_TIMING_cluster_latency];
  }
  ts__node_contribute(sm, block, op->payload, 1, done);
  return start;
}

/* What a wait takes when nothing has to be waited for; blocks come to wide barriers together. */
static double poll_cycles(const struct ts__sm *sm, const struct ts__op *op) {
  bool is_grid = ts__insn_of(sm, op)->op == TS_OP_grid_sync;
  switch ((enum ts_sync_kind)op->aux) {
  case TS_SYNC_MBARRIER: return sm->timing[TS_TIMING_wait_poll];
  case TS_SYNC_CP_ASYNC_GROUP:
  case TS_SYNC_BULK_GROUP: return sm->timing[TS_TIMING_group_poll];
  case TS_SYNC_CLUSTER:
    return sm->timing[is_grid ? TS_TIMING_grid_barrier : TS_TIMING_cluster_barrier];
  default: return 1;
  }
}

/* Answers false when the warp has to be woken by a contribution. */
static bool do_wait(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                    enum ts_stall *stall, double *start) {
  struct ts__block_state *block = &sm->blocks[warp->block];
  double at = warp->candidate, cycle, poll = poll_cycles(sm, op);
  if (op->payload == TS__NO_NODE) {
    if (op->aux == TS_SYNC_CLUSTER) *stall = TS_STALL_CLUSTER;
    *start = issue_only(sm, warp, poll, stall);
    return true;
  }
  if (!node_cycle(block, op->payload, op->aux2, &cycle)) {
    add_waiter(sm, warp, incomplete_node(block, op->payload));
    return false;
  }
  const struct ts__node *node = &block->stream->nodes[op->payload];
  double go = cycle + wake_cycles(sm, node);
  if (go < at + poll) go = at + poll;
  *stall = (enum ts_stall)node->stall;
  ts__serve(&sm->issue[warp->sub], at, 1);
  *start = go - 1;
  warp->next_cycle = go;
  return true;
}

/* --- fetching code */

/* The first warp to come to a chunk of code waits for it; later ones find it in the cache. */
static void fetch(struct ts__sm *sm, struct ts__warp_state *warp) {
  const struct ts__op *op = &warp->ops[warp->pc];
  if (op->insn >= sm->code->insn_count) return;
  uint64_t place = (uint64_t)op->insn * sm->code->machine_insn_count / sm->code->insn_count;
  uint64_t chunk = place / TS__FETCH_CHUNK_INSNS;
  if (sm->fetched[chunk]) return;
  sm->fetched[chunk] = 1;
  double ahead = sm->timing[TS_TIMING_fetch_ahead];
  if ((double)place < ahead) return; /* came with the launch */
  double cycles = TS__FETCH_CHUNK_INSNS / sm->timing[TS_TIMING_fetch_insns_per_cycle];
  double start = ts__serve(&sm->fetch, warp->candidate, cycles);
  if (start + cycles <= warp->candidate) return;
  warp->candidate = start + cycles;
  warp->candidate_stall = TS_STALL_FETCH;
}

/* --- blocks */

static double active_share(const struct ts__sm *sm, enum ts_timing_id chip, double limit,
                           double active) {
  double share = sm->timing[chip] / active;
  return share < limit ? share : limit;
}

/* An SM's share of L2 reads: what the chip gives to `active` SMs, more when neighbours read the same
 * tiles, and more when the others do not read all the time. Kinds of tiles follow one another, so
 * their times add up. */
static double read_rate(const struct ts__sm *sm, double port, double active, double load) {
  double own = sm->timing[TS_TIMING_l2_chip_bytes_per_cycle] / active, cycles_per_byte = 0;
  double shared_limit = sm->timing[TS_TIMING_l2_shared_bytes_per_cycle];
  double limit = port > shared_limit && own < port ? shared_limit : port;
  const struct ts__sharing *sharing = &sm->plan->sharing;
  for (uint32_t i = 0; i < sharing->count; i++) {
    double rate = own * sharing->gain[i] / load;
    cycles_per_byte += sharing->byte_share[i] / (rate < limit ? rate : limit);
  }
  if (cycles_per_byte > 0) return 1 / cycles_per_byte;
  own /= load;
  return own < port ? own : port;
}

/* SMs that the chip's bandwidth is shared with, as seen by a block of the position: those of its
 * wave, fewer when this SM has more blocks than others. */
static double sharing_sms(const struct ts__sm *sm, uint32_t position) {
  const struct ts__plan *plan = sm->plan;
  uint64_t per_sm = plan->occupancy.blocks_per_sm, wave = position / per_sm;
  uint64_t resident = per_sm * plan->active_sm_count;
  uint64_t left =
      plan->record->block_count > wave * resident ? plan->record->block_count - wave * resident : 1;
  uint64_t own = plan->sm_block_count - wave * per_sm;
  if (left > resident) left = resident;
  if (own > per_sm) own = per_sm;
  double sms = (double)left / (double)own;
  return sms < 1 ? 1 : sms;
}

static void set_rates(struct ts__sm *sm, struct ts__block_state *block) {
  const double *timing = sm->timing;
  double active = sharing_sms(sm, block->position);
  block->active_sm_count = active;
  double read_port = timing[TS_TIMING_l2_port_bytes_per_cycle];
  double write_port = timing[TS_TIMING_l2_write_bytes_per_cycle];
  block->l2_read_rate = read_rate(sm, read_port, active, sm->plan->l2_load);
  block->l2_step_rate = read_rate(sm, read_port, active, 1);
  block->l2_write_rate =
      active_share(sm, TS_TIMING_l2_chip_write_bytes_per_cycle, write_port, active);
  double cycles_per_us = sm->plan->clock_mhz;
  block->dram_read_rate = timing[TS_TIMING_dram_read_bytes_per_us] / cycles_per_us / active;
  block->dram_write_rate = timing[TS_TIMING_dram_write_bytes_per_us] / cycles_per_us / active;
  block->atomic_rate = timing[TS_TIMING_atomic_sectors_per_cycle] / active;
}

static enum ts_status reset_nodes(struct ts__sm *sm, struct ts__block_state *block) {
  uint32_t count = block->stream->node_count;
  if (count > block->node_capacity) {
    block->nodes = ts_new_array(sm->arena, struct ts__node_state, count);
    if (!block->nodes) return ts_fail_memory(sm->model->ctx);
    block->node_capacity = count;
  }
  for (uint32_t i = 0; i < count; i++)
    block->nodes[i] = (struct ts__node_state){.remaining = block->stream->nodes[i].expected};
  return TS_OK;
}

static void start_warp(struct ts__sm *sm, struct ts__block_state *block, uint32_t slot, uint32_t w,
                       double cycle) {
  struct ts__warp_state *warp = &sm->warps[block->first_warp + w];
  const struct ts__warp_ops *range = &block->stream->warps[w];
  struct ts__ready *ready = warp->ready;
  uint32_t in_sub = w / TS__SUB_PARTITIONS;
  *warp = (struct ts__warp_state){.ops = block->stream->ops + range->first,
                                  .op_count = range->count,
                                  .block = (uint16_t)slot,
                                  .warp = (uint16_t)w,
                                  .sub = (uint8_t)((block->first_warp + w) % TS__SUB_PARTITIONS),
                                  .next_cycle =
                                      cycle + in_sub * sm->timing[TS_TIMING_warp_start_interval],
                                  .ready = ready,
                                  .sum = &sm->result->warps[w]};
  warp->told_cycle = warp->next_cycle;
  memset(ready, 0, sm->code->slot_count * sizeof *ready);
  if (range->count == 0) {
    block->live_warps--;
    return;
  }
  find_candidate(sm, warp);
  queue_add(sm, block->first_warp + w, warp->candidate);
}

/* Puts the SM's next block in the slot. */
static enum ts_status start_block(struct ts__sm *sm, uint32_t slot, double cycle) {
  struct ts__block_state *block = &sm->blocks[slot];
  block->is_live = false;
  if (sm->next_position >= sm->plan->sm_block_count) return TS_OK;
  block->position = sm->next_position++;
  uint32_t index = sm->plan->sm_blocks[block->position];
  block->record = &sm->plan->record->blocks[index];
  block->stream = &sm->plan->record->streams.data[block->record->stream];
  double dispatched =
      sm->timing[TS_TIMING_block_dispatch_interval] * block->position * sm->plan->active_sm_count;
  if (dispatched > cycle) cycle = dispatched;
  cycle += sm->timing[TS_TIMING_block_start];
  block->outcomes = sm->plan->outcomes[block->position];
  block->start_cycle = cycle;
  block->live_warps = block->stream->warp_count;
  block->is_live = true;
  block->first_warp = slot * sm->warps_per_block;
  set_rates(sm, block);
  TS_TRY(reset_nodes(sm, block));
  memset(&sm->groups[block->first_warp / 4], 0, (sm->warps_per_block + 3) / 4 * sizeof *sm->groups);
  for (uint32_t w = 0; w < block->stream->warp_count; w++)
    start_warp(sm, block, slot, w, cycle);
  return TS_OK;
}

static enum ts_status end_warp(struct ts__sm *sm, struct ts__warp_state *warp) {
  struct ts__block_state *block = &sm->blocks[warp->block];
  double cycle = warp->candidate;
  warp->sum->life_cycles += cycle - block->start_cycle;
  if (cycle > sm->result->end_cycle) sm->result->end_cycle = cycle;
  if (--block->live_warps > 0) return TS_OK;
  if (sm->result->first_block_end == 0) sm->result->first_block_end = cycle;
  return start_block(sm, warp->block, cycle + sm->timing[TS_TIMING_block_turnover]);
}

/* --- the loop */

static void note_phase(struct ts__sm *sm, const struct ts__op *op, double cycle) {
  struct ts__sm_result *result = sm->result;
  if (op->kind == TS__OP_WAIT && result->first_wait_end == 0) result->first_wait_end = cycle;
  if (op->kind == TS__OP_BRANCH && op->aux && result->first_block_end == 0)
    result->last_loop_end = cycle;
}

static void account(struct ts__warp_state *warp, double before_cycle, double candidate,
                    enum ts_stall candidate_stall, double start, enum ts_stall stall) {
  struct ts__role_sum *sum = warp->sum;
  if (warp->next_cycle <= before_cycle) return; /* costs nothing: whoever uses it waits */
  if (candidate > before_cycle) sum->stall_cycles[candidate_stall] += candidate - before_cycle;
  if (start > candidate) sum->stall_cycles[stall ? stall : TS_STALL_ISSUE] += start - candidate;
  if (warp->next_cycle > start) sum->issue_cycles += warp->next_cycle - start - warp->held_cycles;
  sum->stall_cycles[warp->held_stall] += warp->held_cycles;
  warp->held_cycles = 0;
}

static void later(double cycle, enum ts_stall reason, double *start, enum ts_stall *stall) {
  if (cycle <= *start) return;
  *start = cycle;
  *stall = reason;
}

/* Whether L1 looks it up and keeps track of what comes from L2. */
static bool is_read_by_l1(const struct ts__op *op) {
  return op->kind == TS__OP_COPY || op->kind == TS__OP_GLOBAL_LOAD;
}

/* When what the op needs besides operands is free. */
static double free_cycle(const struct ts__sm *sm, const struct ts__warp_state *warp,
                         const struct ts__op *op, enum ts_stall *stall) {
  double start = warp->candidate;
  uint32_t sub = warp->sub;
  switch ((enum ts__op_kind)op->kind) {
  case TS__OP_ALU: {
    if (op->insn >= sm->code->insn_count) break;
    const struct ts__cost *cost = &sm->plan->costs[op->insn];
    if (cost->slots == 0) return start;
    if (cost->pipe_slots)
      later(sm->pipe[sub][pipe_of(sm, sub, cost)].free_cycle, TS_STALL_PIPE, &start, stall);
    if (cost->xu_slots) later(sm->pipe[sub][TS__PIPE_XU].free_cycle, TS_STALL_PIPE, &start, stall);
    break;
  }
  case TS__OP_COPY:
    if (sm->blocks[warp->block].stream->copies[op->payload].kind != TS__COPY_ASYNC) break;
    /* fall through */
  case TS__OP_SHUFFLE:
  case TS__OP_SHARED_LOAD:
  case TS__OP_SHARED_STORE:
  case TS__OP_SHARED_ATOMIC:
  case TS__OP_GLOBAL_LOAD:
  case TS__OP_GLOBAL_STORE:
  case TS__OP_GLOBAL_ATOMIC:
  case TS__OP_CLUSTER:
    later(sm->lsu.free_cycle - TS__MIO_QUEUE_CYCLES, TS_STALL_LSU, &start, stall);
    later(sm->lsu_sub[sub].free_cycle - TS__MIO_QUEUE_CYCLES, TS_STALL_LSU, &start, stall);
    later(sm->shared.free_cycle - TS__MIO_QUEUE_CYCLES, TS_STALL_LSU, &start, stall);
    if (is_read_by_l1(op)) {
      later(sm->tag.free_cycle - TS__MIO_QUEUE_CYCLES, TS_STALL_LSU, &start, stall);
      later(ts__l1_room_cycle(sm), TS_STALL_BANDWIDTH, &start, stall);
    }
    break;
  case TS__OP_MMA: later(sm->mma[sub].free_cycle, TS_STALL_TENSOR, &start, stall); break;
  case TS__OP_WAIT:
  case TS__OP_END: return start;
  default: break;
  }
  later(sm->issue[sub].free_cycle, TS_STALL_ISSUE, &start, stall);
  return start;
}

/* When the op has to wait for something that others may take meanwhile, the warp goes back to the
 * queue, so that nothing is booked ahead of time. */
static bool defer(struct ts__sm *sm, struct ts__warp_state *warp) {
  enum ts_stall stall = TS_STALL_NONE;
  double start = free_cycle(sm, warp, &warp->ops[warp->pc], &stall);
  if (start <= warp->candidate || sm->next_other > bits_of(start)) return false;
  if (warp->candidate > warp->next_cycle)
    warp->sum->stall_cycles[warp->candidate_stall] += warp->candidate - warp->next_cycle;
  warp->sum->stall_cycles[stall] += start - warp->candidate;
  warp->next_cycle = warp->candidate = start;
  warp->candidate_stall = (uint8_t)stall;
  return true;
}

/* Before an op for which registers are lacking the warp goes to local memory, and back to the queue. */
static bool spill(struct ts__sm *sm, struct ts__warp_state *warp) {
  const struct ts__op *op = &warp->ops[warp->pc];
  uint32_t words = ts__insn_of(sm, op)->spilled_words;
  bool is_due = words && !warp->has_spilled;
  warp->has_spilled = is_due;
  if (!is_due) return false;
  if (warp->candidate > warp->next_cycle)
    warp->sum->stall_cycles[warp->candidate_stall] += warp->candidate - warp->next_cycle;
  double done = ts__do_spill(sm, warp, words);
  warp->sum->stall_cycles[TS_STALL_LSU] += done - warp->candidate;
  warp->next_cycle = warp->candidate = done;
  warp->candidate_stall = TS_STALL_LSU;
  return true;
}

/* Carries out the op; false when the warp waits for others. */
static bool execute(struct ts__sm *sm, struct ts__warp_state *warp) {
  const struct ts__op *op = &warp->ops[warp->pc];
  double before_cycle = warp->next_cycle, start = warp->candidate;
  enum ts_stall stall = TS_STALL_NONE;
  switch ((enum ts__op_kind)op->kind) {
  case TS__OP_ALU: start = do_alu(sm, warp, op, &stall); break;
  case TS__OP_SHUFFLE: start = ts__do_shuffle(sm, warp, op, &stall); break;
  case TS__OP_SHARED_LOAD:
  case TS__OP_SHARED_STORE:
  case TS__OP_SHARED_ATOMIC: start = ts__do_shared(sm, warp, op, &stall); break;
  case TS__OP_GLOBAL_LOAD:
  case TS__OP_GLOBAL_STORE:
  case TS__OP_GLOBAL_ATOMIC: start = ts__do_global(sm, warp, op, &stall); break;
  case TS__OP_COPY: start = ts__do_copy(sm, warp, op, &stall); break;
  case TS__OP_CLUSTER: start = ts__do_cluster(sm, warp, op, &stall); break;
  case TS__OP_MMA: start = ts__do_mma(sm, warp, op, &stall); break;
  case TS__OP_WGMMA: start = ts__do_wgmma(sm, warp, op, &stall); break;
  case TS__OP_TCGEN05: start = ts__do_tcgen05(sm, warp, op, &stall); break;
  case TS__OP_TMEM: start = ts__do_tmem(sm, warp, op, &stall); break;
  case TS__OP_ARRIVE: start = do_arrive(sm, warp, op, &stall); break;
  case TS__OP_WAIT:
    if (!do_wait(sm, warp, op, &stall, &start)) return false;
    break;
  case TS__OP_FENCE: start = do_fence(sm, warp, op, &stall); break;
  case TS__OP_BRANCH: start = do_branch(sm, warp, op, &stall); break;
  case TS__OP_END: break;
  }
  account(warp, before_cycle, warp->candidate, (enum ts_stall)warp->candidate_stall, start, stall);
  note_phase(sm, op, warp->next_cycle);
  if (sm->spans && warp->next_cycle > before_cycle) {
    if (stall && start - warp->candidate >= warp->candidate - before_cycle)
      warp->candidate_stall = (uint8_t)stall;
    ts__span(sm, warp, op, TS_MODEL_UNIT_WARP, start, warp->next_cycle, 0);
    warp->told_cycle = warp->next_cycle;
  }
  return true;
}

static enum ts_status run_warps(struct ts__sm *sm) {
  while (sm->queue[1].cycle_bits != never) {
    uint32_t slot = queue_start(sm);
    struct ts__warp_state *warp = &sm->warps[slot];
    for (bool goes_on = true; goes_on;) {
      if (warp->ops[warp->pc].kind == TS__OP_END || warp->pc + 1 >= warp->op_count) {
        queue_set(sm, slot, never);
        TS_TRY(end_warp(sm, warp)); /* another block's warp may take the slot */
        break;
      }
      if (defer(sm, warp) || spill(sm, warp)) {
        goes_on = false;
      } else if (execute(sm, warp)) {
        warp->pc++;
        find_candidate(sm, warp);
        fetch(sm, warp);
        goes_on = sm->next_other >= bits_of(warp->candidate);
      } else {
        queue_set(sm, slot, never);
        break;
      }
      if (!goes_on) queue_set(sm, slot, bits_of(warp->candidate));
    }
    if (sm->span_status != TS_OK) return sm->span_status;
  }
  return TS_OK;
}

/* Warps that still wait when nothing moves: the events were cut short or are not causal. */
static enum ts_status check_finished(struct ts__sm *sm) {
  for (uint32_t i = 0; i < TS__SM_BLOCK_LIMIT; i++)
    if (sm->blocks[i].is_live && sm->blocks[i].live_warps > 0)
      return ts_fail(sm->model->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, TS_NO_PLACE,
                     "the events of block %u end while a warp waits for others",
                     sm->plan->sm_blocks[sm->blocks[i].position]);
  return TS_OK;
}

static enum ts_status sm_init(struct ts__sm *sm) {
  const struct ts_code *code = sm->code;
  uint32_t slots = sm->plan->occupancy.blocks_per_sm;
  uint64_t shared = sm->plan->record->launch->dynamic_shared_bytes + code->static_shared_bytes;
  double l1_bytes = sm->timing[TS_TIMING_l1_bytes] - (double)(slots * (shared + 1024));
  sm->l1 = ts__l1_new(sm->arena, l1_bytes > 16384 ? (uint64_t)l1_bytes : 16384);
  sm->fetched =
      ts_new_array(sm->arena, uint8_t, code->machine_insn_count / TS__FETCH_CHUNK_INSNS + 2);
  sm->result->warps = ts_new_array(sm->arena, struct ts__role_sum, sm->warps_per_block);
  sm->result->warp_count = sm->warps_per_block;
  size_t insns = code->insn_count + 1;
  sm->result->bank_accesses = ts_new_array(sm->arena, uint64_t, insns);
  sm->result->bank_wavefronts = ts_new_array(sm->arena, uint64_t, insns);
  sm->result->bank_ideal = ts_new_array(sm->arena, uint64_t, insns);
  if (!sm->l1 || !sm->fetched || !sm->result->warps || !sm->result->bank_accesses ||
      !sm->result->bank_wavefronts || !sm->result->bank_ideal)
    return ts_fail_memory(sm->model->ctx);
  for (uint32_t i = 0; i < slots * sm->warps_per_block; i++) {
    sm->warps[i].ready = ts_new_array(sm->arena, struct ts__ready, code->slot_count + 1);
    if (!sm->warps[i].ready) return ts_fail_memory(sm->model->ctx);
  }
  return TS_OK;
}

static void collect_busy(const struct ts__sm *sm) {
  double *busy = sm->result->busy;
  for (uint32_t s = 0; s < TS__SUB_PARTITIONS; s++) {
    const struct ts__server *pipe = sm->pipe[s];
    busy[TS_MODEL_UNIT_ISSUE] += sm->issue[s].busy_cycles / TS__SUB_PARTITIONS;
    busy[TS_MODEL_UNIT_FP32] += pipe[TS__PIPE_FP32].busy_cycles / TS__SUB_PARTITIONS;
    busy[TS_MODEL_UNIT_INT] +=
        (pipe[TS__PIPE_ALU].busy_cycles + pipe[TS__PIPE_IMAD].busy_cycles) / TS__SUB_PARTITIONS;
    busy[TS_MODEL_UNIT_FP16] += pipe[TS__PIPE_FP16].busy_cycles / TS__SUB_PARTITIONS;
    busy[TS_MODEL_UNIT_FP64] += pipe[TS__PIPE_FP64].busy_cycles / TS__SUB_PARTITIONS;
    busy[TS_MODEL_UNIT_SFU] +=
        (pipe[TS__PIPE_XU].busy_cycles + pipe[TS__PIPE_CVT].busy_cycles) / TS__SUB_PARTITIONS;
    busy[TS_MODEL_UNIT_TENSOR] += sm->mma[s].busy_cycles / TS__SUB_PARTITIONS;
  }
  double mma_rate = sm->timing[TS_TIMING_mma_macs_per_cycle] * TS__SUB_PARTITIONS;
  double wgmma_rate = sm->timing[TS_TIMING_wgmma_macs_per_cycle];
  sm->result->tensor_load = sm->tensor.busy_cycles;
  if (busy[TS_MODEL_UNIT_TENSOR] > 0)
    sm->result->tensor_load +=
        busy[TS_MODEL_UNIT_TENSOR] * (wgmma_rate > mma_rate ? mma_rate / wgmma_rate : 1);
  busy[TS_MODEL_UNIT_TENSOR] += sm->tensor.busy_cycles;
  busy[TS_MODEL_UNIT_LSU] = sm->lsu.busy_cycles;
  busy[TS_MODEL_UNIT_SHARED] = sm->shared.busy_cycles;
  busy[TS_MODEL_UNIT_TMA] = sm->tma.busy_cycles;
  busy[TS_MODEL_UNIT_L2] = sm->l2.busy_cycles;
  busy[TS_MODEL_UNIT_DRAM] = sm->dram.busy_cycles;
  busy[TS_MODEL_UNIT_ATOMIC] = sm->atomic.busy_cycles;
}

enum ts_status ts__sm_run(struct ts_model_nv *model, const struct ts__plan *plan,
                          uint16_t launch_index, struct ts_span_sink *spans, struct ts_arena *arena,
                          struct ts__sm_result *result) {
  const uint32_t *block = plan->record->launch->block;
  uint32_t threads = block[0] * block[1] * block[2];
  struct ts__sm *sm = ts_new(arena, struct ts__sm);
  if (!sm) return ts_fail_memory(model->ctx);
  *sm = (struct ts__sm){.model = model,
                        .plan = plan,
                        .timing = model->machine->timing,
                        .code = plan->code,
                        .arena = arena,
                        .spans = spans,
                        .launch_index = launch_index,
                        .result = result,
                        .unpacks_floats = strcmp(model->machine->profile, "nv_sm90") == 0,
                        .warps_per_block = (threads + TS__WARP_LANES - 1) / TS__WARP_LANES};
  sm->last_warp_lanes = threads - (sm->warps_per_block - 1) * TS__WARP_LANES;
  *result = (struct ts__sm_result){0};
  uint32_t slots = plan->occupancy.blocks_per_sm;
  if (slots > TS__SM_BLOCK_LIMIT || slots * sm->warps_per_block > TS__SM_WARP_LIMIT)
    return ts_fail(model->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "%u blocks of %u warps on one SM are more than the timing model takes", slots,
                   sm->warps_per_block);
  TS_TRY(sm_init(sm));
  queue_init(sm, slots * sm->warps_per_block);
  double at = sm->timing[TS_TIMING_kernel_start];
  if (plan->active_sm_count > sm->timing[TS_TIMING_l2_gpc_sms])
    at += sm->timing[TS_TIMING_kernel_spread];
  if (!plan->is_warm) at += sm->timing[TS_TIMING_kernel_start_cold];
  for (uint32_t i = 0; i < slots; i++)
    TS_TRY(start_block(sm, i, at));
  TS_TRY(run_warps(sm));
  TS_TRY(check_finished(sm));
  if (sm->drain_cycle > result->end_cycle) result->end_cycle = sm->drain_cycle;
  result->end_cycle += sm->timing[TS_TIMING_kernel_end];
  collect_busy(sm);
  return TS_OK;
}
