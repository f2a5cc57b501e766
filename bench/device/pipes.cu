// Latency and throughput of single instructions: dependent and independent chains, 1 to 32 warps.
#include "common.cuh"

struct operands {
  uint32_t a, b, c; // run-time values, so that nothing folds
};

// One step of an operation on a 32-bit state. Two alternating constants stop re-association.
#define OP(name, ...)                                                                              \
  struct name {                                                                                    \
    static constexpr const char *label = #name;                                                    \
    static __device__ __forceinline__ void step(uint32_t &x, const operands &o, int i) {           \
      const uint32_t a = i & 1 ? o.a : o.b, c = o.c;                                               \
      (void)a, (void)c;                                                                            \
      __VA_ARGS__;                                                                                 \
    }                                                                                              \
  };
#define X2(text) asm volatile(text : "+r"(x) : "r"(a), "r"(c))
#define FLOAT(text)                                                                                \
  asm volatile("{.reg .f32 p, q, r; mov.b32 p, %0; mov.b32 q, %1; mov.b32 r, %2; " text            \
               " mov.b32 %0, p;}"                                                                  \
               : "+r"(x)                                                                           \
               : "r"(a), "r"(c))

namespace op {

OP(fadd, FLOAT("add.rn.f32 p, p, q;"))
OP(fmul, FLOAT("mul.rn.f32 p, p, q;"))
OP(ffma, FLOAT("fma.rn.f32 p, p, q, r;"))
OP(fmax_, FLOAT("max.f32 p, p, q; neg.f32 p, p;"))

OP(iadd_lop3, X2("add.s32 %0, %0, %1; xor.b32 %0, %0, %2;"))
OP(imad, X2("mad.lo.s32 %0, %0, %1, %2;"))
OP(imul_hi, X2("mul.hi.u32 %0, %0, %1;"))
OP(lop3_shf, X2("xor.b32 %0, %0, %1; shf.l.wrap.b32 %0, %0, %0, 7;"))
OP(funnel, X2("shf.l.wrap.b32 %0, %0, %1, %2;"))
OP(shl_by_register, X2("shl.b32 %0, %1, %0;"))
OP(isetp_sel, X2("{.reg .pred p; setp.lt.s32 p, %0, %1; selp.b32 %0, %2, %1, p;}"))
OP(imnmx_iadd, X2("max.s32 %0, %0, %1; sub.s32 %0, %2, %0;"))
OP(permute, X2("prmt.b32 %0, %0, %1, %2;"))
OP(count_ones, X2("popc.b32 %0, %0;"))
OP(flo, X2("bfind.u32 %0, %0;"))
OP(bit_reverse, X2("brev.b32 %0, %0;"))
OP(ex2, FLOAT("ex2.approx.ftz.f32 p, p;"))
OP(rcp_fadd, FLOAT("rcp.approx.ftz.f32 p, p; add.rn.f32 p, p, q;"))
OP(lg2, FLOAT("lg2.approx.ftz.f32 p, p;"))
OP(rsq, FLOAT("rsqrt.approx.ftz.f32 p, p;"))
OP(sqrt_, FLOAT("sqrt.approx.ftz.f32 p, p;"))
OP(sin_, FLOAT("sin.approx.ftz.f32 p, p;"))
OP(tanh_, FLOAT("tanh.approx.f32 p, p;"))
OP(ex2_f16x2, X2("ex2.approx.f16x2 %0, %0;"))
OP(cvt_f16x2_f32, FLOAT("cvt.rn.f16x2.f32 %0, p, q; mov.b32 p, %0;"))
OP(cvt_bf16x2_f32, FLOAT("cvt.rn.bf16x2.f32 %0, p, q; mov.b32 p, %0;"))
OP(cvt_f32_f16, X2("{.reg .b16 l, h; mov.b32 {l, h}, %0; cvt.f32.f16 %0, l;}"))
OP(cvt_f16_f32, FLOAT("{.reg .b16 l; cvt.rn.f16.f32 l, p; mov.b32 p, {l, l};}"))
OP(cvt_f32_bf16_shift, X2("shl.b32 %0, %0, 16; or.b32 %0, %0, %1;"))
OP(i2f, X2("{.reg .f32 p; cvt.rn.f32.s32 p, %0; mov.b32 %0, p;}"))
OP(f2i, FLOAT("cvt.rni.s32.f32 %0, p; mov.b32 p, %0;"))
OP(cvt_e4m3x2_f32, FLOAT("{.reg .b16 l; cvt.rn.satfinite.e4m3x2.f32 l, p, q; mov.b32 p, {l, l};}"))
OP(cvt_f16x2_e4m3x2, X2("{.reg .b16 l, h; mov.b32 {l, h}, %0; cvt.rn.f16x2.e4m3x2 %0, l;}"))
OP(hfma2, X2("fma.rn.f16x2 %0, %0, %1, %2;"))
OP(add_f16x2, X2("add.rn.f16x2 %0, %0, %1;"))
OP(hmul2, X2("mul.rn.f16x2 %0, %0, %1;"))
OP(hmax2, X2("max.f16x2 %0, %0, %1; neg.f16x2 %0, %0;"))
OP(hfma2_bf16, X2("fma.rn.bf16x2 %0, %0, %1, %2;"))
OP(dfma, asm volatile("{.reg .f64 p; mov.b64 p, {%0, %1}; fma.rn.f64 p, p, p, p;"
                      " .reg .b32 h; mov.b64 {%0, h}, p; xor.b32 %0, %0, h;}"
                      : "+r"(x)
                      : "r"(a)))
OP(imad_wide_high,
   asm volatile("{.reg .b64 w; .reg .b32 l; mul.wide.u32 w, %0, %1; mov.b64 {l, %0}, w;"
                " xor.b32 %0, %0, l;}"
                : "+r"(x)
                : "r"(a)))
OP(dp4a, X2("dp4a.s32.s32 %0, %0, %1, %2;"))
OP(shfl_bfly, X2("shfl.sync.bfly.b32 %0, %0, 5, 0x1f, 0xffffffff;"))

OP(vote_ballot,
   X2("{.reg .pred p; setp.ne.s32 p, %0, %1; vote.sync.ballot.b32 %0, p, 0xffffffff;}"))
OP(redux_add, X2("redux.sync.add.s32 %0, %0, 0xffffffff;"))
OP(match_any, X2("match.any.sync.b32 %0, %0, 0xffffffff;"))
OP(div_s32, asm volatile("{.reg .b32 t; div.s32 t, %1, %0; add.s32 %0, t, %2;}"
                         : "+r"(x)
                         : "r"(a), "r"(c)))
OP(rem_s32, asm volatile("{.reg .b32 t; rem.s32 t, %1, %0; add.s32 %0, t, %2;}"
                         : "+r"(x)
                         : "r"(a), "r"(c)))
OP(div_u32, asm volatile("{.reg .b32 t; div.u32 t, %1, %0; add.s32 %0, t, %2;}"
                         : "+r"(x)
                         : "r"(a), "r"(c)))
OP(div_f32_full, FLOAT("div.full.f32 p, q, p;"))
OP(div_f32_rn, FLOAT("div.rn.f32 p, q, p;"))
OP(sqrt_f32_rn, FLOAT("sqrt.rn.f32 p, p;"))
OP(ex2_no_ftz, FLOAT("ex2.approx.f32 p, p;"))
OP(rcp_no_ftz, FLOAT("rcp.approx.f32 p, p;"))
OP(syncwarp, asm volatile("bar.warp.sync 0xffffffff;" ::
                              : "memory");
   asm volatile("xor.b32 %0, %0, %1;"
                : "+r"(x)
                : "r"(a)))
OP(lop3, X2("{.reg .b32 t; and.b32 t, %1, %0; xor.b32 %0, t, %2;}"))
OP(mix_ffma_lop3, FLOAT("fma.rn.f32 p, p, q, r;"); X2("lop3.b32 %0, %0, %1, %2, 0x6a;"))
OP(mix_ffma_imad, FLOAT("fma.rn.f32 p, p, q, r;"); X2("mad.lo.s32 %0, %0, %1, %2;"))
OP(mix_imad_lop3, X2("mad.lo.s32 %0, %0, %1, %2;"); X2("lop3.b32 %0, %0, %1, %2, 0x6a;"))
OP(mix_ffma_hfma2, FLOAT("fma.rn.f32 p, p, q, r;"); X2("fma.rn.f16x2 %0, %0, %1, %2;"))
OP(mix_ffma_ffma_lop3_lop3, FLOAT("fma.rn.f32 p, p, q, r; fma.rn.f32 p, p, r, q;");
   X2("lop3.b32 %0, %0, %1, %2, 0x6a;"); X2("lop3.b32 %0, %0, %2, %1, 0x96;"))
OP(mix_ex2_ffma4, FLOAT("ex2.approx.ftz.f32 p, p; fma.rn.f32 p, p, q, r; fma.rn.f32 p, p, r, q;"
                        " fma.rn.f32 p, p, q, r; fma.rn.f32 p, p, r, q;"))
OP(mix_ex2_cvt, FLOAT("ex2.approx.ftz.f32 p, p; cvt.rn.f16x2.f32 %0, p, q; mov.b32 p, %0;"))
OP(mix_shfl_ffma, X2("shfl.sync.bfly.b32 %0, %0, 5, 0x1f, 0xffffffff;");
   FLOAT("fma.rn.f32 p, p, q, r;"))
OP(mix_shfl_fadd_step,
   FLOAT("{.reg .f32 s; shfl.sync.bfly.b32 s, p, 5, 0x1f, 0xffffffff; add.rn.f32 p, p, s;}"))
OP(dadd,
   asm volatile("{.reg .f64 p, q; mov.b64 p, {%0, %0}; mov.b64 q, {%1, %1}; add.rn.f64 p, p, q;"
                " .reg .b32 h; mov.b64 {%0, h}, p;}"
                : "+r"(x)
                : "r"(a)))
OP(branch_divergent, if (x & 1) asm volatile("mul.lo.u32 %0, %0, %1; sub.u32 %0, %0, %2;"
                                             : "+r"(x)
                                             : "r"(a), "r"(c));
   else asm volatile("add.u32 %0, %0, %1;"
                     : "+r"(x)
                     : "r"(a)))

// ILP chains, 64 steps a round. Each warp's first and last clock; the block reports the span.
template <class O, int ILP>
__global__ void __launch_bounds__(1024)
    steps(operands o, int rounds, cycles_t *out, uint32_t *sink) {
  __shared__ cycles_t first, last;
  uint32_t x[ILP];
#pragma unroll
  for (int i = 0; i < ILP; i++)
    x[i] = o.a * (threadIdx.x + 3 + i) + o.c;
  if (threadIdx.x == 0) first = INT64_MAX, last = 0;
  __syncthreads();
  const cycles_t start = now();
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int s = 0; s < 64 / ILP; s++) {
#pragma unroll
      for (int i = 0; i < ILP; i++)
        O::step(x[i], o, s);
    }
  }
  uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < ILP; i++)
    sum ^= x[i];
  if (sum == 0x12345) *sink = sum;
  const cycles_t end = now();
  if ((threadIdx.x & 31) == 0) {
    atomicMin((unsigned long long *)&first, (unsigned long long)start);
    atomicMax((unsigned long long *)&last, (unsigned long long)end);
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = last - first;
}

