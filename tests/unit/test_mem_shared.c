/* Shared memory: what is in flight, who has waited, and what conflicts. */
#include "mem/mem.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_shared_memory shared;
};

static void begin(struct fixture *x, uint32_t warps) {
  ck_assert_int_eq(ts_diag_list_init(&x->diags, &ts_allocator_libc), TS_OK);
  x->ctx = (struct ts_ctx){&ts_allocator_libc, &x->diags};
  ck_assert_int_eq(ts_shared_init(&x->ctx, &x->shared, &ts_allocator_libc, 4096, 16, warps), TS_OK);
}

static void end(struct fixture *x) {
  ts_shared_free(&x->shared);
  ts_diag_list_free(&x->diags);
}

static uint32_t open_range(struct fixture *x, enum ts_pending_kind kind, uint64_t first,
                           uint64_t last) {
  struct ts_pending record = {
      .kind = kind, .insn = 7, .begin = first, .end = last, .sync_address = UINT32_MAX};
  return ts_pending_open(&x->shared, record);
}

static bool reads(const struct fixture *x, uint32_t warp, uint64_t address, uint64_t size) {
  return ts_pending_check_read(&x->shared, warp, address, size) == NULL;
}

static bool writes(const struct fixture *x, uint32_t warp, uint64_t address, uint64_t size) {
  return ts_pending_check_write(&x->shared, warp, address, size) == NULL;
}

START_TEST(test_contents) {
  struct fixture x;
  begin(&x, 4);
  ck_assert_uint_eq((uintptr_t)x.shared.data % 1024, 0);
  for (int i = 0; i < 4096 + 64; i++)
    ck_assert_uint_eq(x.shared.data[i], 0xA5);
  uint64_t version = x.shared.version;
  x.shared.data[5] = 0;
  open_range(&x, TS_PENDING_CP_ASYNC, 0, 4096);
  ts_shared_reset(&x.shared, 2);
  ck_assert_uint_eq(x.shared.data[5], 0xA5);
  ck_assert_uint_eq(x.shared.live_count, 0);
  ck_assert_uint_eq(x.shared.warp_mask, 3);
  ck_assert_uint_gt(x.shared.version, version);
  ck_assert(reads(&x, 0, 0, 4096));
  end(&x);
}
END_TEST

/* A destination is unreadable until the warp has waited, whether or not the bytes have moved. */
START_TEST(test_destination) {
  struct fixture x;
  begin(&x, 3);
  uint32_t record = open_range(&x, TS_PENDING_CP_ASYNC, 100, 132);
  ck_assert(!reads(&x, 0, 128, 4));
  ck_assert(!writes(&x, 1, 131, 1));
  ck_assert(reads(&x, 0, 132, 4)); /* same granule, but the range ends before */
  ck_assert(reads(&x, 0, 96, 4));
  ts_pending_landed(&x.shared, record);
  ck_assert(!reads(&x, 0, 100, 1));
  ts_pending_observe(&x.shared, record, 1 << 0);
  ck_assert(reads(&x, 0, 100, 32));
  ck_assert(!reads(&x, 1, 100, 32));
  ts_pending_join(&x.shared, 1 << 0 | 1 << 1);
  ck_assert(reads(&x, 1, 100, 32));
  ck_assert(!reads(&x, 2, 100, 32));
  ck_assert_uint_eq(x.shared.live_count, 1);
  ts_pending_flow(&x.shared, 1 << 1, 1 << 2);
  ck_assert_uint_eq(x.shared.live_count, 0);
  ck_assert(reads(&x, 2, 100, 32));
  end(&x);
}
END_TEST

/* A barrier of warps none of which has waited changes nothing. */
START_TEST(test_join_without_wait) {
  struct fixture x;
  begin(&x, 2);
  uint32_t record = open_range(&x, TS_PENDING_CP_ASYNC, 0, 16);
  ts_pending_landed(&x.shared, record);
  ts_pending_join(&x.shared, 3);
  ck_assert(!reads(&x, 0, 0, 16));
  ck_assert(!reads(&x, 1, 0, 16));
  end(&x);
}
END_TEST

START_TEST(test_source) {
  struct fixture x;
  begin(&x, 2);
  uint32_t record = open_range(&x, TS_PENDING_STORE_SOURCE, 256, 512);
  ck_assert(reads(&x, 1, 256, 256));
  ck_assert(!writes(&x, 1, 511, 1));
  ck_assert(writes(&x, 1, 512, 16));
  ts_pending_observe(&x.shared, record, 3);
  ck_assert(writes(&x, 1, 256, 256));
  end(&x);
}
END_TEST

START_TEST(test_phases) {
  struct fixture x;
  begin(&x, 2);
  uint32_t a = open_range(&x, TS_PENDING_TMA_LOAD, 0, 64);
  uint32_t b = open_range(&x, TS_PENDING_TMA_LOAD, 64, 128);
  ts_pending_set_sync(&x.shared, a, 1024, 0);
  ts_pending_set_sync(&x.shared, b, 1024, 1);
  ts_pending_landed(&x.shared, b);
  ts_pending_observe_sync(&x.shared, 1024, 1, 1);
  ck_assert(!reads(&x, 0, 0, 64)); /* not landed */
  ts_pending_landed(&x.shared, a);
  ts_pending_observe_sync(&x.shared, 1032, 1, 1);
  ck_assert(!reads(&x, 0, 0, 64)); /* another mbarrier */
  ts_pending_observe_sync(&x.shared, 1024, 1, 1);
  ck_assert(reads(&x, 0, 0, 64));
  ck_assert(!reads(&x, 0, 64, 64)); /* a later phase */
  ck_assert(!reads(&x, 1, 0, 64));
  ts_pending_observe_sync(&x.shared, 1024, 2, 3);
  ck_assert(reads(&x, 1, 64, 64));
  end(&x);
}
END_TEST

