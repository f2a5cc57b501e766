/* What an instruction costs in machine instructions, pipes and latency: the table of cost.def with
 * the machine's constants. */
#include "model_nv/model_nv_priv.h"

#include "num/dtype.h"

enum type_class { CLASS_F32, CLASS_F16, CLASS_F64, CLASS_I32, CLASS_I64, CLASS_U32, CLASS_ANY };

enum row_flag { ROW_APPROX = 1, ROW_SERIAL = 2, ROW_VARIABLE = 4 };

struct cost_row {
  uint16_t op;
  uint8_t class, pipe;
  uint8_t flags; /* enum row_flag */
  uint16_t slots, xu_slots, depth;
};

static const struct cost_row rows[] = {
#define COST(op, class, pipe, slots, xu_slots, depth)                                              \
  {TS_OP_##op, CLASS_##class, TS__PIPE_##pipe, 0, slots, xu_slots, depth},
#define APPROX(op, class, pipe, slots, xu_slots, depth)                                            \
  {TS_OP_##op, CLASS_##class, TS__PIPE_##pipe, ROW_APPROX, slots, xu_slots, depth},
#define SERIAL(op, class, pipe, slots, xu_slots, depth)                                            \
  {TS_OP_##op, CLASS_##class, TS__PIPE_##pipe, ROW_SERIAL, slots, xu_slots, depth},
#define VARIABLE(op, class, pipe, slots, xu_slots, depth)                                          \
  {TS_OP_##op, CLASS_##class, TS__PIPE_##pipe, ROW_VARIABLE, slots, xu_slots, depth},
#include "model_nv/cost.def"
#undef COST
#undef APPROX
#undef SERIAL
#undef VARIABLE
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

static enum type_class class_of(uint8_t dtype) {
  uint32_t bits = ts_dtype_bits((enum ts_dtype)dtype);
  if (!ts_dtype_is_float((enum ts_dtype)dtype)) return bits > 32 ? CLASS_I64 : CLASS_I32;
  return bits == 64 ? CLASS_F64 : bits == 32 ? CLASS_F32 : CLASS_F16;
}

static uint32_t units_of(enum type_class class, uint32_t lanes) {
  return class == CLASS_F16 ? (lanes + 1) / 2 : lanes;
}

static float pipe_latency(const struct ts_machine *machine, enum ts__pipe pipe) {
  const double *timing = machine->timing;
  switch (pipe) {
  case TS__PIPE_IMAD: return (float)timing[TS_TIMING_imad_latency];
  case TS__PIPE_FP64: return (float)timing[TS_TIMING_fp64_latency];
  case TS__PIPE_CVT: return (float)timing[TS_TIMING_cvt_latency];
  case TS__PIPE_XU: return (float)timing[TS_TIMING_xu_latency];
  default: return (float)timing[TS_TIMING_alu_latency];
  }
}

/* Conversions by source and target: narrow floats are packed in pairs, float <-> integer goes
 * through the special function unit. */
static void cvt_cost(const struct ts_machine *machine, const struct ts_code_insn *insn,
                     struct ts__cost *cost) {
  enum type_class to = class_of(insn->dtype), from = class_of(insn->dtype2);
  bool to_float = to <= CLASS_F64, from_float = from <= CLASS_F64;
  uint32_t to_bits = ts_dtype_bits((enum ts_dtype)insn->dtype);
  uint32_t from_bits = ts_dtype_bits((enum ts_dtype)insn->dtype2);
  uint32_t slots = insn->lanes;
  enum ts__pipe pipe = TS__PIPE_ALU;
  if (to == CLASS_F64 || from == CLASS_F64) {
    pipe = TS__PIPE_XU;
  } else if (to_float && from_float) {
    bool narrows = to_bits < from_bits;
    pipe = narrows || from_bits <= 8 ? TS__PIPE_CVT : TS__PIPE_ALU;
    if (narrows || from_bits <= 8) slots = (slots + 1) / 2;
    if (from_bits <= 8 && to_bits == 32) slots *= 3; /* through f16 pairs */
  } else if (to_float != from_float) {
    pipe = TS__PIPE_XU;
  } else {
    slots *= to == CLASS_I64 ? 1 : 1;
  }
  *cost = (struct ts__cost){.pipe = (uint8_t)pipe,
                            .slots = (uint16_t)slots,
                            .pipe_slots = (uint16_t)slots,
                            .latency = pipe_latency(machine, pipe)};
}

static bool is_of_class(enum type_class row, uint8_t dtype) {
  enum type_class class = class_of(dtype);
  bool is_unsigned = class == CLASS_I32 && !ts_dtype_is_signed_int((enum ts_dtype)dtype);
  return row == CLASS_ANY || row == class || (row == CLASS_U32 && is_unsigned);
}

/* A divisor that is no constant. What is one value for the block is divided ahead, while the block
 * waits for its start (seen in nvcc's code for swizzled blocks, whose divisors are the grid's). */
static bool divides_slowly(const struct ts_code_insn *insn) {
  return insn->flags & TS_CODE_VARIABLE && !(insn->flags & TS_CODE_UNIFORM);
}

static const struct cost_row *find_row(const struct ts_code_insn *insn) {
  for (size_t i = 0; i < ROW_COUNT; i++) {
    const struct cost_row *row = &rows[i];
    if (row->op != insn->op || !is_of_class((enum type_class)row->class, insn->dtype)) continue;
    if (row->flags & ROW_APPROX && !insn->approx) continue;
    if (row->flags & ROW_VARIABLE && !divides_slowly(insn)) continue;
    return row;
  }
  return NULL;
}

/* Ops whose cost is in their mechanism (memory, matrix, synchronisation, control), not in a row. */
static bool has_mechanism(enum ts_op op) {
  const struct ts_op_info *info = ts_op_info(op);
  return info->unit == TS_UNIT_MEMORY || info->unit == TS_UNIT_MATRIX ||
         info->unit == TS_UNIT_SYNC || info->unit == TS_UNIT_CTRL || op == TS_OP_shfl ||
         op == TS_OP_ld_local || op == TS_OP_st_local;
}

bool ts__cost_find(const struct ts_machine *machine, const struct ts_code_insn *insn,
                   struct ts__cost *cost) {
  *cost = (struct ts__cost){0};
  if (insn->flags & TS_CODE_FREE) return true;
  if (insn->op == TS_OP_cvt) {
    cvt_cost(machine, insn, cost);
    return true;
  }
  const struct cost_row *row = find_row(insn);
  if (!row) return has_mechanism((enum ts_op)insn->op);
  uint32_t units = units_of(class_of(insn->dtype), insn->lanes);
  /* Without fast math the approximate forms test for subnormal arguments and scale them. */
  uint32_t scaling = insn->approx == TS_CODE_APPROX_SUBNORMAL ? 3 : 0;
  cost->pipe = row->pipe;
  cost->pipe_slots = (uint16_t)((row->slots + scaling) * units);
  cost->xu_slots = (uint16_t)(row->xu_slots * units);
  cost->slots = (uint16_t)(cost->pipe_slots + cost->xu_slots);
  float depth = (float)(row->depth + (scaling ? 2 : 0));
  cost->latency = depth * pipe_latency(machine, (enum ts__pipe)row->pipe);
  if (row->xu_slots) cost->latency += (float)machine->timing[TS_TIMING_xu_latency];
  if (row->flags & ROW_SERIAL) cost->serial_cycles = cost->latency * (float)units;
  return true;
}
