/* sinf, cosf, tanf as CUDA 13.0 expands them: an argument below 105615 loses its multiple of pi / 2
 * to three fused steps, a larger one is multiplied by the bits of 2 / pi that matter for its size.
 * MEASURED: equal to an H200 for every one of the 2^32 arguments (tests/num/test_sfu_all.c).
 * Straight-line code, so that compilers vectorise both ways. */
#ifndef TS_NUM_ELEMENTWISE_TRIG_H
#define TS_NUM_ELEMENTWISE_TRIG_H

#include "num/elementwise_sfu.h"

/* The argument's distance from a multiple of pi / 2, and that multiple modulo 2^32. */
struct trig_argument {
  float rest;
  uint32_t quadrant;
};

/* Encodings from here on (Inf and NaN too) are far. */
#define TRIG_FAR 0x47ce4780u

LANE bool trig_is_far(uint32_t bits) { return (bits & 0x7fffffffu) >= TRIG_FAR; }

LANE struct trig_argument trig_near(float x) {
  float bounded = trig_is_far(bits_of(x)) ? 0.0f : x;
  float n = __builtin_rintf(bounded * float_of(0x3f22f983u)) + 0.0f; /* of an integer: never -0 */
  float rest = f32_fused(n, float_of(0xbfc90fdau), x);
  rest = f32_fused(n, float_of(0xb3a22168u), rest);
  return (struct trig_argument){f32_fused(n, float_of(0xa7c234c5u), rest), (uint32_t)(int32_t)n};
}

/* One word of mantissa * 2 / pi; the carry is the next. */
LANE uint32_t trig_word(uint32_t mantissa, uint32_t digits, uint64_t *carry) {
  *carry += (uint64_t)mantissa * digits;
  uint32_t low = (uint32_t)*carry;
  *carry >>= 32;
  return low;
}

LANE uint32_t trig_pick(uint32_t i, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
  return i < 2 ? (i == 0 ? w0 : w1) : (i == 2 ? w2 : w3);
}

/* high:low, as a signed number of 64 bits, rounded to binary64. */
LANE double trig_wide(uint32_t high, uint32_t low) {
  double low_part = (double)(int32_t)(low ^ 0x80000000u) + 0x1p31;
  return (double)(int32_t)high * 0x1p32 + low_part;
}

/* For finite far arguments. The product's words are counted from the lowest; those above the binary
 * point are multiples of 2 pi and fall off. */
LANE struct trig_argument trig_far(float x) {
  uint32_t bits = bits_of(x), exponent = (bits >> 23 & 255u) - 128u;
  uint32_t mantissa = bits << 8 | 0x80000000u, skip = exponent >> 5 & 3u, shift = exponent & 31u;
  uint64_t carry = 0;
  trig_word(mantissa, 0x3c439041u, &carry); /* only its carry matters */
  uint32_t w1 = trig_word(mantissa, 0xdb629599u, &carry);
  uint32_t w2 = trig_word(mantissa, 0xf534ddc0u, &carry);
  uint32_t w3 = trig_word(mantissa, 0xfc2757d1u, &carry);
  uint32_t w4 = trig_word(mantissa, 0x4e441529u, &carry);
  uint32_t w5 = trig_word(mantissa, 0xa2f9836eu, &carry);
  uint32_t w6 = (uint32_t)carry;
  uint32_t high = trig_pick(skip, w6, w5, w4, w3);
  uint32_t middle = trig_pick(skip, w5, w4, w3, w2);
  uint32_t low = trig_pick(skip, w4, w3, w2, w1);
  uint32_t back = (32u - shift) & 31u;
  high = shift == 0 ? high : high << shift | middle >> back;
  middle = shift == 0 ? middle : middle << shift | low >> back;
  uint32_t fraction_high = high << 2 | middle >> 30, fraction_low = middle << 2;
  uint32_t is_upper = fraction_high >> 31,
           flip = 0u - is_upper; /* above a half: from the other side */
  uint32_t quadrant = (high >> 30) + is_upper;
  double wide = trig_wide(fraction_high ^ flip, fraction_low ^ flip);
  float rest = (float)(wide * double_of(UINT64_C(0x3bf921fb54442d19)));
  uint32_t sign = (bits ^ flip) & 0x80000000u;
  return (struct trig_argument){float_of(bits_of(rest) ^ sign),
                                bits >> 31 ? 0u - quadrant : quadrant};
}

LANE struct trig_argument trig_any(float x) {
  bool far = trig_is_far(bits_of(x));
  struct trig_argument near_argument = trig_near(x), far_argument = trig_far(x);
  return (struct trig_argument){far ? far_argument.rest : near_argument.rest,
                                far ? far_argument.quadrant : near_argument.quadrant};
}

/* Odd quadrants take the cosine's polynomial, quadrants 2 and 3 the other sign. */
LANE float trig_sine(float x, struct trig_argument argument, uint32_t quarter) {
  uint32_t quadrant = argument.quadrant + quarter;
  bool is_cosine = quadrant & 1u;
  float s = argument.rest * argument.rest, base = is_cosine ? 1.0f : argument.rest;
  float p = f32_fused(float_of(0x37cbac00u), s, float_of(0xbab607edu));
  p = is_cosine ? p : float_of(0xb94d4153u);
  p = f32_fused(p, s, float_of(is_cosine ? 0x3d2aaabbu : 0x3c0885e4u));
  p = f32_fused(p, s, float_of(is_cosine ? 0xbeffffffu : 0xbe2aaaa8u));
  float y = f32_fused(p, f32_fused(s, base, 0.0f), base);
  y = quadrant & 2u ? f32_fused(y, -1.0f, 0.0f) : y;
  return (bits_of(x) & 0x7fffffffu) >= 0x7f800000u ? float_of(0x7fffffffu) : y;
}

LANE float trig_tangent(float x, struct trig_argument argument) {
  float r = argument.rest, s = r * r;
  float p = f32_fused(float_of(0x3c190000u), s, float_of(0x3b560000u));
  p = f32_fused(p, s, float_of(0x3cc70000u));
  p = f32_fused(p, s, float_of(0x3d5b0000u));
  p = f32_fused(p, s, float_of(0x3e089438u));
  p = f32_fused(p, s, float_of(0x3eaaaa88u));
  float t = f32_fused(p, s * r, r);
  /* The library's own patch of one argument. */
  t = (bits_of(r) & 0x7fffffffu) == 0x3a00b43cu ? r : t;
  t = argument.quadrant & 1u ? core_rcp(-t) : t;
  return (bits_of(x) & 0x7fffffffu) >= 0x7f800000u ? float_of(0x7fffffffu) : t;
}

#endif
