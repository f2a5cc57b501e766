/* Inside of the interpreter: decoded code, warps, blocks, the scheduler's protocol.
 *
 * Files: launch.c (plan -> blocks -> workers), decode.c (IR -> struct ts__code; exec.def says how each
 * op is executed), join.c (where lanes meet again), sched.c (schedules, deadlock report), operand.c
 * and lane_loops.h with lanes_*.c (operands as lanes see them), exec_scalar.c, exec_memory.c (global
 * and shared), exec_local.c, exec_atomic.c, exec_control.c, exec_warp.c, exec_barrier.c (bar.*),
 * exec_mbarrier.c, exec_cluster.c, async.c and exec_async.c (copies), tma.c (boxes), matrix.c,
 * exec_mma.c, exec_wgmma.c, wgmma_operand.c (ldmatrix, stmatrix, mma, wgmma), exec_address.c
 * and repeat.c (address-only runs), hazard.c (diagnostics
 * with kernel places), event_emit.c.
 *
 * Values: a component of a register in a warp takes 32 slots (varying) or 1 slot (uniform). A slot
 * is 4 bytes for dtypes of at most 32 bits (floats: zero-extended encoding; s8/s16 sign-extended;
 * u8/u16 zero-extended; pred: 0 or 1) and 8 bytes for 64-bit dtypes and pointers. Components follow
 * one another. Local arrays are byte images cut in 4-byte words: word w of lane l is at
 * [w * 32 + l]. */
#ifndef TS_INTERP_INTERP_PRIV_H
#define TS_INTERP_INTERP_PRIV_H

#include "interp/interp.h"
#include "ir/block_form.h"
#include "num/num.h"

enum { TS__LANES = 32, TS__MAX_BLOCK_WARPS = 64 };

struct ts__warp;
struct ts__block;
struct ts__code;
struct ts__program;
struct ts__check;  /* check_priv.h */
struct ts__repeat; /* repeat.c */
struct ts__tensor; /* exec_tensor.c */

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
  uint8_t base;    /* enum ts__operand_base */
  bool is_uniform; /* one slot per component instead of 32; constants are stored both ways */
  uint8_t dtype;   /* of the register; immediates: the instruction's */
  uint8_t lanes;   /* components */
  uint32_t offset; /* words from the base (registers and constants); arrays: first word of the
                         array in a warp's local memory; blocks: code index; tensor maps: parameter
                         number; texts: index */
  uint32_t extra;  /* arrays: size in bytes. constants: offset of the splatted copy */
};

/* One decoded instruction. */
struct ts__code {
  enum ts__step (*exec)(struct ts__warp *warp, const struct ts__code *code);
  void (*kernel)(void); /* num function for pure ops (cast to unary, binary, ternary by exec) */
  uint32_t slot_count;  /* slots a pure op computes: components x (uniform dst ? 1 : 32) */
  uint32_t insn;        /* id in the function: for places, events, diagnostics */
  uint16_t op;
  uint8_t dtype, lanes, dtype2, operand_count;
  bool dst_is_uniform, dst_is_wide; /* wide: 8-byte slots */
  bool emits_insn;                  /* the scheduler emits its INSN event; others emit their own */
  bool counts_lanes;                /* a data instruction: counted in lane_op_count */
  bool is_quiet;                    /* address-only: told, but without effect on values */
  uint32_t dst;                     /* words from the register base */
  int64_t scale, offset; /* of the memory operand. scale alone: index of extract, special register,
                            mode or reduction of a warp or atomic instruction */
  uint32_t ext;          /* atomics: enum ts_ir_reduce; free for other files' ops */
  struct ts__operand *operands; /* operand_count of them, all of a program in one array */
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
  uint32_t *reg_offset;      /* per register: first word */
  bool is_ordered;           /* global atomics or reductions: blocks run in ascending order */
  bool has_matrix;           /* matrix instructions: workers need scratch for them */
  bool has_tensor;           /* tensor memory is used */
  const struct ts__lane_ops *lanes; /* loops for this host */
  uint64_t shared_bytes;            /* static + dynamic */
  const struct ts_slice *slice;     /* address-only: what is computed; NULL: everything */
  struct ts__repeat *repeat;        /* address-only: which blocks are told alike; NULL: none */
  struct ts__check *check;          /* of the blocks of a unit; NULL: hazard checks are off */
  uint32_t global_granule_bytes;    /* smallest access of global memory, with checks */
  uint32_t warps_per_block, threads_per_block;
  uint32_t blocks_per_cluster, blocks_per_unit;
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
  TS__WAIT_NONE,
  TS__WAIT_BARRIER,
  TS__WAIT_MBARRIER,
  TS__WAIT_CP_ASYNC,
  TS__WAIT_BULK,
  TS__WAIT_WGMMA,
  TS__WAIT_GROUP /* object: enum ts__group_scope */
};
struct ts__wait {
  enum ts__wait_kind kind;
  uint32_t object; /* barrier number, mbarrier address, groups allowed */
  uint32_t parity;
  bool is_released; /* mbarriers: pass, see ts__mbarrier_release */
};

