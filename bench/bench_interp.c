/* Speed of the interpreter on one worker: lane operations a second by kind of instruction. A loop of
 * 8 equal instructions runs in every warp; the loop's own 4 scalar instructions are run once a warp.
 *
 *   bench_interp [name]     only rows whose name contains the text */
#include "interp/interp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GRID = 16, THREADS = 256, ITERATIONS = 500, BUFFER_BYTES = 1 << 20, TEXT_BYTES = 8192 };

/* The instruction eight times; $ becomes 20, 21, .. 27 for registers written. %2 tid, %3 tid * 4,
 * %4 scrambled tid, %5 f32 of tid, %6 a loop counter, %8 u32 variable, %9 f32 variable. */
struct row {
  const char *name, *insn;
};
static const struct row rows[] = {
    {"add.s32", "%$ = add s32 %2, %4\n"},
    {"add.s32 by a uniform", "%$ = add s32 %2, %6\n"},
    {"fma.f32", "%$ = fma f32 %5, %5, %9\n"},
    {"fma.f32x4", "%$ = fma f32x4 %10, %10, %10\n"},
    {"select.f32", "%$ = select f32 %11, %5, %9\n"},
    {"lt.s32", "%$ = lt s32 %2, %4\n"},
    {"cvt f16 -> f32 x8", "%$ = cvt f32x8 f16 %12\n"},
    {"exp2.f32 approx", "%$ = exp2 f32 %5 {approx=1}\n"},
    {"mov.f32", "%$ = mov f32 %5\n"},
    {"ld.global.f32", "%$ = ld.global f32 %0, %2 {scale=4}\n"},
    {"ld.global.f32x4", "%$ = ld.global f32x4 %0, %2 {scale=16}\n"},
    {"ld.global.f16x8", "%$ = ld.global f16x8 %0, %2 {scale=16}\n"},
    {"ld.global.f32 scattered", "%$ = ld.global f32 %0, %4 {scale=4}\n"},
    {"st.global.f32", "st.global f32 %0, %2, %5 {scale=4}\n"},
    {"st.global.f32x4", "st.global f32x4 %0, %2, %10 {scale=16}\n"},
    {"st.global.f16x8", "st.global f16x8 %0, %2, %12 {scale=16}\n"},
    {"ld.shared.f32", "%$ = ld.shared f32 s0, %2 {scale=4}\n"},
    {"ld.shared.f16 scattered", "%$ = ld.shared f16 s0, %4 {scale=2}\n"},
    {"st.shared.f32x4", "st.shared f32x4 s0, %2, %10 {scale=16}\n"},
    {"ld.local.f32", "%$ = ld.local f32 a0, 3\n"},
    {"ld.local.f32x4 by a uniform", "%$ = ld.local f32x4 a0, %13\n"},
    {"ld.local.f16", "%$ = ld.local f16 a0, 3\n"},
    {"st.local.f32", "st.local f32 a0, 3, %5\n"},
    {"st.local.f16x4", "st.local f16x4 a0, 4, %14\n"},
    {"shfl.f32 bfly", "%$ = shfl f32 %5, 16, 32, 0xffffffff {mode=bfly}\n"},
    {"uniform add.s32", "%$ = add s32 %6, 5\n"},
};

