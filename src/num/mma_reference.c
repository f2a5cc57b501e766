/* Matrix instructions, one accumulator at a time, written as the specification reads: decode,
 * integers, round. The vector kernels must give these bits, and call ts__mma_fused for what they
 * do not serve (NaN, Inf, exponents near the ends of f32). */
#include "num/num_priv.h"

/* A product of a fused sum, or c: magnitude * 2^(exponent - scale), exponent that of the
 * unnormalised significand product. */
struct term {
  bool negative;
  uint64_t magnitude;
  int32_t exponent;
  int32_t scale;
};

struct specials {
  bool nan, plus, minus;
};

static struct term term_of(struct ts__value v, int32_t mantissa_bits) {
  return (struct term){v.negative, v.significand, v.exponent + mantissa_bits, mantissa_bits};
}

static struct term product(struct term a, struct term b) {
  return (struct term){a.negative != b.negative, a.magnitude * b.magnitude, a.exponent + b.exponent,
                       a.scale + b.scale};
}

static void note_infinite(struct specials *specials, bool negative) {
  if (negative)
    specials->minus = true;
  else
    specials->plus = true;
}

static void note_product(struct specials *specials, struct ts__value a, struct ts__value b) {
  bool infinite = a.class == TS__INFINITE || b.class == TS__INFINITE;
  bool zero = a.class == TS__ZERO || b.class == TS__ZERO;
  if (a.class == TS__NAN || b.class == TS__NAN || (infinite && zero)) specials->nan = true;
  if (infinite) note_infinite(specials, a.negative != b.negative);
}

/* trunc(term * 2^(F - E)) */
static int64_t aligned(struct term t, int32_t common, int32_t fraction_bits) {
  int32_t shift = common - t.exponent + t.scale - fraction_bits;
  uint64_t kept = shift <= 0 ? t.magnitude << -shift : shift < 64 ? t.magnitude >> shift : 0;
  return t.negative ? -(int64_t)kept : (int64_t)kept;
}

uint32_t ts__mma_rounded(const struct ts_mma_op *op, int64_t sum, int32_t common) {
  bool negative = sum < 0;
  uint64_t magnitude = negative ? 0 - (uint64_t)sum : (uint64_t)sum;
  int32_t exponent = common - op->fraction_bits;
  if (magnitude == 0) return 0;
  if (op->rounding == TS__MMA_RN_F16) {
    uint32_t half = (uint32_t)ts__encode(TS_DTYPE_f16, negative, magnitude, exponent, false, 0);
    return (half & 0x7fffu) == 0 ? 0 : half; /* MEASURED: never -0 */
  }
  if (63 - __builtin_clzll(magnitude) + exponent >= 128)
    return (uint32_t)ts__encode_infinite(TS_DTYPE_f32, negative, 0);
  uint32_t single =
      (uint32_t)ts__encode(TS_DTYPE_f32, negative, magnitude, exponent, false, TS_NUM_RZ);
  if (op->rounding == TS__MMA_RZ_E8M13) single &= 0xfffffc00u;
  return (single & 0x7fffffffu) == 0 ? 0 : single; /* MEASURED: never -0 */
}

static uint32_t special_result(enum ts_dtype acc, struct specials specials) {
  if (specials.nan || (specials.plus && specials.minus)) return (uint32_t)ts_dtype_nan(acc);
  return (uint32_t)ts__encode_infinite(acc, specials.minus, 0);
}

/* Exact sum, rounded once to nearest: a fixed-point number wide enough for every product of two
 * f32 and every f32, in 32-bit limbs, limb 0 lowest, bit 0 worth 2^WIDE_LEAST. */
enum { WIDE_LIMBS = 20, WIDE_LEAST = -320 };

static void wide_add(uint32_t *limbs, struct term t) {
  int32_t shift = t.exponent - t.scale - WIDE_LEAST;
  ts__u128 value = (ts__u128)t.magnitude << shift % 32;
  uint64_t carry = t.negative; /* two's complement: add the complement and one */
  for (int32_t i = 0; i < WIDE_LIMBS; ++i) {
    int32_t part = i - shift / 32;
    uint32_t word = part >= 0 && part < 4 ? (uint32_t)(value >> (32 * part)) : 0;
    carry += (uint64_t)limbs[i] + (t.negative ? ~word : word);
    limbs[i] = (uint32_t)carry;
    carry >>= 32;
  }
}

static uint32_t wide_round(uint32_t *limbs) {
  bool negative = limbs[WIDE_LIMBS - 1] >> 31;
  uint64_t carry = negative;
  int32_t top = -1;
  for (int32_t i = 0; i < WIDE_LIMBS; ++i) {
    carry += negative ? ~limbs[i] : limbs[i];
    limbs[i] = (uint32_t)carry;
    carry >>= 32;
    if (limbs[i] != 0) top = i;
  }
  if (top < 0) return 0;
  int32_t base = top > 2 ? top - 2 : 0;
  ts__u128 magnitude = 0;
  bool sticky = false;
  for (int32_t i = top; i >= base; --i)
    magnitude = magnitude << 32 | limbs[i];
  for (int32_t i = 0; i < base; ++i)
    sticky = sticky || limbs[i] != 0;
  return (uint32_t)ts__encode(TS_DTYPE_f32, negative, magnitude, 32 * base + WIDE_LEAST, sticky, 0);
}

