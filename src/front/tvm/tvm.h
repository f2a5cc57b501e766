/* The TVM/TileLang front end: a case folder (device.json and host.json, plain or .xz, as
 * tvm.ir.save_json writes them) becomes an IR module and a host function that can be evaluated with
 * actual arguments. */
#ifndef TS_FRONT_TVM_TVM_H
#define TS_FRONT_TVM_TVM_H

#include "ir/launch.h"

struct ts_tvm_case;

/* One tensor or scalar parameter of the host function, in order. */
struct ts_tvm_param {
  const char *name;
  bool is_tensor;
  uint8_t dtype; /* enum ts_dtype */
  uint32_t rank;
  /* Per dimension: the required size, or -1 when it is a run-time symbol; then symbol[i] is its
   * name (dimensions with one symbol must agree). */
  const int64_t *shape;
  const char *const *symbol;
  bool is_written; /* a kernel stores to it */
  bool is_read;    /* a kernel loads from it */
};

struct ts_tvm_options {
  bool fast_math; /* the kernel was compiled with --use_fast_math (device modules do not say) */
};

/* True when the folder looks like a case. */
bool ts_tvm_sniff(const char *folder);

/* Reads the folder's modules and lowers the device functions. Files over 256 MiB (unpacked) are
 * refused. */
enum ts_status ts_tvm_open(struct ts_ctx *ctx, const char *folder,
                           const struct ts_tvm_options *options, struct ts_tvm_case **out);
void ts_tvm_close(struct ts_tvm_case *tvm);

const struct ts_module *ts_tvm_module(const struct ts_tvm_case *tvm);
uint32_t ts_tvm_param_count(const struct ts_tvm_case *tvm);
const struct ts_tvm_param *ts_tvm_param(const struct ts_tvm_case *tvm, uint32_t index);

/* A value for a parameter: a tensor, or the bits of a scalar (int64 or double). */
struct ts_tvm_argument {
  struct ts_tensor_argument tensor; /* tensors */
  bool is_null;                     /* tensors: None was passed, the above is not read */
  uint64_t scalar;                  /* scalars: encoding in 64 bits */
};

/* Executes the host function. The plan lives in the arena. An assertion of the host function that
 * fails is TS_BAD_ARGUMENT with its own text (TS_DIAG_HOST_ASSERT); a tensor map that the driver
 * would refuse is TS_BAD_ARGUMENT with the reason (TS_DIAG_HOST_TENSORMAP). */
enum ts_status ts_tvm_plan(struct ts_ctx *ctx, const struct ts_tvm_case *tvm,
                           const struct ts_tvm_argument *arguments, uint32_t argument_count,
                           struct ts_arena *arena, struct ts_launch_plan *plan);

#endif
