/* Reads the text form (docs/ir.md). The text may come from anywhere: whatever it claims, memory and
 * time stay in proportion to its size, and the verifier sees every function before a caller does. */
#include "ir/ir_priv.h"

#include <inttypes.h>
#include <string.h>

/* --- declarations of a function; each starts after its first word */

static enum ts_status expect_number_u32(struct ts__lexer *lx, uint32_t *value) {
  uint64_t wide;
  TS_TRY(ts__lex_unsigned(lx, &wide));
  if (wide >= TS_NONE) return ts__lex_fail(lx, "a number below 4294967295");
  *value = (uint32_t)wide;
  return TS_OK;
}

static enum ts_status expect_type(struct ts__lexer *lx, struct ts_type *type) {
  const char *text = lx->token.text;
  size_t length = lx->token.length, base = length;
  unsigned lanes = 0, scale = 1;
  if (lx->token.kind != TS__TOKEN_WORD) return ts__lex_fail(lx, "a type");
  while (base && text[base - 1] >= '0' && text[base - 1] <= '9' && length - base < 3)
    base--;
  if (base && base < length && text[base - 1] == 'x') {
    for (size_t i = length; i-- > base; scale *= 10)
      lanes += (unsigned)(text[i] - '0') * scale;
    length = base - 1;
  } else {
    lanes = 1;
  }
  enum ts_dtype dtype = ts_dtype_from_name(text, length);
  if (dtype == TS_DTYPE_NONE || lanes < 1 || lanes > TS_MAX_VECTOR_LANES)
    return ts__lex_fail(lx, "a type");
  *type = (struct ts_type){(uint8_t)dtype, (uint8_t)lanes};
  return ts__lex_next(lx);
}

static enum ts_status expect_dtype(struct ts__lexer *lx, uint8_t *dtype) {
  struct ts_type type = {0, 0};
  enum ts_dtype found = lx->token.kind == TS__TOKEN_WORD
                            ? ts_dtype_from_name(lx->token.text, lx->token.length)
                            : TS_DTYPE_NONE;
  if (found == TS_DTYPE_NONE) return ts__lex_fail(lx, "a dtype");
  TS_TRY(expect_type(lx, &type));
  *dtype = type.dtype;
  return TS_OK;
}

/* A string that may be left out. */
static enum ts_status optional_name(struct ts__parser *p, const char **name) {
  *name = NULL;
  if (p->lexer.token.kind != TS__TOKEN_STRING) return TS_OK;
  return ts__parse_string(p, name);
}

/* The next word must be one of the list; its position is the value. */
static enum ts_status expect_choice(struct ts__lexer *lx, const char *const *words, unsigned count,
                                    const char *what, unsigned *value) {
  for (unsigned i = 0; i < count; i++) {
    if (!ts__lex_is_word(lx, words[i])) continue;
    *value = i;
    return ts__lex_next(lx);
  }
  return ts__lex_fail(lx, what);
}

/* "%7": remembers the type if it is the first to be told. */
static enum ts_status declare_reg(struct ts__parser *p, struct ts_type type, uint32_t *reg) {
  TS_TRY(ts__parse_reg(p, reg));
  if (p->function->regs.data[*reg].type.lanes == 0) p->function->regs.data[*reg].type = type;
  return TS_OK;
}

static enum ts_status parse_param(struct ts__parser *p) {
  static const char *const kinds[] = {"pointer", "tensormap", "scalar"};
  struct ts_param param = {.reg = TS_NONE};
  unsigned kind = 0;
  TS_TRY(ts__lex_numbered(&p->lexer, 'p', p->function->params.count));
  TS_TRY(expect_choice(&p->lexer, kinds, 3, "pointer, tensormap or scalar", &kind));
  param.kind = (enum ts_param_kind)kind;
  TS_TRY(expect_dtype(&p->lexer, &param.dtype));
  if (param.kind != TS_PARAM_TENSORMAP) {
    struct ts_type type = {param.kind == TS_PARAM_POINTER ? TS_DTYPE_ptr : param.dtype, 1};
    TS_TRY(declare_reg(p, type, &param.reg));
  }
  TS_TRY(optional_name(p, &param.name));
  return ts_vec_push(&p->function->params, p->allocator, param) ? ts_fail_memory(p->ctx) : TS_OK;
}

