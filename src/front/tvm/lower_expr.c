/* Expressions. Integer arithmetic is done in TIR's own types; // and % by powers of two become
 * shifts and masks, which is the floor for either sign. */
#include "front/tvm/lower_priv.h"

int64_t ts__lower_constant(struct ts__lower *lower, const struct tir_expr *expr, const char *what) {
  int64_t constant = 0;
  struct ts__value value = ts__lower_expr(lower, expr);
  if (!ts__value_constant(lower, value, &constant)) {
    ts__lower_unknown(lower, "%s that is not constant", what);
  }
  return constant;
}

const char *ts__lower_string(struct ts__lower *lower, const struct tir_expr *expr,
                             const char *what) {
  const char *text = tir_expr_string(expr);
  if (text) return text;
  ts__lower_fail(lower, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "%s is not a string", what);
  return "";
}

/* --- casts */

static struct ts__value constant_like(struct ts__lower *lower, struct ts__value like,
                                      enum ts_dtype dtype, int64_t value) {
  struct ts_type type = {(uint8_t)dtype, like.type.lanes};
  return ts__value_imm(lower, type, value);
}

/* To int8 and int16 the device converts to 32 bits, which clamps, and keeps the low bits. */
static struct ts__value float_to_int(struct ts__lower *lower, struct ts__value value,
                                     enum ts_dtype dtype) {
  if (ts_dtype_bits(dtype) < 32) {
    enum ts_dtype wide = ts_dtype_is_signed_int(dtype) ? TS_DTYPE_s32 : TS_DTYPE_u32;
    value = ts__lower_emit_convert(lower, wide, value);
  }
  return ts__lower_emit_convert(lower, dtype, value);
}

static bool is_fp8(enum ts_dtype dtype) {
  return ts_dtype_is_float(dtype) && ts_dtype_bits(dtype) == 8;
}

struct ts__value ts__lower_cast(struct ts__lower *lower, struct ts__value value,
                                enum ts_dtype dtype) {
  enum ts_dtype from = (enum ts_dtype)value.type.dtype;
  if (from == dtype) return value;
  if (from == TS_DTYPE_ptr || dtype == TS_DTYPE_ptr) {
    ts__lower_unknown(lower, "a cast from '%s' to '%s'", ts_dtype_name(from), ts_dtype_name(dtype));
    return constant_like(lower, value, dtype, 0);
  }
  if (from == TS_DTYPE_pred) {
    return ts__lower_emit_select(lower, value, constant_like(lower, value, dtype, 1),
                                 constant_like(lower, value, dtype, 0));
  }
  if (dtype == TS_DTYPE_pred) {
    return ts__lower_emit_2(lower, TS_OP_ne, value, constant_like(lower, value, from, 0));
  }
  if (ts_dtype_is_float(from) && ts_dtype_is_int(dtype)) return float_to_int(lower, value, dtype);
  /* fp8 and bf16 meet in binary32, exactly on the way there. */
  if ((is_fp8(dtype) && from == TS_DTYPE_bf16) || (is_fp8(from) && dtype == TS_DTYPE_bf16)) {
    value = ts__lower_emit_convert(lower, TS_DTYPE_f32, value);
  }
  return ts__lower_emit_convert(lower, dtype, value);
}

static struct ts__value lower_cast_expr(struct ts__lower *lower, const struct tir_expr *expr) {
  struct ts_type type = ts__lower_type(lower, expr->dtype);
  if (expr->cast.annotations->count) {
    ts__lower_unknown(lower, "a cast with the annotation '%s'",
                      tir_value_string(expr->cast.annotations->entries[0].key));
  }
  struct ts__value value = ts__lower_expr(lower, expr->cast.value);
  return ts__lower_cast(lower, value, (enum ts_dtype)type.dtype);
}

/* --- speculation */

static bool any_touches_memory(const struct ts__lower *lower, const struct tir_exprs *list) {
  for (size_t i = 0; i < list->count; i++)
    if (ts__lower_touches_memory(lower, list->items[i])) return true;
  return false;
}

