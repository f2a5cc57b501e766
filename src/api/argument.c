/* Setting arguments. Each setter builds the new argument completely before it replaces the old. */
#include "api/api_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ts__argument_clear(struct ts_sim *sim, struct ts__argument *argument) {
  if (argument->data)
    sim->allocator.resize(sim->allocator.user, argument->data, (size_t)argument->data_bytes, 0);
  memset(argument, 0, sizeof *argument);
}

static enum ts_result replace(struct ts_sim *sim, struct ts__parameter *parameter,
                              const struct ts__argument *argument) {
  ts__argument_clear(sim, &parameter->argument);
  parameter->argument = *argument;
  return TS_RESULT_OK;
}

static struct ts__parameter *find_kind(struct ts_sim *sim, const char *name, bool is_tensor) {
  struct ts__parameter *parameter = ts__find_parameter(sim, name ? name : "");
  if (!parameter || parameter->tvm->is_tensor == is_tensor) return parameter;
  ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING, "parameter %s is a %s, not a %s", name,
               is_tensor ? "scalar" : "tensor", is_tensor ? "tensor" : "scalar");
  return NULL;
}

static enum ts_result fail_limit(struct ts_sim *sim, const char *name, uint64_t size_bytes) {
  return ts__sim_fail(sim, TS_LIMIT, TS_DIAG_LIMIT,
                      "tensor %s: %llu bytes are above the memory limit of %llu", name,
                      (unsigned long long)size_bytes, (unsigned long long)ts__memory_limit(sim));
}

/* --- tensors in memory */

static enum ts_result check_tensor(struct ts_sim *sim, const char *name,
                                   const struct ts_tensor *tensor, enum ts_dtype *dtype,
                                   uint64_t *size_bytes) {
  uint64_t span;
  const char *text = tensor->dtype ? tensor->dtype : "";
  *dtype = ts_dtype_from_name(text, strlen(text));
  if (*dtype == TS_DTYPE_NONE) *dtype = ts_dtype_from_tvm(text, strlen(text));
  if (*dtype == TS_DTYPE_NONE)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE, "tensor %s: unknown dtype '%s'",
                        name, text);
  if (tensor->rank > TS_MAX_RANK || (tensor->rank && !tensor->shape))
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                        "tensor %s: rank %u; at most %d dimensions are possible", name,
                        tensor->rank, TS_MAX_RANK);
  if (!ts__shape_span(tensor->rank, tensor->shape, tensor->strides, &span))
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                        "tensor %s: an extent or a stride is negative, or they are too large",
                        name);
  *size_bytes = ts_dtype_packed_bytes(*dtype, span);
  if (*size_bytes > ts__memory_limit(sim)) return fail_limit(sim, name, *size_bytes);
  if (tensor->size_bytes < *size_bytes || (*size_bytes && !tensor->data))
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                        "tensor %s: shape and strides reach %llu bytes, but %llu were given", name,
                        (unsigned long long)*size_bytes, (unsigned long long)tensor->size_bytes);
  return TS_RESULT_OK;
}

