/* What is said about machine code: which instructions are free, in which order they are issued, which
 * slots they read and write, how many registers there are.
 *
 * In a case's flags each instruction from 0 on has one word: '-' none, or letters F free, U uniform,
 * A address, B back edge, V volatile. Its order lists instructions of the first region by rank. */
#include "ir/code.h"
#include "support/failing_allocator.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                       \
  "tilesim-ir 1\nfunction \"f\" {\nthreads 128 1 1\nparam p0 pointer f32 %%0\nparam p1 pointer f32 %%1\n"

static const struct {
  const char *what, *body, *flags, *order;
} cases[] = {
    {"one address serves all offsets; a shift goes into a sum, a factor into an address",
     "b0 in r0:\n%2 = sreg s32 {which=tid.x}\n%3 = sreg s32 {which=ctaid.x}\n%4 = shl s32 %3, 7\n"
     "%5 = add s32 %4, %2\n%6 = ld.global f32 %0, %5 {scale=4}\n"
     "%7 = ld.global f32 %0, %5 {scale=4, offset=512}\n%8 = add f32 %6, %7\n"
     "st.global f32 %1, %5, %8 {scale=4}\nexit\n",
     "- U FU - A - - A -", NULL},
    {"moves are free, halves of two words are permuted",
     "b0 in r0:\n%2 = ld.global f16x4 %0, 0\n%3 = extract f16 %2, 0 {source_lanes=4}\n"
     "%4 = extract f16 %2, 1 {source_lanes=4}\n%5 = extract f16 %2, 2 {source_lanes=4}\n"
     "%6 = concat f16x2 %3, %4\n%7 = concat f16x2 %4, %5\nst.global f16x2 %1, 0, %6\n"
     "st.global f16x2 %1, 8, %7\nexit\n",
     "- F F F F - - - -", NULL},
    {"three terms, three-input logic, a comparison with zero, predicates together",
     "b0 in r0:\n%2 = sreg s32 {which=tid.x}\n%3 = sreg s32 {which=laneid}\n%4 = add s32 %2, %3\n"
     "%5 = add s32 %4, %2\n%6 = and s32 %2, %5\n%7 = xor s32 %6, %3\nst.global s32 %0, 0, %7\n"
     "%8 = and s32 %5, 63\n%9 = eq s32 %8, 0\n%10 = lt s32 %5, %2\n%11 = and pred %9, %10\n"
     "%12 = select s32 %11, %5, %7\nst.global s32 %1, 0, %12\nexit\n",
     "- - F - F - - F - - F - - -", NULL},
    {"signs of operands and widening for an address",
     "b0 in r0:\n%2 = sreg s32 {which=tid.x}\n%3 = cvt s64 s32 %2\n"
     "%4 = ld.global f32 %0, %3 {scale=4}\n%5 = neg f32 %4\n%6 = add f32 %5, %4\n"
     "%7 = abs f32 %4\n%8 = mul f32 %7, %6\nst.global f32 %1, %3, %8 {scale=4}\nexit\n",
     "- F A F - - - A -", NULL},
    {"a loop: the branch back is part of the test",
     "region r1 in r0 head b1\nb0 in r0:\n%2 = mov s32 0\nbr b1\nb1 in r1:\n%3 = lt s32 %2, 9\n"
     "cbr %3, b2, b3, b3\nb2 in r1:\nbar.sync 0, 0\n%4 = add s32 %2, 1\n%2 = mov s32 %4\nbr b1\n"
     "b3 in r0:\nexit\n",
     "U F U - V U FU FB -", NULL},
    {"loads go out before the first use, shared ones do not pass a barrier",
     "shared s0 static f32 align 16 size 512\nb0 in r0:\n%2 = sreg s32 {which=tid.x}\n"
     "%3 = ld.global f32 %0, %2 {scale=4}\nst.shared f32 s0, %2, %3 {scale=4}\nbar.sync 0, 0\n"
     "%4 = ld.global f32 %0, %2 {scale=4, offset=512}\n%5 = ld.shared f32 s0, 0\n"
     "%6 = add f32 %4, %5\nst.global f32 %1, %2, %6 {scale=4}\nexit\n",
     "- A A V - - - A -", "0 1 4 2 3 5 6 7 8"},
    {"an array with an index that is not known lies in memory",
     "array a0 f32 8\narray a1 f32 8\nb0 in r0:\n%2 = sreg s32 {which=laneid}\n"
     "%3 = ld.global f32 %0, 0\nst.local f32 a0, 2, %3\nst.local f32 a1, 2, %3\n"
     "%4 = ld.local f32 a0, %2\n%5 = ld.local f32 a1, 2\n%6 = add f32 %4, %5\n"
     "st.global f32 %1, 0, %6\nexit\n",
     "- - S F S F - - -", NULL},
    {"a small if is a predicate: both loads go out first",
     "region r1 in r0 head b0\nregion r2 in r0 head b2\nb0 in r0:\n"
     "%2 = sreg s32 {which=tid.x}\n%3 = lt s32 %2, 9\n%4 = mov f32 0\n%5 = mov f32 0\n"
     "cbr %3, b1, b2, b2\nb1 in r1:\n%6 = ld.global f32 %0, 0\n%4 = mov f32 %6\nbr b2\n"
     "b2 in r0:\nst.global f32 %1, 0, %4\ncbr %3, b3, b4, b4\nb3 in r2:\n"
     "%7 = ld.global f32 %0, 4\n%5 = mov f32 %7\nbr b4\nb4 in r0:\nst.global f32 %1, 4, %5\nexit\n",
     NULL, "0 1 4 9 7 12 5 10 2 3 6 8 11 13 14"},
};

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_arena arena;
  struct ts_module *module;
  struct ts_code code;
};

