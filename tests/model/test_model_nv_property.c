/* What must hold of the timing model whatever its constants are. */
#include "model/sample.h"
#include "model_nv/model_nv_priv.h"
#include "support/suite.h"

#include <math.h>
#include <unistd.h>

enum { ROUNDS = 6, GRID = 200 };

/* How much slower "never slower" may be. Requests that come earlier may be served in another order, so
 * shorter intervals and latencies have some room. The last two are faults of the model (FITTED to what
 * it does today): warps that load without conflicts get into each other's way, and a launch that fills
 * its last wave in part is charged as if every SM had the first one's blocks. */
static const double slack = 1.002, order_slack = 1.02, conflict_slack = 1.05, sm_slack = 1.13;

static double finish_cycles(struct timed *t, uint32_t grid, uint32_t threads) {
  enum ts_status status = timed_run(t, grid, threads);
  if (status != TS_OK) ck_abort_msg("%s", kernel_message(&t->kernel, 0));
  double cycles = t->report->launches[0].cycles;
  timed_end(t);
  return cycles;
}

static double sample_cycles(enum sample_id id, enum ts_timing_id constant, double factor) {
  struct timed t;
  sample_begin(&t, id, ROUNDS);
  if (constant < TS_TIMING_COUNT) t.kernel.machine.timing[constant] *= factor;
  return finish_cycles(&t, GRID, sample_threads[id]);
}

/* --- constants */

enum direction { MORE_IS_FASTER, LESS_IS_FASTER, NO_PROPERTY };

static enum direction direction_of(enum ts_timing_id constant) {
  switch (constant) {
  case TS_TIMING_sm_clock:                /* DRAM counts in time, the rest in cycles */
  case TS_TIMING_block_dispatch_interval: /* blocks that start apart overlap better */
  case TS_TIMING_warp_start_interval:
  case TS_TIMING_model_uncertainty: return NO_PROPERTY;
  case TS_TIMING_l1_bytes:
  case TS_TIMING_l2_capacity:
  case TS_TIMING_l2_duplicated:
  case TS_TIMING_fetch_ahead:
  case TS_TIMING_fetch_insns_per_cycle:
  case TS_TIMING_shared_bytes_per_cycle:
  case TS_TIMING_l2_port_bytes_per_cycle:
  case TS_TIMING_l2_write_bytes_per_cycle:
  case TS_TIMING_l2_chip_bytes_per_cycle:
  case TS_TIMING_l2_chip_write_bytes_per_cycle:
  case TS_TIMING_dram_read_bytes_per_us:
  case TS_TIMING_dram_write_bytes_per_us:
  case TS_TIMING_mma_macs_per_cycle:
  case TS_TIMING_wgmma_macs_per_cycle:
  case TS_TIMING_wgmma_queue:
  case TS_TIMING_atomic_sectors_per_cycle: return MORE_IS_FASTER;
  default: {
    /* A name says what it is: rates are "per", latencies and intervals are not. */
    static const char *const names[] = {
#define TIMING(key, unit, text) unit,
#include "machine/timing.def"
#undef TIMING
    };
    return strcmp(names[constant], "cycles") == 0 ? LESS_IS_FASTER : NO_PROPERTY;
  }
  }
}

START_TEST(test_constants) {
  static const char *const names[] = {
#define TIMING(key, unit, text) #key,
#include "machine/timing.def"
#undef TIMING
  };
  for (enum sample_id id = 0; id < SAMPLE_COUNT; id++) {
    double before = sample_cycles(id, TS_TIMING_COUNT, 1);
    for (enum ts_timing_id c = 0; c < TS_TIMING_COUNT; c++) {
      enum direction direction = direction_of(c);
      if (direction == NO_PROPERTY) continue;
      double after = sample_cycles(id, c, direction == MORE_IS_FASTER ? 1.5 : 0.5);
      if (!(after <= before * (direction == MORE_IS_FASTER ? slack : order_slack)))
        ck_abort_msg("sample %d: a better %s makes %.1f cycles of %.1f", (int)id, names[c], after,
                     before);
    }
  }
}
END_TEST

/* --- bytes */

/* Each block streams and does what `round` says. */
static void stream_begin(struct timed *t, const char *round, const char *end, uint32_t rounds) {
  static const char pattern[] = SAMPLE_LOOP(
      "reg %40 u32\n", "%28 = mul u32 %3, 8192\n%29 = add u32 %28, %2\n%40 = mov u32 0\n",
      "%30 = fma u32 %9, 256, %29\n%32 = ld.global u32x4 %0, %30 {scale=16}\n"
      "%33 = extract u32 %32, 0 {source_lanes=4}\n%40 = add u32 %40, %33\n$A",
      "$B");
  char text[4096];
  kernel_text(text, sizeof text, pattern, (const char *[]){round, end});
  sample_open(t, text, rounds);
  t->kernel.launch.dynamic_shared_bytes = 0;
}

