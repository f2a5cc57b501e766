/* The outer form of a tvm.ir.save_json text: {"root_index": i, "nodes": [...], "metadata": {..}},
 * and of a node: {"type": name, "data": ..}. Nodes are decoded while they are read: the children of
 * a node have smaller indices, so nothing is read twice and nothing recurses. */
#include "front/tvm/tvm_priv.h"

#include <string.h>

/* ---- Node types by name ---- */

static uint32_t hash_of(const char *text, size_t length) {
  uint32_t hash = 2166136261u; /* FNV-1a */
  for (size_t i = 0; i < length; i++) {
    hash = (hash ^ (unsigned char)text[i]) * 16777619u;
  }
  return hash ^ hash >> 16;
}

static void index_types(struct tir__loader *loader) {
  _Static_assert(TIR_NODE_KIND_COUNT < TIR__TYPE_SLOTS / 2, "the table must keep empty slots");
  for (int kind = 0; kind < TIR_NODE_KIND_COUNT; kind++) {
    const char *type = tir_node_kind_text((enum tir_node_kind)kind);
    uint32_t slot = hash_of(type, strlen(type)) % TIR__TYPE_SLOTS;
    while (loader->type_slots[slot])
      slot = (slot + 1) % TIR__TYPE_SLOTS;
    loader->type_slots[slot] = (uint8_t)(kind + 1);
  }
}

static bool find_type(const struct tir__loader *loader, struct tir__slice name,
                      enum tir_node_kind *out) {
  uint32_t slot = hash_of(name.text, name.length) % TIR__TYPE_SLOTS;
  for (; loader->type_slots[slot]; slot = (slot + 1) % TIR__TYPE_SLOTS) {
    enum tir_node_kind kind = (enum tir_node_kind)(loader->type_slots[slot] - 1);
    const char *type = tir_node_kind_text(kind);
    if (strlen(type) != name.length || memcmp(type, name.text, name.length) != 0) continue;
    *out = kind;
    return true;
  }
  return false;
}

/* ---- Data of one node ---- */

static bool is_named(struct tir__slice key, const char *name) {
  return strlen(name) == key.length && memcmp(name, key.text, key.length) == 0;
}

static const struct tir__field_info *find_field(const struct tir__field_info *fields,
                                                uint32_t count, struct tir__slice key) {
  for (uint32_t i = 0; i < count; i++) {
    if (is_named(key, fields[i].name)) return &fields[i];
  }
  return NULL;
}

static enum ts_status read_named_field(struct tir__loader *loader, enum tir_node_kind kind,
                                       struct tir__slice key, size_t key_at, uint32_t *seen,
                                       void *object) {
  struct tir__reader *reader = &loader->reader;
  const struct tir__field_info *fields;
  uint32_t count = tir__node_fields(kind, &fields);
  const struct tir__field_info *field = find_field(fields, count, key);
  if (!field) {
    return tir__fail_at(reader, key_at, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                        "unknown field \"%s\"", tir__quote(key).text);
  }
  uint32_t bit = 1u << (field - fields);
  if (*seen & bit) {
    return tir__fail_at(reader, key_at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                        "field \"%s\" is there twice", field->name);
  }
  *seen |= bit;
  reader->field = field->name;
  TS_TRY(tir__read_field(loader, field->kind, (char *)object + field->offset));
  reader->field = NULL;
  return TS_OK;
}

static enum ts_status read_object(struct tir__loader *loader, enum tir_node_kind kind,
                                  void *object) {
  struct tir__reader *reader = &loader->reader;
  size_t start = reader->at;
  TS_TRY(tir__expect(reader, '{', "an object of fields"));
  bool first = true, more = true;
  uint32_t seen = 0;
  for (;;) {
    struct tir__slice key;
    size_t key_at = reader->at;
    TS_TRY(tir__next_key(reader, &first, &more, &key));
    if (!more) break;
    TS_TRY(read_named_field(loader, kind, key, key_at, &seen, object));
  }
  const struct tir__field_info *fields;
  uint32_t count = tir__node_fields(kind, &fields);
  for (uint32_t i = 0; i < count; i++) {
    if (seen & 1u << i) continue;
    return tir__fail_at(reader, start, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                        "field \"%s\" (%s) is missing", fields[i].name,
                        tir__field_kind_text(fields[i].kind));
  }
  return TS_OK;
}

