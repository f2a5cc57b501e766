/* Launches: checks against the machine, workers with the state of a unit of blocks each, and
 * diagnostics in the order of units whatever the number of workers. */
#include "interp/check_priv.h"

#include "base/pool.h"

#include <pthread.h>
#include <string.h>

enum {
  MAX_WORKERS = 256,
  MAX_CLUSTER_BLOCKS = 16,    /* DOC: 8 are portable, 16 the most there are */
  PROGRESS_CALLS = 200,       /* about, in a launch */
  POLLING_INSNS = 1 << 26,    /* of a warp whose control depends on what the launch computes */
  MATRIX_ROWS = 64,           /* of a warpgroup's product */
  MATRIX_COLUMNS = 256,       /* widest wgmma */
  MATRIX_DEPTH = 512,         /* longest chain of instructions on one accumulator */
  BLOCK_LIMIT_BYTES = 1 << 30 /* registers and local arrays of a block */
};
#define UNIT_LIMIT_BYTES                                                                           \
  ((uint64_t)8 << 30) /* the same and shared memory, of all blocks of a unit */

/* What one host thread needs to run blocks; reset for every block, not made anew. */
struct worker {
  struct ts__unit unit;
  struct ts_ctx ctx; /* with diagnostics of the running unit only */
  struct ts_diag_list diags;
  struct ts_arena scratch;
  struct ts_run_stats stats;
  struct ts_mma_scratch *mma_scratch;
  struct ts__matrix_cache *matrix_cache;
  void *memory; /* warps, registers, local arrays */
  size_t memory_bytes;
  uint64_t unit_index; /* running, or finished last */
};

/* Diagnostics of a finished unit that wait for those of lower ones. */
struct staged {
  uint64_t unit;
  struct ts_diag_list diags;
};

struct run {
  struct ts_ctx *ctx;
  struct ts__program *program;
  struct worker *workers;
  uint32_t worker_count;
  uint64_t unit_count, block_count;
  pthread_mutex_t lock; /* guards what follows, and unit_index of the workers */
  TS_VEC(struct staged) staged;
  uint64_t failed_unit; /* lowest that failed; UINT64_MAX none */
  uint64_t done_count;
  bool has_hazard, has_lock;
  uint64_t progress_at; /* of worker 0: done blocks at which progress is told next */
};

/* --- checks */

#define BAD_LAUNCH(ctx, ...)                                                                       \
  ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_HOST_LAUNCH, TS_NO_PLACE, __VA_ARGS__)

static enum ts_status check_geometry(struct ts_ctx *ctx, const struct ts_launch *launch,
                                     const struct ts_machine *machine) {
  static const char axes[] = "xyz";
  for (int i = 0; i < 3; i++) {
    if (launch->grid[i] == 0 || launch->block[i] == 0)
      return BAD_LAUNCH(ctx, "launch of %s: %s.%c is 0", launch->function,
                        launch->grid[i] ? "block" : "grid", axes[i]);
    if (launch->grid[i] > machine->max_grid[i])
      return BAD_LAUNCH(ctx, "launch of %s: grid.%c = %u, machine %s has at most %u",
                        launch->function, axes[i], launch->grid[i], machine->name,
                        machine->max_grid[i]);
    if (launch->block[i] > machine->max_block[i])
      return BAD_LAUNCH(ctx, "launch of %s: block.%c = %u, machine %s has at most %u",
                        launch->function, axes[i], launch->block[i], machine->name,
                        machine->max_block[i]);
  }
  uint64_t threads = (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
  uint32_t limit = machine->max_threads_per_block;
  if (limit > TS__MAX_BLOCK_WARPS * TS__LANES) limit = TS__MAX_BLOCK_WARPS * TS__LANES;
  if (threads > limit)
    return BAD_LAUNCH(ctx, "launch of %s: %llu threads a block, machine %s has at most %u",
                      launch->function, (unsigned long long)threads, machine->name, limit);
  return TS_OK;
}

static enum ts_status check_blocks(struct ts_ctx *ctx, const struct ts_launch *launch) {
  uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1];
  if (blocks > UINT32_MAX || blocks * launch->grid[2] >= UINT32_MAX)
    return ts_fail(ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "launch of %s: a grid of %u x %u x %u is more than 2^32 blocks",
                   launch->function, launch->grid[0], launch->grid[1], launch->grid[2]);
  return TS_OK;
}

