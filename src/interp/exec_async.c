/* cp.async, TMA and bulk copies (DOC: PTX ISA, cp.async, cp.async.bulk, cp.async.bulk.tensor).
 *
 * Issue: checks the shared range, opens a pending record, queues the copy. Delivery: moves the
 * bytes and completes transactions. A copy instruction executed by several lanes is that many
 * copies. */
#include "interp/check_priv.h"

#include <string.h>

enum { TENSOR_ALIGN_BYTES = 128, BULK_ALIGN_BYTES = 16 };

static int64_t attribute(const struct ts__warp *warp, const struct ts__code *code,
                         enum ts_attr_id id, int64_t fallback) {
  const struct ts_function *function = warp->program->function;
  return ts_insn_attr(function, &function->insns.data[code->insn], id, fallback);
}

static enum ts__step step_of(const struct ts__warp *warp, enum ts_status status) {
  return status == TS_OK ? ts__after_checks(warp) : TS__STEP_FAULT;
}

static enum ts_status stop(struct ts__warp *warp, const struct ts__code *code, const char *text) {
  warp->block->status = ts_fail(warp->block->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_UNKNOWN,
                                ts_insn_place(warp->program->function, code->insn), "%s", text);
  return warp->block->status;
}

/* --- events */

static bool moves_to_shared(enum ts__copy_kind kind) {
  return kind == TS__COPY_CP_ASYNC || kind == TS__COPY_TMA_LOAD || kind == TS__COPY_BULK_LOAD ||
         kind == TS__COPY_CLUSTER;
}

/* Copies that complete transactions of an mbarrier. */
static bool completes_mbarrier(enum ts__copy_kind kind) {
  return moves_to_shared(kind) && kind != TS__COPY_CP_ASYNC;
}

/* Elements that a box reaches, by dimension. The pixels of an im2col box are told as the box of
 * whole lines, planes and images that holds about as many. */
static void find_extents(const struct ts_tensormap *map, uint32_t extent[TS_TENSORMAP_MAX_RANK]) {
  for (uint32_t i = 0; i < map->rank; i++)
    extent[i] = map->box[i];
  if (!map->is_im2col) return;
  uint32_t pixels = map->box[1];
  for (uint32_t i = 1; i < map->rank; i++) {
    uint32_t step = map->elem_stride[i] ? map->elem_stride[i] : 1;
    int64_t span = (int64_t)map->size[i];
    if (i <= 2 && i + 1 < map->rank) span += map->upper_corner[i - 1] - map->lower_corner[i - 1];
    uint32_t places = span > 0 ? (uint32_t)((span + step - 1) / step) : 1;
    extent[i] = pixels < places ? pixels : places;
    pixels = (pixels + places - 1) / places;
  }
}

static struct ts_footprint box_footprint(const struct ts__box *box) {
  const struct ts_tensormap *map = box->map;
  struct ts_footprint footprint = {.kind = TS_FOOTPRINT_BOX,
                                   .space = TS_SPACE_GLOBAL,
                                   .rank = (uint8_t)map->rank,
                                   .size_bytes = map->box[0] * map->elem_size_bytes,
                                   .base = map->global_address};
  find_extents(map, footprint.extent);
  if (box->is_gather) footprint.extent[1] = TS__GATHERED_ROWS; /* told as neighbours */
  for (uint32_t i = 0; i < map->rank; i++) {
    bool is_spatial = map->is_im2col && i >= 1 && i <= 2 && i + 1 < map->rank;
    footprint.coordinate[i] = box->coordinate[i] + (is_spatial ? (int32_t)box->offset[i - 1] : 0);
    footprint.stride_bytes[i] = map->stride_bytes[i];
    footprint.tensor_extent[i] = map->size[i];
  }
  return footprint;
}

/* The global side of a copy; of copies inside a cluster the source. */
static struct ts_footprint issue_footprint(const struct ts__copy *copy) {
  uint32_t size_bytes = (uint32_t)copy->size_bytes;
  switch (copy->kind) {
  case TS__COPY_CP_ASYNC:
    return (struct ts_footprint){.kind = TS_FOOTPRINT_LANES,
                                 .space = TS_SPACE_GLOBAL,
                                 .size_bytes = size_bytes,
                                 .lanes = copy->lane_global};
  case TS__COPY_BULK_LOAD:
  case TS__COPY_BULK_STORE:
    return (struct ts_footprint){.kind = TS_FOOTPRINT_AFFINE,
                                 .space = TS_SPACE_GLOBAL,
                                 .size_bytes = size_bytes,
                                 .base = copy->global};
  case TS__COPY_CLUSTER:
    return (struct ts_footprint){.kind = TS_FOOTPRINT_AFFINE,
                                 .space = TS_SPACE_SHARED,
                                 .size_bytes = size_bytes,
                                 .base = copy->source};
  default: return box_footprint(&copy->box);
  }
}

