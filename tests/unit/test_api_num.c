/* tilesim/num.h: names and profiles, arrays of every element size, the list, operations by type. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/suite.h"
#include "tilesim/num.h"

static void find(const char *name, const char *profile, struct ts_num_instruction *instruction) {
  enum ts_result result = ts_num_find(name, profile, instruction);
  ck_assert_msg(result == TS_RESULT_OK, "%s of %s", name, profile ? profile : "any profile");
}

START_TEST(scalar_instructions) {
  struct ts_num_instruction instruction;
  const uint32_t a[3] = {0x3f800000, 0x7f800000, 1}, b[3] = {0x3fc00000, 0xff800000, 1};
  const void *operands[] = {a, b};
  uint32_t sums[3];
  find("add.rn.f32", "sm_90", &instruction);
  ck_assert_uint_eq(instruction.operand_count, 2);
  ck_assert_str_eq(instruction.operands[1].name, "b");
  ck_assert_str_eq(instruction.result.type, "f32");
  ck_assert_uint_eq(instruction.result.element_bytes, 4);
  ck_assert_int_eq(ts_num_run(&instruction, sums, operands, 3), TS_RESULT_OK);
  ck_assert_uint_eq(sums[0], 0x40200000);
  ck_assert_uint_eq(sums[1], 0x7fffffff);
  ck_assert_uint_eq(sums[2], 2);
  const uint16_t pairs[2] = {0x7e38, 0x0000};
  uint32_t halves[2];
  const void *pair_operands[] = {pairs};
  find("cvt.rn.f16x2.e4m3x2", NULL, &instruction);
  ck_assert_uint_eq(instruction.operands[0].element_bytes, 2);
  ts_num_run(&instruction, halves, pair_operands, 2);
  ck_assert_uint_eq(halves[0], 0x5f003c00);
}
END_TEST

/* More elements than a block, in place. */
START_TEST(long_arrays) {
  enum { COUNT = 5000 };
  static uint64_t values[COUNT];
  struct ts_num_instruction instruction;
  const void *operands[] = {values};
  for (uint64_t i = 0; i < COUNT; i++)
    values[i] = i << 32 | i;
  find("not.b64", NULL, &instruction);
  ts_num_run(&instruction, values, operands, COUNT);
  for (uint64_t i = 0; i < COUNT; i++)
    ck_assert_uint_eq(values[i], ~(i << 32 | i));
}
END_TEST

START_TEST(profiles_and_wrong_names) {
  struct ts_num_instruction instruction;
  ck_assert_int_eq(ts_num_find("add.rn.f32", "sm_70", &instruction), TS_RESULT_BAD_ARGUMENT);
  ck_assert_int_eq(ts_num_find("add.rn.f31", "sm_90", &instruction), TS_RESULT_UNSUPPORTED);
  ck_assert_int_eq(ts_num_find("add.rn.f32x2", "sm_90", &instruction), TS_RESULT_UNSUPPORTED);
  find("add.rn.f32x2", NULL, &instruction);
  ck_assert_str_eq(instruction.profile, "sm_100");
  find("ascend.cast.rint.f16.f32", NULL, &instruction);
  ck_assert_str_eq(instruction.profile, "ascend_ref");
  static const char *const wrong[] = {
      "",
      "mma",
      "mma.m16n8k16",
      "mma.m16n8k16.f32.f16.f16",
      "mma.m16n8k16.f32.f16.bf16.f32",
      "mma.m16n8k17.f32.f16.f16.f32",
      "mma.m16n16k16.f32.f16.f16.f32",
      "mma.m16n8k16.f32.f16.f16.f16",
      "mma.m16n8k16.satfinite.f32.f16.f16.f32",
      "mma.m99999999999n8k16.f32.f16.f16.f32",
      "mma.m16n8k16.f32.f16.f16.f32.and",
      "mma.m16n8k256.s32.b1.b1.s32.popc",
      "wgmma.m64n12k16.f32.f16.f16",
      "wgmma.m64n264k16.f32.f16.f16",
      "wgmma.m64n40k32.s32.s8.s8.x",
      "tcgen05.mma.tf32.m64n16k16.f32.f16.f16",
      "tcgen05.mma.mxf4.m64n16k64.f32.e2m1.e2m1.ue8m0",
      "tcgen05.mma.mxf4.m128n16k64.f32.e2m1.e4m3.ue8m0",
      "tcgen05.mma.mxf4nvf4.m128n16k64.f32.e2m1.e2m1.ue4m3.block32",
      "ascend.mmad.m16n16k17.f32.f16.f16",
  };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    ck_assert_msg(ts_num_find(wrong[i], NULL, &instruction) == TS_RESULT_UNSUPPORTED, "%s",
                  wrong[i]);
  find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_80", &instruction);
  find("mma.m16n8k16.f32.f16.f16.f32", "exact", &instruction);
  find("tcgen05.mma.cta_group::1.kind::f16.m64n16k16.f32.f16.f16", "sm_100", &instruction);
}
END_TEST

