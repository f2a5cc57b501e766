/* Which rows of the fidelity table the executed instructions fall under. An instruction's row is
 * found by a key: a piece of text that occurs in the row's description. */
#include "api/api_priv.h"

#include <stdio.h>
#include <string.h>

static const char approximate_key[] = ".approx of f32";

/* What a special function of f32 rests on, by op; precise and fast-math form. */
static const struct {
  uint16_t op;
  const char *precise, *approximate;
} special_keys[] = {
    {TS_OP_sqrt, "sqrt of f32", approximate_key},
    {TS_OP_rsqrt, "rsqrtf", approximate_key},
    {TS_OP_rcp, "rcp, sqrt of f32", approximate_key},
    {TS_OP_exp, "expf", "__expf"},
    {TS_OP_exp2, "exp2f", approximate_key},
    {TS_OP_exp10, "exp10f", approximate_key},
    {TS_OP_log, "logf", "__logf"},
    {TS_OP_log2, "log2f", approximate_key},
    {TS_OP_log10, "log10f", approximate_key},
    {TS_OP_log1p, "log1pf", "log1pf"},
    {TS_OP_sin, "sinf", approximate_key},
    {TS_OP_cos, "cosf", approximate_key},
    {TS_OP_tan, "tanf", approximate_key},
    {TS_OP_asin, "asinf", "asinf"},
    {TS_OP_acos, "acosf", "acosf"},
    {TS_OP_atan, "atanf", "atanf"},
    {TS_OP_sinh, "sinhf", "sinhf"},
    {TS_OP_cosh, "coshf", "coshf"},
    {TS_OP_tanh, "tanhf", approximate_key},
    {TS_OP_erf, "erff", "erff"},
    {TS_OP_pow, "powf", approximate_key},
};

static bool is_narrow_float(enum ts_dtype dtype) {
  return ts_dtype_is_float(dtype) && ts_dtype_bits(dtype) < 16;
}

static const char *special_key(const struct ts_insn *insn, bool is_approximate) {
  bool is_log_or_turn = insn->op == TS_OP_log || insn->op == TS_OP_sinpi || insn->op == TS_OP_cospi;
  if (insn->dtype == TS_DTYPE_f64)
    return is_log_or_turn ? "log, sinpi, cospi of f64" : "special functions of f64";
  if (insn->dtype != TS_DTYPE_f32) return "special functions of f16";
  for (size_t i = 0; i < sizeof special_keys / sizeof *special_keys; i++) {
    if (special_keys[i].op == insn->op)
      return is_approximate ? special_keys[i].approximate : special_keys[i].precise;
  }
  return "no row";
}

static const char *convert_key(const struct ts_insn *insn) {
  enum ts_dtype to = (enum ts_dtype)insn->dtype, from = (enum ts_dtype)insn->dtype2;
  if (!ts_dtype_is_float(to) && !ts_dtype_is_float(from)) return NULL;
  if (!is_narrow_float(to) && !is_narrow_float(from)) return "conversions between f32";
  enum ts_dtype narrow = is_narrow_float(to) ? to : from;
  return narrow == TS_DTYPE_e4m3 || narrow == TS_DTYPE_e5m2 ? "to and from e4m3"
                                                            : "conversions of e2m1";
}

/* NULL for what is exact by definition: moves, integers, memory, synchronisation. */
static const char *insn_key(const struct ts_function *function, const struct ts_insn *insn) {
  bool is_approximate = ts_insn_attr(function, insn, TS_ATTR_approx, 0) != 0;
  if (insn->op == TS_OP_cvt) return convert_key(insn);
  if (!ts_dtype_is_float((enum ts_dtype)insn->dtype)) return NULL;
  if (ts_op_info((enum ts_op)insn->op)->unit == TS_UNIT_SPECIAL)
    return special_key(insn, is_approximate);
  switch (insn->op) {
  case TS_OP_add:
  case TS_OP_sub:
  case TS_OP_mul:
  case TS_OP_fma: return "add, sub, mul, fma of f32";
  case TS_OP_min:
  case TS_OP_max: return "min, max of f32";
  case TS_OP_div:
    if (ts_dtype_bits((enum ts_dtype)insn->dtype) < 32) return "div of f16";
    return is_approximate ? "div.full" : "div, rcp, sqrt of f32";
  default: return NULL;
  }
}

/* The row of the machine's profile; a profile that lists elementwise arithmetic as a whole has that
 * one row. NULL when there is none. */
static const struct ts_fidelity_row *find_row(const char *profile, const char *key) {
  size_t count;
  const struct ts_fidelity_row *rows = ts_fidelity_rows(&count);
  const struct ts_fidelity_row *whole = NULL;
  for (size_t i = 0; i < count; i++) {
    bool is_any = strcmp(rows[i].profile, "*") == 0;
    if (!is_any && strcmp(rows[i].profile, profile) != 0) continue;
    if (strstr(rows[i].what, key)) return &rows[i];
    if (strcmp(rows[i].what, "elementwise") == 0) whole = &rows[i];
  }
  return whole;
}

