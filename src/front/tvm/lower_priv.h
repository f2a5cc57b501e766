/* Inside the lowering of device functions: from the TIR tree (tir.h) to IR through ir/build.h.
 *
 * One pass walks a function's tree and emits as it goes. Loops that nvcc would unroll are lowered
 * once per iteration with the loop variable bound to a constant. Errors are sticky: the first one is
 * reported with the kernel's source place, everything after it is harmless, and the entry returns
 * its status. Semantics follow the CUDA that TileLang generates from the same tree. */
#ifndef TS_FRONT_TVM_LOWER_PRIV_H
#define TS_FRONT_TVM_LOWER_PRIV_H

#include "front/tvm/tir.h"
#include "front/tvm/tvm.h"
#include "ir/build.h"

/* Lowers every function of the device module into the IR module. On failure the status is
 * TS_UNSUPPORTED (something the lowering does not know: named in ctx->diags with the function and
 * the kernel's source line), TS_BAD_INPUT (a malformed tree), TS_LIMIT or TS_NO_MEMORY. */
enum ts_status ts__tvm_lower_device(struct ts_ctx *ctx, const struct tir_module *device,
                                    const struct ts_tvm_options *options, struct ts_module *module);

/* A value: an operand and what an immediate cannot say itself. level and is_varying only guide
 * where sums are split: the innermost emitted loop whose iterations change the value (0: none), and
 * whether lanes may differ. */
struct ts__value {
  struct ts_operand operand;
  struct ts_type type; /* lanes 0: no value (statements) */
  uint32_t level;
  bool is_varying;
  bool is_mutable; /* the operand is a variable of the kernel: copy it to keep the value */
};

enum ts__storage_kind {
  TS__STORAGE_NONE,
  TS__STORAGE_GLOBAL,    /* operand: base pointer */
  TS__STORAGE_SHARED,    /* operand: shared object */
  TS__STORAGE_ARRAY,     /* index: local array */
  TS__STORAGE_VARIABLE,  /* operand: a variable of one element */
  TS__STORAGE_TENSORMAP, /* index: parameter */
  TS__STORAGE_RESULT     /* a descriptor: operand is its current value */
};

/* What a data variable (tir_buffer.data) names. Views share it. */
struct ts__storage {
  enum ts__storage_kind kind;
  uint32_t index;
  struct ts_operand operand;
  int64_t offset_bytes; /* of a view */
  struct ts_type type;  /* declared element */
  uint32_t nesting;     /* of control flow where it was allocated */
};

/* An element in memory: storage, and index * scale + offset. Of arrays and variables scale and
 * offset count elements, else bytes. */
struct ts__pointer {
  const struct ts__storage *storage;
  struct ts__value index;
  enum ts_dtype elem;
  int64_t scale, offset;
};

enum { TS__BLOCK_VARS = 8 };

struct ts__lower {
  struct ts_ctx *ctx;
  const struct tir_module *device;
  const struct tir_func *func;
  struct ts_module *module;
  struct ts_build *build;
  struct ts_arena *scratch; /* lives as long as the lowering of a function */
  enum ts_status status;
  bool fast_math;
  struct ts_source_place place;
  struct ts__value *vars;      /* by variable id; type.lanes 0: unbound */
  struct ts__value *counters;  /* by variable id: of an iteration whose copies are being lowered, */
  int64_t *distances;          /* and how much more this copy's variable is; 0: as in vars */
  struct ts__storage *storage; /* by variable id */
  const struct tir_var *block_vars[TS__BLOCK_VARS]; /* bound to blockIdx, and to which axis */
  uint8_t block_axes[TS__BLOCK_VARS];
  uint32_t block_var_count;
  uint32_t level;             /* emitted loops around the current point */
  uint32_t nesting;           /* emitted loops and ifs around it */
  uint32_t dynamic_count;     /* dynamic shared objects declared */
  struct ts__random *randoms; /* states of generators, lower_random.c */
  struct ts__random *random;  /* of the rng_init that was lowered last; NULL before */
  uint64_t step_count;        /* nodes lowered, unrolled ones counted each time */
};

