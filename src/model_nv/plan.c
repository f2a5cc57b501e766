/* The plan of a launch: occupancy, which blocks the simulated SM gets, what instructions cost, and
 * what L2 does with every access. */
#include "model_nv/model_nv_priv.h"

#include <string.h>

/* FITTED on mem_add of 33 and 50 MB and l2_read_*MB of traces/h200/ubench.csv. */
#define CAPACITY_SPREAD 0.04

enum {
  SURE_SPILL_WORDS = 16,  /* the estimate of registers is 7.5 off on average */
  IN_FLIGHT_ACCESSES = 8, /* GUESS: of a block within one DRAM latency */
  SHARED_READS = 4,       /* GUESS: reads of a line from which on tiles count as shared */
  NEIGHBOUR_LIMIT = 128,
  DEAL_LIMIT = 1u << 16,  /* blocks of several kinds that are dealt out one by one */
  SAMPLE_LINES = 1u << 22 /* lines that the L2 pass looks at, about */
};

/* Of a block. A kernel that allocates again what it has freed has all there are at most. */
static uint32_t tensor_columns(const struct ts_model_nv *model, const struct ts_code *code) {
  uint32_t columns = 0, limit = model->machine->tensor_columns_per_sm;
  for (uint32_t i = 0; i < code->insn_count && columns < limit; i++)
    if (code->insns[i].op == TS_OP_tmem_alloc) columns += code->insns[i].n;
  return columns < limit ? columns : limit;
}

static enum ts_status find_occupancy(struct ts_model_nv *model, struct ts__plan *plan) {
  const struct ts_trace_launch *launch = plan->record->launch;
  struct ts_block_needs needs = {
      .threads = launch->block[0] * launch->block[1] * launch->block[2],
      .registers_per_thread = plan->registers_per_thread,
      .shared_bytes = launch->dynamic_shared_bytes + plan->code->static_shared_bytes,
      .barriers = plan->record->barrier_count,
      .tensor_columns = tensor_columns(model, plan->code),
      .cluster_blocks = launch->cluster[0] * launch->cluster[1] * launch->cluster[2]};
  plan->occupancy = ts_occupancy_find(model->machine, &needs);
  if (plan->occupancy.blocks_per_sm > 0) return TS_OK;
  return ts_fail(model->ctx, TS_BAD_INPUT, TS_DIAG_LIMIT, TS_NO_PLACE,
                 "a block of %s (%u threads, %u registers each, %llu bytes of shared memory) does "
                 "not fit on an SM of %s",
                 plan->record->function->name, needs.threads, needs.registers_per_thread,
                 (unsigned long long)needs.shared_bytes, model->machine->name);
}

static enum ts_status find_costs(struct ts_model_nv *model, struct ts__plan *plan) {
  const struct ts_code *code = plan->code;
  struct ts__cost *costs = ts_new_array(&model->arena, struct ts__cost, code->insn_count + 1);
  if (!costs) return ts_fail_memory(model->ctx);
  for (uint32_t i = 0; i < code->insn_count; i++) {
    if (ts__cost_find(model->machine, &code->insns[i], &costs[i])) continue;
    return ts_fail(model->ctx, TS_UNSUPPORTED, TS_DIAG_TIME_UNKNOWN,
                   plan->record->function->places[i], "the timing model has no cost for %s",
                   ts_op_info((enum ts_op)code->insns[i].op)->mnemonic);
  }
  plan->costs = costs;
  return TS_OK;
}

/* Rough length of a block's way: the ops of its longest warp. */
static double block_weight(const struct ts__launch_record *record, uint32_t block) {
  const struct ts__stream *stream = &record->streams.data[record->blocks[block].stream];
  uint32_t longest = 1;
  for (uint32_t w = 0; w < stream->warp_count; w++)
    if (stream->warps[w].count > longest) longest = stream->warps[w].count;
  return longest;
}

static bool is_uniform(const struct ts__launch_record *record) {
  for (uint32_t b = 1; b < record->block_count; b++)
    if (record->blocks[b].stream != record->blocks[0].stream) return false;
  return true;
}

/* Gives blocks in order to the SM whose place is free first, as the hardware does; *last becomes the
 * SM that ends last, owner[b] the SM of block b. */
static enum ts_status deal_blocks(struct ts_model_nv *model, const struct ts__plan *plan,
                                  uint32_t *owner, uint32_t *last) {
  const struct ts__launch_record *record = plan->record;
  uint32_t sms = plan->active_sm_count, per_sm = plan->occupancy.blocks_per_sm;
  uint32_t slots = sms * per_sm < record->block_count ? sms * per_sm : record->block_count;
  double *free_at = ts_new_array(&model->arena, double, slots + 1), end = -1;
  if (!free_at) return ts_fail_memory(model->ctx);
  for (uint32_t b = 0; b < record->block_count; b++) {
    uint32_t slot = 0;
    for (uint32_t s = 1; s < slots; s++)
      if (free_at[s] < free_at[slot]) slot = s;
    free_at[slot] += block_weight(record, b);
    owner[b] = slot % sms;
    if (free_at[slot] <= end) continue;
    end = free_at[slot];
    *last = owner[b];
  }
  return TS_OK;
}

