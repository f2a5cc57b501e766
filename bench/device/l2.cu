// Level 2 and DRAM to SM by LDG.128 and cp.async, and plain streams (read, write, copy).
// The tile streams walk the addresses that tma.cu's rings walk: 128 rows x 128 bytes a tile.
#include "common.cuh"

enum pattern { OWN_ROWS, GEMM_PANELS, SAME_TILE };

static __device__ __forceinline__ int tile_row(int pattern, int b) {
  const int block = blockIdx.x;
  if (pattern == GEMM_PANELS) return (b ? 12 + block % 11 : block / 11) * 128;
  if (pattern == SAME_TILE) return b * 128;
  return (block * 2 + b) * 128;
}

// Two tiles a step, 2048 chunks of 16 bytes; THREADS threads, STEPS steps unrolled.
template <int THREADS, int STEPS>
__global__ void __launch_bounds__(THREADS)
    stream_ldg(const char *base, int pitch, int pattern, int wrap, int steps, int warm, int blocks,
               unsigned *counter, cycles_t *out, int *sink) {
  constexpr int CHUNKS = 2048 / THREADS;
  const char *from[CHUNKS];
  for (int c = 0; c < CHUNKS; c++) {
    const int i = threadIdx.x + c * THREADS, row = (i & 1023) >> 3;
    from[c] = base + (size_t)(tile_row(pattern, i >> 10) + row) * pitch + (i & 7) * 16;
  }
  grid_meet(counter, blocks);
  cycles_t start = 0;
  int x = 0, sum = 0;
  for (int k = 0; k < steps; k += STEPS) {
    if (k == warm) start = now();
    int4 v[STEPS * CHUNKS];
#pragma unroll
    for (int u = 0; u < STEPS; u++) {
#pragma unroll
      for (int c = 0; c < CHUNKS; c++) {
        int4 &r = v[u * CHUNKS + c];
        asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w)
                     : "l"(from[c] + x));
      }
      x += 128;
      if (x == wrap * 128) x = 0;
    }
#pragma unroll
    for (int i = 0; i < STEPS * CHUNKS; i++)
      sum ^= v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = now() - start;
  if (sum == 0x12345) *sink = sum;
}

template <int THREADS, int STAGES>
__global__ void __launch_bounds__(THREADS)
    stream_cp_async(const char *base, int pitch, int pattern, int wrap, int steps, int warm,
                    int blocks, unsigned *counter, cycles_t *out) {
  extern __shared__ char data[];
  constexpr int CHUNKS = 2048 / THREADS;
  const char *from[CHUNKS];
  for (int c = 0; c < CHUNKS; c++) {
    const int i = threadIdx.x + c * THREADS, row = (i & 1023) >> 3;
    from[c] = base + (size_t)(tile_row(pattern, i >> 10) + row) * pitch + (i & 7) * 16;
  }
  grid_meet(counter, blocks);
  cycles_t start = 0;
  int x = 0, stage = 0;
  for (int k = 0; k < steps; k++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
    if (k == warm) start = now();
    const uint32_t dst = shared_address(data) + stage * 32768 + threadIdx.x * 16;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst + c * THREADS * 16),
                   "l"(from[c] + x)
                   : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    x += 128;
    if (x == wrap * 128) x = 0;
    if (++stage == STAGES) stage = 0;
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = now() - start;
}

// Linear streams over the whole array: 0 read, 1 write, 2 copy, 3 two reads and a write. Each block
// owns pieces of 32 KB, `rotate` moves them between the passes to other blocks.
__global__ void __launch_bounds__(512) linear(const int4 *a, const int4 *b, int4 *c, size_t vectors,
                                              int kind, int passes, int rotate, int *sink) {
  const size_t step = (size_t)gridDim.x * 512 * 4;
  int sum = 0;
  for (int p = 0; p < passes; p++) {
    const size_t block = (blockIdx.x + (size_t)p * rotate) % gridDim.x;
    for (size_t i = block * 2048 + threadIdx.x; i < vectors; i += step) {
      int4 v[4], w[4];
#pragma unroll
      for (int u = 0; u < 4; u++) {
        v[u] = w[u] = make_int4(p, p, p, p);
        if (kind != 1) v[u] = __ldcg(a + i + u * 512);
        if (kind == 3) w[u] = __ldcg(b + i + u * 512);
      }
#pragma unroll
      for (int u = 0; u < 4; u++) {
        v[u].x += w[u].x;
        if (kind != 0)
          c[i + u * 512] = v[u];
        else
          sum ^= v[u].x ^ v[u].y ^ v[u].z ^ v[u].w;
      }
    }
  }
  if (sum == 0x12345) *sink = sum;
}

