/* Every kind of hazard that `check` finds: a kernel that has it, and a near miss that has not. Each
 * kernel runs under several schedules; what is found must not depend on them. */
#include "support/failing_allocator.h"
#include "support/kernel.h"
#include "support/suite.h"

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "array a0 f32 4\narray a1 f16 8\n"                                                               \
  "shared s0 static u8 align 1024 size 32768 \"tile\"\n"                                           \
  "shared s1 barrier u64 align 8 size 32 \"full\"\nreg %0 ptr\nreg %1 ptr\n"
#define REGION "region r1 in r0 head b0\n"
#define START "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n"
#define GAP "  %3 = mov u32 0\n" /* registers are numbered without gaps */
#define ELECTED REGION START "  %3 = eq u32 %2, 0\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
#define JOIN "  br b2\nb2 in r0:\n"
#define END "  exit\n}\n"

enum { WORDS = 8192, SCHEDULES = 6 };

struct setting {
  uint32_t blocks, threads;
  bool numbers, speed, out_is_unset;
  const struct ts_tensormap *map; /* over `in`, or NULL: parameter 2 */
};

static enum ts_status run_one(struct kernel *k, const char *body, const struct setting *setting,
                              int schedule) {
  kernel_begin(k, body);
  uint32_t *in = kernel_buffer(k, "in", TS_DTYPE_u32, WORDS * 4);
  kernel_buffer(k, "out", TS_DTYPE_u32, WORDS * 4);
  for (uint32_t i = 0; i < WORDS; i++)
    in[i] = i % 7;
  k->memory.allocations.data[2].is_unset = setting->out_is_unset;
  if (setting->map) {
    struct ts_tensormap map = *setting->map;
    map.global_address = k->args[0].value;
    kernel_map(k, map);
  }
  static const enum ts_schedule_kind kinds[SCHEDULES] = {TS_SCHEDULE_EAGER,  TS_SCHEDULE_LAZY,
                                                         TS_SCHEDULE_RANDOM, TS_SCHEDULE_RANDOM,
                                                         TS_SCHEDULE_LAST,   TS_SCHEDULE_LAST};
  k->options.schedule = kinds[schedule];
  k->options.seed = (uint64_t)schedule & 1;
  k->options.checks = true;
  k->options.check_numbers = setting->numbers;
  k->options.check_speed = setting->speed;
  k->options.max_insns_per_warp = 100000;
  return kernel_run(k, setting->blocks, setting->threads);
}

static bool has(const struct kernel *k, enum ts_diag_code code) {
  for (size_t i = 0; i < k->diags.items.count; i++)
    if (k->diags.items.data[i].code == code) return true;
  return false;
}

/* A kernel of the pattern with the piece in place of $A. */
static void run_all(const char *pattern, const char *piece, const struct setting *setting,
                    enum ts_diag_code code, bool is_found) {
  char body[8192];
  kernel_text(body, sizeof body, pattern, (const char *const[]){piece});
  for (int schedule = 0; schedule < SCHEDULES; schedule++) {
    struct kernel k;
    enum ts_status status = run_one(&k, body, setting, schedule);
    /* Another order may show the same fault as a read of data in flight. */
    bool is_other = schedule && status != TS_OK && has(&k, TS_DIAG_RACE_PENDING_READ);
    if (is_found && !has(&k, code) && !is_other)
      ck_abort_msg("schedule %d: no %s with '%s', but %s: %s", schedule, ts_diag_code_text(code),
                   piece, ts_status_text(status), kernel_message(&k, 0));
    if (!is_found && (status != TS_OK || k.diags.items.count))
      ck_abort_msg("schedule %d: '%s' gives %s: %s", schedule, piece,
                   ts_diag_code_text(k.diags.items.count ? k.diags.items.data[0].code : code),
                   kernel_message(&k, 0));
    for (size_t i = 0; i < k.diags.items.count && k.diags.items.data[i].code == code; i++)
      ck_assert_str_eq(k.diags.items.data[i].function, "k");
    kernel_end(&k);
  }
}