bool ts__lower_touches_memory(const struct ts__lower *lower, const struct tir_expr *expr) {
  switch (expr->kind) {
  case TIR_VAR:
  case TIR_SIZE_VAR:
  case TIR_INT_IMM:
  case TIR_FLOAT_IMM:
  case TIR_STRING_IMM: return false;
  case TIR_NOT: return ts__lower_touches_memory(lower, expr->a);
  case TIR_SELECT:
    return ts__lower_touches_memory(lower, expr->select.condition) ||
           ts__lower_touches_memory(lower, expr->select.true_value) ||
           ts__lower_touches_memory(lower, expr->select.false_value);
  case TIR_CAST: return ts__lower_touches_memory(lower, expr->cast.value);
  case TIR_BUFFER_LOAD: {
    enum ts__storage_kind kind = lower->storage[expr->load.buffer->data->id].kind;
    if (kind != TS__STORAGE_ARRAY && kind != TS__STORAGE_VARIABLE) return true;
    return any_touches_memory(lower, &expr->load.indices);
  }
  case TIR_RAMP:
    return ts__lower_touches_memory(lower, expr->ramp.base) ||
           ts__lower_touches_memory(lower, expr->ramp.stride);
  case TIR_BROADCAST: return ts__lower_touches_memory(lower, expr->broadcast.value);
  case TIR_SHUFFLE: return any_touches_memory(lower, &expr->shuffle.vectors);
  case TIR_CALL: {
    const struct ts__builtin *builtin = ts__builtin_find(expr->call.op);
    if (!builtin || !(builtin->flags & TS__BUILTIN_PURE)) return true;
    return any_touches_memory(lower, &expr->call.args);
  }
  default: /* ADD .. OR */
    return ts__lower_touches_memory(lower, expr->a) || ts__lower_touches_memory(lower, expr->b);
  }
}

/* result = condition ? a : b with one arm executed a lane. */
static struct ts__value lazy_choice(struct ts__lower *lower, struct ts__value condition,
                                    const struct tir_expr *a, const struct tir_expr *b) {
  struct ts_type type = ts__lower_type(lower, a->dtype);
  struct ts__value result = {.type = type, .level = lower->level, .is_varying = true};
  result.operand = ts_build_variable(lower->build, type, NULL);
  lower->nesting++;
  ts_build_if(lower->build, condition.operand);
  ts__lower_emit_assign(lower, result, ts__lower_expr(lower, a));
  ts_build_else(lower->build);
  ts__lower_emit_assign(lower, result, ts__lower_expr(lower, b));
  ts_build_end_if(lower->build);
  lower->nesting--;
  return result;
}

struct ts__value ts__lower_choice(struct ts__lower *lower, const struct tir_expr *condition,
                                  const struct tir_expr *a, const struct tir_expr *b) {
  struct ts__value chosen = ts__lower_expr(lower, condition);
  int64_t constant;
  if (ts__value_constant(lower, chosen, &constant)) {
    return ts__lower_expr(lower, constant ? a : b);
  }
  bool is_lazy = ts__lower_touches_memory(lower, a) || ts__lower_touches_memory(lower, b);
  if (is_lazy && chosen.type.lanes == 1) return lazy_choice(lower, chosen, a, b);
  struct ts__value first = ts__lower_expr(lower, a);
  struct ts__value second = ts__lower_expr(lower, b);
  return ts__lower_emit_select(lower, chosen, first, second);
}

/* --- arithmetic */

/* The exponent when the divisor is a power of two, else -1. */
static int power_of_two(const struct ts__lower *lower, struct ts__value divisor) {
  int64_t constant;
  if (!ts__value_constant(lower, divisor, &constant) || constant <= 0) return -1;
  if (constant & (constant - 1)) return -1;
  return __builtin_ctzll((uint64_t)constant);
}

static struct ts__value lower_floor(struct ts__lower *lower, const struct tir_expr *expr) {
  struct ts__value a = ts__lower_expr(lower, expr->a), b = ts__lower_expr(lower, expr->b);
  bool is_div = expr->kind == TIR_FLOOR_DIV;
  if (!ts_dtype_is_int(a.type.dtype)) {
    ts__lower_unknown(lower, "%s of dtype '%s'", tir_expr_kind_text(expr->kind), expr->dtype.text);
    return a;
  }
  int shift = power_of_two(lower, b);
  if (shift >= 0 && is_div) {
    return ts__lower_emit_2(lower, TS_OP_shr, a, ts__value_imm(lower, a.type, shift));
  }
  if (shift >= 0) {
    int64_t mask = (int64_t)((UINT64_C(1) << shift) - 1);
    return ts__lower_emit_2(lower, TS_OP_and, a, ts__value_imm(lower, a.type, mask));
  }
  return ts__lower_emit_2(lower, is_div ? TS_OP_floordiv : TS_OP_floormod, a, b);
}