/* Fills loader->items with the nodes of [index, index ...]. */
static enum ts_status read_indices(struct tir__loader *loader) {
  struct tir__reader *reader = &loader->reader;
  TS_TRY(tir__expect(reader, '[', "an array of node indices"));
  loader->items.count = 0;
  bool first = true, more = true;
  for (;;) {
    TS_TRY(tir__next_item(reader, ']', &first, &more));
    if (!more) return TS_OK;
    struct tir__loaded *item;
    TS_TRY(tir__read_index(loader, "a node", &item));
    if (ts_vec_push(&loader->items, reader->ctx->allocator, item->value)) {
      return ts_fail_memory(reader->ctx);
    }
  }
}

static enum ts_status read_array(struct tir__loader *loader, struct tir_value *value) {
  TS_TRY(read_indices(loader));
  size_t count = loader->items.count;
  if (count == 0) return TS_OK;
  const struct tir_value **items = ts_new_array(loader->arena, const struct tir_value *, count);
  if (!items) return ts_fail_memory(loader->reader.ctx);
  memcpy(items, loader->items.data, count * sizeof *items);
  value->array = (struct tir_values){count, items};
  return TS_OK;
}

static enum ts_status read_map(struct tir__loader *loader, struct tir_value *value) {
  size_t start = loader->reader.at;
  TS_TRY(read_indices(loader));
  size_t count = loader->items.count / 2;
  if (loader->items.count % 2) {
    return tir__fail_at(&loader->reader, start, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                        "expected pairs of key and value, found an odd number of indices");
  }
  struct tir_map *map = ts_new(loader->arena, struct tir_map);
  struct tir_map_entry *entries = ts_new_array(loader->arena, struct tir_map_entry, count);
  if (!map || (count && !entries)) return ts_fail_memory(loader->reader.ctx);
  for (size_t i = 0; i < count; i++) {
    entries[i].key = loader->items.data[2 * i];
    entries[i].value = loader->items.data[2 * i + 1];
  }
  *map = (struct tir_map){count, entries};
  value->map = map;
  return TS_OK;
}

static enum ts_status read_fields(struct tir__loader *loader, enum tir_node_kind kind,
                                  struct tir_value *value) {
  size_t size_bytes = tir__node_info(kind)->size_bytes;
  void *object = ts_arena_alloc(loader->arena, size_bytes, _Alignof(max_align_t));
  if (!object) return ts_fail_memory(loader->reader.ctx);
  TS_TRY(read_object(loader, kind, object));
  return tir__finish(loader, kind, object, value);
}

static enum ts_status read_data(struct tir__loader *loader, enum tir_node_kind kind,
                                struct tir_value *value) {
  struct tir__reader *reader = &loader->reader;
  switch (value->kind) {
  case TIR_VALUE_BOOL: return tir__read_bool(reader, &value->boolean);
  case TIR_VALUE_INT: return tir__read_int(reader, &value->integer);
  case TIR_VALUE_FLOAT: return tir__read_double(reader, &value->number);
  case TIR_VALUE_STRING:
  case TIR_VALUE_OP:
  case TIR_VALUE_SOURCE:
  case TIR_VALUE_TARGET_KIND: return tir__read_interned(reader, &value->string);
  case TIR_VALUE_ARRAY: return read_array(loader, value);
  case TIR_VALUE_MAP: return read_map(loader, value);
  default: return read_fields(loader, kind, value);
  }
}

/* ---- One node ---- */

static enum ts_status add_node(struct tir__loader *loader, const struct tir_value *value) {
  struct tir__reader *reader = &loader->reader;
  if (loader->depth >= TIR_DEPTH_LIMIT || loader->visit_count >= TIR_VISIT_LIMIT) {
    bool deep = loader->depth >= TIR_DEPTH_LIMIT;
    return tir__fail_at(reader, reader->node_at, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT,
                        "%s more than %d nodes%s", deep ? "nested" : "expands to",
                        deep ? (int)TIR_DEPTH_LIMIT : (int)TIR_VISIT_LIMIT,
                        deep ? " deep" : " (shared nodes count each time)");
  }
  struct tir__loaded loaded = {value, NULL, loader->depth + 1, loader->visit_count + 1};
  if (ts_vec_push(&loader->nodes, reader->ctx->allocator, loaded)) {
    return ts_fail_memory(reader->ctx);
  }
  return TS_OK;
}

/* Where "type" and "data" of a node stand; data may come first in a file that was sorted. */
struct node_keys {
  bool has_type, has_data, data_is_read;
  size_t data_at;
  enum tir_node_kind kind;
};

