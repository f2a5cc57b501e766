/* Events of warp instructions: the fields that are always the same. */
#include "interp/interp_priv.h"

enum ts_status ts__emit(struct ts__warp *warp, const struct ts__code *code, struct ts_event event,
                        const struct ts_footprint *footprint) {
  const struct ts__program *program = warp->program;
  event.block = warp->block->index;
  event.warp = (uint16_t)warp->index;
  event.launch = (uint16_t)program->launch_index;
  if (!event.mask) event.mask = warp->active;
  event.insn = UINT32_MAX;
  event.op = UINT16_MAX;
  if (code) {
    event.insn = code->insn;
    event.op = code->op;
    event.dtype = code->dtype;
    if (event.kind != TS_EVENT_COPY && event.kind != TS_EVENT_LANDED) event.lanes = code->lanes;
  }
  if (event.kind != TS_EVENT_MEMORY && event.kind != TS_EVENT_COPY &&
      event.kind != TS_EVENT_LANDED) {
    event.src_space = event.src_space ? event.src_space : 0xff;
    event.dst_space = event.dst_space ? event.dst_space : 0xff;
  }
  enum ts_status status = program->options->sink->emit(program->options->sink, &event, footprint);
  warp->block->last_event_seq = event.seq;
  return status;
}

static uint32_t clamp32(uint64_t value) {
  return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

enum ts_status ts__emit_agent(const struct ts__program *program, uint32_t block,
                              enum ts_event_kind kind, uint64_t work, uint64_t bytes) {
  struct ts_event event = {.kind = (uint8_t)kind,
                           .block = block,
                           .warp = UINT16_MAX,
                           .insn = UINT32_MAX,
                           .op = UINT16_MAX,
                           .src_space = 0xff,
                           .dst_space = 0xff,
                           .launch = (uint16_t)program->launch_index,
                           .work = clamp32(work),
                           .bytes = clamp32(bytes)};
  return program->options->sink->emit(program->options->sink, &event, NULL);
}
