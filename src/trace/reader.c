/* Reads event files. Nothing in a file is trusted: lengths only bound what is asked for, memory
 * grows with what was really there, and every number is checked before it is handed out. */
#include "trace/trace_priv.h"

enum {
  MAX_BLOCK_BYTES = 1 << 28,
  CHUNK_BYTES = 1 << 20,
  MAX_ACCESS_BYTES = 8 * TS_MAX_VECTOR_LANES, /* of a lane: the longest vector */
  MAX_CP_ASYNC_BYTES = 16,                    /* of a lane */
  MAX_COPY_BYTES = 1 << 20 /* of a copy, one side is shared memory: more than any has */
};

struct buffer {
  uint8_t *data;
  size_t size_bytes, capacity_bytes;
};

struct name_list {
  const char **names;
  uint32_t count;
};

struct ts_trace_reader {
  struct ts_arena arena;
  const struct ts_allocator *allocator;
  FILE *stream;
  const char *path;
  uint64_t position; /* bytes consumed */
  struct name_list ops, dtypes, spaces;
  struct ts_trace_program program;
  struct buffer events, footprints;
  uint64_t footprint_start_bytes; /* of the buffer in the whole table */
  uint64_t footprint_end_bytes;
  uint64_t footprint_position; /* of the buffer in the file */
  size_t event_at;             /* next record in events */
  uint64_t event_count;
  bool is_done;
  struct ts_footprint footprint; /* of the last event */
  uint64_t lanes[TS__TRACE_LANES];
};

struct block {
  uint32_t tag, crc;
  uint64_t payload_bytes;
};

/* A payload being taken apart; reading past the end makes it bad and gives zeros. */
struct cursor {
  const uint8_t *at, *end;
  bool is_bad;
};

static enum ts_status fail(struct ts_ctx *ctx, const struct ts_trace_reader *reader,
                           const char *what) {
  return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_INPUT_EVENTS, TS_FILE_PLACE(reader->path),
                 "%s (near byte %llu)", what, (unsigned long long)reader->position);
}

/* --- bytes */

static enum ts_status fail_short(struct ts_ctx *ctx, const struct ts_trace_reader *reader) {
  if (ferror(reader->stream))
    return ts_fail(ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(reader->path), "cannot read");
  return fail(ctx, reader, "the file ends too early: it was cut short or never completed");
}

static enum ts_status read_bytes(struct ts_ctx *ctx, struct ts_trace_reader *reader, uint8_t *data,
                                 size_t size_bytes) {
  size_t got = fread(data, 1, size_bytes, reader->stream);
  reader->position += got;
  return got == size_bytes ? TS_OK : fail_short(ctx, reader);
}

static enum ts_status grow(struct ts_ctx *ctx, struct buffer *buffer, size_t capacity_bytes) {
  if (capacity_bytes <= buffer->capacity_bytes) return TS_OK;
  const struct ts_allocator *allocator = ctx->allocator;
  uint8_t *data =
      allocator->resize(allocator->user, buffer->data, buffer->capacity_bytes, capacity_bytes);
  if (!data) return ts_fail_memory(ctx);
  buffer->data = data;
  buffer->capacity_bytes = capacity_bytes;
  return TS_OK;
}

static void release(const struct ts_allocator *allocator, struct buffer *buffer) {
  if (buffer->data) allocator->resize(allocator->user, buffer->data, buffer->capacity_bytes, 0);
  *buffer = (struct buffer){0};
}

static enum ts_status read_block_header(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                        struct block *block) {
  uint8_t head[TS__TRACE_BLOCK_HEADER_BYTES];
  TS_TRY(read_bytes(ctx, reader, head, sizeof head));
  *block = (struct block){ts__get_u32(head), ts__get_u32(head + 4), ts__get_u64(head + 8)};
  return TS_OK;
}

