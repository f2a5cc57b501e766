/* The L2 pass: against a plain model without sampling and memory of repeats, its properties, and the
 * accesses of a real kernel. */
#include "ir/type.h"
#include "model_nv/access.h"
#include "support/failing_allocator.h"
#include "support/suite.h"
#include "tilesim/tilesim.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

static struct ts_diag_list diags;
static struct ts_ctx ctx;

static void setup(const struct ts_allocator *allocator) {
  ck_assert_int_eq(ts_diag_list_init(&diags, allocator), TS_OK);
  ctx = (struct ts_ctx){allocator, &diags};
}

static struct ts__l2_totals run(const struct ts__l2_settings *settings,
                                const struct ts__l2_block *blocks, uint32_t block_count,
                                uint32_t passes, struct ts__l2_outcome *const *outcomes) {
  struct ts__l2_pass all[2] = {0};
  all[passes - 1].outcomes = outcomes;
  setup(&ts_allocator_libc);
  ck_assert_int_eq(ts__l2_run(&ctx, settings, blocks, block_count, all, passes), TS_OK);
  ts_diag_list_free(&diags);
  return all[passes - 1].totals;
}

/* A bulk copy. */
static struct ts__access bulk(uint64_t base, uint32_t size_bytes, bool is_write) {
  return (struct ts__access){
      .mask = 1,
      .is_write = is_write,
      .bytes = size_bytes,
      .footprint = {.kind = TS_FOOTPRINT_AFFINE, .size_bytes = size_bytes, .base = base}};
}

/* Each of block_count blocks sweeps its part of the buffer, 4 KiB at a time, `sweeps` times. */
struct sweep {
  struct ts__access *accesses;
  struct ts__l2_block *blocks;
};

static struct sweep make_sweep(uint32_t block_count, uint64_t part_bytes, uint64_t step_bytes,
                               uint32_t sweeps, bool is_write) {
  uint32_t count = (uint32_t)(part_bytes / 4096);
  struct sweep sweep = {calloc((size_t)count * sweeps * block_count, sizeof(struct ts__access)),
                        calloc(block_count, sizeof(struct ts__l2_block))};
  struct ts__access *access = sweep.accesses;
  for (uint32_t b = 0; b < block_count; b++) {
    sweep.blocks[b] = (struct ts__l2_block){.accesses = access, .access_count = count * sweeps};
    for (uint32_t i = 0; i < count * sweeps; i++)
      *access++ = bulk((UINT64_C(1) << 40) + b * step_bytes + i % count * 4096, 4096, is_write);
  }
  return sweep;
}

static void free_sweep(struct sweep *sweep) {
  free(sweep->accesses);
  free(sweep->blocks);
}

START_TEST(test_first_toucher_misses_others_merge) {
  struct ts__access accesses[4];
  for (uint32_t i = 0; i < 4; i++)
    accesses[i] = bulk(i == 3 ? 0 : i * 4096, 4096, false);
  const struct ts__l2_block blocks[3] = {
      {accesses, 4, NULL, 0}, {accesses, 4, NULL, 0}, {accesses, 4, NULL, 0}};
  struct ts__l2_outcome outcomes[3][4];
  struct ts__l2_outcome *const all[3] = {outcomes[0], outcomes[1], outcomes[2]};
  struct ts__l2_settings settings = {
      .capacity_bytes = MIB, .concurrent_blocks = 2, .in_flight_accesses = 2};
  struct ts__l2_totals totals = run(&settings, blocks, 3, 1, all);
  for (uint32_t i = 0; i < 3; i++) {
    ck_assert_uint_eq(outcomes[0][i].line_count, 32);
    ck_assert_uint_eq(outcomes[0][i].sector_count, 128);
    ck_assert_uint_eq(outcomes[0][i].miss_lines, 32);
    ck_assert_uint_eq(outcomes[0][i].miss_sectors, 128);
    ck_assert_uint_eq(outcomes[0][i].merged_lines, 0);
    ck_assert_uint_eq(outcomes[1][i].miss_lines, 0);
    ck_assert_uint_eq(outcomes[1][i].merged_lines, 32);
    ck_assert_uint_eq(outcomes[2][i].miss_lines + outcomes[2][i].merged_lines, 0);
  }
  ck_assert_uint_eq(outcomes[0][3].miss_lines + outcomes[0][3].merged_lines, 0); /* has landed */
  ck_assert_uint_eq(totals.dram_read_sectors, 3 * 128);
  ck_assert_uint_eq(totals.read_sectors, 3 * 4 * 128);
  ck_assert_uint_eq(totals.footprint_bytes, 3 * 4096);
  ck_assert_uint_eq(totals.dram_write_sectors + totals.write_sectors + totals.far_sectors, 0);
  settings.in_flight_accesses = 0;
  run(&settings, blocks, 3, 1, all);
  ck_assert_uint_eq(outcomes[1][0].merged_lines, 0);
  settings.in_flight_accesses = 4;
  run(&settings, blocks, 3, 1, all);
  ck_assert_uint_eq(outcomes[0][3].merged_lines, 32); /* three rounds ago */
}
END_TEST

