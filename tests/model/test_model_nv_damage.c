/* Event streams that no run makes, as a file may hold them: the model must
 * answer with a status, in bounded time, whatever the reader lets pass
 * (trace/reader.c: event_problem). And memory that runs out at any allocation.
 */
#include "model/sample.h"
#include "support/failing_allocator.h"
#include "support/suite.h"

enum { ROUNDS = 4, GRID = 3, SEEDS = 150 };

/* --- tapes: the events of a run */

struct record {
  struct ts_event event;
  struct ts_footprint footprint;
  uint64_t lanes[32];
  bool has_footprint;
};

struct tape {
  struct ts_sink sink;
  struct record *records;
  size_t count, capacity;
};

static enum ts_status tape_emit(struct ts_sink *sink, struct ts_event *event,
                                const struct ts_footprint *footprint) {
  struct tape *tape = (struct tape *)sink;
  if (tape->count == tape->capacity) {
    tape->capacity = tape->capacity ? 2 * tape->capacity : 1024;
    tape->records = realloc(tape->records, tape->capacity * sizeof *tape->records);
    ck_assert_ptr_nonnull(tape->records);
  }
  event->seq = tape->count;
  struct record *record = &tape->records[tape->count++];
  *record = (struct record){.event = *event, .has_footprint = footprint != NULL};
  if (!footprint) return TS_OK;
  record->footprint = *footprint;
  if (footprint->kind == TS_FOOTPRINT_LANES)
    memcpy(record->lanes, footprint->lanes, sizeof record->lanes);
  return TS_OK;
}

/* A described kernel and its tape. */
struct fixture {
  struct timed t;
  struct tape tape;
};

static void begin(struct fixture *x, enum sample_id id) {
  sample_begin(&x->t, id, ROUNDS);
  struct kernel *k = &x->t.kernel;
  x->tape = (struct tape){.sink = {.emit = tape_emit}};
  k->options.sink = &x->tape.sink;
  timed_describe(&x->t, GRID, sample_threads[id]);
  ck_assert_int_eq(kernel_run(k, GRID, sample_threads[id]), TS_OK);
}

static void end(struct fixture *x) {
  free(x->tape.records);
  timed_end(&x->t);
}

static enum ts_status play(struct ts_ctx *ctx, struct fixture *x, const struct tape *tape) {
  struct ts_model_nv *model;
  const struct ts_time_report *report;
  x->t.options.machine = &x->t.kernel.machine;
  enum ts_status status = ts_model_nv_open(ctx, &x->t.options, &x->t.program, &model);
  if (status != TS_OK) return status;
  struct ts_sink *sink = ts_model_nv_sink(model);
  for (size_t i = 0; i < tape->count && status == TS_OK; i++) {
    struct record *record = &tape->records[i];
    struct ts_event event = record->event;
    record->footprint.lanes = record->lanes;
    status = sink->emit(sink, &event, record->has_footprint ? &record->footprint : NULL);
  }
  if (status == TS_OK) status = ts_model_nv_finish(model, &report);
  ts_model_nv_close(model);
  return status;
}

/* A status with a story, or a result. */
static void expect_answer(struct fixture *x, enum ts_status status) {
  ck_assert_int_le(status, TS_NO_MEMORY);
  if (status != TS_OK) ck_assert_uint_gt(x->t.kernel.diags.items.count, 0);
}

static struct record *find(struct tape *tape, enum ts_event_kind kind, enum ts_sync_kind sync) {
  for (size_t i = 0; i < tape->count; i++)
    if (tape->records[i].event.kind == kind && tape->records[i].event.sync_kind == sync)
      return &tape->records[i];
  ck_abort_msg("the sample has no such event");
  return NULL;
}

/* --- single faults */

START_TEST(test_undamaged) {
  for (enum sample_id id = 0; id < SAMPLE_COUNT; id++) {
    struct fixture x;
    begin(&x, id);
    ck_assert_int_eq(play(&x.t.kernel.ctx, &x, &x.tape), TS_OK);
    end(&x);
  }
}
END_TEST

/* A wait for a group far beyond those that were closed. */
START_TEST(test_far_group) {
  static const uint32_t groups[] = {100, 1000000, 1u << 31, UINT32_MAX - 1};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    struct fixture x;
    begin(&x, SAMPLE_ID_COPY);
    find(&x.tape, TS_EVENT_WAIT, TS_SYNC_CP_ASYNC_GROUP)->event.sync_object = groups[i];
    expect_answer(&x, play(&x.t.kernel.ctx, &x, &x.tape));
    end(&x);
  }
}
END_TEST

