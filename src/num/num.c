/* Look-ups: which function does an operation on this host. */
#include "num/num_priv.h"

static const struct {
  const char *name;
  uint8_t arity;
  bool gives_bool;
} op_table[TS_NUM_OP_COUNT] = {
#define SAME false
#define BOOL true
#define NUM_OP(name, arity, result, formula) [TS_NUM_##name] = {#name, arity, result},
#include "num/num_op.def"
#undef NUM_OP
#undef SAME
#undef BOOL
};

const char *ts_num_op_name(enum ts_num_op op) {
  return (unsigned)op < TS_NUM_OP_COUNT ? op_table[op].name : "?";
}

unsigned ts_num_op_arity(enum ts_num_op op) {
  return (unsigned)op < TS_NUM_OP_COUNT ? op_table[op].arity : 0;
}

bool ts_num_op_gives_bool(enum ts_num_op op) {
  return (unsigned)op < TS_NUM_OP_COUNT && op_table[op].gives_bool;
}

enum ts_isa ts_num_isa(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  bool fma = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  bool avx512 = fma && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (avx512 && ts__elementwise_avx512.unary != NULL) return TS_ISA_AVX512;
  if (fma && ts__elementwise_avx2.unary != NULL) return TS_ISA_AVX2;
#endif
  return TS_ISA_PORTABLE;
}

const char *ts_isa_name(enum ts_isa isa) {
  static const char *const names[TS_ISA_COUNT] = {"portable", "avx2", "avx512"};
  return (unsigned)isa < TS_ISA_COUNT ? names[isa] : "?";
}

const struct ts__elementwise *ts__elementwise_of(enum ts_isa isa) {
  switch (isa) {
  case TS_ISA_AVX512: return &ts__elementwise_avx512;
  case TS_ISA_AVX2: return &ts__elementwise_avx2;
  default: return &ts__elementwise_portable;
  }
}

static bool known(enum ts_num_op op, enum ts_dtype dtype, unsigned arity) {
  return (unsigned)dtype < TS_DTYPE_COUNT && ts_num_op_arity(op) == arity;
}

/* Whether flags ask for a rounding that the usual kernels do not have. */
static bool directed(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  unsigned rounding = flags & TS_NUM_ROUND_MASK;
  bool rounds = op == TS_NUM_add || op == TS_NUM_sub || op == TS_NUM_mul || op == TS_NUM_div ||
                op == TS_NUM_fma || op == TS_NUM_rcp || op == TS_NUM_sqrt;
  return rounds && rounding != 0 && rounding != TS_NUM_RN && ts_dtype_is_float(dtype) &&
         !(flags & TS_NUM_APPROX);
}

ts_unary_fn ts_num_unary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  if (!known(op, dtype, 1)) return NULL;
  if (directed(op, dtype, flags)) return ts__directed_unary(op, dtype, flags);
  return ts__elementwise_of(ts_num_isa())->unary(op, dtype, flags);
}

ts_binary_fn ts_num_binary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  if (!known(op, dtype, 2)) return NULL;
  if (directed(op, dtype, flags)) return ts__directed_binary(op, dtype, flags);
  return ts__elementwise_of(ts_num_isa())->binary(op, dtype, flags);
}

ts_ternary_fn ts_num_ternary(enum ts_num_op op, enum ts_dtype dtype, unsigned flags) {
  if (!known(op, dtype, 3)) return NULL;
  if (directed(op, dtype, flags)) return ts__directed_ternary(op, dtype, flags);
  return ts__elementwise_of(ts_num_isa())->ternary(op, dtype, flags);
}

ts_binary_fn ts_num_compare(enum ts_num_op op, enum ts_dtype dtype) {
  return ts_num_op_gives_bool(op) ? ts_num_binary(op, dtype, 0) : NULL;
}

