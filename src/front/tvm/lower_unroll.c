/* Which loops nvcc unrolls, and how far.
 *
 * Two compilers unroll one after the other. The first (NVVM) counts the instructions of its own
 * intermediate code: a loop of constant extent becomes straight code when all iterations together
 * are small enough, where what depends on the loop variable alone counts nothing (it becomes
 * constant); else as many iterations as fit a smaller bound become one. The assembler then makes
 * four of one where the loop is still short.
 *
 * MEASURED with nvcc 13.0 on loops of 1 to 5 loads, 1 to 400 multiply-adds and 2 to 1000 iterations;
 * docs/codegen.md has the table. */
#include "front/tvm/lower_priv.h"

#include <string.h>

enum {
  ALL_INSN_MAX = 420,      /* of all iterations */
  PART_INSN_MAX = 203,     /* of those that become one */
  PART_COPIES_MAX = 16,    /* a power of two */
  ASSEMBLER_INSN_MAX = 64, /* machine instructions of a loop that is unrolled again */
  ASSEMBLER_COPIES = 4,
  FUNCTION_INSN_MAX = 300000, /* IR; beyond it loops stay loops */
  ARRAY_EXTENT_MAX = 64,      /* GUESS: loops over arrays in registers */
  ARRAY_LEAF_MAX = 2048,      /* GUESS: statements of all their iterations */
  INNER_VAR_MAX = 16,
  VISIT_MAX = 1 << 16 /* nodes looked at; trees may share them */
};

/* Instructions that a call stands for. GUESS, to one digit. */
enum { WIDE_CALL_INSNS = 32, FUNCTION_CALL_INSNS = 8 };

/* How a value depends on the loop. */
enum dependence {
  DEPENDS_ON_NOTHING,  /* a constant once inner loops are unrolled */
  DEPENDS_ON_VARIABLE, /* the loop variable and constants */
  DEPENDS_ON_OUTSIDE,  /* what no iteration changes: computed before the loop */
  DEPENDS_ON_SUM,      /* a sum of the last two: one addition */
  DEPENDS_ON_ITERATION /* anything else */
};

struct size {
  uint64_t rolled, unrolled; /* instructions of an iteration, in a loop and in straight code */
  uint64_t machine;          /* machine instructions in straight code */
  uint64_t leaf_count;       /* statements that emit code */
};

/* What an expression depends on, and how many of the inner loops around it its value changes with:
 * what does not change with a loop is computed once for all its iterations. */
struct value {
  enum dependence on;
  uint32_t depth;
};

struct measure {
  struct ts__lower *lower;
  const struct tir_var *var;
  const struct tir_var *inner[INNER_VAR_MAX]; /* of loops inside that are unrolled */
  uint32_t inner_count, visit_count;
  struct size sizes[INNER_VAR_MAX + 1]; /* by depth; 0: of the loop itself */
  bool stays;                           /* has what no copy is made of, or a loop of its own */
  bool indexes_arrays;                  /* local arrays by the loop variable */
};

static void add(struct measure *m, uint32_t depth, uint64_t rolled, uint64_t unrolled,
                uint64_t machine) {
  m->sizes[depth].rolled += rolled;
  m->sizes[depth].unrolled += unrolled;
  m->sizes[depth].machine += machine;
}

static struct value measure_expr(struct measure *m, const struct tir_expr *expr);

static struct value join(struct value a, struct value b) {
  struct value both = {a.on, a.depth > b.depth ? a.depth : b.depth};
  if (a.on == DEPENDS_ON_NOTHING)
    both.on = b.on;
  else if (b.on != DEPENDS_ON_NOTHING && a.on != b.on)
    both.on = DEPENDS_ON_ITERATION;
  return both;
}

static struct value variable(const struct measure *m, const struct tir_var *var) {
  if (var == m->var) return (struct value){DEPENDS_ON_VARIABLE, 0};
  for (uint32_t i = 0; i < m->inner_count; i++)
    if (m->inner[i] == var) return (struct value){DEPENDS_ON_NOTHING, i + 1};
  if (m->lower->vars[var->id].type.lanes) return (struct value){DEPENDS_ON_OUTSIDE, 0};
  return (struct value){DEPENDS_ON_ITERATION, m->inner_count};
}