static uint32_t cluster_extent(const struct ts_launch *launch, uint32_t axis) {
  return launch->cluster[axis] ? launch->cluster[axis] : 1;
}

/* How many blocks belong together. */
static enum ts_status size_unit(struct ts_ctx *ctx, struct ts__program *program) {
  static const char axes[] = "xyz";
  const struct ts_launch *launch = program->launch;
  program->blocks_per_cluster = 1;
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t extent = cluster_extent(launch, i);
    if (extent > MAX_CLUSTER_BLOCKS || launch->grid[i] % extent)
      return BAD_LAUNCH(ctx, "launch of %s: grid.%c = %u is no multiple of the cluster's %u",
                        launch->function, axes[i], launch->grid[i], extent);
    program->blocks_per_cluster *= extent;
  }
  if (program->blocks_per_cluster > MAX_CLUSTER_BLOCKS)
    return BAD_LAUNCH(ctx, "launch of %s: clusters of %u blocks, at most %d are possible",
                      launch->function, program->blocks_per_cluster, MAX_CLUSTER_BLOCKS);
  program->blocks_per_unit = program->blocks_per_cluster;
  if (launch->is_cooperative)
    program->blocks_per_unit = launch->grid[0] * launch->grid[1] * launch->grid[2];
  return TS_OK;
}

static enum ts_status check_shared(struct ts_ctx *ctx, const struct ts__program *program) {
  const struct ts_function *function = program->function;
  const struct ts_launch *launch = program->launch;
  uint64_t limit = program->machine->max_shared_bytes_per_block;
  if (launch->dynamic_shared_bytes > limit || program->shared_bytes > limit)
    return BAD_LAUNCH(
        ctx,
        "launch of %s: %llu bytes of static and %llu of dynamic shared memory, machine "
        "%s has %llu a block",
        launch->function, (unsigned long long)function->static_shared_bytes,
        (unsigned long long)launch->dynamic_shared_bytes, program->machine->name,
        (unsigned long long)limit);
  return TS_OK;
}

static enum ts_status check_args(struct ts_ctx *ctx, const struct ts__program *program) {
  const struct ts_function *function = program->function;
  const struct ts_launch *launch = program->launch;
  if (launch->arg_count != function->params.count)
    return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_ARG_MISSING, TS_NO_PLACE,
                   "launch of %s: %u arguments for %zu parameters", launch->function,
                   launch->arg_count, function->params.count);
  for (uint32_t i = 0; i < launch->arg_count; i++) {
    const struct ts_param *param = &function->params.data[i];
    const struct ts_launch_arg *arg = &launch->args[i];
    bool fits = (int)arg->kind == (int)param->kind;
    if (arg->kind == TS_LAUNCH_ARG_TENSORMAP && arg->value >= program->plan->tensormap_count)
      fits = false;
    if (!fits)
      return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_ARG_SHAPE, TS_NO_PLACE,
                     "launch of %s: argument %u does not fit parameter %s", launch->function, i,
                     param->name ? param->name : "?");
  }
  return TS_OK;
}
_Static_assert((int)TS_LAUNCH_ARG_POINTER == (int)TS_PARAM_POINTER &&
                   (int)TS_LAUNCH_ARG_TENSORMAP == (int)TS_PARAM_TENSORMAP &&
                   (int)TS_LAUNCH_ARG_SCALAR == (int)TS_PARAM_SCALAR,
               "argument kinds are parameter kinds");

/* Bytes of a block's shared window: dynamic shared memory starts after the static objects. */
static uint64_t shared_window(const struct ts_function *function, uint64_t dynamic_bytes) {
  if (!dynamic_bytes) return function->static_shared_bytes;
  uint64_t start = function->static_shared_bytes;
  if (function->dynamic_shared_address > start) start = function->dynamic_shared_address;
  return start + dynamic_bytes;
}

