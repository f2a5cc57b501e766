/* The IR: modules of functions of basic blocks over typed virtual registers.
 *
 * Job: hold lowered tile kernels of any front end, structured or not, so that one interpreter runs
 * them. Owner: everything lives in the module's arena. Boundary: no memory contents, no machine.
 *
 * Registers may be assigned more than once. A write concerns the active lanes only. A register is
 * *uniform* when all lanes that may read it see one value; it is then stored and computed once per
 * warp (ts_analyze_uniform finds them). Blocks belong to *regions*, a tree: region 0 is the
 * function; every arm of a cbr and every loop body is a region of its own. docs/ir.md is the
 * specification, with the text form. */
#ifndef TS_IR_IR_H
#define TS_IR_IR_H

#include "base/diag.h"
#include "base/intern.h"
#include "ir/type.h"

#define TS_NONE UINT32_MAX

enum { TS_MAX_OPERANDS = 12 }; /* of an instruction */

enum ts_op {
#define OP(name, mnemonic, stratum, unit, has_dst, operands, flags, synopsis) TS_OP_##name,
#include "ir/op.def"
#undef OP
  TS_OP_COUNT
};

enum ts_attr_id {
#define ATTR(name, text, kind, synopsis) TS_ATTR_##name,
#include "ir/attr.def"
#undef ATTR
  TS_ATTR_COUNT
};

enum ts_op_flag {
  F_PURE = 1,
  F_MEM = 2,
  F_ASYNC = 4,
  F_SYNC = 8,
  F_TERM = 16,
  F_COLLECTIVE = 32,
  F_VARYING = 64
};

enum ts_unit {
  TS_UNIT_MOVE,
  TS_UNIT_MATRIX,
  TS_UNIT_SCALAR,
  TS_UNIT_SPECIAL,
  TS_UNIT_SYNC,
  TS_UNIT_CTRL,
  TS_UNIT_MEMORY
};

enum ts_stratum { TS_STRATUM_ANY, TS_STRATUM_TILE, TS_STRATUM_LANE, TS_STRATUM_PIPE };

/* The row of op.def. */
struct ts_op_info {
  const char *name, *mnemonic;
  enum ts_stratum stratum;
  enum ts_unit unit;
  bool has_dst;
  const char *operands;
  unsigned flags;
  const char *synopsis;
};
const struct ts_op_info *ts_op_info(enum ts_op op);
/* A product of wgmma; its rows in op.def follow one another. */
static inline bool ts_op_is_wgmma(uint16_t op) {
  return op >= TS_OP_wgmma_ss && op <= TS_OP_wgmma_sp_rs;
}
const char *ts_attr_text(enum ts_attr_id id);

/* How an attribute's value is written: the kind column of attr.def. */
enum ts_attr_kind {
  TS_ATTR_KIND_INT,
  TS_ATTR_KIND_SREG,
  TS_ATTR_KIND_MODE,
  TS_ATTR_KIND_REDUCE,
  TS_ATTR_KIND_ROUND,
  TS_ATTR_KIND_DTYPE
};
enum ts_attr_kind ts_attr_kind(enum ts_attr_id id);
/* The word for a value of such an attribute; NULL for numbers and values out of range. */
const char *ts_attr_value_text(enum ts_attr_id id, int64_t value);

enum ts_sreg {
  TS_SREG_tid_x,
  TS_SREG_tid_y,
  TS_SREG_tid_z,
  TS_SREG_ctaid_x,
  TS_SREG_ctaid_y,
  TS_SREG_ctaid_z,
  TS_SREG_ntid_x,
  TS_SREG_ntid_y,
  TS_SREG_ntid_z,
  TS_SREG_nctaid_x,
  TS_SREG_nctaid_y,
  TS_SREG_nctaid_z,
  TS_SREG_laneid,
  TS_SREG_warpid,
  TS_SREG_cluster_ctarank,
  TS_SREG_activemask,
  TS_SREG_COUNT
};

enum ts_ir_round {
  TS_IR_ROUND_rn,
  TS_IR_ROUND_rz,
  TS_IR_ROUND_rm,
  TS_IR_ROUND_rp,
  TS_IR_ROUND_rna
};

