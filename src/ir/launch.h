/* What a host function asks of the device: tensor maps and launches. A front end evaluates the host
 * function with actual arguments and writes a plan; the interpreter runs it. */
#ifndef TS_IR_LAUNCH_H
#define TS_IR_LAUNCH_H

#include "ir/ir.h"

enum { TS_TENSORMAP_MAX_RANK = 5 };

/* Values of CUtensorMapDataType (DOC, cuda.h). */
enum ts_tensormap_dtype {
  TS_TENSORMAP_U8,
  TS_TENSORMAP_U16,
  TS_TENSORMAP_U32,
  TS_TENSORMAP_S32,
  TS_TENSORMAP_U64,
  TS_TENSORMAP_S64,
  TS_TENSORMAP_F16,
  TS_TENSORMAP_F32,
  TS_TENSORMAP_F64,
  TS_TENSORMAP_BF16,
  TS_TENSORMAP_F32_FTZ,
  TS_TENSORMAP_TF32,
  TS_TENSORMAP_TF32_FTZ,
  TS_TENSORMAP_DTYPE_COUNT
};

/* A tensor map as cuTensorMapEncodeTiled / Im2col gets it; dimensions innermost first. */
struct ts_tensormap {
  bool is_im2col;
  uint32_t dtype; /* enum ts_tensormap_dtype */
  uint32_t elem_size_bytes;
  uint32_t rank;
  uint64_t global_address;
  uint64_t size[TS_TENSORMAP_MAX_RANK];         /* elements */
  uint64_t stride_bytes[TS_TENSORMAP_MAX_RANK]; /* [0] is the element size */
  uint32_t box[TS_TENSORMAP_MAX_RANK];          /* elements; im2col: [0] channels, [1] pixels */
  uint32_t elem_stride[TS_TENSORMAP_MAX_RANK];
  int32_t lower_corner[TS_TENSORMAP_MAX_RANK], upper_corner[TS_TENSORMAP_MAX_RANK]; /* im2col */
  uint32_t interleave; /* 0 none, 1 16 B, 2 32 B */
  uint32_t swizzle;    /* 0 none, 1 32 B, 2 64 B, 3 128 B */
  uint32_t l2_promotion;
  uint32_t oob_fill; /* 0 zeros, 1 NaN */
};

enum ts_launch_arg_kind { TS_LAUNCH_ARG_POINTER, TS_LAUNCH_ARG_TENSORMAP, TS_LAUNCH_ARG_SCALAR };

struct ts_launch_arg {
  enum ts_launch_arg_kind kind;
  uint64_t value; /* device address, tensor map index, or scalar encoding */
  bool is_double; /* scalar of a float type: value is binary64, rounded to the parameter's dtype */
};

struct ts_launch {
  const char *function; /* name in the module */
  uint32_t grid[3], block[3], cluster[3];
  uint64_t dynamic_shared_bytes;
  bool is_cooperative;
  const struct ts_launch_arg *args; /* in parameter order */
  uint32_t arg_count;
};

struct ts_launch_plan {
  struct ts_tensormap *tensormaps;
  uint32_t tensormap_count;
  struct ts_launch *launches; /* in order */
  uint32_t launch_count;
};

/* A tensor as a host function gets it (DLTensor). */
struct ts_tensor_argument {
  const char *name;
  uint8_t dtype; /* enum ts_dtype */
  uint32_t rank;
  const int64_t *shape;
  const int64_t *strides; /* elements, or NULL for compact row-major */
  uint64_t address;       /* device address of the first byte */
  uint64_t byte_offset;
};

#endif
