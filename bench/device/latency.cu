// Latencies of loads by pointer chase, of single lines, of cp.async, and of loads beside traffic.
#include <cooperative_groups.h>

#include <numeric>
#include <random>

#include "common.cuh"

enum kind { CACHED, GLOBAL };

template <int KIND> static __device__ __forceinline__ uint64_t chase_step(uint64_t a) {
  if (KIND == CACHED)
    asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(a)::"memory");
  else
    asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(a)::"memory");
  return a;
}

// Chases `n` links from p + offset, after `warm` links untimed; out[0] = cycles.
template <int KIND>
__global__ void chase(const char *p, int warm, int n, cycles_t *out, uint64_t *sink) {
  uint64_t a = (uint64_t)p;
  for (int i = 0; i < warm; i++)
    a = chase_step<KIND>(a);
  const cycles_t start = now();
#pragma unroll 8
  for (int i = 0; i < n; i++)
    a = chase_step<KIND>(a);
  if (a == 1) *sink = a;
  out[0] = now() - start;
}

// One timed load of each line, from the block that sits on SM `sm`.
__global__ void line_times(const char *p, int lines, int stride, int sm, int rounds,
                           cycles_t *out) {
  if ((int)sm_id() != sm) return;
  for (int round = 0; round < rounds; round++)
    for (int i = 0; i < lines; i++) {
      uint32_t v;
      const cycles_t start = now();
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p + (size_t)i * stride) : "memory");
      asm volatile("add.u32 %0, %0, 1;" : "+r"(v)::"memory");
      const cycles_t t = now() + (v == 0x7654321 ? 1 : 0);
      out[i] = t - start;
    }
}

// The block on SM `writer` stores to the lines.
__global__ void write_lines(char *p, int lines, int stride, int writer) {
  if ((int)sm_id() != writer) return;
  for (int i = 0; i < lines; i++)
    *(volatile int *)(p + (size_t)i * stride) = i & 1;
}

// Loads that hit level 1 (or 2): a warp instruction covers rows of row_bytes, `stride` lines apart.
template <int BYTES, int CACHED_IN_L1>
__global__ void __launch_bounds__(1024)
    load_rate(const char *p, int row_bytes, int rounds, int zero, cycles_t *out, uint32_t *sink) {
  const int lane = threadIdx.x & 31, per_row = row_bytes / BYTES;
  const int pitch = !CACHED_IN_L1 ? 1024 : row_bytes < 128 ? 128 : row_bytes;
  const int step = CACHED_IN_L1 ? 4096 : 32768,
            warp_offset = CACHED_IN_L1 ? 0 : (threadIdx.x >> 5) * 128 % 1024;
  const char *from = p + (lane / per_row) * pitch + lane % per_row * BYTES + warp_offset;
  uint32_t sum = 0, v[8][4] = {};
  cycles_t start = 0;
  for (int r = 0; r < rounds + 2; r++) {
    if (r == 2) {
      __syncthreads();
      start = now();
    }
#pragma unroll
    for (int u = 0; u < 8; u++) {
      const char *at = from + u * step;
      if (BYTES == 4 && CACHED_IN_L1)
        asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(v[u][0]) : "l"(at));
      if (BYTES == 8 && CACHED_IN_L1)
        asm volatile("ld.global.ca.v2.u32 {%0, %1}, [%2];"
                     : "=r"(v[u][0]), "=r"(v[u][1])
                     : "l"(at));
      if (BYTES == 16 && CACHED_IN_L1)
        asm volatile("ld.global.ca.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[u][0]), "=r"(v[u][1]), "=r"(v[u][2]), "=r"(v[u][3])
                     : "l"(at));
      if (BYTES == 4 && !CACHED_IN_L1)
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v[u][0]) : "l"(at));
      if (BYTES == 8 && !CACHED_IN_L1)
        asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];"
                     : "=r"(v[u][0]), "=r"(v[u][1])
                     : "l"(at));
      if (BYTES == 16 && !CACHED_IN_L1)
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v[u][0]), "=r"(v[u][1]), "=r"(v[u][2]), "=r"(v[u][3])
                     : "l"(at));
    }
