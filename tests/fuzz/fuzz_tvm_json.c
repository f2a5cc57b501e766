/* The TVM graph importer: any bytes give a module or one error. A module is printed, which walks
 * all of it. */
#include "front/tvm/tir.h"

#include <stdlib.h>

static void require(int condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  struct ts_diag_list diags;
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  struct ts_arena arena;
  struct tir_module *module;
  require(ts_diag_list_init(&diags, &ts_allocator_libc) == TS_OK);
  ts_arena_init(&arena, &ts_allocator_libc);
  enum ts_status status =
      tir_module_load(&ctx, &arena, "fuzz.json", (const char *)data, size_bytes, &module);
  require((status == TS_OK) == (module != NULL));
  require(diags.items.count == (status != TS_OK));
  if (module) require(tir_print(&arena, module) != NULL);
  ts_arena_free(&arena);
  ts_diag_list_free(&diags);
  return 0;
}
