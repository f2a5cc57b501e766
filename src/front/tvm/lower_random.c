/* Calls: cuRAND's Philox4_32_10, with its state in variables of the kernel (DOC: cuRAND device API;
 * J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3). A draw is word `index` of the
 * block cipher of the counter; four draws use up a counter. */
#include "front/tvm/lower_priv.h"

#include <string.h>

enum { COUNTER = 0, KEY = 4, INDEX = 6, ROUNDS = 10 };

static struct ts__value two(struct ts__lower *lower, enum ts_op op, struct ts__value a,
                            struct ts__value b) {
  return ts__lower_emit_2(lower, op, a, b);
}

static struct ts__value state(const struct ts__lower *lower, int word) {
  struct ts__value value = lower->random_state[word];
  value.level = lower->level;
  value.is_varying = value.is_mutable = true;
  return value;
}

static void set(struct ts__lower *lower, int word, struct ts__value value) {
  ts__lower_emit_assign(lower, lower->random_state[word], value);
}

/* A 64-bit argument as two words. */
static void split(struct ts__lower *lower, struct ts__value value, struct ts__value words[2]) {
  value = ts__lower_emit_convert(lower, TS_DTYPE_s64, value);
  value = ts__lower_emit_convert(lower, TS_DTYPE_u64, value);
  struct ts__value high = two(lower, TS_OP_shr, value, ts__value_imm(lower, value.type, 32));
  words[0] = ts__lower_emit_convert(lower, TS_DTYPE_u32, value);
  words[1] = ts__lower_emit_convert(lower, TS_DTYPE_u32, high);
}

/* 1 where the sum of which one part was b is below it. */
static struct ts__value carry(struct ts__lower *lower, struct ts__value sum, struct ts__value b) {
  return ts__lower_emit_select(lower, two(lower, TS_OP_lt, sum, b), ts__value_u32(lower, 1),
                               ts__value_u32(lower, 0));
}

/* The counter's lower half plus a number below 2^64, the carry into the upper half. */
static void advance(struct ts__lower *lower, struct ts__value low, struct ts__value high) {
  struct ts__value sum[4], more = low;
  for (int i = 0; i < 4; i++) {
    sum[i] = two(lower, TS_OP_add, state(lower, COUNTER + i), more);
    more = carry(lower, sum[i], more);
    if (i == 0) more = two(lower, TS_OP_add, more, high); /* high is below 2^30: no second carry */
  }
  for (int i = 0; i < 4; i++)
    set(lower, COUNTER + i, sum[i]);
}

/* (seed, sequence, offset, generator) */
struct ts__value ts__builtin_rng_init(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  const char *generator = ts__lower_string(lower, call->call.args.items[3], "a generator");
  struct ts__value words[3][2];
  if (strcmp(generator, "curandStatePhilox4_32_10_t")) {
    ts__lower_unknown(lower, "the random generator '%s'", generator);
    return ts__value_none();
  }
  if (!lower->has_random) {
    for (int i = 0; i <= INDEX; i++)
      lower->random_state[i] = ts__lower_emit_variable(lower, ts__value_u32(lower, 0), "random");
    lower->has_random = true;
  }
  for (size_t i = 0; i < 3; i++)
    split(lower, ts__lower_expr(lower, call->call.args.items[i]), words[i]);
  for (int i = 0; i < 2; i++) {
    set(lower, COUNTER + i, ts__value_u32(lower, 0));
    set(lower, COUNTER + 2 + i, words[1][i]);
    set(lower, KEY + i, words[0][i]);
  }
  set(lower, INDEX, two(lower, TS_OP_and, words[2][0], ts__value_u32(lower, 3)));
  struct ts__value low = two(lower, TS_OP_shr, words[2][0], ts__value_u32(lower, 2));
  low = two(lower, TS_OP_or, low, two(lower, TS_OP_shl, words[2][1], ts__value_u32(lower, 30)));
  advance(lower, low, two(lower, TS_OP_shr, words[2][1], ts__value_u32(lower, 2)));
  return ts__value_none();
}

static void encipher(struct ts__lower *lower, struct ts__value c[4]) {
  struct ts__value keys[2] = {state(lower, KEY), state(lower, KEY + 1)};
  struct ts__value factors[2] = {ts__value_u32(lower, 0xD2511F53),
                                 ts__value_u32(lower, 0xCD9E8D57)};
  for (int round = 0; round < ROUNDS; round++) {
    struct ts__value high0 = two(lower, TS_OP_mulhi, factors[0], c[0]);
    struct ts__value high1 = two(lower, TS_OP_mulhi, factors[1], c[2]);
    struct ts__value low0 = two(lower, TS_OP_mul, factors[0], c[0]);
    struct ts__value low1 = two(lower, TS_OP_mul, factors[1], c[2]);
    c[0] = two(lower, TS_OP_xor, two(lower, TS_OP_xor, high1, c[1]), keys[0]);
    c[2] = two(lower, TS_OP_xor, two(lower, TS_OP_xor, high0, c[3]), keys[1]);
    c[1] = low1;
    c[3] = low0;
    keys[0] = two(lower, TS_OP_add, keys[0], ts__value_u32(lower, 0x9E3779B9));
    keys[1] = two(lower, TS_OP_add, keys[1], ts__value_u32(lower, 0xBB67AE85));
  }
}

static struct ts__value draw(struct ts__lower *lower, const struct tir_expr *call) {
  if (!lower->has_random) {
    ts__lower_unknown(lower, "%s before rng_init", call->call.op);
    return ts__value_u32(lower, 0);
  }
  struct ts__value c[4];
  for (int i = 0; i < 4; i++)
    c[i] = state(lower, COUNTER + i);
  encipher(lower, c);
  struct ts__value index = state(lower, INDEX), word = c[3];
  for (int i = 2; i >= 0; i--)
    word = ts__lower_emit_select(lower, two(lower, TS_OP_eq, index, ts__value_u32(lower, i)), c[i],
                                 word);
  word = ts__lower_emit_variable(lower, word, NULL); /* keeps it while the state moves on */
  word.is_varying = true;
  struct ts__value next = two(lower, TS_OP_add, index, ts__value_u32(lower, 1));
  advance(lower, two(lower, TS_OP_shr, next, ts__value_u32(lower, 2)), ts__value_u32(lower, 0));
  set(lower, INDEX, two(lower, TS_OP_and, next, ts__value_u32(lower, 3)));
  return word;
}

struct ts__value ts__builtin_rng_rand(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  return draw(lower, call);
}

/* ("uniform"): in (0, 1], x * 2^-32 + 2^-33 in one fma, as nvcc contracts it. */
struct ts__value ts__builtin_rng_rand_float(struct ts__lower *lower, const struct tir_expr *call,
                                            int unused) {
  (void)unused;
  const char *distribution = ts__lower_string(lower, call->call.args.items[0], "a distribution");
  if (strcmp(distribution, "uniform") || call->dtype.elem != TS_DTYPE_f32) {
    ts__lower_unknown(lower, "%s random numbers of dtype '%s'", distribution, call->dtype.text);
    return ts__value_imm(lower, ts__lower_type(lower, call->dtype), 0);
  }
  struct ts_type type = ts__scalar_type(TS_DTYPE_f32);
  struct ts__value operands[3] = {ts__lower_emit_convert(lower, TS_DTYPE_f32, draw(lower, call)),
                                  ts__value_float(lower, type, 0x1p-32),
                                  ts__value_float(lower, type, 0x1p-33)};
  return ts__lower_emit(lower, TS_OP_fma, type, TS_DTYPE_f32, operands, 3, NULL);
}
