/* Matrix instructions on small integers, which every format and every order of summation gives
 * exactly: what is tested is which element meets which. */
#include "num/num.h"
#include "support/failing_allocator.h"
#include "support/kernel.h"
#include "support/suite.h"

enum { TEXT_BYTES = 1 << 17, MAX_ELEMS = 256 * 64 };

struct text {
  char bytes[TEXT_BYTES];
  size_t used;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->bytes + text->used, TEXT_BYTES - text->used, format, arguments);
  va_end(arguments);
  ck_assert(length >= 0 && text->used + (size_t)length < TEXT_BYTES);
  text->used += (size_t)length;
}

static int small(uint64_t seed, int i, int j) {
  uint64_t z = seed * 1000003 + (uint64_t)i * 8191 + (uint64_t)j * 131;
  z = (z ^ z >> 15) * 0xbf58476d1ce4e5b9u;
  z ^= z >> 31;
  return (int)(z % 5) - 2;
}

static uint64_t encode(enum ts_dtype dtype, int value) {
  uint64_t bits = (uint64_t)(int64_t)value & UINT32_MAX;
  if (dtype == TS_DTYPE_s32) return bits;
  if (ts_dtype_is_int(dtype)) return bits & ((1u << ts_dtype_bits(dtype)) - 1);
  if (dtype == TS_DTYPE_tf32) dtype = TS_DTYPE_f32;
  return ts_num_convert1(dtype, TS_DTYPE_s32, 0, bits);
}

static void put(uint8_t *image, uint64_t byte, enum ts_dtype dtype, int value) {
  uint64_t bits = encode(dtype, value);
  memcpy(image + byte, &bits, ts_dtype_bits(dtype) / 8);
}

/* --- wgmma */

struct shape {
  enum ts_dtype a, c;
  int n, k, steps;
  bool a_k_major, b_k_major;
  int a_swizzle, b_swizzle; /* 0 none, 1 32 B, 2 64 B, 3 128 B */
  bool from_registers;
  int scale_a, scale_d;
};

struct operand {
  uint64_t start, lead, stride;
  int swizzle;
  bool k_major;
};

/* The canonical layouts of the PTX ISA, element by element; the address bits are then swizzled. */
static uint64_t place(const struct operand *o, enum ts_dtype dtype, int row, int k) {
  uint64_t bytes = ts_dtype_bits(dtype) / 8, per_chunk = 16 / bytes, span = 16u << o->swizzle;
  uint64_t r = (uint64_t)row, q = (uint64_t)k, at = o->start;
  if (o->k_major && o->swizzle)
    at += r / 8 * o->stride + r % 8 * span + q * bytes;
  else if (o->k_major)
    at += r / 8 * o->stride + r % 8 * 16 + q / per_chunk * o->lead + q % per_chunk * bytes;
  else if (o->swizzle)
    at += q / 8 * o->stride + q % 8 * span + r * bytes / span * o->lead + r * bytes % span;
  else
    at += q / 8 * o->lead + q % 8 * 16 + r / per_chunk * o->stride + r % per_chunk * bytes;
  uint64_t line = at / 128 % 8, mask = (1u << o->swizzle) - 1;
  return at ^ (line & mask) << 4;
}

static uint64_t descriptor(const struct operand *o) {
  static const uint64_t layouts[] = {0, 3, 2, 1};
  return o->start / 16 | (o->lead / 16) << 16 | (o->stride / 16) << 32 | layouts[o->swizzle] << 62;
}

/* A descriptor for step s: the start moves along k. */
static struct operand at_step(struct operand o, const struct shape *s, int step) {
  uint64_t bytes = ts_dtype_bits(s->a) / 8;
  if (o.k_major && o.swizzle)
    o.start += (uint64_t)(step * s->k) * bytes;
  else if (o.k_major)
    o.start += 2 * (uint64_t)step * o.lead;
  else
    o.start += 2 * (uint64_t)step * (o.swizzle ? o.stride : o.lead);
  return o;
}

/* Rows x (steps * k) elements with gaps between the groups. */
static struct operand lay_out(const struct shape *s, uint64_t start, int rows, bool k_major,
                              int swizzle) {
  struct operand o = {.start = start, .swizzle = swizzle, .k_major = k_major};
  uint64_t span = 16u << swizzle, depth = (uint64_t)(s->k * s->steps);
  uint64_t bytes = ts_dtype_bits(s->a) / 8, gap = swizzle ? 1024 : 32;
  if (k_major && swizzle) {
    o.stride = 8 * span + (swizzle == 3 ? 0 : gap); /* groups stay aligned to their pattern */
    o.lead = 16;
    ck_assert_uint_le(depth * bytes, span);
  } else if (k_major) {
    o.lead = 128 * (uint64_t)(rows / 8) + gap;
    o.stride = 128;
  } else if (swizzle) {
    o.stride = 8 * span;
    o.lead = depth / 8 * o.stride + gap;
  } else {
    o.stride = 128;
    o.lead = 128 * (uint64_t)(rows / 8) + gap;
  }
  return o;
}

