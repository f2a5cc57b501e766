/* Forms of registers by iteration from below: a register without a form has not been defined yet.
 * Its form is what all its definitions have in common; where they differ in how they depend on the
 * block, they are *dropped*: a guard asks for equal values, and the rest counts as the same.
 *
 * Guards and moves are collected in a last pass over the stable forms. */
#include "ir/block_form.h"

#include <string.h>

enum { MAX_PASSES = 64 };

/* The form of a value; exact: the rest is `constant`, in all lanes and at all times. */
struct value {
  bool is_known, is_exact;
  int64_t constant;
  struct ts_form form;
};

struct finder {
  struct ts_ctx *ctx;
  const struct ts_function *function;
  const struct ts_launch *launch;
  const struct ts_slice *slice;
  struct value *regs; /* of the last pass */
  struct value *arrays;
  struct value shared; /* values that are stored to shared memory */
  uint32_t *def_count; /* by register */
  bool *is_stored;     /* by array: by instructions of the slice */
  uint32_t *atom_of;   /* by register: index in atoms + 1 */
  TS_VEC(uint32_t) atoms;
  TS_VEC(struct ts_block_guard) guards;
  TS_VEC(struct ts_block_move) moves;
  bool is_collecting; /* the last pass: guards are kept */
  bool has_changed, out_of_memory;
  const char *obstacle;
};

/* --- arithmetic of forms, modulo 2^64 */