/* An asynchronous operation that has been issued and not yet done. `deliver` does it: moves the
 * bytes, marks the record landed, completes transactions. Ops of one queue may be delivered in any
 * order unless `after` names one (by ticket) that must come first. */
struct ts__async {
  enum ts_status (*deliver)(struct ts__block *block, struct ts__async *op);
  uint64_t ticket;             /* ascending in issue order, from 1 */
  uint64_t after;              /* 0 none */
  uint32_t warp, insn, record; /* record: TS_PENDING_NONE when it has none */
  uint32_t group_kind, group;  /* what a wait counts: enum ts_sync_kind and the group number */
  bool is_tensor;              /* of tcgen05: data is no struct ts__copy */
  void *data;                  /* operands; owned by the op (block->scratch free list) */
};

/* mbarrier state, kept beside the 8 bytes in shared memory (which hold an opaque image). */
struct ts__mbarrier {
  uint32_t address;
  bool is_initialised;
  uint32_t expected;                  /* arrivals a phase */
  uint32_t pending;                   /* arrivals left in this phase */
  int64_t tx_bytes;                   /* expected minus completed */
  uint32_t tx_insn;                   /* that changed it last, or initialised the mbarrier */
  uint64_t phase;                     /* completed phases */
  uint64_t first_phase;               /* what events call phase 0: numbers go on when an mbarrier is
                                         initialised again */
  uint64_t arrived_warps;             /* of this phase; flows to waiters */
  uint64_t completed_warps;           /* of the last completed phase */
  uint32_t next[TS__MAX_BLOCK_WARPS]; /* per warp: completed phases that its next wait is for, at
                                         least (see ts__mbarrier_release) */
};

/* A numbered barrier (bar.sync). */
struct ts__barrier {
  uint32_t expected_threads, arrived_threads; /* expected 0: all living threads of the block */
  uint64_t phase;
  uint64_t arrived_warps;
  uint64_t waiting_warps; /* those that wait, not only arrive */
  uint32_t true_threads;  /* bar.red: threads whose predicate is set */
  uint32_t result[2];     /* bar.red: true_threads of the last phases, by phase & 1 */
  uint32_t threads[2];    /* arrived_threads of the last phases, by phase & 1 */
};
enum { TS__NAMED_BARRIERS = 16 };

/* Blocks with a barrier over all their threads: those of a cluster, or of a cooperative launch. */
struct ts__group {
  struct ts__block *blocks; /* in order of rank */
  uint32_t block_count;
  uint32_t arrived_threads; /* of the open phase */
  uint64_t phase;           /* completed ones */
};
enum ts__group_scope { TS__GROUP_CLUSTER, TS__GROUP_GRID, TS__GROUP_SCOPES };

/* Blocks that are scheduled together because they may wait for each other: one block, a cluster, or
 * all clusters of a cooperative launch. */
struct ts__unit {
  struct ts__block *blocks; /* cluster by cluster, ranks ascending */
  uint32_t block_count;
  struct ts__group grid;      /* of all of them */
  struct ts__group *clusters; /* block_count / cluster size of them */
};

enum ts__warp_state { TS__WARP_READY, TS__WARP_BLOCKED, TS__WARP_DONE };

struct ts__warp {
  struct ts__block *block;
  const struct ts__program *program;
  uint32_t index;  /* in the block */
  uint32_t pc;     /* code index */
  uint32_t active; /* lanes executing now */
  uint32_t alive;  /* lanes that have not exited */
  enum ts__warp_state state;
  struct ts__wait wait;
  uint32_t *regs;  /* TS__BASE_REGS; 64-byte aligned */
  uint32_t *local; /* local arrays */
  struct ts__frame frames[TS__MAX_FRAMES];
  uint32_t frame_count;
  uint64_t barrier_phase; /* phase waited for at a bar.sync, + 1; 0 = not arrived yet */
  uint64_t group_phase[TS__GROUP_SCOPES]; /* the same for the barriers of groups */
  uint64_t insn_count;
  void *async;                     /* struct of exec_async.c: open groups */
  void *matrix;                    /* struct of exec_wgmma.c: groups */
  uint32_t wgmma_count;            /* wgmma issued and not waited for */
  struct ts__mma_batch *mma_batch; /* mma_batch.c; made on first use */
  uint32_t deferred_count;         /* mma in the batch: done before anybody looks at the arrays */
};

