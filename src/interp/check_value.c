/* Values that were never set, followed through registers: reading one is no fault, using it as an
 * address, in a branch, for a matrix or in global memory is.
 *
 * Masks have bit l for lane l. As long as no register of a warp holds such a value, instructions
 * run without a look at their operands. */
#include "interp/check_priv.h"

#include <string.h>

/* --- masks of operands and results */

static uint32_t component_words(bool is_uniform, bool is_wide) {
  return (is_uniform ? 1u : (uint32_t)TS__LANES) * (is_wide ? 2 : 1);
}

static struct ts__unset *unset_of(const struct ts__warp *warp) {
  return &warp->block->check->unset[warp->index];
}

static uint32_t component_mask(const struct ts__unset *unset, const struct ts__operand *operand,
                               uint32_t component) {
  uint32_t words = component_words(operand->is_uniform, ts__is_wide(operand->dtype));
  uint32_t mask = unset->regs[operand->offset + component * words];
  return operand->is_uniform && mask ? UINT32_MAX : mask;
}

uint32_t ts__check_unset_lanes(const struct ts__warp *warp, const struct ts__operand *operand) {
  const struct ts__unset *unset = unset_of(warp);
  uint32_t mask = 0;
  if (!unset->is_active || operand->base != TS__BASE_REGS) return 0;
  for (uint32_t i = 0; i < operand->lanes; i++)
    mask |= component_mask(unset, operand, i);
  return mask;
}

static uint32_t dst_components(const struct ts__code *code) {
  return code->slot_count / (code->dst_is_uniform ? 1 : TS__LANES);
}

static void set_dst(struct ts__unset *unset, const struct ts__code *code, uint32_t active,
                    const uint32_t masks[TS_MAX_VECTOR_LANES]) {
  uint32_t words = component_words(code->dst_is_uniform, code->dst_is_wide);
  for (uint32_t i = 0; i < dst_components(code); i++) {
    uint32_t *mask = &unset->regs[code->dst + i * words];
    if (code->dst_is_uniform)
      *mask = masks[i] & active ? UINT32_MAX : 0;
    else
      *mask = (*mask & ~active) | (masks[i] & active);
  }
}

/* --- pure instructions */

/* Lanes in which the pred operand is known to be `value`. */
static uint32_t lanes_known(const struct ts__warp *warp, const struct ts__operand *operand,
                            uint32_t unset_mask, bool value) {
  uint32_t lanes = 0;
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    if ((ts__operand_lane(warp, operand, lane) != 0) == value) lanes |= 1u << lane;
  return lanes & ~unset_mask;
}

static void mask_select(const struct ts__warp *warp, const struct ts__code *code,
                        uint32_t masks[]) {
  const struct ts__operand *p = &code->operands[0];
  uint32_t chooser = ts__check_unset_lanes(warp, p), yes = lanes_known(warp, p, chooser, true);
  const struct ts__unset *unset = unset_of(warp);
  for (uint32_t i = 0; i < dst_components(code); i++) {
    uint32_t a =
        code->operands[1].base == TS__BASE_REGS ? component_mask(unset, &code->operands[1], i) : 0;
    uint32_t b =
        code->operands[2].base == TS__BASE_REGS ? component_mask(unset, &code->operands[2], i) : 0;
    masks[i] = p->lanes > 1 ? chooser | a | b : chooser | (a & yes) | (b & ~yes);
  }
}

/* and, or of predicates: one side may decide alone. */
static bool mask_logic(const struct ts__warp *warp, const struct ts__code *code, uint32_t masks[]) {
  if (code->dtype != TS_DTYPE_pred || code->lanes != 1 ||
      (code->op != TS_OP_and && code->op != TS_OP_or))
    return false;
  uint32_t a = ts__check_unset_lanes(warp, &code->operands[0]);
  uint32_t b = ts__check_unset_lanes(warp, &code->operands[1]);
  bool decides = code->op == TS_OP_or;
  uint32_t known_a = lanes_known(warp, &code->operands[0], a, decides);
  uint32_t known_b = lanes_known(warp, &code->operands[1], b, decides);
  masks[0] = (a | b) & ~(known_a | known_b);
  return true;
}

