/* From the simulated SM to the chip: roles, utilisation, roofline, bank conflicts. */
#include "model_nv/model_nv_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- roles */

static bool same_way(const struct ts__stream *stream, uint32_t a, uint32_t b) {
  const struct ts__warp_ops *x = &stream->warps[a], *y = &stream->warps[b];
  if (x->count != y->count) return false;
  for (uint32_t i = 0; i < x->count; i++)
    if (stream->ops[x->first + i].insn != stream->ops[y->first + i].insn) return false;
  return true;
}

static bool has_kind(const struct ts__stream *stream, uint32_t warp, enum ts__op_kind a,
                     enum ts__op_kind b) {
  for (uint32_t i = 0; i < stream->warps[warp].count; i++) {
    uint8_t kind = stream->ops[stream->warps[warp].first + i].kind;
    if (kind == a || kind == b) return true;
  }
  return false;
}

static void name_role(const struct ts__stream *stream, struct ts_role_report *role,
                      bool is_specialised) {
  uint32_t first = role->first_warp, last = first + role->warp_count - 1;
  const char *what = "warps";
  if (is_specialised && has_kind(stream, first, TS__OP_WGMMA, TS__OP_MMA))
    what = "consumer";
  else if (is_specialised && has_kind(stream, first, TS__OP_COPY, TS__OP_TCGEN05))
    what = "producer";
  if (first == last)
    snprintf(role->name, sizeof role->name, "%s w%u", what, first);
  else
    snprintf(role->name, sizeof role->name, "%s w%u-%u", what, first, last);
}

static void add_warp(struct ts_role_report *role, const struct ts__role_sum *sum, double blocks) {
  role->issue_cycles += sum->issue_cycles / blocks;
  for (uint32_t s = 0; s < TS_STALL_COUNT; s++)
    role->stall_cycles[s] += sum->stall_cycles[s] / blocks;
}

static void find_roles(const struct ts__plan *plan, const struct ts__sm_result *result,
                       struct ts_launch_report *report) {
  const struct ts__launch_record *record = plan->record;
  const struct ts__stream *stream =
      &record->streams.data[record->blocks[plan->sm_blocks[0]].stream];
  double blocks = plan->sm_block_count;
  for (uint32_t w = 0; w < stream->warp_count && w < result->warp_count; w++) {
    bool is_new = w == 0 || !same_way(stream, w - 1, w);
    if (is_new && report->role_count < TS_ROLE_LIMIT)
      report->roles[report->role_count++] = (struct ts_role_report){.first_warp = w};
    struct ts_role_report *role = &report->roles[report->role_count - 1];
    role->warp_count++;
    add_warp(role, &result->warps[w], blocks);
  }
  for (uint32_t r = 0; r < report->role_count; r++) {
    struct ts_role_report *role = &report->roles[r];
    role->issue_cycles /= role->warp_count;
    for (uint32_t s = 0; s < TS_STALL_COUNT; s++)
      role->stall_cycles[s] /= role->warp_count;
    name_role(stream, role, report->role_count > 1);
  }
}

/* --- bank conflicts, worst first */

static void add_bank_row(struct ts_launch_report *report, const struct ts_bank_row *row) {
  double excess = (row->wavefronts - row->ideal_wavefronts) * (double)row->access_count;
  uint32_t at = report->bank_count < TS_BANK_ROW_LIMIT ? report->bank_count : TS_BANK_ROW_LIMIT;
  while (at > 0) {
    const struct ts_bank_row *above = &report->banks[at - 1];
    double above_excess =
        (above->wavefronts - above->ideal_wavefronts) * (double)above->access_count;
    if (above_excess >= excess) break;
    if (at < TS_BANK_ROW_LIMIT) report->banks[at] = *above;
    at--;
  }
  if (at < TS_BANK_ROW_LIMIT) report->banks[at] = *row;
  if (report->bank_count < TS_BANK_ROW_LIMIT) report->bank_count++;
}

static void find_banks(const struct ts__plan *plan, const struct ts__sm_result *result,
                       struct ts_launch_report *report) {
  for (uint32_t i = 0; i < plan->code->insn_count; i++) {
    if (result->bank_accesses[i] == 0) continue;
    double count = (double)result->bank_accesses[i];
    struct ts_bank_row row = {.insn = i,
                              .place = plan->record->function->places[i],
                              .op = plan->code->insns[i].op,
                              .access_count = result->bank_accesses[i],
                              .wavefronts = (double)result->bank_wavefronts[i] / count,
                              .ideal_wavefronts = (double)result->bank_ideal[i] / count};
    add_bank_row(report, &row);
  }
}

/* --- the chip */

