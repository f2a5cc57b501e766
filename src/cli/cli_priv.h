/* The command line: a thin layer over the public API. stdout carries results, stderr the rest.
 *
 * Files: main.c (commands, help), options.c (parsing), run.c, check.c, shown.c, events.c, list.c (import, ops),
 * machines.c, time.c and time_report.c, compare*.c, num.c, report.c (diagnostics, JSON). */
#ifndef CLI_CLI_PRIV_H
#define CLI_CLI_PRIV_H

#include "tilesim/event.h"
#include "tilesim/tilesim.h"

#include <stdbool.h>
#include <stdio.h>

enum { CLI_EXIT_USAGE = 2, CLI_MAX_ARGUMENTS = 64 };

struct cli_option {
  const char *name;  /* "--machine" */
  const char *alias; /* "-j", or NULL */
  const char *value; /* what it takes, for the help text; NULL: it is a flag */
  const char *help;
};

struct cli_command {
  const char *name, *synopsis, *summary, *example;
  const char *operand;              /* what the one operand is called, or NULL when there is none */
  const struct cli_option *options; /* ends with name == NULL */
  int (*run)(const struct cli_command *command, int argc, char **argv); /* after the name */
};

extern const struct cli_command cli_command_run, cli_command_check, cli_command_events,
    cli_command_time, cli_command_compare, cli_command_import, cli_command_ops,
    cli_command_machines, cli_command_num;
/* Ends with NULL. */
extern const struct cli_command *const cli_commands[];

/* --- options: iterates over arguments in order */

struct cli_parser {
  const struct cli_command *command;
  int argc, next;
  char **argv;
  bool only_operands; /* "--" was seen */
};

enum cli_token {
  CLI_TOKEN_END,
  CLI_TOKEN_OPTION,
  CLI_TOKEN_OPERAND,
  CLI_TOKEN_HELP,
  CLI_TOKEN_BAD
};

/* The next token. For an option *name is its row's name and *value its value or NULL; for an operand
 * *value is the text. CLI_TOKEN_BAD: stderr has been told. */
enum cli_token cli_next(struct cli_parser *parser, const char **name, const char **value);
/* A whole command line of options and at most one operand. take is told each option and answers
 * false when it has complained. Answers -1 when the command may go on, else the exit status;
 * *operand stays as it was when there is none. */
int cli_parse(const struct cli_command *command, int argc, char **argv,
              bool (*take)(void *request, const char *name, const char *value), void *request,
              const char **operand);
/* A decimal number within bounds; tells stderr otherwise. */
bool cli_number(const struct cli_command *command, const char *option, const char *text,
                unsigned long long low, unsigned long long high, unsigned long long *number);
/* "text" or "json". */
bool cli_format(const struct cli_command *command, const char *text, bool *is_json);
/* Tells stderr what is wrong and answers the exit status. */
int cli_usage_error(const struct cli_command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A row of a help text: the text goes on below itself after column 80. */
void cli_print_row(FILE *stream, const char *left, size_t width, const char *text);
void cli_print_help(const struct cli_command *command);
/* The candidate nearest to text, or NULL when none is near. */
const char *cli_nearest(const char *text, const char *const *candidates, size_t count);

/* --- running (shown.c) */

/* Values of --arg. */
struct cli_arguments {
  const char *texts[CLI_MAX_ARGUMENTS];
  size_t count;
};
/* False after telling stderr. */
bool cli_take_argument(const struct cli_command *command, struct cli_arguments *arguments,
                       const char *value);
enum ts_result cli_set_arguments(struct ts_sim *sim, const struct cli_arguments *arguments);
/* Runs, with a progress bar when stderr is a terminal. */
enum ts_result cli_run_shown(struct ts_sim *sim, struct ts_run_settings *settings);

/* The same for ts_sim_time. */
enum ts_result cli_time_shown(struct ts_sim *sim, struct ts_time_settings *settings,
                              const struct ts_time **time);

/* --- time (time_report.c) */

/* A stall's or the issue slots' share of the lives of all warps. */
struct cli_share {
  const char *name;
  double share;
};
enum { CLI_SHARE_LIMIT = TS_TIME_STALLS + 1 };
/* Over all launches, largest first; answers how many. Names are the report's. */
uint32_t cli_stall_shares(const struct ts_time *time, struct cli_share shares[CLI_SHARE_LIMIT]);
/* No unit is so busy that it sets the pace. */
bool cli_is_latency_bound(const struct ts_time_launch *launch);
/* what: the case or the event file. */
void cli_print_time(struct ts_sim *sim, const struct ts_time *time, const char *what);
/* Fields of an object, beginning with a comma, ending without. */
void cli_json_time(FILE *stream, const struct ts_time *time);

/* --- reports */

/* A simulation, or NULL after telling stderr. */
struct ts_sim *cli_create(void);
/* Writes all diagnostics to stderr as text. */
void cli_print_diagnostics(const struct ts_sim *sim);
/* A SARIF 2.1.0 log: one run, a rule for each code that occurs. */
void cli_sarif(FILE *stream, const struct ts_sim *sim);
/* As the value of a JSON field: an array. */
void cli_json_diagnostics(FILE *stream, const struct ts_sim *sim);
void cli_json_text(FILE *stream, const char *text); /* NULL gives null */
/* Frees the simulation and answers the exit status; output that could not be written is an error. */
int cli_finish(struct ts_sim *sim, enum ts_result result);
/* Folder of the machine files: $TILESIM_MACHINES, else next to the program, else "machines". */
const char *cli_machine_folder(char *buffer, size_t capacity_bytes);
/* name: NULL for the default. A file of that name in the folder overrules the compiled-in one. */
enum ts_result cli_set_machine(struct ts_sim *sim, const char *name);
#define CLI_DEFAULT_MACHINE "h200-sxm"

#endif
