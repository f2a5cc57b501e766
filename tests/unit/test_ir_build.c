/* The builder: folding, sharing, placing, control flow, errors. */
#include "ir/build.h"

#include "support/failing_allocator.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define S32 ((struct ts_type){TS_DTYPE_s32, 1})
#define U32 ((struct ts_type){TS_DTYPE_u32, 1})
#define F32 ((struct ts_type){TS_DTYPE_f32, 1})
#define PRED ((struct ts_type){TS_DTYPE_pred, 1})

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_module *module;
  struct ts_build *b;
  struct ts_function *f;
};

static void begin(struct fixture *x) {
  memset(x, 0, sizeof *x);
  ck_assert_int_eq(ts_diag_list_init(&x->diags, &ts_allocator_libc), TS_OK);
  x->ctx = (struct ts_ctx){&ts_allocator_libc, &x->diags};
  x->module = ts_module_new(&ts_allocator_libc);
  ck_assert_ptr_nonnull(x->module);
  x->b = ts_build_begin(&x->ctx, x->module, "f");
  ck_assert_ptr_nonnull(x->b);
}

static void end(struct fixture *x) {
  enum ts_status status = ts_build_end(x->b, &x->f);
  ck_assert_msg(status == TS_OK, "%s",
                x->diags.items.count ? x->diags.items.data[0].message : "no diagnostic");
}

static void clean(struct fixture *x) {
  ts_module_free(x->module);
  ts_diag_list_free(&x->diags);
}

static struct ts_operand imm(struct fixture *x, uint64_t v) { return ts_build_imm(x->b, v); }

static struct ts_operand tid(struct fixture *x) {
  struct ts_attr which = {TS_ATTR_which, TS_SREG_tid_x};
  struct ts_build_insn insn = {.op = TS_OP_sreg, .type = S32, .attrs = &which, .attr_count = 1};
  return ts_build_emit(x->b, &insn);
}

static void effect(struct fixture *x, struct ts_operand value) {
  uint32_t p = 0;
  if (!ts_build_function(x->b)->params.count)
    ts_build_param(x->b, TS_PARAM_POINTER, "out", TS_DTYPE_s32);
  struct ts_operand operands[] = {ts_build_param_reg(x->b, p), imm(x, 0), value};
  struct ts_build_insn insn = {
      .op = TS_OP_st_global, .type = S32, .operands = operands, .operand_count = 3};
  ts_build_emit(x->b, &insn);
}

#define ck_constant(x, operand, wanted)                                                            \
  do {                                                                                             \
    uint64_t got_ = 0;                                                                             \
    ck_assert(ts_build_is_constant((x)->b, (operand), &got_));                                     \
    ck_assert_uint_eq(got_, (wanted));                                                             \
  } while (0)

#define ck_same(a, b)                                                                              \
  do {                                                                                             \
    ck_assert_uint_eq((a).kind, (b).kind);                                                         \
    ck_assert_uint_eq((a).index, (b).index);                                                       \
  } while (0)