static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t plus(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static void add_term(struct finder *f, struct ts_form *form, uint32_t atom, int64_t coefficient);

static struct ts_form combine(struct finder *f, const struct ts_form *a, int64_t x,
                              const struct ts_form *b, int64_t y) {
  struct ts_form sum = {.term_count = 0};
  for (uint32_t i = 0; i < a->term_count; i++)
    add_term(f, &sum, a->terms[i].atom, times(a->terms[i].coefficient, x));
  for (uint32_t i = 0; i < b->term_count; i++)
    add_term(f, &sum, b->terms[i].atom, times(b->terms[i].coefficient, y));
  return sum;
}

static void add_term(struct finder *f, struct ts_form *form, uint32_t atom, int64_t coefficient) {
  uint32_t i = 0;
  while (i < form->term_count && form->terms[i].atom < atom)
    i++;
  if (i < form->term_count && form->terms[i].atom == atom) {
    form->terms[i].coefficient = plus(form->terms[i].coefficient, coefficient);
    if (form->terms[i].coefficient) return;
    form->term_count--;
    memmove(&form->terms[i], &form->terms[i + 1], (form->term_count - i) * sizeof *form->terms);
    return;
  }
  if (coefficient == 0) return;
  if (form->term_count == TS_FORM_TERMS) {
    f->obstacle = "an address depends on the block in too many ways";
    return;
  }
  memmove(&form->terms[i + 1], &form->terms[i], (form->term_count - i) * sizeof *form->terms);
  form->terms[i] = (struct ts_form_term){atom, coefficient};
  form->term_count++;
}

static bool is_same_form(const struct ts_form *a, const struct ts_form *b) {
  if (a->term_count != b->term_count) return false;
  for (uint32_t i = 0; i < a->term_count; i++)
    if (a->terms[i].atom != b->terms[i].atom || a->terms[i].coefficient != b->terms[i].coefficient)
      return false;
  return true;
}

static bool is_same_value(const struct value *a, const struct value *b) {
  return a->is_known == b->is_known && a->is_exact == b->is_exact &&
         (!a->is_exact || a->constant == b->constant) && is_same_form(&a->form, &b->form);
}

/* --- guards */

static void add_guard(struct finder *f, uint32_t insn, const struct ts_form *form) {
  if (!f->is_collecting || form->term_count == 0) return;
  for (size_t i = 0; i < f->guards.count; i++)
    if (f->guards.data[i].insn == insn && is_same_form(&f->guards.data[i].form, form)) return;
  struct ts_block_guard guard = {insn, *form};
  if (ts_vec_push(&f->guards, f->ctx->allocator, guard)) f->out_of_memory = true;
}

/* The value is used in a way that forms do not follow: blocks must agree on it. */
static void drop(struct finder *f, const struct value *value) {
  add_guard(f, TS_NONE, &value->form);
}

static const struct value same_value = {.is_known = true};

/* What two values have in common. */
static struct value join(struct finder *f, const struct value *a, const struct value *b) {
  if (!a->is_known) return *b;
  if (!b->is_known) return *a;
  if (!is_same_form(&a->form, &b->form)) {
    drop(f, a);
    drop(f, b);
    return same_value;
  }
  struct value value = *a;
  value.is_exact = a->is_exact && b->is_exact && a->constant == b->constant;
  return value;
}

/* --- operands */

static int64_t extended(uint8_t dtype, uint64_t encoding) {
  return ts_dtype_bits((enum ts_dtype)dtype) > 32 ? (int64_t)encoding
                                                  : (int64_t)(int32_t)(uint32_t)encoding;
}

static struct value exactly(int64_t constant) {
  return (struct value){.is_known = true, .is_exact = true, .constant = constant};
}

static struct value operand_value(const struct finder *f, const struct ts_insn *insn, uint32_t i) {
  const struct ts_operand *operand = ts_insn_operand(f->function, insn, i);
  switch ((enum ts_operand_kind)operand->kind) {
  case TS_OPERAND_REG: return f->regs[operand->index];
  case TS_OPERAND_IMM: {
    /* As the decoder: 32 bits may be a negative number. */
    uint64_t encoding = f->function->constants.data[operand->index];
    return exactly(encoding >> 32 ? (int64_t)encoding : (int64_t)(int32_t)(uint32_t)encoding);
  }
  case TS_OPERAND_SHARED: return exactly((int64_t)f->function->shared.data[operand->index].address);
  default: return same_value;
  }
}

static bool all_known(const struct finder *f, const struct ts_insn *insn) {
  for (uint32_t i = 0; i < insn->operand_count; i++)
    if (!operand_value(f, insn, i).is_known) return false;
  return true;
}

static bool all_exact(const struct finder *f, const struct ts_insn *insn) {
  for (uint32_t i = 0; i < insn->operand_count; i++)
    if (!operand_value(f, insn, i).is_exact) return false;
  return true;
}

static void drop_operands(struct finder *f, const struct ts_insn *insn, uint32_t first) {
  for (uint32_t i = first; i < insn->operand_count; i++) {
    struct value value = operand_value(f, insn, i);
    drop(f, &value);
  }
}

/* --- results */

/* The register itself, a function of the block. */
static struct value atom(struct finder *f, uint32_t reg) {
  struct value value = {.is_known = true, .is_exact = true};
  if (!f->atom_of[reg]) {
    if (ts_vec_push(&f->atoms, f->ctx->allocator, reg)) f->out_of_memory = true;
    f->atom_of[reg] = (uint32_t)f->atoms.count;
  }
  add_term(f, &value.form, f->atom_of[reg] - 1, 1);
  return value;
}

static bool may_be_atom(const struct finder *f, const struct ts_insn *insn) {
  return insn->dst != TS_NONE && f->def_count[insn->dst] == 1 && insn->lanes == 1;
}

/* Any computation of which nothing else is known. */
static struct value opaque(struct finder *f, const struct ts_insn *insn) {
  bool depends = false;
  for (uint32_t i = 0; i < insn->operand_count; i++)
    depends |= operand_value(f, insn, i).form.term_count != 0;
  if (all_exact(f, insn) && may_be_atom(f, insn)) return atom(f, insn->dst);
  if (depends) drop_operands(f, insn, 0);
  return same_value;
}

static struct value linear(struct finder *f, const struct value *a, int64_t x,
                           const struct value *b, int64_t y) {
  return (struct value){.is_known = true,
                        .is_exact = a->is_exact && b->is_exact,
                        .constant = plus(times(a->constant, x), times(b->constant, y)),
                        .form = combine(f, &a->form, x, &b->form, y)};
}

static bool is_constant(const struct value *value) {
  return value->is_exact && value->form.term_count == 0;
}

static struct value product(struct finder *f, const struct ts_insn *insn) {
  struct value a = operand_value(f, insn, 0), b = operand_value(f, insn, 1);
  struct value zero = exactly(0);
  if (is_constant(&b)) return linear(f, &a, b.constant, &zero, 0);
  if (is_constant(&a)) return linear(f, &b, a.constant, &zero, 0);
  return opaque(f, insn);
}

static struct value shifted(struct finder *f, const struct ts_insn *insn) {
  struct value a = operand_value(f, insn, 0), b = operand_value(f, insn, 1), zero = exactly(0);
  if (!is_constant(&b) || b.constant < 0 || b.constant > 31) return opaque(f, insn);
  return linear(f, &a, (int64_t)1 << b.constant, &zero, 0);
}

static bool divides(int64_t divisor, const struct ts_form *form) {
  for (uint32_t i = 0; i < form->term_count; i++)
    if (form->terms[i].coefficient % divisor) return false;
  return true;
}

/* floor((U + V) / c) = U / c + floor(V / c) when c divides U, and (U + V) mod c = V mod c. */
static struct value quotient(struct finder *f, const struct ts_insn *insn, int64_t divisor,
                             bool is_remainder) {
  struct value a = operand_value(f, insn, 0);
  if (divisor > 0 && is_constant(&a)) {
    int64_t rest = (a.constant % divisor + divisor) % divisor;
    return exactly(is_remainder ? rest : (a.constant - rest) / divisor);
  }
  bool is_plain = a.is_exact && a.form.term_count; /* better an atom than inexact */
  if (divisor <= 0 || !divides(divisor, &a.form) || is_plain) return opaque(f, insn);
  struct value value = same_value;
  for (uint32_t i = 0; i < a.form.term_count && !is_remainder; i++)
    add_term(f, &value.form, a.form.terms[i].atom, a.form.terms[i].coefficient / divisor);
  return value;
}

static struct value divided(struct finder *f, const struct ts_insn *insn, bool is_remainder) {
  struct value b = operand_value(f, insn, 1);
  return is_constant(&b) ? quotient(f, insn, b.constant, is_remainder) : opaque(f, insn);
}

static struct value shifted_right(struct finder *f, const struct ts_insn *insn) {
  struct value b = operand_value(f, insn, 1);
  if (!is_constant(&b) || b.constant < 0 || b.constant > 31) return opaque(f, insn);
  return quotient(f, insn, (int64_t)1 << b.constant, false);
}

/* The bits below the lowest one that depends on the block. */
static struct value masked(struct finder *f, const struct ts_insn *insn) {
  struct value b = operand_value(f, insn, 1);
  if (!is_constant(&b) || b.constant <= 0 || b.constant > INT32_MAX) return opaque(f, insn);
  struct value a = operand_value(f, insn, 0);
  if (is_constant(&a)) return exactly(a.constant & b.constant);
  int64_t divisor = 1;
  while (divisor <= b.constant)
    divisor *= 2;
  return quotient(f, insn, divisor, true);
}

static struct value compared(struct finder *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  struct value a = operand_value(f, insn, 0), b = operand_value(f, insn, 1);
  struct ts_form difference = combine(f, &a.form, 1, &b.form, -1);
  if (difference.term_count == 0) return same_value;
  bool is_integer = !ts_dtype_is_float((enum ts_dtype)insn->dtype);
  if ((a.is_exact && b.is_exact) || !is_integer) return opaque(f, insn);
  add_guard(f, id, &difference);
  return same_value;
}

static struct value selected(struct finder *f, const struct ts_insn *insn) {
  struct value p = operand_value(f, insn, 0), a = operand_value(f, insn, 1);
  struct value b = operand_value(f, insn, 2);
  if (all_exact(f, insn) && may_be_atom(f, insn)) return atom(f, insn->dst);
  drop(f, &p);
  struct value value = join(f, &a, &b);
  value.is_exact = false;
  return value;
}

/* All operands from `first` on have a value in common. */
static struct value joined(struct finder *f, const struct ts_insn *insn, uint32_t first) {
  struct value value = {0};
  for (uint32_t i = first; i < insn->operand_count; i++) {
    struct value operand = operand_value(f, insn, i);
    value = join(f, &value, &operand);
  }
  value.is_exact = false;
  return value;
}

static struct value special(struct finder *f, const struct ts_insn *insn) {
  const struct ts_launch *launch = f->launch;
  int64_t which = ts_insn_attr(f->function, insn, TS_ATTR_which, TS_SREG_laneid);
  switch (which) {
  case TS_SREG_ctaid_x:
  case TS_SREG_ctaid_y:
  case TS_SREG_ctaid_z:
    if (launch->grid[which - TS_SREG_ctaid_x] == 1) return exactly(0);
    return may_be_atom(f, insn) ? atom(f, insn->dst) : same_value;
  case TS_SREG_cluster_ctarank: return exactly(0); /* launches with clusters are not asked about */
  case TS_SREG_ntid_x:
  case TS_SREG_ntid_y:
  case TS_SREG_ntid_z: return exactly(launch->block[which - TS_SREG_ntid_x]);
  case TS_SREG_nctaid_x:
  case TS_SREG_nctaid_y:
  case TS_SREG_nctaid_z: return exactly(launch->grid[which - TS_SREG_nctaid_x]);
  default: return same_value;
  }
}

static struct value converted(struct finder *f, const struct ts_insn *insn) {
  enum ts_dtype to = (enum ts_dtype)insn->dtype, from = (enum ts_dtype)insn->dtype2;
  bool is_integer = !ts_dtype_is_float(to) && !ts_dtype_is_float(from);
  bool is_plain = insn->op == TS_OP_cvt || ts_dtype_bits(to) == ts_dtype_bits(from);
  if (is_integer && is_plain && ts_dtype_bits(to) >= 32 && ts_dtype_bits(from) >= 32)
    return operand_value(f, insn, 0);
  return opaque(f, insn);
}

/* Memory that is read into registers which matter. */
static struct value loaded(struct finder *f, const struct ts_insn *insn) {
  switch (insn->op) {
  case TS_OP_ld_local: {
    struct value index = operand_value(f, insn, 1);
    drop(f, &index);
    struct value value = f->arrays[ts_insn_operand(f->function, insn, 0)->index];
    value.is_exact = false;
    return value;
  }
  case TS_OP_ld_shared:
    drop_operands(f, insn, 0);
    return f->shared.is_known ? same_value : f->shared;
  case TS_OP_ld_global: return opaque(f, insn); /* nobody writes there, or there is an obstacle */
  default: f->obstacle = "control or addresses depend on what atomics or other blocks give";
  }
  return same_value;
}

static struct value result_of(struct finder *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  struct value a, b, c;
  if (insn->operand_count > 0) a = operand_value(f, insn, 0);
  switch (insn->op) {
  case TS_OP_mov:
  case TS_OP_broadcast: return a;
  case TS_OP_extract: a.is_exact = false; return a;
  case TS_OP_shfl:
    drop_operands(f, insn, 1);
    a.is_exact = false;
    return a;
  case TS_OP_sreg: return special(f, insn);
  case TS_OP_cvt:
  case TS_OP_bitcast: return converted(f, insn);
  case TS_OP_concat: return joined(f, insn, 0);
  case TS_OP_ramp:
    b = operand_value(f, insn, 1);
    drop(f, &b);
    a.is_exact = false;
    return a;
  case TS_OP_select: return selected(f, insn);
  case TS_OP_add:
  case TS_OP_sub:
    if (ts_dtype_is_float((enum ts_dtype)insn->dtype)) return opaque(f, insn);
    b = operand_value(f, insn, 1);
    return linear(f, &a, 1, &b, insn->op == TS_OP_add ? 1 : -1);
  case TS_OP_neg:
    if (ts_dtype_is_float((enum ts_dtype)insn->dtype)) return opaque(f, insn);
    b = exactly(0);
    return linear(f, &a, -1, &b, 0);
  case TS_OP_mul:
    return ts_dtype_is_float((enum ts_dtype)insn->dtype) ? opaque(f, insn) : product(f, insn);
  case TS_OP_fma:
    b = operand_value(f, insn, 1);
    c = operand_value(f, insn, 2);
    if (ts_dtype_is_float((enum ts_dtype)insn->dtype)) return opaque(f, insn);
    if (is_constant(&b)) return linear(f, &a, b.constant, &c, 1);
    if (is_constant(&a)) return linear(f, &b, a.constant, &c, 1);
    return opaque(f, insn);
  case TS_OP_shl: return shifted(f, insn);
  case TS_OP_shr: return shifted_right(f, insn);
  case TS_OP_and: return masked(f, insn);
  case TS_OP_floordiv: return divided(f, insn, false);
  case TS_OP_floormod: return divided(f, insn, true);
  case TS_OP_eq:
  case TS_OP_ne:
  case TS_OP_lt:
  case TS_OP_le: return compared(f, id);
  case TS_OP_min:
  case TS_OP_max:
    b = operand_value(f, insn, 1);
    if (!is_same_form(&a.form, &b.form) || all_exact(f, insn)) return opaque(f, insn);
    a.is_exact = false;
    return a;
  default: break;
  }
  const struct ts_op_info *info = ts_op_info((enum ts_op)insn->op);
  if (info->flags & F_PURE) return opaque(f, insn);
  if (info->flags & F_MEM) return loaded(f, insn);
  drop_operands(f, insn, 0); /* votes and their like */
  return same_value;
}

/* --- passes */

static void define(struct finder *f, struct value *place, struct value value) {
  *place = join(f, place, &value);
}

/* What executed stores put where executed loads find it. */
static void store(struct finder *f, const struct ts_insn *insn, struct value *arrays,
                  struct value *shared) {
  if (insn->op == TS_OP_st_local) {
    struct value index = operand_value(f, insn, 1);
    drop(f, &index);
    define(f, &arrays[ts_insn_operand(f->function, insn, 0)->index], operand_value(f, insn, 2));
  } else if (insn->op == TS_OP_st_shared) {
    struct value value = operand_value(f, insn, 2);
    drop(f, &value);
    define(f, shared, same_value);
  } else if (insn->dst == TS_NONE) {
    f->obstacle = "control or addresses depend on data that copies or matrix instructions move";
  }
}

static void pass_insn(struct finder *f, uint32_t id, struct value *regs, struct value *arrays,
                      struct value *shared) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  if (!f->slice->is_executed[id]) return;
  if (!all_known(f, insn)) {
    if (f->is_collecting) f->obstacle = "control or addresses depend on what nobody defines";
    return;
  }
  if (insn->dst == TS_NONE)
    store(f, insn, arrays, shared);
  else
    define(f, &regs[insn->dst], result_of(f, id));
}

