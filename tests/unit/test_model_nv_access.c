/* Bank wavefronts against measured ones, lines of accesses against a count byte by byte, L1. */
#include "model_nv/access.h"
#include "support/suite.h"

#include <string.h>

static struct ts_footprint affine(uint32_t size_bytes, uint64_t base, int64_t lane_stride) {
  return (struct ts_footprint){.kind = TS_FOOTPRINT_AFFINE,
                               .size_bytes = size_bytes,
                               .base = base,
                               .lane_stride = lane_stride};
}

static struct ts_footprint lanes_of(uint32_t size_bytes, const uint64_t *lanes) {
  return (struct ts_footprint){
      .kind = TS_FOOTPRINT_LANES, .size_bytes = size_bytes, .lanes = lanes};
}

/* --- shared memory */

/* index(lane) * width is the address. */
enum pattern {
  EQUAL,
  CONSECUTIVE,
  STRIDE_2,
  STRIDE_3,
  PAIRS,
  WITHOUT_BIT_1,
  WITHOUT_BIT_2,
  WITHOUT_BIT_3,
  WITHOUT_BIT_4,
  FOURS,
  EIGHTS,
  HALVES,
  MODULO_8,
  MODULO_4,
  MODULO_2,
  EIGHTS_APART_128,
  FOURS_APART_128,
  PAIRS_APART_32,
  PAIRS_MODULO_8,
  SCRAMBLED_8,
  SCRAMBLED_16,
  REVERSED,
  ODD_EVEN,
  APART_128
};

static uint64_t index_of(enum pattern pattern, uint32_t l, uint32_t width) {
  switch (pattern) {
  case EQUAL: return 0;
  case CONSECUTIVE: return l;
  case STRIDE_2: return 2 * l;
  case STRIDE_3: return 3 * l;
  case PAIRS: return l / 2;
  case WITHOUT_BIT_1: return (l & 1) | (l >> 2 << 1);
  case WITHOUT_BIT_2: return (l & 3) | (l >> 3 << 2);
  case WITHOUT_BIT_3: return (l & 7) | (l >> 4 << 3);
  case WITHOUT_BIT_4: return l & 15;
  case FOURS: return l / 4;
  case EIGHTS: return l / 8;
  case HALVES: return l / 16;
  case MODULO_8: return l % 8;
  case MODULO_4: return l % 4;
  case MODULO_2: return l % 2;
  case EIGHTS_APART_128: return l / 8 * (128 / width);
  case FOURS_APART_128: return l / 4 * (128 / width);
  case PAIRS_APART_32: return l / 2 * (32 / width);
  case PAIRS_MODULO_8: return l / 2 % 8;
  case SCRAMBLED_8: return (l * 5 + l / 8 * 3) % 8;
  case SCRAMBLED_16: return l * l * 7 % 23 % 16;
  case REVERSED: return 31 - l;
  case ODD_EVEN: return l % 2 * 16 + l / 2;
  case APART_128: return l * (128 / width);
  }
  return 0;
}

/* Cycles of a warp instruction with 16 warps on one SM, rounded. MEASURED on an H200 with
 * bench/device/banks.cu; load and store. */
