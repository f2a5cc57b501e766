/* Diagnostics as text and JSON, and the end of every command. */
#include "cli/cli_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ts_sim *cli_create(void) {
  struct ts_sim *sim;
  if (ts_sim_create(NULL, &sim) == TS_RESULT_OK) return sim;
  fprintf(stderr, "tilesim: out of memory\n");
  return NULL;
}

int cli_finish(struct ts_sim *sim, enum ts_result result) {
  int status = ts_result_exit_status(result);
  ts_sim_free(sim);
  errno = 0; /* stays 0 when it was an earlier write that failed: its reason is gone */
  if (fflush(stdout) == 0 && !ferror(stdout)) return status;
  fprintf(stderr, "tilesim: cannot write the result: %s\n",
          errno ? strerror(errno) : "standard output is closed or full");
  return status ? status : ts_result_exit_status(TS_RESULT_IO);
}

/* --- text */

static bool wants_colour(void) {
  const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");
  if (no_colour && *no_colour) return false;
  return isatty(STDERR_FILENO) && terminal && strcmp(terminal, "dumb") != 0;
}

/* "file:line:" as far as it is known. */
static void print_place(const char *file, uint32_t line) {
  if (!file)
    fprintf(stderr, "tilesim: ");
  else if (line == 0)
    fprintf(stderr, "%s: ", file);
  else
    fprintf(stderr, "%s:%u: ", file, line);
}

static void print_where(const struct ts_diagnostic *diagnostic) {
  if (!diagnostic->function) return;
  fprintf(stderr, "  in %s", diagnostic->function);
  if (diagnostic->block >= 0) fprintf(stderr, ", block %lld", (long long)diagnostic->block);
  if (diagnostic->warp >= 0) fprintf(stderr, ", warp %lld", (long long)diagnostic->warp);
  if (diagnostic->lane >= 0) fprintf(stderr, ", lane %lld", (long long)diagnostic->lane);
  if (diagnostic->repeat_count > 1)
    fprintf(stderr, "; %llu times in all", (unsigned long long)diagnostic->repeat_count);
  fprintf(stderr, "\n");
}

static void print_diagnostic(const struct ts_diagnostic *diagnostic, bool has_colour) {
  bool is_remark = strcmp(diagnostic->severity, "remark") == 0;
  print_place(diagnostic->file, diagnostic->line);
  fprintf(stderr, "%s%s%s %s: %s\n", has_colour ? (is_remark ? "\033[36m" : "\033[1;31m") : "",
          diagnostic->severity, has_colour ? "\033[0m" : "", diagnostic->code, diagnostic->message);
  if (diagnostic->other_file) {
    fprintf(stderr, "  ");
    print_place(diagnostic->other_file, diagnostic->other_line);
    fprintf(stderr, "the other access\n");
  }
  print_where(diagnostic);
  if (diagnostic->hint) fprintf(stderr, "  hint: %s\n", diagnostic->hint);
}

void cli_print_diagnostics(const struct ts_sim *sim) {
  bool has_colour = wants_colour();
  uint32_t count = ts_sim_diagnostic_count(sim);
  for (uint32_t i = 0; i < count; i++) {
    struct ts_diagnostic diagnostic;
    if (ts_sim_diagnostic(sim, i, &diagnostic) == TS_RESULT_OK)
      print_diagnostic(&diagnostic, has_colour);
  }
  uint64_t dropped = ts_sim_dropped_diagnostics(sim);
  if (dropped) fprintf(stderr, "tilesim: %llu more were not kept\n", (unsigned long long)dropped);
}

/* --- JSON */

/* Length of the UTF-8 sequence at text, 0 when it is none (RFC 3629). */
static size_t utf8_length(const unsigned char *text) {
  size_t length = text[0] < 0x80                       ? 1
                  : text[0] >= 0xc2 && text[0] < 0xe0  ? 2
                  : text[0] >= 0xe0 && text[0] < 0xf0  ? 3
                  : text[0] >= 0xf0 && text[0] <= 0xf4 ? 4
                                                       : 0;
  for (size_t i = 1; i < length; i++) {
    if ((text[i] & 0xc0) != 0x80) return 0;
  }
  if (text[0] == 0xe0 && text[1] < 0xa0) return 0;
  if (text[0] == 0xed && text[1] > 0x9f) return 0;
  if (text[0] == 0xf0 && text[1] < 0x90) return 0;
  if (text[0] == 0xf4 && text[1] > 0x8f) return 0;
  return length;
}

