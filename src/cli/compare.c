/* tilesim compare: which of several cases is the fastest, how surely, and why the others are not. */
#include "cli/compare_priv.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORKERS = 64 };

static const struct cli_option options[] = {
    {"--machine", NULL, "NAME", "machine, or a .mach file (h200-sxm)"},
    {"--jobs", "-j", "N", "cases timed at the same time (1)"},
    {"--resume", NULL, "FILE",
     "result file: what it has is not timed again, what is timed is added to it"},
    {"--format", NULL, "text|json", "form of the result (text)"},
    {NULL, NULL, NULL, NULL},
};

struct comparison {
  const struct cli_command *command;
  const char *machine, *resume;
  unsigned long long worker_count;
  bool is_json;
  struct compare_variant *variants;
  size_t count;
  uint64_t base_hash[2]; /* of machine and program */
  /* The lock guards what follows, and stderr. */
  pthread_mutex_t lock;
  size_t next, done;
  FILE *results; /* NULL: none */
};

/* --- keys: two FNV-1a hashes with different starts */

static void hash_start(uint64_t hash[2]) {
  hash[0] = 0xcbf29ce484222325u;
  hash[1] = 0x9e3779b97f4a7c15u;
}

static void hash_bytes(uint64_t hash[2], const void *data, size_t size_bytes) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < size_bytes; i++)
    for (int h = 0; h < 2; h++)
      hash[h] = (hash[h] ^ bytes[i]) * 0x100000001b3u;
}

/* With its end, so that "a" + "bc" and "ab" + "c" differ. */
static void hash_text(uint64_t hash[2], const char *text) {
  hash_bytes(hash, text, strlen(text) + 1);
}

static void hash_file(uint64_t hash[2], const char *path) {
  unsigned char buffer[65536];
  FILE *stream = fopen(path, "rb");
  size_t got;
  hash_text(hash, stream ? "file" : "none");
  if (!stream) return;
  while ((got = fread(buffer, 1, sizeof buffer, stream)) > 0)
    hash_bytes(hash, buffer, got);
  fclose(stream);
}

static void hash_row(void *user, const struct ts_machine_row *row) {
  hash_text(user, row->key);
  hash_text(user, row->value);
}

/* The program itself stands for its version: models change without the number changing. */
static enum ts_result hash_base(struct comparison *comparison, struct ts_sim *sim) {
  char folder[4096];
  const char *machine = comparison->machine ? comparison->machine : CLI_DEFAULT_MACHINE;
  hash_start(comparison->base_hash);
  hash_text(comparison->base_hash, ts_version());
  if (comparison->resume) hash_file(comparison->base_hash, "/proc/self/exe");
  return ts_sim_list_machine(sim, cli_machine_folder(folder, sizeof folder), machine, hash_row,
                             comparison->base_hash);
}

static void make_key(const struct comparison *comparison, struct compare_variant *variant) {
  static const char *const names[] = {"device.json", "device.json.xz", "host.json", "host.json.xz",
                                      "launch.json"};
  char path[4096];
  uint64_t hash[2] = {comparison->base_hash[0], comparison->base_hash[1]};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    snprintf(path, sizeof path, "%s/%s", variant->folder, names[i]);
    hash_file(hash, path);
  }
  snprintf(variant->key, sizeof variant->key, "%016llx%016llx", (unsigned long long)hash[0],
           (unsigned long long)hash[1]);
}

/* --- timing */

static void keep_message(struct ts_sim *sim, struct compare_variant *variant) {
  struct ts_diagnostic diagnostic;
  snprintf(variant->message, sizeof variant->message, "%s", ts_result_text(variant->result));
  if (ts_sim_diagnostic(sim, 0, &diagnostic) == TS_RESULT_OK)
    snprintf(variant->message, sizeof variant->message, "%s: %s", diagnostic.code,
             diagnostic.message);
}

