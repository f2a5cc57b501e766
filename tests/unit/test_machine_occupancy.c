/* Occupancy: equal to what an H200's driver answers for 289 kernels, and each resource in turn. */
#include "machine/occupancy.h"
#include "support/suite.h"

#include <stdio.h>

static struct ts_occupancy find(struct ts_block_needs needs) {
  struct ts_machine machine;
  ts_machine_default(&machine);
  return ts_occupancy_find(&machine, &needs);
}

START_TEST(test_measured) {
  FILE *file = fopen("tests/machine/occupancy_h200.tsv", "r");
  char line[256], kernel[128];
  int row_count = 0;
  ck_assert_ptr_nonnull(file);
  while (fgets(line, sizeof line, file)) {
    uint32_t threads, registers, static_bytes, dynamic_bytes, blocks;
    if (*line == '#') continue;
    ck_assert_int_eq(sscanf(line, "%127s %u %u %u %u %u", kernel, &threads, &registers,
                            &static_bytes, &dynamic_bytes, &blocks),
                     6);
    struct ts_occupancy found = find((struct ts_block_needs){
        .threads = threads,
        .registers_per_thread = registers,
        .shared_bytes = static_bytes + dynamic_bytes,
    });
    ck_assert_msg(found.blocks_per_sm == blocks, "%s: %u blocks, measured %u", kernel,
                  found.blocks_per_sm, blocks);
    row_count++;
  }
  fclose(file);
  ck_assert_int_eq(row_count, 289);
}
END_TEST

static void check(struct ts_block_needs needs, uint32_t blocks, enum ts_resource limit) {
  struct ts_occupancy found = find(needs);
  ck_assert_uint_eq(found.blocks_per_sm, blocks);
  ck_assert_str_eq(ts_resource_name(found.limit), ts_resource_name(limit));
  ck_assert_uint_eq(found.blocks_by[limit], blocks);
  ck_assert_uint_eq(found.warps_per_sm, blocks * ((needs.threads + 31) / 32));
}

START_TEST(test_each_resource) {
  check((struct ts_block_needs){.threads = 32}, 32, TS_RESOURCE_BLOCKS);
  check((struct ts_block_needs){.threads = 96}, 21, TS_RESOURCE_THREADS);
  check((struct ts_block_needs){.threads = 128, .registers_per_thread = 154}, 3,
        TS_RESOURCE_REGISTERS);
  /* 5 warps of 96 registers: 5 per sub-partition, 20 in all; 4 blocks, not 65536 / 15360. */
  check((struct ts_block_needs){.threads = 160, .registers_per_thread = 96}, 4,
        TS_RESOURCE_REGISTERS);
  check((struct ts_block_needs){.threads = 128, .shared_bytes = 115712}, 2, TS_RESOURCE_SHARED);
  check((struct ts_block_needs){.threads = 128, .shared_bytes = 115713}, 1, TS_RESOURCE_SHARED);
  check((struct ts_block_needs){.threads = 64, .barriers = 16}, 4, TS_RESOURCE_BARRIERS);
}
END_TEST

START_TEST(test_does_not_fit) {
  check((struct ts_block_needs){.threads = 1056}, 0, TS_RESOURCE_THREADS);
  check((struct ts_block_needs){.threads = 32, .shared_bytes = 232449}, 0, TS_RESOURCE_SHARED);
  check((struct ts_block_needs){.threads = 32, .registers_per_thread = 256}, 0,
        TS_RESOURCE_REGISTERS);
  /* 9 warps count as 12 when the launch is checked: 12 * 32 * 176 registers are too many. */
  check((struct ts_block_needs){.threads = 288, .registers_per_thread = 176}, 0,
        TS_RESOURCE_REGISTERS);
  check((struct ts_block_needs){.threads = 288, .registers_per_thread = 168}, 1,
        TS_RESOURCE_REGISTERS);
  check((struct ts_block_needs){.threads = 128, .cluster_blocks = 17}, 0, TS_RESOURCE_CLUSTER);
  check((struct ts_block_needs){.threads = 128, .tensor_columns = 32}, 0, TS_RESOURCE_TENSOR);
}
END_TEST

START_TEST(test_tensor_memory) {
  struct ts_machine machine;
  ts_machine_default(&machine);
  machine.tensor_columns_per_sm = 512;
  struct ts_block_needs needs = {.threads = 128, .tensor_columns = 256};
  struct ts_occupancy found = ts_occupancy_find(&machine, &needs);
  ck_assert_uint_eq(found.blocks_per_sm, 2);
  ck_assert_int_eq(found.limit, TS_RESOURCE_TENSOR);
}
END_TEST

START_TEST(test_zeroes) { /* of a machine file divide nothing */
  struct ts_machine machine = {.max_threads_per_block = 1024, .max_registers_per_thread = 255};
  struct ts_block_needs needs = {.threads = 128, .registers_per_thread = 32, .barriers = 1};
  ck_assert_uint_eq(ts_occupancy_find(&machine, &needs).blocks_per_sm, 0);
}
END_TEST

int main(void) {
  return RUN_TESTS("machine_occupancy", test_measured, test_each_resource, test_does_not_fit,
                   test_tensor_memory, test_zeroes);
}
