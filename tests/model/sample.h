/* Small kernels with everything that the model knows, for tests of its properties. */
#ifndef TS_TESTS_MODEL_SAMPLE_H
#define TS_TESTS_MODEL_SAMPLE_H

#include "model/ring.h"
#include "support/timed.h"

enum { SAMPLE_BYTES = 1 << 28, SAMPLE_SHARED_BYTES = 96 << 10 };

#define SAMPLE_HEAD                                                                                \
  "function \"f\" {\nparam p0 pointer u8 %0 \"data\"\nparam p1 scalar u32 %1 \"rounds\"\n"         \
  "param p2 tensormap f16 \"map\"\nshared s0 dynamic u8 align 1024 size 1024\n"                    \
  "shared s1 barrier u64 align 8 size 64\nreg %0 ptr\nreg %1 u32\nreg %9 u32\n"
#define SAMPLE_START                                                                               \
  "%2 = sreg u32 {which=tid.x}\n%3 = sreg u32 {which=ctaid.x}\n%4 = and u32 %2, 31\n"              \
  "%5 = shr u32 %2, 5\n%9 = mov u32 0\n"
#define SAMPLE_END "%9 = add u32 %9, 1\n%8 = lt u32 %9, %1\ncbr %8, b1, b2, b2\nb2 in r0:\n"
#define SAMPLE_LOOP(declarations, setup, body, end)                                                \
  SAMPLE_HEAD declarations "region r1 in r0 head b1\nb0 in r0:\n" SAMPLE_START setup               \
                           "br b1\nb1 in r1:\n" body SAMPLE_END end "exit\n}\n"

/* Global loads through shared memory to mma.sync, special functions, shuffles, stores, atomics. */
#define SAMPLE_MIX                                                                                 \
  SAMPLE_LOOP(                                                                                     \
      "array a0 f32 4\narray a1 f16 8\narray a2 f16 4\nreg %40 f32\n",                             \
      "%28 = mul u32 %3, 8192\n%29 = add u32 %28, %2\n%40 = cvt f32 u32 %2\n"                      \
      "%31 = mul u32 %4, 16\n",                                                                    \
      "%30 = fma u32 %9, 256, %29\n"                                                               \
      "%32 = ld.global u32x4 %0, %30 {scale=16}\n"                                                 \
      "%33 = ld.global u32x4 %0, %30 {scale=16, offset=2048}\n"                                    \
      "st.shared u32x4 s0, %2, %32 {scale=16}\n"                                                   \
      "st.shared u32x4 s0, %2, %33 {scale=16, offset=8192}\nbar.sync 0, 0\n"                       \
      "ldmatrix f16 a1, 0, s0, %31 {scale=1, num=4, trans=0}\n"                                    \
      "ldmatrix f16 a2, 0, s0, %31 {scale=1, offset=8192, num=2, trans=1}\n"                       \
      "mma f32 f16 a0, 0, a1, 0, a2, 0 {m=16, n=8, k=16, b_dtype=f16}\n"                           \
      "%41 = exp2 f32 %40 {approx=1, ftz=1}\n"                                                     \
      "%42 = shfl f32 %41, 1, 32, 0xffffffff {mode=bfly}\n%40 = add f32 %41, %42\n"                \
      "bar.sync 0, 0\n",                                                                           \
      "%43 = ld.local f32 a0, 0\n%44 = add f32 %43, %40\n"                                         \
      "st.global f32 %0, %29, %44 {scale=4, offset=134217728}\n"                                   \
      "atom.global f32 %0, %29, %44 {scale=4, offset=67108864, reduce=add, order=0, scope=1}\n")

/* cp.async in two groups in flight. */
#define SAMPLE_COPY                                                                                \
  SAMPLE_LOOP("reg %40 u32\n", "%28 = mul u32 %3, 8192\n%29 = add u32 %28, %2\n%40 = mov u32 0\n", \
              "%30 = fma u32 %9, 256, %29\n%31 = and u32 %9, 1\n%32 = mul u32 %31, 256\n"          \
              "%33 = add u32 %32, %2\n"                                                            \
              "cp.async s0, %33, %0, %30, 1 {scale=16, scale2=16, bytes=16}\ncp.async.commit\n"    \
              "cp.async.wait 1\nbar.sync 0, 0\n%34 = xor u32 %33, 256\n"                           \
              "%35 = ld.shared u32 s0, %34 {scale=16}\n%40 = add u32 %40, %35\n",                  \
              "cp.async.wait 0\nst.global u32 %0, %29, %40 {scale=4, offset=134217728}\n")

/* Groups of wgmma, one in flight. */
#define SAMPLE_WGMMA                                                                               \
  SAMPLE_LOOP("array a0 f32 64\n", "",                                                             \
              "wgmma.fence\n"                                                                      \
              "wgmma.ss f32 f16 0x4000004000010000, 0x4000004000010400, a0, 0, 1 {m=64, n=128, "   \
              "k=16, b_dtype=f16, a_major=1, b_major=1, scale_a=1, scale_b=1}\n"                   \
              "wgmma.commit\nwgmma.wait 1\n",                                                      \
              "wgmma.wait 0\n%40 = ld.local f32 a0, 0\n"                                           \
              "st.global f32 %0, %2, %40 {scale=4}\n")

enum sample_id { SAMPLE_ID_MIX, SAMPLE_ID_COPY, SAMPLE_ID_WGMMA, SAMPLE_ID_RING, SAMPLE_COUNT };
static const uint32_t sample_threads[SAMPLE_COUNT] = {128, 128, 128, 256};

static inline struct ts_tensormap sample_map(uint64_t address) {
  return (struct ts_tensormap){.dtype = TS_TENSORMAP_F16,
                               .elem_size_bytes = 2,
                               .rank = 2,
                               .global_address = address,
                               .size = {4096, SAMPLE_BYTES / 8192},
                               .stride_bytes = {2, 8192},
                               .box = {64, 32},
                               .elem_stride = {1, 1},
                               .swizzle = 3};
}

/* Opens a kernel of the text with the samples' arguments. */
static inline void sample_open(struct timed *t, const char *text, uint32_t rounds) {
  timed_begin(t, text);
  uint64_t address = timed_buffer(t, SAMPLE_BYTES);
  kernel_scalar(&t->kernel, rounds);
  kernel_map(&t->kernel, sample_map(address));
  t->kernel.launch.dynamic_shared_bytes = SAMPLE_SHARED_BYTES;
}

static inline void sample_begin(struct timed *t, enum sample_id id, uint32_t rounds) {
  static const char *const texts[] = {SAMPLE_MIX, SAMPLE_COPY, SAMPLE_WGMMA};
  static const struct ring ring = {.stages = 3, .boxes = 2, .rows = 32, .group = 1};
  char text[RING_TEXT_BYTES];
  if (id == SAMPLE_ID_RING) ring_write(&ring, text);
  sample_open(t, id == SAMPLE_ID_RING ? text : texts[id], rounds);
}

#endif
