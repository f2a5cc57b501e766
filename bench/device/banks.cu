// Cycles of a shared load or store by address pattern, 16 warps of one SM doing the same: which lanes
// share a phase, and when phases merge. The columns before the value are width, pattern, active lanes
// and the lanes' offsets.
#include "common.cuh"

enum { THREADS = 512, LOOPS = 64, UNROLL = 8 };

struct lanes {
  uint32_t offset[32];
  uint32_t mask;
};

enum op { LOAD, STORE };

// volatile: equal accesses are not merged by the compiler.
template <int OP, int WIDTH> static __device__ __forceinline__ uint32_t access_once(uint32_t a) {
  uint32_t x = a, y = 0, z = 0, w = 0;
  if (OP == LOAD && WIDTH == 1)
    asm volatile("ld.volatile.shared.u8 %0, [%1];" : "=r"(x) : "r"(a) : "memory");
  if (OP == LOAD && WIDTH == 2)
    asm volatile("{.reg .b16 h; ld.volatile.shared.u16 h, [%1]; cvt.u32.u16 %0, h;}"
                 : "=r"(x)
                 : "r"(a)
                 : "memory");
  if (OP == LOAD && WIDTH == 4)
    asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(x) : "r"(a) : "memory");
  if (OP == LOAD && WIDTH == 8)
    asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%2];"
                 : "=r"(x), "=r"(y)
                 : "r"(a)
                 : "memory");
  if (OP == LOAD && WIDTH == 16)
    asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x), "=r"(y), "=r"(z), "=r"(w)
                 : "r"(a)
                 : "memory");
  if (OP == STORE && WIDTH == 1)
    asm volatile("st.volatile.shared.u8 [%0], %1;" ::"r"(a), "r"(x) : "memory");
  if (OP == STORE && WIDTH == 2)
    asm volatile("{.reg .b16 h; cvt.u16.u32 h, %1; st.volatile.shared.u16 [%0], h;}" ::"r"(a),
                 "r"(x)
                 : "memory");
  if (OP == STORE && WIDTH == 4)
    asm volatile("st.volatile.shared.u32 [%0], %1;" ::"r"(a), "r"(x) : "memory");
  if (OP == STORE && WIDTH == 8)
    asm volatile("st.volatile.shared.v2.u32 [%0], {%1, %1};" ::"r"(a), "r"(x) : "memory");
  if (OP == STORE && WIDTH == 16)
    asm volatile("st.volatile.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(a), "r"(x) : "memory");
  return x ^ y ^ z ^ w;
}

template <int OP, int WIDTH>
__global__ void __launch_bounds__(THREADS)
    access(const __grid_constant__ lanes pattern, cycles_t *out) {
  extern __shared__ __align__(1024) char raw[];
  const int lane = threadIdx.x & 31;
  uint32_t offset = 0, sum = 0;
  for (int i = 0; i < 32; i++)
    if (i == lane) offset = pattern.offset[i];
  __syncthreads();
  const cycles_t start = now();
  if (pattern.mask >> lane & 1)
    for (int i = 0; i < LOOPS; i++) {
#pragma unroll
      for (int u = 0; u < UNROLL; u++)
        sum ^= access_once<OP, WIDTH>(shared_address(raw) + offset);
    }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = now() - start;
  if (sum == 0x12345) out[1] = sum;
}

template <int OP, int WIDTH> static void one(const char *name, const lanes &pattern) {
  double c = measure(1, 0.5, [&](cycles_t *out) {
    access<OP, WIDTH><<<1, THREADS, 40960>>>(pattern, out);
  });
  printf("%s%d,%s,%08x", OP == LOAD ? "ld" : "st", WIDTH * 8, name, pattern.mask);
  for (int i = 0; i < 32; i++)
    printf("%c%u", i ? ' ' : ',', pattern.offset[i]);
  row(c / (double)(LOOPS * UNROLL * THREADS / 32), "cycles/warp instruction", "");
}

