/* Calls: matrices in registers and shared memory. */
#include "front/tvm/lower_priv.h"

#include <stdio.h>
#include <string.h>

static const struct tir_expr *arg_expr(const struct tir_expr *call, size_t i) {
  return call->call.args.items[i];
}

/* The names that TileLang's PTX tables know. */
static enum ts_dtype matrix_dtype(struct ts__lower *lower, const struct tir_expr *expr) {
  static const struct {
    const char *name;
    enum ts_dtype dtype;
  } names[] = {{"fp16", TS_DTYPE_f16},         {"bf16", TS_DTYPE_bf16},
               {"fp32", TS_DTYPE_f32},         {"tf32", TS_DTYPE_tf32},
               {"fp64", TS_DTYPE_f64},         {"e4m3", TS_DTYPE_e4m3},
               {"e5m2", TS_DTYPE_e5m2},        {"int8", TS_DTYPE_s8},
               {"uint8", TS_DTYPE_u8},         {"int4", TS_DTYPE_s4},
               {"uint4", TS_DTYPE_u4},         {"int32", TS_DTYPE_s32},
               {"float16", TS_DTYPE_f16},      {"bfloat16", TS_DTYPE_bf16},
               {"float32", TS_DTYPE_f32},      {"float64", TS_DTYPE_f64},
               {"float8_e4m3", TS_DTYPE_e4m3}, {"float8_e4m3fn", TS_DTYPE_e4m3},
               {"float8_e5m2", TS_DTYPE_e5m2}, {"tfloat32", TS_DTYPE_tf32}};
  const char *name = ts__lower_string(lower, expr, "a matrix dtype");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i].name)) return names[i].dtype;
  ts__lower_unknown(lower, "the matrix dtype '%s'", name);
  return TS_DTYPE_f16;
}

/* "m16n8k16" */
static void add_shape(struct ts__lower *lower, struct ts__attrs *attrs,
                      const struct tir_expr *expr) {
  const char *text = ts__lower_string(lower, expr, "a matrix shape");
  unsigned m = 0, n = 0, k = 0;
  char rest;
  if (sscanf(text, "m%3un%3uk%4u%c", &m, &n, &k, &rest) != 3) {
    ts__lower_unknown(lower, "the matrix shape '%s'", text);
  }
  ts__attr_set(attrs, TS_ATTR_m, m);
  ts__attr_set(attrs, TS_ATTR_n, n);
  ts__attr_set(attrs, TS_ATTR_k, k);
}

/* An array argument (pointer, offset in elements) as the operand pair array, index. */
static void array_operands(struct ts__lower *lower, const struct tir_expr *call, size_t i,
                           enum ts_dtype dtype, struct ts_operand *out) {
  struct ts__pointer pointer = ts__lower_pointer(lower, arg_expr(call, i));
  if (!ts__pointer_expect(lower, &pointer, TS__STORAGE_ARRAY, call)) return;
  if (ts_dtype_bits(pointer.elem) != ts_dtype_bits(dtype)) {
    ts__lower_unknown(lower, "%s with %s in an array of %s", call->call.op, ts_dtype_name(dtype),
                      ts_dtype_name(pointer.elem));
    return;
  }
  ts__lower_sum(lower, arg_expr(call, i + 1), &pointer.index, &pointer.offset);
  out[0] = ts_build_array_operand(pointer.storage->index);
  out[1] = ts__lower_emit_array_index(lower, &pointer).operand;
}

static bool is_word(struct ts__lower *lower, const struct tir_expr *expr, const char *word) {
  return !strcmp(ts__lower_string(lower, expr, "a matrix layout"), word);
}

