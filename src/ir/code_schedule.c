/* The order in which a block's instructions are issued: a list schedule by the longest path to the
 * block's end, as an assembler makes it, within a budget of registers.
 *
 * Rough latencies are enough: they only order. Inline assembly keeps its order among its like;
 * loads do not pass stores to memory they may share, and nothing passes what orders memory. */
#include "ir/code_priv.h"

#include <string.h>

/* GUESS: cycles, to one digit as an H200 has them. */
enum {
  LATENCY_GLOBAL = 400,
  LATENCY_SHARED = 25,
  LATENCY_SPECIAL = 20,
  LATENCY_MATRIX = 24,
  LATENCY_SYNC = 20,
  LATENCY_ALU = 4,
  MAX_STORES_COMPARED = 32
};

bool ts__code_is_ordered(enum ts_op op) {
  const struct ts_op_info *info = ts_op_info(op);
  if (op == TS_OP_wgmma_touch || op == TS_OP_prefetch_tensormap) return true;
  return info->flags & (F_SYNC | F_ASYNC | F_COLLECTIVE) || info->unit == TS_UNIT_MATRIX ||
         info->unit == TS_UNIT_SYNC || op == TS_OP_elect ||
         (op >= TS_OP_atom_global && op <= TS_OP_atom_shared_ret);
}

static uint32_t latency(const struct ts_insn *insn, bool is_free) {
  if (is_free) return 0;
  switch (insn->op) {
  case TS_OP_ld_global:
  case TS_OP_atom_global_ret: return LATENCY_GLOBAL;
  case TS_OP_ld_shared:
  case TS_OP_ld_cluster:
  case TS_OP_ldmatrix:
  case TS_OP_shfl:
  case TS_OP_atom_shared_ret: return LATENCY_SHARED;
  default: break;
  }
  switch (ts_op_info((enum ts_op)insn->op)->unit) {
  case TS_UNIT_SPECIAL: return LATENCY_SPECIAL;
  case TS_UNIT_MATRIX: return LATENCY_MATRIX;
  case TS_UNIT_SYNC: return LATENCY_SYNC;
  default: return LATENCY_ALU;
  }
}

/* --- dependencies */

struct edge {
  uint32_t to, next; /* next: edge + 1 */
  uint32_t latency;
};

struct memory_access {
  uint32_t insn;
  uint32_t next; /* + 1 */
};

struct schedule {
  struct ts__code_table *table;
  const struct ts_function *function;
  const struct ts_allocator *allocator;
  TS_VEC(struct edge) edges;
  uint32_t *first_edge, *wait_count; /* by instruction */
  uint32_t *height;                  /* cycles to the end of the block */
  uint32_t *last_def, *def_block;    /* by slot: instruction; block + 1 for which it holds */
  uint32_t *first_reader;            /* by slot: in readers, + 1; since the last definition */
  TS_VEC(struct memory_access) readers;
  TS_VEC(uint32_t) loads[TS_SPACE_COUNT], stores[TS_SPACE_COUNT]; /* since the last barrier */
  uint32_t last_ordered, last_fence;
  TS_VEC(uint32_t) since_fence; /* memory instructions */
  uint32_t *heap;
  size_t heap_count;
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
  const struct ts_code_ref *refs = &s->table->refs.data[insn->first_ref];
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
  if (x_base->kind != y_base->kind || x_base->index != y_base->index ||
      x_index->kind != y_index->kind || x_index->index != y_index->index || x->scale != y->scale)
    return false;
  int64_t x_bytes = (int64_t)ts_dtype_packed_bytes((enum ts_dtype)p->dtype, p->lanes);
  int64_t y_bytes = (int64_t)ts_dtype_packed_bytes((enum ts_dtype)q->dtype, q->lanes);
  return x->offset + x_bytes <= y->offset || y->offset + y_bytes <= x->offset;
}

/* Only the latest ones are compared; with more than that, the oldest counts as overlapping. */
#define ORDER_AFTER(s, list, id)                                                                   \
  for (size_t i_ = (list).count, n_ = 0; i_-- > 0; n_++) {                                         \
    if (n_ >= MAX_STORES_COMPARED || !are_disjoint((s), (list).data[i_], (id)))                    \
      add_edge((s), (list).data[i_], (id), 0);                                                     \
    if (n_ >= MAX_STORES_COMPARED) break;                                                          \
  }

