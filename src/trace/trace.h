/* Events: what happened, in which order, never when. Fixed 64-byte records with a side table of
 * footprints; the only link from interpretation to timing and pictures. A sink takes them live; the
 * writer is a sink that makes a versioned file, the reader feeds any sink from such a file.
 * docs/trace-format.md is the specification. */
#ifndef TS_TRACE_TRACE_H
#define TS_TRACE_TRACE_H

#include "base/diag.h"
#include "ir/code.h"

#include <stdio.h>

enum ts_event_kind {
#define EVENT_KIND(name, text) TS_EVENT_##name,
#include "trace/event.def"
#undef EVENT_KIND
  TS_EVENT_KIND_COUNT
};

enum ts_sync_kind {
  TS_SYNC_NONE,
  TS_SYNC_BARRIER,
  TS_SYNC_MBARRIER,
  TS_SYNC_CP_ASYNC_GROUP,
  TS_SYNC_BULK_GROUP,
  TS_SYNC_WGMMA_GROUP,
  TS_SYNC_CLUSTER
};

/* Agent of a warp event: block and warp; warp 0xffff = the block itself. */
struct ts_event {
  uint64_t seq;   /* position in the stream, from 0 */
  uint32_t block; /* linear block index in the launch; UINT32_MAX the launch itself */
  uint16_t warp;
  uint8_t kind;         /* enum ts_event_kind */
  uint8_t sync_kind;    /* enum ts_sync_kind */
  uint32_t insn;        /* id in the function of the launch; UINT32_MAX none */
  uint16_t op;          /* enum ts_op of ir/ir.h; the file carries the names; UINT16_MAX none */
  uint8_t dtype, lanes; /* type worked in; copies: lanes = reduction, enum ts_ir_reduce */
  uint8_t src_space, dst_space; /* enum ts_space, 0xff none */
  uint16_t launch;              /* number of the launch */
  uint32_t mask;                /* active lanes */
  uint32_t bytes;               /* bytes moved, all lanes together */
  uint32_t work;                /* multiply-adds, arrivals, boxes ... by kind */
  uint32_t sync_object;         /* shared address of an mbarrier, barrier number, group number */
  uint32_t sync_phase;
  uint64_t cause; /* LANDED: 1 + seq of its COPY, which the producer knows from the seq that emit
                          filled in. Others: 1 + the block whose shared memory or mbarrier is acted
                          on, when it is another one (ts_event_target). 0 none */
  uint64_t footprint; /* 1 + offset in the footprint table, 0 none */
};
_Static_assert(sizeof(struct ts_event) == 64, "event format 2");

/* The block whose shared memory and mbarriers the event (not LANDED) acts on. */
static inline uint32_t ts_event_target(const struct ts_event *event) {
  return event->cause ? (uint32_t)(event->cause - 1) : event->block;
}

enum ts_footprint_kind {
  TS_FOOTPRINT_AFFINE, /* base + lane * lane_stride, size_bytes each */
  TS_FOOTPRINT_LANES,  /* 32 addresses, size_bytes each */
  TS_FOOTPRINT_BOX     /* tensor map box: rank, base, extents, strides */
};

/* One range of addresses; space of the addresses is the event's. */
struct ts_footprint {
  uint8_t kind; /* enum ts_footprint_kind */
  uint8_t space;
  uint8_t rank;
  uint8_t reserved;
  uint32_t size_bytes; /* per lane, or per innermost row of a box */
  uint64_t base;
  int64_t lane_stride;   /* AFFINE */
  const uint64_t *lanes; /* LANES: 32 addresses (inactive ones are 0), and base is 0 */
  uint32_t extent[5];    /* BOX, innermost first, elements */
  int32_t coordinate[5];
  uint64_t stride_bytes[5];
  uint64_t
      tensor_extent[5]; /* BOX: elements of the tensor map's dimensions; outside is no traffic */
};

/* How the footprints of one instruction differ between a block and the block that it repeats: bytes
 * for AFFINE and LANES, elements of each dimension for BOX. */
struct ts_shift {
  uint32_t insn;
  int64_t bytes;
  int32_t coordinate[5];
};

