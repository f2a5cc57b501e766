/* Case folders: reads the modules, lowers the device functions, and finds the host function's
 * parameters by following its packed arguments to the tensors it declares. */
#include "base/file.h"
#include "front/tvm/host_priv.h"
#include "front/tvm/lower_priv.h"

#include <string.h>

#define FILE_LIMIT_BYTES ((size_t)256 << 20)
enum { MAX_PARAMS = 1024 };

struct ts_tvm_case {
  const struct ts_allocator *allocator;
  struct ts_arena arena;
  struct ts_module *module;
  const struct tir_module *host;
  const struct tir_func *main;
  struct ts_tvm_param *params;
  uint32_t param_count;
  struct ts__host_kernel *kernels;
  uint32_t kernel_count;
};

static const char *join(struct ts_arena *arena, const char *folder, const char *name,
                        const char *suffix) {
  return ts_arena_printf(arena, "%s/%s%s", folder, name, suffix);
}

static bool has_module(const char *folder, const char *name) {
  struct ts_arena arena;
  ts_arena_init(&arena, &ts_allocator_libc);
  const char *plain = join(&arena, folder, name, ".json");
  const char *packed = join(&arena, folder, name, ".json.xz");
  bool found = (plain && ts_file_exists(plain)) || (packed && ts_file_exists(packed));
  ts_arena_free(&arena);
  return found;
}

bool ts_tvm_sniff(const char *folder) {
  return has_module(folder, "device") && has_module(folder, "host");
}

static enum ts_status load_module(struct ts_ctx *ctx, struct ts_arena *arena, const char *folder,
                                  const char *name, struct tir_module **out) {
  const char *path = join(arena, folder, name, ".json");
  if (path && !ts_file_exists(path)) path = join(arena, folder, name, ".json.xz");
  if (!path) return ts_fail_memory(ctx);
  if (!ts_file_exists(path))
    return ts_fail(ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(folder),
                   "no %s.json or %s.json.xz in the folder: a case needs device.json and host.json",
                   name, name);
  struct ts_file file;
  TS_TRY(ts_file_read(ctx, path, FILE_LIMIT_BYTES, &file));
  enum ts_status status = tir_module_load(ctx, arena, path, file.data, file.size_bytes, out);
  ts_file_free(&file);
  return status;
}

/* --- parameters of the host function */

struct search {
  struct ts_ctx *ctx;
  struct ts_tvm_case *tvm;
  const struct tir_var *args;
  /* Per variable of the host module: 1 + parameter it is made from (its handle, data or value). */
  uint32_t *origin;
  bool *is_data; /* per variable: a tensor's device pointer */
  uint32_t param_count;
  enum ts_status status;
};

/* 1 + the parameter that an expression is made from, or 0. */
static uint32_t find_origin(struct search *search, const struct tir_expr *expr) {
  int64_t index;
  switch (expr->kind) {
  case TIR_VAR: return search->origin[expr->var->id];
  case TIR_SELECT: return find_origin(search, expr->select.true_value);
  case TIR_CAST: return find_origin(search, expr->cast.value);
  case TIR_CALL:
    if (expr->call.args.count == 0) return 0;
    if (strcmp(expr->call.op, "tirx.tvm_struct_get") == 0 && expr->call.args.count == 3 &&
        expr->call.args.items[0]->kind == TIR_VAR &&
        expr->call.args.items[0]->var == search->args &&
        tir_expr_int(expr->call.args.items[1], &index))
      return index >= 0 && index < MAX_PARAMS ? (uint32_t)index + 1 : 0;
    if (strcmp(expr->call.op, "tirx.isnullptr") == 0) return 0;
    if (strcmp(expr->call.op, "tirx.if_then_else") == 0 && expr->call.args.count == 3)
      return find_origin(search, expr->call.args.items[1]);
    return find_origin(search, expr->call.args.items[0]);
  default: return 0;
  }
}

