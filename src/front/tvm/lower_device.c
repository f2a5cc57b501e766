/* Calls: small functions of CUDA and of TileLang's device library. */
#include "front/tvm/lower_priv.h"

#include <string.h>

/* __frsqrt_rn: through f64, whose two roundings never reach the middle between two f32 (all
 * arguments of two binades were tried). */
struct ts__value ts__builtin_ieee_rsqrt(struct ts__lower *lower, const struct tir_expr *call,
                                        int unused) {
  (void)unused;
  struct ts__value x = ts__lower_arg(lower, call, 0);
  if (x.type.dtype != TS_DTYPE_f32) {
    ts__lower_unknown(lower, "%s of dtype '%s'", call->call.op, ts_dtype_name(x.type.dtype));
    return x;
  }
  struct ts__value wide = ts__lower_emit_convert(lower, TS_DTYPE_f64, x);
  wide = ts__lower_emit_1(lower, TS_OP_sqrt, wide);
  wide = ts__lower_emit_2(lower, TS_OP_div, ts__value_float(lower, wide.type, 1.0), wide);
  return ts__lower_emit_convert(lower, TS_DTYPE_f32, wide);
}

/* (x, y): x multiplied with itself y - 1 times, from the left. */
struct ts__value ts__builtin_pow_of_int(struct ts__lower *lower, const struct tir_expr *call,
                                        int unused) {
  (void)unused;
  struct ts__value x = ts__lower_arg(lower, call, 0), result = x;
  int64_t power = ts__lower_constant(lower, call->call.args.items[1], "the power of pow_of_int");
  if (power > 1024) ts__lower_unknown(lower, "pow_of_int with the power %lld", (long long)power);
  for (int64_t i = 1; i < power && lower->status == TS_OK; i++)
    result = ts__lower_emit_2(lower, TS_OP_mul, result, x);
  return result;
}

/* Four 8-bit values, the first one lowest. */
struct ts__value ts__builtin_pack_b8x4(struct ts__lower *lower, const struct tir_expr *call,
                                       int unused) {
  (void)unused;
  struct ts__value parts[4];
  for (size_t i = 0; i < 4; i++)
    parts[i] = ts__lower_arg(lower, call, i);
  if (ts_dtype_bits(parts[0].type.dtype) != 8 || parts[0].type.lanes != 1) {
    ts__lower_unknown(lower, "%s of dtype '%s'", call->call.op, ts_dtype_name(parts[0].type.dtype));
    return ts__value_u32(lower, 0);
  }
  struct ts__value vector = ts__lower_emit_concat(lower, parts, 4);
  return ts__lower_emit(lower, TS_OP_bitcast, ts__scalar_type(TS_DTYPE_u32),
                        (enum ts_dtype)parts[0].type.dtype, &vector, 1, NULL);
}

/* --- __fns(mask, base, offset): the place of the offset-th set bit from base on, upward, or
 * downward when offset is negative; base itself for 0; all ones when there is none (DOC: CUDA) */

/* The mask without its `count` lowest (highest) bits that are set; count is below 32. */
static struct ts__value drop_bits(struct ts__lower *lower, struct ts__value mask,
                                  struct ts__value count, bool is_upward) {
  for (uint32_t i = 0; i < 31; i++) {
    struct ts__value rest;
    if (is_upward) {
      rest = ts__lower_emit_2(lower, TS_OP_and, mask,
                              ts__lower_emit_2(lower, TS_OP_sub, mask, ts__value_u32(lower, 1)));
    } else {
      struct ts__value top =
          ts__lower_emit_2(lower, TS_OP_shr, ts__value_u32(lower, INT64_C(1) << 31),
                           ts__lower_emit_1(lower, TS_OP_clz, mask));
      rest = ts__lower_emit_2(lower, TS_OP_xor, mask, top);
    }
    struct ts__value goes = ts__lower_emit_2(lower, TS_OP_lt, ts__value_u32(lower, i), count);
    mask = ts__lower_emit_select(lower, goes, rest, mask);
  }
  return mask;
}