/* The bytes that the report says come from DRAM cannot come faster than DRAM gives them, and what L1
 * answers makes them no faster. */
START_TEST(test_dram_bytes) {
  static const char *const ends[] = {
      "st.global u32 %0, %29, %40 {scale=4, offset=134217728}\n",
      "%41 = cvt f32 u32 %40\n"
      "atom.global f32 %0, %29, %41 {scale=4, offset=134217728, reduce=add, order=0, scope=1}\n"};
  static const char hit[] = "%34 = ld.global u32 %0, %2 {scale=4, offset=268000000}\n"
                            "%40 = add u32 %40, %34\n"; /* of what all blocks read */
  enum { BLOCKS = 1056, THREADS = 256 };
  for (size_t end = 0; end < sizeof ends / sizeof *ends; end++) {
    double before_us = 0;
    for (uint32_t hits = 0; hits <= 4; hits += 2) {
      struct timed t;
      char round[1024] = "";
      for (uint32_t i = 0; i < hits; i++)
        strcat(round, hit);
      stream_begin(&t, round, ends[end], 32);
      double limit = t.kernel.machine.timing[TS_TIMING_dram_read_bytes_per_us];
      ck_assert_int_eq(timed_run(&t, BLOCKS, THREADS), TS_OK);
      const struct ts_launch_report *launch = &t.report->launches[0];
      ck_assert_double_ge(launch->dram_bytes, (double)BLOCKS * THREADS * 16 * 32);
      ck_assert_msg(launch->dram_bytes / launch->kernel_us <= limit,
                    "%u loads beside: %.0f bytes in %.2f us", hits, launch->dram_bytes,
                    launch->kernel_us);
      ck_assert_double_ge(launch->kernel_us, before_us * 0.98);
      before_us = launch->kernel_us;
      timed_end(&t);
    }
  }
}
END_TEST

static double turning_cycles(const char *round, double factor) {
  struct timed t;
  stream_begin(&t, round, "", 16);
  t.kernel.machine.timing[TS_TIMING_dram_turn_extra] *= factor;
  return finish_cycles(&t, 1056, 256);
}

/* Reads and writes disturb each other; reads alone know nothing of it. */
START_TEST(test_dram_turns) {
  static const char store[] = "st.global u32x4 %0, %30, %32 {scale=16, offset=65536}\n";
  double copy = turning_cycles(store, 0), extra = turning_cycles(store, 1) / copy - 1;
  struct timed t;
  sample_begin(&t, SAMPLE_ID_MIX, 1);
  double expected = t.kernel.machine.timing[TS_TIMING_dram_turn_extra] / 2;
  timed_end(&t);
  ck_assert_double_ge(extra, 0.8 * expected);
  ck_assert_double_le(extra, expected);
  ck_assert_double_eq(turning_cycles("", 1), turning_cycles("", 0));
}
END_TEST

/* What a cold launch writes goes to DRAM before it ends. */
START_TEST(test_cold_writes) {
  struct timed t;
  stream_begin(&t, "st.global u32x4 %0, %30, %32 {scale=16, offset=65536}\n", "", 16);
  const double *timing = t.kernel.machine.timing;
  double bytes = 1056.0 * 256 * 16 * 16;
  double least_us = bytes / timing[TS_TIMING_dram_read_bytes_per_us] +
                    bytes / timing[TS_TIMING_dram_write_bytes_per_us];
  ck_assert_int_eq(timed_run(&t, 1056, 256), TS_OK);
  ck_assert_double_ge(t.report->launches[0].cold_us, least_us);
  timed_end(&t);
}
END_TEST

/* --- conflicts */

static double strided_cycles(uint32_t stride, uint32_t threads, bool is_store) {
  static const char pattern[] =
      SAMPLE_LOOP("reg %40 u32\n", "%40 = mov u32 0\n%20 = mul u32 %4, $A\n", "$B", "");
  static const char loads[] = "%41 = ld.shared u32 s0, %20 {scale=4}\n%40 = add u32 %40, %41\n";
  static const char stores[] = "st.shared u32 s0, %20, %2 {scale=4}\n"
                               "st.shared u32 s0, %20, %2 {scale=4, offset=4096}\n";
  char text[4096], number[16];
  struct timed t;
  kernel_text(text, sizeof text, pattern,
              (const char *[]){kernel_number(number, stride), is_store ? stores : loads});
  sample_open(&t, text, 16);
  return finish_cycles(&t, 1, threads);
}

