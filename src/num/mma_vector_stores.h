/* Stores into panels, for every instruction set from AVX2 on. */
VECTOR void v_store4(int32_t *p, int32_t x) {
  _mm_store_si128((__m128i *)(void *)p, _mm_set1_epi32(x));
}

VECTOR void v_store4_float(float *p, float x) { _mm_store_ps(p, _mm_set1_ps(x)); }

/* Elements 0 2 4 6 1 3 5 7. */
VECTOR void v_store_even_odd(float *out, const float *in) {
  const __m256i order = _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7);
  _mm256_store_ps(out, _mm256_permutevar8x32_ps(_mm256_load_ps(in), order));
}

/* Eight 32-bit integers to 16 bits. */
VECTOR void v_store_narrow(int16_t *out, const int32_t *in) {
  __m128i low = _mm_load_si128((const __m128i *)(const void *)in);
  __m128i high = _mm_load_si128((const __m128i *)(const void *)(in + 4));
  _mm_store_si128((__m128i *)(void *)out, _mm_packs_epi32(low, high));
}