static enum ts_status add_row(struct ts_sim *sim, const char *what, const char *level,
                              const char *source) {
  for (size_t i = 0; i < sim->fidelity.rows.count; i++) {
    struct ts_fidelity_info *row = &sim->fidelity.rows.data[i];
    if (strcmp(row->what, what) != 0) continue;
    row->insn_count++;
    return TS_OK;
  }
  struct ts_fidelity_info row = {what, level, source, 1};
  return ts_vec_push(&sim->fidelity.rows, &sim->allocator, row) ? ts_fail_memory(&sim->ctx) : TS_OK;
}

/* The path of a matrix instruction; NULL for others. */
static const char *path_of(uint16_t op, enum ts_mma_path *path, bool *is_sparse) {
  *is_sparse = op == TS_OP_mma_sp || op == TS_OP_wgmma_sp_ss || op == TS_OP_wgmma_sp_rs;
  switch (op) {
  case TS_OP_mma:
  case TS_OP_mma_sp: *path = TS_MMA_SYNC; return *is_sparse ? "mma.sp.sync" : "mma.sync";
  case TS_OP_wgmma_ss:
  case TS_OP_wgmma_rs:
  case TS_OP_wgmma_sp_ss:
  case TS_OP_wgmma_sp_rs: *path = TS_MMA_WGMMA; return *is_sparse ? "wgmma.sp" : "wgmma";
  case TS_OP_tcgen05_mma_ss:
  case TS_OP_tcgen05_mma_ts: *path = TS_MMA_TCGEN05; return "tcgen05.mma";
  default: return NULL;
  }
}

/* Sparse products: EXACT where the corpus has them, which is f16 into f32. */
static enum ts_fidelity fidelity_of(const struct ts_mma_op *op, bool is_sparse) {
  if (!op) return TS_FIDELITY_UNKNOWN;
  bool is_measured = !is_sparse || (op->a == TS_DTYPE_f16 && op->acc == TS_DTYPE_f32) ||
                     !ts_dtype_is_float(op->acc);
  return is_measured ? op->fidelity : TS_FIDELITY_MODELLED;
}

static enum ts_status add_matrix(struct ts_sim *sim, const struct ts_function *function,
                                 const struct ts_insn *insn) {
  enum ts_dtype a = (enum ts_dtype)insn->dtype2, acc = (enum ts_dtype)insn->dtype;
  enum ts_dtype b = (enum ts_dtype)ts_insn_attr(function, insn, TS_ATTR_b_dtype, a);
  enum ts_mma_path path;
  bool is_sparse;
  const char *name = path_of(insn->op, &path, &is_sparse), *what;
  uint32_t k = (uint32_t)ts_insn_attr(function, insn, TS_ATTR_k, 0);
  if (path == TS_MMA_TCGEN05) { /* the types are those of a descriptor at run time */
    what = ts_arena_printf(&sim->run_arena, "%s of kind %s", name, ts_dtype_name(a));
    if (!what) return ts_fail_memory(&sim->ctx);
    return add_row(sim, what, ts_fidelity_name(TS_FIDELITY_MODELLED), "num/mma_profile.def");
  }
  const struct ts_mma_op *op = ts_mma_find(ts_mma_profile_from_name(sim->machine.profile), path, a,
                                           b, acc, is_sparse ? k / 2 : k);
  what = ts_arena_printf(&sim->run_arena, "%s k%u %s x %s -> %s", name, k, ts_dtype_name(a),
                         ts_dtype_name(b), ts_dtype_name(acc));
  if (!what) return ts_fail_memory(&sim->ctx);
  return add_row(sim, what, ts_fidelity_name(fidelity_of(op, is_sparse)), "num/mma_profile.def");
}

static enum ts_status add_insn(struct ts_sim *sim, const struct ts_function *function,
                               const struct ts_insn *insn) {
  enum ts_mma_path path;
  bool is_sparse;
  if (path_of(insn->op, &path, &is_sparse)) return add_matrix(sim, function, insn);
  const char *key = insn_key(function, insn);
  if (!key)
    return add_row(sim, "moves, integers, memory, synchronisation", "exact", "by definition");
  const struct ts_fidelity_row *row = find_row(sim->machine.profile, key);
  if (!row) return add_row(sim, key, "unknown", "no row in the table");
  return add_row(sim, row->what, ts_fidelity_name(row->level), row->source);
}

/* Instructions of ops that no warp came to are left out. */
static enum ts_status add_function(struct ts_sim *sim, const struct ts_function *function) {
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (sim->stats.op_count[insn->op]) TS_TRY(add_insn(sim, function, insn));
  }
  return TS_OK;
}

static enum ts_status build_rows(struct ts_sim *sim) {
  const struct ts_module *module = ts_tvm_module(sim->tvm);
  for (size_t i = 0; i < module->functions.count; i++)
    TS_TRY(add_function(sim, module->functions.data[i]));
  sim->has_fidelity = true;
  return TS_OK;
}

uint32_t ts_sim_fidelity_count(struct ts_sim *sim) {
  if (!sim->has_run) return 0;
  if (!sim->has_fidelity && build_rows(sim) != TS_OK) return 0;
  return (uint32_t)sim->fidelity.rows.count;
}

enum ts_result ts_sim_fidelity(struct ts_sim *sim, uint32_t index, struct ts_fidelity_info *info) {
  if (index >= ts_sim_fidelity_count(sim)) return TS_RESULT_BAD_ARGUMENT;
  *info = sim->fidelity.rows.data[index];
  return TS_RESULT_OK;
}
