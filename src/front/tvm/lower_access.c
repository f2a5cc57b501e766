/* Buffers, pointers and addresses.
 *
 * An index is taken apart into a constant, which becomes the instruction's byte offset, and a rest.
 * So the unrolled copies of one access share their address registers, as they do in nvcc's code. */
#include "front/tvm/lower_priv.h"

#include <string.h>

/* --- sums */

enum { MAX_TERMS = 24 };

struct term {
  struct ts__value value;
  int64_t factor;
};

struct sum {
  uint64_t constant;
  struct term terms[MAX_TERMS];
  uint32_t count;
};

static bool is_sum(const struct tir_expr *expr) {
  return expr->kind == TIR_ADD || expr->kind == TIR_SUB;
}

static void add_term(struct ts__lower *lower, struct sum *sum, const struct tir_expr *expr,
                     int64_t factor) {
  bool is_copy = expr->kind == TIR_VAR && lower->distances[expr->var->id];
  struct ts__value value = is_copy ? lower->counters[expr->var->id] : ts__lower_expr(lower, expr);
  int64_t constant;
  if (is_copy) sum->constant += (uint64_t)factor * (uint64_t)lower->distances[expr->var->id];
  if (ts__value_constant(lower, value, &constant)) {
    sum->constant += (uint64_t)factor * (uint64_t)constant;
    return;
  }
  if (sum->count == MAX_TERMS) {
    ts__lower_fail(lower, TS_LIMIT, TS_DIAG_LIMIT, "an index has more than %d terms", MAX_TERMS);
    return;
  }
  sum->terms[sum->count++] = (struct term){value, factor};
}

static void collect(struct ts__lower *lower, struct sum *sum, const struct tir_expr *expr,
                    int64_t factor) {
  int64_t constant;
  switch (expr->kind) {
  case TIR_ADD:
    collect(lower, sum, expr->a, factor);
    collect(lower, sum, expr->b, factor);
    return;
  case TIR_SUB:
    collect(lower, sum, expr->a, factor);
    collect(lower, sum, expr->b, (int64_t)(0 - (uint64_t)factor));
    return;
  case TIR_MUL:
    if (!tir_expr_int(expr->b, &constant)) break;
    factor = (int64_t)((uint64_t)factor * (uint64_t)constant);
    if (is_sum(expr->a)) {
      collect(lower, sum, expr->a, factor);
    } else {
      add_term(lower, sum, expr->a, factor);
    }
    return;
  default: break;
  }
  add_term(lower, sum, expr, factor);
}

/* acc + value * factor; acc may be none. */
static struct ts__value accumulate(struct ts__lower *lower, struct ts__value acc,
                                   struct ts__value value, int64_t factor) {
  bool is_first = acc.type.lanes == 0;
  bool is_negative = factor < 0 && !is_first;
  int64_t scale = is_negative ? (int64_t)(0 - (uint64_t)factor) : factor;
  if (scale != 1) {
    value = ts__lower_emit_2(lower, TS_OP_mul, value, ts__value_imm(lower, value.type, scale));
  }
  if (is_first) return value;
  return ts__lower_emit_2(lower, is_negative ? TS_OP_sub : TS_OP_add, acc, value);
}

static uint32_t term_group(const struct term *term) {
  return term->value.level * 2 + (term->value.is_varying ? 1 : 0);
}

/* Terms that change together are summed first; groups are joined from the least to the most
 * changing one, so that what is joined early is hoisted. */
static struct ts__value join_terms(struct ts__lower *lower, const struct sum *sum) {
  struct ts__value total = ts__value_none();
  uint32_t done = 0;
  for (uint32_t group = 0; done < sum->count; group++) {
    struct ts__value part = ts__value_none();
    for (uint32_t i = 0; i < sum->count; i++) {
      if (term_group(&sum->terms[i]) != group) continue;
      part = accumulate(lower, part, sum->terms[i].value, sum->terms[i].factor);
      done++;
    }
    if (part.type.lanes) total = accumulate(lower, total, part, 1);
  }
  return total;
}

