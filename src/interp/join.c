/* Where diverged lanes meet again: immediate post-dominators, paths that end early being ignored.
 *
 * An exit is the root of all blocks that reach it. The exit that most blocks reach comes first; what
 * does not reach it (arms that return early, endless loops) is left to the next one. Within a root,
 * the algorithm of Cooper, Harvey and Kennedy runs on the reversed graph. */
#include "interp/interp_priv.h"

struct graph {
  const struct ts_function *function;
  uint32_t block_count;
  uint32_t *pred_start, *preds; /* edges backwards, by block */
  uint32_t *order;        /* position in the reverse post-order of the root, TS_NONE: not of it */
  uint32_t *sequence;     /* blocks in that order */
  uint32_t *joins;        /* immediate post-dominators found so far */
  bool *is_done;          /* the block belongs to an earlier root */
  uint32_t *stack, *next; /* of the depth-first walk */
};

static const struct ts_insn *terminator(const struct ts_function *function, uint32_t block) {
  const struct ts_block *info = &function->blocks.data[block];
  return &function->insns.data[info->first_insn + info->insn_count - 1];
}

/* Successors are operands 0 of br and 1, 2 of cbr. */
static uint32_t successors(const struct ts_function *function, uint32_t block, uint32_t out[2]) {
  const struct ts_insn *insn = terminator(function, block);
  uint32_t first = insn->op == TS_OP_br ? 0 : 1, count = insn->op == TS_OP_br ? 1 : 2;
  if (insn->op != TS_OP_br && insn->op != TS_OP_cbr) return 0;
  for (uint32_t i = 0; i < count; i++)
    out[i] = ts_insn_operand(function, insn, first + i)->index;
  return count;
}

static void link_back(struct graph *g) {
  uint32_t next[2];
  for (uint32_t b = 0; b < g->block_count; b++)
    for (uint32_t i = successors(g->function, b, next); i > 0; i--)
      g->pred_start[next[i - 1] + 1]++;
  for (uint32_t b = 0; b < g->block_count; b++)
    g->pred_start[b + 1] += g->pred_start[b];
  for (uint32_t b = 0; b < g->block_count; b++)
    g->next[b] = g->pred_start[b];
  for (uint32_t b = 0; b < g->block_count; b++)
    for (uint32_t i = successors(g->function, b, next); i > 0; i--)
      g->preds[g->next[next[i - 1]]++] = b;
}

/* Numbers the blocks that reach the root and are not done, root first; answers how many. */
static uint32_t walk(struct graph *g, uint32_t root) {
  uint32_t depth = 0, finished = 0;
  for (uint32_t b = 0; b < g->block_count; b++) {
    g->order[b] = TS_NONE;
    g->next[b] = g->pred_start[b];
  }
  g->stack[depth++] = root;
  g->order[root] = 0;
  while (depth) {
    uint32_t block = g->stack[depth - 1];
    if (g->next[block] == g->pred_start[block + 1]) {
      g->sequence[finished++] = block; /* post-order; turned round below */
      depth--;
      continue;
    }
    uint32_t pred = g->preds[g->next[block]++];
    if (g->order[pred] != TS_NONE || g->is_done[pred]) continue;
    g->order[pred] = 0;
    g->stack[depth++] = pred;
  }
  for (uint32_t i = 0; i < finished / 2; i++) {
    uint32_t other = g->sequence[i];
    g->sequence[i] = g->sequence[finished - 1 - i];
    g->sequence[finished - 1 - i] = other;
  }
  for (uint32_t i = 0; i < finished; i++)
    g->order[g->sequence[i]] = i;
  return finished;
}

static uint32_t intersect(const struct graph *g, uint32_t a, uint32_t b) {
  while (a != b) {
    while (g->order[a] > g->order[b])
      a = g->joins[a];
    while (g->order[b] > g->order[a])
      b = g->joins[b];
  }
  return a;
}

/* The meeting point of the successors that have one already. */
static uint32_t meet(const struct graph *g, uint32_t block) {
  uint32_t next[2], found = TS_NONE, count = successors(g->function, block, next);
  for (uint32_t i = 0; i < count; i++) {
    if (g->order[next[i]] == TS_NONE || g->joins[next[i]] == TS_NONE) continue;
    found = found == TS_NONE ? next[i] : intersect(g, next[i], found);
  }
  return found;
}

static void solve(struct graph *g, uint32_t root, uint32_t count) {
  g->joins[root] = root;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t i = 1; i < count; i++) {
      uint32_t block = g->sequence[i], found = meet(g, block);
      if (found == g->joins[block]) continue;
      g->joins[block] = found;
      changed = true;
    }
  }
  g->joins[root] = TS_NONE;
  for (uint32_t i = 0; i < count; i++)
    g->is_done[g->sequence[i]] = true;
}

/* The exit not yet done that most blocks reach, TS_NONE when there is none. */
static uint32_t next_root(struct graph *g) {
  uint32_t best = TS_NONE, best_count = 0;
  for (uint32_t b = g->block_count; b > 0; b--) {
    if (g->is_done[b - 1] || terminator(g->function, b - 1)->op != TS_OP_exit) continue;
    uint32_t count = walk(g, b - 1);
    if (count <= best_count) continue;
    best = b - 1;
    best_count = count;
  }
  return best;
}

static uint32_t *new_words(struct ts_arena *arena, size_t count) {
  return ts_new_array(arena, uint32_t, count);
}

enum ts_status ts__find_joins(struct ts_ctx *ctx, const struct ts_function *function,
                              struct ts_arena *arena, uint32_t **joins) {
  uint32_t count = (uint32_t)function->blocks.count;
  struct graph g = {.function = function,
                    .block_count = count,
                    .pred_start = new_words(arena, (size_t)count + 1),
                    .preds = new_words(arena, 2 * (size_t)count),
                    .order = new_words(arena, count),
                    .sequence = new_words(arena, count),
                    .joins = new_words(arena, count),
                    .is_done = ts_new_array(arena, bool, count),
                    .stack = new_words(arena, count),
                    .next = new_words(arena, count)};
  if (!g.pred_start || !g.preds || !g.order || !g.sequence || !g.joins || !g.is_done || !g.stack ||
      !g.next)
    return ts_fail_memory(ctx);
  for (uint32_t b = 0; b < count; b++)
    g.joins[b] = TS_NONE;
  link_back(&g);
  for (uint32_t root = next_root(&g); root != TS_NONE; root = next_root(&g))
    solve(&g, root, walk(&g, root));
  *joins = g.joins;
  return TS_OK;
}