static void mask_concat(const struct ts__warp *warp, const struct ts__code *code,
                        uint32_t masks[]) {
  const struct ts__unset *unset = unset_of(warp);
  uint32_t used = 0, count = dst_components(code);
  for (uint32_t k = 0; k < code->operand_count; k++)
    for (uint32_t i = 0; i < code->operands[k].lanes && used < count; i++)
      masks[used++] = code->operands[k].base == TS__BASE_REGS
                          ? component_mask(unset, &code->operands[k], i)
                          : 0;
}

/* Component i of dst takes bits of some components of the source. */
static void mask_bitcast(const struct ts__warp *warp, const struct ts__code *code,
                         uint32_t masks[]) {
  const struct ts__unset *unset = unset_of(warp);
  const struct ts__operand *source = &code->operands[0];
  uint32_t count = dst_components(code), dst_bits = ts_dtype_bits((enum ts_dtype)code->dtype);
  uint32_t source_bits = ts_dtype_bits((enum ts_dtype)source->dtype);
  if (source->base != TS__BASE_REGS || source_bits == 0) return;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t j = 0; j < source->lanes; j++)
      if (j * source_bits < (i + 1) * dst_bits && i * dst_bits < (j + 1) * source_bits)
        masks[i] |= component_mask(unset, source, j);
}

static void mask_elements(const struct ts__warp *warp, const struct ts__code *code,
                          uint32_t masks[]) {
  const struct ts__unset *unset = unset_of(warp);
  uint32_t count = dst_components(code);
  for (uint32_t k = 0; k < code->operand_count; k++) {
    const struct ts__operand *operand = &code->operands[k];
    if (operand->base != TS__BASE_REGS) continue;
    uint32_t all = operand->lanes == count ? 0 : ts__check_unset_lanes(warp, operand);
    for (uint32_t i = 0; i < count; i++)
      masks[i] |= operand->lanes == count ? component_mask(unset, operand, i) : all;
  }
}

static void mask_pure(const struct ts__warp *warp, const struct ts__code *code, uint32_t masks[]) {
  switch (code->op) {
  case TS_OP_select: mask_select(warp, code, masks); return;
  case TS_OP_concat: mask_concat(warp, code, masks); return;
  case TS_OP_bitcast: mask_bitcast(warp, code, masks); return;
  case TS_OP_extract:
    if (code->operands[0].base == TS__BASE_REGS)
      masks[0] = component_mask(unset_of(warp), &code->operands[0], (uint32_t)code->scale);
    return;
  default: break;
  }
  if (!mask_logic(warp, code, masks)) mask_elements(warp, code, masks);
}

/* --- uses */

static void alarm(struct ts__warp *warp, const struct ts__code *code, uint32_t lanes,
                  const char *what) {
  const struct ts__unset *unset = unset_of(warp);
  if (!(lanes & warp->active)) return;
  const char *source = unset->origin_kind == TS_DIAG_UNSET_SHARED   ? "shared memory"
                       : unset->origin_kind == TS_DIAG_UNSET_GLOBAL ? "a buffer"
                                                                    : "a register";
  ts__hazard(warp, code, unset->origin_kind, ts__first_lane(lanes & warp->active), unset->origin,
             "set it first, or keep the lanes that have no value out with a predicate",
             "%s %s a value of %s that nobody has set", ts_op_info((enum ts_op)code->op)->mnemonic,
             what, source);
}

/* Operands whose values may be moved about without a use. */
static bool only_moves(const struct ts__code *code, uint32_t operand) {
  switch (code->op) {
  case TS_OP_st_shared:
  case TS_OP_st_local: return operand == 2;
  case TS_OP_stmatrix: return operand >= 2;
  case TS_OP_shfl:
  case TS_OP_vote:
  case TS_OP_redux:
  case TS_OP_match: return operand == 0;
  case TS_OP_print: return true;
  default: return false;
  }
}

static void check_uses(struct ts__warp *warp, const struct ts__code *code) {
  for (uint32_t i = 0; i < code->operand_count; i++) {
    const struct ts__operand *operand = &code->operands[i];
    if (operand->base != TS__BASE_REGS || only_moves(code, i)) continue;
    uint32_t lanes = ts__check_unset_lanes(warp, operand) & warp->active;
    if (!lanes) continue;
    bool is_memory = code->op == TS_OP_st_global || code->op == TS_OP_atom_global ||
                     code->op == TS_OP_atom_global_ret;
    alarm(warp, code, lanes,
          code->op == TS_OP_cbr                             ? "branches on"
          : is_memory && i >= 2                             ? "writes"
          : ts_op_info((enum ts_op)code->op)->flags & F_MEM ? "takes its address from"
                                                            : "uses");
    return;
  }
}

