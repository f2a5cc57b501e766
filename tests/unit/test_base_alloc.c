/* Arenas, growing arrays and interning, with memory plentiful and short. */
#include "base/alloc.h"
#include "base/intern.h"
#include "support/failing_allocator.h"
#include "support/suite.h"

static bool all_bytes_are(const unsigned char *block, size_t size_bytes, unsigned char value) {
  for (size_t i = 0; i < size_bytes; i++) {
    if (block[i] != value) return false;
  }
  return true;
}

START_TEST(arena_aligns_and_zeroes) {
  struct failing_allocator memory;
  struct ts_arena arena;
  failing_allocator_init(&memory);
  ts_arena_init(&arena, &memory.allocator);
  for (size_t i = 0; i < 5000; i++) {
    size_t align_bytes = (size_t)1 << i % 7;
    size_t size_bytes = i * 37 % 3001;
    unsigned char *block = ts_arena_alloc(&arena, size_bytes, align_bytes);
    ck_assert_ptr_nonnull(block);
    ck_assert_uint_eq((uintptr_t)block % align_bytes, 0);
    ck_assert(all_bytes_are(block, size_bytes, 0));
    memset(block, 0xff, size_bytes);
  }
  ck_assert_uint_eq(arena.total_bytes <= memory.alive_bytes, 1);
  ts_arena_free(&arena);
  ck_assert_uint_eq(memory.alive_blocks, 0);
  ck_assert_uint_eq(arena.total_bytes, 0);
}
END_TEST

START_TEST(arena_blocks_do_not_overlap) {
  struct ts_arena arena;
  unsigned char *blocks[300];
  ts_arena_init(&arena, &ts_allocator_libc);
  for (size_t i = 0; i < 300; i++) {
    blocks[i] = ts_arena_alloc(&arena, 100 + i * 50, 8);
    memset(blocks[i], (int)(i & 0xff), 100 + i * 50);
  }
  for (size_t i = 0; i < 300; i++) {
    ck_assert(all_bytes_are(blocks[i], 100 + i * 50, (unsigned char)i));
  }
  ts_arena_free(&arena);
}
END_TEST

START_TEST(arena_big_block_keeps_the_small_chunk_in_use) {
  struct failing_allocator memory;
  struct ts_arena arena;
  failing_allocator_init(&memory);
  ts_arena_init(&arena, &memory.allocator);
  ck_assert_ptr_nonnull(ts_arena_alloc(&arena, 8, 8));
  ck_assert_ptr_nonnull(ts_arena_alloc(&arena, 1 << 22, 64));
  uint64_t blocks = memory.alive_blocks;
  ck_assert_ptr_nonnull(ts_arena_alloc(&arena, 8, 8));
  ck_assert_uint_eq(memory.alive_blocks, blocks);
  ts_arena_free(&arena);
}
END_TEST

START_TEST(arena_refuses_absurd_sizes) {
  struct ts_arena arena;
  ts_arena_init(&arena, &ts_allocator_libc);
  ck_assert_ptr_null(ts_arena_alloc(&arena, SIZE_MAX, 1));
  ck_assert_ptr_null(ts_arena_alloc(&arena, SIZE_MAX - 100, 64));
  ck_assert_ptr_null(ts_arena_alloc_array(&arena, SIZE_MAX / 2, 4, 4));
  ck_assert_ptr_null(ts_arena_copy(&arena, "", SIZE_MAX));
  ck_assert_ptr_nonnull(ts_arena_alloc(&arena, 0, 1));
  ck_assert_ptr_ne(ts_arena_alloc(&arena, 0, 1), ts_arena_alloc(&arena, 0, 1));
  ts_arena_free(&arena);
}
END_TEST

START_TEST(arena_text) {
  struct ts_arena arena;
  ts_arena_init(&arena, &ts_allocator_libc);
  ck_assert_str_eq(ts_arena_copy(&arena, "abcdef", 3), "abc");
  ck_assert_str_eq(ts_arena_copy(&arena, NULL, 0), "");
  ck_assert_str_eq(ts_arena_printf(&arena, "%s-%d", "x", 42), "x-42");
  char *wide = ts_arena_printf(&arena, "%05000d", 7);
  ck_assert_uint_eq(strlen(wide), 5000);
  ck_assert_int_eq(wide[4999], '7');
  ts_arena_free(&arena);
}
END_TEST

START_TEST(arena_survives_failure) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  uint64_t rounds = 0;
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++, rounds++) {
    struct ts_arena arena;
    ts_arena_init(&arena, &memory.allocator);
    for (size_t i = 0; i < 100; i++) {
      int *numbers = ts_new_array(&arena, int, 200);
      if (!numbers) continue;
      for (int k = 0; k < 200; k++)
        ck_assert_int_eq(numbers[k]++, 0);
    }
    ts_arena_free(&arena);
  }
  ck_assert_uint_gt(rounds, 3);
}
END_TEST

