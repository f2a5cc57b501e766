/* Builder: beginning and ending a function, declarations, constants, places. */
#include "ir/ir_priv.h"

#include <string.h>

struct ts_operand ts__build_nothing(void) {
  return (struct ts_operand){TS_OPERAND_IMM, 0};
}

void ts__build_no_memory(struct ts_build *build) {
  if (build->status == TS_OK) build->status = ts_fail_memory(build->ctx);
}

void ts__build_misuse(struct ts_build *build, const char *what) {
  if (build->status != TS_OK) return;
  struct ts_source_place place = build->module->places.data[build->place];
  build->status =
      ts_fail(build->ctx, TS_INTERNAL, TS_DIAG_INTERNAL, place,
              "the IR builder was misused in function %s: %s", build->function->name, what);
}

static void free_build(struct ts_build *build) {
  const struct ts_allocator *allocator = build->allocator;
  ts_vec_free(&build->regs, allocator);
  ts_vec_free(&build->scopes, allocator);
  ts_vec_free(&build->open, allocator);
  ts_vec_free(&build->numbered, allocator);
  ts_vec_free(&build->frames, allocator);
  ts_vec_free(&build->breaks, allocator);
  ts__index_free(&build->numbering, allocator);
  ts__index_free(&build->constants, allocator);
  ts__index_free(&build->texts, allocator);
  ts__index_free(&build->places, allocator);
  allocator->resize(allocator->user, build, sizeof *build, 0);
}

struct ts_build *ts_build_begin(struct ts_ctx *ctx, struct ts_module *module, const char *name) {
  const struct ts_allocator *allocator = module->allocator;
  struct ts_build *build = allocator->resize(allocator->user, NULL, 0, sizeof *build);
  if (!build) {
    ts_fail_memory(ctx);
    return NULL;
  }
  memset(build, 0, sizeof *build);
  build->ctx = ctx;
  build->module = module;
  build->allocator = allocator;
  build->function = ts__function_new(module, name);
  if (!build->function) {
    ts_fail_memory(ctx);
    free_build(build);
    return NULL;
  }
  ts__build_open_scope(build, TS_NONE);
  build->block = ts__add_block(build->function, 0);
  ts_build_imm(build, 0); /* what failed calls answer names constant 0 */
  if (build->block == TS_NONE) ts__build_no_memory(build);
  return build;
}

void ts_build_abandon(struct ts_build *build) {
  if (!build) return;
  ts__function_free(build->function);
  free_build(build);
}

/* --- declarations */

static uint32_t param_push(struct ts_build *build, struct ts_param param) {
  if (ts_vec_push(&build->function->params, build->allocator, param)) {
    ts__build_no_memory(build);
    return 0;
  }
  return (uint32_t)build->function->params.count - 1;
}

static const char *name_of(struct ts_build *build, const char *text) {
  const char *name = text ? ts__name(build->module, text) : NULL;
  if (text && !name) ts__build_no_memory(build);
  return name;
}

uint32_t ts_build_param(struct ts_build *build, enum ts_param_kind kind, const char *name,
                        enum ts_dtype dtype) {
  struct ts_param param = {name_of(build, name), kind, (uint8_t)dtype, TS_NONE};
  if (kind != TS_PARAM_TENSORMAP) {
    enum ts_dtype held = kind == TS_PARAM_POINTER ? TS_DTYPE_ptr : dtype;
    struct ts_type type = {(uint8_t)held, 1};
    param.reg = ts__build_reg_new(build, type, 0, TS_NONE);
    if (build->status == TS_OK) build->function->regs.data[param.reg].name = param.name;
  }
  return build->status == TS_OK ? param_push(build, param) : 0;
}

struct ts_operand ts_build_param_reg(struct ts_build *build, uint32_t param) {
  const struct ts_function *function = build->function;
  if (param >= function->params.count || function->params.data[param].reg == TS_NONE) {
    ts__build_misuse(build, "a parameter without a register was read");
    return ts__build_nothing();
  }
  return (struct ts_operand){TS_OPERAND_REG, function->params.data[param].reg};
}

struct ts_operand ts_build_tensormap(uint32_t param) {
  return (struct ts_operand){TS_OPERAND_TENSORMAP, param};
}

uint32_t ts_build_array(struct ts_build *build, const char *name, enum ts_dtype dtype,
                        uint64_t elem_count) {
  struct ts_array array = {name_of(build, name), (uint8_t)dtype, elem_count, 0};
  if (ts_vec_push(&build->function->arrays, build->allocator, array)) {
    ts__build_no_memory(build);
    return 0;
  }
  return (uint32_t)build->function->arrays.count - 1;
}

uint32_t ts_build_shared(struct ts_build *build, const char *name, enum ts_shared_kind kind,
                         enum ts_dtype dtype, uint32_t align_bytes, uint64_t size_bytes) {
  struct ts_shared shared = {name_of(build, name), kind,       (uint8_t)dtype,
                             align_bytes,          size_bytes, 0};
  if (ts_vec_push(&build->function->shared, build->allocator, shared)) {
    ts__build_no_memory(build);
    return 0;
  }
  return (uint32_t)build->function->shared.count - 1;
}

