/* The recorder: what it refuses and says, groups, streams that are alike, blocks of a cluster. */
#include "model_nv/model_nv_priv.h"
#include "support/failing_allocator.h"
#include "support/suite.h"
#include "support/timed.h"

enum { WARPS = 2 };
#define NONE UINT32_MAX

static const char kernel_body[] =
    "function \"f\" {\nparam p0 pointer u8 %0 \"data\"\nreg %0 ptr\narray a0 f32 64\n"
    "b0 in r0:\n%1 = sreg u32 {which=tid.x}\nwgmma.fence\n"
    "wgmma.ss f32 f16 0x4000004000010000, 0x4000004000010400, a0, 0, 1 {m=64, n=128, k=16, "
    "b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\nwgmma.commit\nwgmma.wait 0\nexit\n}\n";

/* A model of a launch of `grid` blocks of two warps, to which a test tells events. */
struct told {
  struct timed t;
  uint32_t grid, cluster;
  enum ts_status status; /* the first that was not TS_OK */
};

static void told_describe(struct told *x, uint32_t grid, uint32_t cluster) {
  *x = (struct told){.grid = grid, .cluster = cluster};
  timed_begin(&x->t, kernel_body);
  timed_buffer(&x->t, 4096);
  timed_describe(&x->t, grid, 32 * WARPS);
  x->t.launch.cluster[0] = cluster;
  x->t.options.machine = &x->t.kernel.machine;
}

static void told_open(struct told *x, struct ts_ctx *ctx) {
  x->status = ts_model_nv_open(ctx, &x->t.options, &x->t.program, &x->t.model);
}

static void told_begin(struct told *x, uint32_t grid, uint32_t cluster) {
  told_describe(x, grid, cluster);
  told_open(x, &x->t.kernel.ctx);
  ck_assert_int_eq(x->status, TS_OK);
}

static void told_end(struct told *x) { timed_end(&x->t); }

static void tell(struct told *x, struct ts_event event) {
  struct ts_sink *sink = x->status == TS_OK ? ts_model_nv_sink(x->t.model) : NULL;
  if (event.kind == TS_EVENT_BLOCK && event.work == 0) event.work = WARPS;
  if (sink) x->status = sink->emit(sink, &event, NULL);
}

static struct ts_event agent(enum ts_event_kind kind, uint32_t block, uint16_t warp) {
  return (struct ts_event){.kind = (uint8_t)kind,
                           .block = block,
                           .warp = warp,
                           .insn = NONE,
                           .op = UINT16_MAX,
                           .src_space = 0xff,
                           .dst_space = 0xff,
                           .mask = UINT32_MAX};
}

static void tell_agent(struct told *x, enum ts_event_kind kind, uint32_t block, uint16_t warp) {
  tell(x, agent(kind, block, warp));
}

static void tell_start(struct told *x) {
  tell_agent(x, TS_EVENT_LAUNCH, NONE, UINT16_MAX);
  for (uint32_t b = 0; b < x->grid; b++)
    tell_agent(x, TS_EVENT_BLOCK, b, UINT16_MAX);
}

static void tell_ends(struct told *x) {
  for (uint32_t b = 0; b < x->grid; b++) {
    for (uint16_t w = 0; w < WARPS; w++)
      tell_agent(x, TS_EVENT_END, b, w);
    tell_agent(x, TS_EVENT_END, b, UINT16_MAX);
  }
}

static void tell_group(struct told *x, enum ts_event_kind kind, uint32_t block, uint32_t group) {
  struct ts_event event = agent(kind, block, 0);
  event.sync_kind = TS_SYNC_CP_ASYNC_GROUP;
  event.sync_object = group;
  tell(x, event);
}

