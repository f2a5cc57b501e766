/* What the files of `tilesim compare` share: a variant with all that ranking and reasons need. */
#ifndef CLI_COMPARE_PRIV_H
#define CLI_COMPARE_PRIV_H

#include "cli/cli_priv.h"

enum {
  COMPARE_NAME_BYTES = 32,
  COMPARE_SHARE_LIMIT = 24,
  COMPARE_KEY_BYTES = 33,
  COMPARE_NOTE_LIMIT = 8
};

struct compare_share {
  char name[COMPARE_NAME_BYTES];
  double us;
};

/* A diagnostic of a case that was timed nevertheless. */
struct compare_note {
  char code[COMPARE_NAME_BYTES], title[96];
};

/* Sums over the launches of a case; what is not a sum is of its longest launch. */
struct compare_variant {
  const char *folder;
  char key[COMPARE_KEY_BYTES]; /* hash of case, machine and program */
  bool is_done, is_resumed;
  enum ts_result result;
  char message[256]; /* first diagnostic when the result is not OK */
  char machine[COMPARE_NAME_BYTES];
  double kernel_us, kernel_us_cold, launch_us, uncertainty, cycles;
  double waves, blocks, blocks_per_sm, threads_per_block, registers, sm_count;
  double l2_bytes, dram_bytes, flop;
  char limiting_unit[COMPARE_NAME_BYTES], occupancy_limit[COMPARE_NAME_BYTES];
  struct compare_share units[COMPARE_SHARE_LIMIT];  /* busy time, us */
  struct compare_share stalls[COMPARE_SHARE_LIMIT]; /* share of warps' lives x kernel time, us */
  struct compare_note notes[COMPARE_NOTE_LIMIT];
  uint32_t unit_count, stall_count, note_count;
};

/* --- compare_result.c: variants as lines of JSON */

void compare_fill(struct compare_variant *variant, const struct ts_time *time, uint32_t sm_count);
/* One line. */
void compare_write(FILE *stream, const struct compare_variant *variant);
/* A field "diagnostics" with the comma before it. */
void compare_write_notes(FILE *stream, const struct compare_variant *variant);
/* All but the folder. False when the line is not whole or has values that no report has. */
bool compare_read(struct compare_variant *variant, const char *line);
/* The value of "key": in the line, or NULL. */
const char *compare_find(const char *line, const char *key);

/* --- compare_file.c */

/* Fills the variants that the file has (by key), and opens it for more; it need not exist. Tells
 * stderr what is wrong; a file that is no result file stays as it is. */
enum ts_result compare_open_results(const char *path, struct compare_variant *variants,
                                    size_t count, FILE **results);

/* --- compare_reason.c */

/* Probability that a is faster than b on the device. */
double compare_probability(const struct compare_variant *a, const struct compare_variant *b);
/* Why the variant loses against the best, one line without its end. */
void compare_reason(const struct compare_variant *variant, const struct compare_variant *best,
                    char *text, size_t capacity_bytes);

#endif
