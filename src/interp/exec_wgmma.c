/* wgmma (DOC: PTX ISA, asynchronous warpgroup-level matrix instructions).
 *
 * Each warp computes the 16 rows of its place in the warpgroup. An instruction is queued at issue
 * and done when its group is closed (eager), at the wait (lazy), or at either (random). Consecutive
 * instructions of a group on one accumulator are one product over a longer k: same bits, because a
 * product over several steps is defined as the chain of its steps. */
#include "interp/check_priv.h"

#include <string.h>

struct wgmma {
  struct wgmma *next; /* in the warp's queue or the free list */
  const struct ts__code *code;
  const struct ts__matrix_info *info;
  uint64_t group; /* groups closed before it */
  uint64_t a_descriptor, b_descriptor;
  uint32_t *a_registers; /* NULL: A in shared memory */
  uint32_t *accumulator;
  uint32_t a_words, c_words;
  const uint32_t *metadata; /* sparse: of each lane */
  bool is_zeroed, is_done;
};

struct matrix_state {
  struct wgmma *first, **last; /* not waited for, in order of issue */
  struct wgmma *free;
  uint64_t closed; /* groups */
};

enum ts_status ts__warp_matrix_init(struct ts__warp *warp) {
  struct matrix_state *state = ts_new(warp->block->scratch, struct matrix_state);
  if (!state) return ts_fail_memory(warp->block->ctx);
  state->last = &state->first;
  warp->matrix = state;
  warp->wgmma_count = warp->deferred_count = 0;
  warp->mma_batch = NULL;
  return TS_OK;
}

static struct wgmma *new_wgmma(struct ts__warp *warp) {
  struct matrix_state *state = warp->matrix;
  struct wgmma *wgmma = state->free;
  if (wgmma)
    state->free = wgmma->next;
  else
    wgmma = ts_new(warp->block->scratch, struct wgmma);
  if (wgmma) *wgmma = (struct wgmma){0};
  return wgmma;
}

/* --- conflicts with what is in flight */

static bool overlaps(const struct ts__warp *warp, const uint32_t *registers, uint32_t words,
                     uint32_t first_word, uint32_t word_count) {
  if (!registers) return false;
  uint32_t first = (uint32_t)((registers - warp->local) / TS__LANES);
  return first < first_word + word_count && first_word < first + words;
}

bool ts__wgmma_conflict(struct ts__warp *warp, const struct ts__code *code, uint32_t first_word,
                        uint32_t word_count, bool is_write) {
  const struct matrix_state *state = warp->matrix;
  ts__mma_flush(warp);
  for (const struct wgmma *w = state->first; w; w = w->next) {
    bool is_accumulator = overlaps(warp, w->accumulator, w->c_words, first_word, word_count);
    bool is_operand =
        is_write && overlaps(warp, w->a_registers, w->a_words, first_word, word_count);
    if (!is_accumulator && !is_operand) continue;
    ts__hazard(warp, code, is_write ? TS_DIAG_RACE_PENDING_WRITE : TS_DIAG_RACE_PENDING_READ,
               TS_NONE, w->code->insn, "wait with wgmma.wait first",
               "%s %s registers that %s still %s", ts_op_info((enum ts_op)code->op)->mnemonic,
               is_write ? "writes" : "reads", ts_op_info((enum ts_op)w->code->op)->mnemonic,
               is_accumulator ? "accumulates in" : "reads");
    return true;
  }
  return false;
}

uint32_t ts__wgmma_reads(const struct ts__block *block, uint64_t address, uint64_t size_bytes,
                         uint32_t *warp) {
  for (uint32_t i = 0; i < block->warp_count; i++) {
    const struct matrix_state *state = block->warps[i].matrix;
    if (!state || block->warps[i].wgmma_count == 0) continue;
    for (const struct wgmma *w = state->first; w; w = w->next) {
      struct ts__chunks a = {0}, b = ts__chunks_b(w->info, w->b_descriptor);
      if (!w->a_registers) a = ts__chunks_a(w->info, w->a_descriptor, i);
      if (!ts__chunks_overlap(&a, address, size_bytes) &&
          !ts__chunks_overlap(&b, address, size_bytes))
        continue;
      *warp = i;
      return w->code->insn;
    }
  }
  return TS_NONE;
}