enum { B_START = 65536, WINDOW = 147456 };

static void fill_operand(uint8_t *image, const struct operand *o, enum ts_dtype dtype, int rows,
                         int depth, uint64_t seed) {
  for (int r = 0; r < rows; r++)
    for (int k = 0; k < depth; k++) {
      uint64_t at = place(o, dtype, r, k);
      ck_assert_uint_lt(at, WINDOW);
      put(image, at, dtype, small(seed, r, k));
    }
}

/* Registers of A in the order of PTX: register i of lane l has row l / 4 + 8 (i % 2), columns
 * (l % 4) e + 4 e (i / 2), e elements a register. */
static void fill_registers(uint8_t *out, enum ts_dtype dtype, int first_row, int depth,
                           uint64_t seed) {
  int e = 32 / (int)ts_dtype_bits(dtype), words = depth / (2 * e);
  for (int lane = 0; lane < 32; lane++)
    for (int i = 0; i < words; i++)
      for (int h = 0; h < e; h++)
        put(out, (uint64_t)((lane * words + i) * 4) + (uint64_t)h * ts_dtype_bits(dtype) / 8, dtype,
            small(seed, first_row + lane / 4 + 8 * (i % 2), lane % 4 * e + 4 * e * (i / 2) + h));
}

static void write_kernel(struct text *t, const struct shape *s, const struct operand *a,
                         const struct operand *b) {
  int words = s->n * 16 * (int)ts_dtype_bits(s->c) / 1024;
  int a_words = s->steps * 4;
  const char *dtype = ts_dtype_name(s->a), *acc = ts_dtype_name(s->c);
  add(t,
      "function \"k\" {\nparam p0 pointer u8 %%0 \"image\"\nparam p1 pointer u32 %%1 \"out\"\n"
      "param p2 pointer u32 %%6 \"regs\"\n"
      "array a0 %s %d\narray a1 %s %d\n"
      "shared s0 static u8 align 1024 size %d\nshared s1 barrier u64 align 8 size 8\n"
      "reg %%0 ptr\nreg %%1 ptr\nreg %%6 ptr\nregion r1 in r0 head b0\n"
      "b0 in r0:\n  %%2 = sreg u32 {which=tid.x}\n  %%3 = eq u32 %%2, 0\n"
      "  cbr %%3, b1, b2, b2\n"
      "b1 in r1:\n  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, %d\n"
      "  bulk.load s0, %%0, %d, s1\n  br b2\n"
      "b2 in r0:\n  bar.sync 0, 0\n  mbarrier.wait s1, 0\n"
      "  %%4 = mul u32 %%2, %d\n  %%5 = mul u32 %%2, %d\n",
      acc, words * 32 / (int)ts_dtype_bits(s->c), dtype, a_words * 32 / (int)ts_dtype_bits(s->a),
      WINDOW, WINDOW, WINDOW, words, a_words);
  int reg = 7;
  for (int w = 0; w < words; w++) {
    add(t, "  %%%d = mov u32 %u\n", reg, (unsigned)encode(s->c, s->c == TS_DTYPE_f16 ? 0 : 7));
    add(t, "  st.local u32 a0, %d, %%%d\n", w, reg++);
  }
  for (int w = 0; s->from_registers && w < a_words; w++) {
    add(t, "  %%%d = ld.global u32 %%6, %%5 {scale=4, offset=%d}\n", reg, 4 * w);
    add(t, "  st.local u32 a1, %d, %%%d\n", w, reg++);
  }
  add(t, "  wgmma.fence\n");
  for (int step = 0; step < s->steps; step++) {
    struct operand a_step = at_step(*a, s, step), b_step = at_step(*b, s, step);
    int scale = step == 0 ? s->scale_d : 1;
    if (s->from_registers)
      add(t, "  wgmma.rs %s %s a1, %d, 0x%llx, a0, 0, %d", acc, dtype,
          step * 4 * 32 / (int)ts_dtype_bits(s->a), (unsigned long long)descriptor(&b_step), scale);
    else
      add(t, "  wgmma.ss %s %s 0x%llx, 0x%llx, a0, 0, %d", acc, dtype,
          (unsigned long long)descriptor(&a_step), (unsigned long long)descriptor(&b_step), scale);
    add(t, " {m=64, n=%d, k=%d, b_dtype=%s, a_major=%d, b_major=%d, scale_a=%d, scale_b=1}\n", s->n,
        s->k, dtype, s->a_k_major, s->b_k_major, s->scale_a);
  }
  add(t, "  wgmma.commit\n  wgmma.wait 0\n");
  for (int w = 0; w < words; w++) {
    add(t, "  %%%d = ld.local u32 a0, %d\n", reg, w);
    add(t, "  st.global u32 %%1, %%4, %%%d {scale=4, offset=%d}\n", reg++, 4 * w);
  }
  add(t, "  exit\n}\n");
}

