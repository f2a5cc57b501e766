/* The recorder: a sink that turns events into streams.
 *
 * Events come in the order of some schedule; a stream keeps only each warp's own order, rearranged
 * inside basic blocks as the code table says the machine code is. What a warp waits for becomes a
 * node that knows how many contributions complete it, so no rule of a barrier is repeated here. */
#include "model_nv/model_nv_priv.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_TABLE_START = 64 };

/* Identity of a node while its block is recorded. */
struct node_key {
  uint8_t sync_kind;
  uint16_t warp; /* of groups: the warp, or the warpgroup's first */
  uint32_t object, phase;
};

struct pending_op {
  struct ts__op op;
  uint32_t rank, sequence;
};

struct warp_builder {
  TS_VEC(struct ts__op) ops;
  TS_VEC(struct pending_op) segment; /* ops of the basic block that is being executed */
  uint32_t segment_block, last_insn;
  uint32_t open_cp_group, open_bulk_group, open_wgmma_group;
  bool has_ended;
};

/* A block whose events are coming in. */
struct block_builder {
  uint32_t block, warp_count;
  struct warp_builder *warps;
  TS_VEC(struct ts__node) nodes;
  TS_VEC(struct node_key) keys;
  uint32_t *table; /* open addressing: 1 + node */
  uint32_t table_size;
  TS_VEC(struct ts__access) accesses;
  TS_VEC(struct ts__copy_op) copies;
  struct ts_arena arena; /* lane addresses */
  double mac_count, flop;
  bool is_open;
};

struct ts__recorder {
  TS_VEC(struct block_builder *) open;
  TS_VEC(struct block_builder *) spare;
};

/* --- builders */

static void builder_clear(struct block_builder *builder) {
  for (uint32_t i = 0; i < builder->warp_count; i++) {
    struct warp_builder *warp = &builder->warps[i];
    warp->ops.count = warp->segment.count = 0;
    warp->segment_block = warp->last_insn = UINT32_MAX;
    warp->open_cp_group = warp->open_bulk_group = warp->open_wgmma_group = 0;
    warp->has_ended = false;
  }
  builder->nodes.count = builder->keys.count = 0;
  builder->accesses.count = builder->copies.count = 0;
  builder->mac_count = builder->flop = 0;
  if (builder->table) memset(builder->table, 0, builder->table_size * sizeof *builder->table);
  ts_arena_free(&builder->arena);
}

static void builder_free(const struct ts_allocator *allocator, struct block_builder *builder) {
  for (uint32_t i = 0; i < builder->warp_count; i++) {
    ts_vec_free(&builder->warps[i].ops, allocator);
    ts_vec_free(&builder->warps[i].segment, allocator);
  }
  allocator->resize(allocator->user, builder->warps, builder->warp_count * sizeof *builder->warps,
                    0);
  ts_vec_free(&builder->nodes, allocator);
  ts_vec_free(&builder->keys, allocator);
  ts_vec_free(&builder->accesses, allocator);
  ts_vec_free(&builder->copies, allocator);
  allocator->resize(allocator->user, builder->table, builder->table_size * sizeof *builder->table,
                    0);
  ts_arena_free(&builder->arena);
  allocator->resize(allocator->user, builder, sizeof *builder, 0);
}

static struct block_builder *builder_new(const struct ts_allocator *allocator,
                                         uint32_t warp_count) {
  struct block_builder *builder = allocator->resize(allocator->user, NULL, 0, sizeof *builder);
  if (!builder) return NULL;
  *builder = (struct block_builder){.warp_count = warp_count};
  ts_arena_init(&builder->arena, allocator);
  builder->warps = allocator->resize(allocator->user, NULL, 0, warp_count * sizeof *builder->warps);
  if (!builder->warps) {
    builder->warp_count = 0;
    builder_free(allocator, builder);
    return NULL;
  }
  memset(builder->warps, 0, warp_count * sizeof *builder->warps);
  return builder;
}

static enum ts_status open_block(struct ts_model_nv *model, uint32_t block, uint32_t warp_count) {
  struct ts__recorder *recorder = model->recorder;
  struct block_builder *builder = NULL;
  for (size_t i = 0; i < recorder->spare.count && !builder; i++) {
    if (recorder->spare.data[i]->warp_count != warp_count) continue;
    builder = recorder->spare.data[i];
    recorder->spare.data[i] = recorder->spare.data[--recorder->spare.count];
  }
  if (!builder) builder = builder_new(model->ctx->allocator, warp_count);
  if (!builder) return ts_fail_memory(model->ctx);
  builder_clear(builder);
  builder->block = block;
  if (ts_vec_push(&recorder->open, model->ctx->allocator, builder)) {
    builder_free(model->ctx->allocator, builder);
    return ts_fail_memory(model->ctx);
  }
  return TS_OK;
}

