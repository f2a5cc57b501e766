// The SM clock under load: what fills an SM, on how many SMs, for how long. A probe before and after a
// batch of back-to-back launches reads each SM's cycle counter and the global timer (ns).
#include "common.cuh"

enum { SIDE = 264, BLOCK_SHARED = 200 * 1024 };

__global__ void probe(unsigned long long *out) {
  unsigned long long ns;
  const uint32_t sm = sm_id();
  const cycles_t cycles = now();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  if (threadIdx.x == 0) out[2 * sm] = cycles, out[2 * sm + 1] = ns;
}
__global__ void hold(cycles_t cycles) {
  const cycles_t start = now();
  while (now() - start < cycles) {
  }
}

static __device__ __forceinline__ uint64_t
descriptor(uint32_t address) { // 128 B swizzle, 1 KB groups
  return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)64 << 32 |
         (uint64_t)1 << 62;
}

struct Sleep {
  static constexpr const char *label = "sleep";
  static constexpr int piece_cycles = 0;
  static __device__ void work(uint32_t, const uint4 *, uint32_t *, uint32_t) { __nanosleep(500); }
};
struct Spin {
  static constexpr const char *label = "spin";
  static constexpr int piece_cycles = 0;
  static __device__ void work(uint32_t, const uint4 *, uint32_t *, uint32_t) {}
};
struct Ffma {
  static constexpr const char *label = "ffma";
  static constexpr int piece_cycles = 0;
  static __device__ void work(uint32_t, const uint4 *, uint32_t *x, uint32_t) {
    float *f = (float *)x;
#pragma unroll
    for (int i = 0; i < 256; i++)
      asm volatile("fma.rn.f32 %0, %0, %0, %1;" : "+f"(f[i % 8]) : "f"(f[8]));
  }
};
struct Lop3 {
  static constexpr const char *label = "lop3";
  static constexpr int piece_cycles = 0;
  static __device__ void work(uint32_t, const uint4 *, uint32_t *x, uint32_t) {
#pragma unroll
    for (int i = 0; i < 256; i++)
      asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x[i % 8]) : "r"(x[8]), "r"(x[9]));
  }
};
struct Mma {
  static constexpr const char *label = "mma";
  static constexpr int piece_cycles = 0;
  static __device__ void work(uint32_t, const uint4 *, uint32_t *x, uint32_t) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
      uint32_t *d = x + 4 * (i % 4);
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
          " {%5, %6}, {%0, %1, %2, %3};"
          : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
          : "r"(x[16]), "r"(x[17]), "r"(x[18]), "r"(x[19]));
    }
  }
};
struct Wgmma {
  static constexpr const char *label = "wgmma";
  static constexpr int piece_cycles = 330;
  static __device__ void work(uint32_t shared, const uint4 *, uint32_t *x, uint32_t) {
    float(&d)[32] = *(float(*)[32])x;
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int k = 0; k < 8; k++) {
      const uint64_t a = descriptor(shared + 32 * (k % 4)),
                     b = descriptor(shared + 16384 + 32 * (k % 4));
      asm volatile(
          "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9,"
          " %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28,"
          " %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
          : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
            "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
            "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
            "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),
            "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
          : "l"(a), "l"(b));
    }
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
};
struct Lds {
  static constexpr const char *label = "lds";
  static constexpr int piece_cycles = 0;
  static __device__ void work(uint32_t shared, const uint4 *, uint32_t *x, uint32_t) {
#pragma unroll
    for (int i = 0; i < 32; i++) {
      uint32_t t[4];
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(t[0]), "=r"(t[1]), "=r"(t[2]), "=r"(t[3])
                   : "r"(shared + threadIdx.x * 16 + i * 2048));
      x[i % 8] ^= t[0] ^ t[1] ^ t[2] ^ t[3];
    }
  }
};
template <int DRAM> struct Ldg {
  static constexpr const char *label = DRAM ? "ldg_dram" : "ldg_l2";
  static constexpr int piece_cycles = 0;
  static __device__ void work(uint32_t, const uint4 *data, uint32_t *x, uint32_t step) {
    uint4 t[8];
    const size_t span = DRAM ? (size_t)64 << 20 : 8192 * 132; // uint4: 1 GB; 17 MB
    const size_t at =
        ((size_t)blockIdx.x * 8192 + (size_t)step * (DRAM ? 8192 * 132 : 0) + step % 4 * 2048) %
        span;
#pragma unroll
    for (int i = 0; i < 8; i++)
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(t[i].x), "=r"(t[i].y), "=r"(t[i].z), "=r"(t[i].w)
                   : "l"(data + at + threadIdx.x + i * 1024));
#pragma unroll
    for (int i = 0; i < 8; i++)
      x[i] ^= t[i].x ^ t[i].y ^ t[i].z ^ t[i].w;
  }
};

