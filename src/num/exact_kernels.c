/* Slot loops around the scalar core, for what the vector kernels do not have: directed roundings
 * and the less usual conversions. One function per combination, so that a look-up can answer a
 * plain function pointer. */
#include "num/num_priv.h"

/* Conversions ---------------------------------------------------------------------------------- */

static void convert_loop(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags,
                         void *dst, const void *a, size_t n) {
  for (size_t i = 0; i < n; ++i)
    ts__slot_set(dst_dtype, dst, i,
                 ts__exact_convert(dst_dtype, src_dtype, flags, ts__slot_get(src_dtype, a, i)));
}

/* clang-format off */
#define EACH_FLOAT(X, ...) X(f16, __VA_ARGS__) X(bf16, __VA_ARGS__) X(f32, __VA_ARGS__) \
  X(f64, __VA_ARGS__) X(tf32, __VA_ARGS__) X(e4m3, __VA_ARGS__) X(e5m2, __VA_ARGS__) \
  X(e8m0, __VA_ARGS__) X(e2m3, __VA_ARGS__) X(e3m2, __VA_ARGS__) X(e2m1, __VA_ARGS__)
#define EACH_INT(X, ...) X(s4, __VA_ARGS__) X(u4, __VA_ARGS__) X(s8, __VA_ARGS__) \
  X(u8, __VA_ARGS__) X(s16, __VA_ARGS__) X(u16, __VA_ARGS__) X(s32, __VA_ARGS__) \
  X(u32, __VA_ARGS__) X(s64, __VA_ARGS__) X(u64, __VA_ARGS__)
#define EACH_TO_INT(X, ...) EACH_INT(X, __VA_ARGS__) X(pred, __VA_ARGS__)

/* Every combination there is: C(dst, src, suffix, flags). */
#define C_DST(dst, C, src, suffix, flags) C(dst, src, suffix, flags)
#define FLOAT_TO_FLOAT(src, C, suffix, flags) EACH_FLOAT(C_DST, C, src, suffix, flags)
#define FLOAT_TO_INT(src, C, suffix, flags) EACH_TO_INT(C_DST, C, src, suffix, flags)
#define INT_TO_FLOAT(src, C, suffix, flags) EACH_FLOAT(C_DST, C, src, suffix, flags)
#define INT_TO_INT(src, C, suffix, flags) EACH_TO_INT(C_DST, C, src, suffix, flags)
#define USUAL(X, C, suffix, flags) \
  X(f16, C, suffix, flags) X(bf16, C, suffix, flags) X(f32, C, suffix, flags) X(f64, C, suffix, flags)
#define ALL_FLOATS(X, C, suffix, flags) USUAL(X, C, suffix, flags) X(tf32, C, suffix, flags) \
  X(e4m3, C, suffix, flags) X(e5m2, C, suffix, flags) X(e8m0, C, suffix, flags) \
  X(e2m3, C, suffix, flags) X(e3m2, C, suffix, flags) X(e2m1, C, suffix, flags)
#define WIDE_INTS(X, C, suffix, flags) \
  X(s32, C, suffix, flags) X(u32, C, suffix, flags) X(s64, C, suffix, flags) X(u64, C, suffix, flags)
#define ALL_INTS(X, C, suffix, flags) WIDE_INTS(X, C, suffix, flags) X(s4, C, suffix, flags) \
  X(u4, C, suffix, flags) X(s8, C, suffix, flags) X(u8, C, suffix, flags) X(s16, C, suffix, flags) \
  X(u16, C, suffix, flags) X(pred, C, suffix, flags)

