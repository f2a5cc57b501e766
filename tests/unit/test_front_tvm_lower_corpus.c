/* The lowering on compiler output: every device module of the corpus, which is no part of the tree.
 * It is looked for in $TS_SHARED, then ../shared; without it the test says so and passes. */
#include "base/file.h"
#include "front/tvm/lower_priv.h"
#include "support/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PATH_BYTES = 4096 };

struct tally {
  unsigned lowered_count, wrong_count;
  double slowest_seconds;
  size_t largest_insns;
};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool read_module(struct ts_ctx *ctx, const char *folder, struct ts_file *file) {
  char path[3 * PATH_BYTES];
  for (int is_packed = 0; is_packed < 2; is_packed++) {
    snprintf(path, sizeof path, "%s/device.json%s", folder, is_packed ? ".xz" : "");
    if (!ts_file_exists(path)) continue;
    ck_assert_int_eq(ts_file_read(ctx, path, (size_t)1 << 30, file), TS_OK);
    return true;
  }
  return false;
}

static void judge(const char *name, enum ts_status status, const struct ts_ctx *ctx,
                  const struct ts_module *module, struct tally *tally) {
  const char *message = ctx->diags->items.count ? ctx->diags->items.data[0].message : "";
  tally->lowered_count += status == TS_OK;
  tally->wrong_count += status != TS_OK;
  if (status != TS_OK) printf("%s: %s\n", name, message);
  for (size_t i = 0; status == TS_OK && i < module->functions.count; i++) {
    size_t count = module->functions.data[i]->insns.count;
    if (count > tally->largest_insns) tally->largest_insns = count;
  }
}

static void lower_case(const char *folder, const char *name, struct tally *tally) {
  struct ts_diag_list diags;
  struct ts_arena arena;
  struct ts_file file;
  struct tir_module *device;
  ck_assert_int_eq(ts_diag_list_init(&diags, &ts_allocator_libc), TS_OK);
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  ts_arena_init(&arena, &ts_allocator_libc);
  if (read_module(&ctx, folder, &file)) {
    struct ts_module *module = ts_module_new(&ts_allocator_libc);
    enum ts_status status =
        tir_module_load(&ctx, &arena, name, file.data, file.size_bytes, &device);
    double start = seconds();
    if (status == TS_OK) status = ts__tvm_lower_device(&ctx, device, NULL, module);
    double taken = seconds() - start;
    if (taken > tally->slowest_seconds) tally->slowest_seconds = taken;
    judge(name, status, &ctx, module, tally);
    ts_module_free(module);
    ts_file_free(&file);
  }
  ts_arena_free(&arena);
  ts_diag_list_free(&diags);
}

static void lower_folder(const char *name, struct tally *tally) {
  char path[PATH_BYTES];
  const char *shared = getenv("TS_SHARED");
  snprintf(path, sizeof path, "%s/data/tilelang/%s", shared ? shared : "../shared", name);
  DIR *folder = opendir(path);
  if (!folder) return;
  for (struct dirent *entry; (entry = readdir(folder));) {
    char inner[2 * PATH_BYTES];
    if (entry->d_name[0] == '.') continue;
    snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
    lower_case(inner, entry->d_name, tally);
  }
  closedir(folder);
}

START_TEST(whole_corpus) {
  struct tally tally = {0};
  lower_folder("cases", &tally);
  lower_folder("sweep", &tally);
  if (tally.lowered_count == 0 && tally.wrong_count == 0) {
    printf("no corpus: skipped\n");
    return;
  }
  printf("%u modules lowered; slowest %.3f s, at most %zu instructions\n", tally.lowered_count,
         tally.slowest_seconds, tally.largest_insns);
  ck_assert_uint_eq(tally.wrong_count, 0);
  ck_assert_uint_ge(tally.lowered_count, 209);
  ck_assert_msg(tally.slowest_seconds < 2, "lowering takes %.1f s", tally.slowest_seconds);
}
END_TEST

int main(void) { return RUN_TESTS("front_tvm_lower_corpus", whole_corpus); }
