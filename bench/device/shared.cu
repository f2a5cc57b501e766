// Shared memory: loads and stores of 4, 8 and 16 bytes by stride, ldmatrix and stmatrix, atomics.
#include "common.cuh"

enum access { LOAD, STORE, CHAIN };

template <int WORDS, int ACCESS>
static __device__ __forceinline__ void access(uint32_t a, uint32_t *v) {
  if (ACCESS == STORE) {
    if (WORDS == 1) asm volatile("st.shared.u32 [%0], %1;" ::"r"(a), "r"(v[0]) : "memory");
    if (WORDS == 2)
      asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(a), "r"(v[0]), "r"(v[1]) : "memory");
    if (WORDS == 4)
      asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(a), "r"(v[0]), "r"(v[1]),
                   "r"(v[2]), "r"(v[3])
                   : "memory");
  } else {
    if (WORDS == 1) asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v[0]) : "r"(a) : "memory");
    if (WORDS == 2)
      asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v[0]), "=r"(v[1]) : "r"(a) : "memory");
    if (WORDS == 4)
      asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                   : "r"(a)
                   : "memory");
  }
}

// Eight accesses a round, each at its own address (the same banks), all results used.
template <int WORDS, int ACCESS>
__global__ void __launch_bounds__(1024)
    strided(int stride_words, int rounds, cycles_t *out, uint32_t *sink) {
  extern __shared__ uint32_t data[];
  __shared__ cycles_t first, last;
  for (int i = threadIdx.x; i < 24576; i += blockDim.x)
    data[i] = 0;
  if (threadIdx.x == 0) first = INT64_MAX, last = 0;
  __syncthreads();
  const int lane = threadIdx.x & 31;
  uint32_t a = shared_address(data) + (lane * stride_words * 4) % 65536, v[8][4] = {};
  if (ACCESS != CHAIN) a += (threadIdx.x >> 5) * 128;
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int u = 0; u < 8; u++) {
      access<WORDS, ACCESS>(a + (ACCESS == CHAIN ? 0 : u * 4096), v[u]);
      if (ACCESS == CHAIN) a += v[u][WORDS - 1];
    }
    if (ACCESS == LOAD) {
#pragma unroll
      for (int u = 0; u < 8; u++)
        a += v[u][0] ^ v[u][WORDS - 1] ^ v[u][WORDS / 2];
    }
  }
  if (a == 0x12345) *sink = a;
  const cycles_t end = now();
  if (lane == 0) {
    atomicMin((unsigned long long *)&first, (unsigned long long)start);
    atomicMax((unsigned long long *)&last, (unsigned long long)end);
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = last - first;
}

template <int N, int TRANSPOSED>
static __device__ __forceinline__ void load_matrix(uint32_t a, uint32_t *v) {
  if (N == 1 && !TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                 : "=r"(v[0])
                 : "r"(a)
                 : "memory");
  if (N == 2 && !TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(v[0]), "=r"(v[1])
                 : "r"(a)
                 : "memory");
  if (N == 4 && !TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(a)
                 : "memory");
  if (N == 4 && TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(a)
                 : "memory");
}

template <int N, int TRANSPOSED, int CHAINED>
__global__ void matrices(int row_bytes, int rounds, cycles_t *out, uint32_t *sink) {
  extern __shared__ uint32_t data[];
  for (int i = threadIdx.x; i < 24576; i += blockDim.x)
    data[i] = 0;
  __syncthreads();
  uint32_t a = shared_address(data) + (threadIdx.x & 31) * row_bytes, v[8][4] = {};
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int u = 0; u < 8; u++) {
      load_matrix<N, TRANSPOSED>(a + (CHAINED ? 0 : u * 8192), v[u]);
      if (CHAINED) a += v[u][N - 1];
    }
    if (!CHAINED) {
#pragma unroll
      for (int u = 0; u < 8; u++)
        a += v[u][0] ^ v[u][N - 1] ^ v[u][N / 2];
    }
  }
  if (a == 0x12345) *sink = a;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = now() - start;
}

template <int N> __global__ void store_matrices(int row_bytes, int rounds, cycles_t *out) {
  extern __shared__ uint32_t data[];
  const uint32_t a = shared_address(data) + (threadIdx.x & 31) * row_bytes, v = threadIdx.x;
  __syncthreads();
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int u = 0; u < 8; u++) {
      const uint32_t at = a + u * 8192;
      if (N == 1)
        asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" ::"r"(at), "r"(v)
                     : "memory");
      if (N == 2)
        asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %1};" ::"r"(at), "r"(v)
                     : "memory");
      if (N == 4)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %1, %1, %1};" ::"r"(at),
                     "r"(v)
                     : "memory");
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = now() - start;
}