/* The blocks of the SM that ends last: that one is simulated. */
static enum ts_status choose_blocks(struct ts_model_nv *model, struct ts__plan *plan) {
  uint32_t count = plan->record->block_count, last = 0;
  uint32_t *owner = ts_new_array(&model->arena, uint32_t, count + 1);
  uint32_t *blocks = ts_new_array(&model->arena, uint32_t, count + 1);
  if (!owner || !blocks) return ts_fail_memory(model->ctx);
  plan->sm_blocks = blocks;
  if (is_uniform(plan->record) || count > DEAL_LIMIT) {
    for (uint32_t b = 0; b < count; b += plan->active_sm_count)
      blocks[plan->sm_block_count++] = b;
    return TS_OK;
  }
  TS_TRY(deal_blocks(model, plan, owner, &last));
  for (uint32_t b = 0; b < count; b++)
    if (owner[b] == last) blocks[plan->sm_block_count++] = b;
  return TS_OK;
}

static enum ts_status assign_blocks(struct ts_model_nv *model, struct ts__plan *plan) {
  uint32_t count = plan->record->block_count, sms = model->machine->sm_count;
  plan->active_sm_count = count < sms ? count : sms;
  for (uint32_t i = 0; i < count; i++)
    if (plan->record->blocks[i].stream == UINT32_MAX)
      return ts_fail(model->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, TS_NO_PLACE,
                     "there are no events of block %u", i);
  return choose_blocks(model, plan);
}

/* --- tiles that neighbours share */

/* Whether two blocks of one stream have the same footprint at an instruction. */
static bool same_place(const struct ts__block_record *a, const struct ts__block_record *b,
                       uint32_t insn) {
  const struct ts_shift *x = ts__find_shift(a->shifts, a->shift_count, insn);
  const struct ts_shift *y = ts__find_shift(b->shifts, b->shift_count, insn);
  if (a->stream != b->stream) return false;
  return x->bytes == y->bytes && memcmp(x->coordinate, y->coordinate, sizeof x->coordinate) == 0;
}

/* How much faster a tile comes that k blocks of a GPC read than one that nobody shares: requests for a
 * line that is under way are served together. Blocks of later waves have drifted apart, and the
 * threads' own copies do so sooner than the TMA engine's. */
static double gain_of(struct ts_model_nv *model, const struct ts__plan *plan, double readers,
                      bool is_box) {
  double gain = ts__constant(model, TS_TIMING_l2_sharing_gain) * readers;
  uint64_t resident = (uint64_t)plan->active_sm_count * plan->occupancy.blocks_per_sm;
  if (gain <= 1) return 1;
  bool has_drifted = plan->record->block_count > resident;
  double share = 1;
  if (!is_box)
    share = ts__constant(model,
                         has_drifted ? TS_TIMING_l2_thread_drift_share : TS_TIMING_l2_thread_share);
  else if (has_drifted)
    share = ts__constant(model, TS_TIMING_l2_drift_share);
  return 1 + (gain - 1) * share;
}

/* The blocks that are on the first GPC's SMs at once. */
static uint32_t find_neighbours(struct ts_model_nv *model, const struct ts__plan *plan,
                                uint32_t neighbours[NEIGHBOUR_LIMIT]) {
  uint32_t sms = (uint32_t)ts__constant(model, TS_TIMING_l2_gpc_sms), count = 0;
  if (sms > plan->active_sm_count) sms = plan->active_sm_count;
  for (uint32_t slot = 0; slot < plan->occupancy.blocks_per_sm; slot++)
    for (uint32_t sm = 0; sm < sms && count < NEIGHBOUR_LIMIT; sm++) {
      uint64_t block = (uint64_t)slot * plan->active_sm_count + sm;
      if (block < plan->record->block_count) neighbours[count++] = (uint32_t)block;
    }
  return count;
}

/* How many of the neighbours read each place, mean over the places. */
static double readers_of(const struct ts__plan *plan, const uint32_t *neighbours, uint32_t count,
                         uint32_t insn) {
  const struct ts__block_record *blocks = plan->record->blocks;
  uint32_t places = 0;
  for (uint32_t b = 0; b < count; b++) {
    bool is_new = true;
    for (uint32_t c = 0; c < b && is_new; c++)
      is_new = !same_place(&blocks[neighbours[b]], &blocks[neighbours[c]], insn);
    places += is_new;
  }
  return places ? (double)count / places : 1;
}

