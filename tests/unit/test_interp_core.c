/* Warp instructions, scalar moves, schedules, workers, launch checks, events. */
#include "support/kernel.h"
#include "support/suite.h"

enum { TEXT_BYTES = 4096 };

/* --- shfl against the formula of the PTX manual, written out in signed numbers */

static int shuffle_expected(const char *mode, int lane, int b, int width) {
  int segment_mask = 32 - width, clamp = strcmp(mode, "up") == 0 ? 0 : 31;
  int max_lane = (lane & segment_mask) | (clamp & ~segment_mask);
  int min_lane = lane & segment_mask, j = 0;
  bool is_valid = false;
  b &= 31;
  if (strcmp(mode, "up") == 0) j = lane - b, is_valid = j >= max_lane;
  if (strcmp(mode, "down") == 0) j = lane + b, is_valid = j <= max_lane;
  if (strcmp(mode, "bfly") == 0) j = lane ^ b, is_valid = j <= max_lane;
  if (strcmp(mode, "idx") == 0) j = min_lane | (b & ~segment_mask), is_valid = j <= max_lane;
  return is_valid ? j : lane;
}

static const char shuffle_text[] = "function \"f\" {\n"
                                   "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"
                                   "b0 in r0:\n"
                                   "  %1 = sreg u32 {which=laneid}\n"
                                   "  %2 = add u32 %1, 1000\n"
                                   "  %3 = shfl u32 %2, $B, $C, 0xffffffff {mode=$A}\n"
                                   "  st.global u32 %0, %1, %3 {scale=4}\n"
                                   "  %4 = cvt u64 u32 %2\n"
                                   "  %5 = shfl u64 %4, %1, $C, 0xffffffff {mode=$A}\n"
                                   "  %6 = cvt u32 u64 %5\n"
                                   "  st.global u32 %0, %1, %6 {scale=4, offset=128}\n"
                                   "  exit\n}\n";

START_TEST(test_shuffle) {
  static const char *const modes[] = {"idx", "up", "down", "bfly"};
  static const int distances[] = {0, 1, 2, 5, 16, 31, 32, 33};
  for (int m = 0; m < 4; m++)
    for (int width = 1; width <= 32; width *= 2)
      for (size_t d = 0; d < sizeof distances / sizeof *distances; d++) {
        char text[TEXT_BYTES], numbers[2][16];
        kernel_text(text, sizeof text, shuffle_text,
                    (const char *[]){modes[m], kernel_number(numbers[0], distances[d]),
                                     kernel_number(numbers[1], width)});
        struct kernel k;
        kernel_begin(&k, text);
        uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 256);
        ck_assert_int_eq(kernel_run(&k, 1, 32), TS_OK);
        for (int lane = 0; lane < 32; lane++) {
          ck_assert_int_eq((int)out[lane],
                           1000 + shuffle_expected(modes[m], lane, distances[d], width));
          ck_assert_int_eq((int)out[32 + lane],
                           1000 + shuffle_expected(modes[m], lane, lane, width));
        }
        kernel_end(&k);
      }
}
END_TEST

