/* Hazard checks that a plain run leaves out: order between warps and blocks, proxies, values that
 * were never set, layouts, and on request numbers and speed.
 *
 * block->check is NULL when they are off; then nothing here is called. Checks observe: they never
 * change values, waits or the order of a run. One worker runs all blocks, so that accesses of
 * blocks to global memory meet in one shadow.
 *
 * Files: check.c (life, reports, barriers and clocks), check_order.c (order between blocks),
 * check_memory.c (loads, stores, atomics, matrices), check_lanes.c (lanes of one store),
 * check_copy.c (asynchronous copies, wgmma operands, layouts), check_value.c (values that were
 * never set), check_tensor.c (tcgen05), check_use.c (what is never read), check_box.c (what tensor
 * loads fetch), check_number.c (numeric alarms), check_speed.c (performance remarks). */
#ifndef TS_INTERP_CHECK_PRIV_H
#define TS_INTERP_CHECK_PRIV_H

#include "interp/interp_priv.h"
#include "interp/wgmma_priv.h"
#include "mem/race.h"
#include "mem/use.h"

enum { TS__PHASE_RING = 8, TS__WORD_BYTES = 4 };

/* Clocks of the last phases of a sync object: slot p % ring is that of phase p, which holds what
 * the arrivals of phase p and all earlier ones released. */
struct ts__phase_clocks {
  uint32_t address; /* mbarriers */
  uint64_t last_phase;
  struct ts_clock clocks[TS__PHASE_RING];
};

/* Where the 16 bytes of a chunk of shared memory come from: `place` is 1 + the chunk's number in
 * the box that a TMA load wrote, 0 when something else wrote it. */
struct ts__chunk_tag {
  uint32_t copy; /* number of the load in the block */
  uint32_t place;
  uint32_t insn;
  uint16_t row_chunks;
  uint16_t swizzle;
};

enum ts__dirt { TS__CLEAN, TS__WAS_READ, TS__WAS_WRITTEN };

/* What a warp's registers hold that was never set: bit l of a mask is lane l. */
struct ts__unset {
  bool is_active;  /* some register may hold such a value */
  uint32_t *regs;  /* by word offset of a component's first slot */
  uint32_t *local; /* [word][byte]: of local arrays */
  uint8_t
      *is_dirty;    /* [word]: by a generic instruction since the last wgmma.fence: enum ts__dirt */
  uint32_t *writer; /* [word]: that instruction */
  uint32_t origin;  /* instruction that brought the newest unset value in */
  enum ts_diag_code origin_kind;
  uint32_t loaded; /* lanes (ldmatrix: rows) for which the load now executing found such bytes */
};

/* A store that conflicts with another one: no hazard when both write the same bytes. */
struct ts__held_conflict {
  struct ts_conflict conflict;
  enum ts_space space;
  uint32_t lane, size_bytes;
  uint64_t address;
  uint8_t old_bytes[16];
};

/* Shadow of one allocation. */
struct ts__global_shadow {
  struct ts_global_race race; /* made on first use, one per launch */
  bool is_made, is_skipped, is_written, said_order;
  uint8_t *unset; /* bit per granule of an output that starts without contents; NULL: all set */
};

/* Per run of all launches. */
struct ts__check_run {
  struct ts__global_shadow *shadows; /* by allocation */
  size_t shadow_count;
  uint64_t cell_count; /* of all shadows of the launch */
  struct ts_arena arena;
};

/* How fast an instruction was at its worst (performance remarks). */
struct ts__speed {
  uint64_t executions, slow_executions, units, best_units;
  uint32_t worst, worst_units, block, warp, lanes; /* worst: units above the least */
};

struct ts__exec {
  enum ts__step (*run)(struct ts__warp *warp, const struct ts__code *code);
};

