/* The passes: what goes in and what comes out, as text. */
#include "ir/build.h"

#include "support/failing_allocator.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum pass { PROMOTE = 1, CONTRACT = 2, DEAD = 4, ALL = 7 };

struct fixture {
  struct ts_diag_list diags;
  struct ts_ctx ctx;
};

static void begin(struct fixture *x) {
  ck_assert_int_eq(ts_diag_list_init(&x->diags, &ts_allocator_libc), TS_OK);
  x->ctx = (struct ts_ctx){&ts_allocator_libc, &x->diags};
}

static struct ts_module *parse(struct ts_ctx *ctx, const char *text) {
  struct ts_module *module;
  if (ts_parse_module(ctx, "t.ir", text, strlen(text), &module) == TS_OK) return module;
  if (ctx->diags->items.count) {
    const struct ts_diag *diag = &ctx->diags->items.data[0];
    if (diag->code != TS_DIAG_MEMORY) ck_abort_msg("%u: %s", diag->place.line, diag->message);
  }
  return NULL;
}

static enum ts_status run(struct ts_ctx *ctx, struct ts_function *f, unsigned passes) {
  if (passes & PROMOTE) TS_TRY(ts_pass_promote_arrays(ctx, f));
  if (passes & CONTRACT) TS_TRY(ts_pass_contract(ctx, f));
  if (passes & DEAD) TS_TRY(ts_pass_drop_dead(ctx, f));
  return ts_verify(ctx, f);
}

/* Most functions have one pointer %0 and some floats loaded from it. */
#define HEAD                                                                                       \
  "tilesim-ir 1\n\nfunction \"f\" {\n"                                                             \
  "param p0 pointer f32 %0\n"
#define LOADS                                                                                      \
  "  %1 = ld.global f32 %0, 1\n"                                                                   \
  "  %2 = ld.global f32 %0, 2\n"                                                                   \
  "  %3 = ld.global f32 %0, 3\n"                                                                   \
  "  %4 = ld.global f32 %0, 4\n"