static const struct setting one_block = {.blocks = 1, .threads = 128};
static const struct setting one_warp = {.blocks = 1, .threads = 32};
static const struct setting two_blocks = {.blocks = 2, .threads = 64};

static void finds(const char *pattern, const char *bad, const char *good, enum ts_diag_code code,
                  const struct setting *setting) {
  run_all(pattern, bad, setting, code, true);
  run_all(pattern, good, setting, code, false);
}

/* --- races of warps */

#define SWAP                                                                                       \
  HEAD START GAP                                                                                   \
      "  st.shared u32 s0, %2, %2 {scale=4}\n$A  %4 = sub u32 127, %2\n"                           \
      "  %5 = ld.shared u32 s0, %4 {scale=4}\n  st.global u32 %1, %2, %5 {scale=4}\n" END

START_TEST(test_shared_race) {
  finds(SWAP, "", "  bar.sync 0, 0\n", TS_DIAG_RACE_SHARED, &one_block);
  finds(SWAP, "  fence\n", "  bar.sync 3, 128\n", TS_DIAG_RACE_SHARED, &one_block);
  /* Arriving alone does not wait. */
  finds(SWAP, "  bar.arrive 1, 128\n", "  bar.arrive 1, 256\n  bar.sync 1, 256\n",
        TS_DIAG_RACE_SHARED, &one_block);
}
END_TEST

/* A write behind a read that nobody waits for. */
START_TEST(test_write_after_read) {
  finds(HEAD START GAP "  st.shared u32 s0, %2, %2 {scale=4}\n  bar.sync 0, 0\n"
                       "  %4 = sub u32 127, %2\n  %5 = ld.shared u32 s0, %4 {scale=4}\n"
                       "$A  st.shared u32 s0, %2, 0 {scale=4}\n"
                       "  st.global u32 %1, %2, %5 {scale=4}\n" END,
        "", "  bar.sync 0, 0\n", TS_DIAG_RACE_SHARED, &one_block);
}
END_TEST

/* Pairs of warps have a barrier each: its number decides who is ordered. */
START_TEST(test_barrier_number) {
  finds(HEAD START GAP "  st.shared u32 s0, %2, %2 {scale=4}\n  %4 = shr u32 %2, 6\n"
                       "  %5 = add u32 %4, 1\n  bar.sync %5, 64\n$A"
                       "  %7 = ld.shared u32 s0, %6 {scale=4}\n"
                       "  st.global u32 %1, %2, %7 {scale=4}\n" END,
        "  %6 = xor u32 %2, 64\n", "  %6 = xor u32 %2, 32\n", TS_DIAG_RACE_SHARED, &one_block);
}
END_TEST

/* Stores of one value to one place have no order and need none. */
START_TEST(test_equal_stores) {
  finds(HEAD START "  st.shared u32 s0, 0, $A {scale=4}\n" END, "%2", "7", TS_DIAG_RACE_SHARED,
        &one_block);
  finds(HEAD START "  st.global u32 %1, 0, $A {scale=4}\n" END, "%2", "7", TS_DIAG_RACE_GLOBAL,
        &one_block);
}
END_TEST

