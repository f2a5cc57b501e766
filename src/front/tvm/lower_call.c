/* Calls: the table of builtins, and the ones that compute. */
#include "front/tvm/lower_priv.h"

#include <string.h>

static const struct ts__builtin builtin_table[] = {
#define BUILTIN(name, handler, argument, min_args, max_args, flags)                                \
  {name, ts__builtin_##handler, argument, min_args, max_args, flags},
#include "front/tvm/builtin.def"
#undef BUILTIN
};

const struct ts__builtin *ts__builtin_at(size_t index) {
  return index < sizeof builtin_table / sizeof *builtin_table ? &builtin_table[index] : NULL;
}

const struct ts__builtin *ts__builtin_find(const char *name) {
  size_t low = 0, high = sizeof builtin_table / sizeof *builtin_table;
  while (low < high) {
    size_t middle = (low + high) / 2;
    int order = strcmp(name, builtin_table[middle].name);
    if (order == 0) return &builtin_table[middle];
    if (order < 0) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return NULL;
}

/* What a call that failed is worth to its user. */
static struct ts__value placeholder(struct ts__lower *lower, const struct tir_expr *call) {
  if (call->dtype.elem == TS_DTYPE_NONE || call->dtype.lanes > TS_MAX_VECTOR_LANES) {
    return ts__value_none();
  }
  return ts__value_imm(lower, ts__lower_type(lower, call->dtype), 0);
}

struct ts__value ts__lower_call(struct ts__lower *lower, const struct tir_expr *call) {
  /* Hints on calls that change nothing a kernel computes. */
  const struct ts__builtin *builtin = ts__builtin_find(call->call.op);
  if (lower->status != TS_OK) return placeholder(lower, call);
  if (!builtin) {
    ts__lower_unknown(lower, "the builtin '%s'", call->call.op);
    return placeholder(lower, call);
  }
  if (call->call.annotations && call->call.annotations->count) {
    const char *key = tir_value_string(call->call.annotations->entries[0].key);
    ts__lower_unknown(lower, "the annotation '%s' of %s", key ? key : "?", call->call.op);
    return placeholder(lower, call);
  }
  size_t count = call->call.args.count;
  if (count < builtin->min_args || count > builtin->max_args) {
    ts__lower_unknown(lower, "%s with %zu arguments", call->call.op, count);
    return placeholder(lower, call);
  }
  struct ts__value value = builtin->lower(lower, call, builtin->argument);
  return lower->status == TS_OK ? value : placeholder(lower, call);
}

/* --- arithmetic */

struct ts__value ts__builtin_unary(struct ts__lower *lower, const struct tir_expr *call, int op) {
  struct ts__value a = ts__lower_arg(lower, call, 0);
  struct ts__value result = ts__lower_emit_1(lower, (enum ts_op)op, a);
  return ts__lower_cast(lower, result, call->dtype.elem);
}

struct ts__value ts__builtin_float_unary(struct ts__lower *lower, const struct tir_expr *call,
                                         int op) {
  struct ts__value a = ts__lower_arg(lower, call, 0);
  if (!ts_dtype_is_float(a.type.dtype)) {
    ts__lower_unknown(lower, "%s of dtype '%s'", call->call.op, ts_dtype_name(a.type.dtype));
  }
  return ts__lower_emit_1(lower, (enum ts_op)op, a);
}

struct ts__value ts__builtin_binary(struct ts__lower *lower, const struct tir_expr *call, int op) {
  struct ts__value a = ts__lower_arg(lower, call, 0);
  return ts__lower_emit_2(lower, (enum ts_op)op, a, ts__lower_arg(lower, call, 1));
}

/* The position of the lowest one bit, from 1; 0 when there is none. */
struct ts__value ts__builtin_ffs(struct ts__lower *lower, const struct tir_expr *call, int unused) {
  (void)unused;
  struct ts__value a = ts__lower_arg(lower, call, 0), zero = ts__value_imm(lower, a.type, 0);
  struct ts__value lowest =
      ts__lower_emit_2(lower, TS_OP_and, a, ts__lower_emit_2(lower, TS_OP_sub, zero, a));
  struct ts__value leading = ts__lower_emit_1(lower, TS_OP_clz, lowest);
  struct ts__value bits = ts__value_imm(lower, a.type, ts_dtype_bits(a.type.dtype));
  return ts__lower_cast(lower, ts__lower_emit_2(lower, TS_OP_sub, bits, leading), call->dtype.elem);
}

struct ts__value ts__builtin_shift(struct ts__lower *lower, const struct tir_expr *call, int op) {
  struct ts__value a = ts__lower_arg(lower, call, 0), b = ts__lower_arg(lower, call, 1);
  return ts__lower_emit_2(lower, (enum ts_op)op, a,
                          ts__lower_cast(lower, b, (enum ts_dtype)a.type.dtype));
}

static struct ts__value fused(struct ts__lower *lower, const struct tir_expr *a,
                              const struct tir_expr *b, const struct tir_expr *c) {
  struct ts__value operands[3] = {ts__lower_expr(lower, a), ts__lower_expr(lower, b),
                                  ts__lower_expr(lower, c)};
  struct ts_type type = operands[0].type;
  struct ts__attrs attrs = {.count = 0};
  if (lower->fast_math && type.dtype == TS_DTYPE_f32) ts__attr_add(&attrs, TS_ATTR_ftz, 1);
  return ts__lower_emit(lower, TS_OP_fma, type, (enum ts_dtype)type.dtype, operands, 3, &attrs);
}

struct ts__value ts__builtin_fma(struct ts__lower *lower, const struct tir_expr *call, int unused) {
  (void)unused;
  const struct tir_expr *const *args = call->call.args.items;
  return fused(lower, args[0], args[1], args[2]);
}

static bool is_mul2(const struct tir_expr *expr) {
  return expr->kind == TIR_CALL && !strcmp(expr->call.op, "tl.mul2") && expr->call.args.count == 2;
}

/* The code generator makes one tl::fma2 of add2(mul2(a, b), c). */
struct ts__value ts__builtin_add2(struct ts__lower *lower, const struct tir_expr *call,
                                  int unused) {
  (void)unused;
  const struct tir_expr *a = call->call.args.items[0], *b = call->call.args.items[1];
  if (is_mul2(a)) return fused(lower, a->call.args.items[0], a->call.args.items[1], b);
  if (is_mul2(b)) return fused(lower, b->call.args.items[0], b->call.args.items[1], a);
  return ts__builtin_binary(lower, call, TS_OP_add);
}

struct ts__value ts__builtin_minmax_nan(struct ts__lower *lower, const struct tir_expr *call,
                                        int op) {
  struct ts__value operands[2] = {ts__lower_arg(lower, call, 0), ts__lower_arg(lower, call, 1)};
  struct ts_type type = operands[0].type;
  struct ts__attrs attrs = {.count = 0};
  /* Only the 16-bit types have the form that propagates NaN; others print fast_max, fast_min. */
  if (type.dtype == TS_DTYPE_f16 || type.dtype == TS_DTYPE_bf16) {
    ts__attr_add(&attrs, TS_ATTR_nan, 1);
  }
  return ts__lower_emit(lower, (enum ts_op)op, type, (enum ts_dtype)type.dtype, operands, 2,
                        &attrs);
}

/* T.__exp and its relatives: the CUDA intrinsic, whatever the compiler's flags. */
struct ts__value ts__builtin_fast_unary(struct ts__lower *lower, const struct tir_expr *call,
                                        int op) {
  struct ts__value a = ts__lower_arg(lower, call, 0);
  if (a.type.dtype != TS_DTYPE_f32) return ts__builtin_float_unary(lower, call, op);
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_approx, 1);
  ts__attr_add(&attrs, TS_ATTR_ftz, lower->fast_math);
  return ts__lower_emit(lower, (enum ts_op)op, a.type, TS_DTYPE_f32, &a, 1, &attrs);
}

struct ts__value ts__builtin_fast_rcp(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  struct ts__value a = ts__lower_arg(lower, call, 0);
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_approx, 1); /* rcp.approx.ftz.f32 */
  ts__attr_add(&attrs, TS_ATTR_ftz, 1);
  return ts__lower_emit(lower, TS_OP_rcp, a.type, (enum ts_dtype)a.type.dtype, &a, 1, &attrs);
}

