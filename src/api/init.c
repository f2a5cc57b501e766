/* Generated tensor content: SplitMix64 of seed and flat element index, by mode. docs/inputs.md is
 * the definition; values that reach narrow float types go by way of float32. */
#include "api/api_priv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_ELEMS = 2048 };

/* --- modes */

/* ":" and an integer; answers the rest or NULL. */
static const char *parse_int(const char *text, int base, int64_t *value) {
  char *end;
  if (*text != ':') return NULL;
  if (!isxdigit((unsigned char)text[1]) && text[1] != '-') return NULL;
  errno = 0;
  long long parsed = strtoll(text + 1, &end, base);
  if (errno || end == text + 1) return NULL;
  *value = parsed;
  return end;
}

static const char *parse_int_range(const char *rest, struct ts__init *init) {
  rest = parse_int(rest, 10, &init->a);
  if (rest) rest = parse_int(rest, 10, &init->b);
  /* 2^31 random values are drawn: a wider range would have holes. */
  const int64_t limit = INT64_C(1) << 31;
  if (!rest || init->a < -limit || init->b > limit || init->b < init->a) return NULL;
  return init->b - init->a < limit ? rest : NULL;
}

static const char *parse_const(const char *rest, struct ts__init *init) {
  char *end;
  if (*rest != ':' || isspace((unsigned char)rest[1])) return NULL;
  init->value = strtod(rest + 1, &end);
  if (end == rest + 1) return NULL;
  const char *after = parse_int(rest, 10, &init->a);
  init->value_is_int = after == end;
  return end;
}

static const char *parse_fill(const char *rest, struct ts__init *init) {
  rest = parse_int(rest, 16, &init->a);
  return rest && init->a >= 0 && init->a <= 0xff ? rest : NULL;
}

static const char *parse_iota(const char *rest, struct ts__init *init) {
  rest = parse_int(rest, 10, &init->a);
  if (rest) rest = parse_int(rest, 10, &init->b);
  return rest && init->a > 0 && init->b > 0 ? rest : NULL;
}

const char *ts__init_parse(const char *text, struct ts__init *init) {
  static const struct {
    const char *name;
    enum ts__init_kind kind;
    const char *(*parse)(const char *rest, struct ts__init *init);
  } modes[] = {
      {"uniform", TS__INIT_UNIFORM, NULL}, {"int", TS__INIT_INT, parse_int_range},
      {"bits", TS__INIT_BITS, NULL},       {"meta24", TS__INIT_META24, NULL},
      {"fill", TS__INIT_FILL, parse_fill}, {"const", TS__INIT_CONST, parse_const},
      {"iota", TS__INIT_IOTA, parse_iota},
  };
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    size_t length = strlen(modes[i].name);
    if (strncmp(text, modes[i].name, length) != 0 || isalnum((unsigned char)text[length])) continue;
    *init = (struct ts__init){.kind = modes[i].kind};
    return modes[i].parse ? modes[i].parse(text + length, init) : text + length;
  }
  return NULL;
}

/* --- elements */

static uint64_t splitmix(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}

/* Random bits that are a finite value of the type: of an all-ones exponent the lowest bit is
 * cleared, of an all-ones e4m3 or e8m0 the lowest bit of all. */
static uint64_t finite_bits(const struct ts_dtype_info *info, uint64_t bits) {
  unsigned magnitude_bits = (unsigned)info->exponent_bits + info->mantissa_bits;
  uint64_t magnitude = (UINT64_C(1) << magnitude_bits) - 1;
  uint64_t exponent = magnitude & ~((UINT64_C(1) << info->mantissa_bits) - 1);
  switch (info->special) {
  case TS_SPECIAL_IEEE:
    return (bits & exponent) == exponent ? bits & ~(UINT64_C(1) << info->mantissa_bits) : bits;
  case TS_SPECIAL_NAN_ALL_ONES:
  case TS_SPECIAL_SCALE: return (bits & magnitude) == magnitude ? bits ^ 1 : bits;
  default: return bits;
  }
}

static uint64_t random_bits(const struct ts_dtype_info *info, uint64_t r) {
  uint64_t bits = r >> (64 - info->bits);
  return info->kind == TS_KIND_FLOAT ? finite_bits(info, bits) : bits;
}

/* The legal 2:4 metadata nibbles, one per byte of r. */
static uint64_t sparse_metadata(const struct ts_dtype_info *info, uint64_t r) {
  static const uint8_t nibbles[6] = {4, 8, 9, 12, 13, 14};
  uint64_t bits = 0;
  for (unsigned k = 0; k < info->bits / 4u && k < 16; k++) {
    unsigned byte = k < 8 ? (unsigned)(r >> 8 * k) & 255u : 0;
    bits |= (uint64_t)nibbles[byte % 6] << 4 * k;
  }
  return bits;
}

