// Launch and block costs by events around a batch of launches behind a spinning kernel.
#include "common.cuh"

__global__ void spin_kernel(long long cycles) {
  const cycles_t start = now();
  while (now() - start < cycles) {
  }
}

__global__ void empty_kernel() {}

// Never true at run time; keeps REGS values live so that the kernel is given that many registers.
template <int REGS> __global__ void many_registers(int *p, int never) {
  if (never) {
    int v[REGS];
#pragma unroll
    for (int i = 0; i < REGS; i++)
      v[i] = ((volatile int *)p)[i];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < REGS; i++)
      ((volatile int *)p)[i * 7] = v[i];
  }
}

__global__ void params_only(const int *a, const int *b, int *c) {
  if (a == c && b == c) *c = 1;
}

__global__ void load_add_store(const float *a, float *b) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  b[i] = a[i] + 1.0f;
}

__global__ void store_only(float *b) { b[blockIdx.x * blockDim.x + threadIdx.x] = 1.0f; }

// Straight-line code: COUNT FFMAs (16 bytes each) in four chains, run `rounds` times.
template <int COUNT> __global__ void straight(int rounds, cycles_t *out, float *sink) {
  float x[4] = {1, 2, 3, (float)threadIdx.x}, a = (float)rounds;
  for (int r = 0; r < rounds; r++) {
    const cycles_t start = now();
#pragma unroll
    for (int i = 0; i < COUNT; i++)
      asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i & 3]) : "f"(a));
    const cycles_t end = now();
    if (threadIdx.x == 0 && blockIdx.x == 0 && r < 4) out[r] = end - start;
  }
  if (x[0] + x[1] + x[2] + x[3] == 0.1234f) *sink = 1;
}

__global__ void fixed_duration(int cycles) {
  const cycles_t start = now();
  while (now() - start < cycles) {
  }
}

// Start and end clocks of each block on SM 0 (global timer is too coarse; one SM has one clock).
__global__ void block_times(int cycles, cycles_t *out, unsigned *counter) {
  const cycles_t start = now();
  while (now() - start < cycles) {
  }
  if (threadIdx.x == 0 && sm_id() == 0) {
    const unsigned i = atomicAdd(counter, 1);
    out[2 * i] = start;
    out[2 * i + 1] = now();
  }
}

static cudaEvent_t event(int i) {
  static cudaEvent_t e[2];
  if (!e[i]) CHECK(cudaEventCreate(&e[i]));
  return e[i];
}

// Microseconds per launch: `batch` launches between two events, queued while a kernel spins.
template <class F> static double hot_us(F launch, int batch = 50, int reps = 15) {
  std::vector<double> v;
  launch();
  for (int r = 0; r < reps; r++) {
    float ms;
    spin_kernel<<<1, 1>>>(batch * 12000);
    CHECK(cudaEventRecord(event(0)));
    for (int i = 0; i < batch; i++)
      launch();
    CHECK(cudaEventRecord(event(1)));
    CHECK(cudaEventSynchronize(event(1)));
    CHECK(cudaEventElapsedTime(&ms, event(0), event(1)));
    v.push_back(ms * 1000 / batch);
  }
  CHECK(cudaGetLastError());
  return quantile(v, 0.5);
}

// One launch between two events after 256 MB were written.
template <class F> static double cold_us(F launch, int reps = 20) {
  std::vector<double> v;
  launch();
  for (int r = 0; r < reps; r++) {
    float ms;
    flush_l2();
    CHECK(cudaEventRecord(event(0)));
    launch();
    CHECK(cudaEventRecord(event(1)));
    CHECK(cudaEventSynchronize(event(1)));
    CHECK(cudaEventElapsedTime(&ms, event(0), event(1)));
    v.push_back(ms * 1000);
  }
  CHECK(cudaGetLastError());
  return quantile(v, 0.5);
}

template <class F> static void raise(F kernel) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 220 << 10));
}

