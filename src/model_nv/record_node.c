/* What the warps of a block wait for, while its events are coming in. */
#include "model_nv/record_priv.h"

#include <string.h>

enum { NODE_TABLE_START = 64 };

/* --- nodes */

static uint32_t key_hash(const struct ts__node_key *key) {
  uint64_t h = (uint64_t)key->object << 32 | key->phase;
  h ^= (uint64_t)key->sync_kind << 56 | (uint64_t)key->role << 48 | (uint64_t)key->warp << 32;
  h *= 0x9E3779B97F4A7C15u;
  return (uint32_t)(h >> 32);
}

static bool key_equal(const struct ts__node_key *a, const struct ts__node_key *b) {
  return a->sync_kind == b->sync_kind && a->role == b->role && a->warp == b->warp &&
         a->object == b->object && a->phase == b->phase;
}

static enum ts_status grow_table(struct ts_model_nv *model, struct ts__block_builder *builder) {
  const struct ts_allocator *allocator = &model->recorder->allocator;
  uint32_t size = builder->table_size ? builder->table_size * 2 : NODE_TABLE_START;
  uint32_t *table = allocator->resize(allocator->user, NULL, 0, size * sizeof *table);
  if (!table) return ts__record_no_memory(model);
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

enum ts_status ts__find_node(struct ts_model_nv *model, struct ts__block_builder *builder,
                             struct ts__node_key key, enum ts_stall stall, uint32_t *node) {
  if (builder->keys.count * 2 >= builder->table_size) TS_TRY(grow_table(model, builder));
  uint32_t at = key_hash(&key) & (builder->table_size - 1);
  for (; builder->table[at]; at = (at + 1) & (builder->table_size - 1)) {
    *node = builder->table[at] - 1;
    if (key_equal(&builder->keys.data[*node], &key)) return TS_OK;
  }
  struct ts__node fresh = {
      .previous = TS__NO_NODE, .sync_kind = key.sync_kind, .stall = (uint8_t)stall};
  *node = (uint32_t)builder->nodes.count;
  if (ts_vec_push(&builder->nodes, &model->recorder->allocator, fresh) ||
      ts_vec_push(&builder->keys, &model->recorder->allocator, key))
    return ts__record_no_memory(model);
  builder->table[at] = *node + 1;
  return TS_OK;
}

enum ts_status ts__find_group(struct ts_model_nv *model, struct ts__block_builder *builder,
                              enum ts_sync_kind kind, uint16_t warp, uint32_t group,
                              uint32_t *node) {
  struct ts__node_key key = {.sync_kind = (uint8_t)kind, .warp = warp, .object = group};
  enum ts_stall stall = kind == TS_SYNC_WGMMA_GROUP ? TS_STALL_TENSOR : TS_STALL_COPY;
  size_t known = builder->nodes.count;
  TS_TRY(ts__find_node(model, builder, key, stall, node));
  if (builder->nodes.count == known || group == 0) return TS_OK;
  uint32_t previous;
  key.object = group - 1;
  TS_TRY(ts__find_node(model, builder, key, stall, &previous));
  builder->nodes.data[*node].previous = previous;
  return TS_OK;
}

/* --- clusters */

uint32_t ts__node_in_role(const struct ts__block_builder *builder, uint32_t node,
                          enum ts__node_role role) {
  struct ts__node_key key = builder->keys.data[node];
  key.role = (uint8_t)role;
  uint32_t at = key_hash(&key) & (builder->table_size - 1);
  for (; builder->table[at]; at = (at + 1) & (builder->table_size - 1))
    if (key_equal(&builder->keys.data[builder->table[at] - 1], &key)) return builder->table[at] - 1;
  return TS__NO_NODE;
}

/* The node that the op refers to, or NULL. */
static uint32_t *node_of(struct ts__block_builder *builder, struct ts__op *op) {
  switch ((enum ts__op_kind)op->kind) {
  case TS__OP_COPY: return &builder->copies.data[op->payload].node;
  case TS__OP_ARRIVE:
  case TS__OP_WAIT:
  case TS__OP_WGMMA: return op->payload == TS__NO_NODE ? NULL : &op->payload;
  default: return NULL;
  }
}

/* What becomes of each node of a block that has ended. */
struct settlement {
  uint32_t *target; /* the node that its contributions count for */
  uint32_t *number; /* its new number, or TS__NO_NODE */
  bool *is_waited;
  struct ts__node *nodes; /* by new number */
  uint32_t *olds;         /* their old numbers */
  struct ts__copy_op *copies;
  uint32_t node_count, copy_count;
};

/* What was sent stands for what was received when it is as much: then it comes at the right place in
 * the block's own way. */
static void settle_node(struct ts__block_builder *builder, uint32_t node, struct settlement *all) {
  struct ts__node *nodes = builder->nodes.data;
  uint32_t sent = ts__node_in_role(builder, node, TS__NODE_SENT);
  uint32_t received = ts__node_in_role(builder, node, TS__NODE_RECEIVED);
  if (received == TS__NO_NODE) return;
  bool stands = sent != TS__NO_NODE && nodes[sent].expected >= nodes[received].expected;
  nodes[node].expected += nodes[received].expected;
  if (nodes[received].stall == TS_STALL_FULL) nodes[node].stall = TS_STALL_FULL;
  all->target[stands ? sent : received] = node;
}

static void settle_nodes(struct ts__block_builder *builder, struct settlement *all) {
  for (uint32_t w = 0; w < builder->warp_count; w++)
    for (size_t i = 0; i < builder->warps[w].ops.count; i++) {
      const struct ts__op *op = &builder->warps[w].ops.data[i];
      if (op->kind == TS__OP_WAIT && op->payload != TS__NO_NODE) all->is_waited[op->payload] = true;
    }
  for (uint32_t i = 0; i < builder->nodes.count; i++) {
    struct ts__node *node = &builder->nodes.data[i];
    all->target[i] = i;
    all->number[i] = TS__NO_NODE;
    if (node->sync_kind == TS_SYNC_MBARRIER && !all->is_waited[i]) node->stall = TS_STALL_EMPTY;
  }
  for (uint32_t i = 0; i < builder->nodes.count; i++)
    if (all->is_waited[i] && builder->keys.data[i].sync_kind == TS_SYNC_MBARRIER)
      settle_node(builder, i, all);
  /* Peers may still contribute to what nobody waits for, some before the block's end, some after. */
  for (uint32_t i = 0; i < builder->nodes.count; i++)
    if (builder->keys.data[i].sync_kind == TS_SYNC_MBARRIER && !all->is_waited[i])
      builder->nodes.data[i].expected = 0;
}

static uint32_t renumber(struct ts__block_builder *builder, struct settlement *all, uint32_t node) {
  if (all->number[node] != TS__NO_NODE) return all->number[node];
  all->nodes[all->node_count] = builder->nodes.data[node];
  all->olds[all->node_count] = node;
  return all->number[node] = all->node_count++;
}

/* Takes out what stays received, and gives nodes and copies the numbers of their first use. */
static void settle_ops(struct ts__block_builder *builder, struct ts__warp_builder *warp,
                       struct settlement *all) {
  size_t kept = 0;
  for (size_t i = 0; i < warp->ops.count; i++) {
    struct ts__op op = warp->ops.data[i];
    uint32_t *node = node_of(builder, &op);
    if (node) {
      uint32_t target = all->target[*node];
      if (builder->keys.data[target].role == TS__NODE_RECEIVED) continue;
      *node = renumber(builder, all, target);
      if (op.kind == TS__OP_COPY) {
        all->copies[all->copy_count] = builder->copies.data[op.payload];
        op.payload = all->copy_count++;
      }
    }
    warp->ops.data[kept++] = op;
  }
  warp->ops.count = kept;
}

enum ts_status ts__settle_cluster(struct ts_model_nv *model, struct ts__block_builder *builder) {
  size_t count = builder->nodes.count;
  struct settlement all = {
      .target = ts_new_array(&builder->arena, uint32_t, count),
      .number = ts_new_array(&builder->arena, uint32_t, count),
      .is_waited = ts_new_array(&builder->arena, bool, count),
      .nodes = ts_new_array(&builder->arena, struct ts__node, count),
      .olds = ts_new_array(&builder->arena, uint32_t, count),
      .copies = ts_new_array(&builder->arena, struct ts__copy_op, builder->copies.count + 1)};
  if (!all.target || !all.number || !all.is_waited || !all.nodes || !all.olds || !all.copies)
    return ts__record_no_memory(model);
  settle_nodes(builder, &all);
  for (uint32_t w = 0; w < builder->warp_count; w++)
    settle_ops(builder, &builder->warps[w], &all);
  for (uint32_t i = 0; i < all.node_count; i++) { /* grows: groups refer to those before them */
    uint32_t previous = builder->nodes.data[all.olds[i]].previous;
    if (previous != TS__NO_NODE) all.nodes[i].previous = renumber(builder, &all, previous);
  }
  memcpy(builder->nodes.data, all.nodes, all.node_count * sizeof *all.nodes);
  if (all.copy_count) memcpy(builder->copies.data, all.copies, all.copy_count * sizeof *all.copies);
  builder->nodes.count = all.node_count;
  builder->copies.count = all.copy_count;
  return TS_OK;
}
