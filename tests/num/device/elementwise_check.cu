/* Elementwise operations and conversions of the GPU against the library, on random operands (any
 * bits, or exponents close to each other). Build and run as mma_check.cu; build with -fmad=false.
 * Prints for each operation how many results of 2^20 differ, and the first ones. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <vector>
extern "C" {
#include "num/num.h"
}

enum { COUNT = 1 << 20 };



/* Encodings in and out; a, b, c of the operation in 64-bit words. */
#define KERNEL(name, ...)                                                                          \
  __global__ void name(uint64_t *d, const uint64_t *pa, const uint64_t *pb, const uint64_t *pc) {  \
    size_t i = blockIdx.x * 256ull + threadIdx.x;                                                  \
    uint64_t a = pa[i], b = pb[i], c = pc[i];                                                      \
    (void)b, (void)c;                                                                              \
    d[i] = [&]() -> uint64_t { __VA_ARGS__ }();                                                    \
  }
#define F(x) __uint_as_float((uint32_t)(x))
#define U(x) __float_as_uint(x)
#define D(x) __longlong_as_double((long long)(x))
#define UD(x) (uint64_t) __double_as_longlong(x)
#define H(x) __ushort_as_half((unsigned short)(x))
#define UH(x) __half_as_ushort(x)
#define B(x) __ushort_as_bfloat16((unsigned short)(x))
#define UB(x) __bfloat16_as_ushort(x)

#define FTZ2(name, text)                                                                           \
  KERNEL(name, float r; asm(text ".ftz.f32 %0,%1,%2;" : "=f"(r) : "f"(F(a)), "f"(F(b)));           \
         return U(r);)
KERNEL(f32_add, return U(__fadd_rn(F(a), F(b)));)
KERNEL(f32_mul, return U(__fmul_rn(F(a), F(b)));)
KERNEL(f32_fma, return U(__fmaf_rn(F(a), F(b), F(c)));)
KERNEL(f32_div, return U(__fdiv_rn(F(a), F(b)));)
KERNEL(f32_sqrt, return U(__fsqrt_rn(F(a)));)
KERNEL(f32_rcp, return U(__frcp_rn(F(a)));)
KERNEL(f32_min, return U(fminf(F(a), F(b)));)
KERNEL(f32_max, return U(fmaxf(F(a), F(b)));)
FTZ2(f32_add_ftz, "add.rn")
FTZ2(f32_mul_ftz, "mul.rn")
FTZ2(f32_div_ftz, "div.rn")
FTZ2(f32_min_ftz, "min")
KERNEL(f32_max_nan_ftz, float r; asm("max.ftz.NaN.f32 %0,%1,%2;" : "=f"(r) : "f"(F(a)), "f"(F(b)));
       return U(r);)
KERNEL(f32_fma_ftz, float r; asm("fma.rn.ftz.f32 %0,%1,%2,%3;" : "=f"(r) : "f"(F(a)), "f"(F(b)), "f"(F(c)));
       return U(r);)
KERNEL(f32_sqrt_ftz, float r; asm("sqrt.rn.ftz.f32 %0,%1;" : "=f"(r) : "f"(F(a))); return U(r);)
KERNEL(f32_rcp_ftz, float r; asm("rcp.rn.ftz.f32 %0,%1;" : "=f"(r) : "f"(F(a))); return U(r);)
KERNEL(f32_div_full, float r; asm("div.full.f32 %0,%1,%2;" : "=f"(r) : "f"(F(a)), "f"(F(b))); return U(r);)
KERNEL(f32_div_approx_ftz, float r; asm("div.approx.ftz.f32 %0,%1,%2;" : "=f"(r) : "f"(F(a)), "f"(F(b)));
       return U(r);)
