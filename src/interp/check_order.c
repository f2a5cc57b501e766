/* Order between blocks (DOC: PTX ISA, memory consistency model): who has been told what by fences
 * and atomics, barriers of clusters and grids, and mbarriers of other blocks.
 *
 * A release tells what the warp knows, and so does a relaxed atomic of what a fence before it has
 * covered, be it the warp's own fence or that of a warp it has met at a barrier since. A reader
 * learns with an acquire, or with the fence after a relaxed read. What is told with the scope of the
 * block reaches only the block. A place in memory keeps all it was ever told, so that an order may
 * be seen where there is none, and never the other way round. */
#include "interp/check_priv.h"

/* enum of attr:order and attr:scope */
enum { ORDER_RELAXED, ORDER_ACQUIRE = 2, ORDER_RELEASE, ORDER_BOTH, ORDER_TOTAL };
enum { SCOPE_BLOCK, SCOPE_DEVICE, SCOPE_SYSTEM, SCOPE_CLUSTER };

static int64_t attribute(const struct ts__program *program, const struct ts__code *code,
                         enum ts_attr_id id, int64_t otherwise) {
  const struct ts_function *function = program->function;
  return ts_insn_attr(function, &function->insns.data[code->insn], id, otherwise);
}

static bool is_atomic(const struct ts__code *code) {
  return code->op == TS_OP_atom_global || code->op == TS_OP_atom_global_ret ||
         code->op == TS_OP_atom_shared || code->op == TS_OP_atom_shared_ret;
}

/* Whether warps can wait for each other by what they find in memory. */
static bool has_messages(const struct ts__program *program) {
  if (program->launch->is_cooperative) return true;
  for (uint32_t i = 0; i < program->code_count; i++) {
    const struct ts__code *code = &program->code[i];
    if (code->op == TS_OP_fence) return true;
    if (is_atomic(code) && attribute(program, code, TS_ATTR_order, ORDER_RELAXED)) return true;
  }
  return false;
}

enum ts_status ts__check_order_launch(struct ts_ctx *ctx, struct ts__program *program,
                                      struct ts__check *launch) {
  const uint32_t *grid = program->launch->grid;
  uint64_t agents = (uint64_t)grid[0] * grid[1] * grid[2] * program->warps_per_block;
  bool by_memory = has_messages(program);
  launch->checks_blocks = true;
  if (!by_memory && program->blocks_per_unit == 1) return TS_OK;
  if (agents > (by_memory ? (uint64_t)TS_ORDER_MAX_AGENTS : UINT32_MAX)) {
    struct ts_diag diag = {.code = TS_DIAG_CHECK_PARTIAL,
                           .message =
                               "this kernel has too many warps to follow how its blocks "
                               "wait for each other: races between blocks are not looked for",
                           .hint = "use smaller arguments",
                           .function = program->function->name,
                           .block = -1,
                           .warp = -1,
                           .lane = -1};
    ts_diag_add(ctx->diags, &diag);
    launch->checks_blocks = false;
    if (program->blocks_per_unit == 1) return TS_OK;
  }
  size_t group_count = 1 + program->blocks_per_unit / program->blocks_per_cluster;
  launch->groups = ts_new_array(program->arena, struct ts_known_set, 2 * group_count);
  launch->order = ts_new(program->arena, struct ts_order);
  if (!launch->groups || !launch->order) return ts_fail_memory(ctx);
  ts_order_init(launch->order, ctx->allocator);
  return TS_OK;
}

static uint32_t group_count(const struct ts__program *program) {
  return 1 + program->blocks_per_unit / program->blocks_per_cluster;
}

static void forget_groups(struct ts__check *check) {
  for (uint32_t i = 0; i < 2 * group_count(check->program); i++)
    ts_known_free(check->order, &check->groups[i]);
}

void ts__check_order_launch_end(struct ts__check *launch) {
  if (!launch->order) return;
  forget_groups(launch);
  ts_order_free(launch->order);
}

