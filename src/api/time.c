/* Timing: a run's events go to the model of the machine, its report to the caller. */
#include "api/api_priv.h"

#include "model_nv/model_nv.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)TS_MODEL_UNIT_COUNT <= (int)TS_TIME_UNITS, "units fit");
_Static_assert((int)TS_STALL_COUNT <= (int)TS_TIME_STALLS, "stalls fit");
_Static_assert((int)TS_ROLE_LIMIT == (int)TS_TIME_ROLES, "roles fit");
_Static_assert((int)TS_BANK_ROW_LIMIT == (int)TS_TIME_BANKS, "bank rows fit");

/* --- the report in public words */

/* A copy that lives as long as the run; *failed becomes true when memory is short. */
static const char *keep(struct ts_sim *sim, const char *text, bool *failed) {
  if (!text) return NULL;
  const char *copy = ts_arena_copy(&sim->run_arena, text, strlen(text));
  *failed |= copy == NULL;
  return copy;
}

static int compare_shares(const void *a, const void *b) {
  const struct ts_time_share *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  return strcmp(x->name, y->name);
}

static void copy_role(struct ts_sim *sim, const struct ts_role_report *from,
                      struct ts_time_role *to, bool *failed) {
  *to = (struct ts_time_role){.name = keep(sim, from->name, failed),
                              .first_warp = from->first_warp,
                              .warp_count = from->warp_count,
                              .issue_cycles = from->issue_cycles};
  for (uint32_t s = 0; s < TS_STALL_COUNT; s++)
    if (from->stall_cycles[s] > 0)
      to->stalls[to->stall_count++] =
          (struct ts_time_share){ts_stall_text((enum ts_stall)s), from->stall_cycles[s]};
  qsort(to->stalls, to->stall_count, sizeof *to->stalls, compare_shares);
}

static void copy_launch(struct ts_sim *sim, const struct ts_launch_report *from,
                        struct ts_time_launch *to, bool *failed) {
  *to = (struct ts_time_launch){.function = keep(sim, from->function, failed),
                                .block_count = from->block_count,
                                .simulated_block_count = from->simulated_block_count,
                                .event_count = from->event_count,
                                .blocks_per_sm = from->blocks_per_sm,
                                .registers_per_thread = from->registers_per_thread,
                                .threads_per_block = from->threads_per_block,
                                .registers_are_estimated = from->registers_are_estimated,
                                .shared_bytes = from->shared_bytes,
                                .occupancy_limit = from->occupancy_limit,
                                .wave_count = from->wave_count,
                                .cycles = from->cycles,
                                .kernel_us = from->kernel_us,
                                .cold_us = from->cold_us,
                                .clock_mhz = from->clock_mhz,
                                .prologue_cycles = from->prologue_cycles,
                                .steady_cycles = from->steady_cycles,
                                .epilogue_cycles = from->epilogue_cycles,
                                .limiting_unit = ts_model_unit_text(from->limiting_unit),
                                .flop = from->flop,
                                .l2_bytes = from->l2_bytes,
                                .dram_bytes = from->dram_bytes,
                                .l2_hit_rate = from->l2_hit_rate,
                                .peak_flop_share = from->peak_flop_share,
                                .intensity_flop_per_byte = from->intensity_flop_per_byte,
                                .roofline_flop_share = from->roofline_flop_share,
                                .role_count = from->role_count,
                                .bank_count = from->bank_count};
  for (uint32_t u = TS_MODEL_UNIT_ISSUE; u < TS_MODEL_UNIT_COUNT; u++)
    to->units[to->unit_count++] =
        (struct ts_time_share){ts_model_unit_text((enum ts_model_unit)u), from->utilisation[u]};
  for (uint32_t r = 0; r < from->role_count; r++)
    copy_role(sim, &from->roles[r], &to->roles[r], failed);
  for (uint32_t b = 0; b < from->bank_count; b++)
    to->banks[b] = (struct ts_time_bank){ts_op_info((enum ts_op)from->banks[b].op)->mnemonic,
                                         keep(sim, from->banks[b].place.file, failed),
                                         from->banks[b].place.line,
                                         from->banks[b].insn,
                                         from->banks[b].access_count,
                                         from->banks[b].wavefronts,
                                         from->banks[b].ideal_wavefronts};
}

