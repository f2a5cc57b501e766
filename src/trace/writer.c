/* The sink that makes an event file.
 *
 * Events and footprints gather in two buffers; when one is full, a FOOT block (if there are
 * footprints) and an EVNT block go out. An event thus only refers to the FOOT block right before
 * its own block, and a reader needs one of each in memory. */
#include "base/file.h"
#include "ir/type.h"
#include "trace/trace_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_EVENTS = 4096, BUFFER_FOOTPRINT_BYTES = 1 << 20 };

struct ts_trace_writer {
  struct ts_sink sink; /* first: a sink pointer is a writer pointer */
  struct ts_ctx *ctx;
  FILE *stream;
  char *path, *temporary; /* temporary is NULL when path is written in place */
  bool is_nameless;       /* the stream has no name yet, temporary is what it will get */
  enum ts_status status;  /* sticky */
  uint64_t event_count;
  uint64_t footprint_start_bytes; /* of the buffer in the whole table */
  size_t footprint_bytes;         /* in the buffer */
  uint32_t buffered_events;
  struct ts_arena arena;
  uint8_t *events;     /* BUFFER_EVENTS records */
  uint8_t *footprints; /* 8 bytes for the start, then BUFFER_FOOTPRINT_BYTES */
};

static enum ts_status fail_write(struct ts_trace_writer *writer) {
  int number = errno;
  if (writer->status != TS_OK) return writer->status;
  char reason[128];
  if (strerror_r(number, reason, sizeof reason))
    snprintf(reason, sizeof reason, "error %d", number);
  writer->status = ts_fail(writer->ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(writer->path),
                           "cannot write: %s", reason);
  return writer->status;
}

static enum ts_status write_bytes(struct ts_trace_writer *writer, const uint8_t *data,
                                  size_t size_bytes) {
  if (size_bytes && fwrite(data, 1, size_bytes, writer->stream) != size_bytes)
    return fail_write(writer);
  return TS_OK;
}

static enum ts_status write_block(struct ts_trace_writer *writer, uint32_t tag,
                                  const uint8_t *payload, size_t payload_bytes) {
  uint8_t head[TS__TRACE_BLOCK_HEADER_BYTES];
  uint8_t *at = ts__put_u32(head, tag);
  at = ts__put_u32(at, ts__trace_crc32(0, payload, payload_bytes));
  ts__put_u64(at, payload_bytes);
  TS_TRY(write_bytes(writer, head, sizeof head));
  return write_bytes(writer, payload, payload_bytes);
}

static enum ts_status write_header(struct ts_trace_writer *writer) {
  uint8_t head[TS__TRACE_HEADER_BYTES] = {0};
  memcpy(head, TS__TRACE_MAGIC, TS__TRACE_MAGIC_BYTES);
  uint8_t *at = ts__put_u32(head + TS__TRACE_MAGIC_BYTES, TS__TRACE_VERSION);
  at = ts__put_u32(at, TS__TRACE_HEADER_BYTES);
  ts__put_u32(at, TS__TRACE_RECORD_BYTES);
  return write_bytes(writer, head, sizeof head);
}

/* --- tables */

/* A growing payload; `failed` is sticky so that building reads straight. */
struct payload {
  const struct ts_allocator *allocator;
  TS_VEC(uint8_t) bytes;
  bool failed;
};

static uint8_t *payload_room(struct payload *payload, size_t size_bytes) {
  if (payload->failed || ts_vec_reserve(&payload->bytes, payload->allocator, size_bytes)) {
    payload->failed = true;
    return NULL;
  }
  uint8_t *at = payload->bytes.data + payload->bytes.count;
  payload->bytes.count += size_bytes;
  return at;
}

static void payload_u32(struct payload *payload, uint32_t value) {
  uint8_t *at = payload_room(payload, 4);
  if (at) ts__put_u32(at, value);
}

static void payload_u64(struct payload *payload, uint64_t value) {
  uint8_t *at = payload_room(payload, 8);
  if (at) ts__put_u64(at, value);
}

