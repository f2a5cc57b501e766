/* Tags of an SM's L1. */
#include "model_nv/access.h"

/* GUESS: what hardware does within a set is not documented; an odd number of sets spreads rows of
 * any power-of-two pitch, and a buffer as large as the capacity fits. */
enum { WAY_COUNT = 16 };

struct ts__l1 {
  uint32_t set_count, way_count;
  uint64_t clock;
  uint64_t *packed; /* set by set; 0 empty */
  uint64_t *used;   /* clock of the last use */
};

struct ts__l1 *ts__l1_new(struct ts_arena *arena, uint64_t capacity_bytes) {
  struct ts__l1 *l1 = ts_new(arena, struct ts__l1);
  if (!l1) return NULL;
  uint64_t line_count = capacity_bytes / TS__LINE_BYTES;
  if (line_count > UINT32_MAX) line_count = UINT32_MAX;
  l1->way_count = line_count < WAY_COUNT ? (uint32_t)line_count : WAY_COUNT;
  l1->set_count = line_count < WAY_COUNT ? 1 : (uint32_t)(line_count / WAY_COUNT);
  if (l1->set_count % 2 == 0) l1->set_count--;
  size_t entry_count = (size_t)l1->set_count * l1->way_count;
  l1->packed = ts_new_array(arena, uint64_t, entry_count + 1);
  l1->used = ts_new_array(arena, uint64_t, entry_count + 1);
  return l1->packed && l1->used ? l1 : NULL;
}

void ts__l1_flush(struct ts__l1 *l1) {
  size_t entry_count = (size_t)l1->set_count * l1->way_count;
  for (size_t i = 0; i < entry_count; i++)
    l1->packed[i] = 0, l1->used[i] = 0;
}

/* The way that has the line, or the one used longest ago. */
static size_t find(const struct ts__l1 *l1, uint64_t line, bool *is_there) {
  size_t first = (size_t)(line % l1->set_count) * l1->way_count, oldest = first;
  for (size_t i = first; i < first + l1->way_count; i++) {
    *is_there = l1->packed[i] && ts__line_of(l1->packed[i]) == line;
    if (*is_there) return i;
    if (l1->used[i] < l1->used[oldest]) oldest = i;
  }
  return oldest;
}

uint32_t ts__l1_load(struct ts__l1 *l1, uint64_t line, uint32_t sectors) {
  if (!l1->way_count || !sectors) return sectors;
  bool is_there;
  size_t at = find(l1, line, &is_there);
  uint32_t present = is_there ? ts__sectors_of(l1->packed[at]) : 0;
  l1->packed[at] = line << 4 | present | sectors;
  l1->used[at] = ++l1->clock;
  return sectors & ~present;
}

void ts__l1_store(struct ts__l1 *l1, uint64_t line, uint32_t sectors) {
  bool is_there = false;
  (void)sectors;
  if (!l1->way_count) return;
  size_t at = find(l1, line, &is_there);
  if (is_there) l1->used[at] = ++l1->clock;
}
