/* Elementwise kernels of every instruction set against the scalar integer core, and results known
 * from specifications. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/num_priv.h"

/* Check reports every assertion to its parent process; in hot loops only failures matter. */
#define check(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                   \
  } while (0)

enum { COUNT = 61, ROUNDS = 150 };

static uint64_t random64(uint64_t *state) {
  *state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t x = *state;
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* Any bits, or exponents near each other, near the ends, or special values. */
static uint64_t random_float(enum ts_dtype dtype, uint64_t *state) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  uint64_t bits = random64(state), kind = random64(state) % 8,
           fields = UINT64_C(1) << info->exponent_bits;
  uint64_t fraction = bits & ((UINT64_C(1) << info->mantissa_bits) - 1);
  uint64_t sign = bits >> 63 << (info->bits - 1), field = bits >> 54 & (fields - 1);
  if (kind >= 2 && kind < 5) field = (uint64_t)info->bias - 2 + field % 5;
  if (kind == 5) field = field % 3;
  if (kind == 6) field = fields - 1 - field % 3;
  if (kind == 7) fraction = bits % 2 ? 0 : fraction & ~(uint64_t)0 << (info->mantissa_bits / 2);
  return sign | field << info->mantissa_bits | fraction;
}

static void set(enum ts_dtype dtype, void *slots, size_t i, uint64_t encoding) {
  uint64_t slot = ts_dtype_slot(dtype, encoding);
  if (ts_dtype_slot_bytes(dtype) == 8)
    ((uint64_t *)slots)[i] = slot;
  else
    ((uint32_t *)slots)[i] = (uint32_t)slot;
}

/* The slot must be exactly what its encoding stands for: no rubbish above. */
static uint64_t get(enum ts_dtype dtype, const void *slots, size_t i) {
  uint64_t slot =
      ts_dtype_slot_bytes(dtype) == 8 ? ((const uint64_t *)slots)[i] : ((const uint32_t *)slots)[i];
  uint64_t encoding = ts_dtype_encoding(dtype, slot);
  check(slot == ts_dtype_slot(dtype, encoding), "rubbish above %s", ts_dtype_name(dtype));
  return encoding;
}

static uint64_t expected_float(enum ts_num_op op, enum ts_dtype t, unsigned flags, uint64_t a,
                               uint64_t b, uint64_t c) {
  switch (op) {
  case TS_NUM_add: return ts__exact_add(t, flags, a, b);
  case TS_NUM_sub: return ts__exact_sub(t, flags, a, b);
  case TS_NUM_mul: return ts__exact_mul(t, flags, a, b);
  case TS_NUM_div: return ts__exact_div(t, flags, a, b);
  case TS_NUM_fma: return ts__exact_fma(t, flags, a, b, c);
  case TS_NUM_sqrt: return ts__exact_sqrt(t, flags, a);
  default: return ts__exact_div(t, flags, ts_dtype_one(t), a);
  }
}

static void check_arithmetic(enum ts_isa isa, enum ts_dtype t, unsigned flags) {
  static const enum ts_num_op ops[] = {TS_NUM_add, TS_NUM_sub,  TS_NUM_mul, TS_NUM_div,
                                       TS_NUM_fma, TS_NUM_sqrt, TS_NUM_rcp};
  const struct ts__elementwise *kernels = ts__elementwise_of(isa);
  uint64_t state = 7, a[COUNT], b[COUNT], c[COUNT], d[COUNT];
  for (int round = 0; round < ROUNDS; ++round) {
    for (size_t i = 0; i < COUNT; ++i) {
      set(t, a, i, random_float(t, &state));
      set(t, b, i, random_float(t, &state));
      set(t, c, i, random_float(t, &state));
    }
    for (size_t o = 0; o < sizeof ops / sizeof ops[0]; ++o) {
      unsigned arity = ts_num_op_arity(ops[o]);
      if (arity == 1) kernels->unary(ops[o], t, flags)(d, a, COUNT);
      if (arity == 2) kernels->binary(ops[o], t, flags)(d, a, b, COUNT);
      if (arity == 3) kernels->ternary(ops[o], t, flags)(d, a, b, c, COUNT);
      for (size_t i = 0; i < COUNT; ++i) {
        uint64_t x = get(t, a, i), y = get(t, b, i), z = get(t, c, i), got = get(t, d, i);
        uint64_t expected = expected_float(ops[o], t, flags, x, y, z);
        check(got == expected, "%s %s %s flags %u of %llx %llx %llx: %llx, not %llx",
              ts_isa_name(isa), ts_num_op_name(ops[o]), ts_dtype_name(t), flags,
              (unsigned long long)x, (unsigned long long)y, (unsigned long long)z,
              (unsigned long long)got, (unsigned long long)expected);
      }
    }
  }
}

