/* A run: arguments become device memory, the host function a plan, the plan is executed. */
#include "api/api_priv.h"
#include "ir/slice.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORKERS = 256, OUTPUT_FILL = 0xA5, MAX_EXPLORED = 10000 };

void ts__run_clear(struct ts_sim *sim) {
  ts_device_memory_free(&sim->memory);
  ts_device_memory_init(&sim->memory, &sim->allocator);
  ts_arena_free(&sim->run_arena);
  ts_arena_init(&sim->run_arena, &sim->allocator);
  ts_vec_free(&sim->fidelity.rows, &sim->allocator);
  memset(&sim->plan, 0, sizeof sim->plan);
  memset(&sim->stats, 0, sizeof sim->stats);
  sim->has_run = false;
  sim->addresses_only = false;
  sim->has_fidelity = false;
}

/* --- arguments */

/* The argument in force: the user's, else launch.json's, else a fill for outputs. */
static const struct ts__argument *effective_argument(const struct ts__parameter *parameter,
                                                     struct ts__argument *fallback) {
  if (parameter->argument.kind != TS__ARGUMENT_NONE) return &parameter->argument;
  if (parameter->default_argument.kind != TS__ARGUMENT_NONE) return &parameter->default_argument;
  if (!parameter->tvm->is_tensor || ts__parameter_role(parameter) != TS_ROLE_OUT) return NULL;
  *fallback = (struct ts__argument){.kind = TS__ARGUMENT_INIT,
                                    .dtype = parameter->tvm->dtype,
                                    .init = {.kind = TS__INIT_FILL, .a = OUTPUT_FILL}};
  return fallback;
}

/* The extent that a run-time symbol has in the arguments that the user gave: as a scalar of that
 * name, or in a shape. */
static bool find_symbol(const struct ts_sim *sim, const char *symbol, int64_t *extent) {
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    const struct ts__argument *argument = &sim->parameters[i].argument;
    const struct ts_tvm_param *tvm = sim->parameters[i].tvm;
    if (argument->kind == TS__ARGUMENT_SCALAR && strcmp(tvm->name, symbol) == 0) {
      *extent = (int64_t)argument->scalar;
      return !argument->scalar_is_float;
    }
    if (!argument->has_shape || argument->rank != tvm->rank) continue;
    for (uint32_t d = 0; d < tvm->rank; d++) {
      if (!tvm->symbol[d] || strcmp(tvm->symbol[d], symbol) != 0) continue;
      *extent = argument->shape[d];
      return true;
    }
  }
  return false;
}

/* A shape that the user did not give: the symbols that other arguments fix, then launch.json's
 * extents, then the static ones. */
static enum ts_result complete_shape(struct ts_sim *sim, const struct ts__parameter *parameter,
                                     struct ts__tensor *tensor) {
  const struct ts_tvm_param *tvm = parameter->tvm;
  const struct ts__argument *stated = &parameter->default_argument;
  bool has_stated = stated->has_shape && stated->rank == tvm->rank;
  tensor->rank = tvm->rank;
  for (uint32_t d = 0; d < tvm->rank; d++) {
    const char *symbol = tvm->shape[d] < 0 ? tvm->symbol[d] : NULL;
    if (symbol && find_symbol(sim, symbol, &tensor->shape[d])) continue;
    tensor->shape[d] = has_stated ? stated->shape[d] : tvm->shape[d];
    if (tensor->shape[d] >= 0) continue;
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                        "tensor %s: dimension %u (%s) is known only at run time; give the "
                        "tensor from memory or a file, or write init:MODE:SEED@AxBx..",
                        tvm->name, d, symbol ? symbol : "?");
  }
  return TS_RESULT_OK;
}

/* TileLang's host functions want strides even of compact tensors, as torch's DLPack gives them. */
static void compact_strides(struct ts__tensor *tensor) {
  uint64_t stride = 1; /* wraps only where the shape is refused afterwards */
  for (uint32_t d = tensor->rank; d-- > 0;) {
    tensor->strides[d] = (int64_t)stride;
    stride *= tensor->shape[d] > 1 ? (uint64_t)tensor->shape[d] : 1;
  }
}