static bool is_linear(enum dependence d) {
  return d == DEPENDS_ON_VARIABLE || d == DEPENDS_ON_OUTSIDE || d == DEPENDS_ON_SUM;
}

/* One instruction with the product that it adds. */
static bool is_multiply_add(const struct tir_expr *expr) {
  return (expr->kind == TIR_ADD || expr->kind == TIR_SUB) && ts_dtype_is_float(expr->dtype.elem) &&
         (expr->a->kind == TIR_MUL || expr->b->kind == TIR_MUL);
}

/* An instruction for each component; a sum is taken apart, so that what comes from outside is added
 * up there. */
static struct value measure_binary(struct measure *m, const struct tir_expr *expr) {
  struct value a = measure_expr(m, expr->a), b = {DEPENDS_ON_NOTHING, 0};
  if (expr->kind != TIR_NOT) b = measure_expr(m, expr->b);
  struct value both = join(a, b);
  bool is_index = expr->dtype.lanes == 1 && ts_dtype_is_signed_int(expr->dtype.elem);
  bool is_sum = is_index && (expr->kind == TIR_ADD || expr->kind == TIR_SUB);
  if (both.on == DEPENDS_ON_NOTHING || both.on == DEPENDS_ON_OUTSIDE) return both;
  if (both.on == DEPENDS_ON_VARIABLE) {
    add(m, both.depth, 1, 0, 0);
    return both;
  }
  if (is_sum && (a.on == DEPENDS_ON_NOTHING || b.on == DEPENDS_ON_NOTHING)) return both;
  if (is_sum && is_linear(a.on) && is_linear(b.on)) {
    if (a.on != DEPENDS_ON_SUM && b.on != DEPENDS_ON_SUM) add(m, both.depth, 1, 1, 0);
    both.on = DEPENDS_ON_SUM;
    return both;
  }
  uint64_t lanes = is_multiply_add(expr) ? 0 : expr->dtype.lanes;
  add(m, both.depth, lanes, lanes, lanes);
  both.on = DEPENDS_ON_ITERATION;
  return both;
}

static bool moves(enum dependence d) { return d != DEPENDS_ON_NOTHING && d != DEPENDS_ON_OUTSIDE; }

/* Straight code makes a constant of it, up to what comes from outside. */
static bool follows_variable(enum dependence d) {
  return d == DEPENDS_ON_VARIABLE || d == DEPENDS_ON_SUM;
}

static bool is_local(const char *scope) { return !strncmp(scope, "local", 5); }

/* Local arrays are registers; other memory takes a widened sum, an address, and the access. */
static void measure_access(struct measure *m, const struct tir_buffer *buffer,
                           const struct tir_exprs *indices, struct tir_dtype dtype) {
  struct value where = {DEPENDS_ON_NOTHING, 0};
  struct size before[INNER_VAR_MAX + 1];
  memcpy(before, m->sizes, sizeof before);
  for (size_t i = 0; i < indices->count; i++)
    where = join(where, measure_expr(m, indices->items[i]));
  if (is_local(buffer->scope)) {
    memcpy(m->sizes, before, sizeof before);
    m->indexes_arrays |= follows_variable(where.on);
    return;
  }
  uint64_t bytes = ts_dtype_packed_bytes(dtype.elem, dtype.lanes);
  add(m, m->inner_count, moves(where.on) ? 3 : 1, moves(where.on) ? 2 : 1,
      bytes > 16 ? bytes / 16 : 1);
}

static void measure_list(struct measure *m, const struct tir_exprs *list) {
  for (size_t i = 0; i < list->count; i++)
    measure_expr(m, list->items[i]);
}

