/* One lane of everything: branch-free functions on slots that compilers turn into vector code.
 * Included by the elementwise kernels only, once per instruction set. Host float operations stand
 * where IEEE fixes the bits; tests/unit/test_num_elementwise.c holds them against exact.c. */
#ifndef TS_NUM_ELEMENTWISE_LANES_H
#define TS_NUM_ELEMENTWISE_LANES_H

#include <math.h>
#include <string.h>

#include "num/num_priv.h"

#define LANE static inline __attribute__((always_inline))

LANE float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

LANE uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

LANE double double_of(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

LANE uint64_t bits64_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Slot <-> host float of each float type; every NaN leaves as the canonical one. */

LANE float f32_load(uint32_t bits) { return float_of(bits); }

LANE uint32_t f32_store(float value) {
  uint32_t bits = bits_of(value);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

LANE double f64_load(uint64_t bits) { return double_of(bits); }

/* A NaN that an operation makes; one that it passes on is quieted but keeps sign and payload. */
#define F64_NAN UINT64_C(0xfff8000000000000)

LANE bool f64_is_nan(uint64_t bits) { return (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000); }

LANE uint64_t f64_quiet(uint64_t bits) { return bits | UINT64_C(1) << 51; }

LANE uint64_t f64_store(double value) {
  uint64_t bits = bits64_of(value);
  return f64_is_nan(bits) ? F64_NAN : bits;
}

/* Results of one to three operands; which NaN is passed on is MEASURED on an H200. */
LANE uint64_t f64_result2(double value, uint64_t a, uint64_t b) {
  uint64_t nan = f64_is_nan(b) ? f64_quiet(b) : F64_NAN;
  nan = f64_is_nan(a) ? f64_quiet(a) : nan;
  uint64_t bits = bits64_of(value);
  return f64_is_nan(bits) ? nan : bits;
}

LANE uint64_t f64_result1(double value, uint64_t a) { return f64_result2(value, a, 0); }

LANE uint64_t f64_result3(double value, uint64_t a, uint64_t b, uint64_t c) {
  return f64_result2(value, a, f64_is_nan(c) ? c : b);
}

/* Scaling by 2^112 moves the exponent bias and makes subnormals right at once. */
LANE float f16_load(uint32_t h) {
  uint32_t magnitude = (h & 0x7fffu) << 13;
  uint32_t bits = bits_of(float_of(magnitude) * 0x1p112f);
  bits = magnitude >= 0x7c00u << 13 ? magnitude | 0x7f800000u : bits;
  return float_of(bits | (h & 0x8000u) << 16);
}

LANE uint32_t f16_store(float value) {
  uint32_t bits = bits_of(value);
  uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  /* Normal result: move the bias, round by adding half an ulp less one plus the last kept bit. */
  uint32_t normal = (magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
  /* Subnormal result: adding 0.5 makes the float adder round at bit 2^-24. */
  uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t result = magnitude < 113u << 23 ? subnormal : normal;
  result = magnitude >= 0x47800000u ? 0x7c00u : result;
  return magnitude > 0x7f800000u ? 0x7fffu : result | sign;
}

LANE float bf16_load(uint32_t h) { return float_of(h << 16); }

LANE uint32_t bf16_store(float value) {
  uint32_t bits = bits_of(value);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded;
}

/* e4m3 and e5m2 through f16-like scaling, as in f16_load; exact. */
LANE float e4m3_load(uint32_t h) {
  uint32_t magnitude = h & 0x7fu;
  uint32_t bits = bits_of(float_of(magnitude << 20) * 0x1p120f);
  bits = magnitude == 0x7fu ? 0x7fffffffu : bits | (h & 0x80u) << 24;
  return float_of(bits);
}

LANE float e5m2_load(uint32_t h) { return f16_load(h << 8); }

LANE uint32_t flush(uint32_t bits) { return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits; }

/* f32 with subnormal operands and results flushed. */
LANE float f32_ftz_load(uint32_t bits) { return float_of(flush(bits)); }

LANE uint32_t f32_ftz_store(float value) { return flush(f32_store(value)); }

/* a * b + c with the last bit set when inexact (round to odd), which a later rounding to at most 51
 * bits turns into the correctly rounded result. a * b must be exact. */
LANE double fma_to_odd(double product, double c) {
  double sum = product + c;
  double c_part = sum - product;
  double error = (product - (sum - c_part)) + (c - c_part);
  uint64_t bits = bits64_of(sum);
  uint64_t toward = (error > 0) == (sum > 0) ? 1u : UINT64_MAX;
  bool adjust = (error > 0 || error < 0) && (bits & 1u) == 0;
  return double_of(adjust ? bits + toward : bits);
}

/* To f32, keeping inexactness in the last bit. */
LANE float narrow_to_odd(double value) {
  float nearest = (float)value;
  double back = (double)nearest;
  uint32_t bits = bits_of(nearest);
  double size = value < 0 ? -value : value, back_size = back < 0 ? -back : back;
  uint32_t toward = back_size > size ? UINT32_MAX : 1u;
  bool adjust = (back_size < size || back_size > size) && (bits & 1u) == 0;
  return float_of(adjust ? bits + toward : bits);
}

LANE float f32_fused(float a, float b, float c) {
#ifdef __FMA__
  return __builtin_fmaf(a, b, c);
#else
  return (float)fma_to_odd((double)a * (double)b, (double)c);
#endif
}

LANE double f64_fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* Single rounding to 16 bits: the product is exact (in f32 for f16, in f64 for bf16), the sum is
 * rounded to odd, then the store rounds. */
LANE float f16_fused(float a, float b, float c) {
  float product = a * b, sum = product + c, c_part = sum - product;
  float error = (product - (sum - c_part)) + (c - c_part);
  uint32_t bits = bits_of(sum);
  uint32_t toward = (error > 0) == (sum > 0) ? 1u : UINT32_MAX;
  bool adjust = (error > 0 || error < 0) && (bits & 1u) == 0;
  return float_of(adjust ? bits + toward : bits);
}

LANE float bf16_fused(float a, float b, float c) {
  return narrow_to_odd(fma_to_odd((double)a * (double)b, (double)c));
}

/* Least magnitude that is not flushed: what rounds to 2^-126 with 24 bits and any exponent.
 * MEASURED: 3f7fffff * 00800000 gives 0, 3f7ff800 * 00800400 gives 00800000. */
#define FTZ_LEAST 0x1.ffffffp-127

LANE uint32_t f32_ftz_result(float value, double wide) {
  bool tiny = __builtin_fabs(wide) < FTZ_LEAST;
  uint32_t bits = f32_store(value);
  return tiny ? bits & 0x80000000u : bits;
}

LANE uint32_t f32_ftz_product(float a, float b) {
  return f32_ftz_result(a * b, (double)a * (double)b);
}

LANE uint32_t f32_ftz_sum_of_product(float a, float b, float c) {
  return f32_ftz_result(f32_fused(a, b, c), fma_to_odd((double)a * (double)b, (double)c));
}

/* Minimum and maximum on encodings: NaN loses (or wins), -0 < +0. width is that of the format. */
LANE uint32_t pick32(uint32_t a, uint32_t b, bool take_a, uint32_t infinity, uint32_t nan,
                     bool nan_wins) {
  uint32_t mask = nan; /* all magnitude bits */
  bool nan_a = (a & mask) > infinity, nan_b = (b & mask) > infinity;
  uint32_t chosen = take_a ? a : b;
  chosen = nan_a ? b : chosen;
  chosen = nan_b ? a : chosen;
  return (nan_wins ? nan_a | nan_b : nan_a & nan_b) ? nan : chosen;
}

LANE uint32_t f32_key(uint32_t a) { return a ^ ((uint32_t)((int32_t)a >> 31) | 0x80000000u); }

LANE uint32_t f16_key(uint32_t a) {
  uint32_t wide = a << 16;
  return f32_key(wide);
}

LANE uint64_t f64_key(uint64_t a) {
  return a ^ ((uint64_t)((int64_t)a >> 63) | UINT64_C(0x8000000000000000));
}

/* Of two NaNs the first if it is signalling, else the second. MEASURED. */
LANE uint64_t pick64(uint64_t a, uint64_t b, bool take_a, bool nan_wins) {
  bool nan_a = f64_is_nan(a), nan_b = f64_is_nan(b), quiet_a = a >> 51 & 1u;
  uint64_t chosen = take_a ? a : b;
  chosen = nan_a ? b : chosen;
  chosen = nan_b ? a : chosen;
  uint64_t nan = f64_quiet(nan_a && !(nan_b && quiet_a) ? a : b);
  return (nan_wins ? nan_a | nan_b : nan_a & nan_b) ? nan : chosen;
}

/* Integers. trunc(a / b) of 32-bit values is exact in binary64: a non-integral quotient is at
 * least 2^-32 of its size away from the next integer. Division by zero gives all ones (MEASURED). */
LANE int32_t divide_s32(int32_t a, int32_t b) {
  double divisor = b == 0 ? 1.0 : (double)b;
  double quotient = (double)a / divisor;
  quotient = quotient > 2147483647.0 ? -2147483648.0 : quotient; /* INT32_MIN / -1 wraps */
  return b == 0 ? -1 : (int32_t)quotient;
}

LANE uint32_t divide_u32(uint32_t a, uint32_t b) {
  double divisor = b == 0 ? 1.0 : (double)b;
  return b == 0 ? UINT32_MAX : (uint32_t)((double)a / divisor);
}

LANE int64_t divide_s64(int64_t a, int64_t b) {
  if (b == 0) return -1;
  if (b == -1) return (int64_t)(0 - (uint64_t)a);
  return a / b;
}

LANE uint64_t divide_u64(uint64_t a, uint64_t b) { return b == 0 ? UINT64_MAX : a / b; }

LANE float round_away(float a) {
  float whole = __builtin_truncf(a);
  float rest = a - whole;
  float step = rest >= 0.5f || rest <= -0.5f ? __builtin_copysignf(1.0f, a) : 0.0f;
  return __builtin_copysignf(whole + step, a);
}

#endif
