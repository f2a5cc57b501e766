/* Calls: tensor memory and tcgen05. Argument orders are those of TileLang's CUDA code generator. */
#include "front/tvm/lower_priv.h"

#include <string.h>

static const struct tir_expr *arg_expr(const struct tir_expr *call, size_t i) {
  return call->call.args.items[i];
}

static void emit(struct ts__lower *lower, enum ts_op op, enum ts_dtype dtype2,
                 const struct ts_operand *operands, uint32_t count, const struct ts__attrs *attrs) {
  if (lower->status != TS_OK) return;
  ts__lower_emit_raw(lower, op, ts__scalar_type(TS_DTYPE_u32), dtype2, operands, count, attrs);
}

static struct ts__value address_arg(struct ts__lower *lower, const struct tir_expr *call,
                                    size_t i) {
  struct ts__pointer pointer = ts__lower_pointer(lower, arg_expr(call, i));
  if (!ts__pointer_expect(lower, &pointer, TS__STORAGE_SHARED, call))
    return ts__value_u32(lower, 0);
  return ts__lower_emit_address(lower, &pointer);
}

/* The word in shared memory that an argument points to, plus the argument behind it. */
static struct ts__value tensor_address(struct ts__lower *lower, const struct tir_expr *call,
                                       size_t i) {
  struct ts__pointer pointer = ts__lower_pointer(lower, arg_expr(call, i));
  if (!ts__pointer_expect(lower, &pointer, TS__STORAGE_SHARED, call))
    return ts__value_u32(lower, 0);
  struct ts__value start = ts__lower_emit_load(lower, &pointer, 1);
  struct ts__value offset =
      ts__lower_emit_convert(lower, TS_DTYPE_u32, ts__lower_arg(lower, call, i + 1));
  return ts__lower_emit_2(lower, TS_OP_add, start, offset);
}

/* (shared word, columns) */
struct ts__value ts__builtin_tmem_alloc(struct ts__lower *lower, const struct tir_expr *call,
                                        int unused) {
  (void)unused;
  struct ts_operand operands[2] = {address_arg(lower, call, 0).operand,
                                   ts__lower_arg(lower, call, 1).operand};
  emit(lower, TS_OP_tmem_alloc, TS_DTYPE_u32, operands, 2, NULL);
  return ts__value_none();
}

/* (shared word that has the address, columns) */
struct ts__value ts__builtin_tmem_dealloc(struct ts__lower *lower, const struct tir_expr *call,
                                          int unused) {
  (void)unused;
  struct ts__pointer pointer = ts__lower_pointer(lower, arg_expr(call, 0));
  if (!ts__pointer_expect(lower, &pointer, TS__STORAGE_SHARED, call)) return ts__value_none();
  struct ts_operand operands[2] = {ts__lower_emit_load(lower, &pointer, 1).operand,
                                   ts__lower_arg(lower, call, 1).operand};
  emit(lower, TS_OP_tmem_dealloc, TS_DTYPE_u32, operands, 2, NULL);
  return ts__value_none();
}