/* --- the plain model: all capacity there is, line by line */

enum { PLAIN_LINES = 4096, PLAIN_BLOCKS = 24, PLAIN_ACCESSES = 40 };

struct plain {
  uint32_t valid[PLAIN_LINES], filled[PLAIN_LINES], filling[PLAIN_LINES];
};

static struct ts__l2_outcome plain_access(struct plain *plain, const struct ts__access *access,
                                          const struct ts_shift *shift, uint32_t round,
                                          uint32_t in_flight) {
  struct ts__l2_outcome outcome = {0};
  struct ts__line_cursor cursor;
  uint64_t packed;
  ts__line_cursor_start(&cursor, access, shift);
  while (ts__line_cursor_next(&cursor, &packed, 1)) {
    uint32_t line = (uint32_t)ts__line_of(packed), sectors = ts__sectors_of(packed);
    ck_assert_uint_lt(line, PLAIN_LINES);
    bool reads = !access->is_write || access->is_atomic;
    uint32_t missing = reads ? sectors & ~plain->valid[line] : 0;
    outcome.line_count++;
    outcome.sector_count += (uint32_t)__builtin_popcount(sectors);
    outcome.miss_sectors += (uint32_t)__builtin_popcount(missing);
    outcome.miss_lines += missing != 0;
    if (plain->filled[line] && round >= plain->filled[line] + in_flight) plain->filling[line] = 0;
    outcome.merged_lines += reads && !missing && plain->filling[line] & sectors;
    plain->valid[line] |= sectors;
    if (!missing) continue;
    plain->filling[line] |= missing;
    plain->filled[line] = round;
  }
  return outcome;
}

static uint32_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(*state >> 40);
}

static struct ts__access random_access(uint64_t *random, const uint64_t *lanes) {
  struct ts__access access = bulk(next_random(random) % 8 * 4096, 2048, false);
  access.insn = next_random(random) % 4;
  access.is_write = next_random(random) % 4 == 0;
  access.is_atomic = access.is_write && next_random(random) % 2;
  access.mask = next_random(random) % 2 ? UINT32_MAX : 0x00ff00f0;
  switch (next_random(random) % 3) {
  case 0:
    access.footprint.size_bytes = 4u << next_random(random) % 3;
    access.footprint.lane_stride = next_random(random) % 4 * 16;
    break;
  case 1:
    access.footprint.kind = TS_FOOTPRINT_LANES;
    access.footprint.size_bytes = 8;
    access.footprint.lanes = lanes + next_random(random) % 3 * 32;
    break;
  default:
    access.footprint.kind = TS_FOOTPRINT_BOX;
    access.footprint.rank = 2;
    access.footprint.size_bytes = 128;
    access.footprint.extent[0] = 64, access.footprint.extent[1] = 12 + next_random(random) % 2 * 4;
    access.footprint.coordinate[0] = (int32_t)(next_random(random) % 3 * 32);
    access.footprint.coordinate[1] = (int32_t)(next_random(random) % 4 * 8) - 4;
    access.footprint.stride_bytes[1] = 1024;
    access.footprint.tensor_extent[0] = 140, access.footprint.tensor_extent[1] = 30; /* clips */
  }
  return access;
}