/* Whether the expression gives a tensor's data pointer (not its shape, strides or handle). */
static bool is_data_pointer(const struct tir_expr *expr) {
  enum { FIELD_DATA = 1 };
  int64_t field;
  if (expr->kind == TIR_SELECT)
    return is_data_pointer(expr->select.true_value) || is_data_pointer(expr->select.false_value);
  if (expr->kind != TIR_CALL) return false;
  const struct tir_exprs *args = &expr->call.args;
  if (strcmp(expr->call.op, "tirx.tvm_struct_get") == 0)
    return args->count == 3 && tir_expr_int(args->items[2], &field) && field == FIELD_DATA;
  if (strcmp(expr->call.op, "tirx.if_then_else") == 0 && args->count == 3)
    return is_data_pointer(args->items[1]) || is_data_pointer(args->items[2]);
  return false;
}

static enum ts_status describe_tensor(struct search *search, const struct tir_buffer *buffer,
                                      struct ts_tvm_param *param) {
  struct ts_arena *arena = &search->tvm->arena;
  size_t rank = buffer->shape.count;
  int64_t *shape = ts_new_array(arena, int64_t, rank + 1);
  const char **symbol = ts_new_array(arena, const char *, rank + 1);
  if (!shape || !symbol) return ts_fail_memory(search->ctx);
  for (size_t i = 0; i < rank; i++) {
    const struct tir_expr *size = buffer->shape.items[i];
    if (!tir_expr_int(size, &shape[i])) shape[i] = -1;
    if (size->kind == TIR_VAR) symbol[i] = size->var->name;
  }
  param->name = buffer->data->name;
  param->is_tensor = true;
  param->dtype = (uint8_t)buffer->dtype.elem;
  param->rank = (uint32_t)rank;
  param->shape = shape;
  param->symbol = symbol;
  return TS_OK;
}

/* A scalar is bound to its value in the packed arguments, through a cast to its type; a float also
 * by way of a choice, since it may be given as an integer. */
static bool is_scalar_value(const struct search *search, const struct tir_expr *expr) {
  enum { FIELD_ANY_VALUE = 15 };
  int64_t field;
  while (expr->kind == TIR_SELECT || expr->kind == TIR_CAST)
    expr = expr->kind == TIR_SELECT ? expr->select.true_value : expr->cast.value;
  return expr->kind == TIR_CALL && strcmp(expr->call.op, "tirx.tvm_struct_get") == 0 &&
         expr->call.args.items[0]->kind == TIR_VAR &&
         expr->call.args.items[0]->var == search->args &&
         tir_expr_int(expr->call.args.items[2], &field) && field == FIELD_ANY_VALUE;
}

static void note_bind(struct search *search, const struct tir_stmt *stmt) {
  const struct tir_var *var = stmt->bind.var;
  uint32_t origin = find_origin(search, stmt->bind.value);
  search->origin[var->id] = origin;
  search->is_data[var->id] = is_data_pointer(stmt->bind.value);
  if (origin == 0) return;
  if (origin > search->param_count) search->param_count = origin;
  struct ts_tvm_param *param = &search->tvm->params[origin - 1];
  if (var->dtype.elem == TS_DTYPE_ptr || param->is_tensor) return;
  if (!is_scalar_value(search, stmt->bind.value)) return;
  param->name = var->name;
  param->dtype = (uint8_t)var->dtype.elem;
}

static void search_stmt(struct search *search, const struct tir_stmt *stmt) {
  switch (stmt->kind) {
  case TIR_SEQ:
    for (size_t i = 0; i < stmt->seq.count; i++)
      search_stmt(search, stmt->seq.items[i]);
    break;
  case TIR_ATTR: search_stmt(search, stmt->attr.body); break;
  case TIR_BIND: note_bind(search, stmt); break;
  case TIR_DECL_BUFFER: {
    const struct tir_buffer *buffer = stmt->decl.buffer;
    uint32_t origin = search->origin[buffer->data->id];
    if (origin && search->is_data[buffer->data->id] && search->status == TS_OK)
      search->status = describe_tensor(search, buffer, &search->tvm->params[origin - 1]);
    break;
  }
  default: break;
  }
}

