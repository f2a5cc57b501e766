/* Local memory on the simulated SM: what registers do not hold. It stays in L1.
 *
 * MEASURED (local_* rows of traces/h200/ubench.csv): stores go at the rate of stores to global memory,
 * 32 bytes a cycle; loads are hits of L1. nvcc's code has stores and loads in turn, so the slower of both
 * counts. */
#include "model_nv/sm_priv.h"

enum { WORD_BYTES = 4, WORDS_PER_ACCESS = 2 };

double ts__do_spill(struct ts__sm *sm, struct ts__warp_state *warp, uint32_t words) {
  const double *timing = sm->timing;
  double accesses = (words + WORDS_PER_ACCESS - 1) / WORDS_PER_ACCESS;
  double bytes = (double)words * WORD_BYTES * TS__WARP_LANES;
  ts__serve(&sm->issue[warp->sub], warp->candidate, 2 * accesses);
  double store_cycles = bytes / timing[TS_TIMING_l2_write_bytes_per_cycle];
  double stored = ts__serve(&sm->local, warp->candidate, store_cycles) + store_cycles;
  double loaded = warp->candidate + words * timing[TS_TIMING_shared_sub_wavefront];
  ts__serve(&sm->lsu, warp->candidate, 2 * accesses * timing[TS_TIMING_lsu_interval]);
  ts__serve(&sm->shared, warp->candidate, bytes / timing[TS_TIMING_shared_bytes_per_cycle]);
  return (stored > loaded ? stored : loaded) + timing[TS_TIMING_l1_latency];
}
