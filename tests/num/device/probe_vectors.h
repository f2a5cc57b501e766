/* Operands for comparing arithmetic with hardware, made the same way on both sides (CUDA and C):
 * element = f(case, kind, place). Nothing here depends on a library or on host floats.
 * A result's fingerprint is the sum of pv_term(index, result) modulo 2^64. */
#ifndef TS_TESTS_PROBE_VECTORS_H
#define TS_TESTS_PROBE_VECTORS_H

#include <stdint.h>

#ifdef __CUDACC__
#define PV static __host__ __device__ inline
#else
#define PV static inline
#endif

enum pv_kind { PV_MODERATE, PV_ANY_BITS, PV_WIDE, PV_CANCELLING, PV_SUBNORMAL, PV_KINDS };
enum pv_role { PV_A, PV_B, PV_C };

/* Vectors of each case and kind: the first few have a fingerprint (and raw results) of their own. */
enum { PV_COUNT = 1 << 20, PV_QUICK = 4096, PV_SWEEP_PARTS = 16 };

/* exponent_bits 0: an integer. tf32 counts as f32, so that its low bits are random too. */
struct pv_format {
  uint32_t bits, exponent_bits, mantissa_bits;
};

/* PV_FORMAT(name, C type, bits, exponent bits, mantissa bits) */
#define PV_FORMATS(X)                                                                              \
  X(f16, uint16_t, 16, 5, 10)                                                                      \
  X(bf16, uint16_t, 16, 8, 7)                                                                      \
  X(f32, uint32_t, 32, 8, 23)                                                                      \
  X(tf32, uint32_t, 32, 8, 23)                                                                     \
  X(f64, uint64_t, 64, 11, 52)                                                                     \
  X(e4m3, uint8_t, 8, 4, 3)                                                                        \
  X(e5m2, uint8_t, 8, 5, 2)                                                                        \
  X(b1, uint8_t, 1, 0, 0)                                                                          \
  X(s4, uint8_t, 4, 0, 0)                                                                          \
  X(u4, uint8_t, 4, 0, 0)                                                                          \
  X(s8, uint8_t, 8, 0, 0)                                                                          \
  X(u8, uint8_t, 8, 0, 0)                                                                          \
  X(s16, uint16_t, 16, 0, 0)                                                                       \
  X(u16, uint16_t, 16, 0, 0)                                                                       \
  X(s32, uint32_t, 32, 0, 0)                                                                       \
  X(u32, uint32_t, 32, 0, 0)                                                                       \
  X(s64, uint64_t, 64, 0, 0)                                                                       \
  X(u64, uint64_t, 64, 0, 0)
enum pv_format_index {
#define PV_NAME(name, type, bits, exponent, mantissa) PV_##name,
  PV_FORMATS(PV_NAME) PV_FORMAT_COUNT
#undef PV_NAME
};

PV struct pv_format pv_format_of(int index) {
  switch (index) {
#define PV_CASE(name, type, bits, exponent, mantissa)                                              \
  case PV_##name: return (struct pv_format){bits, exponent, mantissa};
    PV_FORMATS(PV_CASE)
#undef PV_CASE
  default: return (struct pv_format){0, 0, 0};
  }
}

