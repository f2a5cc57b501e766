/* Emitting with typed values: the thin layer between the lowering and ir/build.h. */
#include "front/tvm/lower_priv.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

void ts__lower_fail(struct ts__lower *lower, enum ts_status status, enum ts_diag_code code,
                    const char *format, ...) {
  if (lower->status != TS_OK) return;
  va_list arguments;
  va_start(arguments, format);
  const char *text = ts_arena_vprintf(lower->scratch, format, arguments);
  va_end(arguments);
  const char *function = lower->func ? lower->func->name : "device module";
  struct ts_source_place place = lower->place;
  if (!place.file) place = TS_FILE_PLACE(lower->device->path);
  lower->status = text ? ts_fail(lower->ctx, status, code, place, "%s: %s", function, text)
                       : ts_fail_memory(lower->ctx);
}

bool ts__lower_step(struct ts__lower *lower) {
  enum { STEP_MAX = 1 << 24 };
  if (++lower->step_count <= STEP_MAX) return lower->status == TS_OK;
  ts__lower_fail(lower, TS_LIMIT, TS_DIAG_LIMIT, "the function has more than %d operations",
                 (int)STEP_MAX);
  return false;
}

void ts__lower_unknown(struct ts__lower *lower, const char *format, ...) {
  if (lower->status != TS_OK) return;
  va_list arguments;
  va_start(arguments, format);
  const char *text = ts_arena_vprintf(lower->scratch, format, arguments);
  va_end(arguments);
  ts__lower_fail(lower, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, "%s is not supported",
                 text ? text : "this");
}

void ts__attr_set(struct ts__attrs *attrs, enum ts_attr_id id, int64_t value) {
  attrs->items[attrs->count++] = (struct ts_attr){(uint32_t)id, value};
}

void ts__attr_add(struct ts__attrs *attrs, enum ts_attr_id id, int64_t value) {
  if (value) ts__attr_set(attrs, id, value);
}

struct ts_type ts__scalar_type(enum ts_dtype dtype) {
  return (struct ts_type){(uint8_t)dtype, 1};
}

struct ts_type ts__lower_type(struct ts__lower *lower, struct tir_dtype dtype) {
  if (dtype.elem == TS_DTYPE_NONE || dtype.lanes == 0 || dtype.lanes > TS_MAX_VECTOR_LANES) {
    ts__lower_unknown(lower, "a value of dtype '%s'", dtype.text);
    return ts__scalar_type(TS_DTYPE_s32);
  }
  return (struct ts_type){(uint8_t)dtype.elem, (uint8_t)dtype.lanes};
}

/* --- constants */