static int *sink_device() {
  static int *p = nullptr;
  if (!p) CHECK(cudaMalloc(&p, 256));
  return p;
}

template <int THREADS, int STEPS>
static double ldg(const char *base, int wrap, int pattern, int steps, int warm, int blocks,
                  int reps) {
  const int pitch = pattern == OWN_ROWS ? wrap * 128 : 8192;
  return 32768.0 * (steps - warm) /
         measure(
             blocks, 0.5,
             [&](cycles_t *out) {
               stream_ldg<THREADS, STEPS>
                   <<<blocks, THREADS, 200 << 10>>>(base, pitch, pattern, wrap, steps, warm, blocks,
                                                    counter_device(), out, sink_device());
             },
             reps);
}

template <int THREADS, int STAGES>
static double cp_async(const char *base, int wrap, int pattern, int steps, int warm, int blocks,
                       int reps) {
  const int pitch = pattern == OWN_ROWS ? wrap * 128 : 8192;
  return 32768.0 * (steps - warm) /
         measure(
             blocks, 0.5,
             [&](cycles_t *out) {
               stream_cp_async<THREADS, STAGES><<<blocks, THREADS, 200 << 10>>>(
                   base, pitch, pattern, wrap, steps, warm, blocks, counter_device(), out);
             },
             reps);
}

template <class F> static void raise(F kernel) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
}

static double linear_gbps(char *a, char *b, char *c, size_t bytes, int kind, int passes, int rotate,
                          int per_sm) {
  cudaEvent_t e0, e1;
  CHECK(cudaEventCreate(&e0));
  CHECK(cudaEventCreate(&e1));
  std::vector<double> v;
  for (int r = 0; r < 5; r++) {
    float ms;
    CHECK(cudaEventRecord(e0));
    linear<<<SM_COUNT * per_sm, 512>>>((int4 *)a, (int4 *)b, (int4 *)c, bytes / 16, kind, passes,
                                       rotate, sink_device());
    CHECK(cudaEventRecord(e1));
    CHECK(cudaEventSynchronize(e1));
    CHECK(cudaEventElapsedTime(&ms, e0, e1));
    v.push_back((double)bytes * passes * (kind == 3 ? 3 : kind == 2 ? 2 : 1) / ms / 1e6);
  }
  return quantile(v, 0.5);
}

// One pass over data that is not in level 2, after it was filled with written or with read lines.
static double after_fill_us(char *data, char *fill, size_t bytes, int kind, int dirty) {
  cudaEvent_t e0, e1;
  CHECK(cudaEventCreate(&e0));
  CHECK(cudaEventCreate(&e1));
  std::vector<double> v;
  for (int r = 0; r < 9; r++) {
    float ms;
    if (dirty)
      CHECK(cudaMemsetAsync(fill, r, 256u << 20));
    else
      linear<<<SM_COUNT * 4, 512>>>((int4 *)fill, nullptr, nullptr, (256u << 20) / 16, 0, 1, 0,
                                    sink_device());
    CHECK(cudaEventRecord(e0));
    linear<<<SM_COUNT * 4, 512>>>((int4 *)data, (int4 *)data, (int4 *)(data + (256u << 20)),
                                  bytes / 16, kind, 1, 0, sink_device());
    CHECK(cudaEventRecord(e1));
    CHECK(cudaEventSynchronize(e1));
    CHECK(cudaEventElapsedTime(&ms, e0, e1));
    v.push_back(ms * 1000);
  }
  return quantile(v, 0.5);
}

