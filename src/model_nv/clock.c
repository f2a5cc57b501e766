/* The SM clock. It runs at its highest until tensor cores work, on more than an SM of each GPC; then it
 * steps down, and falls further with the power that products and reads from L2 take. */
#include "model_nv/model_nv_priv.h"

#include <math.h>

/* MEASURED: a plateau up to about 60 us, another from about 150 us on. */
static const double short_us = 60, long_us = 150;

static double between(double from, double to, double share) {
  if (!(share > 0)) return from;
  return share < 1 ? from + (to - from) * share : to;
}

static bool uses_tensor_cores(const struct ts__launch_record *record) {
  for (uint32_t i = 0; i < record->streams.count; i++)
    if (record->streams.data[i].mac_count > 0) return true;
  return false;
}

double ts__least_load_clock(const struct ts_model_nv *model, const struct ts__plan *plan) {
  double clock = ts__constant(model, TS_TIMING_sm_clock);
  if (!uses_tensor_cores(plan->record)) return clock;
  double few_sms = ts__constant(model, TS_TIMING_tensor_clock_few_sms);
  return clock * between(ts__constant(model, TS_TIMING_tensor_clock_few),
                         ts__constant(model, TS_TIMING_tensor_clock),
                         (plan->active_sm_count - few_sms) / few_sms);
}

double ts__clock_mhz(const struct ts_model_nv *model, const struct ts__plan *plan,
                     const struct ts__sm_result *result) {
  double cycles = result->end_cycle, clock = plan->clock_mhz;
  if (!(result->tensor_load > 0) || !(cycles > 0)) return clock;
  double us = cycles / clock, chip_sms = model->machine->sm_count;
  double blocks = plan->record->block_count / (plan->sm_block_count * chip_sms);
  double l2_cycles = (double)plan->totals.read_sectors * TS__SECTOR_BYTES /
                     ts__constant(model, TS_TIMING_l2_chip_bytes_per_cycle);
  double load = result->tensor_load * blocks / cycles +
                ts__constant(model, TS_TIMING_tensor_clock_l2_load) * l2_cycles / cycles;
  double full = ts__constant(model, TS_TIMING_sm_clock) *
                ts__constant(model, TS_TIMING_tensor_clock_full) *
                pow(load, -ts__constant(model, TS_TIMING_tensor_clock_exponent));
  if (full < clock) clock = full;
  return clock * between(1, ts__constant(model, TS_TIMING_tensor_clock_long),
                         (us - short_us) / (long_us - short_us));
}
