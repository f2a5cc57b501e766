/* Rules of form that hold between a node and its children, so that a walker need not ask again. */
#include "front/tvm/tvm_priv.h"

static bool is_same(struct tir_dtype a, struct tir_dtype b) {
  return a.elem == b.elem && a.lanes == b.lanes;
}

static bool is_bool(struct tir_dtype dtype) { return dtype.elem == TS_DTYPE_pred; }

static bool is_scalar_int(struct tir_dtype dtype) {
  return dtype.lanes == 1 && (ts_dtype_is_int(dtype.elem) || is_bool(dtype));
}

static const char *check_int(const struct tir_expr *e) {
  if (!is_scalar_int(e->dtype)) return "an ir.IntImm must have a scalar integer dtype";
  unsigned bits = is_bool(e->dtype) ? 1 : ts_dtype_bits(e->dtype.elem);
  if (bits >= 64) return NULL; /* uint64 above INT64_MAX is written as a negative number */
  int64_t low = ts_dtype_is_signed_int(e->dtype.elem) ? -((int64_t)1 << (bits - 1)) : 0;
  int64_t high = low + ((int64_t)1 << bits) - 1;
  return e->int_value >= low && e->int_value <= high ? NULL : "the value does not fit the dtype";
}

static const char *check_binary(const struct tir_expr *e) {
  if (!is_same(e->a->dtype, e->b->dtype)) return "a and b have different dtypes";
  if (e->kind >= TIR_EQ && e->kind <= TIR_GE) {
    bool fits = is_bool(e->dtype) && e->dtype.lanes == e->a->dtype.lanes;
    return fits ? NULL : "a comparison must be bool of as many lanes as its operands";
  }
  if (!is_same(e->dtype, e->a->dtype)) return "the dtype differs from that of a and b";
  if ((e->kind == TIR_AND || e->kind == TIR_OR) && !is_bool(e->dtype)) {
    return "a logical operator must be bool";
  }
  return NULL;
}

static const char *check_select(const struct tir_expr *e) {
  struct tir_dtype condition = e->select.condition->dtype;
  if (!is_bool(condition) || (condition.lanes != 1 && condition.lanes != e->dtype.lanes)) {
    return "the condition of a select must be bool";
  }
  bool fits = is_same(e->select.true_value->dtype, e->dtype) &&
              is_same(e->select.false_value->dtype, e->dtype);
  return fits ? NULL : "both values of a select must have its dtype";
}

/* lanes is an expression in the graph; only a constant can be a dtype. */
static const char *check_lanes(const struct tir_expr *e, const struct tir_expr *lanes,
                               struct tir_dtype elem) {
  int64_t count;
  if (!tir_expr_int(lanes, &count) || count != e->dtype.lanes) {
    return "lanes must be an ir.IntImm that agrees with the dtype";
  }
  bool fits = elem.lanes == 1 && elem.elem == e->dtype.elem;
  return fits ? NULL : "the dtype differs from that of the element";
}

/* A buffer of vectors has the lanes of its dtype times those of the index. */
static const char *check_access(const struct tir_buffer *buffer, struct tir_exprs indices,
                                struct tir_dtype value) {
  if (indices.count != buffer->shape.count) return "as many indices are needed as dimensions";
  uint64_t lanes = buffer->dtype.lanes;
  for (size_t i = 0; i < indices.count; i++) {
    struct tir_dtype dtype = indices.items[i]->dtype;
    if (!ts_dtype_is_int(dtype.elem)) return "an index must be an integer";
    if (i + 1 < indices.count && dtype.lanes != 1) return "only the last index may be a vector";
    lanes *= dtype.lanes;
  }
  if (value.elem != buffer->dtype.elem) return "the dtype differs from the buffer's";
  return value.lanes == lanes ? NULL : "the lanes differ from those of the index";
}

