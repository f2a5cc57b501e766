/* Element types, packing, and conversions: exhaustive where the source has 8 or 16 bits, against a
 * reference in host doubles that knows formats only by value. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "num/num.h"

/* Check reports every assertion to its parent process; in hot loops only failures matter. */
#define check(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                   \
  } while (0)

START_TEST(names) {
  for (unsigned i = 0; i < TS_DTYPE_COUNT; ++i) {
    enum ts_dtype dtype = (enum ts_dtype)i;
    const struct ts_dtype_info *info = ts_dtype_info(dtype);
    ck_assert_int_eq(ts_dtype_from_name(info->name, strlen(info->name)), dtype);
    ck_assert_int_eq(ts_dtype_from_tvm(info->tvm_name, strlen(info->tvm_name)), dtype);
    if (dtype != TS_DTYPE_tf32)
      ck_assert_int_eq(ts_dtype_from_dlpack(info->dlpack_code, info->bits), dtype);
  }
  ck_assert_int_eq(ts_dtype_from_tvm("float8_e4m3", 11), TS_DTYPE_e4m3);
  ck_assert_int_eq(ts_dtype_from_tvm("float16x8", 7), TS_DTYPE_f16);
  ck_assert_int_eq(ts_dtype_from_tvm("float17", 7), TS_DTYPE_NONE);
  ck_assert_int_eq(ts_dtype_from_tvm("", 0), TS_DTYPE_NONE);
  ck_assert_int_eq(ts_dtype_from_name("f1", 2), TS_DTYPE_NONE);
  ck_assert_uint_eq(ts_dtype_bits(TS_DTYPE_NONE), 0);
  ck_assert(!ts_dtype_is_float(TS_DTYPE_NONE));
  ck_assert_uint_eq(ts_dtype_packed_bytes(TS_DTYPE_e2m1, 3), 2);
  ck_assert_uint_eq(ts_dtype_packed_bytes(TS_DTYPE_f64, 3), 24);
}
END_TEST

START_TEST(slots_and_packing) {
  ck_assert_uint_eq(ts_dtype_slot(TS_DTYPE_s8, 0x80), 0xffffff80);
  ck_assert_uint_eq(ts_dtype_slot(TS_DTYPE_u8, 0x80), 0x80);
  ck_assert_uint_eq(ts_dtype_slot(TS_DTYPE_s4, 0xf), 0xffffffff);
  ck_assert_uint_eq(ts_dtype_slot(TS_DTYPE_s32, 0x80000000), 0x80000000);
  ck_assert_uint_eq(ts_dtype_encoding(TS_DTYPE_s16, 0xffff8000), 0x8000);
  const uint8_t bytes[] = {0x01, 0x82, 0xf3, 0x04, 0x95, 0x06};
  uint32_t slots[8];
  ts_dtype_unpack(TS_DTYPE_s4, slots, bytes, 3);
  ck_assert_uint_eq(slots[0], 1);
  ck_assert_uint_eq(slots[1], 0);
  ck_assert_uint_eq(slots[2], 2);
  ts_dtype_unpack(TS_DTYPE_s16, slots, bytes + 1, 2); /* unaligned */
  ck_assert_uint_eq(slots[0], 0xfffff382);
  ck_assert_uint_eq(slots[1], 0xffff9504);
  ts_dtype_unpack(TS_DTYPE_pred, slots, bytes, 2);
  ck_assert_uint_eq(slots[1], 1);
  for (unsigned i = 0; i < TS_DTYPE_COUNT; ++i) {
    enum ts_dtype dtype = (enum ts_dtype)i;
    if (dtype == TS_DTYPE_pred || ts_dtype_bits(dtype) > 32) continue;
    uint8_t again[32] = {0};
    size_t count = sizeof bytes * 8 / ts_dtype_bits(dtype);
    uint32_t many[64];
    ts_dtype_unpack(dtype, many, bytes, count);
    ts_dtype_pack(dtype, again, many, count);
    ck_assert_mem_eq(again, bytes, (size_t)ts_dtype_packed_bytes(dtype, count));
  }
}
END_TEST