/* 20 threads; v = lane % 3. Lanes that are not there take no part. */
START_TEST(test_warp_votes) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"
                   "b0 in r0:\n"
                   "  %1 = sreg u32 {which=laneid}\n"
                   "  %2 = rem u32 %1, 3\n"
                   "  %3 = eq u32 %2, 1\n"
                   "  %4 = vote pred %3, 0xffffffff {mode=ballot}\n"
                   "  st.global u32 %0, 0, %4\n"
                   "  %5 = vote pred %3, 0xfffffffd {mode=any}\n"
                   "  st.global pred %0, 0, %5 {offset=4}\n"
                   "  %6 = vote pred %3, 0x12 {mode=all}\n"
                   "  st.global pred %0, 0, %6 {offset=5}\n"
                   "  %7 = vote pred %3, 0xffffffff {mode=all}\n"
                   "  st.global pred %0, 0, %7 {offset=6}\n"
                   "  %8 = match u32 %2, 0xffffffff {mode=any}\n"
                   "  st.global u32 %0, %1, %8 {scale=4, offset=8}\n"
                   "  %9 = match u32 %2, 0x9 {mode=all}\n"
                   "  st.global u32 %0, 31, %9 {scale=4}\n"
                   "  %10 = redux u32 %1, 0xffffffff {reduce=add}\n"
                   "  st.global u32 %0, 32, %10 {scale=4}\n"
                   "  %11 = redux u32 %1, 0x70 {reduce=xor}\n"
                   "  st.global u32 %0, 33, %11 {scale=4}\n"
                   "  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 256);
  ck_assert_int_eq(kernel_run(&k, 1, 20), TS_OK);
  ck_assert_uint_eq(out[0], 0x92492u);
  ck_assert_uint_eq(out[1], 0xA5000101u);
  for (uint32_t lane = 0; lane < 20; lane++)
    ck_assert_uint_eq(out[2 + lane], (0x49249249u << lane % 3) & 0xfffffu);
  ck_assert_uint_eq(out[31], 9);
  ck_assert_uint_eq(out[32], 190);
  ck_assert_uint_eq(out[33], 4 ^ 5 ^ 6);
  kernel_end(&k);
}
END_TEST

START_TEST(test_elect) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"
                   "b0 in r0:\n"
                   "  %1 = sreg u32 {which=tid.x}\n"
                   "  %2 = elect pred 0\n"
                   "  %3 = elect pred 128\n"
                   "  st.global pred %0, %1, %2 {scale=2}\n"
                   "  st.global pred %0, %1, %3 {scale=2, offset=1}\n"
                   "  exit\n}\n");
  uint8_t *out = kernel_buffer(&k, "out", TS_DTYPE_u8, 1024);
  ck_assert_int_eq(kernel_run(&k, 1, 512), TS_OK);
  for (uint32_t t = 0; t < 512; t++) {
    ck_assert_uint_eq(out[2 * t], t == 0);
    ck_assert_uint_eq(out[2 * t + 1], t % 128 == 0);
  }
  kernel_end(&k);
}
END_TEST

/* --- moves of components */

START_TEST(test_components) {
  for (int with_uniform = 0; with_uniform < 2; with_uniform++) {
    struct kernel k;
    kernel_begin_as(&k,
                    "function \"f\" {\n"
                    "param p0 pointer u32 %0 \"out\"\nparam p1 scalar s32 %1\n"
                    "reg %0 ptr\nreg %1 s32\n"
                    "b0 in r0:\n"
                    "  %2 = sreg s32 {which=tid.x}\n"
                    "  %3 = ramp s32x4 %2, %1\n"
                    "  %4 = ramp s32x4 %1, 2\n"
                    "  %5 = add s32x4 %3, %4\n"
                    "  st.global s32x4 %0, %2, %5 {scale=32}\n"
                    "  %6 = broadcast s32x2 %1\n"
                    "  %7 = extract s32 %5, 3 {source_lanes=4}\n"
                    "  %8 = concat s32x4 %6, %7, 9\n"
                    "  st.global s32x4 %0, %2, %8 {scale=32, offset=16}\n"
                    "  exit\n}\n",
                    with_uniform);
    int32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 2048);
    kernel_scalar(&k, 10);
    ck_assert_int_eq(kernel_run(&k, 1, 64), TS_OK);
    for (int t = 0; t < 64; t++) {
      for (int i = 0; i < 4; i++)
        ck_assert_int_eq(out[8 * t + i], t + 10 * i + 10 + 2 * i);
      ck_assert_int_eq(out[8 * t + 4], 10);
      ck_assert_int_eq(out[8 * t + 5], 10);
      ck_assert_int_eq(out[8 * t + 6], t + 46);
      ck_assert_int_eq(out[8 * t + 7], 9);
    }
    kernel_end(&k);
  }
}
END_TEST