static const struct {
  const char *what;
  unsigned passes;
  const char *declarations;  /* of the input */
  const char *body, *wanted; /* from the first block on, without the closing brace */
} cases[] = {
    /* --- contraction, straight-line scalars */
    {"a b + c", CONTRACT, "",
     "b0 in r0:\n" LOADS
     "  %5 = mul f32 %1, %2\n  %6 = add f32 %5, %3\n  st.global f32 %0, 0, %6\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = fma f32 %1, %2, %3\n  st.global f32 %0, 0, %5\n  exit\n"},
    {"a b + c d: the left product is merged", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = mul f32 %3, %4\n  %7 = add f32 %5, %6\n"
     "  st.global f32 %0, 0, %7\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %3, %4\n  %6 = fma f32 %1, %2, %5\n"
     "  st.global f32 %0, 0, %6\n  exit\n"},
    {"a b - c d", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = mul f32 %3, %4\n  %7 = sub f32 %5, %6\n"
     "  st.global f32 %0, 0, %7\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %3, %4\n  %7 = neg f32 %5\n  %6 = fma f32 %1, %2, %7\n"
     "  st.global f32 %0, 0, %6\n  exit\n"},
    {"c - a b, and the addition of a constant", CONTRACT, "",
     "b0 in r0:\n" LOADS
     "  %5 = mul f32 %1, %2\n  %6 = sub f32 %3, %5\n  %7 = sub f32 %5, 0x3f800000\n"
     "  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %7\n  exit\n",
     "b0 in r0:\n" LOADS "  %7 = neg f32 %1\n  %5 = fma f32 %7, %2, %3\n"
     "  %6 = fma f32 %1, %2, 0xbf800000\n"
     "  st.global f32 %0, 0, %5\n  st.global f32 %0, 1, %6\n  exit\n"},
    {"a stored product is not merged", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = add f32 %5, %3\n"
     "  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %5\n  exit\n",
     NULL},
    {"nor is one that is a factor", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = add f32 %5, %3\n  %7 = mul f32 %5, %4\n"
     "  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %7\n  exit\n",
     NULL},
    {"a b + a b", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global f32 %0, 1\n  %2 = mul f32 %1, %1\n  %3 = add f32 %2, %2\n"
     "  st.global f32 %0, 0, %3\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32 %0, 1\n  %2 = mul f32 %1, %1\n  %3 = fma f32 %1, %1, %2\n"
     "  st.global f32 %0, 0, %3\n  exit\n"},
    {"nofuse on the product, on the sum", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2 {nofuse=1}\n  %6 = add f32 %5, %3\n"
     "  %7 = mul f32 %1, %3\n  %8 = add f32 %7, %4 {nofuse=1}\n"
     "  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %8\n  exit\n",
     NULL},
    {"ftz on one only", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2 {ftz=1}\n  %6 = add f32 %5, %3\n"
     "  st.global f32 %0, 4, %4\n  st.global f32 %0, 0, %6\n  exit\n",
     NULL},
    {"ftz on both", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2 {ftz=1}\n  %6 = add f32 %3, %5 {ftz=1}\n"
     "  st.global f32 %0, 4, %4\n  st.global f32 %0, 0, %6\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = fma f32 %1, %2, %3 {ftz=1}\n"
     "  st.global f32 %0, 4, %4\n  st.global f32 %0, 0, %5\n  exit\n"},
    {"integers are left alone, doubles and halves are not", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global s32 %0, 1\n  %2 = ld.global f64 %0, 2\n"
     "  %3 = ld.global bf16 %0, 3\n  %4 = mul s32 %1, %1\n  %5 = add s32 %4, %1\n"
     "  %6 = mul f64 %2, %2\n  %7 = add f64 %6, %2\n  %8 = mul bf16 %3, %3\n"
     "  %9 = add bf16 %8, %3\n  st.global s32 %0, 1, %5\n  st.global f64 %0, 2, %7\n"
     "  st.global bf16 %0, 3, %9\n  exit\n",
     "b0 in r0:\n  %1 = ld.global s32 %0, 1\n  %2 = ld.global f64 %0, 2\n"
     "  %3 = ld.global bf16 %0, 3\n  %4 = mul s32 %1, %1\n  %5 = add s32 %4, %1\n"
     "  %6 = fma f64 %2, %2, %2\n  %7 = fma bf16 %3, %3, %3\n"
     "  st.global s32 %0, 1, %5\n  st.global f64 %0, 2, %6\n"
     "  st.global bf16 %0, 3, %7\n  exit\n"},
    {"-(a b) + c and c - -(a b); 2 a + c; a / 8 + c", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = neg f32 %5\n  %7 = add f32 %6, %3\n"
     "  %8 = sub f32 %4, %6\n  %9 = mul f32 %1, 0x40000000\n  %10 = add f32 %9, %3\n"
     "  %11 = div f32 %1, 0x41000000\n  %12 = add f32 %11, %3\n"
     "  st.global f32 %0, 0, %7\n  st.global f32 %0, 1, %8\n  st.global f32 %0, 2, %10\n"
     "  st.global f32 %0, 3, %12\n  exit\n",
     "b0 in r0:\n" LOADS "  %10 = neg f32 %1\n  %5 = fma f32 %10, %2, %3\n"
     "  %6 = fma f32 %1, %2, %4\n  %7 = mul f32 %1, 0x40000000\n  %8 = add f32 %7, %3\n"
     "  %9 = fma f32 %1, 0x3e000000, %3\n"
     "  st.global f32 %0, 0, %5\n  st.global f32 %0, 1, %6\n  st.global f32 %0, 2, %8\n"
     "  st.global f32 %0, 3, %9\n  exit\n"},
    /* --- contraction as nvcc does it; the machine code of these was read */
    {"the compiler sorts by recency: c d + a b merges a b, a product loaded earlier", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %3, %4\n  %6 = mul f32 %1, %2\n  %7 = add f32 %5, %6\n"
     "  st.global f32 %0, 0, %7\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %3, %4\n  %6 = fma f32 %1, %2, %5\n"
     "  st.global f32 %0, 0, %6\n  exit\n"},
    {"but not halves, and not subtractions", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global f16 %0, 1\n  %2 = ld.global f16 %0, 2\n"
     "  %3 = mul f16 %2, %2\n  %4 = mul f16 %1, %1\n  %5 = add f16 %3, %4\n"
     "  st.global f16 %0, 0, %5\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f16 %0, 1\n  %2 = ld.global f16 %0, 2\n"
     "  %3 = mul f16 %1, %1\n  %4 = fma f16 %2, %2, %3\n"
     "  st.global f16 %0, 0, %4\n  exit\n"},
    {"additions last to first: c d merges into the last before it is an addend", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = mul f32 %3, %4\n  %7 = add f32 %5, %6\n"
     "  %8 = add f32 %6, %1\n  st.global f32 %0, 0, %7\n  st.global f32 %0, 1, %8\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %3, %4\n  %6 = fma f32 %1, %2, %5\n"
     "  %7 = fma f32 %3, %4, %1\n  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %7\n  exit\n"},
    {"the other way round c d is an addend already", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = mul f32 %3, %4\n  %7 = add f32 %6, %1\n"
     "  %8 = add f32 %5, %6\n  st.global f32 %0, 0, %7\n  st.global f32 %0, 1, %8\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %3, %4\n  %6 = add f32 %5, %1\n"
     "  %7 = fma f32 %1, %2, %5\n  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %7\n  exit\n"},
    {"subtractions are the assembler's: c d loses in one and is not merged in the other", CONTRACT,
     "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = mul f32 %3, %4\n  %7 = sub f32 %5, %6\n"
     "  %8 = sub f32 %6, %1\n  st.global f32 %0, 0, %7\n  st.global f32 %0, 1, %8\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %3, %4\n  %8 = neg f32 %5\n  %6 = fma f32 %1, %2, %8\n"
     "  %7 = sub f32 %5, %1\n  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %7\n  exit\n"},
    {"of two products the one with fewer uses", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %2, %2\n  %6 = sub f32 %5, %3\n  %7 = sub f32 %6, %5\n"
     "  %8 = mul f32 %1, %1\n  %9 = sub f32 %4, %8\n  %10 = sub f32 %5, %8\n"
     "  st.global f32 %0, 0, %7\n  st.global f32 %0, 1, %9\n  st.global f32 %0, 2, %10\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %2, %2\n  %10 = neg f32 %3\n  %6 = fma f32 %2, %2, %10\n"
     "  %11 = neg f32 %2\n  %7 = fma f32 %11, %2, %6\n  %12 = neg f32 %1\n"
     "  %8 = fma f32 %12, %1, %4\n  %9 = fma f32 %12, %1, %5\n"
     "  st.global f32 %0, 0, %7\n  st.global f32 %0, 1, %8\n  st.global f32 %0, 2, %9\n  exit\n"},
    {"x + x is the compiler's, five uses are not", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = add f32 %5, %5\n  %7 = add f32 %5, %3\n"
     "  %8 = add f32 %5, %4\n  %9 = add f32 %5, %1\n"
     "  st.global f32 %0, 0, %6\n  st.global f32 %0, 1, %7\n  st.global f32 %0, 2, %8\n"
     "  st.global f32 %0, 3, %9\n  exit\n",
     NULL},
    {"equal products in vectors and scalars are one: m c has many uses", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global f32x2 %0, 1\n  %2 = ld.global f32 %0, 2\n"
     "  %3 = ld.global f32 %0, 3\n  %4 = mul f32 %2, 0x40400000\n  %5 = mul f32x2 %1, 0x40400000\n"
     "  %6 = broadcast f32x2 %4\n  %7 = sub f32x2 %5, %6\n  %8 = concat f32x2 %2, %3\n"
     "  %9 = mul f32x2 %8, 0x40400000\n  %10 = sub f32x2 %9, 0x3f800000\n"
     "  st.global f32x2 %0, 0, %7\n  st.global f32x2 %0, 1, %10\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32x2 %0, 1\n  %2 = ld.global f32 %0, 2\n"
     "  %3 = ld.global f32 %0, 3\n  %4 = mul f32 %2, 0x40400000\n"
     "  %5 = broadcast f32x2 %4\n  %9 = neg f32x2 %5\n  %6 = fma f32x2 %1, 0x40400000, %9\n"
     "  %7 = concat f32x2 %2, %3\n"
     "  %8 = mul f32x2 %7, 0x40400000\n  %10 = extract f32 %8, 0 {source_lanes=2}\n"
     "  %11 = sub f32 %10, 0x3f800000\n"
     "  %12 = fma f32 %3, 0x40400000, 0xbf800000\n  %13 = concat f32x2 %11, %12\n"
     "  st.global f32x2 %0, 0, %6\n  st.global f32x2 %0, 1, %13\n  exit\n"},
    {"half2: a pair goes as a whole, halves of it prevent that", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global f16x2 %0, 1\n  %2 = ld.global f16x2 %0, 2\n"
     "  %3 = mul f16x2 %1, %1\n  %4 = add f16x2 %3, %2\n  %5 = mul f16x2 %1, %2\n"
     "  %6 = add f16x2 %5, %2\n  %7 = extract f16 %5, 0 {source_lanes=2}\n"
     "  %8 = extract f16 %2, 0 {source_lanes=2}\n  %9 = add f16 %7, %8\n"
     "  st.global f16x2 %0, 0, %4\n  st.global f16x2 %0, 1, %6\n  st.global f16 %0, 9, %9\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f16x2 %0, 1\n  %2 = ld.global f16x2 %0, 2\n"
     "  %3 = fma f16x2 %1, %1, %2\n  %4 = mul f16x2 %1, %2\n"
     "  %5 = add f16x2 %4, %2\n  %7 = extract f16 %4, 0 {source_lanes=2}\n"
     "  %8 = extract f16 %2, 0 {source_lanes=2}\n  %6 = add f16 %7, %8\n"
     "  st.global f16x2 %0, 0, %3\n  st.global f16x2 %0, 1, %5\n  st.global f16 %0, 9, %6\n  exit\n"},
    {"nor does a half go into a pair", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global bf16x2 %0, 1\n  %2 = ld.global bf16 %0, 2\n"
     "  %3 = mul bf16 %2, %2\n  %4 = concat bf16x2 %3, %2\n  %5 = add bf16x2 %4, %1\n"
     "  st.global bf16x2 %0, 0, %5\n  exit\n",
     NULL},
    /* --- contraction and blocks */
    {"not across a branch and its join", CONTRACT, "region r1 in r0 head b0\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = lt f32 %3, %4\n  cbr %6, b1, b2, b2\n"
     "b1 in r1:\n  st.global f32 %0, 9, %1\n  br b2\n"
     "b2 in r0:\n  %7 = add f32 %5, %3\n  st.global f32 %0, 0, %7\n  exit\n",
     NULL},
    {"not when another block uses the product too", CONTRACT, "region r1 in r0 head b0\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = add f32 %5, %3\n  %7 = lt f32 %3, %4\n"
     "  cbr %7, b1, b2, b2\nb1 in r1:\n  %8 = add f32 %5, %4\n  st.global f32 %0, 9, %8\n  br b2\n"
     "b2 in r0:\n  st.global f32 %0, 0, %6\n  exit\n",
     NULL},
    {"a product used in one arm only sinks into it", CONTRACT, "region r1 in r0 head b0\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  %6 = lt f32 %3, %4\n  cbr %6, b1, b2, b2\n"
     "b1 in r1:\n  %7 = add f32 %5, %4\n  st.global f32 %0, 9, %7\n  br b2\n"
     "b2 in r0:\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = lt f32 %3, %4\n  cbr %5, b1, b2, b2\n"
     "b1 in r1:\n  %6 = fma f32 %1, %2, %4\n  st.global f32 %0, 9, %6\n  br b2\n"
     "b2 in r0:\n  exit\n"},
    {"but not into a loop", CONTRACT, "region r1 in r0 head b1\n",
     "b0 in r0:\n" LOADS "  %5 = mul f32 %1, %2\n  br b1\n"
     "b1 in r1:\n  %6 = lt f32 %3, %4\n  cbr %6, b2, b3, b3\n"
     "b2 in r1:\n  %7 = add f32 %5, %4\n  st.global f32 %0, 9, %7\n  br b1\n"
     "b3 in r0:\n  exit\n",
     NULL},
    {"factors that change before the sum are kept", CONTRACT, "",
     "b0 in r0:\n" LOADS "  %5 = mov f32 %1\n  %6 = mul f32 %5, %2\n  %5 = mov f32 %3\n"
     "  %7 = add f32 %6, %5\n  st.global f32 %0, 0, %7\n  exit\n",
     "b0 in r0:\n" LOADS "  %5 = mov f32 %1\n  %7 = mov f32 %5\n  %5 = mov f32 %3\n"
     "  %6 = fma f32 %7, %2, %5\n  st.global f32 %0, 0, %6\n  exit\n"},
    /* --- contraction and vectors */
    {"vectors componentwise", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global f32x4 %0, 1\n  %2 = ld.global f32x4 %0, 2\n"
     "  %3 = mul f32x4 %1, %2\n  %4 = add f32x4 %2, %3\n  st.global f32x4 %0, 0, %4\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32x4 %0, 1\n  %2 = ld.global f32x4 %0, 2\n"
     "  %3 = fma f32x4 %1, %2, %2\n  st.global f32x4 %0, 0, %3\n  exit\n"},
    {"one component summed, the other stored", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global f32x2 %0, 1\n  %2 = mul f32x2 %1, %1\n"
     "  %3 = extract f32 %2, 0 {source_lanes=2}\n  %4 = extract f32 %2, 1 {source_lanes=2}\n"
     "  %5 = add f32 0x0, %3\n  st.global f32 %0, 0, %5\n  st.global f32 %0, 1, %4\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32x2 %0, 1\n  %2 = mul f32x2 %1, %1\n"
     "  %4 = extract f32 %2, 1 {source_lanes=2}\n  %5 = extract f32 %1, 0 {source_lanes=2}\n"
     "  %3 = fma f32 %5, %5, 0x0\n  st.global f32 %0, 0, %3\n  st.global f32 %0, 1, %4\n  exit\n"},
    {"scalar products in a vector sum", CONTRACT, "",
     "b0 in r0:\n  %1 = ld.global f32x2 %0, 1\n  %2 = ld.global f32 %0, 2\n"
     "  %3 = mul f32 %2, %2\n  %4 = concat f32x2 %2, %3\n  %5 = add f32x2 %1, %4\n"
     "  st.global f32x2 %0, 0, %5\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32x2 %0, 1\n  %2 = ld.global f32 %0, 2\n"
     "  %3 = extract f32 %1, 0 {source_lanes=2}\n  %4 = add f32 %3, %2\n"
     "  %5 = extract f32 %1, 1 {source_lanes=2}\n  %6 = fma f32 %2, %2, %5\n"
     "  %7 = concat f32x2 %4, %6\n  st.global f32x2 %0, 0, %7\n  exit\n"},
    /* --- arrays */
    {"squares in an array, then their sum", ALL, "array a0 f32 4 \"d\"\narray a1 f32 1 \"sum\"\n",
     "b0 in r0:\n  %1 = ld.global f32x4 %0, 0\n  %2 = mul f32x4 %1, %1\n"
     "  st.local f32x4 a0, 0, %2\n  st.local f32 a1, 0, 0x0\n"
     "  %3 = ld.local f32 a1, 0\n  %4 = ld.local f32 a0, 0\n  %5 = add f32 %3, %4\n"
     "  st.local f32 a1, 0, %5\n"
     "  %6 = ld.local f32 a1, 0\n  %7 = ld.local f32 a0, 1\n  %8 = add f32 %6, %7\n"
     "  st.local f32 a1, 0, %8\n"
     "  %9 = ld.local f32 a1, 0\n  st.global f32 %0, 0, %9\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32x4 %0, 0\n  %4 = extract f32 %1, 0 {source_lanes=4}\n"
     "  %2 = fma f32 %4, %4, 0x0\n  %5 = extract f32 %1, 1 {source_lanes=4}\n"
     "  %3 = fma f32 %5, %5, %2\n  st.global f32 %0, 0, %3\n  exit\n"},
    {"an array that wgmma uses keeps its stores but not its detours", ALL,
     "array a0 f32 4 \"acc\"\n",
     "b0 in r0:\n  wgmma.touch f32 a0, 0\n  %1 = ld.local f32 a0, 1\n"
     "  %2 = mul f32 %1, 0x40400000\n  st.local f32 a0, 1, %2\n  %3 = ld.local f32 a0, 1\n"
     "  %4 = add f32 %3, 0x3f800000\n  st.local f32 a0, 1, %4\n  wgmma.touch f32 a0, 0\n  exit\n",
     "b0 in r0:\n  wgmma.touch f32 a0, 0\n  %1 = ld.local f32 a0, 1\n"
     "  %2 = fma f32 %1, 0x40400000, 0x3f800000\n  st.local f32 a0, 1, %2\n"
     "  wgmma.touch f32 a0, 0\n  exit\n"},
    {"a variable index may be anywhere", PROMOTE | DEAD, "array a0 f32 4\n",
     "b0 in r0:\n  %1 = ld.global s32 %0, 0\n  st.local f32 a0, 1, 0x1\n  st.local f32 a0, 2, 0x2\n"
     "  st.local f32 a0, %1, 0x3\n  %2 = ld.local f32 a0, 1\n  st.local f32 a0, 2, 0x4\n"
     "  %3 = ld.local f32 a0, 2\n  st.global f32 %0, 0, %2\n  st.global f32 %0, 1, %3\n  exit\n",
     "b0 in r0:\n  %1 = ld.global s32 %0, 0\n  st.local f32 a0, 1, 0x1\n"
     "  st.local f32 a0, %1, 0x3\n  %2 = ld.local f32 a0, 1\n"
     "  st.global f32 %0, 0, %2\n  st.global f32 %0, 1, 0x4\n  exit\n"},
    {"values live across blocks go through variables", PROMOTE | DEAD,
     "array a0 f32 1\nregion r1 in r0 head b0\n",
     "b0 in r0:\n  %1 = ld.global f32 %0, 0\n  %2 = lt f32 %1, 0x0\n  st.local f32 a0, 0, %1\n"
     "  cbr %2, b1, b2, b2\nb1 in r1:\n  st.local f32 a0, 0, 0x0\n  br b2\n"
     "b2 in r0:\n  %3 = ld.local f32 a0, 0\n  st.global f32 %0, 0, %3\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32 %0, 0\n  %2 = lt f32 %1, 0x0\n  %4 = mov f32 %1\n"
     "  cbr %2, b1, b2, b2\nb1 in r1:\n  %4 = mov f32 0x0\n  br b2\n"
     "b2 in r0:\n  %3 = mov f32 %4\n  st.global f32 %0, 0, %3\n  exit\n"},
    {"elements of different types in different places", PROMOTE | DEAD, "array a0 u8 8\n",
     "b0 in r0:\n  st.local f32 a0, 0, 0x5\n  st.local u8x2 a0, 4, 7\n  bar.sync 0, 0\n"
     "  %1 = ld.local f32 a0, 0\n  %2 = ld.local u8 a0, 5\n  st.global f32 %0, 0, %1\n"
     "  st.global u8 %0, 9, %2\n  exit\n",
     "b0 in r0:\n  bar.sync 0, 0\n  st.global f32 %0, 0, 0x5\n  st.global u8 %0, 9, 7\n  exit\n"},
    {"overlapping types keep the array; a half of a word is not known", PROMOTE | DEAD,
     "array a0 u8 8\n",
     "b0 in r0:\n  st.local u32 a0, 0, 5\n  st.local u8 a0, 1, 7\n  %1 = ld.local u32 a0, 0\n"
     "  %2 = ld.local u8 a0, 1\n  st.global u32 %0, 0, %1\n  st.global u8 %0, 9, %2\n  exit\n",
     NULL},
    {"an unsigned value does not become a negative index", PROMOTE | DEAD, "array a0 u32 2\n",
     "b0 in r0:\n  st.local u32 a0, 0, 0xffffffff\n  st.local u32 a0, 1, 4\n"
     "  %1 = ld.local u32 a0, 0\n  %2 = ld.local u32 a0, 1\n  st.global f32 %0, %1, 0x0\n"
     "  st.global f32 %0, %2, 0x0\n  exit\n",
     "b0 in r0:\n  %1 = mov u32 0xffffffff\n  st.global f32 %0, %1, 0x0\n"
     "  st.global f32 %0, 4, 0x0\n  exit\n"},
    /* --- dead code */
    {"loops of unused values, loads with effects", DEAD, "region r1 in r0 head b1\n",
     "b0 in r0:\n  %1 = ld.global f32 %0, 0\n  %2 = mov f32 %1\n  br b1\n"
     "b1 in r1:\n  %3 = ld.global s32 %0, 1\n  %4 = lt s32 %3, 5\n  cbr %4, b2, b3, b3\n"
     "b2 in r1:\n  %2 = add f32 %2, %1\n  br b1\nb3 in r0:\n  exit\n",
     "b0 in r0:\n  %1 = ld.global f32 %0, 0\n  br b1\n"
     "b1 in r1:\n  %2 = ld.global s32 %0, 1\n  %3 = lt s32 %2, 5\n  cbr %3, b2, b3, b3\n"
     "b2 in r1:\n  br b1\nb3 in r0:\n  exit\n"},
    {"assignments that are overwritten before they are read", DEAD, "",
     "b0 in r0:\n  %1 = mov f32 0x1\n  %1 = mov f32 0x2\n  st.global f32 %0, 0, %1\n"
     "  %1 = mov f32 0x3\n  exit\n",
     "b0 in r0:\n  %1 = mov f32 0x2\n  st.global f32 %0, 0, %1\n  exit\n"},
};

