/* Builder: instructions. Pure ones are simplified, then shared with an equal one that dominates,
 * else placed in the outermost loop level where their operands exist. */
#include "ir/ir_priv.h"

uint32_t ts__build_reg_new(struct ts_build *build, struct ts_type type, uint32_t scope,
                           uint32_t insn) {
  struct ts__build_reg state = {.scope = scope, .insn = insn};
  uint32_t reg = ts__add_reg(build->function, type, NULL);
  if (reg == TS_NONE || ts_vec_push(&build->regs, build->allocator, state)) {
    ts__build_no_memory(build);
    return 0;
  }
  return reg;
}

static bool is_reg(const struct ts_build *build, struct ts_operand operand) {
  return operand.kind == TS_OPERAND_REG && operand.index < build->regs.count;
}

bool ts__build_is_variable(const struct ts_build *build, struct ts_operand operand) {
  return is_reg(build, operand) && build->regs.data[operand.index].is_variable;
}

const struct ts_insn *ts__build_definition(const struct ts_build *build,
                                           struct ts_operand operand) {
  if (!is_reg(build, operand) || build->regs.data[operand.index].insn == TS_NONE) return NULL;
  return &build->function->insns.data[build->regs.data[operand.index].insn];
}

uint32_t ts__build_append(struct ts_build *build, const struct ts_build_insn *insn, uint32_t dst,
                          uint32_t block) {
  if (build->status != TS_OK) return TS_NONE;
  bool is_typed = ts__op_is_typed(insn->op);
  struct ts_insn made = {.op = (uint16_t)insn->op,
                         .dtype = is_typed ? insn->type.dtype : TS_DTYPE_u32,
                         .lanes = is_typed ? insn->type.lanes : 1,
                         .dst = dst,
                         .place = build->place,
                         .block = block};
  made.dtype2 = ts__op_has_second_dtype(insn->op) ? (uint8_t)insn->dtype2 : made.dtype;
  uint32_t id = ts__add_insn(build->function, made, insn->operands, insn->operand_count,
                             insn->attrs, insn->attr_count);
  if (id == TS_NONE) ts__build_no_memory(build);
  return id;
}

/* --- sharing */

static uint32_t hash_insn(const struct ts_build_insn *insn) {
  uint32_t hash = ts__hash_word(4, (uint64_t)insn->op << 32 | (uint64_t)insn->type.dtype << 16 |
                                       (uint64_t)insn->type.lanes << 8 | (uint64_t)insn->dtype2);
  for (uint32_t i = 0; i < insn->operand_count; i++)
    hash = ts__hash_word(hash, (uint64_t)insn->operands[i].kind << 32 | insn->operands[i].index);
  for (uint32_t i = 0; i < insn->attr_count; i++)
    hash = ts__hash_word(hash, insn->attrs[i].id ^ (uint64_t)insn->attrs[i].value << 8);
  return hash;
}

static bool same_insn(const struct ts_function *function, const struct ts_insn *a,
                      const struct ts_build_insn *b) {
  if (a->op != b->op || a->dtype != b->type.dtype || a->lanes != b->type.lanes ||
      a->operand_count != b->operand_count || a->attr_count != b->attr_count)
    return false;
  if (ts__op_has_second_dtype(b->op) && a->dtype2 != b->dtype2) return false;
  for (uint32_t i = 0; i < b->operand_count; i++) {
    const struct ts_operand *operand = ts_insn_operand(function, a, i);
    if (operand->kind != b->operands[i].kind || operand->index != b->operands[i].index)
      return false;
  }
  for (uint32_t i = 0; i < b->attr_count; i++) {
    const struct ts_attr *attr = &function->attrs.data[a->attrs + i];
    if (attr->id != b->attrs[i].id || attr->value != b->attrs[i].value) return false;
  }
  return true;
}