static uint64_t encoding_mask(enum ts_dtype dtype) {
  unsigned bits = dtype == TS_DTYPE_pred ? 1 : ts_dtype_bits(dtype);
  return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

struct ts__value ts__value_encoding(struct ts__lower *lower, struct ts_type type,
                                    uint64_t encoding) {
  struct ts_operand operand = ts_build_imm(lower->build, encoding & encoding_mask(type.dtype));
  return (struct ts__value){.operand = operand, .type = type};
}

struct ts__value ts__value_imm(struct ts__lower *lower, struct ts_type type, int64_t value) {
  if (ts_dtype_is_float(type.dtype)) return ts__value_float(lower, type, (double)value);
  return ts__value_encoding(lower, type, (uint64_t)value);
}

struct ts__value ts__value_none(void) {
  return (struct ts__value){.operand = {TS_OPERAND_IMM, 0}};
}

bool ts__value_constant(const struct ts__lower *lower, struct ts__value value, int64_t *out) {
  uint64_t encoding;
  if (!ts_build_is_constant(lower->build, value.operand, &encoding)) return false;
  unsigned bits = ts_dtype_bits(value.type.dtype);
  if (ts_dtype_is_signed_int(value.type.dtype) && bits < 64 && encoding >> (bits - 1) & 1)
    encoding |= ~encoding_mask(value.type.dtype);
  *out = (int64_t)encoding;
  return true;
}

bool ts__value_is(const struct ts__lower *lower, struct ts__value value, int64_t constant) {
  int64_t found;
  return ts__value_constant(lower, value, &found) && found == constant;
}

static uint64_t bits_of_double(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* magnitude * 2^-shift to nearest, ties to even. */
static uint64_t shift_to_nearest(uint64_t magnitude, unsigned shift) {
  if (shift == 0) return magnitude;
  if (shift > 63) return 0;
  uint64_t quotient = magnitude >> shift, rest = magnitude & ((UINT64_C(1) << shift) - 1);
  uint64_t half = UINT64_C(1) << (shift - 1);
  return quotient + (rest > half || (rest == half && (quotient & 1)));
}

/* A binary32 value as a narrower float, nearest even; what does not fit becomes infinite, or the
 * largest value where there is no infinity. */
static uint64_t narrow_float(enum ts_dtype dtype, float value) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  uint64_t sign = (uint64_t)(signbit(value) != 0) << (info->bits - 1);
  if (isnan(value)) return ts_dtype_nan(dtype);
  uint64_t infinity = ((UINT64_C(1) << info->exponent_bits) - 1) << info->mantissa_bits;
  uint64_t overflow = info->special == TS_SPECIAL_IEEE ? infinity : ts_dtype_max_finite(dtype);
  if (isinf(value)) return sign | overflow;
  uint32_t bits = bits_of_float(value) & 0x7fffffff;
  int exponent = (int)(bits >> 23);
  uint64_t mantissa = (bits & 0x7fffff) | (exponent ? 0x800000 : 0);
  if (mantissa == 0) return sign;
  /* value = mantissa * 2^(exponent - 150), exponent at least 1 */
  int scaled = (exponent ? exponent : 1) - 127 + info->bias;
  int shift = 23 - info->mantissa_bits + (scaled < 1 ? 1 - scaled : 0);
  uint64_t rounded = shift_to_nearest(mantissa, (unsigned)shift);
  uint64_t base = scaled < 1 ? 0 : (uint64_t)(scaled - 1) << info->mantissa_bits;
  uint64_t magnitude = base + rounded; /* a carry moves the exponent */
  return sign | (magnitude > ts_dtype_max_finite(dtype) ? overflow : magnitude);
}

/* The generated CUDA states constants as binary32 literals and converts from there. */
struct ts__value ts__value_float(struct ts__lower *lower, struct ts_type type, double value) {
  uint64_t encoding = 0;
  switch (type.dtype) {
  case TS_DTYPE_f64: encoding = bits_of_double(value); break;
  case TS_DTYPE_f32:
  case TS_DTYPE_tf32: encoding = bits_of_float((float)value); break;
  default:
    if (!ts_dtype_is_float(type.dtype)) {
      ts__lower_unknown(lower, "a floating-point constant of dtype '%s'",
                        ts_dtype_name(type.dtype));
      break;
    }
    encoding = narrow_float(type.dtype, (float)value);
  }
  if (isnan(value)) encoding = ts_dtype_nan(type.dtype);
  return ts__value_encoding(lower, type, encoding);
}

/* --- instructions */

struct ts_operand ts__lower_emit_raw(struct ts__lower *lower, enum ts_op op, struct ts_type type,
                                     enum ts_dtype dtype2, const struct ts_operand *operands,
                                     uint32_t count, const struct ts__attrs *attrs) {
  struct ts_build_insn insn = {.op = op,
                               .type = type,
                               .dtype2 = dtype2,
                               .operands = operands,
                               .operand_count = count,
                               .attrs = attrs ? attrs->items : NULL,
                               .attr_count = attrs ? attrs->count : 0};
  return ts_build_emit(lower->build, &insn);
}

struct ts__value ts__lower_emit(struct ts__lower *lower, enum ts_op op, struct ts_type type,
                                enum ts_dtype dtype2, const struct ts__value *operands,
                                uint32_t count, const struct ts__attrs *attrs) {
  struct ts_operand raw[TS_MAX_VECTOR_LANES]; /* the builder cuts long concatenations */
  struct ts__value result = {.type = type};
  for (uint32_t i = 0; i < count; i++) {
    raw[i] = operands[i].operand;
    if (operands[i].level > result.level) result.level = operands[i].level;
    result.is_varying |= operands[i].is_varying;
  }
  unsigned flags = ts_op_info(op)->flags;
  if (!(flags & F_PURE)) result.level = lower->level;
  if (flags & F_VARYING) result.is_varying = true;
  result.operand = ts__lower_emit_raw(lower, op, type, dtype2, raw, count, attrs);
  if (op == TS_OP_eq || op == TS_OP_ne || op == TS_OP_lt || op == TS_OP_le)
    result.type.dtype = TS_DTYPE_pred;
  return result;
}

/* --use_fast_math is -ftz=true with the approximate division and square root (DOC, nvcc). */
static void add_fast_math(const struct ts__lower *lower, enum ts_op op, struct ts_type type,
                          struct ts__attrs *attrs) {
  if (!lower->fast_math || type.dtype != TS_DTYPE_f32) return;
  const struct ts_op_info *info = ts_op_info(op);
  if (info->unit != TS_UNIT_SCALAR && info->unit != TS_UNIT_SPECIAL) return;
  ts__attr_add(attrs, TS_ATTR_ftz, 1);
  if (info->unit == TS_UNIT_SPECIAL || op == TS_OP_div) ts__attr_add(attrs, TS_ATTR_approx, 1);
}

/* Types of 8 bits and less, and tf32, are storage: their C++ classes compute in binary32 and round
 * the result. */
static bool is_stored_only(struct ts_type type) {
  return ts_dtype_is_float(type.dtype) &&
         (ts_dtype_bits(type.dtype) <= 8 || type.dtype == TS_DTYPE_tf32);
}

/* A single's result as the type again; comparisons have none. */
static struct ts__value narrowed(struct ts__lower *lower, struct ts__value value,
                                 struct ts_type type) {
  bool is_float = ts_dtype_is_float(value.type.dtype);
  return is_float ? ts__lower_emit_convert(lower, (enum ts_dtype)type.dtype, value) : value;
}

struct ts__value ts__lower_emit_1(struct ts__lower *lower, enum ts_op op, struct ts__value a) {
  struct ts__attrs attrs = {.count = 0};
  if (is_stored_only(a.type)) {
    struct ts__value wide = ts__lower_emit_convert(lower, TS_DTYPE_f32, a);
    return narrowed(lower, ts__lower_emit_1(lower, op, wide), a.type);
  }
  add_fast_math(lower, op, a.type, &attrs);
  return ts__lower_emit(lower, op, a.type, (enum ts_dtype)a.type.dtype, &a, 1, &attrs);
}

struct ts__value ts__lower_emit_2(struct ts__lower *lower, enum ts_op op, struct ts__value a,
                                  struct ts__value b) {
  struct ts__attrs attrs = {.count = 0};
  if (is_stored_only(a.type)) {
    struct ts__value wide[2] = {ts__lower_emit_convert(lower, TS_DTYPE_f32, a),
                                ts__lower_emit_convert(lower, TS_DTYPE_f32, b)};
    return narrowed(lower, ts__lower_emit_2(lower, op, wide[0], wide[1]), a.type);
  }
  add_fast_math(lower, op, a.type, &attrs);
  struct ts__value operands[2] = {a, b};
  return ts__lower_emit(lower, op, a.type, (enum ts_dtype)a.type.dtype, operands, 2, &attrs);
}

struct ts__value ts__lower_emit_select(struct ts__lower *lower, struct ts__value condition,
                                       struct ts__value a, struct ts__value b) {
  struct ts__value operands[3] = {condition, a, b};
  return ts__lower_emit(lower, TS_OP_select, a.type, (enum ts_dtype)a.type.dtype, operands, 3,
                        NULL);
}

struct ts__value ts__lower_emit_convert(struct ts__lower *lower, enum ts_dtype dtype,
                                        struct ts__value value) {
  if (value.type.dtype == dtype) return value;
  struct ts_type type = {(uint8_t)dtype, value.type.lanes};
  struct ts__attrs attrs = {.count = 0};
  bool from_float = ts_dtype_is_float(value.type.dtype), to_float = ts_dtype_is_float(dtype);
  if (from_float && !to_float) ts__attr_add(&attrs, TS_ATTR_round, TS_IR_ROUND_rz);
  if (from_float && to_float && ts_dtype_bits(dtype) <= 8)
    ts__attr_add(&attrs, TS_ATTR_satfinite, 1);
  if (lower->fast_math && value.type.dtype == TS_DTYPE_f32) ts__attr_add(&attrs, TS_ATTR_ftz, 1);
  return ts__lower_emit(lower, TS_OP_cvt, type, (enum ts_dtype)value.type.dtype, &value, 1, &attrs);
}

struct ts__value ts__lower_emit_broadcast(struct ts__lower *lower, struct ts__value value,
                                          uint32_t lanes) {
  uint64_t encoding;
  if (lanes == value.type.lanes) return value;
  struct ts_type type = {value.type.dtype, (uint8_t)lanes};
  if (ts_build_is_constant(lower->build, value.operand, &encoding)) {
    value.type = type; /* an immediate is the same in all components */
    return value;
  }
  return ts__lower_emit(lower, TS_OP_broadcast, type, (enum ts_dtype)type.dtype, &value, 1, NULL);
}

struct ts__value ts__lower_emit_extract(struct ts__lower *lower, struct ts__value value,
                                        uint32_t index) {
  uint64_t encoding;
  struct ts_type type = {value.type.dtype, 1};
  if (value.type.lanes == 1) return value;
  if (ts_build_is_constant(lower->build, value.operand, &encoding)) {
    value.type = type;
    return value;
  }
  struct ts__attrs attrs = {.count = 0};
  ts__attr_add(&attrs, TS_ATTR_source_lanes, value.type.lanes);
  struct ts__value operands[2] = {value,
                                  ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), index)};
  return ts__lower_emit(lower, TS_OP_extract, type, (enum ts_dtype)type.dtype, operands, 2, &attrs);
}

