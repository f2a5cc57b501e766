/* Mutation test of the hazard checks: takes correct cases, removes or changes one barrier, wait,
 * fence, count, offset or swizzle at a time, and asks whether `check` tells when results change.
 *
 *   mutate [--all] [--least PERCENT] CASE...
 *
 * A mutant counts when it changes the outputs, or the end of the run, under one of the schedules
 * eager, lazy, random:1.. and last: of the first warps. It is reported when a checked run of one of
 * those schedules finds a hazard; remarks do not count. Mutants are of two classes: those of
 * synchronisation and layout, and those of places (shared offsets, coordinates), which leave a
 * legal program that moves other data.
 *
 * Prints a line per case and class, with --all each mutant that went unreported, and in the end
 * lines that begin with "all": the sum, the classes, and each kind of mutation. Exit status 1 when
 * an unmutated case is reported, or of either class less than PERCENT (default 95) of the changing
 * mutants are. */
#include "front/tvm/tvm.h"
#include "interp/interp.h"
#include "num/num.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  MAX_TENSORS = 16,
  MAX_SCHEDULES = 16,
  RANDOM_SCHEDULES = 4,
  LAST_WARPS = 4,
  MAX_INSNS = 2000000,
  LEAST_PERCENT = 95,
  FAR_BYTES = 128, /* a row of most tiles, and */
  NEAR_BYTES = 16  /* a chunk of one */
};

struct subject {
  const char *folder;
  struct ts_ctx ctx;
  struct ts_diag_list diags;
  struct ts_tvm_case *tvm;
  struct ts_machine machine;
  struct ts_arena arena;
  struct ts_launch_plan plan;
  struct ts_tvm_argument arguments[MAX_TENSORS];
  uint32_t argument_count;
  uint64_t bytes[MAX_TENSORS];
  uint8_t *expected; /* all tensors after a run of the unmutated case */
  uint64_t image_bytes;
};

/* A change of one number of the kernel. */
enum mutation_kind {
  DROP,
  BARRIER_NUMBER,
  BARRIER_COUNT,
  ARRIVALS_MORE,
  ARRIVALS_LESS,
  PARITY_0,
  PARITY_1,
  BYTES_TWICE,
  BYTES_LESS,
  WAIT_MORE,
  OFFSET_FAR,
  OFFSET_NEAR,
  SWIZZLE_NONE,
  SWIZZLE_OTHER,
  COORDINATE_0,
  COORDINATE_1,
  COORDINATE_2,
  COORDINATE_3,
  KIND_COUNT
};
static const char *const kind_texts[KIND_COUNT] = {
    "drop",           "barrier number", "barrier count", "arrivals + 1",  "arrivals - 1",
    "parity 0",       "parity 1",       "bytes x 2",     "bytes - 16",    "wait for less",
    "offset + 128",   "offset + 16",    "swizzle none",  "other swizzle", "1st coordinate",
    "2nd coordinate", "3rd coordinate", "4th coordinate"};

enum mutation_class { SYNC, PLACE, CLASS_COUNT };
static const char *const class_texts[CLASS_COUNT] = {"sync", "place"};

static bool is_coordinate(enum mutation_kind kind) { return kind >= COORDINATE_0; }

static bool is_offset(enum mutation_kind kind) { return kind == OFFSET_FAR || kind == OFFSET_NEAR; }

static enum mutation_class class_of(enum mutation_kind kind) {
  return is_offset(kind) || is_coordinate(kind) ? PLACE : SYNC;
}

struct mutation {
  enum mutation_kind kind;
  uint32_t function, insn; /* or insn: tensor map of the plan */
};

struct score {
  unsigned mutants, changed, caught;
  unsigned caught_at_once; /* by the check of the eager schedule */
  unsigned caught_by_use;  /* only as data that is never used */
};

/* --- running */

