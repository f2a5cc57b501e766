// Tensor pipe: mma.sync latency and interval, wgmma groups, wgmma beside other work.
#include "common.cuh"

// ---- mma.sync. Accumulators f32 (or s32) in four registers, A and B as raw words.
#define MMA4(text)                                                                                 \
  asm volatile(text " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                    \
               : "r"(a), "r"(a), "r"(a), "r"(a), "r"(b), "r"(b))
#define MMA2(text)                                                                                 \
  asm volatile(text " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"                         \
               : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                    \
               : "r"(a), "r"(a), "r"(b))
#define MMA_H(text)                                                                                \
  asm volatile(text " {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"                             \
               : "+r"(d[0]), "+r"(d[1])                                                            \
               : "r"(a), "r"(a), "r"(a), "r"(a), "r"(b), "r"(b))
#define SHAPE(name, body)                                                                          \
  struct name {                                                                                    \
    static constexpr const char *label = #name;                                                    \
    static __device__ __forceinline__ void step(uint32_t *d, uint32_t a, uint32_t b) { body; }     \
  };
SHAPE(m16n8k16_f16_f32, MMA4("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"))
SHAPE(m16n8k8_f16_f32, MMA2("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32"))
SHAPE(m16n8k16_bf16_f32, MMA4("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"))
SHAPE(m16n8k16_f16_f16, MMA_H("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16"))
SHAPE(m16n8k8_tf32, MMA4("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"))
SHAPE(m16n8k4_tf32, MMA2("mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32"))
SHAPE(m16n8k32_s8, MMA4("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"))
SHAPE(m16n8k16_s8, MMA2("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32"))
SHAPE(m16n8k32_e4m3, MMA4("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"))
SHAPE(m8n8k4_f64,
      asm volatile("{.reg .f64 x, y, c, e; mov.b64 x, {%4, %4}; mov.b64 y, {%5, %5};"
                   " mov.b64 c, {%0, %1}; mov.b64 e, {%2, %3};"
                   " mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {c, e}, {x}, {y}, {c, e};"
                   " mov.b64 {%0, %1}, c; mov.b64 {%2, %3}, e;}"
                   : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                   : "r"(a), "r"(b)))
SHAPE(sp_m16n8k32_f16,
      asm volatile(
          "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3},"
          " {%4, %4, %4, %4}, {%5, %5, %5, %5}, {%0, %1, %2, %3}, %6, 0x0;"
          : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
          : "r"(a), "r"(b), "r"(0x44444444)))

// CHANGING: A differs from step to step, or ptxas shares the products of an emulated shape.
template <class S, int ILP, int CHANGING>
__global__ void __launch_bounds__(512)
    mma_steps(int rounds, uint32_t a, uint32_t b, cycles_t *out, uint32_t *sink) {
  uint32_t d[ILP][4] = {};
  __syncthreads();
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int u = 0; u < 16 / ILP; u++) {
#pragma unroll
      for (int i = 0; i < ILP; i++) {
        S::step(d[i], a, b);
        if (CHANGING) asm volatile("add.u32 %0, %0, %1;" : "+r"(a) : "r"(b));
      }
    }
  }
  uint32_t sum = 0;
  for (int i = 0; i < ILP; i++)
    sum ^= d[i][0] ^ d[i][1] ^ d[i][2] ^ d[i][3];
  if (sum == 0x12345) *sink = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = now() - start;
}

// ---- wgmma m64nNk16 f16 -> f32, operands K-major with the 128-byte swizzle.
#define R8(o)                                                                                      \
  "%" #o "0, %" #o "1, %" #o "2, %" #o "3, %" #o "4, %" #o "5, %" #o "6, %" #o "7, %" #o "8, %" #o \
  "9, "
