/* Elements per second of scalar operations through the public API (tilesim/num.h), encodings in and
 * out, one core.
 *   usage: bench_num [SECONDS]      per row (0.3)
 * Matrix arithmetic is in bench_mma. */
#include "tilesim/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { COUNT = 1 << 16, MAX_BYTES = 8 };

static const char *const names[] = {
    "ex2.approx.ftz.f32",
    "lg2.approx.ftz.f32",
    "rcp.approx.ftz.f32",
    "tanh.approx.f32",
    "expf",
    "logf",
    "sinf",
    "add.rn.f32",
    "fma.rn.f32",
    "fma.rz.f32",
    "fma.rn.f16",
    "fma.rn.f16x2",
    "cvt.rn.f16.f32",
    "cvt.rn.bf16.f32",
    "cvt.f32.f16",
    "cvt.rn.satfinite.e4m3.f32",
    "cvt.rn.f16.e4m3",
    "cvt.rn.satfinite.e2m1.f32",
    "cvt.rna.tf32.f32",
    "cvt.rzi.s32.f32",
    "dp4a.s32.s32",
    "prmt.b32",
    "red.global.add.f32",
};

static double now_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Any bits, or f32 numbers of moderate size. */
static void fill(uint8_t *bytes, size_t size, int is_moderate) {
  uint64_t state = 0x9e3779b97f4a7c15u;
  for (size_t i = 0; i < size; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    bytes[i] = (uint8_t)(state >> 56);
    if (is_moderate && i % 4 == 3) bytes[i] = (uint8_t)((bytes[i] & 0x80) | 0x3f);
  }
}

static void measure(const char *name, double seconds, void *result, const void *const *operands) {
  struct ts_num_instruction instruction;
  if (ts_num_find(name, NULL, &instruction) != TS_RESULT_OK) {
    printf("%-28s missing\n", name);
    return;
  }
  double start = now_seconds(), elapsed = 0;
  uint64_t rounds = 0;
  while (elapsed < seconds) {
    ts_num_run(&instruction, result, operands, COUNT);
    rounds++;
    elapsed = now_seconds() - start;
  }
  printf("%-28s %9.1f M/s\n", name, (double)rounds * COUNT / elapsed * 1e-6);
}

int main(int argc, char **argv) {
  static uint8_t operands[3][COUNT * MAX_BYTES], result[COUNT * MAX_BYTES];
  double seconds = argc > 1 ? atof(argv[1]) : 0.3;
  const void *arrays[] = {operands[0], operands[1], operands[2]};
  for (int is_moderate = 1; is_moderate >= 0; is_moderate--) {
    for (int i = 0; i < 3; i++)
      fill(operands[i], sizeof operands[i], is_moderate);
    printf("%s operands, %s\n", is_moderate ? "moderate" : "any", ts_num_host());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      measure(names[i], seconds, result, arrays);
  }
  return 0;
}