static void mask_across(struct ts__warp *warp, const struct ts__code *code, uint32_t masks[]) {
  const struct ts__operand *value = &code->operands[0];
  uint32_t count = dst_components(code);
  if (code->op == TS_OP_shfl) {
    uint32_t source[TS__LANES];
    ts__shuffle_sources(warp, code, source);
    for (uint32_t i = 0; i < count && value->base == TS__BASE_REGS; i++) {
      uint32_t mask = component_mask(unset_of(warp), value, i);
      for (uint32_t lane = 0; lane < TS__LANES; lane++)
        masks[i] |= (mask >> source[lane] & 1) << lane;
    }
    return;
  }
  uint32_t any = ts__check_unset_lanes(warp, value) & warp->active ? UINT32_MAX : 0;
  for (uint32_t i = 0; i < count; i++)
    masks[i] = any;
}

static enum ts__step run(struct ts__warp *warp, const struct ts__code *code) {
  return warp->block->check->exec[code - warp->program->code].run(warp, code);
}

static bool has_dst(const struct ts__warp *warp, const struct ts__code *code) {
  return warp->program->function->insns.data[code->insn].dst != TS_NONE;
}

enum ts__step ts__check_plain(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__unset *unset = unset_of(warp);
  if (!unset->is_active) return run(warp, code);
  uint32_t masks[TS_MAX_VECTOR_LANES] = {0}, active = warp->active;
  unsigned flags = ts_op_info((enum ts_op)code->op)->flags;
  bool sets = has_dst(warp, code);
  if (flags & F_PURE) {
    mask_pure(warp, code, masks);
  } else {
    check_uses(warp, code);
    if (warp->block->status != TS_OK) return TS__STEP_FAULT;
    if (sets && code->op != TS_OP_elect && code->op != TS_OP_bar_red)
      mask_across(warp, code, masks);
  }
  enum ts__step step = run(warp, code);
  if (sets && step == TS__STEP_NEXT) set_dst(unset, code, active, masks);
  return step;
}

static enum ts__step step_branch(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t before = warp->active;
  enum ts__step step = ts__check_plain(warp, code);
  ts__check_speed_branch(warp, code, before);
  return step;
}

/* --- memory */

void ts__check_unset_load(struct ts__warp *warp, const struct ts__code *code, uint32_t lanes,
                          enum ts_diag_code kind) {
  struct ts__unset *unset = unset_of(warp);
  unset->loaded = lanes;
  if (!lanes) return;
  unset->is_active = true;
  unset->origin = code->insn;
  unset->origin_kind = kind;
}

static enum ts__step step_load(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__unset *unset = unset_of(warp);
  uint32_t masks[TS_MAX_VECTOR_LANES], active = warp->active;
  if (unset->is_active) check_uses(warp, code);
  unset->loaded = 0;
  enum ts__step step = run(warp, code);
  if (!unset->is_active || step != TS__STEP_NEXT || !has_dst(warp, code)) return step;
  for (uint32_t i = 0; i < dst_components(code); i++)
    masks[i] = unset->loaded;
  set_dst(unset, code, active, masks);
  return step;
}

/* --- local arrays: a mask per byte of every word */

static void mark_dirty(struct ts__unset *unset, const struct ts__code *code, uint32_t first_word,
                       uint32_t word_count) {
  for (uint32_t w = first_word; w < first_word + word_count; w++) {
    unset->is_dirty[w] = TS__WAS_WRITTEN;
    unset->writer[w] = code->insn;
  }
}

static void mark_read(struct ts__unset *unset, const struct ts__code *code, uint32_t first_word,
                      uint32_t word_count) {
  for (uint32_t w = first_word; w < first_word + word_count; w++) {
    if (unset->is_dirty[w]) continue;
    unset->is_dirty[w] = TS__WAS_READ;
    unset->writer[w] = code->insn;
  }
}

