/* Calls: barriers, asynchronous copies, atomics. */
#include "front/tvm/lower_priv.h"

#include <string.h>

static const struct tir_expr *arg_expr(const struct tir_expr *call, size_t i) {
  return call->call.args.items[i];
}

static void emit_effect(struct ts__lower *lower, enum ts_op op, const struct ts__value *operands,
                        uint32_t count, const struct ts__attrs *attrs) {
  struct ts_operand raw[TS_MAX_OPERANDS];
  for (uint32_t i = 0; i < count; i++)
    raw[i] = operands[i].operand;
  ts__lower_emit_raw(lower, op, ts__scalar_type(TS_DTYPE_u32), TS_DTYPE_u32, raw, count, attrs);
}

/* The address of an argument in shared or global memory. */
static struct ts__value address_arg(struct ts__lower *lower, const struct tir_expr *call, size_t i,
                                    enum ts__storage_kind kind) {
  struct ts__pointer pointer = ts__lower_pointer(lower, arg_expr(call, i));
  if (!ts__pointer_expect(lower, &pointer, kind, call)) return ts__value_u32(lower, 0);
  return ts__lower_emit_address(lower, &pointer);
}

/* --- barriers of the block */

void ts__lower_emit_bar_sync(struct ts__lower *lower, int64_t barrier, int64_t thread_count) {
  struct ts__value operands[2] = {ts__value_u32(lower, barrier),
                                  ts__value_u32(lower, thread_count)};
  emit_effect(lower, TS_OP_bar_sync, operands, 2, NULL);
}

struct ts__value ts__builtin_storage_sync(struct ts__lower *lower, const struct tir_expr *call,
                                          int unused) {
  (void)unused;
  const char *scope = ts__lower_string(lower, arg_expr(call, 0), "a synchronisation scope");
  size_t count = call->call.args.count;
  if (!strcmp(scope, "warp")) return ts__value_none(); /* prints nothing */
  if (!strcmp(scope, "cluster")) {
    emit_effect(lower, TS_OP_cluster_sync, NULL, 0, NULL);
    return ts__value_none();
  }
  if (strcmp(scope, "shared") && strcmp(scope, "shared.dyn")) {
    ts__lower_unknown(lower, "tvm_storage_sync of '%s'", scope);
    return ts__value_none();
  }
  struct ts__value operands[2] = {
      count > 1 ? ts__lower_arg(lower, call, 1) : ts__value_u32(lower, 0),
      count > 2 ? ts__lower_arg(lower, call, 2) : ts__value_u32(lower, 0)};
  emit_effect(lower, TS_OP_bar_sync, operands, 2, NULL);
  return ts__value_none();
}

struct ts__value ts__builtin_bar_arrive(struct ts__lower *lower, const struct tir_expr *call,
                                        int unused) {
  (void)unused;
  struct ts__value operands[2] = {ts__lower_arg(lower, call, 0), ts__lower_arg(lower, call, 1)};
  emit_effect(lower, TS_OP_bar_arrive, operands, 2, NULL);
  return ts__value_none();
}

struct ts__value ts__builtin_bar_red(struct ts__lower *lower, const struct tir_expr *call,
                                     int mode) {
  struct ts__value chosen = ts__lower_cast(lower, ts__lower_arg(lower, call, 0), TS_DTYPE_pred);
  struct ts__value operands[3] = {ts__value_u32(lower, 0), ts__value_u32(lower, 0), chosen};
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_mode, mode);
  enum ts_dtype dtype = mode == TS_IR_MODE_popc ? TS_DTYPE_u32 : TS_DTYPE_pred;
  struct ts__value result =
      ts__lower_emit(lower, TS_OP_bar_red, ts__scalar_type(dtype), dtype, operands, 3, &attrs);
  return ts__lower_cast(lower, result, call->dtype.elem);
}

struct ts__value ts__builtin_sync_warp(struct ts__lower *lower, const struct tir_expr *call,
                                       int unused) {
  (void)unused;
  struct ts__value mask =
      call->call.args.count ? ts__lower_arg(lower, call, 0) : ts__value_u32(lower, UINT32_MAX);
  emit_effect(lower, TS_OP_warp_sync, &mask, 1, NULL);
  return ts__value_none();
}

