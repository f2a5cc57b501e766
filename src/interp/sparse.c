/* Products with 2:4 (tf32: 1:2) sparse A (DOC: PTX ISA, mma.sp and wgmma.mma_async.sp).
 *
 * A holds k / 2 elements of each row; metadata says which of the row's k columns they are in, 4 bits
 * for 4 columns (tf32: for 2). A row of D is the dense product of A's elements with the rows of B
 * that they name, in the order of A: MEASURED on an H200 for f16 (cases gemm_sparse24*), with one
 * fused sum over the k / 2 products. */
#include "interp/wgmma_priv.h"

#include <string.h>

enum { MAX_COLUMNS = TS__PANEL_COLUMNS, MAX_KEPT = TS__MAX_K, MAX_ROW_BYTES = 32 };

/* The metadata of a row of a warp's 16: k bits, or 2 k for tf32. */
static uint64_t row_metadata(const struct ts__matrix_info *info, const uint32_t words[TS__LANES],
                             uint32_t row) {
  uint32_t first = row % 8 * 4, half = row / 8;
  uint32_t bits = info->op->a == TS_DTYPE_tf32 ? 2 * info->k : info->k;
  if (bits == 16) return words[first + info->selector] >> 16 * half & 0xffff;
  if (bits == 64) return words[first + half] | (uint64_t)words[first + half + 2] << 32;
  const uint32_t *pair = words + first + 2 * info->selector;
  return (pair[0] >> 16 * half & 0xffff) | (pair[1] >> 16 * half & 0xffff) << 16;
}

/* The column of each element that A's row holds. */
static void find_columns(const struct ts__matrix_info *info, const uint32_t words[TS__LANES],
                         uint32_t row, uint8_t columns[MAX_KEPT]) {
  uint64_t metadata = row_metadata(info, words, row);
  for (uint32_t i = 0; i < info->a_k; i++) {
    if (info->op->a == TS_DTYPE_tf32) /* halves of the element are named: 4 is 0, 14 is 1 */
      columns[i] = (uint8_t)(2 * i + (metadata >> 4 * i & 3) / 2);
    else
      columns[i] = (uint8_t)(i / 2 * 4 + (metadata >> 2 * i & 3));
  }
}

/* Accumulator slot of (row, column) in rows of lane words; f16 accumulators are halves. */
static uint32_t *accumulator_word(const struct ts__matrix_info *info, uint32_t *accumulator,
                                  uint32_t row, uint32_t column) {
  uint32_t lane = 4 * (row % 8) + column % 8 / 2;
  uint32_t r = info->op->acc == TS_DTYPE_f16 ? 2 * (column / 8) + row / 8
                                             : 4 * (column / 8) + 2 * (row / 8) + column % 2;
  return &accumulator[r * TS__LANES + lane];
}

static void read_row(const struct ts__matrix_info *info, uint32_t *accumulator, uint32_t row,
                     uint32_t *slots) {
  bool is_half = info->op->acc == TS_DTYPE_f16;
  for (uint32_t j = 0; j < info->n; j++) {
    uint32_t word = *accumulator_word(info, accumulator, row, j);
    slots[j] = is_half ? word >> 16 * (j % 2) & 0xffff : word;
  }
}

static void write_row(const struct ts__matrix_info *info, uint32_t *accumulator, uint32_t row,
                      const uint32_t *slots) {
  bool is_half = info->op->acc == TS_DTYPE_f16;
  for (uint32_t j = 0; j < info->n; j++) {
    uint32_t *word = accumulator_word(info, accumulator, row, j);
    if (is_half)
      *word = (*word & 0xffff0000u >> 16 * (j % 2)) | slots[j] << 16 * (j % 2);
    else
      *word = slots[j];
  }
}

void ts__sparse_multiply(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                         const struct ts__sparse_operands *operands, uint32_t *accumulator,
                         bool zero) {
  _Alignas(64) uint8_t b[MAX_COLUMNS * MAX_KEPT * 4];
  uint32_t slots[MAX_COLUMNS];
  size_t elem_bytes = ts_dtype_bits(info->op->b) / 8, line_bytes = info->n * elem_bytes;
  size_t a_row_bytes = info->a_k * ts_dtype_bits(info->op->a) / 8;
  unsigned flags = info->flags | (zero ? (unsigned)TS_MMA_ZERO_C : 0);
  for (uint32_t row = 0; row < 16; row++) {
    uint8_t columns[MAX_KEPT];
    find_columns(info, operands->metadata, row, columns);
    for (uint32_t i = 0; i < info->a_k; i++)
      memcpy(b + i * line_bytes, operands->b + columns[i] * line_bytes, line_bytes);
    read_row(info, accumulator, row, slots);
    ts_mma_tile(info->op, scratch, 1, info->n, operands->a + row * a_row_bytes, a_row_bytes, b,
                line_bytes, slots, slots, info->n, flags);
    write_row(info, accumulator, row, slots);
  }
}

/* --- mma.sp: operands C, A, B (arrays with indices) and metadata */