static void link_memory(struct schedule *s, uint32_t id) {
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

static void link_insn(struct schedule *s, uint32_t id) {
  enum ts_op op = (enum ts_op)s->function->insns.data[id].op;
  link_registers(s, id);
  link_memory(s, id);
  if (!ts__code_is_ordered(op)) return;
  add_edge(s, s->last_ordered, id, 0);
  s->last_ordered = id;
}

/* --- the list: a heap of ready instructions, the one with the longest way to go first */

static bool is_before(const struct schedule *s, uint32_t a, uint32_t b) {
  return s->height[a] != s->height[b] ? s->height[a] > s->height[b] : a < b;
}

static void push_ready(struct schedule *s, uint32_t id) {
  size_t at = s->heap_count++;
  while (at) {
    size_t parent = (at - 1) / 2;
    if (!is_before(s, id, s->heap[parent])) break;
    s->heap[at] = s->heap[parent];
    at = parent;
  }
  s->heap[at] = id;
}

static uint32_t pop_ready(struct schedule *s) {
  uint32_t top = s->heap[0], last = s->heap[--s->heap_count];
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < s->heap_count; at = child) {
    if (child + 1 < s->heap_count && is_before(s, s->heap[child + 1], s->heap[child])) child++;
    if (!is_before(s, s->heap[child], last)) break;
    s->heap[at] = s->heap[child];
  }
  s->heap[at] = last;
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

static void order_block(struct schedule *s, const struct ts_block *block) {
  uint32_t first = block->first_insn, body = block->insn_count - 1, rank = 0;
  s->edges.count = s->readers.count = s->since_fence.count = 0;
  for (int space = 0; space < TS_SPACE_COUNT; space++)
    s->loads[space].count = s->stores[space].count = 0;
  s->last_ordered = s->last_fence = TS_NONE;
  for (uint32_t id = first; id < first + body; id++)
    link_insn(s, id);
  if (s->out_of_memory) return;
  find_heights(s, first, body);
  for (uint32_t id = first; id < first + body; id++)
    if (!s->wait_count[id]) push_ready(s, id);
  while (s->heap_count) {
    uint32_t id = pop_ready(s);
    s->table->insns[id].rank = rank++;
    for (uint32_t e = s->first_edge[id]; e; e = s->edges.data[e - 1].next)
      if (!--s->wait_count[s->edges.data[e - 1].to]) push_ready(s, s->edges.data[e - 1].to);
  }
  s->table->insns[first + body].rank = rank;
}

static int allocate(struct schedule *s) {
  struct ts_arena *arena = &s->table->scratch;
  size_t insn_count = s->function->insns.count, slot_count = s->table->slot_count;
  s->first_edge = ts_new_array(arena, uint32_t, insn_count);
  s->wait_count = ts_new_array(arena, uint32_t, insn_count);
  s->height = ts_new_array(arena, uint32_t, insn_count);
  s->heap = ts_new_array(arena, uint32_t, insn_count);
  s->last_def = ts_new_array(arena, uint32_t, slot_count);
  s->def_block = ts_new_array(arena, uint32_t, slot_count);
  s->first_reader = ts_new_array(arena, uint32_t, slot_count);
  return s->first_edge && s->wait_count && s->height && s->heap && s->last_def && s->def_block &&
                 s->first_reader
             ? 0
             : -1;
}

int ts__code_find_order(struct ts__code_table *table) {
  struct schedule s = {
      .table = table, .function = table->function, .allocator = table->ctx->allocator};
  if (allocate(&s)) return -1;
  for (size_t i = 0; i < table->function->blocks.count && !s.out_of_memory; i++)
    order_block(&s, &table->function->blocks.data[i]);
  ts_vec_free(&s.edges, s.allocator);
  ts_vec_free(&s.readers, s.allocator);
  ts_vec_free(&s.since_fence, s.allocator);
  for (int space = 0; space < TS_SPACE_COUNT; space++) {
    ts_vec_free(&s.loads[space], s.allocator);
    ts_vec_free(&s.stores[space], s.allocator);
  }
  return s.out_of_memory ? -1 : 0;
}
