// Global atomics (red and atom) by address pattern, TMA stores and reduce-adds.
#include "common.cuh"

enum kind {
  RED_F32,
  RED_U32,
  RED_F16X2,
  RED_V2_F32,
  RED_V4_F32,
  RED_MAX_S32,
  ATOM_F32,
  ATOM_U32,
  KINDS
};
static const char *const kind_name[] = {"red_f32",    "red_u32",     "red_f16x2", "red_v2_f32",
                                        "red_v4_f32", "red_max_s32", "atom_f32",  "atom_u32"};
static const int kind_bytes[] = {4, 4, 4, 8, 16, 4, 4, 4};

template <int KIND> static __device__ __forceinline__ void apply(char *p, uint32_t &v) {
  const float f = 1.0f;
  if (KIND == RED_F32) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(p), "f"(f) : "memory");
  if (KIND == RED_U32) asm volatile("red.global.add.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
  if (KIND == RED_F16X2)
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" ::"l"(p), "r"(v) : "memory");
  if (KIND == RED_V2_F32)
    asm volatile("red.global.add.v2.f32 [%0], {%1, %1};" ::"l"(p), "f"(f) : "memory");
  if (KIND == RED_V4_F32)
    asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(p), "f"(f) : "memory");
  if (KIND == RED_MAX_S32) asm volatile("red.global.max.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
  if (KIND == ATOM_F32)
    asm volatile("{.reg .f32 t; atom.global.add.f32 t, [%1], %2; mov.b32 %0, t;}"
                 : "+r"(v)
                 : "l"(p), "f"(f)
                 : "memory");
  if (KIND == ATOM_U32)
    asm volatile("atom.global.add.u32 %0, [%1], %0;" : "+r"(v) : "l"(p) : "memory");
}

// Thread i of the grid works at base + (i % span) * stride + round * advance (wrapping in 16 MB).
template <int KIND>
__global__ void atomics(char *base, uint32_t span, uint32_t stride, uint32_t advance, int rounds,
                        unsigned *counter, cycles_t *out) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  char *p = base + (size_t)(i % span) * stride;
  uint32_t v = 1;
  grid_meet(counter, gridDim.x);
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
    apply<KIND>(p, v);
    p += advance;
  }
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = now() - start + (v == 0x12345);
}

template <int KIND> __global__ void atomic_chain(char *base, int rounds, cycles_t *out) {
  uint32_t v = 1;
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
    apply<KIND>(base + (v & 4), v);
  }
  out[0] = now() - start + (v == 0x12345);
}

// One elected lane stores (or adds) boxes: time to issue, to read-done and to complete.
template <int ADD>
__global__ void store_latency(const __grid_constant__ CUtensorMap map, int boxes, int bytes,
                              int rows, int rounds, cycles_t *out) {
  extern __shared__ char raw[];
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u;
  for (int r = 0; r < rounds; r++) {
    if (!elect_one()) continue;
    cycles_t t[4];
    t[0] = now();
    for (int b = 0; b < boxes; b++) {
      if (ADD)
        asm volatile(
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::
                "l"(&map),
            "r"(0), "r"(b * rows), "r"(data)
            : "memory");
      else
        asm volatile(
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
                &map),
            "r"(0), "r"(b * rows), "r"(data)
            : "memory");
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    t[1] = now();
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    t[2] = now();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    t[3] = now();
    for (int i = 0; i < 3; i++)
      out[r * 3 + i] = t[i + 1] - t[0];
  }
}