/* State of a block; what is the launch's is the same in all of them. */
struct ts__check {
  struct ts_ctx *ctx;
  struct ts__program *program;
  struct ts__check_run *run;
  struct ts_race race; /* with tensor memory, the tensor core is a warp more */
  struct ts_use use;
  struct ts_global_race tensor; /* tensor memory */
  bool has_wgmma;               /* so that reads of registers matter */
  bool free_races;              /* something is not ordered with freeing tensor memory */
  struct ts__phase_clocks barriers[TS__NAMED_BARRIERS + TS__GROUP_SCOPES]; /* then of groups */
  TS_VEC(struct ts__phase_clocks) mbarriers;
  struct ts__chunk_tag *tags; /* per 16 bytes of shared memory */
  size_t tag_count;
  uint32_t copy_count;
  struct ts__unset *unset;    /* per warp */
  const uint32_t *unset_regs; /* word offsets of registers that may be read before they are set */
  uint32_t unset_reg_count;
  struct ts__held_conflict held;
  bool checks_blocks;          /* false: there are too many warps to follow how blocks wait */
  struct ts_order *order;      /* of the launch; NULL: no block can wait for another */
  struct ts_known_set *groups; /* of the unit's grid, then of its clusters: two phases each */
  struct ts__box_check *boxes;
  struct ts__last_box *last_boxes;   /* by code index */
  uint64_t box_signature;            /* of the boxes that the block has loaded, in any order */
  struct ts_barrier_log barrier_log; /* with remarks */
  struct ts__speed *speed;           /* per instruction; NULL without remarks */
  struct ts__exec *exec;             /* by code index: what the checks stand before */
};

/* --- life (check.c) */
enum ts_status ts__check_run_init(struct ts_ctx *ctx, struct ts__check_run *run,
                                  const struct ts_device_memory *memory);
void ts__check_run_free(struct ts__check_run *run);
/* After decoding: makes program->check, one for each block of a unit, and puts the checks in the
 * way of the instructions. */
enum ts_status ts__check_launch(struct ts_ctx *ctx, struct ts__program *program,
                                struct ts__check_run *run);
/* status: of the launch's blocks. Returns it, or TS_HAZARD when the launch as a whole has one. */
enum ts_status ts__check_launch_end(struct ts_ctx *ctx, struct ts__program *program,
                                    enum ts_status status);
void ts__check_block_start(struct ts__block *block);
void ts__check_block_end(struct ts__block *block);

/* --- order (check.c): arrivals release, waits acquire */
void ts__check_barrier_arrive(struct ts__warp *warp, const struct ts__code *code, uint32_t number,
                              uint64_t phase);
void ts__check_barrier_pass(struct ts__warp *warp, uint32_t number, uint64_t phase);
/* phase: completed phases of the mbarrier before the arrival. */
void ts__check_mbarrier_arrive(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                               uint32_t address, uint64_t phase);
/* The warp knows that `phases` phases are complete. */
void ts__check_mbarrier_pass(struct ts__warp *warp, uint32_t address, uint64_t phases);
/* The clock of the phase of an mbarrier; NULL: it has not been initialised. */
struct ts_clock *ts__check_mbarrier_clock(struct ts__check *check, uint32_t address,
                                          uint64_t phase);
void ts__check_mbarrier_init(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                             uint32_t address);
/* Data written over an mbarrier that has been initialised. */
void ts__check_mbarrier_bytes(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                              uint64_t address, uint64_t size_bytes);
void ts__check_fence_async(struct ts__warp *warp);
/* --- order between blocks (check_order.c) */
/* Decides whether the launch's blocks are followed, and makes what that takes. */
enum ts_status ts__check_order_launch(struct ts_ctx *ctx, struct ts__program *program,
                                      struct ts__check *launch);
void ts__check_order_launch_end(struct ts__check *launch);
/* After the places of all blocks of the unit are known. */
void ts__check_order_block(struct ts__block *block);
/* fence and fence.mbarrier_init. */
void ts__check_fence(struct ts__warp *warp, const struct ts__code *code);
/* An atomic, as a message between warps. */
void ts__check_atomic_order(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                            const struct ts__access *access);
/* Barriers of clusters and grids. */
void ts__check_group_arrive(struct ts__warp *warp, const struct ts__code *code,
                            enum ts__group_scope scope, uint64_t phase);
