/* Lane loops for hosts with AVX2; empty when the compiler was not told to use it. */
#ifdef __AVX2__
#define LANE_TABLE ts__lane_ops_avx2
#include "interp/lane_loops.h"
#else
#include "interp/interp_priv.h"
const struct ts__lane_ops ts__lane_ops_avx2 = {0};
#endif