/* Each code once. */
static void keep_notes(struct ts_sim *sim, struct compare_variant *variant) {
  struct ts_diagnostic diagnostic;
  for (uint32_t i = 0; ts_sim_diagnostic(sim, i, &diagnostic) == TS_RESULT_OK; i++) {
    uint32_t at = 0;
    while (at < variant->note_count && strcmp(variant->notes[at].code, diagnostic.code) != 0)
      at++;
    if (at < variant->note_count) continue;
    if (at == COMPARE_NOTE_LIMIT) return;
    struct compare_note *note = &variant->notes[variant->note_count++];
    snprintf(note->code, sizeof note->code, "%s", diagnostic.code);
    snprintf(note->title, sizeof note->title, "%s", diagnostic.title);
  }
}

static void time_variant(const struct comparison *comparison, struct compare_variant *variant) {
  struct ts_sim *sim;
  const struct ts_time *time = NULL;
  struct ts_machine_info info;
  variant->result = ts_sim_create(NULL, &sim);
  if (variant->result != TS_RESULT_OK) {
    snprintf(variant->message, sizeof variant->message, "out of memory");
    return;
  }
  variant->result = cli_set_machine(sim, comparison->machine);
  if (variant->result == TS_RESULT_OK)
    variant->result = ts_sim_open(sim, variant->folder, TS_FAST_MATH_AUTO);
  if (variant->result == TS_RESULT_OK) variant->result = ts_sim_time(sim, NULL, &time);
  ts_sim_machine(sim, &info);
  if (variant->result == TS_RESULT_OK) {
    compare_fill(variant, time, info.sm_count);
    keep_notes(sim, variant);
  } else {
    keep_message(sim, variant);
  }
  ts_sim_free(sim);
}

static void show_progress(const struct comparison *comparison) {
  enum { WIDTH = 40 };
  int filled = (int)(comparison->done * WIDTH / comparison->count);
  if (!isatty(STDERR_FILENO)) return;
  fprintf(stderr, "\r[%.*s%*s] %zu of %zu variant%s", filled,
          "########################################", WIDTH - filled, "", comparison->done,
          comparison->count, comparison->count == 1 ? "" : "s");
  if (comparison->done == comparison->count) fprintf(stderr, "\r%76s\r", "");
  fflush(stderr);
}

static void *work(void *user) {
  struct comparison *comparison = user;
  for (;;) {
    pthread_mutex_lock(&comparison->lock);
    while (comparison->next < comparison->count && comparison->variants[comparison->next].is_done)
      comparison->next++;
    size_t index = comparison->next++;
    pthread_mutex_unlock(&comparison->lock);
    if (index >= comparison->count) return NULL;
    struct compare_variant *variant = &comparison->variants[index];
    time_variant(comparison, variant);
    pthread_mutex_lock(&comparison->lock);
    variant->is_done = true;
    comparison->done++;
    if (comparison->results && variant->result == TS_RESULT_OK) {
      compare_write(comparison->results, variant);
      fflush(comparison->results);
    }
    show_progress(comparison);
    pthread_mutex_unlock(&comparison->lock);
  }
}

static void time_all(struct comparison *comparison) {
  pthread_t threads[MAX_WORKERS];
  size_t started = 0;
  for (size_t i = 0; i < comparison->count; i++)
    comparison->done += comparison->variants[i].is_done;
  while (started + 1 < comparison->worker_count &&
         pthread_create(&threads[started], NULL, work, comparison) == 0)
    started++;
  work(comparison);
  for (size_t i = 0; i < started; i++)
    pthread_join(threads[i], NULL);
}

/* --- results */

/* By time, then by name; those that failed come last. */
static int compare_variants(const void *a, const void *b) {
  const struct compare_variant *x = a, *y = b;
  bool x_failed = x->result != TS_RESULT_OK, y_failed = y->result != TS_RESULT_OK;
  if (x_failed != y_failed) return x_failed ? 1 : -1;
  if (!x_failed && x->kernel_us != y->kernel_us) return x->kernel_us < y->kernel_us ? -1 : 1;
  return strcmp(x->folder, y->folder);
}

static const char *base_name(const char *folder) {
  const char *slash = strrchr(folder, '/');
  return slash && slash[1] ? slash + 1 : folder;
}

