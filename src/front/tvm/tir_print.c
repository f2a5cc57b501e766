/* The tree as script-like text. Job: reading it, quoting it in messages. Not a format: two
 * different variables of one name print alike. */
#include "front/tvm/tir.h"

#include <stdio.h>
#include <string.h>

/* A tree of TIR_VISIT_LIMIT nodes would be gigabytes of text. */
enum { PRINT_LIMIT_BYTES = 64 << 20, NUMBER_BYTES = 48 };

struct printer {
  TS_VEC(char) text;
  const struct ts_allocator *allocator;
  bool out_of_memory;
  int indent;
};

static void print_expr(struct printer *printer, const struct tir_expr *expr, int outer);
static void print_stmt(struct printer *printer, const struct tir_stmt *stmt);

static bool is_full(const struct printer *printer) {
  return printer->out_of_memory || printer->text.count >= PRINT_LIMIT_BYTES;
}

static void put_bytes(struct printer *printer, const char *text, size_t length) {
  if (is_full(printer)) return;
  if (ts_vec_reserve(&printer->text, printer->allocator, length + 1)) {
    printer->out_of_memory = true;
    return;
  }
  memcpy(printer->text.data + printer->text.count, text, length);
  printer->text.count += length;
}

static void put(struct printer *printer, const char *text) {
  put_bytes(printer, text, strlen(text));
}

static void put_int(struct printer *printer, int64_t value) {
  char text[NUMBER_BYTES];
  snprintf(text, sizeof text, "%lld", (long long)value);
  put(printer, text);
}

/* The decimal point is a point in every locale. */
static void put_double(struct printer *printer, double value) {
  char text[NUMBER_BYTES];
  snprintf(text, sizeof text, "%.17g", value);
  for (char *c = text; *c; c++) {
    if (*c == ',') *c = '.';
  }
  put(printer, text);
}

static void put_quoted(struct printer *printer, const char *text) {
  put(printer, "\"");
  for (const char *c = text; *c; c++) {
    if (*c == '"' || *c == '\\') put(printer, "\\");
    if (*c == '\n') {
      put(printer, "\\n");
    } else {
      put_bytes(printer, c, 1);
    }
  }
  put(printer, "\"");
}

static void put_line(struct printer *printer) {
  put(printer, "\n");
  for (int i = 0; i < printer->indent; i++)
    put(printer, "    ");
}

/* ---- Lists and values ---- */

static void print_exprs(struct printer *printer, struct tir_exprs exprs) {
  for (size_t i = 0; i < exprs.count && !is_full(printer); i++) {
    if (i) put(printer, ", ");
    print_expr(printer, exprs.items[i], 0);
  }
}

static void print_value(struct printer *printer, const struct tir_value *value);

static void print_values(struct printer *printer, struct tir_values values) {
  put(printer, "[");
  for (size_t i = 0; i < values.count && !is_full(printer); i++) {
    if (i) put(printer, ", ");
    print_value(printer, values.items[i]);
  }
  put(printer, "]");
}

static void print_map(struct printer *printer, const struct tir_map *map) {
  put(printer, "{");
  for (size_t i = 0; i < map->count && !is_full(printer); i++) {
    if (i) put(printer, ", ");
    print_value(printer, map->entries[i].key);
    put(printer, ": ");
    print_value(printer, map->entries[i].value);
  }
  put(printer, "}");
}

static void print_annotations(struct printer *printer, const struct tir_map *map) {
  if (map->count == 0) return;
  char last = printer->text.count ? printer->text.data[printer->text.count - 1] : '(';
  put(printer, last == '(' ? "annotations=" : ", annotations=");
  print_map(printer, map);
}

static void print_range(struct printer *printer, const struct tir_range *range) {
  put(printer, "T.Range(");
  print_expr(printer, range->min, 0);
  put(printer, ", extent=");
  print_expr(printer, range->extent, 0);
  put(printer, ")");
}

static void print_region(struct printer *printer, const struct tir_region *region) {
  put(printer, region->buffer->name);
  put(printer, "[");
  for (size_t i = 0; i < region->ranges.count && !is_full(printer); i++) {
    if (i) put(printer, ", ");
    print_range(printer, region->ranges.items[i]);
  }
  put(printer, "]");
}

