/* The lowering of device functions, seen through the IR's text form. */
#include "front/tvm/lower_priv.h"
#include "support/suite.h"
#include "support/tir_make.h"

#include <math.h>
#include <stdio.h>

struct lowered {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_module *module;
  enum ts_status status;
  char *text;
  size_t size_bytes;
};

/* Lowers a function f of the parameters (NULL-terminated) and the body. */
static struct lowered *lower_with(const struct ts_tvm_options *options, const struct tir_stmt *body,
                                  const struct tir_var *const *params) {
  static struct lowered result;
  static struct tir_func func;
  static const struct tir_func *funcs[1] = {&func};
  size_t count = 0;
  while (params && params[count])
    count++;
  func = (struct tir_func){.name = "f",
                           .params = {count, params},
                           .attrs = &make_no_map,
                           .place = make_place,
                           .body = body};
  struct tir_module device = {.func_count = 1,
                              .funcs = funcs,
                              .attrs = &make_no_map,
                              .var_count = make_pool.var_count,
                              .path = "x.json"};
  result = (struct lowered){.status = TS_OK};
  ck_assert_int_eq(ts_diag_list_init(&result.diags, &ts_allocator_libc), TS_OK);
  result.ctx = (struct ts_ctx){&ts_allocator_libc, &result.diags};
  result.module = ts_module_new(&ts_allocator_libc);
  result.status = ts__tvm_lower_device(&result.ctx, &device, options, result.module);
  if (result.status == TS_OK) {
    ck_assert_int_eq(ts_print_module(&result.ctx, result.module, &result.text, &result.size_bytes),
                     TS_OK);
  }
  return &result;
}

static struct lowered *lower(const struct tir_stmt *body, const struct tir_var *const *params) {
  return lower_with(NULL, body, params);
}

static void lowered_free(struct lowered *result) {
  if (result->text) {
    ts_allocator_libc.resize(NULL, result->text, result->size_bytes + 1, 0);
  }
  ts_module_free(result->module);
  ts_diag_list_free(&result->diags);
}

/* The text holds the pieces in that order. */
static void expect(const struct lowered *result, size_t count, const char *const *pieces) {
  if (result->status != TS_OK) ck_abort_msg("%s", result->diags.items.data[0].message);
  const char *at = result->text;
  for (size_t i = 0; i < count; i++) {
    const char *found = strstr(at, pieces[i]);
    if (!found) ck_abort_msg("'%s' is not (in this place) in\n%s", pieces[i], result->text);
    at = found + strlen(pieces[i]);
  }
}
#define EXPECT(result, ...)                                                                        \
  expect((result), sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),                         \
         (const char *const[]){__VA_ARGS__})

static size_t occurrences(const struct lowered *result, const char *piece) {
  size_t count = 0;
  ck_assert_int_eq(result->status, TS_OK);
  for (const char *at = result->text; (at = strstr(at, piece)); at += strlen(piece))
    count++;
  return count;
}

#define INT(value) make_int("int32", value)
#define ADD(a, b) make_binary(TIR_ADD, "int32", a, b)
#define SUB(a, b) make_binary(TIR_SUB, "int32", a, b)
#define MUL(a, b) make_binary(TIR_MUL, "int32", a, b)
#define MOD(a, b) make_binary(TIR_FLOOR_MOD, "int32", a, b)
#define DIV(a, b) make_binary(TIR_FLOOR_DIV, "int32", a, b)
#define LT(a, b) make_binary(TIR_LT, "bool", a, b)

static const struct tir_var *global_var(const char *name, const char *dtype) {
  return make_var(name, "handle", dtype, "global");
}

/* --- the table */

START_TEST(builtins_are_sorted) {
  size_t count = 0;
  for (const struct ts__builtin *row; (row = ts__builtin_at(count)); count++) {
    if (count) ck_assert_str_gt(row->name, ts__builtin_at(count - 1)->name);
    ck_assert_ptr_eq(ts__builtin_find(row->name), row);
    ck_assert_uint_le(row->min_args, row->max_args);
  }
  ck_assert_uint_gt(count, 100);
  ck_assert_ptr_null(ts__builtin_find("tl.no_such_thing"));
  ck_assert_ptr_null(ts__builtin_find(""));
}
END_TEST

