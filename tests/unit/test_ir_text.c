/* The text form: round trips, errors with position, short memory. */
#include "ir/build.h"

#include "support/failing_allocator.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char all[] = "tilesim-ir 1\n"
                          "place \"kernel.py\" 12 5\n"
                          "place \"a \\\"quoted\\\"\\\\ name\\x07\\n\" 13 1\n"
                          "\n"
                          "function \"main_kernel\" {\n"
                          "arch \"sm_90a\"\n"
                          "fast_math\n"
                          "cluster 2 1 1\n"
                          "threads 128 1 1\n"
                          "entry b1\n"
                          "param p0 pointer f16 %0 \"A\"\n"
                          "param p1 tensormap f16 \"A_desc\"\n"
                          "param p2 scalar s32 %1\n"
                          "array a0 f32 64 \"acc\"\n"
                          "array a1 f16 8\n"
                          "shared s0 dynamic u8 align 1024 size 65536 \"buf\"\n"
                          "shared s1 barrier u64 align 8 size 16\n"
                          "reg %0 ptr\n"
                          "reg %1 s32\n"
                          "reg %7 s32 \"i\"\n"
                          "reg %15 f64x2\n"
                          "region r1 in r0 head b1\n"
                          "region r2 in r1 head b2\n"
                          "b0 in r0:\n"
                          "  exit\n"
                          "b1 in r1:\n"
                          "  %7 = mov s32 -5 @1\n"
                          "  %2 = sreg u32 {which=tid.x} @2\n"
                          "  %3 = cvt f16 s32 %7 {round=rz}\n"
                          "  %4 = concat f16x4 0x3c00, %3, %3, 0x0\n"
                          "  %5 = extract f16 %4, 3 {source_lanes=4}\n"
                          "  %6 = lt s32 %7, %1\n"
                          "  %8 = ld.global f16x8 %0, %7 {scale=2, offset=-16} @1\n"
                          "  %9 = bitcast u32x4 f16 %8\n"
                          "  %10 = add u64 18446744073709551615, 0x1\n"
                          "  %11 = add s64 -9223372036854775808, 9223372036854775807\n"
                          "  st.local f16x8 a1, 0xffffffff, %8\n"
                          "  %12 = vote pred %6, 0xffffffff {mode=ballot}\n"
                          "  %13 = select f16x4 %6, %4, 0x3c00\n"
                          "  tma.load p1, s0, s1, 0, %7\n"
                          "  %14 = ld.shared u8 s0, 0xffffffffffff\n"
                          "  mma f32 f16 a1, 0, a1, 4, a0, 0 {m=16, n=8, k=16, b_dtype=f16}\n"
                          "  assert 1, \"x > 0: \\\"%d\\\"\"\n"
                          "  cbr %6, b2, b0, b0\n"
                          "b2 in r1:\n"
                          "  print \"values\", %6, 7\n"
                          "  cbr %6, b3, b1, b1\n"
                          "b3 in r2:\n"
                          "  br b1\n"
                          "}\n"
                          "\n"
                          "function \"second\" {\n"
                          "b0 in r0:\n"
                          "  exit\n"
                          "}\n";

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
};

static void begin(struct fixture *x) {
  ck_assert_int_eq(ts_diag_list_init(&x->diags, &ts_allocator_libc), TS_OK);
  x->ctx = (struct ts_ctx){&ts_allocator_libc, &x->diags};
}

static struct ts_module *parse(struct fixture *x, const char *text) {
  struct ts_module *module;
  enum ts_status status = ts_parse_module(&x->ctx, "t.ir", text, strlen(text), &module);
  if (status != TS_OK && x->diags.items.count)
    ck_abort_msg("%u:%u: %s", x->diags.items.data[0].place.line,
                 x->diags.items.data[0].place.column, x->diags.items.data[0].message);
  ck_assert_int_eq(status, TS_OK);
  return module;
}

/* The canonical text is what print writes; hexadecimal spellings of small numbers are not. */
START_TEST(test_round_trip) {
  struct fixture x;
  begin(&x);
  struct ts_module *module = parse(&x, all);
  char *text, *again;
  size_t size, size_again;
  ck_assert_int_eq(ts_print_module(&x.ctx, module, &text, &size), TS_OK);
  ck_assert_uint_eq(size, strlen(text));
  struct ts_module *second = parse(&x, text);
  ck_assert_int_eq(ts_print_module(&x.ctx, second, &again, &size_again), TS_OK);
  ck_assert_str_eq(text, again);
  ck_assert_ptr_nonnull(strstr(text, "  %10 = add u64 0xffffffffffffffff, 1\n"));
  char *same = strstr(text, "0xffffffffffffffff, 1\n");
  ck_assert_ptr_nonnull(same);
  /* Apart from that line the text above is canonical. */
  const char *line = strstr(all, "  %10 = "), *rest = strstr(all, "  %11 = ");
  ck_assert_int_eq(strncmp(text, all, (size_t)(line - all)), 0);
  ck_assert_str_eq(strstr(text, "  %11 = "), rest);
  free(text);
  free(again);
  ts_module_free(module);
  ts_module_free(second);
  ts_diag_list_free(&x.diags);
}
END_TEST

