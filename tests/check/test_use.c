/* Data that is fetched and never used: each fault with its near misses. */
#include "support/kernel.h"
#include "support/suite.h"

#define HEAD                                                                                       \
  "function \"k\" {\nparam p0 pointer u32 %0 \"in\"\nparam p1 pointer u32 %1 \"out\"\n"            \
  "param p2 tensormap u32 \"map\"\n"                                                               \
  "shared s0 static u8 align 1024 size 16384 \"tile\"\n"                                           \
  "shared s1 barrier u64 align 8 size 32 \"full\"\nreg %0 ptr\nreg %1 ptr\n"
#define START "b0 in r0:\n  %2 = sreg u32 {which=tid.x}\n"
#define STORE(value) "  st.global u32 %1, %2, " value " {scale=4}\n"
#define END "  exit\n}\n"

enum { WORDS = 4096, SCHEDULES = 4 };

/* 32 x 8 words of a tensor of 64 x 64. */
static const struct ts_tensormap tile_map = {.dtype = TS_TENSORMAP_U32,
                                             .elem_size_bytes = 4,
                                             .rank = 2,
                                             .size = {64, 64},
                                             .stride_bytes = {4, 256},
                                             .box = {32, 8},
                                             .elem_stride = {1, 1}};

struct setting {
  uint32_t blocks, threads;
  const struct ts_tensormap *map;
};

/* NULL code: nothing is to be found. */
static void run(const char *pattern, const char *piece, const struct setting *setting,
                const char *code) {
  static const enum ts_schedule_kind kinds[SCHEDULES] = {TS_SCHEDULE_EAGER, TS_SCHEDULE_LAZY,
                                                         TS_SCHEDULE_RANDOM, TS_SCHEDULE_LAST};
  char body[8192];
  kernel_text(body, sizeof body, pattern, (const char *const[]){piece});
  for (int i = 0; i < SCHEDULES; i++) {
    struct kernel k;
    kernel_begin(&k, body);
    memset(kernel_buffer(&k, "in", TS_DTYPE_u32, WORDS * 4), 1, WORDS * 4);
    kernel_buffer(&k, "out", TS_DTYPE_u32, WORDS * 4);
    struct ts_tensormap map = setting->map ? *setting->map : tile_map;
    map.global_address = k.args[0].value;
    kernel_map(&k, map);
    k.options.schedule = kinds[i];
    k.options.checks = true;
    k.options.max_insns_per_warp = 100000;
    enum ts_status status = kernel_run(&k, setting->blocks, setting->threads);
    ck_assert_msg(status == (code ? TS_HAZARD : TS_OK), "'%s' gives %s: %s", piece,
                  ts_status_text(status), kernel_message(&k, 0));
    ck_assert_uint_eq(k.diags.items.count, code ? 1 : 0);
    if (code) ck_assert_str_eq(ts_diag_code_text(k.diags.items.data[0].code), code);
    kernel_end(&k);
  }
}

static void wrong(const char *pattern, const char *piece, const struct setting *setting,
                  const char *code) {
  run(pattern, piece, setting, code);
}
static void right(const char *pattern, const char *piece, const struct setting *setting) {
  run(pattern, piece, setting, NULL);
}

static const struct setting one_warp = {1, 32, NULL}, one_block = {1, 128, NULL};

#define READ_BACK                                                                                  \
  "  bar.sync 0, 0\n  %3 = ld.shared u32 s0, %2 {scale=4, offset=$A}\n" STORE("%3") END

/* Two arrays one after the other: the first is read 16 bytes too far, the second not at all. */
START_TEST(test_stores) {
  static const char pattern[] =
      HEAD START "  st.shared u32 s0, %2, %2 {scale=4}\n"
                 "  st.shared u32 s0, %2, 0 {scale=4, offset=512}\n" READ_BACK;
  wrong(pattern, "16", &one_block, "TS-USE-001");
  right(pattern, "0", &one_block);
  right(pattern, "512", &one_block);
}
END_TEST

/* Half of the lanes' sums matter: that is a reduction when the warp updates its own words, and a
 * fault when it brings new ones. */
START_TEST(test_update) {
  static const char pattern[] =
      HEAD START "$A  %3 = and u32 %2, 15\n  st.shared u32 s0, %2, %2 {scale=4}\n"
                 "  bar.sync 0, 0\n  %4 = ld.shared u32 s0, %3 {scale=4}\n" STORE("%4") END;
  wrong(pattern, "", &one_warp, "TS-USE-001");
  right(pattern, "  st.shared u32 s0, %2, 0 {scale=4}\n", &one_warp);
}
END_TEST

/* The second half of the words is overwritten before anybody has read it. */
START_TEST(test_overwritten) {
  static const char pattern[] =
      HEAD START "  st.shared u32 s0, %2, %2 {scale=4, offset=512}\n"
                 "  cp.async s0, %2, %0, %2, 1 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n"
                 "  cp.async.wait 0\n  bar.sync 0, 0\n$A"
                 "  %4 = ld.shared u32 s0, %3 {scale=4}\n" STORE("%4") END;
  wrong(pattern, "  %3 = add u32 %2, 4\n", &one_block, "TS-USE-001");
  right(pattern, "  %3 = add u32 %2, 0\n", &one_block);
}
END_TEST

