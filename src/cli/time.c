/* tilesim time: how long a case would take, and why. */
#include "cli/cli_priv.h"

#include <string.h>

static const struct cli_option options[] = {
    {"--machine", NULL, "NAME", "machine, or a .mach file (h200-sxm)"},
    {"--arg", NULL, "NAME=WHAT",
     "argument: FILE.npy, init:MODE[:SEED][@AxB..], null, or a number; may repeat"},
    {"--registers", NULL, "N", "registers a thread has (estimated from the code)"},
    {"--fast-math", NULL, "on|off", "whether nvcc was told --use_fast_math (launch.json)"},
    {"--events", NULL, "FILE", "time an event file of 'tilesim run --events' instead of a case"},
    {"--full", NULL, NULL, "compute all values, not only addresses and control flow; slow"},
    {"--spans", NULL, "FILE", "write what happened when on which unit (docs/timing.md)"},
    {"--trace", NULL, "FILE", "the same as a Chrome trace, for ui.perfetto.dev"},
    {"--format", NULL, "text|json", "form of the result (text)"},
    {NULL, NULL, NULL, NULL},
};

struct time_request {
  const struct cli_command *command;
  const char *folder, *machine;
  struct cli_arguments arguments;
  struct ts_time_settings settings;
  enum ts_fast_math fast_math;
  bool is_json;
};

static bool take_fast_math(struct time_request *request, const char *value) {
  request->fast_math = strcmp(value, "on") == 0 ? TS_FAST_MATH_ON : TS_FAST_MATH_OFF;
  if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0) return true;
  cli_usage_error(request->command, "--fast-math: expected on or off, found '%s'", value);
  return false;
}

static bool take_option(void *user, const char *name, const char *value) {
  struct time_request *request = user;
  unsigned long long number;
  if (strcmp(name, "--arg") == 0)
    return cli_take_argument(request->command, &request->arguments, value);
  if (strcmp(name, "--format") == 0) return cli_format(request->command, value, &request->is_json);
  if (strcmp(name, "--fast-math") == 0) return take_fast_math(request, value);
  if (strcmp(name, "--machine") == 0) request->machine = value;
  if (strcmp(name, "--events") == 0) request->settings.events_path = value;
  if (strcmp(name, "--spans") == 0) request->settings.spans_path = value;
  if (strcmp(name, "--trace") == 0) request->settings.chrome_path = value;
  if (strcmp(name, "--full") == 0) request->settings.full_run = 1;
  if (strcmp(name, "--registers") != 0) return true;
  if (!cli_number(request->command, name, value, 1, 255, &number)) return false;
  request->settings.registers_per_thread = (uint32_t)number;
  return true;
}

static enum ts_result execute(struct ts_sim *sim, struct time_request *request,
                              const struct ts_time **time) {
  enum ts_result result = cli_set_machine(sim, request->machine);
  if (request->folder) {
    if (result == TS_RESULT_OK) result = ts_sim_open(sim, request->folder, request->fast_math);
    if (result == TS_RESULT_OK) result = cli_set_arguments(sim, &request->arguments);
  }
  return result == TS_RESULT_OK ? cli_time_shown(sim, &request->settings, time) : result;
}

static void print_json(struct ts_sim *sim, const char *what, enum ts_result result,
                       const struct ts_time *time) {
  printf("{\n  \"case\": ");
  cli_json_text(stdout, what);
  printf(",\n  \"status\": %d,\n  \"result\": ", ts_result_exit_status(result));
  cli_json_text(stdout, ts_result_text(result));
  if (result == TS_RESULT_OK) cli_json_time(stdout, time);
  printf(",\n  \"diagnostics\": ");
  cli_json_diagnostics(stdout, sim);
  printf("\n}\n");
}

static bool is_same_path(const char *a, const char *b) { return a && b && strcmp(a, b) == 0; }

/* -1 when the options go together, else the exit status. */
static int check_options(const struct time_request *request) {
  const struct cli_command *command = request->command;
  const struct ts_time_settings *settings = &request->settings;
  const char *idle = NULL;
  if (!request->folder && !settings->events_path)
    return cli_usage_error(command, "which case folder?");
  if (request->folder && settings->events_path)
    return cli_usage_error(command, "a case or --events, not both");
  if (request->fast_math != TS_FAST_MATH_AUTO) idle = "--fast-math";
  if (request->arguments.count) idle = "--arg";
  if (settings->full_run) idle = "--full";
  if (settings->events_path && idle)
    return cli_usage_error(command, "%s does not go with --events: nothing is run", idle);
  if (is_same_path(settings->spans_path, settings->chrome_path))
    return cli_usage_error(command, "--spans and --trace: '%s' cannot be both",
                           settings->spans_path);
  return -1;
}

static int time_command(const struct cli_command *command, int argc, char **argv) {
  struct time_request request = {.command = command};
  int status = cli_parse(command, argc, argv, take_option, &request, &request.folder);
  if (status >= 0) return status;
  status = check_options(&request);
  if (status >= 0) return status;
  struct ts_sim *sim = cli_create();
  if (!sim) return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  const struct ts_time *time = NULL;
  const char *what = request.folder ? request.folder : request.settings.events_path;
  enum ts_result result = execute(sim, &request, &time);
  if (request.is_json) {
    print_json(sim, what, result, time);
  } else {
    cli_print_diagnostics(sim);
    if (result == TS_RESULT_OK) cli_print_time(sim, time, what);
  }
  return cli_finish(sim, result);
}

const struct cli_command cli_command_time = {
    .name = "time",
    .synopsis = "time CASE [options]",
    .summary = "tell how long a case would take on a machine, and why (docs/timing.md)",
    .example = "tilesim time traces/gemm_seed --machine h200\n"
               "         tilesim time traces/softmax --format json\n"
               "         tilesim time traces/softmax --trace /tmp/softmax.json",
    .operand = "CASE",
    .options = options,
    .run = time_command,
};
