/* Runs the cases of mma_cases.def, elementwise_cases.def and directed.def on an H200 and writes
 * fingerprints and first results, which tests/num replays on the library. Build and run:
 *   nvcc -O1 -gencode arch=compute_90a,code=sm_90a probes.cu -o probes && ./probes FOLDER
 * FOLDER/mma.bin          for each case and kind: fingerprint of the first PV_QUICK results, of all
 * FOLDER/elementwise.bin  the same, then PV_SWEEP_PARTS fingerprints for cases with a sweep
 * FOLDER/mma_raw.bin, elementwise_raw.bin, half_raw.bin  results themselves, to find out more
 * FOLDER/directed.txt     single products by name; singles.txt: single elements; tensor_add.txt
 * All words are 64 bits, little-endian. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <string>
#include <vector>

#include "probe_vectors.h"

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t error_ = (call);                                                                   \
    if (error_ != cudaSuccess) {                                                                   \
      printf("%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error_));                       \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static std::string folder;
static FILE *create(const char *name) {
  FILE *file = fopen((folder + "/" + name).c_str(), "wb");
  if (file == nullptr) exit(2);
  return file;
}

/* Matrix instructions -------------------------------------------------------------------------- */

/* Tiles in memory: A row-major, B column by column, C and D row-major; C and D in 32-bit words (64
 * for f64). Rows and columns are packed. */
struct Operands {
  uint32_t *a, *b;
  uint64_t *c, *d;
};

__global__ void fill_factor(uint32_t *out, int format, uint32_t test_case, uint32_t kind,
                            uint32_t role, uint32_t lines, uint32_t depth, uint64_t word_count) {
  uint32_t bits = pv_format_of(format).bits;
  uint32_t line_words = depth * bits / 32;
  for (uint64_t w = blockIdx.x * blockDim.x + threadIdx.x; w < word_count;
       w += gridDim.x * blockDim.x) {
    uint64_t line = w / line_words, tile = line / lines;
    uint32_t at = w % line_words, word = 0;
    if (bits == 64) {
      uint64_t e =
          pv_matrix_element(format, test_case, kind, role, tile, line % lines, at / 2, depth);
      word = (uint32_t)(e >> (at % 2 * 32));
    } else {
      uint32_t per_word = 32 / bits;
      for (uint32_t i = 0; i < per_word; ++i)
        word |= (uint32_t)pv_matrix_element(format, test_case, kind, role, tile, line % lines,
                                            at * per_word + i, depth)
                << (i * bits);
    }
    out[w] = word;
  }
}

__global__ void fill_addend(uint64_t *out, int format, uint32_t test_case, uint32_t kind,
                            uint32_t tile_elements, uint64_t count) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    out[i] = pv_addend(format, test_case, kind, i / tile_elements, i);
}

/* A warp's registers of a 16-row tile: word w of a row is in register w / 4 * 2 + row / 8, lane
 * 4 * (row % 8) + w % 4; word w of a column in register w / 4, lane 4 * column + w % 4. */
template <typename T, int N> __device__ void load_a(T (&r)[N], const void *tile, int words) {
  int lane = threadIdx.x % 32;
  for (int i = 0; i < N; ++i)
    r[i] = ((const T *)tile)[(lane / 4 + i % 2 * 8) * words + i / 2 * 4 + lane % 4];
}
template <typename T, int N> __device__ void load_b(T (&r)[N], const void *tile, int words) {
  int lane = threadIdx.x % 32;
  for (int i = 0; i < N; ++i)
    r[i] = ((const T *)tile)[lane / 4 * words + i * 4 + lane % 4];
}
__device__ int place_of(int i) {
  int lane = threadIdx.x % 32;
  return (lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2;
}
template <typename T> __device__ void load_c(T (&r)[4], const uint64_t *c) {
  for (int i = 0; i < 4; ++i)
    r[i] = (T)c[place_of(i)];
}
template <typename T> __device__ void store_d(const T (&r)[4], uint64_t *d) {
  for (int i = 0; i < 4; ++i)
    d[place_of(i)] = r[i];
}
__device__ void pack(uint32_t (&h)[2], const uint32_t (&r)[4]) {
  h[0] = r[0] | r[1] << 16, h[1] = r[2] | r[3] << 16;
}
__device__ void unpack(uint32_t (&r)[4], const uint32_t (&h)[2]) {
  r[0] = h[0] & 0xffff, r[1] = h[0] >> 16, r[2] = h[1] & 0xffff, r[3] = h[1] >> 16;
}

#define MMA_KERNEL(name) __global__ void mma_##name(Operands o, uint32_t depth_words)
/* T words; na, nb registers. Tile sizes: 16 rows and 8 columns of depth_words words of T. */
#define SYNC_PROLOGUE(T, na, nb)                                                                   \
  size_t tile = blockIdx.x;                                                                        \
  T a[na], b[nb], c[4];                                                                            \
  load_a(a, (const T *)o.a + tile * 16 * depth_words, depth_words);                                \
  load_b(b, (const T *)o.b + tile * 8 * depth_words, depth_words);                                 \
  load_c(c, o.c + tile * 128);
#define C4 "{%0,%1,%2,%3}"
#define INOUT4(x) "+" x(c[0]), "+" x(c[1]), "+" x(c[2]), "+" x(c[3])
#define SHAPE_424(name, text, tail)                                                                \
  MMA_KERNEL(name) {                                                                               \
    SYNC_PROLOGUE(uint32_t, 4, 2)                                                                  \
    asm volatile(text " " C4 ",{%4,%5,%6,%7},{%8,%9}," C4 ";"                                      \
                 : INOUT4("r")                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));              \
    store_d(c, o.d + tile * 128);                                                                  \
  }
