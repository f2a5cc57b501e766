/* Operations by name: the table of scalar.def, and how a row is carried out. */
#include <string.h>

#include "num/scalar_lanes.h"

enum {
  FTZ = TS_NUM_FTZ,
  APPROX = TS_NUM_APPROX,
  SATFINITE = TS_NUM_SATFINITE,
  NAN_WINS = TS_NUM_NAN,
  SAT = TS_NUM_SAT,
  RN = TS_NUM_RN,
  RZ = TS_NUM_RZ,
  RM = TS_NUM_RM,
  RP = TS_NUM_RP,
  RNA = TS_NUM_RNA,
  RO = TS_NUM_RO,
  FLUSH = 1 << 16,
  UNIT = 1 << 17,
  RELU = 1 << 18,
  XORSIGN = 1 << 19,
  X2 = 1 << 20,
  JOIN = 1 << 21,
  NUM_FLAGS = FLUSH - 1,
  BLOCK = 256 /* elements done at a time */
};

/* Kernels of num_op.def and conversions -------------------------------------------------------- */

KERNEL(UNARY) { ts_num_unary(op->op, op->from, op->flags & NUM_FLAGS)(dst, operands[0], n); }

KERNEL(BINARY) {
  ts_num_binary(op->op, op->from, op->flags & NUM_FLAGS)(dst, operands[0], operands[1], n);
}

KERNEL(TERNARY) {
  ts_num_ternary(op->op, op->from, op->flags & NUM_FLAGS)(dst, operands[0], operands[1],
                                                          operands[2], n);
}

KERNEL(CONVERT) {
  unsigned flags = op->flags & NUM_FLAGS;
  /* From 32 bits on a conversion to an integer clamps anyway. */
  if (ts_dtype_is_float(op->from) && ts_dtype_bits(op->to) >= 32) flags &= ~(unsigned)SAT;
  ts_unary_fn function = ts_num_convert(op->to, op->from, flags);
  if (function != NULL) {
    function(dst, operands[0], n);
    return;
  }
  for (size_t i = 0; i < n; ++i)
    ts__slot_set(
        op->to, dst, i,
        ts__exact_convert(op->to, op->from, flags, ts__slot_get(op->from, operands[0], i)));
}

/* (value - low) / ulp * 2^bits, cut; value >= low >= 0. At least one ulp: value is beyond the range. */
static uint64_t fraction_above(struct ts__value value, struct ts__value low, unsigned bits) {
  int32_t gap = low.exponent - value.exponent;
  if (gap < -30) return UINT32_MAX;
  if (gap <= 0) return ((value.significand << -gap) - low.significand) << bits;
  if (gap > 80) return 0;
  ts__u128 rest = value.significand - ((ts__u128)low.significand << gap);
  return (uint64_t)(rest << bits >> gap);
}

/* f32 -> to. MODELLED: the cut fraction plus the random bits carries into the last place. */
static uint64_t stochastic(enum ts_dtype to, unsigned flags, uint32_t encoding, uint32_t random) {
  struct ts__value value = ts__decode(TS_DTYPE_f32, encoding);
  uint64_t low = ts__exact_convert(to, TS_DTYPE_f32, TS_NUM_RZ | flags, encoding);
  if (value.class != TS__FINITE) return low;
  unsigned bits = to == TS_DTYPE_f16 ? 13 : 16;
  struct ts__value floor = ts__decode(to, low);
  uint64_t magnitude = low & ~(UINT64_C(1) << (ts_dtype_bits(to) - 1));
  uint64_t sum = fraction_above(value, floor, bits) + (random & ((1u << bits) - 1));
  if (sum >> bits == 0) return low;
  if (magnitude < ts_dtype_max_finite(to)) return low + 1;
  return ts__encode_infinite(to, value.negative, flags);
}

KERNEL(STOCHASTIC) {
  const uint32_t *a = operands[0], *random = operands[1];
  for (size_t i = 0; i < n; ++i)
    ts__slot_set(op->to, dst, i, stochastic(op->to, op->flags & SATFINITE, a[i], random[i]));
}

/* The table ------------------------------------------------------------------------------------ */

enum {
  NV = TS_SCALAR_SM80 | TS_SCALAR_SM90 | TS_SCALAR_SM100,
  SM90 = TS_SCALAR_SM90 | TS_SCALAR_SM100,
  SM100 = TS_SCALAR_SM100,
  ASCEND = TS_SCALAR_ASCEND
};

static const struct ts_scalar_op op_table[] = {
#define TS_NUM_COUNT TS_NUM_OP_COUNT
#define SCALAR(profiles, name, result, operands, kernel, op, to, from, flags)                      \
  {name,                                                                                           \
   result,                                                                                         \
   operands,                                                                                       \
   kernel_##kernel,                                                                                \
   TS_NUM_##op,                                                                                    \
   TS_DTYPE_##to,                                                                                  \
   TS_DTYPE_##from,                                                                                \
   (uint8_t)(profiles),                                                                            \
   (uint32_t)(flags)},
#include "num/scalar.def"
#undef SCALAR
#undef TS_NUM_COUNT
};