/* Fills parameter->tensor, without memory yet, and adds its bytes to the total. */
static enum ts_result resolve_tensor(struct ts_sim *sim, struct ts__parameter *parameter,
                                     const struct ts__argument *argument, uint64_t *total_bytes) {
  struct ts__tensor *tensor = &parameter->tensor;
  uint64_t span, limit_bytes = ts__memory_limit(sim);
  *tensor = (struct ts__tensor){.dtype = argument->dtype,
                                .is_null = argument->kind == TS__ARGUMENT_NULL,
                                .has_strides = argument->has_strides};
  if (tensor->is_null) return TS_RESULT_OK;
  if (argument->has_shape && argument == &parameter->argument) {
    tensor->rank = argument->rank;
    memcpy(tensor->shape, argument->shape, sizeof tensor->shape);
    memcpy(tensor->strides, argument->strides, sizeof tensor->strides);
  } else {
    TS__TRY_RESULT(complete_shape(sim, parameter, tensor));
  }
  const int64_t *strides = tensor->has_strides ? tensor->strides : NULL;
  if (!tensor->has_strides) compact_strides(tensor);
  if (!ts__shape_count(tensor->rank, tensor->shape, &tensor->elem_count) ||
      !ts__shape_span(tensor->rank, tensor->shape, strides, &span))
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                        "tensor %s: the shape is too large", parameter->tvm->name);
  tensor->size_bytes = ts_dtype_packed_bytes(tensor->dtype, span);
  *total_bytes += tensor->size_bytes;
  if (sim->addresses_only) return TS_RESULT_OK; /* hardly any tensor gets memory */
  if (tensor->size_bytes <= limit_bytes && *total_bytes <= limit_bytes) return TS_RESULT_OK;
  return ts__sim_fail(sim, TS_LIMIT, TS_DIAG_LIMIT,
                      "the tensors up to %s need %llu bytes; the memory limit is %llu",
                      parameter->tvm->name, (unsigned long long)*total_bytes,
                      (unsigned long long)limit_bytes);
}

static enum ts_result resolve_scalar(struct ts_sim *sim, const struct ts__parameter *parameter,
                                     const struct ts__argument *argument, uint64_t *scalar) {
  double value;
  bool wants_float = ts_dtype_is_float(parameter->tvm->dtype);
  *scalar = argument->scalar;
  if (wants_float == argument->scalar_is_float) return TS_RESULT_OK;
  if (wants_float) {
    value = (double)(int64_t)argument->scalar;
    memcpy(scalar, &value, sizeof value);
    return TS_RESULT_OK;
  }
  memcpy(&value, &argument->scalar, sizeof value);
  return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                      "scalar %s is an integer (%s), not %g", parameter->tvm->name,
                      ts_dtype_name(parameter->tvm->dtype), value);
}

static enum ts_result fail_missing(struct ts_sim *sim, const struct ts__parameter *parameter) {
  const char *name = parameter->tvm->name;
  if (!parameter->tvm->is_tensor)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
                        "no argument for scalar %s: give a number", name);
  return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
                      "no argument for tensor %s, and the case has no launch.json that states "
                      "one: give a .npy file or init:MODE:SEED",
                      name);
}

static enum ts_result resolve_arguments(struct ts_sim *sim, struct ts_tvm_argument *arguments) {
  uint64_t total_bytes = 0;
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    struct ts__parameter *parameter = &sim->parameters[i];
    struct ts__argument fallback;
    const struct ts__argument *argument = effective_argument(parameter, &fallback);
    if (!argument) return fail_missing(sim, parameter);
    if (parameter->tvm->is_tensor)
      TS__TRY_RESULT(resolve_tensor(sim, parameter, argument, &total_bytes));
    else
      TS__TRY_RESULT(resolve_scalar(sim, parameter, argument, &arguments[i].scalar));
  }
  return TS_RESULT_OK;
}

/* Addresses only: contents come when it is known who needs them. */
static enum ts_status allocate_tensor(struct ts_sim *sim, const char *name,
                                      struct ts__tensor *tensor) {
  enum ts_dtype dtype = (enum ts_dtype)tensor->dtype;
  if (sim->addresses_only)
    return ts_device_reserve(&sim->ctx, &sim->memory, name, dtype, tensor->size_bytes,
                             &tensor->address);
  return ts_device_allocate(&sim->ctx, &sim->memory, name, dtype, tensor->size_bytes,
                            &tensor->address);
}

static enum ts_status allocate_tensors(struct ts_sim *sim, struct ts_tvm_argument *arguments) {
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    struct ts__tensor *tensor = &sim->parameters[i].tensor;
    const struct ts_tvm_param *tvm = sim->parameters[i].tvm;
    if (!tvm->is_tensor) continue;
    arguments[i].is_null = tensor->is_null;
    if (tensor->is_null) continue;
    TS_TRY(allocate_tensor(sim, tvm->name, tensor));
    arguments[i].tensor = (struct ts_tensor_argument){.name = tvm->name,
                                                      .dtype = tensor->dtype,
                                                      .rank = tensor->rank,
                                                      .shape = tensor->shape,
                                                      .strides = tensor->strides,
                                                      .address = tensor->address};
  }
  return TS_OK;
}

