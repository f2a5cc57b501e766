/* The public face of src/num: scalar instructions, operations by type, the fidelity register.
 * Matrix instructions are in num_matrix.c. */
#include "tilesim/num.h"
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>

_Static_assert((int)TS_NUMERIC_FTZ == TS_NUM_FTZ && (int)TS_NUMERIC_APPROX == TS_NUM_APPROX &&
                   (int)TS_NUMERIC_SATFINITE == TS_NUM_SATFINITE &&
                   (int)TS_NUMERIC_NAN == TS_NUM_NAN && (int)TS_NUMERIC_SAT == TS_NUM_SAT,
               "the public flags are those of num/num.h");
_Static_assert((int)TS_NUMERIC_RN == TS_NUM_RN && (int)TS_NUMERIC_RZ == TS_NUM_RZ &&
                   (int)TS_NUMERIC_RM == TS_NUM_RM && (int)TS_NUMERIC_RP == TS_NUM_RP &&
                   (int)TS_NUMERIC_RNA == TS_NUM_RNA && (int)TS_NUMERIC_RO == TS_NUM_RO,
               "the public roundings are those of num/num.h");

enum { BLOCK = 1024, MAX_OPERANDS = TS_NUM_MAX_OPERANDS };

/* In the order in which a name without a profile is looked for. */
const struct ts__num_profile ts__num_profiles[TS__NUM_PROFILE_COUNT] = {
    {"sm_90", TS_SCALAR_SM90, TS_MMA_PROFILE_nv_sm90, NULL},
    {"sm_100", TS_SCALAR_SM100, TS_MMA_PROFILE_nv_sm100, "modelled"},
    {"sm_80", TS_SCALAR_SM80, TS_MMA_PROFILE_nv_sm80, "modelled"},
    {"ascend_ref", TS_SCALAR_ASCEND, TS_MMA_PROFILE_ascend_ref, "modelled"},
    {"exact", 0, TS_MMA_PROFILE_exact, NULL},
};

/* --- arrays and slots */

union slots {
  uint32_t narrow[BLOCK];
  uint64_t wide[BLOCK];
};

static enum ts_dtype dtype_of(const char *type) {
  size_t length = strcspn(type, " ");
  return ts_scalar_dtype(type, length);
}

