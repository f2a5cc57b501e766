/* Registers per thread: what is alive at once over the scheduled order, in 32-bit words.
 *
 * A value is alive from its definition to its last use. Moves make no values: an extract, a concat
 * of whole words or a read of an array names a *root*, the word that somebody computed, and a root
 * counts once however many names of it are alive. Uniform integers live in a file of their own,
 * parameters in the constant bank, predicates have registers apart. */
#include "ir/code_priv.h"

#include <string.h>

enum {
  ROOT_CONSTANT = 0,           /* root of immediates and of what takes no register */
  MAX_LIVENESS_BITS = 1 << 28, /* sets of all blocks together; beyond it blocks are seen alone */
  LEAST_REGISTERS = 16,
  MOST_REGISTERS = 255
};

/* Where a component of a register lies. */
struct part {
  uint32_t root;
  uint8_t bit;
};

/* A word of an array got another root. */
struct change {
  uint32_t slot, old_root;
};

/* *Storages* are what can be alive: registers, array words, then addresses by leader. */
struct pressure {
  struct ts__code_table *table;
  const struct ts_function *function;
  const struct ts_allocator *allocator;
  uint32_t storage_count, address_count;
  uint32_t *address_of; /* by instruction that leads: storage */
  uint32_t *first_part; /* by register */
  struct part *parts;
  TS_VEC(uint8_t) root_words;
  TS_VEC(uint32_t) root_users; /* names alive */
  uint32_t *content;           /* by array word: root; valid in content_block */
  uint32_t *content_block;     /* block + 1 */
  uint32_t first_home;         /* root of the first array word between blocks */
  TS_VEC(struct change) changes;
  bool *is_alive; /* by storage */
  uint32_t *alive;
  uint32_t live_words, peak_words;
  /* Liveness between blocks, of those storages that have a number there. */
  uint32_t *number; /* by storage, TS_NONE */
  uint32_t *numbered, numbered_count;
  uint64_t *live_in, *live_out, *upward, *killed; /* by block: set_words words each */
  size_t set_words;
  uint32_t *order; /* instructions of the block by rank */
  bool out_of_memory;
};

static uint32_t new_root(struct pressure *p, uint32_t words) {
  uint32_t user_count = 0;
  if (ts_vec_push(&p->root_words, p->allocator, (uint8_t)words) ||
      ts_vec_push(&p->root_users, p->allocator, user_count)) {
    p->out_of_memory = true;
    return ROOT_CONSTANT;
  }
  return (uint32_t)p->root_words.count - 1;
}

static unsigned bits_of(uint32_t dtype) { return ts_dtype_bits((enum ts_dtype)dtype); }

/* Does the register take words of the register file? */
static bool takes_registers(const struct pressure *p, uint32_t reg) {
  const struct ts_reg *r = &p->function->regs.data[reg];
  const struct ts__code_reg *uses = &p->table->regs[reg];
  if (r->type.dtype == TS_DTYPE_pred) return false;
  if (uses->def == TS_NONE) return false; /* parameters */
  if (r->is_uniform && r->type.lanes == 1 && !ts_dtype_is_float((enum ts_dtype)r->type.dtype)) {
    const struct ts_insn *insn = &p->function->insns.data[uses->def];
    bool is_loaded = ts_op_info((enum ts_op)insn->op)->flags & F_MEM;
    return is_loaded;
  }
  return true;
}

/* Fresh roots for components [0, lanes): a word each, shared by what fits into it. */
static void fresh_parts(struct pressure *p, uint32_t reg) {
  struct ts_type type = p->function->regs.data[reg].type;
  unsigned bits = bits_of(type.dtype);
  struct part *parts = &p->parts[p->first_part[reg]];
  bool takes = takes_registers(p, reg);
  for (uint32_t i = 0; i < type.lanes; i++) {
    uint32_t bit = i * bits % TS__WORD_BITS;
    parts[i].bit = (uint8_t)bit;
    if (!takes)
      parts[i].root = ROOT_CONSTANT;
    else if (bits > TS__WORD_BITS)
      parts[i].root = new_root(p, bits / TS__WORD_BITS);
    else
      parts[i].root = bit && i ? parts[i - 1].root : new_root(p, 1);
  }
}

