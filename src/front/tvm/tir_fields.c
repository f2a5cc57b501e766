/* The value of one field: literals, references to earlier nodes, and typed views of arrays. */
#include "front/tvm/tvm_priv.h"

#include <string.h>

static enum ts_status fail_type(struct tir__loader *loader, size_t at, const char *expected,
                                const struct tir_value *found) {
  return tir__fail_at(&loader->reader, at, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                      "expected %s, found %s (node %u)", expected,
                      tir_node_kind_text(found->node_kind), (unsigned)found->node);
}

/* ---- References ---- */

static enum ts_status read_any_index(struct tir__loader *loader, const char *expected,
                                     struct tir__loaded **out) {
  struct tir__reader *reader = &loader->reader;
  char c = tir__peek(reader);
  size_t start = reader->at;
  int64_t index;
  if (strchr("\"{[tfn", c) && reader->at < reader->size) {
    return tir__fail_at(reader, start, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                        "expected the index of %s, found %s", expected, tir__found(reader));
  }
  TS_TRY(tir__read_int(reader, &index));
  if (index < 0 || (uint64_t)index >= loader->nodes.count) {
    return tir__fail_at(reader, start, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                        "refers to node %lld, but children stand before their parents (a cycle, a "
                        "forward reference or a damaged file)",
                        (long long)index);
  }
  *out = &loader->nodes.data[index];
  return TS_OK;
}

enum ts_status tir__read_index(struct tir__loader *loader, const char *expected,
                               struct tir__loaded **out) {
  TS_TRY(read_any_index(loader, expected, out));
  if ((*out)->depth > loader->depth) loader->depth = (*out)->depth;
  uint32_t sum = loader->visit_count + (*out)->visit_count; /* both at most the limit + 1 */
  loader->visit_count = sum < TIR_VISIT_LIMIT ? sum : TIR_VISIT_LIMIT;
  return TS_OK;
}

static bool is_variable(const struct tir_value *value) {
  return value->kind == TIR_VALUE_EXPR &&
         (value->expr->kind == TIR_VAR || value->expr->kind == TIR_SIZE_VAR);
}

/* The node that a field of that kind refers to; *out is NULL when it is None and may be. */
static enum ts_status read_node_of(struct tir__loader *loader, enum tir__field_kind field,
                                   enum tir_value_kind wanted, bool is_optional,
                                   const struct tir_value **out) {
  const char *expected = tir__field_kind_text(field);
  struct tir__loaded *loaded;
  tir__peek(&loader->reader);
  size_t start = loader->reader.at;
  TS_TRY(tir__read_index(loader, expected, &loaded));
  const struct tir_value *value = loaded->value;
  *out = value;
  if (is_optional && value->kind == TIR_VALUE_NONE) {
    *out = NULL;
    return TS_OK;
  }
  bool is_wanted = value->kind == wanted;
  if (field == TIR__FIELD_VAR) is_wanted = is_variable(value);
  if (field == TIR__FIELD_BLOCK) is_wanted = is_wanted && value->stmt->kind == TIR_BLOCK;
  return is_wanted ? TS_OK : fail_type(loader, start, expected, value);
}

static enum ts_status read_place(struct tir__loader *loader, struct ts_source_place *to) {
  const struct tir_value *value;
  TS_TRY(read_node_of(loader, TIR__FIELD_PLACE, TIR_VALUE_PLACE, true, &value));
  *to = value ? *value->place : TS_NO_PLACE;
  return TS_OK;
}

/* ---- Lists ---- */

static enum ts_status fail_item(struct tir__loader *loader, size_t at, enum tir__field_kind field,
                                const struct tir_value *array, size_t index) {
  const struct tir_value *item = array->array.items[index];
  return tir__fail_at(&loader->reader, at, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                      "expected %s, found %s (node %u) as item %zu of node %u",
                      tir__field_kind_text(field), tir_node_kind_text(item->node_kind),
                      (unsigned)item->node, index, (unsigned)array->node);
}

