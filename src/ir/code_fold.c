/* What costs nothing: values that are only renamed, and operations that the machine's instructions
 * do on the side (addresses with offsets, three-input adds and logic, operand modifiers).
 *
 * The rules are what nvcc 13.0 was seen to do for sm_90a (MEASURED on machine code; docs/codegen.md
 * has them with counts). */
#include "ir/code_priv.h"

enum { MAX_USES_LOOKED_AT = 64 };

/* Operations with two inputs that have swallowed one of their producers. */
struct fold {
  struct ts__code_table *table;
  const struct ts_function *function;
  bool *has_inner; /* by instruction */
};

static bool is_free(const struct fold *f, uint32_t id) {
  return f->table->insns[id].flags & TS_CODE_FREE;
}
static void set_free(struct fold *f, uint32_t id) { f->table->insns[id].flags |= TS_CODE_FREE; }

const struct ts_insn *ts__code_definition(const struct ts__code_table *table,
                                          const struct ts_operand *operand, uint32_t *id) {
  if (operand->kind != TS_OPERAND_REG) return NULL;
  const struct ts__code_reg *reg = &table->regs[operand->index];
  if (reg->def_count != 1 || reg->def == TS_NONE) return NULL;
  *id = reg->def;
  return &table->function->insns.data[reg->def];
}

static const struct ts_insn *definition(const struct fold *f, const struct ts_operand *operand,
                                        uint32_t *id) {
  return ts__code_definition(f->table, operand, id);
}

static bool is_word_int(const struct ts_insn *insn) {
  return insn->lanes == 1 && ts_dtype_is_int((enum ts_dtype)insn->dtype) &&
         ts_dtype_bits((enum ts_dtype)insn->dtype) == 32;
}

/* Does the instruction read position k as (part of) an address? */
static bool is_address_use(const struct fold *f, struct ts__code_use use) {
  struct ts__code_address addresses[TS__MAX_ADDRESSES];
  const struct ts_insn *insn = &f->function->insns.data[use.insn];
  uint32_t count = ts__code_addresses(f->function, insn, addresses);
  for (uint32_t i = 0; i < count; i++)
    if (use.position == addresses[i].base || use.position == addresses[i].index) return true;
  return false;
}

static bool has_only_address_uses(const struct fold *f, uint32_t reg) {
  const struct ts__code_reg *r = &f->table->regs[reg];
  for (uint32_t i = 0; i < r->use_count; i++)
    if (!is_address_use(f, f->table->uses[r->first_use + i])) return false;
  return r->use_count > 0;
}

/* The shared window's addresses are constants of the machine code: a shared object plus constants. */
static bool is_shared_constant(const struct ts__code_table *table,
                               const struct ts_operand *operand) {
  uint64_t encoding;
  uint32_t id;
  for (unsigned depth = 0; depth < 8; depth++) {
    if (operand->kind == TS_OPERAND_SHARED) return true;
    const struct ts_insn *insn = ts__code_definition(table, operand, &id);
    if (!insn || insn->op != TS_OP_add) return false;
    const struct ts_operand *a = ts_insn_operand(table->function, insn, 0);
    const struct ts_operand *b = ts_insn_operand(table->function, insn, 1);
    if (ts__code_constant(table->function, b, &encoding))
      operand = a;
    else if (ts__code_constant(table->function, a, &encoding))
      operand = b;
    else
      return false;
  }
  return false;
}

bool ts__code_is_known(const struct ts__code_table *table, const struct ts_operand *operand) {
  uint64_t encoding;
  return ts__code_constant(table->function, operand, &encoding) ||
         is_shared_constant(table, operand);
}

/* The outer instruction takes over what computes operand k, when nobody else reads that: answers
 * whether it did. */
static bool swallow(struct fold *f, uint32_t outer, uint32_t k, const uint16_t *ops,
                    size_t op_count) {
  const struct ts_insn *insn = &f->function->insns.data[outer];
  const struct ts_operand *operand = ts_insn_operand(f->function, insn, k);
  uint32_t inner;
  const struct ts_insn *producer = definition(f, operand, &inner);
  if (!producer || producer->block != insn->block || f->has_inner[inner] || is_free(f, inner) ||
      f->table->regs[operand->index].use_count != 1 || producer->lanes != insn->lanes ||
      !ts_dtype_is_int((enum ts_dtype)producer->dtype) ||
      ts_dtype_bits((enum ts_dtype)producer->dtype) != ts_dtype_bits((enum ts_dtype)insn->dtype))
    return false;
  for (size_t i = 0; i < op_count; i++) {
    if (ops[i] != producer->op) continue;
    set_free(f, inner);
    return f->has_inner[outer] = true;
  }
  return false;
}

