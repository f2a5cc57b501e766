/* Memory instructions: every dtype and vector width against a byte-wise model, local arrays, faults,
 * atomics. */
#include "support/kernel.h"
#include "support/suite.h"

enum { TEXT_BYTES = 4096 };

/* Deterministic bytes. */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static void fill(uint8_t *bytes, size_t count, uint64_t seed) {
  for (size_t i = 0; i < count; i++)
    bytes[i] = (uint8_t)next_random(&seed);
}

/* $A dtype, $B width: out[t] = in[(t * $C + $D) % $E] by way of shared memory, $F bytes each. */
static const char copy_text[] = "function \"f\" {\n"
                                "param p0 pointer $A %0 \"in\"\n"
                                "param p1 pointer $A %1 \"out\"\n"
                                "shared s0 static u8 align 16 size 65536\n"
                                "reg %0 ptr\nreg %1 ptr\n"
                                "b0 in r0:\n"
                                "  %2 = sreg s32 {which=tid.x}\n"
                                "  %3 = mul s32 %2, $C\n"
                                "  %4 = add s32 %3, $D\n"
                                "  %5 = rem s32 %4, $E\n"
                                "  %6 = ld.global $A$B %0, %5 {scale=$F}\n"
                                "  st.shared $A$B s0, %2, %6 {scale=$F}\n"
                                "  %7 = ld.shared $A$B s0, %2 {scale=$F}\n"
                                "  st.global $A$B %1, %2, %7 {scale=$F}\n"
                                "  exit\n}\n";

static void check_copy(enum ts_dtype dtype, uint32_t lanes, int factor, int start, int threads) {
  char vector[16] = "", numbers[4][16], text[TEXT_BYTES];
  uint32_t size = (uint32_t)ts_dtype_packed_bytes(dtype, lanes);
  if (lanes > 1) snprintf(vector, sizeof vector, "x%u", lanes);
  kernel_text(text, sizeof text, copy_text,
              (const char *[]){ts_dtype_name(dtype), vector, kernel_number(numbers[0], factor),
                               kernel_number(numbers[1], start), kernel_number(numbers[2], threads),
                               kernel_number(numbers[3], size)});
  struct kernel k;
  kernel_begin(&k, text);
  uint32_t total = size * (uint32_t)threads;
  uint8_t *in = kernel_buffer(&k, "in", dtype, total);
  uint8_t *out = kernel_buffer(&k, "out", dtype, total);
  fill(in, total, dtype * 100u + lanes);
  for (uint32_t i = 0; dtype == TS_DTYPE_pred && i < total; i++)
    in[i] &= 1;
  enum ts_status status = kernel_run(&k, 1, (uint32_t)threads);
  ck_assert_msg(status == TS_OK, "%s%s: %s", ts_dtype_name(dtype), vector, kernel_message(&k, 0));
  for (int t = 0; t < threads; t++) {
    int from = (t * factor + start) % threads;
    uint8_t expected[TS_MAX_VECTOR_LANES * 8];
    memcpy(expected, in + (uint32_t)from * size, size);
    unsigned rest_bits = ts_dtype_bits(dtype) * lanes % 8;
    uint8_t kept = (uint8_t) ~((1u << rest_bits) - 1);
    if (rest_bits) /* the bits beyond the last element keep what was there */
      expected[size - 1] = (uint8_t)((expected[size - 1] & ~kept) | (0xA5 & kept));
    ck_assert_msg(memcmp(out + (uint32_t)t * size, expected, size) == 0, "%s%s factor %d thread %d",
                  ts_dtype_name(dtype), vector, factor, t);
  }
  kernel_end(&k);
}

START_TEST(test_copies) {
  static const uint32_t widths[] = {1, 2, 3, 4, 8, 16};
  for (int dtype = 0; dtype < TS_DTYPE_COUNT; dtype++)
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
      /* Addresses must be whole bytes. */
      if (ts_dtype_packed_bytes((enum ts_dtype)dtype, widths[i]) > 128) continue;
      check_copy((enum ts_dtype)dtype, widths[i], 1, 0, 64);
      check_copy((enum ts_dtype)dtype, widths[i], 1, 0, 50);
      check_copy((enum ts_dtype)dtype, widths[i], 37, 5, 64);
    }
}
END_TEST

/* --- local arrays: store elements at constant, uniform and varying indices, read them back packed */

/* An array that holds in[i] at i, written at uniform and varying indices; out[3 * t ..] = elements
 * (t * 5 + 3) % 16, 6 and 4. $A dtype, $B bytes of one, $C of two. */
