/* Asynchronous copies and barriers: values under every schedule, and the hazards of kernels that do
 * not wait. */
#include "support/failing_allocator.h"
#include "support/kernel.h"
#include "support/suite.h"

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "shared s0 static u8 align 1024 size 4096 \"tile\"\n"                                            \
  "shared s1 barrier u64 align 8 size 32 \"full\"\nreg %0 ptr\nreg %1 ptr\n"
#define START "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n"
#define END "  exit\n}\n"

enum { IN_WORDS = 1024, OUT_WORDS = 2048, SCHEDULES = 5 };

static void choose(struct kernel *k, int schedule) {
  k->options.schedule = schedule < 2 ? (enum ts_schedule_kind)schedule : TS_SCHEDULE_RANDOM;
  k->options.seed = (uint64_t)schedule;
}

/* in[i] = 1000 + i, then one run; the caller ends the kernel. */
static enum ts_status run(struct kernel *k, const char *body, uint32_t threads, int schedule,
                          uint32_t **out) {
  kernel_begin(k, body);
  uint32_t *in = kernel_buffer(k, "in", TS_DTYPE_u32, IN_WORDS * 4);
  *out = kernel_buffer(k, "out", TS_DTYPE_u32, OUT_WORDS * 4);
  for (uint32_t i = 0; i < IN_WORDS; i++)
    in[i] = 1000 + i;
  choose(k, schedule);
  k->options.max_insns_per_warp = 100000;
  return kernel_run(k, 1, threads);
}

/* Clean under all schedules, and out[i] = expected(i) for count words. */
static void check(const char *body, uint32_t threads, uint32_t count,
                  uint32_t (*expected)(uint32_t i)) {
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    enum ts_status status = run(&k, body, threads, schedule, &out);
    if (status != TS_OK || k.diags.items.count)
      ck_abort_msg("schedule %d: %s", schedule, kernel_message(&k, 0));
    for (uint32_t i = 0; i < count; i++)
      ck_assert_msg(out[i] == expected(i), "schedule %d: out[%u] = %u", schedule, i, out[i]);
    kernel_end(&k);
  }
}

/* A diagnostic of the code with the text was reported. */
static void expect(const struct kernel *k, enum ts_diag_code code, const char *text) {
  for (size_t i = 0; i < k->diags.items.count; i++)
    if (k->diags.items.data[i].code == code && strstr(kernel_message(k, i), text)) return;
  ck_abort_msg("no %s with '%s', but: %s", ts_diag_code_text(code), text, kernel_message(k, 0));
}

/* The hazard is found under all schedules. */
static void check_hazard(const char *body, uint32_t threads, enum ts_diag_code code,
                         const char *text) {
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    ck_assert_int_ne(run(&k, body, threads, schedule, &out), TS_OK);
    expect(&k, code, text);
    kernel_end(&k);
  }
}

/* Copies the template with `$` replaced by the texts, in order. */
static void fill(char *body, size_t size, const char *template, const char *const *texts) {
  size_t used = 0;
  for (; *template; template ++) {
    const char *piece = *template == '$' ? *texts++ : NULL;
    int length =
        snprintf(body + used, size - used, "%.*s", piece ? 1000 : 1, piece ? piece : template);
    used += (size_t)length;
    ck_assert_uint_lt(used, size);
  }
}

/* --- cp.async */

#define COPY(index) "  cp.async s0, " index ", %0, " index ", 1 {scale=4, scale2=4, bytes=4}\n"

static uint32_t copied(uint32_t i) { return 1000 + i; }
static uint32_t reversed(uint32_t i) { return 1000 + 127 - i; }

START_TEST(test_cp_async) {
  check(HEAD START COPY("%2") "  cp.async.commit\n  cp.async.wait 0\n"
                              "  %3 = ld.shared u32 s0, %2 {scale=4}\n"
                              "  st.global u32 %1, %2, %3 {scale=4}\n" END,
        128, 128, copied);
  check(HEAD START COPY("%2") "  cp.async.commit\n  cp.async.wait 0\n  bar.sync 0, 0\n"
                              "  %4 = sub u32 127, %2\n  %3 = ld.shared u32 s0, %4 {scale=4}\n"
                              "  st.global u32 %1, %2, %3 {scale=4}\n" END,
        128, 128, reversed);
}
END_TEST

