/* How many machine instructions of which class a function has. Counts per operation are those of
 * docs/codegen.md (MEASURED on machine code of nvcc 13.0 for sm_90a). */
#include "ir/code_priv.h"

#include <string.h>

static bool is_half(uint8_t dtype) { return dtype == TS_DTYPE_f16 || dtype == TS_DTYPE_bf16; }

static uint32_t bits(uint8_t dtype) { return ts_dtype_bits((enum ts_dtype)dtype); }
static bool is_float(uint8_t dtype) { return ts_dtype_is_float((enum ts_dtype)dtype); }

/* --- special functions: rows of docs/codegen.md */

static const struct {
  uint16_t op;
  uint8_t fp32, alu, mufu, control;       /* accurate */
  uint8_t fast_fp32, fast_alu, fast_mufu; /* fast math */
} specials[] = {
    {TS_OP_rcp, 3, 2, 1, 3, 0, 0, 1},     {TS_OP_sqrt, 4, 2, 1, 3, 0, 0, 1},
    {TS_OP_rsqrt, 2, 1, 1, 0, 0, 0, 1},   {TS_OP_exp, 6, 1, 1, 0, 1, 0, 1},
    {TS_OP_exp2, 2, 1, 1, 0, 0, 0, 1},    {TS_OP_exp10, 6, 1, 1, 0, 1, 0, 1},
    {TS_OP_log, 15, 10, 0, 0, 1, 0, 1},   {TS_OP_log2, 17, 10, 0, 0, 0, 0, 1},
    {TS_OP_log10, 16, 10, 0, 0, 1, 0, 1}, {TS_OP_log1p, 15, 9, 0, 2, 15, 9, 0},
    {TS_OP_sin, 12, 50, 3, 6, 1, 0, 1},   {TS_OP_cos, 12, 50, 3, 6, 1, 0, 1},
    {TS_OP_tan, 13, 50, 4, 6, 2, 0, 3},   {TS_OP_tanh, 9, 4, 2, 0, 0, 0, 1},
    {TS_OP_erf, 9, 11, 1, 0, 11, 11, 1},  {TS_OP_pow, 44, 32, 5, 8, 1, 0, 2},
};

/* f16 and bf16 go through f32; exp and log patch a few arguments. */
static void count_half_special(const struct ts_code_insn *insn, uint32_t *counts) {
  bool is_patched = insn->dtype == TS_DTYPE_f16 && (insn->op == TS_OP_exp || insn->op == TS_OP_log);
  counts[TS_CODE_CLASS_FP16] += insn->lanes * (is_patched ? 7u : 1u);
  counts[TS_CODE_CLASS_FP32] += insn->lanes;
  counts[TS_CODE_CLASS_INT] += insn->lanes;
  counts[TS_CODE_CLASS_SPECIAL] += insn->lanes;
}

static void count_special(const struct ts_code_insn *insn, uint32_t *counts) {
  if (is_half(insn->dtype)) {
    count_half_special(insn, counts);
    return;
  }
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
    if (specials[i].op != insn->op) continue;
    bool is_fast = insn->approx;
    if (insn->approx == TS_CODE_APPROX_SUBNORMAL) { /* scaled before and after */
      counts[TS_CODE_CLASS_FP32] += insn->lanes * 2u;
      counts[TS_CODE_CLASS_INT] += insn->lanes;
    }
    counts[TS_CODE_CLASS_FP32] +=
        insn->lanes * (uint32_t)(is_fast ? specials[i].fast_fp32 : specials[i].fp32);
    counts[TS_CODE_CLASS_INT] +=
        insn->lanes * (uint32_t)(is_fast ? specials[i].fast_alu : specials[i].alu);
    counts[TS_CODE_CLASS_SPECIAL] +=
        insn->lanes * (uint32_t)(is_fast ? specials[i].fast_mufu : specials[i].mufu);
    counts[TS_CODE_CLASS_CONTROL] += is_fast ? 0u : insn->lanes * specials[i].control;
    return;
  }
  counts[TS_CODE_CLASS_FP32] += insn->lanes * 20u;
}