/* Lanes of one warp, one instruction: the values must be equal where the places are. */
START_TEST(test_lanes_race) {
  finds(HEAD START "  %3 = and u32 %2, $A\n  st.shared u32 s0, %3, %2 {scale=4}\n" END, "15", "31",
        TS_DIAG_RACE_SHARED, &one_warp);
  finds(HEAD START "  %3 = and u32 %2, 7\n  %4 = mul u32 %3, %3\n"
                   "  st.global u32 %1, %4, $A {scale=4}\n" END,
        "%2", "%3", TS_DIAG_RACE_GLOBAL, &one_warp);
  finds(HEAD START "  %3 = shr u32 %2, $A\n  st.shared u32 s0, 5, %3 {scale=4}\n" END, "4", "5",
        TS_DIAG_RACE_SHARED, &one_warp);
  /* What another lane has stored, and what the lane itself has. */
#define NEIGHBOUR(between)                                                                         \
  HEAD START "  %3 = xor u32 %2, 1\n  st.shared u32 s0, %2, %2 {scale=4}\n" between                \
             "  %4 = ld.shared u32 s0, %3 {scale=4}\n  st.global u32 %1, %2, %4 {scale=4}\n" END
  finds(NEIGHBOUR("$A"), "", "  warp.sync 0xffffffff\n", TS_DIAG_RACE_SHARED, &one_warp);
  finds(NEIGHBOUR("$A"), "", "  bar.sync 0, 0\n", TS_DIAG_RACE_SHARED, &one_warp);
  finds(HEAD START "  %3 = xor u32 %2, $A\n  st.shared u32 s0, %2, %2 {scale=4}\n"
                   "  %4 = ld.shared u32 s0, %3 {scale=4}\n" END,
        "4", "0", TS_DIAG_RACE_SHARED, &one_warp);
}
END_TEST

START_TEST(test_global_race) {
  finds(HEAD START "  %3 = sreg u32 {which=ctaid.x}\n  %4 = mul u32 %3, $A\n"
                   "  %5 = add u32 %4, %2\n  st.global u32 %1, %5, %3 {scale=4}\n" END,
        "63", "64", TS_DIAG_RACE_GLOBAL, &two_blocks);
  /* A block reads what another writes. */
  finds(HEAD START "  %3 = sreg u32 {which=ctaid.x}\n  %4 = mul u32 %3, 64\n"
                   "  %5 = add u32 %4, %2\n  st.global u32 %1, %5, %3 {scale=4}\n"
                   "  %6 = xor u32 %5, $A\n  %7 = ld.global u32 %1, %6 {scale=4}\n"
                   "  st.global u32 %1, %5, %7 {scale=4}\n" END,
        "64", "0", TS_DIAG_RACE_GLOBAL, &two_blocks);
  finds(HEAD START GAP "  st.global u32 %1, %2, %2 {scale=4}\n$A  %4 = sub u32 127, %2\n"
                       "  %5 = ld.global u32 %1, %4 {scale=4}\n"
                       "  st.global u32 %1, %2, %5 {scale=4, offset=512}\n" END,
        "", "  bar.sync 0, 0\n", TS_DIAG_RACE_GLOBAL, &one_block);
  /* Atomics may meet; a plain store among them may not. */
  finds(HEAD START "$A  atom.global u32 %1, %2, 1 {scale=4, reduce=add}\n" END,
        "  st.global u32 %1, %2, 1 {scale=4}\n", "", TS_DIAG_RACE_GLOBAL, &two_blocks);
}
END_TEST

/* --- the asynchronous proxy */

START_TEST(test_proxy_fence) {
#define STORE                                                                                      \
  HEAD REGION START "  st.shared u32 s0, %2, %2 {scale=4}\n$A  %3 = eq u32 %2, 0\n"                \
                    "  cbr %3, b1, b2, b2\nb1 in r1:\n"                                            \
                    "  bulk.store %1, s0, 512\n  bulk.commit\n  bulk.wait 0 {read=1}\n" JOIN END
  finds(STORE, "  bar.sync 0, 0\n", "  fence.proxy.async\n  bar.sync 0, 0\n", TS_DIAG_RACE_PROXY,
        &one_block);
  /* The fence of the reader after the barrier will do as well. */
  finds(STORE, "  fence.proxy.async\n  st.shared u32 s0, %2, 1 {scale=4}\n  bar.sync 0, 0\n",
        "  bar.sync 0, 0\n  fence.proxy.async\n", TS_DIAG_RACE_PROXY, &one_block);
  finds(STORE, "  fence.proxy.async\n", "  fence.proxy.async\n  bar.sync 0, 0\n",
        TS_DIAG_RACE_SHARED, &one_block);
}
END_TEST

