/* Who has seen whose accesses: happens-before by vector clocks, and shadow cells that remember the
 * last accesses to memory, so that two accesses which nothing orders are found whatever order they
 * ran in.
 *
 * Owner: one struct ts_race per running block (shared memory) and one struct ts_global_race per
 * allocation and launch. A warp's own clock counts its releases; an access is stamped with it.
 * clock[w][v] is the newest stamp of v that is ordered before what w does now. visible[w][v] is the
 * same for the asynchronous proxy: stamps of v's generic accesses that a fence.proxy.async has made
 * visible to asynchronous operations ordered after it. fenced[w][v] is the same for relaxed
 * atomics: what a fence before them has made part of what they tell.
 *
 * Warps of other blocks are followed when race->order is set: far[w] is what w knows of them
 * (order.h), far_fenced[w] what a fence has covered, far_read[w] what relaxed reads have brought
 * and the next fence will make known.
 *
 * Cells are `granule` bytes, a power of two that no access of the kernel is smaller than, so that a
 * cell is always accessed as a whole. Lanes of one warp are told apart only where one reads what
 * another has stored.
 * Whether an asynchronous write has been waited for is not told here but by its pending record
 * (mem.h). */
#ifndef TS_MEM_RACE_H
#define TS_MEM_RACE_H

#include "mem/order.h"

enum { TS_RACE_MAX_WARPS = 64, TS_RACE_MAX_PEERS = 16 };

struct ts_race_cell {
  uint32_t write_stamp, write_insn; /* stamp 0: none */
  uint32_t read_insn;               /* of the newest read */
  uint8_t write_warp;
  uint8_t write_peer;  /* 0: a warp of the block; else 1 + rank of the other block in the cluster */
  uint8_t write_lane;  /* 1 + the lane that has stored it; 0 unknown */
  bool is_async;       /* written by the asynchronous proxy */
  bool is_fenced;      /* visible to the asynchronous proxy without a fence */
  bool is_atomic;      /* written by an atomic */
  bool is_initialised; /* somebody has written it */
};

/* The newest read of a cell by a warp of another block. */
struct ts_peer_read {
  uint32_t agent, stamp, insn;
};

/* Which barriers of the whole block order anything, when asked for: first_barrier[w].data[s] is 1 +
 * the instruction of the first one after w's accesses with stamp s. Each pair of accesses that must
 * not change places is put down to that barrier, so that the others may go. */
struct ts_barrier_log {
  TS_VEC(uint32_t) first_barrier[TS_RACE_MAX_WARPS];
  uint8_t *is_needed; /* [instruction]; not owned */
};

struct ts_race {
  uint32_t warp_count, granule_shift;
  uint64_t cell_count, touched_end; /* cells from touched_end on are as after the reset */
  struct ts_race_cell *cells;
  uint32_t *read_stamps;           /* [cell][warp] */
  struct ts_peer_read *peer_reads; /* [cell]; NULL: other blocks never read here */
  uint32_t clock[TS_RACE_MAX_WARPS][TS_RACE_MAX_WARPS];
  uint32_t visible[TS_RACE_MAX_WARPS][TS_RACE_MAX_WARPS];
  uint32_t fenced[TS_RACE_MAX_WARPS][TS_RACE_MAX_WARPS];
  struct ts_barrier_log *log;              /* NULL: not asked for */
  struct ts_order *order;                  /* NULL: other blocks are not followed */
  uint32_t first_agent;                    /* block * warp_count */
  uint32_t peer_agents[TS_RACE_MAX_PEERS]; /* the same of the blocks of the cluster, by rank */
  const struct ts_far *far[TS_RACE_MAX_WARPS], *far_fenced[TS_RACE_MAX_WARPS],
      *far_read[TS_RACE_MAX_WARPS];
  const struct ts_allocator *allocator;
};

enum ts_conflict_kind {
  TS_CONFLICT_NONE,
  TS_CONFLICT_READ_AFTER_WRITE,
  TS_CONFLICT_WRITE_AFTER_WRITE,
  TS_CONFLICT_WRITE_AFTER_READ,
  TS_CONFLICT_PROXY /* generic write, then asynchronous read without a proxy fence */
};
struct ts_conflict {
  enum ts_conflict_kind kind;
  uint32_t other_warp, other_insn;
  uint32_t other_block;
  uint64_t address; /* of the first cell concerned */
  bool is_own;      /* a read of what lanes of the same warp have stored with its present stamp */
};

/* Who accesses, and how. */
struct ts_accessor {
  uint32_t warp, insn;
  bool is_async;  /* the asynchronous proxy, with the order that the warp has at the issue */
  bool is_atomic; /* an update that other atomics may interleave with */
  bool is_fenced; /* its writes need no proxy fence */
};

/* Cells for [0, size_bytes); granule_bytes is 1 to 16. */
enum ts_status ts_race_init(struct ts_ctx *ctx, struct ts_race *race, uint64_t size_bytes,
                            uint32_t granule_bytes, uint32_t warp_count);
/* For the next block, whose number it is; a cluster's peers are the owner's to fill in. */
void ts_race_reset(struct ts_race *race, uint32_t block);
/* Makes room for reads by other blocks. */
enum ts_status ts_race_init_peers(struct ts_ctx *ctx, struct ts_race *race);
void ts_race_free(struct ts_race *race);

/* The first conflict that a read or write would have; a write or a noted read is recorded. The
 * range must be inside of the window. */
