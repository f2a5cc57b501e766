/* Walking the boxes of tensor maps (DOC: CUDA driver API, cuTensorMapEncodeTiled and
 * cuTensorMapEncodeIm2col; PTX ISA, tensors and cp.async.bulk.tensor).
 *
 * A box lies densely in shared memory, innermost dimension first; the swizzle then permutes 16-byte
 * chunks by the bits of their address. What is outside of the tensor reads as zeros (or the NaN the
 * map asks for) and is not written. */
#include "interp/interp_priv.h"

#include <string.h>

enum { CHUNK_BYTES = 16, MAX_ROW_BYTES = 2048 };

static const uint8_t map_dtypes[TS_TENSORMAP_DTYPE_COUNT] = {
    [TS_TENSORMAP_U8] = TS_DTYPE_u8,       [TS_TENSORMAP_U16] = TS_DTYPE_u16,
    [TS_TENSORMAP_U32] = TS_DTYPE_u32,     [TS_TENSORMAP_S32] = TS_DTYPE_s32,
    [TS_TENSORMAP_U64] = TS_DTYPE_u64,     [TS_TENSORMAP_S64] = TS_DTYPE_s64,
    [TS_TENSORMAP_F16] = TS_DTYPE_f16,     [TS_TENSORMAP_F32] = TS_DTYPE_f32,
    [TS_TENSORMAP_F64] = TS_DTYPE_f64,     [TS_TENSORMAP_BF16] = TS_DTYPE_bf16,
    [TS_TENSORMAP_F32_FTZ] = TS_DTYPE_f32, [TS_TENSORMAP_TF32] = TS_DTYPE_f32,
    [TS_TENSORMAP_TF32_FTZ] = TS_DTYPE_f32};

enum ts_dtype ts__box_dtype(const struct ts_tensormap *map) {
  return map->dtype < TS_TENSORMAP_DTYPE_COUNT ? (enum ts_dtype)map_dtypes[map->dtype]
                                               : TS_DTYPE_u8;
}

/* Elements of a tiled box along a dimension. The stride of dimension 0 is ignored without
 * interleaving (DOC, cuTensorMapEncodeTiled). */
static uint64_t box_extent(const struct ts_tensormap *map, uint32_t i) {
  uint64_t step = i == 0 || map->elem_stride[i] == 0 ? 1 : map->elem_stride[i];
  return (map->box[i] + step - 1) / step;
}

/* Rows of a box: all but the innermost dimension; im2col: pixels. */
static uint64_t box_rows(const struct ts_tensormap *map) {
  if (map->is_im2col) return map->box[1];
  uint64_t rows = 1;
  for (uint32_t i = 1; i < map->rank; i++)
    rows *= box_extent(map, i);
  return rows;
}

uint64_t ts__box_bytes(const struct ts_tensormap *map) {
  if (map->rank == 0 || map->rank > TS_TENSORMAP_MAX_RANK || map->interleave || map->swizzle > 3 ||
      (map->is_im2col && map->rank < 3))
    return 0;
  if (map->elem_size_bytes == 0 || map->elem_size_bytes > 8) return 0;
  uint32_t dimensions = map->is_im2col ? 2 : map->rank;
  for (uint32_t i = 0; i < dimensions; i++)
    if (map->box[i] == 0 || map->box[i] > 1024) return 0;
  uint64_t row_bytes = (uint64_t)map->box[0] * map->elem_size_bytes;
  return row_bytes > MAX_ROW_BYTES ? 0 : row_bytes * box_rows(map);
}

static uint64_t rows_of(const struct ts__box *box) {
  return box->is_gather ? TS__GATHERED_ROWS : box_rows(box->map);
}

/* The part of a row inside the tensor: elements [first, end) of the row, and their host address.
 * bytes == NULL: no part of it. */
struct row {
  uint8_t *bytes;
  uint64_t first, end;
};

