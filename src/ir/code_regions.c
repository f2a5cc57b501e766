/* Small ifs are no branches in machine code: their arms are executed under a predicate, and the
 * assembler moves instructions past them as if there were one block. Such chains of blocks are one
 * *region*: their instructions have one order of issue.
 *
 * MEASURED on machine code of nvcc 13.0: guarded loads of ragged tiles all go out before the first
 * of them is used. */
#include "ir/code_priv.h"

/* MEASURED on ifs of growing length: up to 8 instructions become predicates; accesses to global memory
 * count less (16 loads, or 9 of a load and a sum each, still do). */
enum { MAX_PREDICATED_INSNS = 8, MAX_PREDICATED_WITH_GLOBAL = 20 };

/* What arms beside one another compute alike is computed once, where the arms have no other side
 * (guarded stores; MEASURED: with one, as for guarded loads, each arm computes for itself). */
struct region {
  struct ts__code_table *table;
  struct ts__index known; /* instructions */
  uint32_t head;
  bool out_of_memory;
};

static uint32_t same_register(const struct ts__code_table *table,
                              const struct ts_operand *operand) {
  return operand->kind == TS_OPERAND_REG ? table->same_as[operand->index] : operand->index;
}

static bool is_shareable(const struct ts__code_table *table, const struct ts_insn *insn) {
  const struct ts_function *function = table->function;
  if (!(ts_op_info((enum ts_op)insn->op)->flags & F_PURE) || insn->operand_count > 3 ||
      table->regs[insn->dst].def_count != 1)
    return false;
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(function, insn, k);
    if (operand->kind == TS_OPERAND_REG && table->regs[operand->index].def_count > 1) return false;
  }
  return true;
}

static bool is_same(const struct ts__code_table *table, const struct ts_insn *a,
                    const struct ts_insn *b) {
  const struct ts_function *function = table->function;
  if (a->op != b->op || a->dtype != b->dtype || a->dtype2 != b->dtype2 || a->lanes != b->lanes ||
      a->operand_count != b->operand_count || a->attr_count != b->attr_count)
    return false;
  for (uint32_t k = 0; k < a->operand_count; k++) {
    const struct ts_operand *x = ts_insn_operand(function, a, k);
    const struct ts_operand *y = ts_insn_operand(function, b, k);
    if (x->kind != y->kind || same_register(table, x) != same_register(table, y)) return false;
  }
  for (uint32_t i = 0; i < a->attr_count; i++) {
    const struct ts_attr *x = &function->attrs.data[a->attrs + i];
    const struct ts_attr *y = &function->attrs.data[b->attrs + i];
    if (x->id != y->id || x->value != y->value) return false;
  }
  return true;
}

static void share(struct region *region, uint32_t id) {
  struct ts__code_table *table = region->table;
  const struct ts_insn *insn = &table->function->insns.data[id];
  if (insn->dst == TS_NONE || !is_shareable(table, insn)) return;
  uint32_t item, hash = ts__hash_word(region->head, (uint64_t)insn->op << 16 | insn->dtype);
  for (uint32_t k = 0; k < insn->operand_count; k++)
    hash = ts__hash_word(hash, same_register(table, ts_insn_operand(table->function, insn, k)));
  for (size_t at = ts__index_first(&region->known, hash);
       ts__index_find(&region->known, hash, &at, &item); at = ts__index_next(&region->known, at)) {
    const struct ts_insn *other = &table->function->insns.data[item];
    if (table->insns[item].block != region->head || !is_same(table, insn, other)) continue;
    table->same_as[insn->dst] = other->dst;
    table->insns[id].flags |= TS_CODE_FREE;
    return;
  }
  if (ts__index_add(&region->known, table->ctx->allocator, hash, id)) region->out_of_memory = true;
}

static const struct ts_insn *terminator(const struct ts_function *function, uint32_t block) {
  const struct ts_block *b = &function->blocks.data[block];
  return &function->insns.data[b->first_insn + b->insn_count - 1];
}

static bool is_predicable(const struct ts_insn *insn) {
  const struct ts_op_info *info = ts_op_info((enum ts_op)insn->op);
  if (insn->op == TS_OP_atom_global || insn->op == TS_OP_atom_shared) return false; /* MEASURED */
  return !ts__code_is_ordered((enum ts_op)insn->op) && info->unit != TS_UNIT_CTRL &&
         info->unit != TS_UNIT_MATRIX && !(info->flags & F_COLLECTIVE);
}

/* Is what a load brings needed before the arm is over? Then it would be waited for under the
 * predicate, and the compiler leaves the branch (MEASURED: guarded load, sum and store). */
static bool is_waited_for(const struct ts__code_table *table, const struct ts_insn *load) {
  const struct ts__code_reg *reg = &table->regs[load->dst];
  for (uint32_t i = 0; i < reg->use_count; i++) {
    uint32_t user = table->uses[reg->first_use + i].insn;
    const struct ts_insn *insn = &table->function->insns.data[user];
    if (insn->block == load->block && !(table->insns[user].flags & TS_CODE_FREE)) return true;
  }
  return false;
}