void ts__lower_sum(struct ts__lower *lower, const struct tir_expr *expr, struct ts__value *rest,
                   int64_t *constant) {
  struct ts_type type = ts__lower_type(lower, expr->dtype);
  *constant = 0;
  if (type.lanes != 1 || !ts_dtype_is_signed_int(type.dtype)) {
    *rest = ts__lower_expr(lower, expr);
    return;
  }
  struct sum sum = {.count = 0};
  collect(lower, &sum, expr, 1);
  *constant = (int64_t)sum.constant;
  if (ts_dtype_bits(type.dtype) == 32) *constant = (int32_t)*constant;
  *rest = sum.count ? join_terms(lower, &sum) : ts__value_imm(lower, type, 0);
}

/* --- pointers */

static const struct ts__storage *find_storage(struct ts__lower *lower, const struct tir_var *data) {
  const struct ts__storage *storage = &lower->storage[data->id];
  if (storage->kind == TS__STORAGE_NONE) {
    ts__lower_fail(lower, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                   "'%s' is used where no buffer of that name is declared", data->name);
  }
  return storage;
}

static bool counts_elements(const struct ts__storage *storage) {
  return storage->kind == TS__STORAGE_ARRAY || storage->kind == TS__STORAGE_VARIABLE ||
         storage->kind == TS__STORAGE_RESULT;
}

/* Elements of 4 bits lie two in a byte, the first one in the lower half; pointers to them are to the
 * byte. */
enum { PER_BYTE = 2 };

static bool is_packed(const struct ts__storage *storage, enum ts_dtype elem) {
  return ts_dtype_bits(elem) == 4 && !counts_elements(storage);
}

/* Element `constant` of data seen as an array of type. */
static struct ts__pointer pointer_to(struct ts__lower *lower, const struct tir_var *data,
                                     struct tir_dtype dtype, int64_t constant) {
  struct ts__pointer pointer = {.storage = find_storage(lower, data), .elem = dtype.elem};
  unsigned bits = ts_dtype_bits(dtype.elem);
  if (is_packed(pointer.storage, dtype.elem)) {
    pointer.elem = TS_DTYPE_u8;
    pointer.scale = 1;
    pointer.offset = pointer.storage->offset_bytes + constant * dtype.lanes / PER_BYTE;
    pointer.index = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), 0);
    return pointer;
  }
  int64_t bytes = bits < 8 ? 1 : (int64_t)bits / 8;
  pointer.index = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), 0);
  if (counts_elements(pointer.storage)) {
    pointer.scale = dtype.lanes;
    pointer.offset = pointer.storage->offset_bytes / bytes;
  } else {
    pointer.scale = bytes * dtype.lanes;
    pointer.offset = pointer.storage->offset_bytes;
  }
  pointer.offset = ts__wrap_add(pointer.offset, ts__wrap_mul(constant, pointer.scale));
  return pointer;
}

/* rest + constant elements of type dtype, in single elements. */
static struct ts__value packed_place(struct ts__lower *lower, struct tir_dtype dtype,
                                     struct ts__value rest, int64_t constant) {
  struct ts__value lanes = ts__value_imm(lower, rest.type, dtype.lanes);
  rest = ts__lower_emit_2(lower, TS_OP_mul, rest, lanes);
  return ts__lower_emit_2(lower, TS_OP_add, rest,
                          ts__value_imm(lower, rest.type, constant * dtype.lanes));
}

static struct ts__pointer pointer_at(struct ts__lower *lower, const struct tir_var *data,
                                     struct tir_dtype dtype, const struct tir_expr *index) {
  struct ts__value rest;
  int64_t constant;
  ts__lower_sum(lower, index, &rest, &constant);
  struct ts__pointer pointer = pointer_to(lower, data, dtype, constant);
  if (is_packed(pointer.storage, dtype.elem)) {
    pointer.offset = pointer.storage->offset_bytes;
    pointer.index = packed_place(lower, dtype, rest, constant);
    pointer.index = ts__lower_emit_2(lower, TS_OP_shr, pointer.index,
                                     ts__value_imm(lower, pointer.index.type, 1));
    return pointer;
  }
  pointer.index = rest;
  return pointer;
}

