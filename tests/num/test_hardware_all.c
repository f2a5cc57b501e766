/* The results of tests/num/device/probes.cu on the library: 2^20 vectors of five kinds for each
 * instruction, and sweeps over operands: a sixteenth of each by default (minutes on two cores),
 * with --all every operand (hours).
 * usage: test_hardware_all [--all] [CASE...] (no case: all). Exit status 0: all equal. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/pool.h"
#include "support/hardware_replay.h"

enum { PARTS = 64 }; /* tasks of one fingerprint */

struct sweep {
  uint32_t index, kind; /* kind PV_KINDS: the sweep's part `part` */
  uint32_t part;
  bool matrix;
  _Atomic uint64_t sum;
  _Atomic bool unknown;
};

static uint64_t matrix_task(const struct sweep *s, uint64_t task) {
  struct ts_mma_scratch *scratch = ts_mma_scratch_new(&ts_allocator_libc, 64, 8, 64);
  uint64_t count = PV_COUNT / PARTS;
  uint64_t sum = matrix_fingerprint(s->index, s->kind, task * count, count, scratch, 0);
  ts_mma_scratch_free(scratch);
  return sum;
}

static uint64_t element_task(struct sweep *s, uint64_t task) {
  const struct element_case *e = &element_cases[s->index];
  bool known = true;
  uint64_t sum;
  if (s->kind < PV_KINDS) {
    uint64_t count = PV_COUNT / PARTS;
    sum = kind_fingerprint(s->index, s->kind, task * count, count, &known);
  } else {
    uint64_t part = sweep_count(e) / sweep_parts(e), count = part < PARTS ? 1 : part / PARTS;
    sum = task * count < part ? sweep_fingerprint(e, s->part * part + task * count, count, &known)
                              : 0;
  }
  if (!known) s->unknown = true;
  return sum;
}

static enum ts_status run_task(void *user, uint32_t worker, uint64_t task) {
  struct sweep *s = user;
  (void)worker;
  atomic_fetch_add(&s->sum, s->matrix ? matrix_task(s, task) : element_task(s, task));
  return TS_OK;
}

static uint64_t fingerprint(struct sweep *s) {
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  ts_pool_run(cores > 0 ? (uint32_t)cores : 1, PARTS, run_task, s);
  return s->sum;
}

struct wish {
  bool whole_sweeps;
  int case_count;
  char **cases;
};

static bool asked_for(const char *name, const struct wish *wish) {
  bool found = wish->case_count == 0;
  for (int i = 0; i < wish->case_count; ++i)
    found = found || strcmp(wish->cases[i], name) == 0;
  return found;
}

static uint64_t next_word(FILE *file) {
  uint8_t bytes[8];
  if (fread(bytes, 1, sizeof bytes, file) != sizeof bytes) {
    fprintf(stderr, "a file in traces/num is short\n");
    exit(2);
  }
  uint64_t word = 0;
  for (int i = 7; i >= 0; --i)
    word = word << 8 | bytes[i];
  return word;
}

static bool check_matrix(uint32_t index, FILE *expected, bool wanted) {
  bool equal = true;
  for (uint32_t kind = 0; kind < PV_KINDS; ++kind) {
    next_word(expected);
    uint64_t all = next_word(expected);
    struct sweep s = {.index = index, .kind = kind, .matrix = true};
    if (!wanted || fingerprint(&s) == all) continue;
    printf("%s: kind %u differs\n", matrix_cases[index].name, kind);
    equal = false;
  }
  return equal;
}

static bool check_element(uint32_t index, FILE *expected, const struct wish *wish) {
  const struct element_case *e = &element_cases[index];
  bool equal = true, wanted = asked_for(e->name, wish);
  for (uint32_t kind = 0; kind < PV_KINDS; ++kind) {
    next_word(expected);
    uint64_t all = next_word(expected);
    struct sweep s = {.index = index, .kind = kind};
    if (!wanted || fingerprint(&s) == all) continue;
    printf("%s: kind %u %s\n", e->name, kind, s.unknown ? "has no function" : "differs");
    equal = false;
  }
  for (uint32_t part = 0; part < sweep_parts(e); ++part) {
    uint64_t all = next_word(expected);
    struct sweep s = {.index = index, .kind = PV_KINDS, .part = part};
    bool due = wish->whole_sweeps || part == index * 7 % sweep_parts(e);
    if (!wanted || !due || fingerprint(&s) == all) continue;
    printf("%s: part %u of the sweep differs\n", e->name, part);
    equal = false;
  }
  return equal;
}

int main(int argc, char **argv) {
  FILE *matrix = fopen("traces/num/mma_h200.bin", "rb");
  FILE *elements = fopen("traces/num/elementwise_h200.bin", "rb");
  if (matrix == NULL || elements == NULL) {
    fprintf(stderr, "a file in traces/num is missing\n");
    return 2;
  }
  struct wish wish = {.whole_sweeps = argc > 1 && strcmp(argv[1], "--all") == 0};
  wish.cases = argv + 1 + wish.whole_sweeps;
  wish.case_count = argc - 1 - wish.whole_sweeps;
  uint32_t wrong = 0;
  for (uint32_t i = 0; i < MATRIX_CASES; ++i)
    wrong += !check_matrix(i, matrix, asked_for(matrix_cases[i].name, &wish));
  for (uint32_t i = 0; i < ELEMENT_CASES; ++i) {
    wrong += !check_element(i, elements, &wish);
    fflush(stdout);
  }
  fclose(matrix), fclose(elements);
  printf("%u of %u cases differ\n", wrong, (unsigned)(MATRIX_CASES + ELEMENT_CASES));
  return wrong == 0 ? 0 : 1;
}
