/* The scalar core: decode, exact integer arithmetic, round once, encode. Slow and plain; it is what
 * the fast kernels are tested against, and serves the roundings that no fast kernel has. */
#include "num/num_priv.h"

enum rounding { NEAREST_EVEN, NEAREST_AWAY, TO_ZERO, TO_MINUS, TO_PLUS, TO_ODD };

static enum rounding rounding_of(unsigned flags, enum rounding otherwise) {
  switch (flags & TS_NUM_ROUND_MASK) {
  case TS_NUM_RN: return NEAREST_EVEN;
  case TS_NUM_RNA: return NEAREST_AWAY;
  case TS_NUM_RZ: return TO_ZERO;
  case TS_NUM_RM: return TO_MINUS;
  case TS_NUM_RP: return TO_PLUS;
  case TS_NUM_RO: return TO_ODD;
  default: return otherwise;
  }
}

static int highest_bit(ts__u128 value) {
  uint64_t high = (uint64_t)(value >> 64), low = (uint64_t)value;
  return high != 0 ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll(low);
}

/* value / 2^shift, rounded to an integer. */
static ts__u128 round_shift(ts__u128 value, int shift, bool negative, enum rounding rounding) {
  if (shift <= 0) return value << -shift;
  ts__u128 kept = 0, rest = value, half = 0;
  if (shift < 128) {
    kept = value >> shift;
    rest = value - (kept << shift);
    half = (ts__u128)1 << (shift - 1);
  }
  bool above = half != 0 && rest > half;
  bool tie = half != 0 && rest == half;
  bool inexact = rest != 0;
  switch (rounding) {
  case NEAREST_EVEN: return kept + (above || (tie && (kept & 1)) ? 1 : 0);
  case NEAREST_AWAY: return kept + (above || tie ? 1 : 0);
  case TO_MINUS: return kept + (inexact && negative ? 1 : 0);
  case TO_PLUS: return kept + (inexact && !negative ? 1 : 0);
  case TO_ODD: return kept | (inexact ? 1 : 0);
  case TO_ZERO: break;
  }
  return kept;
}

/* Low bits of the container that the format does not use (tf32 in an f32). */
static unsigned container_shift(enum ts_dtype dtype) { return dtype == TS_DTYPE_tf32 ? 13 : 0; }

static uint64_t with_sign(enum ts_dtype dtype, uint64_t magnitude, bool negative) {
  return magnitude | (uint64_t)negative << (ts_dtype_bits(dtype) - 1);
}

struct ts__value ts__decode(enum ts_dtype dtype, uint64_t encoding) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  struct ts__value v = {.class = TS__FINITE};
  if (info->special == TS_SPECIAL_SCALE) {
    v.class = encoding == 0xff ? TS__NAN : TS__FINITE;
    v.exponent = (int32_t)encoding - info->bias;
    v.significand = 1;
    return v;
  }
  uint64_t magnitude = encoding & ((UINT64_C(1) << (info->bits - 1)) - 1);
  v.negative = encoding >> (info->bits - 1) & 1;
  magnitude >>= container_shift(dtype);
  uint64_t fraction = magnitude & ((UINT64_C(1) << info->mantissa_bits) - 1);
  int32_t field = (int32_t)(magnitude >> info->mantissa_bits);
  if (info->special == TS_SPECIAL_IEEE && field == (1 << info->exponent_bits) - 1) {
    v.class = fraction != 0 ? TS__NAN : TS__INFINITE;
    return v;
  }
  if (info->special == TS_SPECIAL_NAN_ALL_ONES && magnitude == ts_dtype_nan(dtype)) {
    v.class = TS__NAN;
    return v;
  }
  v.significand = field == 0 ? fraction : fraction | UINT64_C(1) << info->mantissa_bits;
  v.exponent = (field == 0 ? 1 : field) - info->bias - info->mantissa_bits;
  if (v.significand == 0) v.class = TS__ZERO;
  return v;
}

static uint64_t encode_overflow(enum ts_dtype dtype, bool negative, unsigned flags) {
  enum rounding rounding = rounding_of(flags, NEAREST_EVEN);
  bool to_largest = (flags & TS_NUM_SATFINITE) || rounding == TO_ZERO || rounding == TO_ODD ||
                    (rounding == TO_MINUS && !negative) || (rounding == TO_PLUS && negative);
  if (to_largest) return with_sign(dtype, ts_dtype_max_finite(dtype), negative);
  return ts__encode_infinite(dtype, negative, flags);
}

