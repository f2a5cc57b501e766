/* Statements of the host function: checks, bindings, tensor maps and launches. */
#include "front/tvm/host_priv.h"

#include <string.h>

static enum ts_status run_stmt(struct ts__host *host, const struct tir_stmt *stmt);

static enum ts_status run_assert(struct ts__host *host, const struct tir_stmt *stmt) {
  int64_t holds;
  TS_TRY(ts__host_eval_int(host, stmt->assertion.condition, &holds));
  if (holds) return TS_OK;
  const char *text = "";
  for (size_t i = 0; i < stmt->assertion.message_parts.count; i++) {
    const char *part = tir_expr_string(stmt->assertion.message_parts.items[i]);
    text = ts_arena_printf(host->arena, "%s%s", text, part ? part : "?");
    if (!text) return ts_fail_memory(host->ctx);
  }
  const char *kind = tir_expr_string(stmt->assertion.error_kind);
  return ts_fail(host->ctx, TS_BAD_ARGUMENT, TS_DIAG_HOST_ASSERT, host->place, "%s: %s",
                 kind ? kind : "error", text);
}

/* Attributes that only advise; anything else is an error. */
static const char *const harmless_attrs[] = {"storage_alignment", "device_id", "device_type",
                                             "compute_scope", "tl.assume"};

static enum ts_status run_attr(struct ts__host *host, const struct tir_stmt *stmt) {
  for (size_t i = 0; i < sizeof harmless_attrs / sizeof *harmless_attrs; i++)
    if (strcmp(stmt->attr.key, harmless_attrs[i]) == 0) return run_stmt(host, stmt->attr.body);
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, "node %u: unknown attribute %s",
                       stmt->node, stmt->attr.key);
}

static enum ts_status run_for(struct ts__host *host, const struct tir_stmt *stmt) {
  int64_t begin, extent, step = 1;
  TS_TRY(ts__host_eval_int(host, stmt->loop.min, &begin));
  TS_TRY(ts__host_eval_int(host, stmt->loop.extent, &extent));
  if (stmt->loop.step) TS_TRY(ts__host_eval_int(host, stmt->loop.step, &step));
  if (stmt->loop.kind != TIR_LOOP_SERIAL && stmt->loop.kind != TIR_LOOP_UNROLLED)
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "node %u: only serial loops are known in the host function", stmt->node);
  for (int64_t i = 0; i < extent && !host->has_returned; i++) {
    int64_t value = (int64_t)((uint64_t)begin + (uint64_t)i * (uint64_t)step);
    host->vars[stmt->loop.var->id] =
        (struct ts__host_value){.kind = TS__HOST_INT, .integer = value};
    TS_TRY(run_stmt(host, stmt->loop.body));
  }
  return TS_OK;
}

static enum ts_status run_if(struct ts__host *host, const struct tir_stmt *stmt) {
  int64_t condition;
  TS_TRY(ts__host_eval_int(host, stmt->branch.condition, &condition));
  if (condition) return run_stmt(host, stmt->branch.then_case);
  return stmt->branch.else_case ? run_stmt(host, stmt->branch.else_case) : TS_OK;
}

static enum ts_status run_evaluate(struct ts__host *host, const struct tir_stmt *stmt) {
  const struct tir_expr *expr = stmt->evaluate.value;
  if (expr->kind == TIR_INT_IMM) return TS_OK;
  if (expr->kind == TIR_CALL && strcmp(expr->call.op, "tirx.ret") == 0) {
    int64_t code = 0;
    if (expr->call.args.count) TS_TRY(ts__host_eval_int(host, expr->call.args.items[0], &code));
    host->has_returned = true;
    if (code == 0) return TS_OK;
    return ts__host_fail(host, TS_BAD_ARGUMENT, TS_DIAG_HOST_ASSERT, "returned %lld",
                         (long long)code);
  }
  if (expr->kind == TIR_CALL && strcmp(expr->call.op, "tirx.tvm_call_packed") == 0)
    return ts__host_call_packed(host, expr);
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, "node %u: unknown builtin %s",
                       expr->node,
                       expr->kind == TIR_CALL ? expr->call.op : tir_expr_kind_text(expr->kind));
}

static enum ts_status run_seq(struct ts__host *host, const struct tir_stmt *stmt) {
  for (size_t i = 0; i < stmt->seq.count && !host->has_returned; i++)
    TS_TRY(run_stmt(host, stmt->seq.items[i]));
  return TS_OK;
}

