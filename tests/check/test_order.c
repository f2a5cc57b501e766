/* Order between blocks: messages through memory, barriers of clusters and grids, mbarriers and
 * shared memory of other blocks. Each kernel that races, and the near miss that does not. */
#include "support/kernel.h"
#include "support/suite.h"

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"flags\"\nparam p1 pointer u32 %1 \"data\"\n"        \
  "shared s0 static u8 align 1024 size 1024 \"tile\"\n"                                            \
  "shared s1 barrier u64 align 8 size 16 \"full\"\n"                                               \
  "reg %0 ptr\nreg %1 ptr\n"
#define START                                                                                      \
  "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n  %3 = sreg u32 {which=ctaid.x}\n"                    \
  "  %4 = eq u32 %3, 0\n  %5 = eq u32 %2, 0\n"
#define END "  exit\n}\n"

enum { WORDS = 1024, SCHEDULES = 6 };

struct setting {
  uint32_t blocks, threads, cluster;
  bool cooperates;
  bool spins; /* waits in a loop: under `last` it would wait for ever */
};

static enum ts_status run_one(struct kernel *k, const char *body, const struct setting *setting,
                              int schedule) {
  static const enum ts_schedule_kind kinds[SCHEDULES] = {TS_SCHEDULE_EAGER,  TS_SCHEDULE_LAZY,
                                                         TS_SCHEDULE_RANDOM, TS_SCHEDULE_RANDOM,
                                                         TS_SCHEDULE_LAST,   TS_SCHEDULE_LAST};
  kernel_begin(k, body);
  memset(kernel_buffer(k, "flags", TS_DTYPE_u32, WORDS * 4), 0, WORDS * 4);
  memset(kernel_buffer(k, "data", TS_DTYPE_u32, WORDS * 4), 0, WORDS * 4);
  k->options.schedule = kinds[schedule];
  k->options.seed = (uint64_t)schedule & 1;
  k->options.checks = true;
  k->options.max_insns_per_warp = 100000;
  k->launch.cluster[0] = setting->cluster;
  k->launch.is_cooperative = setting->cooperates;
  return kernel_run(k, setting->blocks, setting->threads);
}

static bool has(const struct kernel *k, enum ts_diag_code code) {
  for (size_t i = 0; i < k->diags.items.count; i++)
    if (k->diags.items.data[i].code == code) return true;
  return false;
}

static int schedule_count(const struct setting *setting) {
  return setting->spins ? SCHEDULES - 2 : SCHEDULES;
}

static void races(const char *pattern, const char *const *pieces, const struct setting *setting,
                  enum ts_diag_code code) {
  char body[8192];
  kernel_text(body, sizeof body, pattern, pieces);
  for (int schedule = 0; schedule < schedule_count(setting); schedule++) {
    struct kernel k;
    run_one(&k, body, setting, schedule);
    if (!has(&k, code))
      ck_abort_msg("schedule %d, '%s', '%s': no %s, but '%s'", schedule, pieces[0], pieces[1],
                   ts_diag_code_text(code), kernel_message(&k, 0));
    kernel_end(&k);
  }
}

static void is_right(const char *pattern, const char *const *pieces,
                     const struct setting *setting) {
  char body[8192];
  kernel_text(body, sizeof body, pattern, pieces);
  for (int schedule = 0; schedule < schedule_count(setting); schedule++) {
    struct kernel k;
    enum ts_status status = run_one(&k, body, setting, schedule);
    if (status != TS_OK || k.diags.items.count)
      ck_abort_msg("schedule %d, '%s', '%s': %s", schedule, pieces[0], pieces[1],
                   kernel_message(&k, 0));
    kernel_end(&k);
  }
}

#define PIECES(...) ((const char *const[]){__VA_ARGS__, ""})

/* --- messages through global memory */

/* Every block writes a partial result; the one that comes last reads them all. */
#define LAST_BLOCK                                                                                 \
  HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\n" START                                  \
       "  %6 = mul u32 %3, 64\n  %7 = add u32 %6, %2\n"                                            \
       "  st.global u32 %1, %7, %7 {scale=4}\n$A  bar.sync 0, 0\n  cbr %5, b1, b2, b2\n"           \
       "b1 in r1:\n$B  st.shared u32 s0, 0, %8 {scale=4}\n  br b2\nb2 in r0:\n"                    \
       "  bar.sync 0, 0\n  %9 = ld.shared u32 s0, 0 {scale=4}\n  %10 = eq u32 %9, 3\n"             \
       "  cbr %10, b3, b4, b4\nb3 in r2:\n  %11 = ld.global u32 %1, %2 {scale=4}\n"                \
       "  st.global u32 %1, %2, %11 {scale=4, offset=2048}\n  br b4\nb4 in r0:\n" END

