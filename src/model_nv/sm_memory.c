/* Memory ops on the simulated SM: shared memory, L1, and the way to L2 and DRAM.
 *
 * All SMs go through like streams, so each has its share of the chip's bandwidth; which lines come
 * from DRAM the L2 pass has said (access.h). */
#include "model_nv/sm_priv.h"

#include "num/dtype.h"

#include <math.h>

enum {
  STORE_BACKLOG_CYCLES = 512, /* GUESS: what the queue of stores holds */
  FIRST_TOUCH_CYCLES = 800,   /* GUESS: after a block's start its accesses are first ones */
  IN_STEP_CYCLES = 4000       /* GUESS: from the launch on the SMs do the same at the same time */
};

/* A warp instruction goes to the load/store unit: an issue slot, and one more when its address has
 * to be computed. Answers its start at the unit. */
static double to_lsu(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                     uint32_t instructions, double wavefronts, enum ts_stall *stall,
                     double *issued) {
  struct ts__server *issue = &sm->issue[warp->sub];
  double at = warp->candidate;
  if (issue->free_cycle > at) at = issue->free_cycle, *stall = TS_STALL_ISSUE;
  bool has_address = (ts__insn_of(sm, op)->flags & TS_CODE_ADDRESS) != 0;
  if (has_address) {
    ts__serve(&sm->pipe[warp->sub][TS__PIPE_IMAD], at, sm->timing[TS_TIMING_imad_interval]);
    ts__serve(issue, at, 1);
    at += sm->timing[TS_TIMING_imad_latency];
  }
  ts__serve(issue, at - (has_address ? 1 : 0), instructions);
  *issued = at;
  warp->next_cycle = at + instructions;
  struct ts__server *sub = &sm->lsu_sub[warp->sub];
  double least = instructions * sm->timing[TS_TIMING_lsu_sub_interval];
  double spread = wavefronts * sm->timing[TS_TIMING_shared_sub_wavefront];
  at = ts__serve(sub, at, least > spread ? least : spread);
  return ts__serve(&sm->lsu, at, instructions * sm->timing[TS_TIMING_lsu_interval]);
}

double ts__do_shuffle(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                      enum ts_stall *stall) {
  const struct ts_code_insn *insn = &sm->code->insns[op->insn];
  uint32_t words = ts_dtype_bits((enum ts_dtype)insn->dtype) * insn->lanes / 32;
  double issued, at = to_lsu(sm, warp, op, words ? words : 1, 0, stall, &issued);
  ts__define(sm, warp, op, at + sm->timing[TS_TIMING_shuffle_latency], TS_STALL_SHORT);
  return issued;
}

double ts__do_shared(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                     enum ts_stall *stall) {
  double wavefronts = op->aux ? op->aux : 1;
  double issued, at = to_lsu(sm, warp, op, 1, wavefronts, stall, &issued);
  double latency = sm->timing[TS_TIMING_shared_latency];
  if (ts__insn_of(sm, op)->op == TS_OP_ldmatrix) latency = sm->timing[TS_TIMING_ldmatrix_latency];
  if (op->kind == TS__OP_SHARED_ATOMIC) wavefronts *= sm->timing[TS_TIMING_shared_atomic_interval];
  double start = ts__serve(&sm->shared, at, wavefronts);
  double last = (wavefronts - 1) * sm->timing[TS_TIMING_shared_sub_wavefront];
  ts__define(sm, warp, op, start + last + latency, TS_STALL_SHORT);
  if (op->insn < sm->code->insn_count) {
    sm->result->bank_accesses[op->insn]++;
    sm->result->bank_wavefronts[op->insn] += op->aux;
    sm->result->bank_ideal[op->insn] += op->aux2;
  }
  ts__span(sm, warp, op, TS_MODEL_UNIT_SHARED, start, start + wavefronts, 0);
  return issued;
}

/* --- L2 and DRAM */