static bool is_packed_half(struct tir_dtype dtype) {
  return (dtype.elem == TS_DTYPE_f16 || dtype.elem == TS_DTYPE_bf16) && dtype.lanes % 2 == 0;
}

static struct ts__value emit_fma(struct ts__lower *lower, const struct tir_expr *product,
                                 const struct tir_expr *addend) {
  struct ts__value operands[3] = {ts__lower_expr(lower, product->a),
                                  ts__lower_expr(lower, product->b), ts__lower_expr(lower, addend)};
  struct ts_type type = operands[0].type;
  return ts__lower_emit(lower, TS_OP_fma, type, (enum ts_dtype)type.dtype, operands, 3, NULL);
}

/* Packed half a * b + c is one tl::fma2 in the generated CUDA; the left product is fused. */
static struct ts__value lower_add(struct ts__lower *lower, const struct tir_expr *expr) {
  if (is_packed_half(expr->dtype)) {
    if (expr->a->kind == TIR_MUL) return emit_fma(lower, expr->a, expr->b);
    if (expr->b->kind == TIR_MUL) return emit_fma(lower, expr->b, expr->a);
  }
  struct ts__value a = ts__lower_expr(lower, expr->a);
  return ts__lower_emit_2(lower, TS_OP_add, a, ts__lower_expr(lower, expr->b));
}

static struct ts__value lower_binary(struct ts__lower *lower, enum ts_op op,
                                     const struct tir_expr *a, const struct tir_expr *b) {
  struct ts__value left = ts__lower_expr(lower, a);
  return ts__lower_emit_2(lower, op, left, ts__lower_expr(lower, b));
}

static struct ts__value lower_logic(struct ts__lower *lower, const struct tir_expr *expr) {
  bool is_and = expr->kind == TIR_AND;
  struct ts__value a = ts__lower_expr(lower, expr->a);
  int64_t constant;
  if (ts__value_constant(lower, a, &constant)) {
    return (constant != 0) == is_and ? ts__lower_expr(lower, expr->b) : a;
  }
  if (a.type.lanes > 1 || !ts__lower_touches_memory(lower, expr->b)) {
    return ts__lower_emit_2(lower, is_and ? TS_OP_and : TS_OP_or, a,
                            ts__lower_expr(lower, expr->b));
  }
  /* The right side is evaluated only where it decides. */
  struct ts__value result = ts__lower_emit_variable(lower, a, NULL);
  result.level = lower->level;
  lower->nesting++;
  ts_build_if(lower->build, is_and ? a.operand : ts__lower_emit_1(lower, TS_OP_not, a).operand);
  ts__lower_emit_assign(lower, result, ts__lower_expr(lower, expr->b));
  ts_build_end_if(lower->build);
  lower->nesting--;
  return result;
}

/* --- vectors */

static struct ts__value lower_ramp(struct ts__lower *lower, const struct tir_expr *expr) {
  struct ts_type type = ts__lower_type(lower, expr->dtype);
  struct ts__value operands[2] = {ts__lower_expr(lower, expr->ramp.base),
                                  ts__lower_expr(lower, expr->ramp.stride)};
  return ts__lower_emit(lower, TS_OP_ramp, type, (enum ts_dtype)type.dtype, operands, 2, NULL);
}

static struct ts__value lower_broadcast(struct ts__lower *lower, const struct tir_expr *expr) {
  const struct tir_expr *value = expr->broadcast.value;
  uint32_t lanes = ts__lower_type(lower, expr->dtype).lanes;
  if (ts__lower_is_random(value)) return ts__lower_random_lanes(lower, value, lanes);
  return ts__lower_emit_broadcast(lower, ts__lower_expr(lower, value), lanes);
}

static struct ts__value component(struct ts__lower *lower, const struct ts__value *vectors,
                                  uint32_t count, int64_t index) {
  for (uint32_t i = 0; i < count && index >= 0; i++) {
    if (index < vectors[i].type.lanes)
      return ts__lower_emit_extract(lower, vectors[i], (uint32_t)index);
    index -= vectors[i].type.lanes;
  }
  ts__lower_fail(lower, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                 "tirx.Shuffle takes a component that "
                 "its vectors do not have");
  return vectors[0];
}

