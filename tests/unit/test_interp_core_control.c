/* Control flow of the interpreter: divergence, loops, breaks, exits, schedules of blocked arms. Every
 * kernel runs with and without uniform registers and must give the same. */
#include "support/kernel.h"
#include "support/suite.h"

enum { THREADS = 64 };

/* out[global thread] = what the kernel computed; fails the test when the run fails. */
static void run_both(const char *body, uint32_t threads, uint32_t (*expected)(uint32_t thread)) {
  for (int with_uniform = 0; with_uniform < 2; with_uniform++) {
    struct kernel k;
    kernel_begin_as(&k, body, with_uniform);
    uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 4096);
    enum ts_status status = kernel_run(&k, 1, threads);
    if (status != TS_OK) ck_abort_msg("%s: %s", ts_status_text(status), kernel_message(&k, 0));
    for (uint32_t i = 0; i < threads; i++)
      ck_assert_msg(out[i] == expected(i), "uniform %d, thread %u: %u, not %u", with_uniform, i,
                    out[i], expected(i));
    if (threads < 1024) ck_assert_uint_eq(out[threads], 0xA5A5A5A5u);
    kernel_end(&k);
  }
}

#define HEAD                                                                                       \
  "function \"f\" {\n"                                                                             \
  "param p0 pointer u32 %0 \"out\"\n"                                                              \
  "reg %0 ptr\n"

/* if (tid < 5) x = 100 + tid else x = 200; x += 1 */
static uint32_t if_else_expected(uint32_t t) { return (t < 5 ? 100 + t : 200) + 1; }
START_TEST(test_if_else) {
  run_both(HEAD "reg %5 u32\n"
                "region r1 in r0 head b0\nregion r2 in r0 head b0\n"
                "b0 in r0:\n"
                "  %1 = sreg u32 {which=tid.x}\n"
                "  %2 = lt u32 %1, 5\n"
                "  cbr %2, b1, b2, b3\n"
                "b1 in r1:\n"
                "  %3 = add u32 %1, 100\n"
                "  %5 = mov u32 %3\n"
                "  br b3\n"
                "b2 in r2:\n"
                "  %5 = mov u32 200\n"
                "  br b3\n"
                "b3 in r0:\n"
                "  %4 = add u32 %5, 1\n"
                "  st.global u32 %0, %1, %4 {scale=4}\n"
                "  exit\n}\n",
           THREADS, if_else_expected);
  run_both(HEAD "reg %5 u32\n"
                "region r1 in r0 head b0\nregion r2 in r0 head b0\n"
                "b0 in r0:\n"
                "  %1 = sreg u32 {which=tid.x}\n"
                "  %2 = lt u32 %1, 5\n"
                "  cbr %2, b1, b2, b3\n"
                "b1 in r1:\n"
                "  %3 = add u32 %1, 100\n"
                "  %5 = mov u32 %3\n"
                "  br b3\n"
                "b2 in r2:\n"
                "  %5 = mov u32 200\n"
                "  br b3\n"
                "b3 in r0:\n"
                "  %4 = add u32 %5, 1\n"
                "  st.global u32 %0, %1, %4 {scale=4}\n"
                "  exit\n}\n",
           45, if_else_expected);
}
END_TEST

/* for (i = 0; i < tid; i++) sum += i, then all lanes vote: reconverged after 31 leaves. */
static uint32_t gradual_expected(uint32_t t) { return t * (t - 1) / 2 + 32 * 100000u; }
START_TEST(test_gradual_loop) {
  run_both(HEAD "reg %3 u32\nreg %4 u32\n"
                "region r1 in r0 head b1\n"
                "b0 in r0:\n"
                "  %1 = sreg u32 {which=tid.x}\n"
                "  %3 = mov u32 0\n"
                "  %4 = mov u32 0\n"
                "  br b1\n"
                "b1 in r1:\n"
                "  %2 = lt u32 %3, %1\n"
                "  cbr %2, b2, b3, b3\n"
                "b2 in r1:\n"
                "  %4 = add u32 %4, %3\n"
                "  %3 = add u32 %3, 1\n"
                "  br b1\n"
                "b3 in r0:\n"
                "  %5 = vote pred 1, 0xffffffff {mode=ballot}\n"
                "  %6 = popc u32 %5\n"
                "  %7 = mul u32 %6, 100000\n"
                "  %8 = add u32 %4, %7\n"
                "  st.global u32 %0, %1, %8 {scale=4}\n"
                "  exit\n}\n",
           THREADS, gradual_expected);
}
END_TEST

/* for (i = 0; i < 20; i++) { if (i == tid % 8) break; } out = i + 1000 * lanes that meet after it.
 * The join that the cbr names is missed by the lanes that break. */
