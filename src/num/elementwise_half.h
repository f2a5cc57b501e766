/* CUDA 13.0's functions of f16 and bf16 (hexp, hlog, hsin, ...), one lane each: a table unit or a
 * short f32 polynomial, one rounding, and for f16 a few arguments whose result is then moved by an
 * ulp. EXACT: equal to an H200 for all 65536 arguments of each (tests/num/device). */
#ifndef TS_NUM_ELEMENTWISE_HALF_H
#define TS_NUM_ELEMENTWISE_HALF_H

#include "num/elementwise_math.h"

/* result, or result + correction (all f16) when key is the patched encoding. */
LANE uint32_t f16_patch(uint32_t key, uint32_t result, uint32_t patched, uint32_t correction) {
  uint32_t moved = f16_store(f16_load(result) + f16_load(correction));
  return key == patched ? moved : result;
}

/* ex2.approx.ftz of x times a constant; -0 is what keeps the sign of a zero product. */
LANE uint32_t f16_power(uint32_t h, uint32_t factor) {
  return f16_store(core_ex2(f32_fused(f16_load(h), float_of(factor), -0.0f)));
}

LANE uint32_t f16_exp_lane(uint32_t h) {
  uint32_t r = f16_power(h, 0x3fb8aa3bu);
  r = f16_patch(h, r, 0x1f79u, 0x9400u);
  r = f16_patch(h, r, 0x25cfu, 0x9400u);
  r = f16_patch(h, r, 0xc13bu, 0x0400u);
  return f16_patch(h, r, 0xc1efu, 0x0200u);
}

LANE uint32_t f16_exp2_lane(uint32_t h) {
  float y = core_ex2(f16_load(h));
  return f16_store(f32_fused(y, 0x1p-24f, y));
}

LANE uint32_t f16_exp10_lane(uint32_t h) {
  uint32_t r = f16_power(h, 0x40549a78u);
  r = f16_patch(h, r, 0x34deu, 0x9800u);
  r = f16_patch(h, r, 0x9766u, 0x9000u);
  r = f16_patch(h, r, 0x9972u, 0x1000u);
  r = f16_patch(h, r, 0xa5c4u, 0x1000u);
  return f16_patch(h, r, 0xbf0au, 0x8100u);
}

/* Here the patches look at the result. */
LANE uint32_t f16_log2_lane(uint32_t h) {
  uint32_t r = f16_store(core_lg2(f16_load(h)));
  r = f16_patch(r, r, 0xa2e2u, 0x8080u);
  return f16_patch(r, r, 0xbf46u, 0x9400u);
}

LANE uint32_t f16_log_lane(uint32_t h) {
  uint32_t r = f16_store(core_lg2(f16_load(h)) * float_of(0x3f317218u));
  r = f16_patch(h, r, 0x160du, 0x9c00u);
  r = f16_patch(h, r, 0x3bfeu, 0x8010u);
  r = f16_patch(h, r, 0x3c0bu, 0x8080u);
  return f16_patch(h, r, 0x6051u, 0x1c00u);
}

LANE uint32_t f16_log10_lane(uint32_t h) {
  uint32_t r = f16_store(core_lg2(f16_load(h)) * float_of(0x3e9a209bu));
  r = f16_patch(h, r, 0x338fu, 0x1000u);
  r = f16_patch(h, r, 0x33f8u, 0x9000u);
  r = f16_patch(h, r, 0x57e1u, 0x9800u);
  return f16_patch(h, r, 0x719du, 0x9c00u);
}

/* Sine (cosine when quarter is 1) of a short argument: two-step reduction by pi / 2. */
LANE float half_sine(float x, uint32_t quarter) {
  float shifted = f32_fused(x, 0.636619772f, 12582912.0f);
  uint32_t quadrant = (bits_of(shifted) & 3u) + quarter;
  float j = shifted - 12582912.0f;
  float t = f32_fused(j, -1.5707962512969971f, x);
  t = f32_fused(j, -7.5497894158615964e-8f, t);
  bool cosine = quadrant & 1u;
  float s = t * t;
  float y = f32_fused(cosine ? 2.44331571e-5f : -1.95152959e-4f, s,
                      cosine ? -1.38873163e-3f : 8.33216087e-3f);
  y = f32_fused(y, s, cosine ? 4.16666457e-2f : -1.66666546e-1f);
  y = f32_fused(y, s, cosine ? -0.5f : 0.0f);
  y = f32_fused(y, cosine ? s : t, cosine ? 1.0f : t);
  return quadrant & 2u ? -y : y;
}

LANE uint32_t f16_sin_lane(uint32_t h) {
  uint32_t r = f16_store(half_sine(f16_load(h), 0)), sign = r & 0x8000u, size = h & 0x7fffu;
  r = f16_patch(size, r & 0x7fffu, 0x32b3u, 0x0800u);
  return f16_patch(size, r, 0x5cb0u, 0x9000u) | sign;
}

LANE uint32_t f16_cos_lane(uint32_t h) {
  return f16_patch(h & 0x7fffu, f16_store(half_sine(f16_load(h), 1)), 0x2b7cu, 0x1000u);
}

LANE uint32_t bf16_exp_lane(uint32_t h) {
  return bf16_store(ex2_approx(bf16_load(h) * float_of(0x3fb8aa3cu)));
}

LANE uint32_t bf16_exp2_lane(uint32_t h) { return bf16_store(ex2_approx(bf16_load(h))); }

LANE uint32_t bf16_exp10_lane(uint32_t h) {
  uint32_t r = bf16_store(ex2_approx(bf16_load(h) * float_of(0x40549a78u)));
  return h == 0xbc95u ? 0x3f75u : r;
}

LANE uint32_t bf16_log2_lane(uint32_t h) { return bf16_store(lg2_approx(bf16_load(h))); }

LANE uint32_t bf16_log_lane(uint32_t h) {
  return bf16_store(lg2_approx(bf16_load(h)) * float_of(0x3f317218u));
}

LANE uint32_t bf16_log10_lane(uint32_t h) {
  return bf16_store(lg2_approx(bf16_load(h)) * float_of(0x3e9a209bu));
}

#endif
