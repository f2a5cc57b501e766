/* Writes the text form (docs/ir.md). */
#include "ir/ir_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct printer {
  const struct ts_allocator *allocator;
  const struct ts_function *function;
  TS_VEC(char) text;
  bool out_of_memory;
};

static void put_bytes(struct printer *p, const char *bytes, size_t count) {
  if (p->out_of_memory || ts_vec_reserve(&p->text, p->allocator, count)) {
    p->out_of_memory = true;
    return;
  }
  memcpy(p->text.data + p->text.count, bytes, count);
  p->text.count += count;
}

static void put(struct printer *p, const char *text) { put_bytes(p, text, strlen(text)); }

static void putf(struct printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void putf(struct printer *p, const char *format, ...) {
  char line[128]; /* numbers and words of the tables only */
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  put(p, line);
}

static void put_string(struct printer *p, const char *text) {
  put(p, "\"");
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\')
      putf(p, "\\%c", c);
    else if (c == '\n')
      put(p, "\\n");
    else if (c < 0x20 || c == 0x7f)
      putf(p, "\\x%02x", c);
    else
      put_bytes(p, text, 1);
  }
  put(p, "\"");
}

static void put_name(struct printer *p, const char *name) {
  if (!name) return;
  put(p, " ");
  put_string(p, name);
}

static void put_type(struct printer *p, struct ts_type type) {
  put(p, ts_dtype_name((enum ts_dtype)type.dtype));
  if (type.lanes != 1) putf(p, "x%u", type.lanes);
}

/* --- declarations */

static void put_param(struct printer *p, size_t i) {
  const struct ts_param *param = &p->function->params.data[i];
  static const char *const kinds[] = {"pointer", "tensormap", "scalar"};
  putf(p, "param p%zu %s %s", i, kinds[param->kind], ts_dtype_name((enum ts_dtype)param->dtype));
  if (param->reg != TS_NONE) putf(p, " %%%" PRIu32, param->reg);
  put_name(p, param->name);
  put(p, "\n");
}

static void put_shared(struct printer *p, size_t i) {
  const struct ts_shared *shared = &p->function->shared.data[i];
  static const char *const kinds[] = {"static", "dynamic", "barrier"};
  putf(p, "shared s%zu %s %s align %" PRIu32 " size %" PRIu64, i, kinds[shared->kind],
       ts_dtype_name((enum ts_dtype)shared->dtype), shared->align_bytes, shared->size_bytes);
  put_name(p, shared->name);
  put(p, "\n");
}

/* Registers whose type no instruction tells, and those with names. */
static void put_regs(struct printer *p, const bool *is_told) {
  const struct ts_function *function = p->function;
  for (size_t i = 0; i < function->regs.count; i++) {
    if (is_told[i] && !function->regs.data[i].name) continue;
    putf(p, "reg %%%zu ", i);
    put_type(p, function->regs.data[i].type);
    put_name(p, function->regs.data[i].name);
    put(p, "\n");
  }
}

static void put_extent(struct printer *p, const char *word, const uint32_t extent[3],
                       uint32_t usual) {
  if (extent[0] == usual && extent[1] == usual && extent[2] == usual) return;
  putf(p, "%s %" PRIu32 " %" PRIu32 " %" PRIu32 "\n", word, extent[0], extent[1], extent[2]);
}

static void put_header(struct printer *p) {
  const struct ts_function *function = p->function;
  if (function->arch) {
    put(p, "arch");
    put_name(p, function->arch);
    put(p, "\n");
  }
  if (function->fast_math) put(p, "fast_math\n");
  put_extent(p, "cluster", function->cluster, 1);
  put_extent(p, "threads", function->thread_extent, 0);
  if (function->entry) putf(p, "entry b%" PRIu32 "\n", function->entry);
  for (size_t i = 0; i < function->params.count; i++)
    put_param(p, i);
  for (size_t i = 0; i < function->arrays.count; i++) {
    const struct ts_array *array = &function->arrays.data[i];
    putf(p, "array a%zu %s %" PRIu64, i, ts_dtype_name((enum ts_dtype)array->dtype),
         array->elem_count);
    put_name(p, array->name);
    put(p, "\n");
  }
  for (size_t i = 0; i < function->shared.count; i++)
    put_shared(p, i);
}

/* --- instructions */

static void put_imm(struct printer *p, const struct ts_insn *insn, uint32_t i, uint64_t value) {
  enum ts_dtype dtype = ts__imm_dtype(insn, i);
  bool is_large = !ts_dtype_is_signed_int(dtype) && value > INT32_MAX;
  if (ts_dtype_is_float(dtype) || is_large) {
    putf(p, "0x%" PRIx64, value);
  } else if (ts_dtype_is_signed_int(dtype)) {
    putf(p, "%" PRId64, (int64_t)ts__int_extend(dtype, value));
  } else {
    putf(p, "%" PRIu64, value);
  }
}

