/* ts_sim_time: addresses alone, all values and event files give the same times and spans; what it
 * refuses; files that are whole or absent. Tests run in the root of the tree. */
#include "support/failing_allocator.h"
#include "support/suite.h"
#include "tilesim/tilesim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const cases[] = {
    "traces/add_dynamic_1000",   "traces/softmax",
    "traces/layernorm",          "traces/gemm_64x64x32_s2",
    "traces/gemm_sparse24_sm80", "traces/transpose_swizzled",
    "traces/gemm_multicast",     "traces/copy_oob_safe",
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

static struct ts_sim *open_case(const char *folder) {
  struct ts_sim *sim;
  ck_assert_int_eq(ts_sim_create(NULL, &sim), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_open(sim, folder, TS_FAST_MATH_AUTO), TS_RESULT_OK);
  return sim;
}

static void make_name(char name[64], const char *what) {
  snprintf(name, 64, "/tmp/tilesim-test-time-%ld-%s", (long)getpid(), what);
}

static char *read_file(const char *path, size_t *size_bytes) {
  FILE *file = fopen(path, "rb");
  ck_assert_ptr_nonnull(file);
  ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
  *size_bytes = (size_t)ftell(file);
  rewind(file);
  char *data = malloc(*size_bytes + 1);
  ck_assert_ptr_nonnull(data);
  ck_assert_uint_eq(fread(data, 1, *size_bytes, file), *size_bytes);
  data[*size_bytes] = '\0';
  fclose(file);
  return data;
}

static void expect_equal_files(const char *a, const char *b) {
  size_t a_bytes, b_bytes;
  char *a_data = read_file(a, &a_bytes), *b_data = read_file(b, &b_bytes);
  ck_assert_uint_eq(a_bytes, b_bytes);
  ck_assert_msg(memcmp(a_data, b_data, a_bytes) == 0, "%s and %s differ", a, b);
  free(a_data);
  free(b_data);
}

struct answer {
  double kernel_us, kernel_us_cold, cycles;
};

/* Times the case; spans go to the file. */
static struct answer time_case(const char *folder, const char *events, int full_run,
                               const char *spans) {
  struct ts_sim *sim = open_case(folder);
  const struct ts_time *time;
  struct ts_time_settings settings = {
      .events_path = events, .full_run = full_run, .spans_path = spans};
  ck_assert_int_eq(ts_sim_time(sim, &settings, &time), TS_RESULT_OK);
  struct answer answer = {time->kernel_us, time->kernel_us_cold, time->cycles};
  ts_sim_free(sim);
  return answer;
}

static void expect_equal(const struct answer *a, const struct answer *b, const char *what) {
  ck_assert_msg(a->kernel_us == b->kernel_us, "%s: %.9f and %.9f us", what, a->kernel_us,
                b->kernel_us);
  ck_assert_msg(a->kernel_us_cold == b->kernel_us_cold, "%s, cold", what);
  ck_assert_msg(a->cycles == b->cycles, "%s, cycles", what);
}

START_TEST(test_addresses_values_and_events_agree) {
  char events[64], short_spans[64], full_spans[64], file_spans[64];
  make_name(events, "events");
  make_name(short_spans, "short");
  make_name(full_spans, "full");
  make_name(file_spans, "file");
  for (int i = 0; i < CASE_COUNT; i++) {
    struct ts_sim *sim = open_case(cases[i]);
    struct ts_run_settings settings = {.events_path = events};
    ck_assert_int_eq(ts_sim_run(sim, &settings), TS_RESULT_OK);
    ts_sim_free(sim);
    struct answer few = time_case(cases[i], NULL, 0, short_spans);
    struct answer full = time_case(cases[i], NULL, 1, full_spans);
    struct answer file = time_case(cases[i], events, 0, file_spans);
    ck_assert_msg(few.kernel_us > 1.3 && few.kernel_us < 100, "%s: %f us", cases[i], few.kernel_us);
    expect_equal(&few, &full, cases[i]);
    expect_equal(&few, &file, cases[i]);
    expect_equal_files(short_spans, full_spans);
    expect_equal_files(short_spans, file_spans);
  }
  unlink(events);
  unlink(short_spans);
  unlink(full_spans);
  unlink(file_spans);
}
END_TEST

