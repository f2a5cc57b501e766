/* tilesim events: one line per event, at 80 columns. */
#include "cli/cli_priv.h"

#include <stdarg.h>
#include <string.h>

static const struct cli_option options[] = {
    {"--limit", NULL, "N", "stop after N events"},
    {"--format", NULL, "text|json", "form of the result (text)"},
    {NULL, NULL, NULL, NULL},
};

struct events_request {
  const struct cli_command *command;
  const char *path;
  unsigned long long limit;
  bool is_json;
};

enum { LINE_COLUMNS = 80 };

/* A line being put together; what does not fit is cut. */
struct line {
  char text[LINE_COLUMNS + 1];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *line, const char *format, ...) {
  va_list arguments;
  if (line->used >= LINE_COLUMNS) return;
  va_start(arguments, format);
  int wrote = vsnprintf(line->text + line->used, sizeof line->text - line->used, format, arguments);
  va_end(arguments);
  if (wrote > 0) line->used += (size_t)wrote;
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static void add_addresses(struct line *line, const struct ts_event_record *record) {
  switch (record->addresses) {
  case TS_EVENT_ADDRESSES_NONE: break;
  case TS_EVENT_ADDRESSES_AFFINE:
    add(line, " @%llx%+lldi", (unsigned long long)record->address,
        (long long)record->lane_stride_bytes);
    break;
  case TS_EVENT_ADDRESSES_LANES: add(line, " @%llx..", (unsigned long long)record->address); break;
  case TS_EVENT_ADDRESSES_BOX:
    add(line, " box");
    for (uint32_t i = 0; i < record->box_rank; i++)
      add(line, "%s%d", i ? "," : " ", record->box_coordinate[i]);
    break;
  }
}

static void print_text(const struct ts_event_record *record) {
  struct line line = {.used = 0};
  char block[16] = "-", warp[16] = "-";
  if (record->block != TS_EVENT_LAUNCH_BLOCK) snprintf(block, sizeof block, "b%u", record->block);
  if (record->warp != TS_EVENT_BLOCK_WARP) snprintf(warp, sizeof warp, "w%u", record->warp);
  add(&line, "%7llu %u %-6s %-3s %-7s", (unsigned long long)record->seq, record->launch, block,
      warp, record->kind);
  if (record->insn == UINT32_MAX) {
    add(&line, " %s", record->function);
  } else {
    add(&line, " %-16s", record->op);
    if (record->file) add(&line, " %s:%u", base_name(record->file), record->line);
  }
  if (record->bytes) add(&line, " %u B", record->bytes);
  if (strcmp(record->sync_kind, "none") != 0)
    add(&line, " %s %u#%u", record->sync_kind, record->sync_object, record->sync_phase);
  if (record->work) add(&line, " n=%u", record->work);
  if (record->target_block != record->block) add(&line, " on b%u", record->target_block);
  if (record->cause) add(&line, " of %llu", (unsigned long long)record->cause - 1);
  add_addresses(&line, record);
  printf("%s\n", line.text);
}

static void json_addresses(const struct ts_event_record *record) {
  if (record->addresses == TS_EVENT_ADDRESSES_NONE) return;
  printf(", \"size_bytes\": %u, \"address\": %llu", record->size_bytes,
         (unsigned long long)record->address);
  if (record->addresses == TS_EVENT_ADDRESSES_AFFINE)
    printf(", \"lane_stride_bytes\": %lld", (long long)record->lane_stride_bytes);
  if (record->addresses == TS_EVENT_ADDRESSES_LANES) {
    for (unsigned i = 0; i < TS_EVENT_LANES; i++)
      printf("%s%llu", i ? ", " : ", \"lane_address\": [",
             (unsigned long long)record->lane_address[i]);
    printf("]");
  }
  if (record->addresses != TS_EVENT_ADDRESSES_BOX) return;
  for (uint32_t i = 0; i < record->box_rank; i++)
    printf("%s{\"extent\": %u, \"coordinate\": %d, \"stride_bytes\": %llu, "
           "\"tensor_extent\": %llu}",
           i ? ", " : ", \"box\": [", record->box_extent[i], record->box_coordinate[i],
           (unsigned long long)record->box_stride_bytes[i],
           (unsigned long long)record->box_tensor_extent[i]);
  printf("]");
}

static void print_json(const struct ts_event_record *record) {
  printf("%s\n{\"seq\": %llu, \"kind\": \"%s\", \"launch\": %u", record->seq ? "," : "",
         (unsigned long long)record->seq, record->kind, record->launch);
  if (record->block != TS_EVENT_LAUNCH_BLOCK) printf(", \"block\": %u", record->block);
  if (record->warp != TS_EVENT_BLOCK_WARP) printf(", \"warp\": %u", record->warp);
  printf(", \"function\": ");
  cli_json_text(stdout, record->function);
  if (record->insn != UINT32_MAX) {
    printf(", \"insn\": %u, \"op\": ", record->insn);
    cli_json_text(stdout, record->op);
    printf(", \"dtype\": ");
    cli_json_text(stdout, record->dtype);
    printf(", \"vector_lanes\": %u, \"mask\": %u, \"source\": ", record->vector_lanes,
           record->mask);
    cli_json_text(stdout, record->source_space);
    printf(", \"target\": ");
    cli_json_text(stdout, record->target_space);
    printf(", \"file\": ");
    cli_json_text(stdout, record->file);
    printf(", \"line\": %u", record->line);
  }
  printf(", \"bytes\": %u, \"work\": %u", record->bytes, record->work);
  if (strcmp(record->sync_kind, "none") != 0)
    printf(", \"sync\": \"%s\", \"sync_object\": %u, \"sync_phase\": %u", record->sync_kind,
           record->sync_object, record->sync_phase);
  if (record->target_block != record->block) printf(", \"target_block\": %u", record->target_block);
  if (record->cause) printf(", \"cause\": %llu", (unsigned long long)record->cause - 1);
  json_addresses(record);
  printf("}");
}

static enum ts_result print_events(struct ts_events *events, const struct events_request *request) {
  struct ts_event_record record;
  enum ts_result result = TS_RESULT_OK;
  int is_end = 0;
  if (request->is_json) printf("[");
  for (unsigned long long i = 0; i < request->limit; i++) {
    result = ts_events_next(events, &record, &is_end);
    if (result != TS_RESULT_OK || is_end) break;
    if (request->is_json)
      print_json(&record);
    else
      print_text(&record);
    if (ferror(stdout)) break;
  }
  if (request->is_json) printf("\n]\n");
  return result;
}

static bool take_option(void *user, const char *name, const char *value) {
  struct events_request *request = user;
  if (strcmp(name, "--format") == 0) return cli_format(request->command, value, &request->is_json);
  return cli_number(request->command, name, value, 0, UINT64_MAX - 1, &request->limit);
}

static int run(const struct cli_command *command, int argc, char **argv) {
  struct events_request request = {.command = command, .limit = UINT64_MAX};
  struct ts_events *events = NULL;
  int status = cli_parse(command, argc, argv, take_option, &request, &request.path);
  if (status >= 0) return status;
  if (!request.path) return cli_usage_error(command, "which event file?");
  struct ts_sim *sim = cli_create();
  if (!sim) return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  enum ts_result result = ts_events_open(sim, request.path, &events);
  if (result == TS_RESULT_OK) result = print_events(events, &request);
  ts_events_close(events);
  cli_print_diagnostics(sim);
  return cli_finish(sim, result);
}

const struct cli_command cli_command_events = {
    .name = "events",
    .synopsis = "events FILE [options]",
    .summary = "print an event file, one line per event",
    .example = "tilesim run traces/gemm_64x64x32_s2 --events /tmp/gemm.tsev\n"
               "         tilesim events /tmp/gemm.tsev --limit 20",
    .operand = "FILE",
    .options = options,
    .run = run,
};