size_t ts_scalar_count(void) { return sizeof op_table / sizeof op_table[0]; }

const struct ts_scalar_op *ts_scalar_at(size_t index) {
  return index < ts_scalar_count() ? &op_table[index] : NULL;
}

const struct ts_scalar_op *ts_scalar_find(const char *name) {
  for (size_t i = 0; i < ts_scalar_count(); ++i)
    if (strcmp(op_table[i].name, name) == 0) return &op_table[i];
  return NULL;
}

enum ts_dtype ts_scalar_dtype(const char *text, size_t length) {
  static const struct {
    const char *text;
    enum ts_dtype dtype;
  } packed[] = {
      {"b8", TS_DTYPE_u8},       {"b16", TS_DTYPE_u16},    {"b32", TS_DTYPE_u32},
      {"b64", TS_DTYPE_u64},     {"f16x2", TS_DTYPE_u32},  {"bf16x2", TS_DTYPE_u32},
      {"f32x2", TS_DTYPE_u64},   {"e4m3x2", TS_DTYPE_u16}, {"e5m2x2", TS_DTYPE_u16},
      {"e2m3x2", TS_DTYPE_u16},  {"e3m2x2", TS_DTYPE_u16}, {"e2m1x2", TS_DTYPE_u8},
      {"ue8m0x2", TS_DTYPE_u16}, {"ue8m0", TS_DTYPE_e8m0}, {"ue4m3", TS_DTYPE_e4m3},
  };
  for (size_t i = 0; i < sizeof packed / sizeof packed[0]; ++i)
    if (strlen(packed[i].text) == length && memcmp(packed[i].text, text, length) == 0)
      return packed[i].dtype;
  return ts_dtype_from_name(text, length);
}

/* Around a kernel ------------------------------------------------------------------------------ */

union block {
  uint32_t narrow[BLOCK];
  uint64_t wide[BLOCK];
};

/* Subnormals to signed zeros. */
static void flush(enum ts_dtype dtype, union block *block, size_t n) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  if (info->kind != TS_KIND_FLOAT || info->bits > 32) return;
  uint32_t field = ((1u << info->exponent_bits) - 1) << info->mantissa_bits;
  uint32_t sign = 1u << (info->bits - 1);
  for (size_t i = 0; i < n; ++i)
    if ((block->narrow[i] & field) == 0) block->narrow[i] &= sign;
}

/* A NaN of f32 that goes through the flushing adder is canonical. MEASURED. */
static void flush_operand(enum ts_dtype dtype, union block *block, size_t n) {
  flush(dtype, block, n);
  for (size_t i = 0; i < n && dtype == TS_DTYPE_f32; ++i)
    if ((block->narrow[i] & 0x7fffffffu) > 0x7f800000u) block->narrow[i] = 0x7fffffffu;
}

/* f16 products: MEASURED, what is flushed is the result rounded with any exponent. Those that come
 * out as 2^-14 but are below its lower neighbour's upper tie go; they are exact in binary64. */
static void flush_f16_products(const struct ts_scalar_op *op, union block *dst,
                               const union block *inputs, size_t n) {
  if (op->from != TS_DTYPE_f16 || (op->op != TS_NUM_mul && op->op != TS_NUM_fma)) return;
  for (size_t i = 0; i < n; ++i) {
    if ((dst->narrow[i] & 0x7fffu) != 0x400) continue;
    double value[3] = {0, 0, 0};
    for (unsigned j = 0; j < (op->op == TS_NUM_fma ? 3u : 2u); ++j) {
      uint64_t bits = ts_num_convert1(TS_DTYPE_f64, TS_DTYPE_f16, 0, inputs[j].narrow[i]);
      memcpy(&value[j], &bits, sizeof bits);
    }
    double exact = value[0] * value[1] + value[2];
    if (exact < 0x1p-14 - 0x1p-26 && exact > -(0x1p-14 - 0x1p-26)) dst->narrow[i] &= 0x8000u;
  }
}

/* Clamps to [0, 1]: the maximum with zero first, which a NaN loses. */
static void clamp_unit(enum ts_dtype dtype, union block *block, size_t n) {
  union block bound;
  memset(&bound, 0, sizeof bound);
  ts_num_binary(TS_NUM_max, dtype, 0)(block, block, &bound, n);
  for (size_t i = 0; i < n; ++i)
    ts__slot_set(dtype, &bound, i, ts_dtype_one(dtype));
  ts_num_binary(TS_NUM_min, dtype, 0)(block, block, &bound, n);
}

/* Negative values, -0 included, to +0. A NaN stays (and is positive already). */
static void clamp_negative(enum ts_dtype dtype, union block *block, size_t n) {
  unsigned top = ts_dtype_bits(dtype) - 1;
  for (size_t i = 0; i < n; ++i)
    if (ts__slot_get(dtype, block, i) >> top & 1) ts__slot_set(dtype, block, i, 0);
}

