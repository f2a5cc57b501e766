/* Texts and exit statuses of the status codes, both from status.def. */
#include "base/status.h"

static const struct {
  int exit_status;
  const char *text;
} status_table[] = {
#define STATUS(name, exit_status, text) {exit_status, text},
#include "base/status.def"
#undef STATUS
};

const char *ts_status_text(enum ts_status status) {
  if ((unsigned)status >= TS_STATUS_COUNT) return "unknown status";
  return status_table[status].text;
}

int ts_status_exit(enum ts_status status) {
  if ((unsigned)status >= TS_STATUS_COUNT) return status_table[TS_INTERNAL].exit_status;
  return status_table[status].exit_status;
}
