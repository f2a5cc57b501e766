/* Tensor memory and tcgen05 (DOC: PTX ISA, tensor memory and the tcgen05 family), of one block
 * (cta_group::1).
 *
 * 128 lanes of 512 columns of 32 bits; an address is lane << 16 | column. f16 accumulators are the
 * lower halves of columns. A warp reads and writes
 * the 32 lanes of its place in the warpgroup. mma and commit are queued and done in the order of
 * issue. A destination is *pending* from the mma on, until a warp has waited for the mbarrier of a
 * commit; the pending records are those of a shared memory with one granule a column. */
#include "interp/check_priv.h"

#include <string.h>

enum {
  LANES = 128,
  COLUMNS = 512,
  COLUMN_BYTES = 16, /* granule of the records */
  ALLOCATION_UNIT = 32,
  MAX_UNCOMMITTED = 1024,
  MAX_OPERAND_BYTES = 256 * 32
};

struct ts__tensor {
  uint32_t words[LANES][COLUMNS];
  uint32_t owner[COLUMNS / ALLOCATION_UNIT]; /* first column + 1 of the allocation; 0 free */
  bool was_used[COLUMNS / ALLOCATION_UNIT];  /* has been allocated */
  struct ts_shared_memory columns;           /* pending records only: 16 bytes are a column */
  uint64_t last_ticket;                      /* of the operation issued last */
  struct {
    uint32_t record;
    uint64_t ticket;
  } uncommitted[MAX_UNCOMMITTED];
  uint32_t uncommitted_count;
};

enum ts_status ts__tensor_init(struct ts__block *block) {
  const struct ts_allocator *allocator = block->ctx->allocator;
  block->tensor = allocator->resize(allocator->user, NULL, 0, sizeof *block->tensor);
  if (!block->tensor) return ts_fail_memory(block->ctx);
  memset(block->tensor, 0, sizeof *block->tensor);
  return ts_shared_init(block->ctx, &block->tensor->columns, allocator, COLUMNS * COLUMN_BYTES,
                        COLUMN_BYTES, block->warp_count);
}

void ts__tensor_free(const struct ts_allocator *allocator, struct ts__tensor *tensor) {
  if (!tensor) return;
  ts_shared_free(&tensor->columns);
  allocator->resize(allocator->user, tensor, sizeof *tensor, 0);
}

void ts__tensor_reset(struct ts__block *block) {
  struct ts__tensor *tensor = block->tensor;
  memset(tensor->words, 0xA5, sizeof tensor->words);
  memset(tensor->owner, 0, sizeof tensor->owner);
  memset(tensor->was_used, 0, sizeof tensor->was_used);
  ts_shared_reset(&tensor->columns, block->warp_count);
  tensor->last_ticket = 0;
  tensor->uncommitted_count = 0;
}

struct ts_shared_memory *ts__tensor_columns(struct ts__tensor *tensor) {
  return &tensor->columns;
}

/* --- allocation */

enum ts__step ts__exec_tmem_alloc(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__tensor *tensor = warp->block->tensor;
  uint32_t lane = ts__first_lane(warp->active);
  uint64_t address = ts__operand_lane(warp, &code->operands[0], lane);
  uint64_t columns = ts__operand_lane(warp, &code->operands[1], lane);
  if (columns < ALLOCATION_UNIT || columns > COLUMNS || (columns & (columns - 1)))
    return ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE, NULL,
                      "%llu columns of tensor memory: 32, 64, 128, 256 or 512 can be allocated",
                      (unsigned long long)columns);
  if (!ts__shared_writable(warp, code, lane, address, 4)) return ts__after_checks(warp);
  uint32_t units = (uint32_t)columns / ALLOCATION_UNIT, count = COLUMNS / ALLOCATION_UNIT;
  for (uint32_t first = 0; first + units <= count; first++) {
    uint32_t used = 0;
    while (used < units && !tensor->owner[first + used])
      used++;
    if (used < units) continue;
    uint32_t column = first * ALLOCATION_UNIT;
    for (uint32_t i = 0; i < units; i++)
      tensor->owner[first + i] = column + 1, tensor->was_used[first + i] = true;
    memcpy(warp->block->shared.data + address, &column, sizeof column);
    if (warp->block->check) ts__check_write(warp, code, lane, address, sizeof column);
    warp->block->shared.version++;
    return TS__STEP_NEXT;
  }
  return ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE,
                    "free what is not needed any more; a block has 512 columns",
                    "%llu columns of tensor memory are not free", (unsigned long long)columns);
}