START_TEST(vec_grows) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  TS_VEC(uint32_t) vec = {0};
  for (uint32_t i = 0; i < 10000; i++)
    ck_assert_int_eq(ts_vec_push(&vec, &memory.allocator, i * i), 0);
  ck_assert_uint_eq(vec.count, 10000);
  for (uint32_t i = 0; i < 10000; i++)
    ck_assert_uint_eq(vec.data[i], i * i);
  ck_assert_uint_lt(memory.call_count, 20);
  ck_assert_int_eq(ts_vec_reserve(&vec, &memory.allocator, SIZE_MAX), -1);
  ck_assert_int_eq(ts_vec_reserve(&vec, &memory.allocator, SIZE_MAX / 4), -1);
  ck_assert_uint_eq(vec.count, 10000);
  ts_vec_free(&vec, &memory.allocator);
  ck_assert_ptr_null(vec.data);
  ck_assert_uint_eq(memory.alive_blocks, 0);
}
END_TEST

START_TEST(vec_is_unchanged_by_failure) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    TS_VEC(uint64_t) vec = {0};
    uint64_t pushed = 0;
    for (uint64_t i = 0; i < 1000; i++) {
      if (ts_vec_push(&vec, &memory.allocator, i) == 0) pushed++;
      ck_assert_uint_eq(vec.count, pushed);
    }
    for (size_t i = 1; i < vec.count; i++)
      ck_assert_uint_gt(vec.data[i], vec.data[i - 1]);
    ts_vec_free(&vec, &memory.allocator);
  }
}
END_TEST

START_TEST(intern_makes_equal_strings_one) {
  struct ts_arena arena;
  struct ts_intern table;
  const char *first[3000];
  ts_arena_init(&arena, &ts_allocator_libc);
  ts_intern_init(&table, &arena);
  for (size_t i = 0; i < 3000; i++) {
    char text[32];
    int length = snprintf(text, sizeof text, "name_%zu", i);
    first[i] = ts_intern(&table, text, (size_t)length);
    ck_assert_str_eq(first[i], text);
  }
  for (size_t i = 0; i < 3000; i++) {
    char text[40];
    int length = snprintf(text, sizeof text, "name_%zuTAIL", i);
    ck_assert_ptr_eq(ts_intern(&table, text, (size_t)length - 4), first[i]);
  }
  ck_assert_uint_eq(table.used_count, 3000);
  ts_arena_free(&arena);
}
END_TEST

START_TEST(intern_takes_any_bytes) {
  struct ts_arena arena;
  struct ts_intern table;
  ts_arena_init(&arena, &ts_allocator_libc);
  ts_intern_init(&table, &arena);
  const char *empty = ts_intern(&table, NULL, 0);
  const char *short_one = ts_intern(&table, "a", 1);
  const char *long_one = ts_intern(&table, "a\0b", 3);
  ck_assert_str_eq(empty, "");
  ck_assert_ptr_eq(ts_intern(&table, "", 0), empty);
  ck_assert_ptr_ne(short_one, long_one);
  ck_assert_ptr_eq(ts_intern(&table, "a\0b", 3), long_one);
  ck_assert_ptr_eq(ts_intern(&table, "a\0c", 1), short_one);
  ck_assert_ptr_null(ts_intern(&table, "x", SIZE_MAX));
  ts_arena_free(&arena);
}
END_TEST

START_TEST(intern_survives_failure) {
  struct failing_allocator memory;
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct ts_arena arena;
    struct ts_intern table;
    ts_arena_init(&arena, &memory.allocator);
    ts_intern_init(&table, &arena);
    for (unsigned i = 0; i < 600; i++) {
      char text[16];
      int length = snprintf(text, sizeof text, "%u", i);
      const char *once = ts_intern(&table, text, (size_t)length);
      const char *again = ts_intern(&table, text, (size_t)length);
      if (once) ck_assert_ptr_eq(once, again);
      if (again) ck_assert_str_eq(again, text);
    }
    ts_arena_free(&arena);
  }
}
END_TEST

int main(void) {
  return RUN_TESTS("base_alloc", arena_aligns_and_zeroes, arena_blocks_do_not_overlap,
                   arena_big_block_keeps_the_small_chunk_in_use, arena_refuses_absurd_sizes,
                   arena_text, arena_survives_failure, vec_grows, vec_is_unchanged_by_failure,
                   intern_makes_equal_strings_one, intern_takes_any_bytes, intern_survives_failure);
}