static const struct {
  uint8_t width;
  uint8_t pattern; /* enum pattern */
  uint32_t mask;
  uint32_t load, store;
} measured[] = {
    /* clang-format off */
    {1, EQUAL, 0xffffffffu, 1, 1},
    {1, CONSECUTIVE, 0xffffffffu, 1, 1},
    {1, STRIDE_2, 0xffffffffu, 1, 1},
    {1, STRIDE_3, 0xffffffffu, 1, 1},
    {1, PAIRS, 0xffffffffu, 1, 1},
    {1, WITHOUT_BIT_1, 0xffffffffu, 1, 1},
    {1, WITHOUT_BIT_2, 0xffffffffu, 1, 1},
    {1, WITHOUT_BIT_3, 0xffffffffu, 1, 1},
    {1, WITHOUT_BIT_4, 0xffffffffu, 1, 1},
    {1, FOURS, 0xffffffffu, 1, 1},
    {1, EIGHTS, 0xffffffffu, 1, 1},
    {1, HALVES, 0xffffffffu, 1, 1},
    {1, MODULO_8, 0xffffffffu, 1, 1},
    {1, MODULO_4, 0xffffffffu, 1, 1},
    {1, MODULO_2, 0xffffffffu, 1, 1},
    {1, EIGHTS_APART_128, 0xffffffffu, 4, 4},
    {1, FOURS_APART_128, 0xffffffffu, 8, 8},
    {1, PAIRS_APART_32, 0xffffffffu, 4, 4},
    {1, PAIRS_MODULO_8, 0xffffffffu, 1, 1},
    {1, SCRAMBLED_8, 0xffffffffu, 1, 1},
    {1, SCRAMBLED_16, 0xffffffffu, 1, 1},
    {1, REVERSED, 0xffffffffu, 1, 1},
    {1, ODD_EVEN, 0xffffffffu, 1, 1},
    {1, CONSECUTIVE, 0x0000ffffu, 1, 1},
    {1, CONSECUTIVE, 0x000000ffu, 1, 1},
    {1, CONSECUTIVE, 0x0000000fu, 1, 1},
    {1, CONSECUTIVE, 0x55555555u, 1, 1},
    {1, CONSECUTIVE, 0x33333333u, 1, 1},
    {1, CONSECUTIVE, 0x11111111u, 1, 1},
    {1, CONSECUTIVE, 0x01010101u, 1, 1},
    {1, CONSECUTIVE, 0x0f0f0f0fu, 1, 1},
    {1, CONSECUTIVE, 0x00ff00ffu, 1, 1},
    {1, CONSECUTIVE, 0x80000001u, 1, 1},
    {1, CONSECUTIVE, 0x7fffffffu, 1, 1},
    {1, PAIRS, 0x7fffffffu, 1, 1},
    {1, APART_128, 0x0000000fu, 4, 4},
    {1, APART_128, 0x01010101u, 4, 4},
    {2, EQUAL, 0xffffffffu, 1, 1},
    {2, CONSECUTIVE, 0xffffffffu, 1, 1},
    {2, STRIDE_2, 0xffffffffu, 1, 1},
    {2, STRIDE_3, 0xffffffffu, 2, 2},
    {2, PAIRS, 0xffffffffu, 1, 1},
    {2, WITHOUT_BIT_1, 0xffffffffu, 1, 1},
    {2, WITHOUT_BIT_2, 0xffffffffu, 1, 1},
    {2, WITHOUT_BIT_3, 0xffffffffu, 1, 1},
    {2, WITHOUT_BIT_4, 0xffffffffu, 1, 1},
    {2, FOURS, 0xffffffffu, 1, 1},
    {2, EIGHTS, 0xffffffffu, 1, 1},
    {2, HALVES, 0xffffffffu, 1, 1},
    {2, MODULO_8, 0xffffffffu, 1, 1},
    {2, MODULO_4, 0xffffffffu, 1, 1},
    {2, MODULO_2, 0xffffffffu, 1, 1},
    {2, EIGHTS_APART_128, 0xffffffffu, 4, 4},
    {2, FOURS_APART_128, 0xffffffffu, 8, 8},
    {2, PAIRS_APART_32, 0xffffffffu, 4, 4},
    {2, PAIRS_MODULO_8, 0xffffffffu, 1, 1},
    {2, SCRAMBLED_8, 0xffffffffu, 1, 1},
    {2, SCRAMBLED_16, 0xffffffffu, 1, 1},
    {2, REVERSED, 0xffffffffu, 1, 1},
    {2, ODD_EVEN, 0xffffffffu, 1, 1},
    {2, CONSECUTIVE, 0x0000ffffu, 1, 1},
    {2, CONSECUTIVE, 0x000000ffu, 1, 1},
    {2, CONSECUTIVE, 0x0000000fu, 1, 1},
    {2, CONSECUTIVE, 0x55555555u, 1, 1},
    {2, CONSECUTIVE, 0x33333333u, 1, 1},
    {2, CONSECUTIVE, 0x11111111u, 1, 1},
    {2, CONSECUTIVE, 0x01010101u, 1, 1},
    {2, CONSECUTIVE, 0x0f0f0f0fu, 1, 1},
    {2, CONSECUTIVE, 0x00ff00ffu, 1, 1},
    {2, CONSECUTIVE, 0x80000001u, 1, 1},
    {2, CONSECUTIVE, 0x7fffffffu, 1, 1},
    {2, PAIRS, 0x7fffffffu, 1, 1},
    {2, APART_128, 0x0000000fu, 4, 4},
    {2, APART_128, 0x01010101u, 4, 4},
    {4, EQUAL, 0xffffffffu, 1, 1},
    {4, CONSECUTIVE, 0xffffffffu, 1, 1},
    {4, STRIDE_2, 0xffffffffu, 2, 2},
    {4, STRIDE_3, 0xffffffffu, 1, 1},
    {4, PAIRS, 0xffffffffu, 1, 1},
    {4, WITHOUT_BIT_1, 0xffffffffu, 1, 1},
    {4, WITHOUT_BIT_2, 0xffffffffu, 1, 1},
    {4, WITHOUT_BIT_3, 0xffffffffu, 1, 1},
    {4, WITHOUT_BIT_4, 0xffffffffu, 1, 1},
    {4, FOURS, 0xffffffffu, 1, 1},
    {4, EIGHTS, 0xffffffffu, 1, 1},
    {4, HALVES, 0xffffffffu, 1, 1},
    {4, MODULO_8, 0xffffffffu, 1, 1},
    {4, MODULO_4, 0xffffffffu, 1, 1},
    {4, MODULO_2, 0xffffffffu, 1, 1},
    {4, EIGHTS_APART_128, 0xffffffffu, 4, 4},
    {4, FOURS_APART_128, 0xffffffffu, 8, 8},
    {4, PAIRS_APART_32, 0xffffffffu, 4, 4},
    {4, PAIRS_MODULO_8, 0xffffffffu, 1, 1},
    {4, SCRAMBLED_8, 0xffffffffu, 1, 1},
    {4, SCRAMBLED_16, 0xffffffffu, 1, 1},
    {4, REVERSED, 0xffffffffu, 1, 1},
    {4, ODD_EVEN, 0xffffffffu, 1, 1},
    {4, CONSECUTIVE, 0x0000ffffu, 1, 1},
    {4, CONSECUTIVE, 0x000000ffu, 1, 1},
    {4, CONSECUTIVE, 0x0000000fu, 1, 1},
    {4, CONSECUTIVE, 0x55555555u, 1, 1},
    {4, CONSECUTIVE, 0x33333333u, 1, 1},
    {4, CONSECUTIVE, 0x11111111u, 1, 1},
    {4, CONSECUTIVE, 0x01010101u, 1, 1},
    {4, CONSECUTIVE, 0x0f0f0f0fu, 1, 1},
    {4, CONSECUTIVE, 0x00ff00ffu, 1, 1},
    {4, CONSECUTIVE, 0x80000001u, 1, 1},
    {4, CONSECUTIVE, 0x7fffffffu, 1, 1},
    {4, PAIRS, 0x7fffffffu, 1, 1},
    {4, APART_128, 0x0000000fu, 4, 4},
    {4, APART_128, 0x01010101u, 4, 4},
    {8, EQUAL, 0xffffffffu, 1, 2},
    {8, CONSECUTIVE, 0xffffffffu, 2, 2},
    {8, STRIDE_2, 0xffffffffu, 4, 4},
    {8, STRIDE_3, 0xffffffffu, 2, 2},
    {8, PAIRS, 0xffffffffu, 1, 2},
    {8, WITHOUT_BIT_1, 0xffffffffu, 1, 2},
    {8, WITHOUT_BIT_2, 0xffffffffu, 2, 2},
    {8, WITHOUT_BIT_3, 0xffffffffu, 2, 2},
    {8, WITHOUT_BIT_4, 0xffffffffu, 2, 2},
    {8, FOURS, 0xffffffffu, 1, 2},
    {8, EIGHTS, 0xffffffffu, 1, 2},
    {8, HALVES, 0xffffffffu, 1, 2},
    {8, MODULO_8, 0xffffffffu, 2, 2},
    {8, MODULO_4, 0xffffffffu, 2, 2},
    {8, MODULO_2, 0xffffffffu, 1, 2},
    {8, EIGHTS_APART_128, 0xffffffffu, 4, 4},
    {8, FOURS_APART_128, 0xffffffffu, 8, 8},
    {8, PAIRS_APART_32, 0xffffffffu, 4, 4},
    {8, PAIRS_MODULO_8, 0xffffffffu, 1, 2},
    {8, SCRAMBLED_8, 0xffffffffu, 2, 2},
    {8, SCRAMBLED_16, 0xffffffffu, 2, 2},
    {8, REVERSED, 0xffffffffu, 2, 2},
    {8, ODD_EVEN, 0xffffffffu, 4, 4},
    {8, CONSECUTIVE, 0x0000ffffu, 2, 2},
    {8, CONSECUTIVE, 0x000000ffu, 2, 2},
    {8, CONSECUTIVE, 0x0000000fu, 2, 2},
    {8, CONSECUTIVE, 0x55555555u, 2, 2},
    {8, CONSECUTIVE, 0x33333333u, 2, 2},
    {8, CONSECUTIVE, 0x11111111u, 2, 2},
    {8, CONSECUTIVE, 0x01010101u, 2, 2},
    {8, CONSECUTIVE, 0x0f0f0f0fu, 2, 2},
    {8, CONSECUTIVE, 0x00ff00ffu, 2, 2},
    {8, CONSECUTIVE, 0x80000001u, 1, 2},
    {8, CONSECUTIVE, 0x7fffffffu, 2, 2},
    {8, PAIRS, 0x7fffffffu, 1, 2},
    {8, APART_128, 0x0000000fu, 4, 4},
    {8, APART_128, 0x01010101u, 4, 4},
    {16, EQUAL, 0xffffffffu, 2, 4},
    {16, CONSECUTIVE, 0xffffffffu, 4, 4},
    {16, STRIDE_2, 0xffffffffu, 8, 8},
    {16, STRIDE_3, 0xffffffffu, 4, 4},
    {16, PAIRS, 0xffffffffu, 2, 4},
    {16, WITHOUT_BIT_1, 0xffffffffu, 2, 4},
    {16, WITHOUT_BIT_2, 0xffffffffu, 4, 4},
    {16, WITHOUT_BIT_3, 0xffffffffu, 4, 4},
    {16, WITHOUT_BIT_4, 0xffffffffu, 4, 4},
    {16, FOURS, 0xffffffffu, 2, 4},
    {16, EIGHTS, 0xffffffffu, 2, 4},
    {16, HALVES, 0xffffffffu, 2, 4},
    {16, MODULO_8, 0xffffffffu, 4, 4},
    {16, MODULO_4, 0xffffffffu, 4, 4},
    {16, MODULO_2, 0xffffffffu, 2, 4},
    {16, EIGHTS_APART_128, 0xffffffffu, 4, 4},
    {16, FOURS_APART_128, 0xffffffffu, 8, 8},
    {16, PAIRS_APART_32, 0xffffffffu, 4, 4},
    {16, PAIRS_MODULO_8, 0xffffffffu, 2, 4},
    {16, SCRAMBLED_8, 0xffffffffu, 4, 4},
    {16, SCRAMBLED_16, 0xffffffffu, 8, 8},
    {16, REVERSED, 0xffffffffu, 4, 4},
    {16, ODD_EVEN, 0xffffffffu, 8, 8},
    {16, CONSECUTIVE, 0x0000ffffu, 4, 4},
    {16, CONSECUTIVE, 0x000000ffu, 4, 4},
    {16, CONSECUTIVE, 0x0000000fu, 4, 4},
    {16, CONSECUTIVE, 0x55555555u, 4, 4},
    {16, CONSECUTIVE, 0x33333333u, 4, 4},
    {16, CONSECUTIVE, 0x11111111u, 4, 4},
    {16, CONSECUTIVE, 0x01010101u, 4, 4},
    {16, CONSECUTIVE, 0x0f0f0f0fu, 4, 4},
    {16, CONSECUTIVE, 0x00ff00ffu, 4, 4},
    {16, CONSECUTIVE, 0x80000001u, 2, 4},
    {16, CONSECUTIVE, 0x7fffffffu, 4, 4},
    {16, PAIRS, 0x7fffffffu, 2, 4},
    {16, APART_128, 0x0000000fu, 4, 4},
    {16, APART_128, 0x01010101u, 4, 4},
    /* clang-format on */
};

