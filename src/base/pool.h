/* A thread pool for independent tasks. */
#ifndef TS_BASE_POOL_H
#define TS_BASE_POOL_H

#include "base/diag.h"

/* Runs task(user, worker, index) for every index in [0, task_count) on worker_count threads (the
 * caller is worker 0), indices handed out in ascending order. Returns when all are done. The first
 * (lowest-index) status other than TS_OK is returned; tasks with an index above a failed one may be
 * skipped. Falls back to fewer threads when thread creation fails. */
enum ts_status ts_pool_run(uint32_t worker_count, uint64_t task_count,
                           enum ts_status (*task)(void *user, uint32_t worker, uint64_t index),
                           void *user);

#endif