START_TEST(test_equals_plain_model) {
  static struct ts__access accesses[PLAIN_BLOCKS][PLAIN_ACCESSES];
  static struct ts__l2_outcome outcomes[PLAIN_BLOCKS][PLAIN_ACCESSES];
  static struct plain plain;
  static uint64_t lanes[96];
  struct ts_shift shifts[PLAIN_BLOCKS][2];
  struct ts__l2_block blocks[PLAIN_BLOCKS];
  struct ts__l2_outcome *all[PLAIN_BLOCKS];
  uint64_t random = (uint64_t)_i + 1;
  memset(&plain, 0, sizeof plain);
  for (uint32_t i = 0; i < 96; i++)
    lanes[i] = next_random(&random) % 300 * 8;
  for (uint32_t b = 0; b < PLAIN_BLOCKS; b++) {
    for (uint32_t i = 0; i < PLAIN_ACCESSES; i++)
      accesses[b][i] = random_access(&random, lanes);
    for (uint32_t i = 0; i < 2; i++)
      shifts[b][i] = (struct ts_shift){.insn = 1 + 2 * i,
                                       .bytes = next_random(&random) % 4 * 64,
                                       .coordinate = {(int32_t)(next_random(&random) % 3 * 16),
                                                      (int32_t)(next_random(&random) % 2)}};
    uint32_t like = next_random(&random) % (b + 1), count = next_random(&random) % PLAIN_ACCESSES;
    if (_i % 2) like = 0, count = PLAIN_ACCESSES; /* in step */
    blocks[b] = (struct ts__l2_block){accesses[like], count, shifts[b], 2};
    all[b] = outcomes[b];
  }
  struct ts__l2_settings settings = {
      .capacity_bytes = 4 * MIB, .concurrent_blocks = PLAIN_BLOCKS, .in_flight_accesses = 3};
  struct ts__l2_totals totals = run(&settings, blocks, PLAIN_BLOCKS, 1, all);
  uint64_t missed = 0;
  for (uint32_t i = 0; i < PLAIN_ACCESSES; i++)
    for (uint32_t b = 0; b < PLAIN_BLOCKS; b++) {
      if (i >= blocks[b].access_count) continue;
      const struct ts__access *access = &blocks[b].accesses[i];
      struct ts_shift none = {0};
      const struct ts_shift *shift = access->insn % 2 ? &shifts[b][access->insn / 2] : &none;
      struct ts__l2_outcome wanted =
          plain_access(&plain, access, shift, i + 1, settings.in_flight_accesses);
      ck_assert_mem_eq(&outcomes[b][i], &wanted, sizeof wanted);
      missed += wanted.miss_sectors;
    }
  ck_assert_uint_eq(totals.dram_read_sectors, missed);
}
END_TEST

/* --- properties */

/* Blocks that share their accesses go in step, those with copies of them do not. */
START_TEST(test_step_makes_no_difference) {
  static struct ts__access accesses[PLAIN_BLOCKS][PLAIN_ACCESSES];
  static struct ts__l2_outcome outcomes[2][PLAIN_BLOCKS][PLAIN_ACCESSES];
  static uint64_t lanes[96];
  struct ts_shift shifts[PLAIN_BLOCKS];
  struct ts__l2_block blocks[2][PLAIN_BLOCKS];
  struct ts__l2_outcome *all[2][PLAIN_BLOCKS];
  uint64_t random = (uint64_t)_i + 1;
  for (uint32_t i = 0; i < 96; i++)
    lanes[i] = next_random(&random) % 300 * 8;
  for (uint32_t i = 0; i < PLAIN_ACCESSES; i++)
    accesses[0][i] = random_access(&random, lanes);
  for (uint32_t b = 0; b < PLAIN_BLOCKS; b++) {
    memcpy(accesses[b], accesses[0], sizeof accesses[b]);
    shifts[b] = (struct ts_shift){.insn = 1, .bytes = next_random(&random) % 4 * 4096};
    for (uint32_t k = 0; k < 2; k++) {
      blocks[k][b] = (struct ts__l2_block){accesses[k * b], PLAIN_ACCESSES, &shifts[b], 1};
      all[k][b] = outcomes[k][b];
    }
  }
  struct ts__l2_settings settings = {.capacity_bytes = 48 << 10,
                                     .duplicated_bytes = 16 << 10,
                                     .capacity_spread = 0.04,
                                     .concurrent_blocks = 10,
                                     .in_flight_accesses = 3,
                                     .sample_shift = (uint32_t)_i % 3};
  struct ts__l2_totals in_step = run(&settings, blocks[0], PLAIN_BLOCKS, 1, all[0]);
  struct ts__l2_totals alone = run(&settings, blocks[1], PLAIN_BLOCKS, 1, all[1]);
  ck_assert_mem_eq(&in_step, &alone, sizeof alone);
  ck_assert_mem_eq(outcomes[0], outcomes[1], sizeof outcomes[0]);
}
END_TEST

