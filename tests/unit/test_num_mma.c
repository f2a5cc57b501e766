/* Matrix arithmetic: vectors with known results, and the vector kernels against the scalar twin. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "num/num.h"

/* Check reports every assertion to its parent process; in hot loops only failures matter. */
#define check(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                   \
  } while (0)

enum { M_MAX = 64, N_MAX = 64, K_MAX = 128 };

static struct ts_mma_scratch *scratch_of(enum ts_isa isa) {
  struct ts_mma_scratch *scratch = ts_mma_scratch_new(&ts_allocator_libc, M_MAX, N_MAX, K_MAX);
  ck_assert_ptr_nonnull(scratch);
  ts_mma_scratch_limit(scratch, isa);
  return scratch;
}

/* Vectors -------------------------------------------------------------------------------------- */

struct pair {
  unsigned k;
  uint32_t a, b;
};

/* One accumulator; pairs that are not given are 0 x 0. */
struct vector {
  const char *id;
  enum ts_mma_path path;
  enum ts_dtype a, b, acc;
  unsigned k;
  struct pair pairs[5]; /* up to the first with a = b = 0 */
  uint32_t c, expected;
};

#define F16_F32(path) TS_MMA_##path, TS_DTYPE_f16, TS_DTYPE_f16, TS_DTYPE_f32, 16
#define BF16_F32(path) TS_MMA_##path, TS_DTYPE_bf16, TS_DTYPE_bf16, TS_DTYPE_f32, 16
#define F16_F16(path) TS_MMA_##path, TS_DTYPE_f16, TS_DTYPE_f16, TS_DTYPE_f16, 16
#define TF32(path) TS_MMA_##path, TS_DTYPE_tf32, TS_DTYPE_tf32, TS_DTYPE_f32, 8
#define E4M3(path, acc) TS_MMA_##path, TS_DTYPE_e4m3, TS_DTYPE_e4m3, TS_DTYPE_##acc, 32
#define E5M2(path, acc) TS_MMA_##path, TS_DTYPE_e5m2, TS_DTYPE_e5m2, TS_DTYPE_##acc, 32