enum ts__step ts__exec_tmem_dealloc(struct ts__warp *warp, const struct ts__code *code) {
  struct ts__tensor *tensor = warp->block->tensor;
  uint32_t lane = ts__first_lane(warp->active), freed = 0;
  uint64_t column = ts__operand_lane(warp, &code->operands[0], lane) & 0xffff;
  uint64_t columns = ts__operand_lane(warp, &code->operands[1], lane);
  if (warp->block->check && column + columns <= COLUMNS)
    ts__check_tensor_free(warp, code, (uint32_t)column, (uint32_t)columns);
  for (uint32_t i = 0; i < COLUMNS / ALLOCATION_UNIT; i++)
    if (tensor->owner[i] == column + 1) {
      tensor->owner[i] = 0;
      freed += ALLOCATION_UNIT;
    }
  if (freed == columns) return TS__STEP_NEXT;
  return ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, lane, TS_NONE, NULL,
                    "%llu columns of tensor memory are freed at column %llu, where %u were "
                    "allocated",
                    (unsigned long long)columns, (unsigned long long)column, freed);
}

/* Whether the columns are allocated, or have been: TileLang's kernels free them in a producer warp
 * while others still use them, which hurts only when another block gets them, and is for `check` to
 * tell. Reports otherwise. */
static bool is_allocated(struct ts__warp *warp, const struct ts__code *code, uint64_t column,
                         uint64_t count) {
  const struct ts__tensor *tensor = warp->block->tensor;
  bool fits = column + count <= COLUMNS && count > 0;
  for (uint64_t c = column; fits && c < column + count; c++)
    fits = tensor->was_used[c / ALLOCATION_UNIT];
  if (!fits)
    ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, TS_NONE, TS_NONE, NULL,
               "%s of columns %llu to %llu of tensor memory, which nobody allocated",
               ts_op_info((enum ts_op)code->op)->mnemonic, (unsigned long long)column,
               (unsigned long long)(column + count - 1));
  return fits;
}

/* Columns that have been freed, by somebody that comes before. */
static void check_freed(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                        uint32_t count) {
  const struct ts__tensor *tensor = warp->block->tensor;
  for (uint32_t c = column; c < column + count; c++) {
    if (tensor->owner[c / ALLOCATION_UNIT]) continue;
    ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, TS_NONE, TS_NONE,
               "free tensor memory after its last use",
               "%s of column %u of tensor memory, which has been freed",
               ts_op_info((enum ts_op)code->op)->mnemonic, c);
    return;
  }
}

/* --- loads and stores of a warp: array, index, address; attr:num columns, lane l its own lane */

/* An instruction without addresses in memory. */
static enum ts_status emit_move(struct ts__warp *warp, const struct ts__code *code,
                                uint32_t count) {
  struct ts_event event = {.kind = TS_EVENT_INSN,
                           .bytes = 4 * count * (uint32_t)__builtin_popcount(warp->active)};
  if (!ts__listening(warp->block)) return TS_OK;
  event.src_space = event.dst_space = 0xff;
  return ts__emit(warp, code, event, NULL);
}

/* One column, or the lower halves of two (DOC: .pack::16b, .unpack::16b). */
static void move_register(uint32_t *words, uint32_t *value, bool packs, bool is_store) {
  if (!is_store) {
    *value = packs ? (words[0] & 0xffff) | words[1] << 16 : words[0];
    return;
  }
  words[0] = packs ? *value & 0xffff : *value;
  if (packs) words[1] = *value >> 16;
}