/* __fadd_rn and its relatives are never fused. */
static int64_t rounding_of(struct ts__lower *lower, const struct tir_expr *call, const char *mode) {
  if (!strcmp(mode, "rz")) return TS_IR_ROUND_rz;
  if (!strcmp(mode, "rd")) return TS_IR_ROUND_rm;
  if (!strcmp(mode, "ru")) return TS_IR_ROUND_rp;
  if (strcmp(mode, "rn")) ts__lower_unknown(lower, "%s with rounding '%s'", call->call.op, mode);
  return TS_IR_ROUND_rn;
}

struct ts__value ts__builtin_ieee(struct ts__lower *lower, const struct tir_expr *call, int op) {
  struct ts__value operands[3];
  uint32_t count = (uint32_t)call->call.args.count - 1;
  for (uint32_t i = 0; i < count; i++)
    operands[i] = ts__lower_arg(lower, call, i);
  const char *mode = ts__lower_string(lower, call->call.args.items[count], "a rounding mode");
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_nofuse, 1);
  ts__attr_add(&attrs, TS_ATTR_round, rounding_of(lower, call, mode));
  ts__attr_add(&attrs, TS_ATTR_ftz, lower->fast_math && operands[0].type.dtype == TS_DTYPE_f32);
  struct ts_type type = operands[0].type;
  return ts__lower_emit(lower, (enum ts_op)op, type, (enum ts_dtype)type.dtype, operands, count,
                        &attrs);
}

