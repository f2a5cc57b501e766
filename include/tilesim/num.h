/* tilesim/num.h: the arithmetic of GPU and NPU instructions on the bits of numbers. Usable without
 * anything else of tilesim: include this header, link libtilesim.
 *
 * A value is its encoding, never a host float. Arrays hold one element each in the smallest of
 * uint8_t, uint16_t, uint32_t, uint64_t that has room for it, right-aligned (a 6-bit float has a
 * byte of its own; signed integers need not be sign-extended, upper bits are ignored). Types:
 *   floats     f64 f32 tf32 f16 bf16 e4m3 e5m2 e2m3 e3m2 e2m1 ue8m0
 *   integers   s4 u4 s8 u8 s16 u16 s32 u32 s64 u64, pred (0 or 1), b1
 *   packed     b8 b16 b32 b64, f16x2 bf16x2 f32x2 e4m3x2 ...: as PTX packs them in a register
 *
 *   struct ts_num_instruction wgmma;
 *   ts_num_find("wgmma.m64n8k16.f32.f16.f16", "sm_90", &wgmma);
 *   const void *operands[] = {a, b, c};           // 64 x 16 f16, 16 x 8 f16, 64 x 8 f32
 *   ts_num_run(&wgmma, d, operands, 1);
 *
 *   ts_num_apply_convert("e4m3", "f32", TS_NUMERIC_SATFINITE, fp8, singles, count);
 *
 * There is no state: everything may be called from any thread. A result array may be an operand of
 * the same element size, but must not overlap one otherwise. */
#ifndef TILESIM_NUM_H
#define TILESIM_NUM_H

#include "tilesim/tilesim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- instructions by name */

enum { TS_NUM_MAX_OPERANDS = 5, TS_NUM_NAME_BYTES = 80 };

/* A matrix for matrix instructions, else one element (1 x 1). */
struct ts_num_operand {
  char name[16];          /* "a", "rbits" */
  char type[12];          /* "f16x2" */
  uint32_t rows, columns; /* row-major; B of a matrix instruction has k rows of n elements */
  uint32_t bits;          /* of an element */
  uint32_t element_bytes; /* 1, 2, 4 or 8: of an element in an array */
};

struct ts_num_instruction {
  char name[TS_NUM_NAME_BYTES];
  const char *profile;  /* "sm_90" */
  const char *fidelity; /* "exact", "modelled" or "unknown"; NULL: see the rows of the register */
  uint32_t m, n, k;     /* of a matrix instruction, else 0 */
  uint32_t operand_count;
  struct ts_num_operand operands[TS_NUM_MAX_OPERANDS];
  struct ts_num_operand result;
  /* how to carry it out: internal */
  const void *row;
  uint32_t kind, flags;
};

/* Finds an instruction. Names follow PTX: "add.rn.ftz.f32", "cvt.rn.satfinite.e4m3.f32",
 * "mma.m16n8k16.f32.f16.f16.f32", "tcgen05.mma.mxf8f6f4.m128n8k32.f32.e4m3.e2m1.ue8m0". profile is
 * "sm_80", "sm_90", "sm_100", "ascend_ref" or "exact"; NULL takes the first of sm_90, sm_100,
 * sm_80, ascend_ref, exact that has the instruction.
 * TS_RESULT_BAD_ARGUMENT: there is no such profile; TS_RESULT_UNSUPPORTED: it has no such name. */
TS_API enum ts_result ts_num_find(const char *name, const char *profile,
                                  struct ts_num_instruction *instruction);

/* count elements of a scalar instruction, or count matrices one after the other. operands has
 * operand_count arrays in the instruction's order. Fails only when memory is short. */
TS_API enum ts_result ts_num_run(const struct ts_num_instruction *instruction, void *result,
                                 const void *const *operands, size_t count);

/* What there is. For matrix instructions with a free shape, name has "N" (and "M") for it. */
struct ts_num_listing {
  char name[TS_NUM_NAME_BYTES];
  char profiles[40];  /* "sm_80 sm_90 sm_100" */
  char operands[112]; /* "a:f32 b:f32", "a:f16[16][16] ..." */
  char result[40];    /* "f32", "f32[16][8]" */
  char note[64];      /* "N = 8, 16 .. 256", or "" */
};
/* TS_RESULT_BAD_ARGUMENT when index is too large. */
TS_API enum ts_result ts_num_list_get(uint32_t index, struct ts_num_listing *listing);

/* --- operations on arrays by type */

enum ts_numeric_flag {
  TS_NUMERIC_FTZ = 1 << 0,       /* f32: subnormal operands and results become signed zeros */
  TS_NUMERIC_APPROX = 1 << 1,    /* the .approx or fast-math form */
  TS_NUMERIC_SATFINITE = 1 << 2, /* convert: overflow and Inf become the largest finite value */
  TS_NUMERIC_NAN = 1 << 3,       /* min, max: a NaN operand gives NaN */
  TS_NUMERIC_SAT = 1 << 7,       /* convert to integer: clamp to it, not to 32 bits first */
  /* rounding, one of; default: nearest even, to integers toward zero */
  TS_NUMERIC_RN = 1 << 4,  /* nearest, ties to even */
  TS_NUMERIC_RZ = 2 << 4,  /* toward zero */
  TS_NUMERIC_RM = 3 << 4,  /* down */
  TS_NUMERIC_RP = 4 << 4,  /* up */
  TS_NUMERIC_RNA = 5 << 4, /* nearest, ties away from zero */
  TS_NUMERIC_RO = 6 << 4   /* to odd */
};

/* op: add sub mul div rem min max pow copysign and or xor shl shr eq ne lt le gt ge fma neg abs not
 * popc clz sqrt rsqrt rcp exp exp2 exp10 log log2 log10 log1p expm1 sin cos tan asin acos atan sinh
 * cosh tanh erf sigmoid floor ceil round rint trunc isnan isinf isfinite mulhi floordiv floormod.
 * Results are of the operands' type, of comparisons and is.. pred.
 * TS_RESULT_UNSUPPORTED: there is no such operation for the type and flags. */
TS_API enum ts_result ts_num_apply_unary(const char *op, const char *type, unsigned flags,
                                         void *result, const void *a, size_t count);
TS_API enum ts_result ts_num_apply_binary(const char *op, const char *type, unsigned flags,
                                          void *result, const void *a, const void *b, size_t count);
TS_API enum ts_result ts_num_apply_ternary(const char *op, const char *type, unsigned flags,
                                           void *result, const void *a, const void *b,
                                           const void *c, size_t count);
TS_API enum ts_result ts_num_apply_convert(const char *to_type, const char *from_type,
                                           unsigned flags, void *result, const void *a,
                                           size_t count);
/* Bytes of an element in an array; 0 for no type. */
TS_API uint32_t ts_num_element_bytes(const char *type);
/* The host instructions in use: "portable", "avx2" or "avx512". The bits do not depend on them. */
TS_API const char *ts_num_host(void);

/* --- how well results are known to agree with hardware */

struct ts_num_fidelity {
  const char *profile; /* "sm_90" */
  const char *what;    /* "ex2, lg2 ... .approx of f32" */
  const char *level;   /* "exact", "modelled" or "unknown" */
  const char *source;  /* what that rests on */
};
/* TS_RESULT_BAD_ARGUMENT when index is too large. */
TS_API enum ts_result ts_num_fidelity_get(uint32_t index, struct ts_num_fidelity *row);

#ifdef __cplusplus
}
#endif

#endif
