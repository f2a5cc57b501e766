/* A block that has ended becomes a stream, or one more use of a stream. */
#include "model_nv/record_priv.h"

#include <stdlib.h>
#include <string.h>

enum { STREAM_TRIES = 16 };

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ hash >> 29;
}

/* Everything that makes the way through time, but not global addresses. */
static uint64_t builder_hash(const struct ts__block_builder *builder) {
  uint64_t hash = builder->warp_count;
  for (uint32_t w = 0; w < builder->warp_count; w++) {
    const struct ts__warp_builder *warp = &builder->warps[w];
    hash = mix(hash, warp->ops.count);
    for (size_t i = 0; i < warp->ops.count; i++) {
      const struct ts__op *op = &warp->ops.data[i];
      hash = mix(hash, (uint64_t)op->insn << 32 | op->payload);
      hash = mix(hash, (uint64_t)op->aux << 32 | (uint64_t)op->aux2 << 16 |
                           (uint64_t)op->kind << 8 | op->lanes);
    }
  }
  return mix(mix(mix(hash, builder->nodes.count), builder->accesses.count), builder->copies.count);
}

static bool same_ops(const struct ts__stream *stream, const struct ts__block_builder *builder) {
  if (stream->warp_count != builder->warp_count) return false;
  for (uint32_t w = 0; w < builder->warp_count; w++) {
    const struct ts__warp_builder *warp = &builder->warps[w];
    if (stream->warps[w].count != warp->ops.count) return false;
    if (warp->ops.count && memcmp(stream->ops + stream->warps[w].first, warp->ops.data,
                                  warp->ops.count * sizeof *warp->ops.data) != 0)
      return false;
  }
  return true;
}

static bool same_nodes(const struct ts__stream *stream, const struct ts__block_builder *builder) {
  size_t count = builder->nodes.count;
  if (stream->node_count != count) return false;
  return count == 0 ||
         memcmp(stream->nodes, builder->nodes.data, count * sizeof *stream->nodes) == 0;
}

static bool same_copies(const struct ts__stream *stream, const struct ts__block_builder *builder) {
  size_t count = builder->copies.count;
  if (stream->copy_count != count) return false;
  return count == 0 ||
         memcmp(stream->copies, builder->copies.data, count * sizeof *stream->copies) == 0;
}

/* Lanes of cp.async that only fill have address 0 in every block. */
static bool lanes_shift(const struct ts__access *from, const struct ts_footprint *to,
                        int64_t *bytes) {
  bool is_known = false;
  for (uint32_t lane = 0; lane < TS__WARP_LANES; lane++) {
    uint64_t a = from->footprint.lanes[lane], b = to->lanes[lane];
    if (!(from->mask >> lane & 1) || (a == 0 && b == 0)) continue;
    if (a == 0 || b == 0 || (is_known && b - a != (uint64_t)*bytes)) return false;
    *bytes = (int64_t)(b - a);
    is_known = true;
  }
  return true;
}

/* The shift of one access against the stream's; false when they differ in more than that. */
static bool shift_of(const struct ts__access *from, const struct ts__access *to,
                     struct ts_shift *shift) {
  const struct ts_footprint *a = &from->footprint, *b = &to->footprint;
  *shift = (struct ts_shift){.insn = to->insn};
  if (from->insn != to->insn || from->mask != to->mask || from->bytes != to->bytes ||
      a->kind != b->kind || a->size_bytes != b->size_bytes || a->rank != b->rank)
    return false;
  switch ((enum ts_footprint_kind)a->kind) {
  case TS_FOOTPRINT_AFFINE:
    shift->bytes = (int64_t)(b->base - a->base);
    return a->lane_stride == b->lane_stride;
  case TS_FOOTPRINT_LANES: return lanes_shift(from, b, &shift->bytes);
  case TS_FOOTPRINT_BOX:
    for (uint32_t i = 0; i < a->rank; i++) {
      shift->coordinate[i] = b->coordinate[i] - a->coordinate[i];
      if (a->extent[i] != b->extent[i] || a->stride_bytes[i] != b->stride_bytes[i] ||
          a->tensor_extent[i] != b->tensor_extent[i])
        return false;
    }
    return a->base == b->base;
  }
  return false;
}

static bool same_shift(const struct ts_shift *a, const struct ts_shift *b) {
  return a->bytes == b->bytes && memcmp(a->coordinate, b->coordinate, sizeof a->coordinate) == 0;
}

int ts__compare_shifts(const void *a, const void *b) {
  const struct ts_shift *x = a, *y = b;
  return x->insn < y->insn ? -1 : x->insn > y->insn;
}

/* Finds the shifts that make the stream's accesses the builder's: they are left in the recorder. */
static enum ts_status match_accesses(struct ts_model_nv *model, const struct ts__stream *stream,
                                     const struct ts__block_builder *builder, bool *is_match) {
  struct ts__recorder *recorder = model->recorder;
  recorder->shifts.count = 0;
  *is_match = false;
  for (size_t i = 0; i < builder->accesses.count; i++) {
    struct ts_shift shift;
    if (!shift_of(&stream->accesses[i], &builder->accesses.data[i], &shift)) return TS_OK;
    size_t k = 0;
    while (k < recorder->shifts.count && recorder->shifts.data[k].insn != shift.insn)
      k++;
    if (k < recorder->shifts.count && !same_shift(&recorder->shifts.data[k], &shift)) return TS_OK;
    if (k == recorder->shifts.count && ts_vec_push(&recorder->shifts, &recorder->allocator, shift))
      return ts__record_no_memory(model);
  }
  if (recorder->shifts.count)
    qsort(recorder->shifts.data, recorder->shifts.count, sizeof *recorder->shifts.data,
          ts__compare_shifts);
  *is_match = true;
  return TS_OK;
}

