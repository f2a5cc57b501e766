/* Questions about element types, answered from dtype.def. */
#include "num/dtype.h"

#include <string.h>

static const struct ts_dtype_info info_table[TS_DTYPE_COUNT + 1] = {
#define DTYPE(name, tvm, bits, kind, exponent_bits, mantissa_bits, bias, special, code)            \
  [TS_DTYPE_##name] = {#name,         tvm,           bits, TS_KIND_##kind,                         \
                       exponent_bits, mantissa_bits, bias, TS_SPECIAL_##special,                   \
                       code},
#include "num/dtype.def"
#undef DTYPE
    [TS_DTYPE_NONE] = {"?", "", 0, TS_KIND_PTR, 0, 0, 0, TS_SPECIAL_NONE, 0},
};

static const struct {
  const char *text;
  enum ts_dtype dtype;
} alias_table[] = {
    {"float8_e4m3", TS_DTYPE_e4m3}, {"e4m3_float8", TS_DTYPE_e4m3},
    {"e5m2_float8", TS_DTYPE_e5m2}, {"float8_e8m0", TS_DTYPE_e8m0},
    {"float4_e2m1", TS_DTYPE_e2m1}, {"float6_e2m3", TS_DTYPE_e2m3},
    {"float6_e3m2", TS_DTYPE_e3m2}, {"uint1", TS_DTYPE_pred},
    {"half", TS_DTYPE_f16},         {"custom[tfloat32]", TS_DTYPE_tf32},
};

const struct ts_dtype_info *ts_dtype_info(enum ts_dtype dtype) {
  return &info_table[(unsigned)dtype < TS_DTYPE_COUNT ? dtype : TS_DTYPE_NONE];
}

static bool text_is(const char *name, const char *text, size_t length) {
  return length != 0 && strlen(name) == length && memcmp(name, text, length) == 0;
}

enum ts_dtype ts_dtype_from_name(const char *text, size_t length) {
  for (unsigned i = 0; i < TS_DTYPE_COUNT; ++i)
    if (text_is(info_table[i].name, text, length)) return (enum ts_dtype)i;
  return TS_DTYPE_NONE;
}

enum ts_dtype ts_dtype_from_tvm(const char *text, size_t length) {
  for (unsigned i = 0; i < TS_DTYPE_COUNT; ++i)
    if (text_is(info_table[i].tvm_name, text, length)) return (enum ts_dtype)i;
  for (size_t i = 0; i < sizeof alias_table / sizeof alias_table[0]; ++i)
    if (text_is(alias_table[i].text, text, length)) return alias_table[i].dtype;
  return TS_DTYPE_NONE;
}

enum ts_dtype ts_dtype_from_dlpack(unsigned code, unsigned bits) {
  for (unsigned i = 0; i < TS_DTYPE_COUNT; ++i) {
    if (i != TS_DTYPE_tf32 && info_table[i].dlpack_code == code && info_table[i].bits == bits)
      return (enum ts_dtype)i;
  }
  return TS_DTYPE_NONE;
}

static uint64_t low_mask(unsigned bits) {
  return bits >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
}

uint64_t ts_dtype_slot(enum ts_dtype dtype, uint64_t encoding) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  uint64_t value = encoding & low_mask(info->bits);
  if (info->kind == TS_KIND_PRED) return value != 0;
  if (info->kind != TS_KIND_SINT || info->bits >= 32) return value;
  uint64_t sign = UINT64_C(1) << (info->bits - 1);
  return ((value ^ sign) - sign) & UINT32_MAX;
}

uint64_t ts_dtype_encoding(enum ts_dtype dtype, uint64_t slot) {
  return slot & low_mask(ts_dtype_bits(dtype));
}

