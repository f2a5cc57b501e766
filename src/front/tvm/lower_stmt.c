/* Statements: scopes, declarations, control flow. */
#include "front/tvm/lower_priv.h"

#include <string.h>

/* --- loops */

/* The body `count` times, the loop variable bound to constants. */
static void unroll(struct ts__lower *lower, const struct tir_stmt *loop, int64_t first,
                   int64_t count) {
  struct ts__value *slot = &lower->vars[loop->loop.var->id];
  struct ts_type type = ts__lower_type(lower, loop->loop.var->dtype);
  for (int64_t i = 0; i < count && lower->status == TS_OK; i++) {
    *slot = ts__value_imm(lower, type, ts__wrap_add(first, i));
    ts__lower_stmt(lower, loop->loop.body);
  }
}

static void enter_loop(struct ts__lower *lower) {
  lower->level++;
  lower->nesting++;
  ts_build_loop(lower->build);
}

static void leave_loop(struct ts__lower *lower) {
  ts_build_end_loop(lower->build);
  lower->level--;
  lower->nesting--;
}

/* The body for an iteration and the copies that follow it. Sums take a copy's distance as constant,
 * so that all share their addresses. */
static void emit_copies(struct ts__lower *lower, const struct tir_stmt *loop,
                        struct ts__value counter, int64_t copies) {
  uint32_t id = loop->loop.var->id;
  lower->counters[id] = counter;
  for (int64_t i = 0; i < copies; i++) {
    struct ts__value distance = ts__value_imm(lower, counter.type, i);
    lower->vars[id] = i ? ts__lower_emit_2(lower, TS_OP_add, counter, distance) : counter;
    lower->distances[id] = i;
    ts__lower_stmt(lower, loop->loop.body);
  }
  lower->distances[id] = 0;
}

static void emit_loop(struct ts__lower *lower, const struct tir_stmt *loop, struct ts__value first,
                      struct ts__value extent, int64_t copies) {
  struct ts__value end = ts__lower_emit_2(lower, TS_OP_add, first, extent);
  struct ts__value counter = ts__lower_emit_variable(lower, first, loop->loop.var->name);
  enter_loop(lower);
  counter.level = lower->level;
  counter.is_varying = first.is_varying || end.is_varying;
  struct ts__value stays = ts__lower_emit_2(lower, TS_OP_lt, counter, end);
  ts_build_loop_while(lower->build, stays.operand);
  emit_copies(lower, loop, counter, copies);
  struct ts__value step = ts__value_imm(lower, counter.type, copies);
  ts__lower_emit_assign(lower, counter, ts__lower_emit_2(lower, TS_OP_add, counter, step));
  leave_loop(lower);
}

/* A loop whose bounds are constants, as far unrolled as nvcc does. */
static void emit_constant_loop(struct ts__lower *lower, const struct tir_stmt *loop,
                               struct ts__value first, int64_t start, int64_t count) {
  int64_t copies = count < 1 ? 1 : (int64_t)ts__lower_copies(lower, loop, (uint64_t)count);
  int64_t rest = count < 1 ? 0 : count % copies, whole = count - rest;
  if (copies >= whole) {
    unroll(lower, loop, start, count);
    return;
  }
  emit_loop(lower, loop, first, ts__value_imm(lower, first.type, whole), copies);
  unroll(lower, loop, ts__wrap_add(start, whole), rest);
}

static void check_annotations(struct ts__lower *lower, const struct tir_map *map,
                              const char *const *known, size_t known_count, const char *what) {
  for (size_t i = 0; i < map->count; i++) {
    const char *key = tir_value_string(map->entries[i].key);
    bool is_known = false;
    for (size_t k = 0; k < known_count && key; k++)
      is_known |= !strcmp(key, known[k]);
    if (!is_known) ts__lower_unknown(lower, "the annotation '%s' of %s", key ? key : "?", what);
  }
}

