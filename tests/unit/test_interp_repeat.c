/* Address-only runs of small kernels: which blocks repeat which, and what is computed at all. */
#include "ir/slice.h"
#include "support/failing_allocator.h"
#include "support/kernel.h"
#include "support/stream.h"
#include "support/suite.h"

enum { TEXT_BYTES = 4096, ELEMS = 1 << 16 };

#define HEAD                                                                                       \
  "function \"f\" {\n"                                                                             \
  "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"                                                  \
  "param p1 pointer s32 %1 \"table\"\nreg %1 ptr\n"                                                \
  "param p2 scalar s32 %2 \"n\"\nreg %2 s32\n"

/* Runs fully and by addresses alone; answers the number of repetitions. table: contents of the
 * second buffer, or NULL. */
static uint64_t run_both(const char *text, uint32_t grid, uint32_t threads, int32_t n,
                         const int32_t *table, uint32_t table_count) {
  struct stream streams[2];
  for (int pass = 0; pass < 2; pass++) {
    struct kernel k;
    kernel_begin(&k, text);
    uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, ELEMS * 4);
    int32_t *in = kernel_buffer(&k, "table", TS_DTYPE_s32, ELEMS * 4);
    kernel_scalar(&k, (uint32_t)n);
    if (table) memcpy(in, table, table_count * sizeof *table);
    stream_begin(&streams[pass], pass == 1);
    stream_add_launch(&streams[pass], grid);
    k.options.sink = &streams[pass].sink;
    k.options.addresses_only = pass == 1;
    ck_assert_int_eq(kernel_run(&k, grid, threads), TS_OK);
    /* What is not computed is not stored either. */
    if (pass == 1) ck_assert_uint_eq(out[0], 0xA5A5A5A5);
    kernel_end(&k);
  }
  stream_expect_equal(&streams[0], &streams[1], "kernel");
  uint64_t repeats = streams[1].repeat_count;
  stream_end(&streams[0]);
  stream_end(&streams[1]);
  return repeats;
}

static const char bounds_text[] = HEAD "region r1 in r0 head b0\nb0 in r0:\n"
                                       "  %3 = sreg s32 {which=ctaid.x}\n"
                                       "  %4 = sreg s32 {which=tid.x}\n"
                                       "  %5 = mul s32 %3, 32\n"
                                       "  %6 = add s32 %5, %4\n"
                                       "  %7 = lt s32 %6, %2\n"
                                       "  cbr %7, b1, b2, b2\n"
                                       "b1 in r1:\n"
                                       "  %8 = ld.global s32 %1, %6 {scale=4}\n"
                                       "  %9 = mul s32 %8, %8\n"
                                       "  st.global s32 %0, %6, %9 {scale=4}\n"
                                       "  br b2\n"
                                       "b2 in r0:\n"
                                       "  exit\n}\n";

/* A block repeats another one while its comparisons keep their outcomes, to the element. */
START_TEST(test_bounds) {
  ck_assert_uint_eq(run_both(bounds_text, 8, 32, 256, NULL, 0), 7); /* all inside */
  ck_assert_uint_eq(run_both(bounds_text, 8, 32, 255, NULL, 0), 6); /* the last lane is not */
  ck_assert_uint_eq(run_both(bounds_text, 8, 32, 224, NULL, 0), 6); /* the last block is not */
  ck_assert_uint_eq(run_both(bounds_text, 8, 32, 200, NULL, 0), 5); /* 6 in part, 7 outside */
  ck_assert_uint_eq(run_both(bounds_text, 8, 32, 0, NULL, 0), 7);   /* all outside */
}
END_TEST

/* lt, le, eq and ne have other borders. */
START_TEST(test_comparisons) {
  static const struct {
    const char *op;
    int32_t n;
    uint64_t repeats;
  } rows[] = {{"lt", 64, 6}, {"lt", 65, 5}, {"le", 63, 6}, {"le", 64, 5},
              {"eq", 64, 5}, {"eq", 63, 5}, {"ne", 64, 5}, {"ne", 4096, 7}};
  char text[TEXT_BYTES], pattern[TEXT_BYTES];
  snprintf(pattern, sizeof pattern, "%s", bounds_text);
  char *at = strstr(pattern, "lt s32");
  memcpy(at, "$A", 2);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kernel_text(text, sizeof text, pattern, (const char *[]){rows[i].op});
    ck_assert_msg(run_both(text, 8, 32, rows[i].n, NULL, 0) == rows[i].repeats, "%s %d", rows[i].op,
                  rows[i].n);
  }
}
END_TEST

