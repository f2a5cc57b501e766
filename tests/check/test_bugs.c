/* Faults that users of tile languages reported in public (docs/bugs-coverage.md lists them by H
 * number), each as a small kernel of our own that has the fault, and one that is right. */
#include "support/kernel.h"
#include "support/suite.h"

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "shared s0 static u8 align 1024 size 32768 \"tile\"\n"                                           \
  "shared s1 barrier u64 align 8 size 64 \"full\"\nreg %0 ptr\nreg %1 ptr\n"
#define REGION "region r1 in r0 head b0\n"
#define TWO_REGIONS REGION "region r2 in r0 head b2\n"
#define START "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n"
#define IF_FIRST "  %3 = eq u32 %2, 0\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
#define JOIN "  br b2\nb2 in r0:\n"
#define AGAIN "  cbr %3, b3, b4, b4\nb3 in r2:\n"
#define END "  exit\n}\n"

enum { WORDS = 8192, SCHEDULES = 5 };

static const struct {
  enum ts_schedule_kind kind;
  uint64_t seed;
} schedules[SCHEDULES] = {{TS_SCHEDULE_EAGER, 0},
                          {TS_SCHEDULE_LAZY, 0},
                          {TS_SCHEDULE_RANDOM, 1},
                          {TS_SCHEDULE_RANDOM, 2},
                          {TS_SCHEDULE_LAST, 0}};

static enum ts_status run_clusters(struct kernel *k, const char *body, uint32_t cluster,
                                   uint32_t blocks, uint32_t threads, int schedule) {
  kernel_begin(k, body);
  k->launch.cluster[0] = cluster;
  uint32_t *in = kernel_buffer(k, "in", TS_DTYPE_u32, WORDS * 4);
  kernel_buffer(k, "out", TS_DTYPE_u32, WORDS * 4);
  for (uint32_t i = 0; i < WORDS; i++)
    in[i] = 1000 + i;
  k->options.schedule = schedules[schedule].kind;
  k->options.seed = schedules[schedule].seed;
  k->options.checks = true;
  k->options.max_insns_per_warp = 100000;
  return kernel_run(k, blocks, threads);
}

static enum ts_status run_one(struct kernel *k, const char *body, uint32_t blocks, uint32_t threads,
                              int schedule) {
  return run_clusters(k, body, 1, blocks, threads, schedule);
}

static bool has(const struct kernel *k, enum ts_diag_code code) {
  for (size_t i = 0; i < k->diags.items.count; i++)
    if (k->diags.items.data[i].code == code) return true;
  return false;
}

static void fill(char *body, size_t size_bytes, const char *pattern, const char *piece) {
  kernel_text(body, size_bytes, pattern, (const char *const[]){piece});
}

/* The fault is reported under every schedule, under the eager one with the code. */
static void faulty(const char *pattern, const char *piece, uint32_t threads,
                   enum ts_diag_code code) {
  char body[4096];
  fill(body, sizeof body, pattern, piece);
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    enum ts_status status = run_one(&k, body, 1, threads, schedule);
    if (status == TS_OK || (schedule == 0 && !has(&k, code)))
      ck_abort_msg("schedule %d, '%s': no %s, but %s", schedule, piece, ts_diag_code_text(code),
                   kernel_message(&k, 0));
    kernel_end(&k);
  }
}

static void right(const char *pattern, const char *piece, uint32_t threads) {
  char body[4096];
  fill(body, sizeof body, pattern, piece);
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    enum ts_status status = run_one(&k, body, 1, threads, schedule);
    if (status != TS_OK)
      ck_abort_msg("schedule %d, '%s': %s", schedule, piece, kernel_message(&k, 0));
    kernel_end(&k);
  }
}

/* --- races */

START_TEST(test_h051_copy_without_wait) {
  static const char pattern[] = HEAD START
      "  cp.async s0, %2, %0, %2, 1 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n$A"
      "  %3 = ld.shared u32 s0, %2 {scale=4}\n  st.global u32 %1, %2, %3 {scale=4}\n" END;
  faulty(pattern, "", 32, TS_DIAG_RACE_PENDING_READ);
  right(pattern, "  cp.async.wait 0\n", 32);
}
END_TEST

