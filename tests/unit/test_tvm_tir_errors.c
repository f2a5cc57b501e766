/* The graph importer on wrong input: the right code, the right place, never more than an error. */
#include "support/suite.h"
#include "support/tir_graph.h"

#define NODE(type, fields) "{\"type\":\"" type "\",\"data\":{\"span\":0," fields "}},\n"
#define EVALUATE(index) NODE("tirx.Evaluate", "\"value\":" index)

static char text[1 << 20];

static void check_failure(const struct graph_load *load, enum ts_status status,
                          enum ts_diag_code code, unsigned line, const char *words) {
  ck_assert_ptr_null(load->module);
  ck_assert_uint_eq(load->diags.items.count, 1);
  const struct ts_diag *diag = &load->diags.items.data[0];
  if (!strstr(diag->message, words)) ck_abort_msg("\"%s\" lacks \"%s\"", diag->message, words);
  ck_assert_int_eq(load->status, status);
  ck_assert_str_eq(ts_diag_code_text(diag->code), ts_diag_code_text(code));
  ck_assert_str_eq(diag->place.file, "x.json");
  if (diag->place.line != line) {
    ck_abort_msg("%s: line %u, not %u", diag->message, (unsigned)diag->place.line, line);
  }
}

/* ---- Faults of a node ---- */

struct node_row {
  const char *nodes; /* the fault is in the last but `after` of them */
  unsigned count, after;
  enum ts_status status;
  enum ts_diag_code code;
  const char *words;
};