/* clang-format off */
static const struct vector vectors[] = {
    {"T1", F16_F32(SYNC), {{0, 0xf000, 0x6400}, {1, 0xb800, 0x3c00}, {2, 0xb400, 0x3c00}, {3, 0xb000, 0x3c00}}, 0x4b000000, 0xbf400000},
    {"T1w", F16_F32(WGMMA), {{0, 0xf000, 0x6400}, {1, 0xb800, 0x3c00}, {2, 0xb400, 0x3c00}, {3, 0xb000, 0x3c00}}, 0x4b000000, 0xbf400000},
    {"T2", F16_F32(SYNC), {{0, 0x6c00, 0x6c00}, {1, 0xec00, 0x6c00}}, 0x3fe00000, 0x3fc00000},
    {"T3", F16_F32(SYNC), {{0, 0x6c00, 0x7000}, {1, 0xec00, 0x7000}}, 0x3fe00000, 0x3f800000},
    {"T4", F16_F32(SYNC), {{0, 0x0c00, 0x0c00}, {1, 0x0c00, 0x0800}}, 0x3f800000, 0x3f800000},
    {"T4n", F16_F32(SYNC), {{0, 0x8c00, 0x0c00}, {1, 0x8c00, 0x0800}}, 0xbf800000, 0xbf800000},
    {"T5", F16_F32(SYNC), {{0, 0x6e00, 0x6e00}, {1, 0xee00, 0x6e00}, {2, 0x3a00, 0x3c00}}, 0, 0x3f000000},
    {"T6", F16_F32(SYNC), {{0, 0x6c00, 0x6800}, {1, 0x3800, 0x3c00}, {15, 0xec00, 0x6800}}, 0, 0x3f000000},
    {"T6p", F16_F32(SYNC), {{9, 0x6c00, 0x6800}, {4, 0x3800, 0x3c00}, {2, 0xec00, 0x6800}}, 0, 0x3f000000},
    {"T8", F16_F32(SYNC), {{0, 0x0001, 0x7800}, {1, 0x0400, 0x0400}}, 0, 0x3b000000},
    {"Z2", BF16_F32(SYNC), {{0, 0x9a00, 0x1980}}, 0, 0},
    {"X3", TF32(SYNC), {{0, 0x7f800001, 0x3f800000}}, 0, 0x7f800000},
    {"F1a", F16_F16(SYNC), {{0, 0x1000, 0x0400}, {1, 0x0001, 0x0004}}, 0, 0x0001},
    {"F1b", F16_F16(SYNC), {{0, 0x1000, 0x0400}, {1, 0x0001, 0x0002}}, 0, 0x0000},
    {"F1c", F16_F16(SYNC), {{0, 0x1000, 0x0400}, {1, 0x0001, 0x0001}}, 0, 0x0000},
    {"T9", F16_F32(SYNC), {{0, 0x0001, 0x3c00}}, 0, 0x33800000},
    {"T9b", F16_F32(SYNC), {{0, 0x0001, 0x0001}}, 0, 0x27800000},
    {"T10", BF16_F32(SYNC), {{0, 0x7180, 0x7180}, {1, 0xf180, 0x7180}, {2, 0x3f80, 0x3f80}}, 0x3f800000, 0},
    {"T11", BF16_F32(SYNC), {{0, 0x5980, 0x5980}}, 0x7f7fffff, 0x7f800000},
    {"T11b", BF16_F32(SYNC), {{0, 0x5980, 0x5900}}, 0x7f7fffff, 0x7f7fffff},
    {"B1", BF16_F32(SYNC), {{0, 0x3400, 0x0080}, {1, 0xb100, 0x0080}}, 0, 0},
    {"B2", BF16_F32(SYNC), {{0, 0x3400, 0x0080}, {1, 0xaf80, 0x0080}}, 0, 0},
    {"B2b", BF16_F32(SYNC), {{0, 0x3400, 0x0080}, {1, 0xaf00, 0x0080}}, 0, 1},
    {"Z1", F16_F32(SYNC), {{0, 0x8000, 0x0000}}, 0x80000000, 0},
    {"N1a", F16_F32(SYNC), {{0, 0x7c00, 0x0000}}, 0, 0x7fffffff},
    {"N1b", F16_F32(SYNC), {{0, 0x7c00, 0x3c00}, {1, 0xfc00, 0x3c00}}, 0, 0x7fffffff},
    {"N1c", F16_F32(SYNC), {{0, 0x7c00, 0x3c00}}, 0xff800000, 0x7fffffff},
    {"N1d", F16_F32(SYNC), {{0, 0x3c00, 0x3c00}}, 0xffc12345, 0x7fffffff},
    {"N1e", F16_F32(SYNC), {{0, 0xfe01, 0x3c00}}, 0, 0x7fffffff},
    {"N1f", F16_F32(SYNC), {{0, 0xfc00, 0x3c00}}, 0x3f800000, 0xff800000},
    {"F1w", F16_F16(WGMMA), {{0, 0x1000, 0x0400}, {1, 0x0001, 0x0001}}, 0, 0x0000},
    {"F2", F16_F16(SYNC), {{0, 0x4c00, 0x3c00}}, 0x7bff, 0x7c00},
    {"F2b", F16_F16(SYNC), {{0, 0x4bff, 0x3c00}}, 0x7bff, 0x7bff},
    {"X1", TF32(SYNC), {{0, 0x3f801fff, 0x3f800000}}, 0, 0x3f800000},
    {"X2", TF32(WGMMA), {{0, 0x3f803fff, 0x3f800000}}, 0, 0x3f802000},
    {"X4", TF32(SYNC), {{0, 0x45800000, 0x45000000}, {1, 0x3f000000, 0x3f800000}, {7, 0xc5800000, 0x45000000}}, 0, 0x3f000000},
    {"X5", TF32(SYNC), {{0, 0x00002000, 0x3f800000}}, 0, 0x00002000},
    {"X5b", TF32(SYNC), {{0, 0x00001fff, 0x3f800000}}, 0, 0},
    {"W1a", E4M3(WGMMA, f32), {{0, 0, 0}}, 0x3fffffff, 0x3ffffc00},
    {"W1b", E4M3(WGMMA, f32), {{0, 0, 0}}, 0x3f8003ff, 0x3f800000},
    {"W1c", E4M3(WGMMA, f32), {{0, 0, 0}}, 0xbfffffff, 0xbffffc00},
    {"W1e", E4M3(WGMMA, f32), {{0, 0, 0}}, 0x00000400, 0x00000400},
    {"W1f", E4M3(WGMMA, f32), {{0, 0, 0}}, 0x007fffff, 0x007ffc00},
    {"W2", E4M3(WGMMA, f32), {{0, 0x7e, 0x7e}, {1, 0xfe, 0x7e}, {2, 0x50, 0x38}}, 0, 0x41000000},
    {"W2b", E4M3(WGMMA, f32), {{0, 0x7e, 0x7e}, {1, 0xfe, 0x7e}, {2, 0x48, 0x38}}, 0, 0},
    {"W3", E4M3(WGMMA, f32), {{0, 0x38, 0x38}, {1, 0x08, 0x04}}, 0, 0x3f800400},
    {"W3b", E4M3(WGMMA, f32), {{0, 0x38, 0x38}, {1, 0x08, 0x02}}, 0, 0x3f800000},
    {"W4", E4M3(WGMMA, f16), {{0, 0x38, 0x38}, {1, 0x08, 0x10}}, 0, 0x3c00},
    {"W4b", E4M3(WGMMA, f16), {{0, 0x38, 0x38}, {1, 0x0c, 0x10}}, 0, 0x3c01},
    {"S1", E5M2(SYNC, f32), {{0, 0x6c, 0x6c}, {1, 0x38, 0x3c}, {2, 0xec, 0x6c}}, 0, 0},
    {"S2", E5M2(SYNC, f32), {{0, 0x3c, 0x3c}}, 0x33c00000, 0x3f800001},
};
/* clang-format on */

