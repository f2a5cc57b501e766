/* The verifier: after it the interpreter needs no checks of form. */
#include "ir/ir_priv.h"

#include <string.h>

struct checker {
  struct ts_ctx *ctx;
  const struct ts_function *function;
  uint32_t insn; /* being checked, or TS_NONE */
};

/* Answers the status, so that checks read `return bad(c, "...")`. */
static enum ts_status bad(struct checker *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum ts_status bad(struct checker *c, const char *format, ...) {
  const struct ts_function *function = c->function;
  struct ts_arena arena;
  va_list arguments;
  ts_arena_init(&arena, function->module->allocator);
  va_start(arguments, format);
  const char *text = ts_arena_vprintf(&arena, format, arguments);
  va_end(arguments);
  if (!text) text = "malformed";
  enum ts_status status;
  if (c->insn == TS_NONE) {
    status = ts_fail(c->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_IR, TS_NO_PLACE, "function %s: %s",
                     function->name, text);
  } else {
    const struct ts_insn *insn = &function->insns.data[c->insn];
    status = ts_fail(c->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_IR, ts_insn_place(function, c->insn),
                     "function %s, instruction %u (%s): %s", function->name, c->insn,
                     ts_op_info((enum ts_op)insn->op)->mnemonic, text);
  }
  ts_arena_free(&arena);
  return status;
}

/* --- what types the `v` operands of an op have. One letter for each operand letter of op.def:
 * t (dtype, lanes)     s (dtype2, lanes)      e (dtype, 1)       p pred, 1 component
 * q pred, 1 or lanes   i integer, 1           x integer or pointer, 1
 * w 32 bits in all     y anything             z (dtype, any number of components)
 * . no value operand. The last letter repeats. Ops without a row: pure ones all t, others y. */
#define ROW(name, letters) [TS_OP_##name] = letters
static const char *const operand_types[TS_OP_COUNT] = {
    ROW(cvt, "s"),
    ROW(bitcast, "y"),
    ROW(broadcast, "e"),
    ROW(ramp, "ee"),
    ROW(extract, "z."),
    ROW(concat, "z"),
    ROW(select, "qtt"),
    ROW(random_init, "i"),
    ROW(ld_global, "xi"),
    ROW(st_global, "xit"),
    ROW(ld_shared, "xi"),
    ROW(st_shared, "xit"),
    ROW(ld_local, ".i"),
    ROW(st_local, ".it"),
    ROW(atom_global, "xit"),
    ROW(atom_shared, "xit"),
    ROW(atom_global_ret, "xit"),
    ROW(atom_shared_ret, "xit"),
    ROW(cp_async, "xixip"),
    ROW(cp_async_wait, "i"),
    ROW(cp_async_mbarrier, "x"),
    ROW(tma_load, ".xxi"),
    ROW(tma_load_multicast, ".xxii"),
    ROW(tma_load_im2col, ".xxi"),
    ROW(tma_store, ".xi"),
    ROW(bulk_load, "xxix"),
    ROW(bulk_store, "xxi"),
    ROW(bulk_wait, "i"),
    ROW(bar_sync, "i"),
    ROW(bar_arrive, "i"),
    ROW(mbarrier_init, "xi"),
    ROW(mbarrier_expect_tx, "xi"),
    ROW(mbarrier_complete_tx, "xi"),
    ROW(mbarrier_arrive, "x"),
    ROW(mbarrier_arrive_expect_tx, "xi"),
    ROW(mbarrier_wait, "xi"),
    ROW(mbarrier_arrive_cluster, "xi"),
    ROW(ld_cluster, "xii"),
    ROW(st_cluster, "xiti"),
    ROW(bulk_load_multicast, "xxixi"),
    ROW(bulk_cluster, "xxixi"),
    ROW(warp_sync, "i"),
    ROW(shfl, "tiii"),
    ROW(vote, "pi"),
    ROW(match, "ti"),
    ROW(redux, "ti"),
    ROW(bar_red, "iip"),
    ROW(ldmatrix, ".ixi"),
    ROW(stmatrix, "xiw"),
    ROW(mma, ".i.i.i"),
    ROW(wgmma_ss, "xx.ii"),
    ROW(wgmma_rs, ".ix.ii"),
    ROW(mma_sp, ".i.i.ii"),
    ROW(wgmma_sp_ss, "xx.iii"),
    ROW(wgmma_sp_rs, ".ix.iii"),
    ROW(wgmma_touch, ".i"),
    ROW(tmem_alloc, "xi"),
    ROW(tmem_dealloc, "ii"),
    ROW(tmem_ld, ".ii"),
    ROW(tmem_st, ".ii"),
    ROW(tcgen05_mma_ss, "xxiii"),
    ROW(tcgen05_mma_ts, "ixiii"),
    ROW(tcgen05_commit, "x"),
    ROW(cbr, "p..."),
    ROW(assert, "p."),
    ROW(print, ".y"),
};
#undef ROW

char ts__type_letter(enum ts_op op, uint32_t i) {
  const char *letters = operand_types[op];
  if (!letters) return ts_op_info(op)->flags & F_PURE ? 't' : 'y';
  size_t length = strlen(letters);
  return i < length ? letters[i] : letters[length - 1];
}

enum ts_dtype ts__imm_dtype(const struct ts_insn *insn, uint32_t i) {
  const char *pattern = ts_op_info((enum ts_op)insn->op)->operands;
  if (ts__operand_letter(pattern, i) == 'i') return TS_DTYPE_NONE;
  switch (ts__type_letter((enum ts_op)insn->op, i)) {
  case 't':
  case 'e':
  case 'z': return (enum ts_dtype)insn->dtype;
  case 's': return (enum ts_dtype)insn->dtype2;
  case 'y': return insn->op == TS_OP_bitcast ? (enum ts_dtype)insn->dtype2 : TS_DTYPE_NONE;
  case 'p':
  case 'q': return TS_DTYPE_pred;
  case 'w': return TS_DTYPE_u32;
  default: return TS_DTYPE_NONE;
  }
}

static bool is_integer(enum ts_dtype dtype) {
  return ts_dtype_is_int(dtype) || dtype == TS_DTYPE_pred;
}

static bool type_fits(const struct ts_insn *insn, char letter, struct ts_type type) {
  enum ts_dtype dtype = (enum ts_dtype)type.dtype;
  switch (letter) {
  case 't': return dtype == insn->dtype && type.lanes == insn->lanes;
  case 's': return dtype == insn->dtype2 && type.lanes == insn->lanes;
  case 'e': return dtype == insn->dtype && type.lanes == 1;
  case 'z': return dtype == insn->dtype;
  case 'p': return dtype == TS_DTYPE_pred && type.lanes == 1;
  case 'q': return dtype == TS_DTYPE_pred && (type.lanes == 1 || type.lanes == insn->lanes);
  case 'i': return is_integer(dtype) && type.lanes == 1;
  case 'x': return (is_integer(dtype) || dtype == TS_DTYPE_ptr) && type.lanes == 1;
  case 'w': return ts_dtype_bits(dtype) * type.lanes == 32;
  default: return true;
  }
}

static const char *letter_text(char letter) {
  switch (letter) {
  case 't': return "the instruction's type";
  case 's': return "the source type";
  case 'e': return "one component of the instruction's type";
  case 'z': return "the instruction's dtype";
  case 'p': return "a predicate";
  case 'q': return "a predicate";
  case 'i': return "an integer";
  case 'x': return "an address";
  default: return "32 bits";
  }
}

/* Encodings have no bits beyond the dtype's. */
static enum ts_status check_encoding(struct checker *c, const struct ts_insn *insn, uint32_t i,
                                     uint64_t encoding) {
  enum ts_dtype dtype = ts__imm_dtype(insn, i);
  if (dtype == TS_DTYPE_NONE || (encoding & ~ts__int_mask(dtype)) == 0) return TS_OK;
  return bad(c, "operand %u: %#llx is no %s", i, (unsigned long long)encoding,
             ts_dtype_name(dtype));
}

static enum ts_status check_value(struct checker *c, const struct ts_insn *insn, uint32_t i,
                                  const struct ts_operand *operand) {
  const struct ts_function *function = c->function;
  char letter = ts__type_letter((enum ts_op)insn->op, i);
  struct ts_type type = {TS_DTYPE_u32, 1}; /* of a shared object's address */
  if (operand->kind == TS_OPERAND_IMM) {
    if (operand->index >= function->constants.count) return bad(c, "operand %u: no constant", i);
    return check_encoding(c, insn, i, function->constants.data[operand->index]);
  }
  if (operand->kind == TS_OPERAND_REG) {
    if (operand->index >= function->regs.count) return bad(c, "operand %u: no register", i);
    type = function->regs.data[operand->index].type;
  } else if (operand->kind == TS_OPERAND_SHARED) {
    if (operand->index >= function->shared.count) return bad(c, "operand %u: no shared object", i);
  } else {
    return bad(c, "operand %u is not a value", i);
  }
  if (type_fits(insn, letter, type)) return TS_OK;
  return bad(c, "operand %u is %sx%u, which is not %s (%sx%u)", i,
             ts_dtype_name((enum ts_dtype)type.dtype), type.lanes, letter_text(letter),
             ts_dtype_name((enum ts_dtype)insn->dtype), insn->lanes);
}

static enum ts_status check_operand(struct checker *c, const struct ts_insn *insn, uint32_t i) {
  const struct ts_function *function = c->function;
  const struct ts_operand *operand = ts_insn_operand(function, insn, i);
  switch (ts__operand_letter(ts_op_info((enum ts_op)insn->op)->operands, i)) {
  case 'v': return check_value(c, insn, i, operand);
  case 'r':
    if (operand->kind != TS_OPERAND_REG) return bad(c, "operand %u must be a register", i);
    return check_value(c, insn, i, operand);
  case 'i':
    if (operand->kind != TS_OPERAND_IMM || operand->index >= function->constants.count)
      return bad(c, "operand %u must be an immediate", i);
    return TS_OK;
  case 'a':
    if (operand->kind != TS_OPERAND_ARRAY || operand->index >= function->arrays.count)
      return bad(c, "operand %u must be a local array", i);
    return TS_OK;
  case 'b':
    if (operand->kind != TS_OPERAND_BLOCK || operand->index >= function->blocks.count)
      return bad(c, "operand %u must be a block", i);
    return TS_OK;
  case 'm':
    if (operand->kind != TS_OPERAND_TENSORMAP || operand->index >= function->params.count ||
        function->params.data[operand->index].kind != TS_PARAM_TENSORMAP)
      return bad(c, "operand %u must be a tensor map parameter", i);
    return TS_OK;
  default:
    if (operand->kind != TS_OPERAND_TEXT || operand->index >= function->texts.count)
      return bad(c, "operand %u must be a text", i);
    return TS_OK;
  }
}

/* --- attributes an op needs, and the values that are allowed */

static enum ts_status check_attrs(struct checker *c, const struct ts_insn *insn) {
  const struct ts_attr *attrs = c->function->attrs.data;
  for (uint32_t i = insn->attrs; i < insn->attrs + insn->attr_count; i++) {
    enum ts_attr_id id = (enum ts_attr_id)attrs[i].id;
    if ((unsigned)id >= TS_ATTR_COUNT) return bad(c, "unknown attribute %u", (unsigned)id);
    if (ts_attr_kind(id) != TS_ATTR_KIND_INT && !ts_attr_value_text(id, attrs[i].value))
      return bad(c, "attribute %s cannot be %lld", ts_attr_text(id), (long long)attrs[i].value);
    for (uint32_t k = insn->attrs; k < i; k++)
      if (attrs[k].id == attrs[i].id) return bad(c, "attribute %s twice", ts_attr_text(id));
  }
  return TS_OK;
}

static enum ts_status need(struct checker *c, const struct ts_insn *insn, enum ts_attr_id id) {
  if (ts_insn_attr(c->function, insn, id, INT64_MIN) == INT64_MIN)
    return bad(c, "attribute %s is missing", ts_attr_text(id));
  return TS_OK;
}

static enum ts_status need_range(struct checker *c, const struct ts_insn *insn, enum ts_attr_id id,
                                 int64_t least, int64_t largest) {
  TS_TRY(need(c, insn, id));
  int64_t value = ts_insn_attr(c->function, insn, id, 0);
  if (value < least || value > largest)
    return bad(c, "attribute %s is %lld, not between %lld and %lld", ts_attr_text(id),
               (long long)value, (long long)least, (long long)largest);
  return TS_OK;
}

static enum ts_status need_shape(struct checker *c, const struct ts_insn *insn) {
  TS_TRY(need_range(c, insn, TS_ATTR_m, 1, 256));
  TS_TRY(need_range(c, insn, TS_ATTR_n, 1, 256));
  TS_TRY(need_range(c, insn, TS_ATTR_k, 1, 1024));
  return need(c, insn, TS_ATTR_b_dtype);
}

static uint64_t total_bits(struct ts_type type) {
  return (uint64_t)ts_dtype_bits((enum ts_dtype)type.dtype) * type.lanes;
}

/* An immediate counts as one component. */
static struct ts_type operand_type(const struct checker *c, const struct ts_insn *insn,
                                   uint32_t i) {
  const struct ts_operand *operand = ts_insn_operand(c->function, insn, i);
  if (operand->kind == TS_OPERAND_REG) return c->function->regs.data[operand->index].type;
  return (struct ts_type){insn->dtype, 1};
}

static enum ts_status check_concat(struct checker *c, const struct ts_insn *insn) {
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < insn->operand_count; i++)
    lanes += operand_type(c, insn, i).lanes;
  if (lanes != insn->lanes) return bad(c, "the parts have %u components", lanes);
  return TS_OK;
}

