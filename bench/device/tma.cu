// TMA 2D loads: ring of stages as TileLang builds it, box latency, issue gap.
#include "ring.cuh"

// One thread issues and waits with `depth` boxes in flight; ring indices by division or counters.
__global__ void single_thread(const __grid_constant__ CUtensorMap map, int iterations, int bytes,
                              int depth, int rows, int wrap, int by_division, cycles_t *out) {
  extern __shared__ char raw[];
  __shared__ uint64_t bars[16];
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u, bar = shared_address(bars);
  for (int i = 0; i < depth; i++)
    barrier_init(bar + 8 * i, 1);
  barrier_fence();
  cycles_t start = now();
  int issued = 0, wait_slot = 0, wait_parity = 0, slot = 0, y = 0;
  for (int i = 0; i < iterations + depth; i++) {
    if (i >= depth) {
      const int j = i - depth;
      barrier_wait(bar + 8 * (by_division ? j % depth : wait_slot),
                   by_division ? (j / depth) & 1 : wait_parity);
      if (++wait_slot == depth) wait_slot = 0, wait_parity ^= 1;
    }
    if (issued < iterations) {
      const int b = by_division ? issued % depth : slot, row = by_division ? issued % wrap : y;
      barrier_expect(bar + 8 * b, bytes);
      tma_load(data + b * bytes, &map, 0, row * rows, bar + 8 * b);
      issued++;
      if (++slot == depth) slot = 0;
      if (++y == wrap) y = 0;
    }
  }
  out[0] = now() - start;
}

// Thread 0 issues one box, a thread of another warp spins on the barrier: issue -> seen.
__global__ void latency(const __grid_constant__ CUtensorMap map, int count, int bytes, int rows,
                        int dx, cycles_t *out) {
  extern __shared__ char raw[];
  __shared__ uint64_t bars[2];
  __shared__ volatile cycles_t issued;
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u, bar = shared_address(bars);
  if (threadIdx.x == 0) {
    barrier_init(bar, 1);
    barrier_init(bar + 8, 1);
    barrier_fence();
  }
  __syncthreads();
  for (int i = 0; i < count; i++) {
    if (threadIdx.x == 0) {
      barrier_wait(bar + 8, (i & 1) ^ 1);
      barrier_expect(bar, bytes);
      issued = now();
      tma_load(data, &map, i * dx, i * rows, bar);
    }
    if (threadIdx.x == 32) {
      barrier_wait(bar, i & 1);
      const cycles_t t = now();
      out[i] = t - issued;
      barrier_arrive(bar + 8);
    }
  }
}

// Clocks after each of eight back-to-back issues, nothing waited for: by an elected lane, or by a
// lane that the compiler cannot know to be alone.
template <int ELECTED>
__global__ void issue_gap(const __grid_constant__ CUtensorMap map, int bytes, int lane,
                          cycles_t *out) {
  extern __shared__ char raw[];
  __shared__ uint64_t bars[1];
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u, bar = shared_address(bars);
  if (threadIdx.x == 0) barrier_init(bar, 1), barrier_fence();
  __syncwarp();
  for (int round = 0; round < 3; round++) {
    if (ELECTED ? elect_one() : (int)threadIdx.x == lane) {
      barrier_expect(bar, 8 * bytes);
      cycles_t t[9];
      t[0] = now();
#pragma unroll
      for (int i = 0; i < 8; i++) {
        tma_load(data, &map, 0, 0, bar);
        t[i + 1] = now();
      }
      for (int i = 0; i < 8; i++)
        out[i] = t[i + 1] - t[0];
    }
    barrier_wait(bar, round & 1);
    __syncwarp();
  }
}