static void estimate(struct fixture *f, const char *body) {
  char text[8192];
  int size = snprintf(text, sizeof text, HEAD "%s}\n", body);
  ck_assert_int_eq(ts_diag_list_init(&f->diags, &ts_allocator_libc), TS_OK);
  f->ctx = (struct ts_ctx){&ts_allocator_libc, &f->diags};
  ts_arena_init(&f->arena, &ts_allocator_libc);
  enum ts_status status = ts_parse_module(&f->ctx, "case", text, (size_t)size, &f->module);
  ck_assert_msg(status == TS_OK, "%s",
                f->diags.items.count ? f->diags.items.data[0].message : "no memory");
  ck_assert_int_eq(ts_analyze_uniform(&f->ctx, f->module->functions.data[0]), TS_OK);
  ck_assert_int_eq(ts_code_estimate(&f->ctx, f->module->functions.data[0], &f->arena, &f->code),
                   TS_OK);
}

static void close_fixture(struct fixture *f) {
  ts_module_free(f->module);
  ts_arena_free(&f->arena);
  ts_diag_list_free(&f->diags);
}

static void print_flags(const struct ts_code *code, char *text) {
  static const struct {
    uint8_t flag;
    char letter;
  } letters[] = {{TS_CODE_FREE, 'F'},     {TS_CODE_UNIFORM, 'U'},  {TS_CODE_ADDRESS, 'A'},
                 {TS_CODE_BACKEDGE, 'B'}, {TS_CODE_VOLATILE, 'V'}, {TS_CODE_SPILLED, 'S'}};
  for (uint32_t i = 0; i < code->insn_count; i++) {
    if (i) *text++ = ' ';
    char *start = text;
    for (size_t k = 0; k < sizeof letters / sizeof *letters; k++)
      if (code->insns[i].flags & letters[k].flag) *text++ = letters[k].letter;
    if (text == start) *text++ = '-';
  }
  *text = 0;
}

static void print_order(const struct ts_code *code, char *text) {
  *text = 0;
  for (uint32_t rank = 0; rank < code->insn_count; rank++)
    for (uint32_t i = 0; i < code->insn_count; i++)
      if (code->insns[i].block == 0 && code->insns[i].rank == rank)
        text += sprintf(text, rank ? " %u" : "%u", i);
}

