/* .npy files: what NumPy writes is read, and anything else ends in a clear error. */
#include "api/api_priv.h"
#include "support/failing_allocator.h"
#include "support/suite.h"

#include <string.h>

static struct ts_diag_list diags;
static struct ts_ctx ctx;

static void setup(const struct ts_allocator *allocator) {
  ck_assert_int_eq(ts_diag_list_init(&diags, &ts_allocator_libc), TS_OK);
  ctx = (struct ts_ctx){allocator, &diags};
}

/* A file of format `major` with this header text and content. */
static size_t make_file(uint8_t *file, unsigned major, const char *header, const void *content,
                        size_t content_bytes) {
  size_t header_bytes = strlen(header), at = major == 1 ? 10 : 12;
  memcpy(file, "\x93NUMPY", 6);
  file[6] = (uint8_t)major;
  file[7] = 0;
  for (size_t i = 0; i < at - 8; i++)
    file[8 + i] = (uint8_t)(header_bytes >> 8 * i);
  memcpy(file + at, header, header_bytes);
  memcpy(file + at + header_bytes, content, content_bytes);
  return at + header_bytes + content_bytes;
}

static enum ts_status parse(unsigned major, const char *header, const void *content,
                            size_t content_bytes, struct ts__npy *npy) {
  uint8_t file[4096];
  size_t size_bytes = make_file(file, major, header, content, content_bytes);
  return ts__npy_parse(&ctx, "x.npy", file, size_bytes, npy);
}

static const uint16_t six[6] = {1, 2, 3, 4, 5, 0xabcd};

