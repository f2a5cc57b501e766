/* Calls: blocks that work together. Argument orders are those of TileLang's CUDA code generator. */
#include "front/tvm/lower_priv.h"

static const struct tir_expr *arg_expr(const struct tir_expr *call, size_t i) {
  return call->call.args.items[i];
}

static struct ts_operand arg(struct ts__lower *lower, const struct tir_expr *call, size_t i) {
  return ts__lower_expr(lower, arg_expr(call, i)).operand;
}

static struct ts_operand zero(struct ts__lower *lower) {
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), 0).operand;
}

static struct ts_operand address_arg(struct ts__lower *lower, const struct tir_expr *call, size_t i,
                                     enum ts__storage_kind kind) {
  struct ts__pointer pointer = ts__lower_pointer(lower, arg_expr(call, i));
  if (!ts__pointer_expect(lower, &pointer, kind, call)) return zero(lower);
  return ts__lower_emit_address(lower, &pointer).operand;
}

static void emit(struct ts__lower *lower, enum ts_op op, const struct ts_operand *operands,
                 uint32_t count, const struct ts__attrs *attrs) {
  if (lower->status != TS_OK) return;
  ts__lower_emit_raw(lower, op, ts__scalar_type(TS_DTYPE_u32), TS_DTYPE_u32, operands, count,
                     attrs);
}

/* (mbarrier, rank) */
struct ts__value ts__builtin_arrive_cluster(struct ts__lower *lower, const struct tir_expr *call,
                                            int unused) {
  (void)unused;
  struct ts_operand operands[2] = {address_arg(lower, call, 0, TS__STORAGE_SHARED),
                                   arg(lower, call, 1)};
  emit(lower, TS_OP_mbarrier_arrive_cluster, operands, 2, NULL);
  return ts__value_none();
}

/* (pointer to shared memory, value, rank, index in elements) */
struct ts__value ts__builtin_cluster_store(struct ts__lower *lower, const struct tir_expr *call,
                                           int unused) {
  (void)unused;
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 0));
  struct ts__value value = ts__lower_expr(lower, arg_expr(call, 1));
  struct ts_operand rank = arg(lower, call, 2);
  if (!ts__pointer_expect(lower, &to, TS__STORAGE_SHARED, call)) return ts__value_none();
  if (!ts__value_is(lower, to.index, 0)) {
    ts__lower_unknown(lower, "%s at a computed offset", call->call.op);
    return ts__value_none();
  }
  int64_t elements = 0;
  ts__lower_sum(lower, arg_expr(call, 3), &to.index, &elements);
  to.offset += elements * to.scale;
  value = ts__lower_cast(lower, value, to.elem);
  struct ts_operand operands[4] = {to.storage->operand, to.index.operand, value.operand, rank};
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_scale, to.scale);
  ts__attr_add(&attrs, TS_ATTR_offset, to.offset);
  ts__lower_emit_raw(lower, TS_OP_st_cluster, value.type, to.elem, operands, 4, &attrs);
  return ts__value_none();
}

/* (destination, source, rank, bytes, mbarrier): also arrives on the remote mbarrier and announces
 * the bytes. */
struct ts__value ts__builtin_tma_store_cluster(struct ts__lower *lower, const struct tir_expr *call,
                                               int unused) {
  (void)unused;
  struct ts_operand operands[5] = {
      address_arg(lower, call, 0, TS__STORAGE_SHARED),
      address_arg(lower, call, 1, TS__STORAGE_SHARED), arg(lower, call, 3),
      address_arg(lower, call, 4, TS__STORAGE_SHARED), arg(lower, call, 2)};
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_expect, 1);
  emit(lower, TS_OP_bulk_cluster, operands, 5, &attrs);
  return ts__value_none();
}

struct ts__value ts__builtin_zero(struct ts__lower *lower, const struct tir_expr *call,
                                  int unused) {
  (void)unused;
  return ts__value_imm(lower, ts__lower_type(lower, call->dtype), 0);
}

/* (response, mbarrier): the 16 bytes of the response have arrived at once. Nobody reads them, since
 * what it says is known. */
struct ts__value ts__builtin_clc_try_cancel(struct ts__lower *lower, const struct tir_expr *call,
                                            int unused) {
  (void)unused;
  struct ts_operand operands[2] = {address_arg(lower, call, 1, TS__STORAGE_SHARED),
                                   ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), 16).operand};
  emit(lower, TS_OP_mbarrier_complete_tx, operands, 2, NULL);
  return ts__value_none();
}

static bool is_tensormap(const struct ts__lower *lower, const struct tir_expr *expr) {
  return expr->kind == TIR_VAR && lower->storage[expr->var->id].kind == TS__STORAGE_TENSORMAP;
}

/* (map, mbarrier, shared, mask, coordinates..., eviction) */
static uint32_t tensor_operands(struct ts__lower *lower, const struct tir_expr *call,
                                struct ts_operand operands[TS_MAX_OPERANDS]) {
  uint32_t count = (uint32_t)call->call.args.count - 1;
  operands[0] = ts_build_tensormap(lower->storage[arg_expr(call, 0)->var->id].index);
  operands[1] = address_arg(lower, call, 2, TS__STORAGE_SHARED);
  operands[2] = address_arg(lower, call, 1, TS__STORAGE_SHARED);
  for (uint32_t i = 3; i < count; i++)
    operands[i] = arg(lower, call, i);
  return count;
}

/* As above, or without a tensor map (shared, global, mbarrier, bytes, mask, eviction). */
struct ts__value ts__builtin_tma_load_multicast(struct ts__lower *lower,
                                                const struct tir_expr *call, int unused) {
  (void)unused;
  struct ts_operand operands[TS_MAX_OPERANDS];
  struct ts__attrs attrs = {.count = 0};
  size_t last = call->call.args.count - 1;
  ts__attr_add(&attrs, TS_ATTR_eviction,
               ts__lower_constant(lower, arg_expr(call, last), "an eviction policy"));
  if (is_tensormap(lower, arg_expr(call, 0))) {
    uint32_t count = tensor_operands(lower, call, operands);
    emit(lower, TS_OP_tma_load_multicast, operands, count, &attrs);
    return ts__value_none();
  }
  operands[0] = address_arg(lower, call, 0, TS__STORAGE_SHARED);
  operands[1] = address_arg(lower, call, 1, TS__STORAGE_GLOBAL);
  operands[2] = arg(lower, call, 3);
  operands[3] = address_arg(lower, call, 2, TS__STORAGE_SHARED);
  operands[4] = arg(lower, call, 4);
  emit(lower, TS_OP_bulk_load_multicast, operands, 5, &attrs);
  return ts__value_none();
}
