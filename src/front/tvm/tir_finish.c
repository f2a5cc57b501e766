/* Completing a node: derived members, rules of form, and the value that stands for it. */
#include "front/tvm/tvm_priv.h"

#include <string.h>

static enum ts_status fail_form(struct tir__loader *loader, const char *fault) {
  return tir__fail_at(&loader->reader, loader->reader.node_at, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                      "%s", fault);
}

static const char *interned(struct tir__loader *loader, const char *text) {
  return ts_intern(&loader->reader.strings, text, strlen(text));
}

/* ---- Expressions and what they refer to ---- */

/* TVM writes the scope of a plain global pointer as "global" or as nothing. */
static enum ts_status finish_variable(struct tir__loader *loader, struct tir__var_node *node) {
  struct tir_var *var = &node->var;
  const char *global = interned(loader, "global"), *nothing = interned(loader, "");
  if (!global || !nothing) return ts_fail_memory(loader->reader.ctx);
  var->id = loader->var_count++;
  var->node = node->expr.node;
  var->dtype = node->expr.dtype;
  var->elem_dtype = (struct tir_dtype){TS_DTYPE_NONE, 1, nothing};
  node->expr.var = var;
  if (var->type->kind != TIR_POINTER_TYPE) return TS_OK;
  var->elem_dtype = var->type->element->dtype;
  var->scope = var->type->scope[0] ? var->type->scope : global;
  return TS_OK;
}

static enum ts_status finish_expr(struct tir__loader *loader, enum tir_node_kind kind,
                                  struct tir_expr *expr, uint32_t node) {
  expr->kind = (enum tir_expr_kind)tir__node_info(kind)->subkind;
  expr->node = node;
  if (kind == TIR_NODE_VAR || kind == TIR_NODE_SIZE_VAR) {
    TS_TRY(finish_variable(loader, (struct tir__var_node *)(void *)expr));
  }
  const char *fault = tir__check_expr(expr);
  return fault ? fail_form(loader, fault) : TS_OK;
}

static enum ts_status finish_stmt(struct tir__loader *loader, enum tir_node_kind kind,
                                  struct tir_stmt *stmt, uint32_t node) {
  stmt->kind = (enum tir_stmt_kind)tir__node_info(kind)->subkind;
  stmt->node = node;
  const char *fault = tir__check_stmt(stmt);
  return fault ? fail_form(loader, fault) : TS_OK;
}

static enum ts_status finish_buffer(struct tir__loader *loader, struct tir_buffer *buffer,
                                    uint32_t node) {
  buffer->id = loader->buffer_count++;
  buffer->node = node;
  buffer->scope = buffer->data->scope ? buffer->data->scope : interned(loader, "global");
  if (!buffer->scope) return ts_fail_memory(loader->reader.ctx);
  const char *fault = tir__check_buffer(buffer);
  return fault ? fail_form(loader, fault) : TS_OK;
}

static enum ts_status finish_type(struct tir__loader *loader, enum tir_node_kind kind,
                                  struct tir_type *type, uint32_t node) {
  type->kind = (enum tir_type_kind)tir__node_info(kind)->subkind;
  type->node = node;
  if (type->kind == TIR_PRIM_TYPE) return TS_OK;
  const char *text = interned(loader, type->kind == TIR_POINTER_TYPE ? "handle" : "");
  if (!text) return ts_fail_memory(loader->reader.ctx);
  enum ts_dtype elem = type->kind == TIR_POINTER_TYPE ? TS_DTYPE_ptr : TS_DTYPE_NONE;
  type->dtype = (struct tir_dtype){elem, 1, text};
  return TS_OK;
}

/* ---- Functions and modules ---- */

static void finish_function(struct tir__func_node *node, uint32_t index) {
  node->func.node = index;
  node->func.name = tir_value_string(tir_map_find(node->func.attrs, "global_symbol"));
  node->func.buffer_map_count = node->buffer_map.count;
  node->func.buffer_map = node->buffer_map.items;
}

/* A function without a name of its own takes that of its GlobalVar. One module per graph: its list
 * of functions is a copy, and copies must not multiply. */
static enum ts_status finish_module(struct tir__loader *loader, struct tir__module_node *node) {
  if (loader->has_module) return fail_form(loader, "a second ir.IRModule in one graph");
  loader->has_module = true;
  const struct tir_map *map = node->function_map;
  const struct tir_func **funcs = ts_new_array(loader->arena, const struct tir_func *, map->count);
  struct tir_func *copies = ts_new_array(loader->arena, struct tir_func, map->count);
  if (map->count && (!funcs || !copies)) return ts_fail_memory(loader->reader.ctx);
  for (size_t i = 0; i < map->count; i++) {
    const struct tir_value *key = map->entries[i].key, *value = map->entries[i].value;
    if (key->kind != TIR_VALUE_GLOBAL_VAR || value->kind != TIR_VALUE_FUNC) {
      return fail_form(loader, "functions must map ir.GlobalVar to tirx.PrimFunc");
    }
    copies[i] = *value->func;
    if (!copies[i].name) copies[i].name = key->string;
    funcs[i] = &copies[i];
  }
  node->module.func_count = map->count;
  node->module.funcs = funcs;
  return TS_OK;
}

/* ---- The value ---- */

enum ts_status tir__finish(struct tir__loader *loader, enum tir_node_kind kind, void *object,
                           struct tir_value *value) {
  uint32_t node = value->node;
  switch (value->kind) {
  case TIR_VALUE_EXPR: value->expr = object; return finish_expr(loader, kind, object, node);
  case TIR_VALUE_STMT: value->stmt = object; return finish_stmt(loader, kind, object, node);
  case TIR_VALUE_TYPE: value->type = object; return finish_type(loader, kind, object, node);
  case TIR_VALUE_BUFFER: value->buffer = object; return finish_buffer(loader, object, node);
  case TIR_VALUE_RANGE:
    value->range = object;
    ((struct tir_range *)object)->node = node;
    break;
  case TIR_VALUE_REGION:
    value->region = object;
    ((struct tir_region *)object)->node = node;
    break;
  case TIR_VALUE_ITER_VAR:
    value->iter_var = object;
    ((struct tir_iter_var *)object)->node = node;
    break;
  case TIR_VALUE_LAYOUT:
    value->layout = object;
    ((struct tir_layout *)object)->node = node;
    ((struct tir_layout *)object)->is_fragment = kind == TIR_NODE_FRAGMENT;
    break;
  case TIR_VALUE_PLACE:
    value->place = object;
    loader->reader.source = *value->place;
    break;
  case TIR_VALUE_GLOBAL_VAR:
    value->string = ((struct tir__global_var *)object)->name;
    loader->reader.function = value->string;
    break;
  case TIR_VALUE_ATTRS: value->map = ((struct tir__attrs *)object)->map; break;
  case TIR_VALUE_TARGET:
    value->target = object;
    ((struct tir_target *)object)->node = node;
    break;
  case TIR_VALUE_FUNC:
    value->func = &((struct tir__func_node *)object)->func;
    finish_function(object, node);
    break;
  case TIR_VALUE_MODULE:
    value->module = &((struct tir__module_node *)object)->module;
    return finish_module(loader, object);
  default: break;
  }
  return TS_OK;
}
