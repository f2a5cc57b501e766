/* Occupancy: how many blocks of a kernel one SM holds at a time, and what bounds that number. */
#ifndef TS_MACHINE_OCCUPANCY_H
#define TS_MACHINE_OCCUPANCY_H

#include "machine/machine.h"

enum ts_resource {
#define RESOURCE(id, name, remedy) TS_RESOURCE_##id,
#include "machine/resource.def"
#undef RESOURCE
  TS_RESOURCE_COUNT
};

/* What one block needs. 0 stands for "unknown, or none": it bounds nothing. */
struct ts_block_needs {
  uint32_t threads;
  uint32_t registers_per_thread;
  uint64_t shared_bytes; /* static + dynamic */
  uint32_t barriers;     /* named barriers */
  uint32_t cluster_blocks;
  uint32_t tensor_columns; /* as allocated: a power of two from 32 on */
};

struct ts_occupancy {
  uint32_t blocks_per_sm; /* 0: a block does not fit at all */
  uint32_t warps_per_sm;
  enum ts_resource limit; /* the first one that bounds */
  /* Blocks that each resource alone would allow; UINT32_MAX when it bounds nothing. */
  uint32_t blocks_by[TS_RESOURCE_COUNT];
};

struct ts_occupancy ts_occupancy_find(const struct ts_machine *machine,
                                      const struct ts_block_needs *needs);

const char *ts_resource_name(enum ts_resource resource);
/* How a kernel's author raises the bound, a clause in the imperative. */
const char *ts_resource_remedy(enum ts_resource resource);

#endif