static const char loop_text[] = HEAD "reg %10 s32\nregion r1 in r0 head b1\n"
                                     "b0 in r0:\n"
                                     "  %3 = sreg s32 {which=ctaid.x}\n"
                                     "  %4 = sreg s32 {which=tid.x}\n"
                                     "$A"
                                     "  %10 = mov s32 0\n"
                                     "  br b1\n"
                                     "b1 in r1:\n"
                                     "  %6 = lt s32 %10, %5\n"
                                     "  cbr %6, b2, b3, b3\n"
                                     "b2 in r1:\n"
                                     "  %7 = mul s32 %3, 1000\n"
                                     "  %8 = add s32 %7, %10\n"
                                     "  %9 = add s32 %8, %4\n"
                                     "  st.global s32 %0, %9, %8 {scale=4}\n"
                                     "  %10 = add s32 %10, 1\n"
                                     "  br b1\n"
                                     "b3 in r0:\n"
                                     "  exit\n}\n";

/* Trip counts that depend on the block make classes, whether by arithmetic or from memory. */
START_TEST(test_trip_counts) {
  static const int32_t table[12] = {3, 3, 5, 3, 0, 5, 5, 0, 3, 3, 3, 7};
  char text[TEXT_BYTES];
  kernel_text(text, sizeof text, loop_text,
              (const char *[]){"  %11 = floordiv s32 %3, 2\n  %5 = add s32 %11, 1\n"});
  ck_assert_uint_eq(run_both(text, 12, 32, 0, NULL, 0), 6);
  kernel_text(text, sizeof text, loop_text, (const char *[]){"  %5 = floormod s32 %3, 3\n"});
  ck_assert_uint_eq(run_both(text, 12, 32, 0, NULL, 0), 9);
  kernel_text(text, sizeof text, loop_text,
              (const char *[]){"  %5 = ld.global s32 %1, %3 {scale=4}\n"});
  ck_assert_uint_eq(run_both(text, 12, 32, 0, table, 12), 8);
}
END_TEST

static const char clamp_text[] = HEAD "b0 in r0:\n"
                                      "  %3 = sreg s32 {which=ctaid.x}\n"
                                      "  %4 = sreg s32 {which=tid.x}\n"
                                      "  %5 = mul s32 %3, 48\n"
                                      "  %6 = add s32 %5, %4\n"
                                      "  %7 = $A s32 %6, $B\n"
                                      "  %8 = ld.global s32 %1, %7 {scale=4}\n"
                                      "  st.global s32 %0, %6, %8 {scale=4}\n"
                                      "  exit\n}\n";

/* Functions of thread and block together are followed where they are sums, and run where not. */
START_TEST(test_functions) {
  static const struct {
    const char *op, *operand;
    uint64_t repeats;
  } rows[] = {{"floordiv", "16", 7}, {"floordiv", "48", 7},  {"floordiv", "32", 0},
              {"floormod", "16", 7}, {"floormod", "480", 0}, {"and", "15", 7},
              {"and", "8", 7},       {"and", "31", 0},       {"min", "100", 0},
              {"shr", "4", 7},       {"shr", "5", 0},        {"mul", "3", 7},
              {"shl", "2", 7},       {"xor", "1", 0},        {"sub", "%4", 7}};
  char text[TEXT_BYTES];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    kernel_text(text, sizeof text, clamp_text, (const char *[]){rows[i].op, rows[i].operand});
    ck_assert_msg(run_both(text, 8, 64, 0, NULL, 0) == rows[i].repeats, "%s %s", rows[i].op,
                  rows[i].operand);
  }
}
END_TEST

struct slice_result {
  bool depends_on_data, depends_on_results, depends_on_atomics;
  uint32_t tensor_count;
};

