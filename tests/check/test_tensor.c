/* Tensor memory and tcgen05: operands that are still being read, columns that are still in use, and
 * columns that have been freed. */
#include "support/kernel.h"
#include "support/suite.h"

/* 8 warps; columns 0 to 63 are allocated and the operands written. */
#define HEAD_WITH(regions)                                                                             \
  "function \"k\" {\nparam p0 pointer u32 %0 \"out\"\n"                                                \
  "shared s0 static u8 align 1024 size 12288 \"tile\"\n"                                               \
  "shared s1 static u32 align 4 size 4 \"address\"\n"                                                  \
  "shared s2 barrier u64 align 8 size 8 \"done\"\narray a0 u32 4 \"x\"\nreg %0 ptr\n"                  \
  "region r1 in r0 head b0\nregion r2 in r0 head b2\n" regions                                         \
  "b0 in r0:\n  %1 = sreg u32 {which=tid.x}\n  %2 = lt u32 %1, 32\n  %3 = lt u32 %1, 128\n"            \
  "  cbr %2, b1, b2, b2\nb1 in r1:\n  tmem.alloc s1, 64\n  mbarrier.init s2, 1\n  br b2\n"             \
  "b2 in r0:\n  st.shared u32 s0, %1, 0 {scale=4}\n  st.shared u32 s0, %1, 0 {scale=4, offset=1024}\n" \
  "  st.shared u32 s0, %1, 0 {scale=4, offset=2048}\n"                                                 \
  "  st.shared u32 s0, %1, 0 {scale=4, offset=3072}\n"                                                 \
  "  st.shared u32 s0, %1, 0 {scale=4, offset=4096}\n  fence.proxy.async\n  bar.sync 0, 0\n"           \
  "  %4 = ld.shared u32 s1, 0 {scale=4}\n  %5 = select u32 %3, 0, 32\n"                                \
  "  %6 = add u32 %4, %5\n  st.local u32 a0, 0, %1\n"
#define HEAD HEAD_WITH("")
#define FIRST_WARP "  cbr %2, b3, b4, b4\nb3 in r2:\n"
#define LAST_WARP "  %7 = lt u32 223, %1\n  cbr %7, b3, b4, b4\nb3 in r2:\n"
#define JOIN "  br b4\nb4 in r0:\n"
#define END "  exit\n}\n"
/* M 128, N 32, K 16 of f16 */
#define PRODUCT                                                                                    \
  "  tcgen05.mma.ss u32 f16 0x0000401000080000, 0x0000401000080100, %4, 134742032, 0\n"
#define WAIT "  mbarrier.wait s2, 0\n"
#define SYNC "  bar.sync 0, 0\n"

enum { SCHEDULES = 4, THREADS = 256 };

static void finds(const char *pattern, const char *faulty, const char *right,
                  enum ts_diag_code code) {
  const char *const pieces[2] = {faulty, right};
  for (int schedule = 0; schedule < 2 * SCHEDULES; schedule++) {
    char body[8192];
    struct kernel k;
    bool is_right = schedule % 2, is_found = false;
    kernel_text(body, sizeof body, pattern, &pieces[is_right]);
    kernel_begin(&k, body);
    kernel_buffer(&k, "out", TS_DTYPE_u32, 4096);
    k.options.schedule = schedule < 4 ? (enum ts_schedule_kind)(schedule / 2) : TS_SCHEDULE_RANDOM;
    k.options.seed = (uint64_t)schedule;
    k.options.checks = true;
    k.options.max_insns_per_warp = 100000;
    enum ts_status status = kernel_run(&k, 1, THREADS);
    for (size_t i = 0; i < k.diags.items.count; i++)
      /* In another order the product comes first, and is found in flight. */
      is_found |= k.diags.items.data[i].code == code ||
                  (schedule > 1 && k.diags.items.data[i].code == TS_DIAG_RACE_PENDING_WRITE);
    ck_assert_msg(is_right ? status == TS_OK : is_found, "schedule %d, '%s': %s", schedule / 2,
                  pieces[is_right], kernel_message(&k, 0));
    kernel_end(&k);
  }
}

/* The product still reads its operands, whoever issued it and whatever barriers lie between. */
START_TEST(test_operand_reuse) {
  finds(HEAD FIRST_WARP PRODUCT "  tcgen05.commit s2\n" JOIN
                                "$A  st.shared u32 s0, %1, 1 {scale=4}\n" END,
        SYNC, WAIT, TS_DIAG_RACE_SHARED);
  finds(HEAD FIRST_WARP PRODUCT
        "  tcgen05.commit s2\n$A  st.shared u32 s0, %1, 1 {scale=4}\n" JOIN END,
        "", WAIT, TS_DIAG_RACE_SHARED);
  /* A commit before the product tells nothing of it. */
  finds(HEAD FIRST_WARP "$A" JOIN WAIT "  st.shared u32 s0, %1, 1 {scale=4}\n" END,
        "  tcgen05.commit s2\n" PRODUCT, PRODUCT "  tcgen05.commit s2\n", TS_DIAG_RACE_SHARED);
}
END_TEST

/* Another warp stores to columns that are being loaded; a product overwrites them. */
START_TEST(test_h067_columns_reused) {
  finds(HEAD "  tmem.st a0, 0, $A {num=1}\n" FIRST_WARP JOIN END, "%4", "%6", TS_DIAG_RACE_TENSOR);
  finds(HEAD_WITH("region r3 in r0 head b4\n") LAST_WARP
        "  tmem.st a0, 0, %4 {num=1}\n" JOIN "$A  cbr %2, b5, b6, b6\nb5 in r3:\n" PRODUCT
        "  br b6\nb6 in r0:\n" END,
        "", SYNC, TS_DIAG_RACE_TENSOR);
}
END_TEST

START_TEST(test_freed_columns) {
  static const char frees[] =
      HEAD "  tmem.st a0, 0, %6 {num=1}\n$A" FIRST_WARP "  tmem.dealloc %4, 64\n" JOIN END;
  finds(frees, "", SYNC, TS_DIAG_RACE_TENSOR);
  finds(HEAD FIRST_WARP "  tmem.st a0, 0, %4 {num=1}\n$A" JOIN SYNC END,
        "  tmem.dealloc %4, 64\n  tmem.ld a0, 0, %4 {num=1}\n",
        "  tmem.ld a0, 0, %4 {num=1}\n  tmem.dealloc %4, 64\n", TS_DIAG_BOUNDS_SHARED);
  finds(HEAD FIRST_WARP "  tmem.dealloc %4, 64\n" JOIN SYNC "$A" END,
        "  tmem.st a0, 0, %6 {num=1}\n", "", TS_DIAG_BOUNDS_SHARED);
}
END_TEST

int main(void) {
  return RUN_TESTS("tensor", test_operand_reuse, test_h067_columns_reused, test_freed_columns);
}
