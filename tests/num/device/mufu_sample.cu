// Samples the special function unit: for each core function, the difference (in units of the last
// place of the f32 encoding) between the hardware's result and the correctly rounded one, over a
// whole mantissa range. Run on an H200; the files are the input of tools/fit_mufu.py.
//
//   nvcc -O3 -arch=sm_90a mufu_sample.cu -o mufu_sample && ./mufu_sample OUTDIR
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

__device__ float ex2(float x) { float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ float lg2(float x) { float y; asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ float rcp(float x) { float y; asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ float rsq(float x) { float y; asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ float sqr(float x) { float y; asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ float sinx(float x) { float y; asm("sin.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ float cosx(float x) { float y; asm("cos.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }
__device__ float tanhx(float x) { float y; asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }

__device__ int8_t clip(int d) { return d > 127 ? 127 : d < -127 ? -127 : d; }
__device__ int diff(float y, double reference) { return __float_as_int(y) - __float_as_int((float)reference); }

enum { EX2, EX2N, RCP, RSQ, SQRT, LG2, LG2L, SIN, COS, TANH, KINDS };

// LG2: 4 bytes an element (raw bits); TANH: raw bits, strided; others int8 differences.
__global__ void sample(int kind, uint32_t n, void *out) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x;
  switch (kind) {
    case EX2: x = i * 0x1p-23f; ((int8_t *)out)[i] = clip(diff(ex2(x), exp2((double)x))); break;
    case EX2N: x = -(i * 0x1p-23f); ((int8_t *)out)[i] = clip(diff(ex2(x), exp2((double)x))); break;
    case RCP: x = __int_as_float(0x3f800000 + i); ((int8_t *)out)[i] = clip(diff(rcp(x), 1.0 / x)); break;
    case RSQ: x = __int_as_float(0x3f800000 + i); ((int8_t *)out)[i] = clip(diff(rsq(x), 1.0 / sqrt((double)x))); break;
    case SQRT: x = __int_as_float(0x3f800000 + i); ((int8_t *)out)[i] = clip(diff(sqr(x), sqrt((double)x))); break;
    case LG2: x = __int_as_float(0x3f800000 + i); ((int32_t *)out)[i] = __float_as_int(lg2(x)); break;
    case LG2L: x = __int_as_float(0x3f000000 + i); ((int32_t *)out)[i] = __float_as_int(lg2(x)); break;
    // i -> argument x = float with x * 1/(2 pi) in [0, 1): raw bits for 2^22 evenly spaced x in [0, 2 pi)
    case SIN: x = i * (float)(6.283185307179586 / 4194304.0); ((int32_t *)out)[i] = __float_as_int(sinx(x)); break;
    case COS: x = i * (float)(6.283185307179586 / 4194304.0); ((int32_t *)out)[i] = __float_as_int(cosx(x)); break;
    case TANH: x = __int_as_float(0x39000000 + i * 64u); ((int32_t *)out)[i] = __float_as_int(tanhx(x)); break;
  }
}

__global__ void sample16(int kind, uint16_t *out) {
  uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  uint16_t x = i, y = 0;
  switch (kind) {
    case 0: asm("ex2.approx.f16 %0, %1;" : "=h"(y) : "h"(x)); break;
    case 1: asm("ex2.approx.ftz.bf16 %0, %1;" : "=h"(y) : "h"(x)); break;
    case 2: asm("tanh.approx.f16 %0, %1;" : "=h"(y) : "h"(x)); break;
    case 3: asm("tanh.approx.bf16 %0, %1;" : "=h"(y) : "h"(x)); break;
  }
  out[i] = y;
}

static void save(const std::string &path, const void *device, size_t bytes) {
  std::vector<char> host(bytes);
  cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost);
  FILE *f = fopen(path.c_str(), "wb");
  fwrite(host.data(), 1, bytes, f);
  fclose(f);
}

int main(int argc, char **argv) {
  std::string dir = argc > 1 ? argv[1] : ".";
  void *d;
  cudaMalloc(&d, 256 << 20);
  struct { int kind; const char *name; uint32_t n; int bytes; } list[] = {
    {EX2, "ex2", 1u << 23, 1}, {EX2N, "ex2n", 1u << 23, 1}, {RCP, "rcp", 1u << 23, 1}, {RSQ, "rsq", 1u << 24, 1},
    {SQRT, "sqrt", 1u << 24, 1}, {LG2, "lg2", 1u << 23, 4}, {LG2L, "lg2l", 1u << 23, 4},
    {SIN, "sin", 1u << 22, 4}, {COS, "cos", 1u << 22, 4}, {TANH, "tanh", (0x41a00000u - 0x39000000u) / 64, 4}};
  for (auto &l : list) {
    sample<<<(l.n + 255) / 256, 256>>>(l.kind, l.n, d);
    save(dir + "/" + l.name + ".bin", d, (size_t)l.n * l.bytes);
  }
  const char *names[] = {"ex2_f16", "ex2_bf16", "tanh_f16", "tanh_bf16"};
  for (int k = 0; k < 4; k++) {
    sample16<<<256, 256>>>(k, (uint16_t *)d);
    save(dir + "/" + names[k] + ".bin", d, 131072);
  }
  printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
  return 0;
}