/* The newest block is nearly always the one. */
static struct block_builder *find_builder(struct ts__recorder *recorder, uint32_t block) {
  for (size_t i = recorder->open.count; i-- > 0;)
    if (recorder->open.data[i]->block == block) return recorder->open.data[i];
  return NULL;
}

/* --- nodes */

static uint32_t key_hash(const struct node_key *key) {
  uint64_t h = (uint64_t)key->object << 32 | key->phase;
  h ^= (uint64_t)key->sync_kind << 56 | (uint64_t)key->warp << 40;
  h *= 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32);
}

static bool key_equal(const struct node_key *a, const struct node_key *b) {
  return a->sync_kind == b->sync_kind && a->warp == b->warp && a->object == b->object &&
         a->phase == b->phase;
}

static enum ts_status grow_table(struct ts_model_nv *model, struct block_builder *builder) {
  const struct ts_allocator *allocator = model->ctx->allocator;
  uint32_t size = builder->table_size ? builder->table_size * 2 : NODE_TABLE_START;
  uint32_t *table = allocator->resize(allocator->user, NULL, 0, size * sizeof *table);
  if (!table) return ts_fail_memory(model->ctx);
  memset(table, 0, size * sizeof *table);
  for (uint32_t i = 0; i < builder->keys.count; i++) {
    uint32_t at = key_hash(&builder->keys.data[i]) & (size - 1);
    while (table[at])
      at = (at + 1) & (size - 1);
    table[at] = i + 1;
  }
  allocator->resize(allocator->user, builder->table, builder->table_size * sizeof *table, 0);
  builder->table = table;
  builder->table_size = size;
  return TS_OK;
}

static enum ts_status find_node(struct ts_model_nv *model, struct block_builder *builder,
                                struct node_key key, enum ts_stall stall, uint32_t *node) {
  if (builder->keys.count * 2 >= builder->table_size) TS_TRY(grow_table(model, builder));
  uint32_t at = key_hash(&key) & (builder->table_size - 1);
  for (; builder->table[at]; at = (at + 1) & (builder->table_size - 1)) {
    *node = builder->table[at] - 1;
    if (key_equal(&builder->keys.data[*node], &key)) return TS_OK;
  }
  struct ts__node fresh = {
      .previous = TS__NO_NODE, .sync_kind = key.sync_kind, .stall = (uint8_t)stall};
  *node = (uint32_t)builder->nodes.count;
  if (ts_vec_push(&builder->nodes, model->ctx->allocator, fresh) ||
      ts_vec_push(&builder->keys, model->ctx->allocator, key))
    return ts_fail_memory(model->ctx);
  builder->table[at] = *node + 1;
  return TS_OK;
}

/* Groups of a warp: number n is complete when it and all before it are. */
static enum ts_status find_group(struct ts_model_nv *model, struct block_builder *builder,
                                 enum ts_sync_kind kind, uint16_t warp, uint32_t group,
                                 uint32_t *node) {
  struct node_key key = {.sync_kind = (uint8_t)kind, .warp = warp, .object = group};
  uint32_t previous = TS__NO_NODE;
  enum ts_stall stall = kind == TS_SYNC_WGMMA_GROUP ? TS_STALL_TENSOR : TS_STALL_COPY;
  size_t known = builder->nodes.count;
  TS_TRY(find_node(model, builder, key, stall, node));
  if (builder->nodes.count == known || group == 0) return TS_OK;
  TS_TRY(find_group(model, builder, kind, warp, group - 1, &previous));
  builder->nodes.data[*node].previous = previous;
  return TS_OK;
}

/* --- ops */