uint64_t ts__encode_infinite(enum ts_dtype dtype, bool negative, unsigned flags) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  if (info->special == TS_SPECIAL_SCALE) return flags & TS_NUM_SATFINITE ? 0xfe : 0xff;
  if ((flags & TS_NUM_SATFINITE) || info->special == TS_SPECIAL_NONE)
    return with_sign(dtype, ts_dtype_max_finite(dtype), negative);
  if (info->special == TS_SPECIAL_NAN_ALL_ONES) return ts_dtype_nan(dtype);
  uint64_t field = (UINT64_C(1) << info->exponent_bits) - 1;
  return with_sign(dtype, field << info->mantissa_bits << container_shift(dtype), negative);
}

/* A scale is a power of two without sign or zero: only its exponent is rounded. */
static uint64_t encode_scale(ts__u128 significand, int32_t exponent, bool sticky, unsigned flags) {
  if (significand == 0) return 0;
  int top = highest_bit(significand);
  int32_t code = exponent + top + 127;
  bool exact = significand == (ts__u128)1 << top && !sticky;
  bool up = rounding_of(flags, TO_ZERO) == TO_PLUS && !exact;
  code = code < 0 ? 0 : code + (up ? 1 : 0);
  if (code > 0xfe) return flags & TS_NUM_SATFINITE ? 0xfe : 0xff;
  return (uint64_t)code;
}

uint64_t ts__encode(enum ts_dtype dtype, bool negative, ts__u128 significand, int32_t exponent,
                    bool sticky, unsigned flags) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  if (info->special == TS_SPECIAL_SCALE) return encode_scale(significand, exponent, sticky, flags);
  if (sticky) {
    significand = significand << 2 | 1;
    exponent -= 2;
  }
  if (significand == 0) return with_sign(dtype, 0, negative);
  int32_t least = 1 - info->bias;
  int32_t leading = exponent + highest_bit(significand);
  int32_t quantum = (leading > least ? leading : least) - info->mantissa_bits;
  uint64_t kept = (uint64_t)round_shift(significand, quantum - exponent, negative,
                                        rounding_of(flags, NEAREST_EVEN));
  /* The hidden bit in kept adds one to the exponent field; a carry out of the fraction too. */
  uint64_t code = kept + ((uint64_t)(quantum - least + info->mantissa_bits) << info->mantissa_bits);
  code <<= container_shift(dtype);
  if (code > ts_dtype_max_finite(dtype)) return encode_overflow(dtype, negative, flags);
  return with_sign(dtype, code, negative);
}

/* Exact sum of two signed magnitudes, rounded once. Operands have at most 106 bits. */
static uint64_t sum_rounded(enum ts_dtype dtype, unsigned flags, bool negative_x, ts__u128 x,
                            int32_t exponent_x, bool negative_y, ts__u128 y, int32_t exponent_y) {
  if (x == 0 && y == 0) {
    bool minus = rounding_of(flags, NEAREST_EVEN) == TO_MINUS;
    return with_sign(dtype, 0, minus ? negative_x || negative_y : negative_x && negative_y);
  }
  if (x == 0) return ts__encode(dtype, negative_y, y, exponent_y, false, flags);
  if (y == 0) return ts__encode(dtype, negative_x, x, exponent_x, false, flags);
  int up_x = 124 - highest_bit(x), up_y = 124 - highest_bit(y);
  x <<= up_x;
  y <<= up_y;
  exponent_x -= up_x;
  exponent_y -= up_y;
  if (exponent_x < exponent_y || (exponent_x == exponent_y && x < y)) {
    ts__u128 swap = x;
    int32_t swap_exponent = exponent_x;
    bool swap_negative = negative_x;
    x = y, exponent_x = exponent_y, negative_x = negative_y;
    y = swap, exponent_y = swap_exponent, negative_y = swap_negative;
  }
  /* Jamming the lost bits of the smaller operand into its lowest bit keeps every rounding right,
   * because at least 18 bits below the rounding position remain. */
  int shift = exponent_x - exponent_y;
  ts__u128 low = shift > 126 ? 1 : y >> shift;
  if (shift > 0 && shift <= 126 && low << shift != y) low |= 1;
  ts__u128 sum = negative_x == negative_y ? x + low : x - low;
  if (sum == 0) return with_sign(dtype, 0, rounding_of(flags, NEAREST_EVEN) == TO_MINUS);
  return ts__encode(dtype, negative_x, sum, exponent_x, false, flags);
}

