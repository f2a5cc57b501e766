/* The names of units and stall reasons. */
#include "model/model.h"

const char *ts_model_unit_text(enum ts_model_unit unit) {
  static const char *const texts[] = {
#define UNIT(name, text) text,
#include "model/unit.def"
#undef UNIT
  };
  return (unsigned)unit < TS_MODEL_UNIT_COUNT ? texts[unit] : "?";
}

const char *ts_stall_text(enum ts_stall stall) {
  static const char *const texts[] = {
#define STALL(name, text, explanation) text,
#include "model/stall.def"
#undef STALL
  };
  return (unsigned)stall < TS_STALL_COUNT ? texts[stall] : "?";
}
