/* Blocks that do what another block of the launch has done are told as repetitions of it.
 *
 * ir/block_form.h says how control and addresses depend on the block. A block that is run is a
 * *model*: while it runs, each comparison that depends on the block notes how near the difference of
 * its operands comes to a change of sign. A later block whose forms differ by less than that, and not
 * at all where values must be equal, repeats the model. */
#include "interp/interp_priv.h"

#include <string.h>

/* Differences that a comparison has seen, by sign: how near to 0. */
struct range {
  int64_t highest_negative, lowest_positive; /* INT64_MIN, INT64_MAX: none was seen */
  bool has_zero;
};

struct model {
  uint32_t block;
  const int64_t *atoms;
  const struct range *ranges; /* by guard */
};

struct ts__repeat {
  struct ts_ctx *ctx;
  struct ts__program *program;
  struct ts_block_forms forms;
  struct range *ranges; /* of the block that is running */
  int64_t *atoms;       /* of the block that is asked about */
  struct ts_shift *shifts;
  TS_VEC(struct model) models;
  TS_VEC(uint64_t) keys; /* of the models: what must be equal, as a hash */
  uint64_t key;          /* of the block that is asked about */
  /* A warp of its own computes atoms: nothing that it does is told. */
  struct ts__program quiet;
  struct ts_run_options quiet_options;
  struct ts_diag_list diags;
  struct ts_ctx quiet_ctx;
  struct ts_run_stats stats;
  struct ts__block block;
  struct ts__warp warp;
};

/* --- while a model runs */

static void note(struct range *range, int64_t difference) {
  if (difference == 0)
    range->has_zero = true;
  else if (difference > 0 && difference < range->lowest_positive)
    range->lowest_positive = difference;
  else if (difference < 0 && difference > range->highest_negative)
    range->highest_negative = difference;
}

static uint64_t component(const struct ts__warp *warp, const struct ts__operand *operand,
                          uint32_t i, uint32_t lane) {
  struct ts__operand one = *operand;
  uint32_t slots = operand->is_uniform ? 1 : TS__LANES;
  if (operand->lanes > 1) one.offset += i * slots * (ts__is_wide(operand->dtype) ? 2 : 1);
  return ts__operand_lane(warp, &one, lane);
}

static enum ts__step compare(struct ts__warp *warp, const struct ts__code *code) {
  if (!warp->program->repeat) return ts__exec_binary(warp, code); /* of an atom: nobody's margin */
  struct range *range = &warp->program->repeat->ranges[code->ext];
  uint32_t lanes = code->dst_is_uniform ? warp->active & (0 - warp->active) : warp->active;
  for (; lanes; lanes &= lanes - 1)
    for (uint32_t i = 0; i < code->lanes; i++)
      note(range, (int64_t)(component(warp, &code->operands[0], i, ts__first_lane(lanes)) -
                            component(warp, &code->operands[1], i, ts__first_lane(lanes))));
  return ts__exec_binary(warp, code);
}

/* --- comparing a block with models */

static int64_t difference(const struct ts_form *form, const int64_t *a, const int64_t *b) {
  uint64_t sum = 0; /* wraps where an atom is no number, as one read from memory */
  for (uint32_t i = 0; i < form->term_count; i++)
    sum += (uint64_t)form->terms[i].coefficient *
           ((uint64_t)a[form->terms[i].atom] - (uint64_t)b[form->terms[i].atom]);
  return (int64_t)sum;
}

/* The sign of value + step, -1, 0 or 1, as far as that is a number. */
static int moved_sign(int64_t value, int64_t step) {
  int64_t sum;
  if (__builtin_add_overflow(value, step, &sum)) return value < 0 ? -1 : 1;
  return sum < 0 ? -1 : sum > 0;
}

/* Would every outcome be the same with all differences moved by `step`? */
static bool keeps_outcomes(uint16_t op, const struct range *range, int64_t step) {
  bool has_negative = range->highest_negative != INT64_MIN;
  bool has_positive = range->lowest_positive != INT64_MAX;
  int negative = moved_sign(range->highest_negative, step);
  int positive = moved_sign(range->lowest_positive, step);
  if (step == 0) return true;
  switch (op) {
  case TS_OP_lt: /* below 0, or not */
    return (!has_negative || negative < 0) && (!has_positive || positive >= 0) &&
           (!range->has_zero || step > 0);
  case TS_OP_le: /* above 0, or not */
    return (!has_negative || negative <= 0) && (!has_positive || positive > 0) &&
           (!range->has_zero || step < 0);
  default:
    return (!has_negative || negative < 0) && (!has_positive || positive > 0) && !range->has_zero;
  }
}

