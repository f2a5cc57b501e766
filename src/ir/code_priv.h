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
  bool *is_spilled;     /* by array: has dynamic indices, is in local memory */
  struct ts_code_insn *insns;
  TS_VEC(struct ts_code_ref) refs;
  uint32_t slot_count, own_slot_count; /* all; registers and arrays without renamed versions */
  /* The instruction that computes the address anew for a memory instruction; itself, or an earlier
   * one; TS_NONE without such an address. One per instruction: cp.async's global side. */
  uint32_t *address_leader;
  uint32_t *same_as; /* by register: the one that holds the same value in its region, or itself */
  uint32_t *region_end; /* by block: one past the last block of its region */
  uint32_t *guard;      /* by instruction: the branch that is its predicate, or TS_NONE */
  bool *has_own_offset; /* such an address takes an addition more */
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
/* What the instruction reads, then what it writes; NULL when no instruction does either. */
const struct ts_code_ref *ts__code_insn_refs(const struct ts__code_table *table, uint32_t id);

/* --- code_fold.c */
/* The only definition of a register operand, or NULL. */
const struct ts_insn *ts__code_definition(const struct ts__code_table *table,
                                          const struct ts_operand *operand, uint32_t *insn);
/* A constant of the machine code: an immediate, or an address in the shared window. */
bool ts__code_is_known(const struct ts__code_table *table, const struct ts_operand *operand);
int ts__code_find_folds(struct ts__code_table *table);

/* --- code_regions.c */
int ts__code_find_regions(struct ts__code_table *table);

/* --- code_guards.c, after the regions and the order */
/* Marks branches at which lanes part and meet, and makes predicates uses of what is done under them. */
int ts__code_find_guards(struct ts__code_table *table);

/* --- code_address.c, after the regions */
int ts__code_find_addresses(struct ts__code_table *table);

/* --- code_values.c */

/* Where a component of a register lies. */
struct ts__code_part {
  uint32_t root;
  uint8_t bit;
};

/* Storages that an instruction reads, then those it writes: in refs. */
struct ts__code_span {
  uint32_t first, use_count, count;
};

struct ts__code_values {
  struct ts__code_table *table;
  uint32_t storage_count;
  uint32_t *address_of; /* by instruction that computes an address: storage */
  uint32_t *first_part; /* by register */
  struct ts__code_part *parts;
  uint32_t *slot_root; /* by storage less the number of registers */
  TS_VEC(uint8_t) root_words;
  TS_VEC(uint32_t) root_users; /* names alive */
  TS_VEC(struct ts_code_ref) refs;
  struct ts__code_span *spans; /* by instruction */
  /* Liveness between blocks, of those storages that have a number there. */
  uint32_t *number; /* by storage, TS_NONE */
  uint32_t *numbered, numbered_count;
  uint64_t *live_in, *live_out; /* by block: set_words words each */
  size_t set_words;
  bool *is_alive; /* by storage */
  uint32_t live_words;
  bool out_of_memory;
};
int ts__code_values_init(struct ts__code_values *values, struct ts__code_table *table);
void ts__code_values_free(struct ts__code_values *values);
void ts__code_set_alive(struct ts__code_values *values, uint32_t storage, bool is_alive);
bool ts__code_is_live_out(const struct ts__code_values *values, uint32_t block, uint32_t storage);
/* Words of the storage's roots, whoever else names them. */
uint32_t ts__code_storage_words(const struct ts__code_values *values, uint32_t storage);
void ts__code_enter_block(struct ts__code_values *values, uint32_t block);
void ts__code_leave_block(struct ts__code_values *values); /* nothing is alive afterwards */

/* --- code_schedule.c */
bool ts__code_is_ordered(enum ts_op op); /* inline assembly that keeps its place among its like */
/* Most words that are alive at once. */
struct ts__code_peaks {
  uint32_t words;
  uint32_t words_beside_wgmma; /* when a wgmma is issued, its accumulators included */
};
/* Ranks, and the peaks. */
int ts__code_find_order(struct ts__code_table *table, struct ts__code_values *values,
                        struct ts__code_peaks *peaks);

/* --- code_length.c */
/* Machine instructions by class. */
void ts__code_count(const struct ts__code_table *table, uint32_t counts[TS_CODE_CLASS_COUNT]);

/* --- code_registers.c */
/* The most a thread can have: 255, and the block's share of the file. */
uint32_t ts__code_register_limit(const struct ts_function *function);
void ts__code_registers(struct ts__code_table *table, struct ts__code_peaks peaks,
                        struct ts_code *code);

/* --- code_spills.c */
/* Where a thread's accumulators go to local memory and come back, when `excess` words are more than
 * its registers hold. */
void ts__code_find_spills(struct ts__code_table *table, uint32_t excess, uint32_t limit);

#endif
