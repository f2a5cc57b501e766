/* The values that take registers, and between which blocks they are alive.
 *
 * *Storages* are what can be alive: virtual registers, slots of arrays, and addresses that several
 * memory instructions share. Moves make no values: an extract, a concat of whole words or a read of
 * an array names a *root*, the word that somebody computed, and a root counts once however many of
 * its names are alive. Uniform integers live in a file of their own, parameters in the constant
 * bank, predicates in registers apart. */
#include "ir/code_priv.h"

#include <string.h>

enum {
  ROOT_CONSTANT = 0,           /* root of immediates and of what takes no register */
  MAX_LIVENESS_BITS = 1 << 26, /* sets of all blocks together; beyond it blocks are seen alone */
  MAX_LIVENESS_PASSES = 64     /* loops that deep converge; others are estimated too low */
};

static uint32_t new_root(struct ts__code_values *v, uint32_t words) {
  uint32_t user_count = 0;
  if (ts_vec_push(&v->root_words, v->table->ctx->allocator, (uint8_t)words) ||
      ts_vec_push(&v->root_users, v->table->ctx->allocator, user_count)) {
    v->out_of_memory = true;
    return ROOT_CONSTANT;
  }
  return (uint32_t)v->root_words.count - 1;
}

static unsigned bits_of(uint32_t dtype) { return ts_dtype_bits((enum ts_dtype)dtype); }

/* Does the register take words of the register file? */
static bool takes_registers(const struct ts__code_values *v, uint32_t reg) {
  const struct ts_reg *r = &v->table->function->regs.data[reg];
  const struct ts__code_reg *uses = &v->table->regs[reg];
  if (r->type.dtype == TS_DTYPE_pred) return false;
  if (uses->def == TS_NONE) return false; /* parameters */
  if (r->is_uniform && r->type.lanes == 1 && !ts_dtype_is_float((enum ts_dtype)r->type.dtype)) {
    const struct ts_insn *insn = &v->table->function->insns.data[uses->def];
    bool is_loaded = ts_op_info((enum ts_op)insn->op)->flags & F_MEM;
    return is_loaded;
  }
  return true;
}

/* Fresh roots for components [0, lanes): a word each, shared by what fits into it. */
static void fresh_parts(struct ts__code_values *v, uint32_t reg) {
  struct ts_type type = v->table->function->regs.data[reg].type;
  unsigned bits = bits_of(type.dtype);
  struct ts__code_part *parts = &v->parts[v->first_part[reg]];
  bool takes = takes_registers(v, reg);
  for (uint32_t i = 0; i < type.lanes; i++) {
    uint32_t bit = i * bits % TS__WORD_BITS;
    parts[i].bit = (uint8_t)bit;
    if (!takes)
      parts[i].root = ROOT_CONSTANT;
    else if (bits > TS__WORD_BITS)
      parts[i].root = new_root(v, bits / TS__WORD_BITS);
    else
      parts[i].root = bit && i ? parts[i - 1].root : new_root(v, 1);
  }
}

/* --- what moves name */

static struct ts__code_part operand_part(const struct ts__code_values *v,
                                         const struct ts_operand *operand, uint32_t i) {
  struct ts__code_part part = {ROOT_CONSTANT, 0};
  if (operand->kind != TS_OPERAND_REG) return part;
  uint32_t lanes = v->table->function->regs.data[operand->index].type.lanes;
  return v->parts[v->first_part[operand->index] + (lanes == 1 ? 0 : i < lanes ? i : 0)];
}

/* Words of several parts must be put together: a new root for those. */
static void settle_words(struct ts__code_values *v, struct ts__code_part *parts, uint32_t lanes,
                         unsigned bits) {
  if (bits >= TS__WORD_BITS) return;
  uint32_t per_word = TS__WORD_BITS / bits;
  for (uint32_t first = 0; first < lanes; first += per_word) {
    uint32_t end = first + per_word < lanes ? first + per_word : lanes;
    bool is_whole = true;
    for (uint32_t i = first; i < end; i++)
      is_whole &=
          parts[i].root == parts[first].root &&
          (parts[i].root == ROOT_CONSTANT || lanes == 1 || parts[i].bit == (i - first) * bits);
    if (is_whole) continue;
    uint32_t root = new_root(v, 1);
    for (uint32_t i = first; i < end; i++)
      parts[i] = (struct ts__code_part){root, (uint8_t)((i - first) * bits)};
  }
}