/* a * b + c is one IMAD or LEA, a + b + c one IADD3. */
static void fold_sum(struct fold *f, uint32_t id) {
  static const uint16_t products[] = {TS_OP_mul, TS_OP_shl}, sums[] = {TS_OP_add, TS_OP_sub};
  const struct ts_insn *insn = &f->function->insns.data[id];
  uint64_t encoding;
  uint32_t inner;
  if (!is_word_int(insn) || is_free(f, id)) return;
  for (uint32_t k = 0; k < 2; k++) {
    if (insn->op == TS_OP_sub && k == 1) {
      /* c - a * b only with a constant factor: its negative is another constant. */
      const struct ts_insn *producer = definition(f, ts_insn_operand(f->function, insn, k), &inner);
      if (!producer || producer->op != TS_OP_mul ||
          !ts__code_constant(f->function, ts_insn_operand(f->function, producer, 1), &encoding))
        continue;
    }
    if (swallow(f, id, k, products, 2)) return;
  }
  for (uint32_t k = 0; k < 2; k++)
    if (swallow(f, id, k, sums, 2)) return;
}

static void fold_logic(struct fold *f, uint32_t id) {
  static const uint16_t logic[] = {TS_OP_and, TS_OP_or, TS_OP_xor, TS_OP_not};
  const struct ts_insn *insn = &f->function->insns.data[id];
  if (!ts_dtype_is_int((enum ts_dtype)insn->dtype)) return;
  for (uint32_t k = 0; k < insn->operand_count; k++)
    if (swallow(f, id, k, logic, 4)) return;
}

/* LOP3 sets a predicate when its result is not 0. */
static void fold_zero_test(struct fold *f, uint32_t id) {
  static const uint16_t logic[] = {TS_OP_and, TS_OP_or, TS_OP_xor};
  const struct ts_insn *insn = &f->function->insns.data[id];
  uint64_t encoding = 1;
  if (ts__code_constant(f->function, ts_insn_operand(f->function, insn, 1), &encoding) && !encoding)
    swallow(f, id, 0, logic, 3);
}

/* A comparison combines its result with another predicate. */
static void fold_predicate_logic(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  uint32_t inner;
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(f->function, insn, k);
    const struct ts_insn *producer = definition(f, operand, &inner);
    bool is_compare = producer && producer->op >= TS_OP_eq && producer->op <= TS_OP_le;
    if (!is_compare || producer->block != insn->block || f->has_inner[inner] ||
        f->table->regs[operand->index].use_count != 1)
      continue;
    f->has_inner[inner] = true;
    set_free(f, id);
    return;
  }
}

/* base + index: constants and shared windows are part of an address; so is a constant factor. */
static void fold_address_part(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  if (insn->lanes != 1 || !has_only_address_uses(f, insn->dst)) return;
  const struct ts_operand *a = ts_insn_operand(f->function, insn, 0);
  const struct ts_operand *b = insn->operand_count > 1 ? ts_insn_operand(f->function, insn, 1) : a;
  switch (insn->op) {
  case TS_OP_cvt: set_free(f, id); return;
  case TS_OP_add:
    if (ts__code_is_known(f->table, a) || ts__code_is_known(f->table, b)) set_free(f, id);
    return;
  case TS_OP_mul:
  case TS_OP_shl:
    if (ts__code_is_known(f->table, b) && f->table->regs[insn->dst].use_count == 1) set_free(f, id);
    return;
  default: return;
  }
}

/* Signs of float operands are bits of the instruction. */
static void fold_sign(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  const struct ts__code_reg *reg = &f->table->regs[insn->dst];
  if (!ts_dtype_is_float((enum ts_dtype)insn->dtype)) return;
  for (uint32_t i = 0; i < reg->use_count; i++) {
    switch (f->function->insns.data[f->table->uses[reg->first_use + i].insn].op) {
    case TS_OP_add:
    case TS_OP_sub:
    case TS_OP_min:
    case TS_OP_max:
    case TS_OP_eq:
    case TS_OP_ne:
    case TS_OP_lt:
    case TS_OP_le: break;
    case TS_OP_mul:
    case TS_OP_fma:
      if (insn->op == TS_OP_abs) return;
      break;
    default: return;
    }
  }
  set_free(f, id);
}

