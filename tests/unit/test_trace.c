/* Event files: what is written comes back, and no damaged file is taken for a whole one. */
#include "ir/type.h"
#include "support/failing_allocator.h"
#include "support/suite.h"
#include "trace/trace_priv.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { OP_COPY = 3, OP_WAIT = 5 };

static const struct ts_source_place places[2] = {{"kernel.py", 12, 4}, {NULL, 0, 0}};
static const uint16_t ops[2] = {OP_COPY, OP_WAIT};
static const struct ts_code_ref refs[3] = {{0, 1}, {1, 2}, {9, 1}};
static const struct ts_code_insn code_insns[2] = {
    {.op = OP_COPY,
     .dtype = TS_DTYPE_f16,
     .lanes = 8,
     .dtype2 = TS_DTYPE_f32,
     .flags = TS_CODE_FREE | TS_CODE_ADDRESS,
     .m = 64,
     .n = 256,
     .k = 16,
     .use_count = 2,
     .def_count = 1,
     .first_ref = 0,
     .block = 1,
     .rank = 7,
     .approx = 1,
     .control = 9,
     .spilled_words = 300},
    {.op = OP_WAIT, .first_ref = 3},
};
static const struct ts_code code = {.insns = code_insns,
                                    .insn_count = 2,
                                    .refs = refs,
                                    .ref_count = 3,
                                    .slot_count = 10,
                                    .block_count = 2,
                                    .registers_per_thread = 168,
                                    .static_shared_bytes = 1056,
                                    .machine_insn_count = 77};
static const struct ts_trace_function functions[2] = {{"main_kernel", 2, places, ops, &code},
                                                      {"other_kernel", 2, places, ops, NULL}};
static const struct ts_trace_launch launches[2] = {
    {0, {2, 3, 4}, {128, 1, 1}, {1, 1, 1}, 49152},
    {0, {1, 1, 1}, {32, 2, 1}, {2, 1, 1}, 0},
};
static const struct ts_trace_program program = {functions, 2, launches, 2};

static struct ts_diag_list diags;
static struct ts_ctx ctx;
static char path[64];

static void setup(const struct ts_allocator *allocator) {
  ck_assert_int_eq(ts_diag_list_init(&diags, allocator), TS_OK);
  ctx = (struct ts_ctx){allocator, &diags};
  snprintf(path, sizeof path, "/tmp/tilesim-test-trace-%ld", (long)getpid());
}

static void teardown(void) {
  ts_diag_list_free(&diags);
  unlink(path);
}

/* Copies that act on a block of the launch or their own, and events that complete earlier ones. */
static struct ts_event make_event(uint64_t i) {
  return (struct ts_event){.block = (uint32_t)i,
                           .warp = (uint16_t)(i % 8),
                           .kind = i % 2 ? TS_EVENT_LANDED : TS_EVENT_COPY,
                           .sync_kind = TS_SYNC_MBARRIER,
                           .insn = (uint32_t)(i % 2),
                           .op = OP_COPY,
                           .dtype = TS_DTYPE_f16,
                           .lanes = 8,
                           .src_space = TS_SPACE_GLOBAL,
                           .dst_space = 0xff,
                           .launch = (uint16_t)(i % 2),
                           .mask = 0xfffffffeu,
                           .bytes = i % 4 == TS_FOOTPRINT_AFFINE ? 4096 : 512,
                           .work = (uint32_t)(i * 3),
                           .sync_object = 1024,
                           .sync_phase = (uint32_t)(i / 2),
                           .cause = i % 2 ? i : i % 25};
}

/* Footprints of all kinds by turns, and none. */
static const struct ts_footprint *make_footprint(uint64_t i, struct ts_footprint *footprint,
                                                 uint64_t lanes[32]) {
  *footprint = (struct ts_footprint){.kind = (uint8_t)(i % 4),
                                     .space = TS_SPACE_SHARED,
                                     .size_bytes = 16,
                                     .base = UINT64_C(0x123456789a) + i};
  switch (i % 4) {
  case TS_FOOTPRINT_AFFINE:
    footprint->size_bytes = 4096;
    footprint->lane_stride = -(int64_t)i;
    return footprint;
  case TS_FOOTPRINT_LANES:
    for (unsigned k = 0; k < 32; k++)
      lanes[k] = i * 1000 + k;
    footprint->lanes = lanes;
    return footprint;
  case TS_FOOTPRINT_BOX:
    footprint->rank = (uint8_t)(1 + i / 4 % 5);
    footprint->tensor_extent[0] = UINT64_C(5000000000);
    for (unsigned k = 0; k < footprint->rank; k++) {
      footprint->extent[k] = k + 8;
      footprint->coordinate[k] = -(int32_t)k;
      footprint->stride_bytes[k] = UINT64_C(1) << (33 + k);
    }
    return footprint;
  default: return NULL;
  }
}

