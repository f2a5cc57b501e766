/* Boxes of tensor maps, element by element against a plain reference. */
#include "interp/interp_priv.h"

#include "support/suite.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 1 << 17 };

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_device_memory memory;
  struct ts_shared_memory shared;
};

static void begin(struct fixture *x) {
  ck_assert_int_eq(ts_diag_list_init(&x->diags, &ts_allocator_libc), TS_OK);
  x->ctx = (struct ts_ctx){&ts_allocator_libc, &x->diags};
  ts_device_memory_init(&x->memory, &ts_allocator_libc);
  ck_assert_int_eq(ts_shared_init(&x->ctx, &x->shared, &ts_allocator_libc, WINDOW_BYTES, 16, 1),
                   TS_OK);
}

static void end(struct fixture *x) {
  ts_shared_free(&x->shared);
  ts_device_memory_free(&x->memory);
  ts_diag_list_free(&x->diags);
}

static uint64_t random_bits(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* A compact tensor of the sizes with random bytes. */
static struct ts_tensormap make_map(struct fixture *x, enum ts_tensormap_dtype dtype,
                                    uint32_t elem_bytes, uint32_t rank, const uint32_t *size,
                                    const uint32_t *box) {
  struct ts_tensormap map = {.dtype = dtype, .elem_size_bytes = elem_bytes, .rank = rank};
  uint64_t bytes = elem_bytes, state = 5;
  for (uint32_t i = 0; i < rank; i++) {
    map.size[i] = size[i];
    map.stride_bytes[i] = bytes;
    map.box[i] = box[i];
    map.elem_stride[i] = 1;
    bytes *= size[i];
  }
  ck_assert_int_eq(
      ts_device_allocate(&x->ctx, &x->memory, "T", TS_DTYPE_u8, bytes, &map.global_address), TS_OK);
  uint8_t *data = ts_device_pointer(&x->memory, map.global_address, bytes);
  for (uint64_t i = 0; i < bytes; i++)
    data[i] = (uint8_t)random_bits(&state);
  return map;
}

/* Where a byte of the box lies in shared memory: chunk index XOR row of the 128-byte lines. */
static uint64_t shared_place(const struct ts_tensormap *map, uint64_t start, uint64_t linear) {
  static const uint64_t masks[] = {0, 1, 3, 7};
  uint64_t address = start + linear;
  uint64_t line = address / 128, chunk = address % 128 / 16, byte = address % 16;
  return line * 128 + (chunk ^ (line & masks[map->swizzle])) * 16 + byte;
}

/* The element of the tensor at the coordinates, or NULL outside. */
static uint8_t *element(struct fixture *x, const struct ts_tensormap *map,
                        const int64_t *coordinate) {
  uint64_t address = map->global_address;
  for (uint32_t i = 0; i < map->rank; i++) {
    if (coordinate[i] < 0 || coordinate[i] >= (int64_t)map->size[i]) return NULL;
    address += (uint64_t)coordinate[i] * map->stride_bytes[i];
  }
  return ts_device_pointer(&x->memory, address, map->elem_size_bytes);
}

/* Calls visit for every element of a tiled box with its place in shared memory. */
static void for_each(struct fixture *x, const struct ts__box *box,
                     void (*visit)(struct fixture *x, uint8_t *global, uint8_t *first,
                                   uint32_t elem_bytes, const void *user),
                     const void *user) {
  const struct ts_tensormap *map = box->map;
  uint64_t extent[5] = {1, 1, 1, 1, 1}, count = 1;
  for (uint32_t i = 0; i < map->rank; i++) {
    uint32_t step = i ? map->elem_stride[i] : 1;
    extent[i] = (map->box[i] + step - 1) / step;
    count *= extent[i];
  }
  for (uint64_t n = 0; n < count; n++) {
    uint64_t rest = n;
    int64_t coordinate[5];
    for (uint32_t i = 0; i < map->rank; i++) {
      uint32_t step = i ? map->elem_stride[i] : 1;
      coordinate[i] = box->coordinate[i] + (int64_t)(rest % extent[i] * step);
      rest /= extent[i];
    }
    uint64_t place = shared_place(map, box->shared_address, n * map->elem_size_bytes);
    visit(x, element(x, map, coordinate), x->shared.data + place, map->elem_size_bytes, user);
  }
}

static void check_loaded(struct fixture *x, uint8_t *global, uint8_t *first, uint32_t elem_bytes,
                         const void *user) {
  (void)x;
  uint8_t fill[8];
  memcpy(fill, user, sizeof fill);
  ck_assert_mem_eq(first, global ? global : fill, elem_bytes);
}

static void check_load(struct fixture *x, struct ts__box box, uint64_t fill) {
  memset(x->shared.data, 0xA5, WINDOW_BYTES);
  uint64_t version = x->shared.version;
  ck_assert_int_eq(ts__box_load(&x->memory, &x->shared, &box), TS__BOX_FINE);
  ck_assert_uint_gt(x->shared.version, version);
  for_each(x, &box, check_loaded, &fill);
  uint64_t end = box.shared_address + ts__box_bytes(box.map);
  ck_assert_uint_eq(x->shared.data[end], 0xA5);
  ck_assert_uint_eq(x->shared.data[box.shared_address - 1], 0xA5);
}

/* Every swizzle with the rows that it allows, at every 128-byte position of its pattern. */
START_TEST(test_swizzles) {
  struct fixture x;
  begin(&x);
  for (uint32_t swizzle = 0; swizzle < 4; swizzle++)
    for (uint32_t row_bytes = 16; row_bytes <= (swizzle ? 16u << swizzle : 256); row_bytes *= 2)
      for (uint64_t start = 1024; start < 2048; start += 128) {
        uint32_t size[] = {200, 40}, dims[] = {row_bytes / 2, 24};
        struct ts_tensormap map = make_map(&x, TS_TENSORMAP_F16, 2, 2, size, dims);
        map.swizzle = swizzle;
        struct ts__box box = {.map = &map, .coordinate = {8, 3}, .shared_address = start};
        check_load(&x, box, 0);
      }
  end(&x);
}
END_TEST

/* 128-byte swizzle by hand: row r, chunk c goes to chunk c XOR r % 8. */
START_TEST(test_swizzle_by_hand) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {64, 16}, dims[] = {64, 16};
  struct ts_tensormap map = make_map(&x, TS_TENSORMAP_F16, 2, 2, size, dims);
  map.swizzle = 3;
  struct ts__box box = {.map = &map, .shared_address = 4096};
  ck_assert_int_eq(ts__box_load(&x.memory, &x.shared, &box), TS__BOX_FINE);
  const uint8_t *global = ts_device_pointer(&x.memory, map.global_address, 2048);
  ck_assert_mem_eq(x.shared.data + 4096 + 128 * 1 + 16 * 1, global + 128 * 1, 16);
  ck_assert_mem_eq(x.shared.data + 4096 + 128 * 13 + 16 * 3, global + 128 * 13 + 16 * 6, 16);
  ck_assert_mem_eq(x.shared.data + 4096 + 128 * 8, global + 128 * 8, 16);
  end(&x);
}
END_TEST

