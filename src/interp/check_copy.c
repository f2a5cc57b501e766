/* Checks of asynchronous copies and of wgmma operands in shared memory: order, proxies, and the
 * layout that a tile was written with against the one it is read with. */
#include "interp/check_priv.h"

#include <string.h>

enum { CHUNK_BYTES = TS__CHUNK_BYTES };

static struct ts_accessor accessor(const struct ts__warp *warp, const struct ts__code *code,
                                   bool is_async) {
  return (struct ts_accessor){.warp = warp->index, .insn = code->insn, .is_async = is_async};
}

static void report(struct ts__warp *warp, const struct ts__copy *copy, enum ts_space space,
                   bool is_write, const struct ts_conflict *conflict) {
  if (conflict->kind == TS_CONFLICT_NONE) return;
  ts__check_conflict(warp, copy->code, space, ts__first_lane(copy->lanes), is_write, conflict,
                     conflict->address, copy->size_bytes);
}

/* --- the global side */

static void global_range(struct ts__warp *warp, const struct ts__copy *copy, bool is_write,
                         uint64_t address, uint64_t size_bytes) {
  bool was_set = true, is_contended = false;
  struct ts_accessor who = accessor(warp, copy->code, false);
  who.is_atomic = is_write && copy->reduce != TS_IR_REDUCE_none;
  enum ts__access_kind kind = !is_write       ? TS__ACCESS_READ
                              : who.is_atomic ? TS__ACCESS_ATOMIC
                                              : TS__ACCESS_WRITE;
  struct ts_conflict conflict =
      ts__check_global_range(warp, who, kind, address, size_bytes, &was_set, &is_contended);
  report(warp, copy, TS_SPACE_GLOBAL, is_write, &conflict);
  char where[160];
  if (!was_set && kind == TS__ACCESS_READ)
    ts__hazard(warp, copy->code, TS_DIAG_UNSET_GLOBAL, ts__first_lane(copy->lanes), TS_NONE,
               "give the buffer contents, or write it first",
               "%s copies %s, which nobody has written",
               ts_op_info((enum ts_op)copy->code->op)->mnemonic,
               ts__check_place_text(warp->block, TS_SPACE_GLOBAL, address, where, sizeof where));
  if (is_contended)
    ts__check_order(warp, copy->code, address,
                    copy->kind == TS__COPY_TMA_STORE ? ts__box_dtype(copy->box.map) : copy->elem,
                    copy->reduce);
}

struct box_visit {
  struct ts__warp *warp;
  const struct ts__copy *copy;
  bool is_write;
};

static void visit_row(void *user, uint64_t address, uint64_t size_bytes) {
  const struct box_visit *visit = user;
  global_range(visit->warp, visit->copy, visit->is_write, address, size_bytes);
}

static void global_side(struct ts__warp *warp, const struct ts__copy *copy) {
  struct box_visit visit = {warp, copy, false};
  switch (copy->kind) {
  case TS__COPY_CP_ASYNC:
    for (uint32_t lanes = copy->copy_lanes; lanes; lanes &= lanes - 1)
      global_range(warp, copy, false, copy->lane_global[ts__first_lane(lanes)], copy->size_bytes);
    if (copy->copy_lanes)
      ts__check_box_other_read(warp->block->check,
                               copy->lane_global[ts__first_lane(copy->copy_lanes)]);
    return;
  case TS__COPY_BULK_LOAD:
    global_range(warp, copy, false, copy->global, copy->size_bytes);
    ts__check_box_other_read(warp->block->check, copy->global);
    return;
  case TS__COPY_BULK_STORE: global_range(warp, copy, true, copy->global, copy->size_bytes); return;
  case TS__COPY_TMA_STORE: visit.is_write = true; /* fall through */
  case TS__COPY_TMA_LOAD:
    if (!visit.is_write) ts__check_box_load(warp, copy);
    ts__box_visit(warp->program->memory, &copy->box, visit_row, &visit);
    return;
  case TS__COPY_CLUSTER:
  case TS__COPY_CP_ARRIVE: return;
  }
}