/* Both halves of the block read one tile; a barrier is due before it is filled again. */
START_TEST(test_h052_refill) {
  static const char pattern[] =
      HEAD START "  %3 = and u32 %2, 63\n  st.shared u32 s0, %3, %3 {scale=4}\n  bar.sync 0, 0\n"
                 "  %4 = sub u32 63, %3\n  %5 = ld.shared u32 s0, %4 {scale=4}\n$A"
                 "  cp.async s0, %3, %0, %3, 1 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n"
                 "  cp.async.wait 0\n  bar.sync 0, 0\n  st.global u32 %1, %2, %5 {scale=4}\n" END;
  faulty(pattern, "", 64, TS_DIAG_RACE_REFILL);
  right(pattern, "  bar.sync 0, 0\n", 64);
}
END_TEST

START_TEST(test_h053_barrier_in_branch) {
  static const char pattern[] = HEAD TWO_REGIONS START
      "  %3 = lt u32 %2, 48\n  %5 = sub u32 47, %2\n  cbr %3, b1, b2, b2\n"
      "b1 in r1:\n  st.shared u32 s0, %2, %2 {scale=4}\n  br b2\nb2 in r0:\n$A" AGAIN
      "  %4 = ld.shared u32 s0, %5 {scale=4}\n  st.global u32 %1, %2, %4 {scale=4}\n  br b4\n"
      "b4 in r0:\n" END;
  faulty(pattern, "", 64, TS_DIAG_RACE_SHARED);
  right(pattern, "  bar.sync 0, 0\n", 64);
}
END_TEST

START_TEST(test_h054_few_writers) {
  static const char pattern[] = HEAD REGION START
      "  %3 = lt u32 %2, 32\n  cbr %3, b1, b2, b2\nb1 in r1:\n  st.shared u32 s0, %2, %2 {scale=4}\n" JOIN
      "$A  %4 = and u32 %2, 31\n  %5 = ld.shared u32 s0, %4 {scale=4}\n"
      "  st.global u32 %1, %2, %5 {scale=4}\n" END;
  faulty(pattern, "", 512, TS_DIAG_RACE_SHARED);
  right(pattern, "  bar.sync 0, 0\n", 512);
}
END_TEST

/* A bulk copy clears the tile, other threads store into it. */
START_TEST(test_h055_bulk_clear) {
  static const char pattern[] =
      HEAD REGION START IF_FIRST "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 512\n"
                                 "  bulk.load s0, %0, 512, s1\n" JOIN "  bar.sync 0, 0\n$A"
                                 "  st.shared u32 s0, %2, 1 {scale=4}\n  mbarrier.wait s1, 0\n" END;
  faulty(pattern, "", 128, TS_DIAG_RACE_PENDING_WRITE);
  right(pattern, "  mbarrier.wait s1, 0\n", 128);
}
END_TEST

/* The store's source is written again: no wait, a wait for reads, a wait for all. */
START_TEST(test_h059_store_reuse) {
  static const char pattern[] = HEAD TWO_REGIONS START
      "  st.shared u32 s0, %2, 1 {scale=4}\n  fence.proxy.async\n  bar.sync 0, 0\n" IF_FIRST
      "  bulk.store %1, s0, 512\n  bulk.commit\n$A" JOIN
      "  bar.sync 0, 0\n  st.shared u32 s0, %2, 2 {scale=4}\n  fence.proxy.async\n"
      "  bar.sync 0, 0\n" AGAIN "  bulk.store %1, s0, 512\n  bulk.commit\n  bulk.wait 0\n  br b4\n"
      "b4 in r0:\n" END;
  faulty(pattern, "", 128, TS_DIAG_RACE_PENDING_WRITE);
  right(pattern, "  bulk.wait 0 {read=1}\n", 128);
  right(pattern, "  bulk.wait 0\n", 128);
}
END_TEST

