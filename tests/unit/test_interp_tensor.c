/* Tensor memory: words of a warp's lanes, products against a plain sum, and the wait for them. */
#include "num/num.h"

#include "support/kernel.h"
#include "support/suite.h"

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "shared s0 static u8 align 1024 size 12288 \"tile\"\n"                                           \
  "shared s1 static u32 align 4 size 4 \"address\"\n"                                              \
  "shared s2 barrier u64 align 8 size 8 \"done\"\narray a0 u32 32 \"x\"\n"                         \
  "reg %0 ptr\nreg %1 ptr\nregion r1 in r0 head b0\n$A"                                            \
  "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n  %3 = lt u32 %2, 32\n  cbr %3, b1, b2, b2\n"         \
  "b1 in r1:\n  tmem.alloc s1, $B\n  mbarrier.init s2, 1\n  br b2\n"                               \
  "b2 in r0:\n  bar.sync 0, 0\n  %4 = ld.shared u32 s1, 0 {scale=4}\n"

enum { SCHEDULES = 4, THREADS = 128 };

static void text_of(char *text, size_t size_bytes, const char *pattern, const char *regions,
                    const char *columns) {
  kernel_text(text, size_bytes, pattern, (const char *const[]){regions, columns});
}

static enum ts_status run(struct kernel *k, const char *text, int schedule, uint32_t **in,
                          uint32_t **out) {
  kernel_begin(k, text);
  *in = kernel_buffer(k, "in", TS_DTYPE_u32, 1 << 14);
  *out = kernel_buffer(k, "out", TS_DTYPE_u32, 1 << 16);
  k->options.schedule = schedule < 2 ? (enum ts_schedule_kind)schedule : TS_SCHEDULE_RANDOM;
  k->options.seed = (uint64_t)schedule;
  k->options.max_insns_per_warp = 100000;
  return TS_OK;
}

/* --- loads and stores */

START_TEST(test_store_and_load) {
  char text[4096];
  text_of(text, sizeof text,
          HEAD "  %5 = mul u32 %2, 3\n  st.local u32 a0, 0, %5\n  %6 = add u32 %5, 1\n"
               "  st.local u32 a0, 1, %6\n  %7 = add u32 %4, 30\n  tmem.st a0, 0, %7 {num=2}\n"
               "  %8 = add u32 %4, 31\n  tmem.ld a0, 4, %8 {num=1}\n  %9 = ld.local u32 a0, 4\n"
               "  st.global u32 %1, %2, %9 {scale=4}\n  exit\n}\n",
          "", "32");
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *in, *out;
    run(&k, text, schedule, &in, &out);
    ck_assert_msg(kernel_run(&k, 1, THREADS) == TS_OK, "%s", kernel_message(&k, 0));
    for (uint32_t i = 0; i < THREADS; i++)
      ck_assert_uint_eq(out[i], 3 * i + 1);
    kernel_end(&k);
  }
}
END_TEST

/* A register packed for two columns, read back as one register and from the second column. */
START_TEST(test_packed_halves) {
  char text[4096];
  text_of(text, sizeof text,
          HEAD "  %5 = mul u32 %2, 65537\n  %6 = add u32 %5, 131073\n  st.local u32 a0, 0, %6\n"
               "  tmem.st a0, 0, %4 {num=1, pack=1}\n  tmem.ld a0, 4, %4 {num=1, pack=1}\n"
               "  %7 = add u32 %4, 1\n  tmem.ld a0, 5, %7 {num=1}\n"
               "  %8 = ld.local u32 a0, 4\n  st.global u32 %1, %2, %8 {scale=4}\n"
               "  %9 = ld.local u32 a0, 5\n  st.global u32 %1, %2, %9 {scale=4, offset=512}\n"
               "  exit\n}\n",
          "", "32");
  struct kernel k;
  uint32_t *in, *out;
  run(&k, text, 0, &in, &out);
  ck_assert_msg(kernel_run(&k, 1, THREADS) == TS_OK, "%s", kernel_message(&k, 0));
  for (uint32_t i = 0; i < THREADS; i++) {
    ck_assert_uint_eq(out[i], (i + 2) << 16 | (i + 1));
    ck_assert_uint_eq(out[THREADS + i], i + 2);
  }
  kernel_end(&k);
}
END_TEST

