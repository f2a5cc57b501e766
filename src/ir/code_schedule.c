/* The order in which a block's instructions are issued: a list schedule as an assembler makes it.
 * Cycle by cycle, of the instructions whose operands are there the one with the longest way to the
 * block's end goes first; near the limit of registers, one that frees some.
 *
 * Rough latencies are enough: they only order. Inline assembly that synchronises keeps its order;
 * loads do not pass stores to memory they may share, and no access passes what orders memory.
 * Matrix products and shuffles are arithmetic to the assembler: they move across barriers
 * (MEASURED on machine code of nvcc 13.0). */
#include "ir/code_priv.h"

#include <string.h>

/* GUESS: cycles, to one digit as an H200 has them. */
enum {
  LATENCY_GLOBAL = 400,
  LATENCY_SHARED = 25,
  LATENCY_MATRIX_LOAD = 37, /* FITTED: ldmatrix of the next step among the products of this one */
  LATENCY_SPECIAL = 20,
  LATENCY_MATRIX = 33,
  LATENCY_SYNC = 20,
  LATENCY_ALU = 4,
  MAX_STORES_COMPARED = 32,
  MAX_CANDIDATES = 24, /* looked at for one that frees registers */
  REGISTER_RESERVE = 16,
  WORDS_PER_EARLY_ADDRESS = 3,
  MAX_EARLY_ADDRESS_WORDS = 24,
  EARLY_CYCLES = 20,
  BARRIERS_PASSED = 3, /* by a shuffle */
  MAX_SUM_TERMS = 8,
  MAX_HEIGHT = 600,
  PLACES_PER_CYCLE = 4 /* so many places later in the program are worth a cycle of height */
};

bool ts__code_is_ordered(enum ts_op op) {
  const struct ts_op_info *info = ts_op_info(op);
  if (op == TS_OP_wgmma_touch || op == TS_OP_prefetch_tensormap || op == TS_OP_elect) return true;
  if (op == TS_OP_tmem_ld || op == TS_OP_tmem_st) return true;
  return info->flags & (F_SYNC | F_ASYNC) || info->unit == TS_UNIT_SYNC;
}

static uint32_t latency(const struct ts_insn *insn, bool is_free) {
  if (is_free) return 0;
  switch (insn->op) {
  case TS_OP_ld_global:
  case TS_OP_atom_global_ret: return LATENCY_GLOBAL;
  case TS_OP_ld_shared:
  case TS_OP_ld_cluster:
  case TS_OP_shfl:
  case TS_OP_atom_shared_ret: return LATENCY_SHARED;
  case TS_OP_ldmatrix: return LATENCY_MATRIX_LOAD;
  default: break;
  }
  switch (ts_op_info((enum ts_op)insn->op)->unit) {
  case TS_UNIT_SPECIAL: return LATENCY_SPECIAL;
  case TS_UNIT_MATRIX: return LATENCY_MATRIX;
  case TS_UNIT_SYNC: return LATENCY_SYNC;
  default: return LATENCY_ALU;
  }
}

/* GUESS: how long the next instruction of a pipe waits. */
static uint32_t issue_cycles(const struct ts_insn *insn, bool is_free) {
  if (is_free) return 0;
  switch (insn->op) {
  case TS_OP_ldmatrix: return 4;
  case TS_OP_mma: return 4;
  default: return insn->lanes > 4 ? insn->lanes / 4 : 1;
  }
}

/* --- dependencies */

struct edge {
  uint32_t to, next; /* next: edge + 1 */
  uint32_t latency;
};

/* A shuffle, and how many barriers there were before it. */
struct crossing {
  uint32_t insn, barrier;
};

struct memory_access {
  uint32_t insn;
  uint32_t next; /* + 1 */
};

struct schedule;

struct heap {
  uint32_t *items;
  size_t count;
  bool (*is_before)(const struct schedule *s, uint32_t a, uint32_t b);
};