KERNEL(f32_add_rz, return U(__fadd_rz(F(a), F(b)));)
KERNEL(f32_mul_rp, return U(__fmul_ru(F(a), F(b)));)
KERNEL(f32_fma_rm, return U(__fmaf_rd(F(a), F(b), F(c)));)
KERNEL(f32_neg, return U(-F(a));)
KERNEL(f32_abs, return U(fabsf(F(a)));)
KERNEL(f32_floor, return U(floorf(F(a)));)
KERNEL(f32_round, return U(roundf(F(a)));)
KERNEL(f32_rint, return U(rintf(F(a)));)
KERNEL(f64_add, return UD(__dadd_rn(D(a), D(b)));)
KERNEL(f64_mul, return UD(__dmul_rn(D(a), D(b)));)
KERNEL(f64_fma, return UD(__fma_rn(D(a), D(b), D(c)));)
KERNEL(f64_div, return UD(__ddiv_rn(D(a), D(b)));)
KERNEL(f64_sqrt, return UD(__dsqrt_rn(D(a)));)
KERNEL(f64_min, return UD(fmin(D(a), D(b)));)
KERNEL(f16_add, return UH(__hadd_rn(H(a), H(b)));)
KERNEL(f16_mul, return UH(__hmul_rn(H(a), H(b)));)
KERNEL(f16_fma, return UH(__hfma(H(a), H(b), H(c)));)
KERNEL(f16_div, return UH(__hdiv(H(a), H(b)));)
KERNEL(f16_min, return UH(__hmin(H(a), H(b)));)
KERNEL(f16_max_nan, return UH(__hmax_nan(H(a), H(b)));)
KERNEL(f16_neg, return UH(__hneg(H(a)));)
KERNEL(f16_abs, return UH(__habs(H(a)));)
KERNEL(f16_sqrt, return UH(hsqrt(H(a)));)
KERNEL(f16_rcp, return UH(hrcp(H(a)));)
KERNEL(f16_rsqrt, return UH(hrsqrt(H(a)));)
KERNEL(f16_exp, return UH(hexp(H(a)));)
KERNEL(f16_exp2, return UH(hexp2(H(a)));)
KERNEL(f16_log, return UH(hlog(H(a)));)
KERNEL(f16_log2, return UH(hlog2(H(a)));)
KERNEL(f16_sin, return UH(hsin(H(a)));)
KERNEL(f16_exp10, return UH(hexp10(H(a)));)
KERNEL(f16_log10, return UH(hlog10(H(a)));)
KERNEL(f16_cos, return UH(hcos(H(a)));)
KERNEL(f16_tanh, return UH(htanh(H(a)));)
KERNEL(bf16_exp10, return UB(hexp10(B(a)));)
KERNEL(bf16_log2, return UB(hlog2(B(a)));)
KERNEL(bf16_log10, return UB(hlog10(B(a)));)
KERNEL(bf16_sin, return UB(hsin(B(a)));)
KERNEL(bf16_cos, return UB(hcos(B(a)));)
KERNEL(bf16_sqrt, return UB(hsqrt(B(a)));)
KERNEL(bf16_rcp, return UB(hrcp(B(a)));)
KERNEL(bf16_rsqrt, return UB(hrsqrt(B(a)));)
KERNEL(bf16_tanh, return UB(htanh(B(a)));)
KERNEL(bf16_add, return UB(__hadd_rn(B(a), B(b)));)
KERNEL(bf16_mul, return UB(__hmul_rn(B(a), B(b)));)
KERNEL(bf16_fma, return UB(__hfma(B(a), B(b), B(c)));)
KERNEL(bf16_div, return UB(__hdiv(B(a), B(b)));)
KERNEL(bf16_max, return UB(__hmax(B(a), B(b)));)
KERNEL(bf16_neg, return UB(__hneg(B(a)));)
KERNEL(bf16_abs, return UB(__habs(B(a)));)
KERNEL(bf16_exp, return UB(hexp(B(a)));)
KERNEL(bf16_exp2, return UB(hexp2(B(a)));)
KERNEL(bf16_log, return UB(hlog(B(a)));)

