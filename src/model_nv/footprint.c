/* What an access asks of shared memory's banks and of the caches' lines. */
#include "model_nv/access.h"

enum {
  BANK_COUNT = 32,
  WORD_BYTES = 4,
  LANE_COUNT = 32,
  PIECE_BYTES = 16,       /* the widest access of a lane */
  BOX_BYTES_MAX = 1 << 20 /* more than any shared memory has: bounds what a damaged file can ask */
};

const struct ts_shift *ts__find_shift(const struct ts_shift *shifts, uint32_t count,
                                      uint32_t insn) {
  static const struct ts_shift none;
  uint32_t low = 0, high = shifts ? count : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (shifts[middle].insn < insn)
      low = middle + 1;
    else
      high = middle;
  }
  bool is_found = shifts && low < count && shifts[low].insn == insn;
  return is_found ? &shifts[low] : &none;
}

/* --- shared memory */

/* Words of a phase, chained by bank. Aligned pieces of 8 or 16 bytes count as words of that size over
 * fewer and wider banks: their words come to as many banks alike. */
struct phase {
  uint64_t word[LANE_COUNT * 5]; /* up to 16 bytes that start anywhere */
  uint8_t next[LANE_COUNT * 5];  /* 1 + index, 0 end */
  uint8_t head[BANK_COUNT];
  uint32_t depth[BANK_COUNT];
  uint32_t count, deepest;
};

static void add_word(struct phase *phase, uint64_t word, uint32_t bank_count) {
  uint32_t bank = (uint32_t)word & (bank_count - 1);
  for (uint32_t i = phase->head[bank]; i; i = phase->next[i - 1])
    if (phase->word[i - 1] == word) return;
  phase->word[phase->count] = word;
  phase->next[phase->count] = phase->head[bank];
  phase->head[bank] = (uint8_t)++phase->count;
  if (++phase->depth[bank] > phase->deepest) phase->deepest = phase->depth[bank];
}

static uint32_t word_bytes(const struct ts_footprint *footprint, uint32_t mask, uint32_t first_byte,
                           uint32_t size_bytes) {
  uint64_t bits = 0;
  if (size_bytes != 8 && size_bytes != 16) return WORD_BYTES;
  for (; mask; mask &= mask - 1)
    bits |= ts__lane_address(footprint, (uint32_t)__builtin_ctz(mask)) + first_byte;
  return bits % size_bytes ? WORD_BYTES : size_bytes;
}

static uint32_t phase_wavefronts(const struct ts_footprint *footprint, uint32_t mask,
                                 uint32_t first_byte, uint32_t size_bytes) {
  struct phase phase;
  uint32_t unit_bytes = word_bytes(footprint, mask, first_byte, size_bytes);
  uint32_t bank_count = BANK_COUNT * WORD_BYTES / unit_bytes;
  phase.count = phase.deepest = 0;
  for (uint32_t bank = 0; bank < bank_count; bank++)
    phase.head[bank] = 0, phase.depth[bank] = 0;
  for (; mask; mask &= mask - 1) {
    uint64_t address = ts__lane_address(footprint, (uint32_t)__builtin_ctz(mask)) + first_byte;
    uint64_t last = (address + size_bytes - 1) / unit_bytes;
    for (uint64_t word = address / unit_bytes; word <= last; word++)
      add_word(&phase, word, bank_count);
  }
  return phase.deepest;
}

/* Active lanes l and l ^ distance have equal addresses. */
static bool pairs_are_equal(const struct ts_footprint *footprint, uint32_t mask,
                            uint32_t distance) {
  for (uint32_t lane = 0; lane < LANE_COUNT; lane++) {
    uint32_t other = lane ^ distance;
    if (other < lane || !(mask >> lane & mask >> other & 1)) continue;
    if (ts__lane_address(footprint, lane) != ts__lane_address(footprint, other)) return false;
  }
  return true;
}