/* An arrival, a copy or a wait at the mbarrier 64 of the block `at`. */
static void tell_mbarrier(struct told *x, enum ts_event_kind kind, uint32_t block, uint16_t warp,
                          uint32_t at, uint32_t bytes) {
  struct ts_event event = agent(kind, block, warp);
  event.sync_kind = TS_SYNC_MBARRIER;
  event.sync_object = 64;
  event.bytes = bytes;
  event.work = kind == TS_EVENT_ARRIVE;
  if (kind == TS_EVENT_COPY) event.op = TS_OP_tma_load_multicast;
  if (at != block) event.cause = (uint64_t)at + 1;
  tell(x, event);
}

static const struct ts__stream *stream_of(const struct told *x, uint32_t block) {
  const struct ts__launch_record *record = &x->t.model->launches[0];
  ck_assert_uint_ne(record->blocks[block].stream, NONE);
  return &record->streams.data[record->blocks[block].stream];
}

static const char *told_message(const struct told *x) { return kernel_message(&x->t.kernel, 0); }

static void expect_bad(struct told *x, const char *what) {
  ck_assert_int_eq(x->status, TS_BAD_INPUT);
  ck_assert_msg(strstr(told_message(x), what) != NULL, "\"%s\" is not in \"%s\"", what,
                told_message(x));
  told_end(x);
}

/* --- what is refused */

START_TEST(test_launches) {
  struct told x;
  told_begin(&x, 4, 1);
  tell_agent(&x, TS_EVENT_BLOCK, 0, UINT16_MAX);
  expect_bad(&x, "its launch has not begun");
  told_begin(&x, 4, 1);
  tell_agent(&x, TS_EVENT_LAUNCH, NONE, UINT16_MAX);
  tell_agent(&x, TS_EVENT_LAUNCH, NONE, UINT16_MAX);
  expect_bad(&x, "the launch begins a second time");
  told_begin(&x, 4, 1);
  struct ts_event event = agent(TS_EVENT_LAUNCH, NONE, UINT16_MAX);
  event.launch = 3;
  tell(&x, event);
  expect_bad(&x, "the program has 1 launches");
}
END_TEST

START_TEST(test_blocks) {
  struct told x;
  told_begin(&x, 4, 1);
  tell_start(&x);
  tell_agent(&x, TS_EVENT_BLOCK, 4, UINT16_MAX);
  expect_bad(&x, "block 4: the launch has 4 blocks");
  told_begin(&x, 4, 1);
  tell_start(&x);
  tell_agent(&x, TS_EVENT_BLOCK, 2, UINT16_MAX);
  expect_bad(&x, "block 2: the block begins a second time");
  told_begin(&x, 4, 1);
  tell_start(&x);
  tell_ends(&x);
  tell_agent(&x, TS_EVENT_BLOCK, 2, UINT16_MAX);
  expect_bad(&x, "block 2: the block begins a second time");
  told_begin(&x, 4, 1);
  tell_agent(&x, TS_EVENT_LAUNCH, NONE, UINT16_MAX);
  struct ts_event event = agent(TS_EVENT_BLOCK, 0, UINT16_MAX);
  event.work = 3;
  tell(&x, event);
  expect_bad(&x, "the block has 3 warps, but those of the launch have 2");
}
END_TEST

START_TEST(test_warps) {
  struct told x;
  told_begin(&x, 4, 1);
  tell_agent(&x, TS_EVENT_LAUNCH, NONE, UINT16_MAX);
  tell_agent(&x, TS_EVENT_INSN, 1, 0);
  expect_bad(&x, "block 1, warp 0: \"insn\", but the block has not begun");
  told_begin(&x, 4, 1);
  tell_start(&x);
  tell_ends(&x);
  tell_agent(&x, TS_EVENT_INSN, 1, 0);
  expect_bad(&x, "\"insn\", but the block has ended");
  told_begin(&x, 4, 1);
  tell_start(&x);
  tell_agent(&x, TS_EVENT_INSN, 1, 2);
  expect_bad(&x, "the block has 2 warps");
  told_begin(&x, 4, 1);
  tell_start(&x);
  tell_agent(&x, TS_EVENT_END, 1, 0);
  tell_agent(&x, TS_EVENT_INSN, 1, 0);
  expect_bad(&x, "\"insn\", but the warp has ended");
  told_begin(&x, 4, 1);
  tell_start(&x);
  tell_agent(&x, TS_EVENT_END, 1, 0);
  tell_agent(&x, TS_EVENT_END, 1, UINT16_MAX);
  expect_bad(&x, "the block ends before its warp 1 has ended");
}
END_TEST

