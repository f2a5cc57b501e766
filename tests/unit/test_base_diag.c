/* Status codes, diagnostics (merging, order, limit, threads) and the thread pool. */
#include "base/diag.h"
#include "base/pool.h"
#include "support/failing_allocator.h"
#include "support/suite.h"

#include <stdatomic.h>

static struct ts_diag hazard_at(uint32_t line, int64_t block, const char *message) {
  return (struct ts_diag){.code = TS_DIAG_RACE_PENDING_READ,
                          .message = message,
                          .place = {"kernel.py", line, 1},
                          .function = "main",
                          .block = block,
                          .warp = 0,
                          .lane = 0};
}

START_TEST(status_table) {
  ck_assert_str_eq(ts_status_text(TS_OK), "success");
  ck_assert_int_eq(ts_status_exit(TS_OK), 0);
  ck_assert_int_eq(ts_status_exit(TS_DEADLOCK), 1);
  ck_assert_int_eq(ts_status_exit(TS_BAD_INPUT), 2);
  ck_assert_int_eq(ts_status_exit(TS_NO_MEMORY), 3);
  ck_assert_int_eq(ts_status_exit((enum ts_status)1000), 3);
  ck_assert_str_eq(ts_status_text((enum ts_status)1000), "unknown status");
  for (int i = 0; i < TS_STATUS_COUNT; i++) {
    ck_assert_int_le(ts_status_exit((enum ts_status)i), 3);
    ck_assert_uint_gt(strlen(ts_status_text((enum ts_status)i)), 0);
  }
}
END_TEST

START_TEST(codes_are_unique) {
  for (int i = 0; i < TS_DIAG_CODE_COUNT; i++) {
    ck_assert_int_eq(strncmp(ts_diag_code_text((enum ts_diag_code)i), "TS-", 3), 0);
    for (int k = 0; k < i; k++) {
      ck_assert_str_ne(ts_diag_code_text((enum ts_diag_code)i),
                       ts_diag_code_text((enum ts_diag_code)k));
    }
  }
  ck_assert_str_eq(ts_diag_code_text(TS_DIAG_RACE_PENDING_READ), "TS-RACE-001");
  ck_assert_int_eq(ts_diag_severity(TS_DIAG_RACE_PENDING_READ), TS_SEVERITY_HAZARD);
  ck_assert_int_eq(ts_diag_severity(TS_DIAG_ORDER_DEPENDENT), TS_SEVERITY_REMARK);
}
END_TEST

START_TEST(equal_ones_merge_to_the_lowest_block) {
  struct ts_diag_list list;
  char text[32];
  ck_assert_int_eq(ts_diag_list_init(&list, &ts_allocator_libc), TS_OK);
  for (int block = 9; block >= 0; block--) {
    snprintf(text, sizeof text, "block %d", block);
    struct ts_diag diag = hazard_at(7, block, text);
    ts_diag_add(&list, &diag);
  }
  struct ts_diag later = hazard_at(7, 5, "block 5");
  ts_diag_add(&list, &later);
  ck_assert_uint_eq(list.items.count, 1);
  ck_assert_uint_eq(list.items.data[0].repeat_count, 11);
  ck_assert_int_eq(list.items.data[0].block, 0);
  ck_assert_str_eq(list.items.data[0].message, "block 0");
  struct ts_diag other = hazard_at(7, 0, "x");
  other.other = (struct ts_source_place){"kernel.py", 3, 1};
  ts_diag_add(&list, &other);
  other.function = "second";
  ts_diag_add(&list, &other);
  ck_assert_uint_eq(list.items.count, 3);
  ts_diag_list_free(&list);
}
END_TEST

START_TEST(strings_are_copied) {
  struct ts_diag_list list;
  char message[] = "first", file[] = "a.py", hint[] = "wait";
  ck_assert_int_eq(ts_diag_list_init(&list, &ts_allocator_libc), TS_OK);
  struct ts_diag diag = {.code = TS_DIAG_DEADLOCK, .message = message, .hint = hint};
  diag.place.file = file;
  ts_diag_add(&list, &diag);
  memset(message, 'z', 5), memset(file, 'z', 4), memset(hint, 'z', 4);
  ck_assert_str_eq(list.items.data[0].message, "first");
  ck_assert_str_eq(list.items.data[0].place.file, "a.py");
  ck_assert_str_eq(list.items.data[0].hint, "wait");
  ck_assert_ptr_null(list.items.data[0].function);
  ts_diag_list_free(&list);
}
END_TEST

START_TEST(errors_differ_by_message) {
  struct ts_diag_list list;
  ck_assert_int_eq(ts_diag_list_init(&list, &ts_allocator_libc), TS_OK);
  struct ts_ctx ctx = {&ts_allocator_libc, &list};
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 3; i++) {
      enum ts_status status = ts_fail(&ctx, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING, TS_NO_PLACE,
                                      "no argument %c", 'A' + i);
      ck_assert_int_eq(status, TS_BAD_ARGUMENT);
    }
  }
  ck_assert_uint_eq(list.items.count, 3);
  ck_assert_str_eq(list.items.data[2].message, "no argument C");
  ck_assert_uint_eq(list.items.data[2].repeat_count, 2);
  ck_assert_int_eq(list.items.data[2].block, -1);
  ts_diag_list_free(&list);
}
END_TEST

START_TEST(long_messages_are_whole) {
  struct ts_diag_list list;
  ck_assert_int_eq(ts_diag_list_init(&list, &ts_allocator_libc), TS_OK);
  struct ts_ctx ctx = {&ts_allocator_libc, &list};
  ts_fail(&ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE("x"), "%02000d", 5);
  ck_assert_uint_eq(strlen(list.items.data[0].message), 2000);
  ck_assert_int_eq(list.items.data[0].message[1999], '5');
  ts_diag_list_free(&list);
}
END_TEST