// Work until the cycles are over; a pause of so many cycles after each piece. Warps that use wgmma must agree, so
// they count pieces.
template <class W>
static __device__ void work_for(cycles_t cycles, cycles_t pause, uint32_t shared, const uint4 *data,
                                uint32_t *x, unsigned long long *pieces) {
  const cycles_t start = now();
  const uint32_t limit = W::piece_cycles ? (uint32_t)(cycles / (W::piece_cycles + pause)) : ~0u;
  uint32_t step = 0;
  for (; step < limit && (W::piece_cycles || now() - start < cycles); step++) {
    W::work(shared, data, x, step);
    if (pause)
      for (const cycles_t from = now(); now() - from < pause;) {
      }
  }
  if (threadIdx.x % 32 == 0) atomicAdd(pieces, step);
}

// The first warps do one kind of work, the rest the other.
template <class W, class Other>
__global__ void __launch_bounds__(512, 1)
    load(cycles_t cycles, int warps, cycles_t pause, cycles_t other_pause, const uint4 *data,
         uint32_t seed, unsigned long long *pieces, uint32_t *sink) {
  extern __shared__ __align__(1024) uint32_t shared[];
  for (int i = threadIdx.x; i < 16384; i += blockDim.x)
    shared[i] = seed ? (i * 2654435761u & 0x3fff3fffu) | 0x30003000u : 0;
  uint32_t x[32];
  for (int i = 0; i < 32; i++)
    x[i] = seed ? (seed * (threadIdx.x * 32 + i + 1) & 0x3fff3fff) | 0x30003000 : 0;
  __syncthreads();
  if ((int)threadIdx.x < 32 * warps)
    work_for<W>(cycles, pause, shared_address(shared), data, x, pieces);
  else
    work_for<Other>(cycles, other_pause, shared_address(shared), data, x, pieces + 1);
  uint32_t all = 0;
  for (int i = 0; i < 32; i++)
    all ^= x[i];
  if (all == 0x12345678) *sink = all;
}

static uint4 *data_device;
static unsigned long long *probe_device;

struct Shape {
  int blocks, warps, other_warps;
  double us;
  int pause, other_pause, seed;
};

// The clock, and the pieces of work of a warp per 1000 cycles of the SM.
template <class W, class Other = Spin> static void clock_row(Shape s) {
  CHECK(cudaFuncSetAttribute(load<W, Other>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             BLOCK_SHARED));
  std::vector<double> mhz, work, other;
  const int batch = std::max(1, (int)(1500 / (s.us + 1.5)));
  for (int rep = 0; rep < 7; rep++) {
    CHECK(cudaMemset(probe_device, 0, 8 * SIDE * sizeof *probe_device));
    hold<<<1, 1>>>(600000);
    probe<<<SM_COUNT, 32, BLOCK_SHARED>>>(probe_device);
    for (int i = 0; i < batch; i++)
      load<W, Other><<<s.blocks, 32 * (s.warps + s.other_warps), BLOCK_SHARED>>>(
          (cycles_t)(s.us * 1900), s.warps, s.pause, s.other_pause, data_device, s.seed,
          probe_device + 4 * SIDE, (uint32_t *)(probe_device + 5 * SIDE));
    probe<<<SM_COUNT, 32, BLOCK_SHARED>>>(probe_device + SIDE);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    unsigned long long h[5 * SIDE];
    CHECK(cudaMemcpy(h, probe_device, sizeof h, cudaMemcpyDeviceToHost));
    double cycles = 0, ns = 0;
    for (int sm = 0; sm < SM_COUNT; sm++) {
      cycles += (double)(h[SIDE + 2 * sm] - h[2 * sm]);
      ns += (double)(h[SIDE + 2 * sm + 1] - h[2 * sm + 1]);
    }
    mhz.push_back(1000 * cycles / ns);
    work.push_back(1000 * SM_COUNT * (double)h[4 * SIDE] / (s.blocks * cycles));
    other.push_back(1000 * SM_COUNT * (double)h[4 * SIDE + 1] / (s.blocks * cycles));
  }
  char name[200], pause[32] = "", beside[80] = "", other_pause[32] = "";
  if (s.pause) snprintf(pause, sizeof pause, "_pause%d", s.pause);
  if (s.other_pause) snprintf(other_pause, sizeof other_pause, "_pause%d", s.other_pause);
  if (s.other_warps)
    snprintf(beside, sizeof beside, "_beside_%s_%dwarps%s", Other::label, s.other_warps,
             other_pause);
  snprintf(name, sizeof name, "%s_%dblocks_%dwarps_%gus%s%s%s", W::label, s.blocks, s.warps, s.us,
           pause, beside, s.seed ? "" : "_zeros");
  row(quantile(mhz, 0.5), "MHz", "clock_%s", name);
  row(quantile(work, 0.5), "pieces/kcycle/SM", "clock_work_%s", name);
  if (s.other_warps) row(quantile(other, 0.5), "pieces/kcycle/SM", "clock_other_%s", name);
  fflush(stdout);
}