static void store_element(uint8_t *base, enum ts_dtype dtype, size_t index, uint32_t encoding) {
  size_t size_bytes = ts_dtype_bits(dtype) / 8;
  memcpy(base + index * size_bytes, &encoding, size_bytes);
}

static uint32_t run_vector(struct ts_mma_scratch *scratch, const struct vector *v, unsigned flags) {
  const struct ts_mma_op *op =
      ts_mma_find(TS_MMA_PROFILE_nv_sm90, v->path, v->a, v->b, v->acc, v->k);
  check(op != NULL, "%s has no row", v->id);
  uint8_t a[64 * 4] = {0}, b[64 * 4] = {0};
  for (size_t i = 0; i < 5 && (v->pairs[i].a != 0 || v->pairs[i].b != 0); ++i) {
    store_element(a, v->a, v->pairs[i].k, v->pairs[i].a);
    store_element(b, v->b, v->pairs[i].k, v->pairs[i].b);
  }
  uint32_t d = 0x12345678;
  ts_mma_tile(op, scratch, 1, 1, a, sizeof a, b, ts_dtype_bits(v->b) / 8, &v->c, &d, 1, flags);
  return d;
}

START_TEST(known_vectors) {
  for (unsigned isa = TS_ISA_PORTABLE; isa <= (unsigned)ts_num_isa(); ++isa) {
    struct ts_mma_scratch *scratch = scratch_of((enum ts_isa)isa);
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; ++i) {
      const struct vector *v = &vectors[i];
      uint32_t twin = run_vector(scratch, v, TS_MMA_REFERENCE), fast = run_vector(scratch, v, 0);
      check(twin == v->expected, "%s twin %08x, not %08x", v->id, twin, v->expected);
      check(fast == v->expected, "%s %s %08x, not %08x", v->id, ts_isa_name((enum ts_isa)isa), fast,
            v->expected);
    }
    ts_mma_scratch_free(scratch);
  }
}
END_TEST

/* mma.sync of e4m3 x e5m2: the subnormals of e4m3 count as the normal f16 they become, so that
 * alignment keeps more of their products. MEASURED, H200. */