static int expected_element(const struct shape *s, int row, int column) {
  int sum = 0;
  for (int k = 0; k < s->k * s->steps; k++)
    sum += small(1, row, k) * small(2, column, k);
  return sum * s->scale_a + (s->scale_d && s->c != TS_DTYPE_f16 ? 7 : 0);
}

static void check_wgmma(const struct shape *s, enum ts_schedule_kind schedule) {
  struct text *t = calloc(1, sizeof *t);
  struct kernel k;
  ck_assert_ptr_nonnull(t);
  struct operand a = lay_out(s, 1024, 64, s->a_k_major, s->a_swizzle);
  struct operand b = lay_out(s, B_START, s->n, s->b_k_major, s->b_swizzle);
  write_kernel(t, s, &a, &b);
  kernel_begin(&k, t->bytes);
  int depth = s->k * s->steps, words = s->n * 16 * (int)ts_dtype_bits(s->c) / 1024;
  uint8_t *image = kernel_buffer(&k, "image", TS_DTYPE_u8, WINDOW);
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, (uint64_t)words * 4 * 128);
  uint8_t *registers = kernel_buffer(&k, "regs", TS_DTYPE_u32, (uint64_t)s->steps * 16 * 128);
  if (!s->from_registers) fill_operand(image, &a, s->a, 64, depth, 1);
  fill_operand(image, &b, s->a, s->n, depth, 2);
  for (int w = 0; w < 4; w++)
    fill_registers(registers + w * s->steps * 16 * 32, s->a, 16 * w, depth, 1);
  k.options.schedule = schedule;
  enum ts_status status = kernel_run(&k, 1, 128);
  if (status != TS_OK || k.diags.items.count)
    ck_abort_msg("%s: %s", ts_status_text(status), kernel_message(&k, 0));
  ck_assert_uint_eq(k.stats.mac_count, 64u * (unsigned)s->n * (unsigned)depth);
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < s->n; column++) {
      int lane = row / 16 * 32 + row % 8 * 4 + column % 8 / 2, half = row % 16 / 8;
      uint64_t bits = encode(s->c, expected_element(s, row, column)), got;
      if (s->c == TS_DTYPE_f16)
        got = out[lane * words + column / 8 * 2 + half] >> 16 * (column % 2) & 0xffff;
      else
        got = out[lane * words + column / 8 * 4 + half * 2 + column % 2];
      ck_assert_msg(got == bits,
                    "%s n %d steps %d swizzles %d %d majors %d %d: (%d, %d) is %llx, not %llx",
                    ts_dtype_name(s->a), s->n, s->steps, s->a_swizzle, s->b_swizzle, s->a_k_major,
                    s->b_k_major, row, column, (unsigned long long)got, (unsigned long long)bits);
    }
  kernel_end(&k);
  free(t);
}

START_TEST(test_wgmma_layouts) {
  for (int a_swizzle = 0; a_swizzle < 4; a_swizzle++)
    for (int b_swizzle = 0; b_swizzle < 4; b_swizzle++)
      for (int majors = 0; majors < 4; majors++) {
        struct shape s = {.a = TS_DTYPE_f16,
                          .c = TS_DTYPE_f32,
                          .n = 64,
                          .k = 16,
                          .steps = 1,
                          .a_swizzle = a_swizzle,
                          .b_swizzle = b_swizzle,
                          .a_k_major = majors & 1,
                          .b_k_major = majors & 2,
                          .scale_a = 1,
                          .scale_d = 1};
        check_wgmma(&s, majors & 1 ? TS_SCHEDULE_LAZY : TS_SCHEDULE_EAGER);
      }
}
END_TEST

