// What the device programs share: checked calls, medians, result rows, PTX wrappers, tensor maps.
// A result row is "name,value,unit" on standard output.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t status_ = (call);                                                                  \
    if (status_ != cudaSuccess) {                                                                  \
      printf("# error,%s:%d,%s\n", __FILE__, __LINE__, cudaGetErrorString(status_));               \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

typedef long long cycles_t;
enum { SM_COUNT = 132, MAX_OUT = 1 << 16 };

static void row(double value, const char *unit, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  printf(",%.3f,%s\n", value, unit);
}

static double quantile(std::vector<double> v, double q) {
  if (v.empty()) return -1;
  std::sort(v.begin(), v.end());
  return v[std::min(v.size() - 1, (size_t)(q * (double)v.size()))];
}

static cycles_t *out_device() {
  static cycles_t *p = nullptr;
  if (!p) CHECK(cudaMalloc(&p, MAX_OUT * sizeof(cycles_t)));
  return p;
}

// Runs launch(out) and returns what it wrote at out[0..count); entries left at -1 are dropped.
template <class F> static std::vector<double> collect(int count, F launch) {
  CHECK(cudaMemset(out_device(), 0xff, count * sizeof(cycles_t)));
  launch(out_device());
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<cycles_t> host(count);
  CHECK(cudaMemcpy(host.data(), out_device(), count * sizeof(cycles_t), cudaMemcpyDeviceToHost));
  std::vector<double> v;
  for (cycles_t c : host)
    if (c != -1) v.push_back((double)c);
  return v;
}

// Median over repetitions of the q-quantile over the written entries.
template <class F> static double measure(int count, double q, F launch, int reps = 5) {
  std::vector<double> v;
  for (int r = 0; r < reps; r++)
    v.push_back(quantile(collect(count, launch), q));
  return quantile(v, 0.5);
}

static void flush_l2() {
  static char *p = nullptr;
  const size_t bytes = 256u << 20;
  if (!p) CHECK(cudaMalloc(&p, bytes));
  CHECK(cudaMemset(p, 1, bytes));
}

static unsigned *counter_device() {
  static unsigned *p = nullptr;
  if (!p) CHECK(cudaMalloc(&p, 256));
  CHECK(cudaMemset(p, 0, 256));
  return p;
}

typedef CUresult (*encode_tiled_fn)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *,
                                    const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                                    const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                                    CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// A 2D map of f16 (or f32) elements: columns x rows, box_columns x box_rows. The swizzle follows
// from the box row: 128, 64 or 32 bytes, else none.
static CUtensorMap map_2d(void *base, uint64_t columns, uint64_t rows, uint32_t box_columns,
                          uint32_t box_rows, bool swizzled = true, bool f32 = false) {
  static encode_tiled_fn encode = nullptr;
  if (!encode) {
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", (void **)&encode, 12000,
                                           cudaEnableDefault, &found));
  }
  const uint32_t elem = f32 ? 4 : 2, row_bytes = box_columns * elem;
  CUtensorMapSwizzle swizzle = row_bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                               : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                               : row_bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                 : CU_TENSOR_MAP_SWIZZLE_NONE;
  if (!swizzled) swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  cuuint64_t dims[2] = {columns, rows}, strides[1] = {columns * elem};
  cuuint32_t box[2] = {box_columns, box_rows}, steps[2] = {1, 1};
  CUtensorMap map;
  CUresult r = encode(&map, f32 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
                      2, base, dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (r) printf("# error,tensor map,%d\n", (int)r);
  return map;
}

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
  return (uint32_t)__cvta_generic_to_shared(p);
}
static __device__ __forceinline__ cycles_t now() {
  cycles_t c;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(c)::"memory");
  return c;
}
static __device__ __forceinline__ uint32_t sm_id() {
  uint32_t r;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(r));
  return r;
}
static __device__ __forceinline__ void barrier_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
static __device__ __forceinline__ void barrier_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
static __device__ __forceinline__ void barrier_arrive(uint32_t bar) {
  asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" ::"r"(bar) : "memory");
}
static __device__ __forceinline__ void barrier_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("{.reg .b64 t; mbarrier.arrive.expect_tx.shared.b64 t, [%0], %1;}" ::"r"(bar),
               "r"(bytes)
               : "memory");
}
static __device__ __forceinline__ bool barrier_try(uint32_t bar, uint32_t parity) {
  uint32_t ok;
  asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
               " selp.u32 %0, 1, 0, p;}"
               : "=r"(ok)
               : "r"(bar), "r"(parity)
               : "memory");
  return ok;
}
static __device__ __forceinline__ void barrier_wait(uint32_t bar, uint32_t parity) {
  while (!barrier_try(bar, parity)) {
  }
}
static __device__ __forceinline__ void tma_load(uint32_t dst, const CUtensorMap *map, int x, int y,
                                                uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%2, %3}], [%4];" ::"r"(dst),
               "l"(map), "r"(x), "r"(y), "r"(bar)
               : "memory");
}
// One lane of the warp, chosen the way that lets ptxas issue TMA without a loop over lanes.
static __device__ __forceinline__ bool elect_one() {
  uint32_t ok;
  asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(ok));
  return ok;
}
// All blocks of a grid that fits the chip at once meet here.
static __device__ __forceinline__ void grid_meet(unsigned *counter, unsigned blocks) {
  __syncthreads();
  if (threadIdx.x == 0) {
    atomicAdd(counter, 1);
    while (*(volatile unsigned *)counter < blocks) {
    }
  }
  __syncthreads();
}
