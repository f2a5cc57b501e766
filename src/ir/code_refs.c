/* Which slots an instruction reads and writes. */
#include "ir/code_priv.h"

#include <string.h>

bool ts__code_constant(const struct ts_function *function, const struct ts_operand *operand,
                       uint64_t *encoding) {
  if (operand->kind != TS_OPERAND_IMM) return false;
  *encoding = function->constants.data[operand->index];
  return true;
}

uint32_t ts__code_words(struct ts_type type) {
  if (type.dtype == TS_DTYPE_pred) return 0;
  uint32_t bits = ts_dtype_bits((enum ts_dtype)type.dtype) * type.lanes;
  return (bits + TS__WORD_BITS - 1) / TS__WORD_BITS;
}

static uint64_t attribute(const struct ts_function *function, const struct ts_insn *insn,
                          enum ts_attr_id id) {
  int64_t value = ts_insn_attr(function, insn, id, 0);
  return value > 0 ? (uint64_t)value : 0;
}

/* Elements of tf32 fill a word. */
static uint64_t container_bits(int64_t dtype) { return ts_dtype_bits((enum ts_dtype)dtype); }

/* Fills an access to array operand `position`, whose index is the next operand and counts elements
 * of index_bits. */
static void describe(const struct ts_function *function, const struct ts_insn *insn,
                     uint32_t position, uint64_t index_bits, uint64_t bit_count,
                     struct ts__code_access *access) {
  uint64_t index = 0;
  const struct ts_operand *operand = ts_insn_operand(function, insn, position + 1);
  access->array = ts_insn_operand(function, insn, position)->index;
  access->is_whole = !ts__code_constant(function, operand, &index);
  access->first_bit = index * index_bits;
  access->bit_count = bit_count;
}

/* Fragments of a product: element counts per lane are rows times columns over the lanes that share
 * them (32 of a warp, 128 of a warpgroup). */
static uint32_t product_accesses(const struct ts_function *function, const struct ts_insn *insn,
                                 struct ts__code_access *accesses) {
  static const struct {
    uint16_t op;
    uint8_t c, a, b; /* operand positions, 0xff: not in registers */
    uint8_t lanes_log2, a_shift;
  } forms[] = {{TS_OP_mma, 0, 2, 4, 5, 0},
               {TS_OP_mma_sp, 0, 2, 4, 5, 1},
               {TS_OP_wgmma_ss, 2, 0xff, 0xff, 7, 0},
               {TS_OP_wgmma_rs, 3, 0, 0xff, 7, 0},
               {TS_OP_wgmma_sp_ss, 2, 0xff, 0xff, 7, 0},
               {TS_OP_wgmma_sp_rs, 3, 0, 0xff, 7, 1}};
  uint64_t m = attribute(function, insn, TS_ATTR_m), n = attribute(function, insn, TS_ATTR_n);
  uint64_t k = attribute(function, insn, TS_ATTR_k), bits;
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (forms[i].op != insn->op) continue;
    bits = container_bits(insn->dtype);
    describe(function, insn, forms[i].c, bits, (m * n * bits) >> forms[i].lanes_log2,
             &accesses[count]);
    accesses[count].is_use = accesses[count].is_def = true;
    count++;
    if (forms[i].a != 0xff) {
      bits = container_bits(insn->dtype2);
      describe(function, insn, forms[i].a, bits,
               (m * k * bits) >> (forms[i].lanes_log2 + forms[i].a_shift), &accesses[count]);
      accesses[count++].is_use = true;
    }
    if (forms[i].b != 0xff) {
      bits = container_bits(ts_insn_attr(function, insn, TS_ATTR_b_dtype, insn->dtype2));
      describe(function, insn, forms[i].b, bits, (n * k * bits) >> forms[i].lanes_log2,
               &accesses[count]);
      accesses[count++].is_use = true;
    }
  }
  return count;
}

uint32_t ts__code_accesses(const struct ts_function *function, const struct ts_insn *insn,
                           struct ts__code_access accesses[TS__MAX_ACCESSES]) {
  memset(accesses, 0, TS__MAX_ACCESSES * sizeof *accesses);
  uint64_t bits = ts_dtype_bits((enum ts_dtype)insn->dtype);
  switch (insn->op) {
  case TS_OP_ld_local:
  case TS_OP_st_local:
    describe(function, insn, 0, bits, bits * insn->lanes, accesses);
    accesses->is_use = insn->op == TS_OP_ld_local;
    accesses->is_def = !accesses->is_use;
    return 1;
  case TS_OP_ldmatrix:
    describe(function, insn, 0, bits, TS__WORD_BITS * attribute(function, insn, TS_ATTR_num),
             accesses);
    accesses->is_def = true;
    return 1;
  case TS_OP_tmem_ld:
  case TS_OP_tmem_st:
    describe(function, insn, 0, TS__WORD_BITS,
             TS__WORD_BITS * attribute(function, insn, TS_ATTR_num), accesses);
    accesses->is_def = insn->op == TS_OP_tmem_ld;
    accesses->is_use = !accesses->is_def;
    return 1;
  default: return product_accesses(function, insn, accesses);
  }
}