static void *copy_array(struct ts_arena *arena, const void *data, size_t count, size_t size_bytes) {
  void *copy = ts_arena_alloc_array(arena, count ? count : 1, size_bytes, 16);
  if (copy && count) memcpy(copy, data, count * size_bytes);
  return copy;
}

/* Looks at the newest: blocks that gather go the same way to places that have nothing in common, and
 * then none of many streams fits. */
static enum ts_status reuse_stream(struct ts_model_nv *model, struct ts__launch_record *record,
                                   const struct ts__block_builder *builder, uint64_t hash,
                                   bool *is_reused) {
  struct ts__recorder *recorder = model->recorder;
  uint32_t tries = 0;
  *is_reused = false;
  for (size_t i = record->streams.count; i-- > 0 && !*is_reused && tries < STREAM_TRIES;) {
    const struct ts__stream *stream = &record->streams.data[i];
    if (stream->hash != hash) continue;
    tries++;
    if (!same_ops(stream, builder) || !same_nodes(stream, builder) ||
        !same_copies(stream, builder) || stream->access_count != builder->accesses.count)
      continue;
    TS_TRY(match_accesses(model, stream, builder, is_reused));
    if (!*is_reused) continue;
    uint32_t count = (uint32_t)recorder->shifts.count;
    struct ts_shift *shifts =
        copy_array(&recorder->arena, recorder->shifts.data, count, sizeof *shifts);
    if (!shifts) return ts__record_no_memory(model);
    record->blocks[builder->block] = (struct ts__block_record){(uint32_t)i, count, shifts};
  }
  return TS_OK;
}

static enum ts_status copy_ops(struct ts_model_nv *model, const struct ts__block_builder *builder,
                               struct ts__stream *stream) {
  for (uint32_t w = 0; w < builder->warp_count; w++)
    stream->op_count += (uint32_t)builder->warps[w].ops.count;
  struct ts__op *ops = ts_new_array(&model->recorder->arena, struct ts__op, stream->op_count + 1);
  struct ts__warp_ops *warps =
      ts_new_array(&model->recorder->arena, struct ts__warp_ops, builder->warp_count);
  if (!ops || !warps) return ts__record_no_memory(model);
  uint32_t at = 0;
  for (uint32_t w = 0; w < builder->warp_count; w++) {
    size_t count = builder->warps[w].ops.count;
    warps[w] = (struct ts__warp_ops){at, (uint32_t)count};
    if (count) memcpy(ops + at, builder->warps[w].ops.data, count * sizeof *ops);
    at += (uint32_t)count;
  }
  stream->ops = ops;
  stream->warps = warps;
  return TS_OK;
}

static enum ts_status copy_accesses(struct ts_model_nv *model,
                                    const struct ts__block_builder *builder,
                                    struct ts__stream *stream) {
  struct ts__access *accesses = copy_array(&model->recorder->arena, builder->accesses.data,
                                           builder->accesses.count, sizeof *accesses);
  if (!accesses) return ts__record_no_memory(model);
  for (size_t i = 0; i < builder->accesses.count; i++) {
    if (accesses[i].footprint.kind != TS_FOOTPRINT_LANES) continue;
    accesses[i].footprint.lanes = copy_array(&model->recorder->arena, accesses[i].footprint.lanes,
                                             TS__WARP_LANES, sizeof(uint64_t));
    if (!accesses[i].footprint.lanes) return ts__record_no_memory(model);
  }
  stream->accesses = accesses;
  stream->access_count = (uint32_t)builder->accesses.count;
  return TS_OK;
}

static enum ts_status add_stream(struct ts_model_nv *model, struct ts__launch_record *record,
                                 const struct ts__block_builder *builder, uint64_t hash) {
  struct ts__stream stream = {.hash = hash,
                              .warp_count = builder->warp_count,
                              .node_count = (uint32_t)builder->nodes.count,
                              .copy_count = (uint32_t)builder->copies.count,
                              .mac_count = builder->mac_count,
                              .half_mac_count = builder->half_mac_count,
                              .flop = builder->flop + 2 * builder->mac_count};
  TS_TRY(copy_ops(model, builder, &stream));
  TS_TRY(copy_accesses(model, builder, &stream));
  stream.nodes = copy_array(&model->recorder->arena, builder->nodes.data, builder->nodes.count,
                            sizeof *stream.nodes);
  stream.copies = copy_array(&model->recorder->arena, builder->copies.data, builder->copies.count,
                             sizeof *stream.copies);
  if (!stream.nodes || !stream.copies) return ts__record_no_memory(model);
  record->blocks[builder->block] =
      (struct ts__block_record){.stream = (uint32_t)record->streams.count};
  if (ts_vec_push(&record->streams, &model->recorder->allocator, stream))
    return ts__record_no_memory(model);
  return TS_OK;
}

enum ts_status ts__record_stream(struct ts_model_nv *model, struct ts__launch_record *record,
                                 struct ts__block_builder *builder) {
  uint64_t hash = builder_hash(builder);
  bool is_reused;
  TS_TRY(reuse_stream(model, record, builder, hash, &is_reused));
  return is_reused ? TS_OK : add_stream(model, record, builder, hash);
}