/* Bits survive any way of cutting them up; signed fields are sign-extended. */
START_TEST(test_bitcast) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"
                   "b0 in r0:\n"
                   "  %1 = sreg u32 {which=tid.x}\n"
                   "  %2 = mul u32 %1, 0x9e3779b9\n"
                   "  %3 = bitcast s8x4 u32 %2\n"
                   "  %4 = bitcast u4x8 s8 %3\n"
                   "  %5 = bitcast f16x2 u4 %4\n"
                   "  %6 = concat f16x4 %5, %5\n"
                   "  %7 = bitcast u64 f16 %6\n"
                   "  %8 = bitcast u32x2 u64 %7\n"
                   "  st.global u32x2 %0, %1, %8 {scale=16}\n"
                   "  %9 = extract s8 %3, 3 {source_lanes=4}\n"
                   "  %10 = cvt s32 s8 %9\n"
                   "  st.global s32 %0, %1, %10 {scale=16, offset=8}\n"
                   "  %11 = select s8x4 1, %3, 0\n"
                   "  %12 = lt s8x4 %11, 0\n"
                   "  %13 = select s8x4 %12, %3, 5\n"
                   "  st.global s8x4 %0, %1, %13 {scale=16, offset=12}\n"
                   "  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 1024);
  ck_assert_int_eq(kernel_run(&k, 1, 64), TS_OK);
  for (uint32_t t = 0; t < 64; t++) {
    uint32_t word = t * 0x9e3779b9u;
    ck_assert_uint_eq(out[4 * t], word);
    ck_assert_uint_eq(out[4 * t + 1], word);
    ck_assert_int_eq((int32_t)out[4 * t + 2], (int8_t)(word >> 24));
    for (int i = 0; i < 4; i++) {
      int8_t byte = (int8_t)(word >> 8 * i);
      ck_assert_int_eq((int8_t)(out[4 * t + 3] >> 8 * i), byte < 0 ? byte : 5);
    }
  }
  kernel_end(&k);
}
END_TEST

START_TEST(test_special_registers) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"
                   "b0 in r0:\n"
                   "  %1 = sreg u32 {which=tid.x}\n  %2 = sreg u32 {which=tid.y}\n"
                   "  %3 = sreg u32 {which=tid.z}\n  %4 = sreg u32 {which=ctaid.x}\n"
                   "  %5 = sreg u32 {which=ctaid.y}\n  %6 = sreg u32 {which=ctaid.z}\n"
                   "  %7 = mul u32 %3, 5\n  %8 = add u32 %7, %2\n"
                   "  %9 = mul u32 %8, 3\n  %10 = add u32 %9, %1\n"
                   "  %11 = mul u32 %6, 2\n  %12 = add u32 %11, %5\n"
                   "  %13 = mul u32 %12, 3\n  %14 = add u32 %13, %4\n"
                   "  %15 = mul u32 %14, 60\n  %16 = add u32 %15, %10\n"
                   "  %17 = sreg u32 {which=warpid}\n  %18 = mul u32 %17, 32\n"
                   "  %19 = sreg u32 {which=laneid}\n  %20 = add u32 %18, %19\n"
                   "  st.global u32 %0, %16, %20 {scale=4}\n"
                   "  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 3 * 2 * 2 * 60 * 4);
  k.launch.grid[1] = k.launch.grid[2] = 2;
  k.launch.block[1] = 5;
  k.launch.block[2] = 4;
  ck_assert_int_eq(kernel_run(&k, 3, 3), TS_OK);
  for (uint32_t i = 0; i < 12 * 60; i++)
    ck_assert_uint_eq(out[i], i % 60);
  ck_assert_uint_eq(k.stats.block_count, 12);
  ck_assert_uint_eq(k.stats.warp_count, 24);
  kernel_end(&k);
}
END_TEST

/* --- schedules: a block-wide prefix sum with barriers, 4 warps */