/* Arguments; pointers to local arrays are a variable and an offset. */
static void measure_arguments(struct measure *m, const struct tir_exprs *args) {
  bool has_array = false, has_moving = false;
  for (size_t i = 0; i < args->count; i++) {
    const struct tir_expr *arg = args->items[i];
    has_array |= arg->kind == TIR_VAR && arg->var->scope && is_local(arg->var->scope);
    has_moving |= follows_variable(measure_expr(m, arg).on);
  }
  m->indexes_arrays |= has_array && has_moving;
}

static void measure_call(struct measure *m, const struct tir_expr *expr) {
  const struct ts__builtin *builtin = ts__builtin_find(expr->call.op);
  uint64_t lanes = expr->dtype.lanes ? expr->dtype.lanes : 1, insns = lanes;
  measure_arguments(m, &expr->call.args);
  if (!builtin) return;
  if (builtin->flags & TS__BUILTIN_SYNC && !(builtin->flags & TS__BUILTIN_COPY)) m->stays = true;
  if (builtin->lower == ts__builtin_float_unary) insns = lanes * FUNCTION_CALL_INSNS;
  if (builtin->flags & TS__BUILTIN_WIDE) insns = WIDE_CALL_INSNS;
  add(m, m->inner_count, insns, insns, insns);
}

/* Of 16 and 8 bits, each component is cut out of its word and converted by assembly. */
static void measure_cast(struct measure *m, const struct tir_expr *expr) {
  const struct tir_dtype *to = &expr->dtype, *from = &expr->cast.value->dtype;
  bool is_float = ts_dtype_is_float(to->elem) || ts_dtype_is_float(from->elem);
  bool is_narrow = ts_dtype_bits(to->elem) < 32 || ts_dtype_bits(from->elem) < 32;
  if (!is_float) return;
  uint64_t insns = to->lanes * (is_narrow ? UINT64_C(3) : 1);
  add(m, m->inner_count, insns, insns, to->lanes);
}

static struct value measure_other(struct measure *m, const struct tir_expr *expr) {
  struct value result = {DEPENDS_ON_ITERATION, m->inner_count};
  switch (expr->kind) {
  case TIR_SELECT:
    measure_expr(m, expr->select.condition);
    measure_expr(m, expr->select.true_value);
    measure_expr(m, expr->select.false_value);
    add(m, m->inner_count, expr->dtype.lanes, expr->dtype.lanes, expr->dtype.lanes);
    return result;
  case TIR_BUFFER_LOAD:
    measure_access(m, expr->load.buffer, &expr->load.indices, expr->dtype);
    return result;
  case TIR_SHUFFLE: measure_list(m, &expr->shuffle.vectors); return result;
  case TIR_CALL: measure_call(m, expr); return result;
  default: return measure_binary(m, expr);
  }
}

static struct value measure_expr(struct measure *m, const struct tir_expr *expr) {
  if (m->visit_count++ >= VISIT_MAX) {
    m->stays = true;
    return (struct value){DEPENDS_ON_ITERATION, m->inner_count};
  }
  switch (expr->kind) {
  case TIR_VAR:
  case TIR_SIZE_VAR: return variable(m, expr->var);
  case TIR_INT_IMM:
  case TIR_FLOAT_IMM:
  case TIR_STRING_IMM: return (struct value){DEPENDS_ON_NOTHING, 0};
  case TIR_RAMP: return measure_expr(m, expr->ramp.base);
  case TIR_BROADCAST: return measure_expr(m, expr->broadcast.value);
  case TIR_CAST: {
    struct value value = measure_expr(m, expr->cast.value);
    if (value.on == DEPENDS_ON_ITERATION) measure_cast(m, expr);
    return value;
  }
  default: return measure_other(m, expr);
  }
}

static void measure_stmt(struct measure *m, const struct tir_stmt *stmt);

