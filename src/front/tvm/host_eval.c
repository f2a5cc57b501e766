/* Expressions of the host function. Integer arithmetic wraps at the width of the expression's
 * dtype, as the C code that TVM would have made from it. */
#include "front/tvm/host_priv.h"

#include <stdarg.h>
#include <string.h>

/* Field numbers of tirx.tvm_struct_get (DOC: TVM's builtin.h, TVMStructFieldKind). */
enum {
  FIELD_DATA = 1,
  FIELD_SHAPE = 2,
  FIELD_STRIDES = 3,
  FIELD_NDIM = 4,
  FIELD_TYPE_CODE = 5,
  FIELD_TYPE_BITS = 6,
  FIELD_TYPE_LANES = 7,
  FIELD_BYTE_OFFSET = 8,
  FIELD_DEVICE_ID = 9,
  FIELD_DEVICE_TYPE = 10,
  FIELD_ANY_TYPE_INDEX = 13,
  FIELD_ANY_VALUE = 15
};
/* Type indices of a packed argument (DOC: TVM FFI's TVMFFITypeIndex) and DLPack's CUDA device. */
enum {
  TYPE_INDEX_NONE = 0,
  TYPE_INDEX_INT = 1,
  TYPE_INDEX_FLOAT = 3,
  TYPE_INDEX_DLTENSOR = 7,
  DEVICE_CUDA = 2
};

enum ts_status ts__host_fail(struct ts__host *host, enum ts_status status, enum ts_diag_code code,
                             const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const char *text = ts_arena_vprintf(host->arena, format, arguments);
  va_end(arguments);
  if (!text) return ts_fail_memory(host->ctx);
  struct ts_source_place place = host->place.file ? host->place : TS_FILE_PLACE(host->module->path);
  return ts_fail(host->ctx, status, code, place, "host function %s: %s", host->func->name, text);
}

const char *ts__host_kind_text(enum ts__host_kind kind) {
  switch (kind) {
  case TS__HOST_UNSET: return "an unset variable";
  case TS__HOST_INT: return "an integer";
  case TS__HOST_FLOAT: return "a float";
  case TS__HOST_NULL: return "a null pointer";
  case TS__HOST_RESULT: return "a handle of the calling convention";
  case TS__HOST_ARGS: return "the packed arguments";
  case TS__HOST_TENSOR: return "a tensor";
  case TS__HOST_SHAPE: return "a shape array";
  case TS__HOST_STRIDES: return "a stride array";
  case TS__HOST_ADDRESS: return "a device pointer";
  case TS__HOST_MAP: return "a tensor map";
  }
  return "?";
}

static struct ts__host_value make_int(int64_t integer) {
  return (struct ts__host_value){.kind = TS__HOST_INT, .integer = integer};
}

/* The integer as the dtype holds it. */
static int64_t wrap(struct tir_dtype dtype, int64_t value) {
  unsigned bits = ts_dtype_bits(dtype.elem);
  if (dtype.elem == TS_DTYPE_pred) return value != 0;
  if (bits == 0 || bits >= 64) return value;
  uint64_t low = (uint64_t)value & ((UINT64_C(1) << bits) - 1);
  bool is_negative = ts_dtype_is_signed_int(dtype.elem) && low >> (bits - 1);
  return (int64_t)(is_negative ? low | ~((UINT64_C(1) << bits) - 1) : low);
}

enum ts_status ts__host_eval_int(struct ts__host *host, const struct tir_expr *expr, int64_t *out) {
  struct ts__host_value value;
  TS_TRY(ts__host_eval(host, expr, &value));
  if (value.kind != TS__HOST_INT)
    return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "node %u (%s): expected an integer, found %s", expr->node,
                         tir_expr_kind_text(expr->kind), ts__host_kind_text(value.kind));
  *out = value.integer;
  return TS_OK;
}

static int64_t floor_div(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return quotient - ((a % b != 0) && ((a < 0) != (b < 0)));
}

static int64_t as_signed(uint64_t value) { return (int64_t)value; }