/* The array or map that a field refers to, with its views. */
static enum ts_status read_viewed(struct tir__loader *loader, enum tir__field_kind field,
                                  enum tir_value_kind wanted, const struct tir_value **value,
                                  struct tir__views **views) {
  const char *expected = tir__field_kind_text(field);
  struct tir__loaded *loaded;
  tir__peek(&loader->reader);
  size_t start = loader->reader.at;
  TS_TRY(tir__read_index(loader, expected, &loaded));
  if (loaded->value->kind != wanted) return fail_type(loader, start, expected, loaded->value);
  if (!loaded->views) loaded->views = ts_new(loader->arena, struct tir__views);
  if (!loaded->views) return ts_fail_memory(loader->reader.ctx);
  *value = loaded->value;
  *views = loaded->views;
  return TS_OK;
}

/* LIST(field kind, view, item's C type, test of a value, the item of a value) */
#define LISTS(LIST)                                                                                \
  LIST(EXPRS, exprs, const struct tir_expr *, v->kind == TIR_VALUE_EXPR, v->expr)                  \
  LIST(STMTS, stmts, const struct tir_stmt *, v->kind == TIR_VALUE_STMT, v->stmt)                  \
  LIST(VARS, vars, const struct tir_var *, is_variable(v), v->expr->var)                           \
  LIST(BUFFERS, buffers, const struct tir_buffer *, v->kind == TIR_VALUE_BUFFER, v->buffer)        \
  LIST(RANGES, ranges, const struct tir_range *, v->kind == TIR_VALUE_RANGE, v->range)             \
  LIST(REGIONS, regions, const struct tir_region *, v->kind == TIR_VALUE_REGION, v->region)        \
  LIST(ITER_VARS, iter_vars, const struct tir_iter_var *, v->kind == TIR_VALUE_ITER_VAR,           \
       v->iter_var)                                                                                \
  LIST(TYPES, types, const struct tir_type *, v->kind == TIR_VALUE_TYPE, v->type)                  \
  LIST(STRINGS, strings, const char *, v->kind == TIR_VALUE_STRING, v->string)

