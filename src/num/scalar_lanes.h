/* Kernels of scalar.def that are not in num_op.def: one function on slots each. Included by scalar.c
 * only. Signed slots are sign-extended; results of 16 bits are brought back to slots by scalar.c. */
#ifndef TS_NUM_SCALAR_LANES_H
#define TS_NUM_SCALAR_LANES_H

#include <string.h>

#include "num/num_priv.h"

/* The parameter list of every kernel, and loops over slots of the C types named. */
#define KERNEL(name)                                                                               \
  static void kernel_##name(const struct ts_scalar_op *op, void *dst, const void *const *operands, \
                            size_t n)
#define LOOP1(name, R, A, expression)                                                              \
  KERNEL(name) {                                                                                   \
    (void)op;                                                                                      \
    for (size_t i = 0; i < n; ++i) {                                                               \
      A a = ((const A *)operands[0])[i];                                                           \
      ((R *)dst)[i] = (R)(expression);                                                             \
    }                                                                                              \
  }
#define LOOP2(name, R, A, B, expression)                                                           \
  KERNEL(name) {                                                                                   \
    (void)op;                                                                                      \
    for (size_t i = 0; i < n; ++i) {                                                               \
      A a = ((const A *)operands[0])[i];                                                           \
      B b = ((const B *)operands[1])[i];                                                           \
      ((R *)dst)[i] = (R)(expression);                                                             \
    }                                                                                              \
  }
#define LOOP3(name, R, A, B, C, expression)                                                        \
  KERNEL(name) {                                                                                   \
    (void)op;                                                                                      \
    for (size_t i = 0; i < n; ++i) {                                                               \
      A a = ((const A *)operands[0])[i];                                                           \
      B b = ((const B *)operands[1])[i];                                                           \
      C c = ((const C *)operands[2])[i];                                                           \
      ((R *)dst)[i] = (R)(expression);                                                             \
    }                                                                                              \
  }
#define LOOP4(name, T, expression)                                                                 \
  KERNEL(name) {                                                                                   \
    (void)op;                                                                                      \
    for (size_t i = 0; i < n; ++i) {                                                               \
      T a = ((const T *)operands[0])[i], b = ((const T *)operands[1])[i];                          \
      uint32_t c = ((const uint32_t *)operands[2])[i], d = ((const uint32_t *)operands[3])[i];     \
      ((T *)dst)[i] = (T)(expression);                                                             \
    }                                                                                              \
  }

__extension__ typedef __int128 ts__s128;

/* Arithmetic ----------------------------------------------------------------------------------- */

static int32_t clamp_s32(int64_t value) {
  return value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;
}

static int32_t low24_s32(int32_t a) { return (int32_t)((uint32_t)a << 8) >> 8; }

static uint32_t low24_u32(uint32_t a) { return a & 0xffffffu; }

#define PRODUCT_S32(a, b) ((int64_t)(a) * (b))
#define PRODUCT_U32(a, b) ((uint64_t)(a) * (b))
#define DISTANCE(S, a, b) ((a) > (b) ? (S)(a) - (S)(b) : (S)(b) - (S)(a))

