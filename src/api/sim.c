/* The simulation's life, its machine, diagnostics and statistics. */
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define STATUS(name, exit_status, text)                                                            \
  _Static_assert((int)TS_RESULT_##name == (int)TS_##name, "results are the internal statuses");
#include "base/status.def"
#undef STATUS

#ifndef TS_VERSION_TEXT
#define TS_VERSION_TEXT "0.1.0"
#endif

const char *ts_version(void) { return TS_VERSION_TEXT; }

const char *ts_result_text(enum ts_result result) { return ts_status_text((enum ts_status)result); }

int ts_result_exit_status(enum ts_result result) { return ts_status_exit((enum ts_status)result); }

/* --- life */

static const struct ts_allocator *hooks_allocator(const struct ts_memory_hooks *hooks,
                                                  struct ts_allocator *storage) {
  if (!hooks || !hooks->resize) return &ts_allocator_libc;
  *storage = (struct ts_allocator){hooks->resize, hooks->user};
  return storage;
}

enum ts_result ts_sim_create(const struct ts_memory_hooks *hooks, struct ts_sim **out) {
  struct ts_allocator storage;
  const struct ts_allocator *allocator = hooks_allocator(hooks, &storage);
  if (!out) return TS_RESULT_BAD_ARGUMENT;
  *out = NULL;
  struct ts_sim *sim = allocator->resize(allocator->user, NULL, 0, sizeof *sim);
  if (!sim) return TS_RESULT_NO_MEMORY;
  memset(sim, 0, sizeof *sim);
  sim->allocator = *allocator;
  if (ts_diag_list_init(&sim->diags, &sim->allocator) != TS_OK) {
    allocator->resize(allocator->user, sim, sizeof *sim, 0);
    return TS_RESULT_NO_MEMORY;
  }
  sim->ctx = (struct ts_ctx){&sim->allocator, &sim->diags};
  ts_machine_default(&sim->machine);
  ts_arena_init(&sim->case_arena, &sim->allocator);
  ts_arena_init(&sim->run_arena, &sim->allocator);
  ts_device_memory_init(&sim->memory, &sim->allocator);
  *out = sim;
  return TS_RESULT_OK;
}

void ts_sim_free(struct ts_sim *sim) {
  if (!sim) return;
  ts__case_close(sim);
  ts_arena_free(&sim->case_arena);
  ts_arena_free(&sim->run_arena);
  ts_diag_list_free(&sim->diags);
  struct ts_allocator allocator = sim->allocator;
  allocator.resize(allocator.user, sim, sizeof *sim, 0);
}

void ts_sim_set_memory_limit(struct ts_sim *sim, uint64_t limit_bytes) {
  sim->memory_limit_bytes = limit_bytes;
}

uint64_t ts__memory_limit(const struct ts_sim *sim) {
  if (sim->memory_limit_bytes) return sim->memory_limit_bytes;
  long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return UINT64_C(1) << 33;
  return (uint64_t)pages / 4 * 3 * (uint64_t)page_bytes;
}

/* --- the machine */

enum ts_result ts_sim_set_machine(struct ts_sim *sim, const char *directory, const char *name) {
  struct ts_machine machine;
  if (!name || !*name)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_INPUT_MACHINE, "a machine needs a name");
  enum ts_status status =
      ts_machine_load(&sim->ctx, directory ? directory : "machines", name, &machine);
  if (status == TS_OK) sim->machine = machine;
  return ts__result(status);
}

struct row_listener {
  void (*take)(void *user, const struct ts_machine_row *row);
  void *user;
};

static void take_value(void *user, const struct ts_machine_value *value) {
  const struct row_listener *listener = user;
  struct ts_machine_row row = {value->key, value->value,  value->unit,
                               value->tag, value->source, value->meaning};
  listener->take(listener->user, &row);
}

enum ts_result ts_sim_list_machine(struct ts_sim *sim, const char *directory, const char *name,
                                   void (*take)(void *user, const struct ts_machine_row *row),
                                   void *user) {
  struct row_listener rows = {take, user};
  struct ts_machine_listener listener = {take_value, &rows};
  if (!name || !*name)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_INPUT_MACHINE, "a machine needs a name");
  return ts__result(ts_machine_describe(&sim->ctx, directory ? directory : "machines", name,
                                        &listener, &sim->machine));
}

