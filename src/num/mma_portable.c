/* Matrix kernels in plain C for any host: one row by one block of eight columns at a time, in loops
 * over the columns that compilers turn into whatever vectors the baseline has. The panels are those
 * of the vector kernels (num_priv.h); the arithmetic is explained in mma_kernel.h. */
#include "num/mma_operands.h"

/* One row of a band and one block; the columns of a block stand as 0 2 4 6 1 3 5 7. */
struct strip {
  const struct ts_mma_op *op;
  const struct ts_mma_scratch *scratch;
  uint32_t row, column, sum; /* row and column as prepared */
};

static uint32_t column_of(uint32_t place) { return place % 4 * 2 + place / 4; }

static size_t a_at(const struct strip *strip) {
  size_t groups = strip->scratch->a_rows / TS__GROUP;
  return (strip->sum * groups + strip->row / TS__GROUP) * strip->op->fused_length * 16 +
         strip->row % TS__GROUP * 4;
}

static size_t b_at(const struct strip *strip) {
  size_t blocks = strip->scratch->b_columns / TS__BLOCK;
  return (strip->sum * blocks + strip->column / TS__BLOCK) * strip->op->fused_length * TS__BLOCK;
}

/* The strip by the scalar twin, for specials and extreme exponents. */
static void strip_again(const struct strip *strip, uint32_t *acc) {
  const struct ts_mma_scratch *scratch = strip->scratch;
  size_t length = strip->op->fused_length;
  const uint32_t *a = scratch->a_raw + ((size_t)strip->sum * scratch->a_rows + strip->row) * length;
  const uint32_t *b = scratch->b_raw + (size_t)strip->sum * length * scratch->b_columns;
  for (uint32_t place = 0; place < TS__BLOCK; ++place)
    acc[place] = ts__mma_fused(strip->op, a, b + strip->column + column_of(place),
                               scratch->b_columns, acc[place]);
}

static int32_t c_exponent(uint32_t c, bool half) {
  int32_t field = (int32_t)(half ? c >> 10 & 31u : c >> 23 & 255u);
  if ((c & (half ? 0x7fffu : 0x7fffffffu)) == 0) return 2 * TS__EXPONENT_ZERO;
  if (half && field == 31) return TS__EXPONENT_SPECIAL;
  return (field > 1 ? field : 1) - (half ? 15 : 127);
}

/* sum * 2^exponent, |sum| < 2^32, exponent such that the result is normal or zero in f32. */
static uint32_t round_sum(int64_t sum, int32_t exponent, unsigned rounding) {
  if (sum == 0) return 0;
  uint64_t magnitude = sum < 0 ? 0 - (uint64_t)sum : (uint64_t)sum;
  int32_t top = 63 - __builtin_clzll(magnitude);
  /* 24 bits; for f16 with what is lost in the last one. */
  uint64_t kept = top > 23 ? magnitude >> (top - 23) : magnitude << (23 - top);
  bool lost = top > 23 && kept << (top - 23) != magnitude;
  uint32_t bits = (uint32_t)kept + ((uint32_t)(top + exponent + 126) << 23);
  bits |= sum < 0 ? 0x80000000u : 0;
  if (rounding == TS__MMA_RZ_F32) return bits;
  if (rounding == TS__MMA_RZ_E8M13) return bits & 0xfffffc00u;
  uint32_t half = f16_store(float_of(bits | lost));
  return (half & 0x7fffu) == 0 ? 0 : half;
}

