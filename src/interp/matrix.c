/* What matrix instructions share: their arithmetic, registers in local arrays, accumulators. */
#include "interp/interp_priv.h"

#include <string.h>

void ts__matrix_cache_free(struct ts__matrix_cache *cache) {
  if (!cache) return;
  for (uint32_t i = 0; i < TS__PANEL_COUNT; i++)
    ts_mma_scratch_free(cache->panels[i].scratch);
  ts_vec_free(&cache->infos, cache->allocator);
  cache->allocator->resize(cache->allocator->user, cache, sizeof *cache, 0);
}

/* The worker's cache with room for the program's instructions, or NULL when memory is short. */
static struct ts__matrix_cache *cache_of(struct ts__block *block) {
  struct ts__matrix_cache *cache = *block->matrix_cache;
  const struct ts_allocator *allocator = block->ctx->allocator;
  if (!cache) {
    cache = allocator->resize(allocator->user, NULL, 0, sizeof *cache);
    if (!cache) return NULL;
    memset(cache, 0, sizeof *cache);
    cache->allocator = allocator;
    *block->matrix_cache = cache;
  }
  const struct ts__program *program = block->program;
  if (cache->program == program && cache->launch_index == program->launch_index) return cache;
  cache->infos.count = 0;
  size_t count = program->function->insns.count;
  if (ts_vec_reserve(&cache->infos, allocator, count)) return NULL;
  memset(cache->infos.data, 0, count * sizeof *cache->infos.data);
  cache->infos.count = count;
  for (uint32_t i = 0; i < TS__PANEL_COUNT; i++)
    cache->panels[i].op = NULL;
  cache->program = program;
  cache->launch_index = program->launch_index;
  return cache;
}

/* Sparse products: the metadata of 16 bits a row is in one lane of four, of 32 in two. */
static uint32_t max_selector(const struct ts__matrix_info *info) {
  uint32_t bits = info->op && info->op->a == TS_DTYPE_tf32 ? 2 * info->k : info->k;
  return bits == 16 ? 3 : bits == 32 ? 1 : 0;
}

static bool fill_info(struct ts__warp *warp, const struct ts__code *code, enum ts_mma_path path,
                      struct ts__matrix_info *info) {
  const struct ts_function *function = warp->program->function;
  const struct ts_insn *insn = &function->insns.data[code->insn];
  enum ts_dtype a = (enum ts_dtype)code->dtype2;
  enum ts_dtype b = (enum ts_dtype)ts_insn_attr(function, insn, TS_ATTR_b_dtype, a);
  info->m = (uint32_t)ts_insn_attr(function, insn, TS_ATTR_m, path == TS_MMA_WGMMA ? 64 : 16);
  info->n = (uint32_t)ts_insn_attr(function, insn, TS_ATTR_n, 8);
  info->k = (uint32_t)ts_insn_attr(function, insn, TS_ATTR_k, 0);
  info->a_is_k_major = ts_insn_attr(function, insn, TS_ATTR_a_major, 1) != 0;
  info->b_is_k_major = ts_insn_attr(function, insn, TS_ATTR_b_major, 1) != 0;
  info->flags = 0;
  if (ts_insn_attr(function, insn, TS_ATTR_scale_a, 1) < 0) info->flags |= TS_MMA_NEGATE_A;
  if (ts_insn_attr(function, insn, TS_ATTR_scale_b, 1) < 0) info->flags |= TS_MMA_NEGATE_B;
  if (ts_insn_attr(function, insn, TS_ATTR_saturate, 0)) info->flags |= TS_MMA_SATFINITE;
  enum ts_mma_profile profile = ts_mma_profile_from_name(warp->program->machine->profile);
  info->is_sparse =
      code->op == TS_OP_mma_sp || code->op == TS_OP_wgmma_sp_ss || code->op == TS_OP_wgmma_sp_rs;
  info->selector = (uint32_t)ts_insn_attr(function, insn, TS_ATTR_selector, 0) & 3;
  info->a_k = info->is_sparse ? info->k / 2 : info->k;
  info->op = ts_mma_find(profile, path, a, b, (enum ts_dtype)code->dtype, info->a_k);
  bool shape_fits =
      path == TS_MMA_WGMMA
          ? info->m == 64 && info->n % 8 == 0 && info->n && info->n <= 256
          : info->n == 8 && (info->m == 8 || (info->m == 16 && code->dtype != TS_DTYPE_f64));
  if (info->is_sparse &&
      (info->m == 8 || ts_dtype_bits(a) < 8 || info->selector > max_selector(info)))
    shape_fits = false;
  if (info->op && shape_fits) return true;
  warp->block->status = ts_fail(
      warp->block->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, ts_insn_place(function, code->insn),
      "%s m%un%uk%u of %s and %s into %s is unknown to the arithmetic %s",
      ts_op_info((enum ts_op)code->op)->mnemonic, info->m, info->n, info->k, ts_dtype_name(a),
      ts_dtype_name(b), ts_dtype_name((enum ts_dtype)code->dtype), warp->program->machine->profile);
  return false;
}

