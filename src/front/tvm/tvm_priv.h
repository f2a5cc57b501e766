/* Inside front/tvm: the JSON reader and the tables of the graph importer. */
#ifndef TS_FRONT_TVM_PRIV_H
#define TS_FRONT_TVM_PRIV_H

#include "base/intern.h"
#include "front/tvm/tir.h"

/* ---- JSON reader (json.c) ------------------------------------------------------------------- */

/* A cursor over the text, and where in the graph it is: every message says both. */
struct tir__reader {
  struct ts_ctx *ctx;
  const char *path;
  const char *text;
  size_t size, at;
  struct ts_intern strings;
  TS_VEC(char) scratch; /* the string being unescaped */
  bool in_node;
  uint32_t node;
  size_t node_at;                /* byte offset of the node */
  const char *node_type, *field; /* or NULL */
  const char *function;          /* name of the latest ir.GlobalVar, or NULL */
  struct ts_source_place source; /* the latest ir.Span */
};

/* A piece of the text or of the scratch buffer; valid until the next string is read. */
struct tir__slice {
  const char *text;
  size_t length;
};

/* Reports at byte offset `at`, prefixed by node, type and field, and returns the status. */
enum ts_status tir__fail_at(struct tir__reader *reader, size_t at, enum ts_status status,
                            enum ts_diag_code code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The next character after white space, which is not consumed; 0 at the end of the text. */
char tir__peek(struct tir__reader *reader);
/* What stands at the cursor, for "expected .., found ..": "a string", "the end of the text". */
const char *tir__found(struct tir__reader *reader);
/* Consumes the character or fails, saying what was expected. */
enum ts_status tir__expect(struct tir__reader *reader, char character, const char *expected);

/* Each reads one literal, after white space. */
enum ts_status tir__read_string(struct tir__reader *reader, struct tir__slice *out);
enum ts_status tir__read_interned(struct tir__reader *reader, const char **out);
enum ts_status tir__read_int(struct tir__reader *reader, int64_t *out);
enum ts_status tir__read_double(struct tir__reader *reader, double *out);
enum ts_status tir__read_bool(struct tir__reader *reader, bool *out);

/* Skips one value of any kind; nested at most TIR__JSON_DEPTH_LIMIT deep. */
enum { TIR__JSON_DEPTH_LIMIT = 64 };
enum ts_status tir__skip(struct tir__reader *reader);

/* After the opening bracket: consumes a comma or the closing bracket. *more says whether an item
 * follows; *first is true before the first item. */
enum ts_status tir__next_item(struct tir__reader *reader, char close, bool *first, bool *more);
/* The same in an object: also reads the key and the colon. */
enum ts_status tir__next_key(struct tir__reader *reader, bool *first, bool *more,
                             struct tir__slice *key);

/* A printable, shortened copy for messages. */
struct tir__quote {
  char text[52];
};
struct tir__quote tir__quote(struct tir__slice slice);

/* ---- Node table (tir_table.c) --------------------------------------------------------------- */

/* ROW(kind, what is expected, in words) */
#define TIR__FIELD_KINDS(ROW)                                                                      \
  ROW(INT64, "an integer")                                                                         \
  ROW(UINT32, "an integer of 0 to 4294967295")                                                     \
  ROW(DOUBLE, "a number")                                                                          \
  ROW(DTYPE, "a dtype")                                                                            \
  ROW(LOOP_KIND, "a loop kind of 0 to 4")                                                          \
  ROW(EXPR, "an expression")                                                                       \
  ROW(EXPR_OPT, "an expression or None")                                                           \
  ROW(STMT, "a statement")                                                                         \
  ROW(STMT_OPT, "a statement or None")                                                             \
  ROW(VAR, "a tirx.Var")                                                                           \
  ROW(BUFFER, "a tirx.Buffer")                                                                     \
  ROW(RANGE, "an ir.Range")                                                                        \
  ROW(RANGE_OPT, "an ir.Range or None")                                                            \
  ROW(ITER_VAR_OPT, "a tirx.IterVar or None")                                                      \
  ROW(BLOCK, "a tirx.SBlock")                                                                      \
  ROW(TYPE, "a type")                                                                              \
  ROW(MAP, "an ffi.Map")                                                                           \
  ROW(BUFFER_MAP, "an ffi.Map of tirx.Var to tirx.Buffer")                                         \
  ROW(ATTRS, "an ir.DictAttrs")                                                                    \
  ROW(STRING, "an ffi.String")                                                                     \
  ROW(OP, "an ir.Op")                                                                              \
  ROW(SOURCE, "an ir.SourceName")                                                                  \
  ROW(TARGET_KIND, "a target.TargetKind")                                                          \
  ROW(TARGET_OPT, "a target.Target or None")                                                       \
  ROW(PLACE, "an ir.Span or None")                                                                 \
  ROW(ANY, "a node")                                                                               \
  ROW(EXPRS, "an ffi.Array of expressions")                                                        \
  ROW(STMTS, "an ffi.Array of statements")                                                         \
  ROW(VARS, "an ffi.Array of tirx.Var")                                                            \
  ROW(BUFFERS, "an ffi.Array of tirx.Buffer")                                                      \
  ROW(RANGES, "an ffi.Array of ir.Range")                                                          \
  ROW(REGIONS, "an ffi.Array of tirx.BufferRegion")                                                \
  ROW(ITER_VARS, "an ffi.Array of tirx.IterVar")                                                   \
  ROW(TYPES, "an ffi.Array of types")                                                              \
  ROW(STRINGS, "an ffi.Array of ffi.String")                                                       \
  ROW(EMPTY, "an ffi.Array without items")                                                         \
  ROW(UNUSED, "a node")                                                                            \
  ROW(UNUSED_INT, "an integer")                                                                    \
  ROW(UNUSED_BOOL, "true or false")                                                                \
  ROW(UNUSED_DTYPE, "a dtype")

enum tir__field_kind {
#define ROW(kind, text) TIR__FIELD_##kind,
  TIR__FIELD_KINDS(ROW)
#undef ROW
};

struct tir__field_info {
  const char *name;
  enum tir__field_kind kind;
  size_t offset; /* of the member in the node's struct */
};

struct tir__node_info {
  const char *type;
  enum tir_value_kind value_kind;
  int subkind;          /* enum tir_expr_kind, tir_stmt_kind or tir_type_kind; -1 for others */
  size_t size_bytes;    /* of the node's struct */
  uint32_t first_field; /* the fields end where the next row's begin */
};

const struct tir__node_info *tir__node_info(enum tir_node_kind kind);
/* The number of fields, and the first of them. */
uint32_t tir__node_fields(enum tir_node_kind kind, const struct tir__field_info **fields);
const char *tir__field_kind_text(enum tir__field_kind kind);

struct tir__param_buffers {
  size_t count;
  const struct tir_param_buffer *items;
};

/* What some node types are decoded into: the public struct, and what it is finished from. */
struct tir__var_node {
  struct tir_expr expr;
  struct tir_var var;
};
struct tir__func_node {
  struct tir_func func;
  struct tir__param_buffers buffer_map;
};
struct tir__module_node {
  struct tir_module module;
  const struct tir_map *function_map;
};
struct tir__global_var {
  struct ts_source_place place;
  const char *name;
};
struct tir__attrs {
  const struct tir_map *map;
};
struct tir__plain {
  uint32_t node;
};

/* ---- Graph loader (graph.c, tir_fields.c, tir_finish.c) -------------------------------------- */

/* An array's or a map's items as what a field wants them to be; made at the first such field, so
 * that many users of one long array cost no more than one. */
struct tir__views {
  struct tir_exprs exprs;
  struct tir_stmts stmts;
  struct tir_vars vars;
  struct tir_buffers buffers;
  struct tir_ranges ranges;
  struct tir_regions regions;
  struct tir_iter_vars iter_vars;
  struct tir_types types;
  struct tir_strings strings;
  struct tir__param_buffers param_buffers; /* of a map */
};

struct tir__loaded {
  const struct tir_value *value;
  struct tir__views *views; /* of an array or a map, or NULL */
  uint32_t depth;           /* 1 for a node without children */
  uint32_t visit_count;     /* of a walk along every path; stops at TIR_VISIT_LIMIT + 1 */
};

enum { TIR__TYPE_SLOTS = 256, TIR__DTYPE_SLOTS = 64 };

struct tir__loader {
  struct tir__reader reader;
  struct ts_arena *arena;
  TS_VEC(struct tir__loaded) nodes;
  TS_VEC(const struct tir_value *) items;    /* of the array or map being read */
  uint8_t type_slots[TIR__TYPE_SLOTS];       /* hash of a type's name -> enum tir_node_kind + 1 */
  struct tir_dtype dtypes[TIR__DTYPE_SLOTS]; /* hash of an interned text -> dtype */
  uint32_t var_count, buffer_count;
  bool has_module;
  uint32_t depth, visit_count; /* of the children of the node being read */
};

/* Reads the index of an earlier node. `expected` is for the message. */
enum ts_status tir__read_index(struct tir__loader *loader, const char *expected,
                               struct tir__loaded **out);

/* Reads the value of a field and stores it at `to`, the member of the node's struct. */
enum ts_status tir__read_field(struct tir__loader *loader, enum tir__field_kind kind, void *to);

/* Completes the struct of a node whose fields are all there, checks it, and fills value. */
enum ts_status tir__finish(struct tir__loader *loader, enum tir_node_kind kind, void *object,
                           struct tir_value *value);

/* ---- Rules of form beyond the fields (tir_check.c) ------------------------------------------- */

/* NULL, or what is wrong with the node, in words: "a and b have different dtypes". */
const char *tir__check_expr(const struct tir_expr *expr);
const char *tir__check_stmt(const struct tir_stmt *stmt);
const char *tir__check_buffer(const struct tir_buffer *buffer);

#endif
