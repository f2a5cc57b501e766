/* The lane loops of every instruction set against plain loops written here. */
#include "interp/interp_priv.h"
#include "support/suite.h"

#include <string.h>

enum { N = TS__LANES, MAX_LANES = 16, WORDS = MAX_LANES * N };

static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static const struct ts__lane_ops *const tables[] = {&ts__lane_ops_portable, &ts__lane_ops_avx2,
                                                    &ts__lane_ops_avx512};

/* Runs the check for every table that this host can run. */
static void for_each(void (*check)(const struct ts__lane_ops *ops, uint64_t *state)) {
  for (int isa = 0; isa <= (int)ts_num_isa(); isa++) {
    uint64_t state = 1;
    if (!tables[isa]->splat32) continue;
    for (int again = 0; again < 200; again++)
      check(tables[isa], &state);
  }
}

static void fill(void *bytes, size_t size_bytes, uint64_t *state) {
  for (size_t i = 0; i < size_bytes; i++)
    ((uint8_t *)bytes)[i] = (uint8_t)next_random(state);
}

static void check_slots(const struct ts__lane_ops *ops, uint64_t *state) {
  static uint32_t a[WORDS], b[WORDS], got[WORDS], p[N];
  static uint64_t wide[WORDS], other[WORDS], wide_got[WORDS];
  uint32_t mask = (uint32_t)next_random(state),
           lanes = 1 + (uint32_t)(next_random(state) % MAX_LANES);
  fill(a, sizeof a, state);
  fill(b, sizeof b, state);
  fill(wide, sizeof wide, state);
  fill(other, sizeof other, state);
  for (uint32_t k = 0; k < N; k++)
    p[k] = next_random(state) & 1;
  ops->splat32(got, a, lanes);
  ops->splat64(wide_got, wide, lanes);
  for (uint32_t k = 0; k < lanes * N; k++) {
    ck_assert_uint_eq(got[k], a[k / N]);
    ck_assert_uint_eq(wide_got[k], wide[k / N]);
  }
  memcpy(got, b, sizeof got);
  memcpy(wide_got, other, sizeof wide_got);
  ops->blend32(got, a, lanes, mask);
  ops->blend64(wide_got, wide, lanes, mask);
  for (uint32_t k = 0; k < WORDS; k++) {
    bool is_new = k < lanes * N && (mask >> k % N & 1);
    ck_assert_uint_eq(got[k], is_new ? a[k] : b[k]);
    ck_assert_uint_eq(wide_got[k], is_new ? wide[k] : other[k]);
  }
  ops->select32(got, p, a, b);
  ops->select64(wide_got, p, wide, other);
  for (uint32_t k = 0; k < N; k++) {
    ck_assert_uint_eq(got[k], p[k] ? a[k] : b[k]);
    ck_assert_uint_eq(wide_got[k], p[k] ? wide[k] : other[k]);
  }
  for (uint32_t k = 0; k < N; k++)
    p[k] = (uint32_t)next_random(state) % N;
  ops->permute32(got, a, p);
  for (uint32_t k = 0; k < N; k++)
    ck_assert_uint_eq(got[k], a[p[k]]);
}

START_TEST(test_slots) { for_each(check_slots); }
END_TEST

static void check_fields(const struct ts__lane_ops *ops, uint64_t *state) {
  static uint32_t words[WORDS], slots[WORDS], again[WORDS];
  uint32_t lanes = 1 + (uint32_t)(next_random(state) % MAX_LANES);
  for (uint32_t log2 = 2; log2 <= 4; log2++) {
    uint32_t bits = 1u << log2, mask = (1u << bits) - 1, per_word = 32 / bits;
    fill(words, sizeof words, state);
    ops->unpack[log2](slots, words, lanes);
    for (uint32_t k = 0; k < lanes * N; k++) {
      uint32_t i = k / N;
      ck_assert_uint_eq(slots[k], words[i / per_word * N + k % N] >> i % per_word * bits & mask);
    }
    memset(again, 0xff, sizeof again);
    for (uint32_t k = 0; k < lanes * N; k++)
      slots[k] |= ~mask; /* only the low bits count */
    ops->pack[log2](again, slots, lanes);
    for (uint32_t w = 0; w < (lanes + per_word - 1) / per_word; w++) {
      uint32_t count = lanes - w * per_word < per_word ? lanes - w * per_word : per_word;
      uint32_t kept = count * bits == 32 ? UINT32_MAX : (1u << count * bits) - 1;
      for (uint32_t lane = 0; lane < N; lane++)
        ck_assert_uint_eq(again[w * N + lane], words[w * N + lane] & kept);
    }
    memcpy(again, slots, sizeof again);
    for (uint32_t k = 0; k < lanes * N; k++)
      again[k] &= mask;
    memcpy(slots, again, sizeof slots);
    ops->sign_extend(again, lanes, bits);
    for (uint32_t k = 0; k < lanes * N; k++)
      ck_assert_int_eq((int32_t)again[k], (int32_t)(slots[k] << (32 - bits)) >> (32 - bits));
  }
  uint32_t shift = (uint32_t)next_random(state) % 25, active = (uint32_t)next_random(state);
  ops->field(slots, words, shift, 0x7f);
  memcpy(again, words, sizeof again);
  ops->insert(again, words + N, shift, 0x7f, active);
  for (uint32_t lane = 0; lane < N; lane++) {
    uint32_t inserted = (words[lane] & ~(0x7fu << shift)) | (words[N + lane] & 0x7f) << shift;
    ck_assert_uint_eq(slots[lane], words[lane] >> shift & 0x7f);
    ck_assert_uint_eq(again[lane], active >> lane & 1 ? inserted : words[lane]);
  }
}