/* --- the shared side */

/* Notes which chunk of the box lies where. */
static void tag_box(struct ts__check *check, const struct ts__copy *copy) {
  const struct ts_tensormap *map = copy->box.map;
  uint64_t row_bytes = (uint64_t)map->box[0] * map->elem_size_bytes;
  uint32_t number = ++check->copy_count;
  for (uint64_t done = 0; done < copy->size_bytes; done += CHUNK_BYTES) {
    uint64_t address = ts__swizzle(copy->box.shared_address + done, map->swizzle);
    if (address / CHUNK_BYTES >= check->tag_count) return;
    check->tags[address / CHUNK_BYTES] =
        (struct ts__chunk_tag){.copy = number,
                               .place = (uint32_t)(done / CHUNK_BYTES) + 1,
                               .insn = copy->code->insn,
                               .row_chunks = (uint16_t)(row_bytes / CHUNK_BYTES),
                               .swizzle = (uint16_t)map->swizzle};
  }
}

static uint64_t shared_address(const struct ts__copy *copy) {
  bool is_box = copy->kind == TS__COPY_TMA_LOAD || copy->kind == TS__COPY_TMA_STORE;
  return is_box ? copy->box.shared_address : copy->shared;
}

static void cp_async_range(struct ts__warp *warp, const struct ts__copy *copy, bool is_async,
                           uint64_t begin, uint64_t end) {
  struct ts__check *check = warp->block->check;
  if (begin == end) return;
  struct ts_accessor who = accessor(warp, copy->code, is_async);
  /* MEASURED on an H200 (corpus): wgmma reads what cp.async wrote after its wait and a barrier
   * without a proxy fence, which the letter of PTX asks for. */
  who.is_fenced = true;
  struct ts_conflict conflict = ts_race_write(&check->race, who, begin, end - begin);
  /* What is rewritten at the wait has been reported at the issue. */
  if (is_async) report(warp, copy, TS_SPACE_SHARED, true, &conflict);
  ts__check_clear_tags(check, begin, end - begin);
}

/* Lanes whose destinations follow one another are one range. */
static void cp_async_writes(struct ts__warp *warp, const struct ts__copy *copy, bool is_async) {
  uint64_t begin = 0, end = 0;
  for (uint32_t lanes = copy->copy_lanes | copy->zero_lanes; lanes; lanes &= lanes - 1) {
    uint64_t address = copy->lane_shared[ts__first_lane(lanes)];
    if (address != end) {
      cp_async_range(warp, copy, is_async, begin, end);
      begin = address;
    }
    end = address + copy->size_bytes;
  }
  cp_async_range(warp, copy, is_async, begin, end);
}

/* A tile that one box brought and another takes away must be swizzled alike. */
static void check_store_layout(struct ts__warp *warp, const struct ts__copy *copy) {
  const struct ts__check *check = warp->block->check;
  bool is_box = copy->kind == TS__COPY_TMA_STORE;
  uint32_t swizzle = is_box ? copy->box.map->swizzle : 0;
  uint64_t start = is_box ? copy->box.shared_address : copy->shared;
  for (uint64_t done = 0; done < copy->size_bytes; done += CHUNK_BYTES) {
    uint64_t chunk = ts__swizzle(start + done, swizzle) / CHUNK_BYTES;
    const struct ts__chunk_tag *tag = &check->tags[chunk < check->tag_count ? chunk : 0];
    if (tag->place == 0 || tag->swizzle == swizzle) continue;
    ts__hazard(warp, copy->code, TS_DIAG_LAYOUT_SWIZZLE, ts__first_lane(copy->lanes), tag->insn,
               "the tensor maps of the load and the store must have one swizzle",
               "a tile that was loaded with a swizzle of %u bytes is stored with one of %u",
               tag->swizzle ? 16u << tag->swizzle : 0, swizzle ? 16u << swizzle : 0);
    return;
  }
}