static enum ts__step move(struct ts__warp *warp, const struct ts__code *code, bool is_store) {
  struct ts__tensor *tensor = warp->block->tensor;
  const struct ts_function *function = warp->program->function;
  const struct ts_insn *insn = &function->insns.data[code->insn];
  uint32_t registers_count = (uint32_t)ts_insn_attr(function, insn, TS_ATTR_num, 1);
  bool packs = ts_insn_attr(function, insn, TS_ATTR_pack, 0) != 0;
  uint32_t count = packs ? 2 * registers_count : registers_count; /* columns */
  uint32_t address = (uint32_t)ts__operand_lane(warp, &code->operands[2], TS__LANES - 1);
  uint32_t column = address & 0xffff, first_lane = warp->index % 4 * TS__LANES;
  if (emit_move(warp, code, count) != TS_OK) return TS__STEP_FAULT;
  if (code->is_quiet) return TS__STEP_NEXT;
  uint32_t *registers = ts__fragment(warp, code, 0, TS_DTYPE_u32, registers_count);
  if (!registers || !is_allocated(warp, code, column, count)) return ts__after_checks(warp);
  ts__mma_flush(warp);
  uint64_t begin = column * (uint64_t)COLUMN_BYTES, bytes = count * (uint64_t)COLUMN_BYTES;
  const struct ts_pending *record =
      is_store ? ts_pending_check_write(&tensor->columns, warp->index, begin, bytes)
               : ts_pending_check_read(&tensor->columns, warp->index, begin, bytes);
  if (warp->block->check && !record && ts__check_tensor_access(warp, code, column, count, is_store))
    check_freed(warp, code, column, count);
  if (record &&
      ts__hazard(warp, code, is_store ? TS_DIAG_RACE_PENDING_WRITE : TS_DIAG_RACE_PENDING_READ,
                 TS_NONE, record->insn,
                 "wait for the mbarrier of a tcgen05.commit after the product first",
                 "%s of tensor memory that a product of warp %u still accumulates in",
                 ts_op_info((enum ts_op)code->op)->mnemonic, record->warp) == TS__STEP_FAULT)
    return TS__STEP_FAULT;
  if (address >> 16 && address >> 16 != first_lane)
    return ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, TS_NONE, TS_NONE, NULL,
                      "warp %u uses lane %u of tensor memory: only lanes %u to %u are its own",
                      warp->index, address >> 16, first_lane, first_lane + TS__LANES - 1);
  for (uint32_t r = 0; r < registers_count; r++)
    for (uint32_t lane = 0; lane < TS__LANES; lane++) {
      uint32_t *words = &tensor->words[first_lane + lane][column + (packs ? 2 * r : r)];
      if (warp->active >> lane & 1)
        move_register(words, &registers[r * TS__LANES + lane], packs, is_store);
    }
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_tmem_ld(struct ts__warp *warp, const struct ts__code *code) {
  return move(warp, code, false);
}

enum ts__step ts__exec_tmem_st(struct ts__warp *warp, const struct ts__code *code) {
  return move(warp, code, true);
}

/* --- products */

struct product {
  const struct ts__code *code;
  const struct ts_mma_op *op;
  struct ts__matrix_info a, b; /* each as the B of a wgmma: n rows of its lines */
  uint64_t a_descriptor, b_descriptor;
  uint32_t a_column, d_column; /* a_column: A in tensor memory */
  uint32_t m, n;
  unsigned flags;
  bool is_a_tensor, is_zeroed;
  uint32_t record;
};

/* The operand types of the instruction's kind (dtype2, its A) by their number in the instruction
 * descriptor (DOC). */