/* T.fma, T.fmul: an instruction of its own in any vector width, never fused with others. */
struct ts__value ts__builtin_round_nearest(struct ts__lower *lower, const struct tir_expr *call,
                                           int op) {
  struct ts__value operands[3];
  uint32_t count = (uint32_t)call->call.args.count;
  for (uint32_t i = 0; i < count; i++)
    operands[i] = ts__lower_arg(lower, call, i);
  struct ts_type type = operands[0].type;
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_nofuse, 1);
  ts__attr_add(&attrs, TS_ATTR_ftz, lower->fast_math && type.dtype == TS_DTYPE_f32);
  return ts__lower_emit(lower, (enum ts_op)op, type, (enum ts_dtype)type.dtype, operands, count,
                        &attrs);
}

/* roundf; hrint for the 16-bit types. */
struct ts__value ts__builtin_round(struct ts__lower *lower, const struct tir_expr *call,
                                   int unused) {
  (void)unused;
  bool is_half = call->dtype.elem == TS_DTYPE_f16 || call->dtype.elem == TS_DTYPE_bf16;
  return ts__builtin_float_unary(lower, call, is_half ? TS_OP_rint : TS_OP_round);
}

/* 1 / (1 + exp(0 - x)), as TVM expands it. */
struct ts__value ts__builtin_sigmoid(struct ts__lower *lower, const struct tir_expr *call,
                                     int unused) {
  (void)unused;
  struct ts__value x = ts__lower_arg(lower, call, 0);
  struct ts__value one = ts__value_imm(lower, x.type, 1), zero = ts__value_imm(lower, x.type, 0);
  struct ts__value e =
      ts__lower_emit_1(lower, TS_OP_exp, ts__lower_emit_2(lower, TS_OP_sub, zero, x));
  return ts__lower_emit_2(lower, TS_OP_div, one, ts__lower_emit_2(lower, TS_OP_add, one, e));
}