static bool fits(const struct ts__repeat *repeat, const struct model *model) {
  for (uint32_t i = 0; i < repeat->forms.guard_count; i++) {
    const struct ts_block_guard *guard = &repeat->forms.guards[i];
    int64_t step = difference(&guard->form, repeat->atoms, model->atoms);
    if (guard->insn == TS_NONE
            ? step != 0
            : !keeps_outcomes(repeat->program->code[guard->insn].op, &model->ranges[i], step))
      return false;
  }
  return true;
}

/* Blocks with different keys differ in something that must be equal. */
static uint64_t key_of(const struct ts__repeat *repeat) {
  uint64_t key = 0;
  for (uint32_t i = 0; i < repeat->forms.guard_count; i++) {
    const struct ts_block_guard *guard = &repeat->forms.guards[i];
    uint64_t sum = 0;
    if (guard->insn != TS_NONE) continue;
    for (uint32_t k = 0; k < guard->form.term_count; k++)
      sum += (uint64_t)guard->form.terms[k].coefficient *
             (uint64_t)repeat->atoms[guard->form.terms[k].atom];
    key = (key ^ sum) * UINT64_C(0x9e3779b97f4a7c15);
    key ^= key >> 29;
  }
  return key;
}

static uint32_t find_shifts(const struct ts__repeat *repeat, const struct model *model) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < repeat->forms.move_count; i++) {
    const struct ts_block_move *move = &repeat->forms.moves[i];
    struct ts_shift shift = {.insn = move->insn};
    bool moves = false;
    if (move->rank == 0) shift.bytes = difference(&move->forms[0], repeat->atoms, model->atoms);
    moves = shift.bytes != 0;
    for (uint32_t d = 0; d < move->rank; d++) {
      shift.coordinate[d] = (int32_t)difference(&move->forms[d], repeat->atoms, model->atoms);
      moves |= shift.coordinate[d] != 0;
    }
    if (moves) repeat->shifts[count++] = shift;
  }
  return count;
}

/* --- atoms of a block */

static void find_atoms(struct ts__repeat *repeat, uint64_t index) {
  const uint32_t *grid = repeat->program->launch->grid;
  struct ts__warp *warp = &repeat->warp;
  struct ts__block *block = &repeat->block;
  block->index = (uint32_t)index;
  block->id[0] = (uint32_t)(index % grid[0]);
  block->id[1] = (uint32_t)(index / grid[0] % grid[1]);
  block->id[2] = (uint32_t)(index / grid[0] / grid[1]);
  block->status = TS_OK;
  for (uint32_t i = 0; i < repeat->forms.insn_count; i++) {
    const struct ts__code *code = &repeat->program->code[repeat->forms.insns[i]];
    code->exec(warp, code);
  }
  for (uint32_t i = 0; i < repeat->forms.atom_count; i++) {
    uint32_t number = repeat->forms.atoms[i];
    const struct ts_reg *reg = &repeat->program->function->regs.data[number];
    struct ts__operand operand = {.base = TS__BASE_REGS,
                                  .is_uniform = reg->is_uniform,
                                  .dtype = reg->type.dtype,
                                  .lanes = 1,
                                  .offset = repeat->program->reg_offset[number]};
    repeat->atoms[i] = (int64_t)ts__operand_lane(warp, &operand, 0);
  }
}

enum ts_status ts__repeat_block(struct ts__repeat *repeat, uint64_t index, bool *is_repeated) {
  struct ts_sink *sink = repeat->program->options->sink;
  *is_repeated = false;
  find_atoms(repeat, index);
  repeat->key = key_of(repeat);
  for (size_t i = repeat->models.count; i-- > 0;) {
    const struct model *model = &repeat->models.data[i];
    if (repeat->keys.data[i] != repeat->key || !fits(repeat, model)) continue;
    *is_repeated = true;
    return sink->repeat(sink, (uint16_t)repeat->program->launch_index, (uint32_t)index,
                        model->block, repeat->shifts, find_shifts(repeat, model));
  }
  for (uint32_t i = 0; i < repeat->forms.guard_count; i++)
    repeat->ranges[i] = (struct range){.highest_negative = INT64_MIN, .lowest_positive = INT64_MAX};
  return TS_OK;
}