/* The bits of component i at an index, as bytes of the warp's local arrays. */
struct byte_range {
  uint64_t first, last;
};
static bool component_bytes(const struct ts__code *code, int64_t index, uint32_t component,
                            struct byte_range *range) {
  int64_t bits = ts_dtype_bits((enum ts_dtype)code->dtype);
  int64_t limit = (int64_t)code->operands[0].extra * 8;
  if (bits == 0 || index < 0 || index > limit / bits - code->lanes) return false;
  uint64_t base = code->operands[0].offset / TS__LANES * TS__WORD_BYTES;
  uint64_t bit = (uint64_t)index * (uint64_t)bits + component * (uint64_t)bits;
  *range = (struct byte_range){base + bit / 8, base + (bit + (uint64_t)bits - 1) / 8};
  return true;
}

static uint32_t local_mask(const struct ts__unset *unset, const struct ts__code *code,
                           int64_t index, uint32_t component) {
  struct byte_range range;
  uint32_t mask = 0;
  if (!component_bytes(code, index, component, &range)) return 0;
  for (uint64_t b = range.first; b <= range.last; b++)
    mask |= unset->local[b];
  return mask;
}

/* The words of all components at an index. */
static void mark_components(struct ts__unset *unset, const struct ts__code *code, int64_t index) {
  struct byte_range first, last;
  if (!component_bytes(code, index, 0, &first) ||
      !component_bytes(code, index, code->lanes - 1u, &last))
    return;
  uint32_t word = (uint32_t)(first.first / TS__WORD_BYTES);
  mark_read(unset, code, word, (uint32_t)(last.last / TS__WORD_BYTES) - word + 1);
}

static enum ts__step step_ld_local(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__unset *unset = unset_of(warp);
  uint32_t masks[TS_MAX_VECTOR_LANES] = {0}, active = warp->active, any = 0;
  uint64_t index[TS__LANES];
  if (unset->is_active) check_uses(warp, code);
  bool is_uniform = code->operands[1].is_uniform;
  if (is_uniform)
    index[0] = ts__operand_lane(warp, &code->operands[1], 0);
  else
    ts__operand_lanes64(warp, &code->operands[1], index);
  for (uint32_t i = 0; i < code->lanes; i++) {
    if (is_uniform)
      masks[i] = local_mask(unset, code, (int64_t)index[0], i);
    else
      for (uint32_t rest = active; rest; rest &= rest - 1) {
        uint32_t lane = ts__first_lane(rest);
        masks[i] |= local_mask(unset, code, (int64_t)index[lane], i) & 1u << lane;
      }
    any |= masks[i] & active;
  }
  if (warp->block->check->has_wgmma)
    for (uint32_t rest = is_uniform ? 1 : active; rest; rest &= rest - 1)
      mark_components(unset, code, (int64_t)index[ts__first_lane(rest)]);
  enum ts__step step = run(warp, code);
  if (any && !unset->is_active) {
    unset->is_active = true;
    unset->origin_kind = TS_DIAG_UNSET_LOCAL;
    unset->origin = code->insn;
  }
  if (unset->is_active && step == TS__STEP_NEXT) set_dst(unset, code, active, masks);
  return step;
}

static enum ts__step step_st_local(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__unset *unset = unset_of(warp);
  const struct ts__operand *value = &code->operands[2];
  bool is_uniform = code->operands[1].is_uniform;
  uint64_t index[TS__LANES];
  if (unset->is_active) check_uses(warp, code);
  if (is_uniform)
    index[0] = ts__operand_lane(warp, &code->operands[1], 0);
  else
    ts__operand_lanes64(warp, &code->operands[1], index);
  for (uint32_t i = 0; i < code->lanes; i++) {
    struct byte_range range;
    uint32_t mask = unset->is_active && value->base == TS__BASE_REGS
                        ? component_mask(unset, value, value->lanes > i ? i : 0)
                        : 0;
    for (uint32_t rest = is_uniform ? 1 : warp->active; rest; rest &= rest - 1) {
      uint32_t lane = ts__first_lane(rest), lanes = is_uniform ? warp->active : 1u << lane;
      if (!component_bytes(code, (int64_t)index[lane], i, &range)) continue;
      for (uint64_t b = range.first; b <= range.last; b++)
        unset->local[b] = (unset->local[b] & ~lanes) | (mask & lanes);
      uint32_t first = (uint32_t)(range.first / TS__WORD_BYTES);
      mark_dirty(unset, code, first, (uint32_t)(range.last / TS__WORD_BYTES) - first + 1);
    }
  }
  return run(warp, code);
}

