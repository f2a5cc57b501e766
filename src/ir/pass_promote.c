/* Local arrays and variables, seen through.
 *
 * Within a block, what was stored at a constant place of an array, or assigned to a variable, is
 * used directly. Arrays that are only read and written at constant places, each place always as one
 * dtype, become variables: one for a group of elements that is always accessed as a whole, one for
 * each element otherwise. A variable is assigned by the active lanes only, as an array element is,
 * so divergence changes nothing. */
#include "ir/ir_priv.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PROMOTED_ELEMENTS = 4096 };

/* A constant access, in bits of the array. */
struct access {
  uint32_t array;
  uint64_t first_bit, bit_count;
  struct ts_type type;
};

/* A group of elements that became one variable. */
struct place {
  uint64_t first_bit;
  struct ts_type type;
  uint32_t reg;
};

/* What an element of an array is known to hold: a component of an operand. */
struct known {
  struct ts_operand operand;
  uint32_t component;
  uint8_t dtype;
  uint64_t since; /* clock; 0 = unknown */
};

struct array_info {
  bool is_promoted;
  uint32_t unit_bits; /* of a known[] entry; 0 when no constant access exists */
  size_t first_known; /* in known */
  size_t first_place, place_count;
  uint64_t unknown_since; /* clock of the last access that may have changed anything */
};

struct promotion {
  struct ts__rewrite rw;
  struct array_info *arrays;
  struct access *accesses;
  size_t access_count;
  struct known *known;
  TS_VEC(struct place) places;
  struct known *variables; /* by register */
  size_t variable_count;
  uint64_t clock, block_since;
};

/* --- which arrays */

static bool is_local_access(const struct ts_insn *insn) {
  return insn->op == TS_OP_ld_local || insn->op == TS_OP_st_local;
}

/* True for a constant access inside the array, with elements of a power of two of bits. */
static bool constant_access(const struct ts_function *function, const struct ts_insn *insn,
                            struct access *access) {
  const struct ts_operand *operands = ts_insn_operand(function, insn, 0);
  uint64_t bits = ts_dtype_bits((enum ts_dtype)insn->dtype);
  if (operands[1].kind != TS_OPERAND_IMM || (bits & (bits - 1))) return false;
  uint64_t index = function->constants.data[operands[1].index];
  const struct ts_array *array = &function->arrays.data[operands[0].index];
  uint64_t size_bits = ts_dtype_packed_bytes((enum ts_dtype)array->dtype, array->elem_count) * 8;
  *access = (struct access){
      operands[0].index, index * bits, bits * insn->lanes, {insn->dtype, insn->lanes}};
  return index <= size_bits && access->first_bit + access->bit_count <= size_bits;
}

static void note_access(struct promotion *p, const struct ts_insn *insn) {
  struct access access;
  if (!constant_access(p->rw.function, insn, &access)) {
    p->arrays[ts_insn_operand(p->rw.function, insn, 0)->index].is_promoted = false;
    return;
  }
  struct array_info *array = &p->arrays[access.array];
  uint32_t bits = ts_dtype_bits((enum ts_dtype)access.type.dtype);
  if (!array->unit_bits || bits < array->unit_bits) array->unit_bits = bits;
  p->accesses[p->access_count++] = access;
}

static void note_accesses(struct promotion *p) {
  const struct ts_function *function = p->rw.function;
  for (size_t i = 0; i < function->arrays.count; i++)
    p->arrays[i].is_promoted = true;
  for (size_t i = 0; i < p->rw.old_count; i++) {
    const struct ts_insn *insn = &p->rw.old_insns[i];
    if (is_local_access(insn)) {
      note_access(p, insn);
      continue;
    }
    for (uint32_t k = 0; k < insn->operand_count; k++) {
      const struct ts_operand *operand = ts_insn_operand(function, insn, k);
      if (operand->kind == TS_OPERAND_ARRAY) p->arrays[operand->index].is_promoted = false;
    }
  }
}

static int compare_accesses(const void *a_void, const void *b_void) {
  const struct access *a = a_void, *b = b_void;
  if (a->array != b->array) return a->array < b->array ? -1 : 1;
  if (a->first_bit != b->first_bit) return a->first_bit < b->first_bit ? -1 : 1;
  if (a->bit_count != b->bit_count) return a->bit_count < b->bit_count ? -1 : 1;
  return a->type.dtype < b->type.dtype ? -1 : a->type.dtype > b->type.dtype;
}

static void add_place(struct promotion *p, struct array_info *array, uint64_t first_bit,
                      struct ts_type type) {
  struct place place = {first_bit, type, ts__rewrite_variable(&p->rw, type)};
  if (p->rw.status != TS_OK) return;
  if (ts_vec_push(&p->places, p->rw.function->module->allocator, place))
    p->rw.status = ts_fail_memory(p->rw.ctx);
  else
    array->place_count++;
}

