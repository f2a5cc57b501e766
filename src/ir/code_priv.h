/* Shared by code*.c: the table under construction and what its steps know about the function.
 *
 * Order of the steps: refs (slots), fold (what costs nothing), schedule (rank), registers. */
#ifndef TS_IR_CODE_PRIV_H
#define TS_IR_CODE_PRIV_H

#include "ir/code.h"
#include "ir/ir_priv.h"

enum { TS__WORD_BITS = 32 };

/* Elements of a local array that an instruction touches. */
struct ts__code_access {
  uint32_t array;
  bool is_whole; /* the index is not constant */
  bool is_use, is_def;
  uint64_t first_bit, bit_count; /* unless is_whole */
};

/* A pair (base, index) with scale and offset, or a plain address (index == TS_NONE). */
struct ts__code_address {
  uint32_t base, index; /* operand positions */
  int64_t scale, offset;
  bool is_global;
};

struct ts__code_reg {
  uint32_t def_count;            /* a parameter counts as one */
  uint32_t def;                  /* the last definition, TS_NONE for parameters */
  uint32_t use_count, first_use; /* in uses */
};

struct ts__code_use {
  uint32_t insn, position;
};

struct ts__code_table {
  struct ts_ctx *ctx;
  const struct ts_function *function;
  struct ts_arena *out;    /* of the result */
  struct ts_arena scratch; /* of the steps */
  struct ts__cfg cfg;
  struct ts__code_reg *regs;
  struct ts__code_use *uses;
  uint32_t *array_slot; /* first slot by array */
  struct ts_code_insn *insns;
  TS_VEC(struct ts_code_ref) refs;
  uint32_t slot_count;
  /* The instruction that computes the address anew for a memory instruction; itself, or an earlier
   * one; TS_NONE without such an address. One per instruction: cp.async's global side. */
  uint32_t *address_leader;
};

/* --- code_refs.c */
enum { TS__MAX_ACCESSES = 3, TS__MAX_ADDRESSES = 2 };
uint32_t ts__code_accesses(const struct ts_function *function, const struct ts_insn *insn,
                           struct ts__code_access accesses[TS__MAX_ACCESSES]);
uint32_t ts__code_addresses(const struct ts_function *function, const struct ts_insn *insn,
                            struct ts__code_address addresses[TS__MAX_ADDRESSES]);
/* Slots of an access; count 0 when it is outside the array. */
struct ts_code_ref ts__code_slots(const struct ts__code_table *table,
                                  const struct ts__code_access *access);
bool ts__code_constant(const struct ts_function *function, const struct ts_operand *operand,
                       uint64_t *encoding);
uint32_t ts__code_words(struct ts_type type); /* 32-bit registers of a value; predicates: 0 */
int ts__code_find_refs(struct ts__code_table *table);

/* --- code_fold.c */
int ts__code_find_folds(struct ts__code_table *table);

/* --- code_schedule.c */
bool ts__code_is_ordered(enum ts_op op); /* inline assembly that keeps its place among its like */
int ts__code_find_order(struct ts__code_table *table);

/* --- code_length.c */
uint32_t ts__code_length(const struct ts__code_table *table); /* machine instructions */

/* --- code_registers.c */
int ts__code_find_registers(struct ts__code_table *table, uint32_t *registers_per_thread);

#endif
