/* Dispatch to the commands, and help. */
#include "cli/cli_priv.h"

#include <string.h>

const struct cli_command *const cli_commands[] = {
    &cli_command_run,    &cli_command_check,
    &cli_command_time,   &cli_command_compare,
    &cli_command_events, &cli_command_import,
    &cli_command_ops,    &cli_command_machines,
    &cli_command_num,    NULL,
};

static void print_overview(FILE *stream) {
  fprintf(stream,
          "tilesim %s: runs lowered tile kernels on a CPU, bit for bit as on the device\n\n"
          "usage: tilesim COMMAND ...\n\n",
          ts_version());
  for (size_t i = 0; cli_commands[i]; i++)
    cli_print_row(stream, cli_commands[i]->name, 10, cli_commands[i]->summary);
  fprintf(stream,
          "\n  --version  version of the program\n"
          "  --help     this text; 'tilesim COMMAND --help' tells about a command\n\n"
          "exit status: 0 fine, 1 the kernel has a hazard, 2 the input or the command line\n"
          "             is wrong, 3 a limit or a fault of tilesim\n\n"
          "example: tilesim run traces/gemm_seed --hash\n");
}

static const struct cli_command *find_command(const char *name) {
  for (size_t i = 0; cli_commands[i]; i++) {
    if (strcmp(cli_commands[i]->name, name) == 0) return cli_commands[i];
  }
  return NULL;
}

static int unknown_command(const char *name) {
  const char *names[16];
  size_t count = 0;
  for (; cli_commands[count] && count < 16; count++)
    names[count] = cli_commands[count]->name;
  const char *nearest = cli_nearest(name, names, count);
  fprintf(stderr, "tilesim: there is no command '%s'", name);
  if (nearest) fprintf(stderr, "; did you mean '%s'?", nearest);
  fprintf(stderr, "\n'tilesim --help' lists the commands\n");
  return CLI_EXIT_USAGE;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    print_overview(stderr);
    return CLI_EXIT_USAGE;
  }
  if (strcmp(argv[1], "--version") == 0) {
    printf("tilesim %s\n", ts_version());
    return cli_finish(NULL, TS_RESULT_OK);
  }
  bool wants_help =
      strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0;
  const struct cli_command *command = find_command(wants_help && argc > 2 ? argv[2] : argv[1]);
  if (wants_help && argc == 2) {
    print_overview(stdout);
    return cli_finish(NULL, TS_RESULT_OK);
  }
  if (!command) return unknown_command(wants_help ? argv[2] : argv[1]);
  if (wants_help) {
    cli_print_help(command);
    return cli_finish(NULL, TS_RESULT_OK);
  }
  return command->run(command, argc - 2, argv + 2);
}