PV uint64_t pv_mix(uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

PV uint64_t pv_random(uint32_t test_case, uint32_t kind, uint32_t role, uint64_t index) {
  uint64_t seed = ((uint64_t)test_case << 8 | kind << 4 | role) * 0x9e3779b97f4a7c15ull;
  return pv_mix(pv_mix(seed) + index * 0xd1b54a32d192ed03ull + 1);
}

PV uint64_t pv_mask(uint32_t bits) { return bits >= 64 ? ~0ull : (1ull << bits) - 1; }

/* How many distinct values of the exponent field, around the bias, a wide draw covers. */
PV uint64_t pv_wide_field(uint64_t fields, uint64_t bias, uint64_t pick) {
  uint64_t width = (fields / 2) >> (2 * (pick & 3));
  if (width < 2) width = 2;
  uint64_t field = bias + (pick >> 2) % (2 * width);
  field = field < width ? 0 : field - width;
  return field > fields - 2 ? fields - 2 : field;
}

/* A float of a role: A and B are factors, C is an addend. odd selects a second recipe. */
PV uint64_t pv_float(struct pv_format f, uint32_t kind, uint32_t role, uint32_t odd, uint64_t r) {
  uint64_t s = pv_mix(r + 1), fraction = r & pv_mask(f.mantissa_bits);
  uint64_t fields = 1ull << f.exponent_bits, bias = fields / 2 - 1, field = bias;
  uint64_t sign = s & 1, pick = s >> 8;
  uint32_t zero = (s >> 1 & 15) == 0;
  switch (kind) {
  case PV_ANY_BITS:
    field = pick % fields;
    if (odd && field == fields - 1 && (s >> 5 & 7) != 0) field = bias;
    return sign << (f.bits - 1) | field << f.mantissa_bits | fraction;
  case PV_MODERATE: field = bias - 2 + pick % (role == PV_C ? 6 : 4); break;
  case PV_WIDE: field = pv_wide_field(fields, bias, pick); break;
  case PV_CANCELLING: field = role == PV_C ? bias - 6 + pick % 13 : bias - 5 + pick % 10; break;
  default: /* PV_SUBNORMAL */
    field = pick % 3;
    if (role == PV_B && odd) {
      uint64_t range = fields > 64 ? 40 : 6;
      field = bias + 8 - pick % range;
      if (fields <= 32) field = pick % range;
    }
    break;
  }
  if (field > fields - 2) field = fields - 2;
  if (zero) field = fraction = 0;
  return sign << (f.bits - 1) | field << f.mantissa_bits | fraction;
}

/* An integer of f.bits bits: any, small, any size, a power of two give or take a little, an end. */
PV uint64_t pv_integer(struct pv_format f, uint32_t kind, uint64_t r) {
  uint64_t s = pv_mix(r + 1), value = r;
  switch (kind) {
  case PV_MODERATE: value = (r & 15) - 8; break;
  case PV_ANY_BITS: break;
  case PV_WIDE: value = (uint64_t)((int64_t)r >> s % 64); break;
  case PV_CANCELLING: value = (1ull << s % 64) + (r & 7) - 3; break;
  default: value = (1ull << (f.bits - 1)) + (r & 31) - 16; break;
  }
  return value & pv_mask(f.bits);
}

/* Element (row, k) of A, (column, k) of B: line is the row or column, counted over all tiles. */
PV uint64_t pv_matrix_element(int format, uint32_t test_case, uint32_t kind, uint32_t role,
                              uint64_t tile, uint32_t line, uint32_t k, uint32_t depth) {
  struct pv_format f = pv_format_of(format);
  uint64_t place = (tile * 64 + line) * 256;
  if (f.exponent_bits == 0) return pv_integer(f, kind, pv_random(test_case, kind, role, place + k));
  uint32_t odd = tile & 1;
  if (kind != PV_CANCELLING)
    return pv_float(f, kind, role, odd, pv_random(test_case, kind, role, place + k));
  uint32_t half = depth / 2;
  uint64_t r = pv_random(test_case, kind, role, place + k % half);
  uint64_t element = pv_float(f, kind, role, odd, r);
  if (k < half) return element;
  uint64_t change = pv_random(test_case, kind, role, place + k);
  if (role == PV_B) element ^= 1ull << (f.bits - 1);
  return (change & 3) == 0 ? element ^ (change >> 2 & 3) : element;
}

/* Element of C: index counts over all tiles. Integer accumulators are often near an end. */
PV uint64_t pv_addend(int format, uint32_t test_case, uint32_t kind, uint64_t tile,
                      uint64_t index) {
  struct pv_format f = pv_format_of(format);
  uint64_t r = pv_random(test_case, kind, PV_C, index);
  if (f.exponent_bits != 0) {
    uint64_t value = pv_float(f, kind, PV_C, tile & 1, r);
    return (tile & 7) == 7 ? 0 : value;
  }
  if (kind == PV_ANY_BITS || kind == PV_WIDE) return r & pv_mask(f.bits);
  return (((r & 1) << (f.bits - 1)) + (r >> 1) % 400000 - 200000) & pv_mask(f.bits);
}

/* Operand of an elementwise operation of `arity` operands. */
PV uint64_t pv_operand(int format, uint32_t test_case, uint32_t kind, uint32_t role, uint32_t arity,
                       uint64_t index) {
  struct pv_format f = pv_format_of(format);
  uint64_t r = pv_random(test_case, kind, role, index);
  if (f.exponent_bits == 0) return pv_integer(f, kind, r);
  uint64_t fields = 1ull << f.exponent_bits, bias = fields / 2 - 1, unit = 1ull << f.mantissa_bits;
  if (kind == PV_SUBNORMAL && role == PV_A && (index & 1)) {
    uint64_t range = fields < 80 ? fields / 2 : 40;
    return pv_float(f, PV_ANY_BITS, role, 0, r) % ((range << f.mantissa_bits) - 1);
  }
  if (kind != PV_CANCELLING || role == PV_A || arity == 1)
    return pv_float(f, kind, role, index & 1, r);
  /* a - a, nearly; for three operands a * 1 - a, nearly. */
  if (arity == 3 && role == PV_B)
    return bias << f.mantissa_bits | (r & (unit - 1)) >> (r >> 58) % 24;
  uint64_t a = pv_float(f, kind, PV_A, index & 1, pv_random(test_case, kind, PV_A, index));
  uint64_t near = a ^ 1ull << (f.bits - 1) ^ (r & 7);
  if ((r >> 3 & 7) == 0) near += unit;
  if ((r >> 3 & 7) == 1 && (near & pv_mask(f.bits - 1)) >= unit) near -= unit;
  return near;
}

PV uint64_t pv_term(uint64_t index, uint64_t result) {
  uint64_t z = (index << 32 | (result & 0xffffffffu)) * 0x9e3779b97f4a7c15ull;
  uint64_t sum = (z ^ z >> 29) * 0xbf58476d1ce4e5b9ull;
  if (result >> 32 != 0) {
    z = (index << 32 | result >> 32) * 0xd1b54a32d192ed03ull;
    sum += (z ^ z >> 29) * 0x94d049bb133111ebull;
  }
  return sum;
}

#endif
