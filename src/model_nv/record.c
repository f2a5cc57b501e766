/* The recorder: a sink that turns events into streams.
 *
 * Events come in the order of some schedule; a stream keeps only each warp's own order, rearranged
 * inside basic blocks as the code table says the machine code is. What a warp waits for becomes a
 * node that knows how many contributions complete it, so no rule of a barrier is repeated here.
 * Events may come from a file: whatever indexes something here is checked first. */
#include "model_nv/record_priv.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD_LIMIT_BYTES (UINT64_C(1) << 30)
enum {
  THREAD_LIMIT = 4096,
  MESSAGE_BYTES = 256,
  NAMED_BARRIERS = 16, /* of a block. PTX ISA, bar */
  RANKS_PER_OP = 16    /* a file may have others */
};

/* --- memory and messages */

static void *limited_resize(void *user, void *old_block, size_t old_size_bytes,
                            size_t new_size_bytes) {
  struct ts__recorder *recorder = user;
  uint64_t others_bytes = recorder->held_bytes - old_size_bytes;
  if (!old_block && new_size_bytes == 0) return NULL;
  if (new_size_bytes > old_size_bytes && new_size_bytes > recorder->limit_bytes - others_bytes) {
    recorder->is_over_limit = true;
    return NULL;
  }
  void *block =
      recorder->source->resize(recorder->source->user, old_block, old_size_bytes, new_size_bytes);
  if (block || new_size_bytes == 0) recorder->held_bytes = others_bytes + new_size_bytes;
  return block;
}

enum ts_status ts__record_no_memory(struct ts_model_nv *model) {
  if (!model->recorder->is_over_limit) return ts_fail_memory(model->ctx);
  return ts_fail(model->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                 "the events of blocks that differ take more than the %llu KiB that the timing "
                 "model keeps",
                 (unsigned long long)(model->recorder->limit_bytes >> 10));
}

enum ts_status ts__bad_event(struct ts_model_nv *model, const struct ts_event *event,
                             const char *format, ...) {
  char text[MESSAGE_BYTES], agent[64] = "";
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (event->block != UINT32_MAX && event->warp != UINT16_MAX)
    snprintf(agent, sizeof agent, ", block %u, warp %u", event->block, event->warp);
  else if (event->block != UINT32_MAX)
    snprintf(agent, sizeof agent, ", block %u", event->block);
  return ts_fail(model->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_EVENTS, TS_NO_PLACE,
                 "event %llu of launch %u%s: %s", (unsigned long long)event->seq, event->launch,
                 agent, text);
}

/* --- builders */

static void builder_clear(struct ts__block_builder *builder) {
  for (uint32_t i = 0; i < builder->warp_count; i++) {
    struct ts__warp_builder *warp = &builder->warps[i];
    warp->ops.count = warp->segment.count = 0;
    warp->segment_block = warp->last_insn = UINT32_MAX;
    warp->open_cp_group = warp->open_bulk_group = warp->open_wgmma_group = 0;
    warp->has_ended = false;
  }
  builder->nodes.count = builder->keys.count = 0;
  builder->accesses.count = builder->copies.count = 0;
  builder->mac_count = builder->half_mac_count = builder->flop = 0;
  builder->has_sent = builder->has_received = false;
  if (builder->table) memset(builder->table, 0, builder->table_size * sizeof *builder->table);
  ts_arena_free(&builder->arena);
}