struct request {
  double sectors; /* of 32 bytes, that cross to or from L2 */
  uint32_t lines;
  bool sees_miss;  /* at least one of its lines comes from DRAM */
  bool is_awaited; /* a load; copies run ahead of their use and fill the gaps that others leave */
  double dram_bytes;
};

/* What a request of so many missing lines waits beyond an L2 hit: for the slowest of them. */
static double miss_latency(const struct ts__sm *sm, uint32_t lines) {
  const double *timing = sm->timing;
  double extra = lines > 1 ? timing[TS_TIMING_dram_lines_extra] * log2(lines) : 0;
  if (extra > timing[TS_TIMING_dram_lines_extra_limit])
    extra = timing[TS_TIMING_dram_lines_extra_limit];
  return timing[TS_TIMING_dram_latency] - timing[TS_TIMING_l2_latency] + extra;
}

/* A read of L2: answers when its last byte is at the SM, `latency` being that of an L2 hit. */
static double read_l2(struct ts__sm *sm, const struct ts__block_state *block,
                      const struct request *request, double at, double latency) {
  const double *timing = sm->timing;
  double bytes = request->sectors * TS__SECTOR_BYTES;
  if (request->dram_bytes > 0)
    ts__serve(&sm->dram, at, request->dram_bytes / block->dram_read_rate);
  if (bytes <= 0) return at;
  bool is_in_step = request->is_awaited && at < IN_STEP_CYCLES;
  ts__serve(&sm->l2, at, bytes / (is_in_step ? block->l2_step_rate : block->l2_read_rate));
  sm->result->l2_read_cycles += bytes / block->l2_read_rate;
  double done = sm->l2.free_cycle;
  if (request->dram_bytes > 0 && request->sees_miss && sm->dram.free_cycle > done)
    done = sm->dram.free_cycle;
  if (request->sees_miss) latency += timing[TS_TIMING_dram_latency] - timing[TS_TIMING_l2_latency];
  if (!sm->plan->is_warm && block->position < sm->plan->occupancy.blocks_per_sm &&
      at < block->start_cycle + FIRST_TOUCH_CYCLES)
    latency += timing[TS_TIMING_first_touch_cold];
  if (request->lines > 1) latency += timing[TS_TIMING_l2_far_extra];
  return done + latency;
}

/* --- what L1 keeps track of */

/* L1 asks L2 for no more than so many bytes at a time. */
static void note_under_way(struct ts__sm *sm, double at, double bytes, double done_cycle) {
  struct ts__under_way *under_way = &sm->under_way;
  while (under_way->count && (under_way->reads[under_way->first].done_cycle <= at ||
                              under_way->count == TS__UNDER_WAY_LIMIT)) {
    under_way->bytes -= under_way->reads[under_way->first].bytes;
    under_way->first = (under_way->first + 1) % TS__UNDER_WAY_LIMIT;
    under_way->count--;
  }
  uint32_t last = (under_way->first + under_way->count++) % TS__UNDER_WAY_LIMIT;
  under_way->reads[last].done_cycle = done_cycle;
  under_way->reads[last].bytes = bytes;
  under_way->bytes += bytes;
}

double ts__l1_room_cycle(const struct ts__sm *sm) {
  const struct ts__under_way *under_way = &sm->under_way;
  double left = under_way->bytes - sm->timing[TS_TIMING_l1_bytes_in_flight], cycle = 0;
  for (uint32_t i = 0; i < under_way->count && left > 0; i++) {
    uint32_t at = (under_way->first + i) % TS__UNDER_WAY_LIMIT;
    left -= under_way->reads[at].bytes;
    if (under_way->reads[at].done_cycle > cycle) cycle = under_way->reads[at].done_cycle;
  }
  return cycle;
}

/* What has left the SM by the cycle has landed some time later: before that the kernel does not end. */
static void drain(struct ts__sm *sm, double cycle) {
  double landed = cycle + sm->timing[TS_TIMING_store_drain];
  if (landed > sm->drain_cycle) sm->drain_cycle = landed;
}

/* A write that takes so many cycles of the SM's share of L2: answers when the SM has got rid of it. The
 * sectors are those that have to go to DRAM some time. */