/* Two groups; waiting for all but one makes the first readable, not the second. */
#define TWO_GROUPS                                                                                 \
  "  %4 = add u32 %2, 512\n" COPY("%2") "  cp.async.commit\n" COPY("%4") "  cp.async.commit\n"     \
                                                                         "  cp.async.wait 1\n"

START_TEST(test_cp_async_groups) {
  check(HEAD START TWO_GROUPS "  %3 = ld.shared u32 s0, %2 {scale=4}\n"
                              "  st.global u32 %1, %2, %3 {scale=4}\n" END,
        32, 32, copied);
  check_hazard(HEAD START TWO_GROUPS "  %3 = ld.shared u32 s0, %4 {scale=4}\n"
                                     "  st.global u32 %1, %2, %3 {scale=4}\n" END,
               32, TS_DIAG_RACE_PENDING_READ, "cp.async of warp 0");
}
END_TEST

START_TEST(test_cp_async_races) {
  /* No wait. */
  check_hazard(HEAD START COPY("%2") "  cp.async.commit\n"
                                     "  %3 = ld.shared u32 s0, %2 {scale=4}\n" END,
               32, TS_DIAG_RACE_PENDING_READ, "(tile + 0)");
  /* A wait before the commit does not count the open group. */
  check_hazard(HEAD START COPY("%2") "  cp.async.wait 0\n"
                                     "  %3 = ld.shared u32 s0, %2 {scale=4}\n" END,
               32, TS_DIAG_RACE_PENDING_READ, "reads 4 bytes");
  /* A barrier without a wait, and a wait without a barrier. */
  check_hazard(HEAD START COPY("%2") "  cp.async.commit\n  bar.sync 0, 0\n  %4 = sub u32 127, %2\n"
                                     "  %3 = ld.shared u32 s0, %4 {scale=4}\n" END,
               128, TS_DIAG_RACE_PENDING_READ, "ld.shared");
  check_hazard(HEAD START COPY("%2") "  cp.async.commit\n  st.shared u32 s0, %2, 0 {scale=4}\n"
                                     "  cp.async.wait 0\n" END,
               32, TS_DIAG_RACE_PENDING_WRITE, "overwrites");
  check_hazard(HEAD START COPY("%2") COPY("%2") "  cp.async.commit\n  cp.async.wait 0\n" END, 32,
               TS_DIAG_RACE_PENDING_WRITE, "cp.async overwrites");
}
END_TEST

/* Lanes without the predicate write zeros and read nothing. */
static uint32_t zero_filled(uint32_t i) { return i < 20 ? 1000 + i : 0; }
START_TEST(test_cp_async_zero_fill) {
  check(HEAD START "  %4 = lt u32 %2, 20\n  %5 = select u32 %4, %2, 100000\n"
                   "  cp.async s0, %2, %0, %5, %4 {scale=4, scale2=4, bytes=4}\n"
                   "  cp.async.commit\n  cp.async.wait 0\n"
                   "  %3 = ld.shared u32 s0, %2 {scale=4}\n"
                   "  st.global u32 %1, %2, %3 {scale=4}\n" END,
        32, 32, zero_filled);
  check_hazard(HEAD START "  cp.async s0, %2, %0, 1020, 1 {scale=4, scale2=16, bytes=16}\n"
                          "  cp.async s0, %2, %0, %2, 1 {scale=128, scale2=16, bytes=16}\n" END,
               64, TS_DIAG_RACE_PENDING_WRITE, "cp.async");
  check_hazard(HEAD START "  cp.async s0, %2, %0, %2, 1 {scale=256, scale2=16, bytes=16}\n" END, 32,
               TS_DIAG_BOUNDS_GLOBAL, "in, which has 4096 bytes");
  check_hazard(HEAD START "  cp.async s0, %2, %0, %2, 1 {scale=16, scale2=256, bytes=16}\n" END, 32,
               TS_DIAG_BOUNDS_SHARED, "4128 bytes of shared memory");
  check_hazard(HEAD START "  cp.async s0, %2, %0, %2, 1 {scale=16, scale2=24, bytes=16}\n" END, 32,
               TS_DIAG_MISALIGNED, "cp.async");
}
END_TEST

