/* Tensor maps: what the host function passes to cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col,
 * with the checks that the driver makes (DOC: CUDA driver API, tensor object management). */
#include "front/tvm/host_priv.h"

/* CUtensorMapDataType: bytes of an element. */
static const uint8_t elem_sizes[TS_TENSORMAP_DTYPE_COUNT] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
static const uint16_t swizzle_spans[] = {0, 32, 64, 128};

struct reader {
  struct ts__host *host;
  const struct tir_exprs *args;
  size_t next;
};

static enum ts_status read_int(struct reader *reader, int64_t low, int64_t high, const char *what,
                               int64_t *out) {
  struct ts__host *host = reader->host;
  if (reader->next >= reader->args->count)
    return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "tensor map: %zu arguments, but %s is missing", reader->args->count, what);
  TS_TRY(ts__host_eval_int(host, reader->args->items[reader->next++], out));
  if (*out >= low && *out <= high) return TS_OK;
  return ts__host_fail(host, TS_BAD_ARGUMENT, TS_DIAG_HOST_TENSORMAP,
                       "tensor map: %s is %lld, expected %lld to %lld", what, (long long)*out,
                       (long long)low, (long long)high);
}

static enum ts_status read_u32(struct reader *reader, int64_t low, int64_t high, const char *what,
                               uint32_t *out) {
  int64_t value = 0;
  TS_TRY(read_int(reader, low, high, what, &value));
  *out = (uint32_t)value;
  return TS_OK;
}

static enum ts_status read_address(struct reader *reader, struct ts_tensormap *map) {
  struct ts__host_value value;
  if (reader->next >= reader->args->count)
    return ts__host_fail(reader->host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "tensor map: the address is missing");
  TS_TRY(ts__host_eval(reader->host, reader->args->items[reader->next++], &value));
  if (value.kind != TS__HOST_ADDRESS)
    return ts__host_fail(reader->host, TS_BAD_ARGUMENT, TS_DIAG_HOST_TENSORMAP,
                         "tensor map: the address is %s, expected a device pointer",
                         ts__host_kind_text(value.kind));
  map->global_address = (uint64_t)value.integer;
  return TS_OK;
}

static enum ts_status read_shape(struct reader *reader, struct ts_tensormap *map) {
  for (uint32_t i = 0; i < map->rank; i++) {
    int64_t size = 0;
    TS_TRY(read_int(reader, 1, INT64_C(1) << 32, "globalDim", &size));
    map->size[i] = (uint64_t)size;
  }
  for (uint32_t i = 0; i < map->rank; i++) {
    int64_t stride = 0;
    TS_TRY(read_int(reader, 0, (INT64_C(1) << 40) - 1, "globalStrides", &stride));
    map->stride_bytes[i] = (uint64_t)stride;
  }
  return TS_OK;
}

static enum ts_status read_tail(struct reader *reader, struct ts_tensormap *map) {
  TS_TRY(read_u32(reader, 0, 2, "interleave", &map->interleave));
  TS_TRY(read_u32(reader, 0, 3, "swizzle", &map->swizzle));
  TS_TRY(read_u32(reader, 0, 3, "l2Promotion", &map->l2_promotion));
  TS_TRY(read_u32(reader, 0, 1, "oobFill", &map->oob_fill));
  if (reader->next == reader->args->count) return TS_OK;
  return ts__host_fail(reader->host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                       "tensor map: %zu arguments, expected %zu", reader->args->count,
                       reader->next);
}

static enum ts_status read_elem_strides(struct reader *reader, struct ts_tensormap *map) {
  for (uint32_t i = 0; i < map->rank; i++)
    TS_TRY(read_u32(reader, 1, 8, "elementStrides", &map->elem_stride[i]));
  return TS_OK;
}

static enum ts_status read_tiled(struct reader *reader, struct ts_tensormap *map) {
  for (uint32_t i = 0; i < map->rank; i++)
    TS_TRY(read_u32(reader, 1, 256, "boxDim", &map->box[i]));
  return read_elem_strides(reader, map);
}

static enum ts_status read_corner(struct reader *reader, struct ts_tensormap *map, int32_t *corner,
                                  const char *what) {
  int64_t limit = map->rank == 3 ? 32768 : map->rank == 4 ? 128 : 16;
  for (uint32_t i = 0; i + 2 < map->rank; i++) {
    int64_t value = 0;
    TS_TRY(read_int(reader, -limit, limit - 1, what, &value));
    corner[i] = (int32_t)value;
  }
  return TS_OK;
}

