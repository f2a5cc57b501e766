/* Spans to files: as text, a line each, and as a Chrome trace for Perfetto (docs/timing.md has both
 * formats). A file comes under a temporary name and is renamed when it is complete. */
#include "api/api_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  LANE_LIMIT = 64,       /* tracks of a unit: what overlaps lies in several */
  TRACK_STRIDE = 128,    /* track numbers per unit, and per block */
  SHOWN_STALL_CYCLES = 4 /* shorter stalls are only told in the arguments of the span */
};

/* A file on its way. */
struct output {
  const char *path;
  char *temporary; /* NULL: written in place (a device or a pipe) */
  FILE *stream;    /* NULL: not wanted */
};

struct ts__span_writer {
  struct ts_span_sink sink; /* first: the sink is the writer */
  struct ts_ctx *ctx;
  const struct ts_trace_program *program;
  struct ts_arena arena;
  double clock_mhz;
  struct output text, chrome;
  /* Chrome trace: launches one after the other. */
  uint64_t offset_cycle, last_cycle;
  uint32_t launch;                                    /* UINT32_MAX: none yet */
  uint64_t lane_end[TS_MODEL_UNIT_COUNT][LANE_LIMIT]; /* 0: not used yet */
  TS_VEC(uint8_t) known_blocks;                       /* bit per block whose tracks have names */
  bool has_event;
};

/* --- files */

static enum ts_status fail_path(struct ts_ctx *ctx, const char *path, const char *verb) {
  return ts_fail(ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(path), "cannot %s: %s", verb,
                 strerror(errno ? errno : EIO));
}

static enum ts_status open_output(struct ts__span_writer *writer, const char *path,
                                  struct output *out) {
  struct stat info;
  out->path = path;
  if (!path) return TS_OK;
  bool is_special = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
  if (!is_special) {
    out->temporary = ts_arena_printf(&writer->arena, "%s.tmp-%ld", path, (long)getpid());
    if (!out->temporary) return ts_fail_memory(writer->ctx);
  }
  out->stream = fopen(is_special ? path : out->temporary, "w");
  return out->stream ? TS_OK : fail_path(writer->ctx, path, "open for writing");
}

static enum ts_status close_output(struct ts_ctx *ctx, struct output *out, bool is_kept) {
  if (!out->stream) return TS_OK;
  errno = 0;
  bool is_bad = fflush(out->stream) != 0 || ferror(out->stream);
  is_bad = fclose(out->stream) != 0 || is_bad;
  if (!is_bad && is_kept && out->temporary) is_bad = rename(out->temporary, out->path) != 0;
  enum ts_status status = is_bad ? fail_path(ctx, out->path, "write") : TS_OK;
  if (out->temporary && (is_bad || !is_kept)) unlink(out->temporary);
  return status;
}

/* --- what a span is of */

static const struct ts_trace_function *function_of(const struct ts__span_writer *writer,
                                                   uint32_t launch) {
  return &writer->program->functions[writer->program->launches[launch].function];
}

struct label {
  const char *op, *file;
  uint32_t line;
};

static struct label find_label(const struct ts__span_writer *writer, const struct ts_span *span) {
  const struct ts_trace_function *function = function_of(writer, span->launch);
  if (span->insn >= function->insn_count) return (struct label){"-", NULL, 0};
  const struct ts_source_place *place = &function->places[span->insn];
  uint16_t op = function->ops[span->insn];
  return (struct label){op < TS_OP_COUNT ? ts_op_info((enum ts_op)op)->mnemonic : "-", place->file,
                        place->line};
}

/* --- text */

static void write_head(struct ts__span_writer *writer, const char *machine) {
  if (!writer->text.stream) return;
  fprintf(writer->text.stream,
          "# tilesim-spans 1\n# machine %s, %.0f MHz; cycles from the start of the launch\n"
          "launch\tunit\tsm\tblock\twarp\tstart\tend\tinsn\top\tfile\tline\tstall\tstall_cycles\t"
          "bytes\n",
          machine, writer->clock_mhz);
}

static void write_text(struct ts__span_writer *writer, const struct ts_span *span) {
  struct label label = find_label(writer, span);
  fprintf(writer->text.stream, "%u\t%s\t%u\t%u\t", span->launch,
          ts_model_unit_text((enum ts_model_unit)span->unit), span->sm, span->block);
  if (span->warp == UINT16_MAX)
    fprintf(writer->text.stream, "-");
  else
    fprintf(writer->text.stream, "%u", span->warp);
  fprintf(writer->text.stream, "\t%" PRIu64 "\t%" PRIu64 "\t%u\t%s\t%s\t%u\t%s\t%" PRIu64 "\t%u\n",
          span->start_cycle, span->end_cycle, span->insn, label.op, label.file ? label.file : "-",
          label.line, ts_stall_text((enum ts_stall)span->stall), span->stall_cycles, span->bytes);
}