/* --- addresses */

static const struct address_form {
  uint16_t op;
  uint8_t base, has_index, is_global, is_second; /* is_second: attributes scale2, offset2 */
} address_forms[] = {
    {TS_OP_ld_global, 0, 1, 1, 0},       {TS_OP_st_global, 0, 1, 1, 0},
    {TS_OP_ld_shared, 0, 1, 0, 0},       {TS_OP_st_shared, 0, 1, 0, 0},
    {TS_OP_ld_cluster, 0, 1, 0, 0},      {TS_OP_st_cluster, 0, 1, 0, 0},
    {TS_OP_atom_global, 0, 1, 1, 0},     {TS_OP_atom_shared, 0, 1, 0, 0},
    {TS_OP_atom_global_ret, 0, 1, 1, 0}, {TS_OP_atom_shared_ret, 0, 1, 0, 0},
    {TS_OP_cp_async, 2, 1, 1, 0},        {TS_OP_cp_async, 0, 1, 0, 1},
    {TS_OP_ldmatrix, 2, 1, 0, 0},        {TS_OP_stmatrix, 0, 1, 0, 0},
    {TS_OP_mbarrier_init, 0, 0, 0, 0},   {TS_OP_mbarrier_expect_tx, 0, 0, 0, 0},
    {TS_OP_mbarrier_arrive, 0, 0, 0, 0}, {TS_OP_mbarrier_arrive_expect_tx, 0, 0, 0, 0},
    {TS_OP_mbarrier_wait, 0, 0, 0, 0},   {TS_OP_cp_async_mbarrier, 0, 0, 0, 0},
};

uint32_t ts__code_addresses(const struct ts_function *function, const struct ts_insn *insn,
                            struct ts__code_address addresses[TS__MAX_ADDRESSES]) {
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof address_forms / sizeof *address_forms; i++) {
    const struct address_form *form = &address_forms[i];
    if (form->op != insn->op) continue;
    addresses[count++] = (struct ts__code_address){
        .base = form->base,
        .index = form->has_index ? form->base + 1u : TS_NONE,
        .scale = ts_insn_attr(function, insn, form->is_second ? TS_ATTR_scale2 : TS_ATTR_scale, 1),
        .offset =
            ts_insn_attr(function, insn, form->is_second ? TS_ATTR_offset2 : TS_ATTR_offset, 0),
        .is_global = form->is_global};
  }
  return count;
}

/* --- slots */

struct ts_code_ref ts__code_slots(const struct ts__code_table *table,
                                  const struct ts__code_access *access) {
  const struct ts_array *array = &table->function->arrays.data[access->array];
  struct ts_code_ref slots = {table->array_slot[access->array], 0};
  uint64_t words = array->size_bytes / 4;
  uint64_t first = access->is_whole ? 0 : access->first_bit / TS__WORD_BITS;
  uint64_t end = access->is_whole
                     ? words
                     : (access->first_bit + access->bit_count + TS__WORD_BITS - 1) / TS__WORD_BITS;
  if (end > words) end = words;
  if (first >= end) return slots;
  slots.first += (uint32_t)first;
  slots.count = (uint32_t)(end - first);
  return slots;
}

/* Renaming. Arrays are registers, so a store to one, or a load of matrices into one, makes a new
 * value: where all words are overwritten later in the block, it gets slots of its own, and may then
 * be alive together with its predecessor. A constant stored is such a value even where a product
 * then adds to it: the product reads the constant. Slots of the last definition in a block, and of
 * arrays with dynamic indices, are the array's own. */
struct renaming {
  struct ts__code_table *table;
  const struct ts_function *function;
  uint32_t *current; /* by word of an array: slot that holds it, valid in current_block */
  uint32_t *current_block, *overwritten, *changed; /* block + 1: later in the block */
  bool *is_constant;                               /* current version is a constant */
};

/* Words have numbers from 0: slot minus the number of registers. */
static uint32_t word_of(const struct renaming *r, uint32_t slot) {
  return slot - (uint32_t)r->function->regs.count;
}

