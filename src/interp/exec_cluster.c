/* Blocks that work together (DOC: PTX ISA, barrier.cluster, mapa, shared::cluster): barriers over a
 * cluster or a grid, and shared memory of other blocks of the cluster. */
#include "interp/check_priv.h"

#include <string.h>

/* --- barriers of groups: all living threads of the blocks take part */

static void complete_when_full(struct ts__group *group, enum ts__group_scope scope) {
  uint32_t needed = 0;
  for (uint32_t i = 0; i < group->block_count; i++)
    needed += ts__living_threads(&group->blocks[i]);
  if (group->arrived_threads == 0 || group->arrived_threads < needed) return;
  for (uint32_t i = 0; i < group->block_count; i++) {
    struct ts__block *block = &group->blocks[i];
    ts__flow(block, block->group_warps[scope], block->group_warps[scope]);
    block->group_warps[scope] = 0;
  }
  group->arrived_threads = 0;
  group->phase++;
}

void ts__group_thread_exit(struct ts__block *block) {
  for (int scope = 0; scope < TS__GROUP_SCOPES; scope++)
    complete_when_full(block->groups[scope], (enum ts__group_scope)scope);
}

static enum ts_status emit_group(struct ts__warp *warp, const struct ts__code *code,
                                 enum ts_event_kind kind, enum ts__group_scope scope,
                                 uint64_t phase, uint32_t work) {
  if (!ts__listening(warp->block)) return TS_OK;
  struct ts_event event = {.kind = (uint8_t)kind,
                           .sync_kind = TS_SYNC_CLUSTER,
                           .src_space = 0xff,
                           .dst_space = 0xff,
                           .sync_object = scope,
                           .sync_phase = (uint32_t)phase,
                           .work = work};
  return ts__emit(warp, code, event, NULL);
}

static enum ts__step arrive(struct ts__warp *warp, const struct ts__code *code,
                            enum ts__group_scope scope) {
  struct ts__group *group = warp->block->groups[scope];
  uint32_t threads = (uint32_t)__builtin_popcount(warp->active);
  warp->group_phase[scope] = group->phase + 1;
  if (warp->block->check) ts__check_group_arrive(warp, code, scope, group->phase);
  warp->block->group_warps[scope] |= (uint64_t)1 << warp->index;
  group->arrived_threads += threads;
  if (emit_group(warp, code, TS_EVENT_ARRIVE, scope, group->phase, threads) != TS_OK)
    return TS__STEP_FAULT;
  complete_when_full(group, scope);
  return TS__STEP_NEXT;
}

static enum ts__step wait(struct ts__warp *warp, const struct ts__code *code,
                          enum ts__group_scope scope) {
  if (warp->block->groups[scope]->phase < warp->group_phase[scope]) {
    warp->wait = (struct ts__wait){.kind = TS__WAIT_GROUP, .object = scope};
    return TS__STEP_BLOCKED;
  }
  uint64_t phase = warp->group_phase[scope] - 1;
  warp->group_phase[scope] = 0;
  if (warp->block->check) ts__check_group_pass(warp, scope, phase);
  enum ts_status status = emit_group(warp, code, TS_EVENT_WAIT, scope, phase, 0);
  return status == TS_OK ? TS__STEP_NEXT : TS__STEP_FAULT;
}

/* Arrives on the first call, then answers BLOCKED until the phase is over. */
static enum ts__step sync(struct ts__warp *warp, const struct ts__code *code,
                          enum ts__group_scope scope) {
  if (warp->group_phase[scope] == 0) {
    enum ts__step step = arrive(warp, code, scope);
    if (step != TS__STEP_NEXT) return step;
  }
  return wait(warp, code, scope);
}

enum ts__step ts__exec_cluster_sync(struct ts__warp *warp, const struct ts__code *code) {
  return sync(warp, code, TS__GROUP_CLUSTER);
}

