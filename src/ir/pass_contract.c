/* Merges multiplications into the additions that use them, as nvcc 13 with its default -fmad=true does
 * (MEASURED: machine code of small kernels for sm_90a; docs/numerics.md, contraction).
 *
 * An add or sub of floats one of whose operands is a product becomes an fma; of two products the left
 * one is merged. A product is merged into all its users or into none: each use must be an operand of
 * an add or sub in one basic block, which is the product's own or can be reached from it through
 * blocks with one predecessor only (there the compiler sinks the product). Negated products count
 * as products. A product with 2 does not: the compiler writes x + x.
 *
 * nvcc works on scalars, so vector instructions are split where their components go different ways. */
#include "ir/ir_priv.h"

#include <string.h>

/* --- what can be merged at all */

static bool is_contractible_dtype(enum ts_dtype dtype) {
  return dtype == TS_DTYPE_f32 || dtype == TS_DTYPE_f64 || dtype == TS_DTYPE_f16 ||
         dtype == TS_DTYPE_bf16;
}

/* A plain instruction of such a dtype: nothing but ftz said about it. */
static bool is_plain(const struct ts_function *function, const struct ts_insn *insn) {
  if (!is_contractible_dtype((enum ts_dtype)insn->dtype)) return false;
  for (uint32_t i = insn->attrs; i < insn->attrs + insn->attr_count; i++) {
    const struct ts_attr *attr = &function->attrs.data[i];
    bool is_nearest = attr->id == TS_ATTR_round && attr->value == TS_IR_ROUND_rn;
    bool is_unset = attr->id != TS_ATTR_round && attr->value == 0;
    if (attr->id != TS_ATTR_ftz && !is_nearest && !is_unset) return false;
  }
  return true;
}

static bool is_sum(const struct ts_function *function, const struct ts_insn *insn) {
  return (insn->op == TS_OP_add || insn->op == TS_OP_sub) && is_plain(function, insn);
}

static bool is_product(const struct ts_function *function, const struct ts_insn *insn) {
  return insn->op == TS_OP_mul && is_plain(function, insn);
}

static bool have_same_form(const struct ts_function *function, const struct ts_insn *a,
                           const struct ts_insn *b) {
  return a->dtype == b->dtype && a->lanes == b->lanes &&
         (ts_insn_attr(function, a, TS_ATTR_ftz, 0) != 0) ==
             (ts_insn_attr(function, b, TS_ATTR_ftz, 0) != 0);
}

static uint64_t sign_bit(enum ts_dtype dtype) { return UINT64_C(1) << (ts_dtype_bits(dtype) - 1); }

/* 2^exponent as an encoding; exponent must be that of a normal number. */
static uint64_t power_of_two(enum ts_dtype dtype, int exponent) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  return (uint64_t)(exponent + info->bias) << info->mantissa_bits;
}

/* --- tables over the function as it is */

struct tables {
  struct ts_arena arena;
  struct ts_function *function;
  struct ts__cfg cfg;
  uint32_t *def;       /* by register: instruction; TS_NONE none */
  uint32_t *first_use; /* by register: number of a use + 1 */
  uint32_t *next_use;  /* by operand position */
  uint32_t *user;      /* by operand position: instruction */
  bool *is_marked;     /* by instruction; what the step wants to remember */
};
#define SEVERAL (TS_NONE - 1)

static void define(struct tables *t, uint32_t reg, uint32_t insn) {
  t->def[reg] = t->def[reg] == TS_NONE ? insn : SEVERAL;
}

static int make_tables(struct tables *t, struct ts_function *function) {
  size_t reg_count = function->regs.count, operand_count = function->operands.count;
  t->function = function;
  t->def = ts_new_array(&t->arena, uint32_t, reg_count);
  t->first_use = ts_new_array(&t->arena, uint32_t, reg_count);
  t->next_use = ts_new_array(&t->arena, uint32_t, operand_count);
  t->user = ts_new_array(&t->arena, uint32_t, operand_count);
  t->is_marked = ts_new_array(&t->arena, bool, function->insns.count);
  if (!t->def || !t->first_use || !t->next_use || !t->user || !t->is_marked) return -1;
  if (ts__cfg_init(&t->cfg, &t->arena, function)) return -1;
  memset(t->def, 0xff, reg_count * sizeof *t->def);
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE) t->def[function->params.data[i].reg] = SEVERAL;
  for (size_t i = function->insns.count; i-- > 0;) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (insn->dst != TS_NONE) define(t, insn->dst, (uint32_t)i);
    for (uint32_t k = insn->operands; k < insn->operands + insn->operand_count; k++) {
      const struct ts_operand *operand = &function->operands.data[k];
      if (operand->kind != TS_OPERAND_REG) continue;
      t->user[k] = (uint32_t)i;
      t->next_use[k] = t->first_use[operand->index];
      t->first_use[operand->index] = k + 1;
    }
  }
  return 0;
}

