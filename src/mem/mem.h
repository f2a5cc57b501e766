/* Device memory: global allocations and a block's shared window, with the state that makes
 * asynchrony visible: what is still in flight (a *pending* write or a source still being read) and
 * who has waited for it. Values are bytes here; nobody in this module knows instructions or warps
 * beyond their numbers. */
#ifndef TS_MEM_MEM_H
#define TS_MEM_MEM_H

#include "base/diag.h"
#include "ir/type.h"

/* --- global memory
 *
 * A device address is allocation << TS_ADDRESS_SHIFT | (TS_ADDRESS_BIAS + byte offset): arithmetic
 * that leaves an allocation by less than the bias in either direction still names it, so every
 * out-of-bounds access is found and attributed. The bias keeps 1 MiB alignment. */
enum { TS_ADDRESS_SHIFT = 40 };
#define TS_ADDRESS_BIAS ((uint64_t)1 << 38)
#define TS_ADDRESS_OFFSET_MASK (((uint64_t)1 << TS_ADDRESS_SHIFT) - 1)

struct ts_allocation {
  const char *name;
  uint8_t dtype; /* for messages */
  bool
      is_unset; /* an output without contents of its own: reading it is a fault (by who makes it) */
  uint8_t *data; /* 64-byte aligned, 64 readable bytes of red zone on either side; NULL: reserved */
  void *block;   /* what the allocator gave: data and its red zones */
  uint64_t size_bytes;
};

struct ts_device_memory {
  const struct ts_allocator *allocator;
  TS_VEC(struct ts_allocation) allocations; /* [0] is unused: address 0 is null */
};

void ts_device_memory_init(struct ts_device_memory *memory, const struct ts_allocator *allocator);
void ts_device_memory_free(struct ts_device_memory *memory);
/* Contents are 0xA5 bytes. size_bytes may be 0. The name is copied. */
enum ts_status ts_device_allocate(struct ts_ctx *ctx, struct ts_device_memory *memory,
                                  const char *name, enum ts_dtype dtype, uint64_t size_bytes,
                                  uint64_t *address);

/* As ts_device_allocate but without contents: addresses only, until ts_device_back gives it 0xA5
 * bytes. */
enum ts_status ts_device_reserve(struct ts_ctx *ctx, struct ts_device_memory *memory,
                                 const char *name, enum ts_dtype dtype, uint64_t size_bytes,
                                 uint64_t *address);
/* Does nothing for an allocation that has contents, or for an address that names none. */
enum ts_status ts_device_back(struct ts_ctx *ctx, struct ts_device_memory *memory,
                              uint64_t address);

/* The allocation an address names, or NULL (null or wild pointer). */
static inline const struct ts_allocation *ts_device_find(const struct ts_device_memory *memory,
                                                         uint64_t address) {
  uint64_t index = address >> TS_ADDRESS_SHIFT;
  if (index == 0 || index >= memory->allocations.count) return NULL;
  return &memory->allocations.data[index];
}
/* Signed byte offset of an address in its allocation. */
static inline int64_t ts_device_offset(uint64_t address) {
  return (int64_t)(address & TS_ADDRESS_OFFSET_MASK) - (int64_t)TS_ADDRESS_BIAS;
}
/* Host pointer to size_bytes at the address, or NULL when any of them is out of bounds or the
 * allocation is only reserved. */
static inline uint8_t *ts_device_pointer(const struct ts_device_memory *memory, uint64_t address,
                                         uint64_t size_bytes) {
  const struct ts_allocation *allocation = ts_device_find(memory, address);
  if (!allocation || !allocation->data) return NULL;
  int64_t offset = ts_device_offset(address);
  if (offset < 0 || (uint64_t)offset > allocation->size_bytes ||
      size_bytes > allocation->size_bytes - (uint64_t)offset)
    return NULL;
  return allocation->data + offset;
}

/* --- shared memory of one block, with pending state per granule
 *
 * A *record* stands for one asynchronous operation on a range: a destination that is not readable,
 * or a source that must not be overwritten, before a wait. `observed` is the set of warps (bit =
 * warp number in the block, at most 64) that have waited for it, directly or through a barrier
 * after somebody else's wait. A record on which all warps of the block agree is retired. */
enum ts_pending_kind {
  TS_PENDING_CP_ASYNC,     /* destination of cp.async */
  TS_PENDING_TMA_LOAD,     /* destination of a TMA or bulk load */
  TS_PENDING_STORE_SOURCE, /* source of a TMA or bulk store */
  TS_PENDING_WGMMA_SOURCE  /* operand of a wgmma in flight */
};

struct ts_pending {
  enum ts_pending_kind kind;
  bool landed; /* the bytes have moved (they may still be unobserved) */
  bool live;
  uint32_t insn; /* who issued it */
  uint32_t warp;
  uint64_t observed;      /* warps for which it is complete */
  uint64_t begin, end;    /* byte range in the window */
  uint32_t sync_address;  /* address of the mbarrier that tells of it, UINT32_MAX none */
  uint64_t sync_phase;    /* phase count of the mbarrier at which it completes */
  uint32_t granule_count; /* granules that still name this record */
  uint32_t generation;    /* how often the slot has been used: part of the record's number */
  uint32_t next_free;     /* of a dead record: the next dead one, TS_PENDING_NONE at the end */
};