struct ts__value ts__builtin_clamp(struct ts__lower *lower, const struct tir_expr *call,
                                   int unused) {
  (void)unused;
  struct ts__value x = ts__lower_arg(lower, call, 0), low = ts__lower_arg(lower, call, 1),
                   high = ts__lower_arg(lower, call, 2);
  return ts__lower_emit_2(lower, TS_OP_min, ts__lower_emit_2(lower, TS_OP_max, x, low), high);
}

struct ts__value ts__builtin_classify(struct ts__lower *lower, const struct tir_expr *call,
                                      int which) {
  struct ts__value x = ts__lower_arg(lower, call, 0);
  if (which == TS__CLASS_NAN) return ts__lower_emit_2(lower, TS_OP_ne, x, x);
  struct ts__value infinity = ts__value_float(lower, x.type, 1.0 / 0.0);
  struct ts__value size = ts__lower_emit_1(lower, TS_OP_abs, x);
  return ts__lower_emit_2(lower, which == TS__CLASS_INF ? TS_OP_eq : TS_OP_lt, size, infinity);
}

struct ts__value ts__builtin_infinity(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  return ts__value_float(lower, ts__lower_type(lower, call->dtype), 1.0 / 0.0);
}

struct ts__value ts__builtin_if_then_else(struct ts__lower *lower, const struct tir_expr *call,
                                          int unused) {
  (void)unused;
  const struct tir_expr *const *args = call->call.args.items;
  return ts__lower_choice(lower, args[0], args[1], args[2]);
}

struct ts__value ts__builtin_same(struct ts__lower *lower, const struct tir_expr *call,
                                  int unused) {
  (void)unused;
  return ts__lower_arg(lower, call, 0);
}

struct ts__value ts__builtin_nothing(struct ts__lower *lower, const struct tir_expr *call,
                                     int unused) {
  (void)lower, (void)call, (void)unused;
  return ts__value_none();
}

static struct ts__value bits_as(struct ts__lower *lower, struct ts__value value,
                                struct ts_type type) {
  uint32_t have = ts_dtype_bits(value.type.dtype) * value.type.lanes;
  if (value.type.dtype == TS_DTYPE_pred || have != ts_dtype_bits(type.dtype) * type.lanes) {
    ts__lower_unknown(lower, "a reinterpretation between sizes");
  }
  if (value.type.dtype == type.dtype) return value;
  int64_t constant;
  if (value.type.lanes > 1 && ts__value_constant(lower, value, &constant)) {
    value = ts__lower_emit(lower, TS_OP_broadcast, value.type, (enum ts_dtype)value.type.dtype,
                           &value, 1, NULL);
  }
  return ts__lower_emit(lower, TS_OP_bitcast, type, (enum ts_dtype)value.type.dtype, &value, 1,
                        NULL);
}

struct ts__value ts__builtin_reinterpret(struct ts__lower *lower, const struct tir_expr *call,
                                         int unused) {
  (void)unused;
  return bits_as(lower, ts__lower_arg(lower, call, 0), ts__lower_type(lower, call->dtype));
}

struct ts__value ts__builtin_pack_b16(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  struct ts__value parts[2] = {ts__lower_arg(lower, call, 0), ts__lower_arg(lower, call, 1)};
  struct ts__value pair = ts__lower_emit_concat(lower, parts, 2);
  return bits_as(lower, pair, ts__lower_type(lower, call->dtype));
}

/* --- lanes of a warp */

static struct ts__value full_mask(struct ts__lower *lower) {
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), UINT32_MAX);
}

