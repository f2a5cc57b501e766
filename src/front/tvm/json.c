/* A JSON reader for node graphs: one pass, no tree in between, nothing allocated but the strings.
 * Beyond RFC 8259 it takes the bare tokens Infinity, -Infinity and NaN, which TVM writes; it
 * refuses what could not be kept: integers beyond 64 bits, NUL characters, invalid UTF-8. */
#include "front/tvm/tvm_priv.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_LIMIT_CHARS = 128, MESSAGE_BYTES = 640 };

/* ---- Messages ---- */

struct tir__quote tir__quote(struct tir__slice slice) {
  struct tir__quote quote;
  size_t room = sizeof quote.text - 4; /* for "..." and the NUL */
  size_t length = slice.length < room ? slice.length : room;
  for (size_t i = 0; i < length; i++) {
    char c = slice.text[i];
    quote.text[i] = c < ' ' || c > '~' ? '?' : c;
  }
  strcpy(quote.text + length, length < slice.length ? "..." : "");
  return quote;
}

static struct ts_source_place place_of(const struct tir__reader *reader, size_t at) {
  struct ts_source_place place = {reader->path, 1, 1};
  for (size_t i = 0; i < at && i < reader->size; i++) {
    if (reader->text[i] == '\n') {
      place.line++;
      place.column = 1;
    } else {
      place.column++;
    }
  }
  return place;
}

/* Appends formatted text as far as it fits. */
static void append(char *message, size_t *length, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *message, size_t *length, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int count = vsnprintf(message + *length, MESSAGE_BYTES - *length, format, arguments);
  va_end(arguments);
  if (count > 0) *length += (size_t)count;
  if (*length >= MESSAGE_BYTES) *length = MESSAGE_BYTES - 1;
}

static struct tir__quote quote_text(const char *text) {
  return tir__quote((struct tir__slice){text, strlen(text)});
}

/* "byte 17, node 4 (tirx.Add), field a: " */
static void append_position(const struct tir__reader *reader, size_t at, char *message,
                            size_t *length) {
  append(message, length, "byte %zu", at);
  if (reader->in_node) append(message, length, ", node %u", (unsigned)reader->node);
  if (reader->in_node && reader->node_type) {
    append(message, length, " (%s)", reader->node_type);
    if (reader->field) append(message, length, ", field %s", reader->field);
  }
  append(message, length, ": ");
}

/* Children stand before their parents, so the latest span and the latest function name are where
 * the node most likely belongs; more is not known before the function itself is read. */
static void append_source(const struct tir__reader *reader, char *message, size_t *length) {
  if (!reader->in_node || !reader->source.file) return;
  append(message, length, " (near %s:%u)", quote_text(reader->source.file).text,
         (unsigned)reader->source.line);
}

enum ts_status tir__fail_at(struct tir__reader *reader, size_t at, enum ts_status status,
                            enum ts_diag_code code, const char *format, ...) {
  char message[MESSAGE_BYTES];
  size_t length = 0;
  append_position(reader, at, message, &length);
  va_list arguments;
  va_start(arguments, format);
  int count = vsnprintf(message + length, MESSAGE_BYTES - length, format, arguments);
  va_end(arguments);
  if (count > 0) length += (size_t)count;
  if (length >= MESSAGE_BYTES) length = MESSAGE_BYTES - 1;
  append_source(reader, message, &length);
  struct ts_diag diag = {.code = code,
                         .message = message,
                         .place = place_of(reader, at),
                         .function = reader->in_node ? reader->function : NULL,
                         .block = -1,
                         .warp = -1,
                         .lane = -1};
  ts_diag_add(reader->ctx->diags, &diag);
  return status;
}

static enum ts_status syntax_error(struct tir__reader *reader, const char *expected) {
  const char *found = tir__found(reader);
  return tir__fail_at(reader, reader->at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                      "expected %s, found %s", expected, found);
}

/* The value at the cursor is well-formed JSON of the wrong kind, or no JSON at all. */
static enum ts_status wrong_value(struct tir__reader *reader, const char *expected) {
  char c = tir__peek(reader);
  bool is_value = c != 0 && (c == '-' || (c >= '0' && c <= '9') || strchr("{[\"tfnIN", c));
  enum ts_diag_code code = is_value ? TS_DIAG_INPUT_TYPE : TS_DIAG_INPUT_SYNTAX;
  const char *found = tir__found(reader);
  return tir__fail_at(reader, reader->at, TS_BAD_INPUT, code, "expected %s, found %s", expected,
                      found);
}

/* ---- Tokens ---- */

char tir__peek(struct tir__reader *reader) {
  while (reader->at < reader->size) {
    char c = reader->text[reader->at];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return c;
    reader->at++;
  }
  return 0;
}