/* Chains along k, wide and narrow, all types of operands and accumulators. */
START_TEST(test_wgmma_types) {
  static const struct {
    enum ts_dtype a, c;
    int k;
  } types[] = {{TS_DTYPE_f16, TS_DTYPE_f32, 16},  {TS_DTYPE_bf16, TS_DTYPE_f32, 16},
               {TS_DTYPE_tf32, TS_DTYPE_f32, 8},  {TS_DTYPE_e4m3, TS_DTYPE_f32, 32},
               {TS_DTYPE_e5m2, TS_DTYPE_f32, 32}, {TS_DTYPE_s8, TS_DTYPE_s32, 32},
               {TS_DTYPE_f16, TS_DTYPE_f16, 16}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    for (int n = 8; n <= 256; n = n == 8 ? 40 : n == 40 ? 256 : 512)
      for (int registers = 0; registers < 2; registers++) {
        struct shape s = {.a = types[i].a,
                          .c = types[i].c,
                          .n = n,
                          .k = types[i].k,
                          .steps = n == 40 ? 4 : 2,
                          .a_swizzle = 3,
                          .b_swizzle = 3,
                          .a_k_major = true,
                          .b_k_major = true,
                          .from_registers = registers,
                          .scale_a = n == 40 && ts_dtype_is_float(types[i].a) ? -1 : 1,
                          .scale_d = n != 8};
        check_wgmma(&s, i % 2 ? TS_SCHEDULE_RANDOM : TS_SCHEDULE_EAGER);
      }
}
END_TEST

/* Long chains of MN-major operands. */
START_TEST(test_wgmma_chains) {
  for (int steps = 1; steps <= 12; steps += 3) {
    struct shape s = {.a = TS_DTYPE_bf16,
                      .c = TS_DTYPE_f32,
                      .n = 128,
                      .k = 16,
                      .steps = steps,
                      .a_swizzle = 2,
                      .b_swizzle = 3,
                      .scale_a = 1,
                      .scale_d = 0};
    check_wgmma(&s, TS_SCHEDULE_LAZY);
  }
}
END_TEST

/* Every allocation of a run may fail. */
START_TEST(test_short_memory) {
  struct shape s = {
      .a = TS_DTYPE_f16, .c = TS_DTYPE_f32, .n = 8, .k = 16, .steps = 1, .scale_a = 1};
  struct operand a = lay_out(&s, 1024, 64, false, 0), b = lay_out(&s, B_START, 8, false, 0);
  struct text *t = calloc(1, sizeof *t);
  struct failing_allocator memory;
  ck_assert_ptr_nonnull(t);
  write_kernel(t, &s, &a, &b);
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct kernel k;
    kernel_begin(&k, t->bytes);
    kernel_buffer(&k, "image", TS_DTYPE_u8, WINDOW);
    kernel_buffer(&k, "out", TS_DTYPE_u32, 4 * 4 * 128);
    kernel_buffer(&k, "regs", TS_DTYPE_u32, 16 * 128);
    k.ctx.allocator = &memory.allocator;
    enum ts_status status = kernel_run(&k, 1, 128);
    ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    kernel_end(&k);
  }
  free(t);
}
END_TEST

/* --- wgmma in flight */

#define WGMMA_HEAD                                                                                 \
  "function \"k\" {\nparam p0 pointer u32 %0 \"out\"\narray a0 f32 4\narray a1 f16 8\n"            \
  "shared s0 static u8 align 1024 size 8192\nreg %0 ptr\n"                                         \
  "b0 in r0:\n  %1 = sreg u32 {which=tid.x}\n"
#define WGMMA_SS                                                                                   \
  "  wgmma.ss f32 f16 0x4000002000010000, 0x4000002000010080, a0, 0, 1 {m=64, n=8, k=16, "         \
  "b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n"
#define WGMMA_RS                                                                                   \
  "  wgmma.rs f32 f16 a1, 0, 0x4000002000010080, a0, 0, 1 {m=64, n=8, k=16, "                      \
  "b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n"

/* Runs under each schedule and expects one diagnostic of the code, or none. */
static void expect(const char *body, uint32_t threads, enum ts_diag_code code) {
  for (int schedule = 0; schedule < 3; schedule++) {
    struct kernel k;
    kernel_begin(&k, body);
    kernel_buffer(&k, "out", TS_DTYPE_u32, 65536);
    k.options.schedule = (enum ts_schedule_kind)schedule;
    k.options.seed = 3;
    enum ts_status status = kernel_run(&k, 1, threads);
    if (code == TS_DIAG_CODE_COUNT) {
      if (status != TS_OK || k.diags.items.count) ck_abort_msg("%s", kernel_message(&k, 0));
    } else {
      ck_assert_int_ne(status, TS_OK);
      ck_assert_msg(k.diags.items.count && k.diags.items.data[0].code == code,
                    "%s, schedule %d: %s", ts_diag_code_text(code), schedule,
                    kernel_message(&k, 0));
    }
    kernel_end(&k);
  }
}

