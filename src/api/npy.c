/* .npy files: the header is a Python dict literal in a small, strict subset. Formats 1, 2 and 3.
 * What comes out is compact, row-major and little-endian. */
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAGIC_BYTES = 6, ALIGN_BYTES = 64 };
static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

/* The types that NumPy has. */
static const struct {
  const char *code;
  enum ts_dtype dtype;
} native_types[] = {
    {"f2", TS_DTYPE_f16}, {"f4", TS_DTYPE_f32}, {"f8", TS_DTYPE_f64}, {"i1", TS_DTYPE_s8},
    {"i2", TS_DTYPE_s16}, {"i4", TS_DTYPE_s32}, {"i8", TS_DTYPE_s64}, {"u1", TS_DTYPE_u8},
    {"u2", TS_DTYPE_u16}, {"u4", TS_DTYPE_u32}, {"u8", TS_DTYPE_u64}, {"b1", TS_DTYPE_pred},
};
enum { NATIVE_COUNT = sizeof native_types / sizeof *native_types };

struct parser {
  struct ts_ctx *ctx;
  const char *path;
  const char *begin, *at, *end; /* of the header text */
  bool is_big_endian, is_fortran;
  bool has_descr, has_order, has_shape;
  struct ts__npy *npy;
};

static enum ts_status fail_at(const struct parser *parser, const char *expected) {
  return ts_fail(parser->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(parser->path),
                 "header byte %lld: expected %s", (long long)(parser->at - parser->begin),
                 expected);
}

static void skip_spaces(struct parser *parser) {
  while (parser->at < parser->end && strchr(" \t\r\n", *parser->at) && *parser->at)
    parser->at++;
}

static bool take(struct parser *parser, char wanted) {
  skip_spaces(parser);
  if (parser->at == parser->end || *parser->at != wanted) return false;
  parser->at++;
  return true;
}

static bool take_word(struct parser *parser, const char *word) {
  size_t length = strlen(word);
  skip_spaces(parser);
  if ((size_t)(parser->end - parser->at) < length || memcmp(parser->at, word, length) != 0)
    return false;
  parser->at += length;
  return true;
}

/* A quoted text without escapes. */
static bool take_text(struct parser *parser, const char **text, size_t *length) {
  char quote = take(parser, '\'') ? '\'' : take(parser, '"') ? '"' : 0;
  if (!quote) return false;
  const char *close = memchr(parser->at, quote, (size_t)(parser->end - parser->at));
  if (!close || memchr(parser->at, '\\', (size_t)(close - parser->at))) return false;
  *text = parser->at;
  *length = (size_t)(close - parser->at);
  parser->at = close + 1;
  return true;
}

/* --- the three entries */

static enum ts_status unsupported_type(const struct parser *parser, const char *text,
                                       size_t length) {
  return ts_fail(parser->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(parser->path),
                 "dtype '%.*s' is not supported; use f2 f4 f8 i1..i8 u1..u8 b1, and unsigned "
                 "integers for bf16 and fp8",
                 (int)(length > 32 ? 32 : length), text);
}

static enum ts_status parse_descr(struct parser *parser) {
  const char *text;
  size_t length;
  skip_spaces(parser);
  if (parser->at < parser->end && *parser->at == '[')
    return ts_fail(parser->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(parser->path),
                   "structured dtypes are not supported");
  if (!take_text(parser, &text, &length)) return fail_at(parser, "a dtype in quotes");
  if (length != 3 || !strchr("<>|=", text[0])) return unsupported_type(parser, text, length);
  parser->is_big_endian = text[0] == '>';
  for (size_t i = 0; i < NATIVE_COUNT; i++) {
    if (memcmp(native_types[i].code, text + 1, 2) != 0) continue;
    parser->npy->dtype = native_types[i].dtype;
    return TS_OK;
  }
  /* What ml_dtypes makes of bfloat16 and fp8. */
  parser->npy->is_raw = text[1] == 'V' && (text[2] == '1' || text[2] == '2');
  if (!parser->npy->is_raw) return unsupported_type(parser, text, length);
  parser->npy->dtype = text[2] == '1' ? TS_DTYPE_u8 : TS_DTYPE_u16;
  return TS_OK;
}

static bool take_extent(struct parser *parser, int64_t *extent) {
  const char *first = parser->at;
  *extent = 0;
  while (parser->at < parser->end && *parser->at >= '0' && *parser->at <= '9') {
    if (__builtin_mul_overflow(*extent, 10, extent) ||
        __builtin_add_overflow(*extent, *parser->at - '0', extent))
      return false;
    parser->at++;
  }
  return parser->at > first;
}