/* --- workers */

static uint64_t align64(uint64_t bytes) { return (bytes + 63) & ~(uint64_t)63; }

/* Lays out the warps of a block from `at` on; answers where they end. */
static uint8_t *place_warps(struct ts__block *block, const struct ts__program *program,
                            uint8_t *at) {
  block->warps = (struct ts__warp *)(void *)at;
  at += align64(program->warps_per_block * sizeof(struct ts__warp));
  for (uint32_t i = 0; i < program->warps_per_block; i++) {
    block->warps[i].regs = (uint32_t *)(void *)at;
    at += align64((uint64_t)program->reg_words * 4);
    block->warps[i].local = (uint32_t *)(void *)at;
    at += align64((uint64_t)program->local_words * 4);
  }
  return at;
}

static uint64_t warp_bytes(const struct ts__program *program) {
  return align64((uint64_t)program->reg_words * 4) + align64((uint64_t)program->local_words * 4);
}

/* TMA moves multiples of 16 bytes; cp.async may move 4 or 8, and neighbours must not be mixed up. */
static uint32_t pending_granule_bytes(const struct ts_function *function) {
  uint32_t granule_bytes = 16;
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (insn->op == TS_OP_cp_async && ts_insn_attr(function, insn, TS_ATTR_bytes, 16) < 16)
      granule_bytes = 4;
  }
  return granule_bytes;
}

static enum ts_status block_init(struct worker *worker, struct ts__block *block,
                                 const struct ts__program *program) {
  block->program = program;
  block->ctx = &worker->ctx;
  block->warp_count = program->warps_per_block;
  block->stats = &worker->stats;
  block->scratch = &worker->scratch;
  block->mma_scratch = worker->mma_scratch;
  block->matrix_cache = &worker->matrix_cache;
  if (program->has_tensor) TS_TRY(ts__tensor_init(block));
  return ts_shared_init(&worker->ctx, &block->shared, worker->ctx.allocator, program->shared_bytes,
                        pending_granule_bytes(program->function), program->warps_per_block);
}

/* The blocks of a unit and the groups that they form. */
static enum ts_status unit_init(struct ts_ctx *ctx, struct worker *worker,
                                const struct ts__program *program) {
  struct ts__unit *unit = &worker->unit;
  uint32_t count = program->blocks_per_unit, size = program->blocks_per_cluster;
  unit->blocks = ts_new_array(program->arena, struct ts__block, count);
  unit->clusters = ts_new_array(program->arena, struct ts__group, count / size);
  if (!unit->blocks || !unit->clusters) return ts_fail_memory(ctx);
  unit->block_count = count;
  unit->grid = (struct ts__group){.blocks = unit->blocks, .block_count = count};
  uint8_t *at = worker->memory;
  at += (0 - (uintptr_t)at) & 63;
  for (uint32_t i = 0; i < count; i++) {
    struct ts__block *block = &unit->blocks[i];
    block->groups[TS__GROUP_GRID] = &unit->grid;
    block->groups[TS__GROUP_CLUSTER] = &unit->clusters[i / size];
    block->rank = i % size;
    if (program->check) block->check = &program->check[i];
    if (block->rank == 0)
      unit->clusters[i / size] = (struct ts__group){.blocks = block, .block_count = size};
    at = place_warps(block, program, at);
    TS_TRY(block_init(worker, block, program));
  }
  return TS_OK;
}