static enum ts_status read_payload(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                   const struct block *block, struct buffer *buffer) {
  if (block->payload_bytes > MAX_BLOCK_BYTES) return fail(ctx, reader, "a block is too large");
  size_t left = (size_t)block->payload_bytes;
  buffer->size_bytes = 0;
  while (left > 0) {
    size_t step = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    size_t wanted = buffer->size_bytes + step;
    if (wanted > buffer->capacity_bytes) {
      size_t doubled = 2 * buffer->capacity_bytes;
      TS_TRY(grow(ctx, buffer, doubled > wanted ? doubled : wanted));
    }
    TS_TRY(read_bytes(ctx, reader, buffer->data + buffer->size_bytes, step));
    buffer->size_bytes += step;
    left -= step;
  }
  if (ts__trace_crc32(0, buffer->data, buffer->size_bytes) != block->crc)
    return fail(ctx, reader, "a block's checksum is wrong");
  return TS_OK;
}

static enum ts_status skip_payload(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                   const struct block *block) {
  uint8_t scratch[4096];
  uint64_t left = block->payload_bytes;
  while (left > 0) {
    size_t step = left < sizeof scratch ? (size_t)left : sizeof scratch;
    TS_TRY(read_bytes(ctx, reader, scratch, step));
    left -= step;
  }
  return TS_OK;
}

/* --- tables */

static const uint8_t *take(struct cursor *cursor, size_t size_bytes) {
  static const uint8_t zeros[TS__TRACE_CODE_INSN_BYTES] = {0};
  if (cursor->is_bad || (size_t)(cursor->end - cursor->at) < size_bytes) {
    cursor->is_bad = true;
    return zeros;
  }
  const uint8_t *at = cursor->at;
  cursor->at += size_bytes;
  return at;
}

static uint32_t take_u32(struct cursor *cursor) { return ts__get_u32(take(cursor, 4)); }
static uint64_t take_u64(struct cursor *cursor) { return ts__get_u64(take(cursor, 8)); }

/* A count of things that take at least min_bytes each: more than fit is a bad payload. */
static uint32_t take_count(struct cursor *cursor, size_t min_bytes) {
  uint32_t count = take_u32(cursor);
  if (count > (size_t)(cursor->end - cursor->at) / min_bytes) cursor->is_bad = true;
  return cursor->is_bad ? 0 : count;
}

/* Control characters could reach a terminal: they make the payload bad. */
static enum ts_status take_text(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                struct cursor *cursor, const char **text) {
  uint32_t length = take_count(cursor, 1);
  const uint8_t *bytes = cursor->at;
  for (uint32_t i = 0; i < length; i++) {
    if (bytes[i] < 0x20 || bytes[i] == 0x7f) cursor->is_bad = true;
  }
  cursor->at += length;
  *text = ts_arena_copy(&reader->arena, (const char *)bytes, cursor->is_bad ? 0 : length);
  return *text ? TS_OK : ts_fail_memory(ctx);
}

static enum ts_status take_names(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                 struct cursor *cursor, struct name_list *list) {
  uint32_t count = take_count(cursor, 4);
  list->names = ts_new_array(&reader->arena, const char *, count ? count : 1);
  if (!list->names) return ts_fail_memory(ctx);
  for (uint32_t i = 0; i < count; i++)
    TS_TRY(take_text(ctx, reader, cursor, &list->names[i]));
  list->count = count;
  return TS_OK;
}

static bool is_code_insn_sound(const struct ts_trace_reader *reader, const struct ts_code *code,
                               const struct ts_code_insn *insn) {
  uint64_t end = (uint64_t)insn->first_ref + insn->use_count + insn->def_count;
  return insn->op < reader->ops.count && insn->dtype <= reader->dtypes.count &&
         insn->dtype2 <= reader->dtypes.count && end <= code->ref_count &&
         insn->block < code->block_count;
}