static void fused_sum(const struct strip *strip, uint32_t *acc) {
  const struct ts_mma_op *op = strip->op;
  const float *a = strip->scratch->a_values + a_at(strip);
  const int32_t *a_exponents = strip->scratch->a_exponents + a_at(strip);
  const float *b = strip->scratch->b_values + b_at(strip);
  const int16_t *b_exponents = strip->scratch->b_exponents + b_at(strip);
  const bool half = op->rounding == TS__MMA_RN_F16;
  int32_t least = op->zero_exponent < TS__EXPONENT_LEAST ? TS__EXPONENT_LEAST : op->zero_exponent;
  int16_t products[TS__BLOCK]; /* columns in order */
  int32_t common[TS__BLOCK], total[TS__BLOCK];
  float scale[TS__BLOCK];
  bool again = false;
  for (uint32_t i = 0; i < TS__BLOCK; ++i)
    products[i] = 2 * TS__EXPONENT_ZERO;
  for (uint32_t k = 0; k < op->fused_length; ++k) {
    int16_t exponent = (int16_t)(a_exponents[k * 16] & 0xffff);
    for (uint32_t i = 0; i < TS__BLOCK; ++i) {
      int16_t e = (int16_t)(exponent + b_exponents[k * TS__BLOCK + i]);
      products[i] = products[i] > e ? products[i] : e;
    }
  }
  for (uint32_t i = 0; i < TS__BLOCK; ++i) {
    int32_t e = products[column_of(i)], of_c = c_exponent(acc[i], half);
    e = e > of_c ? e : of_c;
    again |= e > TS__EXPONENT_MOST;
    again |= !half && e < TS__EXPONENT_LEAST && e > TS__EXPONENT_ZERO / 2;
    common[i] = e > least ? e : least;
    scale[i] = float_of((uint32_t)(127 + op->fraction_bits - common[i]) << 23);
    total[i] = 0;
  }
  if (again) {
    strip_again(strip, acc);
    return;
  }
  for (uint32_t k = 0; k < op->fused_length; ++k) {
    float value = a[k * 16];
    for (uint32_t i = 0; i < TS__BLOCK; ++i)
      total[i] += (int32_t)(value * b[k * TS__BLOCK + i] * scale[i]);
  }
  for (uint32_t i = 0; i < TS__BLOCK; ++i) {
    float c = half ? f16_load(acc[i]) : float_of(acc[i]);
    int64_t sum = (int64_t)total[i] + (int32_t)(c * scale[i]);
    acc[i] = round_sum(sum, common[i] - op->fraction_bits, op->rounding);
  }
}

static void integer_sum(const struct strip *strip, uint32_t *acc, bool clamps) {
  const int32_t *a = strip->scratch->a_exponents + a_at(strip);
  const float *b = strip->scratch->b_values + b_at(strip);
  int32_t total[TS__BLOCK] = {0};
  for (uint32_t k = 0; k < strip->op->fused_length / 2u; ++k) {
    int32_t low = (int16_t)(a[k * 16] & 0xffff), high = a[k * 16] >> 16;
    int32_t pairs[TS__BLOCK];
    memcpy(pairs, b + k * TS__BLOCK, sizeof pairs);
    for (uint32_t i = 0; i < TS__BLOCK; ++i)
      total[i] += low * (int16_t)(pairs[i] & 0xffff) + high * (pairs[i] >> 16);
  }
  for (uint32_t i = 0; i < TS__BLOCK; ++i) {
    int64_t sum = (int64_t)(int32_t)acc[i] + total[i];
    if (clamps && sum > INT32_MAX) sum = INT32_MAX;
    if (clamps && sum < INT32_MIN) sum = INT32_MIN;
    acc[i] = (uint32_t)sum;
  }
}

static uint32_t add_ieee(uint32_t c, uint32_t r, bool half) {
  if (half) return f16_store(f16_load(c) + f16_load(r));
  return f32_store(float_of(c) + float_of(r));
}

static void instruction(struct strip *strip, uint32_t first_sum, uint32_t *acc, unsigned flags) {
  const struct ts_mma_op *op = strip->op;
  uint32_t c[TS__BLOCK];
  memcpy(c, acc, sizeof c);
  strip->sum = first_sum;
  if (op->kind == TS__MMA_INT) {
    integer_sum(strip, acc, flags & TS_MMA_SATFINITE);
    return;
  }
  if (op->kind == TS__MMA_SPLIT) memset(acc, 0, sizeof c);
  for (uint32_t i = 0; i < ts__mma_sums(op); ++i) {
    strip->sum = first_sum + i;
    fused_sum(strip, acc);
  }
  if (op->kind != TS__MMA_SPLIT) return;
  for (uint32_t i = 0; i < TS__BLOCK; ++i)
    acc[i] = add_ieee(c[i], acc[i], op->rounding == TS__MMA_RN_F16);
}