static enum ts_status find_params(struct ts_ctx *ctx, struct ts_tvm_case *tvm) {
  struct search search = {.ctx = ctx, .tvm = tvm};
  if (tvm->main->params.count != 4)
    return ts_fail(ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, TS_FILE_PLACE(tvm->host->path),
                   "host function %s has %zu parameters, expected 4 (self_handle, args, num_args, "
                   "result)",
                   tvm->main->name, tvm->main->params.count);
  search.args = tvm->main->params.items[1];
  search.origin = ts_new_array(&tvm->arena, uint32_t, tvm->host->var_count + 1);
  search.is_data = ts_new_array(&tvm->arena, bool, tvm->host->var_count + 1);
  tvm->params = ts_new_array(&tvm->arena, struct ts_tvm_param, MAX_PARAMS);
  if (!search.origin || !search.is_data || !tvm->params) return ts_fail_memory(ctx);
  search_stmt(&search, tvm->main->body);
  TS_TRY(search.status);
  tvm->param_count = search.param_count;
  for (uint32_t i = 0; i < tvm->param_count; i++)
    if (!tvm->params[i].name)
      return ts_fail(ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, TS_FILE_PLACE(tvm->host->path),
                     "host function %s: cannot tell what argument %u is", tvm->main->name, i);
  return TS_OK;
}

/* --- which tensors kernels read and write */

enum { ACCESS_READ = 1, ACCESS_WRITE = 2 };

/* Accesses per kernel parameter. Pointers derived from a parameter's register count as it. */
static enum ts_status find_accesses(struct ts_ctx *ctx, struct ts_arena *arena,
                                    const struct ts_function *function, uint8_t *accesses) {
  uint32_t *origin = ts_new_array(arena, uint32_t, function->regs.count + 1);
  if (!origin) return ts_fail_memory(ctx);
  for (uint32_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE) origin[function->params.data[i].reg] = i + 1;
  for (uint32_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    uint8_t kinds = 0;
    switch (insn->op) {
    case TS_OP_ld_global:
    case TS_OP_cp_async:
    case TS_OP_bulk_load:
    case TS_OP_tma_load:
    case TS_OP_tma_load_multicast:
    case TS_OP_tma_load_im2col: kinds = ACCESS_READ; break;
    case TS_OP_st_global: kinds = ACCESS_WRITE; break;
    case TS_OP_bulk_store:
    case TS_OP_tma_store:
      kinds = ts_insn_attr(function, insn, TS_ATTR_reduce, 0) ? ACCESS_READ | ACCESS_WRITE
                                                              : ACCESS_WRITE;
      break;
    case TS_OP_atom_global:
    case TS_OP_atom_global_ret: kinds = ACCESS_READ | ACCESS_WRITE; break;
    default: break;
    }
    for (uint32_t j = 0; j < insn->operand_count; j++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, j);
      if (operand->kind == TS_OPERAND_TENSORMAP) {
        accesses[operand->index] |= kinds;
      } else if (operand->kind == TS_OPERAND_REG && origin[operand->index]) {
        uint32_t param = origin[operand->index] - 1;
        accesses[param] |= kinds;
        bool is_pointer = insn->dst != TS_NONE && !kinds &&
                          function->regs.data[insn->dst].type.dtype == TS_DTYPE_ptr;
        if (is_pointer) origin[insn->dst] = param + 1;
      }
    }
  }
  return TS_OK;
}

/* 1 + the host parameter behind a launch argument: a data pointer or a tensor map made from one. */
static uint32_t argument_origin(const uint32_t *origin, const struct tir_expr *expr) {
  if (expr->kind == TIR_VAR) return origin[expr->var->id];
  if (expr->kind == TIR_CALL && expr->call.args.count)
    return argument_origin(origin, expr->call.args.items[0]);
  return expr->kind == TIR_BUFFER_LOAD ? origin[expr->load.buffer->data->id] : 0;
}

