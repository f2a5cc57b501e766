/* Machine files: a line of text per value, "key value unit tag source ...", after a head of
 * "tilesim-machine VERSION", "name NAME", "profile PROFILE" and, optionally, "like MACHINE": constants
 * of timing that the file does not state are then guessed to be that machine's. The value "none" says
 * that there is no such constant. '#' starts a comment line. */
#include "machine/machine_priv.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT_VERSION = 1, FILE_LIMIT_BYTES = 1 << 20, PATH_BYTES = 4096, LIKE_LIMIT = 4 };

/* How one value is stored. */
enum limit_kind { LIMIT_U32, LIMIT_U64 };
struct limit_row {
  const char *key, *unit;
  enum limit_kind kind;
  size_t offset;
  uint64_t least;
};
static const struct limit_row limit_table[] = {
#define LIMIT(key, member, kind, unit, least)                                                      \
  {#key, unit, LIMIT_##kind, offsetof(struct ts_machine, member), least},
#include "machine/limit.def"
#undef LIMIT
};
enum { LIMIT_COUNT = sizeof limit_table / sizeof limit_table[0] };
_Static_assert(LIMIT_COUNT <= 64, "a bit per row");

static const struct {
  const char *key, *unit, *text;
} timing_table[] = {
#define TIMING(key, unit, text) {#key, unit, text},
#include "machine/timing.def"
#undef TIMING
};

const char *ts_timing_key(enum ts_timing_id id) { return timing_table[id].key; }
const char *ts_timing_unit(enum ts_timing_id id) { return timing_table[id].unit; }
const char *ts_timing_text(enum ts_timing_id id) { return timing_table[id].text; }

static const char *const tags[] = {
    [TS_TAG_DOC] = "DOC",
    [TS_TAG_MEASURED] = "MEASURED",
    [TS_TAG_FITTED] = "FITTED",
    [TS_TAG_GUESS] = "GUESS",
};

static const struct {
  const char *name, *full;
} aliases[] = {{"h200", "h200-sxm"}, {"h100", "h100-sxm"}, {"h800", "h800-pcie"}};

static void store(struct ts_machine *machine, const struct limit_row *row, uint64_t value) {
  uint8_t *member = (uint8_t *)machine + row->offset;
  uint32_t narrow = (uint32_t)value;
  if (row->kind == LIMIT_U32)
    memcpy(member, &narrow, sizeof narrow);
  else
    memcpy(member, &value, sizeof value);
}

/* --- reading */

struct reader {
  struct ts_ctx *ctx;
  const char *path;
  const char *at, *end; /* of the text that is left */
  uint32_t line;
  uint64_t seen;                              /* bit per row of the table */
  const struct ts_machine_listener *listener; /* NULL: nobody */
  const char *directory; /* where the machine that this one is like is looked for */
  char like[32];         /* "" none */
  uint32_t depth;        /* machines that are like this one, so far */
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
  TS_TRY(read_name(r, "profile", machine->profile, sizeof machine->profile));
  struct reader ahead = *r;
  if (!next_line(&ahead, &line, &line_end) || !is_word(next_word(&line, line_end), "like"))
    return TS_OK;
  return read_name(r, "like", r->like, sizeof r->like);
}

static enum ts_machine_tag find_tag(struct word word) {
  for (int tag = TS_TAG_DOC; tag <= TS_TAG_GUESS; tag++)
    if (is_word(word, tags[tag])) return (enum ts_machine_tag)tag;
  return TS_TAG_NONE;
}

/* A line of a value, in words. */
struct value_line {
  struct word key, value, unit, source;
  enum ts_machine_tag tag;
};

static enum ts_status check_value(struct reader *r, const struct value_line *line, const char *key,
                                  const char *unit, bool is_repeated) {
  if (is_repeated) return FAIL(r, "%s is given twice", key);
  if (!is_word(line->unit, unit))
    return FAIL(r, "%s: expected the unit \"%s\", not \"%.*s\"", key, unit, WORD(line->unit));
  if (line->tag == TS_TAG_NONE)
    return FAIL(r, "%s: expected a tag DOC, MEASURED, FITTED or GUESS behind the unit", key);
  if (!line->source.length) return FAIL(r, "%s has no source", key);
  return TS_OK;
}

static enum ts_status read_limit(struct reader *r, const struct value_line *line, size_t i,
                                 struct ts_machine *machine) {
  const struct limit_row *row = &limit_table[i];
  uint64_t number;
  if (!parse_number(line->value, &number) || (row->kind == LIMIT_U32 && number > UINT32_MAX))
    return FAIL(r, "%s: \"%.*s\" is not a number that fits", row->key, WORD(line->value));
  if (number < row->least)
    return FAIL(r, "%s: %" PRIu64 " is too small; the least is %" PRIu64, row->key, number,
                row->least);
  TS_TRY(check_value(r, line, row->key, row->unit, r->seen >> i & 1));
  r->seen |= (uint64_t)1 << i;
  store(machine, row, number);
  return TS_OK;
}

/* A decimal number that is finite and not negative. */
static bool parse_decimal(struct word word, double *value) {
  char text[64], *end;
  if (word.length == 0 || word.length >= sizeof text) return false;
  for (size_t i = 0; i < word.length; i++)
    if (!strchr("0123456789.e+-", word.text[i])) return false;
  memcpy(text, word.text, word.length);
  text[word.length] = 0;
  *value = strtod(text, &end);
  return *end == 0 && isfinite(*value) && *value >= 0;
}

/* What a model can divide by and add up: rates are positive, and all stay far from infinity. */
static const struct {
  const char *unit;
  double least, most;
} unit_bounds[] = {
    {"MHz", 1, 1e6},
    {"MAC/cycle", 1e-3, 1e9},
    {"bytes/cycle", 1e-3, 1e9},
    {"bytes/us", 1, 1e12},
    {"sectors/cycle", 1e-3, 1e9},
    {"lines/cycle", 1e-3, 1e9},
    {"insns/cycle", 1e-3, 1e9},
    {"SMs", 0, 65536},
    {"insns", 0, 1e9},
    {"bytes", 0, 4294967296},
    {"cycles", 0, 1e9},
    {"us", 0, 1e9},
    {"ratio", 0, 1e3},
    {"share", 1e-2, 1},
};

static enum ts_status check_bounds(struct reader *r, size_t i, double value) {
  for (size_t k = 0; k < sizeof unit_bounds / sizeof *unit_bounds; k++) {
    if (strcmp(unit_bounds[k].unit, timing_table[i].unit) != 0) continue;
    if (value >= unit_bounds[k].least && value <= unit_bounds[k].most) return TS_OK;
    return FAIL(r, "%s: %g is out of range; expected %g to %g %s", timing_table[i].key, value,
                unit_bounds[k].least, unit_bounds[k].most, unit_bounds[k].unit);
  }
  return FAIL(r, "%s: no range for the unit %s", timing_table[i].key, timing_table[i].unit);
}

static enum ts_status read_timing(struct reader *r, const struct value_line *line, size_t i,
                                  struct ts_machine *machine) {
  const char *key = timing_table[i].key;
  double *value = &machine->timing[i];
  bool is_stated = !is_word(line->value, "none");
  if (is_stated && !parse_decimal(line->value, value))
    return FAIL(r, "%s: \"%.*s\" is not a number that fits", key, WORD(line->value));
  if (is_stated) TS_TRY(check_bounds(r, i, *value));
  TS_TRY(check_value(r, line, key, timing_table[i].unit, machine->timing_tag[i] != TS_TAG_NONE));
  machine->timing_tag[i] = (uint8_t)line->tag;
  return TS_OK;
}

/* Without the blanks around it. */
static struct word rest_of_line(const char *text, const char *end) {
  struct word first = next_word(&text, end);
  while (end > first.text && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
    end--;
  return (struct word){first.text, (size_t)(end - first.text)};
}

/* The value as the file has it, to whoever wants to list the machine. */
static enum ts_status tell(struct reader *r, const struct value_line *line, const char *meaning) {
  struct ts_arena arena;
  if (!r->listener) return TS_OK;
  ts_arena_init(&arena, r->ctx->allocator);
  struct ts_machine_value value = {
      .key = ts_arena_copy(&arena, line->key.text, line->key.length),
      .value = ts_arena_copy(&arena, line->value.text, line->value.length),
      .unit = ts_arena_copy(&arena, line->unit.text, line->unit.length),
      .tag = tags[line->tag],
      .source = ts_arena_copy(&arena, line->source.text, line->source.length),
      .meaning = meaning};
  bool has_memory = value.key && value.value && value.unit && value.source;
  if (has_memory) r->listener->take(r->listener->user, &value);
  ts_arena_free(&arena);
  return has_memory ? TS_OK : ts_fail_memory(r->ctx);
}

static enum ts_status read_value(struct reader *r, const char *text, const char *end,
                                 struct ts_machine *machine) {
  struct value_line line;
  line.key = next_word(&text, end);
  line.value = next_word(&text, end);
  line.unit = next_word(&text, end);
  line.tag = find_tag(next_word(&text, end));
  line.source = rest_of_line(text, end);
  for (size_t i = 0; i < LIMIT_COUNT; i++) {
    if (!is_word(line.key, limit_table[i].key)) continue;
    TS_TRY(read_limit(r, &line, i, machine));
    return tell(r, &line, "");
  }
  for (size_t i = 0; i < TS_TIMING_COUNT; i++) {
    if (!is_word(line.key, timing_table[i].key)) continue;
    TS_TRY(read_timing(r, &line, i, machine));
    return tell(r, &line, timing_table[i].text);
  }
  return FAIL(r, "unknown key \"%.*s\"", WORD(line.key));
}

static enum ts_status load(struct ts_ctx *ctx, const char *directory, const char *name,
                           uint32_t depth, const struct ts_machine_listener *listener,
                           struct ts_machine *machine);

static const struct ts__machine_text *find_text(const char *name);
static const char *full_name(const char *name);
static bool ends_in_mach(const char *name);

static bool is_known(const struct reader *r, const char *name) {
  char path[PATH_BYTES];
  int length =
      snprintf(path, sizeof path, "%s/%s.mach", r->directory ? r->directory : ".", full_name(name));
  return find_text(full_name(name)) || strchr(name, '/') || ends_in_mach(name) ||
         (length > 0 && length < PATH_BYTES && ts_file_exists(path));
}

/* What the file does not state of timing is guessed to be as on the machine it is like. */
static enum ts_status inherit(struct reader *r, struct ts_machine *machine) {
  struct ts_machine base;
  char value[32], source[64];
  if (r->depth == LIKE_LIMIT) return FAIL(r, "machines are like each other in a circle");
  if (!is_known(r, r->like)) return FAIL(r, "like: there is no machine \"%s\"", r->like);
  TS_TRY(load(r->ctx, r->directory, r->like, r->depth + 1, NULL, &base));
  snprintf(source, sizeof source, "as on %s", base.name);
  for (size_t i = 0; i < TS_TIMING_COUNT; i++) {
    if (machine->timing_tag[i] != TS_TAG_NONE || isnan(base.timing[i])) continue;
    machine->timing[i] = base.timing[i];
    machine->timing_tag[i] = TS_TAG_GUESS;
    snprintf(value, sizeof value, "%g", base.timing[i]);
    struct ts_machine_value row = {.key = timing_table[i].key,
                                   .value = value,
                                   .unit = timing_table[i].unit,
                                   .tag = tags[TS_TAG_GUESS],
                                   .source = source,
                                   .meaning = timing_table[i].text};
    if (r->listener) r->listener->take(r->listener->user, &row);
  }
  return TS_OK;
}

static enum ts_status read_all(struct reader *r, struct ts_machine *machine) {
  const char *line, *line_end;
  TS_TRY(read_head(r, machine));
  while (next_line(r, &line, &line_end))
    TS_TRY(read_value(r, line, line_end, machine));
  for (size_t i = 0; i < LIMIT_COUNT; i++)
    if (!(r->seen >> i & 1)) return FAIL(r, "%s is missing", limit_table[i].key);
  return r->like[0] ? inherit(r, machine) : TS_OK;
}

static bool ends_in_mach(const char *name) {
  size_t length = strlen(name);
  return length >= 5 && strcmp(name + length - 5, ".mach") == 0;
}

/* how: all of a reader but its text. */
static enum ts_status read_text(const struct reader *how, const char *text, size_t size_bytes,
                                struct ts_machine *machine) {
  struct ts_machine read = {.name = ""};
  struct reader reader = *how;
  reader.at = text;
  reader.end = text + size_bytes;
  for (size_t i = 0; i < TS_TIMING_COUNT; i++)
    read.timing[i] = NAN;
  TS_TRY(read_all(&reader, &read));
  *machine = read;
  return TS_OK;
}

static enum ts_status read_file(const struct reader *how, struct ts_machine *machine) {
  struct ts_file file;
  TS_TRY(ts_file_read(how->ctx, how->path, FILE_LIMIT_BYTES, &file));
  enum ts_status status = read_text(how, file.data, file.size_bytes, machine);
  ts_file_free(&file);
  return status;
}

/* --- the compiled-in files */

static const struct ts__machine_text *find_text(const char *name) {
  for (size_t i = 0; i < ts__machine_text_count; i++)
    if (strcmp(ts__machine_texts[i].name, name) == 0) return &ts__machine_texts[i];
  return NULL;
}

const char *ts_machine_built_in(uint32_t index) {
  return index < ts__machine_text_count ? ts__machine_texts[index].name : NULL;
}

static const char *full_name(const char *name) {
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(name, aliases[i].name) == 0) return aliases[i].full;
  return name;
}

void ts_machine_default(struct ts_machine *machine) {
  const struct ts__machine_text *text = find_text("h200-sxm");
  struct ts_ctx ctx = {NULL, NULL}; /* nothing is reported: a test reads every compiled-in file */
  struct reader reader = {.ctx = &ctx, .path = text->name};
  if (read_text(&reader, (const char *)text->bytes, text->size_bytes, machine) != TS_OK)
    *machine = (struct ts_machine){.name = "h200-sxm"};
}

static enum ts_status load(struct ts_ctx *ctx, const char *directory, const char *name,
                           uint32_t depth, const struct ts_machine_listener *listener,
                           struct ts_machine *machine) {
  struct reader reader = {
      .ctx = ctx, .path = name, .directory = directory, .depth = depth, .listener = listener};
  if (strchr(name, '/') || ends_in_mach(name)) return read_file(&reader, machine);
  char path[PATH_BYTES];
  const char *full = full_name(name), *folder = directory ? directory : ".";
  int length = snprintf(path, sizeof path, "%s/%s.mach", folder, full);
  reader.path = path;
  bool fits = length > 0 && length < PATH_BYTES;
  if (directory && fits && ts_file_exists(path)) return read_file(&reader, machine);
  const struct ts__machine_text *text = find_text(full);
  reader.path = full;
  if (text) return read_text(&reader, (const char *)text->bytes, text->size_bytes, machine);
  return ts_fail(ctx, TS_BAD_ARGUMENT, TS_DIAG_INPUT_MACHINE, TS_NO_PLACE,
                 "there is no machine \"%s\" (looked for %s/%s.mach)", name, folder, full);
}

enum ts_status ts_machine_describe(struct ts_ctx *ctx, const char *directory, const char *name,
                                   const struct ts_machine_listener *listener,
                                   struct ts_machine *machine) {
  return load(ctx, directory, name, 0, listener, machine);
}

enum ts_status ts_machine_load(struct ts_ctx *ctx, const char *directory, const char *name,
                               struct ts_machine *machine) {
  return load(ctx, directory, name, 0, NULL, machine);
}