void cli_json_text(FILE *stream, const char *text) {
  if (!text) {
    fputs("null", stream);
    return;
  }
  putc('"', stream);
  for (const unsigned char *at = (const unsigned char *)text; *at;) {
    size_t length = utf8_length(at);
    if (length == 0 || *at < 0x20)
      fprintf(stream, "\\u%04x", length ? *at : 0xfffdu);
    else if (*at == '"' || *at == '\\')
      fprintf(stream, "\\%c", *at);
    else
      fwrite(at, 1, length, stream);
    at += length ? length : 1;
  }
  putc('"', stream);
}

static void json_place(FILE *stream, const char *key, const char *file, uint32_t line,
                       uint32_t column) {
  if (!file) return;
  fprintf(stream, ", \"%s\": {\"file\": ", key);
  cli_json_text(stream, file);
  if (line) fprintf(stream, ", \"line\": %u", line);
  if (column) fprintf(stream, ", \"column\": %u", column);
  putc('}', stream);
}

static void json_index(FILE *stream, const char *key, int64_t index) {
  if (index >= 0) fprintf(stream, ", \"%s\": %lld", key, (long long)index);
}

static void json_diagnostic(FILE *stream, const struct ts_diagnostic *diagnostic) {
  fprintf(stream, "{\"code\": \"%s\", \"severity\": \"%s\", \"title\": ", diagnostic->code,
          diagnostic->severity);
  cli_json_text(stream, diagnostic->title);
  fputs(", \"message\": ", stream);
  cli_json_text(stream, diagnostic->message);
  if (diagnostic->hint) {
    fputs(", \"hint\": ", stream);
    cli_json_text(stream, diagnostic->hint);
  }
  json_place(stream, "place", diagnostic->file, diagnostic->line, diagnostic->column);
  json_place(stream, "other", diagnostic->other_file, diagnostic->other_line,
             diagnostic->other_column);
  if (diagnostic->function) {
    fputs(", \"function\": ", stream);
    cli_json_text(stream, diagnostic->function);
  }
  json_index(stream, "block", diagnostic->block);
  json_index(stream, "warp", diagnostic->warp);
  json_index(stream, "lane", diagnostic->lane);
  fprintf(stream, ", \"count\": %llu}", (unsigned long long)diagnostic->repeat_count);
}

void cli_json_diagnostics(FILE *stream, const struct ts_sim *sim) {
  uint32_t count = ts_sim_diagnostic_count(sim);
  putc('[', stream);
  for (uint32_t i = 0; i < count; i++) {
    struct ts_diagnostic diagnostic;
    if (ts_sim_diagnostic(sim, i, &diagnostic) != TS_RESULT_OK) continue;
    fputs(i ? ",\n    " : "\n    ", stream);
    json_diagnostic(stream, &diagnostic);
  }
  fputs(count ? "\n  ]" : "]", stream);
}

/* --- machine files */

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

const char *cli_machine_folder(char *buffer, size_t capacity_bytes) {
  static const char *const beside[] = {"/../machines", "/machines", "/../share/tilesim/machines"};
  char program[2048];
  const char *stated = getenv("TILESIM_MACHINES");
  if (stated && *stated) return stated;
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length > 0) {
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    if (slash) *slash = '\0';
    for (size_t i = 0; slash && i < sizeof beside / sizeof *beside; i++) {
      int wrote = snprintf(buffer, capacity_bytes, "%s%s", program, beside[i]);
      if (wrote > 0 && (size_t)wrote < capacity_bytes && is_folder(buffer)) return buffer;
    }
  }
  return "machines";
}

enum ts_result cli_set_machine(struct ts_sim *sim, const char *name) {
  char folder[4096];
  return ts_sim_set_machine(sim, cli_machine_folder(folder, sizeof folder),
                            name ? name : CLI_DEFAULT_MACHINE);
}