/* false when the map promises memory that the allocation does not have. */
static bool find_row(const struct ts_device_memory *memory, const struct ts_tensormap *map,
                     const int64_t coordinate[TS_TENSORMAP_MAX_RANK], struct row *row) {
  *row = (struct row){0};
  uint64_t offset = 0;
  for (uint32_t i = 1; i < map->rank; i++) {
    uint64_t step;
    if (coordinate[i] < 0 || (uint64_t)coordinate[i] >= map->size[i]) return true;
    if (__builtin_mul_overflow((uint64_t)coordinate[i], map->stride_bytes[i], &step)) return false;
    if (__builtin_add_overflow(offset, step, &offset)) return false;
  }
  int64_t begin = coordinate[0], end = begin + map->box[0];
  int64_t size = map->size[0] > INT64_MAX ? INT64_MAX : (int64_t)map->size[0];
  row->first = begin < 0 ? (uint64_t)-begin : 0;
  row->end = (uint64_t)((end > size ? size : end) - begin);
  if (begin >= size || end <= 0) return true;
  uint64_t elem = map->elem_size_bytes;
  uint64_t start = ((uint64_t)begin + row->first) * elem;
  if (offset > TS_ADDRESS_BIAS || start > TS_ADDRESS_BIAS) return false;
  row->bytes = ts_device_pointer(memory, map->global_address + offset + start,
                                 (row->end - row->first) * elem);
  return row->bytes != NULL;
}

/* Goes through the rows of a box in the order of shared memory. */
struct walk {
  const struct ts__box *box;
  uint64_t index[TS_TENSORMAP_MAX_RANK];     /* tiled: position in the box */
  int64_t coordinate[TS_TENSORMAP_MAX_RANK]; /* of the row's first element */
  int64_t pixel[TS_TENSORMAP_MAX_RANK];      /* im2col: base position, before offsets */
};

static void im2col_place(struct walk *walk) {
  const struct ts_tensormap *map = walk->box->map;
  for (uint32_t i = 1; i < map->rank; i++) {
    bool is_spatial = i + 1 < map->rank && i <= 2;
    walk->coordinate[i] = walk->pixel[i] + (is_spatial ? (int64_t)walk->box->offset[i - 1] : 0);
  }
}

static struct walk walk_begin(const struct ts__box *box) {
  struct walk walk = {.box = box};
  for (uint32_t i = 0; i < box->map->rank; i++)
    walk.coordinate[i] = walk.pixel[i] = box->coordinate[i];
  if (box->map->is_im2col) im2col_place(&walk);
  return walk; /* is_gather: the first row is coordinate 1 */
}

/* The next pixel: along w between the corners of the bounding box, then h, then the batch. */
static void im2col_next(struct walk *walk) {
  const struct ts_tensormap *map = walk->box->map;
  uint32_t batch = map->rank - 1;
  for (uint32_t i = 1; i < batch; i++) {
    walk->pixel[i] += map->elem_stride[i] ? map->elem_stride[i] : 1;
    int64_t last = (int64_t)map->size[i] - 1 + map->upper_corner[i - 1];
    if (walk->pixel[i] <= last) {
      im2col_place(walk);
      return;
    }
    walk->pixel[i] = map->lower_corner[i - 1];
  }
  walk->pixel[batch]++;
  im2col_place(walk);
}

static void walk_next(struct walk *walk) {
  const struct ts_tensormap *map = walk->box->map;
  if (map->is_im2col) {
    im2col_next(walk);
    return;
  }
  if (walk->box->is_gather) {
    walk->coordinate[1] = walk->box->coordinate[1 + (++walk->index[1] & 3)];
    return;
  }
  for (uint32_t i = 1; i < map->rank; i++) {
    if (++walk->index[i] < box_extent(map, i)) {
      walk->coordinate[i] += map->elem_stride[i] ? map->elem_stride[i] : 1;
      return;
    }
    walk->index[i] = 0;
    walk->coordinate[i] = walk->box->coordinate[i];
  }
}

