/* The table of what a machine compiler makes of a function. */
#include "ir/code_priv.h"

#include <string.h>

static bool divides(uint16_t op) {
  return op == TS_OP_div || op == TS_OP_rem || op == TS_OP_floordiv || op == TS_OP_floormod;
}

/* Least and greatest of f32 and f64 in global memory: there is no such instruction. */
static bool swaps(const struct ts_function *function, const struct ts_insn *insn) {
  int64_t reduce = ts_insn_attr(function, insn, TS_ATTR_reduce, 0);
  return (insn->op == TS_OP_atom_global || insn->op == TS_OP_atom_global_ret) &&
         (reduce == TS_IR_REDUCE_max || reduce == TS_IR_REDUCE_min) &&
         ts_dtype_is_float((enum ts_dtype)insn->dtype) &&
         ts_dtype_bits((enum ts_dtype)insn->dtype) >= TS__WORD_BITS;
}

static void describe(struct ts__code_table *table, uint32_t id) {
  const struct ts_function *function = table->function;
  const struct ts_insn *insn = &function->insns.data[id];
  struct ts_code_insn *out = &table->insns[id];
  uint64_t columns, unused;
  out->op = insn->op;
  out->dtype = insn->dtype;
  out->lanes = insn->lanes;
  out->dtype2 = insn->dtype2;
  out->block = insn->block;
  out->m = (uint16_t)ts_insn_attr(function, insn, TS_ATTR_m, 0);
  out->n = (uint16_t)ts_insn_attr(function, insn, TS_ATTR_n, 0);
  out->k = (uint16_t)ts_insn_attr(function, insn, TS_ATTR_k, 0);
  if (insn->op == TS_OP_ldmatrix) out->m = (uint16_t)ts_insn_attr(function, insn, TS_ATTR_num, 1);
  if (insn->op == TS_OP_stmatrix) out->m = (uint16_t)(insn->operand_count - 2);
  if (insn->op == TS_OP_tmem_alloc &&
      ts__code_constant(function, ts_insn_operand(function, insn, 1), &columns))
    out->n = (uint16_t)columns;
  if (ts_insn_attr(function, insn, TS_ATTR_approx, 0))
    out->approx = function->fast_math || ts_insn_attr(function, insn, TS_ATTR_ftz, 0)
                      ? TS_CODE_APPROX_FLUSH
                      : TS_CODE_APPROX_SUBNORMAL;
  if (ts__code_is_ordered((enum ts_op)insn->op)) out->flags |= TS_CODE_VOLATILE;
  if (swaps(function, insn)) out->flags |= TS_CODE_SWAPS;
  if (divides(insn->op) &&
      !ts__code_constant(function, ts_insn_operand(function, insn, 1), &unused))
    out->flags |= TS_CODE_VARIABLE;
}

static int order(struct ts__code_table *table, struct ts_code *code) {
  struct ts__code_values values;
  struct ts__code_peaks peaks = {0};
  int failed = ts__code_values_init(&values, table) || ts__code_find_order(table, &values, &peaks);
  ts__code_values_free(&values);
  ts__code_registers(table, peaks, code);
  return failed ? -1 : 0;
}

static int derive(struct ts__code_table *table, struct ts_code *code) {
  const struct ts_function *function = table->function;
  size_t insn_count = function->insns.count;
  table->insns = ts_new_array(table->out, struct ts_code_insn, insn_count);
  table->regs = ts_new_array(&table->scratch, struct ts__code_reg, function->regs.count);
  if (!table->insns || !table->regs || ts__cfg_init(&table->cfg, &table->scratch, function))
    return -1;
  for (uint32_t id = 0; id < insn_count; id++)
    describe(table, id);
  if (ts__code_find_refs(table) || ts__code_find_folds(table) || ts__code_find_regions(table) ||
      ts__code_find_addresses(table) || order(table, code) || ts__code_find_guards(table))
    return -1;
  struct ts_code_ref *refs = ts_new_array(table->out, struct ts_code_ref, table->refs.count);
  if (!refs) return -1;
  if (table->refs.count) memcpy(refs, table->refs.data, table->refs.count * sizeof *refs);
  code->insns = table->insns;
  code->refs = refs;
  code->insn_count = (uint32_t)insn_count;
  code->ref_count = (uint32_t)table->refs.count;
  code->slot_count = table->slot_count;
  code->block_count = (uint32_t)function->blocks.count;
  code->static_shared_bytes = function->static_shared_bytes;
  ts__code_count(table, code->class_counts);
  for (int i = 0; i < TS_CODE_CLASS_COUNT; i++)
    code->machine_insn_count += code->class_counts[i];
  return 0;
}

enum ts_status ts_code_estimate(struct ts_ctx *ctx, const struct ts_function *function,
                                struct ts_arena *arena, struct ts_code *code) {
  struct ts__code_table table = {.ctx = ctx, .function = function, .out = arena};
  memset(code, 0, sizeof *code);
  ts_arena_init(&table.scratch, ctx->allocator);
  int failed = derive(&table, code);
  ts_vec_free(&table.refs, ctx->allocator);
  ts_arena_free(&table.scratch);
  return failed ? ts_fail_memory(ctx) : TS_OK;
}
