/* TIR trees made in C, for the tests of the lowering: one function whose nodes come from a static
 * pool. make_begin() empties the pool. */
#ifndef TS_TESTS_TIR_MAKE_H
#define TS_TESTS_TIR_MAKE_H

#include "front/tvm/tir.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAKE_POOL = 512, MAKE_LIST = 16 };

struct make_pool {
  struct tir_expr exprs[MAKE_POOL];
  struct tir_stmt stmts[MAKE_POOL];
  struct tir_var vars[MAKE_POOL];
  struct tir_buffer buffers[MAKE_POOL];
  const struct tir_expr *expr_lists[MAKE_POOL][MAKE_LIST];
  const struct tir_stmt *stmt_lists[MAKE_POOL][MAKE_LIST];
  uint32_t expr_count, stmt_count, var_count, buffer_count, list_count;
};

static struct make_pool make_pool;
static const struct tir_map make_no_map;
static const struct ts_source_place make_place = {"kernel.py", 42, 1};

static inline void make_begin(void) { memset(&make_pool, 0, sizeof make_pool); }

/* "float16x8" */
static inline struct tir_dtype make_dtype(const char *text) {
  const char *x = strrchr(text, 'x');
  size_t length = x ? (size_t)(x - text) : strlen(text);
  struct tir_dtype dtype = {ts_dtype_from_tvm(text, length), 1, text};
  if (x) dtype.lanes = (uint32_t)atoi(x + 1);
  return dtype;
}

static inline struct tir_expr *make_expr(enum tir_expr_kind kind, const char *dtype) {
  struct tir_expr *expr = &make_pool.exprs[make_pool.expr_count++];
  expr->kind = kind;
  expr->dtype = make_dtype(dtype);
  return expr;
}

static inline struct tir_exprs make_exprs(size_t count, va_list arguments) {
  const struct tir_expr **list = make_pool.expr_lists[make_pool.list_count++];
  for (size_t i = 0; i < count; i++)
    list[i] = va_arg(arguments, const struct tir_expr *);
  return (struct tir_exprs){count, count ? list : NULL};
}

static inline const struct tir_expr *make_int(const char *dtype, int64_t value) {
  struct tir_expr *expr = make_expr(TIR_INT_IMM, dtype);
  expr->int_value = value;
  return expr;
}
static inline const struct tir_expr *make_float(const char *dtype, double value) {
  struct tir_expr *expr = make_expr(TIR_FLOAT_IMM, dtype);
  expr->float_value = value;
  return expr;
}
static inline const struct tir_expr *make_string(const char *text) {
  struct tir_expr *expr = make_expr(TIR_STRING_IMM, "handle");
  expr->string = text;
  return expr;
}

/* A scalar, or with elem_dtype a pointer of that scope. */
static inline const struct tir_var *make_var(const char *name, const char *dtype,
                                             const char *elem_dtype, const char *scope) {
  struct tir_var *var = &make_pool.vars[make_pool.var_count];
  var->id = make_pool.var_count++;
  var->name = name;
  var->dtype = make_dtype(dtype);
  var->elem_dtype = (struct tir_dtype){TS_DTYPE_NONE, 1, ""};
  if (elem_dtype) var->elem_dtype = make_dtype(elem_dtype);
  var->scope = scope;
  return var;
}
static inline const struct tir_expr *make_use(const struct tir_var *var) {
  struct tir_expr *expr = make_expr(TIR_VAR, var->dtype.text);
  expr->var = var;
  return expr;
}
static inline const struct tir_expr *make_binary(enum tir_expr_kind kind, const char *dtype,
                                                 const struct tir_expr *a,
                                                 const struct tir_expr *b) {
  struct tir_expr *expr = make_expr(kind, dtype);
  expr->a = a;
  expr->b = b;
  return expr;
}
static inline const struct tir_expr *make_cast(const char *dtype, const struct tir_expr *value) {
  struct tir_expr *expr = make_expr(TIR_CAST, dtype);
  expr->cast.value = value;
  expr->cast.annotations = &make_no_map;
  return expr;
}
static inline const struct tir_expr *make_ramp(const char *dtype, const struct tir_expr *base,
                                               int64_t stride, int64_t lanes) {
  struct tir_expr *expr = make_expr(TIR_RAMP, dtype);
  expr->ramp.base = base;
  expr->ramp.stride = make_int("int32", stride);
  expr->ramp.lanes = make_int("int32", lanes);
  return expr;
}
/* count arguments of type const struct tir_expr * */
static inline const struct tir_expr *make_call(const char *dtype, const char *op, size_t count,
                                               ...) {
  va_list arguments;
  struct tir_expr *expr = make_expr(TIR_CALL, dtype);
  va_start(arguments, count);
  expr->call.args = make_exprs(count, arguments);
  va_end(arguments);
  expr->call.op = op;
  expr->call.annotations = &make_no_map;
  return expr;
}

