/* Speed of the L2 pass: line visits a second for a tiled matrix product by boxes, a stream of warp
 * loads, and a gather by lanes.
 *
 *   bench_l2 [name]     only rows whose name contains the text */
#include "model_nv/access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 4096, TILE = 128, STEP = 64, TILES = SIZE / TILE, STEPS = SIZE / STEP };
enum { STREAM_BLOCKS = 16384, STREAM_ACCESSES = 32, GATHER_ACCESSES = 8 };

struct work {
  const char *name;
  struct ts__access *accesses; /* of every block */
  struct ts__l2_block *blocks;
  struct ts_shift *shifts;
  uint32_t block_count;
  uint64_t lanes[32];
};

static void *make(size_t count, size_t size) {
  void *memory = calloc(count, size);
  if (!memory) exit(3);
  return memory;
}

/* Two shifts a block, for instructions 0 and 1. */
static void make_blocks(struct work *work, uint32_t block_count, uint32_t access_count) {
  work->block_count = block_count;
  work->accesses = make(access_count, sizeof *work->accesses);
  work->blocks = make(block_count, sizeof *work->blocks);
  work->shifts = make(block_count * 2, sizeof *work->shifts);
  for (uint32_t i = 0; i < block_count; i++) {
    struct ts_shift *shifts = &work->shifts[i * 2];
    shifts[1].insn = 1;
    work->blocks[i] = (struct ts__l2_block){work->accesses, access_count, shifts, 2};
  }
}

static struct ts__access make_box(uint32_t insn, uint64_t base, int32_t column) {
  return (struct ts__access){
      .insn = insn,
      .mask = 1,
      .bytes = TILE * STEP * 2,
      .footprint = {.kind = TS_FOOTPRINT_BOX,
                    .rank = 2,
                    .size_bytes = STEP * 2,
                    .base = base,
                    .extent = {STEP, TILE},
                    .coordinate = {column, 0},
                    .stride_bytes = {2, SIZE * 2},
                    .tensor_extent = {SIZE, SIZE}},
  };
}

static void make_gemm(struct work *work) {
  make_blocks(work, TILES * TILES, 2 * STEPS);
  for (int32_t i = 0; i < STEPS; i++) {
    work->accesses[2 * i] = make_box(0, UINT64_C(1) << 40, i * STEP);
    work->accesses[2 * i + 1] = make_box(1, UINT64_C(2) << 40, i * STEP);
  }
  for (uint32_t i = 0; i < work->block_count; i++) {
    work->shifts[2 * i].coordinate[1] = (int32_t)(i / TILES * TILE);
    work->shifts[2 * i + 1].coordinate[1] = (int32_t)(i % TILES * TILE);
  }
}

static void make_stream(struct work *work) {
  make_blocks(work, STREAM_BLOCKS, STREAM_ACCESSES);
  for (uint32_t i = 0; i < STREAM_ACCESSES; i++)
    work->accesses[i] = (struct ts__access){
        .insn = i % 2,
        .is_write = i % 2,
        .mask = UINT32_MAX,
        .bytes = 512,
        .footprint = {.kind = TS_FOOTPRINT_AFFINE,
                      .size_bytes = 16,
                      .base = (UINT64_C(1) + i % 2) * (UINT64_C(1) << 40) + i / 2 * 512,
                      .lane_stride = 16}};
  for (uint32_t i = 0; i < 2 * work->block_count; i++)
    work->shifts[i].bytes = (int64_t)(i / 2) * STREAM_ACCESSES / 2 * 512;
}

static void make_gather(struct work *work) {
  make_blocks(work, STREAM_BLOCKS, GATHER_ACCESSES);
  for (uint32_t i = 0; i < 32; i++)
    work->lanes[i] = (UINT64_C(1) << 40) + (i * 7919 % 32) * 8192;
  for (uint32_t i = 0; i < GATHER_ACCESSES; i++)
    work->accesses[i] = (struct ts__access){
        .mask = UINT32_MAX,
        .bytes = 128,
        .footprint = {.kind = TS_FOOTPRINT_LANES, .size_bytes = 4, .lanes = work->lanes}};
  for (uint32_t i = 0; i < 2 * work->block_count; i++)
    work->shifts[i].bytes = (int64_t)(i / 2) * 4;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void run(const struct work *work, uint32_t sample_shift, uint64_t duplicated_bytes) {
  struct ts_diag_list diags;
  if (ts_diag_list_init(&diags, &ts_allocator_libc) != TS_OK) exit(3);
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  struct ts__l2_settings settings = {.capacity_bytes = 50u << 20,
                                     .duplicated_bytes = duplicated_bytes,
                                     .concurrent_blocks = 132,
                                     .in_flight_accesses = 2,
                                     .sample_shift = sample_shift};
  struct ts__l2_pass pass = {0};
  double best = 1e9;
  for (int repeat = 0; repeat < 5; repeat++) {
    double start = seconds();
    if (ts__l2_run(&ctx, &settings, work->blocks, work->block_count, &pass, 1) != TS_OK) exit(3);
    double took = seconds() - start;
    best = took < best ? took : best;
  }
  struct ts__l2_totals totals = pass.totals;
  printf("%-8s 1 of %-3u %s %7.1f ms %7.1f M lines asked %7.1f M lines/s %6.1f ns a walked line"
         " %8.1f MB read %8.1f MB written %8.1f MB far\n",
         work->name, 1u << sample_shift, duplicated_bytes ? "2 sides" : "1 side ", best * 1e3,
         (double)totals.line_visits * 1e-6, (double)totals.line_visits / best * 1e-6,
         best * 1e9 / (double)totals.walked_lines, (double)totals.dram_read_sectors * 32e-6,
         (double)totals.dram_write_sectors * 32e-6, (double)totals.far_sectors * 32e-6);
  ts_diag_list_free(&diags);
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*make)(struct work *work);
  } rows[] = {{"gemm", make_gemm}, {"stream", make_stream}, {"gather", make_gather}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct work work = {.name = rows[i].name};
    if (argc > 1 && !strstr(work.name, argv[1])) continue;
    rows[i].make(&work);
    for (uint32_t shift = 0; shift <= 4; shift += 2) {
      run(&work, shift, 0);
      run(&work, shift, 25u << 20);
    }
    free(work.accesses);
    free(work.blocks);
    free(work.shifts);
  }
  return 0;
}
