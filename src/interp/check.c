/* Checks: their life, the order that barriers make, and reports. */
#include "interp/check_priv.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = TS__CHUNK_BYTES, MBARRIER_BYTES = 8 };

/* --- what the kernel is like */

static void lower_to(uint32_t *granule_bytes, uint64_t size_bytes) {
  uint64_t power = size_bytes & (0 - size_bytes);
  if (power && power < *granule_bytes) *granule_bytes = (uint32_t)power;
}

/* The largest power of two that divides the size of every access of the space. */
static uint32_t granule_of(const struct ts__program *program, enum ts_space space) {
  const struct ts_function *function = program->function;
  uint32_t granule_bytes = 16;
  for (uint32_t i = 0; i < program->code_count; i++) {
    const struct ts__code *code = &program->code[i];
    bool is_global = code->op == TS_OP_ld_global || code->op == TS_OP_st_global;
    bool is_shared = code->op == TS_OP_ld_shared || code->op == TS_OP_st_shared;
    uint64_t element_bits = ts_dtype_bits((enum ts_dtype)code->dtype);
    uint64_t element_bytes = element_bits % 8 ? 1 : element_bits / 8;
    if (space == TS_SPACE_GLOBAL ? is_global : is_shared)
      lower_to(&granule_bytes, element_bits % 8 ? 1 : element_bytes * code->lanes);
    else if (code->op == TS_OP_atom_global || code->op == TS_OP_atom_global_ret ||
             code->op == TS_OP_atom_shared || code->op == TS_OP_atom_shared_ret)
      lower_to(&granule_bytes, element_bytes);
    else if (code->op == TS_OP_cp_async)
      lower_to(&granule_bytes, (uint64_t)ts_insn_attr(function, &function->insns.data[code->insn],
                                                      TS_ATTR_bytes, 16));
    else if (code->op == TS_OP_mbarrier_init && space == TS_SPACE_SHARED)
      lower_to(&granule_bytes, MBARRIER_BYTES);
    else if (code->op == TS_OP_tmem_alloc && space == TS_SPACE_SHARED)
      lower_to(&granule_bytes, 4);
  }
  for (uint32_t i = 0; i < program->plan->tensormap_count && space == TS_SPACE_GLOBAL; i++) {
    const struct ts_tensormap *map = &program->plan->tensormaps[i];
    lower_to(&granule_bytes, map->elem_size_bytes); /* boxes are cut at the tensor's ends */
  }
  return granule_bytes;
}

/* The allocation that a global operand's base names when it is a parameter; 0 when unknown. */
static uint64_t allocation_of(const struct ts__program *program, uint32_t insn_id) {
  const struct ts_function *function = program->function;
  const struct ts_operand *base = ts_insn_operand(function, &function->insns.data[insn_id], 0);
  for (uint32_t i = 0; i < function->params.count; i++) {
    const struct ts_param *param = &function->params.data[i];
    if (param->kind == TS_PARAM_POINTER && base->kind == TS_OPERAND_REG &&
        param->reg == base->index)
      return program->launch->args[i].value >> TS_ADDRESS_SHIFT;
    if (param->kind == TS_PARAM_TENSORMAP && base->kind == TS_OPERAND_TENSORMAP &&
        base->index == i && program->launch->args[i].value < program->plan->tensormap_count)
      return program->plan->tensormaps[program->launch->args[i].value].global_address >>
             TS_ADDRESS_SHIFT;
  }
  return 0;
}

/* Memory that a launch never writes needs no shadow: it has no conflicts. */
static void find_written(struct ts__program *program, struct ts__check_run *run) {
  bool all = false;
  for (size_t i = 0; i < run->shadow_count; i++)
    run->shadows[i].is_written = false;
  for (uint32_t i = 0; i < program->code_count; i++) {
    uint16_t op = program->code[i].op;
    if (op != TS_OP_st_global && op != TS_OP_atom_global && op != TS_OP_atom_global_ret &&
        op != TS_OP_bulk_store && op != TS_OP_tma_store)
      continue;
    uint64_t allocation = allocation_of(program, program->code[i].insn);
    if (allocation == 0 || allocation >= run->shadow_count)
      all = true;
    else
      run->shadows[allocation].is_written = true;
  }
  for (size_t i = 0; all && i < run->shadow_count; i++)
    run->shadows[i].is_written = true;
}

