/* Accumulators of wgmma that registers do not hold. Other values can be computed later or again, and
 * the assembler does so; accumulators, and what is kept beside them from one product to the next, go
 * to local memory. */
#include "ir/code_priv.h"

enum { BELOW_ACCUMULATORS = 24, MOST_SPILLED_WORDS = 65535 };

struct accumulator {
  uint32_t array, words;
  uint64_t first_bit;
};

static struct accumulator accumulator(const struct ts_function *function,
                                      const struct ts_insn *insn) {
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  struct accumulator found = {TS_NONE, 0, 0};
  uint32_t count = ts__code_accesses(function, insn, accesses);
  for (uint32_t i = 0; i < count; i++) {
    if (!accesses[i].is_def) continue;
    uint64_t bytes = function->arrays.data[accesses[i].array].size_bytes;
    uint64_t words = accesses[i].is_whole ? bytes / 4 : accesses[i].bit_count / TS__WORD_BITS;
    found = (struct accumulator){accesses[i].array, (uint32_t)words, accesses[i].first_bit};
  }
  return found;
}

static bool is_same(struct accumulator a, struct accumulator b) {
  return a.array == b.array && a.first_bit == b.first_bit;
}

/* Words of all accumulators of a block's products, each run of products into one counted once. */
static uint32_t accumulator_words(const struct ts_function *function, const struct ts_block *block,
                                  struct accumulator *last) {
  uint32_t words = 0;
  struct accumulator first = {TS_NONE, 0, 0};
  *last = first;
  for (uint32_t id = block->first_insn; id < block->first_insn + block->insn_count; id++) {
    if (!ts_op_is_wgmma(function->insns.data[id].op)) continue;
    struct accumulator next = accumulator(function, &function->insns.data[id]);
    if (first.array == TS_NONE) first = next;
    if (!is_same(next, *last) && (words == 0 || !is_same(next, first))) words += next.words;
    *last = next;
  }
  return words;
}

/* MEASURED on machine code of nvcc 13.0. Two accumulators of 128 words, 240 registers: they take turns
 * at the registers from 24 on, and each change stores and loads one of them, and the 44 words that are
 * too many. One that fits beside 128 words of sums: about the excess is stored and loaded in each
 * step. */
static void spill_block(struct ts__code_table *table, const struct ts_block *block, uint32_t excess,
                        uint32_t limit) {
  const struct ts_function *function = table->function;
  struct accumulator last;
  bool take_turns = accumulator_words(function, block, &last) + BELOW_ACCUMULATORS > limit;
  bool is_first = true;
  for (uint32_t id = block->first_insn; id < block->first_insn + block->insn_count; id++) {
    if (!ts_op_is_wgmma(function->insns.data[id].op)) continue;
    struct accumulator next = accumulator(function, &function->insns.data[id]);
    uint32_t words = take_turns && !is_same(next, last) ? excess + next.words
                     : !take_turns && is_first          ? excess
                                                        : 0;
    table->insns[id].spilled_words =
        (uint16_t)(words < MOST_SPILLED_WORDS ? words : MOST_SPILLED_WORDS);
    is_first = false;
    last = next;
  }
}

void ts__code_find_spills(struct ts__code_table *table, uint32_t excess, uint32_t limit) {
  const struct ts_function *function = table->function;
  for (uint32_t i = 0; excess && i < function->blocks.count; i++)
    spill_block(table, &function->blocks.data[i], excess, limit);
}