START_TEST(test_insns) {
  struct ts_event event = agent(TS_EVENT_MATRIX, 0, 0);
  struct told x;
  told_begin(&x, 1, 1);
  tell_start(&x);
  tell(&x, event);
  expect_bad(&x, "instruction 4294967295 of a function of 6");
  event.insn = 0;
  event.op = TS_OP_wgmma_ss;
  told_begin(&x, 1, 1);
  tell_start(&x);
  tell(&x, event);
  expect_bad(&x, "instruction 0 is sreg, but the event is of wgmma.ss");
}
END_TEST

/* Ops come in the order of their ranks, equal ones as told; a file's ranks may be any numbers. */
START_TEST(test_ranks) {
  static const uint32_t ranks[5] = {3, 1, 2, 0, 4}, order[5] = {3, 1, 2, 0, 4};
  for (uint32_t step = 1; step; step <<= 14) {
    struct ts_code_insn insns[6];
    struct told x;
    told_describe(&x, 1, 1);
    memcpy(insns, x.t.code.insns, sizeof insns);
    for (uint32_t i = 0; i < 5; i++)
      insns[i].rank = ranks[i] * step;
    x.t.code.insns = insns;
    told_open(&x, &x.t.kernel.ctx);
    tell_start(&x);
    for (uint32_t i = 0; i < 10; i++) {
      struct ts_event event = agent(TS_EVENT_INSN, 0, 0);
      event.insn = i / 2;
      event.op = insns[i / 2].op;
      event.mask = i % 2 ? 3 : 1;
      tell(&x, event);
    }
    tell_ends(&x);
    const struct ts__stream *stream = stream_of(&x, 0);
    for (uint32_t i = 0; i < 10; i++) {
      ck_assert_uint_eq(stream->ops[i].insn, order[i / 2]);
      ck_assert_uint_eq(stream->ops[i].lanes, 1 + i % 2);
    }
    told_end(&x);
  }
}
END_TEST

START_TEST(test_phases) {
  struct told x;
  told_begin(&x, 2, 2);
  tell_start(&x);
  tell_mbarrier(&x, TS_EVENT_ARRIVE, 0, 0, 1, 0); /* at the neighbour's */
  tell_mbarrier(&x, TS_EVENT_WAIT, 1, 0, 1, 0);
  ck_assert_int_eq(x.status, TS_OK);
  tell_mbarrier(&x, TS_EVENT_WAIT, 0, 0, 0, 0);
  expect_bad(&x, "a wait for phase 0 of mbarrier 64, for which nobody has arrived");
}
END_TEST

START_TEST(test_targets) {
  struct told x;
  told_begin(&x, 4, 2);
  tell_start(&x);
  tell_mbarrier(&x, TS_EVENT_ARRIVE, 1, 0, 2, 0);
  expect_bad(&x, "it acts on block 2, which is not of the same cluster");
  told_begin(&x, 4, 2);
  tell_start(&x);
  tell_mbarrier(&x, TS_EVENT_ARRIVE, 1, 0, 4, 0);
  expect_bad(&x, "it acts on block 4, which is not of the same cluster");
}
END_TEST

