/* The file format's constants and the little-endian plumbing that writer and reader share.
 * docs/trace-format.md is the specification. */
#ifndef TS_TRACE_TRACE_PRIV_H
#define TS_TRACE_TRACE_PRIV_H

#include "trace/trace.h"

#include <string.h>

enum {
  TS__TRACE_VERSION = 2,
  TS__TRACE_HEADER_BYTES = 32,
  TS__TRACE_BLOCK_HEADER_BYTES = 16,
  TS__TRACE_RECORD_BYTES = 64,
  TS__TRACE_CODE_INSN_BYTES = 32,
  TS__TRACE_FOOTPRINT_ALIGN_BYTES = 8,
  TS__TRACE_MAX_RANK = 5,
  TS__TRACE_LANES = 32,
  TS__TRACE_NO_SPACE = 0xff
};

/* A text file transferred in the wrong mode changes the last bytes of this. */
#define TS__TRACE_MAGIC "\x89TSEV\r\n\x1a"
enum { TS__TRACE_MAGIC_BYTES = 8 };

#define TS__TRACE_TAG(a, b, c, d)                                                                  \
  ((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define TS__TRACE_TAG_NAMES TS__TRACE_TAG('N', 'A', 'M', 'E')
#define TS__TRACE_TAG_FUNCTIONS TS__TRACE_TAG('F', 'U', 'N', 'C')
#define TS__TRACE_TAG_LAUNCHES TS__TRACE_TAG('L', 'N', 'C', 'H')
#define TS__TRACE_TAG_FOOTPRINTS TS__TRACE_TAG('F', 'O', 'O', 'T')
#define TS__TRACE_TAG_EVENTS TS__TRACE_TAG('E', 'V', 'N', 'T')
#define TS__TRACE_TAG_DONE TS__TRACE_TAG('D', 'O', 'N', 'E')

static inline uint8_t *ts__put_u8(uint8_t *at, uint8_t value) {
  *at = value;
  return at + 1;
}

static inline uint8_t *ts__put_u16(uint8_t *at, uint16_t value) {
  for (unsigned i = 0; i < 2; i++)
    at[i] = (uint8_t)(value >> 8 * i);
  return at + 2;
}

static inline uint8_t *ts__put_u32(uint8_t *at, uint32_t value) {
  for (unsigned i = 0; i < 4; i++)
    at[i] = (uint8_t)(value >> 8 * i);
  return at + 4;
}

static inline uint8_t *ts__put_u64(uint8_t *at, uint64_t value) {
  for (unsigned i = 0; i < 8; i++)
    at[i] = (uint8_t)(value >> 8 * i);
  return at + 8;
}

static inline uint16_t ts__get_u16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }

static inline uint32_t ts__get_u32(const uint8_t *at) {
  return (uint32_t)ts__get_u16(at) | (uint32_t)ts__get_u16(at + 2) << 16;
}

static inline uint64_t ts__get_u64(const uint8_t *at) {
  return (uint64_t)ts__get_u32(at) | (uint64_t)ts__get_u32(at + 4) << 32;
}

/* CRC-32 as in zlib and PNG (polynomial 0xEDB88320, reflected); start with 0. */
uint32_t ts__trace_crc32(uint32_t crc, const uint8_t *data, size_t size_bytes);

/* Bytes that a footprint of this kind and rank takes in the file, 0 when there is no such kind. */
size_t ts__trace_footprint_bytes(uint8_t kind, uint8_t rank);

#endif