struct ts__block {
  const struct ts__program *program;
  struct ts_ctx *ctx;
  uint32_t index, id[3]; /* linear (x fastest) and blockIdx */
  struct ts_shared_memory shared;
  struct ts__warp *warps;
  uint32_t warp_count;
  struct ts__barrier barriers[TS__NAMED_BARRIERS];
  struct ts__group *groups[TS__GROUP_SCOPES];
  uint32_t rank;                          /* in the cluster */
  uint64_t group_warps[TS__GROUP_SCOPES]; /* warps that have arrived in the open phase */
  TS_VEC(struct ts__mbarrier) mbarriers;  /* sorted by address */
  TS_VEC(struct ts__async) async;         /* issued, not done; in ticket order */
  uint64_t next_ticket;
  uint64_t random_state; /* per block: seed ^ block index, so -j does not matter */
  enum ts_status status;
  bool has_hazard;
  struct ts_run_stats *stats;             /* of the worker */
  uint64_t last_event_seq;                /* seq of the event emitted last, for `cause` */
  struct ts_arena *scratch;               /* reset for every block */
  struct ts_mma_scratch *mma_scratch;     /* of the worker */
  struct ts__tensor *tensor;              /* NULL: the program has none */
  struct ts__copy *free_copies;           /* exec_async.c: operands of done operations */
  struct ts__check *check;                /* NULL: hazard checks are off */
  uint32_t wgmma_count;                   /* wgmma in flight, of all warps */
  struct ts__matrix_cache **matrix_cache; /* of the worker: prepared operands; *matrix_cache is made
                                            on first use, ts__matrix_cache_free ends it */
};

/* --- decoding: one row per op tells how it is executed (decode.c); the exec_*.c files fill it */
/* Every op has a row in exec.def; pure num ops share the three functions below. */
#define OP(name, mnemonic, stratum, unit, has_dst, operands, flags, synopsis)                      \
  enum ts__step ts__exec_##name(struct ts__warp *warp, const struct ts__code *code);
#include "ir/op.def"
#undef OP
/* Pure instructions by operand count: code->kernel does the work. */
enum ts__step ts__exec_unary(struct ts__warp *warp, const struct ts__code *code);
enum ts__step ts__exec_binary(struct ts__warp *warp, const struct ts__code *code);
enum ts__step ts__exec_ternary(struct ts__warp *warp, const struct ts__code *code);

/* Fills code, constants and layout of a program whose other fields are set. Everything is taken
 * from program->arena. TS_UNSUPPORTED, with the place, for an instruction nothing can execute. */
enum ts_status ts__program_decode(struct ts_ctx *ctx, struct ts__program *program);
/* Makes the instruction one that is told but not computed (exec_address.c). */
void ts__decode_quiet(struct ts__code *code);
/* A remark when what a launch executes depends on contents of tensors. */
void ts__tell_dependence(struct ts_ctx *ctx, const char *function, const struct ts_slice *slice,
                         const struct ts_device_memory *memory, const uint64_t *tensors,
                         uint32_t tensor_count);

/* --- equal blocks (repeat.c) */
/* Sets program->repeat when blocks of this launch can be told as repetitions. */
enum ts_status ts__repeat_init(struct ts_ctx *ctx, struct ts__program *program);
void ts__repeat_free(struct ts__program *program);
/* Tells the block as a repetition of one that has been run, if it is one. Otherwise it must be run,
 * and ts__repeat_keep after it. */
enum ts_status ts__repeat_block(struct ts__repeat *repeat, uint64_t index, bool *is_repeated);
enum ts_status ts__repeat_keep(struct ts__repeat *repeat, uint64_t index);
void ts__set_params(struct ts__warp *warp); /* launch.c: the arguments, in their registers */

/* joins[b]: the block where lanes that part at the end of block b meet again, TS_NONE when they do
 * not (join.c). From the arena. */
enum ts_status ts__find_joins(struct ts_ctx *ctx, const struct ts_function *function,
                              struct ts_arena *arena, uint32_t **joins);

/* Lane that each lane reads in a shfl (exec_warp.c). */
void ts__shuffle_sources(const struct ts__warp *warp, const struct ts__code *code,
                         uint32_t source[TS__LANES]);

/* --- reconvergence (exec_control.c) */
/* Goes to pc; lanes that reach a join wait there for the others. Answers JUMP. */
enum ts__step ts__control_goto(struct ts__warp *warp, uint32_t pc);
/* The active lanes cannot proceed: lets the other arm of the innermost branch run, when one waits.
 * Answers whether the warp goes on elsewhere. */