static void payload_text(struct payload *payload, const char *text) {
  size_t length = strlen(text);
  payload_u32(payload, (uint32_t)length);
  uint8_t *at = length ? payload_room(payload, length) : NULL;
  if (at) memcpy(at, text, length);
}

/* Writes the block and leaves the payload empty for the next one. */
static enum ts_status payload_flush(struct ts_trace_writer *writer, struct payload *payload,
                                    uint32_t tag) {
  enum ts_status status = payload->failed
                              ? ts_fail_memory(writer->ctx)
                              : write_block(writer, tag, payload->bytes.data, payload->bytes.count);
  payload->bytes.count = 0;
  return status;
}

static void put_names(struct payload *payload) {
  static const char *const op_names[] = {
#define OP(name, mnemonic, stratum, unit, has_dst, operands, flags, synopsis) mnemonic,
#include "ir/op.def"
#undef OP
  };
  static const char *const space_names[] = {"global", "shared", "local"};
  _Static_assert(sizeof space_names / sizeof *space_names == TS_SPACE_COUNT,
                 "every space has a name");
  const uint32_t op_count = sizeof op_names / sizeof *op_names;
  payload_u32(payload, op_count);
  for (uint32_t i = 0; i < op_count; i++)
    payload_text(payload, op_names[i]);
  payload_u32(payload, TS_DTYPE_COUNT);
  for (uint32_t i = 0; i < TS_DTYPE_COUNT; i++)
    payload_text(payload, ts_dtype_name((enum ts_dtype)i));
  payload_u32(payload, TS_SPACE_COUNT);
  for (uint32_t i = 0; i < TS_SPACE_COUNT; i++)
    payload_text(payload, space_names[i]);
}

static bool is_same_file(const char *a, const char *b) {
  return a == b || (a && b && strcmp(a, b) == 0);
}

/* Index of the place's file among the distinct ones of the function, UINT32_MAX for none. Sources
 * are few: a list from the most recent one is enough. */
static uint32_t find_file(const char **files, uint32_t file_count, const char *file) {
  for (uint32_t i = file_count; file && i > 0; i--) {
    if (is_same_file(files[i - 1], file)) return i - 1;
  }
  return UINT32_MAX;
}

static void put_code_insn(struct payload *payload, const struct ts_code_insn *insn) {
  uint8_t *at = payload_room(payload, TS__TRACE_CODE_INSN_BYTES);
  if (!at) return;
  at = ts__put_u16(at, insn->op);
  at = ts__put_u8(at, insn->dtype);
  at = ts__put_u8(at, insn->lanes);
  at = ts__put_u8(at, insn->dtype2);
  at = ts__put_u8(at, insn->flags);
  at = ts__put_u16(at, insn->m);
  at = ts__put_u16(at, insn->n);
  at = ts__put_u16(at, insn->k);
  at = ts__put_u16(at, insn->use_count);
  at = ts__put_u16(at, insn->def_count);
  at = ts__put_u32(at, insn->first_ref);
  at = ts__put_u32(at, insn->block);
  at = ts__put_u32(at, insn->rank);
  at = ts__put_u8(at, insn->approx);
  at = ts__put_u8(at, insn->control);
  ts__put_u16(at, insn->spilled_words);
}

/* One instruction for each of the function's. */
static void put_code(struct payload *payload, const struct ts_code *code) {
  payload_u32(payload, code != NULL);
  if (!code) return;
  payload_u32(payload, code->slot_count);
  payload_u32(payload, code->block_count);
  payload_u32(payload, code->registers_per_thread);
  payload_u32(payload, code->machine_insn_count);
  payload_u64(payload, code->static_shared_bytes);
  payload_u32(payload, code->ref_count);
  for (uint32_t i = 0; i < code->ref_count; i++) {
    payload_u32(payload, code->refs[i].first);
    payload_u32(payload, code->refs[i].count);
  }
  for (uint32_t i = 0; i < code->insn_count; i++)
    put_code_insn(payload, &code->insns[i]);
}