/* The only instruction that defines the operand, or NULL. */
static struct ts_insn *definition(const struct tables *t, struct ts_operand operand) {
  if (operand.kind != TS_OPERAND_REG || t->def[operand.index] >= SEVERAL) return NULL;
  return &t->function->insns.data[t->def[operand.index]];
}

static struct ts_operand *operands_of(const struct tables *t, const struct ts_insn *insn) {
  return &t->function->operands.data[insn->operands];
}

/* --- step 1: one form. Quotients by powers of two become products, negations of products become
 * signs of the sum. Both give the same bits; the compiler does so before it merges. */

static void normalise_quotient(const struct tables *t, struct ts_insn *insn) {
  struct ts_function *function = t->function;
  enum ts_dtype dtype = (enum ts_dtype)insn->dtype;
  struct ts_operand *operands = operands_of(t, insn);
  if (insn->op != TS_OP_div || (dtype != TS_DTYPE_f32 && dtype != TS_DTYPE_f64)) return;
  if (operands[1].kind != TS_OPERAND_IMM || !is_plain(function, insn)) return;
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  uint64_t divisor = function->constants.data[operands[1].index];
  uint64_t magnitude = divisor & ~sign_bit(dtype);
  int exponent = (int)(magnitude >> info->mantissa_bits) - info->bias;
  bool is_power = (magnitude & ((UINT64_C(1) << info->mantissa_bits) - 1)) == 0;
  /* The divisor and its inverse are normal. */
  if (!is_power || exponent <= -info->bias || exponent >= info->bias) return;
  uint64_t inverse = power_of_two(dtype, -exponent) | (divisor & sign_bit(dtype));
  if (ts_vec_push(&function->constants, function->module->allocator, inverse)) return;
  operands[1].index = (uint32_t)function->constants.count - 1;
  insn->op = TS_OP_mul;
}

/* The product that is negated, when operand is -product and so is a term of a sum. */
static bool negated_product(const struct tables *t, const struct ts_insn *sum,
                            struct ts_operand operand, struct ts_operand *product) {
  const struct ts_insn *neg = definition(t, operand);
  if (!neg || neg->op != TS_OP_neg || neg->block != sum->block || neg->attr_count) return false;
  *product = operands_of(t, neg)[0];
  const struct ts_insn *insn = definition(t, *product);
  return insn && is_product(t->function, insn) && have_same_form(t->function, sum, insn) &&
         insn->block == sum->block;
}

static void normalise_sum(const struct tables *t, struct ts_insn *insn) {
  struct ts_operand *operands = operands_of(t, insn), product;
  if (!is_sum(t->function, insn)) return;
  if (negated_product(t, insn, operands[1], &product)) {
    operands[1] = product;
    insn->op = insn->op == TS_OP_add ? TS_OP_sub : TS_OP_add;
  }
  if (insn->op == TS_OP_add && negated_product(t, insn, operands[0], &product)) {
    operands[0] = operands[1];
    operands[1] = product;
    insn->op = TS_OP_sub;
  }
}

static int normalise(struct ts_function *function) {
  struct tables t = {.function = function};
  ts_arena_init(&t.arena, function->module->allocator);
  int failed = make_tables(&t, function);
  for (size_t i = 0; i < function->insns.count && !failed; i++)
    normalise_quotient(&t, &function->insns.data[i]);
  for (size_t i = 0; i < function->insns.count && !failed; i++)
    normalise_sum(&t, &function->insns.data[i]);
  ts_arena_free(&t.arena);
  return failed;
}

/* --- step 2: vectors whose components are used or made one by one are split */

