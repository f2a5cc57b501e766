/* What run and check share: arguments of the kernel, and a run with its progress bar. */
#include "cli/cli_priv.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- progress */

struct progress {
  struct timespec start;
  bool is_shown;
  int last_percent;
};

static double seconds_since(const struct timespec *start) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static void show_progress(void *user, uint64_t done_blocks, uint64_t all_blocks) {
  enum { WIDTH = 40 };
  struct progress *progress = user;
  if (all_blocks == 0 || (!progress->is_shown && seconds_since(&progress->start) < 1)) return;
  int percent = (int)(100 * (double)done_blocks / (double)all_blocks);
  if (progress->is_shown && percent == progress->last_percent) return;
  int filled = percent * WIDTH / 100;
  fprintf(stderr, "\r[%.*s%*s] %3d%% of %llu blocks", filled,
          "########################################", WIDTH - filled, "", percent,
          (unsigned long long)all_blocks);
  fflush(stderr);
  progress->is_shown = true;
  progress->last_percent = percent;
}

static void end_progress(const struct progress *progress) {
  if (progress->is_shown) fprintf(stderr, "\r%76s\r", "");
}

/* --- arguments */

bool cli_take_argument(const struct cli_command *command, struct cli_arguments *arguments,
                       const char *value) {
  const char *equals = strchr(value, '=');
  if (!equals || equals == value) {
    cli_usage_error(command, "--arg: expected NAME=WHAT, found '%s'", value);
    return false;
  }
  if (arguments->count == CLI_MAX_ARGUMENTS) {
    cli_usage_error(command, "--arg: more than %d arguments", CLI_MAX_ARGUMENTS);
    return false;
  }
  for (size_t i = 0; i < arguments->count; i++) {
    if (strncmp(arguments->texts[i], value, (size_t)(equals - value) + 1) != 0) continue;
    cli_usage_error(command, "--arg: %.*s is given twice", (int)(equals - value), value);
    return false;
  }
  arguments->texts[arguments->count++] = value;
  return true;
}

enum ts_result cli_set_arguments(struct ts_sim *sim, const struct cli_arguments *arguments) {
  for (size_t i = 0; i < arguments->count; i++) {
    char name[256];
    const char *text = arguments->texts[i], *equals = strchr(text, '=');
    snprintf(name, sizeof name, "%.*s", (int)(equals - text), text);
    enum ts_result result = ts_sim_set_text(sim, name, equals + 1);
    if (result != TS_RESULT_OK) return result;
  }
  return TS_RESULT_OK;
}

static void begin_progress(struct progress *progress) {
  *progress = (struct progress){.is_shown = false};
  clock_gettime(CLOCK_MONOTONIC, &progress->start);
}

enum ts_result cli_run_shown(struct ts_sim *sim, struct ts_run_settings *settings) {
  struct progress progress;
  begin_progress(&progress);
  if (isatty(STDERR_FILENO)) {
    settings->progress = show_progress;
    settings->progress_user = &progress;
  }
  enum ts_result result = ts_sim_run(sim, settings);
  end_progress(&progress);
  return result;
}

enum ts_result cli_time_shown(struct ts_sim *sim, struct ts_time_settings *settings,
                              const struct ts_time **time) {
  struct progress progress;
  begin_progress(&progress);
  if (isatty(STDERR_FILENO)) {
    settings->progress = show_progress;
    settings->progress_user = &progress;
  }
  enum ts_result result = ts_sim_time(sim, settings, time);
  end_progress(&progress);
  return result;
}
