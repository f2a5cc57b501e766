/* The slice is the least set of instructions that is closed: what decides control flow, addresses,
 * predicates, synchronisation and shapes is needed; the definitions of a needed register are in it,
 * and so are the stores to a space that an instruction of it reads (local arrays one by one, shared
 * memory as a whole, global memory tensor by tensor over all launches). */
#include "ir/slice.h"

#include <string.h>

/* Which pointer parameters a register may point into: a bit each, the last one for all others and
 * for pointers that come from memory. */
enum { OTHER_POINTER = 63 };
#define ANY_POINTER UINT64_MAX

struct launch_slice {
  const struct ts_function *function;
  const struct ts_launch *launch;
  bool *is_executed;   /* by instruction */
  bool *needs_reg;     /* by register */
  bool *needs_array;   /* by array */
  uint64_t *points_to; /* by register */
  bool needs_shared;
  bool depends_on_data, depends_on_results, depends_on_atomics;
};

struct slicer {
  const struct ts_launch_plan *plan;
  struct launch_slice *launches;
  TS_VEC(uint64_t) tensors; /* whose contents are needed: addresses >> TS_SLICE_TENSOR_SHIFT */
  bool needs_all_tensors;
  bool has_changed, out_of_memory;
  const struct ts_allocator *allocator;
};

/* --- operands by op */

uint32_t ts_slice_roots(const struct ts_insn *insn) {
  uint32_t all = (1u << insn->operand_count) - 1;
  switch (insn->op) {
  case TS_OP_ld_global:
  case TS_OP_ld_shared:
  case TS_OP_st_global:
  case TS_OP_st_shared:
  case TS_OP_atom_global:
  case TS_OP_atom_shared:
  case TS_OP_atom_global_ret:
  case TS_OP_atom_shared_ret:
  case TS_OP_stmatrix:
  case TS_OP_bar_red: return 3;
  case TS_OP_ld_cluster: return 7;
  case TS_OP_st_cluster: return 11;
  case TS_OP_ldmatrix: return 12;
  case TS_OP_tcgen05_mma_ss:
  case TS_OP_tcgen05_mma_ts: return 8;
  case TS_OP_cbr: return 1;
  case TS_OP_cp_async:
  case TS_OP_cp_async_wait:
  case TS_OP_cp_async_mbarrier:
  case TS_OP_tma_load:
  case TS_OP_tma_load_multicast:
  case TS_OP_tma_load_im2col:
  case TS_OP_tma_store:
  case TS_OP_bulk_load:
  case TS_OP_bulk_store:
  case TS_OP_bulk_load_multicast:
  case TS_OP_bulk_cluster:
  case TS_OP_bulk_wait:
  case TS_OP_bar_sync:
  case TS_OP_bar_arrive:
  case TS_OP_mbarrier_init:
  case TS_OP_mbarrier_expect_tx:
  case TS_OP_mbarrier_complete_tx:
  case TS_OP_mbarrier_arrive:
  case TS_OP_mbarrier_arrive_cluster:
  case TS_OP_mbarrier_arrive_expect_tx:
  case TS_OP_mbarrier_wait:
  case TS_OP_tcgen05_commit: return all;
  default: return 0;
  }
}

/* Where an instruction's data go to or come from, beside registers. */
enum place { PLACE_NONE, PLACE_SHARED, PLACE_GLOBAL, PLACE_TENSOR };

static enum place source_of(uint16_t op) {
  switch (op) {
  case TS_OP_ld_global:
  case TS_OP_atom_global_ret:
  case TS_OP_atom_global:
  case TS_OP_cp_async:
  case TS_OP_tma_load:
  case TS_OP_tma_load_multicast:
  case TS_OP_tma_load_im2col:
  case TS_OP_bulk_load:
  case TS_OP_bulk_load_multicast: return PLACE_GLOBAL;
  case TS_OP_ld_shared:
  case TS_OP_ld_cluster:
  case TS_OP_atom_shared:
  case TS_OP_atom_shared_ret:
  case TS_OP_tma_store:
  case TS_OP_bulk_store:
  case TS_OP_bulk_cluster:
  case TS_OP_ldmatrix:
  case TS_OP_wgmma_ss:
  case TS_OP_wgmma_rs:
  case TS_OP_wgmma_sp_ss:
  case TS_OP_wgmma_sp_rs: return PLACE_SHARED;
  case TS_OP_tmem_ld:
  case TS_OP_tcgen05_mma_ss:
  case TS_OP_tcgen05_mma_ts: return PLACE_TENSOR;
  default: return PLACE_NONE;
  }
}