START_TEST(special_encodings) {
  ck_assert_uint_eq(ts_dtype_nan(TS_DTYPE_f32), 0x7fffffff);
  ck_assert_uint_eq(ts_dtype_nan(TS_DTYPE_e4m3), 0x7f);
  ck_assert_uint_eq(ts_dtype_max_finite(TS_DTYPE_f16), 0x7bff);
  ck_assert_uint_eq(ts_dtype_max_finite(TS_DTYPE_bf16), 0x7f7f);
  ck_assert_uint_eq(ts_dtype_max_finite(TS_DTYPE_e4m3), 0x7e);
  ck_assert_uint_eq(ts_dtype_max_finite(TS_DTYPE_e5m2), 0x7b);
  ck_assert_uint_eq(ts_dtype_max_finite(TS_DTYPE_e2m1), 0x7);
  ck_assert_uint_eq(ts_dtype_max_finite(TS_DTYPE_s8), 0x7f);
  ck_assert_uint_eq(ts_dtype_max_finite(TS_DTYPE_u64), UINT64_MAX);
  ck_assert_uint_eq(ts_dtype_one(TS_DTYPE_f16), 0x3c00);
  ck_assert_uint_eq(ts_dtype_one(TS_DTYPE_f64), 0x3ff0000000000000);
  ck_assert_uint_eq(ts_dtype_one(TS_DTYPE_tf32), 0x3f800000);
  ck_assert_uint_eq(ts_dtype_one(TS_DTYPE_s32), 1);
}
END_TEST

/* Reference: the value of an encoding as a double, and the nearest encoding by search. --------- */

static double value_of(enum ts_dtype dtype, uint32_t encoding) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  uint32_t magnitude = encoding & ((1u << (info->bits - 1)) - 1);
  double sign = encoding >> (info->bits - 1) ? -1 : 1;
  int field = (int)(magnitude >> info->mantissa_bits);
  double fraction = (double)(magnitude & ((1u << info->mantissa_bits) - 1));
  if (info->special == TS_SPECIAL_IEEE && field == (1 << info->exponent_bits) - 1)
    return fraction != 0 ? NAN : sign * INFINITY;
  if (info->special == TS_SPECIAL_NAN_ALL_ONES && magnitude == (1u << (info->bits - 1)) - 1)
    return NAN;
  int mantissa_bits = info->mantissa_bits;
  double hidden = field ? ldexp(1, mantissa_bits) : 0;
  return sign * ldexp(hidden + fraction, (field ? field : 1) - info->bias - mantissa_bits);
}

/* Nearest even by bisection over the ordered encodings; saturate: never Inf. */
static uint32_t nearest(enum ts_dtype dtype, double value, bool saturate) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  uint32_t sign = signbit(value) ? 1u << (info->bits - 1) : 0;
  uint32_t most = (uint32_t)ts_dtype_max_finite(dtype), low = 0, high = most;
  if (isnan(value))
    return (uint32_t)(info->special == TS_SPECIAL_NONE ? most : ts_dtype_nan(dtype));
  double size = fabs(value);
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (value_of(dtype, middle) <= size)
      low = middle;
    else
      high = middle;
  }
  double below = value_of(dtype, low), above = value_of(dtype, high);
  /* Beyond the largest: the next step up would be Inf (or NaN). */
  double step = above - below, limit = above + step / 2;
  if (size >= limit || (size > above && isinf(size))) {
    bool has_infinity = info->special == TS_SPECIAL_IEEE;
    uint32_t beyond = has_infinity ? most + 1 : (uint32_t)ts_dtype_nan(dtype);
    if (info->special == TS_SPECIAL_NAN_ALL_ONES && size == limit) return sign | most;
    if (info->special == TS_SPECIAL_NAN_ALL_ONES && !saturate) return beyond;
    return sign | (saturate || !has_infinity ? most : beyond);
  }
  if (size >= above) return sign | high;
  double middle = (below + above) / 2;
  bool up = size > middle || (size == middle && low % 2 == 1);
  return sign | (up ? high : low);
}