template <class W> static void plain_rows() {
  for (int blocks : {1, 4, 8, 10, 12, 14, 16, 24, 132})
    clock_row<W>({blocks, 8, 0, 20, 0, 0, 7});
  for (double us : {2., 5., 80., 300., 1500.})
    clock_row<W>({132, 8, 0, us, 0, 0, 7});
  for (int warps : {4, 16})
    clock_row<W>({132, warps, 0, 300, 0, 0, 7});
  for (double us : {20., 300.})
    clock_row<W>({132, 8, 0, us, 0, 0, 0});
}

int main() {
  CHECK(cudaMalloc(&data_device, (size_t)1100 << 20));
  CHECK(cudaMemset(data_device, 0x5a, (size_t)1100 << 20));
  CHECK(cudaMalloc(&probe_device, 8 * SIDE * sizeof *probe_device));
  CHECK(cudaFuncSetAttribute(probe, cudaFuncAttributeMaxDynamicSharedMemorySize, BLOCK_SHARED));
  clock_row<Sleep>({132, 8, 0, 300, 0, 0, 7});
  for (double us : {20., 300.}) {
    clock_row<Spin>({132, 8, 0, us, 0, 0, 7});
    clock_row<Ffma>({132, 8, 0, us, 0, 0, 7});
    clock_row<Lop3>({132, 8, 0, us, 0, 0, 7});
    clock_row<Lds>({132, 8, 0, us, 0, 0, 7});
    clock_row<Ldg<0>>({132, 8, 0, us, 0, 0, 7});
    clock_row<Ldg<1>>({132, 8, 0, us, 0, 0, 7});
  }
  plain_rows<Mma>();
  plain_rows<Wgmma>();
  for (int pause : {0, 100, 200, 400, 800, 1600, 3200, 6400}) {
    clock_row<Mma>({132, 8, 0, 300, pause, 0, 7});
    clock_row<Wgmma>({132, 8, 0, 300, pause, 0, 7});
  }
  // loads from L2 beside: their rate, and the clock
  clock_row<Spin, Ldg<0>>({132, 4, 8, 300, 0, 0, 7});
  clock_row<Spin, Ldg<1>>({132, 4, 8, 300, 0, 0, 7});
  for (int pause : {0, 100, 300, 800, 2000})
    for (int other_pause : {0, 500, 1500}) {
      clock_row<Wgmma, Ldg<0>>({132, 8, 8, 300, pause, other_pause, 7});
      clock_row<Mma, Ldg<0>>({132, 8, 8, 300, pause, other_pause, 7});
    }
  clock_row<Wgmma, Ldg<1>>({132, 8, 8, 300, 300, 0, 7});
  clock_row<Wgmma, Ldg<1>>({132, 8, 8, 300, 2000, 0, 7});
  clock_row<Wgmma, Lds>({132, 8, 8, 300, 300, 0, 7});
  clock_row<Wgmma, Ffma>({132, 8, 8, 300, 300, 0, 7});
}
