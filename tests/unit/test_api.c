/* The public API on small cases of traces/ (tests run in the root of the tree). */
#include "support/failing_allocator.h"
#include "support/suite.h"
#include "tilesim/event.h"
#include "tilesim/tilesim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADD "traces/add_f32_ragged"
#define DYNAMIC "traces/add_dynamic_1000"
enum { ADD_ROWS = 100, ADD_COLUMNS = 99, ADD_ELEMS = ADD_ROWS * ADD_COLUMNS };
static const int64_t add_shape[2] = {ADD_ROWS, ADD_COLUMNS};

static struct ts_sim *open_case(const char *folder) {
  struct ts_sim *sim;
  ck_assert_int_eq(ts_sim_create(NULL, &sim), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_open(sim, folder, TS_FAST_MATH_AUTO), TS_RESULT_OK);
  return sim;
}

static void make_name(char name[64], const char *what) {
  snprintf(name, 64, "/tmp/tilesim-test-api-%ld-%s", (long)getpid(), what);
}

/* The sha256 of an output in traces/golden.tsv. */
static void golden_hash(const char *folder, const char *output, char hash[TS_SHA256_TEXT_BYTES]) {
  char line[512], wanted[128];
  FILE *file = fopen("traces/golden.tsv", "r");
  ck_assert_ptr_nonnull(file);
  snprintf(wanted, sizeof wanted, "%s\t%s\t", strrchr(folder, '/') + 1, output);
  hash[0] = '\0';
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, wanted, strlen(wanted)) == 0)
      snprintf(hash, TS_SHA256_TEXT_BYTES, "%.64s", line + strlen(wanted));
  }
  fclose(file);
  ck_assert_uint_eq(strlen(hash), 64);
}

static void expect_diagnostic(const struct ts_sim *sim, const char *code, const char *part) {
  struct ts_diagnostic diagnostic = {.code = "none", .message = ""};
  uint32_t count = ts_sim_diagnostic_count(sim);
  ck_assert_uint_gt(count, 0);
  ck_assert_int_eq(ts_sim_diagnostic(sim, count - 1, &diagnostic), TS_RESULT_OK);
  ck_assert_str_eq(diagnostic.code, code);
  ck_assert_msg(strstr(diagnostic.message, part) != NULL, "%s", diagnostic.message);
}

START_TEST(test_parameters) {
  static const char *const names[] = {"A", "B", "C"};
  struct ts_sim *sim = open_case(ADD);
  struct ts_parameter parameter;
  ck_assert_uint_eq(ts_sim_parameter_count(sim), 3);
  for (uint32_t i = 0; i < 3; i++) {
    ck_assert_int_eq(ts_sim_parameter(sim, i, &parameter), TS_RESULT_OK);
    ck_assert_str_eq(parameter.name, names[i]);
    ck_assert(parameter.is_tensor && parameter.has_default);
    ck_assert_str_eq(parameter.dtype, "f32");
    ck_assert_uint_eq(parameter.rank, 2);
    ck_assert_mem_eq(parameter.shape, add_shape, sizeof add_shape);
    ck_assert_mem_eq(parameter.default_shape, add_shape, sizeof add_shape);
    ck_assert_int_eq(parameter.role, i == 2 ? TS_ROLE_OUT : TS_ROLE_IN);
  }
  ck_assert_int_eq(ts_sim_parameter(sim, 3, &parameter), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_open(sim, DYNAMIC, TS_FAST_MATH_AUTO), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_parameter(sim, 0, &parameter), TS_RESULT_OK);
  ck_assert_int_eq(parameter.shape[0], -1);
  ck_assert_str_eq(parameter.symbols[0], "n");
  ck_assert_int_eq(parameter.default_shape[0], 1000);
  ts_sim_free(sim);
}
END_TEST

START_TEST(test_default_arguments_give_golden_bits) {
  static const char *const folders[] = {ADD, "traces/copy_oob_safe", "traces/transpose_swizzled",
                                        "traces/gemm_64x64x32_s2"};
  static const char *const outputs[] = {"C", "B", "B", "C"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    char hash[TS_SHA256_TEXT_BYTES], golden[TS_SHA256_TEXT_BYTES];
    struct ts_sim *sim = open_case(folders[i]);
    golden_hash(folders[i], outputs[i], golden);
    ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
    ck_assert_int_eq(ts_sim_sha256(sim, outputs[i], hash), TS_RESULT_OK);
    ck_assert_str_eq(hash, golden);
    ts_sim_free(sim);
  }
}
END_TEST

