/* Whole-file reading, plain or xz, and atomic writing. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_BYTES = 1 << 16, XZ_MAGIC_BYTES = 6, TEMPORARY_ATTEMPTS = 100 };

/* A decoder that asks for more is refused; `xz -9` needs 65 MiB. */
static const uint64_t xz_memory_limit_bytes = UINT64_C(256) << 20;

static const unsigned char xz_magic[XZ_MAGIC_BYTES] = {0xfd, '7', 'z', 'X', 'Z', 0};

struct reader {
  struct ts_ctx *ctx;
  const char *path;
  int descriptor;
  size_t limit_bytes;
  char *data;
  size_t size_bytes, capacity_bytes; /* capacity_bytes <= limit_bytes + 1 */
};

static enum ts_status fail_errno(struct ts_ctx *ctx, const char *path, const char *what,
                                 int number) {
  char reason[128];
  if (strerror_r(number, reason, sizeof reason))
    snprintf(reason, sizeof reason, "error %d", number);
  return ts_fail(ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(path), "cannot %s: %s", what,
                 reason);
}

static enum ts_status fail_size(const struct reader *reader) {
  return ts_fail(reader->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT, TS_FILE_PLACE(reader->path),
                 "content is larger than the limit of %zu bytes", reader->limit_bytes);
}

static enum ts_status fail_xz(const struct reader *reader, const char *what) {
  return ts_fail(reader->ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(reader->path),
                 "damaged xz stream: %s", what);
}

/* Changes the capacity of the data block. */
static enum ts_status resize_data(struct reader *reader, size_t capacity_bytes) {
  const struct ts_allocator *allocator = reader->ctx->allocator;
  char *data =
      allocator->resize(allocator->user, reader->data, reader->capacity_bytes, capacity_bytes);
  if (!data) return ts_fail_memory(reader->ctx);
  reader->data = data;
  reader->capacity_bytes = capacity_bytes;
  return TS_OK;
}

/* Makes room for at least one more byte, up to one byte beyond the limit. */
static enum ts_status make_room(struct reader *reader) {
  if (reader->size_bytes > reader->limit_bytes) return fail_size(reader);
  if (reader->size_bytes < reader->capacity_bytes) return TS_OK;
  size_t largest = reader->limit_bytes + 1;
  size_t capacity_bytes = reader->capacity_bytes ? reader->capacity_bytes : BLOCK_BYTES / 2;
  capacity_bytes = capacity_bytes > largest / 2 ? largest : 2 * capacity_bytes;
  return resize_data(reader, capacity_bytes);
}