static enum ts_status divide(struct ts__host *host, const struct tir_expr *expr, int64_t a,
                             int64_t b, int64_t *out) {
  if (b == 0)
    return ts__host_fail(host, TS_BAD_ARGUMENT, TS_DIAG_HOST_ASSERT, "node %u divides by zero",
                         expr->node);
  if (b == -1) { /* INT64_MIN / -1 does not exist */
    bool is_quotient = expr->kind == TIR_DIV || expr->kind == TIR_FLOOR_DIV;
    *out = is_quotient ? as_signed(0 - (uint64_t)a) : 0;
    return TS_OK;
  }
  switch (expr->kind) {
  case TIR_DIV: *out = a / b; break;
  case TIR_MOD: *out = a % b; break;
  case TIR_FLOOR_DIV: *out = floor_div(a, b); break;
  default: *out = as_signed((uint64_t)a - (uint64_t)floor_div(a, b) * (uint64_t)b); break;
  }
  return TS_OK;
}

static bool compare(enum tir_expr_kind kind, int order) {
  switch (kind) {
  case TIR_EQ: return order == 0;
  case TIR_NE: return order != 0;
  case TIR_LT: return order < 0;
  case TIR_LE: return order <= 0;
  case TIR_GT: return order > 0;
  default: return order >= 0;
  }
}

static enum ts_status eval_binary(struct ts__host *host, const struct tir_expr *expr,
                                  struct ts__host_value *out) {
  int64_t a, b, result = 0;
  TS_TRY(ts__host_eval_int(host, expr->a, &a));
  TS_TRY(ts__host_eval_int(host, expr->b, &b));
  bool is_unsigned = ts_dtype_is_unsigned_int(expr->a->dtype.elem);
  int order =
      is_unsigned ? ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b) : (a > b) - (a < b);
  switch (expr->kind) {
  case TIR_ADD: result = as_signed((uint64_t)a + (uint64_t)b); break;
  case TIR_SUB: result = as_signed((uint64_t)a - (uint64_t)b); break;
  case TIR_MUL: result = as_signed((uint64_t)a * (uint64_t)b); break;
  case TIR_MIN: result = order < 0 ? a : b; break;
  case TIR_MAX: result = order > 0 ? a : b; break;
  case TIR_DIV:
  case TIR_MOD:
  case TIR_FLOOR_DIV:
  case TIR_FLOOR_MOD: TS_TRY(divide(host, expr, a, b, &result)); break;
  default: result = compare(expr->kind, order); break;
  }
  *out = make_int(wrap(expr->dtype, result));
  return TS_OK;
}

static enum ts_status eval_logic(struct ts__host *host, const struct tir_expr *expr,
                                 struct ts__host_value *out) {
  int64_t value;
  TS_TRY(ts__host_eval_int(host, expr->a, &value));
  bool stop = expr->kind == TIR_NOT || (expr->kind == TIR_AND ? !value : value != 0);
  if (!stop) TS_TRY(ts__host_eval_int(host, expr->b, &value));
  *out = make_int(expr->kind == TIR_NOT ? !value : value != 0);
  return TS_OK;
}

static enum ts_status eval_choice(struct ts__host *host, const struct tir_expr *condition,
                                  const struct tir_expr *yes, const struct tir_expr *no,
                                  struct ts__host_value *out) {
  int64_t choice;
  TS_TRY(ts__host_eval_int(host, condition, &choice));
  return ts__host_eval(host, choice ? yes : no, out);
}

/* Tensors of 4-bit elements come as pairs of them, as torch has float4_e2m1fn_x2. */
static int64_t elements_per_item(const struct ts_tensor_argument *tensor) {
  return ts_dtype_bits((enum ts_dtype)tensor->dtype) == 4 ? 2 : 1;
}

/* The last extent counts pairs, and so do all strides but the last. */
static enum ts_status eval_load(struct ts__host *host, const struct tir_expr *expr,
                                struct ts__host_value *out) {
  struct ts__host_value base = host->vars[expr->load.buffer->data->id];
  bool is_shape = base.kind == TS__HOST_SHAPE;
  if ((!is_shape && base.kind != TS__HOST_STRIDES) || expr->load.indices.count != 1)
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "node %u loads from %s (%s): the host can only read shapes and strides",
                         expr->node, expr->load.buffer->name, ts__host_kind_text(base.kind));
  int64_t index;
  TS_TRY(ts__host_eval_int(host, expr->load.indices.items[0], &index));
  const struct ts_tensor_argument *tensor = &host->arguments[base.index].tensor;
  if (index < 0 || index >= (int64_t)tensor->rank)
    return ts__host_fail(host, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                         "dimension %lld of %s is needed, which has %u", (long long)index,
                         host->params[base.index].name, tensor->rank);
  int64_t value = (is_shape ? tensor->shape : tensor->strides)[index];
  bool is_last = index + 1 == (int64_t)tensor->rank;
  *out = make_int(is_last == is_shape ? value / elements_per_item(tensor) : value);
  return TS_OK;
}

