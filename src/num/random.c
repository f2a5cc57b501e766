/* Initial states of random generators (DOC: cuRAND device API; G. Marsaglia, Xorshift RNGs;
 * P. L'Ecuyer, Good parameters for combined multiple recursive random number generators). Checked
 * against cuRAND 10.4 compiled for the host. */
#include "num/random.h"

#include <stdbool.h>
#include <string.h>

static void init_philox(uint64_t seed, uint64_t sequence, uint64_t offset, uint32_t *state) {
  state[0] = (uint32_t)(offset >> 2);
  state[1] = (uint32_t)(offset >> 34);
  state[2] = (uint32_t)sequence;
  state[3] = (uint32_t)(sequence >> 32);
  state[4] = (uint32_t)seed;
  state[5] = (uint32_t)(seed >> 32);
  state[6] = (uint32_t)offset & 3;
}

/* --- XORWOW: a step of x[5] is a linear map M over GF(2). M^n = p(M) for p = x^n modulo M's
 * characteristic polynomial, so that a jump is arithmetic on 160-bit polynomials. */

enum { DEGREE = 160, POLY_WORDS = DEGREE / 32 };

/* The characteristic polynomial without its leading term, and x^(2^67) modulo it: a sequence is
 * 2^67 steps. Computed from the recurrence (Berlekamp-Massey). */
static const uint32_t characteristic[POLY_WORDS] = {0x00060001, 0x08610030, 0x00062121, 0x0f3c0035,
                                                    0x00000f0e};
static const uint32_t sequence_jump[POLY_WORDS] = {0x26294934, 0x77bbc248, 0x1a87dad0, 0x930052d4,
                                                   0x947e6dd2};
static const uint32_t one_step[POLY_WORDS] = {2};

static void times_x(uint32_t p[POLY_WORDS]) {
  uint32_t is_reduced = 0u - (p[POLY_WORDS - 1] >> 31);
  for (int i = POLY_WORDS - 1; i > 0; i--)
    p[i] = (p[i] << 1 | p[i - 1] >> 31) ^ (characteristic[i] & is_reduced);
  p[0] = p[0] << 1 ^ (characteristic[0] & is_reduced);
}

static void poly_multiply(uint32_t p[POLY_WORDS], const uint32_t q[POLY_WORDS]) {
  uint32_t product[POLY_WORDS] = {0};
  for (int bit = DEGREE - 1; bit >= 0; bit--) {
    times_x(product);
    uint32_t is_set = 0u - (q[bit / 32] >> bit % 32 & 1);
    for (int i = 0; i < POLY_WORDS; i++)
      product[i] ^= p[i] & is_set;
  }
  memcpy(p, product, sizeof product);
}

static void poly_power(const uint32_t base[POLY_WORDS], uint64_t n, uint32_t result[POLY_WORDS]) {
  uint32_t square[POLY_WORDS];
  memcpy(square, base, sizeof square);
  memset(result, 0, sizeof square);
  result[0] = 1;
  for (; n; n >>= 1) {
    if (n & 1) poly_multiply(result, square);
    if (n > 1) poly_multiply(square, square);
  }
}

static void xorwow_step(uint32_t x[5]) {
  uint32_t t = x[0] ^ x[0] >> 2;
  memmove(x, x + 1, 4 * sizeof *x);
  x[4] = x[3] ^ x[3] << 4 ^ t ^ t << 1;
}

static void apply(const uint32_t p[POLY_WORDS], uint32_t x[5]) {
  uint32_t sum[5] = {0};
  for (int bit = 0; bit < DEGREE; bit++, xorwow_step(x)) {
    uint32_t is_set = 0u - (p[bit / 32] >> bit % 32 & 1);
    for (int i = 0; i < 5; i++)
      sum[i] ^= x[i] & is_set;
  }
  memcpy(x, sum, sizeof sum);
}

/* The polynomial of a sequence and an offset, made from the one before where they are neighbours. */
struct jump {
  bool is_set;
  uint64_t sequence, offset;
  uint32_t poly[POLY_WORDS];
};

static void move_to(struct jump *jump, uint64_t sequence, uint64_t offset) {
  bool is_near = jump->is_set && jump->offset == offset;
  if (is_near && jump->sequence == sequence) return;
  if (is_near && jump->sequence + 1 == sequence) {
    poly_multiply(jump->poly, sequence_jump);
  } else {
    uint32_t steps[POLY_WORDS];
    poly_power(one_step, offset, steps);
    poly_power(sequence_jump, sequence, jump->poly);
    poly_multiply(jump->poly, steps);
  }
  jump->is_set = true;
  jump->sequence = sequence;
  jump->offset = offset;
}