static void put_function(struct payload *payload, const struct ts_trace_function *function) {
  struct {
    TS_VEC(const char *) names;
  } files = {{0}};
  for (uint32_t i = 0; i < function->insn_count; i++) {
    const char *file = function->places[i].file;
    if (!file || find_file(files.names.data, (uint32_t)files.names.count, file) != UINT32_MAX)
      continue;
    if (ts_vec_push(&files.names, payload->allocator, file)) payload->failed = true;
  }
  payload_text(payload, function->name);
  payload_u32(payload, (uint32_t)files.names.count);
  for (size_t i = 0; i < files.names.count; i++)
    payload_text(payload, files.names.data[i]);
  payload_u32(payload, function->insn_count);
  for (uint32_t i = 0; i < function->insn_count && !payload->failed; i++) {
    const struct ts_source_place *place = &function->places[i];
    payload_u32(payload, function->ops[i]);
    payload_u32(payload, find_file(files.names.data, (uint32_t)files.names.count, place->file));
    payload_u32(payload, place->line);
    payload_u32(payload, place->column);
  }
  put_code(payload, function->code);
  ts_vec_free(&files.names, payload->allocator);
}

static void put_launch(struct payload *payload, const struct ts_trace_launch *launch) {
  payload_u32(payload, launch->function);
  for (unsigned i = 0; i < 3; i++)
    payload_u32(payload, launch->grid[i]);
  for (unsigned i = 0; i < 3; i++)
    payload_u32(payload, launch->block[i]);
  for (unsigned i = 0; i < 3; i++)
    payload_u32(payload, launch->cluster[i]);
  payload_u64(payload, launch->dynamic_shared_bytes);
}

static enum ts_status write_tables(struct ts_trace_writer *writer,
                                   const struct ts_trace_program *program) {
  struct payload payload = {.allocator = writer->ctx->allocator};
  enum ts_status status = write_header(writer);
  put_names(&payload);
  if (status == TS_OK) status = payload_flush(writer, &payload, TS__TRACE_TAG_NAMES);
  payload_u32(&payload, program->function_count);
  for (uint32_t i = 0; i < program->function_count; i++)
    put_function(&payload, &program->functions[i]);
  if (status == TS_OK) status = payload_flush(writer, &payload, TS__TRACE_TAG_FUNCTIONS);
  payload_u32(&payload, program->launch_count);
  for (uint32_t i = 0; i < program->launch_count; i++)
    put_launch(&payload, &program->launches[i]);
  if (status == TS_OK) status = payload_flush(writer, &payload, TS__TRACE_TAG_LAUNCHES);
  ts_vec_free(&payload.bytes, payload.allocator);
  return status;
}

/* --- events */

static enum ts_status flush_events(struct ts_trace_writer *writer) {
  if (writer->footprint_bytes) {
    ts__put_u64(writer->footprints, writer->footprint_start_bytes);
    TS_TRY(write_block(writer, TS__TRACE_TAG_FOOTPRINTS, writer->footprints,
                       8 + writer->footprint_bytes));
    writer->footprint_start_bytes += writer->footprint_bytes;
    writer->footprint_bytes = 0;
  }
  if (writer->buffered_events) {
    TS_TRY(write_block(writer, TS__TRACE_TAG_EVENTS, writer->events,
                       (size_t)writer->buffered_events * TS__TRACE_RECORD_BYTES));
    writer->buffered_events = 0;
  }
  return TS_OK;
}

/* Fields in the order of struct ts_event. */
static void put_event(uint8_t *at, const struct ts_event *event) {
  at = ts__put_u64(at, event->seq);
  at = ts__put_u32(at, event->block);
  at = ts__put_u16(at, event->warp);
  at = ts__put_u8(at, event->kind);
  at = ts__put_u8(at, event->sync_kind);
  at = ts__put_u32(at, event->insn);
  at = ts__put_u16(at, event->op);
  at = ts__put_u8(at, event->dtype);
  at = ts__put_u8(at, event->lanes);
  at = ts__put_u8(at, event->src_space);
  at = ts__put_u8(at, event->dst_space);
  at = ts__put_u16(at, event->launch);
  at = ts__put_u32(at, event->mask);
  at = ts__put_u32(at, event->bytes);
  at = ts__put_u32(at, event->work);
  at = ts__put_u32(at, event->sync_object);
  at = ts__put_u32(at, event->sync_phase);
  at = ts__put_u64(at, event->cause);
  ts__put_u64(at, event->footprint);
}

