/* Runs a kernel given as IR text on buffers of the test.
 *
 *   struct kernel k;
 *   kernel_begin(&k, "function \"f\" { ... }");
 *   uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 4096);
 *   ck_assert_int_eq(kernel_run(&k, 2, 64), TS_OK);
 *   ck_assert_uint_eq(out[0], 7);
 *   kernel_end(&k);
 *
 * Buffers are the kernel's pointer parameters in order, scalars follow with kernel_scalar. */
#ifndef TS_TESTS_KERNEL_H
#define TS_TESTS_KERNEL_H

#include "interp/interp.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_MAX_ARGS = 8, KERNEL_MAX_MAPS = 2 };

struct kernel {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_module *module;
  struct ts_device_memory memory;
  struct ts_machine machine;
  struct ts_run_options options;
  struct ts_run_stats stats;
  struct ts_launch_arg args[KERNEL_MAX_ARGS];
  struct ts_tensormap maps[KERNEL_MAX_MAPS];
  struct ts_launch launch;
  struct ts_launch_plan plan;
};

/* with_uniform: registers that are uniform are stored and computed once. */
static inline void kernel_begin_as(struct kernel *k, const char *body, bool with_uniform) {
  memset(k, 0, sizeof *k);
  ck_assert_int_eq(ts_diag_list_init(&k->diags, &ts_allocator_libc), TS_OK);
  k->ctx = (struct ts_ctx){&ts_allocator_libc, &k->diags};
  size_t size = strlen(body) + 64;
  char *text = malloc(size);
  ck_assert_ptr_nonnull(text);
  int length = snprintf(text, size, "tilesim-ir 1\n%s", body);
  enum ts_status status = ts_parse_module(&k->ctx, "t.ir", text, (size_t)length, &k->module);
  if (status != TS_OK && k->diags.items.count)
    ck_abort_msg("line %u: %s", k->diags.items.data[0].place.line, k->diags.items.data[0].message);
  ck_assert_int_eq(status, TS_OK);
  free(text);
  struct ts_function *function = k->module->functions.data[0];
  if (with_uniform)
    ck_assert_int_eq(ts_analyze_uniform(&k->ctx, function), TS_OK);
  else
    for (size_t i = 0; i < function->regs.count; i++)
      function->regs.data[i].is_uniform = false;
  ts_device_memory_init(&k->memory, &ts_allocator_libc);
  ts_machine_default(&k->machine);
  k->options =
      (struct ts_run_options){.machine = &k->machine, .worker_count = 1, .sink = &ts_sink_null};
  k->launch = (struct ts_launch){.function = function->name,
                                 .grid = {1, 1, 1},
                                 .block = {32, 1, 1},
                                 .cluster = {1, 1, 1},
                                 .args = k->args};
  k->plan =
      (struct ts_launch_plan){.tensormaps = k->maps, .launches = &k->launch, .launch_count = 1};
}

/* Copies a pattern in which $A stands for values[0], $B for values[1] and so on. */
static inline void kernel_text(char *text, size_t size_bytes, const char *pattern,
                               const char *const *values) {
  size_t used = 0;
  for (; *pattern && used + 1 < size_bytes; pattern++) {
    if (*pattern != '$') {
      text[used++] = *pattern;
      continue;
    }
    const char *value = values[*++pattern - 'A'];
    size_t length = strlen(value);
    ck_assert_uint_lt(used + length, size_bytes);
    memcpy(text + used, value, length);
    used += length;
  }
  text[used] = 0;
}

static inline const char *kernel_number(char text[16], int64_t value) {
  snprintf(text, 16, "%lld", (long long)value);
  return text;
}

static inline void kernel_begin(struct kernel *k, const char *body) {
  kernel_begin_as(k, body, true);
}

static inline void kernel_scalar(struct kernel *k, uint64_t encoding) {
  ck_assert_uint_lt(k->launch.arg_count, KERNEL_MAX_ARGS);
  k->args[k->launch.arg_count++] = (struct ts_launch_arg){TS_LAUNCH_ARG_SCALAR, encoding, false};
}

/* A tensor map argument; its global address is that of a buffer made before. */
static inline void kernel_map(struct kernel *k, struct ts_tensormap map) {
  ck_assert_uint_lt(k->plan.tensormap_count, KERNEL_MAX_MAPS);
  k->args[k->launch.arg_count++] =
      (struct ts_launch_arg){TS_LAUNCH_ARG_TENSORMAP, k->plan.tensormap_count, false};
  k->maps[k->plan.tensormap_count++] = map;
}

static inline void *kernel_buffer(struct kernel *k, const char *name, enum ts_dtype dtype,
                                  uint64_t size_bytes) {
  uint64_t address;
  ck_assert_uint_lt(k->launch.arg_count, KERNEL_MAX_ARGS);
  ck_assert_int_eq(ts_device_allocate(&k->ctx, &k->memory, name, dtype, size_bytes, &address),
                   TS_OK);
  k->args[k->launch.arg_count++] = (struct ts_launch_arg){TS_LAUNCH_ARG_POINTER, address, false};
  return k->memory.allocations.data[k->memory.allocations.count - 1].data;
}

static inline enum ts_status kernel_run(struct kernel *k, uint32_t grid, uint32_t block) {
  k->launch.grid[0] = grid;
  k->launch.block[0] = block;
  enum ts_status status =
      ts_interp_run(&k->ctx, k->module, &k->plan, &k->memory, &k->options, &k->stats);
  ts_diag_list_sort(&k->diags);
  return status;
}

/* The message of diagnostic i, for asserts; "" when there is none. */
static inline const char *kernel_message(const struct kernel *k, size_t i) {
  return i < k->diags.items.count ? k->diags.items.data[i].message : "";
}

static inline void kernel_end(struct kernel *k) {
  ts_device_memory_free(&k->memory);
  ts_module_free(k->module);
  ts_diag_list_free(&k->diags);
}

#endif
