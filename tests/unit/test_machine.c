/* Machine files: the shipped one equals the default that is compiled in; faults are named with their
 * line. */
#include "base/file.h"
#include "machine/machine.h"
#include "support/suite.h"

#include <stdio.h>
#include <string.h>

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
};

static void begin(struct fixture *x) {
  ck_assert_int_eq(ts_diag_list_init(&x->diags, &ts_allocator_libc), TS_OK);
  x->ctx = (struct ts_ctx){&ts_allocator_libc, &x->diags};
}

static void end(struct fixture *x) { ts_diag_list_free(&x->diags); }

START_TEST(test_default_is_the_file) {
  struct fixture x;
  struct ts_machine built_in, alias, file;
  memset(&built_in, 0, sizeof built_in);
  memset(&alias, 0, sizeof alias);
  memset(&file, 0, sizeof file);
  begin(&x);
  ts_machine_default(&built_in);
  ck_assert_int_eq(ts_machine_load(&x.ctx, "nowhere", "h200", &alias), TS_OK);
  ck_assert_int_eq(ts_machine_load(&x.ctx, NULL, "machines/h200-sxm.mach", &file), TS_OK);
  const struct ts_machine *others[] = {&alias, &file};
  for (int i = 0; i < 2; i++) {
    ck_assert_str_eq(built_in.name, others[i]->name);
    ck_assert_str_eq(built_in.profile, others[i]->profile);
#define LIMIT(key, member, kind, unit, least)                                                      \
  ck_assert_msg(built_in.member == others[i]->member, "%s", #key);
#include "machine/limit.def"
#undef LIMIT
  }
  ck_assert_uint_eq(built_in.max_shared_bytes_per_block, 227 * 1024);
  end(&x);
}
END_TEST

START_TEST(test_unknown_machine) {
  struct fixture x;
  struct ts_machine machine;
  begin(&x);
  ck_assert_int_eq(ts_machine_load(&x.ctx, "machines", "z80", &machine), TS_BAD_ARGUMENT);
  ck_assert_ptr_nonnull(strstr(x.diags.items.data[0].message, "machines/z80.mach"));
  ck_assert_int_ne(ts_machine_load(&x.ctx, "machines", "./none.mach", &machine), TS_OK);
  end(&x);
}
END_TEST

/* The text of the shipped file with `from` replaced by `to` must give the message at the line. */
static void check_fault(const char *from, const char *to, uint32_t line, const char *message) {
  static const char path[] = "test_machine.tmp.mach";
  struct fixture x;
  struct ts_file file;
  struct ts_machine machine;
  char text[32768];
  begin(&x);
  ck_assert_int_eq(ts_file_read(&x.ctx, "machines/h200-sxm.mach", 1 << 16, &file), TS_OK);
  const char *at = strstr(file.data, from);
  ck_assert_ptr_nonnull(at);
  int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - file.data), file.data, to,
                        at + strlen(from));
  ck_assert_int_lt(length, (int)sizeof text);
  ck_assert_int_eq(ts_file_write(&x.ctx, path, text, (size_t)length), TS_OK);
  ck_assert_int_eq(ts_machine_load(&x.ctx, NULL, path, &machine), TS_BAD_INPUT);
  remove(path);
  ck_assert_int_eq(x.diags.items.data[0].code, TS_DIAG_INPUT_MACHINE);
  ck_assert_uint_eq(x.diags.items.data[0].place.line, line);
  ck_assert_msg(strstr(x.diags.items.data[0].message, message) != NULL, "%s",
                x.diags.items.data[0].message);
  ts_file_free(&file);
  end(&x);
}

/* Constants of timing may be left out, limits may not. */
START_TEST(test_missing) {
  static const char head[] = "tilesim-machine 1\nname x\nprofile nv_sm90\n";
  struct fixture x;
  struct ts_machine machine;
  begin(&x);
  ck_assert_int_eq(ts_file_write(&x.ctx, "test_machine.tmp.mach", head, sizeof head - 1), TS_OK);
  ck_assert_int_eq(ts_machine_load(&x.ctx, NULL, "./test_machine.tmp.mach", &machine),
                   TS_BAD_INPUT);
  ck_assert_ptr_nonnull(strstr(x.diags.items.data[0].message, "sm_count is missing"));
  remove("test_machine.tmp.mach");
  ts_machine_default(&machine);
  ck_assert(machine.timing[TS_TIMING_sm_clock] > 0);
  ck_assert_uint_ne(machine.timing_tag[TS_TIMING_sm_clock], TS_TAG_NONE);
  ck_assert_str_eq(ts_timing_unit(TS_TIMING_sm_clock), "MHz");
  end(&x);
}
END_TEST

START_TEST(test_faults) {
  check_fault("tilesim-machine 1", "tilesim-machine 2", 1, "version 2");
  check_fault("tilesim-machine", "machine", 1, "expected \"tilesim-machine 1\"");
  check_fault("name    h200-sxm", "name", 2, "expected \"name NAME\"");
  check_fault("name    h200-sxm", "name a-name-that-is-much-longer-than-it-may-be", 2, "longer");
  check_fault("132 SMs", "132 cores", 6, "expected the unit \"SMs\"");
  check_fault("132 SMs", "-1 SMs", 6, "not a number");
  check_fault("132 SMs", "4294967296 SMs", 6, "not a number that fits");
  check_fault("141000000000", "99999999999999999999", 17, "not a number that fits");
  check_fault("max_grid_x ", "max_grid_w ", 9, "unknown key \"max_grid_w\"");
  check_fault("max_grid_x ", "max_grid_y ", 10, "given twice");
  check_fault("SMs       DOC", "SMs       RUMOUR", 6, "expected a tag");
  check_fault("NVIDIA H200 data sheet: 141 GB of HBM3e", "", 17, "has no source");
}
END_TEST