/* An address-only run needs contents of those tensors that control flow or addresses depend on. */
static enum ts_status back_tensors(struct ts_sim *sim) {
  struct ts_slice *slices;
  const uint64_t *tensors;
  uint32_t count;
  if (!sim->addresses_only) return TS_OK;
  TS_TRY(ts_slice_plan(&sim->ctx, ts_tvm_module(sim->tvm), &sim->plan, &sim->run_arena, &slices,
                       &tensors, &count));
  uint64_t total_bytes = 0, limit_bytes = ts__memory_limit(sim);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t index = tensors[i] >> TS_ADDRESS_SHIFT;
    total_bytes += sim->memory.allocations.data[index].size_bytes;
    if (total_bytes > limit_bytes)
      return ts_fail(
          &sim->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
          "the tensors that addresses depend on need %llu bytes; the memory limit is %llu",
          (unsigned long long)total_bytes, (unsigned long long)limit_bytes);
    TS_TRY(ts_device_back(&sim->ctx, &sim->memory, tensors[i]));
  }
  return TS_OK;
}

static enum ts_result fill_tensors(struct ts_sim *sim) {
  TS__TRY_RESULT(ts__result(back_tensors(sim)));
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    struct ts__parameter *parameter = &sim->parameters[i];
    const struct ts__tensor *tensor = &parameter->tensor;
    struct ts__argument fallback;
    const struct ts__argument *argument = effective_argument(parameter, &fallback);
    if (!parameter->tvm->is_tensor || tensor->size_bytes == 0) continue;
    uint8_t *data = ts_device_pointer(&sim->memory, tensor->address, tensor->size_bytes);
    if (!data) continue; /* nobody needs contents */
    enum ts_dtype dtype = (enum ts_dtype)tensor->dtype;
    if (argument == &fallback)
      sim->memory.allocations.data[tensor->address >> TS_ADDRESS_SHIFT].is_unset = true;
    if (argument->kind == TS__ARGUMENT_MEMORY)
      memcpy(data, argument->data, (size_t)tensor->size_bytes);
    else if (!ts__init_fill(&argument->init, argument->seed, dtype, tensor->elem_count, data))
      return ts__sim_fail(sim, TS_UNSUPPORTED, TS_DIAG_ARG_SHAPE,
                          "tensor %s: this way of filling is not defined for %s",
                          parameter->tvm->name, ts_dtype_name(dtype));
  }
  return TS_RESULT_OK;
}

/* --- events */

static enum ts_status describe_function(struct ts_sim *sim, const struct ts_function *function,
                                        struct ts_trace_function *out) {
  uint32_t count = (uint32_t)function->insns.count;
  struct ts_source_place *places =
      ts_new_array(&sim->run_arena, struct ts_source_place, count ? count : 1);
  uint16_t *ops = ts_new_array(&sim->run_arena, uint16_t, count ? count : 1);
  if (!places || !ops) return ts_fail_memory(&sim->ctx);
  for (uint32_t i = 0; i < count; i++) {
    places[i] = ts_insn_place(function, i);
    ops[i] = function->insns.data[i].op;
  }
  struct ts_code *code = ts_new(&sim->run_arena, struct ts_code);
  if (!code) return ts_fail_memory(&sim->ctx);
  TS_TRY(ts_code_estimate(&sim->ctx, function, &sim->run_arena, code));
  *out = (struct ts_trace_function){function->name, count, places, ops, code};
  return TS_OK;
}

static uint32_t function_index(const struct ts_module *module, const char *name) {
  for (uint32_t i = 0; i < module->functions.count; i++) {
    if (strcmp(module->functions.data[i]->name, name) == 0) return i;
  }
  return 0; /* the interpreter refuses the launch */
}