/* What the parts of a report must add up to. */
static void check_launch(const struct ts_time_launch *launch) {
  ck_assert_uint_gt(launch->block_count, 0);
  ck_assert_uint_gt(launch->blocks_per_sm, 0);
  ck_assert(launch->cycles > 0 && launch->kernel_us > 0 && launch->cold_us > 0);
  double top = 0, limiting = -1;
  for (uint32_t i = 0; i < launch->unit_count; i++) {
    double share = launch->units[i].value;
    ck_assert_msg(share >= 0 && share <= 1, "%s: %f", launch->units[i].name, share);
    if (share > top) top = share;
    if (strcmp(launch->units[i].name, launch->limiting_unit) == 0) limiting = share;
  }
  ck_assert(limiting == top);
  uint32_t warps = 0;
  for (uint32_t i = 0; i < launch->role_count; i++) {
    const struct ts_time_role *role = &launch->roles[i];
    double life = role->issue_cycles;
    warps += role->warp_count;
    for (uint32_t s = 0; s < role->stall_count; s++) {
      if (s) ck_assert(role->stalls[s].value <= role->stalls[s - 1].value);
      life += role->stalls[s].value;
    }
    ck_assert_msg(life > 0 && life <= launch->cycles * 1.01, "%s: a life of %f in %f cycles",
                  role->name, life, launch->cycles);
  }
  ck_assert_uint_eq(warps, (launch->threads_per_block + 31) / 32);
}

START_TEST(test_report_adds_up) {
  for (int i = 0; i < CASE_COUNT; i++) {
    struct ts_sim *sim = open_case(cases[i]);
    const struct ts_time *time;
    double sum = 0;
    ck_assert_int_eq(ts_sim_time(sim, NULL, &time), TS_RESULT_OK);
    ck_assert_str_eq(time->machine, "h200-sxm");
    ck_assert_uint_ge(time->launch_count, 1);
    for (uint32_t n = 0; n < time->launch_count; n++) {
      check_launch(&time->launches[n]);
      sum += time->launches[n].kernel_us;
    }
    ck_assert_double_eq_tol(time->kernel_us, sum + time->launch_us, 1e-6);
    ck_assert(time->kernel_us_cold > time->kernel_us);
    ck_assert(time->uncertainty > 0 && time->uncertainty < 1);
    ts_sim_free(sim);
  }
}
END_TEST

static void expect_refusal(struct ts_sim *sim, enum ts_result wanted, const char *code,
                           const char *part, const struct ts_time_settings *settings) {
  const struct ts_time *time;
  struct ts_diagnostic diagnostic = {.code = "none", .message = ""};
  ck_assert_int_eq(ts_sim_time(sim, settings, &time), wanted);
  ck_assert_ptr_null(time);
  uint32_t count = ts_sim_diagnostic_count(sim);
  ck_assert_uint_gt(count, 0);
  ck_assert_int_eq(ts_sim_diagnostic(sim, count - 1, &diagnostic), TS_RESULT_OK);
  ck_assert_str_eq(diagnostic.code, code);
  ck_assert_msg(strstr(diagnostic.message, part) != NULL, "%s", diagnostic.message);
}