/* The element as an integer, for the modes that have integers. */
static int64_t integer_value(const struct ts__init *init, uint64_t seed, uint64_t index) {
  switch (init->kind) {
  case TS__INIT_INT: {
    uint64_t range = (uint64_t)(init->b - init->a) + 1;
    return init->a + (int64_t)((splitmix(seed, index) >> 33) % range);
  }
  case TS__INIT_IOTA: return (int64_t)(index / (uint64_t)init->a % (uint64_t)init->b);
  case TS__INIT_CONST: return init->value_is_int ? init->a : (int64_t)init->value;
  /* uniform truncated: only -1 itself is not 0 */
  default: return splitmix(seed, index) >> 40 == 0 ? -1 : 0;
  }
}

/* The element as float32. Host arithmetic is exact here (24-bit integers times a power of two), or
 * one IEEE rounding to nearest. */
static float float_value(const struct ts__init *init, uint64_t seed, uint64_t index) {
  if (init->kind == TS__INIT_UNIFORM) {
    int32_t v = (int32_t)(splitmix(seed, index) >> 40) - (1 << 23);
    return (float)v * 0x1p-23f;
  }
  if (init->kind == TS__INIT_CONST) return (float)init->value;
  return (float)integer_value(init, seed, index);
}

struct generator {
  const struct ts__init *init;
  uint64_t seed;
  enum ts_dtype dtype;
  const struct ts_dtype_info *info;
  ts_unary_fn convert; /* float32 slots to slots of dtype; NULL: none needed */
  uint32_t narrow[CHUNK_ELEMS];
  uint64_t wide[CHUNK_ELEMS];
};

static bool is_drawn_as_bits(const struct generator *generator) {
  enum ts__init_kind kind = generator->init->kind;
  return kind == TS__INIT_BITS || kind == TS__INIT_META24 || generator->info->kind != TS_KIND_FLOAT;
}

static uint64_t element_bits(const struct generator *generator, uint64_t index) {
  const struct ts__init *init = generator->init;
  if (init->kind == TS__INIT_BITS)
    return random_bits(generator->info, splitmix(generator->seed, index));
  if (init->kind == TS__INIT_META24)
    return sparse_metadata(generator->info, splitmix(generator->seed, index));
  return (uint64_t)integer_value(init, generator->seed, index);
}

/* Slots of elements index .. index + count - 1, in narrow or wide as the type wants. */
static const void *make_slots(struct generator *generator, uint64_t index, uint32_t count) {
  bool is_wide = ts_dtype_slot_bytes(generator->dtype) == 8;
  if (is_drawn_as_bits(generator)) {
    for (uint32_t i = 0; i < count; i++) {
      generator->wide[i] = element_bits(generator, index + i);
      generator->narrow[i] = (uint32_t)generator->wide[i];
    }
    return is_wide ? (const void *)generator->wide : generator->narrow;
  }
  for (uint32_t i = 0; i < count; i++) {
    float value = float_value(generator->init, generator->seed, index + i);
    memcpy(&generator->narrow[i], &value, sizeof value);
  }
  if (!generator->convert) return generator->narrow;
  void *slots = is_wide ? (void *)generator->wide : generator->narrow;
  generator->convert(slots, generator->narrow, count);
  return slots;
}

bool ts__init_fill(const struct ts__init *init, uint64_t seed, enum ts_dtype dtype,
                   uint64_t elem_count, void *packed) {
  struct generator generator = {
      .init = init, .seed = seed, .dtype = dtype, .info = ts_dtype_info(dtype)};
  uint64_t size_bytes = ts_dtype_packed_bytes(dtype, elem_count);
  if (init->kind == TS__INIT_FILL) {
    memset(packed, (int)init->a, (size_t)size_bytes);
    return true;
  }
  if (generator.info->kind == TS_KIND_FLOAT && dtype != TS_DTYPE_f32)
    generator.convert = ts_num_convert(dtype, TS_DTYPE_f32, 0);
  if (!is_drawn_as_bits(&generator) && dtype != TS_DTYPE_f32 && !generator.convert) return false;
  uint8_t *at = packed;
  for (uint64_t index = 0; index < elem_count; index += CHUNK_ELEMS) {
    uint64_t left = elem_count - index;
    uint32_t count = left < CHUNK_ELEMS ? (uint32_t)left : CHUNK_ELEMS;
    ts_dtype_pack(dtype, at, make_slots(&generator, index, count), count);
    at += ts_dtype_packed_bytes(dtype, count); /* a chunk is a whole number of bytes */
  }
  return true;
}