struct schedule {
  struct ts__code_table *table;
  const struct ts_function *function;
  struct ts__code_values *values;
  const struct ts_allocator *allocator;
  TS_VEC(struct edge) edges;
  uint32_t *first_edge, *wait_count; /* by instruction */
  uint32_t *height;                  /* cycles to the end of the block */
  uint32_t *last_def, *def_block;    /* by slot: instruction; block + 1 for which it holds */
  uint32_t *first_reader;            /* by slot: in readers, + 1; since the last definition */
  TS_VEC(struct memory_access) readers;
  TS_VEC(uint32_t) loads[TS_SPACE_COUNT], stores[TS_SPACE_COUNT]; /* since the last fence */
  TS_VEC(uint32_t) since_fence;                                   /* memory instructions */
  TS_VEC(uint32_t) since_wait; /* instructions on arrays that wgmma works on */
  uint32_t last_ordered, last_fence, last_wait;
  uint32_t barrier_count;
  TS_VEC(struct crossing) crossings; /* shuffles that may still pass a barrier */
  bool *is_async_array;              /* by array: operands of wgmma */
  bool *is_written;           /* by register: parameters that are used otherwise than by loads */
  struct heap ready, waiting; /* operands are there; or will be */
  struct heap front;          /* all of the region by height; issued ones may still be in it */
  bool *is_issued;            /* by instruction */
  uint32_t *ready_at;         /* by instruction: cycle */
  uint32_t *uses_left;        /* by storage, in this block */
  uint32_t region, last_block, now, early_words, budget_words, peak_words, wgmma_words;
  bool out_of_memory;
};

static void add_edge(struct schedule *s, uint32_t from, uint32_t to, uint32_t cycles) {
  if (from == TS_NONE || from == to) return;
  struct edge edge = {to, s->first_edge[from], cycles};
  if (ts_vec_push(&s->edges, s->allocator, edge)) {
    s->out_of_memory = true;
    return;
  }
  s->first_edge[from] = (uint32_t)s->edges.count;
  s->wait_count[to]++;
}

static bool is_free(const struct schedule *s, uint32_t id) {
  return s->table->insns[id].flags & TS_CODE_FREE;
}

static void enter_slot(struct schedule *s, uint32_t slot, uint32_t block) {
  if (s->def_block[slot] == block + 1) return;
  s->def_block[slot] = block + 1;
  s->last_def[slot] = TS_NONE;
  s->first_reader[slot] = 0;
}

static void use_slot(struct schedule *s, uint32_t slot, uint32_t id, uint32_t block) {
  enter_slot(s, slot, block);
  uint32_t def = s->last_def[slot];
  if (def != TS_NONE) add_edge(s, def, id, latency(&s->function->insns.data[def], is_free(s, def)));
  struct memory_access reader = {id, s->first_reader[slot]};
  if (ts_vec_push(&s->readers, s->allocator, reader))
    s->out_of_memory = true;
  else
    s->first_reader[slot] = (uint32_t)s->readers.count;
}

static void define_slot(struct schedule *s, uint32_t slot, uint32_t id, uint32_t block) {
  enter_slot(s, slot, block);
  add_edge(s, s->last_def[slot], id, 0);
  for (uint32_t i = s->first_reader[slot]; i; i = s->readers.data[i - 1].next)
    add_edge(s, s->readers.data[i - 1].insn, id, 0);
  s->last_def[slot] = id;
  s->first_reader[slot] = 0;
}

static void link_registers(struct schedule *s, uint32_t id) {
  const struct ts_code_insn *insn = &s->table->insns[id];
  const struct ts_code_ref *refs = ts__code_insn_refs(s->table, id);
  for (uint32_t i = 0; i < insn->use_count; i++)
    for (uint32_t k = 0; k < refs[i].count; k++)
      use_slot(s, refs[i].first + k, id, insn->block);
  for (uint32_t i = insn->use_count; i < (uint32_t)insn->use_count + insn->def_count; i++)
    for (uint32_t k = 0; k < refs[i].count; k++)
      define_slot(s, refs[i].first + k, id, insn->block);
}

/* --- memory */

struct memory_use {
  bool reads[TS_SPACE_COUNT], writes[TS_SPACE_COUNT], is_fence;
};

