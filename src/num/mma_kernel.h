/* The fused sums on vectors. The including file defines the vector type of its instruction set:
 *   vf, vi             floats, 32-bit integers (or pairs of 16-bit ones): V_LANES of them
 *   V_ROWS             vectors of rows that one pass keeps in registers
 *   v_...              the operations used below
 *   MMA_KERNELS        the name of the ts__mma_kernels it makes
 * num_priv.h has the layout of the panels. For each accumulator: the common exponent E as a maximum
 * of 16-bit sums, then sum of trunc(a * b * 2^(F - E)), every step of which is exact in f32 (a * b
 * has at most 22 bits; the scaling is by a power of two, and what it loses in the subnormals is
 * below the truncation; sums stay below 2^31). */
#include "num/mma_operands.h"

#ifdef MMA_KERNELS

enum {
  V_PER_BAND = TS__BAND * 4 / V_LANES, /* vectors of one parity in a band */
  V_PER_GROUP = 16 / V_LANES
};

/* What a pass over V_ROWS vectors of rows and one block of columns works on. */
struct pass {
  const struct ts_mma_op *op;
  const struct ts_mma_scratch *scratch;
  uint32_t first_row, column, first_sum;
  uint32_t vector; /* the first, of V_PER_BAND */
};

struct sums {
  vi acc[V_ROWS][2];
};

static const float *a_values_at(const struct pass *pass, uint32_t sum, uint32_t u) {
  size_t vector = pass->vector + u;
  size_t group = pass->first_row / TS__GROUP + vector / V_PER_GROUP;
  size_t groups = pass->scratch->a_rows / TS__GROUP;
  return pass->scratch->a_values + (sum * groups + group) * pass->op->fused_length * 16 +
         vector % V_PER_GROUP * V_LANES;
}

static const int32_t *a_exponents_at(const struct pass *pass, uint32_t sum, uint32_t u) {
  return pass->scratch->a_exponents + (a_values_at(pass, sum, u) - pass->scratch->a_values);
}

static size_t b_offset(const struct pass *pass, uint32_t sum) {
  size_t blocks = pass->scratch->b_columns / TS__BLOCK;
  return (sum * blocks + pass->column / TS__BLOCK) * pass->op->fused_length * TS__BLOCK;
}

/* The lanes of mask again, by the scalar twin. */
__attribute__((noinline)) static vi redo(const struct pass *pass, uint32_t sum, uint32_t u,
                                         uint32_t parity, uint32_t mask, vi c, vi d) {
  _Alignas(64) uint32_t c_lanes[V_LANES], d_lanes[V_LANES];
  const struct ts_mma_scratch *scratch = pass->scratch;
  size_t length = pass->op->fused_length;
  v_store(c_lanes, c);
  v_store(d_lanes, d);
  for (uint32_t lane = 0; lane < V_LANES; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    uint32_t row = pass->first_row + ((pass->vector + u) * V_LANES + lane) / 4;
    uint32_t column = pass->column + lane % 4 * 2 + parity;
    d_lanes[lane] =
        ts__mma_fused(pass->op, scratch->a_raw + ((size_t)sum * scratch->a_rows + row) * length,
                      scratch->b_raw + (size_t)sum * length * scratch->b_columns + column,
                      scratch->b_columns, c_lanes[lane]);
  }
  return v_load(d_lanes);
}

LANE vi c_exponent(vi c, bool half) {
  unsigned up = half ? 17 : 1;
  vi magnitude = v_left(c, up);
  vi field = v_right(magnitude, half ? 27 : 24);
  vi exponent = v_sub(v_max(field, v_set(1)), v_set(half ? 15 : 127));
  if (half) exponent = v_where_equal(field, v_set(31), v_set(TS__EXPONENT_SPECIAL), exponent);
  return v_where_equal(magnitude, v_set(0), v_set(2 * TS__EXPONENT_ZERO), exponent);
}