enum ts_status ts__describe_program(struct ts_sim *sim, struct ts_trace_program *program) {
  const struct ts_module *module = ts_tvm_module(sim->tvm);
  uint32_t function_count = (uint32_t)module->functions.count;
  uint32_t launch_count = sim->plan.launch_count;
  struct ts_trace_function *functions =
      ts_new_array(&sim->run_arena, struct ts_trace_function, function_count ? function_count : 1);
  struct ts_trace_launch *launches =
      ts_new_array(&sim->run_arena, struct ts_trace_launch, launch_count ? launch_count : 1);
  if (!functions || !launches) return ts_fail_memory(&sim->ctx);
  for (uint32_t i = 0; i < function_count; i++)
    TS_TRY(describe_function(sim, module->functions.data[i], &functions[i]));
  for (uint32_t i = 0; i < launch_count; i++) {
    const struct ts_launch *launch = &sim->plan.launches[i];
    launches[i].function = function_index(module, launch->function);
    memcpy(launches[i].grid, launch->grid, sizeof launch->grid);
    memcpy(launches[i].block, launch->block, sizeof launch->block);
    memcpy(launches[i].cluster, launch->cluster, sizeof launch->cluster);
    launches[i].dynamic_shared_bytes = launch->dynamic_shared_bytes;
  }
  *program = (struct ts_trace_program){functions, function_count, launches, launch_count};
  return TS_OK;
}

/* --- running */

/* The number behind the prefix; false when the text has another form. */
static bool schedule_number(const char *text, const char *prefix, uint64_t *number) {
  char *end;
  size_t length = strlen(prefix);
  if (strncmp(text, prefix, length) != 0 || text[length] < '0' || text[length] > '9') return false;
  errno = 0;
  *number = strtoull(text + length, &end, 0);
  return !*end && !errno;
}

/* *explored: random schedules of explore:N, UINT64_MAX for other schedules. */
static enum ts_result parse_schedule(struct ts_sim *sim, const char *text,
                                     struct ts_run_options *options, uint64_t *explored) {
  *explored = UINT64_MAX;
  options->schedule = TS_SCHEDULE_EAGER;
  if (!text || strcmp(text, "eager") == 0) return TS_RESULT_OK;
  if (schedule_number(text, "explore:", explored) && *explored <= MAX_EXPLORED) return TS_RESULT_OK;
  options->schedule = TS_SCHEDULE_LAZY;
  if (strcmp(text, "lazy") == 0) return TS_RESULT_OK;
  options->schedule = TS_SCHEDULE_RANDOM;
  if (schedule_number(text, "random:", &options->seed)) return TS_RESULT_OK;
  options->schedule = TS_SCHEDULE_LAST;
  if (schedule_number(text, "last:", &options->seed)) return TS_RESULT_OK;
  return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
                      "schedule '%.64s' is not known; expected eager, lazy, random:SEED, last:WARP "
                      "or explore:N with N up to %d",
                      text, MAX_EXPLORED);
}

/* Statuses after which memory and events are worth keeping. */
static bool is_run_complete(enum ts_status status) {
  return status == TS_OK || status == TS_HAZARD || status == TS_DEADLOCK || status == TS_TRAP;
}

static enum ts_status interpret(struct ts_sim *sim, const struct ts_run_options *options) {
  return ts_interp_run(&sim->ctx, ts_tvm_module(sim->tvm), &sim->plan, &sim->memory, options,
                       &sim->stats);
}

static enum ts_status interpret_with_events(struct ts_sim *sim, struct ts_run_options *options,
                                            const char *path) {
  struct ts_trace_program program;
  struct ts_trace_writer *writer;
  TS_TRY(ts__describe_program(sim, &program));
  TS_TRY(ts_trace_writer_open(&sim->ctx, path, &program, &writer));
  options->sink = ts_trace_writer_sink(writer);
  options->worker_count = 1;
  enum ts_status status = interpret(sim, options);
  enum ts_status closed = ts_trace_writer_close(&sim->ctx, writer, is_run_complete(status));
  return closed != TS_OK ? closed : status;
}

/* The host function's assertion says what it expected; this adds what it was given. */
static void tell_arguments(struct ts_sim *sim) {
  char text[512] = "the arguments were", shape[TS_MAX_RANK * 21 + 8];
  size_t used = strlen(text);
  if (sim->diags.items.count == 0) return;
  struct ts_diag *last = &sim->diags.items.data[sim->diags.items.count - 1];
  if (last->code != TS_DIAG_HOST_ASSERT || last->hint) return;
  for (uint32_t i = 0; i < sim->parameter_count && used < sizeof text; i++) {
    const struct ts__tensor *tensor = &sim->parameters[i].tensor;
    if (!sim->parameters[i].tvm->is_tensor) continue;
    const char *extents =
        tensor->is_null ? "null" : ts__shape_text(tensor->rank, tensor->shape, shape, sizeof shape);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s %s %s %s", i ? "," : "",
                             sim->parameters[i].tvm->name,
                             ts_dtype_name((enum ts_dtype)tensor->dtype), extents);
  }
  last->hint = ts_arena_copy(&sim->diags.arena, text, strlen(text));
}

