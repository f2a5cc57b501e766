/* Calls: cuRAND's generators, their states in variables of the kernel (DOC: cuRAND device API;
 * J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3; G. Marsaglia, Xorshift RNGs;
 * P. L'Ecuyer, Good parameters for combined multiple recursive random number generators). Where a
 * stream starts is one instruction, every draw is arithmetic. The words of a state: num/random.h. */
#include "front/tvm/lower_priv.h"

#include <string.h>

enum { COUNTER = 0, KEY = 4, INDEX = 6, ROUNDS = 10, SUM = 5, WORDS = TS_IR_GENERATOR_WORDS };

/* The second number of a pair of normal ones is kept for the next call. */
struct spare {
  struct ts__value is_there, value;
};

/* The state of one rng_init. */
struct ts__random {
  struct ts__random *next;
  const struct tir_expr *init;
  enum ts_ir_generator generator;
  struct ts__value words[WORDS];
  struct spare singles, doubles;
};

static struct ts__value two(struct ts__lower *lower, enum ts_op op, struct ts__value a,
                            struct ts__value b) {
  return ts__lower_emit_2(lower, op, a, b);
}

static struct ts__value u64(struct ts__lower *lower, uint64_t value) {
  return ts__value_encoding(lower, ts__scalar_type(TS_DTYPE_u64), value);
}

static struct ts__value f32(struct ts__lower *lower, double value) {
  return ts__value_float(lower, ts__scalar_type(TS_DTYPE_f32), value);
}

static struct ts__value f64(struct ts__lower *lower, double value) {
  return ts__value_float(lower, ts__scalar_type(TS_DTYPE_f64), value);
}

static struct ts__value cvt(struct ts__lower *lower, enum ts_dtype dtype, struct ts__value value) {
  return ts__lower_emit_convert(lower, dtype, value);
}

/* A value that changes wherever it is read. */
static struct ts__value variable(struct ts__lower *lower, struct ts__value value,
                                 const char *name) {
  value = ts__lower_emit_variable(lower, value, name);
  value.level = lower->level;
  value.is_varying = value.is_mutable = true;
  return value;
}

/* A value kept while what it was made of moves on. */
static struct ts__value kept(struct ts__lower *lower, struct ts__value value) {
  value = variable(lower, value, NULL);
  value.is_mutable = false;
  return value;
}

static struct ts__value word(const struct ts__lower *lower, int i) {
  struct ts__value value = lower->random->words[i];
  value.level = lower->level;
  return value;
}

static void set(struct ts__lower *lower, int i, struct ts__value value) {
  ts__lower_emit_assign(lower, lower->random->words[i], value);
}

/* --- rng_init(seed, sequence, offset, generator) */

static bool find_generator(struct ts__lower *lower, const char *name,
                           enum ts_ir_generator *generator) {
  static const char *const names[] = {"curandStatePhilox4_32_10_t", "curandStateXORWOW_t",
                                      "curandStateMRG32k3a_t"};
  for (int i = 0; i < 3; i++)
    if (!strcmp(name, names[i])) {
      *generator = (enum ts_ir_generator)i;
      return true;
    }
  ts__lower_unknown(lower, "the random generator '%s'", name);
  return false;
}

static struct spare spare_new(struct ts__lower *lower, struct ts__value zero) {
  struct ts__value no = ts__value_imm(lower, ts__scalar_type(TS_DTYPE_pred), 0);
  return (struct spare){variable(lower, no, NULL), variable(lower, zero, NULL)};
}

/* One state a call; loops that are unrolled come here again. */
static struct ts__random *random_of(struct ts__lower *lower, const struct tir_expr *call) {
  struct ts__random *random = lower->randoms;
  while (random && random->init != call)
    random = random->next;
  if (random) return random;
  random = ts_new(lower->scratch, struct ts__random);
  if (!random) {
    ts__lower_fail(lower, TS_NO_MEMORY, TS_DIAG_LIMIT, "no memory");
    return NULL;
  }
  *random = (struct ts__random){.next = lower->randoms, .init = call};
  for (int i = 0; i < WORDS; i++)
    random->words[i] = variable(lower, ts__value_u32(lower, 0), "random");
  random->singles = spare_new(lower, f32(lower, 0));
  random->doubles = spare_new(lower, f64(lower, 0));
  lower->randoms = random;
  return random;
}

