/* Rebuilding a function's instructions: what all passes share. */
#include "ir/ir_priv.h"

#include <string.h>

static void fail_memory(struct ts__rewrite *rw) {
  if (rw->status == TS_OK) rw->status = ts_fail_memory(rw->ctx);
}

static const struct ts_allocator *allocator_of(const struct ts__rewrite *rw) {
  return rw->function->module->allocator;
}

/* rw->regs as long as function->regs. */
static bool grow_regs(struct ts__rewrite *rw) {
  size_t count = rw->function->regs.count;
  if (count <= rw->reg_count) return true;
  if (ts__vec_grow((void **)&rw->regs, rw->reg_count, &rw->reg_capacity, count - rw->reg_count,
                   sizeof *rw->regs, allocator_of(rw))) {
    fail_memory(rw);
    return false;
  }
  for (; rw->reg_count < count; rw->reg_count++)
    rw->regs[rw->reg_count] = (struct ts__rewrite_reg){.insn = TS_NONE, .block = TS_NONE};
  return true;
}

static void count_definitions(struct ts__rewrite *rw) {
  const struct ts_function *function = rw->function;
  for (size_t i = 0; i < function->params.count; i++) {
    uint32_t reg = function->params.data[i].reg;
    if (reg == TS_NONE) continue;
    rw->regs[reg].def_count++;
    rw->regs[reg].block = function->entry;
  }
  for (size_t i = 0; i < function->insns.count; i++)
    if (function->insns.data[i].dst != TS_NONE) rw->regs[function->insns.data[i].dst].def_count++;
}

static void release(struct ts__rewrite *rw) {
  const struct ts_allocator *allocator = allocator_of(rw);
  size_t count = rw->reg_count;
  ts__vec_free((void **)&rw->regs, &count, &rw->reg_capacity, sizeof *rw->regs, allocator);
  ts__index_free(&rw->components, allocator);
  ts_vec_free(&rw->component_insns, allocator);
  ts_arena_free(&rw->arena);
}

enum ts_status ts__rewrite_begin(struct ts__rewrite *rw, struct ts_ctx *ctx,
                                 struct ts_function *function) {
  *rw = (struct ts__rewrite){.ctx = ctx, .function = function};
  ts_arena_init(&rw->arena, function->module->allocator);
  if (!grow_regs(rw) || ts__cfg_init(&rw->cfg, &rw->arena, function)) {
    release(rw);
    return rw->status == TS_OK ? ts_fail_memory(ctx) : rw->status;
  }
  count_definitions(rw);
  rw->old_insns = function->insns.data;
  rw->old_count = function->insns.count;
  rw->old_capacity = function->insns.capacity;
  function->insns.data = NULL;
  function->insns.count = function->insns.capacity = 0;
  return TS_OK;
}

static void restore_old(struct ts__rewrite *rw) {
  struct ts_function *function = rw->function;
  ts_vec_free(&function->insns, allocator_of(rw));
  function->insns.data = rw->old_insns;
  function->insns.count = rw->old_count;
  function->insns.capacity = rw->old_capacity;
}

/* Instructions were emitted block after block. */
static void find_blocks(struct ts_function *function) {
  for (size_t i = 0; i < function->blocks.count; i++)
    function->blocks.data[i].insn_count = 0;
  for (size_t i = function->insns.count; i-- > 0;) {
    struct ts_block *block = &function->blocks.data[function->insns.data[i].block];
    block->first_insn = (uint32_t)i;
    block->insn_count++;
  }
}

enum ts_status ts__rewrite_end(struct ts__rewrite *rw) {
  if (rw->status != TS_OK) {
    restore_old(rw);
  } else {
    ts__vec_free((void **)&rw->old_insns, &rw->old_count, &rw->old_capacity, sizeof *rw->old_insns,
                 allocator_of(rw));
    find_blocks(rw->function);
  }
  release(rw);
  return rw->status;
}

/* --- operands */

static struct ts__rewrite_reg *reg_of(const struct ts__rewrite *rw, struct ts_operand operand) {
  return operand.kind == TS_OPERAND_REG ? &rw->regs[operand.index] : NULL;
}