static const enum ts_dtype small_floats[] = {TS_DTYPE_f16,  TS_DTYPE_bf16, TS_DTYPE_e4m3,
                                             TS_DTYPE_e5m2, TS_DTYPE_e2m3, TS_DTYPE_e3m2,
                                             TS_DTYPE_e2m1};
enum { SMALL_FLOATS = sizeof small_floats / sizeof small_floats[0] };

static uint32_t f32_bits(double value) {
  float single = (float)value;
  uint32_t bits;
  memcpy(&bits, &single, sizeof bits);
  return isnan(value) ? 0x7fffffffu : bits;
}

START_TEST(small_floats_to_f32_and_f64) {
  for (size_t t = 0; t < SMALL_FLOATS; ++t) {
    enum ts_dtype dtype = small_floats[t];
    for (uint32_t e = 0; e < 1u << ts_dtype_bits(dtype); ++e) {
      double value = value_of(dtype, e);
      uint32_t expected = f32_bits(value);
      if (dtype == TS_DTYPE_bf16 && isnan(value)) expected = e << 16;
      check(ts_num_convert1(TS_DTYPE_f32, dtype, 0, e) == expected, "%s %x", ts_dtype_name(dtype),
            e);
      uint64_t wide = ts_num_convert1(TS_DTYPE_f64, dtype, 0, e), wide_expected;
      memcpy(&wide_expected, &value, 8);
      check(isnan(value) || wide == wide_expected, "%s %x", ts_dtype_name(dtype), e);
    }
  }
}
END_TEST

/* Every 16-bit and 8-bit source to every small float, both overflow rules. */
START_TEST(small_floats_to_small_floats) {
  for (size_t s = 0; s < SMALL_FLOATS; ++s)
    for (size_t d = 0; d < SMALL_FLOATS; ++d)
      for (int saturate = 0; saturate < 2; ++saturate)
        for (uint32_t e = 0; s != d && e < 1u << ts_dtype_bits(small_floats[s]); ++e) {
          uint32_t expected = nearest(small_floats[d], value_of(small_floats[s], e), saturate);
          uint64_t got =
              ts_num_convert1(small_floats[d], small_floats[s], saturate ? TS_NUM_SATFINITE : 0, e);
          check(got == expected, "%s %x to %s is %x, not %x", ts_dtype_name(small_floats[s]), e,
                ts_dtype_name(small_floats[d]), (unsigned)got, expected);
        }
}
END_TEST

/* Around every value of the destination and every middle between two: f32 neighbours. */
START_TEST(f32_to_small_floats) {
  for (size_t d = 0; d < SMALL_FLOATS; ++d) {
    enum ts_dtype dtype = small_floats[d];
    uint32_t most = (uint32_t)ts_dtype_max_finite(dtype);
    for (uint32_t e = 0; e <= most; ++e) {
      double step = value_of(dtype, e < most ? e + 1 : e) - value_of(dtype, e < most ? e : e - 1);
      for (int i = 0; i < 6; ++i) {
        uint32_t bits = f32_bits(value_of(dtype, e) + (i >= 3 ? step / 2 : 0));
        bits += (uint32_t)(i % 3) - 1u;
        if (i % 2) bits ^= 0x80000000u;
        float single;
        memcpy(&single, &bits, 4);
        for (int saturate = 0; saturate < 2; ++saturate) {
          uint64_t got =
              ts_num_convert1(dtype, TS_DTYPE_f32, saturate ? TS_NUM_SATFINITE : 0, bits);
          uint32_t expected = nearest(dtype, (double)single, saturate);
          check(got == expected, "f32 %08x to %s is %x, not %x", bits, ts_dtype_name(dtype),
                (unsigned)got, expected);
        }
      }
    }
  }
}
END_TEST