/* The destination of a copy. */
static struct ts_footprint landed_footprint(const struct ts__copy *copy,
                                            uint64_t lanes[TS__LANES]) {
  if (!moves_to_shared(copy->kind)) return issue_footprint(copy);
  bool is_box = copy->kind == TS__COPY_TMA_LOAD;
  struct ts_footprint footprint = {.kind = TS_FOOTPRINT_AFFINE,
                                   .space = TS_SPACE_SHARED,
                                   .size_bytes = (uint32_t)copy->size_bytes,
                                   .base = is_box ? copy->box.shared_address : copy->shared};
  if (copy->kind != TS__COPY_CP_ASYNC) return footprint;
  footprint.kind = TS_FOOTPRINT_LANES;
  footprint.base = 0;
  footprint.lanes = lanes;
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    lanes[lane] = (copy->copy_lanes | copy->zero_lanes) >> lane & 1 ? copy->lane_shared[lane] : 0;
  return footprint;
}

/* What makes the result of the copy visible. */
static void set_sync(const struct ts__copy *copy, struct ts_event *event) {
  if (completes_mbarrier(copy->kind)) {
    const struct ts__mbarrier *mbarrier = ts__mbarrier_find(copy->to, copy->mbarrier);
    event->sync_kind = TS_SYNC_MBARRIER;
    event->sync_object = copy->mbarrier;
    event->sync_phase = mbarrier ? (uint32_t)(mbarrier->first_phase + mbarrier->phase) : 0;
    return;
  }
  event->sync_kind = copy->kind == TS__COPY_CP_ASYNC ? TS_SYNC_CP_ASYNC_GROUP : TS_SYNC_BULK_GROUP;
  event->sync_object = copy->group;
}

/* COPY at issue, LANDED at delivery. A multicast is one copy for each block that gets the bytes;
 * those after the first cost no reading (work 0), as cp.async that only write zeros do. */
static enum ts_status emit_copy(struct ts__warp *warp, struct ts__copy *copy,
                                enum ts_event_kind kind) {
  if (!ts__listening(warp->block)) return TS_OK;
  bool to_shared = moves_to_shared(copy->kind);
  struct ts_event event = {.kind = (uint8_t)kind,
                           .src_space = to_shared ? TS_SPACE_GLOBAL : TS_SPACE_SHARED,
                           .dst_space = to_shared ? TS_SPACE_SHARED : TS_SPACE_GLOBAL,
                           .mask = copy->lanes,
                           .bytes = (uint32_t)copy->size_bytes,
                           .work = !copy->is_repeated};
  uint64_t lanes[TS__LANES];
  if (copy->kind == TS__COPY_CLUSTER) event.src_space = TS_SPACE_SHARED;
  if (copy->kind == TS__COPY_CP_ASYNC) {
    event.mask = copy->copy_lanes | copy->zero_lanes;
    event.bytes *= (uint32_t)__builtin_popcount(event.mask);
    event.work = (uint32_t)__builtin_popcount(copy->copy_lanes);
  }
  event.cause = kind == TS_EVENT_LANDED ? copy->cause : ts__event_target(warp, copy->to);
  set_sync(copy, &event);
  if (!to_shared) event.lanes = (uint8_t)copy->reduce;
  struct ts_footprint footprint =
      kind == TS_EVENT_COPY ? issue_footprint(copy) : landed_footprint(copy, lanes);
  TS_TRY(ts__emit(warp, copy->code, event, &footprint));
  if (kind == TS_EVENT_COPY) copy->cause = warp->block->last_event_seq + 1;
  return TS_OK;
}

/* Emits for a group of the warp: ARRIVE closes it, WAIT passes when it and those before it are
 * complete, UINT32_MAX none. */
static enum ts_status emit_group(struct ts__warp *warp, const struct ts__code *code,
                                 enum ts_event_kind kind, enum ts__async_groups groups,
                                 uint32_t group, uint64_t allowed) {
  if (!ts__listening(warp->block)) return TS_OK;
  struct ts_event event = {.kind = (uint8_t)kind,
                           .src_space = 0xff,
                           .dst_space = 0xff,
                           .sync_kind = groups == TS__GROUPS_BULK ? TS_SYNC_BULK_GROUP
                                                                  : TS_SYNC_CP_ASYNC_GROUP,
                           .sync_object = group,
                           .work = (uint32_t)allowed};
  if (kind == TS_EVENT_WAIT && attribute(warp, code, TS_ATTR_read, 0))
    event.src_space = TS_SPACE_SHARED;
  return ts__emit(warp, code, event, NULL);
}

static enum ts__step close_group(struct ts__warp *warp, const struct ts__code *code,
                                 enum ts__async_groups groups) {
  uint32_t group = ts__groups_closed(warp, groups, ts__first_lane(warp->active));
  ts__groups_close(warp, groups);
  return step_of(warp, emit_group(warp, code, TS_EVENT_ARRIVE, groups, group, 0));
}

/* --- cp.async */