bool ts__control_switch(struct ts__warp *warp);

/* --- schedules (sched.c) */
/* Runs the warps of the unit's blocks to their end. The blocks have been set up. */
enum ts_status ts__unit_run(struct ts__unit *unit);

/* --- reading operands */
/* dtypes whose slots take 8 bytes. */
#define TS__WIDE_DTYPES                                                                            \
  (1ull << TS_DTYPE_f64 | 1ull << TS_DTYPE_s64 | 1ull << TS_DTYPE_u64 | 1ull << TS_DTYPE_ptr)
static inline bool ts__is_wide(uint8_t dtype) { return (TS__WIDE_DTYPES >> dtype & 1) != 0; }
static inline const uint32_t *ts__operand_words(const struct ts__warp *warp,
                                                const struct ts__operand *operand) {
  const uint32_t *base = operand->base == TS__BASE_REGS ? warp->regs : warp->program->constants;
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

/* Components to the little-endian words of memory that they make up, and back: word w of column k
 * is words[w * count + k], component i of column k is slots[i * count + k] (count: 32, or 1 for a
 * uniform value). The dtype's width must divide 32 or be 64. The last word is filled with zeros. */
struct ts__lane_ops;
void ts__words_of_slots(const struct ts__lane_ops *ops, uint32_t *words, const void *slots,
                        uint8_t dtype, uint32_t lanes, uint32_t count);
void ts__slots_of_words(const struct ts__lane_ops *ops, void *slots, const uint32_t *words,
                        uint8_t dtype, uint32_t lanes, uint32_t count);
/* The element of less than 32 bits at a bit of every lane's word. */
void ts__slots_of_field(const struct ts__lane_ops *ops, uint32_t *slots, const uint32_t *word,
                        uint32_t shift, uint8_t dtype);

/* --- loops over the slots of a warp, by instruction set (lane_loops.h) */
struct ts__access;
struct ts__lane_ops {
  /* values[i] to the 32 slots of component i */
  void (*splat32)(uint32_t *dst, const uint32_t *values, uint32_t components);
  void (*splat64)(uint64_t *dst, const uint64_t *values, uint32_t components);
  /* slots of active lanes replace those of dst */
  void (*blend32)(uint32_t *dst, const uint32_t *slots, uint32_t components, uint32_t active);
  void (*blend64)(uint64_t *dst, const uint64_t *slots, uint32_t components, uint32_t active);
  /* one component: p ? a : b */
  void (*select32)(uint32_t *dst, const uint32_t *p, const uint32_t *a, const uint32_t *b);
  void (*select64)(uint64_t *dst, const uint32_t *p, const uint64_t *a, const uint64_t *b);
  /* one component: dst[l] = slots[source[l]], source below 32; no overlap */
  void (*permute32)(uint32_t *dst, const uint32_t *slots, const uint32_t *source);
  /* lane[l] = base + index[l] * scale, and everything of the access down to is_affine; the mask is
   * given. address_done: the lanes are given as well. */
  void (*address_s32)(struct ts__access *access, uint64_t base, int64_t scale,
                      const uint32_t *index);
  void (*address_u32)(struct ts__access *access, uint64_t base, int64_t scale,
                      const uint32_t *index);
  void (*address_done)(struct ts__access *access);
  /* components of 4, 8 or 16 bits (index: log2) from words and to words, zero-extended */
  void (*unpack[5])(uint32_t *slots, const uint32_t *words, uint32_t lanes);
  void (*pack[5])(uint32_t *words, const uint32_t *slots, uint32_t lanes);
  /* one field in every lane's word, zero-extended; insert: of active lanes */
  void (*field)(uint32_t *slots, const uint32_t *word, uint32_t shift, uint32_t field_mask);
  void (*insert)(uint32_t *word, const uint32_t *slots, uint32_t shift, uint32_t field_mask,
                 uint32_t active);
  void (*sign_extend)(uint32_t *slots, uint32_t components, uint32_t bits);
  /* words[w * 32 + l] <-> word w at pointers[l]; stores only for the lanes of the mask */
  void (*load_words)(uint32_t *words, uint8_t *const *pointers, uint32_t word_count);
  void (*store_words)(const uint32_t *words, uint8_t *const *pointers, uint32_t word_count,
                      uint32_t mask);
};
extern const struct ts__lane_ops ts__lane_ops_portable, ts__lane_ops_avx2, ts__lane_ops_avx512;
const struct ts__lane_ops *ts__lane_ops_find(enum ts_isa isa); /* the best up to isa (operand.c) */

/* --- accesses of global and shared memory (exec_memory.c) */
struct ts__access {
  _Alignas(64) uint64_t lane[TS__LANES]; /* addresses; lanes outside the mask repeat one inside */
  uint64_t low, high;                    /* lowest and highest address of a lane */
  uint64_t bits;                         /* or of all addresses */
  uint64_t first;                        /* is_affine: lane l is at first + l * stride */
  int64_t stride;
  bool is_affine;
  uint32_t mask;       /* active lanes that may proceed */
  uint32_t size_bytes; /* of a lane */
  uint8_t *origin;     /* host pointer to `low`; NULL: every lane has its own object */
};
/* Addresses and size of the memory operand (operands 0 and 1) of all active lanes, unchecked. */
void ts__access_addresses(const struct ts__warp *warp, const struct ts__code *code,
                          struct ts__access *access);
/* Addresses of the memory operand (operands 0 and 1) with bounds, alignment and (shared) in-flight
 * checks; faults have been reported and those lanes taken out of the mask. NEXT, or FAULT when the
 * run stops. */
enum ts__step ts__resolve(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                          bool is_write, struct ts__access *access);
uint8_t *ts__access_pointer(const struct ts__warp *warp, enum ts_space space,
                            const struct ts__access *access, uint32_t lane);
enum ts_status ts__emit_memory(struct ts__warp *warp, const struct ts__code *code,
                               enum ts_space space, bool is_write, const struct ts__access *access);

/* --- hazards (hazard.c): report with the instruction's place, mark the block; answer the step that
 * stops or continues the run (options->stop_at_first_hazard). */
enum ts__step ts__hazard(struct ts__warp *warp, const struct ts__code *code, enum ts_diag_code kind,
                         uint32_t lane, uint32_t other_insn, const char *hint, const char *format,
                         ...) __attribute__((format(printf, 7, 8)));
enum ts__step ts__fault_memory(struct ts__warp *warp); /* out of memory */
/* The same from outside an instruction: the lane may be TS_NONE. */
enum ts__step ts__hazard_at(struct ts__warp *warp, uint32_t insn, enum ts_diag_code kind,
                            uint32_t lane, uint32_t other_insn, const char *hint,
                            const char *format, ...) __attribute__((format(printf, 7, 8)));
/* What a function answers after checks that may have reported: FAULT when the run is to stop. */
static inline enum ts__step ts__after_checks(const struct ts__warp *warp) {
  return warp->block->status == TS_OK ? TS__STEP_NEXT : TS__STEP_FAULT;
}
/* "shared 0x8 (mbarrier + 8)": the address with the object that holds it. */
const char *ts__shared_text(const struct ts__block *block, uint64_t address, char *text,
                            size_t size_bytes);
/* Checks only for operations in flight (the range is inside the window). */
bool ts__shared_settled(struct ts__warp *warp, uint32_t insn, uint32_t lane, uint64_t address,
                        uint64_t size_bytes, bool is_write);
/* exec_wgmma.c: the instruction of a wgmma in flight, of any warp, that reads the shared range;
 * TS_NONE when there is none. */
uint32_t ts__wgmma_reads(const struct ts__block *block, uint64_t address, uint64_t size_bytes,
                         uint32_t *warp);

/* --- matrix instructions (matrix.c: what they share) */
struct ts__matrix_info {
  bool is_known; /* the rest has been filled */
  const struct ts_mma_op *op;
  uint32_t m, n, k;
  uint32_t a_k;      /* elements of a row of A: k, or k / 2 of sparse products */
  uint32_t selector; /* sparse: which lanes have the metadata */
  bool is_sparse;
  bool a_is_k_major, b_is_k_major;
  unsigned flags; /* enum ts_mma_flag without TS_MMA_ZERO_C */
};
/* Prepared B operands of one worker: the warps of a block that multiply with the same bytes of
 * shared memory share them. */
enum { TS__PANEL_STEPS = 8, TS__PANEL_COLUMNS = 256 };
struct ts__panel {
  const struct ts_mma_op *op; /* NULL: empty */
  uint32_t n, steps;
  unsigned flags;
  bool is_k_major;
  uint64_t descriptors[TS__PANEL_STEPS];
  uint64_t version, block, last_use; /* version of the shared bytes; block of the launch */
  struct ts_mma_scratch *scratch;    /* holds B, and A of the last product */
};
enum { TS__PANEL_COUNT = 16 };
struct ts__matrix_cache {
  const struct ts_allocator *allocator;
  const struct ts__program *program; /* that infos belongs to */
  uint32_t launch_index;
  TS_VEC(struct ts__matrix_info) infos; /* by instruction */
  struct ts__panel panels[TS__PANEL_COUNT];
  uint64_t use_count;
};
/* What the instruction multiplies; NULL after a report (unknown to the machine's arithmetic). */
const struct ts__matrix_info *ts__matrix_info(struct ts__warp *warp, const struct ts__code *code,
                                              enum ts_mma_path path);
void ts__matrix_cache_free(struct ts__matrix_cache *cache); /* NULL is fine */
/* Rows of 32 lane words: register `index` (in elements of the dtype) of the array operand, whose
 * index is the next operand. NULL after a report. */
uint32_t *ts__fragment(struct ts__warp *warp, const struct ts__code *code, uint32_t operand,
                       enum ts_dtype dtype, uint32_t word_count);
/* As ts__fragment, but when the array ends early the report is followed by the part that there is:
 * *word_count is lowered. */
uint32_t *ts__fragment_part(struct ts__warp *warp, const struct ts__code *code, uint32_t operand,
                            enum ts_dtype dtype, uint32_t *word_count);
/* The accumulator words take product + accumulator, or with zero the product alone. */
void ts__matrix_multiply(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                         uint32_t steps, uint32_t *accumulator, bool zero);
/* Registers of a warp's mma: rows of 32 lane words, and the arrays that they are in. */
struct ts__mma_registers {
  uint32_t *a, *b, *c;
  uint32_t a_words, b_words, c_words;
  uint32_t a_array, b_array, c_array;
};
/* Defers the m16n8 product, all lanes taking part, into the warp's batch; the arrays of C and of A
 * and B must differ. false when memory is short. */
bool ts__mma_defer(struct ts__warp *warp, const struct ts__matrix_info *info,
                   const struct ts__mma_registers *registers);
/* The event may have what it waits for and bytes of shared memory. */
enum ts_status ts__matrix_emit(struct ts__warp *warp, const struct ts__code *code,
                               const struct ts__matrix_info *info, uint32_t rows,
                               struct ts_event event);
/* The same as an instruction that does nothing else. */
enum ts__step ts__matrix_tell(struct ts__warp *warp, const struct ts__code *code,
                              const struct ts__matrix_info *info, uint32_t rows);
/* Checks a shared range; answers true when the access may proceed (hazards have been reported). */
bool ts__shared_readable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         uint64_t address, uint64_t size_bytes);
bool ts__shared_writable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         uint64_t address, uint64_t size_bytes);