/* One block of a cluster fills its tile and tells the other one with the scope of the block. */
START_TEST(test_h060_block_scope) {
  static const char pattern[] =
      HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r0 head b2\n" START
           "  %3 = eq u32 %2, 0\n  %4 = sreg u32 {which=cluster_ctarank}\n  %5 = eq u32 %4, 0\n"
           "  cbr %3, b1, b2, b2\nb1 in r1:\n  mbarrier.init s1, 64\n  br b2\nb2 in r0:\n"
           "  cluster.sync\n  cbr %5, b4, b3, b5\nb3 in r2:\n"
           "  cp.async s0, %2, %0, %2, 1 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n"
           "  cp.async.wait 0\n  mbarrier.arrive.cluster s1, 0 {scope=$A}\n  br b5\nb4 in r3:\n"
           "  mbarrier.wait s1, 0\n  %6 = ld.cluster u32 s0, %2, 1 {scale=4}\n"
           "  st.global u32 %1, %2, %6 {scale=4}\n  br b5\nb5 in r0:\n  cluster.sync\n" END;
  for (int schedule = 0; schedule < SCHEDULES; schedule++)
    for (int wide = 0; wide < 2; wide++) {
      char body[4096];
      struct kernel k;
      fill(body, sizeof body, pattern, wide ? "3" : "0");
      enum ts_status status = run_clusters(&k, body, 2, 2, 64, schedule);
      ck_assert_msg(status == (wide ? TS_OK : TS_HAZARD), "%d: %s", wide, kernel_message(&k, 0));
      ck_assert_int_eq(has(&k, TS_DIAG_RACE_SHARED), !wide);
      kernel_end(&k);
    }
}
END_TEST

/* One group a step, whether it copies or not: then wait(1) leaves the newest step alone. */
START_TEST(test_h061_conditional_commit) {
  static const char pattern[] =
      HEAD START "  cp.async s0, %2, %0, %2, 1 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n$A"
                 "  cp.async.wait 1\n  %3 = ld.shared u32 s0, %2 {scale=4}\n"
                 "  st.global u32 %1, %2, %3 {scale=4}\n" END;
  faulty(pattern, "", 32, TS_DIAG_RACE_PENDING_READ);
  right(pattern, "  cp.async.commit\n", 32);
}
END_TEST

START_TEST(test_h062_empty_groups) {
  static const char pattern[] = HEAD START
      "  cp.async.commit\n  cp.async.wait 0\n$A  cp.async.wait 1\n"
      "  %3 = ld.shared u32 s0, %2 {scale=4}\n  st.global u32 %1, %2, %3 {scale=4}\n" END;
#define COPY "  cp.async s0, %2, %0, %2, 1 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n"
  right(pattern, COPY "  cp.async.commit\n  cp.async.commit\n", 32);
  faulty(pattern, "  cp.async.commit\n  cp.async.commit\n" COPY, 32, TS_DIAG_RACE_PENDING_READ);
}
END_TEST

START_TEST(test_h063_read_then_atomic) {
  struct kernel k;
  ck_assert_int_eq(run_one(&k,
                           HEAD START "  %3 = ld.global u32 %0, %2 {scale=4}\n"
                                      "  atom.global u32 %0, %2, 1 {scale=4, reduce=add}\n"
                                      "  st.global u32 %1, %2, %3 {scale=4}\n" END,
                           1, 1, 0),
                   TS_OK);
  const uint32_t *in = (const void *)k.memory.allocations.data[1].data;
  const uint32_t *out = (const void *)k.memory.allocations.data[2].data;
  ck_assert_uint_eq(in[0], 1001);
  ck_assert_uint_eq(out[0], 1000);
  kernel_end(&k);
}
END_TEST

/* Every thread updates one statistic. */
START_TEST(test_h064_unordered_updates) {
  static const char pattern[] =
      HEAD START "  %3 = ld.global u32 %1, $A {scale=4}\n  %4 = add u32 %3, %2\n"
                 "  st.global u32 %1, $A, %4 {scale=4}\n" END;
  faulty(pattern, "0", 128, TS_DIAG_RACE_GLOBAL);
  right(pattern, "%2", 128);
}
END_TEST