static uint32_t phase_count(const struct ts_footprint *footprint, uint32_t mask,
                            uint32_t size_bytes, bool is_write) {
  uint32_t count = size_bytes <= 4 ? 1 : size_bytes <= 8 ? 2 : 4;
  if (count == 1 || is_write) return count;
  bool merges = pairs_are_equal(footprint, mask, 1) || pairs_are_equal(footprint, mask, 2);
  return merges ? count / 2 : count;
}

static uint32_t greatest_common_divisor(uint64_t a, uint32_t b) {
  return (uint32_t)(a & -a) < b && a ? (uint32_t)(a & -a) : b; /* b is a power of two */
}

/* All lanes active, aligned, a whole number of elements apart: 0 when that does not hold. With a
 * phase of n lanes over n groups of banks, lanes meet in a bank as often as the stride and n share
 * factors. */
static uint32_t affine_wavefronts(const struct ts_footprint *footprint, uint32_t mask,
                                  bool is_write) {
  uint32_t size_bytes = footprint->size_bytes;
  if (footprint->kind != TS_FOOTPRINT_AFFINE || mask != UINT32_MAX) return 0;
  if (size_bytes != 4 && size_bytes != 8 && size_bytes != 16) return 0;
  if (footprint->base % size_bytes || footprint->lane_stride % (int64_t)size_bytes) return 0;
  uint32_t phases = size_bytes / WORD_BYTES;
  if (footprint->lane_stride == 0) return phases == 1 || is_write ? phases : phases / 2;
  uint64_t step = (uint64_t)footprint->lane_stride / size_bytes;
  if (footprint->lane_stride < 0) step = -(uint64_t)footprint->lane_stride / size_bytes;
  return phases * greatest_common_divisor(step, LANE_COUNT / phases);
}

static uint32_t piece_bytes(uint32_t left_bytes) {
  return left_bytes < PIECE_BYTES ? left_bytes : PIECE_BYTES;
}

uint32_t ts__shared_wavefronts(const struct ts_footprint *footprint, uint32_t mask, bool is_write) {
  if (!mask || footprint->kind == TS_FOOTPRINT_BOX) return 0;
  uint32_t sum = affine_wavefronts(footprint, mask, is_write);
  if (sum) return sum;
  for (uint32_t first = 0; first < footprint->size_bytes; first += PIECE_BYTES) {
    uint32_t size_bytes = piece_bytes(footprint->size_bytes - first);
    uint32_t phases = phase_count(footprint, mask, size_bytes, is_write);
    uint32_t lanes = LANE_COUNT / phases;
    uint32_t lanes_mask = UINT32_MAX >> (LANE_COUNT - lanes), piece = 0;
    for (uint32_t phase = 0; phase < phases; phase++)
      piece += phase_wavefronts(footprint, mask & lanes_mask << phase * lanes, first, size_bytes);
    sum += piece > phases ? piece : phases;
  }
  return sum;
}

uint32_t ts__shared_wavefronts_ideal(const struct ts_footprint *footprint, uint32_t mask,
                                     bool is_write) {
  if (!mask || footprint->kind == TS_FOOTPRINT_BOX) return 0;
  uint32_t sum = 0;
  for (uint32_t first = 0; first < footprint->size_bytes; first += PIECE_BYTES)
    sum += phase_count(footprint, mask, piece_bytes(footprint->size_bytes - first), is_write);
  return sum;
}

uint32_t ts__matrix_wavefronts(const struct ts_footprint *footprint, uint32_t matrices) {
  uint32_t sum = 0;
  for (uint32_t matrix = 0; matrix < matrices && matrix < 4; matrix++)
    sum += phase_wavefronts(footprint, 0xffu << 8 * matrix, 0, PIECE_BYTES);
  return sum;
}

/* --- lines */

/* Mask of the sectors from first to last, both in the line. */
static uint32_t sector_span(uint64_t first_byte, uint64_t last_byte) {
  uint32_t first = (uint32_t)(first_byte % TS__LINE_BYTES / TS__SECTOR_BYTES);
  uint32_t last = (uint32_t)(last_byte % TS__LINE_BYTES / TS__SECTOR_BYTES);
  return (2u << last) - (1u << first);
}