// Stores in a ring of `pending` boxes; block b writes its own rows.
template <int ADD>
__global__ void store_stream(const __grid_constant__ CUtensorMap map, int bytes, int rows, int own,
                             int columns, int wrap, int rounds, unsigned *counter, cycles_t *out) {
  extern __shared__ char raw[];
  const uint32_t data = (shared_address(raw) + 1023) & ~1023u;
  grid_meet(counter, gridDim.x);
  const int y = own ? blockIdx.x * rows : 0;
  const cycles_t start = now();
  int x = 0, step = 0;
  if (elect_one()) {
    for (int r = 0; r < rounds; r++) {
      const uint32_t from = data + (r & 3) * bytes;
      if (ADD)
        asm volatile(
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::
                "l"(&map),
            "r"(x), "r"(y), "r"(from)
            : "memory");
      else
        asm volatile(
            "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
                &map),
            "r"(x), "r"(y), "r"(from)
            : "memory");
      asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 3;" ::: "memory");
      x += columns;
      if (++step == wrap) step = 0, x = 0;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    out[blockIdx.x] = now() - start;
  }
}

// Ordinary stores: a warp's instruction writes 32 x bytes, in rows of `row_bytes` that lie `pitch` apart.
template <int BYTES>
__global__ void __launch_bounds__(512)
    plain_stores(char *base, int row_bytes, int pitch, int rounds, size_t slice, unsigned *counter,
                 cycles_t *out) {
  const int lane = threadIdx.x & 31, per_row = row_bytes / BYTES;
  char *p = base + slice * blockIdx.x + (size_t)(threadIdx.x >> 5) * (32 / per_row) * pitch +
            (lane / per_row) * (size_t)pitch + lane % per_row * BYTES;
  grid_meet(counter, gridDim.x);
  const cycles_t start = now();
  int column = 0;
  for (int r = 0; r < rounds; r++) {
    if (BYTES == 4) asm volatile("st.global.u32 [%0], %1;" ::"l"(p + column), "r"(r) : "memory");
    if (BYTES == 8)
      asm volatile("st.global.v2.u32 [%0], {%1, %1};" ::"l"(p + column), "r"(r) : "memory");
    if (BYTES == 16)
      asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(p + column), "r"(r) : "memory");
    column += row_bytes;
    if (column == pitch) column = 0;
  }
  asm volatile("fence.acq_rel.gpu;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = now() - start;
}

template <int KIND> static void atomic_rows(char *base) {
  struct {
    const char *name;
    uint32_t span, stride, advance;
  } patterns[] = {{"same_address", 1, 4, 0},
                  {"same_32_words", 32, (uint32_t)kind_bytes[KIND], 0},
                  {"coalesced_own", 1u << 30, (uint32_t)kind_bytes[KIND], 0},
                  {"own_sectors", 1u << 30, 32, 0},
                  {"own_lines", 1u << 30, 128, 0}};
  for (auto &p : patterns)
    for (int blocks : {1, 132})
      for (int threads : {32, 256}) {
        const int rounds = p.span == 1 && blocks > 1 ? 8 : 32;
        double t[2];
        for (int i = 0; i < 2; i++)
          t[i] = measure(
              blocks, 0.99,
              [&](cycles_t *out) {
                atomics<KIND><<<blocks, threads, 100 << 10>>>(
                    base, p.span, p.stride, p.advance, rounds * (i + 1), counter_device(), out);
              },
              3);
        row((t[1] - t[0]) / rounds / (threads / 32), "cycles/warp-inst/SM", "%s_%s_%dsm_%dthr",
            kind_name[KIND], p.name, blocks, threads);
      }
}