static void run(const struct ts__mma_job *job) {
  for (uint32_t block = 0; block < job->blocks; ++block) {
    for (uint32_t row = 0; row < TS__BAND; ++row) {
      struct strip strip = {job->op, job->scratch, job->first_row + row, block * TS__BLOCK, 0};
      uint32_t acc[TS__BLOCK] = {0}, r = 4 * block + 2 * (row / 8), lane = 4 * (row % 8);
      for (uint32_t p = 0; p < 2 && job->c != NULL; ++p)
        memcpy(acc + 4 * p, job->c[r + p] + lane, 16);
      for (uint32_t step = 0; step < job->steps; ++step)
        instruction(&strip, step * ts__mma_sums(job->op), acc, job->flags);
      for (uint32_t p = 0; p < 2; ++p)
        memcpy(job->d[r + p] + lane, acc + 4 * p, 16);
    }
  }
}

static void expand_a(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t sums) {
  const uint32_t length = op->fused_length;
  float values[64];
  int32_t exponents[64];
  for (size_t row = 0; row < (size_t)sums * scratch->a_rows; ++row) {
    const uint32_t *raw = scratch->a_raw + row * length;
    size_t at = row / TS__GROUP * length * 16 + row % TS__GROUP * 4;
    if (op->kind == TS__MMA_INT) {
      for (uint32_t k = 0; k < length; k += 2)
        scratch->a_exponents[at + k / 2 * 16] = (int32_t)integer_pair(op->a, raw[k], raw[k + 1]);
      continue;
    }
    operands_of(ts__mma_operand_dtype(op, op->a), values, exponents, raw, length);
    for (uint32_t k = 0; k < length; ++k) {
      scratch->a_values[at + k * 16] = values[k];
      scratch->a_exponents[at + k * 16] = twice(exponents[k]);
    }
  }
}

static void expand_b_block(const struct ts_mma_op *op, const uint32_t *raw, size_t columns,
                           float *values_out, int16_t *exponents_out) {
  float values[TS__BLOCK];
  int32_t exponents[TS__BLOCK];
  for (uint32_t k = 0; k < op->fused_length; ++k) {
    const uint32_t *row = raw + k * columns;
    if (op->kind == TS__MMA_INT) {
      for (uint32_t i = 0; i < TS__BLOCK && k % 2 == 0; ++i) {
        uint32_t pair = integer_pair(op->b, row[column_of(i)], row[columns + column_of(i)]);
        memcpy(values_out + k / 2 * TS__BLOCK + i, &pair, sizeof pair);
      }
      continue;
    }
    operands_of(ts__mma_operand_dtype(op, op->b), values, exponents, row, TS__BLOCK);
    for (uint32_t i = 0; i < TS__BLOCK; ++i) {
      values_out[k * TS__BLOCK + i] = values[column_of(i)];
      exponents_out[k * TS__BLOCK + i] = (int16_t)exponents[i];
    }
  }
}

static void expand_b(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t sums) {
  size_t columns = scratch->b_columns, blocks = columns / TS__BLOCK;
  for (size_t i = 0; i < sums * blocks; ++i) {
    size_t at = i * op->fused_length * TS__BLOCK;
    const uint32_t *raw = scratch->b_raw + i / blocks * op->fused_length * columns;
    expand_b_block(op, raw + i % blocks * TS__BLOCK, columns, scratch->b_values + at,
                   scratch->b_exponents + at);
  }
}

static void transpose(uint32_t *out, size_t out_stride, const uint32_t *in, size_t in_stride,
                      uint32_t rows) {
  for (uint32_t i = 0; i < rows; ++i)
    for (uint32_t j = 0; j < 8; ++j)
      out[i * out_stride + j] = in[j * in_stride + i];
}

const struct ts__mma_kernels ts__mma_portable = {expand_a, expand_b, run, transpose};
