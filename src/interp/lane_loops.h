/* Loops over the 32 slots of a warp, compiled once per instruction set: the file that includes this
 * defines LANE_TABLE, the name of the table. Loops of constant length that the compiler turns into
 * vectors, and transpositions with intrinsics, whose vectors are as wide as num's kernels': a narrow
 * store followed by a wide load of the same bytes would stall. */
#include "interp/interp_priv.h"

#include <string.h>

#if defined(__AVX512F__) || defined(__AVX2__) || defined(__SSE2__)
#include <immintrin.h>
#endif

enum { N = TS__LANES };

/* --- splat, blend, select, permute */

static void splat32(uint32_t *restrict dst, const uint32_t *restrict values, uint32_t components) {
  for (uint32_t i = 0; i < components; i++, dst += N) {
    uint32_t value = values[i];
    for (uint32_t lane = 0; lane < N; lane++)
      dst[lane] = value;
  }
}

static void splat64(uint64_t *restrict dst, const uint64_t *restrict values, uint32_t components) {
  for (uint32_t i = 0; i < components; i++, dst += N) {
    uint64_t value = values[i];
    for (uint32_t lane = 0; lane < N; lane++)
      dst[lane] = value;
  }
}

static void blend32(uint32_t *restrict dst, const uint32_t *restrict slots, uint32_t components,
                    uint32_t active) {
  uint32_t mask[N];
  for (uint32_t lane = 0; lane < N; lane++)
    mask[lane] = 0u - (active >> lane & 1);
  for (uint32_t i = 0; i < components; i++, dst += N, slots += N)
    for (uint32_t lane = 0; lane < N; lane++)
      dst[lane] = (dst[lane] & ~mask[lane]) | (slots[lane] & mask[lane]);
}

static void blend64(uint64_t *restrict dst, const uint64_t *restrict slots, uint32_t components,
                    uint32_t active) {
  uint64_t mask[N];
  for (uint32_t lane = 0; lane < N; lane++)
    mask[lane] = (uint64_t)0 - (active >> lane & 1);
  for (uint32_t i = 0; i < components; i++, dst += N, slots += N)
    for (uint32_t lane = 0; lane < N; lane++)
      dst[lane] = (dst[lane] & ~mask[lane]) | (slots[lane] & mask[lane]);
}

/* dst may be any of the operands: slots are independent. */
static void select32(uint32_t *dst, const uint32_t *p, const uint32_t *a, const uint32_t *b) {
  uint32_t result[N];
  for (uint32_t lane = 0; lane < N; lane++) {
    uint32_t mask = 0u - p[lane];
    result[lane] = (a[lane] & mask) | (b[lane] & ~mask);
  }
  memcpy(dst, result, sizeof result);
}

static void select64(uint64_t *dst, const uint32_t *p, const uint64_t *a, const uint64_t *b) {
  uint64_t result[N];
  for (uint32_t lane = 0; lane < N; lane++) {
    uint64_t mask = (uint64_t)0 - p[lane];
    result[lane] = (a[lane] & mask) | (b[lane] & ~mask);
  }
  memcpy(dst, result, sizeof result);
}

static void permute32(uint32_t *restrict dst, const uint32_t *restrict slots,
                      const uint32_t *restrict source) {
#ifdef __AVX512F__
  __m512i low = _mm512_loadu_si512(slots), high = _mm512_loadu_si512(slots + 16);
  for (uint32_t half = 0; half < N; half += 16) {
    __m512i index = _mm512_loadu_si512(source + half);
    _mm512_storeu_si512(dst + half, _mm512_permutex2var_epi32(low, index, high));
  }
#else
  for (uint32_t lane = 0; lane < N; lane++)
    dst[lane] = slots[source[lane]];
#endif
}

/* --- addresses */

/* What all lanes' addresses have in common. */
static void summarise(struct ts__access *restrict access) {
  uint64_t low = UINT64_MAX, high = 0, bits = 0, wrong = 0;
  uint64_t first = access->lane[0], stride = access->lane[1] - first;
  for (uint32_t lane = 0; lane < N; lane++) {
    uint64_t address = access->lane[lane];
    low = address < low ? address : low;
    high = address > high ? address : high;
    bits |= address;
    wrong |= address ^ (first + lane * stride);
  }
  access->low = low;
  access->high = high;
  access->bits = bits;
  access->first = first;
  access->stride = (int64_t)stride;
  access->is_affine = wrong == 0;
}

/* Lanes outside the mask repeat the first one inside. */
static void repeat_first(struct ts__access *restrict access) {
  uint32_t mask = access->mask;
  if (mask == UINT32_MAX) return;
  uint64_t safe = access->lane[ts__first_lane(mask)];
  for (uint32_t lane = 0; lane < N; lane++) {
    uint64_t keep = (uint64_t)0 - (mask >> lane & 1);
    access->lane[lane] = (access->lane[lane] & keep) | (safe & ~keep);
  }
}