/* A block that only comes from its head and goes to the join, short and without synchronisation. */
static bool is_arm(struct region *region, uint32_t block, uint32_t join, bool is_shared) {
  struct ts__code_table *table = region->table;
  const struct ts_function *function = table->function;
  const struct ts_block *b = &function->blocks.data[block];
  const struct ts_insn *last = terminator(function, block);
  uint32_t count = 0;
  bool has_global = false;
  if (table->cfg.pred_count[block] != 1 || last->op != TS_OP_br ||
      ts_insn_operand(function, last, 0)->index != join)
    return false;
  for (uint32_t id = b->first_insn; id + 1 < b->first_insn + b->insn_count; id++) {
    const struct ts_insn *insn = &function->insns.data[id];
    bool is_load = ts_op_info((enum ts_op)insn->op)->unit == TS_UNIT_MEMORY && insn->dst != TS_NONE;
    if (!is_predicable(insn) || (is_load && is_waited_for(table, insn))) return false;
    table->insns[id].block = region->head;
    if (is_shared) share(region, id);
    count += !(table->insns[id].flags & TS_CODE_FREE);
    has_global |= insn->op == TS_OP_ld_global || insn->op == TS_OP_st_global;
  }
  return count <= (uint32_t)(has_global ? MAX_PREDICATED_WITH_GLOBAL : MAX_PREDICATED_INSNS);
}

/* The block at which the small if at the end of `head` is over, or TS_NONE. Its blocks follow one
 * another in number. */
static uint32_t find_join(struct region *region, uint32_t head) {
  const struct ts__code_table *table = region->table;
  const struct ts_function *function = table->function;
  const struct ts_insn *insn = terminator(function, head);
  if (insn->op != TS_OP_cbr) return TS_NONE;
  uint32_t arm = ts_insn_operand(function, insn, 1)->index;
  uint32_t other = ts_insn_operand(function, insn, 2)->index;
  uint32_t join = ts_insn_operand(function, insn, 3)->index;
  bool has_else = other != join;
  if (arm != head + 1 || (has_else && other != arm + 1) || join != head + 2 + has_else ||
      table->cfg.pred_count[join] != 2 || !is_arm(region, arm, join, !has_else) ||
      (has_else && !is_arm(region, other, join, false)))
    return TS_NONE;
  return join;
}

/* Predicates cost nothing where they are, and a constant for one arm is set before both. */
static void predicate(struct ts__code_table *table, uint32_t head, uint32_t join) {
  const struct ts_function *function = table->function;
  const struct ts_block *first = &function->blocks.data[head];
  uint32_t id = first->first_insn + first->insn_count - 1;
  uint32_t end = function->blocks.data[join].first_insn, branch = id;
  for (table->insns[id++].flags |= TS_CODE_FREE; id < end; id++) {
    uint16_t op = function->insns.data[id].op;
    table->guard[id] = branch;
    if (op == TS_OP_br || op == TS_OP_mov) table->insns[id].flags |= TS_CODE_FREE;
  }
}

/* Instructions of a block that belongs to the region for certain. */
static void take_block(struct region *region, uint32_t block) {
  const struct ts_block *b = &region->table->function->blocks.data[block];
  for (uint32_t id = b->first_insn; id < b->first_insn + b->insn_count; id++) {
    region->table->insns[id].block = region->head;
    share(region, id);
  }
}

static void mark_block(struct ts__code_table *table, uint32_t block, uint32_t head) {
  const struct ts_block *b = &table->function->blocks.data[block];
  for (uint32_t id = b->first_insn; id < b->first_insn + b->insn_count; id++)
    table->insns[id].block = head;
}

static uint32_t grow(struct region *region) {
  uint32_t end = region->head, join;
  take_block(region, end);
  while ((join = find_join(region, end)) != TS_NONE) {
    predicate(region->table, end, join);
    take_block(region, join);
    end = join;
  }
  return end + 1;
}

int ts__code_find_regions(struct ts__code_table *table) {
  const struct ts_function *function = table->function;
  uint32_t block_count = (uint32_t)function->blocks.count;
  struct region region = {.table = table};
  table->region_end = ts_new_array(&table->scratch, uint32_t, block_count);
  table->same_as = ts_new_array(&table->scratch, uint32_t, function->regs.count);
  table->guard = ts_new_array(&table->scratch, uint32_t, function->insns.count);
  if (!table->region_end || !table->same_as || !table->guard) return -1;
  for (size_t i = 0; i < function->insns.count; i++)
    table->guard[i] = TS_NONE;
  for (uint32_t i = 0; i < function->regs.count; i++)
    table->same_as[i] = i;
  for (uint32_t head = 0; head < block_count && !region.out_of_memory;) {
    region.head = head;
    uint32_t end = grow(&region);
    for (uint32_t block = head; block < end; block++) {
      table->region_end[block] = end;
      mark_block(table, block, head);
    }
    head = end;
  }
  ts__index_free(&region.known, table->ctx->allocator);
  return region.out_of_memory ? -1 : 0;
}