#define SHAPE_214(name, text, tail)                                                                \
  MMA_KERNEL(name) {                                                                               \
    SYNC_PROLOGUE(uint32_t, 2, 1)                                                                  \
    asm volatile(text " " C4 ",{%4,%5},{%6}," C4 ";"                                               \
                 : INOUT4("r")                                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));                                               \
    store_d(c, o.d + tile * 128);                                                                  \
  }
#define SHAPE_422(name, text, tail)                                                                \
  MMA_KERNEL(name) {                                                                               \
    SYNC_PROLOGUE(uint32_t, 4, 2)                                                                  \
    uint32_t h[2];                                                                                 \
    pack(h, c);                                                                                    \
    asm volatile(text " {%0,%1},{%2,%3,%4,%5},{%6,%7},{%0,%1};"                                    \
                 : "+r"(h[0]), "+r"(h[1])                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));              \
    unpack(c, h);                                                                                  \
    store_d(c, o.d + tile * 128);                                                                  \
  }
#define SHAPE_212(name, text, tail)                                                                \
  MMA_KERNEL(name) {                                                                               \
    SYNC_PROLOGUE(uint32_t, 2, 1)                                                                  \
    uint32_t h[2];                                                                                 \
    pack(h, c);                                                                                    \
    asm volatile(text " {%0,%1},{%2,%3},{%4},{%0,%1};"                                             \
                 : "+r"(h[0]), "+r"(h[1])                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(b[0]));                                               \
    unpack(c, h);                                                                                  \
    store_d(c, o.d + tile * 128);                                                                  \
  }
#define SHAPE_844(name, text, tail)                                                                \
  MMA_KERNEL(name) {                                                                               \
    SYNC_PROLOGUE(uint64_t, 8, 4)                                                                  \
    asm volatile(text " " C4 ",{%4,%5,%6,%7,%8,%9,%10,%11},{%12,%13,%14,%15}," C4 ";"              \
                 : INOUT4("l")                                                                     \
                 : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(a[4]), "l"(a[5]), "l"(a[6]),    \
                   "l"(a[7]), "l"(b[0]), "l"(b[1]), "l"(b[2]), "l"(b[3]));                         \
    store_d(c, o.d + tile * 128);                                                                  \
  }
#define SHAPE_4244(name, text, tail)                                                               \
  MMA_KERNEL(name) {                                                                               \
    SYNC_PROLOGUE(uint64_t, 4, 2)                                                                  \
    asm volatile(text " " C4 ",{%4,%5,%6,%7},{%8,%9}," C4 ";"                                      \
                 : INOUT4("l")                                                                     \
                 : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(b[0]), "l"(b[1]));              \
    store_d(c, o.d + tile * 128);                                                                  \
  }
#define SHAPE_2144(name, text, tail)                                                               \
  MMA_KERNEL(name) {                                                                               \
    SYNC_PROLOGUE(uint64_t, 2, 1)                                                                  \
    asm volatile(text " " C4 ",{%4,%5},{%6}," C4 ";"                                               \
                 : INOUT4("l")                                                                     \
                 : "l"(a[0]), "l"(a[1]), "l"(b[0]));                                               \
    store_d(c, o.d + tile * 128);                                                                  \
  }
/* wgmma m64n8, both operands in shared memory without swizzle: core matrices of 8 lines by 16 bytes;
 * the second along k is 128 bytes further, the next 8 lines 256. */