/* Reports and makes the failure sticky. The message is prefixed with the function's name. */
void ts__lower_fail(struct ts__lower *lower, enum ts_status status, enum ts_diag_code code,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Counts a step of work; false, with a failure, when a function takes unreasonably many: trees may
 * share nodes, so that a short file can stand for a very large one. */
bool ts__lower_step(struct ts__lower *lower);
/* "main_kernel: WHAT is not supported", TS_UNSUPPORTED. */
void ts__lower_unknown(struct ts__lower *lower, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Offsets from the file wrap around as the device's do. */
static inline int64_t ts__wrap_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t ts__wrap_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* --- emitting (lower_emit.c) */
/* Attributes being collected. add leaves zeros out, which is what most readers fall back to; set is
 * for attributes that an instruction must have. */
struct ts__attrs {
  struct ts_attr items[16];
  uint32_t count;
};
void ts__attr_add(struct ts__attrs *attrs, enum ts_attr_id id, int64_t value);
void ts__attr_set(struct ts__attrs *attrs, enum ts_attr_id id, int64_t value);

struct ts_type ts__scalar_type(enum ts_dtype dtype);
/* Fails for void, and for more lanes than the IR holds. */
struct ts_type ts__lower_type(struct ts__lower *lower, struct tir_dtype dtype);

struct ts__value ts__value_imm(struct ts__lower *lower, struct ts_type type, int64_t value);
struct ts__value ts__value_encoding(struct ts__lower *lower, struct ts_type type,
                                    uint64_t encoding);
struct ts__value ts__value_float(struct ts__lower *lower, struct ts_type type, double value);
struct ts__value ts__value_none(void);
/* What an imm of the type stands for: the sign-extended integer. False for registers. */
bool ts__value_constant(const struct ts__lower *lower, struct ts__value value, int64_t *out);
bool ts__value_is(const struct ts__lower *lower, struct ts__value value, int64_t constant);

/* An instruction with any operands; its value has the type (comparisons: pred). */
struct ts__value ts__lower_emit(struct ts__lower *lower, enum ts_op op, struct ts_type type,
                                enum ts_dtype dtype2, const struct ts__value *operands,
                                uint32_t count, const struct ts__attrs *attrs);
/* The same for instructions with operands that are not values. */
struct ts_operand ts__lower_emit_raw(struct ts__lower *lower, enum ts_op op, struct ts_type type,
                                     enum ts_dtype dtype2, const struct ts_operand *operands,
                                     uint32_t count, const struct ts__attrs *attrs);
struct ts__value ts__lower_emit_1(struct ts__lower *lower, enum ts_op op, struct ts__value a);
/* Both operands have a's type, which is the type worked in. Fast-math attributes are added. */
struct ts__value ts__lower_emit_2(struct ts__lower *lower, enum ts_op op, struct ts__value a,
                                  struct ts__value b);
struct ts__value ts__lower_emit_select(struct ts__lower *lower, struct ts__value condition,
                                       struct ts__value a, struct ts__value b);
struct ts__value ts__lower_emit_convert(struct ts__lower *lower, enum ts_dtype dtype,
                                        struct ts__value value);
struct ts__value ts__lower_emit_broadcast(struct ts__lower *lower, struct ts__value value,
                                          uint32_t lanes);
struct ts__value ts__lower_emit_extract(struct ts__lower *lower, struct ts__value value,
                                        uint32_t index);
struct ts__value ts__lower_emit_concat(struct ts__lower *lower, const struct ts__value *parts,
                                       uint32_t count);
struct ts__value ts__lower_emit_sreg(struct ts__lower *lower, enum ts_sreg which);
/* A variable that starts as value, and its later assignments. */
struct ts__value ts__lower_emit_variable(struct ts__lower *lower, struct ts__value value,
                                         const char *name);
void ts__lower_emit_assign(struct ts__lower *lower, struct ts__value variable,
                           struct ts__value value);

/* --- expressions (lower_expr.c) */
struct ts__value ts__lower_expr(struct ts__lower *lower, const struct tir_expr *expr);
/* TVM's cast with the rounding and saturation that TileLang's CUDA has. */
struct ts__value ts__lower_cast(struct ts__lower *lower, struct ts__value value,
                                enum ts_dtype dtype);
/* condition ? a : b; arms that touch memory are evaluated only where they are chosen. */
struct ts__value ts__lower_choice(struct ts__lower *lower, const struct tir_expr *condition,
                                  const struct tir_expr *a, const struct tir_expr *b);
/* True when evaluating may fault or have effects: it must not be done speculatively. */
bool ts__lower_touches_memory(const struct ts__lower *lower, const struct tir_expr *expr);
/* A constant integer, or a failure that names what it is for. */
int64_t ts__lower_constant(struct ts__lower *lower, const struct tir_expr *expr, const char *what);
const char *ts__lower_string(struct ts__lower *lower, const struct tir_expr *expr,
                             const char *what);

/* --- memory (lower_access.c) */
/* An integer as *rest + *constant, the rest summed so that invariant parts can be hoisted. */
void ts__lower_sum(struct ts__lower *lower, const struct tir_expr *expr, struct ts__value *rest,
                   int64_t *constant);
struct ts__value ts__lower_load(struct ts__lower *lower, const struct tir_expr *load);
void ts__lower_store(struct ts__lower *lower, const struct tir_stmt *store);
/* Of a tvm_access_ptr, an address_of, a BufferLoad (its element) or a data variable. */
struct ts__pointer ts__lower_pointer(struct ts__lower *lower, const struct tir_expr *expr);
struct ts__value ts__lower_emit_load(struct ts__lower *lower, const struct ts__pointer *pointer,
                                     uint32_t lanes);
void ts__lower_emit_store(struct ts__lower *lower, const struct ts__pointer *pointer,
                          struct ts__value value);
/* The byte address as one operand: u32 in the shared window, or a global pointer. */
struct ts__value ts__lower_emit_address(struct ts__lower *lower, const struct ts__pointer *pointer);
/* Fails, naming the call, unless the pointer is of that kind. */
bool ts__pointer_expect(struct ts__lower *lower, const struct ts__pointer *pointer,
                        enum ts__storage_kind kind, const struct tir_expr *call);
/* Index of an array element in elements of the pointer's dtype. */
struct ts__value ts__lower_emit_array_index(struct ts__lower *lower,
                                            const struct ts__pointer *pointer);

/* --- statements (lower_stmt.c) */
void ts__lower_stmt(struct ts__lower *lower, const struct tir_stmt *stmt);

/* How many iterations of a loop with constant bounds nvcc makes one: extent for all of them
 * (lower_unroll.c). */
uint64_t ts__lower_copies(struct ts__lower *lower, const struct tir_stmt *loop, uint64_t extent);

/* --- builtins (builtin.def; lower_call.c, lower_sync.c, lower_matrix.c, extern.c) */
enum ts__builtin_flag {
  TS__BUILTIN_PURE = 1, /* no effect; may be evaluated speculatively */
  TS__BUILTIN_SYNC = 2, /* orders agents */
  TS__BUILTIN_WIDE = 4, /* lowers to many instructions */
  TS__BUILTIN_COPY = 8  /* nvcc unrolls loops with it, although it orders agents */
};
struct ts__builtin;
typedef struct ts__value (*ts__builtin_fn)(struct ts__lower *lower, const struct tir_expr *call,
                                           int argument);
struct ts__builtin {
  const char *name;
  ts__builtin_fn lower;
  int argument; /* given to lower */
  uint32_t min_args, max_args;
  unsigned flags;
};
/* NULL when there is none. */
const struct ts__builtin *ts__builtin_find(const char *name);
/* In table order; NULL at the end. For tests. */
const struct ts__builtin *ts__builtin_at(size_t index);
struct ts__value ts__lower_call(struct ts__lower *lower, const struct tir_expr *call);
enum ts__class { TS__CLASS_NAN, TS__CLASS_INF, TS__CLASS_FINITE };
/* A shuffle of all 32 lanes with a constant lane operand. */
struct ts__value ts__lower_emit_shfl_constant(struct ts__lower *lower, enum ts_ir_mode mode,
                                              struct ts__value value, uint32_t lane);
/* Whether the expression draws a random number, and `lanes` of them one after the other. */
bool ts__lower_is_random(const struct tir_expr *expr);
struct ts__value ts__lower_random_lanes(struct ts__lower *lower, const struct tir_expr *expr,
                                        uint32_t lanes);
/* The extern function DP4A (lower_device.c) */
void ts__lower_dp4a(struct ts__lower *lower, const struct tir_expr *call);
/* increase_descriptor_offset of a tcgen05 descriptor (lower_tensor.c) */
struct ts__value ts__lower_advance_descriptor(struct ts__lower *lower, const struct tir_expr *call);
/* bar.sync */
void ts__lower_emit_bar_sync(struct ts__lower *lower, int64_t barrier, int64_t thread_count);

#define BUILTIN(name, handler, argument, min_args, max_args, flags)                                \
  struct ts__value ts__builtin_##handler(struct ts__lower *lower, const struct tir_expr *call,     \
                                         int argument_of_row);
#include "front/tvm/builtin.def"
#undef BUILTIN

/* Argument i of a call, and a u32 constant. */
static inline struct ts__value ts__lower_arg(struct ts__lower *lower, const struct tir_expr *call,
                                             size_t i) {
  return ts__lower_expr(lower, call->call.args.items[i]);
}
static inline struct ts__value ts__value_u32(struct ts__lower *lower, int64_t value) {
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_u32), value);
}

#endif