static struct ts_code_insn get_code_insn(const uint8_t *at) {
  return (struct ts_code_insn){.op = ts__get_u16(at),
                               .dtype = at[2],
                               .lanes = at[3],
                               .dtype2 = at[4],
                               .flags = at[5],
                               .m = ts__get_u16(at + 6),
                               .n = ts__get_u16(at + 8),
                               .k = ts__get_u16(at + 10),
                               .use_count = ts__get_u16(at + 12),
                               .def_count = ts__get_u16(at + 14),
                               .first_ref = ts__get_u32(at + 16),
                               .block = ts__get_u32(at + 20),
                               .rank = ts__get_u32(at + 24),
                               .approx = at[28],
                               .control = at[29],
                               .spilled_words = ts__get_u16(at + 30)};
}

/* The table of the function's insn_count instructions; NULL when the file states none. */
static enum ts_status take_code(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                struct cursor *cursor, uint32_t insn_count,
                                const struct ts_code **out) {
  enum { REF_BYTES = 8 };
  uint32_t is_stated = take_u32(cursor);
  *out = NULL;
  if (is_stated > 1) cursor->is_bad = true;
  if (!is_stated || cursor->is_bad) return TS_OK;
  struct ts_code head = {.insn_count = insn_count, .slot_count = take_u32(cursor)};
  head.block_count = take_u32(cursor);
  head.registers_per_thread = take_u32(cursor);
  head.machine_insn_count = take_u32(cursor);
  head.static_shared_bytes = take_u64(cursor);
  head.ref_count = take_count(cursor, REF_BYTES);
  if ((size_t)(cursor->end - cursor->at) / TS__TRACE_CODE_INSN_BYTES < insn_count)
    cursor->is_bad = true;
  if (cursor->is_bad) return TS_OK;
  struct ts_code *code = ts_new(&reader->arena, struct ts_code);
  struct ts_code_ref *refs = ts_new_array(&reader->arena, struct ts_code_ref, head.ref_count + 1u);
  struct ts_code_insn *insns = ts_new_array(&reader->arena, struct ts_code_insn, insn_count + 1u);
  if (!code || !refs || !insns) return ts_fail_memory(ctx);
  for (uint32_t i = 0; i < head.ref_count; i++) {
    refs[i] = (struct ts_code_ref){take_u32(cursor), 0};
    refs[i].count = take_u32(cursor);
    if ((uint64_t)refs[i].first + refs[i].count > head.slot_count) cursor->is_bad = true;
  }
  for (uint32_t i = 0; i < insn_count && !cursor->is_bad; i++) {
    insns[i] = get_code_insn(take(cursor, TS__TRACE_CODE_INSN_BYTES));
    if (!is_code_insn_sound(reader, &head, &insns[i])) cursor->is_bad = true;
  }
  head.refs = refs;
  head.insns = insns;
  *code = head;
  *out = code;
  return TS_OK;
}

static enum ts_status take_function(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                    struct cursor *cursor, struct ts_trace_function *function) {
  enum { INSN_BYTES = 16 };
  struct name_list files = {0};
  TS_TRY(take_text(ctx, reader, cursor, &function->name));
  TS_TRY(take_names(ctx, reader, cursor, &files));
  uint32_t count = take_count(cursor, INSN_BYTES);
  struct ts_source_place *places =
      ts_new_array(&reader->arena, struct ts_source_place, count ? count : 1);
  uint16_t *ops = ts_new_array(&reader->arena, uint16_t, count ? count : 1);
  if (!places || !ops) return ts_fail_memory(ctx);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t op = take_u32(cursor), file = take_u32(cursor);
    places[i].line = take_u32(cursor);
    places[i].column = take_u32(cursor);
    if (op >= reader->ops.count || (file >= files.count && file != UINT32_MAX))
      cursor->is_bad = true;
    if (cursor->is_bad) break;
    ops[i] = (uint16_t)op;
    places[i].file = file == UINT32_MAX ? NULL : files.names[file];
  }
  function->insn_count = count;
  function->places = places;
  function->ops = ops;
  return take_code(ctx, reader, cursor, count, &function->code);
}