START_TEST(test_tensors_from_memory) {
  float *a = malloc(ADD_ELEMS * sizeof *a), *b = malloc(ADD_ELEMS * sizeof *b);
  struct ts_tensor tensor = {"float32", 2, add_shape, NULL, a, ADD_ELEMS * sizeof *a};
  struct ts_sim *sim = open_case(ADD);
  for (int i = 0; i < ADD_ELEMS; i++) {
    a[i] = (float)i;
    b[i] = (float)(-3 * i) + 0.5f;
  }
  ck_assert_int_eq(ts_sim_set_tensor(sim, "A", &tensor), TS_RESULT_OK);
  tensor.data = b;
  ck_assert_int_eq(ts_sim_set_tensor(sim, "B", &tensor), TS_RESULT_OK);
  memset(a, 0, ADD_ELEMS * sizeof *a);      /* it was copied */
  for (int round = 0; round < 2; round++) { /* a run starts from the arguments each time */
    ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
    ck_assert_int_eq(ts_sim_tensor(sim, "C", &tensor), TS_RESULT_OK);
    ck_assert_uint_eq(tensor.size_bytes, ADD_ELEMS * sizeof(float));
    ck_assert_str_eq(tensor.dtype, "f32");
    const float *c = tensor.data;
    for (int i = 0; i < ADD_ELEMS; i++)
      ck_assert(c[i] == (float)i + b[i]);
  }
  ts_sim_free(sim);
  free(a);
  free(b);
}
END_TEST

START_TEST(test_wrong_arguments) {
  static const float few[4];
  static const int64_t shape[2] = {2, 2}, negative[2] = {2, -2}, strides[2] = {1 << 20, 1};
  struct ts_sim *sim = open_case(ADD);
  struct ts_tensor tensor = {"f32", 2, shape, NULL, few, sizeof few};
  /* what the host function says */
  ck_assert_int_eq(ts_sim_set_tensor(sim, "A", &tensor), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_BAD_ARGUMENT);
  expect_diagnostic(sim, "TS-HOST-001", "A shape[0] violates packed ABI constraint");
  ck_assert_int_eq(ts_sim_tensor(sim, "C", &tensor), TS_RESULT_BAD_ARGUMENT);
  expect_diagnostic(sim, "TS-ARG-001", "no complete run");
  /* what the setter says; the old argument stays */
  tensor = (struct ts_tensor){"f32", 2, shape, strides, few, sizeof few};
  ck_assert_int_eq(ts_sim_set_tensor(sim, "A", &tensor), TS_RESULT_BAD_ARGUMENT);
  expect_diagnostic(sim, "TS-ARG-002", "reach 4194312 bytes, but 16 were given");
  tensor = (struct ts_tensor){"f32", 2, negative, NULL, few, sizeof few};
  ck_assert_int_eq(ts_sim_set_tensor(sim, "A", &tensor), TS_RESULT_BAD_ARGUMENT);
  tensor = (struct ts_tensor){"f33", 2, shape, NULL, few, sizeof few};
  ck_assert_int_eq(ts_sim_set_tensor(sim, "A", &tensor), TS_RESULT_BAD_ARGUMENT);
  expect_diagnostic(sim, "TS-ARG-002", "unknown dtype 'f33'");
  ck_assert_int_eq(ts_sim_set_int(sim, "A", 1), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_set_text(sim, "a", "init:uniform"), TS_RESULT_BAD_ARGUMENT);
  expect_diagnostic(sim, "TS-ARG-001", "did you mean A?");
  ck_assert_int_eq(ts_sim_set_text(sim, "A", "init:int:5:1"), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_set_text(sim, "A", "init:uniform:1@2x2y"), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_set_text(sim, "A", "nowhere.npy"), TS_RESULT_IO);
  uint32_t count = ts_sim_diagnostic_count(sim);
  ck_assert_uint_gt(count, 5);
  ts_sim_clear_diagnostics(sim);
  ck_assert_uint_eq(ts_sim_diagnostic_count(sim), 0);
  ts_sim_free(sim);
}
END_TEST

