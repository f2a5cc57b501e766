/* Lanes of one warp. Those that store to one place in one instruction must store one value: which one
 * stays is open (DOC: CUDA C++ Programming Guide, SIMT architecture, notes). What one has stored
 * another may load only when they have met since, at a barrier or an instruction of the whole warp
 * (the same: independent thread scheduling). */
#include "interp/check_priv.h"

#include <string.h>

enum { SLOT_COUNT = 64 };

struct values {
  const uint32_t *narrow;
  const uint64_t *wide; /* NULL: narrow ones */
  uint32_t components;
};

static bool are_equal(const struct values *values, uint32_t a, uint32_t b) {
  for (uint32_t i = 0; i < values->components; i++) {
    uint32_t first = i * TS__LANES;
    if (values->wide ? values->wide[first + a] != values->wide[first + b]
                     : values->narrow[first + a] != values->narrow[first + b])
      return false;
  }
  return true;
}

/* A lane that the lane's address has been seen in before, or the lane itself. */
static uint32_t earlier_lane(uint8_t slots[SLOT_COUNT], const struct ts__access *access,
                             uint32_t lane) {
  uint64_t hash = access->lane[lane] * 0x9e3779b97f4a7c15u >> 58;
  for (;; hash = (hash + 1) % SLOT_COUNT) {
    if (slots[hash] == 0) break;
    if (access->lane[slots[hash] - 1] == access->lane[lane]) return slots[hash] - 1u;
  }
  slots[hash] = (uint8_t)(lane + 1);
  return lane;
}

/* Accesses are aligned, so that those of one size meet in all bytes or in none. */
void ts__check_lanes(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                     const struct ts__access *access) {
  uint64_t scratch[TS_MAX_VECTOR_LANES * TS__LANES];
  uint8_t slots[SLOT_COUNT] = {0};
  const struct ts__operand *value = &code->operands[2];
  struct values values = {.components = code->lanes};
  if (value->is_uniform) return;
  for (uint32_t lanes = access->mask; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes), other = earlier_lane(slots, access, lane);
    if (other == lane) continue;
    if (!values.narrow && ts__is_wide(code->dtype))
      values.wide = ts__operand_slots64(warp, value, scratch);
    else if (!values.narrow)
      values.narrow = ts__operand_slots32(warp, value, (uint32_t *)scratch);
    if (are_equal(&values, lane, other)) continue;
    char where[160];
    ts__check_place_text(warp->block, space, access->lane[lane], where, sizeof where);
    ts__hazard(warp, code, space == TS_SPACE_GLOBAL ? TS_DIAG_RACE_GLOBAL : TS_DIAG_RACE_SHARED,
               lane, TS_NONE, "let one lane store, or give each lane a place of its own",
               "lanes %u and %u of warp %u write different values to %s in one instruction; which "
               "one stays is open",
               other, lane, warp->index, where);
    return;
  }
}

void ts__check_lane_reads(struct ts__warp *warp, const struct ts__code *code,
                          const struct ts__access *access) {
  const struct ts_race *race = &warp->block->check->race;
  for (uint32_t lanes = access->mask; lanes; lanes &= lanes - 1) {
    uint32_t lane = ts__first_lane(lanes), insn;
    uint32_t other =
        ts_race_unmet_lane(race, warp->index, lane, access->lane[lane], access->size_bytes, &insn);
    if (other >= TS__LANES) continue;
    char where[160];
    ts__check_place_text(warp->block, TS_SPACE_SHARED, access->lane[lane], where, sizeof where);
    ts__hazard(
        warp, code, TS_DIAG_RACE_SHARED, lane, insn, "warp.sync (__syncwarp) between the two",
        "lane %u of warp %u reads %u bytes at %s, which lane %u writes; lanes of a warp need "
        "not run in step, and nothing orders the two",
        lane, warp->index, access->size_bytes, where, other);
    return;
  }
}
