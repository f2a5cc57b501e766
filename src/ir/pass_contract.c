/* Merges multiplications into the additions that use them, as nvcc 13 with its default -fmad=true does
 * (MEASURED: PTX and machine code of about 120 small kernels for sm_90a, and of 4700 random ones;
 * docs/ir.md). Two programs take part, and both look at one basic block at a time:
 *
 * The compiler, for f32 and f64. It sorts the operands of an addition (not of a subtraction): the one
 * that depends on less recent loads comes first. It visits additions from last to first, and merges
 * the first operand that is a product with fewer than five uses, all of them additions.
 *
 * The assembler, for what is left and for f16 and bf16. First it merges products with a single use,
 * from first to last, left operand first; then those all of whose uses are additions or subtractions,
 * from first to last, of two operands the one that had fewer uses, else the left one.
 * An addition that has been merged is an fma, so the addend of one is a use that is no addition; and
 * x + x is none either.
 *
 * A product may be in an earlier block than its uses when they all are in one block that is reached
 * through blocks with one predecessor each: the compiler moves it there. Negations of products become
 * signs, and quotients by powers of two products. A product with 2 is x + x. The compiler has a further
 * rule for uses more than 500 instructions away, which is not modelled.
 *
 * All this is about scalars after common subexpressions have been merged, hence values.c. Vector
 * instructions stay whole where all their components go the same way. */
#include "ir/ir_priv.h"

#include <string.h>

static uint64_t sign_bit(enum ts_dtype dtype) { return UINT64_C(1) << (ts_dtype_bits(dtype) - 1); }

/* 2^exponent as an encoding; exponent must be that of a normal number. */
static uint64_t power_of_two(enum ts_dtype dtype, int exponent) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  return (uint64_t)(exponent + info->bias) << info->mantissa_bits;
}

static bool have_same_form(const struct ts_function *function, const struct ts_insn *a,
                           const struct ts_insn *b) {
  return a->dtype == b->dtype && ts__has_ftz(function, a) == ts__has_ftz(function, b);
}

/* --- step 1: one form. Quotients by powers of two become products, negations of products become
 * signs of the sum. Both give the same bits; the compiler does so before it merges. */

/* By register: the only instruction that defines it, TS_NONE when there is none or several. */
static void find_definitions(const struct ts_function *function, uint32_t *def, bool *is_defined) {
  memset(def, 0xff, function->regs.count * sizeof *def);
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE) is_defined[function->params.data[i].reg] = true;
  for (size_t i = 0; i < function->insns.count; i++) {
    uint32_t dst = function->insns.data[i].dst;
    if (dst == TS_NONE) continue;
    def[dst] = is_defined[dst] ? TS_NONE : (uint32_t)i;
    is_defined[dst] = true;
  }
}

