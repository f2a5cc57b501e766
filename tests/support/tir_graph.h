/* Small TVM node graphs as text, one node per line, for the tests of the importer. */
#ifndef TS_TESTS_TIR_GRAPH_H
#define TS_TESTS_TIR_GRAPH_H

#include "base/diag.h"
#include "front/tvm/tir.h"

#include <stdio.h>
#include <string.h>

/* Nodes that every graph begins with: 0 None, 1 "f", 2 the GlobalVar f, 3 an empty map, 4 empty
 * attrs, 5 an empty array, 6 the return type, 7 IntImm 7, 8 "i", 9 type int32, 10 Var i. The
 * nodes of a test follow from 11, one per line. The first node is on line 2. */
enum { GRAPH_FIRST_NODE = 11, GRAPH_FIRST_LINE = 2, GRAPH_BYTES = 1 << 16 };

#define GRAPH_HEAD                                                                                 \
  "{\"nodes\":[\n{\"type\":\"None\"},\n{\"type\":\"ffi.String\",\"data\":\"f\"},\n"                \
  "{\"type\":\"ir.GlobalVar\",\"data\":{\"span\":0,\"struct_info_\":0,\"name_hint\":1}},\n"        \
  "{\"type\":\"ffi.Map\",\"data\":[]},\n"                                                          \
  "{\"type\":\"ir.DictAttrs\",\"data\":{\"__dict__\":3}},\n"                                       \
  "{\"type\":\"ffi.Array\",\"data\":[]},\n"                                                        \
  "{\"type\":\"ir.TupleType\",\"data\":{\"span\":0,\"fields\":5}},\n"                              \
  "{\"type\":\"ir.IntImm\",\"data\":{\"span\":0,\"dtype\":\"int32\",\"value\":7}},\n"              \
  "{\"type\":\"ffi.String\",\"data\":\"i\"},\n"                                                    \
  "{\"type\":\"ir.PrimType\",\"data\":{\"span\":0,\"dtype\":\"int32\"}},\n"                        \
  "{\"type\":\"tirx.Var\",\"data\":{\"span\":0,\"dtype\":\"int32\",\"name\":8,"                    \
  "\"type_annotation\":9}},\n"

/* Writes a whole graph: `nodes` are the nodes from 11, each line ending in ",\n"; `count` of them,
 * the last one the function's body. attrs is the node of the function's attributes, mostly 4. */
static inline void graph_write(char *to, const char *nodes, unsigned count, unsigned attrs) {
  unsigned func = GRAPH_FIRST_NODE + count, body = func - 1;
  snprintf(to, GRAPH_BYTES,
           GRAPH_HEAD "%s"
                      "{\"type\":\"tirx.PrimFunc\",\"data\":{\"span\":0,\"struct_info_\":0,"
                      "\"attrs\":%u,\"params\":5,\"ret_type\":6,\"buffer_map\":3,\"body\":%u}},\n"
                      "{\"type\":\"ffi.Map\",\"data\":[2,%u]},\n"
                      "{\"type\":\"ir.SourceMap\",\"data\":{\"source_map\":3}},\n"
                      "{\"type\":\"ir.IRModule\",\"data\":{\"functions\":%u,\"global_var_map_\":3,"
                      "\"source_map\":%u,\"attrs\":4,\"global_infos\":3}}],\n\"root_index\":%u,\n"
                      "\"metadata\":{\"tvm_version\":\"0.25.dev0\"}}\n",
           nodes, attrs, body, func, func + 1, func + 2, func + 3);
}

/* A context, an arena and the result of one load. */
struct graph_load {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_arena arena;
  struct tir_module *module;
  enum ts_status status;
};

static inline void graph_load_init(struct graph_load *load, const struct ts_allocator *allocator) {
  load->ctx = (struct ts_ctx){allocator, &load->diags};
  load->module = NULL;
  load->status = ts_diag_list_init(&load->diags, allocator);
  ts_arena_init(&load->arena, allocator);
}

/* Loads a text that ends at its last byte, so that a sanitizer sees a read beyond it. */
static inline void graph_load_text(struct graph_load *load, const char *text, size_t size) {
  graph_load_init(load, &ts_allocator_libc);
  char *exact = ts_allocator_libc.resize(NULL, NULL, 0, size ? size : 1);
  if (size) memcpy(exact, text, size);
  load->status = tir_module_load(&load->ctx, &load->arena, "x.json", exact, size, &load->module);
  ts_allocator_libc.resize(NULL, exact, size ? size : 1, 0);
}

static inline void graph_load_free(struct graph_load *load) {
  ts_arena_free(&load->arena);
  ts_diag_list_free(&load->diags);
}

#endif