/* What has a value before the first instruction. */
static void set_params(const struct finder *f, struct value *regs, struct value *arrays) {
  for (size_t i = 0; i < f->function->regs.count; i++)
    if (f->def_count[i] == 0) regs[i] = same_value;
  for (size_t i = 0; i < f->function->arrays.count; i++)
    if (!f->is_stored[i]) arrays[i] = same_value;
  for (uint32_t i = 0; i < f->function->params.count; i++) {
    const struct ts_param *param = &f->function->params.data[i];
    if (param->reg == TS_NONE) continue;
    const struct ts_launch_arg *arg = &f->launch->args[i];
    regs[param->reg] = arg->is_double ? same_value : exactly(extended(param->dtype, arg->value));
    if (param->kind == TS_PARAM_POINTER) regs[param->reg] = exactly((int64_t)arg->value);
  }
}

/* One pass: the forms of the definitions from those of the pass before. */
static void pass(struct finder *f, struct value *regs, struct value *arrays) {
  size_t reg_count = f->function->regs.count, array_count = f->function->arrays.count;
  struct value shared = {0};
  memset(regs, 0, reg_count * sizeof *regs);
  memset(arrays, 0, array_count * sizeof *arrays);
  set_params(f, regs, arrays);
  for (uint32_t id = 0; id < f->function->insns.count; id++)
    pass_insn(f, id, regs, arrays, &shared);
  f->has_changed = !is_same_value(&shared, &f->shared);
  for (size_t i = 0; i < reg_count && !f->has_changed; i++)
    f->has_changed = !is_same_value(&regs[i], &f->regs[i]);
  for (size_t i = 0; i < array_count && !f->has_changed; i++)
    f->has_changed = !is_same_value(&arrays[i], &f->arrays[i]);
  f->shared = shared;
}

