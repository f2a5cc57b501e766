/* Fingerprints of unary f32 functions over blocks of consecutive arguments: the sums that
 * tests/num/device/mufu_hash.cu makes on an H200, four of its chunks to a block.
 * traces/num/mufu_hash_h200.bin holds them, little-endian 64-bit words, block after block, function
 * after function in the order of hash_functions. */
#ifndef TS_TESTS_FUNCTION_HASH_H
#define TS_TESTS_FUNCTION_HASH_H

#include <stdio.h>

#include "num/num.h"

enum { HASH_FUNCTIONS = 31, HASH_BLOCKS = 1024, HASH_BLOCK_LENGTH = 1 << 22, HASH_PIECE = 2048 };

static const struct hash_function {
  const char *name;
  enum ts_num_op op;
  unsigned flags;
} hash_functions[HASH_FUNCTIONS] = {
    {"ex2.approx.ftz", TS_NUM_exp2, TS_NUM_APPROX | TS_NUM_FTZ},
    {"lg2.approx.ftz", TS_NUM_log2, TS_NUM_APPROX | TS_NUM_FTZ},
    {"rcp.approx.ftz", TS_NUM_rcp, TS_NUM_APPROX | TS_NUM_FTZ},
    {"rsqrt.approx.ftz", TS_NUM_rsqrt, TS_NUM_APPROX | TS_NUM_FTZ},
    {"sqrt.approx.ftz", TS_NUM_sqrt, TS_NUM_APPROX | TS_NUM_FTZ},
    {"sin.approx.ftz", TS_NUM_sin, TS_NUM_APPROX | TS_NUM_FTZ},
    {"cos.approx.ftz", TS_NUM_cos, TS_NUM_APPROX | TS_NUM_FTZ},
    {"ex2.approx", TS_NUM_exp2, TS_NUM_APPROX},
    {"lg2.approx", TS_NUM_log2, TS_NUM_APPROX},
    {"rcp.approx", TS_NUM_rcp, TS_NUM_APPROX},
    {"rsqrt.approx", TS_NUM_rsqrt, TS_NUM_APPROX},
    {"sqrt.approx", TS_NUM_sqrt, TS_NUM_APPROX},
    {"expf", TS_NUM_exp, 0},
    {"exp2f", TS_NUM_exp2, 0},
    {"exp10f", TS_NUM_exp10, 0},
    {"logf", TS_NUM_log, 0},
    {"log2f", TS_NUM_log2, 0},
    {"log10f", TS_NUM_log10, 0},
    {"log1pf", TS_NUM_log1p, 0},
    {"tanhf", TS_NUM_tanh, 0},
    {"sinf", TS_NUM_sin, 0},
    {"cosf", TS_NUM_cos, 0},
    {"tanf", TS_NUM_tan, 0},
    {"erff", TS_NUM_erf, 0},
    {"rsqrtf", TS_NUM_rsqrt, 0},
    {"sqrtf", TS_NUM_sqrt, 0},
    {"1 / x", TS_NUM_rcp, 0},
    {"__expf", TS_NUM_exp, TS_NUM_APPROX},
    {"__logf", TS_NUM_log, TS_NUM_APPROX},
    {"expm1f", TS_NUM_expm1, 0},
    {"tanh.approx", TS_NUM_tanh, TS_NUM_APPROX},
};

static inline uint64_t hash_term(uint32_t argument, uint32_t result) {
  uint64_t z = ((uint64_t)argument << 32 | result) * UINT64_C(0x9E3779B97F4A7C15);
  return (z ^ z >> 29) * UINT64_C(0xBF58476D1CE4E5B9);
}

/* The sum over the block's arguments of their terms, modulo 2^64. */
static inline uint64_t hash_block(ts_unary_fn function, uint32_t block) {
  uint32_t arguments[HASH_PIECE], results[HASH_PIECE];
  uint64_t sum = 0;
  for (uint32_t start = 0; start < HASH_BLOCK_LENGTH; start += HASH_PIECE) {
    for (uint32_t i = 0; i < HASH_PIECE; ++i)
      arguments[i] = block * (uint32_t)HASH_BLOCK_LENGTH + start + i;
    function(results, arguments, HASH_PIECE);
    for (uint32_t i = 0; i < HASH_PIECE; ++i)
      sum += hash_term(arguments[i], results[i]);
  }
  return sum;
}

/* False when the file is missing or short. */
static inline bool hash_read(const char *path, uint64_t sums[HASH_FUNCTIONS][HASH_BLOCKS]) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return false;
  uint8_t word[8];
  bool complete = true;
  for (unsigned i = 0; i < HASH_FUNCTIONS * HASH_BLOCKS && complete; ++i) {
    complete = fread(word, 1, sizeof word, file) == sizeof word;
    uint64_t sum = 0;
    for (int byte = 7; byte >= 0; --byte)
      sum = sum << 8 | word[byte];
    sums[i / HASH_BLOCKS][i % HASH_BLOCKS] = sum;
  }
  fclose(file);
  return complete;
}

#endif
