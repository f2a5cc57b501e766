/* tilesim run: arguments, the run, and what is printed of it. */
#include "cli/cli_priv.h"

#include <string.h>
#include <unistd.h>

static const struct cli_option options[] = {
    {"--arg", NULL, "NAME=WHAT",
     "argument: FILE.npy, init:MODE[:SEED][@AxB..], null, or a number; may repeat"},
    {"--out", NULL, "DIR", "write every output as NAME.npy, and args.json"},
    {"--hash", NULL, NULL, "print 'NAME SHA256' for every output"},
    {"--machine", NULL, "NAME", "machine, or a .mach file (h200-sxm)"},
    {"--schedule", NULL, "S", "eager, lazy, random:SEED, last:WARP or explore:N (eager)"},
    {"--jobs", "-j", "N", "host threads (all processors)"},
    {"--events", NULL, "FILE", "write the event file; forces one thread"},
    {"--stats", NULL, NULL, "print what was executed"},
    {"--fidelity", NULL, NULL, "print how well results are known to agree with hardware"},
    {"--fast-math", NULL, "on|off", "whether nvcc was told --use_fast_math (launch.json)"},
    {"--format", NULL, "text|json", "form of the result (text)"},
    {NULL, NULL, NULL, NULL},
};

struct run_request {
  const struct cli_command *command;
  const char *folder, *out, *machine;
  struct cli_arguments arguments;
  struct ts_run_settings settings;
  enum ts_fast_math fast_math;
  bool wants_hash, wants_stats, wants_fidelity, is_json;
};

/* --- the request */

static bool take_fast_math(struct run_request *request, const char *value) {
  request->fast_math = strcmp(value, "on") == 0 ? TS_FAST_MATH_ON : TS_FAST_MATH_OFF;
  if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0) return true;
  cli_usage_error(request->command, "--fast-math: expected on or off, found '%s'", value);
  return false;
}

static bool take_jobs(struct run_request *request, const char *value) {
  unsigned long long number;
  if (!cli_number(request->command, "-j", value, 1, 256, &number)) return false;
  request->settings.worker_count = (uint32_t)number;
  return true;
}

static bool take_option(void *user, const char *name, const char *value) {
  struct run_request *request = user;
  if (strcmp(name, "--arg") == 0)
    return cli_take_argument(request->command, &request->arguments, value);
  if (strcmp(name, "--jobs") == 0) return take_jobs(request, value);
  if (strcmp(name, "--fast-math") == 0) return take_fast_math(request, value);
  if (strcmp(name, "--format") == 0) return cli_format(request->command, value, &request->is_json);
  if (strcmp(name, "--out") == 0)
    request->out = value;
  else if (strcmp(name, "--machine") == 0)
    request->machine = value;
  else if (strcmp(name, "--schedule") == 0)
    request->settings.schedule = value;
  else if (strcmp(name, "--events") == 0)
    request->settings.events_path = value;
  else if (strcmp(name, "--hash") == 0)
    request->wants_hash = true;
  else if (strcmp(name, "--stats") == 0)
    request->wants_stats = true;
  else if (strcmp(name, "--fidelity") == 0)
    request->wants_fidelity = true;
  return true;
}

/* --- results */

static bool has_outputs(enum ts_result result) {
  return result == TS_RESULT_OK || result == TS_RESULT_HAZARD;
}

static bool next_output(const struct ts_sim *sim, uint32_t *index, struct ts_parameter *parameter) {
  for (; ts_sim_parameter(sim, *index, parameter) == TS_RESULT_OK; ++*index) {
    if (!parameter->is_tensor || parameter->role == TS_ROLE_IN) continue;
    ++*index;
    return true;
  }
  return false;
}