START_TEST(test_wgmma_in_flight) {
  static const char end[] = "  exit\n}\n";
  char body[4096];
  struct {
    const char *middle;
    enum ts_diag_code code;
  } cases[] = {
      {WGMMA_SS "  wgmma.commit\n  wgmma.wait 0\n  %2 = ld.local f32 a0, 0\n", TS_DIAG_CODE_COUNT},
      {WGMMA_SS "  wgmma.commit\n  %2 = ld.local f32 a0, 3\n  wgmma.wait 0\n",
       TS_DIAG_RACE_PENDING_READ},
      {WGMMA_SS "  %2 = ld.local f32 a0, 0\n  wgmma.commit\n  wgmma.wait 0\n",
       TS_DIAG_RACE_PENDING_READ},
      {WGMMA_SS "  wgmma.commit\n  st.local f32 a0, 1, 0\n  wgmma.wait 0\n",
       TS_DIAG_RACE_PENDING_WRITE},
      {WGMMA_SS "  wgmma.commit\n  wgmma.wait 1\n  st.local f32 a0, 1, 0\n"
                "  wgmma.wait 0\n",
       TS_DIAG_RACE_PENDING_WRITE},
      {WGMMA_SS "  wgmma.commit\n  %2 = ld.local f16 a1, 1\n  wgmma.wait 0\n", TS_DIAG_CODE_COUNT},
      {WGMMA_RS "  wgmma.commit\n  %2 = ld.local f16 a1, 1\n  wgmma.wait 0\n", TS_DIAG_CODE_COUNT},
      {WGMMA_RS "  wgmma.commit\n  st.local f16 a1, 6, 0\n  wgmma.wait 0\n",
       TS_DIAG_RACE_PENDING_WRITE},
      {WGMMA_SS WGMMA_SS "  wgmma.commit\n" WGMMA_SS
                         "  wgmma.commit\n  wgmma.wait 0\n  st.local f32 a0, 0, 0\n",
       TS_DIAG_CODE_COUNT},
      /* Operands in shared memory: row 0 of B lies at 2048, B's second half of a row is not read. */
      {WGMMA_SS "  wgmma.commit\n  st.shared u32 s0, 2048, 0 {scale=1}\n  wgmma.wait 0\n",
       TS_DIAG_RACE_PENDING_WRITE},
      {WGMMA_SS "  wgmma.commit\n  wgmma.wait 0\n  bar.sync 0, 0\n"
                "  st.shared u32 s0, 2048, 0 {scale=1}\n",
       TS_DIAG_CODE_COUNT},
      {WGMMA_SS "  wgmma.commit\n  st.shared u32 s0, 4096, 0 {scale=1}\n  wgmma.wait 0\n",
       TS_DIAG_CODE_COUNT}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    snprintf(body, sizeof body, "%s%s%s", WGMMA_HEAD, cases[i].middle, end);
    expect(body, 32, cases[i].code);
  }
}
END_TEST

START_TEST(test_wgmma_bounds) {
  expect(WGMMA_HEAD
         "  wgmma.ss f32 f16 0x4000002000010000, 0x40000020000101f0, a0, 0, 1 {m=64, n=8, k=16, "
         "b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n  exit\n}\n",
         32, TS_DIAG_BOUNDS_SHARED);
  expect(WGMMA_HEAD
         "  wgmma.ss f32 f16 0x4000002000010000, 0x4000002000010080, a0, 1, 1 {m=64, n=8, k=16, "
         "b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n  exit\n}\n",
         32, TS_DIAG_BOUNDS_LOCAL);
}
END_TEST

/* --- mma: 2 x 4 fragments, two rounds with another A fragment in the second */

enum { M_TILES = 2, N_TILES = 4 };

static int mma_expected(int row, int column, int k_count, int rounds) {
  int sum = 0;
  for (int round = 0; round < rounds; round++)
    for (int k = 0; k < k_count; k++)
      sum += small(round && row < 16 ? 9 : 1, row, k) * small(2, column, k);
  return sum;
}