int main() {
  raise(stream_ldg<1024, 4>);
  raise(stream_ldg<1024, 2>);
  raise(stream_ldg<1024, 1>);
  raise(stream_ldg<256, 1>);
  raise(stream_cp_async<512, 4>);
  raise(stream_cp_async<512, 6>);
  raise(stream_cp_async<128, 4>);
  char *base, *other, *third;
  const size_t bytes = (size_t)1 << 30;
  CHECK(cudaMalloc(&base, bytes));
  CHECK(cudaMalloc(&other, bytes));
  CHECK(cudaMalloc(&third, bytes));
  CHECK(cudaMemset(base, 0, bytes));
  CHECK(cudaMemset(other, 0, bytes));
  for (int wrap : {2, 4, 6, 8, 10, 12, 14, 16, 20, 128}) {
    const int n = wrap == 128 ? 128 : 20 * wrap, w = wrap == 128 ? 8 : 4 * wrap;
    const double mb = 132 * 32768.0 * wrap / 1048576;
    row(ldg<1024, 4>(base, wrap, OWN_ROWS, n, w, 132, 3), "B/clk/SM",
        "l2_ldg_own_%.0fMB_128KBflight", mb);
    row(ldg<1024, 2>(base, wrap, OWN_ROWS, n, w, 132, 3), "B/clk/SM",
        "l2_ldg_own_%.0fMB_64KBflight", mb);
    row(ldg<256, 1>(base, wrap, OWN_ROWS, n, w, 132, 3), "B/clk/SM",
        "l2_ldg_own_%.0fMB_32KBflight_256thr", mb);
    row(cp_async<512, 4>(base, wrap, OWN_ROWS, n, w, 132, 3), "B/clk/SM",
        "l2_cpasync_own_%.0fMB_4x32KB", mb);
    row(cp_async<128, 4>(base, wrap, OWN_ROWS, n, w, 132, 3), "B/clk/SM",
        "l2_cpasync_own_%.0fMB_4x32KB_128thr", mb);
  }
  for (int blocks : {1, 2, 8, 16, 24, 33, 48, 66, 88, 110, 121, 132}) {
    row(ldg<1024, 4>(base, 4, OWN_ROWS, 160, 16, blocks, 3), "B/clk/SM",
        "l2_ldg_own_%dSM_128KBflight", blocks);
    row(cp_async<512, 4>(base, 4, OWN_ROWS, 160, 16, blocks, 3), "B/clk/SM",
        "l2_cpasync_own_%dSM_4x32KB", blocks);
  }
  for (int pattern : {GEMM_PANELS, SAME_TILE}) {
    const char *name = pattern == GEMM_PANELS ? "gemm12x11" : "same";
    row(ldg<1024, 4>(base, 64, pattern, 384, 64, 132, 3), "B/clk/SM", "l2_ldg_%s_128KBflight",
        name);
    row(ldg<1024, 2>(base, 64, pattern, 384, 64, 132, 3), "B/clk/SM", "l2_ldg_%s_64KBflight", name);
    row(cp_async<512, 4>(base, 64, pattern, 384, 64, 132, 3), "B/clk/SM", "l2_cpasync_%s_4x32KB",
        name);
    row(cp_async<512, 6>(base, 64, pattern, 384, 64, 132, 3), "B/clk/SM", "l2_cpasync_%s_6x32KB",
        name);
    std::vector<double> v;
    for (int r = 0; r < 5; r++) {
      flush_l2();
      v.push_back(cp_async<512, 4>(base, 64, pattern, 64, 8, 132, 1));
    }
    row(quantile(v, 0.5), "B/clk/SM", "l2_cpasync_%s_4x32KB_onepass", name);
  }
  static const char *kind[] = {"read", "write", "copy", "triad"};
  for (int k = 0; k < 4; k++)
    for (int per_sm : {1, 2, 4}) {
      row(linear_gbps(base, other, third, bytes, k, 1, 0, per_sm), "GB/s", "dram_%s_1GB_cta%d",
          kind[k], per_sm);
      row(linear_gbps(base, other, third, 256u << 20, k, 1, 0, per_sm), "GB/s",
          "dram_%s_256MB_cta%d", kind[k], per_sm);
    }
  for (int mb : {1, 2, 4, 8, 16, 32, 64, 128})
    for (int k : {0, 2})
      for (int dirty : {0, 1})
        row(after_fill_us(base, other, (size_t)mb << 20, k, dirty), "us", "cold_%s_%dMB_after_%s",
            kind[k], mb, dirty ? "memset" : "reads");
  for (int mb : {4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96})
    for (int rotate : {0, 37}) {
      const size_t n = (size_t)mb << 20;
      row(linear_gbps(base, other, third, n, 0, 20 + 2000 / mb, rotate, 4), "GB/s",
          "l2_read_%dMB_rotate%d", mb, rotate);
    }
  for (int mb : {4, 8, 16, 24, 32, 48})
    for (int k : {1, 2}) {
      const size_t n = ((size_t)mb << 20) / k;
      row(linear_gbps(base, other, third, n, k, 20 + 2000 / mb, 0, 4), "GB/s", "l2_%s_%dMB",
          kind[k], mb);
    }
  return 0;
}