void ts__check_order_block(struct ts__block *block) {
  struct ts__check *check = block->check;
  const struct ts__group *grid = block->groups[TS__GROUP_GRID];
  if (!check->order) return;
  if (block == &grid->blocks[0]) {
    ts_order_unit_start(check->order);
    forget_groups(check);
  }
  /* Blocks of a cluster start in the order of rank. */
  const struct ts__group *cluster = block->groups[TS__GROUP_CLUSTER];
  for (uint32_t i = 0; i <= block->rank; i++)
    for (uint32_t j = 0; j <= block->rank; j++)
      cluster->blocks[i].check->race.peer_agents[j] =
          cluster->blocks[j].index * check->race.warp_count;
}

static void check_memory(struct ts__warp *warp) {
  if (warp->block->check->order->out_of_memory && warp->block->status == TS_OK)
    warp->block->status = ts_fail_memory(warp->block->ctx);
}

/* --- fences and atomics */

void ts__check_fence(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__check *check = warp->block->check;
  if (!check->order) return;
  if (code->op == TS_OP_fence &&
      attribute(warp->program, code, TS_ATTR_scope, SCOPE_BLOCK) == SCOPE_BLOCK)
    return;
  ts_race_fence(&check->race, warp->index);
  check_memory(warp);
}

/* A place in shared memory is one of its block. */
static uint64_t key_of(const struct ts__warp *warp, enum ts_space space, uint64_t address) {
  if (space == TS_SPACE_GLOBAL) return address;
  return (uint64_t)1 << 63 | (uint64_t)warp->block->index << 24 | address;
}

static void learn(struct ts__warp *warp, struct ts_sync_place *place, bool is_acquire,
                  bool is_block) {
  struct ts__check *check = warp->block->check;
  struct ts_race *race = &check->race;
  const struct ts_far *wide = ts_known_freeze(check->order, &place->wide);
  const struct ts_far *block = ts_known_freeze(check->order, &place->block);
  if (!is_block) ts_race_learn(race, warp->index, wide, is_acquire);
  if (!is_acquire) return;
  if (is_block) ts_race_learn_own(race, warp->index, wide);
  ts_race_learn_own(race, warp->index, block);
}

/* One lane's operation. */
static void exchange(struct ts__warp *warp, const struct ts__code *code, uint64_t key,
                     const struct ts_far *told) {
  struct ts__check *check = warp->block->check;
  int64_t order = attribute(warp->program, code, TS_ATTR_order, ORDER_RELAXED);
  bool is_block = attribute(warp->program, code, TS_ATTR_scope, SCOPE_DEVICE) == SCOPE_BLOCK;
  bool reads = code->op == TS_OP_atom_global_ret || code->op == TS_OP_atom_shared_ret;
  bool is_acquire = order == ORDER_ACQUIRE || order >= ORDER_BOTH;
  struct ts_sync_place *place = ts_order_place(check->order, key, told != NULL);
  if (place && reads) learn(warp, place, is_acquire, is_block);
  if (place && told) ts_known_add(check->order, is_block ? &place->block : &place->wide, told);
}

void ts__check_atomic_order(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                            const struct ts__access *access) {
  struct ts__check *check = warp->block->check;
  int64_t order = attribute(warp->program, code, TS_ATTR_order, ORDER_RELAXED);
  bool is_release = order >= ORDER_RELEASE;
  if (!check->checks_blocks) return;
  enum ts_tell tell = code->ext == TS_IR_REDUCE_load ? TS_TELL_NOTHING
                      : is_release                   ? TS_TELL_ALL
                                                     : TS_TELL_FENCED;
  const struct ts_far *told = NULL;
  uint64_t last = UINT64_MAX;
  for (uint32_t lanes = access->mask; lanes; lanes &= lanes - 1) {
    uint64_t address = access->lane[ts__first_lane(lanes)];
    if (address == last) continue;
    /* What an acquire has just brought is told on with it. */
    if (order >= ORDER_BOTH) exchange(warp, code, key_of(warp, space, address), NULL);
    if (!told) told = ts_race_told(&check->race, warp->index, tell);
    exchange(warp, code, key_of(warp, space, address), told);
    last = address;
  }
  check_memory(warp);
}