static enum ts_status get_argument(struct ts__host *host, const struct tir_expr *expr,
                                   int64_t index, int64_t field, struct ts__host_value *out) {
  if (index < 0 || index >= (int64_t)host->param_count)
    return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "node %u reads argument %lld of %u", expr->node, (long long)index,
                         host->param_count);
  const struct ts_tvm_param *param = &host->params[index];
  const struct ts_tvm_argument *argument = &host->arguments[index];
  bool is_float = ts_dtype_is_float((enum ts_dtype)param->dtype);
  if (field == FIELD_ANY_TYPE_INDEX) {
    *out = make_int(argument->is_null  ? TYPE_INDEX_NONE
                    : param->is_tensor ? TYPE_INDEX_DLTENSOR
                    : is_float         ? TYPE_INDEX_FLOAT
                                       : TYPE_INDEX_INT);
  } else if (field != FIELD_ANY_VALUE) {
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "node %u: unknown field %lld of a packed argument", expr->node,
                         (long long)field);
  } else if (param->is_tensor) {
    *out = (struct ts__host_value){.kind = argument->is_null ? TS__HOST_NULL : TS__HOST_TENSOR,
                                   .index = (uint32_t)index};
  } else if (is_float) {
    *out = (struct ts__host_value){.kind = TS__HOST_FLOAT};
    memcpy(&out->number, &argument->scalar, sizeof out->number);
  } else {
    *out = make_int(wrap(expr->dtype, (int64_t)argument->scalar));
  }
  return TS_OK;
}

static enum ts_status get_tensor_field(struct ts__host *host, const struct tir_expr *expr,
                                       uint32_t index, int64_t field, struct ts__host_value *out) {
  const struct ts_tensor_argument *tensor = &host->arguments[index].tensor;
  const struct ts_dtype_info *dtype = ts_dtype_info((enum ts_dtype)tensor->dtype);
  switch (field) {
  case FIELD_DATA:
    *out = (struct ts__host_value){.kind = TS__HOST_ADDRESS, .integer = (int64_t)tensor->address};
    if (tensor->address == 0) out->kind = TS__HOST_NULL;
    return TS_OK;
  case FIELD_SHAPE:
    *out = (struct ts__host_value){.kind = TS__HOST_SHAPE, .index = index};
    return TS_OK;
  case FIELD_STRIDES:
    *out = (struct ts__host_value){.kind = tensor->strides ? TS__HOST_STRIDES : TS__HOST_NULL,
                                   .index = index};
    return TS_OK;
  case FIELD_NDIM: *out = make_int(tensor->rank); return TS_OK;
  case FIELD_TYPE_CODE: *out = make_int(dtype->dlpack_code); return TS_OK;
  case FIELD_TYPE_BITS: *out = make_int(dtype->bits); return TS_OK;
  case FIELD_TYPE_LANES: *out = make_int(elements_per_item(tensor)); return TS_OK;
  case FIELD_BYTE_OFFSET: *out = make_int((int64_t)tensor->byte_offset); return TS_OK;
  case FIELD_DEVICE_ID: *out = make_int(0); return TS_OK;
  case FIELD_DEVICE_TYPE: *out = make_int(DEVICE_CUDA); return TS_OK;
  default:
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "node %u: unknown field %lld of a tensor", expr->node, (long long)field);
  }
}

