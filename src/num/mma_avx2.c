/* Matrix kernels for hosts with AVX2, FMA and F16C; empty when the compiler may not use them. */
#ifdef __AVX2__
#include <immintrin.h>

#include "num/num_priv.h"

#define VECTOR static inline __attribute__((always_inline))

typedef __m256 vf;
typedef __m256i vi;
enum { V_LANES = 8, V_ROWS = 2 };

VECTOR vi v_set(int32_t x) { return _mm256_set1_epi32(x); }
VECTOR vi v_load(const void *p) { return _mm256_load_si256((const __m256i *)p); }
VECTOR vi v_load_any(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
VECTOR vf v_load_float(const float *p) { return _mm256_load_ps(p); }
VECTOR void v_store(void *p, vi x) { _mm256_store_si256((__m256i *)p, x); }
VECTOR void v_store_any(void *p, vi x) { _mm256_storeu_si256((__m256i *)p, x); }
VECTOR vi v_quad(const void *p) { return _mm256_broadcastsi128_si256(_mm_load_si128(p)); }
VECTOR vf v_quad_float(const float *p) {
  return _mm256_broadcast_ps((const __m128 *)(const void *)p);
}
VECTOR vi v_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
VECTOR vi v_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
VECTOR vi v_max(vi a, vi b) { return _mm256_max_epi32(a, b); }
VECTOR vi v_add16(vi a, vi b) { return _mm256_add_epi16(a, b); }
VECTOR vi v_max16(vi a, vi b) { return _mm256_max_epi16(a, b); }
VECTOR vi v_dot16(vi a, vi b) { return _mm256_madd_epi16(a, b); }
VECTOR vi v_and(vi a, vi b) { return _mm256_and_si256(a, b); }
VECTOR vi v_andnot(vi a, vi b) { return _mm256_andnot_si256(a, b); }
VECTOR vi v_or(vi a, vi b) { return _mm256_or_si256(a, b); }
VECTOR vi v_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
VECTOR vi v_left(vi a, unsigned n) { return _mm256_slli_epi32(a, (int)n); }
VECTOR vi v_right(vi a, unsigned n) { return _mm256_srli_epi32(a, (int)n); }
VECTOR vi v_right_signed(vi a, unsigned n) { return _mm256_srai_epi32(a, (int)n); }
VECTOR vf v_as_float(vi a) { return _mm256_castsi256_ps(a); }
VECTOR vi v_as_int(vf a) { return _mm256_castps_si256(a); }
VECTOR vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
VECTOR vf v_add_float(vf a, vf b) { return _mm256_add_ps(a, b); }
VECTOR vi v_trunc(vf a) { return _mm256_cvttps_epi32(a); }

/* The conversion rounds to nearest: where that went past the integer, one step back. Also right
 * when the float is 2^31, which truncates to INT32_MIN: the difference is taken modulo 2^32. */
VECTOR vf v_to_float_rz(vi a) {
  vf nearest = _mm256_cvtepi32_ps(a);
  vi sign = v_right_signed(a, 31);
  vi past = v_sub(v_xor(v_sub(v_trunc(nearest), a), sign), sign);
  vi step = _mm256_cmpgt_epi32(past, _mm256_setzero_si256());
  return v_as_float(v_add(v_as_int(nearest), step));
}

VECTOR uint32_t v_mask_negative(vi a) { return (uint32_t)_mm256_movemask_ps(v_as_float(a)); }

VECTOR uint32_t v_mask_greater(vi a, vi b) { return v_mask_negative(_mm256_cmpgt_epi32(a, b)); }

VECTOR vi v_where_equal(vi a, vi b, vi then, vi otherwise) {
  return _mm256_blendv_epi8(otherwise, then, _mm256_cmpeq_epi32(a, b));
}

VECTOR vi v_where_nan(vf a, vi then, vi otherwise) {
  vi nan = v_as_int(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(otherwise, then, nan);
}

VECTOR vi v_canonical(vf a) { return v_where_nan(a, v_set(0x7fffffff), v_as_int(a)); }

VECTOR vf v_from_half(vi a) {
  vi pairs = _mm256_packus_epi32(v_and(a, v_set(0xffff)), _mm256_setzero_si256());
  return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 0x08)));
}

VECTOR vi v_to_half(vf a) {
  vi half = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  return v_where_nan(a, v_set(0x7fff), half);
}

#include "num/mma_vector_stores.h"

#define MMA_KERNELS ts__mma_avx2
#include "num/mma_kernel.h"
#else
#include "num/num_priv.h"
const struct ts__mma_kernels ts__mma_avx2 = {0};
#endif