static const struct {
  enum ts_op op;
  enum ts_dtype dtype;
  uint64_t a, b, wanted;
} folds[] = {
    {TS_OP_add, TS_DTYPE_s32, 0x7fffffff, 1, 0x80000000},
    {TS_OP_add, TS_DTYPE_u8, 200, 100, 44},
    {TS_OP_sub, TS_DTYPE_u32, 1, 2, 0xffffffff},
    {TS_OP_sub, TS_DTYPE_s8, 0x80, 1, 0x7f},
    {TS_OP_mul, TS_DTYPE_s32, 0x10000, 0x10000, 0},
    {TS_OP_mul, TS_DTYPE_u64, 0xffffffffffffffff, 3, 0xfffffffffffffffd},
    {TS_OP_div, TS_DTYPE_s32, 0xfffffff9, 2, 0xfffffffd},      /* -7 / 2 = -3 */
    {TS_OP_rem, TS_DTYPE_s32, 0xfffffff9, 2, 0xffffffff},      /* -1 */
    {TS_OP_floordiv, TS_DTYPE_s32, 0xfffffff9, 2, 0xfffffffc}, /* -4 */
    {TS_OP_floormod, TS_DTYPE_s32, 0xfffffff9, 2, 1},
    {TS_OP_floordiv, TS_DTYPE_s32, 7, 0xfffffffe, 0xfffffffc}, /* 7 / -2 = -4 */
    {TS_OP_floormod, TS_DTYPE_s32, 7, 0xfffffffe, 0xffffffff}, /* 7 - -2 * -4 = -1 */
    {TS_OP_floormod, TS_DTYPE_s32, 6, 0xfffffffe, 0},
    {TS_OP_div, TS_DTYPE_u32, 0xfffffff9, 2, 0x7ffffffc},
    {TS_OP_div, TS_DTYPE_s32, 0x80000000, 0xffffffff, 0x80000000},
    {TS_OP_rem, TS_DTYPE_s32, 0x80000000, 0xffffffff, 0},
    {TS_OP_div, TS_DTYPE_s64, 0x8000000000000000, 0xffffffffffffffff, 0x8000000000000000},
    {TS_OP_shl, TS_DTYPE_s32, 1, 31, 0x80000000},
    {TS_OP_shl, TS_DTYPE_u32, 1, 32, 0},
    {TS_OP_shl, TS_DTYPE_s64, 1, 64, 0},
    {TS_OP_shr, TS_DTYPE_s32, 0x80000000, 4, 0xf8000000},
    {TS_OP_shr, TS_DTYPE_s32, 0x80000000, 40, 0xffffffff},
    {TS_OP_shr, TS_DTYPE_u32, 0x80000000, 4, 0x08000000},
    {TS_OP_shr, TS_DTYPE_u32, 0x80000000, 32, 0},
    {TS_OP_shr, TS_DTYPE_s32, 5, 0xffffffff, 0}, /* a negative count is huge */
    {TS_OP_min, TS_DTYPE_s32, 0xffffffff, 1, 0xffffffff},
    {TS_OP_min, TS_DTYPE_u32, 0xffffffff, 1, 1},
    {TS_OP_max, TS_DTYPE_s8, 0x80, 0x7f, 0x7f},
    {TS_OP_lt, TS_DTYPE_s32, 0xffffffff, 0, 1},
    {TS_OP_lt, TS_DTYPE_u32, 0xffffffff, 0, 0},
    {TS_OP_le, TS_DTYPE_s16, 0x8000, 0x8000, 1},
    {TS_OP_ne, TS_DTYPE_u64, 1, 2, 1},
    {TS_OP_xor, TS_DTYPE_u16, 0xff00, 0x0ff0, 0xf0f0},
    {TS_OP_and, TS_DTYPE_pred, 1, 0, 0},
    {TS_OP_or, TS_DTYPE_pred, 1, 0, 1},
    {TS_OP_add, TS_DTYPE_s4, 7, 1, 8},
    {TS_OP_shr, TS_DTYPE_s4, 8, 1, 0xc},
    {TS_OP_add, TS_DTYPE_ptr, 0xfffffffffffffff0, 0x20, 0x10},
};

START_TEST(test_fold) {
  struct fixture x;
  begin(&x);
  struct ts_type type = {(uint8_t)folds[_i].dtype, 1};
  struct ts_operand r =
      ts_build_2(x.b, folds[_i].op, type, imm(&x, folds[_i].a), imm(&x, folds[_i].b));
  ck_constant(&x, r, folds[_i].wanted);
  ts_build_abandon(x.b);
  clean(&x);
}
END_TEST