START_TEST(test_pass) {
  struct fixture x;
  char input[8192], *text;
  size_t size;
  begin(&x);
  snprintf(input, sizeof input, "%s%s%s}\n", HEAD, cases[_i].declarations, cases[_i].body);
  struct ts_module *module = parse(&x.ctx, input);
  ck_assert_ptr_nonnull(module);
  enum ts_status status = run(&x.ctx, module->functions.data[0], cases[_i].passes);
  ck_assert_msg(status == TS_OK, "%s: %s", cases[_i].what,
                x.diags.items.count ? x.diags.items.data[0].message : "");
  ck_assert_int_eq(ts_print_module(&x.ctx, module, &text, &size), TS_OK);
  const char *wanted = cases[_i].wanted ? cases[_i].wanted : cases[_i].body;
  char *body = strstr(text, "b0 in r0:\n");
  ck_assert_ptr_nonnull(body);
  text[size - 2] = '\0'; /* the closing brace */
  ck_assert_msg(!strcmp(body, wanted), "%s:\n%s\nwanted:\n%s", cases[_i].what, body, wanted);
  free(text);
  ts_module_free(module);
  ts_diag_list_free(&x.diags);
}
END_TEST

/* --- short memory: the function stays whole whatever allocation fails */

START_TEST(test_short_memory) {
  struct fixture x;
  char input[8192];
  begin(&x);
  snprintf(input, sizeof input, "%s%s%s}\n", HEAD, cases[_i].declarations, cases[_i].body);
  enum ts_status status = TS_NO_MEMORY;
  for (uint64_t n = 1; status != TS_OK; n++) {
    struct failing_allocator memory;
    failing_allocator_init(&memory);
    struct ts_ctx ctx = {&memory.allocator, &x.diags};
    struct ts_module *module = parse(&ctx, input);
    ck_assert_ptr_nonnull(module);
    memory.failing_call = memory.call_count + n;
    memory.fails_from_there = true;
    status = run(&ctx, module->functions.data[0], cases[_i].passes);
    ck_assert_msg(status == TS_OK || status == TS_NO_MEMORY, "%s", ts_status_text(status));
    memory.failing_call = 0;
    ck_assert_int_eq(ts_verify(&ctx, module->functions.data[0]), TS_OK);
    ts_module_free(module);
    ck_assert_uint_eq(memory.alive_blocks, 0);
  }
  ts_diag_list_free(&x.diags);
}
END_TEST