const char *tir__found(struct tir__reader *reader) {
  char c = tir__peek(reader);
  if (reader->at >= reader->size) return "the end of the text";
  switch (c) {
  case '{': return "an object";
  case '[': return "an array";
  case '"': return "a string";
  case 't':
  case 'f': return "true or false";
  case 'n': return "null";
  case '}': return "'}'";
  case ']': return "']'";
  case ',': return "','";
  case ':': return "':'";
  default: break;
  }
  return c == '-' || c == 'I' || c == 'N' || (c >= '0' && c <= '9') ? "a number"
                                                                    : "an unexpected character";
}

enum ts_status tir__expect(struct tir__reader *reader, char character, const char *expected) {
  if (tir__peek(reader) != character || reader->at >= reader->size) {
    return character == '{' || character == '[' ? wrong_value(reader, expected)
                                                : syntax_error(reader, expected);
  }
  reader->at++;
  return TS_OK;
}

enum ts_status tir__next_item(struct tir__reader *reader, char close, bool *first, bool *more) {
  char c = tir__peek(reader);
  *more = false;
  if (c == close) {
    reader->at++;
    return TS_OK;
  }
  if (!*first) {
    if (c != ',') {
      return syntax_error(reader, close == ']' ? "',' or ']'" : "',' or '}'");
    }
    reader->at++;
  }
  *first = false;
  *more = true;
  return TS_OK;
}

enum ts_status tir__next_key(struct tir__reader *reader, bool *first, bool *more,
                             struct tir__slice *key) {
  TS_TRY(tir__next_item(reader, '}', first, more));
  if (!*more) return TS_OK;
  if (tir__peek(reader) != '"') return syntax_error(reader, "a key");
  TS_TRY(tir__read_string(reader, key));
  /* The key is in the text or in the scratch buffer; neither moves here. */
  return tir__expect(reader, ':', "':'");
}

/* ---- Strings ---- */

static enum ts_status bad_string(struct tir__reader *reader, size_t at, const char *what) {
  return tir__fail_at(reader, at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "%s", what);
}

/* Length of the UTF-8 sequence at the cursor, 0 when it is none (RFC 3629: shortest form, no
 * surrogates, at most U+10FFFF). */
static size_t utf8_length(const char *text, size_t available) {
  const unsigned char *s = (const unsigned char *)text;
  size_t length = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
  if (length == 0 || s[0] > 0xf4 || length > available) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
  }
  if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
  if (s[0] == 0xed && s[1] > 0x9f) return 0;
  if (s[0] == 0xf0 && s[1] < 0x90) return 0;
  if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
  return length;
}

static bool read_hex4(const char *text, size_t available, uint32_t *out) {
  if (available < 4) return false;
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) {
    char c = text[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return false;
    value = value * 16 + (uint32_t)digit;
  }
  *out = value;
  return true;
}

static size_t write_utf8(char *to, uint32_t code) {
  if (code < 0x80) {
    to[0] = (char)code;
    return 1;
  }
  size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
  for (size_t i = length - 1; i > 0; i--) {
    to[i] = (char)(0x80 | (code & 0x3f));
    code >>= 6;
  }
  to[0] = (char)(lead[length] | code);
  return length;
}