/* What a later pass starts from does not depend on whether anybody looks at the one before. */
START_TEST(test_passes_follow_one_another) {
  static struct ts__l2_outcome outcomes[3][64];
  struct sweep sweep = make_sweep(1, 64 * 4096, 0, 1, false);
  struct ts_shift shifts[6];
  struct ts__l2_block blocks[6];
  struct ts__l2_outcome *all[3][6] = {{outcomes[0]}, {outcomes[1]}, {outcomes[2]}};
  for (uint32_t i = 0; i < 6; i++) {
    shifts[i] = (struct ts_shift){.bytes = i / 2 * (64 << 10)};
    blocks[i] = (struct ts__l2_block){sweep.accesses, 64, &shifts[i], 1};
  }
  struct ts__l2_settings settings = {
      .capacity_bytes = 300 << 10, .concurrent_blocks = 4, .in_flight_accesses = 2};
  struct ts__l2_totals cold = run(&settings, blocks, 6, 1, all[2]);
  struct ts__l2_pass passes[2] = {{.outcomes = all[0]}, {.outcomes = all[1]}};
  setup(&ts_allocator_libc);
  ck_assert_int_eq(ts__l2_run(&ctx, &settings, blocks, 6, passes, 2), TS_OK);
  ts_diag_list_free(&diags);
  ck_assert_mem_eq(&passes[0].totals, &cold, sizeof cold);
  ck_assert_mem_eq(outcomes[0], outcomes[2], sizeof outcomes[0]);
  struct ts__l2_totals hot = run(&settings, blocks, 6, 2, all[2]);
  ck_assert_mem_eq(&passes[1].totals, &hot, sizeof hot);
  ck_assert_mem_eq(outcomes[1], outcomes[2], sizeof outcomes[1]);
  ck_assert_uint_eq(cold.footprint_bytes, 384 << 10);
  free_sweep(&sweep);
}
END_TEST

START_TEST(test_what_fits_stays) {
  /* 8 blocks over 960 KiB of 1 MiB, in one piece and as parts 64 MiB apart. */
  for (uint32_t k = 0; k < 2; k++)
    for (uint32_t shift = 0; shift <= 3; shift++) {
      struct sweep sweep = make_sweep(8, 120 << 10, k ? 64 * MIB : 120 << 10, 1, false);
      struct ts__l2_settings settings = {
          .capacity_bytes = MIB, .concurrent_blocks = 8, .sample_shift = shift};
      struct ts__l2_totals totals = run(&settings, sweep.blocks, 8, 1, NULL);
      ck_assert_uint_eq(totals.dram_read_sectors, 960 * 32);
      ck_assert_uint_eq(totals.footprint_bytes, 960 << 10);
      totals = run(&settings, sweep.blocks, 8, 2, NULL);
      ck_assert_uint_eq(totals.dram_read_sectors, 0);
      ck_assert_uint_eq(totals.read_sectors, 960 * 32);
      free_sweep(&sweep);
    }
}
END_TEST

