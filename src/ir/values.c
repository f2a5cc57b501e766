/* Numbers values component by component. */
#include "ir/ir_priv.h"

#include <string.h>

/* Recency is what LLVM's reassociation pass calls rank: instructions that must stay where they are are
 * counted, from a multiple of 2^16 in each block, and a computed value comes right after the latest
 * of its operands. */
enum { BLOCK_RECENCY_BITS = 16 };

/* --- what is said about an instruction */

static bool is_plain(const struct ts_function *function, const struct ts_insn *insn) {
  enum ts_dtype dtype = (enum ts_dtype)insn->dtype;
  if (dtype != TS_DTYPE_f32 && dtype != TS_DTYPE_f64 && dtype != TS_DTYPE_f16 &&
      dtype != TS_DTYPE_bf16)
    return false;
  for (uint32_t i = insn->attrs; i < insn->attrs + insn->attr_count; i++) {
    const struct ts_attr *attr = &function->attrs.data[i];
    bool is_nearest = attr->id == TS_ATTR_round && attr->value == TS_IR_ROUND_rn;
    bool is_unset = attr->id != TS_ATTR_round && attr->value == 0;
    if (attr->id != TS_ATTR_ftz && !is_nearest && !is_unset) return false;
  }
  return true;
}

bool ts__is_plain_sum(const struct ts_function *function, const struct ts_insn *insn) {
  return (insn->op == TS_OP_add || insn->op == TS_OP_sub) && is_plain(function, insn);
}

bool ts__is_plain_product(const struct ts_function *function, const struct ts_insn *insn) {
  return insn->op == TS_OP_mul && is_plain(function, insn);
}

bool ts__has_ftz(const struct ts_function *function, const struct ts_insn *insn) {
  return ts_insn_attr(function, insn, TS_ATTR_ftz, 0) != 0;
}

/* Vectors of 16-bit floats are pairs in one register (half2): a pair goes one way as a whole, and an
 * instruction on pairs is another one than the same on halves. */
static bool is_packed(const struct ts_insn *insn) {
  bool is_half = insn->dtype == TS_DTYPE_f16 || insn->dtype == TS_DTYPE_bf16;
  return is_half && insn->lanes > 1 && insn->lanes % 2 == 0;
}

static bool have_same_packing(const struct ts_insn *a, uint32_t a_component,
                              const struct ts_insn *b, uint32_t b_component) {
  return is_packed(a) == is_packed(b) && (!is_packed(a) || a_component % 2 == b_component % 2);
}

/* --- values */

static uint32_t new_value(struct ts__values *v, struct ts__value value) {
  value.term = TS__NO_TERM;
  value.next_sum = TS_NONE;
  if (ts_vec_push(&v->values, v->arena->allocator, value)) {
    v->out_of_memory = true;
    return 0;
  }
  return (uint32_t)v->values.count - 1;
}

static struct ts__value outside(uint32_t block, uint64_t recency) {
  return (struct ts__value){
      .insn = TS_NONE, .block = block, .recency = recency, .args = {TS_NONE, TS_NONE, TS_NONE}};
}

/* What a variable holds when a block begins is a value of its own. */
static void start_variable(struct ts__values *v, uint32_t reg, uint32_t block) {
  uint32_t lanes = v->function->regs.data[reg].type.lanes;
  v->known_in[reg] = block + 1;
  for (uint32_t i = 0; i < lanes; i++)
    v->numbers[v->first_number[reg] + i] = new_value(v, outside(block, v->block_start));
}

static uint32_t read_reg(struct ts__values *v, uint32_t reg, uint32_t component, uint32_t block) {
  uint32_t *number = &v->numbers[v->first_number[reg] + component];
  if (v->def_count[reg] > 1 && v->known_in[reg] != block + 1) start_variable(v, reg, block);
  if (*number == TS_NONE) *number = new_value(v, outside(block, 1));
  return *number;
}

