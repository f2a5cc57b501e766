/* The tables of op.def, attr.def and the enums that the text form writes as words. */
#include "ir/ir_priv.h"

#include <string.h>

static const struct ts_op_info op_table[TS_OP_COUNT] = {
#define OP(name, mnemonic, stratum, unit, has_dst, operands, flags, synopsis)                      \
  [TS_OP_##name] = {#name,   mnemonic, TS_STRATUM_##stratum, TS_UNIT_##unit, has_dst, operands,    \
                    (flags), synopsis},
#include "ir/op.def"
#undef OP
};

static const struct {
  const char *text;
  enum ts_attr_kind kind;
} attr_table[TS_ATTR_COUNT] = {
#define ATTR(name, text, kind, synopsis) [TS_ATTR_##name] = {text, TS_ATTR_KIND_##kind},
#include "ir/attr.def"
#undef ATTR
};

static const char *const sreg_words[] = {
    "tid.x",  "tid.y",  "tid.z",           "ctaid.x",    "ctaid.y",  "ctaid.z",
    "ntid.x", "ntid.y", "ntid.z",          "nctaid.x",   "nctaid.y", "nctaid.z",
    "laneid", "warpid", "cluster_ctarank", "activemask",
};
_Static_assert(sizeof sreg_words / sizeof *sreg_words == TS_SREG_COUNT, "a word per register");

static const char *const round_words[] = {"rn", "rz", "rm", "rp", "rna"};
_Static_assert(sizeof round_words / sizeof *round_words == TS_IR_ROUND_rna + 1, "a word each");

static const char *const mode_words[] = {"idx", "up",     "down", "bfly", "any",
                                         "all", "ballot", "popc", "and",  "or"};
_Static_assert(sizeof mode_words / sizeof *mode_words == TS_IR_MODE_or + 1, "a word each");

static const char *const reduce_words[] = {"none", "add", "min",  "max", "and",  "or",   "xor",
                                           "inc",  "dec", "exch", "cas", "load", "store"};
_Static_assert(sizeof reduce_words / sizeof *reduce_words == TS_IR_REDUCE_store + 1, "a word each");

const struct ts_op_info *ts_op_info(enum ts_op op) {
  static const struct ts_op_info unknown = {"unknown", "?", TS_STRATUM_ANY, TS_UNIT_MOVE, false,
                                            "",        0,   "no operation"};
  return (unsigned)op < TS_OP_COUNT ? &op_table[op] : &unknown;
}

const char *ts_attr_text(enum ts_attr_id id) {
  return (unsigned)id < TS_ATTR_COUNT ? attr_table[id].text : "?";
}

enum ts_attr_kind ts_attr_kind(enum ts_attr_id id) {
  return (unsigned)id < TS_ATTR_COUNT ? attr_table[id].kind : TS_ATTR_KIND_INT;
}

static const char *word_at(const char *const *words, size_t count, int64_t value) {
  return value >= 0 && (uint64_t)value < count ? words[value] : NULL;
}

#define WORD(words, value) word_at(words, sizeof(words) / sizeof *(words), value)

const char *ts_attr_value_text(enum ts_attr_id id, int64_t value) {
  switch (ts_attr_kind(id)) {
  case TS_ATTR_KIND_SREG: return WORD(sreg_words, value);
  case TS_ATTR_KIND_MODE: return WORD(mode_words, value);
  case TS_ATTR_KIND_REDUCE: return WORD(reduce_words, value);
  case TS_ATTR_KIND_ROUND: return WORD(round_words, value);
  case TS_ATTR_KIND_DTYPE:
    return value >= 0 && value < TS_DTYPE_COUNT ? ts_dtype_name((enum ts_dtype)value) : NULL;
  case TS_ATTR_KIND_INT: break;
  }
  return NULL;
}

bool ts__op_has_second_dtype(enum ts_op op) {
  switch (op) {
  case TS_OP_cvt:
  case TS_OP_bitcast:
  case TS_OP_mma:
  case TS_OP_wgmma_ss:
  case TS_OP_wgmma_rs:
  case TS_OP_mma_sp:
  case TS_OP_wgmma_sp_ss:
  case TS_OP_wgmma_sp_rs:
  case TS_OP_tcgen05_mma_ss:
  case TS_OP_tcgen05_mma_ts: return true;
  default: return false;
  }
}

bool ts__op_is_typed(enum ts_op op) {
  if (ts_op_info(op)->has_dst || ts__op_has_second_dtype(op)) return true;
  switch (op) {
  case TS_OP_st_global:
  case TS_OP_st_shared:
  case TS_OP_st_local:
  case TS_OP_st_cluster:
  case TS_OP_atom_global:
  case TS_OP_atom_shared:
  case TS_OP_ldmatrix:
  case TS_OP_stmatrix:
  case TS_OP_wgmma_touch: return true;
  default: return false;
  }
}

struct ts_type ts__dst_type(enum ts_op op, enum ts_dtype dtype, uint32_t lanes, int64_t mode) {
  struct ts_type type = {(uint8_t)dtype, (uint8_t)lanes};
  switch (op) {
  case TS_OP_eq:
  case TS_OP_ne:
  case TS_OP_lt:
  case TS_OP_le: type.dtype = TS_DTYPE_pred; break;
  case TS_OP_elect: type = (struct ts_type){TS_DTYPE_pred, 1}; break;
  case TS_OP_match: type = (struct ts_type){TS_DTYPE_u32, 1}; break;
  case TS_OP_vote:
    type = (struct ts_type){mode == TS_IR_MODE_ballot ? TS_DTYPE_u32 : TS_DTYPE_pred, 1};
    break;
  case TS_OP_bar_red:
    type = (struct ts_type){mode == TS_IR_MODE_popc ? TS_DTYPE_u32 : TS_DTYPE_pred, 1};
    break;
  default: break;
  }
  return type;
}

bool ts__operand_count_fits(const char *pattern, uint32_t count) {
  size_t length = strlen(pattern);
  bool repeats = length && pattern[length - 1] == '*';
  if (!repeats) return count == length;
  return count + 2 >= length && count <= TS_MAX_OPERANDS;
}

char ts__operand_letter(const char *pattern, uint32_t i) {
  size_t length = strlen(pattern);
  if (length && pattern[length - 1] == '*')
    return i < length - 1 ? pattern[i] : pattern[length - 2];
  return i < length ? pattern[i] : '\0';
}