static enum ts_status parse_array(struct ts__parser *p) {
  struct ts_array array = {0};
  TS_TRY(ts__lex_numbered(&p->lexer, 'a', p->function->arrays.count));
  TS_TRY(expect_dtype(&p->lexer, &array.dtype));
  TS_TRY(ts__lex_unsigned(&p->lexer, &array.elem_count));
  TS_TRY(optional_name(p, &array.name));
  return ts_vec_push(&p->function->arrays, p->allocator, array) ? ts_fail_memory(p->ctx) : TS_OK;
}

static enum ts_status parse_shared(struct ts__parser *p) {
  static const char *const kinds[] = {"static", "dynamic", "barrier"};
  struct ts_shared shared = {0};
  unsigned kind = 0;
  TS_TRY(ts__lex_numbered(&p->lexer, 's', p->function->shared.count));
  TS_TRY(expect_choice(&p->lexer, kinds, 3, "static, dynamic or barrier", &kind));
  shared.kind = (enum ts_shared_kind)kind;
  TS_TRY(expect_dtype(&p->lexer, &shared.dtype));
  TS_TRY(ts__lex_word(&p->lexer, "align"));
  TS_TRY(expect_number_u32(&p->lexer, &shared.align_bytes));
  TS_TRY(ts__lex_word(&p->lexer, "size"));
  TS_TRY(ts__lex_unsigned(&p->lexer, &shared.size_bytes));
  TS_TRY(optional_name(p, &shared.name));
  return ts_vec_push(&p->function->shared, p->allocator, shared) ? ts_fail_memory(p->ctx) : TS_OK;
}

static enum ts_status parse_reg_line(struct ts__parser *p) {
  struct ts_type type;
  uint32_t reg;
  TS_TRY(ts__parse_reg(p, &reg));
  TS_TRY(expect_type(&p->lexer, &type));
  struct ts_type told = p->function->regs.data[reg].type;
  if (told.lanes && (told.dtype != type.dtype || told.lanes != type.lanes))
    return ts__lex_fail(&p->lexer, "the register's type as declared before");
  p->function->regs.data[reg].type = type;
  const char *name;
  TS_TRY(optional_name(p, &name));
  if (name) p->function->regs.data[reg].name = name;
  return TS_OK;
}

static enum ts_status parse_region(struct ts__parser *p) {
  struct ts_region region;
  TS_TRY(ts__lex_numbered(&p->lexer, 'r', p->function->regions.count));
  TS_TRY(ts__lex_word(&p->lexer, "in"));
  TS_TRY(ts__lex_reference(&p->lexer, 'r', &region.parent));
  TS_TRY(ts__lex_word(&p->lexer, "head"));
  TS_TRY(ts__lex_reference(&p->lexer, 'b', &region.head));
  return ts_vec_push(&p->function->regions, p->allocator, region) ? ts_fail_memory(p->ctx) : TS_OK;
}

static enum ts_status parse_extent(struct ts__parser *p, uint32_t extent[3]) {
  for (int i = 0; i < 3; i++)
    TS_TRY(expect_number_u32(&p->lexer, &extent[i]));
  return TS_OK;
}

/* --- instructions */

/* Values without a sign are encodings; -1 is the encoding of that width. */
static enum ts_status encode(struct ts__parser *p, const struct ts_insn *insn, uint32_t i,
                             const struct ts__token *token, uint64_t *encoding) {
  enum ts_dtype dtype = ts__imm_dtype(insn, i);
  uint64_t mask = ts__int_mask(dtype);
  if (dtype == TS_DTYPE_NONE) mask = token->number > UINT64_C(1) << 31 ? UINT64_MAX : UINT32_MAX;
  *encoding = token->number;
  if (!token->is_negative) return TS_OK; /* the verifier looks at the width */
  if (token->number > mask / 2 + 1 || ts_dtype_is_float(dtype))
    return ts__lex_fail(&p->lexer, "a value of the operand's type");
  *encoding = (0 - token->number) & mask;
  return TS_OK;
}

static enum ts_status parse_imm(struct ts__parser *p, const struct ts_insn *insn, uint32_t i,
                                struct ts_operand *operand) {
  uint64_t encoding;
  TS_TRY(encode(p, insn, i, &p->lexer.token, &encoding));
  *operand = (struct ts_operand){TS_OPERAND_IMM, (uint32_t)p->function->constants.count};
  if (ts_vec_push(&p->function->constants, p->allocator, encoding)) return ts_fail_memory(p->ctx);
  return ts__lex_next(&p->lexer);
}

