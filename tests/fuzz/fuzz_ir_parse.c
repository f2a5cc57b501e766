/* Text form: whatever parses is printed, parsed and printed again with equal text, and survives the
 * passes and the estimate of machine code. */
#include "ir/code.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Slots exist, and each instruction has a place. */
static void check_code(struct ts_ctx *ctx, const struct ts_function *function) {
  struct ts_arena arena;
  struct ts_code code;
  ts_arena_init(&arena, ctx->allocator);
  if (ts_code_estimate(ctx, function, &arena, &code) != TS_OK) abort();
  for (uint32_t i = 0; i < code.insn_count; i++)
    if (code.insns[i].rank >= code.insn_count) abort();
  for (uint32_t i = 0; i < code.ref_count; i++)
    if (!code.refs[i].count || code.refs[i].first + code.refs[i].count > code.slot_count) abort();
  ts_arena_free(&arena);
}

static void run_passes(struct ts_ctx *ctx, struct ts_module *module) {
  for (size_t i = 0; i < module->functions.count; i++) {
    struct ts_function *function = module->functions.data[i];
    if (ts_analyze_uniform(ctx, function) != TS_OK) abort();
    check_code(ctx, function);
    if (ts_pass_promote_arrays(ctx, function) != TS_OK) abort();
    if (ts_pass_contract(ctx, function) != TS_OK) abort();
    if (ts_pass_drop_dead(ctx, function) != TS_OK) abort();
    if (ts_verify(ctx, function) != TS_OK) abort();
    check_code(ctx, function);
  }
}

static char *print(struct ts_ctx *ctx, const struct ts_module *module, size_t *size_bytes) {
  char *text;
  if (ts_print_module(ctx, module, &text, size_bytes) != TS_OK) abort();
  return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct ts_diag_list diags;
  struct ts_module *module, *again;
  if (ts_diag_list_init(&diags, &ts_allocator_libc) != TS_OK) return 0;
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  if (ts_parse_module(&ctx, "fuzz", (const char *)data, size, &module) == TS_OK) {
    size_t size_a, size_b;
    char *a = print(&ctx, module, &size_a);
    if (ts_parse_module(&ctx, "again", a, size_a, &again) != TS_OK) abort();
    char *b = print(&ctx, again, &size_b);
    if (size_a != size_b || memcmp(a, b, size_a)) abort();
    free(a);
    free(b);
    run_passes(&ctx, again);
    ts_module_free(again);
    ts_module_free(module);
  }
  ts_diag_list_free(&diags);
  return 0;
}