/* Multiply-adds of 16-bit operands per cycle and SM, by the fastest matrix unit of the machine. */
static double peak_macs(const struct ts_model_nv *model) {
  double macs = TS__SUB_PARTITIONS * ts__constant(model, TS_TIMING_mma_macs_per_cycle);
  macs = fmax(macs, ts__constant(model, TS_TIMING_wgmma_macs_per_cycle)); /* fmax passes over NaN */
  return fmax(macs, ts__constant(model, TS_TIMING_tcgen05_macs_per_cycle));
}

static void find_work(struct ts_model_nv *model, const struct ts__plan *plan,
                      struct ts_launch_report *report) {
  const struct ts__launch_record *record = plan->record;
  const struct ts__l2_totals *totals = &plan->totals;
  double half_flop = 0; /* of 16-bit operands, in the time that these take at the peak */
  for (uint32_t b = 0; b < record->block_count; b++) {
    const struct ts__stream *stream = &record->streams.data[record->blocks[b].stream];
    report->flop += stream->flop;
    half_flop += stream->flop - 2 * stream->mac_count + 2 * stream->half_mac_count;
  }
  report->l2_bytes = (double)(totals->read_sectors + totals->write_sectors) * TS__SECTOR_BYTES;
  report->dram_bytes =
      (double)(totals->dram_read_sectors + totals->dram_write_sectors) * TS__SECTOR_BYTES;
  if (totals->read_sectors)
    report->l2_hit_rate = 1 - (double)totals->dram_read_sectors / (double)totals->read_sectors;
  double seconds = report->kernel_us * 1e-6, clock = ts__constant(model, TS_TIMING_sm_clock) * 1e6;
  double peak = 2 * peak_macs(model) * clock * model->machine->sm_count;
  if (half_flop > 0) peak *= report->flop / half_flop;
  double footprint = (double)totals->footprint_bytes;
  double bandwidth = ts__constant(model, TS_TIMING_dram_read_bytes_per_us) * 1e6;
  report->peak_flop_share = seconds > 0 ? report->flop / seconds / peak : 0;
  report->intensity_flop_per_byte = footprint > 0 ? report->flop / footprint : 0;
  double bound = report->intensity_flop_per_byte * bandwidth / peak;
  report->roofline_flop_share = footprint > 0 && bound < 1 ? bound : 1;
}

static void find_utilisation(const struct ts__plan *plan, const struct ts__sm_result *result,
                             struct ts_launch_report *report) {
  /* The other SMs do the same but for blocks that the first SM has more. */
  double blocks =
      (double)plan->record->block_count / ((double)plan->sm_block_count * plan->active_sm_count);
  report->limiting_unit = TS_MODEL_UNIT_ISSUE;
  for (uint32_t u = TS_MODEL_UNIT_ISSUE; u < TS_MODEL_UNIT_COUNT; u++) {
    double share = report->cycles > 0 ? result->busy[u] * blocks / report->cycles : 0;
    report->utilisation[u] = share < 1 ? share : 1;
    if (report->utilisation[u] > report->utilisation[report->limiting_unit])
      report->limiting_unit = (enum ts_model_unit)u;
  }
}

enum ts_status ts__report_launch(struct ts_model_nv *model, const struct ts__plan *plan,
                                 const struct ts__sm_result *result,
                                 struct ts_launch_report *report) {
  const struct ts__launch_record *record = plan->record;
  const uint32_t *block = record->launch->block;
  double clock_mhz = ts__clock_mhz(model, plan, result);
  uint64_t slots = (uint64_t)model->machine->sm_count * plan->occupancy.blocks_per_sm;
  *report = (struct ts_launch_report){
      .function = record->function->name,
      .block_count = record->block_count,
      .blocks_per_sm = plan->occupancy.blocks_per_sm,
      .registers_per_thread = plan->registers_per_thread,
      .registers_are_estimated = plan->registers_are_estimated,
      .threads_per_block = block[0] * block[1] * block[2],
      .shared_bytes = record->launch->dynamic_shared_bytes + plan->code->static_shared_bytes,
      .occupancy_limit = ts_resource_name(plan->occupancy.limit),
      .wave_count = (double)record->block_count / (double)slots,
      .cycles = result->end_cycle,
      .kernel_us = result->end_cycle / clock_mhz,
      .clock_mhz = clock_mhz,
      .prologue_cycles = result->first_wait_end,
      .steady_cycles = result->last_loop_end > result->first_wait_end
                           ? result->last_loop_end - result->first_wait_end
                           : 0,
      .epilogue_cycles =
          fmax(0, result->first_block_end - fmax(result->last_loop_end, result->first_wait_end)),
      .event_count = record->event_count,
      .simulated_block_count = plan->sm_block_count};
  find_work(model, plan, report);
  find_utilisation(plan, result, report);
  find_roles(plan, result, report);
  find_banks(plan, result, report);
  return TS_OK;
}
