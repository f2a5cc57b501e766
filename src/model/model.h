/* Timing models: sinks that take a run's events and answer when everything happened.
 *
 * Job: the parts that all models share: spans, reports. Boundary: models see events and code
 * tables, never values. A model takes events live or from a file and answers equal spans. */
#ifndef TS_MODEL_MODEL_H
#define TS_MODEL_MODEL_H

#include "machine/machine.h"
#include "trace/trace.h"

enum ts_model_unit {
#define UNIT(name, text) TS_MODEL_UNIT_##name,
#include "model/unit.def"
#undef UNIT
  TS_MODEL_UNIT_COUNT
};
enum ts_stall {
#define STALL(name, text, explanation) TS_STALL_##name,
#include "model/stall.def"
#undef STALL
  TS_STALL_COUNT
};
const char *ts_model_unit_text(enum ts_model_unit unit);
const char *ts_stall_text(enum ts_stall stall);

/* When something happened on which unit. Times in SM cycles from the launch's first block. */
struct ts_span {
  uint64_t start_cycle, end_cycle;
  uint16_t launch, unit; /* enum ts_model_unit */
  uint16_t sm, warp;     /* warp of the block; UINT16_MAX: no warp */
  uint32_t block, insn;
  uint8_t stall; /* enum ts_stall: why it did not start earlier */
  uint64_t stall_cycles;
  uint32_t bytes;
};

struct ts_span_sink {
  /* In order of start within a unit, not between units. */
  enum ts_status (*emit)(struct ts_span_sink *sink, const struct ts_span *span);
};

enum { TS_ROLE_LIMIT = 8, TS_BANK_ROW_LIMIT = 32 };

/* Warps of a block that run the same code are one role: "producer", "consumer" or "warps 0-3". */
struct ts_role_report {
  char name[24];
  uint32_t first_warp, warp_count;
  double issue_cycles; /* mean per warp; with stall_cycles they add up to the role's life */
  double stall_cycles[TS_STALL_COUNT];
};

/* Shared accesses of one instruction. */
struct ts_bank_row {
  uint32_t insn;
  struct ts_source_place place;
  uint16_t op;
  uint64_t access_count;               /* warp accesses on the simulated SM */
  double wavefronts, ideal_wavefronts; /* mean per access */
};

struct ts_launch_report {
  const char *function;
  uint64_t block_count;
  uint32_t blocks_per_sm, registers_per_thread, threads_per_block;
  bool registers_are_estimated;
  uint64_t shared_bytes; /* static and dynamic of a block */
  const char *occupancy_limit;
  double wave_count;
  double cycles;             /* first block's start to last block's end */
  double kernel_us, cold_us; /* with the launch cost of an empty kernel left out */
  double clock_mhz;          /* mean over the launch, hot */
  double prologue_cycles, steady_cycles, epilogue_cycles; /* of the simulated SM's first block */
  double utilisation[TS_MODEL_UNIT_COUNT]; /* busy share, 0 .. 1, of the chip over the launch */
  enum ts_model_unit limiting_unit;
  double flop, l2_bytes, dram_bytes;
  double l2_hit_rate;
  double peak_flop_share; /* achieved against the roofline's flat part */
  double intensity_flop_per_byte, roofline_flop_share; /* position and bound at that intensity */
  struct ts_role_report roles[TS_ROLE_LIMIT];
  uint32_t role_count;
  struct ts_bank_row banks[TS_BANK_ROW_LIMIT];
  uint32_t bank_count;
  uint64_t event_count, simulated_block_count;
};

struct ts_time_report {
  char machine[32];
  double clock_mhz;
  double kernel_us;          /* hot: back-to-back launches, data of the launch before still in L2 */
  double kernel_us_cold;     /* after L2 has been filled with other data */
  double launch_us;          /* share of kernel_us that an empty kernel costs too */
  double cycles;             /* of all launches, hot, launch cost left out */
  double uncertainty;        /* relative half width that kernel_us is given with */
  uint32_t unverified_count; /* facts used whose constants are GUESS; texts in unverified */
  const char *const *unverified;
  uint32_t launch_count;
  const struct ts_launch_report *launches;
};

#endif