START_TEST(test_flags_and_order) {
  struct fixture f;
  char text[4096];
  estimate(&f, cases[_i].body);
  print_flags(&f.code, text);
  if (cases[_i].flags)
    ck_assert_msg(!strcmp(text, cases[_i].flags), "%s: %s", cases[_i].what, text);
  print_order(&f.code, text);
  if (cases[_i].order)
    ck_assert_msg(!strcmp(text, cases[_i].order), "%s: %s", cases[_i].what, text);
  close_fixture(&f);
}
END_TEST

#define STEP(k)                                                                                    \
  "ldmatrix f16 a1, 0, s0, %2 {num=4, scale=16, offset=" #k "}\n"                                  \
  "ldmatrix f16 a2, 0, s0, %2 {num=2, scale=16, offset=" #k "}\n"                                  \
  "mma f32 f16 a0, 0, a1, 0, a2, 0 {m=16, n=8, k=16, b_dtype=f16}\n"

/* Fragments that are loaded again get slots of their own, so that the second step's loads come
 * before the first step's product; the accumulator is one chain in place. */
START_TEST(test_fragments) {
  struct fixture f;
  estimate(&f, "array a0 f32 4\narray a1 f16 8\narray a2 f16 4\n"
               "shared s0 static u8 align 16 size 4096\nb0 in r0:\n"
               "%2 = sreg s32 {which=laneid}\n" STEP(0)
                   STEP(2048) "%3 = ld.local f32x4 a0, 0\n"
                              "st.global f32x4 %0, %2, %3 {scale=16}\nexit\n");
  const struct ts_code_insn *insns = f.code.insns;
  ck_assert_uint_lt(insns[4].rank, insns[3].rank);
  ck_assert_uint_lt(insns[3].rank, insns[6].rank);
  ck_assert_uint_eq(insns[1].m, 4);
  const struct ts_code_ref *first = &f.code.refs[insns[3].first_ref];
  const struct ts_code_ref *second = &f.code.refs[insns[6].first_ref];
  ck_assert_uint_eq(insns[3].use_count, 3);
  ck_assert_uint_eq(insns[3].def_count, 1);
  ck_assert_uint_eq(first[0].first, 4); /* after four virtual registers: a0 */
  ck_assert_uint_eq(first[0].count, 4);
  ck_assert_uint_eq(first[3].first, first[0].first);
  ck_assert_uint_eq(second[0].first, first[3].first);
  ck_assert_uint_eq(first[1].count, 4);
  ck_assert_uint_eq(first[2].count, 2);
  ck_assert_uint_ne(first[1].first, second[1].first);
  ck_assert_uint_ne(first[2].first, second[2].first);
  ck_assert_uint_eq(insns[7].flags & TS_CODE_FREE, TS_CODE_FREE);
  close_fixture(&f);
}
END_TEST

/* Results of wgmma are read after the wait only, whatever else may move. */
START_TEST(test_wgmma_wait) {
  struct fixture f;
  estimate(&f, "array a0 f32 32\nb0 in r0:\n%2 = sreg s32 {which=laneid}\nwgmma.fence\n"
               "wgmma.ss f32 f16 0, 0, a0, 0, 0 {m=64, n=64, k=16, b_dtype=f16, a_major=1, "
               "b_major=1, scale_a=1, scale_b=1}\nwgmma.commit\nwgmma.wait 0\n"
               "%3 = ld.local f32x4 a0, 0\n%4 = max f32x4 %3, 0\n"
               "st.global f32x4 %0, %2, %4 {scale=16}\nexit\n");
  ck_assert_uint_eq(f.code.refs[f.code.insns[2].first_ref].count, 32);
  ck_assert_uint_lt(f.code.insns[4].rank, f.code.insns[5].rank);
  ck_assert_uint_lt(f.code.insns[4].rank, f.code.insns[6].rank);
  /* accumulators from register 24 on */
  ck_assert_uint_eq(f.code.registers_per_thread, 24 + 32 + 2);
  close_fixture(&f);
}
END_TEST