START_TEST(test_measured_patterns) {
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++) {
    uint64_t lanes[32];
    for (uint32_t l = 0; l < 32; l++)
      lanes[l] =
          index_of((enum pattern)measured[i].pattern, l, measured[i].width) * measured[i].width;
    struct ts_footprint footprint = lanes_of(measured[i].width, lanes);
    uint32_t load = ts__shared_wavefronts(&footprint, measured[i].mask, false);
    uint32_t store = ts__shared_wavefronts(&footprint, measured[i].mask, true);
    ck_assert_msg(load == measured[i].load && store == measured[i].store,
                  "width %d pattern %d mask %08x: load %u, measured %u; store %u, measured %u",
                  measured[i].width, measured[i].pattern, measured[i].mask, load, measured[i].load,
                  store, measured[i].store);
  }
}
END_TEST

/* The closed form of affine accesses is what the lanes say, whatever the stride and base. */
START_TEST(test_affine_equals_lanes) {
  static const uint32_t sizes[] = {1, 2, 4, 8, 16};
  for (size_t s = 0; s < 5; s++)
    for (int64_t stride = -160; stride <= 320; stride++)
      for (uint64_t base = 65536; base < 65536 + 32; base += 4) {
        uint64_t lanes[32];
        for (uint32_t l = 0; l < 32; l++)
          lanes[l] = base + (uint64_t)(stride * l);
        struct ts_footprint a = affine(sizes[s], base, stride), b = lanes_of(sizes[s], lanes);
        for (int store = 0; store < 2; store++)
          ck_assert_uint_eq(ts__shared_wavefronts(&a, UINT32_MAX, store),
                            ts__shared_wavefronts(&b, UINT32_MAX, store));
      }
}
END_TEST