void ts__check_group_pass(struct ts__warp *warp, enum ts__group_scope scope, uint64_t phase);
/* An arrival at an mbarrier of another block. */
void ts__check_peer_arrive(struct ts__warp *warp, const struct ts__code *code,
                           struct ts__block *block, uint32_t address, uint64_t phase);
/* An access to shared memory of another block of the cluster. */
void ts__check_peer_access(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                           struct ts__block *block, uint64_t address, uint64_t size_bytes,
                           bool is_write, bool is_async);

/* Reports mbarriers whose transaction counts are not zero: at the end and at a deadlock. */
void ts__check_counts(struct ts__block *block);

/* --- accesses */
enum ts__access_kind { TS__ACCESS_READ, TS__ACCESS_WRITE, TS__ACCESS_ATOMIC };
/* Loads, stores and atomics, before the bytes move. */
enum ts__step ts__check_access(struct ts__warp *warp, const struct ts__code *code,
                               enum ts_space space, enum ts__access_kind kind,
                               const struct ts__access *access);
/* Plain stores of several lanes to one place (check_lanes.c). */
void ts__check_lanes(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                     const struct ts__access *access);
/* Loads of what other lanes of the warp have stored since the lanes last met. */
void ts__check_lane_reads(struct ts__warp *warp, const struct ts__code *code,
                          const struct ts__access *access);
/* The same for a range of global memory; *was_set becomes false when a read finds bytes that were
 * never written, *is_contended true when atomics meet. The conflict's address is a device address. */
struct ts_conflict ts__check_global_range(struct ts__warp *warp, struct ts_accessor who,
                                          enum ts__access_kind kind, uint64_t address,
                                          uint64_t size_bytes, bool *was_set, bool *is_contended);
/* Remarks once per buffer on sums of floats by several warps or blocks. */
void ts__check_order(struct ts__warp *warp, const struct ts__code *code, uint64_t address,
                     enum ts_dtype dtype, enum ts_ir_reduce reduce);
/* The 16-byte chunks of the range are no longer those of a TMA load. */
void ts__check_clear_tags(struct ts__check *check, uint64_t address, uint64_t size_bytes);
/* A plain write of shared memory by an instruction that is no store. */
void ts__check_write(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                     uint64_t address, uint64_t size_bytes);
/* After a store's bytes have moved. */
enum ts__step ts__check_stored(struct ts__warp *warp, const struct ts__code *code);
/* ldmatrix and stmatrix: rows of 16 bytes. */
enum ts__step ts__check_rows(struct ts__warp *warp, const struct ts__code *code,
                             uint8_t *const pointers[TS__LANES], uint32_t rows, bool is_store);
/* Asynchronous copies, when issued, and when all lanes have waited for them. */
void ts__check_copy_issue(struct ts__warp *warp, const struct ts__copy *copy);
void ts__check_copy_waited(struct ts__warp *warp, const struct ts__copy *copy);
/* Rows of A and columns of B that take in bytes which nobody has written, bit by bit. */
struct ts__unset_lines {
  uint64_t bits[4]; /* at most 256 */
  bool any;
};
/* An operand of wgmma in shared memory, when issued and when waited for. */
void ts__check_operand(struct ts__warp *warp, const struct ts__code *code,
                       const struct ts__chunks *chunks, const char *name, bool is_k_major,
                       uint32_t elem_bits, struct ts__unset_lines *unset);
void ts__check_operand_done(struct ts__warp *warp, const struct ts__code *code,
                            const struct ts__chunks *chunks);
/* tcgen05 (check_tensor.c): a product is issued, its operands in shared memory, its commit. */
enum ts_status ts__check_tensor_init(struct ts__check *check);
void ts__check_tensor_issue(struct ts__warp *warp);
void ts__check_tensor_commit(struct ts__warp *warp, const struct ts__code *code, uint32_t lane,
                             uint32_t address, uint64_t phase);
/* Columns of tensor memory that a warp's lanes, or a product, read or write. Answers whether they
 * come after all that has freed columns, so that freed ones may be told. */