static enum ts_status check_extract(struct checker *c, const struct ts_insn *insn) {
  const struct ts_operand *source = ts_insn_operand(c->function, insn, 0);
  uint64_t i = c->function->constants.data[ts_insn_operand(c->function, insn, 1)->index];
  TS_TRY(need_range(c, insn, TS_ATTR_source_lanes, 1, TS_MAX_VECTOR_LANES));
  int64_t lanes = ts_insn_attr(c->function, insn, TS_ATTR_source_lanes, 0);
  if (insn->lanes != 1) return bad(c, "gives one component");
  if (source->kind == TS_OPERAND_REG && operand_type(c, insn, 0).lanes != lanes)
    return bad(c, "the source has %u components", operand_type(c, insn, 0).lanes);
  if (i >= (uint64_t)lanes) return bad(c, "no component %llu", (unsigned long long)i);
  return TS_OK;
}

static enum ts_status check_bitcast(struct checker *c, const struct ts_insn *insn) {
  struct ts_type dst = {insn->dtype, insn->lanes};
  if (ts_insn_operand(c->function, insn, 0)->kind != TS_OPERAND_REG) return TS_OK;
  struct ts_type source = operand_type(c, insn, 0);
  if (source.dtype != insn->dtype2) return bad(c, "the source type differs from the operand's");
  if (total_bits(dst) != total_bits(source))
    return bad(c, "%llu bits from %llu", (unsigned long long)total_bits(dst),
               (unsigned long long)total_bits(source));
  return TS_OK;
}