static void forget(struct ts__lower *lower, const struct spare *spare) {
  ts__lower_emit_assign(lower, spare->is_there, ts__value_imm(lower, spare->is_there.type, 0));
}

struct ts__value ts__builtin_rng_init(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  enum ts_ir_generator generator;
  const char *name = ts__lower_string(lower, call->call.args.items[3], "a generator");
  if (!find_generator(lower, name, &generator)) return ts__value_none();
  struct ts__value arguments[3];
  for (size_t i = 0; i < 3; i++) /* int arguments are sign-extended */
    arguments[i] =
        cvt(lower, TS_DTYPE_u64, cvt(lower, TS_DTYPE_s64, ts__lower_arg(lower, call, i)));
  struct ts_type type = {TS_DTYPE_u32, WORDS};
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_generator, generator);
  struct ts__value state =
      ts__lower_emit(lower, TS_OP_random_init, type, TS_DTYPE_u32, arguments, 3, &attrs);
  struct ts__random *random = random_of(lower, call);
  if (!random) return ts__value_none();
  random->generator = generator;
  lower->random = random;
  for (uint32_t i = 0; i < WORDS; i++)
    set(lower, (int)i, ts__lower_emit_extract(lower, state, i));
  forget(lower, &random->singles);
  forget(lower, &random->doubles);
  return ts__value_none();
}

/* --- Philox4_32_10: word `index` of the block cipher of the counter; four draws use up a counter */

/* 1 where the sum of which one part was b is below it. */
static struct ts__value carry(struct ts__lower *lower, struct ts__value sum, struct ts__value b) {
  return ts__lower_emit_select(lower, two(lower, TS_OP_lt, sum, b), ts__value_u32(lower, 1),
                               ts__value_u32(lower, 0));
}

static void count_on(struct ts__lower *lower, struct ts__value more) {
  struct ts__value sum[4];
  for (int i = 0; i < 4; i++) {
    sum[i] = two(lower, TS_OP_add, word(lower, COUNTER + i), more);
    more = carry(lower, sum[i], more);
  }
  for (int i = 0; i < 4; i++)
    set(lower, COUNTER + i, sum[i]);
}