/* Warp 0 refills the tile that all have read. */
START_TEST(test_refill) {
  finds(HEAD REGION "region r2 in r0 head b2\n" START "  %3 = eq u32 %2, 0\n"
                    "  cbr %3, b1, b2, b2\nb1 in r1:\n  mbarrier.init s1, 1\n"
                    "  mbarrier.arrive.expect_tx s1, 512\n  bulk.load s0, %0, 512, s1\n  br b2\n"
                    "b2 in r0:\n  bar.sync 0, 0\n  mbarrier.wait s1, 0\n"
                    "  %4 = ld.shared u32 s0, %2 {scale=4}\n$A  cbr %3, b3, b4, b4\n"
                    "b3 in r2:\n  mbarrier.arrive.expect_tx s1, 512\n"
                    "  bulk.load s0, %0, 512, s1\n  br b4\n"
                    "b4 in r0:\n  mbarrier.wait s1, 1\n  %5 = ld.shared u32 s0, %2 {scale=4}\n"
                    "  st.global u32 %1, %2, %4 {scale=4}\n"
                    "  st.global u32 %1, %2, %5 {scale=4, offset=512}\n" END,
        "", "  bar.sync 0, 0\n", TS_DIAG_RACE_REFILL, &one_block);
}
END_TEST

/* A use of the mbarrier that may come before its initialisation. */
START_TEST(test_mbarrier_order) {
  static const struct setting two_warps = {.blocks = 1, .threads = 64};
  char body[2048];
  kernel_text(body, sizeof body,
              HEAD ELECTED "  mbarrier.init s1, 64\n" JOIN "$A  mbarrier.arrive s1\n"
                           "  mbarrier.wait s1, 0\n" END,
              (const char *const[]){""});
  struct kernel k;
  run_one(&k, body, &two_warps, 0);
  ck_assert(has(&k, TS_DIAG_RACE_SHARED));
  kernel_end(&k);
  run_all(HEAD ELECTED "  mbarrier.init s1, 64\n" JOIN "$A  mbarrier.arrive s1\n"
                       "  mbarrier.wait s1, 0\n" END,
          "  bar.sync 0, 0\n", &two_warps, TS_DIAG_RACE_SHARED, false);
}
END_TEST

/* --- wgmma and layouts: A is 64 rows of 64 f16 at s0, B the 8 rows after them. Descriptors are in
 * units of 16 bytes: start, leading offset << 16, stride << 32, layout type << 62. */

static const struct ts_tensormap tile_map = {.dtype = TS_TENSORMAP_F16,
                                             .elem_size_bytes = 2,
                                             .rank = 2,
                                             .size = {64, 72},
                                             .stride_bytes = {2, 128},
                                             .box = {64, 72},
                                             .elem_stride = {1, 1},
                                             .swizzle = 3};

#define WGMMA                                                                                      \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "param p2 tensormap f16 \"map\"\narray a0 f32 4\n"                                               \
  "shared s0 static u8 align 1024 size 32768 \"tile\"\n"                                           \
  "shared s1 barrier u64 align 8 size 32 \"full\"\nreg %0 ptr\nreg %1 ptr\n" ELECTED               \
  "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, 9216\n"                                  \
  "  tma.load p2, s0, s1, 0, 0\n" JOIN "  bar.sync 0, 0\n  mbarrier.wait s1, 0\n"
#define SHAPE " {m=64, n=8, k=16, b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n"
#define DONE                                                                                       \
  "  wgmma.commit\n  wgmma.wait 0\n  %4 = ld.local f32 a0, 0\n"                                    \
  "  st.global f32 %1, %2, %4 {scale=4}\n" END

/* 128-byte swizzle (1 << 62), 8 rows 1024 bytes apart; B starts at byte 8192. */
#define A128 "0x4000004000010000"
#define B128 "0x4000004000010200"