/* --- execution */

static bool holds(const struct ts__panel *panel, const struct wgmma *const *chain, uint32_t steps) {
  const struct ts__matrix_info *info = chain[0]->info;
  if (panel->op != info->op || panel->n != info->n || panel->steps != steps ||
      panel->is_k_major != info->b_is_k_major || panel->flags != info->flags)
    return false;
  for (uint32_t s = 0; s < steps; s++)
    if (panel->descriptors[s] != chain[s]->b_descriptor) return false;
  return true;
}

/* The panel with B of the chain: from the cache, or made in the place that is of least use. */
static struct ts__panel *find_panel(struct ts__warp *warp, const struct wgmma *const *chain,
                                    uint32_t steps) {
  struct ts__block *block = warp->block;
  struct ts__matrix_cache *cache = *block->matrix_cache;
  const struct ts__matrix_info *info = chain[0]->info;
  struct ts__panel *victim = &cache->panels[0];
  for (uint32_t i = 0; i < TS__PANEL_COUNT; i++) {
    struct ts__panel *panel = &cache->panels[i];
    bool is_current = panel->version == block->shared.version && panel->block == block->index;
    if (!is_current) panel->last_use = 0;
    if (panel->last_use < victim->last_use) victim = panel;
    if (!is_current || !holds(panel, chain, steps)) continue;
    panel->last_use = ++cache->use_count;
    return panel;
  }
  struct ts_mma_scratch *scratch = victim->scratch;
  if (!scratch)
    scratch = ts_mma_scratch_new(block->ctx->allocator, 16, TS__PANEL_COLUMNS,
                                 TS__PANEL_STEPS * TS__MAX_K);
  *victim = (struct ts__panel){.op = info->op,
                               .n = info->n,
                               .steps = steps,
                               .is_k_major = info->b_is_k_major,
                               .flags = info->flags,
                               .version = block->shared.version,
                               .block = block->index,
                               .last_use = ++cache->use_count,
                               .scratch = scratch};
  if (!scratch) return NULL;
  for (uint32_t s = 0; s < steps; s++)
    victim->descriptors[s] = chain[s]->b_descriptor;
  ts__prepare_b(info, scratch, block->shared.data, victim->descriptors, steps);
  return victim;
}

static void prepare_a(struct ts__warp *warp, const struct wgmma *const *chain, uint32_t steps,
                      struct ts_mma_scratch *scratch) {
  uint64_t descriptors[TS__PANEL_STEPS];
  const uint32_t *registers[TS__PANEL_STEPS];
  for (uint32_t s = 0; s < steps; s++) {
    descriptors[s] = chain[s]->a_descriptor;
    registers[s] = chain[s]->a_registers;
  }
  if (registers[0])
    ts__prepare_a_registers(chain[0]->info, scratch, registers, steps);
  else
    ts__prepare_a(chain[0]->info, scratch, warp->block->shared.data, descriptors, steps,
                  warp->index);
}

/* Instructions from w on that make one product: same arithmetic, same accumulator. */
static uint32_t find_chain(struct wgmma *w, uint64_t end_group,
                           const struct wgmma *chain[TS__PANEL_STEPS]) {
  uint32_t steps = 0;
  for (const struct wgmma *first = w; w && w->group < end_group && steps < TS__PANEL_STEPS;
       w = w->next) {
    bool continues = w->info->op == first->info->op && w->info->n == first->info->n &&
                     w->info->flags == first->info->flags &&
                     w->info->a_is_k_major == first->info->a_is_k_major &&
                     w->info->b_is_k_major == first->info->b_is_k_major &&
                     w->accumulator == first->accumulator &&
                     (w->a_registers == NULL) == (first->a_registers == NULL) &&
                     !w->info->is_sparse;
    if (steps && (!continues || w->is_zeroed)) break;
    w->is_done = true;
    chain[steps++] = w;
  }
  return steps;
}