enum ts_result ts_sim_set_tensor(struct ts_sim *sim, const char *name,
                                 const struct ts_tensor *tensor) {
  enum ts_dtype dtype;
  uint64_t size_bytes = 0;
  struct ts__parameter *parameter = find_kind(sim, name, true);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  TS__TRY_RESULT(check_tensor(sim, name, tensor, &dtype, &size_bytes));
  struct ts__argument argument = {.kind = TS__ARGUMENT_MEMORY,
                                  .dtype = (uint8_t)dtype,
                                  .rank = tensor->rank,
                                  .has_shape = true,
                                  .has_strides = tensor->strides && tensor->rank};
  if (tensor->rank) memcpy(argument.shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
  if (argument.has_strides)
    memcpy(argument.strides, tensor->strides, tensor->rank * sizeof *tensor->strides);
  if (size_bytes) {
    argument.data = sim->allocator.resize(sim->allocator.user, NULL, 0, (size_t)size_bytes);
    if (!argument.data) return ts__result(ts_fail_memory(&sim->ctx));
    memcpy(argument.data, tensor->data, (size_t)size_bytes);
    argument.data_bytes = size_bytes;
  }
  return replace(sim, parameter, &argument);
}

enum ts_result ts_sim_set_null(struct ts_sim *sim, const char *name) {
  struct ts__parameter *parameter = find_kind(sim, name, true);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  return replace(sim, parameter,
                 &(struct ts__argument){.kind = TS__ARGUMENT_NULL, .dtype = parameter->tvm->dtype});
}

/* A type that NumPy lacks is taken from unsigned integers (or void) of its width. */
static enum ts_dtype npy_dtype(const struct ts__npy *npy, enum ts_dtype wanted) {
  bool has_equal_width = ts_dtype_bits(npy->dtype) == ts_dtype_bits(wanted);
  bool is_carrier = npy->is_raw || ts_dtype_is_unsigned_int(npy->dtype);
  return is_carrier && has_equal_width && !ts__npy_is_native(wanted) ? wanted : npy->dtype;
}

enum ts_result ts_sim_set_npy(struct ts_sim *sim, const char *name, const char *path) {
  struct ts__npy npy;
  struct ts__parameter *parameter = find_kind(sim, name, true);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  enum ts_dtype wanted = (enum ts_dtype)parameter->tvm->dtype;
  if (ts_dtype_bits(wanted) < 8)
    return ts__sim_fail(sim, TS_UNSUPPORTED, TS_DIAG_ARG_SHAPE,
                        "tensor %s: elements of %u bits cannot come from a .npy file", name,
                        ts_dtype_bits(wanted));
  enum ts_status status = ts__npy_read(&sim->ctx, path, ts__memory_limit(sim), &npy);
  if (status != TS_OK) {
    ts__npy_free(&npy);
    return ts__result(status);
  }
  struct ts__argument argument = {.kind = TS__ARGUMENT_MEMORY,
                                  .dtype = (uint8_t)npy_dtype(&npy, wanted),
                                  .rank = npy.rank,
                                  .has_shape = true,
                                  .data = npy.data,
                                  .data_bytes = npy.size_bytes};
  memcpy(argument.shape, npy.shape, sizeof npy.shape);
  return replace(sim, parameter, &argument);
}

/* --- generated content */

static enum ts_result set_init(struct ts_sim *sim, struct ts__parameter *parameter,
                               const struct ts__init *init, uint64_t seed, const int64_t *shape,
                               uint32_t rank) {
  uint64_t elem_count;
  struct ts__argument argument = {.kind = TS__ARGUMENT_INIT,
                                  .dtype = parameter->tvm->dtype,
                                  .init = *init,
                                  .seed = seed,
                                  .has_shape = shape != NULL};
  if (shape) {
    if (rank > TS_MAX_RANK || !ts__shape_count(rank, shape, &elem_count))
      return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                          "tensor %s: the shape is too large or has a negative extent",
                          parameter->tvm->name);
    argument.rank = rank;
    memcpy(argument.shape, shape, rank * sizeof *shape);
  }
  return replace(sim, parameter, &argument);
}

static enum ts_result fail_mode(struct ts_sim *sim, const char *name, const char *mode) {
  return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
                      "argument %s: '%.64s' is no way to fill a tensor; expected uniform, "
                      "int:LOW:HIGH, bits, meta24, fill:HH, const:V or iota:D:M",
                      name, mode);
}

enum ts_result ts_sim_set_init(struct ts_sim *sim, const char *name, const char *mode,
                               uint64_t seed, const int64_t *shape, uint32_t rank) {
  struct ts__init init;
  struct ts__parameter *parameter = find_kind(sim, name, true);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  const char *rest = mode ? ts__init_parse(mode, &init) : NULL;
  if (!rest || *rest) return fail_mode(sim, name, mode ? mode : "");
  return set_init(sim, parameter, &init, seed, shape, rank);
}

