// What a kernel's first accesses cost after 256 MB were written: a timeline of one thread.
#include "common.cuh"

enum { STAMPS = 12 };

// second_warp: another warp spins on the barrier meanwhile. order 0: boxes first; 1: a load first.
template <int ELECTED>
__global__ void timeline(const __grid_constant__ CUtensorMap map,
                         const __grid_constant__ CUtensorMap other, const int *word,
                         const int *far_word, int second_warp, int order, int bytes,
                         cycles_t *out) {
  extern __shared__ char raw[];
  __shared__ uint64_t bars[2];
  const cycles_t begin = now();
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u, bar = shared_address(bars);
  if (threadIdx.x == 0) {
    barrier_init(bar, 1);
    barrier_init(bar + 8, 1);
    barrier_fence();
  }
  __syncthreads();
  if (threadIdx.x >= 32) {
    if (second_warp && threadIdx.x == 32)
      for (int i = 0; i < 4; i++)
        barrier_wait(bar, i & 1);
    return;
  }
  if (ELECTED ? !elect_one() : threadIdx.x != 0) return;
  cycles_t t[STAMPS];
  int v, w;
  t[0] = now();
  if (order == 1) {
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(word) : "memory");
    if (v == 0x7654321) out[63] = v;
  }
  t[1] = now();
#pragma unroll
  for (int i = 0; i < 4; i++) {
    barrier_expect(bar, bytes);
    tma_load(data, i & 1 ? &other : &map, 0, (i >> 1) * 64, bar);
    t[2 + 2 * i] = now();
    barrier_wait(bar, i & 1);
    t[3 + 2 * i] = now();
  }
  asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(w) : "l"(far_word) : "memory");
  if (w == 0x7654321) out[62] = w;
  t[10] = now();
  asm volatile("st.global.u32 [%0], %1;" ::"l"(word + 4096), "r"(w) : "memory");
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  t[11] = now();
  for (int i = 0; i < STAMPS; i++)
    out[i] = t[i] - begin;
}

template <int ELECTED> static void rows_of(char *base, bool cold) {
  CUtensorMap map = map_2d(base, 4096, 16384, 64, 64),
              other = map_2d(base + (256 << 20), 4096, 16384, 64, 64);
  for (int second_warp : {0, 1})
    for (int order : {0, 1}) {
      std::vector<double> each[STAMPS];
      for (int r = 0; r < 7; r++) {
        if (cold) flush_l2();
        std::vector<double> v = collect(STAMPS, [&](cycles_t *out) {
          timeline<ELECTED><<<1, 64, 20 << 10>>>(map, other, (const int *)(base + (512 << 20)),
                                                 (const int *)(base + (700 << 20)), second_warp,
                                                 order, 8192, out);
        });
        for (int i = 0; i < STAMPS; i++)
          each[i].push_back(v[i]);
      }
      static const char *stamp[STAMPS] = {"start",  "load", "issue1", "box1", "issue2", "box2",
                                          "issue3", "box3", "issue4", "box4", "load2",  "store"};
      for (int i = 0; i < STAMPS; i++) {
        row(quantile(each[i], 0.5), "cycles", "timeline_%s_%s%s_%s_%s", cold ? "cold" : "hot",
            ELECTED ? "elected" : "plain", second_warp ? "_watched" : "",
            order ? "load_first" : "boxes_first", stamp[i]);
      }
    }
}

int main() {
  char *base;
  CHECK(cudaMalloc(&base, (size_t)1 << 30));
  CHECK(cudaMemset(base, 0, (size_t)1 << 30));
  rows_of<1>(base, false);
  rows_of<1>(base, true);
  rows_of<0>(base, false);
  rows_of<0>(base, true);
  return 0;
}