/* tvm_struct_get(object, index, field) */
static enum ts_status call_struct_get(struct ts__host *host, const struct tir_expr *expr,
                                      struct ts__host_value *out) {
  const struct tir_exprs *args = &expr->call.args;
  struct ts__host_value object;
  int64_t index, field;
  TS_TRY(ts__host_eval(host, args->items[0], &object));
  TS_TRY(ts__host_eval_int(host, args->items[1], &index));
  TS_TRY(ts__host_eval_int(host, args->items[2], &field));
  if (object.kind == TS__HOST_ARGS) return get_argument(host, expr, index, field, out);
  if (object.kind == TS__HOST_TENSOR && index == 0)
    return get_tensor_field(host, expr, object.index, field, out);
  return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                       "node %u: tvm_struct_get on %s, expected arguments or a tensor", expr->node,
                       ts__host_kind_text(object.kind));
}

static enum ts_status call_isnullptr(struct ts__host *host, const struct tir_expr *expr,
                                     struct ts__host_value *out) {
  struct ts__host_value object;
  TS_TRY(ts__host_eval(host, expr->call.args.items[0], &object));
  *out = make_int(object.kind == TS__HOST_NULL);
  return TS_OK;
}

static enum ts_status call_add_byte_offset(struct ts__host *host, const struct tir_expr *expr,
                                           struct ts__host_value *out) {
  int64_t offset;
  TS_TRY(ts__host_eval(host, expr->call.args.items[0], out));
  TS_TRY(ts__host_eval_int(host, expr->call.args.items[1], &offset));
  if (out->kind == TS__HOST_ADDRESS) {
    out->integer = as_signed((uint64_t)out->integer + (uint64_t)offset);
    return TS_OK;
  }
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                       "node %u: handle_add_byte_offset on %s", expr->node,
                       ts__host_kind_text(out->kind));
}

/* reinterpret("handle", 0): a null handle. */
static enum ts_status call_reinterpret(struct ts__host *host, const struct tir_expr *expr,
                                       struct ts__host_value *out) {
  TS_TRY(ts__host_eval(host, expr->call.args.items[0], out));
  bool is_null = out->kind == TS__HOST_INT && out->integer == 0;
  if (is_null && expr->dtype.elem == TS_DTYPE_ptr) out->kind = TS__HOST_NULL;
  if (is_null) return TS_OK;
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                       "node %u: reinterpret of anything but 0", expr->node);
}

static enum ts_status call_if_then_else(struct ts__host *host, const struct tir_expr *expr,
                                        struct ts__host_value *out) {
  const struct tir_exprs *args = &expr->call.args;
  return eval_choice(host, args->items[0], args->items[1], args->items[2], out);
}

static enum ts_status call_stack_alloca(struct ts__host *host, const struct tir_expr *expr,
                                        struct ts__host_value *out) {
  (void)host, (void)expr;
  *out = (struct ts__host_value){.kind = TS__HOST_MAP, .index = TS_NONE};
  return TS_OK;
}

/* The address of an element: only of tensors' device memory. */
static enum ts_status call_address_of(struct ts__host *host, const struct tir_expr *expr,
                                      struct ts__host_value *out) {
  const struct tir_expr *load = expr->call.args.items[0];
  int64_t index;
  if (load->kind == TIR_BUFFER_LOAD && load->load.indices.count == 1) {
    *out = host->vars[load->load.buffer->data->id];
    TS_TRY(ts__host_eval_int(host, load->load.indices.items[0], &index));
    uint64_t bits = (uint64_t)index * ts_dtype_bits(load->load.buffer->dtype.elem);
    out->integer = as_signed((uint64_t)out->integer + bits / 8);
    if (out->kind == TS__HOST_ADDRESS) return TS_OK;
  }
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                       "node %u: address_of anything but a tensor's element", expr->node);
}

static enum ts_status call_bits(struct ts__host *host, const struct tir_expr *expr,
                                struct ts__host_value *out) {
  int64_t a, b;
  TS_TRY(ts__host_eval_int(host, expr->call.args.items[0], &a));
  TS_TRY(ts__host_eval_int(host, expr->call.args.items[1], &b));
  const char *op = expr->call.op;
  uint64_t x = (uint64_t)a, y = (uint64_t)b, result;
  if (strstr(op, "shift")) {
    bool is_right = strcmp(op, "tirx.shift_right") == 0;
    uint64_t count = y > 63 ? 63 : y;
    result = is_right ? (uint64_t)(a >> count) : y > 63 ? 0 : x << y;
  } else {
    result = strcmp(op, "tirx.bitwise_and") == 0  ? (x & y)
             : strcmp(op, "tirx.bitwise_or") == 0 ? (x | y)
                                                  : (x ^ y);
  }
  *out = make_int(wrap(expr->dtype, as_signed(result)));
  return TS_OK;
}

