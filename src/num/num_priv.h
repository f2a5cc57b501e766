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
uint64_t ts__exact_sub(enum ts_dtype dtype, unsigned flags, uint64_t a, uint64_t b);
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

/* Matrix ----------------------------------------------------------------------------------------
 *
 * Operands are kept in panel order: the k of an instruction is cut into fused sums of
 * op->fused_length products; for SPLIT the order of k is changed so that these are consecutive too
 * (the order inside a fused sum does not matter).
 *
 * Vector kernels work on blocks of 16 rows by 8 columns whose accumulators are 4 registers of 32
 * lanes, as the devices have them: register 2 * i + p, lane 4 * r + q is row 8 * i + r, column
 * 2 * q + p. A vector of 16 lanes is then 4 rows by 4 columns of one parity. So the panels are
 *   A: for 4 rows (a group) and each k, 16 lanes: each row's element 4 times;
 *   B: for 8 columns (a block) and each k, 8 lanes: the even columns, then the odd ones.
 * Floats: the value as f32, which is exact, and the exponent of the unnormalised significand, two
 * int16 halves per lane: in A the same twice, in B the even and the odd column's.
 * Integers: two consecutive k as int16 halves of one lane. */

enum ts__mma_kind {
  TS__MMA_FDPA,
  TS__MMA_SPLIT,
  TS__MMA_INT,
  TS__MMA_FMA,
  TS__MMA_EXACT,
};

enum ts__mma_rounding {
  TS__MMA_NONE,
  TS__MMA_RZ_F32,
  TS__MMA_RZ_E8M13,
  TS__MMA_RN_F16,
  TS__MMA_RN_F32,
};

enum {
  TS__BAND = 16,  /* rows of a band, the unit of the kernels */
  TS__GROUP = 4,  /* rows of a group */
  TS__BLOCK = 8,  /* columns of a block */
  TS__LANES = 32, /* lanes of a register */
  /* Exponents in the panels that stand for a zero and for Inf or NaN. Sums with them stay apart
   * from every sum of two real exponents (at most 256 in size), and 0 * Inf counts as special. */
  TS__EXPONENT_ZERO = -4000,
  TS__EXPONENT_SPECIAL = 12000,
  /* The vector kernels serve common exponents in this range; f32 arithmetic is exact there. */
  TS__EXPONENT_LEAST = -100,
  TS__EXPONENT_MOST = 120,
};

struct ts_mma_scratch {
  const struct ts_allocator *allocator;
  size_t size_bytes;
  enum ts_isa isa;
  uint32_t m_max, n_max, k_max; /* multiples of a band, a block and 64 */
  uint32_t *a_raw;              /* [fused sum][row][k], encodings; f64 takes two words */
  uint32_t *b_raw;              /* [fused sum][k][column] */
  float *a_values;              /* [fused sum][group][k][16] */
  int32_t *a_exponents;         /* as a_values; int16 pairs */
  float *b_values;              /* [fused sum][block][k][8] */
  int16_t *b_exponents;         /* [fused sum][block][k][8], columns in order */
  uint32_t *stage;              /* accumulators of a band: [block][4][32] */
  uint32_t **registers;         /* pointers to the registers of stage */
  uint32_t a_rows, b_columns;   /* as prepared, rounded up */
};

/* What a vector kernel does: one band, all blocks, a chain of instructions. */
struct ts__mma_job {
  const struct ts_mma_op *op;
  const struct ts_mma_scratch *scratch;
  uint32_t first_row, blocks, steps;
  const uint32_t *const *c; /* registers, NULL for zero; may be d */
  uint32_t *const *d;
  unsigned flags;
};

/* The vector kernels of one instruction set. */
struct ts__mma_kernels {
  void (*expand_a)(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t fused_sums);
  void (*expand_b)(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t fused_sums);
  void (*run)(const struct ts__mma_job *job);
  /* out[i * out_stride + j] = in[j * in_stride + i], i < rows, j < 8; rows is a multiple of 4. */
  void (*transpose)(uint32_t *out, size_t out_stride, const uint32_t *in, size_t in_stride,
                    uint32_t rows);
};

extern const struct ts__mma_kernels ts__mma_portable, ts__mma_avx2, ts__mma_avx512;

/* NULL when only the scalar twin will do. */
const struct ts__mma_kernels *ts__mma_kernels_of(const struct ts_mma_op *op,
                                                 const struct ts_mma_scratch *scratch,
                                                 unsigned flags);

/* The type an operand has in the panels: SPLIT works on its operands converted to f16, where the
 * subnormals of e4m3 have become normal. */
static inline enum ts_dtype ts__mma_operand_dtype(const struct ts_mma_op *op, enum ts_dtype dtype) {
  return op->kind == TS__MMA_SPLIT ? TS_DTYPE_f16 : dtype;
}

/* Fused sums of an instruction. */
static inline uint32_t ts__mma_sums(const struct ts_mma_op *op) { return op->k / op->fused_length; }

/* sum * 2^(common - F) in the accumulator's format; of op only fraction_bits and rounding matter. */
uint32_t ts__mma_rounded(const struct ts_mma_op *op, int64_t sum, int32_t common);

/* One fused sum for one accumulator: count = op->fused_length, b's elements b_stride apart. */
uint32_t ts__mma_fused(const struct ts_mma_op *op, const uint32_t *a, const uint32_t *b,
                       size_t b_stride, uint32_t c);

/* A whole instruction for one accumulator, from the raw operands of the scratch. */
uint64_t ts__mma_element(const struct ts_mma_op *op, const struct ts_mma_scratch *scratch,
                         uint32_t step, uint32_t row, uint32_t column, uint64_t c, unsigned flags);

/* One slot of an array of slots, as an encoding. */
static inline uint64_t ts__slot_get(enum ts_dtype dtype, const void *slots, size_t index) {
  uint64_t slot = ts_dtype_slot_bytes(dtype) == 8 ? ((const uint64_t *)slots)[index]
                                                  : ((const uint32_t *)slots)[index];
  return ts_dtype_encoding(dtype, slot);
}

static inline void ts__slot_set(enum ts_dtype dtype, void *slots, size_t index, uint64_t encoding) {
  uint64_t slot = ts_dtype_slot(dtype, encoding);
  if (ts_dtype_slot_bytes(dtype) == 8)
    ((uint64_t *)slots)[index] = slot;
  else
    ((uint32_t *)slots)[index] = (uint32_t)slot;
}

#endif
