/* Global memory: one host block per allocation, with a red zone on either side. */
#include "mem/mem.h"

#include <string.h>

enum { RED_ZONE_BYTES = 64, FILL_BYTE = 0xA5 };

/* What the host block of an allocation takes: two red zones and room to align the data. */
static uint64_t block_bytes(uint64_t size_bytes) { return size_bytes + 3 * RED_ZONE_BYTES; }

void ts_device_memory_init(struct ts_device_memory *memory, const struct ts_allocator *allocator) {
  memset(memory, 0, sizeof *memory);
  memory->allocator = allocator;
}

static void *resize(const struct ts_allocator *allocator, void *block, uint64_t old_bytes,
                    uint64_t new_bytes) {
  return allocator->resize(allocator->user, block, (size_t)old_bytes, (size_t)new_bytes);
}

void ts_device_memory_free(struct ts_device_memory *memory) {
  for (size_t i = 1; i < memory->allocations.count; i++) {
    struct ts_allocation *allocation = &memory->allocations.data[i];
    if (allocation->block)
      resize(memory->allocator, allocation->block, block_bytes(allocation->size_bytes), 0);
    resize(memory->allocator, (void *)(uintptr_t)allocation->name, strlen(allocation->name) + 1, 0);
  }
  ts_vec_free(&memory->allocations, memory->allocator);
}

static bool back(const struct ts_allocator *allocator, struct ts_allocation *allocation) {
  uint64_t bytes = block_bytes(allocation->size_bytes);
  allocation->block = bytes > SIZE_MAX ? NULL : resize(allocator, NULL, 0, bytes);
  if (!allocation->block) return false;
  uintptr_t first = (uintptr_t)allocation->block + RED_ZONE_BYTES;
  uintptr_t pad = (0 - first) & (RED_ZONE_BYTES - 1);
  allocation->data = (uint8_t *)allocation->block + RED_ZONE_BYTES + pad;
  memset(allocation->block, FILL_BYTE, (size_t)bytes);
  return true;
}

enum ts_status ts_device_back(struct ts_ctx *ctx, struct ts_device_memory *memory,
                              uint64_t address) {
  uint64_t index = address >> TS_ADDRESS_SHIFT;
  if (!ts_device_find(memory, address) || memory->allocations.data[index].data) return TS_OK;
  return back(memory->allocator, &memory->allocations.data[index]) ? TS_OK : ts_fail_memory(ctx);
}

enum ts_status ts_device_reserve(struct ts_ctx *ctx, struct ts_device_memory *memory,
                                 const char *name, enum ts_dtype dtype, uint64_t size_bytes,
                                 uint64_t *address) {
  static const struct ts_allocation null_allocation;
  if (size_bytes >= TS_ADDRESS_BIAS)
    return ts_fail(ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                   "allocation of %s: %llu bytes are more than an allocation may have", name,
                   (unsigned long long)size_bytes);
  if (ts_vec_reserve(&memory->allocations, memory->allocator, 2)) return ts_fail_memory(ctx);
  if (memory->allocations.count == 0)
    memory->allocations.data[memory->allocations.count++] = null_allocation;
  size_t name_bytes = strlen(name) + 1;
  char *copy = resize(memory->allocator, NULL, 0, name_bytes);
  if (!copy) return ts_fail_memory(ctx);
  memcpy(copy, name, name_bytes);
  *address = (uint64_t)memory->allocations.count << TS_ADDRESS_SHIFT | TS_ADDRESS_BIAS;
  memory->allocations.data[memory->allocations.count++] =
      (struct ts_allocation){.name = copy, .dtype = (uint8_t)dtype, .size_bytes = size_bytes};
  return TS_OK;
}

enum ts_status ts_device_allocate(struct ts_ctx *ctx, struct ts_device_memory *memory,
                                  const char *name, enum ts_dtype dtype, uint64_t size_bytes,
                                  uint64_t *address) {
  TS_TRY(ts_device_reserve(ctx, memory, name, dtype, size_bytes, address));
  enum ts_status status = ts_device_back(ctx, memory, *address);
  if (status == TS_OK) return TS_OK;
  struct ts_allocation *last = &memory->allocations.data[--memory->allocations.count];
  resize(memory->allocator, (void *)(uintptr_t)last->name, strlen(last->name) + 1, 0);
  return status;
}