static void print_layout(struct printer *printer, const struct tir_layout *layout) {
  put(printer, layout->is_fragment ? "T.Fragment([" : "T.Layout([");
  print_exprs(printer, layout->input_size);
  put(printer, "], index=[");
  print_exprs(printer, layout->forward_index);
  put(printer, "]");
  if (layout->is_fragment) {
    put(printer, ", thread=");
    print_expr(printer, layout->forward_thread, 0);
    put(printer, ", replicate=");
    print_expr(printer, layout->replicate_size, 0);
  }
  put(printer, ")");
}

static void print_value(struct printer *printer, const struct tir_value *value) {
  switch (value->kind) {
  case TIR_VALUE_NONE: put(printer, "None"); break;
  case TIR_VALUE_BOOL: put(printer, value->boolean ? "True" : "False"); break;
  case TIR_VALUE_INT: put_int(printer, value->integer); break;
  case TIR_VALUE_FLOAT: put_double(printer, value->number); break;
  case TIR_VALUE_STRING:
  case TIR_VALUE_OP:
  case TIR_VALUE_SOURCE:
  case TIR_VALUE_TARGET_KIND:
  case TIR_VALUE_GLOBAL_VAR: put_quoted(printer, value->string); break;
  case TIR_VALUE_ARRAY: print_values(printer, value->array); break;
  case TIR_VALUE_MAP:
  case TIR_VALUE_ATTRS: print_map(printer, value->map); break;
  case TIR_VALUE_EXPR: print_expr(printer, value->expr, 0); break;
  case TIR_VALUE_BUFFER: put(printer, value->buffer->name); break;
  case TIR_VALUE_RANGE: print_range(printer, value->range); break;
  case TIR_VALUE_REGION: print_region(printer, value->region); break;
  case TIR_VALUE_LAYOUT: print_layout(printer, value->layout); break;
  case TIR_VALUE_ITER_VAR:
    put(printer, value->iter_var->var->name);
    put(printer, "@");
    put(printer, value->iter_var->thread_tag);
    break;
  case TIR_VALUE_TARGET:
    put(printer, "T.target(");
    put_quoted(printer, value->target->kind);
    put(printer, ", ");
    print_map(printer, value->target->attrs);
    put(printer, ")");
    break;
  default:
    put(printer, "<");
    put(printer, tir_node_kind_text(value->node_kind));
    put(printer, ">");
  }
}

/* ---- Expressions ---- */

struct infix {
  const char *text; /* NULL: a call */
  int level;        /* binds tighter when higher */
};

static struct infix infix_of(enum tir_expr_kind kind) {
  switch (kind) {
  case TIR_OR: return (struct infix){" or ", 1};
  case TIR_AND: return (struct infix){" and ", 2};
  case TIR_EQ: return (struct infix){" == ", 4};
  case TIR_NE: return (struct infix){" != ", 4};
  case TIR_LT: return (struct infix){" < ", 4};
  case TIR_LE: return (struct infix){" <= ", 4};
  case TIR_GT: return (struct infix){" > ", 4};
  case TIR_GE: return (struct infix){" >= ", 4};
  case TIR_ADD: return (struct infix){" + ", 5};
  case TIR_SUB: return (struct infix){" - ", 5};
  case TIR_MUL: return (struct infix){" * ", 6};
  case TIR_DIV: return (struct infix){" / ", 6};
  case TIR_FLOOR_DIV: return (struct infix){" // ", 6};
  case TIR_FLOOR_MOD: return (struct infix){" % ", 6};
  default: return (struct infix){NULL, 0};
  }
}

static void print_infix(struct printer *printer, const struct tir_expr *e, struct infix infix,
                        int outer) {
  if (infix.level < outer) put(printer, "(");
  print_expr(printer, e->a, infix.level);
  put(printer, infix.text);
  print_expr(printer, e->b, infix.level + 1);
  if (infix.level < outer) put(printer, ")");
}

static void print_access(struct printer *printer, const struct tir_buffer *buffer,
                         struct tir_exprs indices, const struct tir_expr *predicate) {
  put(printer, buffer->name);
  put(printer, "[");
  print_exprs(printer, indices);
  put(printer, "]");
  if (!predicate) return;
  put(printer, " if ");
  print_expr(printer, predicate, 0);
}