/* --- Chrome trace: a process for each SM of a launch, a thread for each warp and unit */

static void put_json_text(FILE *stream, const char *text) {
  putc('"', stream);
  for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
    if (*at < 0x20)
      fprintf(stream, "\\u%04x", *at);
    else if (*at == '"' || *at == '\\')
      fprintf(stream, "\\%c", *at);
    else
      putc(*at, stream);
  }
  putc('"', stream);
}

static void begin_event(struct ts__span_writer *writer) {
  fputs(writer->has_event ? ",\n" : "\n", writer->chrome.stream);
  writer->has_event = true;
}

/* Processes are numbered by launch and SM. */
static uint64_t process_of(const struct ts_span *span) {
  return (uint64_t)span->launch * 1000 + span->sm + 1;
}

static void name_process(struct ts__span_writer *writer, const struct ts_span *span) {
  begin_event(writer);
  fprintf(writer->chrome.stream,
          "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%" PRIu64 ",\"args\":{\"name\":",
          process_of(span));
  char name[128];
  snprintf(name, sizeof name, "launch %u, %.80s, SM %u", span->launch,
           function_of(writer, span->launch)->name, span->sm);
  put_json_text(writer->chrome.stream, name);
  fputs("}}", writer->chrome.stream);
}

/* Warps are shown above units. */
static void name_thread(struct ts__span_writer *writer, const struct ts_span *span, uint64_t thread,
                        const char *name) {
  uint64_t first_unit = (uint64_t)1 << 30;
  uint64_t place = thread < first_unit ? thread : first_unit - 1;
  if (span->unit != TS_MODEL_UNIT_WARP) place = first_unit + thread;
  begin_event(writer);
  fprintf(
      writer->chrome.stream,
      "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64
      ",\"args\":{\"name\":\"%s\"}},\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":%" PRIu64
      ",\"tid\":%" PRIu64 ",\"args\":{\"sort_index\":%" PRIu64 "}}",
      process_of(span), thread, name, process_of(span), thread, place);
}

static void start_launch(struct ts__span_writer *writer, const struct ts_span *span) {
  writer->launch = span->launch;
  writer->offset_cycle = writer->last_cycle;
  memset(writer->lane_end, 0, sizeof writer->lane_end);
  if (writer->known_blocks.count) memset(writer->known_blocks.data, 0, writer->known_blocks.count);
  name_process(writer, span);
}

/* The first lane of the unit that is free; when none is, the one that is free first. */
static uint64_t unit_thread(struct ts__span_writer *writer, const struct ts_span *span) {
  uint64_t *ends = writer->lane_end[span->unit];
  uint32_t lane = 0;
  for (uint32_t i = 0; i < LANE_LIMIT; i++) {
    if (ends[i] < ends[lane]) lane = i;
    if (ends[i] > span->start_cycle + 1) continue;
    lane = i;
    break;
  }
  uint64_t thread = (uint64_t)span->unit * TRACK_STRIDE + lane;
  if (ends[lane] == 0) {
    char name[64];
    snprintf(name, sizeof name, lane ? "%s (%u)" : "%s",
             ts_model_unit_text((enum ts_model_unit)span->unit), lane + 1);
    name_thread(writer, span, thread, name);
  }
  ends[lane] = span->end_cycle + 1;
  return thread;
}

static enum ts_status warp_thread(struct ts__span_writer *writer, const struct ts_span *span,
                                  uint64_t *thread) {
  size_t byte = span->block / 8;
  uint8_t bit = (uint8_t)(1u << span->block % 8);
  uint64_t first = ((uint64_t)TS_MODEL_UNIT_COUNT + span->block) * TRACK_STRIDE;
  *thread = first + span->warp;
  while (writer->known_blocks.count <= byte)
    if (ts_vec_push(&writer->known_blocks, writer->ctx->allocator, (uint8_t)0))
      return ts_fail_memory(writer->ctx);
  if (writer->known_blocks.data[byte] & bit) return TS_OK;
  writer->known_blocks.data[byte] |= bit;
  const uint32_t *block = writer->program->launches[span->launch].block;
  uint64_t warps = ((uint64_t)block[0] * block[1] * block[2] + 31) / 32;
  for (uint64_t warp = 0; warp < warps && warp < TRACK_STRIDE; warp++) {
    char name[64];
    snprintf(name, sizeof name, "block %u, warp %u", span->block, (unsigned)warp);
    name_thread(writer, span, first + warp, name);
  }
  return TS_OK;
}

