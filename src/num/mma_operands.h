/* One operand element for the matrix kernels: its exact f32 value and the exponent of its
 * unnormalised significand, from the encoding. Included by the kernels of each instruction set. */
#ifndef TS_NUM_MMA_OPERANDS_H
#define TS_NUM_MMA_OPERANDS_H

#include "num/elementwise_lanes.h"

/* magnitude: the encoding without sign; least_special: the first magnitude that is Inf or NaN. */
LANE int32_t operand_exponent(uint32_t magnitude, unsigned mantissa_bits, int32_t bias,
                              uint32_t least_special) {
  int32_t field = (int32_t)(magnitude >> mantissa_bits);
  int32_t exponent = (field > 1 ? field : 1) - bias;
  exponent = magnitude == 0 ? TS__EXPONENT_ZERO : exponent;
  return magnitude >= least_special ? TS__EXPONENT_SPECIAL : exponent;
}

LANE int32_t f16_exponent(uint32_t raw) { return operand_exponent(raw & 0x7fffu, 10, 15, 0x7c00u); }

LANE int32_t bf16_exponent(uint32_t raw) {
  return operand_exponent(raw & 0x7fffu, 7, 127, 0x7f80u);
}

LANE int32_t tf32_exponent(uint32_t raw) {
  return operand_exponent(raw >> 13 & 0x3ffffu, 10, 127, 0xffu << 10);
}

LANE int32_t e4m3_exponent(uint32_t raw) { return operand_exponent(raw & 0x7fu, 3, 7, 0x7fu); }

LANE int32_t e5m2_exponent(uint32_t raw) { return operand_exponent(raw & 0x7fu, 2, 15, 0x7cu); }

LANE float tf32_load(uint32_t raw) { return float_of(raw & 0xffffe000u); }

#define OPERAND_LOOP(T)                                                                            \
  for (uint32_t i = 0; i < count; ++i) {                                                           \
    values[i] = T##_load(raw[i]);                                                                  \
    exponents[i] = T##_exponent(raw[i]);                                                           \
  }

/* Values of specials do not matter: their lanes are computed again by the scalar twin. */
LANE void operands_of(enum ts_dtype dtype, float *values, int32_t *exponents, const uint32_t *raw,
                      uint32_t count) {
  switch (dtype) {
  case TS_DTYPE_f16: OPERAND_LOOP(f16) return;
  case TS_DTYPE_bf16: OPERAND_LOOP(bf16) return;
  case TS_DTYPE_e4m3: OPERAND_LOOP(e4m3) return;
  case TS_DTYPE_e5m2: OPERAND_LOOP(e5m2) return;
  default: OPERAND_LOOP(tf32) return;
  }
}

/* Two integer operands as int16 halves of a word. */
LANE uint32_t integer_pair(enum ts_dtype dtype, uint32_t low, uint32_t high) {
  unsigned up = 32 - ts_dtype_bits(dtype);
  if (ts_dtype_is_signed_int(dtype)) {
    low = (uint32_t)((int32_t)(low << up) >> up);
    high = (uint32_t)((int32_t)(high << up) >> up);
  }
  return (low & 0xffffu) | high << 16;
}

/* Both halves of a lane. */
LANE int32_t twice(int32_t exponent) {
  return (int32_t)(((uint32_t)exponent & 0xffffu) | (uint32_t)exponent << 16);
}

#endif
