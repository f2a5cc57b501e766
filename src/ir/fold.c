/* Integer constants, folded as num does it: two's complement, wrapping at the dtype's width. Floats
 * are never folded, so that there is one definition of their arithmetic. */
#include "ir/ir_priv.h"

static unsigned int_bits(enum ts_dtype dtype) {
  return dtype == TS_DTYPE_pred ? 1 : ts_dtype_bits(dtype);
}

uint64_t ts__int_mask(enum ts_dtype dtype) {
  unsigned bits = int_bits(dtype);
  return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

uint64_t ts__int_extend(enum ts_dtype dtype, uint64_t encoding) {
  uint64_t mask = ts__int_mask(dtype);
  encoding &= mask;
  bool is_negative = ts_dtype_is_signed_int(dtype) && encoding & (mask ^ mask >> 1);
  return is_negative ? encoding | ~mask : encoding;
}

static bool less(enum ts_dtype dtype, uint64_t a, uint64_t b) {
  return ts_dtype_is_signed_int(dtype) ? (int64_t)a < (int64_t)b : a < b;
}

struct quotient {
  uint64_t trunc, rem; /* toward zero */
};

static uint64_t magnitude(uint64_t a) { return (int64_t)a < 0 ? -a : a; }

/* b is not 0. The negation of the smallest integer wraps to itself, as it should. */
static struct quotient divide(enum ts_dtype dtype, uint64_t a, uint64_t b) {
  if (!ts_dtype_is_signed_int(dtype)) return (struct quotient){a / b, a % b};
  uint64_t q = magnitude(a) / magnitude(b), r = magnitude(a) % magnitude(b);
  return (struct quotient){((a ^ b) >> 63) ? -q : q, (a >> 63) ? -r : r};
}

static bool fold_division(enum ts_op op, enum ts_dtype dtype, uint64_t a, uint64_t b,
                          uint64_t *result) {
  if (b == 0) return false; /* the interpreter's business */
  struct quotient q = divide(dtype, a, b);
  /* The floor is one less when the remainder is not 0 and the signs differ. */
  bool below = ts_dtype_is_signed_int(dtype) && q.rem && ((q.rem ^ b) >> 63);
  switch (op) {
  case TS_OP_div: *result = q.trunc; return true;
  case TS_OP_rem: *result = q.rem; return true;
  case TS_OP_floordiv: *result = q.trunc - below; return true;
  default: *result = q.rem + (below ? b : 0); return true;
  }
}

/* a and b are extended; a shift count that is negative is a huge one. */
static uint64_t shift(enum ts_op op, enum ts_dtype dtype, uint64_t a, uint64_t b) {
  unsigned bits = int_bits(dtype);
  if (op == TS_OP_shl) return b >= bits ? 0 : a << b;
  bool is_negative = ts_dtype_is_signed_int(dtype) && a >> 63;
  if (b >= bits) return is_negative ? UINT64_MAX : 0;
  return is_negative ? ~(~a >> b) : a >> b;
}

static uint64_t leading_zeros(enum ts_dtype dtype, uint64_t a) {
  uint64_t count = 0;
  for (unsigned bit = int_bits(dtype); bit-- > 0 && !(a >> bit & 1);)
    count++;
  return count;
}

static bool fold_unary(enum ts_op op, enum ts_dtype dtype, uint64_t a, uint64_t *result) {
  switch (op) {
  case TS_OP_mov: *result = a; return true;
  case TS_OP_neg: *result = -a; return true;
  case TS_OP_not: *result = ~a; return true;
  case TS_OP_abs: *result = ts_dtype_is_signed_int(dtype) ? magnitude(a) : a; return true;
  case TS_OP_popc: *result = (uint64_t)__builtin_popcountll(a & ts__int_mask(dtype)); return true;
  case TS_OP_clz: *result = leading_zeros(dtype, a); return true;
  case TS_OP_floor:
  case TS_OP_ceil:
  case TS_OP_trunc:
  case TS_OP_round:
  case TS_OP_rint: *result = a; return true;
  default: return false;
  }
}

static bool fold_binary(enum ts_op op, enum ts_dtype dtype, uint64_t a, uint64_t b,
                        uint64_t *result) {
  switch (op) {
  case TS_OP_add: *result = a + b; return true;
  case TS_OP_sub: *result = a - b; return true;
  case TS_OP_mul: *result = a * b; return true;
  case TS_OP_and: *result = a & b; return true;
  case TS_OP_or: *result = a | b; return true;
  case TS_OP_xor: *result = a ^ b; return true;
  case TS_OP_shl:
  case TS_OP_shr: *result = shift(op, dtype, a, b); return true;
  case TS_OP_div:
  case TS_OP_rem:
  case TS_OP_floordiv:
  case TS_OP_floormod: return fold_division(op, dtype, a, b, result);
  case TS_OP_min: *result = less(dtype, b, a) ? b : a; return true;
  case TS_OP_max: *result = less(dtype, a, b) ? b : a; return true;
  case TS_OP_eq: *result = a == b; return true;
  case TS_OP_ne: *result = a != b; return true;
  case TS_OP_lt: *result = less(dtype, a, b); return true;
  case TS_OP_le: *result = !less(dtype, b, a); return true;
  default: return false;
  }
}

static bool folds_pred(enum ts_op op) {
  switch (op) {
  case TS_OP_mov:
  case TS_OP_not:
  case TS_OP_and:
  case TS_OP_or:
  case TS_OP_xor:
  case TS_OP_eq:
  case TS_OP_ne: return true;
  default: return false;
  }
}

bool ts__fold_int(enum ts_op op, enum ts_dtype dtype, const uint64_t *values, uint32_t count,
                  uint64_t *result) {
  if (ts_dtype_is_float(dtype) || ts_dtype_bits(dtype) == 0) return false;
  if (dtype == TS_DTYPE_pred && !folds_pred(op)) return false;
  uint64_t v[3] = {0, 0, 0};
  for (uint32_t i = 0; i < count && i < 3; i++)
    v[i] = ts__int_extend(dtype, values[i]);
  bool is_done = false;
  if (count == 1) is_done = fold_unary(op, dtype, v[0], result);
  if (count == 2) is_done = fold_binary(op, dtype, v[0], v[1], result);
  if (count == 3 && op == TS_OP_fma) {
    *result = v[0] * v[1] + v[2];
    is_done = true;
  }
  if (is_done) *result &= ts__int_mask(dtype);
  return is_done;
}

bool ts__fold_cvt(enum ts_dtype dst, enum ts_dtype src, uint64_t value, uint64_t *result) {
  if (ts_dtype_is_float(dst) || ts_dtype_is_float(src)) return false;
  value = ts__int_extend(src, value);
  *result = dst == TS_DTYPE_pred ? value != 0 : value & ts__int_mask(dst);
  return true;
}