static struct memory_use memory_use(enum ts_op op) {
  struct memory_use use = {.is_fence = false};
  const struct ts_op_info *info = ts_op_info(op);
  switch (op) {
  case TS_OP_ld_global: use.reads[TS_SPACE_GLOBAL] = true; return use;
  case TS_OP_ld_shared:
  case TS_OP_ldmatrix:
  case TS_OP_ld_cluster: use.reads[TS_SPACE_SHARED] = true; return use;
  case TS_OP_st_global: use.writes[TS_SPACE_GLOBAL] = true; return use;
  case TS_OP_st_shared:
  case TS_OP_stmatrix:
  case TS_OP_st_cluster: use.writes[TS_SPACE_SHARED] = true; return use;
  case TS_OP_cp_async: use.reads[TS_SPACE_GLOBAL] = use.writes[TS_SPACE_SHARED] = true; return use;
  case TS_OP_ld_local:
  case TS_OP_st_local:
  case TS_OP_elect:
  case TS_OP_mma:
  case TS_OP_shfl:
  case TS_OP_wgmma_fence:
  case TS_OP_wgmma_commit:
  case TS_OP_wgmma_touch: return use;
  default:
    use.is_fence = info->flags & (F_SYNC | F_ASYNC) ||
                   (info->flags & F_MEM && op != TS_OP_mma_sp && info->unit != TS_UNIT_MATRIX);
    return use;
  }
}

/* Same base and index, and byte ranges that do not meet. */
/* An index as a sum of registers and a constant. */
struct sum {
  uint32_t count;
  uint32_t terms[MAX_SUM_TERMS]; /* ascending */
  int64_t constant;
};

static void insert_term(struct sum *sum, uint32_t term) {
  uint32_t at = sum->count++;
  for (; at && sum->terms[at - 1] > term; at--)
    sum->terms[at] = sum->terms[at - 1];
  sum->terms[at] = term;
}

/* False when there are more terms than fit. */
static bool add_terms(const struct schedule *s, const struct ts_operand *operand, uint32_t depth,
                      struct sum *sum) {
  uint64_t constant;
  uint32_t unused;
  if (ts__code_constant(s->function, operand, &constant)) {
    sum->constant += (int32_t)constant;
    return true;
  }
  const struct ts_insn *insn = ts__code_definition(s->table, operand, &unused);
  if (insn && depth < MAX_SUM_TERMS && insn->op == TS_OP_add && insn->lanes == 1)
    return add_terms(s, ts_insn_operand(s->function, insn, 0), depth + 1, sum) &&
           add_terms(s, ts_insn_operand(s->function, insn, 1), depth + 1, sum);
  if (operand->kind != TS_OPERAND_REG || sum->count == MAX_SUM_TERMS) return false;
  insert_term(sum, operand->index);
  return true;
}

/* *distance: how much more the second index is, where they differ by a constant. */
static bool find_distance(const struct schedule *s, const struct ts_operand *a,
                          const struct ts_operand *b, int64_t *distance) {
  struct sum x = {0}, y = {0};
  *distance = 0;
  if (a->kind == b->kind && a->index == b->index) return true;
  if (!add_terms(s, a, 0, &x) || !add_terms(s, b, 0, &y) || x.count != y.count ||
      memcmp(x.terms, y.terms, x.count * sizeof *x.terms) != 0)
    return false;
  *distance = y.constant - x.constant;
  return true;
}

static bool are_disjoint(const struct schedule *s, uint32_t a, uint32_t b) {
  struct ts__code_address x[TS__MAX_ADDRESSES], y[TS__MAX_ADDRESSES];
  const struct ts_insn *p = &s->function->insns.data[a], *q = &s->function->insns.data[b];
  if (ts__code_addresses(s->function, p, x) != 1 || ts__code_addresses(s->function, q, y) != 1)
    return false;
  if (p->op == TS_OP_ldmatrix || q->op == TS_OP_ldmatrix || p->op == TS_OP_stmatrix ||
      q->op == TS_OP_stmatrix || x->index == TS_NONE || y->index == TS_NONE)
    return false;
  const struct ts_operand *x_base = ts_insn_operand(s->function, p, x->base);
  const struct ts_operand *y_base = ts_insn_operand(s->function, q, y->base);
  const struct ts_operand *x_index = ts_insn_operand(s->function, p, x->index);
  const struct ts_operand *y_index = ts_insn_operand(s->function, q, y->index);
  bool is_parameter = x_base->kind == TS_OPERAND_REG && y_base->kind == TS_OPERAND_REG &&
                      s->table->regs[x_base->index].def == TS_NONE &&
                      s->table->regs[y_base->index].def == TS_NONE;
  if (is_parameter && x_base->index != y_base->index) return true; /* __restrict__ */
  int64_t distance;
  if (x_base->kind != y_base->kind || x_base->index != y_base->index || x->scale != y->scale ||
      !find_distance(s, x_index, y_index, &distance))
    return false;
  int64_t x_bytes = (int64_t)ts_dtype_packed_bytes((enum ts_dtype)p->dtype, p->lanes);
  int64_t y_bytes = (int64_t)ts_dtype_packed_bytes((enum ts_dtype)q->dtype, q->lanes);
  int64_t y_offset = y->offset + distance * y->scale;
  return x->offset + x_bytes <= y_offset || y_offset + y_bytes <= x->offset;
}