static void empty_rows() {
  raise(empty_kernel);
  for (int grid : {1, 66, 132, 264, 528, 1024, 2048, 4096, 16384})
    for (int block : {32, 128, 256, 512, 1024})
      row(hot_us([&] { empty_kernel<<<grid, block>>>(); }, grid > 4096 ? 20 : 50), "us",
          "launch_empty_grid%d_block%d", grid, block);
  for (int grid : {132, 264, 1024, 4096})
    for (int kb : {16, 48, 100, 200})
      row(hot_us([&] { empty_kernel<<<grid, 256, kb << 10>>>(); }), "us",
          "launch_empty_grid%d_block256_smem%dKB", grid, kb);
  for (int grid : {1, 132, 1024})
    row(cold_us([&] { empty_kernel<<<grid, 128>>>(); }), "us", "launch_empty_grid%d_block128_cold",
        grid);
  for (int batch : {1, 2, 5, 10, 20, 100, 200})
    row(hot_us([&] { empty_kernel<<<132, 128>>>(); }, batch), "us",
        "launch_empty_grid132_block128_batch%d", batch);
  for (int big : {0, 1}) // a change of the shared-memory split between launches
    row(hot_us(
            [&] {
              empty_kernel<<<132, 128, 200 << 10>>>();
              if (big)
                store_only<<<1, 32>>>((float *)out_device());
              else
                empty_kernel<<<132, 128, 200 << 10>>>();
            },
            25) /
            2,
        "us", "launch_pair_%s", big ? "smem200KB_then_0" : "smem200KB_twice");
}

template <int REGS> static void register_rows(int *p) {
  cudaFuncAttributes a;
  CHECK(cudaFuncGetAttributes(&a, many_registers<REGS>));
  for (int grid : {132, 1024, 4096}) {
    row(hot_us([&] { many_registers<REGS><<<grid, 256>>>(p, 0); }), "us",
        "launch_regs%d_grid%d_block256", a.numRegs, grid);
  }
}

template <int COUNT> static void straight_rows(float *sink) {
  const double kb = COUNT / 64.0;
  row(hot_us([&] { straight<COUNT><<<1, 32>>>(1, out_device(), sink); }), "us",
      "launch_code%gKB_1warp", kb);
  row(hot_us([&] { straight<COUNT><<<132, 128>>>(1, out_device(), sink); }), "us",
      "launch_code%gKB_132x4warps", kb);
  row(hot_us([&] { straight<COUNT><<<132, 512>>>(1, out_device(), sink); }), "us",
      "launch_code%gKB_132x16warps", kb);
  row(cold_us([&] { straight<COUNT><<<132, 128>>>(1, out_device(), sink); }), "us",
      "launch_code%gKB_132x4warps_cold", kb);
  for (int cold : {0, 1})
    for (int threads : {32, 128}) {
      std::vector<double> first, second;
      for (int r = 0; r < 7; r++) {
        if (cold) flush_l2();
        std::vector<double> v =
            collect(4, [&](cycles_t *out) { straight<COUNT><<<132, threads>>>(4, out, sink); });
        first.push_back(v[0]);
        second.push_back(v[2]);
      }
      row(quantile(first, 0.5), "cycles", "code%gKB_%dwarps_first_pass%s", kb, threads / 32,
          cold ? "_l2cold" : "");
      if (!cold)
        row(quantile(second, 0.5), "cycles", "code%gKB_%dwarps_third_pass", kb, threads / 32);
    }
}

// The same code after other code of 256 KB has filled the instruction caches.
template <int COUNT> static void evicted_rows(float *sink) {
  for (int threads : {32, 128, 512}) {
    std::vector<double> first;
    for (int r = 0; r < 7; r++) {
      straight<16384><<<132, 32>>>(1, out_device() + 64, sink);
      first.push_back(
          collect(1, [&](cycles_t *out) { straight<COUNT><<<132, threads>>>(1, out, sink); })[0]);
    }
    row(quantile(first, 0.5), "cycles", "code%gKB_%dwarps_after_other_code", COUNT / 64.0,
        threads / 32);
  }
  row(hot_us(
          [&] {
            straight<COUNT><<<132, 128>>>(1, out_device(), sink);
            straight<16384><<<132, 32>>>(1, out_device(), sink);
          },
          20) -
          hot_us([&] { straight<16384><<<132, 32>>>(1, out_device(), sink); }, 20),
      "us", "launch_code%gKB_132x4warps_after_other_code", COUNT / 64.0);
}