START_TEST(test_conflicts) {
  for (int is_store = 0; is_store < 2; is_store++)
    for (uint32_t threads = 32; threads <= 512; threads *= 4) {
      double before = 0;
      for (uint32_t stride = 1; stride <= 32; stride *= 2) {
        double cycles = strided_cycles(stride, threads, is_store);
        ck_assert_msg(cycles * conflict_slack >= before,
                      "%s of %u threads: stride %u takes %.1f cycles, half %.1f",
                      is_store ? "stores" : "loads", threads, stride, cycles, before);
        before = cycles;
      }
    }
}
END_TEST

/* --- warps and SMs */

/* Warps that differ in the number of rounds and share nothing; warp w does the rounds of w ^ flip. */
static double independent_cycles(uint32_t flip, bool has_loads) {
  static const char pattern[] =
      SAMPLE_LOOP("reg %40 f32\n",
                  "%40 = cvt f32 u32 %2\n%6 = xor u32 %5, $A\n%7 = fma u32 %6, 3, 2\n"
                  "%10 = mul u32 %6, 8192\n%12 = add u32 %10, %4\n",
                  "%40 = fma f32 %40, %40, %40\n%40 = exp2 f32 %40 {approx=1, ftz=1}\n$B"
                  "%14 = lt u32 %9, %7\n%15 = select u32 %14, 0, 1000\n%9 = add u32 %9, %15\n",
                  "");
  static const char load[] = "%13 = fma u32 %9, 32, %12\n%16 = ld.global f32 %0, %13 {scale=4}\n"
                             "%40 = add f32 %40, %16\n";
  char text[4096], number[16];
  struct timed t;
  kernel_text(text, sizeof text, pattern,
              (const char *[]){kernel_number(number, flip), has_loads ? load : ""});
  sample_open(&t, text, 100);
  return finish_cycles(&t, 1, 256);
}

/* Sub-partitions are alike: which warp does what does not matter, but for the order in which equal
 * requests come to what they share. */
START_TEST(test_permuted_warps) {
  for (int has_loads = 0; has_loads < 2; has_loads++) {
    double before = independent_cycles(0, has_loads);
    for (uint32_t flip = 1; flip < 4; flip++)
      ck_assert_double_eq_tol(independent_cycles(flip, has_loads), before,
                              has_loads ? 1e-3 * before : 1e-6);
  }
}
END_TEST

START_TEST(test_more_sms) {
  static const uint32_t counts[] = {16, 33, 66, 100, 132, 200};
  for (enum sample_id id = 0; id < SAMPLE_COUNT; id++) {
    double before = INFINITY;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
      struct timed t;
      sample_begin(&t, id, ROUNDS);
      t.kernel.machine.sm_count = counts[i];
      double cycles = finish_cycles(&t, GRID, sample_threads[id]);
      ck_assert_msg(cycles <= before * sm_slack, "sample %d: %u SMs take %.1f cycles, fewer %.1f",
                    (int)id, counts[i], cycles, before);
      before = cycles;
    }
  }
}
END_TEST

/* --- SMs in step */

/* A block loads 32 KB and works for a while; answers when the first one ends. */
static double loading_cycles(uint32_t grid) {
  static const char text[] =
      SAMPLE_LOOP("reg %40 u32\nreg %41 f32\n",
                  "%28 = mul u32 %3, 2048\n%29 = add u32 %28, %2\n%40 = mov u32 0\n"
                  "%50 = ld.global u32x4 %0, %29 {scale=16, offset=0}\n"
                  "%51 = ld.global u32x4 %0, %29 {scale=16, offset=4096}\n"
                  "%52 = ld.global u32x4 %0, %29 {scale=16, offset=8192}\n"
                  "%53 = ld.global u32x4 %0, %29 {scale=16, offset=12288}\n"
                  "%54 = ld.global u32x4 %0, %29 {scale=16, offset=16384}\n"
                  "%55 = ld.global u32x4 %0, %29 {scale=16, offset=20480}\n"
                  "%56 = ld.global u32x4 %0, %29 {scale=16, offset=24576}\n"
                  "%57 = ld.global u32x4 %0, %29 {scale=16, offset=28672}\n"
                  "%60 = extract u32 %50, 0 {source_lanes=4}\n%40 = add u32 %40, %60\n"
                  "%61 = extract u32 %51, 0 {source_lanes=4}\n%40 = add u32 %40, %61\n"
                  "%62 = extract u32 %52, 0 {source_lanes=4}\n%40 = add u32 %40, %62\n"
                  "%63 = extract u32 %53, 0 {source_lanes=4}\n%40 = add u32 %40, %63\n"
                  "%64 = extract u32 %54, 0 {source_lanes=4}\n%40 = add u32 %40, %64\n"
                  "%65 = extract u32 %55, 0 {source_lanes=4}\n%40 = add u32 %40, %65\n"
                  "%66 = extract u32 %56, 0 {source_lanes=4}\n%40 = add u32 %40, %66\n"
                  "%67 = extract u32 %57, 0 {source_lanes=4}\n%40 = add u32 %40, %67\n"
                  "%41 = cvt f32 u32 %40\n",
                  "%41 = exp2 f32 %41 {approx=1, ftz=1}\n",
                  "st.global f32 %0, %29, %41 {scale=4, offset=134217728}\n");
  struct timed t;
  sample_open(&t, text, 300);
  t.kernel.launch.dynamic_shared_bytes = 200 << 10;
  ck_assert_int_eq(timed_run(&t, grid, 256), TS_OK);
  const struct ts_launch_report *launch = &t.report->launches[0];
  double cycles = launch->prologue_cycles + launch->steady_cycles + launch->epilogue_cycles;
  timed_end(&t);
  return cycles;
}