/* The mbarrier tells of each lane's copies. */
START_TEST(test_cp_async_mbarrier) {
  for (int noinc = 0; noinc < 2; noinc++) {
    char body[2048];
    const char *const texts[] = {noinc ? "1" : "0", noinc ? "" : "  mbarrier.arrive s1\n"};
    fill(body, sizeof body,
         HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\n" START
              "  %3 = eq u32 %2, 0\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
              "  mbarrier.init s1, 64\n  br b2\nb2 in r0:\n  bar.sync 0, 0\n"
              "  %4 = lt u32 %2, 64\n  cbr %4, b3, b4, b4\nb3 in r2:\n"
              "  %5 = add u32 %2, 64\n" COPY("%2")
                  COPY("%5") "  cp.async.mbarrier s1 {noinc=$}\n$  br b4\n"
                             "b4 in r0:\n  mbarrier.wait s1, 0\n  %6 = sub u32 127, %2\n"
                             "  %7 = ld.shared u32 s0, %6 {scale=4}\n"
                             "  st.global u32 %1, %2, %7 {scale=4}\n" END,
         texts);
    check(body, 128, 128, reversed);
  }
}
END_TEST

/* --- bulk copies and mbarriers */

#define ELECTED                                                                                    \
  "region r1 in r0 head b0\n" START "  %3 = eq u32 %2, 0\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
#define JOIN "  br b2\nb2 in r0:\n  bar.sync 0, 0\n"

START_TEST(test_bulk_load) {
  check(HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 512\n"
                     "  bulk.load s0, %0, 512, s1\n" JOIN "  mbarrier.wait s1, 0\n"
                     "  %4 = sub u32 127, %2\n  %5 = ld.shared u32 s0, %4 {scale=4}\n"
                     "  st.global u32 %1, %2, %5 {scale=4}\n" END,
        128, 128, reversed);
  /* The transactions may come before they are expected. */
  check(HEAD ELECTED "  mbarrier.init s1, 1\n  bulk.load s0, %0, 512, s1\n"
                     "  mbarrier.expect_tx s1, 512\n  mbarrier.arrive s1\n" JOIN
                     "  mbarrier.wait s1, 0\n"
                     "  %4 = sub u32 127, %2\n  %5 = ld.shared u32 s0, %4 {scale=4}\n"
                     "  st.global u32 %1, %2, %5 {scale=4}\n" END,
        128, 128, reversed);
}
END_TEST

START_TEST(test_bulk_races) {
  /* Nobody waits; one warp waits and another reads. */
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 512\n"
                            "  bulk.load s0, %0, 512, s1\n" JOIN
                            "  %4 = ld.shared u32 s0, %2 {scale=4}\n" END,
               128, TS_DIAG_RACE_PENDING_READ, "bulk.load of warp 0");
  /* The previous phase is not the one that was asked for. */
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 512\n"
                            "  bulk.load s0, %0, 512, s1\n" JOIN "  mbarrier.wait s1, 1\n"
                            "  %4 = ld.shared u32 s0, %2 {scale=4}\n" END,
               32, TS_DIAG_RACE_PENDING_READ, "bulk.load");
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 512\n"
                            "  bulk.load s0, %0, 520, s1\n" JOIN "  mbarrier.wait s1, 0\n" END,
               32, TS_DIAG_MISALIGNED, "multiples of 16");
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 8192\n"
                            "  bulk.load s0, %0, 8192, s1\n" JOIN "  mbarrier.wait s1, 0\n" END,
               32, TS_DIAG_BOUNDS_SHARED, "8192");
}
END_TEST

