/* Special functions against an H200: fingerprints of whole blocks of arguments (a few here, all of
 * them in tests/num/test_sfu_all.c), and every instruction set against the portable kernels. */
#include "num/num_priv.h"
#include "support/function_hash.h"
#include "support/suite.h"

static uint64_t expected[HASH_FUNCTIONS][HASH_BLOCKS];

/* One block of 2^22 arguments for each function, spread over 2^-15 .. 2^17 of both signs. */
START_TEST(blocks_equal_hardware) {
  ck_assert(hash_read("traces/num/mufu_hash_h200.bin", expected));
  for (uint32_t i = 0; i < HASH_FUNCTIONS; ++i) {
    const struct hash_function *f = &hash_functions[i];
    ts_unary_fn function = ts_num_unary(f->op, TS_DTYPE_f32, f->flags);
    uint32_t block = 224 + i * 37 % 64 + (i % 4 == 3 ? 512 : 0);
    ck_assert_msg(hash_block(function, block) == expected[i][block], "%s: block %08x", f->name,
                  block << 22);
  }
}
END_TEST

/* The 16-bit forms of the unit for all arguments: the same sums over 65536 of them, made from the
 * tables that tests/num/device/mufu_sample.cu wrote on an H200. */
START_TEST(halves_equal_hardware) {
  static const struct {
    enum ts_num_op op;
    enum ts_dtype dtype;
    uint64_t sum;
  } rows[] = {{TS_NUM_exp2, TS_DTYPE_f16, UINT64_C(0x06e37d7229eb879f)},
              {TS_NUM_exp2, TS_DTYPE_bf16, UINT64_C(0x33c4b520c08da5fe)},
              {TS_NUM_tanh, TS_DTYPE_f16, UINT64_C(0xaef9956e273f1107)},
              {TS_NUM_tanh, TS_DTYPE_bf16, UINT64_C(0xfd2620df08374737)}};
  static uint32_t arguments[65536], results[65536];
  for (uint32_t i = 0; i < 65536; ++i)
    arguments[i] = i;
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; ++r) {
    ts_num_unary(rows[r].op, rows[r].dtype, TS_NUM_APPROX)(results, arguments, 65536);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 65536; ++i)
      sum += hash_term(i, results[i]);
    ck_assert_msg(sum == rows[r].sum, "%s of %s", ts_num_op_name(rows[r].op),
                  ts_dtype_info(rows[r].dtype)->name);
  }
}
END_TEST

START_TEST(instruction_sets_agree) {
  enum { COUNT = 20000 };
  static uint32_t arguments[COUNT], results[COUNT], wanted[COUNT];
  for (uint32_t i = 0; i < COUNT; ++i) {
    uint32_t z = i * 0x9E3779B9u;
    z = (z ^ z >> 15) * 0x85EBCA6Bu;
    arguments[i] = i < 64 ? (i & 1u) << 31 | (i >> 1) << 26 : z ^ z >> 13;
  }
  for (uint32_t f = 0; f < HASH_FUNCTIONS; ++f) {
    const struct hash_function *h = &hash_functions[f];
    ts__elementwise_portable.unary(h->op, TS_DTYPE_f32, h->flags)(wanted, arguments, COUNT);
    for (unsigned isa = TS_ISA_AVX2; isa <= (unsigned)ts_num_isa(); ++isa) {
      const struct ts__elementwise *table = ts__elementwise_of((enum ts_isa)isa);
      if (table->unary == NULL) continue;
      table->unary(h->op, TS_DTYPE_f32, h->flags)(results, arguments, COUNT);
      for (uint32_t i = 0; i < COUNT; ++i)
        ck_assert_msg(results[i] == wanted[i], "%s(%08x) on %s: %08x, portable %08x", h->name,
                      arguments[i], ts_isa_name((enum ts_isa)isa), results[i], wanted[i]);
    }
  }
}
END_TEST

/* Results may overwrite arguments, and pieces end anywhere. */
START_TEST(in_place_and_ragged) {
  uint32_t values[130], wanted[130];
  for (uint32_t i = 0; i < 130; ++i)
    values[i] = 0x40000000u + i * 0x00123457u;
  ts_unary_fn sine = ts_num_unary(TS_NUM_sin, TS_DTYPE_f32, 0);
  for (uint32_t i = 0; i < 130; ++i)
    sine(&wanted[i], &values[i], 1);
  sine(values, values, 130);
  for (uint32_t i = 0; i < 130; ++i)
    ck_assert_uint_eq(values[i], wanted[i]);
}
END_TEST

int main(void) {
  return RUN_TESTS("num_functions", blocks_equal_hardware, halves_equal_hardware,
                   instruction_sets_agree, in_place_and_ragged);
}
