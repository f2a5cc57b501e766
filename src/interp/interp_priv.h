/* Inside of the interpreter: decoded code, warps, blocks, the scheduler's protocol.
 *
 * Files: launch.c (plan -> blocks -> workers), decode.c (IR -> struct ts__code), sched.c (schedules,
 * deadlock report), exec_scalar.c, exec_memory.c, exec_control.c, exec_warp.c, exec_barrier.c
 * (bar.*, mbarrier.*), exec_async.c (cp.async, TMA, bulk), exec_matrix.c (ldmatrix, stmatrix, mma,
 * wgmma), hazard.c (diagnostics with kernel places).
 *
 * Values: a component of a register in a warp takes 32 slots (varying) or 1 slot (uniform). A slot
 * is 4 bytes for dtypes of at most 32 bits (floats: zero-extended encoding; s8/s16 sign-extended;
 * u8/u16 zero-extended; pred: 0 or 1) and 8 bytes for 64-bit dtypes and pointers. Components follow
 * one another. Local arrays are byte images cut in 4-byte words: word w of lane l is at
 * [w * 32 + l]. */
#ifndef TS_INTERP_INTERP_PRIV_H
#define TS_INTERP_INTERP_PRIV_H

#include "interp/interp.h"
#include "num/num.h"

enum { TS__LANES = 32, TS__MAX_BLOCK_WARPS = 64, TS__MAX_OPERANDS = 12 };

struct ts__warp;
struct ts__block;
struct ts__code;
struct ts__program;

/* What an instruction's function answers. */
enum ts__step {
  TS__STEP_NEXT,    /* done; the program counter moves to the next instruction */
  TS__STEP_JUMP,    /* done; the function has set warp->pc */
  TS__STEP_BLOCKED, /* cannot proceed: warp->wait says why; the same instruction is executed again
                       when the scheduler comes back, so it must not repeat its effects */
  TS__STEP_DONE,    /* the warp has ended */
  TS__STEP_FAULT    /* stop the run: block->status says why */
};

/* Where an operand's slots are: words from one of two bases. */
enum ts__operand_base { TS__BASE_REGS, TS__BASE_CONST, TS__BASE_NONE };
struct ts__operand {
  uint8_t base;       /* enum ts__operand_base */
  bool is_uniform;    /* one slot per component instead of 32; constants are stored both ways */
  uint8_t dtype;      /* of the register; immediates: the instruction's */
  uint8_t lanes;      /* components */
  uint32_t offset;    /* words from the base (registers and constants); arrays: first word of the
                         array in a warp's local memory; blocks: code index; tensor maps: parameter
                         number; texts: index */
  uint32_t extra;     /* arrays: size in bytes. constants: offset of the splatted copy */
};

/* One decoded instruction. */
struct ts__code {
  enum ts__step (*exec)(struct ts__warp *warp, const struct ts__code *code);
  void (*kernel)(void);  /* num function for pure ops (cast to unary, binary, ternary by exec) */
  uint32_t slot_count;   /* slots a pure op computes: components x (uniform dst ? 1 : 32) */
  uint32_t insn;         /* id in the function: for places, events, diagnostics */
  uint16_t op;
  uint8_t dtype, lanes, dtype2, operand_count;
  bool dst_is_uniform, dst_is_wide; /* wide: 8-byte slots */
  bool emits_insn;       /* the scheduler emits its INSN event; others emit their own */
  bool counts_lanes;     /* a data instruction: counted in lane_op_count */
  uint32_t dst;          /* words from the register base */
  int64_t scale, offset; /* of the memory operand */
  uint32_t ext;          /* index of op-specific decoded data in program->ext, or 0 */
  struct ts__operand operands[TS__MAX_OPERANDS];
};

/* A function decoded for a launch. Immutable while blocks run. */
struct ts__program {
  const struct ts_function *function;
  const struct ts_launch *launch;
  const struct ts_launch_plan *plan;
  struct ts_device_memory *memory;
  const struct ts_machine *machine;
  const struct ts_run_options *options;
  uint32_t launch_index;
  struct ts__code *code;
  uint32_t code_count;
  uint32_t *block_start;     /* code index of each IR block */
  const uint32_t *constants; /* TS__BASE_CONST */
  uint32_t reg_words;        /* register file of a warp */
  uint32_t local_words;      /* local arrays of a warp, words x 32 lanes counted */
  uint32_t *array_offset;    /* per array: first word (already x 32) */
  uint64_t shared_bytes;     /* static + dynamic */
  uint32_t warps_per_block, threads_per_block;
  struct ts_arena *arena;
};

/* Reconvergence stack: when pc reaches `join`, the entry is popped: the mask becomes `mask`, and
 * when `other_mask` is not 0 execution first continues at `other_pc` with that mask. */