static void write_mma(struct text *t, enum ts_dtype a, enum ts_dtype c, int k) {
  const char *acc = ts_dtype_name(c), *in = ts_dtype_name(a);
  int e = 32 / (int)ts_dtype_bits(a), a_words = k / (2 * e), b_words = k / (4 * e);
  int c_words = c == TS_DTYPE_f16 ? 2 : 4, c_step = 4; /* elements */
  add(t,
      "function \"k\" {\nparam p0 pointer u32 %%0 \"a\"\nparam p1 pointer u32 %%1 \"b\"\n"
      "param p2 pointer u32 %%2 \"out\"\narray a0 %s %d\narray a1 %s %d\narray a2 %s %d\n"
      "reg %%0 ptr\nreg %%1 ptr\nreg %%2 ptr\nb0 in r0:\n  %%3 = sreg u32 {which=tid.x}\n"
      "  %%4 = mul u32 %%3, %d\n  %%5 = mul u32 %%3, %d\n  %%6 = mul u32 %%3, %d\n",
      acc, M_TILES * N_TILES * c_step, in, M_TILES * a_words * e, in, N_TILES * b_words * e,
      3 * a_words, N_TILES * b_words, M_TILES * N_TILES * c_words);
  int reg = 7;
  for (int w = 0; w < M_TILES * N_TILES * c_words; w++)
    add(t, "  st.local u32 a0, %d, 0\n", w);
  for (int w = 0; w < M_TILES * a_words; w++) {
    add(t, "  %%%d = ld.global u32 %%0, %%4 {scale=4, offset=%d}\n", reg, 4 * w);
    add(t, "  st.local u32 a1, %d, %%%d\n", w, reg++);
  }
  for (int w = 0; w < N_TILES * b_words; w++) {
    add(t, "  %%%d = ld.global u32 %%1, %%5 {scale=4, offset=%d}\n", reg, 4 * w);
    add(t, "  st.local u32 a2, %d, %%%d\n", w, reg++);
  }
  for (int round = 0; round < 2; round++) {
    for (int w = 0; round && w < a_words; w++) {
      add(t, "  %%%d = ld.global u32 %%0, %%4 {scale=4, offset=%d}\n", reg,
          4 * (M_TILES * a_words + w));
      add(t, "  st.local u32 a1, %d, %%%d\n", w, reg++);
    }
    for (int i = 0; i < M_TILES; i++)
      for (int j = 0; j < N_TILES; j++)
        add(t, "  mma %s %s a0, %d, a1, %d, a2, %d {m=16, n=8, k=%d, b_dtype=%s}\n", acc, in,
            (i * N_TILES + j) * c_step, i * a_words * e, j * b_words * e, k, in);
  }
  for (int w = 0; w < M_TILES * N_TILES * c_words; w++) {
    add(t, "  %%%d = ld.local u32 a0, %d\n", reg, w);
    add(t, "  st.global u32 %%2, %%6, %%%d {scale=4, offset=%d}\n", reg++, 4 * w);
  }
  add(t, "  exit\n}\n");
}

static void check_mma(enum ts_dtype a, enum ts_dtype c, int k_count) {
  struct text *t = calloc(1, sizeof *t);
  struct kernel k;
  ck_assert_ptr_nonnull(t);
  write_mma(t, a, c, k_count);
  kernel_begin(&k, t->bytes);
  int e = 32 / (int)ts_dtype_bits(a), a_words = k_count / (2 * e), b_words = k_count / (4 * e);
  int c_words = c == TS_DTYPE_f16 ? 2 : 4, elem = (int)ts_dtype_bits(a) / 8;
  uint8_t *in_a = kernel_buffer(&k, "a", TS_DTYPE_u32, (uint64_t)(3 * a_words * 32) * 4);
  uint8_t *in_b = kernel_buffer(&k, "b", TS_DTYPE_u32, (uint64_t)(N_TILES * b_words * 32) * 4);
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, M_TILES * N_TILES * 4 * 32 * 4);
  for (int lane = 0; lane < 32; lane++)
    for (int h = 0; h < e; h++) {
      for (int i = 0; i < 3 * a_words; i++) {
        int tile = i / a_words, r = i % a_words;
        int row = (tile == 2 ? 0 : 16 * tile) + lane / 4 + 8 * (r % 2);
        put(in_a, (uint64_t)((lane * 3 * a_words + i) * 4 + h * elem), a,
            small(tile == 2 ? 9 : 1, row, lane % 4 * e + 4 * e * (r / 2) + h));
      }
      for (int i = 0; i < N_TILES * b_words; i++)
        put(in_b, (uint64_t)((lane * N_TILES * b_words + i) * 4 + h * elem), a,
            small(2, i / b_words * 8 + lane / 4, lane % 4 * e + 4 * e * (i % b_words) + h));
    }
  enum ts_status status = kernel_run(&k, 1, 32);
  if (status != TS_OK || k.diags.items.count) ck_abort_msg("%s", kernel_message(&k, 0));
  ck_assert_uint_eq(k.stats.mac_count, 2u * M_TILES * N_TILES * 16 * 8 * (unsigned)k_count);
  for (int row = 0; row < 16 * M_TILES; row++)
    for (int column = 0; column < 8 * N_TILES; column++) {
      int tile = row / 16 * N_TILES + column / 8, lane = row % 8 * 4 + column % 8 / 2;
      const uint32_t *words = out + (lane * M_TILES * N_TILES + tile) * c_words;
      int half = row % 16 / 8;
      uint64_t bits = encode(c, mma_expected(row, column, k_count, 2));
      uint64_t got = c == TS_DTYPE_f16 ? words[half] >> 16 * (column % 2) & 0xffff
                                       : words[half * 2 + column % 2];
      ck_assert_msg(got == bits, "%s k %d (%d, %d): %llx, not %llx", ts_dtype_name(a), k_count, row,
                    column, (unsigned long long)got, (unsigned long long)bits);
    }
  kernel_end(&k);
  free(t);
}