struct flow {
  struct ts_ctx *ctx;
  struct ts_tvm_case *tvm;
  struct search *search;
  enum ts_status status;
};

static enum ts_status flow_launch(struct flow *flow, const struct tir_exprs *args,
                                  const struct ts__host_kernel *kernel) {
  size_t count = kernel->function->params.count;
  uint8_t *accesses = ts_new_array(&flow->tvm->arena, uint8_t, count + 1);
  if (!accesses) return ts_fail_memory(flow->ctx);
  TS_TRY(find_accesses(flow->ctx, &flow->tvm->arena, kernel->function, accesses));
  for (size_t i = 0; i < count && i + 1 < args->count; i++) {
    uint32_t origin = argument_origin(flow->search->origin, args->items[i + 1]);
    if (origin == 0) continue;
    struct ts_tvm_param *param = &flow->tvm->params[origin - 1];
    param->is_read |= (accesses[i] & ACCESS_READ) != 0;
    param->is_written |= (accesses[i] & ACCESS_WRITE) != 0;
  }
  return TS_OK;
}

static void flow_call(struct flow *flow, const struct tir_exprs *args) {
  const char *name = args->count ? tir_expr_string(args->items[0]) : NULL;
  if (!name) return;
  uint32_t *origin = flow->search->origin;
  bool is_map = strncmp(name, "__tvm_tensormap_create_", 23) == 0;
  if (is_map && args->count > 4 && args->items[1]->kind == TIR_VAR)
    origin[args->items[1]->var->id] = argument_origin(origin, args->items[4]);
  for (uint32_t i = 0; i < flow->tvm->kernel_count && flow->status == TS_OK; i++)
    if (strcmp(name, flow->tvm->kernels[i].name) == 0)
      flow->status = flow_launch(flow, args, &flow->tvm->kernels[i]);
}

static void flow_stmt(struct flow *flow, const struct tir_stmt *stmt) {
  switch (stmt->kind) {
  case TIR_SEQ:
    for (size_t i = 0; i < stmt->seq.count; i++)
      flow_stmt(flow, stmt->seq.items[i]);
    break;
  case TIR_ATTR: flow_stmt(flow, stmt->attr.body); break;
  case TIR_FOR: flow_stmt(flow, stmt->loop.body); break;
  case TIR_IF:
    flow_stmt(flow, stmt->branch.then_case);
    if (stmt->branch.else_case) flow_stmt(flow, stmt->branch.else_case);
    break;
  case TIR_BIND: note_bind(flow->search, stmt); break;
  case TIR_EVALUATE:
    if (stmt->evaluate.value->kind == TIR_CALL &&
        strcmp(stmt->evaluate.value->call.op, "tirx.tvm_call_packed") == 0)
      flow_call(flow, &stmt->evaluate.value->call.args);
    break;
  default: break;
  }
}

static enum ts_status find_flow(struct ts_ctx *ctx, struct ts_tvm_case *tvm) {
  struct search search = {.ctx = ctx, .tvm = tvm, .args = tvm->main->params.items[1]};
  struct flow flow = {.ctx = ctx, .tvm = tvm, .search = &search};
  search.origin = ts_new_array(&tvm->arena, uint32_t, tvm->host->var_count + 1);
  search.is_data = ts_new_array(&tvm->arena, bool, tvm->host->var_count + 1);
  if (!search.origin || !search.is_data) return ts_fail_memory(ctx);
  flow_stmt(&flow, tvm->main->body);
  return flow.status;
}

/* --- opening */

static enum ts_status find_main(struct ts_ctx *ctx, struct ts_tvm_case *tvm) {
  for (size_t i = 0; i < tvm->host->func_count; i++) {
    int64_t is_entry = 0;
    const struct tir_func *func = tvm->host->funcs[i];
    tir_value_int(tir_map_find(func->attrs, "tirx.is_entry_func"), &is_entry);
    if (is_entry || tvm->host->func_count == 1) tvm->main = func;
  }
  if (tvm->main) return TS_OK;
  return ts_fail(ctx, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, TS_FILE_PLACE(tvm->host->path),
                 "no function of the host module has tirx.is_entry_func");
}