static enum ts_status take_functions(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                     struct cursor *cursor) {
  uint32_t count = take_count(cursor, 12);
  struct ts_trace_function *functions =
      ts_new_array(&reader->arena, struct ts_trace_function, count ? count : 1);
  if (!functions) return ts_fail_memory(ctx);
  for (uint32_t i = 0; i < count; i++)
    TS_TRY(take_function(ctx, reader, cursor, &functions[i]));
  reader->program.functions = functions;
  reader->program.function_count = count;
  return TS_OK;
}

static enum ts_status take_launches(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                    struct cursor *cursor) {
  enum { LAUNCH_BYTES = 48 };
  uint32_t count = take_count(cursor, LAUNCH_BYTES);
  struct ts_trace_launch *launches =
      ts_new_array(&reader->arena, struct ts_trace_launch, count ? count : 1);
  if (!launches) return ts_fail_memory(ctx);
  for (uint32_t i = 0; i < count; i++) {
    struct ts_trace_launch *launch = &launches[i];
    launch->function = take_u32(cursor);
    for (unsigned d = 0; d < 3; d++)
      launch->grid[d] = take_u32(cursor);
    for (unsigned d = 0; d < 3; d++)
      launch->block[d] = take_u32(cursor);
    for (unsigned d = 0; d < 3; d++)
      launch->cluster[d] = take_u32(cursor);
    launch->dynamic_shared_bytes = take_u64(cursor);
    if (launch->function >= reader->program.function_count) cursor->is_bad = true;
  }
  reader->program.launches = launches;
  reader->program.launch_count = count;
  return TS_OK;
}

/* Reads the block with this tag into the events buffer (unused yet); unknown blocks before it are
 * skipped. */
static enum ts_status read_table(struct ts_ctx *ctx, struct ts_trace_reader *reader, uint32_t tag,
                                 struct cursor *cursor) {
  struct block block;
  TS_TRY(read_block_header(ctx, reader, &block));
  while (block.tag != tag) {
    if (block.tag == TS__TRACE_TAG_EVENTS || block.tag == TS__TRACE_TAG_DONE)
      return fail(ctx, reader, "a table is missing before the events");
    TS_TRY(skip_payload(ctx, reader, &block));
    TS_TRY(read_block_header(ctx, reader, &block));
  }
  TS_TRY(read_payload(ctx, reader, &block, &reader->events));
  *cursor = (struct cursor){reader->events.data, reader->events.data, false};
  if (reader->events.size_bytes) cursor->end += reader->events.size_bytes;
  return TS_OK;
}

static enum ts_status check_table(struct ts_ctx *ctx, const struct ts_trace_reader *reader,
                                  const struct cursor *cursor, const char *what) {
  return cursor->is_bad || cursor->at != cursor->end ? fail(ctx, reader, what) : TS_OK;
}

static enum ts_status read_tables(struct ts_ctx *ctx, struct ts_trace_reader *reader) {
  struct cursor cursor;
  TS_TRY(read_table(ctx, reader, TS__TRACE_TAG_NAMES, &cursor));
  TS_TRY(take_names(ctx, reader, &cursor, &reader->ops));
  TS_TRY(take_names(ctx, reader, &cursor, &reader->dtypes));
  TS_TRY(take_names(ctx, reader, &cursor, &reader->spaces));
  TS_TRY(check_table(ctx, reader, &cursor, "the table of names is malformed"));
  TS_TRY(read_table(ctx, reader, TS__TRACE_TAG_FUNCTIONS, &cursor));
  TS_TRY(take_functions(ctx, reader, &cursor));
  TS_TRY(check_table(ctx, reader, &cursor, "the table of functions is malformed"));
  TS_TRY(read_table(ctx, reader, TS__TRACE_TAG_LAUNCHES, &cursor));
  TS_TRY(take_launches(ctx, reader, &cursor));
  TS_TRY(check_table(ctx, reader, &cursor, "the table of launches is malformed"));
  reader->events.size_bytes = 0;
  return TS_OK;
}