static double write_l2(struct ts__sm *sm, const struct ts__block_state *block, double l2_cycles,
                       double sectors, double at) {
  ts__serve(&sm->l2, at, l2_cycles);
  double dram_bytes = sectors * TS__SECTOR_BYTES * sm->plan->write_back_share;
  double done = sm->l2.free_cycle;
  if (dram_bytes > 0) {
    ts__serve(&sm->dram, at, dram_bytes / block->dram_write_rate);
    if (sm->dram.free_cycle > done) done = sm->dram.free_cycle;
  }
  drain(sm, done);
  return done;
}

/* The L2 pass has no L1: all that an access asks for has its share of what comes from DRAM, so that
 * the launch's bytes are charged whether or not L1 answers. */
static void fill_request(const struct ts__sm *sm, const struct ts__l2_outcome *outcome,
                         double sectors, uint32_t lines, struct request *request) {
  request->is_awaited = false;
  request->sectors = sectors;
  request->lines = lines;
  request->sees_miss = outcome->miss_lines + outcome->merged_lines > 0;
  request->dram_bytes = outcome->sector_count * TS__SECTOR_BYTES * sm->plan->miss_share;
}

/* The sectors of a load that L1 does not have; *lines counts those it looked at. */
static double miss_l1(struct ts__sm *sm, const struct ts__lines *lines, uint32_t *missing_lines) {
  double sectors = 0;
  *missing_lines = 0;
  for (uint32_t i = 0; i < lines->count; i++) {
    uint32_t missing =
        ts__l1_load(sm->l1, ts__line_of(lines->line[i]), ts__sectors_of(lines->line[i]));
    sectors += __builtin_popcount(missing);
    *missing_lines += missing != 0;
  }
  return sectors;
}

static double total_sectors(const struct ts__lines *lines) {
  double sectors = 0;
  for (uint32_t i = 0; i < lines->count; i++)
    sectors += __builtin_popcount(ts__sectors_of(lines->line[i]));
  return sectors;
}

/* L2 takes a sector that is filled in part twice, and so many lines at a time however short the pieces
 * are that come to them. */
static double store_cycles(const struct ts__sm *sm, const struct ts__block_state *block,
                           const struct ts__access *access, const struct ts__lines *lines) {
  double sectors = total_sectors(lines);
  if (access->bytes < sectors * TS__SECTOR_BYTES) sectors *= 2;
  double cycles = sectors * TS__SECTOR_BYTES / block->l2_write_rate;
  double line_cycles =
      lines->count * block->active_sm_count / sm->timing[TS_TIMING_l2_chip_write_lines_per_cycle];
  return line_cycles > cycles ? line_cycles : cycles;
}

static void load(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                 const struct ts__lines *lines, double data_cycles, double at, double tagged) {
  const struct ts__block_state *block = &sm->blocks[warp->block];
  const struct ts__l2_outcome *outcome = &block->outcomes[op->payload];
  uint32_t missing_lines;
  double sectors = miss_l1(sm, lines, &missing_lines);
  double data = ts__serve(&sm->shared, at, data_cycles < 1 ? 1 : data_cycles);
  double done = data + data_cycles + sm->timing[TS_TIMING_l1_latency];
  struct request request;
  fill_request(sm, outcome, sectors, missing_lines, &request);
  request.is_awaited = true;
  double arrived = read_l2(sm, block, &request, tagged, sm->timing[TS_TIMING_l2_latency]);
  if (sectors > 0) note_under_way(sm, at, sectors * TS__SECTOR_BYTES, arrived);
  if (arrived > done) done = arrived;
  if (sectors > 0)
    ts__span(sm, warp, op, TS_MODEL_UNIT_L2, tagged, arrived,
             (uint32_t)(sectors * TS__SECTOR_BYTES));
  ts__define(sm, warp, op, done, TS_STALL_LONG);
}

/* Cycles of a reduction on one SM's account: sectors of the SM, sectors and bytes of the chip, and
 * what the launch's atomics wait for one another (contention.c). */