#pragma unroll
    for (int u = 0; u < 8; u++)
      sum ^= v[u][0] ^ v[u][BYTES / 4 - 1] ^ v[u][BYTES / 8];
    from += zero; // or ptxas would share loads between rounds
  }
  if (sum == 0x12345) *sink = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = now() - start;
}

__global__ void chase_shared(int n, cycles_t *out, uint32_t *sink) {
  __shared__ uint32_t s[1024];
  for (int i = threadIdx.x; i < 1024; i += 32)
    s[i] = shared_address(&s[(i + 33) % 1024]);
  __syncwarp();
  uint32_t a = shared_address(&s[threadIdx.x]);
  const cycles_t start = now();
#pragma unroll 16
  for (int i = 0; i < n; i++)
    asm volatile("ld.shared.u32 %0, [%0];" : "+r"(a)::"memory");
  if (a == 1) *sink = a;
  if (threadIdx.x == 0) out[0] = now() - start;
}

__constant__ uint32_t constant_chain[4096];
__global__ void chase_constant(int n, int warm, cycles_t *out, uint32_t *sink) {
  uint32_t a = threadIdx.x;
  for (int i = 0; i < warm; i++)
    a = constant_chain[a];
  const cycles_t start = now();
#pragma unroll 8
  for (int i = 0; i < n; i++)
    a = constant_chain[a];
  if (a == 0x55555555) *sink = a;
  if (threadIdx.x == 0) out[0] = now() - start;
}

// Block 0 chases through the shared memory of the cluster's last block.
__global__ void chase_cluster(int n, cycles_t *out, uint32_t *sink) {
  namespace cg = cooperative_groups;
  cg::cluster_group cluster = cg::this_cluster();
  __shared__ uint32_t s[256];
  uint32_t base;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(base)
               : "r"(shared_address(s)), "r"(cluster.num_blocks() - 1));
  for (int i = threadIdx.x; i < 256; i += 32)
    s[i] = base + 4 * ((i + 33) % 256);
  cluster.sync();
  if (cluster.block_rank() == 0) {
    uint32_t a = 0;
    uint32_t from = base + 4 * threadIdx.x;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(a) : "r"(from) : "memory");
    const cycles_t start = now();
#pragma unroll 8
    for (int i = 0; i < n; i++)
      asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(a)::"memory");
    if (a == 1) *sink = a;
    if (threadIdx.x == 0) out[0] = now() - start;
  }
  cluster.sync();
}

// Each thread copies `per` chunks of 16 bytes, commits and waits; the time of thread 0 per round.
template <int PER>
__global__ void cp_async_latency(const char *p, int rounds, int advance, cycles_t *out) {
  extern __shared__ char data[];
  const uint32_t dst = shared_address(data) + threadIdx.x * 16;
  for (int r = 0; r < rounds; r++) {
    const char *from = p + (size_t)r * advance + threadIdx.x * 16;
    __syncthreads();
    const cycles_t start = now();
#pragma unroll
    for (int i = 0; i < PER; i++)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst + i * blockDim.x * 16),
                   "l"(from + i * blockDim.x * 16)
                   : "memory");
    asm volatile("cp.async.commit_group; \n cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) out[r] = now() - start;
  }
}

template <int PER>
__global__ void ldg_latency(const char *p, int rounds, int advance, cycles_t *out, int *sink) {
  for (int r = 0; r < rounds; r++) {
    const char *from = p + (size_t)r * advance + threadIdx.x * 16;
    int sum = 0;
    int4 v[PER];
    __syncthreads();
    const cycles_t start = now();
#pragma unroll
    for (int i = 0; i < PER; i++)
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w)
                   : "l"(from + i * blockDim.x * 16)
                   : "memory");
#pragma unroll
    for (int i = 0; i < PER; i++)
      sum ^= v[i].x ^ v[i].w;
    if (sum == 0x1234567) *sink = sum;
    __syncthreads();
    if (threadIdx.x == 0) out[r] = now() - start;
  }
}

