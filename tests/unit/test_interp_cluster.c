/* Blocks that run together: barriers of clusters and grids, shared memory of other blocks, multicast
 * copies. */
#include "support/kernel.h"
#include "support/suite.h"

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "shared s0 static u8 align 1024 size 1024 \"tile\"\n"                                            \
  "shared s1 barrier u64 align 8 size 16 \"full\"\nreg %0 ptr\nreg %1 ptr\n"
#define START                                                                                      \
  "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n  %3 = sreg u32 {which=cluster_ctarank}\n"            \
  "  %4 = sreg u32 {which=ctaid.x}\n"
/* out[32 * block + thread] = %9 */
#define END                                                                                        \
  "  %20 = mul u32 %4, 32\n  %21 = add u32 %20, %2\n  st.global u32 %1, %21, %9 {scale=4}\n"       \
  "  exit\n}\n"

enum { IN_WORDS = 256, OUT_WORDS = 512, SCHEDULES = 6 };

/* The text with declarations of the register numbers that it leaves out. */
static void complete(char *text, size_t size_bytes, const char *body) {
  static const char place[] = "reg %1 ptr\n";
  const char *rest = strstr(body, place) + sizeof place - 1;
  bool is_used[64] = {true, true};
  int last = 0, used = snprintf(text, size_bytes, "%.*s", (int)(rest - body), body);
  for (const char *at = rest; (at = strchr(at, '%')) != NULL; at++) {
    int number = atoi(at + 1);
    is_used[number] = true;
    last = number > last ? number : last;
  }
  for (int i = 0; i < last; i++)
    if (!is_used[i]) used += snprintf(text + used, size_bytes - (size_t)used, "reg %%%d u32\n", i);
  snprintf(text + used, size_bytes - (size_t)used, "%s", rest);
}

static enum ts_status run(struct kernel *k, const char *body, uint32_t cluster, bool cooperates,
                          int schedule, uint32_t **out) {
  char text[4096];
  complete(text, sizeof text, body);
  kernel_begin(k, text);
  uint32_t *in = kernel_buffer(k, "in", TS_DTYPE_u32, IN_WORDS * 4);
  *out = kernel_buffer(k, "out", TS_DTYPE_u32, OUT_WORDS * 4);
  for (uint32_t i = 0; i < IN_WORDS; i++)
    in[i] = 1000 + i;
  memset(*out, 0, OUT_WORDS * 4);
  k->options.schedule = schedule < 2 ? (enum ts_schedule_kind)schedule : TS_SCHEDULE_RANDOM;
  k->options.seed = (uint64_t)schedule;
  k->options.max_insns_per_warp = 100000;
  k->options.worker_count = 2;
  k->launch.cluster[0] = cluster;
  k->launch.is_cooperative = cooperates;
  return kernel_run(k, 4, 32);
}

/* Clean under all schedules for 4 blocks of 32 threads, and out[i] as expected. */
static void check(const char *body, uint32_t cluster, bool cooperates,
                  uint32_t (*expected)(uint32_t block, uint32_t thread)) {
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    enum ts_status status = run(&k, body, cluster, cooperates, schedule, &out);
    if (status != TS_OK || k.diags.items.count)
      ck_abort_msg("schedule %d: %s", schedule, kernel_message(&k, 0));
    for (uint32_t i = 0; i < 128; i++)
      ck_assert_msg(out[i] == expected(i / 32, i % 32), "schedule %d: out[%u] = %u", schedule, i,
                    out[i]);
    kernel_end(&k);
  }
}

static void check_fault(const char *body, uint32_t cluster, enum ts_diag_code code,
                        const char *text) {
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    ck_assert_int_ne(run(&k, body, cluster, false, schedule, &out), TS_OK);
    bool is_found = false;
    for (size_t i = 0; i < k.diags.items.count; i++)
      is_found |= k.diags.items.data[i].code == code && strstr(kernel_message(&k, i), text);
    ck_assert_msg(is_found, "schedule %d: %s", schedule, kernel_message(&k, 0));
    kernel_end(&k);
  }
}