/* Copies between linear bytes and the swizzled place of [address, address + size_bytes). */
static void scatter_chunks(struct ts_shared_memory *shared, uint64_t address, uint32_t swizzle,
                           const uint8_t *bytes, uint64_t size_bytes) {
  for (uint64_t done = 0; done < size_bytes; done += CHUNK_BYTES)
    memcpy(shared->data + ts__swizzle(address + done, swizzle), bytes + done, CHUNK_BYTES);
}

static void scatter(struct ts_shared_memory *shared, uint64_t address, uint32_t swizzle,
                    const uint8_t *bytes, uint64_t size_bytes) {
  if (swizzle == 0) {
    memcpy(shared->data + address, bytes, size_bytes);
    return;
  }
  if ((address | size_bytes) % CHUNK_BYTES == 0) {
    scatter_chunks(shared, address, swizzle, bytes, size_bytes);
    return;
  }
  for (uint64_t done = 0; done < size_bytes;) {
    uint64_t room = CHUNK_BYTES - (address + done) % CHUNK_BYTES;
    uint64_t step = size_bytes - done < room ? size_bytes - done : room;
    memcpy(shared->data + ts__swizzle(address + done, swizzle), bytes + done, step);
    done += step;
  }
}

static void gather(const struct ts_shared_memory *shared, uint64_t address, uint32_t swizzle,
                   uint8_t *bytes, uint64_t size_bytes) {
  for (uint64_t done = 0; done < size_bytes;) {
    uint64_t room = CHUNK_BYTES - (address + done) % CHUNK_BYTES;
    uint64_t step = size_bytes - done < room ? size_bytes - done : room;
    memcpy(bytes + done, shared->data + ts__swizzle(address + done, swizzle), step);
    done += step;
  }
}

/* What outside elements read as. The NaN's encoding is a GUESS: all bits but the sign. */
static void fill_outside(const struct ts_tensormap *map, uint8_t *bytes, uint64_t size_bytes) {
  if (map->oob_fill == 0 || !ts_dtype_is_float(ts__box_dtype(map))) {
    memset(bytes, 0, size_bytes);
    return;
  }
  memset(bytes, 0xff, size_bytes);
  for (uint64_t i = map->elem_size_bytes; i <= size_bytes; i += map->elem_size_bytes)
    bytes[i - 1] = 0x7f;
}

enum ts__box_fault ts__box_load(const struct ts_device_memory *memory,
                                struct ts_shared_memory *shared, const struct ts__box *box) {
  const struct ts_tensormap *map = box->map;
  uint64_t elem = map->elem_size_bytes, row_bytes = map->box[0] * elem, rows = rows_of(box);
  enum ts__box_fault fault = TS__BOX_FINE;
  struct walk walk = walk_begin(box);
  uint64_t address = box->shared_address;
  for (uint64_t r = 0; r < rows; r++, address += row_bytes, walk_next(&walk)) {
    struct row row;
    if (!find_row(memory, map, walk.coordinate, &row)) {
      row.bytes = NULL;
      fault = TS__BOX_OUTSIDE;
    }
    if (row.bytes && row.first == 0 && row.end == map->box[0]) {
      scatter(shared, address, map->swizzle, row.bytes, row_bytes);
      continue;
    }
    uint8_t linear[MAX_ROW_BYTES];
    fill_outside(map, linear, row_bytes);
    if (row.bytes) memcpy(linear + row.first * elem, row.bytes, (row.end - row.first) * elem);
    scatter(shared, address, map->swizzle, linear, row_bytes);
  }
  shared->version++;
  return fault;
}

void ts__box_visit(const struct ts_device_memory *memory, const struct ts__box *box,
                   void (*visit)(void *user, uint64_t address, uint64_t size_bytes), void *user) {
  const struct ts_tensormap *map = box->map;
  uint64_t index = map->global_address >> TS_ADDRESS_SHIFT << TS_ADDRESS_SHIFT;
  const struct ts_allocation *allocation = ts_device_find(memory, map->global_address);
  struct walk walk = walk_begin(box);
  for (uint64_t r = 0, rows = rows_of(box); allocation && r < rows; r++, walk_next(&walk)) {
    struct row row;
    if (!find_row(memory, map, walk.coordinate, &row) || !row.bytes) continue;
    uint64_t offset = (uint64_t)(row.bytes - allocation->data);
    visit(user, index + TS_ADDRESS_BIAS + offset, (row.end - row.first) * map->elem_size_bytes);
  }
}

