/* Builder: constants, identities and cheaper forms of integer instructions; moves of components. */
#include "ir/ir_priv.h"

static bool same(struct ts_operand a, struct ts_operand b) {
  return a.kind == b.kind && a.index == b.index;
}

static struct ts_operand constant(struct ts_build *build, const struct ts_build_insn *insn,
                                  uint64_t value) {
  return ts_build_imm(build, value & ts__int_mask((enum ts_dtype)insn->type.dtype));
}

static bool is_commutative(enum ts_op op) {
  switch (op) {
  case TS_OP_add:
  case TS_OP_mul:
  case TS_OP_mulhi:
  case TS_OP_and:
  case TS_OP_or:
  case TS_OP_xor:
  case TS_OP_min:
  case TS_OP_max:
  case TS_OP_eq:
  case TS_OP_ne: return true;
  default: return false;
  }
}

/* Constants to the right, registers in ascending order. */
static void order_operands(const struct ts_build_insn *insn, struct ts_operand *operands) {
  if (!is_commutative(insn->op) || operands[1].kind == TS_OPERAND_IMM) return;
  bool is_left_constant = operands[0].kind == TS_OPERAND_IMM;
  if (!is_left_constant && operands[0].kind == operands[1].kind &&
      operands[0].index <= operands[1].index)
    return;
  if (!is_left_constant && operands[0].kind < operands[1].kind) return;
  struct ts_operand left = operands[0];
  operands[0] = operands[1];
  operands[1] = left;
}

/* x op x */
static bool simplify_equal(struct ts_build *build, const struct ts_build_insn *insn,
                           struct ts_operand x, struct ts_operand *result) {
  switch (insn->op) {
  case TS_OP_sub:
  case TS_OP_xor:
  case TS_OP_ne:
  case TS_OP_lt: *result = ts_build_imm(build, 0); return true;
  case TS_OP_eq:
  case TS_OP_le: *result = ts_build_imm(build, 1); return true;
  case TS_OP_and:
  case TS_OP_or:
  case TS_OP_min:
  case TS_OP_max: *result = x; return true;
  default: return false;
  }
}

/* x op constant, when the result is x or a constant */
static bool simplify_constant(struct ts_build *build, const struct ts_build_insn *insn,
                              struct ts_operand x, uint64_t value, struct ts_operand *result) {
  bool is_zero = value == 0, is_one = value == 1;
  bool is_ones = value == ts__int_mask((enum ts_dtype)insn->type.dtype);
  switch (insn->op) {
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_xor:
  case TS_OP_shl:
  case TS_OP_shr: *result = x; return is_zero;
  case TS_OP_mul: *result = is_zero ? ts_build_imm(build, 0) : x; return is_zero || is_one;
  case TS_OP_div:
  case TS_OP_floordiv: *result = x; return is_one;
  case TS_OP_rem:
  case TS_OP_floormod: *result = ts_build_imm(build, 0); return is_one;
  case TS_OP_and: *result = is_zero ? ts_build_imm(build, 0) : x; return is_zero || is_ones;
  case TS_OP_or: *result = is_ones ? constant(build, insn, value) : x; return is_zero || is_ones;
  default: return false;
  }
}

static unsigned log2_of(uint64_t power) { return (unsigned)__builtin_ctzll(power); }

/* Division by a power of two: floor(x / 2^k) = x >> k and x - 2^k floor(x / 2^k) = x & (2^k - 1) in
 * two's complement, for signed operands too; truncation agrees for unsigned ones. */