/* Only the latest ones are compared; with more than that, the oldest counts as overlapping. */
#define ORDER_AFTER(s, list, id)                                                                   \
  for (size_t i_ = (list).count, n_ = 0; i_-- > 0; n_++) {                                         \
    if (n_ >= MAX_STORES_COMPARED || !are_disjoint((s), (list).data[i_], (id)))                    \
      add_edge((s), (list).data[i_], (id), 0);                                                     \
    if (n_ >= MAX_STORES_COMPARED) break;                                                          \
  }

/* Loads through a parameter that nobody writes through are LDG.CONSTANT: they pass barriers. */
static bool is_constant_load(const struct schedule *s, const struct ts_insn *insn) {
  if (insn->op != TS_OP_ld_global) return false;
  const struct ts_operand *base = ts_insn_operand(s->function, insn, 0);
  return base->kind == TS_OPERAND_REG && !s->is_written[base->index] &&
         s->table->regs[base->index].def == TS_NONE;
}

static void link_memory(struct schedule *s, uint32_t id) {
  if (is_constant_load(s, &s->function->insns.data[id])) return;
  struct memory_use use = memory_use((enum ts_op)s->function->insns.data[id].op);
  if (use.is_fence) {
    for (size_t i = 0; i < s->since_fence.count; i++)
      add_edge(s, s->since_fence.data[i], id, 0);
    add_edge(s, s->last_fence, id, 0);
    s->since_fence.count = 0;
    for (int space = 0; space < TS_SPACE_COUNT; space++)
      s->loads[space].count = s->stores[space].count = 0;
    s->last_fence = id;
    return;
  }
  for (int space = 0; space < TS_SPACE_COUNT; space++) {
    if (!use.reads[space] && !use.writes[space]) continue;
    add_edge(s, s->last_fence, id, 0);
    ORDER_AFTER(s, s->stores[space], id);
    if (use.writes[space]) ORDER_AFTER(s, s->loads[space], id);
    if (ts_vec_push(&s->since_fence, s->allocator, id)) s->out_of_memory = true;
    if (use.reads[space] && ts_vec_push(&s->loads[space], s->allocator, id))
      s->out_of_memory = true;
    if (use.writes[space] && ts_vec_push(&s->stores[space], s->allocator, id))
      s->out_of_memory = true;
  }
}

/* Registers that wgmma works on are the asynchronous unit's until the wait; the fence, and the
 * products themselves, keep their place among what reads or writes those registers. */
static void link_async(struct schedule *s, uint32_t id) {
  const struct ts_insn *insn = &s->function->insns.data[id];
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  if (insn->op == TS_OP_wgmma_wait || insn->op == TS_OP_wgmma_fence) {
    for (size_t i = 0; i < s->since_wait.count; i++)
      add_edge(s, s->since_wait.data[i], id, 0);
    s->since_wait.count = 0;
    add_edge(s, s->last_wait, id, 0);
    s->last_wait = id;
    return;
  }
  uint32_t count = ts__code_accesses(s->function, insn, accesses);
  bool is_async = false;
  for (uint32_t i = 0; i < count; i++)
    is_async |= s->is_async_array[accesses[i].array];
  if (!is_async) return;
  add_edge(s, s->last_wait, id, 0);
  if (ts_vec_push(&s->since_wait, s->allocator, id)) s->out_of_memory = true;
}