#define TO_FLOAT_RN(C) ALL_FLOATS(FLOAT_TO_FLOAT, C, rn, TS_NUM_RN) ALL_INTS(INT_TO_FLOAT, C, rn, TS_NUM_RN)
#define TO_FLOAT_RN_SAT(C) ALL_FLOATS(FLOAT_TO_FLOAT, C, rn_fin, TS_NUM_RN | TS_NUM_SATFINITE)
#define TO_FLOAT_RZ(C) USUAL(FLOAT_TO_FLOAT, C, rz, TS_NUM_RZ) WIDE_INTS(INT_TO_FLOAT, C, rz, TS_NUM_RZ)
#define TO_FLOAT_RM(C) USUAL(FLOAT_TO_FLOAT, C, rm, TS_NUM_RM) WIDE_INTS(INT_TO_FLOAT, C, rm, TS_NUM_RM)
#define TO_FLOAT_RP(C) USUAL(FLOAT_TO_FLOAT, C, rp, TS_NUM_RP) WIDE_INTS(INT_TO_FLOAT, C, rp, TS_NUM_RP)
#define TO_FLOAT_RZ_SAT(C) USUAL(FLOAT_TO_FLOAT, C, rz_fin, TS_NUM_RZ | TS_NUM_SATFINITE)
#define TO_FLOAT_RP_SAT(C) USUAL(FLOAT_TO_FLOAT, C, rp_fin, TS_NUM_RP | TS_NUM_SATFINITE)
#define TO_FLOAT_RNA(C) USUAL(FLOAT_TO_FLOAT, C, rna, TS_NUM_RNA)
#define TO_FLOAT_RNA_SAT(C) USUAL(FLOAT_TO_FLOAT, C, rna_fin, TS_NUM_RNA | TS_NUM_SATFINITE)
#define TO_FLOAT_RO(C) USUAL(FLOAT_TO_FLOAT, C, ro, TS_NUM_RO)
#define TO_INT_RZ(C) ALL_FLOATS(FLOAT_TO_INT, C, irz, TS_NUM_RZ)
#define TO_INT_RN(C) USUAL(FLOAT_TO_INT, C, irn, TS_NUM_RN)
#define TO_INT_RNA(C) USUAL(FLOAT_TO_INT, C, irna, TS_NUM_RNA)
#define TO_INT_RM(C) USUAL(FLOAT_TO_INT, C, irm, TS_NUM_RM)
#define TO_INT_RP(C) USUAL(FLOAT_TO_INT, C, irp, TS_NUM_RP)
#define TO_INT_RZ_SAT(C) USUAL(FLOAT_TO_INT, C, irz_sat, TS_NUM_RZ | TS_NUM_SAT) ALL_INTS(INT_TO_INT, C, irz_sat, TS_NUM_RZ | TS_NUM_SAT)
#define TO_INT_RN_SAT(C) USUAL(FLOAT_TO_INT, C, irn_sat, TS_NUM_RN | TS_NUM_SAT)
#define TO_INT_RM_SAT(C) USUAL(FLOAT_TO_INT, C, irm_sat, TS_NUM_RM | TS_NUM_SAT)
#define TO_INT_RP_SAT(C) USUAL(FLOAT_TO_INT, C, irp_sat, TS_NUM_RP | TS_NUM_SAT)
/* clang-format on */

/* VARIANT(list, flags): the flags are matched after the default rounding has been filled in. */
#define TO_FLOAT_VARIANTS(V)                                                                       \
  V(TO_FLOAT_RN, TS_NUM_RN)                                                                        \
  V(TO_FLOAT_RN_SAT, TS_NUM_RN | TS_NUM_SATFINITE)                                                 \
  V(TO_FLOAT_RZ, TS_NUM_RZ)                                                                        \
  V(TO_FLOAT_RM, TS_NUM_RM)                                                                        \
  V(TO_FLOAT_RP, TS_NUM_RP)                                                                        \
  V(TO_FLOAT_RZ_SAT, TS_NUM_RZ | TS_NUM_SATFINITE)                                                 \
  V(TO_FLOAT_RP_SAT, TS_NUM_RP | TS_NUM_SATFINITE)                                                 \
  V(TO_FLOAT_RNA, TS_NUM_RNA)                                                                      \
  V(TO_FLOAT_RNA_SAT, TS_NUM_RNA | TS_NUM_SATFINITE)                                               \
  V(TO_FLOAT_RO, TS_NUM_RO)
