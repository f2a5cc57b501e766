/* tcgen05.mma on operands below 16 bits, block-scaled or not, and single-bit mma.sync: one
 * accumulator at a time. Elements come one per byte. */
#include <string.h>

#include "num/num_priv.h"

static const struct ts_mma_scaled_op op_table[] = {
#define SMALL false
#define FP4 true
#define MMA_SCALED(kind, operands, acc, k, scale, block, group, fraction, rounding, zero, level)   \
  {#kind,    operands,           TS_DTYPE_##acc, TS_DTYPE_##scale,   k, block, group,              \
   fraction, TS__MMA_##rounding, zero,           TS_FIDELITY_##level},
#include "num/mma_scaled.def"
#undef MMA_SCALED
#undef SMALL
#undef FP4
};

size_t ts_mma_scaled_count(void) { return sizeof op_table / sizeof op_table[0]; }

const struct ts_mma_scaled_op *ts_mma_scaled_at(size_t index) {
  return index < ts_mma_scaled_count() ? &op_table[index] : NULL;
}

bool ts_mma_scaled_takes(const struct ts_mma_scaled_op *op, enum ts_dtype dtype) {
  if (op->fp4_only) return dtype == TS_DTYPE_e2m1;
  return dtype == TS_DTYPE_e4m3 || dtype == TS_DTYPE_e5m2 || dtype == TS_DTYPE_e2m3 ||
         dtype == TS_DTYPE_e3m2 || dtype == TS_DTYPE_e2m1;
}

const struct ts_mma_scaled_op *ts_mma_scaled_find(const char *kind, enum ts_dtype a,
                                                  enum ts_dtype b, enum ts_dtype acc,
                                                  enum ts_dtype scale, uint32_t block) {
  for (size_t i = 0; i < ts_mma_scaled_count(); ++i) {
    const struct ts_mma_scaled_op *op = &op_table[i];
    if (strcmp(op->kind, kind) == 0 && ts_mma_scaled_takes(op, a) && ts_mma_scaled_takes(op, b) &&
        op->acc == acc && op->scale == scale && (block == 0 || op->block == block))
      return op;
  }
  return NULL;
}

/* The types as tables over their encodings: significand with its sign, exponent of an unnormalised
 * significand, class. */
struct entry {
  int16_t significand, exponent;
  uint8_t class;
  bool negative;
};

static void fill(struct entry *table, enum ts_dtype dtype, bool ignores_sign) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  for (unsigned code = 0; code < 256; ++code) {
    unsigned encoding = code & ((1u << info->bits) - 1) & (ignores_sign ? 0x7fu : 0xffu);
    struct ts__value v = ts__decode(dtype, encoding);
    int significand = v.negative ? -(int)v.significand : (int)v.significand;
    table[code].significand = (int16_t)significand;
    table[code].exponent = (int16_t)(v.exponent + info->mantissa_bits);
    table[code].class = (uint8_t)v.class;
    table[code].negative = v.negative;
  }
}

/* What one call needs: tables, and the bits that products and scales lie below their exponents. */
struct job {
  const struct ts_mma_scaled_op *op;
  struct entry a[256], b[256], scale[256];
  int32_t product_scale, group_scale;
  uint32_t n;
};

/* trunc(value * 2^(exponent - scale) * 2^(F - common)) */
static int64_t aligned(int64_t value, int32_t exponent, int32_t scale, int32_t common,
                       int32_t fraction_bits) {
  int32_t shift = common - exponent + scale - fraction_bits;
  uint64_t magnitude = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  uint64_t kept = shift <= 0 ? magnitude << -shift : shift < 64 ? magnitude >> shift : 0;
  return value < 0 ? -(int64_t)kept : (int64_t)kept;
}

struct specials {
  bool nan, plus, minus;
};

static void note_product(struct specials *specials, struct entry x, struct entry y) {
  bool negative = x.negative != y.negative;
  bool infinite = x.class == TS__INFINITE || y.class == TS__INFINITE;
  if (x.class == TS__NAN || y.class == TS__NAN) specials->nan = true;
  if (infinite && (x.class == TS__ZERO || y.class == TS__ZERO)) specials->nan = true;
  if (!infinite) return;
  specials->plus |= !negative;
  specials->minus |= negative;
}

/* Terms of a fused sum: products, or groups of them. */
struct terms {
  int64_t values[65];
  int32_t exponents[65], scales[65];
  uint32_t count;
  struct specials specials;
};

static void add_term(struct terms *terms, int64_t value, int32_t exponent, int32_t scale) {
  terms->values[terms->count] = value;
  terms->exponents[terms->count] = exponent;
  terms->scales[terms->count++] = scale;
}