static void builder_free(const struct ts_allocator *allocator, struct ts__block_builder *builder) {
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

static struct ts__block_builder *builder_new(const struct ts_allocator *allocator,
                                             uint32_t warp_count) {
  struct ts__block_builder *builder = allocator->resize(allocator->user, NULL, 0, sizeof *builder);
  if (!builder) return NULL;
  *builder = (struct ts__block_builder){.warp_count = warp_count};
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

static enum ts_status open_block(struct ts_model_nv *model, uint16_t launch, uint32_t block,
                                 uint32_t warp_count) {
  struct ts__recorder *recorder = model->recorder;
  struct ts__block_builder *builder = NULL;
  for (size_t i = 0; i < recorder->spare.count && !builder; i++) {
    if (recorder->spare.data[i]->warp_count != warp_count) continue;
    builder = recorder->spare.data[i];
    recorder->spare.data[i] = recorder->spare.data[--recorder->spare.count];
  }
  if (!builder) builder = builder_new(&recorder->allocator, warp_count);
  if (!builder) return ts__record_no_memory(model);
  builder_clear(builder);
  builder->launch = launch;
  builder->block = block;
  if (ts_vec_push(&recorder->open, &recorder->allocator, builder)) {
    builder_free(&recorder->allocator, builder);
    return ts__record_no_memory(model);
  }
  model->launches[launch].blocks[block].shift_count = (uint32_t)recorder->open.count;
  return TS_OK;
}

/* The block's number is the launch's. */
static struct ts__block_builder *find_builder(const struct ts_model_nv *model, uint16_t launch,
                                              uint32_t block) {
  const struct ts__block_record *record = &model->launches[launch].blocks[block];
  if (record->stream != UINT32_MAX || record->shift_count == 0) return NULL;
  return model->recorder->open.data[record->shift_count - 1];
}

static enum ts_status close_block(struct ts_model_nv *model, struct ts__launch_record *record,
                                  const struct ts_event *event, struct ts__block_builder *builder) {
  struct ts__recorder *recorder = model->recorder;
  for (uint32_t w = 0; w < builder->warp_count; w++)
    if (!builder->warps[w].has_ended)
      return ts__bad_event(model, event, "the block ends before its warp %u has ended", w);
  if (builder->has_sent || builder->has_received) TS_TRY(ts__settle_cluster(model, builder));
  uint32_t place = record->blocks[builder->block].shift_count - 1;
  TS_TRY(ts__record_stream(model, record, builder));
  struct ts__block_builder *last = recorder->open.data[--recorder->open.count];
  if (last != builder) {
    recorder->open.data[place] = last;
    model->launches[last->launch].blocks[last->block].shift_count = place + 1;
  }
  if (ts_vec_push(&recorder->spare, &recorder->allocator, builder)) {
    builder_free(&recorder->allocator, builder);
    return ts__record_no_memory(model);
  }
  return TS_OK;
}

/* --- ops */

static int compare_pending(const void *a, const void *b) {
  const struct ts__pending_op *x = a, *y = b;
  if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
  return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Ranks are places in an order of issue: the ops with each one are counted, and so each knows its
 * place. */
static enum ts_status place_by_rank(struct ts_model_nv *model, const struct ts__pending_op *segment,
                                    size_t count, uint32_t last_rank, struct ts__op *ops) {
  struct ts__recorder *recorder = model->recorder;
  recorder->places.count = 0;
  if (ts_vec_reserve(&recorder->places, &recorder->allocator, (size_t)last_rank + 2))
    return ts__record_no_memory(model);
  uint32_t *places = recorder->places.data;
  memset(places, 0, ((size_t)last_rank + 2) * sizeof *places);
  for (size_t i = 0; i < count; i++)
    places[segment[i].rank + 1]++;
  for (uint32_t rank = 0; rank < last_rank; rank++)
    places[rank + 1] += places[rank];
  for (size_t i = 0; i < count; i++)
    ops[places[segment[i].rank]++] = segment[i].op;
  return TS_OK;
}

static enum ts_status flush_segment(struct ts_model_nv *model, struct ts__warp_builder *warp) {
  struct ts__pending_op *segment = warp->segment.data;
  size_t count = warp->segment.count;
  uint32_t last_rank = 0;
  bool is_sorted = true;
  if (count == 0) return TS_OK;
  if (ts_vec_reserve(&warp->ops, &model->recorder->allocator, count))
    return ts__record_no_memory(model);
  struct ts__op *ops = warp->ops.data + warp->ops.count;
  for (size_t i = 0; i < count; i++) {
    if (segment[i].rank < last_rank)
      is_sorted = false;
    else
      last_rank = segment[i].rank;
  }
  warp->ops.count += count;
  warp->segment.count = 0;
  if (!is_sorted && last_rank / RANKS_PER_OP < count)
    return place_by_rank(model, segment, count, last_rank, ops);
  if (!is_sorted) qsort(segment, count, sizeof *segment, compare_pending);
  for (size_t i = 0; i < count; i++)
    ops[i] = segment[i].op;
  return TS_OK;
}

static enum ts_status push_op(struct ts_model_nv *model, const struct ts_code *code,
                              struct ts__warp_builder *warp, const struct ts_event *event,
                              struct ts__op op) {
  bool has_insn = event->insn < code->insn_count;
  uint32_t block = has_insn ? code->insns[event->insn].block : UINT32_MAX;
  if (block != warp->segment_block || event->insn < warp->last_insn)
    TS_TRY(flush_segment(model, warp));
  warp->segment_block = block;
  warp->last_insn = event->insn;
  op.insn = event->insn;
  op.lanes = (uint8_t)__builtin_popcount(event->mask);
  struct ts__pending_op pending = {op, has_insn ? code->insns[event->insn].rank : 0,
                                   (uint32_t)warp->segment.count};
  if (ts_vec_push(&warp->segment, &model->recorder->allocator, pending))
    return ts__record_no_memory(model);
  return op.kind == TS__OP_END ? flush_segment(model, warp) : TS_OK;
}

/* --- events */

static enum ts_status add_access(struct ts_model_nv *model, struct ts__block_builder *builder,
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
    if (!lanes) return ts__record_no_memory(model);
    memcpy(lanes, footprint->lanes, TS__WARP_LANES * sizeof *lanes);
    access.footprint.lanes = lanes;
  }
  *index = (uint32_t)builder->accesses.count;
  if (ts_vec_push(&builder->accesses, &model->recorder->allocator, access))
    return ts__record_no_memory(model);
  return TS_OK;
}

static bool is_matrix_move(uint16_t op) { return op == TS_OP_ldmatrix || op == TS_OP_stmatrix; }

static bool is_atomic_op(uint16_t op) {
  return op == TS_OP_atom_global || op == TS_OP_atom_global_ret || op == TS_OP_atom_shared ||
         op == TS_OP_atom_shared_ret;
}

static uint16_t narrow(uint32_t value) { return value < UINT16_MAX ? (uint16_t)value : UINT16_MAX; }

static enum ts_status memory_event(struct ts_model_nv *model, struct ts__block_builder *builder,
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

/* --- mbarriers, the block's own and its peers' */

/* A peer has contributed. It becomes an op of a warp that has not ended, at this place in the order
 * of events: behind all that it depends on and before all that waits for it. */
static enum ts_status receive(struct ts_model_nv *model, const struct ts_code *code,
                              const struct ts_event *event, struct ts__op op,
                              struct ts__copy_op copy) {
  struct ts__block_builder *builder = find_builder(model, event->launch, ts_event_target(event));
  if (!builder) return TS_OK; /* it has ended: nobody waits */
  uint32_t w = event->warp, tries = 0;
  for (; tries < builder->warp_count && builder->warps[w].has_ended; tries++)
    w = (w + 1) % builder->warp_count;
  if (tries == builder->warp_count) return TS_OK;
  struct ts__node_key key = {.sync_kind = TS_SYNC_MBARRIER,
                             .role = TS__NODE_RECEIVED,
                             .object = event->sync_object,
                             .phase = event->sync_phase};
  enum ts_stall stall = op.kind == TS__OP_COPY ? TS_STALL_FULL : TS_STALL_EMPTY;
  TS_TRY(ts__find_node(model, builder, key, stall, &op.payload));
  builder->nodes.data[op.payload].expected++;
  builder->has_received = true;
  op.aux2 = 1;
  if (op.kind == TS__OP_COPY) {
    copy.node = op.payload;
    copy.access = UINT32_MAX;
    copy.is_passive = true;
    op.payload = (uint32_t)builder->copies.count;
    if (ts_vec_push(&builder->copies, &model->recorder->allocator, copy))
      return ts__record_no_memory(model);
  }
  struct ts_event place = {.insn = UINT32_MAX};
  return push_op(model, code, &builder->warps[w], &place, op);
}

/* The node of an mbarrier's phase to which the event contributes. */
static enum ts_status mbarrier_node(struct ts_model_nv *model, struct ts__block_builder *builder,
                                    const struct ts_event *event, enum ts_stall stall,
                                    uint32_t *node) {
  bool is_sent = ts_event_target(event) != builder->block;
  struct ts__node_key key = {.sync_kind = TS_SYNC_MBARRIER,
                             .role = is_sent ? TS__NODE_SENT : TS__NODE_OWN,
                             .object = event->sync_object,
                             .phase = event->sync_phase};
  TS_TRY(ts__find_node(model, builder, key, stall, node));
  builder->nodes.data[*node].expected++;
  builder->has_sent |= is_sent;
  return TS_OK;
}

/* --- copies, arrivals, waits */

/* The node that a copy completes: an mbarrier's phase, or the warp's open group. */
static enum ts_status copy_node(struct ts_model_nv *model, struct ts__block_builder *builder,
                                struct ts__warp_builder *warp, const struct ts_event *event,
                                uint32_t *node) {
  if (event->sync_kind == TS_SYNC_MBARRIER) {
    TS_TRY(mbarrier_node(model, builder, event, TS_STALL_FULL, node));
    builder->nodes.data[*node].stall = TS_STALL_FULL;
    return TS_OK;
  }
  bool is_bulk = event->sync_kind == TS_SYNC_BULK_GROUP;
  TS_TRY(ts__find_group(model, builder, is_bulk ? TS_SYNC_BULK_GROUP : TS_SYNC_CP_ASYNC_GROUP,
                        event->warp, is_bulk ? warp->open_bulk_group : warp->open_cp_group, node));
  builder->nodes.data[*node].expected++;
  return TS_OK;
}

static enum ts_status copy_event(struct ts_model_nv *model, const struct ts_code *code,
                                 struct ts__block_builder *builder, struct ts__warp_builder *warp,
                                 const struct ts_event *event, const struct ts_footprint *footprint,
                                 struct ts__op *op) {
  enum ts__copy_kind kind = copy_kind(event->op);
  bool is_store = kind == TS__COPY_TMA_STORE || kind == TS__COPY_BULK_STORE;
  struct ts__copy_op copy = {.access = UINT32_MAX,
                             .node = TS__NO_NODE,
                             .bytes = event->bytes,
                             .kind = (uint8_t)kind,
                             .is_multicast = event->op == TS_OP_tma_load_multicast ||
                                             event->op == TS_OP_bulk_load_multicast};
  copy.is_passive = copy.is_multicast && event->work == 0;
  TS_TRY(copy_node(model, builder, warp, event, &copy.node));
  if (footprint && footprint->space == TS_SPACE_GLOBAL && event->work > 0)
    TS_TRY(add_access(model, builder, event, footprint, is_store, false, true, &copy.access));
  op->kind = TS__OP_COPY;
  op->payload = (uint32_t)builder->copies.count;
  if (ts_vec_push(&builder->copies, &model->recorder->allocator, copy))
    return ts__record_no_memory(model);
  if (event->sync_kind != TS_SYNC_MBARRIER || ts_event_target(event) == builder->block)
    return TS_OK;
  return receive(model, code, event, *op, copy);
}

/* Groups of wgmma are the warpgroup's. */
static uint16_t group_warp(const struct ts_event *event) {
  return event->sync_kind == TS_SYNC_WGMMA_GROUP ? (uint16_t)(event->warp & ~3u) : event->warp;
}

/* The number of the warp's open group, which is how many it has closed. */
static uint32_t *open_group(struct ts__warp_builder *warp, enum ts_sync_kind kind) {
  return kind == TS_SYNC_CP_ASYNC_GROUP ? &warp->open_cp_group
         : kind == TS_SYNC_BULK_GROUP   ? &warp->open_bulk_group
                                        : &warp->open_wgmma_group;
}

static enum ts_status close_group(struct ts_model_nv *model, struct ts__block_builder *builder,
                                  struct ts__warp_builder *warp, const struct ts_event *event) {
  enum ts_sync_kind kind = (enum ts_sync_kind)event->sync_kind;
  uint32_t *open = open_group(warp, kind), node;
  TS_TRY(ts__find_group(model, builder, kind, group_warp(event), *open, &node));
  ++*open;
  return TS_OK;
}

static enum ts_status find_barrier(struct ts_model_nv *model, struct ts__block_builder *builder,
                                   const struct ts_event *event, uint32_t *node) {
  struct ts__launch_record *record = &model->launches[event->launch];
  struct ts__node_key key = {
      .sync_kind = TS_SYNC_BARRIER, .object = event->sync_object, .phase = event->sync_phase};
  if (event->sync_object >= NAMED_BARRIERS)
    return ts__bad_event(model, event, "barrier %u, but a block has %d", event->sync_object,
                         NAMED_BARRIERS);
  if (event->sync_object >= record->barrier_count) record->barrier_count = event->sync_object + 1;
  return ts__find_node(model, builder, key, TS_STALL_BARRIER, node);
}

static enum ts_status arrive_event(struct ts_model_nv *model, const struct ts_code *code,
                                   struct ts__block_builder *builder, struct ts__warp_builder *warp,
                                   const struct ts_event *event, struct ts__op *op) {
  op->kind = TS__OP_ARRIVE;
  op->payload = TS__NO_NODE;
  switch ((enum ts_sync_kind)event->sync_kind) {
  case TS_SYNC_CP_ASYNC_GROUP:
  case TS_SYNC_BULK_GROUP:
  case TS_SYNC_WGMMA_GROUP: return close_group(model, builder, warp, event);
  case TS_SYNC_BARRIER:
    TS_TRY(find_barrier(model, builder, event, &op->payload));
    builder->nodes.data[op->payload].expected++;
    builder->nodes.data[op->payload].arriving_warps++;
    return TS_OK;
  case TS_SYNC_MBARRIER:
    TS_TRY(mbarrier_node(model, builder, event, TS_STALL_EMPTY, &op->payload));
    if (ts_event_target(event) == builder->block) return TS_OK;
    op->aux = 1;
    return receive(model, code, event, *op, (struct ts__copy_op){0});
  default: return TS_OK; /* clusters: a fixed cost, docs/timing.md */
  }
}

static enum ts_status group_wait(struct ts_model_nv *model, struct ts__block_builder *builder,
                                 const struct ts_event *event, struct ts__op *op) {
  enum ts_sync_kind kind = (enum ts_sync_kind)event->sync_kind;
  uint32_t closed = *open_group(&builder->warps[event->warp], kind);
  if (event->sync_object == UINT32_MAX) return TS_OK; /* no group is waited for */
  if (event->sync_object >= closed)
    return ts__bad_event(model, event, "a wait for %s %u, but the warp has closed %u",
                         ts_sync_kind_name(kind), event->sync_object, closed);
  op->aux2 = kind == TS_SYNC_BULK_GROUP && event->src_space == TS_SPACE_SHARED;
  return ts__find_group(model, builder, kind, group_warp(event), event->sync_object, &op->payload);
}

/* What completes a phase is told before the waits for it. */
static enum ts_status check_phase(struct ts_model_nv *model,
                                  const struct ts__block_builder *builder,
                                  const struct ts_event *event, uint32_t node) {
  if (builder->nodes.data[node].expected > 0 ||
      ts__node_in_role(builder, node, TS__NODE_RECEIVED) != TS__NO_NODE)
    return TS_OK;
  return ts__bad_event(model, event, "a wait for phase %u of %s %u, for which nobody has arrived",
                       event->sync_phase, ts_sync_kind_name((enum ts_sync_kind)event->sync_kind),
                       event->sync_object);
}

static enum ts_status wait_event(struct ts_model_nv *model, struct ts__block_builder *builder,
                                 const struct ts_event *event, struct ts__op *op) {
  op->kind = TS__OP_WAIT;
  op->payload = TS__NO_NODE;
  op->aux = event->sync_kind;
  struct ts__node_key key = {
      .sync_kind = TS_SYNC_MBARRIER, .object = event->sync_object, .phase = event->sync_phase};
  switch ((enum ts_sync_kind)event->sync_kind) {
  case TS_SYNC_BARRIER:
    TS_TRY(find_barrier(model, builder, event, &op->payload));
    return check_phase(model, builder, event, op->payload);
  case TS_SYNC_MBARRIER:
    if (event->sync_phase == UINT32_MAX) return TS_OK; /* a fresh mbarrier: no phase */
    TS_TRY(ts__find_node(model, builder, key, TS_STALL_EMPTY, &op->payload));
    return check_phase(model, builder, event, op->payload);
  case TS_SYNC_CP_ASYNC_GROUP:
  case TS_SYNC_BULK_GROUP:
  case TS_SYNC_WGMMA_GROUP: return group_wait(model, builder, event, op);
  default: return TS_OK;
  }
}

static enum ts_status matrix_event(struct ts_model_nv *model, struct ts__block_builder *builder,
                                   const struct ts_code *code, struct ts__warp_builder *warp,
                                   const struct ts_event *event, struct ts__op *op) {
  builder->mac_count += event->work;
  builder->half_mac_count += event->work / ts__matrix_rate(&code->insns[event->insn]);
  if (ts_op_is_wgmma(event->op)) {
    op->kind = TS__OP_WGMMA;
    TS_TRY(ts__find_group(model, builder, TS_SYNC_WGMMA_GROUP, (uint16_t)(event->warp & ~3u),
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

static void count_flop(const struct ts_code *code, struct ts__block_builder *builder,
                       const struct ts_event *event) {
  const struct ts_code_insn *insn = &code->insns[event->insn];
  double lanes = __builtin_popcount(event->mask) * insn->lanes;
  if (insn->op == TS_OP_fma)
    builder->flop += 2 * lanes;
  else if (insn->op == TS_OP_add || insn->op == TS_OP_sub || insn->op == TS_OP_mul ||
           insn->op == TS_OP_div)
    builder->flop += lanes;
}

static enum ts_status insn_event(const struct ts_code *code, struct ts__block_builder *builder,
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

static enum ts_status warp_event(struct ts_model_nv *model, struct ts__block_builder *builder,
                                 const struct ts_code *code, const struct ts_event *event,
                                 const struct ts_footprint *footprint) {
  struct ts__warp_builder *warp = &builder->warps[event->warp];
  struct ts__op op = {.kind = TS__OP_ALU};
  switch ((enum ts_event_kind)event->kind) {
  case TS_EVENT_INSN: TS_TRY(insn_event(code, builder, event, &op)); break;
  case TS_EVENT_MEMORY:
    if (!footprint) return TS_OK;
    TS_TRY(memory_event(model, builder, event, footprint, &op));
    break;
  case TS_EVENT_COPY: TS_TRY(copy_event(model, code, builder, warp, event, footprint, &op)); break;
  case TS_EVENT_ARRIVE: TS_TRY(arrive_event(model, code, builder, warp, event, &op)); break;
  case TS_EVENT_WAIT: TS_TRY(wait_event(model, builder, event, &op)); break;
  case TS_EVENT_MATRIX: TS_TRY(matrix_event(model, builder, code, warp, event, &op)); break;
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

/* --- the sink */

static uint64_t volume(const uint32_t size[3]) {
  uint64_t plane = (uint64_t)size[0] * size[1];
  return size[2] && plane > UINT64_MAX / size[2] ? UINT64_MAX : plane * size[2];
}

static enum ts_status start_launch(struct ts_model_nv *model, const struct ts_event *event) {
  struct ts__launch_record *record = &model->launches[event->launch];
  const struct ts_trace_launch *facts = &model->program->launches[event->launch];
  uint64_t count = volume(facts->grid), threads = volume(facts->block);
  if (record->launch) return ts__bad_event(model, event, "the launch begins a second time");
  if (count > UINT32_MAX / 2)
    return ts_fail(model->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "a launch of %llu blocks is more than the timing model takes",
                   (unsigned long long)count);
  if (threads > THREAD_LIMIT)
    return ts_fail(model->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "a block of %llu threads is more than the timing model takes",
                   (unsigned long long)threads);
  record->blocks =
      ts_new_array(&model->recorder->arena, struct ts__block_record, count ? count : 1);
  if (!record->blocks) return ts__record_no_memory(model);
  for (uint64_t i = 0; i < count; i++)
    record->blocks[i] = (struct ts__block_record){.stream = UINT32_MAX};
  record->launch = facts;
  record->function = &model->program->functions[facts->function];
  record->block_count = (uint32_t)count;
  return TS_OK;
}

static enum ts_status start_block(struct ts_model_nv *model, const struct ts__launch_record *record,
                                  const struct ts_event *event) {
  uint64_t warps = (volume(record->launch->block) + TS__WARP_LANES - 1) / TS__WARP_LANES;
  if (event->work == 0 || event->work != warps)
    return ts__bad_event(model, event, "the block has %u warps, but those of the launch have %llu",
                         event->work, (unsigned long long)warps);
  if (record->blocks[event->block].stream != UINT32_MAX ||
      find_builder(model, event->launch, event->block))
    return ts__bad_event(model, event, "the block begins a second time");
  return open_block(model, event->launch, event->block, event->work);
}

/* Whether two blocks of the launch are in one cluster. */
static bool are_peers(const struct ts_trace_launch *launch, uint32_t a, uint32_t b) {
  for (int i = 0; i < 3; i++) {
    uint32_t size = launch->cluster[i] ? launch->cluster[i] : 1;
    if (a % launch->grid[i] / size != b % launch->grid[i] / size) return false;
    a /= launch->grid[i];
    b /= launch->grid[i];
  }
  return true;
}

/* The event's block, and the one that it acts on, are there. */
static enum ts_status check_block(struct ts_model_nv *model, const struct ts__launch_record *record,
                                  const struct ts_event *event) {
  if (!record->launch) return ts__bad_event(model, event, "its launch has not begun");
  if (event->block >= record->block_count)
    return ts__bad_event(model, event, "the launch has %u blocks", record->block_count);
  if (event->kind == TS_EVENT_LANDED || event->cause == 0) return TS_OK;
  if (event->cause > record->block_count ||
      !are_peers(record->launch, event->block, ts_event_target(event)))
    return ts__bad_event(model, event, "it acts on block %llu, which is not of the same cluster",
                         (unsigned long long)(event->cause - 1));
  return TS_OK;
}

/* The event's instruction is the code's. Only matrix events cannot do without one. */
static enum ts_status check_insn(struct ts_model_nv *model, const struct ts_code *code,
                                 const struct ts_event *event) {
  bool is_needed = event->kind == TS_EVENT_MATRIX;
  if (event->insn == UINT32_MAX && !is_needed) return TS_OK;
  if (event->insn >= code->insn_count)
    return ts__bad_event(model, event, "instruction %u of a function of %u", event->insn,
                         code->insn_count);
  uint16_t op = code->insns[event->insn].op;
  if (event->op == op) return TS_OK;
  return ts__bad_event(model, event, "instruction %u is %s, but the event is of %s", event->insn,
                       ts_op_info((enum ts_op)op)->mnemonic,
                       event->op == UINT16_MAX ? "none"
                                               : ts_op_info((enum ts_op)event->op)->mnemonic);
}

static enum ts_status block_event(struct ts_model_nv *model, struct ts__launch_record *record,
                                  const struct ts_event *event,
                                  const struct ts_footprint *footprint) {
  const char *what = ts_event_kind_name((enum ts_event_kind)event->kind);
  TS_TRY(check_block(model, record, event));
  if (event->kind == TS_EVENT_BLOCK) return start_block(model, record, event);
  if (event->kind == TS_EVENT_LANDED) return TS_OK; /* says nothing about time */
  struct ts__block_builder *builder = find_builder(model, event->launch, event->block);
  if (!builder)
    return ts__bad_event(model, event, "\"%s\", but the block has %s", what,
                         record->blocks[event->block].stream == UINT32_MAX ? "not begun" : "ended");
  if (event->warp == UINT16_MAX)
    return event->kind == TS_EVENT_END ? close_block(model, record, event, builder) : TS_OK;
  if (event->warp >= builder->warp_count)
    return ts__bad_event(model, event, "the block has %u warps", builder->warp_count);
  if (builder->warps[event->warp].has_ended)
    return ts__bad_event(model, event, "\"%s\", but the warp has ended", what);
  TS_TRY(check_insn(model, record->function->code, event));
  return warp_event(model, builder, record->function->code, event, footprint);
}

static enum ts_status sink_emit(struct ts_sink *sink, struct ts_event *event,
                                const struct ts_footprint *footprint) {
  struct ts_model_nv *model = (struct ts_model_nv *)sink;
  if (event->launch >= model->program->launch_count)
    return ts__bad_event(model, event, "the program has %u launches", model->program->launch_count);
  struct ts__launch_record *record = &model->launches[event->launch];
  event->seq = record->event_count++;
  if (event->block != UINT32_MAX) return block_event(model, record, event, footprint);
  return event->kind == TS_EVENT_LAUNCH ? start_launch(model, event) : TS_OK;
}

static enum ts_status sink_repeat(struct ts_sink *sink, uint16_t launch, uint32_t block,
                                  uint32_t like_block, const struct ts_shift *shifts,
                                  uint32_t shift_count) {
  struct ts_model_nv *model = (struct ts_model_nv *)sink;
  struct ts_event place = {.launch = launch, .block = block, .warp = UINT16_MAX};
  if (launch >= model->program->launch_count)
    return ts__bad_event(model, &place, "the program has %u launches",
                         model->program->launch_count);
  struct ts__launch_record *record = &model->launches[launch];
  TS_TRY(check_block(model, record, &place));
  if (like_block >= record->block_count || record->blocks[like_block].stream == UINT32_MAX)
    return ts__bad_event(model, &place, "it repeats block %u, which has not ended", like_block);
  if (record->blocks[block].stream != UINT32_MAX || find_builder(model, launch, block))
    return ts__bad_event(model, &place, "the block begins a second time");
  struct ts_shift *copy =
      ts_new_array(&model->recorder->arena, struct ts_shift, (size_t)shift_count + 1);
  if (!copy) return ts__record_no_memory(model);
  if (shift_count) memcpy(copy, shifts, shift_count * sizeof *copy);
  qsort(copy, shift_count, sizeof *copy, ts__compare_shifts);
  record->blocks[block] =
      (struct ts__block_record){record->blocks[like_block].stream, shift_count, copy};
  return TS_OK;
}

enum ts_status ts__recorder_new(struct ts_model_nv *model) {
  struct ts__recorder *recorder = ts_new(&model->arena, struct ts__recorder);
  model->sink = (struct ts_sink){.emit = sink_emit, .repeat = sink_repeat};
  model->launches =
      ts_new_array(&model->arena, struct ts__launch_record, model->program->launch_count + 1);
  if (!recorder || !model->launches) return ts_fail_memory(model->ctx);
  recorder->allocator = (struct ts_allocator){limited_resize, recorder};
  recorder->source = model->ctx->allocator;
  recorder->limit_bytes = model->options.record_limit_bytes;
  if (recorder->limit_bytes == 0) recorder->limit_bytes = RECORD_LIMIT_BYTES;
  ts_arena_init(&recorder->arena, &recorder->allocator);
  model->recorder = recorder;
  return TS_OK;
}

void ts__recorder_free(struct ts_model_nv *model) {
  struct ts__recorder *recorder = model->recorder;
  if (!recorder) return;
  for (size_t i = 0; i < recorder->open.count; i++)
    builder_free(&recorder->allocator, recorder->open.data[i]);
  for (size_t i = 0; i < recorder->spare.count; i++)
    builder_free(&recorder->allocator, recorder->spare.data[i]);
  ts_vec_free(&recorder->open, &recorder->allocator);
  ts_vec_free(&recorder->spare, &recorder->allocator);
  ts_vec_free(&recorder->shifts, &recorder->allocator);
  ts_vec_free(&recorder->places, &recorder->allocator);
  for (uint32_t i = 0; i < model->program->launch_count; i++)
    ts_vec_free(&model->launches[i].streams, &recorder->allocator);
  ts_arena_free(&recorder->arena);
}
