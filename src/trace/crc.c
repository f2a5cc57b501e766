/* CRC-32 of a file's blocks. The checksum is a large part of what reading costs, so that where the host
 * can multiply polynomials most of a block is folded: a state of 128 bits times x^n takes the place of
 * the bytes n bits on, and four states do so independently of each other. */
#include "trace/trace_priv.h"

#include <lzma.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { STATE_BYTES = 16, STATE_COUNT = 4, STEP_BYTES = STATE_COUNT * STATE_BYTES };

#define FOLDS __attribute__((target("pclmul")))

/* The state's halves are multiplied by powers of x modulo the polynomial, bit-reversed as all is. */
FOLDS static __m128i fold(__m128i state, __m128i powers, __m128i data) {
  __m128i low = _mm_clmulepi64_si128(state, powers, 0x00);
  __m128i high = _mm_clmulepi64_si128(state, powers, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), data);
}

FOLDS static __m128i load(const uint8_t *data) { return _mm_loadu_si128((const __m128i *)data); }

/* size_bytes is a multiple of STEP_BYTES, and not 0. */
FOLDS static uint32_t fold_all(uint32_t crc, const uint8_t *data, size_t size_bytes) {
  const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);  /* x^(512 - 32), x^(512 + 32) */
  const __m128i near = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0); /* x^(128 - 32), x^(128 + 32) */
  __m128i states[STATE_COUNT];
  uint8_t rest[STATE_BYTES];
  for (int i = 0; i < STATE_COUNT; i++)
    states[i] = load(data + i * STATE_BYTES);
  states[0] = _mm_xor_si128(states[0], _mm_cvtsi32_si128((int)~crc));
  for (size_t at = STEP_BYTES; at < size_bytes; at += STEP_BYTES)
    for (int i = 0; i < STATE_COUNT; i++)
      states[i] = fold(states[i], far, load(data + at + (size_t)i * STATE_BYTES));
  for (int i = 1; i < STATE_COUNT; i++)
    states[i] = fold(states[i - 1], near, states[i]);
  _mm_storeu_si128((__m128i *)rest, states[STATE_COUNT - 1]);
  return lzma_crc32(rest, sizeof rest, UINT32_MAX); /* the start is in the state already */
}

static size_t folded_bytes(size_t size_bytes) {
  return __builtin_cpu_supports("pclmul") ? size_bytes - size_bytes % STEP_BYTES : 0;
}
#else
static uint32_t fold_all(uint32_t crc, const uint8_t *data, size_t size_bytes) {
  return lzma_crc32(data, size_bytes, crc);
}

static size_t folded_bytes(size_t size_bytes) { return 0 * size_bytes; }
#endif

uint32_t ts__trace_crc32(uint32_t crc, const uint8_t *data, size_t size_bytes) {
  size_t folded = folded_bytes(size_bytes);
  if (folded) crc = fold_all(crc, data, folded);
  return lzma_crc32(data + folded, size_bytes - folded, crc);
}