/* --- what moves name */

static struct part operand_part(const struct pressure *p, const struct ts_operand *operand,
                                uint32_t i) {
  struct part part = {ROOT_CONSTANT, 0};
  if (operand->kind != TS_OPERAND_REG) return part;
  uint32_t lanes = p->function->regs.data[operand->index].type.lanes;
  return p->parts[p->first_part[operand->index] + (lanes == 1 ? 0 : i < lanes ? i : 0)];
}

/* Words of several parts must be put together: a new root for those. */
static void settle_words(struct pressure *p, struct part *parts, uint32_t lanes, unsigned bits) {
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
    uint32_t root = new_root(p, 1);
    for (uint32_t i = first; i < end; i++)
      parts[i] = (struct part){root, (uint8_t)((i - first) * bits)};
  }
}

/* Between blocks a word of an array has a root of its own. */
static uint32_t word_content(struct pressure *p, uint32_t slot, uint32_t block) {
  if (p->content_block[slot] != block + 1) {
    p->content_block[slot] = block + 1;
    p->content[slot] = p->first_home + slot - (uint32_t)p->function->regs.count;
  }
  return p->content[slot];
}

static void name_parts(struct pressure *p, const struct ts_insn *insn) {
  struct part *parts = &p->parts[p->first_part[insn->dst]];
  struct ts_type type = p->function->regs.data[insn->dst].type;
  unsigned bits = bits_of(type.dtype);
  uint64_t index = 0;
  const struct ts_operand *a = insn->operand_count ? ts_insn_operand(p->function, insn, 0) : NULL;
  switch (insn->op) {
  case TS_OP_mov:
    for (uint32_t i = 0; i < type.lanes; i++)
      parts[i] = operand_part(p, a, i);
    return;
  case TS_OP_extract:
    ts__code_constant(p->function, ts_insn_operand(p->function, insn, 1), &index);
    parts[0] = operand_part(p, a, (uint32_t)index);
    return;
  case TS_OP_broadcast:
    if (bits < TS__WORD_BITS) break;
    for (uint32_t i = 0; i < type.lanes; i++)
      parts[i] = operand_part(p, a, 0);
    return;
  case TS_OP_bitcast:
  case TS_OP_cvt:
    if (bits != bits_of(insn->dtype2) || a->kind != TS_OPERAND_REG) break;
    if (insn->op == TS_OP_cvt && (ts_dtype_is_float((enum ts_dtype)insn->dtype) ||
                                  ts_dtype_is_float((enum ts_dtype)insn->dtype2)))
      break;
    for (uint32_t i = 0; i < type.lanes; i++)
      parts[i] = operand_part(p, a, i);
    return;
  case TS_OP_concat: {
    uint32_t at = 0;
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(p->function, insn, k);
      uint32_t lanes =
          operand->kind == TS_OPERAND_REG ? p->function->regs.data[operand->index].type.lanes : 1;
      for (uint32_t i = 0; i < lanes && at < type.lanes; i++)
        parts[at++] = operand_part(p, operand, i);
    }
    settle_words(p, parts, type.lanes, bits);
    return;
  }
  default: break;
  }
  fresh_parts(p, insn->dst);
}

static void load_parts(struct pressure *p, const struct ts_insn *insn,
                       const struct ts__code_access *access) {
  struct ts_code_ref slots = ts__code_slots(p->table, access);
  unsigned bits = bits_of(insn->dtype);
  struct part *parts = &p->parts[p->first_part[insn->dst]];
  if (access->is_whole || bits > TS__WORD_BITS || insn->dtype == TS_DTYPE_pred) {
    fresh_parts(p, insn->dst);
    return;
  }
  for (uint32_t i = 0; i < insn->lanes; i++) {
    uint64_t bit = access->first_bit % TS__WORD_BITS + i * (uint64_t)bits;
    uint32_t word = (uint32_t)(bit / TS__WORD_BITS);
    parts[i].bit = (uint8_t)(bit % TS__WORD_BITS);
    parts[i].root =
        word < slots.count ? word_content(p, slots.first + word, insn->block) : ROOT_CONSTANT;
  }
  settle_words(p, parts, insn->lanes, bits);
}