static enum ts_status worker_init(struct ts_ctx *ctx, struct worker *worker,
                                  const struct ts__program *program) {
  const struct ts_allocator *allocator = ctx->allocator;
  uint64_t block_bytes = program->warps_per_block * warp_bytes(program) +
                         align64(program->warps_per_block * sizeof(struct ts__warp));
  uint64_t bytes = program->blocks_per_unit * block_bytes + 64;
  ts_arena_init(&worker->scratch, allocator);
  worker->ctx = (struct ts_ctx){.allocator = allocator, .diags = &worker->diags};
  if (ts_diag_list_init(&worker->diags, allocator) != TS_OK) return ts_fail_memory(ctx);
  worker->memory = allocator->resize(allocator->user, NULL, 0, (size_t)bytes);
  if (!worker->memory) return ts_fail_memory(ctx);
  worker->memory_bytes = (size_t)bytes;
  memset(worker->memory, 0, worker->memory_bytes);
  if (program->has_matrix) {
    worker->mma_scratch = ts_mma_scratch_new(allocator, MATRIX_ROWS, MATRIX_COLUMNS, MATRIX_DEPTH);
    if (!worker->mma_scratch) return ts_fail_memory(ctx);
  }
  return unit_init(ctx, worker, program);
}

static void worker_free(struct ts_ctx *ctx, struct worker *worker) {
  const struct ts_allocator *allocator = ctx->allocator;
  for (uint32_t i = 0; i < worker->unit.block_count; i++) {
    struct ts__block *block = &worker->unit.blocks[i];
    ts_shared_free(&block->shared);
    ts__tensor_free(allocator, block->tensor);
    ts_vec_free(&block->mbarriers, allocator);
    ts_vec_free(&block->async, allocator);
  }
  ts__matrix_cache_free(worker->matrix_cache);
  ts_mma_scratch_free(worker->mma_scratch);
  if (worker->memory) allocator->resize(allocator->user, worker->memory, worker->memory_bytes, 0);
  if (worker->scratch.allocator) ts_arena_free(&worker->scratch);
  if (worker->diags.lock) ts_diag_list_free(&worker->diags);
}

/* --- the start of a block */

static void set_param(struct ts__warp *warp, const struct ts_reg *reg, uint32_t offset,
                      uint64_t encoding) {
  uint64_t slot = ts_dtype_slot((enum ts_dtype)reg->type.dtype, encoding);
  uint32_t count = reg->is_uniform ? 1 : TS__LANES, narrow = (uint32_t)slot;
  for (uint32_t i = 0; i < count; i++) {
    if (ts__is_wide(reg->type.dtype))
      memcpy(warp->regs + offset + 2 * i, &slot, sizeof slot);
    else
      memcpy(warp->regs + offset + i, &narrow, sizeof narrow);
  }
}

/* The argument as the parameter's type holds it. */
static uint64_t argument_encoding(const struct ts_launch_arg *arg, enum ts_dtype dtype) {
  if (!arg->is_double || dtype == TS_DTYPE_f64) return arg->value;
  return ts_num_convert1(dtype, TS_DTYPE_f64, 0, arg->value);
}

void ts__set_params(struct ts__warp *warp) {
  const struct ts__program *program = warp->program;
  const struct ts_function *function = program->function;
  for (uint32_t i = 0; i < function->params.count; i++) {
    uint32_t reg = function->params.data[i].reg;
    if (reg != TS_NONE)
      set_param(warp, &function->regs.data[reg], program->reg_offset[reg],
                argument_encoding(&program->launch->args[i],
                                  (enum ts_dtype)function->params.data[i].dtype));
  }
}

/* Registers and arrays start as zeros, so that a kernel which reads what it never wrote gives the
 * same bits whichever worker runs the block. */
static enum ts_status warp_start(struct ts__block *block, uint32_t index) {
  const struct ts__program *program = block->program;
  struct ts__warp *warp = &block->warps[index];
  uint32_t *regs = warp->regs, *local = warp->local;
  uint32_t first = index * TS__LANES, threads = program->threads_per_block - first;
  memset(warp, 0, sizeof *warp);
  memset(regs, 0, (size_t)program->reg_words * 4);
  if (program->local_words) memset(local, 0, (size_t)program->local_words * 4);
  warp->block = block;
  warp->program = program;
  warp->index = index;
  warp->pc = program->block_start[program->function->entry];
  warp->alive = warp->active = threads >= TS__LANES ? UINT32_MAX : (1u << threads) - 1;
  warp->regs = regs;
  warp->local = local;
  ts__set_params(warp);
  TS_TRY(ts__warp_async_init(warp));
  return ts__warp_matrix_init(warp);
}

