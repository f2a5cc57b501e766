/* Checks of what tensor loads fetch: boxes that come again and again while the rest of the tensor
 * is never loaded. Either sign alone is ordinary (a persistent kernel reloads, a kernel that works
 * on a slice leaves the rest); together they say that a coordinate lacks its loop or block
 * index. */
#include "interp/check_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = TS_TENSORMAP_MAX_RANK, MAX_SIGNATURES = 1 << 16 };

/* What the launch has loaded through a map. */
struct map_use {
  uint64_t load_count;
  uint32_t insn;    /* of a load; when is_reloaded: of one that fetched a box twice running */
  bool is_reloaded; /* within a block */
  int64_t begin[RANK], end[RANK]; /* elements between the boxes at the ends */
};

struct ts__box_check {
  struct map_use *maps; /* by tensor map of the plan */
  bool *is_read;        /* by allocation: also read by other instructions than tensor loads */
  size_t allocation_count;
  uint64_t *signatures; /* of the blocks' loads: of the first ones */
  size_t signature_count, signature_limit;
};

struct ts__last_box {
  uint64_t block; /* 1 + its index */
  struct ts__box box;
};

enum ts_status ts__check_box_init(struct ts__check *check) {
  const struct ts__program *program = check->program;
  struct ts__box_check *boxes = ts_new(program->arena, struct ts__box_check);
  if (!boxes) return ts_fail_memory(check->ctx);
  memset(boxes, 0, sizeof *boxes);
  boxes->allocation_count = program->memory->allocations.count;
  boxes->maps = ts_new_array(program->arena, struct map_use, program->plan->tensormap_count + 1u);
  boxes->is_read = ts_new_array(program->arena, bool, boxes->allocation_count + 1);
  uint64_t blocks =
      (uint64_t)program->launch->grid[0] * program->launch->grid[1] * program->launch->grid[2];
  boxes->signature_limit = blocks < MAX_SIGNATURES ? (size_t)blocks : MAX_SIGNATURES;
  boxes->signatures = ts_new_array(program->arena, uint64_t, boxes->signature_limit + 1);
  if (!boxes->maps || !boxes->is_read || !boxes->signatures) return ts_fail_memory(check->ctx);
  check->boxes = boxes;
  return TS_OK;
}

enum ts_status ts__check_box_block_init(struct ts__check *check) {
  const struct ts__program *program = check->program;
  check->last_boxes = ts_new_array(program->arena, struct ts__last_box, program->code_count + 1u);
  return check->last_boxes ? TS_OK : ts_fail_memory(check->ctx);
}

void ts__check_box_other_read(struct ts__check *check, uint64_t address) {
  uint64_t allocation = address >> TS_ADDRESS_SHIFT;
  if (allocation < check->boxes->allocation_count) check->boxes->is_read[allocation] = true;
}

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static void extend(struct map_use *use, const struct ts__box *box) {
  for (uint32_t i = 0; i < box->map->rank; i++) {
    int64_t begin = box->coordinate[i], end = begin + box->map->box[i];
    if (use->load_count == 0 || begin < use->begin[i]) use->begin[i] = begin;
    if (use->load_count == 0 || end > use->end[i]) use->end[i] = end;
  }
}

void ts__check_box_load(struct ts__warp *warp, const struct ts__copy *copy) {
  struct ts__check *check = warp->block->check;
  const struct ts_launch_plan *plan = warp->program->plan;
  const struct ts__box *box = &copy->box;
  uint64_t number = (uint64_t)(box->map - plan->tensormaps);
  if (copy->is_repeated || number >= plan->tensormap_count) return;
  if (box->map->is_im2col) ts__check_box_other_read(check, box->map->global_address);
  struct map_use *use = &check->boxes->maps[number];
  struct ts__last_box *last = &check->last_boxes[copy->code - warp->program->code];
  bool is_same = last->block == warp->block->index + 1u && last->box.map == box->map &&
                 memcmp(last->box.coordinate, box->coordinate, sizeof box->coordinate) == 0;
  last->block = warp->block->index + 1u;
  last->box = *box;
  if (is_same || use->load_count == 0) use->insn = copy->code->insn;
  use->is_reloaded |= is_same;
  extend(use, box);
  use->load_count++;
  uint64_t hash = mix(1, number);
  for (uint32_t i = 0; i < box->map->rank; i++)
    hash = mix(hash, (uint32_t)box->coordinate[i]);
  check->box_signature += hash; /* whatever the order of warps */
}