#define WGMMA_PROLOGUE                                                                             \
  __shared__ alignas(1024) uint32_t shared_a[64 * 8], shared_b[8 * 8];                             \
  size_t tile = blockIdx.x;                                                                        \
  for (int i = threadIdx.x; i < 64 * 8; i += 128)                                                  \
    shared_a[i / 64 * 64 + i % 8 / 4 * 32 + i / 8 % 8 * 4 + i % 4] = o.a[tile * 512 + i];          \
  if (threadIdx.x < 64) {                                                                          \
    int i = threadIdx.x;                                                                           \
    shared_b[i % 8 / 4 * 32 + i / 8 * 4 + i % 4] = o.b[tile * 64 + i];                             \
  }                                                                                                \
  asm volatile("fence.proxy.async;" ::: "memory");                                                 \
  __syncthreads();                                                                                 \
  uint64_t strides = (uint64_t)(128 >> 4) << 16 | (uint64_t)(256 >> 4) << 32;                      \
  uint64_t da = (uint64_t)__cvta_generic_to_shared(shared_a) >> 4 | strides;                       \
  uint64_t db = (uint64_t)__cvta_generic_to_shared(shared_b) >> 4 | strides;                       \
  size_t place = tile * 512 + threadIdx.x / 32 * 128;                                              \
  uint32_t c[4];                                                                                   \
  load_c(c, o.c + place);                                                                          \
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#define WGMMA_WAIT                                                                                 \
  asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#define SHAPE_W4(name, text, tail)                                                                 \
  MMA_KERNEL(name) {                                                                               \
    WGMMA_PROLOGUE                                                                                 \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %6, 0;\n" text " " C4 ",%4,%5" tail ";\n}"      \
                 : INOUT4("r")                                                                     \
                 : "l"(da), "l"(db), "r"(1));                                                      \
    WGMMA_WAIT                                                                                     \
    asm volatile("" : INOUT4("r")::"memory");                                                      \
    store_d(c, o.d + place);                                                                       \
  }
#define SHAPE_W2(name, text, tail)                                                                 \
  MMA_KERNEL(name) {                                                                               \
    WGMMA_PROLOGUE                                                                                 \
    uint32_t h[2];                                                                                 \
    pack(h, c);                                                                                    \
    asm volatile(text " {%0,%1},%2,%3" tail ";" : "+r"(h[0]), "+r"(h[1]) : "l"(da), "l"(db));      \
    WGMMA_WAIT                                                                                     \
    asm volatile("" : "+r"(h[0]), "+r"(h[1])::"memory");                                           \
    unpack(c, h);                                                                                  \
    store_d(c, o.d + place);                                                                       \
  }
#define MMA_CASE(name, path, a, b, acc, k, flags, shape, text, tail) SHAPE_##shape(name, text, tail)
#include "mma_cases.def"
#undef MMA_CASE

struct MmaCase {
  const char *name;
  void (*kernel)(Operands, uint32_t);
  int a, b, acc;
  uint32_t k;
  bool is_wgmma;
};
#define SYNC_PATH 0
#define WGMMA_PATH 1
static const MmaCase mma_cases[] = {
#define MMA_CASE(name, path, a, b, acc, k, flags, shape, text, tail)                               \
  {#name, mma_##name, PV_##a, PV_##b, PV_##acc, k, #path[0] == 'W'},
#include "mma_cases.def"
#undef MMA_CASE
};

__global__ void sum_terms(const uint64_t *results, uint64_t count, uint64_t base,
                          unsigned long long *sum) {
  uint64_t mine = 0;
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    mine += pv_term(base + i, results[i]);
  atomicAdd(sum, (unsigned long long)mine);
}

static uint64_t fingerprint(const uint64_t *device_results, uint64_t count) {
  static unsigned long long *sum = nullptr;
  if (sum == nullptr) CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMemset(sum, 0, sizeof *sum));
  sum_terms<<<256, 256>>>(device_results, count, 0, sum);
  unsigned long long host;
  CHECK(cudaMemcpy(&host, sum, sizeof host, cudaMemcpyDeviceToHost));
  return host;
}

static Operands allocate() {
  Operands o;
  size_t tiles = PV_COUNT / 128;
  CHECK(cudaMalloc(&o.a, tiles * 16 * 16 * 8));
  CHECK(cudaMalloc(&o.b, tiles * 16 * 16 * 8));
  CHECK(cudaMalloc(&o.c, PV_COUNT * sizeof(uint64_t)));
  CHECK(cudaMalloc(&o.d, PV_COUNT * sizeof(uint64_t)));
  return o;
}

