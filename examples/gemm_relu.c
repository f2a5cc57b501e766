/* GEMM + ReLU as TileLang compiled it for an H200, run on this CPU: C = max(A B, 0).
 *   usage: example_gemm_relu [CASE]      (traces/gemm_seed, from the root of the tree) */
#include "tilesim/tilesim.h"

#include <stdio.h>
#include <stdlib.h>

enum { M = 1024, N = 1024, K = 1024 };
static const uint16_t one_half = 0x3800, minus_two = 0xc000; /* float16 encodings */

static void fail(struct ts_sim *sim, enum ts_result result) {
  struct ts_diagnostic diagnostic;
  for (uint32_t i = 0; ts_sim_diagnostic(sim, i, &diagnostic) == TS_RESULT_OK; i++)
    fprintf(stderr, "%s: %s\n", diagnostic.code, diagnostic.message);
  exit(ts_result_exit_status(result));
}

int main(int argc, char **argv) {
  const int64_t a_shape[2] = {M, K};
  uint16_t *a = malloc(sizeof *a * M * K);
  char hash[TS_SHA256_TEXT_BYTES];
  struct ts_sim *sim;
  struct ts_tensor c;
  struct ts_statistics statistics;
  if (!a || ts_sim_create(NULL, &sim) != TS_RESULT_OK) return 3;
  for (int i = 0; i < M * K; i++) /* row 0 of A is 1/2, the other rows are -2 */
    a[i] = i < K ? one_half : minus_two;
  const struct ts_tensor a_tensor = {"f16", 2, a_shape, NULL, a, sizeof *a * M * K};
  enum ts_result result = ts_sim_open(sim, argc > 1 ? argv[1] : "traces/gemm_seed", 0);
  if (result == TS_RESULT_OK) result = ts_sim_set_tensor(sim, "A", &a_tensor);
  if (result == TS_RESULT_OK) result = ts_sim_set_init(sim, "B", "iota:1:4", 0, NULL, 0);
  if (result == TS_RESULT_OK) result = ts_sim_run(sim, NULL);
  if (result == TS_RESULT_OK) result = ts_sim_tensor(sim, "C", &c);
  if (result == TS_RESULT_OK) result = ts_sim_sha256(sim, "C", hash);
  if (result != TS_RESULT_OK) fail(sim, result);
  const float *row = c.data; /* B[k][n] is n % 4: expect 0 512 1024 1536, then rows of zeros */
  ts_sim_statistics(sim, &statistics);
  printf("C[0] = %g %g %g %g ...  C[1] = %g %g %g %g ...\n%s\n%llu multiply-adds\n", row[0], row[1],
         row[2], row[3], row[N], row[N + 1], row[N + 2], row[N + 3], hash,
         (unsigned long long)statistics.matrix_macs);
  ts_sim_free(sim);
  free(a);
  return 0;
}