START_TEST(arithmetic) {
  if (_i > (int)ts_num_isa()) return;
  enum ts_isa isa = (enum ts_isa)_i;
  check_arithmetic(isa, TS_DTYPE_f32, 0);
  check_arithmetic(isa, TS_DTYPE_f32, TS_NUM_FTZ);
  check_arithmetic(isa, TS_DTYPE_f16, 0);
  check_arithmetic(isa, TS_DTYPE_bf16, 0);
  check_arithmetic(isa, TS_DTYPE_f64, 0);
}
END_TEST

/* Every conversion a vector kernel has, against the core. */
START_TEST(conversions) {
  if (_i > (int)ts_num_isa()) return;
  const struct ts__elementwise *kernels = ts__elementwise_of((enum ts_isa)_i);
  static const unsigned all_flags[] = {0, TS_NUM_SATFINITE};
  unsigned found = 0;
  for (unsigned f = 0; f < 2; ++f)
    for (unsigned dn = 0; dn < TS_DTYPE_COUNT; ++dn)
      for (unsigned sn = 0; sn < TS_DTYPE_COUNT; ++sn) {
        enum ts_dtype dst = (enum ts_dtype)dn, src = (enum ts_dtype)sn;
        ts_unary_fn convert = kernels->convert(dst, src, all_flags[f]);
        if (convert == NULL || dst == src) continue;
        ++found;
        uint64_t state = dn * 31 + sn, a[COUNT], d[COUNT];
        for (int round = 0; round < 20; ++round) {
          for (size_t i = 0; i < COUNT; ++i) {
            uint64_t bits = random64(&state) >> (round % 2 ? random64(&state) % 64 : 0);
            bits = ts_dtype_encoding(src, bits);
            if (ts_dtype_is_float(src)) bits = random_float(src, &state);
            set(src, a, i, src == TS_DTYPE_pred ? bits & 1 : bits);
          }
          convert(d, a, COUNT);
          for (size_t i = 0; i < COUNT; ++i) {
            uint64_t in = get(src, a, i), got = get(dst, d, i);
            uint64_t expected = ts__exact_convert(dst, src, all_flags[f], in);
            if (ts_dtype_info(dst)->kind == TS_KIND_PTR || ts_dtype_info(src)->kind == TS_KIND_PTR)
              continue;
            check(got == expected, "%s from %s of %llx: %llx, not %llx", ts_dtype_name(dst),
                  ts_dtype_name(src), (unsigned long long)in, (unsigned long long)got,
                  (unsigned long long)expected);
          }
        }
      }
  ck_assert_uint_gt(found, 150);
}
END_TEST

/* Integers ------------------------------------------------------------------------------------- */

__extension__ typedef __int128 wide_int;

static wide_int integer_value(enum ts_dtype t, uint64_t encoding) {
  unsigned bits = ts_dtype_bits(t);
  if (!ts_dtype_is_signed_int(t) || !(encoding >> (bits - 1) & 1)) return (wide_int)encoding;
  return (wide_int)encoding - ((wide_int)1 << bits);
}