enum atomic { ADD_U32, ADD_F32, ADD_F16X2, MAX_S32, ADD_U32_RETURN };
template <int KIND>
__global__ void shared_atomics(int stride_words, int rounds, cycles_t *out, uint32_t *sink) {
  extern __shared__ uint32_t data[];
  for (int i = threadIdx.x; i < 24576; i += blockDim.x)
    data[i] = 0;
  __syncthreads();
  const uint32_t a = shared_address(data) + (threadIdx.x & 31) * stride_words * 4;
  uint32_t v = threadIdx.x + 1;
  const cycles_t start = now();
#pragma unroll 4
  for (int r = 0; r < rounds; r++) {
    if (KIND == ADD_U32) asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(a), "r"(v) : "memory");
    if (KIND == ADD_F32)
      asm volatile("red.shared.add.f32 [%0], %1;" ::"r"(a), "f"(1.0f) : "memory");
    if (KIND == ADD_F16X2)
      asm volatile("{.reg .b32 t; atom.shared.add.noftz.f16x2 t, [%0], %1;}" ::"r"(a), "r"(v)
                   : "memory");
    if (KIND == MAX_S32) asm volatile("red.shared.max.s32 [%0], %1;" ::"r"(a), "r"(v) : "memory");
    if (KIND == ADD_U32_RETURN)
      asm volatile("atom.shared.add.u32 %0, [%1], %0;" : "+r"(v) : "r"(a) : "memory");
  }
  if (v == 0x12345) *sink = v;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = now() - start;
}

enum { SMEM = 160 << 10 };

template <class F> static double slope(F launch, int rounds) {
  double t[2];
  for (int i = 0; i < 2; i++)
    t[i] = measure(1, 0.5, [&](cycles_t *out) { launch(out, rounds * (i + 1)); });
  CHECK(cudaGetLastError());
  return (t[1] - t[0]) / rounds;
}

template <class F> static void raise(F kernel) {
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SMEM));
}

template <int WORDS, int ACCESS> static void strided_rows(uint32_t *sink) {
  static const char *kind[] = {"lds", "sts", "lds_chain"};
  raise(strided<WORDS, ACCESS>);
  for (int stride : {0, 1, 2, 3, 4, 5, 8, 12, 16, 20, 32, 33, 36, 64})
    for (int warps : {1, 4, 8}) {
      if (stride % WORDS || (ACCESS == CHAIN && (warps > 1 || stride > 36))) continue;
      double t = slope(
          [&](cycles_t *out, int n) {
            strided<WORDS, ACCESS><<<1, warps * 32, SMEM>>>(stride, n, out, sink);
          },
          64);
      row(t / 8 / warps, ACCESS == CHAIN ? "cycles" : "cycles/warp-inst/SM",
          "%s%d_stride%d_%dwarps", kind[ACCESS], WORDS * 32, stride, warps);
    }
}

template <int N, int TRANSPOSED> static void matrix_rows(uint32_t *sink) {
  auto apart = matrices<N, TRANSPOSED, 0>, chained = matrices<N, TRANSPOSED, 1>;
  raise(apart);
  raise(chained);
  const char *trans = TRANSPOSED ? "_trans" : "";
  for (int row_bytes : {16, 32, 64, 128, 80, 144}) {
    for (int warps : {1, 4, 8, 16, 32}) {
      double t = slope(
          [&](cycles_t *out, int n) { apart<<<1, warps * 32, SMEM>>>(row_bytes, n, out, sink); },
          64);
      row(t / 8 / warps, "cycles/warp-inst/SM", "ldmatrix_x%d%s_row%dB_%dwarps", N, trans,
          row_bytes, warps);
    }
    double t =
        slope([&](cycles_t *out, int n) { chained<<<1, 32, SMEM>>>(row_bytes, n, out, sink); }, 64);
    row(t / 8, "cycles", "ldmatrix_x%d%s_row%dB_chain", N, trans, row_bytes);
  }
}

template <int N> static void store_matrix_rows() {
  raise(store_matrices<N>);
  for (int row_bytes : {16, 32, 64, 128, 80, 144})
    for (int warps : {1, 8}) {
      double t =
          slope([&](cycles_t *out,
                    int n) { store_matrices<N><<<1, warps * 32, SMEM>>>(row_bytes, n, out); },
                64);
      row(t / 8 / warps, "cycles/warp-inst/SM", "stmatrix_x%d_row%dB_%dwarps", N, row_bytes, warps);
    }
}

template <int KIND> static void atomic_rows(const char *name, uint32_t *sink) {
  raise(shared_atomics<KIND>);
  for (int stride : {0, 1, 2, 8, 32})
    for (int warps : {1, 8}) {
      double t =
          slope([&](cycles_t *out,
                    int n) { shared_atomics<KIND><<<1, warps * 32, SMEM>>>(stride, n, out, sink); },
                64);
      row(t / warps, "cycles/warp-inst/SM", "shared_%s_stride%d_%dwarps", name, stride, warps);
    }
}

int main() {
  uint32_t *sink;
  CHECK(cudaMalloc(&sink, 256));
  strided_rows<1, LOAD>(sink);
  strided_rows<2, LOAD>(sink);
  strided_rows<4, LOAD>(sink);
  strided_rows<1, STORE>(sink);
  strided_rows<2, STORE>(sink);
  strided_rows<4, STORE>(sink);
  strided_rows<1, CHAIN>(sink);
  strided_rows<2, CHAIN>(sink);
  strided_rows<4, CHAIN>(sink);
  matrix_rows<1, 0>(sink);
  matrix_rows<2, 0>(sink);
  matrix_rows<4, 0>(sink);
  matrix_rows<4, 1>(sink);
  store_matrix_rows<1>();
  store_matrix_rows<2>();
  store_matrix_rows<4>();
  atomic_rows<ADD_U32>("red_add_u32", sink);
  atomic_rows<ADD_F32>("red_add_f32", sink);
  atomic_rows<ADD_F16X2>("atom_add_f16x2", sink);
  atomic_rows<MAX_S32>("red_max_s32", sink);
  atomic_rows<ADD_U32_RETURN>("atom_add_u32", sink);
  return 0;
}
