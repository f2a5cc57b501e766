/* Registers per thread: the most words that are alive at once, and what a launch makes of it. */
#include "ir/code_priv.h"

enum {
  OTHER_REGISTERS = 5,     /* FITTED: stack pointer, scratch, alignment of vectors */
  BESIDE_ACCUMULATORS = 3, /* FITTED: the same with wgmma */
  LEAST_REGISTERS = 16,
  MOST_REGISTERS = 255,
  FILE_REGISTERS = 65536
};

static uint32_t block_threads(const struct ts_function *function) {
  uint32_t threads = 1;
  for (int i = 0; i < 3; i++)
    threads *= function->thread_extent[i] ? function->thread_extent[i] : 1;
  return threads;
}

/* What a thread can have of the file when one block has all of it, in steps of 8. */
static uint32_t thread_share(const struct ts_function *function) {
  return FILE_REGISTERS / block_threads(function) / 8 * 8;
}

uint32_t ts__code_register_limit(const struct ts_function *function) {
  uint32_t share = thread_share(function);
  if (share > MOST_REGISTERS) share = MOST_REGISTERS;
  return share > 2 * LEAST_REGISTERS ? share : 2 * LEAST_REGISTERS;
}

/* The most that setmaxnreg asks for, 0 without it. */
static uint32_t most_asked(const struct ts_function *function) {
  uint64_t most = 0;
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    uint64_t asked = 0;
    if (insn->op != TS_OP_set_max_nreg) continue;
    ts__code_constant(function, ts_insn_operand(function, insn, 0), &asked);
    if (asked > most) most = asked;
  }
  return (uint32_t)most;
}

/* Words of the largest accumulator of wgmma, 0 without one. */
static uint32_t accumulator_words(const struct ts_function *function) {
  uint64_t most = 0;
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (!ts_op_is_wgmma(insn->op)) continue;
    uint32_t count = ts__code_accesses(function, insn, accesses);
    for (uint32_t k = 0; k < count; k++) {
      uint64_t words = function->arrays.data[accesses[k].array].size_bytes / 4;
      if (accesses[k].is_def && words > most) most = words;
    }
  }
  return (uint32_t)most;
}

/* Accumulators of wgmma start at register 24 at the earliest; whatever else is alive fills the
 * registers below first (MEASURED: 24 + 32 + 2 and 24 + 128 + 2 for plain TMA GEMMs). A kernel that
 * moves registers between its warps starts with what the block's threads can have of the file's
 * 65536, in steps of 8, and no more than what it asks for (MEASURED: 168 for 384 threads, 240 for
 * 256 that ask for 240). */
void ts__code_registers(struct ts__code_table *table, struct ts__code_peaks peaks,
                        struct ts_code *code) {
  const struct ts_function *function = table->function;
  uint32_t accumulators = accumulator_words(function), asked = most_asked(function);
  uint32_t share = thread_share(function);
  uint32_t registers = peaks.words + (accumulators ? BESIDE_ACCUMULATORS : OTHER_REGISTERS);
  uint32_t limit = asked && asked < MOST_REGISTERS ? asked : MOST_REGISTERS;
  if (accumulators && registers < accumulators + 26) registers = accumulators + 26;
  if (registers < LEAST_REGISTERS) registers = LEAST_REGISTERS;
  code->spilled_words = registers > limit ? registers - limit : 0;
  code->registers_per_thread = registers < MOST_REGISTERS ? registers : MOST_REGISTERS;
  if (asked) code->registers_per_thread = share < asked ? share : asked;
  uint32_t kept = peaks.words_beside_wgmma + BESIDE_ACCUMULATORS;
  if (accumulators && kept < accumulators + 26) kept = accumulators + 26;
  if (accumulators && kept > limit) ts__code_find_spills(table, kept - limit, limit);
}