static void set_content(struct pressure *p, uint32_t slot, uint32_t block, uint32_t root) {
  struct change change = {slot, word_content(p, slot, block)};
  if (ts_vec_push(&p->changes, p->allocator, change)) p->out_of_memory = true;
  p->content[slot] = root;
}

/* The root that word w of a store to an array gets: the value's, where it is one whole word. */
static uint32_t stored_root(struct pressure *p, const struct ts_insn *insn,
                            const struct ts__code_access *access, uint32_t w) {
  unsigned bits = bits_of(insn->dtype);
  const struct ts_operand *value = ts_insn_operand(p->function, insn, 2);
  if (access->is_whole || bits > TS__WORD_BITS || access->first_bit % TS__WORD_BITS ||
      access->bit_count % TS__WORD_BITS)
    return new_root(p, 1);
  uint32_t per_word = TS__WORD_BITS / bits;
  struct part first = operand_part(p, value, w * per_word);
  for (uint32_t i = 0; i < per_word; i++) {
    struct part part = operand_part(p, value, w * per_word + i);
    if (part.root != first.root || (part.root != ROOT_CONSTANT && part.bit != i * bits))
      return new_root(p, 1);
  }
  return first.root;
}

static void define_array(struct pressure *p, const struct ts_insn *insn,
                         const struct ts__code_access *access) {
  struct ts_code_ref slots = ts__code_slots(p->table, access);
  for (uint32_t w = 0; w < slots.count; w++) {
    uint32_t slot = slots.first + w;
    uint32_t root = word_content(p, slot, insn->block);
    if (insn->op == TS_OP_st_local)
      root = stored_root(p, insn, access, w);
    else if (!access->is_use || root == ROOT_CONSTANT)
      root = new_root(p, 1); /* else in place */
    set_content(p, slot, insn->block, root);
  }
}

static void name_insn(struct pressure *p, uint32_t id) {
  const struct ts_insn *insn = &p->function->insns.data[id];
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  uint32_t count = ts__code_accesses(p->function, insn, accesses);
  if (insn->dst != TS_NONE && p->table->regs[insn->dst].def_count == 1) {
    if (insn->op == TS_OP_ld_local)
      load_parts(p, insn, &accesses[0]);
    else
      name_parts(p, insn);
  }
  for (uint32_t i = 0; i < count; i++)
    if (accesses[i].is_def) define_array(p, insn, &accesses[i]);
}

/* --- which storages an instruction reads and writes */

struct storages {
  struct ts_code_ref refs[TS_MAX_OPERANDS + 2 * TS__MAX_ACCESSES + 2];
  uint32_t use_count, count;
};

/* Is operand position k replaced by an address that an earlier instruction has computed? */
static bool is_in_address(const struct ts__code_address *addresses, uint32_t count, uint32_t k) {
  for (uint32_t i = 0; i < count; i++)
    if (k == addresses[i].base || k == addresses[i].index) return true;
  return false;
}

