/* The .npy reader on arbitrary bytes: an array whose size agrees with its shape, or an error. */
#include "api/api_priv.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  struct ts_diag_list diags;
  struct ts__npy npy;
  uint64_t elem_count;
  if (ts_diag_list_init(&diags, &ts_allocator_libc) != TS_OK) return 0;
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  enum ts_status status = ts__npy_parse(&ctx, "fuzz.npy", data, size_bytes, &npy);
  if (status == TS_OK) {
    if (!ts__shape_count(npy.rank, npy.shape, &elem_count)) abort();
    if (ts_dtype_packed_bytes(npy.dtype, elem_count) != npy.size_bytes) abort();
  } else if (diags.items.count == 0) {
    abort(); /* a failure without a story */
  }
  ts__npy_free(&npy);
  ts_diag_list_free(&diags);
  return 0;
}