#define F2(i) "+f"(d[i]), "+f"(d[i + 1])
#define F8(i) F2(i), F2(i + 2), F2(i + 4), F2(i + 6)
#define F32(i) F8(i), F8(i + 8), F8(i + 16), F8(i + 24)
#define TEN "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, "
#define D32 TEN R8(1) R8(2) "%30, %31"
#define D64 TEN R8(1) R8(2) R8(3) R8(4) R8(5) "%60, %61, %62, %63"
#define D128                                                                                       \
  TEN R8(1) R8(2) R8(3) R8(4) R8(5) R8(6) R8(7) R8(8) R8(9) R8(10)                                 \
      R8(11) "%120, %121, %122, %123, %124, %125, %126, %127"
#define HEAD(n) "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {"

template <int N, int RS>
static __device__ __forceinline__ void wgmma(float *d, uint64_t a, uint64_t b, const uint32_t *r) {
  if (N == 64 && !RS)
    asm volatile(HEAD(64) D32 "}, %32, %33, 1, 1, 1, 0, 0;" : F32(0) : "l"(a), "l"(b));
  if (N == 64 && RS)
    asm volatile(HEAD(64) D32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : F32(0)
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(b));
  if (N == 128 && !RS)
    asm volatile(HEAD(128) D64 "}, %64, %65, 1, 1, 1, 0, 0;" : F32(0), F32(32) : "l"(a), "l"(b));
  if (N == 128 && RS)
    asm volatile(HEAD(128) D64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
                 : F32(0), F32(32)
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(b));
  if (N == 256 && !RS)
    asm volatile(HEAD(256) D128 "}, %128, %129, 1, 1, 1, 0, 0;"
                 : F32(0), F32(32), F32(64), F32(96)
                 : "l"(a), "l"(b));
  if (N == 256 && RS)
    asm volatile(HEAD(256) D128 "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 0;"
                 : F32(0), F32(32), F32(64), F32(96)
                 : "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]), "l"(b));
}

static __device__ __forceinline__ uint64_t descriptor(uint32_t address) {
  return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)64 << 32 |
         (uint64_t)1 << 62;
}

enum beside { NOTHING, SHARED_LOADS, SHARED_STORES, FFMAS, MUFUS, TMA_LOADS };

