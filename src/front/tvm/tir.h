/* The TIR tree: what a `tvm.ir.save_json` graph says, as C structs. Job: decode the graph and check
 * its form. Boundary: what an operator means, which attributes matter and how it all runs is
 * decided by whoever walks the tree (the lowering to IR, the host program).
 *
 * Everything lives in the arena given to tir_module_load and is read-only afterwards. The tree is a
 * graph without cycles: a node may have several parents. A variable or a buffer is the same one
 * when the pointers are equal; each also has a dense id, so that a side table is a plain array. The
 * tree may be walked recursively: its depth is at most TIR_DEPTH_LIMIT, and a walk along every path
 * visits at most TIR_VISIT_LIMIT nodes.
 *
 * Strings are interned per module: equal strings are equal pointers. Pointers that may be NULL say
 * so. `place` is where the Python source says the node came from, file == NULL when the graph does
 * not say (most expressions do not). `node` is the index in the graph, for messages. */
#ifndef TS_FRONT_TVM_TIR_H
#define TS_FRONT_TVM_TIR_H

#include "base/diag.h"
#include "num/dtype.h"

enum { TIR_DEPTH_LIMIT = 2000, TIR_VISIT_LIMIT = 1 << 24 };

/* TIR_VAR, TIR_INT_IMM, TIR_ADD ...: the first column of node.def. */
enum tir_expr_kind {
#define EXPR(tag, type) TIR_##tag,
#include "front/tvm/node.def"
  TIR_EXPR_KIND_COUNT
};

/* TIR_SEQ, TIR_FOR, TIR_BUFFER_STORE ... */
enum tir_stmt_kind {
#define STMT(tag, type) TIR_##tag,
#include "front/tvm/node.def"
  TIR_STMT_KIND_COUNT
};

/* TIR_PRIM_TYPE, TIR_POINTER_TYPE, TIR_TUPLE_TYPE */
enum tir_type_kind {
#define TYPE(tag, type) TIR_##tag,
#include "front/tvm/node.def"
  TIR_TYPE_KIND_COUNT
};

/* TIR_NODE_ADD, TIR_NODE_FOR, TIR_NODE_MAP ...: all of them. */
enum tir_node_kind {
#define NODE(tag, type, class) TIR_NODE_##tag,
#include "front/tvm/node.def"
  TIR_NODE_KIND_COUNT
};

/* "float16x8" is {TS_DTYPE_f16, 8, ..}; void ("") is {TS_DTYPE_NONE, 1, ""}. Equal dtypes have
 * equal text pointers within a module. */
struct tir_dtype {
  enum ts_dtype elem;
  uint32_t lanes;
  const char *text;
};

struct tir_value;

/* Lists; items is NULL when count is 0. */
struct tir_exprs {
  size_t count;
  const struct tir_expr *const *items;
};
struct tir_stmts {
  size_t count;
  const struct tir_stmt *const *items;
};
struct tir_vars {
  size_t count;
  const struct tir_var *const *items;
};
struct tir_buffers {
  size_t count;
  const struct tir_buffer *const *items;
};
struct tir_ranges {
  size_t count;
  const struct tir_range *const *items;
};
struct tir_regions {
  size_t count;
  const struct tir_region *const *items;
};
struct tir_iter_vars {
  size_t count;
  const struct tir_iter_var *const *items;
};
struct tir_types {
  size_t count;
  const struct tir_type *const *items;
};
struct tir_strings {
  size_t count;
  const char *const *items;
};
struct tir_values {
  size_t count;
  const struct tir_value *const *items;
};

struct tir_map_entry {
  const struct tir_value *key, *value;
};
struct tir_map {
  size_t count;
  const struct tir_map_entry *entries; /* in the file's order */
};

struct tir_type {
  enum tir_type_kind kind;
  uint32_t node;
  struct ts_source_place place;
  struct tir_dtype dtype;         /* PRIM_TYPE */
  const struct tir_type *element; /* POINTER_TYPE */
  const char *scope;              /* POINTER_TYPE: "global", "shared.dyn", ""... */
  struct tir_types fields;        /* TUPLE_TYPE */
};