/* --- life */

enum ts_status ts__check_run_init(struct ts_ctx *ctx, struct ts__check_run *run,
                                  const struct ts_device_memory *memory) {
  memset(run, 0, sizeof *run);
  ts_arena_init(&run->arena, ctx->allocator);
  run->shadows = ts_new_array(&run->arena, struct ts__global_shadow, memory->allocations.count + 1);
  if (!run->shadows) return ts_fail_memory(ctx);
  run->shadow_count = memory->allocations.count;
  for (size_t i = 1; i < run->shadow_count; i++) {
    const struct ts_allocation *allocation = &memory->allocations.data[i];
    if (!allocation->is_unset || allocation->size_bytes == 0) continue;
    run->shadows[i].unset = ts_new_array(&run->arena, uint8_t, allocation->size_bytes);
    if (!run->shadows[i].unset) return ts_fail_memory(ctx);
    memset(run->shadows[i].unset, 1, allocation->size_bytes);
  }
  return TS_OK;
}

static void free_shadows(struct ts__check_run *run) {
  for (size_t i = 0; i < run->shadow_count; i++) {
    if (run->shadows[i].is_made) ts_global_race_free(&run->shadows[i].race);
    run->shadows[i].is_made = false;
  }
  run->cell_count = 0;
}

void ts__check_run_free(struct ts__check_run *run) {
  free_shadows(run);
  ts_arena_free(&run->arena);
}

/* What a block needs for itself. */
static enum ts_status init_block(struct ts__check *check) {
  struct ts__program *program = check->program;
  check->tag_count = (size_t)(program->shared_bytes / CHUNK_BYTES + 1);
  check->tags = ts_new_array(program->arena, struct ts__chunk_tag, check->tag_count);
  if (!check->tags) return ts_fail_memory(check->ctx);
  TS_TRY(ts_race_init(check->ctx, &check->race, program->shared_bytes,
                      granule_of(program, TS_SPACE_SHARED),
                      program->warps_per_block + program->has_tensor));
  TS_TRY(ts__check_tensor_init(check));
  check->race.order = check->order;
  if (check->speed) check->race.log = &check->barrier_log;
  if (program->blocks_per_cluster > 1) TS_TRY(ts_race_init_peers(check->ctx, &check->race));
  TS_TRY(
      ts_use_init(check->ctx, &check->use, program->shared_bytes, 1u << check->race.granule_shift));
  TS_TRY(ts__check_box_block_init(check));
  return ts__check_value_block_init(check);
}

enum ts_status ts__check_launch(struct ts_ctx *ctx, struct ts__program *program,
                                struct ts__check_run *run) {
  uint32_t count = program->blocks_per_unit;
  struct ts__check *checks = ts_new_array(program->arena, struct ts__check, count);
  if (!checks) return ts_fail_memory(ctx);
  struct ts__check launch = {.ctx = ctx, .program = program, .run = run};
  program->check = checks;
  program->global_granule_bytes = granule_of(program, TS_SPACE_GLOBAL);
  TS_TRY(ts__check_order_launch(ctx, program, &launch));
  find_written(program, run);
  if (program->options->check_speed) {
    ts__check_occupancy(ctx, program);
    launch.speed = ts_new_array(program->arena, struct ts__speed, program->code_count);
    launch.barrier_log.is_needed = ts_new_array(program->arena, uint8_t, program->code_count);
    if (!launch.speed || !launch.barrier_log.is_needed) return ts_fail_memory(ctx);
  }
  for (uint32_t i = 0; i < program->code_count; i++)
    if (program->code[i].op == TS_OP_wgmma_fence) launch.has_wgmma = true;
  TS_TRY(ts__check_box_init(&launch));
  TS_TRY(ts__check_value_init(&launch));
  for (uint32_t i = 0; i < count; i++) {
    checks[i] = launch;
    TS_TRY(init_block(&checks[i]));
  }
  ts__check_value_hook(&checks[0]);
  return TS_OK;
}