enum ts__step ts__exec_cluster_arrive(struct ts__warp *warp, const struct ts__code *code) {
  if (warp->group_phase[TS__GROUP_CLUSTER])
    return ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, TS_NONE, TS_NONE,
                      "wait with cluster.wait between two arrivals",
                      "warp %u arrives at the barrier of the cluster a second time", warp->index);
  return arrive(warp, code, TS__GROUP_CLUSTER);
}

enum ts__step ts__exec_cluster_wait(struct ts__warp *warp, const struct ts__code *code) {
  if (warp->group_phase[TS__GROUP_CLUSTER] == 0)
    return ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, TS_NONE, TS_NONE,
                      "every wait needs a cluster.arrive of the same warp before it",
                      "warp %u waits at the barrier of the cluster without having arrived",
                      warp->index);
  return wait(warp, code, TS__GROUP_CLUSTER);
}

enum ts__step ts__exec_grid_sync(struct ts__warp *warp, const struct ts__code *code) {
  if (!warp->program->launch->is_cooperative &&
      warp->block->groups[TS__GROUP_GRID]->block_count < warp->program->launch->grid[0] *
                                                             warp->program->launch->grid[1] *
                                                             warp->program->launch->grid[2]) {
    ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, TS_NONE, TS_NONE,
               "launch the kernel as a cooperative one",
               "a barrier over the grid in a launch that is not cooperative: blocks that have not "
               "started cannot arrive");
    warp->block->status = TS_HAZARD;
    return TS__STEP_FAULT;
  }
  return sync(warp, code, TS__GROUP_GRID);
}

/* --- shared memory of other blocks */

static bool has_ended(const struct ts__block *block) {
  for (uint32_t i = 0; i < block->warp_count; i++)
    if (block->warps[i].state != TS__WARP_DONE) return false;
  return true;
}

struct ts__block *ts__cluster_block(struct ts__warp *warp, const struct ts__code *code,
                                    uint32_t lane, uint64_t rank) {
  const struct ts__group *cluster = warp->block->groups[TS__GROUP_CLUSTER];
  if (rank >= cluster->block_count) {
    ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE, NULL,
               "%s names the block of rank %llu in a cluster of %u",
               ts_op_info((enum ts_op)code->op)->mnemonic, (unsigned long long)rank,
               cluster->block_count);
    return NULL;
  }
  struct ts__block *block = &cluster->blocks[rank];
  if (block != warp->block && has_ended(block)) {
    ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE,
               "end the kernel with cluster.sync, so that no block leaves while others use its "
               "shared memory",
               "%s uses shared memory of block %u, which has ended",
               ts_op_info((enum ts_op)code->op)->mnemonic, block->index);
    return NULL;
  }
  return block;
}

static bool is_inside(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                      const struct ts__block *block, uint64_t address, uint64_t size_bytes) {
  uint64_t window_bytes = block->shared.size_bytes;
  if (address <= window_bytes && size_bytes <= window_bytes - address) return true;
  char where[128];
  ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE, NULL,
             "%s of %llu bytes at %s of block %u, which has %llu bytes of shared memory",
             ts_op_info((enum ts_op)code->op)->mnemonic, (unsigned long long)size_bytes,
             ts__shared_text(block, address, where, sizeof where), block->index,
             (unsigned long long)window_bytes);
  return false;
}

/* What a warp of another block has waited for is not recorded here, so only what no warp at all has
 * waited for counts as still in use. */
static bool is_settled(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                       const struct ts__block *block, uint64_t address, uint64_t size_bytes,
                       bool is_write) {
  const struct ts_shared_memory *shared = &block->shared;
  const struct ts_pending *record = NULL;
  for (uint32_t i = 0; i < block->warp_count && shared->live_count; i++) {
    record = is_write ? ts_pending_check_write(shared, i, address, size_bytes)
                      : ts_pending_check_read(shared, i, address, size_bytes);
    if (!record || record->observed) return true;
  }
  if (!record) return true;
  char where[128];
  ts__hazard(warp, code, is_write ? TS_DIAG_RACE_PENDING_WRITE : TS_DIAG_RACE_PENDING_READ, lane,
             record->insn, "a block must be told that its copy has been waited for",
             "%s %s %llu bytes at %s of block %u that nobody there has waited for",
             ts_op_info((enum ts_op)code->op)->mnemonic, is_write ? "overwrites" : "reads",
             (unsigned long long)size_bytes, ts__shared_text(block, address, where, sizeof where),
             block->index);
  return warp->block->status == TS_OK;
}

