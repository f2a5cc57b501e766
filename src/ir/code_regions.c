/* Small ifs are no branches in machine code: their arms are executed under a predicate, and the
 * assembler moves instructions past them as if there were one block. Such chains of blocks are one
 * *region*: their instructions have one order of issue.
 *
 * MEASURED on machine code of nvcc 13.0: guarded loads of ragged tiles all go out before the first
 * of them is used. */
#include "ir/code_priv.h"

/* GUESS: arms of the corpus with up to 10 instructions were seen under predicates. */
enum { MAX_PREDICATED_INSNS = 12 };

static const struct ts_insn *terminator(const struct ts_function *function, uint32_t block) {
  const struct ts_block *b = &function->blocks.data[block];
  return &function->insns.data[b->first_insn + b->insn_count - 1];
}

static bool is_predicable(const struct ts_insn *insn) {
  const struct ts_op_info *info = ts_op_info((enum ts_op)insn->op);
  return !ts__code_is_ordered((enum ts_op)insn->op) && info->unit != TS_UNIT_CTRL &&
         info->unit != TS_UNIT_MATRIX && !(info->flags & F_COLLECTIVE);
}

/* A block that only comes from its head and goes to the join, short and without synchronisation. */
static bool is_arm(const struct ts__code_table *table, uint32_t block, uint32_t join) {
  const struct ts_function *function = table->function;
  const struct ts_block *b = &function->blocks.data[block];
  const struct ts_insn *last = terminator(function, block);
  uint32_t count = 0;
  if (table->cfg.pred_count[block] != 1 || last->op != TS_OP_br ||
      ts_insn_operand(function, last, 0)->index != join)
    return false;
  for (uint32_t id = b->first_insn; id + 1 < b->first_insn + b->insn_count; id++) {
    if (!is_predicable(&function->insns.data[id])) return false;
    count += !(table->insns[id].flags & TS_CODE_FREE);
  }
  return count <= MAX_PREDICATED_INSNS;
}

/* The block at which the small if at the end of `head` is over, or TS_NONE. Its blocks follow one
 * another in number. */
static uint32_t find_join(const struct ts__code_table *table, uint32_t head) {
  const struct ts_function *function = table->function;
  const struct ts_insn *insn = terminator(function, head);
  if (insn->op != TS_OP_cbr) return TS_NONE;
  uint32_t arm = ts_insn_operand(function, insn, 1)->index;
  uint32_t other = ts_insn_operand(function, insn, 2)->index;
  uint32_t join = ts_insn_operand(function, insn, 3)->index;
  bool has_else = other != join;
  if (arm != head + 1 || (has_else && other != arm + 1) || join != head + 2 + has_else ||
      table->cfg.pred_count[join] != 2 || !is_arm(table, arm, join) ||
      (has_else && !is_arm(table, other, join)))
    return TS_NONE;
  return join;
}

/* Predicates cost nothing where they are, and a constant for one arm is set before both. */
static void predicate(struct ts__code_table *table, uint32_t head, uint32_t join) {
  const struct ts_function *function = table->function;
  const struct ts_block *first = &function->blocks.data[head];
  uint32_t id = first->first_insn + first->insn_count - 1;
  uint32_t end = function->blocks.data[join].first_insn;
  for (table->insns[id++].flags |= TS_CODE_FREE; id < end; id++) {
    uint16_t op = function->insns.data[id].op;
    if (op == TS_OP_br || op == TS_OP_mov) table->insns[id].flags |= TS_CODE_FREE;
  }
}

int ts__code_find_regions(struct ts__code_table *table) {
  const struct ts_function *function = table->function;
  uint32_t block_count = (uint32_t)function->blocks.count;
  table->region_end = ts_new_array(&table->scratch, uint32_t, block_count);
  if (!table->region_end) return -1;
  for (uint32_t head = 0; head < block_count;) {
    uint32_t end = head, join;
    while ((join = find_join(table, end)) != TS_NONE) {
      predicate(table, end, join);
      end = join;
    }
    for (uint32_t block = head; block <= end; block++) {
      const struct ts_block *b = &function->blocks.data[block];
      table->region_end[block] = end + 1;
      for (uint32_t id = b->first_insn; id < b->first_insn + b->insn_count; id++)
        table->insns[id].block = head;
    }
    head = end + 1;
  }
  return 0;
}
