/* How a launch's control flow and addresses depend on the block index.
 *
 * Job: an abstract interpretation of the slice (ir/slice.h). Every value is a *form*: a sum of
 * coefficients times *atoms*, plus a rest that is the same in all blocks. An atom is a register that
 * depends on the block index alone, not on the thread or the time. Two blocks do the same when no
 * *guard* tells them apart: a comparison keeps its outcome as long as the difference of its operands
 * does not change sign, and what is used in any other way than as a form must be equal. Their
 * addresses then differ by the *moves*, instruction by instruction.
 *
 * 32-bit values are taken not to wrap around as far as they depend on the block. Owner: the arena
 * given. */
#ifndef TS_IR_BLOCK_FORM_H
#define TS_IR_BLOCK_FORM_H

#include "ir/slice.h"

enum { TS_FORM_TERMS = 6, TS_FORM_RANK = 5 };

struct ts_form_term {
  uint32_t atom; /* index in atoms */
  int64_t coefficient;
};

struct ts_form {
  uint32_t term_count;
  struct ts_form_term terms[TS_FORM_TERMS]; /* atoms ascending, coefficients not 0 */
};

struct ts_block_guard {
  uint32_t insn;       /* comparison a ? b, form = a - b; TS_NONE: the form must be equal */
  struct ts_form form; /* as far as it depends on the block */
};

struct ts_block_move {
  uint32_t insn;
  uint32_t rank;                      /* of the box; 0: bytes[0] */
  struct ts_form forms[TS_FORM_RANK]; /* bytes, or elements of each dimension */
};

struct ts_block_forms {
  const char *obstacle;  /* why no block can be told by another one; NULL: nothing in the way */
  const uint32_t *insns; /* give atoms their values, in this order */
  const uint32_t *atoms; /* registers */
  const struct ts_block_guard *guards;
  const struct ts_block_move *moves;
  uint32_t insn_count, atom_count, guard_count, move_count;
};

/* TS_NO_MEMORY. */
enum ts_status ts_block_forms_find(struct ts_ctx *ctx, const struct ts_function *function,
                                   const struct ts_launch *launch, const struct ts_slice *slice,
                                   struct ts_arena *arena, struct ts_block_forms *forms);

#endif