template <class O> static void op_rows() {
  static uint32_t *sink = nullptr;
  if (!sink) CHECK(cudaMalloc(&sink, 256));
  const operands o = {0x3f8ccccd, 0x3f7ae148, 0x3c23d70a};
  auto span = [&](auto kernel, int warps, int rounds) {
    double t[2];
    for (int i = 0; i < 2; i++)
      t[i] = measure(1, 0.5, [&](cycles_t *out) {
        kernel<<<1, 32 * warps>>>(o, rounds * (i + 1), out, sink);
      });
    return (t[1] - t[0]) / rounds / 64;
  };
  row(span(steps<O, 1>, 1, 16), "cycles/step", "%s_chain", O::label);
  for (int warps : {1, 4, 8, 16, 32})
    row(span(steps<O, 8>, warps, 16) / warps, "cycles/warp-step/SM", "%s_8chains_%dwarps", O::label,
        warps);
}

template <class... O> static void all_rows() { (op_rows<O>(), ...); }

static void every_row() {
  all_rows<fadd, fmul, ffma, fmax_, iadd_lop3, imad, imul_hi, lop3_shf, funnel, shl_by_register,
           isetp_sel, imnmx_iadd, permute, count_ones, flo, bit_reverse, imad_wide_high, dp4a>();
  all_rows<ex2, rcp_fadd, lg2, rsq, sqrt_, sin_, tanh_, ex2_f16x2, ex2_no_ftz, rcp_no_ftz>();
  all_rows<cvt_f16x2_f32, cvt_bf16x2_f32, cvt_f32_f16, cvt_f16_f32, cvt_f32_bf16_shift, i2f, f2i,
           cvt_e4m3x2_f32, cvt_f16x2_e4m3x2>();
  all_rows<hfma2, add_f16x2, hmul2, hmax2, hfma2_bf16, dfma>();
  all_rows<shfl_bfly, vote_ballot, redux_add, match_any, syncwarp, branch_divergent>();
  all_rows<lop3, mix_ffma_lop3, mix_ffma_imad, mix_imad_lop3, mix_ffma_hfma2,
           mix_ffma_ffma_lop3_lop3, mix_ex2_ffma4, mix_ex2_cvt, mix_shfl_ffma, mix_shfl_fadd_step,
           dadd>();
  all_rows<div_s32, rem_s32, div_u32, div_f32_full, div_f32_rn, sqrt_f32_rn>();
}

} // namespace op

