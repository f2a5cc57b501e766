/* The special function unit of sm_90, bit for bit: ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh.
 *
 * The argument is reduced to a table index and a remainder x; the result is a quadratic in x with
 * integer coefficients (sfu_table.def) whose square is truncated: it drops the low partial products.
 * MEASURED: equal to an H200 for every one of the 2^32 arguments of each function
 * (tests/num/test_sfu_all.c). Operands and results flush subnormals, as the unit does.
 * Straight-line code, so that compilers vectorise it. */
#ifndef TS_NUM_ELEMENTWISE_SFU_H
#define TS_NUM_ELEMENTWISE_SFU_H

#include "num/elementwise_lanes.h"

#define SFU_NAN 0x7fffffffu
#define SFU_INFINITY 0x7f800000u

/* Where each function's rows begin. */
enum {
  SFU_EX2 = 0,
  SFU_LG2 = 64,
  SFU_RCP = 128,
  SFU_RSQRT = 256,
  SFU_SQRT = 384,
  SFU_SIN = 512,
  SFU_TANH = 576
};

static const int32_t sfu_c0_high[] = {
#define SFU_ROW(function, index, c0, c1, c2) (int32_t)((int64_t)(c0) >> 20),
#include "num/sfu_table.def"
#undef SFU_ROW
};
static const int32_t sfu_c0_low[] = {
#define SFU_ROW(function, index, c0, c1, c2) (int32_t)((int64_t)(c0)&0xfffff),
#include "num/sfu_table.def"
#undef SFU_ROW
};
static const int32_t sfu_c1[] = {
#define SFU_ROW(function, index, c0, c1, c2) c1,
#include "num/sfu_table.def"
#undef SFU_ROW
};
static const int32_t sfu_c2[] = {
#define SFU_ROW(function, index, c0, c1, c2) c2,
#include "num/sfu_table.def"
#undef SFU_ROW
};

/* About x * x / 2^19 for x < 2^17: the sum of x >> (18 - i) over the one bits i of x, halved. */
LANE uint32_t sfu_square(uint32_t x) {
  uint32_t sum = 0;
  for (uint32_t i = 1; i < 17; i++)
    sum += (x >> (18 - i)) & (0u - (x >> i & 1u));
  return sum >> 1;
}

/* c0 + c1 x + c2 s(x'), where x' is x with `square_shift` zero bits behind it. */
LANE int64_t sfu_quadratic(uint32_t row, uint32_t x, uint32_t square_shift) {
  int32_t square = (int32_t)sfu_square(x << square_shift);
  int64_t c0 = ((int64_t)sfu_c0_high[row] << 20) + sfu_c0_low[row];
  return c0 + (int64_t)sfu_c1[row] * (int32_t)x + (int64_t)sfu_c2[row] * square;
}

/* The value of a positive fixed-point number with `point` fraction bits, truncated to f32. */
LANE uint32_t sfu_normalise(int64_t value, int32_t point) {
  double wide = (double)value; /* exact: fewer than 53 bits */
  uint64_t bits = bits64_of(wide);
  uint32_t exponent = (uint32_t)((int32_t)(bits >> 52) - 1023 - point + 127);
  uint32_t result = exponent << 23 | (uint32_t)(bits >> 29 & 0x7fffffu);
  return bits == 0 ? 0u : result;
}

/* 2^x: x becomes fixed point with 23 fraction bits, toward zero; a negative one with a fraction is
 * complemented rather than negated. */
LANE float core_ex2(float value) {
  uint32_t bits = bits_of(value), exponent = bits >> 23 & 255u;
  bool negative = bits >> 31;
  bool is_nan = (bits & 0x7fffffffu) > SFU_INFINITY, is_large = exponent >= 127 + 8;
  uint32_t mantissa = (bits & 0x7fffffu) | 0x800000u;
  uint32_t right = exponent < 127 ? 127u - exponent : 0u,
           left = exponent > 127 ? exponent - 127u : 0u;
  right = right > 31 ? 31u : right;
  left = left > 7 ? 7u : left;
  uint32_t size = mantissa >> right << left;
  uint32_t fraction = size & 0x7fffffu;
  uint32_t fixed = negative ? (fraction ? ~size : 0u - size) : size;
  int32_t power = ((int32_t)fixed >> 23) + 127;
  uint32_t low = fixed & 0x7fffffu;
  int64_t sum = sfu_quadratic(SFU_EX2 + (low >> 17), low & 0x1ffffu, 0);
  /* The sum may reach 2^23 (the next power of two): the carry goes into the exponent. */
  int32_t encoded = (int32_t)((uint32_t)power << 23) + (int32_t)(sum >> 15);
  uint32_t result = power <= 0 && encoded < 0x800000 ? 0u : (uint32_t)encoded;
  result = power >= 255 ? SFU_INFINITY : result;
  result = is_large ? (negative ? 0u : SFU_INFINITY) : result;
  return float_of(is_nan ? SFU_NAN : result);
}

/* log2 as fixed point with 36 fraction bits; a negative one is complemented. */
LANE float core_lg2(float value) {
  uint32_t bits = bits_of(value), exponent = bits >> 23, low = bits & 0x7fffffu;
  int64_t sum = sfu_quadratic(SFU_LG2 + (low >> 17), low & 0x1ffffu, 0);
  int64_t fixed = (sum >> 2) + (int64_t)((uint64_t)((int64_t)(exponent & 255u) - 127) << 36);
  fixed &= (int64_t)(bits != 0x3f800000u) * -1;
  int64_t sign = fixed >> 63;
  uint32_t result = sfu_normalise(fixed ^ sign, 36) | ((uint32_t)sign & 0x80000000u);
  result = bits == SFU_INFINITY ? SFU_INFINITY : result;
  result = bits > SFU_INFINITY ? SFU_NAN : result; /* NaN and negative */
  result = (exponent & 255u) == 0 ? SFU_INFINITY | 0x80000000u : result;
  return float_of(result);
}