// Block 0 chases; the others stream LDG.128 with `active` warps each, until it is done.
__global__ void __launch_bounds__(1024)
    chase_beside(const char *chain, const char *data, size_t slice, int n, int active,
                 volatile int *stop, unsigned *counter, cycles_t *out, uint64_t *sink) {
  grid_meet(counter, gridDim.x);
  if (blockIdx.x == 0) {
    if (threadIdx.x == 0) {
      uint64_t a = (uint64_t)chain;
      for (int i = 0; i < 64; i++)
        a = chase_step<GLOBAL>(a);
      const cycles_t start = now();
      for (int i = 0; i < n; i++)
        a = chase_step<GLOBAL>(a);
      out[0] = now() - start;
      if (a == 1) *sink = a;
      *stop = 1;
      __threadfence();
    }
    return;
  }
  if ((int)threadIdx.x >= active * 32) return;
  const char *p = data + slice * (blockIdx.x - 1) + threadIdx.x * 16;
  int sum = 0;
  size_t at = 0, moved = 0;
  const cycles_t start = now();
  while (!*stop) {
    for (int r = 0; r < 8; r++) {
      int4 v[4];
#pragma unroll
      for (int u = 0; u < 4; u++) {
        v[u] = __ldcg((const int4 *)(p + at));
        at += active * 512;
        if (at + active * 512 > slice) at = 0;
      }
#pragma unroll
      for (int u = 0; u < 4; u++)
        sum ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
      moved += active * 2048;
    }
  }
  if (threadIdx.x == 0)
    out[blockIdx.x] = (cycles_t)(1000.0 * (double)moved / (double)(now() - start));
  if (sum == 0x12345) *sink = sum;
}

// A random cycle through `count` slots of `stride` bytes at p.
static void make_chain(char *p, size_t count, size_t stride, size_t skew = 0) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  std::mt19937 rng(7);
  std::shuffle(order.begin() + 1, order.end(), rng);
  std::vector<char> host(count * stride);
  auto at = [&](uint32_t i) {
    return (size_t)i * stride + (skew ? (i * skew) % stride / 32 * 32 : 0);
  };
  for (size_t i = 0; i < count; i++) {
    uint64_t next = (uint64_t)(p + at(order[(i + 1) % count]));
    memcpy(host.data() + at(order[i]), &next, 8);
  }
  CHECK(cudaMemcpy(p, host.data(), host.size(), cudaMemcpyHostToDevice));
}

template <int PER> static void async_rows(char *p) {
  uint64_t *sink = (uint64_t *)(p + (1 << 20));
  CHECK(cudaFuncSetAttribute(cp_async_latency<PER>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             64 << 10));
  for (int threads : {32, 128, 256}) {
    auto hot = [&](cycles_t *out) {
      cp_async_latency<PER><<<1, threads, 64 << 10>>>(p, 32, 0, out);
    };
    row(measure(32, 0.5, hot), "cycles", "cpasync16_%dthr_x%d_hot", threads, PER);
    auto hot_ldg = [&](cycles_t *out) {
      ldg_latency<PER><<<1, threads>>>(p, 32, 0, out, (int *)sink);
    };
    row(measure(32, 0.5, hot_ldg), "cycles", "ldg128_%dthr_x%d_hot", threads, PER);
    flush_l2();
    row(measure(
            32, 0.5,
            [&](cycles_t *out) {
              cp_async_latency<PER><<<1, threads, 64 << 10>>>(p, 32, 65536, out);
            },
            1),
        "cycles", "cpasync16_%dthr_x%d_dram", threads, PER);
    flush_l2();
    row(measure(
            32, 0.5,
            [&](cycles_t *out) {
              ldg_latency<PER><<<1, threads>>>(p, 32, 65536, out, (int *)sink);
            },
            1),
        "cycles", "ldg128_%dthr_x%d_dram", threads, PER);
  }
}