static wide_int expected_integer(enum ts_num_op op, unsigned bits, bool is_signed, wide_int a,
                                 wide_int b) {
  /* Division by zero: all ones. */
  wide_int quotient = b == 0 ? -1 : a / b, rest = b == 0 ? -1 : a % b;
  bool below = b != 0 && rest != 0 && (rest < 0) != (b < 0);
  switch (op) {
  case TS_NUM_add: return a + b;
  case TS_NUM_sub: return a - b;
  case TS_NUM_mul: return (wide_int)((ts__u128)a * (ts__u128)b);
  case TS_NUM_mulhi:
    return bits == 64 && a >= 0 && b >= 0 ? (wide_int)((ts__u128)a * (ts__u128)b >> 64)
                                          : a * b >> bits;
  case TS_NUM_div: return quotient;
  case TS_NUM_rem: return rest;
  case TS_NUM_floordiv: return quotient - (below || (b == 0 && is_signed));
  case TS_NUM_floormod: return below ? rest + b : rest;
  case TS_NUM_min: return a < b ? a : b;
  case TS_NUM_max: return a > b ? a : b;
  case TS_NUM_and: return a & b;
  case TS_NUM_or: return a | b;
  case TS_NUM_xor: return a ^ b;
  case TS_NUM_shl: return b < 0 || b >= bits ? 0 : (wide_int)((ts__u128)a << b);
  case TS_NUM_shr: return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b;
  case TS_NUM_eq: return a == b;
  case TS_NUM_ne: return a != b;
  case TS_NUM_lt: return a < b;
  case TS_NUM_le: return a <= b;
  case TS_NUM_gt: return a > b;
  default: return a >= b;
  }
}

static void check_integers(enum ts_isa isa, enum ts_dtype t) {
  const struct ts__elementwise *kernels = ts__elementwise_of(isa);
  uint64_t state = 3, a[COUNT], b[COUNT], d[COUNT];
  for (int round = 0; round < ROUNDS; ++round) {
    for (size_t i = 0; i < COUNT; ++i) {
      uint64_t x = random64(&state), y = random64(&state) >> random64(&state) % 64;
      if (i % 8 == 0) x = UINT64_C(1) << (ts_dtype_bits(t) - 1);
      if (i % 16 == 0) y = i % 32 ? UINT64_MAX : 0;
      if (i % 5 == 0) y = 0 - y;
      if (i % 7 == 0) y = y % 70;
      set(t, a, i, x);
      set(t, b, i, y);
    }
    for (unsigned o = TS_NUM_add; o <= TS_NUM_ge; ++o) {
      enum ts_num_op op = (enum ts_num_op)o;
      if (op == TS_NUM_pow || op == TS_NUM_copysign) continue;
      kernels->binary(op, t, 0)(d, a, b, COUNT);
      enum ts_dtype result = ts_num_op_gives_bool(op) ? TS_DTYPE_pred : t;
      for (size_t i = 0; i < COUNT; ++i) {
        uint64_t x = get(t, a, i), y = get(t, b, i), got = get(result, d, i);
        wide_int value = expected_integer(op, ts_dtype_bits(t), ts_dtype_is_signed_int(t),
                                          integer_value(t, x), integer_value(t, y));
        uint64_t expected = ts_dtype_encoding(result, (uint64_t)value);
        check(got == expected, "%s %s %s of %llx %llx: %llx, not %llx", ts_isa_name(isa),
              ts_num_op_name(op), ts_dtype_name(t), (unsigned long long)x, (unsigned long long)y,
              (unsigned long long)got, (unsigned long long)expected);
      }
    }
  }
}

START_TEST(integers) {
  if (_i > (int)ts_num_isa()) return;
  for (unsigned t = 0; t < TS_DTYPE_COUNT; ++t)
    if (ts_dtype_is_int((enum ts_dtype)t)) check_integers((enum ts_isa)_i, (enum ts_dtype)t);
}
END_TEST

START_TEST(bit_operations) {
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_popc, TS_DTYPE_s8, 0, 0xf1), 5);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_clz, TS_DTYPE_u32, 0, 1), 31);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_clz, TS_DTYPE_u32, 0, 0), 32);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_clz, TS_DTYPE_s64, 0, 1), 63);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_clz, TS_DTYPE_s8, 0, 0x10), 3);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_not, TS_DTYPE_pred, 0, 1), 0);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_not, TS_DTYPE_u8, 0, 0x0f), 0xf0);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_abs, TS_DTYPE_s32, 0, 0x80000000), 0x80000000);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_neg, TS_DTYPE_s8, 0, 1), 0xff);
  ck_assert_uint_eq(ts_num_eval3(TS_NUM_fma, TS_DTYPE_s32, 0, 3, 4, 0xffffffff), 11);
  ck_assert_uint_eq(ts_num_eval2(TS_NUM_and, TS_DTYPE_pred, 0, 1, 1), 1);
}
END_TEST