static void normalise_quotient(struct ts_function *function, struct ts_insn *insn) {
  enum ts_dtype dtype = (enum ts_dtype)insn->dtype;
  if (insn->op != TS_OP_div || (dtype != TS_DTYPE_f32 && dtype != TS_DTYPE_f64)) return;
  struct ts_operand *operands = &function->operands.data[insn->operands];
  if (operands[1].kind != TS_OPERAND_IMM) return;
  if (insn->attr_count && (insn->attr_count > 1 || !ts__has_ftz(function, insn))) return;
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

static const struct ts_insn *defining(const struct ts_function *function, const uint32_t *def,
                                      struct ts_operand operand) {
  if (operand.kind != TS_OPERAND_REG || def[operand.index] == TS_NONE) return NULL;
  return &function->insns.data[def[operand.index]];
}

/* The product that is negated, when operand is -product and so is a term of a sum. */
static bool negated_product(const struct ts_function *function, const uint32_t *def,
                            const struct ts_insn *sum, struct ts_operand operand,
                            struct ts_operand *product) {
  const struct ts_insn *neg = defining(function, def, operand);
  if (!neg || neg->op != TS_OP_neg || neg->block != sum->block || neg->attr_count) return false;
  *product = *ts_insn_operand(function, neg, 0);
  const struct ts_insn *insn = defining(function, def, *product);
  return insn && ts__is_plain_product(function, insn) && have_same_form(function, sum, insn) &&
         insn->block == sum->block;
}

static void normalise_sum(struct ts_function *function, const uint32_t *def, struct ts_insn *insn) {
  if (!ts__is_plain_sum(function, insn)) return;
  struct ts_operand *operands = &function->operands.data[insn->operands], product;
  if (negated_product(function, def, insn, operands[1], &product)) {
    operands[1] = product;
    insn->op = insn->op == TS_OP_add ? TS_OP_sub : TS_OP_add;
  }
  if (insn->op == TS_OP_add && negated_product(function, def, insn, operands[0], &product)) {
    operands[0] = operands[1];
    operands[1] = product;
    insn->op = TS_OP_sub;
  }
}

static enum ts_status normalise(struct ts_ctx *ctx, struct ts_function *function) {
  struct ts_arena arena;
  ts_arena_init(&arena, function->module->allocator);
  uint32_t *def = ts_new_array(&arena, uint32_t, function->regs.count);
  bool *is_defined = ts_new_array(&arena, bool, function->regs.count);
  bool has_memory = def && is_defined;
  if (has_memory) {
    find_definitions(function, def, is_defined);
    for (size_t i = 0; i < function->insns.count; i++)
      normalise_quotient(function, &function->insns.data[i]);
    for (size_t i = 0; i < function->insns.count; i++)
      normalise_sum(function, def, &function->insns.data[i]);
  }
  ts_arena_free(&arena);
  return has_memory ? TS_OK : ts_fail_memory(ctx);
}

/* --- step 2: which term of which sum */

enum { MAX_COMPILER_USES = 4 };

static const struct ts_insn *insn_of(const struct ts__values *v, const struct ts__value *value) {
  return &v->function->insns.data[value->insn];
}

static const struct ts__value *arg(const struct ts__values *v, const struct ts__value *value,
                                   uint32_t i) {
  return &v->values.data[value->args[i]];
}

static bool is_compilers(const struct ts_insn *insn) {
  return insn->dtype == TS_DTYPE_f32 || insn->dtype == TS_DTYPE_f64;
}

/* The operand of the sum that is looked at first. */
static uint32_t first_term(const struct ts__values *v, const struct ts__value *sum) {
  const struct ts_insn *insn = insn_of(v, sum);
  if (insn->op != TS_OP_add || !is_compilers(insn)) return 0;
  return arg(v, sum, 1)->recency < arg(v, sum, 0)->recency &&
         arg(v, sum, 1)->kind != TS__VALUE_CONSTANT;
}

/* The compiler writes x - constant as an addition. */
static bool is_addition(const struct ts__values *v, const struct ts__value *sum) {
  return insn_of(v, sum)->op == TS_OP_add || arg(v, sum, 1)->kind == TS__VALUE_CONSTANT;
}

enum use { USE_GONE, USE_ADDITION, USE_SUBTRACTION, USE_TWICE, USE_OTHER };

/* What the use of a product is by now, as seen from a block. */
static enum use classify(const struct ts__values *v, const struct ts__value *product,
                         const struct ts__value_use *use, uint32_t block) {
  const struct ts__value *sum = &v->values.data[use->sum];
  if (sum->term == use->position) return USE_GONE;
  if (sum->term != TS__NO_TERM || sum->block != block) return USE_OTHER;
  if (!have_same_form(v->function, insn_of(v, sum), insn_of(v, product))) return USE_OTHER;
  if (sum->args[0] == sum->args[1]) return USE_TWICE;
  return is_addition(v, sum) ? USE_ADDITION : USE_SUBTRACTION;
}

/* Is the block `to` where a product of block `from` would be moved to? */
static bool sinks_to(const struct ts__values *v, uint32_t from, uint32_t to) {
  while (to != from) {
    if (v->cfg.pred_count[to] != 1 || to == v->function->entry) return false;
    to = v->cfg.pred[to];
  }
  return true;
}

static bool is_doubling(const struct ts__values *v, const struct ts__value *product) {
  uint64_t two = power_of_two((enum ts_dtype)insn_of(v, product)->dtype, 1);
  for (uint32_t i = 0; i < 2; i++) {
    const struct ts__value *factor = arg(v, product, i);
    if (factor->kind == TS__VALUE_CONSTANT &&
        (factor->args[0] | (uint64_t)factor->args[1] << 32) == two)
      return true;
  }
  return false;
}

struct uses {
  uint32_t count, additions, sums; /* sums: additions and subtractions, x + x not counted */
};

/* Stops after limit uses, or at one that fits nothing. */
static struct uses count_uses(const struct ts__values *v, const struct ts__value *product,
                              uint32_t block, uint32_t limit) {
  struct uses uses = {0, 0, 0};
  for (uint32_t i = product->first_use; i && uses.count < limit; i = v->uses.data[i - 1].next) {
    enum use kind = classify(v, product, &v->uses.data[i - 1], block);
    if (kind == USE_GONE) continue;
    uses.count++;
    uses.additions += kind == USE_ADDITION || kind == USE_TWICE;
    uses.sums += kind == USE_ADDITION || kind == USE_SUBTRACTION;
    if (kind == USE_OTHER) break;
  }
  return uses;
}

enum step { COMPILER, ASSEMBLER_SINGLE, ASSEMBLER_ALL };

static bool is_merged_in(const struct ts__values *v, const struct ts__value *sum, uint32_t term,
                         enum step step) {
  const struct ts__value *product = arg(v, sum, term);
  if (product->kind != TS__VALUE_PRODUCT || product->is_used_otherwise) return false;
  const struct ts_insn *insn = insn_of(v, product);
  if (!have_same_form(v->function, insn_of(v, sum), insn)) return false;
  if (!sinks_to(v, product->block, sum->block)) return false;
  if (is_compilers(insn) && is_doubling(v, product)) return false;
  uint32_t limit = step == COMPILER           ? MAX_COMPILER_USES + 1
                   : step == ASSEMBLER_SINGLE ? 2
                                              : UINT32_MAX;
  struct uses uses = count_uses(v, product, sum->block, limit);
  if (step == COMPILER) return uses.count < limit && uses.additions == uses.count;
  return uses.sums == uses.count && (step == ASSEMBLER_ALL || uses.count == 1);
}

static uint32_t choose_term(const struct ts__values *v, const struct ts__value *sum,
                            enum step step) {
  uint32_t first = first_term(v, sum), second = 1 - first;
  bool is_first_possible = is_merged_in(v, sum, first, step);
  if (is_first_possible && step != ASSEMBLER_ALL) return first;
  if (!is_merged_in(v, sum, second, step)) return is_first_possible ? first : TS__NO_TERM;
  bool has_second_fewer = arg(v, sum, second)->use_count < arg(v, sum, first)->use_count;
  return is_first_possible && !has_second_fewer ? first : second;
}

/* True when a term was found. */
static bool choose(struct ts__values *v, uint32_t number, enum step step) {
  struct ts__value *sum = &v->values.data[number];
  if (sum->term != TS__NO_TERM) return false;
  if (step == COMPILER && (!is_compilers(insn_of(v, sum)) || !is_addition(v, sum))) return false;
  sum->term = (uint8_t)choose_term(v, sum, step);
  return sum->term != TS__NO_TERM;
}

/* Uses of the terms that the compiler has left. */
static void count_left_uses(struct ts__values *v, const struct ts__value *sum) {
  for (uint32_t i = 0; i < 2; i++) {
    struct ts__value *product = &v->values.data[sum->args[i]];
    if (product->kind != TS__VALUE_PRODUCT || product->use_count) continue;
    for (uint32_t use = product->first_use; use; use = v->uses.data[use - 1].next)
      product->use_count +=
          v->values.data[v->uses.data[use - 1].sum].term != v->uses.data[use - 1].position;
  }
}

/* order: room for the sums of a block. */
static bool choose_in_block(struct ts__values *v, uint32_t block, uint32_t *order) {
  bool has_any = false;
  size_t count = 0;
  for (uint32_t sum = v->first_sum[block]; sum != TS_NONE; sum = v->values.data[sum].next_sum)
    order[count++] = sum;
  for (size_t i = count; i-- > 0;)
    has_any |= choose(v, order[i], COMPILER);
  for (size_t i = 0; i < count; i++)
    count_left_uses(v, &v->values.data[order[i]]);
  for (size_t i = 0; i < count; i++)
    has_any |= choose(v, order[i], ASSEMBLER_SINGLE);
  for (size_t i = 0; i < count; i++)
    has_any |= choose(v, order[i], ASSEMBLER_ALL);
  return has_any;
}

/* --- step 3: rewriting */

/* A component of an operand. */
struct part {
  struct ts_operand operand;
  uint32_t component;
};

struct merge {
  struct ts__values *v;
  struct ts__rewrite rw;
  struct part (*factors)[2]; /* by value of a product, once its instruction has been seen */
  bool *is_seen;             /* by value */
  struct negated {
    struct ts_operand operand;
    uint32_t block; /* + 1 */
  } * negated;      /* by register of the function as it was: -register */
  size_t negated_count;
};

static uint32_t value_at(const struct merge *m, uint32_t id, uint32_t i) {
  return m->v->insn_values.data[m->v->insn_first[id] + i];
}

/* Factors of products as they are where the product is made; a variable may change before the sum,
 * so its value is kept. */
static void keep_factors(struct merge *m, uint32_t id, const struct ts_insn *insn,
                         const struct ts_operand *operands) {
  struct ts_operand kept[2] = {operands[0], operands[1]};
  struct ts_type type = {insn->dtype, insn->lanes};
  for (int k = 0; k < 2; k++)
    if (!ts__rewrite_is_stable(&m->rw, operands[k]))
      kept[k] = ts__rewrite_emit(&m->rw, TS_OP_mov, type, TS_NONE, &operands[k], 1, NULL, 0);
  for (uint32_t i = 0; i < insn->lanes; i++) {
    uint32_t value = value_at(m, id, i);
    if (m->is_seen[value]) continue;
    m->is_seen[value] = true;
    for (int k = 0; k < 2; k++)
      m->factors[value][k] = (struct part){kept[k], i};
  }
}

/* Does the product have a sum that takes it? */
static bool is_merged_anywhere(const struct merge *m, uint32_t value) {
  const struct ts__values *v = m->v;
  for (uint32_t i = v->values.data[value].first_use; i; i = v->uses.data[i - 1].next) {
    const struct ts__value_use *use = &v->uses.data[i - 1];
    if (v->values.data[use->sum].term == use->position) return true;
  }
  return false;
}

/* A vector of parts; the operand itself when the parts are all of its components in order. */
static struct ts_operand gather(struct merge *m, struct ts_type type, const struct part *parts) {
  const struct ts_operand first = parts[0].operand;
  struct ts_operand scalars[TS_MAX_VECTOR_LANES];
  bool is_whole = first.kind != TS_OPERAND_REG ||
                  m->rw.function->regs.data[first.index].type.lanes == type.lanes;
  for (uint32_t i = 0; i < type.lanes; i++)
    is_whole &= parts[i].operand.kind == first.kind && parts[i].operand.index == first.index &&
                (first.kind != TS_OPERAND_REG || parts[i].component == i);
  if (is_whole) return first;
  for (uint32_t i = 0; i < type.lanes; i++)
    scalars[i] = ts__rewrite_component(&m->rw, parts[i].operand, type, parts[i].component);
  return ts__rewrite_gather(&m->rw, type, scalars);
}

static struct ts_operand negate(struct merge *m, struct ts_type type, struct ts_operand a) {
  uint64_t sign = sign_bit((enum ts_dtype)type.dtype);
  if (a.kind == TS_OPERAND_IMM)
    return ts__rewrite_imm(&m->rw, m->rw.function->constants.data[a.index] ^ sign);
  bool is_kept = a.index < m->negated_count && ts__rewrite_is_stable(&m->rw, a);
  struct negated *known = is_kept ? &m->negated[a.index] : NULL;
  if (known && known->block == m->rw.block + 1) return known->operand;
  struct ts_operand result = ts__rewrite_emit(&m->rw, TS_OP_neg, type, TS_NONE, &a, 1, NULL, 0);
  if (known) *known = (struct negated){result, m->rw.block + 1};
  return result;
}

/* a b + c, a b - c = fma(a, b, -c), c - a b = fma(-a, b, c) */
static struct ts_operand emit_fma(struct merge *m, const struct ts_insn *sum, struct ts_type type,
                                  uint32_t dst, uint32_t term, const struct part factors[][2],
                                  struct ts_operand addend) {
  struct ts_operand parts[3];
  struct part column[TS_MAX_VECTOR_LANES];
  struct ts_attr ftz = {TS_ATTR_ftz, 1};
  for (int k = 0; k < 2; k++) {
    for (uint32_t i = 0; i < type.lanes; i++)
      column[i] = factors[i][k];
    parts[k] = gather(m, type, column);
  }
  parts[2] = addend;
  if (sum->op == TS_OP_sub) {
    uint32_t negative = term == 0 ? 2 : parts[1].kind == TS_OPERAND_IMM ? 1 : 0;
    parts[negative] = negate(m, type, parts[negative]);
  }
  return ts__rewrite_emit(&m->rw, TS_OP_fma, type, dst, parts, 3, &ftz,
                          ts__has_ftz(m->rw.function, sum));
}

/* The term of a component, and the factors of the product that it is. */
static uint32_t term_of(const struct merge *m, uint32_t id, uint32_t i, struct part factors[2]) {
  const struct ts__value *sum = &m->v->values.data[value_at(m, id, i)];
  if (sum->term == TS__NO_TERM) return TS__NO_TERM;
  uint32_t product = sum->args[sum->term];
  /* Blocks may be in any order: a product that has not been seen yet stays apart. */
  if (!m->is_seen[product]) return TS__NO_TERM;
  factors[0] = m->factors[product][0];
  factors[1] = m->factors[product][1];
  return sum->term;
}

/* Components that go different ways go alone. */
static void split_sum(struct merge *m, const struct ts_insn *insn,
                      const struct ts_operand *operands, const uint32_t *terms,
                      const struct part factors[][2]) {
  struct ts_type type = {insn->dtype, insn->lanes}, scalar = {insn->dtype, 1};
  struct ts_operand parts[TS_MAX_VECTOR_LANES];
  struct ts_attr ftz = {TS_ATTR_ftz, 1};
  for (uint32_t i = 0; i < insn->lanes; i++) {
    struct ts_operand pair[2];
    for (int k = 0; k < 2; k++)
      pair[k] = ts__rewrite_component(&m->rw, operands[k], type, i);
    parts[i] = terms[i] == TS__NO_TERM
                   ? ts__rewrite_emit(&m->rw, (enum ts_op)insn->op, scalar, TS_NONE, pair, 2, &ftz,
                                      ts__has_ftz(m->rw.function, insn))
                   : emit_fma(m, insn, scalar, TS_NONE, terms[i], &factors[i], pair[1 - terms[i]]);
  }
  struct ts_operand whole = ts__rewrite_gather(&m->rw, type, parts);
  ts__rewrite_emit(&m->rw, TS_OP_mov, type, insn->dst, &whole, 1, NULL, 0);
  ts__rewrite_replace(&m->rw, insn->dst, whole);
}

/* True when the sum has become something else. */
static bool merge_sum(struct merge *m, uint32_t id, const struct ts_insn *insn,
                      const struct ts_operand *operands) {
  struct part factors[TS_MAX_VECTOR_LANES][2];
  uint32_t terms[TS_MAX_VECTOR_LANES] = {TS__NO_TERM};
  bool are_alike = true;
  for (uint32_t i = 0; i < insn->lanes; i++) {
    terms[i] = term_of(m, id, i, factors[i]);
    are_alike &= terms[i] == terms[0];
  }
  if (!are_alike) {
    split_sum(m, insn, operands, terms, (const struct part(*)[2])factors);
    return true;
  }
  if (terms[0] == TS__NO_TERM) return false;
  struct ts_type type = {insn->dtype, insn->lanes};
  emit_fma(m, insn, type, insn->dst, terms[0], (const struct part(*)[2])factors,
           operands[1 - terms[0]]);
  return true;
}

static void merge_insn(struct merge *m, uint32_t id) {
  const struct ts_insn *insn = &m->rw.old_insns[id];
  const struct ts_function *function = m->rw.function;
  struct ts_operand operands[TS_MAX_OPERANDS], value;
  m->rw.place = insn->place;
  ts__rewrite_operands(&m->rw, insn, operands);
  if (ts__is_plain_sum(function, insn) && merge_sum(m, id, insn, operands)) return;
  if (ts__is_plain_product(function, insn)) {
    bool is_wanted = false;
    for (uint32_t i = 0; i < insn->lanes; i++)
      is_wanted |= is_merged_anywhere(m, value_at(m, id, i));
    if (is_wanted) keep_factors(m, id, insn, operands);
  }
  value = operands[0];
  if (insn->op == TS_OP_extract)
    value = ts__rewrite_component(&m->rw, operands[0], (struct ts_type){insn->dtype, 1},
                                  (uint32_t)function->constants.data[operands[1].index]);
  ts__rewrite_copy(&m->rw, insn, operands);
  bool is_move = insn->op == TS_OP_mov && !insn->attr_count;
  if (is_move || insn->op == TS_OP_extract) ts__rewrite_replace(&m->rw, insn->dst, value);
}

static enum ts_status merge_products(struct ts_ctx *ctx, struct ts_function *function,
                                     struct ts__values *v) {
  struct merge m = {.v = v, .negated_count = function->regs.count};
  TS_TRY(ts__rewrite_begin(&m.rw, ctx, function));
  m.factors =
      ts_arena_alloc_array(&m.rw.arena, v->values.count, sizeof *m.factors, _Alignof(struct part));
  m.is_seen = ts_new_array(&m.rw.arena, bool, v->values.count);
  m.negated = ts_new_array(&m.rw.arena, struct negated, m.negated_count);
  if (!m.factors || !m.is_seen || !m.negated) m.rw.status = ts_fail_memory(ctx);
  for (uint32_t b = 0; b < function->blocks.count && m.rw.status == TS_OK; b++) {
    const struct ts_block *block = &function->blocks.data[b];
    m.rw.block = b;
    for (uint32_t k = 0; k < block->insn_count; k++)
      merge_insn(&m, block->first_insn + k);
  }
  return ts__rewrite_end(&m.rw);
}

static enum ts_status merge(struct ts_ctx *ctx, struct ts_function *function) {
  struct ts_arena arena;
  struct ts__values v;
  bool has_any = false;
  ts_arena_init(&arena, function->module->allocator);
  int failed = ts__values_init(&v, &arena, function);
  uint32_t *order = ts_new_array(&arena, uint32_t, v.values.count);
  enum ts_status status = failed || !order ? ts_fail_memory(ctx) : TS_OK;
  for (uint32_t b = 0; b < function->blocks.count && status == TS_OK; b++)
    has_any |= choose_in_block(&v, b, order);
  if (has_any) status = merge_products(ctx, function, &v);
  ts__values_free(&v);
  ts_arena_free(&arena);
  return status;
}

enum ts_status ts_pass_contract(struct ts_ctx *ctx, struct ts_function *function) {
  TS_TRY(ts_pass_drop_dead(ctx, function)); /* dead users would keep products alive */
  TS_TRY(normalise(ctx, function));
  TS_TRY(ts_pass_drop_dead(ctx, function)); /* negations */
  TS_TRY(merge(ctx, function));
  return ts_pass_drop_dead(ctx, function);
}
