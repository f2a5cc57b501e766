/* Every op that touches memory or orders agents says which operands decide what it does. */
#include "ir/slice.h"

#include "support/suite.h"

#include <string.h>

/* Ops with values of which none is an address, a predicate, a sync object or a shape. */
static bool has_no_roots(enum ts_op op) {
  switch (op) {
  case TS_OP_ld_local: /* registers */
  case TS_OP_st_local:
  case TS_OP_mma_sp:
  case TS_OP_wgmma_ss: /* operands in shared memory are told by their bytes alone */
  case TS_OP_wgmma_rs:
  case TS_OP_wgmma_sp_ss:
  case TS_OP_wgmma_sp_rs:
  case TS_OP_wgmma_wait: /* a constant */
  case TS_OP_warp_sync:
  case TS_OP_tmem_alloc: /* tensor memory: told without addresses */
  case TS_OP_tmem_dealloc:
  case TS_OP_tmem_ld:
  case TS_OP_tmem_st: return true;
  default: return false;
  }
}

START_TEST(test_roots) {
  for (uint16_t op = 0; op < TS_OP_COUNT; op++) {
    const struct ts_op_info *info = ts_op_info((enum ts_op)op);
    size_t count = strcspn(info->operands, "*");
    struct ts_insn insn = {.op = op, .operand_count = (uint8_t)count};
    bool must_have = (info->flags & (F_MEM | F_SYNC)) && count && !has_no_roots((enum ts_op)op);
    ck_assert_msg(!must_have || ts_slice_roots(&insn), "%s: say in slice.c what decides it",
                  info->name);
    ck_assert_msg(ts_slice_roots(&insn) >> count == 0, "%s: a root beyond its operands",
                  info->name);
  }
}
END_TEST

int main(void) { return RUN_TESTS("ir slice", test_roots); }