/* Known results -------------------------------------------------------------------------------- */

struct known {
  enum ts_num_op op;
  enum ts_dtype dtype;
  unsigned flags;
  uint64_t a, b, c, result;
};

#define OP(op, t) TS_NUM_##op, TS_DTYPE_##t
/* clang-format off */
static const struct known knowns[] = {
    /* contraction makes a difference */
    {OP(fma, f32), 0, 0x3f800001, 0x3f800001, 0xbf800002, 0x28800000},
    /* minimum and maximum: signed zeros, NaN */
    {OP(max, f32), 0, 0x80000000, 0x00000000, 0, 0x00000000}, {OP(max, f32), 0, 0x00000000, 0x80000000, 0, 0x00000000},
    {OP(min, f32), 0, 0x80000000, 0x00000000, 0, 0x80000000}, {OP(min, f32), 0, 0x00000000, 0x80000000, 0, 0x80000000},
    {OP(max, f32), 0, 0x7fc00000, 0x3f800000, 0, 0x3f800000}, {OP(max, f32), 0, 0x3f800000, 0x7fc00000, 0, 0x3f800000},
    {OP(max, f32), 0, 0xffc00001, 0x7fc00000, 0, 0x7fffffff}, {OP(max, f32), TS_NUM_NAN, 0x7fc00000, 0x3f800000, 0, 0x7fffffff},
    {OP(min, f32), TS_NUM_NAN, 0x3f800000, 0xffc00000, 0, 0x7fffffff}, {OP(min, f32), 0, 0xff800000, 0x7f800000, 0, 0xff800000},
    {OP(max, f32), TS_NUM_FTZ, 0x00000001, 0x80000001, 0, 0x00000000},
    {OP(max, f16), 0, 0x8000, 0x0000, 0, 0x0000}, {OP(min, f16), 0, 0x7e01, 0xbc00, 0, 0xbc00},
    {OP(max, f16), TS_NUM_NAN, 0x7e01, 0xbc00, 0, 0x7fff}, {OP(max, bf16), 0, 0xbf80, 0xc000, 0, 0xbf80},
    {OP(min, f64), 0, 0x8000000000000000, 0, 0, 0x8000000000000000},
    /* NaN results are canonical; f64 passes the first NaN on */
    {OP(neg, f32), 0, 0xffc00001, 0, 0, 0x7fffffff}, {OP(abs, f16), 0, 0xfe01, 0, 0, 0x7fff},
    {OP(add, f64), 0, 0x3ff0000000000000, 0xfff0000000012345, 0, 0xfff8000000012345},
    {OP(add, f64), 0, 0x7ff0000000000000, 0xfff0000000000000, 0, 0xfff8000000000000},
    {OP(fma, f64), 0, 0x3ff0000000000000, 0xfff800000000000b, 0x7ff000000000000c, 0x7ff800000000000c},
    {OP(min, f64), 0, 0x7ff800000000000a, 0x7ff000000000000b, 0, 0x7ff800000000000b},
    {OP(min, f64), 0, 0xfff000000000000a, 0xfff800000000000b, 0, 0xfff800000000000a},
    {OP(sqrt, f64), 0, 0xbff0000000000000, 0, 0, 0xfff8000000000000},
    {OP(add, f32), 0, 0x7fc12345, 0x3f800000, 0, 0x7fffffff}, {OP(add, f32), 0, 0x7f800000, 0xff800000, 0, 0x7fffffff},
    {OP(mul, f16), 0, 0x7c00, 0x0000, 0, 0x7fff}, {OP(add, f32), 0, 0x80000000, 0x00000000, 0, 0x00000000},
    /* flushing looks at the delivered value */
    {OP(mul, f32), TS_NUM_FTZ, 0x3f7fffff, 0x00800000, 0, 0}, {OP(mul, f32), TS_NUM_FTZ, 0x3f7ff800, 0x00800400, 0, 0x00800000},
    {OP(mul, f32), TS_NUM_FTZ, 0xbf7fffff, 0x00800000, 0, 0x80000000}, {OP(mul, f32), 0, 0x3f7fffff, 0x00800000, 0, 0x00800000},
    {OP(fma, f32), TS_NUM_FTZ, 0x3f7fffff, 0x00800000, 0x80000000, 0}, {OP(add, f32), TS_NUM_FTZ, 0x80000001, 0x80000001, 0, 0x80000000},
    /* directed roundings */
    {OP(add, f32), TS_NUM_RZ, 0x3f800000, 0x33000000, 0, 0x3f800000}, {OP(add, f32), TS_NUM_RP, 0x3f800000, 0x33000000, 0, 0x3f800001},
    {OP(add, f32), TS_NUM_RM, 0xbf800000, 0xb3000000, 0, 0xbf800001}, {OP(mul, f32), TS_NUM_RZ, 0x7f7fffff, 0x40000000, 0, 0x7f7fffff},
    {OP(add, f32), TS_NUM_RM, 0x3f800000, 0xbf800000, 0, 0x80000000}, {OP(div, f32), TS_NUM_RZ, 0x3f800000, 0x40400000, 0, 0x3eaaaaaa},
    {OP(div, f32), 0, 0x3f800000, 0x40400000, 0, 0x3eaaaaab}, {OP(sqrt, f32), TS_NUM_RP, 0x40000000, 0, 0, 0x3fb504f4},
    {OP(sqrt, f32), 0, 0x40000000, 0, 0, 0x3fb504f3}, {OP(fma, f64), TS_NUM_RZ, 0x3ff0000000000001, 0x3ff0000000000001, 0, 0x3ff0000000000002},
    /* integral values */
    {OP(floor, f32), 0, 0xbfc00000, 0, 0, 0xc0000000}, {OP(ceil, f32), 0, 0xbf000000, 0, 0, 0x80000000},
    {OP(round, f32), 0, 0x40200000, 0, 0, 0x40400000}, {OP(rint, f32), 0, 0x40200000, 0, 0, 0x40000000},
    {OP(round, f32), 0, 0x3effffff, 0, 0, 0x00000000}, {OP(round, f32), 0, 0xbf000000, 0, 0, 0xbf800000},
    {OP(round, f32), 0, 0x4b000001, 0, 0, 0x4b000001}, {OP(trunc, f32), 0, 0xbff00000, 0, 0, 0xbf800000},
    {OP(floor, f16), 0, 0xbe00, 0, 0, 0xc000}, {OP(rem, f32), 0, 0xc0b00000, 0x40000000, 0, 0xbfc00000},
    {OP(floormod, f32), 0, 0xc0b00000, 0x40000000, 0, 0x3f000000},
    /* classes, signs */
    {OP(isnan, f32), 0, 0xffc00000, 0, 0, 1}, {OP(isinf, f16), 0, 0xfc00, 0, 0, 1}, {OP(isfinite, f64), 0, 0x7ff0000000000000, 0, 0, 0},
    {OP(neg, f32), 0, 0x00000000, 0, 0, 0x80000000}, {OP(abs, bf16), 0, 0xff80, 0, 0, 0x7f80},
    {OP(copysign, f32), 0, 0x3f800000, 0x80000000, 0, 0xbf800000},
    {OP(lt, f32), 0, 0x7fc00000, 0x3f800000, 0, 0}, {OP(ne, f32), 0, 0x7fc00000, 0x7fc00000, 0, 1},
    {OP(eq, f16), 0, 0x8000, 0x0000, 0, 1}, {OP(ge, bf16), 0, 0x0000, 0x8000, 0, 1},
    /* special functions at their special operands */
    {OP(exp, f32), 0, 0x00000000, 0, 0, 0x3f800000}, {OP(exp, f32), 0, 0xff800000, 0, 0, 0}, {OP(exp, f32), 0, 0x7f800000, 0, 0, 0x7f800000},
    {OP(exp, f32), 0, 0x7fc00000, 0, 0, 0x7fffffff}, {OP(exp, f32), 0, 0x42b20000, 0, 0, 0x7f800000}, {OP(exp2, f32), 0, 0xc2fc0000, 0, 0, 0x00800000},
    {OP(exp2, f32), 0, 0xc3150000, 0, 0, 0x00000001}, {OP(exp2, f32), TS_NUM_FTZ, 0xc3150000, 0, 0, 0}, {OP(exp2, f32), 0, 0x41200000, 0, 0, 0x44800000},
    {OP(exp2, f32), 0, 0x43000000, 0, 0, 0x7f800000}, {OP(log, f32), 0, 0x3f800000, 0, 0, 0}, {OP(log, f32), 0, 0x80000000, 0, 0, 0xff800000},
    {OP(log, f32), 0, 0xbf800000, 0, 0, 0x7fffffff}, {OP(log, f32), 0, 0x7f800000, 0, 0, 0x7f800000}, {OP(log2, f32), 0, 0x41000000, 0, 0, 0x40400000},
    {OP(log2, f32), 0, 0x00000001, 0, 0, 0xc3150000}, {OP(log2, f32), TS_NUM_APPROX, 0x00000001, 0, 0, 0xc3150000},
    {OP(rsqrt, f32), 0, 0x40800000, 0, 0, 0x3f000000}, {OP(rsqrt, f32), 0, 0x80000000, 0, 0, 0xff800000}, {OP(rsqrt, f32), 0, 0x7f800000, 0, 0, 0},
    {OP(rsqrt, f32), 0, 0xbf800000, 0, 0, 0x7fffffff}, {OP(rcp, f32), 0, 0x80000000, 0, 0, 0xff800000}, {OP(rcp, f32), TS_NUM_APPROX, 0x7f000000, 0, 0, 0x00400000},
    {OP(sqrt, f32), 0, 0x80000000, 0, 0, 0x80000000}, {OP(sqrt, f32), TS_NUM_APPROX, 0xbf800000, 0, 0, 0x7fffffff},
    {OP(tanh, f32), 0, 0x80000000, 0, 0, 0x80000000}, {OP(tanh, f32), 0, 0xff800000, 0, 0, 0xbf800000}, {OP(tanh, f32), 0, 0x7fc00000, 0, 0, 0x7fffffff},
    {OP(sin, f32), TS_NUM_APPROX, 0x7f800000, 0, 0, 0x7fffffff}, {OP(cos, f32), TS_NUM_APPROX, 0, 0, 0, 0x3f800000}, {OP(sin, f32), 0, 0x80000000, 0, 0, 0x80000000},
    {OP(erf, f32), 0, 0x7f800000, 0, 0, 0x3f800000}, {OP(erf, f32), 0, 0xff800000, 0, 0, 0xbf800000}, {OP(sigmoid, f32), 0, 0, 0, 0, 0x3f000000},
    {OP(log1p, f32), 0, 0xbf800000, 0, 0, 0xff800000}, {OP(log1p, f32), 0, 0xc0000000, 0, 0, 0x7fffffff}, {OP(log1p, f32), 0, 0x80000000, 0, 0, 0x80000000},
    {OP(log1p, f32), 0, 0x7f800000, 0, 0, 0x7f800000}, {OP(expm1, f32), 0, 0xff800000, 0, 0, 0xbf800000}, {OP(expm1, f32), 0, 0x80000000, 0, 0, 0x80000000},
    {OP(exp, f16), 0, 0x0000, 0, 0, 0x3c00}, {OP(div, f32), TS_NUM_APPROX | TS_NUM_FTZ, 0x40c00000, 0x40000000, 0, 0x40400000},
    {OP(pow, f32), 0, 0x40000000, 0x41200000, 0, 0x44800000},
};
/* clang-format on */