static void reduce_division(struct ts_build *build, struct ts_build_insn *insn,
                            struct ts_operand *operands, uint64_t value) {
  enum ts_dtype dtype = (enum ts_dtype)insn->type.dtype;
  uint64_t mask = ts__int_mask(dtype);
  bool is_signed = ts_dtype_is_signed_int(dtype);
  bool is_power = value && !(value & (value - 1)) && !(is_signed && value == (mask ^ mask >> 1));
  bool floors = insn->op == TS_OP_floordiv || insn->op == TS_OP_floormod;
  if (!is_power || (is_signed && !floors)) return;
  switch (insn->op) {
  case TS_OP_div:
  case TS_OP_floordiv:
    insn->op = TS_OP_shr;
    operands[1] = ts_build_imm(build, log2_of(value));
    return;
  case TS_OP_rem:
  case TS_OP_floormod:
    insn->op = TS_OP_and;
    operands[1] = ts_build_imm(build, value - 1);
    return;
  default: return;
  }
}

/* (x + c) + d = x + (c + d), and the same for products. */
static void merge_constants(struct ts_build *build, const struct ts_build_insn *insn,
                            struct ts_operand *operands, uint64_t value) {
  const struct ts_insn *inner = ts__build_definition(build, operands[0]);
  if (!inner || inner->op != insn->op || (insn->op != TS_OP_add && insn->op != TS_OP_mul)) return;
  const struct ts_operand *parts = ts_insn_operand(build->function, inner, 0);
  uint64_t other;
  if (inner->attr_count || ts__build_is_variable(build, parts[0]) ||
      !ts_build_is_constant(build, parts[1], &other))
    return;
  operands[0] = parts[0];
  operands[1] = constant(build, insn, insn->op == TS_OP_add ? value + other : value * other);
}

static bool simplify_binary(struct ts_build *build, struct ts_build_insn *insn,
                            struct ts_operand *operands, struct ts_operand *result) {
  uint64_t value;
  order_operands(insn, operands);
  if (same(operands[0], operands[1]) && simplify_equal(build, insn, operands[0], result))
    return true;
  if (!ts_build_is_constant(build, operands[1], &value)) return false;
  if (simplify_constant(build, insn, operands[0], value, result)) return true;
  if (insn->type.dtype == TS_DTYPE_pred) return false;
  if (insn->op == TS_OP_sub) { /* so that sums with constants have one form */
    insn->op = TS_OP_add;
    value = -value & ts__int_mask((enum ts_dtype)insn->type.dtype);
    operands[1] = ts_build_imm(build, value);
  }
  reduce_division(build, insn, operands, value);
  merge_constants(build, insn, operands, value);
  return ts_build_is_constant(build, operands[1], &value) &&
         simplify_constant(build, insn, operands[0], value, result);
}

static bool simplify_int(struct ts_build *build, struct ts_build_insn *insn,
                         struct ts_operand *operands, struct ts_operand *result) {
  uint64_t values[3], folded;
  uint32_t known = 0;
  if (insn->operand_count == 0 || insn->operand_count > 3) return false;
  while (known < insn->operand_count &&
         ts_build_is_constant(build, operands[known], &values[known]))
    known++;
  if (known == insn->operand_count &&
      ts__fold_int(insn->op, (enum ts_dtype)insn->type.dtype, values, known, &folded)) {
    *result = ts_build_imm(build, folded);
    return true;
  }
  return insn->operand_count == 2 && simplify_binary(build, insn, operands, result);
}

static bool simplify_cvt(struct ts_build *build, const struct ts_build_insn *insn,
                         struct ts_operand a, struct ts_operand *result) {
  enum ts_dtype dst = (enum ts_dtype)insn->type.dtype, src = insn->dtype2;
  uint64_t value, folded;
  if (insn->attr_count) return false;
  if (dst == src && !ts_dtype_is_float(dst)) {
    *result = a;
    return true;
  }
  if (!ts_build_is_constant(build, a, &value) || !ts__fold_cvt(dst, src, value, &folded))
    return false;
  *result = ts_build_imm(build, folded);
  return true;
}

static bool simplify_bitcast(struct ts_build *build, const struct ts_build_insn *insn,
                             struct ts_operand a, struct ts_operand *result) {
  enum ts_dtype dst = (enum ts_dtype)insn->type.dtype, src = insn->dtype2;
  struct ts_type source = ts_build_type(build, a);
  uint64_t value;
  if (dst == src && source.lanes == insn->type.lanes) {
    *result = a;
    return true;
  }
  if (!ts_build_is_constant(build, a, &value)) return false;
  *result = a;
  return value == 0 || ts_dtype_bits(dst) == ts_dtype_bits(src);
}