/* Instructions whose operands are the arguments as they are. */
struct ts__value ts__builtin_sync(struct ts__lower *lower, const struct tir_expr *call, int op) {
  struct ts__value operands[2];
  uint32_t count = (uint32_t)call->call.args.count;
  for (uint32_t i = 0; i < count; i++)
    operands[i] = ts__lower_arg(lower, call, i);
  emit_effect(lower, (enum ts_op)op, operands, count, NULL);
  return ts__value_none();
}

struct ts__value ts__builtin_arrive_relaxed(struct ts__lower *lower, const struct tir_expr *call,
                                            int unused) {
  struct ts__attrs attrs = {.count = 0};
  (void)call, (void)unused;
  ts__attr_set(&attrs, TS_ATTR_order, 0);
  emit_effect(lower, TS_OP_cluster_arrive, NULL, 0, &attrs);
  return ts__value_none();
}

/* The lanes are done. */
struct ts__value ts__builtin_thread_return(struct ts__lower *lower, const struct tir_expr *call,
                                           int unused) {
  (void)call, (void)unused;
  emit_effect(lower, TS_OP_exit, NULL, 0, NULL);
  return ts__value_none();
}

/* --- mbarriers: the barrier's address and at most one number */

struct ts__value ts__builtin_mbarrier(struct ts__lower *lower, const struct tir_expr *call,
                                      int op) {
  struct ts__value operands[2];
  uint32_t count = (uint32_t)call->call.args.count;
  operands[0] = address_arg(lower, call, 0, TS__STORAGE_SHARED);
  if (count > 1) operands[1] = ts__lower_arg(lower, call, 1);
  emit_effect(lower, (enum ts_op)op, operands, count, NULL);
  return ts__value_none();
}

struct ts__value ts__builtin_cp_async_barrier(struct ts__lower *lower, const struct tir_expr *call,
                                              int noinc) {
  struct ts__value barrier = address_arg(lower, call, 0, TS__STORAGE_SHARED);
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_noinc, noinc);
  emit_effect(lower, TS_OP_cp_async_mbarrier, &barrier, 1, &attrs);
  return ts__value_none();
}

/* --- cp.async */

/* tl.ptx_cp_async counts elements, tirx.ptx_cp_async bytes. */
struct ts__value ts__builtin_cp_async(struct ts__lower *lower, const struct tir_expr *call,
                                      int counts_elements) {
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 0));
  struct ts__pointer from = ts__lower_pointer(lower, arg_expr(call, 1));
  int64_t count = ts__lower_constant(lower, arg_expr(call, 2), "the size of a copy");
  if (!ts__pointer_expect(lower, &to, TS__STORAGE_SHARED, call) ||
      !ts__pointer_expect(lower, &from, TS__STORAGE_GLOBAL, call)) {
    return ts__value_none();
  }
  int64_t bytes = counts_elements ? ts__wrap_mul(count, to.scale) : count;
  if (bytes != 4 && bytes != 8 && bytes != 16) {
    ts__lower_unknown(lower, "%s of %lld bytes", call->call.op, (long long)bytes);
  }
  struct ts__value chosen = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_pred), 1);
  if (call->call.args.count > 3) {
    chosen = ts__lower_cast(lower, ts__lower_arg(lower, call, 3), TS_DTYPE_pred);
  }
  struct ts_operand operands[5] = {to.storage->operand, to.index.operand, from.storage->operand,
                                   from.index.operand, chosen.operand};
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_scale, from.scale);
  ts__attr_add(&attrs, TS_ATTR_offset, from.offset);
  ts__attr_add(&attrs, TS_ATTR_scale2, to.scale);
  ts__attr_add(&attrs, TS_ATTR_offset2, to.offset);
  ts__attr_set(&attrs, TS_ATTR_bytes, bytes);
  ts__lower_emit_raw(lower, TS_OP_cp_async, ts__scalar_type(TS_DTYPE_u32), TS_DTYPE_u32, operands,
                     5, &attrs);
  return ts__value_none();
}

/* --- TMA */

static bool is_tensormap(const struct ts__lower *lower, const struct tir_expr *expr) {
  return expr->kind == TIR_VAR && lower->storage[expr->var->id].kind == TS__STORAGE_TENSORMAP;
}