START_TEST(test_last_block) {
  static const struct setting setting = {.blocks = 4, .threads = 64, .cluster = 1};
#define TAKE(order) "  %8 = atom.global.ret u32 %0, 0, 1 {scale=4, reduce=add" order "}\n"
#define FENCE "  fence {scope=1}\n"
  races(LAST_BLOCK, PIECES("", TAKE("")), &setting, TS_DIAG_RACE_GLOBAL);
  is_right(LAST_BLOCK, PIECES("", TAKE(", order=4")), &setting);
  is_right(LAST_BLOCK, PIECES("", TAKE(", order=5")), &setting);
  races(LAST_BLOCK, PIECES("", TAKE(", order=3")), &setting, TS_DIAG_RACE_GLOBAL);
  races(LAST_BLOCK, PIECES("", TAKE(", order=2")), &setting, TS_DIAG_RACE_GLOBAL);
  races(LAST_BLOCK, PIECES("", TAKE(", order=4, scope=0")), &setting, TS_DIAG_RACE_GLOBAL);
  /* Fences: before and after by the one that takes the ticket, or by all before the barrier. */
  is_right(LAST_BLOCK, PIECES("", FENCE TAKE("") FENCE), &setting);
  is_right(LAST_BLOCK, PIECES(FENCE, TAKE("") FENCE), &setting);
  races(LAST_BLOCK, PIECES("", FENCE TAKE("")), &setting, TS_DIAG_RACE_GLOBAL);
  races(LAST_BLOCK, PIECES("", TAKE("") FENCE), &setting, TS_DIAG_RACE_GLOBAL);
  races(LAST_BLOCK, PIECES("  fence {scope=0}\n", TAKE("") FENCE), &setting, TS_DIAG_RACE_GLOBAL);
}
END_TEST

/* The reader must not only look: the others of its block have to wait for it. */
START_TEST(test_message_is_passed_on) {
  static const struct setting setting = {
      .blocks = 2, .threads = 64, .cooperates = true, .spins = true, .cluster = 1};
  static const char pattern[] =
      HEAD "region r1 in r0 head b0\nregion r2 in r1 head b1\nregion r3 in r0 head b0\n"
           "region r4 in r3 head b3\nregion r5 in r4 head b4\n" START
           "  cbr %4, b1, b3, b6\nb1 in r1:\n  st.global u32 %1, %2, 7 {scale=4}\n"
           "  bar.sync 0, 0\n  cbr %5, b2, b6, b6\nb2 in r2:\n"
           "  atom.global u32 %0, 0, 1 {scale=4, reduce=store, order=3}\n  br b6\n"
           "b3 in r3:\n  %6 = lt u32 %2, $A\n  cbr %6, b4, b5, b5\nb4 in r5:\n"
           "  %7 = atom.global.ret u32 %0, 0, 0 {scale=4, reduce=load, order=2}\n"
           "  %8 = eq u32 %7, 0\n  cbr %8, b4, b5, b5\nb5 in r3:\n$B"
           "  %9 = ld.global u32 %1, %2 {scale=4}\n"
           "  st.global u32 %1, %2, %9 {scale=4, offset=512}\n  br b6\nb6 in r0:\n" END;
  is_right(pattern, PIECES("1", "  bar.sync 1, 64\n"), &setting);
  is_right(pattern, PIECES("64", ""), &setting);
  races(pattern, PIECES("1", ""), &setting, TS_DIAG_RACE_GLOBAL);
}
END_TEST

/* --- barriers of clusters and grids */

#define EXCHANGE                                                                                   \
  HEAD START "  %6 = mul u32 %3, 32\n  %7 = add u32 %6, %2\n"                                      \
             "  st.global u32 %1, %7, %7 {scale=4}\n$A  %8 = xor u32 %7, 32\n"                     \
             "  %9 = ld.global u32 %1, %8 {scale=4}\n"                                             \
             "  st.global u32 %1, %7, %9 {scale=4, offset=2048}\n" END