START_TEST(test_repetitions) {
  static const uint32_t pairs[][2] = {{1, 0}, {4, 0}, {1, 4}, {1, NONE}};
  static const char *const messages[] = {"it repeats block 0, which has not ended",
                                         "the launch has 4 blocks", "it repeats block 4",
                                         "it repeats block 4294967295"};
  struct told x;
  for (int i = 0; i < 4; i++) {
    told_begin(&x, 4, 1);
    tell_agent(&x, TS_EVENT_LAUNCH, NONE, UINT16_MAX);
    struct ts_sink *sink = ts_model_nv_sink(x.t.model);
    x.status = sink->repeat(sink, 0, pairs[i][0], pairs[i][1], NULL, 0);
    expect_bad(&x, messages[i]);
  }
  told_begin(&x, 1, 1);
  tell_start(&x);
  tell_ends(&x);
  struct ts_sink *sink = ts_model_nv_sink(x.t.model);
  x.status = sink->repeat(sink, 0, 0, 0, NULL, 0);
  expect_bad(&x, "the block begins a second time");
}
END_TEST

/* --- groups */

START_TEST(test_groups) {
  static const uint32_t unknown[] = {3, 1000000, UINT32_MAX - 1};
  struct told x;
  for (int i = 0; i < 3; i++) {
    told_begin(&x, 1, 1);
    tell_start(&x);
    for (uint32_t g = 0; g < 3; g++)
      tell_group(&x, TS_EVENT_ARRIVE, 0, g);
    tell_group(&x, TS_EVENT_WAIT, 0, unknown[i]);
    expect_bad(&x, "but the warp has closed 3");
  }
  /* Many empty groups, and a wait for the last: all are complete. */
  told_begin(&x, 1, 1);
  tell_start(&x);
  for (uint32_t g = 0; g < 200000; g++)
    tell_group(&x, TS_EVENT_ARRIVE, 0, g);
  tell_group(&x, TS_EVENT_WAIT, 0, 199999);
  tell_ends(&x);
  ck_assert_int_eq(x.status, TS_OK);
  ck_assert_uint_eq(stream_of(&x, 0)->node_count, 200000);
  ck_assert_int_eq(ts_model_nv_finish(x.t.model, &x.t.report), TS_OK);
  told_end(&x);
}
END_TEST

/* --- streams */

static uint32_t draw(uint64_t *state, uint32_t count) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33) % count;
}

static uint32_t count_streams(struct told *x) {
  tell_ends(x);
  ck_assert_int_eq(x->status, TS_OK);
  uint32_t count = (uint32_t)x->t.model->launches[0].streams.count;
  told_end(x);
  return count;
}

/* Ops that are alike with copies or nodes that are not. */
START_TEST(test_equal_streams) {
  for (uint32_t other_bytes = 128; other_bytes <= 256; other_bytes += 128) {
    struct told x;
    told_begin(&x, 2, 1);
    tell_start(&x);
    for (uint32_t b = 0; b < 2; b++)
      tell_mbarrier(&x, TS_EVENT_COPY, b, 0, b, b ? other_bytes : 128);
    ck_assert_uint_eq(count_streams(&x), other_bytes / 128);
  }
  for (uint32_t is_other = 0; is_other < 2; is_other++) {
    struct told x;
    told_begin(&x, 2, 1);
    tell_start(&x);
    for (uint32_t b = 0; b < 2; b++) {
      struct ts_event event = agent(TS_EVENT_ARRIVE, b, 0);
      event.sync_kind = b && is_other ? TS_SYNC_MBARRIER : TS_SYNC_BARRIER;
      tell(&x, event);
    }
    ck_assert_uint_eq(count_streams(&x), 1 + is_other);
  }
}
END_TEST

/* Blocks that read anywhere, each as its neighbour does but 64 bytes on. */
START_TEST(test_gathers) {
  struct told x;
  uint64_t state = 1, lanes[32];
  struct ts_footprint footprint = {.kind = TS_FOOTPRINT_LANES, .size_bytes = 4, .lanes = lanes};
  told_begin(&x, 200, 1);
  tell_start(&x);
  struct ts_sink *sink = ts_model_nv_sink(x.t.model);
  for (uint32_t b = 0; b < x.grid; b++) {
    struct ts_event event = agent(TS_EVENT_MEMORY, b, 0);
    for (uint32_t i = 0; i < 32; i++)
      lanes[i] = b % 2 ? lanes[i] + 64 : 4096 + 4 * draw(&state, 1u << 20);
    ck_assert_int_eq(sink->emit(sink, &event, &footprint), TS_OK);
  }
  ck_assert_uint_eq(count_streams(&x), 100);
}
END_TEST

