/* Operations by name against second opinions: conversions against a search among all values of the
 * destination, arithmetic against the host's rounding modes, integers against plain C. */
#include <check.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "num/num.h"

/* Check reports every assertion to its parent process; in hot loops only failures matter. */
#define check(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                   \
  } while (0)
#define check_equal(found, expected)                                                               \
  do {                                                                                             \
    uint64_t found_ = (found), expected_ = (expected);                                             \
    check(found_ == expected_, #found " is %llx, not %llx", (unsigned long long)found_,            \
          (unsigned long long)expected_);                                                          \
  } while (0)

static uint64_t random_state = 0x2545f4914f6cdd1du;

static uint64_t random_bits(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state * 0x9e3779b97f4a7c15u;
}

/* Remembers names, because a look-up walks through the table. */
static const struct ts_scalar_op *find(const char *name) {
  static const struct ts_scalar_op *known[32];
  static unsigned next;
  for (unsigned i = 0; i < 32; ++i)
    if (known[i] != NULL && strcmp(known[i]->name, name) == 0) return known[i];
  known[next] = ts_scalar_find(name);
  unsigned at = next;
  next = (next + 1) % 32;
  return known[at];
}

/* One element of an operation, by encodings. */
static uint64_t eval(const char *name, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  const struct ts_scalar_op *op = find(name);
  check(op != NULL, "%s is missing", name);
  uint64_t encodings[4] = {a, b, c, d}, slots[4], result = 0;
  const void *operands[4];
  enum ts_dtype dtypes[4], result_dtype = ts_scalar_dtype(op->result, strlen(op->result));
  const char *at = op->operands;
  for (unsigned i = 0; i < ts_scalar_arity(op); ++i) {
    at = strchr(at, ':') + 1;
    dtypes[i] = ts_scalar_dtype(at, strcspn(at, " "));
    uint64_t slot = ts_dtype_slot(dtypes[i], encodings[i]);
    uint32_t narrow = (uint32_t)slot;
    memcpy(&slots[i], &slot, sizeof slot);
    if (ts_dtype_slot_bytes(dtypes[i]) == 4) memcpy(&slots[i], &narrow, sizeof narrow);
    operands[i] = &slots[i];
  }
  ts_scalar_run(op, &result, result_dtype, operands, dtypes, 1);
  uint32_t narrow;
  memcpy(&narrow, &result, sizeof narrow);
  return ts_dtype_encoding(result_dtype, ts_dtype_slot_bytes(result_dtype) == 4 ? narrow : result);
}

/* Conversions ---------------------------------------------------------------------------------- */

/* A format, written down a second time. */
struct format {
  const char *name;
  int bits, exponent_bits, mantissa_bits, bias;
  bool has_infinity, has_nan;
};

static const struct format formats[] = {
    {"f16", 16, 5, 10, 15, true, true}, {"bf16", 16, 8, 7, 127, true, true},
    {"e5m2", 8, 5, 2, 15, true, true},  {"e4m3", 8, 4, 3, 7, false, true},
    {"e3m2", 6, 3, 2, 3, false, false}, {"e2m3", 6, 2, 3, 1, false, false},
    {"e2m1", 4, 2, 1, 1, false, false},
};
enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

static double value_of(const struct format *f, unsigned code) {
  unsigned magnitude = code & ((1u << (f->bits - 1)) - 1);
  int field = (int)(magnitude >> f->mantissa_bits), top = (1 << f->exponent_bits) - 1;
  unsigned fraction = magnitude & ((1u << f->mantissa_bits) - 1);
  double sign = code >> (f->bits - 1) ? -1.0 : 1.0;
  if (f->has_infinity && field == top) return fraction ? NAN : sign * INFINITY;
  if (f->has_nan && !f->has_infinity && magnitude == (1u << (f->bits - 1)) - 1) return NAN;
  if (field == 0) return sign * ldexp(fraction, 1 - f->bias - f->mantissa_bits);
  return sign * ldexp((1 << f->mantissa_bits) + (int)fraction, field - f->bias - f->mantissa_bits);
}

static unsigned largest_finite(const struct format *f) {
  unsigned code = (1u << (f->bits - 1)) - 1;
  while (!isfinite(value_of(f, code)))
    --code;
  return code;
}