/* Boxes that stick out on every side, of every rank, with zero and NaN fill. */
START_TEST(test_outside) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {24, 5, 3, 4, 2}, dims[] = {16, 4, 2, 3, 2};
  uint64_t state = 11;
  for (uint32_t rank = 1; rank <= 5; rank++) {
    struct ts_tensormap map = make_map(&x, TS_TENSORMAP_BF16, 2, rank, size, dims);
    for (int round = 0; round < 60; round++) {
      struct ts__box box = {.map = &map, .shared_address = 1024};
      for (uint32_t i = 0; i < rank; i++) {
        int64_t range = size[i] + 2 * dims[i];
        box.coordinate[i] =
            (int32_t)((int64_t)(random_bits(&state) % (uint64_t)range) - (int64_t)dims[i]);
      }
      map.oob_fill = round & 1;
      map.swizzle = round & 2 ? 1 : 0;
      check_load(&x, box, map.oob_fill ? 0x7fff : 0);
    }
  }
  end(&x);
}
END_TEST

START_TEST(test_extreme_coordinates) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {64, 4}, dims[] = {64, 4};
  struct ts_tensormap map = make_map(&x, TS_TENSORMAP_F32, 4, 2, size, dims);
  static const int32_t far[] = {INT32_MIN, INT32_MAX, -64, 64, -63, 63};
  for (size_t i = 0; i < sizeof far / sizeof *far; i++)
    for (size_t j = 0; j < sizeof far / sizeof *far; j++) {
      struct ts__box box = {.map = &map, .coordinate = {far[i], far[j]}, .shared_address = 1024};
      check_load(&x, box, 0);
    }
  map.oob_fill = 1;
  struct ts__box box = {.map = &map, .coordinate = {60, 2}, .shared_address = 1024};
  check_load(&x, box, 0x7fffffff);
  end(&x);
}
END_TEST

