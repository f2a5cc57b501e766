// Fingerprints of the special function unit over every f32 argument: per function and chunk of 2^20
// consecutive encodings, the sum over arguments b of mix(b, result) modulo 2^64. The CPU side
// (tests/num/test_sfu_all.c) computes the same sums from the tables. Run on an H200:
//
//   nvcc -O3 -arch=sm_90a mufu_hash.cu -o mufu_hash && ./mufu_hash OUT.bin
#include <cstdint>
#include <cstdio>

__device__ uint32_t unit(int function, uint32_t bits) {
  float x = __uint_as_float(bits), y;
  switch (function) {
    case 0: asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 1: asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 2: asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 3: asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 4: asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 5: asm("sin.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 6: asm("cos.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    // the forms without .ftz
    case 7: asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 8: asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 9: asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 10: asm("rsqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    case 11: asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    // library functions as nvcc expands them with default flags
    case 12: y = expf(x); break;
    case 13: y = exp2f(x); break;
    case 14: y = exp10f(x); break;
    case 15: y = logf(x); break;
    case 16: y = log2f(x); break;
    case 17: y = log10f(x); break;
    case 18: y = log1pf(x); break;
    case 19: y = tanhf(x); break;
    case 20: y = sinf(x); break;
    case 21: y = cosf(x); break;
    case 22: y = tanf(x); break;
    case 23: y = erff(x); break;
    case 24: y = rsqrtf(x); break;
    case 25: y = sqrtf(x); break;
    case 26: y = 1.0f / x; break;
    case 27: y = __expf(x); break;
    case 28: y = __logf(x); break;
    case 29: y = expm1f(x); break;
    case 30: asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); break;
    default: y = 0;
  }
  return __float_as_uint(y);
}

enum { FUNCTIONS = 31, CHUNKS = 4096 };

__global__ void fingerprint(int function, unsigned long long *sums) {
  uint64_t sum = 0;
  for (uint32_t i = threadIdx.x; i < 1u << 20; i += blockDim.x) {
    uint32_t b = (blockIdx.x << 20) + i;
    uint64_t z = ((uint64_t)b << 32 | unit(function, b)) * 0x9E3779B97F4A7C15ull;
    sum += (z ^ z >> 29) * 0xBF58476D1CE4E5B9ull;
  }
  atomicAdd(&sums[function * CHUNKS + blockIdx.x], (unsigned long long)sum);
}

static unsigned long long host[FUNCTIONS * CHUNKS];

int main(int argc, char **argv) {
  unsigned long long *sums;
  cudaMalloc(&sums, sizeof host);
  cudaMemset(sums, 0, sizeof host);
  for (int f = 0; f < FUNCTIONS; f++) fingerprint<<<CHUNKS, 256>>>(f, sums);
  cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost);
  FILE *file = fopen(argc > 1 ? argv[1] : "mufu_hash.bin", "wb");
  fwrite(host, 1, sizeof host, file);
  fclose(file);
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}