LOOP2(ADD_SAT, int32_t, int32_t, int32_t, clamp_s32((int64_t)a + b))
LOOP2(SUB_SAT, int32_t, int32_t, int32_t, clamp_s32((int64_t)a - b))
LOOP2(MUL_WIDE_S16, int32_t, int32_t, int32_t, a *b)
LOOP2(MUL_WIDE_U16, uint32_t, uint32_t, uint32_t, a *b)
LOOP2(MUL_WIDE_S32, int64_t, int32_t, int32_t, PRODUCT_S32(a, b))
LOOP2(MUL_WIDE_U32, uint64_t, uint32_t, uint32_t, PRODUCT_U32(a, b))
LOOP3(MAD_WIDE_S16, uint32_t, int32_t, int32_t, uint32_t, (uint32_t)(a *b) + c)
LOOP3(MAD_WIDE_U16, uint32_t, uint32_t, uint32_t, uint32_t, a *b + c)
LOOP3(MAD_WIDE_S32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)PRODUCT_S32(a, b) + c)
LOOP3(MAD_WIDE_U32, uint64_t, uint32_t, uint32_t, uint64_t, PRODUCT_U32(a, b) + c)
LOOP3(MAD_HI_S16, uint32_t, int32_t, int32_t, uint32_t, (uint32_t)(a *b >> 16) + c)
LOOP3(MAD_HI_U16, uint32_t, uint32_t, uint32_t, uint32_t, (a * b >> 16) + c)
LOOP3(MAD_HI_S32, uint32_t, int32_t, int32_t, uint32_t, (uint32_t)(PRODUCT_S32(a, b) >> 32) + c)
LOOP3(MAD_HI_U32, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)(PRODUCT_U32(a, b) >> 32) + c)
LOOP3(MAD_HI_S64, uint64_t, int64_t, int64_t, uint64_t, (uint64_t)((ts__s128)a *b >> 64) + c)
LOOP3(MAD_HI_U64, uint64_t, uint64_t, uint64_t, uint64_t, (uint64_t)((ts__u128)a *b >> 64) + c)
LOOP3(MAD_HI_SAT, int32_t, int32_t, int32_t, int32_t, clamp_s32((PRODUCT_S32(a, b) >> 32) + c))
LOOP2(MUL24_LO_S32, int32_t, int32_t, int32_t, PRODUCT_S32(low24_s32(a), low24_s32(b)))
LOOP2(MUL24_LO_U32, uint32_t, uint32_t, uint32_t, PRODUCT_U32(low24_u32(a), low24_u32(b)))
LOOP2(MUL24_HI_S32, int32_t, int32_t, int32_t, PRODUCT_S32(low24_s32(a), low24_s32(b)) >> 16)
LOOP2(MUL24_HI_U32, uint32_t, uint32_t, uint32_t, PRODUCT_U32(low24_u32(a), low24_u32(b)) >> 16)
LOOP3(MAD24_LO_S32, uint32_t, int32_t, int32_t, uint32_t,
      (uint32_t)PRODUCT_S32(low24_s32(a), low24_s32(b)) + c)
LOOP3(MAD24_LO_U32, uint32_t, uint32_t, uint32_t, uint32_t,
      (uint32_t)PRODUCT_U32(low24_u32(a), low24_u32(b)) + c)
LOOP3(SAD_S16, uint32_t, int32_t, int32_t, uint32_t, DISTANCE(uint32_t, a, b) + c)
LOOP3(SAD_U16, uint32_t, uint32_t, uint32_t, uint32_t, DISTANCE(uint32_t, a, b) + c)
LOOP3(SAD_S32, uint32_t, int32_t, int32_t, uint32_t, DISTANCE(uint32_t, a, b) + c)
LOOP3(SAD_U32, uint32_t, uint32_t, uint32_t, uint32_t, DISTANCE(uint32_t, a, b) + c)
LOOP3(SAD_S64, uint64_t, int64_t, int64_t, uint64_t, DISTANCE(uint64_t, a, b) + c)
LOOP3(SAD_U64, uint64_t, uint64_t, uint64_t, uint64_t, DISTANCE(uint64_t, a, b) + c)

/* Bits bits of a from bit `at` on, as a number. */
static int32_t part(uint32_t a, unsigned at, unsigned bits, bool is_signed) {
  uint32_t up = a << (32 - bits - at);
  return is_signed ? (int32_t)up >> (32 - bits) : (int32_t)(up >> (32 - bits));
}

static uint32_t dot_bytes(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed) {
  for (unsigned i = 0; i < 32; i += 8)
    c += (uint32_t)(part(a, i, 8, a_signed) * part(b, i, 8, b_signed));
  return c;
}

/* Halves of a by the bytes of b from bit `at` on. */
static uint32_t dot_halves(uint32_t a, uint32_t b, uint32_t c, unsigned at, bool a_signed,
                           bool b_signed) {
  for (unsigned i = 0; i < 2; ++i)
    c += (uint32_t)part(a, 16 * i, 16, a_signed) * (uint32_t)part(b, at + 8 * i, 8, b_signed);
  return c;
}

#define DOTS(suffix, a_signed, b_signed)                                                           \
  LOOP3(DP4A_##suffix, uint32_t, uint32_t, uint32_t, uint32_t,                                     \
        dot_bytes(a, b, c, a_signed, b_signed))                                                    \
  LOOP3(DP2A_LO_##suffix, uint32_t, uint32_t, uint32_t, uint32_t,                                  \
        dot_halves(a, b, c, 0, a_signed, b_signed))                                                \
  LOOP3(DP2A_HI_##suffix, uint32_t, uint32_t, uint32_t, uint32_t,                                  \
        dot_halves(a, b, c, 16, a_signed, b_signed))