static enum ts_status list_kernels(struct ts_ctx *ctx, struct ts_tvm_case *tvm,
                                   const struct tir_module *device) {
  tvm->kernels = ts_new_array(&tvm->arena, struct ts__host_kernel, device->func_count + 1);
  if (!tvm->kernels) return ts_fail_memory(ctx);
  for (size_t i = 0; i < device->func_count; i++) {
    const char *name = device->funcs[i]->name;
    const struct ts_function *function = ts_module_find(tvm->module, name);
    if (!function || function->params.count != device->funcs[i]->params.count)
      return ts_fail(ctx, TS_INTERNAL, TS_DIAG_INTERNAL, TS_FILE_PLACE(device->path),
                     "kernel %s was not lowered with its parameters", name);
    tvm->kernels[tvm->kernel_count++] = (struct ts__host_kernel){name, function, device->funcs[i]};
  }
  return TS_OK;
}

static enum ts_status fill_case(struct ts_ctx *ctx, const char *folder,
                                const struct ts_tvm_options *options, struct ts_tvm_case *tvm) {
  struct tir_module *device, *host;
  TS_TRY(load_module(ctx, &tvm->arena, folder, "device", &device));
  TS_TRY(load_module(ctx, &tvm->arena, folder, "host", &host));
  tvm->host = host;
  tvm->module = ts_module_new(ctx->allocator);
  if (!tvm->module) return ts_fail_memory(ctx);
  TS_TRY(ts__tvm_lower_device(ctx, device, options, tvm->module));
  TS_TRY(find_main(ctx, tvm));
  TS_TRY(find_params(ctx, tvm));
  TS_TRY(list_kernels(ctx, tvm, device));
  return find_flow(ctx, tvm);
}

enum ts_status ts_tvm_open(struct ts_ctx *ctx, const char *folder,
                           const struct ts_tvm_options *options, struct ts_tvm_case **out) {
  *out = NULL;
  struct ts_tvm_case *tvm = ctx->allocator->resize(ctx->allocator->user, NULL, 0, sizeof *tvm);
  if (!tvm) return ts_fail_memory(ctx);
  memset(tvm, 0, sizeof *tvm);
  tvm->allocator = ctx->allocator;
  ts_arena_init(&tvm->arena, ctx->allocator);
  enum ts_status status = fill_case(ctx, folder, options, tvm);
  if (status == TS_OK)
    *out = tvm;
  else
    ts_tvm_close(tvm);
  return status;
}

void ts_tvm_close(struct ts_tvm_case *tvm) {
  if (!tvm) return;
  ts_module_free(tvm->module);
  ts_arena_free(&tvm->arena);
  tvm->allocator->resize(tvm->allocator->user, tvm, sizeof *tvm, 0);
}

const struct ts_module *ts_tvm_module(const struct ts_tvm_case *tvm) { return tvm->module; }
uint32_t ts_tvm_param_count(const struct ts_tvm_case *tvm) { return tvm->param_count; }
const struct ts_tvm_param *ts_tvm_param(const struct ts_tvm_case *tvm, uint32_t index) {
  return index < tvm->param_count ? &tvm->params[index] : NULL;
}

enum ts_status ts_tvm_plan(struct ts_ctx *ctx, const struct ts_tvm_case *tvm,
                           const struct ts_tvm_argument *arguments, uint32_t argument_count,
                           struct ts_arena *arena, struct ts_launch_plan *plan) {
  struct ts__host host = {.ctx = ctx,
                          .arena = arena,
                          .module = tvm->host,
                          .func = tvm->main,
                          .params = tvm->params,
                          .param_count = tvm->param_count,
                          .arguments = arguments,
                          .argument_count = argument_count,
                          .kernels = tvm->kernels,
                          .kernel_count = tvm->kernel_count};
  if (host.param_count > argument_count) host.param_count = argument_count;
  return ts__host_run(&host, plan);
}