const char *tir__check_expr(const struct tir_expr *e) {
  switch (e->kind) {
  case TIR_INT_IMM: return check_int(e);
  case TIR_FLOAT_IMM: {
    bool fits = ts_dtype_is_float(e->dtype.elem) && e->dtype.lanes == 1;
    return fits ? NULL : "an ir.FloatImm must have a scalar float dtype";
  }
  case TIR_ADD:
  case TIR_SUB:
  case TIR_MUL:
  case TIR_DIV:
  case TIR_MOD:
  case TIR_FLOOR_DIV:
  case TIR_FLOOR_MOD:
  case TIR_MIN:
  case TIR_MAX:
  case TIR_EQ:
  case TIR_NE:
  case TIR_LT:
  case TIR_LE:
  case TIR_GT:
  case TIR_GE:
  case TIR_AND:
  case TIR_OR: return check_binary(e);
  case TIR_NOT:
    return is_bool(e->dtype) && is_same(e->dtype, e->a->dtype) ? NULL : "tirx.Not must be bool";
  case TIR_SELECT: return check_select(e);
  case TIR_CAST:
    return e->dtype.lanes == e->cast.value->dtype.lanes ? NULL : "a cast must keep the lanes";
  case TIR_BUFFER_LOAD: return check_access(e->load.buffer, e->load.indices, e->dtype);
  case TIR_RAMP:
    if (!is_same(e->ramp.base->dtype, e->ramp.stride->dtype)) {
      return "base and stride have different dtypes";
    }
    return check_lanes(e, e->ramp.lanes, e->ramp.base->dtype);
  case TIR_BROADCAST: return check_lanes(e, e->broadcast.lanes, e->broadcast.value->dtype);
  case TIR_VAR:
  case TIR_SIZE_VAR:
  case TIR_STRING_IMM:
  case TIR_SHUFFLE:
  case TIR_CALL:
  case TIR_EXPR_KIND_COUNT: break;
  }
  return NULL;
}

static const char *check_condition(const struct tir_expr *condition) {
  bool fits = is_bool(condition->dtype) && condition->dtype.lanes == 1;
  return fits ? NULL : "the condition must be a scalar bool";
}

static const char *check_loop(const struct tir_stmt *s) {
  struct tir_dtype dtype = s->loop.var->dtype;
  if (!is_scalar_int(dtype)) return "the loop variable must be a scalar integer";
  bool fits = is_same(s->loop.min->dtype, dtype) && is_same(s->loop.extent->dtype, dtype) &&
              (!s->loop.step || is_same(s->loop.step->dtype, dtype));
  return fits ? NULL : "min, extent and step must have the loop variable's dtype";
}

static const char *check_assert(const struct tir_stmt *s) {
  if (s->assertion.error_kind->kind != TIR_STRING_IMM) {
    return "error_kind must be a tirx.StringImm";
  }
  for (size_t i = 0; i < s->assertion.message_parts.count; i++) {
    if (s->assertion.message_parts.items[i]->kind != TIR_STRING_IMM) {
      return "message_parts must be of tirx.StringImm";
    }
  }
  return check_condition(s->assertion.condition);
}

const char *tir__check_stmt(const struct tir_stmt *s) {
  switch (s->kind) {
  case TIR_FOR: return check_loop(s);
  case TIR_WHILE: return check_condition(s->repeat.condition);
  case TIR_IF: return check_condition(s->branch.condition);
  case TIR_ASSERT: return check_assert(s);
  case TIR_BIND:
    return is_same(s->bind.var->dtype, s->bind.value->dtype)
               ? NULL
               : "the value's dtype differs from the variable's";
  case TIR_BUFFER_STORE:
    return check_access(s->store.buffer, s->store.indices, s->store.value->dtype);
  case TIR_SEQ:
  case TIR_ATTR:
  case TIR_ALLOC_BUFFER:
  case TIR_DECL_BUFFER:
  case TIR_EVALUATE:
  case TIR_BLOCK:
  case TIR_BLOCK_REALIZE:
  case TIR_STMT_KIND_COUNT: break;
  }
  return NULL;
}

const char *tir__check_buffer(const struct tir_buffer *buffer) {
  if (buffer->data->dtype.elem != TS_DTYPE_ptr) return "data must be a pointer";
  if (buffer->dtype.elem == TS_DTYPE_NONE) return "a buffer of void";
  if (buffer->strides.count != 0 && buffer->strides.count != buffer->shape.count) {
    return "as many strides are needed as dimensions, or none";
  }
  for (size_t i = 0; i < buffer->shape.count; i++) {
    if (!is_scalar_int(buffer->shape.items[i]->dtype)) return "a dimension must be an integer";
  }
  return NULL;
}