static enum ts_status copy_report(struct ts_sim *sim, const struct ts_time_report *from,
                                  const struct ts_time **time) {
  struct ts_time *to = ts_new(&sim->run_arena, struct ts_time);
  struct ts_time_launch *launches =
      ts_new_array(&sim->run_arena, struct ts_time_launch, from->launch_count + 1);
  const char **unverified = ts_new_array(&sim->run_arena, const char *, from->unverified_count + 1);
  bool failed = false;
  if (!to || !launches || !unverified) return ts_fail_memory(&sim->ctx);
  for (uint32_t i = 0; i < from->launch_count; i++)
    copy_launch(sim, &from->launches[i], &launches[i], &failed);
  for (uint32_t i = 0; i < from->unverified_count; i++)
    unverified[i] = keep(sim, from->unverified[i], &failed);
  *to = (struct ts_time){.machine = keep(sim, from->machine, &failed),
                         .clock_mhz = from->clock_mhz,
                         .kernel_us = from->kernel_us,
                         .kernel_us_cold = from->kernel_us_cold,
                         .launch_us = from->launch_us,
                         .cycles = from->cycles,
                         .uncertainty = from->uncertainty,
                         .unverified = unverified,
                         .unverified_count = from->unverified_count,
                         .launches = launches,
                         .launch_count = from->launch_count};
  if (failed) return ts_fail_memory(&sim->ctx);
  *time = to;
  return TS_OK;
}

/* --- running */

static enum ts_status feed_live(struct ts_sim *sim, const struct ts_time_settings *settings,
                                struct ts_sink *sink) {
  struct ts_run_options options = {.machine = &sim->machine,
                                   .schedule = TS_SCHEDULE_EAGER,
                                   .worker_count = 1,
                                   .sink = sink,
                                   .addresses_only = sim->addresses_only,
                                   .progress = settings->progress,
                                   .progress_user = settings->progress_user};
  return ts_interp_run(&sim->ctx, ts_tvm_module(sim->tvm), &sim->plan, &sim->memory, &options,
                       &sim->stats);
}

static enum ts_status time_program(struct ts_sim *sim, const struct ts_time_settings *settings,
                                   const struct ts_trace_program *program,
                                   struct ts_trace_reader *reader, const struct ts_time **time) {
  struct ts_model_nv_options options = {.machine = &sim->machine,
                                        .registers_per_thread = settings->registers_per_thread};
  struct ts_model_nv *model;
  struct ts__span_writer *spans;
  const struct ts_time_report *report;
  TS_TRY(ts__span_writer_open(&sim->ctx, settings, &sim->machine, program, &spans));
  options.spans = ts__span_writer_sink(spans);
  enum ts_status status = ts_model_nv_open(&sim->ctx, &options, program, &model);
  struct ts_sink *sink = status == TS_OK ? ts_model_nv_sink(model) : NULL;
  if (status == TS_OK)
    status = reader ? ts_trace_replay(&sim->ctx, reader, sink) : feed_live(sim, settings, sink);
  if (status == TS_OK) status = ts_model_nv_finish(model, &report);
  if (status == TS_OK) status = copy_report(sim, report, time);
  ts_model_nv_close(model);
  enum ts_status closed = ts__span_writer_close(spans, status == TS_OK);
  if (closed == TS_OK) return status;
  *time = NULL;
  return closed;
}

static enum ts_status time_file(struct ts_sim *sim, const struct ts_time_settings *settings,
                                const struct ts_time **time) {
  struct ts_trace_reader *reader;
  TS_TRY(ts_trace_reader_open(&sim->ctx, settings->events_path, &reader));
  enum ts_status status =
      time_program(sim, settings, ts_trace_reader_program(reader), reader, time);
  ts_trace_reader_close(reader);
  return status;
}

enum ts_result ts_sim_time(struct ts_sim *sim, const struct ts_time_settings *settings,
                           const struct ts_time **time) {
  static const struct ts_time_settings defaults;
  struct ts_trace_program program;
  if (!settings) settings = &defaults;
  *time = NULL;
  ts__run_clear(sim);
  if (settings->events_path) return ts__result(time_file(sim, settings, time));
  if (!sim->tvm) return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING, "no case is open");
  sim->addresses_only = !settings->full_run;
  TS__TRY_RESULT(ts__prepare_run(sim));
  TS__TRY_RESULT(ts__result(ts__describe_program(sim, &program)));
  return ts__result(time_program(sim, settings, &program, NULL, time));
}