enum ts_result ts__prepare_run(struct ts_sim *sim) {
  uint32_t count = sim->parameter_count;
  struct ts_tvm_argument *arguments =
      ts_new_array(&sim->run_arena, struct ts_tvm_argument, count ? count : 1);
  if (!arguments) return ts__result(ts_fail_memory(&sim->ctx));
  TS__TRY_RESULT(resolve_arguments(sim, arguments));
  TS__TRY_RESULT(ts__result(allocate_tensors(sim, arguments)));
  enum ts_status status =
      ts_tvm_plan(&sim->ctx, sim->tvm, arguments, count, &sim->run_arena, &sim->plan);
  if (status != TS_OK) {
    tell_arguments(sim);
    return ts__result(status);
  }
  return fill_tensors(sim);
}

static enum ts_result execute(struct ts_sim *sim, const struct ts_run_settings *settings,
                              struct ts_run_options *options) {
  TS__TRY_RESULT(ts__prepare_run(sim));
  enum ts_status status = settings->events_path
                              ? interpret_with_events(sim, options, settings->events_path)
                              : interpret(sim, options);
  sim->has_run = is_run_complete(status);
  ts_diag_list_sort(&sim->diags);
  return ts__result(status);
}

/* --- exploring */

/* The bytes of all tensors, one after another. */
static enum ts_status save_tensors(struct ts_sim *sim, uint8_t **image, uint64_t *size_bytes) {
  *size_bytes = 0;
  for (uint32_t i = 0; i < sim->parameter_count; i++)
    *size_bytes += sim->parameters[i].tvm->is_tensor ? sim->parameters[i].tensor.size_bytes : 0;
  *image = sim->allocator.resize(sim->allocator.user, NULL, 0, (size_t)*size_bytes + 1);
  if (!*image) return ts_fail_memory(&sim->ctx);
  uint8_t *at = *image;
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    const struct ts__tensor *tensor = &sim->parameters[i].tensor;
    if (!sim->parameters[i].tvm->is_tensor || tensor->size_bytes == 0) continue;
    memcpy(at, ts_device_pointer(&sim->memory, tensor->address, tensor->size_bytes),
           (size_t)tensor->size_bytes);
    at += tensor->size_bytes;
  }
  return TS_OK;
}

/* The first tensor that differs from the image; its first differing byte in *offset. */
static const struct ts__parameter *find_difference(struct ts_sim *sim, const uint8_t *image,
                                                   uint64_t *offset) {
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    const struct ts__parameter *parameter = &sim->parameters[i];
    const struct ts__tensor *tensor = &parameter->tensor;
    if (!parameter->tvm->is_tensor || tensor->size_bytes == 0) continue;
    const uint8_t *now = ts_device_pointer(&sim->memory, tensor->address, tensor->size_bytes);
    if (memcmp(now, image, (size_t)tensor->size_bytes) != 0) {
      for (*offset = 0; now[*offset] == image[*offset];)
        ++*offset;
      return parameter;
    }
    image += tensor->size_bytes;
  }
  return NULL;
}

static void report_difference(struct ts_sim *sim, const char *schedule, enum ts_status status,
                              enum ts_status eager_status, const struct ts__parameter *parameter,
                              uint64_t offset) {
  char message[256];
  if (status != eager_status) {
    snprintf(message, sizeof message, "schedule %s ends otherwise than eager: %s", schedule,
             ts_result_text(ts__result(status)));
  } else {
    uint64_t bits = ts_dtype_bits((enum ts_dtype)parameter->tensor.dtype);
    snprintf(message, sizeof message,
             "schedule %s gives other bits than eager, first at element %llu of %s", schedule,
             (unsigned long long)(offset * 8 / (bits ? bits : 8)), parameter->tvm->name);
  }
  struct ts_diag diag = {.code = TS_DIAG_SCHEDULE_DEPENDENT,
                         .message = message,
                         .hint = "run with --schedule and the schedule named here to look closer",
                         .place = TS_FILE_PLACE(schedule), /* each differs in place */
                         .block = -1,
                         .warp = -1,
                         .lane = -1};
  ts_diag_add(&sim->diags, &diag);
}

