/* Drops instructions whose result nobody uses: pure ones, reads of arrays at constant places, moves to
 * variables that are assigned again before they are read, and stores to array elements that nobody
 * reads any more. */
#include "ir/ir_priv.h"

#include <string.h>

struct dead {
  struct ts_arena arena;
  struct ts_ctx *ctx;
  struct ts_function *function;
  bool *is_dead;       /* by instruction */
  bool *is_array_read; /* by array */
  uint32_t *use_count; /* by register, from live instructions */
  uint32_t *last_def;  /* by register: an instruction; all its others by next_def */
  uint32_t *next_def;  /* by instruction */
  uint32_t *work;      /* registers whose uses are all gone */
  uint32_t *variable;  /* by register: number of a register with several definitions, or TS_NONE */
  size_t work_count;
  uint32_t variable_count;
  size_t words;      /* of a set of variables */
  uint64_t *live_in; /* by block */
  uint64_t *live;    /* set being worked on */
};

/* A constant element access, known to lie in the array. */
static bool is_inside(const struct ts_function *function, const struct ts_insn *insn,
                      uint64_t *first_bit, uint64_t *bit_count) {
  const struct ts_operand *operands = ts_insn_operand(function, insn, 0);
  const struct ts_array *array = &function->arrays.data[operands[0].index];
  uint64_t bits = ts_dtype_bits((enum ts_dtype)insn->dtype);
  uint64_t size_bits = ts_dtype_packed_bytes((enum ts_dtype)array->dtype, array->elem_count) * 8;
  if (operands[1].kind != TS_OPERAND_IMM) return false;
  uint64_t index = function->constants.data[operands[1].index];
  if (index > size_bits) return false;
  *first_bit = index * bits;
  *bit_count = bits * insn->lanes;
  return *first_bit + *bit_count <= size_bits;
}

static bool has_effect(const struct dead *d, const struct ts_insn *insn) {
  uint64_t first_bit, bit_count;
  if (ts_op_info((enum ts_op)insn->op)->flags & F_PURE) return false;
  if (insn->op == TS_OP_ld_local) return !is_inside(d->function, insn, &first_bit, &bit_count);
  if (insn->op != TS_OP_st_local) return true;
  return d->is_array_read[ts_insn_operand(d->function, insn, 0)->index] ||
         !is_inside(d->function, insn, &first_bit, &bit_count);
}

static void drop(struct dead *d, uint32_t id) {
  const struct ts_insn *insn = &d->function->insns.data[id];
  if (d->is_dead[id]) return;
  d->is_dead[id] = true;
  for (uint32_t i = 0; i < insn->operand_count; i++) {
    const struct ts_operand *operand = ts_insn_operand(d->function, insn, i);
    if (operand->kind == TS_OPERAND_REG && --d->use_count[operand->index] == 0)
      d->work[d->work_count++] = operand->index;
  }
}

/* A register without uses needs none of its definitions. */
static void drop_unused(struct dead *d) {
  while (d->work_count) {
    uint32_t reg = d->work[--d->work_count];
    for (uint32_t id = d->last_def[reg]; id != TS_NONE; id = d->next_def[id])
      if (!has_effect(d, &d->function->insns.data[id])) drop(d, id);
  }
}

static void find_array_reads(struct dead *d) {
  const struct ts_function *function = d->function;
  memset(d->is_array_read, 0, function->arrays.count * sizeof *d->is_array_read);
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (d->is_dead[i] || insn->op == TS_OP_st_local) continue;
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, k);
      if (operand->kind == TS_OPERAND_ARRAY) d->is_array_read[operand->index] = true;
    }
  }
}

static void count_uses(struct dead *d) {
  const struct ts_function *function = d->function;
  memset(d->last_def, 0xff, function->regs.count * sizeof *d->last_def);
  memset(d->variable, 0xff, function->regs.count * sizeof *d->variable);
  for (size_t i = 0; i < function->params.count; i++) /* assigned at entry */
    if (function->params.data[i].reg != TS_NONE) d->variable[function->params.data[i].reg] = 0;
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, k);
      if (operand->kind == TS_OPERAND_REG) d->use_count[operand->index]++;
    }
    if (insn->dst == TS_NONE) continue;
    if (d->last_def[insn->dst] != TS_NONE) d->variable[insn->dst] = 0;
    d->next_def[i] = d->last_def[insn->dst];
    d->last_def[insn->dst] = (uint32_t)i;
  }
  for (size_t i = 0; i < function->regs.count; i++) {
    if (d->variable[i] == 0) d->variable[i] = d->variable_count++;
    if (d->use_count[i] == 0) d->work[d->work_count++] = (uint32_t)i;
  }
}