static enum ts_status read_header(struct ts_ctx *ctx, struct ts_trace_reader *reader) {
  uint8_t head[TS__TRACE_HEADER_BYTES];
  size_t got = fread(head, 1, sizeof head, reader->stream);
  reader->position += got;
  if (got < TS__TRACE_MAGIC_BYTES || memcmp(head, TS__TRACE_MAGIC, TS__TRACE_MAGIC_BYTES) != 0)
    return ferror(reader->stream) ? fail_short(ctx, reader)
                                  : fail(ctx, reader, "not an event file");
  if (got < sizeof head) return fail_short(ctx, reader);
  uint32_t version = ts__get_u32(head + TS__TRACE_MAGIC_BYTES);
  if (version != TS__TRACE_VERSION)
    return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_INPUT_EVENTS, TS_FILE_PLACE(reader->path),
                   "event file format %u; this program reads format %d: write the file again",
                   version, TS__TRACE_VERSION);
  if (ts__get_u32(head + 12) != TS__TRACE_HEADER_BYTES ||
      ts__get_u32(head + 16) != TS__TRACE_RECORD_BYTES)
    return fail(ctx, reader, "the header states sizes that format 2 does not have");
  for (unsigned i = 20; i < TS__TRACE_HEADER_BYTES; i++) {
    if (head[i]) return fail(ctx, reader, "a reserved byte of the header is not zero");
  }
  return TS_OK;
}

/* --- events */

static enum ts_status read_done(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                const struct block *block) {
  uint8_t extra;
  TS_TRY(read_payload(ctx, reader, block, &reader->events));
  if (reader->events.size_bytes != 16 || ts__get_u64(reader->events.data) != reader->event_count ||
      ts__get_u64(reader->events.data + 8) != reader->footprint_end_bytes)
    return fail(ctx, reader, "the final counts do not agree with the content");
  if (fread(&extra, 1, 1, reader->stream) == 1)
    return fail(ctx, reader, "there are bytes after the end");
  reader->is_done = true;
  return TS_OK;
}

static enum ts_status read_footprints(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                      const struct block *block) {
  TS_TRY(read_payload(ctx, reader, block, &reader->footprints));
  if (reader->footprints.size_bytes < 8 ||
      ts__get_u64(reader->footprints.data) != reader->footprint_end_bytes)
    return fail(ctx, reader, "a block of footprints is malformed");
  reader->footprint_position = reader->position - reader->footprints.size_bytes;
  reader->footprint_start_bytes = reader->footprint_end_bytes;
  reader->footprint_end_bytes += reader->footprints.size_bytes - 8;
  return TS_OK;
}

/* Reads blocks until there is an event to hand out or the file has ended. */
static enum ts_status read_more(struct ts_ctx *ctx, struct ts_trace_reader *reader) {
  while (!reader->is_done) {
    struct block block;
    TS_TRY(read_block_header(ctx, reader, &block));
    switch (block.tag) {
    case TS__TRACE_TAG_FOOTPRINTS: TS_TRY(read_footprints(ctx, reader, &block)); break;
    case TS__TRACE_TAG_DONE: return read_done(ctx, reader, &block);
    case TS__TRACE_TAG_EVENTS:
      TS_TRY(read_payload(ctx, reader, &block, &reader->events));
      if (reader->events.size_bytes % TS__TRACE_RECORD_BYTES)
        return fail(ctx, reader, "a block of events is not a whole number of records");
      reader->event_at = 0;
      if (reader->events.size_bytes) return TS_OK;
      break;
    default: TS_TRY(skip_payload(ctx, reader, &block));
    }
  }
  return TS_OK;
}