template <int KIND> static void raise_atomics() {
  CHECK(
      cudaFuncSetAttribute(atomics<KIND>, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
}

template <int ADD> static void tma_store_rows(char *base) {
  const char *name = ADD ? "tma_add" : "tma_store";
  CHECK(cudaFuncSetAttribute(store_latency<ADD>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             140 << 10));
  CHECK(cudaFuncSetAttribute(store_stream<ADD>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             140 << 10));
  for (bool f32 : {false, true}) {
    const int columns = f32 ? 32 : 64;
    if (f32 && !ADD) continue;
    for (int rows : {1, 8, 32, 64, 128, 256}) {
      CUtensorMap map = map_2d(base, 4096, 65536, columns, rows, true, f32);
      for (int boxes : {1, 4}) {
        std::vector<double> v = collect(96, [&](cycles_t *out) {
          store_latency<ADD><<<1, 32, 140 << 10>>>(map, boxes, 128 * rows, rows, 32, out);
        });
        static const char *part[] = {"issue", "read_done", "complete"};
        for (int i = 0; i < 3; i++) {
          std::vector<double> each;
          for (size_t r = 8; r < v.size() / 3; r++)
            each.push_back(v[3 * r + i]);
          row(quantile(each, 0.5), "cycles", "%s%s_128Bx%d_boxes%d_%s", name, f32 ? "_f32" : "_f16",
              rows, boxes, part[i]);
        }
      }
      for (int blocks : {1, 132})
        for (int own : {1, 0}) {
          if (blocks == 1 && !own) continue;
          if (rows < 32) continue;
          const int wrap = own ? 8 : 1, rounds = !own ? 32 : 128;
          double t = measure(
              blocks, 0.5,
              [&](cycles_t *out) {
                store_stream<ADD><<<blocks, 32, 140 << 10>>>(map, 128 * rows, rows, own, columns,
                                                             wrap, rounds, counter_device(), out);
              },
              3);
          row(128.0 * rows * rounds / t, "B/clk/SM", "%s%s_stream_128Bx%d_%dsm_%s", name,
              f32 ? "_f32" : "_f16", rows, blocks, own ? "own" : "same_box");
        }
    }
  }
}

template <int BYTES> static void plain_rows(char *base) {
  for (int row_bytes : {16, 32, 64, 128, 512}) {
    if (row_bytes < BYTES || row_bytes > BYTES * 32) continue;
    for (int blocks : {1, 132})
      for (int threads : {128, 512}) {
        const int pitch = row_bytes == BYTES * 32 ? row_bytes * 4 : 2048;
        double t[2];
        for (int i = 0; i < 2; i++)
          t[i] = measure(
              blocks, 0.5,
              [&](cycles_t *out) {
                plain_stores<BYTES><<<blocks, threads>>>(base, row_bytes, pitch, 128 * (i + 1),
                                                         4 << 20, counter_device(), out);
              },
              3);
        const double per = (t[1] - t[0]) / 128 / (threads / 32);
        row(per, "cycles/warp-inst/SM", "stg%d_rows%dB_%dsm_%dthr", BYTES * 8, row_bytes, blocks,
            threads);
        row(BYTES * 32 / per, "B/clk/SM", "stg%d_rows%dB_%dsm_%dthr_rate", BYTES * 8, row_bytes,
            blocks, threads);
      }
  }
}

int main() {
  char *base;
  CHECK(cudaMalloc(&base, (size_t)1 << 30));
  CHECK(cudaMemset(base, 0, (size_t)1 << 30));
  raise_atomics<RED_F32>(), raise_atomics<RED_U32>(), raise_atomics<RED_F16X2>(),
      raise_atomics<RED_V2_F32>();
  raise_atomics<RED_V4_F32>(), raise_atomics<RED_MAX_S32>(), raise_atomics<ATOM_F32>(),
      raise_atomics<ATOM_U32>();
  atomic_rows<RED_F32>(base);
  atomic_rows<RED_U32>(base);
  atomic_rows<RED_F16X2>(base);
  atomic_rows<RED_V2_F32>(base);
  atomic_rows<RED_V4_F32>(base);
  atomic_rows<RED_MAX_S32>(base);
  atomic_rows<ATOM_F32>(base);
  atomic_rows<ATOM_U32>(base);
  row(measure(1, 0.5, [&](cycles_t *out) { atomic_chain<ATOM_F32><<<1, 1>>>(base, 64, out); }) / 64,
      "cycles", "atom_f32_chain");
  row(measure(1, 0.5, [&](cycles_t *out) { atomic_chain<ATOM_U32><<<1, 1>>>(base, 64, out); }) / 64,
      "cycles", "atom_u32_chain");
  plain_rows<4>(base);
  plain_rows<8>(base);
  plain_rows<16>(base);
  tma_store_rows<0>(base);
  tma_store_rows<1>(base);
  return 0;
}