/* Constants are found again by encoding and type. */
static uint32_t constant_value(struct ts__values *v, uint32_t kind, uint64_t encoding,
                               enum ts_dtype dtype) {
  uint32_t item, hash = ts__hash_word(7 + kind, encoding ^ (uint64_t)dtype << 56);
  uint32_t low = (uint32_t)encoding, high = (uint32_t)(encoding >> 32);
  uint32_t tag = kind << 8 | (uint32_t)dtype;
  for (size_t at = ts__index_first(&v->index, hash); ts__index_find(&v->index, hash, &at, &item);
       at = ts__index_next(&v->index, at)) {
    const struct ts__value *value = &v->values.data[item];
    if (value->kind == TS__VALUE_CONSTANT && value->args[0] == low && value->args[1] == high &&
        value->args[2] == tag)
      return item;
  }
  struct ts__value value = {.kind = TS__VALUE_CONSTANT, .insn = TS_NONE, .args = {low, high, tag}};
  item = new_value(v, value);
  if (ts__index_add(&v->index, v->arena->allocator, hash, item)) v->out_of_memory = true;
  return item;
}

/* Component i of an operand; scalars stand for all components. */
static uint32_t read_operand(struct ts__values *v, const struct ts_insn *insn, uint32_t k,
                             uint32_t i) {
  const struct ts_function *function = v->function;
  const struct ts_operand *operand = ts_insn_operand(function, insn, k);
  if (operand->kind == TS_OPERAND_REG) {
    bool is_scalar = function->regs.data[operand->index].type.lanes == 1;
    return read_reg(v, operand->index, is_scalar ? 0 : i, insn->block);
  }
  uint64_t encoding =
      operand->kind == TS_OPERAND_IMM ? function->constants.data[operand->index] : operand->index;
  return constant_value(v, operand->kind, encoding, ts__imm_dtype(insn, k));
}

/* --- equal computations */

/* Not add: users of a sum's term want to know which operand it is. */
static bool is_commutative(enum ts_op op) {
  return op == TS_OP_mul || op == TS_OP_min || op == TS_OP_max || op == TS_OP_and ||
         op == TS_OP_or || op == TS_OP_xor;
}

static bool have_same_attrs(const struct ts_function *function, const struct ts_insn *a,
                            const struct ts_insn *b) {
  if (a->attr_count != b->attr_count) return false;
  for (uint32_t i = 0; i < a->attr_count; i++) {
    const struct ts_attr *x = &function->attrs.data[a->attrs + i];
    const struct ts_attr *y = &function->attrs.data[b->attrs + i];
    if (x->id != y->id || x->value != y->value) return false;
  }
  return true;
}

static bool have_same_args(enum ts_op op, const uint32_t *a, const uint32_t *b) {
  if (a[2] != b[2]) return false;
  if (a[0] == b[0] && a[1] == b[1]) return true;
  return is_commutative(op) && a[0] == b[1] && a[1] == b[0];
}

static bool is_same_computation(const struct ts__values *v, const struct ts__value *value,
                                const struct ts_insn *insn, const uint32_t args[3], uint32_t i) {
  if (value->insn == TS_NONE) return false;
  const struct ts_insn *other = &v->function->insns.data[value->insn];
  return other->op == insn->op && other->dtype == insn->dtype && other->dtype2 == insn->dtype2 &&
         (insn->op != TS_OP_ramp || value->component == i) &&
         have_same_packing(other, value->component, insn, i) &&
         have_same_args((enum ts_op)insn->op, value->args, args) &&
         have_same_attrs(v->function, other, insn) &&
         (value->block == insn->block || ts__cfg_dominates(&v->cfg, value->block, insn->block));
}

static uint32_t hash_computation(const struct ts_insn *insn, const uint32_t args[3]) {
  uint32_t hash =
      ts__hash_word(8, (uint64_t)insn->op << 16 | (uint64_t)insn->dtype << 8 | insn->dtype2);
  uint64_t sum = (uint64_t)args[0] + args[1], mixed = args[0] ^ args[1];
  hash =
      ts__hash_word(hash, is_commutative((enum ts_op)insn->op) ? sum << 32 ^ mixed
                                                               : (uint64_t)args[0] << 32 | args[1]);
  return ts__hash_word(hash, args[2]);
}

