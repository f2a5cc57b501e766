/* What warps know of warps of other blocks: happens-before beyond a block.
 *
 * An *agent* is a warp of a launch: block * warps of a block + warp. A set says for each agent in it
 * up to which stamp (race.h) its accesses are known. Two forms: `struct ts_far` never changes and
 * may be shared, so that a warp or a phase holds its knowledge by pointer; `struct ts_known_set`
 * grows, and stands for sync objects: places of memory that atomics work on, barriers of groups.
 *
 * Owner: one struct ts_order per launch. Far sets live until ts_order_unit_start, which the owner
 * calls when none of the blocks that hold one runs any more. */
#ifndef TS_MEM_ORDER_H
#define TS_MEM_ORDER_H

#include "base/diag.h"

enum { TS_ORDER_MAX_AGENTS = 1 << 16 };

struct ts_known {
  uint32_t agent, stamp;
};

struct ts_far {
  uint32_t count;
  struct ts_known known[]; /* agents ascending */
};

struct ts_known_set {
  TS_VEC(struct ts_known) known; /* agents ascending */
  const struct ts_far *frozen;   /* the same as a far set; NULL: not made since the last change */
};

/* A place of memory, for the atomics that work on it. */
struct ts_sync_place {
  uint64_t key;                    /* 0: free slot */
  struct ts_known_set wide, block; /* told to everybody; told with the scope of a block */
};

struct ts_order {
  const struct ts_allocator *allocator;
  struct ts_arena unit;         /* far sets */
  struct ts_sync_place *places; /* open addressing; capacity a power of two or 0 */
  size_t place_count, place_capacity;
  bool out_of_memory;
};

void ts_order_init(struct ts_order *order, const struct ts_allocator *allocator);
void ts_order_free(struct ts_order *order);
/* Drops all far sets. */
void ts_order_unit_start(struct ts_order *order);

/* The newest stamp of the agent that is known; 0 none. far may be NULL: nothing is known. */
uint32_t ts_far_stamp(const struct ts_far *far, uint32_t agent);
/* Both together; either may be NULL. When memory is short order->out_of_memory is set and one of
 * them is returned. */
const struct ts_far *ts_far_join(struct ts_order *order, const struct ts_far *a,
                                 const struct ts_far *b);
/* far and `count` agents from first_agent on, with their stamps; those of 0 are left out. */
const struct ts_far *ts_far_with(struct ts_order *order, const struct ts_far *far,
                                 uint32_t first_agent, const uint32_t *stamps, uint32_t count);

void ts_known_add(struct ts_order *order, struct ts_known_set *set, const struct ts_far *far);
/* The set as it is now; NULL when it is empty. */
const struct ts_far *ts_known_freeze(struct ts_order *order, struct ts_known_set *set);
void ts_known_free(struct ts_order *order, struct ts_known_set *set);

/* The place of a key that is not 0; NULL when there is none, and none is made or memory is short. */
struct ts_sync_place *ts_order_place(struct ts_order *order, uint64_t key, bool makes);

#endif