static enum place target_of(uint16_t op) {
  switch (op) {
  case TS_OP_st_global:
  case TS_OP_atom_global:
  case TS_OP_atom_global_ret:
  case TS_OP_tma_store:
  case TS_OP_bulk_store: return PLACE_GLOBAL;
  case TS_OP_st_shared:
  case TS_OP_st_cluster:
  case TS_OP_atom_shared:
  case TS_OP_atom_shared_ret:
  case TS_OP_stmatrix:
  case TS_OP_cp_async:
  case TS_OP_tma_load:
  case TS_OP_tma_load_multicast:
  case TS_OP_tma_load_im2col:
  case TS_OP_bulk_load:
  case TS_OP_bulk_load_multicast:
  case TS_OP_bulk_cluster:
  case TS_OP_tmem_alloc: return PLACE_SHARED;
  case TS_OP_tmem_st:
  case TS_OP_tcgen05_mma_ss:
  case TS_OP_tcgen05_mma_ts: return PLACE_TENSOR;
  default: return PLACE_NONE;
  }
}

/* The operand with the array that the instruction writes, or TS_NONE. */
static uint32_t written_array(const struct ts_insn *insn) {
  switch (insn->op) {
  case TS_OP_st_local:
  case TS_OP_ldmatrix:
  case TS_OP_mma:
  case TS_OP_mma_sp:
  case TS_OP_tmem_ld: return 0;
  case TS_OP_wgmma_ss:
  case TS_OP_wgmma_sp_ss: return 2;
  case TS_OP_wgmma_rs:
  case TS_OP_wgmma_sp_rs: return 3;
  default: return TS_NONE;
  }
}

static uint32_t global_operand(uint16_t op) {
  switch (op) {
  case TS_OP_cp_async: return 2;
  case TS_OP_bulk_load:
  case TS_OP_bulk_load_multicast: return 1;
  default: return 0;
  }
}

/* --- pointers */

static uint64_t pointers_of(const struct launch_slice *s, const struct ts_operand *operand) {
  switch ((enum ts_operand_kind)operand->kind) {
  case TS_OPERAND_REG: return s->points_to[operand->index];
  case TS_OPERAND_TENSORMAP:
    return (uint64_t)1 << (operand->index < OTHER_POINTER ? operand->index : OTHER_POINTER);
  default: return 0;
  }
}

static bool is_load(uint16_t op) {
  return op == TS_OP_ld_global || op == TS_OP_ld_shared || op == TS_OP_ld_cluster ||
         op == TS_OP_atom_global_ret || op == TS_OP_atom_shared_ret || op == TS_OP_ld_local;
}

static bool spread_pointers(struct launch_slice *s, const struct ts_insn *insn) {
  const struct ts_function *function = s->function;
  if (insn->dst == TS_NONE) return false;
  uint64_t pointers = s->points_to[insn->dst];
  if (is_load(insn->op)) {
    if (function->regs.data[insn->dst].type.dtype == TS_DTYPE_ptr) pointers = ANY_POINTER;
  } else {
    for (uint32_t i = 0; i < insn->operand_count; i++)
      pointers |= pointers_of(s, ts_insn_operand(function, insn, i));
  }
  bool is_new = pointers != s->points_to[insn->dst];
  s->points_to[insn->dst] = pointers;
  return is_new;
}

static void find_pointers(struct launch_slice *s) {
  const struct ts_function *function = s->function;
  for (uint32_t i = 0; i < function->params.count; i++) {
    const struct ts_param *param = &function->params.data[i];
    if (param->kind == TS_PARAM_POINTER && param->reg != TS_NONE)
      s->points_to[param->reg] = (uint64_t)1 << (i < OTHER_POINTER ? i : OTHER_POINTER);
  }
  for (bool changes = true; changes;) {
    changes = false;
    for (uint32_t i = 0; i < function->insns.count; i++)
      changes |= spread_pointers(s, &function->insns.data[i]);
  }
}

/* --- tensors */