/* --- uses */

static void use_in_sum(struct ts__values *v, uint32_t value, uint32_t sum, uint8_t position) {
  struct ts__value_use use = {sum, v->values.data[value].first_use, position};
  if (ts_vec_push(&v->uses, v->arena->allocator, use)) {
    v->out_of_memory = true;
    return;
  }
  v->values.data[value].first_use = (uint32_t)v->uses.count;
}

static void append_sum(struct ts__values *v, uint32_t block, uint32_t sum) {
  if (v->first_sum[block] == TS_NONE)
    v->first_sum[block] = sum;
  else
    v->values.data[v->last_sum[block]].next_sum = sum;
  v->last_sum[block] = sum;
}

static uint64_t latest(const struct ts__values *v, const uint32_t args[3]) {
  uint64_t recency = 0;
  for (int i = 0; i < 3; i++)
    if (args[i] != TS_NONE && v->values.data[args[i]].recency > recency)
      recency = v->values.data[args[i]].recency;
  return recency;
}

static bool fits_packing(const struct ts__values *v, uint32_t number, const struct ts_insn *sum,
                         uint32_t i) {
  const struct ts__value *value = &v->values.data[number];
  return value->kind != TS__VALUE_PRODUCT ||
         have_same_packing(&v->function->insns.data[value->insn], value->component, sum, i);
}

static uint32_t new_computation(struct ts__values *v, uint32_t id, const uint32_t args[3],
                                uint32_t i) {
  const struct ts_insn *insn = &v->function->insns.data[id];
  bool is_step = insn->op != TS_OP_neg;
  struct ts__value value = {.component = (uint8_t)i,
                            .insn = id,
                            .block = insn->block,
                            .args = {args[0], args[1], args[2]},
                            .recency = latest(v, args) + is_step};
  bool is_sum = ts__is_plain_sum(v->function, insn);
  if (is_sum) value.kind = TS__VALUE_SUM;
  if (ts__is_plain_product(v->function, insn)) value.kind = TS__VALUE_PRODUCT;
  uint32_t number = new_value(v, value);
  for (uint8_t k = 0; k < 3 && !v->out_of_memory; k++) {
    if (args[k] == TS_NONE) continue;
    if (is_sum && fits_packing(v, args[k], insn, i))
      use_in_sum(v, args[k], number, k);
    else
      v->values.data[args[k]].is_used_otherwise = true;
  }
  if (is_sum) append_sum(v, insn->block, number);
  return number;
}

/* Equal computations in blocks beside one another are kept apart: so many of them are looked at.
 * The limit bounds the work on trees with tens of thousands of equal arms. */
enum { MAX_CANDIDATES = 256 };

static uint32_t computation(struct ts__values *v, uint32_t id, uint32_t i) {
  const struct ts_insn *insn = &v->function->insns.data[id];
  uint32_t args[3] = {TS_NONE, TS_NONE, TS_NONE}, item;
  for (uint32_t k = 0; k < insn->operand_count; k++)
    args[k] = read_operand(v, insn, k, i);
  uint32_t hash = hash_computation(insn, args), candidate_count = 0;
  for (size_t at = ts__index_first(&v->index, hash);
       candidate_count < MAX_CANDIDATES && ts__index_find(&v->index, hash, &at, &item);
       at = ts__index_next(&v->index, at), candidate_count++)
    if (is_same_computation(v, &v->values.data[item], insn, args, i)) return item;
  item = new_computation(v, id, args, i);
  if (candidate_count < MAX_CANDIDATES && ts__index_add(&v->index, v->arena->allocator, hash, item))
    v->out_of_memory = true;
  return item;
}

/* --- instructions */

static void use_otherwise(struct ts__values *v, const struct ts_insn *insn) {
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(v->function, insn, k);
    if (operand->kind != TS_OPERAND_REG) continue;
    uint32_t lanes = v->function->regs.data[operand->index].type.lanes;
    for (uint32_t i = 0; i < lanes && !v->out_of_memory; i++) {
      uint32_t number = read_reg(v, operand->index, i, insn->block);
      if (!v->out_of_memory) v->values.data[number].is_used_otherwise = true;
    }
  }
}