/* --- variables: live sets, backwards over blocks */

static bool test(const uint64_t *set, uint32_t i) { return set[i / 64] >> i % 64 & 1; }
static void set_bit(uint64_t *set, uint32_t i) { set[i / 64] |= UINT64_C(1) << i % 64; }
static void clear_bit(uint64_t *set, uint32_t i) { set[i / 64] &= ~(UINT64_C(1) << i % 64); }

static void load_live_out(struct dead *d, uint32_t block) {
  uint32_t targets[2], count = ts__block_targets(d->function, block, targets);
  memset(d->live, 0, d->words * sizeof *d->live);
  for (uint32_t i = 0; i < count; i++)
    for (size_t w = 0; w < d->words; w++)
      d->live[w] |= d->live_in[targets[i] * d->words + w];
}

/* Walks the block backwards through d->live; drops what is dead when asked to. */
static void walk_block(struct dead *d, uint32_t block_id, bool drops) {
  const struct ts_function *function = d->function;
  const struct ts_block *block = &function->blocks.data[block_id];
  load_live_out(d, block_id);
  for (uint32_t k = block->insn_count; k-- > 0;) {
    uint32_t id = block->first_insn + k;
    const struct ts_insn *insn = &function->insns.data[id];
    if (d->is_dead[id]) continue;
    uint32_t variable = insn->dst == TS_NONE ? TS_NONE : d->variable[insn->dst];
    if (variable != TS_NONE) {
      if (!test(d->live, variable) && !has_effect(d, insn)) {
        if (drops) drop(d, id);
        continue;
      }
      clear_bit(d->live, variable);
    }
    for (uint32_t i = 0; i < insn->operand_count; i++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, i);
      if (operand->kind == TS_OPERAND_REG && d->variable[operand->index] != TS_NONE)
        set_bit(d->live, d->variable[operand->index]);
    }
  }
}

static void drop_unread_assignments(struct dead *d) {
  size_t block_count = d->function->blocks.count;
  if (!d->variable_count) return;
  memset(d->live_in, 0, block_count * d->words * sizeof *d->live_in);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = block_count; i-- > 0;) {
      uint64_t *live_in = d->live_in + i * d->words;
      walk_block(d, (uint32_t)i, false);
      if (!memcmp(live_in, d->live, d->words * sizeof *live_in)) continue;
      memcpy(live_in, d->live, d->words * sizeof *live_in);
      has_changed = true;
    }
  }
  for (size_t i = 0; i < block_count; i++)
    walk_block(d, (uint32_t)i, true);
}

/* --- array elements that nobody reads before they are overwritten */

struct overwritten {
  uint64_t *bits; /* one set for each array, a bit for 4 bits of it */
  size_t *first_word;
  uint64_t *since;      /* by array: number + 1 of the block that the set is about, 0 = none */
  size_t block_words;   /* of a set of arrays */
  uint64_t *read_after; /* by block: arrays that may be read when the block has ended */
};

static uint64_t *bare_set(struct overwritten *o, uint32_t array, uint64_t stamp, int fill) {
  uint64_t *set = o->bits + o->first_word[array];
  size_t words = o->first_word[array + 1] - o->first_word[array];
  if (words) memset(set, fill, words * sizeof *set);
  o->since[array] = stamp;
  return set;
}

/* Everything may be read. */
static void forget_array(struct overwritten *o, uint32_t array, uint64_t stamp) {
  bare_set(o, array, stamp, 0);
}

static uint64_t *set_of(struct overwritten *o, uint32_t array, uint64_t stamp) {
  if (o->since[array] == stamp) return o->bits + o->first_word[array];
  bool is_read = test(o->read_after + (stamp - 1) * o->block_words, array);
  return bare_set(o, array, stamp, is_read ? 0 : 0xff);
}

static void add_reads(const struct dead *d, uint32_t block_id, uint64_t *arrays) {
  const struct ts_block *block = &d->function->blocks.data[block_id];
  for (uint32_t id = block->first_insn; id < block->first_insn + block->insn_count; id++) {
    const struct ts_insn *insn = &d->function->insns.data[id];
    if (d->is_dead[id] || insn->op == TS_OP_st_local) continue;
    for (uint32_t i = 0; i < insn->operand_count; i++) {
      const struct ts_operand *operand = ts_insn_operand(d->function, insn, i);
      if (operand->kind == TS_OPERAND_ARRAY) set_bit(arrays, operand->index);
    }
  }
}

