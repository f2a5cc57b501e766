/* The public reader of event files: records with their names resolved. */
#include "api/api_priv.h"

#include <string.h>

struct ts_events {
  struct ts_sim *sim;
  struct ts_trace_reader *reader;
};

enum ts_result ts_events_open(struct ts_sim *sim, const char *path, struct ts_events **out) {
  struct ts_allocator *allocator = &sim->allocator;
  *out = NULL;
  struct ts_events *events = allocator->resize(allocator->user, NULL, 0, sizeof *events);
  if (!events) return ts__result(ts_fail_memory(&sim->ctx));
  events->sim = sim;
  enum ts_status status = ts_trace_reader_open(&sim->ctx, path ? path : "", &events->reader);
  if (status != TS_OK) {
    allocator->resize(allocator->user, events, sizeof *events, 0);
    return ts__result(status);
  }
  *out = events;
  return TS_RESULT_OK;
}

static void put_footprint(const struct ts_footprint *footprint, struct ts_event_record *record) {
  static const enum ts_event_addresses kinds[] = {
      [TS_FOOTPRINT_AFFINE] = TS_EVENT_ADDRESSES_AFFINE,
      [TS_FOOTPRINT_LANES] = TS_EVENT_ADDRESSES_LANES,
      [TS_FOOTPRINT_BOX] = TS_EVENT_ADDRESSES_BOX,
  };
  _Static_assert((int)TS_EVENT_LANES == (int)TS_WARP_LANES, "lanes of a warp");
  record->addresses = kinds[footprint->kind];
  record->size_bytes = footprint->size_bytes;
  record->address = footprint->base;
  if (footprint->kind == TS_FOOTPRINT_AFFINE) record->lane_stride_bytes = footprint->lane_stride;
  if (footprint->kind == TS_FOOTPRINT_LANES) {
    memcpy(record->lane_address, footprint->lanes, sizeof record->lane_address);
    for (unsigned i = 0; i < TS_EVENT_LANES && !record->address; i++)
      record->address = record->lane_address[i];
  }
  if (footprint->kind != TS_FOOTPRINT_BOX) return;
  record->box_rank = footprint->rank;
  memcpy(record->box_extent, footprint->extent, sizeof record->box_extent);
  memcpy(record->box_coordinate, footprint->coordinate, sizeof record->box_coordinate);
  memcpy(record->box_stride_bytes, footprint->stride_bytes, sizeof record->box_stride_bytes);
  memcpy(record->box_tensor_extent, footprint->tensor_extent, sizeof record->box_tensor_extent);
}

static void put_place(const struct ts_trace_program *program, const struct ts_event *event,
                      struct ts_event_record *record) {
  const struct ts_trace_function *function =
      &program->functions[program->launches[event->launch].function];
  record->function = function->name;
  if (event->insn == UINT32_MAX) return;
  record->file = function->places[event->insn].file;
  record->line = function->places[event->insn].line;
  record->column = function->places[event->insn].column;
}

enum ts_result ts_events_next(struct ts_events *events, struct ts_event_record *record,
                              int *is_end) {
  struct ts_event event;
  const struct ts_footprint *footprint;
  const struct ts_trace_reader *reader = events->reader;
  bool has_ended;
  enum ts_status status =
      ts_trace_reader_next(&events->sim->ctx, events->reader, &event, &footprint, &has_ended);
  *is_end = has_ended;
  if (status != TS_OK || has_ended) return ts__result(status);
  *record = (struct ts_event_record){
      .seq = event.seq,
      .kind = ts_event_kind_name((enum ts_event_kind)event.kind),
      .op = ts_trace_reader_op_name(reader, event.op),
      .dtype = event.op == UINT16_MAX ? "" : ts_trace_reader_dtype_name(reader, event.dtype),
      .source_space = ts_trace_reader_space_name(reader, event.src_space),
      .target_space = ts_trace_reader_space_name(reader, event.dst_space),
      .sync_kind = ts_sync_kind_name((enum ts_sync_kind)event.sync_kind),
      .launch = event.launch,
      .block = event.block,
      .warp = event.warp,
      .insn = event.insn,
      .mask = event.mask,
      .vector_lanes = event.lanes,
      .bytes = event.bytes,
      .work = event.work,
      .sync_object = event.sync_object,
      .sync_phase = event.sync_phase,
      .cause = event.kind == TS_EVENT_LANDED ? event.cause : 0,
      .target_block = event.kind == TS_EVENT_LANDED ? event.block : ts_event_target(&event),
  };
  put_place(ts_trace_reader_program(reader), &event, record);
  if (footprint) put_footprint(footprint, record);
  return TS_RESULT_OK;
}

void ts_events_close(struct ts_events *events) {
  if (!events) return;
  struct ts_allocator *allocator = &events->sim->allocator;
  ts_trace_reader_close(events->reader);
  allocator->resize(allocator->user, events, sizeof *events, 0);
}