/* Usable here: made in an open scope, and no variable it reads can have changed since. */
static bool is_usable(const struct ts_build *build, const struct ts__numbered *numbered,
                      const struct ts_build_insn *insn) {
  if (!build->scopes.data[numbered->scope].is_open) return false;
  for (uint32_t i = 0; i < insn->operand_count; i++) {
    if (!ts__build_is_variable(build, insn->operands[i])) continue;
    uint64_t assigned_at = build->regs.data[insn->operands[i].index].assigned_at;
    if (numbered->made_at < assigned_at || numbered->made_at < build->loop_at) return false;
  }
  return true;
}

/* The entry of an equal instruction, usable or not, or NULL. */
static struct ts__numbered *find_equal(struct ts_build *build, const struct ts_build_insn *insn,
                                       uint32_t hash) {
  uint32_t item;
  for (size_t at = ts__index_first(&build->numbering, hash);
       ts__index_find(&build->numbering, hash, &at, &item);
       at = ts__index_next(&build->numbering, at)) {
    struct ts__numbered *numbered = &build->numbered.data[item];
    if (same_insn(build->function, &build->function->insns.data[numbered->insn], insn))
      return numbered;
  }
  return NULL;
}

static void remember(struct ts_build *build, struct ts__numbered *stale,
                     struct ts__numbered numbered, uint32_t hash) {
  if (stale) {
    *stale = numbered;
    return;
  }
  uint32_t item = (uint32_t)build->numbered.count;
  if (ts_vec_push(&build->numbered, build->allocator, numbered) ||
      ts__index_add(&build->numbering, build->allocator, hash, item))
    ts__build_no_memory(build);
}

/* --- placing */

/* A division is executed only where it was written: its divisor may be 0 elsewhere. */
static bool may_fault(const struct ts_build *build, const struct ts_build_insn *insn) {
  uint64_t divisor;
  switch (insn->op) {
  case TS_OP_div:
  case TS_OP_rem:
  case TS_OP_floordiv:
  case TS_OP_floormod:
    if (ts_dtype_is_float((enum ts_dtype)insn->type.dtype)) return false;
    return !ts_build_is_constant(build, insn->operands[1], &divisor) || divisor == 0;
  default: return false;
  }
}

/* Depth of the scope from which on the operands exist, or TS_NONE when the instruction must stay. */
static uint32_t needed_depth(const struct ts_build *build, const struct ts_build_insn *insn) {
  uint32_t depth = 0;
  if (build->is_dead || may_fault(build, insn)) return TS_NONE;
  for (uint32_t i = 0; i < insn->operand_count; i++) {
    if (!is_reg(build, insn->operands[i])) continue;
    const struct ts__build_reg *reg = &build->regs.data[insn->operands[i].index];
    const struct ts__scope *scope = &build->scopes.data[reg->scope];
    if (reg->is_variable || !scope->is_open) return TS_NONE;
    if (scope->depth > depth) depth = scope->depth;
  }
  return depth;
}

struct spot {
  uint32_t block, scope;
};

/* The preheader of the outermost open loop that lies inside the needed scope. */
static struct spot choose_spot(const struct ts_build *build, const struct ts_build_insn *insn) {
  uint32_t depth = needed_depth(build, insn);
  for (size_t i = depth; depth != TS_NONE && i + 1 < build->open.count; i++)
    if (build->open.data[i + 1].preheader != TS_NONE)
      return (struct spot){build->open.data[i + 1].preheader, build->open.data[i].scope};
  return (struct spot){build->block, ts__build_scope(build)};
}

static struct ts_type dst_type(const struct ts_build_insn *insn) {
  int64_t mode = 0;
  for (uint32_t i = 0; i < insn->attr_count; i++)
    if (insn->attrs[i].id == TS_ATTR_mode) mode = insn->attrs[i].value;
  return ts__dst_type(insn->op, (enum ts_dtype)insn->type.dtype, insn->type.lanes, mode);
}

static struct ts_operand append_with_dst(struct ts_build *build, const struct ts_build_insn *insn,
                                         struct spot spot) {
  uint32_t id = (uint32_t)build->function->insns.count;
  uint32_t reg = ts__build_reg_new(build, dst_type(insn), spot.scope, id);
  ts__build_append(build, insn, reg, spot.block);
  if (build->status != TS_OK) return ts__build_nothing();
  return (struct ts_operand){TS_OPERAND_REG, reg};
}