static const struct tir_expr *only_index(struct ts__lower *lower, const struct tir_buffer *buffer,
                                         const struct tir_exprs *indices) {
  int64_t offset;
  if (indices->count != 1) {
    ts__lower_unknown(lower, "buffer '%s' with %zu indices", buffer->name, indices->count);
    return NULL;
  }
  if (buffer->elem_offset && !(tir_expr_int(buffer->elem_offset, &offset) && offset == 0)) {
    ts__lower_unknown(lower, "buffer '%s' with an element offset", buffer->name);
    return NULL;
  }
  return indices->items[0];
}

static struct ts__pointer pointer_nowhere(struct ts__lower *lower) {
  static const struct ts__storage none;
  return (struct ts__pointer){.storage = &none,
                              .index = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), 0),
                              .elem = TS_DTYPE_u8,
                              .scale = 1};
}

static struct ts__pointer pointer_of_call(struct ts__lower *lower, const struct tir_expr *call) {
  const struct tir_expr *const *args = call->call.args.items;
  size_t count = call->call.args.count;
  if (!strcmp(call->call.op, "tirx.tvm_access_ptr") && count == 5 && args[1]->kind == TIR_VAR) {
    return pointer_at(lower, args[1]->var, args[0]->dtype, args[2]);
  }
  if (!strcmp(call->call.op, "tirx.address_of") && count == 1 && args[0]->kind == TIR_BUFFER_LOAD) {
    return ts__lower_pointer(lower, args[0]);
  }
  if (!strcmp(call->call.op, "tirx.handle_add_byte_offset") && count == 2) {
    struct ts__pointer pointer = ts__lower_pointer(lower, args[0]);
    int64_t offset = ts__lower_constant(lower, args[1], "a byte offset");
    pointer.offset = ts__wrap_add(pointer.offset, offset);
    return pointer;
  }
  ts__lower_unknown(lower, "a pointer from '%s'", call->call.op);
  return pointer_nowhere(lower);
}

struct ts__pointer ts__lower_pointer(struct ts__lower *lower, const struct tir_expr *expr) {
  switch (expr->kind) {
  case TIR_VAR: {
    /* A variable that holds a pointer may say nothing of what it points to. */
    struct tir_dtype dtype = expr->var->elem_dtype;
    if (dtype.elem == TS_DTYPE_NONE)
      dtype = (struct tir_dtype){lower->storage[expr->var->id].type.dtype, 1, "handle"};
    if (dtype.elem == TS_DTYPE_NONE) break;
    return pointer_to(lower, expr->var, dtype, 0);
  }
  case TIR_BUFFER_LOAD: {
    const struct tir_buffer *buffer = expr->load.buffer;
    const struct tir_expr *index = only_index(lower, buffer, &expr->load.indices);
    if (!index) return pointer_nowhere(lower);
    if (index->kind == TIR_RAMP) index = index->ramp.base;
    return pointer_at(lower, buffer->data, buffer->dtype, index);
  }
  case TIR_CALL: return pointer_of_call(lower, expr);
  default: break;
  }
  ts__lower_unknown(lower, "%s as a pointer", tir_expr_kind_text(expr->kind));
  return pointer_nowhere(lower);
}

static const char *storage_text(enum ts__storage_kind kind) {
  switch (kind) {
  case TS__STORAGE_NONE: return "nothing";
  case TS__STORAGE_GLOBAL: return "global memory";
  case TS__STORAGE_SHARED: return "shared memory";
  case TS__STORAGE_ARRAY: return "a local array";
  case TS__STORAGE_VARIABLE: return "a local variable";
  case TS__STORAGE_TENSORMAP: return "a tensor map";
  case TS__STORAGE_RESULT: return "a descriptor";
  }
  return "nothing";
}