/* A concat of scalars, some of which are products or parts of split instructions. */
static bool has_scalar_products(const struct tables *t, struct ts_operand operand, int depth) {
  const struct ts_insn *concat = definition(t, operand);
  if (!concat || concat->op != TS_OP_concat) return false;
  for (uint32_t i = 0; i < concat->operand_count; i++) {
    struct ts_operand part = operands_of(t, concat)[i];
    const struct ts_insn *insn = definition(t, part);
    if (!insn) continue;
    if (is_product(t->function, insn)) return true;
    if (insn->op == TS_OP_extract) {
      const struct ts_insn *source = definition(t, operands_of(t, insn)[0]);
      if (source && is_product(t->function, source)) return true;
    }
    if (depth && has_scalar_products(t, part, depth - 1)) return true;
  }
  return false;
}

static bool is_used_by_component(const struct tables *t, const struct ts_insn *insn) {
  for (uint32_t use = t->first_use[insn->dst]; use; use = t->next_use[use - 1]) {
    enum ts_op op = (enum ts_op)t->function->insns.data[t->user[use - 1]].op;
    if (op == TS_OP_extract || op == TS_OP_concat) return true;
  }
  return false;
}

static bool mark(struct tables *t, const struct ts_insn *insn) {
  size_t id = (size_t)(insn - t->function->insns.data);
  bool is_new = !t->is_marked[id];
  t->is_marked[id] = true;
  return is_new;
}

static bool is_marked(const struct tables *t, const struct ts_insn *insn) {
  return t->is_marked[insn - t->function->insns.data];
}

/* Marks a vector product or sum that has to be split; true when it was not marked before. */
static bool consider_split(struct tables *t, const struct ts_insn *insn) {
  const struct ts_function *function = t->function;
  bool is_wanted = false;
  if (insn->lanes == 1 || is_marked(t, insn)) return false;
  if (is_product(function, insn)) {
    is_wanted = t->def[insn->dst] < SEVERAL && is_used_by_component(t, insn);
    for (uint32_t use = t->first_use[insn->dst]; use && !is_wanted; use = t->next_use[use - 1])
      is_wanted = is_marked(t, &function->insns.data[t->user[use - 1]]);
  } else if (is_sum(function, insn)) {
    for (uint32_t i = 0; i < 2 && !is_wanted; i++) {
      struct ts_operand operand = operands_of(t, insn)[i];
      const struct ts_insn *source = definition(t, operand);
      is_wanted = has_scalar_products(t, operand, 2) ||
                  (source && is_product(function, source) && is_marked(t, source));
    }
  }
  return is_wanted && mark(t, insn);
}

static bool find_splits(struct tables *t) {
  bool has_any = false;
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = 0; i < t->function->insns.count; i++)
      has_changed |= consider_split(t, &t->function->insns.data[i]);
    has_any |= has_changed;
  }
  return has_any;
}

static void split(struct ts__rewrite *rw, const struct ts_insn *old,
                  const struct ts_operand *operands) {
  struct ts_type type = {old->dtype, old->lanes}, scalar = {old->dtype, 1};
  struct ts_operand parts[TS_MAX_VECTOR_LANES];
  struct ts_attr attrs[TS_ATTR_COUNT];
  for (uint32_t i = 0; i < old->attr_count; i++)
    attrs[i] = rw->function->attrs.data[old->attrs + i];
  for (uint32_t i = 0; i < old->lanes; i++) {
    struct ts_operand pair[2];
    for (int k = 0; k < 2; k++)
      pair[k] = ts__rewrite_component(rw, operands[k], type, i);
    parts[i] =
        ts__rewrite_emit(rw, (enum ts_op)old->op, scalar, TS_NONE, pair, 2, attrs, old->attr_count);
  }
  struct ts_operand whole = ts__rewrite_gather(rw, type, parts);
  ts__rewrite_emit(rw, TS_OP_mov, type, old->dst, &whole, 1, NULL, 0);
  ts__rewrite_replace(rw, old->dst, whole);
}

static void copy_seeing_through(struct ts__rewrite *rw, const struct ts_insn *old,
                                const struct ts_operand *operands) {
  struct ts_operand value = operands[0];
  bool is_move = old->op == TS_OP_mov && !old->attr_count;
  if (old->op == TS_OP_extract) {
    uint64_t i = rw->function->constants.data[operands[1].index];
    value = ts__rewrite_component(rw, operands[0], (struct ts_type){old->dtype, 1}, (uint32_t)i);
  }
  ts__rewrite_copy(rw, old, operands);
  if (is_move || old->op == TS_OP_extract) ts__rewrite_replace(rw, old->dst, value);
}