/* blockIdx of a block by the number of its cluster and its rank, x fastest in both. */
static void find_place(struct ts__block *block, uint64_t cluster) {
  const struct ts_launch *launch = block->program->launch;
  uint64_t rank = block->rank, index = 0, pitch = 1;
  for (uint32_t i = 0; i < 3; i++) {
    uint32_t extent = cluster_extent(launch, i), count = launch->grid[i] / extent;
    block->id[i] = (uint32_t)(cluster % count * extent + rank % extent);
    cluster /= count;
    rank /= extent;
    index += block->id[i] * pitch;
    pitch *= launch->grid[i];
  }
  block->index = (uint32_t)index;
}

static enum ts_status block_start(struct ts__block *block, uint64_t cluster) {
  find_place(block, cluster);
  ts_shared_reset(&block->shared, block->warp_count);
  if (block->tensor) ts__tensor_reset(block);
  memset(block->barriers, 0, sizeof block->barriers);
  block->mbarriers.count = 0;
  block->async.count = 0;
  block->next_ticket = 1;
  block->random_state = block->program->options->seed ^ block->index * 0xd1342543de82ef95u;
  block->status = TS_OK;
  block->has_hazard = false;
  block->free_copies = NULL;
  block->wgmma_count = 0;
  memset(block->group_warps, 0, sizeof block->group_warps);
  for (uint32_t i = 0; i < block->warp_count; i++)
    TS_TRY(warp_start(block, i));
  if (block->check) ts__check_block_start(block);
  block->stats->block_count++;
  block->stats->warp_count += block->warp_count;
  return TS_OK;
}

static void reset_group(struct ts__group *group) {
  group->arrived_threads = 0;
  group->phase = 0;
}

static enum ts_status run_unit(struct ts__unit *unit, uint64_t index) {
  const struct ts__program *program = unit->blocks[0].program;
  bool is_listening = ts__listening(unit->blocks);
  uint32_t cluster_count = unit->block_count / program->blocks_per_cluster;
  ts_arena_free(unit->blocks[0].scratch);
  reset_group(&unit->grid);
  for (uint32_t i = 0; i < cluster_count; i++)
    reset_group(&unit->clusters[i]);
  for (uint32_t i = 0; i < unit->block_count; i++) {
    struct ts__block *block = &unit->blocks[i];
    TS_TRY(block_start(block, index * cluster_count + i / program->blocks_per_cluster));
    if (is_listening)
      TS_TRY(ts__emit_agent(program, block->index, TS_EVENT_BLOCK, block->warp_count, 0));
  }
  TS_TRY(ts__unit_run(unit));
  for (uint32_t i = 0; program->check && i < unit->block_count; i++)
    ts__check_block_end(&unit->blocks[i]);
  for (uint32_t i = 0; is_listening && i < unit->block_count; i++)
    TS_TRY(ts__emit_agent(program, unit->blocks[i].index, TS_EVENT_END, 0, 0));
  return TS_OK;
}

/* --- diagnostics in the order of units */

/* Units are handed out in ascending order, so all below every worker's unit are finished. */
static uint64_t finished_below(const struct run *run) {
  uint64_t lowest = UINT64_MAX;
  for (uint32_t i = 0; i < run->worker_count; i++)
    if (run->workers[i].unit_index < lowest) lowest = run->workers[i].unit_index;
  return lowest;
}

static void merge_diags(struct ts_ctx *ctx, struct ts_diag_list *from) {
  for (size_t i = 0; i < from->items.count; i++)
    ts_diag_add(ctx->diags, &from->items.data[i]);
  ctx->diags->dropped_count += from->dropped_count;
  if (from->out_of_memory) ctx->diags->out_of_memory = true;
}

/* Hands on what belongs to units below the bound, lowest first; what lies above a failed unit
 * might not have been run by other workers and is dropped. */