START_TEST(test_strides) {
  /* Word strides and wavefronts. MEASURED rows lds32, lds64, lds128, sts* of the H200
   * microbenchmarks: their differences are these. */
  static const uint32_t rows[][3] = {
      {4, 1, 1},  {4, 2, 2},    {4, 4, 4},   {4, 8, 8},    {4, 16, 16}, {4, 32, 32}, {4, 33, 1},
      {8, 2, 2},  {8, 4, 4},    {8, 8, 8},   {8, 16, 16},  {8, 32, 32}, {8, 34, 2},  {16, 4, 4},
      {16, 8, 8}, {16, 16, 16}, {16, 20, 4}, {16, 32, 32}, {16, 36, 4}, {16, 64, 32}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ts_footprint footprint = affine(rows[i][0], 0, (int64_t)rows[i][1] * 4);
    ck_assert_uint_eq(ts__shared_wavefronts(&footprint, UINT32_MAX, false), rows[i][2]);
    ck_assert_uint_eq(ts__shared_wavefronts(&footprint, UINT32_MAX, true), rows[i][2]);
    ck_assert_uint_eq(ts__shared_wavefronts_ideal(&footprint, UINT32_MAX, false), rows[i][0] / 4);
  }
  struct ts_footprint across = affine(16, 4, 16); /* no lane's words are those of 16 bytes */
  ck_assert_uint_eq(ts__shared_wavefronts(&across, UINT32_MAX, true), 4);
  struct ts_footprint none = affine(4, 0, 4);
  ck_assert_uint_eq(ts__shared_wavefronts(&none, 0, false), 0);
  ck_assert_uint_eq(ts__shared_wavefronts_ideal(&none, 0, false), 0);
}
END_TEST

