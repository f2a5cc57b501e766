/* Reading event files: what happened in a run, in which order, never when. docs/trace-format.md
 * says what the fields mean for each kind of event. */
#ifndef TILESIM_EVENT_H
#define TILESIM_EVENT_H

#include "tilesim/tilesim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* warp of an event of a block as a whole, block of an event of a launch as a whole */
enum { TS_EVENT_BLOCK_WARP = 0xffff };
#define TS_EVENT_LAUNCH_BLOCK UINT32_MAX
enum { TS_EVENT_LANES = 32, TS_EVENT_BOX_RANK = 5 };

enum ts_event_addresses {
  TS_EVENT_ADDRESSES_NONE,
  TS_EVENT_ADDRESSES_AFFINE, /* address + lane * lane_stride_bytes, size_bytes each */
  TS_EVENT_ADDRESSES_LANES,  /* lane_address[lane], size_bytes each */
  TS_EVENT_ADDRESSES_BOX     /* a tensor map box at `address` */
};

/* One event with its names resolved. Texts are valid while the file is open. */
struct ts_event_record {
  uint64_t seq;             /* position in the file, from 0 */
  const char *kind;         /* "memory", "copy", "wait", ... */
  const char *op;           /* mnemonic, "" when none */
  const char *dtype;        /* "" when none */
  const char *source_space; /* "global", "shared", "local" or "" */
  const char *target_space;
  const char *sync_kind; /* "mbarrier", ... or "none" */
  const char *function;  /* kernel */
  const char *file;      /* source of the instruction, or NULL */
  uint32_t line, column;
  uint32_t launch, block, warp; /* or TS_EVENT_LAUNCH_BLOCK, TS_EVENT_BLOCK_WARP */
  uint32_t insn;                /* id in the function; UINT32_MAX: none */
  uint32_t mask;                /* active lanes */
  uint32_t vector_lanes;        /* components per lane */
  uint32_t bytes;               /* moved, all lanes together */
  uint32_t work;                /* multiply-adds, arrivals, boxes, ... by kind */
  uint32_t sync_object, sync_phase;
  uint64_t cause;        /* 1 + seq of the event that this one completes, 0 none */
  uint32_t target_block; /* whose shared memory or mbarrier is acted on; mostly `block` */
  enum ts_event_addresses addresses;
  uint32_t size_bytes; /* per lane, or per innermost row of a box */
  uint64_t address;
  int64_t lane_stride_bytes;
  uint64_t lane_address[TS_EVENT_LANES];
  uint32_t box_rank; /* innermost dimension first */
  uint32_t box_extent[TS_EVENT_BOX_RANK];
  int32_t box_coordinate[TS_EVENT_BOX_RANK];
  uint64_t box_stride_bytes[TS_EVENT_BOX_RANK];
  uint64_t box_tensor_extent[TS_EVENT_BOX_RANK]; /* what lies outside is not moved */
};

struct ts_events;

/* Opens a file that ts_sim_run wrote; errors go to the simulation's diagnostics, and the simulation
 * must outlive the file. TS_RESULT_IO, TS_RESULT_BAD_INPUT. */
TS_API enum ts_result ts_events_open(struct ts_sim *sim, const char *path,
                                     struct ts_events **events);
/* The next event. At the end *is_end becomes 1 and the record is not touched. TS_RESULT_BAD_INPUT
 * when the file is damaged or was cut short. */
TS_API enum ts_result ts_events_next(struct ts_events *events, struct ts_event_record *record,
                                     int *is_end);
TS_API void ts_events_close(struct ts_events *events); /* NULL is fine */

#ifdef __cplusplus
}
#endif

#endif