START_TEST(test_fold_unary) {
  struct fixture x;
  begin(&x);
  ck_constant(&x, ts_build_1(x.b, TS_OP_neg, S32, imm(&x, 0x80000000)), 0x80000000);
  ck_constant(&x, ts_build_1(x.b, TS_OP_abs, S32, imm(&x, 0xffffffff)), 1);
  ck_constant(&x, ts_build_1(x.b, TS_OP_not, PRED, imm(&x, 1)), 0);
  ck_constant(&x, ts_build_1(x.b, TS_OP_not, U32, imm(&x, 1)), 0xfffffffe);
  ck_constant(&x, ts_build_1(x.b, TS_OP_popc, U32, imm(&x, 0xf0f0)), 8);
  ck_constant(&x, ts_build_1(x.b, TS_OP_clz, U32, imm(&x, 1)), 31);
  ck_constant(&x, ts_build_1(x.b, TS_OP_clz, U32, imm(&x, 0)), 32);
  ck_constant(&x, ts_build_3(x.b, TS_OP_fma, S32, imm(&x, 3), imm(&x, 4), imm(&x, 0xffffffff)), 11);
  struct ts_build_insn cvt = {.op = TS_OP_cvt, .type = {TS_DTYPE_s64, 1}, .dtype2 = TS_DTYPE_s32};
  struct ts_operand a = imm(&x, 0xfffffffe);
  cvt.operands = &a;
  cvt.operand_count = 1;
  ck_constant(&x, ts_build_emit(x.b, &cvt), 0xfffffffffffffffe);
  cvt.dtype2 = TS_DTYPE_u32;
  ck_constant(&x, ts_build_emit(x.b, &cvt), 0xfffffffe);
  cvt.type.dtype = TS_DTYPE_pred;
  ck_constant(&x, ts_build_emit(x.b, &cvt), 1);
  cvt.type.dtype = TS_DTYPE_s8;
  ck_constant(&x, ts_build_emit(x.b, &cvt), 0xfe);
  ts_build_abandon(x.b);
  clean(&x);
}
END_TEST

START_TEST(test_no_fold) {
  struct fixture x;
  begin(&x);
  uint64_t v;
  struct ts_operand one = imm(&x, 0x3f800000), zero = imm(&x, 0);
  ck_assert(!ts_build_is_constant(x.b, ts_build_2(x.b, TS_OP_add, F32, one, one), &v));
  ck_assert(!ts_build_is_constant(x.b, ts_build_2(x.b, TS_OP_mul, F32, one, zero), &v));
  ck_assert(!ts_build_is_constant(x.b, ts_build_2(x.b, TS_OP_div, S32, imm(&x, 3), zero), &v));
  struct ts_operand f = ts_build_2(x.b, TS_OP_add, F32, one, zero);
  ck_assert_uint_eq(f.kind, TS_OPERAND_REG);
  /* x + 0 changes -0, x - x is not 0 for NaN */
  ck_assert_uint_eq(ts_build_2(x.b, TS_OP_sub, F32, f, f).kind, TS_OPERAND_REG);
  ck_assert_uint_ne(ts_build_2(x.b, TS_OP_add, F32, f, zero).index, f.index);
  /* operands of float operations keep their sides: contraction looks at them */
  struct ts_operand g = ts_build_2(x.b, TS_OP_mul, F32, f, one);
  ck_assert_uint_ne(ts_build_2(x.b, TS_OP_add, F32, f, g).index,
                    ts_build_2(x.b, TS_OP_add, F32, g, f).index);
  ts_build_abandon(x.b);
  clean(&x);
}
END_TEST

