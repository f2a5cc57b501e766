/* What a machine compiler makes of a function, as far as timing must know it: which registers an
 * instruction reads and writes, which instructions cost nothing, in which order a block's
 * instructions are issued, how many registers a thread takes.
 *
 * Job: a table that event files carry and timing models read; no cycles, no machine. Owner: the
 * arena given. The table is an estimate of code generation and says so: `ts_code` is derived from
 * the IR alone, never from a compiled kernel.
 *
 * Register slots number everything that a warp's scoreboard tracks: slot r < register count of the
 * function is virtual register r; then every 32-bit word of every local array that lives in
 * registers has a slot of its own; then come versions of such words that are overwritten later in
 * their block, each definition with slots of its own, as registers are renamed. */
#ifndef TS_IR_CODE_H
#define TS_IR_CODE_H

#include "ir/ir.h"

enum ts_code_flag {
  TS_CODE_FREE = 1,      /* no machine instruction: folded, renamed, or a move inside registers */
  TS_CODE_UNIFORM = 2,   /* one value for the warp: the uniform data path may do it */
  TS_CODE_ADDRESS = 4,   /* a memory instruction whose address is computed anew: one integer
                            multiply-add (64-bit for global) before it; cp.async: two */
  TS_CODE_SPILLED = 8,   /* array access with a dynamic index: goes through local memory */
  TS_CODE_BACKEDGE = 16, /* branch that closes a loop */
  TS_CODE_VOLATILE = 32, /* keeps its order among other volatile instructions (inline assembly) */
  TS_CODE_VARIABLE = 64, /* division or remainder by what is no constant of the code */
  TS_CODE_SWAPS = 128    /* atomic that is a loop of compare-and-swap */
};

/* What divergent control flow asks of an instruction. */
enum ts_code_control {
  TS_CODE_GUARDED =
      1, /* under a predicate, its last use; a branch: the predicate is no uniform one */
  TS_CODE_MEETS =
      2, /* branch at which lanes may part, or the end of a side: they meet at the join */
  TS_CODE_HAS_ELSE = 4 /* and there is something to do on both sides */
};

enum ts_code_approx {
  TS_CODE_APPROX_NONE,
  TS_CODE_APPROX_FLUSH,    /* one instruction of the special function unit, and a product */
  TS_CODE_APPROX_SUBNORMAL /* without fast math: a comparison and two products more */
};

/* Machine instructions by what executes them. */
enum ts_code_class {
  TS_CODE_CLASS_FP32,
  TS_CODE_CLASS_FP16,
  TS_CODE_CLASS_INT, /* integers, moves, comparisons, selections, minima, packing */
  TS_CODE_CLASS_SPECIAL,
  TS_CODE_CLASS_MATRIX,
  TS_CODE_CLASS_MEMORY, /* shuffles too */
  TS_CODE_CLASS_SYNC,
  TS_CODE_CLASS_CONTROL,
  TS_CODE_CLASS_COUNT
};

/* slots first .. first + count - 1 */
struct ts_code_ref {
  uint32_t first, count;
};

struct ts_code_insn {
  uint16_t op;                  /* enum ts_op */
  uint8_t dtype, lanes, dtype2; /* as in ts_insn */
  uint8_t flags;                /* enum ts_code_flag */
  uint16_t m, n,
      k; /* mma, wgmma: shape; ldmatrix, stmatrix: m = matrices; tmem.alloc: n = columns */
  uint16_t use_count, def_count; /* refs[first_ref ..]: the uses, then the definitions */
  uint32_t first_ref;
  uint32_t
      block; /* first one of its region: a block, with the small ifs after it that are predicates
                     and what follows them up to the next real branch */
  uint32_t rank;          /* place in its region's issue order, from 0 */
  uint8_t approx;         /* enum ts_code_approx: special functions, division */
  uint8_t control;        /* enum ts_code_control */
  uint16_t spilled_words; /* of a thread, stored to local memory and as many loaded before it */
};

struct ts_code {
  const struct ts_code_insn *insns; /* by instruction id */
  uint32_t insn_count;
  const struct ts_code_ref *refs;
  uint32_t ref_count;
  uint32_t slot_count;
  uint32_t block_count;
  uint32_t registers_per_thread; /* estimate, at least 16; setmaxnreg is respected */
  uint32_t
      spilled_words; /* estimate: what a thread wants beyond its registers; not in event files */
  uint64_t static_shared_bytes;
  uint32_t class_counts[TS_CODE_CLASS_COUNT]; /* machine instructions, loops not
                                                 unrolled; not in event files */
  uint32_t machine_insn_count; /* estimate of the code's length, for the instruction cache */
};

/* Derives the table. TS_NO_MEMORY. */
enum ts_status ts_code_estimate(struct ts_ctx *ctx, const struct ts_function *function,
                                struct ts_arena *arena, struct ts_code *code);

#endif
