/* The elementwise kernels and their tables. Compiled once per instruction set: the including file
 * defines ELEMENTWISE_TABLE, the name of the ts__elementwise it makes.
 * Reading order: loop makers, operations by type, conversions, tables, look-ups. */
#include "num/elementwise_double.h"
#include "num/elementwise_half.h"
#include "num/elementwise_library.h"
#include "num/elementwise_math.h"
#include "num/elementwise_trig.h"

#if defined(__clang__)
/* Loops around host library calls stay scalar, which is fine. */
#pragma clang diagnostic ignored "-Wpass-failed"
#define NO_CARRIED_DEPENDENCE _Pragma("clang loop vectorize(assume_safety)")
#else
#define NO_CARRIED_DEPENDENCE _Pragma("GCC ivdep")
#endif

/* dst may be an operand: element i is read before it is written, so the loops stay vectorisable. */
#define UNARY(name, out, in, expression)                                                           \
  static void name(void *dst, const void *pa, size_t n) {                                          \
    out *d = dst;                                                                                  \
    const in *va = pa;                                                                             \
    NO_CARRIED_DEPENDENCE for (size_t i = 0; i < n; ++i) {                                         \
      in a = va[i];                                                                                \
      d[i] = (out)(expression);                                                                    \
    }                                                                                              \
  }
#define BINARY(name, out, in, expression)                                                          \
  static void name(void *dst, const void *pa, const void *pb, size_t n) {                          \
    out *d = dst;                                                                                  \
    const in *va = pa, *vb = pb;                                                                   \
    NO_CARRIED_DEPENDENCE for (size_t i = 0; i < n; ++i) {                                         \
      in a = va[i], b = vb[i];                                                                     \
      d[i] = (out)(expression);                                                                    \
    }                                                                                              \
  }
#define TERNARY(name, out, in, expression)                                                         \
  static void name(void *dst, const void *pa, const void *pb, const void *pc, size_t n) {          \
    out *d = dst;                                                                                  \
    const in *va = pa, *vb = pb, *vc = pc;                                                         \
    NO_CARRIED_DEPENDENCE for (size_t i = 0; i < n; ++i) {                                         \
      in a = va[i], b = vb[i], c = vc[i];                                                          \
      d[i] = (out)(expression);                                                                    \
    }                                                                                              \
  }

/* Floats: T is the table's name for the type (f32_ftz is f32 with flushing), S its slot. -------- */