/* Codes of positive values rise with them: the two neighbours by bisection, then the rule. */
static unsigned round_to(const struct format *f, double x, bool to_zero, bool saturates) {
  unsigned sign = signbit(x) ? 1u << (f->bits - 1) : 0, most = largest_finite(f);
  unsigned nan = f->has_nan ? (1u << (f->bits - 1)) - 1 : most;
  if (isnan(x)) return nan;
  double size = fabs(x);
  unsigned beyond = saturates || !f->has_nan ? sign | most
                    : f->has_infinity        ? sign | (most + 1)
                                             : nan;
  if (isinf(size)) return beyond;
  unsigned low = 0, high = most;
  while (low < high) {
    unsigned middle = (low + high + 1) / 2;
    if (value_of(f, middle) <= size)
      low = middle;
    else
      high = middle - 1;
  }
  if (to_zero) return sign | low;
  /* One step beyond the largest value has the distance of the step before. */
  double floor = value_of(f, low);
  double next = low < most ? value_of(f, low + 1) : 2 * floor - value_of(f, most - 1);
  double half = floor + (next - floor) / 2;
  unsigned rounded = size > half || (size == half && low % 2 == 1) ? low + 1 : low;
  return rounded > most ? beyond : sign | rounded;
}

static void check_conversion(const struct format *to, const struct format *from, bool to_zero,
                             bool saturates) {
  char name[64];
  snprintf(name, sizeof name, "cvt.%s%s.%s.%s", to_zero ? "rz" : "rn",
           saturates ? ".satfinite" : "", to->name, from->name);
  const struct ts_scalar_op *op = ts_scalar_find(name);
  check(op != NULL, "%s is missing", name);
  static uint32_t codes[65536], results[65536];
  unsigned count = 1u << from->bits;
  for (unsigned code = 0; code < count; ++code)
    codes[code] = code;
  const void *operands[] = {codes};
  enum ts_dtype dtypes[] = {op->from};
  ts_scalar_run(op, results, op->to, operands, dtypes, count);
  for (unsigned code = 0; code < count; ++code) {
    double x = value_of(from, code);
    unsigned expected = round_to(to, x, to_zero, saturates);
    /* e4m3's all-ones code is NaN; its overflow without saturation is too, whatever the rounding */
    check(results[code] == expected, "%s of %x: %x, not %x", name, code, results[code], expected);
  }
}

START_TEST(every_pair_of_small_floats) {
  const struct format *to = &formats[_i];
  for (unsigned i = 0; i < FORMAT_COUNT; ++i) {
    const struct format *from = &formats[i];
    if (from == to) continue;
    for (unsigned form = 0; form < 4; ++form)
      check_conversion(to, from, form & 1, form & 2);
  }
}
END_TEST

START_TEST(f32_to_small_floats_is_monotonic_and_symmetric) {
  const struct format *to = &formats[_i];
  static const char *const roundings[] = {"rn", "rz", "rna"};
  for (unsigned r = 0; r < 3; ++r) {
    char name[48];
    snprintf(name, sizeof name, "cvt.%s.satfinite.%s.f32", roundings[r], to->name);
    uint64_t before = 0;
    for (uint32_t bits = 0; bits <= 0x7f800000u; bits += 0x000a1b3du) {
      uint64_t code = eval(name, bits, 0, 0, 0);
      check(code >= before, "%s falls at %08x", name, bits);
      check_equal(eval(name, bits | 0x80000000u, 0, 0, 0), code | UINT64_C(1) << (to->bits - 1));
      before = code;
    }
  }
}
END_TEST

START_TEST(directed_roundings_mirror_each_other) {
  static const char *const pairs[][2] = {{"cvt.rm.f16.f32", "cvt.rp.f16.f32"},
                                         {"cvt.rm.bf16.f32", "cvt.rp.bf16.f32"}};
  for (unsigned i = 0; i < 2; ++i) {
    for (unsigned n = 0; n < 20000; ++n) {
      uint32_t x = (uint32_t)random_bits();
      if ((x & 0x7fffffffu) > 0x7f800000u) continue;
      uint64_t down = eval(pairs[i][0], x, 0, 0, 0),
               up = eval(pairs[i][1], x ^ 0x80000000u, 0, 0, 0);
      check_equal(down, up ^ 0x8000u);
    }
  }
}
END_TEST