/* A tensor that the kernel never uses may be null; the host function refuses others. */
START_TEST(test_null_tensors) {
  struct ts_sim *sim = open_case("tests/python/cases/optional_bias");
  struct ts_tensor tensor;
  char hash[2][TS_SHA256_TEXT_BYTES];
  ck_assert_int_eq(ts_sim_set_text(sim, "A", "init:iota:1:128"), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_BAD_ARGUMENT); /* none was given for Bias */
  ck_assert_int_eq(ts_sim_set_text(sim, "Bias", "init:const:1"), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_sha256(sim, "C", hash[0]), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_set_null(sim, "Bias"), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, &(struct ts_run_settings){.schedule = "explore:1"}),
                   TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_sha256(sim, "C", hash[1]), TS_RESULT_OK);
  ck_assert_str_eq(hash[0], hash[1]);
  ck_assert_int_eq(ts_sim_tensor(sim, "Bias", &tensor), TS_RESULT_OK);
  ck_assert_ptr_null(tensor.data);
  ck_assert_uint_eq(tensor.size_bytes, 0);
  ck_assert_int_eq(ts_sim_set_text(sim, "A", "null"), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_BAD_ARGUMENT);
  expect_diagnostic(sim, "TS-HOST-001", "main.A is expected to have non-NULL pointer");
  ts_sim_free(sim);
}
END_TEST

START_TEST(test_other_dtype_is_refused_by_the_host) {
  static uint16_t halves[ADD_ELEMS];
  struct ts_tensor tensor = {"f16", 2, add_shape, NULL, halves, sizeof halves};
  struct ts_sim *sim = open_case(ADD);
  ck_assert_int_eq(ts_sim_set_tensor(sim, "B", &tensor), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_BAD_ARGUMENT);
  expect_diagnostic(sim, "TS-HOST-001", "B dtype");
  ts_sim_free(sim);
}
END_TEST

/* One explicit shape gives the run-time symbol of the other parameters. */
START_TEST(test_symbols) {
  struct ts_sim *sim = open_case(DYNAMIC);
  struct ts_tensor tensor;
  const int64_t shape[1] = {77}, other[1] = {78}, zero[1] = {0};
  ck_assert_int_eq(ts_sim_set_init(sim, "A", "const:1", 0, shape, 1), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_set_text(sim, "B", "init:iota:1:100"), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_tensor(sim, "C", &tensor), TS_RESULT_OK);
  ck_assert_int_eq(tensor.shape[0], 77);
  for (int i = 0; i < 77; i++) /* C = A * B + A */
    ck_assert(((const float *)tensor.data)[i] == (float)(i + 1));
  ck_assert_int_eq(ts_sim_set_init(sim, "B", "const:1", 0, other, 1), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_set_init(sim, "A", "const:1", 0, zero, 1), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_set_init(sim, "B", "const:1", 0, zero, 1), TS_RESULT_OK);
  ck_assert_int_eq(ts_result_exit_status(ts_sim_run(sim, NULL)), 2);
  ts_sim_free(sim);
}
END_TEST

START_TEST(test_memory_limit) {
  struct ts_sim *sim = open_case(ADD);
  ts_sim_set_memory_limit(sim, 3 * ADD_ELEMS * sizeof(float) - 1);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_LIMIT);
  expect_diagnostic(sim, "TS-LIMIT-002", "the memory limit is");
  ts_sim_set_memory_limit(sim, 3 * ADD_ELEMS * sizeof(float));
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
  ts_sim_free(sim);
}
END_TEST

START_TEST(test_schedules_workers_and_events_do_not_change_bits) {
  char path[64], hash[TS_SHA256_TEXT_BYTES], first[TS_SHA256_TEXT_BYTES] = "";
  make_name(path, "events");
  const struct ts_run_settings settings[] = {
      {.schedule = "eager"},      {.schedule = "lazy"}, {.schedule = "random:1"},
      {.schedule = "random:0x7"}, {.worker_count = 3},  {.events_path = path},
  };
  struct ts_sim *sim = open_case("traces/gemm_64x64x32_s2");
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    ck_assert_int_eq(ts_sim_run(sim, &settings[i]), TS_RESULT_OK);
    ck_assert_int_eq(ts_sim_sha256(sim, "C", hash), TS_RESULT_OK);
    if (i == 0) memcpy(first, hash, sizeof first);
    ck_assert_str_eq(hash, first);
  }
  const struct ts_run_settings wrong[] = {
      {.schedule = "random"}, {.schedule = "random:x"}, {.schedule = ""}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    ck_assert_int_eq(ts_sim_run(sim, &wrong[i]), TS_RESULT_BAD_ARGUMENT);
  ts_sim_free(sim);
  unlink(path);
}
END_TEST

