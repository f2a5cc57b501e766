/* Variants of a comparison: from a report, and to and from lines of a result file. The reader takes
 * what the writer made: keys in any order, numbers, texts without escapes, objects of numbers. */
#include "cli/compare_priv.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *key;
  size_t offset;
} numbers[] = {
#define NUMBER(name)                                                                               \
  { #name, offsetof(struct compare_variant, name) }
    NUMBER(kernel_us),   NUMBER(kernel_us_cold), NUMBER(launch_us),
    NUMBER(uncertainty), NUMBER(cycles),         NUMBER(waves),
    NUMBER(blocks),      NUMBER(blocks_per_sm),  NUMBER(threads_per_block),
    NUMBER(registers),   NUMBER(sm_count),       NUMBER(l2_bytes),
    NUMBER(dram_bytes),  NUMBER(flop),
#undef NUMBER
};
enum { NUMBER_COUNT = sizeof numbers / sizeof *numbers };

static double *number_at(struct compare_variant *variant, size_t row) {
  return (double *)(void *)((char *)variant + numbers[row].offset);
}

/* --- from a report */

static void add_us(struct compare_share *shares, uint32_t *count, const char *name, double us) {
  uint32_t at = 0;
  while (at < *count && strcmp(shares[at].name, name) != 0)
    at++;
  if (at == COMPARE_SHARE_LIMIT) return;
  if (at == *count) snprintf(shares[(*count)++].name, COMPARE_NAME_BYTES, "%s", name);
  shares[at].us += us;
}

void compare_fill(struct compare_variant *variant, const struct ts_time *time, uint32_t sm_count) {
  struct cli_share shares[CLI_SHARE_LIMIT];
  const struct ts_time_launch *longest = NULL;
  snprintf(variant->machine, sizeof variant->machine, "%s", time->machine);
  variant->kernel_us = time->kernel_us;
  variant->kernel_us_cold = time->kernel_us_cold;
  variant->launch_us = time->launch_us;
  variant->uncertainty = time->uncertainty;
  variant->cycles = time->cycles;
  variant->sm_count = sm_count;
  for (uint32_t i = 0; i < time->launch_count; i++) {
    const struct ts_time_launch *launch = &time->launches[i];
    if (!longest || launch->kernel_us > longest->kernel_us) longest = launch;
    variant->l2_bytes += launch->l2_bytes;
    variant->dram_bytes += launch->dram_bytes;
    variant->flop += launch->flop;
    for (uint32_t u = 0; u < launch->unit_count; u++)
      add_us(variant->units, &variant->unit_count, launch->units[u].name,
             launch->units[u].value * launch->kernel_us);
  }
  uint32_t count = cli_stall_shares(time, shares);
  for (uint32_t i = 0; i < count; i++)
    add_us(variant->stalls, &variant->stall_count, shares[i].name,
           shares[i].share * (time->kernel_us - time->launch_us));
  if (!longest || longest->block_count == 0) return;
  variant->waves = longest->wave_count;
  variant->blocks = (double)longest->block_count;
  variant->blocks_per_sm = longest->blocks_per_sm;
  variant->threads_per_block = longest->threads_per_block;
  variant->registers = longest->registers_per_thread;
  snprintf(variant->limiting_unit, COMPARE_NAME_BYTES, "%s", longest->limiting_unit);
  snprintf(variant->occupancy_limit, COMPARE_NAME_BYTES, "%s", longest->occupancy_limit);
}

/* --- lines */

static void write_shares(FILE *stream, const char *key, const struct compare_share *shares,
                         uint32_t count) {
  fprintf(stream, ", \"%s\": {", key);
  for (uint32_t i = 0; i < count; i++)
    fprintf(stream, "%s\"%s\": %.17g", i ? ", " : "", shares[i].name, shares[i].us);
  putc('}', stream);
}

void compare_write_notes(FILE *stream, const struct compare_variant *variant) {
  fprintf(stream, ", \"diagnostics\": [");
  for (uint32_t i = 0; i < variant->note_count; i++)
    fprintf(stream, "%s{\"code\": \"%s\", \"title\": \"%s\"}", i ? ", " : "",
            variant->notes[i].code, variant->notes[i].title);
  putc(']', stream);
}

void compare_write(FILE *stream, const struct compare_variant *variant) {
  struct compare_variant copy = *variant;
  fprintf(stream, "{\"key\": \"%s\", \"case\": ", variant->key);
  cli_json_text(stream, variant->folder);
  fprintf(stream, ", \"machine\": ");
  cli_json_text(stream, variant->machine);
  for (size_t i = 0; i < NUMBER_COUNT; i++)
    fprintf(stream, ", \"%s\": %.17g", numbers[i].key, *number_at(&copy, i));
  fprintf(stream, ", \"limiting_unit\": \"%s\", \"occupancy_limit\": \"%s\"",
          variant->limiting_unit, variant->occupancy_limit);
  write_shares(stream, "units_us", variant->units, variant->unit_count);
  write_shares(stream, "stalls_us", variant->stalls, variant->stall_count);
  compare_write_notes(stream, variant);
  fprintf(stream, "}\n");
}

const char *compare_find(const char *line, const char *key) {
  char quoted[64];
  int length = snprintf(quoted, sizeof quoted, "\"%s\": ", key);
  const char *at = strstr(line, quoted);
  return at ? at + length : NULL;
}

/* The text up to its closing quote; false when it does not fit. */
static bool read_text(const char *at, char *text, size_t capacity_bytes) {
  if (!at || *at++ != '"') return false;
  size_t length = strcspn(at, "\"\n");
  if (at[length] != '"' || length >= capacity_bytes) return false;
  memcpy(text, at, length);
  text[length] = '\0';
  return true;
}

static bool read_shares(const char *at, struct compare_share *shares, uint32_t *count) {
  if (!at || *at++ != '{') return false;
  for (*count = 0; *at != '}'; ++*count) {
    char *end;
    if (*count == COMPARE_SHARE_LIMIT) return false;
    struct compare_share *share = &shares[*count];
    at += strspn(at, ", ");
    if (!read_text(at, share->name, sizeof share->name)) return false;
    at += strlen(share->name) + 2;
    if (strncmp(at, ": ", 2) != 0) return false;
    share->us = strtod(at + 2, &end);
    if (end == at + 2 || !isfinite(share->us) || share->us < 0) return false;
    at = end;
  }
  return true;
}

static bool read_notes(const char *at, struct compare_note *notes, uint32_t *count) {
  if (!at || *at++ != '[') return false;
  for (*count = 0; *at != ']'; ++*count) {
    if (*count == COMPARE_NOTE_LIMIT) return false;
    struct compare_note *note = &notes[*count];
    if (!read_text(compare_find(at, "code"), note->code, sizeof note->code) ||
        !read_text(compare_find(at, "title"), note->title, sizeof note->title))
      return false;
    at = strchr(at, '}');
    if (!at) return false;
    at++;
  }
  return true;
}

/* Times and what ratios divide by cannot be zero; nothing is negative. */
static bool is_plausible(const struct compare_variant *variant) {
  struct compare_variant copy = *variant;
  for (size_t i = 0; i < NUMBER_COUNT; i++) {
    double value = *number_at(&copy, i);
    if (!isfinite(value) || value < 0) return false;
  }
  return copy.kernel_us > 0 && copy.kernel_us_cold > 0;
}

bool compare_read(struct compare_variant *variant, const char *line) {
  struct compare_variant read = {0};
  size_t length = strlen(line);
  if (length < 2 || line[length - 1] != '\n' || line[length - 2] != '}') return false;
  if (!read_text(compare_find(line, "key"), read.key, sizeof read.key)) return false;
  for (size_t i = 0; i < NUMBER_COUNT; i++) {
    const char *at = compare_find(line, numbers[i].key);
    char *end = NULL;
    if (at) *number_at(&read, i) = strtod(at, &end);
    if (!at || end == at) return false;
  }
  if (!read_text(compare_find(line, "machine"), read.machine, sizeof read.machine) ||
      !read_text(compare_find(line, "limiting_unit"), read.limiting_unit, COMPARE_NAME_BYTES) ||
      !read_text(compare_find(line, "occupancy_limit"), read.occupancy_limit, COMPARE_NAME_BYTES) ||
      !read_shares(compare_find(line, "units_us"), read.units, &read.unit_count) ||
      !read_shares(compare_find(line, "stalls_us"), read.stalls, &read.stall_count) ||
      !read_notes(compare_find(line, "diagnostics"), read.notes, &read.note_count) ||
      !is_plausible(&read))
    return false;
  read.is_done = read.is_resumed = true;
  *variant = read;
  return true;
}