template <int WIDTH> static void patterns() {
  static const struct {
    const char *name;
    uint32_t (*index)(uint32_t);
    uint32_t mask;
  } rows[] = {
      {"equal", [](uint32_t) { return 0u; }, ~0u},
      {"consecutive", [](uint32_t l) { return l; }, ~0u},
      {"stride 2", [](uint32_t l) { return 2 * l; }, ~0u},
      {"stride 3", [](uint32_t l) { return 3 * l; }, ~0u},
      {"l/2", [](uint32_t l) { return l / 2; }, ~0u},
      {"l without bit 1", [](uint32_t l) { return (l & 1) | (l >> 2 << 1); }, ~0u},
      {"l without bit 2", [](uint32_t l) { return (l & 3) | (l >> 3 << 2); }, ~0u},
      {"l without bit 3", [](uint32_t l) { return (l & 7) | (l >> 4 << 3); }, ~0u},
      {"l without bit 4", [](uint32_t l) { return l & 15; }, ~0u},
      {"l/4", [](uint32_t l) { return l / 4; }, ~0u},
      {"l/8", [](uint32_t l) { return l / 8; }, ~0u},
      {"l/16", [](uint32_t l) { return l / 16; }, ~0u},
      {"l%8", [](uint32_t l) { return l % 8; }, ~0u},
      {"l%4", [](uint32_t l) { return l % 4; }, ~0u},
      {"l%2", [](uint32_t l) { return l % 2; }, ~0u},
      {"l/8 apart 128", [](uint32_t l) { return l / 8 * (128 / WIDTH); }, ~0u},
      {"l/4 apart 128", [](uint32_t l) { return l / 4 * (128 / WIDTH); }, ~0u},
      {"l/2 apart 32", [](uint32_t l) { return l / 2 * (32 / WIDTH); }, ~0u},
      {"l/2%8", [](uint32_t l) { return l / 2 % 8; }, ~0u},
      {"scrambled of 8", [](uint32_t l) { return (l * 5 + l / 8 * 3) % 8; }, ~0u},
      {"scrambled of 16", [](uint32_t l) { return l * l * 7 % 23 % 16; }, ~0u},
      {"reversed", [](uint32_t l) { return 31 - l; }, ~0u},
      {"odd and even halves", [](uint32_t l) { return l % 2 * 16 + l / 2; }, ~0u},
      {"consecutive", [](uint32_t l) { return l; }, 0x0000ffffu},
      {"consecutive", [](uint32_t l) { return l; }, 0x000000ffu},
      {"consecutive", [](uint32_t l) { return l; }, 0x0000000fu},
      {"consecutive", [](uint32_t l) { return l; }, 0x55555555u},
      {"consecutive", [](uint32_t l) { return l; }, 0x33333333u},
      {"consecutive", [](uint32_t l) { return l; }, 0x11111111u},
      {"consecutive", [](uint32_t l) { return l; }, 0x01010101u},
      {"consecutive", [](uint32_t l) { return l; }, 0x0f0f0f0fu},
      {"consecutive", [](uint32_t l) { return l; }, 0x00ff00ffu},
      {"consecutive", [](uint32_t l) { return l; }, 0x80000001u},
      {"consecutive", [](uint32_t l) { return l; }, 0x7fffffffu},
      {"l/2", [](uint32_t l) { return l / 2; }, 0x7fffffffu},
      {"apart 128", [](uint32_t l) { return l * (128 / WIDTH); }, 0x0000000fu},
      {"apart 128", [](uint32_t l) { return l * (128 / WIDTH); }, 0x01010101u},
  };
  for (auto &r : rows) {
    lanes p;
    for (uint32_t l = 0; l < 32; l++)
      p.offset[l] = r.index(l) * WIDTH;
    p.mask = r.mask;
    one<LOAD, WIDTH>(r.name, p);
    one<STORE, WIDTH>(r.name, p);
  }
}

int main() {
  patterns<1>();
  patterns<2>();
  patterns<4>();
  patterns<8>();
  patterns<16>();
  return 0;
}