/* A wait by one warp is no wait of another; an arrival hands it on. */
START_TEST(test_flow) {
  static const char first[] =
      HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r0 head b2\n" START
           "  %3 = eq u32 %2, 0\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
           "  mbarrier.init s1, 1\n  mbarrier.init s1, 1\n"
           "  %6 = mov u32 s1\n  %7 = add u32 %6, 8\n  mbarrier.init %7, 32\n"
           "  mbarrier.arrive.expect_tx s1, 512\n  bulk.load s0, %0, 512, s1\n  br b2\n"
           "b2 in r0:\n  bar.sync 0, 0\n  %8 = mov u32 s1\n  %9 = add u32 %8, 8\n"
           "  %4 = lt u32 %2, 32\n  cbr %4, b3, b4, b5\n"
           "b3 in r2:\n  mbarrier.wait s1, 0\n  mbarrier.arrive %9\n  br b5\n"
           "b4 in r3:\n";
  static const char last[] = "  %5 = ld.shared u32 s0, %2 {scale=4}\n"
                             "  st.global u32 %1, %2, %5 {scale=4}\n  br b5\nb5 in r0:\n" END;
  char body[4096];
  snprintf(body, sizeof body, "%s  mbarrier.wait %s, 0\n%s", first, "%9", last);
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    enum ts_status status = run(&k, body, 64, schedule, &out);
    if (status != TS_OK) ck_abort_msg("schedule %d: %s", schedule, kernel_message(&k, 0));
    for (uint32_t i = 32; i < 64; i++)
      ck_assert_uint_eq(out[i], 1000 + i);
    kernel_end(&k);
  }
  snprintf(body, sizeof body, "%s%s", first, last);
  check_hazard(body, 64, TS_DIAG_RACE_PENDING_READ, "ld.shared");
}
END_TEST

START_TEST(test_bulk_store) {
  static const char body[] =
      HEAD "region r1 in r0 head b0\n" START "  %3 = add u32 %2, 1000\n"
           "  st.shared u32 s0, %2, %3 {scale=4}\n  fence.proxy.async\n  bar.sync 0, 0\n"
           "  %4 = eq u32 %2, 0\n  cbr %4, b1, b2, b2\nb1 in r1:\n"
           "  bulk.store %1, s0, 512\n  bulk.commit\n$  br b2\nb2 in r0:\n$"
           "  st.shared u32 s0, %2, 5 {scale=4}\n" END;
  char text[2048];
  fill(text, sizeof text, body,
       (const char *const[]){"  bulk.wait 0 {read=1}\n", "  bar.sync 0, 0\n"});
  check(text, 128, 128, copied);
  fill(text, sizeof text, body, (const char *const[]){"", "  bar.sync 0, 0\n"});
  check_hazard(text, 128, TS_DIAG_RACE_PENDING_WRITE, "may still be reading");
  fill(text, sizeof text, body,
       (const char *const[]){"  bulk.wait 1 {read=1}\n", "  bar.sync 0, 0\n"});
  check_hazard(text, 128, TS_DIAG_RACE_PENDING_WRITE, "bulk.store of warp 0");
}
END_TEST

/* Not waited for at all: done by the end of the block. */
START_TEST(test_drain) {
  check(HEAD "region r1 in r0 head b0\n" START "  %3 = add u32 %2, 1000\n"
             "  st.shared u32 s0, %2, %3 {scale=4}\n  bar.sync 0, 0\n"
             "  %4 = eq u32 %2, 0\n  cbr %4, b1, b2, b2\nb1 in r1:\n"
             "  bulk.store %1, s0, 512\n  br b2\nb2 in r0:\n" END,
        128, 128, copied);
}
END_TEST

static uint32_t summed(uint32_t i) { return 2 * (1000 + i) + 0xA5A5A5A5u; }
START_TEST(test_bulk_reduce) {
  check(HEAD "region r1 in r0 head b0\n" START "  %3 = add u32 %2, 1000\n"
             "  st.shared u32 s0, %2, %3 {scale=4}\n  bar.sync 0, 0\n"
             "  %4 = eq u32 %2, 0\n  cbr %4, b1, b2, b2\nb1 in r1:\n"
             "  bulk.store %1, s0, 512 {reduce=add, elem=u32}\n"
             "  bulk.store %1, s0, 512 {reduce=add, elem=u32}\n"
             "  bulk.commit\n  bulk.wait 0\n  br b2\nb2 in r0:\n" END,
        128, 128, summed);
}
END_TEST