#define TO_INT_VARIANTS(V)                                                                         \
  V(TO_INT_RZ, TS_NUM_RZ)                                                                          \
  V(TO_INT_RN, TS_NUM_RN)                                                                          \
  V(TO_INT_RNA, TS_NUM_RNA)                                                                        \
  V(TO_INT_RM, TS_NUM_RM)                                                                          \
  V(TO_INT_RP, TS_NUM_RP)                                                                          \
  V(TO_INT_RZ_SAT, TS_NUM_RZ | TS_NUM_SAT)                                                         \
  V(TO_INT_RN_SAT, TS_NUM_RN | TS_NUM_SAT)                                                         \
  V(TO_INT_RM_SAT, TS_NUM_RM | TS_NUM_SAT)                                                         \
  V(TO_INT_RP_SAT, TS_NUM_RP | TS_NUM_SAT)

#define DEFINE(dst_type, src_type, suffix, flags)                                                  \
  static void convert_##dst_type##_##src_type##_##suffix(void *dst, const void *a, size_t n) {     \
    convert_loop(TS_DTYPE_##dst_type, TS_DTYPE_##src_type, flags, dst, a, n);                      \
  }
#define DEFINE_ALL(list, flags) list(DEFINE)
TO_FLOAT_VARIANTS(DEFINE_ALL)
TO_INT_VARIANTS(DEFINE_ALL)

