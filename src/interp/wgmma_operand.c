/* Operands of wgmma in shared memory (DOC: PTX ISA, matrix-descriptor and canonical layouts).
 *
 * An operand is a set of 16-byte chunks. Along the dimension that is contiguous in memory a chunk
 * holds several elements; lines run along the other one.
 *   K-major:  line = row (column of B) r, two chunks of k:
 *             r / 8 * stride + r % 8 * span + chunk * 16          (no swizzle: span 16, chunk * lead)
 *   MN-major: line = k, chunks c of 8 rows (columns):
 *             k / 8 * stride + k % 8 * span + c / s * lead + c % s * 16, s = span / 16
 *             (no swizzle: k / 8 * lead + k % 8 * 16 + c * stride)
 * span is the swizzle's 32, 64 or 128 bytes; the swizzle then permutes by the bits of the address,
 * counted from the base offset (GUESS for base offsets other than 0). */
#include "interp/interp_priv.h"
#include "interp/wgmma_priv.h"

#include <string.h>

static struct ts__chunks decode(uint64_t descriptor, bool is_k_major, uint32_t first_row,
                                uint32_t rows, uint32_t k, enum ts_dtype dtype) {
  static const uint8_t swizzles[] = {0, 3, 2, 1}; /* layout type -> log2(span / 16) */
  uint64_t lead = (descriptor >> 16 & 0x3fff) * 16, stride = (descriptor >> 32 & 0x3fff) * 16;
  uint32_t swizzle = swizzles[descriptor >> 62 & 3], elem_bits = ts_dtype_bits(dtype);
  uint32_t span = (uint32_t)TS__CHUNK_BYTES << swizzle;
  struct ts__chunks chunks = {.start = (descriptor & 0x3fff) * 16,
                              .swizzle = swizzle,
                              .phase = (uint32_t)(descriptor >> 49 & 7),
                              .line_bytes = span};
  if (is_k_major) {
    chunks.start += first_row / 8 * stride;
    chunks.lines = rows;
    chunks.line_group_bytes = stride;
    chunks.chunks = k * elem_bits / 8 / TS__CHUNK_BYTES;
    chunks.chunk_group = 8; /* never more than the two chunks, or four of a sparse product's B */
    chunks.chunk_bytes = swizzle ? TS__CHUNK_BYTES : lead;
  } else {
    uint32_t first_chunk = first_row * elem_bits / 8 / TS__CHUNK_BYTES;
    chunks.lines = k;
    chunks.line_group_bytes = swizzle ? stride : lead;
    chunks.chunks = rows * elem_bits / 8 / TS__CHUNK_BYTES;
    chunks.chunk_group = 1u << swizzle;
    chunks.chunk_bytes = TS__CHUNK_BYTES;
    chunks.chunk_group_bytes = swizzle ? lead : stride;
    chunks.first_chunk = first_chunk;
  }
  chunks.count = chunks.lines * chunks.chunks;
  return chunks;
}

struct ts__chunks ts__chunks_a(const struct ts__matrix_info *info, uint64_t descriptor,
                               uint32_t warp) {
  return decode(descriptor, info->a_is_k_major, warp % 4 * 16, 16, info->a_k, info->op->a);
}

struct ts__chunks ts__chunks_b(const struct ts__matrix_info *info, uint64_t descriptor) {
  return decode(descriptor, info->b_is_k_major, 0, info->n, info->k, info->op->b);
}

/* Address of chunk c of a line. */
static uint64_t place(const struct ts__chunks *chunks, uint64_t line, uint32_t chunk) {
  uint32_t c = chunk + chunks->first_chunk;
  uint64_t address = line + c / chunks->chunk_group * chunks->chunk_group_bytes +
                     c % chunks->chunk_group * chunks->chunk_bytes;
  uint64_t pattern = (address >> 7) - chunks->phase;
  return address ^ (pattern & ((1u << chunks->swizzle) - 1)) << 4;
}

static uint64_t line_start(const struct ts__chunks *chunks, uint32_t line) {
  return chunks->start + line / 8 * chunks->line_group_bytes +
         (uint64_t)(line % 8) * chunks->line_bytes;
}

uint64_t ts__chunk_address(const struct ts__chunks *chunks, uint32_t i) {
  return place(chunks, line_start(chunks, i / chunks->chunks), i % chunks->chunks);
}