static void write_slice(struct ts__span_writer *writer, const struct ts_span *span, uint64_t thread,
                        const char *name, uint64_t start_cycle, uint64_t end_cycle) {
  begin_event(writer);
  fprintf(
      writer->chrome.stream,
      "{\"ph\":\"X\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"ts\":%.5f,\"dur\":%.5f,\"name\":",
      process_of(span), thread, (double)(writer->offset_cycle + start_cycle) / writer->clock_mhz,
      (double)(end_cycle - start_cycle) / writer->clock_mhz);
  put_json_text(writer->chrome.stream, name);
}

static enum ts_status write_chrome(struct ts__span_writer *writer, const struct ts_span *span) {
  uint64_t thread;
  FILE *stream = writer->chrome.stream;
  struct label label = find_label(writer, span);
  const char *stall = ts_stall_text((enum ts_stall)span->stall);
  if (writer->launch != span->launch) start_launch(writer, span);
  bool is_warp = span->unit == TS_MODEL_UNIT_WARP;
  if (is_warp)
    TS_TRY(warp_thread(writer, span, &thread));
  else
    thread = unit_thread(writer, span);
  if (is_warp && span->stall_cycles >= SHOWN_STALL_CYCLES &&
      span->stall_cycles <= span->start_cycle) {
    write_slice(writer, span, thread, stall, span->start_cycle - span->stall_cycles,
                span->start_cycle);
    fputs(",\"cat\":\"stall\"}", stream);
  }
  write_slice(writer, span, thread, label.op, span->start_cycle, span->end_cycle);
  fprintf(stream, ",\"cat\":\"%s\",\"args\":{", is_warp ? "warp" : "unit");
  if (label.file) {
    fputs("\"file\":", stream);
    put_json_text(stream, label.file);
    fprintf(stream, ",\"line\":%u,", label.line);
  }
  fprintf(stream, "\"cycle\":%" PRIu64 ",\"block\":%u,\"warp\":%d,\"insn\":%u", span->start_cycle,
          span->block, span->warp == UINT16_MAX ? -1 : (int)span->warp, span->insn);
  if (span->stall_cycles)
    fprintf(stream, ",\"stall\":\"%s\",\"stall_cycles\":%" PRIu64, stall, span->stall_cycles);
  if (span->bytes) fprintf(stream, ",\"bytes\":%u", span->bytes);
  fputs("}}", stream);
  uint64_t end = writer->offset_cycle + span->end_cycle;
  if (end > writer->last_cycle) writer->last_cycle = end;
  return TS_OK;
}

/* --- the sink */

static enum ts_status emit_span(struct ts_span_sink *sink, const struct ts_span *span) {
  struct ts__span_writer *writer = (struct ts__span_writer *)sink;
  if (writer->text.stream) write_text(writer, span);
  return writer->chrome.stream ? write_chrome(writer, span) : TS_OK;
}

enum ts_status ts__span_writer_open(struct ts_ctx *ctx, const struct ts_time_settings *settings,
                                    const struct ts_machine *machine,
                                    const struct ts_trace_program *program,
                                    struct ts__span_writer **writer) {
  *writer = NULL;
  if (!settings->spans_path && !settings->chrome_path) return TS_OK;
  struct ts__span_writer *fresh =
      ctx->allocator->resize(ctx->allocator->user, NULL, 0, sizeof *fresh);
  if (!fresh) return ts_fail_memory(ctx);
  *fresh = (struct ts__span_writer){.sink = {emit_span},
                                    .ctx = ctx,
                                    .program = program,
                                    .clock_mhz = machine->timing[TS_TIMING_sm_clock],
                                    .launch = UINT32_MAX};
  ts_arena_init(&fresh->arena, ctx->allocator);
  enum ts_status status = open_output(fresh, settings->spans_path, &fresh->text);
  if (status == TS_OK) status = open_output(fresh, settings->chrome_path, &fresh->chrome);
  if (status != TS_OK) {
    ts__span_writer_close(fresh, false);
    return status;
  }
  write_head(fresh, machine->name);
  if (fresh->chrome.stream)
    fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", fresh->chrome.stream);
  *writer = fresh;
  return TS_OK;
}

struct ts_span_sink *ts__span_writer_sink(struct ts__span_writer *writer) {
  return writer ? &writer->sink : NULL;
}

enum ts_status ts__span_writer_close(struct ts__span_writer *writer, bool is_kept) {
  if (!writer) return TS_OK;
  struct ts_ctx *ctx = writer->ctx;
  if (writer->chrome.stream) fputs("\n]}\n", writer->chrome.stream);
  enum ts_status text = close_output(ctx, &writer->text, is_kept);
  enum ts_status chrome = close_output(ctx, &writer->chrome, is_kept);
  ts_vec_free(&writer->known_blocks, ctx->allocator);
  ts_arena_free(&writer->arena);
  ctx->allocator->resize(ctx->allocator->user, writer, sizeof *writer, 0);
  return text != TS_OK ? text : chrome;
}