START_TEST(test_identities) {
  struct fixture x;
  begin(&x);
  struct ts_operand t = tid(&x), zero = imm(&x, 0), one = imm(&x, 1);
  ck_same(ts_build_2(x.b, TS_OP_add, S32, t, zero), t);
  ck_same(ts_build_2(x.b, TS_OP_add, S32, zero, t), t);
  ck_same(ts_build_2(x.b, TS_OP_mul, S32, one, t), t);
  ck_constant(&x, ts_build_2(x.b, TS_OP_mul, S32, t, zero), 0);
  ck_constant(&x, ts_build_2(x.b, TS_OP_sub, S32, t, t), 0);
  ck_constant(&x, ts_build_2(x.b, TS_OP_floormod, S32, t, one), 0);
  ck_same(ts_build_2(x.b, TS_OP_floordiv, S32, t, one), t);
  ck_same(ts_build_2(x.b, TS_OP_and, S32, t, imm(&x, 0xffffffff)), t);
  ck_same(ts_build_3(x.b, TS_OP_select, S32, one, t, zero), t);
  ck_constant(&x, ts_build_2(x.b, TS_OP_le, S32, t, t), 1);
  /* (tid + 5) - 3 = tid + 2; tid / 8 and tid % 8 become shifts and masks */
  struct ts_operand sum = ts_build_2(x.b, TS_OP_add, S32, t, imm(&x, 5));
  ck_same(ts_build_2(x.b, TS_OP_sub, S32, sum, imm(&x, 3)),
          ts_build_2(x.b, TS_OP_add, S32, imm(&x, 2), t));
  ck_same(ts_build_2(x.b, TS_OP_floordiv, S32, t, imm(&x, 8)),
          ts_build_2(x.b, TS_OP_shr, S32, t, imm(&x, 3)));
  ck_same(ts_build_2(x.b, TS_OP_floormod, S32, t, imm(&x, 8)),
          ts_build_2(x.b, TS_OP_and, S32, t, imm(&x, 7)));
  struct ts_operand quotient = ts_build_2(x.b, TS_OP_div, S32, t, imm(&x, 8));
  ck_assert_uint_ne(quotient.index, ts_build_2(x.b, TS_OP_shr, S32, t, imm(&x, 3)).index);
  end(&x);
  clean(&x);
}
END_TEST

START_TEST(test_vectors) {
  struct fixture x;
  begin(&x);
  struct ts_type v4 = {TS_DTYPE_s32, 4};
  struct ts_operand t = tid(&x), u = ts_build_2(x.b, TS_OP_add, S32, t, imm(&x, 1));
  struct ts_operand parts[] = {t, u, imm(&x, 9), t};
  struct ts_build_insn concat = {
      .op = TS_OP_concat, .type = v4, .operands = parts, .operand_count = 4};
  struct ts_operand v = ts_build_emit(x.b, &concat);
  struct ts_attr lanes = {TS_ATTR_source_lanes, 4};
  struct ts_operand from[] = {v, imm(&x, 1)};
  struct ts_build_insn extract = {.op = TS_OP_extract,
                                  .type = S32,
                                  .operands = from,
                                  .operand_count = 2,
                                  .attrs = &lanes,
                                  .attr_count = 1};
  ck_same(ts_build_emit(x.b, &extract), u);
  from[1] = imm(&x, 2);
  ck_constant(&x, ts_build_emit(x.b, &extract), 9);
  from[0] = ts_build_1(x.b, TS_OP_broadcast, v4, u);
  ck_same(ts_build_emit(x.b, &extract), u);
  ck_same(ts_build_2(x.b, TS_OP_ramp, v4, t, imm(&x, 0)), ts_build_1(x.b, TS_OP_broadcast, v4, t));
  /* 16 parts are more than an instruction has operands */
  struct ts_operand many[16];
  for (int i = 0; i < 16; i++)
    many[i] = i % 3 ? t : imm(&x, 7);
  struct ts_build_insn wide = {
      .op = TS_OP_concat, .type = {TS_DTYPE_s32, 16}, .operands = many, .operand_count = 16};
  struct ts_operand w = ts_build_emit(x.b, &wide);
  ck_assert_uint_eq(ts_build_type(x.b, w).lanes, 16);
  end(&x);
  clean(&x);
}
END_TEST