START_TEST(test_limit) {
  struct told x;
  told_describe(&x, 1, 1);
  x.t.options.record_limit_bytes = 64 << 10;
  told_open(&x, &x.t.kernel.ctx);
  tell_start(&x);
  for (int i = 0; i < 1000; i++)
    tell_agent(&x, TS_EVENT_INSN, 0, 0);
  ck_assert_int_eq(x.status, TS_OK);
  for (int i = 0; i < 100000; i++)
    tell_agent(&x, TS_EVENT_INSN, 0, 0);
  ck_assert_int_eq(x.status, TS_LIMIT);
  ck_assert_ptr_nonnull(strstr(told_message(&x), "64 KiB"));
  told_end(&x);
}
END_TEST

/* --- clusters */

static uint32_t count_ops(const struct ts__stream *stream, enum ts__op_kind kind) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < stream->op_count; i++)
    count += stream->ops[i].kind == kind;
  return count;
}

/* What the stream's first wait expects. */
static uint32_t expected_of(const struct ts__stream *stream) {
  for (uint32_t i = 0; i < stream->op_count; i++)
    if (stream->ops[i].kind == TS__OP_WAIT) return stream->nodes[stream->ops[i].payload].expected;
  ck_abort_msg("nothing waits");
  return 0;
}

/* Block 0 loads for both, each block arrives at its own mbarrier. */
static void tell_multicast(struct told *x) {
  tell_start(x);
  for (uint32_t b = 0; b < 2; b++)
    tell_mbarrier(x, TS_EVENT_ARRIVE, b, 0, b, 0);
  for (uint32_t b = 0; b < 2; b++)
    tell_mbarrier(x, TS_EVENT_COPY, 0, 0, b, 128);
  for (uint32_t b = 0; b < 2; b++)
    tell_mbarrier(x, TS_EVENT_WAIT, b, 1, b, 0);
  tell_ends(x);
}

START_TEST(test_multicast) {
  struct told x;
  told_begin(&x, 2, 2);
  tell_multicast(&x);
  ck_assert_int_eq(x.status, TS_OK);
  const struct ts__stream *first = stream_of(&x, 0), *second = stream_of(&x, 1);
  ck_assert_uint_eq(expected_of(first), 2); /* not the copy for the neighbour */
  ck_assert_uint_eq(count_ops(first, TS__OP_COPY), 2);
  ck_assert_uint_eq(expected_of(second), 2);
  ck_assert_uint_eq(count_ops(second, TS__OP_COPY), 1);
  ck_assert(second->copies[0].is_passive);
  ck_assert_int_eq(ts_model_nv_finish(x.t.model, &x.t.report), TS_OK);
  told_end(&x);
}
END_TEST

/* Both blocks arrive at both mbarriers: the arrival at the neighbour's stands for the neighbour's. */
START_TEST(test_symmetric) {
  struct told x;
  told_begin(&x, 2, 2);
  tell_start(&x);
  for (uint32_t b = 0; b < 2; b++)
    for (uint32_t at = 0; at < 2; at++)
      tell_mbarrier(&x, TS_EVENT_ARRIVE, b, 0, at, 0);
  for (uint32_t b = 0; b < 2; b++)
    tell_mbarrier(&x, TS_EVENT_WAIT, b, 1, b, 0);
  tell_ends(&x);
  ck_assert_int_eq(x.status, TS_OK);
  for (uint32_t b = 0; b < 2; b++) {
    ck_assert_uint_eq(expected_of(stream_of(&x, b)), 2);
    ck_assert_uint_eq(count_ops(stream_of(&x, b), TS__OP_ARRIVE), 2);
  }
  ck_assert_int_eq(ts_model_nv_finish(x.t.model, &x.t.report), TS_OK);
  told_end(&x);
}
END_TEST

