/* tilesim num: one instruction on lines of hexadecimal operands. Lines are parsed and written by
 * hand and computed in blocks: ten million of them are a matter of seconds. */
#include "tilesim/num.h"
#include "cli/cli_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_option options[] = {
    {"--profile", NULL, "NAME", "sm_80, sm_90, sm_100, ascend_ref or exact (sm_90 if it has OP)"},
    {"--list", NULL, NULL, "name all OPs with their operands in order, then stop"},
    {"--fidelity", NULL, NULL, "how well results are known to agree with hardware, then stop"},
    {"--format", NULL, "text|json", "form of --list and --fidelity (text)"},
    {NULL, NULL, NULL, NULL},
};

struct request {
  const struct cli_command *command;
  const char *name, *profile;
  bool is_json, wants_list, wants_fidelity;
};

/* --- lists */

static void json_field(const char *key, const char *text, bool is_first) {
  printf("%s\"%s\": ", is_first ? "" : ", ", key);
  cli_json_text(stdout, text);
}

static void print_listing(const struct ts_num_listing *row, bool is_json, bool is_first) {
  if (!is_json) {
    printf("%-40s %s -> %s%s%s%s  [%s]\n", row->name, row->operands, row->result,
           row->note[0] ? " (" : "", row->note, row->note[0] ? ")" : "", row->profiles);
    return;
  }
  printf("%s\n  {", is_first ? "" : ",");
  json_field("op", row->name, true);
  json_field("operands", row->operands, false);
  json_field("result", row->result, false);
  json_field("profiles", row->profiles, false);
  if (row->note[0]) json_field("note", row->note, false);
  printf("}");
}

static bool has_word(const char *words, const char *word) {
  size_t length = strlen(word);
  for (const char *at = words; (at = strstr(at, word)) != NULL; at += length) {
    if ((at == words || at[-1] == ' ') && (at[length] == '\0' || at[length] == ' ')) return true;
  }
  return false;
}

static void print_list(const struct request *request) {
  struct ts_num_listing row;
  bool is_first = true;
  if (request->is_json) printf("[");
  for (uint32_t i = 0; ts_num_list_get(i, &row) == TS_RESULT_OK; i++) {
    if (request->profile && !has_word(row.profiles, request->profile)) continue;
    print_listing(&row, request->is_json, is_first);
    is_first = false;
  }
  if (request->is_json) printf("\n]\n");
}

static void print_fidelity(const struct request *request) {
  struct ts_num_fidelity row;
  bool is_first = true;
  if (request->is_json) printf("[");
  for (uint32_t i = 0; ts_num_fidelity_get(i, &row) == TS_RESULT_OK; i++) {
    if (request->profile && strcmp(row.profile, request->profile) != 0) continue;
    if (!request->is_json) {
      printf("%-10s %-8s %s: %s\n", row.profile, row.level, row.what, row.source);
      continue;
    }
    printf("%s\n  {", is_first ? "" : ",");
    json_field("profile", row.profile, true);
    json_field("level", row.level, false);
    json_field("what", row.what, false);
    json_field("source", row.source, false);
    printf("}");
    is_first = false;
  }
  if (request->is_json) printf("\n]\n");
}

/* --- input */

enum { READ_BYTES = 1 << 20, WRITE_BYTES = 1 << 16, BLOCK_ELEMENTS = 1 << 16 };

struct input {
  char *buffer; /* complete lines from `at` on, the last one perhaps without its end */
  size_t capacity, start, end;
  uint64_t line_number;
  bool is_finished, has_failed;
};

/* More bytes behind those that are left; grows for lines longer than the buffer. */
static bool refill(struct input *input) {
  if (input->start > 0) {
    memmove(input->buffer, input->buffer + input->start, input->end - input->start);
    input->end -= input->start;
    input->start = 0;
  }
  if (input->end == input->capacity) {
    char *grown = realloc(input->buffer, input->capacity * 2);
    if (!grown) return false;
    input->buffer = grown;
    input->capacity *= 2;
  }
  ssize_t got = read(STDIN_FILENO, input->buffer + input->end, input->capacity - input->end);
  if (got < 0 && errno == EINTR) return true;
  input->has_failed = got < 0;
  input->is_finished = got <= 0;
  if (got > 0) input->end += (size_t)got;
  return got >= 0;
}

