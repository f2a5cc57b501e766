/* Diagnostics: what went wrong, where, and what would help. A list of them belongs to a context;
 * text, JSON and SARIF are written from it elsewhere. Appending is thread-safe. */
#ifndef TS_BASE_DIAG_H
#define TS_BASE_DIAG_H

#include "base/alloc.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum ts_severity { TS_SEVERITY_ERROR, TS_SEVERITY_HAZARD, TS_SEVERITY_REMARK };

enum ts_diag_code {
#define DIAG(name, code, severity, title) TS_DIAG_##name,
#include "base/diag.def"
#undef DIAG
  TS_DIAG_CODE_COUNT
};

/* A place in a source file; file is NULL when unknown, line 0 when only the file is known. */
struct ts_source_place {
  const char *file;
  uint32_t line, column;
};

struct ts_diag {
  enum ts_diag_code code;
  const char *message;          /* one sentence */
  const char *hint;             /* what would help, or NULL */
  struct ts_source_place place; /* the access or the faulty input */
  struct ts_source_place other; /* the second access of a hazard, or file == NULL */
  const char *function;         /* kernel or host function, or NULL */
  int64_t block, warp, lane;    /* linear block index, warp, lane; -1 when not applicable */
  uint64_t repeat_count;        /* equal diagnostics (code, place, other) are merged */
};

/* Where diagnostics go. At most `limit` distinct ones are kept; the rest is counted. */
struct ts_diag_list {
  struct ts_arena arena;
  TS_VEC(struct ts_diag) items;
  uint64_t dropped_count;
  size_t limit;
  void *lock; /* pthread_mutex_t */
  bool out_of_memory;
};

/* Everything hangs on a context: two of them live side by side in one process. */
struct ts_ctx {
  const struct ts_allocator *allocator;
  struct ts_diag_list *diags;
};

enum ts_status ts_diag_list_init(struct ts_diag_list *list, const struct ts_allocator *allocator);
void ts_diag_list_free(struct ts_diag_list *list);

const char *ts_diag_code_text(enum ts_diag_code code);  /* "TS-RACE-001" */
const char *ts_diag_code_title(enum ts_diag_code code); /* "read of data still in flight" */
enum ts_severity ts_diag_severity(enum ts_diag_code code);

/* Appends a copy (strings are copied). Equal (code, place, other, function) only bump the first
 * one's repeat_count; of the two the lower (block, warp, lane) and its wording stay. Never fails: when memory is short the list says so (out_of_memory). */
void ts_diag_add(struct ts_diag_list *list, const struct ts_diag *diag);

/* Brings the list into an order that does not depend on how threads interleaved: by block, warp,
 * lane, place. Diagnostics outside a block come first, in the order in which they were added. */
void ts_diag_list_sort(struct ts_diag_list *list);

/* Short form for errors: reports at the place and returns the status, so that
 * `return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, place, "expected %s", what);` reads
 * as one step. */
enum ts_status ts_fail(struct ts_ctx *ctx, enum ts_status status, enum ts_diag_code code,
                       struct ts_source_place place, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Reports out of memory and returns TS_NO_MEMORY. */
enum ts_status ts_fail_memory(struct ts_ctx *ctx);

#define TS_NO_PLACE ((struct ts_source_place){NULL, 0, 0})
#define TS_FILE_PLACE(path) ((struct ts_source_place){(path), 0, 0})

#endif