bool ts__pointer_expect(struct ts__lower *lower, const struct ts__pointer *pointer,
                        enum ts__storage_kind kind, const struct tir_expr *call) {
  if (lower->status != TS_OK) return false;
  if (pointer->storage->kind == kind) return true;
  ts__lower_unknown(lower, "%s on %s (expected %s)", call->call.op,
                    storage_text(pointer->storage->kind), storage_text(kind));
  return false;
}

struct ts__value ts__lower_emit_array_index(struct ts__lower *lower,
                                            const struct ts__pointer *pointer) {
  struct ts__value index = pointer->index;
  if (pointer->scale != 1) {
    index =
        ts__lower_emit_2(lower, TS_OP_mul, index, ts__value_imm(lower, index.type, pointer->scale));
  }
  return ts__lower_emit_2(lower, TS_OP_add, index,
                          ts__value_imm(lower, index.type, pointer->offset));
}

static struct ts__value base_address(struct ts__lower *lower, const struct ts__storage *storage) {
  struct ts__value base = {.operand = storage->operand, .type = ts__scalar_type(TS_DTYPE_u32)};
  if (storage->kind == TS__STORAGE_SHARED) return base;
  base.type = ts__scalar_type(TS_DTYPE_ptr);
  return ts__lower_emit(lower, TS_OP_bitcast, ts__scalar_type(TS_DTYPE_u64), TS_DTYPE_ptr, &base, 1,
                        NULL);
}

struct ts__value ts__lower_emit_address(struct ts__lower *lower,
                                        const struct ts__pointer *pointer) {
  struct ts__value address = base_address(lower, pointer->storage);
  struct ts_type type = address.type;
  if (pointer->offset) {
    address =
        ts__lower_emit_2(lower, TS_OP_add, address, ts__value_imm(lower, type, pointer->offset));
  }
  if (ts__value_is(lower, pointer->index, 0)) return address;
  struct ts__value index = ts__lower_emit_convert(
      lower, type.dtype == TS_DTYPE_u64 ? TS_DTYPE_s64 : TS_DTYPE_s32, pointer->index);
  index = ts__lower_emit_convert(lower, (enum ts_dtype)type.dtype, index);
  index = ts__lower_emit_2(lower, TS_OP_mul, index, ts__value_imm(lower, type, pointer->scale));
  return ts__lower_emit_2(lower, TS_OP_add, address, index);
}

/* --- loads and stores of consecutive elements */

static void add_memory_attrs(struct ts__attrs *attrs, const struct ts__pointer *pointer) {
  ts__attr_add(attrs, TS_ATTR_scale, pointer->scale);
  ts__attr_add(attrs, TS_ATTR_offset, pointer->offset);
}

static bool variable_fits(struct ts__lower *lower, const struct ts__pointer *pointer,
                          struct ts_type type) {
  if (pointer->storage->type.dtype == type.dtype && pointer->storage->type.lanes == type.lanes &&
      pointer->offset == 0 && ts__value_is(lower, pointer->index, 0)) {
    return true;
  }
  ts__lower_unknown(lower, "an access to a part of a local variable");
  return false;
}