KERNEL(f16_f32, return UH(__float2half_rn(F(a)));)
KERNEL(f16_f32_rz, return UH(__float2half_rz(F(a)));)
KERNEL(f16_f32_rm, return UH(__float2half_rd(F(a)));)
KERNEL(f32_f16, return U(__half2float(H(a)));)
KERNEL(bf16_f32, return UB(__float2bfloat16_rn(F(a)));)
KERNEL(bf16_f32_rz, return UB(__float2bfloat16_rz(F(a)));)
KERNEL(f32_bf16, return U(__bfloat162float(B(a)));)
KERNEL(f64_f32, return UD((double)F(a));)
KERNEL(f32_f64, return U(__double2float_rn(D(a)));)
KERNEL(f32_f64_rz, return U(__double2float_rz(D(a)));)
KERNEL(f16_f64, return UH(__double2half(D(a)));)
KERNEL(bf16_f64, return UB(__double2bfloat16(D(a)));)
KERNEL(f64_f16, double r; asm("cvt.f64.f16 %0,%1;" : "=d"(r) : "h"((unsigned short)a)); return UD(r);)
KERNEL(e4m3_f32, return __nv_cvt_float_to_fp8(F(a), __NV_SATFINITE, __NV_E4M3);)
KERNEL(e5m2_f32, return __nv_cvt_float_to_fp8(F(a), __NV_SATFINITE, __NV_E5M2);)
KERNEL(e4m3_f16, return __nv_cvt_halfraw_to_fp8(__half_raw(H(a)), __NV_SATFINITE, __NV_E4M3);)
KERNEL(e5m2_bf16, return __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw(B(a)), __NV_SATFINITE, __NV_E5M2);)
KERNEL(f16_e4m3, return UH(__half(__nv_cvt_fp8_to_halfraw((unsigned char)a, __NV_E4M3)));)
KERNEL(f16_e5m2, return UH(__half(__nv_cvt_fp8_to_halfraw((unsigned char)a, __NV_E5M2)));)
KERNEL(tf32_rna, uint32_t r; asm("cvt.rna.tf32.f32 %0,%1;" : "=r"(r) : "f"(F(a))); return r;)
KERNEL(tf32_rn, uint32_t r; asm("cvt.rn.tf32.f32 %0,%1;" : "=r"(r) : "f"(F(a))); return r;)
KERNEL(tf32_rz, uint32_t r; asm("cvt.rz.tf32.f32 %0,%1;" : "=r"(r) : "f"(F(a))); return r;)
KERNEL(s32_f32, return (uint32_t)__float2int_rz(F(a));)
KERNEL(s32_f32_rn, return (uint32_t)__float2int_rn(F(a));)
KERNEL(s32_f32_rm, return (uint32_t)__float2int_rd(F(a));)
KERNEL(u32_f32, return __float2uint_rz(F(a));)
KERNEL(s64_f32, return (uint64_t)__float2ll_rz(F(a));)
KERNEL(u64_f32, return __float2ull_rz(F(a));)
KERNEL(s8_f32, return (uint8_t)(int8_t)F(a);)
KERNEL(u8_f32, return (uint8_t)F(a);)
KERNEL(s16_f32, return (uint16_t)(int16_t)F(a);)
KERNEL(s32_f64, return (uint32_t)__double2int_rz(D(a));)
KERNEL(u32_f64, return __double2uint_rz(D(a));)
KERNEL(s64_f64, return (uint64_t)__double2ll_rz(D(a));)
KERNEL(u64_f64, return __double2ull_rz(D(a));)
KERNEL(s32_f16, return (uint32_t)__half2int_rz(H(a));)
KERNEL(u32_f16, return __half2uint_rz(H(a));)
KERNEL(s16_f16, return (uint16_t)__half2short_rz(H(a));)
KERNEL(s64_f16, return (uint64_t)__half2ll_rz(H(a));)
KERNEL(s32_bf16, return (uint32_t)__bfloat162int_rz(B(a));)
KERNEL(s64_bf16, return (uint64_t)__bfloat162ll_rz(B(a));)
KERNEL(f32_s32, return U(__int2float_rn((int)a));)
KERNEL(f32_u32, return U(__uint2float_rn((uint32_t)a));)
KERNEL(f32_s64, return U(__ll2float_rn((long long)a));)
KERNEL(f32_u64, return U(__ull2float_rn(a));)
KERNEL(f16_s32, return UH(__int2half_rn((int)a));)
KERNEL(f16_u32, return UH(__uint2half_rn((uint32_t)a));)
KERNEL(f16_s64, return UH(__ll2half_rn((long long)a));)
KERNEL(bf16_s32, return UB(__int2bfloat16_rn((int)a));)
KERNEL(bf16_s64, return UB(__ll2bfloat16_rn((long long)a));)
KERNEL(f64_s64, return UD(__ll2double_rn((long long)a));)
KERNEL(f64_u64, return UD(__ull2double_rn(a));)