/* for (i = 0; i < n; i += 1) { if (i < 5) out = tid * 3 + i } */
START_TEST(test_hoist) {
  struct fixture x;
  begin(&x);
  ts_build_param(x.b, TS_PARAM_POINTER, "out", TS_DTYPE_s32);
  uint32_t n = ts_build_param(x.b, TS_PARAM_SCALAR, "n", TS_DTYPE_s32);
  struct ts_operand i = ts_build_variable(x.b, S32, "i");
  ts_build_assign(x.b, i, imm(&x, 0));
  ts_build_loop(x.b);
  struct ts_operand more = ts_build_2(x.b, TS_OP_lt, S32, i, ts_build_param_reg(x.b, n));
  ts_build_loop_while(x.b, more);
  struct ts_operand k = ts_build_1(x.b, TS_OP_mov, S32, i);
  ts_build_if(x.b, ts_build_2(x.b, TS_OP_lt, S32, k, imm(&x, 5)));
  struct ts_operand product = ts_build_2(x.b, TS_OP_mul, S32, tid(&x), imm(&x, 3));
  effect(&x, ts_build_2(x.b, TS_OP_add, S32, product, k));
  struct ts_operand quotient =
      ts_build_2(x.b, TS_OP_div, S32, imm(&x, 9), ts_build_param_reg(x.b, n));
  effect(&x, quotient);
  ts_build_end_if(x.b);
  ts_build_assign(x.b, i, ts_build_2(x.b, TS_OP_add, S32, i, imm(&x, 1)));
  ts_build_end_loop(x.b);
  effect(&x, product);
  end(&x);
  /* entry, header, body, arm, join, exit */
  ck_assert_uint_eq(x.f->blocks.count, 6);
  ck_assert_uint_eq(x.f->regions.count, 3);
  for (size_t at = 0; at < x.f->insns.count; at++) {
    const struct ts_insn *insn = &x.f->insns.data[at];
    if (insn->op == TS_OP_sreg || insn->op == TS_OP_mul) ck_assert_uint_eq(insn->block, 0);
    if (insn->op == TS_OP_div) ck_assert_uint_eq(insn->block, 3); /* n may be 0 */
    if (insn->dst == k.index) ck_assert_uint_eq(insn->block, 2);
    if (insn->dst == more.index) ck_assert_uint_eq(insn->block, 1);
  }
  ck_assert_uint_eq(x.f->regions.data[1].head, 1);
  ck_assert_uint_eq(x.f->blocks.data[1].region, 1);
  ck_assert_uint_eq(x.f->blocks.data[2].region, 1);
  ck_assert_uint_eq(x.f->regions.data[2].head, 2);
  ck_assert_uint_eq(x.f->regions.data[2].parent, 1);
  ck_assert_uint_eq(x.f->blocks.data[3].region, 2);
  ck_assert_uint_eq(x.f->blocks.data[5].region, 0);
  clean(&x);
}
END_TEST

