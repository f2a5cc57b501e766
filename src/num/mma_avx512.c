/* Matrix kernels for hosts with AVX-512 (F, BW, DQ, VL); empty when the compiler may not use it. */
#ifdef __AVX512BW__
#include <immintrin.h>

/* Without optimisation gcc's intrinsics are macros, and their text has such conversions. */
#pragma GCC diagnostic ignored "-Wsign-conversion"

#include "num/num_priv.h"

#define VECTOR static inline __attribute__((always_inline))

typedef __m512 vf;
typedef __m512i vi;
enum { V_LANES = 16, V_ROWS = 4 };

VECTOR vi v_set(int32_t x) { return _mm512_set1_epi32(x); }
VECTOR vi v_load(const void *p) { return _mm512_load_si512(p); }
VECTOR vi v_load_any(const void *p) { return _mm512_loadu_si512(p); }
VECTOR vf v_load_float(const float *p) { return _mm512_load_ps(p); }
VECTOR void v_store(void *p, vi x) { _mm512_store_si512(p, x); }
VECTOR void v_store_any(void *p, vi x) { _mm512_storeu_si512(p, x); }
VECTOR vi v_quad(const void *p) { return _mm512_broadcast_i32x4(_mm_load_si128(p)); }
VECTOR vf v_quad_float(const float *p) { return _mm512_broadcast_f32x4(_mm_load_ps(p)); }
VECTOR vi v_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
VECTOR vi v_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
VECTOR vi v_max(vi a, vi b) { return _mm512_max_epi32(a, b); }
VECTOR vi v_add16(vi a, vi b) { return _mm512_add_epi16(a, b); }
VECTOR vi v_max16(vi a, vi b) { return _mm512_max_epi16(a, b); }
VECTOR vi v_dot16(vi a, vi b) { return _mm512_madd_epi16(a, b); }
VECTOR vi v_and(vi a, vi b) { return _mm512_and_si512(a, b); }
VECTOR vi v_andnot(vi a, vi b) { return _mm512_andnot_si512(a, b); }
VECTOR vi v_or(vi a, vi b) { return _mm512_or_si512(a, b); }
VECTOR vi v_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
VECTOR vi v_left(vi a, unsigned n) { return _mm512_slli_epi32(a, n); }
VECTOR vi v_right(vi a, unsigned n) { return _mm512_srli_epi32(a, n); }
VECTOR vi v_right_signed(vi a, unsigned n) { return _mm512_srai_epi32(a, n); }
VECTOR vf v_as_float(vi a) { return _mm512_castsi512_ps(a); }
VECTOR vi v_as_int(vf a) { return _mm512_castps_si512(a); }
VECTOR vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
VECTOR vf v_add_float(vf a, vf b) { return _mm512_add_ps(a, b); }
VECTOR vi v_trunc(vf a) { return _mm512_cvttps_epi32(a); }

VECTOR vf v_to_float_rz(vi a) {
  return _mm512_cvt_roundepi32_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

VECTOR uint32_t v_mask_greater(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }

VECTOR uint32_t v_mask_negative(vi a) { return _mm512_movepi32_mask(a); }

VECTOR vi v_where_equal(vi a, vi b, vi then, vi otherwise) {
  return _mm512_mask_mov_epi32(otherwise, _mm512_cmpeq_epi32_mask(a, b), then);
}

VECTOR vi v_canonical(vf a) {
  __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(v_as_int(a), nan, v_set(0x7fffffff));
}

VECTOR vf v_from_half(vi a) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(a)); }

/* Nearest even; NaN becomes 7fff, zero +0. */
VECTOR vi v_to_half(vf a) {
  __mmask16 nan = _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
  vi half = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  return _mm512_mask_mov_epi32(half, nan, v_set(0x7fff));
}

#include "num/mma_vector_stores.h"

#define MMA_KERNELS ts__mma_avx512
#include "num/mma_kernel.h"
#else
#include "num/num_priv.h"
const struct ts__mma_kernels ts__mma_avx512 = {0};
#endif