START_TEST(split_aligns_as_f16) {
  static const struct {
    uint8_t a[32], b[32];
    uint32_t c, d;
  } cases[] = {
      {{0xbb, 0xa6, 0x2e, 0x1a, 0xcb, 0x80, 0x9a, 0x28, 0x86, 0x09, 0x95,
        0xf0, 0xc4, 0x5d, 0x18, 0xe8, 0xab, 0x45, 0x09, 0x2b, 0x23, 0x17,
        0xd4, 0xd2, 0x88, 0xad, 0x0d, 0x83, 0x9f, 0x31, 0xdf, 0x83},
       {0xde, 0x32, 0x9f, 0x15, 0x41, 0x37, 0xc4, 0xd3, 0x78, 0x47, 0x5b,
        0x00, 0xc6, 0xad, 0xc9, 0x16, 0x62, 0xa2, 0x12, 0x24, 0x42, 0xa5,
        0x80, 0x23, 0x92, 0x50, 0xb1, 0x46, 0xd0, 0xc6, 0xa2, 0xb3},
       0xbebad8c9,
       0xc31bd083},
      {{0x14, 0xa6, 0x32, 0xee, 0xe1, 0x55, 0x4b, 0x26, 0x05, 0x36, 0xc0,
        0x3f, 0x4a, 0x92, 0x00, 0x80, 0x28, 0xcf, 0x00, 0x63, 0xcb, 0xdc,
        0x3b, 0x1a, 0x46, 0xd9, 0x92, 0xdf, 0x34, 0x08, 0x98, 0x80},
       {0x0d, 0xd0, 0x0f, 0xcf, 0x87, 0x90, 0x46, 0xa1, 0xf4, 0xca, 0xe2,
        0x61, 0xd2, 0x14, 0x3d, 0x18, 0xb0, 0x31, 0x89, 0x2f, 0x39, 0x0b,
        0x96, 0xa7, 0xa7, 0x00, 0xdf, 0x4e, 0x80, 0xe3, 0x70, 0xe6},
       0x3f59fa66,
       0x45858f50},
  };
  struct ts_mma_scratch *scratch = scratch_of(TS_ISA_COUNT);
  const struct ts_mma_op *op = ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_SYNC, TS_DTYPE_e4m3,
                                           TS_DTYPE_e5m2, TS_DTYPE_f32, 32);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    uint32_t d = 0;
    ts_mma_tile(op, scratch, 1, 1, cases[i].a, 32, cases[i].b, 1, &cases[i].c, &d, 1, 0);
    ck_assert_uint_eq(d, cases[i].d);
  }
  ts_mma_scratch_free(scratch);
}
END_TEST

/* T7: the accumulator is rounded between instructions. */
START_TEST(chained_instructions_round_in_between) {
  struct ts_mma_scratch *scratch = scratch_of(TS_ISA_COUNT);
  const struct ts_mma_op *op = ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_SYNC, TS_DTYPE_f16,
                                           TS_DTYPE_f16, TS_DTYPE_f32, 16);
  uint16_t a[32] = {0}, b[32] = {0};
  a[0] = 0x6c00, b[0] = 0x6800, a[1] = 0x3800, b[1] = 0x3c00, a[31] = 0xec00, b[31] = 0x6800;
  uint32_t d = 1;
  ts_mma_prepare_a(op, scratch, 1, 2, a, sizeof a, 2, 0);
  ts_mma_prepare_b(op, scratch, 1, 2, b, sizeof b, 2, 0);
  ts_mma_multiply(op, scratch, 0, 1, 1, 2, NULL, &d, 1, 0);
  ck_assert_uint_eq(d, 0);
  ts_mma_scratch_free(scratch);
}
END_TEST

START_TEST(integer_saturation) {
  for (unsigned isa = TS_ISA_PORTABLE; isa <= (unsigned)ts_num_isa(); ++isa) {
    struct ts_mma_scratch *scratch = scratch_of((enum ts_isa)isa);
    const struct ts_mma_op *op = ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_SYNC, TS_DTYPE_s8,
                                             TS_DTYPE_s8, TS_DTYPE_s32, 32);
    uint8_t a[32], b[32], one[32] = {1};
    for (int k = 0; k < 32; ++k)
      a[k] = 0x7f, b[k] = k < 16 ? 0x7f : 0x81;
    uint32_t c = 0x7fffffff, low = 0x80000000, d = 0;
    ts_mma_tile(op, scratch, 1, 1, a, 32, b, 1, &c, &d, 1, TS_MMA_SATFINITE);
    ck_assert_uint_eq(d, 0x7fffffff);
    ts_mma_tile(op, scratch, 1, 1, one, 32, one, 1, &c, &d, 1, TS_MMA_SATFINITE);
    ck_assert_uint_eq(d, 0x7fffffff);
    ts_mma_tile(op, scratch, 1, 1, one, 32, one, 1, &c, &d, 1, 0);
    ck_assert_uint_eq(d, 0x80000000);
    one[0] = 0xff, b[0] = 1;
    ts_mma_tile(op, scratch, 1, 1, one, 32, b, 1, &low, &d, 1, TS_MMA_SATFINITE);
    ck_assert_uint_eq(d, 0x80000000);
    ts_mma_scratch_free(scratch);
  }
}
END_TEST

