/* Address-only runs: what an instruction that is not in the slice (ir/slice.h) does instead of its
 * work, which is to be told. */
#include "interp/interp_priv.h"

#include <stdio.h>

/* Its INSN event comes from the scheduler. */
static enum ts__step skip(struct ts__warp *warp, const struct ts__code *code) {
  (void)warp;
  (void)code;
  return TS__STEP_NEXT;
}

static enum ts__step touch(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                           bool is_write) {
  struct ts__access access;
  ts__access_addresses(warp, code, &access);
  if (!ts__listening(warp->block)) return TS__STEP_NEXT;
  warp->block->status = ts__emit_memory(warp, code, space, is_write, &access);
  return ts__after_checks(warp);
}

static enum ts__step read_global(struct ts__warp *warp, const struct ts__code *code) {
  return touch(warp, code, TS_SPACE_GLOBAL, false);
}

static enum ts__step write_global(struct ts__warp *warp, const struct ts__code *code) {
  return touch(warp, code, TS_SPACE_GLOBAL, true);
}

static enum ts__step read_shared(struct ts__warp *warp, const struct ts__code *code) {
  return touch(warp, code, TS_SPACE_SHARED, false);
}

static enum ts__step write_shared(struct ts__warp *warp, const struct ts__code *code) {
  return touch(warp, code, TS_SPACE_SHARED, true);
}

void ts__decode_quiet(struct ts__code *code) {
  switch (code->op) {
  case TS_OP_ld_global: code->exec = read_global; return;
  case TS_OP_ld_shared: code->exec = read_shared; return;
  case TS_OP_st_global:
  case TS_OP_atom_global:
  case TS_OP_atom_global_ret: code->exec = write_global; return;
  case TS_OP_st_shared:
  case TS_OP_atom_shared:
  case TS_OP_atom_shared_ret: code->exec = write_shared; return;
  case TS_OP_elect:
  case TS_OP_shfl:
  case TS_OP_vote:
  case TS_OP_match:
  case TS_OP_redux:
  case TS_OP_ld_local:
  case TS_OP_st_local:
  case TS_OP_tmem_alloc:
  case TS_OP_tmem_dealloc:
  case TS_OP_assert:
  case TS_OP_print: code->exec = skip; return;
  default: break;
  }
  if (ts_op_info((enum ts_op)code->op)->flags & F_PURE)
    code->exec = skip;
  else
    code->is_quiet = true;
}

/* "a, b": the tensors at the addresses. */
static void list_names(const struct ts_device_memory *memory, const uint64_t *tensors,
                       uint32_t count, char *text, size_t size_bytes) {
  size_t used = 0;
  text[0] = 0;
  for (uint32_t i = 0; i < count && used < size_bytes; i++) {
    const struct ts_allocation *allocation = ts_device_find(memory, tensors[i]);
    if (!allocation || !allocation->name) continue;
    int length =
        snprintf(text + used, size_bytes - used, "%s%s", used ? ", " : "", allocation->name);
    used += length > 0 ? (size_t)length : 0;
  }
}

void ts__tell_dependence(struct ts_ctx *ctx, const char *function, const struct ts_slice *slice,
                         const struct ts_device_memory *memory, const uint64_t *tensors,
                         uint32_t tensor_count) {
  char names[128], message[384];
  if (!slice->depends_on_data && !slice->depends_on_atomics) return;
  list_names(memory, tensors, tensor_count, names, sizeof names);
  const char *meaning = "the time is for these contents";
  if (slice->depends_on_results) meaning = "the launches write some of it themselves";
  if (slice->depends_on_atomics) meaning = "atomics are among it, whose order a device may change";
  snprintf(message, sizeof message, "what %s executes depends on the contents of tensors (%s): %s",
           function, names, meaning);
  struct ts_diag diag = {.code = TS_DIAG_TIME_DATA,
                         .message = message,
                         .function = function,
                         .block = -1,
                         .warp = -1,
                         .lane = -1};
  ts_diag_add(ctx->diags, &diag);
}