static enum ts_status parse_shape(struct parser *parser) {
  struct ts__npy *npy = parser->npy;
  npy->rank = 0;
  if (!take(parser, '(')) return fail_at(parser, "'('");
  while (!take(parser, ')')) {
    if (npy->rank == TS_MAX_RANK) return fail_at(parser, "at most 32 dimensions");
    if (!take_extent(parser, &npy->shape[npy->rank])) return fail_at(parser, "an extent");
    npy->rank++;
    if (take(parser, ',')) continue;
    /* (3) is no tuple, and nothing that NumPy writes. */
    if (npy->rank == 1 || !take(parser, ')')) return fail_at(parser, "',' or ')'");
    break;
  }
  return TS_OK;
}

static enum ts_status parse_order(struct parser *parser) {
  parser->is_fortran = take_word(parser, "True");
  if (!parser->is_fortran && !take_word(parser, "False")) return fail_at(parser, "True or False");
  return TS_OK;
}

static enum ts_status parse_entry(struct parser *parser) {
  static const struct {
    const char *key;
    enum ts_status (*parse)(struct parser *parser);
  } entries[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
  bool *const seen[] = {&parser->has_descr, &parser->has_order, &parser->has_shape};
  const char *key;
  size_t length;
  if (!take_text(parser, &key, &length)) return fail_at(parser, "a key in quotes, or '}'");
  for (size_t i = 0; i < 3; i++) {
    if (length != strlen(entries[i].key) || memcmp(key, entries[i].key, length) != 0) continue;
    if (*seen[i]) return fail_at(parser, "each key once");
    *seen[i] = true;
    if (!take(parser, ':')) return fail_at(parser, "':'");
    return entries[i].parse(parser);
  }
  return fail_at(parser, "one of the keys descr, fortran_order, shape");
}

static enum ts_status parse_dict(struct parser *parser) {
  if (!take(parser, '{')) return fail_at(parser, "'{'");
  while (!take(parser, '}')) {
    TS_TRY(parse_entry(parser));
    if (take(parser, ',')) continue;
    if (!take(parser, '}')) return fail_at(parser, "',' or '}'");
    break;
  }
  skip_spaces(parser);
  if (parser->at != parser->end) return fail_at(parser, "the end of the header");
  if (!parser->has_descr || !parser->has_order || !parser->has_shape)
    return fail_at(parser, "the keys descr, fortran_order and shape");
  return TS_OK;
}

/* --- content */

static void swap_bytes(uint8_t *data, uint64_t elem_count, unsigned elem_bytes) {
  for (uint64_t i = 0; i < elem_count; i++, data += elem_bytes) {
    for (unsigned low = 0, high = elem_bytes - 1; low < high; low++, high--) {
      uint8_t kept = data[low];
      data[low] = data[high];
      data[high] = kept;
    }
  }
}

/* Column-major source to row-major target: walks the target, counting like an odometer. */
static void transpose(const struct ts__npy *npy, const uint8_t *source, unsigned elem_bytes,
                      uint64_t elem_count) {
  int64_t index[TS_MAX_RANK] = {0};
  uint64_t stride[TS_MAX_RANK], offset = 0, product = 1;
  for (uint32_t d = 0; d < npy->rank; d++) {
    stride[d] = product;
    product *= (uint64_t)npy->shape[d];
  }
  for (uint64_t i = 0; i < elem_count; i++) {
    memcpy(npy->data + i * elem_bytes, source + offset * elem_bytes, elem_bytes);
    for (uint32_t d = npy->rank; d-- > 0;) {
      offset += stride[d];
      if (++index[d] < npy->shape[d]) break;
      offset -= stride[d] * (uint64_t)npy->shape[d];
      index[d] = 0;
    }
  }
}

static enum ts_status take_content(struct parser *parser, const uint8_t *content,
                                   size_t content_bytes) {
  struct ts__npy *npy = parser->npy;
  uint64_t elem_count;
  unsigned elem_bytes = ts_dtype_bits(npy->dtype) / 8;
  char shape[TS_MAX_RANK * 21 + 8];
  ts__shape_text(npy->rank, npy->shape, shape, sizeof shape);
  if (!ts__shape_count(npy->rank, npy->shape, &elem_count))
    return ts_fail(parser->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(parser->path),
                   "shape %s is too large", shape);
  if (elem_count != content_bytes / elem_bytes || content_bytes % elem_bytes)
    return ts_fail(parser->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(parser->path),
                   "the header says %s elements of %u bytes, but %zu bytes follow it", shape,
                   elem_bytes, content_bytes);
  npy->size_bytes = content_bytes;
  if (content_bytes == 0) return TS_OK;
  npy->data = npy->allocator->resize(npy->allocator->user, NULL, 0, content_bytes);
  if (!npy->data) return ts_fail_memory(parser->ctx);
  if (parser->is_fortran && npy->rank > 1)
    transpose(npy, content, elem_bytes, elem_count);
  else
    memcpy(npy->data, content, content_bytes);
  if (parser->is_big_endian) swap_bytes(npy->data, elem_count, elem_bytes);
  for (size_t i = 0; npy->dtype == TS_DTYPE_pred && i < content_bytes; i++)
    npy->data[i] = npy->data[i] != 0;
  return TS_OK;
}

static enum ts_status fail_magic(struct ts_ctx *ctx, const char *path) {
  return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(path),
                 "not a .npy file: the first bytes are not \\x93NUMPY");
}