/* --- constants */

static uint64_t store_constant(const char *dtype, double value) {
  make_begin();
  const struct tir_var *out = global_var("C", dtype);
  const struct tir_var *params[] = {out, NULL};
  struct lowered *result =
      lower(make_store(make_buffer(out, dtype, 4), INT(0), make_float(dtype, value)), params);
  ck_assert_int_eq(result->status, TS_OK);
  const struct ts_function *function = ts_module_find(result->module, "f");
  uint64_t encoding = UINT64_MAX;
  for (size_t i = 0; i < function->insns.count; i++) {
    const struct ts_insn *insn = &function->insns.data[i];
    if (insn->op != TS_OP_st_global) continue;
    const struct ts_operand *operand = ts_insn_operand(function, insn, 2);
    ck_assert_uint_eq(operand->kind, TS_OPERAND_IMM);
    encoding = function->constants.data[operand->index];
  }
  lowered_free(result);
  return encoding;
}

START_TEST(float_constants) {
  ck_assert_uint_eq(store_constant("float32", 0.1), 0x3dcccccd);
  ck_assert_uint_eq(store_constant("float64", 0.1), 0x3fb999999999999a);
  ck_assert_uint_eq(store_constant("float16", 7.0), 0x4700);
  ck_assert_uint_eq(store_constant("float16", 2049.0), 0x6800); /* a tie, to even */
  ck_assert_uint_eq(store_constant("float16", 2051.0), 0x6802);
  ck_assert_uint_eq(store_constant("float16", 65519.0), 0x7bff);
  ck_assert_uint_eq(store_constant("float16", 65520.0), 0x7c00);
  ck_assert_uint_eq(store_constant("float16", ldexp(1, -24)), 0x0001);
  ck_assert_uint_eq(store_constant("float16", ldexp(1, -25)), 0x0000);
  ck_assert_uint_eq(store_constant("float16", ldexp(1.5, -25)), 0x0001);
  ck_assert_uint_eq(store_constant("float16", ldexp(2047, -25)), 0x0400); /* subnormal carries */
  ck_assert_uint_eq(store_constant("bfloat16", -1.00390625), 0xbf80);
  ck_assert_uint_eq(store_constant("bfloat16", 3.3895314e38), 0x7f7f);
  ck_assert_uint_eq(store_constant("bfloat16", INFINITY), 0x7f80);
  ck_assert_uint_eq(store_constant("float8_e4m3fn", 448.0), 0x7e);
  ck_assert_uint_eq(store_constant("float8_e4m3fn", 1000.0), 0x7e);
  ck_assert_uint_eq(store_constant("float8_e5m2", 0.001), 0x14);
  ck_assert_uint_eq(store_constant("float16", -0.0), 0x8000);
  ck_assert_uint_eq(store_constant("float16", NAN), ts_dtype_nan(TS_DTYPE_f16));
}
END_TEST

/* --- addresses and loops */

START_TEST(unrolled_copies_share_their_address) {
  make_begin();
  const struct tir_var *a = global_var("A", "float32"), *n = make_var("n", "int32", NULL, NULL);
  const struct tir_var *i = make_var("i", "int32", NULL, NULL);
  const struct tir_buffer *buffer = make_buffer(a, "float32", 1 << 20);
  const struct tir_expr *index =
      SUB(ADD(ADD(MUL(make_use(i), INT(4096)), MUL(ADD(make_use(n), INT(3)), INT(4))),
              MOD(make_use(i), INT(2))),
          INT(100));
  const struct tir_var *params[] = {a, n, NULL};
  struct lowered *result = lower(
      make_for(TIR_LOOP_UNROLLED, i, INT(3),
               make_store(buffer, make_ramp("int32x4", index, 1, 4), make_float("float32x4", 0))),
      params);
  EXPECT(result, "%2 = mul s32 %1, 4", "st.global f32x4 %0, %2, 0x0 {scale=4, offset=-352}",
         "st.global f32x4 %0, %2, 0x0 {scale=4, offset=16036}",
         "st.global f32x4 %0, %2, 0x0 {scale=4, offset=32416}");
  ck_assert_uint_eq(occurrences(result, "mul"), 1);
  lowered_free(result);
}
END_TEST