static const char prefix_text[] = "function \"f\" {\n"
                                  "param p0 pointer u32 %0 \"out\"\n"
                                  "shared s0 static u32 align 16 size 512\n"
                                  "reg %0 ptr\nreg %5 u32\nreg %6 u32\n"
                                  "region r1 in r0 head b1\nregion r2 in r1 head b2\n"
                                  "b0 in r0:\n"
                                  "  %1 = sreg u32 {which=tid.x}\n"
                                  "  %2 = sreg u32 {which=ctaid.x}\n"
                                  "  %3 = mul u32 %2, 128\n"
                                  "  %4 = add u32 %3, %1\n"
                                  "  %5 = add u32 %1, 1\n"
                                  "  %6 = mov u32 1\n"
                                  "  br b1\n"
                                  "b1 in r1:\n"
                                  "  %7 = lt u32 %6, 128\n"
                                  "  cbr %7, b2, b5, b5\n"
                                  "b2 in r1:\n"
                                  "  bar.sync 0, 0\n"
                                  "  st.shared u32 s0, %1, %5 {scale=4}\n"
                                  "  bar.sync 0, 0\n"
                                  "  %8 = le u32 %6, %1\n"
                                  "  cbr %8, b3, b4, b4\n"
                                  "b3 in r2:\n"
                                  "  %9 = sub u32 %1, %6\n"
                                  "  %10 = ld.shared u32 s0, %9 {scale=4}\n"
                                  "  %5 = add u32 %5, %10\n"
                                  "  br b4\n"
                                  "b4 in r1:\n"
                                  "  %6 = shl u32 %6, 1\n"
                                  "  br b1\n"
                                  "b5 in r0:\n"
                                  "  st.global u32 %0, %4, %5 {scale=4}\n"
                                  "  exit\n}\n";

START_TEST(test_schedules) {
  for (uint32_t schedule = 0; schedule < 8; schedule++)
    for (uint32_t workers = 1; workers <= 3; workers += 2) {
      struct kernel k;
      kernel_begin(&k, prefix_text);
      uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 10 * 512);
      k.options.schedule = schedule == 0   ? TS_SCHEDULE_EAGER
                           : schedule == 1 ? TS_SCHEDULE_LAZY
                                           : TS_SCHEDULE_RANDOM;
      k.options.seed = schedule;
      k.options.worker_count = workers;
      ck_assert_int_eq(kernel_run(&k, 10, 128), TS_OK);
      for (uint32_t i = 0; i < 1280; i++)
        ck_assert_uint_eq(out[i], (i % 128 + 1) * (i % 128 + 2) / 2);
      ck_assert_uint_eq(k.stats.op_count[TS_OP_bar_sync], 10 * 4 * 14);
      kernel_end(&k);
    }
}
END_TEST

/* --- workers: same diagnostics and the same stop whatever their number */

/* Blocks from 20 on read out of bounds; block 33 and the ones above trap. */
static const char faulty_text[] = "place \"k.py\" 3 1\nplace \"k.py\" 4 1\n"
                                  "function \"f\" {\n"
                                  "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"
                                  "b0 in r0:\n"
                                  "  %1 = sreg u32 {which=ctaid.x}\n"
                                  "  %2 = ld.global u32 %0, %1 {scale=4} @1\n"
                                  "  %3 = lt u32 %1, 33\n"
                                  "  assert %3, \"block below 33\" @2\n"
                                  "  exit\n}\n";

static void check_faulty(uint32_t workers, bool stops) {
  struct kernel k;
  kernel_begin(&k, faulty_text);
  kernel_buffer(&k, "out", TS_DTYPE_u32, 80);
  k.options.worker_count = workers;
  k.options.stop_at_first_hazard = stops;
  ck_assert_int_eq(kernel_run(&k, 200, 32), stops ? TS_HAZARD : TS_TRAP);
  ck_assert_uint_eq(k.diags.items.count, stops ? 1 : 2);
  ck_assert_int_eq(k.diags.items.data[0].block, 20);
  ck_assert_uint_eq(k.diags.items.data[0].repeat_count, stops ? 1 : 14);
  if (!stops) {
    ck_assert_int_eq(k.diags.items.data[1].block, 33);
    ck_assert_uint_eq(k.diags.items.data[1].repeat_count, 1);
  }
  kernel_end(&k);
}

START_TEST(test_worker_diagnostics) {
  for (uint32_t workers = 1; workers <= 4; workers++)
    for (int stops = 0; stops < 2; stops++)
      for (int again = 0; again < 20; again++)
        check_faulty(workers, stops);
}
END_TEST