static int number_slots(struct ts__code_table *table) {
  const struct ts_function *function = table->function;
  table->array_slot = ts_new_array(&table->scratch, uint32_t, function->arrays.count);
  if (!table->array_slot) return -1;
  table->slot_count = (uint32_t)function->regs.count;
  for (size_t i = 0; i < function->arrays.count; i++) {
    table->array_slot[i] = table->slot_count;
    table->slot_count += (uint32_t)(function->arrays.data[i].size_bytes / 4);
  }
  table->own_slot_count = table->slot_count;
  return 0;
}

static int push(struct ts__code_table *table, struct ts_code_ref ref) {
  return ts_vec_push(&table->refs, table->ctx->allocator, ref);
}

/* Part of a word written: what was there before is read. */
static bool is_partial(const struct ts__code_access *access) {
  return access->is_whole || access->first_bit % TS__WORD_BITS || access->bit_count % TS__WORD_BITS;
}

static bool stores_constant(const struct ts_function *function, const struct ts_insn *insn) {
  return insn->op == TS_OP_st_local && ts_insn_operand(function, insn, 2)->kind == TS_OPERAND_IMM;
}

/* Walked from the block's end: does this definition get slots of its own? */
static bool find_renamed(struct renaming *r, const struct ts_insn *insn,
                         const struct ts__code_access *access) {
  struct ts_code_ref slots = ts__code_slots(r->table, access);
  uint32_t stamp = insn->block + 1;
  bool is_new = !access->is_use && !is_partial(access);
  const uint32_t *later = stores_constant(r->function, insn) ? r->changed : r->overwritten;
  bool is_renamed = !r->table->is_spilled[access->array] && slots.count > 0;
  for (uint32_t k = 0; k < slots.count; k++) {
    uint32_t word = word_of(r, slots.first + k);
    is_renamed &= later[word] == stamp;
    r->changed[word] = stamp;
    if (is_new) r->overwritten[word] = stamp;
  }
  return is_renamed;
}

static uint32_t current_slot(struct renaming *r, uint32_t slot, uint32_t block) {
  uint32_t word = word_of(r, slot);
  if (r->current_block[word] == block + 1) return r->current[word];
  r->current_block[word] = block + 1;
  r->is_constant[word] = false;
  return r->current[word] = slot;
}

/* The slots as they are now called, in runs. */
static int add_current(struct renaming *r, struct ts_code_ref slots, uint32_t block) {
  struct ts_code_ref run = {0, 0};
  for (uint32_t k = 0; k < slots.count; k++) {
    uint32_t slot = current_slot(r, slots.first + k, block);
    if (run.count && slot == run.first + run.count) {
      run.count++;
      continue;
    }
    if (run.count && push(r->table, run)) return -1;
    run = (struct ts_code_ref){slot, 1};
  }
  return run.count ? push(r->table, run) : 0;
}

/* Does a definition in place keep the slots that it reads? Not when they hold constants. */
static bool keeps_slots(struct renaming *r, const struct ts__code_access *access,
                        struct ts_code_ref slots, uint32_t block) {
  if (!access->is_use && !is_partial(access)) return false;
  for (uint32_t k = 0; k < slots.count; k++) {
    current_slot(r, slots.first + k, block);
    if (r->is_constant[word_of(r, slots.first + k)]) return false;
  }
  return true;
}

static int add_definition(struct renaming *r, const struct ts_insn *insn,
                          const struct ts__code_access *access, bool is_renamed) {
  struct ts_code_ref slots = ts__code_slots(r->table, access);
  uint32_t first = slots.first;
  if (keeps_slots(r, access, slots, insn->block)) return add_current(r, slots, insn->block);
  if (is_renamed) {
    first = r->table->slot_count;
    r->table->slot_count += slots.count;
  }
  for (uint32_t k = 0; k < slots.count; k++) {
    uint32_t word = word_of(r, slots.first + k);
    r->current_block[word] = insn->block + 1;
    r->current[word] = first + k;
    r->is_constant[word] = is_renamed && stores_constant(r->function, insn);
  }
  return slots.count ? push(r->table, (struct ts_code_ref){first, slots.count}) : 0;
}