DOTS(UU, false, false)
DOTS(US, false, true)
DOTS(SU, true, false)
DOTS(SS, true, true)

/* Shifts and bits ------------------------------------------------------------------------------ */

LOOP1(CNOT32, uint32_t, uint32_t, a == 0)
LOOP1(CNOT64, uint64_t, uint64_t, a == 0)
LOOP2(SHL16, uint32_t, uint32_t, uint32_t, b >= 16 ? 0 : a << b)
LOOP2(SHL32, uint32_t, uint32_t, uint32_t, b >= 32 ? 0 : a << b)
LOOP2(SHL64, uint64_t, uint64_t, uint32_t, b >= 64 ? 0 : a << b)
LOOP2(SHR32, uint32_t, uint32_t, uint32_t, b >= 32 ? 0 : a >> b)
LOOP2(SHR64, uint64_t, uint64_t, uint32_t, b >= 64 ? 0 : a >> b)
LOOP2(SHR_SIGNED32, int32_t, int32_t, uint32_t, a >> (b > 31 ? 31 : b))
LOOP2(SHR_SIGNED64, int64_t, int64_t, uint32_t, a >> (b > 63 ? 63 : b))

/* The funnel: b above a. */
#define FUNNEL ((uint64_t)b << 32 | a)
#define CLAMPED(c, most) ((c) > (most) ? (most) : (c))
LOOP3(SHF_L_WRAP, uint32_t, uint32_t, uint32_t, uint32_t, FUNNEL << (c & 31) >> 32)
LOOP3(SHF_L_CLAMP, uint32_t, uint32_t, uint32_t, uint32_t, FUNNEL << CLAMPED(c, 32) >> 32)
LOOP3(SHF_R_WRAP, uint32_t, uint32_t, uint32_t, uint32_t, FUNNEL >> (c & 31))
LOOP3(SHF_R_CLAMP, uint32_t, uint32_t, uint32_t, uint32_t, FUNNEL >> CLAMPED(c, 32))

static uint64_t reversed(uint64_t a, unsigned bits) {
  uint64_t result = 0;
  for (unsigned i = 0; i < bits; ++i)
    result |= (a >> i & 1) << (bits - 1 - i);
  return result;
}

/* Place of the highest bit that is not a copy of the sign, or the shift that moves it to the top. */
static uint32_t find_bit(uint64_t a, unsigned bits, bool is_signed, bool wants_shift) {
  if (is_signed && (a >> (bits - 1) & 1)) a = ~a & (UINT64_MAX >> (64 - bits));
  if (a == 0) return UINT32_MAX;
  uint32_t place = 63 - (uint32_t)__builtin_clzll(a);
  return wants_shift ? bits - 1 - place : place;
}

LOOP1(POPC32, uint32_t, uint32_t, __builtin_popcount(a))
LOOP1(POPC64, uint32_t, uint64_t, __builtin_popcountll(a))
LOOP1(CLZ32, uint32_t, uint32_t, a == 0 ? 32 : __builtin_clz(a))
LOOP1(CLZ64, uint32_t, uint64_t, a == 0 ? 64 : __builtin_clzll(a))
LOOP1(BREV32, uint32_t, uint32_t, reversed(a, 32))
LOOP1(BREV64, uint64_t, uint64_t, reversed(a, 64))
LOOP1(BFIND_U32, uint32_t, uint32_t, find_bit(a, 32, false, false))
LOOP1(BFIND_S32, uint32_t, uint32_t, find_bit(a, 32, true, false))
LOOP1(BFIND_U64, uint32_t, uint64_t, find_bit(a, 64, false, false))
LOOP1(BFIND_S64, uint32_t, uint64_t, find_bit(a, 64, true, false))
LOOP1(BFIND_SHIFT_U32, uint32_t, uint32_t, find_bit(a, 32, false, true))
LOOP1(BFIND_SHIFT_S32, uint32_t, uint32_t, find_bit(a, 32, true, true))
LOOP1(BFIND_SHIFT_U64, uint32_t, uint64_t, find_bit(a, 64, false, true))
LOOP1(BFIND_SHIFT_S64, uint32_t, uint64_t, find_bit(a, 64, true, true))