static struct slice_result slice_of(const char *text) {
  struct kernel k;
  struct ts_arena arena;
  struct ts_slice *slices;
  const uint64_t *tensors;
  struct slice_result result;
  kernel_begin(&k, text);
  kernel_buffer(&k, "out", TS_DTYPE_u32, 64);
  kernel_buffer(&k, "table", TS_DTYPE_s32, 64);
  kernel_scalar(&k, 0);
  ts_arena_init(&arena, &ts_allocator_libc);
  ck_assert_int_eq(
      ts_slice_plan(&k.ctx, k.module, &k.plan, &arena, &slices, &tensors, &result.tensor_count),
      TS_OK);
  result.depends_on_data = slices[0].depends_on_data;
  result.depends_on_results = slices[0].depends_on_results;
  result.depends_on_atomics = slices[0].depends_on_atomics;
  ts_arena_free(&arena);
  kernel_end(&k);
  return result;
}

/* Which tensors matter, and what is said of programs that depend on their own results. */
START_TEST(test_slices) {
  struct slice_result plain = slice_of(bounds_text);
  ck_assert(!plain.depends_on_data && plain.tensor_count == 0);
  struct slice_result gather = slice_of(HEAD "b0 in r0:\n  %3 = sreg s32 {which=tid.x}\n"
                                             "  %4 = ld.global s32 %1, %3 {scale=4}\n"
                                             "  st.global s32 %0, %4, 7 {scale=4}\n  exit\n}\n");
  ck_assert(gather.depends_on_data && !gather.depends_on_results && gather.tensor_count == 1);
  struct slice_result own = slice_of(HEAD "b0 in r0:\n  %3 = sreg s32 {which=tid.x}\n"
                                          "  st.global s32 %0, %3, %3 {scale=4}\n"
                                          "  %4 = ld.global s32 %0, %3 {scale=4}\n"
                                          "  st.global s32 %1, %4, 7 {scale=4}\n  exit\n}\n");
  ck_assert(own.depends_on_data && own.depends_on_results && own.tensor_count == 1);
  struct slice_result ticket =
      slice_of(HEAD "b0 in r0:\n  %3 = sreg s32 {which=tid.x}\n"
                    "  %4 = atom.global.ret s32 %0, 0, 1 {scale=4, reduce=add}\n"
                    "  st.global s32 %1, %4, %3 {scale=4}\n  exit\n}\n");
  ck_assert(ticket.depends_on_atomics && ticket.tensor_count == 1);
}
END_TEST

/* What passes through shared memory into an address is computed, and blocks are told apart. */
static const char shared_text[] = HEAD "shared s0 static s32 align 16 size 256\n"
                                       "b0 in r0:\n"
                                       "  %3 = sreg s32 {which=ctaid.x}\n"
                                       "  %4 = sreg s32 {which=tid.x}\n"
                                       "  %5 = $A\n"
                                       "  st.shared s32 s0, %4, %5 {scale=4}\n"
                                       "  bar.sync 0, 0\n"
                                       "  %6 = sub s32 31, %4\n"
                                       "  %7 = ld.shared s32 s0, %6 {scale=4}\n"
                                       "  st.global s32 %0, %7, 1 {scale=4}\n"
                                       "  exit\n}\n";

START_TEST(test_shared) {
  char text[TEXT_BYTES];
  kernel_text(text, sizeof text, shared_text, (const char *[]){"mul s32 %4, 2"});
  ck_assert_uint_eq(run_both(text, 4, 32, 0, NULL, 0), 3);
  kernel_text(text, sizeof text, shared_text, (const char *[]){"add s32 %4, %3"});
  ck_assert_uint_eq(run_both(text, 4, 32, 0, NULL, 0), 0);
}
END_TEST

START_TEST(test_out_of_memory) {
  struct failing_allocator memory;
  struct kernel k;
  failing_allocator_init(&memory);
  kernel_begin(&k, bounds_text);
  kernel_buffer(&k, "out", TS_DTYPE_u32, ELEMS * 4);
  kernel_buffer(&k, "table", TS_DTYPE_s32, ELEMS * 4);
  kernel_scalar(&k, 200);
  k.options.addresses_only = true;
  k.ctx.allocator = &memory.allocator;
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct stream stream;
    stream_begin(&stream, true);
    stream_add_launch(&stream, 8);
    k.options.sink = &stream.sink;
    enum ts_status status = kernel_run(&k, 8, 32);
    ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    if (status == TS_OK) ck_assert_uint_eq(stream.repeat_count, 5);
    stream_end(&stream);
  }
  kernel_end(&k);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp repeat", test_bounds, test_comparisons, test_trip_counts, test_functions,
                   test_slices, test_shared, test_out_of_memory);
}