START_TEST(test_events_say_what_happened) {
  char path[64];
  struct ts_event_record record;
  struct ts_statistics statistics;
  struct ts_events *events;
  uint64_t boxes = 0, landed = 0, matrices = 0, blocks = 0, work = 0, count = 0;
  int is_end = 0;
  make_name(path, "events2");
  struct ts_sim *sim = open_case("traces/gemm_64x64x32_s2");
  const struct ts_run_settings settings = {.events_path = path};
  ck_assert_int_eq(ts_sim_run(sim, &settings), TS_RESULT_OK);
  ts_sim_statistics(sim, &statistics);
  ck_assert_uint_eq(statistics.matrix_macs, 512 * 512 * 512);
  ck_assert_int_eq(ts_events_open(sim, path, &events), TS_RESULT_OK);
  for (;; count++) {
    ck_assert_int_eq(ts_events_next(events, &record, &is_end), TS_RESULT_OK);
    if (is_end) break;
    ck_assert_uint_eq(record.seq, count);
    ck_assert_str_eq(record.function, "main_kernel");
    boxes += strcmp(record.kind, "copy") == 0 && strcmp(record.op, "tma.load") == 0;
    landed += strcmp(record.kind, "landed") == 0;
    matrices += strcmp(record.kind, "matrix") == 0;
    blocks += strcmp(record.kind, "block") == 0;
    if (strcmp(record.kind, "matrix") == 0) work += record.work;
    if (strcmp(record.kind, "copy") == 0) ck_assert_ptr_nonnull(record.file);
  }
  ck_assert_uint_eq(boxes, statistics.tma_boxes);
  ck_assert_uint_eq(landed, boxes);
  ck_assert_uint_eq(blocks, statistics.blocks);
  ck_assert_uint_gt(matrices, 0);
  ck_assert_uint_eq(work, statistics.matrix_macs);
  ts_events_close(events);
  ck_assert_int_eq(ts_events_open(sim, "/nonexistent", &events), TS_RESULT_IO);
  ck_assert_int_eq(ts_events_open(sim, "traces/README.md", &events), TS_RESULT_BAD_INPUT);
  ts_sim_free(sim);
  unlink(path);
}
END_TEST

static void expect_no_file(const char *folder, const char *name) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  ck_assert_int_ne(access(path, F_OK), 0);
}

static void remove_outputs(const char *folder) {
  char path[128];
  snprintf(path, sizeof path, "%s/C.npy", folder);
  ck_assert_int_eq(unlink(path), 0);
  snprintf(path, sizeof path, "%s/args.json", folder);
  ck_assert_int_eq(unlink(path), 0);
  ck_assert_int_eq(rmdir(folder), 0); /* there is nothing else in it */
}

START_TEST(test_outputs_as_files) {
  char folder[64], path[128], hash[TS_SHA256_TEXT_BYTES], again[TS_SHA256_TEXT_BYTES];
  make_name(folder, "out");
  struct ts_sim *sim = open_case(ADD);
  ck_assert_int_eq(ts_sim_write_outputs(sim, folder), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_sha256(sim, "C", hash), TS_RESULT_OK);
  for (int round = 0; round < 2; round++) /* into a new folder, and into one that exists */
    ck_assert_int_eq(ts_sim_write_outputs(sim, folder), TS_RESULT_OK);
  expect_no_file(folder, "A.npy");
  /* the output as an input: A = C, B = 0 gives C again */
  snprintf(path, sizeof path, "%s/C.npy", folder);
  ck_assert_int_eq(ts_sim_set_npy(sim, "A", path), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_set_init(sim, "B", "const:0", 0, NULL, 0), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_sha256(sim, "C", again), TS_RESULT_OK);
  ck_assert_str_eq(hash, again);
  ck_assert_int_eq(ts_sim_write_outputs(sim, path), TS_RESULT_IO); /* a file, not a folder */
  ck_assert_int_eq(ts_sim_write_outputs(sim, "/proc/nowhere/x"), TS_RESULT_IO);
  ts_sim_free(sim);
  remove_outputs(folder);
}
END_TEST

START_TEST(test_two_simulations_side_by_side) {
  struct ts_sim *first = open_case(ADD), *second = open_case(DYNAMIC);
  char hash[TS_SHA256_TEXT_BYTES], golden[TS_SHA256_TEXT_BYTES];
  ck_assert_int_eq(ts_sim_set_text(first, "Z", "1"), TS_RESULT_BAD_ARGUMENT);
  ck_assert_uint_eq(ts_sim_diagnostic_count(second), 0);
  ck_assert_int_eq(ts_sim_run(second, NULL), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(first, NULL), TS_RESULT_OK);
  ts_sim_free(second);
  golden_hash(ADD, "C", golden);
  ck_assert_int_eq(ts_sim_sha256(first, "C", hash), TS_RESULT_OK);
  ck_assert_str_eq(hash, golden);
  ts_sim_free(first);
}
END_TEST