/* The 32-bit forms look at the low 8 bits of position and length, the 64-bit forms at all. MEASURED. */
static uint32_t field_extent(uint32_t value, unsigned bits) {
  return bits == 32 ? value & 0xff : value > 255 ? 255 : value;
}

/* `length` bits from `position` on; beyond the field the sign: the field's top bit or, when the
 * field reaches past it, the operand's. */
static uint64_t extracted(uint64_t a, uint32_t position, uint32_t length, unsigned bits,
                          bool is_signed) {
  position = field_extent(position, bits);
  length = field_extent(length, bits);
  uint32_t top = position + length - 1 < bits - 1 ? position + length - 1 : bits - 1;
  bool sign = is_signed && length != 0 && (a >> top & 1);
  uint64_t result = 0;
  for (uint32_t i = 0; i < bits; ++i) {
    bool bit = i < length && position + i < bits ? a >> (position + i) & 1 : sign;
    result |= (uint64_t)bit << i;
  }
  return result;
}

static uint64_t inserted(uint64_t a, uint64_t b, uint32_t position, uint32_t length,
                         unsigned bits) {
  position = field_extent(position, bits);
  length = field_extent(length, bits);
  for (uint32_t i = 0; i < length && position + i < bits; ++i) {
    uint64_t bit = UINT64_C(1) << (position + i);
    b = (a >> i & 1) ? b | bit : b & ~bit;
  }
  return b;
}

LOOP3(BFE_U32, uint32_t, uint32_t, uint32_t, uint32_t, extracted(a, b, c, 32, false))
LOOP3(BFE_S32, uint32_t, uint32_t, uint32_t, uint32_t, extracted(a, b, c, 32, true))
LOOP3(BFE_U64, uint64_t, uint64_t, uint32_t, uint32_t, extracted(a, b, c, 64, false))
LOOP3(BFE_S64, uint64_t, uint64_t, uint32_t, uint32_t, extracted(a, b, c, 64, true))
LOOP4(BFI32, uint32_t, inserted(a, b, c, d, 32))
LOOP4(BFI64, uint64_t, inserted(a, b, c, d, 64))

static uint32_t bit_mask(uint32_t position, uint32_t width) {
  return (uint32_t)((((UINT64_C(1) << width) - 1) << position) & UINT32_MAX);
}

LOOP2(BMSK_WRAP, uint32_t, uint32_t, uint32_t, bit_mask(a & 31, b & 31))
LOOP2(BMSK_CLAMP, uint32_t, uint32_t, uint32_t,
      a >= 32 ? 0 : bit_mask(CLAMPED(a, 32), CLAMPED(b, 32)))

/* The offset-th set bit from base on: upward for positive offsets, downward for negative ones. */
static uint32_t find_nth(uint32_t mask, uint32_t base, int32_t offset) {
  int64_t place = base;
  if (base > 31) return UINT32_MAX;
  if (offset == 0) return mask >> place & 1 ? (uint32_t)place : UINT32_MAX;
  int64_t left = (offset < 0 ? -(int64_t)offset : offset) - 1;
  for (; place >= 0 && place < 32; place += offset < 0 ? -1 : 1) {
    if (!(mask >> place & 1)) continue;
    if (left-- == 0) return (uint32_t)place;
  }
  return UINT32_MAX;
}

LOOP3(FNS, uint32_t, uint32_t, uint32_t, int32_t, find_nth(a, b, c))

static uint32_t logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t result = 0;
  for (unsigned i = 0; i < 8; ++i) {
    uint32_t term = (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    if (table >> i & 1) result |= term;
  }
  return result;
}

LOOP4(LOP3, uint32_t, logic3(a, b, c, d))

/* Bytes of b:a chosen by nibbles, whose top bit asks for the byte's sign instead. */
static uint32_t permuted(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = (uint64_t)b << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t choice = selector >> 4 * i & 15, byte = bytes >> 8 * (choice & 7) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}