static void fill(uint8_t *data, enum ts_dtype dtype, uint64_t size_bytes, uint32_t seed) {
  unsigned bits = ts_dtype_bits(dtype);
  if (!ts_dtype_is_float(dtype) || bits % 8) {
    for (uint64_t i = 0; i < size_bytes; i++)
      data[i] = (uint8_t)((i * 2654435761u + seed) >> 7) & 3;
    return;
  }
  for (uint64_t i = 0; i * bits / 8 < size_bytes; i++) {
    uint64_t z = (i + 1 + ((uint64_t)seed << 32)) * 0x9e3779b97f4a7c15u;
    z ^= z >> 29;
    float value = (float)((int)(z % 33) - 16) / 16;
    uint32_t encoding;
    memcpy(&encoding, &value, sizeof encoding);
    uint64_t out = ts_num_convert1(dtype, TS_DTYPE_f32, 0, encoding);
    memcpy(data + i * bits / 8, &out, bits / 8);
  }
}

static enum ts_status allocate(struct subject *s, struct ts_device_memory *memory) {
  for (uint32_t i = 0; i < s->argument_count; i++) {
    const struct ts_tvm_param *param = ts_tvm_param(s->tvm, i);
    if (!param->is_tensor) continue;
    struct ts_tensor_argument *tensor = &s->arguments[i].tensor;
    TS_TRY(ts_device_allocate(&s->ctx, memory, param->name, (enum ts_dtype)param->dtype,
                              s->bytes[i], &tensor->address));
    uint8_t *data = ts_device_pointer(memory, tensor->address, s->bytes[i]);
    if (param->is_read || !param->is_written)
      fill(data, (enum ts_dtype)param->dtype, s->bytes[i], i);
    memory->allocations.data[tensor->address >> TS_ADDRESS_SHIFT].is_unset =
        param->is_written && !param->is_read;
  }
  return TS_OK;
}

static enum ts_status run(struct subject *s, enum ts_schedule_kind schedule, uint64_t seed,
                          bool checks, uint8_t *image) {
  struct ts_device_memory memory;
  struct ts_run_stats stats;
  struct ts_run_options options = {.machine = &s->machine,
                                   .schedule = schedule,
                                   .seed = seed,
                                   .worker_count = 1,
                                   .sink = &ts_sink_null,
                                   .checks = checks,
                                   .max_insns_per_warp = MAX_INSNS};
  ts_diag_list_free(&s->diags);
  if (ts_diag_list_init(&s->diags, &ts_allocator_libc) != TS_OK) return TS_NO_MEMORY;
  ts_device_memory_init(&memory, &ts_allocator_libc);
  enum ts_status status = allocate(s, &memory);
  if (status == TS_OK)
    status = ts_interp_run(&s->ctx, ts_tvm_module(s->tvm), &s->plan, &memory, &options, &stats);
  for (uint32_t i = 0; image && i < s->argument_count; i++) {
    if (!ts_tvm_param(s->tvm, i)->is_tensor) continue;
    memcpy(image, ts_device_pointer(&memory, s->arguments[i].tensor.address, s->bytes[i]),
           (size_t)s->bytes[i]);
    image += s->bytes[i];
  }
  ts_device_memory_free(&memory);
  return status;
}

struct schedule {
  enum ts_schedule_kind kind;
  uint64_t seed;
};

static unsigned list_schedules(struct schedule list[MAX_SCHEDULES]) {
  unsigned count = 0;
  list[count++] = (struct schedule){TS_SCHEDULE_EAGER, 0};
  list[count++] = (struct schedule){TS_SCHEDULE_LAZY, 0};
  for (unsigned i = 1; i <= RANDOM_SCHEDULES; i++)
    list[count++] = (struct schedule){TS_SCHEDULE_RANDOM, i};
  for (unsigned i = 0; i < LAST_WARPS; i++)
    list[count++] = (struct schedule){TS_SCHEDULE_LAST, i};
  return count;
}

/* --- opening */

