/* asinf, acosf, atanf, sinhf, coshf and powf as CUDA 13.0 expands them around the special function
 * unit. MEASURED: equal to an H200 for all 2^32 arguments of the functions of one, and for 5 x 2^20
 * pairs of five kinds for powf (tests/num/test_hardware_all.c). */
#ifndef TS_NUM_ELEMENTWISE_LIBRARY_H
#define TS_NUM_ELEMENTWISE_LIBRARY_H

#include "num/elementwise_sfu.h"

LANE float size_of(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

/* sqrt((1 - |x|) / 2), with one step of Newton's method. */
LANE float half_chord(float size) {
  float s = f32_fused(0.5f, -size, 0.5f), r = core_rsq(s), root = s * r;
  float y = f32_fused(root, f32_fused(-root, r * 0.5f, 0.5f), root);
  return bits_of(size) == 0x3f800000u ? 0.0f : y;
}

/* pi / 2 + y, pi / 2 as a product of two constants. */
LANE float add_quarter_turn(float y) {
  return f32_fused(float_of(0x3f6ee581u), float_of(0x3fd774ebu), y);
}

#define ARC_UPPER 0x3f0f5c29u /* 0.56: larger arguments go through the half chord */

LANE float f32_asin_lane(float x) {
  float size = size_of(x);
  bool upper = size > float_of(ARC_UPPER);
  float t = upper ? half_chord(size) : size, s = t * t;
  float q = f32_fused(float_of(0x3d4dd2f7u), s, float_of(0x3c99ca97u));
  q = f32_fused(q, s, float_of(0x3d3f90e8u));
  q = f32_fused(q, s, float_of(0x3d993ccfu));
  q = f32_fused(q, s, float_of(0x3e2aac04u));
  float y = f32_fused(s * q, t, t);
  y = upper ? add_quarter_turn(y * -2.0f) : y;
  return __builtin_copysignf(y, x); /* NaN becomes the canonical one when stored */
}

LANE float f32_acos_lane(float x) {
  float size = size_of(x);
  bool upper = size > float_of(ARC_UPPER);
  float t = __builtin_copysignf(upper ? half_chord(size) : size, x), s = t * t;
  float q = f32_fused(float_of(0x3d10ecefu), s, float_of(0x3c8b1abbu));
  q = f32_fused(q, s, float_of(0x3cfc028cu));
  q = f32_fused(q, s, float_of(0x3d372139u));
  q = f32_fused(q, s, float_of(0x3d9993dbu));
  q = f32_fused(q, s, float_of(0x3e2aaac6u));
  float y = f32_fused(s * q, t, t);
  float other = add_quarter_turn(upper ? y : -y);
  y = x > float_of(ARC_UPPER) ? y : other;
  return upper ? y + y : y;
}

LANE float f32_atan_lane(float x) {
  float size = size_of(x);
  bool upper = size > 1.0f;
  float t = upper ? core_rcp(size) : size, s = t * t;
  float q = f32_fused(float_of(0x3b2090aau), s, float_of(0xbc6be14fu));
  q = f32_fused(q, s, float_of(0x3d23397eu));
  q = f32_fused(q, s, float_of(0xbd948a7au));
  q = f32_fused(q, s, float_of(0x3dd76b21u));
  q = f32_fused(q, s, float_of(0xbe111e88u));
  q = f32_fused(q, s, float_of(0x3e4caf60u));
  q = f32_fused(q, s, float_of(0xbeaaaa27u));
  float y = f32_fused(s * q, t, t);
  y = upper ? add_quarter_turn(-y) : y;
  return __builtin_copysignf(y, x);
}

/* e^size / 4 for size >= 0: n = trunc(size log2 e), at most 126; 2^(n - 2) is built from n's bits. */
LANE float quarter_exp(float size) {
  float n = __builtin_truncf(size * float_of(0x3fb8aa3bu));
  n = n > 126.0f ? 126.0f : n;
  float r = f32_fused(n, float_of(0xbf317218u), size);
  r = f32_fused(n, float_of(0x3102e308u), r);
  uint32_t power = bits_of(n + float_of(0x4b40007du)) << 23;
  return core_ex2(r * float_of(0x3fb8aa3bu)) * float_of(power);
}

/* 2 e + eighth / e, the division by the unit's reciprocal with flushing. */
LANE float add_reciprocal(float e, float eighth) {
  float quotient = float_of(flush(bits_of(eighth * core_rcp(e))));
  return f32_fused(2.0f, e, quotient);
}

LANE float f32_sinh_lane(float x) {
  float size = size_of(x), s = x * x;
  float large = __builtin_copysignf(add_reciprocal(quarter_exp(size), -0.125f), x);
  float q = f32_fused(float_of(0x363d0adau), s, float_of(0x394fff49u));
  q = f32_fused(q, s, float_of(0x3c08889au));
  q = f32_fused(q, s, float_of(0x3e2aaaabu));
  float small = f32_fused(s * q, x, x);
  return size >= 1.0f ? large : small;
}

LANE float f32_cosh_lane(float x) { return add_reciprocal(quarter_exp(size_of(x)), 0.125f); }

/* log2 of a positive size as the unevaluated sum *high + *low. */
LANE void pow_log2(float size, float *high, float *low) {
  bool tiny = size < 0x1p-126f;
  uint32_t bits = bits_of(tiny ? size * 0x1p24f : size);
  uint32_t i = (bits - 0x3f3504f3u) & 0xff800000u;
  float k = f32_fused((float)(int32_t)i, 0x1p-23f, tiny ? -24.0f : 0.0f);
  float m = float_of(bits - i), f = m - 1.0f;
  float r = core_rcp(m + 1.0f);
  float u = (f + f) * r, v = u * u;
  float rest = f - u;
  rest = r * f32_fused(-u, f, rest + rest);
  float q = f32_fused(float_of(0x3a2c32e4u), v, float_of(0x3b52e7dbu));
  q = f32_fused(q, v, float_of(0x3c93bb73u));
  q = f32_fused(q, v, float_of(0x3df6384fu));
  q = q * v;
  const float log2_e = float_of(0x3fb8aa3bu);
  float sum = f32_fused(u, log2_e, k);
  float error = f32_fused(u, log2_e, k - sum);
  error = f32_fused(rest, log2_e, error);
  error = f32_fused(u, float_of(0x32a55e34u), error);
  error = f32_fused(q * 3.0f, rest, error);
  error = f32_fused(q, u, error);
  *high = sum + error;
  *low = error - (*high - sum);
}

/* 2^(high + low), in two factors so that subnormal results are rounded once. */
LANE float pow_exp2(float high, float low) {
  float n = __builtin_rintf(high), r = low + (high - n);
  float q = f32_fused(float_of(0x391fcb8eu), r, float_of(0x3aaf85edu));
  q = f32_fused(q, r, float_of(0x3c1d9856u));
  q = f32_fused(q, r, float_of(0x3d6357bbu));
  q = f32_fused(q, r, float_of(0x3e75fdecu));
  q = f32_fused(q, r, float_of(0x3f317218u));
  q = f32_fused(q, r, 1.0f);
  bool far = !(size_of(high) <= 152.0f);
  int32_t power = (int32_t)(far ? 0.0f : n);
  uint32_t shift = n > 0.0f ? 0u : 0x83000000u;
  float y = q * float_of(shift + 0x7f000000u) * float_of(((uint32_t)power << 23) - shift);
  return far ? (high < 0.0f ? 0.0f : float_of(0x7f800000u)) : y;
}

LANE float f32_pow_lane(float x, float y) {
  float size = size_of(x), y_size = size_of(y), high, low;
  float half = __builtin_truncf(y * 0.5f);
  bool odd = size_of(y - (half + half)) == 1.0f;
  pow_log2(size, &high, &low);
  float product = high * y;
  float z = pow_exp2(product, f32_fused(low, y, f32_fused(high, y, -product)));
  float negative = __builtin_floorf(y) == y ? (odd ? -z : z) : float_of(0x7fffffffu);
  z = x < 0.0f ? negative : z;
  z = x == -1.0f && y_size == float_of(0x7f800000u) ? 1.0f : z;
  uint32_t end = bits_of(x + x) ^ (y < 0.0f ? 0x7f800000u : 0u);
  float at_end = float_of(odd ? end : end & 0x7fffffffu);
  z = size == 0.0f || size == float_of(0x7f800000u) ? at_end : z;
  z = x != x || y != y ? float_of(0x7fffffffu) : z;
  return x == 1.0f || y == 0.0f ? 1.0f : z;
}

#endif