/* --- products of f16 without a swizzle: K-major operands are 8 x 16-byte blocks, one after another */

enum { N = 32, K = 16, A_BYTES = 128 * K * 2, B_BYTES = N * K * 2 };

static int value_of(uint32_t matrix, uint32_t row, uint32_t k) {
  return (int)((row * 7 + k * 5 + matrix * 3 + row * k) % 9) - 4;
}

static void fill(uint8_t *bytes, uint32_t matrix, uint32_t rows) {
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t k = 0; k < K; k++) {
      uint16_t half = (uint16_t)ts_num_convert1(TS_DTYPE_f16, TS_DTYPE_s32, 0,
                                                (uint32_t)value_of(matrix, row, k));
      memcpy(bytes + row / 8 * 256 + k / 8 * 128 + row % 8 * 16 + k % 8 * 2, &half, 2);
    }
}

/* Descriptors: start in 16 bytes, leading 128, stride 256 bytes, version 1. */
#define DESCRIPTOR_A "0x0000401000080000"
#define DESCRIPTOR_B "0x0000401000080100"
#define WORDS_TO_SHARED                                                                            \
  "  %5 = mov u32 0\n  br b3\n"                                                                    \
  "b3 in r2:\n  %6 = lt u32 %5, 1280\n  cbr %6, b4, b5, b5\n"                                      \
  "b4 in r3:\n  %7 = add u32 %5, %2\n  %8 = ld.global u32 %0, %7 {scale=4}\n"                      \
  "  st.shared u32 s0, %7, %8 {scale=4}\n  %9 = add u32 %5, 128\n  %5 = mov u32 %9\n  br b3\n"     \
  "b5 in r0:\n  fence.proxy.async\n  bar.sync 0, 0\n  cbr %3, b6, b7, b7\n"
#define REGIONS "region r2 in r0 head b3\nregion r3 in r2 head b3\nregion r4 in r0 head b5\n"
#define RESULT                                                                                     \
  "  tmem.ld a0, 0, %4 {num=32}\n  %10 = mov u32 0\n  br b8\n"                                     \
  "b8 in r5:\n  %11 = lt u32 %10, 32\n  cbr %11, b9, b10, b10\n"                                   \
  "b9 in r6:\n  %12 = ld.local u32 a0, %10\n  %13 = mul u32 %2, 32\n  %14 = add u32 %13, %10\n"    \
  "  st.global u32 %1, %14, %12 {scale=4}\n  %15 = add u32 %10, 1\n  %10 = mov u32 %15\n  br b8\n" \
  "b10 in r0:\n  exit\n}\n"
#define RESULT_REGIONS "region r5 in r0 head b8\nregion r6 in r5 head b8\n"

/* Two products, the first from zero; M of the instruction descriptor in bits 24 and on. */
static const char products[] = HEAD WORDS_TO_SHARED
    "b6 in r4:\n  tcgen05.mma.ss u32 f16 " DESCRIPTOR_A ", " DESCRIPTOR_B ", %4, $C, 0\n"
    "  tcgen05.mma.ss u32 f16 " DESCRIPTOR_A ", " DESCRIPTOR_B ", %4, $C, 1\n"
    "  tcgen05.commit s2\n  br b7\n"
    "b7 in r0:\n$D" RESULT;

/* The value of a word of the sums: an f32, or an f16 in its lower half. */
static float sum_in(uint32_t word, bool is_half) {
  float value;
  if (is_half) word = (uint32_t)ts_num_convert1(TS_DTYPE_f32, TS_DTYPE_f16, 0, word);
  memcpy(&value, &word, sizeof value);
  return value;
}