static struct ts__value operand(enum ts_dtype dtype, unsigned flags, uint64_t encoding) {
  struct ts__value v = ts__decode(dtype, encoding);
  if ((flags & TS_NUM_FTZ) && dtype == TS_DTYPE_f32 && (encoding & 0x7f800000u) == 0) {
    v.class = TS__ZERO;
    v.significand = 0;
  }
  return v;
}

static uint64_t result(enum ts_dtype dtype, unsigned flags, uint64_t encoding) {
  if ((flags & TS_NUM_FTZ) && dtype == TS_DTYPE_f32) return ts__flush_f32((uint32_t)encoding);
  return encoding;
}

/* f64 results: the first operand that is a NaN is passed on, quieted (of a - b the second). */
static uint64_t pass_nan(enum ts_dtype dtype, uint64_t first, uint64_t second, uint64_t third,
                         uint64_t value) {
  const uint64_t operands[] = {first, second, third};
  if (dtype != TS_DTYPE_f64 || ts__decode(dtype, value).class != TS__NAN) return value;
  for (size_t i = 0; i < 3; ++i)
    if (ts__decode(dtype, operands[i]).class == TS__NAN) return operands[i] | UINT64_C(1) << 51;
  return value;
}

/* f32 with flushing: whether the result, rounded with any exponent, is below the normal numbers.
 * It is rounded again, 2^64 times as large. */
static bool is_tiny(enum ts_dtype dtype, unsigned flags, struct ts__value product,
                    ts__u128 magnitude, struct ts__value c) {
  if (dtype != TS_DTYPE_f32 || !(flags & TS_NUM_FTZ)) return false;
  uint64_t scaled = sum_rounded(dtype, flags, product.negative, magnitude, product.exponent + 64,
                                c.negative, c.significand, c.exponent + 64);
  return (scaled & 0x7fffffffu) < 65u << 23;
}

static uint64_t fma_values(enum ts_dtype dtype, unsigned flags, struct ts__value a,
                           struct ts__value b, struct ts__value c) {
  bool negative = a.negative != b.negative;
  bool infinite = a.class == TS__INFINITE || b.class == TS__INFINITE;
  if (a.class == TS__NAN || b.class == TS__NAN || c.class == TS__NAN) return ts_dtype_nan(dtype);
  if (infinite && (a.class == TS__ZERO || b.class == TS__ZERO)) return ts_dtype_nan(dtype);
  if (infinite && c.class == TS__INFINITE && c.negative != negative) return ts_dtype_nan(dtype);
  if (infinite) return ts__encode_infinite(dtype, negative, 0);
  if (c.class == TS__INFINITE) return ts__encode_infinite(dtype, c.negative, 0);
  ts__u128 magnitude = (ts__u128)a.significand * b.significand;
  struct ts__value product = {.negative = negative, .exponent = a.exponent + b.exponent};
  uint64_t sum = sum_rounded(dtype, flags, negative, magnitude, product.exponent, c.negative,
                             c.significand, c.exponent);
  if (is_tiny(dtype, flags, product, magnitude, c)) return with_sign(dtype, 0, sum >> 31);
  return sum;
}

uint64_t ts__exact_fma(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b, uint64_t c) {
  uint64_t value = fma_values(dtype, flags, operand(dtype, flags, a), operand(dtype, flags, b),
                              operand(dtype, flags, c));
  return pass_nan(dtype, a, c, b, value);
}

uint64_t ts__exact_add(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b) {
  struct ts__value one = {.class = TS__FINITE, .significand = 1};
  uint64_t value =
      fma_values(dtype, flags, operand(dtype, flags, a), one, operand(dtype, flags, b));
  return pass_nan(dtype, a, b, 0, value);
}

uint64_t ts__exact_sub(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b) {
  struct ts__value one = {.class = TS__FINITE, .significand = 1}, y = operand(dtype, flags, b);
  y.negative = !y.negative;
  return pass_nan(dtype, b, a, 0, fma_values(dtype, flags, operand(dtype, flags, a), one, y));
}

uint64_t ts__exact_mul(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b) {
  struct ts__value x = operand(dtype, flags, a), y = operand(dtype, flags, b);
  struct ts__value zero = {.class = TS__ZERO, .negative = x.negative != y.negative};
  return pass_nan(dtype, a, b, 0, fma_values(dtype, flags, x, y, zero));
}