/* The next line, without its end, as [*line, *end); NULL at the end of the input or on failure. */
static const char *next_line(struct input *input, const char **end) {
  for (size_t searched = input->start;;) {
    char *line_end = memchr(input->buffer + searched, '\n', input->end - searched);
    if (!line_end && input->is_finished && input->start < input->end)
      line_end = input->buffer + input->end;
    if (line_end) {
      const char *line = input->buffer + input->start;
      size_t next = (size_t)(line_end - input->buffer) + 1;
      input->start = next < input->end ? next : input->end;
      input->line_number++;
      *end = line_end;
      return line;
    }
    if (input->is_finished) return NULL;
    searched = input->end - input->start;
    if (!refill(input)) {
      input->has_failed = true;
      return NULL;
    }
  }
}

/* --- operands */

struct reader {
  const struct ts_num_instruction *instruction;
  uint64_t line_number;
  const char *at, *end;
};

static const int8_t digit_values[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16};

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static void skip_blanks(struct reader *reader) {
  while (reader->at < reader->end && is_blank(*reader->at))
    reader->at++;
}

static void complain(const struct reader *reader) {
  fprintf(stderr, "tilesim num: line %llu: ", (unsigned long long)reader->line_number);
}

static bool complain_expected(const struct reader *reader) {
  const struct ts_num_instruction *x = reader->instruction;
  fprintf(stderr, "\n  %s expects", x->name);
  for (uint32_t i = 0; i < x->operand_count; i++) {
    const struct ts_num_operand *operand = &x->operands[i];
    fprintf(stderr, "%s %s:%s", i && x->m ? " :" : "", operand->name, operand->type);
    if (x->m) fprintf(stderr, "[%u][%u]", operand->rows, operand->columns);
  }
  fputc('\n', stderr);
  return false;
}

static bool complain_word(const struct reader *reader, const struct ts_num_operand *operand) {
  size_t length = 0;
  while (reader->at + length < reader->end && !is_blank(reader->at[length]) && length < 40)
    length++;
  bool is_hex = length > 0;
  for (size_t i = 0; i < length; i++)
    is_hex = is_hex && digit_values[(unsigned char)reader->at[i]] != 0;
  complain(reader);
  fprintf(stderr, "found '%.*s' for %s, ", (int)length, reader->at, operand->name);
  if (is_hex)
    fprintf(stderr, "expected %s, that is %u bits", operand->type, operand->bits);
  else
    fprintf(stderr, "expected hexadecimal digits");
  return complain_expected(reader);
}

/* One element; false when there is none, or too large a one. */
static bool read_element(struct reader *reader, uint32_t bits, uint64_t *value) {
  const char *at = reader->at;
  uint64_t result = 0, overflow = 0;
  int digit;
  while (at < reader->end && (digit = digit_values[(unsigned char)*at]) != 0) {
    overflow |= result >> 60;
    result = result << 4 | (uint64_t)(digit - 1);
    at++;
  }
  if (at == reader->at || (at < reader->end && !is_blank(*at) && *at != ':')) return false;
  if (overflow || (bits < 64 && result >> bits != 0)) return false;
  reader->at = at;
  *value = result;
  return true;
}

static void put_element(void *array, size_t index, uint32_t element_bytes, uint64_t value) {
  switch (element_bytes) {
  case 1: ((uint8_t *)array)[index] = (uint8_t)value; break;
  case 2: ((uint16_t *)array)[index] = (uint16_t)value; break;
  case 4: ((uint32_t *)array)[index] = (uint32_t)value; break;
  default: ((uint64_t *)array)[index] = value; break;
  }
}

static uint64_t get_element(const void *array, size_t index, uint32_t element_bytes) {
  switch (element_bytes) {
  case 1: return ((const uint8_t *)array)[index];
  case 2: return ((const uint16_t *)array)[index];
  case 4: return ((const uint32_t *)array)[index];
  default: return ((const uint64_t *)array)[index];
  }
}

static bool is_at_end_of_operand(const struct reader *reader) {
  return reader->at == reader->end || *reader->at == ':';
}

static bool read_operand(struct reader *reader, const struct ts_num_operand *operand, void *array,
                         size_t first) {
  size_t count = (size_t)operand->rows * operand->columns;
  for (size_t i = 0; i < count; i++) {
    uint64_t value;
    skip_blanks(reader);
    if (is_at_end_of_operand(reader)) {
      complain(reader);
      if (reader->instruction->m)
        fprintf(stderr, "found %zu of the %zu elements of %s", i, count, operand->name);
      else
        fprintf(stderr, "%s is missing", operand->name);
      return complain_expected(reader);
    }
    if (!read_element(reader, operand->bits, &value)) return complain_word(reader, operand);
    put_element(array, first + i, operand->element_bytes, value);
  }
  skip_blanks(reader);
  return true;
}

