// What it takes that lanes part and meet, and what local memory takes. Conditions are of the lane, and
// the sides too long for predicates: a chain of 24 instructions, whose time is the row branch_none.
#include "common.cuh"

#define STEP "xor.b32 t,t,%1;mad.lo.u32 t,t,%2,%1;"
#define CHAIN STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP STEP
#define IF "and.b32 t,%3,1;setp.eq.u32 p,t,0;mov.b32 t,%0;@p bra L;"
#define ASM(text)                                                                                  \
  asm volatile("{.reg .b32 t;.reg .pred p;" text "mov.b32 %0,t;}"                                  \
               : "+r"(x)                                                                           \
               : "r"(a), "r"(c), "r"(lane))

enum kind { NONE, GUARD, BOTH, STORE, LOAD };

template <kind K>
__device__ void step(uint32_t &x, uint32_t a, uint32_t c, uint32_t lane, uint32_t at) {
  if (K == NONE) ASM("mov.b32 t,%0;" CHAIN);
  if (K == GUARD) ASM(IF CHAIN "L:");
  if (K == BOTH) ASM(IF CHAIN "bra M;L:add.u32 t,t,77;" CHAIN "M:");
  if (K == STORE) asm volatile("st.local.v2.u32 [%0],{%1,%1};" ::"r"(at), "r"(x) : "memory");
  if (K == LOAD) {
    asm volatile("ld.local.u32 %0,[%1];" : "=r"(x) : "r"(at + x) : "memory");
    x &= 4;
  }
}

// Lanes of odd numbers go to the side, those of all or of no lanes with mask 0.
template <kind K>
__global__ void steps(uint32_t a, uint32_t c, uint32_t mask, uint32_t or_bits, int rounds,
                      cycles_t *out, uint32_t *sink) {
  __align__(16) uint32_t local[256];
  for (int i = 0; i < 256; i++)
    local[i * mask + i & 255] = a * i;
  uint32_t x = a * 77, lane = threadIdx.x & mask | or_bits;
  const uint32_t at = (uint32_t)__cvta_generic_to_local(local);
  __syncthreads();
  const cycles_t start = clock64();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < 16; i++)
      step<K>(x, a, c, lane, at + i * 16);
  }
  const cycles_t end = clock64();
  if (x == 0x12345) *sink = x + local[c];
  if (threadIdx.x == 0) *out = end - start;
}

template <kind K> static void rows(const char *name, uint32_t mask, uint32_t or_bits) {
  static uint32_t *sink = nullptr;
  if (!sink) CHECK(cudaMalloc(&sink, 256));
  for (int warps : {1, 4, 8}) {
    double t[2];
    for (int i = 0; i < 2; i++)
      t[i] = measure(1, 0.5, [&](cycles_t *out) {
        steps<K><<<1, 32 * warps>>>(0, 4, mask, or_bits, 50 * (i + 1), out, sink);
      });
    row((t[1] - t[0]) / 50 / 16, "cycles/step", "%s_%dwarps", name, warps);
  }
}

int main() {
  rows<NONE>("branch_none", 0, 0);
  rows<GUARD>("branch_guard_skipped", 0, 0);
  rows<GUARD>("branch_guard_together", 0, 1);
  rows<GUARD>("branch_guard_apart", 1, 0);
  rows<BOTH>("branch_else_together", 0, 0);
  rows<BOTH>("branch_both_apart", 1, 0);
  rows<STORE>("local_st64", 0, 0);
  rows<LOAD>("local_ld_chain", 0, 0);
}
