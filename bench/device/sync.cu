// Barriers, fences, elections and register reallocation.
#include <cooperative_groups.h>

#include "common.cuh"

#define REPEAT(count, ...)                                                                         \
  _Pragma("unroll") for (int i_ = 0; i_ < count; i_++) { __VA_ARGS__; }

// One instruction repeated 64 times by the first `warps` warps; out[0] = cycles of the block's span.
#define SINGLE(name, setup, ...)                                                                   \
  __global__ void name(int rounds, cycles_t *out, uint32_t *sink) {                                \
    __shared__ uint64_t bars[8];                                                                   \
    __shared__ uint32_t words[1024];                                                               \
    const uint32_t bar = shared_address(bars), word = shared_address(words) + threadIdx.x * 4;     \
    uint32_t v = threadIdx.x;                                                                      \
    if (threadIdx.x == 0) {                                                                        \
      setup;                                                                                       \
      barrier_fence();                                                                             \
    }                                                                                              \
    __syncthreads();                                                                               \
    const cycles_t start = now();                                                                  \
    for (int r = 0; r < rounds; r++)                                                               \
      REPEAT(16, __VA_ARGS__)                                                                      \
    const cycles_t end = now();                                                                    \
    if (v == 0x12345 || word == 1 || bar == 1) *sink = v;                                          \
    __syncthreads();                                                                               \
    if (threadIdx.x == 0) out[0] = end - start;                                                    \
  }

SINGLE(nothing, (void)0, asm volatile("xor.b32 %0, %0, %1;" : "+r"(v) : "r"(word)))
SINGLE(mbarrier_arrive, barrier_init(bar, 0xfffff), barrier_arrive(bar))
SINGLE(mbarrier_expect, barrier_init(bar, 0xfffff), barrier_expect(bar, 0))
SINGLE(mbarrier_try_success, barrier_init(bar, 1), v += barrier_try(bar, 1))
SINGLE(mbarrier_test_success, barrier_init(bar, 1), uint32_t ok; asm volatile(
           "{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
           : "=r"(ok)
           : "r"(bar), "r"(1)
           : "memory");
       v += ok)
SINGLE(mbarrier_wait_success, barrier_init(bar, 1), barrier_wait(bar, 1))
SINGLE(mbarrier_init_cost, (void)0, barrier_init(bar, 1))
SINGLE(arrive_and_wait, barrier_init(bar, 1), barrier_arrive(bar); barrier_wait(bar, i_ & 1))
SINGLE(block_sync, (void)0, __syncthreads())
SINGLE(named_sync, (void)0, asm volatile("bar.sync 1, %0;" ::"r"(blockDim.x) : "memory"))
SINGLE(block_sync_or, (void)0, v = __syncthreads_or(v))
SINGLE(fence_proxy_async, (void)0, asm volatile("fence.proxy.async.shared::cta;" ::: "memory"))
SINGLE(store_fence_proxy_async, (void)0,
       asm volatile("st.shared.u32 [%0], %1;" ::"r"(word), "r"(v)
                    : "memory");
       asm volatile("fence.proxy.async.shared::cta;" ::
                        : "memory"))
SINGLE(fence_cta, (void)0, asm volatile("fence.acq_rel.cta;" ::: "memory"))
SINGLE(fence_gpu, (void)0, asm volatile("fence.acq_rel.gpu;" ::: "memory"))
SINGLE(fence_sys, (void)0, asm volatile("fence.acq_rel.sys;" ::: "memory"))
SINGLE(cp_async_commit, (void)0, asm volatile("cp.async.commit_group;" ::: "memory"))
SINGLE(cp_async_commit_wait0, (void)0,
       asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::
                        : "memory"))
SINGLE(bulk_commit_wait0, (void)0,
       asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;" ::
                        : "memory"))
SINGLE(elect, (void)0, v += elect_one())
SINGLE(griddep_wait, (void)0, asm volatile("griddepcontrol.wait;" ::: "memory"))
SINGLE(griddep_launch, (void)0, asm volatile("griddepcontrol.launch_dependents;" ::: "memory"))
SINGLE(read_sm_id, (void)0, uint32_t t; asm volatile("mov.u32 %0, %%smid;"
                                                     : "=r"(t)::"memory");
       v ^= t)
SINGLE(read_clock, (void)0, v ^= (uint32_t)now())
SINGLE(read_global_timer, (void)0, uint64_t t; asm volatile("mov.u64 %0, %%globaltimer;"
                                                            : "=l"(t)::"memory");
       v ^= (uint32_t)t)

