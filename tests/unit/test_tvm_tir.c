/* The graph importer on right input: values, identity, sharing, order, printing. */
#include "support/failing_allocator.h"
#include "support/suite.h"
#include "support/tir_graph.h"

#include <math.h>

#define NODE(type, fields) "{\"type\":\"" type "\",\"data\":{\"span\":0," fields "}},\n"
#define BUFFER(name, data, shape)                                                                  \
  NODE("tirx.Buffer", "\"data\":" data ",\"dtype\":\"float16\",\"shape\":" shape                   \
                      ",\"strides\":5,\"axis_separators\":5,\"elem_offset\":0,\"name\":" name      \
                      ",\"data_alignment\":64,\"offset_factor\":1,\"buffer_type\":1")

static void load_ok(struct graph_load *load, const char *nodes, unsigned count) {
  static char text[GRAPH_BYTES];
  graph_write(text, nodes, count, 4);
  graph_load_text(load, text, strlen(text));
  if (load->status != TS_OK && load->diags.items.count) {
    ck_abort_msg("%s", load->diags.items.data[0].message);
  }
  ck_assert_int_eq(load->status, TS_OK);
}

static const struct tir_expr *evaluated(const struct graph_load *load) {
  const struct tir_stmt *body = load->module->funcs[0]->body;
  ck_assert_int_eq(body->kind, TIR_EVALUATE);
  return body->evaluate.value;
}

/* Node 11 is the expression, 12 its Evaluate. */
static const struct tir_expr *load_expr(struct graph_load *load, const char *node) {
  char nodes[4096];
  snprintf(nodes, sizeof nodes, "%s" NODE("tirx.Evaluate", "\"value\":11"), node);
  load_ok(load, nodes, 2);
  return evaluated(load);
}

START_TEST(module_and_function) {
  struct graph_load load;
  load_ok(&load, NODE("tirx.Evaluate", "\"value\":7"), 1);
  const struct tir_module *module = load.module;
  ck_assert_uint_eq(module->func_count, 1);
  ck_assert_str_eq(module->funcs[0]->name, "f");
  ck_assert_ptr_eq(tir_module_find(module, "f"), module->funcs[0]);
  ck_assert_ptr_null(tir_module_find(module, "g"));
  ck_assert_str_eq(module->tvm_version, "0.25.dev0");
  ck_assert_str_eq(module->path, "x.json");
  ck_assert_uint_eq(module->node_count, GRAPH_FIRST_NODE + 5);
  ck_assert_uint_eq(module->var_count, 1);
  ck_assert_int_eq(module->funcs[0]->return_type->kind, TIR_TUPLE_TYPE);
  ck_assert_uint_eq(module->funcs[0]->params.count, 0);
  ck_assert_ptr_null(module->funcs[0]->place.file);
  const struct tir_expr *value = evaluated(&load);
  ck_assert_int_eq(value->kind, TIR_INT_IMM);
  ck_assert_int_eq(value->int_value, 7);
  ck_assert_int_eq(value->dtype.elem, TS_DTYPE_s32);
  ck_assert_uint_eq(value->node, 7);
  graph_load_free(&load);
}
END_TEST