/* Accesses [first, last) overlap in one chain that ends at end_bit. */
static void place_group(struct promotion *p, struct array_info *array, size_t first, size_t last,
                        uint64_t end_bit) {
  const struct access *a = &p->accesses[first];
  bool is_whole = true;
  for (size_t i = first; i < last; i++)
    is_whole &=
        p->accesses[i].first_bit == a->first_bit && p->accesses[i].bit_count == a->bit_count;
  if (is_whole) {
    add_place(p, array, a->first_bit, a->type);
    return;
  }
  uint64_t bits = ts_dtype_bits((enum ts_dtype)a->type.dtype);
  for (uint64_t bit = a->first_bit; bit < end_bit; bit += bits)
    add_place(p, array, bit, (struct ts_type){a->type.dtype, 1});
}

/* End of the chain of overlapping accesses of one array that starts at first. */
static size_t chain_end(const struct promotion *p, size_t first, uint64_t *end_bit,
                        bool *has_one_dtype) {
  const struct access *a = p->accesses;
  size_t i = first;
  *end_bit = a[first].first_bit;
  *has_one_dtype = true;
  for (; i < p->access_count && a[i].array == a[first].array &&
         (i == first || a[i].first_bit < *end_bit);
       i++) {
    uint64_t end = a[i].first_bit + a[i].bit_count;
    if (end > *end_bit) *end_bit = end;
    *has_one_dtype &= a[i].type.dtype == a[first].type.dtype;
  }
  return i;
}

/* accesses are sorted; [first, last) are those of one array. */
static void place_array(struct promotion *p, struct array_info *array, size_t first, size_t last) {
  uint64_t end_bit, element_count = 0;
  bool has_one_dtype;
  for (size_t i = first; i < last;) {
    uint64_t bits = ts_dtype_bits((enum ts_dtype)p->accesses[i].type.dtype);
    uint64_t first_bit = p->accesses[i].first_bit;
    i = chain_end(p, i, &end_bit, &has_one_dtype);
    element_count += (end_bit - first_bit) / bits;
    if (!has_one_dtype || element_count > MAX_PROMOTED_ELEMENTS) array->is_promoted = false;
  }
  array->first_place = p->places.count;
  for (size_t i = first; i < last && array->is_promoted;) {
    size_t next = chain_end(p, i, &end_bit, &has_one_dtype);
    place_group(p, array, i, next, end_bit);
    i = next;
  }
}

static void place_arrays(struct promotion *p) {
  qsort(p->accesses, p->access_count, sizeof *p->accesses, compare_accesses);
  for (size_t first = 0; first < p->access_count;) {
    size_t last = first;
    while (last < p->access_count && p->accesses[last].array == p->accesses[first].array)
      last++;
    place_array(p, &p->arrays[p->accesses[first].array], first, last);
    first = last;
  }
}

static bool allocate(struct promotion *p) {
  struct ts_function *function = p->rw.function;
  size_t known_count = 0;
  for (size_t i = 0; i < function->arrays.count; i++) {
    struct array_info *array = &p->arrays[i];
    const struct ts_array *declared = &function->arrays.data[i];
    array->first_known = known_count;
    if (!array->unit_bits) continue;
    uint64_t bytes = ts_dtype_packed_bytes((enum ts_dtype)declared->dtype, declared->elem_count);
    known_count += (size_t)(bytes * 8 / array->unit_bits);
  }
  p->variable_count = function->regs.count;
  p->known = ts_new_array(&p->rw.arena, struct known, known_count);
  p->variables = ts_new_array(&p->rw.arena, struct known, p->variable_count);
  return p->known && p->variables;
}

/* --- what elements hold */

static const struct place *find_place(const struct promotion *p, const struct array_info *array,
                                      uint64_t first_bit) {
  const struct place *places = p->places.data + array->first_place;
  size_t low = 0, high = array->place_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (places[middle].first_bit < first_bit)
      low = middle + 1;
    else
      high = middle;
  }
  return &places[low];
}

static bool is_valid(const struct promotion *p, const struct array_info *array,
                     const struct known *known) {
  return known->since > p->block_since && known->since > array->unknown_since;
}

static struct known *known_at(const struct promotion *p, const struct array_info *array,
                              uint64_t bit) {
  return &p->known[array->first_known + (size_t)(bit / array->unit_bits)];
}