START_TEST(test_mma) {
  check_mma(TS_DTYPE_f16, TS_DTYPE_f32, 16);
  check_mma(TS_DTYPE_f16, TS_DTYPE_f32, 8);
  check_mma(TS_DTYPE_bf16, TS_DTYPE_f32, 16);
  check_mma(TS_DTYPE_tf32, TS_DTYPE_f32, 8);
  check_mma(TS_DTYPE_s8, TS_DTYPE_s32, 32);
  check_mma(TS_DTYPE_e4m3, TS_DTYPE_f32, 32);
  check_mma(TS_DTYPE_f16, TS_DTYPE_f16, 16);
}
END_TEST

/* Only the active lanes' accumulators change; an operand may be the accumulator's array. */
START_TEST(test_mma_partial) {
  struct kernel k;
  kernel_begin(&k, "function \"k\" {\nparam p0 pointer u32 %0 \"out\"\narray a0 f32 4\n"
                   "array a1 f16 8\narray a2 f16 4\nreg %0 ptr\nregion r1 in r0 head b0\n"
                   "b0 in r0:\n  %1 = sreg u32 {which=tid.x}\n"
                   "  st.local f16x8 a1, 0, 0x3c00\n  st.local f16x4 a2, 0, 0x3c00\n"
                   "  st.local f32x4 a0, 0, 0x3f800000\n"
                   "  %2 = lt u32 %1, 8\n  cbr %2, b1, b2, b2\n"
                   "b1 in r1:\n"
                   "  mma f32 f16 a0, 0, a1, 0, a2, 0 {m=16, n=8, k=16, b_dtype=f16}\n  br b2\n"
                   "b2 in r0:\n  %3 = ld.local f32x4 a0, 0\n  %4 = mul u32 %1, 4\n"
                   "  st.global f32x4 %0, %4, %3 {scale=4}\n  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_f32, 512);
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_OK);
  ck_assert_uint_eq(out[0], 0x41880000); /* 17 */
  ck_assert_uint_eq(out[31], 0x41880000);
  ck_assert_uint_eq(out[32], 0x3f800000);
  ck_assert_uint_eq(out[127], 0x3f800000);
  kernel_end(&k);
}
END_TEST

/* --- ldmatrix and stmatrix */

/* out[lane * 4 + i] = register i of ldmatrix.x4 from rows 80 bytes apart. */
static void check_ldmatrix(int trans) {
  char body[2048];
  struct kernel k;
  snprintf(body, sizeof body,
           "function \"k\" {\nparam p0 pointer u32 %%0 \"in\"\nparam p1 pointer u32 %%1 \"out\"\n"
           "array a0 f16 16\nshared s0 static u8 align 16 size 2560\nreg %%0 ptr\nreg %%1 ptr\n"
           "b0 in r0:\n  %%2 = sreg u32 {which=tid.x}\n  %%3 = mul u32 %%2, 4\n"
           "  %%4 = ld.global u32x4 %%0, %%3 {scale=4}\n  %%5 = mul u32 %%2, 5\n"
           "  st.shared u32x4 s0, %%5, %%4 {scale=16}\n  bar.sync 0, 0\n"
           "  ldmatrix f16 a0, 8, s0, %%5 {scale=16, num=4, trans=%d}\n"
           "  %%6 = ld.local u32x4 a0, 4\n  st.global u32x4 %%1, %%3, %%6 {scale=4}\n"
           "  exit\n}\n",
           trans);
  kernel_begin(&k, body);
  uint16_t *in = kernel_buffer(&k, "in", TS_DTYPE_u32, 512);
  uint16_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 512);
  for (int i = 0; i < 256; i++)
    in[i] = (uint16_t)(1000 + i);
  enum ts_status status = kernel_run(&k, 1, 32);
  if (status != TS_OK) ck_abort_msg("%s", kernel_message(&k, 0));
  for (int lane = 0; lane < 32; lane++)
    for (int m = 0; m < 4; m++)
      for (int h = 0; h < 2; h++) {
        int row = lane / 4, column = lane % 4 * 2 + h;
        int wanted = trans ? (8 * m + column) * 8 + row : (8 * m + row) * 8 + column;
        ck_assert_uint_eq(out[(lane * 4 + m) * 2 + h], 1000u + (unsigned)wanted);
      }
  kernel_end(&k);
}