/* --- neighbours */

static uint32_t from_neighbour(uint32_t block, uint32_t thread) {
  return 100 * (block ^ 1) + thread;
}

START_TEST(test_store_to_neighbour) {
  check(HEAD START "  %5 = mul u32 %4, 100\n  %6 = add u32 %5, %2\n  %7 = xor u32 %3, 1\n"
                   "  cluster.sync\n  st.cluster u32 s0, %2, %6, %7 {scale=4}\n  cluster.sync\n"
                   "  %9 = ld.shared u32 s0, %2 {scale=4}\n" END,
        2, false, from_neighbour);
}
END_TEST

START_TEST(test_load_from_neighbour) {
  check(HEAD START "  %5 = mul u32 %4, 100\n  %6 = add u32 %5, %2\n  %7 = xor u32 %3, 1\n"
                   "  st.shared u32 s0, %2, %6 {scale=4}\n  cluster.arrive\n  cluster.wait\n"
                   "  %9 = ld.cluster u32 s0, %2, %7 {scale=4}\n  cluster.sync\n" END,
        2, false, from_neighbour);
}
END_TEST

/* Vectors of 8-bit elements, and 64-bit ones. */
static uint32_t of_widths(uint32_t block, uint32_t thread) {
  return (block ^ 1) + (thread & 0xff) * 0x01010101u;
}

START_TEST(test_widths) {
  check(HEAD START "  %5 = cvt u8 u32 %2\n  %6 = broadcast u8x4 %5\n  %7 = xor u32 %3, 1\n"
                   "  %8 = cvt u64 u32 %4\n  cluster.sync\n"
                   "  st.cluster u8x4 s0, %2, %6, %7 {scale=4}\n"
                   "  st.cluster u64 s0, %2, %8, %7 {scale=8, offset=256}\n  cluster.sync\n"
                   "  %10 = ld.cluster u64 s0, %2, %3 {scale=8, offset=256}\n"
                   "  %11 = ld.cluster u8x4 s0, %2, %3 {scale=4}\n"
                   "  %12 = bitcast u32 u8 %11\n  %13 = cvt u32 u64 %10\n"
                   "  %9 = add u32 %12, %13\n" END,
        2, false, of_widths);
}
END_TEST

/* Ranks run along x; a cluster is a tile of the grid. */
static uint32_t rank_and_place(uint32_t block, uint32_t thread) {
  (void)thread;
  return block % 4;
}

START_TEST(test_ranks) {
  check(HEAD START "  %9 = mov u32 %3\n" END, 4, false, rank_and_place);
  struct kernel k;
  uint32_t *out;
  kernel_begin(&k, HEAD START "  %5 = sreg u32 {which=ctaid.y}\n  %6 = mul u32 %5, 4\n"
                              "  %7 = add u32 %6, %4\n"
                              "  st.global u32 %1, %7, %3 {scale=4}\n  exit\n}\n");
  kernel_buffer(&k, "in", TS_DTYPE_u32, 4);
  out = kernel_buffer(&k, "out", TS_DTYPE_u32, 64);
  k.launch.cluster[0] = k.launch.cluster[1] = 2;
  k.launch.grid[1] = 4;
  ck_assert_int_eq(kernel_run(&k, 4, 32), TS_OK);
  for (uint32_t i = 0; i < 16; i++)
    ck_assert_uint_eq(out[i], i % 2 + i / 4 % 2 * 2);
  kernel_end(&k);
}
END_TEST

/* --- mbarriers and copies */

#define READY                                                                                      \
  "  %30 = eq u32 %2, 0\n  cbr %30, b1, b2, b2\nb1 in r1:\n  mbarrier.init s1, $A\n"               \
  "  fence.mbarrier_init\n  br b2\nb2 in r0:\n  cluster.sync\n"

static void fill(char *text, size_t size_bytes, const char *pattern, const char *arrivals) {
  kernel_text(text, size_bytes, pattern, &arrivals);
}