/* Four blocks tell the first; its own warp of that number has ended. Only the first waits. */
START_TEST(test_gather) {
  struct told x;
  told_begin(&x, 4, 4);
  tell_start(&x);
  tell_agent(&x, TS_EVENT_END, 0, 0);
  for (uint32_t b = 1; b < 4; b++)
    tell_mbarrier(&x, TS_EVENT_ARRIVE, b, 0, 0, 0);
  tell_mbarrier(&x, TS_EVENT_WAIT, 0, 1, 0, 0);
  tell_agent(&x, TS_EVENT_END, 0, 1);
  tell_agent(&x, TS_EVENT_END, 0, UINT16_MAX);
  for (uint32_t b = 1; b < 4; b++) {
    for (uint16_t w = 0; w < WARPS; w++)
      tell_agent(&x, TS_EVENT_END, b, w);
    tell_agent(&x, TS_EVENT_END, b, UINT16_MAX);
  }
  ck_assert_int_eq(x.status, TS_OK);
  const struct ts__stream *first = stream_of(&x, 0);
  ck_assert_uint_eq(expected_of(first), 3);
  ck_assert_uint_eq(count_ops(first, TS__OP_ARRIVE), 3);
  ck_assert_uint_eq(first->warps[0].count, 1);
  ck_assert_ptr_eq(stream_of(&x, 1), stream_of(&x, 3));
  ck_assert_uint_eq(stream_of(&x, 1)->nodes[0].expected, 0); /* nobody waits there */
  ck_assert_int_eq(ts_model_nv_finish(x.t.model, &x.t.report), TS_OK);
  told_end(&x);
}
END_TEST

START_TEST(test_short_memory) {
  struct failing_allocator memory;
  struct told x;
  told_describe(&x, 2, 2);
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct ts_ctx ctx = {&memory.allocator, &x.t.kernel.diags};
    told_open(&x, &ctx);
    tell_multicast(&x);
    if (x.status == TS_OK) x.status = ts_model_nv_finish(x.t.model, &x.t.report);
    ck_assert_int_eq(x.status, memory.failed ? TS_NO_MEMORY : TS_OK);
    ts_model_nv_close(x.t.model);
    x.t.model = NULL;
  }
  told_end(&x);
}
END_TEST

/* --- any events at all */

/* Mostly what could be, of a cluster of four. */
static struct ts_event draw_event(const struct ts_code *code, uint64_t *state) {
  static const enum ts_event_kind kinds[] = {TS_EVENT_ARRIVE, TS_EVENT_COPY, TS_EVENT_WAIT,
                                             TS_EVENT_MATRIX, TS_EVENT_INSN, TS_EVENT_BRANCH};
  static const uint16_t ops[] = {TS_OP_tma_load_multicast, TS_OP_bulk_cluster, TS_OP_cp_async,
                                 TS_OP_shfl, TS_OP_bulk_store};
  struct ts_event event =
      agent(kinds[draw(state, 6)], draw(state, 4), (uint16_t)draw(state, WARPS));
  event.sync_kind = (uint8_t)draw(state, TS_SYNC_CLUSTER + 1);
  event.sync_object = draw(state, 3);
  event.sync_phase = draw(state, 2);
  event.bytes = draw(state, 512);
  event.work = draw(state, 2);
  event.op = ops[draw(state, 5)];
  for (uint32_t i = 0; i < code->insn_count && draw(state, 20); i++)
    if (event.kind == TS_EVENT_MATRIX && code->insns[i].op == TS_OP_wgmma_ss)
      event.insn = i, event.op = TS_OP_wgmma_ss;
  event.src_space = draw(state, 2) ? 0xff : TS_SPACE_SHARED;
  if (draw(state, 2)) event.cause = draw(state, 5);
  if (draw(state, 60) == 0) event.kind = (uint8_t)draw(state, TS_EVENT_KIND_COUNT);
  if (draw(state, 60) == 0) event.warp = (uint16_t)draw(state, 4);
  if (draw(state, 60) == 0) event.cause = draw(state, 8);
  return event;
}