static void find_storages(const struct pressure *p, uint32_t id, struct storages *out) {
  const struct ts_insn *insn = &p->function->insns.data[id];
  const struct ts_code_insn *code = &p->table->insns[id];
  struct ts__code_address addresses[TS__MAX_ADDRESSES];
  uint32_t leader = p->table->address_leader[id];
  bool follows = leader != TS_NONE && leader != id;
  uint32_t address_count = follows ? ts__code_addresses(p->function, insn, addresses) : 0;
  out->count = 0;
  if (address_count > 1) address_count = 1; /* the one with the leader */
  for (uint32_t k = 0; k < insn->operand_count; k++) {
    const struct ts_operand *operand = ts_insn_operand(p->function, insn, k);
    if (operand->kind != TS_OPERAND_REG || is_in_address(addresses, address_count, k)) continue;
    out->refs[out->count++] = (struct ts_code_ref){operand->index, 1};
  }
  const struct ts_code_ref *refs = &p->table->refs.data[code->first_ref];
  for (uint32_t i = 0; i < code->use_count; i++)
    if (refs[i].first >= p->function->regs.count) out->refs[out->count++] = refs[i];
  if (follows) out->refs[out->count++] = (struct ts_code_ref){p->address_of[leader], 1};
  out->use_count = out->count;
  for (uint32_t i = 0; i < code->def_count; i++)
    out->refs[out->count++] = refs[code->use_count + i];
  if (leader == id) out->refs[out->count++] = (struct ts_code_ref){p->address_of[id], 1};
}

/* --- liveness between blocks */

static void add_number(struct pressure *p, uint32_t storage) {
  if (p->number[storage] != TS_NONE) return;
  p->number[storage] = p->numbered_count;
  p->numbered[p->numbered_count++] = storage;
}

/* Storages that a block reads before it writes them. seen: block + 1 by storage. */
static void number_storages(struct pressure *p, uint32_t *seen) {
  struct storages s;
  for (uint32_t id = 0; id < p->function->insns.count; id++) {
    uint32_t stamp = p->function->insns.data[id].block + 1;
    find_storages(p, id, &s);
    for (uint32_t i = 0; i < s.count; i++)
      for (uint32_t k = 0; k < s.refs[i].count; k++) {
        uint32_t storage = s.refs[i].first + k;
        if (i >= s.use_count)
          seen[storage] = stamp;
        else if (seen[storage] != stamp)
          add_number(p, storage);
      }
  }
}

static void set_bit(uint64_t *set, uint32_t number) {
  set[number / 64] |= UINT64_C(1) << number % 64;
}
static bool has_bit(const uint64_t *set, uint32_t number) {
  return set[number / 64] >> number % 64 & 1;
}

static void find_local_sets(struct pressure *p) {
  struct storages s;
  for (uint32_t id = 0; id < p->function->insns.count; id++) {
    size_t at = p->function->insns.data[id].block * p->set_words;
    find_storages(p, id, &s);
    for (uint32_t i = 0; i < s.count; i++)
      for (uint32_t k = 0; k < s.refs[i].count; k++) {
        uint32_t number = p->number[s.refs[i].first + k];
        if (number == TS_NONE) continue;
        if (i >= s.use_count)
          set_bit(p->killed + at, number);
        else if (!has_bit(p->killed + at, number))
          set_bit(p->upward + at, number);
      }
  }
}

static bool flow_block(struct pressure *p, uint32_t block) {
  uint32_t targets[2], count = ts__block_targets(p->function, block, targets);
  uint64_t *out = p->live_out + block * p->set_words, *in = p->live_in + block * p->set_words;
  const uint64_t *upward = p->upward + block * p->set_words;
  const uint64_t *killed = p->killed + block * p->set_words;
  bool has_changed = false;
  for (size_t w = 0; w < p->set_words; w++) {
    for (uint32_t i = 0; i < count; i++)
      out[w] |= p->live_in[targets[i] * p->set_words + w];
    uint64_t now = upward[w] | (out[w] & ~killed[w]);
    has_changed |= now != in[w];
    in[w] = now;
  }
  return has_changed;
}

