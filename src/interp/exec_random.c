/* Random generators: where their streams start. Drawing is ordinary arithmetic. */
#include "interp/interp_priv.h"
#include "num/random.h"

_Static_assert((int)TS_IR_GENERATOR_philox == TS_RANDOM_PHILOX &&
                   (int)TS_IR_GENERATOR_xorwow == TS_RANDOM_XORWOW &&
                   (int)TS_IR_GENERATOR_mrg32k3a == TS_RANDOM_MRG32K3A &&
                   (int)TS_IR_GENERATOR_WORDS == TS_RANDOM_WORDS,
               "the IR's numbers are num's");

/* Seed, sequence, offset; code->scale is the generator. */
enum ts__step ts__exec_random_init(struct ts__warp *warp, const struct ts__code *code) {
  uint64_t arguments[3][TS__LANES];
  uint32_t states[TS__LANES][TS_RANDOM_WORDS], slots[TS_RANDOM_WORDS * TS__LANES];
  for (uint32_t i = 0; i < 3; i++)
    ts__operand_lanes64(warp, &code->operands[i], arguments[i]);
  uint32_t count = code->dst_is_uniform ? 1 : TS__LANES;
  ts_random_init((enum ts_random)code->scale, count, arguments[0], arguments[1], arguments[2],
                 states);
  for (uint32_t word = 0; word < TS_RANDOM_WORDS; word++)
    for (uint32_t lane = 0; lane < TS__LANES; lane++)
      slots[word * TS__LANES + lane] = states[code->dst_is_uniform ? 0 : lane][word];
  ts__write_slots32(warp, code, slots);
  return TS__STEP_NEXT;
}