static void copy_slots32(void *dst, const void *a, size_t n) {
  uint32_t *out = dst;
  const uint32_t *in = a;
  for (size_t i = 0; i < n; ++i)
    out[i] = in[i];
}

static void copy_slots64(void *dst, const void *a, size_t n) {
  uint64_t *out = dst;
  const uint64_t *in = a;
  for (size_t i = 0; i < n; ++i)
    out[i] = in[i];
}

ts_unary_fn ts_num_convert(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags) {
  if ((unsigned)dst_dtype >= TS_DTYPE_COUNT || (unsigned)src_dtype >= TS_DTYPE_COUNT) return NULL;
  unsigned rounding = flags & TS_NUM_ROUND_MASK;
  if (dst_dtype == src_dtype && rounding == 0)
    return ts_dtype_slot_bytes(dst_dtype) == 8 ? copy_slots64 : copy_slots32;
  ts_unary_fn fast = ts__elementwise_of(ts_num_isa())
                         ->convert(dst_dtype, src_dtype, flags & ~(unsigned)TS_NUM_FTZ);
  return fast != NULL ? fast : ts__exact_convert_find(dst_dtype, src_dtype, flags);
}

/* Single encodings: the same kernels on arrays of one slot. ------------------------------------ */

union slot {
  uint32_t narrow;
  uint64_t wide;
};

static union slot slot_of(enum ts_dtype dtype, uint64_t encoding) {
  union slot slot = {.wide = 0};
  if (ts_dtype_slot_bytes(dtype) == 8)
    slot.wide = encoding;
  else
    slot.narrow = (uint32_t)ts_dtype_slot(dtype, encoding);
  return slot;
}

static uint64_t encoding_of(enum ts_dtype dtype, union slot slot) {
  bool wide = ts_dtype_slot_bytes(dtype) == 8;
  return ts_dtype_encoding(dtype, wide ? slot.wide : slot.narrow);
}

static enum ts_dtype result_dtype(enum ts_num_op op, enum ts_dtype dtype) {
  return ts_num_op_gives_bool(op) ? TS_DTYPE_pred : dtype;
}

uint64_t ts_num_eval1(enum ts_num_op op, enum ts_dtype dtype, unsigned flags, uint64_t a) {
  ts_unary_fn function = ts_num_unary(op, dtype, flags);
  union slot result = {.wide = 0}, x = slot_of(dtype, a);
  if (function == NULL) return 0;
  function(&result, &x, 1);
  return encoding_of(result_dtype(op, dtype), result);
}

uint64_t ts_num_eval2(enum ts_num_op op, enum ts_dtype dtype, unsigned flags, uint64_t a,
                      uint64_t b) {
  ts_binary_fn function = ts_num_binary(op, dtype, flags);
  union slot result = {.wide = 0}, x = slot_of(dtype, a), y = slot_of(dtype, b);
  if (function == NULL) return 0;
  function(&result, &x, &y, 1);
  return encoding_of(result_dtype(op, dtype), result);
}

uint64_t ts_num_eval3(enum ts_num_op op, enum ts_dtype dtype, unsigned flags, uint64_t a,
                      uint64_t b, uint64_t c) {
  ts_ternary_fn function = ts_num_ternary(op, dtype, flags);
  union slot result = {.wide = 0}, x = slot_of(dtype, a), y = slot_of(dtype, b);
  union slot z = slot_of(dtype, c);
  if (function == NULL) return 0;
  function(&result, &x, &y, &z, 1);
  return encoding_of(result_dtype(op, dtype), result);
}

uint64_t ts_num_convert1(enum ts_dtype dst_dtype, enum ts_dtype src_dtype, unsigned flags,
                         uint64_t encoding) {
  ts_unary_fn function = ts_num_convert(dst_dtype, src_dtype, flags);
  union slot result = {.wide = 0}, x = slot_of(src_dtype, encoding);
  if (function == NULL) return 0;
  function(&result, &x, 1);
  return encoding_of(dst_dtype, result);
}
