/* Matrix instructions and conversions of the GPU against the library, on random operands of five
 * kinds and on the open questions of the numerics notes. Build (sm_90a only), run on the GPU:
 *   nvcc -gencode arch=compute_90a,code=sm_90a -cudart static -Isrc tests/num/device/mma_check.cu libts_num.a libts_base.a
 * Prints one line per instruction: accumulators compared, how many differ, and the first few. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector>
extern "C" {
#include "num/num.h"
}

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t error_ = (call);                                                                   \
    if (error_ != cudaSuccess) {                                                                   \
      printf("%s: %s\n", #call, cudaGetErrorString(error_));                                       \
      return 1;                                                                                    \
    }                                                                                              \
  } while (0)

/* A tile per warp: registers a[8][32], b[4][32], c[4][32], d[4][32]. */
struct Tile {
  uint32_t a[8][32], b[4][32], c[4][32], d[4][32];
};

#define LOAD                                                                                       \
  Tile &t = tiles[blockIdx.x];                                                                     \
  int l = threadIdx.x;                                                                             \
  uint32_t c0 = t.c[0][l], c1 = t.c[1][l], c2 = t.c[2][l], c3 = t.c[3][l];
#define STORE t.d[0][l] = c0, t.d[1][l] = c1, t.d[2][l] = c2, t.d[3][l] = c3;
#define A4 "r"(t.a[0][l]), "r"(t.a[1][l]), "r"(t.a[2][l]), "r"(t.a[3][l])
#define A2 "r"(t.a[0][l]), "r"(t.a[1][l])
#define B2 "r"(t.b[0][l]), "r"(t.b[1][l])
#define B1 "r"(t.b[0][l])

/* accumulators in 4 registers (32 bits) or 2 (f16) */
#define SYNC_42(name, text)                                                                        \
  __global__ void name(Tile *tiles) {                                                              \
    LOAD asm volatile(text " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"                   \
                      : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)                                     \
                      : A4, B2);                                                                   \
    STORE                                                                                          \
  }
#define SYNC_21(name, text)                                                                        \
  __global__ void name(Tile *tiles) {                                                              \
    LOAD asm volatile(text " {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"                            \
                      : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)                                     \
                      : A2, B1);                                                                   \
    STORE                                                                                          \
  }
#define SYNC_HALF(name, text)                                                                      \
  __global__ void name(Tile *tiles) {                                                              \
    LOAD asm volatile(text " {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"                               \
                      : "+r"(c0), "+r"(c1)                                                         \
                      : A4, B2);                                                                   \
    STORE                                                                                          \
  }
#define SYNC_HALF1(name, text)                                                                     \
  __global__ void name(Tile *tiles) {                                                              \
    LOAD asm volatile(text " {%0,%1},{%2,%3},{%4},{%0,%1};" : "+r"(c0), "+r"(c1) : A2, B1);        \
    STORE                                                                                          \
  }

