/* A thread pool that lives as long as one ts_pool_run: tasks are blocks or files, much longer than
 * the start of a thread. */
#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WORKER_LIMIT = 256 };

struct pool {
  enum ts_status (*task)(void *user, uint32_t worker, uint64_t index);
  void *user;
  _Atomic uint64_t next_index;
  _Atomic uint64_t failed_index; /* lowest so far; task_count when none */
  enum ts_status failed_status;  /* of failed_index; guarded by lock */
  pthread_mutex_t lock;
};

struct worker {
  struct pool *pool;
  pthread_t thread;
  uint32_t number;
};

static void note_failure(struct pool *pool, uint64_t index, enum ts_status status) {
  pthread_mutex_lock(&pool->lock);
  if (index < atomic_load(&pool->failed_index)) {
    atomic_store(&pool->failed_index, index);
    pool->failed_status = status;
  }
  pthread_mutex_unlock(&pool->lock);
}

/* Indices are handed out in ascending order, so whatever lies below a failed index has been
 * handed out already and will finish: the lowest failure does not depend on timing. */
static void work(struct pool *pool, uint32_t worker) {
  for (;;) {
    uint64_t index = atomic_fetch_add(&pool->next_index, 1);
    if (index >= atomic_load(&pool->failed_index)) return;
    enum ts_status status = pool->task(pool->user, worker, index);
    if (status != TS_OK) note_failure(pool, index, status);
  }
}

static void *thread_main(void *argument) {
  struct worker *worker = argument;
  work(worker->pool, worker->number);
  return NULL;
}

enum ts_status ts_pool_run(uint32_t worker_count, uint64_t task_count,
                           enum ts_status (*task)(void *user, uint32_t worker, uint64_t index),
                           void *user) {
  struct pool pool = {.task = task, .user = user};
  struct worker workers[WORKER_LIMIT];
  if (worker_count > WORKER_LIMIT) worker_count = WORKER_LIMIT;
  if (worker_count > task_count) worker_count = (uint32_t)task_count;
  atomic_init(&pool.next_index, 0);
  atomic_init(&pool.failed_index, task_count);
  if (pthread_mutex_init(&pool.lock, NULL)) return TS_NO_MEMORY;
  uint32_t started = 1;
  while (started < worker_count) {
    struct worker *worker = &workers[started];
    *worker = (struct worker){.pool = &pool, .number = started};
    if (pthread_create(&worker->thread, NULL, thread_main, worker)) break;
    started++;
  }
  work(&pool, 0);
  for (uint32_t i = 1; i < started; i++)
    pthread_join(workers[i].thread, NULL);
  pthread_mutex_destroy(&pool.lock);
  return atomic_load(&pool.failed_index) < task_count ? pool.failed_status : TS_OK;
}