struct ts__value ts__lower_emit_load(struct ts__lower *lower, const struct ts__pointer *pointer,
                                     uint32_t lanes) {
  struct ts_type type = {(uint8_t)pointer->elem, (uint8_t)lanes};
  const struct ts__storage *storage = pointer->storage;
  struct ts__attrs attrs = {.count = 0};
  struct ts__value result = {.type = type, .level = lower->level, .is_varying = true};
  switch (storage->kind) {
  case TS__STORAGE_GLOBAL:
  case TS__STORAGE_SHARED: {
    enum ts_op op = storage->kind == TS__STORAGE_GLOBAL ? TS_OP_ld_global : TS_OP_ld_shared;
    struct ts_operand operands[2] = {storage->operand, pointer->index.operand};
    add_memory_attrs(&attrs, pointer);
    result.operand = ts__lower_emit_raw(lower, op, type, pointer->elem, operands, 2, &attrs);
    return result;
  }
  case TS__STORAGE_ARRAY: {
    struct ts_operand operands[2] = {ts_build_array_operand(storage->index),
                                     ts__lower_emit_array_index(lower, pointer).operand};
    result.operand =
        ts__lower_emit_raw(lower, TS_OP_ld_local, type, pointer->elem, operands, 2, NULL);
    return result;
  }
  case TS__STORAGE_VARIABLE:
    if (!variable_fits(lower, pointer, type)) break;
    result.operand = storage->operand;
    result.is_mutable = true;
    return result;
  default: ts__lower_unknown(lower, "a load from %s", storage_text(storage->kind));
  }
  return ts__value_imm(lower, type, 0);
}

void ts__lower_emit_store(struct ts__lower *lower, const struct ts__pointer *pointer,
                          struct ts__value value) {
  const struct ts__storage *storage = pointer->storage;
  struct ts__attrs attrs = {.count = 0};
  switch (storage->kind) {
  case TS__STORAGE_GLOBAL:
  case TS__STORAGE_SHARED: {
    enum ts_op op = storage->kind == TS__STORAGE_GLOBAL ? TS_OP_st_global : TS_OP_st_shared;
    struct ts_operand operands[3] = {storage->operand, pointer->index.operand, value.operand};
    add_memory_attrs(&attrs, pointer);
    ts__lower_emit_raw(lower, op, value.type, pointer->elem, operands, 3, &attrs);
    return;
  }
  case TS__STORAGE_ARRAY: {
    struct ts_operand operands[3] = {ts_build_array_operand(storage->index),
                                     ts__lower_emit_array_index(lower, pointer).operand,
                                     value.operand};
    ts__lower_emit_raw(lower, TS_OP_st_local, value.type, pointer->elem, operands, 3, NULL);
    return;
  }
  case TS__STORAGE_VARIABLE:
    if (!variable_fits(lower, pointer, value.type)) return;
    ts_build_assign(lower->build, storage->operand, value.operand);
    return;
  default: ts__lower_unknown(lower, "a store to %s", storage_text(storage->kind));
  }
}

/* --- vectors of any index: element by element */

static bool is_consecutive(const struct tir_expr *index) {
  int64_t stride;
  if (index->dtype.lanes == 1) return true;
  return index->kind == TIR_RAMP && tir_expr_int(index->ramp.stride, &stride) && stride == 1;
}

/* Where component i of an index vector points. */
struct gather {
  struct ts__pointer first;
  struct ts__value indices; /* all of them, unless they are a ramp */
  int64_t stride;           /* elements between the components of a ramp */
  bool is_ramp;
};

/* True when vectors of such an index hold no more than the IR does. */
static bool check_width(struct ts__lower *lower, const struct tir_buffer *buffer,
                        const struct tir_expr *index) {
  uint64_t lanes = (uint64_t)buffer->dtype.lanes * index->dtype.lanes;
  if (lanes >= 1 && lanes <= TS_MAX_VECTOR_LANES) return lower->status == TS_OK;
  ts__lower_unknown(lower, "an access to %llu elements of '%s' at once", (unsigned long long)lanes,
                    buffer->name);
  return false;
}

static struct gather gather_begin(struct ts__lower *lower, const struct tir_buffer *buffer,
                                  const struct tir_expr *index) {
  struct gather gather = {.is_ramp = index->kind == TIR_RAMP};
  if (gather.is_ramp && tir_expr_int(index->ramp.stride, &gather.stride)) {
    gather.first = pointer_at(lower, buffer->data, buffer->dtype, index->ramp.base);
    return gather;
  }
  gather.is_ramp = false;
  gather.first = pointer_to(lower, buffer->data, buffer->dtype, 0);
  gather.indices = ts__lower_expr(lower, index);
  return gather;
}