/* Kernels against the twin --------------------------------------------------------------------- */

struct generator {
  uint64_t state;
};

static uint32_t next(struct generator *g) {
  g->state = g->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint32_t x = (uint32_t)(g->state >> 33) ^ (uint32_t)(g->state >> 20);
  return x * 2654435761u ^ x >> 15;
}

enum mode { MODERATE, ANY_BITS, WIDE, CANCELLING, SUBNORMAL, MODE_COUNT };

/* An encoding of the dtype in the spirit of the mode. */
static uint32_t element(struct generator *g, enum ts_dtype dtype, enum mode mode) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  uint32_t random = next(g);
  unsigned width = info->bits;
  if (!ts_dtype_is_float(dtype)) return random & (width >= 32 ? ~0u : (1u << width) - 1);
  unsigned shift = dtype == TS_DTYPE_tf32 ? 13 : 0;
  uint32_t sign = next(g) & 1u, fraction = random & ((1u << info->mantissa_bits) - 1);
  uint32_t fields = 1u << info->exponent_bits, bias = (uint32_t)info->bias;
  uint32_t field = bias;
  switch (mode) {
  case ANY_BITS: return random & (width >= 32 ? ~0u : (1u << width) - 1);
  case MODERATE: field = bias - 1 + next(g) % 3; break;
  case WIDE: field = next(g) % (fields - 1); break;
  case SUBNORMAL: field = next(g) % 3; break;
  default: field = bias - 1 + next(g) % 2; break;
  }
  if (next(g) % 16 == 0) field = fraction = 0;
  if (field >= fields) field = fields - 1;
  uint32_t low = dtype == TS_DTYPE_tf32 ? next(g) & 0x1fffu : 0;
  return sign << (width - 1) | field << info->mantissa_bits << shift | fraction << shift | low;
}

static void fill(struct generator *g, enum ts_dtype dtype, enum mode mode, uint8_t *out,
                 size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t encoding = element(g, dtype, mode);
    /* Cancelling: the next element along k is the negative, nearly. */
    if (mode == CANCELLING && i % 2 == 1 && ts_dtype_is_float(dtype)) {
      uint32_t before = 0;
      memcpy(&before, out + (i - 1) * ts_dtype_bits(dtype) / 8, ts_dtype_bits(dtype) / 8);
      encoding = before ^ 1u << (ts_dtype_bits(dtype) - 1) ^ (next(g) % 4 == 0);
    }
    if (ts_dtype_bits(dtype) == 4)
      out[i / 2] = (uint8_t)(i % 2 ? (out[i / 2] & 15u) | encoding << 4 : encoding);
    else
      store_element(out, dtype, i, encoding);
  }
}

/* m x n x steps with the accumulator row-major; A row-major, B with columns contiguous in k. */
struct problem {
  const struct ts_mma_op *op;
  uint32_t m, n, steps;
  uint8_t a[M_MAX * K_MAX * 4], b[N_MAX * K_MAX * 4];
  uint32_t c[M_MAX * N_MAX];
};

static void make_problem(struct problem *p, struct generator *g, enum mode mode) {
  size_t k = (size_t)p->op->k * p->steps;
  fill(g, p->op->a, mode, p->a, p->m * k);
  fill(g, p->op->b, mode == CANCELLING ? MODERATE : mode, p->b, p->n * k);
  enum mode c_mode = mode == WIDE && next(g) % 2 ? MODERATE : mode;
  for (size_t i = 0; i < M_MAX * N_MAX; ++i)
    p->c[i] = element(g, p->op->acc, c_mode);
}

static void solve(const struct problem *p, struct ts_mma_scratch *scratch, uint32_t *d,
                  unsigned flags) {
  unsigned a_bits = ts_dtype_bits(p->op->a), b_bits = ts_dtype_bits(p->op->b);
  size_t k = (size_t)p->op->k * p->steps;
  ts_mma_prepare_a(p->op, scratch, p->m, p->steps, p->a, k * a_bits / 8, a_bits / 8, flags);
  ts_mma_prepare_b(p->op, scratch, p->n, p->steps, p->b, k * b_bits / 8, b_bits / 8, flags);
  ts_mma_multiply(p->op, scratch, 0, p->m, p->n, p->steps, p->c, d, N_MAX, flags);
}

