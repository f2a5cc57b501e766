/* The lowering of a device module: functions, their parameters and attributes. */
#include "front/tvm/lower_priv.h"

#include <string.h>

static struct ts__value param_value(struct ts__lower *lower, const struct tir_var *var,
                                    uint32_t param) {
  struct ts__value value = {.operand = ts_build_param_reg(lower->build, param),
                            .type = ts__lower_type(lower, var->dtype)};
  return value;
}

static void add_param(struct ts__lower *lower, const struct tir_var *var) {
  struct ts__storage *storage = &lower->storage[var->id];
  if (var->dtype.elem != TS_DTYPE_ptr) {
    struct ts_type type = ts__lower_type(lower, var->dtype);
    uint32_t param =
        ts_build_param(lower->build, TS_PARAM_SCALAR, var->name, (enum ts_dtype)type.dtype);
    lower->vars[var->id] = param_value(lower, var, param);
    return;
  }
  if (var->scope && !strcmp(var->scope, "grid_constant")) {
    storage->kind = TS__STORAGE_TENSORMAP;
    storage->index = ts_build_param(lower->build, TS_PARAM_TENSORMAP, var->name, TS_DTYPE_u8);
    return;
  }
  if (!var->scope || strcmp(var->scope, "global")) {
    ts__lower_unknown(lower, "the scope '%s' of parameter '%s'", var->scope ? var->scope : "",
                      var->name);
    return;
  }
  storage->kind = TS__STORAGE_GLOBAL;
  storage->type = ts__lower_type(lower, var->elem_dtype);
  storage->index =
      ts_build_param(lower->build, TS_PARAM_POINTER, var->name, (enum ts_dtype)storage->type.dtype);
  storage->operand = ts_build_param_reg(lower->build, storage->index);
}

/* --- function attributes */

static void check_attrs(struct ts__lower *lower) {
  /* What the host function uses or repeats, and facts that the body states too. */
  static const char *const known[] = {"calling_conv",
                                      "cluster_dims",
                                      "dyn_shared_memory_buf",
                                      "global_symbol",
                                      "target",
                                      "thread_extent",
                                      "tirx.is_global_func",
                                      "tirx.kernel_launch_params",
                                      "tirx.noalias",
                                      "tl.non_restrict_params",
                                      "tl.readonly_param_indices",
                                      "tl.smem_alignment_map",
                                      "has_cuda_pdl_sync",
                                      "has_cuda_pdl_trigger",
                                      "use_cooperative_groups"};
  const struct tir_map *attrs = lower->func->attrs;
  for (size_t i = 0; i < attrs->count; i++) {
    const char *key = tir_value_string(attrs->entries[i].key);
    bool is_known = false;
    for (size_t k = 0; k < sizeof known / sizeof *known && key; k++)
      is_known |= !strcmp(key, known[k]);
    if (!is_known) ts__lower_unknown(lower, "the function attribute '%s'", key ? key : "?");
  }
}

static void set_arch(struct ts__lower *lower) {
  const struct tir_value *target = tir_map_find(lower->func->attrs, "target");
  if (!target || target->kind != TIR_VALUE_TARGET) return;
  if (strcmp(target->target->kind, "cuda")) {
    ts__lower_unknown(lower, "the target '%s'", target->target->kind);
    return;
  }
  const char *arch = tir_value_string(tir_map_find(target->target->attrs, "arch"));
  if (!arch) return;
  arch = ts_intern(&lower->module->names, arch, strlen(arch));
  if (!arch) lower->status = ts_fail_memory(lower->ctx);
  ts_build_function(lower->build)->arch = arch;
}

static void set_extents(struct ts__lower *lower) {
  static const char *const tags[3] = {"threadIdx.x", "threadIdx.y", "threadIdx.z"};
  struct ts_function *function = ts_build_function(lower->build);
  const struct tir_value *extents = tir_map_find(lower->func->attrs, "thread_extent");
  const struct tir_value *cluster = tir_map_find(lower->func->attrs, "cluster_dims");
  int64_t extent;
  for (size_t i = 0; i < 3; i++) {
    function->cluster[i] = 1;
    if (extents && extents->kind == TIR_VALUE_MAP &&
        tir_value_int(tir_map_find(extents->map, tags[i]), &extent) && extent > 0 &&
        extent <= UINT32_MAX) {
      function->thread_extent[i] = (uint32_t)extent;
    }
    if (!cluster || cluster->kind != TIR_VALUE_ARRAY || i >= cluster->array.count) continue;
    if (!tir_value_int(cluster->array.items[i], &extent) || extent < 1 || extent > 16) {
      ts__lower_unknown(lower, "this form of cluster_dims");
      return;
    }
    function->cluster[i] = (uint32_t)extent;
  }
}

/* --- functions */

static enum ts_status finish(struct ts__lower *lower) {
  struct ts_function *function;
  if (lower->status != TS_OK) {
    ts_build_abandon(lower->build);
    return lower->status;
  }
  TS_TRY(ts_build_end(lower->build, &function));
  TS_TRY(ts_pass_promote_arrays(lower->ctx, function));
  TS_TRY(ts_pass_contract(lower->ctx, function));
  TS_TRY(ts_pass_drop_dead(lower->ctx, function));
  return ts_analyze_uniform(lower->ctx, function);
}

static enum ts_status lower_function(struct ts__lower *lower) {
  const struct tir_func *func = lower->func;
  uint32_t var_count = lower->device->var_count + 1;
  lower->vars = ts_new_array(lower->scratch, struct ts__value, var_count);
  lower->counters = ts_new_array(lower->scratch, struct ts__value, var_count);
  lower->distances = ts_new_array(lower->scratch, int64_t, var_count);
  lower->storage = ts_new_array(lower->scratch, struct ts__storage, var_count);
  if (!lower->vars || !lower->counters || !lower->distances || !lower->storage)
    return ts_fail_memory(lower->ctx);
  lower->build = ts_build_begin(lower->ctx, lower->module, func->name);
  if (!lower->build) return TS_NO_MEMORY;
  ts_build_place(lower->build, lower->place);
  ts_build_function(lower->build)->fast_math = lower->fast_math;
  check_attrs(lower);
  set_arch(lower);
  set_extents(lower);
  if (func->buffer_map_count) ts__lower_unknown(lower, "a device function with a buffer map");
  for (size_t i = 0; i < func->params.count; i++)
    add_param(lower, func->params.items[i]);
  if (lower->status == TS_OK) ts__lower_stmt(lower, func->body);
  return finish(lower);
}

enum ts_status ts__tvm_lower_device(struct ts_ctx *ctx, const struct tir_module *device,
                                    const struct ts_tvm_options *options,
                                    struct ts_module *module) {
  for (size_t i = 0; i < device->func_count; i++) {
    struct ts_arena scratch;
    ts_arena_init(&scratch, ctx->allocator);
    struct ts__lower lower = {.ctx = ctx,
                              .device = device,
                              .func = device->funcs[i],
                              .module = module,
                              .scratch = &scratch,
                              .place = device->funcs[i]->place,
                              .fast_math = options && options->fast_math};
    enum ts_status status = lower_function(&lower);
    ts_arena_free(&scratch);
    TS_TRY(status);
  }
  return TS_OK;
}