const char *ts_machine_name(uint32_t index) { return ts_machine_built_in(index); }

void ts_sim_machine(const struct ts_sim *sim, struct ts_machine_info *info) {
  const struct ts_machine *machine = &sim->machine;
  *info = (struct ts_machine_info){
      .name = machine->name,
      .profile = machine->profile,
      .sm_count = machine->sm_count,
      .max_threads_per_block = machine->max_threads_per_block,
      .max_registers_per_thread = machine->max_registers_per_thread,
      .max_shared_bytes_per_block = machine->max_shared_bytes_per_block,
      .global_bytes = machine->global_bytes,
  };
}

/* --- diagnostics */

enum ts_result ts__sim_fail(struct ts_sim *sim, enum ts_status status, enum ts_diag_code code,
                            const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  return ts__result(ts_fail(&sim->ctx, status, code, TS_NO_PLACE, "%s", message));
}

uint32_t ts_sim_diagnostic_count(const struct ts_sim *sim) {
  return (uint32_t)sim->diags.items.count;
}

static const char *severity_text(enum ts_severity severity) {
  switch (severity) {
  case TS_SEVERITY_ERROR: return "error";
  case TS_SEVERITY_HAZARD: return "hazard";
  case TS_SEVERITY_REMARK: return "remark";
  }
  return "error";
}

enum ts_result ts_sim_diagnostic(const struct ts_sim *sim, uint32_t index,
                                 struct ts_diagnostic *diagnostic) {
  if (index >= sim->diags.items.count) return TS_RESULT_BAD_ARGUMENT;
  const struct ts_diag *item = &sim->diags.items.data[index];
  *diagnostic = (struct ts_diagnostic){
      .code = ts_diag_code_text(item->code),
      .title = ts_diag_code_title(item->code),
      .severity = severity_text(ts_diag_severity(item->code)),
      .message = item->message,
      .hint = item->hint,
      .file = item->place.file,
      .line = item->place.line,
      .column = item->place.column,
      .other_file = item->other.file,
      .other_line = item->other.line,
      .other_column = item->other.column,
      .function = item->function,
      .block = item->block,
      .warp = item->warp,
      .lane = item->lane,
      .repeat_count = item->repeat_count,
  };
  return TS_RESULT_OK;
}

uint64_t ts_sim_dropped_diagnostics(const struct ts_sim *sim) { return sim->diags.dropped_count; }

void ts_sim_clear_diagnostics(struct ts_sim *sim) {
  struct ts_diag_list *list = &sim->diags;
  ts_arena_free(&list->arena);
  ts_arena_init(&list->arena, &sim->allocator);
  list->items.count = 0;
  list->dropped_count = 0;
  list->out_of_memory = false;
}

/* --- statistics */

void ts_sim_statistics(const struct ts_sim *sim, struct ts_statistics *statistics) {
  const struct ts_run_stats *stats = &sim->stats;
  *statistics = (struct ts_statistics){
      .launches = sim->plan.launch_count,
      .blocks = stats->block_count,
      .warps = stats->warp_count,
      .lane_ops = stats->lane_op_count,
      .matrix_macs = stats->mac_count,
      .tma_boxes = stats->tma_box_count,
      .tma_bytes = stats->tma_bytes,
  };
  for (uint32_t i = 0; i < TS_OP_COUNT; i++)
    statistics->warp_insns += stats->op_count[i];
  for (uint32_t i = 0; sim->has_run && i < sim->parameter_count; i++) {
    if (sim->parameters[i].tvm->is_tensor)
      statistics->tensor_bytes += sim->parameters[i].tensor.size_bytes;
  }
}

uint64_t ts_sim_op_executed(const struct ts_sim *sim, uint32_t op) {
  return op < TS_OP_COUNT ? sim->stats.op_count[op] : 0;
}

uint32_t ts_op_row_count(void) { return TS_OP_COUNT; }

int ts_op_row_get(uint32_t index, struct ts_op_row *row) {
  static const char *const units[] = {
#define OP(name, mnemonic, stratum, unit, has_dst, operands, flags, synopsis) #unit,
#include "ir/op.def"
#undef OP
  };
  if (index >= TS_OP_COUNT) return 0;
  const struct ts_op_info *info = ts_op_info((enum ts_op)index);
  *row = (struct ts_op_row){info->mnemonic, units[index], info->operands, info->synopsis};
  return 1;
}