/* Every thread of both blocks arrives at the mbarrier of rank 0, whose block then goes on. */
START_TEST(test_remote_arrival) {
  char body[2048];
  fill(body, sizeof body,
       HEAD "region r1 in r0 head b0\n" START READY
            "  %5 = mul u32 %4, 100\n  %6 = add u32 %5, %2\n  %7 = xor u32 %3, 1\n"
            "  st.cluster u32 s0, %2, %6, %7 {scale=4}\n"
            "  mbarrier.arrive.cluster s1, %7\n  mbarrier.wait s1, 0\n"
            "  %9 = ld.shared u32 s0, %2 {scale=4}\n  cluster.sync\n" END,
       "32");
  check(body, 2, false, from_neighbour);
}
END_TEST

START_TEST(test_bulk_to_neighbour) {
  char body[2048];
  fill(body, sizeof body,
       HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\n" START READY
            "  %5 = mul u32 %4, 100\n  %6 = add u32 %5, %2\n  %7 = xor u32 %3, 1\n"
            "  %10 = mov u32 s0\n  %11 = add u32 %10, 512\n"
            "  st.shared u32 %11, %2, %6 {scale=4}\n  fence.proxy.async\n"
            "  bar.sync 0, 0\n  cbr %30, b3, b4, b4\n"
            "b3 in r2:\n  bulk.cluster s0, %11, 128, s1, %7 {expect=1}\n  br b4\n"
            "b4 in r0:\n  mbarrier.wait s1, 0\n"
            "  %9 = ld.shared u32 s0, %2 {scale=4}\n  cluster.sync\n" END,
       "1");
  check(body, 2, false, from_neighbour);
}
END_TEST

/* Block 0 of each cluster loads for both; each expects the bytes on its own mbarrier. */
static uint32_t of_input(uint32_t block, uint32_t thread) { return 1000 + block / 2 * 32 + thread; }

#define MULTICAST                                                                                  \
  HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r2 head b3\n" START READY   \
       "  %10 = shr u32 %4, 1\n  %11 = mul u32 %10, 128\n"                                         \
       "  %12 = cvt u64 u32 %11\n  %13 = bitcast u64 ptr %0\n"                                     \
       "  %14 = add u64 %13, %12\n  %15 = bitcast ptr u64 %14\n"                                   \
       "  cbr %30, b3, b5, b5\n"                                                                   \
       "b3 in r2:\n  mbarrier.arrive.expect_tx s1, 128\n  %16 = eq u32 %3, 0\n"                    \
       "  cbr %16, b4, b5, b5\n"                                                                   \
       "b4 in r3:\n  bulk.load.multicast s0, %15, 128, s1, 3\n  br b5\n"                           \
       "b5 in r0:\n  mbarrier.wait s1, 0\n"                                                        \
       "  %9 = ld.shared u32 s0, %2 {scale=4}\n  cluster.sync\n" END

START_TEST(test_multicast) {
  char body[2048];
  fill(body, sizeof body, MULTICAST, "1");
  check(body, 2, false, of_input);
}
END_TEST

/* Without cluster.sync after the initialisation the copy may come first; it is not lost. */
START_TEST(test_early_multicast) {
  char body[2048];
  fill(body, sizeof body, MULTICAST, "1");
  char *sync = strstr(body, "b2 in r0:\n  cluster.sync\n") + strlen("b2 in r0:\n");
  memset(sync, ' ', strlen("  cluster.sync"));
  char *barrier = strstr(body, "b2 in r0:\n");
  ck_assert_ptr_nonnull(barrier);
  check(body, 2, false, of_input);
}
END_TEST

/* --- the grid */

static uint32_t from_next_block(uint32_t block, uint32_t thread) {
  return 7 * ((block + 1) % 4) + thread;
}