static void encipher(struct ts__lower *lower, struct ts__value c[4]) {
  struct ts__value keys[2] = {word(lower, KEY), word(lower, KEY + 1)};
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

static struct ts__value draw_philox(struct ts__lower *lower) {
  struct ts__value c[4];
  for (int i = 0; i < 4; i++)
    c[i] = word(lower, COUNTER + i);
  encipher(lower, c);
  struct ts__value index = word(lower, INDEX), drawn = c[3];
  for (int i = 2; i >= 0; i--)
    drawn = ts__lower_emit_select(lower, two(lower, TS_OP_eq, index, ts__value_u32(lower, i)), c[i],
                                  drawn);
  drawn = kept(lower, drawn);
  struct ts__value next = two(lower, TS_OP_add, index, ts__value_u32(lower, 1));
  count_on(lower, two(lower, TS_OP_shr, next, ts__value_u32(lower, 2)));
  set(lower, INDEX, two(lower, TS_OP_and, next, ts__value_u32(lower, 3)));
  return drawn;
}

/* --- XORWOW: x[n] = x[n - 1] ^ x[n - 1] << 4 ^ t ^ t << 1 with t = x[n - 5] ^ x[n - 5] >> 2 */

static struct ts__value draw_xorwow(struct ts__lower *lower) {
  struct ts__value first = word(lower, 0), last = word(lower, 4);
  struct ts__value t =
      two(lower, TS_OP_xor, first, two(lower, TS_OP_shr, first, ts__value_u32(lower, 2)));
  struct ts__value x =
      two(lower, TS_OP_xor, last, two(lower, TS_OP_shl, last, ts__value_u32(lower, 4)));
  t = two(lower, TS_OP_xor, t, two(lower, TS_OP_shl, t, ts__value_u32(lower, 1)));
  x = kept(lower, two(lower, TS_OP_xor, x, t));
  for (int i = 0; i < 4; i++)
    set(lower, i, word(lower, i + 1));
  set(lower, 4, x);
  set(lower, SUM, two(lower, TS_OP_add, word(lower, SUM), ts__value_u32(lower, 362437)));
  return kept(lower, two(lower, TS_OP_add, x, word(lower, SUM)));
}

/* --- MRG32k3a: two recurrences modulo 2^32 - 209 and 2^32 - 22853, the difference of their terms */

enum { FIRST_CUT = 209, SECOND_CUT = 22853 };

static struct ts__value term(struct ts__lower *lower, int at, uint32_t factor, int negative_at,
                             uint32_t negative_factor, uint32_t cut) {
  struct ts__value modulus = ts__value_u32(lower, -(int64_t)cut);
  struct ts__value negative = two(lower, TS_OP_sub, modulus, word(lower, negative_at));
  struct ts__value sum =
      two(lower, TS_OP_mul, cvt(lower, TS_DTYPE_u64, word(lower, at)), u64(lower, factor));
  negative = two(lower, TS_OP_mul, cvt(lower, TS_DTYPE_u64, negative), u64(lower, negative_factor));
  sum = two(lower, TS_OP_add, sum, negative);
  for (int fold = 0; fold < 2; fold++) { /* 2^32 is cut, modulo 2^32 - cut */
    struct ts__value high = two(lower, TS_OP_shr, sum, u64(lower, 32));
    high = two(lower, TS_OP_mul, high, u64(lower, cut));
    sum = two(lower, TS_OP_add, high, two(lower, TS_OP_and, sum, u64(lower, UINT32_MAX)));
  }
  struct ts__value wide = cvt(lower, TS_DTYPE_u64, modulus);
  struct ts__value is_below = two(lower, TS_OP_lt, sum, wide);
  sum = ts__lower_emit_select(lower, is_below, sum, two(lower, TS_OP_sub, sum, wide));
  return kept(lower, cvt(lower, TS_DTYPE_u32, sum));
}

static void shift_in(struct ts__lower *lower, int first, struct ts__value value) {
  set(lower, first, word(lower, first + 1));
  set(lower, first + 1, word(lower, first + 2));
  set(lower, first + 2, value);
}

/* 1 .. 2^32 - 209, as u32 */
static struct ts__value draw_mrg(struct ts__lower *lower) {
  struct ts__value a = term(lower, 1, 1403580, 0, 810728, FIRST_CUT);
  struct ts__value b = term(lower, 5, 527612, 3, 1370589, SECOND_CUT);
  shift_in(lower, 0, a);
  shift_in(lower, 3, b);
  struct ts__value difference = two(lower, TS_OP_sub, a, b);
  struct ts__value wrapped =
      two(lower, TS_OP_add, difference, ts__value_u32(lower, -(int64_t)FIRST_CUT));
  struct ts__value is_above = two(lower, TS_OP_lt, b, a);
  return kept(lower, ts__lower_emit_select(lower, is_above, difference, wrapped));
}

/* --- numbers */

static bool is_mrg(const struct ts__lower *lower) {
  return lower->random->generator == TS_IR_GENERATOR_mrg32k3a;
}

static struct ts__value draw(struct ts__lower *lower) {
  if (lower->random->generator == TS_IR_GENERATOR_xorwow) return draw_xorwow(lower);
  if (lower->random->generator == TS_IR_GENERATOR_philox) return draw_philox(lower);
  struct ts__value real = cvt(lower, TS_DTYPE_f64, draw_mrg(lower));
  return cvt(lower, TS_DTYPE_u32, two(lower, TS_OP_mul, real, f64(lower, 1.000000048662)));
}

/* a * b + c in one rounding, as nvcc contracts it */
static struct ts__value fused(struct ts__lower *lower, struct ts__value a, struct ts__value b,
                              struct ts__value c) {
  struct ts__value operands[3] = {a, b, c};
  struct ts__attrs attrs = {.count = 0};
  if (lower->fast_math && a.type.dtype == TS_DTYPE_f32) ts__attr_add(&attrs, TS_ATTR_ftz, 1);
  return ts__lower_emit(lower, TS_OP_fma, a.type, (enum ts_dtype)a.type.dtype, operands, 3, &attrs);
}

/* In (0, 1]: (x + 1/2) / 2^32 */
static struct ts__value unit_of(struct ts__lower *lower, struct ts__value x) {
  return fused(lower, cvt(lower, TS_DTYPE_f32, x), f32(lower, 0x1p-32), f32(lower, 0x1p-33));
}

/* Two words as 53 bits */
static struct ts__value bits53(struct ts__lower *lower) {
  struct ts__value low = cvt(lower, TS_DTYPE_u64, draw(lower));
  struct ts__value high = cvt(lower, TS_DTYPE_u64, draw(lower));
  high = two(lower, TS_OP_shl, high, u64(lower, 21));
  return cvt(lower, TS_DTYPE_f64, two(lower, TS_OP_xor, low, high));
}

static struct ts__value mrg_unit(struct ts__lower *lower) {
  struct ts__value real = cvt(lower, TS_DTYPE_f64, draw_mrg(lower));
  return two(lower, TS_OP_mul, real, f64(lower, 2.3283065498378288e-10));
}

static struct ts__value uniform_single(struct ts__lower *lower) {
  return is_mrg(lower) ? cvt(lower, TS_DTYPE_f32, mrg_unit(lower)) : unit_of(lower, draw(lower));
}

/* 53 bits, but 32 of a Philox number that is drawn alone. */
static struct ts__value uniform_double(struct ts__lower *lower, bool is_pair) {
  if (is_mrg(lower)) return mrg_unit(lower);
  if (lower->random->generator == TS_IR_GENERATOR_philox && !is_pair)
    return fused(lower, cvt(lower, TS_DTYPE_f64, draw(lower)), f64(lower, 0x1p-32),
                 f64(lower, 0x1p-32));
  return fused(lower, bits53(lower), f64(lower, 0x1p-53), f64(lower, 0x1p-54));
}

/* Box-Muller: sqrt(-2 ln u) times sine and cosine of the angle */
static void box_muller_single(struct ts__lower *lower, struct ts__value pair[2]) {
  struct ts__value u, angle;
  if (is_mrg(lower)) {
    u = kept(lower, uniform_single(lower));
    angle = two(lower, TS_OP_mul, uniform_single(lower), f32(lower, 6.2831855));
  } else {
    u = unit_of(lower, draw(lower));
    struct ts__value turn = f32(lower, (double)(float)(0x1p-32 * 6.2831855));
    struct ts__value half = f32(lower, (double)(float)(0x1p-33 * 6.2831855));
    angle = fused(lower, cvt(lower, TS_DTYPE_f32, draw(lower)), turn, half);
  }
  struct ts__value radius =
      two(lower, TS_OP_mul, ts__lower_emit_1(lower, TS_OP_log, u), f32(lower, -2));
  radius = ts__lower_emit_1(lower, TS_OP_sqrt, radius);
  for (int i = 0; i < 2; i++) { /* __sincosf */
    struct ts__attrs attrs = {.count = 0};
    ts__attr_add(&attrs, TS_ATTR_approx, 1);
    ts__attr_add(&attrs, TS_ATTR_ftz, lower->fast_math);
    struct ts__value part = ts__lower_emit(lower, i ? TS_OP_cos : TS_OP_sin, angle.type,
                                           TS_DTYPE_f32, &angle, 1, &attrs);
    pair[i] = kept(lower, two(lower, TS_OP_mul, part, radius));
  }
}

static void box_muller_double(struct ts__lower *lower, struct ts__value pair[2]) {
  struct ts__value u, half_turns;
  if (is_mrg(lower)) {
    u = kept(lower, mrg_unit(lower));
    half_turns = two(lower, TS_OP_mul, mrg_unit(lower), f64(lower, 2));
  } else {
    u = fused(lower, bits53(lower), f64(lower, 0x1p-53), f64(lower, 0x1p-54));
    half_turns = fused(lower, bits53(lower), f64(lower, 0x1p-52), f64(lower, 0x1p-53));
  }
  struct ts__value radius =
      two(lower, TS_OP_mul, ts__lower_emit_1(lower, TS_OP_log, u), f64(lower, -2));
  radius = ts__lower_emit_1(lower, TS_OP_sqrt, radius);
  for (int i = 0; i < 2; i++) {
    struct ts__value part = ts__lower_emit_1(lower, i ? TS_OP_cospi : TS_OP_sinpi, half_turns);
    pair[i] = kept(lower, two(lower, TS_OP_mul, part, radius));
  }
}

static void box_muller(struct ts__lower *lower, enum ts_dtype dtype, struct ts__value pair[2]) {
  if (dtype == TS_DTYPE_f32)
    box_muller_single(lower, pair);
  else
    box_muller_double(lower, pair);
}

/* One number: the spare one if there is one. */
static struct ts__value normal(struct ts__lower *lower, enum ts_dtype dtype) {
  const struct spare *spare =
      dtype == TS_DTYPE_f32 ? &lower->random->singles : &lower->random->doubles;
  struct ts__value pair[2], yes = ts__value_imm(lower, spare->is_there.type, 1);
  struct ts__value result = kept(lower, spare->value);
  lower->nesting++;
  ts_build_if(lower->build, spare->is_there.operand);
  forget(lower, spare);
  ts_build_else(lower->build);
  box_muller(lower, dtype, pair);
  ts__lower_emit_assign(lower, result, pair[0]);
  ts__lower_emit_assign(lower, spare->value, pair[1]);
  ts__lower_emit_assign(lower, spare->is_there, yes);
  ts_build_end_if(lower->build);
  lower->nesting--;
  return result;
}

/* --- calls */

static bool has_generator(struct ts__lower *lower, const struct tir_expr *call) {
  if (lower->random) return true;
  ts__lower_unknown(lower, "%s before rng_init", call->call.op);
  return false;
}

struct ts__value ts__builtin_rng_rand(struct ts__lower *lower, const struct tir_expr *call,
                                      int unused) {
  (void)unused;
  return has_generator(lower, call) ? draw(lower) : ts__value_u32(lower, 0);
}

/* Whether the call is a distribution, and which. */
static bool is_normal(struct ts__lower *lower, const struct tir_expr *call) {
  const char *distribution = ts__lower_string(lower, call->call.args.items[0], "a distribution");
  bool is_known = !strcmp(distribution, "uniform") || !strcmp(distribution, "normal");
  if (!is_known || (call->dtype.elem != TS_DTYPE_f32 && call->dtype.elem != TS_DTYPE_f64))
    ts__lower_unknown(lower, "%s random numbers of dtype '%s'", distribution, call->dtype.text);
  return !strcmp(distribution, "normal");
}

/* ("uniform" or "normal") */
struct ts__value ts__builtin_rng_rand_float(struct ts__lower *lower, const struct tir_expr *call,
                                            int unused) {
  (void)unused;
  bool chose_normal = is_normal(lower, call);
  if (lower->status != TS_OK || !has_generator(lower, call)) return f32(lower, 0);
  enum ts_dtype dtype = call->dtype.elem;
  if (chose_normal) return normal(lower, dtype);
  return dtype == TS_DTYPE_f32 ? uniform_single(lower) : uniform_double(lower, false);
}

/* Numbers that the code generator draws together: pairs of normal ones, which leave the spare one
 * alone, of any generator two at a time, of Philox f32 four; and Philox's pairs of f64. */
static bool draw_together(struct ts__lower *lower, const struct tir_expr *call, uint32_t lanes,
                          struct ts__value *parts) {
  if (strcmp(call->call.op, "tl.rng_rand_float") || !has_generator(lower, call)) return false;
  bool chose_normal = is_normal(lower, call), is_single = call->dtype.elem == TS_DTYPE_f32;
  bool is_philox = lower->random->generator == TS_IR_GENERATOR_philox;
  if (lower->status != TS_OK) return false;
  if (chose_normal && (lanes == 2 || (lanes == 4 && is_philox && is_single))) {
    for (uint32_t i = 0; i < lanes; i += 2)
      box_muller(lower, call->dtype.elem, parts + i);
    return true;
  }
  if (chose_normal || is_single || lanes != 2 || !is_philox) return false;
  for (uint32_t i = 0; i < lanes; i++)
    parts[i] = kept(lower, uniform_double(lower, true));
  return true;
}

bool ts__lower_is_random(const struct tir_expr *expr) {
  while (expr->kind == TIR_CAST)
    expr = expr->cast.value;
  return expr->kind == TIR_CALL &&
         (!strcmp(expr->call.op, "tl.rng_rand") || !strcmp(expr->call.op, "tl.rng_rand_float"));
}

/* The generated CUDA repeats the expression, whose calls nvcc makes from left to right (DOC: the PTX
 * of nvcc 13.0). */
struct ts__value ts__lower_random_lanes(struct ts__lower *lower, const struct tir_expr *expr,
                                        uint32_t lanes) {
  struct ts__value parts[TS_MAX_VECTOR_LANES];
  if (expr->kind != TIR_CALL || !draw_together(lower, expr, lanes, parts))
    for (uint32_t i = 0; i < lanes && lower->status == TS_OK; i++)
      parts[i] = kept(lower, ts__lower_expr(lower, expr));
  if (lower->status != TS_OK) return f32(lower, 0);
  return ts__lower_emit_concat(lower, parts, lanes);
}