#define WGMMA_INTO(words, columns)                                                                 \
  "array a0 f32 " words "\nb0 in r0:\nsetmaxnreg 240 {increase=1}\nwgmma.fence\n"                  \
  "wgmma.ss f32 f16 0, 0, a0, 0, 0 {m=64, n=" columns ", k=16, b_dtype=f16, a_major=1, "           \
  "b_major=1, scale_a=1, scale_b=1}\nwgmma.commit\nwgmma.wait 0\nexit\n"

/* Accumulators that registers do not hold are spilled: 256 and the 26 beside them, of 240. */
START_TEST(test_spills) {
  struct fixture f;
  estimate(&f, WGMMA_INTO("256", "256"));
  ck_assert_uint_eq(f.code.registers_per_thread, 240);
  ck_assert_uint_eq(f.code.spilled_words, 256 + 26 - 240);
  close_fixture(&f);
  estimate(&f, WGMMA_INTO("128", "256"));
  ck_assert_uint_eq(f.code.registers_per_thread, 240);
  ck_assert_uint_eq(f.code.spilled_words, 0);
  close_fixture(&f);
}
END_TEST

#define PRODUCT(at)                                                                                \
  "wgmma.ss f32 f16 0, 0, a0, " at ", 0 {m=64, n=256, k=16, b_dtype=f16, a_major=1, "              \
  "b_major=1, scale_a=1, scale_b=1}\n"

/* Two accumulators of 128 words in 240 registers take turns: at each change one goes to local memory
 * and the other comes from it, with the excess. */
START_TEST(test_turns) {
  struct fixture f;
  const uint32_t excess = 256 + 26 - 240;
  estimate(&f, "array a0 f32 256\nb0 in r0:\nsetmaxnreg 240 {increase=1}\n" PRODUCT("0")
                   PRODUCT("0") PRODUCT("128") PRODUCT("128") "wgmma.commit\nwgmma.wait 0\nexit\n");
  ck_assert_uint_eq(f.code.insns[1].spilled_words, 128 + excess);
  ck_assert_uint_eq(f.code.insns[2].spilled_words, 0);
  ck_assert_uint_eq(f.code.insns[3].spilled_words, 128 + excess);
  ck_assert_uint_eq(f.code.insns[4].spilled_words, 0);
  close_fixture(&f);
}
END_TEST

#define SIDE_BY_LANE(side)                                                                         \
  "region r1 in r0 head b0\nb0 in r0:\n%2 = sreg s32 {which=tid.x}\n%3 = lt s32 %2, 9\n"           \
  "cbr %3, b1, b2, b2\nb1 in r1:\n" side "br b2\nb2 in r0:\nexit\n"
#define MUL(to, from) to " = mul s32 " from ", %2\n"
#define MULS MUL("%5", "%4") MUL("%6", "%5") MUL("%7", "%6") MUL("%8", "%7")
#define MORE_MULS MUL("%9", "%8") MUL("%10", "%9") MUL("%11", "%10") MUL("%12", "%11")

/* What a short side does to memory waits for the predicate, its last use; lanes do not part. */
START_TEST(test_guard) {
  struct fixture f;
  estimate(&f, SIDE_BY_LANE("st.global s32 %1, %2, 5 {scale=4}\n"));
  const struct ts_code_insn *store = &f.code.insns[3];
  ck_assert_uint_ne(f.code.insns[2].flags & TS_CODE_FREE, 0);
  ck_assert_uint_eq(f.code.insns[2].control, 0);
  ck_assert_uint_eq(store->control, TS_CODE_GUARDED);
  ck_assert_uint_eq(f.code.refs[store->first_ref + store->use_count - 1].first, 3);
  close_fixture(&f);
}
END_TEST

/* A side with an atomic is behind a branch, whose lanes meet at the side's end. */
START_TEST(test_meeting) {
  struct fixture f;
  estimate(&f, SIDE_BY_LANE("atom.global s32 %1, %2, 5 {scale=4, reduce=add, order=0, scope=1}\n"));
  ck_assert_uint_eq(f.code.insns[2].flags & TS_CODE_FREE, 0);
  ck_assert_uint_eq(f.code.insns[2].control, TS_CODE_GUARDED | TS_CODE_MEETS);
  ck_assert_uint_eq(f.code.insns[3].control, 0);
  ck_assert_uint_eq(f.code.insns[4].control, TS_CODE_MEETS);
  close_fixture(&f);
}
END_TEST