/* T.name(first, second, third); second and third may be NULL. */
static void print_call_of(struct printer *printer, const char *name, const struct tir_expr *first,
                          const struct tir_expr *second, const struct tir_expr *third) {
  const struct tir_expr *const items[3] = {first, second, third};
  struct tir_exprs exprs = {third ? 3 : second ? 2 : 1, items};
  put(printer, name);
  put(printer, "(");
  print_exprs(printer, exprs);
  put(printer, ")");
}

static void print_int(struct printer *printer, const struct tir_expr *e) {
  if (e->dtype.elem == TS_DTYPE_pred) {
    put(printer, e->int_value ? "True" : "False");
  } else if (e->dtype.elem == TS_DTYPE_s32) {
    put_int(printer, e->int_value);
  } else {
    put(printer, "T.");
    put(printer, e->dtype.text);
    put(printer, "(");
    put_int(printer, e->int_value);
    put(printer, ")");
  }
}

static void print_call(struct printer *printer, const struct tir_expr *e) {
  put(printer, e->call.op);
  put(printer, "(");
  print_exprs(printer, e->call.args);
  if (e->call.args.count == 0 && e->dtype.elem != TS_DTYPE_ptr && e->dtype.text[0]) {
    put_quoted(printer, e->dtype.text); /* a type_annotation says nothing but its dtype */
  }
  print_annotations(printer, e->call.annotations);
  put(printer, ")");
}

static void print_shuffle(struct printer *printer, const struct tir_expr *e) {
  put(printer, "T.Shuffle([");
  print_exprs(printer, e->shuffle.vectors);
  put(printer, "], [");
  print_exprs(printer, e->shuffle.indices);
  put(printer, "])");
}

static void print_expr(struct printer *printer, const struct tir_expr *e, int outer) {
  if (is_full(printer)) return;
  struct infix infix = infix_of(e->kind);
  switch (e->kind) {
  case TIR_VAR:
  case TIR_SIZE_VAR: put(printer, e->var->name); break;
  case TIR_INT_IMM: print_int(printer, e); break;
  case TIR_FLOAT_IMM:
    put(printer, "T.");
    put(printer, e->dtype.text);
    put(printer, "(");
    put_double(printer, e->float_value);
    put(printer, ")");
    break;
  case TIR_STRING_IMM: put_quoted(printer, e->string); break;
  case TIR_MOD: print_call_of(printer, "T.truncmod", e->a, e->b, NULL); break;
  case TIR_MIN: print_call_of(printer, "T.min", e->a, e->b, NULL); break;
  case TIR_MAX: print_call_of(printer, "T.max", e->a, e->b, NULL); break;
  case TIR_NOT: print_call_of(printer, "not ", e->a, NULL, NULL); break;
  case TIR_SELECT:
    print_call_of(printer, "T.Select", e->select.condition, e->select.true_value,
                  e->select.false_value);
    break;
  case TIR_CAST:
    put(printer, "T.Cast(");
    put_quoted(printer, e->dtype.text);
    put(printer, ", ");
    print_expr(printer, e->cast.value, 0);
    print_annotations(printer, e->cast.annotations);
    put(printer, ")");
    break;
  case TIR_BUFFER_LOAD:
    print_access(printer, e->load.buffer, e->load.indices, e->load.predicate);
    break;
  case TIR_RAMP:
    print_call_of(printer, "T.Ramp", e->ramp.base, e->ramp.stride, e->ramp.lanes);
    break;
  case TIR_BROADCAST:
    print_call_of(printer, "T.Broadcast", e->broadcast.value, e->broadcast.lanes, NULL);
    break;
  case TIR_SHUFFLE: print_shuffle(printer, e); break;
  case TIR_CALL: print_call(printer, e); break;
  default: print_infix(printer, e, infix, outer); break;
  }
}

/* ---- Statements ---- */

static void print_body(struct printer *printer, const struct tir_stmt *stmt) {
  put(printer, ":");
  printer->indent++;
  print_stmt(printer, stmt);
  printer->indent--;
}