/* Pieces of one record: only whole granules of later pieces count. */
START_TEST(test_pieces) {
  struct fixture x;
  begin(&x, 2);
  uint32_t record = open_range(&x, TS_PENDING_CP_ASYNC, 0, 0);
  ck_assert_uint_eq(x.shared.live_count, 1);
  ts_pending_extend(&x.shared, record, 160, 192);
  ts_pending_extend(&x.shared, record, 320, 344);
  ck_assert(!reads(&x, 0, 160, 1));
  ck_assert(reads(&x, 0, 192, 128));
  ck_assert(!reads(&x, 0, 320, 16));
  ck_assert(reads(&x, 0, 336, 4));
  ck_assert(reads(&x, 0, 144, 16));
  ts_pending_observe(&x.shared, record, 3);
  ck_assert(reads(&x, 0, 0, 4096));
  ck_assert_uint_eq(x.shared.live_count, 0);
  end(&x);
}
END_TEST

/* The newest record has a granule; numbers of ended records name nobody. */
START_TEST(test_replacement) {
  struct fixture x;
  begin(&x, 2);
  uint32_t a = open_range(&x, TS_PENDING_CP_ASYNC, 0, 32);
  uint32_t b = open_range(&x, TS_PENDING_CP_ASYNC, 0, 16);
  ck_assert_uint_eq(x.shared.live_count, 2);
  ts_pending_observe(&x.shared, a, 1);
  ck_assert(!reads(&x, 0, 0, 16));
  ck_assert(reads(&x, 0, 16, 16));
  uint32_t c = open_range(&x, TS_PENDING_CP_ASYNC, 0, 64);
  ck_assert_uint_eq(x.shared.live_count, 1);
  ck_assert(!ts_pending_is_live(&x.shared, a));
  ck_assert(!ts_pending_is_live(&x.shared, b));
  ts_pending_landed(&x.shared, a);
  ts_pending_observe(&x.shared, b, 3);
  ck_assert(ts_pending_is_live(&x.shared, c));
  ck_assert(!reads(&x, 1, 48, 16));
  ts_pending_retire(&x.shared, c);
  ck_assert(reads(&x, 1, 0, 64));
  ts_pending_retire(&x.shared, c);
  ts_pending_retire(&x.shared, TS_PENDING_NONE);
  ck_assert_uint_eq(x.shared.live_count, 0);
  end(&x);
}
END_TEST

/* Records are used again, and their memory does not grow. */
START_TEST(test_reuse) {
  struct fixture x;
  begin(&x, 64);
  for (int i = 0; i < 200000; i++) {
    uint32_t record = open_range(&x, TS_PENDING_TMA_LOAD, 16 * (uint64_t)(i % 8), 64);
    ts_pending_landed(&x.shared, record);
    ts_pending_observe(&x.shared, record, UINT64_MAX);
  }
  ck_assert_uint_eq(x.shared.live_count, 0);
  ck_assert_uint_le(x.shared.records.count, 2);
  end(&x);
}
END_TEST

/* Against a model that keeps an owner per byte, granules being whole here. */
START_TEST(test_model) {
  enum { GRANULES = 64, RECORDS = 40 };
  struct fixture x;
  begin(&x, 2);
  int owner[GRANULES];
  uint32_t numbers[RECORDS];
  bool seen[RECORDS] = {false};
  uint64_t z = 1;
  for (int round = 0; round < 200; round++) {
    ts_shared_reset(&x.shared, 2);
    memset(owner, -1, sizeof owner);
    memset(seen, 0, sizeof seen);
    for (int r = 0; r < RECORDS; r++) {
      z = z * 6364136223846793005u + 1442695040888963407u;
      uint64_t first = z >> 33 & 63, count = 1 + (z >> 40 & 7);
      if (first + count > GRANULES) count = GRANULES - first;
      numbers[r] = open_range(&x, TS_PENDING_CP_ASYNC, first * 16, (first + count) * 16);
      for (uint64_t g = first; g < first + count; g++)
        owner[g] = r;
      int waited = (int)(z >> 50) % (r + 1);
      ts_pending_observe(&x.shared, numbers[waited], 1);
      seen[waited] = true;
      for (int g = 0; g < GRANULES; g++)
        ck_assert_int_eq(reads(&x, 0, (uint64_t)g * 16, 16), owner[g] < 0 || seen[owner[g]]);
    }
  }
  end(&x);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mem shared");
  TCase *cases = tcase_create("all");
  tcase_add_test(cases, test_contents);
  tcase_add_test(cases, test_destination);
  tcase_add_test(cases, test_join_without_wait);
  tcase_add_test(cases, test_source);
  tcase_add_test(cases, test_phases);
  tcase_add_test(cases, test_pieces);
  tcase_add_test(cases, test_replacement);
  tcase_add_test(cases, test_reuse);
  tcase_add_test(cases, test_model);
  suite_add_tcase(suite, cases);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