enum ts_status ts__npy_parse(struct ts_ctx *ctx, const char *path, const void *bytes,
                             size_t size_bytes, struct ts__npy *npy) {
  const uint8_t *file = bytes;
  struct parser parser = {.ctx = ctx, .path = path, .npy = npy};
  *npy = (struct ts__npy){.allocator = ctx->allocator};
  if (size_bytes < MAGIC_BYTES + 2 || memcmp(file, magic, MAGIC_BYTES) != 0)
    return fail_magic(ctx, path);
  unsigned major = file[MAGIC_BYTES];
  if (major < 1 || major > 3)
    return ts_fail(ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(path),
                   ".npy format %u is not supported (1, 2 and 3 are)", major);
  size_t length_bytes = major == 1 ? 2 : 4, start = MAGIC_BYTES + 2 + length_bytes;
  size_t header_bytes = 0;
  for (size_t i = 0; i < length_bytes && size_bytes >= start; i++)
    header_bytes |= (size_t)file[MAGIC_BYTES + 2 + i] << 8 * i;
  if (size_bytes < start || header_bytes > size_bytes - start)
    return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_INPUT_NPY, TS_FILE_PLACE(path),
                   "the file ends inside its header");
  parser.begin = parser.at = (const char *)file + start;
  parser.end = parser.begin + header_bytes;
  TS_TRY(parse_dict(&parser));
  return take_content(&parser, file + start + header_bytes, size_bytes - start - header_bytes);
}

/* Whether the first byte already shows that this is neither .npy nor xz: a large file, or /dev/zero,
 * need not be read first. Pipes are read once only, so not here. */
static bool is_something_else(const char *path) {
  struct stat info;
  if (stat(path, &info) || !(S_ISREG(info.st_mode) || S_ISCHR(info.st_mode))) return false;
  FILE *stream = fopen(path, "rb");
  if (!stream) return false;
  int first = getc(stream);
  fclose(stream);
  return first != EOF && first != (unsigned char)magic[0] && first != 0xfd;
}

enum ts_status ts__npy_read(struct ts_ctx *ctx, const char *path, uint64_t limit_bytes,
                            struct ts__npy *npy) {
  struct ts_file file;
  *npy = (struct ts__npy){.allocator = ctx->allocator};
  if (is_something_else(path)) return fail_magic(ctx, path);
  TS_TRY(ts_file_read(ctx, path, (size_t)limit_bytes, &file));
  enum ts_status status = ts__npy_parse(ctx, path, file.data, file.size_bytes, npy);
  ts_file_free(&file);
  return status;
}

void ts__npy_free(struct ts__npy *npy) {
  if (npy->data)
    npy->allocator->resize(npy->allocator->user, npy->data, (size_t)npy->size_bytes, 0);
  npy->data = NULL;
}

/* --- writing */

bool ts__npy_is_native(enum ts_dtype dtype) {
  for (size_t i = 0; i < NATIVE_COUNT; i++) {
    if (native_types[i].dtype == dtype) return true;
  }
  return false;
}

static const char *type_code(enum ts_dtype dtype) {
  for (size_t i = 0; i < NATIVE_COUNT; i++) {
    if (native_types[i].dtype == dtype) return native_types[i].code;
  }
  switch (ts_dtype_bits(dtype)) {
  case 16: return "u2";
  case 32: return "u4";
  case 64: return "u8";
  default: return "u1";
  }
}

char *ts__npy_header(struct ts_arena *arena, enum ts_dtype dtype, uint32_t rank,
                     const int64_t *shape, size_t *size_bytes) {
  char dict[TS_MAX_RANK * 22 + 128];
  const char *code = type_code(dtype);
  size_t used =
      (size_t)snprintf(dict, sizeof dict, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                       code[1] == '1' ? '|' : '<', code);
  for (uint32_t i = 0; i < rank; i++)
    used += (size_t)snprintf(dict + used, sizeof dict - used, "%s%lld%s", i ? " " : "",
                             (long long)shape[i], i + 1 < rank || rank == 1 ? "," : "");
  used += (size_t)snprintf(dict + used, sizeof dict - used, "), }");
  size_t prefix = MAGIC_BYTES + 4;
  size_t total = (prefix + used + 1 + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
  char *header = ts_arena_alloc(arena, total, 1);
  if (!header) return NULL;
  memcpy(header, magic, MAGIC_BYTES);
  header[MAGIC_BYTES] = 1;
  header[MAGIC_BYTES + 1] = 0;
  header[MAGIC_BYTES + 2] = (char)((total - prefix) & 0xff);
  header[MAGIC_BYTES + 3] = (char)((total - prefix) >> 8);
  memset(header + prefix, ' ', total - prefix);
  memcpy(header + prefix, dict, used);
  header[total - 1] = '\n';
  *size_bytes = total;
  return header;
}
