/* Generated input: equal to the vectors of the generator that made the corpus' golden outputs. */
#include "api/api_priv.h"
#include "support/suite.h"

#include <sha2.h>
#include <stdlib.h>
#include <string.h>

enum { ELEM_COUNT = 5000 }; /* more than one chunk */
static const uint64_t seed = 2591825232;

/* The first four elements, and the first 16 digits of the SHA-256 of ELEM_COUNT of them. */
/* clang-format off */
static const struct {
  enum ts_dtype dtype;
  const char *mode;
  uint64_t first[4];
  const char *hash;
} vectors[] = {
    {TS_DTYPE_f32, "uniform", {0x3ea6dc20, 0x3f094a64, 0xbf16c3ba, 0xbf4e233c}, "9ca8d83cf3950801"},
    {TS_DTYPE_f16, "uniform", {0x3537, 0x384a, 0xb8b6, 0xba71}, "e55ae3e4954d5fc2"},
    {TS_DTYPE_bf16, "uniform", {0x3ea7, 0x3f09, 0xbf17, 0xbf4e}, "006dc7a6aead8641"},
    {TS_DTYPE_f64, "uniform", {0x3fd4db8400000000, 0x3fe1294c80000000, 0xbfe2d87740000000, 0xbfe9c46780000000}, "807fe6e92520a751"},
    {TS_DTYPE_e4m3, "uniform", {0x2a, 0x31, 0xb1, 0xb5}, "8e6abcbca806c084"},
    {TS_DTYPE_e5m2, "uniform", {0x35, 0x38, 0xb9, 0xba}, "af87accabdfb6e62"},
    {TS_DTYPE_s32, "uniform", {0x0, 0x0, 0x0, 0x0}, "28b4f41a7f3ee6d8"},
    {TS_DTYPE_s8, "int:-5:5", {0x2, 0xff, 0xff, 0xfb}, "6f77175a34afcd8d"},
    {TS_DTYPE_s32, "int:-100:100", {0x63, 0x9, 0xfffffff7, 0xffffffdc}, "39b61081b0ebab71"},
    {TS_DTYPE_f16, "int:-3:9", {0x3c00, 0xbc00, 0x0, 0x4600}, "d7db7b81240b9740"},
    {TS_DTYPE_s64, "int:-7:1000", {0x162, 0x1d1, 0x16b, 0x78}, "5fcd6d369ca41768"},
    {TS_DTYPE_f32, "int:-5:5", {0x40000000, 0xbf800000, 0xbf800000, 0xc0a00000}, "aa51be08625bfbc5"},
    {TS_DTYPE_f64, "int:-70000:70000", {0xc0f08f0000000000, 0x40d2288000000000, 0x40e1ba4000000000, 0x40e6af4000000000}, "eabf9e79b2e3a37f"},
    {TS_DTYPE_bf16, "int:-1000:1000", {0xc307, 0x447a, 0xc2fc, 0x43da}, "54682c66666e2179"},
    {TS_DTYPE_s32, "bits", {0xa9b70832, 0xc4a532b1, 0x349e2325, 0x18ee623e}, "1488198a10cc5b51"},
    {TS_DTYPE_u64, "bits", {0xa9b708325f0c9512, 0xc4a532b11b22e6d1, 0x349e2325fa4df39c, 0x18ee623e5e7dbbf7}, "2cfdb12f7a948f92"},
    {TS_DTYPE_f32, "bits", {0xa9b70832, 0xc4a532b1, 0x349e2325, 0x18ee623e}, "556744ec3a9c6f3c"},
    {TS_DTYPE_f16, "bits", {0xa9b7, 0xc4a5, 0x349e, 0x18ee}, "b41ef6080c94f66c"},
    {TS_DTYPE_bf16, "bits", {0xa9b7, 0xc4a5, 0x349e, 0x18ee}, "b73575e703603aea"},
    {TS_DTYPE_e4m3, "bits", {0xa9, 0xc4, 0x34, 0x18}, "370644f467705b0b"},
    {TS_DTYPE_e5m2, "bits", {0xa9, 0xc4, 0x34, 0x18}, "0f72633257762594"},
    {TS_DTYPE_u8, "bits", {0xa9, 0xc4, 0x34, 0x18}, "f31976f732b83aab"},
    {TS_DTYPE_s16, "meta24", {0xe4e4, 0xcd9e, 0xdec4, 0xde88}, "66b687c607894a6b"},
    {TS_DTYPE_s32, "meta24", {0x8c99e4e4, 0xdc9ccd9e, 0xd9e8dec4, 0x4d99de88}, "8e845ad487891c7b"},
    {TS_DTYPE_f32, "fill:A5", {0xa5a5a5a5, 0xa5a5a5a5, 0xa5a5a5a5, 0xa5a5a5a5}, "dcb09b3e1c268c33"},
    {TS_DTYPE_f16, "const:1.5", {0x3e00, 0x3e00, 0x3e00, 0x3e00}, "418813a8b044d809"},
    {TS_DTYPE_e4m3, "const:-0.3", {0xaa, 0xaa, 0xaa, 0xaa}, "96ebf37af0eba004"},
    {TS_DTYPE_s32, "const:7", {0x7, 0x7, 0x7, 0x7}, "c321b9d393764f85"},
    {TS_DTYPE_f32, "iota:3:5", {0x0, 0x0, 0x0, 0x3f800000}, "93d28161f9cdc371"},
    {TS_DTYPE_s8, "iota:1:7", {0x0, 0x1, 0x2, 0x3}, "d6cd3f7574f6ae02"},
    {TS_DTYPE_f16, "iota:1:4096", {0x0, 0x3c00, 0x4000, 0x4200}, "ce9034e046ddabe4"},
};
/* clang-format on */
enum { VECTOR_COUNT = sizeof vectors / sizeof *vectors };