/* All SMs load at once when a launch begins, whether or not more blocks come after the first. */
START_TEST(test_first_wave) {
  double alone = loading_cycles(132);
  ck_assert_double_eq_tol(loading_cycles(4 * 132), alone, 0.01 * alone);
  ck_assert_double_le(loading_cycles(16), alone - 300);
}
END_TEST

/* --- atomics of blocks that go ways of their own */

/* Each block adds to words in an order of its own, all of them to the same `words`. */
static double scattered_cycles(uint32_t words, uint32_t rounds) {
  static const char pattern[] =
      SAMPLE_LOOP("", "%20 = mul u32 %3, 2654435761\n%21 = shr u32 %20, 7\n",
                  "%22 = fma u32 %9, 8192, %2\n%23 = xor u32 %22, %21\n%24 = and u32 %23, $A\n"
                  "atom.global u32 %0, %24, 1 {scale=4, reduce=add, order=0, scope=1}\n",
                  "");
  char text[4096], number[16];
  struct timed t;
  kernel_text(text, sizeof text, pattern, (const char *[]){kernel_number(number, words - 1)});
  sample_open(&t, text, rounds);
  return finish_cycles(&t, 132, 256);
}

START_TEST(test_scattered_atomics) {
  enum { ROUNDS_MORE = 8, WARPS = 8, BLOCKS = 132, WORDS_OF_LINE = 32 };
  struct ts_machine machine;
  ts_machine_default(&machine);
  double line = machine.timing[TS_TIMING_atomic_line_interval] * WARPS * BLOCKS * ROUNDS_MORE;
  double one = scattered_cycles(WORDS_OF_LINE, 2 * ROUNDS_MORE) -
               scattered_cycles(WORDS_OF_LINE, ROUNDS_MORE);
  double four = scattered_cycles(4 * WORDS_OF_LINE, 2 * ROUNDS_MORE) -
                scattered_cycles(4 * WORDS_OF_LINE, ROUNDS_MORE);
  double many = scattered_cycles(1 << 20, 2 * ROUNDS_MORE) - scattered_cycles(1 << 20, ROUNDS_MORE);
  ck_assert_double_eq_tol(one, line, 0.1 * line);
  ck_assert_double_eq_tol(four, line / 4, 0.1 * line);
  ck_assert_double_lt(many, line / 16);
}
END_TEST

/* Cycles of a round, one block. */
static double round_cycles(const char *pattern, const char *part, uint32_t threads) {
  char text[4096];
  double cycles[2];
  for (uint32_t i = 0; i < 2; i++) {
    struct timed t;
    kernel_text(text, sizeof text, pattern, (const char *[]){part});
    sample_open(&t, text, 8 * (i + 1));
    cycles[i] = finish_cycles(&t, 1, threads);
  }
  return (cycles[1] - cycles[0]) / 8;
}

/* The greatest of a type, for lanes with words of their own. */
#define GREATEST                                                                                   \
  SAMPLE_LOOP("", "", "atom.global $A %0, %2, 0 {scale=4, reduce=max, order=0, scope=1}\n", "")

/* The greatest of f32 is a load and a compare-and-swap whose answer the warp waits for. */
START_TEST(test_swaps) {
  struct ts_machine machine;
  ts_machine_default(&machine);
  double latency = machine.timing[TS_TIMING_atomic_latency] + machine.timing[TS_TIMING_l2_latency];
  ck_assert_double_ge(round_cycles(GREATEST, "f32", 32), latency);
  ck_assert_double_le(round_cycles(GREATEST, "f32", 32), latency + 100);
  ck_assert_double_le(round_cycles(GREATEST, "s32", 32), 100);
}
END_TEST