START_TEST(test_refusals) {
  struct ts_sim *sim;
  const struct ts_time *time;
  ck_assert_int_eq(ts_sim_create(NULL, &sim), TS_RESULT_OK);
  expect_refusal(sim, TS_RESULT_BAD_ARGUMENT, "TS-ARG-001", "no case is open", NULL);
  ts_sim_free(sim);
  sim = open_case("traces/gemm_64x64x32_s2");
  ck_assert_int_eq(ts_sim_set_machine(sim, NULL, "a100"), TS_RESULT_OK);
  expect_refusal(sim, TS_RESULT_UNSUPPORTED, "TS-TIME-002", "tma_issue", NULL);
  ck_assert_int_eq(ts_sim_set_machine(sim, NULL, "b200"), TS_RESULT_OK);
  expect_refusal(sim, TS_RESULT_UNSUPPORTED, "TS-TIME-002", "code with wgmma", NULL);
  ck_assert_int_eq(ts_sim_set_machine(sim, NULL, "h100"), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_time(sim, NULL, &time), TS_RESULT_OK);
  ck_assert_str_eq(time->machine, "h100-sxm");
  ck_assert_uint_gt(time->unverified_count, 20);
  struct ts_time_settings settings = {.spans_path = "/nowhere/spans"};
  expect_refusal(sim, TS_RESULT_IO, "TS-INPUT-004", "cannot open", &settings);
  settings = (struct ts_time_settings){.events_path = "/nowhere/events"};
  expect_refusal(sim, TS_RESULT_IO, "TS-INPUT-004", "cannot open", &settings);
  ts_sim_free(sim);
}
END_TEST

/* mma.sync and cp.async are what an A100 has too. */
START_TEST(test_code_for_sm80_runs_on_all) {
  static const char *const machines[] = {"a100",      "h100-pcie", "h100-sxm",
                                         "h800-pcie", "h200-sxm",  "b200"};
  struct ts_sim *sim = open_case("traces/gemm_seed_sm80");
  const struct ts_time *time;
  double us[6];
  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(ts_sim_set_machine(sim, NULL, machines[i]), TS_RESULT_OK);
    ck_assert_int_eq(ts_sim_time(sim, NULL, &time), TS_RESULT_OK);
    us[i] = time->kernel_us;
    ck_assert_msg(us[i] > 5 && us[i] < 60, "%s: %f us", machines[i], us[i]);
  }
  ck_assert(us[1] > us[2]); /* PCIe boards have the lower clock */
  ck_assert(us[3] > us[4]);
  ts_sim_free(sim);
}
END_TEST

/* 255 registers let fewer blocks on an SM than 32 do. */
START_TEST(test_registers) {
  struct ts_sim *sim = open_case("traces/softmax");
  const struct ts_time *time;
  struct ts_time_settings settings = {.registers_per_thread = 255};
  ck_assert_int_eq(ts_sim_time(sim, &settings, &time), TS_RESULT_OK);
  ck_assert_uint_eq(time->launches[0].registers_per_thread, 255);
  ck_assert(!time->launches[0].registers_are_estimated);
  ck_assert_uint_eq(time->launches[0].blocks_per_sm, 2); /* 8 warps of 8192 registers */
  settings.registers_per_thread = 32;
  ck_assert_int_eq(ts_sim_time(sim, &settings, &time), TS_RESULT_OK);
  ck_assert_uint_eq(time->launches[0].blocks_per_sm, 16);
  ts_sim_free(sim);
}
END_TEST

/* Tensors need memory only when addresses depend on them. */
START_TEST(test_memory_limit) {
  struct ts_sim *sim = open_case("traces/softmax");
  const struct ts_time *time;
  struct ts_time_settings settings = {.full_run = 1};
  ts_sim_set_memory_limit(sim, 1000);
  ck_assert_int_eq(ts_sim_time(sim, NULL, &time), TS_RESULT_OK);
  expect_refusal(sim, TS_RESULT_LIMIT, "TS-LIMIT-002", "the memory limit is 1000", &settings);
  ts_sim_free(sim);
}
END_TEST