/* A swizzle keeps a chunk inside of its 128 bytes. */
uint64_t ts__chunks_end(const struct ts__chunks *chunks) {
  uint32_t last = chunks->first_chunk + chunks->chunks - 1;
  uint32_t last_in_group =
      last < chunks->chunk_group ? last : chunks->chunk_group - 1; /* not less than any */
  uint64_t address = line_start(chunks, chunks->lines - 1) +
                     last / chunks->chunk_group * chunks->chunk_group_bytes +
                     last_in_group * chunks->chunk_bytes;
  return chunks->swizzle ? (address / 128 + 1) * 128 : address + TS__CHUNK_BYTES;
}

bool ts__chunks_overlap(const struct ts__chunks *chunks, uint64_t address, uint64_t size_bytes) {
  for (uint32_t i = 0; i < chunks->count; i++) {
    uint64_t begin = ts__chunk_address(chunks, i);
    if (begin < address + size_bytes && address < begin + TS__CHUNK_BYTES) return true;
  }
  return false;
}

void ts__gather_chunks(const struct ts__chunks *chunks, const uint8_t *data, uint8_t *dense,
                       size_t dense_stride_bytes) {
  for (uint32_t line = 0; line < chunks->lines; line++) {
    uint64_t start = line_start(chunks, line);
    uint8_t *dst = dense + line * dense_stride_bytes;
    for (uint32_t c = 0; c < chunks->chunks; c++)
      memcpy(dst + c * TS__CHUNK_BYTES, data + place(chunks, start, c), TS__CHUNK_BYTES);
  }
}

enum { K_BYTES = 32, MAX_A_BYTES = 16 * TS__PANEL_STEPS * K_BYTES };

void ts__prepare_a(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                   const uint8_t *data, const uint64_t *descriptors, uint32_t steps,
                   uint32_t warp) {
  _Alignas(64) uint8_t dense[MAX_A_BYTES];
  size_t elem_bytes = ts_dtype_bits(info->op->a) / 8, row_bytes = (size_t)steps * K_BYTES;
  size_t line_bytes = 16 * elem_bytes; /* MN-major: the 16 rows of one k */
  for (uint32_t s = 0; s < steps; s++) {
    struct ts__chunks chunks = ts__chunks_a(info, descriptors[s], warp);
    if (info->a_is_k_major)
      ts__gather_chunks(&chunks, data, dense + s * K_BYTES, row_bytes);
    else
      ts__gather_chunks(&chunks, data, dense + s * info->k * line_bytes, line_bytes);
  }
  if (info->a_is_k_major)
    ts_mma_prepare_a(info->op, scratch, 16, steps, dense, row_bytes, elem_bytes, info->flags);
  else
    ts_mma_prepare_a(info->op, scratch, 16, steps, dense, elem_bytes, line_bytes, info->flags);
}

void ts__prepare_a_registers(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                             const uint32_t *const *registers, uint32_t steps) {
  _Alignas(64) uint8_t dense[MAX_A_BYTES], one[16 * K_BYTES];
  size_t elem_bytes = ts_dtype_bits(info->op->a) / 8, row_bytes = (size_t)steps * K_BYTES;
  for (uint32_t s = 0; s < steps; s++) {
    const uint32_t *rows[4];
    for (uint32_t r = 0; r < 4; r++)
      rows[r] = registers[s] + r * TS__LANES;
    ts_mma_gather_a(info->op, one, rows);
    for (uint32_t row = 0; row < 16; row++)
      memcpy(dense + row * row_bytes + s * K_BYTES, one + row * K_BYTES, K_BYTES);
  }
  ts_mma_prepare_a(info->op, scratch, 16, steps, dense, row_bytes, elem_bytes, info->flags);
}

void ts__prepare_b(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                   const uint8_t *data, const uint64_t *descriptors, uint32_t steps) {
  _Alignas(64) uint8_t dense[TS__PANEL_COLUMNS * TS__PANEL_STEPS * K_BYTES];
  size_t elem_bytes = ts_dtype_bits(info->op->b) / 8, column_bytes = (size_t)steps * K_BYTES;
  size_t line_bytes = info->n * elem_bytes; /* MN-major: the columns of one k */
  for (uint32_t s = 0; s < steps; s++) {
    struct ts__chunks chunks = ts__chunks_b(info, descriptors[s]);
    if (info->b_is_k_major)
      ts__gather_chunks(&chunks, data, dense + s * K_BYTES, column_bytes);
    else
      ts__gather_chunks(&chunks, data, dense + s * info->k * line_bytes, line_bytes);
  }
  if (info->b_is_k_major)
    ts_mma_prepare_b(info->op, scratch, info->n, steps, dense, column_bytes, elem_bytes,
                     info->flags);
  else
    ts_mma_prepare_b(info->op, scratch, info->n, steps, dense, elem_bytes, line_bytes, info->flags);
}