/* (shape, "row", "col", A, B, C dtypes, A, offset, B, offset, C, offset, saturate) */
struct ts__value ts__builtin_mma(struct ts__lower *lower, const struct tir_expr *call, int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts_operand operands[6];
  add_shape(lower, &attrs, arg_expr(call, 0));
  if (!is_word(lower, arg_expr(call, 1), "row") || !is_word(lower, arg_expr(call, 2), "col")) {
    ts__lower_unknown(lower, "ptx_mma with this layout");
  }
  enum ts_dtype a = matrix_dtype(lower, arg_expr(call, 3));
  enum ts_dtype b = matrix_dtype(lower, arg_expr(call, 4));
  enum ts_dtype c = matrix_dtype(lower, arg_expr(call, 5));
  array_operands(lower, call, 10, c, operands);
  array_operands(lower, call, 6, a, operands + 2);
  array_operands(lower, call, 8, b, operands + 4);
  ts__attr_set(&attrs, TS_ATTR_b_dtype, b);
  ts__attr_add(&attrs, TS_ATTR_saturate,
               ts__lower_constant(lower, arg_expr(call, 12), "ptx_mma's saturation"));
  if (lower->status == TS_OK) {
    ts__lower_emit_raw(lower, TS_OP_mma, ts__scalar_type(c), a, operands, 6, &attrs);
  }
  return ts__value_none();
}

/* The metadata word at an argument (pointer, offset in elements). */
static struct ts_operand metadata_operand(struct ts__lower *lower, const struct tir_expr *call,
                                          size_t i) {
  struct ts__pointer pointer = ts__lower_pointer(lower, arg_expr(call, i));
  struct ts_operand none = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), 0).operand;
  if (!ts__pointer_expect(lower, &pointer, TS__STORAGE_ARRAY, call)) return none;
  uint32_t bits = ts_dtype_bits(pointer.elem);
  if (bits < 8 || bits > 32) {
    ts__lower_unknown(lower, "%s with metadata of %s", call->call.op, ts_dtype_name(pointer.elem));
    return none;
  }
  ts__lower_sum(lower, arg_expr(call, i + 1), &pointer.index, &pointer.offset);
  struct ts__value word = ts__lower_emit_load(lower, &pointer, 32 / bits);
  return ts__lower_emit(lower, TS_OP_bitcast, ts__scalar_type(TS_DTYPE_u32), pointer.elem, &word, 1,
                        NULL)
      .operand;
}

/* (shape, "row", "col", A, B, C dtypes, A, offset, B, offset, C, offset, metadata, offset,
 * selector, saturate) */
struct ts__value ts__builtin_mma_sp(struct ts__lower *lower, const struct tir_expr *call,
                                    int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts_operand operands[7];
  add_shape(lower, &attrs, arg_expr(call, 0));
  if (!is_word(lower, arg_expr(call, 1), "row") || !is_word(lower, arg_expr(call, 2), "col")) {
    ts__lower_unknown(lower, "ptx_mma_sp with this layout");
  }
  enum ts_dtype a = matrix_dtype(lower, arg_expr(call, 3));
  enum ts_dtype b = matrix_dtype(lower, arg_expr(call, 4));
  enum ts_dtype c = matrix_dtype(lower, arg_expr(call, 5));
  if (a == TS_DTYPE_f32) a = TS_DTYPE_tf32; /* there is no other instruction */
  if (b == TS_DTYPE_f32) b = TS_DTYPE_tf32;
  array_operands(lower, call, 10, c, operands);
  array_operands(lower, call, 6, a, operands + 2);
  array_operands(lower, call, 8, b, operands + 4);
  operands[6] = metadata_operand(lower, call, 12);
  ts__attr_set(&attrs, TS_ATTR_b_dtype, b);
  ts__attr_add(&attrs, TS_ATTR_selector,
               ts__lower_constant(lower, arg_expr(call, 14), "a sparsity selector"));
  ts__attr_add(&attrs, TS_ATTR_saturate,
               ts__lower_constant(lower, arg_expr(call, 15), "ptx_mma_sp's saturation"));
  if (lower->status == TS_OK) {
    ts__lower_emit_raw(lower, TS_OP_mma_sp, ts__scalar_type(c), a, operands, 7, &attrs);
  }
  return ts__value_none();
}