START_TEST(test_matrix_rows) {
  /* Row pitch, then wavefronts of x1, x2, x4. MEASURED rows stmatrix_x*_row*B on an H200 (cycles,
   * rounded); ldmatrix rows differ by the same amounts. */
  static const uint32_t rows[][4] = {{16, 1, 2, 4}, {32, 2, 4, 8},    {64, 4, 8, 16},
                                     {80, 1, 2, 4}, {128, 8, 16, 32}, {144, 1, 2, 4}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct ts_footprint footprint = affine(16, 0, rows[i][0]);
    for (uint32_t k = 0; k < 3; k++)
      ck_assert_uint_eq(ts__matrix_wavefronts(&footprint, 1u << k), rows[i][k + 1]);
  }
  uint64_t swizzled[32];
  for (uint32_t l = 0; l < 32; l++)
    swizzled[l] = l * 128 + (l % 8 ^ 3) * 16;
  struct ts_footprint footprint = lanes_of(16, swizzled);
  ck_assert_uint_eq(ts__matrix_wavefronts(&footprint, 4), 4);
}
END_TEST

/* --- lines */

/* Sectors of [address, address + count) into a list of packed lines, slowly. */
static void add_bytes(struct ts__lines *lines, uint64_t address, uint64_t count) {
  for (uint64_t byte = address; byte < address + count; byte++) {
    uint64_t line = byte / 128;
    uint32_t at = 0;
    while (at < lines->count && lines->line[at] >> 4 < line)
      at++;
    if (at == lines->count || lines->line[at] >> 4 != line) {
      memmove(lines->line + at + 1, lines->line + at, (lines->count - at) * sizeof *lines->line);
      lines->line[at] = line << 4;
      lines->count++;
    }
    lines->line[at] |= UINT64_C(1) << byte % 128 / 32;
  }
}