static uint64_t tensor_of_param(const struct slicer *slicer, const struct launch_slice *s,
                                uint32_t param) {
  if (param >= s->launch->arg_count) return 0;
  const struct ts_launch_arg *arg = &s->launch->args[param];
  if (arg->kind == TS_LAUNCH_ARG_SCALAR) return 0;
  uint64_t address = arg->value;
  if (arg->kind == TS_LAUNCH_ARG_TENSORMAP)
    address = address < slicer->plan->tensormap_count
                  ? slicer->plan->tensormaps[address].global_address
                  : 0;
  return address >> TS_SLICE_TENSOR_SHIFT;
}

static bool is_needed_tensor(const struct slicer *slicer, uint64_t tensor) {
  for (size_t i = 0; i < slicer->tensors.count; i++)
    if (slicer->tensors.data[i] == tensor) return true;
  return slicer->needs_all_tensors;
}

static void need_tensor(struct slicer *slicer, uint64_t tensor) {
  if (tensor == 0 || is_needed_tensor(slicer, tensor)) return;
  if (ts_vec_push(&slicer->tensors, slicer->allocator, tensor)) slicer->out_of_memory = true;
  slicer->has_changed = true;
}

static void need_pointees(struct slicer *slicer, const struct launch_slice *s, uint64_t pointers) {
  if (pointers >> OTHER_POINTER & 1 && !slicer->needs_all_tensors)
    slicer->needs_all_tensors = slicer->has_changed = true;
  for (uint32_t i = 0; i < OTHER_POINTER; i++)
    if (pointers >> i & 1) need_tensor(slicer, tensor_of_param(slicer, s, i));
}

static bool may_write_needed(const struct slicer *slicer, const struct launch_slice *s,
                             uint64_t pointers) {
  if (slicer->needs_all_tensors) return true;
  if (pointers >> OTHER_POINTER & 1) return slicer->tensors.count > 0;
  for (uint32_t i = 0; i < OTHER_POINTER; i++)
    if (pointers >> i & 1 && is_needed_tensor(slicer, tensor_of_param(slicer, s, i))) return true;
  return false;
}

/* --- closing the set */

static void need_operand(struct slicer *slicer, struct launch_slice *s,
                         const struct ts_operand *operand) {
  bool *flag = operand->kind == TS_OPERAND_REG     ? &s->needs_reg[operand->index]
               : operand->kind == TS_OPERAND_ARRAY ? &s->needs_array[operand->index]
                                                   : NULL;
  if (!flag || *flag) return;
  *flag = slicer->has_changed = true;
}

/* The instruction is executed: what it reads is needed. */
static void execute(struct slicer *slicer, struct launch_slice *s, uint32_t id) {
  const struct ts_insn *insn = &s->function->insns.data[id];
  s->is_executed[id] = slicer->has_changed = true;
  for (uint32_t i = 0; i < insn->operand_count; i++)
    need_operand(slicer, s, ts_insn_operand(s->function, insn, i));
  if (insn->op == TS_OP_atom_global_ret || insn->op == TS_OP_atom_shared_ret)
    s->depends_on_atomics = true;
  switch (source_of(insn->op)) {
  case PLACE_NONE: break;
  case PLACE_TENSOR:
  case PLACE_SHARED: s->needs_shared = true; break;
  case PLACE_GLOBAL:
    s->depends_on_data = true;
    need_pointees(slicer, s,
                  pointers_of(s, ts_insn_operand(s->function, insn, global_operand(insn->op))));
    break;
  }
}

static bool is_effect_needed(struct slicer *slicer, struct launch_slice *s,
                             const struct ts_insn *insn) {
  uint32_t array = written_array(insn);
  if (insn->dst != TS_NONE && s->needs_reg[insn->dst]) return true;
  if (array != TS_NONE && s->needs_array[ts_insn_operand(s->function, insn, array)->index])
    return true;
  switch (target_of(insn->op)) {
  case PLACE_NONE: return false;
  case PLACE_TENSOR:
  case PLACE_SHARED: return s->needs_shared;
  case PLACE_GLOBAL:
    if (!may_write_needed(slicer, s, pointers_of(s, ts_insn_operand(s->function, insn, 0))))
      return false;
    s->depends_on_results = true;
    return true;
  }
  return false;
}

static void close_launch(struct slicer *slicer, struct launch_slice *s) {
  for (uint32_t id = (uint32_t)s->function->insns.count; id-- > 0;) {
    const struct ts_insn *insn = &s->function->insns.data[id];
    if (!s->is_executed[id] && is_effect_needed(slicer, s, insn)) execute(slicer, s, id);
  }
}