START_TEST(test_fields) { for_each(check_fields); }
END_TEST

/* Affine indices every other time; in between any. */
static void check_addresses(const struct ts__lane_ops *ops, uint64_t *state) {
  static struct ts__access access;
  uint32_t index[N], mask = (uint32_t)next_random(state) | 4, step = (uint32_t)next_random(state);
  bool is_line = next_random(state) & 1, is_signed = next_random(state) & 1;
  if (next_random(state) & 1) mask = UINT32_MAX;
  if (next_random(state) & 1) step %= 64;
  uint64_t base = next_random(state) >> 2;
  int64_t scale = (int64_t)(next_random(state) % 64) - 16;
  for (uint32_t lane = 0; lane < N; lane++)
    index[lane] = is_line ? 1000 + lane * step : (uint32_t)next_random(state);
  access.mask = mask;
  (is_signed ? ops->address_s32 : ops->address_u32)(&access, base, scale, index);
  uint64_t expected[N], low = UINT64_MAX, high = 0, bits = 0;
  for (uint32_t lane = 0; lane < N; lane++) {
    uint32_t from = mask >> lane & 1 ? lane : ts__first_lane(mask);
    uint64_t wide = is_signed ? (uint64_t)(int64_t)(int32_t)index[from] : index[from];
    expected[lane] = base + wide * (uint64_t)scale;
    low = expected[lane] < low ? expected[lane] : low;
    high = expected[lane] > high ? expected[lane] : high;
    bits |= expected[lane];
  }
  bool is_affine = true;
  for (uint32_t lane = 0; lane < N; lane++) {
    ck_assert_uint_eq(access.lane[lane], expected[lane]);
    if (expected[lane] != expected[0] + lane * (expected[1] - expected[0])) is_affine = false;
  }
  ck_assert_uint_eq(access.low, low);
  ck_assert_uint_eq(access.high, high);
  ck_assert_uint_eq(access.bits, bits);
  ck_assert_int_eq(access.is_affine, is_affine);
  if (is_affine) ck_assert_uint_eq(access.first, expected[0]);
  if (is_affine) ck_assert_int_eq(access.stride, (int64_t)(expected[1] - expected[0]));
}

START_TEST(test_addresses) { for_each(check_addresses); }
END_TEST

static void check_rows(const struct ts__lane_ops *ops, uint64_t *state) {
  static uint8_t memory[4096], before[4096];
  static uint32_t words[WORDS], got[WORDS];
  uint8_t *pointers[N];
  uint32_t word_count = 1 + (uint32_t)(next_random(state) % 9), mask = (uint32_t)next_random(state);
  fill(memory, sizeof memory, state);
  fill(words, sizeof words, state);
  memcpy(before, memory, sizeof memory);
  for (uint32_t lane = 0; lane < N; lane++) /* apart, in a scrambled order */
    pointers[lane] = memory + (lane * 13 % N) * 64 + next_random(state) % 16;
  ops->load_words(got, pointers, word_count);
  for (uint32_t k = 0; k < word_count * N; k++) {
    uint32_t word;
    memcpy(&word, pointers[k % N] + 4 * (k / N), 4);
    ck_assert_uint_eq(got[k], word);
  }
  ops->store_words(words, pointers, word_count, mask);
  for (uint32_t k = 0; k < word_count * N; k++)
    if (mask >> k % N & 1) memcpy(before + (pointers[k % N] - memory) + 4 * (k / N), &words[k], 4);
  ck_assert_int_eq(memcmp(memory, before, sizeof memory), 0);
}

START_TEST(test_rows) { for_each(check_rows); }
END_TEST

int main(void) {
  return RUN_TESTS("interp_core_lanes", test_slots, test_fields, test_addresses, test_rows);
}