static enum ts_status read_type(struct tir__loader *loader, struct node_keys *keys) {
  struct tir__reader *reader = &loader->reader;
  struct tir__slice name;
  tir__peek(reader);
  size_t start = reader->at;
  TS_TRY(tir__read_string(reader, &name));
  if (!find_type(loader, name, &keys->kind)) {
    return tir__fail_at(reader, start, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                        "unknown node type \"%s\"", tir__quote(name).text);
  }
  keys->has_type = true;
  reader->node_type = tir_node_kind_text(keys->kind);
  return TS_OK;
}

static enum ts_status read_node_key(struct tir__loader *loader, struct tir__slice key,
                                    size_t key_at, struct node_keys *keys,
                                    struct tir_value *value) {
  struct tir__reader *reader = &loader->reader;
  bool is_type = is_named(key, "type"), is_data = is_named(key, "data");
  if (!is_type && !is_data) {
    return tir__fail_at(reader, key_at, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                        "unknown key \"%s\", expected \"type\" or \"data\"", tir__quote(key).text);
  }
  if (is_type ? keys->has_type : keys->has_data) {
    return tir__fail_at(reader, key_at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "\"%s\" is there twice",
                        is_type ? "type" : "data");
  }
  if (is_type) {
    TS_TRY(read_type(loader, keys));
    value->node_kind = keys->kind;
    value->kind = tir__node_info(keys->kind)->value_kind;
    return TS_OK;
  }
  keys->has_data = true;
  tir__peek(reader);
  keys->data_at = reader->at;
  keys->data_is_read = keys->has_type && keys->kind != TIR_NODE_NONE;
  return keys->data_is_read ? read_data(loader, keys->kind, value) : tir__skip(reader);
}

static enum ts_status read_late_data(struct tir__loader *loader, const struct node_keys *keys,
                                     struct tir_value *value) {
  size_t end = loader->reader.at;
  loader->reader.at = keys->data_at;
  TS_TRY(read_data(loader, keys->kind, value));
  loader->reader.at = end;
  return TS_OK;
}

static enum ts_status check_node_keys(struct tir__loader *loader, const struct node_keys *keys) {
  struct tir__reader *reader = &loader->reader;
  if (!keys->has_type) {
    return tir__fail_at(reader, reader->node_at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                        "the node has no \"type\"");
  }
  bool wants_data = keys->kind != TIR_NODE_NONE;
  if (keys->has_data == wants_data) return TS_OK;
  return tir__fail_at(reader, reader->node_at, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                      wants_data ? "the node has no \"data\"" : "expected no \"data\"");
}

static enum ts_status read_node(struct tir__loader *loader) {
  struct tir__reader *reader = &loader->reader;
  reader->in_node = true;
  reader->node = (uint32_t)loader->nodes.count;
  reader->node_type = reader->field = NULL;
  loader->depth = loader->visit_count = 0;
  struct node_keys keys = {0};
  struct tir_value *value = ts_new(loader->arena, struct tir_value);
  if (!value) return ts_fail_memory(reader->ctx);
  value->node = reader->node;
  tir__peek(reader);
  reader->node_at = reader->at;
  TS_TRY(tir__expect(reader, '{', "a node (an object)"));
  bool first = true, more = true;
  for (;;) {
    struct tir__slice key;
    size_t key_at = reader->at;
    TS_TRY(tir__next_key(reader, &first, &more, &key));
    if (!more) break;
    TS_TRY(read_node_key(loader, key, key_at, &keys, value));
  }
  TS_TRY(check_node_keys(loader, &keys));
  if (keys.has_data && !keys.data_is_read) TS_TRY(read_late_data(loader, &keys, value));
  TS_TRY(add_node(loader, value));
  reader->in_node = false;
  return TS_OK;
}

static enum ts_status read_nodes(struct tir__loader *loader) {
  struct tir__reader *reader = &loader->reader;
  TS_TRY(tir__expect(reader, '[', "an array of nodes"));
  bool first = true, more = true;
  for (;;) {
    TS_TRY(tir__next_item(reader, ']', &first, &more));
    if (!more) return TS_OK;
    if (loader->nodes.count == UINT32_MAX) {
      return tir__fail_at(reader, reader->at, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT,
                          "more than %u nodes", (unsigned)UINT32_MAX);
    }
    TS_TRY(read_node(loader));
  }
}

/* ---- The text as a whole ---- */

struct graph_keys {
  bool has_root, has_nodes, has_metadata;
  int64_t root;
  size_t root_at;
  const char *tvm_version;
};

/* {"tvm_version": "0.25.dev0"}; other entries say nothing about the tree. */
static enum ts_status read_metadata(struct tir__reader *reader, struct graph_keys *keys) {
  TS_TRY(tir__expect(reader, '{', "an object"));
  bool first = true, more = true;
  for (;;) {
    struct tir__slice key;
    TS_TRY(tir__next_key(reader, &first, &more, &key));
    if (!more) return TS_OK;
    if (is_named(key, "tvm_version")) {
      TS_TRY(tir__read_interned(reader, &keys->tvm_version));
    } else {
      TS_TRY(tir__skip(reader));
    }
  }
}