/* Bytes are not arrivals; too many arrivals and too few are told apart. */
START_TEST(test_h065_arrivals) {
  static const char pattern[] =
      HEAD REGION START IF_FIRST "$A" JOIN "  bar.sync 0, 0\n  mbarrier.wait s1, 0\n" END;
#define TWO_COPIES                                                                                 \
  "  bulk.load s0, %0, 2048, s1\n  %4 = add u32 s0, 2048\n  bulk.load %4, %0, 2048, s1\n"
  right(pattern, "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 4096\n" TWO_COPIES, 128);
  faulty(pattern, "  mbarrier.init s1, 3\n  mbarrier.arrive s1\n  mbarrier.arrive s1\n", 128,
         TS_DIAG_DEADLOCK);
  /* Two phases are over before anybody looks: a remark, since a waiter may be in time. */
  char body[4096];
  struct kernel k;
  fill(body, sizeof body, pattern,
       "  mbarrier.init s1, 1\n  mbarrier.arrive s1\n  mbarrier.arrive s1\n");
  run_one(&k, body, 1, 128, 0);
  ck_assert(has(&k, TS_DIAG_WAIT_OVERTAKEN));
  kernel_end(&k);
}
END_TEST

/* Data over a live mbarrier at the start of the tile, and beside it. */
START_TEST(test_h066_barrier_bytes) {
  static const char pattern[] = HEAD REGION START IF_FIRST
      "  mbarrier.init s0, 1\n  mbarrier.arrive.expect_tx s0, 512\n  %4 = add u32 s0, 1024\n"
      "  bulk.load %4, %0, 512, s0\n" JOIN "  bar.sync 0, 0\n  mbarrier.wait s0, 0\n"
      "  st.shared u32 s0, %2, 1 {scale=4, offset=$A}\n" END;
  faulty(pattern, "0", 128, TS_DIAG_BARRIER_MISUSE);
  right(pattern, "4096", 128);
}
END_TEST

/* Blocks that exchange through global memory look right when they run one after another. */
START_TEST(test_h069_blocks_exchange) {
  struct kernel k;
  static const char body[] =
      HEAD START "  %3 = sreg u32 {which=ctaid.x}\n  st.global u32 %1, %3, 7 {scale=4}\n"
                 "  %4 = xor u32 %3, 1\n  %5 = ld.global u32 %1, %4 {scale=4}\n"
                 "  st.global u32 %1, %3, %5 {scale=4, offset=512}\n" END;
  ck_assert_int_eq(run_one(&k, body, 2, 1, 0), TS_HAZARD);
  ck_assert(has(&k, TS_DIAG_RACE_GLOBAL));
  kernel_end(&k);
}
END_TEST

/* Data, then a flag: an atomic that has lost its order lets the reader see the flag first. */
START_TEST(test_h082_order_of_vectors) {
  static const char pattern[] =
      HEAD "region r1 in r0 head b0\nregion r2 in r0 head b0\nregion r3 in r2 head b2\n" START
           "  %3 = sreg u32 {which=ctaid.x}\n  %4 = eq u32 %3, 0\n  cbr %4, b1, b2, b4\n"
           "b1 in r1:\n  st.global u32 %1, 64, 7 {scale=4}\n"
           "  atom.global f32x2 %1, 0, 1065353216 {scale=8, reduce=add, order=$A}\n  br b4\n"
           "b2 in r2:\n  %5 = atom.global.ret u32 %1, 0, 0 {scale=4, reduce=load, order=2}\n"
           "  %6 = ne u32 %5, 0\n  cbr %6, b3, b4, b4\nb3 in r3:\n"
           "  %7 = ld.global u32 %1, 64 {scale=4}\n  st.global u32 %1, 65, %7 {scale=4}\n"
           "  br b4\nb4 in r0:\n" END;
  for (int released = 0; released < 2; released++) {
    char body[4096];
    struct kernel k;
    fill(body, sizeof body, pattern, released ? "3" : "0");
    ck_assert_msg(run_one(&k, body, 2, 1, 0) == (released ? TS_OK : TS_HAZARD), "%d: %s", released,
                  kernel_message(&k, 0));
    ck_assert_int_eq(has(&k, TS_DIAG_RACE_GLOBAL), !released);
    kernel_end(&k);
  }
}
END_TEST

/* --- barriers and phases */

START_TEST(test_h070_divergent_barrier) {
  static const char pattern[] = HEAD REGION START
      "  %4 = and u32 %2, $A\n  %3 = eq u32 %4, 0\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
      "  bar.sync 1, 32\n" JOIN END;
  faulty(pattern, "1", 32, TS_DIAG_BARRIER_DIVERGENT);
  right(pattern, "0", 32);
}
END_TEST