__global__ void dependent_kernel(int trigger, int cycles) {
  if (trigger) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const cycles_t start = now();
  while (now() - start < cycles) {
  }
}

static void dependent_rows() {
  for (int attribute : {0, 1})
    for (int trigger : {0, 1})
      for (int cycles : {0, 4000})
        for (int grid : {1, 132}) {
          cudaLaunchConfig_t c = {};
          c.gridDim = grid;
          c.blockDim = 128;
          cudaLaunchAttribute a;
          a.id = cudaLaunchAttributeProgrammaticStreamSerialization;
          a.val.programmaticStreamSerializationAllowed = 1;
          c.attrs = &a;
          c.numAttrs = attribute;
          row(hot_us([&] { CHECK(cudaLaunchKernelEx(&c, dependent_kernel, trigger, cycles)); }),
              "us", "launch_dependent_grid%d_%dcycles%s%s", grid, cycles,
              attribute ? "_programmatic" : "", trigger ? "_trigger" : "");
        }
}

template <int BYTES> struct block_of { int words[BYTES / 4]; };
template <int BYTES>
__global__ void parameters(const __grid_constant__ block_of<BYTES> p, int *out) {
  if (p.words[0] == 12345) *out = p.words[BYTES / 4 - 1];
}

template <int BYTES> static void parameter_rows(int *p) {
  block_of<BYTES> b = {};
  row(hot_us([&] { parameters<BYTES><<<132, 128>>>(b, p); }), "us", "launch_parameters_%dB_grid132",
      BYTES);
}

static void cluster_rows() {
  for (int size : {1, 2, 4, 8})
    for (int grid : {128, 1024, 4096}) {
      cudaLaunchConfig_t c = {};
      c.gridDim = grid;
      c.blockDim = 128;
      cudaLaunchAttribute a;
      a.id = cudaLaunchAttributeClusterDimension;
      a.val.clusterDim.x = size;
      a.val.clusterDim.y = a.val.clusterDim.z = 1;
      c.attrs = &a;
      c.numAttrs = 1;
      row(hot_us([&] { CHECK(cudaLaunchKernelEx(&c, empty_kernel)); }), "us",
          "launch_empty_cluster%d_grid%d", size, grid);
    }
}

static void small_kernel_rows(float *a, float *b, int *p) {
  for (int grid : {1, 132, 264, 1024, 4096})
    for (int block : {128, 256}) {
      row(hot_us([&] { load_add_store<<<grid, block>>>(a, b); }), "us",
          "launch_ldg_fadd_stg_grid%d_block%d", grid, block);
      row(hot_us([&] { store_only<<<grid, block>>>(b); }), "us", "launch_stg_grid%d_block%d", grid,
          block);
      row(hot_us([&] { params_only<<<grid, block>>>(p, p + 1, p + 2); }), "us",
          "launch_params_grid%d_block%d", grid, block);
      row(cold_us([&] { load_add_store<<<grid, block>>>(a, b); }), "us",
          "launch_ldg_fadd_stg_grid%d_block%d_cold", grid, block);
      row(cold_us([&] { params_only<<<grid, block>>>(p, p + 1, p + 2); }), "us",
          "launch_params_grid%d_block%d_cold", grid, block);
    }
}