START_TEST(test_contents) {
  struct fixture x;
  begin(&x);
  struct ts_module *module = parse(&x, all);
  struct ts_function *f = ts_module_find(module, "main_kernel");
  ck_assert_ptr_nonnull(f);
  ck_assert(f->fast_math);
  ck_assert_str_eq(f->arch, "sm_90a");
  ck_assert_uint_eq(f->cluster[0], 2);
  ck_assert_uint_eq(f->entry, 1);
  ck_assert_uint_eq(f->regs.count, 16);
  ck_assert_uint_eq(f->regs.data[12].type.dtype, TS_DTYPE_u32);
  ck_assert_uint_eq(f->regs.data[6].type.dtype, TS_DTYPE_pred);
  ck_assert_uint_eq(f->regs.data[8].type.lanes, 8);
  ck_assert_uint_eq(f->shared.data[0].address, 1024);
  const struct ts_insn *mov = &f->insns.data[f->blocks.data[1].first_insn];
  ck_assert_uint_eq(f->constants.data[ts_insn_operand(f, mov, 0)->index], 0xfffffffb);
  struct ts_source_place place = ts_insn_place(f, f->blocks.data[1].first_insn + 1);
  ck_assert_str_eq(place.file, "a \"quoted\"\\ name\x07\n");
  ck_assert_uint_eq(place.line, 13);
  const struct ts_insn *load = mov + 6;
  ck_assert_uint_eq(load->op, TS_OP_ld_global);
  ck_assert_int_eq(ts_insn_attr(f, load, TS_ATTR_offset, 0), -16);
  ck_assert_int_eq(ts_insn_attr(f, load, TS_ATTR_scale2, 77), 77);
  ts_module_free(module);
  ts_diag_list_free(&x.diags);
}
END_TEST

#define BODY(text) "tilesim-ir 1\nfunction \"f\" {\nb0 in r0:\n" text "\n}\n"

/* found is a part of the message; line 0 when the verifier, which sees no text, reports. */
static const struct {
  const char *text;
  uint32_t line, column;
  const char *found;
} errors[] = {
    {"", 1, 1, "expected tilesim-ir, found the end of the text"},
    {"tilesim-ir 2", 1, 12, "expected version 1, found '2'"},
    {"tilesim-ir 1\nfunction f", 2, 10, "expected a string, found 'f'"},
    {"tilesim-ir 1\nfunction \"f", 2, 10, "expected a well-formed token"},
    {"tilesim-ir 1\n  else", 2, 3, "expected place, function or the end"},
    {BODY("  frob %1"), 4, 3, "expected an instruction, found 'frob'"},
    {BODY("  %1 = add f33 1, 2"), 4, 12, "expected a type, found 'f33'"},
    {BODY("  %1 = add f32x65 1, 2"), 4, 12, "expected a type"},
    {BODY("  %1 = add s32 1 2"), 4, 18, "expected an instruction, found '2'"},
    {BODY("  %999999999 = add s32 1, 2"), 4, 3, "expected a register number"},
    {BODY("  %1 = add s32 1, 99999999999999999999"), 4, 19, "expected a well-formed token"},
    {BODY("  %1 = add s8 1, -129"), 4, 18, "expected a value of the operand's type"},
    {BODY("  %1 = sreg s32 {which=tid.w}"), 4, 24, "expected a value of the attribute"},
    {BODY("  %1 = sreg s32 {who=tid.x}"), 4, 18, "expected an attribute"},
    {BODY("  exit @1"), 4, 9, "expected the number of a place"},
    {BODY("  exit\nb2 in r0:"), 5, 1, "expected b1, found 'b2'"},
    {BODY("  print \"a\\qb\"\n  exit"), 4, 9, "expected a string with known escapes"},
    {"tilesim-ir 1\nfunction \"f\" {\n exit\n}", 3, 2, "expected a block"},
    {BODY("  %0 = add s8 1, 300\n  exit"), 0, 0, "0x12c is no s8"},
    {BODY("  %1 = add s32 1, 2\n  exit"), 0, 0, "register %0 has no type"},
    {BODY("  %0 = mov s32 1"), 0, 0, "no terminator"},
    {BODY("  exit\n  exit"), 0, 0, "a terminator inside"},
    {BODY("  %0 = mov s32 1\n  %1 = add f32 %0, 0\n  exit"), 0, 0, "which is not the instruction"},
    {BODY("  br b7"), 0, 0, "must be a block"},
    {BODY("  st.local f32 a0, 0, 0x0\n  exit"), 0, 0, "must be a local array"},
    {BODY("  %0 = sreg u32\n  exit"), 0, 0, "attribute which is missing"},
    {BODY("  %0 = concat f32x4 0x0, 0x0\n  exit"), 0, 0, "the parts have 2 components"},
    {BODY("  %0 = mov f32x2 0x0\n  %1 = extract f32 %0, 2 {source_lanes=2}\n  exit"), 0, 0,
     "no component 2"},
    {BODY("  %0 = mov f32x2 0x0\n  %1 = bitcast u32 f32 %0\n  exit"), 0, 0, "32 bits from 64"},
    {BODY("  %0 = mov s32 1 {offset=1, offset=2}\n  exit"), 0, 0, "attribute offset twice"},
    {BODY("  cp.async 0, 0, 0, 0, 1 {bytes=5}\n  exit"), 0, 0, "copies 4, 8 or 16 bytes"},
    {"tilesim-ir 1\nfunction \"f\" {\nregion r1 in r1 head b0\nb0 in r0:\n exit\n}", 0, 0,
     "region 1 comes before its parent"},
    {"tilesim-ir 1\nfunction \"f\" {\nregion r1 in r0 head b0\nb0 in r0:\n exit\n}", 0, 0,
     "the head of region 1 does not branch"},
    {"tilesim-ir 1\nfunction \"f\" {\narray a0 f32 99999999999\nb0 in r0:\n exit\n}", 0, 0,
     "register array"},
    {"tilesim-ir 1\nfunction \"f\" {\n}", 0, 0, "there is no entry block"},
};