static struct ts__value lower_shuffle(struct ts__lower *lower, const struct tir_expr *expr) {
  struct ts__value vectors[TS_MAX_VECTOR_LANES], parts[TS_MAX_VECTOR_LANES];
  size_t count = expr->shuffle.vectors.count, picked = expr->shuffle.indices.count;
  struct ts_type type = ts__lower_type(lower, expr->dtype);
  if (count == 0 || picked == 0 || count > TS_MAX_VECTOR_LANES || picked > TS_MAX_VECTOR_LANES) {
    ts__lower_unknown(lower, "tirx.Shuffle of %zu vectors", count);
    return ts__value_imm(lower, type, 0);
  }
  for (size_t i = 0; i < count; i++)
    vectors[i] = ts__lower_expr(lower, expr->shuffle.vectors.items[i]);
  for (size_t i = 0; i < picked; i++) {
    int64_t index = ts__lower_constant(lower, expr->shuffle.indices.items[i], "a shuffle index");
    parts[i] = component(lower, vectors, (uint32_t)count, index);
  }
  return ts__lower_emit_concat(lower, parts, (uint32_t)picked);
}

static struct ts__value lower_var(struct ts__lower *lower, const struct tir_expr *expr) {
  struct ts__value value = lower->vars[expr->var->id];
  if (value.type.lanes) return value;
  ts__lower_fail(lower, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                 "variable '%s' has no value where it is used", expr->var->name);
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), 0);
}

static struct ts__value lower_expr(struct ts__lower *lower, const struct tir_expr *expr) {
  switch (expr->kind) {
  case TIR_VAR:
  case TIR_SIZE_VAR: return lower_var(lower, expr);
  case TIR_INT_IMM:
    return ts__value_imm(lower, ts__lower_type(lower, expr->dtype), expr->int_value);
  case TIR_FLOAT_IMM:
    return ts__value_float(lower, ts__lower_type(lower, expr->dtype), expr->float_value);
  case TIR_ADD: return lower_add(lower, expr);
  case TIR_SUB: return lower_binary(lower, TS_OP_sub, expr->a, expr->b);
  case TIR_MUL: return lower_binary(lower, TS_OP_mul, expr->a, expr->b);
  case TIR_DIV: return lower_binary(lower, TS_OP_div, expr->a, expr->b);
  case TIR_MOD: return lower_binary(lower, TS_OP_rem, expr->a, expr->b);
  case TIR_FLOOR_DIV:
  case TIR_FLOOR_MOD: return lower_floor(lower, expr);
  case TIR_MIN: return lower_binary(lower, TS_OP_min, expr->a, expr->b);
  case TIR_MAX: return lower_binary(lower, TS_OP_max, expr->a, expr->b);
  case TIR_EQ: return lower_binary(lower, TS_OP_eq, expr->a, expr->b);
  case TIR_NE: return lower_binary(lower, TS_OP_ne, expr->a, expr->b);
  case TIR_LT: return lower_binary(lower, TS_OP_lt, expr->a, expr->b);
  case TIR_LE: return lower_binary(lower, TS_OP_le, expr->a, expr->b);
  case TIR_GT: return lower_binary(lower, TS_OP_lt, expr->b, expr->a);
  case TIR_GE: return lower_binary(lower, TS_OP_le, expr->b, expr->a);
  case TIR_AND:
  case TIR_OR: return lower_logic(lower, expr);
  case TIR_NOT: return ts__lower_emit_1(lower, TS_OP_not, ts__lower_expr(lower, expr->a));
  case TIR_SELECT:
    return ts__lower_choice(lower, expr->select.condition, expr->select.true_value,
                            expr->select.false_value);
  case TIR_CAST: return lower_cast_expr(lower, expr);
  case TIR_BUFFER_LOAD: return ts__lower_load(lower, expr);
  case TIR_RAMP: return lower_ramp(lower, expr);
  case TIR_BROADCAST: return lower_broadcast(lower, expr);
  case TIR_SHUFFLE: return lower_shuffle(lower, expr);
  case TIR_CALL: return ts__lower_call(lower, expr);
  case TIR_STRING_IMM:
  case TIR_EXPR_KIND_COUNT: break;
  }
  ts__lower_unknown(lower, "%s as a value", tir_expr_kind_text(expr->kind));
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), 0);
}

struct ts__value ts__lower_expr(struct ts__lower *lower, const struct tir_expr *expr) {
  struct ts__value value = {.level = 0};
  if (ts__lower_step(lower)) value = lower_expr(lower, expr);
  if (lower->status != TS_OK && value.type.lanes == 0) {
    value = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), 0);
  }
  return value;
}