// Two groups of `threads` threads hand a phase back and forth through two mbarriers.
__global__ void ping_pong(int threads, int rounds, cycles_t *out) {
  __shared__ uint64_t bars[2];
  const uint32_t bar = shared_address(bars);
  if (threadIdx.x == 0) {
    barrier_init(bar, threads);
    barrier_init(bar + 8, threads);
    barrier_fence();
  }
  __syncthreads();
  const int group = threadIdx.x >= 128, in = threadIdx.x & 127;
  if (in >= threads) return;
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
    if (group == 0) {
      barrier_arrive(bar);
      barrier_wait(bar + 8, r & 1);
    } else {
      barrier_wait(bar, r & 1);
      barrier_arrive(bar + 8);
    }
  }
  if (threadIdx.x == 0) out[0] = now() - start;
}

// The same through named barriers (arrive in one group, sync in the other).
__global__ void named_ping_pong(int rounds, cycles_t *out) {
  const int group = threadIdx.x >= 128;
  __syncthreads();
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
    if (group == 0)
      asm volatile("bar.arrive 1, 256; bar.sync 2, 256;" ::: "memory");
    else
      asm volatile("bar.sync 1, 256; bar.arrive 2, 256;" ::: "memory");
  }
  if (threadIdx.x == 0) out[0] = now() - start;
}

// One thread stores a flag, another polls it: a hand-off through plain shared memory.
__global__ void flag_ping_pong(int rounds, cycles_t *out) {
  __shared__ volatile int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  const cycles_t start = now();
  if (threadIdx.x == 0)
    for (int r = 0; r < rounds; r++) {
      flag = 2 * r + 1;
      while (flag != 2 * r + 2) {
      }
    }
  if (threadIdx.x == 32)
    for (int r = 0; r < rounds; r++) {
      while (flag != 2 * r + 1) {
      }
      flag = 2 * r + 2;
    }
  if (threadIdx.x == 0) out[0] = now() - start;
}

__global__ void __launch_bounds__(384, 1) register_moves(cycles_t *out) {
  __syncthreads();
  cycles_t t[2];
  if (threadIdx.x < 128) {
    t[0] = now();
    asm volatile("setmaxnreg.dec.sync.aligned.u32 24;" ::: "memory");
    t[1] = now();
    if (threadIdx.x == 0) out[0] = t[1] - t[0];
  } else {
    t[0] = now();
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;" ::: "memory");
    t[1] = now();
    if (threadIdx.x == 128) out[1] = t[1] - t[0];
    if (threadIdx.x == 256) out[2] = t[1] - t[0];
  }
}

__global__ void cluster_sync(int rounds, cycles_t *out) {
  __syncthreads();
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++)
    asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (threadIdx.x == 0 && blockIdx.x == 0) out[0] = now() - start;
}

// Block 0 and the last block of a cluster arrive at each other's barriers.
__global__ void cluster_ping_pong(int rounds, cycles_t *out) {
  namespace cg = cooperative_groups;
  cg::cluster_group cluster = cg::this_cluster();
  __shared__ uint64_t bars[1];
  const uint32_t bar = shared_address(bars), last = cluster.num_blocks() - 1,
                 rank = cluster.block_rank();
  if (threadIdx.x == 0) barrier_init(bar, 1), barrier_fence();
  cluster.sync();
  if (threadIdx.x == 0 && (rank == 0 || rank == last)) {
    uint32_t remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(remote)
                 : "r"(bar), "r"(rank ? 0 : last));
    const cycles_t start = now();
    for (int r = 0; r < rounds; r++) {
      if (rank) barrier_wait(bar, r & 1);
      asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(remote)
                   : "memory");
      if (!rank) barrier_wait(bar, r & 1);
    }
    if (rank == 0) out[0] = now() - start;
  }
  cluster.sync();
}

static uint32_t *sink_device() {
  static uint32_t *p = nullptr;
  if (!p) CHECK(cudaMalloc(&p, 256));
  return p;
}

template <class F> static void single_rows(const char *name, F kernel, std::vector<int> warps) {
  for (int w : warps) {
    double t[2];
    for (int i = 0; i < 2; i++)
      t[i] = measure(
          1, 0.5, [&](cycles_t *out) { kernel<<<1, w * 32>>>(8 * (i + 1), out, sink_device()); });
    row((t[1] - t[0]) / (8 * 16), "cycles", "sync_%s_%dwarps", name, w);
  }
}