/* Checks the lanes' destinations and sources; lanes that may not write are dropped. */
static void check_lanes(struct ts__warp *warp, const struct ts__code *code, struct ts__copy *copy,
                        const uint64_t shared[TS__LANES]) {
  uint64_t size = copy->size_bytes;
  for (uint32_t lanes = copy->copy_lanes | copy->zero_lanes; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes), bit = lanes & (0 - lanes);
    uint64_t source = copy->lane_global[lane];
    bool copies = (copy->copy_lanes & bit) != 0;
    bool writes = ts__shared_writable(warp, code, lane, shared[lane], size);
    if (writes && (shared[lane] % size || (copies && source % size))) {
      ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
                 "cp.async of %llu bytes from 0x%llx to shared 0x%llx is not aligned to its size",
                 (unsigned long long)size, (unsigned long long)source,
                 (unsigned long long)shared[lane]);
    }
    if (writes && copies && !ts_device_pointer(warp->program->memory, source, size)) {
      const struct ts_allocation *allocation = ts_device_find(warp->program->memory, source);
      ts__hazard(warp, code, TS_DIAG_BOUNDS_GLOBAL, lane, TS_NONE, NULL,
                 "cp.async reads %llu bytes at offset %lld of %s, which has %llu bytes",
                 (unsigned long long)size, (long long)ts_device_offset(source),
                 allocation ? allocation->name : "no allocation",
                 allocation ? (unsigned long long)allocation->size_bytes : 0);
      copy->copy_lanes &= ~bit;
      copy->zero_lanes |= bit;
    }
    if (!writes) {
      copy->copy_lanes &= ~bit;
      copy->zero_lanes &= ~bit;
    }
  }
}

/* One record for the destinations of all lanes: runs of neighbouring lanes are its pieces. */
static uint32_t open_lanes(struct ts__warp *warp, const struct ts__copy *copy) {
  struct ts_shared_memory *shared = &warp->block->shared;
  struct ts_pending record = {.kind = TS_PENDING_CP_ASYNC,
                              .insn = copy->code->insn,
                              .warp = warp->index,
                              .sync_address = UINT32_MAX};
  uint32_t lanes = copy->copy_lanes | copy->zero_lanes;
  uint32_t number = ts_pending_open(shared, record);
  if (!lanes || number == TS_PENDING_NONE) return number;
  uint64_t begin = copy->lane_shared[ts__first_lane(lanes)], end = begin;
  for (; lanes; lanes &= lanes - 1) {
    uint64_t address = copy->lane_shared[ts__first_lane(lanes)];
    if (address != end) {
      ts_pending_extend(shared, number, begin, end);
      begin = address;
    }
    end = address + copy->size_bytes;
  }
  ts_pending_extend(shared, number, begin, end);
  return number;
}

/* The lanes whose open group has one number are one copy. */
static enum ts__step issue_lanes(struct ts__warp *warp, const struct ts__code *code, uint32_t lanes,
                                 uint32_t valid, const uint64_t shared[TS__LANES],
                                 const uint64_t global[TS__LANES]) {
  struct ts__copy *copy = ts__copy_new(warp, code, TS__COPY_CP_ASYNC);
  if (!copy) return ts__fault_memory(warp);
  copy->lanes = lanes;
  copy->group = ts__groups_closed(warp, TS__GROUPS_CP_ASYNC, ts__first_lane(lanes));
  copy->size_bytes = (uint64_t)attribute(warp, code, TS_ATTR_bytes, 16);
  copy->copy_lanes = lanes & valid;
  copy->zero_lanes = lanes & ~valid;
  memcpy(copy->lane_global, global, sizeof copy->lane_global);
  if (!code->is_quiet) check_lanes(warp, code, copy, shared);
  for (uint32_t lane = 0; lane < TS__LANES; lane++) {
    copy->lane_shared[lane] = (uint32_t)shared[lane];
    if (!(copy->copy_lanes >> lane & 1)) copy->lane_global[lane] = 0;
  }
  if (warp->block->status != TS_OK) return TS__STEP_FAULT;
  if (!code->is_quiet) {
    copy->record = open_lanes(warp, copy);
    if (copy->record == TS_PENDING_NONE) return ts__fault_memory(warp);
  }
  if (emit_copy(warp, copy, TS_EVENT_COPY) != TS_OK) return TS__STEP_FAULT;
  return step_of(warp, ts__copy_issue(warp, copy));
}

enum ts__step ts__exec_cp_async(struct ts__warp *warp, const struct ts__code *code) {
  uint64_t shared[TS__LANES], global[TS__LANES], predicate[TS__LANES];
  ts__address_lanes(warp, code, &code->operands[0], &code->operands[1],
                    attribute(warp, code, TS_ATTR_scale2, 1),
                    attribute(warp, code, TS_ATTR_offset2, 0), shared);
  ts__address_lanes(warp, code, &code->operands[2], &code->operands[3], code->scale, code->offset,
                    global);
  ts__operand_lanes64(warp, &code->operands[4], predicate);
  uint32_t valid = 0, remaining = warp->active;
  int64_t size = attribute(warp, code, TS_ATTR_bytes, 16);
  if (size != 4 && size != 8 && size != 16) {
    stop(warp, code, "cp.async copies 4, 8 or 16 bytes");
    return TS__STEP_FAULT;
  }
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    valid |= (uint32_t)(predicate[lane] != 0) << lane;
  while (remaining) {
    uint32_t lanes = ts__groups_alike(warp, TS__GROUPS_CP_ASYNC, remaining);
    remaining &= ~lanes;
    enum ts__step step = issue_lanes(warp, code, lanes, valid, shared, global);
    if (step != TS__STEP_NEXT) return step;
  }
  return TS__STEP_NEXT;
}