/* The modes as selectors, from s = selector % 4 and the place i of the result's byte. */
#define PERMUTE_MODE(name, choice)                                                                 \
  static uint32_t selector_##name(uint32_t s) {                                                    \
    uint32_t result = 0;                                                                           \
    for (uint32_t i = 0; i < 4; ++i)                                                               \
      result |= ((choice)&7) << 4 * i;                                                             \
    return result;                                                                                 \
  }                                                                                                \
  LOOP3(name, uint32_t, uint32_t, uint32_t, uint32_t, permuted(a, b, selector_##name(c & 3)))
LOOP3(PRMT, uint32_t, uint32_t, uint32_t, uint32_t, permuted(a, b, c))
PERMUTE_MODE(PRMT_F4E, s + i)
PERMUTE_MODE(PRMT_B4E, s - i)
PERMUTE_MODE(PRMT_RC8, s)
PERMUTE_MODE(PRMT_ECL, s > i ? s : i)
PERMUTE_MODE(PRMT_ECR, s < i ? s : i)
PERMUTE_MODE(PRMT_RC16, (s & 1) * 2 + (i & 1))

/* Memory --------------------------------------------------------------------------------------- */

LOOP2(RED_INC, uint32_t, uint32_t, uint32_t, a >= b ? 0 : a + 1)
LOOP2(RED_DEC, uint32_t, uint32_t, uint32_t, a == 0 || a > b ? b : a - 1)
LOOP2(EXCH32, uint32_t, uint32_t, uint32_t, ((void)a, b))
LOOP2(EXCH64, uint64_t, uint64_t, uint64_t, ((void)a, b))
LOOP3(CAS32, uint32_t, uint32_t, uint32_t, uint32_t, a == b ? c : a)
LOOP3(CAS64, uint64_t, uint64_t, uint64_t, uint64_t, a == b ? c : a)

/* Memory units pass a NaN on as it is. */
static uint64_t add_f64(uint64_t a, uint64_t b) {
  const uint64_t infinity = UINT64_C(0x7ff0000000000000);
  if ((b & INT64_MAX) > infinity) return b;
  if ((a & INT64_MAX) > infinity) return a;
  return ts_num_eval2(TS_NUM_add, TS_DTYPE_f64, 0, a, b);
}

LOOP2(RED_ADD_F64, uint64_t, uint64_t, uint64_t, add_f64(a, b))

/* Floats --------------------------------------------------------------------------------------- */

LOOP2(COPYSIGN32, uint32_t, uint32_t, uint32_t, (a & 0x80000000u) | (b & 0x7fffffffu))
LOOP2(COPYSIGN64, uint64_t, uint64_t, uint64_t, (a & UINT64_C(1) << 63) | (b & INT64_MAX))

static uint32_t eval1(enum ts_num_op op, unsigned flags, uint32_t a) {
  return (uint32_t)ts_num_eval1(op, TS_DTYPE_f32, flags, a);
}

static uint32_t product(uint32_t a, uint32_t b) {
  return (uint32_t)ts_num_eval2(TS_NUM_mul, TS_DTYPE_f32, 0, a, b);
}

/* The table unit's reciprocal times a. Divisors too small for the unit are scaled with a by 2^24. */
static uint32_t divide_approx(uint32_t a, uint32_t b) {
  const uint32_t two24 = 0x4b800000u;
  bool tiny = (b & 0x7fffffffu) < 0x00800000u;
  uint32_t divisor = tiny ? product(b, two24) : b;
  return product(tiny ? product(a, two24) : a,
                 eval1(TS_NUM_rcp, TS_NUM_APPROX | TS_NUM_FTZ, divisor));
}

/* Divisors too large for the unit are scaled with a by 1/4. Operands have been flushed. */
static uint32_t divide_full_ftz(uint32_t a, uint32_t b) {
  const uint32_t quarter = 0x3e800000u;
  bool huge = (b & 0x7fffffffu) > 0x7e800000u;
  uint32_t divisor = huge ? product(b, quarter) : b;
  return product(huge ? product(a, quarter) : a,
                 eval1(TS_NUM_rcp, TS_NUM_APPROX | TS_NUM_FTZ, divisor));
}

LOOP2(DIV_APPROX, uint32_t, uint32_t, uint32_t, divide_approx(a, b))
LOOP2(DIV_FULL_FTZ, uint32_t, uint32_t, uint32_t, divide_full_ftz(a, b))

#endif