#define GRID                                                                                       \
  HEAD START "  %5 = mul u32 %4, 7\n  %6 = add u32 %5, %2\n  %7 = mul u32 %4, 32\n"                \
             "  %8 = add u32 %7, %2\n  st.global u32 %0, %8, %6 {scale=4}\n  grid.sync\n"          \
             "  %10 = add u32 %4, 1\n  %11 = and u32 %10, 3\n  %12 = mul u32 %11, 32\n"            \
             "  %13 = add u32 %12, %2\n  %9 = ld.global u32 %0, %13 {scale=4}\n" END

START_TEST(test_grid) {
  check(GRID, 1, true, from_next_block);
  check(GRID, 2, true, from_next_block);
  check_fault(GRID, 1, TS_DIAG_BARRIER_MISUSE, "not cooperative");
}
END_TEST

/* --- faults */

START_TEST(test_faults) {
  check_fault(HEAD START "  st.cluster u32 s0, %2, %2, 2 {scale=4}\n  %9 = mov u32 0\n" END, 2,
              TS_DIAG_BOUNDS_SHARED, "rank 2 in a cluster of 2");
  check_fault(HEAD START "  st.cluster u32 s0, %2, %2, 1 {scale=64}\n  %9 = mov u32 0\n"
                         "  cluster.sync\n" END,
              2, TS_DIAG_BOUNDS_SHARED, "which has");
  check_fault(HEAD START "  cluster.wait\n  %9 = mov u32 0\n" END, 2, TS_DIAG_BARRIER_MISUSE,
              "without having arrived");
  check_fault(HEAD START "  cluster.arrive\n  cluster.arrive\n  cluster.wait\n"
                         "  %9 = mov u32 0\n" END,
              2, TS_DIAG_BARRIER_MISUSE, "second time");
  check_fault(HEAD START "  mbarrier.arrive.cluster s1, 1\n  cluster.sync\n  %9 = mov u32 0\n" END,
              2, TS_DIAG_BARRIER_MISUSE, "no mbarrier is initialised");
}
END_TEST

/* Block 1 stays at an mbarrier of its own, block 0 at the barrier of the cluster. */
START_TEST(test_deadlock) {
  char body[2048];
  fill(body, sizeof body,
       HEAD
       "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r0 head b2\n" START READY
       "  %5 = eq u32 %3, 0\n  cbr %5, b3, b4, b5\n"
       "b3 in r2:\n  cluster.sync\n  br b5\n"
       "b4 in r3:\n  mbarrier.wait s1, 0\n  cluster.sync\n  br b5\n"
       "b5 in r0:\n  %9 = mov u32 0\n" END,
       "1");
  check_fault(body, 2, TS_DIAG_DEADLOCK, "barrier of the cluster, where 32 of 64 threads");
}
END_TEST

START_TEST(test_ended_block) {
  struct kernel k;
  uint32_t *out;
  enum ts_status status =
      run(&k,
          HEAD "region r1 in r0 head b0\n" START "  %5 = eq u32 %3, 0\n  cbr %5, b1, b2, b2\n"
               "b1 in r1:\n  exit\nb2 in r0:\n  st.cluster u32 s0, %2, %2, 0 {scale=4}\n"
               "  %9 = mov u32 0\n" END,
          2, false, TS_SCHEDULE_EAGER, &out);
  ck_assert_int_ne(status, TS_OK);
  ck_assert_msg(strstr(kernel_message(&k, 0), "which has ended") != NULL, "%s",
                kernel_message(&k, 0));
  kernel_end(&k);
}
END_TEST

START_TEST(test_launch_checks) {
  struct kernel k;
  uint32_t *out;
  ck_assert_int_eq(run(&k, HEAD START "  %9 = mov u32 0\n" END, 3, false, 0, &out), TS_BAD_INPUT);
  ck_assert_msg(strstr(kernel_message(&k, 0), "no multiple") != NULL, "%s", kernel_message(&k, 0));
  kernel_end(&k);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp cluster", test_store_to_neighbour, test_load_from_neighbour, test_widths,
                   test_ranks, test_remote_arrival, test_bulk_to_neighbour, test_multicast,
                   test_early_multicast, test_grid, test_faults, test_deadlock, test_ended_block,
                   test_launch_checks);
}