static struct ts_operand emit_pure(struct ts_build *build, struct ts_build_insn *insn) {
  struct ts_operand operands[TS_MAX_OPERANDS], result;
  for (uint32_t i = 0; i < insn->operand_count; i++)
    operands[i] = insn->operands[i];
  insn->operands = operands;
  if (ts__build_simplify(build, insn, operands, &result)) {
    if (!ts__build_is_variable(build, result)) return result;
    /* A variable may change before the result is used: take what it holds now. */
    struct ts_type type = build->function->regs.data[result.index].type;
    *insn = (struct ts_build_insn){.op = TS_OP_mov, .type = type, .dtype2 = type.dtype};
    operands[0] = result;
    insn->operands = operands;
    insn->operand_count = 1;
  }
  uint32_t hash = hash_insn(insn);
  struct ts__numbered *equal = find_equal(build, insn, hash);
  if (equal && is_usable(build, equal, insn)) {
    uint32_t reg = build->function->insns.data[equal->insn].dst;
    return (struct ts_operand){TS_OPERAND_REG, reg};
  }
  struct spot spot = choose_spot(build, insn);
  struct ts__numbered numbered = {(uint32_t)build->function->insns.count, spot.scope, build->clock};
  struct ts_operand dst = append_with_dst(build, insn, spot);
  if (build->status == TS_OK && !build->is_dead) remember(build, equal, numbered, hash);
  return dst;
}

/* --- emitting */

/* More parts than an instruction may have operands: vectors of vectors. */
static struct ts_operand emit_wide_concat(struct ts_build *build,
                                          const struct ts_build_insn *insn) {
  struct ts_operand parts[TS_MAX_OPERANDS];
  uint32_t count = insn->operand_count, part_count = 0;
  uint32_t step = (count + TS_MAX_OPERANDS - 1) / TS_MAX_OPERANDS;
  for (uint32_t i = 0; i < count; i += step) {
    struct ts_build_insn part = *insn;
    uint32_t lanes = 0;
    part.operands = insn->operands + i;
    part.operand_count = count - i < step ? count - i : step;
    for (uint32_t k = 0; k < part.operand_count; k++) {
      struct ts_type type = ts_build_type(build, part.operands[k]);
      lanes += type.lanes ? type.lanes : 1;
    }
    part.type.lanes = (uint8_t)lanes;
    parts[part_count++] = ts_build_emit(build, &part);
    /* An immediate stands for all components alike, which a part of a concat cannot say. */
    if (parts[part_count - 1].kind == TS_OPERAND_IMM && lanes > 1)
      parts[part_count - 1] = ts_build_1(build, TS_OP_broadcast, part.type, parts[part_count - 1]);
  }
  struct ts_build_insn whole = *insn;
  whole.operands = parts;
  whole.operand_count = part_count;
  return ts_build_emit(build, &whole);
}

static bool is_emittable(struct ts_build *build, const struct ts_build_insn *insn) {
  if (build->status != TS_OK) return false;
  const struct ts_op_info *info = ts_op_info(insn->op);
  if (insn->op == TS_OP_br || insn->op == TS_OP_cbr) {
    ts__build_misuse(build, "branches are made by ts_build_if and its relatives");
    return false;
  }
  if (!ts__operand_count_fits(info->operands, insn->operand_count)) {
    ts__build_misuse(build, info->mnemonic);
    return false;
  }
  for (uint32_t i = 0; i < insn->operand_count; i++) {
    if (insn->operands[i].kind != TS_OPERAND_REG ||
        insn->operands[i].index < build->function->regs.count)
      continue;
    ts__build_misuse(build, "an operand names no register");
    return false;
  }
  return true;
}

static enum ts_dtype second_dtype(const struct ts_build *build, const struct ts_build_insn *insn) {
  if (!ts__op_has_second_dtype(insn->op)) return (enum ts_dtype)insn->type.dtype;
  if (insn->op != TS_OP_cvt && insn->op != TS_OP_bitcast) return insn->dtype2;
  struct ts_type source = ts_build_type(build, insn->operands[0]);
  return source.lanes ? (enum ts_dtype)source.dtype : insn->dtype2;
}