START_TEST(which_loops_are_unrolled) {
  make_begin();
  const struct tir_var *a = global_var("A", "int32"), *n = make_var("n", "int32", NULL, NULL);
  const struct tir_var *i = make_var("i", "int32", NULL, NULL);
  const struct tir_buffer *buffer = make_buffer(a, "int32", 1 << 20);
  const struct tir_stmt *body = make_store(buffer, make_use(i), INT(1));
  const struct tir_stmt *sync =
      make_evaluate(make_call("handle", "tirx.tvm_storage_sync", (size_t)1, make_string("shared")));
  const struct tir_stmt *arrive =
      make_evaluate(make_call("handle", "tl.named_barrier_arrive", (size_t)2, INT(1), INT(64)));
  const struct tir_var *params[] = {a, n, NULL};

  struct lowered *result = lower(make_for(TIR_LOOP_SERIAL, i, INT(8), body), params);
  ck_assert_uint_eq(occurrences(result, "st.global"), 8);
  lowered_free(result);
  result = lower(make_for(TIR_LOOP_SERIAL, i, INT(8), make_seq(2, body, sync)), params);
  ck_assert_uint_eq(occurrences(result, "st.global"), 8);
  ck_assert_uint_eq(occurrences(result, "bar.sync"), 8);
  lowered_free(result);
  result = lower(make_for(TIR_LOOP_SERIAL, i, INT(8), make_seq(2, body, arrive)), params);
  ck_assert_uint_eq(occurrences(result, "st.global"), 1);
  EXPECT(result, "bar.arrive", "add s32");
  lowered_free(result);
  result = lower(make_for(TIR_LOOP_SERIAL, i, make_use(n), body), params);
  ck_assert_uint_eq(occurrences(result, "st.global"), 1);
  EXPECT(result, "lt s32");
  lowered_free(result);
  result = lower(make_for(TIR_LOOP_UNROLLED, i, INT(400000), body), params);
  ck_assert_uint_eq(occurrences(result, "st.global"), 1); /* too large for a function */
  lowered_free(result);
  result = lower(make_for(TIR_LOOP_SERIAL, i, INT(0), body), params);
  ck_assert_uint_eq(occurrences(result, "st.global"), 0);
  lowered_free(result);
}
END_TEST

/* v = A[k * 128 + t], then `count` times p = v * p + q: how many loads does the code have after
 * lowering? */
static uint32_t copies_of(int64_t extent, int count) {
  make_begin();
  const struct tir_var *a = global_var("A", "float32"), *t = make_var("t", "int32", NULL, NULL);
  const struct tir_var *k = make_var("k", "int32", NULL, NULL);
  const struct tir_var *j = make_var("j", "int32", NULL, NULL);
  const struct tir_var *array = make_var("p", "handle", "float32", "local");
  const struct tir_buffer *global = make_buffer(a, "float32", 1 << 20);
  const struct tir_buffer *local = make_buffer(array, "float32", 4);
  const struct tir_expr *p = make_load("float32", local, INT(0));
  const struct tir_expr *q = make_load("float32", local, INT(1));
  const struct tir_expr *v = make_load("float32", local, INT(2));
  const struct tir_expr *index = ADD(MUL(make_use(k), INT(128)), make_use(t));
  const struct tir_stmt *load = make_store(local, INT(2), make_load("float32", global, index));
  const struct tir_stmt *add = make_store(
      local, INT(0), make_binary(TIR_ADD, "float32", make_binary(TIR_MUL, "float32", v, p), q));
  const struct tir_stmt *body = make_seq(2, load, make_for(TIR_LOOP_UNROLLED, j, INT(count), add));
  const struct tir_stmt *loop = make_for(TIR_LOOP_SERIAL, k, INT(extent), body);
  const struct tir_stmt *keep = make_store(global, INT(0), p);
  const struct tir_var *params[] = {a, t, NULL};
  struct lowered *result = lower(make_seq(3, make_alloc(local), loop, keep), params);
  ck_assert_int_eq(result->status, TS_OK);
  uint32_t loads = (uint32_t)occurrences(result, "ld.global");
  lowered_free(result);
  return loads;
}