struct ts__frame {
  uint32_t join, mask, other_pc, other_mask;
  uint64_t other_barrier_phase; /* barrier_phase of the lanes at other_pc: an arm that blocks lets
                                   the other one run, so both may be waiting */
};
enum { TS__MAX_FRAMES = 64 };

enum ts__wait_kind {
  TS__WAIT_NONE, TS__WAIT_BARRIER, TS__WAIT_MBARRIER, TS__WAIT_CP_ASYNC, TS__WAIT_BULK,
  TS__WAIT_WGMMA, TS__WAIT_CLUSTER
};
struct ts__wait {
  enum ts__wait_kind kind;
  uint32_t object; /* barrier number, mbarrier address, groups allowed */
  uint32_t parity;
};

/* An asynchronous operation that has been issued and not yet done. `deliver` does it: moves the
 * bytes, marks the record landed, completes transactions. Ops of one queue may be delivered in any
 * order unless `after` names one (by ticket) that must come first. */
struct ts__async {
  enum ts_status (*deliver)(struct ts__block *block, struct ts__async *op);
  uint64_t ticket; /* ascending in issue order, from 1 */
  uint64_t after;  /* 0 none */
  uint32_t warp, insn, record; /* record: TS_PENDING_NONE when it has none */
  uint32_t group_kind, group;  /* what a wait counts: enum ts_sync_kind and the group number */
  void *data;      /* operands; owned by the op (block->scratch free list) */
};

/* mbarrier state, kept beside the 8 bytes in shared memory (which hold an opaque image). */
struct ts__mbarrier {
  uint32_t address;
  bool is_initialised;
  uint32_t expected;       /* arrivals a phase */
  uint32_t pending;        /* arrivals left in this phase */
  int64_t tx_bytes;        /* expected minus completed */
  uint64_t phase;          /* completed phases */
  uint64_t arrived_warps;  /* of this phase; flows to waiters */
  uint64_t completed_warps;/* of the last completed phase */
};

/* A numbered barrier (bar.sync). */
struct ts__barrier {
  uint32_t expected_threads, arrived_threads;
  uint64_t phase;
  uint64_t arrived_warps;
};
enum { TS__BARRIER_COUNT = 16 };

enum ts__warp_state { TS__WARP_READY, TS__WARP_BLOCKED, TS__WARP_DONE };

struct ts__warp {
  struct ts__block *block;
  const struct ts__program *program;
  uint32_t index;            /* in the block */
  uint32_t pc;               /* code index */
  uint32_t active;           /* lanes executing now */
  uint32_t alive;            /* lanes that have not exited */
  enum ts__warp_state state;
  struct ts__wait wait;
  uint32_t *regs;            /* TS__BASE_REGS; 64-byte aligned */
  uint32_t *local;           /* local arrays */
  struct ts__frame frames[TS__MAX_FRAMES];
  uint32_t frame_count;
  uint64_t barrier_phase;    /* phase waited for at a bar.sync, + 1; 0 = not arrived yet */
  uint64_t insn_count;
  void *async;               /* struct of exec_async.c: open groups */
  void *matrix;              /* struct of exec_matrix.c: wgmma groups, panels */
};

struct ts__block {
  const struct ts__program *program;
  struct ts_ctx *ctx;
  uint32_t index, id[3];     /* linear (x fastest) and blockIdx */
  struct ts_shared_memory shared;
  struct ts__warp *warps;
  uint32_t warp_count;
  struct ts__barrier barriers[TS__BARRIER_COUNT];
  TS_VEC(struct ts__mbarrier) mbarriers; /* sorted by address */
  TS_VEC(struct ts__async) async;        /* issued, not done; in ticket order */
  uint64_t next_ticket;
  uint64_t random_state;                 /* per block: seed ^ block index, so -j does not matter */
  enum ts_status status;
  bool has_hazard;
  struct ts_run_stats *stats;            /* of the worker */
  struct ts_arena *scratch;              /* reset for every block */
  struct ts_mma_scratch *mma_scratch;    /* of the worker */
};

/* --- decoding: one row per op tells how it is executed (decode.c); the exec_*.c files fill it */
enum ts__step ts__exec_unknown(struct ts__warp *warp, const struct ts__code *code);
/* Table of exec functions by op; pure num ops share a few. Every op of op.def has an entry. */
#define OP(name, mnemonic, stratum, unit, has_dst, operands, flags, synopsis)                      \
  enum ts__step ts__exec_##name(struct ts__warp *warp, const struct ts__code *code);
#include "ir/op.def"
#undef OP

/* --- reading operands */
static inline const uint32_t *ts__operand_words(const struct ts__warp *warp,
                                                const struct ts__operand *operand) {
  const uint32_t *base =
      operand->base == TS__BASE_REGS ? warp->regs : warp->program->constants;
  return base + operand->offset;
}
/* 32 slots per component of a 32-bit operand: uniform ones are splatted into scratch (which has
 * room for 32 * lanes words). */
const uint32_t *ts__operand_slots32(const struct ts__warp *warp, const struct ts__operand *operand,
                                    uint32_t *scratch);