struct tir_var {
  uint32_t id; /* 0 .. module->var_count - 1 */
  uint32_t node;
  const char *name; /* not unique */
  struct tir_dtype dtype;
  const struct tir_type *type;
  /* Of a pointer; {NONE, 1, ""} and NULL otherwise. A scope of "" is given as "global". */
  struct tir_dtype elem_dtype;
  const char *scope;
};

struct tir_range {
  uint32_t node;
  struct ts_source_place place;
  const struct tir_expr *min, *extent;
};

struct tir_iter_var {
  uint32_t node;
  uint32_t iter_type; /* TVM's IterVarType: 0 data parallel, 1 thread index, 2 reduction ... */
  const struct tir_range *domain; /* or NULL */
  const struct tir_var *var;
  const char *thread_tag; /* "threadIdx.x", or "" */
};

struct tir_buffer {
  uint32_t id; /* 0 .. module->buffer_count - 1 */
  uint32_t node;
  struct ts_source_place place;
  const char *name; /* not unique */
  const struct tir_var *data;
  const char *scope; /* that of data, never NULL */
  struct tir_dtype dtype;
  struct tir_exprs shape, strides; /* strides: none means row-major */
  struct tir_exprs axis_separators;
  const struct tir_expr *elem_offset; /* or NULL */
  uint32_t alignment_bytes, offset_factor, buffer_type;
};

struct tir_region {
  uint32_t node;
  const struct tir_buffer *buffer;
  struct tir_ranges ranges;
};

/* tl.Layout and tl.Fragment: index expressions over placeholder variables known by name only:
 * "_i", "_j", "_k" ... in the order of input_size, and "_rep" for the replicate index. */
struct tir_layout {
  uint32_t node;
  bool is_fragment;
  struct tir_exprs input_size, forward_index;
  const struct tir_expr *forward_thread, *replicate_size; /* fragment, else NULL */
  const struct tir_range *thread_range;                   /* fragment; or NULL */
};

struct tir_expr {
  enum tir_expr_kind kind;
  uint32_t node;
  struct tir_dtype dtype;
  struct ts_source_place place;
  union {
    const struct tir_var *var; /* VAR, SIZE_VAR */
    int64_t int_value;         /* INT_IMM; unsigned types too, bool is 0 or 1 */
    double float_value;        /* FLOAT_IMM; may be infinite or NaN */
    const char *string;        /* STRING_IMM */
    struct {
      const struct tir_expr *a, *b; /* ADD .. OR; NOT has a only */
    };
    struct {
      const struct tir_expr *condition, *true_value, *false_value;
    } select;
    struct {
      const struct tir_expr *value;
      const struct tir_map *annotations;
    } cast;
    struct {
      const struct tir_buffer *buffer;
      struct tir_exprs indices;
      const struct tir_expr *predicate; /* or NULL */
    } load;
    struct {
      const struct tir_expr *base, *stride, *lanes;
    } ramp;
    struct {
      const struct tir_expr *value, *lanes;
    } broadcast;
    struct {
      struct tir_exprs vectors, indices;
    } shuffle;
    struct {
      const char *op; /* "tl.tma_load", interned; not judged here */
      struct tir_exprs args;
      const struct tir_map *annotations;
    } call;
  };
};

enum tir_loop_kind {
  TIR_LOOP_SERIAL,
  TIR_LOOP_PARALLEL,
  TIR_LOOP_VECTORIZED,
  TIR_LOOP_UNROLLED,
  TIR_LOOP_THREAD_BINDING,
  TIR_LOOP_KIND_COUNT
};