static void name_parts(struct ts__code_values *v, const struct ts_insn *insn) {
  struct ts__code_part *parts = &v->parts[v->first_part[insn->dst]];
  struct ts_type type = v->table->function->regs.data[insn->dst].type;
  unsigned bits = bits_of(type.dtype);
  uint64_t index = 0;
  const struct ts_operand *a =
      insn->operand_count ? ts_insn_operand(v->table->function, insn, 0) : NULL;
  switch (insn->op) {
  case TS_OP_mov:
    for (uint32_t i = 0; i < type.lanes; i++)
      parts[i] = operand_part(v, a, i);
    return;
  case TS_OP_extract:
    ts__code_constant(v->table->function, ts_insn_operand(v->table->function, insn, 1), &index);
    parts[0] = operand_part(v, a, (uint32_t)index);
    return;
  case TS_OP_broadcast:
    if (bits < TS__WORD_BITS) break;
    for (uint32_t i = 0; i < type.lanes; i++)
      parts[i] = operand_part(v, a, 0);
    return;
  case TS_OP_bitcast:
  case TS_OP_cvt:
    if (bits != bits_of(insn->dtype2) || a->kind != TS_OPERAND_REG) break;
    if (insn->op == TS_OP_cvt && (ts_dtype_is_float((enum ts_dtype)insn->dtype) ||
                                  ts_dtype_is_float((enum ts_dtype)insn->dtype2)))
      break;
    for (uint32_t i = 0; i < type.lanes; i++)
      parts[i] = operand_part(v, a, i);
    return;
  case TS_OP_concat: {
    uint32_t at = 0;
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(v->table->function, insn, k);
      uint32_t lanes = operand->kind == TS_OPERAND_REG
                           ? v->table->function->regs.data[operand->index].type.lanes
                           : 1;
      for (uint32_t i = 0; i < lanes && at < type.lanes; i++)
        parts[at++] = operand_part(v, operand, i);
    }
    settle_words(v, parts, type.lanes, bits);
    return;
  }
  default: break;
  }
  fresh_parts(v, insn->dst);
}

/* Words of arrays by their slots. */
static uint32_t *slot_root(const struct ts__code_values *v, uint32_t slot) {
  return &v->slot_root[slot - v->table->function->regs.count];
}

/* The slot of word w of the instruction's (only) array reference among refs. */
static uint32_t nth_slot(const struct ts_code_ref *refs, uint32_t count, uint32_t reg_count,
                         uint32_t w) {
  for (uint32_t i = 0; i < count; i++) {
    if (refs[i].first < reg_count) continue;
    if (w < refs[i].count) return refs[i].first + w;
    w -= refs[i].count;
  }
  return TS_NONE;
}

static void load_parts(struct ts__code_values *v, uint32_t id,
                       const struct ts__code_access *access) {
  const struct ts_insn *insn = &v->table->function->insns.data[id];
  const struct ts_code_insn *code = &v->table->insns[id];
  const struct ts_code_ref *refs = ts__code_insn_refs(v->table, id);
  unsigned bits = bits_of(insn->dtype);
  struct ts__code_part *parts = &v->parts[v->first_part[insn->dst]];
  if (v->table->is_spilled[access->array] || bits > TS__WORD_BITS || insn->dtype == TS_DTYPE_pred) {
    fresh_parts(v, insn->dst);
    return;
  }
  for (uint32_t i = 0; i < insn->lanes; i++) {
    uint64_t bit = access->first_bit % TS__WORD_BITS + i * (uint64_t)bits;
    uint32_t slot = nth_slot(refs, code->use_count, (uint32_t)v->table->function->regs.count,
                             (uint32_t)(bit / TS__WORD_BITS));
    parts[i].bit = (uint8_t)(bit % TS__WORD_BITS);
    parts[i].root = slot == TS_NONE ? ROOT_CONSTANT : *slot_root(v, slot);
  }
  settle_words(v, parts, insn->lanes, bits);
}

