/* Inside of the NVIDIA timing model.
 *
 * Three steps. The recorder (record.c) turns a run's events into *streams*: what the warps of one
 * block do, in the order of issue, with synchronisation reduced to *nodes* that count contributions.
 * Blocks with equal streams share one. The plan (plan.c) finds occupancy, the way of blocks to SMs,
 * and what the L2 pass says of every access. The SM model (sm*.c) then takes one SM through its
 * blocks, cycle for cycle, with bandwidth servers for what all SMs share. report.c sums up. */
#ifndef TS_MODEL_NV_MODEL_NV_PRIV_H
#define TS_MODEL_NV_MODEL_NV_PRIV_H

#include "machine/occupancy.h"
#include "model_nv/access.h"
#include "model_nv/model_nv.h"

enum { TS__WARP_LANES = 32, TS__SUB_PARTITIONS = 4 };

#define TS__NO_NODE UINT32_MAX

/* --- what instructions cost */

enum ts__pipe {
  TS__PIPE_NONE, /* issue slot only */
  TS__PIPE_FP32,
  TS__PIPE_ALU,
  TS__PIPE_IMAD,
  TS__PIPE_FP16,
  TS__PIPE_FP64,
  TS__PIPE_CVT,
  TS__PIPE_XU,
  TS__PIPE_EITHER, /* ALU or IMAD */
  TS__PIPE_COUNT
};

/* Machine instructions of one IR instruction: `slots` issue slots, of which `pipe_slots` go through
 * the pipe; the result is there `latency` cycles after the last one issues. */
struct ts__cost {
  uint8_t pipe; /* enum ts__pipe */
  uint16_t slots, pipe_slots;
  uint16_t xu_slots; /* those that go through the special function unit as well */
  float latency;
  float serial_cycles; /* the warp goes on only after these; 0: when all is issued */
};
/* False: the op has no cost row. */
bool ts__cost_find(const struct ts_machine *machine, const struct ts_code_insn *insn,
                   struct ts__cost *cost);

/* Multiply-adds per cycle relative to dense ones of 16-bit operands: 8-bit twice, tf32 half, f64 a
 * quarter, and twice as many where half of a factor is zero. */
double ts__matrix_rate(const struct ts_code_insn *insn);

/* TS_UNSUPPORTED when the machine lacks a constant that the program needs. Fills model->unverified. */
enum ts_status ts__check_constants(struct ts_model_nv *model);

/* --- streams */

enum ts__op_kind {
  TS__OP_ALU,
  TS__OP_SHUFFLE,
  TS__OP_SHARED_LOAD, /* aux: wavefronts */
  TS__OP_SHARED_STORE,
  TS__OP_SHARED_ATOMIC,
  TS__OP_GLOBAL_LOAD, /* payload: access */
  TS__OP_GLOBAL_STORE,
  TS__OP_GLOBAL_ATOMIC,
  TS__OP_COPY,    /* payload: copy */
  TS__OP_CLUSTER, /* distributed shared memory; aux: bytes */
  TS__OP_MMA,     /* payload: multiply-adds */
  TS__OP_WGMMA,   /* payload: node of its group */
  TS__OP_TCGEN05, /* payload: node or none */
  TS__OP_TMEM,    /* aux: bytes per lane */
  TS__OP_ARRIVE,  /* payload: node, or none; aux: 1 between blocks of a cluster; aux2: 1 a peer's */
  TS__OP_WAIT,    /* payload: node, or none; aux: enum ts_sync_kind; aux2: 1 sources only */
  TS__OP_FENCE,
  TS__OP_BRANCH, /* aux: 1 when it closes a loop */
  TS__OP_END
};

struct ts__op {
  uint32_t insn;
  uint32_t payload;
  uint16_t aux, aux2; /* aux2: ideal wavefronts; lanes of a divergent branch */
  uint8_t kind;
  uint8_t lanes;     /* active */
  uint16_t reserved; /* 0: ops are compared as bytes */
};
_Static_assert(sizeof(struct ts__op) == 16, "without gaps");

enum ts__copy_kind {
  TS__COPY_ASYNC,
  TS__COPY_TMA_LOAD,
  TS__COPY_TMA_STORE,
  TS__COPY_BULK_LOAD,
  TS__COPY_BULK_STORE,
  TS__COPY_REMOTE
};

struct ts__copy_op {
  uint32_t access; /* or UINT32_MAX: no global side */
  uint32_t node;
  uint32_t bytes; /* that land, fill included */
  uint8_t kind;   /* enum ts__copy_kind */
  bool is_multicast;
  bool is_passive;  /* comes with the request of a peer, or of the copy before (multicast) */
  uint8_t reserved; /* 0: copies are compared as bytes */
};
_Static_assert(sizeof(struct ts__copy_op) == 16, "without gaps");

/* A point that warps wait for: complete when `expected` contributions are in. */
struct ts__node {
  uint32_t expected;
  uint32_t previous; /* node of the same warp that must be complete too (groups), or none */
  uint8_t sync_kind; /* enum ts_sync_kind */
  uint8_t stall;     /* enum ts_stall of its waiters */
  uint16_t arriving_warps;
};
_Static_assert(sizeof(struct ts__node) == 12, "without gaps");