bool ts__remote_writable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         struct ts__block *block, uint64_t address, uint64_t size_bytes) {
  if (block == warp->block) return ts__shared_writable(warp, code, lane, address, size_bytes);
  return is_inside(warp, code, lane, block, address, size_bytes) &&
         is_settled(warp, code, lane, block, address, size_bytes, true);
}

/* Host pointer for the lane, or NULL after a report. */
static uint8_t *find_bytes(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                           uint64_t address, uint64_t rank, bool is_write) {
  uint64_t size_bytes = ts_dtype_packed_bytes((enum ts_dtype)code->dtype, code->lanes);
  uint64_t align_bytes = size_bytes & (0 - size_bytes);
  struct ts__block *block = ts__cluster_block(warp, code, lane, rank);
  if (!block || !is_inside(warp, code, lane, block, address, size_bytes)) return NULL;
  if (address % (align_bytes < 16 ? align_bytes : 16)) {
    ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
               "shared address 0x%llx is not aligned to %llu bytes", (unsigned long long)address,
               (unsigned long long)align_bytes);
    return NULL;
  }
  bool is_free = block == warp->block
                     ? ts__shared_settled(warp, code->insn, lane, address, size_bytes, is_write)
                     : is_settled(warp, code, lane, block, address, size_bytes, is_write);
  if (is_write) block->shared.version++;
  return is_free ? block->shared.data + address : NULL;
}

/* Component i of a lane in slots of the instruction's width. */
static uint64_t get_slot(const struct ts__code *code, const void *slots, uint32_t i,
                         uint32_t lane) {
  uint32_t k = i * TS__LANES + lane;
  return ts__is_wide(code->dtype) ? ((const uint64_t *)slots)[k] : ((const uint32_t *)slots)[k];
}

/* One event for each block that lanes name. */
static enum ts_status emit_access(struct ts__warp *warp, const struct ts__code *code,
                                  const uint64_t addresses[TS__LANES],
                                  const uint64_t ranks[TS__LANES], bool is_write) {
  uint32_t size_bytes = (uint32_t)ts_dtype_packed_bytes((enum ts_dtype)code->dtype, code->lanes);
  const struct ts__group *cluster = warp->block->groups[TS__GROUP_CLUSTER];
  if (!ts__listening(warp->block)) return TS_OK;
  for (uint32_t remaining = warp->active; remaining;) {
    uint64_t lanes[TS__LANES] = {0}, rank = ranks[ts__first_lane(remaining)];
    struct ts_event event = {.kind = TS_EVENT_MEMORY,
                             .src_space = is_write ? TS_SPACE_LOCAL : TS_SPACE_SHARED,
                             .dst_space = is_write ? TS_SPACE_SHARED : TS_SPACE_LOCAL};
    for (uint32_t rest = remaining; rest; rest &= rest - 1) {
      uint32_t lane = ts__first_lane(rest);
      if (ranks[lane] != rank) continue;
      lanes[lane] = addresses[lane];
      event.mask |= 1u << lane;
    }
    remaining &= ~event.mask;
    event.bytes = (uint32_t)__builtin_popcount(event.mask) * size_bytes;
    if (rank >= cluster->block_count) continue;
    event.cause = ts__event_target(warp, &cluster->blocks[rank]);
    struct ts_footprint footprint = {.kind = TS_FOOTPRINT_LANES,
                                     .space = TS_SPACE_SHARED,
                                     .size_bytes = size_bytes,
                                     .lanes = lanes};
    TS_TRY(ts__emit(warp, code, event, &footprint));
  }
  return TS_OK;
}