static enum ts_status read_im2col(struct reader *reader, struct ts_tensormap *map) {
  if (map->rank < 3)
    return ts__host_fail(reader->host, TS_BAD_ARGUMENT, TS_DIAG_HOST_TENSORMAP,
                         "tensor map: im2col needs rank 3 to 5, found %u", map->rank);
  TS_TRY(read_elem_strides(reader, map));
  TS_TRY(read_corner(reader, map, map->lower_corner, "pixelBoxLowerCorner"));
  TS_TRY(read_corner(reader, map, map->upper_corner, "pixelBoxUpperCorner"));
  TS_TRY(read_u32(reader, 1, 1024, "pixelsPerColumn", &map->box[1]));
  return read_u32(reader, 1, 256, "channelsPerPixel", &map->box[0]);
}

static enum ts_status refuse(struct ts__host *host, const char *what, uint64_t found,
                             const char *expected) {
  return ts__host_fail(host, TS_BAD_ARGUMENT, TS_DIAG_HOST_TENSORMAP,
                       "tensor map: %s is %llu, expected %s", what, (unsigned long long)found,
                       expected);
}

/* The rules that join several arguments. */
static enum ts_status check(struct ts__host *host, const struct ts_tensormap *map) {
  uint32_t align = map->interleave == 2 ? 32 : 16;
  if (map->global_address % align)
    return refuse(host, "globalAddress modulo its alignment", map->global_address % align, "0");
  for (uint32_t i = 1; i < map->rank; i++)
    if (map->stride_bytes[i] % align)
      return refuse(host, "a global stride in bytes", map->stride_bytes[i], "a multiple of 16");
  uint64_t row_bytes = (uint64_t)map->box[0] * map->elem_size_bytes;
  if (map->interleave == 0 && row_bytes % 16)
    return refuse(host, "the box's inner dimension in bytes", row_bytes, "a multiple of 16");
  if (map->interleave == 0 && map->swizzle && row_bytes > swizzle_spans[map->swizzle])
    return refuse(host, "the box's inner dimension in bytes", row_bytes,
                  "at most the swizzle's span (32, 64 or 128)");
  if (map->interleave == 2 && map->swizzle != 1)
    return refuse(host, "swizzle", map->swizzle, "1 (32 bytes) with 32-byte interleave");
  bool is_float = map->dtype >= TS_TENSORMAP_F16;
  if (map->oob_fill && !is_float)
    return refuse(host, "oobFill", map->oob_fill, "0 (zeros) for integer elements");
  if (map->stride_bytes[0] != map->elem_size_bytes)
    return refuse(host, "the innermost stride in bytes", map->stride_bytes[0], "the element size");
  return TS_OK;
}

enum ts_status ts__host_create_tensormap(struct ts__host *host, const struct tir_exprs *args,
                                         bool is_im2col) {
  struct reader reader = {host, args, 1};
  struct ts_tensormap map = {.is_im2col = is_im2col};
  if (args->count == 0 || args->items[0]->kind != TIR_VAR)
    return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "tensor map: the first argument is not a variable");
  TS_TRY(read_u32(&reader, 0, TS_TENSORMAP_DTYPE_COUNT - 1, "tensorDataType", &map.dtype));
  map.elem_size_bytes = elem_sizes[map.dtype];
  TS_TRY(read_u32(&reader, 1, TS_TENSORMAP_MAX_RANK, "tensorRank", &map.rank));
  TS_TRY(read_address(&reader, &map));
  TS_TRY(read_shape(&reader, &map));
  TS_TRY(is_im2col ? read_im2col(&reader, &map) : read_tiled(&reader, &map));
  TS_TRY(read_tail(&reader, &map));
  TS_TRY(check(host, &map));
  struct ts__host_value *variable = &host->vars[args->items[0]->var->id];
  *variable =
      (struct ts__host_value){.kind = TS__HOST_MAP, .index = (uint32_t)host->tensormaps.count};
  if (ts_vec_push(&host->tensormaps, host->ctx->allocator, map)) return ts_fail_memory(host->ctx);
  return TS_OK;
}