static uint32_t break_expected(uint32_t t) { return t % 8 + 32 * 1000; }
START_TEST(test_break) {
  run_both(HEAD "reg %5 u32\n"
                "region r1 in r0 head b1\nregion r2 in r1 head b2\n"
                "b0 in r0:\n"
                "  %1 = sreg u32 {which=tid.x}\n"
                "  %2 = and u32 %1, 7\n"
                "  %5 = mov u32 0\n"
                "  br b1\n"
                "b1 in r1:\n"
                "  %3 = lt u32 %5, 20\n"
                "  cbr %3, b2, b5, b5\n"
                "b2 in r1:\n"
                "  %4 = eq u32 %5, %2\n"
                "  cbr %4, b3, b4, b4\n"
                "b3 in r2:\n"
                "  br b5\n"
                "b4 in r1:\n"
                "  %5 = add u32 %5, 1\n"
                "  br b1\n"
                "b5 in r0:\n"
                "  %6 = vote pred 1, 0xffffffff {mode=ballot}\n"
                "  %7 = popc u32 %6\n"
                "  %8 = mul u32 %7, 1000\n"
                "  %9 = add u32 %5, %8\n"
                "  st.global u32 %0, %1, %9 {scale=4}\n"
                "  exit\n}\n",
           THREADS, break_expected);
}
END_TEST

/* if (tid & 1) { if (tid & 2) exit; } the rest meets: 24 lanes. The odd ones that exit leave 0xA5.. */
static uint32_t exit_expected(uint32_t t) { return (t & 3) == 3 ? 0xA5A5A5A5u : 24; }
START_TEST(test_exit_of_some) {
  run_both(HEAD "region r1 in r0 head b0\nregion r2 in r1 head b1\n"
                "b0 in r0:\n"
                "  %1 = sreg u32 {which=tid.x}\n"
                "  %2 = and u32 %1, 1\n"
                "  %3 = ne u32 %2, 0\n"
                "  %4 = and u32 %1, 2\n"
                "  %5 = ne u32 %4, 0\n"
                "  cbr %3, b1, b4, b4\n"
                "b1 in r1:\n"
                "  cbr %5, b2, b3, b3\n"
                "b2 in r2:\n"
                "  exit\n"
                "b3 in r1:\n"
                "  br b4\n"
                "b4 in r0:\n"
                "  %6 = vote pred 1, 0xffffffff {mode=ballot}\n"
                "  %7 = popc u32 %6\n"
                "  st.global u32 %0, %1, %7 {scale=4}\n"
                "  exit\n}\n",
           THREADS, exit_expected);
}
END_TEST

/* Collatz steps with an if inside the loop: nested divergence in every iteration. */
static uint32_t collatz(uint32_t t) {
  uint32_t n = t + 1, steps = 0;
  while (n != 1) {
    n = n & 1 ? 3 * n + 1 : n / 2;
    steps++;
  }
  return steps;
}
START_TEST(test_nested) {
  run_both(HEAD "reg %5 u32\nreg %6 u32\n"
                "region r1 in r0 head b1\nregion r2 in r1 head b2\nregion r3 in r1 head b2\n"
                "b0 in r0:\n"
                "  %1 = sreg u32 {which=tid.x}\n"
                "  %5 = add u32 %1, 1\n"
                "  %6 = mov u32 0\n"
                "  br b1\n"
                "b1 in r1:\n"
                "  %2 = ne u32 %5, 1\n"
                "  cbr %2, b2, b6, b6\n"
                "b2 in r1:\n"
                "  %3 = and u32 %5, 1\n"
                "  %4 = ne u32 %3, 0\n"
                "  cbr %4, b3, b4, b5\n"
                "b3 in r2:\n"
                "  %7 = mul u32 %5, 3\n"
                "  %5 = add u32 %7, 1\n"
                "  br b5\n"
                "b4 in r3:\n"
                "  %5 = shr u32 %5, 1\n"
                "  br b5\n"
                "b5 in r1:\n"
                "  %6 = add u32 %6, 1\n"
                "  br b1\n"
                "b6 in r0:\n"
                "  st.global u32 %0, %1, %6 {scale=4}\n"
                "  exit\n}\n",
           1000, collatz);
}
END_TEST

/* Lane 0 waits for an mbarrier that the other lanes of its warp arrive on, in the other arm. */
static const char wait_in_arm[] =
    HEAD "shared s0 barrier u64 align 8 size 8\n"
         "region r1 in r0 head b2\nregion r2 in r0 head b2\nregion r3 in r0 head b0\n"
         "b0 in r0:\n"
         "  %1 = sreg u32 {which=tid.x}\n"
         "  %2 = eq u32 %1, 0\n"
         "  cbr %2, b1, b2, b2\n"
         "b1 in r3:\n"
         "  mbarrier.init s0, 31\n"
         "  br b2\n"
         "b2 in r0:\n"
         "  cbr %2, b3, b4, b5\n"
         "b3 in r1:\n"
         "  mbarrier.wait s0, 0\n"
         "  br b5\n"
         "b4 in r2:\n"
         "  mbarrier.arrive s0\n"
         "  br b5\n"
         "b5 in r0:\n"
         "  st.global u32 %0, %1, 9 {scale=4}\n"
         "  exit\n}\n";