static void multiply_sparse(struct ts__warp *warp, const struct wgmma *w) {
  struct ts__sparse_wgmma sparse = {.data = warp->block->shared.data,
                                    .warp = warp->index,
                                    .a_descriptor = w->a_descriptor,
                                    .b_descriptor = w->b_descriptor,
                                    .a_registers = w->a_registers,
                                    .metadata = w->metadata,
                                    .accumulator = w->accumulator,
                                    .is_zeroed = w->is_zeroed};
  ts__sparse_wgmma(w->info, warp->block->mma_scratch, &sparse);
}

/* Does what is not done of the groups before end_group. */
static enum ts_status execute(struct ts__warp *warp, uint64_t end_group) {
  struct matrix_state *state = warp->matrix;
  const struct wgmma *chain[TS__PANEL_STEPS];
  for (struct wgmma *w = state->first; w && w->group < end_group; w = w->next) {
    if (w->is_done) continue;
    uint32_t steps = find_chain(w, end_group, chain);
    if (w->info->is_sparse) {
      multiply_sparse(warp, w);
      continue;
    }
    struct ts__panel *panel = find_panel(warp, chain, steps);
    if (!panel) {
      warp->block->status = ts_fail_memory(warp->block->ctx);
      return warp->block->status;
    }
    prepare_a(warp, chain, steps, panel->scratch);
    ts__matrix_multiply(w->info, panel->scratch, steps, w->accumulator, w->is_zeroed);
  }
  return TS_OK;
}

/* --- issue */

static bool check_chunks(struct ts__warp *warp, const struct ts__code *code,
                         const struct ts__chunks *chunks, const char *name) {
  struct ts_shared_memory *shared = &warp->block->shared;
  uint64_t end = ts__chunks_end(chunks);
  if (end > shared->size_bytes) {
    ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, TS_NONE, TS_NONE,
               "check start address and strides of the descriptor",
               "operand %s of %s reaches to byte %llu of shared memory, which has %llu", name,
               ts_op_info((enum ts_op)code->op)->mnemonic, (unsigned long long)end,
               (unsigned long long)shared->size_bytes);
    return false;
  }
  if (!ts_pending_may_concern(shared, warp->index, chunks->start & ~(uint64_t)127, end))
    return true;
  for (uint32_t i = 0; i < chunks->count; i++) {
    uint64_t address = ts__chunk_address(chunks, i);
    if (!ts_pending_check_read(shared, warp->index, address, TS__CHUNK_BYTES)) continue;
    return ts__shared_settled(warp, code->insn, TS_NONE, address, TS__CHUNK_BYTES, false);
  }
  return true;
}

static bool check_operands(struct ts__warp *warp, const struct ts__code *code,
                           const struct wgmma *w) {
  struct ts__chunks b = ts__chunks_b(w->info, w->b_descriptor);
  if (!w->a_registers) {
    struct ts__chunks a = ts__chunks_a(w->info, w->a_descriptor, warp->index);
    if (!check_chunks(warp, code, &a, "A")) return false;
  } else if (ts__wgmma_conflict(warp, code, (uint32_t)((w->a_registers - warp->local) / TS__LANES),
                                w->a_words, false) &&
             warp->block->status != TS_OK) {
    return false;
  }
  return check_chunks(warp, code, &b, "B");
}

/* What the checks look at when the instruction is issued and when it has been waited for. */
static void tell_checks(struct ts__warp *warp, const struct wgmma *w, bool is_done) {
  struct ts__chunks a = {0}, b = ts__chunks_b(w->info, w->b_descriptor);
  if (!w->a_registers) a = ts__chunks_a(w->info, w->a_descriptor, warp->index);
  if (is_done) {
    ts__check_operand_done(warp, w->code, &a);
    ts__check_operand_done(warp, w->code, &b);
    return;
  }
  struct ts__unset_lines rows = {.any = false}, columns = {.any = false};
  const struct ts__matrix_info *info = w->info;
  if (!w->a_registers)
    ts__check_operand(warp, w->code, &a, "A", info->a_is_k_major, ts_dtype_bits(info->op->a),
                      &rows);
  ts__check_operand(warp, w->code, &b, "B", info->b_is_k_major, ts_dtype_bits(info->op->b),
                    &columns);
  struct ts__wgmma_registers registers = {info,       w->a_registers, w->accumulator,
                                          w->a_words, w->c_words,     w->is_zeroed};
  ts__check_wgmma_registers(warp, w->code, &registers, &rows, &columns);
}