static double atomic_cycles(const struct ts__sm *sm, const struct ts__block_state *block,
                            const struct ts__access *access, double sectors) {
  const double *timing = sm->timing;
  double active = block->active_sm_count, crowded = active * sm->plan->crowded_cycles;
  double rate = sectors / (timing[TS_TIMING_atomic_sectors_per_cycle] / active);
  /* MEASURED red_v2_*, red_v4_*: a lane's vector counts as one word. */
  double words = __builtin_popcount(access->mask) * 4.0;
  double bytes = words / (timing[TS_TIMING_atomic_bytes_per_cycle] / active);
  double cycles = sectors * timing[TS_TIMING_atomic_sector_interval];
  if (cycles < rate) cycles = rate;
  if (cycles < bytes) cycles = bytes;
  return cycles < crowded ? crowded : cycles;
}

/* The warp goes on at the cycle, if that is later. */
static void hold(struct ts__warp_state *warp, double cycle, enum ts_stall stall) {
  if (cycle <= warp->next_cycle) return;
  warp->held_cycles = cycle - warp->next_cycle;
  warp->held_stall = (uint8_t)stall;
  warp->next_cycle = cycle;
}

/* A loop of compare-and-swap loads the word first, and the warp waits for the answer. Once is enough
 * for all lanes whose value does not raise the word; nearly all are such, the more so when the launch
 * has run before. */
static bool is_swap(const struct ts__sm *sm, const struct ts__op *op) {
  return (ts__insn_of(sm, op)->flags & TS_CODE_SWAPS) != 0;
}

static void atomic(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                   const struct ts__access *access, const struct ts__lines *lines, double at) {
  const struct ts__block_state *block = &sm->blocks[warp->block];
  ts__serve(&sm->atomic, at, atomic_cycles(sm, block, access, total_sectors(lines)));
  double done = sm->atomic.free_cycle + sm->timing[TS_TIMING_atomic_latency];
  if (is_swap(sm, op)) {
    done += sm->timing[TS_TIMING_l2_latency];
    hold(warp, done, TS_STALL_LONG);
  }
  drain(sm, sm->atomic.free_cycle);
  ts__define(sm, warp, op, done, TS_STALL_LONG);
  ts__span(sm, warp, op, TS_MODEL_UNIT_ATOMIC, at, done, access->bytes);
}

/* Atomics bring their lines from DRAM and leave them dirty. */
static void atomic_dram(struct ts__sm *sm, const struct ts__block_state *block,
                        const struct ts__l2_outcome *outcome, double at) {
  double bytes = outcome->sector_count * TS__SECTOR_BYTES;
  double cycles = bytes * sm->plan->miss_share / block->dram_read_rate +
                  bytes * sm->plan->write_back_share / block->dram_write_rate;
  if (cycles <= 0) return;
  ts__serve(&sm->dram, at, cycles);
  drain(sm, sm->dram.free_cycle);
}

double ts__do_global(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                     enum ts_stall *stall) {
  const struct ts__block_state *block = &sm->blocks[warp->block];
  const struct ts__access *access = &block->stream->accesses[op->payload];
  uint32_t instructions = (access->footprint.size_bytes + 15) / 16;
  double issued, at = to_lsu(sm, warp, op, instructions ? instructions : 1, 0, stall, &issued);
  struct ts__lines lines;
  const struct ts_shift *shift =
      ts__find_shift(block->record->shifts, block->record->shift_count, access->insn);
  ts__coalesce(&access->footprint, access->mask, shift->bytes, &lines);
  double tag_cycles = lines.count * sm->timing[TS_TIMING_l1_line_cycles];
  double data_cycles =
      total_sectors(&lines) * TS__SECTOR_BYTES / sm->timing[TS_TIMING_shared_bytes_per_cycle];
  if (tag_cycles < data_cycles) tag_cycles = data_cycles;
  double tagged = ts__serve(&sm->tag, at, tag_cycles) + tag_cycles;
  if (op->kind == TS__OP_GLOBAL_LOAD) {
    load(sm, warp, op, &lines, data_cycles, at, tagged);
  } else if (op->kind == TS__OP_GLOBAL_ATOMIC) {
    atomic(sm, warp, op, access, &lines, tagged);
    atomic_dram(sm, block, &block->outcomes[op->payload], tagged);
  } else {
    for (uint32_t i = 0; i < lines.count; i++)
      ts__l1_store(sm->l1, ts__line_of(lines.line[i]), ts__sectors_of(lines.line[i]));
    const struct ts__l2_outcome *outcome = &block->outcomes[op->payload];
    double done =
        write_l2(sm, block, store_cycles(sm, block, access, &lines), outcome->sector_count, tagged);
    /* Stores wait in a queue of the SM; a full one holds the warp back. */
    hold(warp, done - STORE_BACKLOG_CYCLES, TS_STALL_BANDWIDTH);
    ts__span(sm, warp, op, TS_MODEL_UNIT_L2, tagged, done, access->bytes);
  }
  return issued;
}