static enum ts_status write_events(uint64_t count, bool commit) {
  struct ts_trace_writer *writer;
  enum ts_status status = ts_trace_writer_open(&ctx, path, &program, &writer);
  if (status != TS_OK) return status;
  struct ts_sink *sink = ts_trace_writer_sink(writer);
  for (uint64_t i = 0; i < count && status == TS_OK; i++) {
    struct ts_event event = make_event(i);
    struct ts_footprint footprint;
    uint64_t lanes[32];
    status = sink->emit(sink, &event, make_footprint(i, &footprint, lanes));
    if (status == TS_OK) ck_assert_uint_eq(event.seq, i);
  }
  enum ts_status closed = ts_trace_writer_close(&ctx, writer, commit);
  return status != TS_OK ? status : closed;
}

static void expect_event(uint64_t i, const struct ts_event *event,
                         const struct ts_footprint *footprint) {
  struct ts_event expected = make_event(i);
  struct ts_footprint made;
  uint64_t lanes[32];
  const struct ts_footprint *wanted = make_footprint(i, &made, lanes);
  expected.seq = i;
  expected.footprint = event->footprint;
  ck_assert_mem_eq(event, &expected, sizeof expected);
  ck_assert_int_eq(wanted != NULL, footprint != NULL);
  ck_assert_int_eq(wanted != NULL, event->footprint != 0);
  if (!wanted) return;
  ck_assert_uint_eq(footprint->kind, wanted->kind);
  ck_assert_uint_eq(footprint->space, wanted->space);
  ck_assert_uint_eq(footprint->size_bytes, wanted->size_bytes);
  ck_assert_uint_eq(footprint->base, wanted->base);
  ck_assert_int_eq(footprint->lane_stride, wanted->lane_stride);
  ck_assert_uint_eq(footprint->rank, wanted->rank);
  ck_assert_mem_eq(footprint->extent, wanted->extent, sizeof wanted->extent);
  ck_assert_mem_eq(footprint->coordinate, wanted->coordinate, sizeof wanted->coordinate);
  ck_assert_mem_eq(footprint->stride_bytes, wanted->stride_bytes, sizeof wanted->stride_bytes);
  ck_assert_mem_eq(footprint->tensor_extent, wanted->tensor_extent, sizeof wanted->tensor_extent);
  if (wanted->lanes) ck_assert_mem_eq(footprint->lanes, lanes, sizeof lanes);
}

START_TEST(test_round_trip) {
  enum { COUNT = 10000 }; /* more than two buffers of the writer */
  struct ts_trace_reader *reader;
  struct ts_event event;
  const struct ts_footprint *footprint;
  bool is_end;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(COUNT, true), TS_OK);
  ck_assert_int_eq(ts_trace_reader_open(&ctx, path, &reader), TS_OK);
  for (uint64_t i = 0; i < COUNT; i++) {
    ck_assert_int_eq(ts_trace_reader_next(&ctx, reader, &event, &footprint, &is_end), TS_OK);
    ck_assert(!is_end);
    expect_event(i, &event, footprint);
  }
  ck_assert_int_eq(ts_trace_reader_next(&ctx, reader, &event, &footprint, &is_end), TS_OK);
  ck_assert(is_end);
  ts_trace_reader_close(reader);
  teardown();
}
END_TEST

START_TEST(test_code) {
  struct ts_trace_reader *reader;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(0, true), TS_OK);
  ck_assert_int_eq(ts_trace_reader_open(&ctx, path, &reader), TS_OK);
  const struct ts_trace_program *read = ts_trace_reader_program(reader);
  const struct ts_code *got = read->functions[0].code;
  ck_assert_ptr_nonnull(got);
  ck_assert_ptr_null(read->functions[1].code);
  ck_assert_uint_eq(got->insn_count, 2);
  ck_assert_mem_eq(got->insns, code_insns, sizeof code_insns);
  ck_assert_uint_eq(got->ref_count, 3);
  ck_assert_mem_eq(got->refs, refs, sizeof refs);
  ck_assert_uint_eq(got->slot_count, 10);
  ck_assert_uint_eq(got->block_count, 2);
  ck_assert_uint_eq(got->registers_per_thread, 168);
  ck_assert_uint_eq(got->static_shared_bytes, 1056);
  ck_assert_uint_eq(got->machine_insn_count, 77);
  ts_trace_reader_close(reader);
  teardown();
}
END_TEST