/* --- buffers */
static inline const struct tir_buffer *make_buffer(const struct tir_var *data, const char *dtype,
                                                   int64_t extent) {
  struct tir_buffer *buffer = &make_pool.buffers[make_pool.buffer_count];
  const struct tir_expr **shape = make_pool.expr_lists[make_pool.list_count++];
  shape[0] = make_int("int32", extent);
  buffer->id = make_pool.buffer_count++;
  buffer->name = data->name;
  buffer->data = data;
  buffer->scope = data->scope;
  buffer->dtype = make_dtype(dtype);
  buffer->shape = (struct tir_exprs){1, shape};
  return buffer;
}
static inline struct tir_exprs make_index(const struct tir_expr *index) {
  const struct tir_expr **list = make_pool.expr_lists[make_pool.list_count++];
  list[0] = index;
  return (struct tir_exprs){1, list};
}
static inline const struct tir_expr *make_load(const char *dtype, const struct tir_buffer *buffer,
                                               const struct tir_expr *index) {
  struct tir_expr *expr = make_expr(TIR_BUFFER_LOAD, dtype);
  expr->load.buffer = buffer;
  expr->load.indices = make_index(index);
  return expr;
}

/* --- statements */
static inline struct tir_stmt *make_stmt(enum tir_stmt_kind kind) {
  struct tir_stmt *stmt = &make_pool.stmts[make_pool.stmt_count++];
  stmt->kind = kind;
  stmt->place = make_place;
  return stmt;
}
static inline const struct tir_stmt *make_store(const struct tir_buffer *buffer,
                                                const struct tir_expr *index,
                                                const struct tir_expr *value) {
  struct tir_stmt *stmt = make_stmt(TIR_BUFFER_STORE);
  stmt->store.buffer = buffer;
  stmt->store.indices = make_index(index);
  stmt->store.value = value;
  return stmt;
}
static inline const struct tir_stmt *make_evaluate(const struct tir_expr *value) {
  struct tir_stmt *stmt = make_stmt(TIR_EVALUATE);
  stmt->evaluate.value = value;
  return stmt;
}
static inline const struct tir_stmt *make_alloc(const struct tir_buffer *buffer) {
  struct tir_stmt *stmt = make_stmt(TIR_ALLOC_BUFFER);
  stmt->alloc.buffer = buffer;
  stmt->alloc.annotations = &make_no_map;
  return stmt;
}
static inline const struct tir_stmt *make_for(enum tir_loop_kind kind, const struct tir_var *var,
                                              const struct tir_expr *extent,
                                              const struct tir_stmt *body) {
  struct tir_stmt *stmt = make_stmt(TIR_FOR);
  stmt->loop.var = var;
  stmt->loop.min = make_int("int32", 0);
  stmt->loop.extent = extent;
  stmt->loop.kind = kind;
  stmt->loop.body = body;
  stmt->loop.annotations = &make_no_map;
  return stmt;
}
static inline const struct tir_stmt *make_if(const struct tir_expr *condition,
                                             const struct tir_stmt *then_case) {
  struct tir_stmt *stmt = make_stmt(TIR_IF);
  stmt->branch.condition = condition;
  stmt->branch.then_case = then_case;
  return stmt;
}
static inline const struct tir_stmt *make_attr(const char *key, const struct tir_value *node,
                                               const struct tir_expr *value,
                                               const struct tir_stmt *body) {
  struct tir_stmt *stmt = make_stmt(TIR_ATTR);
  stmt->attr.key = key;
  stmt->attr.node = node;
  stmt->attr.value = value;
  stmt->attr.body = body;
  return stmt;
}
static inline const struct tir_stmt *make_seq(size_t count, ...) {
  va_list arguments;
  struct tir_stmt *stmt = make_stmt(TIR_SEQ);
  const struct tir_stmt **list = make_pool.stmt_lists[make_pool.list_count++];
  va_start(arguments, count);
  for (size_t i = 0; i < count; i++)
    list[i] = va_arg(arguments, const struct tir_stmt *);
  va_end(arguments);
  stmt->seq = (struct tir_stmts){count, list};
  return stmt;
}

#endif