/* --- what is seen of the forms */

/* Bytes of a memory operand. */
static struct ts_form address_form(struct finder *f, const struct ts_insn *insn, uint32_t base,
                                   enum ts_attr_id scale) {
  struct value a = operand_value(f, insn, base), b = operand_value(f, insn, base + 1);
  return combine(f, &a.form, 1, &b.form, ts_insn_attr(f->function, insn, scale, 0));
}

static void add_move(struct finder *f, uint32_t id, struct ts_form form) {
  if (form.term_count == 0) return;
  struct ts_block_move move = {.insn = id, .forms = {form}};
  if (ts_vec_push(&f->moves, f->ctx->allocator, move)) f->out_of_memory = true;
}

static void add_box(struct finder *f, uint32_t id, uint32_t first, uint32_t rank) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  struct ts_block_move move = {.insn = id, .rank = rank < TS_FORM_RANK ? rank : TS_FORM_RANK};
  uint32_t terms = 0;
  for (uint32_t i = 0; i < move.rank; i++) {
    move.forms[i] = operand_value(f, insn, first + i).form;
    terms += move.forms[i].term_count;
  }
  drop_operands(f, insn, first + move.rank);
  if (terms && ts_vec_push(&f->moves, f->ctx->allocator, move)) f->out_of_memory = true;
}