/* The words of their states: num/random.h. */
enum ts_ir_generator { TS_IR_GENERATOR_philox, TS_IR_GENERATOR_xorwow, TS_IR_GENERATOR_mrg32k3a };
enum { TS_IR_GENERATOR_WORDS = 8 };

enum ts_ir_mode {
  TS_IR_MODE_idx,
  TS_IR_MODE_up,
  TS_IR_MODE_down,
  TS_IR_MODE_bfly,
  TS_IR_MODE_any,
  TS_IR_MODE_all,
  TS_IR_MODE_ballot,
  TS_IR_MODE_popc,
  TS_IR_MODE_and,
  TS_IR_MODE_or
};

enum ts_ir_reduce {
  TS_IR_REDUCE_none,
  TS_IR_REDUCE_add,
  TS_IR_REDUCE_min,
  TS_IR_REDUCE_max,
  TS_IR_REDUCE_and,
  TS_IR_REDUCE_or,
  TS_IR_REDUCE_xor,
  TS_IR_REDUCE_inc,
  TS_IR_REDUCE_dec,
  TS_IR_REDUCE_exch,
  TS_IR_REDUCE_cas,
  TS_IR_REDUCE_load,
  TS_IR_REDUCE_store
};

enum ts_operand_kind {
  TS_OPERAND_REG,       /* index: register */
  TS_OPERAND_IMM,       /* index: constant pool; the encoding, all lanes and components alike */
  TS_OPERAND_ARRAY,     /* index: local array */
  TS_OPERAND_SHARED,    /* index: shared object; value: its byte address in the block (u32) */
  TS_OPERAND_BLOCK,     /* index: block */
  TS_OPERAND_TENSORMAP, /* index: parameter */
  TS_OPERAND_TEXT       /* index: string of the function */
};

struct ts_operand {
  uint32_t kind; /* enum ts_operand_kind */
  uint32_t index;
};

struct ts_attr {
  uint32_t id; /* enum ts_attr_id */
  int64_t value;
};

struct ts_insn {
  uint16_t op;          /* enum ts_op */
  uint8_t dtype, lanes; /* the type worked in: of dst, or of the value stored or compared */
  uint8_t dtype2;       /* second type: source of cvt and bitcast, A of mma; else == dtype */
  uint8_t operand_count, attr_count, reserved;
  uint32_t dst;      /* register or TS_NONE */
  uint32_t operands; /* first one in function->operands */
  uint32_t attrs;    /* first one in function->attrs */
  uint32_t place;    /* index in module->places; 0 = unknown */
  uint32_t block;    /* the block it belongs to */
};

struct ts_reg {
  struct ts_type type;
  bool is_uniform; /* set by ts_analyze_uniform */
  uint8_t reserved;
  const char *name; /* or NULL */
};

/* An array in each lane's registers (TIR scope "local"). Little-endian bytes; element i of a dtype
 * of 4-bit or more starts at bit i * bits. */
struct ts_array {
  const char *name;
  uint8_t dtype; /* declared element type */
  uint64_t elem_count;
  uint64_t size_bytes; /* rounded up to 4 */
};

enum ts_shared_kind { TS_SHARED_STATIC, TS_SHARED_DYNAMIC, TS_SHARED_BARRIER };

/* A shared memory object. Static ones and barriers are laid out by ts_function_finish; there is at
 * most one dynamic one and it starts after them at a multiple of 1024 bytes, with the size given at
 * launch. Typed views of it are plain address arithmetic. */
struct ts_shared {
  const char *name;
  enum ts_shared_kind kind;
  uint8_t dtype;
  uint32_t align_bytes;
  uint64_t size_bytes; /* dynamic: the size the kernel declares */
  uint64_t address;    /* byte address in the block's shared window */
};

enum ts_param_kind { TS_PARAM_POINTER, TS_PARAM_TENSORMAP, TS_PARAM_SCALAR };

struct ts_param {
  const char *name;
  enum ts_param_kind kind;
  uint8_t dtype; /* pointee, or the scalar's */
  uint32_t reg;  /* register that holds it at entry (uniform); TS_NONE for tensor maps */
};