START_TEST(test_sweeps_as_measured) {
  /* MEASURED on an H200 of 60 MiB (traces/h200/ubench.csv, l2_read_*MB_rotate0): the bandwidth of
   * repeated sweeps lies between that of L2 hits and that of DRAM as if this share missed. */
  static const struct {
    uint32_t mib;
    double low, high;
  } rows[] = {{32, 0, 0},     {40, 0, 0.01},  {48, 0, 0.08},
              {56, 0.2, 0.4}, {64, 0.6, 0.8}, {96, 0.9, 1}};
  for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct sweep sweep =
        make_sweep(128, rows[i].mib * MIB / 128, rows[i].mib * MIB / 128, 1, false);
    struct ts__l2_settings settings = {.capacity_bytes = 60 * MIB,
                                       .capacity_spread = 0.125,
                                       .concurrent_blocks = 128,
                                       .sample_shift = 2};
    struct ts__l2_totals totals = run(&settings, sweep.blocks, 128, 2, NULL);
    double share = (double)totals.dram_read_sectors / (double)totals.read_sectors;
    ck_assert_double_ge(share, rows[i].low);
    ck_assert_double_le(share, rows[i].high);
    free_sweep(&sweep);
  }
}
END_TEST

START_TEST(test_more_capacity_never_misses_more) {
  for (uint64_t part = 64 << 10; part <= 512 << 10; part *= 2) {
    struct sweep sweep = make_sweep(6, part, part - 8192, 3, false);
    uint64_t before = UINT64_MAX;
    for (uint64_t capacity = 0; capacity <= 4 * MIB; capacity += MIB / 4) {
      struct ts__l2_settings settings = {
          .capacity_bytes = capacity, .capacity_spread = 0.1, .concurrent_blocks = 6};
      struct ts__l2_totals totals = run(&settings, sweep.blocks, 6, 1, NULL);
      ck_assert_uint_le(totals.dram_read_sectors, before);
      ck_assert_uint_ge(totals.dram_read_sectors * 32, totals.footprint_bytes);
      ck_assert_uint_le(totals.dram_read_sectors, totals.read_sectors);
      before = totals.dram_read_sectors;
    }
    ck_assert_uint_eq(before * 32, 6 * (part - 8192) + 8192);
    free_sweep(&sweep);
  }
}
END_TEST

START_TEST(test_writes_go_back_when_evicted) {
  struct sweep sweep = make_sweep(4, MIB, MIB, 1, true);
  struct ts__l2_settings settings = {.capacity_bytes = 8 * MIB, .concurrent_blocks = 4};
  struct ts__l2_totals totals = run(&settings, sweep.blocks, 4, 2, NULL);
  ck_assert_uint_eq(totals.dram_write_sectors + totals.dram_read_sectors, 0);
  ck_assert_uint_eq(totals.write_sectors, 4 * MIB / 32);
  settings.capacity_bytes = MIB;
  totals = run(&settings, sweep.blocks, 4, 2, NULL); /* steady: each line is written back once */
  ck_assert_uint_eq(totals.dram_write_sectors, 4 * MIB / 32);
  ck_assert_uint_eq(totals.dram_read_sectors, 0);
  for (uint32_t i = 0; i < 4 * 256; i++)
    sweep.accesses[i].is_atomic = true;
  totals = run(&settings, sweep.blocks, 4, 2, NULL);
  ck_assert_uint_eq(totals.dram_write_sectors, 4 * MIB / 32);
  ck_assert_uint_eq(totals.dram_read_sectors, 4 * MIB / 32);
  free_sweep(&sweep);
}
END_TEST

START_TEST(test_partitions) {
  /* Two blocks, one on each side, sweep one buffer. */
  struct ts__l2_settings settings = {
      .capacity_bytes = 8 * MIB, .duplicated_bytes = 4 * MIB, .concurrent_blocks = 2};
  static const uint64_t sizes[] = {2 * MIB, 3 * MIB, 7 * MIB};
  for (uint32_t i = 0; i < 3; i++) {
    struct sweep sweep = make_sweep(2, sizes[i], 0, 1, false);
    struct ts__l2_totals totals = run(&settings, sweep.blocks, 2, 2, NULL);
    uint64_t sectors = 2 * sizes[i] / 32;
    ck_assert_uint_eq(totals.dram_read_sectors, 0);
    ck_assert_uint_eq(totals.read_sectors, sectors);
    if (i < 2)
      ck_assert_uint_eq(totals.far_sectors, 0);
    else
      ck_assert_uint_eq(totals.far_sectors * 20 / sectors, 10);
    totals = run(&settings, sweep.blocks, 2, 1, NULL); /* cold: half comes from afar */
    ck_assert_int_le(labs((long)(totals.far_sectors * 2) - (long)sectors), (long)sectors / 20);
    free_sweep(&sweep);
  }
}
END_TEST