// The producer's own path: `count` boxes issued back to back by one lane, then one wait for all.
template <int COUNT>
__global__ void burst(const __grid_constant__ CUtensorMap map, int bytes, int rows, int rounds,
                      cycles_t *out) {
  extern __shared__ char raw[];
  __shared__ uint64_t bars[1];
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u, bar = shared_address(bars);
  if (threadIdx.x == 0) barrier_init(bar, 1), barrier_fence();
  __syncwarp();
  for (int r = 0; r < rounds; r++) {
    cycles_t start = now(), issued = 0;
    if (elect_one()) {
      barrier_expect(bar, COUNT * bytes);
#pragma unroll
      for (int i = 0; i < COUNT; i++)
        tma_load(data + (i & 3) * bytes, &map, 0, i * rows, bar);
      issued = now();
    }
    barrier_wait(bar, r & 1);
    const cycles_t end = now();
    if (issued) out[2 * r] = issued - start, out[2 * r + 1] = end - start;
    __syncwarp();
  }
}

// What the first accesses of a cold kernel cost: a load, then boxes of two maps (or boxes first).
__global__ void first_touch(const __grid_constant__ CUtensorMap map,
                            const __grid_constant__ CUtensorMap other, const int *word,
                            int box_first, int prefetch, int bytes, cycles_t *out) {
  extern __shared__ char raw[];
  __shared__ uint64_t bars[1];
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u, bar = shared_address(bars);
  barrier_init(bar, 1);
  barrier_fence();
  if (prefetch) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
    asm volatile("prefetch.tensormap [%0];" ::"l"(&other) : "memory");
  }
  int phase = 0, at = 0;
  for (int i = 0; i < 6; i++) {
    const cycles_t start = now();
    if (i == (box_first ? 5 : 0)) {
      int v;
      asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
      if (v == 0x7654321) out[63] = 1;
    } else {
      barrier_expect(bar, bytes);
      tma_load(data, at & 1 ? &other : &map, 0, at * 64, bar);
      barrier_wait(bar, phase);
      phase ^= 1;
      at++;
    }
    out[i] = now() - start;
  }
}

static void ring_rows(char *base) {
  static const int box[][2] = {{64, 8},   {64, 16}, {64, 32}, {64, 64},  {64, 128},
                               {64, 256}, {32, 32}, {32, 64}, {32, 128}, {32, 256},
                               {16, 128}, {8, 128}, {8, 256}};
  for (auto &b : box)
    for (int sms : {1, 132})
      for (int per_sm : {1, 2, 3, 4})
        for (int boxes : {1, 2, 3})
          for (int stages : {1, 2, 3, 4, 6, 8}) {
            const int bytes = b[0] * b[1] * 2, used = (sms == 1 ? per_sm : 132 * per_sm) * boxes;
            int wrap =
                (int)std::max<long>(1, std::min<long>(8, (16l << 20) / ((long)used * bytes)));
            ring_shape s = {160, 32, boxes, bytes, b[0], b[1], wrap, OWN_ROWS, sms == 1 ? 0 : -1,
                            128};
            CUtensorMap map = map_2d(base, 4096, 132 * 4 * 3 * 256, b[0], b[1]);
            double t = run_ring(stages, map, s, per_sm);
            if (t < 0) continue;
            row(t / boxes / per_sm, "cycles/box/SM", "tma_ring_%dx%d_sm%d_cta%d_boxes%d_stages%d",
                b[0], b[1], sms, per_sm, boxes, stages);
          }
}