static enum ts_status parse_text(struct ts__parser *p, struct ts_operand *operand) {
  const char *text;
  TS_TRY(ts__parse_string(p, &text));
  *operand = (struct ts_operand){TS_OPERAND_TEXT, (uint32_t)p->function->texts.count};
  return ts_vec_push(&p->function->texts, p->allocator, text) ? ts_fail_memory(p->ctx) : TS_OK;
}

static enum ts_status parse_operand(struct ts__parser *p, const struct ts_insn *insn, uint32_t i,
                                    struct ts_operand *operand) {
  static const char letters[] = "asbp";
  static const enum ts_operand_kind kinds[] = {TS_OPERAND_ARRAY, TS_OPERAND_SHARED,
                                               TS_OPERAND_BLOCK, TS_OPERAND_TENSORMAP};
  const struct ts__token *token = &p->lexer.token;
  switch (token->kind) {
  case TS__TOKEN_NUMBER: return parse_imm(p, insn, i, operand);
  case TS__TOKEN_STRING: return parse_text(p, operand);
  case TS__TOKEN_REG: operand->kind = TS_OPERAND_REG; return ts__parse_reg(p, &operand->index);
  case TS__TOKEN_WORD: {
    const char *letter = strchr(letters, token->text[0]);
    if (!letter) break;
    operand->kind = kinds[letter - letters];
    return ts__lex_reference(&p->lexer, *letter, &operand->index);
  }
  default: break;
  }
  return ts__lex_fail(&p->lexer, "an operand");
}

static enum ts_status attr_id(struct ts__parser *p, enum ts_attr_id *id) {
  for (unsigned i = 0; i < TS_ATTR_COUNT; i++) {
    if (!ts__lex_is_word(&p->lexer, ts_attr_text((enum ts_attr_id)i))) continue;
    *id = (enum ts_attr_id)i;
    return ts__lex_next(&p->lexer);
  }
  return ts__lex_fail(&p->lexer, "an attribute");
}

static enum ts_status attr_value(struct ts__parser *p, struct ts_attr *attr) {
  enum ts_attr_id id = (enum ts_attr_id)attr->id;
  const struct ts__token *token = &p->lexer.token;
  if (ts_attr_kind(id) == TS_ATTR_KIND_INT) {
    uint64_t limit = (uint64_t)INT64_MAX + token->is_negative;
    if (token->kind != TS__TOKEN_NUMBER || token->number > limit)
      return ts__lex_fail(&p->lexer, "a signed 64-bit number");
    attr->value = (int64_t)(token->is_negative ? 0 - token->number : token->number);
    return ts__lex_next(&p->lexer);
  }
  const char *word = "";
  for (attr->value = 0; (word = ts_attr_value_text(id, attr->value)); attr->value++)
    if (ts__lex_is_word(&p->lexer, word)) return ts__lex_next(&p->lexer);
  return ts__lex_fail(&p->lexer, "a value of the attribute");
}

static enum ts_status parse_attrs(struct ts__parser *p, struct ts_attr *attrs, uint32_t *count) {
  *count = 0;
  if (!ts__lex_is_mark(&p->lexer, '{')) return TS_OK;
  do {
    TS_TRY(ts__lex_next(&p->lexer)); /* { or , */
    enum ts_attr_id id = (enum ts_attr_id)0;
    if (*count == TS_ATTR_COUNT) return ts__lex_fail(&p->lexer, "}");
    TS_TRY(attr_id(p, &id));
    attrs[*count].id = (uint32_t)id;
    TS_TRY(ts__lex_mark(&p->lexer, '='));
    TS_TRY(attr_value(p, &attrs[(*count)++]));
  } while (ts__lex_is_mark(&p->lexer, ','));
  return ts__lex_mark(&p->lexer, '}');
}

static enum ts_status parse_operands(struct ts__parser *p, const struct ts_insn *insn,
                                     struct ts_operand *operands, uint32_t *count) {
  *count = 0;
  if (!*ts_op_info((enum ts_op)insn->op)->operands) return TS_OK;
  for (;;) {
    if (*count == TS_MAX_OPERANDS) return ts__lex_fail(&p->lexer, "at most 12 operands");
    TS_TRY(parse_operand(p, insn, *count, &operands[*count]));
    ++*count;
    if (!ts__lex_is_mark(&p->lexer, ',')) return TS_OK;
    TS_TRY(ts__lex_next(&p->lexer));
  }
}