/* A product of size^3 in tiles of 128 x 128 and steps of 64, f16, both operands K-major. */
enum { TILE = 128, STEP = 64 };

struct gemm {
  struct ts__access *accesses;
  struct ts_shift *shifts;
  struct ts__l2_block *blocks;
  uint32_t block_count;
};

static struct ts__access operand_box(uint32_t insn, uint32_t size, uint32_t step) {
  return (struct ts__access){
      .insn = insn,
      .mask = 1,
      .bytes = TILE * STEP * 2,
      .footprint = {.kind = TS_FOOTPRINT_BOX,
                    .rank = 2,
                    .size_bytes = STEP * 2,
                    .base = (UINT64_C(1) + insn) << 40,
                    .extent = {STEP, TILE},
                    .coordinate = {(int32_t)(step * STEP), 0},
                    .stride_bytes = {2, size * 2},
                    .tensor_extent = {size, size}},
  };
}

static struct gemm make_gemm(uint32_t size) {
  uint32_t tiles = (size + TILE - 1) / TILE, steps = (size + STEP - 1) / STEP;
  struct gemm gemm = {calloc(steps * 2, sizeof(struct ts__access)),
                      calloc(tiles * tiles * 2, sizeof(struct ts_shift)),
                      calloc(tiles * tiles, sizeof(struct ts__l2_block)), tiles * tiles};
  for (uint32_t i = 0; i < 2 * steps; i++)
    gemm.accesses[i] = operand_box(i % 2, size, i / 2);
  for (uint32_t i = 0; i < tiles * tiles; i++) {
    struct ts_shift *shifts = gemm.shifts + i * 2;
    shifts[1].insn = 1;
    shifts[0].coordinate[1] = (int32_t)(i / tiles * TILE);
    shifts[1].coordinate[1] = (int32_t)(i % tiles * TILE);
    gemm.blocks[i] = (struct ts__l2_block){gemm.accesses, steps * 2, shifts, 2};
  }
  return gemm;
}

static void free_gemm(struct gemm *gemm) {
  free(gemm->accesses);
  free(gemm->shifts);
  free(gemm->blocks);
}

START_TEST(test_gemm_traffic) {
  /* All of both operands once when they fit, also when they are ragged. */
  static const uint32_t sizes[] = {1024, 2048, 1000};
  for (uint32_t i = 0; i < 3; i++) {
    struct gemm gemm = make_gemm(sizes[i]);
    struct ts__l2_settings settings = {
        .capacity_bytes = 40 * MIB, .concurrent_blocks = 132, .in_flight_accesses = 4};
    struct ts__l2_totals totals = run(&settings, gemm.blocks, gemm.block_count, 1, NULL);
    uint64_t operand_bytes = (uint64_t)sizes[i] * sizes[i] * 2;
    ck_assert_uint_ge(totals.dram_read_sectors * 32, 2 * operand_bytes);
    ck_assert_uint_le(totals.dram_read_sectors * 32, 2 * operand_bytes + 64 * sizes[i] * 2);
    free_gemm(&gemm);
  }
  /* 4096: a wave of 128 blocks takes 4 rows of tiles of A and all of B (33.5 MB). With 16 MiB B comes
   * back in each of 8 waves; with 48 it stays. */
  struct gemm gemm = make_gemm(4096);
  struct ts__l2_settings settings = {
      .capacity_bytes = 16 * MIB, .concurrent_blocks = 128, .in_flight_accesses = 4};
  uint64_t operand_sectors = UINT64_C(4096) * 4096 * 2 / 32;
  struct ts__l2_totals totals = run(&settings, gemm.blocks, gemm.block_count, 1, NULL);
  ck_assert_uint_eq(totals.read_sectors, operand_sectors * 2 * 32);
  ck_assert_uint_eq(totals.dram_read_sectors, operand_sectors * (1 + 8));
  settings.capacity_bytes = 48 * MIB;
  totals = run(&settings, gemm.blocks, gemm.block_count, 1, NULL);
  ck_assert_uint_eq(totals.dram_read_sectors, operand_sectors * 2);
  free_gemm(&gemm);
}
END_TEST