static bool size_tensors(struct subject *s) {
  for (uint32_t i = 0; i < s->argument_count; i++) {
    const struct ts_tvm_param *param = ts_tvm_param(s->tvm, i);
    if (!param->is_tensor) return false;
    uint64_t elements = 1;
    int64_t *strides = ts_new_array(&s->arena, int64_t, param->rank + 1u);
    if (!strides) return false;
    for (uint32_t d = param->rank; d-- > 0;) {
      if (param->shape[d] < 0) return false;
      strides[d] = (int64_t)elements;
      elements *= (uint64_t)param->shape[d];
    }
    s->bytes[i] = ts_dtype_packed_bytes((enum ts_dtype)param->dtype, (size_t)elements);
    s->image_bytes += s->bytes[i];
    s->arguments[i].tensor = (struct ts_tensor_argument){.name = param->name,
                                                         .dtype = param->dtype,
                                                         .rank = param->rank,
                                                         .shape = param->shape,
                                                         .strides = strides};
  }
  return true;
}

static bool open_subject(struct subject *s, const char *folder) {
  memset(s, 0, sizeof *s);
  s->folder = folder;
  s->ctx = (struct ts_ctx){&ts_allocator_libc, &s->diags};
  struct ts_tvm_options options = {.fast_math = false};
  ts_arena_init(&s->arena, &ts_allocator_libc);
  ts_machine_default(&s->machine);
  if (ts_diag_list_init(&s->diags, &ts_allocator_libc) != TS_OK) return false;
  if (ts_tvm_open(&s->ctx, folder, &options, &s->tvm) != TS_OK) return false;
  s->argument_count = ts_tvm_param_count(s->tvm);
  if (s->argument_count > MAX_TENSORS || !size_tensors(s)) return false;
  struct ts_device_memory memory;
  ts_device_memory_init(&memory, &ts_allocator_libc);
  enum ts_status status = allocate(s, &memory); /* addresses repeat in every run */
  if (status == TS_OK)
    status = ts_tvm_plan(&s->ctx, s->tvm, s->arguments, s->argument_count, &s->arena, &s->plan);
  ts_device_memory_free(&memory);
  s->expected = malloc((size_t)s->image_bytes + 1);
  return status == TS_OK && s->expected;
}

static void close_subject(struct subject *s) {
  free(s->expected);
  ts_tvm_close(s->tvm);
  ts_arena_free(&s->arena);
  ts_diag_list_free(&s->diags);
}

/* --- mutations */

/* What was there before. */
struct saved {
  struct ts_insn insn;
  struct ts_operand operand;
  uint32_t operand_index;
  struct ts_attr attr;
  uint32_t attr_index, swizzle;
};

static struct ts_function *function_at(const struct subject *s, uint32_t i) {
  return ts_tvm_module(s->tvm)->functions.data[i];
}

/* The operand with the number that the mutation changes. */
static uint32_t operand_of(enum mutation_kind kind, const struct ts_insn *insn) {
  switch (kind) {
  case BARRIER_COUNT:
  case ARRIVALS_MORE:
  case ARRIVALS_LESS:
  case PARITY_0:
  case PARITY_1:
  case BYTES_TWICE:
  case BYTES_LESS: return 1;
  case COORDINATE_0:
  case COORDINATE_1:
  case COORDINATE_2:
  case COORDINATE_3: return (insn->op == TS_OP_tma_store ? 2 : 3) + (uint32_t)(kind - COORDINATE_0);
  default: return 0;
  }
}

static uint64_t changed_number(enum mutation_kind kind, uint64_t old) {
  switch (kind) {
  case BARRIER_NUMBER: return (old + 1) % 16;
  case BARRIER_COUNT: return old ? old + 32 : 32;
  case ARRIVALS_MORE: return old + 1;
  case ARRIVALS_LESS: return old - 1;
  case PARITY_1: return 1;
  case BYTES_TWICE: return old * 2;
  case BYTES_LESS: return old - 16;
  case WAIT_MORE: return old + 1;
  default: return 0;
  }
}

static bool is_number(const struct ts_function *function, const struct ts_insn *insn, uint32_t i,
                      uint64_t *value) {
  if (i >= insn->operand_count) return false;
  const struct ts_operand *operand = ts_insn_operand(function, insn, i);
  if (operand->kind != TS_OPERAND_IMM) return false;
  *value = function->constants.data[operand->index];
  return true;
}

static bool accesses_shared(uint16_t op) {
  return op == TS_OP_ld_shared || op == TS_OP_st_shared || op == TS_OP_ldmatrix ||
         op == TS_OP_stmatrix || op == TS_OP_cp_async;
}

