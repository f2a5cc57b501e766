/* The result file of a comparison: reads what it has, and opens it for more. A file that is something
 * else is refused before it is opened for writing. */
#include "cli/compare_priv.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static enum ts_result tell(const char *path, const char *what, int error) {
  fprintf(stderr, "tilesim: %s: %s: %s\n", path, what, strerror(error));
  return error == ENOMEM ? TS_RESULT_NO_MEMORY : TS_RESULT_IO;
}

/* Devices, folders and pipes are refused without being opened; no file at all is fine. */
static enum ts_result check_kind(const char *path, bool *is_there) {
  struct stat info;
  *is_there = stat(path, &info) == 0;
  if (!*is_there) return errno == ENOENT ? TS_RESULT_OK : tell(path, "cannot open", errno);
  if (S_ISREG(info.st_mode)) return TS_RESULT_OK;
  fprintf(stderr, "tilesim: %s: expected a result file or no file, found %s\n", path,
          S_ISDIR(info.st_mode) ? "a folder" : "what is not a regular file");
  return TS_RESULT_IO;
}

/* The first bytes begin a line that compare_write made, which may have been cut after its start. */
static bool is_line_start(const char *text, size_t length) {
  static const char start[] = "{\"key\": \"", middle[] = "\", \"case\": \"";
  size_t at = sizeof start - 1;
  size_t key_end = at + COMPARE_KEY_BYTES - 1;
  if (length < at || memcmp(text, start, at) != 0) return false;
  for (; at < length && text[at] != '\n'; at++) {
    if (at < key_end && !isxdigit((unsigned char)text[at])) return false;
    if (at < key_end) continue;
    if (at - key_end >= sizeof middle - 1) return true;
    if (text[at] != middle[at - key_end]) return false;
  }
  return true;
}

static enum ts_result check_start(FILE *stream, const char *path) {
  enum { SHOWN_BYTES = 24 };
  char head[64];
  size_t length = fread(head, 1, sizeof head, stream);
  if (ferror(stream)) return tell(path, "cannot read", errno);
  rewind(stream);
  if (length == 0 || is_line_start(head, length)) return TS_RESULT_OK;
  fprintf(stderr, "tilesim: %s: line 1: expected a result ({\"key\": \"...), found '", path);
  for (size_t i = 0; i < length && i < SHOWN_BYTES && head[i] != '\n'; i++)
    fprintf(stderr, isprint((unsigned char)head[i]) ? "%c" : "\\x%02x", (unsigned char)head[i]);
  fprintf(stderr, "'; it is not a result file and stays as it is\n");
  return TS_RESULT_IO;
}

static void take_result(struct compare_variant *variants, size_t count,
                        const struct compare_variant *result) {
  for (size_t i = 0; i < count; i++) {
    const char *folder = variants[i].folder;
    if (variants[i].is_done || strcmp(variants[i].key, result->key) != 0) continue;
    variants[i] = *result;
    variants[i].folder = folder;
  }
}

/* is_cut: the last line has no end, as an earlier run was killed within it. */
static enum ts_result read_lines(FILE *stream, const char *path, struct compare_variant *variants,
                                 size_t count, bool *is_cut) {
  char *line = NULL;
  size_t capacity = 0, skipped = 0;
  enum ts_result result = TS_RESULT_OK;
  errno = 0;
  for (ssize_t length; (length = getline(&line, &capacity, stream)) > 0;) {
    struct compare_variant variant = {0};
    *is_cut = line[length - 1] != '\n';
    if (compare_read(&variant, line))
      take_result(variants, count, &variant);
    else
      skipped += !*is_cut;
  }
  if (!feof(stream) || ferror(stream)) result = tell(path, "cannot read", errno ? errno : EIO);
  free(line);
  if (skipped && result == TS_RESULT_OK)
    fprintf(stderr, "tilesim: %s: skipped %zu line%s, damaged or of another version\n", path,
            skipped, skipped == 1 ? "" : "s");
  return result;
}

enum ts_result compare_open_results(const char *path, struct compare_variant *variants,
                                    size_t count, FILE **results) {
  bool is_there, is_cut = false;
  enum ts_result result = check_kind(path, &is_there);
  if (result == TS_RESULT_OK && is_there) {
    FILE *stream = fopen(path, "r");
    if (!stream) return tell(path, "cannot open", errno);
    result = check_start(stream, path);
    if (result == TS_RESULT_OK) result = read_lines(stream, path, variants, count, &is_cut);
    fclose(stream);
  }
  if (result != TS_RESULT_OK) return result;
  *results = fopen(path, "a");
  if (!*results) return tell(path, "cannot open for writing", errno);
  if (is_cut) putc('\n', *results);
  return TS_RESULT_OK;
}