static void deliver_lanes(struct ts__block *block, const struct ts__copy *copy) {
  uint8_t *data = block->shared.data;
  for (uint32_t lanes = copy->copy_lanes; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    const uint8_t *source =
        ts_device_pointer(block->program->memory, copy->lane_global[lane], copy->size_bytes);
    memcpy(data + copy->lane_shared[lane], source, copy->size_bytes);
  }
  for (uint32_t lanes = copy->zero_lanes; lanes; lanes &= lanes - 1)
    memset(data + copy->lane_shared[ts__first_lane(lanes)], 0, copy->size_bytes);
  block->shared.version++;
}

enum ts__step ts__exec_cp_async_commit(struct ts__warp *warp, const struct ts__code *code) {
  return close_group(warp, code, TS__GROUPS_CP_ASYNC);
}

static enum ts__step wait_groups(struct ts__warp *warp, const struct ts__code *code,
                                 enum ts__async_groups groups) {
  uint64_t allowed[TS__LANES];
  ts__operand_lanes64(warp, &code->operands[0], allowed);
  uint32_t lane = ts__first_lane(warp->active);
  uint32_t closed = ts__groups_closed(warp, groups, lane);
  uint32_t group = closed > allowed[lane] ? closed - (uint32_t)allowed[lane] - 1 : UINT32_MAX;
  enum ts_status status = ts__groups_wait(warp, groups, allowed);
  if (status == TS_OK) status = emit_group(warp, code, TS_EVENT_WAIT, groups, group, allowed[lane]);
  return step_of(warp, status);
}

enum ts__step ts__exec_cp_async_wait(struct ts__warp *warp, const struct ts__code *code) {
  return wait_groups(warp, code, TS__GROUPS_CP_ASYNC);
}

/* Events of the arrivals, which come when the copies have landed. */
static enum ts_status emit_arrivals(struct ts__warp *warp, const struct ts__code *code) {
  uint64_t addresses[TS__LANES];
  if (!ts__listening(warp->block)) return TS_OK;
  ts__operand_lanes64(warp, &code->operands[0], addresses);
  for (uint32_t remaining = warp->active; remaining;) {
    uint64_t address = addresses[ts__first_lane(remaining)];
    uint32_t arrivals = 0;
    for (uint32_t lanes = remaining; lanes; lanes &= lanes - 1) {
      if (addresses[ts__first_lane(lanes)] != address) continue;
      arrivals++;
      remaining &= ~(lanes & (0 - lanes));
    }
    const struct ts__mbarrier *mbarrier = ts__mbarrier_find(warp->block, (uint32_t)address);
    if (!mbarrier) continue;
    TS_TRY(ts__mbarrier_emit_arrivals(warp, code, warp->block, mbarrier, arrivals, 0));
  }
  return TS_OK;
}

/* Each lane arrives when its earlier cp.async are complete. Without noinc the arrival is counted
 * on top of the expected ones. */
enum ts__step ts__exec_cp_async_mbarrier(struct ts__warp *warp, const struct ts__code *code) {
  bool noinc = attribute(warp, code, TS_ATTR_noinc, 0) != 0;
  if (emit_arrivals(warp, code) != TS_OK) return TS__STEP_FAULT;
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint64_t address = ts__operand_lane(warp, &code->operands[0], lane);
    struct ts__mbarrier *mbarrier = ts__mbarrier_require(warp, code, lane, address);
    if (!mbarrier) return ts__after_checks(warp);
    if (!noinc) mbarrier->pending++;
    if (warp->block->check)
      ts__check_mbarrier_arrive(warp, code, lane, mbarrier->address, mbarrier->phase);
    struct ts__copy *copy = ts__copy_new(warp, code, TS__COPY_CP_ARRIVE);
    if (!copy) return ts__fault_memory(warp);
    copy->lanes = 1u << lane;
    copy->mbarrier = (uint32_t)address;
    enum ts_status status = ts__copy_issue(warp, copy);
    if (status != TS_OK) return TS__STEP_FAULT;
  }
  return TS__STEP_NEXT;
}

/* --- TMA and bulk copies */

/* The tensor map of operand 0, or NULL after a report. */
static const struct ts_tensormap *tensormap(struct ts__warp *warp, const struct ts__code *code) {
  const struct ts_launch *launch = warp->program->launch;
  const struct ts_launch_plan *plan = warp->program->plan;
  uint32_t param = code->operands[0].offset;
  if (param < launch->arg_count && launch->args[param].kind == TS_LAUNCH_ARG_TENSORMAP &&
      launch->args[param].value < plan->tensormap_count) {
    const struct ts_tensormap *map = &plan->tensormaps[launch->args[param].value];
    if (ts__box_bytes(map)) return map;
  }
  stop(warp, code, "the tensor map of this copy has a form that is not executed");
  return NULL;
}