/* Shuffles and barriers both need the warp's lanes together. Shuffles change places among each other
 * and pass a few barriers, no more (FITTED on reductions over several warps). */
static void link_convergent(struct schedule *s, uint32_t id, enum ts_op op) {
  if (op == TS_OP_shfl || op == TS_OP_vote) {
    struct crossing crossing = {id, s->barrier_count};
    if (ts_vec_push(&s->crossings, s->allocator, crossing)) s->out_of_memory = true;
  } else if (op == TS_OP_bar_sync || op == TS_OP_bar_red) {
    s->barrier_count++;
    size_t kept = 0;
    for (size_t i = 0; i < s->crossings.count; i++) {
      struct crossing *crossing = &s->crossings.data[i];
      if (s->barrier_count - crossing->barrier > BARRIERS_PASSED)
        add_edge(s, crossing->insn, id, 0);
      else
        s->crossings.data[kept++] = *crossing;
    }
    s->crossings.count = kept;
  }
}

static void link_insn(struct schedule *s, uint32_t id) {
  enum ts_op op = (enum ts_op)s->function->insns.data[id].op;
  link_registers(s, id);
  link_memory(s, id);
  link_async(s, id);
  link_convergent(s, id, op);
  if (!ts__code_is_ordered(op)) return;
  add_edge(s, s->last_ordered, id, 0);
  s->last_ordered = id;
}

/* --- the list */

/* What is far from the end anyway comes in the order of the program: chains of many sections are not
 * started all at once. */
static int64_t urgency(const struct schedule *s, uint32_t id) {
  int64_t height = s->height[id] < MAX_HEIGHT ? s->height[id] : MAX_HEIGHT;
  return height * PLACES_PER_CYCLE - (int64_t)id;
}

/* What costs nothing happens at once. */
static bool is_longer(const struct schedule *s, uint32_t a, uint32_t b) {
  if (is_free(s, a) != is_free(s, b)) return is_free(s, a);
  int64_t x = urgency(s, a), y = urgency(s, b);
  return x != y ? x > y : a < b;
}

static bool is_higher(const struct schedule *s, uint32_t a, uint32_t b) {
  return s->height[a] != s->height[b] ? s->height[a] > s->height[b] : a < b;
}

static bool is_earlier(const struct schedule *s, uint32_t a, uint32_t b) {
  return s->ready_at[a] != s->ready_at[b] ? s->ready_at[a] < s->ready_at[b] : a < b;
}

static void heap_push(const struct schedule *s, struct heap *heap, uint32_t id) {
  size_t at = heap->count++;
  while (at) {
    size_t parent = (at - 1) / 2;
    if (!heap->is_before(s, id, heap->items[parent])) break;
    heap->items[at] = heap->items[parent];
    at = parent;
  }
  heap->items[at] = id;
}

static uint32_t heap_pop(const struct schedule *s, struct heap *heap) {
  uint32_t top = heap->items[0], last = heap->items[--heap->count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
    if (child + 1 < heap->count && heap->is_before(s, heap->items[child + 1], heap->items[child]))
      child++;
    if (!heap->is_before(s, heap->items[child], last)) break;
    heap->items[at] = heap->items[child];
  }
  heap->items[at] = last;
  return top;
}

static void find_heights(struct schedule *s, uint32_t first, uint32_t count) {
  for (uint32_t id = first + count; id-- > first;) {
    uint32_t height = 0;
    for (uint32_t e = s->first_edge[id]; e; e = s->edges.data[e - 1].next) {
      const struct edge *edge = &s->edges.data[e - 1];
      uint32_t through = s->height[edge->to] + edge->latency;
      if (through > height) height = through;
    }
    s->height[id] = height;
  }
}

/* --- registers while the list goes on */

static void count_uses(struct schedule *s, uint32_t first, uint32_t count) {
  for (uint32_t id = first; id < first + count; id++) {
    const struct ts__code_span *span = &s->values->spans[id];
    for (uint32_t i = 0; i < span->count; i++) {
      struct ts_code_ref ref = s->values->refs.data[span->first + i];
      for (uint32_t k = 0; k < ref.count; k++)
        s->uses_left[ref.first + k] += i < span->use_count;
    }
  }
}