static int find_liveness(struct pressure *p) {
  struct ts_arena *arena = &p->table->scratch;
  size_t block_count = p->function->blocks.count;
  uint32_t *seen = ts_new_array(arena, uint32_t, p->storage_count);
  p->number = ts_new_array(arena, uint32_t, p->storage_count);
  p->numbered = ts_new_array(arena, uint32_t, p->storage_count);
  if (!seen || !p->number || !p->numbered) return -1;
  memset(p->number, 0xff, p->storage_count * sizeof *p->number);
  number_storages(p, seen);
  p->set_words = (p->numbered_count + 63) / 64;
  if (p->set_words * block_count > MAX_LIVENESS_BITS / 64) p->set_words = 0;
  if (!p->set_words) {
    p->numbered_count = 0;
    return 0;
  }
  uint64_t **sets[] = {&p->live_in, &p->live_out, &p->upward, &p->killed};
  for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
    if (!(*sets[i] = ts_new_array(arena, uint64_t, p->set_words * block_count))) return -1;
  find_local_sets(p);
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (size_t block = block_count; block-- > 0;)
      has_changed |= flow_block(p, (uint32_t)block);
  }
  return 0;
}

/* --- counting */

static void count_root(struct pressure *p, uint32_t root, int step) {
  if (root == ROOT_CONSTANT) return;
  uint32_t *users = &p->root_users.data[root];
  uint32_t words = p->root_words.data[root];
  if (step > 0 && (*users)++ == 0) p->live_words += words;
  if (step < 0 && --*users == 0) p->live_words -= words;
}

static void count_storage(struct pressure *p, uint32_t storage, uint32_t block, int step) {
  uint32_t reg_count = (uint32_t)p->function->regs.count;
  if (storage >= p->table->slot_count) {
    count_root(p, p->content[storage], step);
  } else if (storage >= reg_count) {
    count_root(p, word_content(p, storage, block), step);
  } else {
    const struct part *parts = &p->parts[p->first_part[storage]];
    for (uint32_t i = 0; i < p->function->regs.data[storage].type.lanes; i++)
      if (!i || parts[i].root != parts[i - 1].root) count_root(p, parts[i].root, step);
  }
}

static void make_alive(struct pressure *p, uint32_t storage, uint32_t block, bool is_alive) {
  if (p->is_alive[storage] == is_alive) return;
  p->is_alive[storage] = is_alive;
  count_storage(p, storage, block, is_alive ? 1 : -1);
}

static void step_back(struct pressure *p, uint32_t id, size_t change_count) {
  struct storages s;
  uint32_t block = p->function->insns.data[id].block;
  find_storages(p, id, &s);
  for (uint32_t i = s.use_count; i < s.count; i++)
    for (uint32_t k = 0; k < s.refs[i].count; k++)
      make_alive(p, s.refs[i].first + k, block, false);
  while (p->changes.count > change_count) {
    struct change change = p->changes.data[--p->changes.count];
    p->content[change.slot] = change.old_root;
  }
  for (uint32_t i = 0; i < s.use_count; i++)
    for (uint32_t k = 0; k < s.refs[i].count; k++)
      make_alive(p, s.refs[i].first + k, block, true);
  if (p->live_words > p->peak_words) p->peak_words = p->live_words;
}

static int count_block(struct pressure *p, uint32_t number) {
  const struct ts_block *block = &p->function->blocks.data[number];
  uint32_t first = block->first_insn, count = block->insn_count;
  size_t *marks = NULL;
  p->changes.count = 0;
  marks = p->allocator->resize(p->allocator->user, NULL, 0, count * sizeof *marks);
  if (!marks) return -1;
  for (uint32_t i = 0; i < count; i++)
    p->order[p->table->insns[first + i].rank] = first + i;
  for (uint32_t i = 0; i < count; i++) {
    marks[i] = p->changes.count;
    name_insn(p, p->order[i]);
  }
  for (uint32_t i = 0; i < p->numbered_count; i++)
    if (has_bit(p->live_out + number * p->set_words, i))
      make_alive(p, p->numbered[i], number, true);
  if (p->live_words > p->peak_words) p->peak_words = p->live_words;
  for (uint32_t i = count; i-- > 0 && !p->out_of_memory;)
    step_back(p, p->order[i], marks[i]);
  for (uint32_t i = 0; i < p->numbered_count; i++)
    make_alive(p, p->numbered[i], number, false);
  p->allocator->resize(p->allocator->user, marks, count * sizeof *marks, 0);
  return p->out_of_memory ? -1 : 0;
}