/* Alignment, bounds and races of a contiguous shared range; false: the copy is left out. */
static bool check_range(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                        const struct ts__copy *copy, uint64_t address, uint64_t align_bytes) {
  char where[128];
  if (code->is_quiet) return true;
  if (address % align_bytes) {
    ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
               "%s is not aligned to %llu bytes, as this copy needs",
               ts__shared_text(warp->block, address, where, sizeof where),
               (unsigned long long)align_bytes);
    return false;
  }
  /* A swizzle moves chunks anywhere in their 128 bytes. */
  uint64_t size = copy->size_bytes;
  if (align_bytes == TENSOR_ALIGN_BYTES && copy->box.map->swizzle) size = (size + 127) / 128 * 128;
  return moves_to_shared(copy->kind)
             ? ts__remote_writable(warp, code, lane, copy->to, address, size)
             : ts__shared_readable(warp, code, lane, address, size);
}

/* Whether the copy's reduction exists; reports otherwise. */
static bool can_reduce(struct ts__warp *warp, const struct ts__code *code, enum ts_ir_reduce reduce,
                       enum ts_dtype dtype) {
  if (reduce == TS_IR_REDUCE_none || ts__reduce_packed(reduce, dtype, NULL, NULL, 0)) return true;
  stop(warp, code, "a reduction that is not defined for the type of its elements");
  return false;
}

/* Opens the record of the range and queues the copy. */
static enum ts__step issue_range(struct ts__warp *warp, struct ts__copy *copy, uint64_t address) {
  struct ts__block *block = warp->block;
  bool to_shared = moves_to_shared(copy->kind);
  struct ts_pending record = {.kind = to_shared ? TS_PENDING_TMA_LOAD : TS_PENDING_STORE_SOURCE,
                              .insn = copy->code->insn,
                              .warp = warp->index,
                              .begin = address,
                              .end = address + copy->size_bytes,
                              .sync_address = to_shared ? copy->mbarrier : UINT32_MAX};
  if (!copy->code->is_quiet) {
    copy->record = ts_pending_open(&copy->to->shared, record);
    if (copy->record == TS_PENDING_NONE) return ts__fault_memory(warp);
  }
  block->stats->tma_box_count++;
  block->stats->tma_bytes += copy->size_bytes;
  if (emit_copy(warp, copy, TS_EVENT_COPY) != TS_OK) return TS__STEP_FAULT;
  return step_of(warp, ts__copy_issue(warp, copy));
}

/* Fills the coordinates (and im2col offsets) of a lane from operand `first` on. */
static enum ts_status fill_box(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                               uint32_t first, struct ts__box *box) {
  uint32_t rank = box->map->rank, offsets = box->map->is_im2col ? rank - 2 : 0;
  bool is_matrix = rank == 2 && !box->map->is_im2col && box->map->box[1] == 1;
  if (box->is_gather && !is_matrix)
    return stop(warp, code, "gathered rows need the tensor map of a matrix with boxes of one row");
  if (box->is_gather) rank = 1 + TS__GATHERED_ROWS;
  if (offsets > 2 || code->operand_count != first + rank + offsets)
    return stop(warp, code, "the copy has another number of coordinates than its tensor map");
  for (uint32_t i = 0; i < rank; i++)
    box->coordinate[i] = (int32_t)ts__operand_lane(warp, &code->operands[first + i], lane);
  for (uint32_t i = 0; i < offsets; i++)
    box->offset[i] = (uint32_t)ts__operand_lane(warp, &code->operands[first + rank + i], lane);
  return TS_OK;
}

/* Where a load goes. */
struct target {
  struct ts__block *block;
  bool is_repeated; /* not the first block of a multicast */
};

static void set_target(const struct ts__warp *warp, struct ts__copy *copy, struct target target) {
  copy->to = target.block;
  copy->is_remote = target.block != warp->block;
  copy->is_repeated = target.is_repeated;
}

/* Another block's mbarrier may be initialised later (ts__copy_is_awaited). */
static bool has_mbarrier(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                         const struct ts__copy *copy) {
  return copy->is_remote || ts__mbarrier_require(warp, code, lane, copy->mbarrier);
}

/* One lane's tensor load: operands map, shared address, mbarrier, then coordinates from `first`. */
static enum ts__step load_box(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                              uint32_t first, struct target target) {
  const struct ts_tensormap *map = tensormap(warp, code);
  if (!map) return TS__STEP_FAULT;
  struct ts__copy *copy = ts__copy_new(warp, code, TS__COPY_TMA_LOAD);
  if (!copy) return ts__fault_memory(warp);
  uint64_t address = ts__operand_lane(warp, &code->operands[1], lane);
  uint64_t mbarrier = ts__operand_lane(warp, &code->operands[2], lane);
  copy->lanes = 1u << lane;
  bool is_gather = attribute(warp, code, TS_ATTR_gather, 0) != 0;
  copy->size_bytes = ts__box_bytes(map) * (is_gather ? TS__GATHERED_ROWS : 1);
  copy->mbarrier = (uint32_t)mbarrier;
  copy->box = (struct ts__box){.map = map, .shared_address = address, .is_gather = is_gather};
  set_target(warp, copy, target);
  if (fill_box(warp, code, lane, first, &copy->box) != TS_OK) return TS__STEP_FAULT;
  if (!has_mbarrier(warp, code, lane, copy) ||
      !check_range(warp, code, lane, copy, address, TENSOR_ALIGN_BYTES))
    return ts__after_checks(warp);
  return issue_range(warp, copy, address);
}

