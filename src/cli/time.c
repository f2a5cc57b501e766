/* tilesim time: how long a case would take, and why. */
#include "cli/cli_priv.h"

#include <stdlib.h>
#include <string.h>

static const struct cli_option options[] = {
    {"--arg", NULL, "NAME=WHAT",
     "argument: FILE.npy, init:MODE[:SEED][@AxB..], null, or a number; may repeat"},
    {"--machine", NULL, "NAME", "machine, or a .mach file (h200-sxm)"},
    {"--registers", NULL, "N", "registers a thread has (estimated from the code)"},
    {"--fast-math", NULL, "on|off", "whether nvcc was told --use_fast_math (launch.json)"},
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

static bool take_option(void *user, const char *name, const char *value) {
  struct time_request *request = user;
  unsigned long long number;
  if (strcmp(name, "--arg") == 0)
    return cli_take_argument(request->command, &request->arguments, value);
  if (strcmp(name, "--format") == 0) return cli_format(request->command, value, &request->is_json);
  if (strcmp(name, "--machine") == 0) request->machine = value;
  if (strcmp(name, "--fast-math") == 0)
    request->fast_math = strcmp(value, "on") == 0 ? TS_FAST_MATH_ON : TS_FAST_MATH_OFF;
  if (strcmp(name, "--registers") != 0) return true;
  if (!cli_number(request->command, name, value, 1, 255, &number)) return false;
  request->settings.registers_per_thread = (uint32_t)number;
  return true;
}

static enum ts_result execute(struct ts_sim *sim, struct time_request *request,
                              const struct ts_time **time) {
  char folder[4096];
  enum ts_result result = TS_RESULT_OK;
  if (request->machine)
    result = ts_sim_set_machine(sim, cli_machine_folder(folder, sizeof folder), request->machine);
  if (result == TS_RESULT_OK) result = ts_sim_open(sim, request->folder, request->fast_math);
  if (result == TS_RESULT_OK) result = cli_set_arguments(sim, &request->arguments);
  return result == TS_RESULT_OK ? ts_sim_time(sim, &request->settings, time) : result;
}

static void print_launch(const struct ts_time_launch *launch) {
  printf("  %s: %llu blocks of %u threads, %u a SM (%s), %.2f waves, %u registers\n",
         launch->function, (unsigned long long)launch->block_count, launch->threads_per_block,
         launch->blocks_per_sm, launch->occupancy_limit, launch->wave_count,
         launch->registers_per_thread);
  printf("  cycles %.0f, prologue %.0f, steady %.0f, epilogue %.0f; limited by %s\n",
         launch->cycles, launch->prologue_cycles, launch->steady_cycles, launch->epilogue_cycles,
         launch->limiting_unit);
  printf("  L2 %.1f MB, hit %.1f %%, DRAM %.1f MB, %.1f %% of peak\n", launch->l2_bytes / 1e6,
         100 * launch->l2_hit_rate, launch->dram_bytes / 1e6, 100 * launch->peak_flop_share);
  for (uint32_t i = 0; i < launch->unit_count; i++)
    if (launch->units[i].value >= 0.005)
      printf("    %-18s %5.1f %%\n", launch->units[i].name, 100 * launch->units[i].value);
  for (uint32_t i = 0; i < launch->role_count; i++) {
    const struct ts_time_role *role = &launch->roles[i];
    printf("  %-16s issue %.0f", role->name, role->issue_cycles);
    for (uint32_t s = 0; s < role->stall_count && s < 4; s++)
      printf(", %s %.0f", role->stalls[s].name, role->stalls[s].value);
    printf("\n");
  }
}

static int time_command(const struct cli_command *command, int argc, char **argv) {
  struct time_request request = {.command = command};
  int status = cli_parse(command, argc, argv, take_option, &request, &request.folder);
  if (status >= 0) return status;
  if (!request.folder) return cli_usage_error(command, "which case folder?");
  struct ts_sim *sim = cli_create();
  if (!sim) return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  const struct ts_time *time;
  enum ts_result result = execute(sim, &request, &time);
  if (result != TS_RESULT_OK) {
    cli_print_diagnostics(sim);
    return cli_finish(sim, result);
  }
  if (request.is_json) {
    printf("{\"kernel_us\": %.4f, \"kernel_us_cold\": %.4f, \"cycles\": %.1f, \"machine\": ",
           time->kernel_us, time->kernel_us_cold, time->cycles);
    cli_json_text(stdout, time->machine);
    printf("}\n");
  } else {
    printf("%.3f us hot, %.3f us cold on %s at %.0f MHz\n", time->kernel_us, time->kernel_us_cold,
           time->machine, time->clock_mhz);
    for (uint32_t i = 0; i < time->launch_count; i++)
      print_launch(&time->launches[i]);
  }
  return cli_finish(sim, result);
}

const struct cli_command cli_command_time = {
    .name = "time",
    .synopsis = "CASE [options]",
    .summary = "tell how long a case would take on a machine, and why",
    .example = "tilesim time traces/gemm_seed --machine h200",
    .operand = "CASE",
    .options = options,
    .run = time_command,
};