/* The root that word w of a store to an array gets: the value's, where it is one whole word. */
static uint32_t stored_root(struct ts__code_values *v, const struct ts_insn *insn,
                            const struct ts__code_access *access, uint32_t w) {
  unsigned bits = bits_of(insn->dtype);
  const struct ts_operand *value = ts_insn_operand(v->table->function, insn, 2);
  if (access->is_whole || bits > TS__WORD_BITS || access->first_bit % TS__WORD_BITS ||
      access->bit_count % TS__WORD_BITS)
    return new_root(v, 1);
  uint32_t per_word = TS__WORD_BITS / bits;
  struct ts__code_part first = operand_part(v, value, w * per_word);
  for (uint32_t i = 0; i < per_word; i++) {
    struct ts__code_part part = operand_part(v, value, w * per_word + i);
    if (part.root != first.root || (part.root != ROOT_CONSTANT && part.bit != i * bits))
      return new_root(v, 1);
  }
  return first.root;
}

/* Slots of a renamed version get their root here; an array's own slots have one from the start. */
static void define_slots(struct ts__code_values *v, uint32_t id,
                         const struct ts__code_access *access) {
  const struct ts_insn *insn = &v->table->function->insns.data[id];
  const struct ts_code_insn *code = &v->table->insns[id];
  const struct ts_code_ref *refs = &v->table->refs.data[code->first_ref + code->use_count];
  for (uint32_t i = 0, w = 0; i < code->def_count; i++) {
    if (refs[i].first < v->table->own_slot_count) continue;
    for (uint32_t k = 0; k < refs[i].count; k++, w++) {
      uint32_t *root = slot_root(v, refs[i].first + k);
      if (*root != ROOT_CONSTANT) continue; /* in place */
      *root = insn->op == TS_OP_st_local ? stored_root(v, insn, access, w) : new_root(v, 1);
    }
  }
}

/* What another instruction does on the side has no register: it stands for its only operand. */
static bool is_folded(const struct ts__code_values *v, uint32_t id) {
  const struct ts_insn *insn = &v->table->function->insns.data[id];
  unsigned flags = ts_op_info((enum ts_op)insn->op)->flags;
  return v->table->insns[id].flags & TS_CODE_FREE && flags & F_PURE;
}

static void name_folded(struct ts__code_values *v, uint32_t id) {
  const struct ts_insn *insn = &v->table->function->insns.data[id];
  const struct ts_function *function = v->table->function;
  struct ts_type type = function->regs.data[insn->dst].type;
  const struct ts_operand *only = NULL;
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(function, insn, k);
    if (operand->kind != TS_OPERAND_REG || !takes_registers(v, operand->index)) continue;
    if (only && only->index != operand->index)
      only = NULL;
    else
      only = operand;
  }
  if (!only || function->regs.data[only->index].type.lanes != type.lanes ||
      ts__code_words(function->regs.data[only->index].type) > ts__code_words(type))
    return;
  for (uint32_t i = 0; i < type.lanes; i++)
    v->parts[v->first_part[insn->dst] + i] = operand_part(v, only, i);
}

static void name_same(struct ts__code_values *v, uint32_t reg) {
  uint32_t other = v->table->same_as[reg];
  for (uint32_t i = 0; i < v->table->function->regs.data[reg].type.lanes; i++)
    v->parts[v->first_part[reg] + i] = v->parts[v->first_part[other] + i];
}

static bool is_move(enum ts_op op) {
  return op == TS_OP_mov || op == TS_OP_extract || op == TS_OP_broadcast || op == TS_OP_bitcast ||
         op == TS_OP_concat;
}

