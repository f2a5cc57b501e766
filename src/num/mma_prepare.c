/* Operands of matrix instructions from memory to panel order (num_priv.h), then to the vector
 * kernels' panels. Raw operands are kept as one encoding per word. */
#include <string.h>

#include "num/num_priv.h"

enum { LINES = 8, K_LIMIT = 64 };

/* An operand as a matrix of lines (rows of A, columns of B) along k. */
struct source {
  enum ts_dtype dtype;
  const uint8_t *base;
  size_t line_stride, k_stride; /* bytes; 0 for consecutive nibbles */
  uint32_t lines;               /* that exist; the rest are zero */
};

static uint32_t round_up(uint32_t value, uint32_t unit) { return (value + unit - 1) / unit * unit; }

/* Consecutive packed elements to words. */
static void widen(unsigned bits, uint32_t *out, const uint8_t *in, uint32_t count) {
  switch (bits) {
  case 32: memcpy(out, in, (size_t)count * 4); return;
  case 16:
    for (uint32_t i = 0; i < count; ++i) {
      uint16_t value;
      memcpy(&value, in + 2 * i, sizeof value);
      out[i] = value;
    }
    return;
  case 8:
    for (uint32_t i = 0; i < count; ++i)
      out[i] = in[i];
    return;
  default:
    for (uint32_t i = 0; i < count; ++i)
      out[i] = i % 2 ? in[i / 2] >> 4 : in[i / 2] & 15u;
  }
}

/* The element at any strides. */
static uint32_t element(const struct source *source, uint32_t line, uint32_t k) {
  bool nibble_lines = source->line_stride == 0, nibble_k = source->k_stride == 0;
  const uint8_t *at = source->base + (nibble_lines ? line / 2 : line * source->line_stride) +
                      (nibble_k ? k / 2 : k * source->k_stride);
  uint32_t value = 0;
  switch (ts_dtype_bits(source->dtype)) {
  case 32: memcpy(&value, at, 4); return value;
  case 16: return (uint32_t)(at[0] | at[1] << 8);
  case 8: return *at;
  default: return ((nibble_lines && line % 2) || (nibble_k && k % 2) ? *at >> 4 : *at) & 15u;
  }
}

/* Eight lines from `line` on, elements first_k .. first_k + count - 1, to out[line][K_LIMIT]. */
static void read_lines(const struct source *source, const struct ts__mma_kernels *kernels,
                       uint32_t line, uint32_t first_k, uint32_t count,
                       uint32_t out[LINES][K_LIMIT]) {
  unsigned bits = ts_dtype_bits(source->dtype);
  uint32_t lines = source->lines > line ? source->lines - line : 0;
  if (lines > LINES) lines = LINES;
  if (source->k_stride == bits / 8) {
    const uint8_t *base = source->base + first_k * bits / 8;
    for (uint32_t i = 0; i < lines; ++i)
      widen(bits, out[i], base + (line + i) * source->line_stride, count);
  } else if (source->line_stride == bits / 8 && lines == LINES && bits >= 8) {
    uint32_t across[K_LIMIT][LINES];
    for (uint32_t k = 0; k < count; ++k)
      widen(bits, across[k],
            source->base + (first_k + k) * source->k_stride + line * source->line_stride, LINES);
    for (uint32_t k = 0; k < count; k += LINES)
      kernels->transpose(out[0] + k, K_LIMIT, across[k], LINES, LINES);
  } else {
    for (uint32_t i = 0; i < lines; ++i)
      for (uint32_t k = 0; k < count; ++k)
        out[i][k] = element(source, line + i, first_k + k);
  }
  for (uint32_t i = lines; i < LINES; ++i)
    memset(out[i], 0, count * sizeof out[i][0]);
}

/* Where element k of an instruction stands: fused sum and place in it. */
static uint32_t place_of(const struct ts_mma_op *op, uint32_t k) {
  return op->kind == TS__MMA_SPLIT ? k % 4 / 2 * (op->k / 2u) + k / 4 * 2 + k % 2 : k;
}

/* What fused sum 0, row `row` is to a whole instruction. */
static void store_row(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                      uint32_t first_sum, uint32_t row, const uint32_t *line) {
  const uint32_t length = op->fused_length;
  for (uint32_t k = 0; k < op->k; k += op->kind == TS__MMA_SPLIT ? 2u : length) {
    uint32_t place = place_of(op, k), sum = first_sum + place / length;
    uint32_t *out = scratch->a_raw + ((size_t)sum * scratch->a_rows + row) * length;
    memcpy(out + place % length, line + k, op->kind == TS__MMA_SPLIT ? 8 : (size_t)length * 4);
  }
}

static void to_operand_dtype(const struct ts_mma_op *op, enum ts_dtype dtype, uint32_t *raw,
                             size_t count) {
  if (op->kind == TS__MMA_SPLIT) ts_num_convert(TS_DTYPE_f16, dtype, 0)(raw, raw, count);
}

static void negate(enum ts_dtype dtype, uint32_t *raw, size_t count) {
  if (!ts_dtype_is_float(dtype)) return;
  bool wide = dtype == TS_DTYPE_f64;
  uint32_t sign = 1u << (wide ? 31 : ts_dtype_bits(dtype) - 1);
  for (size_t i = 0; i < count; ++i)
    raw[wide ? 2 * i + 1 : i] ^= sign;
}

