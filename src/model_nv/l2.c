/* The L2 pass: all blocks of a launch in lockstep over one L2.
 *
 * Most traffic of tile kernels is boxes that many resident blocks want in the same round. Such an
 * access is walked once and told again to the others, so that the cost is that of the distinct boxes
 * of a round. */
#include "model_nv/access.h"

#include <string.h>

enum {
  DIRTY_SHIFT = 4,
  FILLED_SHIFT = 8,
  NUMBER_SHIFT = 12,
  GROUP_COUNT = 16,
  BATCH_COUNT = 64,
  SIDE_COUNT = 2,
  SAMPLE_SHIFT_MAX = 16,
  PAGE_SHIFT = 15, /* lines of a page of the seen-set: 4 KiB of bits */
  PAGE_WORDS = (1 << PAGE_SHIFT) / 64
};

/* A line that is kept. */
struct node {
  /* number << 12 | sectors that the last read from DRAM brings << 8 | dirty << 4 | valid */
  uint64_t entry;
  uint32_t chain;        /* next of the bucket, 0 none */
  uint32_t newer, older; /* in the order of use of its group */
  uint32_t used, filled; /* rounds: last use, last read from DRAM */
};

/* Lines in the order of use, least recently used first out. A real cache has sets and a hash, some of
 * which overflow before others: a hash puts each line in one of 16 groups, whose capacities differ
 * by the spread of the settings. Within a group nothing is lost to conflicts. nodes[0 .. 15] are the
 * ends of the groups' lists: older is the newest line, newer the oldest. */