START_TEST(integers_are_exact) {
  static const struct {
    const char *dtype, *text;
    int64_t value;
  } rows[] = {
      {"int64", "9223372036854775807", INT64_MAX},
      {"int64", "-9223372036854775808", INT64_MIN},
      {"uint64", "-1", -1},
      {"int32", "-2147483648", INT32_MIN},
      {"uint8", "255", 255},
      {"bool", "1", 1},
      {"int8", "-0", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct graph_load load;
    char node[256];
    snprintf(node, sizeof node, NODE("ir.IntImm", "\"dtype\":\"%s\",\"value\":%s"), rows[i].dtype,
             rows[i].text);
    ck_assert_int_eq(load_expr(&load, node)->int_value, rows[i].value);
    graph_load_free(&load);
  }
}
END_TEST

START_TEST(doubles_are_exact) {
  static const struct {
    const char *text;
    double value;
  } rows[] = {
      {"0.1", 0.1},
      {"0.08838834764831845", 0x1.6a09e667f3bcdp-4},
      {"1.7976931348623157e308", 0x1.fffffffffffffp+1023},
      {"5e-324", 0x0.0000000000001p-1022},
      {"2.2250738585072011e-308", 0x0.fffffffffffffp-1022},
      {"9007199254740993", 9007199254740992.0},
      {"1E+2", 100.0},
      {"Infinity", (double)INFINITY},
      {"-Infinity", -(double)INFINITY},
      {"-0.0", -0.0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct graph_load load;
    char node[256];
    snprintf(node, sizeof node, NODE("ir.FloatImm", "\"dtype\":\"float32\",\"value\":%s"),
             rows[i].text);
    const struct tir_expr *e = load_expr(&load, node);
    ck_assert_int_eq(memcmp(&e->float_value, &rows[i].value, sizeof(double)), 0);
    graph_load_free(&load);
  }
  struct graph_load load;
  const char *nan_node = NODE("ir.FloatImm", "\"dtype\":\"float16\",\"value\":NaN");
  ck_assert(isnan(load_expr(&load, nan_node)->float_value));
  graph_load_free(&load);
}
END_TEST

START_TEST(strings_are_unescaped) {
  struct graph_load load;
  load_ok(
      &load,
      "{\"type\":\"ffi.String\",\"data\":\"a\\/b\\\"\\\\\\n\\u00e9\\u20AC\\ud83d\\ude00\"},\n" //
      NODE("tirx.StringImm", "\"dtype\":\"handle\",\"value\":11")                              //
      NODE("tirx.Evaluate", "\"value\":12"),
      3);
  ck_assert_str_eq(tir_expr_string(evaluated(&load)),
                   "a/b\"\\\n\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  graph_load_free(&load);
}
END_TEST

START_TEST(dtypes) {
  static const struct {
    const char *text;
    enum ts_dtype elem;
    uint32_t lanes;
  } rows[] = {
      {"float16x8", TS_DTYPE_f16, 8},        {"bool", TS_DTYPE_pred, 1},
      {"float8_e4m3fnx4", TS_DTYPE_e4m3, 4}, {"", TS_DTYPE_NONE, 1},
      {"uint8x128", TS_DTYPE_u8, 128},       {"handle", TS_DTYPE_ptr, 1},
      {"bfloat16x2", TS_DTYPE_bf16, 2},      {"float8_e5m2", TS_DTYPE_e5m2, 1},
      {"int64x65535", TS_DTYPE_s64, 65535},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct graph_load load;
    char nodes[512];
    snprintf(nodes, sizeof nodes,
             "{\"type\":\"ir.Op\",\"data\":\"tirx.x\"},\n"                                //
             NODE("tirx.Call", "\"dtype\":\"%s\",\"op\":11,\"args\":5,\"annotations\":3") //
             NODE("tirx.Evaluate", "\"value\":12"),
             rows[i].text);
    load_ok(&load, nodes, 3);
    const struct tir_expr *e = evaluated(&load);
    ck_assert_str_eq(e->call.op, "tirx.x");
    ck_assert_int_eq(e->dtype.elem, rows[i].elem);
    ck_assert_uint_eq(e->dtype.lanes, rows[i].lanes);
    ck_assert_str_eq(e->dtype.text, rows[i].text);
    graph_load_free(&load);
  }
}
END_TEST

/* clang-format off */
#define BUFFER_NODES                                                                               \
  /* 11 */ NODE("ir.PrimType", "\"dtype\":\"float16\"")                                            \
  /* 12 */ "{\"type\":\"ffi.String\",\"data\":\"shared.dyn\"},\n"                                  \
  /* 13 */ NODE("ir.PointerType", "\"element_type\":11,\"storage_scope\":12")                      \
  /* 14 */ NODE("tirx.Var", "\"dtype\":\"handle\",\"name\":1,\"type_annotation\":13")              \
  /* 15 */ "{\"type\":\"ffi.Array\",\"data\":[7]},\n"                                              \
  /* 16 */ BUFFER("8", "14", "15")                                                                 \
  /* 17 */ "{\"type\":\"ffi.Array\",\"data\":[10]},\n"                                             \
  /* 18 */ NODE("tirx.BufferLoad", "\"dtype\":\"float16\",\"buffer\":16,\"indices\":17,"           \
                                   "\"predicate\":0")                                              \
  /* 19 */ NODE("tirx.BufferStore", "\"buffer\":16,\"value\":18,\"indices\":17,\"predicate\":0")   \
  /* 20 */ NODE("tirx.DeclBuffer", "\"buffer\":16")                                                \
  /* 21 */ "{\"type\":\"ffi.Array\",\"data\":[20,19]},\n"                                          \
  /* 22 */ NODE("tirx.SeqStmt", "\"seq\":21")
/* clang-format on */

START_TEST(buffers_keep_their_identity) {
  struct graph_load load;
  load_ok(&load, BUFFER_NODES, 12);
  const struct tir_stmt *seq = load.module->funcs[0]->body;
  ck_assert_int_eq(seq->kind, TIR_SEQ);
  ck_assert_uint_eq(seq->seq.count, 2);
  const struct tir_buffer *buffer = seq->seq.items[0]->decl.buffer;
  const struct tir_stmt *store = seq->seq.items[1];
  ck_assert_ptr_eq(store->store.buffer, buffer);
  ck_assert_ptr_eq(store->store.value->load.buffer, buffer);
  ck_assert_ptr_eq(store->store.indices.items[0], store->store.value->load.indices.items[0]);
  ck_assert_ptr_null(store->store.predicate);
  ck_assert_str_eq(buffer->scope, "shared.dyn");
  ck_assert_str_eq(buffer->name, "i");
  ck_assert_uint_eq(buffer->id, 0);
  ck_assert_uint_eq(buffer->alignment_bytes, 64);
  ck_assert_int_eq(buffer->data->elem_dtype.elem, TS_DTYPE_f16);
  ck_assert_uint_eq(buffer->data->id, 1);
  ck_assert_int_eq(buffer->data->dtype.elem, TS_DTYPE_ptr);
  ck_assert_uint_eq(load.module->buffer_count, 1);
  ck_assert_uint_eq(load.module->var_count, 2);
  const char *text = tir_print(&load.arena, load.module);
  ck_assert_ptr_nonnull(strstr(text, "i = T.decl_buffer((7), \"float16\", data=f, "
                                     "scope=\"shared.dyn\")\n    i[i] = i[i]\n"));
  graph_load_free(&load);
}
END_TEST

START_TEST(expressions_print_with_the_needed_brackets) {
  struct graph_load load;
  load_ok(&load,
          NODE("tirx.Sub", "\"dtype\":\"int32\",\"a\":10,\"b\":7")       /* 11: i - 7 */
          NODE("tirx.Sub", "\"dtype\":\"int32\",\"a\":10,\"b\":11")      /* 12 */
          NODE("tirx.FloorMod", "\"dtype\":\"int32\",\"a\":11,\"b\":12") /* 13 */
          NODE("tirx.Min", "\"dtype\":\"int32\",\"a\":13,\"b\":7")       /* 14 */
          NODE("tirx.LT", "\"dtype\":\"bool\",\"a\":14,\"b\":10")        /* 15 */
          NODE("tirx.Not", "\"dtype\":\"bool\",\"a\":15")                /* 16 */
          NODE("tirx.Evaluate", "\"value\":16"),
          7);
  ck_assert_str_eq(tir_print_expr(&load.arena, evaluated(&load)),
                   "not (T.min((i - 7) % (i - (i - 7)), 7) < i)");
  graph_load_free(&load);
}
END_TEST

START_TEST(spans_become_places) {
  struct graph_load load;
  load_ok(&load,
          "{\"type\":\"ir.SourceName\",\"data\":\"k.py\"},\n"
          "{\"type\":\"ir.Span\",\"data\":{\"source_name\":11,\"line\":12,\"column\":3,"
          "\"end_line\":1,\"end_column\":1048576}},\n"
          "{\"type\":\"tirx.Evaluate\",\"data\":{\"span\":12,\"value\":7}},\n",
          3);
  struct ts_source_place place = load.module->funcs[0]->body->place;
  ck_assert_str_eq(place.file, "k.py");
  ck_assert_uint_eq(place.line, 12);
  ck_assert_uint_eq(place.column, 3);
  graph_load_free(&load);
}
END_TEST

/* 11..20: attributes {"i": 1.5, "f": [True, 7]} of an AttrStmt's call. */
START_TEST(annotations_are_plain_values) {
  struct graph_load load;
  load_ok(&load,
          "{\"type\":\"bool\",\"data\":true},\n{\"type\":\"float\",\"data\":1.5},\n"
          "{\"type\":\"int\",\"data\":-4},\n{\"type\":\"ffi.Array\",\"data\":[11,7,13]},\n"
          "{\"type\":\"ffi.Map\",\"data\":[8,12,1,14]},\n"
          "{\"type\":\"ir.Op\",\"data\":\"tl.tileop.copy\"},\n"                             //
          NODE("tirx.Call", "\"dtype\":\"handle\",\"op\":16,\"args\":5,\"annotations\":15") //
          NODE("tirx.Evaluate", "\"value\":17"),
          8);
  const struct tir_map *map = evaluated(&load)->call.annotations;
  ck_assert_uint_eq(map->count, 2);
  const struct tir_value *array = tir_map_find(map, "f");
  ck_assert_int_eq(array->kind, TIR_VALUE_ARRAY);
  int64_t value = 0;
  ck_assert(tir_value_int(array->array.items[0], &value) && value == 1);
  ck_assert(tir_value_int(array->array.items[1], &value) && value == 7);
  ck_assert(tir_value_int(array->array.items[2], &value) && value == -4);
  ck_assert(!tir_value_int(tir_map_find(map, "i"), &value));
  ck_assert_double_eq(tir_map_find(map, "i")->number, 1.5);
  ck_assert_ptr_null(tir_map_find(map, "j"));
  ck_assert(!tir_value_int(NULL, &value));
  ck_assert_str_eq(tir_print_stmt(&load.arena, load.module->funcs[0]->body),
                   "tl.tileop.copy(annotations={\"i\": 1.5, \"f\": [True, 7, -4]})");
  graph_load_free(&load);
}
END_TEST

/* Another tool may sort the keys: "data" before "type", root_index last, fields in any order. */
START_TEST(order_of_keys_does_not_matter) {
  struct graph_load load;
  load_ok(&load,
          "{\"data\":{\"value\":3,\"dtype\":\"int32\",\"span\":0},\"type\":\"ir.IntImm\"},\n"
          "{\"data\":{\"value\":11,\"span\":0},\"type\":\"tirx.Evaluate\"},\n",
          2);
  ck_assert_int_eq(evaluated(&load)->int_value, 3);
  graph_load_free(&load);
}
END_TEST

START_TEST(global_symbol_names_the_function) {
  static char text[GRAPH_BYTES];
  struct graph_load load;
  graph_write(text,
              "{\"type\":\"ffi.String\",\"data\":\"global_symbol\"},\n"
              "{\"type\":\"ffi.Map\",\"data\":[11,8]},\n"
              "{\"type\":\"ir.DictAttrs\",\"data\":{\"__dict__\":12}},\n" //
              NODE("tirx.Evaluate", "\"value\":7"),
              4, 13);
  graph_load_text(&load, text, strlen(text));
  ck_assert_int_eq(load.status, TS_OK);
  ck_assert_str_eq(load.module->funcs[0]->name, "i");
  graph_load_free(&load);
}
END_TEST

/* Many users of one long array share its view: memory must not be their product. */
START_TEST(shared_arrays_cost_once) {
  static char text[1 << 20];
  struct graph_load load;
  size_t length = 0;
  char *nodes = malloc(1 << 19);
  length += (size_t)sprintf(nodes + length, "{\"type\":\"ffi.Array\",\"data\":[7");
  for (int i = 0; i < 20000; i++)
    length += (size_t)sprintf(nodes + length, ",7");
  length += (size_t)sprintf(nodes + length, "]},\n{\"type\":\"ir.Op\",\"data\":\"tirx.x\"},\n");
  for (int i = 0; i < 2000; i++) {
    length += (size_t)sprintf(
        nodes + length,
        NODE("tirx.Call", "\"dtype\":\"\",\"op\":12,\"args\":11,\"annotations\":3"));
  }
  int count =
      snprintf(text, sizeof text, GRAPH_HEAD "%s{\"type\":\"None\"}],\"root_index\":0}", nodes);
  free(nodes);
  ck_assert(count > 0 && (size_t)count < sizeof text);
  graph_load_text(&load, text, (size_t)count);
  ck_assert_int_eq(load.status, TS_BAD_INPUT); /* the root is no module */
  ck_assert_uint_lt(load.arena.total_bytes, 4 << 20);
  graph_load_free(&load);
}
END_TEST

START_TEST(survives_allocation_failures) {
  static char text[GRAPH_BYTES];
  struct failing_allocator memory;
  graph_write(text, BUFFER_NODES, 12, 4);
  failing_allocator_init(&memory);
  uint64_t n = 1;
  for (; failing_allocator_next(&memory, n); n++) {
    struct graph_load load;
    graph_load_init(&load, &memory.allocator);
    if (load.status == TS_OK) {
      load.status =
          tir_module_load(&load.ctx, &load.arena, "x.json", text, strlen(text), &load.module);
      if (load.status == TS_OK) (void)tir_print(&load.arena, load.module);
    }
    ck_assert(load.status == TS_OK || load.status == TS_NO_MEMORY);
    ck_assert((load.module != NULL) == (load.status == TS_OK));
    if (load.diags.lock) graph_load_free(&load);
  }
  ck_assert_uint_gt(n, 8);
}
END_TEST

int main(void) {
  return RUN_TESTS(
      "tvm_tir", module_and_function, integers_are_exact, doubles_are_exact, strings_are_unescaped,
      dtypes, buffers_keep_their_identity, expressions_print_with_the_needed_brackets,
      spans_become_places, annotations_are_plain_values, order_of_keys_does_not_matter,
      global_symbol_names_the_function, shared_arrays_cost_once, survives_allocation_failures);
}