static bool complain_surplus(const struct reader *reader, const char *what) {
  complain(reader);
  fprintf(stderr, "expected %s, found '%.*s'", what,
          (int)(reader->end - reader->at > 40 ? 40 : reader->end - reader->at), reader->at);
  return complain_expected(reader);
}

/* A line into element (or matrix) `index` of the arrays. Scalars are parted by blanks; colons are
 * what parts matrices and are welcome between scalars. */
static bool read_line(struct reader *reader, void *const *arrays, size_t index) {
  const struct ts_num_instruction *x = reader->instruction;
  for (uint32_t i = 0; i < x->operand_count; i++) {
    const struct ts_num_operand *operand = &x->operands[i];
    bool has_colon = reader->at < reader->end && *reader->at == ':';
    if (i > 0 && x->m && !has_colon && reader->at < reader->end)
      return complain_surplus(reader, "':'");
    if (i > 0 && has_colon) reader->at++;
    size_t first = index * operand->rows * operand->columns;
    if (!read_operand(reader, operand, arrays[i], first)) return false;
  }
  return reader->at == reader->end || complain_surplus(reader, "the end of the line");
}

/* --- output */

struct writer {
  char buffer[WRITE_BYTES];
  size_t length;
};

static void flush_writer(struct writer *writer) {
  fwrite(writer->buffer, 1, writer->length, stdout);
  writer->length = 0;
}

static void write_element(struct writer *writer, uint64_t value, uint32_t digits, char end) {
  static const char hex[] = "0123456789abcdef";
  if (writer->length + digits + 1 > sizeof writer->buffer) flush_writer(writer);
  for (uint32_t i = 0; i < digits; i++)
    writer->buffer[writer->length++] = hex[value >> 4 * (digits - 1 - i) & 15];
  writer->buffer[writer->length++] = end;
}

static void write_results(struct writer *writer, const struct ts_num_operand *result,
                          const void *array, size_t count) {
  size_t elements = (size_t)result->rows * result->columns;
  uint32_t digits = (result->bits + 3) / 4;
  for (size_t i = 0; i < count * elements; i++)
    write_element(writer, get_element(array, i, result->element_bytes), digits,
                  (i + 1) % elements == 0 ? '\n' : ' ');
}

/* --- the command */

struct stream {
  const struct ts_num_instruction *instruction;
  struct input input;
  struct writer *writer;
  void *arrays[TS_NUM_MAX_OPERANDS], *result;
  size_t block; /* lines computed at a time */
};

static void *new_array(const struct ts_num_operand *operand, size_t block) {
  return malloc(block * operand->rows * operand->columns * operand->element_bytes);
}

static bool open_stream(struct stream *stream, const struct ts_num_instruction *instruction) {
  size_t elements = (size_t)instruction->result.rows * instruction->result.columns;
  for (uint32_t i = 0; i < instruction->operand_count; i++)
    elements += (size_t)instruction->operands[i].rows * instruction->operands[i].columns;
  *stream = (struct stream){.instruction = instruction, .input.capacity = READ_BYTES};
  stream->block = elements < BLOCK_ELEMENTS ? BLOCK_ELEMENTS / elements : 1;
  bool has_memory = true;
  for (uint32_t i = 0; i < instruction->operand_count; i++) {
    stream->arrays[i] = new_array(&instruction->operands[i], stream->block);
    has_memory = has_memory && stream->arrays[i];
  }
  stream->result = new_array(&instruction->result, stream->block);
  stream->writer = calloc(1, sizeof *stream->writer);
  stream->input.buffer = malloc(READ_BYTES);
  return has_memory && stream->result && stream->writer && stream->input.buffer;
}

static void close_stream(struct stream *stream) {
  for (uint32_t i = 0; i < TS_NUM_MAX_OPERANDS; i++)
    free(stream->arrays[i]);
  free(stream->result);
  free(stream->writer);
  free(stream->input.buffer);
}

static bool compute(struct stream *stream, size_t count) {
  const void *operands[TS_NUM_MAX_OPERANDS];
  for (uint32_t i = 0; i < TS_NUM_MAX_OPERANDS; i++)
    operands[i] = stream->arrays[i];
  if (ts_num_run(stream->instruction, stream->result, operands, count) != TS_RESULT_OK)
    return false;
  write_results(stream->writer, &stream->instruction->result, stream->result, count);
  return true;
}