// What else may matter: no swizzle, long rows, narrow tensors, one consumer thread.
static void variant_rows(char *base) {
  struct {
    const char *name;
    int columns, rows, width, swizzled, consumers;
  } v[] = {
      {"64x128_noswizzle", 64, 128, 4096, 0, 128},  {"64x128_pitch128B", 64, 128, 64, 1, 128},
      {"64x128_pitch256B", 64, 128, 128, 1, 128},   {"64x128_pitch2KB", 64, 128, 1024, 1, 128},
      {"64x128_pitch8320B", 64, 128, 4160, 1, 128}, {"256x32_rows512B", 256, 32, 4096, 0, 128},
      {"128x64_rows256B", 128, 64, 4096, 0, 128},   {"64x128_oneconsumer", 64, 128, 4096, 1, 1},
      {"64x32_oneconsumer", 64, 32, 4096, 1, 1},    {"256x256_rows512B", 256, 64, 4096, 0, 1}};
  for (auto &c : v)
    for (int sms : {1, 132}) {
      const int bytes = c.columns * c.rows * 2;
      ring_shape s = {160,
                      32,
                      1,
                      bytes,
                      c.columns,
                      c.rows,
                      std::max(1, std::min(4, c.width / c.columns)),
                      OWN_ROWS,
                      sms == 1 ? 0 : -1,
                      c.consumers};
      CUtensorMap map = map_2d(base, c.width, 132 * c.rows, c.columns, c.rows, c.swizzled);
      double t = run_ring(4, map, s, 1);
      row(t, "cycles/box/SM", "tma_ring_%s_sm%d_stages4", c.name, sms);
    }
}

