/* Addresses: which memory instruction computes one anew, and which use that of an earlier one. */
#include "ir/code_priv.h"

enum { OFFSET_REACH_LOG2 = 23 }; /* immediate offsets are 24 bits with sign */

struct address_key {
  uint32_t base_kind, base, index_kind, index;
  int64_t scale, reach; /* reach: the offset where it cannot be an immediate, else its multiple */
};

/* An address of cp.async is an operand of inline assembly: the compiler adds an offset to the index
 * before it extends that to 64 bits, and the sum might have wrapped. */
static bool is_immediate_offset(const struct ts_insn *insn,
                                const struct ts__code_address *address) {
  return insn->op != TS_OP_cp_async || !address->is_global || !address->offset;
}

/* The register that stands for an operand's value in its region; other operands as they are. */
static uint32_t value_of(const struct ts__code_table *table, const struct ts_operand *operand) {
  return operand->kind == TS_OPERAND_REG ? table->same_as[operand->index] : operand->index;
}

static struct address_key key_of(const struct ts__code_table *table, const struct ts_insn *insn,
                                 const struct ts__code_address *address) {
  const struct ts_operand *base = ts_insn_operand(table->function, insn, address->base);
  const struct ts_operand *index = ts_insn_operand(table->function, insn, address->index);
  bool is_immediate = is_immediate_offset(insn, address);
  return (struct address_key){.base_kind = base->kind,
                              .base = value_of(table, base),
                              .index_kind = index->kind,
                              .index = value_of(table, index),
                              .scale = address->scale,
                              .reach = is_immediate ? address->offset >> OFFSET_REACH_LOG2
                                                    : address->offset};
}

static bool is_same_key(const struct address_key *a, const struct address_key *b) {
  return a->base_kind == b->base_kind && a->base == b->base && a->index_kind == b->index_kind &&
         a->index == b->index && a->scale == b->scale && a->reach == b->reach;
}

static uint32_t hash_key(const struct address_key *key) {
  uint32_t hash =
      ts__hash_word(key->base_kind << 8 | key->index_kind, (uint64_t)key->base << 32 | key->index);
  return ts__hash_word(hash, (uint64_t)key->scale << 32 ^ (uint64_t)key->reach);
}

/* Constant index, or a shared window with an index in bytes: the address is an operand as it is. */
static bool needs_address(const struct ts__code_table *table, const struct ts_insn *insn,
                          const struct ts__code_address *address) {
  if (address->index == TS_NONE) return false;
  const struct ts_operand *base = ts_insn_operand(table->function, insn, address->base);
  const struct ts_operand *index = ts_insn_operand(table->function, insn, address->index);
  if (index->kind != TS_OPERAND_REG) return false;
  if (address->is_global) return true;
  return address->scale != 1 || !ts__code_is_known(table, base);
}

static bool is_variable(const struct ts__code_table *table, const struct ts_operand *operand) {
  return operand->kind == TS_OPERAND_REG && table->regs[operand->index].def_count > 1;
}

struct address_entry {
  struct address_key key;
  uint32_t leader;
};

struct addresses {
  struct ts__index index;
  TS_VEC(struct address_entry) entries;
};

/* The instruction whose address this one may use, or itself. Addresses of variables are shared
 * within a block only, and are then approximately right: the variable changes at its end. */
static int find_leader(struct ts__code_table *table, struct addresses *seen, uint32_t id,
                       const struct ts__code_address *address, uint32_t *leader) {
  const struct ts_insn *insn = &table->function->insns.data[id];
  struct address_key key = key_of(table, insn, address);
  bool is_local = is_variable(table, ts_insn_operand(table->function, insn, address->base)) ||
                  is_variable(table, ts_insn_operand(table->function, insn, address->index));
  uint32_t hash = hash_key(&key), item;
  for (size_t at = ts__index_first(&seen->index, hash);
       ts__index_find(&seen->index, hash, &at, &item); at = ts__index_next(&seen->index, at)) {
    const struct address_entry *entry = &seen->entries.data[item];
    uint32_t block = table->function->insns.data[entry->leader].block;
    if (!is_same_key(&entry->key, &key)) continue;
    bool is_beside = table->insns[entry->leader].block == table->insns[id].block;
    bool is_above = ts__cfg_dominates(&table->cfg, block, insn->block);
    if (is_local ? block != insn->block : !is_beside && !is_above) continue;
    *leader = entry->leader;
    return 0;
  }
  *leader = id;
  struct address_entry entry = {key, id};
  const struct ts_allocator *allocator = table->ctx->allocator;
  if (ts_vec_push(&seen->entries, allocator, entry)) return -1;
  return ts__index_add(&seen->index, allocator, hash, (uint32_t)seen->entries.count - 1);
}

int ts__code_find_addresses(struct ts__code_table *table) {
  struct addresses seen = {.entries = {NULL, 0, 0}};
  size_t insn_count = table->function->insns.count;
  table->address_leader = ts_new_array(&table->scratch, uint32_t, insn_count);
  table->has_own_offset = ts_new_array(&table->scratch, bool, insn_count);
  if (!table->address_leader || !table->has_own_offset) return -1;
  int failed = 0;
  for (uint32_t id = 0; id < insn_count && !failed; id++) {
    struct ts__code_address addresses[TS__MAX_ADDRESSES];
    const struct ts_insn *insn = &table->function->insns.data[id];
    uint32_t count = ts__code_addresses(table->function, insn, addresses);
    table->address_leader[id] = TS_NONE;
    for (uint32_t i = count; i-- > 0 && !failed;) {
      uint32_t leader;
      if (!needs_address(table, insn, &addresses[i])) continue;
      failed = find_leader(table, &seen, id, &addresses[i], &leader);
      table->address_leader[id] = leader;
      if (leader != id) continue;
      table->insns[id].flags |= TS_CODE_ADDRESS;
      table->has_own_offset[id] = !is_immediate_offset(insn, &addresses[i]);
    }
  }
  ts__index_free(&seen.index, table->ctx->allocator);
  ts_vec_free(&seen.entries, table->ctx->allocator);
  return failed;
}
