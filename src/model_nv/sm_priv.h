/* The state of the simulated SM (sm.c drives, sm_memory.c and sm_matrix.c carry out). */
#ifndef TS_MODEL_NV_SM_PRIV_H
#define TS_MODEL_NV_SM_PRIV_H

#include "model_nv/model_nv_priv.h"

enum {
  TS__SM_WARP_LIMIT = 128,
  TS__SM_BLOCK_LIMIT = 64,
  TS__WGMMA_RING = 16,
  TS__FETCH_CHUNK_INSNS = 64,
  /* What is queued for the load/store unit, in cycles (FITTED: mma.sync kernels with one block an SM). */
  TS__MIO_QUEUE_CYCLES = 64,
  TS__UNDER_WAY_LIMIT = 1024 /* reads; with more the oldest counts as done */
};

/* What a register slot waits for. */
struct ts__ready {
  double cycle;
  uint8_t stall;    /* enum ts_stall */
  bool is_unpacked; /* 8-bit floats: there as f16 too */
};

struct ts__node_state {
  uint32_t remaining;
  uint32_t first_waiter; /* 1 + warp slot, chained through ts__warp_state.next_waiter */
  double cycle;          /* of the latest contribution */
  double read_cycle;     /* bulk groups: the sources of all stores have been read */
  bool is_folded;        /* the cycles count the nodes before it too */
};

struct ts__block_state {
  uint32_t position; /* in the plan's sm_blocks */
  uint32_t first_warp, live_warps;
  const struct ts__stream *stream;
  const struct ts__block_record *record;
  const struct ts__l2_outcome *outcomes;
  struct ts__node_state *nodes;
  uint32_t node_capacity;
  double start_cycle;
  double l2_step_rate, l2_read_rate, l2_write_rate, dram_read_rate, dram_write_rate, atomic_rate;
  double active_sm_count; /* that share the chip with this block's SM */
  bool is_live;
};

/* A warpgroup's wgmma: the i-th of each of its four warps are one collective. */
struct ts__group_state {
  uint64_t issued[4]; /* by warp of the group */
  double arrival[TS__WGMMA_RING];
  uint32_t arrived[TS__WGMMA_RING];
  double start[TS__WGMMA_RING]; /* when collective i % RING began */
  uint64_t fired;
};

struct ts__warp_state {
  const struct ts__op *ops;
  uint32_t op_count, pc;
  uint16_t block; /* slot */
  uint16_t warp;  /* of its block */
  uint8_t sub;    /* sub-partition */
  bool is_waiting;
  bool has_spilled;   /* for the op that comes next */
  double next_cycle;  /* it could issue from here on, were everything free */
  double candidate;   /* and this is when operands are there */
  double asked_cycle; /* the first candidate of the op, before others were served */
  double told_cycle;  /* end of its last span */
  uint8_t candidate_stall;
  uint32_t next_waiter;
  double loop_cycle;  /* when it came to its last back edge */
  double held_cycles; /* after issue, by what its last op has to wait for */
  uint8_t held_stall;
  double last_async; /* completion of the latest of its cp.async or tcgen05 */
  struct ts__ready *ready;
  struct ts__role_sum *sum;
};

/* Something that serves one request after another. */
struct ts__server {
  double free_cycle, busy_cycles;
};

struct ts__queue_entry {
  uint64_t cycle_bits; /* of a double that is not negative; UINT64_MAX: it is not in the queue */
  uint64_t asked_bits; /* likewise, when the warp first asked */
  uint32_t warp;
};

/* Reads that are under way from L2 to L1, in the order of asking. */
struct ts__under_way {
  struct {
    double done_cycle, bytes;
  } reads[TS__UNDER_WAY_LIMIT];
  uint32_t first, count;
  double bytes;
};

struct ts__sm {
  struct ts_model_nv *model;
  const struct ts__plan *plan;
  const double *timing;
  const struct ts_code *code;
  struct ts_arena *arena;
  struct ts_span_sink *spans;
  enum ts_status span_status;
  uint16_t launch_index;
  struct ts__sm_result *result;
  uint32_t warps_per_block, next_position;
  uint32_t last_warp_lanes; /* of a block whose threads are no multiple of a warp's */
  struct ts__block_state blocks[TS__SM_BLOCK_LIMIT];
  struct ts__warp_state warps[TS__SM_WARP_LIMIT];
  struct ts__group_state groups[TS__SM_WARP_LIMIT / 4 + 1];
  struct ts__queue_entry queue[2 * TS__SM_WARP_LIMIT]; /* sm.c */
  uint32_t queue_size;
  uint64_t next_other; /* cycle_bits of the warp that comes after the one at work */
  struct ts__server issue[TS__SUB_PARTITIONS];
  struct ts__server pipe[TS__SUB_PARTITIONS][TS__PIPE_COUNT];
  struct ts__server mma[TS__SUB_PARTITIONS], lsu_sub[TS__SUB_PARTITIONS];
  struct ts__server tensor, lsu, shared, local, tag, l2, dram, tma, atomic, fetch, cluster;
  bool unpacks_floats; /* mma.sync of 8-bit floats is two of f16 */
  struct ts__l1 *l1;
  struct ts__under_way under_way;
  uint8_t *fetched;        /* by chunk of machine code */
  double drain_cycle;      /* all stores so far are in L2 */
  double tensor_map_cycle; /* the first tensor map is there; 0: nobody asked */
};

/* The op's instruction; one without flags and uses for an op that has none. */
static inline const struct ts_code_insn *ts__insn_of(const struct ts__sm *sm,
                                                     const struct ts__op *op) {
  static const struct ts_code_insn none = {.op = TS_OP_COUNT};
  return op->insn < sm->code->insn_count ? &sm->code->insns[op->insn] : &none;
}

/* Serves a request that comes at `cycle` and takes `duration`; answers its start. */
static inline double ts__serve(struct ts__server *server, double cycle, double duration) {
  double start = server->free_cycle > cycle ? server->free_cycle : cycle;
  server->free_cycle = start + duration;
  server->busy_cycles += duration;
  return start;
}

/* A contribution to a node; wakes the waiters when it was the last. */
void ts__node_contribute(struct ts__sm *sm, struct ts__block_state *block, uint32_t node,
                         uint32_t count, double cycle);
void ts__span(struct ts__sm *sm, const struct ts__warp_state *warp, const struct ts__op *op,
              enum ts_model_unit unit, double start, double end, uint32_t bytes);
/* Marks the registers that the op's instruction defines. */
void ts__define(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                double cycle, enum ts_stall stall);

/* Each issues the op at or after warp->candidate, sets warp->next_cycle, and answers the cycle at
 * which it issued; *stall becomes what the op waited for beyond its operands. */
double ts__do_shuffle(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                      enum ts_stall *stall);
double ts__do_shared(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                     enum ts_stall *stall);
/* From when on L1 takes a read of L2. */
double ts__l1_room_cycle(const struct ts__sm *sm);
/* So many words of each thread are stored, and as many loaded: answers when these are there. */
double ts__do_spill(struct ts__sm *sm, struct ts__warp_state *warp, uint32_t words);
double ts__do_global(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                     enum ts_stall *stall);
double ts__do_copy(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                   enum ts_stall *stall);
double ts__do_cluster(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                      enum ts_stall *stall);
double ts__do_mma(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                  enum ts_stall *stall);
double ts__do_wgmma(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                    enum ts_stall *stall);
double ts__do_tmem(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                   enum ts_stall *stall);
double ts__do_tcgen05(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                      enum ts_stall *stall);

#endif