/* --- arithmetic */

static void count_division(const struct ts_code_insn *insn, bool by_constant, uint32_t *counts) {
  bool is_rem = insn->op == TS_OP_rem || insn->op == TS_OP_floormod;
  uint32_t lanes = insn->lanes;
  if (is_float(insn->dtype)) {
    counts[TS_CODE_CLASS_SPECIAL] += lanes;
    counts[TS_CODE_CLASS_FP32] += lanes * (insn->approx ? 1u : 5u);
    counts[TS_CODE_CLASS_INT] += insn->approx ? 0 : lanes * 5;
    counts[TS_CODE_CLASS_CONTROL] += insn->approx ? 0 : lanes * 4;
  } else if (by_constant) {
    counts[TS_CODE_CLASS_INT] += lanes * (is_rem ? 3u : 2u);
  } else {
    counts[TS_CODE_CLASS_SPECIAL] += lanes * 3;
    counts[TS_CODE_CLASS_INT] += lanes * (bits(insn->dtype) > 32 ? 26u : 20u);
  }
}

static void count_conversion(const struct ts_code_insn *insn, uint32_t *counts) {
  uint32_t lanes = insn->lanes, pairs = (lanes + 1) / 2;
  bool to_float = is_float(insn->dtype), from_float = is_float(insn->dtype2);
  if (to_float && from_float && bits(insn->dtype) < bits(insn->dtype2)) {
    counts[TS_CODE_CLASS_INT] += pairs; /* F2FP */
  } else if (to_float && from_float) {
    if (bits(insn->dtype2) == 8) counts[TS_CODE_CLASS_INT] += pairs;
    if (bits(insn->dtype) == 32)
      counts[insn->dtype2 == TS_DTYPE_bf16 ? TS_CODE_CLASS_INT : TS_CODE_CLASS_FP16] += lanes;
  } else if (to_float && !from_float && bits(insn->dtype2) >= 16) {
    counts[TS_CODE_CLASS_INT] += lanes; /* I2FP */
  } else if (to_float || from_float) {
    counts[TS_CODE_CLASS_SPECIAL] += lanes;
  } else {
    counts[TS_CODE_CLASS_INT] += lanes;
  }
}

static void count_arithmetic(const struct ts_code_insn *insn, uint32_t *counts) {
  uint32_t lanes = insn->lanes;
  bool is_compare = insn->op >= TS_OP_eq && insn->op <= TS_OP_le;
  bool is_fused = insn->op == TS_OP_add || insn->op == TS_OP_sub || insn->op == TS_OP_mul ||
                  insn->op == TS_OP_fma;
  if (insn->op == TS_OP_floor || insn->op == TS_OP_ceil || insn->op == TS_OP_rint)
    counts[TS_CODE_CLASS_SPECIAL] += lanes;
  else if (is_half(insn->dtype) && insn->op != TS_OP_select)
    counts[TS_CODE_CLASS_FP16] += (lanes + 1) / 2;
  else if (is_float(insn->dtype) && is_fused)
    counts[TS_CODE_CLASS_FP32] += lanes;
  else if (bits(insn->dtype) > 32 && !is_float(insn->dtype))
    counts[TS_CODE_CLASS_INT] += lanes * (insn->op == TS_OP_mul ? 4u : 2u);
  else
    counts[TS_CODE_CLASS_INT] += is_compare || bits(insn->dtype) >= 32 ? lanes : (lanes + 1) / 2;
}

/* --- everything */

/* Operands of TMA are in uniform registers in a row: R2UR and UMOV. */
enum { UNIFORM_MOVES_PER_TMA = 8 };

static bool is_tma(enum ts_op op) {
  return op == TS_OP_tma_load || op == TS_OP_tma_load_multicast || op == TS_OP_tma_load_im2col ||
         op == TS_OP_tma_store || op == TS_OP_bulk_load || op == TS_OP_bulk_store;
}