struct ts__value ts__lower_emit_concat(struct ts__lower *lower, const struct ts__value *parts,
                                       uint32_t count) {
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < count; i++)
    lanes += parts[i].type.lanes;
  if (count == 1) return parts[0];
  struct ts_type type = {parts[0].type.dtype, (uint8_t)lanes};
  return ts__lower_emit(lower, TS_OP_concat, type, (enum ts_dtype)type.dtype, parts, count, NULL);
}

struct ts__value ts__lower_emit_sreg(struct ts__lower *lower, enum ts_sreg which) {
  struct ts__attrs attrs = {.count = 0};
  ts__attr_set(&attrs, TS_ATTR_which, which);
  struct ts_type type = ts__scalar_type(TS_DTYPE_s32);
  struct ts__value value = ts__lower_emit(lower, TS_OP_sreg, type, TS_DTYPE_s32, NULL, 0, &attrs);
  value.is_varying = which <= TS_SREG_tid_z || which == TS_SREG_laneid;
  return value;
}

struct ts__value ts__lower_emit_variable(struct ts__lower *lower, struct ts__value value,
                                         const char *name) {
  struct ts__value variable = value;
  variable.operand = ts_build_variable(lower->build, value.type, name);
  ts_build_assign(lower->build, variable.operand, value.operand);
  return variable;
}

void ts__lower_emit_assign(struct ts__lower *lower, struct ts__value variable,
                           struct ts__value value) {
  ts_build_assign(lower->build, variable.operand, value.operand);
}
