/* Predecessors and dominators. */
#include "ir/ir_priv.h"

#include <string.h>

uint32_t ts__block_targets(const struct ts_function *function, uint32_t block,
                           uint32_t targets[2]) {
  const struct ts_block *b = &function->blocks.data[block];
  const struct ts_insn *insn = &function->insns.data[b->first_insn + b->insn_count - 1];
  if (insn->op == TS_OP_br) {
    targets[0] = ts_insn_operand(function, insn, 0)->index;
    return 1;
  }
  if (insn->op != TS_OP_cbr) return 0;
  targets[0] = ts_insn_operand(function, insn, 1)->index;
  targets[1] = ts_insn_operand(function, insn, 2)->index;
  return targets[0] == targets[1] ? 1 : 2;
}

struct walk {
  struct ts__cfg *cfg;
  uint32_t *order;  /* blocks in post-order */
  uint32_t *number; /* position in order */
  uint32_t *stack, *next_target;
  uint32_t count;
};

/* Depth-first, without recursion: input may be deep. */
static void number_blocks(struct walk *w, uint32_t entry) {
  const struct ts_function *function = w->cfg->function;
  size_t depth = 0;
  w->stack[depth++] = entry;
  w->number[entry] = 0;
  while (depth) {
    uint32_t block = w->stack[depth - 1], targets[2];
    uint32_t target_count = ts__block_targets(function, block, targets);
    if (w->next_target[block] == target_count) {
      w->number[block] = w->count;
      w->order[w->count++] = block;
      depth--;
      continue;
    }
    uint32_t target = targets[w->next_target[block]++];
    w->cfg->pred_count[target]++;
    w->cfg->pred[target] = block;
    if (w->number[target] != TS_NONE) continue;
    w->number[target] = 0;
    w->stack[depth++] = target;
  }
}

static uint32_t meet(const struct walk *w, uint32_t a, uint32_t b) {
  while (a != b) {
    while (w->number[a] < w->number[b])
      a = w->cfg->idom[a];
    while (w->number[b] < w->number[a])
      b = w->cfg->idom[b];
  }
  return a;
}

/* Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", pushed along edges instead of
 * gathered over predecessors. */
static void find_idoms(struct walk *w, uint32_t entry) {
  struct ts__cfg *cfg = w->cfg;
  bool has_changed = true;
  cfg->idom[entry] = entry;
  while (has_changed) {
    has_changed = false;
    for (uint32_t i = w->count; i-- > 0;) {
      uint32_t block = w->order[i], targets[2];
      uint32_t target_count = ts__block_targets(cfg->function, block, targets);
      for (uint32_t k = 0; k < target_count; k++) {
        uint32_t *idom = &cfg->idom[targets[k]];
        uint32_t found = *idom == TS_NONE ? block : meet(w, block, *idom);
        has_changed |= found != *idom;
        *idom = found;
      }
    }
  }
}

/* A block's interval [first_seen, last_seen] holds those of the blocks it dominates. Reverse
 * post-order visits a dominator before what it dominates; sizes give the intervals. */
static void number_tree(struct walk *w, uint32_t entry) {
  struct ts__cfg *cfg = w->cfg;
  for (uint32_t i = 0; i < w->count; i++) /* children first: last_seen holds the size */
    cfg->last_seen[w->order[i]]++;
  for (uint32_t i = 0; i < w->count; i++)
    if (w->order[i] != entry) cfg->last_seen[cfg->idom[w->order[i]]] += cfg->last_seen[w->order[i]];
  for (uint32_t i = w->count; i-- > 0;) {
    uint32_t block = w->order[i], size = cfg->last_seen[block];
    uint32_t parent = cfg->idom[block];
    /* next_target serves as the parent's first free number. */
    cfg->first_seen[block] = block == entry ? 0 : w->next_target[parent];
    if (block != entry) w->next_target[parent] += size;
    w->next_target[block] = cfg->first_seen[block] + 1;
    cfg->last_seen[block] = cfg->first_seen[block] + size - 1;
  }
}

int ts__cfg_init(struct ts__cfg *cfg, struct ts_arena *arena, const struct ts_function *function) {
  size_t count = function->blocks.count, bytes = count * sizeof(uint32_t);
  struct walk w = {.cfg = cfg};
  uint32_t **arrays[] = {&cfg->pred_count, &cfg->pred,      &cfg->idom,
                         &cfg->first_seen, &cfg->last_seen, &w.order,
                         &w.number,        &w.stack,        &w.next_target};
  cfg->function = function;
  for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
    *arrays[i] = ts_new_array(arena, uint32_t, count);
    if (!*arrays[i]) return -1;
  }
  memset(cfg->pred, 0xff, bytes);
  memset(cfg->idom, 0xff, bytes);
  memset(w.number, 0xff, bytes);
  cfg->pred_count[function->entry] = 1; /* the launch */
  number_blocks(&w, function->entry);
  find_idoms(&w, function->entry);
  number_tree(&w, function->entry);
  return 0;
}

bool ts__cfg_dominates(const struct ts__cfg *cfg, uint32_t a, uint32_t b) {
  if (cfg->idom[a] == TS_NONE || cfg->idom[b] == TS_NONE) return false;
  return cfg->first_seen[a] <= cfg->first_seen[b] && cfg->last_seen[b] <= cfg->last_seen[a];
}