static int add_refs(struct renaming *r, uint32_t id, bool is_renamed) {
  struct ts__code_table *table = r->table;
  const struct ts_function *function = table->function;
  const struct ts_insn *insn = &function->insns.data[id];
  struct ts_code_insn *out = &table->insns[id];
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  uint32_t access_count = ts__code_accesses(function, insn, accesses);
  out->first_ref = (uint32_t)table->refs.count;
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(function, insn, k);
    if (operand->kind != TS_OPERAND_REG) continue;
    if (push(table, (struct ts_code_ref){operand->index, 1})) return -1;
  }
  for (uint32_t i = 0; i < access_count; i++) {
    struct ts_code_ref slots = ts__code_slots(table, &accesses[i]);
    if (!accesses[i].is_use && !is_partial(&accesses[i])) continue;
    if (add_current(r, slots, insn->block)) return -1;
  }
  out->use_count = (uint16_t)(table->refs.count - out->first_ref);
  if (insn->dst != TS_NONE && push(table, (struct ts_code_ref){insn->dst, 1})) return -1;
  for (uint32_t i = 0; i < access_count; i++)
    if (accesses[i].is_def && add_definition(r, insn, &accesses[i], is_renamed)) return -1;
  out->def_count = (uint16_t)(table->refs.count - out->first_ref - out->use_count);
  return 0;
}

static void find_spilled_arrays(struct renaming *r) {
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  for (size_t id = 0; id < r->function->insns.count; id++) {
    uint32_t count = ts__code_accesses(r->function, &r->function->insns.data[id], accesses);
    for (uint32_t i = 0; i < count; i++)
      r->table->is_spilled[accesses[i].array] |= accesses[i].is_whole;
  }
}

static int rename_block(struct renaming *r, const struct ts_block *block, bool *is_renamed) {
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  uint32_t first = block->first_insn, end = first + block->insn_count;
  for (uint32_t id = end; id-- > first;) {
    const struct ts_insn *insn = &r->function->insns.data[id];
    uint32_t count = ts__code_accesses(r->function, insn, accesses);
    for (uint32_t i = 0; i < count; i++)
      if (accesses[i].is_def) is_renamed[id] = find_renamed(r, insn, &accesses[i]);
  }
  for (uint32_t id = first; id < end; id++)
    if (add_refs(r, id, is_renamed[id])) return -1;
  return 0;
}

static int rename_arrays(struct ts__code_table *table) {
  const struct ts_function *function = table->function;
  struct ts_arena *arena = &table->scratch;
  size_t word_count = table->slot_count - function->regs.count;
  bool *is_renamed = ts_new_array(arena, bool, function->insns.count);
  table->is_spilled = ts_new_array(arena, bool, function->arrays.count);
  struct renaming r = {.table = table,
                       .function = function,
                       .current = ts_new_array(arena, uint32_t, word_count),
                       .current_block = ts_new_array(arena, uint32_t, word_count),
                       .overwritten = ts_new_array(arena, uint32_t, word_count),
                       .changed = ts_new_array(arena, uint32_t, word_count),
                       .is_constant = ts_new_array(arena, bool, word_count)};
  if (!is_renamed || !table->is_spilled || !r.current || !r.current_block || !r.overwritten ||
      !r.changed || !r.is_constant)
    return -1;
  find_spilled_arrays(&r);
  for (size_t i = 0; i < function->blocks.count; i++)
    if (rename_block(&r, &function->blocks.data[i], is_renamed)) return -1;
  return 0;
}

static int number_uses(struct ts__code_table *table) {
  const struct ts_function *function = table->function;
  size_t use_count = 0;
  for (size_t i = 0; i < function->regs.count; i++)
    table->regs[i].def = TS_NONE;
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE)
      table->regs[function->params.data[i].reg].def_count++;
  for (uint32_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (insn->dst != TS_NONE) {
      table->regs[insn->dst].def_count++;
      table->regs[insn->dst].def = i;
    }
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, k);
      if (operand->kind != TS_OPERAND_REG) continue;
      table->regs[operand->index].use_count++;
      use_count++;
    }
  }
  table->uses = ts_new_array(&table->scratch, struct ts__code_use, use_count);
  if (!table->uses) return -1;
  uint32_t at = 0;
  for (size_t i = 0; i < function->regs.count; i++) {
    table->regs[i].first_use = at;
    at += table->regs[i].use_count;
    table->regs[i].use_count = 0;
  }
  for (uint32_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, k);
      if (operand->kind != TS_OPERAND_REG) continue;
      struct ts__code_reg *reg = &table->regs[operand->index];
      table->uses[reg->first_use + reg->use_count++] = (struct ts__code_use){i, k};
    }
  }
  return 0;
}

int ts__code_find_refs(struct ts__code_table *table) {
  return number_slots(table) || number_uses(table) || rename_arrays(table) ? -1 : 0;
}

const struct ts_code_ref *ts__code_insn_refs(const struct ts__code_table *table, uint32_t id) {
  return table->refs.data ? &table->refs.data[table->insns[id].first_ref] : NULL;
}
