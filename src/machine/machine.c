/* Machine files: a line of text per value, "key value unit tag source ...", after a head of
 * "tilesim-machine VERSION", "name NAME", "profile PROFILE". '#' starts a comment line. */
#include "machine/machine.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT_VERSION = 1, FILE_LIMIT_BYTES = 1 << 20, PATH_BYTES = 4096 };

/* How one value is stored. */
enum limit_kind { LIMIT_U32, LIMIT_U64 };
struct limit_row {
  const char *key, *unit;
  enum limit_kind kind;
  size_t offset;
  uint64_t default_value;
};
static const struct limit_row limit_table[] = {
#define LIMIT(key, member, kind, unit, default_value)                                              \
  {#key, unit, LIMIT_##kind, offsetof(struct ts_machine, member), default_value},
#include "machine/limit.def"
#undef LIMIT
};
enum { LIMIT_COUNT = sizeof limit_table / sizeof limit_table[0] };
_Static_assert(LIMIT_COUNT <= 64, "a bit per row");

static const char *const tags[] = {"DOC", "MEASURED", "FITTED", "GUESS"};

static void store(struct ts_machine *machine, const struct limit_row *row, uint64_t value) {
  uint8_t *member = (uint8_t *)machine + row->offset;
  uint32_t narrow = (uint32_t)value;
  if (row->kind == LIMIT_U32)
    memcpy(member, &narrow, sizeof narrow);
  else
    memcpy(member, &value, sizeof value);
}

void ts_machine_default(struct ts_machine *machine) {
  *machine = (struct ts_machine){.name = "h200-sxm", .profile = "nv_sm90"};
  for (size_t i = 0; i < LIMIT_COUNT; i++)
    store(machine, &limit_table[i], limit_table[i].default_value);
}

/* --- reading */

struct reader {
  struct ts_ctx *ctx;
  const char *path;
  const char *at, *end; /* of the text that is left */
  uint32_t line;
  uint64_t seen; /* bit per row of the table */
};

struct word {
  const char *text;
  size_t length;
};

#define FAIL(r, ...)                                                                               \
  ts_fail((r)->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_MACHINE,                                           \
          (struct ts_source_place){(r)->path, (r)->line, 0}, __VA_ARGS__)

/* printf's width and text of a word. */
#define WORD(w) (int)((w).length < 64 ? (w).length : 64), (w).text

static bool is_word(struct word word, const char *text) {
  return word.length == strlen(text) && memcmp(word.text, text, word.length) == 0;
}

/* The next word of the line, empty at its end. */
static struct word next_word(const char **line, const char *end) {
  const char *at = *line;
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
    at++;
  const char *start = at;
  while (at < end && *at != ' ' && *at != '\t' && *at != '\r')
    at++;
  *line = at;
  return (struct word){start, (size_t)(at - start)};
}

/* The next line with something on it; false at the end of the file. */
static bool next_line(struct reader *r, const char **line, const char **line_end) {
  while (r->at < r->end) {
    const char *newline = memchr(r->at, '\n', (size_t)(r->end - r->at));
    *line = r->at;
    *line_end = newline ? newline : r->end;
    r->at = newline ? newline + 1 : r->end;
    r->line++;
    const char *peek = *line;
    struct word first = next_word(&peek, *line_end);
    if (first.length && first.text[0] != '#') return true;
  }
  return false;
}

static bool parse_number(struct word word, uint64_t *value) {
  *value = 0;
  for (size_t i = 0; i < word.length; i++) {
    if (word.text[i] < '0' || word.text[i] > '9') return false;
    uint64_t digit = (uint64_t)(word.text[i] - '0');
    if (*value > (UINT64_MAX - digit) / 10) return false;
    *value = *value * 10 + digit;
  }
  return word.length > 0;
}

static enum ts_status read_name(struct reader *r, const char *key, char *out, size_t size_bytes) {
  const char *line = r->end, *line_end = r->end;
  bool has_line = next_line(r, &line, &line_end);
  struct word found = next_word(&line, line_end), value = next_word(&line, line_end);
  if (!has_line || !is_word(found, key) || !value.length)
    return FAIL(r, "expected \"%s NAME\"", key);
  if (value.length >= size_bytes)
    return FAIL(r, "the %s is longer than %zu characters", key, size_bytes - 1);
  memcpy(out, value.text, value.length);
  out[value.length] = 0;
  return TS_OK;
}

static enum ts_status read_head(struct reader *r, struct ts_machine *machine) {
  const char *line = r->end, *line_end = r->end;
  bool has_line = next_line(r, &line, &line_end);
  struct word magic = next_word(&line, line_end), version = next_word(&line, line_end);
  uint64_t number = 0;
  if (!has_line || !is_word(magic, "tilesim-machine") || !parse_number(version, &number))
    return FAIL(r, "expected \"tilesim-machine %d\"", FORMAT_VERSION);
  if (number != FORMAT_VERSION)
    return FAIL(r, "version %llu; this program reads version %d", (unsigned long long)number,
                FORMAT_VERSION);
  TS_TRY(read_name(r, "name", machine->name, sizeof machine->name));
  return read_name(r, "profile", machine->profile, sizeof machine->profile);
}

static bool is_tag(struct word word) {
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
    if (is_word(word, tags[i])) return true;
  return false;
}

static enum ts_status read_limit(struct reader *r, const char *line, const char *line_end,
                                 struct ts_machine *machine) {
  struct word key = next_word(&line, line_end), value = next_word(&line, line_end);
  struct word unit = next_word(&line, line_end), tag = next_word(&line, line_end);
  struct word source = next_word(&line, line_end);
  size_t i = 0;
  while (i < LIMIT_COUNT && !is_word(key, limit_table[i].key))
    i++;
  if (i == LIMIT_COUNT) return FAIL(r, "unknown key \"%.*s\"", WORD(key));
  const struct limit_row *row = &limit_table[i];
  uint64_t number;
  if (r->seen >> i & 1) return FAIL(r, "%s is given twice", row->key);
  if (!parse_number(value, &number) || (row->kind == LIMIT_U32 && number > UINT32_MAX))
    return FAIL(r, "%s: \"%.*s\" is not a number that fits", row->key, WORD(value));
  if (!is_word(unit, row->unit))
    return FAIL(r, "%s: expected the unit \"%s\", not \"%.*s\"", row->key, row->unit, WORD(unit));
  if (!is_tag(tag))
    return FAIL(r, "%s: expected a tag DOC, MEASURED, FITTED or GUESS, not \"%.*s\"", row->key,
                WORD(tag));
  if (!source.length) return FAIL(r, "%s has no source", row->key);
  r->seen |= (uint64_t)1 << i;
  store(machine, row, number);
  return TS_OK;
}

static enum ts_status read_all(struct reader *r, struct ts_machine *machine) {
  const char *line, *line_end;
  TS_TRY(read_head(r, machine));
  while (next_line(r, &line, &line_end))
    TS_TRY(read_limit(r, line, line_end, machine));
  for (size_t i = 0; i < LIMIT_COUNT; i++)
    if (!(r->seen >> i & 1)) return FAIL(r, "%s is missing", limit_table[i].key);
  return TS_OK;
}

static bool ends_in_mach(const char *name) {
  size_t length = strlen(name);
  return length >= 5 && strcmp(name + length - 5, ".mach") == 0;
}

static enum ts_status read_file(struct ts_ctx *ctx, const char *path, struct ts_machine *machine) {
  struct ts_file file;
  TS_TRY(ts_file_read(ctx, path, FILE_LIMIT_BYTES, &file));
  struct ts_machine read = {.name = ""};
  struct reader reader = {
      .ctx = ctx, .path = path, .at = file.data, .end = file.data + file.size_bytes};
  enum ts_status status = read_all(&reader, &read);
  ts_file_free(&file);
  if (status == TS_OK) *machine = read;
  return status;
}

enum ts_status ts_machine_load(struct ts_ctx *ctx, const char *directory, const char *name,
                               struct ts_machine *machine) {
  if (strcmp(name, "h200") == 0 || strcmp(name, "h200-sxm") == 0) {
    ts_machine_default(machine);
    return TS_OK;
  }
  if (strchr(name, '/') || ends_in_mach(name)) return read_file(ctx, name, machine);
  char path[PATH_BYTES];
  int length = snprintf(path, sizeof path, "%s/%s.mach", directory ? directory : ".", name);
  if (length < 0 || length >= PATH_BYTES || !ts_file_exists(path))
    return ts_fail(ctx, TS_BAD_ARGUMENT, TS_DIAG_INPUT_MACHINE, TS_NO_PLACE,
                   "there is no machine \"%s\" (looked for %s/%s.mach)", name,
                   directory ? directory : ".", name);
  return read_file(ctx, path, machine);
}
