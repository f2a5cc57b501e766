/* The L2 pass: all blocks of a launch in lockstep over one L2.
 *
 * Most traffic of tile kernels is tiles that many resident blocks want in the same round. Such an
 * access is walked once and told again to the others, so that the cost is that of the distinct tiles
 * of a round. Which these are is found once for all rounds of an instruction while the blocks of one
 * stream are in step, else in each round by a hash. */
#include "model_nv/l2_priv.h"

#include <string.h>

enum {
  BATCH_COUNT = 64,
  SIDE_COUNT = 2,
  SAMPLE_SHIFT_MAX = 16,
  CLASSES_COUNT = 64,
  PAGE_SHIFT = 15, /* lines of a page of the seen-set: 4 KiB of bits */
  PAGE_WORDS = (1 << PAGE_SHIFT) / 64
};

/* Which lines have been seen at all: bits in pages, pages in an open hash. */
struct seen {
  uint64_t *page_key; /* 1 + page number, 0 empty */
  uint64_t *bits;
  uint32_t page_limit, page_count;
  uint64_t line_count;
};

/* An access as walked in some round from one side. */
struct memo {
  const struct ts__access *access;
  struct ts_shift shift;
  uint32_t round, side;
  struct ts__l2_outcome outcome;
};

struct slot {
  uint32_t block, next_access;
  bool is_busy;
};

/* The places that the accesses of an instruction have while all slots are in step: the slots of a
 * class have the same, and the same side. */
struct classes {
  uint32_t wave, insn, form; /* whose these are; wave 0: nobody's */
  uint32_t count;
  uint32_t *first;               /* slot of each class, ascending */
  uint32_t *size;                /* its slots */
  const struct ts_shift **shift; /* of the first */
  uint32_t *of_slot;             /* class of each slot that is busy */
};

/* What the sample of an access showed; counts of lines unless they say sectors. */
struct sample {
  uint64_t lines, sectors, misses, merged, far;
  uint64_t missed_sectors, far_sectors;
};

struct pass {
  struct ts_ctx *ctx;
  const struct ts__l2_settings *settings;
  struct ts_arena arena;
  struct ts__l2_tags home;             /* each line in its partition */
  struct ts__l2_tags copy[SIDE_COUNT]; /* what a partition keeps of the other's lines */
  struct seen seen;
  struct memo *memos;
  uint32_t memo_mask;
  struct slot *slots;
  uint32_t slot_count;
  uint32_t next_block; /* that gets a slot */
  uint32_t busy_count; /* slots */
  uint32_t round;
  uint32_t wave; /* of slots in step */
  struct classes classes[CLASSES_COUNT];
  uint32_t *class_table;          /* scratch: hash of a place to 1 + class */
  struct ts__l2_outcome *results; /* scratch: by class */
  uint32_t *told;                 /* slots in step whose blocks want outcomes */
  uint32_t told_count;
  struct ts__line_lists *line_lists;
  struct sample reads; /* all so far */
  const struct ts__l2_block *blocks;
  uint32_t block_count;
  struct ts__l2_outcome *const *outcomes;
  struct ts__l2_totals totals;
};

static uint32_t sector_count(uint64_t sectors) {
  static const uint8_t counts[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  return counts[sectors & 15];
}

/* --- lines seen */

static uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= UINT64_C(0xd6e8feb86659fd93);
  x ^= x >> 32;
  x *= UINT64_C(0xd6e8feb86659fd93);
  return x ^ x >> 32;
}

static uint32_t find_page(const struct seen *seen, uint64_t key) {
  uint32_t at = (uint32_t)mix(key) & (seen->page_limit - 1);
  while (seen->page_key[at] && seen->page_key[at] != key)
    at = (at + 1) & (seen->page_limit - 1);
  return at;
}

static enum ts_status grow_seen(struct pass *pass) {
  struct seen *seen = &pass->seen, old = pass->seen;
  seen->page_limit = old.page_limit ? old.page_limit * 2 : 64;
  seen->page_key = ts_new_array(&pass->arena, uint64_t, seen->page_limit);
  seen->bits = ts_arena_alloc_array(&pass->arena, seen->page_limit, PAGE_WORDS * 8, 64);
  if (!seen->page_key || !seen->bits) return ts_fail_memory(pass->ctx);
  for (uint32_t i = 0; i < old.page_limit; i++) {
    if (!old.page_key[i]) continue;
    uint32_t at = find_page(seen, old.page_key[i]);
    seen->page_key[at] = old.page_key[i];
    memcpy(seen->bits + (size_t)at * PAGE_WORDS, old.bits + (size_t)i * PAGE_WORDS, PAGE_WORDS * 8);
  }
  return TS_OK;
}