static void put_footprint(uint8_t *at, const struct ts_footprint *footprint) {
  at = ts__put_u8(at, footprint->kind);
  at = ts__put_u8(at, footprint->space);
  at = ts__put_u8(at, footprint->rank);
  at = ts__put_u8(at, 0);
  at = ts__put_u32(at, footprint->size_bytes);
  at = ts__put_u64(at, footprint->base);
  if (footprint->kind == TS_FOOTPRINT_AFFINE) {
    ts__put_u64(at, (uint64_t)footprint->lane_stride);
  } else if (footprint->kind == TS_FOOTPRINT_LANES) {
    for (unsigned i = 0; i < TS__TRACE_LANES; i++)
      at = ts__put_u64(at, footprint->lanes[i]);
  } else {
    for (unsigned i = 0; i < footprint->rank; i++) {
      at = ts__put_u32(at, footprint->extent[i]);
      at = ts__put_u32(at, (uint32_t)footprint->coordinate[i]);
      at = ts__put_u64(at, footprint->stride_bytes[i]);
      at = ts__put_u64(at, footprint->tensor_extent[i]);
    }
  }
}

static enum ts_status emit(struct ts_sink *sink, struct ts_event *event,
                           const struct ts_footprint *footprint) {
  struct ts_trace_writer *writer = (struct ts_trace_writer *)sink;
  if (writer->status != TS_OK) return writer->status;
  size_t size_bytes = footprint ? ts__trace_footprint_bytes(footprint->kind, footprint->rank) : 0;
  if (writer->buffered_events == BUFFER_EVENTS ||
      writer->footprint_bytes + size_bytes > BUFFER_FOOTPRINT_BYTES)
    TS_TRY(flush_events(writer));
  event->seq = writer->event_count++;
  event->footprint = 0;
  if (size_bytes) {
    event->footprint = 1 + writer->footprint_start_bytes + writer->footprint_bytes;
    put_footprint(writer->footprints + 8 + writer->footprint_bytes, footprint);
    writer->footprint_bytes += size_bytes;
  }
  put_event(writer->events + (size_t)writer->buffered_events * TS__TRACE_RECORD_BYTES, event);
  writer->buffered_events++;
  return TS_OK;
}

/* --- life */

static bool is_written_in_place(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

/* A file without a name beside path: an interrupted run leaves nothing behind. NULL where the file
 * system has no such files, or /proc, which gives it its name in the end, is missing. */
static FILE *open_nameless(struct ts_trace_writer *writer, const char *path) {
#ifdef __O_TMPFILE /* O_TMPFILE itself wants _GNU_SOURCE, whose strerror_r is another one */
  const char *slash = strrchr(path, '/');
  size_t length = slash == path ? 1 : slash ? (size_t)(slash - path) : 0;
  const char *folder = length ? ts_arena_copy(&writer->arena, path, length) : ".";
  if (!folder || access("/proc/self/fd", X_OK)) return NULL;
  int descriptor = open(folder, __O_TMPFILE | O_DIRECTORY | O_WRONLY | O_CLOEXEC, 0666);
  if (descriptor < 0) return NULL;
  FILE *stream = fdopen(descriptor, "wb");
  if (!stream) close(descriptor);
  return stream;
#else
  (void)writer;
  (void)path;
  return NULL;
#endif
}

static enum ts_status give_name(struct ts_trace_writer *writer) {
  char descriptor[64];
  if (fflush(writer->stream)) return fail_write(writer);
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", fileno(writer->stream));
  unlink(writer->temporary); /* of an earlier process with our number */
  if (linkat(AT_FDCWD, descriptor, AT_FDCWD, writer->temporary, AT_SYMLINK_FOLLOW))
    return fail_write(writer);
  writer->is_nameless = false;
  return TS_OK;
}

static enum ts_status open_file(struct ts_trace_writer *writer, const char *path) {
  struct stat info;
  char target[PATH_MAX]; /* a link stays a link, what it leads to is replaced */
  if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode) && realpath(path, target)) path = target;
  writer->path = ts_arena_copy(&writer->arena, path, strlen(path));
  if (!writer->path) return ts_fail_memory(writer->ctx);
  if (!is_written_in_place(path)) {
    writer->temporary = ts_arena_printf(&writer->arena, "%s.tmp-%ld", path, (long)getpid());
    if (!writer->temporary) return ts_fail_memory(writer->ctx);
  }
  if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
    writer->temporary = NULL;
    errno = EISDIR;
    return fail_write(writer);
  }
  if (writer->temporary) writer->stream = open_nameless(writer, path);
  writer->is_nameless = writer->stream != NULL;
  if (!writer->stream) writer->stream = fopen(writer->temporary ? writer->temporary : path, "wb");
  if (!writer->stream) {
    writer->temporary = NULL; /* not ours to remove */
    return fail_write(writer);
  }
  return TS_OK;
}