static uint64_t evaluate(enum ts_num_op op, enum ts_dtype t, unsigned flags, uint64_t a, uint64_t b,
                         uint64_t c) {
  switch (ts_num_op_arity(op)) {
  case 1: return ts_num_eval1(op, t, flags, a);
  case 2: return ts_num_eval2(op, t, flags, a, b);
  default: return ts_num_eval3(op, t, flags, a, b, c);
  }
}

START_TEST(known_results) {
  for (size_t i = 0; i < sizeof knowns / sizeof knowns[0]; ++i) {
    const struct known *k = &knowns[i];
    uint64_t got = evaluate(k->op, k->dtype, k->flags, k->a, k->b, k->c);
    check(got == k->result, "%s %s flags %x of %llx %llx: %llx, not %llx", ts_num_op_name(k->op),
          ts_dtype_name(k->dtype), k->flags, (unsigned long long)k->a, (unsigned long long)k->b,
          (unsigned long long)got, (unsigned long long)k->result);
  }
}
END_TEST

/* Special functions ---------------------------------------------------------------------------- */

static float f32_of(uint64_t bits) {
  uint32_t narrow = (uint32_t)bits;
  float value;
  memcpy(&value, &narrow, sizeof value);
  return value;
}

/* Distance in units of the last place of the correctly rounded result. */
static double error_ulp(double exact, float got) {
  if (isnan(exact) && isnan(got)) return 0;
  if (isinf(exact) || isinf(got) || isnan(got))
    return (double)got == (double)(float)exact ? 0 : 1e9;
  int exponent;
  frexp(exact, &exponent);
  return fabs((double)got - exact) / ldexp(1, (exponent < -125 ? -125 : exponent) - 24);
}