static enum ts_status check_atom(struct checker *c, const struct ts_insn *insn) {
  TS_TRY(need(c, insn, TS_ATTR_reduce));
  bool is_cas = ts_insn_attr(c->function, insn, TS_ATTR_reduce, 0) == TS_IR_REDUCE_cas;
  if (insn->operand_count != (is_cas ? 4u : 3u))
    return bad(c, "has %u operands", insn->operand_count);
  return TS_OK;
}

static enum ts_status check_copy_bytes(struct checker *c, const struct ts_insn *insn) {
  TS_TRY(need(c, insn, TS_ATTR_bytes));
  int64_t bytes = ts_insn_attr(c->function, insn, TS_ATTR_bytes, 0);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    return bad(c, "copies 4, 8 or 16 bytes, not %lld", (long long)bytes);
  return TS_OK;
}

/* least, largest: coordinates after `fixed` operands */
static enum ts_status check_coordinates(struct checker *c, const struct ts_insn *insn,
                                        uint32_t fixed, uint32_t least, uint32_t largest) {
  uint32_t count = insn->operand_count;
  if (count < fixed + least || count > fixed + largest) return bad(c, "has %u operands", count);
  return TS_OK;
}

static enum ts_status check_mode(struct checker *c, const struct ts_insn *insn,
                                 unsigned allowed_modes) {
  TS_TRY(need(c, insn, TS_ATTR_mode));
  int64_t mode = ts_insn_attr(c->function, insn, TS_ATTR_mode, 0);
  if (!(allowed_modes >> mode & 1)) return bad(c, "the mode is not one of this instruction");
  return TS_OK;
}