static void need_roots(struct slicer *slicer, struct launch_slice *s) {
  for (uint32_t id = 0; id < s->function->insns.count; id++) {
    const struct ts_insn *insn = &s->function->insns.data[id];
    uint32_t roots = ts_slice_roots(insn);
    for (uint32_t i = 0; i < insn->operand_count; i++)
      if (roots >> i & 1) need_operand(slicer, s, ts_insn_operand(s->function, insn, i));
  }
}

/* --- life */

static bool start_launch(struct launch_slice *s, const struct ts_module *module,
                         const struct ts_launch *launch, struct ts_arena *arena) {
  s->launch = launch;
  s->function = ts_module_find(module, launch->function);
  if (!s->function) return true;
  s->is_executed = ts_new_array(arena, bool, s->function->insns.count + 1);
  s->needs_reg = ts_new_array(arena, bool, s->function->regs.count + 1);
  s->needs_array = ts_new_array(arena, bool, s->function->arrays.count + 1);
  s->points_to = ts_new_array(arena, uint64_t, s->function->regs.count + 1);
  return s->is_executed && s->needs_reg && s->needs_array && s->points_to;
}

static void find(struct slicer *slicer) {
  for (uint32_t i = 0; i < slicer->plan->launch_count; i++) {
    struct launch_slice *s = &slicer->launches[i];
    if (!s->function) continue;
    find_pointers(s);
    need_roots(slicer, s);
  }
  do {
    slicer->has_changed = false;
    for (uint32_t i = 0; i < slicer->plan->launch_count; i++)
      if (slicer->launches[i].function) close_launch(slicer, &slicer->launches[i]);
  } while (slicer->has_changed && !slicer->out_of_memory);
}

/* Addresses of the tensors that are needed; of all arguments when nobody knows which. */
static enum ts_status list_tensors(struct ts_ctx *ctx, struct slicer *slicer,
                                   struct ts_arena *arena, const uint64_t **tensors,
                                   uint32_t *tensor_count) {
  for (uint32_t i = 0; slicer->needs_all_tensors && i < slicer->plan->launch_count; i++) {
    const struct launch_slice *s = &slicer->launches[i];
    slicer->needs_all_tensors = false;
    for (uint32_t k = 0; k < s->launch->arg_count; k++)
      need_tensor(slicer, tensor_of_param(slicer, s, k));
    slicer->needs_all_tensors = true;
  }
  uint64_t *list = ts_new_array(arena, uint64_t, slicer->tensors.count + 1);
  if (!list || slicer->out_of_memory) return ts_fail_memory(ctx);
  for (size_t i = 0; i < slicer->tensors.count; i++)
    list[i] = slicer->tensors.data[i] << TS_SLICE_TENSOR_SHIFT;
  *tensors = list;
  *tensor_count = (uint32_t)slicer->tensors.count;
  return TS_OK;
}

static enum ts_status slice(struct ts_ctx *ctx, struct slicer *slicer,
                            const struct ts_module *module, struct ts_arena *arena,
                            struct ts_slice *slices) {
  uint32_t count = slicer->plan->launch_count;
  slicer->launches = ts_new_array(arena, struct launch_slice, count + 1);
  if (!slicer->launches || !slices) return ts_fail_memory(ctx);
  for (uint32_t i = 0; i < count; i++)
    if (!start_launch(&slicer->launches[i], module, &slicer->plan->launches[i], arena))
      return ts_fail_memory(ctx);
  find(slicer);
  for (uint32_t i = 0; i < count; i++) {
    const struct launch_slice *s = &slicer->launches[i];
    slices[i] = (struct ts_slice){s->is_executed, s->depends_on_data, s->depends_on_results,
                                  s->depends_on_atomics};
  }
  return TS_OK;
}

enum ts_status ts_slice_plan(struct ts_ctx *ctx, const struct ts_module *module,
                             const struct ts_launch_plan *plan, struct ts_arena *arena,
                             struct ts_slice **slices, const uint64_t **tensors,
                             uint32_t *tensor_count) {
  struct slicer slicer = {.plan = plan, .allocator = ctx->allocator};
  *slices = ts_new_array(arena, struct ts_slice, plan->launch_count + 1);
  enum ts_status status = slice(ctx, &slicer, module, arena, *slices);
  if (status == TS_OK) status = list_tensors(ctx, &slicer, arena, tensors, tensor_count);
  ts_vec_free(&slicer.tensors, ctx->allocator);
  return status;
}