/* --- mbarriers */

/* 32 lanes arrive one after another: a barrier of one arrival goes through 32 phases. */
static uint32_t passed(uint32_t i) { return i; }
START_TEST(test_phases) {
  check(HEAD ELECTED "  mbarrier.init s1, 1\n" JOIN
                     "  mbarrier.wait s1, 1\n  mbarrier.arrive s1\n  mbarrier.wait s1, 1\n"
                     "  st.global u32 %1, %2, %2 {scale=4}\n" END,
        32, 32, passed);
  check(HEAD ELECTED "  mbarrier.init s1, 64\n" JOIN "  mbarrier.arrive s1\n"
                     "  mbarrier.wait s1, 0\n  mbarrier.arrive s1\n  mbarrier.wait s1, 1\n"
                     "  st.global u32 %1, %2, %2 {scale=4}\n" END,
        64, 64, passed);
}
END_TEST

START_TEST(test_mbarrier_misuse) {
  check_hazard(HEAD START "  mbarrier.wait s1, 0\n" END, 32, TS_DIAG_BARRIER_MISUSE, "(full[0])");
  check_hazard(HEAD START "  mbarrier.arrive s1\n" END, 32, TS_DIAG_BARRIER_MISUSE,
               "no mbarrier is initialised");
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 0\n" JOIN END, 32, TS_DIAG_BARRIER_MISUSE,
               "0 arrivals");
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 2\n  mbarrier.arrive s1\n"
                            "  mbarrier.init s1, 2\n" JOIN END,
               32, TS_DIAG_BARRIER_MISUSE, "middle of a phase");
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.expect_tx s1, 16\n"
                            "  mbarrier.arrive s1\n  mbarrier.arrive s1\n" JOIN END,
               32, TS_DIAG_BARRIER_MISUSE, "more than 1 arrivals");
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.expect_tx s1, 1048576\n" JOIN END,
               32, TS_DIAG_BARRIER_MISUSE, "expects 1048576 bytes");
  check_hazard(HEAD ELECTED
               "  %4 = mov u32 s1\n  %5 = add u32 %4, 4\n  mbarrier.init %5, 1\n" JOIN END,
               32, TS_DIAG_MISALIGNED, "not aligned to 8");
}
END_TEST

START_TEST(test_deadlocks) {
  check_hazard(HEAD ELECTED "  mbarrier.init s1, 64\n" JOIN
                            "  mbarrier.arrive.expect_tx s1, 16\n  mbarrier.wait s1, 0\n" END,
               32, TS_DIAG_DEADLOCK, "lacks 32 of 64 arrivals and 512 bytes");
  check_hazard(HEAD START "  bar.sync 1, 64\n" END, 32, TS_DIAG_DEADLOCK,
               "barrier 1, where 32 of 64");
}
END_TEST

/* --- numbered barriers */

START_TEST(test_barriers) {
  /* Producer and consumer warps with arrive and sync; the last warp has nothing to do with it. */
  check(HEAD "region r1 in r0 head b0\nregion r2 in r0 head b0\nregion r3 in r2 head b2\n" START
             "  %3 = lt u32 %2, 32\n  cbr %3, b1, b2, b4\n"
             "b1 in r1:\n  %4 = add u32 %2, 1000\n  st.shared u32 s0, %2, %4 {scale=4}\n"
             "  bar.arrive 2, 64\n  br b4\n"
             "b2 in r2:\n  %5 = lt u32 %2, 64\n  cbr %5, b3, b4, b4\n"
             "b3 in r3:\n  bar.sync 2, 64\n  %6 = sub u32 %2, 32\n"
             "  %7 = ld.shared u32 s0, %6 {scale=4}\n  st.global u32 %1, %6, %7 {scale=4}\n"
             "  br b4\nb4 in r0:\n" END,
        96, 32, copied);
}
END_TEST