static uint32_t nine(uint32_t t) {
  (void)t;
  return 9;
}
START_TEST(test_wait_in_arm) { run_both(wait_in_arm, 32, nine); }
END_TEST

/* One warp waits for an arrival that never comes; the other waits at a barrier for the first. */
static const char deadlock[] =
    "place \"k.py\" 7 3\nplace \"k.py\" 9 3\n" HEAD "shared s0 barrier u64 align 8 size 8\n"
    "region r1 in r0 head b0\nregion r2 in r0 head b0\n"
    "b0 in r0:\n"
    "  %1 = sreg u32 {which=warpid}\n"
    "  %2 = eq u32 %1, 1\n"
    "  mbarrier.init s0, 500\n"
    "  cbr %2, b1, b2, b2\n"
    "b1 in r1:\n"
    "  mbarrier.wait s0, 0 @1\n"
    "  br b2\n"
    "b2 in r0:\n"
    "  bar.sync 0, 0 @2\n"
    "  exit\n}\n";
START_TEST(test_deadlock) {
  static const enum ts_schedule_kind kinds[] = {TS_SCHEDULE_EAGER, TS_SCHEDULE_LAZY,
                                                TS_SCHEDULE_RANDOM};
  for (int i = 0; i < 3; i++) {
    struct kernel k;
    kernel_begin(&k, deadlock);
    k.options.schedule = kinds[i];
    kernel_buffer(&k, "out", TS_DTYPE_u32, 64);
    ck_assert_int_eq(kernel_run(&k, 1, 128), TS_DEADLOCK);
    ck_assert_uint_eq(k.diags.items.count, 2);
    for (size_t j = 0; j < 2; j++) {
      const struct ts_diag *diag = &k.diags.items.data[j];
      ck_assert_int_eq(diag->code, TS_DIAG_DEADLOCK);
      ck_assert_str_eq(diag->place.file, "k.py");
      bool is_barrier = diag->place.line == 9;
      ck_assert(is_barrier || diag->place.line == 7);
      ck_assert_ptr_nonnull(
          strstr(diag->message, is_barrier ? "warps 0, 2-3 wait" : "warp 1 waits"));
    }
    kernel_end(&k);
  }
}
END_TEST

/* An endless loop ends at the limit that was set, not before. */
START_TEST(test_insn_limit) {
  struct kernel k;
  kernel_begin(&k, HEAD "region r1 in r0 head b1\n"
                        "b0 in r0:\n  br b1\n"
                        "b1 in r1:\n  cbr 1, b1, b2, b2\n"
                        "b2 in r0:\n  exit\n}\n");
  kernel_buffer(&k, "out", TS_DTYPE_u32, 64);
  k.options.max_insns_per_warp = 100000;
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_LIMIT);
  ck_assert_ptr_nonnull(strstr(kernel_message(&k, 0), "100000 instructions"));
  ck_assert_uint_eq(k.stats.op_count[TS_OP_cbr], 99999);
  kernel_end(&k);
}
END_TEST

START_TEST(test_trap_and_assert) {
  struct kernel k;
  kernel_begin(&k, "place \"k.py\" 3 1\n" HEAD "b0 in r0:\n"
                   "  %1 = sreg u32 {which=tid.x}\n"
                   "  %2 = lt u32 %1, 40\n"
                   "  assert %2, \"tid < 40\" @1\n"
                   "  st.global u32 %0, %1, 1 {scale=4}\n"
                   "  exit\n}\n");
  uint32_t *out = kernel_buffer(&k, "out", TS_DTYPE_u32, 512);
  ck_assert_int_eq(kernel_run(&k, 1, 64), TS_TRAP);
  ck_assert_str_eq(kernel_message(&k, 0), "tid < 40");
  ck_assert_int_eq(k.diags.items.data[0].warp, 1);
  ck_assert_int_eq(k.diags.items.data[0].lane, 8);
  ck_assert_uint_eq(out[31], 1);
  ck_assert_uint_eq(out[32], 0xA5A5A5A5u);
  kernel_end(&k);
}
END_TEST

START_TEST(test_print) {
  struct kernel k;
  kernel_begin(&k, HEAD "b0 in r0:\n"
                        "  %1 = sreg s32 {which=tid.x}\n"
                        "  %2 = sub s32 %1, 2\n"
                        "  print \"x =\", %2, 7\n"
                        "  exit\n}\n");
  kernel_buffer(&k, "out", TS_DTYPE_u32, 64);
  ck_assert_int_eq(kernel_run(&k, 1, 32), TS_OK);
  ck_assert_str_eq(kernel_message(&k, 0), "x = -2 7");
  kernel_end(&k);
}
END_TEST

int main(void) {
  return RUN_TESTS("interp_core_control", test_if_else, test_gradual_loop, test_break,
                   test_exit_of_some, test_nested, test_wait_in_arm, test_deadlock, test_insn_limit,
                   test_trap_and_assert, test_print);
}