/* (trans, num, shared row address, array) */
struct ts__value ts__builtin_ldmatrix(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts__pointer from = ts__lower_pointer(lower, arg_expr(call, 2));
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 3));
  ts__attr_add(&attrs, TS_ATTR_trans,
               ts__lower_constant(lower, arg_expr(call, 0), "ldmatrix's transposition"));
  ts__attr_set(&attrs, TS_ATTR_num,
               ts__lower_constant(lower, arg_expr(call, 1), "ldmatrix's count"));
  if (!ts__pointer_expect(lower, &from, TS__STORAGE_SHARED, call) ||
      !ts__pointer_expect(lower, &to, TS__STORAGE_ARRAY, call)) {
    return ts__value_none();
  }
  ts__attr_add(&attrs, TS_ATTR_scale, from.scale);
  ts__attr_add(&attrs, TS_ATTR_offset, from.offset);
  struct ts_operand operands[4] = {ts_build_array_operand(to.storage->index),
                                   ts__lower_emit_array_index(lower, &to).operand,
                                   from.storage->operand, from.index.operand};
  ts__lower_emit_raw(lower, TS_OP_ldmatrix, ts__scalar_type(to.elem), to.elem, operands, 4, &attrs);
  return ts__value_none();
}

/* (trans, num, shared row address, words..., "m8n8") */
struct ts__value ts__builtin_stmatrix(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts_operand operands[6];
  size_t count = call->call.args.count;
  const char *shape = tir_expr_string(arg_expr(call, count - 1));
  if (shape) count--;
  if (shape && strcmp(shape, "m8n8")) ts__lower_unknown(lower, "ptx_stmatrix of '%s'", shape);
  struct ts__pointer to = ts__lower_pointer(lower, arg_expr(call, 2));
  ts__attr_add(&attrs, TS_ATTR_trans,
               ts__lower_constant(lower, arg_expr(call, 0), "stmatrix's transposition"));
  int64_t num = ts__lower_constant(lower, arg_expr(call, 1), "stmatrix's count");
  if (!ts__pointer_expect(lower, &to, TS__STORAGE_SHARED, call)) return ts__value_none();
  if (num < 1 || num > 4 || count != (size_t)num + 3) {
    ts__lower_unknown(lower, "ptx_stmatrix with %zu words", count - 3);
    return ts__value_none();
  }
  operands[0] = to.storage->operand;
  operands[1] = to.index.operand;
  for (size_t i = 3; i < count; i++)
    operands[i - 1] = ts__lower_expr(lower, arg_expr(call, i)).operand;
  ts__attr_add(&attrs, TS_ATTR_scale, to.scale);
  ts__attr_add(&attrs, TS_ATTR_offset, to.offset);
  ts__lower_emit_raw(lower, TS_OP_stmatrix, ts__scalar_type(TS_DTYPE_u32), TS_DTYPE_u32, operands,
                     (uint32_t)count - 1, &attrs);
  return ts__value_none();
}

/* --- wgmma
 *
 * A descriptor is a 64-bit value: start address and offsets in 16-byte units, and the swizzle
 * (DOC, PTX ISA, "Matrix descriptor"). A local.descriptor.wgmma holds one; since it is set in the
 * block that declares it, it is a plain value here, which can be shared and hoisted. */

static struct ts__value u64(struct ts__lower *lower, uint64_t value) {
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u64), (int64_t)value);
}

static struct ts__storage *descriptor_arg(struct ts__lower *lower, const struct tir_expr *call,
                                          size_t i) {
  const struct tir_expr *expr = arg_expr(call, i);
  const struct tir_var *data = NULL;
  if (expr->kind == TIR_VAR) data = expr->var;
  if (expr->kind == TIR_BUFFER_LOAD) data = expr->load.buffer->data;
  if (!data || lower->storage[data->id].kind != TS__STORAGE_RESULT) {
    ts__lower_unknown(lower, "%s without a descriptor", call->call.op);
    return NULL;
  }
  return &lower->storage[data->id];
}