static void address_s32(struct ts__access *restrict access, uint64_t base, int64_t scale,
                        const uint32_t *restrict index) {
  for (uint32_t lane = 0; lane < N; lane++)
    access->lane[lane] = base + (uint64_t)((int64_t)(int32_t)index[lane] * scale);
  repeat_first(access);
  summarise(access);
}

static void address_u32(struct ts__access *restrict access, uint64_t base, int64_t scale,
                        const uint32_t *restrict index) {
  for (uint32_t lane = 0; lane < N; lane++)
    access->lane[lane] = base + (uint64_t)index[lane] * (uint64_t)scale;
  repeat_first(access);
  summarise(access);
}

/* Addresses are in access->lane. */
static void address_done(struct ts__access *restrict access) {
  repeat_first(access);
  summarise(access);
}

/* --- fields of words */

#define FIELDS(bits)                                                                               \
  static void unpack##bits(uint32_t *restrict slots, const uint32_t *restrict words,               \
                           uint32_t lanes) {                                                       \
    for (uint32_t i = 0; i < lanes; i++, slots += N) {                                             \
      const uint32_t *word = words + i / (32 / bits) * N;                                          \
      uint32_t shift = i % (32 / bits) * bits;                                                     \
      for (uint32_t lane = 0; lane < N; lane++)                                                    \
        slots[lane] = word[lane] >> shift & ((1u << bits) - 1);                                    \
    }                                                                                              \
  }                                                                                                \
  static void pack##bits(uint32_t *restrict words, const uint32_t *restrict slots,                 \
                         uint32_t lanes) {                                                         \
    for (uint32_t i = 0; i < lanes; i++, slots += N) {                                             \
      uint32_t *word = words + i / (32 / bits) * N;                                                \
      uint32_t shift = i % (32 / bits) * bits;                                                     \
      uint32_t keep = shift ? UINT32_MAX : 0;                                                      \
      for (uint32_t lane = 0; lane < N; lane++)                                                    \
        word[lane] = (word[lane] & keep) | (slots[lane] & ((1u << bits) - 1)) << shift;            \
    }                                                                                              \
  }
FIELDS(4)
FIELDS(8)
FIELDS(16)
#undef FIELDS

/* One field of up to 32 bits in every lane's word. */
static void field(uint32_t *restrict slots, const uint32_t *restrict word, uint32_t shift,
                  uint32_t field_mask) {
  for (uint32_t lane = 0; lane < N; lane++)
    slots[lane] = word[lane] >> shift & field_mask;
}

static void insert(uint32_t *restrict word, const uint32_t *restrict slots, uint32_t shift,
                   uint32_t field_mask, uint32_t active) {
  for (uint32_t lane = 0; lane < N; lane++) {
    uint32_t mask = (field_mask << shift) & (0u - (active >> lane & 1));
    word[lane] = (word[lane] & ~mask) | (slots[lane] << shift & mask);
  }
}

static void sign_extend(uint32_t *restrict slots, uint32_t components, uint32_t bits) {
  uint32_t sign = 1u << (bits - 1);
  for (uint32_t i = 0; i < components; i++, slots += N)
    for (uint32_t lane = 0; lane < N; lane++)
      slots[lane] = (slots[lane] ^ sign) - sign;
}

/* --- rows of memory <-> columns of words
 *
 * A vector holds 16 bytes of 1, 2 or 4 lanes: lane 4 q + i in part q of vector i, so that a
 * transposition inside the parts leaves words of consecutive lanes side by side. */

