/* Options by table: --name VALUE, --name=VALUE, -n VALUE and -nVALUE. */
#include "cli/cli_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Words from column `column` on, in lines of at most 80 columns: a longer word begins further left. */
static void print_wrapped(FILE *stream, const char *text, size_t column) {
  enum { WIDTH = 80 };
  size_t at = column;
  for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
    size_t length = strcspn(text, " \n");
    if (at > column && at + 1 + length > WIDTH) {
      at = length < WIDTH && column + length > WIDTH ? WIDTH - length : column;
      fprintf(stream, "\n%*s", (int)at, "");
    }
    at += (size_t)fprintf(stream, "%s%.*s", at > column ? " " : "", (int)length, text);
    text += length;
  }
  putc('\n', stream);
}

void cli_print_row(FILE *stream, const char *left, size_t width, const char *text) {
  if (strlen(left) > width)
    fprintf(stream, "  %s\n  %-*s ", left, (int)width, "");
  else
    fprintf(stream, "  %-*s ", (int)width, left);
  print_wrapped(stream, text, width + 3);
}

void cli_print_help(const struct cli_command *command) {
  enum { WIDTH = 26 };
  printf("usage: tilesim %s\n\n", command->synopsis);
  print_wrapped(stdout, command->summary, 0);
  putchar('\n');
  for (const struct cli_option *option = command->options; option->name; option++) {
    char left[64];
    snprintf(left, sizeof left, "%s%s%s%s%s", option->alias ? option->alias : "",
             option->alias ? ", " : "", option->name, option->value ? " " : "",
             option->value ? option->value : "");
    cli_print_row(stdout, left, WIDTH, option->help);
  }
  cli_print_row(stdout, "--help", WIDTH, "this text");
  printf("\nexample: %s\n", command->example);
}

int cli_usage_error(const struct cli_command *command, const char *format, ...) {
  va_list arguments;
  fprintf(stderr, "tilesim %s: ", command->name);
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n'tilesim %s --help' tells more\n", command->name);
  return CLI_EXIT_USAGE;
}

static unsigned edit_distance(const char *a, const char *b) {
  enum { MAX_LENGTH = 63 };
  unsigned row[MAX_LENGTH + 1];
  size_t a_length = strlen(a), b_length = strlen(b);
  if (a_length > MAX_LENGTH || b_length > MAX_LENGTH) return MAX_LENGTH;
  for (size_t j = 0; j <= b_length; j++)
    row[j] = (unsigned)j;
  for (size_t i = 1; i <= a_length; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= b_length; j++) {
      unsigned above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
      if (above + 1 < best) best = above + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = above;
      row[j] = best;
    }
  }
  return row[b_length];
}

const char *cli_nearest(const char *text, const char *const *candidates, size_t count) {
  const char *nearest = NULL;
  unsigned best = 3;
  for (size_t i = 0; i < count; i++) {
    unsigned distance = edit_distance(text, candidates[i]);
    if (distance >= best || distance >= strlen(candidates[i])) continue;
    best = distance;
    nearest = candidates[i];
  }
  return nearest;
}

static enum cli_token unknown_option(const struct cli_parser *parser, const char *text,
                                     size_t length) {
  const char *names[32];
  char name[64];
  size_t count = 0;
  for (const struct cli_option *option = parser->command->options; option->name && count < 32;
       option++)
    names[count++] = option->name;
  snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), text);
  const char *nearest = cli_nearest(name, names, count);
  if (nearest)
    cli_usage_error(parser->command, "there is no option %s; did you mean %s?", name, nearest);
  else
    cli_usage_error(parser->command, "there is no option %s", name);
  return CLI_TOKEN_BAD;
}

static const struct cli_option *find_option(const struct cli_command *command, const char *text,
                                            size_t length) {
  for (const struct cli_option *option = command->options; option->name; option++) {
    if (strlen(option->name) == length && memcmp(option->name, text, length) == 0) return option;
    if (option->alias && strlen(option->alias) == length &&
        memcmp(option->alias, text, length) == 0)
      return option;
  }
  return NULL;
}

enum cli_token cli_next(struct cli_parser *parser, const char **name, const char **value) {
  *value = NULL;
  if (parser->next >= parser->argc) return CLI_TOKEN_END;
  const char *text = parser->argv[parser->next++];
  if (!parser->only_operands && strcmp(text, "--") == 0) {
    parser->only_operands = true;
    return cli_next(parser, name, value);
  }
  if (parser->only_operands || text[0] != '-' || !text[1]) {
    *value = text;
    return CLI_TOKEN_OPERAND;
  }
  if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) return CLI_TOKEN_HELP;
  bool is_long = text[1] == '-';
  size_t length = is_long ? strcspn(text, "=") : 2;
  const struct cli_option *option = find_option(parser->command, text, length);
  if (!option) return unknown_option(parser, text, length);
  const char *attached = text[length] ? text + length + is_long : NULL;
  *name = option->name;
  if (!option->value && attached) {
    cli_usage_error(parser->command, "%s takes no value, found '%s'", option->name, attached);
    return CLI_TOKEN_BAD;
  }
  if (option->value && !attached && parser->next >= parser->argc) {
    cli_usage_error(parser->command, "%s needs a value: %s", option->name, option->value);
    return CLI_TOKEN_BAD;
  }
  if (option->value) *value = attached ? attached : parser->argv[parser->next++];
  return CLI_TOKEN_OPTION;
}

int cli_parse(const struct cli_command *command, int argc, char **argv,
              bool (*take)(void *request, const char *name, const char *value), void *request,
              const char **operand) {
  struct cli_parser parser = {.command = command, .argc = argc, .argv = argv};
  const char *name, *value;
  for (;;) {
    switch (cli_next(&parser, &name, &value)) {
    case CLI_TOKEN_BAD: return CLI_EXIT_USAGE;
    case CLI_TOKEN_HELP: cli_print_help(command); return cli_finish(NULL, TS_RESULT_OK);
    case CLI_TOKEN_OPTION:
      if (!take(request, name, value)) return CLI_EXIT_USAGE;
      break;
    case CLI_TOKEN_OPERAND:
      if (!command->operand) return cli_usage_error(command, "unexpected '%s'", value);
      if (*operand)
        return cli_usage_error(command, "one %s at a time, found '%s' and '%s'", command->operand,
                               *operand, value);
      *operand = value;
      break;
    case CLI_TOKEN_END: return -1;
    }
  }
}

bool cli_number(const struct cli_command *command, const char *option, const char *text,
                unsigned long long low, unsigned long long high, unsigned long long *number) {
  char *end;
  errno = 0;
  *number = strtoull(text, &end, 10);
  if (*text >= '0' && *text <= '9' && !*end && !errno && *number >= low && *number <= high)
    return true;
  cli_usage_error(command, "%s: expected a number from %llu to %llu, found '%s'", option, low, high,
                  text);
  return false;
}

bool cli_format(const struct cli_command *command, const char *text, bool *is_json) {
  *is_json = strcmp(text, "json") == 0;
  if (*is_json || strcmp(text, "text") == 0) return true;
  cli_usage_error(command, "--format: expected text or json, found '%s'", text);
  return false;
}
