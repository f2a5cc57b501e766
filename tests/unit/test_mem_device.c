/* Global memory: addresses, bounds, contents, short memory. */
#include "mem/mem.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_device_memory memory;
};

static void begin(struct fixture *x) {
  ck_assert_int_eq(ts_diag_list_init(&x->diags, &ts_allocator_libc), TS_OK);
  x->ctx = (struct ts_ctx){&ts_allocator_libc, &x->diags};
  ts_device_memory_init(&x->memory, &ts_allocator_libc);
}

static void end(struct fixture *x) {
  ts_device_memory_free(&x->memory);
  ts_diag_list_free(&x->diags);
}

START_TEST(test_addresses) {
  struct fixture x;
  uint64_t a, b, empty;
  char name[] = "first";
  begin(&x);
  ck_assert_int_eq(ts_device_allocate(&x.ctx, &x.memory, name, TS_DTYPE_f32, 100, &a), TS_OK);
  ck_assert_int_eq(ts_device_allocate(&x.ctx, &x.memory, "b", TS_DTYPE_f16, 64, &b), TS_OK);
  ck_assert_int_eq(ts_device_allocate(&x.ctx, &x.memory, "e", TS_DTYPE_u8, 0, &empty), TS_OK);
  memset(name, 'x', 5);
  ck_assert_str_eq(ts_device_find(&x.memory, a)->name, "first");
  ck_assert_uint_eq(a % (1 << 20), 0);
  ck_assert_uint_eq((uintptr_t)ts_device_pointer(&x.memory, a, 100) % 64, 0);
  ck_assert_uint_eq(*ts_device_pointer(&x.memory, a + 99, 1), 0xA5);
  ck_assert_ptr_null(ts_device_pointer(&x.memory, a + 99, 2));
  ck_assert_ptr_nonnull(ts_device_pointer(&x.memory, a + 100, 0));
  ck_assert_ptr_null(ts_device_pointer(&x.memory, a + 101, 0));
  ck_assert_ptr_null(ts_device_pointer(&x.memory, empty, 1));
  ck_assert_ptr_null(ts_device_pointer(&x.memory, a, UINT64_MAX));
  end(&x);
}
END_TEST

START_TEST(test_reserved) {
  struct fixture x;
  uint64_t a, b;
  begin(&x);
  ck_assert_int_eq(ts_device_reserve(&x.ctx, &x.memory, "a", TS_DTYPE_f32, (uint64_t)1 << 37, &a),
                   TS_OK);
  ck_assert_int_eq(ts_device_reserve(&x.ctx, &x.memory, "b", TS_DTYPE_f32, 64, &b), TS_OK);
  ck_assert_str_eq(ts_device_find(&x.memory, a + 4096)->name, "a");
  ck_assert_ptr_null(ts_device_pointer(&x.memory, a, 1));
  ck_assert_ptr_null(ts_device_pointer(&x.memory, b, 0));
  ck_assert_int_eq(ts_device_back(&x.ctx, &x.memory, b), TS_OK);
  ck_assert_int_eq(ts_device_back(&x.ctx, &x.memory, 0), TS_OK);
  uint8_t *data = ts_device_pointer(&x.memory, b, 64);
  ck_assert_ptr_nonnull(data);
  ck_assert_uint_eq(data[63], 0xA5);
  data[0] = 1;
  ck_assert_int_eq(ts_device_back(&x.ctx, &x.memory, b), TS_OK);
  ck_assert_ptr_eq(ts_device_pointer(&x.memory, b, 64), data);
  ck_assert_uint_eq(data[0], 1);
  end(&x);
}
END_TEST

/* An address that has left its allocation still names it. */
START_TEST(test_attribution) {
  struct fixture x;
  uint64_t a, b;
  begin(&x);
  ck_assert_int_eq(ts_device_allocate(&x.ctx, &x.memory, "a", TS_DTYPE_f32, 64, &a), TS_OK);
  ck_assert_int_eq(ts_device_allocate(&x.ctx, &x.memory, "b", TS_DTYPE_f32, 64, &b), TS_OK);
  ck_assert_str_eq(ts_device_find(&x.memory, b - 4)->name, "b");
  ck_assert_int_eq(ts_device_offset(b - 4), -4);
  ck_assert_ptr_null(ts_device_pointer(&x.memory, b - 4, 4));
  ck_assert_str_eq(ts_device_find(&x.memory, a + 1000000)->name, "a");
  ck_assert_ptr_null(ts_device_find(&x.memory, 0));
  ck_assert_ptr_null(ts_device_find(&x.memory, 16));
  ck_assert_ptr_null(ts_device_find(&x.memory, UINT64_MAX));
  end(&x);
}
END_TEST

START_TEST(test_too_large) {
  struct fixture x;
  uint64_t a;
  begin(&x);
  ck_assert_int_eq(ts_device_allocate(&x.ctx, &x.memory, "a", TS_DTYPE_u8, TS_ADDRESS_BIAS, &a),
                   TS_LIMIT);
  ck_assert_uint_eq(x.diags.items.count, 1);
  end(&x);
}
END_TEST

struct counter {
  int64_t left, live_bytes;
};

static void *counting_resize(void *user, void *old, size_t old_bytes, size_t new_bytes) {
  struct counter *counter = user;
  if (new_bytes > old_bytes && counter->left-- <= 0) return NULL;
  counter->live_bytes += (int64_t)new_bytes - (int64_t)old_bytes;
  if (new_bytes) return realloc(old, new_bytes);
  free(old);
  return NULL;
}

/* Every allocation may fail; nothing is lost. */
START_TEST(test_short_memory) {
  for (int64_t limit = 0; limit < 8; limit++) {
    struct fixture x;
    struct counter counter = {.left = limit};
    struct ts_allocator allocator = {counting_resize, &counter};
    uint64_t a;
    begin(&x);
    ts_device_memory_init(&x.memory, &allocator);
    bool failed = false;
    for (int i = 0; i < 3 && !failed; i++)
      failed = ts_device_allocate(&x.ctx, &x.memory, "a", TS_DTYPE_u8, 32, &a) != TS_OK;
    ck_assert_int_eq(failed, limit < 7);
    end(&x);
    ck_assert_int_eq(counter.live_bytes, 0);
  }
}
END_TEST

int main(void) {
  Suite *suite = suite_create("mem device");
  TCase *cases = tcase_create("all");
  tcase_add_test(cases, test_addresses);
  tcase_add_test(cases, test_reserved);
  tcase_add_test(cases, test_attribution);
  tcase_add_test(cases, test_too_large);
  tcase_add_test(cases, test_short_memory);
  suite_add_tcase(suite, cases);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