/* --- the launch's number */

/* A kernel that moves registers between its warps starts with what the block's threads can have of
 * the file's 65536, in steps of 8, and no more than what it asks for (MEASURED: 168 for 384
 * threads, 240 for 256 that ask for 240). */
static uint32_t respect_setmaxnreg(const struct ts_function *function, uint32_t registers) {
  uint32_t most = 0, threads = 1;
  for (int i = 0; i < 3; i++)
    threads *= function->thread_extent[i] ? function->thread_extent[i] : 1;
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    uint64_t asked = 0;
    if (insn->op != TS_OP_set_max_nreg) continue;
    ts__code_constant(function, ts_insn_operand(function, insn, 0), &asked);
    if (asked > most) most = (uint32_t)asked;
  }
  if (!most || !threads) return registers;
  uint32_t share = 65536 / threads / 8 * 8;
  return share < most ? share : most;
}

static int allocate(struct pressure *p) {
  struct ts_arena *arena = &p->table->scratch;
  const struct ts_function *function = p->function;
  size_t part_count = 0, insn_count = function->insns.count;
  p->address_of = ts_new_array(arena, uint32_t, insn_count);
  p->first_part = ts_new_array(arena, uint32_t, function->regs.count);
  p->order = ts_new_array(arena, uint32_t, insn_count);
  if (!p->address_of || !p->first_part || !p->order) return -1;
  p->storage_count = p->table->slot_count;
  for (uint32_t i = 0; i < insn_count; i++)
    if (p->table->address_leader[i] == i) p->address_of[i] = p->storage_count++;
  for (size_t i = 0; i < function->regs.count; i++) {
    p->first_part[i] = (uint32_t)part_count;
    part_count += function->regs.data[i].type.lanes;
  }
  p->parts = ts_new_array(arena, struct part, part_count);
  p->content = ts_new_array(arena, uint32_t, p->storage_count);
  p->content_block = ts_new_array(arena, uint32_t, p->storage_count);
  p->is_alive = ts_new_array(arena, bool, p->storage_count);
  return p->parts && p->content && p->content_block && p->is_alive ? 0 : -1;
}

static void make_roots(struct pressure *p) {
  new_root(p, 0); /* ROOT_CONSTANT */
  for (uint32_t i = 0; i < p->function->regs.count; i++)
    fresh_parts(p, i);
  p->first_home = (uint32_t)p->root_words.count;
  for (size_t i = p->function->regs.count; i < p->table->slot_count; i++)
    new_root(p, 1);
  for (uint32_t i = 0; i < p->function->insns.count; i++) {
    struct ts__code_address addresses[TS__MAX_ADDRESSES];
    if (p->table->address_leader[i] != i) continue;
    ts__code_addresses(p->function, &p->function->insns.data[i], addresses);
    p->content[p->address_of[i]] = new_root(p, addresses[0].is_global ? 2 : 1);
  }
}

static int measure(struct pressure *p) {
  if (allocate(p)) return -1;
  make_roots(p);
  if (p->out_of_memory || find_liveness(p)) return -1;
  for (uint32_t i = 0; i < p->function->blocks.count; i++)
    if (count_block(p, i)) return -1;
  return 0;
}

int ts__code_find_registers(struct ts__code_table *table, uint32_t *registers_per_thread) {
  struct pressure p = {
      .table = table, .function = table->function, .allocator = table->ctx->allocator};
  int failed = measure(&p);
  ts_vec_free(&p.root_words, p.allocator);
  ts_vec_free(&p.root_users, p.allocator);
  ts_vec_free(&p.changes, p.allocator);
  if (failed) return -1;
  uint32_t registers = p.peak_words + 10;
  if (registers < LEAST_REGISTERS) registers = LEAST_REGISTERS;
  if (registers > MOST_REGISTERS) registers = MOST_REGISTERS;
  *registers_per_thread = respect_setmaxnreg(table->function, registers);
  return 0;
}