/* Row-major A and D, B with k rows of n elements; two matrices one after the other. */
START_TEST(matrix_layout) {
  static uint16_t a[2][16][16], b[2][16][8], d[2][16][8], c[2][16][8];
  struct ts_num_instruction instruction;
  const void *operands[] = {a, b, c};
  a[0][3][5] = 0x4000; /* 2 */
  b[0][5][6] = 0x4200; /* 3 */
  c[1][15][7] = 0x3c00;
  a[1][15][0] = b[1][0][7] = 0x3c00;
  find("mma.m16n8k16.f16.f16.f16.f16", NULL, &instruction);
  ck_assert_uint_eq(instruction.m * 10000 + instruction.n * 100 + instruction.k, 160816);
  ck_assert_uint_eq(instruction.operands[1].rows, 16);
  ck_assert_uint_eq(instruction.operands[1].columns, 8);
  ck_assert_int_eq(ts_num_run(&instruction, d, operands, 2), TS_RESULT_OK);
  for (unsigned i = 0; i < 2 * 16 * 8; i++) {
    uint16_t expected = i == 3 * 8 + 6 ? 0x4600 : i == 128 + 15 * 8 + 7 ? 0x4000 : 0;
    ck_assert_uint_eq((&d[0][0][0])[i], expected);
  }
}
END_TEST

/* Signs of operands can be turned, 4-bit elements have a byte each. */
START_TEST(matrix_variants) {
  static uint16_t a[64][16], b[16][8];
  static float c[64][8], d[64][8];
  static uint8_t a4[16][64], b4[64][8];
  static int32_t c4[16][8], d4[16][8];
  struct ts_num_instruction instruction;
  const void *operands[] = {a, b, c}, *operands4[] = {a4, b4, c4};
  a[63][15] = 0x4000;
  b[15][7] = 0x4200;
  find("wgmma.m64n8k16.f32.f16.f16.nega", NULL, &instruction);
  ts_num_run(&instruction, d, operands, 1);
  ck_assert(d[63][7] < -5.9f && d[63][7] > -6.1f);
  a4[2][63] = 8; /* -8 */
  b4[63][3] = 15;
  find("mma.m16n8k64.s32.s4.u4.s32", NULL, &instruction);
  ts_num_run(&instruction, d4, operands4, 1);
  ck_assert_int_eq(d4[2][3], -120);
}
END_TEST

/* "mMnNk16" with numbers. */
static void make_name(char *out, size_t capacity, const char *listed) {
  size_t length = 0;
  for (const char *at = listed; *at && length + 4 < capacity; at++) {
    if (*at == 'M')
      length += (size_t)snprintf(out + length, capacity - length, "64");
    else if (*at == 'N' && at > listed && at[-1] == 'n')
      length += (size_t)snprintf(out + length, capacity - length, "16");
    else
      out[length++] = *at;
  }
  out[length] = '\0';
}

