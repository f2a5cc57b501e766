/* Where the streams of cuRAND's generators start. What a generator does from there on is arithmetic
 * on the state's words, which front ends write out as instructions. */
#ifndef TS_NUM_RANDOM_H
#define TS_NUM_RANDOM_H

#include <stddef.h>
#include <stdint.h>

enum ts_random { TS_RANDOM_PHILOX, TS_RANDOM_XORWOW, TS_RANDOM_MRG32K3A, TS_RANDOM_COUNT };

/* Words of a state, the unused ones at the end zero:
 * Philox4_32_10  counter[4], key[2], next word of the counter's block (0 .. 3)
 * XORWOW         x[5] oldest first, sum
 * MRG32k3a       three of the first recurrence and three of the second, oldest first */
enum { TS_RANDOM_WORDS = 8 };

/* curand_init(seed, sequence, offset) of each of n streams. Neighbours whose sequences follow each
 * other, with equal offsets, are cheap. */
void ts_random_init(enum ts_random generator, size_t n, const uint64_t *seeds,
                    const uint64_t *sequences, const uint64_t *offsets,
                    uint32_t (*states)[TS_RANDOM_WORDS]);

#endif