static void drop_address(struct finder *f, const struct ts_insn *insn, uint32_t base,
                         enum ts_attr_id scale) {
  struct ts_form form = address_form(f, insn, base, scale);
  add_guard(f, TS_NONE, &form);
}

static void drop_operand(struct finder *f, const struct ts_insn *insn, uint32_t i) {
  struct value value = operand_value(f, insn, i);
  drop(f, &value);
}

static uint32_t box_rank(const struct ts_insn *insn, uint32_t first) {
  uint32_t rank = insn->operand_count - first;
  /* im2col: c, w, h, n, then offsets of w and h */
  return insn->op == TS_OP_tma_load_im2col ? (rank + 2) / 2 : rank;
}

/* Moves of global footprints; everything else that an event tells must be equal. */
static void see(struct finder *f, uint32_t id) {
  const struct ts_insn *insn = &f->function->insns.data[id];
  switch (insn->op) {
  case TS_OP_ld_global:
  case TS_OP_st_global:
  case TS_OP_atom_global:
  case TS_OP_atom_global_ret: add_move(f, id, address_form(f, insn, 0, TS_ATTR_scale)); return;
  case TS_OP_ld_shared:
  case TS_OP_st_shared:
  case TS_OP_atom_shared:
  case TS_OP_atom_shared_ret:
  case TS_OP_stmatrix: drop_address(f, insn, 0, TS_ATTR_scale); return;
  case TS_OP_ldmatrix: drop_address(f, insn, 2, TS_ATTR_scale); return;
  case TS_OP_cp_async:
    drop_address(f, insn, 0, TS_ATTR_scale2);
    add_move(f, id, address_form(f, insn, 2, TS_ATTR_scale));
    drop_operand(f, insn, 4);
    return;
  case TS_OP_bulk_load:
    drop_operand(f, insn, 0);
    add_move(f, id, operand_value(f, insn, 1).form);
    drop_operands(f, insn, 2);
    return;
  case TS_OP_bulk_store:
    add_move(f, id, operand_value(f, insn, 0).form);
    drop_operands(f, insn, 1);
    return;
  case TS_OP_tma_load:
  case TS_OP_tma_load_im2col:
    drop_operand(f, insn, 1);
    drop_operand(f, insn, 2);
    add_box(f, id, 3, box_rank(insn, 3));
    return;
  case TS_OP_tma_store:
    drop_operand(f, insn, 1);
    add_box(f, id, 2, box_rank(insn, 2));
    return;
  default: break;
  }
  uint32_t roots = ts_slice_roots(insn);
  for (uint32_t i = 0; i < insn->operand_count; i++)
    if (roots >> i & 1) drop_operand(f, insn, i);
}

