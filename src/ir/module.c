/* Modules and functions: owning, finding, appending. */
#include "ir/ir_priv.h"

#include <string.h>

struct ts_module *ts_module_new(const struct ts_allocator *allocator) {
  struct ts_module *module = allocator->resize(allocator->user, NULL, 0, sizeof *module);
  if (!module) return NULL;
  memset(module, 0, sizeof *module);
  module->allocator = allocator;
  ts_arena_init(&module->arena, allocator);
  ts_intern_init(&module->names, &module->arena);
  if (ts_vec_push(&module->places, allocator, TS_NO_PLACE)) {
    ts_module_free(module);
    return NULL;
  }
  return module;
}

void ts_module_free(struct ts_module *module) {
  if (!module) return;
  const struct ts_allocator *allocator = module->allocator;
  for (size_t i = 0; i < module->functions.count; i++)
    ts__function_free(module->functions.data[i]);
  ts_vec_free(&module->functions, allocator);
  ts_vec_free(&module->places, allocator);
  ts_arena_free(&module->arena);
  allocator->resize(allocator->user, module, sizeof *module, 0);
}

struct ts_function *ts_module_find(const struct ts_module *module, const char *name) {
  for (size_t i = 0; i < module->functions.count; i++)
    if (!strcmp(module->functions.data[i]->name, name)) return module->functions.data[i];
  return NULL;
}

const char *ts__name(struct ts_module *module, const char *text) {
  return ts_intern(&module->names, text, strlen(text));
}

struct ts_function *ts__function_new(struct ts_module *module, const char *name) {
  struct ts_function *function = ts_new(&module->arena, struct ts_function);
  if (!function) return NULL;
  function->module = module;
  function->name = ts__name(module, name);
  for (int i = 0; i < 3; i++)
    function->cluster[i] = 1;
  if (!function->name || ts__add_region(function, TS_NONE, TS_NONE) == TS_NONE) {
    ts__function_free(function);
    return NULL;
  }
  return function;
}

void ts__function_free(struct ts_function *function) {
  const struct ts_allocator *allocator = function->module->allocator;
  ts_vec_free(&function->params, allocator);
  ts_vec_free(&function->regs, allocator);
  ts_vec_free(&function->arrays, allocator);
  ts_vec_free(&function->shared, allocator);
  ts_vec_free(&function->blocks, allocator);
  ts_vec_free(&function->regions, allocator);
  ts_vec_free(&function->insns, allocator);
  ts_vec_free(&function->operands, allocator);
  ts_vec_free(&function->attrs, allocator);
  ts_vec_free(&function->constants, allocator);
  ts_vec_free(&function->texts, allocator);
}

int64_t ts_insn_attr(const struct ts_function *function, const struct ts_insn *insn,
                     enum ts_attr_id id, int64_t fallback) {
  const struct ts_attr *attrs = function->attrs.data;
  for (uint32_t i = insn->attrs; i < insn->attrs + insn->attr_count; i++)
    if (attrs[i].id == (uint32_t)id) return attrs[i].value;
  return fallback;
}

struct ts_source_place ts_insn_place(const struct ts_function *function, uint32_t insn) {
  if (insn >= function->insns.count) return TS_NO_PLACE;
  uint32_t place = function->insns.data[insn].place;
  return place < function->module->places.count ? function->module->places.data[place]
                                                : TS_NO_PLACE;
}

/* Item numbers and offsets are 32 bits and TS_NONE is not one of them. */
static bool is_full(size_t count, size_t extra) { return count + extra >= TS_NONE; }

uint32_t ts__add_reg(struct ts_function *function, struct ts_type type, const char *name) {
  struct ts_reg reg = {.type = type, .name = name};
  if (is_full(function->regs.count, 1)) return TS_NONE;
  if (ts_vec_push(&function->regs, function->module->allocator, reg)) return TS_NONE;
  return (uint32_t)function->regs.count - 1;
}

uint32_t ts__add_block(struct ts_function *function, uint32_t region) {
  struct ts_block block = {.region = region};
  if (is_full(function->blocks.count, 1)) return TS_NONE;
  if (ts_vec_push(&function->blocks, function->module->allocator, block)) return TS_NONE;
  return (uint32_t)function->blocks.count - 1;
}

uint32_t ts__add_region(struct ts_function *function, uint32_t parent, uint32_t head) {
  struct ts_region region = {parent, head};
  if (is_full(function->regions.count, 1)) return TS_NONE;
  if (ts_vec_push(&function->regions, function->module->allocator, region)) return TS_NONE;
  return (uint32_t)function->regions.count - 1;
}

uint32_t ts__add_insn(struct ts_function *function, struct ts_insn insn,
                      const struct ts_operand *operands, uint32_t operand_count,
                      const struct ts_attr *attrs, uint32_t attr_count) {
  const struct ts_allocator *allocator = function->module->allocator;
  if (is_full(function->insns.count, 1) || is_full(function->operands.count, operand_count) ||
      is_full(function->attrs.count, attr_count))
    return TS_NONE;
  if (ts_vec_reserve(&function->insns, allocator, 1) ||
      ts_vec_reserve(&function->operands, allocator, operand_count) ||
      ts_vec_reserve(&function->attrs, allocator, attr_count))
    return TS_NONE;
  insn.operands = (uint32_t)function->operands.count;
  insn.attrs = (uint32_t)function->attrs.count;
  insn.operand_count = (uint8_t)operand_count;
  insn.attr_count = (uint8_t)attr_count;
  for (uint32_t i = 0; i < operand_count; i++)
    function->operands.data[function->operands.count++] = operands[i];
  for (uint32_t i = 0; i < attr_count; i++)
    function->attrs.data[function->attrs.count++] = attrs[i];
  function->insns.data[function->insns.count] = insn;
  return (uint32_t)function->insns.count++;
}

bool ts__index_find(const struct ts__index *index, uint32_t hash, size_t *at, uint32_t *item) {
  if (!index->slot_count) return false;
  for (; index->slots[*at].item; *at = ts__index_next(index, *at)) {
    if (index->slots[*at].hash != hash) continue;
    *item = index->slots[*at].item - 1;
    return true;
  }
  return false;
}

static void place_slot(struct ts__index *index, struct ts__index_slot slot) {
  size_t at = ts__index_first(index, slot.hash);
  while (index->slots[at].item)
    at = ts__index_next(index, at);
  index->slots[at] = slot;
}

static int grow_index(struct ts__index *index, const struct ts_allocator *allocator) {
  struct ts__index grown = {NULL, index->slot_count ? 2 * index->slot_count : 64,
                            index->used_count};
  size_t size_bytes = grown.slot_count * sizeof *grown.slots;
  grown.slots = allocator->resize(allocator->user, NULL, 0, size_bytes);
  if (!grown.slots) return -1;
  memset(grown.slots, 0, size_bytes);
  for (size_t i = 0; i < index->slot_count; i++)
    if (index->slots[i].item) place_slot(&grown, index->slots[i]);
  ts__index_free(index, allocator);
  *index = grown;
  return 0;
}

int ts__index_add(struct ts__index *index, const struct ts_allocator *allocator, uint32_t hash,
                  uint32_t item) {
  if (2 * index->used_count >= index->slot_count && grow_index(index, allocator)) return -1;
  place_slot(index, (struct ts__index_slot){hash, item + 1});
  index->used_count++;
  return 0;
}

void ts__index_free(struct ts__index *index, const struct ts_allocator *allocator) {
  if (index->slots)
    allocator->resize(allocator->user, index->slots, index->slot_count * sizeof *index->slots, 0);
  *index = (struct ts__index){NULL, 0, 0};
}