struct Row {
  const char *name;
  void (*kernel)(uint64_t *, const uint64_t *, const uint64_t *, const uint64_t *);
  int op; /* -1: conversion to dtype */
  ts_dtype dtype, source;
  unsigned flags;
};

#define OP(kernel, op, t, flags) {#kernel, kernel, TS_NUM_##op, TS_DTYPE_##t, TS_DTYPE_##t, flags}
#define CV(kernel, d, s, flags) {#kernel, kernel, -1, TS_DTYPE_##d, TS_DTYPE_##s, flags}
#define Z TS_NUM_FTZ
#define S TS_NUM_SATFINITE
static const Row rows[] = {
    OP(f32_add, add, f32, 0), OP(f32_mul, mul, f32, 0), OP(f32_fma, fma, f32, 0),
    OP(f32_div, div, f32, 0), OP(f32_sqrt, sqrt, f32, 0), OP(f32_rcp, rcp, f32, 0),
    OP(f32_min, min, f32, 0), OP(f32_max, max, f32, 0), OP(f32_add_ftz, add, f32, Z),
    OP(f32_mul_ftz, mul, f32, Z), OP(f32_div_ftz, div, f32, Z), OP(f32_min_ftz, min, f32, Z),
    OP(f32_max_nan_ftz, max, f32, Z | TS_NUM_NAN), OP(f32_fma_ftz, fma, f32, Z),
    OP(f32_sqrt_ftz, sqrt, f32, Z), OP(f32_rcp_ftz, rcp, f32, Z),
    OP(f32_div_full, div, f32, TS_NUM_APPROX), OP(f32_div_approx_ftz, div, f32, TS_NUM_APPROX | Z),
    OP(f32_add_rz, add, f32, TS_NUM_RZ), OP(f32_mul_rp, mul, f32, TS_NUM_RP),
    OP(f32_fma_rm, fma, f32, TS_NUM_RM), OP(f32_neg, neg, f32, 0), OP(f32_abs, abs, f32, 0),
    OP(f32_floor, floor, f32, 0), OP(f32_round, round, f32, 0), OP(f32_rint, rint, f32, 0),
    OP(f64_add, add, f64, 0), OP(f64_mul, mul, f64, 0), OP(f64_fma, fma, f64, 0),
    OP(f64_div, div, f64, 0), OP(f64_sqrt, sqrt, f64, 0), OP(f64_min, min, f64, 0),
    OP(f16_add, add, f16, 0), OP(f16_mul, mul, f16, 0), OP(f16_fma, fma, f16, 0),
    OP(f16_div, div, f16, 0), OP(f16_min, min, f16, 0), OP(f16_max_nan, max, f16, TS_NUM_NAN),
    OP(f16_neg, neg, f16, 0), OP(f16_abs, abs, f16, 0), OP(f16_sqrt, sqrt, f16, 0),
    OP(f16_rcp, rcp, f16, 0), OP(f16_rsqrt, rsqrt, f16, 0), OP(f16_exp, exp, f16, 0),
    OP(f16_exp2, exp2, f16, 0), OP(f16_log, log, f16, 0), OP(f16_log2, log2, f16, 0),
    OP(f16_sin, sin, f16, 0), OP(bf16_add, add, bf16, 0), OP(bf16_mul, mul, bf16, 0),
    OP(bf16_fma, fma, bf16, 0), OP(bf16_div, div, bf16, 0), OP(bf16_max, max, bf16, 0),
    OP(bf16_neg, neg, bf16, 0), OP(bf16_abs, abs, bf16, 0), OP(bf16_exp, exp, bf16, 0),
    OP(bf16_exp2, exp2, bf16, 0), OP(bf16_log, log, bf16, 0), OP(f16_exp10, exp10, f16, 0),
    OP(f16_log10, log10, f16, 0), OP(f16_cos, cos, f16, 0), OP(f16_tanh, tanh, f16, 0),
    OP(bf16_exp10, exp10, bf16, 0), OP(bf16_log2, log2, bf16, 0), OP(bf16_log10, log10, bf16, 0),
    OP(bf16_sin, sin, bf16, 0), OP(bf16_cos, cos, bf16, 0), OP(bf16_sqrt, sqrt, bf16, 0),
    OP(bf16_rcp, rcp, bf16, 0), OP(bf16_rsqrt, rsqrt, bf16, 0), OP(bf16_tanh, tanh, bf16, 0),
    CV(f16_f32, f16, f32, 0), CV(f16_f32_rz, f16, f32, TS_NUM_RZ), CV(f16_f32_rm, f16, f32, TS_NUM_RM),
    CV(f32_f16, f32, f16, 0), CV(bf16_f32, bf16, f32, 0), CV(bf16_f32_rz, bf16, f32, TS_NUM_RZ),
    CV(f32_bf16, f32, bf16, 0), CV(f64_f32, f64, f32, 0), CV(f32_f64, f32, f64, 0),
    CV(f32_f64_rz, f32, f64, TS_NUM_RZ), CV(f16_f64, f16, f64, 0), CV(bf16_f64, bf16, f64, 0),
    CV(f64_f16, f64, f16, 0), CV(e4m3_f32, e4m3, f32, S), CV(e5m2_f32, e5m2, f32, S),
    CV(e4m3_f16, e4m3, f16, S), CV(e5m2_bf16, e5m2, bf16, S), CV(f16_e4m3, f16, e4m3, 0),
    CV(f16_e5m2, f16, e5m2, 0), CV(tf32_rna, tf32, f32, TS_NUM_RNA), CV(tf32_rn, tf32, f32, TS_NUM_RN),
    CV(tf32_rz, tf32, f32, TS_NUM_RZ), CV(s32_f32, s32, f32, 0), CV(s32_f32_rn, s32, f32, TS_NUM_RN),
    CV(s32_f32_rm, s32, f32, TS_NUM_RM), CV(u32_f32, u32, f32, 0), CV(s64_f32, s64, f32, 0),
    CV(u64_f32, u64, f32, 0), CV(s8_f32, s8, f32, 0), CV(u8_f32, u8, f32, 0), CV(s16_f32, s16, f32, 0),
    CV(s32_f64, s32, f64, 0), CV(u32_f64, u32, f64, 0), CV(s64_f64, s64, f64, 0), CV(u64_f64, u64, f64, 0),
    CV(s32_f16, s32, f16, 0), CV(u32_f16, u32, f16, 0), CV(s16_f16, s16, f16, TS_NUM_SAT),
    CV(s64_f16, s64, f16, 0), CV(s32_bf16, s32, bf16, 0), CV(s64_bf16, s64, bf16, 0),
    CV(f32_s32, f32, s32, 0), CV(f32_u32, f32, u32, 0), CV(f32_s64, f32, s64, 0), CV(f32_u64, f32, u64, 0),
    CV(f16_s32, f16, s32, 0), CV(f16_u32, f16, u32, 0), CV(f16_s64, f16, s64, 0),
    CV(bf16_s32, bf16, s32, 0), CV(bf16_s64, bf16, s64, 0), CV(f64_s64, f64, s64, 0), CV(f64_u64, f64, u64, 0),
};

