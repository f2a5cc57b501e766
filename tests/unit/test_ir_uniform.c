/* Which registers are found uniform. In the comment "# u5 v6" register %5 must be uniform, %6 not. */
#include "ir/ir.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD "tilesim-ir 1\nfunction \"f\" {\nparam p0 pointer s32 %0\nparam p1 scalar s32 %1\n"

static const struct {
  const char *what, *body;
} cases[] = {
    {"special registers, arithmetic, memory",
     "# u0 u1 v2 u3 v4 u5 v6 u7 v8 v9 v10 v11 v12 u13\n"
     "array a0 s32 4\nshared s0 static s32 align 16 size 64\nb0 in r0:\n"
     "%2 = sreg s32 {which=tid.x}\n%3 = sreg s32 {which=ctaid.x}\n%4 = add s32 %2, %3\n"
     "%5 = mul s32 %3, %1\n%6 = ld.global s32 %0, %2\n%7 = ld.global s32 %0, %5\n"
     "%8 = ld.local s32 a0, 0\n%9 = sreg s32 {which=activemask}\n%10 = vote pred 1, 0xffffffff "
     "{mode=any}\n%11 = shfl s32 %5, 0, 31, 0xffffffff {mode=idx}\n"
     "%12 = atom.global.ret s32 %0, 0, 1 {reduce=add}\n%13 = ld.shared s32 s0, %5\nexit\n"},
    {"a variable of a uniform loop", "# u2 u3\nregion r1 in r0 head b1\n"
                                     "b0 in r0:\n%2 = mov s32 0\nbr b1\n"
                                     "b1 in r1:\n%3 = lt s32 %2, %1\ncbr %3, b2, b3, b3\n"
                                     "b2 in r1:\n%2 = add s32 %2, 1\nbr b1\nb3 in r0:\nexit\n"},
    {"of a loop that lanes leave one after the other: what is used outside is not, what stays inside is",
     "# v2 v3 v4 u5\nregion r1 in r0 head b1\n"
     "b0 in r0:\n%4 = sreg s32 {which=tid.x}\n%2 = mov s32 0\nbr b1\n"
     "b1 in r1:\n%3 = lt s32 %2, %4\ncbr %3, b2, b3, b3\n"
     "b2 in r1:\n%2 = add s32 %2, 1\n%5 = ld.global s32 %0, 3\nst.global s32 %0, 1, %5\nbr b1\n"
     "b3 in r0:\nst.global s32 %0, 0, %2\nexit\n"},
    {"assignments in an arm that some lanes take",
     "# v2 v3 v4 u5 u6\nregion r1 in r0 head b0\n"
     "b0 in r0:\n%2 = sreg s32 {which=tid.x}\n%3 = lt s32 %2, 5\n%4 = mov s32 0\n"
     "cbr %3, b1, b2, b2\nb1 in r1:\n%4 = mov s32 1\n%5 = mov s32 7\n%6 = add s32 %5, %1\n"
     "st.global s32 %0, 1, %6\nbr b2\nb2 in r0:\nst.global s32 %0, 0, %4\nexit\n"},
    {"in an arm that all lanes take or none",
     "# u2 u3\nregion r1 in r0 head b0\n"
     "b0 in r0:\n%2 = lt s32 %1, 5\n%3 = mov s32 0\ncbr %2, b1, b2, b2\n"
     "b1 in r1:\n%3 = mov s32 1\nbr b2\nb2 in r0:\nst.global s32 %0, 0, %3\nexit\n"},
    {"a loop inside a divergent arm stays uniform when its values do not leave",
     "# v2 v3 u4 u5\nregion r1 in r0 head b0\nregion r2 in r1 head b2\n"
     "b0 in r0:\n%2 = sreg s32 {which=tid.x}\n%3 = lt s32 %2, 5\ncbr %3, b1, b5, b5\n"
     "b1 in r1:\n%4 = mov s32 0\nbr b2\n"
     "b2 in r2:\n%5 = lt s32 %4, %1\ncbr %5, b3, b4, b4\n"
     "b3 in r2:\n%4 = add s32 %4, 1\nbr b2\nb4 in r1:\nbr b5\nb5 in r0:\nexit\n"},
    {"a break under a varying condition makes lanes leave early",
     "# v2 v3 v4 u5\nregion r1 in r0 head b1\nregion r2 in r1 head b2\n"
     "b0 in r0:\n%2 = sreg s32 {which=tid.x}\n%4 = mov s32 0\nbr b1\n"
     "b1 in r1:\n%5 = ld.global pred %0, 0\ncbr %5, b2, b5, b5\n"
     "b2 in r1:\n%3 = lt s32 %2, %4\ncbr %3, b3, b4, b4\nb3 in r2:\nbr b5\n"
     "b4 in r1:\n%4 = add s32 %4, 1\nbr b1\nb5 in r0:\nst.global s32 %0, 0, %4\nexit\n"},
    {"a varying value demotes what depends on it through a loop",
     "# v2 v3 v4 u5\nregion r1 in r0 head b1\n"
     "b0 in r0:\n%2 = sreg s32 {which=laneid}\n%3 = mov s32 0\n%4 = mov s32 0\nbr b1\n"
     "b1 in r1:\n%5 = ld.global pred %0, 0\ncbr %5, b2, b3, b3\n"
     "b2 in r1:\n%3 = mov s32 %4\n%4 = mov s32 %2\nbr b1\nb3 in r0:\nexit\n"},
};

START_TEST(test_uniform) {
  struct ts_diag_list diags;
  struct ts_module *module;
  char text[4096];
  ck_assert_int_eq(ts_diag_list_init(&diags, &ts_allocator_libc), TS_OK);
  struct ts_ctx ctx = {&ts_allocator_libc, &diags};
  snprintf(text, sizeof text, "%s%s}\n", HEAD, cases[_i].body);
  enum ts_status status = ts_parse_module(&ctx, "t.ir", text, strlen(text), &module);
  ck_assert_msg(status == TS_OK, "%s: %u: %s", cases[_i].what,
                diags.items.data ? diags.items.data[0].place.line : 0,
                diags.items.data ? diags.items.data[0].message : "");
  struct ts_function *function = module->functions.data[0];
  ck_assert_int_eq(ts_analyze_uniform(&ctx, function), TS_OK);
  int checked = 0;
  for (const char *at = cases[_i].body + 1; *at == ' '; checked++) {
    char *end;
    bool wanted = at[1] == 'u';
    unsigned long reg = strtoul(at + 2, &end, 10);
    ck_assert_uint_lt(reg, function->regs.count);
    ck_assert_msg(function->regs.data[reg].is_uniform == wanted, "%s: register %lu", cases[_i].what,
                  reg);
    at = end;
  }
  ck_assert_int_ge(checked, 2);
  ts_module_free(module);
  ts_diag_list_free(&diags);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ir_uniform");
  TCase *tests = tcase_create("uniform");
  tcase_add_loop_test(tests, test_uniform, 0, (int)(sizeof cases / sizeof *cases));
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