/* What may be shared and moved: activemask depends on where it is read. */
static bool is_movable(const struct ts_build_insn *insn) {
  if (!(ts_op_info(insn->op)->flags & F_PURE)) return false;
  return insn->op != TS_OP_sreg || insn->attr_count != 1 ||
         insn->attrs[0].value != TS_SREG_activemask;
}

struct ts_operand ts_build_emit(struct ts_build *build, const struct ts_build_insn *given) {
  if (build->status == TS_OK && given->op == TS_OP_concat &&
      given->operand_count > TS_MAX_OPERANDS && given->operand_count <= TS_MAX_VECTOR_LANES)
    return emit_wide_concat(build, given);
  if (!is_emittable(build, given)) return ts__build_nothing();
  struct ts_build_insn insn = *given;
  if (insn.type.lanes == 0) insn.type.lanes = 1;
  insn.dtype2 = second_dtype(build, &insn);
  if (is_movable(&insn)) return emit_pure(build, &insn);
  const struct ts_op_info *info = ts_op_info(insn.op);
  if (info->has_dst)
    return append_with_dst(build, &insn, (struct spot){build->block, ts__build_scope(build)});
  ts__build_append(build, &insn, TS_NONE, build->block);
  if (info->flags & F_TERM) { /* exit: whatever follows in this arm is not reached */
    uint32_t block = ts__add_block(build->function, build->region);
    if (block == TS_NONE)
      ts__build_no_memory(build);
    else
      build->block = block;
    build->is_dead = true;
  }
  return ts__build_nothing();
}

struct ts_operand ts_build_1(struct ts_build *build, enum ts_op op, struct ts_type type,
                             struct ts_operand a) {
  struct ts_build_insn insn = {.op = op, .type = type, .operands = &a, .operand_count = 1};
  return ts_build_emit(build, &insn);
}

struct ts_operand ts_build_2(struct ts_build *build, enum ts_op op, struct ts_type type,
                             struct ts_operand a, struct ts_operand b) {
  struct ts_operand operands[] = {a, b};
  struct ts_build_insn insn = {.op = op, .type = type, .operands = operands, .operand_count = 2};
  return ts_build_emit(build, &insn);
}

struct ts_operand ts_build_3(struct ts_build *build, enum ts_op op, struct ts_type type,
                             struct ts_operand a, struct ts_operand b, struct ts_operand c) {
  struct ts_operand operands[] = {a, b, c};
  struct ts_build_insn insn = {.op = op, .type = type, .operands = operands, .operand_count = 3};
  return ts_build_emit(build, &insn);
}

/* --- variables */

struct ts_operand ts_build_variable(struct ts_build *build, struct ts_type type, const char *name) {
  if (build->status != TS_OK) return ts__build_nothing();
  uint32_t reg = ts__build_reg_new(build, type, ts__build_scope(build), TS_NONE);
  const char *interned = name ? ts__name(build->module, name) : NULL;
  if (name && !interned) ts__build_no_memory(build);
  if (build->status != TS_OK) return ts__build_nothing();
  build->function->regs.data[reg].name = interned;
  build->regs.data[reg].is_variable = true;
  return (struct ts_operand){TS_OPERAND_REG, reg};
}

void ts_build_assign(struct ts_build *build, struct ts_operand variable, struct ts_operand value) {
  if (build->status != TS_OK) return;
  if (!ts__build_is_variable(build, variable)) {
    ts__build_misuse(build, "ts_build_assign needs a variable");
    return;
  }
  if (value.kind == TS_OPERAND_REG && value.index == variable.index) return;
  struct ts_build_insn insn = {.op = TS_OP_mov,
                               .type = build->function->regs.data[variable.index].type,
                               .operands = &value,
                               .operand_count = 1};
  ts__build_append(build, &insn, variable.index, build->block);
  build->regs.data[variable.index].assigned_at = ++build->clock;
}
