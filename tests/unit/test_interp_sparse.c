/* Sparse matrix products of a warp against a plain sum over the elements that the metadata names.
 * Values are small integers, so every order of summation gives the same. */
#include "num/num.h"

#include "support/kernel.h"
#include "support/suite.h"

enum { ROWS = 16, COLUMNS = 8, MAX_K = 64, LANES = 32 };

struct shape {
  enum ts_dtype dtype, accumulator;
  uint32_t k, selector;
};

/* A problem: element i of row r of A is in column place[r][i]. */
struct problem {
  int a[ROWS][MAX_K], b[MAX_K][COLUMNS];
  uint32_t place[ROWS][MAX_K / 2];
};

static uint32_t random_bits(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}

static int small(uint64_t *state) { return (int)(random_bits(state) % 7) - 3; }

static struct problem make(const struct shape *shape, uint64_t seed) {
  struct problem p = {.a = {{0}}};
  bool is_pair = shape->dtype == TS_DTYPE_tf32; /* one of two instead of two of four */
  for (uint32_t r = 0; r < ROWS; r++)
    for (uint32_t i = 0; i < shape->k / 2; i++) {
      p.a[r][i] = small(&seed);
      if (is_pair) {
        p.place[r][i] = 2 * i + random_bits(&seed) % 2;
      } else if (i % 2 == 0) {
        uint32_t first = random_bits(&seed) % 3;
        p.place[r][i] = 2 * i + first;
        p.place[r][i + 1] = 2 * i + first + 1 + random_bits(&seed) % (3 - first);
      }
    }
  for (uint32_t k = 0; k < shape->k; k++)
    for (uint32_t j = 0; j < COLUMNS; j++)
      p.b[k][j] = small(&seed);
  return p;
}

static void put(uint32_t *words, uint32_t bits, uint32_t word, uint32_t lane, uint32_t i,
                uint64_t encoding) {
  words[word * LANES + lane] |= (uint32_t)(encoding << i * bits);
}

static uint64_t encode(enum ts_dtype dtype, int value) {
  uint64_t slot = (uint64_t)(int64_t)value;
  if (ts_dtype_is_float(dtype)) slot = ts_num_convert1(dtype, TS_DTYPE_s32, 0, (uint32_t)value);
  uint32_t bits = ts_dtype_bits(dtype);
  return bits < 64 ? slot & (((uint64_t)1 << bits) - 1) : slot;
}

/* Fragments as the PTX ISA draws them: groups of `per` elements of 32 bits; A's row r is lane r % 8
 * * 4 + group % 4, register r / 8 + group / 4 * 2; B's column j is lane j * 4 + group % 4. */
static void fill(const struct shape *shape, const struct problem *p, uint32_t *a, uint32_t *b) {
  uint32_t bits = ts_dtype_bits(shape->dtype), per = 32 / bits;
  for (uint32_t r = 0; r < ROWS; r++)
    for (uint32_t i = 0; i < shape->k / 2; i++)
      put(a, bits, r / 8 + i / per / 4 * 2, r % 8 * 4 + i / per % 4, i % per,
          encode(shape->dtype, p->a[r][i]));
  for (uint32_t k = 0; k < shape->k; k++)
    for (uint32_t j = 0; j < COLUMNS; j++)
      put(b, bits, k / per / 4, j * 4 + k / per % 4, k % per, encode(shape->dtype, p->b[k][j]));
}

static uint64_t metadata_of(const struct shape *shape, const struct problem *p, uint32_t row) {
  uint64_t bits = 0;
  for (uint32_t i = 0; i < shape->k / 2; i++) {
    if (shape->dtype == TS_DTYPE_tf32)
      bits |= (uint64_t)(p->place[row][i] % 2 ? 14 : 4) << 4 * i;
    else
      bits |= (uint64_t)(p->place[row][i] % 4) << 2 * i;
  }
  return bits;
}