static void get_event(const uint8_t *at, struct ts_event *event) {
  event->seq = ts__get_u64(at);
  event->block = ts__get_u32(at + 8);
  event->warp = ts__get_u16(at + 12);
  event->kind = at[14];
  event->sync_kind = at[15];
  event->insn = ts__get_u32(at + 16);
  event->op = ts__get_u16(at + 20);
  event->dtype = at[22];
  event->lanes = at[23];
  event->src_space = at[24];
  event->dst_space = at[25];
  event->launch = ts__get_u16(at + 26);
  event->mask = ts__get_u32(at + 28);
  event->bytes = ts__get_u32(at + 32);
  event->work = ts__get_u32(at + 36);
  event->sync_object = ts__get_u32(at + 40);
  event->sync_phase = ts__get_u32(at + 44);
  event->cause = ts__get_u64(at + 48);
  event->footprint = ts__get_u64(at + 56);
}

static bool is_space(const struct ts_trace_reader *reader, uint8_t space) {
  return space == TS__TRACE_NO_SPACE || space < reader->spaces.count;
}

/* Saturates: the numbers of blocks have 32 bits. */
static uint64_t block_count_of(const struct ts_trace_launch *launch) {
  uint64_t count = (uint64_t)launch->grid[0] * launch->grid[1];
  return count > UINT32_MAX ? UINT32_MAX : count * launch->grid[2];
}

/* NULL when the event is sound. */
static const char *event_problem(const struct ts_trace_reader *reader,
                                 const struct ts_event *event) {
  if (event->seq != reader->event_count) return "an event is out of sequence";
  if (event->kind >= TS_EVENT_KIND_COUNT) return "an event has an unknown kind";
  if (event->sync_kind > TS_SYNC_CLUSTER) return "an event has an unknown kind of sync object";
  if (event->op >= reader->ops.count && event->op != UINT16_MAX)
    return "an event has an unknown op";
  if (event->dtype > reader->dtypes.count) return "an event has an unknown dtype";
  if (!is_space(reader, event->src_space) || !is_space(reader, event->dst_space))
    return "an event has an unknown memory space";
  if (event->launch >= reader->program.launch_count) return "an event is of an unknown launch";
  if (event->kind == TS_EVENT_LANDED && event->cause > event->seq)
    return "an event's cause comes later";
  const struct ts_trace_launch *launch = &reader->program.launches[event->launch];
  if (event->kind != TS_EVENT_LANDED && event->cause > block_count_of(launch))
    return "an event acts on an unknown block";
  uint32_t function = reader->program.launches[event->launch].function;
  if (event->insn != UINT32_MAX && event->insn >= reader->program.functions[function].insn_count)
    return "an event is of an unknown instruction";
  return NULL;
}

/* Decodes the footprint at the offset of the event into reader->footprint. */
static const char *footprint_problem(struct ts_trace_reader *reader, uint64_t offset) {
  static const char malformed[] = "an event's footprint is malformed";
  struct ts_footprint *footprint = &reader->footprint;
  if (offset < reader->footprint_start_bytes || offset >= reader->footprint_end_bytes)
    return malformed;
  size_t room = (size_t)(reader->footprint_end_bytes - offset);
  const uint8_t *at =
      reader->footprints.data + 8 + (size_t)(offset - reader->footprint_start_bytes);
  if (room < 16) return malformed;
  *footprint = (struct ts_footprint){.kind = at[0], .space = at[1], .rank = at[2]};
  size_t needed = ts__trace_footprint_bytes(footprint->kind, footprint->rank);
  if (needed == 0 || needed > room || !is_space(reader, footprint->space)) return malformed;
  footprint->size_bytes = ts__get_u32(at + 4);
  footprint->base = ts__get_u64(at + 8);
  at += 16;
  if (footprint->kind == TS_FOOTPRINT_AFFINE) {
    footprint->lane_stride = (int64_t)ts__get_u64(at);
  } else if (footprint->kind == TS_FOOTPRINT_LANES) {
    for (unsigned i = 0; i < TS__TRACE_LANES; i++)
      reader->lanes[i] = ts__get_u64(at + 8 * i);
    footprint->lanes = reader->lanes;
  } else {
    for (unsigned i = 0; i < footprint->rank; i++, at += 24) {
      footprint->extent[i] = ts__get_u32(at);
      footprint->coordinate[i] = (int32_t)ts__get_u32(at + 4);
      footprint->stride_bytes[i] = ts__get_u64(at + 8);
      footprint->tensor_extent[i] = ts__get_u64(at + 16);
    }
  }
  return NULL;
}