static enum ts_status note_seen(struct pass *pass, uint64_t number) {
  struct seen *seen = &pass->seen;
  if (seen->page_count * 2 >= seen->page_limit) TS_TRY(grow_seen(pass));
  uint64_t key = (number >> PAGE_SHIFT) + 1;
  uint32_t at = find_page(seen, key);
  if (!seen->page_key[at]) {
    seen->page_key[at] = key;
    seen->page_count++;
  }
  uint64_t *word = seen->bits + (size_t)at * PAGE_WORDS + number % (1 << PAGE_SHIFT) / 64;
  uint64_t bit = UINT64_C(1) << number % 64;
  seen->line_count += !(*word & bit);
  *word |= bit;
  return TS_OK;
}

/* --- one line */

/* A line to look up; number is the line's, or that of its sampling group. */
struct touch {
  uint64_t number, sectors;
};

/* Reads and writes in the line's own partition. */
static enum ts_status touch_home(struct pass *pass, const struct ts__access *access,
                                 const struct touch *touch, struct sample *sample) {
  struct ts__l2_node *node = ts__tags_find(&pass->home, touch->number), nothing = {0};
  bool reads = !access->is_write || access->is_atomic;
  if (node) {
    ts__tags_use(&pass->home, node, touch->number, pass->round);
  } else {
    uint64_t evicted;
    TS_TRY(note_seen(pass, touch->number));
    node = ts__tags_add(&pass->home, touch->number, pass->round, &evicted);
    pass->totals.dram_write_sectors += sector_count(evicted >> TS__L2_DIRTY_SHIFT);
    if (!node) node = &nothing;
  }
  bool is_in_flight = pass->round - node->filled < pass->settings->in_flight_accesses;
  uint64_t missing = reads ? touch->sectors & ~node->entry : 0;
  if (missing) {
    sample->misses++;
    sample->missed_sectors += sector_count(missing);
    if (!is_in_flight) node->entry &= ~(UINT64_C(15) << TS__L2_FILLED_SHIFT);
    node->entry |= missing << TS__L2_FILLED_SHIFT;
    node->filled = pass->round;
  } else if (reads && is_in_flight && touch->sectors & node->entry >> TS__L2_FILLED_SHIFT) {
    sample->merged++;
  }
  node->entry |= touch->sectors;
  if (access->is_write || access->is_atomic) node->entry |= touch->sectors << TS__L2_DIRTY_SHIFT;
  return TS_OK;
}

/* A hash of address bits says which partition a line is at home in; of two neighbours it is one each,
 * so that half of any working set fits where half of its size does. */
static bool is_far(const struct pass *pass, uint64_t number, uint32_t side) {
  if (!pass->settings->duplicated_bytes) return false;
  uint32_t folded = (uint32_t)(number ^ number >> 32);
  folded ^= folded >> 16;
  folded ^= folded >> 8;
  folded ^= folded >> 4;
  return (0x6996u >> (folded & 15) & 1) != side; /* parity of four bits */
}

/* A read of the other partition's line: is it among the copies of this side? */
static void touch_copy(struct pass *pass, uint32_t side, const struct touch *touch,
                       struct sample *sample) {
  struct ts__l2_tags *tags = &pass->copy[side];
  struct ts__l2_node *node = ts__tags_find(tags, touch->number);
  uint64_t missing = node ? touch->sectors & ~node->entry : touch->sectors, evicted;
  sample->far += missing != 0;
  sample->far_sectors += sector_count(missing);
  if (node)
    ts__tags_use(tags, node, touch->number, pass->round);
  else
    node = ts__tags_add(tags, touch->number, pass->round, &evicted);
  if (node) node->entry |= touch->sectors;
}

/* --- one access */

/* Keeps the lines that are drawn: of each 2^shift neighbours the one that a hash of their group says.
 * number becomes the group, which counts lines of the sample without gaps. */