static enum ts_status split_marked(struct ts_ctx *ctx, const struct tables *t) {
  struct ts_function *function = t->function;
  struct ts__rewrite rw;
  struct ts_operand operands[TS_MAX_OPERANDS];
  TS_TRY(ts__rewrite_begin(&rw, ctx, function));
  for (uint32_t b = 0; b < function->blocks.count && rw.status == TS_OK; b++) {
    const struct ts_block *block = &function->blocks.data[b];
    rw.block = b;
    for (uint32_t k = 0; k < block->insn_count; k++) {
      const struct ts_insn *old = &rw.old_insns[block->first_insn + k];
      rw.place = old->place;
      ts__rewrite_operands(&rw, old, operands);
      if (t->is_marked[block->first_insn + k])
        split(&rw, old, operands);
      else
        copy_seeing_through(&rw, old, operands);
    }
  }
  return ts__rewrite_end(&rw);
}

static enum ts_status split_vectors(struct ts_ctx *ctx, struct ts_function *function) {
  struct tables t = {.function = function};
  ts_arena_init(&t.arena, function->module->allocator);
  enum ts_status status = TS_OK;
  if (make_tables(&t, function))
    status = ts_fail_memory(ctx);
  else if (find_splits(&t))
    status = split_marked(ctx, &t);
  ts_arena_free(&t.arena);
  return status;
}

/* --- step 3: merging */

/* Is the block `to` where a product of block `from` would be sunk to? */
static bool sinks_to(const struct tables *t, uint32_t from, uint32_t to) {
  while (to != from) {
    if (t->cfg.pred_count[to] != 1 || to == t->function->entry) return false;
    to = t->cfg.pred[to];
  }
  return true;
}

static bool is_doubling(const struct tables *t, const struct ts_insn *product) {
  uint64_t two = power_of_two((enum ts_dtype)product->dtype, 1);
  for (int i = 0; i < 2; i++) {
    struct ts_operand operand = operands_of(t, product)[i];
    if (operand.kind == TS_OPERAND_IMM && t->function->constants.data[operand.index] == two)
      return true;
  }
  return false;
}

/* All uses are terms of sums in one block, to which the product can move. */
static bool is_mergeable(const struct tables *t, const struct ts_insn *product) {
  const struct ts_function *function = t->function;
  uint32_t block = TS_NONE;
  if (!is_product(function, product) || t->def[product->dst] >= SEVERAL) return false;
  for (uint32_t use = t->first_use[product->dst]; use; use = t->next_use[use - 1]) {
    const struct ts_insn *user = &function->insns.data[t->user[use - 1]];
    if (!is_sum(function, user) || !have_same_form(function, user, product)) return false;
    if (block != TS_NONE && user->block != block) return false;
    block = user->block;
  }
  return block != TS_NONE && sinks_to(t, product->block, block) && !is_doubling(t, product);
}

/* What is kept for a register while the function is rewritten. */
struct factors {
  bool is_product;           /* one that is merged into its users */
  struct ts_operand pair[2]; /* as they were where the product was made */
  bool is_negated;
  uint32_t negated_in;       /* block */
  struct ts_operand negated; /* -register */
};

struct merge {
  const struct tables *t;
  struct ts__rewrite rw;
  struct factors *factors; /* by register of the function as it was */
  size_t factor_count;
};

/* Which operand of the sum is merged: 0, 1, or 2 for none. */
static uint32_t merged_term(const struct merge *m, const struct ts_insn *sum,
                            const struct ts_operand *operands) {
  if (!is_sum(m->t->function, sum)) return 2;
  for (uint32_t i = 0; i < 2; i++)
    if (operands[i].kind == TS_OPERAND_REG && operands[i].index < m->factor_count &&
        m->factors[operands[i].index].is_product)
      return i;
  return 2;
}

/* A variable may change before the sum: its value is kept. */
static void keep_factors(struct merge *m, const struct ts_insn *product,
                         const struct ts_operand *operands) {
  struct factors *factors = &m->factors[product->dst];
  struct ts_type type = {product->dtype, product->lanes};
  factors->is_product = true;
  for (int i = 0; i < 2; i++) {
    factors->pair[i] = operands[i];
    if (!ts__rewrite_is_stable(&m->rw, operands[i]))
      factors->pair[i] =
          ts__rewrite_emit(&m->rw, TS_OP_mov, type, TS_NONE, &operands[i], 1, NULL, 0);
  }
}

