/* Between exec_wgmma.c and wgmma_operand.c: operands in shared memory. */
#ifndef TS_INTERP_WGMMA_PRIV_H
#define TS_INTERP_WGMMA_PRIV_H

#include "interp/interp_priv.h"

enum { TS__CHUNK_BYTES = 16, TS__MAX_K = 32 };

/* The 16-byte chunks of an operand, line by line (wgmma_operand.c has the formula). */
struct ts__chunks {
  uint64_t start;
  uint64_t line_bytes, line_group_bytes;   /* from line to line; from 8 lines to the next 8 */
  uint64_t chunk_bytes, chunk_group_bytes; /* from chunk to chunk; from group to group */
  uint32_t lines, chunks, count;           /* chunks of a line; lines * chunks */
  uint32_t first_chunk, chunk_group;       /* chunks that lie together */
  uint32_t swizzle, phase;
};
/* A: the 16 rows of the warp. */
struct ts__chunks ts__chunks_a(const struct ts__matrix_info *info, uint64_t descriptor,
                               uint32_t warp);
struct ts__chunks ts__chunks_b(const struct ts__matrix_info *info, uint64_t descriptor);
uint64_t ts__chunk_address(const struct ts__chunks *chunks, uint32_t i);
/* No chunk ends behind this. */
uint64_t ts__chunks_end(const struct ts__chunks *chunks);
bool ts__chunks_overlap(const struct ts__chunks *chunks, uint64_t address, uint64_t size_bytes);

/* Copies the lines, dense_stride_bytes apart, to dense memory. */
void ts__gather_chunks(const struct ts__chunks *chunks, const uint8_t *data, uint8_t *dense,
                       size_t dense_stride_bytes);

/* Operands of `steps` instructions that make one product, to the scratch. */
void ts__prepare_a(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                   const uint8_t *data, const uint64_t *descriptors, uint32_t steps, uint32_t warp);
void ts__prepare_a_registers(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                             const uint32_t *const *registers, uint32_t steps);
void ts__prepare_b(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                   const uint8_t *data, const uint64_t *descriptors, uint32_t steps);

/* --- sparse products (sparse.c) */
struct ts__sparse_operands {
  const uint8_t *a;         /* 16 rows of a_k elements */
  const uint8_t *b;         /* k rows of n elements */
  const uint32_t *metadata; /* of each lane */
};
/* The accumulator words (16 rows, n columns) take product + accumulator. */
void ts__sparse_multiply(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                         const struct ts__sparse_operands *operands, uint32_t *accumulator,
                         bool zero);
struct ts__sparse_wgmma {
  const uint8_t *data; /* shared memory */
  uint32_t warp;
  uint64_t a_descriptor, b_descriptor;
  const uint32_t *a_registers; /* NULL: A in shared memory */
  const uint32_t *metadata;
  uint32_t *accumulator;
  bool is_zeroed;
};
void ts__sparse_wgmma(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                      const struct ts__sparse_wgmma *wgmma);

#endif
