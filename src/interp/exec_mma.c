/* ldmatrix, stmatrix and mma (DOC: PTX ISA, warp-level matrix instructions). */
#include "interp/check_priv.h"

#include <string.h>

enum { ROW_BYTES = 16, MATRIX_ROWS = 8, MAX_MATRICES = 4 };

static int64_t attribute(const struct ts__warp *warp, const struct ts__code *code,
                         enum ts_attr_id id, int64_t fallback) {
  const struct ts_function *function = warp->program->function;
  return ts_insn_attr(function, &function->insns.data[code->insn], id, fallback);
}

/* --- matrices of 8 rows of 16 bytes; lane 8 m + r has the address of row r of matrix m */

static enum ts_status emit_rows(struct ts__warp *warp, const struct ts__code *code,
                                uint64_t addresses[TS__LANES], uint32_t rows, bool is_store) {
  if (!ts__listening(warp->block)) return TS_OK;
  for (uint32_t lane = rows; lane < TS__LANES; lane++)
    addresses[lane] = 0;
  struct ts_event event = {.kind = TS_EVENT_MEMORY,
                           .src_space = is_store ? TS_SPACE_LOCAL : TS_SPACE_SHARED,
                           .dst_space = is_store ? TS_SPACE_SHARED : TS_SPACE_LOCAL,
                           .bytes = rows * ROW_BYTES};
  struct ts_footprint footprint = {.kind = TS_FOOTPRINT_LANES,
                                   .space = TS_SPACE_SHARED,
                                   .size_bytes = ROW_BYTES,
                                   .lanes = addresses};
  return ts__emit(warp, code, event, &footprint);
}

/* Nothing but the event; operand: the first one of the row addresses. */
static enum ts__step tell_rows(struct ts__warp *warp, const struct ts__code *code, uint32_t operand,
                               uint32_t rows, bool is_store) {
  uint64_t addresses[TS__LANES];
  ts__address_lanes(warp, code, &code->operands[operand], &code->operands[operand + 1], code->scale,
                    code->offset, addresses);
  return emit_rows(warp, code, addresses, rows, is_store) == TS_OK ? TS__STEP_NEXT : TS__STEP_FAULT;
}

/* Host pointers to the rows; NULL where the access may not proceed (reported). */
static void find_rows(struct ts__warp *warp, const struct ts__code *code,
                      const uint64_t addresses[TS__LANES], uint32_t rows, bool is_store,
                      uint8_t *pointers[TS__LANES]) {
  struct ts_shared_memory *shared = &warp->block->shared;
  bool is_calm = shared->live_count == 0 && (!is_store || warp->block->wgmma_count == 0);
  for (uint32_t lane = 0; lane < rows; lane++) {
    uint64_t address = addresses[lane];
    pointers[lane] = NULL;
    bool is_simple = is_calm && address < shared->size_bytes &&
                     ROW_BYTES <= shared->size_bytes - address && address % ROW_BYTES == 0;
    if (is_simple) {
      pointers[lane] = shared->data + address;
      continue;
    }
    bool may_proceed = is_store ? ts__shared_writable(warp, code, lane, address, ROW_BYTES)
                                : ts__shared_readable(warp, code, lane, address, ROW_BYTES);
    if (may_proceed && address % ROW_BYTES)
      ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
                 "row address 0x%llx of a matrix is not aligned to 16 bytes",
                 (unsigned long long)address);
    else if (may_proceed)
      pointers[lane] = shared->data + address;
  }
}

/* Register of the lanes <-> rows: lane 4 r + t has bytes 4 t .. 4 t + 3 of row r. */
static void load_matrix(uint32_t words[TS__LANES], uint8_t *const rows[MATRIX_ROWS]) {
  for (uint32_t r = 0; r < MATRIX_ROWS; r++)
    if (rows[r])
      memcpy(words + 4 * r, rows[r], ROW_BYTES);
    else
      memset(words + 4 * r, 0, ROW_BYTES);
}

/* The 8 x 8 matrix of 16-bit elements in the lanes' words, transposed. */
static void transpose(uint32_t words[TS__LANES]) {
  uint16_t in[MATRIX_ROWS][MATRIX_ROWS], out[MATRIX_ROWS][MATRIX_ROWS];
  memcpy(in, words, sizeof in);
  for (uint32_t r = 0; r < MATRIX_ROWS; r++)
    for (uint32_t c = 0; c < MATRIX_ROWS; c++)
      out[r][c] = in[c][r];
  memcpy(words, out, sizeof out);
}

