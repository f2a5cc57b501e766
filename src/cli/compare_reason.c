/* Who wins how surely, and what the loser spends its time on. */
#include "cli/compare_priv.h"

#include <math.h>
#include <string.h>

/* FITTED to pairs of the sweeps of tools/accuracy.py: the correlation of the errors of two variants
 * that use the units in the same proportions, and how it falls with their likeness. */
static const double full_correlation = 0.7, likeness_power = 4;

static double us_of(const struct compare_share *shares, uint32_t count, const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(shares[i].name, name) == 0) return shares[i].us;
  return 0;
}

static double sum_us(const struct compare_variant *variant) {
  double sum = 0;
  for (uint32_t i = 0; i < variant->unit_count; i++)
    sum += variant->units[i].us;
  return sum > 0 ? sum : 1;
}

/* How alike two variants use the units, 0 to 1: the overlap of their busy times as distributions. */
static double likeness(const struct compare_variant *a, const struct compare_variant *b) {
  double overlap = 0, a_sum = sum_us(a), b_sum = sum_us(b);
  for (uint32_t i = 0; i < a->unit_count; i++) {
    double x = a->units[i].us / a_sum;
    double y = us_of(b->units, b->unit_count, a->units[i].name) / b_sum;
    overlap += x < y ? x : y;
  }
  return overlap;
}

/* Logarithms of the two times are normal with the stated uncertainty as deviation. */
double compare_probability(const struct compare_variant *a, const struct compare_variant *b) {
  double correlation = full_correlation * pow(likeness(a, b), likeness_power);
  double variance = a->uncertainty * a->uncertainty + b->uncertainty * b->uncertainty -
                    2 * correlation * a->uncertainty * b->uncertainty;
  double distance = log(b->kernel_us / a->kernel_us);
  if (!(variance > 0)) return distance > 0 ? 1 : distance < 0 ? 0 : 0.5;
  return 0.5 * erfc(-distance / sqrt(2 * variance));
}

/* --- reasons */

/* Share of the SMs' block slots that have work, over all waves. */
static double fullness(const struct compare_variant *variant) {
  double rounds = ceil(variant->waves - 1e-9);
  if (variant->blocks <= variant->sm_count)
    return variant->sm_count > 0 ? variant->blocks / variant->sm_count : 1;
  return rounds > 1 ? variant->waves / rounds : 1;
}

/* The share that grew most against the best, in us. */
static const struct compare_share *most_grown(const struct compare_share *shares, uint32_t count,
                                              const struct compare_share *best, uint32_t best_count,
                                              double *growth) {
  const struct compare_share *most = NULL;
  *growth = 0;
  for (uint32_t i = 0; i < count; i++) {
    double grown = shares[i].us - us_of(best, best_count, shares[i].name);
    if (grown <= *growth) continue;
    *growth = grown;
    most = &shares[i];
  }
  return most;
}

static size_t append(char *text, size_t used, size_t capacity_bytes, const char *separator,
                     const char *item) {
  if (used >= capacity_bytes) return used;
  return used +
         (size_t)snprintf(text + used, capacity_bytes - used, "%s%s", used ? separator : "", item);
}

static bool tell_fullness(const struct compare_variant *variant, const struct compare_variant *best,
                          double loss_us, char *item, size_t capacity_bytes) {
  double mine = fullness(variant), others = fullness(best);
  if (mine >= others || (others - mine) * variant->kernel_us < 0.3 * loss_us) return false;
  if (variant->blocks <= variant->sm_count)
    snprintf(item, capacity_bytes, "only %.0f of %.0f SMs have a block", variant->blocks,
             variant->sm_count);
  else
    snprintf(item, capacity_bytes, "%.2f waves leave %.0f %% of the slots empty (best %.0f %%)",
             variant->waves, 100 * (1 - mine), 100 * (1 - others));
  return true;
}

/* Bytes that the best does not move, when moving them is what keeps the variant busy. */
static bool tell_bytes(const struct compare_variant *variant, const struct compare_variant *best,
                       const char *unit, char *item, size_t capacity_bytes) {
  bool is_dram = strncmp(unit, "DRAM", 4) == 0, is_l2 = strncmp(unit, "L2 b", 4) == 0;
  double mine = is_dram ? variant->dram_bytes : variant->l2_bytes;
  double others = is_dram ? best->dram_bytes : best->l2_bytes;
  if ((!is_dram && !is_l2) || mine < 1.05 * others) return false;
  snprintf(item, capacity_bytes, "%s %.1f MB (best %.1f)", is_dram ? "DRAM" : "L2", mine / 1e6,
           others / 1e6);
  return true;
}

static bool tell_occupancy(const struct compare_variant *variant,
                           const struct compare_variant *best, char *item, size_t capacity_bytes) {
  double mine = variant->blocks_per_sm * variant->threads_per_block / 32;
  double others = best->blocks_per_sm * best->threads_per_block / 32;
  if (mine >= others) return false;
  snprintf(item, capacity_bytes, "%.0f warps a SM (%s; best %.0f)", mine, variant->occupancy_limit,
           others);
  return true;
}

/* What grew by more than the variant loses was made up by something else. */
static const char *made_up(double growth_us, double loss_us) {
  return growth_us > 1.5 * loss_us ? ", less elsewhere" : "";
}

void compare_reason(const struct compare_variant *variant, const struct compare_variant *best,
                    char *text, size_t capacity_bytes) {
  enum { BOUND_PERCENT = 60 }; /* a unit that is busier than that sets the pace */
  char item[128];
  size_t used = 0;
  double unit_growth, stall_growth, loss_us = variant->kernel_us - best->kernel_us;
  *text = '\0';
  if (loss_us <= 0) return;
  if (tell_fullness(variant, best, loss_us, item, sizeof item))
    used = append(text, used, capacity_bytes, "; ", item);
  const struct compare_share *unit =
      most_grown(variant->units, variant->unit_count, best->units, best->unit_count, &unit_growth);
  double pace_us = (variant->kernel_us - variant->launch_us) * BOUND_PERCENT / 100;
  bool is_bound = unit && unit->us > pace_us && unit_growth > 0.2 * loss_us;
  if (is_bound) {
    snprintf(item, sizeof item, "%s busy %.1f us longer%s", unit->name, unit_growth,
             made_up(unit_growth, loss_us));
    used = append(text, used, capacity_bytes, "; ", item);
    if (tell_bytes(variant, best, unit->name, item, sizeof item))
      used = append(text, used, capacity_bytes, ": ", item);
    return;
  }
  const struct compare_share *stall = most_grown(variant->stalls, variant->stall_count,
                                                 best->stalls, best->stall_count, &stall_growth);
  if (stall) {
    bool is_work = strcmp(stall->name, "issuing") == 0;
    snprintf(item, sizeof item,
             is_work ? "more instructions: %s %.1f us longer%s" : "%s: waits %.1f us longer%s",
             stall->name, stall_growth, made_up(stall_growth, loss_us));
    used = append(text, used, capacity_bytes, "; ", item);
  }
  if (tell_occupancy(variant, best, item, sizeof item))
    append(text, used, capacity_bytes, "; ", item);
}