/* --- barriers (exec_barrier.c) */
struct ts__mbarrier *ts__mbarrier_find(const struct ts__block *block,
                                       uint32_t address); /* NULL: none */
/* When nobody can go on: lets warps pass whose phase has completed but was followed by others before
 * they looked, so that the parity hides it. Hardware wakes waiters in time in practice, though
 * nothing promises it; answers whether there were any, after a remark for each. */
bool ts__mbarrier_release(struct ts__block *block);
/* ARRIVE events of arrivals that are about to happen, one for each phase that they are in. */
enum ts_status ts__mbarrier_emit_arrivals(struct ts__warp *warp, const struct ts__code *code,
                                          const struct ts__block *block,
                                          const struct ts__mbarrier *mbarrier, uint32_t arrivals,
                                          uint64_t bytes);
/* Transactions done (TMA): may complete the phase. */
void ts__mbarrier_complete_tx(struct ts__block *block, uint32_t address, uint64_t bytes);
void ts__mbarrier_arrive(struct ts__block *block, uint32_t address, uint32_t count, uint64_t warps);
/* A warp has ended or its lanes exited: barriers that waited for all may open. */
void ts__barrier_thread_exit(struct ts__block *block);
uint32_t ts__living_threads(const struct ts__block *block);

/* --- tensor memory (exec_tensor.c): of a block whose program has_tensor */
enum ts_status ts__tensor_init(struct ts__block *block);
void ts__tensor_free(const struct ts_allocator *allocator, struct ts__tensor *tensor);
void ts__tensor_reset(struct ts__block *block);
struct ts_shared_memory *ts__tensor_columns(struct ts__tensor *tensor);
/* What warps have waited for, of shared and of tensor memory: as the functions of mem.h. */
static inline void ts__observe_sync(struct ts__block *block, uint32_t address, uint64_t phases,
                                    uint64_t warps) {
  ts_pending_observe_sync(&block->shared, address, phases, warps);
  if (block->tensor)
    ts_pending_observe_sync(ts__tensor_columns(block->tensor), address, phases, warps);
}
static inline void ts__flow(struct ts__block *block, uint64_t from_warps, uint64_t to_warps) {
  ts_pending_flow(&block->shared, from_warps, to_warps);
  if (block->tensor) ts_pending_flow(ts__tensor_columns(block->tensor), from_warps, to_warps);
}