START_TEST(test_element_strides) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {32, 40, 9}, dims[] = {32, 15, 5};
  struct ts_tensormap map = make_map(&x, TS_TENSORMAP_U8, 1, 3, size, dims);
  map.elem_stride[0] = 3; /* ignored without interleaving */
  map.elem_stride[1] = 4;
  map.elem_stride[2] = 2;
  ck_assert_uint_eq(ts__box_bytes(&map), 32 * 4 * 3);
  for (int32_t y = -3; y < 40; y += 7) {
    struct ts__box box = {.map = &map, .coordinate = {0, y, 3}, .shared_address = 2048};
    check_load(&x, box, 0);
  }
  end(&x);
}
END_TEST

/* The map promises more than the allocation has. */
START_TEST(test_short_allocation) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {16, 8}, dims[] = {16, 8};
  struct ts_tensormap map = make_map(&x, TS_TENSORMAP_F32, 4, 2, size, dims);
  map.size[1] = 9;
  struct ts__box box = {.map = &map, .coordinate = {0, 2}, .shared_address = 1024};
  ck_assert_int_eq(ts__box_load(&x.memory, &x.shared, &box), TS__BOX_OUTSIDE);
  uint8_t *global = ts_device_pointer(&x.memory, map.global_address, 512);
  ck_assert_mem_eq(x.shared.data + 1024, global + 128, 384);
  static const uint8_t zeros[64];
  ck_assert_mem_eq(x.shared.data + 1024 + 384, zeros, 64);
  ck_assert_int_eq(ts__box_store(&x.memory, &x.shared, &box, TS_IR_REDUCE_none), TS__BOX_OUTSIDE);
  map.stride_bytes[1] = UINT64_MAX / 2;
  ck_assert_int_eq(ts__box_load(&x.memory, &x.shared, &box), TS__BOX_OUTSIDE);
  end(&x);
}
END_TEST

/* Loading what was stored gives it back; outside elements and neighbours stay. */
START_TEST(test_store) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {40, 7, 3}, dims[] = {16, 4, 2};
  for (uint32_t swizzle = 0; swizzle < 2; swizzle++) {
    struct ts_tensormap map = make_map(&x, TS_TENSORMAP_F16, 2, 3, size, dims);
    map.swizzle = swizzle;
    uint64_t bytes = 2 * 40 * 7 * 3;
    uint8_t *global = ts_device_pointer(&x.memory, map.global_address, bytes);
    uint8_t *expected = malloc(bytes);
    ck_assert_ptr_nonnull(expected);
    for (int32_t cx = 0; cx < 40; cx += 13)
      for (int32_t cy = 0; cy < 8; cy += 3) {
        uint64_t state = (uint64_t)cx * 100 + (uint64_t)cy;
        struct ts__box box = {.map = &map, .coordinate = {cx, cy, 2}, .shared_address = 1024};
        for (uint64_t i = 0; i < ts__box_bytes(&map); i++)
          x.shared.data[1024 + i] = (uint8_t)random_bits(&state);
        memcpy(expected, global, bytes);
        for (int32_t r = 0; r < 4; r++)
          for (int32_t c = 0; c < 16; c++)
            if (cx + c < 40 && cy + r < 7)
              memcpy(expected + 2 * (cx + c + 40 * (cy + r + 7 * 2)),
                     x.shared.data + shared_place(&map, 1024, (uint64_t)(r * 16 + c) * 2), 2);
        ck_assert_int_eq(ts__box_store(&x.memory, &x.shared, &box, TS_IR_REDUCE_none),
                         TS__BOX_FINE);
        ck_assert_mem_eq(global, expected, bytes);
      }
    free(expected);
  }
  end(&x);
}
END_TEST