static void check_source(struct ts__warp *warp, const struct ts__copy *copy, uint64_t address) {
  struct ts__check *check = warp->block->check;
  struct ts_conflict conflict =
      ts_race_read(&check->race, accessor(warp, copy->code, true), address, copy->size_bytes);
  char where[160];
  report(warp, copy, TS_SPACE_SHARED, false, &conflict);
  /* A linear store may put a tile aside as it is; a linear sum may not. */
  if (copy->kind == TS__COPY_TMA_STORE || copy->reduce != TS_IR_REDUCE_none)
    check_store_layout(warp, copy);
  if (ts_race_is_initialised(&check->race, address, copy->size_bytes)) return;
  ts__hazard(warp, copy->code, TS_DIAG_UNSET_SHARED, ts__first_lane(copy->lanes), TS_NONE,
             "write all of the tile before it is stored",
             "%s stores %llu bytes from %s, some of which nobody has written",
             ts_op_info((enum ts_op)copy->code->op)->mnemonic, (unsigned long long)copy->size_bytes,
             ts__check_place_text(warp->block, TS_SPACE_SHARED, address, where, sizeof where));
}

/* The destination is written by the asynchronous proxy with the order of the issue: a reader whose
 * reads nothing orders before it is over-run. */
void ts__check_copy_issue(struct ts__warp *warp, const struct ts__copy *copy) {
  struct ts__check *check = warp->block->check;
  uint64_t address = shared_address(copy);
  struct ts_conflict conflict;
  global_side(warp, copy);
  ts__check_use_copy(warp, copy);
  if (copy->to != warp->block) {
    ts__check_peer_access(warp, copy->code, ts__first_lane(copy->lanes), copy->to, address,
                          copy->size_bytes, true, true);
    return;
  }
  switch (copy->kind) {
  case TS__COPY_CP_ASYNC: cp_async_writes(warp, copy, true); return;
  case TS__COPY_TMA_LOAD:
  case TS__COPY_BULK_LOAD:
  case TS__COPY_CLUSTER:
    conflict =
        ts_race_write(&check->race, accessor(warp, copy->code, true), address, copy->size_bytes);
    report(warp, copy, TS_SPACE_SHARED, true, &conflict);
    ts__check_mbarrier_bytes(warp, copy->code, ts__first_lane(copy->lanes), address,
                             copy->size_bytes);
    ts__check_clear_tags(check, address, copy->size_bytes);
    if (copy->kind == TS__COPY_TMA_LOAD) tag_box(check, copy);
    return;
  case TS__COPY_TMA_STORE:
  case TS__COPY_BULK_STORE: check_source(warp, copy, address); return;
  case TS__COPY_CP_ARRIVE: return;
  }
}

/* From here on the warp may let others know: a source is free, a destination is as if the warp had
 * written it now. */
void ts__check_copy_waited(struct ts__warp *warp, const struct ts__copy *copy) {
  struct ts__check *check = warp->block->check;
  if (copy->kind == TS__COPY_CP_ASYNC) {
    cp_async_writes(warp, copy, false);
  } else if (copy->kind == TS__COPY_TMA_STORE || copy->kind == TS__COPY_BULK_STORE) {
    ts_race_note_read(&check->race, accessor(warp, copy->code, true), shared_address(copy),
                      copy->size_bytes);
  }
}

/* --- operands of wgmma */

/* Whether the chunks lie as the boxes that wrote them say: within a box, line l and chunk c of the
 * operand are at base + l * row + c. */