/* Tens of thousands of arms that all compute the same, and merge it into variables: the work must
 * not grow with the square of their number (ctest's time limit tells). */
START_TEST(test_many_equal_arms) {
  enum { ARM_COUNT = 30000 };
  struct fixture x;
  begin(&x);
  struct ts_module *module = ts_module_new(&ts_allocator_libc);
  struct ts_build *b = ts_build_begin(&x.ctx, module, "f");
  struct ts_type f32 = {TS_DTYPE_f32, 1}, s32 = {TS_DTYPE_s32, 1};
  uint32_t param = ts_build_param(b, TS_PARAM_POINTER, "p", TS_DTYPE_f32);
  struct ts_operand base = ts_build_param_reg(b, param), zero = ts_build_imm(b, 0);
  struct ts_operand value = ts_build_2(b, TS_OP_ld_global, f32, base, zero);
  struct ts_operand place = ts_build_2(b, TS_OP_ld_global, s32, base, zero);
  for (uint32_t i = 0; i < ARM_COUNT; i++) {
    struct ts_operand merged = ts_build_variable(b, f32, NULL);
    ts_build_assign(b, merged, zero);
    ts_build_if(b, ts_build_2(b, TS_OP_lt, s32, place, ts_build_imm(b, i)));
    struct ts_operand product = ts_build_2(b, TS_OP_mul, f32, value, value);
    ts_build_assign(b, merged, ts_build_2(b, TS_OP_add, f32, product, value));
    ts_build_end_if(b);
    ts_build_3(b, TS_OP_st_global, f32, base, ts_build_imm(b, i), merged);
  }
  struct ts_function *function;
  ck_assert_int_eq(ts_build_end(b, &function), TS_OK);
  ck_assert_int_eq(run(&x.ctx, function, ALL), TS_OK);
  uint32_t fma_count = 0;
  for (size_t i = 0; i < function->insns.count; i++)
    fma_count += function->insns.data[i].op == TS_OP_fma;
  ck_assert_uint_eq(fma_count, ARM_COUNT);
  ts_module_free(module);
  ts_diag_list_free(&x.diags);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("ir_pass");
  TCase *tests = tcase_create("pass");
  int case_count = (int)(sizeof cases / sizeof *cases);
  tcase_add_loop_test(tests, test_pass, 0, case_count);
  tcase_add_loop_test(tests, test_short_memory, 0, case_count);
  suite_add_tcase(suite, tests);
  TCase *large = tcase_create("large");
  tcase_set_timeout(large, 60);
  tcase_add_test(large, test_many_equal_arms);
  suite_add_tcase(suite, large);
  SRunner *runner = srunner_create(suite);
  srunner_run_all(runner, CK_ENV);
  int failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