/* Whether the mutation makes sense for the instruction and is not what is there already. */
static bool applies(const struct ts_function *function, uint32_t id, enum mutation_kind kind) {
  const struct ts_insn *insn = &function->insns.data[id];
  uint64_t value = 0;
  bool has_value = is_number(function, insn, operand_of(kind, insn), &value);
  switch (kind) {
  case DROP:
    switch (insn->op) {
    case TS_OP_bar_sync:
    case TS_OP_bar_arrive:
    case TS_OP_mbarrier_arrive:
    case TS_OP_mbarrier_arrive_expect_tx:
    case TS_OP_mbarrier_expect_tx:
    case TS_OP_mbarrier_wait:
    case TS_OP_mbarrier_init:
    case TS_OP_fence_proxy_async:
    case TS_OP_cp_async_commit:
    case TS_OP_cp_async_wait:
    case TS_OP_cp_async_mbarrier:
    case TS_OP_wgmma_fence:
    case TS_OP_wgmma_commit:
    case TS_OP_wgmma_wait:
    case TS_OP_bulk_commit:
    case TS_OP_bulk_wait: return true;
    default: return false;
    }
  case BARRIER_NUMBER:
  case BARRIER_COUNT:
    return has_value && (insn->op == TS_OP_bar_sync || insn->op == TS_OP_bar_arrive);
  case ARRIVALS_MORE: return has_value && insn->op == TS_OP_mbarrier_init;
  case ARRIVALS_LESS: return has_value && value > 1 && insn->op == TS_OP_mbarrier_init;
  case PARITY_0:
  case PARITY_1:
    return insn->op == TS_OP_mbarrier_wait && !(has_value && value == (kind == PARITY_1));
  case BYTES_TWICE:
  case BYTES_LESS:
    return has_value && value >= 32 &&
           (insn->op == TS_OP_mbarrier_expect_tx || insn->op == TS_OP_mbarrier_arrive_expect_tx);
  case WAIT_MORE:
    return has_value && (insn->op == TS_OP_cp_async_wait || insn->op == TS_OP_wgmma_wait ||
                         insn->op == TS_OP_bulk_wait);
  case OFFSET_FAR:
  case OFFSET_NEAR: return accesses_shared(insn->op);
  case COORDINATE_0:
  case COORDINATE_1:
  case COORDINATE_2:
  case COORDINATE_3:
    return !has_value && operand_of(kind, insn) < insn->operand_count &&
           (insn->op == TS_OP_tma_load || insn->op == TS_OP_tma_store);
  default: return false;
  }
}

static bool set_operand(struct subject *s, struct ts_function *function, const struct ts_insn *insn,
                        enum mutation_kind kind, struct saved *saved) {
  uint32_t i = operand_of(kind, insn);
  uint64_t old = 0;
  is_number(function, insn, i, &old);
  saved->operand_index = insn->operands + i;
  saved->operand = function->operands.data[saved->operand_index];
  if (ts_vec_push(&function->constants, s->ctx.allocator, changed_number(kind, old))) return false;
  function->operands.data[saved->operand_index] =
      (struct ts_operand){TS_OPERAND_IMM, (uint32_t)function->constants.count - 1};
  return true;
}

static bool set_offset(const struct ts_function *function, const struct ts_insn *insn,
                       int64_t shift_bytes, struct saved *saved) {
  uint16_t offset = insn->op == TS_OP_cp_async ? TS_ATTR_offset2 : TS_ATTR_offset;
  for (uint32_t i = insn->attrs; i < insn->attrs + insn->attr_count; i++) {
    if (function->attrs.data[i].id != offset) continue;
    saved->attr_index = i;
    saved->attr = function->attrs.data[i];
    function->attrs.data[i].value += shift_bytes;
    return true;
  }
  return false;
}