#define LIST(field, view, type, test, item)                                                        \
  static enum ts_status read_##view(struct tir__loader *loader, struct tir_##view *to) {           \
    const struct tir_value *array;                                                                 \
    struct tir__views *views;                                                                      \
    size_t start = loader->reader.at;                                                              \
    TS_TRY(read_viewed(loader, TIR__FIELD_##field, TIR_VALUE_ARRAY, &array, &views));              \
    size_t count = array->array.count;                                                             \
    if (count && !views->view.items) {                                                             \
      type *items = ts_new_array(loader->arena, type, count);                                      \
      if (!items) return ts_fail_memory(loader->reader.ctx);                                       \
      for (size_t i = 0; i < count; i++) {                                                         \
        const struct tir_value *v = array->array.items[i];                                         \
        if (!(test)) return fail_item(loader, start, TIR__FIELD_##field, array, i);                \
        items[i] = item;                                                                           \
      }                                                                                            \
      views->view = (struct tir_##view){count, items};                                             \
    }                                                                                              \
    *to = views->view;                                                                             \
    return TS_OK;                                                                                  \
  }
LISTS(LIST)
#undef LIST

static enum ts_status read_empty(struct tir__loader *loader) {
  const struct tir_value *array;
  struct tir__views *views;
  size_t start = loader->reader.at;
  TS_TRY(read_viewed(loader, TIR__FIELD_EMPTY, TIR_VALUE_ARRAY, &array, &views));
  return array->array.count == 0 ? TS_OK : fail_item(loader, start, TIR__FIELD_EMPTY, array, 0);
}

static enum ts_status make_param_buffers(struct tir__loader *loader, size_t at,
                                         const struct tir_value *value,
                                         struct tir__param_buffers *out) {
  const struct tir_map *map = value->map;
  struct tir_param_buffer *pairs = ts_new_array(loader->arena, struct tir_param_buffer, map->count);
  if (!pairs) return ts_fail_memory(loader->reader.ctx);
  for (size_t i = 0; i < map->count; i++) {
    const struct tir_value *key = map->entries[i].key, *buffer = map->entries[i].value;
    if (!is_variable(key) || buffer->kind != TIR_VALUE_BUFFER) {
      const struct tir_value *fault = is_variable(key) ? buffer : key;
      return fail_type(loader, at, tir__field_kind_text(TIR__FIELD_BUFFER_MAP), fault);
    }
    pairs[i] = (struct tir_param_buffer){key->expr->var, buffer->buffer};
  }
  *out = (struct tir__param_buffers){map->count, pairs};
  return TS_OK;
}

static enum ts_status read_param_buffers(struct tir__loader *loader,
                                         struct tir__param_buffers *to) {
  const struct tir_value *value;
  struct tir__views *views;
  size_t start = loader->reader.at;
  TS_TRY(read_viewed(loader, TIR__FIELD_BUFFER_MAP, TIR_VALUE_MAP, &value, &views));
  if (value->map->count && !views->param_buffers.items) {
    TS_TRY(make_param_buffers(loader, start, value, &views->param_buffers));
  }
  *to = views->param_buffers;
  return TS_OK;
}

/* ---- Literals ---- */

static enum ts_status read_small(struct tir__loader *loader, enum tir__field_kind field,
                                 int64_t limit, int64_t *out) {
  struct tir__reader *reader = &loader->reader;
  tir__peek(reader);
  size_t start = reader->at;
  TS_TRY(tir__read_int(reader, out));
  if (*out >= 0 && *out <= limit) return TS_OK;
  return tir__fail_at(reader, start, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "expected %s, found %lld",
                      tir__field_kind_text(field), (long long)*out);
}

static enum ts_status read_uint32(struct tir__loader *loader, uint32_t *to) {
  int64_t value;
  TS_TRY(read_small(loader, TIR__FIELD_UINT32, UINT32_MAX, &value));
  *to = (uint32_t)value;
  return TS_OK;
}

static enum ts_status read_loop_kind(struct tir__loader *loader, enum tir_loop_kind *to) {
  int64_t value;
  TS_TRY(read_small(loader, TIR__FIELD_LOOP_KIND, TIR_LOOP_KIND_COUNT - 1, &value));
  *to = (enum tir_loop_kind)value;
  return TS_OK;
}

/* "float16x8": the lanes are the digits after the last x, 2 to 65535. False when the text is no
 * dtype. */
static bool parse_dtype(const char *text, struct tir_dtype *out) {
  size_t length = strlen(text), elem_length = length;
  uint32_t lanes = 1;
  const char *x = strrchr(text, 'x');
  if (x && x[1] >= '1' && x[1] <= '9') {
    lanes = 0;
    for (const char *c = x + 1; *c; c++) {
      if (*c < '0' || *c > '9') return false;
      lanes = lanes * 10 + (uint32_t)(*c - '0');
      if (lanes > UINT16_MAX) return false;
    }
    if (lanes < 2) return false;
    elem_length = (size_t)(x - text);
  }
  enum ts_dtype elem = elem_length ? ts_dtype_from_tvm(text, elem_length) : TS_DTYPE_NONE;
  *out = (struct tir_dtype){elem, lanes, text};
  return elem != TS_DTYPE_NONE || length == 0; /* "" is void */
}

static enum ts_status read_dtype(struct tir__loader *loader, struct tir_dtype *to) {
  struct tir__reader *reader = &loader->reader;
  tir__peek(reader);
  size_t start = reader->at;
  const char *text;
  TS_TRY(tir__read_interned(reader, &text));
  struct tir_dtype *known = &loader->dtypes[((uintptr_t)text >> 3) % TIR__DTYPE_SLOTS];
  if (known->text != text && !parse_dtype(text, known)) {
    known->text = NULL;
    struct tir__slice slice = {text, strlen(text)};
    return tir__fail_at(reader, start, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                        "unknown dtype \"%s\"", tir__quote(slice).text);
  }
  *to = *known;
  return TS_OK;
}

/* ---- The field ---- */

static enum ts_status read_unused(struct tir__loader *loader, enum tir__field_kind kind) {
  struct tir__loaded *loaded;
  struct tir_dtype dtype;
  int64_t integer;
  bool boolean;
  switch (kind) {
  case TIR__FIELD_UNUSED_INT: return tir__read_int(&loader->reader, &integer);
  case TIR__FIELD_UNUSED_BOOL: return tir__read_bool(&loader->reader, &boolean);
  case TIR__FIELD_UNUSED_DTYPE: return read_dtype(loader, &dtype);
  default: return read_any_index(loader, "a node", &loaded);
  }
}

static enum ts_status read_value(struct tir__loader *loader, const struct tir_value **to) {
  struct tir__loaded *loaded;
  TS_TRY(tir__read_index(loader, "a node", &loaded));
  *to = loaded->value;
  return TS_OK;
}

/* NODE(field kind, its class, member of the value, C type, may be None) */
#define NODES(NODE)                                                                                \
  NODE(EXPR, EXPR, expr, const struct tir_expr *, false)                                           \
  NODE(EXPR_OPT, EXPR, expr, const struct tir_expr *, true)                                        \
  NODE(STMT, STMT, stmt, const struct tir_stmt *, false)                                           \
  NODE(STMT_OPT, STMT, stmt, const struct tir_stmt *, true)                                        \
  NODE(VAR, EXPR, expr->var, const struct tir_var *, false)                                        \
  NODE(BUFFER, BUFFER, buffer, const struct tir_buffer *, false)                                   \
  NODE(RANGE, RANGE, range, const struct tir_range *, false)                                       \
  NODE(RANGE_OPT, RANGE, range, const struct tir_range *, true)                                    \
  NODE(ITER_VAR_OPT, ITER_VAR, iter_var, const struct tir_iter_var *, true)                        \
  NODE(BLOCK, STMT, stmt, const struct tir_stmt *, false)                                          \
  NODE(TYPE, TYPE, type, const struct tir_type *, false)                                           \
  NODE(MAP, MAP, map, const struct tir_map *, false)                                               \
  NODE(ATTRS, ATTRS, map, const struct tir_map *, false)                                           \
  NODE(STRING, STRING, string, const char *, false)                                                \
  NODE(OP, OP, string, const char *, false)                                                        \
  NODE(SOURCE, SOURCE, string, const char *, false)                                                \
  NODE(TARGET_KIND, TARGET_KIND, string, const char *, false)                                      \
  NODE(TARGET_OPT, TARGET, target, const struct tir_target *, true)

enum ts_status tir__read_field(struct tir__loader *loader, enum tir__field_kind kind, void *to) {
  switch (kind) {
#define NODE(field, class, member, type, is_optional)                                              \
  case TIR__FIELD_##field: {                                                                       \
    const struct tir_value *value;                                                                 \
    TS_TRY(read_node_of(loader, kind, TIR_VALUE_##class, is_optional, &value));                    \
    *(type *)to = value ? value->member : NULL;                                                    \
    return TS_OK;                                                                                  \
  }
    NODES(NODE)
#undef NODE
#define LIST(field, view, type, test, item)                                                        \
  case TIR__FIELD_##field: return read_##view(loader, to);
    LISTS(LIST)
#undef LIST
  case TIR__FIELD_INT64: return tir__read_int(&loader->reader, to);
  case TIR__FIELD_UINT32: return read_uint32(loader, to);
  case TIR__FIELD_DOUBLE: return tir__read_double(&loader->reader, to);
  case TIR__FIELD_DTYPE: return read_dtype(loader, to);
  case TIR__FIELD_LOOP_KIND: return read_loop_kind(loader, to);
  case TIR__FIELD_PLACE: return read_place(loader, to);
  case TIR__FIELD_ANY: return read_value(loader, to);
  case TIR__FIELD_BUFFER_MAP: return read_param_buffers(loader, to);
  case TIR__FIELD_EMPTY: return read_empty(loader);
  case TIR__FIELD_UNUSED:
  case TIR__FIELD_UNUSED_INT:
  case TIR__FIELD_UNUSED_BOOL:
  case TIR__FIELD_UNUSED_DTYPE: break;
  }
  return read_unused(loader, kind);
}