static void lower_for(struct ts__lower *lower, const struct tir_stmt *loop) {
  /* Those that earlier passes of TileLang have acted on say nothing any more. */
  static const char *const known[] = {"tl_pipelined_num_stages",
                                      "pragma_unroll_explicit",
                                      "parallel_async_without_async_commit_wait",
                                      "no_implicit_async_commit_wait",
                                      "parallel_prefer_async",
                                      "coalesced_width",
                                      "parallel_loop_layout"};
  check_annotations(lower, loop->loop.annotations, known, sizeof known / sizeof *known, "a loop");
  enum tir_loop_kind kind = loop->loop.kind;
  int64_t step = 1;
  /* The code generator prints a parallel loop as a serial one. */
  if (kind != TIR_LOOP_SERIAL && kind != TIR_LOOP_PARALLEL && kind != TIR_LOOP_UNROLLED) {
    ts__lower_unknown(lower, "a loop of kind %d", (int)kind);
  }
  if (loop->loop.step && !(tir_expr_int(loop->loop.step, &step) && step == 1)) {
    ts__lower_unknown(lower, "a loop with a step");
  }
  struct ts__value first = ts__lower_expr(lower, loop->loop.min);
  struct ts__value extent = ts__lower_expr(lower, loop->loop.extent);
  int64_t start, count;
  if (lower->status != TS_OK) return;
  if (ts__value_constant(lower, extent, &count) && ts__value_constant(lower, first, &start)) {
    emit_constant_loop(lower, loop, first, start, count);
    return;
  }
  emit_loop(lower, loop, first, extent, 1);
}

static void lower_while(struct ts__lower *lower, const struct tir_stmt *loop) {
  enter_loop(lower);
  struct ts__value stays = ts__lower_expr(lower, loop->repeat.condition);
  ts_build_loop_while(lower->build, stays.operand);
  ts__lower_stmt(lower, loop->repeat.body);
  leave_loop(lower);
}

static void lower_if(struct ts__lower *lower, const struct tir_stmt *stmt) {
  struct ts__value condition = ts__lower_expr(lower, stmt->branch.condition);
  int64_t constant;
  if (ts__value_constant(lower, condition, &constant)) {
    const struct tir_stmt *arm = constant ? stmt->branch.then_case : stmt->branch.else_case;
    if (arm) ts__lower_stmt(lower, arm);
    return;
  }
  lower->nesting++;
  ts_build_if(lower->build, condition.operand);
  ts__lower_stmt(lower, stmt->branch.then_case);
  if (stmt->branch.else_case) {
    ts_build_else(lower->build);
    ts__lower_stmt(lower, stmt->branch.else_case);
  }
  ts_build_end_if(lower->build);
  lower->nesting--;
}

/* --- declarations */

static uint64_t buffer_elems(struct ts__lower *lower, const struct tir_buffer *buffer) {
  uint64_t count = buffer->dtype.lanes;
  for (size_t i = 0; i < buffer->shape.count; i++) {
    int64_t extent = ts__lower_constant(lower, buffer->shape.items[i], "a buffer's extent");
    if (extent < 0 || extent > INT32_MAX || (count *= (uint64_t)extent) > UINT32_MAX) {
      ts__lower_unknown(lower, "the extent of buffer '%s'", buffer->name);
      return 1;
    }
  }
  return count;
}

static void alloc_shared(struct ts__lower *lower, const struct tir_buffer *buffer,
                         enum ts_shared_kind kind, struct ts__storage *storage) {
  enum ts_dtype dtype = (enum ts_dtype)storage->type.dtype;
  uint64_t size_bytes = ts_dtype_packed_bytes(dtype, buffer_elems(lower, buffer));
  if (kind == TS_SHARED_DYNAMIC && lower->dynamic_count++) {
    ts__lower_unknown(lower, "a second dynamic shared buffer ('%s')", buffer->name);
  }
  /* The generated CUDA aligns static buffers to 16 bytes, the dynamic one to 1024. */
  uint32_t align_bytes = kind == TS_SHARED_DYNAMIC ? 1024 : 16;
  storage->kind = TS__STORAGE_SHARED;
  storage->index =
      ts_build_shared(lower->build, buffer->name, kind, dtype, align_bytes, size_bytes);
  storage->operand = ts_build_shared_operand(storage->index);
}

/* A scalar that lives across statements; nvcc's code starts it at 0 (or its initial value). */
static void alloc_variable(struct ts__lower *lower, const struct tir_stmt *stmt,
                           struct ts__storage *storage) {
  const struct tir_buffer *buffer = stmt->alloc.buffer;
  if (buffer_elems(lower, buffer) != storage->type.lanes) {
    ts__lower_unknown(lower, "the local variable '%s' of more than one element", buffer->name);
    return;
  }
  struct ts__value start = ts__value_imm(lower, storage->type, 0);
  const struct tir_value *init = tir_map_find(stmt->alloc.annotations, "tl.local_var_init");
  if (init && tir_value_expr(init)) {
    start = ts__lower_expr(lower, tir_value_expr(init));
    start = ts__lower_cast(lower, start, (enum ts_dtype)storage->type.dtype);
  } else if (init) {
    ts__lower_unknown(lower, "the initial value of '%s'", buffer->name);
  }
  storage->kind = TS__STORAGE_VARIABLE;
  storage->operand = ts__lower_emit_variable(lower, start, buffer->name).operand;
}