/* Words of registers that would be free when the instruction has read its operands. */
static uint32_t freed_words(const struct schedule *s, uint32_t id) {
  const struct ts__code_span *span = &s->values->spans[id];
  uint32_t words = 0;
  for (uint32_t i = 0; i < span->use_count; i++) {
    struct ts_code_ref ref = s->values->refs.data[span->first + i];
    for (uint32_t k = 0; k < ref.count; k++) {
      uint32_t storage = ref.first + k;
      if (s->uses_left[storage] != 1 || ts__code_is_live_out(s->values, s->last_block, storage))
        continue;
      words += ts__code_storage_words(s->values, storage);
    }
  }
  return words;
}

static uint32_t defined_words(const struct schedule *s, uint32_t id) {
  const struct ts__code_span *span = &s->values->spans[id];
  uint32_t words = 0;
  for (uint32_t i = span->use_count; i < span->count; i++) {
    struct ts_code_ref ref = s->values->refs.data[span->first + i];
    for (uint32_t k = 0; k < ref.count; k++)
      if (!s->values->is_alive[ref.first + k])
        words += ts__code_storage_words(s->values, ref.first + k);
  }
  return words;
}

static void take_registers(struct schedule *s, uint32_t id) {
  struct ts__code_values *v = s->values;
  const struct ts__code_span *span = &v->spans[id];
  for (uint32_t i = 0; i < span->use_count; i++) {
    struct ts_code_ref ref = v->refs.data[span->first + i];
    for (uint32_t k = 0; k < ref.count; k++) {
      uint32_t storage = ref.first + k;
      if (--s->uses_left[storage] == 0 && !ts__code_is_live_out(v, s->last_block, storage))
        ts__code_set_alive(v, storage, false);
    }
  }
  for (uint32_t i = span->use_count; i < span->count; i++) {
    struct ts_code_ref ref = v->refs.data[span->first + i];
    for (uint32_t k = 0; k < ref.count; k++) {
      uint32_t storage = ref.first + k;
      bool is_read = s->uses_left[storage] || ts__code_is_live_out(v, s->last_block, storage);
      ts__code_set_alive(v, storage, is_read);
    }
  }
  if (v->live_words + s->early_words > s->peak_words)
    s->peak_words = v->live_words + s->early_words;
  if (ts_op_is_wgmma(s->function->insns.data[id].op) && v->live_words > s->wgmma_words)
    s->wgmma_words = v->live_words;
}

/* --- choosing */

/* Above the budget: of the first few candidates the one that takes least, the earliest of equals in
 * the order of the program. */
static uint32_t pop_frugal(struct schedule *s) {
  uint32_t looked_at[MAX_CANDIDATES], count = 0, best = 0;
  int64_t least = INT64_MAX;
  while (count < MAX_CANDIDATES && s->ready.count) {
    uint32_t id = heap_pop(s, &s->ready);
    int64_t taken = (int64_t)defined_words(s, id) - (int64_t)freed_words(s, id);
    if (taken < 0) taken = -1;
    if (taken < least || (taken == least && id < looked_at[best])) {
      least = taken;
      best = count;
    }
    looked_at[count++] = id;
  }
  for (uint32_t i = 0; i < count; i++)
    if (i != best) heap_push(s, &s->ready, looked_at[i]);
  return looked_at[best];
}

static void move_ready(struct schedule *s) {
  while (s->waiting.count && s->ready_at[s->waiting.items[0]] <= s->now)
    heap_push(s, &s->ready, heap_pop(s, &s->waiting));
}

/* The longest way that is left to anyone. */
static uint32_t front_height(struct schedule *s) {
  while (s->front.count && s->is_issued[s->front.items[0]])
    heap_pop(s, &s->front);
  return s->front.count ? s->height[s->front.items[0]] : 0;
}

/* Arithmetic that takes registers long before its result is needed: widening, above all. */
static bool is_early(const struct schedule *s, uint32_t id, uint32_t front) {
  const struct ts_insn *insn = &s->function->insns.data[id];
  return !is_free(s, id) && !(ts_op_info((enum ts_op)insn->op)->flags & F_MEM) &&
         s->height[id] + EARLY_CYCLES < front && defined_words(s, id) > freed_words(s, id);
}