static enum ts_status check_random(struct checker *c, const struct ts_insn *insn) {
  if (insn->dtype != TS_DTYPE_u32 || insn->lanes != TS_IR_GENERATOR_WORDS)
    return bad(c, "gives u32x%d", TS_IR_GENERATOR_WORDS);
  return need_range(c, insn, TS_ATTR_generator, 0, TS_IR_GENERATOR_mrg32k3a);
}

#define MODE(name) (1u << TS_IR_MODE_##name)

static enum ts_status check_particular(struct checker *c, const struct ts_insn *insn) {
  switch ((enum ts_op)insn->op) {
  case TS_OP_sreg: return need(c, insn, TS_ATTR_which);
  case TS_OP_extract: return check_extract(c, insn);
  case TS_OP_concat: return check_concat(c, insn);
  case TS_OP_bitcast: return check_bitcast(c, insn);
  case TS_OP_random_init: return check_random(c, insn);
  case TS_OP_atom_global:
  case TS_OP_atom_shared:
  case TS_OP_atom_global_ret:
  case TS_OP_atom_shared_ret: return check_atom(c, insn);
  case TS_OP_cp_async: return check_copy_bytes(c, insn);
  case TS_OP_tma_load: return check_coordinates(c, insn, 3, 1, 5);
  case TS_OP_tma_load_multicast: return check_coordinates(c, insn, 4, 1, 5);
  case TS_OP_tma_load_im2col: return check_coordinates(c, insn, 3, 4, 8);
  case TS_OP_tma_store: return check_coordinates(c, insn, 2, 1, 5);
  case TS_OP_shfl: return check_mode(c, insn, MODE(idx) | MODE(up) | MODE(down) | MODE(bfly));
  case TS_OP_vote: return check_mode(c, insn, MODE(any) | MODE(all) | MODE(ballot));
  case TS_OP_match: return check_mode(c, insn, MODE(any) | MODE(all));
  case TS_OP_bar_red: return check_mode(c, insn, MODE(popc) | MODE(and) | MODE(or));
  case TS_OP_redux: return need(c, insn, TS_ATTR_reduce);
  case TS_OP_ldmatrix: return need_range(c, insn, TS_ATTR_num, 1, 4);
  case TS_OP_mma:
  case TS_OP_wgmma_ss:
  case TS_OP_wgmma_rs:
  case TS_OP_mma_sp:
  case TS_OP_wgmma_sp_ss:
  case TS_OP_wgmma_sp_rs: return need_shape(c, insn);
  default: return TS_OK;
  }
}