/* "\uXXXX", with a second one for a surrogate pair; the cursor stands after the first "\u". */
static enum ts_status unescape_unicode(struct tir__reader *reader, char *to, size_t *length) {
  size_t start = reader->at - 2;
  uint32_t code = 0, low = 0;
  if (!read_hex4(reader->text + reader->at, reader->size - reader->at, &code)) {
    return bad_string(reader, start, "\\u needs four hexadecimal digits");
  }
  reader->at += 4;
  if (code == 0) return bad_string(reader, start, "a NUL character in a string");
  if (code >= 0xd800 && code < 0xe000) {
    const char *next = reader->text + reader->at;
    bool paired = code < 0xdc00 && reader->size - reader->at >= 6 && next[0] == '\\' &&
                  next[1] == 'u' && read_hex4(next + 2, 4, &low) && low >= 0xdc00 && low < 0xe000;
    if (!paired) return bad_string(reader, start, "half a surrogate pair in a string");
    reader->at += 6;
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  *length = write_utf8(to, code);
  return TS_OK;
}

/* One escape, the cursor on the backslash; at most 4 bytes go to `to`. */
static enum ts_status unescape(struct tir__reader *reader, char *to, size_t *length) {
  static const char from_to[][2] = {{'"', '"'},  {'\\', '\\'}, {'/', '/'},  {'b', '\b'},
                                    {'f', '\f'}, {'n', '\n'},  {'r', '\r'}, {'t', '\t'}};
  size_t start = reader->at++;
  char c = reader->at < reader->size ? reader->text[reader->at] : 0;
  reader->at++;
  if (c == 'u') return unescape_unicode(reader, to, length);
  for (size_t i = 0; i < sizeof from_to / sizeof from_to[0]; i++) {
    if (from_to[i][0] != c) continue;
    to[0] = from_to[i][1];
    *length = 1;
    return TS_OK;
  }
  reader->at = start;
  return bad_string(reader, start, "unknown escape in a string");
}

/* The cursor goes to the closing quote, a backslash or a fault. */
static enum ts_status scan_plain(struct tir__reader *reader) {
  while (reader->at < reader->size) {
    unsigned char c = (unsigned char)reader->text[reader->at];
    if (c == '"' || c == '\\') return TS_OK;
    if (c < ' ') return bad_string(reader, reader->at, "a control character in a string");
    size_t length =
        c < 0x80 ? 1 : utf8_length(reader->text + reader->at, reader->size - reader->at);
    if (length == 0) return bad_string(reader, reader->at, "invalid UTF-8 in a string");
    reader->at += length;
  }
  return bad_string(reader, reader->size, "the text ends inside a string");
}

/* The rest of a string that has escapes goes through the scratch buffer. */
static enum ts_status read_escaped(struct tir__reader *reader, size_t start,
                                   struct tir__slice *out) {
  reader->scratch.count = 0;
  for (;;) {
    size_t plain = reader->at - start, escaped = 0;
    if (ts_vec_reserve(&reader->scratch, reader->ctx->allocator, plain + 4)) {
      return ts_fail_memory(reader->ctx);
    }
    memcpy(reader->scratch.data + reader->scratch.count, reader->text + start, plain);
    reader->scratch.count += plain;
    if (reader->text[reader->at] == '"') break;
    TS_TRY(unescape(reader, reader->scratch.data + reader->scratch.count, &escaped));
    reader->scratch.count += escaped;
    start = reader->at;
    TS_TRY(scan_plain(reader));
  }
  reader->at++;
  *out = (struct tir__slice){reader->scratch.data, reader->scratch.count};
  return TS_OK;
}

enum ts_status tir__read_string(struct tir__reader *reader, struct tir__slice *out) {
  if (tir__peek(reader) != '"') return wrong_value(reader, "a string");
  size_t start = ++reader->at;
  TS_TRY(scan_plain(reader));
  if (reader->text[reader->at] == '\\') return read_escaped(reader, start, out);
  *out = (struct tir__slice){reader->text + start, reader->at - start};
  reader->at++;
  return TS_OK;
}

enum ts_status tir__read_interned(struct tir__reader *reader, const char **out) {
  struct tir__slice slice;
  TS_TRY(tir__read_string(reader, &slice));
  *out = ts_intern(&reader->strings, slice.text, slice.length);
  return *out ? TS_OK : ts_fail_memory(reader->ctx);
}

/* ---- Numbers and words ---- */

static bool is_digit(const struct tir__reader *reader, size_t at) {
  return at < reader->size && reader->text[at] >= '0' && reader->text[at] <= '9';
}

static bool is_char(const struct tir__reader *reader, size_t at, char c) {
  return at < reader->size && reader->text[at] == c;
}

static size_t skip_digits(const struct tir__reader *reader, size_t at) {
  while (is_digit(reader, at))
    at++;
  return at;
}

/* The end of the number at `at` by RFC 8259, or `at` when there is none. *is_integer says that it
 * has neither fraction nor exponent. */
static size_t number_end(const struct tir__reader *reader, size_t at, bool *is_integer) {
  size_t start = at;
  if (is_char(reader, at, '-')) at++;
  if (!is_digit(reader, at)) return start;
  at = is_char(reader, at, '0') ? at + 1 : skip_digits(reader, at);
  *is_integer = true;
  if (is_char(reader, at, '.')) {
    if (!is_digit(reader, at + 1)) return start;
    at = skip_digits(reader, at + 1);
    *is_integer = false;
  }
  if (is_char(reader, at, 'e') || is_char(reader, at, 'E')) {
    at++;
    if (is_char(reader, at, '-') || is_char(reader, at, '+')) at++;
    if (!is_digit(reader, at)) return start;
    at = skip_digits(reader, at);
    *is_integer = false;
  }
  /* "012" and "1x" are no numbers. */
  char next = at < reader->size ? reader->text[at] : ' ';
  bool ends = !is_digit(reader, at) && next != '.' && !(next >= 'a' && next <= 'z') &&
              !(next >= 'A' && next <= 'Z');
  return ends ? at : start;
}

static bool take_word(struct tir__reader *reader, const char *word) {
  size_t length = strlen(word);
  if (reader->size - reader->at < length) return false;
  if (memcmp(reader->text + reader->at, word, length) != 0) return false;
  reader->at += length;
  return true;
}

static enum ts_status bad_number(struct tir__reader *reader) {
  char c = tir__peek(reader);
  if (c != '-' && !is_digit(reader, reader->at)) return wrong_value(reader, "a number");
  return tir__fail_at(reader, reader->at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "malformed number");
}

enum ts_status tir__read_int(struct tir__reader *reader, int64_t *out) {
  tir__peek(reader);
  bool is_integer = false;
  size_t start = reader->at, end = number_end(reader, start, &is_integer);
  if (end == start) return bad_number(reader);
  if (!is_integer) {
    return tir__fail_at(reader, start, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                        "expected an integer, found a number with a fraction or an exponent");
  }
  bool negative = reader->text[start] == '-';
  uint64_t value = 0, limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
  for (size_t i = start + negative; i < end; i++) {
    uint64_t digit = (uint64_t)(reader->text[i] - '0');
    if (value > (limit - digit) / 10) {
      return tir__fail_at(reader, start, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT,
                          "the integer does not fit in 64 bits");
    }
    value = value * 10 + digit;
  }
  reader->at = end;
  *out = negative ? (int64_t)(0 - value) : (int64_t)value;
  return TS_OK;
}

/* Correctly rounded by the C library, in the C locale whatever the process has chosen. */
static enum ts_status parse_double(struct tir__reader *reader, size_t end, double *out) {
  char digits[NUMBER_LIMIT_CHARS + 1];
  size_t length = end - reader->at;
  if (length > NUMBER_LIMIT_CHARS) {
    return tir__fail_at(reader, reader->at, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT,
                        "a number of more than %d characters", (int)NUMBER_LIMIT_CHARS);
  }
  memcpy(digits, reader->text + reader->at, length);
  digits[length] = 0;
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c_locale) return ts_fail_memory(reader->ctx);
  locale_t old = uselocale(c_locale);
  *out = strtod(digits, NULL);
  uselocale(old);
  freelocale(c_locale);
  if (isinf(*out)) {
    return tir__fail_at(reader, reader->at, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT,
                        "the number does not fit in a double");
  }
  reader->at = end;
  return TS_OK;
}