START_TEST(test_layout) {
  struct setting setting = {.blocks = 1, .threads = 128, .map = &tile_map};
  static const char pattern[] =
      WGMMA "  wgmma.fence\n  wgmma.ss f32 f16 $A, " B128 ", a0, 0, 0" SHAPE DONE;
  finds(pattern, "0x8000004000010000", A128, TS_DIAG_LAYOUT_SWIZZLE, &setting);
  finds(pattern, "0x4000002000010000", A128, TS_DIAG_LAYOUT_DESCRIPTOR, &setting);
  /* The swizzle of the map is as good a place for the mistake. */
  struct ts_tensormap plain = tile_map;
  char body[4096];
  struct kernel k;
  plain.swizzle = 0;
  setting.map = &plain;
  kernel_text(body, sizeof body, pattern, (const char *const[]){A128});
  run_one(&k, body, &setting, 0);
  ck_assert(has(&k, TS_DIAG_LAYOUT_SWIZZLE));
  kernel_end(&k);
}
END_TEST

/* Row l % 8 of the tile for lane l, second chunk: with and without the swizzle. */
START_TEST(test_ldmatrix_layout) {
  struct setting setting = {.blocks = 1, .threads = 128, .map = &tile_map};
  finds(WGMMA "  %4 = and u32 %2, 7\n  %5 = mul u32 %4, 128\n$A  %7 = mul u32 %6, 16\n"
              "  %8 = add u32 %5, %7\n  ldmatrix f32 a0, 0, s0, %8 {num=1, scale=1}\n"
              "  %9 = ld.local f32 a0, 0\n  st.global f32 %1, %2, %9 {scale=4}\n" END,
        "  %6 = mov u32 1\n", "  %6 = xor u32 %4, 1\n", TS_DIAG_LAYOUT_SWIZZLE, &setting);
}
END_TEST

START_TEST(test_wgmma_fence) {
  struct setting setting = {.blocks = 1, .threads = 128, .map = &tile_map};
#define CLEAR                                                                                      \
  "  st.local f32 a0, 0, 0\n  st.local f32 a0, 1, 0\n  st.local f32 a0, 2, 0\n"                    \
  "  st.local f32 a0, 3, 0\n"
  finds(WGMMA "$A  wgmma.ss f32 f16 " A128 ", " B128 ", a0, 0, 1" SHAPE DONE,
        "  wgmma.fence\n" CLEAR, CLEAR "  wgmma.fence\n", TS_DIAG_RACE_WGMMA_FENCE, &setting);
  /* Reading what the next product accumulates in. */
  finds(WGMMA "  wgmma.fence\n" CLEAR "  wgmma.fence\n  wgmma.ss f32 f16 " A128 ", " B128
              ", a0, 0, 1" SHAPE "  wgmma.commit\n  wgmma.wait 0\n  %5 = ld.local f32 a0, 1\n"
              "  st.global f32 %1, %2, %5 {scale=4}\n$A  wgmma.ss f32 f16 " A128 ", " B128
              ", a0, 0, 1" SHAPE DONE,
        "", "  wgmma.fence\n", TS_DIAG_RACE_WGMMA_FENCE, &setting);
  /* Accumulators that nobody has cleared. */
  finds(WGMMA "  wgmma.fence\n  wgmma.ss f32 f16 " A128 ", " B128 ", a0, 0, $A" SHAPE DONE, "1",
        "0", TS_DIAG_UNSET_LOCAL, &setting);
}
END_TEST

/* --- values that were never set */