static void blend(uint32_t *dst, const uint32_t words[TS__LANES], uint32_t active) {
  if (active == UINT32_MAX) {
    memcpy(dst, words, TS__LANES * sizeof *dst);
    return;
  }
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    if (active >> lane & 1) dst[lane] = words[lane];
}

enum ts__step ts__exec_ldmatrix(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t count = (uint32_t)attribute(warp, code, TS_ATTR_num, 1);
  bool is_transposed = attribute(warp, code, TS_ATTR_trans, 0) != 0;
  if (count > MAX_MATRICES) count = MAX_MATRICES;
  if (code->is_quiet) return tell_rows(warp, code, 2, count * MATRIX_ROWS, false);
  /* Registers beyond the array are lost, as a compiler that keeps the array in registers does. */
  uint32_t kept = count;
  uint32_t *dst = ts__fragment_part(warp, code, 0, (enum ts_dtype)code->dtype, &kept);
  if (!dst) return ts__after_checks(warp);
  if (ts__wgmma_in_flight(warp) &&
      ts__wgmma_conflict(warp, code, (uint32_t)((dst - warp->local) / TS__LANES), kept, true) &&
      warp->block->status != TS_OK)
    return TS__STEP_FAULT;
  uint64_t addresses[TS__LANES];
  uint8_t *rows[TS__LANES];
  ts__address_lanes(warp, code, &code->operands[2], &code->operands[3], code->scale, code->offset,
                    addresses);
  find_rows(warp, code, addresses, count * MATRIX_ROWS, false, rows);
  if (warp->block->check) ts__check_rows(warp, code, rows, count * MATRIX_ROWS, false);
  for (uint32_t i = 0; i < kept; i++) {
    uint32_t words[TS__LANES];
    load_matrix(words, rows + i * MATRIX_ROWS);
    if (is_transposed) transpose(words);
    blend(dst + i * TS__LANES, words, warp->active);
  }
  if (emit_rows(warp, code, addresses, count * MATRIX_ROWS, false) != TS_OK) return TS__STEP_FAULT;
  return ts__after_checks(warp);
}

enum ts__step ts__exec_stmatrix(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t count = code->operand_count - 2u;
  bool is_transposed = attribute(warp, code, TS_ATTR_trans, 0) != 0;
  if (count > MAX_MATRICES) count = MAX_MATRICES;
  if (code->is_quiet) return tell_rows(warp, code, 0, count * MATRIX_ROWS, true);
  uint64_t addresses[TS__LANES];
  uint8_t *rows[TS__LANES];
  ts__address_lanes(warp, code, &code->operands[0], &code->operands[1], code->scale, code->offset,
                    addresses);
  find_rows(warp, code, addresses, count * MATRIX_ROWS, true, rows);
  if (warp->block->check) ts__check_rows(warp, code, rows, count * MATRIX_ROWS, true);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t words[TS__LANES], scratch[TS__LANES];
    memcpy(words, ts__operand_slots32(warp, &code->operands[2 + i], scratch), sizeof words);
    if (is_transposed) transpose(words);
    for (uint32_t r = 0; r < MATRIX_ROWS; r++)
      if (rows[i * MATRIX_ROWS + r]) memcpy(rows[i * MATRIX_ROWS + r], words + 4 * r, ROW_BYTES);
  }
  warp->block->shared.version++;
  if (emit_rows(warp, code, addresses, count * MATRIX_ROWS, true) != TS_OK) return TS__STEP_FAULT;
  return ts__after_checks(warp);
}

/* --- mma */

static bool find_fragments(struct ts__warp *warp, const struct ts__code *code,
                           const struct ts__matrix_info *info, struct ts__mma_registers *f) {
  uint32_t lane_bits = TS__LANES * 32;
  const struct ts_mma_op *op = info->op;
  f->a_words = info->m * info->k * ts_dtype_bits(op->a) / lane_bits;
  f->b_words = info->n * info->k * ts_dtype_bits(op->b) / lane_bits;
  f->c_words = info->m * info->n * ts_dtype_bits(op->acc) / lane_bits;
  f->c = ts__fragment(warp, code, 0, op->acc, f->c_words);
  f->a = f->c ? ts__fragment(warp, code, 2, op->a, f->a_words) : NULL;
  f->b = f->a ? ts__fragment(warp, code, 4, op->b, f->b_words) : NULL;
  f->c_array = code->operands[0].offset;
  f->a_array = code->operands[2].offset;
  f->b_array = code->operands[4].offset;
  return f->b != NULL;
}

