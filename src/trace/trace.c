/* What writer, reader and producers of events have in common. */
#include "trace/trace_priv.h"

static enum ts_status drop_event(struct ts_sink *sink, struct ts_event *event,
                                 const struct ts_footprint *footprint) {
  (void)sink;
  (void)event;
  (void)footprint;
  return TS_OK;
}

struct ts_sink ts_sink_null = {.emit = drop_event};

const char *ts_event_kind_name(enum ts_event_kind kind) {
  static const char *const names[] = {
#define EVENT_KIND(name, text) text,
#include "trace/event.def"
#undef EVENT_KIND
  };
  return (unsigned)kind < TS_EVENT_KIND_COUNT ? names[kind] : "?";
}

const char *ts_sync_kind_name(enum ts_sync_kind kind) {
  switch (kind) {
  case TS_SYNC_NONE: return "none";
  case TS_SYNC_BARRIER: return "barrier";
  case TS_SYNC_MBARRIER: return "mbarrier";
  case TS_SYNC_CP_ASYNC_GROUP: return "cp.async group";
  case TS_SYNC_BULK_GROUP: return "bulk group";
  case TS_SYNC_WGMMA_GROUP: return "wgmma group";
  case TS_SYNC_CLUSTER: return "cluster";
  }
  return "?";
}

size_t ts__trace_footprint_bytes(uint8_t kind, uint8_t rank) {
  enum { HEAD_BYTES = 16, DIMENSION_BYTES = 24 };
  switch (kind) {
  case TS_FOOTPRINT_AFFINE: return HEAD_BYTES + 8;
  case TS_FOOTPRINT_LANES: return HEAD_BYTES + TS__TRACE_LANES * 8;
  case TS_FOOTPRINT_BOX:
    if (rank == 0 || rank > TS__TRACE_MAX_RANK) return 0;
    return HEAD_BYTES + (size_t)rank * DIMENSION_BYTES;
  default: return 0;
  }
}