/* The bytes of an event are those of one to 32 lanes; an event without lanes moves none. */
static bool are_lanes(uint32_t bytes, uint32_t size_bytes) {
  if (bytes == 0) return true;
  return size_bytes && bytes % size_bytes == 0 && bytes / size_bytes <= TS__TRACE_LANES;
}

static bool is_box_sound(const struct ts_event *event, const struct ts_footprint *footprint) {
  for (unsigned i = 0; i < footprint->rank; i++)
    if (!footprint->extent[i] || footprint->extent[i] > MAX_COPY_BYTES) return false;
  return event->bytes <= MAX_COPY_BYTES && footprint->size_bytes <= MAX_COPY_BYTES &&
         footprint->size_bytes % footprint->extent[0] == 0;
}

/* What was expected when the lengths are none that an event of this kind has, else NULL. A box may
 * reach further than its bytes: it skips elements, and pixels are told as lines. */
static const char *length_expected(const struct ts_event *event,
                                   const struct ts_footprint *footprint) {
  uint32_t bytes = event->bytes, size_bytes = footprint->size_bytes;
  bool is_copy = event->kind == TS_EVENT_COPY || event->kind == TS_EVENT_LANDED;
  if (!is_copy && event->kind != TS_EVENT_MEMORY) return "no footprint of an event of this kind";
  if (footprint->kind == TS_FOOTPRINT_BOX) {
    if (is_copy && is_box_sound(event, footprint)) return NULL;
    return "a box of a copy: at most 1048576 bytes, extents from 1, rows of whole elements";
  }
  if (is_copy && footprint->kind == TS_FOOTPRINT_AFFINE) {
    if (size_bytes == bytes && bytes <= MAX_COPY_BYTES) return NULL;
    return "all bytes of the copy, at most 1048576";
  }
  if (size_bytes <= (is_copy ? MAX_CP_ASYNC_BYTES : MAX_ACCESS_BYTES) &&
      are_lanes(bytes, size_bytes))
    return NULL;
  return is_copy ? "at most 16, and the event's bytes a multiple for up to 32 lanes"
                 : "at most 512, and the event's bytes a multiple for up to 32 lanes";
}

static enum ts_status check_lengths(struct ts_ctx *ctx, const struct ts_trace_reader *reader,
                                    const struct ts_event *event) {
  const struct ts_footprint *footprint = &reader->footprint;
  const char *expected = length_expected(event, footprint);
  if (!expected) return TS_OK;
  uint64_t offset = 8 + (event->footprint - 1 - reader->footprint_start_bytes);
  return ts_fail(
      ctx, TS_BAD_INPUT, TS_DIAG_INPUT_EVENTS, TS_FILE_PLACE(reader->path),
      "the footprint at byte %llu, of event %llu, is malformed: found %u bytes per %s of "
      "an event of %u bytes, expected %s",
      (unsigned long long)(reader->footprint_position + offset), (unsigned long long)event->seq,
      footprint->size_bytes, footprint->kind == TS_FOOTPRINT_BOX ? "row" : "lane", event->bytes,
      expected);
}