static void expect_lines(const struct ts__lines *got, const struct ts__lines *wanted) {
  ck_assert_uint_eq(got->count, wanted->count);
  for (uint32_t i = 0; i < got->count; i++)
    ck_assert_uint_eq(got->line[i], wanted->line[i]);
}

START_TEST(test_coalesce) {
  static const uint32_t sizes[] = {1, 2, 4, 8, 16};
  static const uint32_t masks[] = {UINT32_MAX, 1, 0x80000000u, 0x55555555u, 0xffff0000u, 0};
  static const int64_t strides[] = {0, 1, 2, 4, 8, 16, 20, 32, 128, 260, 8192, -4, -16, -100};
  for (size_t s = 0; s < 5; s++)
    for (size_t m = 0; m < 6; m++)
      for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
        uint64_t lanes[32];
        struct ts__lines wanted = {0}, got;
        for (uint32_t l = 0; l < 32; l++) {
          lanes[l] = 1000012 + (uint64_t)(strides[k] * l);
          if (masks[m] >> l & 1) add_bytes(&wanted, lanes[l] + 64, sizes[s]);
        }
        struct ts_footprint a = affine(sizes[s], 1000012, strides[k]);
        struct ts_footprint b = lanes_of(sizes[s], lanes);
        ts__coalesce(&a, masks[m], 64, &got);
        expect_lines(&got, &wanted);
        ts__coalesce(&b, masks[m], 64, &got);
        expect_lines(&got, &wanted);
      }
}
END_TEST

