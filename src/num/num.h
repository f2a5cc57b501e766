/* Arithmetic on encodings, as the modelled devices do it.
 *
 * Elementwise: a look-up gives a function that works on n lane slots (num/dtype.h). The functions
 * are total: no trap, no undefined value, every slot is computed whatever it holds. Integer division
 * by zero gives all ones; flagging it is the caller's business. dst may be equal to an operand, but must
 * not overlap it otherwise. No alignment beyond that of the slot type is needed.
 *
 * Matrix: ts_mma_find gives the arithmetic of an instruction, ts_mma_tile and its relatives do it.
 *
 * Everything here is thread-safe; scratch memory belongs to one thread at a time. */
#ifndef TS_NUM_NUM_H
#define TS_NUM_NUM_H

#include "base/alloc.h"
#include "num/dtype.h"

enum ts_num_op {
#define NUM_OP(name, ...) TS_NUM_##name,
#include "num/num_op.def"
#undef NUM_OP
  TS_NUM_OP_COUNT
};

/* How to do it. A look-up ignores flags that do not concern the operation. */
enum ts_num_flag {
  TS_NUM_FTZ = 1 << 0,       /* f32: subnormal operands and results become signed zeros */
  TS_NUM_APPROX = 1 << 1,    /* fast-math or .approx form of div, sqrt, exp, log, sin, ... */
  TS_NUM_SATFINITE = 1 << 2, /* convert: overflow and Inf become the largest finite value */
  TS_NUM_NAN = 1 << 3,       /* min, max: a NaN operand gives NaN */
  /* convert float -> int: clamp to the destination instead of to 32 bits and then keeping the low
   * bits as C casts do on the device; int -> int: clamp instead of wrap */
  TS_NUM_SAT = 1 << 7,
  /* Rounding, one of (default: RN; float -> int RZ) */
  TS_NUM_RN = 1 << 4,  /* nearest, ties to even */
  TS_NUM_RZ = 2 << 4,  /* toward zero */
  TS_NUM_RM = 3 << 4,  /* down */
  TS_NUM_RP = 4 << 4,  /* up */
  TS_NUM_RNA = 5 << 4, /* nearest, ties away from zero */
  TS_NUM_RO = 6 << 4,  /* to odd (jamming) */
  TS_NUM_ROUND_MASK = 7 << 4
};

typedef void (*ts_unary_fn)(void *dst, const void *a, size_t n);
typedef void (*ts_binary_fn)(void *dst, const void *a, const void *b, size_t n);
typedef void (*ts_ternary_fn)(void *dst, const void *a, const void *b, const void *c, size_t n);

const char *ts_num_op_name(enum ts_num_op op);
unsigned ts_num_op_arity(enum ts_num_op op);
bool ts_num_op_gives_bool(enum ts_num_op op);

/* Each answers NULL when the operation is not defined for the dtype. dtype is that of the operands;
 * for shl and shr too (shift counts beyond the width, negative ones included, count as the width).
 * ts_num_binary covers the comparisons as well; ts_num_compare answers only those. */
ts_unary_fn ts_num_unary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
ts_binary_fn ts_num_binary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
ts_ternary_fn ts_num_ternary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags);
ts_binary_fn ts_num_compare(enum ts_num_op op, enum ts_dtype dtype);

/* Converts slots of src_dtype to slots of dst_dtype. Casting an fp8 value as CUDA's C++ types do
 * needs TS_NUM_SATFINITE. dst == a is allowed when both have slots of one size. */
ts_unary_fn ts_num_convert(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags);

/* The same on single encodings, for constants and tests. An undefined operation gives 0. */
uint64_t ts_num_eval1(enum ts_num_op op, enum ts_dtype dtype, unsigned flags, uint64_t a);
uint64_t ts_num_eval2(enum ts_num_op op, enum ts_dtype dtype, unsigned flags, uint64_t a,
                      uint64_t b);
uint64_t ts_num_eval3(enum ts_num_op op, enum ts_dtype dtype, unsigned flags, uint64_t a,
                      uint64_t b, uint64_t c);
uint64_t ts_num_convert1(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags,
                         uint64_t encoding);

/* The best instruction set of this host that the fast paths were built for. */
enum ts_isa { TS_ISA_PORTABLE, TS_ISA_AVX2, TS_ISA_AVX512, TS_ISA_COUNT };
enum ts_isa ts_num_isa(void);
const char *ts_isa_name(enum ts_isa isa);

/* How well a result is known to agree with hardware. */
enum ts_fidelity {
  TS_FIDELITY_EXACT,    /* bit-equal on hardware vectors, or correct by the documented definition */
  TS_FIDELITY_MODELLED, /* follows a published model; not checked on hardware here */
  TS_FIDELITY_UNKNOWN   /* a stand-in (correctly rounded): hardware may differ in the last bits */
};

struct ts_fidelity_row {
  const char *profile; /* "nv_sm90", ... or "*" */
  const char *what;    /* "ex2.approx.f32", "wgmma e4m3 -> f32" */
  enum ts_fidelity level;
  const char *source;
};

