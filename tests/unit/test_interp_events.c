/* What single instructions tell: fields of their events, checked one by one. */
#include "support/kernel.h"
#include "support/suite.h"

enum { MAX_EVENTS = 512 };

/* Keeps the events of one op. */
struct keeper {
  struct ts_sink sink;
  uint16_t op;
  uint32_t count;
  uint64_t seq;
  struct ts_event events[MAX_EVENTS];
  struct ts_footprint footprints[MAX_EVENTS];
  uint64_t lanes[MAX_EVENTS][32];
};

static enum ts_status keep(struct ts_sink *sink, struct ts_event *event,
                           const struct ts_footprint *footprint) {
  struct keeper *keeper = (struct keeper *)sink;
  event->seq = keeper->seq++;
  if (event->op != keeper->op || keeper->count == MAX_EVENTS) return TS_OK;
  uint32_t i = keeper->count++;
  keeper->events[i] = *event;
  keeper->footprints[i] = footprint ? *footprint : (struct ts_footprint){.kind = 0xff};
  if (footprint && footprint->kind == TS_FOOTPRINT_LANES)
    memcpy(keeper->lanes[i], footprint->lanes, sizeof keeper->lanes[i]);
  return TS_OK;
}

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "shared s0 static u8 align 1024 size 4096 \"tile\"\n"                                            \
  "shared s1 barrier u64 align 8 size 16 \"full\"\nreg %0 ptr\nreg %1 ptr\n"

/* The events of the op in a run of the body by blocks of 32 threads. */
static struct keeper *run(const char *body, enum ts_op op, uint32_t grid, uint32_t cluster) {
  static struct keeper keeper;
  struct kernel k;
  keeper = (struct keeper){.sink = {.emit = keep}, .op = (uint16_t)op};
  kernel_begin(&k, body);
  kernel_buffer(&k, "in", TS_DTYPE_u32, 4096);
  kernel_buffer(&k, "out", TS_DTYPE_u32, 4096);
  k.launch.cluster[0] = cluster;
  k.options.sink = &keeper.sink;
  enum ts_status status = kernel_run(&k, grid, 32);
  if (status != TS_OK) ck_abort_msg("%s", kernel_message(&k, 0));
  kernel_end(&k);
  return &keeper;
}

/* Lanes that write zeros are told apart: no address, and not counted as work. */
START_TEST(test_cp_async_zeros) {
  const struct keeper *k =
      run(HEAD "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n  %3 = lt u32 %2, 5\n"
               "  cp.async s0, %2, %0, %2, %3 {scale=4, scale2=4, bytes=4}\n"
               "  cp.async.commit\n  cp.async.wait 0\n  exit\n}\n",
          TS_OP_cp_async, 1, 1);
  ck_assert_uint_eq(k->count, 2);
  const struct ts_event *copy = &k->events[0], *landed = &k->events[1];
  ck_assert_int_eq(copy->kind, TS_EVENT_COPY);
  ck_assert_uint_eq(copy->work, 5);
  ck_assert_uint_eq(copy->bytes, 128);
  ck_assert_uint_eq(copy->mask, UINT32_MAX);
  ck_assert_uint_eq(k->lanes[0][4] - k->lanes[0][0], 16);
  ck_assert_uint_eq(k->lanes[0][5], 0);
  ck_assert_int_eq(landed->kind, TS_EVENT_LANDED);
  ck_assert_uint_eq(landed->cause, copy->seq + 1);
  ck_assert_uint_eq(k->footprints[1].space, TS_SPACE_SHARED);
  ck_assert_uint_eq(k->lanes[1][31] - k->lanes[1][0], 31 * 4);
}
END_TEST

