/* Multiply-accumulates per second of every matrix path, against a plain C model of the same
 * arithmetic. Usage: bench_mma [seconds per row, default 0.2] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "num/num.h"

enum { M = 64, N = 128, K_MAX = 64, N_REGISTERS = N / 2 };

/* Processor time: other work on the machine does not count. */
static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The plain model: f16 products exact in integers, aligned to the largest exponent with 25 fraction
 * bits, summed, truncated to f32. No Inf, no NaN, no result outside f32's normal range. */
static int32_t half_parts(uint16_t h, int32_t *exponent) {
  int32_t field = h >> 10 & 31, significand = (h & 1023) | (field ? 1024 : 0);
  *exponent = (field ? field : 1) - 15;
  return h >> 15 ? -significand : significand;
}

static uint32_t plain_sum(const int32_t *a, const int32_t *a_exponent, const int32_t *b,
                          const int32_t *b_exponent, uint32_t c) {
  int32_t field = (int32_t)(c >> 23 & 255), common = -133;
  int64_t c_significand = (int64_t)(c & 0x7fffffu) | (field ? 0x800000 : 0);
  int32_t c_exponent = (field ? field : 1) - 127;
  if (c_significand) common = c_exponent;
  for (int k = 0; k < 16; ++k)
    if (a[k] && b[k] && a_exponent[k] + b_exponent[k] > common)
      common = a_exponent[k] + b_exponent[k];
  int32_t c_shift = common - c_exponent;
  int64_t sum = c_shift > 60 ? 0 : c_significand << 2 >> c_shift;
  if (c >> 31) sum = -sum;
  for (int k = 0; k < 16; ++k) {
    int64_t p = (int64_t)a[k] * b[k], size = p < 0 ? -p : p;
    int32_t shift = common - a_exponent[k] - b_exponent[k];
    size = shift > 60 ? 0 : size << 5 >> shift;
    sum += p < 0 ? -size : size;
  }
  uint64_t size = (uint64_t)(sum < 0 ? -sum : sum);
  if (size == 0) return 0;
  int32_t top = 63 - __builtin_clzll(size);
  uint32_t mantissa = (uint32_t)(top > 23 ? size >> (top - 23) : size << (23 - top));
  return (sum < 0 ? 0x80000000u : 0) + ((uint32_t)(common - 25 + top + 126) << 23) + mantissa;
}

struct buffers {
  uint8_t a[M * K_MAX * 4], b[N * K_MAX * 4];
  uint32_t d[M * N];
  uint32_t registers[4][N_REGISTERS][32];
  int32_t a_parts[M][16], a_exponents[M][16], b_parts[N][16], b_exponents[N][16];
};

static void plain_tile(struct buffers *x) {
  for (size_t i = 0; i < M * 16; ++i) {
    uint16_t h;
    memcpy(&h, x->a + 2 * i, 2);
    x->a_parts[i / 16][i % 16] = half_parts(h, &x->a_exponents[i / 16][i % 16]);
  }
  for (size_t i = 0; i < N * 16; ++i) {
    uint16_t h;
    memcpy(&h, x->b + 2 * i, 2);
    x->b_parts[i / 16][i % 16] = half_parts(h, &x->b_exponents[i / 16][i % 16]);
  }
  for (size_t row = 0; row < M; ++row)
    for (size_t column = 0; column < N; ++column)
      x->d[row * N + column] = plain_sum(x->a_parts[row], x->a_exponents[row], x->b_parts[column],
                                         x->b_exponents[column], x->d[row * N + column]);
}

static uint32_t random_bits(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33);
}

/* Values of about one: uniform mantissas, exponents 2^-3 to 2^0, both signs. */
static void fill(uint8_t *out, enum ts_dtype dtype, size_t count, uint64_t *state) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = random_bits(state);
    if (ts_dtype_is_float(dtype)) {
      uint32_t field = (uint32_t)info->bias - 3 + bits % 4;
      unsigned mantissa_bits = dtype == TS_DTYPE_tf32 ? 23 : info->mantissa_bits;
      bits = (field << mantissa_bits) | (bits >> 4 & ((1u << mantissa_bits) - 1)) |
             (bits >> 30 & 1u) << (info->bits - 1);
    }
    memcpy(out + i * info->bits / 8, &bits, info->bits / 8);
  }
}

/* One instruction as an interpreter runs it: operands converted once, four warps' registers. */
static void warpgroup_tile(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                           struct buffers *x) {
  size_t bytes = ts_dtype_bits(op->a) / 8;
  ts_mma_prepare_a(op, scratch, M, 1, x->a, op->k * bytes, bytes, 0);
  ts_mma_prepare_b(op, scratch, N, 1, x->b, op->k * bytes, bytes, 0);
  for (uint32_t warp = 0; warp < 4; ++warp) {
    void *d[N_REGISTERS];
    for (size_t r = 0; r < N_REGISTERS; ++r)
      d[r] = x->registers[warp][r];
    ts_mma_multiply_fragment(op, scratch, warp * 16, N, 1, (const void *const *)d, d, 0);
  }
}

