/* The libc allocator, arenas and growing arrays. */
#include "base/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define TS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TS_ASAN 1
#endif
#endif

/* Under AddressSanitizer whatever an arena has not handed out is poisoned, and a gap follows each
 * block, so that an overrun inside a chunk is seen as well. */
#ifdef TS_ASAN
#include <sanitizer/asan_interface.h>
#define poison(address, size_bytes) __asan_poison_memory_region((address), (size_bytes))
#define unpoison(address, size_bytes) __asan_unpoison_memory_region((address), (size_bytes))
enum { GAP_BYTES = 16 };
#else
#define poison(address, size_bytes) ((void)(address), (void)(size_bytes))
#define unpoison(address, size_bytes) ((void)(address), (void)(size_bytes))
enum { GAP_BYTES = 0 };
#endif

enum { FIRST_CHUNK_BYTES = 4096, LARGEST_CHUNK_BYTES = 1 << 20, LARGEST_ALIGN_BYTES = 64 };

static void *libc_resize(void *user, void *old_block, size_t old_size_bytes,
                         size_t new_size_bytes) {
  (void)user;
  (void)old_size_bytes;
  if (new_size_bytes == 0) {
    free(old_block);
    return NULL;
  }
  return realloc(old_block, new_size_bytes);
}

const struct ts_allocator ts_allocator_libc = {libc_resize, NULL};

/* The bytes follow the header. The head of the list is the chunk being filled. */
struct ts_arena_chunk {
  struct ts_arena_chunk *next;
  size_t size_bytes; /* without the header */
};

static char *chunk_bytes(struct ts_arena_chunk *chunk) { return (char *)(chunk + 1); }

void ts_arena_init(struct ts_arena *arena, const struct ts_allocator *allocator) {
  *arena = (struct ts_arena){.allocator = allocator};
}

void ts_arena_free(struct ts_arena *arena) {
  struct ts_arena_chunk *chunk = arena->chunks;
  while (chunk) {
    struct ts_arena_chunk *next = chunk->next;
    size_t size_bytes = chunk->size_bytes;
    unpoison(chunk_bytes(chunk), size_bytes);
    arena->allocator->resize(arena->allocator->user, chunk, sizeof *chunk + size_bytes, 0);
    chunk = next;
  }
  ts_arena_init(arena, arena->allocator);
}

static struct ts_arena_chunk *new_chunk(struct ts_arena *arena, size_t size_bytes) {
  const struct ts_allocator *allocator = arena->allocator;
  struct ts_arena_chunk *chunk =
      allocator->resize(allocator->user, NULL, 0, sizeof *chunk + size_bytes);
  if (!chunk) return NULL;
  chunk->next = NULL;
  chunk->size_bytes = size_bytes;
  arena->total_bytes += size_bytes;
  poison(chunk_bytes(chunk), size_bytes);
  return chunk;
}

/* Offset in the chunk of the first aligned byte at or after used_bytes. */
static size_t aligned_offset(struct ts_arena_chunk *chunk, size_t used_bytes, size_t align_bytes) {
  uintptr_t address = (uintptr_t)(chunk_bytes(chunk) + used_bytes);
  return used_bytes + (size_t)(-address & (align_bytes - 1));
}

static void *hand_out(struct ts_arena_chunk *chunk, size_t offset, size_t size_bytes) {
  char *block = chunk_bytes(chunk) + offset;
  unpoison(block, size_bytes);
  return memset(block, 0, size_bytes);
}

/* A block that would not fit a normal chunk gets its own, behind the head, which stays in use. */
static void *alloc_alone(struct ts_arena *arena, size_t size_bytes, size_t align_bytes) {
  struct ts_arena_chunk *chunk = new_chunk(arena, size_bytes + align_bytes);
  if (!chunk) return NULL;
  if (arena->chunks) {
    chunk->next = arena->chunks->next;
    arena->chunks->next = chunk;
  } else {
    arena->chunks = chunk;
    arena->used_bytes = chunk->size_bytes;
  }
  return hand_out(chunk, aligned_offset(chunk, 0, align_bytes), size_bytes);
}