static struct ts_operand tensormap_arg(struct ts__lower *lower, const struct tir_expr *call,
                                       size_t i) {
  const struct tir_expr *expr = arg_expr(call, i);
  if (is_tensormap(lower, expr)) return ts_build_tensormap(lower->storage[expr->var->id].index);
  ts__lower_unknown(lower, "%s without a tensor map", call->call.op);
  return ts_build_tensormap(0);
}

static int64_t last_constant(struct ts__lower *lower, const struct tir_expr *call, size_t back,
                             const char *what) {
  return ts__lower_constant(lower, arg_expr(call, call->call.args.count - back), what);
}

static void emit_tma(struct ts__lower *lower, enum ts_op op, const struct ts_operand *operands,
                     uint32_t count, const struct ts__attrs *attrs) {
  ts__lower_emit_raw(lower, op, ts__scalar_type(TS_DTYPE_u32), TS_DTYPE_u32, operands, count,
                     attrs);
}

struct ts__value ts__builtin_prefetch_descriptor(struct ts__lower *lower,
                                                 const struct tir_expr *call, int unused) {
  (void)unused;
  struct ts_operand map = tensormap_arg(lower, call, 0);
  if (lower->status == TS_OK) emit_tma(lower, TS_OP_prefetch_tensormap, &map, 1, NULL);
  return ts__value_none();
}

/* (shared, global, mbarrier, bytes, eviction) */
static struct ts__value bulk_load(struct ts__lower *lower, const struct tir_expr *call,
                                  const struct ts__attrs *attrs) {
  struct ts__value operands[4] = {address_arg(lower, call, 0, TS__STORAGE_SHARED),
                                  address_arg(lower, call, 1, TS__STORAGE_GLOBAL),
                                  ts__lower_arg(lower, call, 3),
                                  address_arg(lower, call, 2, TS__STORAGE_SHARED)};
  emit_effect(lower, TS_OP_bulk_load, operands, 4, attrs);
  return ts__value_none();
}

/* (map, mbarrier, shared, [mask,] coordinates..., eviction) */
static struct ts__value tensor_load(struct ts__lower *lower, const struct tir_expr *call,
                                    enum ts_op op, const struct ts__attrs *attrs) {
  struct ts_operand operands[TS_MAX_OPERANDS];
  uint32_t count = (uint32_t)call->call.args.count - 1;
  operands[0] = tensormap_arg(lower, call, 0);
  operands[1] = address_arg(lower, call, 2, TS__STORAGE_SHARED).operand;
  operands[2] = address_arg(lower, call, 1, TS__STORAGE_SHARED).operand;
  for (uint32_t i = 3; i < count; i++)
    operands[i] = ts__lower_arg(lower, call, i).operand;
  if (lower->status == TS_OK) emit_tma(lower, op, operands, count, attrs);
  return ts__value_none();
}

static struct ts__attrs eviction_attr(struct ts__lower *lower, const struct tir_expr *call) {
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_eviction, last_constant(lower, call, 1, "an eviction policy"));
  return attrs;
}

struct ts__value ts__builtin_tma_load(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  struct ts__attrs attrs = eviction_attr(lower, call);
  bool is_tensor = is_tensormap(lower, arg_expr(call, 0));
  return is_tensor ? tensor_load(lower, call, TS_OP_tma_load, &attrs)
                   : bulk_load(lower, call, &attrs);
}

struct ts__value ts__builtin_tma_load_im2col(struct ts__lower *lower, const struct tir_expr *call,
                                             int unused) {
  (void)unused;
  struct ts__attrs attrs = eviction_attr(lower, call);
  return tensor_load(lower, call, TS_OP_tma_load_im2col, &attrs);
}

/* (map, mbarrier, shared, column, four rows, eviction) */
struct ts__value ts__builtin_tma_load_gather(struct ts__lower *lower, const struct tir_expr *call,
                                             int unused) {
  (void)unused;
  struct ts__attrs attrs = eviction_attr(lower, call);
  ts__attr_set(&attrs, TS_ATTR_gather, 1);
  return tensor_load(lower, call, TS_OP_tma_load, &attrs);
}

