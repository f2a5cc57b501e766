/* States of random generators as cuRAND 10.4 makes them (compiled for the host), and the f64 functions
 * that normal numbers need. */
#include "num/num.h"
#include "num/random.h"
#include "support/suite.h"

#include <math.h>
#include <string.h>

enum { CASES = 6 };

static const uint64_t seeds[CASES] = {0, 1, 0x123456789, 0xfedcba9876543210, 42, 42};
static const uint64_t sequences[CASES] = {0, 0, 5, 0x123456789ab, 1234567, 1234568};
static const uint64_t offsets[CASES] = {0, 0, 7, 0xfedcba987654321, 3, 3};

static void check_states(enum ts_random generator, const uint32_t (*expected)[TS_RANDOM_WORDS]) {
  uint32_t all[CASES][TS_RANDOM_WORDS], one[1][TS_RANDOM_WORDS];
  ts_random_init(generator, CASES, seeds, sequences, offsets, all);
  for (int i = 0; i < CASES; i++) {
    ck_assert_mem_eq(all[i], expected[i], sizeof all[i]);
    ts_random_init(generator, 1, &seeds[i], &sequences[i], &offsets[i], one);
    ck_assert_mem_eq(one[0], expected[i], sizeof one[0]);
  }
}

START_TEST(test_xorwow) {
  static const uint32_t expected[CASES][TS_RANDOM_WORDS] = {
      {0x58213ed2, 0x455f2458, 0xf8a42704, 0xdcd8f87c, 0x511db0d6, 0x2abc4dd5},
      {0x169e7ffd, 0x1ad8e70d, 0xf8a42704, 0xdcd8f87c, 0x0f9af201, 0xe9398f00},
      {0x027df5b5, 0x7d5efd35, 0x7e9bf4b4, 0x23cb4ecc, 0x3f3040c2, 0x0f450320},
      {0x1bbbddb4, 0xb37599cb, 0x84c242ef, 0x8273b95a, 0xad739245, 0x0d117a82},
      {0x7cbd0e3b, 0xce884157, 0x844c91da, 0x4048d835, 0xdae305f6, 0xd21446c6},
      {0x32f6cf02, 0x587de2f0, 0x53e75150, 0x9084c5b2, 0xe9ed3e37, 0xd21446c6}};
  check_states(TS_RANDOM_XORWOW, expected);
}
END_TEST

START_TEST(test_mrg) {
  static const uint32_t expected[CASES][TS_RANDOM_WORDS] = {
      {12345, 12345, 12345, 12345, 12345, 12345},
      {0x000cdf37, 0x001a1ee0, 0x000cdf37, 0x0b35c018, 0x059aafd3, 0x0b35c018},
      {0xa6bba24c, 0xb666c5b9, 0x461b2291, 0xac2c7de1, 0xfdd2d905, 0x3ae2c0df},
      {0x893b6c8f, 0xd1b6abd4, 0x0c18fb9f, 0x10d4c0ea, 0x839ffe26, 0x8a902c81},
      {0x84c9a52c, 0x4e28fee2, 0xe4771f8a, 0x19309a2d, 0xf6d8319d, 0x5cfae3e7},
      {0xfa54be39, 0xe82464b1, 0xbaa5115e, 0xb2fadece, 0x0e48e87d, 0xe45ddff3}};
  check_states(TS_RANDOM_MRG32K3A, expected);
}
END_TEST

START_TEST(test_philox) {
  static const uint32_t expected[CASES][TS_RANDOM_WORDS] = {
      {0},
      {[4] = 1},
      {1, 0, 5, 0, 0x23456789, 1, 3},
      {0x61d950c8, 0x03fb72ea, 0x456789ab, 0x00000123, 0x76543210, 0xfedcba98, 1},
      {0, 0, 0x0012d687, 0, 42, 0, 3},
      {0, 0, 0x0012d688, 0, 42, 0, 3}};
  check_states(TS_RANDOM_PHILOX, expected);
}
END_TEST

/* --- log, sinpi, cospi */

static uint64_t bits_of(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double function_of(enum ts_num_op op, double x) {
  uint64_t bits = ts_num_eval1(op, TS_DTYPE_f64, 0, bits_of(x));
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static double next_number(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(*state >> 11) * 0x1p-53;
}

/* |got - wanted| in units of wanted's last place. */
static double error_ulp(double got, long double wanted) {
  int exponent;
  frexpl(wanted, &exponent);
  return (double)(fabsl(got - wanted) / ldexpl(1, exponent - 53));
}

START_TEST(test_functions) {
  const long double pi = 3.14159265358979323846264338327950288L;
  uint64_t state = 1;
  for (int i = 0; i < 100000; i++) {
    double x = next_number(&state), turn = x * 0.25;
    double wide = ldexp(x + 0.5, (int)(next_number(&state) * 2000) - 1000);
    ck_assert_double_le(error_ulp(function_of(TS_NUM_log, x), logl(x)), 1);
    ck_assert_double_le(error_ulp(function_of(TS_NUM_log, wide), logl(wide)), 1);
    ck_assert_double_le(error_ulp(function_of(TS_NUM_sinpi, turn), sinl(pi * turn)), 2);
    ck_assert_double_le(error_ulp(function_of(TS_NUM_cospi, turn), cosl(pi * turn)), 2);
    double sine = function_of(TS_NUM_sinpi, turn), cosine = function_of(TS_NUM_cospi, turn);
    ck_assert_double_eq(function_of(TS_NUM_sinpi, 1.5 + 0.25), -function_of(TS_NUM_sinpi, 0.25));
    ck_assert_double_eq(function_of(TS_NUM_sinpi, -turn), -sine);
    ck_assert_double_eq(function_of(TS_NUM_cospi, -turn), cosine);
  }
}
END_TEST

START_TEST(test_special_arguments) {
  ck_assert_double_eq(function_of(TS_NUM_log, 1), 0);
  ck_assert_double_eq(function_of(TS_NUM_log, 0), -INFINITY);
  ck_assert_double_eq(function_of(TS_NUM_log, -0.0), -INFINITY);
  ck_assert_double_eq(function_of(TS_NUM_log, INFINITY), INFINITY);
  ck_assert(isnan(function_of(TS_NUM_log, -1)) && isnan(function_of(TS_NUM_log, NAN)));
  ck_assert(isnan(function_of(TS_NUM_sinpi, INFINITY)) && isnan(function_of(TS_NUM_cospi, NAN)));
  for (int i = -4; i <= 4; i++) {
    ck_assert_double_eq(function_of(TS_NUM_sinpi, i), 0);
    ck_assert_double_eq(function_of(TS_NUM_cospi, i), i % 2 ? -1 : 1);
    ck_assert_double_eq(function_of(TS_NUM_cospi, i + 0.5), 0);
    ck_assert_double_eq(function_of(TS_NUM_sinpi, i + 0.5), i % 2 ? -1 : 1);
  }
  ck_assert_double_eq(function_of(TS_NUM_cospi, 0x1p80), 1);
}
END_TEST

int main(void) {
  return RUN_TESTS("num_random", test_xorwow, test_mrg, test_philox, test_functions,
                   test_special_arguments);
}