static void flush_staged(struct run *run, uint64_t bound) {
  for (;;) {
    size_t lowest = run->staged.count;
    for (size_t i = 0; i < run->staged.count; i++) {
      uint64_t unit = run->staged.data[i].unit;
      if (unit < bound && (lowest == run->staged.count || unit < run->staged.data[lowest].unit))
        lowest = i;
    }
    if (lowest == run->staged.count) return;
    struct staged *staged = &run->staged.data[lowest];
    if (staged->unit <= run->failed_unit) merge_diags(run->ctx, &staged->diags);
    ts_diag_list_free(&staged->diags);
    run->staged.data[lowest] = run->staged.data[--run->staged.count];
  }
}

static enum ts_status stage_diags(struct run *run, struct worker *worker, uint64_t index) {
  if (!worker->diags.items.count && !worker->diags.out_of_memory) return TS_OK;
  struct staged staged = {.unit = index, .diags = worker->diags};
  if (ts_vec_push(&run->staged, run->ctx->allocator, staged)) return TS_NO_MEMORY;
  memset(&worker->diags, 0, sizeof worker->diags);
  return ts_diag_list_init(&worker->diags, run->ctx->allocator);
}

static enum ts_status finish_unit(struct run *run, struct worker *worker, uint64_t index,
                                  enum ts_status status, uint64_t *done_count) {
  pthread_mutex_lock(&run->lock);
  if (status != TS_OK && index < run->failed_unit) run->failed_unit = index;
  for (uint32_t i = 0; i < worker->unit.block_count; i++)
    if (worker->unit.blocks[i].has_hazard) run->has_hazard = true;
  if (stage_diags(run, worker, index) != TS_OK) status = TS_NO_MEMORY;
  if (run->staged.count) flush_staged(run, finished_below(run));
  *done_count = run->done_count += worker->unit.block_count;
  pthread_mutex_unlock(&run->lock);
  return status;
}

static enum ts_status run_or_repeat(struct worker *worker, const struct ts__program *program,
                                    uint64_t index) {
  bool is_repeated;
  if (!program->repeat) return run_unit(&worker->unit, index);
  TS_TRY(ts__repeat_block(program->repeat, index, &is_repeated));
  if (is_repeated) {
    worker->stats.block_count++;
    return TS_OK;
  }
  TS_TRY(run_unit(&worker->unit, index));
  return ts__repeat_keep(program->repeat, index);
}

static enum ts_status run_task(void *user, uint32_t worker_index, uint64_t index) {
  struct run *run = user;
  struct worker *worker = &run->workers[worker_index];
  const struct ts_run_options *options = run->program->options;
  pthread_mutex_lock(&run->lock);
  worker->unit_index = index;
  pthread_mutex_unlock(&run->lock);
  enum ts_status status = run_or_repeat(worker, run->program, index);
  uint64_t done_count;
  status = finish_unit(run, worker, index, status, &done_count);
  if (worker_index == 0 && options->progress && done_count >= run->progress_at) {
    options->progress(options->progress_user, done_count, run->block_count);
    run->progress_at = done_count + run->block_count / PROGRESS_CALLS;
  }
  return status;
}

/* --- a launch */

static void add_stats(struct ts_run_stats *total, const struct ts_run_stats *part) {
  for (uint32_t i = 0; i < TS_OP_COUNT; i++)
    total->op_count[i] += part->op_count[i];
  total->lane_op_count += part->lane_op_count;
  total->mac_count += part->mac_count;
  total->tma_box_count += part->tma_box_count;
  total->tma_bytes += part->tma_bytes;
  total->block_count += part->block_count;
  total->warp_count += part->warp_count;
}

/* Events come from one thread, and updates of global memory in the order of blocks. */
static uint32_t worker_count_of(const struct ts__program *program, uint64_t unit_count) {
  const struct ts_run_options *options = program->options;
  if (options->sink != &ts_sink_null || program->is_ordered || program->check ||
      options->worker_count < 1)
    return 1;
  uint64_t count = options->worker_count < MAX_WORKERS ? options->worker_count : MAX_WORKERS;
  return (uint32_t)(count < unit_count ? count : unit_count);
}

