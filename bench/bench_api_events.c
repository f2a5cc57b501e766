/* Speed of event streams: warp instructions a CPU second that address-only runs tell to a sink which
 * keeps nothing, with every block run and with repetitions.
 *
 *   bench_api_events CASE... */
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct counter {
  struct ts_sink sink;
  uint64_t event_count, repeat_count;
};

static enum ts_status take_event(struct ts_sink *sink, struct ts_event *event,
                                 const struct ts_footprint *footprint) {
  (void)footprint;
  event->seq = ((struct counter *)sink)->event_count++;
  return TS_OK;
}

static enum ts_status take_repeat(struct ts_sink *sink, uint16_t launch, uint32_t block,
                                  uint32_t like_block, const struct ts_shift *shifts,
                                  uint32_t shift_count) {
  (void)launch, (void)block, (void)like_block, (void)shifts, (void)shift_count;
  ((struct counter *)sink)->repeat_count++;
  return TS_OK;
}

static double cpu_seconds(void) { return (double)clock() / CLOCKS_PER_SEC; }

static int run(const char *folder, bool repeats) {
  struct ts_sim *sim;
  struct counter counter = {.sink = {.emit = take_event, .repeat = repeats ? take_repeat : NULL}};
  if (ts_sim_create(NULL, &sim) != TS_RESULT_OK) return 3;
  enum ts_result result = ts_sim_open(sim, folder, TS_FAST_MATH_AUTO);
  if (result == TS_RESULT_OK) {
    ts__run_clear(sim);
    sim->addresses_only = true;
    result = ts__prepare_run(sim);
  }
  struct ts_run_options options = {
      .machine = &sim->machine, .worker_count = 1, .sink = &counter.sink, .addresses_only = true};
  double start = cpu_seconds();
  if (result == TS_RESULT_OK)
    result = (enum ts_result)ts_interp_run(&sim->ctx, ts_tvm_module(sim->tvm), &sim->plan,
                                           &sim->memory, &options, &sim->stats);
  double seconds = cpu_seconds() - start;
  uint64_t insn_count = 0;
  for (uint32_t i = 0; i < TS_OP_COUNT; i++)
    insn_count += sim->stats.op_count[i];
  printf("%s %s: %.4f s, %llu instructions, %.1f M/s, %llu events, %llu of %llu blocks repeated\n",
         folder, repeats ? "repeats" : "all", seconds, (unsigned long long)insn_count,
         seconds > 0 ? (double)insn_count / seconds / 1e6 : 0,
         (unsigned long long)counter.event_count, (unsigned long long)counter.repeat_count,
         (unsigned long long)sim->stats.block_count);
  ts_sim_free(sim);
  return result == TS_RESULT_OK || result == TS_RESULT_HAZARD ? 0 : 1;
}

int main(int argc, char **argv) {
  int failed = 0;
  for (int i = 1; i < argc; i++)
    failed |= run(argv[i], false) | run(argv[i], true);
  return failed;
}