/* Over all random bits, as many carries as the cut part says. */
START_TEST(stochastic_rounding_is_unbiased) {
  for (unsigned n = 0; n < 40; ++n) {
    uint32_t x = 0x38800000u + (uint32_t)(random_bits() % 0x0e000000u);
    uint64_t low = eval("cvt.rz.f16.f32", x, 0, 0, 0);
    unsigned carries = 0;
    for (uint32_t random = 0; random < 8192; ++random) {
      uint64_t code = eval("cvt.rs.f16.f32", x, random, 0, 0);
      check(code == low || code == low + 1, "wrong");
      carries += code == low + 1;
    }
    check_equal(carries, x & 0x1fff);
  }
}
END_TEST

START_TEST(pairs_are_two_elements) {
  for (uint32_t code = 0; code < 65536; ++code) {
    uint64_t pair = eval("cvt.rn.f16x2.e4m3x2", code, 0, 0, 0);
    check_equal(pair & 0xffff, eval("cvt.rn.f16.e4m3", code & 0xff, 0, 0, 0));
    check_equal(pair >> 16, eval("cvt.rn.f16.e4m3", code >> 8, 0, 0, 0));
  }
  for (unsigned n = 0; n < 20000; ++n) {
    uint64_t a = random_bits() & 0xffffffff, b = random_bits() & 0xffffffff;
    uint64_t sum = eval("add.rn.f16x2", a, b, 0, 0);
    check_equal(sum & 0xffff, eval("add.rn.f16", a & 0xffff, b & 0xffff, 0, 0));
    check_equal(sum >> 16, eval("add.rn.f16", a >> 16, b >> 16, 0, 0));
    uint64_t joined = eval("cvt.rn.satfinite.e5m2x2.f32", a, b, 0, 0);
    check_equal(joined >> 8, eval("cvt.rn.satfinite.e5m2.f32", a, 0, 0, 0));
    check_equal(joined & 0xff, eval("cvt.rn.satfinite.e5m2.f32", b, 0, 0, 0));
  }
}
END_TEST

/* Arithmetic ----------------------------------------------------------------------------------- */