enum ts__step ts__exec_st_cluster(struct ts__warp *warp, const struct ts__code *code) {
  uint64_t scratch[TS_MAX_VECTOR_LANES * TS__LANES], addresses[TS__LANES], ranks[TS__LANES];
  const struct ts__operand *value = &code->operands[2];
  const void *slots = ts__is_wide(code->dtype)
                          ? (const void *)ts__operand_slots64(warp, value, scratch)
                          : (const void *)ts__operand_slots32(warp, value, (uint32_t *)scratch);
  ts__address_lanes(warp, code, &code->operands[0], &code->operands[1], code->scale, code->offset,
                    addresses);
  ts__operand_lanes64(warp, &code->operands[3], ranks);
  if (emit_access(warp, code, addresses, ranks, true) != TS_OK) return TS__STEP_FAULT;
  if (code->is_quiet) return TS__STEP_NEXT;
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint64_t wide[TS_MAX_VECTOR_LANES];
    uint32_t narrow[TS_MAX_VECTOR_LANES];
    uint8_t *bytes = find_bytes(warp, code, lane, addresses[lane], ranks[lane], true);
    if (!bytes) continue;
    for (uint32_t i = 0; i < code->lanes; i++) {
      wide[i] = get_slot(code, slots, i, lane);
      narrow[i] = (uint32_t)wide[i];
    }
    const void *components = ts__is_wide(code->dtype) ? (const void *)wide : (const void *)narrow;
    ts_dtype_pack((enum ts_dtype)code->dtype, bytes, components, code->lanes);
    struct ts__block *target = ts__cluster_block(warp, code, lane, ranks[lane]);
    if (warp->block->check && target)
      ts__check_peer_access(warp, code, lane, target, addresses[lane],
                            ts_dtype_packed_bytes((enum ts_dtype)code->dtype, code->lanes), true,
                            false);
  }
  return ts__after_checks(warp);
}

enum ts__step ts__exec_ld_cluster(struct ts__warp *warp, const struct ts__code *code) {
  uint64_t wide[TS_MAX_VECTOR_LANES * TS__LANES] = {0}, addresses[TS__LANES], ranks[TS__LANES];
  uint32_t narrow[TS_MAX_VECTOR_LANES * TS__LANES] = {0};
  bool is_wide = ts__is_wide(code->dtype);
  ts__address_lanes(warp, code, &code->operands[0], &code->operands[1], code->scale, code->offset,
                    addresses);
  ts__operand_lanes64(warp, &code->operands[2], ranks);
  if (emit_access(warp, code, addresses, ranks, false) != TS_OK) return TS__STEP_FAULT;
  if (code->is_quiet) return TS__STEP_NEXT;
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint64_t components[TS_MAX_VECTOR_LANES];
    const uint8_t *bytes = find_bytes(warp, code, lane, addresses[lane], ranks[lane], false);
    if (!bytes) continue;
    struct ts__block *target = ts__cluster_block(warp, code, lane, ranks[lane]);
    if (warp->block->check && target)
      ts__check_peer_access(warp, code, lane, target, addresses[lane],
                            ts_dtype_packed_bytes((enum ts_dtype)code->dtype, code->lanes), false,
                            false);
    ts_dtype_unpack((enum ts_dtype)code->dtype, components, bytes, code->lanes);
    for (uint32_t i = 0; i < code->lanes; i++) {
      if (is_wide)
        wide[i * TS__LANES + lane] = components[i];
      else
        memcpy(&narrow[i * TS__LANES + lane], (const uint8_t *)components + 4 * i, 4);
    }
  }
  if (is_wide)
    ts__write_slots64(warp, code, wide);
  else
    ts__write_slots32(warp, code, narrow);
  return ts__after_checks(warp);
}

enum ts__step ts__exec_mbarrier_arrive_cluster(struct ts__warp *warp, const struct ts__code *code) {
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint64_t address = ts__operand_lane(warp, &code->operands[0], lane);
    uint64_t rank = ts__operand_lane(warp, &code->operands[1], lane);
    struct ts__block *block = ts__cluster_block(warp, code, lane, rank);
    if (!block) continue;
    enum ts__step step = ts__mbarrier_arrive_from(warp, code, lane, block, address, 0, false);
    if (step != TS__STEP_NEXT) return step;
  }
  return ts__after_checks(warp);
}
