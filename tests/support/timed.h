/* Times a kernel given as IR text: interpreter, timing model, report.
 *
 *   struct timed t;
 *   timed_begin(&t, "function \"f\" { ... }");
 *   timed_buffer(&t, 1 << 20);                      (parameters in order, as in kernel.h)
 *   ck_assert_int_eq(timed_run(&t, grid, threads), TS_OK);
 *   ... t.report->kernel_us ...
 *   timed_end(&t);
 *
 * The machine is machines/h200-sxm.mach; change t.kernel.machine before the run. */
#ifndef TS_TESTS_TIMED_H
#define TS_TESTS_TIMED_H

#include "model_nv/model_nv.h"
#include "support/kernel.h"

struct timed {
  struct kernel kernel;
  struct ts_arena arena;
  struct ts_code code;
  struct ts_trace_function function;
  struct ts_trace_launch launch;
  struct ts_trace_program program;
  struct ts_model_nv_options options; /* spans, registers */
  struct ts_model_nv *model;
  const struct ts_time_report *report;
};

enum { TIMED_REGISTERS = 512 };

/* Registers need not be numbered without gaps: this declares those that the body leaves out. The
 * caller frees the text. */
static inline char *timed_declare(const char *body) {
  bool is_used[TIMED_REGISTERS] = {0};
  uint32_t last = 0;
  size_t length = strlen(body);
  char *text = malloc(length + TIMED_REGISTERS * 16);
  ck_assert_ptr_nonnull(text);
  for (const char *at = strchr(body, '%'); at; at = strchr(at + 1, '%')) {
    char *end;
    uint32_t number = (uint32_t)strtoul(at + 1, &end, 10);
    bool is_declared = at >= body + 4 && strncmp(at - 4, "reg ", 4) == 0;
    ck_assert_uint_lt(number, TIMED_REGISTERS);
    if (number > last) last = number;
    if (is_declared || strncmp(end, " =", 2) == 0) is_used[number] = true;
  }
  size_t head = (size_t)(strchr(body, '{') + 1 - body), at = head;
  memcpy(text, body, head);
  for (uint32_t i = 0; i < last; i++)
    if (!is_used[i]) at += (size_t)sprintf(text + at, "\nreg %%%u u32", i);
  memcpy(text + at, body + head, length - head + 1);
  return text;
}

static inline void timed_begin(struct timed *t, const char *body) {
  char *text = timed_declare(body);
  memset(t, 0, sizeof *t);
  kernel_begin(&t->kernel, text);
  free(text);
  ts_arena_init(&t->arena, &ts_allocator_libc);
  enum ts_status status =
      ts_machine_load(&t->kernel.ctx, "machines", "h200-sxm", &t->kernel.machine);
  ck_assert_int_eq(status, TS_OK);
  t->kernel.options.addresses_only = true;
}

/* A buffer that has addresses but no contents. */
static inline uint64_t timed_buffer(struct timed *t, uint64_t size_bytes) {
  struct kernel *k = &t->kernel;
  uint64_t address;
  ck_assert_uint_lt(k->launch.arg_count, KERNEL_MAX_ARGS);
  ck_assert_int_eq(
      ts_device_reserve(&k->ctx, &k->memory, "data", TS_DTYPE_u8, size_bytes, &address), TS_OK);
  k->args[k->launch.arg_count++] = (struct ts_launch_arg){TS_LAUNCH_ARG_POINTER, address, false};
  return address;
}

/* What an event file says of the program. */
static inline void timed_describe(struct timed *t, uint32_t grid, uint32_t threads) {
  struct kernel *k = &t->kernel;
  const struct ts_function *function = k->module->functions.data[0];
  uint32_t count = (uint32_t)function->insns.count;
  struct ts_source_place *places = ts_new_array(&t->arena, struct ts_source_place, count + 1);
  uint16_t *ops = ts_new_array(&t->arena, uint16_t, count + 1);
  ck_assert(places && ops);
  for (uint32_t i = 0; i < count; i++) {
    places[i] = ts_insn_place(function, i);
    ops[i] = function->insns.data[i].op;
  }
  ck_assert_int_eq(ts_code_estimate(&k->ctx, function, &t->arena, &t->code), TS_OK);
  t->function = (struct ts_trace_function){function->name, count, places, ops, &t->code};
  t->launch = (struct ts_trace_launch){.grid = {grid, 1, 1},
                                       .block = {threads, 1, 1},
                                       .cluster = {1, 1, 1},
                                       .dynamic_shared_bytes = k->launch.dynamic_shared_bytes};
  t->program = (struct ts_trace_program){&t->function, 1, &t->launch, 1};
}

static inline enum ts_status timed_run(struct timed *t, uint32_t grid, uint32_t threads) {
  struct kernel *k = &t->kernel;
  timed_describe(t, grid, threads);
  t->options.machine = &k->machine;
  enum ts_status status = ts_model_nv_open(&k->ctx, &t->options, &t->program, &t->model);
  if (status != TS_OK) return status;
  k->options.sink = ts_model_nv_sink(t->model);
  status = kernel_run(k, grid, threads);
  if (status == TS_OK) status = ts_model_nv_finish(t->model, &t->report);
  return status;
}

static inline void timed_end(struct timed *t) {
  ts_model_nv_close(t->model);
  ts_arena_free(&t->arena);
  kernel_end(&t->kernel);
}

#endif