static uint32_t exact_sum(const struct term *terms, uint32_t count) {
  uint32_t limbs[WIDE_LIMBS] = {0};
  for (uint32_t i = 0; i < count; ++i)
    if (terms[i].magnitude != 0) wide_add(limbs, terms[i]);
  return wide_round(limbs);
}

/* E = max over the terms that are not zero, and the floor; S = sum of the aligned terms. */
static uint32_t fused_sum(const struct ts_mma_op *op, const struct term *terms, uint32_t count) {
  int32_t common = op->zero_exponent;
  for (uint32_t i = 0; i < count; ++i)
    if (terms[i].magnitude != 0 && terms[i].exponent > common) common = terms[i].exponent;
  int64_t sum = 0;
  for (uint32_t i = 0; i < count; ++i)
    if (terms[i].magnitude != 0) sum += aligned(terms[i], common, op->fraction_bits);
  return ts__mma_rounded(op, sum, common);
}

uint32_t ts__mma_fused(const struct ts_mma_op *op, const uint32_t *a, const uint32_t *b,
                       size_t b_stride, uint32_t c) {
  struct term terms[65];
  struct specials specials = {false, false, false};
  enum ts_dtype a_dtype = ts__mma_operand_dtype(op, op->a);
  enum ts_dtype b_dtype = ts__mma_operand_dtype(op, op->b);
  int32_t a_bits = ts_dtype_info(a_dtype)->mantissa_bits;
  int32_t b_bits = ts_dtype_info(b_dtype)->mantissa_bits;
  for (uint32_t k = 0; k < op->fused_length; ++k) {
    struct ts__value x = ts__decode(a_dtype, a[k]), y = ts__decode(b_dtype, b[k * b_stride]);
    note_product(&specials, x, y);
    terms[k] = product(term_of(x, a_bits), term_of(y, b_bits));
  }
  struct ts__value z = ts__decode(op->acc, c);
  if (z.class == TS__NAN) specials.nan = true;
  if (z.class == TS__INFINITE) note_infinite(&specials, z.negative);
  terms[op->fused_length] = term_of(z, ts_dtype_info(op->acc)->mantissa_bits);
  if (specials.nan || specials.plus || specials.minus) return special_result(op->acc, specials);
  if (op->kind == TS__MMA_EXACT) return exact_sum(terms, op->fused_length + 1u);
  return fused_sum(op, terms, op->fused_length + 1u);
}

/* Sign-extended or zero-extended integer operand. */
static int64_t integer_of(enum ts_dtype dtype, uint32_t encoding) {
  uint32_t slot = (uint32_t)ts_dtype_slot(dtype, encoding);
  return ts_dtype_is_signed_int(dtype) ? (int64_t)(int32_t)slot : (int64_t)slot;
}

static uint64_t integer_element(const struct ts_mma_op *op, const uint32_t *a, const uint32_t *b,
                                size_t b_stride, uint64_t c, unsigned flags) {
  int64_t sum = (int32_t)(uint32_t)c;
  for (uint32_t k = 0; k < op->k; ++k)
    sum += integer_of(op->a, a[k]) * integer_of(op->b, b[k * b_stride]);
  if (flags & TS_MMA_SATFINITE) {
    sum = sum > INT32_MAX ? INT32_MAX : sum;
    sum = sum < INT32_MIN ? INT32_MIN : sum;
  }
  return (uint32_t)sum;
}

static uint64_t wide_word(const uint32_t *words) { return words[0] | (uint64_t)words[1] << 32; }

/* f64: words are pairs; b_stride counts elements. B's element is the first factor: which of several
 * NaNs is passed on depends on it (MEASURED). */
static uint64_t fma_element(const struct ts_mma_op *op, const uint32_t *a, const uint32_t *b,
                            size_t b_stride, uint64_t c) {
  for (uint32_t k = 0; k < op->k; ++k)
    c = ts__exact_fma(TS_DTYPE_f64, 0, wide_word(b + 2 * k * b_stride), wide_word(a + 2 * k), c);
  return c;
}

uint64_t ts__mma_element(const struct ts_mma_op *op, const struct ts_mma_scratch *scratch,
                         uint32_t step, uint32_t row, uint32_t column, uint64_t c, unsigned flags) {
  uint32_t length = op->fused_length, sums = ts__mma_sums(op);
  size_t words = op->acc == TS_DTYPE_f64 ? 2 : 1;
  uint64_t acc = op->kind == TS__MMA_SPLIT ? 0 : c;
  for (uint32_t sum = step * sums; sum < (step + 1) * sums; ++sum) {
    const uint32_t *a = scratch->a_raw + ((size_t)sum * scratch->a_rows + row) * length * words;
    const uint32_t *b =
        scratch->b_raw + ((size_t)sum * length * scratch->b_columns + column) * words;
    if (op->kind == TS__MMA_INT)
      acc = integer_element(op, a, b, scratch->b_columns, acc, flags);
    else if (op->kind == TS__MMA_FMA)
      acc = fma_element(op, a, b, scratch->b_columns, acc);
    else
      acc = ts__mma_fused(op, a, b, scratch->b_columns, (uint32_t)acc);
  }
  return op->kind == TS__MMA_SPLIT ? ts__exact_add(op->acc, 0, c, acc) : acc;
}