static enum ts_status parse_mnemonic(struct ts__parser *p, struct ts_insn *insn) {
  uint32_t op;
  const struct ts__token *token = &p->lexer.token;
  if (token->kind != TS__TOKEN_WORD || !ts__parse_find_op(p, token->text, token->length, &op))
    return ts__lex_fail(&p->lexer, "an instruction");
  insn->op = (uint16_t)op;
  TS_TRY(ts__lex_next(&p->lexer));
  struct ts_type type = {TS_DTYPE_u32, 1};
  if (ts__op_is_typed((enum ts_op)op)) TS_TRY(expect_type(&p->lexer, &type));
  insn->dtype = insn->dtype2 = type.dtype;
  insn->lanes = type.lanes;
  if (ts__op_has_second_dtype((enum ts_op)op)) TS_TRY(expect_dtype(&p->lexer, &insn->dtype2));
  return TS_OK;
}

static enum ts_status parse_place_number(struct ts__parser *p, struct ts_insn *insn) {
  if (!ts__lex_is_mark(&p->lexer, '@')) return TS_OK;
  TS_TRY(ts__lex_next(&p->lexer));
  if (p->lexer.token.kind == TS__TOKEN_NUMBER && p->lexer.token.number >= p->module->places.count)
    return ts__lex_fail(&p->lexer, "the number of a place");
  return expect_number_u32(&p->lexer, &insn->place);
}

static enum ts_status parse_insn(struct ts__parser *p) {
  struct ts_insn insn = {.dst = TS_NONE, .block = (uint32_t)p->function->blocks.count - 1};
  struct ts_operand operands[TS_MAX_OPERANDS];
  struct ts_attr attrs[TS_ATTR_COUNT];
  uint32_t operand_count, attr_count;
  if (p->function->blocks.count == 0) return ts__lex_fail(&p->lexer, "a block such as b0 in r0:");
  if (p->lexer.token.kind == TS__TOKEN_REG) {
    TS_TRY(ts__parse_reg(p, &insn.dst));
    TS_TRY(ts__lex_mark(&p->lexer, '='));
  }
  TS_TRY(parse_mnemonic(p, &insn));
  TS_TRY(parse_operands(p, &insn, operands, &operand_count));
  TS_TRY(parse_attrs(p, attrs, &attr_count));
  TS_TRY(parse_place_number(p, &insn));
  uint32_t id = ts__add_insn(p->function, insn, operands, operand_count, attrs, attr_count);
  if (id == TS_NONE) return ts_fail_memory(p->ctx);
  if (insn.dst == TS_NONE) return TS_OK;
  struct ts_type *told = &p->function->regs.data[insn.dst].type;
  const struct ts_insn *added = &p->function->insns.data[id];
  if (told->lanes == 0)
    *told = ts__dst_type((enum ts_op)insn.op, (enum ts_dtype)insn.dtype, insn.lanes,
                         ts_insn_attr(p->function, added, TS_ATTR_mode, 0));
  return TS_OK;
}

static enum ts_status parse_block(struct ts__parser *p) {
  struct ts_block block = {0};
  TS_TRY(ts__lex_numbered(&p->lexer, 'b', p->function->blocks.count));
  TS_TRY(ts__lex_word(&p->lexer, "in"));
  TS_TRY(ts__lex_reference(&p->lexer, 'r', &block.region));
  TS_TRY(ts__lex_mark(&p->lexer, ':'));
  return ts_vec_push(&p->function->blocks, p->allocator, block) ? ts_fail_memory(p->ctx) : TS_OK;
}

static bool is_block_label(const struct ts__lexer *lx) {
  const struct ts__token *token = &lx->token;
  return token->kind == TS__TOKEN_WORD && token->length > 1 && token->text[0] == 'b' &&
         token->text[1] >= '0' && token->text[1] <= '9';
}

static enum ts_status parse_entry(struct ts__parser *p) {
  return ts__lex_reference(&p->lexer, 'b', &p->function->entry);
}

static enum ts_status parse_arch(struct ts__parser *p) {
  return ts__parse_string(p, &p->function->arch);
}

static enum ts_status parse_fast_math(struct ts__parser *p) {
  p->function->fast_math = true;
  return TS_OK;
}

static enum ts_status parse_cluster(struct ts__parser *p) {
  return parse_extent(p, p->function->cluster);
}

static enum ts_status parse_threads(struct ts__parser *p) {
  return parse_extent(p, p->function->thread_extent);
}

static const struct {
  const char *word;
  enum ts_status (*parse)(struct ts__parser *p);
} declarations[] = {
    {"param", parse_param},         {"array", parse_array},     {"shared", parse_shared},
    {"reg", parse_reg_line},        {"region", parse_region},   {"entry", parse_entry},
    {"arch", parse_arch},           {"cluster", parse_cluster}, {"threads", parse_threads},
    {"fast_math", parse_fast_math},
};