static void set_descriptor(struct ts__lower *lower, struct ts__storage *storage,
                           struct ts__value value) {
  if (storage->nesting != lower->nesting) {
    ts__lower_unknown(lower, "a matrix descriptor that is set under a condition");
  }
  storage->operand = value.operand;
}

static struct ts__value descriptor_value(const struct ts__storage *storage) {
  return (struct ts__value){.operand = storage->operand, .type = ts__scalar_type(TS_DTYPE_u64)};
}

/* (descriptor, start, layout type, leading byte offset, stride byte offset) */
struct ts__value ts__builtin_initialize_descriptor(struct ts__lower *lower,
                                                   const struct tir_expr *call, int unused) {
  (void)unused;
  struct ts__storage *storage = descriptor_arg(lower, call, 0);
  struct ts__pointer start = ts__lower_pointer(lower, arg_expr(call, 1));
  int64_t layout = ts__lower_constant(lower, arg_expr(call, 2), "a descriptor's layout type");
  int64_t leading = ts__lower_constant(lower, arg_expr(call, 3), "a descriptor's leading offset");
  int64_t stride = ts__lower_constant(lower, arg_expr(call, 4), "a descriptor's stride offset");
  if (!storage || !ts__pointer_expect(lower, &start, TS__STORAGE_SHARED, call)) {
    return ts__value_none();
  }
  uint64_t fixed = (uint64_t)(leading & 0x3fff) << 16 | (uint64_t)(stride & 0x3fff) << 32 |
                   (uint64_t)(layout & 3) << 62;
  struct ts__value address = ts__lower_emit_address(lower, &start);
  struct ts_type u32 = ts__scalar_type(TS_DTYPE_u32);
  address = ts__lower_emit_2(lower, TS_OP_shr, address, ts__value_imm(lower, u32, 4));
  address = ts__lower_emit_2(lower, TS_OP_and, address, ts__value_imm(lower, u32, 0x3fff));
  address = ts__lower_emit_convert(lower, TS_DTYPE_u64, address);
  set_descriptor(lower, storage, ts__lower_emit_2(lower, TS_OP_or, address, u64(lower, fixed)));
  return ts__value_none();
}

/* Adds to the low word, which does not overflow for addresses in shared memory. */
static struct ts__value advance(struct ts__lower *lower, struct ts__value descriptor,
                                struct ts__value units) {
  units = ts__lower_emit_convert(lower, TS_DTYPE_s64, units);
  units = ts__lower_emit_convert(lower, TS_DTYPE_u64, units);
  return ts__lower_emit_2(lower, TS_OP_add, descriptor, units);
}

struct ts__value ts__builtin_increase_descriptor(struct ts__lower *lower,
                                                 const struct tir_expr *call, int unused) {
  (void)unused;
  const struct tir_expr *first = arg_expr(call, 0);
  if (first->kind == TIR_BUFFER_LOAD &&
      lower->storage[first->load.buffer->data->id].kind == TS__STORAGE_VARIABLE)
    return ts__lower_advance_descriptor(lower, call);
  struct ts__storage *storage = descriptor_arg(lower, call, 0);
  struct ts__value bytes = ts__lower_expr(lower, arg_expr(call, 1));
  if (!storage) return ts__value_none();
  struct ts__value units =
      ts__lower_emit_2(lower, TS_OP_shr, bytes, ts__value_imm(lower, bytes.type, 4));
  set_descriptor(lower, storage, advance(lower, descriptor_value(storage), units));
  return ts__value_none();
}

/* A descriptor and its offset in 16-byte units. */
static struct ts_operand offset_descriptor(struct ts__lower *lower, const struct tir_expr *call,
                                           size_t i) {
  const struct ts__storage *storage = descriptor_arg(lower, call, i);
  struct ts__value units = ts__lower_expr(lower, arg_expr(call, i + 1));
  if (!storage) return u64(lower, 0).operand;
  return advance(lower, descriptor_value(storage), units).operand;
}

static int64_t sign_of(struct ts__lower *lower, const struct tir_expr *expr) {
  return ts__lower_constant(lower, expr, "a wgmma operand's sign") ? 1 : -1;
}