/* --- clusters (exec_cluster.c) */
/* Opens the block's groups when all living threads have arrived. */
void ts__group_thread_exit(struct ts__block *block);
/* The block of the rank in the warp's cluster, or NULL after a report. */
struct ts__block *ts__cluster_block(struct ts__warp *warp, const struct ts__code *code,
                                    uint32_t lane, uint64_t rank);
/* Bounds, and races with what is in flight, of a write to shared memory of another block of the
 * cluster (or of its own); false after a report. */
bool ts__remote_writable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         struct ts__block *block, uint64_t address, uint64_t size_bytes);

/* What a blocked warp waits for, one line for the deadlock report. */
void ts__wait_describe(const struct ts__warp *warp, char *text, size_t size_bytes);

/* The initialised mbarrier, or NULL after a report. */
struct ts__mbarrier *ts__mbarrier_require(struct ts__warp *warp, const struct ts__code *code,
                                          uint32_t lane, uint64_t address);
/* The same in another block of the cluster. */
struct ts__mbarrier *ts__mbarrier_require_in(struct ts__warp *warp, const struct ts__code *code,
                                             uint32_t lane, struct ts__block *block,
                                             uint64_t address);
/* expect_tx by `bytes` when they are to be expected, then one arrival, by a warp of another block. */
enum ts__step ts__mbarrier_arrive_from(struct ts__warp *warp, const struct ts__code *code,
                                       uint32_t lane, struct ts__block *block, uint64_t address,
                                       uint64_t bytes, bool expects);

