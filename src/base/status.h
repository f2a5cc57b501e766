/* Status codes. Every function that can fail returns one; the story behind it is in the
 * diagnostics (base/diag.h). Libraries never exit. */
#ifndef TS_BASE_STATUS_H
#define TS_BASE_STATUS_H

enum ts_status {
#define STATUS(name, exit_status, text) TS_##name,
#include "base/status.def"
#undef STATUS
  TS_STATUS_COUNT
};

/* The sentence of the status, never NULL. */
const char *ts_status_text(enum ts_status status);

/* The process exit status (0 to 3) that stands for the status. */
int ts_status_exit(enum ts_status status);

/* Leaves the calling function with the status unless it is TS_OK. */
#define TS_TRY(expression)                                                                         \
  do {                                                                                             \
    enum ts_status ts_try_status_ = (expression);                                                  \
    if (ts_try_status_ != TS_OK) return ts_try_status_;                                            \
  } while (0)

#endif
