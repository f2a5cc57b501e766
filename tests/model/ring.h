/* Programs of several roles: TileLang's ring of TMA loads, and hand-offs between two groups. */
#ifndef TS_TESTS_MODEL_RING_H
#define TS_TESTS_MODEL_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { RING_TEXT_BYTES = 1 << 16 };

/* Whose rows a block loads: its own, those of block / group or block % group, or a GEMM's panels. */
enum ring_pattern { RING_OWN, RING_QUOTIENT, RING_REMAINDER, RING_PANELS };

struct ring {
  const char *measured;
  uint32_t stages, boxes, rows; /* 0 stages: a hand-off through two mbarriers by `rows` threads */
  uint32_t blocks, rounds;
  double boxes_per_round; /* the result is cycles a box, or its inverse: bytes a cycle */
  bool is_rate;
  enum ring_pattern pattern;
  uint32_t group;
};

static const struct ring rings[] = {
#define RING(name, stages, boxes, rows, blocks)                                                    \
  {name, stages, boxes, rows, blocks, 8, stages * boxes, false, RING_OWN, 1},
#define SHARING(name, pattern, group, stages)                                                      \
  {name, stages, 2, 128, 132, 8, stages, true, RING_##pattern, group},
#define HANDOFF(name, threads) {name, 0, 0, threads, 1, 16, 2, false, RING_OWN, 1},
#include "model/ring.def"
#undef RING
#undef SHARING
#undef HANDOFF
};
enum { RING_COUNT = sizeof rings / sizeof *rings };

#define RING_HEAD                                                                                  \
  "function \"f\" {\nparam p0 pointer u8 %%0 \"data\"\nparam p1 scalar u32 %%1 \"rounds\"\n"       \
  "param p2 tensormap f16 \"map\"\nshared s0 dynamic u8 align 1024 size 1024\n"                    \
  "shared s1 barrier u64 align 8 size 128\nreg %%0 ptr\nreg %%1 u32\nreg %%9 u32\nreg %%10 u32\n"

/* Rows of the first and the second box in %14 and %23. */
static inline int ring_write_rows(const struct ring *r, char *text) {
  static const char *const ops[] = {"div", "div", "rem"};
  if (r->pattern == RING_PANELS)
    return sprintf(text,
                   "%%24 = div u32 %%3, %u\n%%14 = mul u32 %%24, %u\n%%25 = rem u32 %%3, %u\n"
                   "%%26 = add u32 %%25, 16\n%%23 = mul u32 %%26, %u\n",
                   r->group, r->rows, r->group, r->rows);
  return sprintf(text, "%%24 = %s u32 %%3, %u\n%%14 = mul u32 %%24, %u\n%%23 = add u32 %%14, %u\n",
                 ops[r->pattern], r->group, r->boxes * r->rows, r->rows);
}

/* Warps 0-3 wait for an empty stage, one lane expects and issues its boxes; warps 4-7 wait for the full
 * one and arrive. Every round is `stages` stages. */
static inline void ring_write_loads(const struct ring *r, char *text) {
  uint32_t bytes = 128 * r->rows;
  size_t at = (size_t)sprintf(text, RING_HEAD);
#define RING_ADD(...) at += (size_t)sprintf(text + at, __VA_ARGS__)
  /* blocks: 0 entry, 1 init, 2 fork, 3 producer's loop, then 2 per stage, then the consumer's loop */
  uint32_t tail = 3 + 2 * r->stages, consumer = tail + 1, end = consumer + 1;
  RING_ADD("region r1 in r0 head b0\nregion r2 in r0 head b2\nregion r3 in r0 head b2\n"
           "region r4 in r2 head b%u\nregion r5 in r3 head b%u\n",
           tail, consumer);
  for (uint32_t s = 0; s < r->stages; s++)
    RING_ADD("region r%u in r4 head b%u\n", 6 + s, 3 + 2 * s);
  RING_ADD("b0 in r0:\n%%2 = sreg u32 {which=tid.x}\n%%3 = sreg u32 {which=ctaid.x}\n"
           "%%9 = mov u32 0\n%%10 = mov u32 0\n%%11 = mov u32 s1\n%%12 = mov u32 s0\n"
           "%%13 = eq u32 %%2, 0\n");
  at += (size_t)ring_write_rows(r, text + at);
  RING_ADD("cbr %%13, b1, b2, b2\nb1 in r1:\n");
  for (uint32_t s = 0; s < r->stages; s++)
    RING_ADD("%%%u = add u32 %%11, %u\nmbarrier.init %%%u, 1\n%%%u = add u32 %%11, %u\n"
             "mbarrier.init %%%u, 128\n",
             100 + s, 8 * s, 100 + s, 120 + s, 64 + 8 * s, 120 + s);
  RING_ADD("fence.mbarrier_init\nbr b2\nb2 in r0:\nbar.sync 0, 0\n%%15 = lt u32 %%2, 128\n");
  for (uint32_t s = 0; s < r->stages; s++)
    RING_ADD("%%%u = add u32 %%11, %u\n%%%u = add u32 %%11, %u\n", 140 + s, 8 * s, 160 + s,
             64 + 8 * s);
  RING_ADD("cbr %%15, b3, b%u, b%u\n", consumer, end);
  for (uint32_t s = 0; s < r->stages; s++) {
    RING_ADD("b%u in r4:\n", 3 + 2 * s);
    if (s == 0)
      RING_ADD("%%16 = and u32 %%9, 1\n%%17 = xor u32 %%16, 1\n%%18 = and u32 %%9, 1\n"
               "%%19 = mul u32 %%18, %u\n",
               64 * r->stages);
    RING_ADD("mbarrier.wait %%%u, %%17\ncbr %%13, b%u, b%u, b%u\n", 160 + s, 4 + 2 * s, 5 + 2 * s,
             5 + 2 * s);
    RING_ADD("b%u in r%u:\nmbarrier.arrive.expect_tx %%%u, %u\n", 4 + 2 * s, 6 + s, 140 + s,
             r->boxes * bytes);
    for (uint32_t b = 0; b < r->boxes; b++) {
      uint32_t reg = 200 + 10 * s + 3 * b;
      RING_ADD("%%%u = add u32 %%12, %u\n%%%u = add u32 %%19, %u\n"
               "tma.load p2, %%%u, %%%u, %%%u, %%%u\n",
               reg, (s * r->boxes + b) * bytes, reg + 1, 64 * s, reg, 140 + s, reg + 1,
               b ? 23 : 14);
    }
    RING_ADD("br b%u\n", 5 + 2 * s);
  }
  RING_ADD("b%u in r4:\n%%9 = add u32 %%9, 1\n%%20 = lt u32 %%9, %%1\ncbr %%20, b3, b%u, b%u\n",
           tail, end, end);
  RING_ADD("b%u in r5:\n%%21 = and u32 %%10, 1\n", consumer);
  for (uint32_t s = 0; s < r->stages; s++)
    RING_ADD("mbarrier.wait %%%u, %%21\nmbarrier.arrive %%%u\n", 140 + s, 160 + s);
  RING_ADD("%%10 = add u32 %%10, 1\n%%22 = lt u32 %%10, %%1\ncbr %%22, b%u, b%u, b%u\n"
           "b%u in r0:\nexit\n}\n",
           consumer, end, end, end);
#undef RING_ADD
}

/* Two groups of `rows` threads hand a phase back and forth. */
static inline void ring_write_handoff(const struct ring *r, char *text) {
  sprintf(text,
          RING_HEAD "region r1 in r0 head b0\nregion r2 in r0 head b3\nregion r3 in r0 head b3\n"
                    "region r4 in r2 head b4\nregion r5 in r3 head b5\n"
                    "b0 in r0:\n%%2 = sreg u32 {which=tid.x}\n%%9 = mov u32 0\n%%11 = mov u32 s1\n"
                    "%%12 = add u32 %%11, 8\n%%13 = eq u32 %%2, 0\ncbr %%13, b1, b2, b2\n"
                    "b1 in r1:\nmbarrier.init s1, %u\nmbarrier.init %%12, %u\nfence.mbarrier_init\n"
                    "br b2\nb2 in r0:\nbar.sync 0, 0\n%%14 = and u32 %%2, 127\n"
                    "%%15 = lt u32 %%14, %u\ncbr %%15, b3, b6, b6\n"
                    "b3 in r0:\n%%16 = lt u32 %%2, 128\ncbr %%16, b4, b5, b6\n"
                    "b4 in r4:\n%%17 = and u32 %%9, 1\nmbarrier.arrive s1\n"
                    "mbarrier.wait %%12, %%17\n%%9 = add u32 %%9, 1\n%%18 = lt u32 %%9, %%1\n"
                    "cbr %%18, b4, b6, b6\n"
                    "b5 in r5:\n%%19 = and u32 %%9, 1\nmbarrier.wait s1, %%19\n"
                    "mbarrier.arrive %%12\n%%9 = add u32 %%9, 1\n%%20 = lt u32 %%9, %%1\n"
                    "cbr %%20, b5, b6, b6\nb6 in r0:\nexit\n}\n",
          r->rows, r->rows, r->rows);
}

static inline void ring_write(const struct ring *r, char *text) {
  if (r->stages)
    ring_write_loads(r, text);
  else
    ring_write_handoff(r, text);
}

#endif