/* Keeps the list sorted; mostly the line is the last or comes after it. */
static void add_line(struct ts__lines *lines, uint64_t line, uint32_t sectors) {
  uint32_t at = lines->count;
  while (at > 0 && lines->line[at - 1] >> 4 > line)
    at--;
  if (at > 0 && lines->line[at - 1] >> 4 == line) {
    lines->line[at - 1] |= sectors;
    return;
  }
  if (lines->count == TS__LINES_LIMIT) return;
  for (uint32_t i = lines->count++; i > at; i--)
    lines->line[i] = lines->line[i - 1];
  lines->line[at] = line << 4 | sectors;
}

static void add_range(struct ts__lines *lines, uint64_t first_byte, uint64_t size_bytes) {
  uint64_t last_byte = first_byte + size_bytes - 1;
  for (uint64_t line = first_byte / TS__LINE_BYTES; line <= last_byte / TS__LINE_BYTES; line++) {
    uint64_t start = line * TS__LINE_BYTES, end = start + TS__LINE_BYTES - 1;
    add_line(
        lines, line,
        sector_span(first_byte > start ? first_byte : start, last_byte < end ? last_byte : end));
    if (lines->count == TS__LINES_LIMIT) return;
  }
}

void ts__coalesce(const struct ts_footprint *footprint, uint32_t mask, int64_t shift_bytes,
                  struct ts__lines *lines) {
  lines->count = 0;
  if (!mask || !footprint->size_bytes || footprint->kind == TS_FOOTPRINT_BOX) return;
  bool is_affine = footprint->kind == TS_FOOTPRINT_AFFINE;
  if (is_affine && mask == UINT32_MAX && footprint->lane_stride == footprint->size_bytes) {
    add_range(lines, footprint->base + (uint64_t)shift_bytes,
              (uint64_t)footprint->size_bytes * LANE_COUNT);
    return;
  }
  for (; mask; mask &= mask - 1)
    add_range(lines,
              ts__lane_address(footprint, (uint32_t)__builtin_ctz(mask)) + (uint64_t)shift_bytes,
              footprint->size_bytes);
}

/* --- cursor */

/* The elements of a dimension that are inside the tensor; first is relative to the box. */
static uint32_t clip(const struct ts_footprint *footprint, uint32_t dimension, int64_t coordinate,
                     uint32_t *first) {
  int64_t start = coordinate > 0 ? coordinate : 0;
  int64_t end = coordinate + footprint->extent[dimension];
  uint64_t limit = footprint->tensor_extent[dimension];
  if (limit && limit < INT64_MAX && end > (int64_t)limit) end = (int64_t)limit;
  *first = (uint32_t)(start - coordinate);
  return end > start ? (uint32_t)(end - start) : 0;
}

static void start_row(struct ts__line_cursor *cursor) {
  cursor->end_byte = cursor->first_byte + cursor->row_bytes;
  cursor->line = cursor->first_byte / TS__LINE_BYTES;
  cursor->last = (cursor->end_byte - 1) / TS__LINE_BYTES;
  if (cursor->last < cursor->line) cursor->last = cursor->line; /* past the end of the addresses */
}

static bool next_row(struct ts__line_cursor *cursor) {
  for (uint32_t i = 0; i < 4; i++) {
    cursor->first_byte += cursor->stride_bytes[i];
    if (++cursor->index[i] < cursor->extent[i]) return true;
    cursor->first_byte -= cursor->extent[i] * cursor->stride_bytes[i];
    cursor->index[i] = 0;
  }
  return false;
}

static void start_rows(struct ts__line_cursor *cursor, uint64_t base, uint64_t row_bytes) {
  cursor->has_rows = true;
  cursor->first_byte = base;
  cursor->row_bytes = row_bytes;
  for (uint32_t i = 0; i < 4; i++) {
    cursor->extent[i] = 1;
    cursor->index[i] = 0;
    cursor->stride_bytes[i] = 0;
  }
}