/* S * 2^(E - F): truncated to 24 or 14 bits, or rounded to f16. unscale = 2^(E - F). */
LANE vi round_sum(vi sum, vf unscale, unsigned rounding) {
  vf toward_zero = v_to_float_rz(sum);
  if (rounding == TS__MMA_RN_F16) {
    /* What truncation lost goes into the last bit, so that one rounding follows. */
    vi lost = v_where_equal(v_trunc(toward_zero), sum, v_set(0), v_set(1));
    vf odd = v_as_float(v_or(v_as_int(toward_zero), lost));
    vi d = v_to_half(v_mul(odd, unscale));
    return v_where_equal(v_and(d, v_set(0x7fff)), v_set(0), v_set(0), d);
  }
  vi bits = v_as_int(v_mul(toward_zero, unscale));
  return rounding == TS__MMA_RZ_E8M13 ? v_and(bits, v_set(-1024)) : bits;
}

LANE void fused_sum(const struct pass *pass, uint32_t sum, struct sums *sums, unsigned rounding) {
  const uint32_t length = pass->op->fused_length;
  const int32_t fraction = pass->op->fraction_bits;
  const bool half = rounding == TS__MMA_RN_F16;
  const float *a_values[V_ROWS];
  const int32_t *a_exponents[V_ROWS];
  vi exponent[V_ROWS], total[V_ROWS][2];
  vf scale[V_ROWS][2], unscale[V_ROWS][2];
  uint32_t again[V_ROWS][2];
  const float *b_values = pass->scratch->b_values + b_offset(pass, sum);
  const int16_t *b_exponents = pass->scratch->b_exponents + b_offset(pass, sum);
  for (uint32_t u = 0; u < V_ROWS; ++u) {
    a_values[u] = a_values_at(pass, sum, u);
    a_exponents[u] = a_exponents_at(pass, sum, u);
    exponent[u] = v_set(twice(2 * TS__EXPONENT_ZERO));
  }
  for (uint32_t k = 0; k < length; ++k) {
    vi b = v_quad(b_exponents + k * TS__BLOCK);
    for (uint32_t u = 0; u < V_ROWS; ++u)
      exponent[u] = v_max16(exponent[u], v_add16(v_load(a_exponents[u] + k * 16), b));
  }
  int32_t least = pass->op->zero_exponent;
  least = least < TS__EXPONENT_LEAST ? TS__EXPONENT_LEAST : least;
  for (uint32_t u = 0; u < V_ROWS; ++u) {
    for (uint32_t p = 0; p < 2; ++p) {
      vi products =
          p == 0 ? v_right_signed(v_left(exponent[u], 16), 16) : v_right_signed(exponent[u], 16);
      vi e = v_max(products, c_exponent(sums->acc[u][p], half));
      again[u][p] = v_mask_greater(e, v_set(TS__EXPONENT_MOST));
      if (!half)
        again[u][p] |= v_mask_greater(v_set(TS__EXPONENT_LEAST), e) &
                       v_mask_greater(e, v_set(TS__EXPONENT_ZERO / 2));
      e = v_max(e, v_set(least));
      scale[u][p] = v_as_float(v_left(v_sub(v_set(127 + fraction), e), 23));
      unscale[u][p] = v_as_float(v_left(v_add(v_set(127 - fraction), e), 23));
      total[u][p] = v_set(0);
    }
  }
  for (uint32_t k = 0; k < length; ++k) {
    vf even = v_quad_float(b_values + k * TS__BLOCK);
    vf odd = v_quad_float(b_values + k * TS__BLOCK + 4);
    for (uint32_t u = 0; u < V_ROWS; ++u) {
      vf a = v_load_float(a_values[u] + k * 16);
      total[u][0] = v_add(total[u][0], v_trunc(v_mul(v_mul(a, even), scale[u][0])));
      total[u][1] = v_add(total[u][1], v_trunc(v_mul(v_mul(a, odd), scale[u][1])));
    }
  }
  for (uint32_t u = 0; u < V_ROWS; ++u) {
    for (uint32_t p = 0; p < 2; ++p) {
      vi c = sums->acc[u][p];
      vi c_part = v_trunc(v_mul(half ? v_from_half(c) : v_as_float(c), scale[u][p]));
      vi s = v_add(total[u][p], c_part);
      /* The products alone stay below 2^31; with c they may not. */
      again[u][p] |= v_mask_negative(v_and(v_xor(total[u][p], s), v_xor(c_part, s)));
      vi d = round_sum(s, unscale[u][p], rounding);
      if (__builtin_expect(again[u][p] != 0, 0)) d = redo(pass, sum, u, p, again[u][p], c, d);
      sums->acc[u][p] = d;
    }
  }
}