static struct ts__value emit_shfl(struct ts__lower *lower, enum ts_ir_mode mode,
                                  struct ts__value value, struct ts__value lane,
                                  struct ts__value width, struct ts__value mask) {
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_mode, mode);
  struct ts__value operands[4] = {value, lane, width, mask};
  return ts__lower_emit(lower, TS_OP_shfl, value.type, (enum ts_dtype)value.type.dtype, operands, 4,
                        &attrs);
}

struct ts__value ts__lower_emit_shfl_constant(struct ts__lower *lower, enum ts_ir_mode mode,
                                              struct ts__value value, uint32_t lane) {
  struct ts_type type = ts__scalar_type(TS_DTYPE_u32);
  return emit_shfl(lower, mode, value, ts__value_imm(lower, type, lane),
                   ts__value_imm(lower, type, TS_WARP_LANES), full_mask(lower));
}

struct ts__value ts__builtin_shfl(struct ts__lower *lower, const struct tir_expr *call, int mode) {
  struct ts__value mask = ts__lower_arg(lower, call, 0), value = ts__lower_arg(lower, call, 1);
  struct ts__value lane = ts__lower_arg(lower, call, 2), width = ts__lower_arg(lower, call, 3);
  return emit_shfl(lower, (enum ts_ir_mode)mode, value, lane, width, mask);
}

struct ts__value ts__builtin_vote(struct ts__lower *lower, const struct tir_expr *call, int mode) {
  size_t count = call->call.args.count;
  struct ts__value mask = count == 2 ? ts__lower_arg(lower, call, 0) : full_mask(lower);
  struct ts__value chosen =
      ts__lower_cast(lower, ts__lower_arg(lower, call, count - 1), TS_DTYPE_pred);
  enum ts_dtype dtype = mode == TS_IR_MODE_ballot ? TS_DTYPE_u32 : TS_DTYPE_pred;
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_mode, mode);
  struct ts__value operands[2] = {chosen, mask};
  struct ts__value result =
      ts__lower_emit(lower, TS_OP_vote, ts__scalar_type(dtype), dtype, operands, 2, &attrs);
  return ts__lower_cast(lower, result, call->dtype.elem);
}

struct ts__value ts__builtin_match(struct ts__lower *lower, const struct tir_expr *call, int mode) {
  struct ts__value mask = ts__lower_arg(lower, call, 0), value = ts__lower_arg(lower, call, 1);
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_mode, mode);
  struct ts__value operands[2] = {value, mask};
  struct ts__value result = ts__lower_emit(lower, TS_OP_match, value.type,
                                           (enum ts_dtype)value.type.dtype, operands, 2, &attrs);
  result.type = ts__scalar_type(TS_DTYPE_u32);
  return ts__lower_cast(lower, result, call->dtype.elem);
}

struct ts__value ts__builtin_activemask(struct ts__lower *lower, const struct tir_expr *call,
                                        int unused) {
  (void)unused;
  struct ts__value mask = ts__lower_emit_sreg(lower, TS_SREG_activemask);
  mask = ts__lower_emit_convert(lower, TS_DTYPE_u32, mask);
  return ts__lower_cast(lower, mask, call->dtype.elem);
}

struct ts__value ts__builtin_sreg(struct ts__lower *lower, const struct tir_expr *call, int which) {
  struct ts__value value = ts__lower_emit_sreg(lower, (enum ts_sreg)which);
  return ts__lower_cast(lower, value, call->dtype.elem);
}

/* Argument i where it is given and positive, else the constant. */
static struct ts__value positive_arg(struct ts__lower *lower, const struct tir_expr *call, size_t i,
                                     int64_t otherwise) {
  struct ts_type type = ts__scalar_type(TS_DTYPE_s32);
  struct ts__value usual = ts__value_imm(lower, type, otherwise);
  if (call->call.args.count <= i) return usual;
  struct ts__value given = ts__lower_cast(lower, ts__lower_arg(lower, call, i), TS_DTYPE_s32);
  struct ts__value is_given =
      ts__lower_emit_2(lower, TS_OP_lt, ts__value_imm(lower, type, 0), given);
  return ts__lower_emit_select(lower, is_given, given, usual);
}