struct ts__warp_ops {
  uint32_t first, count;
};

struct ts__stream {
  uint64_t hash;
  uint32_t warp_count, node_count, access_count, copy_count;
  const struct ts__warp_ops *warps;
  const struct ts__op *ops;
  uint32_t op_count;
  const struct ts__node *nodes;
  const struct ts__access *accesses;
  const struct ts__copy_op *copies;
  double mac_count;
  double half_mac_count; /* products of 16-bit operands that take the tensor cores as long */
  double flop;
};

struct ts__block_record {
  uint32_t stream;      /* index, UINT32_MAX: has not ended */
  uint32_t shift_count; /* until the block has ended: 1 + place among the open ones, or 0 */
  const struct ts_shift *shifts; /* sorted by insn */
};

struct ts__launch_record {
  const struct ts_trace_launch *launch;
  const struct ts_trace_function *function;
  uint32_t block_count;
  uint32_t barrier_count; /* named barriers of a block, up to the highest that is used */
  struct ts__block_record *blocks;
  TS_VEC(struct ts__stream) streams;
  uint64_t event_count;
};

struct ts__recorder; /* record.c */

struct ts_model_nv {
  struct ts_sink sink; /* first: the sink is the model */
  struct ts_ctx *ctx;
  struct ts_arena arena;
  const struct ts_machine *machine;
  struct ts_model_nv_options options;
  const struct ts_trace_program *program;
  const char **unverified; /* constants that are needed and guesses (need.c) */
  uint32_t unverified_count;
  struct ts__launch_record *launches;
  struct ts__recorder *recorder;
  struct ts_time_report report;
};

static inline double ts__constant(const struct ts_model_nv *model, enum ts_timing_id id) {
  return model->machine->timing[id];
}

enum ts_status ts__recorder_new(struct ts_model_nv *model);
void ts__recorder_free(struct ts_model_nv *model);

/* --- the plan of a launch */

enum { TS__SHARING_LIMIT = 64 };

/* How much of what blocks read their neighbours read too, by kind of tile. */
struct ts__sharing {
  uint32_t count;
  double byte_share[TS__SHARING_LIMIT]; /* of all bytes read; they add up to 1 */
  double gain[TS__SHARING_LIMIT];       /* of the read rate, at least 1 */
};

struct ts__plan {
  const struct ts__launch_record *record;
  const struct ts_code *code;
  uint32_t registers_per_thread;
  bool registers_are_estimated;
  struct ts_occupancy occupancy;
  uint32_t active_sm_count;     /* SMs that get a block */
  const struct ts__cost *costs; /* by instruction */
  /* Blocks of the simulated SM, in order of dispatch. */
  const uint32_t *sm_blocks;
  uint32_t sm_block_count;
  struct ts__l2_outcome *const *outcomes; /* [i]: of sm_blocks[i], by access */
  double crowded_cycles;   /* of the chip, for each atomic access: the line that most come to */
  double miss_share;       /* DRAM read sectors per L2 read sector, whole launch */
  double write_back_share; /* DRAM write sectors per sector written, atomics included */
  struct ts__sharing sharing;
  bool is_warm;     /* the same launch has just run */
  double clock_mhz; /* before the load of the tensor cores is known */
  double l2_load;   /* share of the time that SMs read from L2; 1 while they go in step */
  struct ts__l2_totals totals;
};

/* Fills plan->crowded_cycles (contention.c). */
enum ts_status ts__find_contention(struct ts_model_nv *model, struct ts__plan *plan);
/* hot: the launch has just run before; cold: L2 holds other data. */
enum ts_status ts__plan_make(struct ts_model_nv *model, const struct ts__launch_record *record,
                             struct ts__plan *hot, struct ts__plan *cold);

/* --- one SM */

struct ts__role_sum {
  double issue_cycles, stall_cycles[TS_STALL_COUNT], life_cycles;
};

struct ts__sm_result {
  double end_cycle;      /* last block's end, stores drained */
  double tensor_load;    /* cycles at the tensor cores' full rate that the products would take */
  double l2_read_cycles; /* busy with reads, at the rate of the plan */
  double busy[TS_MODEL_UNIT_COUNT]; /* busy cycles of each unit, 4 sub-partitions summed */
  struct ts__role_sum *warps;       /* per warp of a block, summed over blocks */
  uint32_t warp_count;
  double first_block_end, first_wait_end, last_loop_end;
  uint64_t *bank_accesses, *bank_wavefronts, *bank_ideal; /* by instruction */
};

enum ts_status ts__sm_run(struct ts_model_nv *model, const struct ts__plan *plan,
                          uint16_t launch_index, struct ts_span_sink *spans, struct ts_arena *arena,
                          struct ts__sm_result *result);

/* --- the clock */

/* MHz as long as tensor cores and L2 have little to do. */
double ts__least_load_clock(const struct ts_model_nv *model, const struct ts__plan *plan);

/* MHz, the mean over the launch. */
double ts__clock_mhz(const struct ts_model_nv *model, const struct ts__plan *plan,
                     const struct ts__sm_result *result);

/* --- the report */

enum ts_status ts__report_launch(struct ts_model_nv *model, const struct ts__plan *plan,
                                 const struct ts__sm_result *result,
                                 struct ts_launch_report *report);

#endif