/* scale_out: 0 starts from zero. */
static struct ts_operand scale_operand(struct ts__lower *lower, const struct tir_expr *expr) {
  struct ts__value scale = ts__lower_expr(lower, expr);
  return ts__lower_cast(lower, scale, TS_DTYPE_pred).operand;
}

/* (shape, A K-major, B K-major, A, B, C dtypes, A, offset, B, offset, C, offset, scale_out,
 * scale_a, scale_b) */
struct ts__value ts__builtin_wgmma_ss(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts_operand operands[5];
  add_shape(lower, &attrs, arg_expr(call, 0));
  enum ts_dtype a = matrix_dtype(lower, arg_expr(call, 3));
  enum ts_dtype b = matrix_dtype(lower, arg_expr(call, 4));
  enum ts_dtype c = matrix_dtype(lower, arg_expr(call, 5));
  operands[0] = offset_descriptor(lower, call, 6);
  operands[1] = offset_descriptor(lower, call, 8);
  array_operands(lower, call, 10, c, operands + 2);
  operands[4] = scale_operand(lower, arg_expr(call, 12));
  ts__attr_set(&attrs, TS_ATTR_b_dtype, b);
  ts__attr_set(&attrs, TS_ATTR_a_major,
               ts__lower_constant(lower, arg_expr(call, 1), "A's major mode"));
  ts__attr_set(&attrs, TS_ATTR_b_major,
               ts__lower_constant(lower, arg_expr(call, 2), "B's major mode"));
  ts__attr_set(&attrs, TS_ATTR_scale_a, sign_of(lower, arg_expr(call, 13)));
  ts__attr_set(&attrs, TS_ATTR_scale_b, sign_of(lower, arg_expr(call, 14)));
  if (lower->status == TS_OK) {
    ts__lower_emit_raw(lower, TS_OP_wgmma_ss, ts__scalar_type(c), a, operands, 5, &attrs);
  }
  return ts__value_none();
}

/* (shape, B K-major, A, B, C dtypes, A, offset, B, offset, C, offset, scale_out, scale_a, scale_b) */
struct ts__value ts__builtin_wgmma_rs(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts_operand operands[6];
  add_shape(lower, &attrs, arg_expr(call, 0));
  enum ts_dtype a = matrix_dtype(lower, arg_expr(call, 2));
  enum ts_dtype b = matrix_dtype(lower, arg_expr(call, 3));
  enum ts_dtype c = matrix_dtype(lower, arg_expr(call, 4));
  array_operands(lower, call, 5, a, operands);
  operands[2] = offset_descriptor(lower, call, 7);
  array_operands(lower, call, 9, c, operands + 3);
  operands[5] = scale_operand(lower, arg_expr(call, 11));
  ts__attr_set(&attrs, TS_ATTR_b_dtype, b);
  ts__attr_set(&attrs, TS_ATTR_a_major, 1);
  ts__attr_set(&attrs, TS_ATTR_b_major,
               ts__lower_constant(lower, arg_expr(call, 1), "B's major mode"));
  ts__attr_set(&attrs, TS_ATTR_scale_a, sign_of(lower, arg_expr(call, 12)));
  ts__attr_set(&attrs, TS_ATTR_scale_b, sign_of(lower, arg_expr(call, 13)));
  if (lower->status == TS_OK) {
    ts__lower_emit_raw(lower, TS_OP_wgmma_rs, ts__scalar_type(c), a, operands, 6, &attrs);
  }
  return ts__value_none();
}

/* (shape, A K-major, B K-major, A, B, C dtypes, A, offset, metadata, offset, selector, B, offset, C,
 * offset, scale_out, scale_a, scale_b) */