/* --- branches and local memory */

/* Some of a warp's lanes do something. */
#define SIDE_LOOP                                                                                  \
  SAMPLE_HEAD "region r1 in r0 head b1\nregion r2 in r1 head b1\nb0 in r0:\n" SAMPLE_START         \
              "br b1\nb1 in r1:\n%20 = lt u32 %4, $A\ncbr %20, b2, b3, b3\nb2 in r2:\n"            \
              "atom.global u32 %0, %4, 1 {scale=4, reduce=add, order=0, scope=1}\nbr b3\n"         \
              "b3 in r1:\n%9 = add u32 %9, 1\n%8 = lt u32 %9, %1\ncbr %8, b1, b4, b4\n"            \
              "b4 in r0:\nexit\n}\n"

/* A warp whose lanes part at a branch takes longer than one whose lanes stay together, be they few. */
START_TEST(test_parting) {
  struct ts_machine machine;
  ts_machine_default(&machine);
  double apart = round_cycles(SIDE_LOOP, "16", 32) - round_cycles(SIDE_LOOP, "32", 32);
  ck_assert_double_eq_tol(apart, machine.timing[TS_TIMING_branch_apart], 1);
  apart = round_cycles(SIDE_LOOP, "4", 8) - round_cycles(SIDE_LOOP, "8", 8);
  ck_assert_double_eq_tol(apart, machine.timing[TS_TIMING_branch_apart], 1);
  double few = round_cycles(SIDE_LOOP, "16", 16) - round_cycles(SIDE_LOOP, "32", 32);
  ck_assert_double_eq_tol(few, 0, 1);
}
END_TEST

#define TURNS                                                                                      \
  SAMPLE_LOOP("array a0 f32 256\n", "",                                                            \
              "wgmma.fence\n"                                                                      \
              "wgmma.ss f32 f16 0x4000004000010000, 0x4000004000010400, a0, 0, 1 {m=64, n=256, "   \
              "k=16, b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n"                   \
              "wgmma.ss f32 f16 0x4000004000010000, 0x4000004000010400, a0, $A, 1 {m=64, n=256, "  \
              "k=16, b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n"                   \
              "wgmma.commit\nwgmma.wait 0\n",                                                      \
              "%40 = ld.local f32 a0, 0\nst.global f32 %0, %2, %40 {scale=4}\n")

/* Two accumulators that take turns at the registers: each change stores 128 words and the excess of
 * 256 + 26 over 255, at the rate of stores. */
START_TEST(test_taking_turns) {
  enum { CHANGES = 2, WARPS = 4, WORDS = 128 + 256 + 26 - 255, LINE_BYTES = 128 };
  struct ts_machine machine;
  ts_machine_default(&machine);
  double least =
      CHANGES * WARPS * WORDS * LINE_BYTES / machine.timing[TS_TIMING_l2_write_bytes_per_cycle];
  double more = round_cycles(TURNS, "128", 128) - round_cycles(TURNS, "0", 128);
  ck_assert_double_ge(more, 0.85 * least);
  ck_assert_double_le(more, 1.1 * least);
}
END_TEST

/* --- barriers over all blocks */

static double barrier_cycles(const char *barrier, enum ts_timing_id constant) {
  char text[4096];
  struct timed t;
  kernel_text(text, sizeof text, SAMPLE_LOOP("", "", "$A", ""), (const char *[]){barrier});
  sample_open(&t, text, ROUNDS);
  t.kernel.launch.is_cooperative = true;
  t.kernel.machine.timing[constant] += 1000;
  return finish_cycles(&t, 4, 128);
}

/* A barrier takes its own constant each time, and the other one nothing. */
START_TEST(test_wide_barriers) {
  double grid = barrier_cycles("grid.sync\n", TS_TIMING_grid_barrier);
  double cluster = barrier_cycles("cluster.sync\n", TS_TIMING_cluster_barrier);
  ck_assert_double_eq_tol(grid - barrier_cycles("grid.sync\n", TS_TIMING_cluster_barrier),
                          1000.0 * ROUNDS, 1);
  ck_assert_double_eq_tol(cluster - barrier_cycles("cluster.sync\n", TS_TIMING_grid_barrier),
                          1000.0 * ROUNDS, 1);
}
END_TEST

/* --- equal spans */

struct span_hash {
  struct ts_span_sink sink;
  uint64_t hash, count;
};