START_TEST(test_tables) {
  struct ts_trace_reader *reader;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(0, true), TS_OK);
  ck_assert_int_eq(ts_trace_reader_open(&ctx, path, &reader), TS_OK);
  const struct ts_trace_program *read = ts_trace_reader_program(reader);
  ck_assert_uint_eq(read->function_count, 2);
  ck_assert_str_eq(read->functions[0].name, "main_kernel");
  ck_assert_uint_eq(read->functions[0].insn_count, 2);
  ck_assert_mem_eq(read->functions[0].ops, ops, sizeof ops);
  ck_assert_str_eq(read->functions[0].places[0].file, "kernel.py");
  ck_assert_uint_eq(read->functions[0].places[0].line, 12);
  ck_assert_uint_eq(read->functions[0].places[0].column, 4);
  ck_assert_ptr_null(read->functions[0].places[1].file);
  ck_assert_uint_eq(read->launch_count, 2);
  ck_assert_mem_eq(read->launches, launches, sizeof launches);
  ck_assert_str_eq(ts_trace_reader_op_name(reader, 0), "mov");
  ck_assert_str_eq(ts_trace_reader_op_name(reader, 60000), "?");
  ck_assert_str_eq(ts_trace_reader_dtype_name(reader, TS_DTYPE_bf16), "bf16");
  ck_assert_str_eq(ts_trace_reader_space_name(reader, TS_SPACE_SHARED), "shared");
  ck_assert_str_eq(ts_trace_reader_space_name(reader, 0xff), "");
  ts_trace_reader_close(reader);
  teardown();
}
END_TEST

static char *read_file(size_t *size_bytes) {
  struct stat info;
  FILE *stream = fopen(path, "rb");
  ck_assert_ptr_nonnull(stream);
  ck_assert_int_eq(stat(path, &info), 0);
  *size_bytes = (size_t)info.st_size;
  char *data = malloc(*size_bytes);
  ck_assert_uint_eq(fread(data, 1, *size_bytes, stream), *size_bytes);
  fclose(stream);
  return data;
}

struct counting_sink {
  struct ts_sink sink;
  uint64_t count;
};

static enum ts_status count_event(struct ts_sink *sink, struct ts_event *event,
                                  const struct ts_footprint *footprint) {
  struct counting_sink *self = (struct counting_sink *)sink;
  (void)footprint;
  ck_assert_uint_eq(event->seq, self->count);
  self->count++;
  return TS_OK;
}

static enum ts_status replay(char *data, size_t size_bytes) {
  struct ts_trace_reader *reader;
  struct counting_sink sink = {.sink.emit = count_event};
  FILE *stream = fmemopen(data, size_bytes ? size_bytes : 1, "rb");
  ck_assert_ptr_nonnull(stream);
  if (size_bytes == 0) fgetc(stream);
  enum ts_status status = ts_trace_reader_open_stream(&ctx, stream, "memory", &reader);
  if (status != TS_OK) return status;
  status = ts_trace_replay(&ctx, reader, &sink.sink);
  ts_trace_reader_close(reader);
  return status;
}

/* Writes one event with its footprint and reads it. */
static enum ts_status pass_event(struct ts_event event, struct ts_footprint footprint) {
  static const uint64_t lanes[32] = {0};
  struct ts_trace_writer *writer;
  size_t size_bytes;
  ck_assert_int_eq(ts_trace_writer_open(&ctx, path, &program, &writer), TS_OK);
  struct ts_sink *sink = ts_trace_writer_sink(writer);
  footprint.lanes = lanes;
  ck_assert_int_eq(sink->emit(sink, &event, &footprint), TS_OK);
  ck_assert_int_eq(ts_trace_writer_close(&ctx, writer, true), TS_OK);
  char *data = read_file(&size_bytes);
  enum ts_status status = replay(data, size_bytes);
  free(data);
  return status;
}

static enum ts_status pass_lengths(uint8_t event_kind, uint8_t kind, uint32_t bytes,
                                   uint32_t size_bytes) {
  struct ts_event event = make_event(0);
  event.kind = event_kind;
  event.cause = 0;
  event.bytes = bytes;
  struct ts_footprint footprint = {.kind = kind,
                                   .space = TS_SPACE_SHARED,
                                   .rank = 2,
                                   .size_bytes = size_bytes,
                                   .extent = {8, 4}};
  return pass_event(event, footprint);
}