/* Declarations are words that no instruction has. */
static enum ts_status parse_item(struct ts__parser *p) {
  if (is_block_label(&p->lexer)) return parse_block(p);
  for (size_t i = 0; i < sizeof declarations / sizeof *declarations; i++) {
    if (!ts__lex_is_word(&p->lexer, declarations[i].word)) continue;
    TS_TRY(ts__lex_next(&p->lexer));
    return declarations[i].parse(p);
  }
  return parse_insn(p);
}

static enum ts_status check_told(struct ts__parser *p) {
  for (size_t i = 0; i < p->function->regs.count; i++)
    if (p->function->regs.data[i].type.lanes == 0)
      return ts_fail(p->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_IR, TS_FILE_PLACE(p->lexer.path),
                     "function %s: register %%%zu has no type: it is neither declared nor the "
                     "result of an instruction",
                     p->function->name, i);
  return TS_OK;
}

static enum ts_status parse_body(struct ts__parser *p) {
  TS_TRY(ts__lex_mark(&p->lexer, '{'));
  while (!ts__lex_is_mark(&p->lexer, '}'))
    TS_TRY(parse_item(p));
  TS_TRY(check_told(p));
  TS_TRY(ts_function_finish(p->ctx, p->function));
  TS_TRY(ts_verify(p->ctx, p->function));
  return ts__lex_next(&p->lexer);
}

static enum ts_status parse_function(struct ts__parser *p) {
  const char *name;
  TS_TRY(ts__parse_string(p, &name));
  if (ts_module_find(p->module, name))
    return ts__lex_fail(&p->lexer, "a function name that is not taken");
  p->function = ts__function_new(p->module, name);
  if (!p->function) return ts_fail_memory(p->ctx);
  enum ts_status status = parse_body(p);
  p->reg_limit -= p->function->regs.count;
  if (status == TS_OK && ts_vec_push(&p->module->functions, p->allocator, p->function))
    status = ts_fail_memory(p->ctx);
  if (status != TS_OK) ts__function_free(p->function);
  return status;
}

static enum ts_status parse_place(struct ts__parser *p) {
  struct ts_source_place place = TS_NO_PLACE;
  TS_TRY(ts__parse_string(p, &place.file));
  TS_TRY(expect_number_u32(&p->lexer, &place.line));
  TS_TRY(expect_number_u32(&p->lexer, &place.column));
  return ts_vec_push(&p->module->places, p->allocator, place) ? ts_fail_memory(p->ctx) : TS_OK;
}

static enum ts_status parse_module(struct ts__parser *p) {
  TS_TRY(ts__lex_next(&p->lexer));
  TS_TRY(ts__lex_word(&p->lexer, "tilesim-ir"));
  if (p->lexer.token.kind != TS__TOKEN_NUMBER || p->lexer.token.number != 1)
    return ts__lex_fail(&p->lexer, "version 1");
  TS_TRY(ts__lex_next(&p->lexer));
  while (p->lexer.token.kind != TS__TOKEN_END) {
    bool is_place = ts__lex_is_word(&p->lexer, "place");
    if (!is_place && !ts__lex_is_word(&p->lexer, "function"))
      return ts__lex_fail(&p->lexer, "place, function or the end of the text");
    TS_TRY(ts__lex_next(&p->lexer));
    TS_TRY(is_place ? parse_place(p) : parse_function(p));
  }
  return TS_OK;
}

enum ts_status ts_parse_module(struct ts_ctx *ctx, const char *path, const char *text,
                               size_t size_bytes, struct ts_module **module) {
  struct ts__parser p = {.ctx = ctx, .allocator = ctx->allocator};
  *module = NULL;
  p.module = ts_module_new(ctx->allocator);
  if (!p.module) return ts_fail_memory(ctx);
  p.lexer = (struct ts__lexer){.ctx = ctx,
                               .path = path,
                               .at = text,
                               .end = text + size_bytes,
                               .line = 1,
                               .line_start = text};
  p.reg_limit = size_bytes;
  enum ts_status status = ts__parse_index_ops(&p);
  if (status == TS_OK) status = parse_module(&p);
  ts__index_free(&p.ops, p.allocator);
  ts_vec_free(&p.scratch, p.allocator);
  if (status == TS_OK)
    *module = p.module;
  else
    ts_module_free(p.module);
  return status;
}