/* IMAD.WIDE extends its factors. */
static bool has_only_products(const struct fold *f, uint32_t reg) {
  const struct ts__code_reg *r = &f->table->regs[reg];
  for (uint32_t i = 0; i < r->use_count; i++)
    if (f->function->insns.data[f->table->uses[r->first_use + i].insn].op != TS_OP_mul)
      return false;
  return r->use_count > 0;
}

static void fold_cvt(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  enum ts_dtype to = (enum ts_dtype)insn->dtype, from = (enum ts_dtype)insn->dtype2;
  unsigned to_bits = ts_dtype_bits(to), from_bits = ts_dtype_bits(from);
  if (to == from) {
    set_free(f, id);
    return;
  }
  if (!ts_dtype_is_int(to) || !ts_dtype_is_int(from)) return;
  bool is_truncation = from_bits >= to_bits && to_bits >= 32;
  if (to_bits > 32 && from_bits == 32 && has_only_products(f, insn->dst)) {
    set_free(f, id);
    return;
  }
  bool is_zero_extension = from_bits == 32 && ts_dtype_is_unsigned_int(from);
  if (is_truncation || is_zero_extension) set_free(f, id);
}

/* --- moves: component i of a register lies at bit i * bits of it */

struct piece {
  uint32_t reg, bit; /* reg TS_NONE: constant */
};

static struct piece component(const struct fold *f, const struct ts_operand *operand,
                              uint32_t bit) {
  uint32_t id;
  struct piece piece = {TS_NONE, bit};
  if (operand->kind != TS_OPERAND_REG) return piece;
  piece.reg = operand->index;
  const struct ts_insn *insn = definition(f, operand, &id);
  if (!insn || insn->op != TS_OP_extract) return piece;
  uint64_t index = 0;
  const struct ts_operand *source = ts_insn_operand(f->function, insn, 0);
  ts__code_constant(f->function, ts_insn_operand(f->function, insn, 1), &index);
  if (source->kind != TS_OPERAND_REG) return (struct piece){TS_NONE, bit};
  piece.reg = source->index;
  piece.bit = bit + (uint32_t)index * ts_dtype_bits((enum ts_dtype)insn->dtype);
  return piece;
}

/* Whole words go where they are wanted; parts of words from several places must be permuted. */
static bool is_concat_of_words(const struct fold *f, const struct ts_insn *insn) {
  uint32_t bits = ts_dtype_bits((enum ts_dtype)insn->dtype), at = 0;
  struct piece first = {TS_NONE, 0};
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(f->function, insn, k);
    uint32_t lanes =
        operand->kind == TS_OPERAND_REG ? f->function->regs.data[operand->index].type.lanes : 1;
    for (uint32_t i = 0; i < lanes; i++, at += bits) {
      struct piece piece = component(f, operand, i * bits);
      if (at % TS__WORD_BITS == 0) {
        first = piece;
        if (piece.reg != TS_NONE && bits < TS__WORD_BITS && piece.bit % TS__WORD_BITS) return false;
        continue;
      }
      if (piece.reg != first.reg) return false;
      if (piece.reg != TS_NONE && piece.bit != first.bit + at % TS__WORD_BITS) return false;
    }
  }
  return true;
}

static bool has_constant_operands(const struct fold *f, const struct ts_insn *insn) {
  for (uint32_t k = 0; k < insn->operand_count; k++)
    if (ts_insn_operand(f->function, insn, k)->kind == TS_OPERAND_REG) return false;
  return true;
}

/* A constant in slots of its own is an operand of its readers. */
static bool is_renamed(const struct fold *f, uint32_t id) {
  const struct ts_code_insn *code = &f->table->insns[id];
  return code->def_count &&
         f->table->refs.data[code->first_ref + code->use_count].first >= f->table->own_slot_count;
}

static void fold_move(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  bool is_subword = ts_dtype_bits((enum ts_dtype)insn->dtype) < TS__WORD_BITS;
  bool is_constant = has_constant_operands(f, insn);
  switch (insn->op) {
  case TS_OP_extract:
  case TS_OP_bitcast: set_free(f, id); return;
  case TS_OP_ld_local:
  case TS_OP_st_local:
    if (f->table->is_spilled[ts_insn_operand(f->function, insn, 0)->index])
      f->table->insns[id].flags |= TS_CODE_SPILLED;
    else if (insn->op == TS_OP_ld_local)
      set_free(f, id);
    else if (ts_insn_operand(f->function, insn, 2)->kind == TS_OPERAND_REG || is_renamed(f, id))
      set_free(f, id);
    return;
  case TS_OP_mov:
    if (!is_constant || f->table->regs[insn->dst].def_count == 1) set_free(f, id);
    return;
  case TS_OP_broadcast:
    if (is_constant || !is_subword) set_free(f, id);
    return;
  case TS_OP_ramp:
    if (is_constant) set_free(f, id);
    return;
  case TS_OP_concat:
    if (is_constant || is_concat_of_words(f, insn)) set_free(f, id);
    return;
  default: return;
  }
}

