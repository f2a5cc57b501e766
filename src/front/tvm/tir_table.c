/* node.def as tables: node types, their fields, and the words for both. */
#include "front/tvm/tvm_priv.h"

/* The struct of each class; VARIABLE nodes have one of their own. */
#define STRUCT_NONE tir__plain
#define STRUCT_BOOL tir__plain
#define STRUCT_INT tir__plain
#define STRUCT_FLOAT tir__plain
#define STRUCT_STRING tir__plain
#define STRUCT_ARRAY tir__plain
#define STRUCT_MAP tir__plain
#define STRUCT_OP tir__plain
#define STRUCT_SOURCE tir__plain
#define STRUCT_TARGET_KIND tir__plain
#define STRUCT_UNUSED tir__plain
#define STRUCT_PLACE ts_source_place
#define STRUCT_EXPR tir_expr
#define STRUCT_STMT tir_stmt
#define STRUCT_TYPE tir_type
#define STRUCT_BUFFER tir_buffer
#define STRUCT_RANGE tir_range
#define STRUCT_REGION tir_region
#define STRUCT_ITER_VAR tir_iter_var
#define STRUCT_LAYOUT tir_layout
#define STRUCT_GLOBAL_VAR tir__global_var
#define STRUCT_ATTRS tir__attrs
#define STRUCT_TARGET tir_target
#define STRUCT_FUNC tir__func_node
#define STRUCT_MODULE tir__module_node

/* ADD_node names the struct that holds a tirx.Add: what FIELD rows need for their offsets. */
#define NODE(tag, type, class) typedef struct STRUCT_##class tag##_node;
#define VARIABLE(tag, type) typedef struct tir__var_node tag##_node;
#include "front/tvm/node.def"

static const struct tir__field_info field_table[] = {
#define FIELD(tag, name, kind, member) {#name, TIR__FIELD_##kind, offsetof(tag##_node, member)},
#include "front/tvm/node.def"
};

/* FIRST_ADD is the index of ADD's first row: each NODE takes the number its first field repeats. */
enum {
#define NODE(tag, type, class) FIRST_##tag, BEFORE_##tag = FIRST_##tag - 1,
#define FIELD(tag, name, kind, member) INDEX_##tag##_##name,
#include "front/tvm/node.def"
  FIELD_COUNT
};
_Static_assert(sizeof field_table / sizeof field_table[0] == FIELD_COUNT, "one index per row");

#define ROW(tag, type, class, subkind)                                                             \
  {type, TIR_VALUE_##class, subkind, sizeof(tag##_node), FIRST_##tag},
static const struct tir__node_info node_table[] = {
#define NODE(tag, type, class) ROW(tag, type, class, -1)
#define EXPR(tag, type) ROW(tag, type, EXPR, TIR_##tag)
#define STMT(tag, type) ROW(tag, type, STMT, TIR_##tag)
#define TYPE(tag, type) ROW(tag, type, TYPE, TIR_##tag)
#include "front/tvm/node.def"
    {NULL, TIR_VALUE_NONE, -1, 0, FIELD_COUNT}, /* ends the last node's fields */
};
#undef ROW

static const char *const field_kind_table[] = {
#define ROW(kind, text) text,
    TIR__FIELD_KINDS(ROW)
#undef ROW
};

static const char *const expr_kind_table[] = {
#define EXPR(tag, type) type,
#include "front/tvm/node.def"
};

static const char *const stmt_kind_table[] = {
#define STMT(tag, type) type,
#include "front/tvm/node.def"
};

static const char *const value_kind_table[TIR_VALUE_KIND_COUNT] = {
    [TIR_VALUE_NONE] = "None",
    [TIR_VALUE_BOOL] = "a bool",
    [TIR_VALUE_INT] = "an int",
    [TIR_VALUE_FLOAT] = "a float",
    [TIR_VALUE_STRING] = "an ffi.String",
    [TIR_VALUE_ARRAY] = "an ffi.Array",
    [TIR_VALUE_MAP] = "an ffi.Map",
    [TIR_VALUE_EXPR] = "an expression",
    [TIR_VALUE_STMT] = "a statement",
    [TIR_VALUE_TYPE] = "a type",
    [TIR_VALUE_BUFFER] = "a tirx.Buffer",
    [TIR_VALUE_RANGE] = "an ir.Range",
    [TIR_VALUE_REGION] = "a tirx.BufferRegion",
    [TIR_VALUE_ITER_VAR] = "a tirx.IterVar",
    [TIR_VALUE_LAYOUT] = "a layout",
    [TIR_VALUE_OP] = "an ir.Op",
    [TIR_VALUE_SOURCE] = "an ir.SourceName",
    [TIR_VALUE_TARGET_KIND] = "a target.TargetKind",
    [TIR_VALUE_PLACE] = "an ir.Span",
    [TIR_VALUE_GLOBAL_VAR] = "an ir.GlobalVar",
    [TIR_VALUE_ATTRS] = "an ir.DictAttrs",
    [TIR_VALUE_TARGET] = "a target.Target",
    [TIR_VALUE_FUNC] = "a tirx.PrimFunc",
    [TIR_VALUE_MODULE] = "an ir.IRModule",
    [TIR_VALUE_UNUSED] = "a relax node",
};

const struct tir__node_info *tir__node_info(enum tir_node_kind kind) { return &node_table[kind]; }

uint32_t tir__node_fields(enum tir_node_kind kind, const struct tir__field_info **fields) {
  *fields = &field_table[node_table[kind].first_field];
  return node_table[kind + 1].first_field - node_table[kind].first_field;
}

const char *tir__field_kind_text(enum tir__field_kind kind) { return field_kind_table[kind]; }

const char *tir_node_kind_text(enum tir_node_kind kind) {
  return (unsigned)kind < TIR_NODE_KIND_COUNT ? node_table[kind].type : "?";
}

const char *tir_expr_kind_text(enum tir_expr_kind kind) {
  return (unsigned)kind < TIR_EXPR_KIND_COUNT ? expr_kind_table[kind] : "?";
}

const char *tir_stmt_kind_text(enum tir_stmt_kind kind) {
  return (unsigned)kind < TIR_STMT_KIND_COUNT ? stmt_kind_table[kind] : "?";
}

const char *tir_value_kind_text(enum tir_value_kind kind) {
  const char *text = (unsigned)kind < TIR_VALUE_KIND_COUNT ? value_kind_table[kind] : NULL;
  return text ? text : "?";
}