/* --- atoms in the order of their computation */

static void want_atoms(const struct finder *f, const struct ts_form *form, bool *reg_wanted) {
  for (uint32_t i = 0; i < form->term_count; i++)
    reg_wanted[f->atoms.data[form->terms[i].atom]] = true;
}

/* Those that guards and moves need; others were taken for atoms in earlier passes only. */
static void mark_insns(const struct finder *f, bool *is_wanted) {
  bool *reg_wanted = is_wanted + f->function->insns.count;
  for (size_t i = 0; i < f->guards.count; i++)
    want_atoms(f, &f->guards.data[i].form, reg_wanted);
  for (size_t i = 0; i < f->moves.count; i++)
    for (uint32_t d = 0; d < TS_FORM_RANK; d++)
      want_atoms(f, &f->moves.data[i].forms[d], reg_wanted);
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t id = 0; id < f->function->insns.count; id++) {
      const struct ts_insn *insn = &f->function->insns.data[id];
      if (is_wanted[id] || insn->dst == TS_NONE || !reg_wanted[insn->dst]) continue;
      is_wanted[id] = changes = true;
      for (uint32_t i = 0; i < insn->operand_count; i++) {
        const struct ts_operand *operand = ts_insn_operand(f->function, insn, i);
        if (operand->kind == TS_OPERAND_REG) reg_wanted[operand->index] = true;
      }
    }
  }
}

