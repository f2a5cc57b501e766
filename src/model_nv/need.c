/* Which of a machine's constants a program needs: all are there, or the model refuses; those that are
 * guesses are told in the report. */
#include "model_nv/model_nv_priv.h"

#include <math.h>

static const struct {
  uint16_t constant, op;
} needs[] = {
#define NEED(constant, op) {TS_TIMING_##constant, TS_OP_##op},
#include "model_nv/need.def"
#undef NEED
};
enum { NEED_COUNT = sizeof needs / sizeof *needs };

/* Ops in the code of the launched functions. */
static void find_ops(const struct ts_trace_program *program, bool has_op[TS_OP_COUNT]) {
  for (uint32_t i = 0; i < program->launch_count; i++) {
    const struct ts_code *code = program->functions[program->launches[i].function].code;
    for (uint32_t n = 0; n < code->insn_count; n++)
      has_op[code->insns[n].op] = true;
  }
}

static bool is_needed(const bool has_op[TS_OP_COUNT], uint32_t constant, enum ts_op *op) {
  bool has_row = false;
  for (size_t i = 0; i < NEED_COUNT; i++) {
    if (needs[i].constant != constant) continue;
    has_row = true;
    *op = (enum ts_op)needs[i].op;
    if (has_op[needs[i].op]) return true;
  }
  *op = TS_OP_COUNT;
  return !has_row;
}

static enum ts_status refuse(struct ts_model_nv *model, enum ts_timing_id constant, enum ts_op op) {
  return ts_fail(model->ctx, TS_UNSUPPORTED, TS_DIAG_TIME_UNKNOWN, TS_NO_PLACE,
                 "machine %s has no value for %s (%s); timing %s%s needs it", model->machine->name,
                 ts_timing_key(constant), ts_timing_text(constant),
                 op == TS_OP_COUNT ? "any kernel" : "code with ",
                 op == TS_OP_COUNT ? "" : ts_op_info(op)->mnemonic);
}

enum ts_status ts__check_constants(struct ts_model_nv *model) {
  bool has_op[TS_OP_COUNT] = {false};
  const struct ts_machine *machine = model->machine;
  find_ops(model->program, has_op);
  model->unverified = ts_new_array(&model->arena, const char *, TS_TIMING_COUNT);
  if (!model->unverified) return ts_fail_memory(model->ctx);
  for (uint32_t i = 0; i < TS_TIMING_COUNT; i++) {
    enum ts_op op;
    if (!is_needed(has_op, i, &op)) continue;
    if (isnan(machine->timing[i])) return refuse(model, (enum ts_timing_id)i, op);
    if (machine->timing_tag[i] == TS_TAG_GUESS)
      model->unverified[model->unverified_count++] = ts_timing_key((enum ts_timing_id)i);
  }
  return TS_OK;
}