static bool apply(struct subject *s, const struct mutation *m, struct saved *saved) {
  *saved = (struct saved){.operand_index = UINT32_MAX, .attr_index = UINT32_MAX};
  if (m->kind == SWIZZLE_NONE || m->kind == SWIZZLE_OTHER) {
    struct ts_tensormap *map = &s->plan.tensormaps[m->insn];
    saved->swizzle = map->swizzle;
    map->swizzle = m->kind == SWIZZLE_NONE ? 0 : (map->swizzle == 3 ? 2 : map->swizzle + 1);
    return saved->swizzle != map->swizzle;
  }
  struct ts_function *function = function_at(s, m->function);
  struct ts_insn *insn = &function->insns.data[m->insn];
  saved->insn = *insn;
  if (is_offset(m->kind))
    return set_offset(function, insn, m->kind == OFFSET_FAR ? FAR_BYTES : NEAR_BYTES, saved);
  if (m->kind != DROP) return set_operand(s, function, insn, m->kind, saved);
  insn->op = TS_OP_fence; /* of the block: nothing */
  insn->operand_count = insn->attr_count = 0;
  return true;
}

static void revert(struct subject *s, const struct mutation *m, const struct saved *saved) {
  if (m->kind == SWIZZLE_NONE || m->kind == SWIZZLE_OTHER) {
    s->plan.tensormaps[m->insn].swizzle = saved->swizzle;
    return;
  }
  struct ts_function *function = function_at(s, m->function);
  function->insns.data[m->insn] = saved->insn;
  if (saved->operand_index != UINT32_MAX)
    function->operands.data[saved->operand_index] = saved->operand;
  if (saved->attr_index != UINT32_MAX) function->attrs.data[saved->attr_index] = saved->attr;
}

/* --- judging */

static bool is_reported(enum ts_status status) {
  return status == TS_HAZARD || status == TS_DEADLOCK || status == TS_TRAP;
}

/* Whether the last run reported a hazard of another kind than unused data. */
static bool has_other_hazard(const struct subject *s) {
  for (size_t i = 0; i < s->diags.items.count; i++) {
    enum ts_diag_code code = s->diags.items.data[i].code;
    if (ts_diag_severity(code) == TS_SEVERITY_HAZARD && code != TS_DIAG_UNUSED_SHARED &&
        code != TS_DIAG_UNUSED_TENSOR)
      return true;
  }
  return false;
}

static void print_unreported(const struct subject *s, const struct mutation *m) {
  const struct ts_function *function = function_at(s, m->function);
  bool is_map = m->kind == SWIZZLE_NONE || m->kind == SWIZZLE_OTHER;
  struct ts_source_place place = ts_insn_place(function, is_map ? 0 : m->insn);
  printf("  unreported: %s of %s %u (%s:%u)\n", kind_texts[m->kind],
         is_map ? "tensor map" : ts_op_info((enum ts_op)function->insns.data[m->insn].op)->mnemonic,
         m->insn, place.file ? place.file : "?", place.line);
}

static void try_mutation(struct subject *s, const struct mutation *m, bool shows,
                         struct score *score, uint8_t *image) {
  struct saved saved;
  struct schedule schedules[MAX_SCHEDULES];
  unsigned count = list_schedules(schedules);
  bool changes = false, is_caught = false, by_use = true;
  if (!apply(s, m, &saved)) {
    revert(s, m, &saved);
    return;
  }
  for (unsigned i = 0; i < count && !changes; i++) {
    enum ts_status status = run(s, schedules[i].kind, schedules[i].seed, false, image);
    changes = (status != TS_OK && status != TS_HAZARD) ||
              memcmp(image, s->expected, (size_t)s->image_bytes) != 0;
  }
  for (unsigned i = 0; changes && i < count && !is_caught; i++) {
    is_caught = is_reported(run(s, schedules[i].kind, schedules[i].seed, true, NULL));
    score->caught_at_once += is_caught && i == 0;
    by_use = is_caught && !has_other_hazard(s);
  }
  score->mutants++;
  score->changed += changes;
  score->caught += changes && is_caught;
  score->caught_by_use += changes && is_caught && by_use;
  if (shows && changes && !is_caught) print_unreported(s, m);
  revert(s, m, &saved);
}