static const struct node_row node_rows[] = {
    {NODE("tirx.Foo", "\"a\":7"), 1, 0, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
     "node 11: unknown node type \"tirx.Foo\""},
    {NODE("tirx.Evaluate", "\"value\":7,\"foo\":1"), 1, 0, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
     "node 11 (tirx.Evaluate): unknown field \"foo\""},
    {NODE("tirx.Evaluate", "\"value\":7,\"value\":7"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "field \"value\" is there twice"},
    {"{\"type\":\"tirx.Evaluate\",\"data\":{\"span\":0}},\n", 1, 0, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "field \"value\" (an expression) is missing"},
    {NODE("tirx.Evaluate", "\"value\":5"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "node 11 (tirx.Evaluate), field value: expected an expression, found ffi.Array (node 5)"},
    {NODE("tirx.Evaluate", "\"value\":\"x\""), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected the index of an expression, found a string"},
    {NODE("tirx.Evaluate", "\"value\":null"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected the index of an expression, found null"},
    {NODE("tirx.Evaluate", "\"value\":{}"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected the index of an expression, found an object"},
    {NODE("tirx.Evaluate", "\"value\":7.5"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected an integer"},
    {EVALUATE("11"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "refers to node 11"},
    {EVALUATE("12") EVALUATE("11"), 2, 1, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "refers to node 12"},
    {EVALUATE("-1"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "refers to node -1"},
    {EVALUATE("1000000000000000000"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "refers to node 1000000000000000000"},
    {EVALUATE("9223372036854775808"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT, "64 bits"},
    {NODE("ir.IntImm", "\"dtype\":\"int64\",\"value\":-9223372036854775809") EVALUATE("11"), 2, 1,
     TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT, "node 11 (ir.IntImm), field value"},
    {NODE("ir.IntImm", "\"dtype\":\"int33\",\"value\":1") EVALUATE("11"), 2, 1, TS_UNSUPPORTED,
     TS_DIAG_INPUT_UNKNOWN, "unknown dtype \"int33\""},
    {NODE("ir.IntImm", "\"dtype\":\"int32x70000\",\"value\":1") EVALUATE("11"), 2, 1,
     TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, "unknown dtype \"int32x70000\""},
    {NODE("ir.IntImm", "\"dtype\":\"int32xvscalex4\",\"value\":1") EVALUATE("11"), 2, 1,
     TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, "unknown dtype"},
    {NODE("ir.IntImm", "\"dtype\":7,\"value\":1") EVALUATE("11"), 2, 1, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "expected a string, found a number"},
    {NODE("ir.IntImm", "\"dtype\":\"uint8\",\"value\":256") EVALUATE("11"), 2, 1, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "the value does not fit the dtype"},
    {NODE("ir.IntImm", "\"dtype\":\"int32\",\"value\":\"1\"") EVALUATE("11"), 2, 1, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "expected a number, found a string"},
    {NODE("ir.FloatImm", "\"dtype\":\"float32\",\"value\":1e999") EVALUATE("11"), 2, 1,
     TS_BAD_INPUT, TS_DIAG_INPUT_LIMIT, "does not fit in a double"},
    {NODE("ir.FloatImm", "\"dtype\":\"float32\",\"value\":Inf") EVALUATE("11"), 2, 1, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "expected a number"},
    {NODE("ir.FloatImm", "\"dtype\":\"int32\",\"value\":1.0") EVALUATE("11"), 2, 1, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "scalar float dtype"},
    {NODE("tirx.Add", "\"dtype\":\"int64\",\"a\":7,\"b\":7") EVALUATE("11"), 2, 1, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "the dtype differs from that of a and b"},
    {NODE("tirx.LT", "\"dtype\":\"int32\",\"a\":7,\"b\":7") EVALUATE("11"), 2, 1, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "a comparison must be bool"},
    {NODE("tirx.Ramp", "\"dtype\":\"int32x4\",\"base\":7,\"stride\":7,\"lanes\":7") EVALUATE("11"),
     2, 1, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "lanes must be an ir.IntImm that agrees"},
    {NODE("tirx.For", "\"loop_var\":10,\"min\":7,\"extent\":7,\"kind\":9,\"body\":7,"
                      "\"thread_binding\":0,\"annotations\":3,\"step\":0"),
     1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "expected a loop kind of 0 to 4, found 9"},
    {NODE("tirx.For", "\"loop_var\":7,\"min\":7"), 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected a tirx.Var, found ir.IntImm (node 7)"},
    {NODE("tirx.IfThenElse", "\"condition\":7,\"then_case\":0"), 1, 0, TS_BAD_INPUT,
     TS_DIAG_INPUT_TYPE, "expected a statement, found None (node 0)"},
    {EVALUATE("7") NODE("tirx.IfThenElse", "\"condition\":7,\"then_case\":11,\"else_case\":0"), 2,
     0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "the condition must be a scalar bool"},
    {"{\"type\":\"ffi.Array\",\"data\":[7,1]},\n" NODE("tirx.SeqStmt", "\"seq\":11"), 2, 0,
     TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected an ffi.Array of statements, found ir.IntImm (node 7) as item 0 of node 11"},
    {"{\"type\":\"ffi.Array\",\"data\":7},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected an array of node indices, found a number"},
    {"{\"type\":\"ffi.Array\",\"data\":[7,]},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "found ']'"},
    {"{\"type\":\"ffi.Map\",\"data\":[1,7,1]},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "odd number"},
    {"{\"type\":\"ffi.String\",\"data\":[]},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected a string, found an array"},
    {"{\"type\":\"ffi.String\",\"data\":\"a\\u0000b\"},\n", 1, 0, TS_BAD_INPUT,
     TS_DIAG_INPUT_SYNTAX, "a NUL character"},
    {"{\"type\":\"ffi.String\",\"data\":\"\\ud800x\"},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "half a surrogate pair"},
    {"{\"type\":\"ffi.String\",\"data\":\"\\x41\"},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "unknown escape"},
    {"{\"type\":\"ffi.String\",\"data\":\"\\u12g4\"},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "four hexadecimal digits"},
    {"{\"type\":\"ffi.String\",\"data\":\"\xc0\xaf\"},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "invalid UTF-8"},
    {"{\"type\":\"ffi.String\",\"data\":\"\xed\xa0\x80\"},\n", 1, 0, TS_BAD_INPUT,
     TS_DIAG_INPUT_SYNTAX, "invalid UTF-8"},
    {"{\"type\":\"ffi.String\",\"data\":\"a\tb\"},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "a control character"},
    {"{\"type\":\"bool\",\"data\":1},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected true or false, found a number"},
    {"{\"type\":\"int\",\"data\":01},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "malformed number"},
    {"{\"type\":\"float\",\"data\":1.},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "malformed number"},
    {"{\"type\":\"None\",\"data\":1},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected no \"data\""},
    {"{\"type\":\"ffi.Array\"},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "the node has no \"data\""},
    {"{\"data\":[]},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "the node has no \"type\""},
    {"{\"type\":\"None\",\"kind\":1},\n", 1, 0, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
     "unknown key \"kind\""},
    {"{\"type\":\"None\",\"type\":\"None\"},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
     "\"type\" is there twice"},
    {"{\"type\":7},\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected a string, found a number"},
    {"7,\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "expected a node (an object), found a number"},
    {EVALUATE("7") "{\"type\":\"ffi.Map\",\"data\":[10,7]},\n" NODE(
         "tirx.PrimFunc", "\"struct_info_\":0,\"attrs\":4,\"params\":5,\"ret_type\":6,"
                          "\"buffer_map\":12,\"body\":11"),
     3, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
     "expected an ffi.Map of tirx.Var to tirx.Buffer, found ir.IntImm (node 7)"},
    {"{\"type\":\"ir.SourceMap\",\"data\":{\"source_map\":3}},\n"
     "{\"type\":\"ir.IRModule\",\"data\":{\"functions\":4,\"global_var_map_\":3,"
     "\"source_map\":11,\"attrs\":4,\"global_infos\":3}},\n",
     2, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "expected an ffi.Map, found ir.DictAttrs (node 4)"},
    {"{\"type\":\"ffi.Map\",\"data\":[1,7]},\n"
     "{\"type\":\"ir.IRModule\",\"data\":{\"functions\":11,\"global_var_map_\":3,"
     "\"source_map\":3,\"attrs\":4,\"global_infos\":3}},\n",
     2, 0, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "functions must map ir.GlobalVar to tirx.PrimFunc"},
    {"{\"type\":\"None\"}\n", 1, 0, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "expected ',' or ']'"},
};

START_TEST(faults_of_nodes_are_named) {
  for (size_t i = 0; i < sizeof node_rows / sizeof *node_rows; i++) {
    const struct node_row *row = &node_rows[i];
    struct graph_load load;
    graph_write(text, row->nodes, row->count, 4);
    graph_load_text(&load, text, strlen(text));
    unsigned line = GRAPH_FIRST_LINE + GRAPH_FIRST_NODE + row->count - 1 - row->after;
    bool is_late = strstr(row->words, "',' or ']'"); /* seen at the next node */
    check_failure(&load, row->status, row->code, line + is_late, row->words);
    graph_load_free(&load);
  }
}
END_TEST

START_TEST(messages_say_function_source_and_position) {
  struct graph_load load;
  graph_write(text,
              "{\"type\":\"ir.SourceName\",\"data\":\"k.py\"},\n"
              "{\"type\":\"ir.Span\",\"data\":{\"source_name\":11,\"line\":12,\"column\":3,"
              "\"end_line\":1,\"end_column\":2}},\n"
              "{\"type\":\"tirx.Evaluate\",\"data\":{\"span\":12,\"value\":1}},\n",
              3, 4);
  graph_load_text(&load, text, strlen(text));
  check_failure(&load, TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, GRAPH_FIRST_LINE + 13, "(near k.py:12)");
  const struct ts_diag *diag = &load.diags.items.data[0];
  ck_assert_str_eq(diag->function, "f");
  char position[32];
  size_t at = (size_t)(strstr(text, "\"value\":1}},\n") - text) + 8;
  snprintf(position, sizeof position, "byte %zu, node 13 ", at);
  ck_assert_ptr_eq(strstr(diag->message, position), diag->message);
  ck_assert_uint_eq(diag->place.column, 51);
  graph_load_free(&load);
}
END_TEST

/* ---- Faults of the whole ---- */

START_TEST(other_texts_are_no_graphs) {
  static const struct {
    const char *text;
    enum ts_status status;
    enum ts_diag_code code;
    const char *words;
  } rows[] = {
      {"", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "found the end of the text"},
      {"  ", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "found the end of the text"},
      {"[1,2]", TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "expected a TVM node graph"},
      {"\xff\xfe\x00", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "an unexpected character"},
      {"{}", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "\"root_index\" is missing"},
      {"{\"a\":1}", TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN, "unknown key \"a\""},
      {"{\"root_index\":0}", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "\"nodes\" is missing"},
      {"{\"root_index\":0,\"root_index\":0}", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "repeated key"},
      {"{\"root_index\":0,\"nodes\":[]}", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
       "root_index is 0, but there are 0 nodes"},
      {"{\"root_index\":-1,\"nodes\":[{\"type\":\"None\"}]}", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
       "root_index is -1"},
      {"{\"root_index\":1000000000,\"nodes\":[{\"type\":\"None\"}]}", TS_BAD_INPUT,
       TS_DIAG_INPUT_SYNTAX, "root_index is 1000000000, but there are 1 nodes"},
      {"{\"root_index\":0,\"nodes\":[{\"type\":\"None\"}]}", TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
       "expected an ir.IRModule as the root, found None (node 0)"},
      {"{\"root_index\":0,\"nodes\":[{\"type\":\"None\"}]}x", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX,
       "expected the end of the text"},
      {"{\"root_index\":0,\"nodes\":{}}", TS_BAD_INPUT, TS_DIAG_INPUT_TYPE,
       "expected an array of nodes, found an object"},
      {"{\"metadata\":[]}", TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "expected an object"},
      {"{\"metadata\":{\"tvm_version\":1}}", TS_BAD_INPUT, TS_DIAG_INPUT_TYPE, "expected a string"},
      {"{root_index:0}", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "expected a key"},
      {"{\"root_index\" 0}", TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, "expected ':'"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct graph_load load;
    graph_load_text(&load, rows[i].text, strlen(rows[i].text));
    check_failure(&load, rows[i].status, rows[i].code, 1, rows[i].words);
    graph_load_free(&load);
  }
}
END_TEST

static void check_limit(size_t length, const char *words) {
  struct graph_load load;
  ck_assert_uint_lt(length, sizeof text);
  graph_load_text(&load, text, length);
  ck_assert_int_eq(load.status, TS_BAD_INPUT);
  ck_assert_int_eq(load.diags.items.data[0].code, TS_DIAG_INPUT_LIMIT);
  ck_assert_ptr_nonnull(strstr(load.diags.items.data[0].message, words));
  graph_load_free(&load);
}

START_TEST(json_nesting_is_bounded) {
  size_t length = (size_t)sprintf(text, "{\"metadata\":{\"x\":");
  memset(text + length, '[', sizeof text - length);
  check_limit(sizeof text - 1, "nested more than 64 deep");
}
END_TEST

START_TEST(node_nesting_is_bounded) {
  size_t length = (size_t)sprintf(text, GRAPH_HEAD);
  for (unsigned i = 0; i < TIR_DEPTH_LIMIT + 1; i++) {
    length += (size_t)sprintf(text + length,
                              NODE("tirx.Cast", "\"dtype\":\"int32\",\"value\":%u,"
                                                "\"annotations\":3"),
                              i ? GRAPH_FIRST_NODE + i - 1 : 7);
  }
  check_limit(length, "nested more than 2000 nodes deep");
}
END_TEST

/* Forty nodes that would be 2^40 when walked along every path. */
START_TEST(sharing_is_bounded) {
  size_t length = (size_t)sprintf(text, GRAPH_HEAD);
  for (unsigned i = 0; i < 40; i++) {
    unsigned child = i ? GRAPH_FIRST_NODE + i - 1 : 7;
    length += (size_t)sprintf(
        text + length, NODE("tirx.Add", "\"dtype\":\"int32\",\"a\":%u,\"b\":%u"), child, child);
  }
  check_limit(length, "expands to more than 16777216 nodes");
}
END_TEST

/* ---- Damage: any status, but no crash, and a failure always has one story ---- */

static const char *const damaged_nodes =
    "{\"type\":\"ffi.String\",\"data\":\"a\\/\\u00e9\xc3\xa9\"},\n"
    "{\"type\":\"ffi.Array\",\"data\":[7,10]},\n{\"type\":\"ir.Op\",\"data\":\"tirx.x\"},\n" //
    NODE("ir.FloatImm", "\"dtype\":\"float16\",\"value\":-1.5e-3")                           //
    NODE("tirx.Call", "\"dtype\":\"handle\",\"op\":13,\"args\":12,\"annotations\":3")        //
    EVALUATE("15");

static void load_damaged(size_t size) {
  struct graph_load load;
  graph_load_text(&load, text, size);
  ck_assert((load.module != NULL) == (load.status == TS_OK));
  ck_assert_uint_eq(load.diags.items.count, load.status != TS_OK);
  if (load.module) ck_assert_ptr_nonnull(tir_print(&load.arena, load.module));
  graph_load_free(&load);
}

static size_t write_damaged(void) {
  graph_write(text, damaged_nodes, 6, 4);
  return strlen(text);
}

START_TEST(truncated_anywhere) {
  size_t size = write_damaged();
  struct graph_load whole;
  graph_load_text(&whole, text, size);
  ck_assert_int_eq(whole.status, TS_OK);
  graph_load_free(&whole);
  for (size_t cut = 0; cut + 2 < size; cut++) {
    struct graph_load load;
    graph_load_text(&load, text, cut);
    ck_assert_int_eq(load.status, TS_BAD_INPUT);
    ck_assert_uint_eq(load.diags.items.count, 1);
    graph_load_free(&load);
  }
}
END_TEST

START_TEST(bits_flipped_anywhere) {
  size_t size = write_damaged();
  for (size_t at = 0; at < size; at++) {
    for (int bit = 0; bit < 8; bit++) {
      text[at] = (char)(text[at] ^ 1 << bit);
      load_damaged(size);
      text[at] = (char)(text[at] ^ 1 << bit);
    }
  }
}
END_TEST

int main(void) {
  return RUN_TESTS("tvm_tir_errors", faults_of_nodes_are_named,
                   messages_say_function_source_and_position, other_texts_are_no_graphs,
                   json_nesting_is_bounded, node_nesting_is_bounded, sharing_is_bounded,
                   truncated_anywhere, bits_flipped_anywhere);
}