START_TEST(test_negative_store) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {16, 4}, dims[] = {16, 4};
  struct ts_tensormap map = make_map(&x, TS_TENSORMAP_F32, 4, 2, size, dims);
  uint8_t before[256];
  uint8_t *global = ts_device_pointer(&x.memory, map.global_address, 256);
  memcpy(before, global, sizeof before);
  struct ts__box box = {.map = &map, .coordinate = {0, -1}, .shared_address = 1024};
  ck_assert_int_eq(ts__box_store(&x.memory, &x.shared, &box, TS_IR_REDUCE_none), TS__BOX_NEGATIVE);
  ck_assert_mem_eq(global, before, sizeof before);
  end(&x);
}
END_TEST

START_TEST(test_reduce) {
  struct fixture x;
  begin(&x);
  uint32_t size[] = {4, 3}, dims[] = {4, 2};
  struct ts_tensormap map = make_map(&x, TS_TENSORMAP_S32, 4, 2, size, dims);
  int32_t *global = (int32_t *)(void *)ts_device_pointer(&x.memory, map.global_address, 48);
  int32_t *shared = (int32_t *)(void *)(x.shared.data + 1024);
  struct ts__box box = {.map = &map, .coordinate = {2, 1}, .shared_address = 1024};
  for (int i = 0; i < 12; i++)
    global[i] = i - 6;
  for (int i = 0; i < 8; i++)
    shared[i] = 100 * (i - 4);
  ck_assert_int_eq(ts__box_store(&x.memory, &x.shared, &box, TS_IR_REDUCE_add), TS__BOX_FINE);
  ck_assert_int_eq(global[6], 0 - 400);
  ck_assert_int_eq(global[7], 1 - 300);
  ck_assert_int_eq(global[10], 4 + 0);
  ck_assert_int_eq(global[11], 5 + 100);
  ck_assert_int_eq(global[5], -1);
  ck_assert_int_eq(global[8], 2);
  ck_assert_int_eq(ts__box_store(&x.memory, &x.shared, &box, TS_IR_REDUCE_max), TS__BOX_FINE);
  ck_assert_int_eq(global[6], -400);
  ck_assert_int_eq(global[11], 105);
  ck_assert_int_eq(ts__box_store(&x.memory, &x.shared, &box, TS_IR_REDUCE_min), TS__BOX_FINE);
  ck_assert_int_eq(global[11], 100);
  end(&x);
}
END_TEST

START_TEST(test_reduce_packed) {
  uint32_t dst[] = {0, 7, 8, 9}, src[] = {7, 7, 7, 7};
  ck_assert(ts__reduce_packed(TS_IR_REDUCE_inc, TS_DTYPE_u32, dst, src, 4));
  ck_assert_uint_eq(dst[0], 1);
  ck_assert_uint_eq(dst[1], 0);
  ck_assert_uint_eq(dst[2], 0);
  ck_assert(ts__reduce_packed(TS_IR_REDUCE_dec, TS_DTYPE_u32, dst, src, 4));
  ck_assert_uint_eq(dst[0], 0);
  ck_assert_uint_eq(dst[1], 7);
  ck_assert_uint_eq(dst[3], 7);
  /* f32: subnormals are kept, as in traces/num/tensor_add_h200.txt. */
  uint32_t tiny[] = {0x80000001, 0x00000001, 0x80000000}, added[] = {0x80000001, 1, 0x80000000};
  ck_assert(ts__reduce_packed(TS_IR_REDUCE_add, TS_DTYPE_f32, tiny, added, 3));
  ck_assert_uint_eq(tiny[0], 0x80000002);
  ck_assert_uint_eq(tiny[1], 0x00000002);
  ck_assert_uint_eq(tiny[2], 0x80000000);
  uint16_t half[] = {0x3c00, 0x0001}, more[] = {0x3c00, 0x0001};
  ck_assert(ts__reduce_packed(TS_IR_REDUCE_add, TS_DTYPE_f16, half, more, 2));
  ck_assert_uint_eq(half[0], 0x4000);
  ck_assert_uint_eq(half[1], 0x0002);
  ck_assert(!ts__reduce_packed(TS_IR_REDUCE_none, TS_DTYPE_f16, half, more, 2));
  ck_assert(!ts__reduce_packed(TS_IR_REDUCE_inc, TS_DTYPE_f16, half, more, 2));
}
END_TEST