/* (bits, registers, pack16, address, offset, lanes, array): bits and lanes are 32. */
struct ts__value ts__builtin_tmem_move(struct ts__lower *lower, const struct tir_expr *call,
                                       int op) {
  struct ts__attrs attrs = {.count = 0};
  int64_t bits = ts__lower_constant(lower, arg_expr(call, 0), "the bits of a tensor memory access");
  int64_t columns =
      ts__lower_constant(lower, arg_expr(call, 1), "the columns of a tensor memory access");
  int64_t packs = ts__lower_constant(lower, arg_expr(call, 2), "pack16");
  int64_t lanes =
      ts__lower_constant(lower, arg_expr(call, 5), "the lanes of a tensor memory access");
  if (bits != 32 || lanes != 32) {
    ts__lower_unknown(lower, "%s with %lld lanes of %lld bits", call->call.op, (long long)lanes,
                      (long long)bits);
    return ts__value_none();
  }
  struct ts__value start =
      ts__lower_emit_convert(lower, TS_DTYPE_u32, ts__lower_arg(lower, call, 3));
  struct ts__value offset =
      ts__lower_emit_convert(lower, TS_DTYPE_u32, ts__lower_arg(lower, call, 4));
  struct ts__pointer array = ts__lower_pointer(lower, arg_expr(call, 6));
  if (!ts__pointer_expect(lower, &array, TS__STORAGE_ARRAY, call)) return ts__value_none();
  unsigned elem_bits = ts_dtype_bits(array.elem);
  if (elem_bits < 8 || elem_bits > 32) {
    ts__lower_unknown(lower, "%s with an array of %s", call->call.op, ts_dtype_name(array.elem));
    return ts__value_none();
  }
  struct ts__value index = ts__lower_emit_array_index(lower, &array); /* in elements */
  int64_t shift = __builtin_ctz(32 / elem_bits);
  index = ts__lower_emit_2(lower, TS_OP_shr, index, ts__value_imm(lower, index.type, shift));
  struct ts_operand operands[3] = {ts_build_array_operand(array.storage->index), index.operand,
                                   ts__lower_emit_2(lower, TS_OP_add, start, offset).operand};
  ts__attr_set(&attrs, TS_ATTR_num, columns);
  ts__attr_add(&attrs, TS_ATTR_pack, packs != 0);
  emit(lower, (enum ts_op)op, TS_DTYPE_u32, operands, 3, &attrs);
  return ts__value_none();
}

/* --- descriptors (DOC: PTX ISA, tcgen05 shared memory descriptor): a variable of 64 bits */

static struct ts__value descriptor_arg(struct ts__lower *lower, const struct tir_expr *call,
                                       size_t i) {
  struct ts__value none = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u64), 0);
  const struct tir_expr *expr = arg_expr(call, i);
  const struct tir_var *data = expr->kind == TIR_VAR           ? expr->var
                               : expr->kind == TIR_BUFFER_LOAD ? expr->load.buffer->data
                                                               : NULL;
  if (!data || lower->storage[data->id].kind != TS__STORAGE_VARIABLE) {
    ts__lower_unknown(lower, "%s without a descriptor", call->call.op);
    return none;
  }
  none.operand = lower->storage[data->id].operand;
  none.is_varying = none.is_mutable = true;
  return none;
}

static struct ts__value u64(struct ts__lower *lower, uint64_t value) {
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u64), (int64_t)value);
}

/* (descriptor, start, leading offset, stride offset, base offset, leading is absolute, swizzle) */
struct ts__value ts__builtin_initialize_tcgen05(struct ts__lower *lower,
                                                const struct tir_expr *call, int unused) {
  (void)unused;
  int64_t fields[5];
  for (size_t i = 0; i < 5; i++)
    fields[i] = ts__lower_constant(lower, arg_expr(call, i + 2), "a descriptor's field");
  struct ts__value descriptor = descriptor_arg(lower, call, 0);
  struct ts__value start = address_arg(lower, call, 1);
  uint64_t fixed = (uint64_t)(fields[0] & 0x3fff) << 16 | (uint64_t)(fields[1] & 0x3fff) << 32 |
                   (uint64_t)1 << 46 | (uint64_t)(fields[2] & 7) << 49 |
                   (uint64_t)(fields[3] != 0) << 52 | (uint64_t)(fields[4] & 7) << 61;
  if (lower->status != TS_OK) return ts__value_none();
  start = ts__lower_emit_2(lower, TS_OP_shr, start, ts__value_u32(lower, 4));
  start = ts__lower_emit_2(lower, TS_OP_and, start, ts__value_u32(lower, 0x3fff));
  start = ts__lower_emit_convert(lower, TS_DTYPE_u64, start);
  ts__lower_emit_assign(lower, descriptor,
                        ts__lower_emit_2(lower, TS_OP_or, start, u64(lower, fixed)));
  return ts__value_none();
}