START_TEST(limit_counts_the_rest) {
  struct ts_diag_list list;
  ck_assert_int_eq(ts_diag_list_init(&list, &ts_allocator_libc), TS_OK);
  list.limit = 10;
  for (uint32_t line = 1; line <= 25; line++) {
    struct ts_diag diag = hazard_at(line, 0, "m");
    ts_diag_add(&list, &diag);
  }
  ck_assert_uint_eq(list.items.count, 10);
  ck_assert_uint_eq(list.dropped_count, 15);
  ts_diag_list_free(&list);
}
END_TEST

START_TEST(diag_survives_failure) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  for (int mode = 0; mode < 2; mode++) {
    memory.fails_from_there = mode == 1;
    for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
      struct ts_diag_list list;
      if (ts_diag_list_init(&list, &memory.allocator) != TS_OK) continue;
      struct ts_ctx ctx = {&memory.allocator, &list};
      for (uint32_t line = 1; line < 200; line++) {
        struct ts_source_place place = {"k.py", line, 1};
        ck_assert_int_eq(ts_fail(&ctx, TS_TRAP, TS_DIAG_DEVICE_TRAP, place, "%0700u", line),
                         TS_TRAP);
      }
      if (list.items.count < 199) ck_assert(list.out_of_memory);
      for (size_t i = 0; i < list.items.count; i++)
        ck_assert_ptr_nonnull(list.items.data[i].message);
      ts_diag_list_free(&list);
    }
    ck_assert_uint_eq(memory.alive_blocks, 0);
  }
}
END_TEST

static enum ts_status report(void *user, uint32_t worker, uint64_t index) {
  (void)worker;
  char text[32];
  snprintf(text, sizeof text, "from block %d", (int)index);
  struct ts_diag diag = hazard_at((uint32_t)(index % 17 + 1), (int64_t)index, text);
  ts_diag_add(user, &diag);
  return TS_OK;
}

START_TEST(threads_give_the_same_list) {
  struct ts_diag_list one, many;
  ck_assert_int_eq(ts_diag_list_init(&one, &ts_allocator_libc), TS_OK);
  ck_assert_int_eq(ts_diag_list_init(&many, &ts_allocator_libc), TS_OK);
  ck_assert_int_eq(ts_pool_run(1, 2000, report, &one), TS_OK);
  ck_assert_int_eq(ts_pool_run(8, 2000, report, &many), TS_OK);
  ts_diag_list_sort(&one);
  ts_diag_list_sort(&many);
  ck_assert_uint_eq(one.items.count, 17);
  ck_assert_uint_eq(many.items.count, 17);
  for (size_t i = 0; i < 17; i++) {
    ck_assert_int_eq(one.items.data[i].block, (int64_t)i);
    ck_assert_int_eq(many.items.data[i].block, (int64_t)i);
    ck_assert_str_eq(one.items.data[i].message, many.items.data[i].message);
    ck_assert_uint_eq(one.items.data[i].repeat_count, many.items.data[i].repeat_count);
  }
  ts_diag_list_free(&one);
  ts_diag_list_free(&many);
}
END_TEST

struct pool_record {
  _Atomic uint32_t runs[1000];
  _Atomic uint32_t worker_seen[300];
  uint64_t failing_a, failing_b;
};

static enum ts_status record(void *user, uint32_t worker, uint64_t index) {
  struct pool_record *record = user;
  atomic_fetch_add(&record->runs[index], 1);
  atomic_fetch_add(&record->worker_seen[worker], 1);
  if (index == record->failing_a) return TS_TRAP;
  if (index == record->failing_b) return TS_HAZARD;
  return TS_OK;
}

START_TEST(pool_runs_each_index_once) {
  const uint32_t workers[] = {0, 1, 2, 7, 10000};
  for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
    struct pool_record state = {.failing_a = UINT64_MAX, .failing_b = UINT64_MAX};
    ck_assert_int_eq(ts_pool_run(workers[w], 1000, record, &state), TS_OK);
    for (int i = 0; i < 1000; i++)
      ck_assert_uint_eq(state.runs[i], 1);
    for (uint32_t k = workers[w] ? workers[w] : 1; k < 300; k++) {
      ck_assert_uint_eq(state.worker_seen[k], 0);
    }
  }
}
END_TEST

START_TEST(pool_returns_the_lowest_failure) {
  for (int round = 0; round < 200; round++) {
    struct pool_record state = {.failing_a = 500, .failing_b = 498};
    ck_assert_int_eq(ts_pool_run(4, 1000, record, &state), TS_HAZARD);
    for (int i = 0; i <= 498; i++)
      ck_assert_uint_eq(state.runs[i], 1);
  }
  struct pool_record alone = {.failing_a = 3, .failing_b = 2};
  ck_assert_int_eq(ts_pool_run(1, 1000, record, &alone), TS_HAZARD);
  ck_assert_uint_eq(alone.runs[3], 0);
}
END_TEST

START_TEST(pool_without_tasks) { ck_assert_int_eq(ts_pool_run(4, 0, record, NULL), TS_OK); }
END_TEST

int main(void) {
  return RUN_TESTS("base_diag", status_table, codes_are_unique,
                   equal_ones_merge_to_the_lowest_block, strings_are_copied,
                   errors_differ_by_message, long_messages_are_whole, limit_counts_the_rest,
                   diag_survives_failure, threads_give_the_same_list, pool_runs_each_index_once,
                   pool_returns_the_lowest_failure, pool_without_tasks);
}