struct ts_conflict ts_race_check_read(const struct ts_race *race, struct ts_accessor who,
                                      uint64_t address, uint64_t size_bytes);
void ts_race_note_read(struct ts_race *race, struct ts_accessor who, uint64_t address,
                       uint64_t size_bytes);
struct ts_conflict ts_race_read(struct ts_race *race, struct ts_accessor who, uint64_t address,
                                uint64_t size_bytes);
struct ts_conflict ts_race_write(struct ts_race *race, struct ts_accessor who, uint64_t address,
                                 uint64_t size_bytes);
/* The lanes of a warp have met: what they stored before is known to all of them. */
void ts_race_meet(struct ts_race *race, uint32_t warp);
/* A store just recorded is the lane's. */
void ts_race_set_lane(struct ts_race *race, uint32_t lane, uint64_t address, uint64_t size_bytes);
/* Another lane of the warp that has stored into the range since they last met; UINT32_MAX none. Its
 * instruction is put in *insn. */
uint32_t ts_race_unmet_lane(const struct ts_race *race, uint32_t warp, uint32_t lane,
                            uint64_t address, uint64_t size_bytes, uint32_t *insn);
bool ts_race_is_initialised(const struct ts_race *race, uint64_t address, uint64_t size_bytes);
/* A write of values that were never set leaves its cells uninitialised. */
void ts_race_set_initialised(struct ts_race *race, uint64_t address, uint64_t size_bytes,
                             bool is_initialised);

/* --- order */
struct ts_clock {
  uint32_t clock[TS_RACE_MAX_WARPS], visible[TS_RACE_MAX_WARPS], fenced[TS_RACE_MAX_WARPS];
  const struct ts_far *far, *far_fenced;
};
/* Adds what the warp has done and seen to the clock and starts a new stamp: an arrival. */
void ts_race_release(struct ts_race *race, uint32_t warp, struct ts_clock *clock);
/* The warp arrives at a barrier of the whole block: before its release. */
void ts_race_log_barrier(struct ts_race *race, uint32_t warp, uint32_t insn);
/* The warp has waited: what is in the clock is ordered before what it does next. */
void ts_race_acquire(struct ts_race *race, uint32_t warp, const struct ts_clock *clock);
/* fence.proxy.async by the warp. */
void ts_race_fence_async(struct ts_race *race, uint32_t warp);

/* --- order between blocks; race->order must be set */
enum ts_tell {
  TS_TELL_NOTHING,
  TS_TELL_FENCED, /* a relaxed operation: what fences before it have covered */
  TS_TELL_ALL     /* a release */
};
/* fence of more than the block. */
void ts_race_fence(struct ts_race *race, uint32_t warp);
/* What the warp has to tell, its own block included. Starts a new stamp. NULL: nothing. */
const struct ts_far *ts_race_told(struct ts_race *race, uint32_t warp, enum ts_tell tell);
/* The warp knows the set from here on (is_acquire), or after its next fence. */
void ts_race_learn(struct ts_race *race, uint32_t warp, const struct ts_far *far, bool is_acquire);
/* As an acquire, but only of what the set says about the warp's own block. */
void ts_race_learn_own(struct ts_race *race, uint32_t warp, const struct ts_far *far);
/* A warp of another block tells the clock of a sync object of this block. */
void ts_race_tell_clock(struct ts_race *race, struct ts_clock *clock, const struct ts_far *far);
/* As ts_race_read and ts_race_write, of the block's shared memory by a warp of another block of the
 * cluster, whose race and rank are given. */
struct ts_conflict ts_race_peer_read(struct ts_race *race, const struct ts_race *peer,
                                     struct ts_accessor who, uint64_t address, uint64_t size_bytes);
struct ts_conflict ts_race_peer_write(struct ts_race *race, const struct ts_race *peer,
                                      uint32_t rank, struct ts_accessor who, uint64_t address,
                                      uint64_t size_bytes);

/* --- global memory: the order of warps of one block is that of their clocks, that of blocks what
 * they have been told. */
struct ts_global_access {
  uint32_t block, stamp, insn; /* block + 1; 0 none */
  uint16_t warp;
  bool is_atomic;
};
struct ts_global_cell {
  struct ts_global_access write, read; /* newest */
  struct ts_global_access other_read;  /* by another block than the newest */
};
struct ts_global_race {
  uint32_t granule_shift;
  uint64_t cell_count;
  struct ts_global_cell *cells;
  const struct ts_allocator *allocator;
};
enum ts_status ts_global_race_init(struct ts_ctx *ctx, struct ts_global_race *race,
                                   uint64_t size_bytes, uint32_t granule_bytes);
void ts_global_race_free(struct ts_global_race *race);
/* order is the block's own race, for its clocks. checks_blocks false: only warps of one block are
 * told to conflict. A conflict's address is the offset in the allocation. */
struct ts_conflict ts_global_race_read(struct ts_global_race *race, const struct ts_race *order,
                                       uint32_t block, struct ts_accessor who, bool checks_blocks,
                                       uint64_t offset, uint64_t size_bytes);
/* is_contended: set when an atomic follows one of another block, or of another warp without
 * order. */
struct ts_conflict ts_global_race_write(struct ts_global_race *race, const struct ts_race *order,
                                        uint32_t block, struct ts_accessor who, bool checks_blocks,
                                        uint64_t offset, uint64_t size_bytes, bool *is_contended);

#endif