static bool simplify_select(struct ts_build *build, const struct ts_operand *operands,
                            struct ts_operand *result) {
  uint64_t value;
  if (same(operands[1], operands[2])) {
    *result = operands[1];
    return true;
  }
  if (!ts_build_is_constant(build, operands[0], &value)) return false;
  *result = operands[value & 1 ? 1 : 2];
  return true;
}

/* Component i of a concat, when it is a scalar that cannot have changed. */
static bool component_of(const struct ts_build *build, const struct ts_insn *vector, uint64_t i,
                         struct ts_operand *result) {
  for (uint32_t k = 0; k < vector->operand_count; k++) {
    struct ts_operand part = *ts_insn_operand(build->function, vector, k);
    struct ts_type type = ts_build_type(build, part);
    uint32_t lanes = type.lanes ? type.lanes : 1;
    if (i >= lanes) {
      i -= lanes;
      continue;
    }
    *result = part;
    return lanes == 1 && !ts__build_is_variable(build, part);
  }
  return false;
}

static bool simplify_extract(struct ts_build *build, const struct ts_operand *operands,
                             struct ts_operand *result) {
  uint64_t i;
  *result = operands[0];
  if (operands[0].kind == TS_OPERAND_IMM || ts_build_type(build, operands[0]).lanes == 1)
    return true;
  const struct ts_insn *vector = ts__build_definition(build, operands[0]);
  if (!vector || !ts_build_is_constant(build, operands[1], &i)) return false;
  if (vector->op == TS_OP_concat) return component_of(build, vector, i, result);
  if (vector->op != TS_OP_broadcast) return false;
  *result = *ts_insn_operand(build->function, vector, 0);
  return !ts__build_is_variable(build, *result);
}

/* One part, or the same constant everywhere. */
static bool simplify_concat(const struct ts_build_insn *insn, const struct ts_operand *operands,
                            struct ts_operand *result) {
  *result = operands[0];
  if (insn->operand_count == 1) return true;
  if (operands[0].kind != TS_OPERAND_IMM) return false;
  for (uint32_t i = 1; i < insn->operand_count; i++)
    if (!same(operands[0], operands[i])) return false;
  return true;
}

bool ts__build_simplify(struct ts_build *build, struct ts_build_insn *insn,
                        struct ts_operand *operands, struct ts_operand *result) {
  uint64_t value;
  switch (insn->op) {
  case TS_OP_sreg: return false;
  case TS_OP_mov: *result = operands[0]; return !ts__build_is_variable(build, operands[0]);
  case TS_OP_cvt: return simplify_cvt(build, insn, operands[0], result);
  case TS_OP_bitcast: return simplify_bitcast(build, insn, operands[0], result);
  case TS_OP_select: return simplify_select(build, operands, result);
  case TS_OP_extract: return simplify_extract(build, operands, result);
  case TS_OP_concat: return simplify_concat(insn, operands, result);
  case TS_OP_broadcast:
    *result = operands[0];
    return operands[0].kind == TS_OPERAND_IMM || insn->type.lanes == 1;
  case TS_OP_ramp:
    *result = operands[0];
    if (insn->type.lanes == 1) return true;
    /* Not for floats: -0 + 0 is +0. */
    if (ts_dtype_is_float((enum ts_dtype)insn->type.dtype) ||
        !ts_build_is_constant(build, operands[1], &value) || value)
      return false;
    insn->op = TS_OP_broadcast;
    insn->operand_count = 1;
    return operands[0].kind == TS_OPERAND_IMM;
  default: break;
  }
  if (insn->attr_count || ts_dtype_is_float((enum ts_dtype)insn->type.dtype)) return false;
  return simplify_int(build, insn, operands, result);
}