START_TEST(test_sampling) {
  static const uint64_t capacities[] = {4 * MIB, 12 * MIB, 48 * MIB};
  struct gemm gemm = make_gemm(2048);
  for (uint32_t c = 0; c < 3; c++) {
    struct ts__l2_settings settings = {.capacity_bytes = capacities[c],
                                       .duplicated_bytes = capacities[c] / 2,
                                       .concurrent_blocks = 100,
                                       .in_flight_accesses = 4};
    struct ts__l2_totals whole = run(&settings, gemm.blocks, gemm.block_count, 1, NULL);
    for (settings.sample_shift = 1; settings.sample_shift <= 5; settings.sample_shift++) {
      struct ts__l2_totals part = run(&settings, gemm.blocks, gemm.block_count, 1, NULL);
      ck_assert_uint_eq(part.read_sectors, whole.read_sectors);
      ck_assert_uint_eq(part.line_visits, whole.line_visits);
      ck_assert_double_eq_tol((double)part.dram_read_sectors / (double)whole.dram_read_sectors, 1,
                              0.04);
      ck_assert_double_eq_tol((double)part.footprint_bytes / (double)whole.footprint_bytes, 1,
                              0.01);
      ck_assert_double_eq_tol((double)part.far_sectors / (double)whole.far_sectors, 1, 0.05);
    }
  }
  free_gemm(&gemm);
}
END_TEST

START_TEST(test_odd_sizes) {
  struct ts__access access = bulk(0, 4096, false);
  const struct ts__l2_block blocks[3] = {{&access, 0, NULL, 0}, {&access, 1, NULL, 0}, {0}};
  struct ts__l2_settings settings = {0};
  struct ts__l2_totals totals = run(&settings, blocks, 3, 2, NULL);
  ck_assert_uint_eq(totals.dram_read_sectors, 128); /* no cache at all */
  totals = run(&settings, NULL, 0, 1, NULL);
  ck_assert_uint_eq(totals.read_sectors, 0);
  settings = (struct ts__l2_settings){.capacity_bytes = 128 * 5,
                                      .duplicated_bytes = 128,
                                      .concurrent_blocks = UINT32_MAX,
                                      .in_flight_accesses = 1,
                                      .sample_shift = 40};
  run(&settings, blocks, 3, 1, NULL);
}
END_TEST

START_TEST(test_memory_runs_out) {
  struct sweep sweep = make_sweep(4, 64 << 10, 64 * MIB, 1, false);
  const struct ts__l2_settings settings = {
      .capacity_bytes = MIB, .duplicated_bytes = MIB, .concurrent_blocks = 4};
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct ts__l2_pass pass = {0};
    if (ts_diag_list_init(&diags, &memory.allocator) != TS_OK) continue;
    ctx = (struct ts_ctx){&memory.allocator, &diags};
    enum ts_status status = ts__l2_run(&ctx, &settings, sweep.blocks, 4, &pass, 1);
    ck_assert(status == TS_OK || status == TS_NO_MEMORY);
    ts_diag_list_free(&diags);
  }
  free_sweep(&sweep);
}
END_TEST

/* --- a kernel of the corpus: C = A x B, 1024^3, f16 in and f32 out */

struct recording {
  struct ts_arena arena;
  TS_VEC(struct ts__access) accesses[64];
};