enum ts_status ts__check_launch_end(struct ts_ctx *ctx, struct ts__program *program,
                                    enum ts_status status) {
  if (!program->check) return status;
  if (program->check->boxes && ts__check_box_launch_end(ctx, program, status == TS_OK))
    status = TS_HAZARD;
  if (program->check->speed) ts__check_speed_report(program->check);
  if (program->check->run) free_shadows(program->check->run);
  ts__check_order_launch_end(program->check);
  for (uint32_t i = 0; i < program->blocks_per_unit; i++) {
    for (uint32_t w = 0; w < TS_RACE_MAX_WARPS; w++)
      ts_vec_free(&program->check[i].barrier_log.first_barrier[w], ctx->allocator);
    ts_race_free(&program->check[i].race);
    ts_global_race_free(&program->check[i].tensor);
    ts_use_free(&program->check[i].use);
    ts_vec_free(&program->check[i].mbarriers, ctx->allocator);
  }
  return status;
}

void ts__check_block_start(struct ts__block *block) {
  struct ts__check *check = block->check;
  ts_race_reset(&check->race, block->index);
  ts__check_order_block(block);
  ts_use_reset(&check->use, block->shared.data);
  memset(check->barriers, 0, sizeof check->barriers);
  memset(check->tags, 0, check->tag_count * sizeof *check->tags);
  check->mbarriers.count = 0;
  check->copy_count = 0;
  check->box_signature = 0;
  check->held.conflict.kind = TS_CONFLICT_NONE;
  check->free_races = false;
  ts__check_value_block(block);
}

static void report_counts(struct ts__block *block, const struct ts__mbarrier *mbarrier) {
  char where[128];
  bool lacks = mbarrier->tx_bytes > 0;
  ts__hazard_at(&block->warps[0], mbarrier->tx_insn, TS_DIAG_EXPECT_TX, TS_NONE, TS_NONE,
                "expect_tx must name the bytes of all copies of the phase: box elements x element "
                "size, for each box",
                "the mbarrier at %s %s %lld bytes %s",
                ts__shared_text(block, mbarrier->address, where, sizeof where),
                lacks ? "still expects" : "was given",
                (long long)(lacks ? mbarrier->tx_bytes : -mbarrier->tx_bytes),
                lacks ? "that no copy brings" : "more than it was told to expect");
}

void ts__check_counts(struct ts__block *block) {
  for (size_t i = 0; i < block->mbarriers.count; i++) {
    const struct ts__mbarrier *mbarrier = &block->mbarriers.data[i];
    if (mbarrier->is_initialised && mbarrier->tx_bytes) report_counts(block, mbarrier);
  }
}

void ts__check_block_end(struct ts__block *block) {
  ts__check_counts(block);
  ts__check_use_end(block);
  ts__check_box_block_end(block);
}

/* --- order */

/* The clock of a phase, made from that of the phases before when it is the first arrival. */
static struct ts_clock *phase_clock(struct ts__phase_clocks *object, uint64_t phase) {
  while (object->last_phase < phase) {
    const struct ts_clock *before = &object->clocks[object->last_phase % TS__PHASE_RING];
    object->last_phase++;
    object->clocks[object->last_phase % TS__PHASE_RING] = *before;
  }
  return &object->clocks[phase % TS__PHASE_RING];
}

/* What is known to whoever sees phase `phase` over. Phases older than the ring: the oldest. */
static const struct ts_clock *seen_clock(const struct ts__phase_clocks *object, uint64_t phase) {
  if (phase > object->last_phase) phase = object->last_phase;
  if (phase + TS__PHASE_RING <= object->last_phase) phase = object->last_phase - TS__PHASE_RING + 1;
  return &object->clocks[phase % TS__PHASE_RING];
}

void ts__check_barrier_arrive(struct ts__warp *warp, const struct ts__code *code, uint32_t number,
                              uint64_t phase) {
  struct ts__check *check = warp->block->check;
  if (warp->active != warp->alive)
    ts__hazard(warp, code, TS_DIAG_BARRIER_DIVERGENT, ts__first_lane(warp->active), TS_NONE,
               "move the barrier out of the branch, or let whole warps take it",
               "%d of the warp's %d threads arrive at barrier %u, the others are elsewhere",
               __builtin_popcount(warp->active), __builtin_popcount(warp->alive), number);
  if (check->speed) ts__check_speed_barrier(warp, code);
  ts_race_release(&check->race, warp->index, phase_clock(&check->barriers[number], phase));
}