START_TEST(test_h071_missing_copy) {
  static const char pattern[] = HEAD REGION START IF_FIRST
      "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 24576\n"
      "  bulk.load s0, %0, 16384, s1\n$A" JOIN "  bar.sync 0, 0\n  mbarrier.wait s1, 0\n" END;
  faulty(pattern, "", 128, TS_DIAG_EXPECT_TX);
  faulty(pattern, "  %4 = add u32 s0, 16384\n  bulk.load %4, %0, 16384, s1\n", 128,
         TS_DIAG_EXPECT_TX);
  right(pattern, "  %4 = add u32 s0, 16384\n  bulk.load %4, %0, 8192, s1\n", 128);
}
END_TEST

/* One elected thread arrives; and the producer's first pass over empty stages. */
START_TEST(test_h072_producer_count) {
  static const char pattern[] = HEAD REGION START IF_FIRST
      "  mbarrier.init s1, $A\n  mbarrier.arrive.expect_tx s1, 512\n"
      "  bulk.load s0, %0, 512, s1\n" JOIN "  bar.sync 0, 0\n  mbarrier.wait s1, 0\n" END;
  faulty(pattern, "32", 128, TS_DIAG_DEADLOCK);
  right(pattern, "1", 128);
  static const char empty[] = HEAD REGION START IF_FIRST
      "  mbarrier.init s1, 128\n" JOIN "  bar.sync 0, 0\n  mbarrier.wait s1, $A\n" END;
  faulty(empty, "0", 128, TS_DIAG_DEADLOCK);
  right(empty, "1", 128);
}
END_TEST

/* A first use waited for with parity 1 passes at once. */
START_TEST(test_h073_parity_of_loop) {
  char body[4096];
  fill(
      body, sizeof body,
      HEAD REGION START IF_FIRST
      "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 512\n  bulk.load s0, %0, 512, s1\n" JOIN
      "  bar.sync 0, 0\n  mbarrier.wait s1, $A\n  %4 = ld.shared u32 s0, %2 {scale=4}\n"
      "  st.global u32 %1, %2, %4 {scale=4}\n" END,
      "1");
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    ck_assert_int_ne(run_one(&k, body, 1, 128, schedule), TS_OK);
    kernel_end(&k);
  }
}
END_TEST

/* Each block of a pair loads half of a tile for both, step by step: one with fewer steps leaves the
 * other waiting for bytes that nobody sends. */
START_TEST(test_h075_unequal_steps) {
  static const char pattern[] =
      HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r2 head b3\n" START
           "  %3 = eq u32 %2, 0\n  %4 = sreg u32 {which=cluster_ctarank}\n"
           "  %5 = mul u32 %4, 256\n  %6 = add u32 s0, %5\n  %7 = eq u32 %4, 0\n"
           "  %8 = select u32 %7, 2, $A\n  cbr %3, b1, b2, b2\n"
           "b1 in r1:\n  mbarrier.init s1, 1\n  %9 = add u32 s1, 8\n  mbarrier.init %9, 1\n"
           "  br b2\nb2 in r0:\n  cluster.sync\n  cbr %3, b3, b5, b5\nb3 in r2:\n"
           "  mbarrier.arrive.expect_tx s1, 512\n  bulk.load.multicast %6, %0, 256, s1, 3\n"
           "  mbarrier.wait s1, 0\n  %10 = lt u32 1, %8\n  cbr %10, b4, b5, b5\nb4 in r3:\n"
           "  %11 = add u32 s1, 8\n  %12 = add u32 %6, 512\n"
           "  mbarrier.arrive.expect_tx %11, 512\n"
           "  bulk.load.multicast %12, %0, 256, %11, 3\n  mbarrier.wait %11, 0\n  br b5\n"
           "b5 in r0:\n  cluster.sync\n" END;
  for (int schedule = 0; schedule < SCHEDULES; schedule++)
    for (int equal = 0; equal < 2; equal++) {
      char body[4096];
      struct kernel k;
      fill(body, sizeof body, pattern, equal ? "2" : "1");
      enum ts_status status = run_clusters(&k, body, 2, 2, 32, schedule);
      ck_assert_msg(status == (equal ? TS_OK : TS_DEADLOCK), "%d: %s", equal,
                    kernel_message(&k, 0));
      ck_assert_int_eq(has(&k, TS_DIAG_DEADLOCK), !equal);
      kernel_end(&k);
    }
}
END_TEST