struct ts_shared_memory {
  uint8_t *data; /* size_bytes, then 64 bytes of slack; 1024-byte aligned */
  void *block;   /* what the allocator gave for data */
  uint64_t size_bytes;
  uint32_t granule_shift; /* granules are 1 << granule_shift bytes */
  uint16_t *write_record; /* per granule: record slot + 1 of a pending destination, 0 none */
  uint16_t *read_record;  /* per granule: record slot + 1 of a source in use, 0 none */
  TS_VEC(struct ts_pending) records;
  uint32_t first_free;  /* dead record to use again, TS_PENDING_NONE when there is none */
  uint32_t touched_end; /* granules from here on have had no record since the reset */
  uint32_t live_count;  /* live records: 0 lets every check return at once */
  uint64_t warp_mask;   /* warps of the block */
  uint64_t version;     /* bumped by every write of the bytes: caches of them compare it */
  const struct ts_allocator *allocator;
};

/* granule_bytes: a power of two that every asynchronous copy of the kernel is a multiple of. */
enum ts_status ts_shared_init(struct ts_ctx *ctx, struct ts_shared_memory *shared,
                              const struct ts_allocator *allocator, uint64_t size_bytes,
                              uint32_t granule_bytes, uint32_t warp_count);
/* Back to the state after init (bytes 0xA5, no records), without new memory. */
void ts_shared_reset(struct ts_shared_memory *shared, uint32_t warp_count);
void ts_shared_free(struct ts_shared_memory *shared);

/* Opens a record over [begin, end) (widened to granules; may be empty, see below). Returns its
 * number, or TS_PENDING_NONE when memory is short or too many are open. A granule belongs to one
 * record of a side at most: the newest wins, and a record that has lost its last granule is
 * retired. The functions below do nothing for the number of a retired record. */
#define TS_PENDING_NONE UINT32_MAX
uint32_t ts_pending_open(struct ts_shared_memory *shared, struct ts_pending record);
/* Adds a piece to an open record: strided and swizzled ranges are one record of several pieces.
 * Conflicts with such a record are exact to a granule instead of to a byte. */
void ts_pending_extend(struct ts_shared_memory *shared, uint32_t record, uint64_t begin,
                       uint64_t end);
/* Ends the record whoever has or has not waited for it. */
void ts_pending_retire(struct ts_shared_memory *shared, uint32_t record);
void ts_pending_landed(struct ts_shared_memory *shared, uint32_t record);
/* Says which phase of which mbarrier makes the record visible. */
void ts_pending_set_sync(struct ts_shared_memory *shared, uint32_t record, uint32_t sync_address,
                         uint64_t sync_phase);
bool ts_pending_is_live(const struct ts_shared_memory *shared, uint32_t record);
/* The warps in the mask have waited for the record. Retires it when nobody is left. */
void ts_pending_observe(struct ts_shared_memory *shared, uint32_t record, uint64_t warps);
/* The warps have seen that `phases` phases of the mbarrier are complete: every landed record that
 * one of them tells of is visible to them. */
void ts_pending_observe_sync(struct ts_shared_memory *shared, uint32_t sync_address,
                             uint64_t phases, uint64_t warps);
/* A barrier joined the warps of the mask: what one has observed, all have. */
void ts_pending_join(struct ts_shared_memory *shared, uint64_t warps);
/* from's observations flow to the warps of the mask (mbarrier arrivals seen by a waiter). */
void ts_pending_flow(struct ts_shared_memory *shared, uint64_t from_warps, uint64_t to_warps);

/* Whether any record of a destination that the warp has not waited for reaches into [begin, end):
 * a quick first look before ranges with gaps are checked piece by piece. */
bool ts_pending_may_concern(const struct ts_shared_memory *shared, uint32_t warp, uint64_t begin,
                            uint64_t end);

const struct ts_pending *ts__pending_read_slow(const struct ts_shared_memory *shared, uint32_t warp,
                                               uint64_t address, uint64_t size_bytes);
const struct ts_pending *ts__pending_write_slow(const struct ts_shared_memory *shared,
                                                uint32_t warp, uint64_t address,
                                                uint64_t size_bytes);
/* The record that a read (write) of the range by the warp would race with, or NULL. The range must
 * be inside the window. A write races with destinations and with sources in use. */
static inline const struct ts_pending *ts_pending_check_read(const struct ts_shared_memory *shared,
                                                             uint32_t warp, uint64_t address,
                                                             uint64_t size_bytes) {
  return shared->live_count ? ts__pending_read_slow(shared, warp, address, size_bytes) : NULL;
}
static inline const struct ts_pending *ts_pending_check_write(const struct ts_shared_memory *shared,
                                                              uint32_t warp, uint64_t address,
                                                              uint64_t size_bytes) {
  return shared->live_count ? ts__pending_write_slow(shared, warp, address, size_bytes) : NULL;
}

#endif