/* MEASURED with nvcc 13.0: loads in the code of such loops. Those that stay loops have so many in an
 * iteration. */
START_TEST(loops_are_unrolled_as_far_as_nvcc_does) {
  static const struct {
    int64_t extent;
    int count;
    uint32_t copies;
  } loops[] = {{2, 192, 2},  {4, 96, 4},   {4, 112, 1},  {8, 48, 8},    {8, 56, 2},    {12, 32, 12},
               {12, 40, 4},  {16, 20, 16}, {16, 28, 4},  {16, 48, 2},   {16, 96, 1},   {32, 10, 32},
               {32, 12, 8},  {64, 2, 64},  {64, 4, 16},  {64, 8, 8},    {128, 4, 16},  {128, 8, 8},
               {128, 20, 4}, {128, 64, 2}, {1000, 8, 8}, {1000, 24, 4}, {128, 100, 1}, {3, 192, 1}};
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
    ck_assert_msg(copies_of(loops[i].extent, loops[i].count) == loops[i].copies,
                  "%d times %d: %u, not %u", (int)loops[i].extent, loops[i].count,
                  copies_of(loops[i].extent, loops[i].count), loops[i].copies);
}
END_TEST

START_TEST(integer_division) {
  make_begin();
  const struct tir_var *a = global_var("A", "int32"), *n = make_var("n", "int32", NULL, NULL);
  const struct tir_buffer *buffer = make_buffer(a, "int32", 64);
  const struct tir_var *params[] = {a, n, NULL};
  struct lowered *result = lower(make_seq(4, make_store(buffer, INT(0), DIV(make_use(n), INT(32))),
                                          make_store(buffer, INT(1), MOD(make_use(n), INT(32))),
                                          make_store(buffer, INT(2), DIV(make_use(n), INT(3))),
                                          make_store(buffer, INT(3), MOD(make_use(n), INT(-4)))),
                                 params);
  EXPECT(result, "shr s32 %1, 5", "and s32 %1, 31", "floordiv s32 %1, 3", "floormod s32 %1, -4");
  lowered_free(result);
}
END_TEST

START_TEST(vectors_that_are_not_consecutive) {
  make_begin();
  const struct tir_var *a = global_var("A", "float16"), *n = make_var("n", "int32", NULL, NULL);
  const struct tir_buffer *buffer = make_buffer(a, "float16", 64);
  const struct tir_var *params[] = {a, n, NULL};
  const struct tir_expr *strided = make_ramp("int32x2", make_use(n), 8, 2);
  struct lowered *result = lower(make_store(buffer, make_ramp("int32x2", make_use(n), -1, 2),
                                            make_load("float16x2", buffer, strided)),
                                 params);
  EXPECT(result, "%2 = ld.global f16 %0, %1 {scale=2}",
         "%3 = ld.global f16 %0, %1 {scale=2, offset=16}", "st.global f16 %0, %1, %2 {scale=2}",
         "st.global f16 %0, %1, %3 {scale=2, offset=-2}");
}
END_TEST

/* --- choices */

START_TEST(choices_are_lazy_around_memory) {
  make_begin();
  const struct tir_var *a = global_var("A", "int32"), *n = make_var("n", "int32", NULL, NULL);
  const struct tir_buffer *buffer = make_buffer(a, "int32", 64);
  const struct tir_var *params[] = {a, n, NULL};
  const struct tir_expr *inside = LT(make_use(n), INT(64));
  const struct tir_expr *load = make_load("int32", buffer, make_use(n));
  struct lowered *result =
      lower(make_store(buffer, INT(0),
                       make_call("int32", "tirx.if_then_else", (size_t)3, inside, load, INT(7))),
            params);
  EXPECT(result, "cbr", "ld.global", "mov s32 7");
  ck_assert_uint_eq(occurrences(result, "select"), 0);
  lowered_free(result);

  result = lower(
      make_store(buffer, INT(0),
                 make_call("int32", "tirx.if_then_else", (size_t)3, inside, make_use(n), INT(7))),
      params);
  EXPECT(result, "select s32");
  ck_assert_uint_eq(occurrences(result, "cbr"), 0);
  lowered_free(result);

  const struct tir_expr *both =
      make_binary(TIR_AND, "bool", inside, make_binary(TIR_LT, "bool", INT(0), load));
  result = lower(make_if(both, make_store(buffer, INT(0), INT(1))), params);
  ck_assert_uint_eq(occurrences(result, "cbr"), 2); /* the load only when n is inside */
  lowered_free(result);
}
END_TEST

