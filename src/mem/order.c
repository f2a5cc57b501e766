#include "mem/order.h"

#include <string.h>

void ts_order_init(struct ts_order *order, const struct ts_allocator *allocator) {
  memset(order, 0, sizeof *order);
  order->allocator = allocator;
  ts_arena_init(&order->unit, allocator);
}

void ts_order_free(struct ts_order *order) {
  if (!order->allocator) return;
  for (size_t i = 0; i < order->place_capacity; i++) {
    ts_known_free(order, &order->places[i].wide);
    ts_known_free(order, &order->places[i].block);
  }
  if (order->places)
    order->allocator->resize(order->allocator->user, order->places,
                             order->place_capacity * sizeof *order->places, 0);
  ts_arena_free(&order->unit);
  memset(order, 0, sizeof *order);
}

void ts_order_unit_start(struct ts_order *order) {
  for (size_t i = 0; i < order->place_capacity; i++)
    order->places[i].wide.frozen = order->places[i].block.frozen = NULL;
  ts_arena_free(&order->unit);
}

/* --- far sets */

uint32_t ts_far_stamp(const struct ts_far *far, uint32_t agent) {
  uint32_t first = 0, last = far ? far->count : 0;
  while (first < last) {
    uint32_t middle = first + (last - first) / 2;
    if (far->known[middle].agent == agent) return far->known[middle].stamp;
    if (far->known[middle].agent < agent)
      first = middle + 1;
    else
      last = middle;
  }
  return 0;
}

/* The union, the newer stamp of an agent in both; answers its size. out may be NULL: only counts.
 * *equals_a: the union is a. */
static size_t merge(const struct ts_known *a, size_t a_count, const struct ts_known *b,
                    size_t b_count, struct ts_known *out, bool *equals_a) {
  size_t i = 0, j = 0, used = 0;
  *equals_a = true;
  for (; i < a_count || j < b_count; used++) {
    struct ts_known next;
    if (j == b_count || (i < a_count && a[i].agent < b[j].agent)) {
      next = a[i++];
    } else if (i == a_count || b[j].agent < a[i].agent) {
      next = b[j++];
      *equals_a = false;
    } else {
      next = a[i++];
      if (b[j].stamp > next.stamp) {
        next.stamp = b[j].stamp;
        *equals_a = false;
      }
      j++;
    }
    if (out) out[used] = next;
  }
  return used;
}

static struct ts_far *new_far(struct ts_order *order, size_t count) {
  struct ts_far *far =
      ts_arena_alloc(&order->unit, sizeof(struct ts_far) + count * sizeof(struct ts_known),
                     _Alignof(struct ts_far));
  if (far)
    far->count = (uint32_t)count;
  else
    order->out_of_memory = true;
  return far;
}

const struct ts_far *ts_far_join(struct ts_order *order, const struct ts_far *a,
                                 const struct ts_far *b) {
  bool is_a, is_b;
  if (a == b || !b) return a;
  if (!a) return b;
  size_t count = merge(a->known, a->count, b->known, b->count, NULL, &is_a);
  if (is_a) return a;
  merge(b->known, b->count, a->known, a->count, NULL, &is_b);
  if (is_b) return b;
  struct ts_far *far = new_far(order, count);
  if (!far) return a;
  merge(a->known, a->count, b->known, b->count, far->known, &is_a);
  return far;
}

const struct ts_far *ts_far_with(struct ts_order *order, const struct ts_far *far,
                                 uint32_t first_agent, const uint32_t *stamps, uint32_t count) {
  struct ts_far *own = new_far(order, count);
  if (!own) return far;
  own->count = 0;
  for (uint32_t i = 0; i < count; i++)
    if (stamps[i]) own->known[own->count++] = (struct ts_known){first_agent + i, stamps[i]};
  return own->count ? ts_far_join(order, far, own) : far;
}

/* --- sets of sync objects */

void ts_known_add(struct ts_order *order, struct ts_known_set *set, const struct ts_far *far) {
  bool is_unchanged;
  if (!far) return;
  size_t count =
      merge(set->known.data, set->known.count, far->known, far->count, NULL, &is_unchanged);
  if (is_unchanged) return;
  struct ts_known_set fresh = {0};
  if (ts_vec_reserve(&fresh.known, order->allocator, count)) {
    order->out_of_memory = true;
    return;
  }
  fresh.known.count = merge(set->known.data, set->known.count, far->known, far->count,
                            fresh.known.data, &is_unchanged);
  ts_known_free(order, set);
  *set = fresh;
}

const struct ts_far *ts_known_freeze(struct ts_order *order, struct ts_known_set *set) {
  if (set->frozen || !set->known.count) return set->frozen;
  struct ts_far *far = new_far(order, set->known.count);
  if (far) memcpy(far->known, set->known.data, set->known.count * sizeof(struct ts_known));
  return set->frozen = far;
}

void ts_known_free(struct ts_order *order, struct ts_known_set *set) {
  ts_vec_free(&set->known, order->allocator);
  set->frozen = NULL;
}

/* --- places */

/* The slot of the key, or the free one where it belongs. splitmix64's mixing. */
static struct ts_sync_place *slot_of(struct ts_sync_place *places, size_t capacity, uint64_t key) {
  uint64_t hash = (key ^ key >> 30) * 0xbf58476d1ce4e5b9u;
  for (size_t i = (size_t)(hash ^ hash >> 31);; i++) {
    struct ts_sync_place *place = &places[i & (capacity - 1)];
    if (place->key == key || place->key == 0) return place;
  }
}

static bool grow(struct ts_order *order) {
  size_t capacity = order->place_capacity ? 2 * order->place_capacity : 64;
  struct ts_sync_place *places =
      order->allocator->resize(order->allocator->user, NULL, 0, capacity * sizeof *places);
  if (!places) return false;
  memset(places, 0, capacity * sizeof *places);
  for (size_t i = 0; i < order->place_capacity; i++)
    if (order->places[i].key) *slot_of(places, capacity, order->places[i].key) = order->places[i];
  if (order->places)
    order->allocator->resize(order->allocator->user, order->places,
                             order->place_capacity * sizeof *places, 0);
  order->places = places;
  order->place_capacity = capacity;
  return true;
}

struct ts_sync_place *ts_order_place(struct ts_order *order, uint64_t key, bool makes) {
  if (!makes && !order->place_count) return NULL;
  if (makes && 2 * (order->place_count + 1) > order->place_capacity && !grow(order)) {
    order->out_of_memory = true;
    return NULL;
  }
  struct ts_sync_place *place = slot_of(order->places, order->place_capacity, key);
  if (place->key) return place;
  if (!makes) return NULL;
  place->key = key;
  order->place_count++;
  return place;
}
