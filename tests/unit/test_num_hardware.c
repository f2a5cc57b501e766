/* The library against what an H200 gave (tests/num/device/probes.cu, traces/num): the first vectors
 * of every case and kind, and the open questions one by one. tests/num/test_hardware_all.c does all
 * vectors. */
#include <stdio.h>

#include "base/file.h"
#include "support/hardware_replay.h"
#include "support/suite.h"

enum { FIRST_MATRIX = 128, FIRST_ELEMENTS = 64 }; /* results that are kept as such */

/* Check reports every assertion to its parent process; in hot loops only failures matter. */
#define check(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                   \
  } while (0)

/* Words of a recorded file, little-endian. */
struct words {
  struct ts_file file;
  size_t next;
};

static struct ts_diag_list diags;
static struct ts_ctx ctx = {&ts_allocator_libc, &diags};

static struct words words_of(const char *path) {
  struct words words = {.next = 0};
  ck_assert_int_eq(ts_file_read(&ctx, path, 1 << 24, &words.file), TS_OK);
  return words;
}

static uint64_t next_word(struct words *words) {
  check(words->next + 8 <= words->file.size_bytes, "the file is short");
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i)
    word = word << 8 | (uint8_t)words->file.data[words->next + (size_t)i];
  words->next += 8;
  return word;
}

static void finish(struct words *words) {
  ck_assert_uint_eq(words->next, words->file.size_bytes);
  ts_file_free(&words->file);
}

/* Matrix instructions -------------------------------------------------------------------------- */

static void check_first_tile(uint32_t index, uint32_t kind, struct ts_mma_scratch *scratch,
                             unsigned flags, const uint64_t *expected) {
  struct tile t;
  fill_tile(&t, index, kind, 0);
  multiply_tile(&t, &matrix_cases[index], scratch, flags);
  for (uint32_t i = 0; i < FIRST_MATRIX; ++i)
    check(t.d[i] == expected[i], "%s kind %u (%u, %u): %llx, H200 %llx", matrix_cases[index].name,
          kind, i / 8, i % 8, (unsigned long long)t.d[i], (unsigned long long)expected[i]);
}

START_TEST(matrix_instructions) {
  struct words sums = words_of("traces/num/mma_h200.bin");
  struct words first = words_of("traces/num/mma_first_h200.bin.xz");
  struct ts_mma_scratch *scratch = ts_mma_scratch_new(&ts_allocator_libc, 64, 8, 64);
  uint64_t expected[FIRST_MATRIX];
  for (uint32_t index = 0; index < MATRIX_CASES; ++index) {
    for (uint32_t kind = 0; kind < PV_KINDS; ++kind) {
      for (uint32_t i = 0; i < FIRST_MATRIX; ++i)
        expected[i] = next_word(&first);
      check_first_tile(index, kind, scratch, 0, expected);
      check_first_tile(index, kind, scratch, TS_MMA_REFERENCE, expected);
      uint64_t sum = matrix_fingerprint(index, kind, 0, PV_QUICK, scratch, 0);
      check(sum == next_word(&sums), "%s: kind %u", matrix_cases[index].name, kind);
      next_word(&sums);
    }
  }
  ts_mma_scratch_free(scratch);
  finish(&sums);
  finish(&first);
}
END_TEST

/* Elements ------------------------------------------------------------------------------------- */

static void check_first_elements(uint32_t index, uint32_t kind, struct words *first) {
  const struct element_case *e = &element_cases[index];
  union slots x[3], d;
  for (uint32_t role = 0; role < element_arity(e); ++role)
    for (uint32_t i = 0; i < FIRST_ELEMENTS; ++i)
      set_slot(&x[role], e->in, i, pv_operand(e->format, index, kind, role, element_arity(e), i));
  check(evaluate(e, &d, x, FIRST_ELEMENTS), "%s is not known", e->name);
  for (uint32_t i = 0; i < FIRST_ELEMENTS; ++i) {
    uint64_t expected = next_word(first), result = get_slot(&d, e->out, i);
    check(result == expected, "%s kind %u of %llx ...: %llx, H200 %llx", e->name, kind,
          (unsigned long long)get_slot(&x[0], e->in, i), (unsigned long long)result,
          (unsigned long long)expected);
  }
}

START_TEST(elements) {
  struct words sums = words_of("traces/num/elementwise_h200.bin");
  struct words first = words_of("traces/num/elementwise_first_h200.bin.xz");
  for (uint32_t index = 0; index < ELEMENT_CASES; ++index) {
    const struct element_case *e = &element_cases[index];
    for (uint32_t kind = 0; kind < PV_KINDS; ++kind) {
      bool known;
      check_first_elements(index, kind, &first);
      uint64_t sum = kind_fingerprint(index, kind, 0, PV_QUICK, &known);
      check(known && sum == next_word(&sums), "%s: kind %u", e->name, kind);
      next_word(&sums);
    }
    for (uint32_t part = 0; part < sweep_parts(e); ++part) {
      uint64_t all = next_word(&sums);
      bool known;
      if (sweep_count(e) > 65536) continue;
      check(sweep_fingerprint(e, 0, sweep_count(e), &known) == all, "%s: sweep", e->name);
    }
  }
  finish(&sums);
  finish(&first);
}
END_TEST