/* Passes over what is early, while something else is ready or about to be. */
static uint32_t pop_in_time(struct schedule *s) {
  uint32_t early[MAX_CANDIDATES], count = 0, chosen = TS_NONE, front = front_height(s);
  while (chosen == TS_NONE) {
    if (!s->ready.count && s->waiting.count) {
      s->now = s->ready_at[s->waiting.items[0]];
      move_ready(s);
    }
    if (!s->ready.count) break;
    uint32_t id = heap_pop(s, &s->ready);
    if (count < MAX_CANDIDATES && is_early(s, id, front))
      early[count++] = id;
    else
      chosen = id;
  }
  uint32_t first = chosen == TS_NONE ? 1 : 0;
  if (first) chosen = early[0];
  for (uint32_t i = first; i < count; i++)
    heap_push(s, &s->ready, early[i]);
  return chosen;
}

static uint32_t choose(struct schedule *s) {
  move_ready(s);
  if (!s->ready.count) {
    s->now = s->ready_at[s->waiting.items[0]];
    move_ready(s);
  }
  return s->values->live_words > s->budget_words ? pop_frugal(s) : pop_in_time(s);
}

static void issue(struct schedule *s, uint32_t id, uint32_t rank) {
  s->table->insns[id].rank = rank;
  s->is_issued[id] = true;
  take_registers(s, id);
  for (uint32_t e = s->first_edge[id]; e; e = s->edges.data[e - 1].next) {
    const struct edge *edge = &s->edges.data[e - 1];
    uint32_t ready_at = s->now + edge->latency;
    if (ready_at > s->ready_at[edge->to]) s->ready_at[edge->to] = ready_at;
    if (!--s->wait_count[edge->to]) heap_push(s, &s->waiting, edge->to);
  }
  s->now += issue_cycles(&s->function->insns.data[id], is_free(s, id));
}

/* Addresses with an addition of their own are computed well ahead of their use (MEASURED: 8 of them in
 * the loop of a GEMM with cp.async take 22 registers, 16 take no more). */
static uint32_t early_address_words(const struct schedule *s, uint32_t first, uint32_t last) {
  uint32_t words = 0;
  for (uint32_t id = first; id < last; id++)
    if (s->table->has_own_offset[id]) words += WORDS_PER_EARLY_ADDRESS;
  return words < MAX_EARLY_ADDRESS_WORDS ? words : MAX_EARLY_ADDRESS_WORDS;
}

static void start_region(struct schedule *s, uint32_t first_block, uint32_t end_block) {
  s->edges.count = s->readers.count = s->since_fence.count = s->since_wait.count = 0;
  for (int space = 0; space < TS_SPACE_COUNT; space++)
    s->loads[space].count = s->stores[space].count = 0;
  s->last_ordered = s->last_fence = s->last_wait = TS_NONE;
  s->crossings.count = s->barrier_count = 0;
  s->region = first_block;
  s->last_block = end_block - 1;
  s->now = 0;
}

/* Links all but the last instruction. What a small if does waits for its predicate. */
static void link_region(struct schedule *s, uint32_t first, uint32_t last) {
  uint32_t guard = TS_NONE, join = TS_NONE;
  for (uint32_t id = first; id < last; id++) {
    const struct ts_insn *insn = &s->function->insns.data[id];
    if (insn->block == join) guard = TS_NONE;
    link_insn(s, id);
    add_edge(s, guard, id, 0);
    /* A constant for a variable stays where it is: it would only take a register earlier. */
    if (insn->op == TS_OP_mov && id > first) add_edge(s, id - 1, id, 0);
    if (insn->op != TS_OP_cbr) continue;
    guard = id;
    join = ts_insn_operand(s->function, insn, 3)->index;
  }
}