static void chain_rows(char *p, uint64_t *sink) {
  make_chain(p, 64, 128);
  row(measure(1, 0.5, [&](cycles_t *out) { chase<CACHED><<<1, 1>>>(p, 128, 512, out, sink); }) /
          512,
      "cycles", "lat_l1_hit");
  for (double mb : {0.125, 1.0, 4.0, 8.0, 16.0, 24.0, 32.0, 40.0, 48.0}) {
    const int n = (int)(mb * 1048576 / 512);
    make_chain(p, n, 512, 128);
    row(measure(
            1, 0.5, [&](cycles_t *out) { chase<GLOBAL><<<1, 1>>>(p, n, 4096, out, sink); }, 3) /
            4096,
        "cycles", "lat_l2_%gMB", mb);
  }
  for (double mb : {4.0, 16.0, 64.0}) { // each line once after a flush
    const int n = (int)(mb * 1048576 / 4096);
    make_chain(p, n, 4096, 128);
    flush_l2();
    row(measure(
            1, 0.5, [&](cycles_t *out) { chase<GLOBAL><<<1, 1>>>(p, 16, n - 32, out, sink); }, 1) /
            (n - 32),
        "cycles", "lat_dram_flushed_%gMB_4KBapart", mb);
  }
  for (size_t mb : {128, 512}) {
    const size_t n = mb * 1048576 / 8192;
    make_chain(p, n, 8192, 128);
    flush_l2();
    row(measure(
            1, 0.5, [&](cycles_t *out) { chase<GLOBAL><<<1, 1>>>(p, 16, 8192, out, sink); }, 1) /
            8192,
        "cycles", "lat_dram_%zuMB_8KBapart", mb);
  }
}

static void line_rows(char *p) {
  const int lines = 8192;
  for (int sm : {0, 1, 2, 16, 40, 80, 131}) {
    std::vector<double> v =
        collect(lines, [&](cycles_t *out) { line_times<<<132, 1>>>(p, lines, 128, sm, 2, out); });
    for (double q : {0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99})
      row(quantile(v, q), "cycles", "lat_l2_line_sm%d_p%g", sm, q * 100);
  }
}

// Lines written by one SM, then read twice by another after a flush of nothing.
static void sharing_rows(char *p) {
  const int lines = 2048;
  for (int reader : {0, 1, 2, 40, 131}) {
    write_lines<<<132, 1>>>(p, lines, 128, 0);
    for (int pass = 0; pass < 2; pass++) {
      std::vector<double> v = collect(
          lines, [&](cycles_t *out) { line_times<<<132, 1>>>(p, lines, 128, reader, 1, out); });
      for (double q : {0.05, 0.5, 0.95})
        row(quantile(v, q), "cycles", "lat_written_by_sm0_read_by_sm%d_pass%d_p%g", reader,
            pass + 1, q * 100);
    }
  }
  flush_l2();
  for (int reader : {0, 1, 131, 131}) { // the first reader brings the lines from DRAM
    std::vector<double> v = collect(
        lines, [&](cycles_t *out) { line_times<<<132, 1>>>(p, lines, 128, reader, 1, out); });
    for (double q : {0.05, 0.5, 0.95})
      row(quantile(v, q), "cycles", "lat_after_flush_then_sm%d_p%g", reader, q * 100);
  }
}

template <int BYTES> static void rate_rows(char *p, uint32_t *sink) {
  for (int row_bytes : {4, 8, 16, 32, 64, 128, 256, 512}) {
    if (row_bytes < BYTES || row_bytes > 32 * BYTES) continue;
    for (int warps : {1, 8, 32}) {
      double t[2];
      for (int l1 : {0, 1}) {
        for (int i = 0; i < 2; i++)
          t[i] = measure(
              1, 0.5,
              [&](cycles_t *out) {
                if (l1)
                  load_rate<BYTES, 1><<<1, warps * 32>>>(p, row_bytes, 16 * (i + 1), 0, out, sink);
                else
                  load_rate<BYTES, 0><<<1, warps * 32>>>(p, row_bytes, 16 * (i + 1), 0, out, sink);
              },
              3);
        row((t[1] - t[0]) / 16 / 8 / warps, "cycles/warp-inst/SM", "ldg%d_rows%dB_%s_%dwarps",
            BYTES * 8, row_bytes, l1 ? "l1" : "l2", warps);
      }
    }
  }
}