enum ts__box_fault ts__box_store(const struct ts_device_memory *memory,
                                 const struct ts_shared_memory *shared, const struct ts__box *box,
                                 enum ts_ir_reduce reduce) {
  const struct ts_tensormap *map = box->map;
  uint64_t elem = map->elem_size_bytes, row_bytes = map->box[0] * elem, rows = rows_of(box);
  enum ts__box_fault fault = TS__BOX_FINE;
  /* MEASURED on an H200 (corpus): such a store traps, while a load reads the fill value. GUESS: a
   * scattered row is left out. */
  for (uint32_t i = 0; i < (box->is_gather ? 1 : map->rank); i++)
    if (box->coordinate[i] < 0) return TS__BOX_NEGATIVE;
  struct walk walk = walk_begin(box);
  uint64_t address = box->shared_address;
  for (uint64_t r = 0; r < rows; r++, address += row_bytes, walk_next(&walk)) {
    struct row row;
    if (!find_row(memory, map, walk.coordinate, &row)) fault = TS__BOX_OUTSIDE;
    if (!row.bytes) continue;
    uint8_t linear[MAX_ROW_BYTES];
    uint64_t size_bytes = (row.end - row.first) * elem;
    gather(shared, address + row.first * elem, map->swizzle, linear, size_bytes);
    if (reduce == TS_IR_REDUCE_none)
      memcpy(row.bytes, linear, size_bytes);
    else
      ts__reduce_packed(reduce, ts__box_dtype(map), row.bytes, linear, row.end - row.first);
  }
  return fault;
}

/* Wrapping counters (DOC: PTX ISA, atom.inc and atom.dec). */
static void count_packed(bool is_increment, uint8_t *dst, const uint8_t *src, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint32_t old, limit;
    memcpy(&old, dst + 4 * i, 4);
    memcpy(&limit, src + 4 * i, 4);
    if (is_increment)
      old = old >= limit ? 0 : old + 1;
    else
      old = old == 0 || old > limit ? limit : old - 1;
    memcpy(dst + 4 * i, &old, 4);
  }
}

bool ts__reduce_packed(enum ts_ir_reduce reduce, enum ts_dtype dtype, void *dst, const void *src,
                       size_t count) {
  static const uint8_t num_ops[] = {
      [TS_IR_REDUCE_add] = TS_NUM_add, [TS_IR_REDUCE_min] = TS_NUM_min,
      [TS_IR_REDUCE_max] = TS_NUM_max, [TS_IR_REDUCE_and] = TS_NUM_and,
      [TS_IR_REDUCE_or] = TS_NUM_or,   [TS_IR_REDUCE_xor] = TS_NUM_xor};
  if (count > TS__REDUCE_MAX || reduce == TS_IR_REDUCE_none) return false;
  if (reduce == TS_IR_REDUCE_inc || reduce == TS_IR_REDUCE_dec) {
    if (dtype != TS_DTYPE_u32) return false;
    count_packed(reduce == TS_IR_REDUCE_inc, dst, src, count);
    return true;
  }
  if (reduce > TS_IR_REDUCE_xor) return false;
  /* MEASURED: bulk additions keep subnormals, unlike red.global (docs/numerics.md, R1). */
  ts_binary_fn combine = ts_num_binary((enum ts_num_op)num_ops[reduce], dtype, 0);
  if (!combine) return false;
  if (count == 0) return true;
  uint64_t old_slots[TS__REDUCE_MAX], new_slots[TS__REDUCE_MAX];
  ts_dtype_unpack(dtype, old_slots, dst, count);
  ts_dtype_unpack(dtype, new_slots, src, count);
  combine(old_slots, old_slots, new_slots, count);
  ts_dtype_pack(dtype, dst, old_slots, count);
  return true;
}