START_TEST(test_without_a_case) {
  struct ts_sim *sim;
  const char *text;
  size_t size_bytes;
  ck_assert_int_eq(ts_sim_create(NULL, &sim), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_set_int(sim, "n", 1), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_ir(sim, &text, &size_bytes), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_sim_open(sim, "/nonexistent", TS_FAST_MATH_AUTO), TS_RESULT_IO);
  ck_assert_int_eq(ts_sim_open(sim, "docs", TS_FAST_MATH_AUTO), TS_RESULT_BAD_INPUT);
  ck_assert_uint_eq(ts_sim_parameter_count(sim), 0);
  ck_assert_int_eq(ts_sim_set_machine(sim, NULL, "no-such-machine"), TS_RESULT_BAD_ARGUMENT);
  ts_sim_free(sim);
}
END_TEST

START_TEST(test_ir_and_op_rows) {
  const char *text;
  size_t size_bytes;
  struct ts_op_row row;
  struct ts_sim *sim = open_case(ADD);
  ck_assert_int_eq(ts_sim_ir(sim, &text, &size_bytes), TS_RESULT_OK);
  ck_assert_uint_eq(strlen(text), size_bytes);
  ck_assert_ptr_nonnull(strstr(text, "main_kernel"));
  ck_assert_uint_gt(ts_op_row_count(), 50);
  ck_assert_int_eq(ts_op_row_get(0, &row), 1);
  ck_assert_str_eq(row.mnemonic, "mov");
  ck_assert_str_eq(row.unit, "MOVE");
  ck_assert_int_eq(ts_op_row_get(ts_op_row_count(), &row), 0);
  ts_sim_free(sim);
}
END_TEST

/* Every executed instruction finds its row; what is a stand-in is said to be one. */
START_TEST(test_fidelity) {
  static const char *const folders[] = {"traces/softmax", "traces/layernorm",
                                        "traces/gemm_seed_sm80"};
  for (size_t k = 0; k < sizeof folders / sizeof *folders; k++) {
    struct ts_sim *sim = open_case(folders[k]);
    struct ts_fidelity_info info;
    ck_assert_uint_eq(ts_sim_fidelity_count(sim), 0);
    ck_assert_int_eq(ts_sim_run(sim, NULL), TS_RESULT_OK);
    ck_assert_uint_gt(ts_sim_fidelity_count(sim), 1);
    for (uint32_t i = 0; ts_sim_fidelity(sim, i, &info) == TS_RESULT_OK; i++) {
      ck_assert_str_ne(info.source, "no row in the table");
      ck_assert_ptr_null(strstr(info.what, "of f16, bf16")); /* all special functions are of f32 */
      ck_assert_uint_gt(info.insn_count, 0);
    }
    ts_sim_free(sim);
  }
}
END_TEST

static void run_everything(struct failing_allocator *memory, const char *folder) {
  const struct ts_memory_hooks hooks = {memory->allocator.resize, memory->allocator.user};
  const int64_t shape[1] = {5};
  float values[5] = {1, 2, 3, 4, 5};
  const struct ts_tensor tensor = {"f32", 1, shape, NULL, values, sizeof values};
  struct ts_sim *sim;
  enum ts_result result = ts_sim_create(&hooks, &sim);
  if (result == TS_RESULT_OK) result = ts_sim_open(sim, folder, TS_FAST_MATH_AUTO);
  if (result == TS_RESULT_OK) result = ts_sim_set_tensor(sim, "A", &tensor);
  if (result == TS_RESULT_OK) result = ts_sim_run(sim, NULL);
  if (result == TS_RESULT_OK && ts_sim_fidelity_count(sim) == 0) result = TS_RESULT_NO_MEMORY;
  ck_assert_int_eq(result, memory->failed ? TS_RESULT_NO_MEMORY : TS_RESULT_OK);
  ts_sim_free(sim);
}

START_TEST(test_out_of_memory) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++)
    run_everything(&memory, DYNAMIC);
}
END_TEST

int main(void) {
  return RUN_TESTS(
      "api", test_parameters, test_default_arguments_give_golden_bits, test_tensors_from_memory,
      test_wrong_arguments, test_null_tensors, test_other_dtype_is_refused_by_the_host,
      test_symbols, test_memory_limit, test_schedules_workers_and_events_do_not_change_bits,
      test_events_say_what_happened, test_outputs_as_files, test_two_simulations_side_by_side,
      test_without_a_case, test_ir_and_op_rows, test_fidelity, test_out_of_memory);
}