/* Instructions in an order in which operands come first; instruction order usually is one. */
static bool order_insns(struct finder *f, struct ts_arena *arena, struct ts_block_forms *out) {
  size_t insn_count = f->function->insns.count, reg_count = f->function->regs.count;
  bool *is_wanted = ts_new_array(arena, bool, insn_count + reg_count + 1);
  bool *is_ready = ts_new_array(arena, bool, reg_count + 1);
  uint32_t *order = ts_new_array(arena, uint32_t, insn_count + 1);
  if (!is_wanted || !is_ready || !order) return false;
  mark_insns(f, is_wanted);
  for (size_t i = 0; i < reg_count; i++)
    is_ready[i] = f->def_count[i] == 0; /* parameters */
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t id = 0; id < insn_count; id++) {
      const struct ts_insn *insn = &f->function->insns.data[id];
      bool can = is_wanted[id];
      for (uint32_t i = 0; i < insn->operand_count && can; i++) {
        const struct ts_operand *operand = ts_insn_operand(f->function, insn, i);
        can = operand->kind != TS_OPERAND_REG || is_ready[operand->index];
      }
      if (!can) continue;
      order[out->insn_count++] = id;
      is_wanted[id] = false;
      is_ready[insn->dst] = changes = true;
    }
  }
  for (size_t id = 0; id < insn_count; id++)
    if (is_wanted[id]) f->obstacle = "a value of the block cannot be computed alone";
  out->insns = order;
  return true;
}

/* --- all together */