const struct ts_fidelity_row *ts_fidelity_rows(size_t *count);
const char *ts_fidelity_name(enum ts_fidelity level);

/* Operations by name -------------------------------------------------------------------------- */

enum { TS_SCALAR_MAX_OPERANDS = 4 };

/* Where an operation exists. */
enum ts_scalar_profile {
  TS_SCALAR_SM80 = 1 << 0,
  TS_SCALAR_SM90 = 1 << 1,
  TS_SCALAR_SM100 = 1 << 2,
  TS_SCALAR_ASCEND = 1 << 3
};

/* A row of scalar.def: what PTX, CUDA's library or a cast does to one element. */
struct ts_scalar_op {
  const char *name;     /* "add.rn.ftz.f32" */
  const char *result;   /* "f32" */
  const char *operands; /* "a:f32 b:f32" */
  /* Of a row alone: elements only, no pairs, nothing that its flags ask for besides. */
  void (*run)(const struct ts_scalar_op *op, void *dst, const void *const *operands, size_t n);
  enum ts_num_op op;      /* for rows over num_op.def */
  enum ts_dtype to, from; /* elements of the result and of the operands */
  uint8_t profiles;       /* enum ts_scalar_profile */
  uint32_t flags;
};

size_t ts_scalar_count(void);
const struct ts_scalar_op *ts_scalar_at(size_t index);       /* NULL beyond the count */
const struct ts_scalar_op *ts_scalar_find(const char *name); /* NULL when unknown */
unsigned ts_scalar_arity(const struct ts_scalar_op *op);
/* What holds a type of the table ("b32", "f16x2", "ue8m0", or a dtype's name). */
enum ts_dtype ts_scalar_dtype(const char *text, size_t length);
/* n slots: dtypes are those that ts_scalar_dtype gives for the row's texts. dst may be an operand.
 * Bits of a result's slot beyond its type are undefined. */
void ts_scalar_run(const struct ts_scalar_op *op, void *dst, enum ts_dtype dst_dtype,
                   const void *const *operands, const enum ts_dtype *dtypes, size_t n);

/* Matrix instructions ------------------------------------------------------------------------ */

enum ts_mma_profile {
#define MMA_PROFILE(name) TS_MMA_PROFILE_##name,
#include "num/mma_profile.def"
#undef MMA_PROFILE
  TS_MMA_PROFILE_COUNT
};

enum ts_mma_path {
  TS_MMA_SYNC, /* mma.sync */
  TS_MMA_WGMMA,
  TS_MMA_TCGEN05,
  TS_MMA_CUBE, /* Ascend mmad */
  TS_MMA_PATH_COUNT
};

/* The arithmetic of one matrix instruction; rows live in a constant table. */
struct ts_mma_op {
  enum ts_mma_profile profile;
  enum ts_mma_path path;
  enum ts_dtype a, b, acc;
  uint16_t k;           /* of the instruction */
  uint8_t kind;         /* internal: the algorithm */
  uint8_t fused_length; /* L: products per fused sum */
  uint8_t fraction_bits;
  uint8_t rounding;
  int16_t zero_exponent; /* floor of the common exponent */
  enum ts_fidelity fidelity;
};

const char *ts_mma_profile_name(enum ts_mma_profile profile);
enum ts_mma_profile ts_mma_profile_from_name(const char *name); /* _COUNT when unknown */

/* NULL when the profile has no such instruction. k = 0 finds the largest k. */
const struct ts_mma_op *ts_mma_find(enum ts_mma_profile profile, enum ts_mma_path path,
                                    enum ts_dtype a, enum ts_dtype b, enum ts_dtype acc,
                                    uint32_t k);

enum ts_mma_flag {
  TS_MMA_NEGATE_A = 1 << 0,
  TS_MMA_NEGATE_B = 1 << 1,
  TS_MMA_ZERO_C = 1 << 2,    /* c is taken as +0 and not read */
  TS_MMA_SATFINITE = 1 << 3, /* integer accumulators clamp, once per instruction */
  TS_MMA_REFERENCE = 1 << 4  /* run the scalar twin (tests, benchmarks) */
};

/* Working memory for tiles of up to m_max x n_max and up to k_max along k; NULL when memory is
 * short. One thread uses it at a time. ts_mma_scratch_free(NULL) is fine. */
struct ts_mma_scratch;
struct ts_mma_scratch *ts_mma_scratch_new(const struct ts_allocator *allocator, uint32_t m_max,
                                          uint32_t n_max, uint32_t k_max);
void ts_mma_scratch_free(struct ts_mma_scratch *scratch);

/* Uses at most this instruction set from now on (tests, benchmarks). */
void ts_mma_scratch_limit(struct ts_mma_scratch *scratch, enum ts_isa isa);

/* D = A B + C, one instruction's k (op->k), any m and n up to the scratch's.
 * a: m rows of k packed elements, rows a_row_stride_bytes apart.
 * b: k rows of n packed elements, rows b_k_stride_bytes apart.
 * c, d: rows of slots of op->acc (uint32_t; uint64_t for f64), rows cd_row_stride slots apart.
 * c may be NULL (as TS_MMA_ZERO_C) and may be equal to d. 4-bit elements: two per byte, low first. */