static uint64_t random64() {
  static uint64_t state = 99;
  state += 0x9e3779b97f4a7c15ull;
  uint64_t x = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

static uint64_t operand(ts_dtype t, size_t i) {
  unsigned bits = ts_dtype_bits(t);
  if (bits <= 16 && i < 65536) return i & ((1u << bits) - 1); /* every one */
  uint64_t mask = bits == 64 ? ~0ull : (1ull << bits) - 1, r = random64();
  if (!ts_dtype_is_float(t)) return (r >> random64() % bits) & mask;
  const struct ts_dtype_info *info = ts_dtype_info(t);
  if (i % 2) return r & mask;
  uint64_t field = (uint64_t)info->bias - 8 + random64() % 16, fields = 1ull << info->exponent_bits;
  if (i % 16 == 0) field = random64() % 4;
  if (i % 16 == 2) field = fields - 1 - random64() % 3;
  field &= fields - 1;
  uint64_t fraction = r & ((1ull << info->mantissa_bits) - 1);
  if (i % 32 == 4) fraction &= ~0ull << (info->mantissa_bits / 2);
  return (r >> 63 << (bits - 1) | field << info->mantissa_bits | fraction) & mask;
}

/* FTZ: products around the least normal */
static void around_tiny(const Row &row, uint64_t &a, uint64_t &b, size_t i) {
  if (row.op < 0 || row.source != TS_DTYPE_f32 || i % 8 != 6) return;
  uint64_t e = 20 + random64() % 90;
  a = (a & 0x807fffff) | e << 23;
  b = (b & 0x807fffff) | (127 - e + random64() % 2) << 23;
}

int main() {
  uint64_t *device[4];
  std::vector<uint64_t> host[4];
  for (int k = 0; k < 4; ++k) {
    cudaMalloc(&device[k], COUNT * 8);
    host[k].resize(COUNT);
  }
  for (const Row &row : rows) {
    for (size_t i = 0; i < COUNT; ++i) {
      for (int k = 1; k < 4; ++k) host[k][i] = operand(row.source, i + (k == 3 ? 1 : 0));
      around_tiny(row, host[1][i], host[2][i], i);
    }
    for (int k = 1; k < 4; ++k)
      cudaMemcpy(device[k], host[k].data(), COUNT * 8, cudaMemcpyHostToDevice);
    row.kernel<<<COUNT / 256, 256>>>(device[0], device[1], device[2], device[3]);
    if (cudaMemcpy(host[0].data(), device[0], COUNT * 8, cudaMemcpyDeviceToHost) != cudaSuccess) {
      printf("%s: %s\n", row.name, cudaGetErrorString(cudaGetLastError()));
      return 1;
    }
    size_t differ = 0, nan = 0;
    for (size_t i = 0; i < COUNT; ++i) {
      uint64_t a = host[1][i], b = host[2][i], c = host[3][i], got;
      ts_num_op op = (ts_num_op)row.op;
      if (row.op < 0)
        got = ts_num_convert1(row.dtype, row.source, row.flags, a);
      else if (ts_num_op_arity(op) == 1)
        got = ts_num_eval1(op, row.dtype, row.flags, a);
      else if (ts_num_op_arity(op) == 2)
        got = ts_num_eval2(op, row.dtype, row.flags, a, b);
      else
        got = ts_num_eval3(op, row.dtype, row.flags, a, b, c);
      if (got == host[0][i]) continue;
      bool is_nan = ts_dtype_is_float(row.dtype) &&
                    ts_num_eval1(TS_NUM_isnan, row.dtype, 0, got) &&
                    ts_num_eval1(TS_NUM_isnan, row.dtype, 0, host[0][i]);
      nan += is_nan;
      if (differ++ < 3 || (!is_nan && differ - nan <= 3))
        printf("    %llx %llx %llx: device %llx library %llx\n", (long long)a, (long long)b,
               (long long)c, (long long)host[0][i], (long long)got);
    }
    printf("%-20s %7zu of %d differ (%zu in the NaN only)\n", row.name, differ, COUNT, nan);
  }
  return 0;
}