// Warpgroups 0..groups-1 run `rounds` groups of COUNT wgmmas with a wait each; the warps after them
// do other work until the warpgroups end. out[0] = cycles of warpgroup 0, out[1] = other work done.
template <int N, int RS, int COUNT>
__global__ void __launch_bounds__(384, 1)
    groups_of(const __grid_constant__ CUtensorMap map, int groups, int kind, int rounds,
              int pending, cycles_t *out, float *sink) {
  extern __shared__ __align__(1024) char raw[];
  __shared__ uint64_t bars[4];
  __shared__ volatile int finished;
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u;
  for (int i = threadIdx.x; i < 49152 / 4; i += blockDim.x)
    asm volatile("st.shared.u32 [%0], 0;" ::"r"(data + 4 * i));
  if (threadIdx.x == 0) {
    finished = 0;
    for (int i = 0; i < 4; i++)
      barrier_init(shared_address(&bars[i]), 1);
    barrier_fence();
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  const int group = __shfl_sync(0xffffffff, threadIdx.x >> 7, 0);
  if (group < groups) {
    float d[N / 2];
    uint32_t r[4] = {0, 0, 0, 0};
#pragma unroll
    for (int i = 0; i < N / 2; i++)
      d[i] = 0;
    const uint64_t a = descriptor(data + group * 8192), b = descriptor(data + 16384);
    cycles_t issued = 0;
    const cycles_t start = now();
    while (rounds < 0 && now() - start < -rounds)
      __nanosleep(200);
    for (int k = 0; k < rounds; k++) {
      const cycles_t before = now();
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int c = 0; c < COUNT; c++)
        wgmma<N, RS>(d, a + 2 * (c & 3), b + 2 * (c & 3), r);
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
      issued += now() - before;
      if (pending)
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
      else
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    const cycles_t end = now();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < N / 2; i++)
      sum += d[i];
    if (sum == 0.12345f) *sink = sum;
    if ((threadIdx.x & 127) == 0) {
      finished = 1;
      if (group == 0) out[0] = end - start, out[2] = issued;
    }
  } else if (kind != NOTHING) {
    const uint32_t at = data + 65536 + (threadIdx.x & 127) * 16;
    float x[4] = {1, 2, 3, 4};
    uint32_t v[4] = {};
    long long done = 0;
    const cycles_t start = now();
    int stage = 0, parity = 0;
    if (kind == TMA_LOADS && (threadIdx.x & 127) == 0)
      for (int i = 0; i < 4; i++) {
        barrier_expect(shared_address(&bars[i]), 16384);
        tma_load(data + 65536 + i * 16384, &map, 0, (blockIdx.x & 1) * 128,
                 shared_address(&bars[i]));
      }
    while (!finished) {
      if (kind == SHARED_LOADS) {
#pragma unroll
        for (int u = 0; u < 32; u++) {
          asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                       : "r"(at + (u & 7) * 2048)
                       : "memory");
          x[u & 3] += __int_as_float(v[0] ^ v[3]);
        }
        done += 32;
      } else if (kind == SHARED_STORES) {
#pragma unroll
        for (int u = 0; u < 32; u++)
          asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at + (u & 7) * 2048), "r"(0)
                       : "memory");
        done += 32;
      } else if (kind == FFMAS) {
#pragma unroll
        for (int u = 0; u < 256; u++)
          asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x[u & 3]));
        done += 256;
      } else if (kind == MUFUS) {
#pragma unroll
        for (int u = 0; u < 64; u++)
          asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[u & 3]));
        done += 64;
      } else if (kind == TMA_LOADS) {
        if ((threadIdx.x & 127) == 0) {
          const uint32_t bar = shared_address(&bars[stage]);
          barrier_wait(bar, parity);
          barrier_expect(bar, 16384);
          tma_load(data + 65536 + stage * 16384, &map, 0, (blockIdx.x & 1) * 128, bar);
          done += 1;
          if (++stage == 4) stage = 0, parity ^= 1;
        } else {
          __nanosleep(2000);
        }
      } else {
        __nanosleep(100);
      }
    }
    if (kind == TMA_LOADS && (threadIdx.x & 127) == 0)
      for (int i = 0; i < 4; i++) {
        barrier_wait(shared_address(&bars[stage]), parity);
        if (++stage == 4) stage = 0, parity ^= 1;
      }
    const cycles_t span = now() - start;
    if (x[0] + x[1] + x[2] + x[3] == 0.12345f) *sink = x[0];
    if ((threadIdx.x & 127) == 0 && group == 2)
      out[1] = (cycles_t)(1e6 * (double)done / (double)span);
  }
}

template <int N, int RS, int COUNT> static void group_rows(const CUtensorMap &map, float *sink) {
  auto kernel = groups_of<N, RS, COUNT>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  const char *form = RS ? "rs" : "ss";
  for (int groups : {1, 2})
    for (int pending : {0, 1}) {
      double t[2], issued[2];
      for (int i = 0; i < 2; i++) {
        std::vector<double> v;
        for (int r = 0; r < 5; r++)
          v = collect(3, [&](cycles_t *out) {
            kernel<<<1, 384, 200 << 10>>>(map, groups, NOTHING, 64 * (i + 1), pending, out, sink);
          });
        t[i] = v[0], issued[i] = v[1];
      }
      row((t[1] - t[0]) / 64, "cycles/group", "wgmma_n%d_%s_group%d_%dwg%s", N, form, COUNT, groups,
          pending ? "_wait1" : "");
      if (groups == 1)
        row((issued[1] - issued[0]) / 64, "cycles/group", "wgmma_n%d_%s_group%d_issue%s", N, form,
            COUNT, pending ? "_wait1" : "");
    }
}