/* reads: by block, the arrays it reads; then those that it or a later block reads. */
static void find_reads_after(const struct dead *d, struct overwritten *o, uint64_t *reads) {
  const struct ts_function *function = d->function;
  size_t words = o->block_words;
  for (size_t i = 0; i < function->blocks.count; i++)
    add_reads(d, (uint32_t)i, reads + i * words);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t i = function->blocks.count; i-- > 0;) {
      uint32_t targets[2], count = ts__block_targets(function, (uint32_t)i, targets);
      for (size_t w = 0; w < words; w++) {
        uint64_t after = 0;
        for (uint32_t k = 0; k < count; k++)
          after |= reads[targets[k] * words + w];
        o->read_after[i * words + w] = after;
        has_changed |= (after & ~reads[i * words + w]) != 0;
        reads[i * words + w] |= after;
      }
    }
  }
}

static void note_store(struct dead *d, struct overwritten *o, uint32_t id, uint64_t stamp) {
  const struct ts_insn *insn = &d->function->insns.data[id];
  uint64_t first_bit, bit_count;
  if (!is_inside(d->function, insn, &first_bit, &bit_count)) return;
  if (first_bit % 4 || bit_count % 4) return;
  uint64_t *set = set_of(o, ts_insn_operand(d->function, insn, 0)->index, stamp);
  bool is_covered = true;
  for (uint64_t i = first_bit / 4; i < (first_bit + bit_count) / 4; i++) {
    is_covered &= test(set, (uint32_t)i);
    set_bit(set, (uint32_t)i);
  }
  if (is_covered) drop(d, id);
}

static void note_load(struct dead *d, struct overwritten *o, const struct ts_insn *insn,
                      uint64_t stamp) {
  uint32_t array = ts_insn_operand(d->function, insn, 0)->index;
  uint64_t first_bit, bit_count;
  if (!is_inside(d->function, insn, &first_bit, &bit_count)) {
    forget_array(o, array, stamp);
    return;
  }
  uint64_t *set = set_of(o, array, stamp);
  for (uint64_t i = first_bit / 4; i < (first_bit + bit_count + 3) / 4; i++)
    clear_bit(set, (uint32_t)i);
}

static void drop_overwritten_in(struct dead *d, struct overwritten *o, uint32_t block_id) {
  const struct ts_block *block = &d->function->blocks.data[block_id];
  uint64_t stamp = (uint64_t)block_id + 1;
  for (uint32_t k = block->insn_count; k-- > 0;) {
    uint32_t id = block->first_insn + k;
    const struct ts_insn *insn = &d->function->insns.data[id];
    if (d->is_dead[id]) continue;
    if (insn->op == TS_OP_st_local) {
      note_store(d, o, id, stamp);
    } else if (insn->op == TS_OP_ld_local) {
      note_load(d, o, insn, stamp);
    } else {
      for (uint32_t i = 0; i < insn->operand_count; i++) {
        const struct ts_operand *operand = ts_insn_operand(d->function, insn, i);
        if (operand->kind == TS_OPERAND_ARRAY) forget_array(o, operand->index, stamp);
      }
    }
  }
}

static bool drop_overwritten(struct dead *d) {
  const struct ts_function *function = d->function;
  struct overwritten o;
  size_t words = 0, array_count = function->arrays.count;
  o.first_word = ts_new_array(&d->arena, size_t, array_count + 1);
  o.since = ts_new_array(&d->arena, uint64_t, array_count);
  if (!o.first_word || !o.since) return false;
  for (size_t i = 0; i < array_count; i++) {
    o.first_word[i] = words;
    words += (size_t)(function->arrays.data[i].size_bytes * 2 + 63) / 64;
  }
  o.first_word[array_count] = words;
  o.block_words = (array_count + 63) / 64;
  o.bits = ts_new_array(&d->arena, uint64_t, words);
  o.read_after = ts_new_array(&d->arena, uint64_t, function->blocks.count * o.block_words);
  uint64_t *reads = ts_new_array(&d->arena, uint64_t, function->blocks.count * o.block_words);
  if (!o.bits || !o.read_after || !reads) return false;
  find_reads_after(d, &o, reads);
  for (size_t i = 0; i < function->blocks.count; i++)
    drop_overwritten_in(d, &o, (uint32_t)i);
  return true;
}

static void drop_stores_to_unread(struct dead *d) {
  find_array_reads(d);
  for (size_t i = 0; i < d->function->insns.count; i++)
    if (d->function->insns.data[i].op == TS_OP_st_local &&
        !has_effect(d, &d->function->insns.data[i]))
      drop(d, (uint32_t)i);
}