static void put_operand(struct printer *p, const struct ts_insn *insn, uint32_t i) {
  const struct ts_operand *operand = ts_insn_operand(p->function, insn, i);
  switch ((enum ts_operand_kind)operand->kind) {
  case TS_OPERAND_REG: putf(p, "%%%" PRIu32, operand->index); return;
  case TS_OPERAND_IMM: put_imm(p, insn, i, p->function->constants.data[operand->index]); return;
  case TS_OPERAND_ARRAY: putf(p, "a%" PRIu32, operand->index); return;
  case TS_OPERAND_SHARED: putf(p, "s%" PRIu32, operand->index); return;
  case TS_OPERAND_BLOCK: putf(p, "b%" PRIu32, operand->index); return;
  case TS_OPERAND_TENSORMAP: putf(p, "p%" PRIu32, operand->index); return;
  case TS_OPERAND_TEXT: put_string(p, p->function->texts.data[operand->index]); return;
  }
}

static void put_attrs(struct printer *p, const struct ts_insn *insn) {
  if (!insn->attr_count) return;
  for (uint32_t i = 0; i < insn->attr_count; i++) {
    const struct ts_attr *attr = &p->function->attrs.data[insn->attrs + i];
    const char *word = ts_attr_value_text((enum ts_attr_id)attr->id, attr->value);
    putf(p, "%s%s=", i ? ", " : " {", ts_attr_text((enum ts_attr_id)attr->id));
    if (word)
      put(p, word);
    else
      putf(p, "%" PRId64, attr->value);
  }
  put(p, "}");
}

static void put_insn(struct printer *p, const struct ts_insn *insn) {
  enum ts_op op = (enum ts_op)insn->op;
  put(p, "  ");
  if (insn->dst != TS_NONE) putf(p, "%%%" PRIu32 " = ", insn->dst);
  put(p, ts_op_info(op)->mnemonic);
  if (ts__op_is_typed(op)) {
    put(p, " ");
    put_type(p, (struct ts_type){insn->dtype, insn->lanes});
  }
  if (ts__op_has_second_dtype(op)) putf(p, " %s", ts_dtype_name((enum ts_dtype)insn->dtype2));
  for (uint32_t i = 0; i < insn->operand_count; i++) {
    put(p, i ? ", " : " ");
    put_operand(p, insn, i);
  }
  put_attrs(p, insn);
  if (insn->place) putf(p, " @%" PRIu32, insn->place);
  put(p, "\n");
}

static void put_body(struct printer *p) {
  const struct ts_function *function = p->function;
  for (size_t i = 1; i < function->regions.count; i++)
    putf(p, "region r%zu in r%" PRIu32 " head b%" PRIu32 "\n", i, function->regions.data[i].parent,
         function->regions.data[i].head);
  for (size_t i = 0; i < function->blocks.count; i++) {
    const struct ts_block *block = &function->blocks.data[i];
    putf(p, "b%zu in r%" PRIu32 ":\n", i, block->region);
    for (uint32_t k = 0; k < block->insn_count; k++)
      put_insn(p, &function->insns.data[block->first_insn + k]);
  }
}

static void put_function(struct printer *p, const struct ts_function *function) {
  size_t reg_count = function->regs.count;
  bool *is_told = p->allocator->resize(p->allocator->user, NULL, 0, reg_count + 1);
  if (!is_told) {
    p->out_of_memory = true;
    return;
  }
  memset(is_told, 0, reg_count + 1);
  for (size_t i = 0; i < function->insns.count; i++)
    if (function->insns.data[i].dst != TS_NONE) is_told[function->insns.data[i].dst] = true;
  for (size_t i = 0; i < function->params.count; i++)
    if (function->params.data[i].reg != TS_NONE) is_told[function->params.data[i].reg] = false;
  p->function = function;
  put(p, "\nfunction ");
  put_string(p, function->name);
  put(p, " {\n");
  put_header(p);
  put_regs(p, is_told);
  put_body(p);
  put(p, "}\n");
  p->allocator->resize(p->allocator->user, is_told, reg_count + 1, 0);
}

static void put_places(struct printer *p, const struct ts_module *module) {
  for (size_t i = 1; i < module->places.count; i++) {
    struct ts_source_place place = module->places.data[i];
    put(p, "place ");
    put_string(p, place.file ? place.file : "");
    putf(p, " %" PRIu32 " %" PRIu32 "\n", place.line, place.column);
  }
}

enum ts_status ts_print_module(struct ts_ctx *ctx, const struct ts_module *module, char **text,
                               size_t *size_bytes) {
  struct printer p = {.allocator = module->allocator};
  put(&p, "tilesim-ir 1\n");
  put_places(&p, module);
  for (size_t i = 0; i < module->functions.count; i++)
    put_function(&p, module->functions.data[i]);
  put_bytes(&p, "", 1);
  char *fitted = NULL;
  if (!p.out_of_memory)
    fitted = p.allocator->resize(p.allocator->user, p.text.data, p.text.capacity, p.text.count);
  if (!fitted) {
    ts_vec_free(&p.text, p.allocator);
    return ts_fail_memory(ctx);
  }
  *text = fitted;
  *size_bytes = p.text.count - 1;
  return TS_OK;
}