#define ENTRY(dst, src, suffix, flags)                                                             \
  [TS_DTYPE_##dst][TS_DTYPE_##src] = convert_##dst##_##src##_##suffix,
#define TABLE(list, flags) {flags, {list(ENTRY)}},
static const struct {
  unsigned flags;
  ts_unary_fn functions[TS_DTYPE_COUNT][TS_DTYPE_COUNT];
} convert_table[] = {TO_FLOAT_VARIANTS(TABLE) TO_INT_VARIANTS(TABLE)};

ts_unary_fn ts__exact_convert_find(enum ts_dtype dst, enum ts_dtype src, unsigned flags) {
  bool to_float = ts_dtype_is_float(dst);
  unsigned wanted = flags & (TS_NUM_ROUND_MASK | (to_float ? TS_NUM_SATFINITE : TS_NUM_SAT));
  if ((flags & TS_NUM_ROUND_MASK) == 0) wanted |= to_float ? TS_NUM_RN : TS_NUM_RZ;
  if (!ts_dtype_is_float(src) && !to_float) wanted = TS_NUM_RZ | (wanted & TS_NUM_SAT);
  /* A narrow source has nothing to round or clamp beyond the default. */
  for (size_t i = 0; i < sizeof convert_table / sizeof convert_table[0]; ++i) {
    ts_unary_fn function = convert_table[i].functions[dst][src];
    if (convert_table[i].flags == wanted && function != NULL) return function;
  }
  return NULL;
}

/* Directed roundings --------------------------------------------------------------------------- */

static uint64_t apply(enum ts_num_op op, enum ts_dtype dtype, unsigned flags, uint64_t a,
                      uint64_t b, uint64_t c) {
  switch (op) {
  case TS_NUM_add: return ts__exact_add(dtype, flags, a, b);
  case TS_NUM_sub: return ts__exact_sub(dtype, flags, a, b);
  case TS_NUM_mul: return ts__exact_mul(dtype, flags, a, b);
  case TS_NUM_div: return ts__exact_div(dtype, flags, a, b);
  case TS_NUM_fma: return ts__exact_fma(dtype, flags, a, b, c);
  case TS_NUM_rcp: return ts__exact_div(dtype, flags, ts_dtype_one(dtype), a);
  case TS_NUM_sqrt: return ts__exact_sqrt(dtype, flags, a);
  default: return 0;
  }
}

#define UNARY(op, T, suffix, flags)                                                                \
  static void op##_##T##_##suffix(void *dst, const void *a, size_t n) {                            \
    enum ts_dtype t = TS_DTYPE_##T;                                                                \
    for (size_t i = 0; i < n; ++i)                                                                 \
      ts__slot_set(t, dst, i, apply(TS_NUM_##op, t, flags, ts__slot_get(t, a, i), 0, 0));          \
  }
#define BINARY(op, T, suffix, flags)                                                               \
  static void op##_##T##_##suffix(void *dst, const void *a, const void *b, size_t n) {             \
    enum ts_dtype t = TS_DTYPE_##T;                                                                \
    for (size_t i = 0; i < n; ++i)                                                                 \
      ts__slot_set(t, dst, i,                                                                      \
                   apply(TS_NUM_##op, t, flags, ts__slot_get(t, a, i), ts__slot_get(t, b, i), 0)); \
  }
#define TERNARY(op, T, suffix, flags)                                                              \
  static void op##_##T##_##suffix(void *dst, const void *a, const void *b, const void *c,          \
                                  size_t n) {                                                      \
    enum ts_dtype t = TS_DTYPE_##T;                                                                \
    for (size_t i = 0; i < n; ++i)                                                                 \
      ts__slot_set(t, dst, i,                                                                      \
                   apply(TS_NUM_##op, t, flags, ts__slot_get(t, a, i), ts__slot_get(t, b, i),      \
                         ts__slot_get(t, c, i)));                                                  \
  }
#define OPERATIONS(T, suffix, flags)                                                               \
  BINARY(add, T, suffix, flags)                                                                    \
  BINARY(sub, T, suffix, flags)                                                                    \
  BINARY(mul, T, suffix, flags)                                                                    \
  BINARY(div, T, suffix, flags)                                                                    \
  UNARY(rcp, T, suffix, flags)                                                                     \
  UNARY(sqrt, T, suffix, flags)                                                                    \
  TERNARY(fma, T, suffix, flags)
/* DIRECTED(X): X(dtype, suffix, flags) for each variant. */
#define DIRECTED(X)                                                                                \
  X(f32, rz, TS_NUM_RZ)                                                                            \
  X(f32, rm, TS_NUM_RM)                                                                            \
  X(f32, rp, TS_NUM_RP)                                                                            \
  X(f32, rz_ftz, TS_NUM_RZ | TS_NUM_FTZ)                                                           \
  X(f32, rm_ftz, TS_NUM_RM | TS_NUM_FTZ)                                                           \
  X(f32, rp_ftz, TS_NUM_RP | TS_NUM_FTZ)                                                           \
  X(f64, rz, TS_NUM_RZ)                                                                            \
  X(f64, rm, TS_NUM_RM)                                                                            \
  X(f64, rp, TS_NUM_RP)
DIRECTED(OPERATIONS)

#define ROW(T, suffix, flags)                                                                      \
  {TS_DTYPE_##T,       flags,                                                                      \
   rcp_##T##_##suffix, sqrt_##T##_##suffix,                                                        \
   add_##T##_##suffix, sub_##T##_##suffix,                                                         \
   mul_##T##_##suffix, div_##T##_##suffix,                                                         \
   fma_##T##_##suffix},
static const struct {
  enum ts_dtype dtype;
  unsigned flags;
  ts_unary_fn rcp, sqrt;
  ts_binary_fn add, sub, mul, div;
  ts_ternary_fn fma;
} directed_table[] = {DIRECTED(ROW)};

static size_t directed_row(enum ts_dtype dtype, unsigned flags) {
  unsigned wanted = flags & (TS_NUM_ROUND_MASK | (dtype == TS_DTYPE_f32 ? TS_NUM_FTZ : 0));
  size_t i = 0, count = sizeof directed_table / sizeof directed_table[0];
  while (i < count && (directed_table[i].dtype != dtype || directed_table[i].flags != wanted))
    ++i;
  return i < count ? i : SIZE_MAX;
}

ts_unary_fn ts__directed_unary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  size_t row = directed_row(dtype, flags);
  if (row == SIZE_MAX) return NULL;
  return op == TS_NUM_rcp    ? directed_table[row].rcp
         : op == TS_NUM_sqrt ? directed_table[row].sqrt
                             : NULL;
}

ts_binary_fn ts__directed_binary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  size_t row = directed_row(dtype, flags);
  if (row == SIZE_MAX) return NULL;
  switch (op) {
  case TS_NUM_add: return directed_table[row].add;
  case TS_NUM_sub: return directed_table[row].sub;
  case TS_NUM_mul: return directed_table[row].mul;
  case TS_NUM_div: return directed_table[row].div;
  default: return NULL;
  }
}

ts_ternary_fn ts__directed_ternary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  size_t row = directed_row(dtype, flags);
  return row == SIZE_MAX || op != TS_NUM_fma ? NULL : directed_table[row].fma;
}