struct known {
  enum ts_dtype dst, src;
  unsigned flags;
  uint64_t in, out;
};

#define FIN TS_NUM_SATFINITE
#define D(t) TS_DTYPE_##t
/* clang-format off */
static const struct known knowns[] = {
    {D(f16), D(f32), 0, 0x477fefff, 0x7bff}, {D(f16), D(f32), 0, 0x477ff000, 0x7c00},
    {D(f16), D(f32), FIN, 0x477ff000, 0x7bff}, {D(f16), D(f32), TS_NUM_RZ, 0x477ff000, 0x7bff},
    {D(f16), D(f32), 0, 0x33000000, 0}, {D(f16), D(f32), 0, 0x33000001, 1},
    {D(f16), D(f32), 0, 0x387fe000, 0x0400}, {D(f16), D(f32), 0, 0xff800001, 0x7fff},
    {D(bf16), D(f32), 0, 0x3f808000, 0x3f80}, {D(bf16), D(f32), 0, 0x3f818000, 0x3f82},
    {D(bf16), D(f32), 0, 0x7f7f8000, 0x7f80}, {D(bf16), D(f32), 0, 0x00008000, 0},
    {D(bf16), D(f32), 0, 0x00018000, 2}, {D(bf16), D(f32), 0, 0x7f800001, 0x7fff},
    {D(f32), D(bf16), 0, 0x7f81, 0x7f810000}, {D(f32), D(bf16), 0, 0xff81, 0xff810000},
    {D(f32), D(f16), 0, 0x8000, 0x80000000}, {D(f32), D(f16), 0, 0x0001, 0x33800000},
    {D(tf32), D(f32), TS_NUM_RNA, 0x3f801000, 0x3f802000}, {D(tf32), D(f32), TS_NUM_RNA, 0x3f800fff, 0x3f800000},
    {D(tf32), D(f32), TS_NUM_RNA, 0x7f7ff000, 0x7f800000}, {D(tf32), D(f32), TS_NUM_RNA | FIN, 0x7f7ff000, 0x7f7fe000},
    {D(tf32), D(f32), TS_NUM_RNA, 0x7f800001, 0x7f800000}, {D(tf32), D(f32), TS_NUM_RNA, 0x7fffffff, 0x7fffe000},
    {D(tf32), D(f32), 0, 0x3f801000, 0x3f800000}, {D(tf32), D(f32), 0, 0x3f803000, 0x3f804000},
    {D(e4m3), D(f32), FIN, 0x43e00000, 0x7e}, {D(e4m3), D(f32), FIN, 0x43e80000, 0x7e},
    {D(e4m3), D(f32), FIN, 0x7f800000, 0x7e}, {D(e4m3), D(f32), FIN, 0xff800000, 0xfe},
    {D(e4m3), D(f32), FIN, 0xffc00000, 0x7f}, {D(e4m3), D(f32), FIN, 0x3a800000, 0},
    {D(e4m3), D(f32), FIN, 0x3a800001, 1}, {D(e4m3), D(f32), FIN, 0x3b400000, 2},
    {D(e4m3), D(f32), FIN, 0x3c6fffff, 7}, {D(e4m3), D(f32), FIN, 0x3c700000, 8},
    {D(e4m3), D(f32), FIN, 0xc3f00000, 0xfe},
    {D(e5m2), D(f32), FIN, 0x47600000, 0x7b}, {D(e5m2), D(f32), FIN, 0x47700000, 0x7b},
    {D(e5m2), D(f32), FIN, 0x7f800000, 0x7b}, {D(e5m2), D(f32), FIN, 0x7fc00000, 0x7f},
    {D(e5m2), D(f32), FIN, 0x37000000, 0}, {D(e5m2), D(f32), FIN, 0x37000001, 1},
    {D(e2m1), D(f32), FIN, 0x3e800000, 0}, {D(e2m1), D(f32), FIN, 0x3e800001, 1},
    {D(e2m1), D(f32), FIN, 0x3f400000, 2}, {D(e2m1), D(f32), FIN, 0x3fa00000, 2},
    {D(e2m1), D(f32), FIN, 0x3fe00000, 4}, {D(e2m1), D(f32), FIN, 0x40200000, 4},
    {D(e2m1), D(f32), FIN, 0x40600000, 6}, {D(e2m1), D(f32), FIN, 0x40a00000, 6},
    {D(e2m1), D(f32), FIN, 0x40a00001, 7}, {D(e2m1), D(f32), FIN, 0x7f800000, 7},
    {D(e2m1), D(f32), FIN, 0xffc00000, 7}, {D(e2m1), D(f32), FIN, 0xbe800001, 9},
    {D(e8m0), D(f32), TS_NUM_RZ, 0x3fc00000, 0x7f}, {D(e8m0), D(f32), TS_NUM_RP, 0x3fc00000, 0x80},
    {D(e8m0), D(f32), TS_NUM_RP, 0x3f800000, 0x7f}, {D(e8m0), D(f32), TS_NUM_RP, 0x00400001, 1},
    {D(e8m0), D(f32), TS_NUM_RP, 0x00400000, 0}, {D(e8m0), D(f32), TS_NUM_RZ, 0, 0},
    {D(e8m0), D(f32), TS_NUM_RZ, 0xbf800000, 0x7f}, {D(e8m0), D(f32), TS_NUM_RP | FIN, 0x7f7fffff, 0xfe},
    {D(e8m0), D(f32), TS_NUM_RP, 0x7f7fffff, 0xff}, {D(e8m0), D(f32), TS_NUM_RZ, 0x7fc00000, 0xff},
    {D(bf16), D(e8m0), 0, 0x00, 0x0040}, {D(bf16), D(e8m0), 0, 0xff, 0x7fff},
    {D(s32), D(f32), 0, 0x4f000000, 0x7fffffff}, {D(s32), D(f32), 0, 0xcf000001, 0x80000000},
    {D(s32), D(f32), 0, 0x7fc00000, 0}, {D(u32), D(f32), 0, 0xbf800000, 0},
    {D(s32), D(f32), 0, 0xbfc00000, 0xffffffff}, {D(s32), D(f32), TS_NUM_RN, 0xbfc00000, 0xfffffffe},
    {D(s32), D(f32), TS_NUM_RM, 0xbfa00000, 0xfffffffe}, {D(s32), D(f32), TS_NUM_RP, 0x3fa00000, 2},
    {D(u32), D(f32), 0, 0x4f7fffff, 0xffffff00}, {D(u32), D(f32), 0, 0x4f800000, 0xffffffff},
    {D(u32), D(f32), 0, 0x4f000000, 0x80000000}, {D(u32), D(f32), 0, 0x7fc00000, 0},
    {D(s64), D(f32), 0, 0x7fc00000, 0x8000000000000000}, {D(s64), D(f64), 0, 0x43e0000000000000, 0x7fffffffffffffff},
    {D(s8), D(f32), 0, 0x43960000, 0x2c}, {D(s8), D(f32), TS_NUM_SAT, 0x43960000, 0x7f},
    {D(u8), D(f32), 0, 0xbf800000, 0}, {D(u8), D(f32), 0, 0x43960000, 0x2c},
    {D(s16), D(f32), TS_NUM_SAT, 0xc7800000, 0x8000}, {D(pred), D(f32), 0, 0x80000000, 0},
    {D(pred), D(f32), 0, 0x00000001, 1}, {D(pred), D(f32), 0, 0x7fc00000, 1}, {D(pred), D(s32), 0, 0x100, 1},
    {D(f32), D(s32), 0, 0x7fffffff, 0x4f000000}, {D(f32), D(u32), 0, 0xffffffff, 0x4f800000},
    {D(f32), D(s32), TS_NUM_RZ, 0x7fffffff, 0x4effffff}, {D(f16), D(s32), 0, 65519, 0x7bff},
    {D(f16), D(s32), 0, 65520, 0x7c00}, {D(f16), D(s32), 0, (uint32_t)-2049, 0xe800},
    {D(bf16), D(s32), 0, 0x40800001, 0x4e81}, {D(bf16), D(s32), 0, 0x40800000, 0x4e81},
    {D(bf16), D(s32), 0, 0x40400000, 0x4e80}, {D(bf16), D(s32), 0, 0x40400001, 0x4e81},
    {D(f16), D(f64), 0, 0x3ff0020000000001, 0x3c01}, {D(f16), D(f64), 0, 0x3ff0020000000000, 0x3c00},
    {D(f32), D(f64), 0, 0x36a0000000000001, 0x00000001}, {D(f32), D(f64), 0, 0x36a0000000000000, 0x00000001},
    {D(f64), D(f32), 0, 0xffc12345, 0xfff82468a0000000}, {D(f32), D(f64), 0, 0xfff0000000012345, 0xffc00000},
    {D(f16), D(f64), 0, 0xfff0835ec87700af, 0xfe20}, {D(bf16), D(f64), 0, 0xfff6da0b0112f78c, 0xfff6},
    {D(f64), D(f16), 0, 0x7e83, 0x7ffa0c0000000000}, {D(tf32), D(f32), 0, 0x7f800001, 0x7fffe000},
    {D(s32), D(f64), 0, 0x7ff8000000000000, 0x80000000}, {D(u32), D(f64), 0, 0x7ff8000000000000, 0x80000000},
    {D(s8), D(s32), 0, 0x180, 0x80}, {D(s8), D(s32), TS_NUM_SAT, 0x180, 0x7f},
    {D(s64), D(s8), 0, 0x80, 0xffffffffffffff80}, {D(u64), D(u8), 0, 0x80, 0x80}, {D(u32), D(s8), 0, 0x80, 0xffffff80},
    {D(s64), D(u32), 0, 0x80000000, 0x80000000}, {D(s32), D(s64), 0, 0x180000000, 0x80000000},
    {D(u8), D(s32), TS_NUM_SAT, 0xffffffff, 0},
};
/* clang-format on */

