/* Special functions, one lane each: the expansions that CUDA 13.0 emits around the special function
 * unit (elementwise_sfu.h). Only IEEE and integer operations: equal bits on every host. */
#ifndef TS_NUM_ELEMENTWISE_MATH_H
#define TS_NUM_ELEMENTWISE_MATH_H

#include "num/elementwise_sfu.h"

/* PTX approximations without .ftz ------------------------------------------------------------- */

LANE float ex2_approx(float x) {
  bool low = x < -126.0f;
  float y = core_ex2(low ? 0.5f * x : x);
  return low ? y * y : y;
}

LANE float lg2_approx(float x) {
  bool tiny = float_of(bits_of(x) & 0x7fffffffu) < 0x1p-126f;
  float y = core_lg2(tiny ? x * 0x1p24f : x);
  return tiny ? y - 24.0f : y;
}

LANE float rcp_approx(float x) {
  float size = float_of(bits_of(x) & 0x7fffffffu);
  float scale = size < 0x1p-126f ? 0x1p24f : size > 0x1p126f ? 0.25f : 1.0f;
  return scale * core_rcp(x * scale);
}

LANE float rsqrt_approx(float x) {
  bool tiny = float_of(bits_of(x) & 0x7fffffffu) < 0x1p-126f;
  float y = core_rsq(tiny ? x * 0x1p24f : x);
  return tiny ? y * 0x1p12f : y;
}

LANE float sqrt_approx(float x) {
  bool tiny = float_of(bits_of(x) & 0x7fffffffu) < 0x1p-126f;
  float y = core_sqrt(tiny ? x * 0x1p24f : x);
  return tiny ? y * 0x1p-12f : y;
}

/* div.full: scales large and tiny divisors so that the reciprocal neither flushes nor overflows. */
LANE float div_full(float a, float b) {
  float size = float_of(bits_of(b) & 0x7fffffffu);
  float scale = size > 0x1p126f ? 0.25f : size < 0x1p-126f ? 0x1p24f : 1.0f;
  return core_rcp(b * scale) * (a * scale);
}

/* CUDA's library functions -------------------------------------------------------------------- */

/* base^x with base's log2 split in three constants: n = round(x log2 base), 2^(x log2 base - n) by
 * the table unit, times 2^n. n is found by an addition that rounds down. */
LANE float exp_library(float x, uint32_t to_unit, uint32_t high, uint32_t low) {
  float unit = f32_fused(x, float_of(to_unit), 0.5f);
  unit = unit > 0.0f ? unit : 0.0f;
  unit = unit < 1.0f ? unit : 1.0f;
  int32_t k = (int32_t)((double)unit * 252.0);
  float n = (float)k - 126.0f;
  float r = f32_fused(x, float_of(high), -n);
  r = f32_fused(x, float_of(low), r);
  return core_ex2(r) * float_of((uint32_t)(k + 1) << 23);
}

LANE float f32_exp_lane(float x) { return exp_library(x, 0x3bbb989du, 0x3fb8aa3bu, 0x32a57060u); }

LANE float f32_exp10_lane(float x) { return exp_library(x, 0x3c57fa62u, 0x40549a78u, 0x33979a37u); }

/* What logf and log2f share: x = 2^k (1 + m). */
LANE float log_split(float x, uint32_t offset, float *k) {
  bool tiny = x < 0x1p-126f;
  uint32_t bits = bits_of(tiny ? x * 0x1p23f : x);
  uint32_t i = (bits - offset) & 0xff800000u;
  *k = f32_fused((float)(int32_t)i, 0x1p-23f, tiny ? -23.0f : 0.0f);
  return float_of(bits - i) - 1.0f;
}

/* Zero, negative, infinite and NaN operands of the logarithms. */
LANE float log_special(float x, float y) {
  uint32_t bits = bits_of(x);
  y = bits == 0x7f800000u ? x : y;
  y = bits > 0x7f800000u ? float_of(0x7fffffffu) : y;
  return (bits & 0x7fffffffu) == 0 ? float_of(0xff800000u) : y;
}

LANE float f32_log_lane(float x) {
  float k, m = log_split(x, 0x3f2aaaabu, &k);
  float q = float_of(0xbe055027u);
  q = f32_fused(q, m, float_of(0x3e1039f6u));
  q = f32_fused(q, m, float_of(0xbdf8cdccu));
  q = f32_fused(q, m, float_of(0x3e0f2955u));
  q = f32_fused(q, m, float_of(0xbe2ad8b9u));
  q = f32_fused(q, m, float_of(0x3e4ced0bu));
  q = f32_fused(q, m, float_of(0xbe7fff22u));
  q = f32_fused(q, m, float_of(0x3eaaaa78u));
  q = f32_fused(q, m, float_of(0xbf000000u));
  float r = f32_fused(m * q, m, m);
  return log_special(x, f32_fused(k, float_of(0x3f317218u), r));
}

LANE float f32_log2_lane(float x) {
  float k, m = log_split(x, 0x3f3504f3u, &k);
  float q = float_of(0x3dc6b27fu);
  q = f32_fused(q, m, float_of(0xbe2c7f30u));
  q = f32_fused(q, m, float_of(0x3e2fcf2au));
  q = f32_fused(q, m, float_of(0xbe374e43u));
  q = f32_fused(q, m, float_of(0x3e520bf4u));
  q = f32_fused(q, m, float_of(0xbe763c8bu));
  q = f32_fused(q, m, float_of(0x3e93bf99u));
  q = f32_fused(q, m, float_of(0xbeb8aa49u));
  q = f32_fused(q, m, float_of(0x3ef6384au));
  q = f32_fused(q, m, float_of(0xbf38aa3bu));
  float t = m * (m * q);
  return log_special(x, k + f32_fused(m, float_of(0x3fb8aa3bu), t));
}