static void check_layout(struct ts__warp *warp, const struct ts__code *code,
                         const struct ts__chunks *chunks, const char *name) {
  enum { MAX_BOXES = 16 };
  const struct ts__check *check = warp->block->check;
  struct {
    uint32_t copy;
    int64_t base;
  } boxes[MAX_BOXES];
  uint32_t box_count = 0;
  if (chunks->swizzle == 0) return; /* core matrices: a tile is written by boxes of many forms */
  for (uint32_t i = 0; i < chunks->count; i++) {
    uint64_t address = ts__chunk_address(chunks, i);
    const struct ts__chunk_tag *tag = &check->tags[address / CHUNK_BYTES];
    if (tag->place == 0) continue;
    if (tag->swizzle != chunks->swizzle) {
      ts__hazard(warp, code, TS_DIAG_LAYOUT_SWIZZLE, TS_NONE, tag->insn,
                 "the swizzle of the tensor map and the layout type of the descriptor must agree",
                 "operand %s is read with a swizzle of %u bytes, and was loaded with one of %u",
                 name, 16u << chunks->swizzle, tag->swizzle ? 16u << tag->swizzle : 0);
      return;
    }
    int64_t base = (int64_t)tag->place - 1 - (int64_t)(i / chunks->chunks) * tag->row_chunks -
                   (int64_t)(i % chunks->chunks);
    uint32_t b = 0;
    while (b < box_count && boxes[b].copy != tag->copy)
      b++;
    if (b == MAX_BOXES) return;
    if (b == box_count) {
      boxes[b].copy = tag->copy;
      boxes[b].base = base;
      box_count++;
    } else if (boxes[b].base != base) {
      ts__hazard(warp, code, TS_DIAG_LAYOUT_DESCRIPTOR, TS_NONE, tag->insn,
                 "check start address, leading and stride offsets of the descriptor, and the box "
                 "of the tensor map",
                 "line %u, chunk %u of operand %s is chunk %u of the loaded box, not where the "
                 "first lines put it",
                 i / chunks->chunks, i % chunks->chunks, name, tag->place - 1);
      return;
    }
  }
}

/* The rows or columns that chunk i of an operand is part of. */
static void add_lines(struct ts__unset_lines *unset, const struct ts__chunks *chunks, uint32_t i,
                      bool is_k_major, uint32_t elem_bits) {
  uint32_t elements = CHUNK_BYTES * 8 / elem_bits;
  uint32_t first = is_k_major ? i / chunks->chunks : i % chunks->chunks * elements;
  uint32_t count = is_k_major ? 1 : elements;
  unset->any = true;
  for (uint32_t line = first; line < first + count && line < 256; line++)
    unset->bits[line / 64] |= (uint64_t)1 << line % 64;
}

void ts__check_operand(struct ts__warp *warp, const struct ts__code *code,
                       const struct ts__chunks *chunks, const char *name, bool is_k_major,
                       uint32_t elem_bits, struct ts__unset_lines *unset) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor who = accessor(warp, code, true);
  for (uint32_t i = 0; i < chunks->count; i++) {
    uint64_t address = ts__chunk_address(chunks, i);
    struct ts_conflict conflict = ts_race_check_read(&check->race, who, address, CHUNK_BYTES);
    if (conflict.kind != TS_CONFLICT_NONE) {
      ts__check_conflict(warp, code, TS_SPACE_SHARED, TS_NONE, false, &conflict, address,
                         CHUNK_BYTES);
      return;
    }
    if (!ts_race_is_initialised(&check->race, address, CHUNK_BYTES))
      add_lines(unset, chunks, i, is_k_major, elem_bits);
  }
  check_layout(warp, code, chunks, name);
}

void ts__check_operand_done(struct ts__warp *warp, const struct ts__code *code,
                            const struct ts__chunks *chunks) {
  struct ts__check *check = warp->block->check;
  struct ts_accessor who = accessor(warp, code, true);
  for (uint32_t i = 0; i < chunks->count; i++) {
    ts_race_note_read(&check->race, who, ts__chunk_address(chunks, i), CHUNK_BYTES);
    ts_use_read(&check->use, ts__chunk_address(chunks, i), CHUNK_BYTES);
  }
}

/* --- registers of wgmma */

static uint32_t first_word(const struct ts__warp *warp, const uint32_t *registers) {
  return registers ? (uint32_t)((registers - warp->local) / TS__LANES) : 0;
}