struct tags {
  struct node *nodes;
  uint32_t *buckets;
  uint32_t bucket_mask, group_count;
  uint32_t next_node;         /* never used so far */
  uint32_t room[GROUP_COUNT]; /* lines that a group may still take */
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

/* What the sample of an access showed; counts of lines unless they say sectors. */
struct sample {
  uint64_t lines, sectors, misses, merged, far;
  uint64_t missed_sectors, far_sectors;
};

struct pass {
  struct ts_ctx *ctx;
  const struct ts__l2_settings *settings;
  struct ts_arena arena;
  struct tags home;             /* each line in its partition */
  struct tags copy[SIDE_COUNT]; /* what a partition keeps of the other's lines */
  struct seen seen;
  struct memo *memos;
  uint32_t memo_mask;
  struct slot *slots;
  uint32_t round;
  struct sample reads; /* all so far */
  struct ts__l2_totals totals;
};

static uint32_t sector_count(uint64_t sectors) {
  static const uint8_t counts[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  return counts[sectors & 15];
}

/* --- tags */

/* Quantiles of the normal distribution at (2 i + 1) / 32. */
static const double quantiles[GROUP_COUNT] = {-1.863, -1.318, -1.010, -0.776, -0.579, -0.402,
                                              -0.237, -0.078, 0.078,  0.237,  0.402,  0.579,
                                              0.776,  1.010,  1.318,  1.863};

static enum ts_status make_tags(struct pass *pass, uint64_t capacity_bytes, struct tags *tags) {
  double spread = pass->settings->capacity_spread;
  double line_count = (double)(capacity_bytes / TS__LINE_BYTES >> pass->settings->sample_shift);
  uint32_t node_count = GROUP_COUNT, bucket_count = 64;
  if (line_count > INT32_MAX / 2) line_count = INT32_MAX / 2;
  tags->group_count = spread > 0 ? GROUP_COUNT : 1;
  for (uint32_t i = 0; i < tags->group_count; i++) {
    double share = line_count / tags->group_count * (spread > 0 ? 1 + spread * quantiles[i] : 1);
    tags->room[i] = share > 0 ? (uint32_t)(share + 0.5) : 0;
    node_count += tags->room[i];
  }
  while (bucket_count < node_count)
    bucket_count *= 2;
  tags->bucket_mask = bucket_count - 1;
  tags->next_node = GROUP_COUNT;
  tags->nodes = ts_arena_alloc_array(&pass->arena, node_count, sizeof *tags->nodes, 64);
  tags->buckets = ts_arena_alloc_array(&pass->arena, bucket_count, sizeof *tags->buckets, 64);
  if (!tags->nodes || !tags->buckets) return ts_fail_memory(pass->ctx);
  for (uint32_t i = 0; i < GROUP_COUNT; i++)
    tags->nodes[i].newer = tags->nodes[i].older = i;
  return TS_OK;
}

enum { RUN_SHIFT = 12 };
static const uint64_t golden = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 over the golden ratio */

/* Runs of 4096 lines lie one after another, for the host's cache; a hash says where a run starts. */
static uint32_t *bucket_of(const struct tags *tags, uint64_t number) {
  uint64_t start = (number >> RUN_SHIFT) * golden >> 32;
  return &tags->buckets[(number + start) & tags->bucket_mask];
}

/* Multiples of the golden ratio spread any even row of lines evenly. */
static uint32_t group_of(const struct tags *tags, uint64_t number) {
  return tags->group_count == 1 ? 0 : (uint32_t)(number * golden >> 60);
}

static struct node *find_node(const struct tags *tags, uint64_t number) {
  for (uint32_t i = *bucket_of(tags, number); i; i = tags->nodes[i].chain)
    if (tags->nodes[i].entry >> NUMBER_SHIFT == number) return &tags->nodes[i];
  return NULL;
}

static void take_out(struct node *nodes, const struct node *node) {
  nodes[node->newer].older = node->older;
  nodes[node->older].newer = node->newer;
}

static void put_first(struct node *nodes, uint32_t group, struct node *node) {
  node->newer = group;
  node->older = nodes[group].older;
  nodes[node->older].newer = (uint32_t)(node - nodes);
  nodes[group].older = (uint32_t)(node - nodes);
}

/* The order within a round does not matter: lines are moved once. */
static void use_node(struct tags *tags, struct node *node, uint64_t number, uint32_t round) {
  if (node->used == round) return;
  take_out(tags->nodes, node);
  put_first(tags->nodes, group_of(tags, number), node);
  node->used = round;
}

/* The oldest line of the group, no longer in its bucket or list; NULL when the group keeps none. */
static struct node *drop_oldest(struct tags *tags, uint32_t group) {
  struct node *node = &tags->nodes[tags->nodes[group].newer];
  uint32_t index = (uint32_t)(node - tags->nodes);
  if (index == group) return NULL;
  uint32_t *link = bucket_of(tags, node->entry >> NUMBER_SHIFT);
  while (*link != index)
    link = &tags->nodes[*link].chain;
  *link = node->chain;
  take_out(tags->nodes, node);
  return node;
}

/* A node for a line that is not there, with nothing valid; *evicted is the entry that made room. NULL
 * when there is no capacity. */
static struct node *add_node(struct tags *tags, uint64_t number, uint32_t round,
                             uint64_t *evicted) {
  uint32_t group = group_of(tags, number);
  struct node *node;
  *evicted = 0;
  if (tags->room[group]) {
    tags->room[group]--;
    node = &tags->nodes[tags->next_node++];
  } else {
    node = drop_oldest(tags, group);
    if (!node) return NULL;
    *evicted = node->entry;
  }
  uint32_t *bucket = bucket_of(tags, number);
  *node = (struct node){.entry = number << NUMBER_SHIFT, .chain = *bucket, .used = round};
  *bucket = (uint32_t)(node - tags->nodes);
  put_first(tags->nodes, group, node);
  return node;
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
  struct node *node = find_node(&pass->home, touch->number), nothing = {0};
  bool reads = !access->is_write || access->is_atomic;
  if (node) {
    use_node(&pass->home, node, touch->number, pass->round);
  } else {
    uint64_t evicted;
    TS_TRY(note_seen(pass, touch->number));
    node = add_node(&pass->home, touch->number, pass->round, &evicted);
    pass->totals.dram_write_sectors += sector_count(evicted >> DIRTY_SHIFT);
    if (!node) node = &nothing;
  }
  bool is_in_flight = pass->round - node->filled < pass->settings->in_flight_accesses;
  uint64_t missing = reads ? touch->sectors & ~node->entry : 0;
  if (missing) {
    sample->misses++;
    sample->missed_sectors += sector_count(missing);
    if (!is_in_flight) node->entry &= ~(UINT64_C(15) << FILLED_SHIFT);
    node->entry |= missing << FILLED_SHIFT;
    node->filled = pass->round;
  } else if (reads && is_in_flight && touch->sectors & node->entry >> FILLED_SHIFT) {
    sample->merged++;
  }
  node->entry |= touch->sectors;
  if (access->is_write || access->is_atomic) node->entry |= touch->sectors << DIRTY_SHIFT;
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
  struct tags *tags = &pass->copy[side];
  struct node *node = find_node(tags, touch->number);
  uint64_t missing = node ? touch->sectors & ~node->entry : touch->sectors, evicted;
  sample->far += missing != 0;
  sample->far_sectors += sector_count(missing);
  if (node)
    use_node(tags, node, touch->number, pass->round);
  else
    node = add_node(tags, touch->number, pass->round, &evicted);
  if (node) node->entry |= touch->sectors;
}

/* --- one access */

/* Keeps the lines that are drawn: of each 2^shift neighbours the one that a hash of their group says.
 * number becomes the group, which counts lines of the sample without gaps. */
static uint32_t draw(const struct pass *pass, const uint64_t *packed, uint32_t count,
                     struct touch *touches) {
  uint32_t shift = pass->settings->sample_shift, kept = 0;
  uint64_t mask = (UINT64_C(1) << shift) - 1; /* 0: all lines are */
  for (uint32_t i = 0; i < count; i++) {
    uint64_t line = ts__line_of(packed[i]), number = line >> shift;
    touches[kept] = (struct touch){number, ts__sectors_of(packed[i])};
    kept += (line & mask) == (number * golden >> 32 & mask);
  }
  return kept;
}

/* Brings the tags of a batch into the host's cache, one dependent step after the other. */
static void prefetch(const struct tags *tags, const struct touch *touches, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    __builtin_prefetch(bucket_of(tags, touches[i].number), 1);
  for (uint32_t i = 0; i < count; i++)
    __builtin_prefetch(&tags->nodes[*bucket_of(tags, touches[i].number)], 1);
  for (uint32_t i = 0; i < count; i++) {
    const struct node *node = &tags->nodes[*bucket_of(tags, touches[i].number)];
    __builtin_prefetch(&tags->nodes[node->newer], 1);
    __builtin_prefetch(&tags->nodes[node->older], 1);
  }
}

static enum ts_status walk(struct pass *pass, const struct ts__access *access,
                           const struct ts_shift *shift, uint32_t side, struct sample *sample,
                           struct ts__l2_outcome *outcome) {
  struct ts__line_cursor cursor;
  uint64_t packed[BATCH_COUNT];
  struct touch touches[BATCH_COUNT];
  uint32_t count;
  ts__line_cursor_start(&cursor, access, shift);
  while ((count = ts__line_cursor_next(&cursor, packed, BATCH_COUNT)) > 0) {
    outcome->line_count += count;
    for (uint32_t i = 0; i < count; i++)
      outcome->sector_count += sector_count(packed[i]);
    count = draw(pass, packed, count, touches);
    prefetch(&pass->home, touches, count);
    for (uint32_t i = 0; i < count; i++) {
      sample->lines++;
      sample->sectors += sector_count(touches[i].sectors);
      TS_TRY(touch_home(pass, access, &touches[i], sample));
      if (!access->is_write && is_far(pass, touches[i].number, side))
        touch_copy(pass, side, &touches[i], sample);
    }
  }
  pass->totals.walked_lines += sample->lines;
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

static enum ts_status do_access(struct pass *pass, const struct ts__access *access,
                                const struct ts_shift *shift, uint32_t side,
                                struct ts__l2_outcome *outcome) {
  struct memo *memo = find_memo(pass, access, shift, side);
  *outcome = (struct ts__l2_outcome){0};
  if (memo->round == pass->round) {
    *outcome = memo->outcome;
  } else {
    struct sample sample = {0};
    TS_TRY(walk(pass, access, shift, side, &sample, outcome));
    add_sample(pass, access, &sample);
    scale_outcome(sample.lines || access->is_write ? &sample : &pass->reads, outcome);
    *memo = (struct memo){access, *shift, pass->round, side, *outcome};
    repeat_outcome(pass, &memo->outcome);
  }
  pass->totals.line_visits += outcome->line_count;
  bool writes = access->is_write && !access->is_atomic;
  *(writes ? &pass->totals.write_sectors : &pass->totals.read_sectors) += outcome->sector_count;
  return TS_OK;
}

/* --- blocks */

static const struct ts_shift *find_shift(const struct ts__l2_block *block, uint32_t insn) {
  static const struct ts_shift none;
  uint32_t low = 0, high = block->shifts ? block->shift_count : 0;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (block->shifts[middle].insn < insn)
      low = middle + 1;
    else
      high = middle;
  }
  bool is_found = block->shifts && low < block->shift_count && block->shifts[low].insn == insn;
  return is_found ? &block->shifts[low] : &none;
}

/* The next block with accesses, from *next on. */
static void fill_slot(struct slot *slot, const struct ts__l2_block *blocks, uint32_t block_count,
                      uint32_t *next) {
  while (*next < block_count && !blocks[*next].access_count)
    ++*next;
  *slot = (struct slot){.block = *next, .is_busy = *next < block_count};
  if (slot->is_busy) ++*next;
}

static enum ts_status run_once(struct pass *pass, const struct ts__l2_block *blocks,
                               uint32_t block_count, struct ts__l2_outcome *const *outcomes) {
  uint32_t slot_count = pass->settings->concurrent_blocks, next = 0, busy = 0;
  for (uint32_t i = 0; i < slot_count; i++) {
    fill_slot(&pass->slots[i], blocks, block_count, &next);
    busy += pass->slots[i].is_busy;
  }
  for (; busy; pass->round++) {
    for (uint32_t i = 0; i < slot_count; i++) {
      struct slot *slot = &pass->slots[i];
      if (!slot->is_busy) continue;
      const struct ts__l2_block *block = &blocks[slot->block];
      const struct ts__access *access = &block->accesses[slot->next_access];
      struct ts__l2_outcome outcome;
      TS_TRY(do_access(pass, access, find_shift(block, access->insn), i % SIDE_COUNT, &outcome));
      if (outcomes && outcomes[slot->block]) outcomes[slot->block][slot->next_access] = outcome;
      if (++slot->next_access < block->access_count) continue;
      fill_slot(slot, blocks, block_count, &next);
      busy -= !slot->is_busy;
    }
  }
  return TS_OK;
}

static enum ts_status prepare(struct pass *pass, const struct ts__l2_block *blocks,
                              uint32_t block_count, uint32_t passes) {
  uint64_t access_count = 0;
  for (uint32_t i = 0; i < block_count; i++)
    access_count += blocks[i].access_count;
  if (access_count * passes > INT32_MAX)
    return ts_fail(pass->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "a launch has more than 2^31 accesses to global memory");
  const struct ts__l2_settings *settings = pass->settings;
  TS_TRY(make_tags(pass, settings->capacity_bytes, &pass->home));
  for (uint32_t side = 0; side < SIDE_COUNT && settings->duplicated_bytes; side++)
    TS_TRY(make_tags(pass, settings->duplicated_bytes / 2, &pass->copy[side]));
  uint32_t memo_count = 64;
  while (memo_count < settings->concurrent_blocks * 2)
    memo_count *= 2;
  pass->memo_mask = memo_count - 1;
  pass->memos = ts_new_array(&pass->arena, struct memo, memo_count);
  pass->slots = ts_new_array(&pass->arena, struct slot, settings->concurrent_blocks);
  return pass->memos && pass->slots ? TS_OK : ts_fail_memory(pass->ctx);
}

static enum ts_status run_passes(struct pass *pass, const struct ts__l2_block *blocks,
                                 uint32_t block_count, uint32_t passes,
                                 struct ts__l2_outcome *const *outcomes) {
  TS_TRY(prepare(pass, blocks, block_count, passes));
  pass->round = 1;
  for (uint32_t i = 0; i < passes; i++) {
    pass->round += pass->settings->in_flight_accesses; /* what is under way lands in between */
    pass->totals = (struct ts__l2_totals){0};
    pass->reads = (struct sample){0};
    TS_TRY(run_once(pass, blocks, block_count, i + 1 == passes ? outcomes : NULL));
  }
  return TS_OK;
}

enum ts_status ts__l2_run(struct ts_ctx *ctx, const struct ts__l2_settings *settings,
                          const struct ts__l2_block *blocks, uint32_t block_count, uint32_t passes,
                          struct ts__l2_outcome *const *outcomes, struct ts__l2_totals *totals) {
  struct ts__l2_settings bounded = *settings;
  if (bounded.sample_shift > SAMPLE_SHIFT_MAX) bounded.sample_shift = SAMPLE_SHIFT_MAX;
  if (bounded.concurrent_blocks > block_count) bounded.concurrent_blocks = block_count;
  if (!bounded.concurrent_blocks) bounded.concurrent_blocks = 1;
  struct pass pass = {.ctx = ctx, .settings = &bounded};
  ts_arena_init(&pass.arena, ctx->allocator);
  enum ts_status status = run_passes(&pass, blocks, block_count, passes, outcomes);
  *totals = pass.totals;
  totals->dram_write_sectors <<= bounded.sample_shift;
  totals->footprint_bytes = (pass.seen.line_count << bounded.sample_shift) * TS__LINE_BYTES;
  ts_arena_free(&pass.arena);
  return status;
}