static enum ts_status run_init(struct run *run) {
  const struct ts__program *program = run->program;
  const uint32_t *grid = program->launch->grid;
  run->block_count = (uint64_t)grid[0] * grid[1] * grid[2];
  run->unit_count = run->block_count / program->blocks_per_unit;
  run->worker_count = worker_count_of(program, run->unit_count);
  run->failed_unit = UINT64_MAX;
  if (pthread_mutex_init(&run->lock, NULL)) return ts_fail_memory(run->ctx);
  run->has_lock = true;
  run->workers = ts_new_array(program->arena, struct worker, run->worker_count);
  if (!run->workers) return ts_fail_memory(run->ctx);
  for (uint32_t i = 0; i < run->worker_count; i++)
    TS_TRY(worker_init(run->ctx, &run->workers[i], program));
  return TS_OK;
}

static enum ts_status run_blocks(struct run *run) {
  const struct ts__program *program = run->program;
  bool is_listening = program->options->sink != &ts_sink_null;
  TS_TRY(run_init(run));
  if (is_listening)
    TS_TRY(ts__emit_agent(program, UINT32_MAX, TS_EVENT_LAUNCH, run->block_count,
                          program->launch->dynamic_shared_bytes));
  enum ts_status status = ts_pool_run(run->worker_count, run->unit_count, run_task, run);
  flush_staged(run, UINT64_MAX);
  if (status == TS_OK && is_listening)
    status = ts__emit_agent(program, UINT32_MAX, TS_EVENT_END, 0, 0);
  return status == TS_OK && run->has_hazard ? TS_HAZARD : status;
}

static void run_free(struct run *run, struct ts_run_stats *stats) {
  for (uint32_t i = 0; run->workers && i < run->worker_count; i++) {
    add_stats(stats, &run->workers[i].stats);
    worker_free(run->ctx, &run->workers[i]);
  }
  ts_vec_free(&run->staged, run->ctx->allocator);
  if (run->has_lock) pthread_mutex_destroy(&run->lock);
}

static enum ts_status check_size(struct ts_ctx *ctx, const struct ts__program *program) {
  uint64_t bytes = program->warps_per_block * warp_bytes(program);
  uint64_t unit_bytes = program->blocks_per_unit * (bytes + program->shared_bytes);
  if (unit_bytes > UNIT_LIMIT_BYTES)
    return ts_fail(ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "launch of %s: the %u blocks that run together take %llu bytes, %llu is the "
                   "limit",
                   program->launch->function, program->blocks_per_unit,
                   (unsigned long long)unit_bytes, (unsigned long long)UNIT_LIMIT_BYTES);
  if (bytes <= BLOCK_LIMIT_BYTES) return TS_OK;
  return ts_fail(ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                 "launch of %s: registers and register arrays of a block take %llu bytes, %llu is "
                 "the limit",
                 program->launch->function, (unsigned long long)bytes,
                 (unsigned long long)BLOCK_LIMIT_BYTES);
}

static enum ts_status prepare(struct ts_ctx *ctx, struct ts__program *program) {
  const struct ts_launch *launch = program->launch;
  TS_TRY(check_geometry(ctx, launch, program->machine));
  TS_TRY(check_blocks(ctx, launch));
  TS_TRY(size_unit(ctx, program));
  program->shared_bytes = shared_window(program->function, launch->dynamic_shared_bytes);
  TS_TRY(check_shared(ctx, program));
  TS_TRY(check_args(ctx, program));
  program->threads_per_block = launch->block[0] * launch->block[1] * launch->block[2];
  program->warps_per_block = (program->threads_per_block + TS__LANES - 1) / TS__LANES;
  TS_TRY(ts__program_decode(ctx, program));
  return check_size(ctx, program);
}