LANE float core_rcp(float value) {
  uint32_t bits = bits_of(value), sign = bits & 0x80000000u, exponent = bits >> 23 & 255u;
  uint32_t low = bits & 0x7fffffu;
  int64_t sum = sfu_quadratic(SFU_RCP + (low >> 16), low & 0xffffu, 1);
  int32_t encoded = (int32_t)((253u - exponent) << 23) + (int32_t)(sum >> 15);
  uint32_t result = encoded < 0x800000 ? 0u : (uint32_t)encoded;
  result = exponent == 0 ? SFU_INFINITY : exponent == 255 ? 0u : result;
  return float_of((bits & 0x7fffffffu) > SFU_INFINITY ? SFU_NAN : sign | result);
}

/* The exponent's low bit and the mantissa: the argument in [1, 4) with 23 fraction bits. */
LANE uint32_t sfu_root_argument(uint32_t bits) { return (bits & 0x7fffffu) | (~bits & 0x800000u); }

LANE float core_rsq(float value) {
  uint32_t bits = bits_of(value), sign = bits & 0x80000000u, exponent = bits >> 23 & 255u;
  uint32_t low = sfu_root_argument(bits);
  int32_t half = ((int32_t)exponent - 127) >> 1;
  int64_t sum = sfu_quadratic(SFU_RSQRT + (low >> 17), low & 0x1ffffu, 0);
  uint32_t result = ((uint32_t)(126 - half) << 23) + (uint32_t)(sum >> 16);
  result = low == 0 ? (uint32_t)(127 - half) << 23 : result;
  result = bits == SFU_INFINITY ? 0u : result;
  result = bits > SFU_INFINITY ? SFU_NAN : result; /* NaN and negative */
  return float_of(exponent == 0 ? sign | SFU_INFINITY : result);
}

LANE float core_sqrt(float value) {
  uint32_t bits = bits_of(value), exponent = bits >> 23 & 255u;
  uint32_t low = sfu_root_argument(bits);
  int32_t half = ((int32_t)exponent - 127) >> 1;
  int64_t sum = sfu_quadratic(SFU_SQRT + (low >> 17), low & 0x1ffffu, 0);
  uint32_t result = ((uint32_t)(127 + half) << 23) + (uint32_t)(sum >> 17);
  result = bits == SFU_INFINITY ? SFU_INFINITY : result;
  result = bits > SFU_INFINITY ? SFU_NAN : result;
  return float_of(exponent == 0 ? bits & 0x80000000u : result);
}

/* x / 2 pi, rounded toward zero and flushed: what .approx sin and cos give the unit. */
LANE uint32_t sfu_turns(float x) {
  double exact = (double)float_of(flush(bits_of(x))) * (double)float_of(0x3e22f983u);
  float turns = (float)exact;
  double size = exact < 0 ? -exact : exact;
  bool grew = (double)(turns < 0 ? -turns : turns) > size;
  return flush(bits_of(turns) - (grew ? 1u : 0u));
}

/* sin (quarter 0) or cos (quarter 1) of an angle in turns: fixed point with 25 fraction bits, toward
 * zero; odd quadrants are complemented. */
LANE float core_sin(float x, uint64_t quarter) {
  uint32_t bits = sfu_turns(x), exponent = bits >> 23 & 255u;
  uint32_t mantissa = (bits & 0x7fffffu) | (exponent ? 0x800000u : 0u);
  uint32_t right = exponent < 125 ? 125u - exponent : 0u,
           left = exponent > 125 ? exponent - 125u : 0u;
  right = right > 31 ? 31u : right;
  uint32_t fixed = left > 31 ? 0u : mantissa >> right << (left & 31u);
  uint32_t quadrant = (fixed >> 23) + (uint32_t)quarter;
  uint32_t low = fixed & 0x7fffffu;
  low = quadrant & 1u ? ~low & 0x7fffffu : low;
  uint32_t sign = (quarter ? 0u : bits & 0x80000000u) ^ (quadrant & 2u) << 30;
  int64_t sum = sfu_quadratic(SFU_SIN + (low >> 17), low & 0x1ffffu, 0);
  uint32_t result = sign | sfu_normalise(sum & ~(sum >> 63), 37);
  return float_of((bits_of(x) & 0x7fffffffu) >= SFU_INFINITY ? SFU_NAN : result);
}

/* tanh has 1 to 16 rows for each power of two from 2^-8 to 8, the first of them here. */
static const uint32_t sfu_tanh_row[16] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43};
static const uint32_t sfu_tanh_log2_rows[16] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};

/* Fixed point with 39 fraction bits. Below 2^-8 the argument itself, from 8 on 1. */
LANE float core_tanh(float value) {
  uint32_t bits = bits_of(value), size = bits & 0x7fffffffu;
  bool small = size < 0x3b800000u, large = size >= 0x41000000u;
  uint32_t power = small || large ? 0u : (size >> 23) - 0x77u;
  uint32_t place = (size & 0x7fffffu) >> (6 - sfu_tanh_log2_rows[power]);
  uint32_t row = SFU_TANH + sfu_tanh_row[power] + (place >> 17);
  uint32_t result = sfu_normalise(sfu_quadratic(row, place & 0x1ffffu, 0), 39);
  result = small ? size : large ? 0x3f800000u : result;
  return float_of(size > SFU_INFINITY ? SFU_NAN : result | (bits & 0x80000000u));
}

#endif
