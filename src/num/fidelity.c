/* What is exact, what is modelled, what is a stand-in. */
#include "num/num.h"

static const struct ts_fidelity_row row_table[] = {
#define FIDELITY(profile, what, level, source) {profile, what, TS_FIDELITY_##level, source},
#include "num/fidelity.def"
#undef FIDELITY
#define MMA(profile, path, a, b, acc, k, kind, length, fraction, rounding, zero, fidelity)         \
  {#profile, #path " k" #k " " #a " x " #b " -> " #acc, TS_FIDELITY_##fidelity, "mma_profile.def"},
#include "num/mma_profile.def"
};

const struct ts_fidelity_row *ts_fidelity_rows(size_t *count) {
  *count = sizeof row_table / sizeof row_table[0];
  return row_table;
}

const char *ts_fidelity_name(enum ts_fidelity level) {
  static const char *const names[] = {"exact", "modelled", "unknown"};
  return (unsigned)level < sizeof names / sizeof names[0] ? names[level] : "?";
}