/* One definition, which is behind us on every way here. */
bool ts__rewrite_is_stable(const struct ts__rewrite *rw, struct ts_operand operand) {
  const struct ts__rewrite_reg *reg = reg_of(rw, operand);
  if (!reg) return operand.kind == TS_OPERAND_IMM || operand.kind == TS_OPERAND_SHARED;
  if (reg->def_count != 1 || reg->block == TS_NONE) return false;
  return reg->block == rw->block || ts__cfg_dominates(&rw->cfg, reg->block, rw->block);
}

void ts__rewrite_replace(struct ts__rewrite *rw, uint32_t dst, struct ts_operand operand) {
  struct ts__rewrite_reg *reg = &rw->regs[dst];
  if (reg->def_count != 1 || !ts__rewrite_is_stable(rw, operand)) return;
  reg->is_replaced = true;
  reg->replacement = operand;
  reg->replaced_in = rw->block;
}

struct ts_operand ts__rewrite_operand(const struct ts__rewrite *rw, struct ts_operand operand) {
  const struct ts__rewrite_reg *reg = reg_of(rw, operand);
  if (!reg || !reg->is_replaced) return operand;
  bool is_behind =
      reg->replaced_in == rw->block || ts__cfg_dominates(&rw->cfg, reg->replaced_in, rw->block);
  return is_behind ? reg->replacement : operand;
}

/* Where any integer will do, an immediate is read as a signed one of 32 or 64 bits. */
static bool reads_alike(enum ts_dtype dtype, uint64_t encoding) {
  uint64_t as_any = encoding >> 32 ? encoding : (uint64_t)(int64_t)(int32_t)(uint32_t)encoding;
  return as_any == ts__int_extend(dtype, encoding);
}

bool ts__rewrite_may_stand_for(const struct ts__rewrite *rw, const struct ts_insn *insn, uint32_t i,
                               uint32_t reg, struct ts_operand operand) {
  enum ts_op op = (enum ts_op)insn->op;
  if (operand.kind == TS_OPERAND_REG) return true;
  if (ts__operand_letter(ts_op_info(op)->operands, i) != 'v') return false;
  struct ts_type type = rw->function->regs.data[reg].type;
  /* These tell the number of components from the register. */
  if (op == TS_OP_concat || op == TS_OP_bitcast || op == TS_OP_extract)
    if (type.lanes > 1) return false;
  if (operand.kind != TS_OPERAND_IMM || ts__imm_dtype(insn, i) != TS_DTYPE_NONE) return true;
  return reads_alike((enum ts_dtype)type.dtype, rw->function->constants.data[operand.index]);
}

void ts__rewrite_operands(const struct ts__rewrite *rw, const struct ts_insn *old,
                          struct ts_operand operands[TS_MAX_OPERANDS]) {
  for (uint32_t i = 0; i < old->operand_count; i++) {
    struct ts_operand operand = *ts_insn_operand(rw->function, old, i);
    operands[i] = operand;
    if (operand.kind != TS_OPERAND_REG) continue;
    struct ts_operand replaced = ts__rewrite_operand(rw, operand);
    if (ts__rewrite_may_stand_for(rw, old, i, operand.index, replaced)) operands[i] = replaced;
  }
}

struct ts_operand ts__rewrite_imm(struct ts__rewrite *rw, uint64_t encoding) {
  struct ts_function *function = rw->function;
  if (encoding < TS_MAX_VECTOR_LANES && rw->small_constants[encoding])
    return (struct ts_operand){TS_OPERAND_IMM, rw->small_constants[encoding] - 1};
  if (ts_vec_push(&function->constants, allocator_of(rw), encoding)) fail_memory(rw);
  if (rw->status != TS_OK) return (struct ts_operand){TS_OPERAND_IMM, 0};
  uint32_t index = (uint32_t)function->constants.count - 1;
  if (encoding < TS_MAX_VECTOR_LANES) rw->small_constants[encoding] = index + 1;
  return (struct ts_operand){TS_OPERAND_IMM, index};
}

