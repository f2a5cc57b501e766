/* The code table against nvcc on the corpus: registers and blocks per SM, machine instructions by class.
 * The cases are no part of the tree: they are looked for in $TS_SHARED, then ../shared; without them
 * the test says so and passes. Limits are ratchets: what was reached, to be tightened only. */
#include "front/tvm/tvm.h"
#include "ir/code.h"
#include "machine/occupancy.h"
#include "support/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 4096, KERNEL_COUNT = 289, LEAST_AGREEING = 255, LEAST_COMPARABLE = 150 };
static const double most_register_error = 7.6; /* mean of |estimate - truth| */
static const double most_integer_error = 0.17; /* mean of |estimate / truth - 1| */

static const char *const class_names[TS_CODE_CLASS_COUNT] = {
    "f32", "f16", "integer", "special", "matrix", "memory", "synchronisation", "control"};

/* The case's folder, in path; false without it. */
static bool find_case(const char *name, char path[PATH_BYTES]) {
  static const char *const folders[] = {"cases", "sweep"};
  const char *shared = getenv("TS_SHARED");
  for (int i = 0; i < 2; i++) {
    snprintf(path, PATH_BYTES, "%s/data/tilelang/%s/%s", shared ? shared : "../shared", folders[i],
             name);
    if (ts_tvm_sniff(path)) return true;
  }
  return false;
}

static bool is_fast_math(const char *name) {
  return !strcmp(name, "attention_fast") || !strcmp(name, "unary_exp2_fast");
}

/* kernel: "case/function". False without the case. */
static bool estimate(const char *kernel, struct ts_code *code) {
  struct ts_diag_list diags;
  struct ts_arena arena;
  struct ts_tvm_case *tvm;
  char name[128], path[PATH_BYTES];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(kernel, "/"), kernel);
  if (!find_case(name, path)) return false;
  ck_assert_int_eq(ts_diag_list_init(&diags, &ts_allocator_libc), TS_OK);
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  struct ts_tvm_options options = {.fast_math = is_fast_math(name)};
  ts_arena_init(&arena, &ts_allocator_libc);
  ck_assert_int_eq(ts_tvm_open(&ctx, path, &options, &tvm), TS_OK);
  const struct ts_function *function = ts_module_find(ts_tvm_module(tvm), strchr(kernel, '/') + 1);
  ck_assert_ptr_nonnull(function);
  ck_assert_int_eq(ts_code_estimate(&ctx, function, &arena, code), TS_OK);
  ts_tvm_close(tvm);
  ts_arena_free(&arena);
  ts_diag_list_free(&diags);
  return true;
}

START_TEST(test_registers) {
  FILE *file = fopen("tests/machine/occupancy_h200.tsv", "r");
  char line[256], kernel[128];
  int row_count = 0, agreeing_count = 0;
  double error = 0;
  struct ts_machine machine;
  ts_machine_default(&machine);
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file)) {
    uint32_t threads, registers, static_bytes, dynamic_bytes, blocks;
    struct ts_code code;
    if (*line == '#') continue;
    ck_assert_int_eq(sscanf(line, "%127s %u %u %u %u %u", kernel, &threads, &registers,
                            &static_bytes, &dynamic_bytes, &blocks),
                     6);
    if (!estimate(kernel, &code)) break;
    struct ts_occupancy found = ts_occupancy_find(
        &machine, &(struct ts_block_needs){.threads = threads,
                                           .registers_per_thread = code.registers_per_thread,
                                           .shared_bytes = static_bytes + dynamic_bytes});
    row_count++;
    agreeing_count += found.blocks_per_sm == blocks;
    error += fabs((double)code.registers_per_thread - registers);
  }
  fclose(file);
  if (!row_count) {
    printf("no corpus: skipped\n");
    return;
  }
  error /= row_count;
  printf("registers: %d of %d kernels have the right number of blocks per SM, mean error %.2f\n",
         agreeing_count, row_count, error);
  ck_assert_int_eq(row_count, KERNEL_COUNT);
  ck_assert_int_ge(agreeing_count, LEAST_AGREEING);
  ck_assert_msg(error <= most_register_error, "mean error %.2f", error);
}
END_TEST

/* nvcc unrolls loops, the table does not: kernels are compared where matrix and memory instructions
 * are as many. */
static bool is_comparable(const uint32_t *truth, const uint32_t *found) {
  double wanted = truth[TS_CODE_CLASS_MATRIX] + truth[TS_CODE_CLASS_MEMORY];
  double got = found[TS_CODE_CLASS_MATRIX] + found[TS_CODE_CLASS_MEMORY];
  return fabs(wanted - got) <= fmax(1, 0.04 * wanted);
}

START_TEST(test_instructions) {
  FILE *file = fopen("tests/machine/codegen_sm90.tsv", "r");
  char line[256], kernel[128];
  int comparable_count = 0, row_count = 0, integer_count = 0;
  double truth_sum[TS_CODE_CLASS_COUNT] = {0}, found_sum[TS_CODE_CLASS_COUNT] = {0}, error = 0;
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file)) {
    uint32_t truth[TS_CODE_CLASS_COUNT];
    struct ts_code code;
    if (*line == '#') continue;
    ck_assert_int_eq(sscanf(line, "%127s %u %u %u %u %u %u %u %u", kernel, &truth[0], &truth[1],
                            &truth[2], &truth[3], &truth[4], &truth[5], &truth[6], &truth[7]),
                     9);
    if (!estimate(kernel, &code)) break;
    row_count++;
    if (!is_comparable(truth, code.class_counts)) continue;
    comparable_count++;
    for (int i = 0; i < TS_CODE_CLASS_COUNT; i++) {
      truth_sum[i] += truth[i];
      found_sum[i] += code.class_counts[i];
    }
    if (truth[TS_CODE_CLASS_INT] < 20) continue;
    integer_count++;
    error += fabs(code.class_counts[TS_CODE_CLASS_INT] / (double)truth[TS_CODE_CLASS_INT] - 1);
  }
  fclose(file);
  if (!row_count) return;
  error /= integer_count;
  printf("%d of %d kernels comparable; integer instructions off by %.3f in the mean;",
         comparable_count, row_count, error);
  for (int i = 0; i < TS_CODE_CLASS_COUNT; i++)
    printf(" %s %.3f", class_names[i], found_sum[i] / truth_sum[i]);
  printf(" of nvcc's\n");
  ck_assert_int_ge(comparable_count, LEAST_COMPARABLE);
  ck_assert_msg(error <= most_integer_error, "integer instructions off by %.3f", error);
  for (int i = 0; i < TS_CODE_CLASS_COUNT; i++) {
    double ratio = found_sum[i] / truth_sum[i];
    bool is_loose = i == TS_CODE_CLASS_SPECIAL || i == TS_CODE_CLASS_CONTROL;
    ck_assert_msg(fabs(ratio - 1) <= (is_loose ? 0.35 : 0.1), "%s: %.3f of nvcc's", class_names[i],
                  ratio);
  }
}
END_TEST

int main(void) { return RUN_TESTS("code_corpus", test_registers, test_instructions); }