START_TEST(test_sharing) {
  struct fixture x;
  begin(&x);
  struct ts_operand t = tid(&x), five = imm(&x, 5);
  ck_same(tid(&x), t);
  struct ts_operand sum = ts_build_2(x.b, TS_OP_add, S32, t, five);
  ck_same(ts_build_2(x.b, TS_OP_add, S32, five, t), sum);
  struct ts_operand v = ts_build_variable(x.b, S32, "v");
  ts_build_assign(x.b, v, t);
  struct ts_operand first = ts_build_2(x.b, TS_OP_add, S32, v, five);
  ck_same(ts_build_2(x.b, TS_OP_add, S32, v, five), first);
  /* v + 0 is what v holds now, not v */
  struct ts_operand now = ts_build_2(x.b, TS_OP_add, S32, v, imm(&x, 0));
  ck_assert_uint_ne(now.index, v.index);
  ts_build_assign(x.b, v, sum);
  ck_assert_uint_ne(ts_build_2(x.b, TS_OP_add, S32, v, five).index, first.index);
  ck_assert_uint_ne(ts_build_1(x.b, TS_OP_mov, S32, v).index, now.index);
  /* An arm's values are not available in the other arm or after it. */
  struct ts_operand p = ts_build_2(x.b, TS_OP_lt, S32, t, five), seven = imm(&x, 7);
  ts_build_if(x.b, p);
  struct ts_operand a = ts_build_2(x.b, TS_OP_mul, S32, t, seven);
  ck_same(ts_build_2(x.b, TS_OP_add, S32, t, five), sum);
  ck_same(ts_build_2(x.b, TS_OP_mul, S32, t, seven), a);
  ts_build_else(x.b);
  struct ts_operand b = ts_build_2(x.b, TS_OP_mul, S32, t, seven);
  ck_assert_uint_ne(a.index, b.index);
  ts_build_end_if(x.b);
  struct ts_operand c = ts_build_2(x.b, TS_OP_mul, S32, t, seven);
  ck_assert_uint_ne(b.index, c.index);
  ck_same(ts_build_2(x.b, TS_OP_mul, S32, seven, t), c);
  /* A loop may change v at its end, so its head must look again. */
  struct ts_operand w = ts_build_2(x.b, TS_OP_xor, S32, v, five);
  ts_build_loop(x.b);
  ck_assert_uint_ne(ts_build_2(x.b, TS_OP_xor, S32, v, five).index, w.index);
  ts_build_loop_while(x.b, p);
  ts_build_end_loop(x.b);
  end(&x);
  clean(&x);
}
END_TEST

START_TEST(test_dead_code) {
  struct fixture x;
  begin(&x);
  struct ts_operand t = tid(&x);
  ts_build_if(x.b, imm(&x, 0));
  effect(&x, imm(&x, 1));
  ts_build_if(x.b, ts_build_2(x.b, TS_OP_lt, S32, t, imm(&x, 1)));
  effect(&x, imm(&x, 2));
  ts_build_end_if(x.b);
  ts_build_else(x.b);
  effect(&x, imm(&x, 3));
  ts_build_end_if(x.b);
  ts_build_if(x.b, imm(&x, 1));
  effect(&x, imm(&x, 4));
  ts_build_else(x.b);
  effect(&x, imm(&x, 5));
  ts_build_end_if(x.b);
  effect(&x, imm(&x, 6));
  end(&x);
  ck_assert_uint_eq(x.f->blocks.count, 1);
  ck_assert_uint_eq(x.f->regions.count, 1);
  uint64_t wanted[] = {3, 4, 6};
  size_t found = 0;
  for (size_t i = 0; i < x.f->insns.count; i++) {
    if (x.f->insns.data[i].op != TS_OP_st_global) continue;
    ck_assert_uint_lt(found, 3);
    uint32_t c = ts_insn_operand(x.f, &x.f->insns.data[i], 2)->index;
    ck_assert_uint_eq(x.f->constants.data[c], wanted[found++]);
  }
  ck_assert_uint_eq(found, 3);
  clean(&x);
}
END_TEST

/* loop { if (p) break; } with code after the break, which is dropped */
START_TEST(test_break) {
  struct fixture x;
  begin(&x);
  struct ts_operand t = tid(&x);
  struct ts_operand p = ts_build_2(x.b, TS_OP_lt, S32, t, imm(&x, 3));
  ts_build_loop(x.b);
  ts_build_loop_while(x.b, imm(&x, 1));
  ts_build_if(x.b, p);
  ts_build_break(x.b);
  effect(&x, imm(&x, 1));
  ts_build_end_if(x.b);
  ts_build_end_loop(x.b);
  struct ts_build_insn leave = {.op = TS_OP_exit};
  ts_build_emit(x.b, &leave);
  effect(&x, imm(&x, 2));
  end(&x);
  /* entry, header, body, arm, join, exit */
  ck_assert_uint_eq(x.f->blocks.count, 6);
  const struct ts_block *arm = &x.f->blocks.data[3];
  ck_assert_uint_eq(arm->insn_count, 1);
  const struct ts_insn *leaves = &x.f->insns.data[arm->first_insn];
  ck_assert_uint_eq(leaves->op, TS_OP_br);
  ck_assert_uint_eq(ts_insn_operand(x.f, leaves, 0)->index, 5);
  for (size_t i = 0; i < x.f->insns.count; i++)
    ck_assert_uint_ne(x.f->insns.data[i].op, TS_OP_st_global);
  clean(&x);
}
END_TEST