static uint32_t collect(const struct ts__access *access, const struct ts_shift *shift,
                        uint32_t limit, uint64_t *packed, uint32_t room) {
  struct ts__line_cursor cursor;
  uint32_t sum = 0, count;
  ts__line_cursor_start(&cursor, access, shift);
  while ((count = ts__line_cursor_next(&cursor, packed + sum, limit)) > 0) {
    sum += count;
    ck_assert_uint_le(sum + limit, room);
  }
  return sum;
}

/* A map of 100 x 50 x 4 elements of 2 bytes in rows of 256 bytes; box of 64 x 8 x 2. */
static struct ts__access make_box(int32_t x, int32_t y, int32_t z) {
  return (struct ts__access){.mask = 1,
                             .footprint = {.kind = TS_FOOTPRINT_BOX,
                                           .rank = 3,
                                           .size_bytes = 128,
                                           .base = 1 << 20,
                                           .extent = {64, 8, 2},
                                           .coordinate = {x, y, z},
                                           .stride_bytes = {2, 256, 256 * 50},
                                           .tensor_extent = {100, 50, 4}}};
}

START_TEST(test_box_lines) {
  static const int32_t corners[][3] = {{0, 0, 0},   {64, 0, 1},  {16, 3, 2},  {-10, -2, -1},
                                       {90, 45, 3}, {100, 0, 0}, {-64, 0, 0}, {0, 50, 0},
                                       {36, 49, 3}, {-63, -7, 0}};
  for (size_t i = 0; i < sizeof corners / sizeof *corners; i++)
    for (uint32_t limit = 1; limit <= 64; limit += 21) {
      const int32_t *corner = corners[i];
      struct ts__access access = make_box(corner[0] + 7, corner[1], corner[2] - 1);
      struct ts_shift shift = {.coordinate = {-7, 0, 1}};
      struct ts__lines wanted = {0};
      for (int32_t z = corner[2]; z < corner[2] + 2; z++)
        for (int32_t y = corner[1]; y < corner[1] + 8; y++)
          for (int32_t x = corner[0]; x < corner[0] + 64; x++)
            if (x >= 0 && x < 100 && y >= 0 && y < 50 && z >= 0 && z < 4)
              add_bytes(&wanted, (1 << 20) + (uint64_t)(x * 2 + y * 256 + z * 256 * 50), 2);
      uint64_t packed[256];
      struct ts__lines got = {.count = collect(&access, &shift, limit, packed, 256)};
      ck_assert_uint_le(got.count, TS__LINES_LIMIT);
      memcpy(got.line, packed, got.count * sizeof *packed);
      expect_lines(&got, &wanted);
    }
}
END_TEST

START_TEST(test_box_rows_share_lines) {
  /* Rows of 64 bytes one after another: two rows are one line. */
  struct ts__access access = make_box(0, 0, 0);
  access.footprint.size_bytes = 64;
  access.footprint.extent[0] = 32;
  access.footprint.stride_bytes[1] = 64;
  uint64_t packed[64];
  ck_assert_uint_eq(collect(&access, NULL, 5, packed, 64), 8);
  for (uint32_t i = 0; i < 8; i++)
    ck_assert_uint_eq(ts__sectors_of(packed[i]), 15);
}
END_TEST