static double host_exp10(double x) { return pow(10, x); }
static double host_rsqrt(double x) { return 1 / sqrt(x); }
static double host_sigmoid(double x) { return 1 / (1 + exp(-x)); }

static const struct {
  enum ts_num_op op;
  unsigned flags;
  double (*host)(double);
  double low, high, bound_ulp;
} functions[] = {
    {TS_NUM_exp, 0, exp, -87, 88.7, 2},
    {TS_NUM_exp2, 0, exp2, -126, 127.9, 2},
    {TS_NUM_exp10, 0, host_exp10, -37, 38, 2},
    {TS_NUM_log, 0, log, 1e-38, 1e38, 1.0},
    {TS_NUM_log, 0, log, 0.5, 2, 1.0},
    {TS_NUM_log2, 0, log2, 0.5, 2, 1.2},
    {TS_NUM_log10, 0, log10, 0.5, 100, 2.1},
    {TS_NUM_log1p, 0, log1p, -0.9, 100, 1.1},
    {TS_NUM_tanh, 0, tanh, -10, 10, 2},
    {TS_NUM_erf, 0, erf, -4, 4, 2},
    {TS_NUM_expm1, 0, expm1, -20, 20, 2},
    {TS_NUM_rsqrt, 0, host_rsqrt, 1e-30, 1e30, 2},
    {TS_NUM_sin, 0, sin, -100, 100, 2},
    {TS_NUM_cos, 0, cos, -100, 100, 2},
    {TS_NUM_sigmoid, 0, host_sigmoid, -20, 20, 3},
    {TS_NUM_exp2, TS_NUM_APPROX, exp2, -9, 9, 2},
    {TS_NUM_log2, TS_NUM_APPROX, log2, 4, 1e3, 2},
};

