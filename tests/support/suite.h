/* A main() for a Check program: list the tests, get exit status 0 or 1.
 *
 *   int main(void) {
 *     return run_tests("base_alloc", (const TTest *const[]){test_arena, test_vec}, 2);
 *   }
 */
#ifndef TS_TESTS_SUITE_H
#define TS_TESTS_SUITE_H

#include <check.h>
#include <stddef.h>

static inline int run_tests(const char *name, const TTest *const *tests, size_t test_count) {
  Suite *suite = suite_create(name);
  TCase *group = tcase_create(name);
  for (size_t i = 0; i < test_count; i++)
    tcase_add_test(group, tests[i]);
  suite_add_tcase(suite, group);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_NORMAL);
  int failed_count = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed_count == 0 ? 0 : 1;
}

#define RUN_TESTS(name, ...)                                                                       \
  run_tests((name), (const TTest *const[]){__VA_ARGS__},                                           \
            sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(const TTest *))

#endif