/* Reads up to capacity_bytes; fewer only at the end of the file. */
static enum ts_status read_block(struct reader *reader, void *block, size_t capacity_bytes,
                                 size_t *size_bytes) {
  *size_bytes = 0;
  while (*size_bytes < capacity_bytes) {
    ssize_t got =
        read(reader->descriptor, (char *)block + *size_bytes, capacity_bytes - *size_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(reader->ctx, reader->path, "read", errno);
    if (got == 0) break;
    *size_bytes += (size_t)got;
  }
  return TS_OK;
}

/* The rest of a plain file whose first bytes have been read. */
static enum ts_status read_plain(struct reader *reader, const void *first, size_t first_bytes) {
  struct stat info;
  size_t got = 0;
  if (fstat(reader->descriptor, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    if ((uintmax_t)info.st_size > reader->limit_bytes) return fail_size(reader);
    TS_TRY(resize_data(reader, (size_t)info.st_size + 1));
  }
  while (reader->capacity_bytes < first_bytes) {
    reader->size_bytes = reader->capacity_bytes;
    TS_TRY(make_room(reader));
  }
  if (first_bytes) memcpy(reader->data, first, first_bytes);
  reader->size_bytes = first_bytes;
  do {
    TS_TRY(make_room(reader));
    size_t room = reader->capacity_bytes - reader->size_bytes;
    TS_TRY(read_block(reader, reader->data + reader->size_bytes, room, &got));
    reader->size_bytes += got;
  } while (got > 0);
  return TS_OK;
}

/* liblzma frees without a size, ours needs one: it stands in front of the block. */
union lzma_header {
  size_t size_bytes;
  max_align_t align;
};

static void *lzma_take(void *opaque, size_t count, size_t size_bytes) {
  const struct ts_allocator *allocator = opaque;
  if (size_bytes && count > (SIZE_MAX - sizeof(union lzma_header)) / size_bytes) return NULL;
  size_t total = count * size_bytes + sizeof(union lzma_header);
  union lzma_header *header = allocator->resize(allocator->user, NULL, 0, total);
  if (!header) return NULL;
  header->size_bytes = total;
  return header + 1;
}

static void lzma_release(void *opaque, void *block) {
  const struct ts_allocator *allocator = opaque;
  if (!block) return;
  union lzma_header *header = (union lzma_header *)block - 1;
  allocator->resize(allocator->user, header, header->size_bytes, 0);
}

static enum ts_status lzma_problem(const struct reader *reader, lzma_ret result) {
  switch (result) {
  case LZMA_MEM_ERROR: return ts_fail_memory(reader->ctx);
  case LZMA_MEMLIMIT_ERROR:
    return ts_fail(reader->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT, TS_FILE_PLACE(reader->path),
                   "the xz stream needs more than %llu bytes to unpack",
                   (unsigned long long)xz_memory_limit_bytes);
  case LZMA_FORMAT_ERROR: return fail_xz(reader, "not in xz format");
  case LZMA_OPTIONS_ERROR: return fail_xz(reader, "unsupported options");
  case LZMA_DATA_ERROR: return fail_xz(reader, "content or checksum is wrong");
  case LZMA_BUF_ERROR: return fail_xz(reader, "it ends too early");
  default: return fail_xz(reader, "unpacking failed");
  }
}

/* Unpacks with the decoder set up; block holds the first block_bytes of the file. */
static enum ts_status unpack(struct reader *reader, lzma_stream *stream, uint8_t *block,
                             size_t block_bytes) {
  lzma_action action = block_bytes < BLOCK_BYTES ? LZMA_FINISH : LZMA_RUN;
  stream->next_in = block;
  stream->avail_in = block_bytes;
  for (;;) {
    if (stream->avail_in == 0 && action == LZMA_RUN) {
      TS_TRY(read_block(reader, block, BLOCK_BYTES, &block_bytes));
      if (block_bytes < BLOCK_BYTES) action = LZMA_FINISH;
      stream->next_in = block;
      stream->avail_in = block_bytes;
    }
    TS_TRY(make_room(reader));
    stream->next_out = (uint8_t *)reader->data + reader->size_bytes;
    stream->avail_out = reader->capacity_bytes - reader->size_bytes;
    lzma_ret result = lzma_code(stream, action);
    reader->size_bytes = reader->capacity_bytes - stream->avail_out;
    if (result == LZMA_STREAM_END) break;
    if (result != LZMA_OK) return lzma_problem(reader, result);
  }
  return reader->size_bytes > reader->limit_bytes ? fail_size(reader) : TS_OK;
}

static enum ts_status read_xz(struct reader *reader, uint8_t *block, size_t block_bytes) {
  lzma_allocator allocator = {lzma_take, lzma_release, (void *)(uintptr_t)reader->ctx->allocator};
  lzma_stream stream = LZMA_STREAM_INIT;
  stream.allocator = &allocator;
  lzma_ret result = lzma_stream_decoder(&stream, xz_memory_limit_bytes, LZMA_CONCATENATED);
  enum ts_status status = result == LZMA_OK ? unpack(reader, &stream, block, block_bytes)
                                            : lzma_problem(reader, result);
  lzma_end(&stream);
  return status;
}

static enum ts_status read_content(struct reader *reader) {
  const struct ts_allocator *allocator = reader->ctx->allocator;
  uint8_t *block = allocator->resize(allocator->user, NULL, 0, BLOCK_BYTES);
  size_t block_bytes = 0;
  if (!block) return ts_fail_memory(reader->ctx);
  enum ts_status status = read_block(reader, block, BLOCK_BYTES, &block_bytes);
  if (status == TS_OK) {
    bool is_xz = block_bytes >= XZ_MAGIC_BYTES && memcmp(block, xz_magic, XZ_MAGIC_BYTES) == 0;
    status = is_xz ? read_xz(reader, block, block_bytes) : read_plain(reader, block, block_bytes);
  }
  allocator->resize(allocator->user, block, BLOCK_BYTES, 0);
  /* The block shrinks to what ts_file_free will state as its size. */
  if (status == TS_OK) status = resize_data(reader, reader->size_bytes + 1);
  return status;
}

enum ts_status ts_file_read(struct ts_ctx *ctx, const char *path, size_t limit_bytes,
                            struct ts_file *file) {
  struct reader reader = {.ctx = ctx, .path = path};
  *file = (struct ts_file){.allocator = ctx->allocator};
  reader.limit_bytes = limit_bytes < SIZE_MAX / 2 ? limit_bytes : SIZE_MAX / 2;
  reader.descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (reader.descriptor < 0) return fail_errno(ctx, path, "open", errno);
  enum ts_status status = read_content(&reader);
  close(reader.descriptor);
  if (status != TS_OK) {
    if (reader.data)
      ctx->allocator->resize(ctx->allocator->user, reader.data, reader.capacity_bytes, 0);
    return status;
  }
  reader.data[reader.size_bytes] = '\0';
  file->data = reader.data;
  file->size_bytes = reader.size_bytes;
  return TS_OK;
}

void ts_file_free(struct ts_file *file) {
  const struct ts_allocator *allocator = file->allocator;
  if (file->data) allocator->resize(allocator->user, file->data, file->size_bytes + 1, 0);
  *file = (struct ts_file){.allocator = allocator};
}

bool ts_file_exists(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* Returns 0 or an errno. */
static int write_all(int descriptor, const char *data, size_t size_bytes) {
  while (size_bytes > 0) {
    ssize_t put = write(descriptor, data, size_bytes);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    data += put;
    size_bytes -= (size_t)put;
  }
  return 0;
}

/* Opens a new file next to path and leaves its name in temporary. */
static int open_temporary(const char *path, char *temporary, size_t capacity_bytes) {
  for (int attempt = 0; attempt < TEMPORARY_ATTEMPTS; attempt++) {
    int length =
        snprintf(temporary, capacity_bytes, "%s.tmp-%ld-%d", path, (long)getpid(), attempt);
    if (length < 0 || (size_t)length >= capacity_bytes) {
      errno = ENAMETOOLONG;
      return -1;
    }
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

/* Returns 0 or an errno; path then is untouched and the temporary file gone. */
static int write_by_rename(const char *path, const void *data, size_t size_bytes,
                           const struct stat *replaced) {
  char temporary[PATH_MAX + 64];
  int descriptor = open_temporary(path, temporary, sizeof temporary);
  if (descriptor < 0) return errno;
  int problem = write_all(descriptor, data, size_bytes);
  if (!problem && replaced && fchmod(descriptor, replaced->st_mode & 07777)) problem = errno;
  if (close(descriptor) && !problem) problem = errno;
  if (!problem && rename(temporary, path)) problem = errno;
  if (problem) unlink(temporary);
  return problem;
}

/* A device or a pipe is written in place: replacing /dev/null by a file would be a surprise. */
static int write_in_place(const char *path, const void *data, size_t size_bytes) {
  int descriptor = open(path, O_WRONLY | O_CLOEXEC);
  if (descriptor < 0) return errno;
  int problem = write_all(descriptor, data, size_bytes);
  if (close(descriptor) && !problem) problem = errno;
  return problem;
}

enum ts_status ts_file_write(struct ts_ctx *ctx, const char *path, const void *data,
                             size_t size_bytes) {
  char target[PATH_MAX];
  struct stat info;
  int problem;
  if (stat(path, &info)) {
    problem = write_by_rename(path, data, size_bytes, NULL);
  } else if (S_ISDIR(info.st_mode)) {
    problem = EISDIR;
  } else if (!S_ISREG(info.st_mode)) {
    problem = write_in_place(path, data, size_bytes);
  } else if (!realpath(path, target)) { /* a link stays a link, its target is replaced */
    problem = errno;
  } else {
    problem = write_by_rename(target, data, size_bytes, &info);
  }
  return problem ? fail_errno(ctx, path, "write", problem) : TS_OK;
}
