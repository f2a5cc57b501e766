/* Invariant: a delivery is open, or has pending > 0 cells that name it in owners, or is in the free
 * list. */
#include "mem/use.h"

#include <string.h>

static void *resize(struct ts_use *use, void *data, uint64_t old_bytes, uint64_t new_bytes) {
  return use->allocator->resize(use->allocator->user, data, (size_t)old_bytes, (size_t)new_bytes);
}
static uint64_t owner_bytes(const struct ts_use *use) {
  return use->cell_count * sizeof *use->owners;
}
/* A delivery in use has a cell or is open. */
static uint64_t delivery_bytes(const struct ts_use *use) {
  return (use->cell_count + 2) * sizeof *use->deliveries;
}

enum ts_status ts_use_init(struct ts_ctx *ctx, struct ts_use *use, uint64_t size_bytes,
                           uint32_t granule_bytes) {
  memset(use, 0, sizeof *use);
  use->allocator = ctx->allocator;
  use->granule_shift = (uint32_t)__builtin_ctz(granule_bytes);
  use->cell_count = (size_bytes >> use->granule_shift) + 1;
  use->owners = resize(use, NULL, 0, owner_bytes(use));
  use->deliveries = resize(use, NULL, 0, delivery_bytes(use));
  if (!use->owners || !use->deliveries) {
    ts_use_free(use);
    return ts_fail_memory(ctx);
  }
  memset(use->owners, 0, (size_t)owner_bytes(use));
  return TS_OK;
}

void ts_use_reset(struct ts_use *use, const uint8_t *data) {
  use->data = data;
  memset(use->owners, 0, (size_t)use->touched_end * sizeof *use->owners);
  use->touched_end = 0;
  use->delivery_count = 0;
  use->first_free = use->open = use->finding_count = 0;
}

void ts_use_free(struct ts_use *use) {
  if (use->owners) resize(use, use->owners, owner_bytes(use), 0);
  if (use->deliveries) resize(use, use->deliveries, delivery_bytes(use), 0);
  use->owners = NULL;
  use->deliveries = NULL;
}

/* All cells of the delivery have had their fate. */
static void judge(struct ts_use *use, uint32_t number) {
  struct ts_use_delivery *delivery = &use->deliveries[number];
  bool is_silent = delivery->lost == 0 || delivery->lost * 2 > delivery->cells;
  for (uint32_t i = 0; i < use->finding_count && !is_silent; i++)
    is_silent = use->findings[i].insn == delivery->insn;
  if (!is_silent && use->finding_count < TS_USE_MAX_FINDINGS)
    use->findings[use->finding_count++] =
        (struct ts_use_finding){.insn = delivery->insn,
                                .warp = delivery->warp,
                                .overwritten = delivery->overwritten,
                                .lost_bytes = (uint64_t)delivery->lost << use->granule_shift,
                                .size_bytes = (uint64_t)delivery->cells << use->granule_shift,
                                .first_lost = delivery->first_lost};
  delivery->next_free = use->first_free;
  use->first_free = number;
}

static bool is_zero(const struct ts_use *use, uint64_t cell) {
  const uint8_t *bytes = use->data + (cell << use->granule_shift);
  for (uint32_t i = 0; i < 1u << use->granule_shift; i++)
    if (bytes[i]) return false;
  return true;
}

static void lose(struct ts_use *use, uint32_t number, uint64_t cell, uint32_t insn) {
  struct ts_use_delivery *delivery = &use->deliveries[number];
  uint64_t address = cell << use->granule_shift;
  if (is_zero(use, cell)) {
    delivery->cells--;
    if (--delivery->pending == 0) judge(use, number);
    return;
  }
  if (delivery->lost++ == 0 || address < delivery->first_lost) {
    delivery->first_lost = address;
    delivery->overwritten = insn;
  }
  if (--delivery->pending == 0) judge(use, number);
}

void ts_use_begin(struct ts_use *use, uint32_t insn, uint32_t warp) {
  use->open = use->first_free ? use->first_free : ++use->delivery_count;
  if (use->first_free) use->first_free = use->deliveries[use->open].next_free;
  use->deliveries[use->open] = (struct ts_use_delivery){.insn = insn, .warp = warp};
}

void ts_use_end(struct ts_use *use) {
  uint32_t number = use->open;
  use->open = 0;
  if (number == 0 || use->deliveries[number].pending) return;
  use->deliveries[number].next_free = use->first_free;
  use->first_free = number;
}

static uint64_t end_of(const struct ts_use *use, uint64_t address, uint64_t size_bytes) {
  uint64_t end = (address + size_bytes + (1u << use->granule_shift) - 1) >> use->granule_shift;
  return end < use->cell_count ? end : use->cell_count;
}

void ts_use_put(struct ts_use *use, uint32_t insn, uint64_t address, uint64_t size_bytes) {
  uint64_t end = end_of(use, address, size_bytes);
  uint32_t open = use->open, added = 0;
  for (uint64_t i = address >> use->granule_shift; i < end; i++) {
    uint32_t owner = use->owners[i];
    if (owner && owner == open) continue; /* lanes of one store meet */
    if (owner) lose(use, owner, i, insn);
    use->owners[i] = open;
    added++;
  }
  if (open) {
    use->deliveries[open].cells += added;
    use->deliveries[open].pending += added;
  }
  if (end > use->touched_end) use->touched_end = end;
}

void ts_use_read(struct ts_use *use, uint64_t address, uint64_t size_bytes) {
  uint64_t end = end_of(use, address, size_bytes);
  for (uint64_t i = address >> use->granule_shift; i < end; i++) {
    uint32_t owner = use->owners[i];
    if (owner == 0) continue;
    use->owners[i] = 0;
    if (--use->deliveries[owner].pending == 0) judge(use, owner);
  }
}

void ts_use_finish(struct ts_use *use) {
  for (uint64_t i = 0; i < use->touched_end; i++) {
    uint32_t owner = use->owners[i];
    use->owners[i] = 0;
    if (owner) lose(use, owner, i, TS_USE_NOBODY);
  }
}