/* One by one ----------------------------------------------------------------------------------- */

struct single {
  const char *id, *name;
  uint64_t a, b, c;
  const char *pairs; /* of a matrix instruction */
};

static const struct single directed[] = {
#define DIRECTED(id, name, c, pairs) {#id, #name, 0, 0, c, pairs},
#include "num/device/directed.def"
#undef DIRECTED
};

static const struct single singles[] = {
#define SINGLE(id, name, a, b, c) {#id, #name, a, b, c, NULL},
#include "num/device/singles.def"
#undef SINGLE
};

static uint64_t directed_result(const struct single *s, struct ts_mma_scratch *scratch) {
  uint32_t index = 0;
  while (index < MATRIX_CASES && strcmp(matrix_cases[index].name, s->name) != 0)
    ++index;
  check(index < MATRIX_CASES, "%s: no case %s", s->id, s->name);
  const struct matrix_case *m = &matrix_cases[index];
  uint32_t bits = ts_dtype_bits(m->a);
  struct tile t;
  memset(&t, 0, sizeof t);
  t.c[0] = s->c;
  unsigned k;
  unsigned long long a, b;
  int used;
  for (const char *at = s->pairs; sscanf(at, " %u:%llx*%llx%n", &k, &a, &b, &used) == 3;
       at += used) {
    for (unsigned byte = 0; byte < (bits + 7) / 8; ++byte) {
      unsigned shift = bits < 8 ? k * bits % 8 : 0;
      t.a[k * bits / 8 + byte] |= (uint8_t)(a >> 8 * byte << shift);
      t.b[k * bits / 8 + byte] |= (uint8_t)(b >> 8 * byte << shift);
    }
  }
  multiply_tile(&t, m, scratch, 0);
  return t.d[0];
}

static uint64_t single_result(const struct single *s) {
  uint32_t index = 0;
  while (index < ELEMENT_CASES && strcmp(element_cases[index].name, s->name) != 0)
    ++index;
  check(index < ELEMENT_CASES, "%s: no case %s", s->id, s->name);
  const struct element_case *e = &element_cases[index];
  union slots x[3], d;
  set_slot(&x[0], e->in, 0, s->a);
  set_slot(&x[1], e->in, 0, s->b);
  set_slot(&x[2], e->in, 0, s->c);
  check(evaluate(e, &d, x, 1), "%s is not known", e->name);
  return get_slot(&d, e->out, 0);
}

/* Lines "id result" in the order of the table. */
static void check_singles(const char *path, const struct single *rows, size_t count) {
  FILE *file = fopen(path, "r");
  ck_assert_ptr_nonnull(file);
  struct ts_mma_scratch *scratch = ts_mma_scratch_new(&ts_allocator_libc, 64, 8, 64);
  char id[64];
  unsigned long long expected;
  for (size_t i = 0; i < count; ++i) {
    ck_assert_int_eq(fscanf(file, "%63s %llx", id, &expected), 2);
    ck_assert_str_eq(id, rows[i].id);
    uint64_t result =
        rows[i].pairs != NULL ? directed_result(&rows[i], scratch) : single_result(&rows[i]);
    check(result == expected, "%s: %llx, H200 %llx", id, (unsigned long long)result, expected);
  }
  ts_mma_scratch_free(scratch);
  fclose(file);
}

START_TEST(open_questions) {
  check_singles("traces/num/directed_h200.txt", directed, sizeof directed / sizeof directed[0]);
  check_singles("traces/num/singles_h200.txt", singles, sizeof singles / sizeof singles[0]);
}
END_TEST

/* The tensor form of the bulk reduction adds as shared memory does: nothing is flushed. */
START_TEST(tensor_reduction) {
  static const struct single rows[] = {
      {"R1_subnormal", "bulk_f32", 0x00000001, 0x00000001, 0, NULL},
      {"R1_to_subnormal", "bulk_f32", 0x00800001, 0x80800000, 0, NULL},
      {"R1_minus", "bulk_f32", 0x80000001, 0x80000001, 0, NULL},
      {"R1_minus_zero", "bulk_f32", 0x80000000, 0x80000000, 0, NULL},
      {"R1_nan", "bulk_f32", 0x7f812345, 0x3f800000, 0, NULL}};
  check_singles("traces/num/tensor_add_h200.txt", rows, sizeof rows / sizeof rows[0]);
}
END_TEST

int main(void) {
  return RUN_TESTS("num_hardware", matrix_instructions, elements, open_questions, tensor_reduction);
}