template <int N, int RS> static void beside_rows(const CUtensorMap &map, float *sink) {
  auto kernel = groups_of<N, RS, 8>;
  static const char *kind[] = {"nothing", "lds128", "sts128", "ffma", "mufu", "tma"};
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  for (int idle :
       {0, 1}) // idle: the warpgroups sleep instead, which gives the other work's own rate
    for (int k : {0, 1, 2, 3, 4, 5}) {
      std::vector<double> v = collect(2, [&](cycles_t *out) {
        kernel<<<132, 384, 200 << 10>>>(map, 2, k, idle ? -200000 : 256, 1, out, sink);
      });
      const char *form = RS ? "rs" : "ss", *with = idle ? "alone" : "beside";
      if (!idle)
        row(v[0] / 256 / 8 / 2, "cycles/wgmma", "wgmma_n%d_%s_beside_%s", N, form, kind[k]);
      if (v.size() > 1)
        row(v[1] / 1000, "ops/kclk/warp", "wgmma_n%d_%s_%s_%s_rate", N, form, kind[k], with);
    }
}

template <class S, int CHANGING = 0> static void mma_rows(uint32_t *sink) {
  auto span = [&](auto kernel, int warps) {
    double t[2];
    for (int i = 0; i < 2; i++)
      t[i] = measure(
          1, 0.5, [&](cycles_t *out) { kernel<<<1, 32 * warps>>>(64 * (i + 1), 0, 0, out, sink); });
    return (t[1] - t[0]) / 64 / 16;
  };
  row(span(mma_steps<S, 1, CHANGING>, 1), "cycles", "mma_%s_chain", S::label);
  for (int per : {1, 2, 4}) {
    row(span(mma_steps<S, 2, CHANGING>, per * 4) / per, "cycles/inst/SMSP",
        "mma_%s_2chains_%dwarps_per_smsp", S::label, per);
    row(span(mma_steps<S, 4, CHANGING>, per * 4) / per, "cycles/inst/SMSP",
        "mma_%s_4chains_%dwarps_per_smsp", S::label, per);
    row(span(mma_steps<S, 8, CHANGING>, per * 4) / per, "cycles/inst/SMSP",
        "mma_%s_8chains_%dwarps_per_smsp", S::label, per);
  }
}

template <class... S> static void all_mma_rows(uint32_t *sink) { (mma_rows<S>(sink), ...); }

int main() {
  char *base;
  float *sink;
  CHECK(cudaMalloc(&base, 16 << 20));
  CHECK(cudaMemset(base, 0, 16 << 20));
  CHECK(cudaMalloc(&sink, 256));
  all_mma_rows<m16n8k16_f16_f32, m16n8k8_f16_f32, m16n8k16_bf16_f32, m16n8k16_f16_f16, m16n8k8_tf32,
               m16n8k4_tf32, m16n8k32_s8, m16n8k16_s8, m8n8k4_f64, sp_m16n8k32_f16>(
      (uint32_t *)sink);
  mma_rows<m16n8k32_e4m3, 1>((uint32_t *)sink);
  CUtensorMap map = map_2d(base, 64, 4096, 64, 128);
  group_rows<64, 0, 1>(map, sink);
  group_rows<64, 0, 2>(map, sink);
  group_rows<64, 0, 4>(map, sink);
  group_rows<64, 0, 8>(map, sink);
  group_rows<64, 1, 1>(map, sink);
  group_rows<64, 1, 4>(map, sink);
  group_rows<128, 0, 1>(map, sink);
  group_rows<128, 0, 2>(map, sink);
  group_rows<128, 0, 4>(map, sink);
  group_rows<128, 0, 8>(map, sink);
  group_rows<128, 1, 1>(map, sink);
  group_rows<128, 1, 4>(map, sink);
  group_rows<256, 0, 1>(map, sink);
  group_rows<256, 0, 4>(map, sink);
  beside_rows<64, 0>(map, sink);
  beside_rows<128, 0>(map, sink);
  beside_rows<128, 1>(map, sink);
  beside_rows<256, 0>(map, sink);
  return 0;
}
