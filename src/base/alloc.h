/* One allocator function for everything, so that counting and fault injection are trivial.
 * An arena is a lifetime: whatever is taken from it is released with it, as a whole. */
#ifndef TS_BASE_ALLOC_H
#define TS_BASE_ALLOC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* resize(user, NULL, 0, n) allocates, resize(user, p, n, 0) frees and returns NULL,
 * else reallocates. Returns NULL on failure (the old block then stays valid). Must be callable
 * from several threads at once. */
struct ts_allocator {
  void *(*resize)(void *user, void *old_block, size_t old_size_bytes, size_t new_size_bytes);
  void *user;
};

/* The libc allocator. */
extern const struct ts_allocator ts_allocator_libc;

struct ts_arena_chunk;

struct ts_arena {
  const struct ts_allocator *allocator;
  struct ts_arena_chunk *chunks;
  size_t used_bytes;  /* in the newest chunk */
  size_t total_bytes; /* over all chunks */
};

void ts_arena_init(struct ts_arena *arena, const struct ts_allocator *allocator);
void ts_arena_free(struct ts_arena *arena);

/* Zeroed memory, or NULL when the allocator fails. align_bytes is a power of two, at most 64. */
void *ts_arena_alloc(struct ts_arena *arena, size_t size_bytes, size_t align_bytes);

/* As above for count elements; NULL also when count * size overflows. */
void *ts_arena_alloc_array(struct ts_arena *arena, size_t count, size_t size_bytes,
                           size_t align_bytes);

/* A copy of length bytes with a final NUL, or NULL. */
char *ts_arena_copy(struct ts_arena *arena, const char *text, size_t length);

/* Formatted text in the arena, or NULL. */
char *ts_arena_printf(struct ts_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *ts_arena_vprintf(struct ts_arena *arena, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

#define ts_new(arena, type) ((type *)ts_arena_alloc((arena), sizeof(type), _Alignof(type)))
#define ts_new_array(arena, type, count)                                                           \
  ((type *)ts_arena_alloc_array((arena), (count), sizeof(type), _Alignof(type)))

/* A growing array in an allocator: `struct { T *data; size_t count, capacity; }`.
 * ts_vec_reserve answers 0 on success and -1 when memory is short; then nothing has changed. */
#define TS_VEC(type)                                                                               \
  struct {                                                                                         \
    type *data;                                                                                    \
    size_t count, capacity;                                                                        \
  }
#define ts_vec_reserve(vec, allocator, extra)                                                      \
  ts__vec_grow((void **)&(vec)->data, (vec)->count, &(vec)->capacity, (extra),                     \
               sizeof(*(vec)->data), (allocator))
#define ts_vec_push(vec, allocator, value)                                                         \
  (ts_vec_reserve((vec), (allocator), 1) ? -1 : ((vec)->data[(vec)->count++] = (value), 0))
#define ts_vec_free(vec, allocator)                                                                \
  ts__vec_free((void **)&(vec)->data, &(vec)->count, &(vec)->capacity, sizeof(*(vec)->data),       \
               (allocator))

int ts__vec_grow(void **data, size_t count, size_t *capacity, size_t extra, size_t elem_size_bytes,
                 const struct ts_allocator *allocator);
void ts__vec_free(void **data, size_t *count, size_t *capacity, size_t elem_size_bytes,
                  const struct ts_allocator *allocator);

#endif