static struct score sum(const struct score scores[KIND_COUNT], enum mutation_class which) {
  struct score total = {0};
  for (int kind = 0; kind < KIND_COUNT; kind++) {
    if (which != CLASS_COUNT && class_of((enum mutation_kind)kind) != which) continue;
    total.mutants += scores[kind].mutants;
    total.changed += scores[kind].changed;
    total.caught += scores[kind].caught;
    total.caught_at_once += scores[kind].caught_at_once;
    total.caught_by_use += scores[kind].caught_by_use;
  }
  return total;
}

static void print_score(const char *folder, const char *what, const struct score *score) {
  const char *slash = strrchr(folder, '/');
  printf("%-24s %-14s %5u mutants, %5u change results, %5u reported (%5u by the eager check, %5u "
         "only as unused data)\n",
         slash ? slash + 1 : folder, what, score->mutants, score->changed, score->caught,
         score->caught_at_once, score->caught_by_use);
  fflush(stdout);
}

static void mutate_all(struct subject *s, bool shows, struct score scores[KIND_COUNT],
                       uint8_t *image) {
  for (uint32_t f = 0; f < ts_tvm_module(s->tvm)->functions.count; f++)
    for (uint32_t i = 0; i < function_at(s, f)->insns.count; i++)
      for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct mutation m = {(enum mutation_kind)kind, f, i};
        if (applies(function_at(s, f), i, m.kind)) try_mutation(s, &m, shows, &scores[kind], image);
      }
  for (uint32_t i = 0; i < s->plan.tensormap_count; i++)
    for (int kind = SWIZZLE_NONE; kind <= SWIZZLE_OTHER; kind++)
      try_mutation(s, &(struct mutation){(enum mutation_kind)kind, 0, i}, shows, &scores[kind],
                   image);
}

/* False when the unmutated case is reported or cannot be run. */
static bool mutate_case(const char *folder, bool shows, struct score totals[KIND_COUNT]) {
  struct subject s;
  struct score scores[KIND_COUNT] = {{0}};
  if (!open_subject(&s, folder)) {
    fprintf(stderr, "mutate: %s cannot be opened: %s\n", folder,
            s.diags.items.count ? s.diags.items.data[0].message : "it needs arguments");
    return false;
  }
  uint8_t *image = malloc((size_t)s.image_bytes + 1);
  bool is_fine = image && run(&s, TS_SCHEDULE_EAGER, 0, true, s.expected) == TS_OK;
  if (!is_fine)
    fprintf(stderr, "mutate: %s is reported unmutated: %s\n", folder,
            s.diags.items.count ? s.diags.items.data[0].message : "?");
  if (is_fine) mutate_all(&s, shows, scores, image);
  for (int k = 0; is_fine && k < CLASS_COUNT; k++) {
    struct score score = sum(scores, (enum mutation_class)k);
    if (score.mutants) print_score(folder, class_texts[k], &score);
  }
  for (int kind = 0; kind < KIND_COUNT; kind++) {
    struct score both[KIND_COUNT] = {[0] = totals[kind], [1] = scores[kind]};
    totals[kind] = sum(both, CLASS_COUNT);
  }
  free(image);
  close_subject(&s);
  return is_fine;
}

int main(int argc, char **argv) {
  struct score totals[KIND_COUNT] = {{0}};
  bool is_fine = true, shows = false;
  unsigned least = LEAST_PERCENT;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--all") == 0)
      shows = true;
    else if (strcmp(argv[i], "--least") == 0 && i + 1 < argc)
      least = (unsigned)strtoul(argv[++i], NULL, 10);
    else
      is_fine = mutate_case(argv[i], shows, totals) && is_fine;
  }
  struct score total = sum(totals, CLASS_COUNT);
  print_score("all", "mutations", &total);
  for (int k = 0; k < CLASS_COUNT; k++) {
    struct score score = sum(totals, (enum mutation_class)k);
    print_score("all", class_texts[k], &score);
    if (score.caught * 100 < score.changed * least) is_fine = false;
  }
  for (int kind = 0; kind < KIND_COUNT; kind++)
    if (totals[kind].mutants) print_score("all", kind_texts[kind], &totals[kind]);
  return is_fine ? 0 : 1;
}