/* c + r as IEEE additions, f32 or f16. */
LANE vi add_ieee(vi c, vi r, bool half) {
  if (!half) return v_canonical(v_add_float(v_as_float(c), v_as_float(r)));
  return v_to_half(v_add_float(v_from_half(c), v_from_half(r)));
}

LANE void integer_sum(const struct pass *pass, uint32_t sum, struct sums *sums, bool clamps) {
  const uint32_t pairs = pass->op->fused_length / 2;
  const int32_t *a[V_ROWS];
  vi total[V_ROWS][2];
  const float *b = pass->scratch->b_values + b_offset(pass, sum);
  for (uint32_t u = 0; u < V_ROWS; ++u) {
    a[u] = a_exponents_at(pass, sum, u);
    total[u][0] = total[u][1] = v_set(0);
  }
  for (uint32_t k = 0; k < pairs; ++k) {
    vi even = v_quad(b + k * TS__BLOCK), odd = v_quad(b + k * TS__BLOCK + 4);
    for (uint32_t u = 0; u < V_ROWS; ++u) {
      vi pair = v_load(a[u] + k * 16);
      total[u][0] = v_add(total[u][0], v_dot16(pair, even));
      total[u][1] = v_add(total[u][1], v_dot16(pair, odd));
    }
  }
  for (uint32_t u = 0; u < V_ROWS; ++u) {
    for (uint32_t p = 0; p < 2; ++p) {
      vi c = sums->acc[u][p], t = total[u][p], s = v_add(c, t);
      if (clamps) {
        vi over = v_right_signed(v_and(v_xor(c, s), v_xor(t, s)), 31);
        vi bound = v_xor(v_right_signed(s, 31), v_set(INT32_MIN));
        s = v_or(v_and(over, bound), v_andnot(over, s));
      }
      sums->acc[u][p] = s;
    }
  }
}

/* One instruction on the accumulators of a pass. */
LANE void instruction(const struct pass *pass, struct sums *sums, unsigned rounding, bool split,
                      bool clamps) {
  const uint32_t count = ts__mma_sums(pass->op);
  struct sums c = *sums;
  if (rounding == TS__MMA_NONE) {
    integer_sum(pass, pass->first_sum, sums, clamps);
    return;
  }
  if (split)
    for (uint32_t u = 0; u < V_ROWS; ++u)
      sums->acc[u][0] = sums->acc[u][1] = v_set(0);
  for (uint32_t i = 0; i < count; ++i)
    fused_sum(pass, pass->first_sum + i, sums, rounding);
  if (!split) return;
  for (uint32_t u = 0; u < V_ROWS; ++u)
    for (uint32_t p = 0; p < 2; ++p)
      sums->acc[u][p] = add_ieee(c.acc[u][p], sums->acc[u][p], rounding == TS__MMA_RN_F16);
}