static struct ts__value linear_thread(struct ts__lower *lower) {
  struct ts__value warp = ts__lower_emit_sreg(lower, TS_SREG_warpid);
  struct ts__value lanes = ts__value_imm(lower, warp.type, TS_WARP_LANES);
  warp = ts__lower_emit_2(lower, TS_OP_mul, warp, lanes);
  return ts__lower_emit_2(lower, TS_OP_add, warp, ts__lower_emit_sreg(lower, TS_SREG_laneid));
}

/* ([threads of a warp]): the thread's linear number modulo that */
struct ts__value ts__builtin_thread_lane(struct ts__lower *lower, const struct tir_expr *call,
                                         int unused) {
  (void)unused;
  struct ts__value lane = ts__lower_emit_sreg(lower, TS_SREG_laneid);
  if (call->call.args.count)
    lane = ts__lower_emit_2(lower, TS_OP_rem, linear_thread(lower),
                            positive_arg(lower, call, 0, TS_WARP_LANES));
  return ts__lower_cast(lower, lane, call->dtype.elem);
}

/* ([threads of a warp[, warps of a group]]): the thread's linear number divided by both */
struct ts__value ts__builtin_thread_div(struct ts__lower *lower, const struct tir_expr *call,
                                        int warps) {
  struct ts__value count = positive_arg(lower, call, 1, warps);
  struct ts__value group = ts__lower_emit_sreg(lower, TS_SREG_warpid);
  if (call->call.args.count) {
    count = ts__lower_emit_2(lower, TS_OP_mul, count, positive_arg(lower, call, 0, TS_WARP_LANES));
    group = linear_thread(lower);
  }
  group = ts__lower_emit_2(lower, TS_OP_div, group, count);
  return ts__lower_cast(lower, group, call->dtype.elem);
}

struct ts__value ts__builtin_elect(struct ts__lower *lower, const struct tir_expr *call,
                                   int unused) {
  (void)unused;
  int64_t threads = ts__lower_constant(lower, call->call.args.items[0], "tl_shuffle_elect's count");
  struct ts_type type = ts__scalar_type(TS_DTYPE_pred);
  struct ts__value count = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), threads);
  return ts__lower_emit(lower, TS_OP_elect, type, TS_DTYPE_pred, &count, 1, NULL);
}

/* Integers of up to 32 bits use redux.sync; the others a butterfly, own operand on the left. */
struct ts__value ts__builtin_warp_reduce(struct ts__lower *lower, const struct tir_expr *call,
                                         int op) {
  struct ts__value value = ts__lower_arg(lower, call, 0);
  enum ts_dtype dtype = (enum ts_dtype)value.type.dtype;
  if (dtype == TS_DTYPE_s32 || dtype == TS_DTYPE_u32) {
    struct ts__attrs attrs = {.count = 0};
    int reduce = op == TS_OP_add   ? TS_IR_REDUCE_add
                 : op == TS_OP_max ? TS_IR_REDUCE_max
                 : op == TS_OP_min ? TS_IR_REDUCE_min
                 : op == TS_OP_and ? TS_IR_REDUCE_and
                                   : TS_IR_REDUCE_or;
    ts__attr_set(&attrs, TS_ATTR_reduce, reduce);
    struct ts__value operands[2] = {value, full_mask(lower)};
    return ts__lower_emit(lower, TS_OP_redux, value.type, dtype, operands, 2, &attrs);
  }
  for (uint32_t offset = TS_WARP_LANES / 2; offset; offset /= 2) {
    struct ts__value other = ts__lower_emit_shfl_constant(lower, TS_IR_MODE_bfly, value, offset);
    value = ts__lower_emit_2(lower, (enum ts_op)op, value, other);
  }
  return value;
}