#define FLOAT_ARITHMETIC(T)                                                                        \
  BINARY(T##_add, uint32_t, uint32_t, T##_store(T##_load(a) + T##_load(b)))                        \
  BINARY(T##_sub, uint32_t, uint32_t, T##_store(T##_load(a) - T##_load(b)))                        \
  BINARY(T##_div, uint32_t, uint32_t, T##_store(T##_load(a) / T##_load(b)))
#define FLOAT_PRODUCTS(T)                                                                          \
  BINARY(T##_mul, uint32_t, uint32_t, T##_store(T##_load(a) * T##_load(b)))                        \
  TERNARY(T##_fma, uint32_t, uint32_t, T##_store(T##_fused(T##_load(a), T##_load(b), T##_load(c))))

#define FLOAT_COMPARE(T, S)                                                                        \
  BINARY(T##_eq, uint32_t, S, T##_load(a) == T##_load(b))                                          \
  BINARY(T##_ne, uint32_t, S, T##_load(a) != T##_load(b))                                          \
  BINARY(T##_lt, uint32_t, S, T##_load(a) < T##_load(b))                                           \
  BINARY(T##_le, uint32_t, S, T##_load(a) <= T##_load(b))                                          \
  BINARY(T##_gt, uint32_t, S, T##_load(a) > T##_load(b))                                           \
  BINARY(T##_ge, uint32_t, S, T##_load(a) >= T##_load(b))

/* Functions of the host type F with builtin suffix x. */
#define FLOAT_INTEGRAL(T, S, x)                                                                    \
  UNARY(T##_floor, S, S, T##_result1(__builtin_floor##x(T##_load(a)), a))                          \
  UNARY(T##_ceil, S, S, T##_result1(__builtin_ceil##x(T##_load(a)), a))                            \
  UNARY(T##_trunc, S, S, T##_result1(__builtin_trunc##x(T##_load(a)), a))                          \
  UNARY(T##_rint, S, S, T##_result1(__builtin_rint##x(T##_load(a)), a))                            \
  UNARY(T##_sqrt, S, S, T##_result1(__builtin_sqrt##x(T##_load(a)), a))                            \
  UNARY(T##_rcp, S, S, T##_result1(1 / T##_load(a), a))                                            \
  BINARY(T##_floordiv, S, S, T##_store(__builtin_floor##x(T##_load(a) / T##_load(b))))             \
  BINARY(T##_rem, S, S, T##_store(__builtin_fmod##x(T##_load(a), T##_load(b))))                    \
  BINARY(T##_floormod, S, S, T##_store(floor_mod##x(T##_load(a), T##_load(b))))

/* Functions of the bits alone: W bits, N the canonical NaN (all magnitude bits), I infinity. */
#define FLOAT_BITS(T, S, W, N, I)                                                                  \
  UNARY(T##_neg, S, S, (a & (N)) > (I) ? T##_nan(a) : a ^ (S)1 << (W - 1))                         \
  UNARY(T##_abs, S, S, (a & (N)) > (I) ? T##_nan(a) : a & (N))                                     \
  BINARY(T##_copysign, S, S, (a & (N)) | (b & (S)1 << (W - 1)))                                    \
  UNARY(T##_isnan, uint32_t, S, (a & (N)) > (I))                                                   \
  UNARY(T##_isinf, uint32_t, S, (a & (N)) == (I))                                                  \
  UNARY(T##_isfinite, uint32_t, S, (a & (N)) < (I))

/* What becomes of a NaN operand, and results of one operand. */
#define f32_nan(a) 0x7fffffffu
#define f16_nan(a) 0x7fffu
#define bf16_nan(a) 0x7fffu
#define f64_nan(a) f64_quiet(a)
#define f32_result1(value, a) f32_store(value)
#define f16_result1(value, a) f16_store(value)
#define bf16_result1(value, a) bf16_store(value)

#define FLOAT_PICK(T, IN, KEY, N, I)                                                               \
  BINARY(T##_min, uint32_t, uint32_t, pick32(IN(a), IN(b), KEY(IN(a)) < KEY(IN(b)), I, N, false))  \
  BINARY(T##_max, uint32_t, uint32_t, pick32(IN(a), IN(b), KEY(IN(a)) > KEY(IN(b)), I, N, false))  \
  BINARY(T##_min_nan, uint32_t, uint32_t,                                                          \
         pick32(IN(a), IN(b), KEY(IN(a)) < KEY(IN(b)), I, N, true))                                \
  BINARY(T##_max_nan, uint32_t, uint32_t, pick32(IN(a), IN(b), KEY(IN(a)) > KEY(IN(b)), I, N, true))

#define SAME_BITS(a) (a)

LANE float floor_modf(float a, float b) {
  float r = __builtin_fmodf(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

LANE double floor_mod(double a, double b) {
  double r = __builtin_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

FLOAT_ARITHMETIC(f32)
FLOAT_ARITHMETIC(f32_ftz)
FLOAT_ARITHMETIC(f16)
FLOAT_ARITHMETIC(bf16)
FLOAT_PRODUCTS(f32)
FLOAT_PRODUCTS(f16)
FLOAT_PRODUCTS(bf16)
BINARY(f32_ftz_mul, uint32_t, uint32_t, f32_ftz_product(f32_ftz_load(a), f32_ftz_load(b)))
TERNARY(f32_ftz_fma, uint32_t, uint32_t,
        f32_ftz_sum_of_product(f32_ftz_load(a), f32_ftz_load(b), f32_ftz_load(c)))
BINARY(f64_add, uint64_t, uint64_t, f64_result2(f64_load(a) + f64_load(b), a, b))
/* A subtraction adds a to -b: b's NaN goes first, its sign kept. */
BINARY(f64_sub, uint64_t, uint64_t, f64_result2(f64_load(a) - f64_load(b), b, a))
BINARY(f64_mul, uint64_t, uint64_t, f64_result2(f64_load(a) * f64_load(b), a, b))
BINARY(f64_div, uint64_t, uint64_t, f64_result2(f64_load(a) / f64_load(b), a, b))
TERNARY(f64_fma, uint64_t, uint64_t,
        f64_result3(f64_fused(f64_load(a), f64_load(b), f64_load(c)), a, b, c))
FLOAT_COMPARE(f32, uint32_t)
FLOAT_COMPARE(f16, uint32_t)
FLOAT_COMPARE(bf16, uint32_t)
FLOAT_COMPARE(f64, uint64_t)
FLOAT_INTEGRAL(f32, uint32_t, f)
FLOAT_INTEGRAL(f16, uint32_t, f)
FLOAT_INTEGRAL(bf16, uint32_t, f)
FLOAT_INTEGRAL(f64, uint64_t, )
FLOAT_BITS(f32, uint32_t, 32, 0x7fffffffu, 0x7f800000u)
FLOAT_BITS(f16, uint32_t, 16, 0x7fffu, 0x7c00u)
FLOAT_BITS(bf16, uint32_t, 16, 0x7fffu, 0x7f80u)
FLOAT_BITS(f64, uint64_t, 64, UINT64_C(0x7fffffffffffffff), UINT64_C(0x7ff0000000000000))
FLOAT_PICK(f32, SAME_BITS, f32_key, 0x7fffffffu, 0x7f800000u)
FLOAT_PICK(f32_ftz, flush, f32_key, 0x7fffffffu, 0x7f800000u)
FLOAT_PICK(f16, SAME_BITS, f16_key, 0x7fffu, 0x7c00u)
FLOAT_PICK(bf16, SAME_BITS, f16_key, 0x7fffu, 0x7f80u)
BINARY(f64_min, uint64_t, uint64_t, pick64(a, b, f64_key(a) < f64_key(b), false))
BINARY(f64_max, uint64_t, uint64_t, pick64(a, b, f64_key(a) > f64_key(b), false))
BINARY(f64_min_nan, uint64_t, uint64_t, pick64(a, b, f64_key(a) < f64_key(b), true))
BINARY(f64_max_nan, uint64_t, uint64_t, pick64(a, b, f64_key(a) > f64_key(b), true))
UNARY(f32_ftz_sqrt, uint32_t, uint32_t, f32_ftz_store(__builtin_sqrtf(f32_ftz_load(a))))
UNARY(f32_ftz_rcp, uint32_t, uint32_t, f32_ftz_store(1 / f32_ftz_load(a)))

/* Special functions: the f32 lane, and the 16-bit types through it or with lanes of their own. */
#define EACH_OWN(op, lane)                                                                         \
  UNARY(f32_##op, uint32_t, uint32_t, f32_store(lane(f32_load(a))))                                \
  UNARY(f16_##op, uint32_t, uint32_t, f16_##op##_lane(a))                                          \
  UNARY(bf16_##op, uint32_t, uint32_t, bf16_##op##_lane(a))
#define VIA_F32(op, lane)                                                                          \
  UNARY(f32_##op, uint32_t, uint32_t, f32_store(lane(f32_load(a))))                                \
  UNARY(f16_##op, uint32_t, uint32_t, f16_store(lane(f16_load(a))))                                \
  UNARY(bf16_##op, uint32_t, uint32_t, bf16_store(lane(bf16_load(a))))

/* Library functions of the host in binary64. */
#define F64_HOST(op) UNARY(f64_##op, uint64_t, uint64_t, f64_store(op(f64_load(a))))

LANE float sigmoid_lane(float x) { return 1.0f / (1.0f + f32_exp_lane(-x)); }

EACH_OWN(exp, f32_exp_lane)
EACH_OWN(exp2, ex2_approx)
EACH_OWN(exp10, f32_exp10_lane)
VIA_F32(expm1, f32_expm1_lane)
EACH_OWN(log, f32_log_lane)
EACH_OWN(log2, f32_log2_lane)
EACH_OWN(log10, f32_log10_lane)
VIA_F32(log1p, f32_log1p_lane)
VIA_F32(rsqrt, rsqrt_approx)
VIA_F32(sigmoid, sigmoid_lane)
VIA_F32(round, round_away)
VIA_F32(asin, f32_asin_lane)
VIA_F32(acos, f32_acos_lane)
VIA_F32(atan, f32_atan_lane)
VIA_F32(sinh, f32_sinh_lane)
VIA_F32(cosh, f32_cosh_lane)
F64_HOST(sin)
F64_HOST(cos)
F64_HOST(tan)
F64_HOST(asin)
F64_HOST(acos)
F64_HOST(atan)
F64_HOST(sinh)
F64_HOST(cosh)
F64_HOST(exp)
F64_HOST(exp2)
F64_HOST(expm1)
F64_HOST(log2)
F64_HOST(log10)
F64_HOST(log1p)
F64_HOST(tanh)
F64_HOST(erf)
F64_HOST(round)
UNARY(f64_log, uint64_t, uint64_t, f64_store(f64_log_lane(f64_load(a))))
UNARY(f64_sinpi, uint64_t, uint64_t, f64_store(f64_sinpi_lane(f64_load(a))))
UNARY(f64_cospi, uint64_t, uint64_t, f64_store(f64_cospi_lane(f64_load(a))))
UNARY(f64_exp10, uint64_t, uint64_t, f64_store(pow(10.0, f64_load(a))))
UNARY(f64_rsqrt, uint64_t, uint64_t, f64_store(1.0 / __builtin_sqrt(f64_load(a))))
UNARY(f64_sigmoid, uint64_t, uint64_t, f64_store(1.0 / (1.0 + exp(-f64_load(a)))))
#define POWER(T) f32_pow_lane(T##_load(a), T##_load(b))
BINARY(f32_pow, uint32_t, uint32_t, f32_store(POWER(f32)))
BINARY(f16_pow, uint32_t, uint32_t, f16_store(POWER(f16)))
BINARY(bf16_pow, uint32_t, uint32_t, bf16_store(POWER(bf16)))
BINARY(f64_pow, uint64_t, uint64_t, f64_store(pow(f64_load(a), f64_load(b))))

/* Functions in two steps, op_first(x) and op_second(x, first), through a piece of memory. */
#define TWO_STEPS(op, T)                                                                           \
  UNARY(T##_##op##_first, uint32_t, uint32_t, bits_of(op##_first(T##_load(a))))                    \
  BINARY(T##_##op##_second, uint32_t, uint32_t, T##_store(op##_second(T##_load(a), float_of(b))))  \
  static void T##_##op(void *dst, const void *pa, size_t n) {                                      \
    uint32_t first[64];                                                                            \
    for (size_t start = 0; start < n; start += 64) {                                               \
      const uint32_t *a = (const uint32_t *)pa + start;                                            \
      size_t count = n - start < 64 ? n - start : 64;                                              \
      T##_##op##_first(first, a, count);                                                           \
      T##_##op##_second((uint32_t *)dst + start, a, first, count);                                 \
    }                                                                                              \
  }
TWO_STEPS(tanh, f32)
TWO_STEPS(tanh, f16)
TWO_STEPS(tanh, bf16)
TWO_STEPS(erf, f32)
TWO_STEPS(erf, f16)
TWO_STEPS(erf, bf16)

/* Far arguments are rare and cost twice as much: a piece without any takes the near way. */
enum { TRIG_PIECE = 64 };

LANE float sin_near(float x) { return trig_sine(x, trig_near(x), 0); }
LANE float cos_near(float x) { return trig_sine(x, trig_near(x), 1); }
LANE float tan_near(float x) { return trig_tangent(x, trig_near(x)); }
LANE float sin_any(float x) { return trig_sine(x, trig_any(x), 0); }
LANE float cos_any(float x) { return trig_sine(x, trig_any(x), 1); }
LANE float tan_any(float x) { return trig_tangent(x, trig_any(x)); }

#define TRIG_TYPE(op, T)                                                                           \
  UNARY(T##_##op##_near, uint32_t, uint32_t, T##_store(op##_near(T##_load(a))))                    \
  UNARY(T##_##op##_any, uint32_t, uint32_t, T##_store(op##_any(T##_load(a))))                      \
  static void T##_##op(void *dst, const void *pa, size_t n) {                                      \
    uint32_t *d = dst;                                                                             \
    const uint32_t *a = pa;                                                                        \
    for (size_t start = 0; start < n; start += TRIG_PIECE) {                                       \
      size_t count = n - start < TRIG_PIECE ? n - start : TRIG_PIECE;                              \
      uint32_t far = 0;                                                                            \
      for (size_t i = 0; i < count; ++i)                                                           \
        far |= trig_is_far(bits_of(T##_load(a[start + i])));                                       \
      (far ? T##_##op##_any : T##_##op##_near)(d + start, a + start, count);                       \
    }                                                                                              \
  }

TRIG_TYPE(sin, f32)
TRIG_TYPE(cos, f32)
TRIG_TYPE(tan, f32)
TRIG_TYPE(sin, bf16)
TRIG_TYPE(cos, bf16)
TRIG_TYPE(tan, bf16)
TRIG_TYPE(tan, f16)
UNARY(f16_sin, uint32_t, uint32_t, f16_sin_lane(a))
UNARY(f16_cos, uint32_t, uint32_t, f16_cos_lane(a))

/* Fast-math forms, without and with flushing. */
LANE float fast_exp(float x) { return ex2_approx(x * float_of(0x3fb8aa3bu)); }

LANE float fast_exp10(float x) { return ex2_approx(x * float_of(0x40549a78u)); }

LANE float fast_log(float x) { return lg2_approx(x) * float_of(0x3f317218u); }

LANE float fast_log10(float x) { return lg2_approx(x) * float_of(0x3e9a209bu); }

LANE float fast_sin(float x) { return core_sin(x, 0); }

LANE float fast_cos(float x) { return core_sin(x, 1); }

LANE float fast_tan(float x) { return core_sin(x, 0) * core_rcp(core_sin(x, 1)); }

#define FAST(op, lane)                                                                             \
  UNARY(f32_##op##_fast, uint32_t, uint32_t, f32_store(lane(f32_load(a))))                         \
  UNARY(f32_##op##_fast_ftz, uint32_t, uint32_t, f32_ftz_store(lane(f32_ftz_load(a))))

FAST(exp, fast_exp)
FAST(exp2, ex2_approx)
FAST(exp10, fast_exp10)
FAST(log, fast_log)
FAST(log2, lg2_approx)
FAST(log10, fast_log10)
FAST(sin, fast_sin)
FAST(cos, fast_cos)
FAST(tan, fast_tan)
FAST(tanh, core_tanh)
FAST(rcp, rcp_approx)
FAST(rsqrt, rsqrt_approx)
FAST(sqrt, sqrt_approx)
BINARY(f32_div_fast, uint32_t, uint32_t, f32_store(div_full(f32_load(a), f32_load(b))))
BINARY(f32_div_fast_ftz, uint32_t, uint32_t,
       f32_ftz_store(f32_ftz_load(a) * core_rcp(f32_ftz_load(b))))

/* The unit's 16-bit forms: the f32 result cut to the format, Inf beyond its range. MEASURED: equal
 * to an H200 for all 65536 arguments each (tests/unit/test_num_functions.c). */
LANE uint32_t f16_truncate(float value) {
  uint32_t bits = bits_of(value), size = bits & 0x7fffffffu;
  bool tiny = size < 113u << 23, large = size >= 0x47800000u;
  uint32_t subnormal = (uint32_t)(int32_t)((tiny ? float_of(size) : 0.0f) * 0x1p24f);
  uint32_t result = tiny ? subnormal : (size - (112u << 23)) >> 13;
  result = large ? 0x7c00u : result;
  return size > 0x7f800000u ? 0x7fffu : result | (bits >> 16 & 0x8000u);
}

LANE uint32_t bf16_truncate(float value) {
  uint32_t bits = bits_of(value);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : bits >> 16;
}

UNARY(f16_exp2_fast, uint32_t, uint32_t, f16_truncate(core_ex2(f16_load(a))))
UNARY(bf16_exp2_fast, uint32_t, uint32_t, bf16_truncate(core_ex2(bf16_load(a))))
UNARY(f16_tanh_fast, uint32_t, uint32_t, f16_truncate(core_tanh(f16_load(a))))
UNARY(bf16_tanh_fast, uint32_t, uint32_t, bf16_truncate(core_tanh(bf16_load(a))))

#define FAST_POWER(a, b) ex2_approx((b)*lg2_approx(a))
BINARY(f32_pow_fast, uint32_t, uint32_t, f32_store(FAST_POWER(f32_load(a), f32_load(b))))
BINARY(f32_pow_fast_ftz, uint32_t, uint32_t,
       f32_ftz_store(FAST_POWER(f32_ftz_load(a), f32_ftz_load(b))))

/* Integers: T name, C type to compute in (that of the slot, with its sign), NORM brings a result
 * back to a slot of W bits. -------------------------------------------------------------------- */

#define EXTEND(W) (uint32_t)((int32_t)((uint32_t)(r) << (32 - (W))) >> (32 - (W)))
#define MASK(W) ((uint32_t)(r) & (uint32_t)(UINT64_MAX >> (64 - (W))))

LANE uint32_t normal_s4(uint32_t r) { return EXTEND(4); }
LANE uint32_t normal_u4(uint32_t r) { return MASK(4); }
LANE uint32_t normal_s8(uint32_t r) { return EXTEND(8); }
LANE uint32_t normal_u8(uint32_t r) { return MASK(8); }
LANE uint32_t normal_s16(uint32_t r) { return EXTEND(16); }
LANE uint32_t normal_u16(uint32_t r) { return MASK(16); }
LANE uint32_t normal_s32(uint32_t r) { return r; }
LANE uint32_t normal_u32(uint32_t r) { return r; }
LANE uint64_t normal_s64(uint64_t r) { return r; }
LANE uint64_t normal_u64(uint64_t r) { return r; }

LANE int32_t multiply_high_s32(int32_t a, int32_t b) { return (int32_t)((int64_t)a * b >> 32); }

LANE uint32_t multiply_high_u32(uint32_t a, uint32_t b) {
  return (uint32_t)((uint64_t)a * b >> 32);
}

__extension__ typedef __int128 signed_wide;

LANE int64_t multiply_high_s64(int64_t a, int64_t b) { return (int64_t)((signed_wide)a * b >> 64); }

LANE uint64_t multiply_high_u64(uint64_t a, uint64_t b) {
  return (uint64_t)((ts__u128)a * b >> 64);
}

/* For 4 to 16 bits the product fits 32. */
#define NARROW_MULTIPLY_HIGH(T, C, W)                                                              \
  LANE C multiply_high_##T(C a, C b) { return (C)(a * b) >> W; }
NARROW_MULTIPLY_HIGH(s4, int32_t, 4)
NARROW_MULTIPLY_HIGH(u4, uint32_t, 4)
NARROW_MULTIPLY_HIGH(s8, int32_t, 8)
NARROW_MULTIPLY_HIGH(u8, uint32_t, 8)
NARROW_MULTIPLY_HIGH(s16, int32_t, 16)
NARROW_MULTIPLY_HIGH(u16, uint32_t, 16)

/* floor(a / b) from trunc(a / b): one less when the remainder and b have opposite signs, and for b = 0,
 * where TVM's expansion finds the remainder -1 below 0. Computed unsigned, where INT_MIN / -1 wraps. */
#define FLOOR_QUOTIENT(C, S, q)                                                                    \
  ((S)(q) - (S)(b == 0 || ((S)a != (S)(q) * (S)b && ((a < 0) != (b < 0)))))

/* Integer kernels read slots as the signed or unsigned C type. */
#define INTEGER(T, C, S, W, D)                                                                     \
  BINARY(T##_add, S, C, normal_##T((S)a + (S)b))                                                   \
  BINARY(T##_sub, S, C, normal_##T((S)a - (S)b))                                                   \
  BINARY(T##_mul, S, C, normal_##T((S)a *(S)b))                                                    \
  BINARY(T##_mulhi, S, C, normal_##T((S)multiply_high_##T(a, b)))                                  \
  BINARY(T##_div, S, C, normal_##T((S)D(a, b)))                                                    \
  BINARY(T##_rem, S, C, normal_##T(b == 0 ? (S)-1 : (S)a - (S)D(a, b) * (S)b))                     \
  BINARY(T##_min, S, C, a < b ? a : b)                                                             \
  BINARY(T##_max, S, C, a > b ? a : b)                                                             \
  BINARY(T##_and, S, C, a &b)                                                                      \
  BINARY(T##_or, S, C, a | b)                                                                      \
  BINARY(T##_xor, S, C, a ^ b)                                                                     \
  BINARY(T##_shl, S, C, (S)b >= (W) ? (S)0 : normal_##T((S)a << ((S)b & ((W)-1))))                 \
  BINARY(T##_shr, S, C, a >> ((S)b >= (W) ? (S)(W)-1 : (S)b) >> ((S)b >= (W)))                     \
  BINARY(T##_eq, uint32_t, C, a == b)                                                              \
  BINARY(T##_ne, uint32_t, C, a != b)                                                              \
  BINARY(T##_lt, uint32_t, C, a < b)                                                               \
  BINARY(T##_le, uint32_t, C, a <= b)                                                              \
  BINARY(T##_gt, uint32_t, C, a > b)                                                               \
  BINARY(T##_ge, uint32_t, C, a >= b)                                                              \
  TERNARY(T##_fma, S, C, normal_##T((S)a *(S)b + (S)c))                                            \
  UNARY(T##_neg, S, C, normal_##T(0 - (S)a))                                                       \
  UNARY(T##_not, S, C, normal_##T(~(S)a))

#define SIGNED_INTEGER(T, C, S, W, D)                                                              \
  INTEGER(T, C, S, W, D)                                                                           \
  BINARY(T##_floordiv, S, C, normal_##T(FLOOR_QUOTIENT(C, S, D(a, b))))                            \
  BINARY(T##_floormod, S, C,                                                                       \
         normal_##T(b == 0 ? (S)-1 : (S)a - FLOOR_QUOTIENT(C, S, D(a, b)) * (S)b))                 \
  UNARY(T##_abs, S, C, normal_##T(a < 0 ? 0 - (S)a : (S)a))

#define UNSIGNED_INTEGER(T, S, W, D)                                                               \
  INTEGER(T, S, S, W, D)                                                                           \
  BINARY(T##_floordiv, S, S, normal_##T(D(a, b)))                                                  \
  BINARY(T##_floormod, S, S, normal_##T(b == 0 ? (S)-1 : a - D(a, b) * b))                         \
  UNARY(T##_abs, S, S, a)

#define BIT_COUNTS(T, S, W)                                                                        \
  UNARY(T##_popc, S, S, (S)__builtin_popcountll((uint64_t)a &(UINT64_MAX >> (64 - (W)))))          \
  UNARY(T##_clz, S, S, leading_zeros((uint64_t)a &(UINT64_MAX >> (64 - (W))), W))

LANE uint32_t leading_zeros(uint64_t value, unsigned width) {
  return value == 0 ? width : (uint32_t)__builtin_clzll(value) - (64 - width);
}

SIGNED_INTEGER(s4, int32_t, uint32_t, 4, divide_s32)
SIGNED_INTEGER(s8, int32_t, uint32_t, 8, divide_s32)
SIGNED_INTEGER(s16, int32_t, uint32_t, 16, divide_s32)
SIGNED_INTEGER(s32, int32_t, uint32_t, 32, divide_s32)
SIGNED_INTEGER(s64, int64_t, uint64_t, 64, divide_s64)
UNSIGNED_INTEGER(u4, uint32_t, 4, divide_u32)
UNSIGNED_INTEGER(u8, uint32_t, 8, divide_u32)
UNSIGNED_INTEGER(u16, uint32_t, 16, divide_u32)
UNSIGNED_INTEGER(u32, uint32_t, 32, divide_u32)
UNSIGNED_INTEGER(u64, uint64_t, 64, divide_u64)
BIT_COUNTS(s4, uint32_t, 4)
BIT_COUNTS(u4, uint32_t, 4)
BIT_COUNTS(s8, uint32_t, 8)
BIT_COUNTS(u8, uint32_t, 8)
BIT_COUNTS(s16, uint32_t, 16)
BIT_COUNTS(u16, uint32_t, 16)
BIT_COUNTS(s32, uint32_t, 32)
BIT_COUNTS(u32, uint32_t, 32)
BIT_COUNTS(s64, uint64_t, 64)
BIT_COUNTS(u64, uint64_t, 64)
UNARY(pred_not, uint32_t, uint32_t, a ^ 1u)

/* Conversions ---------------------------------------------------------------------------------- */

#define CONVERT(dst, src, out, in, expression) UNARY(dst##_from_##src, out, in, expression)

/* f32 -> integer: values are clamped before the host conversion, which then cannot overflow. */
LANE uint32_t s32_of(float value) {
  float bounded = value < -2147483648.0f ? -2147483648.0f : value;
  bool high = bounded >= 2147483648.0f;
  bounded = high || value != value ? 0.0f : bounded;
  return high ? 0x7fffffffu : (uint32_t)(int32_t)bounded;
}

LANE uint32_t u32_of(float value) {
  float bounded = value > 0.0f ? value : 0.0f;
  bool high = bounded >= 4294967296.0f, upper = bounded >= 2147483648.0f;
  float part = high ? 0.0f : upper ? bounded - 2147483648.0f : bounded;
  return high ? UINT32_MAX : (uint32_t)(int32_t)part + (upper ? 0x80000000u : 0u);
}

/* RNE with saturation: normal results by integer rounding, subnormal ones by a float addition. */
LANE uint32_t small_store(float value, unsigned mantissa, uint32_t least_normal, float magic,
                          uint32_t bias_gap, uint32_t most) {
  uint32_t bits = bits_of(value), magnitude = bits & 0x7fffffffu;
  unsigned drop = 23 - mantissa;
  uint32_t normal =
      (magnitude - bias_gap + (1u << (drop - 1)) - 1u + (magnitude >> drop & 1u)) >> drop;
  uint32_t subnormal = bits_of(float_of(magnitude) + magic) - bits_of(magic);
  uint32_t result = magnitude < least_normal ? subnormal : normal;
  result = magnitude >= 0x50000000u || result > most ? most : result;
  return magnitude > 0x7f800000u ? 0x7fu : result | (bits >> 24 & 0x80u);
}

LANE uint32_t e4m3_store(float value) {
  return small_store(value, 3, 121u << 23, 0x1p14f, 120u << 23, 0x7e);
}

LANE uint32_t e5m2_store(float value) {
  return small_store(value, 2, 113u << 23, 0x1p7f, 112u << 23, 0x7b);
}

/* Between f32 and f64 a NaN keeps its sign and the upper payload. MEASURED. */
LANE uint32_t f32_of_f64(uint64_t a) {
  uint32_t nan = (uint32_t)(a >> 32 & 0x80000000u) | 0x7fc00000u | (uint32_t)(a >> 29 & 0x7fffffu);
  return f64_is_nan(a) ? nan : bits_of((float)f64_load(a));
}

LANE uint64_t f64_of_f32(uint32_t a) {
  uint64_t nan = (uint64_t)(a & 0x80000000u) << 32 | UINT64_C(0x7ff8000000000000) |
                 (uint64_t)(a & 0x7fffffu) << 29;
  return (a & 0x7fffffffu) > 0x7f800000u ? nan : bits64_of((double)f32_load(a));
}

CONVERT(f32, f16, uint32_t, uint32_t, f32_store(f16_load(a)))
CONVERT(f32, bf16, uint32_t, uint32_t, a << 16)
CONVERT(f32, e4m3, uint32_t, uint32_t, f32_store(e4m3_load(a)))
CONVERT(f32, e5m2, uint32_t, uint32_t, f32_store(e5m2_load(a)))
CONVERT(f32, f64, uint32_t, uint64_t, f32_of_f64(a))
CONVERT(f64, f32, uint64_t, uint32_t, f64_of_f32(a))
CONVERT(f16, f32, uint32_t, uint32_t, f16_store(f32_load(a)))
CONVERT(bf16, f32, uint32_t, uint32_t, bf16_store(f32_load(a)))
CONVERT(f16, bf16, uint32_t, uint32_t, f16_store(bf16_load(a)))
CONVERT(bf16, f16, uint32_t, uint32_t, bf16_store(f16_load(a)))
CONVERT(f16, e4m3, uint32_t, uint32_t, f16_store(e4m3_load(a)))
CONVERT(f16, e5m2, uint32_t, uint32_t, f16_store(e5m2_load(a)))
CONVERT(bf16, e4m3, uint32_t, uint32_t, bf16_store(e4m3_load(a)))
CONVERT(bf16, e5m2, uint32_t, uint32_t, bf16_store(e5m2_load(a)))
CONVERT(e4m3, f32, uint32_t, uint32_t, e4m3_store(f32_load(a)))
CONVERT(e5m2, f32, uint32_t, uint32_t, e5m2_store(f32_load(a)))
CONVERT(e4m3, f16, uint32_t, uint32_t, e4m3_store(f16_load(a)))
CONVERT(e5m2, f16, uint32_t, uint32_t, e5m2_store(f16_load(a)))
CONVERT(e4m3, bf16, uint32_t, uint32_t, e4m3_store(bf16_load(a)))
CONVERT(e5m2, bf16, uint32_t, uint32_t, e5m2_store(bf16_load(a)))
CONVERT(s32, f32, uint32_t, uint32_t, s32_of(f32_load(a)))
CONVERT(u32, f32, uint32_t, uint32_t, u32_of(f32_load(a)))
CONVERT(s8, f32, uint32_t, uint32_t, normal_s8(s32_of(f32_load(a))))
CONVERT(u8, f32, uint32_t, uint32_t, normal_u8(u32_of(f32_load(a))))
CONVERT(s32, f16, uint32_t, uint32_t, s32_of(f16_load(a)))
CONVERT(s32, bf16, uint32_t, uint32_t, s32_of(bf16_load(a)))
CONVERT(f32, s32, uint32_t, int32_t, f32_store((float)a))
CONVERT(f32, u32, uint32_t, uint32_t, f32_store((float)a))
CONVERT(f32, s64, uint32_t, int64_t, f32_store((float)a))
CONVERT(f64, s32, uint64_t, int32_t, f64_store((double)a))
CONVERT(f64, s64, uint64_t, int64_t, f64_store((double)a))
/* Up to 2^24 an integer is exact in f32; larger ones need the odd rounding before the second. */
CONVERT(f16, s32, uint32_t, int32_t, f16_store(narrow_to_odd((double)a)))
CONVERT(bf16, s32, uint32_t, int32_t, bf16_store(narrow_to_odd((double)a)))

#define INT_TO_INT(X) X(s4) X(u4) X(s8) X(u8) X(s16) X(u16) X(s32) X(u32)
#define NARROW_INT(T)                                                                              \
  UNARY(T##_from_slot32, uint32_t, uint32_t, normal_##T(a))                                        \
  UNARY(T##_from_slot64, uint32_t, uint64_t, normal_##T((uint32_t)a))
INT_TO_INT(NARROW_INT)
UNARY(wide_from_signed, uint64_t, int32_t, (uint64_t)(int64_t)a)
UNARY(wide_from_unsigned, uint64_t, uint32_t, a)
UNARY(wide_from_wide, uint64_t, uint64_t, a)
UNARY(pred_from_slot32, uint32_t, uint32_t, a != 0)
UNARY(pred_from_slot64, uint32_t, uint64_t, a != 0)

/* Tables --------------------------------------------------------------------------------------- */

#define ENTRY(op, T) [TS_NUM_##op][TS_DTYPE_##T] = T##_##op,
/* clang-format off */
#define FLOAT_UNARY(T)                                                                             \
  ENTRY(neg, T) ENTRY(abs, T) ENTRY(isnan, T) ENTRY(isinf, T) ENTRY(isfinite, T) ENTRY(floor, T)   \
  ENTRY(ceil, T) ENTRY(trunc, T) ENTRY(rint, T) ENTRY(round, T) ENTRY(sqrt, T) ENTRY(rcp, T)       \
  ENTRY(rsqrt, T) ENTRY(exp, T) ENTRY(exp2, T) ENTRY(exp10, T) ENTRY(expm1, T) ENTRY(log, T)       \
  ENTRY(log2, T) ENTRY(log10, T) ENTRY(log1p, T) ENTRY(sin, T) ENTRY(cos, T) ENTRY(tan, T)         \
  ENTRY(asin, T) ENTRY(acos, T) ENTRY(atan, T) ENTRY(sinh, T) ENTRY(cosh, T) ENTRY(tanh, T)        \
  ENTRY(erf, T) ENTRY(sigmoid, T)
#define INT_UNARY(T)                                                                               \
  ENTRY(neg, T) ENTRY(not, T) ENTRY(abs, T) ENTRY(popc, T) ENTRY(clz, T)
#define COMPARISONS(T)                                                                             \
  ENTRY(eq, T) ENTRY(ne, T) ENTRY(lt, T) ENTRY(le, T) ENTRY(gt, T) ENTRY(ge, T)
#define FLOAT_BINARY(T)                                                                            \
  ENTRY(add, T) ENTRY(sub, T) ENTRY(mul, T) ENTRY(div, T) ENTRY(rem, T) ENTRY(floordiv, T)         \
  ENTRY(floormod, T) ENTRY(min, T) ENTRY(max, T) ENTRY(pow, T) ENTRY(copysign, T) COMPARISONS(T)
#define INT_BINARY(T)                                                                              \
  ENTRY(add, T) ENTRY(sub, T) ENTRY(mul, T) ENTRY(mulhi, T) ENTRY(div, T) ENTRY(rem, T)            \
  ENTRY(floordiv, T) ENTRY(floormod, T) ENTRY(min, T) ENTRY(max, T) ENTRY(and, T) ENTRY(or, T)     \
  ENTRY(xor, T) ENTRY(shl, T) ENTRY(shr, T) COMPARISONS(T)
/* clang-format on */
#define FLOAT_TYPES(X) X(f16) X(bf16) X(f32) X(f64)
#define INT_TYPES(X) X(s4) X(u4) X(s8) X(u8) X(s16) X(u16) X(s32) X(u32) X(s64) X(u64)
/* A predicate is a u32 slot of 0 or 1, a pointer a u64. */
#define AS(op, T, U) [TS_NUM_##op][TS_DTYPE_##T] = U##_##op,
#define COMPARISONS_AS(T, U)                                                                       \
  AS(eq, T, U) AS(ne, T, U) AS(lt, T, U) AS(le, T, U) AS(gt, T, U) AS(ge, T, U)
#define BIT_OPERATIONS_AS(T, U) AS(and, T, U) AS(or, T, U) AS(xor, T, U)

static const ts_unary_fn unary_table[TS_NUM_OP_COUNT][TS_DTYPE_COUNT] = {FLOAT_TYPES(
    FLOAT_UNARY) INT_TYPES(INT_UNARY) ENTRY(not, pred) ENTRY(sinpi, f64) ENTRY(cospi, f64)};

static const ts_binary_fn binary_table[TS_NUM_OP_COUNT][TS_DTYPE_COUNT] = {
    FLOAT_TYPES(FLOAT_BINARY) INT_TYPES(INT_BINARY)
    /* predicates and pointers */
    AS(min, pred, u32) AS(max, pred, u32) BIT_OPERATIONS_AS(pred, u32) COMPARISONS_AS(pred, u32)
        AS(add, ptr, u64) AS(sub, ptr, u64) COMPARISONS_AS(ptr, u64)};

#define FMA_ENTRY(T) [TS_DTYPE_##T] = T##_fma,
static const ts_ternary_fn fma_table[TS_DTYPE_COUNT] = {FLOAT_TYPES(FMA_ENTRY)
                                                            INT_TYPES(FMA_ENTRY)};

/* f32 under TS_NUM_FTZ, TS_NUM_APPROX and both. */
#define FAST_ENTRIES(x)                                                                            \
  [TS_NUM_exp] = f32_exp_fast##x, [TS_NUM_exp2] = f32_exp2_fast##x,                                \
  [TS_NUM_exp10] = f32_exp10_fast##x, [TS_NUM_log] = f32_log_fast##x,                              \
  [TS_NUM_log2] = f32_log2_fast##x, [TS_NUM_log10] = f32_log10_fast##x,                            \
  [TS_NUM_sin] = f32_sin_fast##x, [TS_NUM_cos] = f32_cos_fast##x, [TS_NUM_tan] = f32_tan_fast##x,  \
  [TS_NUM_tanh] = f32_tanh_fast##x, [TS_NUM_rcp] = f32_rcp_fast##x,                                \
  [TS_NUM_rsqrt] = f32_rsqrt_fast##x, [TS_NUM_sqrt] = f32_sqrt_fast##x

static const ts_unary_fn f32_unary_table[4][TS_NUM_OP_COUNT] = {
    [TS_NUM_FTZ] = {[TS_NUM_sqrt] = f32_ftz_sqrt,
                    [TS_NUM_rcp] = f32_ftz_rcp,
                    [TS_NUM_exp2] = f32_exp2_fast_ftz,
                    [TS_NUM_rsqrt] = f32_rsqrt_fast_ftz},
    [TS_NUM_APPROX] = {FAST_ENTRIES()},
    [TS_NUM_FTZ | TS_NUM_APPROX] = {FAST_ENTRIES(_ftz)},
};

#define FTZ_ENTRIES                                                                                \
  [TS_NUM_add] = f32_ftz_add, [TS_NUM_sub] = f32_ftz_sub, [TS_NUM_mul] = f32_ftz_mul,              \
  [TS_NUM_min] = f32_ftz_min, [TS_NUM_max] = f32_ftz_max
static const ts_binary_fn f32_binary_table[4][TS_NUM_OP_COUNT] = {
    [TS_NUM_FTZ] = {FTZ_ENTRIES, [TS_NUM_div] = f32_ftz_div},
    [TS_NUM_APPROX] = {[TS_NUM_div] = f32_div_fast, [TS_NUM_pow] = f32_pow_fast},
    [TS_NUM_FTZ | TS_NUM_APPROX] =
        {FTZ_ENTRIES, [TS_NUM_div] = f32_div_fast_ftz, [TS_NUM_pow] = f32_pow_fast_ftz},
};

static const ts_binary_fn ftz_nan_table[2] = {f32_ftz_min_nan, f32_ftz_max_nan};
static const ts_binary_fn nan_table[2][TS_DTYPE_COUNT] = {
    {[TS_DTYPE_f32] = f32_min_nan,
     [TS_DTYPE_f16] = f16_min_nan,
     [TS_DTYPE_bf16] = bf16_min_nan,
     [TS_DTYPE_f64] = f64_min_nan},
    {[TS_DTYPE_f32] = f32_max_nan,
     [TS_DTYPE_f16] = f16_max_nan,
     [TS_DTYPE_bf16] = bf16_max_nan,
     [TS_DTYPE_f64] = f64_max_nan},
};

#define FROM(dst, src) [TS_DTYPE_##dst][TS_DTYPE_##src] = dst##_from_##src,
static const ts_unary_fn convert_table[TS_DTYPE_COUNT][TS_DTYPE_COUNT] = {
    FROM(f32, f16) FROM(f32, bf16) FROM(f32, e4m3) FROM(f32, e5m2) FROM(f32, f64) FROM(f64, f32)
        FROM(f16, f32) FROM(bf16, f32) FROM(f16, bf16) FROM(bf16, f16) FROM(f16, e4m3)
            FROM(f16, e5m2) FROM(bf16, e4m3) FROM(bf16, e5m2) FROM(s32, f32) FROM(u32, f32)
                FROM(s8, f32) FROM(u8, f32) FROM(s32, f16) FROM(s32, bf16) FROM(f32, s32)
                    FROM(f32, u32) FROM(f32, s64) FROM(f64, s32) FROM(f64, s64) FROM(f16, s32)
                        FROM(bf16, s32)};

/* Only with TS_NUM_SATFINITE, as the device's casts to fp8 are. */
static const ts_unary_fn saturating_table[TS_DTYPE_COUNT][TS_DTYPE_COUNT] = {FROM(e4m3, f32) FROM(
    e5m2, f32) FROM(e4m3, f16) FROM(e5m2, f16) FROM(e4m3, bf16) FROM(e5m2, bf16)};

#define NARROW_ENTRY(T) [TS_DTYPE_##T] = {T##_from_slot32, T##_from_slot64},
static const ts_unary_fn narrow_table[TS_DTYPE_COUNT][2] = {
    INT_TO_INT(NARROW_ENTRY)[TS_DTYPE_pred] = {pred_from_slot32, pred_from_slot64}};

/* Look-ups ------------------------------------------------------------------------------------- */

static ts_unary_fn find_unary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  unsigned variant = flags & (TS_NUM_FTZ | TS_NUM_APPROX);
  if (dtype == TS_DTYPE_f32 && f32_unary_table[variant][op]) return f32_unary_table[variant][op];
  if ((flags & TS_NUM_APPROX) && op == TS_NUM_exp2 && dtype == TS_DTYPE_f16) return f16_exp2_fast;
  if ((flags & TS_NUM_APPROX) && op == TS_NUM_exp2 && dtype == TS_DTYPE_bf16) return bf16_exp2_fast;
  if ((flags & TS_NUM_APPROX) && op == TS_NUM_tanh && dtype == TS_DTYPE_f16) return f16_tanh_fast;
  if ((flags & TS_NUM_APPROX) && op == TS_NUM_tanh && dtype == TS_DTYPE_bf16) return bf16_tanh_fast;
  return unary_table[op][dtype];
}

static ts_binary_fn find_binary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  unsigned variant = flags & (TS_NUM_FTZ | TS_NUM_APPROX);
  bool picks = op == TS_NUM_min || op == TS_NUM_max;
  if (picks && (flags & TS_NUM_NAN) && ts_dtype_is_float(dtype)) {
    bool flushes = dtype == TS_DTYPE_f32 && (flags & TS_NUM_FTZ);
    return flushes ? ftz_nan_table[op == TS_NUM_max] : nan_table[op == TS_NUM_max][dtype];
  }
  if (dtype == TS_DTYPE_f32 && f32_binary_table[variant][op]) return f32_binary_table[variant][op];
  return binary_table[op][dtype];
}

static ts_ternary_fn find_ternary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  if (op != TS_NUM_fma) return NULL;
  return dtype == TS_DTYPE_f32 && (flags & TS_NUM_FTZ) ? f32_ftz_fma : fma_table[dtype];
}

static ts_unary_fn find_int_convert(enum ts_dtype dst, enum ts_dtype src) {
  bool wide_source = ts_dtype_slot_bytes(src) == 8;
  if (ts_dtype_slot_bytes(dst) == 4) return narrow_table[dst][wide_source];
  if (wide_source) return wide_from_wide;
  return ts_dtype_is_signed_int(src) ? wide_from_signed : wide_from_unsigned;
}

static ts_unary_fn find_convert(enum ts_dtype dst, enum ts_dtype src, unsigned flags) {
  bool floats = ts_dtype_is_float(dst) || ts_dtype_is_float(src);
  if (!floats) return flags & TS_NUM_SAT ? NULL : find_int_convert(dst, src);
  if (flags & (TS_NUM_FTZ | TS_NUM_SAT)) return NULL;
  unsigned rounding = flags & TS_NUM_ROUND_MASK;
  unsigned usual = ts_dtype_is_float(dst) ? TS_NUM_RN : TS_NUM_RZ;
  if (rounding != 0 && rounding != usual) return NULL;
  if (!(flags & TS_NUM_SATFINITE)) return convert_table[dst][src];
  if (!ts_dtype_is_float(dst)) return convert_table[dst][src];
  return saturating_table[dst][src];
}

const struct ts__elementwise ELEMENTWISE_TABLE = {find_unary, find_binary, find_ternary,
                                                  find_convert};