/* A band times all blocks, one instruction after the other so that its panels stay in the cache. */
LANE void run_band(const struct ts__mma_job *job, unsigned rounding, bool split, bool clamps) {
  struct pass pass = {.op = job->op, .scratch = job->scratch, .first_row = job->first_row};
  for (uint32_t step = 0; step < job->steps; ++step) {
    pass.first_sum = step * ts__mma_sums(job->op);
    const uint32_t *const *source = step == 0 ? job->c : (const uint32_t *const *)job->d;
    for (uint32_t block = 0; block < job->blocks; ++block) {
      pass.column = block * TS__BLOCK;
      for (pass.vector = 0; pass.vector < V_PER_BAND; pass.vector += V_ROWS) {
        struct sums sums;
        for (uint32_t u = 0; u < V_ROWS; ++u) {
          uint32_t at = (pass.vector + u) * V_LANES, r = 4 * block + at / TS__LANES * 2;
          for (uint32_t p = 0; p < 2; ++p)
            sums.acc[u][p] = source == NULL ? v_set(0) : v_load_any(source[r + p] + at % TS__LANES);
        }
        instruction(&pass, &sums, rounding, split, clamps);
        for (uint32_t u = 0; u < V_ROWS; ++u) {
          uint32_t at = (pass.vector + u) * V_LANES, r = 4 * block + at / TS__LANES * 2;
          for (uint32_t p = 0; p < 2; ++p)
            v_store_any(job->d[r + p] + at % TS__LANES, sums.acc[u][p]);
        }
      }
    }
  }
}

static void run_f32(const struct ts__mma_job *job) { run_band(job, TS__MMA_RZ_F32, false, false); }

static void run_e8m13(const struct ts__mma_job *job) {
  run_band(job, TS__MMA_RZ_E8M13, false, false);
}

static void run_f16(const struct ts__mma_job *job) { run_band(job, TS__MMA_RN_F16, false, false); }

static void run_split_f32(const struct ts__mma_job *job) {
  run_band(job, TS__MMA_RZ_F32, true, false);
}

static void run_split_f16(const struct ts__mma_job *job) {
  run_band(job, TS__MMA_RN_F16, true, false);
}

static void run_integer(const struct ts__mma_job *job) {
  if (job->flags & TS_MMA_SATFINITE)
    run_band(job, TS__MMA_NONE, false, true);
  else
    run_band(job, TS__MMA_NONE, false, false);
}

static void run(const struct ts__mma_job *job) {
  bool half = job->op->rounding == TS__MMA_RN_F16;
  if (job->op->kind == TS__MMA_INT)
    run_integer(job);
  else if (job->op->kind == TS__MMA_SPLIT)
    (half ? run_split_f16 : run_split_f32)(job);
  else if (job->op->rounding == TS__MMA_RZ_E8M13)
    run_e8m13(job);
  else
    (half ? run_f16 : run_f32)(job);
}

/* Panels --------------------------------------------------------------------------------------- */

/* a_raw is [fused sum][row][k] without gaps, so it can be taken in runs of a fixed length. */
enum { RUN = 64 };

static void expand_a_integers(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                              uint32_t sums) {
  const uint32_t length = op->fused_length;
  for (size_t row = 0; row < (size_t)sums * scratch->a_rows; ++row) {
    const uint32_t *raw = scratch->a_raw + row * length;
    int32_t *out = scratch->a_exponents + row / TS__GROUP * length * 16 + row % TS__GROUP * 4;
    for (uint32_t k = 0; k < length; k += 2)
      v_store4(out + k / 2 * 16, (int32_t)integer_pair(op->a, raw[k], raw[k + 1]));
  }
}

LANE void expand_a_floats(enum ts_dtype dtype, struct ts_mma_scratch *scratch, uint32_t sums,
                          uint32_t length) {
  _Alignas(64) float values[RUN];
  _Alignas(64) int32_t exponents[RUN];
  size_t elements = (size_t)sums * scratch->a_rows * length, row = 0;
  for (size_t first = 0; first < elements; first += RUN) {
    operands_of(dtype, values, exponents, scratch->a_raw + first, RUN);
    for (uint32_t at_row = 0; at_row < RUN; at_row += length, ++row) {
      size_t at = row / TS__GROUP * length * 16 + row % TS__GROUP * 4;
      float *values_out = scratch->a_values + at;
      int32_t *exponents_out = scratch->a_exponents + at;
      for (uint32_t k = 0; k < length; ++k) {
        v_store4_float(values_out + k * 16, values + at_row + k);
        v_store4_twice(exponents_out + k * 16, exponents + at_row + k);
      }
    }
  }
}

