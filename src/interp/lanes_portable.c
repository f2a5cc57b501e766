/* Lane loops for any host (SSE2 where that is the baseline). */
#define LANE_TABLE ts__lane_ops_portable
#include "interp/lane_loops.h"