static struct ts_operand negate(struct merge *m, struct ts_type type, struct ts_operand a) {
  uint64_t sign = sign_bit((enum ts_dtype)type.dtype);
  if (a.kind == TS_OPERAND_IMM)
    return ts__rewrite_imm(&m->rw, m->t->function->constants.data[a.index] ^ sign);
  struct factors *known =
      a.kind == TS_OPERAND_REG && a.index < m->factor_count && ts__rewrite_is_stable(&m->rw, a)
          ? &m->factors[a.index]
          : NULL;
  if (known && known->is_negated && known->negated_in == m->rw.block) return known->negated;
  struct ts_operand result = ts__rewrite_emit(&m->rw, TS_OP_neg, type, TS_NONE, &a, 1, NULL, 0);
  if (known) {
    known->is_negated = true;
    known->negated_in = m->rw.block;
    known->negated = result;
  }
  return result;
}

/* a b + c, a b - c = fma(a, b, -c), c - a b = fma(-a, b, c) */
static void emit_fma(struct merge *m, const struct ts_insn *sum, const struct ts_operand *operands,
                     uint32_t term) {
  struct ts_type type = {sum->dtype, sum->lanes};
  const struct factors *factors = &m->factors[operands[term].index];
  struct ts_operand parts[3] = {factors->pair[0], factors->pair[1], operands[1 - term]};
  struct ts_attr ftz = {TS_ATTR_ftz, 1};
  bool has_ftz = ts_insn_attr(m->t->function, sum, TS_ATTR_ftz, 0) != 0;
  if (sum->op == TS_OP_sub) {
    uint32_t negative = term == 0 ? 2 : parts[1].kind == TS_OPERAND_IMM ? 1 : 0;
    parts[negative] = negate(m, type, parts[negative]);
  }
  ts__rewrite_emit(&m->rw, TS_OP_fma, type, sum->dst, parts, 3, &ftz, has_ftz);
}

static void merge_insn(struct merge *m, const struct ts_insn *old, bool is_merged_product) {
  struct ts_operand operands[TS_MAX_OPERANDS];
  m->rw.place = old->place;
  ts__rewrite_operands(&m->rw, old, operands);
  uint32_t term = merged_term(m, old, operands);
  if (term < 2) {
    emit_fma(m, old, operands, term);
    return;
  }
  if (is_merged_product) keep_factors(m, old, operands);
  ts__rewrite_copy(&m->rw, old, operands);
}

static enum ts_status merge_marked(struct ts_ctx *ctx, const struct tables *t) {
  struct merge m = {.t = t, .factor_count = t->function->regs.count};
  TS_TRY(ts__rewrite_begin(&m.rw, ctx, t->function));
  m.factors = ts_new_array(&m.rw.arena, struct factors, m.factor_count);
  if (!m.factors) m.rw.status = ts_fail_memory(ctx);
  for (uint32_t b = 0; b < t->function->blocks.count && m.rw.status == TS_OK; b++) {
    const struct ts_block *block = &t->function->blocks.data[b];
    m.rw.block = b;
    for (uint32_t k = 0; k < block->insn_count; k++)
      merge_insn(&m, &m.rw.old_insns[block->first_insn + k], t->is_marked[block->first_insn + k]);
  }
  return ts__rewrite_end(&m.rw);
}

static enum ts_status merge_products(struct ts_ctx *ctx, struct ts_function *function) {
  struct tables t = {.function = function};
  bool has_any = false;
  ts_arena_init(&t.arena, function->module->allocator);
  enum ts_status status = make_tables(&t, function) ? ts_fail_memory(ctx) : TS_OK;
  for (size_t i = 0; i < function->insns.count && status == TS_OK; i++)
    if (is_mergeable(&t, &function->insns.data[i])) has_any |= mark(&t, &function->insns.data[i]);
  if (has_any) status = merge_marked(ctx, &t);
  ts_arena_free(&t.arena);
  return status;
}

enum ts_status ts_pass_contract(struct ts_ctx *ctx, struct ts_function *function) {
  TS_TRY(ts_pass_drop_dead(ctx, function)); /* dead users would keep products alive */
  if (normalise(function)) return ts_fail_memory(ctx);
  TS_TRY(ts_pass_drop_dead(ctx, function)); /* negations */
  TS_TRY(split_vectors(ctx, function));
  TS_TRY(ts_pass_drop_dead(ctx, function));
  TS_TRY(merge_products(ctx, function));
  return ts_pass_drop_dead(ctx, function);
}