/* mma.m16n8: operands and accumulators in registers of one warp. */
static void warp_tile(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                      struct buffers *x) {
  const uint32_t *a[8], *b[4];
  uint8_t a_dense[16 * 64], b_dense[8 * 64];
  void *d[4];
  size_t bytes = ts_dtype_bits(op->a) / 8;
  for (size_t r = 0; r < 8; ++r)
    a[r] = (const uint32_t *)(const void *)x->a + r * 32;
  for (size_t r = 0; r < 4; ++r)
    b[r] = (const uint32_t *)(const void *)x->b + r * 32;
  for (size_t r = 0; r < 4; ++r)
    d[r] = x->registers[0][r];
  ts_mma_gather_a(op, a_dense, a);
  ts_mma_gather_b(op, b_dense, b);
  ts_mma_prepare_a(op, scratch, 16, 1, a_dense, op->k * bytes, bytes, 0);
  ts_mma_prepare_b(op, scratch, 8, 1, b_dense, op->k * bytes, bytes, 0);
  ts_mma_multiply_fragment(op, scratch, 0, 8, 1, (const void *const *)d, d, 0);
}

static void row_major_tile(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                           struct buffers *x) {
  size_t bytes = ts_dtype_bits(op->a) / 8;
  ts_mma_tile(op, scratch, M, N, x->a, op->k * bytes, x->b, N * bytes, x->d, x->d, N, 0);
}

typedef void (*tile_fn)(const struct ts_mma_op *, struct ts_mma_scratch *, struct buffers *);

static double rate(tile_fn tile, const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                   struct buffers *x, double macs, double seconds) {
  size_t runs = 0;
  double start = now_seconds(), end;
  do {
    for (int i = 0; i < 16; ++i) {
      /* Old sums would grow without bound. */
      if (i == 0) memset(x->d, 0, sizeof x->d), memset(x->registers, 0, sizeof x->registers);
      tile(op, scratch, x);
    }
    runs += 16;
    end = now_seconds();
  } while (end - start < seconds);
  return macs * (double)runs / (end - start) * 1e-9;
}

static void plain_adapter(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                          struct buffers *x) {
  (void)op;
  (void)scratch;
  plain_tile(x);
}

static void measure(const struct ts_mma_op *op, const char *name, enum ts_isa isa, double plain,
                    double seconds) {
  struct buffers *x = calloc(1, sizeof *x);
  struct ts_mma_scratch *scratch = ts_mma_scratch_new(&ts_allocator_libc, M, N, K_MAX);
  if (x == NULL || scratch == NULL) abort();
  ts_mma_scratch_limit(scratch, isa);
  uint64_t state = 1;
  fill(x->a, op->a, (size_t)M * op->k, &state);
  fill(x->b, op->b, (size_t)N * op->k, &state);
  double macs = (double)M * N * op->k, small = 16.0 * 8 * op->k;
  double group = rate(warpgroup_tile, op, scratch, x, macs, seconds);
  double rows = rate(row_major_tile, op, scratch, x, macs, seconds);
  double warp = rate(warp_tile, op, scratch, x, small, seconds);
  printf("%-8s %-24s %7.2f %7.1f %11.2f %10.2f\n", ts_isa_name(isa), name, group, group / plain,
         rows, warp);
  ts_mma_scratch_free(scratch);
  free(x);
}

int main(int argc, char **argv) {
  double seconds = argc > 1 ? atof(argv[1]) : 0.2;
  struct buffers *x = calloc(1, sizeof *x);
  if (x == NULL) return EXIT_FAILURE;
  uint64_t state = 1;
  fill(x->a, TS_DTYPE_f16, M * 16, &state);
  fill(x->b, TS_DTYPE_f16, N * 16, &state);
  double plain = rate(plain_adapter, NULL, NULL, x, (double)M * N * 16, seconds);
  free(x);
  printf("plain C model, f16 -> f32: %.2f GMAC/s\n", plain);
  printf("GMAC/s   instruction              m64n128  ratio m64n128 rows m16n8 regs\n");
  static const struct {
    const char *name;
    enum ts_mma_path path;
    enum ts_dtype a, acc;
  } rows[] = {{"wgmma f16 -> f32", TS_MMA_WGMMA, TS_DTYPE_f16, TS_DTYPE_f32},
              {"wgmma bf16 -> f32", TS_MMA_WGMMA, TS_DTYPE_bf16, TS_DTYPE_f32},
              {"wgmma f16 -> f16", TS_MMA_WGMMA, TS_DTYPE_f16, TS_DTYPE_f16},
              {"wgmma tf32 -> f32", TS_MMA_WGMMA, TS_DTYPE_tf32, TS_DTYPE_f32},
              {"wgmma e4m3 -> f32", TS_MMA_WGMMA, TS_DTYPE_e4m3, TS_DTYPE_f32},
              {"mma.sync e4m3 -> f32", TS_MMA_SYNC, TS_DTYPE_e4m3, TS_DTYPE_f32},
              {"wgmma s8 -> s32", TS_MMA_WGMMA, TS_DTYPE_s8, TS_DTYPE_s32}};
  for (unsigned isa = TS_ISA_PORTABLE; isa <= (unsigned)ts_num_isa(); ++isa) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
      const struct ts_mma_op *op =
          ts_mma_find(TS_MMA_PROFILE_nv_sm90, rows[i].path, rows[i].a, rows[i].a, rows[i].acc, 0);
      measure(op, rows[i].name, (enum ts_isa)isa, plain, seconds);
    }
  }
  return EXIT_SUCCESS;
}
