/* Pure instructions: num kernels over all slots at once, and the ones that only move slots. */
#include "interp/interp_priv.h"

#include <string.h>

/* Room for the slots of one operand or result. */
struct slots {
  _Alignas(64) uint64_t words[TS_MAX_VECTOR_LANES * TS__LANES];
};

/* Slots in the shape of dst: one per component for a uniform dst, else 32. */
static const void *operand_slots(const struct ts__warp *warp, const struct ts__code *code,
                                 const struct ts__operand *operand, struct slots *scratch) {
  if (code->dst_is_uniform || !operand->is_uniform) return ts__operand_words(warp, operand);
  if (ts__is_wide(operand->dtype)) return ts__operand_slots64(warp, operand, scratch->words);
  return ts__operand_slots32(warp, operand, (uint32_t *)scratch->words);
}

/* Where the result is computed: in place when nobody else's value can be hit. */
static void *result_slots(struct ts__warp *warp, const struct ts__code *code,
                          struct slots *scratch) {
  if (ts__writes_all(warp, code)) return warp->regs + code->dst;
  return scratch->words;
}

static enum ts__step finish(struct ts__warp *warp, const struct ts__code *code,
                            const struct slots *scratch) {
  if (!ts__writes_all(warp, code)) ts__blend(warp, code, scratch->words);
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_unary(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a;
  ts_unary_fn kernel = (ts_unary_fn)code->kernel;
  kernel(result_slots(warp, code, &result), operand_slots(warp, code, &code->operands[0], &a),
         code->slot_count);
  return finish(warp, code, &result);
}

enum ts__step ts__exec_binary(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a, b;
  ts_binary_fn kernel = (ts_binary_fn)code->kernel;
  kernel(result_slots(warp, code, &result), operand_slots(warp, code, &code->operands[0], &a),
         operand_slots(warp, code, &code->operands[1], &b), code->slot_count);
  return finish(warp, code, &result);
}

enum ts__step ts__exec_ternary(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a, b, c;
  ts_ternary_fn kernel = (ts_ternary_fn)code->kernel;
  kernel(result_slots(warp, code, &result), operand_slots(warp, code, &code->operands[0], &a),
         operand_slots(warp, code, &code->operands[1], &b),
         operand_slots(warp, code, &code->operands[2], &c), code->slot_count);
  return finish(warp, code, &result);
}

/* Slots of one component of dst's shape, and a slot's bytes. */
static uint32_t component_slots(const struct ts__code *code) {
  return code->dst_is_uniform ? 1 : TS__LANES;
}

static size_t component_bytes(const struct ts__code *code) {
  return component_slots(code) * (code->dst_is_wide ? 8u : 4u);
}

enum ts__step ts__exec_mov(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a;
  size_t size_bytes = component_bytes(code) * code->lanes;
  memmove(result_slots(warp, code, &result), operand_slots(warp, code, &code->operands[0], &a),
          size_bytes);
  return finish(warp, code, &result);
}

/* dst[i] = a for all i */
enum ts__step ts__exec_broadcast(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a;
  size_t size_bytes = component_bytes(code);
  const void *source = operand_slots(warp, code, &code->operands[0], &a);
  uint8_t *dst = result_slots(warp, code, &result);
  for (uint32_t i = 0; i < code->lanes; i++)
    memmove(dst + i * size_bytes, source, size_bytes);
  return finish(warp, code, &result);
}

/* dst[i] = a + i * b, wrapping: kernel is the addition. */
enum ts__step ts__exec_ramp(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a, b;
  ts_binary_fn add = (ts_binary_fn)code->kernel;
  size_t size_bytes = component_bytes(code);
  const void *step = operand_slots(warp, code, &code->operands[1], &b);
  /* a is copied first: dst may be the register of b only when both are one component. */
  memcpy(result.words, operand_slots(warp, code, &code->operands[0], &a), size_bytes);
  for (uint32_t i = 1; i < code->lanes; i++) {
    uint8_t *component = (uint8_t *)result.words + i * size_bytes;
    add(component, component - size_bytes, step, component_slots(code));
  }
  if (!ts__writes_all(warp, code)) return finish(warp, code, &result);
  memcpy(warp->regs + code->dst, result.words, size_bytes * code->lanes);
  return TS__STEP_NEXT;
}

/* dst = a[i]: the index is code->scale. */
enum ts__step ts__exec_extract(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a;
  size_t size_bytes = component_bytes(code);
  const uint8_t *source = operand_slots(warp, code, &code->operands[0], &a);
  memmove(result_slots(warp, code, &result), source + (size_t)code->scale * size_bytes, size_bytes);
  return finish(warp, code, &result);
}

enum ts__step ts__exec_concat(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a;
  uint8_t *dst = (uint8_t *)result.words;
  for (uint32_t i = 0; i < code->operand_count; i++) {
    const struct ts__operand *operand = &code->operands[i];
    size_t size_bytes = component_bytes(code) * operand->lanes;
    memcpy(dst, operand_slots(warp, code, operand, &a), size_bytes);
    dst += size_bytes;
  }
  if (!ts__writes_all(warp, code)) return finish(warp, code, &result);
  memcpy(warp->regs + code->dst, result.words, component_bytes(code) * code->lanes);
  return TS__STEP_NEXT;
}

static void select_component(const struct ts__warp *warp, const struct ts__code *code, void *dst,
                             const uint32_t *p, const void *yes, const void *no) {
  const struct ts__lane_ops *lanes = warp->program->lanes;
  if (code->dst_is_uniform)
    memmove(dst, *p ? yes : no, component_bytes(code));
  else if (code->dst_is_wide)
    lanes->select64(dst, p, yes, no);
  else
    lanes->select32(dst, p, yes, no);
}

/* dst = a ? b : c, a with one or L components */
enum ts__step ts__exec_select(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a, b, c;
  void *dst = result_slots(warp, code, &result);
  const uint32_t *predicate = operand_slots(warp, code, &code->operands[0], &a);
  const void *yes = operand_slots(warp, code, &code->operands[1], &b);
  const void *no = operand_slots(warp, code, &code->operands[2], &c);
  size_t size_bytes = component_bytes(code);
  bool is_shared = code->operands[0].lanes == 1;
  for (uint32_t i = 0; i < code->lanes; i++) {
    const uint32_t *p = is_shared ? predicate : predicate + i * component_slots(code);
    select_component(warp, code, (uint8_t *)dst + i * size_bytes, p,
                     (const uint8_t *)yes + i * size_bytes, (const uint8_t *)no + i * size_bytes);
  }
  return finish(warp, code, &result);
}

/* components -> 32-bit words, little-endian -> components */
enum ts__step ts__exec_bitcast(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result, a, words;
  const struct ts__operand *operand = &code->operands[0];
  uint32_t count = component_slots(code);
  ts__words_of_slots(warp->program->lanes, (uint32_t *)words.words,
                     operand_slots(warp, code, operand, &a), operand->dtype, operand->lanes, count);
  ts__slots_of_words(warp->program->lanes, result_slots(warp, code, &result),
                     (const uint32_t *)words.words, code->dtype, code->lanes, count);
  return finish(warp, code, &result);
}

/* --- special registers */

/* Coordinate x, y or z (axis 0, 1, 2) of a thread, x fastest. */
static uint32_t thread_coordinate(const uint32_t extent[3], uint32_t thread, uint32_t axis) {
  if (extent[1] == 1 && extent[2] == 1) return axis == 0 ? thread : 0; /* the usual case */
  if (axis == 0) return thread % extent[0];
  thread /= extent[0];
  return axis == 1 ? thread % extent[1] : thread / extent[1];
}

static uint32_t special_register(const struct ts__warp *warp, uint32_t which, uint32_t lane) {
  const struct ts__block *block = warp->block;
  const struct ts_launch *launch = warp->program->launch;
  switch (which) {
  case TS_SREG_tid_x:
  case TS_SREG_tid_y:
  case TS_SREG_tid_z:
    return thread_coordinate(launch->block, warp->index * TS__LANES + lane, which - TS_SREG_tid_x);
  case TS_SREG_ctaid_x:
  case TS_SREG_ctaid_y:
  case TS_SREG_ctaid_z: return block->id[which - TS_SREG_ctaid_x];
  case TS_SREG_ntid_x:
  case TS_SREG_ntid_y:
  case TS_SREG_ntid_z: return launch->block[which - TS_SREG_ntid_x];
  case TS_SREG_nctaid_x:
  case TS_SREG_nctaid_y:
  case TS_SREG_nctaid_z: return launch->grid[which - TS_SREG_nctaid_x];
  case TS_SREG_laneid: return lane;
  case TS_SREG_warpid: return warp->index;
  case TS_SREG_activemask: return warp->active;
  case TS_SREG_cluster_ctarank: return block->rank;
  default: return 0;
  }
}

/* dst = special register code->scale */
enum ts__step ts__exec_sreg(struct ts__warp *warp, const struct ts__code *code) {
  struct slots result;
  uint32_t count = component_slots(code);
  void *dst = result_slots(warp, code, &result);
  for (uint32_t lane = 0; lane < count; lane++) {
    uint32_t value = special_register(warp, (uint32_t)code->scale, lane);
    if (code->dst_is_wide)
      ((uint64_t *)dst)[lane] = value;
    else
      ((uint32_t *)dst)[lane] = value;
  }
  return finish(warp, code, &result);
}
