/* Tokens of the text form, and the errors of the parser. */
#include "ir/ir_priv.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN_TOKEN_BYTES = 40 };

/* Names what was found, shortened, with odd bytes replaced. */
static void describe_token(const struct ts__token *token, char *shown) {
  if (token->kind == TS__TOKEN_END) {
    strcpy(shown, "the end of the text");
    return;
  }
  size_t length = token->length < SHOWN_TOKEN_BYTES ? token->length : SHOWN_TOKEN_BYTES;
  size_t n = 0;
  shown[n++] = '\'';
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)token->text[i];
    shown[n++] = c < 0x20 || c > 0x7e ? '?' : (char)c;
  }
  shown[n++] = '\'';
  shown[n] = '\0';
}

enum ts_status ts__lex_fail(struct ts__lexer *lx, const char *expected) {
  char shown[SHOWN_TOKEN_BYTES + 16];
  struct ts_source_place place = {lx->path, lx->token.line, lx->token.column};
  describe_token(&lx->token, shown);
  return ts_fail(lx->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_IR, place, "expected %s, found %s", expected,
                 shown);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_word_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
/* "tilesim-ir" is the only word with a hyphen. */
static bool is_word_char(char c) { return is_word_start(c) || is_digit(c) || c == '.' || c == '-'; }

static void skip_blanks(struct ts__lexer *lx) {
  while (lx->at < lx->end) {
    char c = *lx->at;
    if (c == '#') {
      while (lx->at < lx->end && *lx->at != '\n')
        lx->at++;
      continue;
    }
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return;
    lx->at++;
    if (c == '\n') {
      lx->line++;
      lx->line_start = lx->at;
    }
  }
}

static int digit_value(char c, unsigned base) {
  int value = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  return value >= 0 && (unsigned)value < base ? value : -1;
}

/* Digits at lx->at; false when there are none, when more than 64 bits are needed, or when a word
 * follows without a gap. */
static bool take_digits(struct ts__lexer *lx, uint64_t *number) {
  unsigned base = 10;
  if (lx->end - lx->at > 2 && lx->at[0] == '0' && lx->at[1] == 'x') {
    base = 16;
    lx->at += 2;
  }
  const char *first = lx->at;
  bool fits = true;
  *number = 0;
  for (int digit; lx->at < lx->end && (digit = digit_value(*lx->at, base)) >= 0; lx->at++) {
    if (*number > (UINT64_MAX - (unsigned)digit) / base) fits = false;
    *number = *number * base + (unsigned)digit;
  }
  return fits && lx->at > first && (lx->at == lx->end || !is_word_char(*lx->at));
}

static void take_string(struct ts__lexer *lx, struct ts__token *token) {
  token->kind = TS__TOKEN_STRING;
  for (lx->at++; lx->at < lx->end && *lx->at != '"' && *lx->at != '\n'; lx->at++)
    if (*lx->at == '\\' && lx->end - lx->at > 1 && lx->at[1] != '\n') lx->at++;
  if (lx->at == lx->end || *lx->at != '"')
    token->kind = TS__TOKEN_BAD;
  else
    lx->at++;
}

enum ts_status ts__lex_next(struct ts__lexer *lx) {
  skip_blanks(lx);
  struct ts__token *token = &lx->token;
  *token = (struct ts__token){.text = lx->at, .line = lx->line};
  token->column = (uint32_t)(lx->at - lx->line_start) + 1;
  if (lx->at == lx->end) {
    token->kind = TS__TOKEN_END;
    return TS_OK;
  }
  char c = *lx->at;
  if (is_word_start(c)) {
    token->kind = TS__TOKEN_WORD;
    while (lx->at < lx->end && is_word_char(*lx->at))
      lx->at++;
  } else if (is_digit(c) || c == '-' || c == '%') {
    token->kind = c == '%' ? TS__TOKEN_REG : TS__TOKEN_NUMBER;
    token->is_negative = c == '-';
    if (!is_digit(c)) lx->at++;
    if (!take_digits(lx, &token->number)) token->kind = TS__TOKEN_BAD;
  } else if (c == '"') {
    take_string(lx, token);
  } else {
    token->kind = strchr("{}=,:@", c) && c ? TS__TOKEN_MARK : TS__TOKEN_BAD;
    lx->at++;
  }
  token->length = (size_t)(lx->at - token->text);
  if (token->kind == TS__TOKEN_BAD) return ts__lex_fail(lx, "a well-formed token");
  return TS_OK;
}

bool ts__lex_is_word(const struct ts__lexer *lx, const char *word) {
  return lx->token.kind == TS__TOKEN_WORD && strlen(word) == lx->token.length &&
         !memcmp(word, lx->token.text, lx->token.length);
}

bool ts__lex_is_mark(const struct ts__lexer *lx, char mark) {
  return lx->token.kind == TS__TOKEN_MARK && *lx->token.text == mark;
}

enum ts_status ts__lex_word(struct ts__lexer *lx, const char *word) {
  return ts__lex_is_word(lx, word) ? ts__lex_next(lx) : ts__lex_fail(lx, word);
}

enum ts_status ts__lex_mark(struct ts__lexer *lx, char mark) {
  const char expected[] = {'\'', mark, '\'', '\0'};
  return ts__lex_is_mark(lx, mark) ? ts__lex_next(lx) : ts__lex_fail(lx, expected);
}

enum ts_status ts__lex_unsigned(struct ts__lexer *lx, uint64_t *value) {
  if (lx->token.kind != TS__TOKEN_NUMBER || lx->token.is_negative)
    return ts__lex_fail(lx, "a number");
  *value = lx->token.number;
  return ts__lex_next(lx);
}

enum ts_status ts__lex_reference(struct ts__lexer *lx, char letter, uint32_t *index) {
  const struct ts__token *token = &lx->token;
  char expected[] = {letter, ' ', 'a', 'n', 'd', ' ', 'a', ' ', 'n', 'u', 'm', 'b', 'e', 'r', 0};
  uint64_t number = 0;
  bool is_good = token->kind == TS__TOKEN_WORD && token->length > 1 && token->length < 12 &&
                 token->text[0] == letter;
  for (size_t i = 1; is_good && i < token->length; i++) {
    is_good = is_digit(token->text[i]);
    number = number * 10 + (uint64_t)(token->text[i] - '0');
  }
  if (!is_good || number >= TS_NONE) return ts__lex_fail(lx, expected);
  *index = (uint32_t)number;
  return ts__lex_next(lx);
}

enum ts_status ts__lex_numbered(struct ts__lexer *lx, char letter, size_t number) {
  char expected[32];
  snprintf(expected, sizeof expected, "%c%zu", letter, number);
  return ts__lex_word(lx, expected);
}

/* --- what needs the module */

static int escape_value(const char *text, size_t left, size_t *used) {
  *used = 1;
  switch (*text) {
  case 'n': return '\n';
  case '"':
  case '\\': return *text;
  case 'x':
    *used = 3;
    if (left < 3 || digit_value(text[1], 16) < 0 || digit_value(text[2], 16) < 0) return -1;
    return digit_value(text[1], 16) * 16 + digit_value(text[2], 16);
  default: return -1;
  }
}

enum ts_status ts__parse_string(struct ts__parser *p, const char **string) {
  const struct ts__token *token = &p->lexer.token;
  if (token->kind != TS__TOKEN_STRING) return ts__lex_fail(&p->lexer, "a string");
  p->scratch.count = 0;
  if (ts_vec_reserve(&p->scratch, p->allocator, token->length)) return ts_fail_memory(p->ctx);
  size_t end = token->length - 1;
  for (size_t i = 1; i < end; i++) {
    int c = (unsigned char)token->text[i];
    size_t used;
    if (c == '\\') {
      c = escape_value(token->text + i + 1, end - i - 1, &used);
      i += used;
    }
    if (c <= 0) return ts__lex_fail(&p->lexer, "a string with known escapes and no NUL");
    p->scratch.data[p->scratch.count++] = (char)c;
  }
  *string = ts_intern(&p->module->names, p->scratch.data, p->scratch.count);
  if (!*string) return ts_fail_memory(p->ctx);
  return ts__lex_next(&p->lexer);
}

enum ts_status ts__parse_reg(struct ts__parser *p, uint32_t *reg) {
  const struct ts__token *token = &p->lexer.token;
  if (token->kind != TS__TOKEN_REG) return ts__lex_fail(&p->lexer, "a register");
  /* Each register occurs in the text, so that its number cannot be larger than the text. */
  if (token->number >= p->reg_limit || token->number >= TS_NONE)
    return ts__lex_fail(&p->lexer, "a register number that the text accounts for");
  *reg = (uint32_t)token->number;
  size_t count = p->function->regs.count;
  if (*reg >= count) {
    size_t extra = *reg + (size_t)1 - count;
    if (ts_vec_reserve(&p->function->regs, p->allocator, extra)) return ts_fail_memory(p->ctx);
    memset(p->function->regs.data + count, 0, extra * sizeof *p->function->regs.data);
    p->function->regs.count += extra;
  }
  return ts__lex_next(&p->lexer);
}

static uint32_t hash_text(const char *text, size_t length) {
  uint32_t hash = 5;
  for (size_t i = 0; i < length; i++)
    hash = ts__hash_word(hash, (unsigned char)text[i]);
  return hash;
}

enum ts_status ts__parse_index_ops(struct ts__parser *p) {
  for (uint32_t op = 0; op < TS_OP_COUNT; op++) {
    const char *mnemonic = ts_op_info((enum ts_op)op)->mnemonic;
    if (ts__index_add(&p->ops, p->allocator, hash_text(mnemonic, strlen(mnemonic)), op))
      return ts_fail_memory(p->ctx);
  }
  return TS_OK;
}

bool ts__parse_find_op(const struct ts__parser *p, const char *text, size_t length, uint32_t *op) {
  uint32_t hash = hash_text(text, length);
  for (size_t at = ts__index_first(&p->ops, hash); ts__index_find(&p->ops, hash, &at, op);
       at = ts__index_next(&p->ops, at)) {
    const char *mnemonic = ts_op_info((enum ts_op) * op)->mnemonic;
    if (strlen(mnemonic) == length && !memcmp(mnemonic, text, length)) return true;
  }
  return false;
}
