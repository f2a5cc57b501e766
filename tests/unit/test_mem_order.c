/* Sets of what warps know of each other. */
#include "mem/order.h"

#include "support/suite.h"

#include <check.h>

enum { WARPS = 4 };

/* Stamps 1, 2, .. of every `step`th agent from `first` on. */
static const struct ts_far *far_of(struct ts_order *order, uint32_t first, uint32_t step) {
  uint32_t stamps[WARPS] = {0};
  for (uint32_t i = 0; i < WARPS; i += step)
    stamps[i] = i + 1;
  return ts_far_with(order, NULL, first, stamps, WARPS);
}

START_TEST(test_join) {
  struct ts_order order;
  ts_order_init(&order, &ts_allocator_libc);
  const struct ts_far *low = far_of(&order, 4, 1), *high = far_of(&order, 100, 2);
  const struct ts_far *both = ts_far_join(&order, low, high);
  ck_assert_uint_eq(both->count, 6);
  ck_assert_uint_eq(ts_far_stamp(both, 7), 4);
  ck_assert_uint_eq(ts_far_stamp(both, 102), 3);
  ck_assert_uint_eq(ts_far_stamp(both, 101), 0);
  ck_assert_uint_eq(ts_far_stamp(NULL, 7), 0);
  /* What adds nothing makes no new set; the newer stamp wins. */
  ck_assert_ptr_eq(ts_far_join(&order, both, low), both);
  ck_assert_ptr_eq(ts_far_join(&order, low, both), both);
  ck_assert_ptr_eq(ts_far_join(&order, NULL, low), low);
  const uint32_t newer[1] = {9};
  ck_assert_uint_eq(ts_far_stamp(ts_far_with(&order, both, 7, newer, 1), 7), 9);
  ck_assert_uint_eq(ts_far_stamp(both, 7), 4);
  ck_assert(!order.out_of_memory);
  ts_order_free(&order);
}
END_TEST

START_TEST(test_places) {
  struct ts_order order;
  ts_order_init(&order, &ts_allocator_libc);
  ck_assert_ptr_null(ts_order_place(&order, 5, false));
  for (uint64_t key = 1; key <= 1000; key++)
    ts_known_add(&order, &ts_order_place(&order, key << 3, true)->wide,
                 far_of(&order, (uint32_t)key * WARPS, 1));
  /* Sets of places outlive the blocks that told them. */
  ts_order_unit_start(&order);
  for (uint64_t key = 1; key <= 1000; key++) {
    struct ts_sync_place *place = ts_order_place(&order, key << 3, false);
    ck_assert_ptr_nonnull(place);
    const struct ts_far *far = ts_known_freeze(&order, &place->wide);
    ck_assert_uint_eq(far->count, WARPS);
    ck_assert_uint_eq(ts_far_stamp(far, (uint32_t)key * WARPS + 1), 2);
    ck_assert_ptr_eq(ts_known_freeze(&order, &place->wide), far);
  }
  ck_assert_ptr_null(ts_order_place(&order, 4, false));
  ts_order_free(&order);
}
END_TEST

int main(void) { return RUN_TESTS("mem_order", test_join, test_places); }