START_TEST(test_group_barriers) {
  static const struct setting cluster = {.blocks = 4, .threads = 32, .cluster = 2};
  static const struct setting grid = {.blocks = 4, .threads = 32, .cooperates = true, .cluster = 1};
  races(EXCHANGE, PIECES("", ""), &cluster, TS_DIAG_RACE_GLOBAL);
  races(EXCHANGE, PIECES("", ""), &grid, TS_DIAG_RACE_GLOBAL);
  is_right(EXCHANGE, PIECES("  cluster.sync\n", ""), &cluster);
  is_right(EXCHANGE, PIECES("  grid.sync\n", ""), &grid);
  is_right(EXCHANGE, PIECES("  cluster.arrive\n  cluster.wait\n", ""), &cluster);
  races(EXCHANGE, PIECES("  cluster.arrive {order=0}\n  cluster.wait\n", ""), &cluster,
        TS_DIAG_RACE_GLOBAL);
  is_right(EXCHANGE, PIECES("  fence {scope=3}\n  cluster.arrive {order=0}\n  cluster.wait\n", ""),
           &cluster);
  /* A barrier of the cluster says nothing about other clusters: 32 is then of the next one. */
  static const struct setting small = {.blocks = 4, .threads = 16, .cluster = 2};
#define STRIDE_16                                                                                  \
  HEAD START "  %6 = mul u32 %3, 16\n  %7 = add u32 %6, %2\n"                                      \
             "  st.global u32 %1, %7, %7 {scale=4}\n  cluster.sync\n  %8 = xor u32 %7, $A\n"       \
             "  %9 = ld.global u32 %1, %8 {scale=4}\n"                                             \
             "  st.global u32 %1, %7, %9 {scale=4, offset=2048}\n" END
  is_right(STRIDE_16, PIECES("16", ""), &small);
  races(STRIDE_16, PIECES("32", ""), &small, TS_DIAG_RACE_GLOBAL);
}
END_TEST

/* --- shared memory of other blocks */

START_TEST(test_peer_memory) {
  static const struct setting setting = {.blocks = 2, .threads = 32, .cluster = 2};
  static const char reads[] =
      HEAD START "  %6 = xor u32 %3, 1\n  st.shared u32 s0, %2, %2 {scale=4}\n$A"
                 "  %7 = ld.cluster u32 s0, %2, %6 {scale=4}\n  st.global u32 %1, %2, 1 {scale=4}\n"
                 "$B  st.shared u32 s0, %2, 0 {scale=4}\n  cluster.sync\n" END;
#define SYNC "  cluster.sync\n"
  is_right(reads, PIECES(SYNC, SYNC), &setting);
  races(reads, PIECES("", SYNC), &setting, TS_DIAG_RACE_SHARED);
  races(reads, PIECES(SYNC, ""), &setting, TS_DIAG_RACE_SHARED);
  static const char writes[] =
      HEAD START "  %6 = xor u32 %3, 1\n  st.shared u32 s0, %2, %2 {scale=4}\n$A"
                 "  st.cluster u32 s0, %2, 7, %6 {scale=4}\n$B"
                 "  %7 = ld.shared u32 s0, %2 {scale=4}\n  st.global u32 %1, %2, 1 {scale=4}\n"
                 "  cluster.sync\n" END;
  is_right(writes, PIECES(SYNC, SYNC), &setting);
  races(writes, PIECES("", SYNC), &setting, TS_DIAG_RACE_SHARED);
  races(writes, PIECES(SYNC, ""), &setting, TS_DIAG_RACE_SHARED);
}
END_TEST

/* Block 1 fills its tile and tells block 0 through an mbarrier there. */
START_TEST(test_peer_arrival) {
  static const struct setting setting = {.blocks = 2, .threads = 32, .cluster = 2};
  static const char pattern[] =
      HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r0 head b2\n" START
           "  cbr %5, b1, b2, b2\nb1 in r1:\n  mbarrier.init s1, 32\n"
           "  fence.mbarrier_init\n  br b2\nb2 in r0:\n  cluster.arrive {order=0}\n"
           "  cluster.wait\n  cbr %4, b4, b3, b5\nb3 in r2:\n$A"
           "  mbarrier.arrive.cluster s1, 0\n$B  br b5\nb4 in r3:\n  mbarrier.wait s1, 0\n"
           "  %6 = ld.cluster u32 s0, %2, 1 {scale=4}\n"
           "  st.global u32 %1, %2, %6 {scale=4}\n  br b5\nb5 in r0:\n  cluster.sync\n" END;
#define FILL "  st.shared u32 s0, %2, %2 {scale=4}\n"
  is_right(pattern, PIECES(FILL, ""), &setting);
  races(pattern, PIECES("", FILL), &setting, TS_DIAG_RACE_SHARED);
}
END_TEST

int main(void) {
  return RUN_TESTS("order", test_last_block, test_message_is_passed_on, test_group_barriers,
                   test_peer_memory, test_peer_arrival);
}