START_TEST(test_vectors) {
  for (size_t i = 0; i < VECTOR_COUNT; i++) {
    struct ts__init init;
    enum ts_dtype dtype = vectors[i].dtype;
    size_t elem_bytes = ts_dtype_bits(dtype) / 8, size_bytes = ELEM_COUNT * elem_bytes;
    uint8_t *data = malloc(size_bytes);
    const char *rest = ts__init_parse(vectors[i].mode, &init);
    ck_assert_msg(rest && !*rest, "%s", vectors[i].mode);
    ck_assert(ts__init_fill(&init, seed, dtype, ELEM_COUNT, data));
    for (size_t k = 0; k < 4; k++) {
      uint64_t found = 0;
      memcpy(&found, data + k * elem_bytes, elem_bytes);
      ck_assert_msg(found == vectors[i].first[k], "%s %s [%zu]: %llx instead of %llx",
                    ts_dtype_name(dtype), vectors[i].mode, k, (unsigned long long)found,
                    (unsigned long long)vectors[i].first[k]);
    }
    char hash[SHA256_DIGEST_STRING_LENGTH];
    SHA256Data(data, size_bytes, hash);
    hash[16] = '\0';
    ck_assert_msg(strcmp(hash, vectors[i].hash) == 0, "%s %s", ts_dtype_name(dtype),
                  vectors[i].mode);
    free(data);
  }
}
END_TEST

START_TEST(test_modes_that_are_none) {
  static const char *const texts[] = {"",
                                      "unifor",
                                      "uniformly",
                                      "int",
                                      "int:",
                                      "int:1",
                                      "int:5:4",
                                      "int:0:99999999999",
                                      "int: 1:2",
                                      "fill",
                                      "fill:",
                                      "fill:100",
                                      "fill:-1",
                                      "fill:G0",
                                      "const",
                                      "const:",
                                      "const: 1",
                                      "iota",
                                      "iota:0:4",
                                      "iota:1:0",
                                      "iota:-1:4",
                                      "iota:1",
                                      "bit",
                                      "int:x:y",
                                      "int:99999999999999999999:1"};
  struct ts__init init;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    ck_assert_msg(ts__init_parse(texts[i], &init) == NULL, "'%s'", texts[i]);
}
END_TEST

START_TEST(test_rest_is_the_seed) {
  struct ts__init init;
  ck_assert_str_eq(ts__init_parse("int:-2:2:77", &init), ":77");
  ck_assert_int_eq(init.a, -2);
  ck_assert_int_eq(init.b, 2);
  ck_assert_str_eq(ts__init_parse("uniform:1@2x3", &init), ":1@2x3");
  ck_assert_str_eq(ts__init_parse("fill:00", &init), "");
  ck_assert_str_eq(ts__init_parse("const:-1e3:5", &init), ":5");
  ck_assert(init.value == -1000 && !init.value_is_int);
  ck_assert_str_eq(ts__init_parse("const:12", &init), "");
  ck_assert(init.value_is_int && init.a == 12);
}
END_TEST

/* Two 4-bit elements share a byte, low bits first. */
START_TEST(test_sub_byte) {
  struct ts__init init;
  uint8_t packed[4] = {0};
  ck_assert_ptr_nonnull(ts__init_parse("iota:1:16", &init));
  ck_assert(ts__init_fill(&init, 0, TS_DTYPE_u4, 7, packed));
  ck_assert_uint_eq(packed[0], 0x10);
  ck_assert_uint_eq(packed[1], 0x32);
  ck_assert_uint_eq(packed[2], 0x54);
  ck_assert_uint_eq(packed[3] & 0xf, 0x6);
}
END_TEST

/* Random bits are finite in every float type. */
START_TEST(test_bits_are_finite) {
  static const enum ts_dtype dtypes[] = {TS_DTYPE_f16, TS_DTYPE_bf16, TS_DTYPE_f32,
                                         TS_DTYPE_f64, TS_DTYPE_e4m3, TS_DTYPE_e5m2};
  struct ts__init init;
  ck_assert_ptr_nonnull(ts__init_parse("bits", &init));
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
    size_t elem_bytes = ts_dtype_bits(dtypes[i]) / 8;
    uint8_t data[ELEM_COUNT * 8];
    ck_assert(ts__init_fill(&init, 1, dtypes[i], ELEM_COUNT, data));
    for (size_t k = 0; k < ELEM_COUNT; k++) {
      uint64_t bits = 0;
      memcpy(&bits, data + k * elem_bytes, elem_bytes);
      /* exact: every narrower type is in f64 */
      uint64_t wide = ts_num_convert1(TS_DTYPE_f64, dtypes[i], 0, bits);
      ck_assert_uint_eq(ts_num_eval1(TS_NUM_isfinite, TS_DTYPE_f64, 0, wide), 1);
    }
  }
}
END_TEST

int main(void) {
  return RUN_TESTS("api_init", test_vectors, test_modes_that_are_none, test_rest_is_the_seed,
                   test_sub_byte, test_bits_are_finite);
}