static void wave_rows() {
  raise(fixed_duration);
  raise(block_times);
  for (int waves = 1; waves <= 8; waves++) {
    row(hot_us([&] { fixed_duration<<<132 * waves, 128, 200 << 10>>>(2000); }), "us",
        "waves%d_1cta_128thr_200KB_2000cycles", waves);
    row(hot_us([&] { fixed_duration<<<132 * 4 * waves, 128, 50 << 10>>>(2000); }), "us",
        "waves%d_4cta_128thr_50KB_2000cycles", waves);
    row(hot_us([&] { fixed_duration<<<132 * 2 * waves, 1024>>>(2000); }), "us",
        "waves%d_2cta_1024thr_2000cycles", waves);
    row(hot_us([&] { fixed_duration<<<132 * 32 * waves, 32>>>(2000); }), "us",
        "waves%d_32cta_32thr_2000cycles", waves);
    row(hot_us([&] { fixed_duration<<<132 * 8 * waves, 256>>>(2000); }), "us",
        "waves%d_8cta_256thr_2000cycles", waves);
  }
  for (int cycles : {0, 500, 1000, 2000, 4000, 8000, 16000}) {
    row(hot_us([&] { fixed_duration<<<132, 128, 200 << 10>>>(cycles); }), "us",
        "wave1_1cta_128thr_200KB_%dcycles", cycles);
    row(hot_us([&] { fixed_duration<<<1, 128>>>(cycles); }), "us", "oneblock_128thr_%dcycles",
        cycles);
  }
  struct {
    const char *name;
    int per_sm, threads, kb;
  } v[] = {{"1cta_128thr_200KB", 1, 128, 200},   {"1cta_384thr_200KB", 1, 384, 200},
           {"1cta_1024thr_200KB", 1, 1024, 200}, {"2cta_256thr_100KB", 2, 256, 100},
           {"4cta_128thr_50KB", 4, 128, 50},     {"8cta_256thr_0KB", 8, 256, 0}};
  for (auto &c : v) {
    const int waves = 6, expected = waves * c.per_sm * 3;
    std::vector<double> t = collect(2 * expected, [&](cycles_t *out) {
      block_times<<<132 * c.per_sm * waves, c.threads, c.kb << 10>>>(2000, out, counter_device());
    });
    std::vector<std::pair<double, double>> b;
    for (size_t i = 0; i + 1 < t.size(); i += 2)
      b.push_back({t[i], t[i + 1]});
    std::sort(b.begin(), b.end());
    std::vector<double> gap;
    for (size_t i = c.per_sm; i < b.size(); i++) {
      std::vector<double>
          ends; // a block starts after some earlier one ends: the latest end before it
      for (size_t j = 0; j < i; j++)
        if (b[j].second <= b[i].first) ends.push_back(b[i].first - b[j].second);
      if (!ends.empty()) gap.push_back(quantile(ends, 0));
    }
    row(quantile(gap, 0.5), "cycles", "block_turnover_%s", c.name);
    row(quantile(gap, 0.95), "cycles", "block_turnover_%s_p95", c.name);
    row(b[c.per_sm - 1].first - b[0].first, "cycles", "block_start_spread_%s", c.name);
  }
}

int main() {
  float *a, *b;
  int *p;
  CHECK(cudaMalloc(&a, 64 << 20));
  CHECK(cudaMalloc(&b, 64 << 20));
  CHECK(cudaMalloc(&p, 1 << 20));
  CHECK(cudaMemset(a, 0, 64 << 20));
  empty_rows();
  register_rows<16>(p);
  register_rows<112>(p);
  register_rows<240>(p);
  straight_rows<16>(b);
  straight_rows<64>(b);
  straight_rows<256>(b);
  straight_rows<1024>(b);
  straight_rows<2048>(b);
  straight_rows<4096>(b);
  straight_rows<8192>(b);
  straight_rows<16384>(b);
  evicted_rows<16>(b);
  evicted_rows<256>(b);
  evicted_rows<1024>(b);
  evicted_rows<4096>(b);
  dependent_rows();
  parameter_rows<64>(p);
  parameter_rows<512>(p);
  parameter_rows<4000>(p);
  cluster_rows();
  small_kernel_rows(a, b, p);
  wave_rows();
  return 0;
}
