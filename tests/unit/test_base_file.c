/* Reading plain and xz files, sound and damaged, and atomic writing. */
#include "base/file.h"
#include "support/failing_allocator.h"
#include "support/suite.h"

#include <dirent.h>
#include <lzma.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CONTENT_BYTES = 300000 };

static char folder[64];
static char path[96];

static struct failing_allocator memory;
static struct ts_diag_list diags;
static struct ts_ctx ctx;
static uint8_t content[CONTENT_BYTES], packed[CONTENT_BYTES + 1000];
static size_t packed_bytes;

/* Compresses to about a third: some bytes repeat, some are random. */
static void fill_content(void) {
  uint32_t state = 1;
  for (size_t i = 0; i < CONTENT_BYTES; i++) {
    state = state * 1664525u + 1013904223u;
    content[i] = (uint8_t)(i % 3 ? (uint32_t)i >> 8 : state >> 24);
  }
}

static void set_up(void) {
  strcpy(folder, "/tmp/tilesim-test-XXXXXX");
  ck_assert_ptr_nonnull(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/file", folder);
  failing_allocator_init(&memory);
  ck_assert_int_eq(ts_diag_list_init(&diags, &ts_allocator_libc), TS_OK);
  ctx = (struct ts_ctx){&memory.allocator, &diags};
  fill_content();
  packed_bytes = 0;
  ck_assert_int_eq(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, content, CONTENT_BYTES,
                                           packed, &packed_bytes, sizeof packed),
                   LZMA_OK);
}

/* Leaves the test; fails it when a file is left behind. */
static void tear_down(void) {
  unlink(path);
  ck_assert_int_eq(rmdir(folder), 0);
  ts_diag_list_free(&diags);
  ck_assert_uint_eq(memory.alive_blocks, 0);
}

static void put(const void *data, size_t size_bytes) {
  FILE *stream = fopen(path, "wb");
  ck_assert_ptr_nonnull(stream);
  ck_assert_uint_eq(fwrite(data, 1, size_bytes, stream), size_bytes);
  fclose(stream);
}

/* The status of reading path; on success the content must be the first content_bytes. */
static enum ts_status read_back(size_t limit_bytes, size_t content_bytes) {
  struct ts_file file;
  enum ts_status status = ts_file_read(&ctx, path, limit_bytes, &file);
  if (status == TS_OK) {
    ck_assert_uint_eq(file.size_bytes, content_bytes);
    ck_assert_int_eq(memcmp(file.data, content, content_bytes), 0);
    ck_assert_int_eq(file.data[content_bytes], 0);
  } else {
    ck_assert_ptr_null(file.data);
    ck_assert_uint_gt(diags.items.count, 0);
  }
  ts_file_free(&file);
  ts_file_free(&file);
  return status;
}

START_TEST(plain) {
  const size_t sizes[] = {0, 1, 5, 6, 65535, 65536, 65537, 131072, CONTENT_BYTES};
  set_up();
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    put(content, sizes[i]);
    ck_assert_int_eq(read_back(SIZE_MAX, sizes[i]), TS_OK);
    ck_assert_int_eq(read_back(sizes[i], sizes[i]), TS_OK);
    ck_assert_uint_eq(diags.items.count, 0);
  }
  for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
    put(content, sizes[i]);
    ck_assert_int_eq(read_back(sizes[i] - 1, sizes[i]), TS_BAD_INPUT);
  }
  ck_assert_int_eq(diags.items.data[0].code, TS_DIAG_INPUT_LIMIT);
  tear_down();
}
END_TEST

START_TEST(xz) {
  set_up();
  put(packed, packed_bytes);
  ck_assert_int_eq(read_back(SIZE_MAX, CONTENT_BYTES), TS_OK);
  ck_assert_int_eq(read_back(CONTENT_BYTES, CONTENT_BYTES), TS_OK);
  ck_assert_uint_eq(diags.items.count, 0);
  ck_assert_int_eq(read_back(CONTENT_BYTES - 1, 0), TS_BAD_INPUT);
  ck_assert_int_eq(read_back(0, 0), TS_BAD_INPUT);
  ck_assert_uint_lt(packed_bytes, CONTENT_BYTES / 2);
  tear_down();
}
END_TEST

START_TEST(xz_streams_one_after_the_other) {
  set_up();
  uint8_t two[2 * 200];
  size_t size_bytes = 0;
  for (size_t part = 0; part < 2; part++) {
    ck_assert_int_eq(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, content + part * 50, 50,
                                             two, &size_bytes, sizeof two),
                     LZMA_OK);
  }
  put(two, size_bytes);
  ck_assert_int_eq(read_back(100, 100), TS_OK);
  tear_down();
}
END_TEST

START_TEST(xz_truncated) {
  set_up();
  for (size_t kept = 6; kept < packed_bytes;
       kept += kept < 100 || kept + 100 > packed_bytes ? 1 : 997) {
    put(packed, kept);
    ck_assert_msg(read_back(SIZE_MAX, 0) == TS_IO, "%zu bytes were accepted", kept);
  }
  ck_assert_ptr_nonnull(strstr(diags.items.data[0].message, "ends too early"));
  ck_assert_str_eq(diags.items.data[0].place.file, path);
  tear_down();
}
END_TEST

START_TEST(xz_damaged) {
  set_up();
  diags.limit = 1;
  for (size_t at = 6; at < packed_bytes; at += at < 40 ? 1 : 1009) {
    packed[at] ^= 0x10;
    put(packed, packed_bytes);
    packed[at] ^= 0x10;
    enum ts_status status = read_back(SIZE_MAX, 0);
    ck_assert_msg(status == TS_IO || status == TS_BAD_INPUT, "byte %zu: %s", at,
                  ts_status_text(status));
  }
  packed[packed_bytes] = 'x';
  put(packed, packed_bytes + 1);
  ck_assert_int_eq(read_back(SIZE_MAX, 0), TS_IO);
  tear_down();
}
END_TEST