/* Words (of the operand's own size) of a row of A. */
static uint32_t depth_words(const MmaCase &m) {
  uint32_t bits = pv_format_of(m.a).bits;
  return bits == 64 ? m.k : m.k * bits / 32;
}

static void launch(const MmaCase &m, Operands o, uint64_t results) {
  uint32_t rows = m.is_wgmma ? 64 : 16;
  m.kernel<<<results / (rows * 8), m.is_wgmma ? 128 : 32>>>(o, depth_words(m));
  CHECK(cudaGetLastError());
}

static void run_matrix_cases(Operands o) {
  FILE *sums = create("mma.bin"), *raw = create("mma_raw.bin");
  std::vector<uint64_t> first(PV_QUICK);
  for (uint32_t i = 0; i < sizeof mma_cases / sizeof mma_cases[0]; ++i) {
    const MmaCase &m = mma_cases[i];
    uint32_t rows = m.is_wgmma ? 64 : 16,
             line_words = depth_words(m) * (pv_format_of(m.a).bits == 64 ? 2 : 1);
    uint64_t tiles = PV_COUNT / (rows * 8);
    for (uint32_t kind = 0; kind < PV_KINDS; ++kind) {
      fill_factor<<<1024, 256>>>(o.a, m.a, i, kind, PV_A, rows, m.k, tiles * rows * line_words);
      fill_factor<<<1024, 256>>>(o.b, m.b, i, kind, PV_B, 8, m.k, tiles * 8 * line_words);
      fill_addend<<<1024, 256>>>(o.c, m.acc, i, kind, rows * 8, PV_COUNT);
      launch(m, o, PV_COUNT);
      uint64_t pair[2] = {fingerprint(o.d, PV_QUICK), fingerprint(o.d, PV_COUNT)};
      fwrite(pair, sizeof pair, 1, sums);
      CHECK(cudaMemcpy(first.data(), o.d, PV_QUICK * sizeof(uint64_t), cudaMemcpyDeviceToHost));
      for (uint64_t value : first)
        fwrite(&value, m.acc == PV_f64 ? 8 : 4, 1, raw);
    }
  }
  fclose(sums), fclose(raw);
  printf("%zu matrix cases\n", sizeof mma_cases / sizeof mma_cases[0]);
}

/* Single products ------------------------------------------------------------------------------ */

struct Directed {
  const char *id, *name, *pairs; /* pairs: "k:a*b ..." in hex */
  uint64_t c;
};
static const Directed directed[] = {
#define DIRECTED(id, name, c, pairs) {#id, #name, pairs, c},
#include "directed.def"
#undef DIRECTED
};

static void put(std::vector<uint32_t> &words, uint32_t bits, uint32_t k, uint64_t value) {
  for (uint32_t bit = 0; bit < bits; ++bit)
    if (value >> bit & 1) words[(k * bits + bit) / 32] |= 1u << ((k * bits + bit) % 32);
}