/* Copies, commits and waits name groups alike. */
START_TEST(test_groups) {
  static const char body[] =
      HEAD "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n  cp.async.wait 0\n"
           "  cp.async s0, %2, %0, %2, 1 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n"
           "  cp.async s0, %2, %0, %2, 1 {scale=4, scale2=4, bytes=4, offset2=128}\n"
           "  cp.async.commit\n  cp.async.wait 1\n  cp.async.wait 0\n  exit\n}\n";
  const struct keeper *k = run(body, TS_OP_cp_async, 1, 1);
  ck_assert_uint_eq(k->count, 4);
  ck_assert_uint_eq(k->events[0].sync_object, 0);
  ck_assert_uint_eq(k->events[2].sync_object, 1);
  k = run(body, TS_OP_cp_async_commit, 1, 1);
  ck_assert_uint_eq(k->count, 2);
  ck_assert_uint_eq(k->events[0].sync_object, 0);
  ck_assert_uint_eq(k->events[1].sync_object, 1);
  k = run(body, TS_OP_cp_async_wait, 1, 1);
  ck_assert_uint_eq(k->count, 3);
  ck_assert_uint_eq(k->events[0].sync_object, UINT32_MAX);
  ck_assert_uint_eq(k->events[1].sync_object, 0);
  ck_assert_uint_eq(k->events[2].sync_object, 1);
}
END_TEST

/* Phases have numbers that go on when an mbarrier is initialised again; arrivals beyond a phase are
 * told with the phase that they are in. */
START_TEST(test_mbarrier_phases) {
  static const char body[] =
      HEAD "region r1 in r0 head b0\nb0 in r0:\n  %2 = sreg u32 {which=tid.x}\n"
           "  %3 = eq u32 %2, 0\n  cbr %3, b1, b2, b2\n"
           "b1 in r1:\n  mbarrier.init s1, 16\n  br b2\n"
           "b2 in r0:\n  mbarrier.arrive s1\n  mbarrier.wait s1, 1\n"
           "  mbarrier.init s1, 32\n  mbarrier.arrive s1\n  mbarrier.wait s1, 0\n  exit\n}\n";
  const struct keeper *k = run(body, TS_OP_mbarrier_arrive, 1, 1);
  ck_assert_uint_eq(k->count, 3);
  static const uint32_t arrivals[] = {16, 16, 32};
  for (uint32_t i = 0; i < 2; i++) {
    ck_assert_uint_eq(k->events[i].work, arrivals[i]);
    ck_assert_uint_eq(k->events[i].sync_phase, i);
  }
  ck_assert_uint_eq(k->events[2].work, 32);
  uint32_t third = k->events[2].sync_phase;
  ck_assert_uint_gt(third, 1);
  k = run(body, TS_OP_mbarrier_wait, 1, 1);
  ck_assert_uint_eq(k->count, 2);
  ck_assert_uint_eq(k->events[1].sync_phase, third);
  k = run(body, TS_OP_mbarrier_init, 1, 1);
  ck_assert_int_eq(k->events[0].kind, TS_EVENT_INSN);
  ck_assert_int_eq(k->events[0].sync_kind, TS_SYNC_MBARRIER);
  ck_assert_uint_eq(k->events[0].work, 16);
}
END_TEST

/* Events that act on another block name it. */
START_TEST(test_remote) {
  static const char body[] =
      HEAD "region r1 in r0 head b0\nb0 in r0:\n  %2 = sreg u32 {which=tid.x}\n"
           "  %3 = sreg u32 {which=cluster_ctarank}\n  %4 = eq u32 %2, 0\n  cbr %4, b1, b2, b2\n"
           "b1 in r1:\n  mbarrier.init s1, 32\n  fence.mbarrier_init\n  br b2\n"
           "b2 in r0:\n  cluster.sync\n  %5 = xor u32 %3, 1\n"
           "  st.cluster u32 s0, %2, %2, %5 {scale=4}\n  mbarrier.arrive.cluster s1, %5\n"
           "  mbarrier.wait s1, 0\n  cluster.sync\n"
           "  %6 = ld.cluster u32 s0, %2, %3 {scale=4}\n  cluster.sync\n  exit\n}\n";
  const struct keeper *k = run(body, TS_OP_st_cluster, 4, 2);
  ck_assert_uint_eq(k->count, 4);
  for (uint32_t i = 0; i < k->count; i++) {
    ck_assert_int_eq(k->events[i].kind, TS_EVENT_MEMORY);
    ck_assert_uint_eq(ts_event_target(&k->events[i]), k->events[i].block ^ 1);
    ck_assert_uint_eq(k->events[i].bytes, 128);
    ck_assert_uint_eq(k->footprints[i].space, TS_SPACE_SHARED);
  }
  k = run(body, TS_OP_mbarrier_arrive_cluster, 4, 2);
  uint32_t arrivals = 0;
  for (uint32_t i = 0; i < k->count; i++) {
    ck_assert_uint_eq(ts_event_target(&k->events[i]), k->events[i].block ^ 1);
    ck_assert_uint_eq(k->events[i].sync_phase, 0);
    arrivals += k->events[i].work;
  }
  ck_assert_uint_eq(arrivals, 4 * 32);
  k = run(body, TS_OP_ld_cluster, 4, 2);
  ck_assert_uint_eq(ts_event_target(&k->events[0]), k->events[0].block);
  ck_assert_uint_eq(k->events[0].cause, 0);
}
END_TEST