static uint32_t draw(const struct pass *pass, const uint64_t *packed, uint32_t count,
                     uint64_t offset_lines, struct touch *touches) {
  uint32_t shift = pass->settings->sample_shift, kept = 0;
  uint64_t mask = (UINT64_C(1) << shift) - 1; /* 0: all lines are */
  for (uint32_t i = 0; i < count; i++) {
    uint64_t line = ts__line_of(packed[i]) + offset_lines, number = line >> shift;
    touches[kept] = (struct touch){number, ts__sectors_of(packed[i])};
    kept += (line & mask) == (number * ts__golden >> 32 & mask);
  }
  return kept;
}

/* Brings the tags of a batch into the host's cache, one dependent step after the other. */
static void prefetch(const struct ts__l2_tags *tags, const struct touch *touches, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    __builtin_prefetch(ts__tags_bucket(tags, touches[i].number), 1);
  for (uint32_t i = 0; i < count; i++)
    __builtin_prefetch(&tags->nodes[*ts__tags_bucket(tags, touches[i].number)], 1);
  for (uint32_t i = 0; i < count; i++) {
    const struct ts__l2_node *node = &tags->nodes[*ts__tags_bucket(tags, touches[i].number)];
    __builtin_prefetch(&tags->nodes[node->newer], 1);
    __builtin_prefetch(&tags->nodes[node->older], 1);
  }
}

/* At most BATCH_COUNT lines, all of them offset_lines further on. */
static enum ts_status touch_lines(struct pass *pass, const struct ts__access *access,
                                  const uint64_t *packed, uint32_t count, uint64_t offset_lines,
                                  uint32_t side, struct sample *sample) {
  struct touch touches[BATCH_COUNT];
  count = draw(pass, packed, count, offset_lines, touches);
  prefetch(&pass->home, touches, count);
  sample->lines += count;
  for (uint32_t i = 0; i < count; i++) {
    sample->sectors += sector_count(touches[i].sectors);
    TS_TRY(touch_home(pass, access, &touches[i], sample));
    if (!access->is_write && is_far(pass, touches[i].number, side))
      touch_copy(pass, side, &touches[i], sample);
  }
  return TS_OK;
}

static enum ts_status walk_list(struct pass *pass, const struct ts__access *access,
                                const struct ts__line_list *list, uint64_t offset_lines,
                                uint32_t side, struct sample *sample,
                                struct ts__l2_outcome *outcome) {
  outcome->line_count = list->count;
  outcome->sector_count = list->sector_count;
  for (uint32_t at = 0; at < list->count; at += BATCH_COUNT) {
    uint32_t count = list->count - at < BATCH_COUNT ? list->count - at : BATCH_COUNT;
    TS_TRY(touch_lines(pass, access, list->packed + at, count, offset_lines, side, sample));
  }
  return TS_OK;
}

static enum ts_status walk(struct pass *pass, const struct ts__access *access,
                           const struct ts_shift *shift, uint32_t side, struct sample *sample,
                           struct ts__l2_outcome *outcome) {
  struct ts__line_cursor cursor;
  uint64_t packed[BATCH_COUNT], offset_lines;
  uint32_t count;
  const struct ts__line_list *list =
      ts__line_lists_find(pass->line_lists, access, shift, &offset_lines);
  if (list) return walk_list(pass, access, list, offset_lines, side, sample, outcome);
  ts__line_cursor_start(&cursor, access, shift);
  while ((count = ts__line_cursor_next(&cursor, packed, BATCH_COUNT)) > 0) {
    outcome->line_count += count;
    for (uint32_t i = 0; i < count; i++)
      outcome->sector_count += sector_count(packed[i]);
    TS_TRY(touch_lines(pass, access, packed, count, 0, side, sample));
  }
  return TS_OK;
}

static uint32_t share(uint32_t count, uint64_t part, uint64_t whole) {
  return whole ? (uint32_t)((count * part + whole / 2) / whole) : 0;
}

/* The access's lines in the shares of the sample. */
static void scale_outcome(const struct sample *sample, struct ts__l2_outcome *outcome) {
  uint32_t lines = outcome->line_count;
  outcome->miss_lines = share(lines, sample->misses, sample->lines);
  outcome->merged_lines = share(lines, sample->merged, sample->lines);
  if (outcome->merged_lines > lines - outcome->miss_lines)
    outcome->merged_lines = lines - outcome->miss_lines;
  outcome->far_lines = share(lines, sample->far, sample->lines);
  outcome->miss_sectors = share(outcome->sector_count, sample->missed_sectors, sample->sectors);
}

