/* Ways into the panels, for every instruction set from AVX2 on; the including file is compiled for
 * one of them and defines VECTOR. */
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX2__) && defined(VECTOR)
#include <immintrin.h>

VECTOR void v_store4(int32_t *p, int32_t x) {
  _mm_store_si128((__m128i *)(void *)p, _mm_set1_epi32(x));
}

VECTOR void v_store4_float(float *p, const float *x) { _mm_store_ps(p, _mm_broadcast_ss(x)); }

/* The low half of x in both halves of four lanes. */
VECTOR void v_store4_twice(int32_t *p, const int32_t *x) {
  _mm_store_si128((__m128i *)(void *)p, _mm_set1_epi16((int16_t)*x));
}

/* Elements 0 2 4 6 1 3 5 7. */
VECTOR void v_store_even_odd(float *out, const void *in) {
  const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  _mm256_store_ps(out, _mm256_permutevar8x32_ps(_mm256_load_ps((const float *)in), order));
}

/* Eight 32-bit integers to 16 bits. */
VECTOR void v_store_narrow(int16_t *out, const int32_t *in) {
  __m128i low = _mm_load_si128((const __m128i *)(const void *)in);
  __m128i high = _mm_load_si128((const __m128i *)(const void *)(in + 4));
  _mm_store_si128((__m128i *)(void *)out, _mm_packs_epi32(low, high));
}

/* As ts__mma_kernels says: 4 x 4 tiles in registers. */
static void transpose(uint32_t *out, size_t out_stride, const uint32_t *in, size_t in_stride,
                      uint32_t rows) {
  for (uint32_t i = 0; i < rows; i += 4) {
    for (uint32_t j = 0; j < 8; j += 4) {
      __m128 row[4];
      for (uint32_t l = 0; l < 4; ++l)
        row[l] = _mm_loadu_ps((const float *)(const void *)(in + (j + l) * in_stride + i));
      _MM_TRANSPOSE4_PS(row[0], row[1], row[2], row[3]);
      for (uint32_t l = 0; l < 4; ++l)
        _mm_storeu_ps((float *)(void *)(out + (i + l) * out_stride + j), row[l]);
    }
  }
}

#endif