static void cluster_rows(uint32_t *sink) {
  CHECK(cudaFuncSetAttribute(chase_cluster, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  for (int size : {1, 2, 4, 8, 16}) {
    cudaLaunchConfig_t c = {};
    c.gridDim = size;
    c.blockDim = 32;
    cudaLaunchAttribute a;
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim.x = size;
    a.val.clusterDim.y = a.val.clusterDim.z = 1;
    c.attrs = &a;
    c.numAttrs = 1;
    double t = measure(1, 0.5, [&](cycles_t *out) {
      CHECK(cudaLaunchKernelEx(&c, chase_cluster, 512, out, sink));
    });
    row(t / 512, "cycles", "lat_dsmem_cluster%d", size);
  }
}

static void beside_rows(char *p, char *data, uint64_t *sink) {
  int *stop = (int *)sink;
  const int n = 2048;
  make_chain(p, 4096, 512, 128);
  for (int dram : {0, 1})
    for (int active : {0, 1, 2, 4, 8, 16, 32}) {
      const size_t slice = dram ? 6u << 20 : 128u << 10;
      CHECK(cudaMemset(stop, 0, 8));
      std::vector<double> v = collect(132, [&](cycles_t *out) {
        chase_beside<<<132, 1024>>>(p, data, slice, n, active, stop, counter_device(), out,
                                    sink + 1);
      });
      row(v[0] / n, "cycles", "lat_l2_beside_%s_%dwarps", dram ? "dram" : "l2", active);
      v.erase(v.begin());
      if (active)
        row(quantile(v, 0.5) / 1000, "B/clk/SM", "lat_l2_beside_%s_%dwarps_traffic",
            dram ? "dram" : "l2", active);
    }
}

int main() {
  char *p, *data;
  uint64_t *sink;
  CHECK(cudaMalloc(&p, (size_t)1 << 30));
  CHECK(cudaMalloc(&data, (size_t)1 << 30));
  CHECK(cudaMalloc(&sink, 4096));
  CHECK(cudaMemset(p, 0, (size_t)1 << 30));
  CHECK(cudaMemset(data, 0, (size_t)1 << 30));
  line_rows(p);
  chain_rows(p, sink);
  sharing_rows(p);
  rate_rows<4>(p, (uint32_t *)sink);
  rate_rows<8>(p, (uint32_t *)sink);
  rate_rows<16>(p, (uint32_t *)sink);
  row(measure(1, 0.5,
              [&](cycles_t *out) { chase_shared<<<1, 32>>>(1024, out, (uint32_t *)sink); }) /
          1024,
      "cycles", "lat_shared");
  std::vector<uint32_t> chain(4096);
  for (int stride : {1, 16, 64}) {
    for (int i = 0; i < 4096; i++)
      chain[i] = (i + stride) % 4096;
    CHECK(cudaMemcpyToSymbol(constant_chain, chain.data(), 16384));
    row(measure(1, 0.5,
                [&](cycles_t *out) { chase_constant<<<1, 1>>>(256, 0, out, (uint32_t *)sink); }) /
            256,
        "cycles", "lat_constant_first_stride%dB", stride * 4);
    row(measure(
            1, 0.5,
            [&](cycles_t *out) { chase_constant<<<1, 1>>>(256, 4096, out, (uint32_t *)sink); }) /
            256,
        "cycles", "lat_constant_again_stride%dB", stride * 4);
  }
  cluster_rows((uint32_t *)sink);
  async_rows<1>(p);
  async_rows<4>(p);
  async_rows<8>(p);
  beside_rows(p, data, sink);
  return 0;
}