static bool take_special(struct tir__reader *reader, double *out) {
  if (take_word(reader, "Infinity")) {
    *out = (double)INFINITY;
  } else if (take_word(reader, "-Infinity")) {
    *out = -(double)INFINITY;
  } else if (take_word(reader, "NaN")) {
    *out = (double)NAN;
  } else {
    return false;
  }
  return true;
}

enum ts_status tir__read_double(struct tir__reader *reader, double *out) {
  tir__peek(reader);
  if (take_special(reader, out)) return TS_OK;
  bool is_integer = false;
  size_t end = number_end(reader, reader->at, &is_integer);
  if (end == reader->at) return bad_number(reader);
  return parse_double(reader, end, out);
}

enum ts_status tir__read_bool(struct tir__reader *reader, bool *out) {
  tir__peek(reader);
  *out = take_word(reader, "true");
  if (*out || take_word(reader, "false")) return TS_OK;
  return wrong_value(reader, "true or false");
}

/* ---- Skipping ---- */

static enum ts_status skip_scalar(struct tir__reader *reader) {
  struct tir__slice slice;
  double number;
  if (tir__peek(reader) == '"') return tir__read_string(reader, &slice);
  if (take_word(reader, "true") || take_word(reader, "false") || take_word(reader, "null") ||
      take_special(reader, &number)) {
    return TS_OK;
  }
  bool is_integer = false;
  size_t end = number_end(reader, reader->at, &is_integer);
  if (end == reader->at) return bad_number(reader);
  reader->at = end;
  return TS_OK;
}

/* Steps over commas and closing brackets up to the next value, its key read; *depth 0: all done. */
static enum ts_status next_skipped(struct tir__reader *reader, const char *closers, size_t *depth,
                                   bool *first) {
  bool more = false;
  struct tir__slice key;
  while (*depth > 0) {
    char close = closers[*depth - 1];
    TS_TRY(close == '}' ? tir__next_key(reader, first, &more, &key)
                        : tir__next_item(reader, close, first, &more));
    if (more) return TS_OK;
    (*depth)--;
  }
  return TS_OK;
}

enum ts_status tir__skip(struct tir__reader *reader) {
  char closers[TIR__JSON_DEPTH_LIMIT];
  size_t depth = 0;
  do {
    char c = tir__peek(reader);
    bool first = c == '{' || c == '[';
    if (!first) {
      TS_TRY(skip_scalar(reader));
    } else if (depth == TIR__JSON_DEPTH_LIMIT) {
      return tir__fail_at(reader, reader->at, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT,
                          "JSON nested more than %d deep", (int)TIR__JSON_DEPTH_LIMIT);
    } else {
      closers[depth++] = c == '{' ? '}' : ']';
      reader->at++;
    }
    TS_TRY(next_skipped(reader, closers, &depth, &first));
  } while (depth > 0);
  return TS_OK;
}