#if defined(__AVX512F__)
enum { PARTS = 4 };
typedef __m512i vector;
#define V(name) _mm512_##name
static inline vector load_parts(uint8_t *const *lanes, uint32_t byte) {
  vector v =
      _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(lanes[0] + byte)));
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(lanes[4] + byte)), 1);
  v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(lanes[8] + byte)), 2);
  return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(lanes[12] + byte)),
                            3);
}
static inline __m128i part(vector v, uint32_t q) {
  switch (q) {
  case 0: return _mm512_castsi512_si128(v);
  case 1: return _mm512_extracti32x4_epi32(v, 1);
  case 2: return _mm512_extracti32x4_epi32(v, 2);
  default: return _mm512_extracti32x4_epi32(v, 3);
  }
}
static inline void store_row(uint32_t *row, vector v) { _mm512_storeu_si512(row, v); }
static inline vector load_row(const uint32_t *row) { return _mm512_loadu_si512(row); }
#elif defined(__AVX2__)
enum { PARTS = 2 };
typedef __m256i vector;
#define V(name) _mm256_##name
static inline vector load_parts(uint8_t *const *lanes, uint32_t byte) {
  vector v =
      _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(lanes[0] + byte)));
  return _mm256_inserti128_si256(
      v, _mm_loadu_si128((const __m128i *)(const void *)(lanes[4] + byte)), 1);
}
static inline __m128i part(vector v, uint32_t q) {
  return q ? _mm256_extracti128_si256(v, 1) : _mm256_castsi256_si128(v);
}
static inline void store_row(uint32_t *row, vector v) {
  _mm256_storeu_si256((__m256i *)(void *)row, v);
}
static inline vector load_row(const uint32_t *row) {
  return _mm256_loadu_si256((const __m256i *)(const void *)row);
}
#elif defined(__SSE2__)
enum { PARTS = 1 };
typedef __m128i vector;
#define V(name) _mm_##name
static inline vector load_parts(uint8_t *const *lanes, uint32_t byte) {
  return _mm_loadu_si128((const __m128i *)(const void *)(lanes[0] + byte));
}
static inline __m128i part(vector v, uint32_t q) {
  (void)q;
  return v;
}
static inline void store_row(uint32_t *row, vector v) {
  _mm_storeu_si128((__m128i *)(void *)row, v);
}
static inline vector load_row(const uint32_t *row) {
  return _mm_loadu_si128((const __m128i *)(const void *)row);
}
#endif

#ifdef V
static inline void transpose4(vector row[4]) {
  vector low01 = V(unpacklo_epi32)(row[0], row[1]), high01 = V(unpackhi_epi32)(row[0], row[1]);
  vector low23 = V(unpacklo_epi32)(row[2], row[3]), high23 = V(unpackhi_epi32)(row[2], row[3]);
  row[0] = V(unpacklo_epi64)(low01, low23);
  row[1] = V(unpackhi_epi64)(low01, low23);
  row[2] = V(unpacklo_epi64)(high01, high23);
  row[3] = V(unpackhi_epi64)(high01, high23);
}

/* Words w .. w + 3 of every lane. */
static void load_four(uint32_t *words, uint8_t *const *pointers, uint32_t w) {
  for (uint32_t lane = 0; lane < N; lane += 4 * PARTS) {
    vector row[4];
    for (uint32_t i = 0; i < 4; i++)
      row[i] = load_parts(pointers + lane + i, 4 * w);
    transpose4(row);
    for (uint32_t i = 0; i < 4; i++)
      store_row(words + (w + i) * N + lane, row[i]);
  }
}

static void store_four(const uint32_t *words, uint8_t *const *pointers, uint32_t w, uint32_t mask) {
  for (uint32_t lane = 0; lane < N; lane += 4 * PARTS) {
    vector row[4];
    for (uint32_t i = 0; i < 4; i++)
      row[i] = load_row(words + (w + i) * N + lane);
    transpose4(row);
    for (uint32_t k = 0; k < 4 * PARTS; k++)
      if (mask >> (lane + k) & 1)
        _mm_storeu_si128((__m128i *)(void *)(pointers[lane + k] + 4 * w), part(row[k % 4], k / 4));
  }
}
#endif

static void load_words(uint32_t *restrict words, uint8_t *const *pointers, uint32_t word_count) {
  uint32_t w = 0;
#ifdef V
  for (; w + 4 <= word_count; w += 4)
    load_four(words, pointers, w);
#endif
  for (; w < word_count; w++)
    for (uint32_t lane = 0; lane < N; lane++)
      memcpy(words + w * N + lane, pointers[lane] + 4 * w, 4);
}

static void store_words(const uint32_t *restrict words, uint8_t *const *pointers,
                        uint32_t word_count, uint32_t mask) {
  uint32_t w = 0;
#ifdef V
  for (; w + 4 <= word_count; w += 4)
    store_four(words, pointers, w, mask);
#endif
  for (; w < word_count; w++)
    for (uint32_t lane = 0; lane < N; lane++)
      if (mask >> lane & 1) memcpy(pointers[lane] + 4 * w, words + w * N + lane, 4);
}

const struct ts__lane_ops LANE_TABLE = {
    .splat32 = splat32,
    .splat64 = splat64,
    .blend32 = blend32,
    .blend64 = blend64,
    .select32 = select32,
    .select64 = select64,
    .permute32 = permute32,
    .address_s32 = address_s32,
    .address_u32 = address_u32,
    .address_done = address_done,
    .unpack = {[2] = unpack4, [3] = unpack8, [4] = unpack16},
    .pack = {[2] = pack4, [3] = pack8, [4] = pack16},
    .field = field,
    .insert = insert,
    .sign_extend = sign_extend,
    .load_words = load_words,
    .store_words = store_words,
};