struct ts_block {
  uint32_t first_insn, insn_count; /* the last one is a terminator */
  uint32_t region;
};

struct ts_region {
  uint32_t parent; /* TS_NONE for region 0 */
  uint32_t head;   /* block whose cbr controls entry to (and, for loops, stay in) the region */
};

struct ts_function {
  struct ts_module *module;
  const char *name;
  TS_VEC(struct ts_param) params;
  TS_VEC(struct ts_reg) regs;
  TS_VEC(struct ts_array) arrays;
  TS_VEC(struct ts_shared) shared;
  TS_VEC(struct ts_block) blocks;
  TS_VEC(struct ts_region) regions;
  TS_VEC(struct ts_insn) insns; /* grouped by block; an instruction's id is its index */
  TS_VEC(struct ts_operand) operands;
  TS_VEC(struct ts_attr) attrs;
  TS_VEC(uint64_t) constants;
  TS_VEC(const char *) texts;
  uint32_t entry;            /* block */
  uint32_t cluster[3];       /* blocks of a cluster, 1 when none */
  uint32_t thread_extent[3]; /* block size the kernel was compiled for, 0 = not stated */
  uint64_t static_shared_bytes;
  uint64_t dynamic_shared_address;
  const char *arch; /* "sm_90", or NULL */
  bool fast_math;   /* compiled with --use_fast_math */
};

struct ts_module {
  struct ts_arena arena;
  struct ts_intern names;
  const struct ts_allocator *allocator;
  TS_VEC(struct ts_function *) functions;
  TS_VEC(struct ts_source_place) places; /* [0] is the unknown place */
};

/* A module, or NULL when memory is short. */
struct ts_module *ts_module_new(const struct ts_allocator *allocator);
void ts_module_free(struct ts_module *module); /* NULL is fine */
struct ts_function *ts_module_find(const struct ts_module *module, const char *name);

/* The attribute's value, or fallback when the instruction has none of that id. */
int64_t ts_insn_attr(const struct ts_function *function, const struct ts_insn *insn,
                     enum ts_attr_id id, int64_t fallback);
static inline const struct ts_operand *ts_insn_operand(const struct ts_function *function,
                                                       const struct ts_insn *insn, uint32_t i) {
  return &function->operands.data[insn->operands + i];
}
struct ts_source_place ts_insn_place(const struct ts_function *function, uint32_t insn);

/* Lays out shared memory, orders instructions by block and fills derived fields. Called once after
 * building, before verification. */
enum ts_status ts_function_finish(struct ts_ctx *ctx, struct ts_function *function);

/* Checks every invariant the interpreter relies on: operand kinds and counts, types, one terminator
 * per block, targets and regions, array and shared indices, attributes an op needs. */
enum ts_status ts_verify(struct ts_ctx *ctx, const struct ts_function *function);

/* Marks uniform registers. */
enum ts_status ts_analyze_uniform(struct ts_ctx *ctx, struct ts_function *function);

/* Optional passes, in this order (front ends that import code which nvcc would have optimised call
 * them): promotes local arrays that are only used with constant indices to registers; merges a
 * multiplication into the addition that uses it as nvcc does (docs/ir.md);
 * drops unused pure instructions. */
enum ts_status ts_pass_promote_arrays(struct ts_ctx *ctx, struct ts_function *function);
enum ts_status ts_pass_contract(struct ts_ctx *ctx, struct ts_function *function);
enum ts_status ts_pass_drop_dead(struct ts_ctx *ctx, struct ts_function *function);

/* The text form; parse(print(m)) == m. The text ends in a NUL that size_bytes does not count, and is
 * allocated with the module's allocator (size_bytes + 1 bytes). ts_parse_module verifies every
 * function; it makes the module with ctx->allocator. */
enum ts_status ts_print_module(struct ts_ctx *ctx, const struct ts_module *module, char **text,
                               size_t *size_bytes);
enum ts_status ts_parse_module(struct ts_ctx *ctx, const char *path, const char *text,
                               size_t size_bytes, struct ts_module **module);

#endif