/* Lanes behind the edge bring zeros, which nobody has to read. */
START_TEST(test_zero_lanes) {
  static const char pattern[] =
      HEAD START "  %3 = lt u32 %2, $A\n"
                 "  cp.async s0, %2, %0, %2, %3 {scale=4, scale2=4, bytes=4}\n  cp.async.commit\n"
                 "  cp.async.wait 0\n  bar.sync 0, 0\n  %4 = and u32 %2, 15\n"
                 "  %5 = ld.shared u32 s0, %4 {scale=4}\n" STORE("%5") END;
  wrong(pattern, "32", &one_warp, "TS-USE-001");
  right(pattern, "16", &one_warp);
}
END_TEST

#define ELECTED                                                                                    \
  HEAD "region r1 in r0 head b0\n" START                                                           \
       "  %3 = sreg u32 {which=ctaid.x}\n  %4 = mul u32 %3, 32\n  %5 = mul u32 %3, 8\n"            \
       "  %6 = eq u32 %2, 0\n  cbr %6, b1, b2, b2\nb1 in r1:\n"                                    \
       "  mbarrier.init s1, 1\n"
#define JOIN "  br b2\nb2 in r0:\n  bar.sync 0, 0\n  mbarrier.wait s1, 0\n"
#define USE_TILE "  %7 = ld.shared u32 s0, %2 {scale=4}\n"
#define OUT                                                                                        \
  "  %8 = mul u32 %3, 256\n  %9 = add u32 %8, %2\n  st.global u32 %1, %9, %7 {scale=4}\n" END

/* 256 words, of which 256 threads read each one, all but eight, or those of one line. */
START_TEST(test_box) {
  static const char pattern[] =
      ELECTED "  mbarrier.arrive.expect_tx s1, 1024\n  tma.load p2, s0, s1, 0, 0\n" JOIN
              "  %10 = $A\n  %7 = ld.shared u32 s0, %10 {scale=4}\n" OUT;
  struct setting setting = {1, 256, NULL};
  wrong(pattern, "min u32 %2, 247", &setting, "TS-USE-001");
  right(pattern, "min u32 %2, 255", &setting);
  right(pattern, "and u32 %2, 31", &setting);
  /* What is read of a box that crosses the edge is for the kernel to know. */
  struct ts_tensormap cut = tile_map;
  cut.size[0] = 31;
  setting.map = &cut;
  right(pattern, "min u32 %2, 247", &setting);
}
END_TEST

/* Two steps of one block: the box of the second is to lie 32 columns on. */
START_TEST(test_reload) {
  static const char pattern[] =
      HEAD "reg %7 u32\nregion r1 in r0 head b0\nregion r2 in r1 head b2\n" START
           "  %3 = mov u32 0\n  %4 = eq u32 %2, 0\n  cbr %4, b1, b5, b5\nb1 in r1:\n"
           "  mbarrier.init s1, 1\n  %7 = mov u32 0\n  br b2\nb2 in r2:\n"
           "  %5 = lt u32 %7, 2\n  cbr %5, b3, b4, b4\nb3 in r2:\n  %6 = mul u32 %7, 32\n"
           "  mbarrier.arrive.expect_tx s1, 1024\n  tma.load p2, s0, s1, $A, 0\n"
           "  mbarrier.wait s1, %7\n  %7 = add u32 %7, 1\n  br b2\nb4 in r1:\n  br b5\n"
           "b5 in r0:\n  bar.sync 0, 0\n  %8 = ld.shared u32 s0, %2 {scale=4}\n" STORE("%8") END;
  struct ts_tensormap wide = tile_map, narrow = tile_map;
  wide.size[1] = narrow.size[1] = 8;
  narrow.size[0] = 32;
  struct setting setting = {1, 256, &wide};
  wrong(pattern, "0", &setting, "TS-USE-002");
  right(pattern, "%6", &setting);
  setting.map = &narrow; /* twice, but there is no more */
  right(pattern, "0", &setting);
}
END_TEST

/* Block b is to load the box at column 32 b or at row 8 b. */
START_TEST(test_twins) {
  static const char pattern[] =
      ELECTED "  mbarrier.arrive.expect_tx s1, 1024\n  tma.load p2, s0, s1, $A\n" JOIN USE_TILE OUT;
  struct ts_tensormap wide = tile_map, slices = tile_map;
  wide.size[1] = 8;
  struct setting setting = {2, 256, &wide};
  wrong(pattern, "0, 0", &setting, "TS-USE-002");
  right(pattern, "%4, 0", &setting);
  /* A box of one line chooses it: the others need not be loaded. */
  slices.size[0] = 32;
  slices.box[1] = 1;
  setting.map = &slices;
  static const char line[] =
      ELECTED "  mbarrier.arrive.expect_tx s1, 128\n  tma.load p2, s0, s1, 0, 5\n" JOIN
              "  %10 = and u32 %2, 31\n  %7 = ld.shared u32 s0, %10 {scale=4}\n" OUT;
  right(line, "", &setting);
  /* One block that loads a part of the tensor, and another that loads another part. */
  setting.map = NULL;
  setting.blocks = 1;
  right(pattern, "0, 0", &setting);
  setting.blocks = 2;
  right(pattern, "0, %5", &setting);
}
END_TEST

int main(void) {
  return RUN_TESTS("use", test_stores, test_update, test_overwritten, test_zero_lanes, test_box,
                   test_reload, test_twins);
}