START_TEST(test_unset_shared) {
#define MASKED                                                                                     \
  HEAD REGION START "  %3 = lt u32 %2, 16\n  cbr %3, b1, b2, b2\nb1 in r1:\n"                      \
                    "  st.shared u32 s0, %2, %2 {scale=4}\n" JOIN                                  \
                    "  %4 = ld.shared u32 s0, %2 {scale=4}\n$A" END
  finds(MASKED, "  st.global u32 %1, %2, %4 {scale=4}\n",
        "  %5 = select u32 %3, %4, 0\n  st.global u32 %1, %2, %5 {scale=4}\n", TS_DIAG_UNSET_SHARED,
        &one_warp);
  /* As an address; through arithmetic, other lanes and shared memory. */
  finds(MASKED, "  %5 = ld.global u32 %0, %4 {scale=4}\n", "  %5 = add u32 %4, 1\n",
        TS_DIAG_UNSET_SHARED, &one_warp);
  finds(MASKED,
        "  %5 = shfl u32 %4, 16, 32, 0xffffffff {mode=bfly}\n  %6 = select u32 %3, %5, 0\n"
        "  st.global u32 %1, %2, %6 {scale=4}\n",
        "  %5 = shfl u32 %4, 8, 32, 0xffffffff {mode=bfly}\n  %6 = select u32 %3, %5, 0\n"
        "  st.global u32 %1, %2, %6 {scale=4}\n",
        TS_DIAG_UNSET_SHARED, &one_warp);
  finds(MASKED,
        "  st.shared u32 s0, %2, %4 {scale=4, offset=256}\n"
        "  %5 = ld.shared u32 s0, %2 {scale=4, offset=256}\n"
        "  st.global u32 %1, %2, %5 {scale=4}\n",
        "  st.shared u32 s0, %2, %4 {scale=4, offset=256}\n"
        "  %5 = ld.shared u32 s0, %2 {scale=4, offset=256}\n",
        TS_DIAG_UNSET_SHARED, &one_warp);
}
END_TEST

START_TEST(test_unset_local) {
  finds(HEAD START "  st.local f32 a0, 1, 0\n  %3 = ld.local f32 a0, $A\n"
                   "  st.global f32 %1, %2, %3 {scale=4}\n" END,
        "2", "1", TS_DIAG_UNSET_LOCAL, &one_warp);
  /* Half of a word. */
  finds(HEAD START "  st.local f16 a1, 2, 0\n  %3 = ld.local f16 a1, $A\n"
                   "  st.global f16 %1, %2, %3 {scale=2}\n" END,
        "3", "2", TS_DIAG_UNSET_LOCAL, &one_warp);
  /* A register that only one path sets. */
  finds(HEAD REGION START "  %3 = lt u32 %2, $A\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
                          "  %4 = add u32 %2, 1\n" JOIN
                          "  st.global u32 %1, %2, %4 {scale=4}\n" END,
        "16", "32", TS_DIAG_UNSET_LOCAL, &one_warp);
}
END_TEST

START_TEST(test_unset_global) {
  static const struct setting setting = {.blocks = 1, .threads = 32, .out_is_unset = true};
  finds(HEAD START "$A  %3 = ld.global u32 %1, %2 {scale=4}\n  %4 = add u32 %3, 1\n"
                   "  st.global u32 %1, %2, %4 {scale=4}\n" END,
        "", "  st.global u32 %1, %2, 0 {scale=4}\n", TS_DIAG_UNSET_GLOBAL, &setting);
}
END_TEST

/* --- barriers and counts */

START_TEST(test_divergent_barrier) {
  static const struct setting two_warps = {.blocks = 1, .threads = 64};
  finds(HEAD REGION "region r2 in r0 head b0\n" START "  %3 = lt u32 %2, $A\n"
                    "  cbr %3, b1, b2, b3\nb1 in r1:\n  bar.sync 0, 0\n  br b3\n"
                    "b2 in r2:\n  bar.sync 0, 0\n  br b3\nb3 in r0:\n" END,
        "16", "32", TS_DIAG_BARRIER_DIVERGENT, &two_warps);
}
END_TEST

START_TEST(test_expect_tx) {
#define EXPECT                                                                                     \
  HEAD ELECTED "  mbarrier.init s1, 1\n  mbarrier.arrive.expect_tx s1, $A\n"                       \
               "  bulk.load s0, %0, 512, s1\n" JOIN "  bar.sync 0, 0\n  mbarrier.wait s1, 0\n" END
  finds(EXPECT, "1024", "512", TS_DIAG_EXPECT_TX, &one_block);
  finds(EXPECT, "256", "512", TS_DIAG_EXPECT_TX, &one_block);
}
END_TEST

/* --- remarks */