/* Kinds of tiles are the reading instructions of the first block's stream. */
static void find_sharing(struct ts_model_nv *model, struct ts__plan *plan) {
  const struct ts__launch_record *record = plan->record;
  const struct ts__stream *stream = &record->streams.data[record->blocks[0].stream];
  struct ts__sharing *sharing = &plan->sharing;
  uint32_t insns[TS__SHARING_LIMIT], neighbours[NEIGHBOUR_LIMIT];
  uint32_t neighbour_count = find_neighbours(model, plan, neighbours);
  double total = 0;
  for (uint32_t i = 0; i < stream->access_count; i++) {
    const struct ts__access *access = &stream->accesses[i];
    if (access->is_write || access->is_atomic) continue;
    uint32_t k = 0;
    while (k < sharing->count && insns[k] != access->insn)
      k++;
    if (k == TS__SHARING_LIMIT) k--;
    if (k == sharing->count) {
      insns[k] = access->insn;
      sharing->gain[k] =
          gain_of(model, plan, readers_of(plan, neighbours, neighbour_count, access->insn),
                  access->footprint.kind == TS_FOOTPRINT_BOX);
      sharing->byte_share[k] = 0;
      sharing->count++;
    }
    sharing->byte_share[k] += access->bytes;
    total += access->bytes;
  }
  for (uint32_t k = 0; k < sharing->count; k++)
    sharing->byte_share[k] /= total > 0 ? total : 1;
}

static uint32_t sample_shift(const struct ts__launch_record *record) {
  double bytes = 0;
  for (uint32_t b = 0; b < record->block_count; b++) {
    const struct ts__stream *stream = &record->streams.data[record->blocks[b].stream];
    for (uint32_t i = 0; i < stream->access_count; i += 1 + stream->access_count / 64)
      bytes += stream->accesses[i].bytes * (1.0 + stream->access_count / 64);
    if (b == 255) bytes *= record->block_count / 256.0;
    if (b >= 255) break;
  }
  uint32_t shift = 0;
  for (double lines = bytes / TS__LINE_BYTES; lines > SAMPLE_LINES && shift < 8; lines /= 2)
    shift++;
  return shift;
}

/* A cold launch finds L2 full of lines that others wrote: until these are gone, reads drive them to
 * DRAM. L2 keeps few dirty lines, so what is written goes to DRAM within the launch even where it
 * would fit (MEASURED cold_copy_*_after_reads: 0.43 us per MB read, of which the read takes 0.23). */
static void add_foreign_lines(struct ts_model_nv *model, struct ts__plan *plan) {
  double footprint = (double)plan->totals.footprint_bytes;
  double capacity = ts__constant(model, TS_TIMING_l2_capacity);
  double share = footprint > capacity ? capacity / footprint : 1;
  plan->miss_share *= 1 + share * ts__constant(model, TS_TIMING_dram_dirty_extra);
  if (plan->write_back_share < 1) plan->write_back_share = 1;
}

/* An array for the outcomes of each block that is simulated. */
static enum ts_status make_outcomes(struct ts_model_nv *model, struct ts__plan *plan,
                                    struct ts__l2_pass *pass) {
  const struct ts__launch_record *record = plan->record;
  struct ts__l2_outcome **outcomes =
      ts_new_array(&model->arena, struct ts__l2_outcome *, record->block_count + 1);
  struct ts__l2_outcome **kept =
      ts_new_array(&model->arena, struct ts__l2_outcome *, plan->sm_block_count + 1);
  if (!outcomes || !kept) return ts_fail_memory(model->ctx);
  for (uint32_t i = 0; i < plan->sm_block_count; i++) {
    uint32_t b = plan->sm_blocks[i];
    const struct ts__stream *stream = &record->streams.data[record->blocks[b].stream];
    outcomes[b] = kept[i] =
        ts_new_array(&model->arena, struct ts__l2_outcome, stream->access_count + 1);
    if (!kept[i]) return ts_fail_memory(model->ctx);
  }
  plan->outcomes = kept;
  pass->outcomes = outcomes;
  return TS_OK;
}

static void take_totals(struct ts__plan *plan, const struct ts__l2_totals *totals) {
  plan->totals = *totals;
  if (totals->read_sectors)
    plan->miss_share = (double)totals->dram_read_sectors / (double)totals->read_sectors;
  uint64_t written = totals->write_sectors + totals->atomic_sectors;
  if (written) plan->write_back_share = (double)totals->dram_write_sectors / (double)written;
}