/* Threads that have exited do not hold up a barrier of all. */
START_TEST(test_barrier_exit) {
  check(HEAD "region r1 in r0 head b0\nregion r2 in r0 head b0\n" START
             "  %3 = lt u32 %2, 40\n  cbr %3, b1, b2, b3\n"
             "b1 in r1:\n  bar.sync 0, 0\n  st.global u32 %1, %2, %2 {scale=4}\n  br b3\n"
             "b2 in r2:\n  exit\nb3 in r0:\n" END,
        128, 40, passed);
}
END_TEST

START_TEST(test_barrier_misuse) {
  check_hazard(HEAD START "  bar.sync 16, 0\n" END, 32, TS_DIAG_BARRIER_MISUSE, "does not exist");
  check_hazard(HEAD START "  bar.sync 1, 40\n" END, 32, TS_DIAG_BARRIER_MISUSE,
               "no multiple of 32");
  check_hazard(HEAD START "  %3 = shr u32 %2, 5\n  %4 = add u32 %3, 1\n  %5 = mul u32 %4, 64\n"
                          "  bar.sync 1, %5\n" END,
               64, TS_DIAG_BARRIER_MISUSE, "while others wait");
}
END_TEST

static uint32_t counted(uint32_t i) { return i < 64 ? 20 : i < 128 ? 0 : 1; }
START_TEST(test_bar_red) {
  check(HEAD START "  %3 = lt u32 %2, 20\n  %4 = bar.red u32 0, 0, %3 {mode=popc}\n"
                   "  st.global u32 %1, %2, %4 {scale=4}\n"
                   "  %5 = bar.red pred 0, 0, %3 {mode=and}\n  %6 = cvt u32 pred %5\n"
                   "  st.global u32 %1, %2, %6 {scale=4, offset=256}\n"
                   "  %7 = bar.red pred 0, 0, %3 {mode=or}\n  %8 = cvt u32 pred %7\n"
                   "  st.global u32 %1, %2, %8 {scale=4, offset=512}\n" END,
        64, 192, counted);
}
END_TEST

/* --- TMA in kernels */

static struct ts_tensormap tile_map(uint64_t address, uint32_t columns, uint32_t rows) {
  struct ts_tensormap map = {.dtype = TS_TENSORMAP_U32,
                             .elem_size_bytes = 4,
                             .rank = 2,
                             .global_address = address,
                             .size = {32, 32},
                             .stride_bytes = {4, 128},
                             .box = {columns, rows},
                             .elem_stride = {1, 1},
                             .swizzle = 3};
  return map;
}

#define MAP_HEAD                                                                                   \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "param p2 tensormap u32 \"in_map\"\nparam p3 tensormap u32 \"out_map\"\n"                        \
  "shared s0 static u8 align 1024 size 8192 \"tile\"\n"                                            \
  "shared s1 barrier u64 align 8 size 16 \"full\"\nreg %0 ptr\nreg %1 ptr\n"

static enum ts_status run_maps(struct kernel *k, const char *body, uint32_t threads, int schedule,
                               uint32_t **out) {
  kernel_begin(k, body);
  uint32_t *in = kernel_buffer(k, "in", TS_DTYPE_u32, 4096);
  uint64_t in_address = k->args[0].value;
  *out = kernel_buffer(k, "out", TS_DTYPE_u32, 4096);
  for (uint32_t i = 0; i < 1024; i++)
    in[i] = 1000 + i;
  kernel_map(k, tile_map(in_address, 32, 8));
  kernel_map(k, tile_map(k->args[1].value, 32, 8));
  choose(k, schedule);
  k->options.max_insns_per_warp = 100000;
  return kernel_run(k, 1, threads);
}

/* Four tiles through two stages, one warp loading, one storing: out = in shifted down by two rows
 * (the first two are out of bounds and zero). */
