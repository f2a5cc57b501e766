/* tilesim check: a run with all hazard checks, told as text, JSON or SARIF. */
#include "cli/cli_priv.h"

#include <string.h>

static const struct cli_option options[] = {
    {"--arg", NULL, "NAME=WHAT",
     "argument: FILE.npy, init:MODE[:SEED][@AxB..], null, or a number; may repeat"},
    {"--machine", NULL, "NAME", "machine, or a .mach file (h200-sxm)"},
    {"--schedule", NULL, "S",
     "eager, lazy, random:SEED, last:WARP or explore:N, which tries many (eager)"},
    {"--numeric", NULL, NULL, "remark where NaNs and infinities are born and sums cancel"},
    {"--remarks", NULL, NULL, "remark on bank conflicts, uncoalesced accesses, divergence"},
    {"--fast-math", NULL, "on|off", "whether nvcc was told --use_fast_math (launch.json)"},
    {"--format", NULL, "text|json|sarif", "form of the result (text)"},
    {NULL, NULL, NULL, NULL},
};

enum format { FORMAT_TEXT, FORMAT_JSON, FORMAT_SARIF };

struct check_request {
  const struct cli_command *command;
  const char *folder, *machine;
  struct cli_arguments arguments;
  struct ts_run_settings settings;
  enum ts_fast_math fast_math;
  enum format format;
};

static bool take_word(const struct check_request *request, const char *option, const char *value,
                      const char *const *words, int *index) {
  for (*index = 0; words[*index]; ++*index)
    if (strcmp(words[*index], value) == 0) return true;
  char known[64];
  size_t used = 0;
  for (int i = 0; words[i] && used < sizeof known; i++)
    used += (size_t)snprintf(known + used, sizeof known - used, "%s%s",
                             i == 0         ? ""
                             : words[i + 1] ? ", "
                                            : " or ",
                             words[i]);
  cli_usage_error(request->command, "%s: expected %s, found '%s'", option, known, value);
  return false;
}

static bool take_option(void *user, const char *name, const char *value) {
  struct check_request *request = user;
  static const char *const formats[] = {"text", "json", "sarif", NULL};
  static const char *const switches[] = {"off", "on", NULL};
  int index;
  if (strcmp(name, "--arg") == 0)
    return cli_take_argument(request->command, &request->arguments, value);
  if (strcmp(name, "--format") == 0) {
    if (!take_word(request, name, value, formats, &index)) return false;
    request->format = (enum format)index;
  } else if (strcmp(name, "--fast-math") == 0) {
    if (!take_word(request, name, value, switches, &index)) return false;
    request->fast_math = index ? TS_FAST_MATH_ON : TS_FAST_MATH_OFF;
  } else if (strcmp(name, "--machine") == 0) {
    request->machine = value;
  } else if (strcmp(name, "--schedule") == 0) {
    request->settings.schedule = value;
  } else if (strcmp(name, "--numeric") == 0) {
    request->settings.check_numbers = 1;
  } else if (strcmp(name, "--remarks") == 0) {
    request->settings.check_speed = 1;
  }
  return true;
}

static enum ts_result execute(struct ts_sim *sim, struct check_request *request) {
  enum ts_result result = cli_set_machine(sim, request->machine);
  if (result == TS_RESULT_OK) result = ts_sim_open(sim, request->folder, request->fast_math);
  if (result == TS_RESULT_OK) result = cli_set_arguments(sim, &request->arguments);
  return result == TS_RESULT_OK ? cli_run_shown(sim, &request->settings) : result;
}

static void count_severities(const struct ts_sim *sim, uint32_t *hazards, uint32_t *remarks) {
  *hazards = *remarks = 0;
  for (uint32_t i = 0; i < ts_sim_diagnostic_count(sim); i++) {
    struct ts_diagnostic diagnostic;
    if (ts_sim_diagnostic(sim, i, &diagnostic) != TS_RESULT_OK) continue;
    *remarks += strcmp(diagnostic.severity, "remark") == 0;
    *hazards += strcmp(diagnostic.severity, "hazard") == 0;
  }
}

static const char *plural(uint32_t count) { return count == 1 ? "" : "s"; }

static void print_result(const struct ts_sim *sim, const struct check_request *request,
                         enum ts_result result) {
  uint32_t hazards, remarks;
  if (request->format == FORMAT_SARIF) {
    cli_sarif(stdout, sim);
    return;
  }
  count_severities(sim, &hazards, &remarks);
  if (request->format == FORMAT_TEXT) {
    cli_print_diagnostics(sim);
    printf("%s: %s, %u hazard%s, %u remark%s\n", request->folder, ts_result_text(result), hazards,
           plural(hazards), remarks, plural(remarks));
    return;
  }
  printf("{\n  \"case\": ");
  cli_json_text(stdout, request->folder);
  printf(",\n  \"status\": %d,\n  \"result\": ", ts_result_exit_status(result));
  cli_json_text(stdout, ts_result_text(result));
  printf(",\n  \"hazards\": %u,\n  \"remarks\": %u,\n  \"diagnostics\": ", hazards, remarks);
  cli_json_diagnostics(stdout, sim);
  printf("\n}\n");
}

static int check(const struct cli_command *command, int argc, char **argv) {
  struct check_request request = {.command = command, .settings = {.checks = 1}};
  int status = cli_parse(command, argc, argv, take_option, &request, &request.folder);
  if (status >= 0) return status;
  if (!request.folder) return cli_usage_error(command, "which case folder?");
  struct ts_sim *sim = cli_create();
  if (!sim) return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  enum ts_result result = execute(sim, &request);
  print_result(sim, &request, result);
  return cli_finish(sim, result);
}

const struct cli_command cli_command_check = {
    .name = "check",
    .synopsis = "check CASE [options]",
    .summary = "run a case folder with all hazard checks",
    .example = "tilesim check traces/gemm_seed\n"
               "         tilesim check traces/softmax --schedule explore:20 --format sarif",
    .operand = "CASE",
    .options = options,
    .run = check,
};