/* A file of a few lines, with all limits of the shipped one. */
static enum ts_status load_lines(struct fixture *x, const char *path, const char *head,
                                 const char *constants, struct ts_machine *machine) {
  struct ts_file file;
  char text[32768];
  ck_assert_int_eq(ts_file_read(&x->ctx, "machines/h200-sxm.mach", 1 << 16, &file), TS_OK);
  const char *limits = strstr(file.data, "sm_count"), *end = strstr(file.data, "# timing");
  ck_assert(limits && end);
  int length = snprintf(text, sizeof text, "tilesim-machine 1\n%s\n%.*s%s\n", head,
                        (int)(end - limits), limits, constants);
  ck_assert_int_lt(length, (int)sizeof text);
  ck_assert_int_eq(ts_file_write(&x->ctx, path, text, (size_t)length), TS_OK);
  ts_file_free(&file);
  enum ts_status status = ts_machine_load(&x->ctx, NULL, path, machine);
  remove(path);
  return status;
}

/* A file that is like the shipped one but for one constant. */
static void check_constant(int id, const char *value, enum ts_status expected) {
  struct fixture x;
  struct ts_machine machine;
  char line[256];
  begin(&x);
  snprintf(line, sizeof line, "%s %s %s GUESS a test", ts_timing_key((enum ts_timing_id)id), value,
           ts_timing_unit((enum ts_timing_id)id));
  ck_assert_msg(load_lines(&x, "./test_machine.range.mach", "name y\nprofile nv_sm90\nlike h200",
                           line, &machine) == expected,
                "%s", line);
  end(&x);
}

/* Every constant of the shipped file at zero and far beyond use: refused, or one that a model can take.
 * Rates and counts must not be zero, nothing may reach infinity. */
START_TEST(test_ranges) {
  check_fault("132 SMs", "0 SMs", 6, "sm_count: 0 is too small; the least is 1");
  for (int i = 0; i < TS_TIMING_COUNT; i++) {
    bool is_rate = strstr(ts_timing_unit((enum ts_timing_id)i), "/") != NULL ||
                   !strcmp(ts_timing_unit((enum ts_timing_id)i), "MHz") ||
                   !strcmp(ts_timing_unit((enum ts_timing_id)i), "share"); /* of the clock */
    check_constant(i, "0", is_rate ? TS_BAD_INPUT : TS_OK);
    check_constant(i, "1", TS_OK);
    check_constant(i, "1e13", TS_BAD_INPUT);
    check_constant(i, "1e308", TS_BAD_INPUT);
  }
}
END_TEST

/* What a file does not state comes from the machine it is like, as a guess; "none" is not filled. */
START_TEST(test_like) {
  struct fixture x;
  struct ts_machine machine, base;
  begin(&x);
  ts_machine_default(&base);
  ck_assert_int_eq(load_lines(&x, "./test_machine.like.mach", "name y\nprofile nv_sm90\nlike h200",
                              "sm_clock 1000 MHz DOC a data sheet\n"
                              "tma_issue none cycles DOC it has no such engine",
                              &machine),
                   TS_OK);
  ck_assert_double_eq(machine.timing[TS_TIMING_sm_clock], 1000);
  ck_assert_uint_eq(machine.timing_tag[TS_TIMING_sm_clock], TS_TAG_DOC);
  ck_assert_double_eq(machine.timing[TS_TIMING_l2_latency], base.timing[TS_TIMING_l2_latency]);
  ck_assert_uint_eq(machine.timing_tag[TS_TIMING_l2_latency], TS_TAG_GUESS);
  ck_assert(machine.timing[TS_TIMING_tma_issue] != machine.timing[TS_TIMING_tma_issue]);
  ck_assert_int_eq(load_lines(&x, "./test_machine.alone.mach", "name y\nprofile nv_sm90",
                              "sm_clock 1000 MHz DOC a data sheet", &machine),
                   TS_OK);
  ck_assert(machine.timing[TS_TIMING_l2_latency] != machine.timing[TS_TIMING_l2_latency]);
  ck_assert_int_eq(load_lines(&x, "./test_machine.unknown.mach",
                              "name y\nprofile nv_sm90\nlike nosuch", "", &machine),
                   TS_BAD_INPUT);
  ck_assert_int_eq(load_lines(&x, "./test_machine.circle.mach",
                              "name y\nprofile nv_sm90\nlike ./test_machine.circle.mach", "",
                              &machine),
                   TS_BAD_INPUT);
  ck_assert_ptr_nonnull(
      strstr(x.diags.items.data[0].message, "like: there is no machine \"nosuch\""));
  ck_assert_ptr_nonnull(strstr(x.diags.items.data[1].message, "in a circle"));
  end(&x);
}
END_TEST

int main(void) {
  return RUN_TESTS("machine", test_default_is_the_file, test_unknown_machine, test_missing,
                   test_faults, test_ranges, test_like);
}