static const char pipeline[] =
    MAP_HEAD "reg %4 u32\nreg %5 u32\n"
             "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r0 head b2\n"
             "region r4 in r2 head b4\nregion r5 in r4 head b5\nregion r6 in r3 head b9\n"
             "region r7 in r6 head b10\n"
             "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n  %3 = eq u32 %2, 0\n"
             "  cbr %3, b1, b2, b2\n"
             "b1 in r1:\n  mbarrier.init s1, 1\n  %6 = mov u32 s1\n  %7 = add u32 %6, 8\n"
             "  mbarrier.init %7, 32\n  fence.mbarrier_init\n  br b2\n"
             "b2 in r0:\n  bar.sync 0, 0\n  %8 = mov u32 s1\n  %9 = add u32 %8, 8\n"
             "  %10 = lt u32 %2, 32\n  %4 = mov u32 0\n  %5 = mov u32 0\n"
             "  cbr %10, b3, b8, b13\n"
             /* producer: tile %4, one stage with full (s1) and empty (%9) barriers */
             "b3 in r2:\n  br b4\n"
             "b4 in r2:\n  %11 = lt u32 %4, 4\n  cbr %11, b5, b13, b13\n"
             "b5 in r4:\n  %12 = and u32 %4, 1\n  %13 = xor u32 %12, 1\n"
             "  mbarrier.wait %9, %13\n  %14 = eq u32 %2, 0\n  cbr %14, b6, b7, b7\n"
             "b6 in r5:\n  mbarrier.arrive.expect_tx s1, 1024\n  %15 = mul u32 %4, 8\n"
             "  %16 = cvt s32 u32 %15\n  %17 = sub s32 %16, 2\n"
             "  tma.load p2, s0, s1, 0, %17\n  br b7\n"
             "b7 in r4:\n  %18 = add u32 %4, 1\n  %4 = mov u32 %18\n  br b4\n"
             /* consumer */
             "b8 in r3:\n  br b9\n"
             "b9 in r3:\n  %19 = lt u32 %5, 4\n  cbr %19, b10, b13, b13\n"
             "b10 in r6:\n  %20 = and u32 %5, 1\n  mbarrier.wait s1, %20\n"
             "  %21 = eq u32 %2, 32\n  cbr %21, b11, b12, b12\n"
             "b11 in r7:\n  %22 = mul u32 %5, 8\n  tma.store p3, s0, 0, %22\n  bulk.commit\n"
             "  bulk.wait 0 {read=1}\n  br b12\n"
             "b12 in r6:\n  warp.sync 0xffffffff\n  mbarrier.arrive %9\n"
             "  %23 = add u32 %5, 1\n  %5 = mov u32 %23\n  br b9\n"
             "b13 in r0:\n  exit\n}\n";

START_TEST(test_tma_pipeline) {
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    enum ts_status status = run_maps(&k, pipeline, 64, schedule, &out);
    if (status != TS_OK) ck_abort_msg("schedule %d: %s", schedule, kernel_message(&k, 0));
    for (uint32_t i = 0; i < 1024; i++)
      ck_assert_uint_eq(out[i], i < 64 ? 0 : 1000 + i - 64);
    ck_assert_uint_eq(k.stats.tma_box_count, 8);
    ck_assert_uint_eq(k.stats.tma_bytes, 8192);
    kernel_end(&k);
  }
}
END_TEST

/* Without the wait for the empty barrier the producer overwrites what is in use. */
START_TEST(test_tma_overrun) {
  char body[sizeof pipeline];
  memcpy(body, pipeline, sizeof body);
  char *wait = strstr(body, "  mbarrier.wait %9, %13\n");
  ck_assert_ptr_nonnull(wait);
  memset(wait, ' ', strlen("  mbarrier.wait %9, %13"));
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    ck_assert_int_ne(run_maps(&k, body, 64, schedule, &out), TS_OK);
    expect(&k, TS_DIAG_RACE_PENDING_WRITE, "tma.load overwrites");
    kernel_end(&k);
  }
}
END_TEST