static void fill_metadata(const struct shape *shape, const struct problem *p, uint32_t *words) {
  uint32_t row_bits = shape->k * (shape->dtype == TS_DTYPE_tf32 ? 2 : 1);
  for (uint32_t r = 0; r < ROWS; r++) {
    uint64_t bits = metadata_of(shape, p, r);
    uint32_t first = r % 8 * 4, high = r / 8 * 16;
    if (row_bits == 64) {
      words[first + r / 8] = (uint32_t)bits;
      words[first + r / 8 + 2] = (uint32_t)(bits >> 32);
    } else if (row_bits == 32) {
      words[first + 2 * shape->selector] |= (uint32_t)(bits & 0xffff) << high;
      words[first + 2 * shape->selector + 1] |= (uint32_t)(bits >> 16) << high;
    } else {
      words[first + shape->selector] |= (uint32_t)bits << high;
    }
  }
}

/* Loads `count` words from element `first` * 32 + lane on into an array. */
static int load_text(char *text, size_t size_bytes, const char *array, uint32_t first,
                     uint32_t count, uint32_t *reg) {
  int used = 0;
  for (uint32_t i = 0; i < count; i++, *reg += 1)
    used += snprintf(text + used, size_bytes - (size_t)used,
                     "  %%%u = ld.global u32 %%0, %%2 {scale=4, offset=%u}\n"
                     "  st.local u32 %s, %u, %%%u\n",
                     *reg, (first + i) * 128, array, i, *reg);
  return used;
}

static void check(const struct shape *shape) {
  char text[8192];
  uint32_t words = shape->k * ts_dtype_bits(shape->dtype) / 128, reg = 3;
  size_t size = sizeof text;
  int used = snprintf(text, size,
                      "function \"k\" {\nparam p0 pointer u32 %%0 \"in\"\n"
                      "param p1 pointer u32 %%1 \"out\"\narray a0 u32 4 \"c\"\n"
                      "array a1 u32 %u \"a\"\narray a2 u32 %u \"b\"\nreg %%0 ptr\nreg %%1 ptr\n"
                      "b0 in r0:\n  %%2 = sreg u32 {which=laneid}\n",
                      words, words);
  used += load_text(text + used, size - (size_t)used, "a0", 0, 4, &reg);
  used += load_text(text + used, size - (size_t)used, "a1", 4, words, &reg);
  used += load_text(text + used, size - (size_t)used, "a2", 8, words, &reg);
  used += snprintf(
      text + used, size - (size_t)used,
      "  %%%u = ld.global u32 %%0, %%2 {scale=4, offset=1536}\n"
      "  mma.sp %s %s a0, 0, a1, 0, a2, 0, %%%u {m=16, n=8, k=%u, selector=%u, b_dtype=%s}\n",
      reg, ts_dtype_name(shape->accumulator), ts_dtype_name(shape->dtype), reg, shape->k,
      shape->selector, ts_dtype_name(shape->dtype));
  for (uint32_t i = 0; i < 4; i++) {
    reg++;
    used += snprintf(text + used, size - (size_t)used,
                     "  %%%u = ld.local u32 a0, %u\n"
                     "  st.global u32 %%1, %%2, %%%u {scale=4, offset=%u}\n",
                     reg, i, reg, i * 128);
  }
  snprintf(text + used, size - (size_t)used, "  exit\n}\n");
  struct kernel k;
  struct problem p = make(shape, shape->k + shape->selector);
  kernel_begin(&k, text);
  uint32_t *in = kernel_buffer(&k, "in", TS_DTYPE_u32, 13 * 128);
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 4 * 128);
  memset(in, 0, 13 * 128);
  for (uint32_t i = 0; i < 4 * LANES; i++)
    in[i] = (uint32_t)encode(shape->accumulator, 5);
  fill(shape, &p, in + 4 * LANES, in + 8 * LANES);
  fill_metadata(shape, &p, in + 12 * LANES);
  ck_assert_msg(kernel_run(&k, 1, 32) == TS_OK, "%s", kernel_message(&k, 0));
  for (uint32_t r = 0; r < ROWS; r++)
    for (uint32_t j = 0; j < COLUMNS; j++) {
      int sum = 5;
      for (uint32_t i = 0; i < shape->k / 2; i++)
        sum += p.a[r][i] * p.b[p.place[r][i]][j];
      uint32_t found = out[(r / 8 * 2 + j % 2) * LANES + r % 8 * 4 + j / 2];
      ck_assert_msg(found == (uint32_t)encode(shape->accumulator, sum),
                    "%s k%u selector %u: row %u column %u is 0x%x, expected %d",
                    ts_dtype_name(shape->dtype), shape->k, shape->selector, r, j, found, sum);
    }
  kernel_end(&k);
}