enum ts_status ts_trace_reader_next(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                    struct ts_event *event, const struct ts_footprint **footprint,
                                    bool *is_end) {
  *footprint = NULL;
  *is_end = false;
  if (!reader->is_done && reader->event_at >= reader->events.size_bytes)
    TS_TRY(read_more(ctx, reader));
  if (reader->is_done) {
    *is_end = true;
    return TS_OK;
  }
  get_event(reader->events.data + reader->event_at, event);
  const char *problem = event_problem(reader, event);
  if (!problem && event->footprint) problem = footprint_problem(reader, event->footprint - 1);
  if (problem) return fail(ctx, reader, problem);
  if (event->footprint) {
    TS_TRY(check_lengths(ctx, reader, event));
    *footprint = &reader->footprint;
  }
  reader->event_at += TS__TRACE_RECORD_BYTES;
  reader->event_count++;
  return TS_OK;
}

enum ts_status ts_trace_replay(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                               struct ts_sink *sink) {
  struct ts_event event;
  const struct ts_footprint *footprint;
  bool is_end;
  TS_TRY(ts_trace_reader_next(ctx, reader, &event, &footprint, &is_end));
  while (!is_end) {
    TS_TRY(sink->emit(sink, &event, footprint));
    TS_TRY(ts_trace_reader_next(ctx, reader, &event, &footprint, &is_end));
  }
  return TS_OK;
}

/* --- life */

static enum ts_status start(struct ts_ctx *ctx, struct ts_trace_reader *reader, const char *path) {
  reader->path = ts_arena_copy(&reader->arena, path, strlen(path));
  if (!reader->path) return ts_fail_memory(ctx);
  TS_TRY(read_header(ctx, reader));
  return read_tables(ctx, reader);
}

enum ts_status ts_trace_reader_open_stream(struct ts_ctx *ctx, FILE *stream, const char *path,
                                           struct ts_trace_reader **out) {
  struct ts_arena arena;
  *out = NULL;
  ts_arena_init(&arena, ctx->allocator);
  struct ts_trace_reader *reader = ts_new(&arena, struct ts_trace_reader);
  if (!reader) {
    ts_arena_free(&arena);
    fclose(stream);
    return ts_fail_memory(ctx);
  }
  reader->arena = arena;
  reader->allocator = ctx->allocator;
  reader->stream = stream;
  enum ts_status status = start(ctx, reader, path);
  if (status != TS_OK) {
    ts_trace_reader_close(reader);
    return status;
  }
  *out = reader;
  return TS_OK;
}

enum ts_status ts_trace_reader_open(struct ts_ctx *ctx, const char *path,
                                    struct ts_trace_reader **out) {
  *out = NULL;
  FILE *stream = fopen(path, "rb");
  if (!stream)
    return ts_fail(ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(path), "cannot open the file");
  return ts_trace_reader_open_stream(ctx, stream, path, out);
}

void ts_trace_reader_close(struct ts_trace_reader *reader) {
  if (!reader) return;
  fclose(reader->stream);
  release(reader->allocator, &reader->events);
  release(reader->allocator, &reader->footprints);
  struct ts_arena arena = reader->arena;
  ts_arena_free(&arena);
}

const struct ts_trace_program *ts_trace_reader_program(const struct ts_trace_reader *reader) {
  return &reader->program;
}

static const char *list_name(const struct name_list *list, uint32_t index) {
  return index < list->count ? list->names[index] : "?";
}

const char *ts_trace_reader_op_name(const struct ts_trace_reader *reader, uint16_t op) {
  return op == UINT16_MAX ? "" : list_name(&reader->ops, op);
}

const char *ts_trace_reader_dtype_name(const struct ts_trace_reader *reader, uint8_t dtype) {
  return list_name(&reader->dtypes, dtype);
}

const char *ts_trace_reader_space_name(const struct ts_trace_reader *reader, uint8_t space) {
  return space == TS__TRACE_NO_SPACE ? "" : list_name(&reader->spaces, space);
}