const struct ts_insn *ts__rewrite_definition(const struct ts__rewrite *rw,
                                             struct ts_operand operand) {
  const struct ts__rewrite_reg *reg = reg_of(rw, operand);
  if (!reg || reg->def_count != 1 || reg->insn == TS_NONE) return NULL;
  return &rw->function->insns.data[reg->insn];
}

/* --- instructions */

static void append(struct ts__rewrite *rw, struct ts_insn insn, const struct ts_operand *operands,
                   uint32_t operand_count, const struct ts_attr *attrs, uint32_t attr_count) {
  if (rw->status != TS_OK) return;
  uint32_t id = ts__add_insn(rw->function, insn, operands, operand_count, attrs, attr_count);
  if (id == TS_NONE) {
    fail_memory(rw);
    return;
  }
  if (insn.dst == TS_NONE) return;
  rw->regs[insn.dst].insn = id;
  rw->regs[insn.dst].block = rw->block;
}

void ts__rewrite_copy(struct ts__rewrite *rw, const struct ts_insn *old,
                      const struct ts_operand *operands) {
  struct ts_attr attrs[TS_ATTR_COUNT]; /* the function's may move while they are appended */
  for (uint32_t i = 0; i < old->attr_count; i++)
    attrs[i] = rw->function->attrs.data[old->attrs + i];
  append(rw, *old, operands, old->operand_count, attrs, old->attr_count);
}

static uint32_t new_reg(struct ts__rewrite *rw, struct ts_type type, uint32_t def_count) {
  uint32_t reg = ts__add_reg(rw->function, type, NULL);
  if (reg == TS_NONE) fail_memory(rw);
  if (rw->status != TS_OK || !grow_regs(rw)) return TS_NONE;
  rw->regs[reg].def_count = def_count;
  return reg;
}

uint32_t ts__rewrite_variable(struct ts__rewrite *rw, struct ts_type type) {
  return new_reg(rw, type, 2);
}

struct ts_operand ts__rewrite_emit(struct ts__rewrite *rw, enum ts_op op, struct ts_type type,
                                   uint32_t dst, const struct ts_operand *operands,
                                   uint32_t operand_count, const struct ts_attr *attrs,
                                   uint32_t attr_count) {
  struct ts_insn insn = {.op = (uint16_t)op,
                         .dtype = type.dtype,
                         .lanes = type.lanes,
                         .dtype2 = type.dtype,
                         .dst = dst,
                         .place = rw->place,
                         .block = rw->block};
  if (dst == TS_NONE) insn.dst = new_reg(rw, type, 1);
  if (rw->status != TS_OK) return (struct ts_operand){TS_OPERAND_IMM, 0};
  append(rw, insn, operands, operand_count, attrs, attr_count);
  return (struct ts_operand){TS_OPERAND_REG, insn.dst};
}

/* --- components of vectors */

static uint32_t lanes_of(const struct ts__rewrite *rw, struct ts_operand operand) {
  return operand.kind == TS_OPERAND_REG ? rw->function->regs.data[operand.index].type.lanes : 1;
}

/* An extract that this block, or one that dominates it, has made already. */
static bool find_component(struct ts__rewrite *rw, struct ts_operand vector, uint64_t i,
                           uint32_t hash, struct ts_operand *result) {
  uint32_t item;
  for (size_t at = ts__index_first(&rw->components, hash);
       ts__index_find(&rw->components, hash, &at, &item);
       at = ts__index_next(&rw->components, at)) {
    const struct ts_insn *insn = &rw->function->insns.data[rw->component_insns.data[item]];
    const struct ts_operand *operands = ts_insn_operand(rw->function, insn, 0);
    if (operands[0].index != vector.index || rw->function->constants.data[operands[1].index] != i ||
        (insn->block != rw->block && !ts__cfg_dominates(&rw->cfg, insn->block, rw->block)))
      continue;
    *result = (struct ts_operand){TS_OPERAND_REG, insn->dst};
    return true;
  }
  return false;
}