static enum ts__step load_boxes(struct ts__warp *warp, const struct ts__code *code,
                                uint32_t first) {
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    struct target target = {.block = warp->block};
    enum ts__step step = load_box(warp, code, ts__first_lane(lanes), first, target);
    if (step != TS__STEP_NEXT) return step;
  }
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_tma_load(struct ts__warp *warp, const struct ts__code *code) {
  return load_boxes(warp, code, 3);
}

enum ts__step ts__exec_tma_load_im2col(struct ts__warp *warp, const struct ts__code *code) {
  return load_boxes(warp, code, 3);
}

/* Calls load for each block of each lane's mask (operand `mask`). */
static enum ts__step multicast(struct ts__warp *warp, const struct ts__code *code, uint32_t mask,
                               enum ts__step (*load)(struct ts__warp *, const struct ts__code *,
                                                     uint32_t lane, struct target)) {
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    uint32_t ranks = (uint32_t)ts__operand_lane(warp, &code->operands[mask], lane) & 0xffff;
    struct target target = {.is_repeated = false};
    for (; ranks; ranks &= ranks - 1) {
      target.block = ts__cluster_block(warp, code, lane, ts__first_lane(ranks));
      enum ts__step step = target.block ? load(warp, code, lane, target) : ts__after_checks(warp);
      if (step != TS__STEP_NEXT) return step;
      target.is_repeated = true;
    }
  }
  return TS__STEP_NEXT;
}

static enum ts__step load_box_multicast(struct ts__warp *warp, const struct ts__code *code,
                                        uint32_t lane, struct target target) {
  return load_box(warp, code, lane, 4, target);
}

enum ts__step ts__exec_tma_load_multicast(struct ts__warp *warp, const struct ts__code *code) {
  return multicast(warp, code, 3, load_box_multicast);
}

static enum ts__step store_box(struct ts__warp *warp, const struct ts__code *code, uint32_t lane) {
  const struct ts_tensormap *map = tensormap(warp, code);
  if (!map) return TS__STEP_FAULT;
  struct ts__copy *copy = ts__copy_new(warp, code, TS__COPY_TMA_STORE);
  if (!copy) return ts__fault_memory(warp);
  uint64_t address = ts__operand_lane(warp, &code->operands[1], lane);
  copy->lanes = 1u << lane;
  copy->group = ts__groups_closed(warp, TS__GROUPS_BULK, lane);
  bool is_gather = attribute(warp, code, TS_ATTR_gather, 0) != 0;
  copy->size_bytes = ts__box_bytes(map) * (is_gather ? TS__GATHERED_ROWS : 1);
  copy->reduce = (enum ts_ir_reduce)attribute(warp, code, TS_ATTR_reduce, TS_IR_REDUCE_none);
  copy->box = (struct ts__box){.map = map, .shared_address = address, .is_gather = is_gather};
  if (fill_box(warp, code, lane, 2, &copy->box) != TS_OK ||
      !can_reduce(warp, code, copy->reduce, ts__box_dtype(map)))
    return TS__STEP_FAULT;
  if (!check_range(warp, code, lane, copy, address, TENSOR_ALIGN_BYTES))
    return ts__after_checks(warp);
  return issue_range(warp, copy, address);
}

enum ts__step ts__exec_tma_store(struct ts__warp *warp, const struct ts__code *code) {
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    enum ts__step step = store_box(warp, code, ts__first_lane(lanes));
    if (step != TS__STEP_NEXT) return step;
  }
  return TS__STEP_NEXT;
}