void ts__check_barrier_pass(struct ts__warp *warp, uint32_t number, uint64_t phase) {
  struct ts__check *check = warp->block->check;
  ts_race_acquire(&check->race, warp->index, seen_clock(&check->barriers[number], phase));
}

static struct ts__phase_clocks *find_mbarrier(struct ts__check *check, uint32_t address) {
  for (size_t i = 0; i < check->mbarriers.count; i++)
    if (check->mbarriers.data[i].address == address) return &check->mbarriers.data[i];
  return NULL;
}

/* Whoever uses the mbarrier must come after its initialisation. */
static void check_mbarrier_order(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                                 uint32_t address) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor who = {.warp = warp->index, .insn = code->insn};
  struct ts_conflict conflict = ts_race_check_read(&check->race, who, address, MBARRIER_BYTES);
  char where[128];
  if (conflict.kind == TS_CONFLICT_NONE) return;
  ts__hazard(warp, code, TS_DIAG_RACE_SHARED, lane, conflict.other_insn,
             "a barrier between mbarrier.init and the first use by other warps",
             "warp %u uses the mbarrier at %s, and nothing orders that after its initialisation by "
             "warp %u",
             warp->index, ts__shared_text(warp->block, address, where, sizeof where),
             conflict.other_warp);
}

void ts__check_mbarrier_init(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                             uint32_t address) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor who = {.warp = warp->index, .insn = code->insn};
  struct ts_conflict conflict = ts_race_write(&check->race, who, address, MBARRIER_BYTES);
  ts_use_put(&check->use, code->insn, address, MBARRIER_BYTES);
  if (conflict.kind != TS_CONFLICT_NONE)
    ts__check_conflict(warp, code, TS_SPACE_SHARED, lane, true, &conflict, address, MBARRIER_BYTES);
  struct ts__phase_clocks *object = find_mbarrier(check, address);
  if (!object) {
    struct ts__phase_clocks fresh = {.address = address};
    if (ts_vec_push(&check->mbarriers, check->ctx->allocator, fresh))
      warp->block->status = ts_fail_memory(warp->block->ctx);
    return;
  }
  memset(object, 0, sizeof *object);
  object->address = address;
}

struct ts_clock *ts__check_mbarrier_clock(struct ts__check *check, uint32_t address,
                                          uint64_t phase) {
  struct ts__phase_clocks *object = find_mbarrier(check, address);
  return object ? phase_clock(object, phase) : NULL;
}

void ts__check_mbarrier_arrive(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                               uint32_t address, uint64_t phase) {
  struct ts__check *check = warp->block->check;
  struct ts_clock *clock = ts__check_mbarrier_clock(check, address, phase);
  check_mbarrier_order(warp, code, lane, address);
  if (clock) ts_race_release(&check->race, warp->index, clock);
}

void ts__check_mbarrier_pass(struct ts__warp *warp, uint32_t address, uint64_t phases) {
  struct ts__check *check = warp->block->check;
  struct ts__phase_clocks *object = find_mbarrier(check, address);
  check_mbarrier_order(warp, &warp->program->code[warp->pc], TS_NONE, address);
  if (object && phases) ts_race_acquire(&check->race, warp->index, seen_clock(object, phases - 1));
}

void ts__check_mbarrier_bytes(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                              uint64_t address, uint64_t size_bytes) {
  const struct ts__check *check = warp->block->check;
  char where[128];
  for (size_t i = 0; i < check->mbarriers.count; i++) {
    uint64_t start = check->mbarriers.data[i].address;
    if (start >= address + size_bytes || address >= start + MBARRIER_BYTES) continue;
    ts__hazard(warp, code, TS_DIAG_BARRIER_MISUSE, lane, TS_NONE,
               "give the mbarrier bytes of its own", "%s writes data over the mbarrier at %s",
               ts_op_info((enum ts_op)code->op)->mnemonic,
               ts__shared_text(warp->block, start, where, sizeof where));
    return;
  }
}

void ts__check_fence_async(struct ts__warp *warp) {
  ts_race_fence_async(&warp->block->check->race, warp->index);
}

/* --- reports */