struct ts_sink {
  /* footprint may be NULL; both are only valid during the call. seq and footprint offset are
   * filled by the sink. Calls come in stream order from one thread at a time. */
  enum ts_status (*emit)(struct ts_sink *sink, struct ts_event *event,
                         const struct ts_footprint *footprint);
  /* May be NULL; then every block's events are emitted. Otherwise an address-only run may say that a
   * block's events equal those of an earlier block of the launch but for global footprints: shifts
   * has a row for every instruction whose global footprints move; footprints in shared memory and
   * lanes without an address never do. */
  enum ts_status (*repeat)(struct ts_sink *sink, uint16_t launch, uint32_t block,
                           uint32_t like_block, const struct ts_shift *shifts,
                           uint32_t shift_count);
};
/* Takes everything, keeps nothing. Recognisable by address so that producers can skip the work. */
extern struct ts_sink ts_sink_null;

/* Source map of a function as the file carries it. */
struct ts_trace_function {
  const char *name;
  uint32_t insn_count;
  const struct ts_source_place *places; /* per instruction */
  const uint16_t *ops;                  /* per instruction */
  const struct ts_code *code;           /* for timing models; NULL: not stated */
};

/* One launch of the traced run: which function and with what geometry. */
struct ts_trace_launch {
  uint32_t function; /* index in the program's functions */
  uint32_t grid[3], block[3], cluster[3];
  uint64_t dynamic_shared_bytes;
};

/* What a file says beside events. event.launch is an index in launches. */
struct ts_trace_program {
  const struct ts_trace_function *functions;
  uint32_t function_count;
  const struct ts_trace_launch *launches;
  uint32_t launch_count;
};

struct ts_trace_writer;
/* Starts a temporary file beside path; ts_trace_writer_close(commit = true) renames it to path,
 * false removes it. A path that is a device or a pipe is written in place. The program is only
 * read during the call; ctx must outlive the writer. */
enum ts_status ts_trace_writer_open(struct ts_ctx *ctx, const char *path,
                                    const struct ts_trace_program *program,
                                    struct ts_trace_writer **writer);
struct ts_sink *ts_trace_writer_sink(struct ts_trace_writer *writer);
/* Frees the writer in any case. When an earlier write failed, that status comes back and no file is
 * left. NULL is fine. */
enum ts_status ts_trace_writer_close(struct ts_ctx *ctx, struct ts_trace_writer *writer,
                                     bool commit);

struct ts_trace_reader;
/* Checks the header and reads the tables. */
enum ts_status ts_trace_reader_open(struct ts_ctx *ctx, const char *path,
                                    struct ts_trace_reader **reader);
/* The same from a stream, which is closed with the reader, or when this fails. path is for
 * messages. */
enum ts_status ts_trace_reader_open_stream(struct ts_ctx *ctx, FILE *stream, const char *path,
                                           struct ts_trace_reader **reader);
/* Valid while the reader is open. */
const struct ts_trace_program *ts_trace_reader_program(const struct ts_trace_reader *reader);
/* Names as the file has them; "?" for a number that has none, "" for none. */
const char *ts_trace_reader_op_name(const struct ts_trace_reader *reader, uint16_t op);
const char *ts_trace_reader_dtype_name(const struct ts_trace_reader *reader, uint8_t dtype);
const char *ts_trace_reader_space_name(const struct ts_trace_reader *reader, uint8_t space);
const char *ts_event_kind_name(enum ts_event_kind kind);
const char *ts_sync_kind_name(enum ts_sync_kind kind);

/* The next event; *footprint is NULL when it has none and valid until the next call. At the end of
 * a complete file *is_end becomes true. TS_BAD_INPUT when the file is damaged or cut short. */
enum ts_status ts_trace_reader_next(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                                    struct ts_event *event, const struct ts_footprint **footprint,
                                    bool *is_end);
/* Feeds all remaining events to the sink in order. */
enum ts_status ts_trace_replay(struct ts_ctx *ctx, struct ts_trace_reader *reader,
                               struct ts_sink *sink);
void ts_trace_reader_close(struct ts_trace_reader *reader); /* NULL is fine */

#endif