static bool allocate(struct finder *f, struct ts_arena *arena, struct value **regs,
                     struct value **arrays) {
  size_t reg_count = f->function->regs.count + 1, array_count = f->function->arrays.count + 1;
  f->regs = ts_new_array(arena, struct value, reg_count);
  f->arrays = ts_new_array(arena, struct value, array_count);
  *regs = ts_new_array(arena, struct value, reg_count);
  *arrays = ts_new_array(arena, struct value, array_count);
  f->def_count = ts_new_array(arena, uint32_t, reg_count);
  f->atom_of = ts_new_array(arena, uint32_t, reg_count);
  f->is_stored = ts_new_array(arena, bool, array_count);
  if (!f->is_stored) return false;
  if (!f->regs || !f->arrays || !*regs || !*arrays || !f->def_count || !f->atom_of) return false;
  for (size_t i = 0; i < f->function->insns.count; i++) {
    const struct ts_insn *insn = &f->function->insns.data[i];
    if (insn->dst != TS_NONE) f->def_count[insn->dst]++;
    if (insn->op == TS_OP_st_local && f->slice->is_executed[i])
      f->is_stored[ts_insn_operand(f->function, insn, 0)->index] = true;
  }
  return true;
}

static void swap(struct value **a, struct value **b) {
  struct value *old = *a;
  *a = *b;
  *b = old;
}

static void iterate(struct finder *f, struct value *regs, struct value *arrays) {
  uint32_t passes = 0;
  set_params(f, f->regs, f->arrays);
  do {
    f->obstacle = NULL;
    pass(f, regs, arrays);
    swap(&f->regs, &regs);
    swap(&f->arrays, &arrays);
  } while (f->has_changed && ++passes < MAX_PASSES && !f->out_of_memory);
  if (f->has_changed && !f->obstacle) f->obstacle = "its values do not settle";
  f->is_collecting = true;
  pass(f, regs, arrays);
  for (uint32_t id = 0; id < f->function->insns.count; id++)
    see(f, id);
}

static enum ts_status copy_out(struct finder *f, struct ts_arena *arena,
                               struct ts_block_forms *out) {
  uint32_t *atoms = ts_new_array(arena, uint32_t, f->atoms.count + 1);
  struct ts_block_guard *guards = ts_new_array(arena, struct ts_block_guard, f->guards.count + 1);
  struct ts_block_move *moves = ts_new_array(arena, struct ts_block_move, f->moves.count + 1);
  if (!atoms || !guards || !moves || !order_insns(f, arena, out) || f->out_of_memory)
    return ts_fail_memory(f->ctx);
  if (f->atoms.count) memcpy(atoms, f->atoms.data, f->atoms.count * sizeof *atoms);
  if (f->guards.count) memcpy(guards, f->guards.data, f->guards.count * sizeof *guards);
  if (f->moves.count) memcpy(moves, f->moves.data, f->moves.count * sizeof *moves);
  out->atoms = atoms;
  out->atom_count = (uint32_t)f->atoms.count;
  out->guards = guards;
  out->guard_count = (uint32_t)f->guards.count;
  out->moves = moves;
  out->move_count = (uint32_t)f->moves.count;
  out->obstacle = f->obstacle;
  return TS_OK;
}

enum ts_status ts_block_forms_find(struct ts_ctx *ctx, const struct ts_function *function,
                                   const struct ts_launch *launch, const struct ts_slice *slice,
                                   struct ts_arena *arena, struct ts_block_forms *forms) {
  struct finder f = {.ctx = ctx, .function = function, .launch = launch, .slice = slice};
  struct value *regs, *arrays;
  memset(forms, 0, sizeof *forms);
  if (slice->depends_on_results || slice->depends_on_atomics) {
    forms->obstacle = "control or addresses depend on what the launch itself computes";
    return TS_OK;
  }
  if (!allocate(&f, arena, &regs, &arrays)) return ts_fail_memory(ctx);
  iterate(&f, regs, arrays);
  enum ts_status status = copy_out(&f, arena, forms);
  ts_vec_free(&f.atoms, ctx->allocator);
  ts_vec_free(&f.guards, ctx->allocator);
  ts_vec_free(&f.moves, ctx->allocator);
  return status;
}