struct ts_operand ts_build_array_operand(uint32_t array) {
  return (struct ts_operand){TS_OPERAND_ARRAY, array};
}

struct ts_operand ts_build_shared_operand(uint32_t shared) {
  return (struct ts_operand){TS_OPERAND_SHARED, shared};
}

struct ts_function *ts_build_function(struct ts_build *build) {
  return build->function;
}

/* --- pools */

struct ts_operand ts_build_imm(struct ts_build *build, uint64_t encoding) {
  struct ts_function *function = build->function;
  uint32_t hash = ts__hash_word(1, encoding), item;
  for (size_t at = ts__index_first(&build->constants, hash);
       ts__index_find(&build->constants, hash, &at, &item);
       at = ts__index_next(&build->constants, at))
    if (function->constants.data[item] == encoding)
      return (struct ts_operand){TS_OPERAND_IMM, item};
  item = (uint32_t)function->constants.count;
  if (ts_vec_push(&function->constants, build->allocator, encoding) ||
      ts__index_add(&build->constants, build->allocator, hash, item)) {
    ts__build_no_memory(build);
    return ts__build_nothing();
  }
  return (struct ts_operand){TS_OPERAND_IMM, item};
}

struct ts_operand ts_build_text(struct ts_build *build, const char *text) {
  struct ts_function *function = build->function;
  const char *name = name_of(build, text ? text : "");
  uint32_t hash = ts__hash_word(2, (uintptr_t)name), item;
  for (size_t at = ts__index_first(&build->texts, hash);
       ts__index_find(&build->texts, hash, &at, &item); at = ts__index_next(&build->texts, at))
    if (function->texts.data[item] == name) return (struct ts_operand){TS_OPERAND_TEXT, item};
  item = (uint32_t)function->texts.count;
  if (build->status != TS_OK || ts_vec_push(&function->texts, build->allocator, name) ||
      ts__index_add(&build->texts, build->allocator, hash, item)) {
    ts__build_no_memory(build);
    return ts__build_nothing();
  }
  return (struct ts_operand){TS_OPERAND_TEXT, item};
}

static bool same_place(struct ts_source_place a, struct ts_source_place b) {
  return a.file == b.file && a.line == b.line && a.column == b.column;
}

void ts_build_place(struct ts_build *build, struct ts_source_place place) {
  struct ts_module *module = build->module;
  if (!place.file) {
    build->place = 0;
    return;
  }
  place.file = name_of(build, place.file);
  if (build->status != TS_OK || same_place(module->places.data[build->place], place)) return;
  uint32_t hash = ts__hash_word(3, (uintptr_t)place.file), item;
  hash = ts__hash_word(hash, (uint64_t)place.line << 32 | place.column);
  for (size_t at = ts__index_first(&build->places, hash);
       ts__index_find(&build->places, hash, &at, &item); at = ts__index_next(&build->places, at)) {
    if (!same_place(module->places.data[item], place)) continue;
    build->place = item;
    return;
  }
  item = (uint32_t)module->places.count;
  if (ts_vec_push(&module->places, build->allocator, place) ||
      ts__index_add(&build->places, build->allocator, hash, item)) {
    ts__build_no_memory(build);
    return;
  }
  build->place = item;
}

bool ts_build_is_constant(const struct ts_build *build, struct ts_operand operand,
                          uint64_t *encoding) {
  if (operand.kind != TS_OPERAND_IMM || operand.index >= build->function->constants.count)
    return false;
  *encoding = build->function->constants.data[operand.index];
  return true;
}

struct ts_type ts_build_type(const struct ts_build *build, struct ts_operand operand) {
  const struct ts_function *function = build->function;
  if (operand.kind == TS_OPERAND_SHARED) return (struct ts_type){TS_DTYPE_u32, 1};
  if (operand.kind != TS_OPERAND_REG || operand.index >= function->regs.count)
    return (struct ts_type){0, 0};
  return function->regs.data[operand.index].type;
}

/* --- the end */

static enum ts_status finish_function(struct ts_build *build) {
  if (build->status != TS_OK) return build->status;
  if (build->frames.count) ts__build_misuse(build, "an if or a loop is still open");
  if (ts_module_find(build->module, build->function->name))
    ts__build_misuse(build, "a function of this name exists");
  struct ts_build_insn leave = {.op = TS_OP_exit};
  ts__build_append(build, &leave, TS_NONE, build->block);
  TS_TRY(build->status);
  TS_TRY(ts__build_compact(build));
  TS_TRY(ts_function_finish(build->ctx, build->function));
  TS_TRY(ts_verify(build->ctx, build->function));
  if (ts_vec_push(&build->module->functions, build->allocator, build->function))
    return ts_fail_memory(build->ctx);
  return TS_OK;
}

enum ts_status ts_build_end(struct ts_build *build, struct ts_function **function) {
  enum ts_status status = finish_function(build);
  *function = status == TS_OK ? build->function : NULL;
  if (status != TS_OK) ts__function_free(build->function);
  free_build(build);
  return status;
}
