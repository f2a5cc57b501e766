/* What is brought to shared memory and not read. */
#include "mem/use.h"

#include "support/suite.h"

#include <string.h>

enum { WINDOW_BYTES = 4096, CELL_BYTES = 16, LOADER = 3, WRITER = 4 };

static struct ts_diag_list diags;
static struct ts_ctx ctx = {&ts_allocator_libc, &diags};

static uint8_t window[WINDOW_BYTES + CELL_BYTES];

static void begin(struct ts_use *use) {
  memset(window, 1, sizeof window);
  ck_assert_int_eq(ts_use_init(&ctx, use, WINDOW_BYTES, CELL_BYTES), TS_OK);
  ts_use_reset(use, window);
}

static void bring(struct ts_use *use, uint32_t insn, uint64_t address, uint64_t size_bytes) {
  ts_use_begin(use, insn, 1);
  ts_use_put(use, insn, address, size_bytes);
  ts_use_end(use);
}

static void expect(struct ts_use *use, uint64_t lost_bytes, uint64_t first, uint32_t by) {
  ts_use_finish(use);
  ck_assert_uint_eq(use->finding_count, lost_bytes ? 1 : 0);
  if (lost_bytes) {
    ck_assert_uint_eq(use->findings[0].insn, LOADER);
    ck_assert_uint_eq(use->findings[0].lost_bytes, lost_bytes);
    ck_assert_uint_eq(use->findings[0].first_lost, first);
    ck_assert_uint_eq(use->findings[0].overwritten, by);
  }
  ts_use_free(use);
}

START_TEST(test_end_of_block) {
  struct ts_use use;
  begin(&use);
  bring(&use, LOADER, 256, 128);
  ts_use_read(&use, 272, 112);
  expect(&use, 16, 256, TS_USE_NOBODY);
  begin(&use);
  bring(&use, LOADER, 256, 128);
  ts_use_read(&use, 256, 128);
  expect(&use, 0, 0, 0);
}
END_TEST

START_TEST(test_overwritten) {
  struct ts_use use;
  begin(&use);
  bring(&use, LOADER, 0, 128);
  ts_use_read(&use, 0, 96);
  bring(&use, WRITER, 64, 64);
  ts_use_read(&use, 64, 64);
  expect(&use, 32, 96, WRITER);
}
END_TEST

/* Nobody needs it, or most of it. */
START_TEST(test_lost_as_a_whole) {
  struct ts_use use;
  begin(&use);
  bring(&use, LOADER, 0, 128);
  expect(&use, 0, 0, 0);
  begin(&use);
  bring(&use, LOADER, 0, 128);
  ts_use_read(&use, 0, 48);
  expect(&use, 0, 0, 0);
  begin(&use);
  bring(&use, LOADER, 0, 128);
  ts_use_read(&use, 0, 64);
  expect(&use, 64, 64, TS_USE_NOBODY);
}
END_TEST

/* What fills a tile behind the edge. */
START_TEST(test_zeros) {
  struct ts_use use;
  begin(&use);
  memset(window + 64, 0, 64);
  bring(&use, LOADER, 0, 128);
  ts_use_read(&use, 0, 64);
  expect(&use, 0, 0, 0);
  begin(&use);
  memset(window + 64, 0, 63);
  bring(&use, LOADER, 0, 128);
  ts_use_read(&use, 0, 64);
  expect(&use, 16, 112, TS_USE_NOBODY);
}
END_TEST

/* Lanes of one store may meet; what is put without a delivery is not followed. */
START_TEST(test_not_followed) {
  struct ts_use use;
  begin(&use);
  ts_use_begin(&use, LOADER, 0);
  ts_use_put(&use, LOADER, 0, 64);
  ts_use_put(&use, LOADER, 32, 64);
  ts_use_end(&use);
  ts_use_put(&use, WRITER, 512, 64);
  ts_use_read(&use, 0, 96);
  ts_use_read(&use, 512, 48);
  expect(&use, 0, 0, 0);
}
END_TEST

/* Deliveries are used again: as many live as there are cells, and the next block starts afresh. */
START_TEST(test_many) {
  struct ts_use use;
  begin(&use);
  for (int round = 0; round < 3; round++) {
    for (int pass = 0; pass < 4; pass++)
      for (uint64_t cell = 0; cell < WINDOW_BYTES / CELL_BYTES; cell++)
        bring(&use, LOADER, cell * CELL_BYTES, CELL_BYTES);
    ck_assert_uint_eq(use.finding_count, 0);
    ck_assert_uint_le(use.delivery_count, WINDOW_BYTES / CELL_BYTES + 1);
    ts_use_reset(&use, window);
  }
  bring(&use, LOADER, 0, 64);
  ts_use_read(&use, 0, 48);
  expect(&use, 16, 48, TS_USE_NOBODY);
}
END_TEST

int main(void) {
  return RUN_TESTS("mem_use", test_end_of_block, test_overwritten, test_lost_as_a_whole, test_zeros,
                   test_not_followed, test_many);
}
