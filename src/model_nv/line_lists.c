/* The lines of an access, remembered by instruction: the next access of the instruction mostly has the
 * same shape a whole number of lines further on. */
#include "model_nv/access.h"

/* Where the access's first byte is, had it no clipping; false for a box that is clipped. */
static bool find_place(const struct ts__access *access, const struct ts_shift *shift,
                       uint64_t *first_byte) {
  const struct ts_footprint *footprint = &access->footprint;
  uint64_t at = footprint->base + (uint64_t)shift->bytes;
  if (footprint->kind == TS_FOOTPRINT_LANES)
    at = footprint->lanes[access->mask ? __builtin_ctz(access->mask) : 0] + (uint64_t)shift->bytes;
  *first_byte = at;
  if (footprint->kind != TS_FOOTPRINT_BOX) return true;
  for (uint32_t i = 0; i < footprint->rank && i < 5; i++) {
    int64_t coordinate = (int64_t)footprint->coordinate[i] + shift->coordinate[i];
    uint64_t limit = footprint->tensor_extent[i], step = footprint->stride_bytes[i];
    if (coordinate < 0) return false;
    if (limit && (uint64_t)coordinate + footprint->extent[i] > limit) return false;
    if (i == 0) step = footprint->extent[0] ? footprint->size_bytes / footprint->extent[0] : 0;
    at += (uint64_t)coordinate * step;
  }
  *first_byte = at;
  return true;
}

static bool same_boxes(const struct ts_footprint *a, const struct ts_footprint *b) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank && i < 5; i++)
    if (a->extent[i] != b->extent[i] || (i && a->stride_bytes[i] != b->stride_bytes[i]))
      return false;
  return true;
}

static bool same_lanes(const uint64_t *a, const uint64_t *b, uint32_t mask) {
  uint32_t first = mask ? (uint32_t)__builtin_ctz(mask) : 0;
  for (; mask; mask &= mask - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(mask);
    if (a[lane] - a[first] != b[lane] - b[first]) return false;
  }
  return true;
}

/* Whether two accesses that are not clipped ask for the same bytes but for where they start. */
static bool same_shape(const struct ts__access *a, const struct ts__access *b) {
  const struct ts_footprint *x = &a->footprint, *y = &b->footprint;
  if (a == b) return true;
  if (x->kind != y->kind || x->size_bytes != y->size_bytes) return false;
  if (x->kind == TS_FOOTPRINT_BOX) return same_boxes(x, y);
  if (a->mask != b->mask) return false;
  if (x->kind == TS_FOOTPRINT_AFFINE) return x->lane_stride == y->lane_stride;
  return same_lanes(x->lanes, y->lanes, a->mask);
}

/* False when there are more than fit. */
static bool fill_list(struct ts__line_list *list, const struct ts__access *access,
                      const struct ts_shift *shift) {
  struct ts__line_cursor cursor;
  uint64_t more;
  ts__line_cursor_start(&cursor, access, shift);
  list->count = ts__line_cursor_next(&cursor, list->packed, TS__LINE_LIST_LIMIT);
  list->sector_count = 0;
  for (uint32_t i = 0; i < list->count; i++)
    list->sector_count += (uint32_t)__builtin_popcount(ts__sectors_of(list->packed[i]));
  return ts__line_cursor_next(&cursor, &more, 1) == 0;
}

const struct ts__line_list *ts__line_lists_find(struct ts__line_lists *lists,
                                                const struct ts__access *access,
                                                const struct ts_shift *shift,
                                                uint64_t *offset_lines) {
  struct ts__line_list *list = &lists->lists[access->insn % TS__LINE_LISTS];
  uint64_t first_byte;
  bool is_whole = find_place(access, shift, &first_byte);
  uint64_t offset_bytes = first_byte - list->first_byte;
  *offset_lines = (uint64_t)((int64_t)offset_bytes / TS__LINE_BYTES);
  if (is_whole && list->access && offset_bytes % TS__LINE_BYTES == 0 &&
      same_shape(list->access, access))
    return list;
  *offset_lines = 0;
  list->access = NULL;
  if (!fill_list(list, access, shift)) return NULL;
  list->first_byte = first_byte;
  if (is_whole) list->access = access;
  return list;
}
