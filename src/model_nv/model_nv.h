/* The timing model of NVIDIA SM80/SM90/SM100 machines (docs/timing.md). */
#ifndef TS_MODEL_NV_MODEL_NV_H
#define TS_MODEL_NV_MODEL_NV_H

#include "model/model.h"

struct ts_model_nv;

struct ts_model_nv_options {
  const struct ts_machine *machine;
  uint32_t registers_per_thread; /* 0: the code's estimate */
  struct ts_span_sink *spans;    /* NULL: nobody listens */
  uint64_t record_limit_bytes;   /* what events may take in memory, beyond it TS_LIMIT; 0: 1 GiB */
};

/* The program is only read while the model is open. TS_UNSUPPORTED when the machine lacks a constant
 * or a function has no code table. */
enum ts_status ts_model_nv_open(struct ts_ctx *ctx, const struct ts_model_nv_options *options,
                                const struct ts_trace_program *program, struct ts_model_nv **model);
/* Takes the events of all launches, in order. */
struct ts_sink *ts_model_nv_sink(struct ts_model_nv *model);
/* Simulates what has been recorded. The report lives until the model is closed. */
enum ts_status ts_model_nv_finish(struct ts_model_nv *model, const struct ts_time_report **report);
void ts_model_nv_close(struct ts_model_nv *model); /* NULL is fine */

#endif