static void name_insn(struct ts__code_values *v, uint32_t id) {
  const struct ts_insn *insn = &v->table->function->insns.data[id];
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  uint32_t count = ts__code_accesses(v->table->function, insn, accesses);
  if (insn->dst != TS_NONE && v->table->regs[insn->dst].def_count == 1) {
    if (insn->op == TS_OP_ld_local)
      load_parts(v, id, &accesses[0]);
    else
      name_parts(v, insn);
    if (v->table->same_as[insn->dst] != insn->dst)
      name_same(v, insn->dst);
    else if (is_folded(v, id) && !is_move((enum ts_op)insn->op))
      name_folded(v, id);
  }
  for (uint32_t i = 0; i < count; i++)
    if (accesses[i].is_def) define_slots(v, id, &accesses[i]);
}

/* --- which storages an instruction reads and writes */

/* Is operand position k replaced by an address that an earlier instruction has computed? */
static bool is_in_address(const struct ts__code_address *address, uint32_t k) {
  return k == address->base || k == address->index;
}

static void add_storage(struct ts__code_values *v, struct ts__code_span *span,
                        struct ts_code_ref ref) {
  if (ts_vec_push(&v->refs, v->table->ctx->allocator, ref))
    v->out_of_memory = true;
  else
    span->count++;
}

static void find_storages(struct ts__code_values *v, uint32_t id) {
  const struct ts_function *function = v->table->function;
  const struct ts_insn *insn = &function->insns.data[id];
  const struct ts_code_insn *code = &v->table->insns[id];
  const struct ts_code_ref *refs = ts__code_insn_refs(v->table, id);
  struct ts__code_address addresses[TS__MAX_ADDRESSES];
  uint32_t leader = v->table->address_leader[id];
  bool follows =
      leader != TS_NONE && leader != id && ts__code_addresses(function, insn, addresses) > 0;
  struct ts__code_span *span = &v->spans[id];
  span->first = (uint32_t)v->refs.count;
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(function, insn, k);
    if (operand->kind != TS_OPERAND_REG || (follows && is_in_address(&addresses[0], k))) continue;
    add_storage(v, span, (struct ts_code_ref){operand->index, 1});
  }
  for (uint32_t i = 0; i < code->use_count; i++)
    if (refs[i].first >= function->regs.count) add_storage(v, span, refs[i]);
  if (follows) add_storage(v, span, (struct ts_code_ref){v->address_of[leader], 1});
  span->use_count = span->count;
  for (uint32_t i = 0; i < code->def_count; i++)
    add_storage(v, span, refs[code->use_count + i]);
  if (leader == id) add_storage(v, span, (struct ts_code_ref){v->address_of[id], 1});
}

/* --- liveness between blocks */

static void add_number(struct ts__code_values *v, uint32_t storage) {
  if (v->number[storage] != TS_NONE) return;
  v->number[storage] = v->numbered_count;
  v->numbered[v->numbered_count++] = storage;
}

/* Storages that a block reads before it writes them. seen: block + 1 by storage. */
static void number_storages(struct ts__code_values *v, uint32_t *seen) {
  for (uint32_t id = 0; id < v->table->function->insns.count; id++) {
    uint32_t stamp = v->table->function->insns.data[id].block + 1;
    const struct ts__code_span *span = &v->spans[id];
    for (uint32_t i = 0; i < span->count; i++) {
      struct ts_code_ref ref = v->refs.data[span->first + i];
      for (uint32_t storage = ref.first; storage < ref.first + ref.count; storage++)
        if (i >= span->use_count)
          seen[storage] = stamp;
        else if (seen[storage] != stamp)
          add_number(v, storage);
    }
  }
}

static void set_bit(uint64_t *set, uint32_t number) {
  set[number / 64] |= UINT64_C(1) << number % 64;
}
static bool has_bit(const uint64_t *set, uint32_t number) {
  return set[number / 64] >> number % 64 & 1;
}

struct flow {
  uint64_t *upward, *killed; /* by block, as live_in */
};