void ts_mma_tile(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t m, uint32_t n,
                 const void *a, size_t a_row_stride_bytes, const void *b, size_t b_k_stride_bytes,
                 const void *c_or_null, void *d, size_t cd_row_stride, unsigned flags);

/* The same in parts, so that operands are converted once and the accumulator is touched once for
 * a chain of instructions (steps consecutive k blocks of op->k each; d of one step is c of the
 * next; at most k_max / op->k steps). The scratch keeps the converted operands until the next
 * prepare of the same side; both sides must have been prepared for the same op.
 *
 * Element (row, k) of A is at a + row * row_stride + k * k_stride bytes, (k, column) of B at
 * b + column * column_stride + k * k_stride: either may be the contiguous one (a stride equal to
 * the element size is fastest; for 4-bit types the contiguous stride is written 0).
 * flags: only TS_MMA_NEGATE_A and TS_MMA_NEGATE_B matter here. */
void ts_mma_prepare_a(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t m,
                      uint32_t steps, const void *a, size_t row_stride_bytes, size_t k_stride_bytes,
                      unsigned flags);
void ts_mma_prepare_b(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t n,
                      uint32_t steps, const void *b, size_t column_stride_bytes,
                      size_t k_stride_bytes, unsigned flags);

/* Rows first_row .. first_row + m - 1 of the prepared A times the prepared B's first n columns;
 * c and d point at the first of these rows. first_row must be a multiple of 16. */
void ts_mma_multiply(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t first_row,
                     uint32_t m, uint32_t n, uint32_t steps, const void *c_or_null, void *d,
                     size_t cd_row_stride, unsigned flags);

/* The same for the 16 rows of one warp with the accumulator where the warp has it: register r of
 * all lanes is c[r][0..31], d[r][0..31], in the PTX order of mma.m16n8 and wgmma accumulators:
 * lane = 4 * (row % 8) + column % 8 / 2, and
 * 32-bit accumulators: uint32_t, r = 4 * (column / 8) + 2 * (row / 8) + column % 2;
 * f16: packed in uint32_t, r = 2 * (column / 8) + row / 8, the odd column in the high half;
 * f64: uint64_t, r as for 32 bits.
 * n is a multiple of 8; c[r] may be d[r]. The fastest form. */
void ts_mma_multiply_fragment(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                              uint32_t first_row, uint32_t n, uint32_t steps,
                              const void *const *c_or_null, void *const *d, unsigned flags);

/* Operands in registers, as mma.m16n8 (A and B) and wgmma with A in registers hold them, to dense
 * memory as ts_mma_prepare_* like it. registers[r][lane] are 32-bit registers with packed elements
 * (f64 is not served).
 * A: 16 rows of k elements, row-major: k * bits / 64 registers. B: 8 columns of k elements each, k
 * contiguous: k * bits / 128 registers. Rows and columns are k * bits / 8 bytes apart. */
void ts_mma_gather_a(const struct ts_mma_op *op, void *dense, const uint32_t *const *registers);
void ts_mma_gather_b(const struct ts_mma_op *op, void *dense, const uint32_t *const *registers);

/* Rows of mma_profile.def in order; NULL beyond the last. */
const struct ts_mma_op *ts_mma_at(size_t index);

/* tcgen05.mma on operands below 16 bits in any mix, with or without block scales. */
struct ts_mma_scaled_op {
  const char *kind; /* "mxf8f6f4" */
  bool fp4_only;
  enum ts_dtype acc, scale; /* scale: TS_DTYPE_NONE when there is none */
  uint8_t k, block, group;
  uint8_t fraction_bits;
  uint8_t rounding;
  int16_t zero_exponent;
  enum ts_fidelity fidelity;
};

size_t ts_mma_scaled_count(void);
const struct ts_mma_scaled_op *ts_mma_scaled_at(size_t index);
bool ts_mma_scaled_takes(const struct ts_mma_scaled_op *op, enum ts_dtype operand);
/* block = 0 finds the first. NULL when there is none. */
const struct ts_mma_scaled_op *ts_mma_scaled_find(const char *kind, enum ts_dtype a,
                                                  enum ts_dtype b, enum ts_dtype acc,
                                                  enum ts_dtype scale, uint32_t block);
/* One element per byte: a m x k, b k x n, scale_a m x k/block, scale_b k/block x n (NULL when the op
 * has none); c (NULL: zero) and d m x n slots. d may be c. */
void ts_mma_scaled_tile(const struct ts_mma_scaled_op *op, enum ts_dtype a_dtype,
                        enum ts_dtype b_dtype, uint32_t m, uint32_t n, const uint8_t *a,
                        const uint8_t *b, const uint32_t *c_or_null, uint32_t *d,
                        const uint8_t *scale_a, const uint8_t *scale_b);

/* mma.sync .b1: d = c + the number of set bits of a & b, or a ^ b. One bit per byte. */
void ts_mma_bits_tile(bool is_xor, uint32_t m, uint32_t n, uint32_t k, const uint8_t *a,
                      const uint8_t *b, const uint32_t *c_or_null, uint32_t *d);

#endif
