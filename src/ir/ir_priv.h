/* Shared by the files of src/ir only. */
#ifndef TS_IR_IR_PRIV_H
#define TS_IR_IR_PRIV_H

#include "ir/build.h"
#include "ir/ir.h"

enum {
  TS__MAX_ARRAY_BYTES = 512 << 10, /* local memory of a thread (DOC, CUDA C Programming Guide) */
  TS__MAX_SHARED_BYTES = 1 << 30   /* the machine's own limit is checked at launch */
};

/* --- what op.def does not say */
bool ts__op_is_typed(enum ts_op op);         /* dtype and lanes mean something */
bool ts__op_has_second_dtype(enum ts_op op); /* dtype2 means something of its own */
struct ts_type ts__dst_type(enum ts_op op, enum ts_dtype dtype, uint32_t lanes, int64_t mode);
bool ts__operand_count_fits(const char *pattern, uint32_t count);
char ts__operand_letter(const char *pattern, uint32_t i);
/* Type expected of value operand i: a letter (verify.c, operand_types). */
char ts__type_letter(enum ts_op op, uint32_t i);
/* What an immediate there is an encoding of. TS_DTYPE_NONE where any integer will do: such an
 * immediate is signed, of 32 bits when it has no more (0xffffffff is -1). */
enum ts_dtype ts__imm_dtype(const struct ts_insn *insn, uint32_t i);

/* --- a hash index over items that live elsewhere: slots hold item numbers. Look up with
 *   for (at = ts__index_first(ix, hash); ts__index_at(ix, at, &item); at = ts__index_next(ix, at))
 * and compare the items; equal hashes are likely but not certain to be equal items. */
struct ts__index {
  struct ts__index_slot {
    uint32_t hash, item; /* item + 1; 0 is empty */
  } * slots;
  size_t slot_count, used_count; /* a power of two */
};
static inline size_t ts__index_first(const struct ts__index *index, uint32_t hash) {
  return index->slot_count ? hash & (index->slot_count - 1) : 0;
}
static inline size_t ts__index_next(const struct ts__index *index, size_t at) {
  return (at + 1) & (index->slot_count - 1);
}
/* Steps over slots of other hashes; false at the end of the chain. */
bool ts__index_find(const struct ts__index *index, uint32_t hash, size_t *at, uint32_t *item);
int ts__index_add(struct ts__index *index, const struct ts_allocator *allocator, uint32_t hash,
                  uint32_t item);
void ts__index_free(struct ts__index *index, const struct ts_allocator *allocator);
static inline uint32_t ts__hash_word(uint32_t hash, uint64_t word) {
  uint64_t mixed = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return (uint32_t)(mixed >> 32) ^ (uint32_t)mixed;
}

/* --- functions under construction (module.c) */
struct ts_function *ts__function_new(struct ts_module *module, const char *name); /* not listed */
void ts__function_free(struct ts_function *function);
const char *ts__name(struct ts_module *module, const char *text); /* interned; NULL: no memory */
/* Appends to a function or answers TS_NONE when memory is short. */
uint32_t ts__add_reg(struct ts_function *function, struct ts_type type, const char *name);
uint32_t ts__add_block(struct ts_function *function, uint32_t region);
uint32_t ts__add_region(struct ts_function *function, uint32_t parent, uint32_t head);
/* Appends an instruction with copies of operands and attributes; insn's own offsets and counts are
 * filled in. */
uint32_t ts__add_insn(struct ts_function *function, struct ts_insn insn,
                      const struct ts_operand *operands, uint32_t operand_count,
                      const struct ts_attr *attrs, uint32_t attr_count);

/* --- integer arithmetic on encodings (fold.c); false when it cannot or must not be folded */
bool ts__fold_int(enum ts_op op, enum ts_dtype dtype, const uint64_t *values, uint32_t count,
                  uint64_t *result);
bool ts__fold_cvt(enum ts_dtype dst, enum ts_dtype src, uint64_t value, uint64_t *result);
uint64_t ts__int_mask(enum ts_dtype dtype); /* the encoding with all bits set */
uint64_t ts__int_extend(enum ts_dtype dtype, uint64_t encoding); /* by the dtype's sign */

/* --- the builder (build*.c)
 *
 * Scopes are the function body, arms and loop bodies. A single-assignment register may be used
 * while the scope that its instruction was placed in is open. */
struct ts__scope {
  uint32_t depth;
  bool is_open;
};

