/* An allocator for tests: counts what is alive, checks that sizes are given back as they were
 * taken, and can fail the n-th allocation.
 *
 *   struct failing_allocator memory;
 *   failing_allocator_init(&memory);
 *   for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
 *     ... the work, with &memory.allocator; it must either succeed or report TS_NO_MEMORY,
 *     ... and free everything
 *   }
 *
 * The loop ends after the first round in which no allocation was left to fail; each round fails
 * the test when something leaked. */
#ifndef TS_TESTS_FAILING_ALLOCATOR_H
#define TS_TESTS_FAILING_ALLOCATOR_H

#include "base/alloc.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct failing_allocator {
  struct ts_allocator allocator;
  pthread_mutex_t lock;
  uint64_t call_count;   /* allocations and growths asked for in this round */
  uint64_t failing_call; /* the one that fails, counted from 1; 0: none */
  bool fails_from_there; /* and all later ones fail too */
  bool failed;
  size_t alive_bytes, peak_bytes;
  uint64_t alive_blocks;
};

/* A size that is given back wrongly is a fault of the code under test; no way to go on. */
static inline void failing_allocator_require(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "failing_allocator: %s\n", what);
  abort();
}

static inline void *failing_allocator_resize(void *user, void *old_block, size_t old_size_bytes,
                                             size_t new_size_bytes) {
  struct failing_allocator *self = user;
  enum { HEADER_BYTES = 64 };
  char *old_raw = old_block ? (char *)old_block - HEADER_BYTES : NULL;
  pthread_mutex_lock(&self->lock);
  if (old_raw) {
    size_t noted;
    memcpy(&noted, old_raw, sizeof noted);
    failing_allocator_require(noted == old_size_bytes, "old_size_bytes is not what was asked for");
  } else {
    failing_allocator_require(old_size_bytes == 0, "old_size_bytes without a block");
  }
  char *raw = NULL;
  if (new_size_bytes > 0) {
    self->call_count++;
    bool fails =
        self->failing_call && (self->call_count == self->failing_call ||
                               (self->fails_from_there && self->call_count > self->failing_call));
    /* Always a new block, so that a stale pointer is found by the sanitizers. */
    raw = fails ? NULL : malloc(HEADER_BYTES + new_size_bytes);
    self->failed |= fails;
  }
  if (raw) {
    memcpy(raw, &new_size_bytes, sizeof new_size_bytes);
    memset(raw + HEADER_BYTES, 0xa5, new_size_bytes);
    size_t kept = old_size_bytes < new_size_bytes ? old_size_bytes : new_size_bytes;
    if (old_raw) memcpy(raw + HEADER_BYTES, old_block, kept);
    self->alive_bytes += new_size_bytes;
    self->alive_blocks++;
    if (self->alive_bytes > self->peak_bytes) self->peak_bytes = self->alive_bytes;
  }
  if (old_raw && (raw || new_size_bytes == 0)) {
    self->alive_bytes -= old_size_bytes;
    self->alive_blocks--;
    free(old_raw);
  }
  pthread_mutex_unlock(&self->lock);
  return raw ? raw + HEADER_BYTES : NULL;
}

static inline void failing_allocator_init(struct failing_allocator *self) {
  memset(self, 0, sizeof *self);
  pthread_mutex_init(&self->lock, NULL);
  self->allocator.resize = failing_allocator_resize;
  self->allocator.user = self;
}

/* Starts round n (from 1). False when round n - 1 had nothing left to fail. */
static inline bool failing_allocator_next(struct failing_allocator *self, uint64_t n) {
  if (n > 1) failing_allocator_require(self->alive_blocks == 0, "a block leaked");
  if (n > 1 && !self->failed) return false;
  self->call_count = 0;
  self->failing_call = n;
  self->failed = false;
  return true;
}

#endif