bool ts__check_tensor_access(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                             uint32_t count, bool is_write);
bool ts__check_tensor_product(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                              uint32_t count, bool is_write);
void ts__check_tensor_free(struct ts__warp *warp, const struct ts__code *code, uint32_t column,
                           uint32_t count);
void ts__check_tensor_operand(struct ts__warp *warp, const struct ts__code *code,
                              const struct ts__chunks *chunks);
/* Registers of a wgmma. */
struct ts__wgmma_registers {
  const struct ts__matrix_info *info;
  const uint32_t *a, *accumulator; /* in the warp's local arrays; a NULL: in shared memory */
  uint32_t a_words, c_words;
  bool is_zeroed;
};
void ts__check_wgmma_registers(struct ts__warp *warp, const struct ts__code *code,
                               const struct ts__wgmma_registers *registers,
                               const struct ts__unset_lines *rows,
                               const struct ts__unset_lines *columns);
void ts__check_wgmma_fence(struct ts__warp *warp);

/* --- reports (check.c): what they say is done once per place, whatever the count */
void ts__check_conflict(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                        uint32_t lane, bool is_write, const struct ts_conflict *conflict,
                        uint64_t address, uint64_t size_bytes);
/* The same; the address is one of owner's shared memory. */
void ts__check_conflict_in(struct ts__warp *warp, const struct ts__code *code,
                           const struct ts__block *owner, enum ts_space space, uint32_t lane,
                           bool is_write, const struct ts_conflict *conflict, uint64_t address,
                           uint64_t size_bytes);
/* "element 12 of buffer A" or "shared 0x40 (buf + 64)". */
const char *ts__check_place_text(const struct ts__block *block, enum ts_space space,
                                 uint64_t address, char *text, size_t size_bytes);

/* --- values that were never set (check_value.c) */
enum ts_status ts__check_value_init(struct ts__check *check);
enum ts_status ts__check_value_block_init(struct ts__check *check);
void ts__check_value_block(struct ts__block *block);
/* Puts the check functions before the exec functions of program->code. */
void ts__check_value_hook(struct ts__check *check);
/* The lanes of the mask load bytes that were never set. */
void ts__check_unset_load(struct ts__warp *warp, const struct ts__code *code, uint32_t lanes,
                          enum ts_diag_code kind);
/* Lanes whose operand, in any component, was never set. */
uint32_t ts__check_unset_lanes(const struct ts__warp *warp, const struct ts__operand *operand);

/* Any instruction that is neither a load nor works on local arrays. */
enum ts__step ts__check_plain(struct ts__warp *warp, const struct ts__code *code);
/* The same with numeric alarms (check_number.c). */
enum ts__step ts__check_number(struct ts__warp *warp, const struct ts__code *code);

/* --- use of what is brought to shared memory (check_use.c) */
void ts__check_use_copy(struct ts__warp *warp, const struct ts__copy *copy);
void ts__check_use_end(struct ts__block *block);

/* --- what tensor loads fetch (check_box.c) */
enum ts_status ts__check_box_init(struct ts__check *check);
enum ts_status ts__check_box_block_init(struct ts__check *check);
void ts__check_box_load(struct ts__warp *warp, const struct ts__copy *copy);
/* Something else than a tensor load reads the allocation of the address. */
void ts__check_box_other_read(struct ts__check *check, uint64_t address);
void ts__check_box_block_end(struct ts__block *block);
/* True when something was reported. */
bool ts__check_box_launch_end(struct ts_ctx *ctx, struct ts__program *program, bool is_judged);

/* --- speed (check_speed.c) */
void ts__check_speed_branch(struct ts__warp *warp, const struct ts__code *code, uint32_t before);
void ts__check_speed_access(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                            const struct ts__access *access);
/* An arrival at a numbered barrier. */
void ts__check_speed_barrier(struct ts__warp *warp, const struct ts__code *code);
void ts__check_speed_report(struct ts__check *check);
/* Few warps on an SM, and why (check_occupancy.c). */
void ts__check_occupancy(struct ts_ctx *ctx, const struct ts__program *program);

#endif