static enum ts_status run_stmt(struct ts__host *host, const struct tir_stmt *stmt) {
  if (stmt->place.file) host->place = stmt->place;
  switch (stmt->kind) {
  case TIR_SEQ: return run_seq(host, stmt);
  case TIR_ASSERT: return run_assert(host, stmt);
  case TIR_BIND: return ts__host_eval(host, stmt->bind.value, &host->vars[stmt->bind.var->id]);
  case TIR_DECL_BUFFER: return TS_OK;
  case TIR_ATTR: return run_attr(host, stmt);
  case TIR_FOR: return run_for(host, stmt);
  case TIR_IF: return run_if(host, stmt);
  case TIR_EVALUATE: return run_evaluate(host, stmt);
  default:
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "node %u: unknown statement %s", stmt->node,
                         tir_stmt_kind_text(stmt->kind));
  }
}

/* --- launches */

/* A value of tirx.kernel_launch_params: where the launch argument goes. */
static enum ts_status set_dimension(struct ts__host *host, struct ts_launch *launch,
                                    const char *tag, int64_t value) {
  uint32_t *extents = strncmp(tag, "blockIdx.", 9) == 0           ? launch->grid
                      : strncmp(tag, "threadIdx.", 10) == 0       ? launch->block
                      : strncmp(tag, "tir.cluster_dim_", 16) == 0 ? launch->cluster
                                                                  : NULL;
  if (strcmp(tag, "tirx.use_dyn_shared_memory") == 0) {
    if (value < 0)
      return ts__host_fail(host, TS_BAD_ARGUMENT, TS_DIAG_HOST_LAUNCH,
                           "the dynamic shared memory of the launch of %s is %lld bytes, expected "
                           "0 or more",
                           launch->function, (long long)value);
    launch->dynamic_shared_bytes = (uint64_t)value;
    return TS_OK;
  }
  char axis = tag[0] ? tag[strlen(tag) - 1] : 0;
  if (!extents || axis < 'x' || axis > 'z')
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "unknown launch parameter %s of %s", tag, launch->function);
  if (value < 0 || value > UINT32_MAX)
    return ts__host_fail(host, TS_BAD_ARGUMENT, TS_DIAG_HOST_LAUNCH,
                         "%s of the launch of %s is %lld, expected 1 or more", tag,
                         launch->function, (long long)value);
  extents[axis - 'x'] = (uint32_t)value;
  return TS_OK;
}

static enum ts_status convert_argument(struct ts__host *host, const struct ts_param *param,
                                       const struct ts__host_value *value,
                                       struct ts_launch_arg *arg) {
  static const enum ts__host_kind wanted[] = {[TS_PARAM_POINTER] = TS__HOST_ADDRESS,
                                              [TS_PARAM_TENSORMAP] = TS__HOST_MAP,
                                              [TS_PARAM_SCALAR] = TS__HOST_INT};
  static const enum ts_launch_arg_kind kinds[] = {[TS_PARAM_POINTER] = TS_LAUNCH_ARG_POINTER,
                                                  [TS_PARAM_TENSORMAP] = TS_LAUNCH_ARG_TENSORMAP,
                                                  [TS_PARAM_SCALAR] = TS_LAUNCH_ARG_SCALAR};
  enum ts_dtype dtype = (enum ts_dtype)param->dtype;
  arg->kind = kinds[param->kind];
  if (param->kind == TS_PARAM_SCALAR && value->kind == TS__HOST_FLOAT && ts_dtype_is_float(dtype)) {
    memcpy(&arg->value, &value->number, sizeof arg->value);
    arg->is_double = true;
    return TS_OK;
  }
  bool is_map_made = value->kind != TS__HOST_MAP || value->index != TS_NONE;
  if (value->kind != wanted[param->kind] || !is_map_made)
    return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "argument %s of the kernel is %s, expected %s", param->name,
                         ts__host_kind_text(value->kind), ts__host_kind_text(wanted[param->kind]));
  arg->value = param->kind == TS_PARAM_TENSORMAP ? value->index
               : param->kind == TS_PARAM_SCALAR ? ts_dtype_encoding(dtype, (uint64_t)value->integer)
                                                : (uint64_t)value->integer;
  return TS_OK;
}

static enum ts_status read_launch_sizes(struct ts__host *host, const struct ts__host_kernel *kernel,
                                        const struct tir_exprs *args, struct ts_launch *launch) {
  size_t formal_count = kernel->function->params.count;
  const struct tir_value *tags = tir_map_find(kernel->tir->attrs, "tirx.kernel_launch_params");
  size_t tag_count = tags && tags->kind == TIR_VALUE_ARRAY ? tags->array.count : 0;
  if (args->count != 1 + formal_count + tag_count)
    return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "launch of %s has %zu arguments, expected %zu", kernel->name,
                         args->count - 1, formal_count + tag_count);
  for (size_t i = 0; i < tag_count; i++) {
    const char *tag = tir_value_string(tags->array.items[i]);
    int64_t value;
    TS_TRY(ts__host_eval_int(host, args->items[1 + formal_count + i], &value));
    TS_TRY(set_dimension(host, launch, tag ? tag : "?", value));
  }
  return TS_OK;
}

