/* Element types: one row each in dtype.def, and questions about them.
 *
 * Values are never host floats. They come in three shapes:
 * - encoding: the bits of one element, right-aligned in a uint64_t, upper bits zero;
 * - slot: what lane arrays hold, uint32_t for types of up to 32 bits and uint64_t for the others.
 *   Signed integers are sign-extended to the slot, everything else is zero-extended;
 * - packed: elements as in device memory, little-endian, sub-byte types from the low bits up. */
#ifndef TS_NUM_DTYPE_H
#define TS_NUM_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ts_dtype {
#define DTYPE(name, ...) TS_DTYPE_##name,
#include "num/dtype.def"
#undef DTYPE
  TS_DTYPE_COUNT,
  TS_DTYPE_NONE = TS_DTYPE_COUNT /* what a failed look-up answers */
};

enum ts_dtype_kind {
  TS_KIND_FLOAT,
  TS_KIND_SINT,
  TS_KIND_UINT,
  TS_KIND_PRED,
  TS_KIND_PTR,
};

enum ts_dtype_special {
  TS_SPECIAL_IEEE,
  TS_SPECIAL_NAN_ALL_ONES,
  TS_SPECIAL_NONE,
  TS_SPECIAL_SCALE,
};

struct ts_dtype_info {
  const char *name;     /* text in the IR */
  const char *tvm_name; /* text in TVM's JSON */
  uint8_t bits;         /* width of an element in packed memory */
  uint8_t kind;         /* enum ts_dtype_kind */
  uint8_t exponent_bits, mantissa_bits;
  int16_t bias;
  uint8_t special; /* enum ts_dtype_special */
  uint8_t dlpack_code;
};

/* The row; for a value that is no dtype, a row named "?" of zero bits. Never NULL. */
const struct ts_dtype_info *ts_dtype_info(enum ts_dtype dtype);

static inline unsigned ts_dtype_bits(enum ts_dtype dtype) { return ts_dtype_info(dtype)->bits; }

static inline const char *ts_dtype_name(enum ts_dtype dtype) { return ts_dtype_info(dtype)->name; }

static inline bool ts_dtype_is_float(enum ts_dtype dtype) {
  return ts_dtype_info(dtype)->bits != 0 && ts_dtype_info(dtype)->kind == TS_KIND_FLOAT;
}

static inline bool ts_dtype_is_signed_int(enum ts_dtype dtype) {
  return ts_dtype_info(dtype)->kind == TS_KIND_SINT;
}

static inline bool ts_dtype_is_unsigned_int(enum ts_dtype dtype) {
  return ts_dtype_info(dtype)->kind == TS_KIND_UINT;
}

static inline bool ts_dtype_is_int(enum ts_dtype dtype) {
  return ts_dtype_is_signed_int(dtype) || ts_dtype_is_unsigned_int(dtype);
}

/* Bytes of a lane slot: 4, or 8 for types wider than 32 bits. */
static inline size_t ts_dtype_slot_bytes(enum ts_dtype dtype) {
  return ts_dtype_bits(dtype) > 32 ? 8 : 4;
}

/* Bytes of count packed elements, rounded up to a whole byte. */
static inline uint64_t ts_dtype_packed_bytes(enum ts_dtype dtype, uint64_t count) {
  return (count * ts_dtype_bits(dtype) + 7) / 8;
}

/* TS_DTYPE_NONE when the text (length bytes, no NUL needed) names no type. Lanes ("float16x8")
 * are not part of the text. ts_dtype_from_tvm also knows aliases such as "float8_e4m3". */
enum ts_dtype ts_dtype_from_name(const char *text, size_t length);
enum ts_dtype ts_dtype_from_tvm(const char *text, size_t length);

/* By DLPack type code and bits; TS_DTYPE_NONE when there is none (never tf32). */
enum ts_dtype ts_dtype_from_dlpack(unsigned code, unsigned bits);

/* Encoding <-> slot value. */
uint64_t ts_dtype_slot(enum ts_dtype dtype, uint64_t encoding);
uint64_t ts_dtype_encoding(enum ts_dtype dtype, uint64_t slot);

/* Packed elements <-> slots (uint32_t or uint64_t by ts_dtype_slot_bytes). A predicate byte other
 * than 0 unpacks to 1. Packing keeps the low bits. packed need not be aligned. */
void ts_dtype_unpack(enum ts_dtype dtype, void *slots, const void *packed, size_t count);
void ts_dtype_pack(enum ts_dtype dtype, void *packed, const void *slots, size_t count);

/* Canonical NaN, largest finite magnitude, and 1.0, as encodings (0 where there is none). */
uint64_t ts_dtype_nan(enum ts_dtype dtype);
uint64_t ts_dtype_max_finite(enum ts_dtype dtype);
uint64_t ts_dtype_one(enum ts_dtype dtype);

#endif