static size_t count_dead(const struct dead *d) {
  size_t count = 0;
  for (size_t i = 0; i < d->function->insns.count; i++)
    count += d->is_dead[i];
  return count;
}

static void remove_dead(struct dead *d) {
  struct ts_function *function = d->function;
  uint32_t kept = 0;
  for (size_t b = 0; b < function->blocks.count; b++) {
    struct ts_block *block = &function->blocks.data[b];
    uint32_t first = kept;
    for (uint32_t k = 0; k < block->insn_count; k++)
      if (!d->is_dead[block->first_insn + k])
        function->insns.data[kept++] = function->insns.data[block->first_insn + k];
    block->first_insn = first;
    block->insn_count = kept - first;
  }
  function->insns.count = kept;
}

/* Registers that nothing names are taken out; d->work becomes their new numbers. */
static void renumber_regs(struct dead *d) {
  struct ts_function *function = d->function;
  uint32_t count = 0;
  memset(d->work, 0, function->regs.count * sizeof *d->work);
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE) d->work[function->params.data[i].reg] = 1;
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (insn->dst != TS_NONE) d->work[insn->dst] = 1;
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, k);
      if (operand->kind == TS_OPERAND_REG) d->work[operand->index] = 1;
    }
  }
  for (size_t i = 0; i < function->regs.count; i++) {
    if (!d->work[i]) continue;
    function->regs.data[count] = function->regs.data[i];
    d->work[i] = count++;
  }
  function->regs.count = count;
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE)
      function->params.data[i].reg = d->work[function->params.data[i].reg];
  for (size_t i = 0; i < function->insns.count; i++) {
    struct ts_insn *insn = &function->insns.data[i];
    if (insn->dst != TS_NONE) insn->dst = d->work[insn->dst];
    for (uint32_t k = insn->operands; k < insn->operands + insn->operand_count; k++)
      if (function->operands.data[k].kind == TS_OPERAND_REG)
        function->operands.data[k].index = d->work[function->operands.data[k].index];
  }
}

static bool allocate(struct dead *d) {
  size_t insn_count = d->function->insns.count, reg_count = d->function->regs.count;
  d->is_dead = ts_new_array(&d->arena, bool, insn_count);
  d->is_array_read = ts_new_array(&d->arena, bool, d->function->arrays.count);
  d->use_count = ts_new_array(&d->arena, uint32_t, reg_count);
  d->last_def = ts_new_array(&d->arena, uint32_t, reg_count);
  d->next_def = ts_new_array(&d->arena, uint32_t, insn_count);
  d->variable = ts_new_array(&d->arena, uint32_t, reg_count);
  d->work = ts_new_array(&d->arena, uint32_t, reg_count);
  return d->is_dead && d->is_array_read && d->use_count && d->last_def && d->next_def &&
         d->variable && d->work;
}

/* Live sets of blocks x variables. A function beyond the limit (8 MiB of sets, hundreds of times
 * what a kernel needs) keeps its unread assignments: they cost time, never correctness. */
enum { MAX_SET_WORDS = 1 << 20 };

static bool allocate_sets(struct dead *d) {
  d->words = (d->variable_count + 63) / 64;
  if (d->words * d->function->blocks.count > MAX_SET_WORDS) d->variable_count = 0;
  if (d->variable_count == 0) d->words = 0;
  d->live = ts_new_array(&d->arena, uint64_t, d->words);
  d->live_in = ts_new_array(&d->arena, uint64_t, d->words * d->function->blocks.count);
  return d->live && d->live_in;
}

static bool find_dead(struct dead *d) {
  if (!allocate(d)) return false;
  count_uses(d);
  if (!allocate_sets(d)) return false;
  for (size_t before = SIZE_MAX, now = 0; now != before; now = count_dead(d)) {
    before = now;
    drop_stores_to_unread(d);
    drop_unused(d);
    drop_unread_assignments(d);
    if (!drop_overwritten(d)) return false;
    drop_unused(d);
  }
  return true;
}

enum ts_status ts_pass_drop_dead(struct ts_ctx *ctx, struct ts_function *function) {
  struct dead d = {.ctx = ctx, .function = function};
  ts_arena_init(&d.arena, function->module->allocator);
  bool has_memory = find_dead(&d);
  if (has_memory) {
    remove_dead(&d);
    renumber_regs(&d);
  }
  ts_arena_free(&d.arena);
  return has_memory ? TS_OK : ts_fail_memory(ctx);
}