/* Inner loops count as unrolled. */
static void measure_loop(struct measure *m, const struct tir_stmt *loop) {
  int64_t extent = 0;
  if (!tir_expr_int(loop->loop.extent, &extent) || m->inner_count == INNER_VAR_MAX) {
    m->stays = true;
    return;
  }
  uint64_t count = extent < 0 ? 0 : (uint64_t)extent < VISIT_MAX ? (uint64_t)extent : VISIT_MAX;
  m->inner[m->inner_count++] = loop->loop.var;
  measure_stmt(m, loop->loop.body);
  struct size body = m->sizes[m->inner_count];
  m->sizes[m->inner_count--] = (struct size){0};
  if (body.leaf_count > FUNCTION_INSN_MAX || body.rolled > FUNCTION_INSN_MAX) {
    m->stays = true; /* large enough */
    return;
  }
  add(m, m->inner_count, body.rolled * count, body.unrolled * count, body.machine * count);
  m->sizes[m->inner_count].leaf_count += 1 + body.leaf_count * count;
}

static void measure_stmt(struct measure *m, const struct tir_stmt *stmt) {
  if (m->visit_count++ >= VISIT_MAX || m->sizes[m->inner_count].leaf_count > FUNCTION_INSN_MAX) {
    m->stays = true;
    return;
  }
  switch (stmt->kind) {
  case TIR_SEQ:
    for (size_t i = 0; i < stmt->seq.count; i++)
      measure_stmt(m, stmt->seq.items[i]);
    return;
  case TIR_FOR: measure_loop(m, stmt); return;
  case TIR_WHILE:
    m->stays = true;
    measure_stmt(m, stmt->repeat.body);
    return;
  case TIR_IF:
    measure_expr(m, stmt->branch.condition);
    add(m, m->inner_count, 1, 1, 1);
    measure_stmt(m, stmt->branch.then_case);
    if (stmt->branch.else_case) measure_stmt(m, stmt->branch.else_case);
    return;
  case TIR_ATTR: measure_stmt(m, stmt->attr.body); return;
  case TIR_EVALUATE:
    m->sizes[m->inner_count].leaf_count++;
    measure_expr(m, stmt->evaluate.value);
    return;
  case TIR_BIND:
    m->sizes[m->inner_count].leaf_count++;
    measure_expr(m, stmt->bind.value);
    return;
  case TIR_BUFFER_STORE:
    m->sizes[m->inner_count].leaf_count++;
    measure_expr(m, stmt->store.value);
    measure_access(m, stmt->store.buffer, &stmt->store.indices, stmt->store.value->dtype);
    return;
  default: m->sizes[m->inner_count].leaf_count++; return;
  }
}

/* As many as fit, a power of two; then the assembler's. */
static uint64_t part_copies(const struct size *size, uint64_t extent) {
  uint64_t copies = PART_COPIES_MAX;
  while (copies > 1 && (copies > extent || copies * (size->rolled + 1) + 2 > PART_INSN_MAX ||
                        (extent % copies != 0 && copies > ASSEMBLER_COPIES)))
    copies /= 2;
  uint64_t left = extent / copies, again = ASSEMBLER_COPIES;
  while (left % again != 0)
    again /= 2;
  return copies * size->machine + 2 <= ASSEMBLER_INSN_MAX ? copies * again : copies;
}

uint64_t ts__lower_copies(struct ts__lower *lower, const struct tir_stmt *loop, uint64_t extent) {
  struct measure m = {.lower = lower, .var = loop->loop.var};
  measure_stmt(&m, loop->loop.body);
  const struct size *size = &m.sizes[0];
  size_t insn_count = ts_build_function(lower->build)->insns.count;
  bool is_pragma = extent == 1 || loop->loop.kind == TIR_LOOP_UNROLLED;
  if (size->leaf_count > FUNCTION_INSN_MAX / extent ||
      insn_count + size->leaf_count * extent > FUNCTION_INSN_MAX)
    return 1;
  if (is_pragma) return extent;
  if (m.stays || loop->loop.annotations->count) return 1;
  if (m.indexes_arrays)
    return extent <= ARRAY_EXTENT_MAX && size->leaf_count * extent <= ARRAY_LEAF_MAX ? extent : 1;
  if (size->unrolled * extent <= ALL_INSN_MAX) return extent;
  return part_copies(size, extent);
}
