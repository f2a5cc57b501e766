/* What the files of src/num share. The scalar core (exact.c) is the definition: integers only, any
 * format of dtype.def, any rounding. The vector kernels must give its bits. */
#ifndef TS_NUM_NUM_PRIV_H
#define TS_NUM_NUM_PRIV_H

#include "num/num.h"

__extension__ typedef unsigned __int128 ts__u128;

enum ts__class { TS__ZERO, TS__FINITE, TS__INFINITE, TS__NAN };

/* sign, significand * 2^exponent; significand != 0 exactly when the class is FINITE. */
struct ts__value {
  enum ts__class class;
  bool negative;
  int32_t exponent;
  uint64_t significand;
};

struct ts__value ts__decode(enum ts_dtype dtype, uint64_t encoding);

/* Rounds (-1)^negative * significand * 2^exponent to the float dtype; sticky says that the true
 * magnitude is a little above. flags: rounding, SATFINITE. */
uint64_t ts__encode(enum ts_dtype dtype, bool negative, ts__u128 significand, int32_t exponent,
                    bool sticky, unsigned flags);
uint64_t ts__encode_infinite(enum ts_dtype dtype, bool negative, unsigned flags);

/* IEEE operations of f16, bf16, f32, f64: rounded once by flags, canonical NaN. */
uint64_t ts__exact_add(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b);
uint64_t ts__exact_mul(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b);
uint64_t ts__exact_fma(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b, uint64_t c);
uint64_t ts__exact_div(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b);
uint64_t ts__exact_sqrt(enum ts_dtype dtype, unsigned flags, uint64_t a);

/* Any conversion, on encodings. */
uint64_t ts__exact_convert(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags,
                           uint64_t encoding);

/* Slot loops around them. NULL when there is none. */
ts_unary_fn ts__exact_convert_find(enum ts_dtype dst, enum ts_dtype src, unsigned flags);
ts_unary_fn ts__directed_unary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
ts_binary_fn ts__directed_binary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
ts_ternary_fn ts__directed_ternary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);

/* Flips subnormal f32 to a zero of its sign. */
static inline uint32_t ts__flush_f32(uint32_t bits) {
  return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}

/* Look-ups of one instruction set: the elementwise kernel body compiled with its flags. NULL when
 * it has no kernel (then the portable or the exact one serves). */
struct ts__elementwise {
  ts_unary_fn (*unary)(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
  ts_binary_fn (*binary)(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
  ts_ternary_fn (*ternary)(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
  ts_unary_fn (*convert)(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags);
};

const struct ts__elementwise *ts__elementwise_of(enum ts_isa isa);
extern const struct ts__elementwise ts__elementwise_portable;
extern const struct ts__elementwise ts__elementwise_avx2;
extern const struct ts__elementwise ts__elementwise_avx512;

#endif
