/* The queue of asynchronous operations of a block, and the groups by which lanes wait for them.
 *
 * A copy lives from its issue until it has been delivered and, when it belongs to a group, all its
 * lanes have waited for that group. Waits for groups deliver what they need, so they never block. */
#include "interp/check_priv.h"

#include <string.h>

struct async_state {
  struct {
    uint32_t closed[TS__LANES]; /* groups each lane has closed */
    struct ts__copy *first, **last;
    uint32_t count;
  } groups[TS__GROUPS_COUNT];
};

/* A list longer than this is rid of copies that nobody can conflict with any more. */
enum { PRUNE_COUNT = 256 };

enum ts_status ts__warp_async_init(struct ts__warp *warp) {
  struct async_state *state = ts_new(warp->block->scratch, struct async_state);
  if (!state) return ts_fail_memory(warp->block->ctx);
  for (int i = 0; i < TS__GROUPS_COUNT; i++)
    state->groups[i].last = &state->groups[i].first;
  warp->async = state;
  return TS_OK;
}

struct ts__copy *ts__copy_new(struct ts__warp *warp, const struct ts__code *code,
                              enum ts__copy_kind kind) {
  struct ts__block *block = warp->block;
  struct ts__copy *copy = block->free_copies;
  if (copy)
    block->free_copies = copy->next;
  else
    copy = ts_new(block->scratch, struct ts__copy);
  if (!copy) return NULL;
  copy->next = NULL;
  copy->code = code;
  copy->kind = kind;
  copy->warp = warp->index;
  copy->is_delivered = copy->is_grouped = false;
  copy->record = TS_PENDING_NONE;
  copy->cause = 0;
  copy->to = block;
  copy->is_remote = copy->is_repeated = false;
  return copy;
}

static void release(struct ts__block *block, struct ts__copy *copy) {
  copy->next = block->free_copies;
  block->free_copies = copy;
}

/* --- the queue */

static enum ts_status deliver_copy(struct ts__block *block, struct ts__async *op) {
  struct ts__copy *copy = op->data;
  enum ts_status status = ts__copy_deliver(block, copy);
  copy->is_delivered = true;
  if (!copy->is_grouped) release(block, copy);
  if (status != TS_OK && block->status == TS_OK) block->status = status;
  return status;
}

enum ts_status ts__async_issue(struct ts__block *block, struct ts__async op) {
  if (op.ticket == 0) op.ticket = ++block->next_ticket;
  if (block->program->options->schedule == TS_SCHEDULE_EAGER &&
      (op.is_tensor || ts__copy_is_awaited(op.data)))
    return op.deliver(block, &op);
  if (ts_vec_push(&block->async, block->ctx->allocator, op)) {
    block->status = ts_fail_memory(block->ctx);
    return block->status;
  }
  return TS_OK;
}

enum ts_status ts__async_deliver(struct ts__block *block, size_t index) {
  struct ts__async op = block->async.data[index];
  size_t behind = --block->async.count - index;
  memmove(&block->async.data[index], &block->async.data[index + 1], behind * sizeof op);
  return op.deliver(block, &op);
}

bool ts__async_is_ready(const struct ts__block *block, size_t index) {
  const struct ts__async *op = &block->async.data[index];
  if (!op->is_tensor && !ts__copy_is_awaited(op->data)) return false;
  if (op->after == 0) return true;
  for (size_t i = 0; i < index; i++) {
    const struct ts__async *earlier = &block->async.data[i];
    if (op->after == TS__AFTER_CP_ASYNC) {
      if (earlier->warp == op->warp && earlier->group_kind == TS_SYNC_CP_ASYNC_GROUP) return false;
    } else if (earlier->ticket == op->after) {
      return false;
    }
  }
  return true;
}

enum ts_status ts__async_drain(struct ts__block *block) {
  /* The oldest op is always ready: `after` names earlier ones only. */
  while (block->async.count)
    TS_TRY(ts__async_deliver(block, 0));
  return TS_OK;
}

/* Delivers the op of the ticket if it is still queued. */
static enum ts_status deliver_ticket(struct ts__block *block, uint64_t ticket) {
  for (size_t i = 0; i < block->async.count; i++)
    if (block->async.data[i].ticket == ticket) return ts__async_deliver(block, i);
  return TS_OK;
}

static enum ts__async_groups groups_of(enum ts__copy_kind kind) {
  return kind == TS__COPY_CP_ASYNC ? TS__GROUPS_CP_ASYNC : TS__GROUPS_BULK;
}