START_TEST(test_shared_layout) {
  struct fixture x;
  begin(&x);
  uint32_t a = ts_build_shared(x.b, "a", TS_SHARED_STATIC, TS_DTYPE_f16, 16, 40);
  uint32_t d = ts_build_shared(x.b, "d", TS_SHARED_DYNAMIC, TS_DTYPE_u8, 1024, 4096);
  uint32_t m = ts_build_shared(x.b, "m", TS_SHARED_BARRIER, TS_DTYPE_u64, 8, 16);
  uint32_t b = ts_build_shared(x.b, "b", TS_SHARED_STATIC, TS_DTYPE_f16, 128, 128);
  uint32_t array = ts_build_array(x.b, "r", TS_DTYPE_f16, 5);
  end(&x);
  ck_assert_uint_eq(x.f->shared.data[a].address, 0);
  ck_assert_uint_eq(x.f->shared.data[m].address, 48);
  ck_assert_uint_eq(x.f->shared.data[b].address, 128);
  ck_assert_uint_eq(x.f->static_shared_bytes, 256);
  ck_assert_uint_eq(x.f->shared.data[d].address, 1024);
  ck_assert_uint_eq(x.f->dynamic_shared_address, 1024);
  ck_assert_uint_eq(x.f->arrays.data[array].size_bytes, 12);
  clean(&x);
}
END_TEST

static void expect_failure(struct fixture *x, enum ts_status wanted) {
  ck_assert_int_eq(ts_build_end(x->b, &x->f), wanted);
  ck_assert_ptr_null(x->f);
  ck_assert_uint_ge(x->diags.items.count, 1);
  ck_assert_uint_eq(x->module->functions.count, 0);
  clean(x);
}

START_TEST(test_misuse) {
  struct fixture x;
  begin(&x);
  ts_build_end_if(x.b);
  effect(&x, imm(&x, 1));
  ts_build_end_loop(x.b);
  expect_failure(&x, TS_INTERNAL);
  begin(&x);
  ts_build_break(x.b);
  expect_failure(&x, TS_INTERNAL);
  begin(&x);
  ts_build_if(x.b, tid(&x));
  expect_failure(&x, TS_INTERNAL);
  begin(&x);
  ts_build_2(x.b, TS_OP_neg, S32, tid(&x), tid(&x));
  expect_failure(&x, TS_INTERNAL);
  begin(&x); /* types that do not agree are the verifier's */
  ts_build_2(x.b, TS_OP_add, (struct ts_type){TS_DTYPE_s64, 1}, tid(&x), tid(&x));
  expect_failure(&x, TS_BAD_INPUT);
  begin(&x);
  ts_build_array(x.b, "huge", TS_DTYPE_f32, UINT64_C(1) << 62);
  expect_failure(&x, TS_LIMIT);
}
END_TEST

/* --- short memory: every allocation fails once, and nothing leaks or crashes */