/* The metadata is the last operand. */
static bool keep_metadata(struct ts__warp *warp, const struct ts__code *code, struct wgmma *w) {
  uint32_t *words = ts_new_array(warp->block->scratch, uint32_t, TS__LANES);
  if (!words) return false;
  const struct ts__operand *operand = &code->operands[code->operand_count - 1];
  const uint32_t *slots = ts__operand_slots32(warp, operand, words);
  if (slots != words) memcpy(words, slots, TS__LANES * sizeof *words);
  w->metadata = words;
  return true;
}

/* bytes: of the operands in shared memory, the warp's rows of A and B. */
static enum ts__step emit_product(struct ts__warp *warp, const struct ts__code *code,
                                  const struct ts__matrix_info *info, bool is_a_shared) {
  const struct matrix_state *state = warp->matrix;
  uint32_t a_bits = is_a_shared ? 16 * info->a_k * ts_dtype_bits(info->op->a) : 0;
  struct ts_event event = {.sync_kind = TS_SYNC_WGMMA_GROUP,
                           .sync_object = (uint32_t)state->closed,
                           .bytes = (a_bits + info->n * info->k * ts_dtype_bits(info->op->b)) / 8};
  return ts__matrix_emit(warp, code, info, 16, event) == TS_OK ? TS__STEP_NEXT : TS__STEP_FAULT;
}

/* Operands after A: descriptor of B, accumulator with its index, scale of D. */
static enum ts__step issue(struct ts__warp *warp, const struct ts__code *code,
                           const struct ts__matrix_info *info, uint32_t *a_registers,
                           uint64_t a_descriptor, uint32_t first) {
  struct matrix_state *state = warp->matrix;
  uint32_t lane = ts__first_lane(warp->active);
  ts__mma_flush(warp);
  uint32_t c_words = 16 * info->n * ts_dtype_bits(info->op->acc) / (TS__LANES * 32);
  uint32_t *accumulator = ts__fragment(warp, code, first + 1, info->op->acc, c_words);
  if (!accumulator) return ts__after_checks(warp);
  struct wgmma *w = new_wgmma(warp);
  if (!w) return ts__fault_memory(warp);
  *w = (struct wgmma){.code = code,
                      .info = info,
                      .group = state->closed,
                      .a_descriptor = a_descriptor,
                      .a_registers = a_registers,
                      .a_words = 16 * info->a_k * ts_dtype_bits(info->op->a) / (TS__LANES * 32),
                      .b_descriptor = ts__operand_lane(warp, &code->operands[first], lane),
                      .accumulator = accumulator,
                      .c_words = c_words,
                      .is_zeroed = ts__operand_lane(warp, &code->operands[first + 3], lane) == 0};
  if (info->is_sparse && !keep_metadata(warp, code, w)) return ts__fault_memory(warp);
  if (!check_operands(warp, code, w)) return ts__after_checks(warp);
  if (warp->block->check) tell_checks(warp, w, false);
  *state->last = w;
  state->last = &w->next;
  warp->wgmma_count++;
  warp->block->wgmma_count++;
  return emit_product(warp, code, info, a_registers == NULL);
}

enum ts__step ts__exec_wgmma_ss(struct ts__warp *warp, const struct ts__code *code) {
  const struct ts__matrix_info *info = ts__matrix_info(warp, code, TS_MMA_WGMMA);
  if (!info) return TS__STEP_FAULT;
  if (code->is_quiet) return emit_product(warp, code, info, true);
  uint64_t descriptor = ts__operand_lane(warp, &code->operands[0], ts__first_lane(warp->active));
  return issue(warp, code, info, NULL, descriptor, 1);
}