/* --- fragments of matrix instructions: whole words */

struct words {
  uint32_t first, count;
};

/* Words that an array operand with its index names; count 0 when they are out of bounds. */
static struct words fragment(const struct ts__warp *warp, const struct ts__code *code,
                             uint32_t operand, enum ts_dtype dtype, uint32_t count) {
  const struct ts__operand *array = &code->operands[operand];
  uint64_t index =
      ts__operand_lane(warp, &code->operands[operand + 1], ts__first_lane(warp->active));
  uint64_t word = index * ts_dtype_bits(dtype) / 32, limit = array->extra / 4;
  struct words words = {(uint32_t)(array->offset / TS__LANES + word), count};
  if (word >= limit) words.count = 0;
  if (word < limit && count > limit - word) words.count = (uint32_t)(limit - word);
  return words;
}

static uint32_t words_mask(const struct ts__unset *unset, struct words words) {
  uint32_t mask = 0;
  for (uint32_t b = words.first * TS__WORD_BYTES; b < (words.first + words.count) * TS__WORD_BYTES;
       b++)
    mask |= unset->local[b];
  return mask;
}

static enum ts__step step_mma(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__unset *unset = unset_of(warp);
  const struct ts__matrix_info *info = ts__matrix_info(warp, code, TS_MMA_SYNC);
  if (!info) return TS__STEP_FAULT;
  uint32_t lane_bits = TS__LANES * 32;
  const struct ts_mma_op *op = info->op;
  struct words c =
      fragment(warp, code, 0, op->acc, info->m * info->n * ts_dtype_bits(op->acc) / lane_bits);
  struct words a =
      fragment(warp, code, 2, op->a, info->m * info->k * ts_dtype_bits(op->a) / lane_bits);
  struct words b =
      fragment(warp, code, 4, op->b, info->n * info->k * ts_dtype_bits(op->b) / lane_bits);
  uint32_t mask = words_mask(unset, a) | words_mask(unset, b) | words_mask(unset, c);
  if (mask & warp->active) {
    if (!unset->is_active) {
      unset->origin_kind = TS_DIAG_UNSET_LOCAL;
      unset->origin = code->insn;
    }
    alarm(warp, code, mask, "multiplies");
    memset(&unset->local[c.first * TS__WORD_BYTES], 0,
           c.count * TS__WORD_BYTES * sizeof *unset->local);
  }
  mark_dirty(unset, code, c.first, c.count);
  return run(warp, code);
}

/* Lanes that hold parts of the rows of a matrix. */
static uint32_t lanes_of_rows(uint32_t rows, bool is_transposed) {
  uint32_t lanes = 0;
  for (uint32_t lane = 0; lane < TS__LANES; lane++) {
    uint32_t needed = is_transposed ? 3u << lane % 4 * 2 : 1u << lane / 4;
    if (rows & needed) lanes |= 1u << lane;
  }
  return lanes;
}

static enum ts__step step_ldmatrix(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__unset *unset = unset_of(warp);
  const struct ts_function *function = warp->program->function;
  const struct ts_insn *insn = &function->insns.data[code->insn];
  uint32_t count = (uint32_t)ts_insn_attr(function, insn, TS_ATTR_num, 1);
  bool is_transposed = ts_insn_attr(function, insn, TS_ATTR_trans, 0) != 0;
  struct words words = fragment(warp, code, 0, (enum ts_dtype)code->dtype, count);
  if (unset->is_active) check_uses(warp, code);
  unset->loaded = 0;
  enum ts__step step = run(warp, code);
  if (step != TS__STEP_NEXT) return step;
  for (uint32_t w = 0; w < words.count; w++) {
    uint32_t mask = lanes_of_rows(unset->loaded >> w * 8 & 0xff, is_transposed);
    for (uint32_t b = 0; b < TS__WORD_BYTES; b++) {
      uint32_t *bytes = &unset->local[(words.first + w) * TS__WORD_BYTES + b];
      *bytes = (*bytes & ~warp->active) | (mask & warp->active);
    }
  }
  mark_dirty(unset, code, words.first, words.count);
  return step;
}