START_TEST(test_shapes) {
  static const struct shape shapes[] = {
      {TS_DTYPE_f16, TS_DTYPE_f32, 32, 0},  {TS_DTYPE_f16, TS_DTYPE_f32, 32, 1},
      {TS_DTYPE_f16, TS_DTYPE_f32, 16, 0},  {TS_DTYPE_f16, TS_DTYPE_f32, 16, 3},
      {TS_DTYPE_bf16, TS_DTYPE_f32, 32, 1}, {TS_DTYPE_bf16, TS_DTYPE_f32, 16, 2},
      {TS_DTYPE_tf32, TS_DTYPE_f32, 16, 0}, {TS_DTYPE_tf32, TS_DTYPE_f32, 16, 1},
      {TS_DTYPE_tf32, TS_DTYPE_f32, 8, 1},  {TS_DTYPE_s8, TS_DTYPE_s32, 64, 0},
      {TS_DTYPE_s8, TS_DTYPE_s32, 32, 1},   {TS_DTYPE_e4m3, TS_DTYPE_f32, 64, 0},
      {TS_DTYPE_e5m2, TS_DTYPE_f32, 64, 0}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check(&shapes[i]);
}
END_TEST

/* What is not named does not take part, be it infinite. */
START_TEST(test_dropped_elements) {
  struct kernel k;
  kernel_begin(&k,
               "function \"k\" {\nparam p0 pointer u32 %0 \"out\"\narray a0 f32 4 \"c\"\n"
               "array a1 f16 8 \"a\"\narray a2 f16 8 \"b\"\nreg %0 ptr\nb0 in r0:\n"
               "  %1 = sreg u32 {which=laneid}\n  %2 = and u32 %1, 1\n  %3 = mul u32 %2, 2\n"
               "  %4 = mov f16x8 0x3c00\n  st.local f16x8 a1, 0, %4\n"
               "  %5 = mov f16x2 0x3c00\n  %6 = mov f16x2 0x7c00\n  %7 = eq u32 %2, 0\n"
               "  %8 = select f16x2 %7, %5, %6\n  %9 = concat f16x8 %8, %8, %8, %8\n"
               "  st.local f16x8 a2, 0, %9\n"
               "  mma.sp f32 f16 a0, 0, a1, 0, a2, 0, 0x44444444 {m=16, n=8, k=32, b_dtype=f16}\n"
               "  %10 = ld.local f32 a0, 0\n  st.global f32 %0, %1, %10 {scale=4}\n"
               "  exit\n}\n");
  float *out = kernel_buffer(&k, "out", TS_DTYPE_f32, 128);
  ck_assert_msg(kernel_run(&k, 1, 32) == TS_OK, "%s", kernel_message(&k, 0));
  for (int i = 0; i < LANES; i++)
    ck_assert_float_eq(out[i], 16.0F);
  kernel_end(&k);
}
END_TEST

START_TEST(test_unknown_shapes) {
  static const char *const shapes[] = {
      "f16 {m=16, n=8, k=32, selector=2, b_dtype=f16}", "f16 {m=8, n=8, k=32, b_dtype=f16}",
      "f16 {m=16, n=8, k=64, b_dtype=f16}", "s8 {m=16, n=8, k=64, selector=1, b_dtype=s8}"};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    char text[512];
    bool is_int = shapes[i][0] == 's';
    snprintf(text, sizeof text,
             "function \"k\" {\narray a0 u32 4 \"c\"\narray a1 u32 8 \"a\"\nb0 in r0:\n"
             "  mma.sp %s %.*s a0, 0, a1, 0, a1, 0, 0 %s\n  exit\n}\n",
             is_int ? "s32" : "f32", is_int ? 2 : 3, shapes[i], strchr(shapes[i], '{'));
    struct kernel k;
    kernel_begin(&k, text);
    ck_assert_int_eq(kernel_run(&k, 1, 32), TS_UNSUPPORTED);
    kernel_end(&k);
  }
}
END_TEST

int main(void) {
  return RUN_TESTS("interp sparse", test_shapes, test_dropped_elements, test_unknown_shapes);
}