static void check_products(uint32_t m, bool is_half) {
  char text[8192], descriptor[16];
  snprintf(descriptor, sizeof descriptor, "%u",
           (is_half ? 0u : 1u) << 4 | N / 8 << 17 | m / 16 << 24);
  kernel_text(text, sizeof text, products,
              (const char *const[]){REGIONS RESULT_REGIONS, "32", descriptor,
                                    "  mbarrier.wait s2, 0\n  tcgen05.fence\n"});
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *in, *out;
    run(&k, text, schedule, &in, &out);
    fill((uint8_t *)in, 0, 128);
    fill((uint8_t *)in + A_BYTES, 1, N);
    ck_assert_msg(kernel_run(&k, 1, THREADS) == TS_OK, "%s", kernel_message(&k, 0));
    for (uint32_t row = 0; row < m; row++)
      for (uint32_t column = 0; column < N; column++) {
        uint32_t lane = m == 64 ? row / 16 * 32 + row % 16 : row;
        int sum = 0;
        for (uint32_t i = 0; i < K; i++)
          sum += 2 * value_of(0, row, i) * value_of(1, column, i);
        float found = sum_in(out[lane * 32 + column], is_half);
        ck_assert_msg(found == (float)sum, "m %u, row %u, column %u: %g, expected %d", m, row,
                      column, (double)found, sum);
      }
    kernel_end(&k);
  }
}

START_TEST(test_products) {
  check_products(128, false);
  check_products(64, false);
  check_products(128, true);
}
END_TEST

static void check_fault(const char *text, enum ts_diag_code code, const char *message) {
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *in, *out;
    bool is_found = false;
    run(&k, text, schedule, &in, &out);
    ck_assert_int_ne(kernel_run(&k, 1, THREADS), TS_OK);
    for (size_t i = 0; i < k.diags.items.count; i++)
      is_found |= k.diags.items.data[i].code == code && strstr(kernel_message(&k, i), message);
    ck_assert_msg(is_found, "%s", kernel_message(&k, 0));
    kernel_end(&k);
  }
}

/* A barrier of the block alone does not wait for the product. */
START_TEST(test_missing_wait) {
  char text[8192], descriptor[16];
  snprintf(descriptor, sizeof descriptor, "%u", 1u << 4 | N / 8 << 17 | 8u << 24);
  kernel_text(text, sizeof text, products,
              (const char *const[]){REGIONS RESULT_REGIONS, "32", descriptor, "  bar.sync 0, 0\n"});
  check_fault(text, TS_DIAG_RACE_PENDING_READ, "still accumulates in");
}
END_TEST

START_TEST(test_faults) {
  char text[4096];
  text_of(text, sizeof text,
          HEAD "  %5 = add u32 %4, 20\n  tmem.ld a0, 0, %5 {num=32}\n  exit\n}\n", "", "32");
  check_fault(text, TS_DIAG_BOUNDS_SHARED, "nobody allocated");
  text_of(text, sizeof text, HEAD "  exit\n}\n", "", "48");
  check_fault(text, TS_DIAG_BOUNDS_SHARED, "can be allocated");
  text_of(text, sizeof text,
          HEAD "  cbr %3, b3, b4, b4\nb3 in r2:\n  tmem.dealloc %4, 64\n  br b4\n"
               "b4 in r0:\n  exit\n}\n",
          "region r2 in r0 head b2\n", "32");
  check_fault(text, TS_DIAG_BOUNDS_SHARED, "where 32 were allocated");
  text_of(text, sizeof text,
          HEAD "  cbr %3, b3, b4, b4\nb3 in r2:\n  tmem.alloc s1, 256\n  tmem.dealloc %4, 512\n"
               "  tmem.alloc s1, 256\n  br b4\nb4 in r0:\n  exit\n}\n",
          "region r2 in r0 head b2\n", "512");
  check_fault(text, TS_DIAG_BOUNDS_SHARED, "are not free");
  text_of(text, sizeof text,
          HEAD "  tcgen05.commit s2\n  %5 = add u32 %4, 2097152\n"
               "  tmem.ld a0, 0, %5 {num=1}\n  exit\n}\n",
          "", "32");
  check_fault(text, TS_DIAG_BOUNDS_SHARED, "only lanes");
}
END_TEST

int main(void) {
  return RUN_TESTS("interp tensor", test_store_and_load, test_packed_halves, test_products,
                   test_missing_wait, test_faults);
}