static enum ts_status take_span(struct ts_span_sink *sink, const struct ts_span *span) {
  struct span_hash *all = (struct span_hash *)sink;
  const uint64_t words[] = {span->start_cycle, span->end_cycle,    span->unit,
                            span->warp,        span->block,        span->insn,
                            span->stall,       span->stall_cycles, span->bytes};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    all->hash = (all->hash ^ words[i]) * UINT64_C(0x100000001b3);
  all->count++;
  return TS_OK;
}

struct timing {
  uint64_t hash, count;
  double kernel_us, cold_us;
};

static void expect_equal(const struct timing *a, const struct timing *b, const char *what) {
  ck_assert_uint_gt(a->count, 0);
  ck_assert_msg(a->count == b->count && a->hash == b->hash, "%s: %llu spans and %llu differ", what,
                (unsigned long long)a->count, (unsigned long long)b->count);
  ck_assert_double_eq(a->kernel_us, b->kernel_us);
  ck_assert_double_eq(a->cold_us, b->cold_us);
}

static struct timing time_live(enum sample_id id, uint32_t grid, bool addresses_only) {
  struct timed t;
  struct span_hash spans = {.sink = {.emit = take_span}};
  sample_begin(&t, id, ROUNDS);
  struct kernel *k = &t.kernel;
  ck_assert_int_eq(ts_device_back(&k->ctx, &k->memory, k->args[0].value), TS_OK);
  k->options.addresses_only = addresses_only;
  t.options.spans = &spans.sink;
  enum ts_status status = timed_run(&t, grid, sample_threads[id]);
  if (status != TS_OK) ck_abort_msg("%s", kernel_message(k, 0));
  struct timing timing = {spans.hash, spans.count, t.report->kernel_us, t.report->kernel_us_cold};
  timed_end(&t);
  return timing;
}

static void write_events(enum sample_id id, uint32_t grid, const char *path) {
  struct timed t;
  struct ts_trace_writer *writer;
  sample_begin(&t, id, ROUNDS);
  struct kernel *k = &t.kernel;
  ck_assert_int_eq(ts_device_back(&k->ctx, &k->memory, k->args[0].value), TS_OK);
  k->options.addresses_only = false;
  timed_describe(&t, grid, sample_threads[id]);
  ck_assert_int_eq(ts_trace_writer_open(&k->ctx, path, &t.program, &writer), TS_OK);
  k->options.sink = ts_trace_writer_sink(writer);
  ck_assert_int_eq(kernel_run(k, grid, sample_threads[id]), TS_OK);
  ck_assert_int_eq(ts_trace_writer_close(&k->ctx, writer, true), TS_OK);
  timed_end(&t);
}

static struct timing time_file(const char *path) {
  struct timed t;
  struct span_hash spans = {.sink = {.emit = take_span}};
  struct ts_trace_reader *reader;
  sample_begin(&t, SAMPLE_ID_MIX, 1); /* for the machine and the context */
  struct kernel *k = &t.kernel;
  ck_assert_int_eq(ts_trace_reader_open(&k->ctx, path, &reader), TS_OK);
  t.options.spans = &spans.sink;
  t.options.machine = &k->machine;
  ck_assert_int_eq(ts_model_nv_open(&k->ctx, &t.options, ts_trace_reader_program(reader), &t.model),
                   TS_OK);
  ck_assert_int_eq(ts_trace_replay(&k->ctx, reader, ts_model_nv_sink(t.model)), TS_OK);
  ck_assert_int_eq(ts_model_nv_finish(t.model, &t.report), TS_OK);
  struct timing timing = {spans.hash, spans.count, t.report->kernel_us, t.report->kernel_us_cold};
  ts_model_nv_close(t.model);
  t.model = NULL;
  ts_trace_reader_close(reader);
  timed_end(&t);
  return timing;
}

START_TEST(test_equal_spans) {
  char path[] = "/tmp/tilesim-spans-XXXXXX";
  int descriptor = mkstemp(path);
  ck_assert_int_ge(descriptor, 0);
  close(descriptor);
  for (enum sample_id id = 0; id < SAMPLE_COUNT; id++) {
    uint32_t grid = 5;
    struct timing live = time_live(id, grid, true), again = time_live(id, grid, true);
    struct timing full = time_live(id, grid, false);
    write_events(id, grid, path);
    struct timing file = time_file(path);
    expect_equal(&live, &again, "a second run");
    expect_equal(&live, &full, "a full run");
    expect_equal(&live, &file, "an event file");
  }
  unlink(path);
}
END_TEST

/* --- refusals */