/* Runs anew under one schedule and compares. */
static enum ts_result explore_one(struct ts_sim *sim, const struct ts_run_settings *settings,
                                  struct ts_run_options *options, const char *schedule,
                                  const uint8_t *image, enum ts_result eager, bool *differs) {
  uint64_t offset = 0;
  ts__run_clear(sim);
  enum ts_result result = execute(sim, settings, options);
  if (!sim->has_run) return result;
  const struct ts__parameter *parameter =
      result == eager ? find_difference(sim, image, &offset) : NULL;
  if (result == eager && !parameter) return TS_RESULT_OK;
  *differs = true;
  report_difference(sim, schedule, (enum ts_status)result, (enum ts_status)eager, parameter,
                    offset);
  return TS_RESULT_OK;
}

static uint32_t most_warps(const struct ts_launch_plan *plan) {
  uint32_t most = 0;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    const uint32_t *block = plan->launches[i].block;
    uint32_t warps = (block[0] * block[1] * block[2] + 31) / 32;
    if (warps > most) most = warps;
  }
  return most;
}

/* Schedules in the order in which they are tried: lazy, last of every warp, then random ones. */
static enum ts_result explore_all(struct ts_sim *sim, const struct ts_run_settings *settings,
                                  const struct ts_run_options *eager_options, uint64_t random_count,
                                  const uint8_t *image, enum ts_result eager, bool *differs) {
  uint64_t warps = most_warps(&sim->plan);
  for (uint64_t i = 0; i < 1 + warps + random_count; i++) {
    struct ts_run_options options = *eager_options;
    char schedule[48] = "lazy";
    options.schedule = TS_SCHEDULE_LAZY;
    if (i > warps) {
      options.schedule = TS_SCHEDULE_RANDOM;
      options.seed = i - warps;
      snprintf(schedule, sizeof schedule, "random:%llu", (unsigned long long)options.seed);
    } else if (i > 0) {
      options.schedule = TS_SCHEDULE_LAST;
      options.seed = i - 1;
      snprintf(schedule, sizeof schedule, "last:%llu", (unsigned long long)options.seed);
    }
    TS__TRY_RESULT(explore_one(sim, settings, &options, schedule, image, eager, differs));
  }
  return TS_RESULT_OK;
}

static enum ts_result explore(struct ts_sim *sim, const struct ts_run_settings *settings,
                              struct ts_run_options *options, uint64_t random_count) {
  struct ts_run_settings quiet = *settings;
  uint8_t *image = NULL;
  uint64_t size_bytes = 0;
  bool differs = false;
  enum ts_result eager = execute(sim, settings, options);
  if (!sim->has_run) return eager;
  enum ts_result result = ts__result(save_tensors(sim, &image, &size_bytes));
  quiet.events_path = NULL;
  options->sink = &ts_sink_null;
  if (result == TS_RESULT_OK)
    result = explore_all(sim, &quiet, options, random_count, image, eager, &differs);
  if (image) sim->allocator.resize(sim->allocator.user, image, (size_t)size_bytes + 1, 0);
  if (result != TS_RESULT_OK) return result;
  /* The tensors that stay are those of the eager run; its diagnostics merge with the first ones. */
  ts__run_clear(sim);
  result = execute(sim, &quiet, options);
  return result == TS_RESULT_OK && differs ? TS_RESULT_HAZARD : result;
}

enum ts_result ts_sim_run(struct ts_sim *sim, const struct ts_run_settings *settings) {
  static const struct ts_run_settings defaults;
  if (!settings) settings = &defaults;
  uint32_t workers = settings->worker_count ? settings->worker_count : 1;
  struct ts_run_options options = {.machine = &sim->machine,
                                   .worker_count = workers < MAX_WORKERS ? workers : MAX_WORKERS,
                                   .sink = &ts_sink_null,
                                   .stop_at_first_hazard = settings->stop_at_first_hazard != 0,
                                   .checks = settings->checks != 0,
                                   .check_numbers = settings->check_numbers != 0,
                                   .check_speed = settings->check_speed != 0,
                                   .progress = settings->progress,
                                   .progress_user = settings->progress_user};
  if (!sim->tvm) return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING, "no case is open");
  uint64_t explored;
  TS__TRY_RESULT(parse_schedule(sim, settings->schedule, &options, &explored));
  ts__run_clear(sim);
  enum ts_result result = explored == UINT64_MAX ? execute(sim, settings, &options)
                                                 : explore(sim, settings, &options, explored);
  if (!sim->has_run) ts__run_clear(sim);
  return result;
}
