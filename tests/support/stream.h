/* A sink that keeps what every block of a run was told to do: a hash of its events without what
 * depends on the stream's order (seq, the cause of a landed copy). Blocks that are told as
 * repetitions are reconstructed from the events of their model. It also checks that synchronisation
 * can be replayed by counting (docs/trace-format.md). */
#ifndef TS_TEST_STREAM_H
#define TS_TEST_STREAM_H

#include "support/suite.h"
#include "trace/trace.h"

#include <stdlib.h>
#include <string.h>

struct stream_record {
  struct ts_event event;
  struct ts_footprint footprint;
  uint64_t lanes[32];
  bool has_footprint;
};

struct stream_block {
  uint64_t hash, count;
  struct stream_record *records; /* when they are kept */
  size_t capacity;
};

/* One phase of a sync object. */
struct stream_phase {
  uint64_t key[2];
  uint64_t contributions;
  int64_t bytes; /* expected minus copied */
  bool is_used, was_waited_for;
};

struct stream {
  struct ts_sink sink;
  uint64_t seq, repeat_count;
  bool keeps_records;
  uint32_t launch_count;
  uint32_t first_block[64]; /* by launch */
  uint32_t block_count;
  struct stream_block *blocks;
  struct stream_phase *phases; /* open addressing; of one launch */
  size_t phase_capacity, phase_count;
};

static inline uint64_t stream_mix(uint64_t hash, const void *data, size_t size_bytes) {
  for (size_t i = 0; i + 8 <= size_bytes; i += 8) {
    uint64_t word;
    memcpy(&word, (const uint8_t *)data + i, 8);
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    hash ^= hash >> 29;
  }
  return hash;
}

static inline uint64_t stream_hash(uint64_t hash, struct ts_event event,
                                   const struct ts_footprint *footprint, const uint64_t *lanes) {
  event.seq = 0;
  event.block = 0;
  event.footprint = footprint != NULL;
  if (event.kind == TS_EVENT_LANDED) event.cause = 0;
  hash = stream_mix(hash, &event, sizeof event);
  if (!footprint) return hash;
  uint64_t head[5] = {footprint->kind, footprint->space, footprint->rank, footprint->size_bytes,
                      footprint->base};
  hash = stream_mix(hash, head, sizeof head);
  hash = stream_mix(hash, &footprint->lane_stride, sizeof footprint->lane_stride);
  for (uint32_t i = 0; i < footprint->rank; i++) {
    uint64_t dimension[4] = {footprint->extent[i], (uint64_t)(int64_t)footprint->coordinate[i],
                             footprint->stride_bytes[i], footprint->tensor_extent[i]};
    hash = stream_mix(hash, dimension, sizeof dimension);
  }
  return footprint->kind == TS_FOOTPRINT_LANES ? stream_mix(hash, lanes, 32 * sizeof *lanes) : hash;
}

/* Check's own assertions write a file each time. */
static inline void stream_check(bool holds, const char *what) {
  if (!holds) ck_abort_msg("%s", what);
}

/* --- counting */

static inline struct stream_phase *stream_place(struct stream_phase *phases, size_t capacity,
                                                const uint64_t key[2]) {
  size_t at = (size_t)(stream_mix(0, key, 16) % capacity);
  while (phases[at].is_used && (phases[at].key[0] != key[0] || phases[at].key[1] != key[1]))
    at = (at + 1) % capacity;
  return &phases[at];
}

static inline struct stream_phase *stream_phase(struct stream *stream, const struct ts_event *event,
                                                uint32_t object, uint32_t phase) {
  bool is_of_warp = event->sync_kind == TS_SYNC_CP_ASYNC_GROUP ||
                    event->sync_kind == TS_SYNC_BULK_GROUP ||
                    event->sync_kind == TS_SYNC_WGMMA_GROUP;
  uint64_t block = event->sync_kind == TS_SYNC_CLUSTER ? 0
                   : event->kind == TS_EVENT_LANDED    ? event->block
                                                       : ts_event_target(event);
  uint64_t warp = is_of_warp ? event->warp + 1u : 0;
  const uint64_t key[2] = {(uint64_t)event->sync_kind << 56 | warp << 32 | block,
                           (uint64_t)object << 32 | phase};
  if (2 * stream->phase_count >= stream->phase_capacity) {
    size_t capacity = stream->phase_capacity ? 2 * stream->phase_capacity : 1024;
    struct stream_phase *phases = calloc(capacity, sizeof *phases);
    ck_assert_ptr_nonnull(phases);
    for (size_t i = 0; i < stream->phase_capacity; i++)
      if (stream->phases[i].is_used)
        *stream_place(phases, capacity, stream->phases[i].key) = stream->phases[i];
    free(stream->phases);
    stream->phases = phases;
    stream->phase_capacity = capacity;
  }
  struct stream_phase *place = stream_place(stream->phases, stream->phase_capacity, key);
  if (!place->is_used) {
    *place = (struct stream_phase){.key = {key[0], key[1]}, .is_used = true};
    stream->phase_count++;
  }
  return place;
}