static void compare_problem(const struct problem *p, struct ts_mma_scratch *scratch,
                            enum ts_isa isa, enum mode mode, unsigned flags) {
  static uint32_t twin[M_MAX * N_MAX], fast[M_MAX * N_MAX];
  memset(twin, 0xaa, sizeof twin);
  memset(fast, 0xaa, sizeof fast);
  solve(p, scratch, twin, flags | TS_MMA_REFERENCE);
  solve(p, scratch, fast, flags);
  for (size_t i = 0; i < M_MAX * N_MAX; ++i) {
    check(twin[i] == fast[i], "%s k%u %s x %s -> %s, %s, mode %d: %zu,%zu is %08x not %08x",
          p->op->path == TS_MMA_SYNC ? "sync" : "async", p->op->k, ts_dtype_name(p->op->a),
          ts_dtype_name(p->op->b), ts_dtype_name(p->op->acc), ts_isa_name(isa), (int)mode,
          i / N_MAX, i % N_MAX, fast[i], twin[i]);
  }
}

static void compare_op(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                       enum ts_isa isa) {
  static struct problem p;
  struct generator g = {0x1234567u + op->k};
  for (unsigned mode = 0; mode < MODE_COUNT; ++mode) {
    p.op = op;
    p.m = mode % 2 ? 32 : 21;
    p.n = mode % 2 ? 24 : 13;
    p.steps = 1 + mode % 2;
    make_problem(&p, &g, (enum mode)mode);
    unsigned flags = mode == WIDE       ? TS_MMA_NEGATE_A | TS_MMA_NEGATE_B
                     : mode == MODERATE ? TS_MMA_SATFINITE
                                        : 0;
    compare_problem(&p, scratch, isa, (enum mode)mode, flags);
  }
}

START_TEST(kernels_equal_the_twin) {
  static const enum ts_dtype inputs[] = {TS_DTYPE_f16,  TS_DTYPE_bf16, TS_DTYPE_tf32,
                                         TS_DTYPE_e4m3, TS_DTYPE_e5m2, TS_DTYPE_s8,
                                         TS_DTYPE_u8,   TS_DTYPE_s4,   TS_DTYPE_u4};
  static const enum ts_dtype accumulators[] = {TS_DTYPE_f32, TS_DTYPE_f16, TS_DTYPE_s32};
  static const unsigned lengths[] = {4, 8, 16, 32, 64};
  enum ts_isa isa = (enum ts_isa)_i;
  if (isa > ts_num_isa()) return;
  struct ts_mma_scratch *scratch = scratch_of(isa);
  unsigned ops = 0;
  for (unsigned profile = 0; profile < TS_MMA_PROFILE_COUNT; ++profile)
    for (unsigned path = 0; path < TS_MMA_PATH_COUNT; ++path)
      for (size_t a = 0; a < 9; ++a)
        for (size_t b = 0; b < 9; ++b)
          for (size_t acc = 0; acc < 3; ++acc)
            for (size_t k = 0; k < 5; ++k) {
              const struct ts_mma_op *op =
                  ts_mma_find((enum ts_mma_profile)profile, (enum ts_mma_path)path, inputs[a],
                              inputs[b], accumulators[acc], lengths[k]);
              if (op == NULL || (profile == TS_MMA_PROFILE_nv_sm100 && path == TS_MMA_SYNC))
                continue;
              compare_op(op, scratch, isa);
              ++ops;
            }
  ck_assert_uint_gt(ops, 80);
  ts_mma_scratch_free(scratch);
}
END_TEST

/* Sixteen products near 4 and c near 2 do not fit 32 bits, on either side. */
START_TEST(sums_beyond_32_bits) {
  const struct ts_mma_op *op = ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_WGMMA, TS_DTYPE_f16,
                                           TS_DTYPE_f16, TS_DTYPE_f32, 16);
  uint16_t a[16], b[16];
  for (int k = 0; k < 16; ++k)
    a[k] = b[k] = 0x3fff;
  for (unsigned isa = TS_ISA_PORTABLE; isa <= (unsigned)ts_num_isa(); ++isa) {
    struct ts_mma_scratch *scratch = scratch_of((enum ts_isa)isa);
    uint32_t c = 0x3fffffff, minus = 0xbfffffff, d = 0;
    ts_mma_tile(op, scratch, 1, 1, a, 32, b, 2, &c, &d, 1, 0);
    ck_assert_uint_eq(d, 0x4283e001); /* 16 * 3.99609470... + 2, toward zero */
    ts_mma_tile(op, scratch, 1, 1, a, 32, b, 2, &minus, &d, 1, TS_MMA_NEGATE_B);
    ck_assert_uint_eq(d, 0xc283e001);
    ts_mma_scratch_free(scratch);
  }
}
END_TEST