static void count_memory(const struct ts_code_insn *insn, uint32_t *counts) {
  uint32_t bytes = insn->lanes * bits(insn->dtype) / 8;
  counts[TS_CODE_CLASS_MEMORY] += bytes > 16 ? (bytes + 15) / 16 : 1;
}

static void count_insn(const struct ts__code_table *table, uint32_t id, uint32_t *counts) {
  const struct ts_function *function = table->function;
  const struct ts_insn *insn = &function->insns.data[id];
  const struct ts_code_insn *code = &table->insns[id];
  switch (insn->op) {
  case TS_OP_div:
  case TS_OP_rem:
  case TS_OP_floordiv:
  case TS_OP_floormod: count_division(code, !(code->flags & TS_CODE_VARIABLE), counts); return;
  case TS_OP_cvt: count_conversion(code, counts); return;
  case TS_OP_ld_global:
  case TS_OP_st_global:
  case TS_OP_ld_shared:
  case TS_OP_st_shared: count_memory(code, counts); return;
  case TS_OP_ld_local: count_memory(code, counts); return;
  case TS_OP_st_local:
    if (code->flags & TS_CODE_SPILLED) {
      count_memory(code, counts);
      return;
    }

    counts[TS_CODE_CLASS_INT] += (code->lanes * bits(code->dtype) + 63) / 64;
    return;
  case TS_OP_shfl:
    counts[TS_CODE_CLASS_MEMORY] += bits(code->dtype) > 32 ? 2 : 1;
    counts[TS_CODE_CLASS_INT] += bits(code->dtype) < 32; /* upper half cleared */
    return;
  case TS_OP_mbarrier_wait:
    counts[TS_CODE_CLASS_SYNC]++;
    counts[TS_CODE_CLASS_CONTROL] += 2;
    return;
  case TS_OP_cbr: /* lanes that part meet again: BSSY, BSYNC */
    counts[TS_CODE_CLASS_CONTROL] +=
        ts__is_uniform(function, ts_insn_operand(function, insn, 0)) ? 1 : 3;
    return;
  case TS_OP_sreg:
  case TS_OP_elect: counts[TS_CODE_CLASS_INT]++; return;
  default: break;
  }
  switch (ts_op_info((enum ts_op)insn->op)->unit) {
  case TS_UNIT_SPECIAL: count_special(code, counts); return;
  case TS_UNIT_MATRIX:
    counts[insn->op == TS_OP_ldmatrix || insn->op == TS_OP_stmatrix ? TS_CODE_CLASS_MEMORY
                                                                    : TS_CODE_CLASS_MATRIX]++;
    return;
  case TS_UNIT_MEMORY:
    if (is_tma((enum ts_op)insn->op)) counts[TS_CODE_CLASS_INT] += UNIFORM_MOVES_PER_TMA;
    counts[TS_CODE_CLASS_MEMORY]++;
    return;
  case TS_UNIT_SYNC: counts[TS_CODE_CLASS_SYNC]++; return;
  case TS_UNIT_CTRL: counts[TS_CODE_CLASS_CONTROL]++; return;
  case TS_UNIT_MOVE:
    counts[TS_CODE_CLASS_INT] += code->lanes * bits(code->dtype) > 32 ? 2 : 1;
    return;
  default: count_arithmetic(code, counts); return;
  }
}

void ts__code_count(const struct ts__code_table *table, uint32_t counts[TS_CODE_CLASS_COUNT]) {
  memset(counts, 0, TS_CODE_CLASS_COUNT * sizeof *counts);
  for (uint32_t id = 0; id < table->function->insns.count; id++) {
    if (table->insns[id].flags & TS_CODE_ADDRESS)
      counts[TS_CODE_CLASS_INT] += table->has_own_offset[id] ? 2 : 1;
    if (!(table->insns[id].flags & TS_CODE_FREE)) count_insn(table, id, counts);
  }
}