static enum ts_status build_something(struct ts_ctx *ctx, struct ts_module *module) {
  struct fixture x = {.ctx = *ctx, .module = module};
  x.b = ts_build_begin(ctx, module, "f");
  if (!x.b) return TS_NO_MEMORY;
  ts_build_place(x.b, (struct ts_source_place){"kernel.py", 3, 1});
  uint32_t n = ts_build_param(x.b, TS_PARAM_SCALAR, "n", TS_DTYPE_s32);
  uint32_t out = ts_build_param(x.b, TS_PARAM_POINTER, "out", TS_DTYPE_s32);
  ts_build_shared(x.b, "s", TS_SHARED_STATIC, TS_DTYPE_u8, 16, 64);
  struct ts_operand i = ts_build_variable(x.b, S32, "i");
  ts_build_assign(x.b, i, imm(&x, 0));
  ts_build_loop(x.b);
  ts_build_loop_while(x.b, ts_build_2(x.b, TS_OP_lt, S32, i, ts_build_param_reg(x.b, n)));
  struct ts_operand k = ts_build_1(x.b, TS_OP_mov, S32, i);
  for (uint64_t j = 0; j < 80; j++) {
    struct ts_operand operands[] = {ts_build_param_reg(x.b, out), imm(&x, j),
                                    ts_build_2(x.b, TS_OP_add, S32, tid(&x), imm(&x, j))};
    struct ts_build_insn store = {
        .op = TS_OP_st_global, .type = S32, .operands = operands, .operand_count = 3};
    ts_build_emit(x.b, &store);
  }
  ts_build_if(x.b, ts_build_2(x.b, TS_OP_lt, S32, k, imm(&x, 50)));
  ts_build_break(x.b);
  ts_build_else(x.b);
  struct ts_operand check[] = {ts_build_2(x.b, TS_OP_ne, S32, k, imm(&x, 3)),
                               ts_build_text(x.b, "k is 3")};
  struct ts_build_insn assertion = {.op = TS_OP_assert, .operands = check, .operand_count = 2};
  ts_build_emit(x.b, &assertion);
  ts_build_end_if(x.b);
  ts_build_assign(x.b, i, ts_build_2(x.b, TS_OP_add, S32, k, imm(&x, 1)));
  ts_build_end_loop(x.b);
  enum ts_status status = ts_build_end(x.b, &x.f);
  return status == TS_OK ? ts_analyze_uniform(ctx, x.f) : status;
}

START_TEST(test_short_memory) {
  struct ts_diag_list diags;
  ck_assert_int_eq(ts_diag_list_init(&diags, &ts_allocator_libc), TS_OK);
  enum ts_status status = TS_NO_MEMORY;
  for (uint64_t n = 1; status != TS_OK; n++) {
    struct failing_allocator memory;
    failing_allocator_init(&memory);
    memory.failing_call = n;
    memory.fails_from_there = true;
    struct ts_ctx ctx = {&memory.allocator, &diags};
    struct ts_module *module = ts_module_new(&memory.allocator);
    status = module ? build_something(&ctx, module) : TS_NO_MEMORY;
    ck_assert_msg(status == TS_OK || status == TS_NO_MEMORY, "%s", ts_status_text(status));
    ts_module_free(module);
    ck_assert_uint_eq(memory.alive_blocks, 0);
    ck_assert_uint_le(n, 10000);
  }
  ts_diag_list_free(&diags);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ir_build");
  TCase *tests = tcase_create("build");
  tcase_add_loop_test(tests, test_fold, 0, (int)(sizeof folds / sizeof *folds));
  tcase_add_test(tests, test_fold_unary);
  tcase_add_test(tests, test_no_fold);
  tcase_add_test(tests, test_identities);
  tcase_add_test(tests, test_vectors);
  tcase_add_test(tests, test_hoist);
  tcase_add_test(tests, test_sharing);
  tcase_add_test(tests, test_dead_code);
  tcase_add_test(tests, test_break);
  tcase_add_test(tests, test_shared_layout);
  tcase_add_test(tests, test_misuse);
  tcase_add_test(tests, test_short_memory);
  suite_add_tcase(suite, tests);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