START_TEST(test_missing_constants) {
  static const struct {
    enum sample_id id;
    enum ts_timing_id constant;
    const char *name;
  } rows[] = {{SAMPLE_ID_MIX, TS_TIMING_l2_latency, "l2_latency"},
              {SAMPLE_ID_MIX, TS_TIMING_mma_latency, "mma_latency"},
              {SAMPLE_ID_WGMMA, TS_TIMING_wgmma_macs_per_cycle, "wgmma_macs_per_cycle"},
              {SAMPLE_ID_RING, TS_TIMING_tma_row_cycles, "tma_row_cycles"},
              {SAMPLE_ID_COPY, TS_TIMING_cp_async_extra, "cp_async_extra"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct timed t;
    sample_begin(&t, rows[i].id, ROUNDS);
    t.kernel.machine.timing[rows[i].constant] = NAN;
    ck_assert_int_eq(timed_run(&t, 4, sample_threads[rows[i].id]), TS_UNSUPPORTED);
    ck_assert_ptr_null(t.report);
    ck_assert_msg(strstr(kernel_message(&t.kernel, 0), rows[i].name) != NULL, "%s is not named: %s",
                  rows[i].name, kernel_message(&t.kernel, 0));
    timed_end(&t);
  }
}
END_TEST

/* A constant of what the kernel does not use may be missing. */
START_TEST(test_unneeded_constants) {
  struct timed t;
  sample_begin(&t, SAMPLE_ID_MIX, ROUNDS);
  t.kernel.machine.timing[TS_TIMING_wgmma_macs_per_cycle] = NAN;
  t.kernel.machine.timing[TS_TIMING_tma_row_cycles] = NAN;
  ck_assert_int_eq(timed_run(&t, 4, 128), TS_OK);
  timed_end(&t);
}
END_TEST

/* No op is without a cost: an op that is neither memory, matrix, synchronisation nor control has a row
 * for some type, and its numbers make sense. (An op without one would be refused, plan.c.) */
START_TEST(test_every_op_has_a_cost) {
  static const enum ts_dtype dtypes[] = {TS_DTYPE_f32, TS_DTYPE_f16, TS_DTYPE_f64, TS_DTYPE_s32,
                                         TS_DTYPE_s64};
  struct timed t;
  sample_begin(&t, SAMPLE_ID_MIX, 1); /* for the machine */
  for (uint16_t op = 0; op < TS_OP_COUNT; op++) {
    bool is_known = false;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      struct ts_code_insn insn = {.op = op, .lanes = 1};
      struct ts__cost cost;
      insn.dtype = insn.dtype2 = (uint8_t)dtypes[d];
      if (!ts__cost_find(&t.kernel.machine, &insn, &cost)) continue;
      is_known = true;
      ck_assert_uint_le(cost.pipe_slots, cost.slots);
      ck_assert(cost.latency >= 0 && cost.latency < 10000);
    }
    ck_assert_msg(is_known, "%s has no cost", ts_op_info((enum ts_op)op)->mnemonic);
  }
  timed_end(&t);
}
END_TEST

/* Passes on events up to a number, then loses them. */
struct short_sink {
  struct ts_sink sink, *next;
  uint64_t left;
};

static enum ts_status emit_some(struct ts_sink *sink, struct ts_event *event,
                                const struct ts_footprint *footprint) {
  struct short_sink *self = (struct short_sink *)sink;
  if (self->left == 0) return TS_OK;
  self->left--;
  return self->next->emit(self->next, event, footprint);
}

static enum ts_status finish_cut(enum sample_id id, uint64_t event_count, uint64_t *all) {
  struct timed t;
  struct short_sink cut = {.sink = {.emit = emit_some}, .left = event_count};
  sample_begin(&t, id, ROUNDS);
  struct kernel *k = &t.kernel;
  timed_describe(&t, 2, sample_threads[id]);
  t.options.machine = &k->machine;
  ck_assert_int_eq(ts_model_nv_open(&k->ctx, &t.options, &t.program, &t.model), TS_OK);
  cut.next = ts_model_nv_sink(t.model);
  k->options.sink = &cut.sink;
  ck_assert_int_eq(kernel_run(k, 2, sample_threads[id]), TS_OK);
  enum ts_status status = ts_model_nv_finish(t.model, &t.report);
  *all = event_count - cut.left;
  timed_end(&t);
  return status;
}

START_TEST(test_cut_streams) {
  for (enum sample_id id = 0; id < SAMPLE_COUNT; id++) {
    uint64_t all, used;
    ck_assert_int_eq(finish_cut(id, UINT64_MAX, &all), TS_OK);
    for (uint64_t count = 1; count < all - 1; count += 1 + all / 40) {
      enum ts_status status = finish_cut(id, count, &used);
      ck_assert_msg(status == TS_BAD_INPUT, "sample %d cut after %llu of %llu events: %s", (int)id,
                    (unsigned long long)count, (unsigned long long)all, ts_status_text(status));
    }
  }
}
END_TEST