static void latency_rows(char *base) {
  static const int box[][2] = {{64, 1},   {64, 8},  {64, 16},  {64, 32},  {64, 64}, {64, 128},
                               {64, 256}, {32, 32}, {32, 128}, {16, 128}, {8, 128}};
  CHECK(cudaFuncSetAttribute(latency, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  for (auto &b : box) {
    const int bytes = b[0] * b[1] * 2, n = 64;
    CUtensorMap map = map_2d(base, 4096, 65536, b[0], b[1]);
    auto hot = [&](cycles_t *out) { latency<<<1, 64, 40 << 10>>>(map, n, bytes, 0, 0, out); };
    collect(n, hot);
    std::vector<double> v = collect(n, hot);
    row(quantile(v, 0.5), "cycles", "tma_latency_%dx%d_hot", b[0], b[1]);
    auto spread = [&](cycles_t *out) { latency<<<1, 64, 40 << 10>>>(map, n, bytes, b[1], 0, out); };
    collect(n, spread);
    v = collect(n, spread);
    row(quantile(v, 0.5), "cycles", "tma_latency_%dx%d_hot_other_rows", b[0], b[1]);
    row(quantile(v, 0.05), "cycles", "tma_latency_%dx%d_hot_other_rows_p5", b[0], b[1]);
    row(quantile(v, 0.95), "cycles", "tma_latency_%dx%d_hot_other_rows_p95", b[0], b[1]);
    flush_l2();
    v = collect(n, spread);
    row(quantile(v, 0.5), "cycles", "tma_latency_%dx%d_dram", b[0], b[1]);
    row(quantile(v, 0.95), "cycles", "tma_latency_%dx%d_dram_p95", b[0], b[1]);
  }
}

static void loop_rows(char *base) {
  CHECK(
      cudaFuncSetAttribute(single_thread, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  for (int rows : {8, 64, 128})
    for (int depth : {1, 2, 4, 8})
      for (int by_division : {0, 1}) {
        CUtensorMap map = map_2d(base, 4096, 65536, 64, rows);
        double t = measure(1, 0.5, [&](cycles_t *out) {
          single_thread<<<1, 1, 180 << 10>>>(map, 256, 128 * rows, depth, rows, 4, by_division,
                                             out);
        });
        row(t / 256, "cycles/box", "tma_one_thread_64x%d_depth%d_%s", rows, depth,
            by_division ? "division" : "counters");
      }
}

static void issue_rows(char *base) {
  for (int elected : {0, 1})
    for (int rows : {8, 128}) {
      CUtensorMap map = map_2d(base, 4096, 65536, 64, rows);
      std::vector<double> v = collect(8, [&](cycles_t *out) {
        if (elected)
          issue_gap<1><<<1, 32, 36 << 10>>>(map, 128 * rows, 0, out);
        else
          issue_gap<0><<<1, 32, 36 << 10>>>(map, 128 * rows, 0, out);
      });
      for (int i : {0, 1, 3, 7})
        row(v[i], "cycles", "tma_issue_64x%d_%s_after%d", rows, elected ? "elected" : "plain",
            i + 1);
    }
}

template <int COUNT> static void burst_rows(char *base) {
  CHECK(cudaFuncSetAttribute(burst<COUNT>, cudaFuncAttributeMaxDynamicSharedMemorySize, 140 << 10));
  static const int box[][2] = {{64, 1},   {64, 8},  {64, 32},  {64, 64}, {64, 128},
                               {64, 256}, {32, 32}, {32, 128}, {8, 128}};
  for (auto &b : box) {
    CUtensorMap map = map_2d(base, 4096, 65536, b[0], b[1]);
    std::vector<double> v = collect(64, [&](cycles_t *out) {
      burst<COUNT><<<1, 32, 140 << 10>>>(map, b[0] * b[1] * 2, b[1], 32, out);
    });
    std::vector<double> issued, done;
    for (int r = 4; r < 32; r++)
      issued.push_back(v[2 * r]), done.push_back(v[2 * r + 1]);
    row(quantile(issued, 0.5), "cycles", "tma_burst%d_%dx%d_issued", COUNT, b[0], b[1]);
    row(quantile(done, 0.5), "cycles", "tma_burst%d_%dx%d_done", COUNT, b[0], b[1]);
  }
}

static void first_rows(char *base) {
  CUtensorMap map = map_2d(base, 4096, 65536, 64, 64),
              other = map_2d(base + (64 << 20), 4096, 65536, 64, 64);
  for (int cold : {0, 1})
    for (int box_first : {0, 1})
      for (int prefetch : {0, 1}) {
        std::vector<double> each[6];
        for (int r = 0; r < 5; r++) {
          if (cold) flush_l2();
          std::vector<double> v = collect(6, [&](cycles_t *out) {
            first_touch<<<1, 1, 20 << 10>>>(map, other, (const int *)(base + (128 << 20)),
                                            box_first, prefetch, 8192, out);
          });
          for (int i = 0; i < 6; i++)
            each[i].push_back(v[i]);
        }
        for (int i = 0; i < 6; i++)
          row(quantile(each[i], 0.5), "cycles", "first_touch_%s%s_%s_access%d",
              cold ? "cold" : "hot", prefetch ? "_prefetch" : "",
              box_first ? "boxes_then_load" : "load_then_boxes", i);
      }
}

// DRAM streams: what bytes in flight (stages x boxes) and box size do; every byte is read once.
static void dram_rows(char *base) {
  static const int box[][2] = {{64, 16}, {64, 32}, {64, 64}, {64, 128}, {64, 256}, {32, 128}};
  for (auto &b : box)
    for (int per_sm : {1, 2})
      for (int boxes : {1, 2})
        for (int stages : {1, 2, 3, 4, 6, 8}) {
          const int bytes = b[0] * b[1] * 2, wrap = 4096 / b[0];
          ring_shape s = {wrap, 8, boxes, bytes, b[0], b[1], wrap, OWN_ROWS, -1, 128};
          if (stages * boxes * bytes > 128 << 10 || b[1] * boxes * per_sm < 64) continue;
          flush_l2();
          double t =
              run_ring(stages, map_2d(base, 4096, 132 * 4 * 3 * 256, b[0], b[1]), s, per_sm, 1);
          if (t > 0)
            row(boxes * bytes * per_sm / t, "B/clk/SM", "tma_dram_%dx%d_cta%d_boxes%d_stages%d",
                b[0], b[1], per_sm, boxes, stages);
        }
}

int main() {
  char *base;
  const size_t bytes = (size_t)132 * 4 * 3 * 256 * 8192 + (1 << 20);
  CHECK(cudaMalloc(&base, bytes));
  CHECK(cudaMemset(base, 0, bytes));
  loop_rows(base);
  issue_rows(base);
  burst_rows<1>(base);
  burst_rows<2>(base);
  burst_rows<3>(base);
  burst_rows<4>(base);
  burst_rows<8>(base);
  first_rows(base);
  latency_rows(base);
  dram_rows(base);
  variant_rows(base);
  ring_rows(base);
  return 0;
}