START_TEST(special_functions_are_accurate) {
  uint64_t state = 11;
  for (size_t f = 0; f < sizeof functions / sizeof functions[0]; ++f) {
    for (int i = 0; i < 4000; ++i) {
      double unit = (double)(random64(&state) >> 11) * 0x1p-53;
      float x = (float)(functions[f].low + (functions[f].high - functions[f].low) * unit);
      uint32_t bits;
      memcpy(&bits, &x, sizeof bits);
      float got = f32_of(ts_num_eval1(functions[f].op, TS_DTYPE_f32, functions[f].flags, bits));
      double error = error_ulp(functions[f].host((double)x), got);
      check(error <= functions[f].bound_ulp, "%s(%a) = %a, off by %g ulp",
            ts_num_op_name(functions[f].op), (double)x, (double)got, error);
    }
  }
}
END_TEST

/* All instruction sets give the same bits for every operation there is. */
START_TEST(instruction_sets_agree) {
  static const enum ts_dtype types[] = {TS_DTYPE_f32, TS_DTYPE_f16, TS_DTYPE_bf16, TS_DTYPE_f64};
  static const unsigned variants[] = {0, TS_NUM_FTZ, TS_NUM_APPROX, TS_NUM_FTZ | TS_NUM_APPROX};
  uint64_t state = 23, a[COUNT], b[COUNT], base[COUNT], d[COUNT];
  for (unsigned isa = TS_ISA_AVX2; isa <= (unsigned)ts_num_isa(); ++isa)
    for (unsigned o = 0; o < TS_NUM_OP_COUNT; ++o)
      for (size_t t = 0; t < 4; ++t)
        for (size_t v = 0; v < 4; ++v) {
          enum ts_num_op op = (enum ts_num_op)o;
          const struct ts__elementwise *portable = ts__elementwise_of(TS_ISA_PORTABLE);
          const struct ts__elementwise *kernels = ts__elementwise_of((enum ts_isa)isa);
          bool unary = ts_num_op_arity(op) == 1;
          if (ts_num_op_arity(op) == 3) continue;
          if (unary ? portable->unary(op, types[t], variants[v]) == NULL
                    : portable->binary(op, types[t], variants[v]) == NULL)
            continue;
          for (int round = 0; round < 20; ++round) {
            for (size_t i = 0; i < COUNT; ++i) {
              set(types[t], a, i, random_float(types[t], &state));
              set(types[t], b, i, random_float(types[t], &state));
            }
            memset(base, 0, sizeof base);
            memset(d, 0, sizeof d);
            if (unary) {
              portable->unary(op, types[t], variants[v])(base, a, COUNT);
              kernels->unary(op, types[t], variants[v])(d, a, COUNT);
            } else {
              portable->binary(op, types[t], variants[v])(base, a, b, COUNT);
              kernels->binary(op, types[t], variants[v])(d, a, b, COUNT);
            }
            check(memcmp(base, d, sizeof d) == 0, "%s %s variant %u on %s", ts_num_op_name(op),
                  ts_dtype_name(types[t]), variants[v], ts_isa_name((enum ts_isa)isa));
          }
        }
}
END_TEST

