/* Every f32 argument of every function of function_hash.h against an H200's fingerprints: about
 * 1.3e11 evaluations, some minutes on two cores. usage: test_sfu_all [FUNCTION...] (names as listed;
 * none: all). Exit status 0: all equal. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/pool.h"
#include "support/function_hash.h"

struct sweep {
  ts_unary_fn function;
  const uint64_t *expected;
  _Atomic uint32_t wrong_count, first_wrong;
};

static enum ts_status check_block(void *user, uint32_t worker, uint64_t block) {
  struct sweep *sweep = user;
  (void)worker;
  if (hash_block(sweep->function, (uint32_t)block) != sweep->expected[block]) {
    if (atomic_fetch_add(&sweep->wrong_count, 1) == 0) sweep->first_wrong = (uint32_t)block;
  }
  return TS_OK;
}

static bool check_function(const struct hash_function *f, const uint64_t *expected) {
  struct sweep sweep = {.function = ts_num_unary(f->op, TS_DTYPE_f32, f->flags),
                        .expected = expected};
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  ts_pool_run(cores > 0 ? (uint32_t)cores : 1, HASH_BLOCKS, check_block, &sweep);
  uint32_t wrong = sweep.wrong_count;
  printf("%-16s %s", f->name, wrong == 0 ? "equal on 2^32 arguments" : "");
  if (wrong != 0)
    printf("differs in %u of 1024 blocks, one at %08x", wrong, sweep.first_wrong << 22);
  printf("\n");
  fflush(stdout);
  return wrong == 0;
}

static bool asked_for(const char *name, int argc, char **argv) {
  bool found = argc < 2;
  for (int i = 1; i < argc; ++i)
    found = found || strcmp(argv[i], name) == 0;
  return found;
}

static uint64_t expected[HASH_FUNCTIONS][HASH_BLOCKS];

int main(int argc, char **argv) {
  const char *path = "traces/num/mufu_hash_h200.bin";
  if (!hash_read(path, expected)) {
    fprintf(stderr, "%s: missing or short\n", path);
    return 2;
  }
  bool equal = true;
  for (unsigned i = 0; i < HASH_FUNCTIONS; ++i) {
    if (asked_for(hash_functions[i].name, argc, argv))
      equal = check_function(&hash_functions[i], expected[i]) && equal;
  }
  return equal ? 0 : 1;
}