static enum ts_status check_dst(struct checker *c, const struct ts_insn *insn) {
  const struct ts_function *function = c->function;
  bool has_dst = ts_op_info((enum ts_op)insn->op)->has_dst;
  if (!has_dst) return insn->dst == TS_NONE ? TS_OK : bad(c, "has no result");
  if (insn->dst >= function->regs.count) return bad(c, "the result is no register");
  struct ts_type type = function->regs.data[insn->dst].type;
  struct ts_type wanted = ts__dst_type((enum ts_op)insn->op, (enum ts_dtype)insn->dtype,
                                       insn->lanes, ts_insn_attr(function, insn, TS_ATTR_mode, 0));
  if (type.dtype == wanted.dtype && type.lanes == wanted.lanes) return TS_OK;
  return bad(c, "the result is %sx%u, its register %sx%u",
             ts_dtype_name((enum ts_dtype)wanted.dtype), wanted.lanes,
             ts_dtype_name((enum ts_dtype)type.dtype), type.lanes);
}

static enum ts_status check_insn(struct checker *c) {
  const struct ts_insn *insn = &c->function->insns.data[c->insn];
  const struct ts_op_info *info = ts_op_info((enum ts_op)insn->op);
  if (insn->op >= TS_OP_COUNT) return bad(c, "unknown operation %u", insn->op);
  if (insn->dtype >= TS_DTYPE_COUNT || insn->dtype2 >= TS_DTYPE_COUNT)
    return bad(c, "unknown dtype");
  if (insn->lanes < 1 || insn->lanes > TS_MAX_VECTOR_LANES)
    return bad(c, "%u components", insn->lanes);
  if (!ts__operand_count_fits(info->operands, insn->operand_count))
    return bad(c, "has %u operands", insn->operand_count);
  if (insn->place >= c->function->module->places.count) return bad(c, "unknown place");
  for (uint32_t i = 0; i < insn->operand_count; i++)
    TS_TRY(check_operand(c, insn, i));
  TS_TRY(check_attrs(c, insn));
  TS_TRY(check_dst(c, insn));
  return check_particular(c, insn);
}