static const char array_text[] = "function \"f\" {\n"
                                 "param p0 pointer $A %0 \"in\"\n"
                                 "param p1 pointer $A %1 \"out\"\n"
                                 "array a0 $A 16 \"buf\"\n"
                                 "reg %0 ptr\nreg %1 ptr\nreg %5 s32\n"
                                 "region r1 in r0 head b1\n"
                                 "b0 in r0:\n"
                                 "  %2 = sreg s32 {which=tid.x}\n"
                                 "  %3 = mul s32 %2, 5\n"
                                 "  %4 = add s32 %3, 3\n"
                                 "  %5 = mov s32 0\n"
                                 "  br b1\n"
                                 "b1 in r1:\n"
                                 "  %6 = lt s32 %5, 16\n"
                                 "  cbr %6, b2, b3, b3\n"
                                 "b2 in r1:\n"
                                 "  %7 = ld.global $A %0, %5 {scale=$B}\n"
                                 "  %8 = add s32 %2, %5\n"
                                 "  %9 = and s32 %8, 15\n"
                                 "  st.local $A a0, %5, %7\n"
                                 "  %10 = ld.global $A %0, %9 {scale=$B}\n"
                                 "  st.local $A a0, %9, %10\n"
                                 "  %5 = add s32 %5, 1\n"
                                 "  br b1\n"
                                 "b3 in r0:\n"
                                 "  %11 = and s32 %4, 15\n"
                                 "  %12 = ld.local $A a0, %11\n"
                                 "  %13 = ld.local $Ax4 a0, 4\n"
                                 "  %14 = extract $A %13, 2 {source_lanes=4}\n"
                                 "  %15 = ld.local $Ax2 a0, 3\n"
                                 "  %16 = extract $A %15, 1 {source_lanes=2}\n"
                                 "  %17 = mul s32 %2, 3\n"
                                 "  st.global $A %1, %17, %12 {scale=$B}\n"
                                 "  st.global $A %1, %17, %14 {scale=$B, offset=$B}\n"
                                 "  st.global $A %1, %17, %16 {scale=$B, offset=$C}\n"
                                 "  exit\n}\n";

static void check_array(enum ts_dtype dtype) {
  char text[TEXT_BYTES], numbers[2][16];
  uint32_t size = (uint32_t)ts_dtype_packed_bytes(dtype, 1);
  kernel_text(text, sizeof text, array_text,
              (const char *[]){ts_dtype_name(dtype), kernel_number(numbers[0], size),
                               kernel_number(numbers[1], 2 * size)});
  for (int with_uniform = 0; with_uniform < 2; with_uniform++) {
    struct kernel k;
    kernel_begin_as(&k, text, with_uniform);
    uint8_t *in = kernel_buffer(&k, "in", dtype, 16 * size);
    uint8_t *out = kernel_buffer(&k, "out", dtype, 3 * 40 * size);
    memset(out, 0, 3 * 40 * size);
    for (uint32_t i = 0; i < 16; i++) {
      uint64_t state = i + 1, bits = next_random(&state);
      uint64_t mask =
          ts_dtype_bits(dtype) >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << ts_dtype_bits(dtype)) - 1;
      bits &= dtype == TS_DTYPE_pred ? 1 : mask;
      memcpy(in + i * size, &bits, size);
    }
    enum ts_status status = kernel_run(&k, 1, 40);
    ck_assert_msg(status == TS_OK, "%s: %s", ts_dtype_name(dtype), kernel_message(&k, 0));
    for (uint32_t t = 0; t < 40; t++) {
      const uint32_t expected[3] = {(t * 5 + 3) % 16, 6, 4};
      for (uint32_t i = 0; i < 3; i++)
        ck_assert_msg(memcmp(out + (3 * t + i) * size, in + expected[i] * size, size) == 0,
                      "%s thread %u value %u", ts_dtype_name(dtype), t, i);
    }
    kernel_end(&k);
  }
}

START_TEST(test_arrays) {
  for (int dtype = 0; dtype < TS_DTYPE_COUNT; dtype++)
    check_array((enum ts_dtype)dtype);
}
END_TEST

/* Views of one array in several dtypes share its little-endian bytes. */
START_TEST(test_array_views) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"out\"\n"
                   "array a0 f16 8 \"buf\"\n"
                   "reg %0 ptr\n"
                   "b0 in r0:\n"
                   "  %1 = sreg u32 {which=tid.x}\n"
                   "  st.local u32 a0, 0, 0x44332211\n"
                   "  st.local u16 a0, 1, 0xbeef\n"
                   "  st.local s8 a0, 1, 0xfe\n"
                   "  st.local u4 a0, 0, 0x7\n"
                   "  %2 = ld.local u32 a0, 0\n"
                   "  %3 = ld.local s8 a0, 3\n"
                   "  %4 = cvt u32 s8 %3\n"
                   "  st.global u32 %0, %1, %2 {scale=8}\n"
                   "  st.global u32 %0, %1, %4 {scale=8, offset=4}\n"
                   "  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 256);
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_OK);
  ck_assert_uint_eq(out[62], 0xbeeffe17u);
  ck_assert_uint_eq(out[63], 0xffffffbeu);
  kernel_end(&k);
}
END_TEST

