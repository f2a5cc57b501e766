/* Calls: loads and stores that a kernel writes out itself. */
#include "front/tvm/lower_priv.h"

static const struct tir_expr *arg_expr(const struct tir_expr *call, size_t i) {
  return call->call.args.items[i];
}

/* The instruction name says which memory it is for. */
static bool expect_space(struct ts__lower *lower, const struct ts__pointer *pointer,
                         const struct tir_expr *call) {
  bool is_shared = call->call.op[2] == '.' && call->call.op[5] == 's'; /* tl.lds32, tl.sts32 */
  return ts__pointer_expect(lower, pointer, is_shared ? TS__STORAGE_SHARED : TS__STORAGE_GLOBAL,
                            call);
}

/* (pointer[, condition]): `words` 32-bit words; zeros when the condition does not hold. */
struct ts__value ts__builtin_load_words(struct ts__lower *lower, const struct tir_expr *call,
                                        int words) {
  struct ts__pointer from = ts__lower_pointer(lower, arg_expr(call, 0));
  struct ts_type type = ts__lower_type(lower, call->dtype);
  if (ts_dtype_bits(type.dtype) * type.lanes != 32u * (unsigned)words) {
    ts__lower_unknown(lower, "%s with a result of dtype '%s'", call->call.op, call->dtype.text);
  }
  if (!expect_space(lower, &from, call)) return ts__value_none();
  from.elem = (enum ts_dtype)type.dtype;
  if (call->call.args.count == 1) return ts__lower_emit_load(lower, &from, type.lanes);
  struct ts__value chosen = ts__lower_expr(lower, arg_expr(call, 1));
  struct ts__value result = ts__lower_emit_variable(lower, ts__value_imm(lower, type, 0), NULL);
  result.level = lower->level;
  result.is_varying = true;
  ts_build_if(lower->build, ts__lower_cast(lower, chosen, TS_DTYPE_pred).operand);
  ts__lower_emit_assign(lower, result, ts__lower_emit_load(lower, &from, type.lanes));
  ts_build_end_if(lower->build);
  return result;
}

/* (pointer, value[, condition]) */
struct ts__value ts__builtin_store_words(struct ts__lower *lower, const struct tir_expr *call,
                                         int words) {
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 0));
  struct ts__value value = ts__lower_expr(lower, arg_expr(call, 1));
  if (ts_dtype_bits(value.type.dtype) * value.type.lanes != 32u * (unsigned)words) {
    ts__lower_unknown(lower, "%s of a value of another size", call->call.op);
  }
  if (!expect_space(lower, &to, call)) return ts__value_none();
  bool is_conditional = call->call.args.count == 3;
  if (is_conditional) {
    struct ts__value chosen = ts__lower_expr(lower, arg_expr(call, 2));
    ts_build_if(lower->build, ts__lower_cast(lower, chosen, TS_DTYPE_pred).operand);
  }
  to.elem = (enum ts_dtype)value.type.dtype;
  ts__lower_emit_store(lower, &to, value);
  if (is_conditional) ts_build_end_if(lower->build);
  return ts__value_none();
}

/* (pointer, bytes, 0): st.bulk, a loop of words here. */
struct ts__value ts__builtin_st_bulk(struct ts__lower *lower, const struct tir_expr *call,
                                     int unused) {
  (void)unused;
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 0));
  int64_t bytes = ts__lower_constant(lower, arg_expr(call, 1), "the bytes of st.bulk");
  int64_t value = ts__lower_constant(lower, arg_expr(call, 2), "the value of st.bulk");
  if (!ts__pointer_expect(lower, &to, TS__STORAGE_SHARED, call)) return ts__value_none();
  if (value || bytes % 8 || bytes < 0) ts__lower_unknown(lower, "%s of this size", call->call.op);
  struct ts__value base = ts__lower_emit_address(lower, &to), zero = ts__value_u32(lower, 0);
  struct ts_type word = ts__scalar_type(TS_DTYPE_u64);
  struct ts__value i = ts__lower_emit_variable(lower, zero, NULL);
  i.is_mutable = true;
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_scale, 8);
  lower->nesting++;
  i.level = ++lower->level;
  ts_build_loop(lower->build);
  struct ts__value goes_on = ts__lower_emit_2(lower, TS_OP_lt, i, ts__value_u32(lower, bytes / 8));
  ts_build_loop_while(lower->build, goes_on.operand);
  struct ts_operand operands[3] = {base.operand, i.operand, ts__value_imm(lower, word, 0).operand};
  ts__lower_emit_raw(lower, TS_OP_st_shared, word, TS_DTYPE_u64, operands, 3, &attrs);
  ts__lower_emit_assign(lower, i, ts__lower_emit_2(lower, TS_OP_add, i, ts__value_u32(lower, 1)));
  ts_build_end_loop(lower->build);
  lower->level--;
  lower->nesting--;
  return ts__value_none();
}

/* __ldg(&element): the read-only cache holds what global memory does. */
struct ts__value ts__builtin_ldg(struct ts__lower *lower, const struct tir_expr *call, int unused) {
  (void)unused;
  struct ts__pointer from = ts__lower_pointer(lower, arg_expr(call, 0));
  if (!ts__pointer_expect(lower, &from, TS__STORAGE_GLOBAL, call)) return ts__value_none();
  return ts__lower_emit_load(lower, &from, ts__lower_type(lower, call->dtype).lanes);
}

/* (pointer, count): whether any, or all, of the elements are not 0. */
struct ts__value ts__builtin_any_of(struct ts__lower *lower, const struct tir_expr *call,
                                    int is_any) {
  enum { MAX_ELEMENTS = 1024 };
  struct ts__pointer at = ts__lower_pointer(lower, arg_expr(call, 0));
  int64_t count = ts__lower_constant(lower, arg_expr(call, 1), "a number of elements");
  struct ts__value result = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_pred), !is_any);
  if (count < 0 || count > MAX_ELEMENTS) {
    ts__lower_unknown(lower, "%s over %lld elements", call->call.op, (long long)count);
  }
  for (int64_t i = 0; i < count && lower->status == TS_OK; i++) {
    struct ts__value element = ts__lower_emit_load(lower, &at, 1);
    struct ts__value is_set = ts__lower_cast(lower, element, TS_DTYPE_pred);
    result = ts__lower_emit_2(lower, is_any ? TS_OP_or : TS_OP_and, result, is_set);
    at.offset = ts__wrap_add(at.offset, at.scale);
  }
  return ts__lower_cast(lower, result, call->dtype.elem);
}