const struct ts__matrix_info *ts__matrix_info(struct ts__warp *warp, const struct ts__code *code,
                                              enum ts_mma_path path) {
  struct ts__matrix_cache *cache = cache_of(warp->block);
  if (!cache) {
    ts__fault_memory(warp);
    return NULL;
  }
  struct ts__matrix_info *info = &cache->infos.data[code->insn];
  if (!info->is_known) info->is_known = fill_info(warp, code, path, info);
  return info->is_known ? info : NULL;
}

/* The index operand's one value; false after a report when lanes differ. */
static bool common_index(struct ts__warp *warp, const struct ts__code *code,
                         const struct ts__operand *operand, int64_t *index) {
  uint64_t value = ts__operand_lane(warp, operand, ts__first_lane(warp->active));
  *index = (int64_t)value;
  if (operand->is_uniform) return true;
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1)
    if (ts__operand_lane(warp, operand, ts__first_lane(lanes)) != value) {
      warp->block->status = ts_fail(warp->block->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                                    ts_insn_place(warp->program->function, code->insn),
                                    "the lanes of a matrix instruction name different registers");
      return false;
    }
  return true;
}

uint32_t *ts__fragment_part(struct ts__warp *warp, const struct ts__code *code, uint32_t operand,
                            enum ts_dtype dtype, uint32_t *word_count) {
  const struct ts__operand *array = &code->operands[operand];
  int64_t index, limit = array->extra / 4, bits = ts_dtype_bits(dtype);
  if (!common_index(warp, code, &code->operands[operand + 1], &index)) return NULL;
  /* A register is a whole word, so an index within one has no meaning. */
  bool is_inside = index >= 0 && index < limit * 32 / bits && index * bits % 32 == 0;
  int64_t left = is_inside ? limit - index * bits / 32 : 0;
  if (left < *word_count) {
    ts__hazard(warp, code, TS_DIAG_BOUNDS_LOCAL, TS_NONE, TS_NONE, NULL,
               "%s uses %u registers from element %lld on of an array of %lld words",
               ts_op_info((enum ts_op)code->op)->mnemonic, *word_count, (long long)index,
               (long long)limit);
    *word_count = (uint32_t)left;
  }
  return left > 0 ? warp->local + array->offset + index * bits / 32 * TS__LANES : NULL;
}

uint32_t *ts__fragment(struct ts__warp *warp, const struct ts__code *code, uint32_t operand,
                       enum ts_dtype dtype, uint32_t word_count) {
  uint32_t available = word_count;
  uint32_t *words = ts__fragment_part(warp, code, operand, dtype, &available);
  return available == word_count ? words : NULL;
}

enum { MAX_ACCUMULATORS = TS__PANEL_COLUMNS / 2 };

void ts__matrix_multiply(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                         uint32_t steps, uint32_t *accumulator, bool zero) {
  unsigned flags = info->flags | (zero ? (unsigned)TS_MMA_ZERO_C : 0);
  uint32_t registers = 16 * info->n * ts_dtype_bits(info->op->acc) / (TS__LANES * 32);
  void *d[MAX_ACCUMULATORS];
  const void *c[MAX_ACCUMULATORS];
  for (uint32_t r = 0; r < registers; r++)
    c[r] = d[r] = accumulator + r * TS__LANES;
  ts_mma_multiply_fragment(info->op, scratch, 0, info->n, steps, c, d, flags);
}

enum ts__step ts__matrix_tell(struct ts__warp *warp, const struct ts__code *code,
                              const struct ts__matrix_info *info, uint32_t rows) {
  enum ts_status status = ts__matrix_emit(warp, code, info, rows, (struct ts_event){0});
  return status == TS_OK ? TS__STEP_NEXT : TS__STEP_FAULT;
}

enum ts_status ts__matrix_emit(struct ts__warp *warp, const struct ts__code *code,
                               const struct ts__matrix_info *info, uint32_t rows,
                               struct ts_event event) {
  uint64_t work = (uint64_t)rows * info->n * info->a_k;
  warp->block->stats->mac_count += work;
  if (!ts__listening(warp->block)) return TS_OK;
  event.kind = TS_EVENT_MATRIX;
  event.src_space = event.dst_space = 0xff;
  event.work = (uint32_t)work;
  return ts__emit(warp, code, event, NULL);
}