/* One lane's bulk copy; the operands are destination, source, bytes and, for loads, mbarrier. */
static enum ts__step copy_bulk(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                               enum ts__copy_kind kind, struct target target) {
  bool is_load = kind == TS__COPY_BULK_LOAD;
  struct ts__copy *copy = ts__copy_new(warp, code, kind);
  if (!copy) return ts__fault_memory(warp);
  copy->lanes = 1u << lane;
  copy->group = ts__groups_closed(warp, TS__GROUPS_BULK, lane);
  copy->shared = ts__operand_lane(warp, &code->operands[is_load ? 0 : 1], lane);
  copy->global = ts__operand_lane(warp, &code->operands[is_load ? 1 : 0], lane);
  copy->size_bytes = ts__operand_lane(warp, &code->operands[2], lane);
  copy->reduce = (enum ts_ir_reduce)attribute(warp, code, TS_ATTR_reduce, TS_IR_REDUCE_none);
  copy->elem = (enum ts_dtype)attribute(warp, code, TS_ATTR_elem, code->dtype);
  if (!can_reduce(warp, code, copy->reduce, copy->elem)) return TS__STEP_FAULT;
  if (copy->size_bytes % BULK_ALIGN_BYTES || copy->global % BULK_ALIGN_BYTES)
    ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
               "a bulk copy of %llu bytes at global offset %lld: both must be multiples of 16",
               (unsigned long long)copy->size_bytes, (long long)ts_device_offset(copy->global));
  if (is_load) {
    uint64_t mbarrier = ts__operand_lane(warp, &code->operands[3], lane);
    copy->mbarrier = (uint32_t)mbarrier;
    set_target(warp, copy, target);
    if (!has_mbarrier(warp, code, lane, copy)) return ts__after_checks(warp);
  }
  if (!check_range(warp, code, lane, copy, copy->shared, BULK_ALIGN_BYTES))
    return ts__after_checks(warp);
  return issue_range(warp, copy, copy->shared);
}

static enum ts__step copies_bulk(struct ts__warp *warp, const struct ts__code *code,
                                 enum ts__copy_kind kind) {
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    struct target target = {.block = warp->block};
    enum ts__step step = copy_bulk(warp, code, ts__first_lane(lanes), kind, target);
    if (step != TS__STEP_NEXT) return step;
  }
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_bulk_load(struct ts__warp *warp, const struct ts__code *code) {
  return copies_bulk(warp, code, TS__COPY_BULK_LOAD);
}

enum ts__step ts__exec_bulk_store(struct ts__warp *warp, const struct ts__code *code) {
  return copies_bulk(warp, code, TS__COPY_BULK_STORE);
}

static enum ts__step load_bulk_multicast(struct ts__warp *warp, const struct ts__code *code,
                                         uint32_t lane, struct target target) {
  return copy_bulk(warp, code, lane, TS__COPY_BULK_LOAD, target);
}

enum ts__step ts__exec_bulk_load_multicast(struct ts__warp *warp, const struct ts__code *code) {
  return multicast(warp, code, 4, load_bulk_multicast);
}

/* One lane's copy to a block of the cluster. */
static enum ts__step copy_cluster(struct ts__warp *warp, const struct ts__code *code,
                                  uint32_t lane) {
  uint64_t operands[5];
  for (uint32_t i = 0; i < 5; i++)
    operands[i] = ts__operand_lane(warp, &code->operands[i], lane);
  struct target target = {.block = ts__cluster_block(warp, code, lane, operands[4])};
  if (!target.block) return ts__after_checks(warp);
  struct ts__copy *copy = ts__copy_new(warp, code, TS__COPY_CLUSTER);
  if (!copy) return ts__fault_memory(warp);
  copy->lanes = 1u << lane;
  copy->shared = operands[0];
  copy->source = operands[1];
  copy->size_bytes = operands[2];
  copy->mbarrier = (uint32_t)operands[3];
  set_target(warp, copy, target);
  if (attribute(warp, code, TS_ATTR_expect, 0)) {
    enum ts__step step = ts__mbarrier_arrive_from(warp, code, lane, target.block, operands[3],
                                                  copy->size_bytes, true);
    if (step != TS__STEP_NEXT) return step;
  }
  if (copy->size_bytes % BULK_ALIGN_BYTES || copy->source % BULK_ALIGN_BYTES)
    ts__hazard(warp, code, TS_DIAG_MISALIGNED, lane, TS_NONE, NULL,
               "a bulk copy of %llu bytes from shared 0x%llx: both must be multiples of 16",
               (unsigned long long)copy->size_bytes, (unsigned long long)copy->source);
  bool may_read =
      code->is_quiet || ts__shared_readable(warp, code, lane, copy->source, copy->size_bytes);
  if (!may_read || !check_range(warp, code, lane, copy, copy->shared, BULK_ALIGN_BYTES))
    return ts__after_checks(warp);
  return issue_range(warp, copy, copy->shared);
}

enum ts__step ts__exec_bulk_cluster(struct ts__warp *warp, const struct ts__code *code) {
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1) {
    enum ts__step step = copy_cluster(warp, code, ts__first_lane(lanes));
    if (step != TS__STEP_NEXT) return step;
  }
  return TS__STEP_NEXT;
}

enum ts__step ts__exec_bulk_commit(struct ts__warp *warp, const struct ts__code *code) {
  return close_group(warp, code, TS__GROUPS_BULK);
}

enum ts__step ts__exec_bulk_wait(struct ts__warp *warp, const struct ts__code *code) {
  return wait_groups(warp, code, TS__GROUPS_BULK);
}

enum ts__step ts__exec_prefetch_tensormap(struct ts__warp *warp, const struct ts__code *code) {
  (void)warp;
  (void)code;
  return TS__STEP_NEXT;
}

/* --- delivery */