void ts__check_box_block_end(struct ts__block *block) {
  struct ts__box_check *boxes = block->check->boxes;
  uint64_t signature = block->check->box_signature;
  if (signature && boxes->signature_count < boxes->signature_limit)
    boxes->signatures[boxes->signature_count++] = signature;
}

static int compare(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

/* Whether two blocks have loaded the same boxes. */
static bool has_twins(const struct ts__box_check *boxes) {
  size_t count = boxes->signature_count;
  if (count > 1) qsort(boxes->signatures, count, sizeof(uint64_t), compare);
  for (size_t i = 1; i < count; i++)
    if (boxes->signatures[i] == boxes->signatures[i - 1]) return true;
  return false;
}

/* Adds what other maps of the same tensor load; false when somebody reads it in another form. */
static bool join_maps(const struct ts__program *program, uint32_t number, struct map_use *use) {
  const struct ts__box_check *boxes = program->check->boxes;
  const struct ts_tensormap *map = &program->plan->tensormaps[number];
  uint64_t allocation = map->global_address >> TS_ADDRESS_SHIFT;
  if (allocation >= boxes->allocation_count || boxes->is_read[allocation]) return false;
  for (uint32_t i = 0; i < program->plan->tensormap_count; i++) {
    const struct ts_tensormap *other = &program->plan->tensormaps[i];
    const struct map_use *also = &boxes->maps[i];
    if (also->load_count == 0 || other->global_address >> TS_ADDRESS_SHIFT != allocation) continue;
    if (other->rank != map->rank || other->global_address != map->global_address ||
        memcmp(other->size, map->size, map->rank * sizeof map->size[0]) != 0)
      return false;
    use->is_reloaded |= also->is_reloaded;
    for (uint32_t d = 0; d < map->rank; d++) {
      if (also->begin[d] < use->begin[d]) use->begin[d] = also->begin[d];
      if (also->end[d] > use->end[d]) use->end[d] = also->end[d];
    }
  }
  return true;
}

static void report(struct ts_ctx *ctx, const struct ts__program *program, uint32_t number,
                   const struct map_use *use, uint32_t d) {
  const struct ts_tensormap *map = &program->plan->tensormaps[number];
  const struct ts_allocation *allocation = ts_device_find(program->memory, map->global_address);
  char message[320];
  snprintf(message, sizeof message,
           "%s fetches the same boxes of %s, while of dimension %u (innermost 0; %llu elements) "
           "only elements %lld to %lld are ever loaded",
           use->is_reloaded ? "a block" : "one block after another",
           allocation && allocation->name ? allocation->name : "a tensor", d,
           (unsigned long long)map->size[d], (long long)(use->begin[d] < 0 ? 0 : use->begin[d]),
           (long long)use->end[d] - 1);
  struct ts_diag diag = {.code = TS_DIAG_UNUSED_TENSOR,
                         .message = message,
                         .hint = "does the coordinate lack a loop counter or a block index?",
                         .place = ts_insn_place(program->function, use->insn),
                         .function = program->function->name,
                         .block = -1,
                         .warp = -1,
                         .lane = -1};
  ts_diag_add(ctx->diags, &diag);
}

/* Dimensions in which a box has one element choose (a head, a layer) and need not be complete. */
static bool judge(struct ts_ctx *ctx, const struct ts__program *program, uint32_t number,
                  bool are_twins) {
  const struct ts_tensormap *map = &program->plan->tensormaps[number];
  struct map_use use = program->check->boxes->maps[number];
  if (use.load_count == 0 || !join_maps(program, number, &use)) return false;
  for (uint32_t d = 0; d < map->rank; d++) {
    bool is_whole = use.begin[d] <= 0 && (uint64_t)use.end[d] >= map->size[d];
    if (map->box[d] == 1 || is_whole || !(use.is_reloaded || are_twins)) continue;
    report(ctx, program, number, &use, d);
    return true;
  }
  return false;
}

bool ts__check_box_launch_end(struct ts_ctx *ctx, struct ts__program *program, bool is_judged) {
  struct ts__box_check *boxes = program->check->boxes;
  bool is_found = false, are_twins = is_judged && has_twins(boxes);
  for (uint32_t i = 0; is_judged && i < program->plan->tensormap_count; i++)
    is_found = judge(ctx, program, i, are_twins) || is_found;
  return is_found;
}