struct tir_stmt {
  enum tir_stmt_kind kind;
  uint32_t node;
  struct ts_source_place place;
  union {
    struct tir_stmts seq; /* SEQ */
    struct {
      const struct tir_var *var;
      const struct tir_expr *min, *extent;
      enum tir_loop_kind kind;
      const struct tir_stmt *body;
      const struct tir_iter_var *thread_binding; /* or NULL */
      const struct tir_map *annotations;
      const struct tir_expr *step; /* or NULL: 1 */
    } loop;                        /* FOR */
    struct {
      const struct tir_expr *condition;
      const struct tir_stmt *body;
    } repeat; /* WHILE */
    struct {
      const struct tir_expr *condition;
      const struct tir_stmt *then_case;
      const struct tir_stmt *else_case; /* or NULL */
    } branch;                           /* IF */
    struct {
      const struct tir_value *node; /* never NULL; TIR_VALUE_NONE when the graph has None */
      const char *key;
      const struct tir_expr *value;
      const struct tir_stmt *body;
    } attr; /* ATTR */
    struct {
      const struct tir_var *var; /* visible to the end of the enclosing sequence */
      const struct tir_expr *value;
    } bind; /* BIND */
    struct {
      const struct tir_buffer *buffer; /* visible to the end of the enclosing sequence */
      const struct tir_map *annotations;
    } alloc; /* ALLOC_BUFFER */
    struct {
      const struct tir_buffer *buffer; /* likewise */
    } decl;                            /* DECL_BUFFER */
    struct {
      const struct tir_buffer *buffer;
      const struct tir_expr *value;
      struct tir_exprs indices;
      const struct tir_expr *predicate; /* or NULL */
    } store;                            /* BUFFER_STORE */
    struct {
      const struct tir_expr *value;
    } evaluate; /* EVALUATE */
    struct {
      const struct tir_expr *condition;
      const struct tir_expr *error_kind; /* a STRING_IMM: "RuntimeError" */
      struct tir_exprs message_parts;    /* STRING_IMMs, to be joined */
    } assertion;                         /* ASSERT */
    struct {
      const char *name;
      struct tir_iter_vars iter_vars;
      struct tir_regions reads, writes;
      struct tir_buffers alloc_buffers;
      const struct tir_map *annotations;
      const struct tir_stmt *init; /* or NULL */
      const struct tir_stmt *body;
    } block; /* BLOCK */
    struct {
      struct tir_exprs iter_values;
      const struct tir_expr *predicate;
      const struct tir_stmt *block; /* a BLOCK */
    } realize;                      /* BLOCK_REALIZE */
  };
};

struct tir_target {
  uint32_t node;
  const char *kind; /* "cuda", "c" */
  const char *tag;
  struct tir_strings keys;
  const struct tir_map *attrs;
  const struct tir_target *host; /* or NULL */
};

struct tir_param_buffer {
  const struct tir_var *param;
  const struct tir_buffer *buffer;
};

struct tir_func {
  uint32_t node;
  struct ts_source_place place;
  const char *name; /* the attribute global_symbol, else the GlobalVar's name */
  struct tir_vars params;
  const struct tir_type *return_type;
  size_t buffer_map_count;
  const struct tir_param_buffer *buffer_map;
  const struct tir_map *attrs; /* never NULL */
  const struct tir_stmt *body;
};

struct tir_module {
  size_t func_count;
  const struct tir_func *const *funcs; /* in the file's order */
  const struct tir_map *attrs;         /* never NULL */
  uint32_t node_count, var_count, buffer_count;
  const char *tvm_version; /* from the file's metadata, or NULL */
  const char *path;        /* as given to tir_module_load */
};