/* Eight instructions are predicates, nine are a branch. */
START_TEST(test_longest_guarded) {
  struct fixture f;
  estimate(&f, SIDE_BY_LANE(MUL("%4", "%2") MULS MORE_MULS "st.shared s32 0, %2, %12 {scale=4}\n"));
  ck_assert_uint_eq(f.code.insns[2].control, TS_CODE_GUARDED | TS_CODE_MEETS);
  close_fixture(&f);
  estimate(&f, SIDE_BY_LANE(MUL("%4", "%2") MULS "st.shared s32 0, %2, %8 {scale=4}\n"));
  ck_assert_uint_eq(f.code.insns[2].control, 0);
  close_fixture(&f);
}
END_TEST

#define VECTOR_LOAD(reg, at) reg " = ld.global f32x4 %0, %2 {scale=16, offset=" #at "}\n"
#define VECTOR_STORE(reg, at) "st.global f32x4 %1, %2, " reg " {scale=16, offset=" #at "}\n"

/* Four vectors are alive together with two addresses of two words and the index. */
START_TEST(test_registers) {
  struct fixture f;
  estimate(&f, "b0 in r0:\n%2 = sreg s32 {which=tid.x}\n" VECTOR_LOAD("%3", 0)
                   VECTOR_LOAD("%4", 2048) VECTOR_LOAD("%5", 4096)
                       VECTOR_LOAD("%6", 6144) "bar.sync 0, 0\n" VECTOR_STORE("%3", 0)
                           VECTOR_STORE("%4", 2048) VECTOR_STORE("%5", 4096)
                               VECTOR_STORE("%6", 6144) "exit\n");
  ck_assert_uint_ge(f.code.registers_per_thread, 18);
  ck_assert_uint_le(f.code.registers_per_thread, 28);
  close_fixture(&f);
}
END_TEST

START_TEST(test_setmaxnreg) {
  struct fixture f;
  estimate(&f, "b0 in r0:\nsetmaxnreg 240 {increase=1}\nexit\n");
  ck_assert_uint_eq(f.code.registers_per_thread, 240);
  f.module->functions.data[0]->thread_extent[0] = 384;
  ck_assert_int_eq(ts_code_estimate(&f.ctx, f.module->functions.data[0], &f.arena, &f.code), TS_OK);
  ck_assert_uint_eq(f.code.registers_per_thread, 168);
  close_fixture(&f);
}
END_TEST

/* Memory running out anywhere is reported, and nothing is leaked. */
START_TEST(test_no_memory) {
  struct fixture f;
  struct failing_allocator memory;
  estimate(&f, cases[7].body);
  failing_allocator_init(&memory);
  for (uint64_t n = 1; failing_allocator_next(&memory, n); n++) {
    struct ts_ctx ctx = {&memory.allocator, &f.diags};
    struct ts_arena arena;
    struct ts_code code;
    ts_arena_init(&arena, &memory.allocator);
    enum ts_status status = ts_code_estimate(&ctx, f.module->functions.data[0], &arena, &code);
    ck_assert_int_eq(status, memory.failed ? TS_NO_MEMORY : TS_OK);
    ts_arena_free(&arena);
  }
  close_fixture(&f);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ir_code");
  TCase *tests = tcase_create("code");
  tcase_add_loop_test(tests, test_flags_and_order, 0, (int)(sizeof cases / sizeof *cases));
  tcase_add_test(tests, test_fragments);
  tcase_add_test(tests, test_wgmma_wait);
  tcase_add_test(tests, test_registers);
  tcase_add_test(tests, test_spills);
  tcase_add_test(tests, test_turns);
  tcase_add_test(tests, test_guard);
  tcase_add_test(tests, test_meeting);
  tcase_add_test(tests, test_longest_guarded);
  tcase_add_test(tests, test_setmaxnreg);
  tcase_add_test(tests, test_no_memory);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