static struct ts__pointer gather_at(struct ts__lower *lower, const struct gather *gather,
                                    uint32_t i) {
  struct ts__pointer pointer = gather->first;
  if (gather->is_ramp) {
    int64_t offset = ts__wrap_mul(ts__wrap_mul(i, gather->stride), pointer.scale);
    pointer.offset = ts__wrap_add(pointer.offset, offset);
  } else {
    pointer.index = ts__lower_emit_extract(lower, gather->indices, i);
  }
  return pointer;
}

/* --- elements of 4 bits in memory */

static struct ts__value bits_as(struct ts__lower *lower, struct ts__value value,
                                struct ts_type type) {
  if (value.type.dtype == type.dtype) return value;
  return ts__lower_emit(lower, TS_OP_bitcast, type, (enum ts_dtype)value.type.dtype, &value, 1,
                        NULL);
}

/* How far up in its byte the element at the index is. */
static struct ts__value packed_shift(struct ts__lower *lower, const struct tir_buffer *buffer,
                                     const struct tir_expr *index) {
  struct ts__value rest;
  int64_t constant;
  ts__lower_sum(lower, index, &rest, &constant);
  rest = packed_place(lower, buffer->dtype, rest, constant);
  rest = ts__lower_emit_2(lower, TS_OP_and, rest, ts__value_imm(lower, rest.type, 1));
  rest = ts__lower_emit_2(lower, TS_OP_shl, rest, ts__value_imm(lower, rest.type, 2));
  return ts__lower_emit_convert(lower, TS_DTYPE_u32, rest);
}

/* Vectors begin at a byte; single elements are half of one. */
static struct ts__value packed_load(struct ts__lower *lower, const struct tir_buffer *buffer,
                                    const struct tir_expr *index, struct ts_type type) {
  struct ts__pointer pointer = pointer_at(lower, buffer->data, buffer->dtype, index);
  if (type.lanes % PER_BYTE == 0)
    return bits_as(lower, ts__lower_emit_load(lower, &pointer, type.lanes / PER_BYTE), type);
  struct ts__value byte = ts__lower_emit_load(lower, &pointer, 1);
  byte = ts__lower_emit_2(lower, TS_OP_shr, ts__lower_emit_convert(lower, TS_DTYPE_u32, byte),
                          packed_shift(lower, buffer, index));
  return bits_as(lower, ts__lower_emit_convert(lower, TS_DTYPE_u4, byte), type);
}

static void packed_store(struct ts__lower *lower, const struct tir_buffer *buffer,
                         const struct tir_expr *index, struct ts__value value) {
  struct ts__pointer pointer = pointer_at(lower, buffer->data, buffer->dtype, index);
  struct ts_type bytes = {TS_DTYPE_u8, (uint8_t)(value.type.lanes / PER_BYTE)};
  int64_t constant;
  if (value.type.lanes % PER_BYTE == 0) {
    if (value.type.lanes > 1 && ts__value_constant(lower, value, &constant))
      value = ts__lower_emit(lower, TS_OP_broadcast, value.type, (enum ts_dtype)value.type.dtype,
                             &value, 1, NULL);
    ts__lower_emit_store(lower, &pointer, bits_as(lower, value, bytes));
    return;
  }
  struct ts__value shift = packed_shift(lower, buffer, index);
  struct ts__value old =
      ts__lower_emit_convert(lower, TS_DTYPE_u32, ts__lower_emit_load(lower, &pointer, 1));
  struct ts__value mask = ts__lower_emit_2(lower, TS_OP_shl, ts__value_u32(lower, 15), shift);
  value = bits_as(lower, value, ts__scalar_type(TS_DTYPE_u4));
  value =
      ts__lower_emit_2(lower, TS_OP_shl, ts__lower_emit_convert(lower, TS_DTYPE_u32, value), shift);
  old = ts__lower_emit_2(lower, TS_OP_and, old, ts__lower_emit_1(lower, TS_OP_not, mask));
  value = ts__lower_emit_2(lower, TS_OP_or, old, value);
  ts__lower_emit_store(lower, &pointer, ts__lower_emit_convert(lower, TS_DTYPE_u8, value));
}