/* Blocks of a kernel with global atomics run in ascending order. */
START_TEST(test_ordered_blocks) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\n"
                   "param p0 pointer u32 %0 \"out\"\nreg %0 ptr\n"
                   "b0 in r0:\n"
                   "  %1 = sreg u32 {which=ctaid.x}\n"
                   "  %2 = atom.global.ret u32 %0, 0, 1 {reduce=add}\n"
                   "  %3 = sreg u32 {which=laneid}\n"
                   "  %4 = mul u32 %1, 32\n  %5 = add u32 %4, %3\n"
                   "  st.global u32 %0, %5, %2 {scale=4, offset=4}\n"
                   "  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 4 + 50 * 128);
  out[0] = 0;
  k.options.worker_count = 4;
  ck_assert_int_eq(kernel_run(&k, 50, 32), TS_OK);
  for (uint32_t i = 0; i < 1600; i++)
    ck_assert_uint_eq(out[1 + i], i);
  kernel_end(&k);
}
END_TEST

/* --- launches that cannot be */

static const char empty_text[] = "function \"f\" {\nthreads 128 1 1\n"
                                 "array a0 f32 64 \"acc\"\n"
                                 "shared s0 static u8 align 16 size 1000 \"a\"\n"
                                 "shared s1 dynamic u8 align 1024 size 1024 \"b\"\n"
                                 "b0 in r0:\n  exit\n}\n";

static void check_launch(void (*change)(struct kernel *k), enum ts_status status,
                         const char *text) {
  struct kernel k;
  kernel_begin(&k, empty_text);
  change(&k);
  enum ts_status found = ts_interp_run(&k.ctx, k.module, &k.plan, &k.memory, &k.options, &k.stats);
  ck_assert_int_eq(found, status);
  if (text) ck_assert_msg(strstr(kernel_message(&k, 0), text) != NULL, "%s", kernel_message(&k, 0));
  ck_assert_uint_eq(k.stats.block_count, status == TS_OK ? 1 : 0);
  kernel_end(&k);
}

static void nothing(struct kernel *k) { (void)k; }
static void zero_grid(struct kernel *k) { k->launch.grid[1] = 0; }
static void zero_block(struct kernel *k) { k->launch.block[2] = 0; }
static void tall_grid(struct kernel *k) { k->launch.grid[1] = 65536; }
static void huge_grid(struct kernel *k) {
  k->launch.grid[0] = k->launch.grid[1] = 65535;
  k->launch.grid[2] = 3;
}
static void wide_block(struct kernel *k) { k->launch.block[0] = 1025; }
static void many_threads(struct kernel *k) { k->launch.block[1] = 33; }
static void most_shared(struct kernel *k) { k->launch.dynamic_shared_bytes = 232448 - 1024; }
static void much_shared(struct kernel *k) { k->launch.dynamic_shared_bytes = 232449 - 1024; }
static void endless_shared(struct kernel *k) { k->launch.dynamic_shared_bytes = UINT64_MAX; }
static void a_cluster(struct kernel *k) { k->launch.cluster[0] = 2; }
static void no_function(struct kernel *k) { k->launch.function = "g"; }
static void an_argument(struct kernel *k) { kernel_scalar(k, 1); }
static void small_machine(struct kernel *k) { k->machine.max_local_bytes_per_thread = 255; }

START_TEST(test_launch_checks) {
  check_launch(nothing, TS_OK, NULL);
  check_launch(zero_grid, TS_BAD_INPUT, "grid.y is 0");
  check_launch(zero_block, TS_BAD_INPUT, "block.z is 0");
  check_launch(tall_grid, TS_BAD_INPUT, "grid.y = 65536, machine h200-sxm has at most 65535");
  check_launch(huge_grid, TS_LIMIT, "2^32");
  check_launch(wide_block, TS_BAD_INPUT, "block.x = 1025");
  check_launch(many_threads, TS_BAD_INPUT, "1056 threads a block");
  check_launch(most_shared, TS_OK, NULL);
  check_launch(much_shared, TS_BAD_INPUT, "1000 bytes of static and 231425 of dynamic");
  check_launch(endless_shared, TS_BAD_INPUT, "dynamic shared memory");
  check_launch(a_cluster, TS_BAD_INPUT, "no multiple of the cluster");
  check_launch(no_function, TS_BAD_INPUT, "no such function");
  check_launch(an_argument, TS_BAD_INPUT, "1 arguments for 0 parameters");
  check_launch(small_machine, TS_BAD_INPUT, "array acc alone 256");
}
END_TEST