static const char head[] = "tilesim-ir 1\n"
                           "function \"f\" {\n"
                           "param p0 pointer f32 %0 \"in\"\n"
                           "param p1 pointer f32 %1 \"out\"\n"
                           "array a0 f32 64 \"acc\"\n"
                           "shared s0 static u8 align 16 size 16384\n"
                           "reg %0 ptr\nreg %1 ptr\nreg %6 s32\nreg %8 u32\nreg %9 f32\n"
                           "region r1 in r0 head b1\n"
                           "b0 in r0:\n"
                           "  %2 = sreg s32 {which=tid.x}\n"
                           "  %3 = mul s32 %2, 4\n"
                           "  %7 = mul s32 %2, 77\n"
                           "  %4 = and s32 %7, 255\n"
                           "  %5 = cvt f32 s32 %2\n"
                           "  %8 = mov u32 0\n"
                           "  %9 = mov f32 0\n"
                           "  %10 = broadcast f32x4 %5\n"
                           "  %11 = lt s32 %4, 100\n"
                           "  %15 = cvt f16 f32 %5\n"
                           "  %12 = broadcast f16x8 %15\n"
                           "  %14 = broadcast f16x4 %15\n"
                           "  %6 = mov s32 0\n"
                           "  br b1\n"
                           "b1 in r1:\n"
                           "  %16 = lt s32 %6, 500\n"
                           "  cbr %16, b2, b3, b3\n"
                           "b2 in r1:\n"
                           "  %13 = and s32 %6, 31\n";
static const char tail[] = "  %6 = add s32 %6, 1\n"
                           "  br b1\n"
                           "b3 in r0:\n"
                           "  exit\n}\n";

static void append(char *text, const char *insn, int reg) {
  char *end = text + strlen(text);
  for (; *insn; insn++) {
    if (*insn == '$')
      end += sprintf(end, "%d", reg);
    else
      *end++ = *insn;
  }
  *end = 0;
}

static void fail(const struct ts_diag_list *diags, const char *name) {
  fprintf(stderr, "bench_interp: %s: %s\n", name,
          diags->items.count ? diags->items.data[0].message : "failed");
  exit(3);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void run(const struct row *row) {
  struct ts_diag_list diags;
  if (ts_diag_list_init(&diags, &ts_allocator_libc) != TS_OK) exit(3);
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  struct ts_device_memory memory;
  struct ts_module *module;
  struct ts_machine machine;
  struct ts_run_stats stats;
  struct ts_launch_arg args[2];
  char text[TEXT_BYTES];
  strcpy(text, head);
  for (int i = 0; i < 8; i++)
    append(text, row->insn, 17 + i);
  strcat(text, tail);
  if (ts_parse_module(&ctx, "bench", text, strlen(text), &module) != TS_OK) fail(&diags, row->name);
  if (ts_analyze_uniform(&ctx, module->functions.data[0]) != TS_OK) fail(&diags, row->name);
  ts_device_memory_init(&memory, &ts_allocator_libc);
  for (int i = 0; i < 2; i++) {
    args[i].kind = TS_LAUNCH_ARG_POINTER;
    if (ts_device_allocate(&ctx, &memory, "x", TS_DTYPE_f32, BUFFER_BYTES, &args[i].value) != TS_OK)
      fail(&diags, row->name);
  }
  ts_machine_default(&machine);
  struct ts_launch launch = {.function = "f",
                             .grid = {GRID, 1, 1},
                             .block = {THREADS, 1, 1},
                             .cluster = {1, 1, 1},
                             .args = args,
                             .arg_count = 2};
  struct ts_launch_plan plan = {.launches = &launch, .launch_count = 1};
  struct ts_run_options options = {.machine = &machine, .worker_count = 1, .sink = &ts_sink_null};
  double best = 1e9;
  for (int repeat = 0; repeat < 7; repeat++) {
    double start = seconds();
    if (ts_interp_run(&ctx, module, &plan, &memory, &options, &stats) != TS_OK)
      fail(&diags, row->name);
    double took = seconds() - start;
    best = took < best ? took : best;
  }
  double insns = 8.0 * ITERATIONS * GRID * THREADS / 32;
  printf("%-28s %7.1f ns a warp instruction %8.2f G lane operations/s\n", row->name,
         best / insns * 1e9, (double)stats.lane_op_count / best * 1e-9);
  ts_device_memory_free(&memory);
  ts_module_free(module);
  ts_diag_list_free(&diags);
}

int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (argc < 2 || strstr(rows[i].name, argv[1])) run(&rows[i]);
  return 0;
}