/* Chunks double, so that small arenas stay small and large ones take few allocations. */
static size_t next_chunk_bytes(const struct ts_arena *arena) {
  size_t size_bytes = FIRST_CHUNK_BYTES;
  while (size_bytes < arena->total_bytes && size_bytes < LARGEST_CHUNK_BYTES)
    size_bytes *= 2;
  return size_bytes - sizeof(struct ts_arena_chunk);
}

void *ts_arena_alloc(struct ts_arena *arena, size_t size_bytes, size_t align_bytes) {
  if (size_bytes == 0) size_bytes = 1;
  if (size_bytes > SIZE_MAX / 2) return NULL;
  struct ts_arena_chunk *chunk = arena->chunks;
  if (chunk) {
    size_t offset = aligned_offset(chunk, arena->used_bytes, align_bytes);
    if (offset <= chunk->size_bytes && size_bytes <= chunk->size_bytes - offset) {
      size_t end = offset + size_bytes + GAP_BYTES;
      arena->used_bytes = end < chunk->size_bytes ? end : chunk->size_bytes;
      return hand_out(chunk, offset, size_bytes);
    }
  }
  size_t chunk_size_bytes = next_chunk_bytes(arena);
  if (size_bytes > chunk_size_bytes / 4) return alloc_alone(arena, size_bytes, align_bytes);
  chunk = new_chunk(arena, chunk_size_bytes);
  if (!chunk) return NULL;
  chunk->next = arena->chunks;
  arena->chunks = chunk;
  size_t offset = aligned_offset(chunk, 0, align_bytes);
  arena->used_bytes = offset + size_bytes + GAP_BYTES;
  return hand_out(chunk, offset, size_bytes);
}

_Static_assert(FIRST_CHUNK_BYTES / 2 > LARGEST_ALIGN_BYTES + GAP_BYTES,
               "a quarter chunk, aligned and with its gap, fits a fresh chunk");

void *ts_arena_alloc_array(struct ts_arena *arena, size_t count, size_t size_bytes,
                           size_t align_bytes) {
  if (size_bytes && count > SIZE_MAX / size_bytes) return NULL;
  return ts_arena_alloc(arena, count * size_bytes, align_bytes);
}

char *ts_arena_copy(struct ts_arena *arena, const char *text, size_t length) {
  if (length == SIZE_MAX) return NULL;
  char *copy = ts_arena_alloc(arena, length + 1, 1);
  if (copy && length) memcpy(copy, text, length);
  return copy;
}

char *ts_arena_vprintf(struct ts_arena *arena, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  if (length < 0) return NULL;
  char *text = ts_arena_alloc(arena, (size_t)length + 1, 1);
  if (text) vsnprintf(text, (size_t)length + 1, format, arguments);
  return text;
}

char *ts_arena_printf(struct ts_arena *arena, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char *text = ts_arena_vprintf(arena, format, arguments);
  va_end(arguments);
  return text;
}

int ts__vec_grow(void **data, size_t count, size_t *capacity, size_t extra, size_t elem_size_bytes,
                 const struct ts_allocator *allocator) {
  size_t largest = SIZE_MAX / 2 / elem_size_bytes;
  if (count > largest || extra > largest - count) return -1;
  size_t needed = count + extra;
  if (needed <= *capacity) return 0;
  size_t grown = *capacity < 8 ? 8 : *capacity;
  while (grown < needed)
    grown = grown > largest / 2 ? needed : 2 * grown;
  void *moved = allocator->resize(allocator->user, *data, *capacity * elem_size_bytes,
                                  grown * elem_size_bytes);
  if (!moved) return -1;
  *data = moved;
  *capacity = grown;
  return 0;
}

void ts__vec_free(void **data, size_t *count, size_t *capacity, size_t elem_size_bytes,
                  const struct ts_allocator *allocator) {
  if (*data) allocator->resize(allocator->user, *data, *capacity * elem_size_bytes, 0);
  *data = NULL;
  *count = *capacity = 0;
}