/* least: what has to be fenced: registers of A may be read before, accumulators may not. */
static void check_fence(struct ts__warp *warp, const struct ts__code *code, uint32_t first,
                        uint32_t count, enum ts__dirt least) {
  const struct ts__unset *unset = &warp->block->check->unset[warp->index];
  for (uint32_t w = first; w < first + count; w++) {
    if (unset->is_dirty[w] < (uint8_t)least) continue;
    bool was_read = unset->is_dirty[w] == TS__WAS_READ;
    ts__hazard(warp, code, TS_DIAG_RACE_WGMMA_FENCE, TS_NONE, unset->writer[w],
               "wgmma.fence (warpgroup_arrive) between the access and the wgmma",
               "%s %s registers that were %s since the last wgmma.fence",
               ts_op_info((enum ts_op)code->op)->mnemonic, was_read ? "accumulates in" : "uses",
               was_read ? "read" : "written");
    return;
  }
}

/* A taken from registers that nobody has set spoils its rows: told at once. */
static void check_a(struct ts__warp *warp, const struct ts__code *code, uint32_t first,
                    uint32_t count) {
  const struct ts__unset *unset = &warp->block->check->unset[warp->index];
  uint32_t lanes = 0;
  for (uint32_t b = first * TS__WORD_BYTES; b < (first + count) * TS__WORD_BYTES; b++)
    lanes |= unset->local[b];
  lanes &= warp->alive;
  if (lanes)
    ts__hazard(warp, code, TS_DIAG_UNSET_LOCAL, ts__first_lane(lanes), TS_NONE,
               "write all of A's registers first", "%s takes in registers that nobody has written",
               ts_op_info((enum ts_op)code->op)->mnemonic);
}

static bool has_line(const struct ts__unset_lines *lines, uint32_t line) {
  return lines->bits[line / 64] >> line % 64 & 1;
}

/* Element (row, column) of the warp's 16 rows is in lane row % 8 * 4 + column % 8 / 2, there element
 * column / 8 * 4 + row / 8 * 2 + column % 2 (DOC: PTX ISA, wgmma register fragments). */
static void spoil_accumulator(struct ts__unset *unset, const struct ts__wgmma_registers *registers,
                              uint32_t first, const struct ts__unset_lines *rows,
                              const struct ts__unset_lines *columns) {
  uint32_t elem_bytes = ts_dtype_bits(registers->info->op->acc) / 8;
  for (uint32_t column = 0; column < registers->info->n; column++)
    for (uint32_t row = 0; row < 16; row++) {
      if (!has_line(columns, column) && !has_line(rows, row)) continue;
      uint32_t element = column / 8 * 4 + row / 8 * 2 + column % 2;
      uint32_t lane = row % 8 * 4 + column % 8 / 2;
      for (uint32_t b = 0; b < elem_bytes; b++)
        unset->local[first * TS__WORD_BYTES + element * elem_bytes + b] |= 1u << lane;
    }
}

void ts__check_wgmma_registers(struct ts__warp *warp, const struct ts__code *code,
                               const struct ts__wgmma_registers *registers,
                               const struct ts__unset_lines *rows,
                               const struct ts__unset_lines *columns) {
  struct ts__unset *unset = &warp->block->check->unset[warp->index];
  uint32_t c = first_word(warp, registers->accumulator), a = first_word(warp, registers->a);
  uint32_t a_words = registers->a ? registers->a_words : 0;
  check_fence(warp, code, c, registers->c_words, TS__WAS_READ);
  check_fence(warp, code, a, a_words, TS__WAS_WRITTEN);
  check_a(warp, code, a, a_words);
  if (registers->is_zeroed)
    memset(&unset->local[c * TS__WORD_BYTES], 0,
           (size_t)registers->c_words * TS__WORD_BYTES * sizeof *unset->local);
  if (!rows->any && !columns->any) return;
  /* Columns that nobody stores may come from bytes that nobody has written. */
  spoil_accumulator(unset, registers, c, rows, columns);
  unset->is_active = true;
  unset->origin = code->insn;
  unset->origin_kind = TS_DIAG_UNSET_SHARED;
}

void ts__check_wgmma_fence(struct ts__warp *warp) {
  struct ts__unset *unset = &warp->block->check->unset[warp->index];
  memset(unset->is_dirty, 0, warp->program->local_words / TS__LANES);
}
