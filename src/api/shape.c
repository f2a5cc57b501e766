/* Shapes: element counts that do not overflow, what strides reach, text; and nearness of names. */
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>

bool ts__shape_count(uint32_t rank, const int64_t *shape, uint64_t *elem_count) {
  uint64_t count = 1;
  bool has_zero = false;
  for (uint32_t i = 0; i < rank; i++) {
    if (shape[i] < 0) return false;
    has_zero |= shape[i] == 0;
  }
  for (uint32_t i = 0; i < rank && !has_zero; i++) {
    if (__builtin_mul_overflow(count, (uint64_t)shape[i], &count)) return false;
  }
  *elem_count = has_zero ? 0 : count;
  return count <= UINT64_MAX / 64; /* bytes and bits of it do not overflow either */
}

bool ts__shape_span(uint32_t rank, const int64_t *shape, const int64_t *strides,
                    uint64_t *elem_count) {
  uint64_t last = 0;
  if (!ts__shape_count(rank, shape, elem_count)) return false;
  if (!strides || *elem_count == 0) return true;
  for (uint32_t i = 0; i < rank; i++) {
    uint64_t reach;
    if (strides[i] < 0) return false;
    if (__builtin_mul_overflow((uint64_t)(shape[i] - 1), (uint64_t)strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  *elem_count = last + 1;
  return last < UINT64_MAX / 64;
}

const char *ts__shape_text(uint32_t rank, const int64_t *shape, char *buffer, size_t capacity) {
  size_t used = 0;
  if (rank == 0) snprintf(buffer, capacity, "scalar");
  for (uint32_t i = 0; i < rank && used < capacity; i++) {
    int wrote =
        snprintf(buffer + used, capacity - used, "%s%lld", i ? "x" : "", (long long)shape[i]);
    if (wrote < 0) break;
    used += (size_t)wrote;
  }
  return buffer;
}

unsigned ts__edit_distance(const char *a, const char *b, unsigned limit) {
  enum { MAX_LENGTH = 63 };
  unsigned row[MAX_LENGTH + 1];
  size_t a_length = strlen(a), b_length = strlen(b);
  if (a_length > MAX_LENGTH || b_length > MAX_LENGTH) return limit + 1;
  for (size_t j = 0; j <= b_length; j++)
    row[j] = (unsigned)j;
  for (size_t i = 1; i <= a_length; i++) {
    unsigned diagonal = row[0];
    row[0] = (unsigned)i;
    for (size_t j = 1; j <= b_length; j++) {
      unsigned above = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
      if (above + 1 < best) best = above + 1;
      if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
      diagonal = above;
      row[j] = best;
    }
  }
  return row[b_length] <= limit ? row[b_length] : limit + 1;
}