static bool is_settled(struct ts__warp *warp, const struct ts__code *code,
                       const struct ts__mma_registers *f) {
  if (warp->wgmma_count == 0) return true;
  const uint32_t *local = warp->local;
  ts__wgmma_conflict(warp, code, (uint32_t)((f->a - local) / TS__LANES), f->a_words, false);
  ts__wgmma_conflict(warp, code, (uint32_t)((f->b - local) / TS__LANES), f->b_words, false);
  ts__wgmma_conflict(warp, code, (uint32_t)((f->c - local) / TS__LANES), f->c_words, true);
  return warp->block->status == TS_OK;
}

enum { MAX_OPERAND_BYTES = 16 * 32 };

/* Lane l's registers of an 8-row operand: elements of row (column) l / 4, a quarter of k. */
static void gather_8(uint8_t *dense, const uint32_t *registers, uint32_t words) {
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    for (uint32_t w = 0; w < words; w++)
      memcpy(dense + (lane * words + w) * 4, registers + w * TS__LANES + lane, 4);
}

/* m8n8: accumulators of lane l are row l / 4, columns 2 (l % 4) and the next one. */
static void multiply_8(const struct ts__matrix_info *info, struct ts_mma_scratch *scratch,
                       const struct ts__mma_registers *f) {
  _Alignas(64) uint8_t a[MAX_OPERAND_BYTES], b[MAX_OPERAND_BYTES], c[8 * 8 * 8];
  const struct ts_mma_op *op = info->op;
  size_t a_bits = ts_dtype_bits(op->a), b_bits = ts_dtype_bits(op->b);
  gather_8(a, f->a, f->a_words);
  gather_8(b, f->b, f->b_words);
  gather_8(c, f->c, f->c_words);
  ts_mma_prepare_a(op, scratch, 8, 1, a, info->k * a_bits / 8, a_bits / 8, info->flags);
  ts_mma_prepare_b(op, scratch, 8, 1, b, info->k * b_bits / 8, b_bits / 8, info->flags);
  ts_mma_multiply(op, scratch, 0, 8, 8, 1, c, c, 8, info->flags);
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    for (uint32_t w = 0; w < f->c_words; w++)
      memcpy(f->c + w * TS__LANES + lane, c + (lane * f->c_words + w) * 4, 4);
}

/* The product of the active lanes at once, after what has been deferred. */
static bool multiply_now(struct ts__warp *warp, const struct ts__matrix_info *info,
                         const struct ts__mma_registers *f) {
  uint32_t saved[8 * TS__LANES];
  bool is_partial = warp->active != UINT32_MAX;
  ts__mma_flush(warp);
  if (is_partial) memcpy(saved, f->c, f->c_words * TS__LANES * sizeof *saved);
  if (info->m == 8)
    multiply_8(info, warp->block->mma_scratch, f);
  else if (!ts__mma_defer(warp, info, f))
    return false;
  ts__mma_flush(warp);
  for (uint32_t w = 0; is_partial && w < f->c_words; w++)
    blend(f->c + w * TS__LANES, saved + w * TS__LANES, ~warp->active);
  return true;
}

enum ts__step ts__exec_mma(struct ts__warp *warp, const struct ts__code *code) {
  const struct ts__matrix_info *info = ts__matrix_info(warp, code, TS_MMA_SYNC);
  struct ts__mma_registers f;
  if (!info) return TS__STEP_FAULT;
  if (code->is_quiet) return ts__matrix_tell(warp, code, info, info->m);
  if (!find_fragments(warp, code, info, &f) || !is_settled(warp, code, &f))
    return ts__after_checks(warp);
  bool may_wait = info->m == 16 && warp->active == UINT32_MAX && warp->wgmma_count == 0 &&
                  f.c_array != f.a_array && f.c_array != f.b_array;
  bool done = may_wait ? ts__mma_defer(warp, info, &f) : multiply_now(warp, info, &f);
  if (!done) return ts__fault_memory(warp);
  if (ts__matrix_emit(warp, code, info, info->m, (struct ts_event){0}) != TS_OK)
    return TS__STEP_FAULT;
  return TS__STEP_NEXT;
}