static void print_for(struct printer *printer, const struct tir_stmt *s) {
  static const char *const names[TIR_LOOP_KIND_COUNT] = {"T.serial", "T.parallel", "T.vectorized",
                                                         "T.unroll", "T.thread_binding"};
  put(printer, "for ");
  put(printer, s->loop.var->name);
  put(printer, " in ");
  put(printer, names[s->loop.kind]);
  put(printer, "(");
  print_expr(printer, s->loop.min, 0);
  put(printer, ", extent=");
  print_expr(printer, s->loop.extent, 0);
  if (s->loop.step) {
    put(printer, ", step=");
    print_expr(printer, s->loop.step, 0);
  }
  print_annotations(printer, s->loop.annotations);
  put(printer, ")");
  print_body(printer, s->loop.body);
}

static void print_if(struct printer *printer, const struct tir_stmt *s) {
  put(printer, "if ");
  print_expr(printer, s->branch.condition, 0);
  print_body(printer, s->branch.then_case);
  if (!s->branch.else_case) return;
  put_line(printer);
  put(printer, "else");
  print_body(printer, s->branch.else_case);
}

static void print_attr(struct printer *printer, const struct tir_stmt *s) {
  put(printer, "with T.attr(");
  print_value(printer, s->attr.node);
  put(printer, ", ");
  put_quoted(printer, s->attr.key);
  put(printer, ", ");
  print_expr(printer, s->attr.value, 0);
  put(printer, ")");
  print_body(printer, s->attr.body);
}

static void print_buffer(struct printer *printer, const char *how,
                         const struct tir_buffer *buffer) {
  put(printer, buffer->name);
  put(printer, " = ");
  put(printer, how);
  put(printer, "((");
  print_exprs(printer, buffer->shape);
  put(printer, "), ");
  put_quoted(printer, buffer->dtype.text);
  put(printer, ", data=");
  put(printer, buffer->data->name);
  if (buffer->strides.count) {
    put(printer, ", strides=(");
    print_exprs(printer, buffer->strides);
    put(printer, ")");
  }
  put(printer, ", scope=");
  put_quoted(printer, buffer->scope);
  put(printer, ")");
}

static void print_assert(struct printer *printer, const struct tir_stmt *s) {
  put(printer, "assert ");
  print_expr(printer, s->assertion.condition, 0);
  put(printer, ", (");
  print_expr(printer, s->assertion.error_kind, 0);
  put(printer, ", [");
  print_exprs(printer, s->assertion.message_parts);
  put(printer, "])");
}

static void print_regions(struct printer *printer, const char *name, struct tir_regions regions) {
  put_line(printer);
  put(printer, name);
  put(printer, "(");
  for (size_t i = 0; i < regions.count && !is_full(printer); i++) {
    if (i) put(printer, ", ");
    print_region(printer, regions.items[i]);
  }
  put(printer, ")");
}

static void print_block(struct printer *printer, const struct tir_stmt *s) {
  put(printer, "with T.sblock(");
  put_quoted(printer, s->block.name);
  put(printer, "):");
  printer->indent++;
  print_regions(printer, "T.reads", s->block.reads);
  print_regions(printer, "T.writes", s->block.writes);
  if (s->block.annotations->count) {
    put_line(printer);
    put(printer, "T.block_attr(");
    print_map(printer, s->block.annotations);
    put(printer, ")");
  }
  for (size_t i = 0; i < s->block.alloc_buffers.count && !is_full(printer); i++) {
    put_line(printer);
    print_buffer(printer, "T.sblock_alloc_buffer", s->block.alloc_buffers.items[i]);
  }
  if (s->block.init) print_stmt(printer, s->block.init);
  print_stmt(printer, s->block.body);
  printer->indent--;
}

static void print_realize(struct printer *printer, const struct tir_stmt *s) {
  int64_t always = 0;
  if (!tir_expr_int(s->realize.predicate, &always) || !always) {
    put(printer, "# where ");
    print_expr(printer, s->realize.predicate, 0);
    put_line(printer);
  }
  print_block(printer, s->realize.block);
}

static void print_seq(struct printer *printer, const struct tir_stmt *s) {
  for (size_t i = 0; i < s->seq.count && !is_full(printer); i++)
    print_stmt(printer, s->seq.items[i]);
}