/* Sub-byte elements: element i occupies bits [i * bits, (i + 1) * bits) of the byte string. */
static uint32_t packed_bits_read(const uint8_t *packed, size_t index, unsigned bits) {
  size_t bit = index * bits;
  unsigned shift = (unsigned)(bit % 8);
  uint32_t window = packed[bit / 8];
  if (shift + bits > 8) window |= (uint32_t)packed[bit / 8 + 1] << 8;
  return window >> shift & (uint32_t)low_mask(bits);
}

static void packed_bits_write(uint8_t *packed, size_t index, unsigned bits, uint32_t value) {
  for (unsigned i = 0; i < bits; ++i) {
    size_t bit = index * bits + i;
    uint8_t one = (uint8_t)(1u << bit % 8);
    packed[bit / 8] = (uint8_t)(value >> i & 1u ? packed[bit / 8] | one : packed[bit / 8] & ~one);
  }
}

void ts_dtype_unpack(enum ts_dtype dtype, void *slots, const void *packed, size_t count) {
  unsigned bits = ts_dtype_bits(dtype);
  const uint8_t *bytes = packed;
  uint32_t *out = slots;
  if (bits >= 32) {
    memcpy(slots, packed, count * (bits / 8));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    uint32_t encoding;
    if (bits == 16)
      encoding = (uint32_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
    else if (bits == 8)
      encoding = bytes[i];
    else
      encoding = packed_bits_read(bytes, i, bits);
    out[i] = (uint32_t)ts_dtype_slot(dtype, encoding);
  }
}

void ts_dtype_pack(enum ts_dtype dtype, void *packed, const void *slots, size_t count) {
  unsigned bits = ts_dtype_bits(dtype);
  uint8_t *bytes = packed;
  const uint32_t *in = slots;
  if (bits >= 32) {
    memcpy(packed, slots, count * (bits / 8));
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    if (bits == 16) {
      bytes[2 * i] = (uint8_t)in[i];
      bytes[2 * i + 1] = (uint8_t)(in[i] >> 8);
    } else if (bits == 8) {
      bytes[i] = (uint8_t)in[i];
    } else {
      packed_bits_write(bytes, i, bits, in[i]);
    }
  }
}

uint64_t ts_dtype_nan(enum ts_dtype dtype) {
  switch (dtype) {
  case TS_DTYPE_e8m0: return 0xff;
  case TS_DTYPE_f64: return UINT64_C(0xfff8000000000000);
  case TS_DTYPE_tf32: return 0x7fffe000;
  default: break;
  }
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  bool has_nan = info->special == TS_SPECIAL_IEEE || info->special == TS_SPECIAL_NAN_ALL_ONES;
  return has_nan && ts_dtype_is_float(dtype) ? low_mask(info->bits - 1u) : 0;
}

uint64_t ts_dtype_max_finite(enum ts_dtype dtype) {
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  if (info->bits == 0) return 0;
  switch ((enum ts_dtype_kind)info->kind) {
  case TS_KIND_PTR: return 0;
  case TS_KIND_PRED: return 1;
  case TS_KIND_UINT: return low_mask(info->bits);
  case TS_KIND_SINT: return low_mask(info->bits - 1u);
  case TS_KIND_FLOAT: break;
  }
  if (dtype == TS_DTYPE_tf32) return 0x7f7fe000;
  switch ((enum ts_dtype_special)info->special) {
  case TS_SPECIAL_IEEE: return (low_mask(info->exponent_bits) << info->mantissa_bits) - 1;
  case TS_SPECIAL_NAN_ALL_ONES: return low_mask(info->bits - 1u) - 1;
  case TS_SPECIAL_SCALE: return 0xfe;
  case TS_SPECIAL_NONE: break;
  }
  return low_mask(info->bits - 1u);
}

uint64_t ts_dtype_one(enum ts_dtype dtype) {
  if (!ts_dtype_is_float(dtype)) return ts_dtype_max_finite(dtype) != 0;
  if (dtype == TS_DTYPE_tf32) return 0x3f800000;
  const struct ts_dtype_info *info = ts_dtype_info(dtype);
  return (uint64_t)info->bias << info->mantissa_bits;
}