/* Empty lines and those that start with '#' have no result. */
static bool is_skipped(const struct reader *reader) {
  return reader->at == reader->end || *reader->at == '#';
}

/* All lines; answers the exit status. Results of the lines before a bad one are written. */
static int run_stream(struct stream *stream) {
  struct reader reader = {.instruction = stream->instruction};
  size_t count = 0;
  int status = 0;
  while (status == 0 && (reader.at = next_line(&stream->input, &reader.end)) != NULL) {
    reader.line_number = stream->input.line_number;
    skip_blanks(&reader);
    if (is_skipped(&reader)) continue;
    if (!read_line(&reader, stream->arrays, count)) {
      status = CLI_EXIT_USAGE;
    } else if (++count == stream->block) {
      if (!compute(stream, count)) status = ts_result_exit_status(TS_RESULT_NO_MEMORY);
      count = 0;
    }
  }
  if (stream->input.has_failed) {
    fprintf(stderr, "tilesim num: cannot read the input: %s\n", strerror(errno));
    status = ts_result_exit_status(TS_RESULT_IO);
  }
  if (count && !compute(stream, count)) status = ts_result_exit_status(TS_RESULT_NO_MEMORY);
  flush_writer(stream->writer);
  return status;
}

/* The listed name nearest to a wrong one. */
static const char *nearest_name(const char *name, struct ts_num_listing *best) {
  struct ts_num_listing row;
  const char *found = NULL;
  for (uint32_t i = 0; ts_num_list_get(i, &row) == TS_RESULT_OK; i++) {
    const char *candidates[2] = {row.name, best->name};
    if (cli_nearest(name, candidates, found ? 2 : 1) != row.name) continue;
    *best = row;
    found = best->name;
  }
  return found;
}

static int unknown_op(const struct request *request) {
  struct ts_num_instruction other;
  struct ts_num_listing best;
  if (request->profile && ts_num_find(request->name, NULL, &other) == TS_RESULT_OK)
    return cli_usage_error(request->command, "%s has no %s; %s has it", request->profile,
                           request->name, other.profile);
  const char *nearest = nearest_name(request->name, &best);
  if (nearest)
    return cli_usage_error(request->command, "there is no operation %s; did you mean %s?",
                           request->name, nearest);
  return cli_usage_error(request->command, "there is no operation %s (--list names them)",
                         request->name);
}

static int run_operation(const struct request *request) {
  struct ts_num_instruction instruction;
  struct stream stream;
  enum ts_result result = ts_num_find(request->name, request->profile, &instruction);
  if (result == TS_RESULT_BAD_ARGUMENT)
    return cli_usage_error(
        request->command,
        "--profile: expected sm_80, sm_90, sm_100, ascend_ref or exact, found '%s'",
        request->profile);
  if (result != TS_RESULT_OK) return unknown_op(request);
  int status = ts_result_exit_status(TS_RESULT_NO_MEMORY);
  if (open_stream(&stream, &instruction))
    status = run_stream(&stream);
  else
    fprintf(stderr, "tilesim: out of memory\n");
  close_stream(&stream);
  int finish_status = cli_finish(NULL, TS_RESULT_OK);
  return status ? status : finish_status;
}

static bool take_option(void *user, const char *name, const char *value) {
  struct request *request = user;
  if (strcmp(name, "--format") == 0) return cli_format(request->command, value, &request->is_json);
  if (strcmp(name, "--profile") == 0) request->profile = value;
  if (strcmp(name, "--list") == 0) request->wants_list = true;
  if (strcmp(name, "--fidelity") == 0) request->wants_fidelity = true;
  return true;
}

static int run_num(const struct cli_command *command, int argc, char **argv) {
  struct request request = {.command = command};
  int status = cli_parse(command, argc, argv, take_option, &request, &request.name);
  if (status >= 0) return status;
  if (request.wants_list || request.wants_fidelity) {
    if (request.wants_list)
      print_list(&request);
    else
      print_fidelity(&request);
    return cli_finish(NULL, TS_RESULT_OK);
  }
  if (!request.name) return cli_usage_error(command, "which operation? --list names them");
  return run_operation(&request);
}

const struct cli_command cli_command_num = {
    .name = "num",
    .synopsis = "num OP [options] < LINES",
    .summary = "compute one instruction, such as ex2.approx.ftz.f32 or wgmma.m64n8k16.f32.f16.f16: "
               "a line of "
               "hexadecimal operands in, a line of results out",
    .example = "echo 3f800000 3fc00000 | tilesim num add.rn.f32",
    .operand = "OP",
    .options = options,
    .run = run_num,
};