static inline void stream_count(struct stream *stream, const struct ts_event *event) {
  if (event->kind == TS_EVENT_LAUNCH && stream->phases) {
    memset(stream->phases, 0, stream->phase_capacity * sizeof *stream->phases);
    stream->phase_count = 0;
  }
  bool is_contribution = event->kind == TS_EVENT_ARRIVE || event->kind == TS_EVENT_COPY ||
                         event->kind == TS_EVENT_MATRIX;
  if (event->sync_kind == TS_SYNC_NONE || event->sync_object == UINT32_MAX ||
      event->sync_phase == UINT32_MAX)
    return;
  if (!is_contribution && event->kind != TS_EVENT_WAIT) return;
  struct stream_phase *phase = stream_phase(stream, event, event->sync_object, event->sync_phase);
  if (is_contribution) {
    /* Clusters of one launch count their phases alike. */
    if (event->sync_kind != TS_SYNC_CLUSTER)
      stream_check(!phase->was_waited_for, "a phase grows after a wait");
    phase->contributions++;
    phase->bytes += event->kind == TS_EVENT_COPY ? -(int64_t)event->bytes : (int64_t)event->bytes;
    return;
  }
  stream_check(phase->contributions > 0, "a wait for a phase of which nothing was told");
  stream_check(event->sync_kind != TS_SYNC_MBARRIER || phase->bytes == 0,
               "a wait has passed before all bytes had been copied");
  phase->was_waited_for = true;
}

/* --- the sink */

static inline struct stream_block *stream_block(struct stream *stream, uint16_t launch,
                                                uint32_t block) {
  stream_check(launch < stream->launch_count, "an unknown launch");
  uint32_t index = stream->first_block[launch] + block;
  stream_check(index < stream->block_count, "an unknown block");
  return &stream->blocks[index];
}

static inline void stream_keep(struct stream_block *block, const struct ts_event *event,
                               const struct ts_footprint *footprint) {
  if (block->count == block->capacity) {
    block->capacity = block->capacity ? 2 * block->capacity : 256;
    block->records = realloc(block->records, block->capacity * sizeof *block->records);
    stream_check(block->records != NULL, "out of memory");
  }
  struct stream_record *record = &block->records[block->count];
  record->event = *event;
  record->has_footprint = footprint != NULL;
  if (!footprint) return;
  record->footprint = *footprint;
  if (footprint->kind == TS_FOOTPRINT_LANES)
    memcpy(record->lanes, footprint->lanes, sizeof record->lanes);
}

static inline enum ts_status stream_emit(struct ts_sink *sink, struct ts_event *event,
                                         const struct ts_footprint *footprint) {
  struct stream *stream = (struct stream *)sink;
  event->seq = stream->seq++;
  stream_count(stream, event);
  if (event->block == UINT32_MAX) return TS_OK;
  struct stream_block *block = stream_block(stream, event->launch, event->block);
  block->hash = stream_hash(block->hash, *event, footprint, footprint ? footprint->lanes : NULL);
  if (stream->keeps_records) stream_keep(block, event, footprint);
  block->count++;
  return TS_OK;
}

static inline void stream_shift(struct stream_record *record, const struct ts_shift *shift) {
  struct ts_footprint *footprint = &record->footprint;
  if (footprint->kind == TS_FOOTPRINT_AFFINE) footprint->base += (uint64_t)shift->bytes;
  for (uint32_t i = 0; footprint->kind == TS_FOOTPRINT_LANES && i < 32; i++)
    if (record->lanes[i]) record->lanes[i] += (uint64_t)shift->bytes;
  for (uint32_t i = 0; i < footprint->rank; i++)
    footprint->coordinate[i] += shift->coordinate[i];
}

static inline enum ts_status stream_repeat(struct ts_sink *sink, uint16_t launch, uint32_t block,
                                           uint32_t like_block, const struct ts_shift *shifts,
                                           uint32_t shift_count) {
  struct stream *stream = (struct stream *)sink;
  const struct stream_block *model = stream_block(stream, launch, like_block);
  struct stream_block *copy = stream_block(stream, launch, block);
  stream_check(model->count > 0 && copy->count == 0, "a repetition out of place");
  for (uint64_t i = 0; i < model->count; i++) {
    struct stream_record record = model->records[i];
    for (uint32_t k = 0; k < shift_count && record.has_footprint; k++)
      if (shifts[k].insn == record.event.insn && record.footprint.space == 0)
        stream_shift(&record, &shifts[k]);
    copy->hash = stream_hash(copy->hash, record.event,
                             record.has_footprint ? &record.footprint : NULL, record.lanes);
  }
  copy->count = model->count;
  stream->repeat_count++;
  return TS_OK;
}

/* repeats: the sink takes repetitions. */
static inline void stream_begin(struct stream *stream, bool repeats) {
  *stream = (struct stream){.sink = {.emit = stream_emit, .repeat = repeats ? stream_repeat : NULL},
                            .keeps_records = repeats};
}

/* Launches in order, before the run. */
static inline void stream_add_launch(struct stream *stream, uint32_t block_count) {
  ck_assert_uint_lt(stream->launch_count, 64);
  stream->first_block[stream->launch_count++] = stream->block_count;
  stream->block_count += block_count;
  free(stream->blocks);
  stream->blocks = calloc(stream->block_count, sizeof *stream->blocks);
  ck_assert_ptr_nonnull(stream->blocks);
}

static inline void stream_end(struct stream *stream) {
  for (uint32_t i = 0; i < stream->block_count; i++)
    free(stream->blocks[i].records);
  free(stream->blocks);
  free(stream->phases);
}

static inline void stream_expect_equal(const struct stream *a, const struct stream *b,
                                       const char *name) {
  ck_assert_uint_eq(a->block_count, b->block_count);
  for (uint32_t i = 0; i < a->block_count; i++)
    ck_assert_msg(a->blocks[i].hash == b->blocks[i].hash &&
                      a->blocks[i].count == b->blocks[i].count,
                  "%s: block %u of %u differs, %llu and %llu events", name, i, a->block_count,
                  (unsigned long long)a->blocks[i].count, (unsigned long long)b->blocks[i].count);
}

#endif