static void print_stmt(struct printer *printer, const struct tir_stmt *s) {
  if (is_full(printer)) return;
  if (s->kind != TIR_SEQ) put_line(printer);
  switch (s->kind) {
  case TIR_SEQ: print_seq(printer, s); break;
  case TIR_FOR: print_for(printer, s); break;
  case TIR_WHILE:
    put(printer, "while ");
    print_expr(printer, s->repeat.condition, 0);
    print_body(printer, s->repeat.body);
    break;
  case TIR_IF: print_if(printer, s); break;
  case TIR_ATTR: print_attr(printer, s); break;
  case TIR_BIND:
    put(printer, s->bind.var->name);
    put(printer, ": ");
    put(printer, s->bind.var->dtype.text);
    put(printer, " = ");
    print_expr(printer, s->bind.value, 0);
    break;
  case TIR_ALLOC_BUFFER: print_buffer(printer, "T.alloc_buffer", s->alloc.buffer); break;
  case TIR_DECL_BUFFER: print_buffer(printer, "T.decl_buffer", s->decl.buffer); break;
  case TIR_BUFFER_STORE:
    print_access(printer, s->store.buffer, s->store.indices, s->store.predicate);
    put(printer, " = ");
    print_expr(printer, s->store.value, 0);
    break;
  case TIR_EVALUATE: print_expr(printer, s->evaluate.value, 0); break;
  case TIR_ASSERT: print_assert(printer, s); break;
  case TIR_BLOCK: print_block(printer, s); break;
  case TIR_BLOCK_REALIZE: print_realize(printer, s); break;
  case TIR_STMT_KIND_COUNT: break;
  }
}

/* ---- Functions and the module ---- */

static void print_func(struct printer *printer, const struct tir_func *func) {
  put(printer, "def ");
  put(printer, func->name);
  put(printer, "(");
  for (size_t i = 0; i < func->params.count && !is_full(printer); i++) {
    const struct tir_var *var = func->params.items[i];
    if (i) put(printer, ", ");
    put(printer, var->name);
    put(printer, ": ");
    put(printer, var->dtype.text);
    if (!var->scope) continue;
    put(printer, "(");
    put_quoted(printer, var->elem_dtype.text);
    put(printer, ", ");
    put_quoted(printer, var->scope);
    put(printer, ")");
  }
  put(printer, "):");
  printer->indent++;
  put_line(printer);
  put(printer, "T.func_attr(");
  print_map(printer, func->attrs);
  put(printer, ")");
  for (size_t i = 0; i < func->buffer_map_count && !is_full(printer); i++) {
    put_line(printer);
    print_buffer(printer, "T.match_buffer", func->buffer_map[i].buffer);
  }
  print_stmt(printer, func->body);
  printer->indent--;
  put(printer, "\n");
}

/* The finished text in the arena; a text that was cut ends in "...". */
static const char *finish(struct printer *printer, struct ts_arena *arena) {
  const char *cut = printer->text.count >= PRINT_LIMIT_BYTES ? "..." : "";
  const char *text = NULL;
  if (!printer->out_of_memory) {
    const char *start = printer->text.data ? printer->text.data : "";
    size_t skip = start[0] == '\n' ? 1 : 0; /* a statement begins with a new line */
    if (printer->text.count == 0) skip = 0;
    text = ts_arena_printf(arena, "%.*s%s", (int)(printer->text.count - skip), start + skip, cut);
  }
  ts_vec_free(&printer->text, printer->allocator);
  return text;
}

const char *tir_print(struct ts_arena *arena, const struct tir_module *module) {
  struct printer printer = {.allocator = arena->allocator};
  for (size_t i = 0; i < module->func_count && !is_full(&printer); i++) {
    if (i) put(&printer, "\n");
    print_func(&printer, module->funcs[i]);
  }
  return finish(&printer, arena);
}

const char *tir_print_stmt(struct ts_arena *arena, const struct tir_stmt *stmt) {
  struct printer printer = {.allocator = arena->allocator};
  print_stmt(&printer, stmt);
  return finish(&printer, arena);
}

const char *tir_print_expr(struct ts_arena *arena, const struct tir_expr *expr) {
  struct printer printer = {.allocator = arena->allocator};
  print_expr(&printer, expr, 0);
  return finish(&printer, arena);
}