START_TEST(test_h076_declared_count) {
  static const char pattern[] = HEAD REGION START IF_FIRST "  mbarrier.init s1, $A\n" JOIN
                                                           "  bar.sync 0, 0\n  mbarrier.arrive s1\n"
                                                           "  mbarrier.wait s1, 0\n" END;
  faulty(pattern, "256", 128, TS_DIAG_DEADLOCK);
  right(pattern, "128", 128);
}
END_TEST

/* --- bank conflicts: passes of a column access by row pitch in words, and of wide accesses */

static unsigned passes(const char *access) {
  char body[4096];
  struct kernel k;
  unsigned needed = 1;
  fill(body, sizeof body, HEAD START "$A" END, access);
  kernel_begin(&k, body);
  kernel_buffer(&k, "in", TS_DTYPE_u32, WORDS * 4);
  kernel_buffer(&k, "out", TS_DTYPE_u32, WORDS * 4);
  k.options.checks = k.options.check_speed = true;
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_OK);
  for (size_t i = 0; i < k.diags.items.count; i++)
    if (k.diags.items.data[i].code == TS_DIAG_SPEED_BANKS)
      ck_assert_int_eq(sscanf(kernel_message(&k, i), "st.shared needs %u", &needed), 1);
  kernel_end(&k);
  return needed;
}

START_TEST(test_h130_column_access) {
  static const struct {
    const char *pitch;
    unsigned passes;
  } rows[] = {{"32", 32}, {"64", 32}, {"16", 16}, {"33", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char access[256];
    snprintf(access, sizeof access,
             "  %%3 = mul u32 %%2, %s\n  st.shared u32 s0, %%3, 0 {scale=4}\n", rows[i].pitch);
    ck_assert_uint_eq(passes(access), rows[i].passes);
  }
  /* Pitch 32 with the column exclusive-or 5, 3 and 2 bits of the row. */
  static const struct {
    const char *mask;
    unsigned passes;
  } swizzles[] = {{"31", 1}, {"7", 4}, {"3", 8}};
  for (size_t i = 0; i < sizeof swizzles / sizeof *swizzles; i++) {
    char access[256];
    snprintf(access, sizeof access,
             "  %%3 = mul u32 %%2, 32\n  %%4 = and u32 %%2, %s\n  %%5 = add u32 %%3, %%4\n"
             "  st.shared u32 s0, %%5, 0 {scale=4}\n",
             swizzles[i].mask);
    ck_assert_uint_eq(passes(access), swizzles[i].passes);
  }
}
END_TEST

START_TEST(test_h131_wide_access) {
  ck_assert_uint_eq(passes("  st.shared u32x4 s0, %2, 0 {scale=128}\n"), 32);
  ck_assert_uint_eq(passes("  st.shared u32x4 s0, %2, 0 {scale=16}\n"),
                    1); /* no conflict: 4 of 4 */
  ck_assert_uint_eq(passes("  st.shared u32x2 s0, %2, 0 {scale=8}\n"), 1);
  ck_assert_uint_eq(passes("  st.shared u32 s0, 0, 7 {scale=4}\n"), 1); /* one word: broadcast */
}
END_TEST

int main(void) {
  return RUN_TESTS("bugs", test_h051_copy_without_wait, test_h052_refill,
                   test_h053_barrier_in_branch, test_h054_few_writers, test_h055_bulk_clear,
                   test_h059_store_reuse, test_h060_block_scope, test_h061_conditional_commit,
                   test_h062_empty_groups, test_h063_read_then_atomic, test_h064_unordered_updates,
                   test_h065_arrivals, test_h066_barrier_bytes, test_h069_blocks_exchange,
                   test_h070_divergent_barrier, test_h071_missing_copy, test_h072_producer_count,
                   test_h073_parity_of_loop, test_h075_unequal_steps, test_h076_declared_count,
                   test_h082_order_of_vectors, test_h130_column_access, test_h131_wide_access);
}
