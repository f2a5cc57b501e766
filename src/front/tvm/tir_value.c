/* Small questions to the tree. */
#include "front/tvm/tir.h"

#include <string.h>

const struct tir_func *tir_module_find(const struct tir_module *module, const char *name) {
  for (size_t i = 0; i < module->func_count; i++) {
    if (strcmp(module->funcs[i]->name, name) == 0) return module->funcs[i];
  }
  return NULL;
}

const struct tir_value *tir_map_find(const struct tir_map *map, const char *name) {
  for (size_t i = 0; i < map->count; i++) {
    const struct tir_value *key = map->entries[i].key;
    if (key->kind == TIR_VALUE_STRING && strcmp(key->string, name) == 0) {
      return map->entries[i].value;
    }
  }
  return NULL;
}

const struct tir_expr *tir_value_expr(const struct tir_value *value) {
  return value && value->kind == TIR_VALUE_EXPR ? value->expr : NULL;
}

bool tir_value_int(const struct tir_value *value, int64_t *out) {
  const struct tir_expr *expr = tir_value_expr(value);
  if (expr) return tir_expr_int(expr, out);
  if (value && value->kind == TIR_VALUE_INT) {
    *out = value->integer;
  } else if (value && value->kind == TIR_VALUE_BOOL) {
    *out = value->boolean;
  } else {
    return false;
  }
  return true;
}

const char *tir_value_string(const struct tir_value *value) {
  const struct tir_expr *expr = tir_value_expr(value);
  if (expr) return tir_expr_string(expr);
  return value && value->kind == TIR_VALUE_STRING ? value->string : NULL;
}
