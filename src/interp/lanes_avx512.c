/* Lane loops for hosts with AVX-512; empty when the compiler was not told to use it. */
#ifdef __AVX512F__
#define LANE_TABLE ts__lane_ops_avx512
#include "interp/lane_loops.h"
#else
#include "interp/interp_priv.h"
const struct ts__lane_ops ts__lane_ops_avx512 = {0};
#endif