uint64_t ts__exact_div(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b) {
  struct ts__value x = operand(dtype, flags, a), y = operand(dtype, flags, b);
  bool negative = x.negative != y.negative;
  if (x.class == TS__NAN || y.class == TS__NAN)
    return pass_nan(dtype, a, b, 0, ts_dtype_nan(dtype));
  if (x.class == y.class && x.class != TS__FINITE) return ts_dtype_nan(dtype);
  if (x.class == TS__INFINITE || y.class == TS__ZERO)
    return ts__encode_infinite(dtype, negative, 0);
  if (x.class == TS__ZERO || y.class == TS__INFINITE) return with_sign(dtype, 0, negative);
  int up = 126 - highest_bit(x.significand);
  ts__u128 numerator = (ts__u128)x.significand << up;
  ts__u128 quotient = numerator / y.significand;
  bool sticky = quotient * y.significand != numerator || (quotient & 1);
  int32_t exponent = x.exponent - up - y.exponent + 1;
  /* MEASURED: what is flushed is the quotient rounded with any exponent, so 2^64 times as large. */
  uint64_t scaled = ts__encode(dtype, negative, quotient >> 1, exponent + 64, sticky, flags);
  if ((flags & TS_NUM_FTZ) && dtype == TS_DTYPE_f32 && (scaled & 0x7fffffffu) < 65u << 23)
    return with_sign(dtype, 0, negative);
  return ts__encode(dtype, negative, quotient >> 1, exponent, sticky, flags);
}

/* The largest r with r * r <= value. */
static uint64_t square_root(ts__u128 value) {
  uint64_t root = 0;
  for (int bit = 62; bit >= 0; --bit) {
    uint64_t next = root | UINT64_C(1) << bit;
    if ((ts__u128)next * next <= value) root = next;
  }
  return root;
}

uint64_t ts__exact_sqrt(enum ts_dtype dtype, unsigned flags, uint64_t a) {
  struct ts__value x = operand(dtype, flags, a);
  if (x.class == TS__ZERO) return with_sign(dtype, 0, x.negative);
  if (x.class == TS__NAN || x.negative) return pass_nan(dtype, a, 0, 0, ts_dtype_nan(dtype));
  if (x.class == TS__INFINITE) return ts__encode_infinite(dtype, false, 0);
  int up = 124 - highest_bit(x.significand);
  if ((x.exponent - up) % 2 != 0) --up;
  ts__u128 value = (ts__u128)x.significand << up;
  uint64_t root = square_root(value);
  bool sticky = (ts__u128)root * root != value;
  return result(dtype, flags, ts__encode(dtype, false, root, (x.exponent - up) / 2, sticky, flags));
}

/* Conversions ---------------------------------------------------------------------------------- */

/* The integer of a magnitude, clamped to the range of width bits. */
static uint64_t clamp_int(bool negative, ts__u128 magnitude, unsigned bits, bool is_signed) {
  uint64_t mask = bits >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
  uint64_t most = is_signed ? mask >> 1 : mask;
  uint64_t least = is_signed ? most + 1 : 0; /* magnitude of the smallest */
  if (!negative) return magnitude > most ? most : (uint64_t)magnitude;
  return (0 - (magnitude > least ? least : (uint64_t)magnitude)) & mask;
}

static ts__u128 round_to_int(struct ts__value v, enum rounding rounding) {
  if (v.exponent > 64) return (ts__u128)1 << 100;
  return round_shift(v.significand, -v.exponent, v.negative, rounding);
}

static uint64_t float_to_int(const struct ts_dtype_info *dst, enum ts_dtype src, struct ts__value v,
                             unsigned flags) {
  bool is_signed = dst->kind == TS_KIND_SINT;
  bool clamp_narrow = flags & TS_NUM_SAT;
  unsigned bits = dst->bits < 32 && !clamp_narrow ? 32 : dst->bits;
  if (v.class == TS__NAN) {
    /* MEASURED: 0, but only the top bit set when source or destination has 64 bits. */
    return src == TS_DTYPE_f64 || dst->bits == 64 ? UINT64_C(1) << (bits - 1) : 0;
  }
  ts__u128 magnitude =
      v.class == TS__INFINITE ? (ts__u128)1 << 100 : round_to_int(v, rounding_of(flags, TO_ZERO));
  return clamp_int(v.negative, magnitude, bits, is_signed);
}