/* --- faults */

struct fault {
  const char *insns; /* %1 tid, %0 buffer of 100 u32; the 64 threads */
  enum ts_diag_code code;
  int64_t lane;
  const char *text;
};

static const struct fault faults[] = {
    {"  %2 = ld.global u32 %0, %1 {scale=4, offset=200}\n", TS_DIAG_BOUNDS_GLOBAL, 18,
     "ld.global of 4 bytes at element 100 of buffer out, which has 100 elements of u32"},
    {"  %2 = sub s32 %1, 2\n  st.global u32 %0, %2, 5 {scale=4}\n", TS_DIAG_BOUNDS_GLOBAL, 0,
     "at element -2 of buffer out"},
    {"  %2 = ld.global u32 0, %1 {scale=4}\n", TS_DIAG_BOUNDS_GLOBAL, 0, "in no buffer"},
    {"  %2 = ld.global u32 %0, 0 {scale=4, offset=2}\n", TS_DIAG_MISALIGNED, 0,
     "2 bytes past a multiple of 4"},
    {"  %2 = ld.global u32x4 %0, 0 {scale=4, offset=8}\n", TS_DIAG_MISALIGNED, 0,
     "ld.global of 16 bytes at an address that is 8 bytes past a multiple of 16"},
    {"  st.shared u32 s0, %1, 5 {scale=4}\n", TS_DIAG_BOUNDS_SHARED, 16, "st.shared of 4 bytes"},
    {"  %2 = ld.shared u16 s0, %1 {scale=1, offset=1}\n", TS_DIAG_MISALIGNED, 0, "ld.shared"},
    {"  %2 = ld.local f32 a0, %1\n", TS_DIAG_BOUNDS_LOCAL, 3,
     "ld.local of 1 f32 at element 3 of array buf, which has 3 elements of f32"},
    {"  st.local f32x2 a0, 2, 0\n", TS_DIAG_BOUNDS_LOCAL, 0, "st.local of 2 f32 at element 2"},
    {"  %2 = ld.local u8 a0, -1\n", TS_DIAG_BOUNDS_LOCAL, 0, "at element -1"},
};

START_TEST(test_faults) {
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    for (int stops = 0; stops < 2; stops++) {
      char text[TEXT_BYTES];
      snprintf(text, sizeof text,
               "place \"k.py\" 5 1\n"
               "function \"f\" {\n"
               "param p0 pointer u32 %%0 \"out\"\n"
               "array a0 f32 3 \"buf\"\n"
               "shared s0 static u32 align 16 size 64 \"tile\"\n"
               "reg %%0 ptr\n"
               "b0 in r0:\n"
               "  %%1 = sreg s32 {which=tid.x}\n"
               "%s"
               "  st.global u32 %%0, %%1, 1 {scale=4}\n"
               "  exit\n}\n",
               faults[i].insns);
      struct kernel k;
      kernel_begin(&k, text);
      uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 400);
      k.options.stop_at_first_hazard = stops;
      ck_assert_int_eq(kernel_run(&k, 1, 64), TS_HAZARD);
      const struct ts_diag *diag = &k.diags.items.data[0];
      ck_assert_int_eq(diag->code, faults[i].code);
      ck_assert_msg(diag->lane == faults[i].lane || diag->warp == 1, "fault %zu: lane %d", i,
                    (int)diag->lane);
      ck_assert_msg(strstr(diag->message, faults[i].text) != NULL, "fault %zu: %s", i,
                    diag->message);
      ck_assert_uint_eq(out[63], stops ? 0xA5A5A5A5u : 1);
      kernel_end(&k);
    }
  }
}
END_TEST

