// The ring of TMA loads that TileLang builds, as a benchmark kernel, and its launcher.
#pragma once
#include "common.cuh"

// Which rows a block loads: its own, a GEMM's panels, those of all, or those of the blocks with equal
// block / group or block % group.
enum pattern { OWN_ROWS, GEMM_PANELS, SAME_TILE, SAME_QUOTIENT, SAME_REMAINDER };

struct ring_shape {
  int iterations, warm, boxes, box_bytes, box_columns, box_rows, wrap, pattern, only_sm, consumers;
  int blocks, columns; // 0: all SMs, 12 x 11 panels; else so many blocks, `columns` panels wide
};

static __device__ __forceinline__ int box_row(const ring_shape &s, int b) {
  const int block = blockIdx.x;
  const int columns = s.columns ? s.columns : 11;
  if (s.pattern == GEMM_PANELS) return (b ? 16 + block % columns : block / columns) * s.box_rows;
  if (s.pattern == SAME_TILE) return b * s.box_rows;
  if (s.pattern == SAME_QUOTIENT) return (block / columns * s.boxes + b) * s.box_rows;
  if (s.pattern == SAME_REMAINDER) return (block % columns * s.boxes + b) * s.box_rows;
  return (block * s.boxes + b) * s.box_rows;
}

// Warps 0-3 produce (one elected lane of warp 0 issues), warps 4-7 consume; barriers, election and
// the unrolling over the stages are those of TileLang's kernels. Iterations: a multiple of STAGES.
template <int STAGES, int BOXES>
__global__ void __launch_bounds__(256)
    ring(const __grid_constant__ CUtensorMap map, ring_shape s, unsigned *counter, cycles_t *out) {
  extern __shared__ char raw[];
  __shared__ uint64_t bars[2 * STAGES];
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u, full = shared_address(bars),
                 empty = full + 8 * STAGES;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      barrier_init(full + 8 * i, 1);
      barrier_init(empty + 8 * i, s.consumers);
    }
    barrier_fence();
  }
  grid_meet(counter, gridDim.x);
  if (s.only_sm >= 0 && (int)sm_id() != s.only_sm) return;
  const int warp = __shfl_sync(0xffffffff, threadIdx.x >> 5, 0);
  if (warp < 4) {
    int rows[BOXES], x = 0, step = 0, parity = 1;
#pragma unroll
    for (int b = 0; b < BOXES; b++)
      rows[b] = box_row(s, b);
    for (int k = 0; k < s.iterations; k += STAGES, parity ^= 1) {
#pragma unroll
      for (int stage = 0; stage < STAGES; stage++) {
        barrier_wait(empty + 8 * stage, parity);
        if (warp == 0 && elect_one()) {
          barrier_expect(full + 8 * stage, BOXES * s.box_bytes);
          const uint32_t dst = data + stage * BOXES * s.box_bytes;
#pragma unroll
          for (int b = 0; b < BOXES; b++)
            tma_load(dst + b * s.box_bytes, &map, x, rows[b], full + 8 * stage);
        }
        x += s.box_columns;
        if (++step == s.wrap) step = 0, x = 0;
      }
    }
  } else if (s.consumers == 128 || threadIdx.x == 128) {
    int parity = 0;
    cycles_t start = 0;
    for (int k = 0; k < s.iterations; k += STAGES, parity ^= 1) {
#pragma unroll
      for (int stage = 0; stage < STAGES; stage++) {
        barrier_wait(full + 8 * stage, parity);
        if (stage == 0 && k == s.warm) start = now();
        barrier_arrive(empty + 8 * stage);
      }
    }
    if (threadIdx.x == 128) out[blockIdx.x] = now() - start;
  }
}

template <int STAGES, int BOXES>
static double run_ring(const CUtensorMap &map, ring_shape s, int per_sm, int reps) {
  const int need = STAGES * BOXES * s.box_bytes + 1024, room = 227 * 1024;
  const int grid = s.blocks ? s.blocks : SM_COUNT * per_sm;
  const int smem = (per_sm == 1 ? room - 1024 : room / per_sm - 2048) & ~127;
  if (need > smem) return -1;
  s.iterations = (s.iterations + STAGES - 1) / STAGES * STAGES;
  s.warm = (s.warm + STAGES - 1) / STAGES * STAGES;
  CHECK(
      cudaFuncSetAttribute(ring<STAGES, BOXES>, cudaFuncAttributeMaxDynamicSharedMemorySize, smem));
  return measure(
             grid, 0.5,
             [&](cycles_t *out) {
               ring<STAGES, BOXES><<<grid, 256, smem>>>(map, s, counter_device(), out);
             },
             reps) /
         (s.iterations - s.warm);
}

template <int BOXES>
static double run_ring(int stages, const CUtensorMap &map, ring_shape s, int per_sm, int reps) {
  switch (stages) {
  case 1: return run_ring<1, BOXES>(map, s, per_sm, reps);
  case 2: return run_ring<2, BOXES>(map, s, per_sm, reps);
  case 3: return run_ring<3, BOXES>(map, s, per_sm, reps);
  case 4: return run_ring<4, BOXES>(map, s, per_sm, reps);
  case 6: return run_ring<6, BOXES>(map, s, per_sm, reps);
  default: return run_ring<8, BOXES>(map, s, per_sm, reps);
  }
}

// Cycles per stage, or -1 when the stages do not fit.
static double run_ring(int stages, const CUtensorMap &map, ring_shape s, int per_sm, int reps = 3) {
  return s.boxes == 1   ? run_ring<1>(stages, map, s, per_sm, reps)
         : s.boxes == 2 ? run_ring<2>(stages, map, s, per_sm, reps)
         : s.boxes == 3 ? run_ring<3>(stages, map, s, per_sm, reps)
                        : run_ring<4>(stages, map, s, per_sm, reps);
}
