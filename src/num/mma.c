/* Matrix instructions: the table, the working memory, and the ways in. */
#include <string.h>

#include "num/num_priv.h"

static const struct ts_mma_op op_table[] = {
#define MMA(profile, path, a, b, acc, k, kind, length, fraction, rounding, zero, fidelity)         \
  {TS_MMA_PROFILE_##profile,                                                                       \
   TS_MMA_##path,                                                                                  \
   TS_DTYPE_##a,                                                                                   \
   TS_DTYPE_##b,                                                                                   \
   TS_DTYPE_##acc,                                                                                 \
   k,                                                                                              \
   TS__MMA_##kind,                                                                                 \
   length,                                                                                         \
   fraction,                                                                                       \
   TS__MMA_##rounding,                                                                             \
   zero,                                                                                           \
   TS_FIDELITY_##fidelity},
#include "num/mma_profile.def"
};

static const char *const profile_names[TS_MMA_PROFILE_COUNT] = {
#define MMA_PROFILE(name) [TS_MMA_PROFILE_##name] = #name,
#include "num/mma_profile.def"
};

const char *ts_mma_profile_name(enum ts_mma_profile profile) {
  return (unsigned)profile < TS_MMA_PROFILE_COUNT ? profile_names[profile] : "?";
}

enum ts_mma_profile ts_mma_profile_from_name(const char *name) {
  unsigned i = 0;
  while (i < TS_MMA_PROFILE_COUNT && strcmp(profile_names[i], name) != 0)
    ++i;
  return (enum ts_mma_profile)i;
}

const struct ts_mma_op *ts_mma_at(size_t index) {
  return index < sizeof op_table / sizeof op_table[0] ? &op_table[index] : NULL;
}

const struct ts_mma_op *ts_mma_find(enum ts_mma_profile profile, enum ts_mma_path path,
                                    enum ts_dtype a, enum ts_dtype b, enum ts_dtype acc,
                                    uint32_t k) {
  const struct ts_mma_op *found = NULL;
  for (size_t i = 0; i < sizeof op_table / sizeof op_table[0]; ++i) {
    const struct ts_mma_op *op = &op_table[i];
    if (op->profile != profile || op->path != path || op->a != a || op->b != b || op->acc != acc)
      continue;
    if (op->k == k) return op;
    if (k == 0 && (found == NULL || op->k > found->k)) found = op;
  }
  return found;
}

/* Working memory ------------------------------------------------------------------------------- */

static uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

/* Cuts size bytes off *at, 64-byte aligned. A NULL base only counts. */
static void *carve(char *base, size_t *at, size_t size) {
  void *piece = base == NULL ? NULL : base + *at;
  *at += (size + 63) / 64 * 64;
  return piece;
}

static size_t lay_out(struct ts_mma_scratch *s, char *base) {
  size_t m = s->m_max, n = s->n_max, k = s->k_max, at = 0;
  s->a_raw = carve(base, &at, m * k * 8);
  s->b_raw = carve(base, &at, n * k * 8);
  s->a_values = carve(base, &at, m * k * 4 * sizeof(float));
  s->a_exponents = carve(base, &at, m * k * 4 * sizeof(int32_t));
  s->b_values = carve(base, &at, n * k * sizeof(float));
  s->b_exponents = carve(base, &at, n * k * sizeof(int16_t));
  s->stage = carve(base, &at, n * TS__BAND * sizeof(uint64_t));
  s->registers = carve(base, &at, n / 2 * sizeof(uint32_t *));
  return at;
}

struct ts_mma_scratch *ts_mma_scratch_new(const struct ts_allocator *allocator, uint32_t m_max,
                                          uint32_t n_max, uint32_t k_max) {
  const uint32_t limit = 1u << 16;
  if (m_max > limit || n_max > limit || k_max > limit) return NULL;
  struct ts_mma_scratch shape = {.allocator = allocator, .isa = ts_num_isa()};
  shape.m_max = round_up(m_max ? m_max : 1, TS__BAND);
  shape.n_max = round_up(n_max ? n_max : 1, TS__BLOCK);
  shape.k_max = round_up(k_max ? k_max : 1, 64);
  size_t head = (sizeof shape + 63) / 64 * 64 + 64;
  shape.size_bytes = head + lay_out(&shape, NULL);
  char *block = allocator->resize(allocator->user, NULL, 0, shape.size_bytes);
  if (block == NULL) return NULL;
  struct ts_mma_scratch *scratch = (struct ts_mma_scratch *)(void *)block;
  *scratch = shape;
  char *base = block + (head - 64);
  base += (64 - (uintptr_t)base % 64) % 64;
  lay_out(scratch, base);
  for (uint32_t i = 0; i < scratch->n_max / 2; ++i)
    scratch->registers[i] = scratch->stage + (size_t)i * TS__LANES;
  return scratch;
}

void ts_mma_scratch_free(struct ts_mma_scratch *scratch) {
  if (scratch == NULL) return;
  scratch->allocator->resize(scratch->allocator->user, scratch, scratch->size_bytes, 0);
}

void ts_mma_scratch_limit(struct ts_mma_scratch *scratch, enum ts_isa isa) {
  if (isa < scratch->isa) scratch->isa = isa;
}

/* Whether the vector kernels have the arithmetic: sums must fit 32 bits. */
static bool has_vector_form(const struct ts_mma_op *op) {
  if (op->kind == TS__MMA_INT) return true;
  bool fused = op->kind == TS__MMA_FDPA || op->kind == TS__MMA_SPLIT;
  return fused && (uint64_t)op->fused_length << (op->fraction_bits + 2) <= UINT64_C(1) << 31;
}

const struct ts__mma_kernels *ts__mma_kernels_of(const struct ts_mma_op *op,
                                                 const struct ts_mma_scratch *scratch,
                                                 unsigned flags) {
  if ((flags & TS_MMA_REFERENCE) || !has_vector_form(op)) return NULL;
  switch (scratch->isa) {
  case TS_ISA_AVX512: return &ts__mma_avx512;
  case TS_ISA_AVX2: return &ts__mma_avx2;
  default: return &ts__mma_portable;
  }
}

/* Multiplication ------------------------------------------------------------------------------- */

/* Place of a band's accumulator in register form. */
static uint32_t register_of(uint32_t row, uint32_t column) {
  return 4 * (column / 8) + 2 * (row / 8) + column % 2;
}

static uint32_t lane_of(uint32_t row, uint32_t column) { return 4 * (row % 8) + column % 8 / 2; }

/* The scalar twin on register form. f64 registers are 64 bits wide. */
static void run_reference(const struct ts__mma_job *job) {
  bool wide = job->op->acc == TS_DTYPE_f64;
  for (uint32_t column = 0; column < job->blocks * TS__BLOCK; ++column) {
    for (uint32_t row = 0; row < TS__BAND; ++row) {
      uint32_t r = register_of(row, column), lane = lane_of(row, column);
      uint64_t acc = 0;
      if (job->c != NULL)
        acc = wide ? ((const uint64_t *)(const void *)job->c[r])[lane] : job->c[r][lane];
      for (uint32_t step = 0; step < job->steps; ++step)
        acc = ts__mma_element(job->op, job->scratch, step, job->first_row + row, column, acc,
                              job->flags);
      if (wide)
        ((uint64_t *)(void *)job->d[r])[lane] = acc;
      else
        job->d[r][lane] = (uint32_t)acc;
    }
  }
}

static void run(const struct ts__mma_job *job) {
  const struct ts__mma_kernels *kernels = ts__mma_kernels_of(job->op, job->scratch, job->flags);
  if (kernels != NULL)
    kernels->run(job);
  else
    run_reference(job);
}

static void stage_in(struct ts_mma_scratch *scratch, uint32_t rows, uint32_t n, const uint32_t *c,
                     size_t stride) {
  memset(scratch->stage, 0, (size_t)round_up(n, TS__BLOCK) * TS__BAND * 4);
  for (uint32_t row = 0; row < rows; ++row) {
    uint32_t *even = scratch->registers[register_of(row, 0)] + lane_of(row, 0);
    const uint32_t *in = c + row * stride;
    uint32_t column = 0;
    for (; column + TS__BLOCK <= n; column += TS__BLOCK, in += TS__BLOCK, even += 4 * TS__LANES) {
      for (uint32_t q = 0; q < 4; ++q) {
        even[q] = in[2 * q];
        even[TS__LANES + q] = in[2 * q + 1];
      }
    }
    for (uint32_t q = 0; column + q < n; ++q)
      even[q % 2 * TS__LANES + q / 2] = in[q];
  }
}

static void stage_out(const struct ts_mma_scratch *scratch, uint32_t rows, uint32_t n, uint32_t *d,
                      size_t stride) {
  for (uint32_t row = 0; row < rows; ++row) {
    const uint32_t *even = scratch->registers[register_of(row, 0)] + lane_of(row, 0);
    uint32_t *out = d + row * stride;
    uint32_t column = 0;
    for (; column + TS__BLOCK <= n; column += TS__BLOCK, out += TS__BLOCK, even += 4 * TS__LANES) {
      for (uint32_t q = 0; q < 4; ++q) {
        out[2 * q] = even[q];
        out[2 * q + 1] = even[TS__LANES + q];
      }
    }
    for (uint32_t q = 0; column + q < n; ++q)
      out[q] = even[q % 2 * TS__LANES + q / 2];
  }
}

/* f64 has no vector form: element by element in place. */
static void multiply_wide(const struct ts_mma_op *op, const struct ts_mma_scratch *scratch,
                          uint32_t first_row, uint32_t m, uint32_t n, uint32_t steps,
                          const uint64_t *c, uint64_t *d, size_t stride) {
  for (uint32_t row = 0; row < m; ++row) {
    for (uint32_t column = 0; column < n; ++column) {
      uint64_t acc = c == NULL ? 0 : c[row * stride + column];
      for (uint32_t step = 0; step < steps; ++step)
        acc = ts__mma_element(op, scratch, step, first_row + row, column, acc, 0);
      d[row * stride + column] = acc;
    }
  }
}

void ts_mma_multiply(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t first_row,
                     uint32_t m, uint32_t n, uint32_t steps, const void *c_or_null, void *d,
                     size_t cd_row_stride, unsigned flags) {
  const void *c = flags & TS_MMA_ZERO_C ? NULL : c_or_null;
  if (op->acc == TS_DTYPE_f64) {
    multiply_wide(op, scratch, first_row, m, n, steps, c, d, cd_row_stride);
    return;
  }
  struct ts__mma_job job = {
      .op = op, .scratch = scratch, .steps = steps, .d = scratch->registers, .flags = flags};
  job.blocks = round_up(n, TS__BLOCK) / TS__BLOCK;
  job.c = c == NULL ? NULL : (const uint32_t *const *)scratch->registers;
  for (uint32_t row = 0; row < m; row += TS__BAND) {
    uint32_t rows = m - row < TS__BAND ? m - row : TS__BAND;
    job.first_row = first_row + row;
    if (c != NULL)
      stage_in(scratch, rows, n, (const uint32_t *)c + row * cd_row_stride, cd_row_stride);
    run(&job);
    stage_out(scratch, rows, n, (uint32_t *)d + row * cd_row_stride, cd_row_stride);
  }
}

/* f16 accumulators: two per register outside, one inside. */
static void unpack_halves(const struct ts_mma_scratch *scratch, uint32_t blocks,
                          const uint32_t *const *c) {
  for (uint32_t r = 0; r < 2 * blocks; ++r) {
    for (uint32_t lane = 0; lane < TS__LANES; ++lane) {
      scratch->registers[2 * r][lane] = c[r][lane] & 0xffffu;
      scratch->registers[2 * r + 1][lane] = c[r][lane] >> 16;
    }
  }
}

static void pack_halves(const struct ts_mma_scratch *scratch, uint32_t blocks, uint32_t *const *d) {
  for (uint32_t r = 0; r < 2 * blocks; ++r)
    for (uint32_t lane = 0; lane < TS__LANES; ++lane)
      d[r][lane] = scratch->registers[2 * r][lane] | scratch->registers[2 * r + 1][lane] << 16;
}

void ts_mma_multiply_fragment(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                              uint32_t first_row, uint32_t n, uint32_t steps,
                              const void *const *c_or_null, void *const *d, unsigned flags) {
  const void *const *c = flags & TS_MMA_ZERO_C ? NULL : c_or_null;
  struct ts__mma_job job = {.op = op,
                            .scratch = scratch,
                            .first_row = first_row,
                            .blocks = n / TS__BLOCK,
                            .steps = steps,
                            .c = (const uint32_t *const *)c,
                            .d = (uint32_t *const *)d,
                            .flags = flags};
  if (op->acc != TS_DTYPE_f16) {
    run(&job);
    return;
  }
  if (c != NULL) {
    unpack_halves(scratch, job.blocks, (const uint32_t *const *)c);
    job.c = (const uint32_t *const *)scratch->registers;
  }
  job.d = scratch->registers;
  run(&job);
  pack_halves(scratch, job.blocks, (uint32_t *const *)d);
}

void ts_mma_tile(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t m, uint32_t n,
                 const void *a, size_t a_row_stride_bytes, const void *b, size_t b_k_stride_bytes,
                 const void *c_or_null, void *d, size_t cd_row_stride, unsigned flags) {
  ts_mma_prepare_a(op, scratch, m, 1, a, a_row_stride_bytes, ts_dtype_bits(op->a) / 8, flags);
  ts_mma_prepare_b(op, scratch, n, 1, b, ts_dtype_bits(op->b) / 8, b_k_stride_bytes, flags);
  ts_mma_multiply(op, scratch, 0, m, n, 1, c_or_null, d, cd_row_stride, flags);
}

/* Operands in registers ------------------------------------------------------------------------ */

/* 32-bit words of a row of A: words 0..3 of lanes 4 r .. 4 r + 3 are in register 0 (rows 0 to 7) or
 * 1 (rows 8 to 15), words 4..7 in registers 2 and 3, and so on. */
void ts_mma_gather_a(const struct ts_mma_op *op, void *dense, const uint32_t *const *registers) {
  uint32_t row_words = op->k * ts_dtype_bits(op->a) / 32;
  for (uint32_t row = 0; row < 16; ++row) {
    uint32_t *out = (uint32_t *)dense + row * row_words;
    for (uint32_t word = 0; word < row_words; word += 4)
      memcpy(out + word, registers[word / 4 * 2 + row / 8] + 4 * (row % 8), 16);
  }
}

/* Column n: words 0..3 are register 0 of lanes 4 n .. 4 n + 3, words 4..7 register 1. */
void ts_mma_gather_b(const struct ts_mma_op *op, void *dense, const uint32_t *const *registers) {
  uint32_t column_words = op->k * ts_dtype_bits(op->b) / 32;
  for (uint32_t column = 0; column < 8; ++column) {
    uint32_t *out = (uint32_t *)dense + column * column_words;
    for (uint32_t word = 0; word < column_words; word += 4)
      memcpy(out + word, registers[word / 4] + 4 * column, 16);
  }
}