/* --- boxes of tensor maps (tma.c): bytes only, no asynchrony */
struct ts__box {
  const struct ts_tensormap *map;
  int32_t coordinate[TS_TENSORMAP_MAX_RANK]; /* innermost first; is_gather: column, four rows */
  uint32_t offset[2];                        /* im2col: added to w and h of every pixel */
  uint64_t shared_address;
  bool is_gather; /* four rows of the box's width, each where its coordinate says */
};
enum ts__box_fault {
  TS__BOX_FINE,
  TS__BOX_OUTSIDE, /* the map says inside, but the allocation is smaller: such rows are left out */
  TS__BOX_NEGATIVE /* a store at a negative coordinate: nothing was done */
};
/* Shared bytes that a box takes; 0 when the map cannot be walked (interleaved, zero or huge box). */
uint64_t ts__box_bytes(const struct ts_tensormap *map);
enum { TS__GATHERED_ROWS = 4 };
enum ts_dtype ts__box_dtype(const struct ts_tensormap *map);
/* Physical shared address: the XOR of the swizzle works on address bits 4-6 with bits 7-9. */
static inline uint64_t ts__swizzle(uint64_t address, uint32_t swizzle) {
  return address ^ (address >> 3 & (((uint64_t)1 << swizzle) - 1) << 4);
}
enum ts__box_fault ts__box_load(const struct ts_device_memory *memory,
                                struct ts_shared_memory *shared, const struct ts__box *box);
/* reduce: enum ts_ir_reduce, none for a plain store. */
enum ts__box_fault ts__box_store(const struct ts_device_memory *memory,
                                 const struct ts_shared_memory *shared, const struct ts__box *box,
                                 enum ts_ir_reduce reduce);
/* Calls for the global bytes of every row of the box that lie inside of tensor and allocation. */
void ts__box_visit(const struct ts_device_memory *memory, const struct ts__box *box,
                   void (*visit)(void *user, uint64_t address, uint64_t size_bytes), void *user);
/* dst[i] = reduce(dst[i], src[i]) over count packed elements (at most TS__REDUCE_MAX). false when
 * the reduction is not defined for the dtype (count 0 asks for just that). */
enum { TS__REDUCE_MAX = 2048 };
bool ts__reduce_packed(enum ts_ir_reduce reduce, enum ts_dtype dtype, void *dst, const void *src,
                       size_t count);