enum ts__step ts__exec_wgmma_rs(struct ts__warp *warp, const struct ts__code *code) {
  const struct ts__matrix_info *info = ts__matrix_info(warp, code, TS_MMA_WGMMA);
  if (!info) return TS__STEP_FAULT;
  if (code->is_quiet) return emit_product(warp, code, info, false);
  uint32_t words = 16 * info->a_k * ts_dtype_bits(info->op->a) / (TS__LANES * 32);
  uint32_t *a = ts__fragment(warp, code, 0, info->op->a, words);
  if (!a) return ts__after_checks(warp);
  return issue(warp, code, info, a, 0, 2);
}

enum ts__step ts__exec_wgmma_sp_ss(struct ts__warp *warp, const struct ts__code *code) {
  return ts__exec_wgmma_ss(warp, code);
}

enum ts__step ts__exec_wgmma_sp_rs(struct ts__warp *warp, const struct ts__code *code) {
  return ts__exec_wgmma_rs(warp, code);
}

/* --- groups */

/* As in exec_async.c: a wait names the last of the groups waited for, UINT32_MAX none. */
static enum ts_status emit_group(struct ts__warp *warp, const struct ts__code *code,
                                 enum ts_event_kind kind, uint64_t group, uint32_t work) {
  if (!ts__listening(warp->block)) return TS_OK;
  struct ts_event event = {.kind = (uint8_t)kind,
                           .sync_kind = TS_SYNC_WGMMA_GROUP,
                           .src_space = 0xff,
                           .dst_space = 0xff,
                           .sync_object = (uint32_t)group,
                           .work = work};
  return ts__emit(warp, code, event, NULL);
}

/* The random schedule flips a coin of the block (xorshift64). */
static bool executes_now(struct ts__block *block) {
  if (block->program->options->schedule != TS_SCHEDULE_RANDOM)
    return block->program->options->schedule == TS_SCHEDULE_EAGER;
  uint64_t x = block->random_state ? block->random_state : 1;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  block->random_state = x;
  return x >> 32 & 1;
}

enum ts__step ts__exec_wgmma_commit(struct ts__warp *warp, const struct ts__code *code) {
  struct matrix_state *state = warp->matrix;
  uint64_t group = state->closed++;
  if (executes_now(warp->block) && execute(warp, state->closed) != TS_OK) return TS__STEP_FAULT;
  if (emit_group(warp, code, TS_EVENT_ARRIVE, group, 1) != TS_OK) return TS__STEP_FAULT;
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_wgmma_wait(struct ts__warp *warp, const struct ts__code *code) {
  struct matrix_state *state = warp->matrix;
  uint64_t allowed = ts__operand_lane(warp, &code->operands[0], ts__first_lane(warp->active));
  uint64_t end_group = state->closed > allowed ? state->closed - allowed : 0;
  if (execute(warp, end_group) != TS_OK) return TS__STEP_FAULT;
  while (state->first && state->first->group < end_group) {
    struct wgmma *w = state->first;
    if (warp->block->check) tell_checks(warp, w, true);
    state->first = w->next;
    w->next = state->free;
    state->free = w;
    warp->wgmma_count--;
    warp->block->wgmma_count--;
  }
  if (!state->first) state->last = &state->first;
  if (emit_group(warp, code, TS_EVENT_WAIT, end_group - 1, (uint32_t)allowed) != TS_OK)
    return TS__STEP_FAULT;
  return TS__STEP_NEXT;
}

/* Both only constrain the compiler and the hardware's register reads. */
enum ts__step ts__exec_wgmma_fence(struct ts__warp *warp, const struct ts__code *code) {
  if (warp->block->check) ts__check_wgmma_fence(warp);
  (void)code;
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_wgmma_touch(struct ts__warp *warp, const struct ts__code *code) {
  (void)warp;
  (void)code;
  return TS__STEP_NEXT;
}