static void expand_a(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t sums) {
  const uint32_t length = op->fused_length;
  if (op->kind == TS__MMA_INT) {
    expand_a_integers(op, scratch, sums);
    return;
  }
  switch (ts__mma_operand_dtype(op, op->a)) {
  case TS_DTYPE_f16: expand_a_floats(TS_DTYPE_f16, scratch, sums, length); return;
  case TS_DTYPE_bf16: expand_a_floats(TS_DTYPE_bf16, scratch, sums, length); return;
  case TS_DTYPE_e4m3: expand_a_floats(TS_DTYPE_e4m3, scratch, sums, length); return;
  case TS_DTYPE_e5m2: expand_a_floats(TS_DTYPE_e5m2, scratch, sums, length); return;
  default: expand_a_floats(TS_DTYPE_tf32, scratch, sums, length); return;
  }
}

/* Eight columns of two consecutive k as pairs, even columns first. */
static void expand_b_integers(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                              uint32_t sums) {
  const uint32_t length = op->fused_length, columns = scratch->b_columns;
  for (uint32_t k = 0; k < sums * length; k += 2) {
    const uint32_t *raw = scratch->b_raw + (size_t)k * columns;
    for (uint32_t column = 0; column < columns; column += TS__BLOCK) {
      size_t block = (size_t)k / length * (columns / TS__BLOCK) + column / TS__BLOCK;
      _Alignas(32) uint32_t pairs[TS__BLOCK];
      for (uint32_t i = 0; i < TS__BLOCK; ++i)
        pairs[i] = integer_pair(op->b, raw[column + i], raw[columns + column + i]);
      v_store_even_odd(scratch->b_values + (block * length + k % length / 2) * TS__BLOCK, pairs);
    }
  }
}

LANE void expand_b_floats(enum ts_dtype dtype, struct ts_mma_scratch *scratch, uint32_t sums,
                          uint32_t length) {
  const uint32_t columns = scratch->b_columns;
  for (uint32_t k = 0; k < sums * length; ++k) {
    const uint32_t *raw = scratch->b_raw + (size_t)k * columns;
    size_t first_block = (size_t)k / length * (columns / TS__BLOCK);
    for (uint32_t column = 0; column < columns; column += TS__BLOCK) {
      size_t at = ((first_block + column / TS__BLOCK) * length + k % length) * TS__BLOCK;
      _Alignas(32) float values[TS__BLOCK];
      _Alignas(32) int32_t exponents[TS__BLOCK];
      operands_of(dtype, values, exponents, raw + column, TS__BLOCK);
      v_store_even_odd(scratch->b_values + at, values);
      v_store_narrow(scratch->b_exponents + at, exponents);
    }
  }
}

static void expand_b(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t sums) {
  const uint32_t length = op->fused_length;
  if (op->kind == TS__MMA_INT) {
    expand_b_integers(op, scratch, sums);
    return;
  }
  switch (ts__mma_operand_dtype(op, op->b)) {
  case TS_DTYPE_f16: expand_b_floats(TS_DTYPE_f16, scratch, sums, length); return;
  case TS_DTYPE_bf16: expand_b_floats(TS_DTYPE_bf16, scratch, sums, length); return;
  case TS_DTYPE_e4m3: expand_b_floats(TS_DTYPE_e4m3, scratch, sums, length); return;
  case TS_DTYPE_e5m2: expand_b_floats(TS_DTYPE_e5m2, scratch, sums, length); return;
  default: expand_b_floats(TS_DTYPE_tf32, scratch, sums, length); return;
  }
}

const struct ts__mma_kernels MMA_KERNELS = {expand_a, expand_b, run, transpose};

#endif