SYNC_42(f16_16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
SYNC_21(f16_8, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32")
SYNC_42(bf16_16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
SYNC_21(bf16_8, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32")
SYNC_42(tf32_8, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
SYNC_21(tf32_4, "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32")
SYNC_HALF(half_16, "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16")
SYNC_HALF1(half_8, "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16")
SYNC_42(e4m3_32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
SYNC_42(e5m2_32, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32")
SYNC_42(e4m3e5m2_32, "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32")
SYNC_42(e5m2e4m3_32, "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32")
SYNC_HALF(e4m3e5m2_half_32, "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e5m2.f16")
SYNC_21(e4m3_16, "mma.sync.aligned.m16n8k16.row.col.f32.e4m3.e4m3.f32")
SYNC_HALF(e4m3_half_32, "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16")
SYNC_HALF(e5m2_half_32, "mma.sync.aligned.m16n8k32.row.col.f16.e5m2.e5m2.f16")
SYNC_HALF1(e4m3_half_16, "mma.sync.aligned.m16n8k16.row.col.f16.e4m3.e4m3.f16")
SYNC_42(s8_32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
SYNC_42(s8_sat_32, "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32")
SYNC_21(u8s8_16, "mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32")
SYNC_42(s4_64, "mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32")
SYNC_42(s4_sat_64, "mma.sync.aligned.m16n8k64.row.col.satfinite.s32.s4.s4.s32")

/* wgmma m64n8: four tiles of 16 rows share the B of the first. A in registers, B in shared memory
 * without swizzle: core matrices of 8 columns by 16 bytes, the second one 128 bytes further. */
#define WGMMA_PROLOGUE                                                                             \
  __shared__ alignas(1024) uint32_t shared[128];                                                   \
  Tile &t = tiles[blockIdx.x * 4 + threadIdx.x / 32];                                              \
  Tile &first = tiles[blockIdx.x * 4];                                                             \
  int l = threadIdx.x % 32;                                                                        \
  if (threadIdx.x < 64) shared[threadIdx.x] = first.b[threadIdx.x / 32][l];                        \
  asm volatile("fence.proxy.async;" ::: "memory");                                                 \
  __syncthreads();                                                                                 \
  uint64_t address = (uint64_t)__cvta_generic_to_shared(shared);                                   \
  uint64_t desc = (address >> 4) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;        \
  uint32_t c0 = t.c[0][l], c1 = t.c[1][l], c2 = t.c[2][l], c3 = t.c[3][l];                         \
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define WGMMA_EPILOGUE                                                                             \
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory"); \
  asm volatile("" : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)::"memory");                             \
  STORE
#define WGMMA_4(name, text, tail)                                                                  \
  __global__ void name(Tile *tiles) {                                                              \
    WGMMA_PROLOGUE                                                                                 \
    asm volatile(text " {%0,%1,%2,%3},{%4,%5,%6,%7},%8,1" tail ";"                                 \
                 : "+r"(c0), "+r"(c1), "+r"(c2), "+r"(c3)                                          \
                 : A4, "l"(desc));                                                                 \
    WGMMA_EPILOGUE                                                                                 \
  }
#define WGMMA_2(name, text, tail)                                                                  \
  __global__ void name(Tile *tiles) {                                                              \
    WGMMA_PROLOGUE                                                                                 \
    asm volatile(text " {%0,%1},{%2,%3,%4,%5},%6,1" tail ";"                                       \
                 : "+r"(c0), "+r"(c1)                                                              \
                 : A4, "l"(desc));                                                                 \
    WGMMA_EPILOGUE                                                                                 \
  }
WGMMA_4(w_f16, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", ",1,1,0")
WGMMA_4(w_f16_negative, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", ",-1,1,0")
WGMMA_4(w_bf16, "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16", ",1,1,0")
WGMMA_4(w_tf32, "wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32", ",1,1")
WGMMA_2(w_half, "wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16", ",1,1,0")
WGMMA_4(w_e4m3, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3", ",1,1")
WGMMA_4(w_e5m2, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e5m2.e5m2", ",1,1")
WGMMA_4(w_e4m3e5m2, "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2", ",1,1")
WGMMA_2(w_e4m3_half, "wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3", ",1,1")
WGMMA_2(w_e5m2_half, "wgmma.mma_async.sync.aligned.m64n8k32.f16.e5m2.e5m2", ",1,1")
WGMMA_4(w_s8, "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8", "")
WGMMA_4(w_s8_sat, "wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8.satfinite", "")

struct Instruction {
  const char *name;
  void (*kernel)(Tile *);
  ts_mma_path path;
  ts_dtype a, b, acc;
  unsigned k, flags;
};

#define F16 TS_DTYPE_f16
#define F32 TS_DTYPE_f32
static const Instruction instructions[] = {
    {"mma f16 k16", f16_16, TS_MMA_SYNC, F16, F16, F32, 16, 0},
    {"mma f16 k8", f16_8, TS_MMA_SYNC, F16, F16, F32, 8, 0},
    {"mma bf16 k16", bf16_16, TS_MMA_SYNC, TS_DTYPE_bf16, TS_DTYPE_bf16, F32, 16, 0},
    {"mma bf16 k8", bf16_8, TS_MMA_SYNC, TS_DTYPE_bf16, TS_DTYPE_bf16, F32, 8, 0},
    {"mma tf32 k8", tf32_8, TS_MMA_SYNC, TS_DTYPE_tf32, TS_DTYPE_tf32, F32, 8, 0},
    {"mma tf32 k4", tf32_4, TS_MMA_SYNC, TS_DTYPE_tf32, TS_DTYPE_tf32, F32, 4, 0},
    {"mma f16->f16 k16", half_16, TS_MMA_SYNC, F16, F16, F16, 16, 0},
    {"mma f16->f16 k8", half_8, TS_MMA_SYNC, F16, F16, F16, 8, 0},
    {"mma e4m3 k32", e4m3_32, TS_MMA_SYNC, TS_DTYPE_e4m3, TS_DTYPE_e4m3, F32, 32, 0},
    {"mma e5m2 k32", e5m2_32, TS_MMA_SYNC, TS_DTYPE_e5m2, TS_DTYPE_e5m2, F32, 32, 0},
    {"mma e4m3 x e5m2 k32", e4m3e5m2_32, TS_MMA_SYNC, TS_DTYPE_e4m3, TS_DTYPE_e5m2, F32, 32, 0},
    {"mma e5m2 x e4m3 k32", e5m2e4m3_32, TS_MMA_SYNC, TS_DTYPE_e5m2, TS_DTYPE_e4m3, F32, 32, 0},
    {"mma e4m3 x e5m2->f16", e4m3e5m2_half_32, TS_MMA_SYNC, TS_DTYPE_e4m3, TS_DTYPE_e5m2, F16, 32,
     0},
    {"mma e4m3 k16", e4m3_16, TS_MMA_SYNC, TS_DTYPE_e4m3, TS_DTYPE_e4m3, F32, 16, 0},
    {"mma e4m3->f16 k32", e4m3_half_32, TS_MMA_SYNC, TS_DTYPE_e4m3, TS_DTYPE_e4m3, F16, 32, 0},
    {"mma e5m2->f16 k32", e5m2_half_32, TS_MMA_SYNC, TS_DTYPE_e5m2, TS_DTYPE_e5m2, F16, 32, 0},
    {"mma e4m3->f16 k16", e4m3_half_16, TS_MMA_SYNC, TS_DTYPE_e4m3, TS_DTYPE_e4m3, F16, 16, 0},
    {"mma s8 k32", s8_32, TS_MMA_SYNC, TS_DTYPE_s8, TS_DTYPE_s8, TS_DTYPE_s32, 32, 0},
    {"mma s8 sat k32", s8_sat_32, TS_MMA_SYNC, TS_DTYPE_s8, TS_DTYPE_s8, TS_DTYPE_s32, 32,
     TS_MMA_SATFINITE},
    {"mma u8 x s8 k16", u8s8_16, TS_MMA_SYNC, TS_DTYPE_u8, TS_DTYPE_s8, TS_DTYPE_s32, 16, 0},
    {"mma s4 k64", s4_64, TS_MMA_SYNC, TS_DTYPE_s4, TS_DTYPE_s4, TS_DTYPE_s32, 64, 0},
    {"mma s4 sat k64", s4_sat_64, TS_MMA_SYNC, TS_DTYPE_s4, TS_DTYPE_s4, TS_DTYPE_s32, 64,
     TS_MMA_SATFINITE},
    {"wgmma f16", w_f16, TS_MMA_WGMMA, F16, F16, F32, 16, 0},
    {"wgmma -f16", w_f16_negative, TS_MMA_WGMMA, F16, F16, F32, 16, TS_MMA_NEGATE_A},
    {"wgmma bf16", w_bf16, TS_MMA_WGMMA, TS_DTYPE_bf16, TS_DTYPE_bf16, F32, 16, 0},
    {"wgmma tf32", w_tf32, TS_MMA_WGMMA, TS_DTYPE_tf32, TS_DTYPE_tf32, F32, 8, 0},
    {"wgmma f16->f16", w_half, TS_MMA_WGMMA, F16, F16, F16, 16, 0},
    {"wgmma e4m3", w_e4m3, TS_MMA_WGMMA, TS_DTYPE_e4m3, TS_DTYPE_e4m3, F32, 32, 0},
    {"wgmma e5m2", w_e5m2, TS_MMA_WGMMA, TS_DTYPE_e5m2, TS_DTYPE_e5m2, F32, 32, 0},
    {"wgmma e4m3 x e5m2", w_e4m3e5m2, TS_MMA_WGMMA, TS_DTYPE_e4m3, TS_DTYPE_e5m2, F32, 32, 0},
    {"wgmma e4m3->f16", w_e4m3_half, TS_MMA_WGMMA, TS_DTYPE_e4m3, TS_DTYPE_e4m3, F16, 32, 0},
    {"wgmma e5m2->f16", w_e5m2_half, TS_MMA_WGMMA, TS_DTYPE_e5m2, TS_DTYPE_e5m2, F16, 32, 0},
    {"wgmma s8", w_s8, TS_MMA_WGMMA, TS_DTYPE_s8, TS_DTYPE_s8, TS_DTYPE_s32, 32, 0},
    {"wgmma s8 sat", w_s8_sat, TS_MMA_WGMMA, TS_DTYPE_s8, TS_DTYPE_s8, TS_DTYPE_s32, 32,
     TS_MMA_SATFINITE},
};

static uint32_t random32() {
  static uint64_t state = 12345;
  state += 0x9e3779b97f4a7c15ull;
  uint64_t x = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return (uint32_t)(x ^ x >> 31);
}

static const char *const modes[] = {"moderate", "any bits", "wide", "cancelling", "subnormal",
                                    "zeros and floors", "sparse tiny"};

static uint32_t element(ts_dtype t, int mode, uint32_t before) {
  const struct ts_dtype_info *info = ts_dtype_info(t);
  unsigned bits = info->bits, m = info->mantissa_bits;
  uint32_t r = random32(), mask = bits == 32 ? ~0u : (1u << bits) - 1;
  if (mode == 1 || !ts_dtype_is_float(t)) return r & mask;
  if (mode == 3 && before && random32() % 2) return before ^ 1u << (bits - 1) ^ random32() % 3;
  unsigned low = t == TS_DTYPE_tf32 ? 13 : 0;
  uint32_t fields = 1u << info->exponent_bits, field = random32();
  field = mode == 2 ? field % (fields - 1)
          : mode == 4 ? field % 3
                      : (uint32_t)info->bias - 2 + field % 4;
  if (mode == 5) field = random32() % 3 ? random32() % (fields / 2) : 0;
  if (mode == 5 && field == 0) r &= random32() & random32();
  uint32_t fraction = r & ((1u << (m + low)) - 1);
  if (mode == 6) {
    field = random32() % 3 ? random32() % 3 : random32() % (fields / 2);
    fraction = random32() % 4 << low & ((1u << (m + low)) - 1);
    if (random32() % 3) field = fraction = 0;
  }
  if (random32() % 16 == 0) field = fraction = 0;
  return (random32() & 1u) << (bits - 1) | field << (m + low) | fraction;
}

static void fill(uint32_t *words, size_t count, ts_dtype t, int mode) {
  unsigned bits = ts_dtype_bits(t), per_word = 32 / bits;
  for (size_t i = 0; i < count; ++i) {
    uint32_t word = 0, before = 0;
    for (unsigned e = 0; e < per_word; ++e) {
      before = element(t, mode, before);
      word |= before << (e * bits);
    }
    words[i] = word;
  }
}

static int check(const Instruction &in, ts_mma_scratch *scratch) {
  const struct ts_mma_op *op = ts_mma_find(TS_MMA_PROFILE_nv_sm90, in.path, in.a, in.b, in.acc, in.k);
  if (op == NULL) {
    printf("%s: no row\n", in.name);
    return 0;
  }
  const int count = 1024, wgmma = in.path == TS_MMA_WGMMA;
  for (int mode = 0; mode < 7; ++mode) {
    if (mode > 1 && !ts_dtype_is_float(in.a)) break;
    std::vector<Tile> tiles(count);
    for (Tile &t : tiles) {
      fill(reinterpret_cast<uint32_t *>(t.a), 256, in.a, mode);
      fill(reinterpret_cast<uint32_t *>(t.b), 128, in.b, mode);
      int c_mode = mode == 2 && random32() % 2 ? 0 : mode;
      fill(reinterpret_cast<uint32_t *>(t.c), 128, in.acc, c_mode);
      if (random32() % 8 == 0) memset(t.c, 0, sizeof t.c);
      if (!ts_dtype_is_float(in.a) && random32() % 2) {
        /* near the ends of the accumulator: saturation */
        uint32_t *c = reinterpret_cast<uint32_t *>(t.c), *a = reinterpret_cast<uint32_t *>(t.a);
        for (int i = 0; i < 128; ++i)
          c[i] = (i % 2 ? 0x7fffffffu - random32() % 200000 : 0x80000000u + random32() % 200000);
        for (int i = 0; i < 256 && mode == 1; ++i) a[i] |= 0x40404040u;
      }
    }
    Tile *device;
    CHECK(cudaMalloc(&device, count * sizeof(Tile)));
    CHECK(cudaMemcpy(device, tiles.data(), count * sizeof(Tile), cudaMemcpyHostToDevice));
    if (wgmma)
      in.kernel<<<count / 4, 128>>>(device);
    else
      in.kernel<<<count, 32>>>(device);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(tiles.data(), device, count * sizeof(Tile), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(device));
    int differ = 0, total = 0, registers = in.acc == F16 ? 2 : 4;
    for (int i = 0; i < count; ++i) {
      Tile &t = tiles[i];
      Tile &b_tile = tiles[wgmma ? i / 4 * 4 : i];
      uint32_t d[4][32];
      uint8_t a[16 * 32], b[8 * 32];
      const uint32_t *ra[8], *rb[4];
      const void *rc[4];
      void *rd[4];
      for (int r = 0; r < 8; ++r) ra[r] = t.a[r];
      for (int r = 0; r < 4; ++r) rb[r] = b_tile.b[r], rc[r] = t.c[r], rd[r] = d[r];
      size_t row_bytes = in.k * ts_dtype_bits(in.a) / 8;
      size_t element_bytes = ts_dtype_bits(in.a) / 8;
      if (row_bytes < 16) { /* k4 tf32 is 16 bytes; k8 f16 too */
        printf("rows too short\n");
        return 1;
      }
      ts_mma_gather_a(op, a, ra);
      if (wgmma) {
        /* two core matrices of 8 columns by 16 bytes */
        for (int column = 0; column < 8; ++column)
          for (int half = 0; half < 2; ++half)
            memcpy(b + column * 32 + half * 16, b_tile.b[half] + column * 4, 16);
      } else {
        ts_mma_gather_b(op, b, rb);
      }
      ts_mma_prepare_a(op, scratch, 16, 1, a, row_bytes, element_bytes, in.flags);
      ts_mma_prepare_b(op, scratch, 8, 1, b, row_bytes, element_bytes, in.flags);
      ts_mma_multiply_fragment(op, scratch, 0, 8, 1, rc, rd, in.flags);
      for (int r = 0; r < registers; ++r)
        for (int l = 0; l < 32; ++l) {
          ++total;
          if (d[r][l] == t.d[r][l]) continue;
          if (differ++ >= 3) continue;
          printf("    %s r%d lane %d c %08x: device %08x library %08x\n", modes[mode], r, l,
                 t.c[r][l], t.d[r][l], d[r][l]);
          if (getenv("DUMP")) {
            printf("    a:");
            for (size_t i = 0; i < row_bytes; ++i) printf(" %02x", a[(l / 4 + r / 2 * 8) * row_bytes + i]);
            printf("\n    b:");
            for (size_t i = 0; i < row_bytes; ++i) printf(" %02x", b[(l % 4 * 2 + r % 2) * row_bytes + i]);
            printf("\n");
          }
        }
    }
    printf("%-22s %-17s %6d of %d differ\n", in.name, modes[mode], differ, total);
  }
  return 0;
}

int main() {
  ts_mma_scratch *scratch = ts_mma_scratch_new(&ts_allocator_libc, 64, 8, 64);
  for (const Instruction &in : instructions)
    if (check(in, scratch)) return 1;
  return 0;
}