static struct ts_operand make_component(struct ts__rewrite *rw, struct ts_operand vector,
                                        struct ts_type type, uint32_t i) {
  struct ts_operand result, operands[] = {vector, ts__rewrite_imm(rw, i)};
  struct ts_attr lanes = {TS_ATTR_source_lanes, lanes_of(rw, vector)};
  uint32_t hash = ts__hash_word(6, (uint64_t)vector.index << 8 | i);
  bool is_stable = ts__rewrite_is_stable(rw, vector);
  if (is_stable && find_component(rw, vector, i, hash, &result)) return result;
  type.lanes = 1;
  result = ts__rewrite_emit(rw, TS_OP_extract, type, TS_NONE, operands, 2, &lanes, 1);
  if (!is_stable || rw->status != TS_OK) return result;
  uint32_t item = (uint32_t)rw->component_insns.count;
  if (ts_vec_push(&rw->component_insns, allocator_of(rw), rw->regs[result.index].insn) ||
      ts__index_add(&rw->components, allocator_of(rw), hash, item))
    fail_memory(rw);
  return result;
}

struct ts_operand ts__rewrite_component(struct ts__rewrite *rw, struct ts_operand vector,
                                        struct ts_type type, uint32_t i) {
  uint32_t lanes = lanes_of(rw, vector);
  if (vector.kind != TS_OPERAND_REG || lanes == 1) return vector;
  const struct ts_insn *insn = ts__rewrite_definition(rw, vector);
  if (!insn || (insn->op != TS_OP_concat && insn->op != TS_OP_broadcast))
    return make_component(rw, vector, type, i);
  struct ts_operand part = *ts_insn_operand(rw->function, insn, 0);
  uint32_t rest = insn->op == TS_OP_broadcast ? 0 : i, k = 0;
  while (rest >= lanes_of(rw, part)) {
    rest -= lanes_of(rw, part);
    part = *ts_insn_operand(rw->function, insn, ++k);
  }
  if (!ts__rewrite_is_stable(rw, part)) return make_component(rw, vector, type, i);
  return ts__rewrite_component(rw, part, type, rest);
}

/* The vector whose components, in order, the parts are. */
static bool is_whole(const struct ts__rewrite *rw, uint32_t lanes, const struct ts_operand *parts,
                     struct ts_operand *whole) {
  for (uint32_t i = 0; i < lanes; i++) {
    const struct ts_insn *insn = ts__rewrite_definition(rw, parts[i]);
    if (!insn || insn->op != TS_OP_extract) return false;
    const struct ts_operand *operands = ts_insn_operand(rw->function, insn, 0);
    if (operands[0].kind != TS_OPERAND_REG || lanes_of(rw, operands[0]) != lanes ||
        rw->function->constants.data[operands[1].index] != i)
      return false;
    if (i == 0) *whole = operands[0];
    if (operands[0].index != whole->index) return false;
  }
  return ts__rewrite_is_stable(rw, *whole);
}

static bool all_same_constant(uint32_t lanes, const struct ts_operand *parts) {
  for (uint32_t i = 0; i < lanes; i++)
    if (parts[i].kind != TS_OPERAND_IMM || parts[i].index != parts[0].index) return false;
  return true;
}

struct ts_operand ts__rewrite_gather(struct ts__rewrite *rw, struct ts_type type,
                                     const struct ts_operand *parts) {
  struct ts_operand groups[TS_MAX_OPERANDS], whole;
  uint32_t lanes = type.lanes, step = (lanes + TS_MAX_OPERANDS - 1) / TS_MAX_OPERANDS;
  uint32_t group_count = 0;
  if (lanes == 1 || all_same_constant(lanes, parts)) return parts[0];
  if (is_whole(rw, lanes, parts, &whole)) return whole;
  for (uint32_t i = 0; i < lanes; i += step) {
    struct ts_type group = {type.dtype, (uint8_t)(lanes - i < step ? lanes - i : step)};
    groups[group_count++] = group.lanes == 1 ? parts[i]
                                             : ts__rewrite_emit(rw, TS_OP_concat, group, TS_NONE,
                                                                parts + i, group.lanes, NULL, 0);
  }
  return ts__rewrite_emit(rw, TS_OP_concat, type, TS_NONE, groups, group_count, NULL, 0);
}