static enum ts_dtype operand_dtype(enum ts_dtype kind, uint32_t format) {
  switch (kind) {
  case TS_DTYPE_f16:
  case TS_DTYPE_bf16:
    return format == 0 ? TS_DTYPE_f16 : format == 1 ? TS_DTYPE_bf16 : TS_DTYPE_NONE;
  case TS_DTYPE_tf32:
  case TS_DTYPE_f32: return format == 2 ? TS_DTYPE_tf32 : TS_DTYPE_NONE;
  case TS_DTYPE_e4m3:
  case TS_DTYPE_e5m2:
    return format == 0 ? TS_DTYPE_e4m3 : format == 1 ? TS_DTYPE_e5m2 : TS_DTYPE_NONE;
  case TS_DTYPE_s8:
  case TS_DTYPE_u8: return format == 0 ? TS_DTYPE_u8 : format == 1 ? TS_DTYPE_s8 : TS_DTYPE_NONE;
  default: return TS_DTYPE_NONE;
  }
}

/* The descriptor with wgmma's numbers for the swizzle; false for modes that wgmma has not. */
static bool convert_descriptor(uint64_t *descriptor) {
  static const uint8_t layouts[8] = {0, 4, 1, 4, 2, 4, 3, 4};
  uint64_t layout = layouts[*descriptor >> 61];
  if (layout == 4 || *descriptor >> 52 & 1) return false;
  *descriptor = (*descriptor & (((uint64_t)1 << 52) - 1)) | layout << 62;
  return true;
}

/* The arithmetic of the machine, or of sm_100 where the machine has none. */
static const struct ts_mma_op *find_op(const struct ts__warp *warp, enum ts_dtype a,
                                       enum ts_dtype b, enum ts_dtype d) {
  enum ts_mma_profile profile = ts_mma_profile_from_name(warp->program->machine->profile);
  const struct ts_mma_op *op = ts_mma_find(profile, TS_MMA_TCGEN05, a, b, d, 0);
  return op ? op : ts_mma_find(TS_MMA_PROFILE_nv_sm100, TS_MMA_TCGEN05, a, b, d, 0);
}

/* Reads the instruction descriptor (DOC: PTX ISA, tcgen05 instruction descriptor). */
static bool decode(struct ts__warp *warp, const struct ts__code *code, uint32_t descriptor,
                   struct product *product) {
  static const enum ts_dtype accumulators[] = {TS_DTYPE_f16, TS_DTYPE_f32, TS_DTYPE_s32,
                                               TS_DTYPE_NONE};
  enum ts_dtype a = operand_dtype((enum ts_dtype)code->dtype2, descriptor >> 7 & 7);
  enum ts_dtype b = operand_dtype((enum ts_dtype)code->dtype2, descriptor >> 10 & 7);
  enum ts_dtype d = accumulators[descriptor >> 4 & 3];
  product->m = (descriptor >> 24 & 31) * 16;
  product->n = (descriptor >> 17 & 63) * 8;
  product->op = a != TS_DTYPE_NONE && b != TS_DTYPE_NONE && d != TS_DTYPE_NONE
                    ? find_op(warp, a, b, d)
                    : NULL;
  bool is_known = product->op && !(descriptor & 7) && (product->m == 64 || product->m == LANES) &&
                  product->n && product->n <= 256;
  if (!is_known) {
    warp->block->status =
        ts_fail(warp->block->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                ts_insn_place(warp->program->function, code->insn),
                "a tcgen05 product with the instruction descriptor 0x%x is not known", descriptor);
    return false;
  }
  uint32_t k = product->op->k;
  product->a = (struct ts__matrix_info){.op = product->op, .n = product->m, .k = k, .a_k = k};
  product->b = (struct ts__matrix_info){.op = product->op, .n = product->n, .k = k, .a_k = k};
  product->a.b_is_k_major = !(descriptor >> 15 & 1);
  product->b.b_is_k_major = !(descriptor >> 16 & 1);
  if (descriptor >> 13 & 1) product->flags |= TS_MMA_NEGATE_A;
  if (descriptor >> 14 & 1) product->flags |= TS_MMA_NEGATE_B;
  if (descriptor >> 3 & 1) product->flags |= TS_MMA_SATFINITE;
  return true;
}