static void remember(struct promotion *p, const struct access *access, struct ts_operand value) {
  struct array_info *array = &p->arrays[access->array];
  uint32_t bits = ts_dtype_bits((enum ts_dtype)access->type.dtype);
  bool is_stable = ts__rewrite_is_stable(&p->rw, value);
  p->clock++;
  for (uint64_t bit = 0; bit < access->bit_count; bit += array->unit_bits) {
    struct known *known = known_at(p, array, access->first_bit + bit);
    *known = (struct known){value, (uint32_t)(bit / bits), access->type.dtype, p->clock};
    if (!is_stable || bit % bits) known->since = 0; /* the middle of an element says nothing */
  }
  /* An element that began before and reached in here is no longer whole. */
  for (uint64_t back = array->unit_bits; back <= 64 && back <= access->first_bit;
       back += array->unit_bits) {
    struct known *known = known_at(p, array, access->first_bit - back);
    if (known->since && ts_dtype_bits((enum ts_dtype)known->dtype) > back) known->since = 0;
  }
}

/* The value of the access from what is known, component by component. */
static bool recall(struct promotion *p, const struct access *access, struct ts_operand *value) {
  struct array_info *array = &p->arrays[access->array];
  struct ts_operand parts[TS_MAX_VECTOR_LANES];
  uint32_t bits = ts_dtype_bits((enum ts_dtype)access->type.dtype), lanes = access->type.lanes;
  bool is_whole = true;
  const struct known *first = known_at(p, array, access->first_bit);
  for (uint32_t i = 0; i < lanes; i++) {
    const struct known *known = known_at(p, array, access->first_bit + (uint64_t)i * bits);
    if (!is_valid(p, array, known) || known->dtype != access->type.dtype) return false;
    is_whole &= known->operand.kind == first->operand.kind &&
                known->operand.index == first->operand.index && known->component == i;
  }
  *value = first->operand;
  if (first->operand.kind != TS_OPERAND_REG && is_whole) return true;
  if (is_whole && p->rw.function->regs.data[first->operand.index].type.lanes == lanes) return true;
  for (uint32_t i = 0; i < lanes; i++) {
    const struct known *known = known_at(p, array, access->first_bit + (uint64_t)i * bits);
    parts[i] = ts__rewrite_component(&p->rw, known->operand, access->type, known->component);
  }
  *value = ts__rewrite_gather(&p->rw, access->type, parts);
  return true;
}

/* --- instructions */

static void move(struct promotion *p, struct ts_type type, uint32_t dst, struct ts_operand value) {
  ts__rewrite_emit(&p->rw, TS_OP_mov, type, dst, &value, 1, NULL, 0);
}

static void store_promoted(struct promotion *p, const struct access *access,
                           struct ts_operand value) {
  const struct array_info *array = &p->arrays[access->array];
  const struct place *place = find_place(p, array, access->first_bit);
  if (place->type.lanes == access->type.lanes) {
    move(p, place->type, place->reg, value);
    return;
  }
  for (uint32_t i = 0; i < access->type.lanes; i++)
    move(p, place->type, place[i].reg, ts__rewrite_component(&p->rw, value, access->type, i));
}

static struct ts_operand load_promoted(struct promotion *p, const struct access *access) {
  const struct array_info *array = &p->arrays[access->array];
  const struct place *place = find_place(p, array, access->first_bit);
  struct ts_operand parts[TS_MAX_VECTOR_LANES];
  if (place->type.lanes == access->type.lanes)
    return (struct ts_operand){TS_OPERAND_REG, place->reg};
  for (uint32_t i = 0; i < access->type.lanes; i++)
    parts[i] = (struct ts_operand){TS_OPERAND_REG, place[i].reg};
  return ts__rewrite_gather(&p->rw, access->type, parts);
}

/* An access that is not at a constant place. */
static void access_anywhere(struct promotion *p, const struct ts_insn *insn) {
  struct ts_operand operands[TS_MAX_OPERANDS];
  ts__rewrite_operands(&p->rw, insn, operands);
  ts__rewrite_copy(&p->rw, insn, operands);
  if (insn->op == TS_OP_st_local) p->arrays[operands[0].index].unknown_since = ++p->clock;
}

static void do_store(struct promotion *p, const struct ts_insn *insn, const struct access *access) {
  struct ts_operand operands[TS_MAX_OPERANDS];
  ts__rewrite_operands(&p->rw, insn, operands);
  if (p->arrays[access->array].is_promoted)
    store_promoted(p, access, operands[2]);
  else
    ts__rewrite_copy(&p->rw, insn, operands);
  remember(p, access, operands[2]);
}

static void do_load(struct promotion *p, const struct ts_insn *insn, const struct access *access) {
  struct ts_operand operands[TS_MAX_OPERANDS], value;
  ts__rewrite_operands(&p->rw, insn, operands);
  if (recall(p, access, &value)) {
    move(p, access->type, insn->dst, value);
    ts__rewrite_replace(&p->rw, insn->dst, value);
    return;
  }
  value = (struct ts_operand){TS_OPERAND_REG, insn->dst};
  if (p->arrays[access->array].is_promoted) {
    struct ts_operand loaded = load_promoted(p, access);
    move(p, access->type, insn->dst, loaded);
    ts__rewrite_replace(&p->rw, insn->dst, loaded);
    if (ts__rewrite_is_stable(&p->rw, loaded)) value = loaded;
  } else {
    ts__rewrite_copy(&p->rw, insn, operands);
  }
  remember(p, access, value); /* until the next store */
}

