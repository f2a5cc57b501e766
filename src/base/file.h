/* Whole files in memory, plain or .xz, with a size limit; and atomic writing. */
#ifndef TS_BASE_FILE_H
#define TS_BASE_FILE_H

#include "base/diag.h"

struct ts_file {
  char *data; /* NUL-terminated; size_bytes does not count the NUL */
  size_t size_bytes;
  const struct ts_allocator *allocator;
};

/* Reads path; content that starts with the xz magic is unpacked. TS_IO when it cannot be read or
 * the xz stream is damaged, TS_BAD_INPUT when it would exceed limit_bytes (a claim in an xz header
 * is never trusted: memory grows with what was really unpacked). */
enum ts_status ts_file_read(struct ts_ctx *ctx, const char *path, size_t limit_bytes,
                            struct ts_file *file);
void ts_file_free(struct ts_file *file);

/* True when path names an existing regular file. */
bool ts_file_exists(const char *path);

/* Writes path by way of a temporary file and rename: the file is there whole or not at all. */
enum ts_status ts_file_write(struct ts_ctx *ctx, const char *path, const void *data,
                             size_t size_bytes);

#endif