static const int host_roundings[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
static const char *const rounding_names[] = {"rn", "rz", "rm", "rp"};

/* Zero, subnormals, the ends of the normal range, one and its neighbours, Inf, NaN, and others. */
static uint32_t edge32(unsigned i) {
  static const uint32_t edges[] = {0,          1,          2,          0x007fffff, 0x00800000,
                                   0x00800001, 0x00ffffff, 0x3f7fffff, 0x3f800000, 0x3f800001,
                                   0x34000000, 0x4b7fffff, 0x7effffff, 0x7f7fffff, 0x7f800000,
                                   0x7fc00000, 0x7f800001};
  enum { COUNT = sizeof edges / sizeof edges[0] };
  if (i >= 2 * COUNT) return (uint32_t)random_bits();
  return edges[i / 2] | (i % 2 ? 0x80000000u : 0);
}

static uint64_t edge64(unsigned i) {
  uint32_t e = edge32(i);
  if (i >= 34) return random_bits();
  if ((e & 0x7fffffffu) < 3) return (uint64_t)(e & 0x80000000u) << 32 | (e & 0xff);
  double value;
  float single;
  memcpy(&single, &e, sizeof single);
  value = (double)single * (i % 3 == 0 ? 0x1p-900 : i % 3 == 1 ? 0x1p890 : 1.0);
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

enum { EDGES = 60 };

static uint32_t host32(char op, uint32_t a, uint32_t b, uint32_t c, int rounding) {
  volatile float x, y, z, r = 0;
  memcpy((void *)&x, &a, sizeof x);
  memcpy((void *)&y, &b, sizeof y);
  memcpy((void *)&z, &c, sizeof z);
  fesetround(rounding);
  r = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : op == '/' ? x / y : r;
  if (op == 'f') r = fmaf(x, y, z);
  if (op == 's') r = sqrtf(x);
  fesetround(FE_TONEAREST);
  uint32_t bits;
  memcpy(&bits, (void *)&r, sizeof bits);
  return isnan(r) ? 0x7fffffffu : bits;
}

static uint64_t host64(char op, uint64_t a, uint64_t b, uint64_t c, int rounding) {
  volatile double x, y, z, r = 0;
  memcpy((void *)&x, &a, sizeof x);
  memcpy((void *)&y, &b, sizeof y);
  memcpy((void *)&z, &c, sizeof z);
  fesetround(rounding);
  r = op == '+' ? x + y : op == '-' ? x - y : op == '*' ? x * y : op == '/' ? x / y : r;
  if (op == 'f') r = fma(x, y, z);
  if (op == 's') r = sqrt(x);
  fesetround(FE_TONEAREST);
  uint64_t bits;
  memcpy(&bits, (void *)&r, sizeof bits);
  return bits;
}

static bool is_nan64(uint64_t bits) { return (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000); }

START_TEST(arithmetic_follows_the_host_in_every_rounding) {
  static const struct {
    const char *name;
    char op;
  } operations[] = {{"add", '+'}, {"sub", '-'}, {"mul", '*'},
                    {"div", '/'}, {"fma", 'f'}, {"sqrt", 's'}};
  for (unsigned o = 0; o < 6; ++o) {
    char name32[32], name64[32];
    snprintf(name32, sizeof name32, "%s.%s.f32", operations[o].name, rounding_names[_i]);
    snprintf(name64, sizeof name64, "%s.%s.f64", operations[o].name, rounding_names[_i]);
    for (unsigned n = 0; n < EDGES * EDGES; ++n) {
      uint32_t a = edge32(n % EDGES), b = edge32(n / EDGES),
               c = edge32((unsigned)random_bits() % EDGES);
      uint32_t expected = host32(operations[o].op, a, b, c, host_roundings[_i]);
      check(eval(name32, a, b, c, 0) == expected, "%s %08x %08x %08x: %08x, not %08x", name32, a, b,
            c, (unsigned)eval(name32, a, b, c, 0), expected);
      uint64_t u = edge64(n % EDGES), v = edge64(n / EDGES),
               w = edge64((unsigned)random_bits() % EDGES);
      uint64_t wide = host64(operations[o].op, u, v, w, host_roundings[_i]);
      uint64_t found = eval(name64, u, v, w, 0);
      check(is_nan64(wide) ? is_nan64(found) : found == wide, "%s %llx %llx %llx: %llx, not %llx",
            name64, (unsigned long long)u, (unsigned long long)v, (unsigned long long)w,
            (unsigned long long)found, (unsigned long long)wide);
    }
  }
}
END_TEST

/* Integers ------------------------------------------------------------------------------------- */

START_TEST(integers_follow_plain_c) {
  for (unsigned n = 0; n < 20000; ++n) {
    uint32_t a = (uint32_t)random_bits(), b = (uint32_t)random_bits(), c = (uint32_t)random_bits();
    if (n % 4 == 0) a &= 0xff, b &= 0xff;
    if (n % 7 == 0) a = 0x80000000u;
    uint64_t wide = (uint64_t)((int64_t)(int32_t)a * (int32_t)b);
    check_equal(eval("mul.wide.s32", a, b, 0, 0), wide);
    check_equal(eval("mul.wide.u32", a, b, 0, 0), (uint64_t)a * b);
    check_equal(eval("mul.hi.s32", a, b, 0, 0), wide >> 32);
    check_equal(eval("mul.lo.u32", a, b, 0, 0), a * b);
    check_equal(eval("mad.lo.s32", a, b, c, 0), a * b + c);
    check_equal(eval("mad.wide.u32", a, b, c, 0), (uint64_t)a * b + c);
    check_equal(eval("sad.u32", a, b, c, 0), (a > b ? a - b : b - a) + c);
    int32_t dot = (int32_t)c;
    for (unsigned i = 0; i < 32; i += 8)
      dot = (int32_t)((uint32_t)dot + (uint32_t)((int8_t)(a >> i) * (int)(uint8_t)(b >> i)));
    check_equal(eval("dp4a.s32.u32", a, b, c, 0), (uint32_t)dot);
    check_equal(eval("lop3.b32", a, b, c, 0xca), (a & b) | (~a & c));
    check_equal(eval("lop3.b32", a, b, c, 0x96), a ^ b ^ c);
    unsigned s = c & 31;
    uint64_t funnel = (uint64_t)b << 32 | a;
    check_equal(eval("shf.r.wrap.b32", a, b, c, 0), (uint32_t)(funnel >> s));
    check_equal(eval("shf.l.wrap.b32", a, b, c, 0), (uint32_t)(funnel << s >> 32));
    check_equal(eval("brev.b32", eval("brev.b32", a, 0, 0, 0), 0, 0, 0), a);
    uint64_t field = eval("bfi.b32", a, b, s, 5);
    uint32_t width = s + 5 > 32 ? 32 - s : 5;
    check_equal(eval("bfe.u32", field, s, 5, 0), a & ((1u << width) - 1));
    check_equal(eval("prmt.b32", a, b, 0x3210, 0), a);
    check_equal(eval("prmt.b32", a, b, 0x7654, 0), b);
    check_equal(eval("prmt.b32", a, b, 0x0123, 0), __builtin_bswap32(a));
  }
}
END_TEST

START_TEST(names_are_unique_and_rows_complete) {
  for (size_t i = 0; i < ts_scalar_count(); ++i) {
    const struct ts_scalar_op *op = ts_scalar_at(i);
    check(ts_scalar_find(op->name) == op, "%s is there twice", op->name);
    check(op->profiles != 0 && ts_scalar_arity(op) >= 1 &&
              ts_scalar_arity(op) <= TS_SCALAR_MAX_OPERANDS,
          "wrong");
    eval(op->name, random_bits(), random_bits(), random_bits(), random_bits());
  }
}
END_TEST

/* Matrices ------------------------------------------------------------------------------------- */

static const struct format *format_of(enum ts_dtype dtype) {
  unsigned i = 0;
  while (strcmp(formats[i].name, ts_dtype_name(dtype)) != 0)
    ++i;
  return &formats[i];
}

/* Every product of two small floats, alone in its sum, is exact in f32. */
START_TEST(every_product_of_small_floats) {
  static const enum ts_dtype dtypes[] = {TS_DTYPE_e4m3, TS_DTYPE_e5m2, TS_DTYPE_e2m3, TS_DTYPE_e3m2,
                                         TS_DTYPE_e2m1};
  static uint8_t a[256 * 32], b[32 * 256];
  static uint32_t d[256 * 256];
  enum ts_dtype a_dtype = dtypes[_i / 5], b_dtype = dtypes[_i % 5];
  const struct ts_mma_scaled_op *op =
      ts_mma_scaled_find("f8f6f4", a_dtype, b_dtype, TS_DTYPE_f32, TS_DTYPE_NONE, 0);
  unsigned m = 1u << ts_dtype_bits(a_dtype), n = 1u << ts_dtype_bits(b_dtype);
  memset(a, 0, sizeof a);
  memset(b, 0, sizeof b);
  for (unsigned i = 0; i < m; ++i)
    a[i * 32 + 7] = (uint8_t)i;
  for (unsigned i = 0; i < n; ++i)
    b[7 * n + i] = (uint8_t)i;
  ts_mma_scaled_tile(op, a_dtype, b_dtype, m, n, a, b, NULL, d, NULL, NULL);
  for (unsigned i = 0; i < m * n; ++i) {
    float product =
        (float)(value_of(format_of(a_dtype), i / n) * value_of(format_of(b_dtype), i % n));
    uint32_t bits;
    memcpy(&bits, &product, sizeof bits);
    if (isnan(product)) bits = 0x7fffffffu;
    if (product == 0) bits = 0; /* never -0 */
    check(d[i] == bits, "%x x %x: %08x, not %08x", i / n, i % n, d[i], bits);
  }
}
END_TEST

/* The block-scaled form with scales of one, the form for mixes, and the plain rows are one thing. */
START_TEST(scaled_and_plain_forms_agree) {
  enum { M = 16, N = 16, K = 32 };
  static uint8_t a[M * K], b[K * N], ones[M];
  static uint32_t c[M * N], plain[M * N], mixed[M * N], scaled[M * N];
  enum ts_dtype e4m3 = TS_DTYPE_e4m3, e5m2 = TS_DTYPE_e5m2;
  const struct ts_mma_op *row =
      ts_mma_find(TS_MMA_PROFILE_nv_sm100, TS_MMA_TCGEN05, e4m3, e5m2, TS_DTYPE_f32, K);
  const struct ts_mma_scaled_op *mix =
      ts_mma_scaled_find("f8f6f4", e4m3, e5m2, TS_DTYPE_f32, TS_DTYPE_NONE, 0);
  const struct ts_mma_scaled_op *mx =
      ts_mma_scaled_find("mxf8f6f4", e4m3, e5m2, TS_DTYPE_f32, TS_DTYPE_e8m0, 0);
  struct ts_mma_scratch *scratch = ts_mma_scratch_new(&ts_allocator_libc, M, N, K);
  memset(ones, 0x7f, sizeof ones);
  for (unsigned round = 0; round < 200; ++round) {
    for (unsigned i = 0; i < M * K; ++i)
      a[i] = (uint8_t)(round % 2 ? random_bits() : (random_bits() & 0x87) | 0x30);
    for (unsigned i = 0; i < K * N; ++i)
      b[i] = (uint8_t)(round % 2 ? random_bits() : (random_bits() & 0x83) | 0x38);
    for (unsigned i = 0; i < M * N; ++i)
      c[i] = round % 4 == 1 ? (uint32_t)random_bits()
                            : ((uint32_t)random_bits() & 0x80ffffffu) | 0x3f000000u;
    ts_mma_tile(row, scratch, M, N, a, K, b, N, c, plain, N, 0);
    ts_mma_scaled_tile(mix, e4m3, e5m2, M, N, a, b, c, mixed, NULL, NULL);
    ts_mma_scaled_tile(mx, e4m3, e5m2, M, N, a, b, c, scaled, ones, ones);
    ck_assert_mem_eq(plain, mixed, sizeof plain);
    ck_assert_mem_eq(plain, scaled, sizeof plain);
  }
  ts_mma_scratch_free(scratch);
}
END_TEST

/* Sums of fp4 with moderate scales are exact in f32. */
START_TEST(fp4_sums_with_scales) {
  enum { M = 16, N = 8, K = 64, BLOCKS = 4 };
  static uint8_t a[M * K], b[K * N], scale_a[M * BLOCKS], scale_b[BLOCKS * N];
  static uint32_t d[M * N];
  const struct format *fp4 = format_of(TS_DTYPE_e2m1), *ue4m3 = format_of(TS_DTYPE_e4m3);
  const struct ts_mma_scaled_op *op =
      ts_mma_scaled_find("mxf4nvf4", TS_DTYPE_e2m1, TS_DTYPE_e2m1, TS_DTYPE_f32, TS_DTYPE_e4m3, 16);
  for (unsigned round = 0; round < 50; ++round) {
    for (unsigned i = 0; i < M * K; ++i)
      a[i] = random_bits() & 15;
    for (unsigned i = 0; i < K * N; ++i)
      b[i] = random_bits() & 15;
    for (unsigned i = 0; i < M * BLOCKS; ++i)
      scale_a[i] = (uint8_t)(0x30 + random_bits() % 16);
    for (unsigned i = 0; i < BLOCKS * N; ++i)
      scale_b[i] = (uint8_t)(0x34 + random_bits() % 8);
    ts_mma_scaled_tile(op, TS_DTYPE_e2m1, TS_DTYPE_e2m1, M, N, a, b, NULL, d, scale_a, scale_b);
    for (unsigned i = 0; i < M * N; ++i) {
      double sum = 0;
      for (unsigned k = 0; k < K; ++k)
        sum += value_of(fp4, a[i / N * K + k]) * value_of(fp4, b[k * N + i % N]) *
               value_of(ue4m3, scale_a[i / N * BLOCKS + k / 16]) *
               value_of(ue4m3, scale_b[k / 16 * N + i % N]);
      float expected = (float)sum, found;
      memcpy(&found, &d[i], sizeof found);
      check(found == expected, "%.9g, not %.9g", (double)found, (double)expected);
    }
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("num_scalar");
  TCase *group = tcase_create("num_scalar");
  tcase_add_loop_test(group, every_pair_of_small_floats, 0, FORMAT_COUNT);
  tcase_add_loop_test(group, f32_to_small_floats_is_monotonic_and_symmetric, 0, FORMAT_COUNT);
  tcase_add_test(group, directed_roundings_mirror_each_other);
  tcase_add_test(group, stochastic_rounding_is_unbiased);
  tcase_add_test(group, pairs_are_two_elements);
  tcase_add_loop_test(group, arithmetic_follows_the_host_in_every_rounding, 0, 4);
  tcase_add_test(group, integers_follow_plain_c);
  tcase_add_test(group, names_are_unique_and_rows_complete);
  tcase_add_loop_test(group, every_product_of_small_floats, 0, 25);
  tcase_add_test(group, scaled_and_plain_forms_agree);
  tcase_add_test(group, fp4_sums_with_scales);
  suite_add_tcase(suite, group);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