static void fold_sreg(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  switch (ts_insn_attr(f->function, insn, TS_ATTR_which, TS_SREG_COUNT)) {
  case TS_SREG_ntid_x:
  case TS_SREG_ntid_y:
  case TS_SREG_ntid_z:
  case TS_SREG_nctaid_x:
  case TS_SREG_nctaid_y:
  case TS_SREG_nctaid_z: set_free(f, id); return; /* in the constant bank */
  default: return;
  }
}

/* A branch to the block that comes next falls through; the test of a loop is at its end. */
static void fold_branch(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  uint32_t target = ts_insn_operand(f->function, insn, 0)->index;
  bool is_back = ts__cfg_dominates(&f->table->cfg, target, insn->block);
  if (is_back) f->table->insns[id].flags |= TS_CODE_BACKEDGE;
  if (is_back || target == insn->block + 1) set_free(f, id);
}

/* Quotient and remainder of the same operands are one computation, and one more product. */
static void fold_remainder(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  uint16_t twin = insn->op == TS_OP_rem ? TS_OP_div : TS_OP_floordiv;
  const struct ts_operand *a = ts_insn_operand(f->function, insn, 0);
  const struct ts_operand *b = ts_insn_operand(f->function, insn, 1);
  if (a->kind != TS_OPERAND_REG || !ts_dtype_is_int((enum ts_dtype)insn->dtype)) return;
  const struct ts__code_reg *reg = &f->table->regs[a->index];
  for (uint32_t i = 0; i < reg->use_count && i < MAX_USES_LOOKED_AT; i++) {
    const struct ts_insn *user = &f->function->insns.data[f->table->uses[reg->first_use + i].insn];
    if (user->op != twin || user->block != insn->block) continue;
    const struct ts_operand *c = ts_insn_operand(f->function, user, 1);
    if (c->kind == b->kind && c->index == b->index) set_free(f, id);
  }
}

static void fold_insn(struct fold *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  switch (insn->op) {
  case TS_OP_add:
  case TS_OP_sub:
    fold_address_part(f, id);
    fold_sum(f, id);
    return;
  case TS_OP_mul:
  case TS_OP_shl: fold_address_part(f, id); return;
  case TS_OP_cvt:
    fold_address_part(f, id);
    fold_cvt(f, id);
    return;
  case TS_OP_and:
  case TS_OP_or:
  case TS_OP_xor:
  case TS_OP_not:
    if (insn->dtype == TS_DTYPE_pred)
      fold_predicate_logic(f, id);
    else
      fold_logic(f, id);
    if (insn->dtype == TS_DTYPE_pred && insn->op == TS_OP_not) set_free(f, id);
    return;
  case TS_OP_eq:
  case TS_OP_ne: fold_zero_test(f, id); return;
  case TS_OP_neg:
  case TS_OP_abs: fold_sign(f, id); return;
  case TS_OP_rem:
  case TS_OP_floormod: fold_remainder(f, id); return;
  case TS_OP_sreg: fold_sreg(f, id); return;
  case TS_OP_br: fold_branch(f, id); return;
  case TS_OP_wgmma_touch: set_free(f, id); return;
  default: fold_move(f, id); return;
  }
}

static bool is_uniform_work(const struct ts_function *function, const struct ts_insn *insn) {
  if (insn->dst == TS_NONE || insn->lanes != 1) return false;
  const struct ts_op_info *info = ts_op_info((enum ts_op)insn->op);
  bool is_int = !ts_dtype_is_float((enum ts_dtype)insn->dtype) &&
                !ts_dtype_is_float((enum ts_dtype)insn->dtype2);
  return is_int && (info->flags & F_PURE) && function->regs.data[insn->dst].is_uniform;
}

int ts__code_find_folds(struct ts__code_table *table) {
  const struct ts_function *function = table->function;
  struct fold f = {table, function, ts_new_array(&table->scratch, bool, function->insns.count)};
  if (!f.has_inner) return -1;
  for (uint32_t id = 0; id < function->insns.count; id++)
    fold_insn(&f, id);
  for (uint32_t id = 0; id < function->insns.count; id++)
    if (is_uniform_work(function, &function->insns.data[id]))
      table->insns[id].flags |= TS_CODE_UNIFORM;
  return 0;
}