static void find_local_sets(struct ts__code_values *v, struct flow *flow) {
  for (uint32_t id = 0; id < v->table->function->insns.count; id++) {
    size_t at = v->table->function->insns.data[id].block * v->set_words;
    const struct ts__code_span *span = &v->spans[id];
    for (uint32_t i = 0; i < span->count; i++) {
      struct ts_code_ref ref = v->refs.data[span->first + i];
      for (uint32_t storage = ref.first; storage < ref.first + ref.count; storage++) {
        uint32_t number = v->number[storage];
        if (number == TS_NONE) continue;
        if (i >= span->use_count)
          set_bit(flow->killed + at, number);
        else if (!has_bit(flow->killed + at, number))
          set_bit(flow->upward + at, number);
      }
    }
  }
}

static bool flow_block(struct ts__code_values *v, const struct flow *flow, uint32_t block) {
  uint32_t targets[2], count = ts__block_targets(v->table->function, block, targets);
  size_t at = block * v->set_words;
  uint64_t *out = v->live_out + at, *in = v->live_in + at;
  bool has_changed = false;
  for (size_t w = 0; w < v->set_words; w++) {
    for (uint32_t i = 0; i < count; i++)
      out[w] |= v->live_in[targets[i] * v->set_words + w];
    uint64_t now = flow->upward[at + w] | (out[w] & ~flow->killed[at + w]);
    has_changed |= now != in[w];
    in[w] = now;
  }
  return has_changed;
}

static int find_liveness(struct ts__code_values *v) {
  struct ts_arena *arena = &v->table->scratch;
  size_t block_count = v->table->function->blocks.count;
  struct flow flow;
  uint32_t *seen = ts_new_array(arena, uint32_t, v->storage_count);
  v->number = ts_new_array(arena, uint32_t, v->storage_count);
  v->numbered = ts_new_array(arena, uint32_t, v->storage_count);
  if (!seen || !v->number || !v->numbered) return -1;
  memset(v->number, 0xff, v->storage_count * sizeof *v->number);
  number_storages(v, seen);
  v->set_words = (v->numbered_count + 63) / 64;
  if (v->set_words * block_count > MAX_LIVENESS_BITS / 64) v->set_words = 0;
  if (!v->set_words) {
    v->numbered_count = 0;
    return 0;
  }
  uint64_t **sets[] = {&v->live_in, &v->live_out, &flow.upward, &flow.killed};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (!(*sets[i] = ts_new_array(arena, uint64_t, v->set_words * block_count))) return -1;
  find_local_sets(v, &flow);
  bool has_changed = true;
  for (int pass = 0; pass < MAX_LIVENESS_PASSES && has_changed; pass++) {
    has_changed = false;
    for (size_t block = block_count; block-- > 0;)
      has_changed |= flow_block(v, &flow, (uint32_t)block);
  }
  return 0;
}

/* --- what is alive */

static void count_root(struct ts__code_values *v, uint32_t root, bool is_alive) {
  if (root == ROOT_CONSTANT) return;
  uint32_t *users = &v->root_users.data[root];
  if (is_alive ? (*users)++ == 0 : --*users == 0)
    v->live_words += is_alive ? v->root_words.data[root] : 0u - v->root_words.data[root];
}

void ts__code_set_alive(struct ts__code_values *v, uint32_t storage, bool is_alive) {
  if (v->is_alive[storage] == is_alive) return;
  v->is_alive[storage] = is_alive;
  if (storage >= v->table->function->regs.count) {
    count_root(v, *slot_root(v, storage), is_alive);
    return;
  }
  const struct ts__code_part *parts = &v->parts[v->first_part[storage]];
  for (uint32_t i = 0; i < v->table->function->regs.data[storage].type.lanes; i++)
    if (!i || parts[i].root != parts[i - 1].root) count_root(v, parts[i].root, is_alive);
}