START_TEST(everything_listed_can_be_found) {
  struct ts_num_listing row;
  struct ts_num_instruction instruction;
  uint32_t index = 0, matrices = 0;
  char name[TS_NUM_NAME_BYTES], profile[16];
  for (; ts_num_list_get(index, &row) == TS_RESULT_OK; index++) {
    bool is_matrix = strchr(row.operands, '[') != NULL;
    if (is_matrix)
      make_name(name, sizeof name, row.name);
    else
      snprintf(name, sizeof name, "%s", row.name);
    matrices += is_matrix ? 1u : 0u;
    for (const char *at = row.profiles; *at; at += strspn(at, " ")) {
      size_t length = strcspn(at, " ");
      snprintf(profile, sizeof profile, "%.*s", (int)length, at);
      find(name, profile, &instruction);
      at += length;
    }
    uint32_t count = 0;
    for (const char *at = row.operands; (at = strchr(at, ':')) != NULL; at++)
      count++;
    ck_assert_uint_eq(count, instruction.operand_count);
  }
  ck_assert_uint_ge(index, 2000);
  ck_assert_uint_ge(matrices, 150);
}
END_TEST

START_TEST(operations_by_type) {
  const uint16_t a[2] = {0x3c00, 0x7e00}, b[2] = {0x4000, 0x3c00};
  uint16_t d[2];
  uint8_t flags[2], small[2];
  const uint32_t singles[2] = {0x43e80000, 0xff800000};
  ck_assert_int_eq(ts_num_apply_binary("add", "f16", 0, d, a, b, 2), TS_RESULT_OK);
  ck_assert_uint_eq(d[0], 0x4200);
  ck_assert_uint_eq(d[1], 0x7fff);
  ck_assert_int_eq(ts_num_apply_binary("lt", "f16", 0, flags, a, b, 2), TS_RESULT_OK);
  ck_assert(flags[0] == 1 && flags[1] == 0);
  ck_assert_int_eq(ts_num_apply_unary("neg", "f16", 0, d, a, 1), TS_RESULT_OK);
  ck_assert_uint_eq(d[0], 0xbc00);
  ck_assert_int_eq(ts_num_apply_ternary("fma", "f16", 0, d, b, b, a, 1), TS_RESULT_OK);
  ck_assert_uint_eq(d[0], 0x4500);
  ck_assert_int_eq(ts_num_apply_convert("e4m3", "f32", TS_NUMERIC_SATFINITE, small, singles, 2),
                   TS_RESULT_OK);
  ck_assert(small[0] == 0x7e && small[1] == 0xfe);
  ck_assert_int_eq(ts_num_apply_unary("sqrt", "s32", 0, d, a, 1), TS_RESULT_UNSUPPORTED);
  ck_assert_int_eq(ts_num_apply_unary("nothing", "f16", 0, d, a, 1), TS_RESULT_UNSUPPORTED);
  ck_assert_int_eq(ts_num_apply_unary("neg", "f17", 0, d, a, 1), TS_RESULT_UNSUPPORTED);
  ck_assert_uint_eq(ts_num_element_bytes("e2m3"), 1);
  ck_assert_uint_eq(ts_num_element_bytes("f32x2"), 8);
  ck_assert_uint_eq(ts_num_element_bytes("f17"), 0);
}
END_TEST

START_TEST(fidelity_register) {
  struct ts_num_fidelity row;
  uint32_t index = 0, exact = 0;
  for (; ts_num_fidelity_get(index, &row) == TS_RESULT_OK; index++) {
    exact += strcmp(row.level, "exact") == 0 ? 1u : 0u;
    ck_assert(row.what[0] && row.source[0] && strncmp(row.profile, "nv_", 3) != 0);
  }
  ck_assert_uint_gt(index, 50);
  ck_assert(exact > 0 && exact < index);
}
END_TEST

int main(void) {
  return RUN_TESTS("api_num", scalar_instructions, long_arrays, profiles_and_wrong_names,
                   matrix_layout, matrix_variants, everything_listed_can_be_found,
                   operations_by_type, fidelity_register);
}