static int compare_pending(const void *a, const void *b) {
  const struct pending_op *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static enum ts_status flush_segment(struct ts_model_nv *model, struct warp_builder *warp) {
  bool is_sorted = true;
  for (size_t i = 1; i < warp->segment.count && is_sorted; i++)
    is_sorted = warp->segment.data[i - 1].rank <= warp->segment.data[i].rank;
  if (!is_sorted)
    qsort(warp->segment.data, warp->segment.count, sizeof *warp->segment.data, compare_pending);
  if (ts_vec_reserve(&warp->ops, model->ctx->allocator, warp->segment.count))
    return ts_fail_memory(model->ctx);
  for (size_t i = 0; i < warp->segment.count; i++)
    warp->ops.data[warp->ops.count++] = warp->segment.data[i].op;
  warp->segment.count = 0;
  return TS_OK;
}

static enum ts_status push_op(struct ts_model_nv *model, const struct ts_code *code,
                              struct warp_builder *warp, const struct ts_event *event,
                              struct ts__op op) {
  bool has_insn = event->insn < code->insn_count;
  uint32_t block = has_insn ? code->insns[event->insn].block : UINT32_MAX;
  if (block != warp->segment_block || event->insn < warp->last_insn)
    TS_TRY(flush_segment(model, warp));
  warp->segment_block = block;
  warp->last_insn = event->insn;
  op.insn = event->insn;
  op.lanes = (uint8_t)__builtin_popcount(event->mask);
  struct pending_op pending = {op, has_insn ? code->insns[event->insn].rank : 0,
                               (uint32_t)warp->segment.count};
  if (ts_vec_push(&warp->segment, model->ctx->allocator, pending))
    return ts_fail_memory(model->ctx);
  return op.kind == TS__OP_END ? flush_segment(model, warp) : TS_OK;
}

/* --- events */

static enum ts_status add_access(struct ts_model_nv *model, struct block_builder *builder,
                                 const struct ts_event *event, const struct ts_footprint *footprint,
                                 bool is_write, bool is_atomic, bool bypasses_l1, uint32_t *index) {
  struct ts__access access = {.insn = event->insn,
                              .is_write = is_write,
                              .is_atomic = is_atomic,
                              .bypasses_l1 = bypasses_l1,
                              .mask = event->mask,
                              .bytes = event->bytes,
                              .footprint = *footprint};
  if (footprint->kind == TS_FOOTPRINT_LANES) {
    uint64_t *lanes = ts_new_array(&builder->arena, uint64_t, TS__WARP_LANES);
    if (!lanes) return ts_fail_memory(model->ctx);
    memcpy(lanes, footprint->lanes, TS__WARP_LANES * sizeof *lanes);
    access.footprint.lanes = lanes;
  }
  *index = (uint32_t)builder->accesses.count;
  if (ts_vec_push(&builder->accesses, model->ctx->allocator, access))
    return ts_fail_memory(model->ctx);
  return TS_OK;
}

static bool is_matrix_move(uint16_t op) { return op == TS_OP_ldmatrix || op == TS_OP_stmatrix; }

static bool is_atomic_op(uint16_t op) {
  return op == TS_OP_atom_global || op == TS_OP_atom_global_ret || op == TS_OP_atom_shared ||
         op == TS_OP_atom_shared_ret;
}

static uint16_t narrow(uint32_t value) { return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX; }

static enum ts_status memory_event(struct ts_model_nv *model, struct block_builder *builder,
                                   const struct ts_event *event,
                                   const struct ts_footprint *footprint, struct ts__op *op) {
  bool is_write = event->dst_space == footprint->space && event->src_space != footprint->space;
  bool is_atomic = is_atomic_op(event->op);
  if (event->op == TS_OP_ld_cluster || event->op == TS_OP_st_cluster) {
    *op = (struct ts__op){.kind = TS__OP_CLUSTER, .aux = narrow(event->bytes), .aux2 = is_write};
    return TS_OK;
  }
  if (footprint->space == TS_SPACE_GLOBAL) {
    op->kind = is_atomic  ? TS__OP_GLOBAL_ATOMIC
               : is_write ? TS__OP_GLOBAL_STORE
                          : TS__OP_GLOBAL_LOAD;
    return add_access(model, builder, event, footprint, is_write, is_atomic, is_atomic,
                      &op->payload);
  }
  op->kind = is_atomic ? TS__OP_SHARED_ATOMIC : is_write ? TS__OP_SHARED_STORE : TS__OP_SHARED_LOAD;
  if (is_matrix_move(event->op)) {
    uint32_t matrices = event->bytes / 128 ? event->bytes / 128 : 1;
    op->aux = narrow(ts__matrix_wavefronts(footprint, matrices));
    op->aux2 = narrow(matrices);
  } else {
    op->aux = narrow(ts__shared_wavefronts(footprint, event->mask, is_write));
    op->aux2 = narrow(ts__shared_wavefronts_ideal(footprint, event->mask, is_write));
  }
  return TS_OK;
}

static enum ts__copy_kind copy_kind(uint16_t op) {
  switch (op) {
  case TS_OP_cp_async: return TS__COPY_ASYNC;
  case TS_OP_tma_store: return TS__COPY_TMA_STORE;
  case TS_OP_bulk_store: return TS__COPY_BULK_STORE;
  case TS_OP_bulk_load:
  case TS_OP_bulk_load_multicast: return TS__COPY_BULK_LOAD;
  case TS_OP_bulk_cluster: return TS__COPY_REMOTE;
  default: return TS__COPY_TMA_LOAD;
  }
}

/* The node that a copy completes: an mbarrier's phase, or the warp's open group. */
static enum ts_status copy_node(struct ts_model_nv *model, struct block_builder *builder,
                                struct warp_builder *warp, const struct ts_event *event,
                                uint32_t *node) {
  if (event->sync_kind == TS_SYNC_MBARRIER) {
    struct node_key key = {TS_SYNC_MBARRIER, 0, event->sync_object, event->sync_phase};
    TS_TRY(find_node(model, builder, key, TS_STALL_EMPTY, node));
    builder->nodes.data[*node].stall = TS_STALL_FULL;
  } else {
    bool is_bulk = event->sync_kind == TS_SYNC_BULK_GROUP;
    TS_TRY(find_group(model, builder, (enum ts_sync_kind)event->sync_kind, event->warp,
                      is_bulk ? warp->open_bulk_group : warp->open_cp_group, node));
  }
  builder->nodes.data[*node].expected++;
  return TS_OK;
}

static enum ts_status copy_event(struct ts_model_nv *model, struct block_builder *builder,
                                 struct warp_builder *warp, const struct ts_event *event,
                                 const struct ts_footprint *footprint, struct ts__op *op) {
  enum ts__copy_kind kind = copy_kind(event->op);
  bool is_store = kind == TS__COPY_TMA_STORE || kind == TS__COPY_BULK_STORE;
  struct ts__copy_op copy = {.access = UINT32_MAX,
                             .node = TS__NO_NODE,
                             .bytes = event->bytes,
                             .kind = (uint8_t)kind,
                             .is_multicast = event->op == TS_OP_tma_load_multicast ||
                                             event->op == TS_OP_bulk_load_multicast};
  TS_TRY(copy_node(model, builder, warp, event, &copy.node));
  if (footprint && footprint->space == TS_SPACE_GLOBAL && event->work > 0)
    TS_TRY(add_access(model, builder, event, footprint, is_store, false, true, &copy.access));
  op->kind = TS__OP_COPY;
  op->payload = (uint32_t)builder->copies.count;
  if (ts_vec_push(&builder->copies, model->ctx->allocator, copy)) return ts_fail_memory(model->ctx);
  return TS_OK;
}

static enum ts_status arrive_event(struct ts_model_nv *model, struct block_builder *builder,
                                   struct warp_builder *warp, const struct ts_event *event,
                                   struct ts__op *op) {
  op->kind = TS__OP_ARRIVE;
  op->payload = TS__NO_NODE;
  struct node_key key = {event->sync_kind, 0, event->sync_object, event->sync_phase};
  switch ((enum ts_sync_kind)event->sync_kind) {
  case TS_SYNC_CP_ASYNC_GROUP: warp->open_cp_group++; return TS_OK;
  case TS_SYNC_BULK_GROUP: warp->open_bulk_group++; return TS_OK;
  case TS_SYNC_WGMMA_GROUP: warp->open_wgmma_group++; return TS_OK;
  case TS_SYNC_BARRIER:
    TS_TRY(find_node(model, builder, key, TS_STALL_BARRIER, &op->payload));
    builder->nodes.data[op->payload].expected++;
    builder->nodes.data[op->payload].arriving_warps++;
    return TS_OK;
  case TS_SYNC_MBARRIER:
    TS_TRY(find_node(model, builder, key, TS_STALL_EMPTY, &op->payload));
    builder->nodes.data[op->payload].expected++;
    return TS_OK;
  default: return TS_OK; /* clusters: a fixed cost, docs/timing.md */
  }
}

/* Groups of wgmma are the warpgroup's. */
static uint16_t group_warp(const struct ts_event *event) {
  return event->sync_kind == TS_SYNC_WGMMA_GROUP ? (uint16_t)(event->warp & ~3u) : event->warp;
}

static enum ts_status wait_event(struct ts_model_nv *model, struct block_builder *builder,
                                 const struct ts_event *event, struct ts__op *op) {
  op->kind = TS__OP_WAIT;
  op->payload = TS__NO_NODE;
  op->aux = event->sync_kind;
  struct node_key key = {event->sync_kind, 0, event->sync_object, event->sync_phase};
  switch ((enum ts_sync_kind)event->sync_kind) {
  case TS_SYNC_BARRIER: return find_node(model, builder, key, TS_STALL_BARRIER, &op->payload);
  case TS_SYNC_MBARRIER:
    if (event->sync_phase == UINT32_MAX) return TS_OK; /* a fresh mbarrier: no phase */
    return find_node(model, builder, key, TS_STALL_EMPTY, &op->payload);
  case TS_SYNC_CP_ASYNC_GROUP:
  case TS_SYNC_BULK_GROUP:
  case TS_SYNC_WGMMA_GROUP:
    if (event->sync_object == UINT32_MAX) return TS_OK; /* no group is waited for */
    return find_group(model, builder, (enum ts_sync_kind)event->sync_kind, group_warp(event),
                      event->sync_object, &op->payload);
  default: return TS_OK;
  }
}

static bool is_wgmma(uint16_t op) {
  return op == TS_OP_wgmma_ss || op == TS_OP_wgmma_rs || op == TS_OP_wgmma_sp_ss ||
         op == TS_OP_wgmma_sp_rs;
}

static enum ts_status matrix_event(struct ts_model_nv *model, struct block_builder *builder,
                                   struct warp_builder *warp, const struct ts_event *event,
                                   struct ts__op *op) {
  builder->mac_count += event->work;
  if (is_wgmma(event->op)) {
    op->kind = TS__OP_WGMMA;
    TS_TRY(find_group(model, builder, TS_SYNC_WGMMA_GROUP, (uint16_t)(event->warp & ~3u),
                      warp->open_wgmma_group, &op->payload));
    builder->nodes.data[op->payload].expected++;
    return TS_OK;
  }
  op->kind = TS__OP_MMA;
  op->payload = event->work;
  if (event->op == TS_OP_tcgen05_mma_ss || event->op == TS_OP_tcgen05_mma_ts)
    op->kind = TS__OP_TCGEN05;
  return TS_OK;
}

static void count_flop(const struct ts_code *code, struct block_builder *builder,
                       const struct ts_event *event) {
  const struct ts_code_insn *insn = &code->insns[event->insn];
  double lanes = __builtin_popcount(event->mask) * insn->lanes;
  if (insn->op == TS_OP_fma)
    builder->flop += 2 * lanes;
  else if (insn->op == TS_OP_add || insn->op == TS_OP_sub || insn->op == TS_OP_mul ||
           insn->op == TS_OP_div)
    builder->flop += lanes;
}

static enum ts_status insn_event(const struct ts_code *code, struct block_builder *builder,
                                 const struct ts_event *event, struct ts__op *op) {
  op->kind = TS__OP_ALU;
  if (event->insn >= code->insn_count) return TS_OK;
  const struct ts_op_info *info = ts_op_info((enum ts_op)event->op);
  if (event->op == TS_OP_tmem_ld || event->op == TS_OP_tmem_st) {
    op->kind = TS__OP_TMEM;
    op->aux = narrow(event->bytes);
  } else if (event->op == TS_OP_shfl) {
    op->kind = TS__OP_SHUFFLE;
  } else if (info->unit == TS_UNIT_SYNC) {
    op->kind = TS__OP_FENCE;
  }
  count_flop(code, builder, event);
  return TS_OK;
}

static enum ts_status warp_event(struct ts_model_nv *model, struct block_builder *builder,
                                 const struct ts_code *code, const struct ts_event *event,
                                 const struct ts_footprint *footprint) {
  struct warp_builder *warp = &builder->warps[event->warp];
  struct ts__op op = {.kind = TS__OP_ALU};
  switch ((enum ts_event_kind)event->kind) {
  case TS_EVENT_INSN: TS_TRY(insn_event(code, builder, event, &op)); break;
  case TS_EVENT_MEMORY:
    if (!footprint) return TS_OK;
    TS_TRY(memory_event(model, builder, event, footprint, &op));
    break;
  case TS_EVENT_COPY: TS_TRY(copy_event(model, builder, warp, event, footprint, &op)); break;
  case TS_EVENT_ARRIVE: TS_TRY(arrive_event(model, builder, warp, event, &op)); break;
  case TS_EVENT_WAIT: TS_TRY(wait_event(model, builder, event, &op)); break;
  case TS_EVENT_MATRIX: TS_TRY(matrix_event(model, builder, warp, event, &op)); break;
  case TS_EVENT_BRANCH:
    op.kind = TS__OP_BRANCH;
    op.aux =
        event->insn < code->insn_count && (code->insns[event->insn].flags & TS_CODE_BACKEDGE) != 0;
    op.aux2 = narrow(event->work);
    break;
  case TS_EVENT_END:
    op.kind = TS__OP_END;
    warp->has_ended = true;
    break;
  default: return TS_OK; /* LANDED says nothing about time */
  }
  return push_op(model, code, warp, event, op);
}

/* --- closing a block */

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

/* Everything that makes the way through time, but not global addresses. */
static uint64_t builder_hash(const struct block_builder *builder) {
  uint64_t hash = builder->warp_count;
  for (uint32_t w = 0; w < builder->warp_count; w++) {
    const struct warp_builder *warp = &builder->warps[w];
    hash = mix(hash, warp->ops.count);
    for (size_t i = 0; i < warp->ops.count; i++) {
      const struct ts__op *op = &warp->ops.data[i];
      hash = mix(hash, (uint64_t)op->insn << 32 | op->payload);
      hash = mix(hash, (uint64_t)op->aux << 32 | (uint64_t)op->aux2 << 16 |
                           (uint64_t)op->kind << 8 | op->lanes);
    }
  }
  return mix(mix(mix(hash, builder->nodes.count), builder->accesses.count), builder->copies.count);
}

static bool same_ops(const struct ts__stream *stream, const struct block_builder *builder) {
  for (uint32_t w = 0; w < builder->warp_count; w++) {
    const struct warp_builder *warp = &builder->warps[w];
    if (stream->warps[w].count != warp->ops.count) return false;
    if (warp->ops.count && memcmp(stream->ops + stream->warps[w].first, warp->ops.data,
                                  warp->ops.count * sizeof *warp->ops.data) != 0)
      return false;
  }
  return true;
}

/* Lanes of cp.async that only fill have address 0 in every block. */
static bool lanes_shift(const struct ts__access *from, const struct ts_footprint *to,
                        int64_t *bytes) {
  bool is_known = false;
  for (uint32_t lane = 0; lane < TS__WARP_LANES; lane++) {
    uint64_t a = from->footprint.lanes[lane], b = to->lanes[lane];
    if (!(from->mask >> lane & 1) || (a == 0 && b == 0)) continue;
    if (a == 0 || b == 0 || (is_known && b - a != (uint64_t)*bytes)) return false;
    *bytes = (int64_t)(b - a);
    is_known = true;
  }
  return true;
}

/* The shift of one access against the stream's; false when they differ in more than that. */
static bool shift_of(const struct ts__access *from, const struct ts__access *to,
                     struct ts_shift *shift) {
  const struct ts_footprint *a = &from->footprint, *b = &to->footprint;
  *shift = (struct ts_shift){.insn = to->insn};
  if (from->insn != to->insn || from->mask != to->mask || from->bytes != to->bytes ||
      a->kind != b->kind || a->size_bytes != b->size_bytes || a->rank != b->rank)
    return false;
  switch ((enum ts_footprint_kind)a->kind) {
  case TS_FOOTPRINT_AFFINE:
    shift->bytes = (int64_t)(b->base - a->base);
    return a->lane_stride == b->lane_stride;
  case TS_FOOTPRINT_LANES: return lanes_shift(from, b, &shift->bytes);
  case TS_FOOTPRINT_BOX:
    for (uint32_t i = 0; i < a->rank; i++) {
      shift->coordinate[i] = b->coordinate[i] - a->coordinate[i];
      if (a->extent[i] != b->extent[i] || a->stride_bytes[i] != b->stride_bytes[i] ||
          a->tensor_extent[i] != b->tensor_extent[i])
        return false;
    }
    return a->base == b->base;
  }
  return false;
}

static bool same_shift(const struct ts_shift *a, const struct ts_shift *b) {
  return a->bytes == b->bytes && memcmp(a->coordinate, b->coordinate, sizeof a->coordinate) == 0;
}

static int compare_shifts(const void *a, const void *b) {
  const struct ts_shift *x = a, *y = b;
  return x->insn < y->insn ? -1 : x->insn > y->insn;
}

/* Finds the shifts that make the stream's accesses the builder's; NULL when there are none. */
static struct ts_shift *match_accesses(struct ts_model_nv *model, const struct ts__stream *stream,
                                       const struct block_builder *builder, uint32_t *count) {
  struct ts_shift *shifts =
      ts_new_array(&model->arena, struct ts_shift, builder->accesses.count + 1);
  *count = 0;
  if (!shifts) return NULL;
  for (size_t i = 0; i < builder->accesses.count; i++) {
    struct ts_shift shift;
    if (!shift_of(&stream->accesses[i], &builder->accesses.data[i], &shift)) return NULL;
    uint32_t k = 0;
    while (k < *count && shifts[k].insn != shift.insn)
      k++;
    if (k == *count)
      shifts[(*count)++] = shift;
    else if (!same_shift(&shifts[k], &shift))
      return NULL;
  }
  qsort(shifts, *count, sizeof *shifts, compare_shifts);
  return shifts;
}

static enum ts_status reuse_stream(struct ts_model_nv *model, struct ts__launch_record *record,
                                   const struct block_builder *builder, uint64_t hash,
                                   bool *is_reused) {
  *is_reused = false;
  for (uint32_t i = 0; i < record->streams.count && !*is_reused; i++) {
    const struct ts__stream *stream = &record->streams.data[i];
    if (stream->hash != hash || stream->warp_count != builder->warp_count ||
        stream->access_count != builder->accesses.count || !same_ops(stream, builder))
      continue;
    uint32_t count;
    struct ts_shift *shifts = match_accesses(model, stream, builder, &count);
    if (!shifts) continue;
    record->blocks[builder->block] = (struct ts__block_record){i, count, shifts};
    *is_reused = true;
  }
  return TS_OK;
}

static void *copy_array(struct ts_arena *arena, const void *data, size_t count, size_t size_bytes) {
  void *copy = ts_arena_alloc_array(arena, count ? count : 1, size_bytes, 16);
  if (copy && count) memcpy(copy, data, count * size_bytes);
  return copy;
}

static enum ts_status copy_ops(struct ts_model_nv *model, const struct block_builder *builder,
                               struct ts__stream *stream) {
  for (uint32_t w = 0; w < builder->warp_count; w++)
    stream->op_count += (uint32_t)builder->warps[w].ops.count;
  struct ts__op *ops = ts_new_array(&model->arena, struct ts__op, stream->op_count + 1);
  struct ts__warp_ops *warps =
      ts_new_array(&model->arena, struct ts__warp_ops, builder->warp_count);
  if (!ops || !warps) return ts_fail_memory(model->ctx);
  uint32_t at = 0;
  for (uint32_t w = 0; w < builder->warp_count; w++) {
    size_t count = builder->warps[w].ops.count;
    warps[w] = (struct ts__warp_ops){at, (uint32_t)count};
    if (count) memcpy(ops + at, builder->warps[w].ops.data, count * sizeof *ops);
    at += (uint32_t)count;
  }
  stream->ops = ops;
  stream->warps = warps;
  return TS_OK;
}

static enum ts_status copy_accesses(struct ts_model_nv *model, const struct block_builder *builder,
                                    struct ts__stream *stream) {
  struct ts__access *accesses =
      copy_array(&model->arena, builder->accesses.data, builder->accesses.count, sizeof *accesses);
  if (!accesses) return ts_fail_memory(model->ctx);
  for (size_t i = 0; i < builder->accesses.count; i++) {
    if (accesses[i].footprint.kind != TS_FOOTPRINT_LANES) continue;
    accesses[i].footprint.lanes =
        copy_array(&model->arena, accesses[i].footprint.lanes, TS__WARP_LANES, sizeof(uint64_t));
    if (!accesses[i].footprint.lanes) return ts_fail_memory(model->ctx);
  }
  stream->accesses = accesses;
  stream->access_count = (uint32_t)builder->accesses.count;
  return TS_OK;
}

static enum ts_status add_stream(struct ts_model_nv *model, struct ts__launch_record *record,
                                 const struct block_builder *builder, uint64_t hash) {
  struct ts__stream stream = {.hash = hash,
                              .warp_count = builder->warp_count,
                              .node_count = (uint32_t)builder->nodes.count,
                              .copy_count = (uint32_t)builder->copies.count,
                              .mac_count = builder->mac_count,
                              .flop = builder->flop + 2 * builder->mac_count};
  TS_TRY(copy_ops(model, builder, &stream));
  TS_TRY(copy_accesses(model, builder, &stream));
  stream.nodes =
      copy_array(&model->arena, builder->nodes.data, builder->nodes.count, sizeof *stream.nodes);
  stream.copies =
      copy_array(&model->arena, builder->copies.data, builder->copies.count, sizeof *stream.copies);
  if (!stream.nodes || !stream.copies) return ts_fail_memory(model->ctx);
  record->blocks[builder->block] =
      (struct ts__block_record){.stream = (uint32_t)record->streams.count};
  if (ts_vec_push(&record->streams, model->ctx->allocator, stream))
    return ts_fail_memory(model->ctx);
  return TS_OK;
}

static enum ts_status close_block(struct ts_model_nv *model, struct ts__launch_record *record,
                                  struct block_builder *builder) {
  struct ts__recorder *recorder = model->recorder;
  uint64_t hash = builder_hash(builder);
  bool is_reused;
  TS_TRY(reuse_stream(model, record, builder, hash, &is_reused));
  if (!is_reused) TS_TRY(add_stream(model, record, builder, hash));
  for (size_t i = 0; i < recorder->open.count; i++) {
    if (recorder->open.data[i] != builder) continue;
    recorder->open.data[i] = recorder->open.data[--recorder->open.count];
    break;
  }
  if (ts_vec_push(&recorder->spare, model->ctx->allocator, builder)) {
    builder_free(model->ctx->allocator, builder);
    return ts_fail_memory(model->ctx);
  }
  return TS_OK;
}

/* --- the sink */

static enum ts_status start_launch(struct ts_model_nv *model, uint16_t launch) {
  struct ts__launch_record *record = &model->launches[launch];
  const struct ts_trace_launch *facts = &model->program->launches[launch];
  uint64_t count = (uint64_t)facts->grid[0] * facts->grid[1] * facts->grid[2];
  if (count > UINT32_MAX / 2)
    return ts_fail(model->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "a launch of %llu blocks is more than the timing model takes",
                   (unsigned long long)count);
  record->launch = facts;
  record->function = &model->program->functions[facts->function];
  record->block_count = (uint32_t)count;
  record->blocks = ts_new_array(&model->arena, struct ts__block_record, count ? count : 1);
  if (!record->blocks) return ts_fail_memory(model->ctx);
  for (uint64_t i = 0; i < count; i++)
    record->blocks[i] = (struct ts__block_record){.stream = UINT32_MAX};
  return TS_OK;
}

static enum ts_status sink_emit(struct ts_sink *sink, struct ts_event *event,
                                const struct ts_footprint *footprint) {
  struct ts_model_nv *model = (struct ts_model_nv *)sink;
  struct ts__launch_record *record = &model->launches[event->launch];
  event->seq = record->event_count++;
  if (event->block == UINT32_MAX)
    return event->kind == TS_EVENT_LAUNCH ? start_launch(model, event->launch) : TS_OK;
  if (event->kind == TS_EVENT_BLOCK) return open_block(model, event->block, event->work);
  struct block_builder *builder = find_builder(model->recorder, event->block);
  if (!builder) return TS_OK;
  if (event->warp < builder->warp_count)
    return warp_event(model, builder, record->function->code, event, footprint);
  return event->kind == TS_EVENT_END ? close_block(model, record, builder) : TS_OK;
}

static enum ts_status sink_repeat(struct ts_sink *sink, uint16_t launch, uint32_t block,
                                  uint32_t like_block, const struct ts_shift *shifts,
                                  uint32_t shift_count) {
  struct ts_model_nv *model = (struct ts_model_nv *)sink;
  struct ts__launch_record *record = &model->launches[launch];
  struct ts_shift *copy = copy_array(&model->arena, shifts, shift_count, sizeof *copy);
  if (!copy) return ts_fail_memory(model->ctx);
  qsort(copy, shift_count, sizeof *copy, compare_shifts);
  record->blocks[block] =
      (struct ts__block_record){record->blocks[like_block].stream, shift_count, copy};
  return TS_OK;
}

enum ts_status ts__recorder_new(struct ts_model_nv *model) {
  model->sink = (struct ts_sink){.emit = sink_emit, .repeat = sink_repeat};
  model->recorder = ts_new(&model->arena, struct ts__recorder);
  model->launches =
      ts_new_array(&model->arena, struct ts__launch_record, model->program->launch_count + 1);
  if (!model->recorder || !model->launches) return ts_fail_memory(model->ctx);
  memset(model->recorder, 0, sizeof *model->recorder);
  memset(model->launches, 0, (model->program->launch_count + 1) * sizeof *model->launches);
  return TS_OK;
}

void ts__recorder_free(struct ts_model_nv *model) {
  const struct ts_allocator *allocator = model->ctx->allocator;
  if (!model->recorder) return;
  for (size_t i = 0; i < model->recorder->open.count; i++)
    builder_free(allocator, model->recorder->open.data[i]);
  for (size_t i = 0; i < model->recorder->spare.count; i++)
    builder_free(allocator, model->recorder->spare.data[i]);
  ts_vec_free(&model->recorder->open, allocator);
  ts_vec_free(&model->recorder->spare, allocator);
  for (uint32_t i = 0; model->launches && i < model->program->launch_count; i++)
    ts_vec_free(&model->launches[i].streams, allocator);
}