uint32_t ts__code_storage_words(const struct ts__code_values *v, uint32_t storage) {
  const struct ts_function *function = v->table->function;
  if (storage >= function->regs.count) return v->root_words.data[*slot_root(v, storage)];
  const struct ts__code_part *parts = &v->parts[v->first_part[storage]];
  uint32_t words = 0;
  for (uint32_t i = 0; i < function->regs.data[storage].type.lanes; i++)
    if (!i || parts[i].root != parts[i - 1].root) words += v->root_words.data[parts[i].root];
  return words;
}

bool ts__code_is_live_out(const struct ts__code_values *v, uint32_t block, uint32_t storage) {
  return v->set_words && v->number[storage] != TS_NONE &&
         has_bit(v->live_out + block * v->set_words, v->number[storage]);
}

void ts__code_enter_block(struct ts__code_values *v, uint32_t block) {
  for (uint32_t i = 0; i < v->numbered_count; i++)
    if (has_bit(v->live_in + block * v->set_words, i)) ts__code_set_alive(v, v->numbered[i], true);
}

void ts__code_leave_block(struct ts__code_values *v) {
  for (uint32_t i = 0; i < v->numbered_count; i++)
    ts__code_set_alive(v, v->numbered[i], false);
}

/* --- all of it */

static int allocate(struct ts__code_values *v) {
  struct ts_arena *arena = &v->table->scratch;
  const struct ts_function *function = v->table->function;
  size_t part_count = 0, insn_count = function->insns.count;
  v->address_of = ts_new_array(arena, uint32_t, insn_count);
  v->first_part = ts_new_array(arena, uint32_t, function->regs.count);
  v->spans = ts_new_array(arena, struct ts__code_span, insn_count);
  if (!v->address_of || !v->first_part || !v->spans) return -1;
  v->storage_count = v->table->slot_count;
  for (uint32_t i = 0; i < insn_count; i++)
    if (v->table->address_leader[i] == i) v->address_of[i] = v->storage_count++;
  for (size_t i = 0; i < function->regs.count; i++) {
    v->first_part[i] = (uint32_t)part_count;
    part_count += function->regs.data[i].type.lanes;
  }
  v->parts = ts_new_array(arena, struct ts__code_part, part_count);
  v->slot_root = ts_new_array(arena, uint32_t, v->storage_count - function->regs.count);
  v->is_alive = ts_new_array(arena, bool, v->storage_count);
  return v->parts && v->slot_root && v->is_alive ? 0 : -1;
}

static void make_roots(struct ts__code_values *v) {
  const struct ts_function *function = v->table->function;
  new_root(v, 0); /* ROOT_CONSTANT */
  for (uint32_t i = 0; i < function->regs.count; i++)
    fresh_parts(v, i);
  for (size_t a = 0; a < function->arrays.count; a++) {
    uint32_t first = v->table->array_slot[a];
    for (uint32_t i = 0; i < function->arrays.data[a].size_bytes / 4; i++)
      *slot_root(v, first + i) = v->table->is_spilled[a] ? ROOT_CONSTANT : new_root(v, 1);
  }
  for (uint32_t i = 0; i < function->insns.count; i++) {
    struct ts__code_address addresses[TS__MAX_ADDRESSES];
    if (v->table->address_leader[i] != i) continue;
    ts__code_addresses(function, &function->insns.data[i], addresses);
    *slot_root(v, v->address_of[i]) = new_root(v, addresses[0].is_global ? 2 : 1);
  }
}

int ts__code_values_init(struct ts__code_values *v, struct ts__code_table *table) {
  *v = (struct ts__code_values){.table = table};
  if (allocate(v)) return -1;
  make_roots(v);
  for (uint32_t id = 0; id < table->function->insns.count && !v->out_of_memory; id++) {
    name_insn(v, id);
    find_storages(v, id);
  }
  return v->out_of_memory ? -1 : find_liveness(v);
}

void ts__code_values_free(struct ts__code_values *v) {
  const struct ts_allocator *allocator = v->table->ctx->allocator;
  ts_vec_free(&v->root_words, allocator);
  ts_vec_free(&v->root_users, allocator);
  ts_vec_free(&v->refs, allocator);
}