/* Assignments of variables: reads in the same block see the value itself. */
static void note_assignment(struct promotion *p, const struct ts_insn *insn,
                            struct ts_operand value) {
  if (insn->dst == TS_NONE || insn->dst >= p->variable_count) return;
  if (p->rw.regs[insn->dst].def_count < 2) return;
  struct known *known = &p->variables[insn->dst];
  known->since = 0;
  if (insn->op != TS_OP_mov || insn->attr_count || !ts__rewrite_is_stable(&p->rw, value)) return;
  *known = (struct known){value, 0, insn->dtype, ++p->clock};
}

static void replace_variables(struct promotion *p, const struct ts_insn *insn,
                              struct ts_operand *operands) {
  for (uint32_t i = 0; i < insn->operand_count; i++) {
    if (operands[i].kind != TS_OPERAND_REG || operands[i].index >= p->variable_count) continue;
    const struct known *known = &p->variables[operands[i].index];
    if (known->since > p->block_since &&
        ts__rewrite_may_stand_for(&p->rw, insn, i, operands[i].index, known->operand))
      operands[i] = known->operand;
  }
}

static void do_other(struct promotion *p, const struct ts_insn *insn) {
  struct ts_operand operands[TS_MAX_OPERANDS];
  ts__rewrite_operands(&p->rw, insn, operands);
  replace_variables(p, insn, operands);
  for (uint32_t i = 0; i < insn->operand_count; i++)
    if (operands[i].kind == TS_OPERAND_ARRAY)
      p->arrays[operands[i].index].unknown_since = ++p->clock;
  struct ts_operand value = operands[0];
  if (insn->op == TS_OP_extract) {
    uint64_t i = p->rw.function->constants.data[operands[1].index];
    value =
        ts__rewrite_component(&p->rw, operands[0], (struct ts_type){insn->dtype, 1}, (uint32_t)i);
  }
  ts__rewrite_copy(&p->rw, insn, operands);
  bool is_move = insn->op == TS_OP_mov && !insn->attr_count;
  if (is_move || insn->op == TS_OP_extract) ts__rewrite_replace(&p->rw, insn->dst, value);
  note_assignment(p, insn, value);
}

static void do_insn(struct promotion *p, const struct ts_insn *insn) {
  struct access access;
  p->rw.place = insn->place;
  if (!is_local_access(insn))
    do_other(p, insn);
  else if (!constant_access(p->rw.function, insn, &access))
    access_anywhere(p, insn);
  else if (insn->op == TS_OP_st_local)
    do_store(p, insn, &access);
  else
    do_load(p, insn, &access);
}

static void do_function(struct promotion *p) {
  const struct ts_function *function = p->rw.function;
  for (uint32_t i = 0; i < function->blocks.count && p->rw.status == TS_OK; i++) {
    const struct ts_block *block = &function->blocks.data[i];
    p->rw.block = i;
    p->block_since = ++p->clock;
    for (uint32_t k = 0; k < block->insn_count; k++)
      do_insn(p, &p->rw.old_insns[block->first_insn + k]);
  }
}

/* Promoted arrays take no room any more. */
static void empty_arrays(struct promotion *p) {
  for (size_t i = 0; i < p->rw.function->arrays.count; i++) {
    if (!p->arrays[i].is_promoted) continue;
    p->rw.function->arrays.data[i].elem_count = 0;
    p->rw.function->arrays.data[i].size_bytes = 0;
  }
}

enum ts_status ts_pass_promote_arrays(struct ts_ctx *ctx, struct ts_function *function) {
  struct promotion p = {.clock = 1};
  TS_TRY(ts__rewrite_begin(&p.rw, ctx, function));
  p.arrays = ts_new_array(&p.rw.arena, struct array_info, function->arrays.count);
  p.accesses = ts_new_array(&p.rw.arena, struct access, p.rw.old_count);
  if (p.arrays && p.accesses) {
    note_accesses(&p);
    place_arrays(&p);
  }
  bool has_memory = p.arrays && p.accesses && allocate(&p);
  if (!has_memory && p.rw.status == TS_OK) p.rw.status = ts_fail_memory(ctx);
  if (p.rw.status == TS_OK) do_function(&p);
  if (p.rw.status == TS_OK) empty_arrays(&p);
  ts_vec_free(&p.places, function->module->allocator);
  return ts__rewrite_end(&p.rw);
}