/* An operand in shared memory, its lines as they are. */
static void gather(const struct ts__block *block, const struct ts__matrix_info *info,
                   uint64_t descriptor, uint8_t *dense) {
  struct ts__chunks chunks = ts__chunks_b(info, descriptor);
  size_t elem_bytes = ts_dtype_bits(info->op->b) / 8;
  size_t line = info->b_is_k_major ? info->k * elem_bytes : info->n * elem_bytes;
  ts__gather_chunks(&chunks, block->shared.data, dense, line);
}

/* Rows of A in tensor memory: packed elements in consecutive columns of the row's lane. */
static void gather_tensor(const struct ts__tensor *tensor, const struct product *product,
                          uint8_t *dense) {
  uint32_t words = product->a.k * ts_dtype_bits(product->op->a) / 32;
  for (uint32_t row = 0; row < product->m; row++)
    memcpy(dense + row * words * 4, &tensor->words[row][product->a_column], words * 4);
}

/* 16 rows: lanes 16 i and on; products of 64 rows have them in the lower halves of the warps' lanes
 * (DOC: data path layout F). */
static uint32_t first_lane_of(const struct product *product, uint32_t row) {
  return product->m == 64 ? row / 16 * 32 : row;
}

static void multiply(struct ts__block *block, const struct product *product) {
  _Alignas(64) uint8_t a[MAX_OPERAND_BYTES], b[MAX_OPERAND_BYTES];
  struct ts_mma_scratch *scratch = block->mma_scratch;
  struct ts__tensor *tensor = block->tensor;
  const struct ts_mma_op *op = product->op;
  size_t a_bytes = ts_dtype_bits(op->a) / 8, b_bytes = ts_dtype_bits(op->b) / 8;
  bool is_a_k_major = product->a.b_is_k_major || product->is_a_tensor;
  size_t a_row = is_a_k_major ? op->k * a_bytes : a_bytes;
  size_t a_k = is_a_k_major ? a_bytes : product->m * a_bytes;
  size_t b_column = product->b.b_is_k_major ? op->k * b_bytes : b_bytes;
  size_t b_k = product->b.b_is_k_major ? b_bytes : product->n * b_bytes;
  if (product->is_a_tensor)
    gather_tensor(tensor, product, a);
  else
    gather(block, &product->a, product->a_descriptor, a);
  gather(block, &product->b, product->b_descriptor, b);
  unsigned flags = product->flags | (product->is_zeroed ? (unsigned)TS_MMA_ZERO_C : 0);
  ts_mma_prepare_b(op, scratch, product->n, 1, b, b_column, b_k, flags);
  for (uint32_t row = 0; row < product->m; row += 16) {
    uint32_t *d = &tensor->words[first_lane_of(product, row)][product->d_column];
    ts_mma_prepare_a(op, scratch, 16, 1, a + row * a_row, a_row, a_k, flags);
    ts_mma_multiply(op, scratch, 0, 16, product->n, 1, d, d, COLUMNS, flags);
  }
}

static enum ts_status deliver_product(struct ts__block *block, struct ts__async *op) {
  const struct product *product = op->data;
  multiply(block, product);
  ts_pending_landed(&block->tensor->columns, product->record);
  return block->status;
}

/* Queues the operation behind the one before. */
static enum ts__step enqueue(struct ts__warp *warp, const struct ts__code *code,
                             enum ts_status (*deliver)(struct ts__block *, struct ts__async *),
                             void *data) {
  struct ts__block *block = warp->block;
  struct ts__async op = {.deliver = deliver,
                         .ticket = ++block->next_ticket,
                         .after = block->tensor->last_ticket,
                         .warp = warp->index,
                         .insn = code->insn,
                         .record = TS_PENDING_NONE,
                         .is_tensor = true,
                         .data = data};
  block->tensor->last_ticket = op.ticket;
  return ts__async_issue(block, op) == TS_OK ? ts__after_checks(warp) : TS__STEP_FAULT;
}