static const struct host_builtin {
  const char *name;
  size_t min_args, max_args;
  enum ts_status (*eval)(struct ts__host *, const struct tir_expr *, struct ts__host_value *);
} host_builtins[] = {
    {"tirx.tvm_struct_get", 3, 3, call_struct_get},
    {"tirx.isnullptr", 1, 1, call_isnullptr},
    {"tirx.if_then_else", 3, 3, call_if_then_else},
    {"tirx.reinterpret", 1, 1, call_reinterpret},
    {"tirx.handle_add_byte_offset", 2, 2, call_add_byte_offset},
    {"tirx.tvm_stack_alloca", 2, 2, call_stack_alloca},
    {"tirx.address_of", 1, 1, call_address_of},
    {"tirx.shift_right", 2, 2, call_bits},
    {"tirx.shift_left", 2, 2, call_bits},
    {"tirx.bitwise_and", 2, 2, call_bits},
    {"tirx.bitwise_or", 2, 2, call_bits},
    {"tirx.bitwise_xor", 2, 2, call_bits},
};

static enum ts_status eval_call(struct ts__host *host, const struct tir_expr *expr,
                                struct ts__host_value *out) {
  for (size_t i = 0; i < sizeof host_builtins / sizeof *host_builtins; i++) {
    const struct host_builtin *builtin = &host_builtins[i];
    if (strcmp(builtin->name, expr->call.op) != 0) continue;
    if (expr->call.args.count < builtin->min_args || expr->call.args.count > builtin->max_args)
      return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                           "node %u: %s has %zu arguments, expected %zu", expr->node, builtin->name,
                           expr->call.args.count, builtin->min_args);
    return builtin->eval(host, expr, out);
  }
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                       "node %u: unknown builtin %s in an expression", expr->node, expr->call.op);
}

static enum ts_status eval_cast(struct ts__host *host, const struct tir_expr *expr,
                                struct ts__host_value *out) {
  TS_TRY(ts__host_eval(host, expr->cast.value, out));
  bool to_float = ts_dtype_is_float(expr->dtype.elem);
  if (out->kind == TS__HOST_INT && !to_float) {
    out->integer = wrap(expr->dtype, out->integer);
    return TS_OK;
  }
  if (out->kind == TS__HOST_FLOAT && to_float) return TS_OK;
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                       "node %u: cast of %s to %s in the host function", expr->node,
                       ts__host_kind_text(out->kind), expr->dtype.text);
}

static enum ts_status eval_var(struct ts__host *host, const struct tir_expr *expr,
                               struct ts__host_value *out) {
  *out = host->vars[expr->var->id];
  if (out->kind != TS__HOST_UNSET) return TS_OK;
  return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                       "node %u: variable %s is used before it is bound", expr->node,
                       expr->var->name);
}

enum ts_status ts__host_eval(struct ts__host *host, const struct tir_expr *expr,
                             struct ts__host_value *out) {
  switch (expr->kind) {
  case TIR_VAR:
  case TIR_SIZE_VAR: return eval_var(host, expr, out);
  case TIR_INT_IMM: *out = make_int(expr->int_value); return TS_OK;
  case TIR_FLOAT_IMM:
    *out = (struct ts__host_value){.kind = TS__HOST_FLOAT, .number = expr->float_value};
    return TS_OK;
  case TIR_AND:
  case TIR_OR:
  case TIR_NOT: return eval_logic(host, expr, out);
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
  case TIR_GE: return eval_binary(host, expr, out);
  case TIR_SELECT:
    return eval_choice(host, expr->select.condition, expr->select.true_value,
                       expr->select.false_value, out);
  case TIR_CAST: return eval_cast(host, expr, out);
  case TIR_BUFFER_LOAD: return eval_load(host, expr, out);
  case TIR_CALL: return eval_call(host, expr, out);
  default:
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "node %u: %s cannot be evaluated on the host", expr->node,
                         tir_expr_kind_text(expr->kind));
  }
}
