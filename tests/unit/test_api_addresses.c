/* Address-only runs on the corpus: their events are those of full runs, repetitions included. */
#include "api/api_priv.h"
#include "support/stream.h"
#include "support/suite.h"

#include <stdio.h>
#include <unistd.h>

enum { PATH_BYTES = 512 };

/* needs: names of the tensors that control or addresses depend on, in order, each with a blank.
 * repeats: blocks that are not run. */
static const struct {
  const char *name, *needs;
  uint32_t repeats;
} cases[] = {
    {"add_bf16_staged", "", 127},
    {"attention", "", 7},
    {"attention_causal", "", 4},
    {"attention_gqa", "", 12},
    {"attention_sm80", "", 3},
    {"atomic_ticket", "counter ", 0},
    {"collatz", "X ", 0},
    {"conv2d_3x3", "", 3},
    {"conv2d_3x3_sm80", "", 1},
    {"copy_cp_async", "", 15},
    {"copy_oob_i32", "", 1},
    {"gemm_1000", "", 60},
    {"gemm_1000_nows", "", 60},
    {"gemm_a_in_registers", "", 7},
    {"gemm_block_skip", "keep ", 12},
    {"gemm_by_hand", "", 3},
    {"gemm_dequant4_sm80", "", 7},
    {"gemm_dyn_mnk_200x136x72", "", 8},
    {"gemm_grouped", "group_of ", 31},
    {"gemm_multicast", "", 0},
    {"gemm_persistent_7", "", 0},
    {"gemm_raster8", "", 63},
    {"gemm_seed_sm75_simple", "", 3},
    {"gemm_seed_sm100", "", 63},
    {"gemm_sparse24", "", 3},
    {"gemm_splitk_tile", "", 63},
    {"gemv_batched", "", 31},
    {"histogram", "X ", 0},
    {"quant_e4m3", "", 63},
    {"softmax_online", "", 63},
    {"stencil", "", 0},
    {"transpose_swizzled", "", 15},
};

static void run(const char *folder, bool addresses_only, enum ts_schedule_kind schedule,
                struct stream *stream, char needs[PATH_BYTES]) {
  struct ts_sim *sim;
  ck_assert_int_eq(ts_sim_create(NULL, &sim), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_open(sim, folder, TS_FAST_MATH_AUTO), TS_RESULT_OK);
  ts__run_clear(sim);
  sim->addresses_only = addresses_only;
  ck_assert_int_eq(ts__prepare_run(sim), TS_RESULT_OK);
  needs[0] = 0;
  for (size_t i = 1; i < sim->memory.allocations.count; i++)
    if (sim->memory.allocations.data[i].data) {
      strncat(needs, sim->memory.allocations.data[i].name, 64);
      strcat(needs, " ");
    }
  stream_begin(stream, addresses_only);
  for (uint32_t i = 0; i < sim->plan.launch_count; i++) {
    const uint32_t *grid = sim->plan.launches[i].grid;
    stream_add_launch(stream, grid[0] * grid[1] * grid[2]);
  }
  struct ts_run_options options = {.machine = &sim->machine,
                                   .schedule = schedule,
                                   .worker_count = 1,
                                   .sink = &stream->sink,
                                   .addresses_only = addresses_only};
  /* A kernel with hazards is told to its end as well. */
  enum ts_status status = ts_interp_run(&sim->ctx, ts_tvm_module(sim->tvm), &sim->plan,
                                        &sim->memory, &options, &sim->stats);
  ck_assert(status == TS_OK || status == TS_HAZARD);
  ts_sim_free(sim);
}

START_TEST(test_corpus) {
  char folder[PATH_BYTES], needs[PATH_BYTES], unused[PATH_BYTES];
  const char *shared = getenv("TS_SHARED");
  struct stream full, short_run;
  snprintf(folder, sizeof folder, "%s/data/tilelang/cases/%s", shared ? shared : "../shared",
           cases[_i].name);
  if (access(folder, F_OK)) return; /* no corpus */
  run(folder, false, TS_SCHEDULE_EAGER, &full, unused);
  run(folder, true, TS_SCHEDULE_EAGER, &short_run, needs);
  stream_expect_equal(&full, &short_run, cases[_i].name);
  ck_assert_str_eq(needs, cases[_i].needs);
  ck_assert_uint_eq(short_run.repeat_count, cases[_i].repeats);
  stream_end(&full);
  stream_end(&short_run);
}
END_TEST

/* Whatever the order of warps and copies is, counting replays it. */
START_TEST(test_schedules) {
  static const enum ts_schedule_kind schedules[] = {TS_SCHEDULE_LAZY, TS_SCHEDULE_RANDOM};
  static const char *const names[] = {"attention_causal", "gemm_multicast", "gemm_seed_sm100",
                                      "gemm_splitk_tile", "gemm_by_hand",   "copy_cp_async",
                                      "gemm_sm80_s3",     "gemm_sparse24"};
  char folder[PATH_BYTES], unused[PATH_BYTES];
  const char *shared = getenv("TS_SHARED");
  snprintf(folder, sizeof folder, "%s/data/tilelang/cases/%s", shared ? shared : "../shared",
           names[_i / 2]);
  if (access(folder, F_OK)) return; /* no corpus */
  struct stream stream;
  run(folder, false, schedules[_i % 2], &stream, unused);
  stream_end(&stream);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("api addresses");
  TCase *tests = tcase_create("corpus");
  tcase_add_loop_test(tests, test_corpus, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_loop_test(tests, test_schedules, 0, 16);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed != 0;
}
