/* Hazards: what the kernel did wrong, told with its places, and the checks of shared memory. */
#include "interp/interp_priv.h"

#include <stdio.h>
#include <string.h>

static const char *op_text(const struct ts__program *program, uint32_t insn) {
  if (insn >= program->function->insns.count) return "an earlier operation";
  return ts_op_info((enum ts_op)program->function->insns.data[insn].op)->mnemonic;
}

static enum ts__step report(struct ts__warp *warp, uint32_t insn, enum ts_diag_code kind,
                            uint32_t lane, uint32_t other_insn, const char *hint,
                            const char *format, va_list arguments) {
  struct ts__block *block = warp->block;
  const struct ts__program *program = warp->program;
  char message[512];
  vsnprintf(message, sizeof message, format, arguments);
  struct ts_diag diag = {.code = kind,
                         .message = message,
                         .hint = hint,
                         .place = ts_insn_place(program->function, insn),
                         .function = program->function->name,
                         .block = block->index,
                         .warp = warp->index,
                         .lane = lane < TS__LANES ? (int64_t)lane : -1};
  if (other_insn != TS_NONE) diag.other = ts_insn_place(program->function, other_insn);
  ts_diag_add(block->ctx->diags, &diag);
  if (ts_diag_severity(kind) == TS_SEVERITY_REMARK) return TS__STEP_NEXT;
  block->has_hazard = true;
  if (kind == TS_DIAG_DEVICE_TRAP)
    block->status = TS_TRAP;
  else if (program->options->stop_at_first_hazard)
    block->status = TS_HAZARD;
  return ts__after_checks(warp);
}

enum ts__step ts__hazard(struct ts__warp *warp, const struct ts__code *code, enum ts_diag_code kind,
                         uint32_t lane, uint32_t other_insn, const char *hint, const char *format,
                         ...) {
  va_list arguments;
  va_start(arguments, format);
  enum ts__step step = report(warp, code->insn, kind, lane, other_insn, hint, format, arguments);
  va_end(arguments);
  return step;
}

enum ts__step ts__hazard_at(struct ts__warp *warp, uint32_t insn, enum ts_diag_code kind,
                            uint32_t lane, uint32_t other_insn, const char *hint,
                            const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  enum ts__step step = report(warp, insn, kind, lane, other_insn, hint, format, arguments);
  va_end(arguments);
  return step;
}

enum ts__step ts__fault_memory(struct ts__warp *warp) {
  warp->block->status = ts_fail_memory(warp->block->ctx);
  return TS__STEP_FAULT;
}

const char *ts__shared_text(const struct ts__block *block, uint64_t address, char *text,
                            size_t size_bytes) {
  const struct ts_function *function = block->program->function;
  for (size_t i = 0; i < function->shared.count; i++) {
    const struct ts_shared *object = &function->shared.data[i];
    uint64_t object_bytes = object->kind == TS_SHARED_DYNAMIC
                                ? block->program->shared_bytes - object->address
                                : object->size_bytes;
    if (address < object->address || address - object->address >= object_bytes) continue;
    uint64_t offset = address - object->address;
    const char *name = object->name ? object->name : "unnamed";
    if (object->kind == TS_SHARED_BARRIER)
      snprintf(text, size_bytes, "shared 0x%llx (%s[%llu])", (unsigned long long)address, name,
               (unsigned long long)(offset / 8));
    else
      snprintf(text, size_bytes, "shared 0x%llx (%s + %llu)", (unsigned long long)address, name,
               (unsigned long long)offset);
    return text;
  }
  snprintf(text, size_bytes, "shared 0x%llx", (unsigned long long)address);
  return text;
}

/* How an operation of the kind becomes visible to a warp, or its source free. */
static const char *pending_hint(enum ts_pending_kind kind, bool is_write) {
  switch (kind) {
  case TS_PENDING_CP_ASYNC:
    return "wait with cp.async.wait in the issuing warp, then a barrier before other warps read";
  case TS_PENDING_TMA_LOAD: return "wait for the phase of the mbarrier that the copy completes";
  case TS_PENDING_STORE_SOURCE:
    return "wait with bulk.wait (read) in the issuing thread, then a barrier before other warps "
           "write";
  case TS_PENDING_WGMMA_SOURCE: break;
  }
  return is_write ? "wait with wgmma.wait before the operands are overwritten" : NULL;
}

static void report_race(struct ts__warp *warp, uint32_t insn, uint32_t lane, uint64_t address,
                        uint64_t size_bytes, bool is_write, const struct ts_pending *record) {
  const struct ts__program *program = warp->program;
  bool is_source =
      record->kind == TS_PENDING_STORE_SOURCE || record->kind == TS_PENDING_WGMMA_SOURCE;
  const char *state = is_source        ? "may still be reading"
                      : record->landed ? "has written without this warp waiting for it"
                                       : "has not delivered yet";
  char where[128];
  ts__hazard_at(warp, insn, is_write ? TS_DIAG_RACE_PENDING_WRITE : TS_DIAG_RACE_PENDING_READ, lane,
                record->insn, pending_hint(record->kind, is_write),
                "%s %s %llu bytes at %s that %s of warp %u %s", op_text(program, insn),
                is_write ? "overwrites" : "reads", (unsigned long long)size_bytes,
                ts__shared_text(warp->block, address, where, sizeof where),
                op_text(program, record->insn), record->warp, state);
}

bool ts__shared_settled(struct ts__warp *warp, uint32_t insn, uint32_t lane, uint64_t address,
                        uint64_t size_bytes, bool is_write) {
  struct ts__block *block = warp->block;
  const struct ts_shared_memory *shared = &block->shared;
  const struct ts_pending *record =
      is_write ? ts_pending_check_write(shared, warp->index, address, size_bytes)
               : ts_pending_check_read(shared, warp->index, address, size_bytes);
  struct ts_pending matrix = {.kind = TS_PENDING_WGMMA_SOURCE, .warp = warp->index};
  if (!record && is_write && block->wgmma_count) {
    matrix.insn = ts__wgmma_reads(block, address, size_bytes, &matrix.warp);
    if (matrix.insn != TS_NONE) record = &matrix;
  }
  if (record) report_race(warp, insn, lane, address, size_bytes, is_write, record);
  return block->status == TS_OK;
}

static bool accessible(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                       uint64_t address, uint64_t size_bytes, bool is_write) {
  uint64_t window_bytes = warp->block->shared.size_bytes;
  if (address > window_bytes || size_bytes > window_bytes - address) {
    char where[128];
    ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE, NULL,
               "%s of %llu bytes at %s, but the block has %llu bytes of shared memory",
               op_text(warp->program, code->insn), (unsigned long long)size_bytes,
               ts__shared_text(warp->block, address, where, sizeof where),
               (unsigned long long)window_bytes);
    return false;
  }
  return ts__shared_settled(warp, code->insn, lane, address, size_bytes, is_write);
}

bool ts__shared_readable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         uint64_t address, uint64_t size_bytes) {
  return accessible(warp, code, lane, address, size_bytes, false);
}

bool ts__shared_writable(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         uint64_t address, uint64_t size_bytes) {
  return accessible(warp, code, lane, address, size_bytes, true);
}