/* Component i of a concat's result. */
static uint32_t part_of_concat(struct ts__values *v, const struct ts_insn *insn, uint32_t i) {
  for (uint32_t k = 0;; k++) {
    const struct ts_operand *operand = ts_insn_operand(v->function, insn, k);
    uint32_t lanes =
        operand->kind == TS_OPERAND_REG ? v->function->regs.data[operand->index].type.lanes : 1;
    if (i < lanes) return read_operand(v, insn, k, i);
    i -= lanes;
  }
}

static bool is_seen_through(const struct ts_insn *insn) {
  return (insn->op == TS_OP_mov && !insn->attr_count) || insn->op == TS_OP_extract ||
         insn->op == TS_OP_concat || insn->op == TS_OP_broadcast;
}

static uint32_t component_value(struct ts__values *v, uint32_t id, uint32_t i) {
  const struct ts_insn *insn = &v->function->insns.data[id];
  switch (insn->op) {
  case TS_OP_mov: return read_operand(v, insn, 0, i);
  case TS_OP_broadcast: return read_operand(v, insn, 0, 0);
  case TS_OP_concat: return part_of_concat(v, insn, i);
  case TS_OP_extract: {
    uint32_t index = ts_insn_operand(v->function, insn, 1)->index;
    return read_operand(v, insn, 0, (uint32_t)v->function->constants.data[index]);
  }
  default: return computation(v, id, i);
  }
}

/* Componentwise and without memory: what may be one value with another. */
static bool is_computation(const struct ts_insn *insn) {
  return ts_op_info((enum ts_op)insn->op)->flags & F_PURE && insn->op != TS_OP_bitcast &&
         insn->op != TS_OP_sreg && insn->operand_count <= 3;
}

static void number_dst(struct ts__values *v, uint32_t id, bool is_known) {
  const struct ts_insn *insn = &v->function->insns.data[id];
  uint32_t lanes = v->function->regs.data[insn->dst].type.lanes;
  uint32_t numbers[TS_MAX_VECTOR_LANES];
  for (uint32_t i = 0; i < lanes && !v->out_of_memory; i++)
    numbers[i] = is_known ? component_value(v, id, i) : new_value(v, outside(insn->block, v->now));
  if (v->out_of_memory) return;
  bool is_variable = v->def_count[insn->dst] > 1;
  v->known_in[insn->dst] = insn->block + 1;
  for (uint32_t i = 0; i < lanes; i++) {
    v->numbers[v->first_number[insn->dst] + i] = numbers[i];
    /* Whoever reads a variable does so in another block: readers in this one read the value. */
    if (is_variable) v->values.data[numbers[i]].is_used_otherwise = true;
  }
  if (!ts__is_plain_sum(v->function, insn) && !ts__is_plain_product(v->function, insn)) return;
  v->insn_first[id] = (uint32_t)v->insn_values.count;
  for (uint32_t i = 0; i < lanes; i++)
    if (ts_vec_push(&v->insn_values, v->arena->allocator, numbers[i])) v->out_of_memory = true;
}

static void number_insn(struct ts__values *v, uint32_t id) {
  const struct ts_insn *insn = &v->function->insns.data[id];
  bool is_known = insn->dst != TS_NONE && (is_seen_through(insn) || is_computation(insn));
  if (!is_known) use_otherwise(v, insn);
  /* Arrays are registers to the compiler. */
  bool is_pinned = !(ts_op_info((enum ts_op)insn->op)->flags & F_PURE) &&
                   insn->op != TS_OP_ld_local && insn->op != TS_OP_st_local;
  v->now += is_pinned;
  if (insn->dst != TS_NONE && !v->out_of_memory) number_dst(v, id, is_known);
}