START_TEST(undefined_operations) {
  ck_assert(ts_num_unary(TS_NUM_add, TS_DTYPE_f32, 0) == NULL);
  ck_assert(ts_num_binary(TS_NUM_and, TS_DTYPE_f32, 0) == NULL);
  ck_assert(ts_num_binary(TS_NUM_add, TS_DTYPE_NONE, 0) == NULL);
  ck_assert(ts_num_compare(TS_NUM_add, TS_DTYPE_f32) == NULL);
  ck_assert(ts_num_compare(TS_NUM_lt, TS_DTYPE_s8) != NULL);
  ck_assert(ts_num_binary(TS_NUM_add, TS_DTYPE_f16, TS_NUM_RM) == NULL);
  ck_assert_uint_eq(ts_num_eval1(TS_NUM_sin, TS_DTYPE_s32, 0, 5), 0);
}
END_TEST

/* dst may be an operand. */
START_TEST(in_place) {
  uint32_t a[COUNT], b[COUNT];
  for (uint32_t i = 0; i < COUNT; ++i)
    a[i] = i, b[i] = 100 + i;
  ts_num_binary(TS_NUM_sub, TS_DTYPE_s32, 0)(b, b, a, COUNT);
  for (uint32_t i = 0; i < COUNT; ++i)
    ck_assert_uint_eq(b[i], 100);
  ts_num_convert(TS_DTYPE_f32, TS_DTYPE_s32, 0)(a, a, COUNT);
  ck_assert_uint_eq(a[3], 0x40400000);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("num_elementwise");
  TCase *group = tcase_create("elementwise");
  tcase_set_timeout(group, 120);
  tcase_add_loop_test(group, arithmetic, TS_ISA_PORTABLE, TS_ISA_COUNT);
  tcase_add_loop_test(group, conversions, TS_ISA_PORTABLE, TS_ISA_COUNT);
  tcase_add_loop_test(group, integers, TS_ISA_PORTABLE, TS_ISA_COUNT);
  tcase_add_test(group, bit_operations);
  tcase_add_test(group, known_results);
  tcase_add_test(group, special_functions_are_accurate);
  tcase_add_test(group, instruction_sets_agree);
  tcase_add_test(group, undefined_operations);
  tcase_add_test(group, in_place);
  suite_add_tcase(suite, group);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
