/* Runs a fuzz target over files, folders of files, or standard input. Serves AFL, ctest and a
 * quick look at one find; libFuzzer brings its own main. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static int run_stream(FILE *stream) {
  uint8_t *data = NULL;
  size_t size_bytes = 0, capacity = 0, got = 0;
  do {
    if (size_bytes == capacity) {
      capacity = capacity ? 2 * capacity : 4096;
      uint8_t *grown = realloc(data, capacity);
      if (!grown) {
        free(data);
        return -1;
      }
      data = grown;
    }
    got = fread(data + size_bytes, 1, capacity - size_bytes, stream);
    size_bytes += got;
  } while (got > 0);
  /* An exact block, so that AddressSanitizer sees a read past the end. */
  uint8_t *exact = realloc(data, size_bytes ? size_bytes : 1);
  LLVMFuzzerTestOneInput(exact ? exact : data, size_bytes);
  free(exact ? exact : data);
  return 0;
}

static int run_file(const char *path) {
  FILE *stream = fopen(path, "rb");
  if (!stream) {
    perror(path);
    return -1;
  }
  int result = run_stream(stream);
  fclose(stream);
  return result;
}

static int run_folder(const char *path, unsigned *count) {
  struct dirent **entries = NULL;
  int entry_count = scandir(path, &entries, NULL, alphasort);
  int result = entry_count < 0 ? -1 : 0;
  for (int i = 0; i < entry_count; i++) {
    char name[4096];
    struct stat info;
    int length = snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    free(entries[i]);
    if (length < 0 || (size_t)length >= sizeof name) result = -1;
    if (result || stat(name, &info) || !S_ISREG(info.st_mode)) continue;
    result = run_file(name);
    (*count)++;
  }
  free(entries);
  return result;
}

int main(int argc, char **argv) {
  unsigned count = 0;
  if (argc < 2) return run_stream(stdin) ? 1 : 0;
  for (int i = 1; i < argc; i++) {
    struct stat info;
    if (stat(argv[i], &info)) {
      perror(argv[i]);
      return 1;
    }
    int result = S_ISDIR(info.st_mode) ? run_folder(argv[i], &count) : run_file(argv[i]);
    if (result) return 1;
    if (!S_ISDIR(info.st_mode)) count++;
  }
  printf("%u inputs\n", count);
  return count ? 0 : 1;
}