/* Signs of the result from those of both operands; operands lose theirs first. */
static void split_signs(union block *signs, union block *a, union block *b, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    signs->narrow[i] = (a->narrow[i] ^ b->narrow[i]) & 0x80000000u;
    a->narrow[i] &= 0x7fffffffu;
    b->narrow[i] &= 0x7fffffffu;
  }
}

static void join_signs(const union block *signs, union block *block, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (block->narrow[i] <= 0x7f800000u) block->narrow[i] |= signs->narrow[i];
}

/* One kind of element: what comes before the kernel, the kernel, what comes after. */
static void run_elements(const struct ts_scalar_op *op, union block *dst, union block *inputs,
                         unsigned arity, size_t n) {
  const void *operands[TS_SCALAR_MAX_OPERANDS];
  union block signs;
  for (unsigned i = 0; i < arity; ++i) {
    operands[i] = &inputs[i];
    if (op->flags & FLUSH) flush_operand(op->from, &inputs[i], n);
  }
  if (op->flags & XORSIGN) split_signs(&signs, &inputs[0], &inputs[1], n);
  op->run(op, dst, operands, n);
  if (op->flags & XORSIGN) join_signs(&signs, dst, n);
  /* A conversion to another type than f32 keeps subnormal results. */
  if ((op->flags & FLUSH) && (op->to == op->from || op->to == TS_DTYPE_f32)) {
    flush_f16_products(op, dst, inputs, n);
    flush(op->to, dst, n);
  }
  if (op->flags & UNIT) clamp_unit(op->to, dst, n);
  if (op->flags & RELU) clamp_negative(op->to, dst, n);
}

/* Distance of the elements of a pair: types of 6 bits have a byte each. */
static unsigned lane_bits(enum ts_dtype dtype) {
  unsigned bits = ts_dtype_bits(dtype);
  return bits == 6 ? 8 : bits;
}

/* Elements of pairs are unsigned and have at most 32 bits, so their slots are their encodings. */
static void take_lane(enum ts_dtype dtype, unsigned lane, union block *out, const union block *in,
                      size_t n) {
  unsigned shift = lane * lane_bits(dtype), bits = ts_dtype_bits(dtype);
  uint32_t mask = UINT32_MAX >> (32 - bits);
  for (size_t i = 0; i < n && bits == 32; ++i)
    out->narrow[i] = (uint32_t)(in->wide[i] >> shift);
  for (size_t i = 0; i < n && bits < 32; ++i)
    out->narrow[i] = in->narrow[i] >> shift & mask;
}

/* The low lane comes first. */
static void put_lane(enum ts_dtype dtype, unsigned lane, union block *out, const union block *in,
                     size_t n) {
  unsigned shift = lane * lane_bits(dtype), bits = ts_dtype_bits(dtype);
  uint32_t mask = UINT32_MAX >> (32 - bits);
  for (size_t i = 0; i < n && bits == 32; ++i)
    out->wide[i] = (lane == 0 ? 0 : out->wide[i]) | (uint64_t)in->narrow[i] << shift;
  for (size_t i = 0; i < n && bits < 32; ++i)
    out->narrow[i] = (lane == 0 ? 0 : out->narrow[i]) | (in->narrow[i] & mask) << shift;
}

static void run_pairs(const struct ts_scalar_op *op, union block *dst, const union block *inputs,
                      unsigned arity, size_t n) {
  union block lanes[TS_SCALAR_MAX_OPERANDS], result;
  for (unsigned lane = 0; lane < 2; ++lane) {
    unsigned count = op->flags & JOIN ? 1 : arity;
    for (unsigned i = 0; i < count; ++i) {
      if (op->flags & JOIN)
        lanes[i] = inputs[1 - lane];
      else
        take_lane(op->from, lane, &lanes[i], &inputs[i], n);
    }
    run_elements(op, &result, lanes, count, n);
    put_lane(op->to, lane, dst, &result, n);
  }
}

unsigned ts_scalar_arity(const struct ts_scalar_op *op) {
  unsigned count = 0;
  for (const char *at = op->operands; *at; ++at)
    count += *at == ':';
  return count;
}

void ts_scalar_run(const struct ts_scalar_op *op, void *dst, enum ts_dtype dst_dtype,
                   const void *const *operands, const enum ts_dtype *dtypes, size_t n) {
  union block inputs[TS_SCALAR_MAX_OPERANDS], result;
  unsigned arity = ts_scalar_arity(op);
  size_t dst_bytes = ts_dtype_slot_bytes(dst_dtype);
  for (size_t start = 0; start < n; start += BLOCK) {
    size_t count = n - start < BLOCK ? n - start : BLOCK;
    for (unsigned i = 0; i < arity; ++i) {
      size_t bytes = ts_dtype_slot_bytes(dtypes[i]);
      memcpy(&inputs[i], (const char *)operands[i] + start * bytes, count * bytes);
    }
    if (op->flags & (X2 | JOIN))
      run_pairs(op, &result, inputs, arity, count);
    else
      run_elements(op, &result, inputs, arity, count);
    memcpy((char *)dst + start * dst_bytes, &result, count * dst_bytes);
  }
}