/* 64 MiB of zeros in some KiB: memory must follow the limit, not the content. */
START_TEST(xz_bomb) {
  set_up();
  uint8_t *zeros = calloc(1, 64 << 20);
  ck_assert_ptr_nonnull(zeros);
  packed_bytes = 0;
  ck_assert_int_eq(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, zeros, 64 << 20, packed,
                                           &packed_bytes, sizeof packed),
                   LZMA_OK);
  free(zeros);
  put(packed, packed_bytes);
  ck_assert_int_eq(read_back(1 << 20, 0), TS_BAD_INPUT);
  ck_assert_uint_lt(memory.peak_bytes, 8 << 20);
  tear_down();
}
END_TEST

START_TEST(reading_survives_failure) {
  set_up();
  for (int packed_too = 0; packed_too < 2; packed_too++) {
    if (packed_too) {
      put(packed, packed_bytes);
    } else {
      put(content, CONTENT_BYTES);
    }
    uint64_t rounds = 0;
    for (uint64_t n = 1; failing_allocator_next(&memory, n); n++, rounds++) {
      enum ts_status status = read_back(SIZE_MAX, CONTENT_BYTES);
      ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    }
    ck_assert_uint_gt(rounds, 2);
  }
  tear_down();
}
END_TEST

START_TEST(missing_and_odd_files) {
  set_up();
  ck_assert_int_eq(read_back(10, 0), TS_IO);
  ck_assert_ptr_nonnull(strstr(diags.items.data[0].message, "No such file"));
  ck_assert(!ts_file_exists(path));
  ck_assert(!ts_file_exists(folder));
  struct ts_file file;
  ck_assert_int_eq(ts_file_read(&ctx, folder, 10, &file), TS_IO);
  put("x", 1);
  ck_assert(ts_file_exists(path));
  tear_down();
}
END_TEST

START_TEST(pipe_without_a_size) {
  set_up();
  int ends[2];
  char name[64];
  ck_assert_int_eq(pipe(ends), 0);
  ck_assert_int_eq(write(ends[1], content, 5000), 5000);
  close(ends[1]);
  snprintf(name, sizeof name, "/proc/self/fd/%d", ends[0]);
  struct ts_file file;
  if (access(name, R_OK) == 0) {
    ck_assert_int_eq(ts_file_read(&ctx, name, 5000, &file), TS_OK);
    ck_assert_uint_eq(file.size_bytes, 5000);
    ts_file_free(&file);
  }
  close(ends[0]);
  tear_down();
}
END_TEST

static unsigned count_entries(void) {
  unsigned count = 0;
  DIR *stream = opendir(folder);
  for (struct dirent *entry; (entry = readdir(stream));)
    count += entry->d_name[0] != '.';
  closedir(stream);
  return count;
}

START_TEST(write_and_replace) {
  set_up();
  ck_assert_int_eq(ts_file_write(&ctx, path, content, 1000), TS_OK);
  ck_assert_int_eq(read_back(SIZE_MAX, 1000), TS_OK);
  ck_assert_int_eq(chmod(path, 0640), 0);
  ck_assert_int_eq(ts_file_write(&ctx, path, content, 10), TS_OK);
  ck_assert_int_eq(read_back(SIZE_MAX, 10), TS_OK);
  struct stat info;
  ck_assert_int_eq(stat(path, &info), 0);
  ck_assert_uint_eq(info.st_mode & 0777, 0640);
  ck_assert_int_eq(ts_file_write(&ctx, path, NULL, 0), TS_OK);
  ck_assert_int_eq(read_back(SIZE_MAX, 0), TS_OK);
  ck_assert_uint_eq(count_entries(), 1);
  tear_down();
}
END_TEST

START_TEST(write_through_a_link) {
  set_up();
  char link[96];
  struct stat info;
  snprintf(link, sizeof link, "%s/link", folder);
  put("old", 3);
  ck_assert_int_eq(symlink("file", link), 0);
  ck_assert_int_eq(ts_file_write(&ctx, link, content, 20), TS_OK);
  ck_assert_int_eq(lstat(link, &info), 0);
  ck_assert(S_ISLNK(info.st_mode));
  ck_assert_int_eq(read_back(SIZE_MAX, 20), TS_OK);
  ck_assert_int_eq(unlink(link), 0);
  tear_down();
}
END_TEST

START_TEST(failed_writes_leave_nothing) {
  set_up();
  char name[200];
  snprintf(name, sizeof name, "%s/no/such/folder", folder);
  ck_assert_int_eq(ts_file_write(&ctx, name, "x", 1), TS_IO);
  ck_assert_int_eq(ts_file_write(&ctx, folder, "x", 1), TS_IO);
  ck_assert_int_eq(ts_file_write(&ctx, "/dev/null", "x", 1), TS_OK);
  struct stat info;
  ck_assert_int_eq(stat("/dev/null", &info), 0);
  ck_assert(S_ISCHR(info.st_mode));
  if (access("/dev/full", W_OK) == 0) {
    ck_assert_int_eq(ts_file_write(&ctx, "/dev/full", "x", 1), TS_IO);
  }
  ck_assert_uint_eq(count_entries(), 0);
  tear_down();
}
END_TEST

int main(void) {
  return RUN_TESTS("base_file", plain, xz, xz_streams_one_after_the_other, xz_truncated, xz_damaged,
                   xz_bomb, reading_survives_failure, missing_and_odd_files, pipe_without_a_size,
                   write_and_replace, write_through_a_link, failed_writes_leave_nothing);
}