static uint32_t bytes_of_bits(uint32_t bits) {
  return bits <= 8 ? 1 : bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

static uint32_t element_bytes(enum ts_dtype dtype) {
  return dtype == TS_DTYPE_NONE ? 0 : bytes_of_bits(ts_dtype_bits(dtype));
}

static uint64_t low_bits(unsigned bits) { return UINT64_MAX >> (64 - bits); }

/* Elements of fewer bits than their bytes have, one by one; all others are packed already. */
static bool is_padded(enum ts_dtype dtype) {
  return ts_dtype_bits(dtype) < 8 || dtype == TS_DTYPE_pred;
}

static void load(enum ts_dtype dtype, void *slots, const void *array, size_t start, size_t count) {
  const uint8_t *at = (const uint8_t *)array + start * element_bytes(dtype);
  if (!is_padded(dtype)) {
    ts_dtype_unpack(dtype, slots, at, count);
    return;
  }
  for (size_t i = 0; i < count; i++)
    ((uint32_t *)slots)[i] = (uint32_t)ts_dtype_slot(dtype, at[i] & low_bits(ts_dtype_bits(dtype)));
}

static void store(enum ts_dtype dtype, void *array, const void *slots, size_t start, size_t count) {
  uint8_t *at = (uint8_t *)array + start * element_bytes(dtype);
  if (!is_padded(dtype)) {
    ts_dtype_pack(dtype, at, slots, count);
    return;
  }
  for (size_t i = 0; i < count; i++)
    at[i] = (uint8_t)(((const uint32_t *)slots)[i] & low_bits(ts_dtype_bits(dtype)));
}

/* --- scalar instructions */

void ts__num_operand(struct ts_num_operand *operand, const char *name, size_t name_length,
                     const char *type, uint32_t rows, uint32_t columns) {
  size_t type_length = strcspn(type, " ");
  bool is_bit = type_length == 2 && memcmp(type, "b1", 2) == 0;
  enum ts_dtype dtype = is_bit ? TS_DTYPE_pred : dtype_of(type);
  memset(operand, 0, sizeof *operand);
  snprintf(operand->name, sizeof operand->name, "%.*s", (int)name_length, name);
  snprintf(operand->type, sizeof operand->type, "%.*s", (int)type_length, type);
  operand->rows = rows;
  operand->columns = columns;
  operand->bits = is_bit || dtype == TS_DTYPE_pred ? 1 : ts_dtype_bits(dtype);
  operand->element_bytes = bytes_of_bits(operand->bits);
}

static void describe_scalar(const struct ts_scalar_op *op, struct ts_num_instruction *instruction) {
  const char *at = op->operands;
  uint32_t count = 0;
  for (; *at && count < MAX_OPERANDS; count++) {
    size_t name_length = strcspn(at, ":");
    const char *type = at + name_length + 1;
    ts__num_operand(&instruction->operands[count], at, name_length, type, 1, 1);
    at = type + strcspn(type, " ");
    at += *at == ' ';
  }
  instruction->operand_count = count;
  ts__num_operand(&instruction->result, "d", 1, op->result, 1, 1);
  instruction->row = op;
  instruction->kind = TS__NUM_SCALAR;
}

static enum ts_result find_in(const char *name, const struct ts__num_profile *profile,
                              struct ts_num_instruction *instruction) {
  const struct ts_scalar_op *op = ts_scalar_find(name);
  memset(instruction, 0, sizeof *instruction);
  snprintf(instruction->name, sizeof instruction->name, "%s", name);
  instruction->profile = profile->name;
  instruction->fidelity = profile->fidelity;
  if (!op) return ts__num_matrix_find(name, profile, instruction);
  if (!(op->profiles & profile->scalar)) return TS_RESULT_UNSUPPORTED;
  describe_scalar(op, instruction);
  return TS_RESULT_OK;
}

enum ts_result ts_num_find(const char *name, const char *profile,
                           struct ts_num_instruction *instruction) {
  if (!name || !instruction) return TS_RESULT_BAD_ARGUMENT;
  bool is_known = !profile;
  for (size_t i = 0; i < TS__NUM_PROFILE_COUNT; i++) {
    if (profile && strcmp(profile, ts__num_profiles[i].name) != 0) continue;
    is_known = true;
    if (find_in(name, &ts__num_profiles[i], instruction) == TS_RESULT_OK) return TS_RESULT_OK;
  }
  return is_known ? TS_RESULT_UNSUPPORTED : TS_RESULT_BAD_ARGUMENT;
}

static void run_scalar(const struct ts_num_instruction *instruction, void *result,
                       const void *const *operands, size_t count) {
  const struct ts_scalar_op *op = instruction->row;
  union slots slots[MAX_OPERANDS], result_slots;
  const void *inputs[MAX_OPERANDS];
  enum ts_dtype dtypes[MAX_OPERANDS], result_dtype = dtype_of(instruction->result.type);
  for (uint32_t i = 0; i < instruction->operand_count; i++) {
    inputs[i] = &slots[i];
    dtypes[i] = dtype_of(instruction->operands[i].type);
  }
  for (size_t start = 0; start < count; start += BLOCK) {
    size_t n = count - start < BLOCK ? count - start : BLOCK;
    for (uint32_t i = 0; i < instruction->operand_count; i++)
      load(dtypes[i], &slots[i], operands[i], start, n);
    ts_scalar_run(op, &result_slots, result_dtype, inputs, dtypes, n);
    store(result_dtype, result, &result_slots, start, n);
  }
}

enum ts_result ts_num_run(const struct ts_num_instruction *instruction, void *result,
                          const void *const *operands, size_t count) {
  if (instruction->kind != TS__NUM_SCALAR)
    return ts__num_matrix_run(instruction, result, operands, count);
  run_scalar(instruction, result, operands, count);
  return TS_RESULT_OK;
}

static enum ts_result list_scalar(uint32_t index, struct ts_num_listing *listing) {
  const struct ts_scalar_op *op = ts_scalar_at(index);
  size_t length = 0;
  snprintf(listing->name, sizeof listing->name, "%s", op->name);
  snprintf(listing->operands, sizeof listing->operands, "%s", op->operands);
  snprintf(listing->result, sizeof listing->result, "%s", op->result);
  for (size_t i = 0; i < TS__NUM_PROFILE_COUNT; i++) {
    if (!(op->profiles & ts__num_profiles[i].scalar)) continue;
    length += (size_t)snprintf(listing->profiles + length, sizeof listing->profiles - length,
                               "%s%s", length ? " " : "", ts__num_profiles[i].name);
  }
  return TS_RESULT_OK;
}

enum ts_result ts_num_list_get(uint32_t index, struct ts_num_listing *listing) {
  memset(listing, 0, sizeof *listing);
  if (index < ts_scalar_count()) return list_scalar(index, listing);
  return ts__num_matrix_list(index - (uint32_t)ts_scalar_count(), listing);
}

/* --- operations by type */

static enum ts_num_op op_of(const char *name) {
  unsigned op = 0;
  while (op < TS_NUM_OP_COUNT && strcmp(ts_num_op_name((enum ts_num_op)op), name) != 0)
    op++;
  return (enum ts_num_op)op;
}

/* Any of the look-ups' functions. */
struct function {
  ts_unary_fn unary;
  ts_binary_fn binary;
  ts_ternary_fn ternary;
};

static enum ts_result apply(struct function function, enum ts_dtype to, enum ts_dtype from,
                            void *result, const void *const *operands, size_t count) {
  union slots slots[3], results;
  uint32_t arity = function.unary ? 1 : function.binary ? 2 : function.ternary ? 3 : 0;
  if (arity == 0) return TS_RESULT_UNSUPPORTED;
  for (size_t start = 0; start < count; start += BLOCK) {
    size_t n = count - start < BLOCK ? count - start : BLOCK;
    for (uint32_t i = 0; i < arity; i++)
      load(from, &slots[i], operands[i], start, n);
    if (function.unary) function.unary(&results, &slots[0], n);
    if (function.binary) function.binary(&results, &slots[0], &slots[1], n);
    if (function.ternary) function.ternary(&results, &slots[0], &slots[1], &slots[2], n);
    store(to, result, &results, start, n);
  }
  return TS_RESULT_OK;
}

static enum ts_dtype result_of(enum ts_num_op op, enum ts_dtype dtype) {
  return ts_num_op_gives_bool(op) ? TS_DTYPE_pred : dtype;
}

enum ts_result ts_num_apply_unary(const char *op, const char *type, unsigned flags, void *result,
                                  const void *a, size_t count) {
  enum ts_dtype dtype = dtype_of(type);
  struct function function = {.unary = ts_num_unary(op_of(op), dtype, flags)};
  const void *operands[] = {a};
  return apply(function, result_of(op_of(op), dtype), dtype, result, operands, count);
}

enum ts_result ts_num_apply_binary(const char *op, const char *type, unsigned flags, void *result,
                                   const void *a, const void *b, size_t count) {
  enum ts_dtype dtype = dtype_of(type);
  struct function function = {.binary = ts_num_binary(op_of(op), dtype, flags)};
  const void *operands[] = {a, b};
  return apply(function, result_of(op_of(op), dtype), dtype, result, operands, count);
}

enum ts_result ts_num_apply_ternary(const char *op, const char *type, unsigned flags, void *result,
                                    const void *a, const void *b, const void *c, size_t count) {
  enum ts_dtype dtype = dtype_of(type);
  struct function function = {.ternary = ts_num_ternary(op_of(op), dtype, flags)};
  const void *operands[] = {a, b, c};
  return apply(function, result_of(op_of(op), dtype), dtype, result, operands, count);
}

enum ts_result ts_num_apply_convert(const char *to_type, const char *from_type, unsigned flags,
                                    void *result, const void *a, size_t count) {
  enum ts_dtype to = dtype_of(to_type), from = dtype_of(from_type);
  struct function function = {.unary = ts_num_convert(to, from, flags)};
  const void *operands[] = {a};
  return apply(function, to, from, result, operands, count);
}

uint32_t ts_num_element_bytes(const char *type) {
  return strcmp(type, "b1") == 0 ? 1 : element_bytes(dtype_of(type));
}

const char *ts_num_host(void) { return ts_isa_name(ts_num_isa()); }

/* --- the register */

/* "nv_sm90" of the machines is "sm_90" here. */
static const char *public_profile(const char *profile) {
  for (size_t i = 0; i < TS__NUM_PROFILE_COUNT; i++) {
    if (strcmp(ts_mma_profile_name(ts__num_profiles[i].matrix), profile) == 0)
      return ts__num_profiles[i].name;
  }
  return profile;
}

enum ts_result ts_num_fidelity_get(uint32_t index, struct ts_num_fidelity *row) {
  size_t count;
  const struct ts_fidelity_row *rows = ts_fidelity_rows(&count);
  if (index >= count) return TS_RESULT_BAD_ARGUMENT;
  row->profile = public_profile(rows[index].profile);
  row->what = rows[index].what;
  row->level = ts_fidelity_name(rows[index].level);
  row->source = rows[index].source;
  return TS_RESULT_OK;
}