START_TEST(test_formats) {
  struct ts__npy npy;
  setup(&ts_allocator_libc);
  for (unsigned major = 1; major <= 3; major++) {
    ck_assert_int_eq(parse(major,
                           "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }    \n", six,
                           sizeof six, &npy),
                     TS_OK);
    ck_assert_int_eq(npy.dtype, TS_DTYPE_u16);
    ck_assert_uint_eq(npy.rank, 2);
    ck_assert_int_eq(npy.shape[0], 2);
    ck_assert_int_eq(npy.shape[1], 3);
    ck_assert_mem_eq(npy.data, six, sizeof six);
    ts__npy_free(&npy);
  }
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_keys_in_any_order_and_scalars) {
  struct ts__npy npy;
  double value = 2.5;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(
      parse(1, "{\"shape\":(),\"fortran_order\":True,\"descr\":\"<f8\"}", &value, 8, &npy), TS_OK);
  ck_assert_uint_eq(npy.rank, 0);
  ck_assert_mem_eq(npy.data, &value, 8);
  ts__npy_free(&npy);
  ck_assert_int_eq(
      parse(1, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\0\1\7", 3, &npy),
      TS_OK);
  ck_assert_int_eq(npy.dtype, TS_DTYPE_pred);
  ck_assert_mem_eq(npy.data, "\0\1\1", 3);
  ts__npy_free(&npy);
  ck_assert_int_eq(
      parse(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 0)}", "", 0, &npy), TS_OK);
  ck_assert_ptr_null(npy.data);
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_fortran_order_and_big_endian) {
  /* element (i, j, k) of a 2x3x2 array, written column-major */
  uint16_t content[12], expected[12];
  struct ts__npy npy;
  setup(&ts_allocator_libc);
  for (unsigned i = 0; i < 2; i++) {
    for (unsigned j = 0; j < 3; j++) {
      for (unsigned k = 0; k < 2; k++) {
        uint16_t value = (uint16_t)(100 * i + 10 * j + k);
        content[i + 2 * j + 6 * k] = value;
        expected[(i * 3 + j) * 2 + k] = value;
      }
    }
  }
  ck_assert_int_eq(parse(1, "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3, 2)}", content,
                         sizeof content, &npy),
                   TS_OK);
  ck_assert_mem_eq(npy.data, expected, sizeof expected);
  ts__npy_free(&npy);
  uint8_t big[8] = {0x3f, 0x80, 0, 0, 0x40, 0x49, 0x0f, 0xdb};
  uint32_t little[2] = {0x3f800000, 0x40490fdb};
  ck_assert_int_eq(
      parse(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", big, 8, &npy), TS_OK);
  ck_assert_mem_eq(npy.data, little, 8);
  ts__npy_free(&npy);
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_raw_types) {
  struct ts__npy npy;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(
      parse(1, "{'descr': '<V2', 'fortran_order': False, 'shape': (6,)}", six, sizeof six, &npy),
      TS_OK);
  ck_assert(npy.is_raw);
  ck_assert_int_eq(npy.dtype, TS_DTYPE_u16);
  ts__npy_free(&npy);
  ts_diag_list_free(&diags);
}
END_TEST

static void expect_error(const char *header, size_t content_bytes, enum ts_status wanted) {
  struct ts__npy npy;
  static const uint8_t content[256];
  enum ts_status status = parse(1, header, content, content_bytes, &npy);
  ck_assert_msg(status == wanted, "%s: %s", header, ts_status_text(status));
  ts__npy_free(&npy);
  ck_assert_uint_eq(diags.items.data[diags.items.count - 1].code, TS_DIAG_INPUT_NPY);
  ck_assert_str_eq(diags.items.data[diags.items.count - 1].place.file, "x.npy");
}

START_TEST(test_bad_headers) {
  static const char *const headers[] = {
      "",
      "{",
      "{}",
      "{'descr': '<f4'}",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
      "{'descr': '<f4', 'fortran_order': false, 'shape': (2,)}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
      "{'des\\x63r': '<f4', 'fortran_order': False, 'shape': (2,)}",
      /* too large: the product, one extent, and both with a zero that hides it */
      "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693953,)}",
      /* 33 dimensions */
      ("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
       "1,1,1,1,1,1,1,1,1,1,1,1,2)}"),
      /* more or less content than the shape says */
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}",
  };
  setup(&ts_allocator_libc);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
    expect_error(headers[i], 8, TS_BAD_INPUT);
  expect_error("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, TS_BAD_INPUT);
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_unsupported_types) {
  static const char *const types[] = {"'<c8'",  "'|O'", "'<U4'", "'<M8[s]'", "[('a', '<f4')]",
                                      "'<f16'", "'f4'", "'<f3'", "'|V4'"};
  setup(&ts_allocator_libc);
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    char header[128];
    snprintf(header, sizeof header, "{'descr': %s, 'fortran_order': False, 'shape': (2,)}",
             types[i]);
    expect_error(header, 8, TS_UNSUPPORTED);
  }
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_truncated) {
  uint8_t file[512];
  struct ts__npy npy;
  setup(&ts_allocator_libc);
  size_t size_bytes = make_file(
      file, 1, "{'descr': '<u2', 'fortran_order': False, 'shape': (2, 3), }\n", six, sizeof six);
  for (size_t cut = 0; cut < size_bytes; cut++) {
    ck_assert_int_eq(ts__npy_parse(&ctx, "x.npy", file, cut, &npy), TS_BAD_INPUT);
    ts__npy_free(&npy);
  }
  file[6] = 4; /* a format of the future */
  ck_assert_int_eq(ts__npy_parse(&ctx, "x.npy", file, size_bytes, &npy), TS_UNSUPPORTED);
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_header_round_trip) {
  static const int64_t shape[3] = {1, 2, 3};
  struct ts_arena arena;
  struct ts__npy npy;
  uint8_t file[1024];
  size_t header_bytes;
  setup(&ts_allocator_libc);
  ts_arena_init(&arena, &ts_allocator_libc);
  for (uint32_t rank = 0; rank <= 3; rank++) {
    /* bf16 has no name in NumPy */
    char *header = ts__npy_header(&arena, TS_DTYPE_bf16, rank, shape, &header_bytes);
    ck_assert_uint_eq(header_bytes % 64, 0);
    memcpy(file, header, header_bytes);
    memcpy(file + header_bytes, six, sizeof six);
    size_t content_bytes = rank == 3 ? 12 : rank == 2 ? 4 : 2;
    ck_assert_int_eq(ts__npy_parse(&ctx, "x.npy", file, header_bytes + content_bytes, &npy), TS_OK);
    ck_assert_int_eq(npy.dtype, TS_DTYPE_u16);
    ck_assert_uint_eq(npy.rank, rank);
    ck_assert_mem_eq(npy.shape, shape, rank * sizeof *shape);
    ts__npy_free(&npy);
  }
  ts_arena_free(&arena);
  ts_diag_list_free(&diags);
}
END_TEST

START_TEST(test_out_of_memory) {
  struct failing_allocator memory;
  struct ts__npy npy;
  failing_allocator_init(&memory);
  setup(&memory.allocator);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    enum ts_status status =
        parse(1, "{'descr': '<u2', 'fortran_order': True, 'shape': (2, 3)}", six, sizeof six, &npy);
    ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    ts__npy_free(&npy);
  }
  ts_diag_list_free(&diags);
}
END_TEST

int main(void) {
  return RUN_TESTS("api_npy", test_formats, test_keys_in_any_order_and_scalars,
                   test_fortran_order_and_big_endian, test_raw_types, test_bad_headers,
                   test_unsupported_types, test_truncated, test_header_round_trip,
                   test_out_of_memory);
}