/* A node of any type: what attributes, annotations and AttrStmt nodes hold. */
enum tir_value_kind {
  TIR_VALUE_NONE,
  TIR_VALUE_BOOL,
  TIR_VALUE_INT,
  TIR_VALUE_FLOAT,
  TIR_VALUE_STRING,
  TIR_VALUE_ARRAY,
  TIR_VALUE_MAP,
  TIR_VALUE_EXPR, /* IntImm, StringImm, Var ... */
  TIR_VALUE_STMT,
  TIR_VALUE_TYPE,
  TIR_VALUE_BUFFER,
  TIR_VALUE_RANGE,
  TIR_VALUE_REGION,
  TIR_VALUE_ITER_VAR,
  TIR_VALUE_LAYOUT,
  TIR_VALUE_OP,          /* string */
  TIR_VALUE_SOURCE,      /* string: a source file's name */
  TIR_VALUE_TARGET_KIND, /* string */
  TIR_VALUE_PLACE,
  TIR_VALUE_GLOBAL_VAR, /* string: a function's name */
  TIR_VALUE_ATTRS,      /* map */
  TIR_VALUE_TARGET,
  TIR_VALUE_FUNC,
  TIR_VALUE_MODULE,
  TIR_VALUE_UNUSED, /* checked and dropped: relax.*, ir.SourceMap */
  TIR_VALUE_KIND_COUNT
};

struct tir_value {
  enum tir_value_kind kind;
  enum tir_node_kind node_kind;
  uint32_t node;
  union {
    bool boolean;
    int64_t integer;
    double number;
    const char *string;
    struct tir_values array;
    const struct tir_map *map;
    const struct tir_expr *expr;
    const struct tir_stmt *stmt;
    const struct tir_type *type;
    const struct tir_buffer *buffer;
    const struct tir_range *range;
    const struct tir_region *region;
    const struct tir_iter_var *iter_var;
    const struct tir_layout *layout;
    const struct ts_source_place *place;
    const struct tir_target *target;
    const struct tir_func *func;
    const struct tir_module *module;
  };
};

/* Decodes text (size bytes; no NUL needed). path is for messages only. On failure the status is
 * TS_BAD_INPUT (the text is not such a graph), TS_UNSUPPORTED (a node type, field or dtype that is
 * not known) or TS_NO_MEMORY, the story is in ctx->diags, and *out is NULL. */
enum ts_status tir_module_load(struct ts_ctx *ctx, struct ts_arena *arena, const char *path,
                               const char *text, size_t size, struct tir_module **out);

/* The function of that name, or NULL. */
const struct tir_func *tir_module_find(const struct tir_module *module, const char *name);

/* TVM's name of the node type: "tirx.Add". */
const char *tir_node_kind_text(enum tir_node_kind kind);
const char *tir_expr_kind_text(enum tir_expr_kind kind);
const char *tir_stmt_kind_text(enum tir_stmt_kind kind);
const char *tir_value_kind_text(enum tir_value_kind kind); /* "string", "expression" ... */

/* The value of a string key, or NULL. Compares text: name need not be interned. */
const struct tir_value *tir_map_find(const struct tir_map *map, const char *name);

/* Plain data out of a value. An integer may be boxed, a bool or an IntImm; a string may be an
 * ffi.String or a StringImm. False resp. NULL when value is NULL or something else. */
bool tir_value_int(const struct tir_value *value, int64_t *out);
const char *tir_value_string(const struct tir_value *value);
/* The expression, or NULL. */
const struct tir_expr *tir_value_expr(const struct tir_value *value);

/* True, and the value, when expr is an IntImm. */
static inline bool tir_expr_int(const struct tir_expr *expr, int64_t *out) {
  if (expr->kind != TIR_INT_IMM) return false;
  *out = expr->int_value;
  return true;
}

/* The string of a StringImm, else NULL. */
static inline const char *tir_expr_string(const struct tir_expr *expr) {
  return expr->kind == TIR_STRING_IMM ? expr->string : NULL;
}

/* Script-like text of the module, an expression or a statement, close to what TVM prints; for
 * reading, messages and tests. In the arena, or NULL when memory is short. */
const char *tir_print(struct ts_arena *arena, const struct tir_module *module);
const char *tir_print_stmt(struct ts_arena *arena, const struct tir_stmt *stmt);
const char *tir_print_expr(struct ts_arena *arena, const struct tir_expr *expr);

#endif
