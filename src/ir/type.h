/* Types of IR values and the memory spaces. A value is a vector of `lanes` components ("lanes" in
 * TVM's sense, 1 for a scalar) of one dtype in each of a warp's 32 lanes. */
#ifndef TS_IR_TYPE_H
#define TS_IR_TYPE_H

#include "num/dtype.h"

enum { TS_WARP_LANES = 32, TS_MAX_VECTOR_LANES = 64 };

struct ts_type {
  uint8_t dtype; /* enum ts_dtype */
  uint8_t lanes; /* 1 .. TS_MAX_VECTOR_LANES */
};

enum ts_space { TS_SPACE_GLOBAL, TS_SPACE_SHARED, TS_SPACE_LOCAL, TS_SPACE_COUNT };

#endif