START_TEST(test_atomics) {
  finds(HEAD START "  atom.global u32 %1, $A, 1 {scale=4, reduce=add}\n" END, "0", "%2",
        TS_DIAG_ATOMIC_REPEATED, &one_warp);
  finds(HEAD START "  %3 = and u32 %2, $A\n  atom.global f32 %1, %3, 1065353216 "
                   "{scale=4, reduce=add}\n" END,
        "31", "63", TS_DIAG_ORDER_DEPENDENT, &(struct setting){.blocks = 1, .threads = 64});
}
END_TEST

START_TEST(test_numbers) {
  static const struct setting setting = {.blocks = 1, .threads = 32, .numbers = true};
  /* 65536 is too much for f16, 1 is not. */
  finds(HEAD START "  %3 = mov f32 $A\n  %4 = cvt f16 f32 %3\n"
                   "  st.global f16 %1, %2, %4 {scale=2}\n" END,
        "0x47800000", "0x3f800000", TS_DIAG_NUMBER_OVERFLOW, &setting);
  /* inf - inf, and inf - 1. */
  finds(HEAD START "  %3 = mov f32 0x7f800000\n  %4 = sub f32 %3, $A\n"
                   "  st.global f32 %1, %2, %4 {scale=4}\n" END,
        "0x7f800000", "0x3f800000", TS_DIAG_NUMBER_NAN, &setting);
  /* 1 + 2^-23 less 1, and less 0.5. */
  finds(HEAD START "  %3 = mov f32 0x3f800001\n  %4 = sub f32 %3, $A\n"
                   "  st.global f32 %1, %2, %4 {scale=4}\n" END,
        "0x3f800000", "0x3f000000", TS_DIAG_NUMBER_CANCELLED, &setting);
}
END_TEST

START_TEST(test_speed) {
  static const struct setting setting = {.blocks = 1, .threads = 32, .speed = true};
  finds(HEAD START "  %3 = mul u32 %2, $A\n  st.shared u32 s0, %3, 0 {scale=4}\n" END, "32", "33",
        TS_DIAG_SPEED_BANKS, &setting);
  finds(HEAD START "  st.shared u32x4 s0, %2, 0 {scale=$A}\n" END, "64", "16", TS_DIAG_SPEED_BANKS,
        &setting);
  finds(HEAD START "  %3 = mul u32 %2, $A\n  st.global u32 %1, %3, 0 {scale=4}\n" END, "8", "1",
        TS_DIAG_SPEED_SECTORS, &setting);
  finds(HEAD REGION START "  %3 = lt u32 %2, $A\n  cbr %3, b1, b2, b2\nb1 in r1:\n"
                          "  st.global u32 %1, %2, 0 {scale=4}\n" JOIN END,
        "16", "32", TS_DIAG_SPEED_DIVERGENT, &setting);
}
END_TEST

/* Of 32768 + 32 bytes (and 1024 of the system's) six blocks fit. */
static void check_occupancy(uint32_t grid, uint32_t threads, const char *message) {
  struct kernel k;
  kernel_begin(&k, HEAD START END);
  kernel_buffer(&k, "in", TS_DTYPE_u32, WORDS * 4);
  kernel_buffer(&k, "out", TS_DTYPE_u32, WORDS * 4);
  k.machine.sm_count = 1;
  k.options.checks = k.options.check_speed = true;
  ck_assert_int_eq(kernel_run(&k, grid, threads), TS_OK);
  ck_assert_uint_eq(k.diags.items.count, message != NULL);
  if (message) {
    ck_assert_int_eq(k.diags.items.data[0].code, TS_DIAG_SPEED_OCCUPANCY);
    ck_assert_msg(strstr(kernel_message(&k, 0), message) != NULL, "%s", kernel_message(&k, 0));
    ck_assert_ptr_nonnull(
        strstr(k.diags.items.data[0].hint, "at most 32256 bytes per block 7 fit"));
  }
  kernel_end(&k);
}