template <class F> static void cluster_rows(const char *name, F kernel) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  for (int size : {1, 2, 4, 8, 16})
    for (int threads : {32, 128, 384}) {
      cudaLaunchConfig_t c = {};
      c.gridDim = size;
      c.blockDim = threads;
      cudaLaunchAttribute a;
      a.id = cudaLaunchAttributeClusterDimension;
      a.val.clusterDim.x = size;
      a.val.clusterDim.y = a.val.clusterDim.z = 1;
      c.attrs = &a;
      c.numAttrs = 1;
      double t[2];
      for (int i = 0; i < 2; i++)
        t[i] = measure(1, 0.5, [&](cycles_t *out) {
          CHECK(cudaLaunchKernelEx(&c, kernel, 32 * (i + 1), out));
        });
      row((t[1] - t[0]) / 32, "cycles", "%s_cluster%d_%dthreads", name, size, threads);
    }
}

int main() {
  const std::vector<int> one = {1}, few = {1, 4}, many = {1, 2, 4, 8, 12, 16, 32};
  single_rows("nothing", nothing, few);
  single_rows("mbarrier_arrive", mbarrier_arrive, {1, 4, 8});
  single_rows("mbarrier_expect", mbarrier_expect, few);
  single_rows("mbarrier_try_success", mbarrier_try_success, {1, 4, 8});
  single_rows("mbarrier_test_success", mbarrier_test_success, few);
  single_rows("mbarrier_wait_success", mbarrier_wait_success, {1, 4, 8});
  single_rows("mbarrier_init", mbarrier_init_cost, one);
  single_rows("block_sync", block_sync, many);
  single_rows("named_sync", named_sync, many);
  single_rows("block_sync_or", block_sync_or, {1, 4, 8, 32});
  single_rows("fence_proxy_async", fence_proxy_async, few);
  single_rows("store_fence_proxy_async", store_fence_proxy_async, few);
  single_rows("fence_cta", fence_cta, few);
  single_rows("fence_gpu", fence_gpu, few);
  single_rows("fence_sys", fence_sys, one);
  single_rows("cp_async_commit", cp_async_commit, few);
  single_rows("cp_async_commit_wait0", cp_async_commit_wait0, few);
  single_rows("bulk_commit_wait0", bulk_commit_wait0, few);
  single_rows("elect", elect, few);
  single_rows("griddep_wait", griddep_wait, few);
  single_rows("griddep_launch", griddep_launch, few);
  single_rows("read_sm_id", read_sm_id, few);
  single_rows("read_clock", read_clock, few);
  single_rows("read_global_timer", read_global_timer, one);
  double t =
      measure(1, 0.5, [&](cycles_t *out) { arrive_and_wait<<<1, 1>>>(8, out, sink_device()); });
  row(t / 128, "cycles", "sync_arrive_and_wait_1thread");
  for (int threads : {1, 32, 128})
    row(measure(1, 0.5, [&](cycles_t *out) { ping_pong<<<1, 256>>>(threads, 64, out); }) / 128,
        "cycles", "sync_mbarrier_handoff_%dthreads", threads);
  row(measure(1, 0.5, [&](cycles_t *out) { named_ping_pong<<<1, 256>>>(64, out); }) / 128, "cycles",
      "sync_named_handoff_128threads");
  row(measure(1, 0.5, [&](cycles_t *out) { flag_ping_pong<<<1, 64>>>(64, out); }) / 128, "cycles",
      "sync_flag_handoff");
  std::vector<double> v = collect(3, [&](cycles_t *out) { register_moves<<<1, 384>>>(out); });
  v = collect(3, [&](cycles_t *out) { register_moves<<<1, 384>>>(out); });
  static const char *move[] = {"dec24", "inc240_group1", "inc240_group2"};
  for (int i = 0; i < (int)v.size(); i++)
    row(v[i], "cycles", "sync_setmaxnreg_%s", move[i]);
  cluster_rows("sync_cluster_barrier", cluster_sync);
  for (int size : {2, 4, 8, 16}) {
    cudaLaunchConfig_t c = {};
    c.gridDim = size;
    c.blockDim = 32;
    cudaLaunchAttribute a;
    a.id = cudaLaunchAttributeClusterDimension;
    a.val.clusterDim.x = size;
    a.val.clusterDim.y = a.val.clusterDim.z = 1;
    c.attrs = &a;
    c.numAttrs = 1;
    CHECK(
        cudaFuncSetAttribute(cluster_ping_pong, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    row(measure(1, 0.5,
                [&](cycles_t *out) { CHECK(cudaLaunchKernelEx(&c, cluster_ping_pong, 64, out)); }) /
            128,
        "cycles", "sync_remote_handoff_cluster%d", size);
  }
  return 0;
}