/* A box that the tensor's end clips: what is told is the whole box and the tensor. */
START_TEST(test_box) {
  static struct keeper keeper;
  struct kernel k;
  keeper = (struct keeper){.sink = {.emit = keep}, .op = TS_OP_tma_load};
  kernel_begin(&k, "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\n"
                   "param p1 tensormap u32 \"map\"\n"
                   "shared s0 static u8 align 1024 size 4096 \"tile\"\n"
                   "shared s1 barrier u64 align 8 size 16 \"full\"\nreg %0 ptr\n"
                   "region r1 in r0 head b0\nb0 in r0:\n  %1 = sreg u32 {which=tid.x}\n"
                   "  %2 = eq u32 %1, 0\n  cbr %2, b1, b2, b2\n"
                   "b1 in r1:\n  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 1024\n"
                   "  tma.load p1, s0, s1, -4, 24\n  br b2\n"
                   "b2 in r0:\n  bar.sync 0, 0\n  mbarrier.wait s1, 0\n  exit\n}\n");
  kernel_buffer(&k, "in", TS_DTYPE_u32, 4096);
  kernel_map(&k, (struct ts_tensormap){.dtype = TS_TENSORMAP_U32,
                                       .elem_size_bytes = 4,
                                       .rank = 2,
                                       .global_address = k.args[0].value,
                                       .size = {32, 30},
                                       .stride_bytes = {4, 128},
                                       .box = {32, 8},
                                       .elem_stride = {1, 1}});
  k.options.sink = &keeper.sink;
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_OK);
  ck_assert_uint_eq(keeper.count, 2);
  const struct ts_event *copy = &keeper.events[0];
  const struct ts_footprint *box = &keeper.footprints[0];
  ck_assert_uint_eq(copy->bytes, 1024);
  ck_assert_uint_eq(copy->work, 1);
  ck_assert_uint_eq(copy->mask, 1);
  ck_assert_int_eq(copy->sync_kind, TS_SYNC_MBARRIER);
  ck_assert_uint_eq(copy->sync_phase, 0);
  ck_assert_int_eq(box->kind, TS_FOOTPRINT_BOX);
  ck_assert_uint_eq(box->rank, 2);
  ck_assert_uint_eq(box->size_bytes, 128);
  ck_assert_int_eq(box->coordinate[0], -4);
  ck_assert_int_eq(box->coordinate[1], 24);
  ck_assert_uint_eq(box->extent[1], 8);
  ck_assert_uint_eq(box->tensor_extent[0], 32);
  ck_assert_uint_eq(box->tensor_extent[1], 30);
  ck_assert_uint_eq(box->stride_bytes[0], 4);
  ck_assert_int_eq(keeper.footprints[1].kind, TS_FOOTPRINT_AFFINE);
  ck_assert_uint_eq(keeper.footprints[1].space, TS_SPACE_SHARED);
  kernel_end(&k);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp events", test_cp_async_zeros, test_groups, test_mbarrier_phases,
                   test_remote, test_box);
}