START_TEST(test_occupancy) {
  check_occupancy(7, 64,
                  "at most 12 of 64 warps are on an SM at a time: shared memory bounds it to 6 "
                  "blocks of 64 threads");
  check_occupancy(6, 64, NULL); /* no block waits for another */
  check_occupancy(7, 96, NULL); /* 18 warps are enough */
}
END_TEST

START_TEST(test_redundant_barrier) {
  static const struct setting setting = {.blocks = 1, .threads = 64, .speed = true};
#define SWAP_TWICE                                                                                 \
  HEAD START "  %3 = xor u32 %2, 32\n  st.shared u32 s0, %2, %2 {scale=4}\n  bar.sync 0, 0\n$A"    \
             "  %4 = ld.shared u32 s0, %3 {scale=4}\n  bar.sync 0, 0\n"                            \
             "  st.shared u32 s0, %2, %4 {scale=4}\n" END
  finds(SWAP_TWICE, "  bar.sync 0, 0\n", "", TS_DIAG_SPEED_BARRIER, &setting);
  /* Between accesses to different places; between a read and the write that it must not see. */
  finds(HEAD START "  %3 = xor u32 %2, 32\n  st.shared u32 s0, %2, %2 {scale=4}\n"
                   "  bar.sync 0, 0\n  %4 = ld.shared u32 s0, %3 {scale=4, offset=$A}\n" END,
        "256", "0", TS_DIAG_SPEED_BARRIER,
        &(struct setting){.blocks = 1, .threads = 64, .speed = true});
  /* What one warp has waited for, others read after the barrier alone; the last one is for nothing. */
  finds(HEAD "region r1 in r0 head b0\n" START "  %3 = mov u32 0\n  %4 = lt u32 31, %2\n"
             "  cbr %4, b1, b2, b2\nb1 in r1:\n  mbarrier.init s1, 1\n"
             "  mbarrier.arrive.expect_tx s1, 512\n  bulk.load s0, %0, 512, s1\n"
             "  mbarrier.wait s1, 0\n" JOIN "  bar.sync 0, 0\n"
             "  %5 = ld.shared u32 s0, %2 {scale=4}\n$A" END,
        "  bar.sync 0, 0\n", "", TS_DIAG_SPEED_BARRIER,
        &(struct setting){.blocks = 1, .threads = 33, .speed = true});
}
END_TEST

/* A ticket gives every block a place of its own, and no order. */
START_TEST(test_ticket) {
  finds(HEAD START "  %3 = atom.global.ret u32 %1, 0, 1 {scale=4, reduce=add}\n"
                   "  %4 = and u32 %3, $A\n  st.global u32 %1, %4, %3 {scale=4, offset=64}\n" END,
        "0", "31", TS_DIAG_RACE_GLOBAL, &(struct setting){.blocks = 2, .threads = 1});
}
END_TEST

/* Every allocation of a checked run may fail. */
START_TEST(test_short_memory) {
  char body[2048];
  struct failing_allocator memory;
  kernel_text(body, sizeof body, SWAP, (const char *const[]){"  bar.sync 0, 0\n"});
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct kernel k;
    kernel_begin(&k, body);
    kernel_buffer(&k, "in", TS_DTYPE_u32, WORDS * 4);
    kernel_buffer(&k, "out", TS_DTYPE_u32, WORDS * 4);
    k.options.checks = true;
    k.ctx.allocator = &memory.allocator;
    ck_assert_int_eq(kernel_run(&k, 1, 128), memory.failed ? TS_NO_MEMORY : TS_OK);
    kernel_end(&k);
  }
}
END_TEST

int main(void) {
  return RUN_TESTS("check", test_shared_race, test_write_after_read, test_barrier_number,
                   test_equal_stores, test_lanes_race, test_global_race, test_proxy_fence,
                   test_refill, test_mbarrier_order, test_layout, test_ldmatrix_layout,
                   test_wgmma_fence, test_unset_shared, test_unset_local, test_unset_global,
                   test_divergent_barrier, test_expect_tx, test_atomics, test_numbers, test_speed,
                   test_occupancy, test_redundant_barrier, test_ticket, test_short_memory);
}