/* --- asynchronous operations (async.c: queue and groups; exec_async.c: instructions) */
enum ts__copy_kind {
  TS__COPY_CP_ASYNC,
  TS__COPY_CP_ARRIVE,
  TS__COPY_TMA_LOAD,
  TS__COPY_TMA_STORE,
  TS__COPY_BULK_LOAD,
  TS__COPY_BULK_STORE,
  TS__COPY_CLUSTER /* bulk, from shared memory to that of a block of the cluster */
};
/* Operands of an asynchronous operation, until it is done and, when a group holds it, waited for. */
struct ts__copy {
  struct ts__copy *next; /* in its warp's list of groups, or of free ones */
  const struct ts__code *code;
  enum ts__copy_kind kind;
  uint32_t warp, lanes; /* lanes that issued it and have not waited for it */
  uint32_t group;       /* number of groups its lanes had closed */
  bool is_delivered, is_grouped;
  uint32_t record;
  uint64_t ticket;
  uint32_t mbarrier;
  bool is_remote, is_repeated; /* for another block; not the first block of a multicast */
  struct ts__block *to; /* whose shared memory and mbarrier a load is for; the warp's own block but
                           for copies within the cluster */
  uint64_t size_bytes;  /* per lane for cp.async */
  uint64_t cause;       /* 1 + seq of its COPY event */
  enum ts_ir_reduce reduce;
  enum ts_dtype elem;
  struct ts__box box;      /* tensor map copies */
  uint64_t global, shared; /* bulk copies */
  uint64_t source;         /* TS__COPY_CLUSTER: in the warp's own shared memory */
  uint32_t copy_lanes;     /* cp.async: lanes that copy; */
  uint32_t zero_lanes;     /* these write zeros */
  uint64_t lane_global[TS__LANES];
  uint32_t lane_shared[TS__LANES];
};
struct ts__copy *ts__copy_new(struct ts__warp *warp, const struct ts__code *code,
                              enum ts__copy_kind kind); /* NULL when memory is short */
/* Puts it in the queue (the eager schedule delivers at once); group copies also in the list of the
 * warp. The copy belongs to the queue from here on. */
enum ts_status ts__copy_issue(struct ts__warp *warp, struct ts__copy *copy);
/* A copy to another block waits until that one has initialised the mbarrier, as copies that come
 * early are not lost in practice (nothing promises it). */
static inline bool ts__copy_is_awaited(const struct ts__copy *copy) {
  return !copy || !copy->is_remote || ts__mbarrier_find(copy->to, copy->mbarrier) != NULL;
}
/* Moves the bytes: exec_async.c. */
enum ts_status ts__copy_deliver(struct ts__block *block, struct ts__copy *copy);
enum ts__async_groups { TS__GROUPS_CP_ASYNC, TS__GROUPS_BULK, TS__GROUPS_COUNT };
/* Number of groups a lane has closed. */
uint32_t ts__groups_closed(const struct ts__warp *warp, enum ts__async_groups groups,
                           uint32_t lane);
/* The lanes whose open group has the number of the first one's. */
uint32_t ts__groups_alike(const struct ts__warp *warp, enum ts__async_groups groups,
                          uint32_t lanes);
void ts__groups_close(struct ts__warp *warp, enum ts__async_groups groups);
/* Active lanes wait until at most allowed[lane] groups are in flight. Never blocks: delivers. */
enum ts_status ts__groups_wait(struct ts__warp *warp, enum ts__async_groups groups,
                               const uint64_t allowed[TS__LANES]);
/* The records of the lanes' cp.async so far become visible through a phase of the mbarrier. */
void ts__groups_tell(struct ts__warp *warp, uint32_t lanes, uint64_t before_ticket,
                     uint32_t mbarrier, uint64_t phase);

/* An op with this `after` waits for all earlier cp.async of its warp. */
#define TS__AFTER_CP_ASYNC UINT64_MAX
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

/* Does the deferred mma. */
void ts__mma_flush(struct ts__warp *warp);
/* wgmma: true when words [first, first + count) of a lane's local arrays hold a pending accumulator (or
 * an A operand in use, for writes); reports the hazard. Called by ld.local, st.local, mma,
 * ldmatrix only when ts__wgmma_in_flight; it also does the deferred mma first. */
static inline bool ts__wgmma_in_flight(const struct ts__warp *warp) {
  return (warp->wgmma_count | warp->deferred_count) != 0;
}
bool ts__wgmma_conflict(struct ts__warp *warp, const struct ts__code *code, uint32_t first_word,
                        uint32_t word_count, bool is_write);

/* --- events: no-ops when the sink is ts_sink_null */
static inline bool ts__listening(const struct ts__block *block) {
  return block->program->options->sink != &ts_sink_null;
}
/* LAUNCH, BLOCK and END of those: block is UINT32_MAX for the launch itself. */
enum ts_status ts__emit_agent(const struct ts__program *program, uint32_t block,
                              enum ts_event_kind kind, uint64_t work, uint64_t bytes);
/* Fills block, warp, insn, op, dtype, launch and, unless it is given, mask, and emits. Without code:
 * an event of the warp itself. */
/* What event.cause says of an event that acts on the block. */
static inline uint64_t ts__event_target(const struct ts__warp *warp,
                                        const struct ts__block *block) {
  return block == warp->block ? 0 : (uint64_t)block->index + 1;
}
enum ts_status ts__emit(struct ts__warp *warp, const struct ts__code *code, struct ts_event event,
                        const struct ts_footprint *footprint);

#endif