static void run_directed(Operands o) {
  FILE *out = create("directed.txt");
  for (const Directed &d : directed) {
    const MmaCase *m = mma_cases;
    while (strcmp(m->name, d.name) != 0)
      ++m;
    uint32_t rows = m->is_wgmma ? 64 : 16, bits = pv_format_of(m->a).bits, words = m->k * bits / 32;
    std::vector<uint32_t> a(rows * words), b(8 * words);
    std::vector<uint64_t> c(rows * 8);
    c[0] = d.c;
    unsigned k;
    unsigned long long x, y;
    int used;
    for (const char *at = d.pairs; sscanf(at, " %u:%llx*%llx%n", &k, &x, &y, &used) == 3;
         at += used)
      put(a, bits, k, x), put(b, pv_format_of(m->b).bits, k, y);
    CHECK(cudaMemcpy(o.a, a.data(), a.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(o.b, b.data(), b.size() * 4, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(o.c, c.data(), c.size() * 8, cudaMemcpyHostToDevice));
    launch(*m, o, rows * 8);
    uint64_t result;
    CHECK(cudaMemcpy(&result, o.d, 8, cudaMemcpyDeviceToHost));
    fprintf(out, "%s %0*llx\n", d.id,
            m->acc == PV_f16   ? 4
            : m->acc == PV_f64 ? 16
                               : 8,
            (unsigned long long)result);
  }
  fclose(out);
}

/* Binary products have no element type in the library: compared with popcounts here. */
#define BINARY_KERNEL(name, text, product)                                                         \
  __global__ void name(unsigned long long *wrong) {                                                \
    uint32_t lane = threadIdx.x, seed = blockIdx.x * 32 + lane, a[4], b[2], c[4], d[4];            \
    for (int i = 0; i < 4; ++i)                                                                    \
      a[i] = (uint32_t)pv_random(900, 0, 0, seed * 4 + i),                                         \
      c[i] = (uint32_t)pv_random(900, 0, 2, seed * 4 + i);                                         \
    for (int i = 0; i < 2; ++i)                                                                    \
      b[i] = (uint32_t)pv_random(900, 0, 1, seed * 2 + i);                                         \
    for (int i = 0; i < 4; ++i)                                                                    \
      d[i] = c[i];                                                                                 \
    asm volatile(text " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"                        \
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                  \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));              \
    for (int i = 0; i < 4; ++i) {                                                                  \
      uint32_t sum = c[i], column = lane % 4 * 2 + i % 2;                                          \
      for (int w = 0; w < 8; ++w) {                                                                \
        uint32_t x = __shfl_sync(~0u, a[i / 2 + w / 4 * 2], lane / 4 * 4 + w % 4),                 \
                 y0 = __shfl_sync(~0u, b[w / 4], column * 4 + w % 4);                              \
        sum += __popc(x product y0);                                                               \
      }                                                                                            \
      if (sum != d[i]) atomicAdd(wrong, 1ull);                                                     \
    }                                                                                              \
  }
BINARY_KERNEL(binary_and, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc", &)
BINARY_KERNEL(binary_xor, "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.xor.popc", ^)

static void run_binary() {
  unsigned long long *wrong, host;
  CHECK(cudaMalloc(&wrong, sizeof *wrong));
  void (*kernels[2])(unsigned long long *) = {binary_and, binary_xor};
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaMemset(wrong, 0, sizeof *wrong));
    kernels[i]<<<8192, 32>>>(wrong);
    CHECK(cudaMemcpy(&host, wrong, sizeof host, cudaMemcpyDeviceToHost));
    printf("b1 %s.popc k256: %llu of 2^20 differ from popcounts\n", i ? "xor" : "and", host);
  }
}

/* Elements ------------------------------------------------------------------------------------- */