struct ts__value ts__builtin_wgmma_sp_ss(struct ts__lower *lower, const struct tir_expr *call,
                                         int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts_operand operands[6];
  add_shape(lower, &attrs, arg_expr(call, 0));
  enum ts_dtype a = matrix_dtype(lower, arg_expr(call, 3));
  enum ts_dtype b = matrix_dtype(lower, arg_expr(call, 4));
  enum ts_dtype c = matrix_dtype(lower, arg_expr(call, 5));
  operands[0] = offset_descriptor(lower, call, 6);
  operands[1] = offset_descriptor(lower, call, 11);
  array_operands(lower, call, 13, c, operands + 2);
  operands[4] = scale_operand(lower, arg_expr(call, 15));
  operands[5] = metadata_operand(lower, call, 8);
  ts__attr_set(&attrs, TS_ATTR_b_dtype, b);
  ts__attr_set(&attrs, TS_ATTR_a_major,
               ts__lower_constant(lower, arg_expr(call, 1), "A's major mode"));
  ts__attr_set(&attrs, TS_ATTR_b_major,
               ts__lower_constant(lower, arg_expr(call, 2), "B's major mode"));
  ts__attr_set(&attrs, TS_ATTR_scale_a, sign_of(lower, arg_expr(call, 16)));
  ts__attr_set(&attrs, TS_ATTR_scale_b, sign_of(lower, arg_expr(call, 17)));
  ts__attr_add(&attrs, TS_ATTR_selector,
               ts__lower_constant(lower, arg_expr(call, 10), "a sparsity selector"));
  if (lower->status == TS_OK) {
    ts__lower_emit_raw(lower, TS_OP_wgmma_sp_ss, ts__scalar_type(c), a, operands, 6, &attrs);
  }
  return ts__value_none();
}

/* (shape, B K-major, A, B, C dtypes, A, offset, metadata, offset, selector, B, offset, C, offset,
 * scale_out, scale_a, scale_b) */
struct ts__value ts__builtin_wgmma_sp_rs(struct ts__lower *lower, const struct tir_expr *call,
                                         int unused) {
  (void)unused;
  struct ts__attrs attrs = {.count = 0};
  struct ts_operand operands[7];
  add_shape(lower, &attrs, arg_expr(call, 0));
  enum ts_dtype a = matrix_dtype(lower, arg_expr(call, 2));
  enum ts_dtype b = matrix_dtype(lower, arg_expr(call, 3));
  enum ts_dtype c = matrix_dtype(lower, arg_expr(call, 4));
  array_operands(lower, call, 5, a, operands);
  operands[2] = offset_descriptor(lower, call, 10);
  array_operands(lower, call, 12, c, operands + 3);
  operands[5] = scale_operand(lower, arg_expr(call, 14));
  operands[6] = metadata_operand(lower, call, 7);
  ts__attr_set(&attrs, TS_ATTR_b_dtype, b);
  ts__attr_set(&attrs, TS_ATTR_a_major, 1);
  ts__attr_set(&attrs, TS_ATTR_b_major,
               ts__lower_constant(lower, arg_expr(call, 1), "B's major mode"));
  ts__attr_set(&attrs, TS_ATTR_scale_a, sign_of(lower, arg_expr(call, 15)));
  ts__attr_set(&attrs, TS_ATTR_scale_b, sign_of(lower, arg_expr(call, 16)));
  ts__attr_add(&attrs, TS_ATTR_selector,
               ts__lower_constant(lower, arg_expr(call, 9), "a sparsity selector"));
  if (lower->status == TS_OK) {
    ts__lower_emit_raw(lower, TS_OP_wgmma_sp_rs, ts__scalar_type(c), a, operands, 7, &attrs);
  }
  return ts__value_none();
}

struct ts__value ts__builtin_wgmma_wait(struct ts__lower *lower, const struct tir_expr *call,
                                        int unused) {
  (void)unused;
  int64_t count = ts__lower_constant(lower, arg_expr(call, 0), "wgmma's groups in flight");
  struct ts_operand operand = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), count).operand;
  ts__lower_emit_raw(lower, TS_OP_wgmma_wait, ts__scalar_type(TS_DTYPE_u32), TS_DTYPE_u32, &operand,
                     1, NULL);
  return ts__value_none();
}