START_TEST(known_conversions) {
  for (size_t i = 0; i < sizeof knowns / sizeof knowns[0]; ++i) {
    const struct known *k = &knowns[i];
    ck_assert(ts_num_convert(k->dst, k->src, k->flags) != NULL);
    uint64_t got = ts_num_convert1(k->dst, k->src, k->flags, k->in);
    check(got == k->out, "%s %llx to %s flags %x: %llx, not %llx", ts_dtype_name(k->src),
          (unsigned long long)k->in, ts_dtype_name(k->dst), k->flags, (unsigned long long)got,
          (unsigned long long)k->out);
  }
}
END_TEST

START_TEST(every_pair_has_a_conversion) {
  for (unsigned d = 0; d < TS_DTYPE_COUNT; ++d)
    for (unsigned s = 0; s < TS_DTYPE_COUNT; ++s)
      if (d != TS_DTYPE_ptr && s != TS_DTYPE_ptr)
        check(ts_num_convert((enum ts_dtype)d, (enum ts_dtype)s, 0) != NULL, "%s from %s",
              ts_dtype_name((enum ts_dtype)d), ts_dtype_name((enum ts_dtype)s));
  ck_assert(ts_num_convert(TS_DTYPE_NONE, TS_DTYPE_f32, 0) == NULL);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("num_dtype");
  TCase *group = tcase_create("dtype");
  tcase_set_timeout(group, 120);
  tcase_add_test(group, names);
  tcase_add_test(group, slots_and_packing);
  tcase_add_test(group, special_encodings);
  tcase_add_test(group, small_floats_to_f32_and_f64);
  tcase_add_test(group, small_floats_to_small_floats);
  tcase_add_test(group, f32_to_small_floats);
  tcase_add_test(group, known_conversions);
  tcase_add_test(group, every_pair_has_a_conversion);
  suite_add_tcase(suite, group);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