// A loop of BODY independent FFMAs that is not unrolled: what the counter, compare and branch add.
template <int BODY>
__global__ void __launch_bounds__(1024) loop(int rounds, float a, cycles_t *out, float *sink) {
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  __syncthreads();
  const cycles_t start = now();
#pragma unroll 1
  for (int r = 0; r < rounds; r++) {
#pragma unroll
    for (int i = 0; i < BODY; i++)
      asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i & 7]) : "f"(a));
  }
  float sum = 0;
  for (int i = 0; i < 8; i++)
    sum += x[i];
  if (sum == 0.12345f) *sink = sum;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = now() - start;
}

template <int BODY> static void loop_rows() {
  static float *sink = nullptr;
  if (!sink) CHECK(cudaMalloc(&sink, 256));
  for (int warps : {1, 4, 8, 16}) {
    double t[2];
    for (int i = 0; i < 2; i++)
      t[i] = measure(1, 0.5, [&](cycles_t *out) {
        loop<BODY><<<1, 32 * warps>>>(128 * (i + 1), 0.5f, out, sink);
      });
    row((t[1] - t[0]) / 128, "cycles/iteration", "loop_of_%d_ffma_%dwarps", BODY, warps);
  }
}

int main() {
  op::every_row();
  loop_rows<1>();
  loop_rows<8>();
  loop_rows<32>();
  return 0;
}