static enum ts_status launch(struct ts__host *host, const struct ts__host_kernel *kernel,
                             const struct tir_exprs *args) {
  const struct ts_function *function = kernel->function;
  struct ts_launch launch = {.function = kernel->name,
                             .grid = {1, 1, 1},
                             .block = {1, 1, 1},
                             .arg_count = (uint32_t)function->params.count};
  for (int i = 0; i < 3; i++)
    launch.cluster[i] = function->cluster[i] ? function->cluster[i] : 1;
  int64_t is_cooperative = 0;
  tir_value_int(tir_map_find(kernel->tir->attrs, "use_cooperative_groups"), &is_cooperative);
  launch.is_cooperative = is_cooperative != 0;
  TS_TRY(read_launch_sizes(host, kernel, args, &launch));
  struct ts_launch_arg *values = ts_new_array(host->arena, struct ts_launch_arg, launch.arg_count);
  if (!values && launch.arg_count) return ts_fail_memory(host->ctx);
  for (uint32_t i = 0; i < launch.arg_count; i++) {
    struct ts__host_value value;
    TS_TRY(ts__host_eval(host, args->items[1 + i], &value));
    TS_TRY(convert_argument(host, &function->params.data[i], &value, &values[i]));
  }
  launch.args = values;
  if (ts_vec_push(&host->launches, host->ctx->allocator, launch)) return ts_fail_memory(host->ctx);
  return TS_OK;
}

/* Packed functions of the runtime. */
enum ts_status ts__host_call_packed(struct ts__host *host, const struct tir_expr *call) {
  const struct tir_exprs *args = &call->call.args;
  const char *name = args->count ? tir_expr_string(args->items[0]) : NULL;
  if (!name)
    return ts__host_fail(host, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                         "node %u: a packed call without a name", call->node);
  if (strcmp(name, "__tvm_set_device") == 0) return TS_OK;
  struct tir_exprs rest = {args->count - 1, args->items + 1};
  if (strcmp(name, "__tvm_tensormap_create_tiled") == 0)
    return ts__host_create_tensormap(host, &rest, false);
  if (strcmp(name, "__tvm_tensormap_create_im2col") == 0)
    return ts__host_create_tensormap(host, &rest, true);
  for (uint32_t i = 0; i < host->kernel_count; i++)
    if (strcmp(name, host->kernels[i].name) == 0) return launch(host, &host->kernels[i], args);
  return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                       "node %u: unknown packed function %s", call->node, name);
}

/* --- one run */

/* The host's parameters are self_handle, args, num_args, result. */
static enum ts_status bind_params(struct ts__host *host) {
  if (host->func->params.count != 4)
    return ts__host_fail(host, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                         "has %zu parameters, expected 4 (self_handle, args, num_args, result)",
                         host->func->params.count);
  const struct tir_var *const *params = host->func->params.items;
  host->vars[params[0]->id].kind = TS__HOST_RESULT;
  host->vars[params[1]->id].kind = TS__HOST_ARGS;
  host->vars[params[2]->id] =
      (struct ts__host_value){.kind = TS__HOST_INT, .integer = host->argument_count};
  host->vars[params[3]->id].kind = TS__HOST_RESULT;
  return TS_OK;
}

static enum ts_status write_plan(struct ts__host *host, struct ts_launch_plan *plan) {
  *plan = (struct ts_launch_plan){.tensormap_count = (uint32_t)host->tensormaps.count,
                                  .launch_count = (uint32_t)host->launches.count};
  plan->tensormaps = ts_new_array(host->arena, struct ts_tensormap, host->tensormaps.count + 1);
  plan->launches = ts_new_array(host->arena, struct ts_launch, host->launches.count + 1);
  if (!plan->tensormaps || !plan->launches) return ts_fail_memory(host->ctx);
  if (plan->tensormap_count)
    memcpy(plan->tensormaps, host->tensormaps.data,
           host->tensormaps.count * sizeof *plan->tensormaps);
  if (plan->launch_count)
    memcpy(plan->launches, host->launches.data, host->launches.count * sizeof *plan->launches);
  return TS_OK;
}

enum ts_status ts__host_run(struct ts__host *host, struct ts_launch_plan *plan) {
  host->vars = ts_new_array(host->arena, struct ts__host_value, host->module->var_count + 1);
  if (!host->vars) return ts_fail_memory(host->ctx);
  enum ts_status status = bind_params(host);
  if (status == TS_OK) status = run_stmt(host, host->func->body);
  if (status == TS_OK) status = write_plan(host, plan);
  ts_vec_free(&host->tensormaps, host->ctx->allocator);
  ts_vec_free(&host->launches, host->ctx->allocator);
  return status;
}
