/* The lines that a cache of the L2 pass keeps (l2_tags.c), for the pass itself (l2.c). */
#ifndef TS_MODEL_NV_L2_PRIV_H
#define TS_MODEL_NV_L2_PRIV_H

#include "model_nv/access.h"

enum {
  TS__L2_DIRTY_SHIFT = 4,
  TS__L2_FILLED_SHIFT = 8,
  TS__L2_NUMBER_SHIFT = 12,
  TS__L2_GROUP_COUNT = 16
};

static const uint64_t ts__golden = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */

/* A line that is kept. */
struct ts__l2_node {
  /* number << 12 | sectors that the last read from DRAM brings << 8 | dirty << 4 | valid */
  uint64_t entry;
  uint32_t chain;        /* next of the bucket, 0 none */
  uint32_t newer, older; /* in the order of use of its group */
  uint32_t used, filled; /* rounds: last use, last read from DRAM */
};

/* Lines in the order of use, least recently used first out. A real cache has sets and a hash, some of
 * which overflow before others: a hash puts each line in one of 16 groups, whose capacities differ
 * by the spread of the settings. Within a group nothing is lost to conflicts. nodes[0 .. 15] are the
 * ends of the groups' lists: older is the newest line, newer the oldest. */
struct ts__l2_tags {
  struct ts__l2_node *nodes; /* not set before their use: most launches need few of them */
  void *memory;              /* of the nodes */
  size_t memory_bytes;
  uint32_t *buckets;
  uint32_t bucket_mask, group_count;
  uint32_t next_node;                /* never used so far */
  uint32_t room[TS__L2_GROUP_COUNT]; /* lines that a group may still take */
};

/* Zeroed tags become empty ones; the buckets are the arena's. ts__tags_free in any case. */
enum ts_status ts__tags_make(struct ts_ctx *ctx, const struct ts__l2_settings *settings,
                             uint64_t capacity_bytes, struct ts_arena *arena,
                             struct ts__l2_tags *tags);
void ts__tags_free(struct ts_ctx *ctx, struct ts__l2_tags *tags);

/* The line's node, or NULL. */
struct ts__l2_node *ts__tags_find(const struct ts__l2_tags *tags, uint64_t number);
/* The order within a round does not matter: lines are moved once. */
void ts__tags_use(struct ts__l2_tags *tags, struct ts__l2_node *node, uint64_t number,
                  uint32_t round);
/* A node for a line that is not there, with nothing valid; *evicted is the entry that made room, 0
 * none. NULL when there is no capacity. */
struct ts__l2_node *ts__tags_add(struct ts__l2_tags *tags, uint64_t number, uint32_t round,
                                 uint64_t *evicted);

/* Runs of 4096 lines lie one after another, for the host's cache; a hash says where a run starts. */
static inline uint32_t *ts__tags_bucket(const struct ts__l2_tags *tags, uint64_t number) {
  uint64_t start = (number >> 12) * ts__golden >> 32;
  return &tags->buckets[(number + start) & tags->bucket_mask];
}

#endif