static void check_map_hazard(const char *middle, enum ts_diag_code code, const char *text) {
  char body[4096];
  fill(body, sizeof body,
       MAP_HEAD "region r1 in r0 head b0\n" START "  %3 = eq u32 %2, 0\n"
                "  cbr %3, b1, b2, b2\nb1 in r1:\n  mbarrier.init s1, 1\n$  br b2\n"
                "b2 in r0:\n" END,
       &middle);
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    uint32_t *out;
    ck_assert_int_ne(run_maps(&k, body, 32, schedule, &out), TS_OK);
    expect(&k, code, text);
    kernel_end(&k);
  }
}

START_TEST(test_tma_faults) {
  check_map_hazard("  tma.store p3, s0, 0, -1\n  bulk.commit\n  bulk.wait 0\n", TS_DIAG_DEVICE_TRAP,
                   "negative coordinate");
  check_map_hazard("  %4 = mov u32 s0\n  %5 = add u32 %4, 64\n  tma.load p2, %5, s1, 0, 0\n",
                   TS_DIAG_MISALIGNED, "aligned to 128");
  check_map_hazard("  %4 = mov u32 s1\n  %5 = add u32 %4, 8\n  tma.load p2, s0, %5, 0, 0\n",
                   TS_DIAG_BARRIER_MISUSE, "full[1]");
  check_map_hazard("  tma.load p2, s0, s1, 0, 0\n  tma.load p2, s0, s1, 0, 0\n",
                   TS_DIAG_RACE_PENDING_WRITE, "tma.load overwrites 1024 bytes");
}
END_TEST

/* Every allocation of a run may fail: the run ends with TS_NO_MEMORY and loses nothing. */
START_TEST(test_short_memory) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct kernel k;
    uint32_t *in, *out;
    kernel_begin(&k, pipeline);
    in = kernel_buffer(&k, "in", TS_DTYPE_u32, 4096);
    out = kernel_buffer(&k, "out", TS_DTYPE_u32, 4096);
    memset(in, 1, 4096);
    kernel_map(&k, tile_map(k.args[0].value, 32, 8));
    kernel_map(&k, tile_map(k.args[1].value, 32, 8));
    k.options.schedule = TS_SCHEDULE_LAZY;
    k.ctx.allocator = &memory.allocator;
    enum ts_status status = kernel_run(&k, 1, 64);
    ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    if (status == TS_OK) ck_assert_uint_eq(out[1000], 0x01010101);
    kernel_end(&k);
  }
}
END_TEST

/* A warp that only waits is overtaken by two phases: it goes on, with a remark. */
START_TEST(test_overtaken) {
  struct kernel k;
  uint32_t *out;
  enum ts_status status =
      run(&k,
          HEAD "region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r0 head b2\n" START
               "  %3 = eq u32 %2, 0\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
               "  mbarrier.init s1, 32\n  br b2\nb2 in r0:\n  bar.sync 0, 0\n"
               "  %4 = lt u32 %2, 32\n  cbr %4, b3, b4, b5\n"
               "b3 in r2:\n  mbarrier.arrive s1\n  mbarrier.arrive s1\n  br b5\n"
               "b4 in r3:\n  mbarrier.wait s1, 0\n  mbarrier.wait s1, 1\n"
               "  st.global u32 %1, %2, %2 {scale=4}\n  br b5\nb5 in r0:\n" END,
          64, 0, &out);
  ck_assert_int_eq(status, TS_OK);
  ck_assert_uint_eq(k.diags.items.count, 1);
  ck_assert_int_eq(k.diags.items.data[0].code, TS_DIAG_WAIT_OVERTAKEN);
  ck_assert_uint_eq(out[63], 63);
  kernel_end(&k);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp async", test_cp_async, test_cp_async_groups, test_cp_async_races,
                   test_cp_async_zero_fill, test_cp_async_mbarrier, test_bulk_load, test_bulk_races,
                   test_flow, test_bulk_store, test_drain, test_bulk_reduce, test_phases,
                   test_mbarrier_misuse, test_deadlocks, test_barriers, test_barrier_exit,
                   test_barrier_misuse, test_bar_red, test_tma_pipeline, test_tma_overrun,
                   test_tma_faults, test_short_memory, test_overtaken);
}