static void record(struct recording *recording, const struct ts_event *event,
                   const struct ts_footprint *footprint) {
  if (!footprint || footprint->space != TS_SPACE_GLOBAL || event->kind == TS_EVENT_LANDED) return;
  struct ts__access access = {.insn = event->insn,
                              .is_write = event->dst_space == TS_SPACE_GLOBAL,
                              .mask = event->mask,
                              .bytes = event->bytes,
                              .footprint = *footprint};
  if (footprint->lanes) {
    uint64_t *lanes = ts_new_array(&recording->arena, uint64_t, 32);
    access.footprint.lanes = memcpy(lanes, footprint->lanes, 32 * sizeof *lanes);
  }
  ck_assert_int_eq(ts_vec_push(&recording->accesses[event->block], &ts_allocator_libc, access), 0);
}

START_TEST(test_recorded_kernel) {
  struct ts_sim *sim;
  struct ts_trace_reader *reader;
  char path[64];
  snprintf(path, sizeof path, "/tmp/tilesim-test-l2-%ld.tsev", (long)getpid());
  ck_assert_int_eq(ts_sim_create(NULL, &sim), TS_RESULT_OK);
  ck_assert_int_eq(ts_sim_open(sim, "traces/gemm_seed", TS_FAST_MATH_AUTO), TS_RESULT_OK);
  const struct ts_run_settings run_settings = {.events_path = path};
  ck_assert_int_eq(ts_sim_run(sim, &run_settings), TS_RESULT_OK);
  ts_sim_free(sim);
  setup(&ts_allocator_libc);
  ck_assert_int_eq(ts_trace_reader_open(&ctx, path, &reader), TS_OK);
  struct recording recording = {0};
  ts_arena_init(&recording.arena, &ts_allocator_libc);
  struct ts_event event;
  const struct ts_footprint *footprint;
  for (bool is_end = false; !is_end;) {
    ck_assert_int_eq(ts_trace_reader_next(&ctx, reader, &event, &footprint, &is_end), TS_OK);
    if (!is_end) record(&recording, &event, footprint);
  }
  struct ts__l2_block blocks[64];
  for (uint32_t i = 0; i < 64; i++) {
    blocks[i] = (struct ts__l2_block){.accesses = recording.accesses[i].data,
                                      .access_count = (uint32_t)recording.accesses[i].count};
    ck_assert_uint_gt(blocks[i].access_count, 0);
  }
  ts_trace_reader_close(reader);
  ts_diag_list_free(&diags);
  unlink(path);
  const struct ts__l2_settings settings = {.capacity_bytes = 50 * MIB, .concurrent_blocks = 132};
  struct ts__l2_totals totals = run(&settings, blocks, 64, 1, NULL);
  ck_assert_uint_eq(totals.dram_read_sectors, 2 * 2 * MIB / 32);
  ck_assert_uint_eq(totals.read_sectors, 2 * 8 * 2 * MIB / 32); /* 8 tiles want each panel */
  ck_assert_uint_eq(totals.write_sectors, 4 * MIB / 32);
  ck_assert_uint_eq(totals.footprint_bytes, 8 * MIB);
  ck_assert_uint_lt(totals.walked_lines, totals.line_visits);
  for (uint32_t i = 0; i < 64; i++)
    ts_vec_free(&recording.accesses[i], &ts_allocator_libc);
  ts_arena_free(&recording.arena);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("model_nv_access_l2");
  TCase *group = tcase_create("model_nv_access_l2");
  suite_add_tcase(suite, group);
  tcase_add_test(group, test_first_toucher_misses_others_merge);
  tcase_add_loop_test(group, test_equals_plain_model, 0, 50);
  tcase_add_loop_test(group, test_step_makes_no_difference, 0, 20);
  tcase_add_test(group, test_passes_follow_one_another);
  tcase_add_test(group, test_what_fits_stays);
  tcase_add_test(group, test_sweeps_as_measured);
  tcase_add_test(group, test_more_capacity_never_misses_more);
  tcase_add_test(group, test_writes_go_back_when_evicted);
  tcase_add_test(group, test_partitions);
  tcase_add_test(group, test_gemm_traffic);
  tcase_add_test(group, test_sampling);
  tcase_add_test(group, test_odd_sizes);
  tcase_add_test(group, test_memory_runs_out);
  tcase_add_test(group, test_recorded_kernel);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed_count = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed_count == 0 ? 0 : 1;
}
