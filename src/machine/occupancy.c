/* Occupancy. Rules: CUDA C++ Programming Guide (technical specifications) and the granularities of
 * the CUDA Toolkit's occupancy calculator; MEASURED on 289 kernels, tests/machine/occupancy_h200.tsv
 * (cuOccupancyMaxActiveBlocksPerMultiprocessor on an H200). */
#include "machine/occupancy.h"

enum { WARP_LANES = 32 };

static uint64_t divide_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; }

/* A machine file may say 0 for "any number will do". */
static uint64_t round_up(uint64_t value, uint64_t unit) {
  return unit ? divide_up(value, unit) * unit : value;
}

static uint32_t warps_of(const struct ts_block_needs *needs) {
  return (uint32_t)divide_up(needs->threads, WARP_LANES);
}

/* Registers are handed to warps, inside a sub-partition. A block also has to fit as if it had as many
 * warps in every sub-partition: its warps are rounded up for the check whether it can run at all. */
static uint32_t by_registers(const struct ts_machine *m, const struct ts_block_needs *needs) {
  if (!needs->registers_per_thread || !needs->threads) return UINT32_MAX;
  if (needs->registers_per_thread > m->max_registers_per_thread || !m->sub_partitions_per_sm)
    return 0;
  uint64_t per_warp =
      round_up((uint64_t)needs->registers_per_thread * WARP_LANES, m->register_allocation_unit);
  uint64_t warps_checked = round_up(warps_of(needs), m->sub_partitions_per_sm);
  if (per_warp * warps_checked > m->registers_per_sm) return 0;
  uint64_t warps_per_part = m->registers_per_sm / m->sub_partitions_per_sm / per_warp;
  return (uint32_t)(warps_per_part * m->sub_partitions_per_sm / warps_of(needs));
}

static uint32_t by_shared(const struct ts_machine *m, const struct ts_block_needs *needs) {
  if (needs->shared_bytes > m->max_shared_bytes_per_block) return 0;
  if (m->shared_reserved_bytes_per_block > m->shared_bytes_per_sm) return 0;
  uint64_t bytes = round_up(needs->shared_bytes + m->shared_reserved_bytes_per_block,
                            m->shared_granularity_bytes);
  return bytes ? (uint32_t)(m->shared_bytes_per_sm / bytes) : UINT32_MAX;
}

static uint32_t by_threads(const struct ts_machine *m, const struct ts_block_needs *needs) {
  if (!needs->threads) return UINT32_MAX;
  if (needs->threads > m->max_threads_per_block) return 0;
  return m->max_warps_per_sm / warps_of(needs);
}

static uint32_t share_of(uint32_t available, uint32_t needed) {
  return needed ? available / needed : UINT32_MAX;
}

struct ts_occupancy ts_occupancy_find(const struct ts_machine *m,
                                      const struct ts_block_needs *needs) {
  bool cluster_fits = needs->cluster_blocks <= m->max_cluster_blocks;
  struct ts_occupancy found = {
      .blocks_per_sm = UINT32_MAX,
      .blocks_by =
          {
              [TS_RESOURCE_REGISTERS] = by_registers(m, needs),
              [TS_RESOURCE_SHARED] = by_shared(m, needs),
              [TS_RESOURCE_THREADS] = by_threads(m, needs),
              [TS_RESOURCE_BARRIERS] = share_of(m->barriers_per_sm, needs->barriers),
              [TS_RESOURCE_TENSOR] = share_of(m->tensor_columns_per_sm, needs->tensor_columns),
              [TS_RESOURCE_CLUSTER] = cluster_fits ? UINT32_MAX : 0,
              [TS_RESOURCE_BLOCKS] = m->max_blocks_per_sm,
          },
  };
  for (uint32_t i = 0; i < TS_RESOURCE_COUNT; i++)
    if (found.blocks_by[i] < found.blocks_per_sm) {
      found.blocks_per_sm = found.blocks_by[i];
      found.limit = (enum ts_resource)i;
    }
  found.warps_per_sm = found.blocks_per_sm * warps_of(needs);
  return found;
}

const char *ts_resource_name(enum ts_resource resource) {
  static const char *const names[] = {
#define RESOURCE(id, name, remedy) name,
#include "machine/resource.def"
#undef RESOURCE
  };
  return names[resource];
}

const char *ts_resource_remedy(enum ts_resource resource) {
  static const char *const remedies[] = {
#define RESOURCE(id, name, remedy) remedy,
#include "machine/resource.def"
#undef RESOURCE
  };
  return remedies[resource];
}
