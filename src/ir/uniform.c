/* Finds uniform registers: those whose readers, all lanes of a warp, always see one value.
 *
 * Every register starts uniform and is demoted until nothing changes. A register stays uniform when
 * each definition computes one value for all lanes that execute it, and when lanes cannot be apart
 * between a definition and a use: let H be the deepest region that contains all definitions and all
 * uses; no region strictly below H on the way from a definition up to H may be *divergent*. A region
 * is divergent when the cbr of its head has a varying predicate, or when lanes may leave it early: a
 * branch out of several regions at once (a break) under a divergent one of them. */
#include "ir/ir_priv.h"

#include <string.h>

struct uniform {
  struct ts_arena arena;
  struct ts_function *function;
  uint32_t *home;     /* by register: H, or TS_NONE while it has no place */
  uint32_t *depth;    /* by region */
  bool *is_divergent; /* by region */
  bool has_changed;
};

static uint32_t common_region(const struct uniform *u, uint32_t a, uint32_t b) {
  const struct ts_region *regions = u->function->regions.data;
  while (a != b) {
    if (u->depth[a] >= u->depth[b])
      a = regions[a].parent;
    else
      b = regions[b].parent;
  }
  return a;
}

static void widen_home(struct uniform *u, uint32_t reg, uint32_t region) {
  u->home[reg] = u->home[reg] == TS_NONE ? region : common_region(u, u->home[reg], region);
}

static uint32_t region_of(const struct ts_function *function, const struct ts_insn *insn) {
  return function->blocks.data[insn->block].region;
}

static void find_homes(struct uniform *u) {
  struct ts_function *function = u->function;
  memset(u->home, 0xff, function->regs.count * sizeof *u->home);
  for (size_t i = 0; i < function->regions.count; i++)
    u->depth[i] = i == 0 ? 0 : u->depth[function->regions.data[i].parent] + 1;
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE) widen_home(u, function->params.data[i].reg, 0);
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    uint32_t region = region_of(function, insn);
    if (insn->dst != TS_NONE) widen_home(u, insn->dst, region);
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, k);
      if (operand->kind == TS_OPERAND_REG) widen_home(u, operand->index, region);
    }
  }
}

bool ts__is_uniform(const struct ts_function *function, const struct ts_operand *operand) {
  return operand->kind != TS_OPERAND_REG || function->regs.data[operand->index].is_uniform;
}

static bool sreg_is_uniform(int64_t which) {
  switch (which) {
  case TS_SREG_tid_x:
  case TS_SREG_tid_y:
  case TS_SREG_tid_z:
  case TS_SREG_laneid:
  case TS_SREG_activemask: return false;
  default: return true;
  }
}

/* One value for all lanes that execute it together? Warp-wide results are one value only for lanes
 * of one mask, so they count as varying. */
static bool result_is_uniform(const struct ts_function *function, const struct ts_insn *insn) {
  unsigned flags = ts_op_info((enum ts_op)insn->op)->flags;
  if (insn->op == TS_OP_sreg)
    return sreg_is_uniform(ts_insn_attr(function, insn, TS_ATTR_which, TS_SREG_laneid));
  if (flags & (F_VARYING | F_COLLECTIVE)) return false;
  for (uint32_t i = 0; i < insn->operand_count; i++)
    if (!ts__is_uniform(function, ts_insn_operand(function, insn, i))) return false;
  return true;
}

static bool is_apart(const struct uniform *u, uint32_t region, uint32_t home) {
  for (; region != home; region = u->function->regions.data[region].parent)
    if (u->is_divergent[region]) return true;
  return false;
}

static void demote_results(struct uniform *u) {
  struct ts_function *function = u->function;
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (insn->dst == TS_NONE) continue;
    struct ts_reg *dst = &function->regs.data[insn->dst];
    if (!dst->is_uniform) continue;
    if (result_is_uniform(function, insn) &&
        !is_apart(u, region_of(function, insn), u->home[insn->dst]))
      continue;
    dst->is_uniform = false;
    u->has_changed = true;
  }
}

static const struct ts_insn *terminator(const struct ts_function *function, uint32_t block) {
  const struct ts_block *b = &function->blocks.data[block];
  return &function->insns.data[b->first_insn + b->insn_count - 1];
}

static void mark_divergent(struct uniform *u, uint32_t region) {
  if (u->is_divergent[region]) return;
  u->is_divergent[region] = true;
  u->has_changed = true;
}

/* Lanes that go from `from` to `to` leave regions on the way up; whichever encloses a divergent one
 * is left by some lanes only. The region left first is left by its normal end. */
static void mark_left_regions(struct uniform *u, uint32_t from, uint32_t to) {
  const struct ts_function *function = u->function;
  uint32_t top = common_region(u, from, to);
  bool is_partial = false;
  for (uint32_t region = from; region != top; region = function->regions.data[region].parent) {
    if (is_partial) mark_divergent(u, region);
    is_partial |= u->is_divergent[region];
  }
}

static void mark_regions(struct uniform *u) {
  const struct ts_function *function = u->function;
  for (uint32_t i = 1; i < function->regions.count; i++) {
    const struct ts_insn *head = terminator(function, function->regions.data[i].head);
    if (!ts__is_uniform(function, ts_insn_operand(function, head, 0))) mark_divergent(u, i);
  }
  for (uint32_t i = 0; i < function->blocks.count; i++) {
    const struct ts_insn *insn = terminator(function, i);
    uint32_t targets = insn->op == TS_OP_cbr ? 2 : insn->op == TS_OP_br ? 1 : 0;
    for (uint32_t k = 0; k < targets; k++) {
      uint32_t target = ts_insn_operand(function, insn, insn->op == TS_OP_cbr ? k + 1 : k)->index;
      mark_left_regions(u, function->blocks.data[i].region, function->blocks.data[target].region);
    }
  }
}

enum ts_status ts_analyze_uniform(struct ts_ctx *ctx, struct ts_function *function) {
  struct uniform u = {.function = function, .has_changed = true};
  ts_arena_init(&u.arena, function->module->allocator);
  u.home = ts_new_array(&u.arena, uint32_t, function->regs.count);
  u.depth = ts_new_array(&u.arena, uint32_t, function->regions.count);
  u.is_divergent = ts_new_array(&u.arena, bool, function->regions.count);
  bool has_memory = u.home && u.depth && u.is_divergent;
  if (has_memory) {
    find_homes(&u);
    for (size_t i = 0; i < function->regs.count; i++)
      function->regs.data[i].is_uniform = true;
    while (u.has_changed) {
      u.has_changed = false;
      mark_regions(&u);
      demote_results(&u);
    }
  }
  ts_arena_free(&u.arena);
  return has_memory ? TS_OK : ts_fail_memory(ctx);
}