/* Lanes in bounds go on, those outside store nothing and load zeros. */
START_TEST(test_partly_out_of_bounds) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"in\"\n"
                   "param p1 pointer u32 %1 \"out\"\n"
                   "reg %0 ptr\nreg %1 ptr\n"
                   "b0 in r0:\n"
                   "  %2 = sreg u32 {which=tid.x}\n"
                   "  %3 = ld.global u32 %0, %2 {scale=4}\n"
                   "  st.global u32 %1, %2, %3 {scale=4}\n"
                   "  exit\n}\n");
  uint32_t *in = kernel_buffer(&k, "in", TS_DTYPE_u32, 80);
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 256);
  for (uint32_t i = 0; i < 20; i++)
    in[i] = 7 + i;
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_HAZARD);
  for (uint32_t i = 0; i < 32; i++)
    ck_assert_uint_eq(out[i], i < 20 ? 7 + i : 0);
  kernel_end(&k);
}
END_TEST

/* --- atomics */

struct atomic_case {
  const char *dtype, *reduce, *value;
  uint32_t before, after; /* of out[0] after 40 lanes */
  uint32_t old_of_lane_2;
};

/* The value of lane t is (t ^ 1) + 1 unless it is given. */
static const struct atomic_case atomics[] = {
    {"u32", "add", "%3", 10, 10 + 820, 10 + 2 + 1},
    {"s32", "min", "%3", 10, 1, 1},
    {"u32", "max", "%3", 3, 40, 3},
    {"u32", "and", "0x0ff0", 0xffff, 0x0ff0, 0x0ff0},
    {"u32", "or", "%3", 0, 63, 3},
    {"u32", "xor", "%3", 0, 40, 3},
    {"u32", "exch", "%3", 99, 39, 1},
    {"u32", "inc", "6", 5, 3, 0},
    {"u32", "dec", "6", 1, 3, 6},
    {"f32", "add", "0x3f800000", 0x3f800000, 0x42240000, 0x40400000},
};

START_TEST(test_atomics) {
  for (size_t i = 0; i < sizeof atomics / sizeof *atomics; i++) {
    const struct atomic_case *c = &atomics[i];
    char text[TEXT_BYTES];
    snprintf(text, sizeof text,
             "function \"f\" {\n"
             "param p0 pointer u32 %%0 \"out\"\n"
             "reg %%0 ptr\n"
             "b0 in r0:\n"
             "  %%1 = sreg u32 {which=tid.x}\n"
             "  %%2 = xor u32 %%1, 1\n"
             "  %%3 = add u32 %%2, 1\n"
             "  %%4 = bitcast %s u32 %%3\n"
             "  %%5 = atom.global.ret %s %%0, 0, %s {reduce=%s}\n"
             "  %%6 = bitcast u32 %s %%5\n"
             "  st.global u32 %%0, %%1, %%6 {scale=4, offset=4}\n"
             "  exit\n}\n",
             c->dtype, c->dtype, strcmp(c->value, "%3") == 0 ? "%4" : c->value, c->reduce,
             c->dtype);
    struct kernel k;
    kernel_begin(&k, text);
    uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 400);
    out[0] = c->before;
    enum ts_status status = kernel_run(&k, 1, 40);
    ck_assert_msg(status == TS_OK, "%s: %s", c->reduce, kernel_message(&k, 0));
    ck_assert_msg(out[0] == c->after, "%s: %#x", c->reduce, out[0]);
    ck_assert_msg(out[3] == c->old_of_lane_2, "%s: old %#x", c->reduce, out[3]);
    kernel_end(&k);
  }
}
END_TEST

/* f32 additions flush subnormals in global memory and keep them in shared memory; cas; f16x2. */
START_TEST(test_atomic_forms) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"out\"\n"
                   "shared s0 static f32 align 16 size 64\n"
                   "reg %0 ptr\n"
                   "b0 in r0:\n"
                   "  st.shared u32 s0, 0, 3\n"
                   "  atom.global f32 %0, 0, 5 {reduce=add}\n"
                   "  atom.shared f32 s0, 0, 5 {reduce=add}\n"
                   "  %1 = ld.shared u32 s0, 0\n"
                   "  st.global u32 %0, 0, %1 {offset=4}\n"
                   "  %2 = sreg u32 {which=tid.x}\n"
                   "  %3 = atom.global.ret u32 %0, 2, %2, 77 {reduce=cas, scale=4}\n"
                   "  atom.global f16x2 %0, 3, 0x3c00 {reduce=add, scale=4}\n"
                   "  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 64);
  memset(out, 0, 64);
  out[0] = 3;
  out[2] = 5;
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_OK);
  ck_assert_uint_eq(out[0], 0);
  ck_assert_uint_eq(out[1], 3 + 32 * 5);
  ck_assert_uint_eq(out[2], 77);
  ck_assert_uint_eq(out[3], 0x50005000u);
  kernel_end(&k);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp_core_memory", test_copies, test_arrays, test_array_views, test_faults,
                   test_partly_out_of_bounds, test_atomics, test_atomic_forms);
}