/* Events of a launch that has not begun. */
START_TEST(test_lost_launch) {
  struct fixture x;
  begin(&x, SAMPLE_ID_MIX);
  ck_assert_int_eq(x.tape.records[0].event.kind, TS_EVENT_LAUNCH);
  struct tape rest = {.records = x.tape.records + 1, .count = x.tape.count - 1};
  ck_assert_int_eq(play(&x.t.kernel.ctx, &x, &rest), TS_BAD_INPUT);
  end(&x);
}
END_TEST

START_TEST(test_unknown_block) {
  static const uint32_t blocks[] = {GRID, 1000, 1u << 31, UINT32_MAX - 1};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    struct fixture x;
    begin(&x, SAMPLE_ID_MIX);
    for (size_t r = 0; r < x.tape.count; r++)
      if (x.tape.records[r].event.block == GRID - 1) x.tape.records[r].event.block = blocks[i];
    ck_assert_int_eq(play(&x.t.kernel.ctx, &x, &x.tape), TS_BAD_INPUT);
    end(&x);
  }
}
END_TEST

START_TEST(test_warps_of_a_block) {
  static const uint32_t counts[] = {0, 1, 3, 5, 33, 65535, 1u << 24, UINT32_MAX};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    struct fixture x;
    begin(&x, SAMPLE_ID_MIX);
    for (size_t r = 0; r < x.tape.count; r++)
      if (x.tape.records[r].event.kind == TS_EVENT_BLOCK) x.tape.records[r].event.work = counts[i];
    enum ts_status status = play(&x.t.kernel.ctx, &x, &x.tape);
    ck_assert_msg(status == TS_BAD_INPUT || status == TS_LIMIT, "%u warps: %s", counts[i],
                  ts_status_text(status));
    end(&x);
  }
}
END_TEST

/* The wait comes before what it waits for, in every warp. */
START_TEST(test_wait_before_arrival) {
  struct fixture x;
  begin(&x, SAMPLE_ID_MIX);
  for (size_t r = 0; r + 1 < x.tape.count; r++) {
    struct ts_event *event = &x.tape.records[r].event;
    if (event->sync_kind != TS_SYNC_BARRIER) continue;
    if (event->kind == TS_EVENT_ARRIVE)
      event->kind = TS_EVENT_WAIT;
    else if (event->kind == TS_EVENT_WAIT)
      event->kind = TS_EVENT_ARRIVE;
  }
  ck_assert_int_eq(play(&x.t.kernel.ctx, &x, &x.tape), TS_BAD_INPUT);
  end(&x);
}
END_TEST

/* A box of 2^31 rows, of which a tensor of as many is behind; rows that are far
 * apart. */
START_TEST(test_huge_boxes) {
  struct fixture x;
  begin(&x, SAMPLE_ID_RING);
  for (size_t r = 0; r < x.tape.count; r++) {
    struct ts_footprint *footprint = &x.tape.records[r].footprint;
    if (!x.tape.records[r].has_footprint || footprint->kind != TS_FOOTPRINT_BOX) continue;
    footprint->extent[1] = 1u << 31;
    footprint->tensor_extent[1] = UINT64_MAX;
    footprint->stride_bytes[1] = UINT64_C(1) << 40;
  }
  expect_answer(&x, play(&x.t.kernel.ctx, &x, &x.tape));
  end(&x);
}
END_TEST

/* --- random damage */