START_TEST(test_error) {
  struct fixture x;
  begin(&x);
  struct ts_module *module;
  const char *text = errors[_i].text;
  enum ts_status status = ts_parse_module(&x.ctx, "t.ir", text, strlen(text), &module);
  ck_assert(status == TS_BAD_INPUT || status == TS_LIMIT);
  ck_assert_ptr_null(module);
  ck_assert_uint_eq(x.diags.items.count, 1);
  const struct ts_diag *diag = &x.diags.items.data[0];
  ck_assert_msg(strstr(diag->message, errors[_i].found) != NULL, "%s", diag->message);
  ck_assert_uint_eq(diag->place.line, errors[_i].line);
  ck_assert_uint_eq(diag->place.column, errors[_i].column);
  ts_diag_list_free(&x.diags);
}
END_TEST

/* Any prefix and any text with a byte changed is read or refused, never worse. */
START_TEST(test_damaged) {
  struct fixture x;
  begin(&x);
  size_t length = strlen(all);
  char *copy = malloc(length);
  ck_assert_ptr_nonnull(copy);
  for (size_t i = 0; i < length; i++) {
    struct ts_module *module;
    memcpy(copy, all, length);
    if (ts_parse_module(&x.ctx, "t.ir", copy, i, &module) == TS_OK) ts_module_free(module);
    copy[i] = (char)(copy[i] ^ (1 << i % 8));
    if (ts_parse_module(&x.ctx, "t.ir", copy, length, &module) == TS_OK) ts_module_free(module);
  }
  free(copy);
  ts_diag_list_free(&x.diags);
}
END_TEST

START_TEST(test_short_memory) {
  struct fixture x;
  begin(&x);
  enum ts_status status = TS_NO_MEMORY;
  for (uint64_t n = 1; status != TS_OK; n++) {
    struct failing_allocator memory;
    failing_allocator_init(&memory);
    memory.failing_call = n;
    memory.fails_from_there = true;
    struct ts_ctx ctx = {&memory.allocator, &x.diags};
    struct ts_module *module;
    char *text = NULL;
    size_t size = 0;
    status = ts_parse_module(&ctx, "t.ir", all, strlen(all), &module);
    if (status == TS_OK) {
      status = ts_print_module(&ctx, module, &text, &size);
      if (status == TS_OK) failing_allocator_resize(&memory, text, size + 1, 0);
      ts_module_free(module);
    }
    ck_assert_msg(status == TS_OK || status == TS_NO_MEMORY, "%s", ts_status_text(status));
    ck_assert_uint_eq(memory.alive_blocks, 0);
  }
  ts_diag_list_free(&x.diags);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ir_text");
  TCase *tests = tcase_create("text");
  tcase_add_test(tests, test_round_trip);
  tcase_add_test(tests, test_contents);
  tcase_add_loop_test(tests, test_error, 0, (int)(sizeof errors / sizeof *errors));
  tcase_add_test(tests, test_damaged);
  tcase_add_test(tests, test_short_memory);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