const uint64_t *ts__operand_slots64(const struct ts__warp *warp, const struct ts__operand *operand,
                                    uint64_t *scratch);
/* Any integer or pointer operand widened to 64 bits per lane (signed dtypes sign-extended). */
void ts__operand_lanes64(const struct ts__warp *warp, const struct ts__operand *operand,
                         uint64_t out[TS__LANES]);
/* The value in one lane. */
uint64_t ts__operand_lane(const struct ts__warp *warp, const struct ts__operand *operand,
                          uint32_t lane);
static inline uint32_t ts__first_lane(uint32_t mask) { return (uint32_t)__builtin_ctz(mask); }
/* Value of a shared address operand etc. for lanes: base + index * scale + offset. */
void ts__address_lanes(const struct ts__warp *warp, const struct ts__code *code,
                       const struct ts__operand *base, const struct ts__operand *index,
                       int64_t scale, int64_t offset, uint64_t out[TS__LANES]);
/* The value lanes write: merges 32 slots per component into dst under the active mask (uniform dst:
 * first active lane's). */
void ts__write_slots32(struct ts__warp *warp, const struct ts__code *code, const uint32_t *slots);
void ts__write_slots64(struct ts__warp *warp, const struct ts__code *code, const uint64_t *slots);
/* Registers may be written without a mask when all living lanes are
 * active or dst is uniform (ts__writes_all). */
static inline bool ts__writes_all(const struct ts__warp *warp, const struct ts__code *code) {
  return code->dst_is_uniform || warp->active == warp->alive;
}
/* Merges slots of dst's width for the active lanes (varying dst only). */
void ts__blend(struct ts__warp *warp, const struct ts__code *code, const void *slots);

/* --- hazards (hazard.c): report with the instruction's place, mark the block; answer the step that
 * stops or continues the run (options->stop_at_first_hazard). */
enum ts__step ts__hazard(struct ts__warp *warp, const struct ts__code *code, enum ts_diag_code kind,
                         uint32_t lane, uint32_t other_insn, const char *hint, const char *format,
                         ...) __attribute__((format(printf, 7, 8)));
enum ts__step ts__fault_memory(struct ts__warp *warp); /* out of memory */
/* Checks a shared range; answers true when the access may proceed (hazards have been reported). */
bool ts__shared_readable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         uint64_t address, uint64_t size_bytes);
bool ts__shared_writable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         uint64_t address, uint64_t size_bytes);

/* --- barriers (exec_barrier.c) */
struct ts__mbarrier *ts__mbarrier_find(struct ts__block *block, uint32_t address); /* NULL: none */
/* Transactions done (TMA): may complete the phase. */
void ts__mbarrier_complete_tx(struct ts__block *block, uint32_t address, uint64_t bytes);
void ts__mbarrier_arrive(struct ts__block *block, uint32_t address, uint32_t count, uint64_t warps);
/* A warp has ended or its lanes exited: numbered barriers that waited for all may open. */
void ts__barrier_thread_exit(struct ts__block *block);

/* What a blocked warp waits for, one line for the deadlock report. */
void ts__wait_describe(const struct ts__warp *warp, char *text, size_t size_bytes);

/* --- asynchronous operations (exec_async.c) */
/* Queues the op; with the eager schedule it is delivered before this returns. */
enum ts_status ts__async_issue(struct ts__block *block, struct ts__async op);
/* Delivers the op at position index of block->async and removes it. */
enum ts_status ts__async_deliver(struct ts__block *block, size_t index);
/* Positions that may be delivered now (their `after` is done): for schedules. */
bool ts__async_is_ready(const struct ts__block *block, size_t index);
/* At the end of a block: everything still in flight is done, oldest first. */
enum ts_status ts__async_drain(struct ts__block *block);
enum ts_status ts__warp_async_init(struct ts__warp *warp);  /* allocates warp->async in scratch */
enum ts_status ts__warp_matrix_init(struct ts__warp *warp); /* allocates warp->matrix in scratch */

/* wgmma: true when words [first, first + count) of the local arrays hold a pending accumulator (or
 * an A operand in use, for writes); reports the hazard. Called by ld.local, st.local, mma,
 * ldmatrix only when warp->matrix has groups in flight. */
bool ts__wgmma_in_flight(const struct ts__warp *warp);
bool ts__wgmma_conflict(struct ts__warp *warp, const struct ts__code *code, uint32_t first_word,
                        uint32_t word_count, bool is_write);

/* --- events: no-ops when the sink is ts_sink_null */
static inline bool ts__listening(const struct ts__block *block) {
  return block->program->options->sink != &ts_sink_null;
}
/* Fills block, warp, insn, op, dtype, mask and launch, and emits. */
enum ts_status ts__emit(struct ts__warp *warp, const struct ts__code *code, struct ts_event event,
                        const struct ts_footprint *footprint);

#endif
