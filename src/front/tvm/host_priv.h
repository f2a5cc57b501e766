/* Inside the host function's evaluation: values, the environment, and the steps of one run.
 *
 * The host function is executed by walking its tree once with actual arguments; what it asks of the
 * device becomes a launch plan (docs/adr). Objects of the host that have no device address (the
 * packed arguments, a DLTensor, its shape) are values that only the accessors here understand. */
#ifndef TS_FRONT_TVM_HOST_PRIV_H
#define TS_FRONT_TVM_HOST_PRIV_H

#include "front/tvm/tir.h"
#include "front/tvm/tvm.h"

enum ts__host_kind {
  TS__HOST_UNSET,   /* a variable nobody has bound */
  TS__HOST_INT,     /* integers and bools: integer */
  TS__HOST_FLOAT,   /* number */
  TS__HOST_NULL,    /* a null handle */
  TS__HOST_RESULT,  /* self_handle, result: opaque handles of the calling convention */
  TS__HOST_ARGS,    /* the packed arguments */
  TS__HOST_TENSOR,  /* a DLTensor: index = parameter */
  TS__HOST_SHAPE,   /* int64_t[rank] of a tensor: index = parameter */
  TS__HOST_STRIDES, /* likewise */
  TS__HOST_ADDRESS, /* device memory: integer = address */
  TS__HOST_MAP      /* a tensor map: index; TS_NONE before it is created */
};

struct ts__host_value {
  enum ts__host_kind kind;
  uint32_t index;
  int64_t integer;
  double number;
};

/* A function of the device module, as a launch needs it. */
struct ts__host_kernel {
  const char *name;
  const struct ts_function *function;
  const struct tir_func *tir;
};

struct ts__host {
  struct ts_ctx *ctx;
  struct ts_arena *arena;
  const struct tir_module *module;
  const struct tir_func *func;
  const struct ts_tvm_param *params;
  const struct ts_tvm_argument *arguments;
  uint32_t param_count, argument_count;
  struct ts__host_value *vars; /* by variable id */
  const struct ts__host_kernel *kernels;
  uint32_t kernel_count;
  TS_VEC(struct ts_tensormap) tensormaps;
  TS_VEC(struct ts_launch) launches;
  struct ts_source_place place; /* of the statement being executed */
  bool has_returned;
};

/* Executes the host function and writes the plan; fields up to kernel_count must be set. */
enum ts_status ts__host_run(struct ts__host *host, struct ts_launch_plan *plan);

/* Reports at the current statement. */
enum ts_status ts__host_fail(struct ts__host *host, enum ts_status status, enum ts_diag_code code,
                             const char *format, ...) __attribute__((format(printf, 4, 5)));

enum ts_status ts__host_eval(struct ts__host *host, const struct tir_expr *expr,
                             struct ts__host_value *out);
/* As above, and the value must be an integer. */
enum ts_status ts__host_eval_int(struct ts__host *host, const struct tir_expr *expr, int64_t *out);
/* What a value is, for messages: "an integer", "a tensor" ... */
const char *ts__host_kind_text(enum ts__host_kind kind);

/* A call of a packed function, at statement level. */
enum ts_status ts__host_call_packed(struct ts__host *host, const struct tir_expr *call);

/* __tvm_tensormap_create_tiled and _im2col: arguments after the name. Validates as the driver does
 * and appends to host->tensormaps; the variable of the first argument becomes that map. */
enum ts_status ts__host_create_tensormap(struct ts__host *host, const struct tir_exprs *args,
                                         bool is_im2col);

#endif
