/* The event reader on arbitrary bytes. Checksums would keep a fuzzer out, so the target puts right
 * ones in before it reads: what is looked for is behind them. */
#include "trace/trace_priv.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void mend_checksums(uint8_t *data, size_t size_bytes) {
  size_t at = TS__TRACE_HEADER_BYTES;
  while (at < size_bytes && size_bytes - at >= TS__TRACE_BLOCK_HEADER_BYTES) {
    uint64_t payload_bytes = ts__get_u64(data + at + 8);
    uint8_t *payload = data + at + TS__TRACE_BLOCK_HEADER_BYTES;
    size_t left = size_bytes - at - TS__TRACE_BLOCK_HEADER_BYTES;
    if (payload_bytes > left) return;
    ts__put_u32(data + at + 4, ts__trace_crc32(0, payload, (size_t)payload_bytes));
    at += TS__TRACE_BLOCK_HEADER_BYTES + (size_t)payload_bytes;
  }
}

/* Every number that is handed out must be usable without another check. */
static enum ts_status check_event(struct ts_sink *sink, struct ts_event *event,
                                  const struct ts_footprint *footprint) {
  (void)sink;
  if (event->kind >= TS_EVENT_KIND_COUNT || event->sync_kind > TS_SYNC_CLUSTER) abort();
  if ((event->footprint != 0) != (footprint != NULL)) abort();
  if (!footprint) return TS_OK;
  if (footprint->rank > TS__TRACE_MAX_RANK && footprint->kind == TS_FOOTPRINT_BOX) abort();
  if (footprint->kind == TS_FOOTPRINT_LANES && !footprint->lanes) abort();
  return TS_OK;
}

static void check_code(const struct ts_code *code, uint32_t insn_count) {
  if (code->insn_count != insn_count) abort();
  for (uint32_t i = 0; i < insn_count; i++) {
    const struct ts_code_insn *insn = &code->insns[i];
    if (insn->block >= code->block_count) abort();
    for (uint32_t k = 0; k < (uint32_t)insn->use_count + insn->def_count; k++) {
      const struct ts_code_ref *ref = &code->refs[insn->first_ref + k];
      if (ref->first > code->slot_count || ref->count > code->slot_count - ref->first) abort();
    }
  }
}

static void check_program(const struct ts_trace_program *program) {
  for (uint32_t i = 0; i < program->launch_count; i++) {
    if (program->launches[i].function >= program->function_count) abort();
  }
  for (uint32_t i = 0; i < program->function_count; i++) {
    const struct ts_trace_function *function = &program->functions[i];
    if (function->code) check_code(function->code, function->insn_count);
    for (uint32_t k = 0; k < function->insn_count; k++) {
      if (function->places[k].file && strlen(function->places[k].file) > 1 << 28) abort();
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  struct ts_diag_list diags;
  struct ts_trace_reader *reader;
  struct ts_sink sink = {.emit = check_event};
  uint8_t *copy = malloc(size_bytes ? size_bytes : 1);
  if (!copy || ts_diag_list_init(&diags, &ts_allocator_libc) != TS_OK) {
    free(copy);
    return 0;
  }
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  if (size_bytes) memcpy(copy, data, size_bytes);
  mend_checksums(copy, size_bytes);
  FILE *stream = size_bytes ? fmemopen(copy, size_bytes, "rb") : NULL;
  if (stream && ts_trace_reader_open_stream(&ctx, stream, "fuzz.tsev", &reader) == TS_OK) {
    check_program(ts_trace_reader_program(reader));
    if (ts_trace_replay(&ctx, reader, &sink) != TS_OK && diags.items.count == 0) abort();
    ts_trace_reader_close(reader);
  }
  ts_diag_list_free(&diags);
  free(copy);
  return 0;
}