/* Register w of lane l holds elements of column l / 4, of k = (l % 4 + 4 w) * elements and on. */
static void gather_b(const struct ts__matrix_info *info, const uint32_t *registers, uint8_t *b) {
  uint32_t elem_bytes = ts_dtype_bits(info->op->b) / 8, elements = 4 / elem_bytes;
  for (uint32_t w = 0; w < info->k / elements / 4; w++)
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      for (uint32_t i = 0; i < elements; i++) {
        uint32_t k = (lane % 4 + 4 * w) * elements + i;
        const uint32_t *word = &registers[w * TS__LANES + lane];
        memcpy(b + (k * 8 + lane / 4) * elem_bytes, (const uint8_t *)word + i * elem_bytes,
               elem_bytes);
      }
}

enum ts__step ts__exec_mma_sp(struct ts__warp *warp, const struct ts__code *code) {
  const struct ts__matrix_info *info = ts__matrix_info(warp, code, TS_MMA_SYNC);
  if (!info) return TS__STEP_FAULT;
  if (code->is_quiet) return ts__matrix_tell(warp, code, info, 16);
  uint32_t a_words = 16 * info->a_k * ts_dtype_bits(info->op->a) / (TS__LANES * 32);
  uint32_t b_words = 8 * info->k * ts_dtype_bits(info->op->b) / (TS__LANES * 32);
  uint32_t c_words = 16 * 8 * ts_dtype_bits(info->op->acc) / (TS__LANES * 32);
  uint32_t *c = ts__fragment(warp, code, 0, info->op->acc, c_words);
  uint32_t *a = c ? ts__fragment(warp, code, 2, info->op->a, a_words) : NULL;
  uint32_t *b = a ? ts__fragment(warp, code, 4, info->op->b, b_words) : NULL;
  if (!b) return ts__after_checks(warp);
  ts__mma_flush(warp);
  _Alignas(64) uint8_t dense_a[16 * MAX_ROW_BYTES], dense_b[8 * 2 * MAX_KEPT * 4];
  uint32_t scratch[TS__LANES], saved[4 * TS__LANES];
  const uint32_t *rows[4];
  for (uint32_t r = 0; r < 4; r++)
    rows[r] = a + r % a_words * TS__LANES;
  ts_mma_gather_a(info->op, dense_a, rows);
  gather_b(info, b, dense_b);
  struct ts__sparse_operands operands = {
      .a = dense_a,
      .b = dense_b,
      .metadata = ts__operand_slots32(warp, &code->operands[6], scratch)};
  memcpy(saved, c, c_words * TS__LANES * sizeof *saved);
  ts__sparse_multiply(info, warp->block->mma_scratch, &operands, c, false);
  for (uint32_t i = 0; i < c_words * TS__LANES && warp->active != UINT32_MAX; i++)
    if (!(warp->active >> i % TS__LANES & 1)) c[i] = saved[i];
  return ts__matrix_tell(warp, code, info, 16);
}

/* --- wgmma.sp: operands in shared memory or, A, in registers, to dense memory */

void ts__sparse_wgmma(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                      const struct ts__sparse_wgmma *wgmma) {
  _Alignas(64) uint8_t a[16 * MAX_ROW_BYTES], b[MAX_COLUMNS * 2 * MAX_KEPT * 2];
  _Alignas(64) uint8_t linear[sizeof b];
  size_t a_bytes = ts_dtype_bits(info->op->a) / 8, b_bytes = ts_dtype_bits(info->op->b) / 8;
  if (wgmma->a_registers) {
    const uint32_t *rows[4];
    for (uint32_t r = 0; r < 4; r++)
      rows[r] = wgmma->a_registers + r * TS__LANES;
    ts_mma_gather_a(info->op, a, rows);
  } else if (info->a_is_k_major) {
    struct ts__chunks chunks = ts__chunks_a(info, wgmma->a_descriptor, wgmma->warp);
    ts__gather_chunks(&chunks, wgmma->data, a, info->a_k * a_bytes);
  } else {
    struct ts__chunks chunks = ts__chunks_a(info, wgmma->a_descriptor, wgmma->warp);
    ts__gather_chunks(&chunks, wgmma->data, linear, 16 * a_bytes);
    for (uint32_t k = 0; k < info->a_k; k++)
      for (uint32_t row = 0; row < 16; row++)
        memcpy(a + (row * info->a_k + k) * a_bytes, linear + (k * 16 + row) * a_bytes, a_bytes);
  }
  struct ts__chunks chunks = ts__chunks_b(info, wgmma->b_descriptor);
  if (!info->b_is_k_major) {
    ts__gather_chunks(&chunks, wgmma->data, b, info->n * b_bytes);
  } else {
    ts__gather_chunks(&chunks, wgmma->data, linear, info->k * b_bytes);
    for (uint32_t k = 0; k < info->k; k++)
      for (uint32_t column = 0; column < info->n; column++)
        memcpy(b + (k * info->n + column) * b_bytes, linear + (column * info->k + k) * b_bytes,
               b_bytes);
  }
  struct ts__sparse_operands operands = {.a = a, .b = b, .metadata = wgmma->metadata};
  ts__sparse_multiply(info, scratch, &operands, wgmma->accumulator, wgmma->is_zeroed);
}