static void print_outputs(struct ts_sim *sim, bool only_hash) {
  struct ts_parameter parameter;
  for (uint32_t i = 0; next_output(sim, &i, &parameter);) {
    char hash[TS_SHA256_TEXT_BYTES];
    struct ts_tensor tensor;
    if (ts_sim_sha256(sim, parameter.name, hash) != TS_RESULT_OK ||
        ts_sim_tensor(sim, parameter.name, &tensor) != TS_RESULT_OK)
      continue;
    printf("%s ", parameter.name);
    for (uint32_t d = 0; !only_hash && d < tensor.rank; d++)
      printf("%s%lld", d ? "x" : "", (long long)tensor.shape[d]);
    if (!only_hash) printf("%s%s ", tensor.rank ? " " : "", tensor.dtype);
    printf("%s\n", hash);
  }
}

static const struct {
  const char *name;
  size_t offset;
} statistics_rows[] = {
    {"launches", offsetof(struct ts_statistics, launches)},
    {"blocks", offsetof(struct ts_statistics, blocks)},
    {"warps", offsetof(struct ts_statistics, warps)},
    {"warp_insns", offsetof(struct ts_statistics, warp_insns)},
    {"lane_ops", offsetof(struct ts_statistics, lane_ops)},
    {"matrix_macs", offsetof(struct ts_statistics, matrix_macs)},
    {"tma_boxes", offsetof(struct ts_statistics, tma_boxes)},
    {"tma_bytes", offsetof(struct ts_statistics, tma_bytes)},
    {"tensor_bytes", offsetof(struct ts_statistics, tensor_bytes)},
};
enum { STATISTICS_COUNT = sizeof statistics_rows / sizeof *statistics_rows };

static unsigned long long statistics_value(const struct ts_statistics *statistics, size_t row) {
  uint64_t value;
  memcpy(&value, (const char *)statistics + statistics_rows[row].offset, sizeof value);
  return value;
}

static void print_statistics(const struct ts_sim *sim) {
  struct ts_statistics statistics;
  ts_sim_statistics(sim, &statistics);
  for (size_t i = 0; i < STATISTICS_COUNT; i++)
    printf("%-26s %14llu\n", statistics_rows[i].name, statistics_value(&statistics, i));
  for (uint32_t i = 0; i < ts_op_row_count(); i++) {
    struct ts_op_row row;
    unsigned long long count = ts_sim_op_executed(sim, i);
    if (count && ts_op_row_get(i, &row)) printf("%-26s %14llu\n", row.mnemonic, count);
  }
}

static void print_fidelity(struct ts_sim *sim) {
  uint32_t count = ts_sim_fidelity_count(sim);
  for (uint32_t i = 0; i < count; i++) {
    struct ts_fidelity_info info;
    if (ts_sim_fidelity(sim, i, &info) != TS_RESULT_OK) continue;
    printf("%-9s %5u insns  %s [%s]\n", info.level, info.insn_count, info.what, info.source);
  }
}

static void json_outputs(struct ts_sim *sim) {
  struct ts_parameter parameter;
  const char *separator = "";
  printf(",\n  \"outputs\": [");
  for (uint32_t i = 0; next_output(sim, &i, &parameter); separator = ",") {
    char hash[TS_SHA256_TEXT_BYTES];
    struct ts_tensor tensor;
    if (ts_sim_sha256(sim, parameter.name, hash) != TS_RESULT_OK ||
        ts_sim_tensor(sim, parameter.name, &tensor) != TS_RESULT_OK)
      continue;
    printf("%s\n    {\"name\": ", separator);
    cli_json_text(stdout, parameter.name);
    printf(", \"dtype\": \"%s\", \"shape\": [", tensor.dtype);
    for (uint32_t d = 0; d < tensor.rank; d++)
      printf("%s%lld", d ? ", " : "", (long long)tensor.shape[d]);
    printf("], \"sha256\": \"%s\"}", hash);
  }
  printf("\n  ]");
}

