/* What is derived once a function is complete: order of instructions, layout of shared memory. */
#include "ir/ir_priv.h"

enum { DYNAMIC_ALIGN_BYTES = 1024, LEAST_ALIGN_BYTES = 16 };

static enum ts_status fail(struct ts_ctx *ctx, const struct ts_function *function, const char *what,
                           const char *name, uint64_t size_bytes) {
  return ts_fail(ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                 "%s %s of function %s is too large (%llu bytes)", what, name ? name : "?",
                 function->name, (unsigned long long)size_bytes);
}

/* Stable by block; a terminator comes last whenever it was appended, so that instructions may still
 * be added to a block that has one (hoisting does). */
static enum ts_status order_insns(struct ts_ctx *ctx, struct ts_function *function) {
  const struct ts_allocator *allocator = function->module->allocator;
  size_t block_count = function->blocks.count;
  TS_VEC(struct ts_insn) ordered = {NULL, 0, 0};
  if (ts_vec_reserve(&ordered, allocator, function->insns.count)) return ts_fail_memory(ctx);
  for (size_t i = 0; i < block_count; i++)
    function->blocks.data[i].insn_count = 0;
  for (size_t i = 0; i < function->insns.count; i++)
    function->blocks.data[function->insns.data[i].block].insn_count++;
  uint32_t first = 0;
  for (size_t i = 0; i < block_count; i++) {
    struct ts_block *block = &function->blocks.data[i];
    block->first_insn = first;
    first += block->insn_count;
    block->insn_count = 0;
  }
  for (int wants_terminator = 0; wants_terminator < 2; wants_terminator++) {
    for (size_t i = 0; i < function->insns.count; i++) {
      const struct ts_insn *insn = &function->insns.data[i];
      bool is_terminator = ts_op_info((enum ts_op)insn->op)->flags & F_TERM;
      if (is_terminator != wants_terminator) continue;
      struct ts_block *block = &function->blocks.data[insn->block];
      ordered.data[block->first_insn + block->insn_count++] = *insn;
    }
  }
  ordered.count = function->insns.count;
  ts_vec_free(&function->insns, allocator);
  function->insns.data = ordered.data;
  function->insns.count = ordered.count;
  function->insns.capacity = ordered.capacity;
  return TS_OK;
}

static uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* Static objects and barriers in the order of declaration, then the dynamic one. */
static enum ts_status lay_out_shared(struct ts_ctx *ctx, struct ts_function *function) {
  uint64_t end = 0;
  for (size_t i = 0; i < function->shared.count; i++) {
    struct ts_shared *shared = &function->shared.data[i];
    if (shared->size_bytes > TS__MAX_SHARED_BYTES || shared->align_bytes > TS__MAX_SHARED_BYTES)
      return fail(ctx, function, "shared object", shared->name, shared->size_bytes);
    if (shared->kind == TS_SHARED_DYNAMIC) continue;
    uint32_t align =
        shared->align_bytes > LEAST_ALIGN_BYTES ? shared->align_bytes : LEAST_ALIGN_BYTES;
    shared->address = round_up(end, align);
    end = shared->address + shared->size_bytes;
    if (end > TS__MAX_SHARED_BYTES)
      return fail(ctx, function, "shared object", shared->name, shared->size_bytes);
  }
  function->static_shared_bytes = end;
  function->dynamic_shared_address = round_up(end, DYNAMIC_ALIGN_BYTES);
  for (size_t i = 0; i < function->shared.count; i++)
    if (function->shared.data[i].kind == TS_SHARED_DYNAMIC)
      function->shared.data[i].address = function->dynamic_shared_address;
  return TS_OK;
}

static enum ts_status size_arrays(struct ts_ctx *ctx, struct ts_function *function) {
  uint64_t total_bytes = 0;
  for (size_t i = 0; i < function->arrays.count; i++) {
    struct ts_array *array = &function->arrays.data[i];
    if (array->elem_count > TS__MAX_ARRAY_BYTES * UINT64_C(2))
      return fail(ctx, function, "register array", array->name, array->elem_count);
    uint64_t size_bytes = ts_dtype_packed_bytes((enum ts_dtype)array->dtype, array->elem_count);
    array->size_bytes = round_up(size_bytes, 4);
    total_bytes += array->size_bytes;
    if (total_bytes > TS__MAX_ARRAY_BYTES)
      return fail(ctx, function, "register array", array->name, array->size_bytes);
  }
  return TS_OK;
}

enum ts_status ts_function_finish(struct ts_ctx *ctx, struct ts_function *function) {
  TS_TRY(order_insns(ctx, function));
  TS_TRY(size_arrays(ctx, function));
  return lay_out_shared(ctx, function);
}