/* A scope that is open now, by depth. */
struct ts__open_scope {
  uint32_t scope;
  uint32_t preheader; /* loops: where invariant instructions go; else TS_NONE */
};

struct ts__build_reg {
  uint32_t scope; /* of the defining instruction */
  uint32_t insn;  /* the defining instruction, TS_NONE for parameters and variables */
  bool is_variable;
  uint64_t assigned_at; /* variables: build->clock of the last assignment */
};

/* An instruction that equal ones may share. */
struct ts__numbered {
  uint32_t insn, scope;
  uint64_t made_at; /* build->clock */
};

enum ts__frame_kind { TS__FRAME_IF, TS__FRAME_CONSTANT_IF, TS__FRAME_LOOP };

struct ts__build_frame {
  enum ts__frame_kind kind;
  uint32_t cbr;    /* instruction; TS_NONE before ts_build_loop_while */
  uint32_t region; /* to return to */
  uint32_t loop_region;
  uint32_t header;    /* loops */
  uint32_t then_end;  /* ifs: last block of the first arm, once ts_build_else is called */
  uint32_t live_end;  /* constant ifs: block at the end of the arm that is taken */
  size_t first_break; /* loops: in build->breaks */
  bool has_else, was_dead, is_taken;
};

struct ts_build {
  struct ts_ctx *ctx;
  struct ts_module *module;
  struct ts_function *function;
  const struct ts_allocator *allocator;
  enum ts_status status; /* sticky */
  uint32_t block, region, place;
  bool is_dead;     /* code that no lane reaches: neither shared nor hoisted */
  uint64_t clock;   /* counts assignments and loop heads */
  uint64_t loop_at; /* clock of the last loop head: variables may change there */
  TS_VEC(struct ts__build_reg) regs;
  TS_VEC(struct ts__scope) scopes;
  TS_VEC(struct ts__open_scope) open;
  TS_VEC(struct ts__numbered) numbered;
  TS_VEC(struct ts__build_frame) frames;
  TS_VEC(uint32_t) breaks; /* br instructions of open loops */
  struct ts__index numbering, constants, texts, places;
};

/* Reports once and makes the builder answer harmlessly from now on. */
void ts__build_no_memory(struct ts_build *build);
void ts__build_misuse(struct ts_build *build, const char *what);
struct ts_operand ts__build_nothing(void);
uint32_t ts__build_reg_new(struct ts_build *build, struct ts_type type, uint32_t scope,
                           uint32_t insn);
uint32_t ts__build_append(struct ts_build *build, const struct ts_build_insn *insn, uint32_t dst,
                          uint32_t block);
uint32_t ts__build_scope(const struct ts_build *build); /* the innermost open one */
void ts__build_open_scope(struct ts_build *build, uint32_t preheader);
void ts__build_close_scope(struct ts_build *build);
/* A br from block to target, whatever the current block is. */
uint32_t ts__build_branch(struct ts_build *build, uint32_t block, uint32_t target);
/* The instruction that defines a register that cannot change, or NULL. */
const struct ts_insn *ts__build_definition(const struct ts_build *build, struct ts_operand operand);
bool ts__build_is_variable(const struct ts_build *build, struct ts_operand operand);
/* Drops blocks that cannot be reached, and regions that then have no head. */
enum ts_status ts__build_compact(struct ts_build *build);
/* True when the pure instruction is known without executing it. It may also rewrite insn and the
 * operands (room for TS_MAX_OPERANDS) into a cheaper or a canonical form. */
bool ts__build_simplify(struct ts_build *build, struct ts_build_insn *insn,
                        struct ts_operand *operands, struct ts_operand *result);

/* --- the text form (lex.c, parse.c) */
enum ts__token_kind {
  TS__TOKEN_END,
  TS__TOKEN_WORD,
  TS__TOKEN_NUMBER,
  TS__TOKEN_REG, /* %7 */
  TS__TOKEN_STRING,
  TS__TOKEN_MARK, /* one of { } = , : @ */
  TS__TOKEN_BAD
};

struct ts__token {
  enum ts__token_kind kind;
  const char *text;
  size_t length;
  uint64_t number; /* of numbers and registers, without the sign */
  bool is_negative;
  uint32_t line, column;
};

/* token is the one being looked at. */
struct ts__lexer {
  struct ts_ctx *ctx;
  const char *path, *at, *end, *line_start;
  uint32_t line;
  struct ts__token token;
};