static bool is_inside(struct ts__warp *warp, const struct ts__code *code,
                      const struct ts__matrix_info *info, uint64_t descriptor, const char *name) {
  struct ts__chunks chunks = ts__chunks_b(info, descriptor);
  uint64_t end = ts__chunks_end(&chunks), window_bytes = warp->block->shared.size_bytes;
  if (end <= window_bytes) return true;
  ts__hazard(warp, code, TS_DIAG_BOUNDS_SHARED, TS_NONE, TS_NONE,
             "check start address and strides of the descriptor",
             "operand %s of %s reaches to byte %llu of shared memory, which has %llu", name,
             ts_op_info((enum ts_op)code->op)->mnemonic, (unsigned long long)end,
             (unsigned long long)window_bytes);
  return false;
}

/* Reads of data in flight by an operand in shared memory. */
static bool is_settled(struct ts__warp *warp, const struct ts__code *code,
                       const struct ts__matrix_info *info, uint64_t descriptor) {
  struct ts__chunks chunks = ts__chunks_b(info, descriptor);
  const struct ts_shared_memory *shared = &warp->block->shared;
  uint64_t begin = chunks.start & ~(uint64_t)127, end = ts__chunks_end(&chunks);
  if (warp->block->check) ts__check_tensor_operand(warp, code, &chunks);
  if (!ts_pending_may_concern(shared, warp->index, begin, end)) return true;
  for (uint32_t i = 0; i < chunks.count; i++) {
    uint64_t address = ts__chunk_address(&chunks, i);
    if (ts_pending_check_read(shared, warp->index, address, TS__CHUNK_BYTES))
      return ts__shared_settled(warp, code->insn, TS_NONE, address, TS__CHUNK_BYTES, false);
  }
  return true;
}

static bool check_operands(struct ts__warp *warp, const struct ts__code *code,
                           struct product *product) {
  if (!is_allocated(warp, code, product->d_column, product->n)) return false;
  if (warp->block->check) ts__check_tensor_issue(warp);
  if (warp->block->check &&
      ts__check_tensor_product(warp, code, product->d_column, product->n, true))
    check_freed(warp, code, product->d_column, product->n);
  if (product->is_a_tensor) {
    uint32_t words = product->a.k * ts_dtype_bits(product->op->a) / 32;
    if (!is_allocated(warp, code, product->a_column, words)) return false;
    if (warp->block->check && ts__check_tensor_product(warp, code, product->a_column, words, false))
      check_freed(warp, code, product->a_column, words);
  } else if (!is_inside(warp, code, &product->a, product->a_descriptor, "A") ||
             !is_settled(warp, code, &product->a, product->a_descriptor)) {
    return false;
  }
  return is_inside(warp, code, &product->b, product->b_descriptor, "B") &&
         is_settled(warp, code, &product->b, product->b_descriptor);
}

static bool open_record(struct ts__warp *warp, struct product *product) {
  struct ts__tensor *tensor = warp->block->tensor;
  struct ts_pending record = {.kind = TS_PENDING_TMA_LOAD,
                              .insn = product->code->insn,
                              .warp = warp->index,
                              .begin = product->d_column * (uint64_t)COLUMN_BYTES,
                              .end = (product->d_column + product->n) * (uint64_t)COLUMN_BYTES,
                              .sync_address = UINT32_MAX};
  product->record = ts_pending_open(&tensor->columns, record);
  if (product->record == TS_PENDING_NONE) return false;
  if (tensor->uncommitted_count < MAX_UNCOMMITTED) {
    uint32_t i = tensor->uncommitted_count++;
    tensor->uncommitted[i].record = product->record;
    tensor->uncommitted[i].ticket = warp->block->next_ticket + 1;
  }
  return true;
}