/* --- asynchronous copies */

static double cp_async(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                       const struct ts__copy_op *copy, enum ts_stall *stall) {
  struct ts__block_state *block = &sm->blocks[warp->block];
  double wavefronts = copy->bytes / sm->timing[TS_TIMING_shared_bytes_per_cycle];
  double issued, at = to_lsu(sm, warp, op, 1, wavefronts / 2, stall, &issued);
  double done = at + sm->timing[TS_TIMING_l1_latency];
  if (copy->access != UINT32_MAX) {
    const struct ts__l2_outcome *outcome = &block->outcomes[copy->access];
    struct request request;
    double tag_cycles = outcome->line_count * sm->timing[TS_TIMING_l1_line_cycles];
    double tagged = ts__serve(&sm->tag, at, tag_cycles) + tag_cycles;
    fill_request(sm, outcome, outcome->sector_count, outcome->line_count, &request);
    done = read_l2(sm, block, &request, tagged,
                   sm->timing[TS_TIMING_l2_latency] + sm->timing[TS_TIMING_cp_async_extra]);
    note_under_way(sm, at, copy->bytes, done);
    ts__span(sm, warp, op, TS_MODEL_UNIT_L2, tagged, done, copy->bytes);
  }
  /* The write to shared memory comes later, but takes as long. */
  ts__serve(&sm->shared, at, wavefronts);
  if (done > warp->last_async) warp->last_async = done;
  ts__node_contribute(sm, block, copy->node, 1, done);
  return issued;
}

/* A box, or a bulk copy, through the TMA engine; answers when its last byte is asked for. What comes
 * with another request takes nothing from the engine, but is not there before it. */
static double engine(struct ts__sm *sm, const struct ts__block_state *block,
                     const struct ts__copy_op *copy, double at) {
  const double *timing = sm->timing;
  bool has_access = copy->access != UINT32_MAX;
  const struct ts__access *access = has_access ? &block->stream->accesses[copy->access] : NULL;
  double lines = has_access ? block->outcomes[copy->access].line_count : 0;
  /* Rows that are not aligned to lines ask for more of these. */
  double bytes = lines * TS__LINE_BYTES > copy->bytes ? lines * TS__LINE_BYTES : copy->bytes;
  double rows = 1, feed = bytes / timing[TS_TIMING_tma_bytes_per_cycle];
  if (copy->is_passive) return at + feed > sm->tma.free_cycle ? at + feed : sm->tma.free_cycle;
  for (uint32_t i = 1; access && i < access->footprint.rank; i++)
    rows *= access->footprint.extent[i];
  if (feed < rows * timing[TS_TIMING_tma_row_cycles])
    feed = rows * timing[TS_TIMING_tma_row_cycles];
  double least = timing[TS_TIMING_tma_box_cycles];
  return ts__serve(&sm->tma, at, feed > least ? feed : least) + feed;
}