static void lower_alloc(struct ts__lower *lower, const struct tir_stmt *stmt) {
  static const char *const known[] = {"tl.local_var_init"};
  check_annotations(lower, stmt->alloc.annotations, known, 1, "a buffer");
  const struct tir_buffer *buffer = stmt->alloc.buffer;
  struct ts__storage *storage = &lower->storage[buffer->data->id];
  *storage =
      (struct ts__storage){.type = ts__lower_type(lower, buffer->dtype), .nesting = lower->nesting};
  const char *scope = buffer->scope;
  if (lower->status != TS_OK) return;
  if (!strcmp(scope, "local") || !strcmp(scope, "local.fragment")) {
    storage->kind = TS__STORAGE_ARRAY;
    storage->index = ts_build_array(lower->build, buffer->name, (enum ts_dtype)storage->type.dtype,
                                    buffer_elems(lower, buffer));
  } else if (!strcmp(scope, "local.var")) {
    alloc_variable(lower, stmt, storage);
  } else if (!strcmp(scope, "local.descriptor.wgmma")) {
    storage->kind = TS__STORAGE_RESULT;
    storage->operand = ts__value_imm(lower, storage->type, 0).operand;
  } else if (!strcmp(scope, "local.descriptor.tcgen05_smem")) {
    /* Set by one warp only, so a variable. */
    storage->kind = TS__STORAGE_VARIABLE;
    storage->operand =
        ts__lower_emit_variable(lower, ts__value_imm(lower, storage->type, 0), buffer->name)
            .operand;
  } else if (!strcmp(scope, "shared.dyn")) {
    alloc_shared(lower, buffer, TS_SHARED_DYNAMIC, storage);
  } else if (!strcmp(scope, "shared")) {
    alloc_shared(lower, buffer, TS_SHARED_STATIC, storage);
  } else if (!strcmp(scope, "shared.barrier") || !strcmp(scope, "shared.cluster_barrier")) {
    alloc_shared(lower, buffer, TS_SHARED_BARRIER, storage);
  } else {
    ts__lower_unknown(lower, "storage scope '%s' of buffer '%s'", scope, buffer->name);
  }
}

/* A typed view of data that is there already. */
static void lower_decl(struct ts__lower *lower, const struct tir_stmt *stmt) {
  const struct tir_buffer *buffer = stmt->decl.buffer;
  if (lower->storage[buffer->data->id].kind == TS__STORAGE_NONE) {
    ts__lower_fail(lower, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                   "buffer '%s' is a view of '%s', which is not declared", buffer->name,
                   buffer->data->name);
  }
  if (buffer->strides.count) ts__lower_unknown(lower, "buffer '%s' with strides", buffer->name);
}

static void bind_pointer(struct ts__lower *lower, const struct tir_stmt *stmt) {
  struct ts__pointer pointer = ts__lower_pointer(lower, stmt->bind.value);
  if (!ts__value_is(lower, pointer.index, 0)) {
    ts__lower_unknown(lower, "pointer '%s' with a computed offset", stmt->bind.var->name);
  }
  struct ts__storage *storage = &lower->storage[stmt->bind.var->id];
  *storage = *pointer.storage;
  storage->offset_bytes = pointer.offset;
  storage->type = ts__scalar_type(pointer.elem);
  if (storage->kind != TS__STORAGE_GLOBAL && storage->kind != TS__STORAGE_SHARED) {
    ts__lower_unknown(lower, "pointer '%s' to local data", stmt->bind.var->name);
  }
}

static void lower_bind(struct ts__lower *lower, const struct tir_stmt *stmt) {
  if (stmt->bind.var->dtype.elem == TS_DTYPE_ptr) {
    bind_pointer(lower, stmt);
    return;
  }
  struct ts__value value = ts__lower_expr(lower, stmt->bind.value);
  if (value.is_mutable) value = ts__lower_emit_variable(lower, value, stmt->bind.var->name);
  value.is_mutable = false;
  lower->vars[stmt->bind.var->id] = value;
}

/* --- attributes */

