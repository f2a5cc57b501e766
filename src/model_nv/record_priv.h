/* Inside of the recorder: record.c takes the events, record_node.c keeps what warps wait for,
 * record_stream.c makes streams of blocks that have ended. */
#ifndef TS_MODEL_NV_RECORD_PRIV_H
#define TS_MODEL_NV_RECORD_PRIV_H

#include "model_nv/model_nv_priv.h"

/* Whose contributions a node counts. What crosses blocks of a cluster is kept apart until the block
 * has ended (ts__settle_cluster). */
enum ts__node_role {
  TS__NODE_OWN,     /* the block's own, and all that is waited for */
  TS__NODE_SENT,    /* those to another block's object of the same address and phase */
  TS__NODE_RECEIVED /* those that another block has made */
};

/* Identity of a node while its block is recorded. */
struct ts__node_key {
  uint8_t sync_kind;
  uint8_t role;  /* enum ts__node_role */
  uint16_t warp; /* of groups: the warp, or the warpgroup's first */
  uint32_t object, phase;
};

struct ts__pending_op {
  struct ts__op op;
  uint32_t rank, sequence;
};

struct ts__warp_builder {
  TS_VEC(struct ts__op) ops;
  TS_VEC(struct ts__pending_op) segment; /* ops of the basic block that is being executed */
  uint32_t segment_block, last_insn;
  uint32_t open_cp_group, open_bulk_group, open_wgmma_group; /* as many have been closed */
  bool has_ended;
};

/* A block whose events are coming in. */
struct ts__block_builder {
  uint32_t block, warp_count;
  uint16_t launch;
  struct ts__warp_builder *warps;
  TS_VEC(struct ts__node) nodes;
  TS_VEC(struct ts__node_key) keys;
  uint32_t *table; /* open addressing: 1 + node */
  uint32_t table_size;
  TS_VEC(struct ts__access) accesses;
  TS_VEC(struct ts__copy_op) copies;
  struct ts_arena arena; /* lane addresses */
  double mac_count, half_mac_count, flop;
  bool has_sent, has_received;
};

/* Whatever the recorder keeps comes from its own allocator, which knows the limit. */
struct ts__recorder {
  struct ts_allocator allocator;
  const struct ts_allocator *source;
  uint64_t held_bytes, limit_bytes;
  bool is_over_limit;
  struct ts_arena arena; /* streams and shifts */
  TS_VEC(struct ts__block_builder *) open;
  TS_VEC(struct ts__block_builder *) spare;
  TS_VEC(struct ts_shift) shifts; /* scratch */
  TS_VEC(uint32_t) places;        /* scratch */
};

/* An allocation has failed: TS_LIMIT when the recorder holds as much as it may, else TS_NO_MEMORY. */
enum ts_status ts__record_no_memory(struct ts_model_nv *model);
/* What no run tells, but a file may hold. */
enum ts_status ts__bad_event(struct ts_model_nv *model, const struct ts_event *event,
                             const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The node of the key; a new one expects nothing yet. */
enum ts_status ts__find_node(struct ts_model_nv *model, struct ts__block_builder *builder,
                             struct ts__node_key key, enum ts_stall stall, uint32_t *node);
/* The node of the same object and phase in another role, or TS__NO_NODE. */
uint32_t ts__node_in_role(const struct ts__block_builder *builder, uint32_t node,
                          enum ts__node_role role);
/* The node of a warp's group: complete when it and all before it are. The group before has been
 * closed, which has made its node. */
enum ts_status ts__find_group(struct ts_model_nv *model, struct ts__block_builder *builder,
                              enum ts_sync_kind kind, uint16_t warp, uint32_t group,
                              uint32_t *node);
/* Decides whether what the block has sent to its peers stands for what it has received, and numbers
 * its nodes anew in the order of their use, so that equal blocks have equal streams. */
enum ts_status ts__settle_cluster(struct ts_model_nv *model, struct ts__block_builder *builder);

/* Makes the block's stream, or finds one that is equal but for addresses. */
enum ts_status ts__record_stream(struct ts_model_nv *model, struct ts__launch_record *record,
                                 struct ts__block_builder *builder);
int ts__compare_shifts(const void *a, const void *b); /* by instruction, for qsort */

#endif