/* The Chrome trace is whole, names its tracks, and a failed run leaves no file. */
START_TEST(test_chrome_trace) {
  char path[64];
  size_t size_bytes;
  make_name(path, "chrome");
  struct ts_sim *sim = open_case("traces/softmax");
  const struct ts_time *time;
  struct ts_time_settings settings = {.chrome_path = path};
  ck_assert_int_eq(ts_sim_time(sim, &settings, &time), TS_RESULT_OK);
  char *text = read_file(path, &size_bytes);
  ck_assert(strncmp(text, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", 39) == 0);
  ck_assert_str_eq(text + size_bytes - 4, "\n]}\n");
  ck_assert_ptr_nonnull(strstr(text, "\"launch 0, main_kernel, SM 0\""));
  ck_assert_ptr_nonnull(strstr(text, "\"block 0, warp 3\""));
  ck_assert_ptr_nonnull(strstr(text, "\"name\":\"long scoreboard\""));
  free(text);
  unlink(path);
  ck_assert_int_eq(ts_sim_set_machine(sim, NULL, "h200"), TS_RESULT_OK);
  settings.events_path = "/nowhere/events";
  ck_assert_int_eq(ts_sim_time(sim, &settings, &time), TS_RESULT_IO);
  ck_assert_int_ne(access(path, F_OK), 0);
  ts_sim_free(sim);
}
END_TEST

/* Every allocation fails once. */
static void time_it(struct failing_allocator *memory, const char *spans) {
  struct ts_memory_hooks hooks = {failing_allocator_resize, memory};
  struct ts_time_settings settings = {.spans_path = spans, .chrome_path = spans ? "/dev/null" : 0};
  const struct ts_time *time;
  struct ts_sim *sim;
  enum ts_result result = ts_sim_create(&hooks, &sim);
  if (result != TS_RESULT_OK) return;
  result = ts_sim_open(sim, "traces/add_dynamic_1000", TS_FAST_MATH_AUTO);
  if (result == TS_RESULT_OK) result = ts_sim_time(sim, &settings, &time);
  ck_assert_msg(result == TS_RESULT_OK || result == TS_RESULT_NO_MEMORY, "%s",
                ts_result_text(result));
  if (result != TS_RESULT_OK && spans) ck_assert_int_ne(access(spans, F_OK), 0);
  ts_sim_free(sim);
  if (spans) unlink(spans);
}

START_TEST(test_out_of_memory) {
  struct failing_allocator memory;
  char spans[64];
  make_name(spans, "memory");
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++)
    time_it(&memory, spans);
}
END_TEST

static void count_row(void *user, const struct ts_machine_row *row) {
  uint32_t *count = user;
  ck_assert(*row->key && *row->value && *row->unit && *row->tag && *row->source);
  ++*count;
}

START_TEST(test_machine_rows) {
  struct ts_sim *sim;
  struct ts_machine_info info;
  uint32_t machine_count = 0;
  ck_assert_int_eq(ts_sim_create(NULL, &sim), TS_RESULT_OK);
  for (uint32_t i = 0; ts_machine_name(i); i++, machine_count++) {
    uint32_t row_count = 0;
    ck_assert_int_eq(ts_sim_list_machine(sim, NULL, ts_machine_name(i), count_row, &row_count),
                     TS_RESULT_OK);
    ck_assert_uint_gt(row_count, 80); /* limits and constants, those inherited too */
    ts_sim_machine(sim, &info);
    ck_assert_str_eq(info.name, ts_machine_name(i));
  }
  ck_assert_uint_ge(machine_count, 6);
  ck_assert_int_eq(ts_sim_list_machine(sim, NULL, "z80", count_row, &machine_count),
                   TS_RESULT_BAD_ARGUMENT);
  ts_sim_free(sim);
}
END_TEST

int main(void) {
  return RUN_TESTS("api_time", test_addresses_values_and_events_agree, test_report_adds_up,
                   test_refusals, test_code_for_sm80_runs_on_all, test_registers, test_memory_limit,
                   test_chrome_trace, test_out_of_memory, test_machine_rows);
}
