/* Opening, finishing and closing a model. */
#include "model_nv/model_nv_priv.h"

#include <string.h>

/* What a model cannot do without: constants, and the code tables of the functions. */
static enum ts_status check_inputs(struct ts_model_nv *model) {
  for (uint32_t i = 0; i < model->program->launch_count; i++) {
    const struct ts_trace_function *function =
        &model->program->functions[model->program->launches[i].function];
    if (!function->code)
      return ts_fail(model->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, TS_NO_PLACE,
                     "the events of %s come without a code table; timing needs it", function->name);
  }
  return ts__check_constants(model);
}

enum ts_status ts_model_nv_open(struct ts_ctx *ctx, const struct ts_model_nv_options *options,
                                const struct ts_trace_program *program,
                                struct ts_model_nv **model) {
  struct ts_model_nv *fresh = ctx->allocator->resize(ctx->allocator->user, NULL, 0, sizeof *fresh);
  *model = NULL;
  if (!fresh) return ts_fail_memory(ctx);
  *fresh = (struct ts_model_nv){
      .ctx = ctx, .machine = options->machine, .options = *options, .program = program};
  ts_arena_init(&fresh->arena, ctx->allocator);
  enum ts_status status = check_inputs(fresh);
  if (status == TS_OK) status = ts__recorder_new(fresh);
  if (status == TS_OK)
    *model = fresh;
  else
    ts_model_nv_close(fresh);
  return status;
}

struct ts_sink *ts_model_nv_sink(struct ts_model_nv *model) {
  return &model->sink;
}

void ts_model_nv_close(struct ts_model_nv *model) {
  if (!model) return;
  const struct ts_allocator *allocator = model->ctx->allocator;
  ts__recorder_free(model);
  ts_arena_free(&model->arena);
  allocator->resize(allocator->user, model, sizeof *model, 0);
}

enum { LOAD_ROUNDS = 3 };
#define LEAST_LOAD 0.1

/* One SM's way, the others' use of L2 taken from its own: SMs that go through several waves read at
 * different times, so one that reads has more than the mean share. */
static enum ts_status run_sm(struct ts_model_nv *model, struct ts__plan *plan, uint16_t index,
                             struct ts_span_sink *spans, struct ts_arena *arena,
                             struct ts__sm_result *result) {
  uint64_t resident = (uint64_t)plan->active_sm_count * plan->occupancy.blocks_per_sm;
  bool has_waves = plan->record->block_count > resident;
  for (int round = 0; has_waves && round < LOAD_ROUNDS; round++) {
    TS_TRY(ts__sm_run(model, plan, index, NULL, arena, result));
    double load = result->l2_read_cycles / plan->l2_load / result->end_cycle;
    plan->l2_load = load > 1 ? 1 : load > LEAST_LOAD ? load : LEAST_LOAD;
    ts_arena_free(arena);
  }
  return ts__sm_run(model, plan, index, spans, arena, result);
}

/* Hot, with spans and the report, then cold for its end alone. */
static enum ts_status time_launch(struct ts_model_nv *model, uint32_t index,
                                  struct ts_launch_report *report) {
  struct ts__sm_result hot, cold;
  struct ts__plan plan, cold_plan;
  struct ts_arena arena;
  const struct ts__launch_record *record = &model->launches[index];
  if (record->block_count == 0) return TS_OK;
  ts_arena_init(&arena, model->ctx->allocator);
  enum ts_status status = ts__plan_make(model, record, &plan, &cold_plan);
  if (status == TS_OK)
    status = run_sm(model, &plan, (uint16_t)index, model->options.spans, &arena, &hot);
  if (status == TS_OK) status = ts__report_launch(model, &plan, &hot, report);
  if (status == TS_OK) {
    ts_arena_free(&arena);
    status = run_sm(model, &cold_plan, (uint16_t)index, NULL, &arena, &cold);
  }
  if (status == TS_OK) report->cold_us = cold.end_cycle / ts__clock_mhz(model, &cold_plan, &cold);
  ts_arena_free(&arena);
  return status;
}

enum ts_status ts_model_nv_finish(struct ts_model_nv *model, const struct ts_time_report **report) {
  uint32_t count = model->program->launch_count;
  struct ts_launch_report *launches =
      ts_new_array(&model->arena, struct ts_launch_report, count + 1);
  struct ts_time_report *sum = &model->report;
  if (!launches) return ts_fail_memory(model->ctx);
  *sum = (struct ts_time_report){.clock_mhz = ts__constant(model, TS_TIMING_sm_clock),
                                 .uncertainty = ts__constant(model, TS_TIMING_model_uncertainty),
                                 .unverified = model->unverified,
                                 .unverified_count = model->unverified_count,
                                 .launches = launches,
                                 .launch_count = count};
  memcpy(sum->machine, model->machine->name, sizeof sum->machine);
  for (uint32_t i = 0; i < count; i++) {
    TS_TRY(time_launch(model, i, &launches[i]));
    sum->launch_us += ts__constant(model, TS_TIMING_launch_us);
    sum->cycles += launches[i].cycles;
    sum->kernel_us += launches[i].kernel_us + ts__constant(model, TS_TIMING_launch_us);
    /* Only the first of several launches finds the caches cold. */
    sum->kernel_us_cold += i == 0
                               ? launches[i].cold_us + ts__constant(model, TS_TIMING_launch_cold_us)
                               : launches[i].kernel_us + ts__constant(model, TS_TIMING_launch_us);
  }
  *report = sum;
  return TS_OK;
}