static void json_statistics(const struct ts_sim *sim) {
  struct ts_statistics statistics;
  const char *separator = "";
  ts_sim_statistics(sim, &statistics);
  printf(",\n  \"statistics\": {");
  for (size_t i = 0; i < STATISTICS_COUNT; i++)
    printf("\"%s\": %llu, ", statistics_rows[i].name, statistics_value(&statistics, i));
  printf("\"ops\": {");
  for (uint32_t i = 0; i < ts_op_row_count(); i++) {
    struct ts_op_row row;
    unsigned long long count = ts_sim_op_executed(sim, i);
    if (!count || !ts_op_row_get(i, &row)) continue;
    printf("%s\"%s\": %llu", separator, row.mnemonic, count);
    separator = ", ";
  }
  printf("}}");
}

static void json_fidelity(struct ts_sim *sim) {
  uint32_t count = ts_sim_fidelity_count(sim);
  printf(",\n  \"fidelity\": [");
  for (uint32_t i = 0; i < count; i++) {
    struct ts_fidelity_info info;
    if (ts_sim_fidelity(sim, i, &info) != TS_RESULT_OK) continue;
    printf("%s\n    {\"what\": ", i ? "," : "");
    cli_json_text(stdout, info.what);
    printf(", \"level\": \"%s\", \"insns\": %u, \"source\": ", info.level, info.insn_count);
    cli_json_text(stdout, info.source);
    printf("}");
  }
  printf("\n  ]");
}

static void print_json(struct ts_sim *sim, const struct run_request *request,
                       enum ts_result result) {
  printf("{\n  \"case\": ");
  cli_json_text(stdout, request->folder);
  printf(",\n  \"status\": %d,\n  \"result\": ", ts_result_exit_status(result));
  cli_json_text(stdout, ts_result_text(result));
  if (has_outputs(result)) json_outputs(sim);
  if (has_outputs(result) && request->wants_stats) json_statistics(sim);
  if (has_outputs(result) && request->wants_fidelity) json_fidelity(sim);
  printf(",\n  \"diagnostics\": ");
  cli_json_diagnostics(stdout, sim);
  printf("\n}\n");
}

static void print_text(struct ts_sim *sim, const struct run_request *request,
                       enum ts_result result) {
  cli_print_diagnostics(sim);
  if (!has_outputs(result)) return;
  print_outputs(sim, request->wants_hash);
  if (request->wants_stats) print_statistics(sim);
  if (request->wants_fidelity) print_fidelity(sim);
}

static enum ts_result execute(struct ts_sim *sim, struct run_request *request) {
  enum ts_result result = cli_set_machine(sim, request->machine);
  if (result == TS_RESULT_OK) result = ts_sim_open(sim, request->folder, request->fast_math);
  if (result == TS_RESULT_OK) result = cli_set_arguments(sim, &request->arguments);
  if (result != TS_RESULT_OK) return result;
  result = cli_run_shown(sim, &request->settings);
  if (!has_outputs(result) || !request->out) return result;
  enum ts_result written = ts_sim_write_outputs(sim, request->out);
  return written != TS_RESULT_OK ? written : result;
}

static int run(const struct cli_command *command, int argc, char **argv) {
  long processors = sysconf(_SC_NPROCESSORS_ONLN);
  struct run_request request = {.command = command};
  request.settings.worker_count = processors > 0 && processors < 256 ? (uint32_t)processors : 1;
  int status = cli_parse(command, argc, argv, take_option, &request, &request.folder);
  if (status >= 0) return status;
  if (!request.folder) return cli_usage_error(command, "which case folder?");
  struct ts_sim *sim = cli_create();
  if (!sim) return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  enum ts_result result = execute(sim, &request);
  if (request.is_json)
    print_json(sim, &request, result);
  else
    print_text(sim, &request, result);
  return cli_finish(sim, result);
}

const struct cli_command cli_command_run = {
    .name = "run",
    .synopsis = "run CASE [options]",
    .summary = "run a case folder and print its outputs' hashes",
    .example = "tilesim run traces/gemm_seed --hash\n"
               "         tilesim run traces/add_f32_ragged --arg A=init:uniform:7 --out /tmp/out",
    .operand = "CASE",
    .options = options,
    .run = run,
};
