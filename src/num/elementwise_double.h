/* log, sinpi and cospi of f64 as CUDA 13.0 expands them (DOC: the sequences that nvcc emits). */
#ifndef TS_NUM_ELEMENTWISE_DOUBLE_H
#define TS_NUM_ELEMENTWISE_DOUBLE_H

#include "num/elementwise_lanes.h"

/* Highest power first. */
LANE double f64_polynomial(const uint64_t *coefficients, int count, double x) {
  double sum = f64_load(coefficients[0]);
  for (int i = 1; i < count; i++)
    sum = f64_fused(sum, x, f64_load(coefficients[i]));
  return sum;
}

/* 1 / x from the upper half of its encoding and a cubic step. GUESS: rcp.approx.ftz.f64 cut to 20
 * bits of mantissa; what it gives beyond them is gone after the step. */
LANE double f64_log_reciprocal(double x) {
  double start = f64_load(f64_store(1.0 / x) & ~UINT64_C(0xffffffff));
  double error = f64_fused(-x, start, 1.0);
  return f64_fused(f64_fused(error, error, error), start, start);
}

/* x = m * 2^e with m from about 2/3 to 4/3; the logarithm of m is 2 atanh((m - 1) / (m + 1)), its
 * odd series with the remainder of the division put back. */
LANE double f64_log_lane(double x) {
  static const uint64_t series[] = {UINT64_C(0x3eb1380b3ae80f1e), UINT64_C(0x3ed0ee258b7a8b04),
                                    UINT64_C(0x3ef3b2669f02676f), UINT64_C(0x3f1745cba9ab0956),
                                    UINT64_C(0x3f3c71c72d1b5154), UINT64_C(0x3f624924923be72d),
                                    UINT64_C(0x3f8999999999a3c4), UINT64_C(0x3fb5555555555554)};
  int32_t exponent = -1023;
  if ((int32_t)(f64_store(x) >> 32) < 0x00100000) { /* subnormal, zero, negative */
    x = x * 0x1p54;
    exponent = -1077;
  }
  uint64_t bits = f64_store(x);
  uint32_t high = (uint32_t)(bits >> 32);
  if (high - 1u >= 0x7fefffffu) { /* zero, negative, Inf, NaN */
    if (bits << 1 == 0) return -__builtin_inf();
    return x > 0 || x != x ? x + x : f64_load(UINT64_C(0xfff8000000000000));
  }
  exponent += (int32_t)(high >> 20);
  uint32_t mantissa = (high & 0x000fffffu) | 0x3ff00000u;
  if (mantissa >= 0x3ff6a09fu) {
    mantissa -= 0x00100000u;
    exponent++;
  }
  double m = f64_load((uint64_t)mantissa << 32 | (bits & 0xffffffffu));
  double below = m - 1.0, reciprocal = f64_log_reciprocal(m + 1.0);
  double half = below * reciprocal, u = f64_fused(below, reciprocal, half), square = u * u;
  double rest = below - u;
  rest = reciprocal * f64_fused(-u, below, rest + rest);
  double tail = f64_fused(square * f64_polynomial(series, 8, square), u, rest);
  double n = (double)exponent, ln2 = f64_load(UINT64_C(0x3fe62e42fefa39ef));
  double sum = f64_fused(n, ln2, u);
  double lost = f64_fused(-n, ln2, sum) - u;
  return sum + f64_fused(n, f64_load(UINT64_C(0x3c7abc9e3b39803f)), tail - lost);
}

/* x = n / 2 + r with |r| at most 1/4: sine and cosine of pi r by polynomials, exchanged and negated
 * as n says. */
struct f64_half_turns {
  double sine, cosine;
  int64_t count;
};

LANE struct f64_half_turns f64_half_turns(double x) {
  static const uint64_t sine[] = {UINT64_C(0x3de5db65f9785eba),
                                  UINT64_C(0xbe5ae5f12cb0d246),
                                  UINT64_C(0x3ec71de369ace392),
                                  UINT64_C(0xbf2a01a019db62a1),
                                  UINT64_C(0x3f81111111110818),
                                  UINT64_C(0xbfc5555555555554),
                                  0};
  static const uint64_t cosine[] = {UINT64_C(0xbda8ff8320fd8164), UINT64_C(0x3e21eea7c1ef8528),
                                    UINT64_C(0xbe927e4f8e06e6d9), UINT64_C(0x3efa01a019ddbce9),
                                    UINT64_C(0xbf56c16c16c15d47), UINT64_C(0x3fa5555555555551),
                                    UINT64_C(0xbfe0000000000000), UINT64_C(0x3ff0000000000000)};
  double n = __builtin_rint(x + x), rest = f64_fused(-n, 0.5, x);
  double angle = f64_fused(rest, f64_load(UINT64_C(0x400921fb54442d18)),
                           rest * f64_load(UINT64_C(0x3ca1a62633145c07)));
  double square = angle * angle;
  struct f64_half_turns turns;
  turns.sine = f64_fused(f64_polynomial(sine, 7, square), angle, angle);
  turns.cosine = f64_polynomial(cosine, 8, square);
  turns.count = (int64_t)n;
  return turns;
}

/* Beyond 2^54 every value is an even integer. */
LANE double f64_turn_bounded(double x) {
  return (f64_store(x) >> 32 << 33 >> 32) < UINT64_C(0x86800001) ? x : x * 0.0;
}

LANE double f64_sinpi_lane(double x) {
  x = f64_turn_bounded(x);
  if (x != x) return x;
  if (x == __builtin_trunc(x)) return x * 0.0;
  struct f64_half_turns turns = f64_half_turns(x);
  double result = turns.count & 1 ? turns.cosine : turns.sine;
  return turns.count & 2 ? -result : result;
}

LANE double f64_cospi_lane(double x) {
  x = f64_turn_bounded(x);
  if (x != x) return x;
  struct f64_half_turns turns = f64_half_turns(x);
  double result = turns.count & 1 ? -turns.sine : turns.cosine;
  return (turns.count & 2 ? -result : result) + 0.0;
}

#endif