/* "MODE[:SEED][@AxBx..]" */
static enum ts_result set_init_text(struct ts_sim *sim, struct ts__parameter *parameter,
                                    const char *text) {
  struct ts__init init;
  uint64_t seed = 0;
  int64_t shape[TS_MAX_RANK];
  uint32_t rank = 0;
  char *end;
  const char *name = parameter->tvm->name;
  const char *rest = ts__init_parse(text, &init);
  if (!rest) return fail_mode(sim, name, text);
  errno = 0;
  if (*rest == ':' && rest[1] >= '0' && rest[1] <= '9') {
    seed = strtoull(rest + 1, &end, 0);
    rest = end;
  }
  bool has_shape = *rest == '@';
  while (has_shape && rank < TS_MAX_RANK && (*rest == '@' || *rest == 'x') && rest[1] >= '0' &&
         rest[1] <= '9') {
    shape[rank++] = strtoll(rest + 1, &end, 10);
    rest = end;
  }
  if (errno)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
                        "argument %s: a number in 'init:%.64s' is too large", name, text);
  if (*rest)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
                        "argument %s: '%.32s' is left over in 'init:%.64s'; expected "
                        "init:MODE[:SEED][@AxBx..]",
                        name, rest, text);
  return set_init(sim, parameter, &init, seed, has_shape ? shape : NULL, rank);
}

/* --- scalars */

static enum ts_result set_scalar(struct ts_sim *sim, struct ts__parameter *parameter, bool is_float,
                                 uint64_t bits) {
  struct ts__argument argument = {
      .kind = TS__ARGUMENT_SCALAR, .scalar_is_float = is_float, .scalar = bits};
  return replace(sim, parameter, &argument);
}

enum ts_result ts_sim_set_int(struct ts_sim *sim, const char *name, int64_t value) {
  struct ts__parameter *parameter = find_kind(sim, name, false);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  return set_scalar(sim, parameter, false, (uint64_t)value);
}

enum ts_result ts_sim_set_float(struct ts_sim *sim, const char *name, double value) {
  uint64_t bits;
  struct ts__parameter *parameter = find_kind(sim, name, false);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  memcpy(&bits, &value, sizeof bits);
  return set_scalar(sim, parameter, true, bits);
}

static enum ts_result set_scalar_text(struct ts_sim *sim, struct ts__parameter *parameter,
                                      const char *text) {
  char *end;
  errno = 0;
  long long integer = strtoll(text, &end, 0);
  if (*text && !*end && !errno) return set_scalar(sim, parameter, false, (uint64_t)integer);
  double value = strtod(text, &end);
  if (!*text || *end)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_SHAPE,
                        "argument %s: expected a number, found '%.64s'", parameter->tvm->name,
                        text);
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return set_scalar(sim, parameter, true, bits);
}

enum ts_result ts_sim_set_text(struct ts_sim *sim, const char *name, const char *value) {
  static const char prefix[] = "init:";
  struct ts__parameter *parameter = ts__find_parameter(sim, name ? name : "");
  if (!parameter || !value) return TS_RESULT_BAD_ARGUMENT;
  if (!parameter->tvm->is_tensor) return set_scalar_text(sim, parameter, value);
  if (strcmp(value, "null") == 0) return ts_sim_set_null(sim, name);
  if (strncmp(value, prefix, sizeof prefix - 1) == 0)
    return set_init_text(sim, parameter, value + sizeof prefix - 1);
  if (!*value || (access(value, F_OK) && errno == ENOENT))
    return ts__result(ts_fail(&sim->ctx, TS_IO, TS_DIAG_INPUT_FILE,
                              *value ? TS_FILE_PLACE(value) : TS_NO_PLACE,
                              "argument %s: there is no such file; expected FILE.npy, "
                              "init:MODE[:SEED][@AxBx..] or null",
                              name));
  return ts_sim_set_npy(sim, name, value);
}

void ts_sim_clear_arguments(struct ts_sim *sim) {
  for (uint32_t i = 0; i < sim->parameter_count; i++)
    ts__argument_clear(sim, &sim->parameters[i].argument);
}