static void order_region(struct schedule *s, uint32_t first_block, uint32_t end_block) {
  const struct ts_block *blocks = s->function->blocks.data;
  uint32_t first = blocks[first_block].first_insn, rank = 0;
  uint32_t last = blocks[end_block - 1].first_insn + blocks[end_block - 1].insn_count - 1;
  start_region(s, first_block, end_block);
  s->early_words = early_address_words(s, first, last);
  link_region(s, first, last);
  if (s->out_of_memory) return;
  find_heights(s, first, last - first);
  count_uses(s, first, last + 1 - first);
  ts__code_enter_block(s->values, first_block);
  if (s->values->live_words > s->peak_words) s->peak_words = s->values->live_words;
  s->front.count = 0;
  for (uint32_t id = first; id < last; id++) {
    heap_push(s, &s->front, id);
    if (!s->wait_count[id]) heap_push(s, &s->waiting, id);
  }
  while (s->ready.count || s->waiting.count)
    issue(s, choose(s), rank++);
  issue(s, last, rank);
  ts__code_leave_block(s->values);
}

static int allocate(struct schedule *s) {
  struct ts_arena *arena = &s->table->scratch;
  size_t insn_count = s->function->insns.count, slot_count = s->table->slot_count;
  uint32_t **by_insn[] = {&s->first_edge,  &s->wait_count,    &s->height,     &s->ready_at,
                          &s->ready.items, &s->waiting.items, &s->front.items};
  uint32_t **by_slot[] = {&s->last_def, &s->def_block, &s->first_reader};
  for (size_t i = 0; i < sizeof by_insn / sizeof *by_insn; i++)
    if (!(*by_insn[i] = ts_new_array(arena, uint32_t, insn_count))) return -1;
  for (size_t i = 0; i < sizeof by_slot / sizeof *by_slot; i++)
    if (!(*by_slot[i] = ts_new_array(arena, uint32_t, slot_count))) return -1;
  s->uses_left = ts_new_array(arena, uint32_t, s->values->storage_count);
  s->is_async_array = ts_new_array(arena, bool, s->function->arrays.count);
  s->is_written = ts_new_array(arena, bool, s->function->regs.count);
  s->is_issued = ts_new_array(arena, bool, insn_count);
  return s->uses_left && s->is_async_array && s->is_written && s->is_issued ? 0 : -1;
}

static void find_async_arrays(struct schedule *s) {
  struct ts__code_access accesses[TS__MAX_ACCESSES];
  for (size_t id = 0; id < s->function->insns.count; id++) {
    const struct ts_insn *insn = &s->function->insns.data[id];
    if (!ts_op_is_wgmma(insn->op)) continue;
    uint32_t count = ts__code_accesses(s->function, insn, accesses);
    for (uint32_t i = 0; i < count; i++)
      s->is_async_array[accesses[i].array] = true;
  }
}

static void find_written(struct schedule *s) {
  for (size_t id = 0; id < s->function->insns.count; id++) {
    const struct ts_insn *insn = &s->function->insns.data[id];
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(s->function, insn, k);
      bool is_read =
          (insn->op == TS_OP_ld_global && k == 0) || (insn->op == TS_OP_cp_async && k == 2);
      if (operand->kind == TS_OPERAND_REG && !is_read) s->is_written[operand->index] = true;
    }
  }
}

int ts__code_find_order(struct ts__code_table *table, struct ts__code_values *values,
                        struct ts__code_peaks *peaks) {
  struct schedule s = {.table = table,
                       .function = table->function,
                       .values = values,
                       .allocator = table->ctx->allocator,
                       .ready.is_before = is_longer,
                       .waiting.is_before = is_earlier,
                       .front.is_before = is_higher,
                       .budget_words = ts__code_register_limit(table->function) - REGISTER_RESERVE};
  if (allocate(&s)) return -1;
  find_async_arrays(&s);
  find_written(&s);
  for (uint32_t i = 0; i < table->function->blocks.count && !s.out_of_memory;
       i = table->region_end[i])
    order_region(&s, i, table->region_end[i]);
  ts_vec_free(&s.edges, s.allocator);
  ts_vec_free(&s.readers, s.allocator);
  ts_vec_free(&s.since_fence, s.allocator);
  ts_vec_free(&s.since_wait, s.allocator);
  ts_vec_free(&s.crossings, s.allocator);
  for (int space = 0; space < TS_SPACE_COUNT; space++) {
    ts_vec_free(&s.loads[space], s.allocator);
    ts_vec_free(&s.stores[space], s.allocator);
  }
  *peaks = (struct ts__code_peaks){s.peak_words, s.wgmma_words};
  return s.out_of_memory ? -1 : 0;
}