/* (global, shared, bytes, need_reduce, eviction) */
static void bulk_store(struct ts__lower *lower, const struct tir_expr *call,
                       struct ts__attrs *attrs, bool reduces) {
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 0));
  if (!ts__pointer_expect(lower, &to, TS__STORAGE_GLOBAL, call)) return;
  if (reduces) ts__attr_set(attrs, TS_ATTR_elem, to.elem);
  struct ts__value operands[3] = {ts__lower_emit_address(lower, &to),
                                  address_arg(lower, call, 1, TS__STORAGE_SHARED),
                                  ts__lower_arg(lower, call, 2)};
  emit_effect(lower, TS_OP_bulk_store, operands, 3, attrs);
}

/* (map, shared, coordinates..., `behind` others) */
static void tensor_store(struct ts__lower *lower, const struct tir_expr *call, uint32_t behind,
                         const struct ts__attrs *attrs) {
  struct ts_operand operands[TS_MAX_OPERANDS];
  uint32_t count = (uint32_t)call->call.args.count - behind;
  operands[0] = tensormap_arg(lower, call, 0);
  operands[1] = address_arg(lower, call, 1, TS__STORAGE_SHARED).operand;
  for (uint32_t i = 2; i < count; i++)
    operands[i] = ts__lower_arg(lower, call, i).operand;
  if (lower->status == TS_OK) emit_tma(lower, TS_OP_tma_store, operands, count, attrs);
}

/* (map, shared, column, four rows, eviction) */
struct ts__value ts__builtin_tma_store_scatter(struct ts__lower *lower, const struct tir_expr *call,
                                               int unused) {
  (void)unused;
  struct ts__attrs attrs = eviction_attr(lower, call);
  ts__attr_set(&attrs, TS_ATTR_gather, 1);
  tensor_store(lower, call, 1, &attrs);
  return ts__value_none();
}

/* As tensor_store and bulk_store, then need_reduce, eviction */
struct ts__value ts__builtin_tma_store(struct ts__lower *lower, const struct tir_expr *call,
                                       int unused) {
  (void)unused;
  struct ts__attrs attrs = eviction_attr(lower, call);
  bool reduces = last_constant(lower, call, 2, "tma_store's need_reduce") != 0;
  if (reduces) ts__attr_set(&attrs, TS_ATTR_reduce, TS_IR_REDUCE_add);
  if (is_tensormap(lower, arg_expr(call, 0))) {
    tensor_store(lower, call, 2, &attrs);
  } else {
    bulk_store(lower, call, &attrs, reduces);
  }
  return ts__value_none();
}

struct ts__value ts__builtin_tma_store_wait(struct ts__lower *lower, const struct tir_expr *call,
                                            int unused) {
  (void)unused;
  struct ts__value count = ts__lower_arg(lower, call, 0);
  bool reads = call->call.args.count == 1 ||
               ts__lower_constant(lower, arg_expr(call, 1), "tma_store_wait's read") != 0;
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_read, reads);
  emit_effect(lower, TS_OP_bulk_wait, &count, 1, &attrs);
  return ts__value_none();
}

/* --- the rest */

struct ts__value ts__builtin_set_max_nreg(struct ts__lower *lower, const struct tir_expr *call,
                                          int unused) {
  (void)unused;
  int64_t count = ts__lower_constant(lower, arg_expr(call, 0), "a register count");
  struct ts__value operand = ts__value_u32(lower, count);
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_increase,
               ts__lower_constant(lower, arg_expr(call, 1), "set_max_nreg's direction"));
  emit_effect(lower, TS_OP_set_max_nreg, &operand, 1, &attrs);
  return ts__value_none();
}

struct ts__value ts__builtin_loop_break(struct ts__lower *lower, const struct tir_expr *call,
                                        int unused) {
  (void)call, (void)unused;
  if (lower->level == 0) {
    ts__lower_unknown(lower, "tl.loop_break outside of a loop");
    return ts__value_none();
  }
  ts_build_break(lower->build);
  return ts__value_none();
}

struct ts__value ts__builtin_device_assert(struct ts__lower *lower, const struct tir_expr *call,
                                           int unused) {
  (void)unused;
  struct ts__value condition = ts__lower_cast(lower, ts__lower_arg(lower, call, 0), TS_DTYPE_pred);
  const char *text = "device assertion failed";
  if (call->call.args.count > 1) text = ts__lower_string(lower, arg_expr(call, 1), "a message");
  struct ts_operand operands[2] = {condition.operand, ts_build_text(lower->build, text)};
  ts__lower_emit_raw(lower, TS_OP_assert, condition.type, TS_DTYPE_pred, operands, 2, NULL);
  return ts__value_none();
}