/* Registers as a warp holds them give the bits of the row-major form. */
START_TEST(fragment_form) {
  static struct problem p;
  static uint32_t d[M_MAX * N_MAX], registers[N_MAX / 2][32];
  void *pointers[N_MAX / 2];
  struct generator g = {99};
  struct ts_mma_scratch *scratch = scratch_of(TS_ISA_COUNT);
  for (int half = 0; half < 2; ++half) {
    p.op = ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_WGMMA, TS_DTYPE_f16, TS_DTYPE_f16,
                       half ? TS_DTYPE_f16 : TS_DTYPE_f32, 16);
    p.m = 64, p.n = 40, p.steps = 3;
    make_problem(&p, &g, MODERATE);
    solve(&p, scratch, d, 0);
    for (uint32_t warp = 0; warp < 4; ++warp) {
      for (uint32_t i = 0; i < 16 * p.n; ++i) {
        uint32_t row = i / p.n, column = i % p.n, lane = row % 8 * 4 + column % 8 / 2;
        uint32_t c = p.c[(warp * 16 + row) * N_MAX + column];
        if (half) {
          uint32_t *r = &registers[column / 8 * 2 + row / 8][lane];
          *r = column % 2 ? (*r & 0xffffu) | c << 16 : c;
        } else {
          registers[column / 8 * 4 + row / 8 * 2 + column % 2][lane] = c;
        }
      }
      for (uint32_t r = 0; r < N_MAX / 2; ++r)
        pointers[r] = registers[r];
      ts_mma_multiply_fragment(p.op, scratch, warp * 16, p.n, p.steps,
                               (const void *const *)pointers, pointers, 0);
      for (uint32_t i = 0; i < 16 * p.n; ++i) {
        uint32_t row = i / p.n, column = i % p.n, lane = row % 8 * 4 + column % 8 / 2;
        uint32_t got = half ? registers[column / 8 * 2 + row / 8][lane] >> column % 2 * 16 & 0xffffu
                            : registers[column / 8 * 4 + row / 8 * 2 + column % 2][lane];
        check(got == d[(warp * 16 + row) * N_MAX + column], "row %u column %u", row, column);
      }
    }
  }
  ts_mma_scratch_free(scratch);
}
END_TEST

/* mma.m16n8k16: A register r of lane l holds row l / 4 + 8 * (r % 2), k = l % 4 * 2 + 8 * (r / 2);
 * B register r: column l / 4, k = l % 4 * 2 + 8 * r. */
START_TEST(operands_from_registers) {
  uint32_t a[4][32], b[2][32];
  uint16_t a_dense[16][16], b_dense[8][16];
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t r = 0; r < 4; ++r) {
      uint32_t row = lane / 4 + 8 * (r % 2), k = lane % 4 * 2 + 8 * (r / 2);
      a[r][lane] = (row * 100 + k) | (row * 100 + k + 1) << 16;
    }
    for (uint32_t r = 0; r < 2; ++r) {
      uint32_t column = lane / 4, k = lane % 4 * 2 + 8 * r;
      b[r][lane] = (column * 100 + k) | (column * 100 + k + 1) << 16;
    }
  }
  const uint32_t *a_registers[4] = {a[0], a[1], a[2], a[3]}, *b_registers[2] = {b[0], b[1]};
  const struct ts_mma_op *op = ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_SYNC, TS_DTYPE_f16,
                                           TS_DTYPE_f16, TS_DTYPE_f32, 16);
  ts_mma_gather_a(op, a_dense, a_registers);
  ts_mma_gather_b(op, b_dense, b_registers);
  for (uint32_t i = 0; i < 256; ++i)
    ck_assert_uint_eq(a_dense[i / 16][i % 16], i / 16 * 100 + i % 16);
  for (uint32_t i = 0; i < 128; ++i)
    ck_assert_uint_eq(b_dense[i / 16][i % 16], i / 16 * 100 + i % 16);
}
END_TEST