START_TEST(test_any_events) {
  uint32_t finished = 0;
  for (uint64_t seed = 0; seed < 1000; seed++) {
    struct told x;
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15);
    told_begin(&x, 4, 4);
    tell_start(&x);
    for (uint32_t i = draw(&state, 60); i > 0; i--)
      tell(&x, draw_event(&x.t.code, &state));
    tell_ends(&x);
    if (x.status == TS_OK) x.status = ts_model_nv_finish(x.t.model, &x.t.report);
    finished += x.status == TS_OK;
    ck_assert_msg(x.status == TS_OK || x.status == TS_BAD_INPUT, "seed %u: %s", (unsigned)seed,
                  ts_status_text(x.status));
    ck_assert(x.status == TS_OK || x.t.kernel.diags.items.count > 0);
    told_end(&x);
  }
  ck_assert_uint_gt(finished, 50);
}
END_TEST

/* --- whole kernels */

static double cycles_of(const char *text, uint32_t grid, uint32_t cluster, uint32_t shared_bytes) {
  struct timed t;
  timed_begin(&t, text);
  timed_buffer(&t, 1 << 20);
  t.kernel.launch.cluster[0] = cluster;
  t.kernel.launch.dynamic_shared_bytes = shared_bytes;
  timed_describe(&t, grid, 32);
  t.launch.cluster[0] = cluster;
  t.options.machine = &t.kernel.machine;
  ck_assert_int_eq(ts_model_nv_open(&t.kernel.ctx, &t.options, &t.program, &t.model), TS_OK);
  t.kernel.options.sink = ts_model_nv_sink(t.model);
  enum ts_status status = kernel_run(&t.kernel, grid, 32);
  if (status == TS_OK) status = ts_model_nv_finish(t.model, &t.report);
  if (status != TS_OK) ck_abort_msg("%s", kernel_message(&t.kernel, 0));
  double cycles = t.report->launches[0].cycles;
  timed_end(&t);
  return cycles;
}

/* Sources are free when the engine has read them, long before the bytes are in L2. */
START_TEST(test_wait_for_sources) {
#define STORES(wait)                                                                               \
  "function \"f\" {\nparam p0 pointer u8 %0 \"data\"\nshared s0 dynamic u8 align 1024 size 1024\n" \
  "reg %0 ptr\nreg %9 u32\nregion r1 in r0 head b1\nregion r2 in r1 head b1\n"                     \
  "b0 in r0:\n%2 = sreg u32 {which=tid.x}\n%9 = mov u32 0\nbr b1\n"                                \
  "b1 in r1:\n%3 = eq u32 %2, 0\ncbr %3, b2, b3, b3\n"                                             \
  "b2 in r2:\nbulk.store %0, s0, 4096\nbulk.commit\n" wait "br b3\n"                               \
  "b3 in r1:\n%9 = add u32 %9, 1\n%8 = lt u32 %9, 16\ncbr %8, b1, b4, b4\nb4 in r0:\nexit\n}\n"
  double sources = cycles_of(STORES("bulk.wait 0 {read=1}\n"), 1, 1, 8192);
  double all = cycles_of(STORES("bulk.wait 0\n"), 1, 1, 8192);
  ck_assert_msg(sources < all - 16 * 100, "16 stores take %.0f cycles, %.0f with read", all,
                sources);
}
END_TEST

int main(void) {
  return RUN_TESTS("record", test_launches, test_blocks, test_warps, test_insns, test_ranks,
                   test_phases, test_targets, test_repetitions, test_groups, test_equal_streams,
                   test_gathers, test_limit, test_multicast, test_symmetric, test_gather,
                   test_any_events, test_short_memory, test_wait_for_sources);
}