START_TEST(casts) {
  make_begin();
  const struct tir_var *a = global_var("A", "int8"), *x = make_var("x", "float32", NULL, NULL);
  const struct tir_var *e = global_var("E", "float8_e4m3fn"), *b = global_var("B", "bool");
  const struct tir_var *params[] = {a, x, e, b, NULL};
  struct lowered *result = lower(
      make_seq(3, make_store(make_buffer(a, "int8", 4), INT(0), make_cast("int8", make_use(x))),
               make_store(make_buffer(e, "float8_e4m3fn", 4), INT(0),
                          make_cast("float8_e4m3fn", make_use(x))),
               make_store(make_buffer(b, "bool", 4), INT(0), make_cast("bool", make_use(x)))),
      params);
  EXPECT(result, "cvt s32 f32 %1 {round=rz}", "cvt s8 s32", "cvt e4m3 f32 %1 {satfinite=1}",
         "ne f32 %1, 0x0");
  lowered_free(result);
}
END_TEST

/* --- arithmetic that CUDA states explicitly */

START_TEST(packed_half_is_fused) {
  make_begin();
  const struct tir_var *a = global_var("A", "float16");
  const struct tir_buffer *buffer = make_buffer(a, "float16", 64);
  const struct tir_var *params[] = {a, NULL};
#define HALF2(i) make_load("float16x2", buffer, make_ramp("int32x2", INT(i), 1, 2))
  const struct tir_expr *sum = make_binary(TIR_ADD, "float16x2", HALF2(0),
                                           make_binary(TIR_MUL, "float16x2", HALF2(2), HALF2(4)));
  struct lowered *result =
      lower(make_store(buffer, make_ramp("int32x2", INT(6), 1, 2), sum), params);
  EXPECT(result, "%1 = ld.global", "%2 = ld.global", "%3 = ld.global", "fma f16x2 %1, %2, %3");
  lowered_free(result);
#undef HALF2
}
END_TEST

START_TEST(fast_math) {
  make_begin();
  const struct tir_var *a = global_var("A", "float32"), *x = make_var("x", "float32", NULL, NULL);
  const struct tir_buffer *buffer = make_buffer(a, "float32", 64);
  const struct tir_var *params[] = {a, x, NULL};
  const struct tir_stmt *body = make_seq(
      3, make_store(buffer, INT(0), make_binary(TIR_DIV, "float32", make_use(x), make_use(x))),
      make_store(buffer, INT(1), make_call("float32", "tirx.exp2", (size_t)1, make_use(x))),
      make_store(buffer, INT(2), make_call("float32", "tl.__exp", (size_t)1, make_use(x))));
  struct lowered *result = lower(body, params);
  EXPECT(result, "div f32 %1, %1 @", "exp2 f32 %1 @", "exp f32 %1 {approx=1}");
  lowered_free(result);
  struct ts_tvm_options options = {.fast_math = true};
  result = lower_with(&options, body, params);
  EXPECT(result, "div f32 %1, %1 {ftz=1, approx=1}", "exp2 f32 %1 {ftz=1, approx=1}",
         "exp f32 %1 {approx=1, ftz=1}");
  lowered_free(result);
}
END_TEST

/* --- device library */

static const struct tir_expr *access_ptr(const char *dtype, const struct tir_var *data,
                                         const struct tir_expr *offset) {
  return make_call("handle", "tirx.tvm_access_ptr", (size_t)5,
                   make_call(dtype, "tirx.type_annotation", (size_t)0), make_use(data), offset,
                   INT(1), INT(3));
}

