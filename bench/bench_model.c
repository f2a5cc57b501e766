/* Speed of the timing model.
 *
 *   bench_model CASE...       opens and times each case folder: processor seconds, events, peak memory
 *   bench_model -e CASE...    also writes all events to a file and feeds the model from it: events a
 *                             second of the recorder (what reading costs is taken off), and of the rest:
 *                             the L2 pass over all blocks and the SM with its own, hot and cold.
 *
 * Aims: 10 million events a second; 4096^3 in tiles within a second. */
#include "model_nv/model_nv.h"
#include "tilesim/tilesim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Processor time: what other programs do does not count. */
static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double peak_mb(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024;
}

static void fail(struct ts_sim *sim, const char *folder, enum ts_result result) {
  struct ts_diagnostic diagnostic;
  bool is_told = ts_sim_diagnostic(sim, 0, &diagnostic) == TS_RESULT_OK;
  fprintf(stderr, "%s: %s\n", folder, is_told ? diagnostic.message : ts_result_text(result));
}

static const char *base_name(const char *folder) {
  const char *slash = strrchr(folder, '/');
  return slash && slash[1] ? slash + 1 : folder;
}

static void print_case(const char *folder, const struct ts_time *time, double open_seconds,
                       double time_seconds) {
  uint64_t event_count = 0, block_count = 0;
  for (uint32_t i = 0; i < time->launch_count; i++) {
    event_count += time->launches[i].event_count;
    block_count += time->launches[i].block_count;
  }
  printf(
      "%-44s open %.3f s, time %.3f s, %8.0f k events told of %7llu blocks, %.1f us, peak %.0f MB\n",
      base_name(folder), open_seconds, time_seconds, (double)event_count / 1e3,
      (unsigned long long)block_count, time->kernel_us, peak_mb());
}

/* --- from a file */

static bool replay(struct ts_ctx *ctx, const char *path, const struct ts_machine *machine,
                   double *seconds, double *finish_seconds, uint64_t *told, double *simulated) {
  struct ts_trace_reader *reader;
  struct ts_model_nv *model = NULL;
  struct ts_sink *sink = &ts_sink_null;
  const struct ts_time_report *report;
  double start = now();
  if (ts_trace_reader_open(ctx, path, &reader) != TS_OK) return false;
  struct ts_model_nv_options options = {.machine = machine};
  enum ts_status status = TS_OK;
  if (machine) status = ts_model_nv_open(ctx, &options, ts_trace_reader_program(reader), &model);
  if (model) sink = ts_model_nv_sink(model);
  if (status == TS_OK) status = ts_trace_replay(ctx, reader, sink);
  *seconds = now() - start;
  start = now();
  if (model && status == TS_OK) status = ts_model_nv_finish(model, &report);
  *finish_seconds = now() - start;
  for (uint32_t i = 0; model && status == TS_OK && i < report->launch_count; i++) {
    const struct ts_launch_report *launch = &report->launches[i];
    *told += launch->event_count;
    *simulated += 2.0 * (double)launch->event_count * (double)launch->simulated_block_count /
                  (double)launch->block_count;
  }
  ts_model_nv_close(model);
  ts_trace_reader_close(reader);
  return status == TS_OK;
}

static bool measure_file(const char *folder, const char *path) {
  struct ts_diag_list diags;
  struct ts_machine machine;
  double read_seconds, seconds, finish_seconds, simulated = 0;
  uint64_t told = 0;
  if (ts_diag_list_init(&diags, &ts_allocator_libc) != TS_OK) return false;
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  ts_machine_default(&machine);
  bool is_fine = replay(&ctx, path, NULL, &read_seconds, &finish_seconds, &told, &simulated) &&
                 replay(&ctx, path, &machine, &seconds, &finish_seconds, &told, &simulated);
  if (is_fine)
    printf("%-44s reader %.1f M/s, recorder %.1f M/s, L2 and SM %.2f M/s (%.0f k events)\n",
           base_name(folder), (double)told / read_seconds / 1e6,
           (double)told / (seconds - read_seconds) / 1e6, simulated / finish_seconds / 1e6,
           (double)told / 1e3);
  else
    fprintf(stderr, "%s: %s\n", folder,
            diags.items.count ? diags.items.data[0].message : "no timing");
  ts_diag_list_free(&diags);
  return is_fine;
}

static bool measure_case(const char *folder, bool with_file) {
  struct ts_sim *sim;
  const struct ts_time *time;
  char path[] = "/tmp/tilesim-bench-XXXXXX";
  if (ts_sim_create(NULL, &sim) != TS_RESULT_OK) return false;
  double start = now();
  enum ts_result result = ts_sim_open(sim, folder, TS_FAST_MATH_AUTO);
  double opened = now();
  if (result == TS_RESULT_OK) result = ts_sim_time(sim, NULL, &time);
  if (result == TS_RESULT_OK) print_case(folder, time, opened - start, now() - opened);
  if (result == TS_RESULT_OK && with_file) {
    int descriptor = mkstemp(path);
    struct ts_run_settings settings = {.events_path = path};
    if (descriptor >= 0) close(descriptor);
    result = ts_sim_run(sim, &settings);
    if (result == TS_RESULT_OK) measure_file(folder, path);
    unlink(path);
  }
  if (result != TS_RESULT_OK) fail(sim, folder, result);
  ts_sim_free(sim);
  return result == TS_RESULT_OK;
}

int main(int argument_count, char **arguments) {
  bool with_file = argument_count > 1 && strcmp(arguments[1], "-e") == 0, is_fine = true;
  int first = with_file ? 2 : 1;
  if (first >= argument_count) {
    fprintf(stderr, "usage: bench_model [-e] CASE...\n");
    return 2;
  }
  for (int i = first; i < argument_count; i++)
    is_fine &= measure_case(arguments[i], with_file);
  return is_fine ? 0 : 1;
}