static enum ts_status read_graph_key(struct tir__loader *loader, struct tir__slice key,
                                     size_t key_at, struct graph_keys *keys) {
  struct tir__reader *reader = &loader->reader;
  bool *seen = is_named(key, "root_index") ? &keys->has_root
               : is_named(key, "nodes")    ? &keys->has_nodes
               : is_named(key, "metadata") ? &keys->has_metadata
                                           : NULL;
  if (!seen || *seen) {
    return tir__fail_at(reader, key_at, seen ? TS_BAD_INPUT : TS_UNSUPPORTED,
                        seen ? TS_DIAG_INPUT_SYNTAX : TS_DIAG_INPUT_UNKNOWN,
                        "%s key \"%s\": a TVM node graph has root_index, nodes and metadata",
                        seen ? "repeated" : "unknown", tir__quote(key).text);
  }
  *seen = true;
  if (seen == &keys->has_nodes) return read_nodes(loader);
  if (seen == &keys->has_metadata) return read_metadata(reader, keys);
  tir__peek(reader);
  keys->root_at = reader->at;
  return tir__read_int(reader, &keys->root);
}

static enum ts_status read_graph(struct tir__loader *loader, struct graph_keys *keys) {
  struct tir__reader *reader = &loader->reader;
  TS_TRY(tir__expect(reader, '{', "a TVM node graph (an object with root_index and nodes)"));
  bool first = true, more = true;
  for (;;) {
    struct tir__slice key;
    size_t key_at = reader->at;
    TS_TRY(tir__next_key(reader, &first, &more, &key));
    if (!more) break;
    TS_TRY(read_graph_key(loader, key, key_at, keys));
  }
  tir__peek(reader);
  if (reader->at < reader->size) {
    return tir__fail_at(reader, reader->at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                        "expected the end of the text, found %s", tir__found(reader));
  }
  if (keys->has_root && keys->has_nodes) return TS_OK;
  return tir__fail_at(reader, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                      "a TVM node graph has the keys root_index and nodes, \"%s\" is missing",
                      keys->has_root ? "nodes" : "root_index");
}

static enum ts_status take_root(struct tir__loader *loader, const struct graph_keys *keys,
                                struct tir_module **out) {
  struct tir__reader *reader = &loader->reader;
  if (keys->root < 0 || (uint64_t)keys->root >= loader->nodes.count) {
    return tir__fail_at(reader, keys->root_at, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
                        "root_index is %lld, but there are %zu nodes", (long long)keys->root,
                        loader->nodes.count);
  }
  const struct tir_value *root = loader->nodes.data[keys->root].value;
  if (root->kind != TIR_VALUE_MODULE) {
    return tir__fail_at(reader, keys->root_at, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
                        "expected an ir.IRModule as the root, found %s (node %u)",
                        tir_node_kind_text(root->node_kind), (unsigned)root->node);
  }
  struct tir_module *module = ts_new(loader->arena, struct tir_module);
  const char *path =
      reader->path ? ts_arena_copy(loader->arena, reader->path, strlen(reader->path)) : NULL;
  if (!module || (reader->path && !path)) return ts_fail_memory(reader->ctx);
  *module = *root->module;
  module->path = path;
  module->tvm_version = keys->tvm_version;
  module->node_count = (uint32_t)loader->nodes.count;
  module->var_count = loader->var_count;
  module->buffer_count = loader->buffer_count;
  *out = module;
  return TS_OK;
}

static enum ts_status load(struct tir__loader *loader, struct tir_module **out) {
  struct graph_keys keys = {0};
  index_types(loader);
  TS_TRY(read_graph(loader, &keys));
  return take_root(loader, &keys, out);
}

enum ts_status tir_module_load(struct ts_ctx *ctx, struct ts_arena *arena, const char *path,
                               const char *text, size_t size, struct tir_module **out) {
  *out = NULL;
  struct tir__loader loader = {.arena = arena};
  loader.reader = (struct tir__reader){.ctx = ctx, .path = path, .text = text, .size = size};
  ts_intern_init(&loader.reader.strings, arena);
  enum ts_status status = load(&loader, out);
  ts_vec_free(&loader.items, ctx->allocator);
  ts_vec_free(&loader.nodes, ctx->allocator);
  ts_vec_free(&loader.reader.scratch, ctx->allocator);
  return status;
}