static enum ts_status run_launch(struct ts__program *program, struct ts_ctx *ctx,
                                 const struct ts_module *module, struct ts__check_run *check_run,
                                 struct ts_run_stats *stats) {
  program->function = ts_module_find(module, program->launch->function);
  if (!program->function)
    return BAD_LAUNCH(ctx, "launch of %s: the module has no such function",
                      program->launch->function);
  TS_TRY(prepare(ctx, program));
  struct run run = {.ctx = ctx, .program = program};
  enum ts_status status = check_run ? ts__check_launch(ctx, program, check_run) : TS_OK;
  if (status == TS_OK) status = ts__repeat_init(ctx, program);
  if (status == TS_OK) status = run_blocks(&run);
  run_free(&run, stats);
  ts__repeat_free(program);
  return ts__check_launch_end(ctx, program, status);
}

static enum ts_status run_launches(struct ts_ctx *ctx, const struct ts_module *module,
                                   const struct ts_launch_plan *plan,
                                   struct ts_device_memory *memory,
                                   const struct ts_run_options *options,
                                   const struct ts_slice *slices, struct ts__check_run *check_run,
                                   struct ts_run_stats *stats) {
  bool has_hazard = false;
  for (uint32_t i = 0; i < plan->launch_count; i++) {
    struct ts_arena arena;
    ts_arena_init(&arena, ctx->allocator);
    struct ts__program program = {.launch = &plan->launches[i],
                                  .plan = plan,
                                  .memory = memory,
                                  .machine = options->machine,
                                  .options = options,
                                  .launch_index = i,
                                  .slice = slices ? &slices[i] : NULL,
                                  .arena = &arena};
    enum ts_status status = run_launch(&program, ctx, module, check_run, stats);
    ts_arena_free(&arena);
    if (status == TS_HAZARD) has_hazard = true;
    if (status != TS_OK && (status != TS_HAZARD || options->stop_at_first_hazard)) return status;
  }
  return has_hazard ? TS_HAZARD : TS_OK;
}

_Static_assert((int)TS_SLICE_TENSOR_SHIFT == (int)TS_ADDRESS_SHIFT, "a tensor is an allocation");

static enum ts_status run_addresses(struct ts_ctx *ctx, const struct ts_module *module,
                                    const struct ts_launch_plan *plan,
                                    struct ts_device_memory *memory,
                                    const struct ts_run_options *options,
                                    struct ts_run_stats *stats) {
  struct ts_arena arena;
  struct ts_slice *slices;
  const uint64_t *tensors;
  uint32_t tensor_count;
  ts_arena_init(&arena, ctx->allocator);
  enum ts_status status =
      ts_slice_plan(ctx, module, plan, &arena, &slices, &tensors, &tensor_count);
  struct ts_run_options limited = *options;
  for (uint32_t i = 0; status == TS_OK && i < plan->launch_count; i++) {
    const struct ts_slice *slice = &slices[i];
    ts__tell_dependence(ctx, plan->launches[i].function, slice, memory, tensors, tensor_count);
    /* Blocks run one after another, so one that polls memory for a later one would never end. */
    if ((slice->depends_on_results || slice->depends_on_atomics) && !options->max_insns_per_warp)
      limited.max_insns_per_warp = POLLING_INSNS;
  }
  if (status == TS_OK)
    status = run_launches(ctx, module, plan, memory, &limited, slices, NULL, stats);
  ts_arena_free(&arena);
  return status;
}

enum ts_status ts_interp_run(struct ts_ctx *ctx, const struct ts_module *module,
                             const struct ts_launch_plan *plan, struct ts_device_memory *memory,
                             const struct ts_run_options *options, struct ts_run_stats *stats) {
  struct ts__check_run checks;
  memset(stats, 0, sizeof *stats);
  if (options->addresses_only) return run_addresses(ctx, module, plan, memory, options, stats);
  if (!options->checks) return run_launches(ctx, module, plan, memory, options, NULL, NULL, stats);
  enum ts_status status = ts__check_run_init(ctx, &checks, memory);
  if (status == TS_OK)
    status = run_launches(ctx, module, plan, memory, options, NULL, &checks, stats);
  ts__check_run_free(&checks);
  return status;
}
