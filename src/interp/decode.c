/* Decoding: IR instructions become struct ts__code, once per launch.
 *
 * Registers get words in a warp's register file, immediates become runs of equal slots in
 * program->constants (so that the uniform and the splatted form are the same words), arrays get
 * words in local memory, blocks become code indices. */
#include "interp/interp_priv.h"

#include <string.h>

/* The row of exec.def. */
struct exec_row {
  enum ts__step (*exec)(struct ts__warp *warp, const struct ts__code *code);
  uint32_t num; /* enum ts_num_op, or TS_NUM_none */
  const char *roles;
  bool emits_insn, counts_lanes;
};

enum { TS_NUM_none = TS_NUM_OP_COUNT };

static const struct exec_row exec_table[TS_OP_COUNT] = {
#define EXEC(op, function, num, roles, event, lanes)                                               \
  [TS_OP_##op] = {ts__exec_##function, TS_NUM_##num, roles, event, lanes},
#include "interp/exec.def"
#undef EXEC
};

/* exec.def has a row for every op. */
enum {
#define EXEC(op, ...) EXEC_ROW_##op,
#include "interp/exec.def"
#undef EXEC
};
#define OP(name, ...) _Static_assert(EXEC_ROW_##name >= 0, "exec.def lacks " #name);
#include "ir/op.def"
#undef OP

struct decoder {
  struct ts_ctx *ctx;
  struct ts__program *program;
  const struct ts_function *function;
  struct ts__operand *operands; /* as function->operands */
  uint32_t *joins;
  TS_VEC(uint32_t) constants;
  TS_VEC(struct constant_run) runs;
};

/* slot_count equal slots from a word offset. */
struct constant_run {
  uint64_t value;
  uint32_t slot_count, offset;
  bool is_wide;
};

static struct ts_source_place place_of(const struct decoder *d, uint32_t insn) {
  return ts_insn_place(d->function, insn);
}

static int64_t attr(const struct decoder *d, const struct ts_insn *insn, enum ts_attr_id id) {
  return ts_insn_attr(d->function, insn, id, 0);
}

/* --- constants */

static enum ts_status append_run(struct decoder *d, struct constant_run *run) {
  const struct ts_allocator *allocator = d->ctx->allocator;
  size_t word_count = run->slot_count * (run->is_wide ? 2u : 1u);
  /* Runs start at multiples of 64 bytes, as registers do. */
  size_t start = (d->constants.count + 15) & ~(size_t)15;
  size_t extra = start - d->constants.count + word_count;
  if (ts_vec_reserve(&d->constants, allocator, extra)) return ts_fail_memory(d->ctx);
  memset(d->constants.data + d->constants.count, 0, extra * sizeof(uint32_t));
  d->constants.count += extra;
  run->offset = (uint32_t)start;
  for (uint32_t i = 0; i < run->slot_count; i++) {
    if (run->is_wide)
      memcpy(d->constants.data + start + 2 * i, &run->value, 8);
    else
      d->constants.data[start + i] = (uint32_t)run->value;
  }
  if (ts_vec_push(&d->runs, allocator, *run)) return ts_fail_memory(d->ctx);
  return TS_OK;
}

/* An operand of lanes components, each of value (a slot of the dtype). */
static enum ts_status make_constant(struct decoder *d, uint64_t value, uint8_t dtype,
                                    uint32_t lanes, struct ts__operand *operand) {
  struct constant_run wanted = {value, lanes * TS__LANES, 0, ts__is_wide(dtype)};
  *operand = (struct ts__operand){TS__BASE_CONST, true, dtype, (uint8_t)lanes, 0, 0};
  size_t i = 0;
  while (i < d->runs.count &&
         !(d->runs.data[i].value == value && d->runs.data[i].is_wide == wanted.is_wide &&
           d->runs.data[i].slot_count >= wanted.slot_count))
    i++;
  if (i == d->runs.count)
    TS_TRY(append_run(d, &wanted));
  else
    wanted = d->runs.data[i];
  operand->offset = operand->extra = wanted.offset;
  return TS_OK;
}

/* --- roles */

static char role_of(const struct ts_insn *insn, uint32_t i) {
  const char *roles = exec_table[insn->op].roles;
  size_t length = strlen(roles);
  return roles[i < length ? i : length - 1];
}

/* Components of the source of a conversion; a bitcast keeps the total width. */
static uint8_t source_lanes(const struct ts_insn *insn) {
  unsigned to = ts_dtype_bits((enum ts_dtype)insn->dtype);
  unsigned from = ts_dtype_bits((enum ts_dtype)insn->dtype2);
  if (insn->op != TS_OP_bitcast || from == 0) return insn->lanes;
  return (uint8_t)(to * insn->lanes / from);
}

static struct ts_type role_type(const struct decoder *d, const struct ts_insn *insn, char role) {
  switch (role) {
  case 'V': return (struct ts_type){insn->dtype, insn->lanes};
  case 'S': return (struct ts_type){insn->dtype2, source_lanes(insn)};
  case 'E':
    if (insn->op == TS_OP_extract)
      return (struct ts_type){insn->dtype, (uint8_t)attr(d, insn, TS_ATTR_source_lanes)};
    return (struct ts_type){insn->dtype, 1};
  case 'P': return (struct ts_type){TS_DTYPE_pred, 1};
  case 'I': return (struct ts_type){TS_DTYPE_s64, 1};
  default: return (struct ts_type){TS_DTYPE_u64, 1};
  }
}

/* Integers of 32 bits and more, written as encodings without a type: 0xffffffff is -1. */
static uint64_t signed_integer(uint64_t encoding) {
  return encoding >> 32 ? encoding : (uint64_t)(int64_t)(int32_t)(uint32_t)encoding;
}

/* --- operands */

static bool has_width_of(struct ts_type type, uint8_t dtype) {
  return ts__is_wide(type.dtype) == ts__is_wide(dtype);
}

static enum ts_status decode_reg(struct decoder *d, uint32_t insn_id, uint32_t i, uint32_t reg,
                                 struct ts__operand *operand) {
  const struct ts_insn *insn = &d->function->insns.data[insn_id];
  const struct ts_reg *info = &d->function->regs.data[reg];
  char role = role_of(insn, i);
  struct ts_type wanted = role_type(d, insn, role);
  bool is_free = role == 'I' || role == 'B';
  if (!is_free && !has_width_of(wanted, info->type.dtype))
    return ts_fail(d->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_IR, place_of(d, insn_id),
                   "operand %u of %s is %s where %s is worked in", i,
                   ts_op_info(insn->op)->mnemonic, ts_dtype_name(info->type.dtype),
                   ts_dtype_name(wanted.dtype));
  *operand = (struct ts__operand){
      TS__BASE_REGS, info->is_uniform, info->type.dtype, info->type.lanes, 0, 0};
  operand->offset = d->program->reg_offset[reg];
  return TS_OK;
}

static enum ts_status decode_constant(struct decoder *d, const struct ts_insn *insn, uint32_t i,
                                      uint64_t encoding, struct ts__operand *operand) {
  char role = role_of(insn, i);
  struct ts_type type = role_type(d, insn, role);
  uint64_t value = role == 'I'   ? signed_integer(encoding)
                   : role == 'B' ? encoding
                                 : ts_dtype_slot((enum ts_dtype)type.dtype, encoding);
  if (!ts__is_wide(type.dtype)) value = (uint32_t)value;
  return make_constant(d, value, type.dtype, type.lanes ? type.lanes : 1, operand);
}

static enum ts_status decode_operand(struct decoder *d, uint32_t insn_id, uint32_t i,
                                     struct ts__operand *operand) {
  const struct ts_function *function = d->function;
  const struct ts_insn *insn = &function->insns.data[insn_id];
  const struct ts_operand *source = ts_insn_operand(function, insn, i);
  *operand = (struct ts__operand){.base = TS__BASE_NONE, .offset = source->index};
  switch ((enum ts_operand_kind)source->kind) {
  case TS_OPERAND_REG: return decode_reg(d, insn_id, i, source->index, operand);
  case TS_OPERAND_IMM:
    return decode_constant(d, insn, i, function->constants.data[source->index], operand);
  case TS_OPERAND_SHARED:
    return decode_constant(d, insn, i, function->shared.data[source->index].address, operand);
  case TS_OPERAND_ARRAY: {
    const struct ts_array *array = &function->arrays.data[source->index];
    operand->dtype = array->dtype;
    operand->offset = d->program->array_offset[source->index];
    operand->extra =
        (uint32_t)ts_dtype_packed_bytes((enum ts_dtype)array->dtype, array->elem_count);
    return TS_OK;
  }
  case TS_OPERAND_BLOCK: operand->offset = d->program->block_start[source->index]; return TS_OK;
  case TS_OPERAND_TENSORMAP:
  case TS_OPERAND_TEXT: return TS_OK;
  }
  return ts_fail(d->ctx, TS_INTERNAL, TS_DIAG_INTERNAL, place_of(d, insn_id), "operand kind %u",
                 source->kind);
}

/* --- which function executes what */

static unsigned round_flag(int64_t round) {
  switch (round) {
  case TS_IR_ROUND_rn: return TS_NUM_RN;
  case TS_IR_ROUND_rz: return TS_NUM_RZ;
  case TS_IR_ROUND_rm: return TS_NUM_RM;
  case TS_IR_ROUND_rp: return TS_NUM_RP;
  case TS_IR_ROUND_rna: return TS_NUM_RNA;
  default: return 0;
  }
}

static unsigned num_flags(const struct decoder *d, const struct ts_insn *insn) {
  unsigned flags = round_flag(ts_insn_attr(d->function, insn, TS_ATTR_round, -1));
  if (attr(d, insn, TS_ATTR_ftz)) flags |= TS_NUM_FTZ;
  if (attr(d, insn, TS_ATTR_approx)) flags |= TS_NUM_APPROX;
  if (attr(d, insn, TS_ATTR_satfinite)) flags |= TS_NUM_SATFINITE;
  if (attr(d, insn, TS_ATTR_nan)) flags |= TS_NUM_NAN;
  if (attr(d, insn, TS_ATTR_saturate)) flags |= TS_NUM_SAT;
  return flags;
}

/* Addresses are worked on as u64. */
static enum ts_dtype arithmetic_dtype(uint8_t dtype) {
  return dtype == TS_DTYPE_ptr ? TS_DTYPE_u64 : (enum ts_dtype)dtype;
}

static void (*find_kernel(enum ts_num_op op, enum ts_dtype dtype, unsigned flags))(void) {
  unsigned arity = ts_num_op_arity(op);
  if (arity == 1) return (void (*)(void))ts_num_unary(op, dtype, flags);
  if (arity == 2) return (void (*)(void))ts_num_binary(op, dtype, flags);
  return (void (*)(void))ts_num_ternary(op, dtype, flags);
}

static enum ts_status missing(const struct decoder *d, uint32_t insn_id) {
  const struct ts_insn *insn = &d->function->insns.data[insn_id];
  bool is_conversion = insn->op == TS_OP_cvt || insn->op == TS_OP_bitcast;
  return ts_fail(d->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, place_of(d, insn_id),
                 "no arithmetic for %s.%s%s%s in function %s", ts_op_info(insn->op)->mnemonic,
                 ts_dtype_name(insn->dtype), is_conversion ? " from " : "",
                 is_conversion ? ts_dtype_name(insn->dtype2) : "", d->function->name);
}

static enum ts_num_op reduce_op(int64_t reduce) {
  switch (reduce) {
  case TS_IR_REDUCE_add: return TS_NUM_add;
  case TS_IR_REDUCE_min: return TS_NUM_min;
  case TS_IR_REDUCE_max: return TS_NUM_max;
  case TS_IR_REDUCE_and: return TS_NUM_and;
  case TS_IR_REDUCE_or: return TS_NUM_or;
  case TS_IR_REDUCE_xor: return TS_NUM_xor;
  default: return TS_NUM_OP_COUNT; /* moves, or done by the exec function itself */
  }
}

static bool is_global_atomic(uint32_t op) {
  return op == TS_OP_atom_global || op == TS_OP_atom_global_ret;
}

static bool is_atomic(uint32_t op) {
  return is_global_atomic(op) || op == TS_OP_atom_shared || op == TS_OP_atom_shared_ret;
}

/* f32 additions in global memory flush subnormals whatever the function was compiled with; those in
 * shared memory never do (MEASURED on H200). */
static enum ts_status find_reduction(const struct decoder *d, uint32_t insn_id,
                                     struct ts__code *code) {
  const struct ts_insn *insn = &d->function->insns.data[insn_id];
  enum ts_num_op op = reduce_op(attr(d, insn, TS_ATTR_reduce));
  if (is_atomic(insn->op))
    code->ext = (uint32_t)attr(d, insn, TS_ATTR_reduce);
  else
    code->scale = attr(d, insn, TS_ATTR_reduce);
  if (is_atomic(insn->op) && ts_dtype_bits((enum ts_dtype)insn->dtype) % 8 != 0)
    return missing(d, insn_id);
  if (op == TS_NUM_OP_COUNT) return TS_OK;
  unsigned flags = is_global_atomic(insn->op) && op == TS_NUM_add ? TS_NUM_FTZ : 0;
  code->kernel = find_kernel(op, arithmetic_dtype(insn->dtype), flags);
  return code->kernel ? TS_OK : missing(d, insn_id);
}

static enum ts_status find_conversion(const struct decoder *d, uint32_t insn_id,
                                      struct ts__code *code) {
  const struct ts_insn *insn = &d->function->insns.data[insn_id];
  enum ts_dtype to = arithmetic_dtype(insn->dtype), from = arithmetic_dtype(insn->dtype2);
  unsigned flags = num_flags(d, insn);
  if (to == from && !flags) {
    code->exec = ts__exec_mov;
    return TS_OK;
  }
  code->kernel = (void (*)(void))ts_num_convert(to, from, flags);
  return code->kernel ? TS_OK : missing(d, insn_id);
}

/* Words are cut into fields, so the widths must divide 32 (or be 64), and the bits must agree. */
static enum ts_status check_bitcast(const struct decoder *d, uint32_t insn_id,
                                    const struct ts__code *code) {
  const struct ts__operand *source = &code->operands[0];
  unsigned to = ts_dtype_bits((enum ts_dtype)code->dtype);
  unsigned from = ts_dtype_bits((enum ts_dtype)source->dtype);
  bool fits = to && from && 64 % to == 0 && 64 % from == 0;
  if (!fits || to * code->lanes != from * source->lanes) return missing(d, insn_id);
  return TS_OK;
}

static enum ts_status find_kernel_of(const struct decoder *d, uint32_t insn_id,
                                     struct ts__code *code) {
  const struct ts_insn *insn = &d->function->insns.data[insn_id];
  const struct exec_row *row = &exec_table[insn->op];
  enum ts_dtype dtype = arithmetic_dtype(insn->dtype);
  if (row->num != TS_NUM_none) {
    code->kernel = find_kernel((enum ts_num_op)row->num, dtype, num_flags(d, insn));
    return code->kernel ? TS_OK : missing(d, insn_id);
  }
  if (is_atomic(insn->op) || insn->op == TS_OP_redux) return find_reduction(d, insn_id, code);
  switch (insn->op) {
  case TS_OP_cvt: return find_conversion(d, insn_id, code);
  case TS_OP_bitcast: return check_bitcast(d, insn_id, code);
  case TS_OP_ramp:
    if (ts_dtype_is_float(dtype)) return missing(d, insn_id);
    code->kernel = (void (*)(void))ts_num_binary(TS_NUM_add, dtype, 0);
    return code->kernel ? TS_OK : missing(d, insn_id);
  case TS_OP_extract:
    code->scale =
        (int64_t)d->function->constants.data[ts_insn_operand(d->function, insn, 1)->index];
    return code->scale < code->operands[0].lanes ? TS_OK : missing(d, insn_id);
  case TS_OP_sreg: code->scale = attr(d, insn, TS_ATTR_which); return TS_OK;
  case TS_OP_random_init: code->scale = attr(d, insn, TS_ATTR_generator); return TS_OK;
  case TS_OP_shfl:
  case TS_OP_vote:
  case TS_OP_match:
  case TS_OP_bar_red: code->scale = attr(d, insn, TS_ATTR_mode); return TS_OK;
  default: return TS_OK;
  }
}

/* --- one instruction */

static void decode_dst(const struct decoder *d, const struct ts_insn *insn, struct ts__code *code) {
  if (insn->dst == TS_NONE) {
    code->slot_count = (uint32_t)insn->lanes * TS__LANES;
    return;
  }
  const struct ts_reg *reg = &d->function->regs.data[insn->dst];
  code->dst = d->program->reg_offset[insn->dst];
  code->dst_is_uniform = reg->is_uniform;
  code->dst_is_wide = ts__is_wide(reg->type.dtype);
  code->slot_count = reg->type.lanes * (reg->is_uniform ? 1u : (uint32_t)TS__LANES);
}

/* A pure uniform dst is computed once, so no operand may vary; all operands have dst's components
 * except where the op says otherwise. */
static enum ts_status check_shapes(const struct decoder *d, uint32_t insn_id,
                                   const struct ts__code *code) {
  const struct ts_insn *insn = &d->function->insns.data[insn_id];
  bool is_elementwise = exec_table[insn->op].num != TS_NUM_none || insn->op == TS_OP_cvt ||
                        insn->op == TS_OP_mov || insn->op == TS_OP_select;
  if (!(ts_op_info(insn->op)->flags & F_PURE)) return TS_OK;
  for (uint32_t i = 0; i < code->operand_count; i++) {
    const struct ts__operand *operand = &code->operands[i];
    bool is_condition = insn->op == TS_OP_select && i == 0 && operand->lanes == 1;
    bool has_lanes = !is_elementwise || is_condition || operand->lanes == insn->lanes;
    if (has_lanes && (operand->is_uniform || !code->dst_is_uniform)) continue;
    return ts_fail(d->ctx, TS_INTERNAL, TS_DIAG_INTERNAL, place_of(d, insn_id),
                   "operand %u of %s %s", i, ts_op_info(insn->op)->mnemonic,
                   has_lanes ? "varies where the result is uniform"
                             : "has not the instruction's number of components");
  }
  return TS_OK;
}

static bool reduces_globally(const struct decoder *d, const struct ts_insn *insn) {
  if (is_global_atomic(insn->op)) return true;
  bool is_store = insn->op == TS_OP_tma_store || insn->op == TS_OP_bulk_store;
  return is_store && attr(d, insn, TS_ATTR_reduce) != TS_IR_REDUCE_none;
}

static bool is_matrix(uint16_t op) {
  return op == TS_OP_mma || op == TS_OP_mma_sp || ts_op_is_wgmma(op);
}

static bool is_tensor(uint16_t op) {
  return op == TS_OP_tmem_alloc || op == TS_OP_tmem_dealloc || op == TS_OP_tmem_ld ||
         op == TS_OP_tmem_st || op == TS_OP_tcgen05_mma_ss || op == TS_OP_tcgen05_mma_ts ||
         op == TS_OP_tcgen05_commit;
}

static enum ts_status decode_insn(struct decoder *d, uint32_t insn_id, struct ts__code *code) {
  const struct ts_insn *insn = &d->function->insns.data[insn_id];
  const struct exec_row *row = &exec_table[insn->op];
  *code = (struct ts__code){.exec = row->exec,
                            .insn = insn_id,
                            .op = insn->op,
                            .dtype = insn->dtype,
                            .lanes = insn->lanes,
                            .dtype2 = insn->dtype2,
                            .operand_count = insn->operand_count,
                            .operands = &d->operands[insn->operands],
                            .emits_insn = row->emits_insn,
                            .counts_lanes = row->counts_lanes};
  code->scale = attr(d, insn, TS_ATTR_scale);
  code->offset = attr(d, insn, TS_ATTR_offset);
  decode_dst(d, insn, code);
  for (uint32_t i = 0; i < insn->operand_count; i++)
    TS_TRY(decode_operand(d, insn_id, i, &code->operands[i]));
  /* A front end's join may be missed by lanes that break out of an inner loop. */
  if (insn->op == TS_OP_cbr && d->joins[insn->block] != TS_NONE)
    code->operands[3].offset = d->program->block_start[d->joins[insn->block]];
  TS_TRY(check_shapes(d, insn_id, code));
  if (reduces_globally(d, insn)) d->program->is_ordered = true;
  if (is_matrix(insn->op)) d->program->has_matrix = true;
  if (is_tensor(insn->op)) d->program->has_matrix = d->program->has_tensor = true;
  if (!d->program->slice || d->program->slice->is_executed[insn_id])
    return find_kernel_of(d, insn_id, code);
  ts__decode_quiet(code);
  return TS_OK;
}

/* --- layout */

static uint32_t reg_words(const struct ts_reg *reg) {
  uint32_t slots = reg->type.lanes * (reg->is_uniform ? 1u : (uint32_t)TS__LANES);
  return slots * (ts__is_wide(reg->type.dtype) ? 2 : 1);
}

/* Uniform registers first, at multiples of 8 bytes; varying ones at multiples of 64. */
static enum ts_status lay_out_registers(struct decoder *d) {
  struct ts__program *program = d->program;
  const struct ts_function *function = d->function;
  program->reg_offset = ts_new_array(program->arena, uint32_t, function->regs.count);
  if (!program->reg_offset) return ts_fail_memory(d->ctx);
  uint64_t words = 0;
  for (int varying = 0; varying < 2; varying++) {
    uint64_t align = varying ? 16 : 2;
    for (size_t i = 0; i < function->regs.count; i++) {
      const struct ts_reg *reg = &function->regs.data[i];
      if (reg->is_uniform == (varying != 0)) continue;
      words = (words + align - 1) & ~(align - 1);
      program->reg_offset[i] = (uint32_t)words;
      words += reg_words(reg);
    }
  }
  words = (words + 15) & ~(uint64_t)15;
  if (words > UINT32_MAX / 8)
    return ts_fail(d->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "function %s needs %llu bytes of registers a warp", function->name,
                   (unsigned long long)words * 4);
  program->reg_words = (uint32_t)words;
  return TS_OK;
}

static enum ts_status lay_out_arrays(struct decoder *d) {
  struct ts__program *program = d->program;
  const struct ts_function *function = d->function;
  program->array_offset = ts_new_array(program->arena, uint32_t, function->arrays.count);
  if (!program->array_offset) return ts_fail_memory(d->ctx);
  uint64_t bytes = 0, limit = program->machine->max_local_bytes_per_thread;
  for (size_t i = 0; i < function->arrays.count; i++) {
    const struct ts_array *array = &function->arrays.data[i];
    program->array_offset[i] = (uint32_t)(bytes / 4 * TS__LANES);
    if (array->size_bytes > limit || bytes + array->size_bytes > limit)
      return ts_fail(d->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT, TS_NO_PLACE,
                     "register arrays of function %s take %llu bytes a thread and more (array %s "
                     "alone %llu); machine %s has %llu",
                     function->name, (unsigned long long)bytes, array->name ? array->name : "?",
                     (unsigned long long)array->size_bytes, program->machine->name,
                     (unsigned long long)limit);
    bytes += (array->size_bytes + 3) & ~(uint64_t)3;
  }
  program->local_words = (uint32_t)(bytes / 4 * TS__LANES);
  return TS_OK;
}

static enum ts_status decode_all(struct decoder *d) {
  struct ts__program *program = d->program;
  const struct ts_function *function = d->function;
  program->code = ts_new_array(program->arena, struct ts__code, function->insns.count);
  program->block_start = ts_new_array(program->arena, uint32_t, function->blocks.count);
  d->operands = ts_new_array(program->arena, struct ts__operand, function->operands.count);
  if (!program->code || !program->block_start || !d->operands) return ts_fail_memory(d->ctx);
  TS_TRY(ts__find_joins(d->ctx, function, program->arena, &d->joins));
  program->code_count = (uint32_t)function->insns.count;
  /* Instructions are grouped by block, so a code index is an instruction id. */
  for (size_t i = 0; i < function->blocks.count; i++)
    program->block_start[i] = function->blocks.data[i].first_insn;
  TS_TRY(lay_out_registers(d));
  TS_TRY(lay_out_arrays(d));
  for (uint32_t i = 0; i < program->code_count; i++)
    TS_TRY(decode_insn(d, i, &program->code[i]));
  uint32_t *constants = ts_arena_alloc_array(program->arena, d->constants.count, 4, 64);
  if (!constants) return ts_fail_memory(d->ctx);
  if (d->constants.count) memcpy(constants, d->constants.data, d->constants.count * 4);
  program->constants = constants;
  return TS_OK;
}

enum ts_status ts__program_decode(struct ts_ctx *ctx, struct ts__program *program) {
  program->lanes = ts__lane_ops_find(ts_num_isa());
  struct decoder d = {.ctx = ctx, .program = program, .function = program->function};
  enum ts_status status = decode_all(&d);
  ts_vec_free(&d.constants, ctx->allocator);
  ts_vec_free(&d.runs, ctx->allocator);
  return status;
}