/* Tensor memory is not followed: what comes from it counts as set. */
static enum ts__step step_tmem_ld(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__unset *unset = unset_of(warp);
  const struct ts_function *function = warp->program->function;
  uint32_t count =
      (uint32_t)ts_insn_attr(function, &function->insns.data[code->insn], TS_ATTR_num, 1);
  struct words words = fragment(warp, code, 0, (enum ts_dtype)code->dtype, count);
  if (unset->is_active) check_uses(warp, code);
  for (uint32_t b = words.first * TS__WORD_BYTES; b < (words.first + words.count) * TS__WORD_BYTES;
       b++)
    unset->local[b] &= ~warp->active;
  mark_dirty(unset, code, words.first, words.count);
  return run(warp, code);
}

/* --- life */

/* Instructions of the whole warp, at which its lanes wait for each other. */
static enum ts__step step_together(struct ts__warp *warp, const struct ts__code *code) {
  ts_race_meet(&warp->block->check->race, warp->index);
  return ts__check_plain(warp, code);
}

void ts__check_value_hook(struct ts__check *check) {
  struct ts__program *program = check->program;
  for (uint32_t i = 0; i < program->code_count; i++) {
    struct ts__code *code = &program->code[i];
    check->exec[i].run = code->exec;
    switch (code->op) {
    case TS_OP_ld_local: code->exec = step_ld_local; break;
    case TS_OP_st_local: code->exec = step_st_local; break;
    case TS_OP_ld_global:
    case TS_OP_ld_shared:
    case TS_OP_atom_global_ret:
    case TS_OP_atom_shared_ret: code->exec = step_load; break;
    case TS_OP_mma: code->exec = step_mma; break;
    case TS_OP_ldmatrix: code->exec = step_ldmatrix; break;
    case TS_OP_tmem_ld: code->exec = step_tmem_ld; break;
    case TS_OP_br:
    case TS_OP_exit: break;
    case TS_OP_cbr: code->exec = check->speed ? step_branch : ts__check_plain; break;
    case TS_OP_warp_sync:
    case TS_OP_shfl:
    case TS_OP_vote:
    case TS_OP_match:
    case TS_OP_redux:
    case TS_OP_stmatrix: code->exec = step_together; break;
    default:
      code->exec = program->options->check_numbers ? ts__check_number : ts__check_plain;
      break;
    }
  }
}

enum { WORD_BITS = 64 };

struct sets {
  uint64_t *in, *defs;
  size_t words;
};

static void add(uint64_t *set, uint32_t i) { set[i / WORD_BITS] |= (uint64_t)1 << i % WORD_BITS; }
static bool has(const uint64_t *set, uint32_t i) { return set[i / WORD_BITS] >> i % WORD_BITS & 1; }

/* in[to] keeps what is set at the end of `from` as well. */
static bool flow(struct sets *sets, size_t from, uint32_t to) {
  bool changed = false;
  for (size_t w = 0; w < sets->words; w++) {
    uint64_t out = sets->in[from * sets->words + w] | sets->defs[from * sets->words + w];
    uint64_t *in = &sets->in[to * sets->words + w];
    if (!(*in & ~out)) continue;
    *in &= out;
    changed = true;
  }
  return changed;
}

static void iterate(const struct ts_function *function, struct sets *sets) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t b = 0; b < function->blocks.count; b++) {
      const struct ts_block *block = &function->blocks.data[b];
      const struct ts_insn *last = &function->insns.data[block->first_insn + block->insn_count - 1];
      for (uint32_t i = 0; i < last->operand_count && i < 3; i++) {
        const struct ts_operand *operand = ts_insn_operand(function, last, i);
        if (operand->kind == TS_OPERAND_BLOCK && flow(sets, b, operand->index)) changed = true;
      }
    }
  }
}

/* Registers that some path reads before it has set them. */
static void find_reads(const struct ts_function *function, struct sets *sets, uint64_t *found) {
  for (size_t b = 0; b < function->blocks.count; b++) {
    uint64_t *set = &sets->in[b * sets->words];
    const struct ts_block *block = &function->blocks.data[b];
    for (uint32_t i = block->first_insn; i < block->first_insn + block->insn_count; i++) {
      const struct ts_insn *insn = &function->insns.data[i];
      for (uint32_t k = 0; k < insn->operand_count; k++) {
        const struct ts_operand *operand = ts_insn_operand(function, insn, k);
        if (operand->kind == TS_OPERAND_REG && !has(set, operand->index))
          add(found, operand->index);
      }
      if (insn->dst != TS_NONE) add(set, insn->dst);
    }
  }
}