static void bind_thread(struct ts__lower *lower, const struct tir_stmt *stmt) {
  static const char *const tags[] = {"threadIdx.x", "threadIdx.y", "threadIdx.z",
                                     "blockIdx.x",  "blockIdx.y",  "blockIdx.z"};
  if (stmt->attr.node->kind != TIR_VALUE_ITER_VAR) {
    ts__lower_fail(lower, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                   "the attribute thread_extent is not on an iteration variable");
    return;
  }
  const struct tir_iter_var *iter = stmt->attr.node->iter_var;
  uint32_t tag = 0;
  while (tag < 6 && strcmp(iter->thread_tag, tags[tag]))
    tag++;
  int64_t extent;
  struct ts__value value;
  if (tag == 6) {
    ts__lower_unknown(lower, "the thread tag '%s'", iter->thread_tag);
    return;
  }
  if (tir_expr_int(stmt->attr.value, &extent) && extent == 1) {
    value = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), 0);
  } else {
    value = ts__lower_emit_sreg(lower, (enum ts_sreg)(TS_SREG_tid_x + (int)tag));
  }
  if (tag >= 3 && lower->block_var_count < TS__BLOCK_VARS) {
    lower->block_axes[lower->block_var_count] = (uint8_t)(tag - 3);
    lower->block_vars[lower->block_var_count++] = iter->var;
  }
  lower->vars[iter->var->id] =
      ts__lower_cast(lower, value, (enum ts_dtype)ts__lower_type(lower, iter->var->dtype).dtype);
}

static struct ts__value u32_of(struct ts__lower *lower, struct ts__value value) {
  return ts__lower_emit_convert(lower, TS_DTYPE_u32, value);
}

struct block_order {
  struct ts__value axis[2];
};

/* rasterization2DRow<panel> and 2DColumn<panel> of TileLang's device library: blocks are counted
 * in panels of `panel` rows (columns) and walk each panel back and forth. `major` is the extent
 * along which a panel runs. */
static struct block_order remap_blocks(struct ts__lower *lower, uint32_t panel, bool by_row) {
#define U32(a) ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), (int64_t)(a))
#define OP2(name, a, b) ts__lower_emit_2(lower, TS_OP_##name, a, b)
  struct ts__value x = u32_of(lower, ts__lower_emit_sreg(lower, TS_SREG_ctaid_x));
  struct ts__value y = u32_of(lower, ts__lower_emit_sreg(lower, TS_SREG_ctaid_y));
  struct ts__value grid_x = u32_of(lower, ts__lower_emit_sreg(lower, TS_SREG_nctaid_x));
  struct ts__value grid_y = u32_of(lower, ts__lower_emit_sreg(lower, TS_SREG_nctaid_y));
  struct ts__value major = by_row ? grid_x : grid_y;
  struct ts__value block = OP2(add, x, OP2(mul, y, grid_x));
  struct ts__value grid = OP2(mul, grid_x, grid_y);
  struct ts__value panel_size = OP2(mul, major, U32(panel));
  struct ts__value offset = OP2(rem, block, panel_size);
  struct ts__value index = OP2(div, block, panel_size);
  struct ts__value total = OP2(div, OP2(sub, OP2(add, grid, panel_size), U32(1)), panel_size);
  struct ts__value last = OP2(div, OP2(sub, grid, OP2(mul, index, panel_size)), major);
  struct ts__value stride =
      ts__lower_emit_select(lower, OP2(lt, OP2(add, index, U32(1)), total), U32(panel), last);
  struct ts__value along = OP2(div, offset, stride);
  struct ts__value back = OP2(sub, OP2(sub, major, U32(1)), along);
  struct ts__value is_odd = OP2(ne, OP2(and, index, U32(1)), U32(0));
  along = ts__lower_emit_select(lower, is_odd, back, along);
  struct ts__value across = OP2(add, OP2(rem, offset, stride), OP2(mul, index, U32(panel)));
#undef OP2
#undef U32
  along = ts__lower_emit_convert(lower, TS_DTYPE_s32, along);
  across = ts__lower_emit_convert(lower, TS_DTYPE_s32, across);
  return by_row ? (struct block_order){{along, across}} : (struct block_order){{across, along}};
}