/* Adds bytes to the low word, which does not overflow for addresses in shared memory. */
static struct ts__value advance(struct ts__lower *lower, struct ts__value descriptor,
                                struct ts__value bytes) {
  bytes = ts__lower_emit_convert(lower, TS_DTYPE_u32, bytes);
  bytes = ts__lower_emit_2(lower, TS_OP_shr, bytes, ts__value_u32(lower, 4));
  return ts__lower_emit_2(lower, TS_OP_add, descriptor,
                          ts__lower_emit_convert(lower, TS_DTYPE_u64, bytes));
}

struct ts__value ts__lower_advance_descriptor(struct ts__lower *lower,
                                              const struct tir_expr *call) {
  struct ts__value descriptor = descriptor_arg(lower, call, 0);
  struct ts__value bytes = ts__lower_arg(lower, call, 1);
  if (lower->status != TS_OK) return ts__value_none();
  ts__lower_emit_assign(lower, descriptor, advance(lower, descriptor, bytes));
  return ts__value_none();
}

/* --- products: (kind, A, offset, B, offset, D, offset, instruction descriptor, reads D, four masks,
 * [weight stationary,] two blocks); offsets of shared operands count bytes, of A in tensor memory
 * columns. */

static enum ts_dtype kind_dtype(struct ts__lower *lower, const struct tir_expr *expr) {
  static const struct {
    const char *name;
    enum ts_dtype dtype;
  } names[] = {
      {"fp16", TS_DTYPE_f16},        {"bf16", TS_DTYPE_bf16},    {"tf32", TS_DTYPE_tf32},
      {"e4m3", TS_DTYPE_e4m3},       {"e5m2", TS_DTYPE_e5m2},    {"int8", TS_DTYPE_s8},
      {"uint8", TS_DTYPE_u8},        {"float16", TS_DTYPE_f16},  {"bfloat16", TS_DTYPE_bf16},
      {"tfloat32", TS_DTYPE_tf32},   {"float32", TS_DTYPE_tf32}, {"float8_e4m3", TS_DTYPE_e4m3},
      {"float8_e5m2", TS_DTYPE_e5m2}};
  const char *name = ts__lower_string(lower, expr, "the kind of a tcgen05 product");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i].name)) return names[i].dtype;
  ts__lower_unknown(lower, "tcgen05 products of '%s'", name);
  return TS_DTYPE_f16;
}

struct ts__value ts__builtin_tcgen05_mma(struct ts__lower *lower, const struct tir_expr *call,
                                         int op) {
  enum ts_dtype kind = kind_dtype(lower, arg_expr(call, 0));
  for (size_t i = 9; i < call->call.args.count; i++)
    if (ts__lower_constant(lower, arg_expr(call, i), "a mask or variant of a tcgen05 product")) {
      ts__lower_unknown(lower, "%s with masks, over two blocks or weight stationary",
                        call->call.op);
      return ts__value_none();
    }
  struct ts__value a = op == TS_OP_tcgen05_mma_ss ? advance(lower, descriptor_arg(lower, call, 1),
                                                            ts__lower_arg(lower, call, 2))
                                                  : tensor_address(lower, call, 1);
  struct ts__value b =
      advance(lower, descriptor_arg(lower, call, 3), ts__lower_arg(lower, call, 4));
  struct ts_operand operands[5] = {a.operand, b.operand, tensor_address(lower, call, 5).operand,
                                   ts__lower_arg(lower, call, 7).operand,
                                   ts__lower_arg(lower, call, 8).operand};
  emit(lower, (enum ts_op)op, kind, operands, 5, NULL);
  return ts__value_none();
}

/* (mbarrier) */
struct ts__value ts__builtin_tcgen05_commit(struct ts__lower *lower, const struct tir_expr *call,
                                            int unused) {
  (void)unused;
  struct ts_operand barrier = address_arg(lower, call, 0).operand;
  emit(lower, TS_OP_tcgen05_commit, TS_DTYPE_u32, &barrier, 1, NULL);
  return ts__value_none();
}