static struct ts__value decode_int(const struct ts_dtype_info *info, uint64_t encoding) {
  struct ts__value v = {.class = encoding != 0 ? TS__FINITE : TS__ZERO, .significand = encoding};
  if (info->kind == TS_KIND_SINT && (encoding >> (info->bits - 1) & 1)) {
    uint64_t mask = info->bits >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << info->bits) - 1;
    v.negative = true;
    v.significand = (0 - encoding) & mask;
  }
  return v;
}

/* cvt.rna.tf32.f32 is an integer addition: NaNs with a small payload turn into Inf. .satfinite takes
 * one unit off everything from Inf on. MEASURED. */
static uint64_t tf32_away(uint64_t encoding, unsigned flags) {
  uint32_t bits = (uint32_t)encoding;
  if ((bits & 0x7fffffffu) < 0x7f800000u) bits += 0x1000u;
  bits &= 0xffffe000u;
  bool is_beyond = (bits & 0x7fffffffu) >= 0x7f800000u;
  return is_beyond && (flags & TS_NUM_SATFINITE) ? bits - 0x2000u : bits;
}

static uint64_t nan_to(enum ts_dtype dst, enum ts_dtype src, uint64_t encoding) {
  const struct ts_dtype_info *from = ts_dtype_info(src), *to = ts_dtype_info(dst);
  if (src == TS_DTYPE_bf16 && dst == TS_DTYPE_f32) return encoding << 16;
  bool both_ieee = from->special == TS_SPECIAL_IEEE && to->special == TS_SPECIAL_IEEE;
  if ((src == TS_DTYPE_f64 || dst == TS_DTYPE_f64) && both_ieee && from->bits > 8 && to->bits > 8 &&
      src != TS_DTYPE_tf32 && dst != TS_DTYPE_tf32) {
    uint64_t payload = encoding & ((UINT64_C(1) << from->mantissa_bits) - 1);
    int up = to->mantissa_bits - from->mantissa_bits;
    payload = up > 0 ? payload << up : payload >> -up;
    payload |= UINT64_C(1) << (to->mantissa_bits - 1);
    return ts__encode_infinite(dst, encoding >> (from->bits - 1) & 1, 0) | payload;
  }
  if (ts_dtype_info(dst)->special == TS_SPECIAL_NONE) return ts_dtype_max_finite(dst);
  return ts_dtype_nan(dst);
}

static uint64_t float_to_float(enum ts_dtype dst, enum ts_dtype src, unsigned flags,
                               uint64_t encoding) {
  if (dst == src) return encoding;
  if (dst == TS_DTYPE_tf32 && src == TS_DTYPE_f32 && (flags & TS_NUM_ROUND_MASK) == TS_NUM_RNA)
    return tf32_away(encoding, flags);
  if (dst == TS_DTYPE_f32 && src == TS_DTYPE_tf32) return encoding & 0xffffe000u;
  struct ts__value v = operand(src, flags, encoding);
  if (v.class == TS__NAN) return nan_to(dst, src, encoding);
  if (v.class == TS__INFINITE) return ts__encode_infinite(dst, v.negative, flags);
  return result(dst, flags, ts__encode(dst, v.negative, v.significand, v.exponent, false, flags));
}

uint64_t ts__exact_convert(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags,
                           uint64_t encoding) {
  const struct ts_dtype_info *dst = ts_dtype_info(dst_dtype), *src = ts_dtype_info(src_dtype);
  if (dst->kind == TS_KIND_FLOAT && src->kind == TS_KIND_FLOAT)
    return float_to_float(dst_dtype, src_dtype, flags, encoding);
  struct ts__value v =
      src->kind == TS_KIND_FLOAT ? operand(src_dtype, flags, encoding) : decode_int(src, encoding);
  if (dst->kind == TS_KIND_PRED) return v.class != TS__ZERO;
  if (dst->kind == TS_KIND_FLOAT)
    return ts__encode(dst_dtype, v.negative, v.significand, v.exponent, false, flags);
  if (src->kind == TS_KIND_FLOAT)
    return ts_dtype_encoding(dst_dtype, float_to_int(dst, src_dtype, v, flags));
  if (flags & TS_NUM_SAT)
    return clamp_int(v.negative, v.significand, dst->bits, dst->kind == TS_KIND_SINT);
  return ts_dtype_encoding(dst_dtype, v.negative ? 0 - v.significand : v.significand);
}