/* --- what is told */

/* The peak is that of the operands' type: tensor cores that are never idle are near it with any. */
START_TEST(test_peak_of_type) {
  static const char *const types[][4] = {{"f32", "f16", "16", "b_dtype=f16"},
                                         {"f32", "tf32", "8", "b_dtype=tf32"},
                                         {"f32", "e4m3", "32", "b_dtype=e4m3"},
                                         {"s32", "s8", "32", "b_dtype=s8"}};
  static const char pattern[] = SAMPLE_LOOP(
      "array a0 $A 64\n", "wgmma.fence\n",
      "wgmma.ss $A $B 0x4000004000010000, 0x4000004000010400, a0, 0, 1 {m=64, n=128, k=$C, $D, "
      "a_major=1, b_major=1, scale_a=1, scale_b=1}\n",
      "wgmma.commit\nwgmma.wait 0\n%40 = ld.local $A a0, 0\n");
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct timed t;
    char text[4096];
    kernel_text(text, sizeof text, pattern, types[i]);
    sample_open(&t, text, 400);
    enum ts_status status = timed_run(&t, 132, 128);
    if (status != TS_OK) ck_abort_msg("%s", kernel_message(&t.kernel, 0));
    const struct ts_launch_report *launch = &t.report->launches[0];
    ck_assert_msg(launch->peak_flop_share > 0.75 && launch->peak_flop_share <= 1, "%s: %.3f",
                  types[i][1], launch->peak_flop_share);
    timed_end(&t);
  }
}
END_TEST

/* Named barriers and columns of tensor memory bound occupancy as threads and registers do. */
START_TEST(test_scarce_resources) {
  static const struct {
    const char *body, *machine, *limit;
    uint32_t blocks_per_sm;
  } cases[] = {
      {"bar.sync 0, 0\n", "h200-sxm", "blocks", 32}, /* 64 barriers an SM */
      {"bar.sync 3, 0\n", "h200-sxm", "barriers", 16},
      {"bar.sync 15, 0\n", "a100", "barriers", 4},
      {"tmem.alloc s1, 32\n", "b200", "tensor memory", 16}, /* 512 columns an SM */
      {"tmem.alloc s1, 256\n", "b200", "tensor memory", 2},
      {"tmem.alloc s1, 512\ntmem.dealloc 0, 512\ntmem.alloc s1, 256\n", "b200", "tensor memory", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct timed t;
    char text[4096];
    kernel_text(text, sizeof text, SAMPLE_LOOP("", "", "", "$A"), (const char *[]){cases[i].body});
    sample_open(&t, text, 1);
    t.kernel.launch.dynamic_shared_bytes = 1088;
    struct kernel *k = &t.kernel;
    ck_assert_int_eq(ts_machine_load(&k->ctx, "machines", cases[i].machine, &k->machine), TS_OK);
    enum ts_status status = timed_run(&t, 4, 32);
    if (status != TS_OK) ck_abort_msg("%s", kernel_message(k, 0));
    ck_assert_str_eq(t.report->launches[0].occupancy_limit, cases[i].limit);
    ck_assert_uint_eq(t.report->launches[0].blocks_per_sm, cases[i].blocks_per_sm);
    timed_end(&t);
  }
}
END_TEST

/* A warp that a full queue of stores holds back waits; it does not issue. */
START_TEST(test_held_stores) {
  static const char text[] =
      SAMPLE_LOOP("", "%28 = mul u32 %3, 8192\n%29 = add u32 %28, %2\n",
                  "%30 = fma u32 %9, 256, %29\nst.global u32 %0, %30, %2 {scale=16}\n", "");
  struct timed t;
  sample_open(&t, text, 32);
  ck_assert_int_eq(timed_run(&t, 1056, 256), TS_OK);
  const struct ts_role_report *role = &t.report->launches[0].roles[0];
  ck_assert_double_gt(role->stall_cycles[TS_STALL_BANDWIDTH], 4 * role->issue_cycles);
  timed_end(&t);
}
END_TEST

int main(void) {
  return RUN_TESTS("property", test_constants, test_dram_bytes, test_dram_turns, test_cold_writes,
                   test_conflicts, test_permuted_warps, test_more_sms, test_first_wave,
                   test_scattered_atomics, test_swaps, test_parting, test_taking_turns,
                   test_wide_barriers, test_equal_spans, test_missing_constants,
                   test_unneeded_constants, test_every_op_has_a_cost, test_cut_streams,
                   test_peak_of_type, test_scarce_resources, test_held_stores);
}