START_TEST(test_ldmatrix) {
  check_ldmatrix(0);
  check_ldmatrix(1);
}
END_TEST

/* stmatrix undoes ldmatrix. */
START_TEST(test_stmatrix) {
  for (int trans = 0; trans < 2; trans++) {
    char body[2048];
    struct kernel k;
    snprintf(body, sizeof body,
             "function \"k\" {\nparam p0 pointer u32 %%0 \"in\"\nparam p1 pointer u32 %%1 \"out\"\n"
             "array a0 u32 2\nshared s0 static u8 align 16 size 512\nreg %%0 ptr\nreg %%1 ptr\n"
             "b0 in r0:\n  %%2 = sreg u32 {which=tid.x}\n  %%3 = and u32 %%2, 15\n"
             "  %%4 = ld.global u32x2 %%0, %%2 {scale=8}\n"
             "  st.shared u32x2 s0, %%2, %%4 {scale=8}\n  bar.sync 0, 0\n"
             "  ldmatrix u32 a0, 0, s0, %%3 {scale=16, num=2, trans=%d}\n"
             "  %%5 = ld.local u32 a0, 0\n  %%6 = ld.local u32 a0, 1\n"
             "  stmatrix u32 s0, %%3, %%5, %%6 {scale=16, offset=256, trans=%d}\n"
             "  bar.sync 0, 0\n  %%7 = ld.shared u32x2 s0, %%2 {scale=8, offset=256}\n"
             "  st.global u32x2 %%1, %%2, %%7 {scale=8}\n  exit\n}\n",
             trans, trans);
    kernel_begin(&k, body);
    uint8_t *in = kernel_buffer(&k, "in", TS_DTYPE_u32, 256);
    uint8_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 256);
    for (int i = 0; i < 256; i++)
      in[i] = (uint8_t)(i * 7);
    enum ts_status status = kernel_run(&k, 1, 32);
    if (status != TS_OK) ck_abort_msg("%s", kernel_message(&k, 0));
    ck_assert_mem_eq(out, in, 256);
    kernel_end(&k);
  }
}
END_TEST

START_TEST(test_matrix_faults) {
#define LDMATRIX(array, address)                                                                   \
  "function \"k\" {\nparam p0 pointer u32 %0 \"out\"\narray a0 f16 " array "\n"                    \
  "shared s0 static u8 align 16 size 512\nreg %0 ptr\nb0 in r0:\n  %1 = sreg u32 {which=tid.x}\n"  \
  "  ldmatrix f16 a0, 0, s0, " address " {scale=16, num=4}\n  exit\n}\n"
  expect(LDMATRIX("8", "%1"), 32, TS_DIAG_CODE_COUNT);
  expect(LDMATRIX("6", "%1"), 32, TS_DIAG_BOUNDS_LOCAL);
}
END_TEST

START_TEST(test_matrix_addresses) {
  expect("function \"k\" {\nparam p0 pointer u32 %0 \"out\"\narray a0 f16 8\n"
         "shared s0 static u8 align 16 size 512\nreg %0 ptr\nb0 in r0:\n"
         "  %1 = sreg u32 {which=tid.x}\n"
         "  ldmatrix f16 a0, 0, s0, %1 {scale=16, offset=16, num=4}\n  exit\n}\n",
         32, TS_DIAG_BOUNDS_SHARED);
  expect("function \"k\" {\nparam p0 pointer u32 %0 \"out\"\narray a0 f16 8\n"
         "shared s0 static u8 align 16 size 512\nreg %0 ptr\nb0 in r0:\n"
         "  %1 = sreg u32 {which=tid.x}\n"
         "  ldmatrix f16 a0, 0, s0, %1 {scale=8, num=4}\n  exit\n}\n",
         32, TS_DIAG_MISALIGNED);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp matrix", test_wgmma_layouts, test_wgmma_types, test_wgmma_chains,
                   test_short_memory, test_wgmma_in_flight, test_wgmma_bounds, test_mma,
                   test_mma_partial, test_ldmatrix, test_stmatrix, test_matrix_faults,
                   test_matrix_addresses);
}
