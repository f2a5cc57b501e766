/* Deferred mma of a warp.
 *
 * Kernels multiply every A fragment with every B fragment, one instruction each. Converting the
 * operands costs more than multiplying them once, so instructions on different accumulators are
 * kept until a register array is looked at (exec_local.c, ldmatrix, wgmma) and then done together:
 * each fragment is converted once. Nothing is observable in between, since accumulators do not
 * overlap with operands and each occurs once. */
#include "interp/interp_priv.h"

#include <string.h>

enum { MAX_A = 4, MAX_B = 32, ROW_BYTES = 32, MAX_C_WORDS = 4, MAX_OPERAND_WORDS = 4 };

struct ts__mma_batch {
  const struct ts_mma_op *op;
  unsigned flags;
  struct ts__mma_registers first; /* of all: the same arrays and word counts */
  uint32_t a_count, b_count;
  const uint32_t *a[MAX_A], *b[MAX_B];
  uint32_t *c[MAX_A][MAX_B]; /* NULL: this pair is not multiplied */
};

/* Position of the registers among those of the batch; count when they are new. */
static uint32_t find(const uint32_t *const *list, uint32_t count, const uint32_t *registers) {
  uint32_t i = 0;
  while (i < count && list[i] != registers)
    i++;
  return i;
}

/* The same accumulator, or one that overlaps, is in the batch. */
static bool has_accumulator(const struct ts__mma_batch *batch, const uint32_t *c) {
  ptrdiff_t words = (ptrdiff_t)batch->first.c_words * TS__LANES;
  for (uint32_t i = 0; i < batch->a_count; i++)
    for (uint32_t j = 0; j < batch->b_count; j++)
      if (batch->c[i][j] && c - batch->c[i][j] < words && batch->c[i][j] - c < words) return true;
  return false;
}

static void gather(struct ts__mma_batch *batch, struct ts_mma_scratch *scratch) {
  _Alignas(64) uint8_t dense[MAX_B * 8 * ROW_BYTES];
  const struct ts_mma_op *op = batch->op;
  size_t a_bits = ts_dtype_bits(op->a), b_bits = ts_dtype_bits(op->b);
  size_t a_row = op->k * a_bits / 8, b_row = op->k * b_bits / 8;
  const uint32_t *rows[MAX_OPERAND_WORDS];
  for (uint32_t i = 0; i < batch->a_count; i++) {
    for (uint32_t r = 0; r < batch->first.a_words; r++)
      rows[r] = batch->a[i] + r * TS__LANES;
    ts_mma_gather_a(op, dense + i * 16 * a_row, rows);
  }
  ts_mma_prepare_a(op, scratch, 16 * batch->a_count, 1, dense, a_row, a_bits / 8, batch->flags);
  for (uint32_t j = 0; j < batch->b_count; j++) {
    for (uint32_t r = 0; r < batch->first.b_words; r++)
      rows[r] = batch->b[j] + r * TS__LANES;
    ts_mma_gather_b(op, dense + j * 8 * b_row, rows);
  }
  ts_mma_prepare_b(op, scratch, 8 * batch->b_count, 1, dense, b_row, b_bits / 8, batch->flags);
}

void ts__mma_flush(struct ts__warp *warp) {
  if (warp->deferred_count == 0) return;
  struct ts__mma_batch *batch = warp->mma_batch;
  struct ts_mma_scratch *scratch = warp->block->mma_scratch;
  uint32_t unused[TS__LANES] = {0}; /* takes the products that nobody asked for */
  gather(batch, scratch);
  for (uint32_t i = 0; i < batch->a_count; i++) {
    void *d[MAX_B * MAX_C_WORDS];
    const void *c[MAX_B * MAX_C_WORDS];
    for (uint32_t j = 0; j < batch->b_count; j++)
      for (uint32_t r = 0; r < batch->first.c_words; r++) {
        uint32_t *words = batch->c[i][j] ? batch->c[i][j] + r * TS__LANES : unused;
        c[j * batch->first.c_words + r] = d[j * batch->first.c_words + r] = words;
      }
    ts_mma_multiply_fragment(batch->op, scratch, 16 * i, 8 * batch->b_count, 1, c, d, batch->flags);
  }
  warp->deferred_count = 0;
}

static void begin(struct ts__mma_batch *batch, const struct ts__matrix_info *info,
                  const struct ts__mma_registers *registers) {
  *batch = (struct ts__mma_batch){.op = info->op, .flags = info->flags, .first = *registers};
}

static bool fits(const struct ts__mma_batch *batch, const struct ts__matrix_info *info,
                 const struct ts__mma_registers *registers) {
  return batch->op == info->op && batch->flags == info->flags &&
         batch->first.a_array == registers->a_array && batch->first.b_array == registers->b_array &&
         batch->first.c_array == registers->c_array && !has_accumulator(batch, registers->c);
}

bool ts__mma_defer(struct ts__warp *warp, const struct ts__matrix_info *info,
                   const struct ts__mma_registers *registers) {
  struct ts__mma_batch *batch = warp->mma_batch;
  if (!batch) batch = warp->mma_batch = ts_new(warp->block->scratch, struct ts__mma_batch);
  if (!batch) return false;
  if (warp->deferred_count) {
    uint32_t i = find(batch->a, batch->a_count, registers->a);
    uint32_t j = find(batch->b, batch->b_count, registers->b);
    if (!fits(batch, info, registers) || i == MAX_A || j == MAX_B ||
        (i < batch->a_count && j < batch->b_count && batch->c[i][j]))
      ts__mma_flush(warp);
  }
  if (warp->deferred_count == 0) begin(batch, info, registers);
  uint32_t i = find(batch->a, batch->a_count, registers->a);
  uint32_t j = find(batch->b, batch->b_count, registers->b);
  if (i == batch->a_count) batch->a[batch->a_count++] = registers->a;
  if (j == batch->b_count) batch->b[batch->b_count++] = registers->b;
  batch->c[i][j] = registers->c;
  warp->deferred_count++;
  return true;
}