static double tma_load(struct ts__sm *sm, struct ts__block_state *block,
                       const struct ts__copy_op *copy, double at) {
  const struct ts__l2_outcome *outcome =
      copy->access != UINT32_MAX ? &block->outcomes[copy->access] : NULL;
  bool has_map = copy->kind == TS__COPY_TMA_LOAD;
  double fed = engine(sm, block, copy, at);
  double latency = sm->timing[TS_TIMING_l2_latency] +
                   sm->timing[has_map ? TS_TIMING_tma_latency : TS_TIMING_bulk_latency];
  if (copy->is_multicast) latency += sm->timing[TS_TIMING_multicast_extra];
  /* Boxes that are issued before the tensor map has come wait for it too. */
  if (has_map && sm->tensor_map_cycle == 0)
    sm->tensor_map_cycle = at + sm->timing[TS_TIMING_tma_first_extra];
  if (has_map && at < sm->tensor_map_cycle) latency += sm->tensor_map_cycle - at;
  double done = fed + latency;
  if (outcome && outcome->sector_count > 0) {
    struct request request;
    fill_request(sm, outcome, outcome->sector_count, outcome->line_count, &request);
    double arrived = read_l2(sm, block, &request, at, latency);
    if (request.sees_miss) done += miss_latency(sm, request.lines);
    if (arrived > done) done = arrived;
  }
  return done;
}

/* Answers when the bytes have been written; the source is free when the engine has read it. */
static double tma_store(struct ts__sm *sm, struct ts__block_state *block,
                        const struct ts__copy_op *copy, double at) {
  const struct ts__l2_outcome *outcome =
      copy->access != UINT32_MAX ? &block->outcomes[copy->access] : NULL;
  double fed = engine(sm, block, copy, at);
  double *read_cycle = &block->nodes[copy->node].read_cycle;
  if (fed > *read_cycle) *read_cycle = fed;
  double sectors = outcome ? outcome->sector_count : copy->bytes / TS__SECTOR_BYTES;
  double cycles = sectors * TS__SECTOR_BYTES / block->l2_write_rate;
  double done = write_l2(sm, block, cycles, sectors, fed);
  return (done > fed ? done : fed) + sm->timing[TS_TIMING_tma_store_latency];
}

double ts__do_copy(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                   enum ts_stall *stall) {
  struct ts__block_state *block = &sm->blocks[warp->block];
  const struct ts__copy_op *copy = &block->stream->copies[op->payload];
  if (copy->kind == TS__COPY_ASYNC) return cp_async(sm, warp, op, copy, stall);
  double start = warp->candidate, done;
  if (!copy->is_passive) {
    struct ts__server *issue = &sm->issue[warp->sub];
    if (issue->free_cycle > warp->candidate) *stall = TS_STALL_ISSUE;
    start = ts__serve(issue, warp->candidate, 1);
    warp->next_cycle = start + sm->timing[TS_TIMING_tma_issue];
  }
  switch ((enum ts__copy_kind)copy->kind) {
  case TS__COPY_TMA_STORE:
  case TS__COPY_BULK_STORE: done = tma_store(sm, block, copy, warp->next_cycle); break;
  case TS__COPY_REMOTE:
    ts__serve(&sm->cluster, start, copy->bytes / sm->timing[TS_TIMING_cluster_bytes_per_cycle]);
    done = sm->cluster.free_cycle + sm->timing[TS_TIMING_cluster_latency];
    break;
  default: done = tma_load(sm, block, copy, warp->next_cycle); break;
  }
  ts__node_contribute(sm, block, copy->node, 1, done);
  ts__span(sm, warp, op, TS_MODEL_UNIT_TMA, start, done, copy->bytes);
  return start;
}

double ts__do_cluster(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                      enum ts_stall *stall) {
  double issued, at = to_lsu(sm, warp, op, 1, 0, stall, &issued);
  ts__serve(&sm->cluster, at, op->aux / sm->timing[TS_TIMING_cluster_bytes_per_cycle]);
  ts__define(sm, warp, op, sm->cluster.free_cycle + sm->timing[TS_TIMING_cluster_latency],
             TS_STALL_LONG);
  return issued;
}
