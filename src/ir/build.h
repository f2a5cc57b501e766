/* Builder: front ends make functions through it only.
 *
 * Pure instructions are folded (integer constants and identities; floats never), numbered (equal
 * ones are made once) and hoisted: they are placed in the outermost loop level where their operands
 * exist, so invariant address arithmetic runs once. Memory and other effects stay where they are
 * put. Errors are sticky: after the first failure the builder returns harmless operands, and
 * ts_build_end reports. */
#ifndef TS_IR_BUILD_H
#define TS_IR_BUILD_H

#include "ir/ir.h"

struct ts_build; /* owned by the caller between begin and end */

/* NULL when memory is short. */
struct ts_build *ts_build_begin(struct ts_ctx *ctx, struct ts_module *module, const char *name);
/* Closes the function (an exit is added when the last block is open), runs ts_function_finish and
 * ts_verify, and adds it to the module. Frees the builder in any case. */
enum ts_status ts_build_end(struct ts_build *build, struct ts_function **function);
void ts_build_abandon(struct ts_build *build);

struct ts_function *ts_build_function(struct ts_build *build);

/* The place that later instructions carry. */
void ts_build_place(struct ts_build *build, struct ts_source_place place);

uint32_t
ts_build_param(struct ts_build *build, enum ts_param_kind kind, const char *name,
               enum ts_dtype dtype); /* parameter index; its register: ts_build_param_reg */
struct ts_operand ts_build_param_reg(struct ts_build *build, uint32_t param);
struct ts_operand ts_build_tensormap(uint32_t param);
uint32_t ts_build_array(struct ts_build *build, const char *name, enum ts_dtype dtype,
                        uint64_t elem_count);
uint32_t ts_build_shared(struct ts_build *build, const char *name, enum ts_shared_kind kind,
                         enum ts_dtype dtype, uint32_t align_bytes, uint64_t size_bytes);
struct ts_operand ts_build_array_operand(uint32_t array);
struct ts_operand ts_build_shared_operand(uint32_t shared);
struct ts_operand ts_build_imm(struct ts_build *build, uint64_t encoding);
struct ts_operand ts_build_text(struct ts_build *build, const char *text);
/* A register that may be assigned several times with ts_build_assign (loop variables, scalars that
 * live across statements, values merged after an if). Instructions that read one stay where they
 * are put, so that in a loop over a variable i it pays to take k = ts_build_1(b, TS_OP_mov, type, i)
 * once at the start of the body and to use k: what depends on k only can leave inner loops. */
struct ts_operand ts_build_variable(struct ts_build *build, struct ts_type type, const char *name);
void ts_build_assign(struct ts_build *build, struct ts_operand variable, struct ts_operand value);

/* Constant value of an operand: true and *encoding when it is an immediate. */
bool ts_build_is_constant(const struct ts_build *build, struct ts_operand operand,
                          uint64_t *encoding);
/* Type of a register operand (immediates have none: lanes == 0). */
struct ts_type ts_build_type(const struct ts_build *build, struct ts_operand operand);

struct ts_build_insn {
  enum ts_op op;
  struct ts_type type;  /* insn dtype and lanes */
  enum ts_dtype dtype2; /* mma, wgmma: of A. cvt, bitcast: the source's, taken from the operand
                             itself when that is a register. Else unused */
  const struct ts_operand *operands;
  uint32_t operand_count;
  const struct ts_attr *attrs;
  uint32_t attr_count;
};
/* Appends, or finds an equal pure one; answers its dst register (or an immediate after folding), or
 * an operand of no meaning when the op has no dst. */
struct ts_operand ts_build_emit(struct ts_build *build, const struct ts_build_insn *insn);
/* Short forms without attributes. */
struct ts_operand ts_build_1(struct ts_build *build, enum ts_op op, struct ts_type type,
                             struct ts_operand a);
struct ts_operand ts_build_2(struct ts_build *build, enum ts_op op, struct ts_type type,
                             struct ts_operand a, struct ts_operand b);
struct ts_operand ts_build_3(struct ts_build *build, enum ts_op op, struct ts_type type,
                             struct ts_operand a, struct ts_operand b, struct ts_operand c);

/* Structured control. Regions and reconvergence are kept by these.
 *   if:    ts_build_if(b, pred); ...; ts_build_else(b); ...; ts_build_end_if(b);   (else optional)
 *   loop:  ts_build_loop(b);  (header: compute the condition)  ts_build_loop_while(b, pred);
 *          body;  ts_build_end_loop(b);                        loops while pred holds
 * ts_build_break leaves the innermost loop with the active lanes (only inside ifs of that loop).
 * A condition that is constant makes no branch; code that nobody reaches is dropped in the end.
 * An emitted exit ends the arm it is in. A concat may have any number of parts (it is split). */
void ts_build_if(struct ts_build *build, struct ts_operand pred);
void ts_build_else(struct ts_build *build);
void ts_build_end_if(struct ts_build *build);
void ts_build_loop(struct ts_build *build);
void ts_build_loop_while(struct ts_build *build, struct ts_operand pred);
void ts_build_end_loop(struct ts_build *build);
void ts_build_break(struct ts_build *build);

#endif