/* --- atomics */

static void add_order(struct ts__lower *lower, const struct tir_expr *call,
                      struct ts__attrs *attrs) {
  bool is_load = !strcmp(call->call.op, "tl.atomic_load_elem_op");
  if (call->call.args.count < (is_load ? 2 : 3)) return;
  int64_t order = ts__lower_constant(lower, arg_expr(call, is_load ? 1 : 2), "a memory order");
  ts__attr_add(attrs, TS_ATTR_order, order == 1 ? 2 : order); /* consume is acquire */
}

static struct ts__value emit_atomic(struct ts__lower *lower, const struct tir_expr *call,
                                    const struct ts__pointer *to, struct ts__value value,
                                    int reduce, bool returns) {
  enum ts__storage_kind kind = to->storage->kind;
  if (kind != TS__STORAGE_SHARED && !ts__pointer_expect(lower, to, TS__STORAGE_GLOBAL, call)) {
    return value;
  }
  bool is_global = kind == TS__STORAGE_GLOBAL;
  enum ts_op op = is_global ? (returns ? TS_OP_atom_global_ret : TS_OP_atom_global)
                            : (returns ? TS_OP_atom_shared_ret : TS_OP_atom_shared);
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_reduce, reduce);
  ts__attr_add(&attrs, TS_ATTR_scale, to->scale);
  ts__attr_add(&attrs, TS_ATTR_offset, to->offset);
  add_order(lower, call, &attrs);
  struct ts_operand operands[3] = {to->storage->operand, to->index.operand, value.operand};
  struct ts__value result = {.type = value.type, .level = lower->level, .is_varying = true};
  result.operand = ts__lower_emit_raw(lower, op, value.type, (enum ts_dtype)value.type.dtype,
                                      operands, 3, &attrs);
  return result;
}

static struct ts__value scalar_atomic(struct ts__lower *lower, const struct tir_expr *call,
                                      int reduce, bool returns) {
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 0));
  struct ts__value value = ts__lower_cast(lower, ts__lower_arg(lower, call, 1), to.elem);
  return emit_atomic(lower, call, &to, value, reduce, returns);
}

struct ts__value ts__builtin_atomic(struct ts__lower *lower, const struct tir_expr *call,
                                    int reduce) {
  scalar_atomic(lower, call, reduce, false);
  return ts__value_none();
}

struct ts__value ts__builtin_atomic_ret(struct ts__lower *lower, const struct tir_expr *call,
                                        int reduce) {
  return scalar_atomic(lower, call, reduce, true);
}

/* The second argument is a pointer or the vector itself; each element is added by itself. */
static struct ts__value vector_atomic(struct ts__lower *lower, const struct tir_expr *call,
                                      int lanes, bool returns) {
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 0));
  const struct tir_expr *addend = arg_expr(call, 1);
  struct ts__value value;
  if (addend->dtype.lanes == (uint32_t)lanes) {
    value = ts__lower_cast(lower, ts__lower_expr(lower, addend), to.elem);
  } else {
    struct ts__pointer from = ts__lower_pointer(lower, addend);
    if (lower->status != TS_OK) return ts__value_none();
    value = ts__lower_emit_load(lower, &from, (uint32_t)lanes);
  }
  return emit_atomic(lower, call, &to, value, TS_IR_REDUCE_add, returns);
}

struct ts__value ts__builtin_atomic_vector(struct ts__lower *lower, const struct tir_expr *call,
                                           int lanes) {
  vector_atomic(lower, call, lanes, false);
  return ts__value_none();
}

struct ts__value ts__builtin_atomic_vector_ret(struct ts__lower *lower, const struct tir_expr *call,
                                               int lanes) {
  return vector_atomic(lower, call, lanes, true);
}

/* (pointer, order) */
struct ts__value ts__builtin_atomic_load(struct ts__lower *lower, const struct tir_expr *call,
                                         int unused) {
  (void)unused;
  struct ts__pointer from = ts__lower_pointer(lower, arg_expr(call, 0));
  struct ts__value zero = ts__value_imm(lower, ts__scalar_type(from.elem), 0);
  return emit_atomic(lower, call, &from, zero, TS_IR_REDUCE_load, true);
}