static enum ts_status find_unset_regs(struct ts__check *check, struct ts_arena *arena,
                                      uint64_t **found) {
  const struct ts_function *function = check->program->function;
  size_t blocks = function->blocks.count;
  struct sets sets = {.words = function->regs.count / WORD_BITS + 1};
  sets.in = ts_new_array(arena, uint64_t, sets.words * blocks);
  sets.defs = ts_new_array(arena, uint64_t, sets.words * blocks);
  *found = ts_new_array(arena, uint64_t, sets.words);
  if (!sets.in || !sets.defs || !*found) return ts_fail_memory(check->ctx);
  memset(sets.in, 0xff, sets.words * blocks * sizeof *sets.in);
  memset(&sets.in[function->entry * sets.words], 0, sets.words * sizeof *sets.in);
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE)
      add(&sets.in[function->entry * sets.words], function->params.data[i].reg);
  for (uint32_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (insn->dst != TS_NONE) add(&sets.defs[insn->block * sets.words], insn->dst);
  }
  iterate(function, &sets);
  find_reads(function, &sets, *found);
  return TS_OK;
}

enum ts_status ts__check_value_init(struct ts__check *check) {
  struct ts__program *program = check->program;
  const struct ts_function *function = program->function;
  uint64_t *found;
  check->exec = ts_new_array(program->arena, struct ts__exec, program->code_count);
  uint32_t *regs = ts_new_array(program->arena, uint32_t, function->regs.count + 1);
  if (!check->exec || !regs) return ts_fail_memory(check->ctx);
  struct ts_arena scratch;
  ts_arena_init(&scratch, check->ctx->allocator);
  enum ts_status status = find_unset_regs(check, &scratch, &found);
  for (uint32_t i = 0; status == TS_OK && i < function->regs.count; i++)
    if (has(found, i)) regs[check->unset_reg_count++] = i;
  check->unset_regs = regs;
  ts_arena_free(&scratch);
  return status;
}

enum ts_status ts__check_value_block_init(struct ts__check *check) {
  struct ts__program *program = check->program;
  uint32_t words = program->local_words / TS__LANES;
  check->unset = ts_new_array(program->arena, struct ts__unset, program->warps_per_block);
  if (!check->unset) return ts_fail_memory(check->ctx);
  for (uint32_t i = 0; i < program->warps_per_block; i++) {
    struct ts__unset *unset = &check->unset[i];
    unset->regs = ts_new_array(program->arena, uint32_t, program->reg_words + 1u);
    unset->local = ts_new_array(program->arena, uint32_t, (size_t)words * TS__WORD_BYTES + 1);
    unset->is_dirty = ts_new_array(program->arena, uint8_t, words + 1u);
    unset->writer = ts_new_array(program->arena, uint32_t, words + 1u);
    if (!unset->regs || !unset->local || !unset->is_dirty || !unset->writer)
      return ts_fail_memory(check->ctx);
  }
  return TS_OK;
}

static void set_reg(struct ts__unset *unset, const struct ts__program *program, uint32_t index) {
  const struct ts_reg *reg = &program->function->regs.data[index];
  uint32_t words = component_words(reg->is_uniform, ts__is_wide(reg->type.dtype));
  for (uint32_t i = 0; i < reg->type.lanes; i++)
    unset->regs[program->reg_offset[index] + i * words] = UINT32_MAX;
}

void ts__check_value_block(struct ts__block *block) {
  struct ts__check *check = block->check;
  const struct ts__program *program = check->program;
  uint32_t words = program->local_words / TS__LANES;
  for (uint32_t i = 0; i < program->warps_per_block; i++) {
    struct ts__unset *unset = &check->unset[i];
    unset->is_active = check->unset_reg_count != 0;
    unset->origin = TS_NONE;
    unset->origin_kind = TS_DIAG_UNSET_LOCAL;
    memset(unset->regs, 0, program->reg_words * sizeof *unset->regs);
    memset(unset->local, 0xff, (size_t)words * TS__WORD_BYTES * sizeof *unset->local);
    memset(unset->is_dirty, 0, words);
    for (uint32_t k = 0; k < check->unset_reg_count; k++)
      set_reg(unset, program, check->unset_regs[k]);
  }
}