static enum ts_status check_block(struct checker *c, uint32_t id) {
  const struct ts_function *function = c->function;
  const struct ts_block *block = &function->blocks.data[id];
  c->insn = TS_NONE;
  if (block->region >= function->regions.count) return bad(c, "block %u: no region", id);
  if (block->insn_count == 0 ||
      block->first_insn + (size_t)block->insn_count > function->insns.count)
    return bad(c, "block %u is empty", id);
  for (uint32_t i = 0; i < block->insn_count; i++) {
    c->insn = block->first_insn + i;
    const struct ts_insn *insn = &function->insns.data[c->insn];
    bool is_last = i + 1 == block->insn_count;
    bool is_terminator = ts_op_info((enum ts_op)insn->op)->flags & F_TERM;
    if (insn->block != id) return bad(c, "belongs to another block");
    if (is_terminator && !is_last) return bad(c, "a terminator inside block %u", id);
    if (!is_terminator && is_last) return bad(c, "block %u has no terminator", id);
    TS_TRY(check_insn(c));
  }
  return TS_OK;
}

static enum ts_status check_declarations(struct checker *c) {
  const struct ts_function *function = c->function;
  uint32_t dynamic_count = 0;
  for (size_t i = 0; i < function->regs.count; i++) {
    struct ts_type type = function->regs.data[i].type;
    if (type.dtype >= TS_DTYPE_COUNT || type.lanes < 1 || type.lanes > TS_MAX_VECTOR_LANES)
      return bad(c, "register %zu has no valid type", i);
  }
  for (size_t i = 0; i < function->params.count; i++) {
    const struct ts_param *param = &function->params.data[i];
    bool has_reg = param->kind != TS_PARAM_TENSORMAP;
    if (param->dtype >= TS_DTYPE_COUNT || (has_reg && param->reg >= function->regs.count))
      return bad(c, "parameter %zu is malformed", i);
  }
  for (size_t i = 0; i < function->arrays.count; i++)
    if (function->arrays.data[i].dtype >= TS_DTYPE_COUNT)
      return bad(c, "array %zu has no valid dtype", i);
  for (size_t i = 0; i < function->shared.count; i++) {
    uint32_t align = function->shared.data[i].align_bytes;
    if (align & (align - 1)) return bad(c, "shared object %zu: odd alignment", i);
    dynamic_count += function->shared.data[i].kind == TS_SHARED_DYNAMIC;
  }
  if (dynamic_count > 1) return bad(c, "more than one dynamic shared object");
  for (int i = 0; i < 3; i++)
    if (function->cluster[i] < 1) return bad(c, "a cluster without blocks");
  return TS_OK;
}

/* Region 0 is the root, parents come first, heads end in a conditional branch. */
static enum ts_status check_regions(struct checker *c) {
  const struct ts_function *function = c->function;
  c->insn = TS_NONE;
  if (function->regions.count == 0 || function->regions.data[0].parent != TS_NONE)
    return bad(c, "region 0 must be the root");
  for (size_t i = 1; i < function->regions.count; i++) {
    const struct ts_region *region = &function->regions.data[i];
    if (region->parent >= i) return bad(c, "region %zu comes before its parent", i);
    if (region->head >= function->blocks.count) return bad(c, "region %zu has no head", i);
    const struct ts_block *head = &function->blocks.data[region->head];
    if (function->insns.data[head->first_insn + head->insn_count - 1].op != TS_OP_cbr)
      return bad(c, "the head of region %zu does not branch", i);
  }
  return TS_OK;
}

enum ts_status ts_verify(struct ts_ctx *ctx, const struct ts_function *function) {
  struct checker c = {ctx, function, TS_NONE};
  uint64_t insn_count = 0;
  TS_TRY(check_declarations(&c));
  if (function->entry >= function->blocks.count) return bad(&c, "there is no entry block");
  for (uint32_t i = 0; i < function->blocks.count; i++) {
    TS_TRY(check_block(&c, i));
    insn_count += function->blocks.data[i].insn_count;
  }
  c.insn = TS_NONE;
  if (insn_count != function->insns.count) return bad(&c, "instructions outside blocks");
  return check_regions(&c);
}
