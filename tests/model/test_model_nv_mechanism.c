/* Each mechanism of the timing model against what an H200 does: microbenchmarks as IR text
 * (program.def, ring.h) go through interpreter and model; mechanism.def names the row of
 * traces/h200/ubench.csv with the measured value. A model within 0.8 to
 * 1.25 of it passes; rows of fault.def are known to be worse and must not get worse still.
 *
 *   test_model_nv_mechanism [text]     prints the table, only rows whose name contains the text */
#include "model/ring.h"
#include "support/suite.h"
#include "support/timed.h"

enum { TEXT_BYTES = 1 << 20, CHASE_LINKS = 1024, DATA_BYTES = 1 << 30, MAP_COLUMNS = 4096 };

struct program {
  const char *name;
  uint64_t shared_kb;
  const char *declarations, *setup, *head, *body, *tail;
};

enum program_id {
#define PROGRAM(name, shared_kb, declarations, setup, body, tail) PROGRAM_##name,
#define ROUNDS(name, shared_kb, declarations, setup, head, body, tail) PROGRAM_##name,
#include "model/program.def"
#undef PROGRAM
#undef ROUNDS
  PROGRAM_COUNT
};
static const struct program programs[] = {
#define PROGRAM(name, shared_kb, declarations, setup, body, tail)                                  \
  {#name, shared_kb, declarations, setup, "", body, tail},
#define ROUNDS(name, shared_kb, declarations, setup, head, body, tail)                             \
  {#name, shared_kb, declarations, setup, head, body, tail},
#include "model/program.def"
#undef PROGRAM
#undef ROUNDS
};

enum kind { KIND_COST, KIND_COLD, KIND_RATE, KIND_GBPS, KIND_TIME, KIND_MHZ, KIND_CODE };
struct mechanism {
  enum kind kind;
  const char *measured;
  enum program_id program;
  int64_t numbers[3];
  uint32_t grid, threads, unroll, rounds;
  double work;
};
static const struct mechanism mechanisms[] = {
#define MECHANISM(kind, measured, program, a, b, c, grid, threads, unroll, rounds, work)           \
  {KIND_##kind, measured, PROGRAM_##program, {a, b, c}, grid, threads, unroll, rounds, work},
#include "model/mechanism.def"
#undef MECHANISM
};
enum { MECHANISM_COUNT = sizeof mechanisms / sizeof *mechanisms };

/* --- text */

struct text {
  char *bytes;
  size_t length;
};

static void add(struct text *text, const char *piece) {
  size_t length = strlen(piece);
  ck_assert_uint_lt(text->length + length, TEXT_BYTES);
  memcpy(text->bytes + text->length, piece, length + 1);
  text->length += length;
}

/* Copies the pattern with $-letters replaced (program.def). */
static void expand(struct text *text, const char *pattern, const int64_t numbers[3],
                   uint32_t repetition) {
  for (; *pattern; pattern++) {
    char piece[24] = {*pattern, 0};
    if (*pattern == '$') {
      char letter = *++pattern;
      int64_t value = repetition;
      if (letter >= 'a' && letter <= 'c') value = numbers[letter - 'a'];
      if (letter >= 'x' && letter <= 'z') value = numbers[letter - 'x'] * repetition;
      if (letter == 'p') value = repetition & 1;
      if (letter == 'j') value = repetition & 7;
      snprintf(piece, sizeof piece, "%lld", (long long)value);
    }
    add(text, piece);
  }
}

static void write_program(struct text *text, const struct program *program,
                          const int64_t numbers[3], uint32_t unroll) {
  text->length = 0;
  add(text, "function \"f\" {\nparam p0 pointer u8 %0 \"data\"\nparam p1 scalar u32 %1 \"rounds\"\n"
            "param p2 tensormap f16 \"map\"\nshared s0 dynamic u8 align 1024 size 1024\n"
            "shared s1 barrier u64 align 8 size 64\nreg %0 ptr\nreg %1 u32\nreg %9 u32\n");
  expand(text, program->declarations, numbers, 0);
  add(text, "region r1 in r0 head b1\nb0 in r0:\n%2 = sreg u32 {which=tid.x}\n"
            "%3 = sreg u32 {which=ctaid.x}\n%4 = and u32 %2, 31\n%5 = shr u32 %2, 5\n"
            "%9 = mov u32 0\n");
  expand(text, program->setup, numbers, 0);
  add(text, "br b1\nb1 in r1:\n");
  expand(text, program->head, numbers, 0);
  for (uint32_t i = 0; i < unroll; i++)
    expand(text, program->body, numbers, i);
  expand(text, program->tail, numbers, 0);
  add(text, "%9 = add u32 %9, 1\n%8 = lt u32 %9, %1\ncbr %8, b1, b2, b2\nb2 in r0:\nexit\n}\n");
}

/* --- one run */

struct outcome {
  double cycles, cold_cycles, us, cold_us;
};

static struct ts_tensormap rows_map(uint64_t address, uint32_t rows) {
  return (struct ts_tensormap){.dtype = TS_TENSORMAP_F16,
                               .elem_size_bytes = 2,
                               .rank = 2,
                               .global_address = address,
                               .size = {MAP_COLUMNS, DATA_BYTES / (2 * MAP_COLUMNS)},
                               .stride_bytes = {2, 2 * MAP_COLUMNS},
                               .box = {64, rows ? rows : 1},
                               .elem_stride = {1, 1},
                               .swizzle = 3};
}

/* A chase or a chain of atomics needs contents: links that lead from line to line, the last one to
 * the first. */
static void fill_links(struct timed *t, uint64_t address, uint64_t step_bytes) {
  struct kernel *k = &t->kernel;
  uint64_t bytes = step_bytes ? step_bytes * CHASE_LINKS : 8;
  ck_assert_int_eq(ts_device_back(&k->ctx, &k->memory, address), TS_OK);
  k->options.addresses_only = false;
  for (uint64_t i = 0; i < CHASE_LINKS; i++) {
    uint64_t next = address + (i + 1) * step_bytes % bytes;
    memcpy(ts_device_pointer(&k->memory, address + i * step_bytes, 8), &next, 8);
  }
}

static void finish(struct timed *t, uint32_t grid, uint32_t threads, struct outcome *outcome) {
  enum ts_status status = timed_run(t, grid, threads);
  if (status != TS_OK) ck_abort_msg("%s", kernel_message(&t->kernel, 0));
  double clock = t->report->clock_mhz;
  const struct ts_launch_report *launch = &t->report->launches[0];
  *outcome = (struct outcome){launch->cycles, launch->cold_us * clock, t->report->kernel_us,
                              t->report->kernel_us_cold};
  timed_end(t);
}

static struct outcome run(const struct mechanism *m, uint32_t grid, uint32_t unroll,
                          uint32_t rounds) {
  const struct program *program = &programs[m->program];
  struct text text = {malloc(TEXT_BYTES), 0};
  struct timed t;
  struct outcome outcome;
  ck_assert_ptr_nonnull(text.bytes);
  write_program(&text, program, m->numbers, unroll);
  timed_begin(&t, text.bytes);
  bool has_contents = m->program == PROGRAM_chase || m->program == PROGRAM_atom_chain;
  uint64_t step_bytes = (uint64_t)m->numbers[0];
  uint64_t address =
      timed_buffer(&t, has_contents ? step_bytes * CHASE_LINKS + 128 : (uint64_t)DATA_BYTES);
  if (has_contents) fill_links(&t, address, step_bytes);
  kernel_scalar(&t.kernel, rounds);
  kernel_map(&t.kernel, rows_map(address, (uint32_t)m->numbers[0] % 257));
  t.kernel.launch.dynamic_shared_bytes = program->shared_kb << 10;
  finish(&t, grid, m->threads, &outcome);
  free(text.bytes);
  return outcome;
}

static double model_value(const struct mechanism *m) {
  enum { CODE_START = 16 };
  struct outcome one = run(m, m->grid, m->kind == KIND_CODE ? CODE_START : m->unroll, m->rounds);
  if (m->kind == KIND_TIME) return one.us;
  struct outcome two = m->kind == KIND_CODE ? run(m, m->grid, m->unroll, m->rounds)
                                            : run(m, m->grid, m->unroll, 2 * m->rounds);
  double cycles = two.cycles - one.cycles, cold = two.cold_cycles - one.cold_cycles;
  switch (m->kind) {
  case KIND_COLD: return cold / m->rounds / m->work;
  case KIND_RATE: return m->work * m->rounds / cycles;
  case KIND_GBPS: return m->work * m->rounds / (two.cold_us - one.cold_us) / 1e3;
  case KIND_MHZ: return cycles / (two.us - one.us);
  case KIND_CODE: return cycles + CODE_START + 1;
  default: return cycles / m->rounds / m->work;
  }
}

/* --- rings and hand-offs, whose programs are more than a loop */

static double ring_value(const struct ring *ring) {
  char *text = malloc(RING_TEXT_BYTES);
  struct outcome outcome[2];
  ck_assert_ptr_nonnull(text);
  ring_write(ring, text);
  for (uint32_t i = 0; i < 2; i++) {
    struct timed t;
    timed_begin(&t, text);
    uint64_t address = timed_buffer(&t, DATA_BYTES);
    kernel_scalar(&t.kernel, ring->rounds * (i + 1));
    kernel_map(&t.kernel, rows_map(address, ring->rows));
    t.kernel.launch.dynamic_shared_bytes = 200 << 10;
    finish(&t, ring->blocks, 256, &outcome[i]);
  }
  free(text);
  double cycles = (outcome[1].cycles - outcome[0].cycles) / (ring->rounds * ring->boxes_per_round);
  return ring->is_rate ? ring->boxes * 128.0 * ring->rows / cycles : cycles;
}

/* --- measured values */

static bool find_measured(const char *name, double *value) {
  char line[256];
  size_t length = strlen(name);
  FILE *file = fopen("traces/h200/ubench.csv", "r");
  ck_assert_ptr_nonnull(file);
  bool found = false;
  while (!found && fgets(line, sizeof line, file)) {
    found = strncmp(line, name, length) == 0 && line[length] == ',';
    if (found) *value = strtod(line + length + 1, NULL);
  }
  fclose(file);
  return found;
}

/* --- the table */

static const char *wanted; /* argument of main: names that are shown */

/* Model over measured of what is known to be wrong (fault.def). */
static double known_fault(const char *name) {
  static const struct {
    const char *name;
    double ratio;
  } faults[] = {
#define FAULT(name, ratio) {name, ratio},
#include "model/fault.def"
#undef FAULT
      {NULL, 0}};
  for (size_t i = 0; faults[i].name; i++)
    if (strcmp(faults[i].name, name) == 0) return faults[i].ratio;
  return 1;
}

/* Answers 1 when the row is out of bounds; the clock is known better than the rest. */
static uint32_t show(const char *name, double model, bool is_clock) {
  double measured = 0, good_low = is_clock ? 0.98 : 0.8, good_high = is_clock ? 1.02 : 1.25;
  double low = good_low, high = good_high, fault = known_fault(name);
  if (!find_measured(name, &measured)) {
    printf("%-46s has no measured value\n", name);
    return 1;
  }
  if (0.9 * fault < low) low = 0.9 * fault;
  if (1.1 * fault > high && fault > 1) high = 1.1 * fault;
  double ratio = model / measured;
  bool is_out = !(ratio >= low && ratio <= high), is_good = ratio >= good_low && ratio <= good_high;
  const char *mark = is_out ? "out of bounds" : !is_good ? "known fault" : "";
  if (is_good && fault != 1) mark = "no longer a fault: fault.def";
  printf("%-46s %10.2f %10.2f %7.3f  %s\n", name, measured, model, ratio, mark);
  fflush(stdout);
  return is_out;
}

static void head(void) {
  printf("%-46s %10s %10s %7s\n", "mechanism", "measured", "model", "ratio");
}

START_TEST(test_programs) {
  uint32_t bad_count = 0;
  head();
  for (size_t i = 0; i < MECHANISM_COUNT; i++) {
    const struct mechanism *m = &mechanisms[i];
    if (wanted && !strstr(m->measured, wanted)) continue;
    bad_count += show(m->measured, model_value(m), m->kind == KIND_MHZ);
  }
  ck_assert_msg(bad_count == 0, "%u mechanisms are out of their bounds", bad_count);
}
END_TEST

START_TEST(test_rings) {
  uint32_t bad_count = 0;
  head();
  for (size_t i = 0; i < RING_COUNT; i++) {
    if (wanted && !strstr(rings[i].measured, wanted)) continue;
    bad_count += show(rings[i].measured, ring_value(&rings[i]), false);
  }
  ck_assert_msg(bad_count == 0, "%u mechanisms are out of their bounds", bad_count);
}
END_TEST

int main(int argument_count, char **arguments) {
  wanted = argument_count > 1 ? arguments[1] : NULL;
  return RUN_TESTS("mechanism", test_programs, test_rings);
}