struct ts__parser {
  struct ts_ctx *ctx;
  const struct ts_allocator *allocator;
  struct ts__lexer lexer;
  struct ts_module *module;
  struct ts_function *function;
  struct ts__index ops;
  TS_VEC(char) scratch;
  size_t reg_limit; /* registers that the rest of the text may have */
};

/* Reports "expected X, found Y" at the token. */
enum ts_status ts__lex_fail(struct ts__lexer *lx, const char *expected);
enum ts_status ts__lex_next(struct ts__lexer *lx);
bool ts__lex_is_word(const struct ts__lexer *lx, const char *word);
bool ts__lex_is_mark(const struct ts__lexer *lx, char mark);
/* These take the token when it is what they say, else they report. */
enum ts_status ts__lex_word(struct ts__lexer *lx, const char *word);
enum ts_status ts__lex_mark(struct ts__lexer *lx, char mark);
enum ts_status ts__lex_unsigned(struct ts__lexer *lx, uint64_t *value);
enum ts_status ts__lex_reference(struct ts__lexer *lx, char letter, uint32_t *index);
enum ts_status ts__lex_numbered(struct ts__lexer *lx, char letter, size_t number);
enum ts_status ts__parse_string(struct ts__parser *p, const char **string); /* interned */
enum ts_status ts__parse_reg(struct ts__parser *p, uint32_t *reg);
enum ts_status ts__parse_index_ops(struct ts__parser *p);
bool ts__parse_find_op(const struct ts__parser *p, const char *text, size_t length, uint32_t *op);

/* --- control flow graph (cfg.c), in an arena */
struct ts__cfg {
  const struct ts_function *function;
  uint32_t *pred_count; /* by block, from reachable blocks */
  uint32_t *pred;       /* by block: one predecessor, TS_NONE when there is none */
  uint32_t *idom;       /* immediate dominator; the entry's is itself; TS_NONE when unreachable */
  uint32_t *first_seen, *last_seen; /* numbers of a walk over the dominator tree */
};
int ts__cfg_init(struct ts__cfg *cfg, struct ts_arena *arena, const struct ts_function *function);
bool ts__cfg_dominates(const struct ts__cfg *cfg, uint32_t a, uint32_t b);
/* Targets of the block's terminator: 0, 1 or 2. */
uint32_t ts__block_targets(const struct ts_function *function, uint32_t block, uint32_t targets[2]);

/* --- rewriting a function instruction by instruction (rewrite.c)
 *
 * Begin takes the instructions away; the pass walks them block by block, copying or emitting others;
 * end puts the new ones in place, or the old ones back when something failed. */
struct ts__rewrite {
  struct ts_ctx *ctx;
  struct ts_function *function;
  struct ts_arena arena; /* scratch of the pass */
  struct ts__cfg cfg;
  enum ts_status status; /* sticky */
  struct ts_insn *old_insns;
  size_t old_count, old_capacity;
  uint32_t block, place; /* what emitted instructions get */
  struct ts__rewrite_reg {
    uint32_t def_count;   /* a parameter counts as one */
    uint32_t insn, block; /* new instruction that defines it, TS_NONE before it is emitted */
    bool is_replaced;
    struct ts_operand replacement;
    uint32_t replaced_in; /* block */
  } * regs;
  size_t reg_count, reg_capacity;
  struct ts__index components; /* extracts made, for sharing in a block */
  TS_VEC(uint32_t) component_insns;
  uint32_t small_constants[TS_MAX_VECTOR_LANES]; /* pool number + 1 */
};
enum ts_status ts__rewrite_begin(struct ts__rewrite *rw, struct ts_ctx *ctx,
                                 struct ts_function *function);
enum ts_status ts__rewrite_end(struct ts__rewrite *rw); /* frees what begin took */
/* Never redefined while a value copied from it is in use. */
bool ts__rewrite_is_stable(const struct ts__rewrite *rw, struct ts_operand operand);
/* dst = operand from here on: later uses that the current block dominates read the operand. */
void ts__rewrite_replace(struct ts__rewrite *rw, uint32_t dst, struct ts_operand operand);
struct ts_operand ts__rewrite_operand(const struct ts__rewrite *rw, struct ts_operand operand);
/* May the operand be written where the instruction reads the register? */
bool ts__rewrite_may_stand_for(const struct ts__rewrite *rw, const struct ts_insn *insn, uint32_t i,
                               uint32_t reg, struct ts_operand operand);