/* Drops delivered copies whose records are gone: waiting for them changes nothing. */
static void prune(struct ts__warp *warp, enum ts__async_groups groups) {
  struct async_state *state = warp->async;
  struct ts__copy **link = &state->groups[groups].first;
  while (*link) {
    struct ts__copy *copy = *link;
    if (!copy->is_delivered || ts_pending_is_live(&warp->block->shared, copy->record)) {
      link = &copy->next;
      continue;
    }
    *link = copy->next;
    state->groups[groups].count--;
    release(warp->block, copy);
  }
  state->groups[groups].last = link;
}

enum ts_status ts__copy_issue(struct ts__warp *warp, struct ts__copy *copy) {
  struct async_state *state = warp->async;
  /* A quiet copy has no record that a wait for its group would have to observe. */
  copy->is_grouped = !copy->code->is_quiet &&
                     (copy->kind == TS__COPY_CP_ASYNC || copy->kind == TS__COPY_TMA_STORE ||
                      copy->kind == TS__COPY_BULK_STORE);
  copy->ticket = ++warp->block->next_ticket;
  if (warp->block->check) ts__check_copy_issue(warp, copy);
  struct ts__async op = {.deliver = deliver_copy,
                         .ticket = copy->ticket,
                         .warp = warp->index,
                         .insn = copy->code->insn,
                         .record = copy->record,
                         .data = copy};
  if (copy->is_grouped) {
    enum ts__async_groups groups = groups_of(copy->kind);
    *state->groups[groups].last = copy;
    state->groups[groups].last = &copy->next;
    if (++state->groups[groups].count > PRUNE_COUNT) prune(warp, groups);
    op.group = copy->group;
    op.group_kind = groups == TS__GROUPS_CP_ASYNC ? TS_SYNC_CP_ASYNC_GROUP : TS_SYNC_BULK_GROUP;
  }
  if (copy->kind == TS__COPY_CP_ARRIVE) op.after = TS__AFTER_CP_ASYNC;
  return ts__async_issue(warp->block, op);
}

/* --- groups */

uint32_t ts__groups_closed(const struct ts__warp *warp, enum ts__async_groups groups,
                           uint32_t lane) {
  const struct async_state *state = warp->async;
  return state->groups[groups].closed[lane];
}

uint32_t ts__groups_alike(const struct ts__warp *warp, enum ts__async_groups groups,
                          uint32_t lanes) {
  const struct async_state *state = warp->async;
  const uint32_t *closed = state->groups[groups].closed;
  uint32_t group = closed[ts__first_lane(lanes)], alike = 0;
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    alike |= (uint32_t)(closed[lane] == group) << lane;
  return alike & lanes;
}

void ts__groups_close(struct ts__warp *warp, enum ts__async_groups groups) {
  struct async_state *state = warp->async;
  for (uint32_t lanes = warp->active; lanes; lanes &= lanes - 1)
    state->groups[groups].closed[ts__first_lane(lanes)]++;
}

/* Lanes of the copy for which its group is not among the allowed ones. */
static uint32_t due_lanes(const struct ts__warp *warp, enum ts__async_groups groups,
                          const struct ts__copy *copy, const uint64_t allowed[TS__LANES]) {
  const struct async_state *state = warp->async;
  uint32_t due = 0;
  for (uint32_t lanes = copy->lanes & warp->active; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes);
    if (copy->group + allowed[lane] < state->groups[groups].closed[lane]) due |= 1u << lane;
  }
  return due;
}

enum ts_status ts__groups_wait(struct ts__warp *warp, enum ts__async_groups groups,
                               const uint64_t allowed[TS__LANES]) {
  struct ts__block *block = warp->block;
  struct async_state *state = warp->async;
  struct ts__copy **link = &state->groups[groups].first;
  while (*link) {
    struct ts__copy *copy = *link;
    uint32_t due = due_lanes(warp, groups, copy, allowed);
    if (due && !copy->is_delivered) TS_TRY(deliver_ticket(block, copy->ticket));
    copy->lanes &= ~due;
    if (copy->lanes) {
      link = &copy->next;
      continue;
    }
    ts_pending_observe(&block->shared, copy->record, (uint64_t)1 << warp->index);
    if (block->check) ts__check_copy_waited(warp, copy);
    *link = copy->next;
    state->groups[groups].count--;
    release(block, copy);
  }
  state->groups[groups].last = link;
  return TS_OK;
}

void ts__groups_tell(struct ts__warp *warp, uint32_t lanes, uint64_t before_ticket,
                     uint32_t mbarrier, uint64_t phase) {
  struct async_state *state = warp->async;
  for (struct ts__copy *copy = state->groups[TS__GROUPS_CP_ASYNC].first; copy; copy = copy->next)
    if ((copy->lanes & lanes) && copy->ticket < before_ticket)
      ts_pending_set_sync(&warp->block->shared, copy->record, mbarrier, phase);
}