static size_t timed_count(const struct comparison *comparison) {
  size_t count = 0;
  while (count < comparison->count && comparison->variants[count].result == TS_RESULT_OK)
    count++;
  return count;
}

static void print_notes(const struct compare_variant *variant) {
  char text[4096];
  for (uint32_t i = 0; i < variant->note_count; i++) {
    snprintf(text, sizeof text, "%s: %s: %s", variant->notes[i].code, base_name(variant->folder),
             variant->notes[i].title);
    cli_print_row(stdout, "", 4, text);
  }
}

static void print_text(const struct comparison *comparison) {
  const struct compare_variant *variants = comparison->variants;
  size_t timed = timed_count(comparison);
  char reason[256];
  if (timed)
    printf("%zu variant%s on %s, each +- %.0f %%\n"
           "best, next: probability that it is faster than the best, than the next\n\n"
           "          us  ratio     cold  best  next  variant\n",
           timed, timed == 1 ? "" : "s", variants[0].machine, 100 * variants[0].uncertainty);
  for (size_t i = 0; i < timed; i++) {
    printf("%4zu %9.3f %6.3f %8.3f", i + 1, variants[i].kernel_us,
           variants[i].kernel_us / variants[0].kernel_us, variants[i].kernel_us_cold);
    if (i)
      printf("  %.2f", compare_probability(&variants[i], &variants[0]));
    else
      printf("     -");
    if (i + 1 < timed)
      printf("  %.2f", compare_probability(&variants[i], &variants[i + 1]));
    else
      printf("     -");
    printf("  %s\n", base_name(variants[i].folder));
    compare_reason(&variants[i], &variants[0], reason, sizeof reason);
    if (*reason) cli_print_row(stdout, "", 4, reason);
    print_notes(&variants[i]);
  }
  for (size_t i = timed; i < comparison->count; i++)
    fprintf(stderr, "tilesim: %s: %s\n", variants[i].folder, variants[i].message);
}

static void json_row(const struct comparison *comparison, size_t index, size_t timed) {
  const struct compare_variant *variant = &comparison->variants[index];
  const struct compare_variant *best = &comparison->variants[0];
  char reason[256];
  printf("%s\n    {\"rank\": %zu, \"case\": ", index ? "," : "", index + 1);
  cli_json_text(stdout, variant->folder);
  printf(", \"kernel_us\": %.6f, \"kernel_us_cold\": %.6f, \"ratio\": %.6f, \"uncertainty\": %.4g"
         ", \"is_resumed\": %s, \"limiting_unit\": \"%s\", \"reason\": ",
         variant->kernel_us, variant->kernel_us_cold, variant->kernel_us / best->kernel_us,
         variant->uncertainty, variant->is_resumed ? "true" : "false", variant->limiting_unit);
  compare_reason(variant, best, reason, sizeof reason);
  cli_json_text(stdout, *reason ? reason : NULL);
  compare_write_notes(stdout, variant);
  printf(",\n     \"beats\": ["); /* by rank */
  for (size_t i = 0; i < timed; i++)
    printf("%s%.4f", i ? ", " : "",
           i == index ? 0.5 : compare_probability(variant, &comparison->variants[i]));
  printf("]}");
}

static void print_json(const struct comparison *comparison) {
  size_t timed = timed_count(comparison);
  printf("{\n  \"machine\": ");
  cli_json_text(stdout, timed ? comparison->variants[0].machine : comparison->machine);
  printf(",\n  \"variants\": [");
  for (size_t i = 0; i < timed; i++)
    json_row(comparison, i, timed);
  printf("\n  ],\n  \"failed\": [");
  for (size_t i = timed; i < comparison->count; i++) {
    printf("%s\n    {\"case\": ", i > timed ? "," : "");
    cli_json_text(stdout, comparison->variants[i].folder);
    printf(", \"status\": %d, \"message\": ",
           ts_result_exit_status(comparison->variants[i].result));
    cli_json_text(stdout, comparison->variants[i].message);
    printf("}");
  }
  printf("]\n}\n");
}

/* --- the command */

