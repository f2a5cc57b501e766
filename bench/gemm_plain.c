/* The yardstick of bench/bench_gemm.py: GEMM+ReLU 1024^3, f16 -> f32, in plain scalar C with the
 * arithmetic of sm_90's matrix unit (sums of 16 products and the accumulator, aligned to the largest
 * exponent, 25 fraction bits, truncated). No intrinsics, no knowledge of tiles. Prints seconds and
 * the sha256 of C, which must be the H200's. MEASURED: notes on arithmetic in docs/numerics.md. */
#include <sha256.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 1024, STEP = 16, FRACTION_BITS = 25, ZERO_EXPONENT = -1000 };

/* A number is significand * 2^(exponent - 10). */
struct number {
  int32_t significand, exponent;
};

static struct number a[SIZE][SIZE], b[SIZE][SIZE]; /* b is transposed */
static uint32_t c[SIZE][SIZE];

static struct number random_f16(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  int32_t value = (int32_t)((z ^ z >> 31) >> 40) - (1 << 23); /* times 2^-23 */
  if (value == 0) return (struct number){0, ZERO_EXPONENT};
  int32_t magnitude = value < 0 ? -value : value,
          exponent = 31 - __builtin_clz((unsigned)magnitude);
  int32_t shift = exponent - 23 < -14 ? -1 : exponent - 10; /* subnormals keep 2^-24 */
  if (exponent < 9) shift = -1;
  if (shift > 0) {
    int32_t half = 1 << (shift - 1), rest = magnitude & ((1 << shift) - 1);
    magnitude >>= shift;
    magnitude += rest > half || (rest == half && (magnitude & 1));
  } else {
    magnitude <<= -shift;
  }
  exponent -= 23;
  if (magnitude == 2048) magnitude = 1024, exponent++;
  if (exponent < -14) exponent = -14;
  return (struct number){value < 0 ? -magnitude : magnitude, exponent};
}

static int32_t clamp_shift(int32_t shift) { return shift < 31 ? shift : 31; }

/* acc + 16 products; acc is significand * 2^(exponent - 23). Products have at most 22 bits, so a
 * term (5 bits further left) fits 27 and a sum of 17 needs 64. */
static struct number fused_sum(const struct number *x, const struct number *y, struct number acc) {
  int32_t product[STEP], exponent[STEP], top = acc.significand ? acc.exponent : ZERO_EXPONENT;
  for (int k = 0; k < STEP; k++) {
    product[k] = x[k].significand * y[k].significand;
    exponent[k] = x[k].exponent + y[k].exponent;
    top = exponent[k] > top ? exponent[k] : top;
  }
  if (top <= ZERO_EXPONENT) return (struct number){0, ZERO_EXPONENT};
  int32_t magnitude_c = (acc.significand < 0 ? -acc.significand : acc.significand) << 2;
  magnitude_c >>= clamp_shift(top - acc.exponent);
  int64_t sum = acc.significand < 0 ? -magnitude_c : magnitude_c;
  for (int k = 0; k < STEP; k++) {
    int32_t sign = product[k] >> 31;
    int32_t magnitude = (((product[k] ^ sign) - sign) << 5) >> clamp_shift(top - exponent[k]);
    sum += (magnitude ^ sign) - sign;
  }
  if (sum == 0) return (struct number){0, ZERO_EXPONENT};
  uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
  int32_t shift = 63 - __builtin_clzll(magnitude) - 23;
  magnitude = shift >= 0 ? magnitude >> shift : magnitude << -shift;
  return (struct number){sum < 0 ? -(int32_t)magnitude : (int32_t)magnitude,
                         top - FRACTION_BITS + shift + 23};
}

int main(void) {
  for (int i = 0; i < SIZE; i++)
    for (int j = 0; j < SIZE; j++) {
      a[i][j] = random_f16(2591825232u, (uint64_t)i * SIZE + (uint64_t)j);
      b[j][i] = random_f16(58019050u, (uint64_t)i * SIZE + (uint64_t)j);
    }
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (int i = 0; i < SIZE; i++)
    for (int j = 0; j < SIZE; j++) {
      struct number acc = {0, ZERO_EXPONENT};
      for (int k = 0; k < SIZE; k += STEP)
        acc = fused_sum(&a[i][k], &b[j][k], acc);
      if (acc.significand > 0)
        c[i][j] = ((uint32_t)(acc.exponent + 127) << 23) | ((uint32_t)acc.significand & 0x7FFFFF);
    }
  clock_gettime(CLOCK_MONOTONIC, &end);
  char hash[SHA256_DIGEST_STRING_LENGTH];
  SHA256Data((const uint8_t *)c, sizeof c, hash);
  printf("%.3f %s\n",
         (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec), hash);
  return 0;
}