START_TEST(all_reduce) {
  make_begin();
  const struct tir_var *a = global_var("A", "float32");
  const struct tir_var *w = make_var("w", "handle", "float32", "shared.dyn");
  const struct tir_buffer *buffer = make_buffer(a, "float32", 64);
  const struct tir_var *params[] = {a, NULL};
  const struct tir_expr *call =
      make_call("float32", "tirx.call_extern", (size_t)3,
                make_string("tl::AllReduce<tl::SumOp, 64, 16, 128, tl::NamedBarrier<96>>::run"),
                make_load("float32", buffer, INT(0)), access_ptr("float32", w, INT(0)));
  struct lowered *result = lower(
      make_seq(2, make_alloc(make_buffer(w, "float32", 128)), make_store(buffer, INT(0), call)),
      params);
  EXPECT(result, "%1 = ld.global", "%2 = sreg s32 {which=tid.x}", "%3 = add s32 %2, -128",
         "%4 = xor s32 %3, 32", "bar.sync 1, 96", "st.shared f32 s0, %3, %1 {scale=4}",
         "bar.sync 2, 96", "%5 = ld.shared f32 s0, %4 {scale=4}", "%6 = add f32 %1, %5",
         "%7 = shfl f32 %6, 16, 32, 0xffffffff {mode=bfly}", "%8 = add f32 %6, %7",
         "st.global f32 %0, 0, %8");
  ck_assert_uint_eq(occurrences(result, "shfl"), 1); /* 16 is the scale: the last step */
  lowered_free(result);
}
END_TEST

START_TEST(matrix_descriptors) {
  make_begin();
  const struct tir_var *s = make_var("S", "handle", "float16", "shared.dyn");
  const struct tir_var *d = make_var("d", "handle", "uint64", "local.descriptor.wgmma");
  const struct tir_var *c = make_var("c", "handle", "float32", "local");
  const struct tir_buffer *desc = make_buffer(d, "uint64", 1);
  const struct tir_expr *first = make_load("uint64", desc, INT(0));
  struct lowered *result = lower(
      make_seq(
          6, make_alloc(make_buffer(s, "float16", 4096)), make_alloc(desc),
          make_alloc(make_buffer(c, "float32", 32)),
          make_evaluate(make_call("handle", "tl.initialize_wgmma_descriptor", (size_t)5, first,
                                  access_ptr("float16", s, INT(0)), INT(2), INT(256), INT(32))),
          make_evaluate(
              make_call("handle", "tl.increase_descriptor_offset", (size_t)2, first, INT(8192))),
          make_evaluate(make_call("handle", "tl.ptx_wgmma_ss", (size_t)15, make_string("m64n64k16"),
                                  make_int("bool", 1), make_int("bool", 0), make_string("fp16"),
                                  make_string("fp16"), make_string("fp32"), make_use(d), INT(2),
                                  make_use(d), INT(0), make_use(c), INT(0), INT(0),
                                  make_int("bool", 1), make_int("bool", 0)))),
      NULL);
  /* layout 2 << 62 | stride 32 << 32 | leading 256 << 16 */
  EXPECT(result, "shr u32 s0, 4", "and u32 %0, 16383", "or u64 %2, 0x8000002001000000",
         "add u64 %3, 512", "add u64 %3, 514", "wgmma.ss f32 f16 %5, %4, a0, 0, 0",
         "m=64, n=64, k=16", "a_major=1, b_major=0, scale_a=1, scale_b=-1");
  lowered_free(result);
}
END_TEST

