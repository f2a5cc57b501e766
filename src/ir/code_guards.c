/* Predicates: branches at which lanes part and meet again, and what is done under a predicate instead.
 *
 * MEASURED on machine code of nvcc 13.0: a branch whose condition is one value for the warp is a plain
 * BRA; any other has BSSY before it and BSYNC at its join. The test of a loop has that outside of the
 * loop. What is done under a predicate waits for it, longer than for an operand (13 cycles, not 4). */
#include "ir/code_priv.h"

/* The blocks that a branch at the end of a round leads back to. */
static void find_loop_heads(const struct ts__code_table *table, bool *is_head) {
  const struct ts_function *function = table->function;
  for (uint32_t id = 0; id < function->insns.count; id++) {
    const struct ts_insn *insn = &function->insns.data[id];
    if (insn->op == TS_OP_br && table->insns[id].flags & TS_CODE_BACKEDGE)
      is_head[ts_insn_operand(function, insn, 0)->index] = true;
  }
}

/* The lane that elect chose issues copies and arrivals. GUESS: what the constants of those were measured
 * with had that branch, so its meeting is in them. */
static bool is_elected(const struct ts__code_table *table, const struct ts_operand *condition) {
  uint32_t unused;
  const struct ts_insn *setter = ts__code_definition(table, condition, &unused);
  return setter && setter->op == TS_OP_elect;
}

static void describe_branch(struct ts__code_table *table, const bool *is_head, uint32_t id) {
  const struct ts_function *function = table->function;
  const struct ts_insn *insn = &function->insns.data[id];
  if (ts__is_uniform(function, ts_insn_operand(function, insn, 0))) return;
  struct ts_code_insn *out = &table->insns[id];
  if (out->flags & TS_CODE_FREE) return;
  out->control |= TS_CODE_GUARDED;
  if (out->flags & TS_CODE_BACKEDGE || is_head[insn->block] ||
      is_elected(table, ts_insn_operand(function, insn, 0)))
    return;
  uint32_t other = ts_insn_operand(function, insn, 2)->index;
  uint32_t join = ts_insn_operand(function, insn, 3)->index;
  uint8_t control = TS_CODE_MEETS | (other != join ? TS_CODE_HAS_ELSE : 0);
  out->control |= control;
  /* The ends of both sides, which come after it. */
  for (uint32_t i = insn->block + 1; i < join; i++) {
    const struct ts_block *b = &function->blocks.data[i];
    uint32_t last = b->first_insn + b->insn_count - 1;
    const struct ts_insn *end = &function->insns.data[last];
    if (end->op == TS_OP_br && ts_insn_operand(function, end, 0)->index == join)
      table->insns[last].control = control;
  }
}

/* What has no effect but its result is done ahead, but for what joins the other side's. */
static bool needs_guard(const struct ts__code_table *table, uint32_t id) {
  const struct ts_function *function = table->function;
  const struct ts_insn *insn = &function->insns.data[id];
  if (table->guard[id] == TS_NONE || table->insns[id].flags & TS_CODE_FREE) return false;
  const struct ts_insn *branch = &function->insns.data[table->guard[id]];
  if (ts__is_uniform(function, ts_insn_operand(function, branch, 0))) return false;
  if (!(ts_op_info((enum ts_op)insn->op)->flags & F_PURE)) return true;
  const struct ts__code_reg *reg = &table->regs[insn->dst];
  bool joins = reg->def_count > 1;
  for (uint32_t i = 0; i < reg->use_count && !joins; i++) {
    const struct ts_insn *user = &function->insns.data[table->uses[reg->first_use + i].insn];
    joins = user->op == TS_OP_mov && table->regs[user->dst].def_count > 1;
  }
  return joins;
}

/* Copies the instruction's references; the predicate of its branch becomes the last of its uses. */
static int copy_refs(struct ts__code_table *table, const struct ts_code_ref *old, uint32_t id) {
  struct ts_code_insn *insn = &table->insns[id];
  const struct ts_allocator *allocator = table->ctx->allocator;
  const struct ts_code_ref *refs = &old[insn->first_ref];
  uint32_t uses = insn->use_count, defs = insn->def_count;
  insn->first_ref = (uint32_t)table->refs.count;
  for (uint32_t i = 0; i < uses; i++)
    if (ts_vec_push(&table->refs, allocator, refs[i])) return -1;
  if (needs_guard(table, id)) {
    /* Of an earlier instruction, whose references have been copied: its only use is its predicate. */
    uint32_t guard = table->guard[id];
    struct ts_code_ref predicate = table->refs.data[table->insns[guard].first_ref];
    if (ts_vec_push(&table->refs, allocator, predicate)) return -1;
    insn->control |= TS_CODE_GUARDED;
    insn->use_count++;
  }
  for (uint32_t i = 0; i < defs; i++)
    if (ts_vec_push(&table->refs, allocator, refs[uses + i])) return -1;
  return 0;
}

int ts__code_find_guards(struct ts__code_table *table) {
  const struct ts_function *function = table->function;
  uint32_t count = (uint32_t)table->refs.count;
  struct ts_code_ref *old = ts_new_array(&table->scratch, struct ts_code_ref, count + 1u);
  bool *is_head = ts_new_array(&table->scratch, bool, function->blocks.count);
  if (!old || !is_head) return -1;
  find_loop_heads(table, is_head);
  for (uint32_t i = 0; i < count; i++)
    old[i] = table->refs.data[i];
  table->refs.count = 0;
  for (uint32_t id = 0; id < function->insns.count; id++) {
    if (function->insns.data[id].op == TS_OP_cbr) describe_branch(table, is_head, id);
    if (copy_refs(table, old, id)) return -1;
  }
  return 0;
}
