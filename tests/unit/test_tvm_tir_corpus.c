/* The graph importer on compiler output: every device, host and tile module of the corpus, which is
 * no part of the tree. It is looked for in $TS_SHARED, then ../shared; without it the test says so
 * and passes. */
#include "base/file.h"
#include "support/failing_allocator.h"
#include "support/suite.h"
#include "support/tir_graph.h"

#include <dirent.h>
#include <time.h>

enum { PATH_BYTES = 4096 };

static const char *const module_names[] = {"device.json", "host.json", "tile.json"};

struct tally {
  unsigned case_count, loaded_count, failed_count;
  double slowest_seconds;
};

static const char *shared_folder(void) {
  const char *folder = getenv("TS_SHARED");
  return folder ? folder : "../shared";
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What must hold for any module: functions with names and bodies, and a text of the whole. */
static void look_at(struct graph_load *load, bool prints) {
  const struct tir_module *module = load->module;
  ck_assert_uint_gt(module->func_count, 0);
  ck_assert_str_eq(module->tvm_version, "0.25.dev0");
  for (size_t i = 0; i < module->func_count; i++) {
    const struct tir_func *func = module->funcs[i];
    ck_assert_uint_gt(strlen(func->name), 0);
    ck_assert_ptr_nonnull(func->body);
    ck_assert_int_eq(tir_map_find(func->attrs, "target")->kind, TIR_VALUE_TARGET);
  }
  if (prints) ck_assert_ptr_nonnull(tir_print(&load->arena, module));
}

static bool read_module(struct graph_load *load, const char *folder, const char *name,
                        struct ts_file *file) {
  char path[PATH_BYTES];
  graph_load_init(load, &ts_allocator_libc);
  for (int is_packed = 0; is_packed < 2; is_packed++) {
    snprintf(path, sizeof path, "%s/%s%s", folder, name, is_packed ? ".xz" : "");
    if (!ts_file_exists(path)) continue;
    ck_assert_int_eq(ts_file_read(&load->ctx, path, (size_t)1 << 30, file), TS_OK);
    return true;
  }
  return false;
}

static void load_module(const char *folder, const char *name, struct tally *tally) {
  struct graph_load load;
  struct ts_file file;
  if (read_module(&load, folder, name, &file)) {
    double start = seconds();
    load.status =
        tir_module_load(&load.ctx, &load.arena, name, file.data, file.size_bytes, &load.module);
    double taken = seconds() - start;
    if (taken > tally->slowest_seconds) tally->slowest_seconds = taken;
    tally->loaded_count += load.status == TS_OK;
    tally->failed_count += load.status != TS_OK;
    if (load.status == TS_OK) {
      look_at(&load, tally->loaded_count % 8 == 0);
    } else {
      printf("%s/%s: %s\n", folder, name, load.diags.items.data[0].message);
    }
    ts_file_free(&file);
  }
  graph_load_free(&load);
}

static void load_folder(const char *folder, struct tally *tally) {
  struct dirent **entries = NULL;
  int count = scandir(folder, &entries, NULL, alphasort);
  for (int i = 0; i < count; i++) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    ck_assert_int_lt(length, (int)sizeof path);
    if (entries[i]->d_name[0] != '.') {
      tally->case_count++;
      for (size_t k = 0; k < 3; k++)
        load_module(path, module_names[k], tally);
    }
    free(entries[i]);
  }
  free(entries);
}

START_TEST(every_module_loads) {
  struct tally tally = {0};
  char folder[PATH_BYTES];
  static const char *const groups[] = {"cases", "sweep"};
  for (size_t i = 0; i < 2; i++) {
    snprintf(folder, sizeof folder, "%s/data/tilelang/%s", shared_folder(), groups[i]);
    load_folder(folder, &tally);
  }
  if (tally.case_count == 0) {
    printf("SKIPPED: no corpus in %s\n", shared_folder());
    return;
  }
  printf("%u modules of %u cases, slowest %.2f ms\n", tally.loaded_count, tally.case_count,
         1e3 * tally.slowest_seconds);
  ck_assert_uint_eq(tally.failed_count, 0);
  ck_assert_uint_ge(tally.loaded_count, 3 * tally.case_count);
  ck_assert(tally.slowest_seconds < 0.2);
}
END_TEST

/* Facts of one kernel, read off the compiler's own text of it. */
START_TEST(gemm_seed_is_what_it_is) {
  char folder[PATH_BYTES];
  struct graph_load load;
  struct ts_file file;
  snprintf(folder, sizeof folder, "%s/data/tilelang/cases/gemm_seed", shared_folder());
  if (!read_module(&load, folder, "device.json", &file)) {
    printf("SKIPPED: no gemm_seed in %s\n", folder);
    graph_load_free(&load);
    return;
  }
  ck_assert_int_eq(
      tir_module_load(&load.ctx, &load.arena, "d", file.data, file.size_bytes, &load.module),
      TS_OK);
  const struct tir_func *func = tir_module_find(load.module, "main_kernel");
  ck_assert_ptr_nonnull(func);
  ck_assert_uint_eq(func->params.count, 3);
  ck_assert_str_eq(func->params.items[0]->name, "A_desc");
  ck_assert_str_eq(func->params.items[0]->elem_dtype.text, "uint8x128");
  ck_assert_str_eq(func->params.items[0]->scope, "grid_constant");
  ck_assert_str_eq(func->params.items[2]->scope, "global");
  ck_assert_str_eq(func->place.file, "kernels.py");
  int64_t size_bytes = 0;
  ck_assert(tir_value_int(tir_map_find(func->attrs, "dyn_shared_memory_buf"), &size_bytes));
  ck_assert_int_eq(size_bytes, 49152);
  const char *text = tir_print(&load.arena, load.module);
  ck_assert_ptr_nonnull(strstr(text, "tl.mbarrier_wait_parity(mbarrier[k % 3 + 3], "
                                     "tirx.bitwise_xor(k % 6 // 3, 1))\n"));
  ck_assert_ptr_nonnull(strstr(text, "tl.set_max_nreg(240, 1)\n"));
  ts_file_free(&file);
  graph_load_free(&load);
}
END_TEST

START_TEST(gemm_seed_survives_allocation_failures) {
  char folder[PATH_BYTES];
  struct graph_load reading;
  struct ts_file file;
  struct failing_allocator memory;
  snprintf(folder, sizeof folder, "%s/data/tilelang/cases/gemm_seed", shared_folder());
  if (!read_module(&reading, folder, "host.json", &file)) {
    printf("SKIPPED: no gemm_seed in %s\n", folder);
    graph_load_free(&reading);
    return;
  }
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct graph_load load;
    graph_load_init(&load, &memory.allocator);
    if (load.status == TS_OK) {
      load.status =
          tir_module_load(&load.ctx, &load.arena, "h", file.data, file.size_bytes, &load.module);
    }
    ck_assert(load.status == TS_OK || load.status == TS_NO_MEMORY);
    if (load.diags.lock) graph_load_free(&load);
  }
  ts_file_free(&file);
  graph_load_free(&reading);
}
END_TEST

int main(void) {
  return RUN_TESTS("tvm_tir_corpus", every_module_loads, gemm_seed_is_what_it_is,
                   gemm_seed_survives_allocation_failures);
}