__device__ float f32_of(uint64_t x) { return __uint_as_float((uint32_t)x); }
__device__ __half f16_of(uint64_t x) { return __ushort_as_half((unsigned short)x); }
__device__ __nv_bfloat16 bf16_of(uint64_t x) { return __ushort_as_bfloat16((unsigned short)x); }
#define F32(x) __float_as_uint(x)
#define F16(x) __half_as_ushort(x)
#define BF16(x) __bfloat16_as_ushort(x)
#define TYPE_r uint32_t
#define TYPE_h uint16_t
#define TYPE_l uint64_t
#define ASM1(text, out, in)                                                                        \
  [&]() -> uint64_t {                                                                              \
    TYPE_##out d;                                                                                  \
    TYPE_##in x = (TYPE_##in)a;                                                                    \
    asm volatile(text " %0, %1;" : "=" #out(d) : #in(x));                                          \
    return d;                                                                                      \
  }()
#define ASM2(text, out, in)                                                                        \
  [&]() -> uint64_t {                                                                              \
    TYPE_##out d;                                                                                  \
    TYPE_##in x = (TYPE_##in)a, y = (TYPE_##in)b;                                                  \
    asm volatile(text " %0, %1, %2;" : "=" #out(d) : #in(x), #in(y));                              \
    return d;                                                                                      \
  }()
#define ASM3(text, out, in)                                                                        \
  [&]() -> uint64_t {                                                                              \
    TYPE_##out d;                                                                                  \
    TYPE_##in x = (TYPE_##in)a, y = (TYPE_##in)b, z = (TYPE_##in)c;                                \
    asm volatile(text " %0, %1, %2, %3;" : "=" #out(d) : #in(x), #in(y), #in(z));                  \
    return d;                                                                                      \
  }()
#define FP8(text)                                                                                  \
  [&]() -> uint64_t {                                                                              \
    uint16_t d;                                                                                    \
    asm volatile(text " %0, %1, %2;" : "=h"(d) : "r"(0), "r"((uint32_t)a));                        \
    return d & 0xff;                                                                               \
  }()
#define FP8_HALF(text)                                                                             \
  [&]() -> uint64_t {                                                                              \
    uint16_t d;                                                                                    \
    asm volatile(text " %0, %1;" : "=h"(d) : "r"((uint32_t)a));                                    \
    return d & 0xff;                                                                               \
  }()
#define HALF_FP8(text)                                                                             \
  [&]() -> uint64_t {                                                                              \
    uint32_t d;                                                                                    \
    asm volatile(text " %0, %1;" : "=r"(d) : "h"((uint16_t)a));                                    \
    return d & 0xffff;                                                                             \
  }()

/* Memory operations: cell and shared_cell are 32 bytes of this thread alone. */
#define GLOBAL(p) (uint64_t) __cvta_generic_to_global(p)
#define SHARED(p) (uint32_t) __cvta_generic_to_shared(p)
#define ON_MEMORY(T, memory, ...)                                                                  \
  [&]() -> uint64_t {                                                                              \
    volatile T *place = (volatile T *)memory;                                                      \
    T y = (T)b, old = 0;                                                                           \
    if (old != 0) old = 0;                                                                         \
    for (int i = 0; i < 16 / (int)sizeof(T); ++i)                                                  \
      place[i] = (T)a;                                                                             \
    __threadfence();                                                                               \
    __VA_ARGS__;                                                                                   \
    __threadfence();                                                                               \
    return place[0];                                                                               \
  }()
#define RED(text, x)                                                                               \
  ON_MEMORY(TYPE_##x, cell, asm volatile(text " [%0], %1;" ::"l"(GLOBAL(cell)), #x(y) : "memory"))
#define ATOM(text, x)                                                                              \
  ON_MEMORY(TYPE_##x, cell,                                                                        \
            asm volatile(text " %0, [%1], %2;"                                                     \
                         : "=" #x(old)                                                             \
                         : "l"(GLOBAL(cell)), #x(y)                                                \
                         : "memory"))
#define RED_V2(text, x)                                                                            \
  ON_MEMORY(TYPE_##x, cell,                                                                        \
            asm volatile(text " [%0], {%1, %1};" ::"l"(GLOBAL(cell)), #x(y)                        \
                         : "memory"))
#define RED_V4(text, x)                                                                            \
  ON_MEMORY(TYPE_##x, cell,                                                                        \
            asm volatile(text " [%0], {%1, %1, %1, %1};" ::"l"(GLOBAL(cell)), #x(y)                \
                         : "memory"))
#define RED_SHARED(text, x)                                                                        \
  ON_MEMORY(TYPE_##x, shared_cell,                                                                 \
            asm volatile(text " [%0], %1;" ::"r"(SHARED(shared_cell)), #x(y)                       \
                         : "memory"))
#define ATOM_SHARED(text, x)                                                                       \
  ON_MEMORY(TYPE_##x, shared_cell,                                                                 \
            asm volatile(text " %0, [%1], %2;"                                                     \
                         : "=" #x(old)                                                             \
                         : "r"(SHARED(shared_cell)), #x(y)                                         \
                         : "memory"))
/* Both halves of a word: a op b in each. */
#define PAIRED(x) ((x) | (x) << 16)
#define PAIR(operation)                                                                            \
  [&](uint64_t a, uint64_t b) -> uint64_t {                                                        \
    uint64_t both = operation;                                                                     \
    return (both & 0xffff) == both >> 16 ? both & 0xffff : both;                                   \
  }(PAIRED(a), PAIRED(b))
/* A bulk copy with reduction of 16 bytes. */
#define BULK(type, in_memory, arriving, T)                                                         \
  [&]() -> uint64_t {                                                                              \
    volatile T *place = (volatile T *)cell, *source = (volatile T *)shared_cell;                   \
    for (int i = 0; i < 16 / (int)sizeof(T); ++i)                                                  \
      place[i] = (T)(in_memory), source[i] = (T)(arriving);                                        \
    __threadfence();                                                                               \
    asm volatile("fence.proxy.async;\n"                                                            \
                 "cp.reduce.async.bulk.global.shared::cta.bulk_group." type " [%0], [%1], 16;\n"   \
                 "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"                      \
                 "fence.proxy.async;" ::"l"(GLOBAL(cell)),                                         \
                 "r"(SHARED(shared_cell))                                                          \
                 : "memory");                                                                      \
    __threadfence();                                                                               \
    uint64_t result = place[0];                                                                    \
    return pv_is_half(sizeof(T), type) ? result & 0xffff : result;                                 \
  }()
__device__ constexpr bool pv_is_half(size_t size, const char *type) {
  bool is = false;
  for (const char *at = type; *at != 0; ++at)
    is = is || (at[0] == 'f' && at[1] == '1');
  return is && size == 4;
}

#define ELEMENT(name, lookup, in, out, op, flags, sweep, body)                                     \
  struct element_##name {                                                                          \
    static __device__ uint64_t result(uint64_t a, uint64_t b, uint64_t c, uint32_t *cell,          \
                                      uint32_t *shared_cell) {                                     \
      (void)a, (void)b, (void)c, (void)cell, (void)shared_cell;                                    \
      return (uint64_t)(body);                                                                     \
    }                                                                                              \
  };
#include "elementwise_cases.def"
#undef ELEMENT

struct Element {
  const char *name;
  void (*kinds)(uint32_t, uint32_t, int, uint32_t, uint64_t *, uint32_t *);
  void (*sweep)(uint64_t, uint32_t, uint32_t, unsigned long long *, uint16_t *, uint32_t *);
  void (*single)(uint64_t, uint64_t, uint64_t, uint64_t *, uint32_t *);
  int in, out;
  uint32_t arity;
  bool sweeps;
};

enum { BLOCKS = 1024, THREADS = 128 };

template <class E>
__global__ void single_kernel(uint64_t a, uint64_t b, uint64_t c, uint64_t *result,
                              uint32_t *cell) {
  __shared__ alignas(16) uint32_t shared_cell[8];
  *result = E::result(a, b, c, cell, shared_cell);
}

template <class E>
__global__ void kinds_kernel(uint32_t test_case, uint32_t kind, int format, uint32_t arity,
                             uint64_t *results, uint32_t *cells) {
  __shared__ alignas(16) uint32_t shared_cells[THREADS * 8];
  uint32_t thread = blockIdx.x * THREADS + threadIdx.x;
  for (uint32_t i = thread; i < PV_COUNT; i += BLOCKS * THREADS) {
    uint64_t x[3];
    for (uint32_t role = 0; role < 3; ++role)
      x[role] = role < arity ? pv_operand(format, test_case, kind, role, arity, i) : 0;
    results[i] =
        E::result(x[0], x[1], x[2], cells + (size_t)thread * 8, shared_cells + threadIdx.x * 8);
  }
}

/* Arguments base .. base + 2^count_log2: one operand, or two of `split` bits. */
template <class E>
__global__ void sweep_kernel(uint64_t base, uint32_t count_log2, uint32_t split,
                             unsigned long long *sum, uint16_t *raw, uint32_t *cells) {
  __shared__ alignas(16) uint32_t shared_cells[THREADS * 8];
  uint32_t thread = blockIdx.x * THREADS + threadIdx.x;
  uint64_t mine = 0;
  for (uint64_t i = thread; i < 1ull << count_log2; i += BLOCKS * THREADS) {
    uint64_t index = base + i, a = split ? index >> split : index,
             b = split ? index & pv_mask(split) : 0;
    uint64_t result =
        E::result(a, b, 0, cells + (size_t)thread * 8, shared_cells + threadIdx.x * 8);
    mine += pv_term(index, result);
    if (raw != nullptr) raw[i] = (uint16_t)result;
  }
  atomicAdd(sum, (unsigned long long)mine);
}

#define ARITY_UNARY 1
#define ARITY_CONVERT 1
#define ARITY_BINARY 2
#define ARITY_SWAPPED 2
#define ARITY_RED_F64 2
#define ARITY_TERNARY 3
#define SWEEP_ALL true
#define SWEEP_NONE false
static const Element elements[] = {
#define ELEMENT(name, lookup, in, out, op, flags, sweep, body)                                     \
  {#name,                                                                                          \
   kinds_kernel<element_##name>,                                                                   \
   sweep_kernel<element_##name>,                                                                   \
   single_kernel<element_##name>,                                                                  \
   PV_##in,                                                                                        \
   PV_##out,                                                                                       \
   ARITY_##lookup,                                                                                 \
   SWEEP_##sweep},
#include "elementwise_cases.def"
#undef ELEMENT
};

static void run_elements(uint64_t *results) {
  FILE *sums = create("elementwise.bin"), *raw = create("elementwise_raw.bin"),
       *halves = create("half_raw.bin");
  uint32_t *cells;
  unsigned long long *sum;
  uint16_t *half;
  enum { RAW = 1024 };
  CHECK(cudaMalloc(&cells, (size_t)BLOCKS * THREADS * 32));
  CHECK(cudaMalloc(&sum, sizeof *sum));
  CHECK(cudaMalloc(&half, 65536 * 2));
  std::vector<uint64_t> first(RAW);
  std::vector<uint16_t> table(65536);
  for (uint32_t i = 0; i < sizeof elements / sizeof elements[0]; ++i) {
    const Element &e = elements[i];
    for (uint32_t kind = 0; kind < PV_KINDS; ++kind) {
      e.kinds<<<BLOCKS, THREADS>>>(i, kind, e.in, e.arity, results, cells);
      CHECK(cudaGetLastError());
      uint64_t pair[2] = {fingerprint(results, PV_QUICK), fingerprint(results, PV_COUNT)};
      fwrite(pair, sizeof pair, 1, sums);
      CHECK(cudaMemcpy(first.data(), results, RAW * 8, cudaMemcpyDeviceToHost));
      fwrite(first.data(), 8, RAW, raw);
    }
    if (!e.sweeps) continue;
    uint32_t bits = pv_format_of(e.in).bits, all = bits * e.arity, part = all > 16 ? all - 4 : all;
    bool keeps = all == 16 && pv_format_of(e.out).bits == 16;
    for (uint32_t p = 0; p < (all > 16 ? PV_SWEEP_PARTS : 1); ++p) {
      CHECK(cudaMemset(sum, 0, sizeof *sum));
      e.sweep<<<BLOCKS, THREADS>>>((uint64_t)p << part, part, e.arity == 2 ? bits : 0, sum,
                                   keeps ? half : nullptr, cells);
      CHECK(cudaGetLastError());
      unsigned long long host;
      CHECK(cudaMemcpy(&host, sum, sizeof host, cudaMemcpyDeviceToHost));
      fwrite(&host, sizeof host, 1, sums);
    }
    if (keeps) {
      CHECK(cudaMemcpy(table.data(), half, 65536 * 2, cudaMemcpyDeviceToHost));
      fwrite(table.data(), 2, 65536, halves);
    }
  }
  fclose(sums), fclose(raw), fclose(halves);
  printf("%zu elementwise cases\n", sizeof elements / sizeof elements[0]);
}

struct Single {
  const char *id, *name;
  uint64_t a, b, c;
};
static const Single singles[] = {
#define SINGLE(id, name, a, b, c) {#id, #name, a, b, c},
#include "singles.def"
#undef SINGLE
};

static void run_singles(uint64_t *result, uint32_t *cell) {
  FILE *out = create("singles.txt");
  for (const Single &s : singles) {
    const Element *e = elements;
    while (strcmp(e->name, s.name) != 0)
      ++e;
    e->single<<<1, 1>>>(s.a, s.b, s.c, result, cell);
    uint64_t host;
    CHECK(cudaMemcpy(&host, result, sizeof host, cudaMemcpyDeviceToHost));
    fprintf(out, "%s %llx\n", s.id, (unsigned long long)host);
  }
  fclose(out);
}

/* The tensor form of the bulk reduction: subnormals, R1 of the notes --------------------------- */

__global__ void tensor_add(const __grid_constant__ CUtensorMap map, uint32_t arriving) {
  __shared__ alignas(128) uint32_t box[64];
  box[threadIdx.x] = arriving;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%0, {%1}], [%2];\n"
        "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::"l"(&map),
        "r"(0), "r"(SHARED(box))
        : "memory");
  }
}

static void run_tensor_add(uint32_t *memory, FILE *out, const char *id, uint32_t in_memory,
                           uint32_t arriving) {
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult status;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault,
                                         &status));
  CUtensorMap map;
  cuuint64_t size[1] = {64}, stride[1] = {256};
  cuuint32_t box[1] = {64}, step[1] = {1};
  CUresult made = ((decltype(&cuTensorMapEncodeTiled))entry)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, memory, size, stride, box, step,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (made != CUDA_SUCCESS) {
    printf("tensor map: %d\n", (int)made);
    return;
  }
  uint32_t values[64], result[64];
  for (uint32_t &value : values)
    value = in_memory;
  CHECK(cudaMemcpy(memory, values, sizeof values, cudaMemcpyHostToDevice));
  tensor_add<<<1, 64>>>(map, arriving);
  CHECK(cudaMemcpy(result, memory, sizeof result, cudaMemcpyDeviceToHost));
  fprintf(out, "%s %08x\n", id, result[0]);
}

int main(int argc, char **argv) {
  folder = argc > 1 ? argv[1] : ".";
  Operands o = allocate();
  run_matrix_cases(o);
  run_directed(o);
  run_binary();
  FILE *out = create("tensor_add.txt");
  run_tensor_add(o.a, out, "R1_subnormal", 0x00000001, 0x00000001);
  run_tensor_add(o.a, out, "R1_to_subnormal", 0x00800001, 0x80800000);
  run_tensor_add(o.a, out, "R1_minus", 0x80000001, 0x80000001);
  run_tensor_add(o.a, out, "R1_minus_zero", 0x80000000, 0x80000000);
  run_tensor_add(o.a, out, "R1_nan", 0x7f812345, 0x3f800000);
  fclose(out);
  run_singles(o.c, o.a);
  run_elements(o.c);
  CHECK(cudaDeviceSynchronize());
  printf("done\n");
  return 0;
}