/* f64: pairs of words, no panels; A as [step][line][k], B as [step][k][line]. */
static void read_wide(uint32_t *raw, const struct source *source, uint32_t k_count, uint32_t steps,
                      uint32_t lines, bool k_is_inner) {
  for (uint32_t i = 0; i < steps * k_count * lines; ++i) {
    uint32_t step = i / (k_count * lines), rest = i % (k_count * lines);
    uint32_t line = k_is_inner ? rest / k_count : rest % lines;
    uint32_t k = step * k_count + (k_is_inner ? rest % k_count : rest / lines);
    uint64_t value = 0;
    if (line < source->lines)
      memcpy(&value, source->base + line * source->line_stride + k * source->k_stride, 8);
    memcpy(raw + 2 * (size_t)i, &value, 8);
  }
}

void ts_mma_prepare_a(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t m,
                      uint32_t steps, const void *a, size_t row_stride_bytes, size_t k_stride_bytes,
                      unsigned flags) {
  const struct ts__mma_kernels *kernels = ts__mma_kernels_of(op, scratch, flags);
  const struct source source = {op->a, a, row_stride_bytes, k_stride_bytes, m};
  const uint32_t rows = round_up(m, TS__BAND);
  scratch->a_rows = rows;
  if (op->a == TS_DTYPE_f64) {
    read_wide(scratch->a_raw, &source, op->k, steps, rows, true);
  } else {
    for (uint32_t step = 0; step < steps; ++step) {
      for (uint32_t row = 0; row < rows; row += LINES) {
        uint32_t lines[LINES][K_LIMIT];
        read_lines(&source, kernels ? kernels : &ts__mma_portable, row, step * op->k, op->k, lines);
        for (uint32_t i = 0; i < LINES; ++i)
          store_row(op, scratch, step * ts__mma_sums(op), row + i, lines[i]);
      }
    }
  }
  if (flags & TS_MMA_NEGATE_A) negate(op->a, scratch->a_raw, (size_t)rows * op->k * steps);
  to_operand_dtype(op, op->a, scratch->a_raw, (size_t)rows * op->k * steps);
  if (kernels != NULL) kernels->expand_a(op, scratch, steps * ts__mma_sums(op));
}

/* B with consecutive columns: rows of k as they are. */
static void read_rows_of_b(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                           const struct source *source, uint32_t steps) {
  const uint32_t columns = scratch->b_columns, n = source->lines;
  for (uint32_t k = 0; k < steps * op->k; ++k) {
    size_t place = k / op->k * op->k + place_of(op, k % op->k);
    uint32_t *out = scratch->b_raw + place * columns;
    widen(ts_dtype_bits(op->b), out, source->base + k * source->k_stride, n);
    memset(out + n, 0, (columns - n) * sizeof *out);
  }
}

/* B with consecutive k, or any strides: eight columns at a time. */
static void read_columns_of_b(const struct ts_mma_op *op, struct ts_mma_scratch *scratch,
                              const struct ts__mma_kernels *kernels, const struct source *source,
                              uint32_t steps) {
  const uint32_t columns = scratch->b_columns;
  for (uint32_t step = 0; step < steps; ++step) {
    for (uint32_t column = 0; column < columns; column += LINES) {
      uint32_t lines[LINES][K_LIMIT], across[K_LIMIT][LINES];
      read_lines(source, kernels, column, step * op->k, op->k, lines);
      kernels->transpose(across[0], LINES, lines[0], K_LIMIT, op->k);
      for (uint32_t k = 0; k < op->k; ++k) {
        size_t place = (size_t)step * op->k + place_of(op, k);
        memcpy(scratch->b_raw + place * columns + column, across[k], sizeof across[k]);
      }
    }
  }
}

void ts_mma_prepare_b(const struct ts_mma_op *op, struct ts_mma_scratch *scratch, uint32_t n,
                      uint32_t steps, const void *b, size_t column_stride_bytes,
                      size_t k_stride_bytes, unsigned flags) {
  const struct ts__mma_kernels *kernels = ts__mma_kernels_of(op, scratch, flags);
  const struct source source = {op->b, b, column_stride_bytes, k_stride_bytes, n};
  scratch->b_columns = round_up(n, TS__BLOCK);
  if (op->b == TS_DTYPE_f64)
    read_wide(scratch->b_raw, &source, op->k, steps, scratch->b_columns, false);
  else if (column_stride_bytes == ts_dtype_bits(op->b) / 8)
    read_rows_of_b(op, scratch, &source, steps);
  else
    read_columns_of_b(op, scratch, kernels ? kernels : &ts__mma_portable, &source, steps);
  if (flags & TS_MMA_NEGATE_B)
    negate(op->b, scratch->b_raw, (size_t)scratch->b_columns * op->k * steps);
  to_operand_dtype(op, op->b, scratch->b_raw, (size_t)scratch->b_columns * op->k * steps);
  if (kernels != NULL) kernels->expand_b(op, scratch, steps * ts__mma_sums(op));
}