enum ts_status ts__repeat_keep(struct ts__repeat *repeat, uint64_t index) {
  struct ts_arena *arena = repeat->program->arena;
  int64_t *atoms = ts_new_array(arena, int64_t, repeat->forms.atom_count + 1);
  struct range *ranges = ts_new_array(arena, struct range, repeat->forms.guard_count + 1);
  if (!atoms || !ranges) return ts_fail_memory(repeat->ctx);
  memcpy(atoms, repeat->atoms, repeat->forms.atom_count * sizeof *atoms);
  memcpy(ranges, repeat->ranges, repeat->forms.guard_count * sizeof *ranges);
  struct model model = {(uint32_t)index, atoms, ranges};
  const struct ts_allocator *allocator = repeat->ctx->allocator;
  if (ts_vec_push(&repeat->models, allocator, model) ||
      ts_vec_push(&repeat->keys, allocator, repeat->key))
    return ts_fail_memory(repeat->ctx);
  return TS_OK;
}

/* --- life */

static bool may_repeat(const struct ts__program *program) {
  return program->slice && program->slice->is_executed && program->options->sink->repeat &&
         program->blocks_per_unit == 1;
}

static bool allocate(struct ts__repeat *repeat) {
  struct ts_arena *arena = repeat->program->arena;
  repeat->ranges = ts_new_array(arena, struct range, repeat->forms.guard_count + 1);
  repeat->atoms = ts_new_array(arena, int64_t, repeat->forms.atom_count + 1);
  repeat->shifts = ts_new_array(arena, struct ts_shift, repeat->forms.move_count + 1);
  repeat->warp.regs =
      ts_arena_alloc_array(arena, (size_t)repeat->program->reg_words + 1, sizeof(uint32_t), 64);
  return repeat->ranges && repeat->atoms && repeat->shifts && repeat->warp.regs;
}

static void start_warp(struct ts__repeat *repeat) {
  const struct ts__program *program = repeat->program;
  repeat->quiet_options = *program->options;
  repeat->quiet_options.sink = &ts_sink_null;
  repeat->quiet = *program;
  repeat->quiet.options = &repeat->quiet_options;
  repeat->quiet_ctx = (struct ts_ctx){repeat->ctx->allocator, &repeat->diags};
  repeat->block = (struct ts__block){
      .program = &repeat->quiet, .ctx = &repeat->quiet_ctx, .stats = &repeat->stats};
  repeat->warp.block = &repeat->block;
  repeat->warp.program = &repeat->quiet;
  repeat->warp.active = repeat->warp.alive = UINT32_MAX;
  memset(repeat->warp.regs, 0, (size_t)program->reg_words * 4);
  ts__set_params(&repeat->warp);
}

enum ts_status ts__repeat_init(struct ts_ctx *ctx, struct ts__program *program) {
  struct ts_block_forms forms;
  if (!may_repeat(program)) return TS_OK;
  TS_TRY(ts_block_forms_find(ctx, program->function, program->launch, program->slice,
                             program->arena, &forms));
  if (forms.obstacle) return TS_OK;
  struct ts__repeat *repeat = ts_new(program->arena, struct ts__repeat);
  if (!repeat) return ts_fail_memory(ctx);
  repeat->ctx = ctx;
  repeat->program = program;
  repeat->forms = forms;
  if (!allocate(repeat)) return ts_fail_memory(ctx);
  TS_TRY(ts_diag_list_init(&repeat->diags, ctx->allocator));
  for (uint32_t i = 0; i < forms.guard_count; i++) {
    if (forms.guards[i].insn == TS_NONE) continue;
    program->code[forms.guards[i].insn].exec = compare;
    program->code[forms.guards[i].insn].ext = i;
  }
  start_warp(repeat);
  program->repeat = repeat;
  return TS_OK;
}

void ts__repeat_free(struct ts__program *program) {
  struct ts__repeat *repeat = program->repeat;
  if (!repeat) return;
  ts_vec_free(&repeat->models, repeat->ctx->allocator);
  ts_vec_free(&repeat->keys, repeat->ctx->allocator);
  ts_diag_list_free(&repeat->diags);
  program->repeat = NULL;
}