START_TEST(cp_async) {
  make_begin();
  const struct tir_var *a = global_var("A", "float16"), *n = make_var("n", "int32", NULL, NULL);
  const struct tir_var *s = make_var("S", "handle", "float16", "shared.dyn");
  const struct tir_var *params[] = {a, n, NULL};
  struct lowered *result =
      lower(make_seq(4, make_alloc(make_buffer(s, "float16", 4096)),
                     make_evaluate(make_call("handle", "tl.ptx_cp_async", (size_t)4,
                                             access_ptr("float16", s, ADD(make_use(n), INT(8))),
                                             access_ptr("float16", a, ADD(make_use(n), INT(16))),
                                             INT(8), LT(make_use(n), INT(5)))),
                     make_evaluate(make_call("handle", "tirx.ptx_commit_group", (size_t)0)),
                     make_evaluate(make_call("handle", "tirx.ptx_wait_group", (size_t)1, INT(2)))),
            params);
  EXPECT(result, "%2 = lt s32 %1, 5",
         "cp.async s0, %1, %0, %1, %2 {scale=2, offset=32, scale2=2, offset2=16, bytes=16}",
         "cp.async.commit", "cp.async.wait 2");
  lowered_free(result);
}
END_TEST

/* --- refusals name what is unknown, the function and the place */

static void refuse(const struct tir_stmt *body, const char *what) {
  struct lowered *result = lower(body, NULL);
  ck_assert_int_eq(result->status, TS_UNSUPPORTED);
  ck_assert_uint_eq(result->diags.items.count, 1);
  const struct ts_diag *diag = &result->diags.items.data[0];
  if (!strstr(diag->message, what)) ck_abort_msg("'%s' is not in: %s", what, diag->message);
  ck_assert_ptr_nonnull(strstr(diag->message, "f: "));
  ck_assert_str_eq(diag->place.file, "kernel.py");
  ck_assert_uint_eq(diag->place.line, 42);
  ck_assert_ptr_null(ts_module_find(result->module, "f"));
  lowered_free(result);
}

START_TEST(unknown_things_are_refused) {
  make_begin();
  static const struct tir_value none = {.kind = TIR_VALUE_NONE};
  const struct tir_stmt *nothing = make_evaluate(INT(0));
  const struct tir_var *i = make_var("i", "int32", NULL, NULL);
  const struct tir_var *t = make_var("T", "handle", "float32", "shared.tmem");
  refuse(make_evaluate(make_call("handle", "tl.frobnicate", (size_t)0)), "tl.frobnicate");
  refuse(make_attr("strange_key", &none, INT(0), nothing), "strange_key");
  refuse(
      make_evaluate(make_call("handle", "tirx.call_extern", (size_t)1, make_string("my_function"))),
      "my_function");
  refuse(make_evaluate(make_call("float32", "tirx.call_extern", (size_t)2,
                                 make_string("tl::AllReduce<tl::ProdOp, 64, 1, 0>::run"), INT(0))),
         "tl::ProdOp");
  refuse(make_for(TIR_LOOP_VECTORIZED, i, INT(4), nothing), "loop of kind 2");
  refuse(make_alloc(make_buffer(t, "float32", 4)), "shared.tmem");
  refuse(make_evaluate(make_call("float32", "tirx.exp2", (size_t)2, INT(0), INT(0))),
         "tirx.exp2 with 2 arguments");
  refuse(
      make_evaluate(make_call("handle", "tirx.tvm_storage_sync", (size_t)1, make_string("global"))),
      "'global'");
}
END_TEST

START_TEST(malformed_trees_are_refused) {
  make_begin();
  const struct tir_var *i = make_var("i", "int32", NULL, NULL);
  const struct tir_var *x = make_var("x", "handle", "float32", "local");
  struct lowered *result =
      lower(make_store(make_buffer(x, "float32", 4), INT(0), make_float("float32", 1)), NULL);
  ck_assert_int_eq(result->status, TS_BAD_INPUT);
  lowered_free(result);
  result = lower(make_if(LT(make_use(i), INT(3)), make_evaluate(INT(0))), NULL);
  ck_assert_int_eq(result->status, TS_BAD_INPUT);
  lowered_free(result);
}
END_TEST

int main(void) {
  return RUN_TESTS("front_tvm_lower", builtins_are_sorted, float_constants,
                   unrolled_copies_share_their_address, which_loops_are_unrolled,
                   loops_are_unrolled_as_far_as_nvcc_does, integer_division,
                   vectors_that_are_not_consecutive, choices_are_lazy_around_memory, casts,
                   packed_half_is_fused, fast_math, all_reduce, matrix_descriptors, cp_async,
                   unknown_things_are_refused, malformed_trees_are_refused);
}