/* Operands A (descriptor or tensor memory), B, D, instruction descriptor, whether D is read. */
static enum ts__step issue(struct ts__warp *warp, const struct ts__code *code, bool is_a_tensor) {
  uint64_t operands[5];
  for (uint32_t i = 0; i < 5; i++)
    operands[i] = ts__operand_lane(warp, &code->operands[i], ts__first_lane(warp->active));
  struct product *product = ts_new(warp->block->scratch, struct product);
  if (!product) return ts__fault_memory(warp);
  *product = (struct product){.code = code,
                              .a_descriptor = operands[0],
                              .b_descriptor = operands[1],
                              .a_column = operands[0] & 0xffff,
                              .d_column = operands[2] & 0xffff,
                              .is_a_tensor = is_a_tensor,
                              .is_zeroed = operands[4] == 0};
  if (!decode(warp, code, (uint32_t)operands[3], product)) return TS__STEP_FAULT;
  if (code->is_quiet) return ts__matrix_tell(warp, code, &product->b, product->m);
  if ((!is_a_tensor && !convert_descriptor(&product->a_descriptor)) ||
      !convert_descriptor(&product->b_descriptor)) {
    warp->block->status = ts_fail(warp->block->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                                  ts_insn_place(warp->program->function, code->insn),
                                  "a tcgen05 operand in a layout that is not executed");
    return TS__STEP_FAULT;
  }
  if (!check_operands(warp, code, product)) return ts__after_checks(warp);
  if (!open_record(warp, product)) return ts__fault_memory(warp);
  struct ts__matrix_info shape = product->b;
  if (ts__matrix_emit(warp, code, &shape, product->m, (struct ts_event){0}) != TS_OK)
    return TS__STEP_FAULT;
  return enqueue(warp, code, deliver_product, product);
}

enum ts__step ts__exec_tcgen05_mma_ss(struct ts__warp *warp, const struct ts__code *code) {
  return issue(warp, code, false);
}

enum ts__step ts__exec_tcgen05_mma_ts(struct ts__warp *warp, const struct ts__code *code) {
  return issue(warp, code, true);
}

/* --- commit: arrives on the mbarrier when everything issued before is done */

struct commit {
  const struct ts__code *code;
  uint32_t mbarrier;
};

static enum ts_status deliver_commit(struct ts__block *block, struct ts__async *op) {
  const struct commit *commit = op->data;
  struct ts__tensor *tensor = block->tensor;
  const struct ts__mbarrier *mbarrier = ts__mbarrier_find(block, commit->mbarrier);
  uint32_t kept = 0;
  if (!mbarrier) return block->status;
  for (uint32_t i = 0; i < tensor->uncommitted_count; i++) {
    if (tensor->uncommitted[i].ticket < op->ticket)
      ts_pending_set_sync(&tensor->columns, tensor->uncommitted[i].record, commit->mbarrier,
                          mbarrier->phase);
    else
      tensor->uncommitted[kept++] = tensor->uncommitted[i];
  }
  tensor->uncommitted_count = kept;
  ts__mbarrier_arrive(block, commit->mbarrier, 1, 0);
  return block->status;
}

enum ts__step ts__exec_tcgen05_commit(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t lane = ts__first_lane(warp->active);
  uint64_t address = ts__operand_lane(warp, &code->operands[0], lane);
  const struct ts__mbarrier *mbarrier = ts__mbarrier_require(warp, code, lane, address);
  if (!mbarrier) return ts__after_checks(warp);
  if (warp->block->check)
    ts__check_tensor_commit(warp, code, lane, mbarrier->address, mbarrier->phase);
  struct commit *commit = ts_new(warp->block->scratch, struct commit);
  if (!commit) return ts__fault_memory(warp);
  *commit = (struct commit){.code = code, .mbarrier = (uint32_t)address};
  if (ts__mbarrier_emit_arrivals(warp, code, warp->block, mbarrier, 1, 0) != TS_OK)
    return TS__STEP_FAULT;
  return enqueue(warp, code, deliver_commit, commit);
}

/* What threads have seen of each other is known without it. */
enum ts__step ts__exec_tcgen05_fence(struct ts__warp *warp, const struct ts__code *code) {
  (void)warp;
  (void)code;
  return TS__STEP_NEXT;
}