/* --- barriers of clusters and grids */

static struct ts_known_set *group_set(const struct ts__warp *warp, enum ts__group_scope scope,
                                      uint64_t phase) {
  const struct ts__block *block = warp->block;
  const struct ts__block *first = block->groups[TS__GROUP_GRID]->blocks;
  uint32_t number = scope == TS__GROUP_GRID
                        ? 0
                        : 1 + (uint32_t)(block - first) / warp->program->blocks_per_cluster;
  return &block->check->groups[2 * number + (phase & 1)];
}

void ts__check_group_arrive(struct ts__warp *warp, const struct ts__code *code,
                            enum ts__group_scope scope, uint64_t phase) {
  struct ts__check *check = warp->block->check;
  bool is_relaxed = attribute(warp->program, code, TS_ATTR_order, ORDER_BOTH) == ORDER_RELAXED;
  if (check->order) {
    const struct ts_far *told =
        ts_race_told(&check->race, warp->index, is_relaxed ? TS_TELL_FENCED : TS_TELL_ALL);
    ts_known_add(check->order, group_set(warp, scope, phase), told);
    check_memory(warp);
  }
  if (!is_relaxed)
    ts__check_barrier_arrive(warp, code, TS__NAMED_BARRIERS + (uint32_t)scope, phase);
}

void ts__check_group_pass(struct ts__warp *warp, enum ts__group_scope scope, uint64_t phase) {
  struct ts__check *check = warp->block->check;
  if (check->order) {
    struct ts_known_set *set = group_set(warp, scope, phase);
    ts_race_learn(&check->race, warp->index, ts_known_freeze(check->order, set), true);
    check_memory(warp);
  }
  ts__check_barrier_pass(warp, TS__NAMED_BARRIERS + (uint32_t)scope, phase);
}

/* --- shared memory of other blocks */

void ts__check_peer_arrive(struct ts__warp *warp, const struct ts__code *code,
                           struct ts__block *block, uint32_t address, uint64_t phase) {
  struct ts__check *check = warp->block->check;
  struct ts_clock *clock = ts__check_mbarrier_clock(block->check, address, phase);
  if (!check->order || !clock ||
      attribute(warp->program, code, TS_ATTR_scope, SCOPE_CLUSTER) == SCOPE_BLOCK)
    return;
  ts_race_tell_clock(&block->check->race, clock,
                     ts_race_told(&check->race, warp->index, TS_TELL_ALL));
  check_memory(warp);
}

void ts__check_peer_access(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                           struct ts__block *block, uint64_t address, uint64_t size_bytes,
                           bool is_write, bool is_async) {
  struct ts__check *check = warp->block->check;
  struct ts_race *race = &block->check->race;
  struct ts_accessor who = {.warp = warp->index, .insn = code->insn, .is_async = is_async};
  struct ts_conflict conflict;
  if (is_write) {
    ts_use_put(&block->check->use, code->insn, address, size_bytes);
    conflict = block == warp->block ? ts_race_write(race, who, address, size_bytes)
                                    : ts_race_peer_write(race, &check->race, warp->block->rank, who,
                                                         address, size_bytes);
    ts__check_clear_tags(block->check, address, size_bytes);
  } else {
    ts_use_read(&block->check->use, address, size_bytes);
    conflict = block == warp->block
                   ? ts_race_read(race, who, address, size_bytes)
                   : ts_race_peer_read(race, &check->race, who, address, size_bytes);
  }
  if (conflict.kind != TS_CONFLICT_NONE)
    ts__check_conflict_in(warp, code, block, TS_SPACE_SHARED, lane, is_write, &conflict,
                          conflict.address, size_bytes);
}