static uint32_t draw(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

static uint32_t draw_word(uint64_t *state, uint32_t now) {
  switch (draw(state) % 7) {
  case 0: return 0;
  case 1: return UINT32_MAX;
  case 2: return 1u << 31;
  case 3: return now + 1;
  case 4: return now - 1;
  case 5: return draw(state) % 64;
  default: return draw(state);
  }
}

static void damage_footprint(struct record *record, uint64_t *state) {
  struct ts_footprint *footprint = &record->footprint;
  uint32_t dimension = draw(state) % 5;
  switch (draw(state) % 8) {
  case 0: record->has_footprint = !record->has_footprint; break;
  case 1: footprint->size_bytes = draw_word(state, footprint->size_bytes) % 4096; break;
  case 2: footprint->base = (uint64_t)draw(state) << 33 | draw(state); break;
  case 3: footprint->lane_stride = (int64_t)draw_word(state, 4) << (draw(state) % 30); break;
  case 4: footprint->space = (uint8_t)(draw(state) % 4); break;
  case 5: footprint->coordinate[dimension] = (int32_t)draw_word(state, 0); break;
  case 6: footprint->tensor_extent[dimension] = draw_word(state, 64); break;
  default: footprint->kind = (uint8_t)(draw(state) % 2); break;
  }
}

static void damage_event(const struct fixture *x, struct record *record, uint64_t *state) {
  struct ts_event *event = &record->event;
  uint32_t insns = x->t.function.insn_count;
  switch (draw(state) % 13) {
  case 0: event->kind = (uint8_t)(draw(state) % TS_EVENT_KIND_COUNT); break;
  case 1: event->sync_kind = (uint8_t)(draw(state) % (TS_SYNC_CLUSTER + 1)); break;
  case 2: event->insn = draw(state) % 4 ? draw(state) % insns : UINT32_MAX; break;
  case 3: event->op = (uint16_t)(draw(state) % TS_OP_COUNT); break;
  case 4: event->warp = (uint16_t)draw_word(state, event->warp); break;
  case 5: event->block = draw_word(state, event->block); break;
  case 6: event->mask = draw_word(state, event->mask); break;
  case 7: event->bytes = draw_word(state, event->bytes); break;
  case 8: event->work = draw_word(state, event->work) % 65536; break;
  case 9: event->sync_object = draw_word(state, event->sync_object) % 100000; break;
  case 10: event->sync_phase = draw_word(state, event->sync_phase); break;
  case 11: event->lanes = (uint8_t)draw(state); break;
  default: damage_footprint(record, state); break;
  }
}

/* Loses, repeats and swaps whole events. */
static void damage_order(struct tape *tape, uint64_t *state) {
  size_t at = 1 + draw(state) % (tape->count - 2);
  struct record moved = tape->records[at];
  switch (draw(state) % 3) {
  case 0:
    memmove(&tape->records[at], &tape->records[at + 1],
            (--tape->count - at) * sizeof *tape->records);
    break;
  case 1: tape->records[draw(state) % tape->count] = moved; break;
  default:
    tape->records[at] = tape->records[at + 1];
    tape->records[at + 1] = moved;
    break;
  }
}

static void play_damaged(enum sample_id id) {
  struct fixture x;
  begin(&x, id);
  struct tape copy = {.records = malloc(x.tape.count * sizeof *copy.records)};
  ck_assert_ptr_nonnull(copy.records);
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    uint64_t state = seed * 0x9E3779B97F4A7C15u;
    copy.count = x.tape.count;
    memcpy(copy.records, x.tape.records, copy.count * sizeof *copy.records);
    for (uint32_t n = 1 + draw(&state) % 8; n > 0; n--) {
      if (draw(&state) % 4 == 0)
        damage_order(&copy, &state);
      else
        damage_event(&x, &copy.records[draw(&state) % copy.count], &state);
    }
    if (getenv("TS_SHOW_SEED")) fprintf(stderr, "sample %d seed %u\n", (int)id, (unsigned)seed);
    expect_answer(&x, play(&x.t.kernel.ctx, &x, &copy));
  }
  free(copy.records);
  end(&x);
}

START_TEST(test_damaged_mix) { play_damaged(SAMPLE_ID_MIX); }
END_TEST
START_TEST(test_damaged_copy) { play_damaged(SAMPLE_ID_COPY); }
END_TEST
START_TEST(test_damaged_wgmma) { play_damaged(SAMPLE_ID_WGMMA); }
END_TEST
START_TEST(test_damaged_ring) { play_damaged(SAMPLE_ID_RING); }
END_TEST

/* --- memory */

/* Every allocation of the model may fail: TS_NO_MEMORY, and nothing is lost. */
START_TEST(test_short_memory) {
  for (enum sample_id id = 0; id < SAMPLE_COUNT; id++) {
    struct fixture x;
    struct failing_allocator memory;
    begin(&x, id);
    failing_allocator_init(&memory);
    for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
      struct ts_ctx ctx = {&memory.allocator, &x.t.kernel.diags};
      enum ts_status status = play(&ctx, &x, &x.tape);
      ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    }
    end(&x);
  }
}
END_TEST

int main(void) {
  return RUN_TESTS("damage", test_undamaged, test_far_group, test_lost_launch, test_unknown_block,
                   test_warps_of_a_block, test_wait_before_arrival, test_huge_boxes,
                   test_damaged_mix, test_damaged_copy, test_damaged_wgmma, test_damaged_ring,
                   test_short_memory);
}