struct ts__value ts__builtin_fns(struct ts__lower *lower, const struct tir_expr *call, int unused) {
  (void)unused;
  struct ts__value mask = ts__lower_cast(lower, ts__lower_arg(lower, call, 0), TS_DTYPE_u32);
  struct ts__value base = ts__lower_cast(lower, ts__lower_arg(lower, call, 1), TS_DTYPE_u32);
  struct ts__value offset = ts__lower_cast(lower, ts__lower_arg(lower, call, 2), TS_DTYPE_s32);
  struct ts__value zero = ts__value_imm(lower, offset.type, 0),
                   all = ts__value_u32(lower, UINT32_MAX);
  struct ts__value is_down = ts__lower_emit_2(lower, TS_OP_lt, offset, zero);
  struct ts__value is_here = ts__lower_emit_2(lower, TS_OP_eq, offset, zero);
  struct ts__value up_count = ts__lower_cast(lower, offset, TS_DTYPE_u32);
  struct ts__value down_count =
      ts__lower_emit_2(lower, TS_OP_sub, ts__value_u32(lower, 0), up_count);
  struct ts__value one = ts__value_u32(lower, 1), top = ts__value_u32(lower, 31);
  struct ts__value up =
      ts__lower_emit_2(lower, TS_OP_and, mask, ts__lower_emit_2(lower, TS_OP_shl, all, base));
  struct ts__value down = ts__lower_emit_2(
      lower, TS_OP_and, mask,
      ts__lower_emit_2(lower, TS_OP_shr, all, ts__lower_emit_2(lower, TS_OP_sub, top, base)));
  up = drop_bits(lower, up, ts__lower_emit_2(lower, TS_OP_sub, up_count, one), true);
  down = drop_bits(lower, down, ts__lower_emit_2(lower, TS_OP_sub, down_count, one), false);
  struct ts__value lowest = ts__lower_emit_2(
      lower, TS_OP_and, up, ts__lower_emit_2(lower, TS_OP_sub, ts__value_u32(lower, 0), up));
  struct ts__value here =
      ts__lower_emit_2(lower, TS_OP_and, mask, ts__lower_emit_2(lower, TS_OP_shl, one, base));
  struct ts__value found = ts__lower_emit_select(lower, is_down, down, lowest);
  found = ts__lower_emit_select(lower, is_here, here, found);
  /* 31 - clz, which is all ones for an empty mask. */
  return ts__lower_emit_2(lower, TS_OP_sub, top, ts__lower_emit_1(lower, TS_OP_clz, found));
}

/* DP4A(a, b, c): *c += the dot product of four signed bytes each. */
void ts__lower_dp4a(struct ts__lower *lower, const struct tir_expr *call) {
  struct ts__pointer pointers[3];
  struct ts__value words[3];
  if (call->call.args.count != 4) {
    ts__lower_unknown(lower, "DP4A with %zu arguments", call->call.args.count - 1);
    return;
  }
  for (size_t i = 0; i < 3; i++) {
    pointers[i] = ts__lower_pointer(lower, call->call.args.items[i + 1]);
    uint32_t bits = ts_dtype_bits(pointers[i].elem);
    if (bits != 8 && bits != 32) {
      ts__lower_unknown(lower, "DP4A of dtype '%s'", ts_dtype_name(pointers[i].elem));
      return;
    }
    words[i] = ts__lower_emit_load(lower, &pointers[i], 32 / bits);
    enum ts_dtype wanted = i < 2 ? TS_DTYPE_s8 : TS_DTYPE_s32;
    struct ts_type type = {(uint8_t)wanted, (uint8_t)(i < 2 ? 4 : 1)};
    if (pointers[i].elem != wanted)
      words[i] = ts__lower_emit(lower, TS_OP_bitcast, type, pointers[i].elem, &words[i], 1, NULL);
  }
  struct ts__value sum = words[2];
  for (uint32_t i = 0; i < 4; i++) {
    struct ts__value a =
        ts__lower_emit_convert(lower, TS_DTYPE_s32, ts__lower_emit_extract(lower, words[0], i));
    struct ts__value b =
        ts__lower_emit_convert(lower, TS_DTYPE_s32, ts__lower_emit_extract(lower, words[1], i));
    sum = ts__lower_emit_2(lower, TS_OP_add, sum, ts__lower_emit_2(lower, TS_OP_mul, a, b));
  }
  if (pointers[2].elem != TS_DTYPE_s32) {
    ts__lower_unknown(lower, "DP4A into dtype '%s'", ts_dtype_name(pointers[2].elem));
    return;
  }
  ts__lower_emit_store(lower, &pointers[2], sum);
}