/* An operation without arithmetic is an error with its place, not a wrong result. */
START_TEST(test_missing_kernel) {
  struct kernel k;
  kernel_begin(&k, "function \"f\" {\nparam p0 pointer u4 %0\nreg %0 ptr\nb0 in r0:\n"
                   "  atom.global u4 %0, 0, 1 {reduce=exch}\n  exit\n}\n");
  kernel_buffer(&k, "out", TS_DTYPE_u4, 64);
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_UNSUPPORTED);
  kernel_end(&k);
  kernel_begin(&k, "place \"k.py\" 8 2\nfunction \"f\" {\nb0 in r0:\n"
                   "  %0 = sin s32 1 @1\n  exit\n}\n");
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_UNSUPPORTED);
  ck_assert_uint_eq(k.diags.items.data[0].place.line, 8);
  ck_assert_ptr_nonnull(strstr(kernel_message(&k, 0), "sin.s32"));
  kernel_end(&k);
}
END_TEST

/* --- events */

struct counting_sink {
  struct ts_sink sink;
  uint64_t counts[TS_EVENT_KIND_COUNT];
  struct ts_event last_memory;
  struct ts_footprint last_footprint;
};

static enum ts_status count_event(struct ts_sink *sink, struct ts_event *event,
                                  const struct ts_footprint *footprint) {
  struct counting_sink *counting = (struct counting_sink *)sink;
  counting->counts[event->kind]++;
  if (event->kind == TS_EVENT_MEMORY) {
    counting->last_memory = *event;
    counting->last_footprint = *footprint;
  }
  return TS_OK;
}

START_TEST(test_events) {
  struct kernel k;
  struct counting_sink sink = {.sink = {.emit = count_event}};
  kernel_begin(&k, prefix_text);
  kernel_buffer(&k, "out", TS_DTYPE_u32, 2 * 512);
  k.options.sink = &sink.sink;
  k.options.worker_count = 2;
  ck_assert_int_eq(kernel_run(&k, 2, 128), TS_OK);
  ck_assert_uint_eq(sink.counts[TS_EVENT_LAUNCH], 1);
  ck_assert_uint_eq(sink.counts[TS_EVENT_BLOCK], 2);
  ck_assert_uint_eq(sink.counts[TS_EVENT_END], 1 + 2 + 8);
  uint64_t memory_count = k.stats.op_count[TS_OP_st_shared] + k.stats.op_count[TS_OP_ld_shared] +
                          k.stats.op_count[TS_OP_st_global];
  ck_assert_uint_eq(sink.counts[TS_EVENT_MEMORY], memory_count);
  ck_assert_uint_eq(sink.counts[TS_EVENT_BRANCH],
                    k.stats.op_count[TS_OP_br] + k.stats.op_count[TS_OP_cbr]);
  ck_assert_uint_eq(sink.last_memory.bytes, 128);
  ck_assert_uint_eq(sink.last_memory.mask, UINT32_MAX);
  ck_assert_uint_eq(sink.last_memory.dst_space, TS_SPACE_GLOBAL);
  ck_assert_int_eq(sink.last_footprint.kind, TS_FOOTPRINT_AFFINE);
  ck_assert_int_eq(sink.last_footprint.lane_stride, 4);
  kernel_end(&k);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp_core", test_shuffle, test_warp_votes, test_elect, test_components,
                   test_bitcast, test_special_registers, test_schedules, test_worker_diagnostics,
                   test_ordered_blocks, test_launch_checks, test_missing_kernel, test_events);
}
