/* Atomics of all blocks that meet at one line. L2 takes the warps that come to a line one after
 * another, and of a warp the lanes that come to one word, whichever SM they are from; lines do not
 * wait for each other. So the line to which most comes sets a least time for all atomics of the
 * launch, of which each access bears its part. */
#include "model_nv/model_nv_priv.h"

#include "num/dtype.h"

enum {
  TABLE_SIZE = 1 << 18,
  LINE_MAX = TABLE_SIZE / 2,
  ACCESS_MAX = 1 << 17 /* looked at; of launches with more, blocks are left out */
};

struct line {
  uint64_t number; /* 1 + line; 0: none */
  double cycles;
  uint32_t block;
  bool is_shared; /* by blocks */
};

struct contention {
  const struct ts__plan *plan;
  const double *timing;
  struct line *lines;
  uint32_t line_count, stride; /* every stride-th block is looked at */
  uint64_t access_count;
};

static struct line *find_line(struct contention *c, uint64_t number) {
  uint64_t at = (number * UINT64_C(0x9e3779b97f4a7c15)) >> 46;
  for (;; at++) {
    struct line *line = &c->lines[at & (TABLE_SIZE - 1)];
    if (line->number == number + 1) return line;
    if (line->number) continue;
    if (c->line_count == LINE_MAX) return NULL;
    c->line_count++;
    line->number = number + 1;
    return line;
  }
}

/* How many lanes come to the word of the line that most come to. */
static uint32_t most_lanes(const struct ts__access *access, uint64_t line, int64_t shift_bytes) {
  uint32_t most = 1;
  const struct ts_footprint *footprint = &access->footprint;
  if (footprint->kind == TS_FOOTPRINT_AFFINE && footprint->lane_stride) return 1; /* each its own */
  for (uint32_t rest = access->mask; rest; rest &= rest - 1) {
    uint64_t address = ts__lane_address(footprint, (uint32_t)__builtin_ctz(rest));
    if ((address + (uint64_t)shift_bytes) / TS__LINE_BYTES != line) continue;
    uint32_t same = 0;
    for (uint32_t other = rest; other; other &= other - 1)
      same += ts__lane_address(footprint, (uint32_t)__builtin_ctz(other)) == address;
    if (same > most) most = same;
  }
  return most;
}

static void add_access(struct contention *c, const struct ts__access *access, int64_t shift_bytes,
                       uint32_t block) {
  struct ts__lines lines;
  uint8_t dtype =
      access->insn < c->plan->code->insn_count ? c->plan->code->insns[access->insn].dtype : 0;
  double lane_cycles =
      c->timing[ts_dtype_is_float((enum ts_dtype)dtype) ? TS_TIMING_atomic_same_interval
                                                        : TS_TIMING_atomic_same_int_interval];
  ts__coalesce(&access->footprint, access->mask, shift_bytes, &lines);
  c->access_count++;
  for (uint32_t i = 0; i < lines.count; i++) {
    uint64_t number = ts__line_of(lines.line[i]);
    struct line *line = find_line(c, number);
    if (!line) return; /* so many lines that none is crowded */
    double cycles = most_lanes(access, number, shift_bytes) * lane_cycles;
    double least = c->timing[TS_TIMING_atomic_line_interval];
    line->is_shared |= line->cycles > 0 && line->block != block;
    line->block = block;
    line->cycles += cycles > least ? cycles : least;
  }
}

static uint64_t count_atomics(const struct ts__stream *stream) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < stream->access_count; i++)
    count += stream->accesses[i].is_atomic;
  return count;
}

static void add_blocks(struct contention *c) {
  const struct ts__launch_record *record = c->plan->record;
  for (uint32_t b = 0; b < record->block_count; b += c->stride) {
    const struct ts__block_record *block = &record->blocks[b];
    const struct ts__stream *stream = &record->streams.data[block->stream];
    for (uint32_t i = 0; i < stream->access_count; i++) {
      const struct ts__access *access = &stream->accesses[i];
      if (!access->is_atomic) continue;
      add_access(c, access, ts__find_shift(block->shifts, block->shift_count, access->insn)->bytes,
                 b);
    }
  }
}

/* Of a line that one block alone comes to, the blocks that were left out have lines of their own. */
static double crowded_share(const struct contention *c) {
  double most = 0;
  for (uint32_t i = 0; i < TABLE_SIZE; i++) {
    const struct line *line = &c->lines[i];
    double cycles = line->is_shared ? line->cycles : line->cycles / c->stride;
    if (cycles > most) most = cycles;
  }
  return c->access_count ? most / (double)c->access_count : 0;
}

static uint32_t choose_stride(const struct ts__launch_record *record) {
  uint64_t count = 0;
  for (uint32_t b = 0; b < record->block_count; b++)
    count += count_atomics(&record->streams.data[record->blocks[b].stream]);
  return 1 + (uint32_t)(count / ACCESS_MAX);
}

enum ts_status ts__find_contention(struct ts_model_nv *model, struct ts__plan *plan) {
  const struct ts__launch_record *record = plan->record;
  uint64_t count = 0;
  for (size_t i = 0; i < record->streams.count; i++)
    count += count_atomics(&record->streams.data[i]);
  plan->crowded_cycles = 0;
  if (!count) return TS_OK;
  struct ts_arena arena;
  ts_arena_init(&arena, model->ctx->allocator);
  struct contention c = {
      .plan = plan, .timing = model->machine->timing, .stride = choose_stride(record)};
  c.lines = ts_new_array(&arena, struct line, TABLE_SIZE);
  if (c.lines) {
    add_blocks(&c);
    plan->crowded_cycles = crowded_share(&c);
  }
  ts_arena_free(&arena);
  return c.lines ? TS_OK : ts_fail_memory(model->ctx);
}