static bool take_option(struct comparison *comparison, const char *name, const char *value) {
  if (strcmp(name, "--machine") == 0) comparison->machine = value;
  if (strcmp(name, "--resume") == 0) comparison->resume = value;
  if (strcmp(name, "--format") == 0)
    return cli_format(comparison->command, value, &comparison->is_json);
  if (strcmp(name, "--jobs") != 0) return true;
  return cli_number(comparison->command, name, value, 1, MAX_WORKERS, &comparison->worker_count);
}

/* -1 when the command may go on, else the exit status. */
static int parse(struct comparison *comparison, int argc, char **argv) {
  struct cli_parser parser = {.command = comparison->command, .argc = argc, .argv = argv};
  const char *name, *value;
  for (;;) {
    switch (cli_next(&parser, &name, &value)) {
    case CLI_TOKEN_BAD: return CLI_EXIT_USAGE;
    case CLI_TOKEN_HELP: cli_print_help(comparison->command); return cli_finish(NULL, TS_RESULT_OK);
    case CLI_TOKEN_OPTION:
      if (!take_option(comparison, name, value)) return CLI_EXIT_USAGE;
      break;
    case CLI_TOKEN_OPERAND: comparison->variants[comparison->count++].folder = value; break;
    case CLI_TOKEN_END:
      return comparison->count ? -1 : cli_usage_error(comparison->command, "which case folders?");
    }
  }
}

static int finish(struct comparison *comparison, struct ts_sim *sim) {
  enum ts_result result = TS_RESULT_OK;
  bool is_bad = false;
  if (comparison->results) {
    errno = 0;
    is_bad = ferror(comparison->results) != 0;
    is_bad = fclose(comparison->results) != 0 || is_bad;
  }
  if (is_bad) {
    fprintf(stderr, "tilesim: %s: cannot write: %s\n", comparison->resume,
            strerror(errno ? errno : EIO));
    result = TS_RESULT_IO;
  }
  for (size_t i = 0; i < comparison->count; i++)
    if (ts_result_exit_status(comparison->variants[i].result) > ts_result_exit_status(result))
      result = comparison->variants[i].result;
  free(comparison->variants);
  return cli_finish(sim, result);
}

static int compare_command(const struct cli_command *command, int argc, char **argv) {
  struct comparison comparison = {.command = command, .worker_count = 1};
  comparison.variants = calloc((size_t)argc + 1, sizeof *comparison.variants);
  struct ts_sim *sim = comparison.variants ? cli_create() : NULL;
  if (!sim) {
    free(comparison.variants);
    return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  }
  int status = parse(&comparison, argc, argv);
  if (status < 0) {
    enum ts_result result = hash_base(&comparison, sim);
    if (result != TS_RESULT_OK) {
      cli_print_diagnostics(sim);
      status = ts_result_exit_status(result);
    }
  }
  if (status >= 0) {
    free(comparison.variants);
    ts_sim_free(sim);
    return status;
  }
  if (comparison.resume) {
    for (size_t i = 0; i < comparison.count; i++)
      make_key(&comparison, &comparison.variants[i]);
    enum ts_result result = compare_open_results(comparison.resume, comparison.variants,
                                                 comparison.count, &comparison.results);
    comparison.variants[0].result = result;
    if (result != TS_RESULT_OK) return finish(&comparison, sim);
  }
  pthread_mutex_init(&comparison.lock, NULL);
  time_all(&comparison);
  pthread_mutex_destroy(&comparison.lock);
  qsort(comparison.variants, comparison.count, sizeof *comparison.variants, compare_variants);
  if (comparison.is_json)
    print_json(&comparison);
  else
    print_text(&comparison);
  return finish(&comparison, sim);
}

const struct cli_command cli_command_compare = {
    .name = "compare",
    .synopsis = "compare CASE... [options]",
    .summary = "rank variants by the time they would take, and say why each loses",
    .example = "tilesim compare traces/gemm_seed traces/gemm_seed_sm80 -j 2\n"
               "         tilesim compare traces/gemm_* --resume /tmp/gemm.jsonl --format json",
    .operand = "CASE",
    .options = options,
    .run = compare_command,
};