static bool is_packed_buffer(const struct ts__lower *lower, const struct tir_buffer *buffer) {
  return is_packed(&lower->storage[buffer->data->id], buffer->dtype.elem);
}

/* The vector's first index, or NULL when its elements are not consecutive. */
static const struct tir_expr *packed_index(struct ts__lower *lower, const struct tir_expr *index) {
  if (is_consecutive(index)) return index->kind == TIR_RAMP ? index->ramp.base : index;
  ts__lower_unknown(lower, "elements of 4 bits that are not consecutive");
  return NULL;
}

struct ts__value ts__lower_load(struct ts__lower *lower, const struct tir_expr *load) {
  const struct tir_buffer *buffer = load->load.buffer;
  struct ts_type type = ts__lower_type(lower, load->dtype);
  const struct tir_expr *index = only_index(lower, buffer, &load->load.indices);
  if (load->load.predicate) ts__lower_unknown(lower, "a load with a predicate");
  if (!index || !check_width(lower, buffer, index)) return ts__value_imm(lower, type, 0);
  if (is_packed_buffer(lower, buffer)) {
    const struct tir_expr *first = packed_index(lower, index);
    return first ? packed_load(lower, buffer, first, type) : ts__value_imm(lower, type, 0);
  }
  if (is_consecutive(index)) {
    struct ts__pointer pointer = ts__lower_pointer(lower, load);
    return ts__lower_emit_load(lower, &pointer, type.lanes);
  }
  struct gather gather = gather_begin(lower, buffer, index);
  struct ts__value parts[TS_MAX_VECTOR_LANES];
  uint32_t count = index->dtype.lanes;
  for (uint32_t i = 0; i < count; i++) {
    struct ts__pointer pointer = gather_at(lower, &gather, i);
    parts[i] = ts__lower_emit_load(lower, &pointer, buffer->dtype.lanes);
  }
  return ts__lower_emit_concat(lower, parts, count);
}

static struct ts__value slice(struct ts__lower *lower, struct ts__value value, uint32_t first,
                              uint32_t count) {
  struct ts__value parts[TS_MAX_VECTOR_LANES];
  for (uint32_t i = 0; i < count; i++)
    parts[i] = ts__lower_emit_extract(lower, value, first + i);
  return ts__lower_emit_concat(lower, parts, count);
}

void ts__lower_store(struct ts__lower *lower, const struct tir_stmt *store) {
  const struct tir_buffer *buffer = store->store.buffer;
  const struct tir_expr *index = only_index(lower, buffer, &store->store.indices);
  if (store->store.predicate) ts__lower_unknown(lower, "a store with a predicate");
  if (!index || !check_width(lower, buffer, index)) return;
  struct ts__value value = ts__lower_expr(lower, store->store.value);
  if (is_packed_buffer(lower, buffer)) {
    const struct tir_expr *first = packed_index(lower, index);
    if (first) packed_store(lower, buffer, first, value);
    return;
  }
  if (is_consecutive(index)) {
    const struct tir_expr *base = index->kind == TIR_RAMP ? index->ramp.base : index;
    struct ts__pointer pointer = pointer_at(lower, buffer->data, buffer->dtype, base);
    ts__lower_emit_store(lower, &pointer, value);
    return;
  }
  struct gather gather = gather_begin(lower, buffer, index);
  uint32_t width = buffer->dtype.lanes;
  for (uint32_t i = 0; i < index->dtype.lanes; i++) {
    struct ts__pointer pointer = gather_at(lower, &gather, i);
    ts__lower_emit_store(lower, &pointer, slice(lower, value, i * width, width));
  }
}