/* The products that one pair of scales covers. */
static void add_products(const struct job *job, struct terms *terms, const uint8_t *a,
                         const uint8_t *b, uint32_t count, struct entry scale_a,
                         struct entry scale_b) {
  int32_t scales = scale_a.exponent + scale_b.exponent;
  int64_t sum = 0;
  bool has_product = false;
  for (uint32_t k = 0; k < count; ++k) {
    struct entry x = job->a[a[k]], y = job->b[b[k * job->n]];
    note_product(&terms->specials, x, y);
    int32_t product = x.significand * y.significand;
    if (product == 0) continue;
    has_product = true;
    sum += (int64_t)product * scale_a.significand * scale_b.significand;
    if (job->op->group == 1)
      add_term(terms, product, x.exponent + y.exponent + scales, job->product_scale);
  }
  /* A group is fixed-point: its products' own exponents are in the sum, not in the alignment. */
  if (job->op->group > 1 && has_product && scale_a.significand != 0 && scale_b.significand != 0)
    add_term(terms, sum, scales, job->group_scale);
}

static uint32_t finish(const struct job *job, struct terms *terms, uint32_t c) {
  const struct ts_mma_scaled_op *op = job->op;
  struct ts__value z = ts__decode(op->acc, c);
  int32_t mantissa_bits = ts_dtype_info(op->acc)->mantissa_bits, common = op->zero_exponent;
  struct specials s = terms->specials;
  s.nan |= z.class == TS__NAN;
  s.plus |= z.class == TS__INFINITE && !z.negative;
  s.minus |= z.class == TS__INFINITE && z.negative;
  if (s.nan || (s.plus && s.minus)) return (uint32_t)ts_dtype_nan(op->acc);
  if (s.plus || s.minus) return (uint32_t)ts__encode_infinite(op->acc, s.minus, 0);
  if (z.class == TS__FINITE)
    add_term(terms, z.negative ? -(int64_t)z.significand : (int64_t)z.significand,
             z.exponent + mantissa_bits, mantissa_bits);
  int64_t sum = 0;
  for (uint32_t i = 0; i < terms->count; ++i)
    if (terms->exponents[i] > common) common = terms->exponents[i];
  for (uint32_t i = 0; i < terms->count; ++i)
    sum +=
        aligned(terms->values[i], terms->exponents[i], terms->scales[i], common, op->fraction_bits);
  struct ts_mma_op format = {.fraction_bits = op->fraction_bits, .rounding = op->rounding};
  return ts__mma_rounded(&format, sum, common);
}

/* A fp4 product is a multiple of 1/4, so that groups are sums of integers: significands are made
 * fixed-point numbers with one fraction bit each. */
static void make_fixed_point(struct entry *table) {
  for (unsigned code = 0; code < 256; ++code) {
    table[code].significand = (int16_t)(table[code].significand * (1 << table[code].exponent));
    table[code].exponent = 0;
  }
}

void ts_mma_scaled_tile(const struct ts_mma_scaled_op *op, enum ts_dtype a_dtype,
                        enum ts_dtype b_dtype, uint32_t m, uint32_t n, const uint8_t *a,
                        const uint8_t *b, const uint32_t *c_or_null, uint32_t *d,
                        const uint8_t *scale_a, const uint8_t *scale_b) {
  const struct entry one = {1, 0, TS__FINITE, false};
  bool has_scales = op->scale != TS_DTYPE_NONE;
  uint32_t blocks = op->k / op->block, piece = op->group > 1 ? op->group : op->block;
  struct job job = {.op = op, .n = n};
  fill(job.a, a_dtype, false);
  fill(job.b, b_dtype, false);
  job.product_scale = ts_dtype_info(a_dtype)->mantissa_bits + ts_dtype_info(b_dtype)->mantissa_bits;
  job.group_scale = 2; /* one fraction bit of each fp4 operand */
  if (has_scales) {
    fill(job.scale, op->scale, op->scale == TS_DTYPE_e4m3);
    job.group_scale += 2 * ts_dtype_info(op->scale)->mantissa_bits;
  }
  if (op->group > 1) {
    make_fixed_point(job.a);
    make_fixed_point(job.b);
  }
  for (uint32_t row = 0; row < m; ++row) {
    for (uint32_t column = 0; column < n; ++column) {
      struct terms terms = {.count = 0};
      for (uint32_t k = 0; k < op->k; k += piece) {
        uint32_t block = k / op->block;
        struct entry x = has_scales ? job.scale[scale_a[row * blocks + block]] : one;
        struct entry y = has_scales ? job.scale[scale_b[block * n + column]] : one;
        terms.specials.nan |= x.class == TS__NAN || y.class == TS__NAN;
        add_products(&job, &terms, a + row * op->k + k, b + k * n + column, piece, x, y);
      }
      d[row * n + column] = finish(&job, &terms, c_or_null ? c_or_null[row * n + column] : 0);
    }
  }
}

void ts_mma_bits_tile(bool is_xor, uint32_t m, uint32_t n, uint32_t k, const uint8_t *a,
                      const uint8_t *b, const uint32_t *c_or_null, uint32_t *d) {
  for (uint32_t row = 0; row < m; ++row) {
    for (uint32_t column = 0; column < n; ++column) {
      uint32_t sum = c_or_null ? c_or_null[row * n + column] : 0;
      for (uint32_t i = 0; i < k; ++i) {
        unsigned x = a[row * k + i] & 1u, y = b[i * n + column] & 1u;
        sum += is_xor ? x ^ y : x & y;
      }
      d[row * n + column] = sum;
    }
  }
}