START_TEST(test_lengths_of_footprints) {
  static const struct {
    uint8_t event, kind;
    uint32_t bytes, size_bytes;
    enum ts_status status;
  } rows[] = {
      {TS_EVENT_MEMORY, TS_FOOTPRINT_LANES, 512, 16, TS_OK},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_LANES, 512 * 32, 512, TS_OK},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_LANES, 0, 4, TS_OK},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_LANES, 512, 0xfcdf7bfd, TS_BAD_INPUT},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_AFFINE, 128, UINT32_MAX, TS_BAD_INPUT},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_AFFINE, 0, 513, TS_BAD_INPUT},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_AFFINE, 128, 0, TS_BAD_INPUT},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_AFFINE, 128, 3, TS_BAD_INPUT},
      {TS_EVENT_MEMORY, TS_FOOTPRINT_AFFINE, 128, 2, TS_BAD_INPUT}, /* 64 lanes */
      {TS_EVENT_MEMORY, TS_FOOTPRINT_BOX, 128, 32, TS_BAD_INPUT},
      {TS_EVENT_COPY, TS_FOOTPRINT_LANES, 512, 16, TS_OK},
      {TS_EVENT_COPY, TS_FOOTPRINT_LANES, 1024, 32, TS_BAD_INPUT},
      {TS_EVENT_COPY, TS_FOOTPRINT_AFFINE, 65536, 65536, TS_OK},
      {TS_EVENT_COPY, TS_FOOTPRINT_AFFINE, 65536, 16, TS_BAD_INPUT},
      {TS_EVENT_LANDED, TS_FOOTPRINT_AFFINE, UINT32_MAX, UINT32_MAX, TS_BAD_INPUT},
      {TS_EVENT_COPY, TS_FOOTPRINT_BOX, 64, 16, TS_OK},
      {TS_EVENT_COPY, TS_FOOTPRINT_BOX, 64, 20, TS_BAD_INPUT},
      {TS_EVENT_COPY, TS_FOOTPRINT_BOX, 64, 0x80000000, TS_BAD_INPUT},
      {TS_EVENT_COPY, TS_FOOTPRINT_BOX, 0x80000000, 16, TS_BAD_INPUT},
      {TS_EVENT_BRANCH, TS_FOOTPRINT_AFFINE, 4, 4, TS_BAD_INPUT},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    setup(&ts_allocator_libc);
    enum ts_status status =
        pass_lengths(rows[i].event, rows[i].kind, rows[i].bytes, rows[i].size_bytes);
    ck_assert_msg(status == rows[i].status, "row %zu: status %d", i, (int)status);
    if (status != TS_OK)
      ck_assert_ptr_nonnull(strstr(diags.items.data[0].message, "of event 0, is malformed: found"));
    teardown();
  }
}
END_TEST

START_TEST(test_extents_of_boxes) {
  static const uint32_t extents[] = {0, (1 << 20) + 1, UINT32_MAX};
  for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
    setup(&ts_allocator_libc);
    struct ts_footprint footprint = {.kind = TS_FOOTPRINT_BOX,
                                     .space = TS_SPACE_GLOBAL,
                                     .rank = 2,
                                     .size_bytes = 16,
                                     .extent = {8, extents[i]}};
    ck_assert_int_eq(pass_event(make_event(0), footprint), TS_BAD_INPUT);
    footprint.extent[0] = extents[i];
    footprint.extent[1] = 4;
    ck_assert_int_eq(pass_event(make_event(0), footprint), TS_BAD_INPUT);
    teardown();
  }
}
END_TEST

START_TEST(test_truncated_is_an_error) {
  size_t size_bytes;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(20, true), TS_OK);
  char *data = read_file(&size_bytes);
  ck_assert_int_eq(replay(data, size_bytes), TS_OK);
  for (size_t cut = 0; cut < size_bytes; cut++)
    ck_assert_int_eq(replay(data, cut), TS_BAD_INPUT);
  ck_assert_uint_eq(diags.items.data[0].code, TS_DIAG_INPUT_EVENTS);
  free(data);
  teardown();
}
END_TEST

START_TEST(test_every_flipped_bit_is_an_error) {
  size_t size_bytes;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(6, true), TS_OK);
  char *data = read_file(&size_bytes);
  for (size_t bit = 0; bit < 8 * size_bytes; bit++) {
    data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    ck_assert_msg(replay(data, size_bytes) != TS_OK, "bit %zu of byte %zu", bit % 8, bit / 8);
    data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
  }
  ck_assert_int_eq(replay(data, size_bytes), TS_OK);
  free(data);
  teardown();
}
END_TEST

START_TEST(test_old_format) {
  size_t size_bytes;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(6, true), TS_OK);
  char *data = read_file(&size_bytes);
  data[8] = 1;
  ck_assert_int_eq(replay(data, size_bytes), TS_BAD_INPUT);
  ck_assert_ptr_nonnull(strstr(diags.items.data[0].message, "format 1"));
  free(data);
  teardown();
}
END_TEST