static void init_xorwow(uint64_t seed, uint64_t sequence, uint64_t offset, struct jump *jump,
                        uint32_t *state) {
  uint32_t low = ((uint32_t)seed ^ 0xaad26b49u) * 1099087573u;
  uint32_t high = ((uint32_t)(seed >> 32) ^ 0xf7dcefddu) * 2591861531u;
  state[0] = 123456789u + low;
  state[1] = 362436069u ^ low;
  state[2] = 521288629u + high;
  state[3] = 88675123u ^ high;
  state[4] = 5783321u + low;
  move_to(jump, sequence, offset);
  apply(jump->poly, state);
  /* A sequence is a multiple of the period of the sum. */
  state[5] = 6615241u + high + low + 362437u * (uint32_t)offset;
}

/* --- MRG32k3a: two recurrences of order 3 modulo primes below 2^32 */

struct recurrence {
  uint64_t modulus;
  uint32_t step[3][3];
  uint32_t sequence_jump[3][3]; /* step to the power 2^76 */
};

static const struct recurrence recurrences[2] = {
    {4294967087u,
     {{0, 1, 0}, {0, 0, 1}, {4294156359u, 1403580, 0}},
     {{82758667, 1871391091, 4127413238u},
      {3672831523u, 69195019, 1871391091},
      {3672091415u, 3528743235u, 69195019}}},
    {4294944443u,
     {{0, 1, 0}, {0, 0, 1}, {4293573854u, 0, 527612}},
     {{1511326704, 3759209742u, 1610795712},
      {4292754251u, 1511326704, 3889917532u},
      {3859662829u, 4292754251u, 3708466080u}}},
};

static void matrix_square(uint64_t modulus, uint32_t m[3][3]) {
  uint32_t product[3][3];
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) {
      uint64_t sum = 0;
      for (int k = 0; k < 3; k++)
        sum += (uint64_t)m[i][k] * m[k][j] % modulus;
      product[i][j] = (uint32_t)(sum % modulus);
    }
  memcpy(m, product, sizeof product);
}

static void matrix_apply(uint64_t modulus, uint32_t m[3][3], uint32_t v[3]) {
  uint32_t result[3];
  for (int i = 0; i < 3; i++) {
    uint64_t sum = 0;
    for (int k = 0; k < 3; k++)
      sum += (uint64_t)m[i][k] * v[k] % modulus;
    result[i] = (uint32_t)(sum % modulus);
  }
  memcpy(v, result, sizeof result);
}

/* v = step^n v */
static void advance(uint64_t modulus, const uint32_t step[3][3], uint64_t n, uint32_t v[3]) {
  uint32_t power[3][3];
  memcpy(power, step, sizeof power);
  for (; n; n >>= 1) {
    if (n & 1) matrix_apply(modulus, power, v);
    if (n > 1) matrix_square(modulus, power);
  }
}

static void init_mrg(uint64_t seed, uint64_t sequence, uint64_t offset, uint32_t *state) {
  uint32_t words[2] = {(uint32_t)seed ^ 0x55555555u, (uint32_t)(seed >> 32) ^ 0xaaaaaaaau};
  for (int r = 0; r < 2; r++) {
    const struct recurrence *recurrence = &recurrences[r];
    uint32_t *v = state + 3 * r;
    for (int i = 0; i < 3; i++)
      v[i] = seed ? (uint32_t)((uint64_t)words[(i + r) % 2] * 12345 % recurrence->modulus) : 12345;
    advance(recurrence->modulus, recurrence->sequence_jump, sequence, v);
    advance(recurrence->modulus, recurrence->step, offset, v);
  }
}

void ts_random_init(enum ts_random generator, size_t n, const uint64_t *seeds,
                    const uint64_t *sequences, const uint64_t *offsets,
                    uint32_t (*states)[TS_RANDOM_WORDS]) {
  struct jump jump = {.is_set = false};
  memset(states, 0, n * sizeof *states);
  for (size_t i = 0; i < n; i++) {
    switch (generator) {
    case TS_RANDOM_PHILOX: init_philox(seeds[i], sequences[i], offsets[i], states[i]); break;
    case TS_RANDOM_XORWOW: init_xorwow(seeds[i], sequences[i], offsets[i], &jump, states[i]); break;
    case TS_RANDOM_MRG32K3A: init_mrg(seeds[i], sequences[i], offsets[i], states[i]); break;
    case TS_RANDOM_COUNT: break;
    }
  }
}
