/* Numeric alarms, on request: where a NaN or an infinity is born of finite operands, and where a
 * sum or difference loses most of its bits. */
#include "interp/check_priv.h"

#include <math.h>
#include <string.h>

enum { CANCELLED_BITS = 20 };

static bool is_float_op(const struct ts__warp *warp, const struct ts__code *code) {
  const struct ts_insn *insn = &warp->program->function->insns.data[code->insn];
  if (!(ts_op_info((enum ts_op)code->op)->flags & F_PURE) || insn->dst == TS_NONE) return false;
  uint8_t dtype = warp->program->function->regs.data[insn->dst].type.dtype;
  if (!ts_dtype_is_float((enum ts_dtype)dtype)) return false;
  return ts_op_info((enum ts_op)code->op)->unit != TS_UNIT_MOVE;
}

static double number(enum ts_dtype dtype, uint64_t encoding) {
  uint64_t bits = ts_num_convert1(TS_DTYPE_f64, dtype, 0, encoding);
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Component of an operand in a lane. */
static uint64_t component(const struct ts__warp *warp, const struct ts__operand *operand,
                          uint32_t lane, uint32_t i) {
  const uint32_t *words = ts__operand_words(warp, operand);
  uint32_t slot = operand->is_uniform ? i : i * TS__LANES + lane;
  if (!ts__is_wide(operand->dtype)) return words[slot];
  uint64_t wide;
  memcpy(&wide, words + 2 * slot, sizeof wide);
  return wide;
}

struct inputs {
  bool has_nan, has_infinity;
  double largest;
};

static struct inputs inputs_of(const struct ts__warp *warp, const struct ts__code *code,
                               uint32_t lane, uint32_t i) {
  struct inputs inputs = {0};
  for (uint32_t k = 0; k < code->operand_count; k++) {
    const struct ts__operand *operand = &code->operands[k];
    if (operand->base == TS__BASE_NONE || !ts_dtype_is_float((enum ts_dtype)operand->dtype))
      continue;
    double value = number((enum ts_dtype)operand->dtype,
                          component(warp, operand, lane, i < operand->lanes ? i : 0));
    inputs.has_nan |= isnan(value) != 0;
    inputs.has_infinity |= isinf(value) != 0;
    if (fabs(value) > inputs.largest) inputs.largest = fabs(value);
  }
  return inputs;
}

/* What the operands of every slot were, before dst replaces them. */
enum { MAX_SLOTS = TS_MAX_VECTOR_LANES * TS__LANES };

static void judge(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                  const struct inputs *in, double result, enum ts_dtype dtype) {
  const char *mnemonic = ts_op_info((enum ts_op)code->op)->mnemonic;
  if (isnan(result) && !in->has_nan)
    ts__hazard(warp, code, TS_DIAG_NUMBER_NAN, lane, TS_NONE, NULL, "%s makes a NaN of %s operands",
               mnemonic, in->has_infinity ? "infinite" : "finite");
  else if (isinf(result) && !in->has_infinity && !in->has_nan)
    ts__hazard(warp, code, TS_DIAG_NUMBER_OVERFLOW, lane, TS_NONE,
               "scale, or keep the value in a wider type", "%s overflows %s: %g becomes infinite",
               mnemonic, ts_dtype_name(dtype), in->largest);
  else if ((code->op == TS_OP_add || code->op == TS_OP_sub) && isfinite(result) && result != 0 &&
           fabs(result) < ldexp(in->largest, -CANCELLED_BITS))
    ts__hazard(warp, code, TS_DIAG_NUMBER_CANCELLED, lane, TS_NONE, NULL,
               "%s of operands of size %g leaves %g: %d bits or more are lost", mnemonic,
               in->largest, result, CANCELLED_BITS);
}

enum ts__step ts__check_number(struct ts__warp *warp, const struct ts__code *code) {
  if (!is_float_op(warp, code)) return ts__check_plain(warp, code);
  struct inputs inputs[MAX_SLOTS];
  uint32_t active = warp->active, count = code->dst_is_uniform ? 1 : (uint32_t)TS__LANES;
  uint32_t components = code->slot_count / count;
  for (uint32_t i = 0; i < components; i++)
    for (uint32_t lane = 0; lane < count; lane++)
      inputs[i * count + lane] = inputs_of(warp, code, lane, i);
  enum ts__step step = ts__check_plain(warp, code);
  if (step != TS__STEP_NEXT) return step;
  const struct ts_function *function = warp->program->function;
  enum ts_dtype dtype =
      (enum ts_dtype)function->regs.data[function->insns.data[code->insn].dst].type.dtype;
  struct ts__operand dst = {.base = TS__BASE_REGS,
                            .is_uniform = code->dst_is_uniform,
                            .dtype = (uint8_t)dtype,
                            .lanes = (uint8_t)components,
                            .offset = code->dst};
  for (uint32_t i = 0; i < components; i++)
    for (uint32_t lane = 0; lane < count; lane++)
      if (count == 1 || active >> lane & 1)
        judge(warp, code, count == 1 ? ts__first_lane(active) : lane, &inputs[i * count + lane],
              number(dtype, component(warp, &dst, lane, i)), dtype);
  return ts__after_checks(warp);
}