static void report_bounds(struct ts__warp *warp, const struct ts__copy *copy, uint64_t address,
                          const char *what) {
  const struct ts_allocation *allocation = ts_device_find(warp->program->memory, address);
  ts__hazard(warp, copy->code, TS_DIAG_BOUNDS_GLOBAL, ts__first_lane(copy->lanes), TS_NONE, NULL,
             "%s leaves %s, which has %llu bytes", what,
             allocation ? allocation->name : "every allocation",
             allocation ? (unsigned long long)allocation->size_bytes : 0);
}

static void deliver_box(struct ts__warp *warp, const struct ts__copy *copy) {
  struct ts__block *block = warp->block;
  const struct ts_device_memory *memory = block->program->memory;
  enum ts__box_fault fault = copy->kind == TS__COPY_TMA_LOAD
                                 ? ts__box_load(memory, &copy->to->shared, &copy->box)
                                 : ts__box_store(memory, &block->shared, &copy->box, copy->reduce);
  if (fault == TS__BOX_OUTSIDE)
    report_bounds(warp, copy, copy->box.map->global_address, "a box of the tensor map");
  if (fault == TS__BOX_NEGATIVE)
    ts__hazard(warp, copy->code, TS_DIAG_DEVICE_TRAP, ts__first_lane(copy->lanes), TS_NONE,
               "store at coordinates of 0 and more: only the far ends are cut off",
               "a TMA store at a negative coordinate traps");
}

/* Reduces as far as whole elements go, in pieces. */
static void reduce_bytes(const struct ts__copy *copy, uint8_t *dst, const uint8_t *src) {
  uint64_t elem_bytes = ts_dtype_packed_bytes(copy->elem, 1);
  if (elem_bytes == 0) return;
  uint64_t count = copy->size_bytes / elem_bytes;
  for (uint64_t done = 0; done < count; done += TS__REDUCE_MAX) {
    uint64_t step = count - done < TS__REDUCE_MAX ? count - done : TS__REDUCE_MAX;
    ts__reduce_packed(copy->reduce, copy->elem, dst + done * elem_bytes, src + done * elem_bytes,
                      step);
  }
}

static void deliver_bulk(struct ts__warp *warp, const struct ts__copy *copy) {
  struct ts__block *block = warp->block;
  uint8_t *shared = copy->to->shared.data + copy->shared;
  uint8_t *global = ts_device_pointer(block->program->memory, copy->global, copy->size_bytes);
  if (!global) {
    report_bounds(warp, copy, copy->global, "a bulk copy");
  } else if (copy->kind == TS__COPY_BULK_LOAD) {
    memcpy(shared, global, copy->size_bytes);
    copy->to->shared.version++;
  } else if (copy->reduce == TS_IR_REDUCE_none) {
    memcpy(global, shared, copy->size_bytes);
  } else {
    reduce_bytes(copy, global, shared);
  }
}

static void deliver_cluster(const struct ts__warp *warp, const struct ts__copy *copy) {
  memmove(copy->to->shared.data + copy->shared, warp->block->shared.data + copy->source,
          copy->size_bytes);
  copy->to->shared.version++;
}

static void deliver_arrival(struct ts__warp *warp, const struct ts__copy *copy) {
  const struct ts__mbarrier *mbarrier = ts__mbarrier_find(warp->block, copy->mbarrier);
  if (!mbarrier) return;
  ts__groups_tell(warp, copy->lanes, copy->ticket, copy->mbarrier, mbarrier->phase);
  ts__mbarrier_arrive(warp->block, copy->mbarrier, 1, (uint64_t)1 << warp->index);
}

static void deliver_bytes(struct ts__warp *warp, const struct ts__copy *copy) {
  switch (copy->kind) {
  case TS__COPY_CP_ARRIVE: break;
  case TS__COPY_CP_ASYNC: deliver_lanes(warp->block, copy); break;
  case TS__COPY_TMA_LOAD:
  case TS__COPY_TMA_STORE: deliver_box(warp, copy); break;
  case TS__COPY_BULK_LOAD:
  case TS__COPY_BULK_STORE: deliver_bulk(warp, copy); break;
  case TS__COPY_CLUSTER: deliver_cluster(warp, copy); break;
  }
}

enum ts_status ts__copy_deliver(struct ts__block *block, struct ts__copy *copy) {
  struct ts__warp *warp = &block->warps[copy->warp];
  if (copy->kind == TS__COPY_CP_ARRIVE) {
    deliver_arrival(warp, copy);
    return block->status;
  }
  if (!copy->code->is_quiet) deliver_bytes(warp, copy);
  TS_TRY(emit_copy(warp, copy, TS_EVENT_LANDED));
  ts_pending_landed(&copy->to->shared, copy->record);
  if (completes_mbarrier(copy->kind)) {
    const struct ts__mbarrier *mbarrier = ts__mbarrier_require_in(
        warp, copy->code, ts__first_lane(copy->lanes), copy->to, copy->mbarrier);
    if (mbarrier)
      ts_pending_set_sync(&copy->to->shared, copy->record, copy->mbarrier, mbarrier->phase);
    ts__mbarrier_complete_tx(copy->to, copy->mbarrier, copy->size_bytes);
  }
  return block->status;
}