uint32_t ts__rewrite_variable(struct ts__rewrite *rw, struct ts_type type); /* TS_NONE: no memory */
/* Copies the operands of an old instruction, with replacements. */
void ts__rewrite_operands(const struct ts__rewrite *rw, const struct ts_insn *old,
                          struct ts_operand operands[TS_MAX_OPERANDS]);
void ts__rewrite_copy(struct ts__rewrite *rw, const struct ts_insn *old,
                      const struct ts_operand *operands);
/* An instruction of that type; dst TS_NONE makes a register. */
struct ts_operand ts__rewrite_emit(struct ts__rewrite *rw, enum ts_op op, struct ts_type type,
                                   uint32_t dst, const struct ts_operand *operands,
                                   uint32_t operand_count, const struct ts_attr *attrs,
                                   uint32_t attr_count);
struct ts_operand ts__rewrite_imm(struct ts__rewrite *rw, uint64_t encoding);
/* Component i of a vector, found through concats. */
struct ts_operand ts__rewrite_component(struct ts__rewrite *rw, struct ts_operand vector,
                                        struct ts_type type, uint32_t i);
/* The vector of scalar parts; an existing one when the parts are all its components. */
struct ts_operand ts__rewrite_gather(struct ts__rewrite *rw, struct ts_type type,
                                     const struct ts_operand *parts);
/* The new instruction that is the only one to define the register, or NULL. */
const struct ts_insn *ts__rewrite_definition(const struct ts__rewrite *rw,
                                             struct ts_operand operand);

/* --- values component by component, as a compiler that works on scalars sees them (values.c):
 * vectors are taken apart, moves seen through, equal pure computations are one value when one
 * dominates the other. For the contraction pass. */
enum ts__value_kind { TS__VALUE_OTHER, TS__VALUE_CONSTANT, TS__VALUE_PRODUCT, TS__VALUE_SUM };
enum { TS__NO_TERM = 2 };

struct ts__value {
  uint8_t kind; /* enum ts__value_kind */
  uint8_t component;
  uint8_t term;           /* sums: the operand that is merged, or TS__NO_TERM */
  bool is_used_otherwise; /* by something else than a sum that could take it */
  uint32_t insn;          /* that computes it, TS_NONE for constants and what comes from outside */
  uint32_t block;
  uint32_t args[3];   /* values; of products and sums in order */
  uint32_t first_use; /* in uses, + 1 */
  uint32_t use_count; /* products: as the assembler finds them (pass_contract.c) */
  uint32_t next_sum;  /* sums: the next one of the block */
  uint64_t recency;   /* grows with the loads that the value depends on */
};

struct ts__value_use {
  uint32_t sum;  /* value */
  uint32_t next; /* + 1 */
  uint8_t position;
};

struct ts__values {
  struct ts_arena *arena;
  const struct ts_function *function;
  struct ts__cfg cfg;
  TS_VEC(struct ts__value) values;
  TS_VEC(struct ts__value_use) uses;
  uint32_t *first_number; /* by register: in numbers */
  uint32_t *numbers;      /* value by register and component, TS_NONE none yet */
  uint32_t *insn_first; /* by instruction: in insn_values; TS_NONE when it computes no float sum */
  TS_VEC(uint32_t) insn_values;   /* values of the components of products and sums */
  uint32_t *def_count;            /* by register; a parameter counts as one */
  uint32_t *known_in;             /* by register with several definitions: block + 1 */
  uint32_t *first_sum, *last_sum; /* by block: values in order, TS_NONE none */
  struct ts__index index;
  uint64_t now, block_start;
  bool out_of_memory;
};
int ts__values_init(struct ts__values *v, struct ts_arena *arena,
                    const struct ts_function *function);
void ts__values_free(struct ts__values *v);
/* add, sub and mul of floats about which nothing but ftz is said. */
bool ts__is_plain_sum(const struct ts_function *function, const struct ts_insn *insn);
bool ts__is_plain_product(const struct ts_function *function, const struct ts_insn *insn);
bool ts__has_ftz(const struct ts_function *function, const struct ts_insn *insn);

/* --- uniform.c */
/* One value for the warp, as far as ts_analyze_uniform has found. */
bool ts__is_uniform(const struct ts_function *function, const struct ts_operand *operand);

#endif
