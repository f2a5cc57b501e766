/* tilesim import and ops: what there is. */
#include "cli/cli_priv.h"

#include <string.h>

static const struct cli_option import_options[] = {
    {"--print-ir", NULL, NULL, "print the IR in text form instead of the parameters"},
    {"--fast-math", NULL, "on|off", "whether nvcc was told --use_fast_math (launch.json)"},
    {"--format", NULL, "text|json", "form of the list of parameters (text)"},
    {NULL, NULL, NULL, NULL},
};
static const struct cli_option list_options[] = {
    {"--format", NULL, "text|json", "form of the list (text)"},
    {NULL, NULL, NULL, NULL},
};

struct list_request {
  const struct cli_command *command;
  const char *operand;
  bool is_json, wants_ir;
  enum ts_fast_math fast_math;
};

static bool take_option(void *user, const char *name, const char *value) {
  struct list_request *request = user;
  if (strcmp(name, "--format") == 0) return cli_format(request->command, value, &request->is_json);
  if (strcmp(name, "--print-ir") == 0) request->wants_ir = true;
  if (strcmp(name, "--fast-math") != 0) return true;
  request->fast_math = strcmp(value, "on") == 0 ? TS_FAST_MATH_ON : TS_FAST_MATH_OFF;
  if (strcmp(value, "on") == 0 || strcmp(value, "off") == 0) return true;
  cli_usage_error(request->command, "--fast-math: expected on or off, found '%s'", value);
  return false;
}

/* --- import */

static void print_dimension(const struct ts_parameter *parameter, uint32_t index) {
  if (parameter->shape[index] >= 0)
    printf("%lld", (long long)parameter->shape[index]);
  else
    printf("%s", parameter->symbols[index] ? parameter->symbols[index] : "?");
}

static const char *role_text(enum ts_role role) {
  return role == TS_ROLE_IN ? "in" : role == TS_ROLE_OUT ? "out" : "inout";
}

static void print_parameter(const struct ts_parameter *parameter) {
  printf("%-6s %-5s %s", role_text(parameter->role), parameter->dtype, parameter->name);
  if (parameter->is_tensor) printf(" [");
  for (uint32_t i = 0; parameter->is_tensor && i < parameter->rank; i++) {
    if (i) printf(", ");
    print_dimension(parameter, i);
  }
  printf("%s\n", parameter->is_tensor ? "]" : "");
}

static void json_parameter(const struct ts_parameter *parameter) {
  printf("{\"name\": ");
  cli_json_text(stdout, parameter->name);
  printf(", \"role\": \"%s\", \"dtype\": \"%s\"", role_text(parameter->role), parameter->dtype);
  if (parameter->is_tensor) printf(", \"shape\": [");
  for (uint32_t i = 0; parameter->is_tensor && i < parameter->rank; i++) {
    if (i) printf(", ");
    if (parameter->shape[i] >= 0)
      printf("%lld", (long long)parameter->shape[i]);
    else
      cli_json_text(stdout, parameter->symbols[i]);
  }
  printf("%s}", parameter->is_tensor ? "]" : "");
}

static void print_parameters(const struct ts_sim *sim, bool is_json) {
  struct ts_parameter parameter;
  if (is_json) printf("[");
  for (uint32_t i = 0; ts_sim_parameter(sim, i, &parameter) == TS_RESULT_OK; i++) {
    if (is_json) printf("%s\n  ", i ? "," : "");
    if (is_json)
      json_parameter(&parameter);
    else
      print_parameter(&parameter);
  }
  if (is_json) printf("\n]\n");
}

static int run_import(const struct cli_command *command, int argc, char **argv) {
  struct list_request request = {.command = command};
  const char *text;
  size_t size_bytes;
  int status = cli_parse(command, argc, argv, take_option, &request, &request.operand);
  if (status >= 0) return status;
  if (!request.operand) return cli_usage_error(command, "which case folder?");
  struct ts_sim *sim = cli_create();
  if (!sim) return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  enum ts_result result = ts_sim_open(sim, request.operand, request.fast_math);
  if (result == TS_RESULT_OK && request.wants_ir) {
    result = ts_sim_ir(sim, &text, &size_bytes);
    if (result == TS_RESULT_OK) fwrite(text, 1, size_bytes, stdout);
  } else if (result == TS_RESULT_OK) {
    print_parameters(sim, request.is_json);
  }
  cli_print_diagnostics(sim);
  return cli_finish(sim, result);
}

const struct cli_command cli_command_import = {
    .name = "import",
    .synopsis = "import CASE [options]",
    .summary = "read a case folder and print its parameters or its IR",
    .example = "tilesim import traces/gemm_seed --print-ir",
    .operand = "CASE",
    .options = import_options,
    .run = run_import,
};

/* --- ops */

static int run_ops(const struct cli_command *command, int argc, char **argv) {
  struct list_request request = {.command = command};
  struct ts_op_row row;
  int status = cli_parse(command, argc, argv, take_option, &request, &request.operand);
  if (status >= 0) return status;
  if (request.is_json) printf("[");
  for (uint32_t i = 0; ts_op_row_get(i, &row); i++) {
    if (!request.is_json) {
      printf("%-26s %-7s %-7s %s\n", row.mnemonic, row.unit, row.operands, row.synopsis);
      continue;
    }
    printf("%s\n  {\"op\": \"%s\", \"unit\": \"%s\", \"operands\": \"%s\", \"synopsis\": ",
           i ? "," : "", row.mnemonic, row.unit, row.operands);
    cli_json_text(stdout, row.synopsis);
    printf("}");
  }
  if (request.is_json) printf("\n]\n");
  return cli_finish(NULL, TS_RESULT_OK);
}

const struct cli_command cli_command_ops = {
    .name = "ops",
    .synopsis = "ops [options]",
    .summary = "list the ops of the IR",
    .example = "tilesim ops",
    .options = list_options,
    .run = run_ops,
};
