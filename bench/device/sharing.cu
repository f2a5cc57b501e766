// Level 2 to SM by TMA when blocks share tiles, on all SMs and on fewer, and which SMs share a GPC.
#include <map>
#include <set>
#include <string>

#include "ring.cuh"

// Level 2 to SM by TMA: two 64x128 boxes a stage, four stages.
static void bandwidth_rows(char *base) {
  CUtensorMap map;
  ring_shape s = {0, 0, 2, 16384, 64, 128, 0, OWN_ROWS, -1, 128};
  for (int wrap : {2, 4, 6, 8, 10, 12, 14, 16, 20, 128}) {
    map = map_2d(base, 64 * wrap, 264 * 128, 64, 128);
    s.wrap = wrap;
    s.iterations = wrap == 128 ? 128 : 20 * wrap;
    s.warm = wrap == 128 ? 8 : 2 * wrap;
    if (wrap == 128) flush_l2();
    double t = run_ring(4, map, s, 1);
    row(32768 / t, "B/clk/SM", "l2_tma_own_%.0fMB", 132 * 32768.0 * wrap / 1048576);
  }
  for (int pattern : {GEMM_PANELS, SAME_TILE})
    for (int stages : {2, 4, 6}) {
      map = map_2d(base, 4096, 32 * 128, 64, 128);
      s.pattern = pattern;
      s.wrap = 64;
      s.iterations = 64 * 6;
      s.warm = 64;
      double t = run_ring(stages, map, s, 1);
      row(32768 / t, "B/clk/SM", "l2_tma_%s_stages%d",
          pattern == GEMM_PANELS ? "gemm12x11" : "same", stages);
      s.iterations = 64;
      s.warm = 8;
      std::vector<double> v;
      for (int r = 0; r < 5; r++) {
        flush_l2();
        v.push_back(run_ring(stages, map, s, 1, 1));
      }
      row(32768 / quantile(v, 0.5), "B/clk/SM", "l2_tma_%s_stages%d_onepass",
          pattern == GEMM_PANELS ? "gemm12x11" : "same", stages);
    }
}

// The same on fewer SMs: own data, and panels shared by a grid eight columns wide.
static void few_rows(char *base) {
  CUtensorMap map = map_2d(base, 4096, 264 * 128, 64, 128);
  for (int blocks : {1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128}) {
    ring_shape s = {192, 64, 2, 16384, 64, 128, 4, OWN_ROWS, -1, 128, blocks, 0};
    row(32768 / run_ring(4, map, s, 1), "B/clk/SM", "l2_tma_own_%dSM", blocks);
    s.pattern = GEMM_PANELS, s.wrap = 64, s.iterations = 384, s.columns = std::min(blocks, 8);
    row(32768 / run_ring(4, map, s, 1), "B/clk/SM", "l2_tma_panels_%dSM", blocks);
    s.iterations = 64, s.warm = 8;
    row(32768 / run_ring(4, map, s, 1), "B/clk/SM", "l2_tma_panels_%dSM_onepass", blocks);
    flush_l2();
    row(32768 / run_ring(4, map, s, 1, 1), "B/clk/SM", "l2_tma_panels_%dSM_onepass_dram", blocks);
  }
}

// Blocks that share every box with group - 1 others: by quotient (neighbours in the launch order) and
// by remainder (every group-th). Two boxes of 16 KB a stage, four stages.
static void group_rows(char *base) {
  CUtensorMap map = map_2d(base, 4096, 264 * 128, 64, 128);
  for (int by_remainder : {0, 1})
    for (int sharers : {2, 4, 8, 11, 12, 16, 22, 33, 44, 66}) {
      const int group = by_remainder ? 132 / sharers : sharers;
      ring_shape s = {320, 64,  2, 16384, 64, 128, 8, by_remainder ? SAME_REMAINDER : SAME_QUOTIENT,
                      -1,  128, 0, group};
      row(32768 / run_ring(4, map, s, 1), "B/clk/SM", "l2_tma_shared_by_%d_%s", sharers,
          by_remainder ? "apart" : "neighbours");
    }
  for (int modulus : {2, 4, 6, 7, 8, 9, 14, 16, 18}) {
    ring_shape s = {320, 64, 2, 16384, 64, 128, 8, SAME_REMAINDER, -1, 128, 0, modulus};
    row(32768 / run_ring(4, map, s, 1), "B/clk/SM", "l2_tma_shared_modulo_%d", modulus);
  }
}

__global__ void place(cycles_t *out) {
  const cycles_t start = now();
  while (now() - start < 20000) {
  }
  if (threadIdx.x == 0) out[blockIdx.x] = sm_id();
}

// The SM of each block of a grid that fills the chip once, and the sets of SMs that clusters join.
static void place_rows() {
  CHECK(cudaFuncSetAttribute(place, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
  std::vector<double> at[3]; // one, two and four blocks per SM
  for (int i = 0; i < 3; i++) {
    const int blocks = SM_COUNT << i, smem = (200 << 10) / (1 << i);
    at[i] = collect(blocks, [&](cycles_t *out) { place<<<blocks, 32, smem>>>(out); });
  }
  CHECK(cudaFuncSetAttribute(place, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  std::vector<int> leader(SM_COUNT);
  for (int i = 0; i < SM_COUNT; i++)
    leader[i] = i;
  auto find = [&](int i) {
    while (leader[i] != i)
      i = leader[i];
    return i;
  };
  for (int round = 0; round < 40; round++)
    for (int size : {2, 4, 8, 16}) {
      cudaLaunchConfig_t c = {};
      c.gridDim = 128;
      c.blockDim = 32;
      c.dynamicSmemBytes = 200 << 10;
      cudaLaunchAttribute a;
      a.id = cudaLaunchAttributeClusterDimension;
      a.val.clusterDim.x = size;
      a.val.clusterDim.y = a.val.clusterDim.z = 1;
      c.attrs = &a;
      c.numAttrs = 1;
      std::vector<double> v =
          collect(128, [&](cycles_t *out) { CHECK(cudaLaunchKernelEx(&c, place, out)); });
      for (int i = 0; i < 128; i++)
        leader[find((int)v[i])] = find((int)v[i / size * size]);
    }
  std::map<int, int> name;
  for (int i = 0; i < SM_COUNT; i++)
    name.insert({find(i), (int)name.size()});
  for (int i = 0; i < SM_COUNT; i++)
    row(name[find(i)], "set", "gpc_of_sm%d", i);
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < SM_COUNT << p; i++)
      row(at[p][i], "SM", "place_%dper_sm_block%d", 1 << p, i);
}

int main() {
  char *base;
  const size_t bytes = (size_t)264 * 128 * 16384 + (1 << 20);
  CHECK(cudaMalloc(&base, bytes));
  CHECK(cudaMemset(base, 0, bytes));
  place_rows();
  bandwidth_rows(base);
  few_rows(base);
  group_rows(base);
  return 0;
}