static void add_sample(struct pass *pass, const struct ts__access *access,
                       const struct sample *sample) {
  uint32_t shift = pass->settings->sample_shift;
  pass->totals.dram_read_sectors += sample->missed_sectors << shift;
  pass->totals.far_sectors += sample->far_sectors << shift;
  if (access->is_write) return;
  pass->reads.lines += sample->lines;
  pass->reads.sectors += sample->sectors;
  pass->reads.misses += sample->misses;
  pass->reads.merged += sample->merged;
  pass->reads.far += sample->far;
  pass->reads.missed_sectors += sample->missed_sectors;
}

/* --- accesses that repeat */

static uint64_t hash_access(const struct ts__access *access, const struct ts_shift *shift,
                            uint32_t side) {
  const struct ts_footprint *footprint = &access->footprint;
  uint64_t base = footprint->base;
  if (footprint->kind == TS_FOOTPRINT_LANES)
    base = access->mask ? footprint->lanes[__builtin_ctz(access->mask)] : 0;
  uint64_t hash = base + (uint64_t)shift->bytes + side;
  if (footprint->kind != TS_FOOTPRINT_BOX) return mix(hash);
  for (uint32_t i = 0; i < footprint->rank && i < 5; i++) {
    uint32_t coordinate = (uint32_t)footprint->coordinate[i] + (uint32_t)shift->coordinate[i];
    hash = (hash ^ coordinate) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return mix(hash);
}

static bool equal_boxes(const struct ts_footprint *a, const struct ts_shift *a_shift,
                        const struct ts_footprint *b, const struct ts_shift *b_shift) {
  if (a->rank != b->rank) return false;
  for (uint32_t i = 0; i < a->rank && i < 5; i++) {
    int64_t a_coordinate = (int64_t)a->coordinate[i] + a_shift->coordinate[i];
    int64_t b_coordinate = (int64_t)b->coordinate[i] + b_shift->coordinate[i];
    if (a_coordinate != b_coordinate || a->extent[i] != b->extent[i] ||
        a->stride_bytes[i] != b->stride_bytes[i] || a->tensor_extent[i] != b->tensor_extent[i])
      return false;
  }
  return true;
}

static bool equal_accesses(const struct ts__access *a, const struct ts_shift *a_shift,
                           const struct ts__access *b, const struct ts_shift *b_shift) {
  const struct ts_footprint *fa = &a->footprint, *fb = &b->footprint;
  if (a->is_write != b->is_write || a->is_atomic != b->is_atomic || fa->kind != fb->kind ||
      fa->size_bytes != fb->size_bytes)
    return false;
  if (fa->kind == TS_FOOTPRINT_BOX)
    return fa->base + (uint64_t)a_shift->bytes == fb->base + (uint64_t)b_shift->bytes &&
           equal_boxes(fa, a_shift, fb, b_shift);
  if (a->mask != b->mask) return false;
  if (fa->kind == TS_FOOTPRINT_AFFINE)
    return fa->base + (uint64_t)a_shift->bytes == fb->base + (uint64_t)b_shift->bytes &&
           fa->lane_stride == fb->lane_stride;
  for (uint32_t mask = a->mask; mask; mask &= mask - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(mask);
    if (fa->lanes[lane] + (uint64_t)a_shift->bytes != fb->lanes[lane] + (uint64_t)b_shift->bytes)
      return false;
  }
  return true;
}

/* Where the access was, or is to be, remembered; the table has twice the places that a round needs. */
static struct memo *find_memo(struct pass *pass, const struct ts__access *access,
                              const struct ts_shift *shift, uint32_t side) {
  uint32_t at = (uint32_t)hash_access(access, shift, side);
  for (;; at++) {
    struct memo *memo = &pass->memos[at & pass->memo_mask];
    if (memo->round != pass->round) return memo;
    if (memo->side != side) continue;
    if (equal_accesses(memo->access, &memo->shift, access, shift)) return memo;
  }
}

/* Asked again in the same round: nothing is missing any more, but it is still on its way. */
static void repeat_outcome(const struct pass *pass, struct ts__l2_outcome *outcome) {
  if (pass->settings->in_flight_accesses) outcome->merged_lines += outcome->miss_lines;
  outcome->miss_lines = outcome->miss_sectors = outcome->far_lines = 0;
}

/* The outcome of an access that is not a repetition. */
static enum ts_status ask(struct pass *pass, const struct ts__access *access,
                          const struct ts_shift *shift, uint32_t side,
                          struct ts__l2_outcome *outcome) {
  struct sample sample = {0};
  *outcome = (struct ts__l2_outcome){0};
  TS_TRY(walk(pass, access, shift, side, &sample, outcome));
  pass->totals.walked_lines += sample.lines;
  add_sample(pass, access, &sample);
  scale_outcome(sample.lines || access->is_write ? &sample : &pass->reads, outcome);
  return TS_OK;
}

static void add_totals(struct pass *pass, const struct ts__access *access,
                       const struct ts__l2_outcome *outcome, uint64_t count) {
  bool writes = access->is_write && !access->is_atomic;
  pass->totals.line_visits += count * outcome->line_count;
  *(writes ? &pass->totals.write_sectors : &pass->totals.read_sectors) +=
      count * outcome->sector_count;
  if (access->is_atomic) pass->totals.atomic_sectors += count * outcome->sector_count;
}

static enum ts_status do_access(struct pass *pass, const struct ts__access *access,
                                const struct ts_shift *shift, uint32_t side,
                                struct ts__l2_outcome *outcome) {
  struct memo *memo = find_memo(pass, access, shift, side);
  if (memo->round == pass->round) {
    *outcome = memo->outcome;
  } else {
    TS_TRY(ask(pass, access, shift, side, outcome));
    *memo = (struct memo){access, *shift, pass->round, side, *outcome};
    repeat_outcome(pass, &memo->outcome);
  }
  add_totals(pass, access, outcome, 1);
  return TS_OK;
}

/* --- blocks */

static const struct ts_shift *find_shift(const struct ts__l2_block *block, uint32_t insn) {
  return ts__find_shift(block->shifts, block->shift_count, insn);
}

/* The next block with accesses. */
static void fill_slot(struct pass *pass, struct slot *slot) {
  uint32_t *next = &pass->next_block;
  while (*next < pass->block_count && !pass->blocks[*next].access_count)
    ++*next;
  *slot = (struct slot){.block = *next, .is_busy = *next < pass->block_count};
  if (!slot->is_busy) return;
  ++*next;
  pass->busy_count++;
}

static void do_next(struct pass *pass, struct slot *slot) {
  if (++slot->next_access < pass->blocks[slot->block].access_count) return;
  pass->busy_count--;
  fill_slot(pass, slot);
}

/* Each block does its next access. */
static enum ts_status run_round(struct pass *pass) {
  for (uint32_t i = 0; i < pass->slot_count; i++) {
    struct slot *slot = &pass->slots[i];
    if (!slot->is_busy) continue;
    const struct ts__l2_block *block = &pass->blocks[slot->block];
    const struct ts__access *access = &block->accesses[slot->next_access];
    struct ts__l2_outcome outcome;
    TS_TRY(do_access(pass, access, find_shift(block, access->insn), i % SIDE_COUNT, &outcome));
    if (pass->outcomes && pass->outcomes[slot->block])
      pass->outcomes[slot->block][slot->next_access] = outcome;
    do_next(pass, slot);
  }
  pass->round++;
  return TS_OK;
}

/* --- blocks in step */

/* Whether all blocks go the same way and are equally far. */
static bool are_in_step(const struct pass *pass) {
  const struct slot *first = NULL;
  for (uint32_t i = 0; i < pass->slot_count; i++) {
    const struct slot *slot = &pass->slots[i];
    if (!slot->is_busy) continue;
    if (!first) first = slot;
    const struct ts__l2_block *a = &pass->blocks[first->block], *b = &pass->blocks[slot->block];
    if (a->accesses != b->accesses || a->access_count != b->access_count ||
        first->next_access != slot->next_access)
      return false;
  }
  return true;
}

/* The class of the slot's place, a new one if need be. */
static uint32_t find_class(struct pass *pass, struct classes *classes,
                           const struct ts__access *access, uint32_t slot) {
  const struct ts_shift *shift = find_shift(&pass->blocks[pass->slots[slot].block], access->insn);
  uint32_t side = slot % SIDE_COUNT, at = (uint32_t)hash_access(access, shift, side);
  for (;; at++) {
    uint32_t *entry = &pass->class_table[at & pass->memo_mask];
    if (!*entry) {
      *entry = classes->count + 1;
      classes->first[classes->count] = slot;
      classes->size[classes->count] = 0;
      classes->shift[classes->count] = shift;
      return classes->count++;
    }
    uint32_t class = *entry - 1;
    if (classes->first[class] % SIDE_COUNT != side) continue;
    if (equal_accesses(access, classes->shift[class], access, shift)) return class;
  }
}

/* For two accesses of an instruction and a form, the same shifts are equal. */
static uint32_t form_of(const struct ts__access *access) {
  if (access->footprint.kind == TS_FOOTPRINT_BOX) return 1 + access->footprint.rank;
  return access->mask ? 0 : UINT32_MAX;
}

/* The classes of the access's instruction: the same for all its accesses of one form. */
static enum ts_status find_classes(struct pass *pass, const struct ts__access *access,
                                   const struct classes **out) {
  struct classes *classes = &pass->classes[access->insn % CLASSES_COUNT];
  uint32_t form = form_of(access);
  *out = classes;
  if (classes->wave == pass->wave && classes->insn == access->insn && classes->form == form)
    return TS_OK;
  if (!classes->first) {
    classes->first = ts_new_array(&pass->arena, uint32_t, pass->slot_count);
    classes->size = ts_new_array(&pass->arena, uint32_t, pass->slot_count);
    classes->shift = ts_new_array(&pass->arena, const struct ts_shift *, pass->slot_count);
    classes->of_slot = ts_new_array(&pass->arena, uint32_t, pass->slot_count);
    if (!classes->first || !classes->size || !classes->shift || !classes->of_slot)
      return ts_fail_memory(pass->ctx);
  }
  classes->wave = pass->wave;
  classes->insn = access->insn;
  classes->form = form;
  classes->count = 0;
  memset(pass->class_table, 0, (pass->memo_mask + 1) * sizeof *pass->class_table);
  for (uint32_t i = 0; i < pass->slot_count; i++) {
    if (!pass->slots[i].is_busy) continue;
    classes->of_slot[i] = find_class(pass, classes, access, i);
    classes->size[classes->of_slot[i]]++;
  }
  return TS_OK;
}

static void find_told(struct pass *pass) {
  pass->told_count = 0;
  for (uint32_t i = 0; i < pass->slot_count && pass->outcomes; i++)
    if (pass->slots[i].is_busy && pass->outcomes[pass->slots[i].block])
      pass->told[pass->told_count++] = i;
}

/* Tells the blocks that are to know: the first of a class has asked, the others repeat. */
static void tell_outcomes(const struct pass *pass, const struct classes *classes, uint32_t index) {
  for (uint32_t i = 0; i < pass->told_count; i++) {
    uint32_t slot = pass->told[i], class = classes->of_slot[slot];
    struct ts__l2_outcome *outcome = &pass->outcomes[pass->slots[slot].block][index];
    *outcome = pass->results[class];
    if (classes->first[class] != slot) repeat_outcome(pass, outcome);
  }
}

/* All slots do the access. */
static enum ts_status run_round_in_step(struct pass *pass, const struct ts__access *access,
                                        uint32_t index) {
  const struct classes *classes;
  TS_TRY(find_classes(pass, access, &classes));
  for (uint32_t i = 0; i < classes->count; i++) {
    uint32_t side = classes->first[i] % SIDE_COUNT;
    TS_TRY(ask(pass, access, classes->shift[i], side, &pass->results[i]));
    add_totals(pass, access, &pass->results[i], classes->size[i]);
  }
  tell_outcomes(pass, classes, index);
  pass->round++;
  return TS_OK;
}

/* The slots' blocks, up to their end. */
static enum ts_status run_wave_in_step(struct pass *pass) {
  uint32_t first = 0;
  while (!pass->slots[first].is_busy)
    first++;
  const struct ts__l2_block *block = &pass->blocks[pass->slots[first].block];
  pass->wave++;
  find_told(pass);
  for (uint32_t i = pass->slots[first].next_access; i < block->access_count; i++)
    TS_TRY(run_round_in_step(pass, &block->accesses[i], i));
  for (uint32_t i = 0; i < pass->slot_count; i++) {
    struct slot *slot = &pass->slots[i];
    if (!slot->is_busy) continue;
    slot->next_access = block->access_count - 1;
    do_next(pass, slot);
  }
  return TS_OK;
}

/* --- all blocks */

static enum ts_status run_once(struct pass *pass) {
  pass->next_block = pass->busy_count = 0;
  for (uint32_t i = 0; i < pass->slot_count; i++)
    fill_slot(pass, &pass->slots[i]);
  while (pass->busy_count)
    TS_TRY(are_in_step(pass) ? run_wave_in_step(pass) : run_round(pass));
  return TS_OK;
}

static enum ts_status prepare(struct pass *pass, uint32_t pass_count) {
  uint64_t access_count = 0;
  for (uint32_t i = 0; i < pass->block_count; i++)
    access_count += pass->blocks[i].access_count;
  if (access_count * pass_count > INT32_MAX)
    return ts_fail(pass->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "a launch has more than 2^31 accesses to global memory");
  const struct ts__l2_settings *settings = pass->settings;
  TS_TRY(ts__tags_make(pass->ctx, settings, settings->capacity_bytes, &pass->arena, &pass->home));
  for (uint32_t side = 0; side < SIDE_COUNT && settings->duplicated_bytes; side++)
    TS_TRY(ts__tags_make(pass->ctx, settings, settings->duplicated_bytes / 2, &pass->arena,
                         &pass->copy[side]));
  uint32_t memo_count = 64;
  while (memo_count < pass->slot_count * 2)
    memo_count *= 2;
  pass->memo_mask = memo_count - 1;
  pass->memos = ts_new_array(&pass->arena, struct memo, memo_count);
  pass->class_table = ts_new_array(&pass->arena, uint32_t, memo_count);
  pass->slots = ts_new_array(&pass->arena, struct slot, pass->slot_count);
  pass->results = ts_new_array(&pass->arena, struct ts__l2_outcome, pass->slot_count);
  pass->told = ts_new_array(&pass->arena, uint32_t, pass->slot_count);
  pass->line_lists = ts_new(&pass->arena, struct ts__line_lists);
  bool is_there = pass->memos && pass->class_table && pass->slots && pass->results && pass->told &&
                  pass->line_lists;
  return is_there ? TS_OK : ts_fail_memory(pass->ctx);
}

static enum ts_status run_passes(struct pass *pass, struct ts__l2_pass *passes,
                                 uint32_t pass_count) {
  uint32_t shift = pass->settings->sample_shift;
  TS_TRY(prepare(pass, pass_count));
  pass->round = 1;
  for (uint32_t i = 0; i < pass_count; i++) {
    pass->round += pass->settings->in_flight_accesses; /* what is under way lands in between */
    pass->totals = (struct ts__l2_totals){0};
    pass->reads = (struct sample){0};
    pass->outcomes = passes[i].outcomes;
    TS_TRY(run_once(pass));
    passes[i].totals = pass->totals;
    passes[i].totals.dram_write_sectors <<= shift;
    passes[i].totals.footprint_bytes = (pass->seen.line_count << shift) * TS__LINE_BYTES;
  }
  return TS_OK;
}

enum ts_status ts__l2_run(struct ts_ctx *ctx, const struct ts__l2_settings *settings,
                          const struct ts__l2_block *blocks, uint32_t block_count,
                          struct ts__l2_pass *passes, uint32_t pass_count) {
  struct ts__l2_settings bounded = *settings;
  if (bounded.sample_shift > SAMPLE_SHIFT_MAX) bounded.sample_shift = SAMPLE_SHIFT_MAX;
  if (bounded.concurrent_blocks > block_count) bounded.concurrent_blocks = block_count;
  if (!bounded.concurrent_blocks) bounded.concurrent_blocks = 1;
  struct pass pass = {.ctx = ctx,
                      .settings = &bounded,
                      .slot_count = bounded.concurrent_blocks,
                      .blocks = blocks,
                      .block_count = block_count};
  ts_arena_init(&pass.arena, ctx->allocator);
  enum ts_status status = run_passes(&pass, passes, pass_count);
  ts__tags_free(ctx, &pass.home);
  for (uint32_t side = 0; side < SIDE_COUNT; side++)
    ts__tags_free(ctx, &pass.copy[side]);
  ts_arena_free(&pass.arena);
  return status;
}
