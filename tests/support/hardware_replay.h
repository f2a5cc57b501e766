/* The cases of tests/num/device/probes.cu on the library: operands are made again, results summed up
 * and compared with what an H200 gave (traces/num/mma_h200.bin, elementwise_h200.bin). */
#ifndef TS_TESTS_HARDWARE_REPLAY_H
#define TS_TESTS_HARDWARE_REPLAY_H

#include <string.h>

#include "num/device/probe_vectors.h"
#include "num/num.h"

/* Matrix instructions -------------------------------------------------------------------------- */

struct matrix_case {
  const char *name;
  enum ts_mma_path path;
  enum ts_dtype a, b, acc;
  int a_format, b_format, acc_format;
  uint32_t k;
  unsigned flags;
};

#define TS_MMA_NONE 0
static const struct matrix_case matrix_cases[] = {
#define MMA_CASE(name, path, a, b, acc, k, flags, shape, text, tail)                               \
  {#name, TS_MMA_##path, TS_DTYPE_##a, TS_DTYPE_##b, TS_DTYPE_##acc, PV_##a, PV_##b, PV_##acc,     \
   k,     TS_MMA_##flags},
#include "num/device/mma_cases.def"
#undef MMA_CASE
};
enum { MATRIX_CASES = sizeof matrix_cases / sizeof matrix_cases[0] };

/* Rows of a tile, whose columns are 8. */
static inline uint32_t tile_rows(const struct matrix_case *m) {
  return m->path == TS_MMA_WGMMA ? 64 : 16;
}

static inline void fill_lines(uint8_t *out, int format, uint32_t index, uint32_t kind,
                              uint32_t role, uint64_t tile, uint32_t lines, uint32_t depth) {
  uint32_t bits = pv_format_of(format).bits;
  memset(out, 0, lines * depth * bits / 8);
  for (uint32_t line = 0; line < lines; ++line) {
    for (uint32_t k = 0; k < depth; ++k) {
      uint64_t e = pv_matrix_element(format, index, kind, role, tile, line, k, depth);
      size_t bit = (size_t)(line * depth + k) * bits;
      if (bits >= 8)
        memcpy(out + bit / 8, &e, bits / 8);
      else
        out[bit / 8] = (uint8_t)(out[bit / 8] | e << bit % 8);
    }
  }
}

/* Operands and results of one tile. */
struct tile {
  uint8_t a[64 * 256], b[8 * 256];
  uint64_t c[64 * 8], d[64 * 8];
};

static inline void fill_tile(struct tile *t, uint32_t index, uint32_t kind, uint64_t tile) {
  const struct matrix_case *m = &matrix_cases[index];
  uint32_t rows = tile_rows(m);
  fill_lines(t->a, m->a_format, index, kind, PV_A, tile, rows, m->k);
  fill_lines(t->b, m->b_format, index, kind, PV_B, tile, 8, m->k);
  for (uint32_t i = 0; i < rows * 8; ++i)
    t->c[i] = pv_addend(m->acc_format, index, kind, tile, tile * rows * 8 + i);
}

/* t->d = A B + C on the library. */
static inline void multiply_tile(struct tile *t, const struct matrix_case *m,
                                 struct ts_mma_scratch *scratch, unsigned flags) {
  const struct ts_mma_op *op =
      ts_mma_find(TS_MMA_PROFILE_nv_sm90, m->path, m->a, m->b, m->acc, m->k);
  uint32_t rows = tile_rows(m), bits = ts_dtype_bits(m->a), c[64 * 8], d[64 * 8];
  size_t line_bytes = m->k * bits / 8;
  flags |= m->flags;
  ts_mma_prepare_a(op, scratch, rows, 1, t->a, line_bytes, bits / 8, flags);
  ts_mma_prepare_b(op, scratch, 8, 1, t->b, line_bytes, bits / 8, flags);
  if (m->acc == TS_DTYPE_f64) {
    ts_mma_multiply(op, scratch, 0, rows, 8, 1, t->c, t->d, 8, flags);
    return;
  }
  for (uint32_t i = 0; i < rows * 8; ++i)
    c[i] = (uint32_t)t->c[i];
  ts_mma_multiply(op, scratch, 0, rows, 8, 1, c, d, 8, flags);
  for (uint32_t i = 0; i < rows * 8; ++i)
    t->d[i] = d[i];
}

/* Fingerprint of the first count results. */
static inline uint64_t matrix_fingerprint(uint32_t index, uint32_t kind, uint64_t first,
                                          uint64_t count, struct ts_mma_scratch *scratch,
                                          unsigned flags) {
  const struct matrix_case *m = &matrix_cases[index];
  uint32_t elements = tile_rows(m) * 8;
  struct tile t;
  uint64_t sum = 0;
  for (uint64_t tile = first / elements; tile < (first + count) / elements; ++tile) {
    fill_tile(&t, index, kind, tile);
    multiply_tile(&t, m, scratch, flags);
    for (uint32_t i = 0; i < elements; ++i)
      sum += pv_term(tile * elements + i, t.d[i]);
  }
  return sum;
}

/* Elements ------------------------------------------------------------------------------------- */

enum lookup {
  LOOKUP_UNARY = 1,
  LOOKUP_BINARY,
  LOOKUP_TERNARY,
  LOOKUP_CONVERT,
  LOOKUP_SWAPPED,
  LOOKUP_RED_F64
};

struct element_case {
  const char *name;
  enum lookup lookup;
  enum ts_dtype in, out;
  int format;
  enum ts_num_op op;
  unsigned flags;
  bool sweeps;
};

#define SWEEP_ALL true
#define SWEEP_NONE false
#define TS_NUM_NONE TS_NUM_OP_COUNT
static const struct element_case element_cases[] = {
#define ELEMENT(name, lookup, in, out, op, flags, sweep, body)                                     \
  {#name,   LOOKUP_##lookup, TS_DTYPE_##in, TS_DTYPE_##out,                                        \
   PV_##in, TS_NUM_##op,     flags,         SWEEP_##sweep},
#include "num/device/elementwise_cases.def"
#undef ELEMENT
};
enum { ELEMENT_CASES = sizeof element_cases / sizeof element_cases[0], ELEMENT_PIECE = 1024 };

static inline uint32_t element_arity(const struct element_case *e) {
  if (e->lookup == LOOKUP_CONVERT) return 1;
  return e->lookup > LOOKUP_CONVERT ? 2 : (uint32_t)e->lookup;
}

/* Slots of one operand or result: 32 or 64 bits each. */
union slots {
  uint32_t narrow[ELEMENT_PIECE];
  uint64_t wide[ELEMENT_PIECE];
};

static inline void set_slot(union slots *s, enum ts_dtype dtype, size_t i, uint64_t encoding) {
  if (ts_dtype_slot_bytes(dtype) == 8)
    s->wide[i] = encoding;
  else
    s->narrow[i] = (uint32_t)ts_dtype_slot(dtype, encoding);
}

static inline uint64_t get_slot(const union slots *s, enum ts_dtype dtype, size_t i) {
  return ts_dtype_slot_bytes(dtype) == 8 ? s->wide[i] : s->narrow[i];
}

/* False when the library has no such operation. */
static inline bool evaluate(const struct element_case *e, union slots *d, const union slots x[3],
                            size_t count) {
  bool swapped = e->lookup == LOOKUP_SWAPPED;
  ts_unary_fn one = e->lookup == LOOKUP_CONVERT ? ts_num_convert(e->out, e->in, e->flags)
                                                : ts_num_unary(e->op, e->in, e->flags);
  ts_binary_fn two = ts_num_binary(e->op, e->in, e->flags);
  ts_ternary_fn three = ts_num_ternary(e->op, e->in, e->flags);
  const struct ts_scalar_op *red = ts_scalar_find("red.global.add.f64");
  switch (e->lookup) {
  case LOOKUP_UNARY:
  case LOOKUP_CONVERT:
    if (one != NULL) one(d, &x[0], count);
    return one != NULL;
  case LOOKUP_BINARY:
  case LOOKUP_SWAPPED:
    if (two != NULL) two(d, &x[swapped], &x[!swapped], count);
    return two != NULL;
  case LOOKUP_TERNARY:
    if (three != NULL) three(d, &x[0], &x[1], &x[2], count);
    return three != NULL;
  case LOOKUP_RED_F64:
    if (red != NULL)
      ts_scalar_run(red, d, TS_DTYPE_f64, (const void *const[]){&x[0], &x[1]},
                    (const enum ts_dtype[]){TS_DTYPE_f64, TS_DTYPE_f64}, count);
    return red != NULL;
  }
  return false;
}

static inline uint64_t sum_piece(const struct element_case *e, const union slots x[3],
                                 uint64_t first, size_t count, bool *known) {
  union slots d;
  uint64_t sum = 0;
  *known = evaluate(e, &d, x, count);
  for (size_t i = 0; i < count && *known; ++i)
    sum += pv_term(first + i, get_slot(&d, e->out, i));
  return sum;
}

static inline uint64_t kind_fingerprint(uint32_t index, uint32_t kind, uint64_t first,
                                        uint64_t count, bool *known) {
  const struct element_case *e = &element_cases[index];
  union slots x[3];
  uint32_t arity = element_arity(e);
  uint64_t sum = 0;
  for (uint64_t piece = first; piece < first + count; piece += ELEMENT_PIECE) {
    for (uint32_t role = 0; role < arity; ++role)
      for (size_t i = 0; i < ELEMENT_PIECE; ++i)
        set_slot(&x[role], e->in, i, pv_operand(e->format, index, kind, role, arity, piece + i));
    sum += sum_piece(e, x, piece, ELEMENT_PIECE, known);
  }
  return sum;
}

/* Arguments of a sweep: one operand, or two 16-bit ones; 0 for cases without. */
static inline uint64_t sweep_count(const struct element_case *e) {
  return e->sweeps ? UINT64_C(1) << (pv_format_of(e->format).bits * element_arity(e)) : 0;
}

static inline uint32_t sweep_parts(const struct element_case *e) {
  uint64_t count = sweep_count(e);
  return count > 65536 ? PV_SWEEP_PARTS : count > 0;
}

static inline uint64_t sweep_fingerprint(const struct element_case *e, uint64_t first,
                                         uint64_t count, bool *known) {
  union slots x[3];
  bool two = element_arity(e) == 2;
  uint64_t sum = 0;
  for (uint64_t piece = first; piece < first + count; piece += ELEMENT_PIECE) {
    size_t n = first + count - piece < ELEMENT_PIECE ? (size_t)(first + count - piece)
                                                     : (size_t)ELEMENT_PIECE;
    for (size_t i = 0; i < n; ++i) {
      set_slot(&x[0], e->in, i, two ? (piece + i) >> 16 : piece + i);
      if (two) set_slot(&x[1], e->in, i, (piece + i) & 0xffff);
    }
    sum += sum_piece(e, x, piece, n, known);
  }
  return sum;
}

#endif
