/* How long the machine code is: rough counts per operation, for the instruction cache. The counts
 * are those of docs/codegen.md (MEASURED on machine code of nvcc 13.0 for sm_90a). */
#include "ir/code_priv.h"

static uint32_t words(const struct ts_insn *insn) {
  struct ts_type type = {insn->dtype, insn->lanes};
  uint32_t count = ts__code_words(type);
  return count ? count : 1;
}

static uint32_t special_length(const struct ts_insn *insn, bool is_approx) {
  switch (insn->op) {
  case TS_OP_rcp:
  case TS_OP_rsqrt:
  case TS_OP_sqrt:
  case TS_OP_exp2:
  case TS_OP_log2: return is_approx ? 1 : 5;
  case TS_OP_exp:
  case TS_OP_log:
  case TS_OP_exp10:
  case TS_OP_log10: return is_approx ? 2 : 8;
  default: return is_approx ? 4 : 25;
  }
}

static uint32_t op_length(const struct ts_function *function, const struct ts_insn *insn) {
  bool is_approx = ts_insn_attr(function, insn, TS_ATTR_approx, 0) != 0;
  bool is_float = ts_dtype_is_float((enum ts_dtype)insn->dtype);
  switch (insn->op) {
  case TS_OP_div:
  case TS_OP_rem:
  case TS_OP_floordiv:
  case TS_OP_floormod: return insn->lanes * (is_float ? (is_approx ? 3u : 10u) : 6u);
  case TS_OP_ld_global:
  case TS_OP_st_global:
  case TS_OP_ld_shared:
  case TS_OP_st_shared: return (words(insn) + 3) / 4;
  case TS_OP_mbarrier_wait: return 6;
  case TS_OP_elect: return 3;
  case TS_OP_tma_load:
  case TS_OP_tma_store: return 6;
  default: break;
  }
  if (ts_op_info((enum ts_op)insn->op)->unit == TS_UNIT_SPECIAL)
    return insn->lanes * special_length(insn, is_approx);
  if (ts_op_info((enum ts_op)insn->op)->unit == TS_UNIT_SCALAR) return words(insn);
  return 1;
}

uint32_t ts__code_length(const struct ts__code_table *table) {
  uint32_t length = 1;
  for (uint32_t i = 0; i < table->function->insns.count; i++) {
    const struct ts_code_insn *code = &table->insns[i];
    if (code->flags & TS_CODE_ADDRESS) length++;
    if (code->flags & TS_CODE_FREE) continue;
    length += op_length(table->function, &table->function->insns.data[i]);
  }
  return length;
}