/* DRAM's bus turns between reads and writes: the more often, the more there is of the rarer kind. */
static void add_turns(struct ts_model_nv *model, struct ts__plan *plan) {
  const struct ts__l2_totals *totals = &plan->totals;
  double written = (double)(totals->write_sectors + totals->atomic_sectors);
  double read_us =
      (double)totals->dram_read_sectors / ts__constant(model, TS_TIMING_dram_read_bytes_per_us);
  double write_rate = ts__constant(model, TS_TIMING_dram_write_bytes_per_us);
  double write_us = plan->write_back_share * written / write_rate;
  double lesser = read_us < write_us ? read_us : write_us;
  if (lesser <= 0) return;
  double extra = ts__constant(model, TS_TIMING_dram_turn_extra) * lesser / (read_us + write_us);
  plan->miss_share *= 1 + extra;
  plan->write_back_share *= 1 + extra;
}

/* The launch twice over one L2: cold, and then hot. */
static enum ts_status run_l2(struct ts_model_nv *model, struct ts__plan *hot,
                             struct ts__plan *cold) {
  const struct ts__launch_record *record = hot->record;
  struct ts__l2_pass passes[2] = {0};
  struct ts__l2_block *blocks =
      ts_new_array(&model->arena, struct ts__l2_block, record->block_count + 1);
  if (!blocks) return ts_fail_memory(model->ctx);
  for (uint32_t b = 0; b < record->block_count; b++) {
    const struct ts__block_record *block = &record->blocks[b];
    const struct ts__stream *stream = &record->streams.data[block->stream];
    blocks[b] = (struct ts__l2_block){stream->accesses, stream->access_count, block->shifts,
                                      block->shift_count};
  }
  TS_TRY(make_outcomes(model, cold, &passes[0]));
  TS_TRY(make_outcomes(model, hot, &passes[1]));
  uint64_t resident = (uint64_t)hot->active_sm_count * hot->occupancy.blocks_per_sm;
  struct ts__l2_settings settings = {
      .capacity_bytes = (uint64_t)ts__constant(model, TS_TIMING_l2_capacity),
      .duplicated_bytes = (uint64_t)ts__constant(model, TS_TIMING_l2_duplicated),
      .concurrent_blocks =
          resident < record->block_count ? (uint32_t)resident : record->block_count,
      .capacity_spread = CAPACITY_SPREAD,
      .in_flight_accesses = IN_FLIGHT_ACCESSES,
      .sample_shift = sample_shift(record)};
  TS_TRY(ts__l2_run(model->ctx, &settings, blocks, record->block_count, passes, 2));
  take_totals(cold, &passes[0].totals);
  take_totals(hot, &passes[1].totals);
  add_turns(model, cold);
  add_turns(model, hot);
  add_foreign_lines(model, cold);
  return TS_OK;
}

static bool has_charged_spills(const struct ts_code *code) {
  for (uint32_t i = 0; i < code->insn_count; i++)
    if (code->insns[i].spilled_words) return true;
  return false;
}

/* Spills go to local memory. Only those of accumulators are modelled: of others the estimate is not
 * sure, and the time may be too short. */
static void tell_spills(struct ts_model_nv *model, const struct ts__plan *plan) {
  char message[256];
  if (!plan->registers_are_estimated || plan->code->spilled_words <= SURE_SPILL_WORDS) return;
  snprintf(message, sizeof message,
           "%s wants about %u registers a thread more than it can have: it spills%s",
           plan->record->function->name, plan->code->spilled_words,
           has_charged_spills(plan->code) ? "" : ", which takes longer than this time");
  struct ts_diag diag = {.code = TS_DIAG_TIME_SPILLS,
                         .message = message,
                         .function = plan->record->function->name,
                         .block = -1,
                         .warp = -1,
                         .lane = -1};
  ts_diag_add(model->ctx->diags, &diag);
}

enum ts_status ts__plan_make(struct ts_model_nv *model, const struct ts__launch_record *record,
                             struct ts__plan *hot, struct ts__plan *cold) {
  struct ts__plan plan = {.record = record, .code = record->function->code, .l2_load = 1};
  plan.registers_are_estimated = model->options.registers_per_thread == 0;
  plan.registers_per_thread = plan.registers_are_estimated ? plan.code->registers_per_thread
                                                           : model->options.registers_per_thread;
  tell_spills(model, &plan);
  TS_TRY(find_occupancy(model, &plan));
  TS_TRY(find_costs(model, &plan));
  TS_TRY(assign_blocks(model, &plan));
  find_sharing(model, &plan);
  TS_TRY(ts__find_contention(model, &plan));
  plan.clock_mhz = ts__least_load_clock(model, &plan);
  *hot = *cold = plan;
  hot->is_warm = true;
  return run_l2(model, hot, cold);
}