static void start_box(struct ts__line_cursor *cursor, const struct ts_footprint *footprint,
                      const struct ts_shift *shift) {
  uint32_t elem_bytes = footprint->extent[0] ? footprint->size_bytes / footprint->extent[0] : 0;
  uint64_t base = footprint->base, rows_left = BOX_BYTES_MAX;
  start_rows(cursor, base, 0);
  for (uint32_t i = 0; i < footprint->rank && i < 5; i++) {
    int64_t coordinate = (int64_t)footprint->coordinate[i] + (shift ? shift->coordinate[i] : 0);
    uint32_t first, count = clip(footprint, i, coordinate, &first);
    uint64_t step = i ? footprint->stride_bytes[i] : elem_bytes;
    base += (uint64_t)(coordinate + first) * step;
    if (i == 0) {
      cursor->row_bytes = (uint64_t)count * elem_bytes;
      if (cursor->row_bytes > BOX_BYTES_MAX) cursor->row_bytes = BOX_BYTES_MAX;
      if (cursor->row_bytes) rows_left /= cursor->row_bytes;
    } else {
      cursor->stride_bytes[i - 1] = step;
      cursor->extent[i - 1] = count < rows_left ? count : (uint32_t)rows_left;
      rows_left /= count ? count : 1;
      rows_left += !rows_left;
    }
    if (!count) cursor->is_done = true;
  }
  cursor->first_byte = base + (shift ? (uint64_t)shift->bytes : 0);
  if (!cursor->row_bytes) cursor->is_done = true;
}

void ts__line_cursor_start(struct ts__line_cursor *cursor, const struct ts__access *access,
                           const struct ts_shift *shift) {
  const struct ts_footprint *footprint = &access->footprint;
  int64_t shift_bytes = shift ? shift->bytes : 0;
  cursor->is_done = cursor->has_rows = false;
  cursor->at = 0;
  cursor->held = 0;
  if (footprint->kind == TS_FOOTPRINT_BOX) {
    start_box(cursor, footprint, shift);
  } else if (footprint->kind == TS_FOOTPRINT_AFFINE && access->mask &&
             (!footprint->lane_stride || !(access->mask & (access->mask - 1)))) {
    start_rows(cursor,
               ts__lane_address(footprint, (uint32_t)__builtin_ctz(access->mask)) +
                   (uint64_t)shift_bytes,
               footprint->size_bytes);
    cursor->is_done = !footprint->size_bytes;
  } else {
    ts__coalesce(footprint, access->mask, shift_bytes, &cursor->lines);
  }
  if (cursor->has_rows && !cursor->is_done) start_row(cursor);
}

static uint32_t next_of_list(struct ts__line_cursor *cursor, uint64_t *packed, uint32_t limit) {
  uint32_t count = 0;
  while (count < limit && cursor->at < cursor->lines.count)
    packed[count++] = cursor->lines.line[cursor->at++];
  return count;
}

/* The next line of the rows, or 0. */
static inline uint64_t next_of_rows(struct ts__line_cursor *cursor) {
  if (cursor->is_done) return 0;
  uint64_t line = cursor->line, start = line * TS__LINE_BYTES;
  uint64_t first = cursor->first_byte > start ? cursor->first_byte : start;
  uint64_t last = start + TS__LINE_BYTES - 1;
  if (line != cursor->last) {
    cursor->line++;
    return line << 4 | sector_span(first, last);
  }
  last = cursor->end_byte - 1;
  if (next_row(cursor))
    start_row(cursor);
  else
    cursor->is_done = true;
  return line << 4 | sector_span(first, last);
}

uint32_t ts__line_cursor_next(struct ts__line_cursor *cursor, uint64_t *packed, uint32_t limit) {
  if (!cursor->has_rows) return next_of_list(cursor, packed, limit);
  uint32_t count = 0;
  uint64_t held = cursor->held ? cursor->held : next_of_rows(cursor);
  while (held && count < limit) {
    uint64_t next = next_of_rows(cursor);
    if (next && next >> 4 == held >> 4) {
      held |= next;
      continue;
    }
    packed[count++] = held;
    held = next;
  }
  cursor->held = held;
  return count;
}