/* f64: fma chain in k order, against the host's fma. */
START_TEST(f64_is_an_fma_chain) {
  struct ts_mma_scratch *scratch = scratch_of(TS_ISA_COUNT);
  const struct ts_mma_op *op =
      ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_SYNC, TS_DTYPE_f64, TS_DTYPE_f64, TS_DTYPE_f64, 4);
  double a[8][4], b[4][8], c[8][8], d[8][8];
  struct generator g = {5};
  for (int i = 0; i < 32; ++i) {
    a[i / 4][i % 4] = (double)next(&g) / 1e9 - 2;
    b[i / 8][i % 8] = (double)next(&g) / 1e9 - 2;
  }
  for (int i = 0; i < 64; ++i)
    c[i / 8][i % 8] = (double)next(&g);
  ts_mma_tile(op, scratch, 8, 8, a, sizeof a[0], b, sizeof b[0], c, d, 8, 0);
  for (int i = 0; i < 64; ++i) {
    double expected = c[i / 8][i % 8];
    for (int k = 0; k < 4; ++k)
      expected = __builtin_fma(a[i / 8][k], b[k][i % 8], expected);
    ck_assert(memcmp(&expected, &d[i / 8][i % 8], 8) == 0);
  }
  ts_mma_scratch_free(scratch);
}
END_TEST

START_TEST(exact_profile_rounds_once) {
  struct ts_mma_scratch *scratch = scratch_of(TS_ISA_COUNT);
  const struct ts_mma_op *op = ts_mma_find(TS_MMA_PROFILE_exact, TS_MMA_SYNC, TS_DTYPE_bf16,
                                           TS_DTYPE_bf16, TS_DTYPE_f32, 16);
  /* 2^100 * 2^100 - 2^100 * 2^100 + 1 * 1 + 2^-24 (a tie) + 2^-60 * 2^-60 */
  uint16_t a[16] = {0x7180, 0xf180, 0x3f80, 0x2180}, b[16] = {0x7180, 0x7180, 0x3f80, 0x2180};
  uint32_t c = 0x33800000, d = 0;
  ts_mma_tile(op, scratch, 1, 1, a, 32, b, 2, &c, &d, 1, 0);
  ck_assert_uint_eq(d, 0x3f800001);
  a[3] = 0;
  ts_mma_tile(op, scratch, 1, 1, a, 32, b, 2, &c, &d, 1, 0);
  ck_assert_uint_eq(d, 0x3f800000);
  ts_mma_scratch_free(scratch);
}
END_TEST

START_TEST(lookups) {
  ck_assert_ptr_null(ts_mma_find(TS_MMA_PROFILE_nv_sm80, TS_MMA_WGMMA, TS_DTYPE_f16, TS_DTYPE_f16,
                                 TS_DTYPE_f32, 16));
  const struct ts_mma_op *op =
      ts_mma_find(TS_MMA_PROFILE_nv_sm90, TS_MMA_SYNC, TS_DTYPE_f16, TS_DTYPE_f16, TS_DTYPE_f32, 0);
  ck_assert_ptr_nonnull(op);
  ck_assert_uint_eq(op->k, 16);
  ck_assert_int_eq(ts_mma_profile_from_name("nv_sm90"), TS_MMA_PROFILE_nv_sm90);
  ck_assert_int_eq(ts_mma_profile_from_name("nv_sm9"), TS_MMA_PROFILE_COUNT);
  ck_assert_ptr_null(ts_mma_scratch_new(&ts_allocator_libc, 1u << 30, 8, 16));
  size_t rows = 0;
  const struct ts_fidelity_row *fidelity = ts_fidelity_rows(&rows);
  ck_assert_uint_gt(rows, 100);
  ck_assert_str_eq(ts_fidelity_name(fidelity[0].level), "exact");
}
END_TEST

int main(void) {
  Suite *suite = suite_create("num_mma");
  TCase *group = tcase_create("mma");
  tcase_set_timeout(group, 120);
  tcase_add_test(group, known_vectors);
  tcase_add_test(group, split_aligns_as_f16);
  tcase_add_test(group, chained_instructions_round_in_between);
  tcase_add_test(group, integer_saturation);
  tcase_add_loop_test(group, kernels_equal_the_twin, TS_ISA_PORTABLE, TS_ISA_COUNT);
  tcase_add_test(group, sums_beyond_32_bits);
  tcase_add_test(group, fragment_form);
  tcase_add_test(group, operands_from_registers);
  tcase_add_test(group, f64_is_an_fma_chain);
  tcase_add_test(group, exact_profile_rounds_once);
  tcase_add_test(group, lookups);
  suite_add_tcase(suite, group);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