const char *ts__check_place_text(const struct ts__block *block, enum ts_space space,
                                 uint64_t address, char *text, size_t size_bytes) {
  if (space == TS_SPACE_SHARED) return ts__shared_text(block, address, text, size_bytes);
  const struct ts_allocation *allocation = ts_device_find(block->program->memory, address);
  if (!allocation) {
    snprintf(text, size_bytes, "address 0x%llx", (unsigned long long)address);
    return text;
  }
  int64_t bits = ts_dtype_bits((enum ts_dtype)allocation->dtype);
  snprintf(text, size_bytes, "element %lld of buffer %s",
           (long long)(ts_device_offset(address) * 8 / (bits ? bits : 8)),
           allocation->name ? allocation->name : "?");
  return text;
}

static const char *race_hint(enum ts_space space, bool other_is_block, bool is_refill) {
  if (is_refill)
    return "let the readers arrive at an mbarrier (or barrier) after their last read, and the "
           "warp that refills wait for it";
  if (other_is_block && space == TS_SPACE_SHARED)
    return "a barrier of the cluster between the two, or an arrival of cluster scope at an mbarrier "
           "for which the other block waits";
  if (other_is_block)
    return "give each block its own elements, or order them: a release (fence of the device, then "
           "an atomic) by the first and an acquire by the second, a barrier of the grid, or another "
           "launch";
  if (space == TS_SPACE_GLOBAL) return "a barrier of the block between the two, or atomics";
  return "a barrier between the two: bar.sync by both warps, or an mbarrier at which the first "
         "arrives and for which the second waits";
}

void ts__check_conflict(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                        uint32_t lane, bool is_write, const struct ts_conflict *conflict,
                        uint64_t address, uint64_t size_bytes) {
  ts__check_conflict_in(warp, code, warp->block, space, lane, is_write, conflict, address,
                        size_bytes);
}

void ts__check_conflict_in(struct ts__warp *warp, const struct ts__code *code,
                           const struct ts__block *owner, enum ts_space space, uint32_t lane,
                           bool is_write, const struct ts_conflict *conflict, uint64_t address,
                           uint64_t size_bytes) {
  const struct ts__program *program = warp->program;
  bool is_global = space == TS_SPACE_GLOBAL;
  bool other_is_block = conflict->other_block != warp->block->index;
  bool other_reads = conflict->kind == TS_CONFLICT_WRITE_AFTER_READ;
  bool is_refill = !is_global && other_reads &&
                   (code->op == TS_OP_tma_load || code->op == TS_OP_tma_load_im2col ||
                    code->op == TS_OP_tma_load_multicast || code->op == TS_OP_bulk_load ||
                    code->op == TS_OP_cp_async);
  char where[160], who[64], whose[32] = "";
  if (owner != warp->block) snprintf(whose, sizeof whose, " of block %u", owner->index);
  if (other_is_block)
    snprintf(who, sizeof who, "block %u", conflict->other_block);
  else if (conflict->other_warp == program->warps_per_block)
    snprintf(who, sizeof who, "the tensor core");
  else
    snprintf(who, sizeof who, "warp %u", conflict->other_warp);
  ts__check_place_text(owner, space, address, where, sizeof where);
  const char *mnemonic = ts_op_info((enum ts_op)code->op)->mnemonic;
  const char *other = conflict->other_insn < program->code_count
                          ? ts_op_info((enum ts_op)program->code[conflict->other_insn].op)->mnemonic
                          : "an earlier operation";
  if (conflict->kind == TS_CONFLICT_PROXY) {
    ts__hazard(warp, code, TS_DIAG_RACE_PROXY, lane, conflict->other_insn,
               "fence.proxy.async after the writes and before the barrier that lets this "
               "instruction go",
               "%s reads %llu bytes at %s through the asynchronous proxy; %s of %s wrote them "
               "and no fence.proxy.async lies between",
               mnemonic, (unsigned long long)size_bytes, where, other, who);
    return;
  }
  ts__hazard(warp, code,
             is_global   ? TS_DIAG_RACE_GLOBAL
             : is_refill ? TS_DIAG_RACE_REFILL
                         : TS_DIAG_RACE_SHARED,
             lane, conflict->other_insn, race_hint(space, other_is_block, is_refill),
             "%s of warp %u %s %llu bytes at %s%s, which %s of %s %s; nothing orders the two",
             mnemonic, warp->index, is_write ? "writes" : "reads", (unsigned long long)size_bytes,
             where, whose, other, who, other_reads ? "reads" : "writes");
}