/* Do both products of a pair go into the two sums of the same pairs? */
static bool have_same_uses(const struct ts__values *v, const struct ts__value *a,
                           const struct ts__value *b) {
  uint32_t i = a->first_use, k = b->first_use;
  for (; i && k; i = v->uses.data[i - 1].next, k = v->uses.data[k - 1].next) {
    const struct ts__value_use *x = &v->uses.data[i - 1], *y = &v->uses.data[k - 1];
    const struct ts__value *s = &v->values.data[x->sum], *t = &v->values.data[y->sum];
    if (s->insn != t->insn || s->component / 2 != t->component / 2 || x->position != y->position)
      return false;
  }
  return i == k && a->is_used_otherwise == b->is_used_otherwise;
}

static void join_pairs(struct ts__values *v) {
  for (size_t id = 0; id < v->function->insns.count; id++) {
    const struct ts_insn *insn = &v->function->insns.data[id];
    if (!ts__is_plain_product(v->function, insn) || !is_packed(insn)) continue;
    const uint32_t *numbers = &v->insn_values.data[v->insn_first[id]];
    for (uint32_t i = 0; i < insn->lanes; i += 2) {
      struct ts__value *a = &v->values.data[numbers[i]], *b = &v->values.data[numbers[i + 1]];
      if (!have_same_uses(v, a, b)) a->is_used_otherwise = b->is_used_otherwise = true;
    }
  }
}

static int allocate(struct ts__values *v) {
  const struct ts_function *function = v->function;
  struct ts_arena *arena = v->arena;
  size_t reg_count = function->regs.count, block_count = function->blocks.count, count = 0;
  v->first_number = ts_new_array(arena, uint32_t, reg_count);
  v->def_count = ts_new_array(arena, uint32_t, reg_count);
  v->known_in = ts_new_array(arena, uint32_t, reg_count);
  v->insn_first = ts_new_array(arena, uint32_t, function->insns.count);
  v->first_sum = ts_new_array(arena, uint32_t, block_count);
  v->last_sum = ts_new_array(arena, uint32_t, block_count);
  if (!v->first_number || !v->def_count || !v->known_in || !v->insn_first || !v->first_sum ||
      !v->last_sum)
    return -1;
  for (size_t i = 0; i < reg_count; i++) {
    v->first_number[i] = (uint32_t)count;
    count += function->regs.data[i].type.lanes;
  }
  v->numbers = ts_new_array(arena, uint32_t, count);
  if (!v->numbers) return -1;
  memset(v->numbers, 0xff, count * sizeof *v->numbers);
  memset(v->insn_first, 0xff, function->insns.count * sizeof *v->insn_first);
  memset(v->first_sum, 0xff, block_count * sizeof *v->first_sum);
  return ts__cfg_init(&v->cfg, arena, function);
}

static void count_definitions(struct ts__values *v) {
  const struct ts_function *function = v->function;
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE) v->def_count[function->params.data[i].reg]++;
  for (size_t i = 0; i < function->insns.count; i++)
    if (function->insns.data[i].dst != TS_NONE) v->def_count[function->insns.data[i].dst]++;
}

int ts__values_init(struct ts__values *v, struct ts_arena *arena,
                    const struct ts_function *function) {
  *v = (struct ts__values){.arena = arena, .function = function, .now = 2};
  if (allocate(v)) return -1;
  count_definitions(v);
  for (uint32_t b = 0; b < function->blocks.count; b++) {
    const struct ts_block *block = &function->blocks.data[b];
    v->now = ((v->now >> BLOCK_RECENCY_BITS) + 1) << BLOCK_RECENCY_BITS;
    v->block_start = v->now;
    for (uint32_t k = 0; k < block->insn_count && !v->out_of_memory; k++)
      number_insn(v, block->first_insn + k);
  }
  if (v->out_of_memory) return -1;
  join_pairs(v);
  return 0;
}

void ts__values_free(struct ts__values *v) {
  const struct ts_allocator *allocator = v->arena->allocator;
  ts_vec_free(&v->values, allocator);
  ts_vec_free(&v->uses, allocator);
  ts_vec_free(&v->insn_values, allocator);
  ts__index_free(&v->index, allocator);
}