static struct ts_trace_writer *new_writer(struct ts_ctx *ctx) {
  struct ts_arena arena;
  ts_arena_init(&arena, ctx->allocator);
  struct ts_trace_writer *writer = ts_new(&arena, struct ts_trace_writer);
  uint8_t *events = ts_new_array(&arena, uint8_t, (size_t)BUFFER_EVENTS * TS__TRACE_RECORD_BYTES);
  uint8_t *footprints = ts_new_array(&arena, uint8_t, 8 + (size_t)BUFFER_FOOTPRINT_BYTES);
  if (!writer || !events || !footprints) {
    ts_arena_free(&arena);
    return NULL;
  }
  *writer = (struct ts_trace_writer){.sink = {.emit = emit},
                                     .ctx = ctx,
                                     .arena = arena,
                                     .events = events,
                                     .footprints = footprints};
  return writer;
}

enum ts_status ts_trace_writer_open(struct ts_ctx *ctx, const char *path,
                                    const struct ts_trace_program *program,
                                    struct ts_trace_writer **out) {
  *out = NULL;
  struct ts_trace_writer *writer = new_writer(ctx);
  if (!writer) return ts_fail_memory(ctx);
  enum ts_status status = open_file(writer, path);
  if (status == TS_OK) status = write_tables(writer, program);
  if (status != TS_OK) {
    ts_trace_writer_close(ctx, writer, false);
    return status;
  }
  *out = writer;
  return TS_OK;
}

struct ts_sink *ts_trace_writer_sink(struct ts_trace_writer *writer) {
  return &writer->sink;
}

static enum ts_status write_end(struct ts_trace_writer *writer) {
  uint8_t done[16];
  TS_TRY(flush_events(writer));
  ts__put_u64(ts__put_u64(done, writer->event_count), writer->footprint_start_bytes);
  return write_block(writer, TS__TRACE_TAG_DONE, done, sizeof done);
}

enum ts_status ts_trace_writer_close(struct ts_ctx *ctx, struct ts_trace_writer *writer,
                                     bool commit) {
  if (!writer) return TS_OK;
  enum ts_status status = writer->status;
  writer->ctx = ctx;
  if (status == TS_OK && commit) status = write_end(writer);
  if (status == TS_OK && commit && writer->is_nameless) status = give_name(writer);
  if (writer->stream && fclose(writer->stream) && commit && status == TS_OK)
    status = fail_write(writer);
  bool is_kept = commit && status == TS_OK;
  if (is_kept && writer->temporary && rename(writer->temporary, writer->path)) {
    status = fail_write(writer);
    is_kept = false;
  }
  if (!is_kept && writer->temporary && !writer->is_nameless) unlink(writer->temporary);
  struct ts_arena arena = writer->arena;
  ts_arena_free(&arena);
  return status;
}