LANE float f32_log10_lane(float x) {
  return log_special(x, f32_log_lane(x) * float_of(0x3ede5bd9u));
}

/* a + b rounded toward zero. */
LANE float add_to_zero(float a, float b) {
  float sum = a + b;
  double exact = (double)a + (double)b; /* off by less than the rounding of sum needs */
  bool grew = __builtin_fabs((double)sum) > __builtin_fabs(exact);
  return float_of(bits_of(sum) - (grew ? 1u : 0u));
}

LANE float f32_log1p_lane(float x) {
  uint32_t i = (bits_of(add_to_zero(x, 1.0f)) - 0x3f400000u) & 0xff800000u;
  float m = f32_fused(0.25f, float_of(0x40800000u - i), -1.0f) + float_of(bits_of(x) - i);
  float k = (float)(int32_t)i * 0x1p-23f;
  float q = float_of(0xbd39bf78u);
  q = f32_fused(q, m, float_of(0x3dd80012u));
  q = f32_fused(q, m, float_of(0xbe0778e0u));
  q = f32_fused(q, m, float_of(0x3e146475u));
  q = f32_fused(q, m, float_of(0xbe2a68ddu));
  q = f32_fused(q, m, float_of(0x3e4caf9eu));
  q = f32_fused(q, m, float_of(0xbe800042u));
  q = f32_fused(q, m, float_of(0x3eaaaae6u));
  q = f32_fused(q, m, float_of(0xbf000000u));
  float r = f32_fused(m * q, m, m);
  r = f32_fused(k, float_of(0x3f317218u), r);
  uint32_t bits = bits_of(x);
  r = bits > 0x7f800000u && bits < 0x80000000u ? float_of(0x7fffffffu) : r;
  r = bits > 0xbf800000u ? float_of(0x7fffffffu) : r;
  r = bits == 0xbf800000u ? float_of(0xff800000u) : r;
  r = bits == 0x7f800000u ? x : r;
  return bits == 0x80000000u ? x : r;
}

LANE float f32_expm1_lane(float x) {
  float n = __builtin_rintf(x * float_of(0x3fb8aa3bu));
  n = float_of(bits_of(x) & 0x7fffffffu) < float_of(0x3ed1eb85u) ? 0.0f : n;
  float r = f32_fused(-n, float_of(0x3f317200u), x);
  r = f32_fused(-n, float_of(0x35bfbe8eu), r);
  bool top = bits_of(n) == 0x43000000u;
  float scale = ex2_approx(top ? n - 1.0f : n);
  float q = f32_fused(float_of(0x3ab5ebe6u), r, float_of(0x3c095663u));
  q = f32_fused(q, r, float_of(0x3d2aabe3u));
  q = f32_fused(q, r, float_of(0x3e2aa9f6u));
  q = f32_fused(q, r, float_of(0x3efffffeu));
  q = f32_fused(r * q, r, r);
  float y = f32_fused(q, scale, scale - 1.0f);
  y = top ? y + y : y;
  y = (top ? n - 1.0f : n) > 128.0f ? float_of(0x7f800000u) : y;
  y = n < -25.0f ? -1.0f : y;
  return (bits_of(x) & 0x7fffffffu) == 0 ? x + x : y;
}

/* erff in two steps as well: the polynomial, then 1 - 2^y where |x| is large. */
LANE float erf_first(float x) {
  float size = float_of(bits_of(x) & 0x7fffffffu);
  bool large = size >= float_of(0x3f8060feu);
  float s = large ? size : x * x;
  float q = f32_fused(float_of(large ? 0x38eb4c3au : 0x38b1e96au), s,
                      float_of(large ? 0xbaae005bu : 0xba574d20u));
  q = f32_fused(q, s, float_of(large ? 0x3c09919fu : 0x3baad5eau));
  q = f32_fused(q, s, float_of(large ? 0xbd24d99au : 0xbcdc1be7u));
  q = f32_fused(q, s, float_of(large ? 0x3e235519u : 0x3de718afu));
  q = f32_fused(q, s, float_of(large ? 0x3f69b4f9u : 0xbec093acu));
  q = f32_fused(q, s, float_of(large ? 0x3f210a14u : 0x3e0375d3u));
  return f32_fused(q, large ? -size : x, large ? -size : x);
}

LANE float erf_second(float x, float y) {
  bool large = float_of(bits_of(x) & 0x7fffffffu) >= float_of(0x3f8060feu);
  float far = 1.0f - core_ex2(y); /* not negative */
  return large ? float_of(bits_of(far) | (bits_of(x) & 0x80000000u)) : y;
}

/* tanhf in two steps, which compilers vectorise only apart: e^(2 |x|), then the rest. */
LANE float tanh_first(float x) {
  return core_ex2(float_of(bits_of(x) & 0x7fffffffu) * float_of(0x4038aa3bu));
}

LANE float tanh_second(float x, float power) {
  float size = float_of(bits_of(x) & 0x7fffffffu);
  float s = x * x;
  float q = f32_fused(float_of(0x3c80f082u), s, float_of(0xbd563caeu));
  q = f32_fused(q, s, float_of(0x3e085941u));
  q = f32_fused(q, s, float_of(0xbeaaa9edu));
  q = f32_fused(q, s, 0.0f);
  float small = f32_fused(q, x, x);
  float large = f32_fused(core_rcp(power + 1.0f), -2.0f, 1.0f);
  large = size >= float_of(0x41102cb4u) ? 1.0f : large;
  large = float_of(bits_of(large) | (bits_of(x) & 0x80000000u)); /* it is not negative */
  large = size >= float_of(0x3f19999au) ? large : small;
  return x != x ? x : large;
}

#endif