/* A block of a later version between known ones is skipped. */
START_TEST(test_unknown_block_is_skipped) {
  static const char extra[16 + 5] = {'N', 'E', 'W', '!', 1, 2, 3, 4, 5, 0, 0,
                                     0,   0,   0,   0,   0, 9, 9, 9, 9, 9};
  size_t size_bytes;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(6, true), TS_OK);
  char *data = read_file(&size_bytes);
  char *longer = malloc(size_bytes + sizeof extra);
  memcpy(longer, data, 32);
  memcpy(longer + 32, extra, sizeof extra);
  memcpy(longer + 32 + sizeof extra, data + 32, size_bytes - 32);
  ck_assert_int_eq(replay(longer, size_bytes + sizeof extra), TS_OK);
  free(longer);
  free(data);
  teardown();
}
END_TEST

START_TEST(test_abandoned_leaves_no_file) {
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(6, false), TS_OK);
  ck_assert_int_ne(access(path, F_OK), 0);
  struct ts_trace_writer *writer;
  ck_assert_int_eq(ts_trace_writer_open(&ctx, "/nonexistent/x", &program, &writer), TS_IO);
  ck_assert_ptr_null(writer);
  ck_assert_int_eq(ts_trace_writer_open(&ctx, "/tmp", &program, &writer), TS_IO);
  struct ts_trace_reader *reader;
  ck_assert_int_eq(ts_trace_reader_open(&ctx, "/nonexistent/x", &reader), TS_IO);
  ck_assert_int_ne(ts_trace_reader_open(&ctx, "/tmp", &reader), TS_OK);
  teardown();
}
END_TEST

START_TEST(test_full_disk_is_an_error) {
  setup(&ts_allocator_libc);
  snprintf(path, sizeof path, "/dev/full");
  if (access(path, F_OK) == 0) ck_assert_int_eq(write_events(100, true), TS_IO);
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_equal_runs_give_equal_bytes) {
  size_t first_bytes, second_bytes;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(write_events(5000, true), TS_OK);
  char *first = read_file(&first_bytes);
  ck_assert_int_eq(write_events(5000, true), TS_OK);
  char *second = read_file(&second_bytes);
  ck_assert_uint_eq(first_bytes, second_bytes);
  ck_assert_mem_eq(first, second, first_bytes);
  free(first);
  free(second);
  teardown();
}
END_TEST

START_TEST(test_out_of_memory) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  setup(&ts_allocator_libc);
  ctx.allocator = &memory.allocator;
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    enum ts_status status = write_events(10, true);
    ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    if (status != TS_OK) ck_assert_int_ne(access(path, F_OK), 0);
  }
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct ts_trace_reader *reader;
    struct counting_sink sink = {.sink.emit = count_event};
    enum ts_status status = ts_trace_reader_open(&ctx, path, &reader);
    if (status == TS_OK) status = ts_trace_replay(&ctx, reader, &sink.sink);
    ts_trace_reader_close(reader);
    ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
  }
  teardown();
}
END_TEST

START_TEST(test_checksum) {
  uint8_t data[700];
  uint32_t state = 1;
  for (uint32_t i = 0; i < sizeof data; i++) {
    state = state * 1664525 + 1013904223;
    data[i] = (uint8_t)(state >> 24);
  }
  for (size_t first = 0; first < 3; first++) {
    uint32_t wanted = 0; /* bit by bit */
    for (size_t length = 0; first + length < sizeof data; length++) {
      ck_assert_uint_eq(ts__trace_crc32(0, data + first, length), wanted);
      size_t half = length / 2;
      uint32_t begun = ts__trace_crc32(0, data + first, half);
      ck_assert_uint_eq(ts__trace_crc32(begun, data + first + half, length - half), wanted);
      wanted = ~wanted ^ data[first + length];
      for (int bit = 0; bit < 8; bit++)
        wanted = wanted >> 1 ^ (wanted & 1 ? 0xEDB88320 : 0);
      wanted = ~wanted;
    }
  }
}
END_TEST

int main(void) {
  return RUN_TESTS("trace", test_checksum, test_round_trip, test_tables, test_code,
                   test_lengths_of_footprints, test_extents_of_boxes, test_old_format,
                   test_truncated_is_an_error, test_every_flipped_bit_is_an_error,
                   test_unknown_block_is_skipped, test_abandoned_leaves_no_file,
                   test_full_disk_is_an_error, test_equal_runs_give_equal_bytes,
                   test_out_of_memory);
}
