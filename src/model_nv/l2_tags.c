/* The lines that a cache keeps, by number, and in the order of their use. */
#include "model_nv/l2_priv.h"

/* Quantiles of the normal distribution at (2 i + 1) / 32. */
static const double quantiles[TS__L2_GROUP_COUNT] = {-1.863, -1.318, -1.010, -0.776, -0.579, -0.402,
                                                     -0.237, -0.078, 0.078,  0.237,  0.402,  0.579,
                                                     0.776,  1.010,  1.318,  1.863};

/* On the borders of the host's cache lines, two nodes each. */
static enum ts_status make_nodes(struct ts_ctx *ctx, uint32_t node_count,
                                 struct ts__l2_tags *tags) {
  enum { ALIGN_BYTES = 64 };
  tags->memory_bytes = node_count * sizeof *tags->nodes + ALIGN_BYTES;
  tags->memory = ctx->allocator->resize(ctx->allocator->user, NULL, 0, tags->memory_bytes);
  if (!tags->memory) return ts_fail_memory(ctx);
  tags->nodes = (void *)((char *)tags->memory + (-(uintptr_t)tags->memory & (ALIGN_BYTES - 1)));
  for (uint32_t i = 0; i < TS__L2_GROUP_COUNT; i++)
    tags->nodes[i] = (struct ts__l2_node){.newer = i, .older = i};
  return TS_OK;
}

enum ts_status ts__tags_make(struct ts_ctx *ctx, const struct ts__l2_settings *settings,
                             uint64_t capacity_bytes, struct ts_arena *arena,
                             struct ts__l2_tags *tags) {
  double spread = settings->capacity_spread;
  double line_count = (double)(capacity_bytes / TS__LINE_BYTES >> settings->sample_shift);
  uint32_t node_count = TS__L2_GROUP_COUNT, bucket_count = 64;
  if (line_count > INT32_MAX / 2) line_count = INT32_MAX / 2;
  tags->group_count = spread > 0 ? TS__L2_GROUP_COUNT : 1;
  for (uint32_t i = 0; i < tags->group_count; i++) {
    double share = line_count / tags->group_count * (spread > 0 ? 1 + spread * quantiles[i] : 1);
    tags->room[i] = share > 0 ? (uint32_t)(share + 0.5) : 0;
    node_count += tags->room[i];
  }
  while (bucket_count < node_count)
    bucket_count *= 2;
  tags->bucket_mask = bucket_count - 1;
  tags->next_node = TS__L2_GROUP_COUNT;
  tags->buckets = ts_arena_alloc_array(arena, bucket_count, sizeof *tags->buckets, 64);
  return tags->buckets ? make_nodes(ctx, node_count, tags) : ts_fail_memory(ctx);
}

void ts__tags_free(struct ts_ctx *ctx, struct ts__l2_tags *tags) {
  if (tags->memory)
    ctx->allocator->resize(ctx->allocator->user, tags->memory, tags->memory_bytes, 0);
}

/* Multiples of the golden ratio spread any even row of lines evenly. */
static uint32_t group_of(const struct ts__l2_tags *tags, uint64_t number) {
  return tags->group_count == 1 ? 0 : (uint32_t)(number * ts__golden >> 60);
}

struct ts__l2_node *ts__tags_find(const struct ts__l2_tags *tags, uint64_t number) {
  for (uint32_t i = *ts__tags_bucket(tags, number); i; i = tags->nodes[i].chain)
    if (tags->nodes[i].entry >> TS__L2_NUMBER_SHIFT == number) return &tags->nodes[i];
  return NULL;
}

static void take_out(struct ts__l2_node *nodes, const struct ts__l2_node *node) {
  nodes[node->newer].older = node->older;
  nodes[node->older].newer = node->newer;
}

static void put_first(struct ts__l2_node *nodes, uint32_t group, struct ts__l2_node *node) {
  node->newer = group;
  node->older = nodes[group].older;
  nodes[node->older].newer = (uint32_t)(node - nodes);
  nodes[group].older = (uint32_t)(node - nodes);
}

void ts__tags_use(struct ts__l2_tags *tags, struct ts__l2_node *node, uint64_t number,
                  uint32_t round) {
  if (node->used == round) return;
  take_out(tags->nodes, node);
  put_first(tags->nodes, group_of(tags, number), node);
  node->used = round;
}

/* The oldest line of the group, no longer in its bucket or list; NULL when the group keeps none. */
static struct ts__l2_node *drop_oldest(struct ts__l2_tags *tags, uint32_t group) {
  struct ts__l2_node *node = &tags->nodes[tags->nodes[group].newer];
  uint32_t index = (uint32_t)(node - tags->nodes);
  if (index == group) return NULL;
  uint32_t *link = ts__tags_bucket(tags, node->entry >> TS__L2_NUMBER_SHIFT);
  while (*link != index)
    link = &tags->nodes[*link].chain;
  *link = node->chain;
  take_out(tags->nodes, node);
  return node;
}

struct ts__l2_node *ts__tags_add(struct ts__l2_tags *tags, uint64_t number, uint32_t round,
                                 uint64_t *evicted) {
  uint32_t group = group_of(tags, number);
  struct ts__l2_node *node;
  *evicted = 0;
  if (tags->room[group]) {
    tags->room[group]--;
    node = &tags->nodes[tags->next_node++];
  } else {
    node = drop_oldest(tags, group);
    if (!node) return NULL;
    *evicted = node->entry;
  }
  uint32_t *bucket = ts__tags_bucket(tags, number);
  *node =
      (struct ts__l2_node){.entry = number << TS__L2_NUMBER_SHIFT, .chain = *bucket, .used = round};
  *bucket = (uint32_t)(node - tags->nodes);
  put_first(tags->nodes, group, node);
  return node;
}