START_TEST(test_damaged_boxes_end) {
  struct ts__access access = make_box(INT32_MAX, INT32_MIN, -1);
  uint64_t packed[64];
  struct ts__line_cursor cursor;
  ck_assert_uint_eq(collect(&access, NULL, 16, packed, 64), 0);
  for (uint32_t rank = 0; rank <= 5; rank++)
    for (uint32_t extent = 0; extent <= 2; extent++) {
      access.footprint = (struct ts_footprint){
          .kind = TS_FOOTPRINT_BOX, .rank = (uint8_t)rank, .size_bytes = UINT32_MAX};
      access.footprint.base = UINT64_MAX - 5;
      for (uint32_t i = 0; i < 5; i++) {
        access.footprint.extent[i] = extent == 1 && i == 0 ? 1 : extent ? UINT32_MAX : 0;
        access.footprint.stride_bytes[i] = UINT64_MAX / 3;
      }
      uint64_t count = 0, some;
      ts__line_cursor_start(&cursor, &access, NULL);
      while ((some = ts__line_cursor_next(&cursor, packed, 64)) > 0)
        count += some;
      ck_assert_uint_le(count, 2 << 20);
    }
}
END_TEST

START_TEST(test_bulk_lines) {
  static uint64_t packed[4096];
  struct ts__access access = {.mask = 1 << 5, .footprint = affine(227 * 1024, 96, 0)};
  struct ts_shift shift = {.bytes = 32};
  ck_assert_uint_eq(collect(&access, &shift, 64, packed, 4096), 227 * 8);
  shift.bytes = 0;
  ck_assert_uint_eq(collect(&access, &shift, 64, packed, 4096), 227 * 8 + 1);
  ck_assert_uint_eq(packed[0], 8);
  ck_assert_uint_eq(ts__sectors_of(packed[227 * 8]), 7);
  access.mask = 0;
  ck_assert_uint_eq(collect(&access, &shift, 64, packed, 4096), 0);
}
END_TEST

/* --- L1 */

START_TEST(test_l1) {
  struct ts_arena arena;
  ts_arena_init(&arena, &ts_allocator_libc);
  struct ts__l1 *l1 = ts__l1_new(&arena, 100 * 1024);
  ck_assert_ptr_nonnull(l1);
  ck_assert_uint_eq(ts__l1_load(l1, 7, 3), 3);
  ck_assert_uint_eq(ts__l1_load(l1, 7, 6), 4);
  ck_assert_uint_eq(ts__l1_load(l1, 7, 7), 0);
  ts__l1_store(l1, 8, 15); /* does not allocate */
  ck_assert_uint_eq(ts__l1_load(l1, 8, 1), 1);
  ts__l1_flush(l1);
  ck_assert_uint_eq(ts__l1_load(l1, 7, 7), 7);
  /* 98 KiB fit in 100, also as rows of 8 KiB pitch; 200 KiB swept do not. */
  static const uint64_t pitches[] = {1, 64};
  for (size_t p = 0; p < 2; p++) {
    ts__l1_flush(l1);
    uint32_t missed = 0;
    for (uint32_t pass = 0; pass < 2; pass++)
      for (uint64_t line = 0; line < 98 * 8; line++)
        missed += ts__l1_load(l1, (1 << 20) + line * pitches[p], 15) != 0;
    ck_assert_uint_eq(missed, 98 * 8);
  }
  ts__l1_flush(l1);
  uint32_t missed = 0;
  for (uint32_t pass = 0; pass < 2; pass++)
    for (uint64_t line = 0; line < 200 * 8; line++)
      missed += ts__l1_load(l1, line, 15) != 0;
  ck_assert_uint_eq(missed, 2 * 200 * 8);
  l1 = ts__l1_new(&arena, 0);
  ck_assert_uint_eq(ts__l1_load(l1, 7, 3), 3);
  ck_assert_uint_eq(ts__l1_load(l1, 7, 3), 3);
  ts__l1_store(l1, 7, 3);
  ts_arena_free(&arena);
}
END_TEST

int main(void) {
  return RUN_TESTS("model_nv_access", test_measured_patterns, test_affine_equals_lanes,
                   test_strides, test_matrix_rows, test_coalesce, test_box_lines,
                   test_box_rows_share_lines, test_damaged_boxes_end, test_bulk_lines, test_l1);
}