/* im2col of a 3 x 3 convolution with padding and stride, all nine offsets, against the definition:
 * row p of the box is output pixel (first + p), channels c .. c + box. */
START_TEST(test_im2col) {
  struct fixture x;
  begin(&x);
  enum { CHANNELS = 32, WIDTH = 7, HEIGHT = 6, BATCH = 2, PIXELS = 16, TAKEN = 16 };
  for (int stride = 1; stride <= 2; stride++) {
    uint32_t size[] = {CHANNELS, WIDTH, HEIGHT, BATCH}, dims[] = {TAKEN, PIXELS, 1, 1};
    struct ts_tensormap map = make_map(&x, TS_TENSORMAP_F16, 2, 4, size, dims);
    int out_w = (WIDTH + 2 - 3) / stride + 1, out_h = (HEIGHT + 2 - 3) / stride + 1;
    map.is_im2col = true;
    map.elem_stride[1] = map.elem_stride[2] = (uint32_t)stride;
    map.lower_corner[0] = map.lower_corner[1] = -1;
    map.upper_corner[0] = map.upper_corner[1] = -1;
    map.swizzle = 1;
    for (int first = 0; first < out_w * out_h * BATCH - PIXELS; first += 5)
      for (int tap = 0; tap < 9; tap++) {
        int w = first % out_w, h = first / out_w % out_h, n = first / out_w / out_h;
        struct ts__box box = {.map = &map,
                              .coordinate = {16, w * stride - 1, h * stride - 1, n},
                              .offset = {(uint32_t)tap % 3, (uint32_t)tap / 3},
                              .shared_address = 2048};
        ck_assert_int_eq(ts__box_load(&x.memory, &x.shared, &box), TS__BOX_FINE);
        for (int p = 0; p < PIXELS; p++)
          for (int c = 0; c < TAKEN; c++) {
            int pixel = first + p;
            int64_t at[] = {16 + c, pixel % out_w * stride - 1 + tap % 3,
                            pixel / out_w % out_h * stride - 1 + tap / 3, pixel / out_w / out_h};
            static const uint8_t zero[2];
            const uint8_t *global = element(&x, &map, at);
            uint64_t place = shared_place(&map, 2048, (uint64_t)(p * TAKEN + c) * 2);
            ck_assert_mem_eq(x.shared.data + place, global ? global : zero, 2);
          }
      }
  }
  end(&x);
}
END_TEST

START_TEST(test_refused_maps) {
  struct ts_tensormap map = {.elem_size_bytes = 2, .rank = 2, .box = {16, 4}};
  ck_assert_uint_eq(ts__box_bytes(&map), 128);
  map.interleave = 1;
  ck_assert_uint_eq(ts__box_bytes(&map), 0);
  map.interleave = 0;
  map.rank = 6;
  ck_assert_uint_eq(ts__box_bytes(&map), 0);
  map.rank = 2;
  map.box[1] = 0;
  ck_assert_uint_eq(ts__box_bytes(&map), 0);
  map.box[1] = 4;
  map.swizzle = 4;
  ck_assert_uint_eq(ts__box_bytes(&map), 0);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp tma", test_swizzles, test_swizzle_by_hand, test_outside,
                   test_extreme_coordinates, test_element_strides, test_short_allocation,
                   test_store, test_negative_store, test_reduce, test_reduce_packed, test_im2col,
                   test_refused_maps);
}