/* The generated CUDA shadows blockIdx from here to the end of the body. */
static void lower_swizzle(struct ts__lower *lower, const struct tir_stmt *stmt) {
  const struct tir_expr *tuple = stmt->attr.value;
  int64_t panel;
  if (tuple->kind != TIR_CALL || strcmp(tuple->call.op, "tirx.tvm_tuple") ||
      tuple->call.args.count != 2 || !tir_expr_int(tuple->call.args.items[1], &panel) ||
      panel < 1 || panel > INT32_MAX) {
    ts__lower_unknown(lower, "this form of threadblock_swizzle_pattern");
    return;
  }
  const char *name = ts__lower_string(lower, tuple->call.args.items[0], "a swizzle pattern");
  bool by_row = !strcmp(name, "rasterization2DRow");
  if (!by_row && strcmp(name, "rasterization2DColumn")) {
    ts__lower_unknown(lower, "the block order '%s'", name);
    return;
  }
  struct block_order order = remap_blocks(lower, (uint32_t)panel, by_row);
  struct ts__value saved[TS__BLOCK_VARS];
  for (uint32_t i = 0; i < lower->block_var_count; i++) {
    struct ts__value *value = &lower->vars[lower->block_vars[i]->id];
    saved[i] = *value;
    if (lower->block_axes[i] < 2) *value = order.axis[lower->block_axes[i]];
  }
  uint32_t count = lower->block_var_count;
  ts__lower_stmt(lower, stmt->attr.body);
  for (uint32_t i = 0; i < count; i++)
    lower->vars[lower->block_vars[i]->id] = saved[i];
}

static void lower_attr(struct ts__lower *lower, const struct tir_stmt *stmt) {
  /* Scopes and facts without an effect of their own. */
  static const char *const transparent[] = {
      "lexical_alloc_scope", "kWarpSpecializationScope", "warp_specialize",     "tl.assume",
      "storage_alignment",   "tl.min_blocks_per_sm",     "pragma_unroll_factor"};
  const char *key = stmt->attr.key;
  if (!strcmp(key, "threadblock_swizzle_pattern")) {
    lower_swizzle(lower, stmt);
    return;
  }
  bool is_known = !strcmp(key, "thread_extent");
  if (is_known) bind_thread(lower, stmt);
  for (size_t i = 0; i < sizeof transparent / sizeof *transparent; i++)
    is_known |= !strcmp(key, transparent[i]);
  if (!is_known) ts__lower_unknown(lower, "the attribute '%s'", key);
  ts__lower_stmt(lower, stmt->attr.body);
}

/* --- all of them */

static void lower_evaluate(struct ts__lower *lower, const struct tir_expr *expr) {
  if (expr->kind == TIR_CALL) {
    ts__lower_call(lower, expr);
  } else if (expr->kind != TIR_INT_IMM) { /* a constant stands for nothing to do */
    ts__lower_unknown(lower, "tirx.Evaluate of %s", tir_expr_kind_text(expr->kind));
  }
}

static void lower_assert(struct ts__lower *lower, const struct tir_stmt *stmt) {
  struct ts__value condition = ts__lower_expr(lower, stmt->assertion.condition);
  const char *text = "assertion failed";
  if (stmt->assertion.message_parts.count) {
    text = ts__lower_string(lower, stmt->assertion.message_parts.items[0], "a message");
  }
  struct ts_operand operands[2] = {condition.operand, ts_build_text(lower->build, text)};
  ts__lower_emit_raw(lower, TS_OP_assert, ts__scalar_type(TS_DTYPE_pred), TS_DTYPE_pred, operands,
                     2, NULL);
}

static void lower_stmt(struct ts__lower *lower, const struct tir_stmt *stmt) {
  switch (stmt->kind) {
  case TIR_SEQ:
    for (size_t i = 0; i < stmt->seq.count && lower->status == TS_OK; i++)
      ts__lower_stmt(lower, stmt->seq.items[i]);
    return;
  case TIR_FOR: lower_for(lower, stmt); return;
  case TIR_WHILE: lower_while(lower, stmt); return;
  case TIR_IF: lower_if(lower, stmt); return;
  case TIR_ATTR: lower_attr(lower, stmt); return;
  case TIR_BIND: lower_bind(lower, stmt); return;
  case TIR_ALLOC_BUFFER: lower_alloc(lower, stmt); return;
  case TIR_DECL_BUFFER: lower_decl(lower, stmt); return;
  case TIR_BUFFER_STORE: ts__lower_store(lower, stmt); return;
  case TIR_EVALUATE: lower_evaluate(lower, stmt->evaluate.value); return;
  case TIR_ASSERT: lower_assert(lower, stmt); return;
  default: ts__lower_unknown(lower, "%s in a device function", tir_stmt_kind_text(stmt->kind));
  }
}

void ts__lower_stmt(struct ts__lower *lower, const struct tir_stmt *stmt) {
  if (!ts__lower_step(lower)) return;
  struct ts_source_place outer = lower->place;
  if (stmt->place.file) {
    lower->place = stmt->place;
    ts_build_place(lower->build, stmt->place);
  }
  lower_stmt(lower, stmt);
  if (stmt->place.file) {
    lower->place = outer;
    ts_build_place(lower->build, outer);
  }
}
