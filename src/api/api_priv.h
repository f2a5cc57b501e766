/* Inside of the public API: the simulation, its arguments, generated input and .npy files.
 *
 * Files: sim.c (life, machine, diagnostics, statistics), case.c (opening, launch.json), argument.c
 * (setters), init.c (generated content), npy.c, shape.c, run.c, output.c, events.c, fidelity.c, time.c
 * and spans.c. */
#ifndef TS_API_API_PRIV_H
#define TS_API_API_PRIV_H

#include "base/file.h"
#include "front/tvm/tvm.h"
#include "interp/interp.h"
#include "model/model.h"
#include "num/num.h"
#include "tilesim/event.h"
#include "tilesim/tilesim.h"

#define TS__TRY_RESULT(expression)                                                                 \
  do {                                                                                             \
    enum ts_result ts_try_result_ = (expression);                                                  \
    if (ts_try_result_ != TS_RESULT_OK) return ts_try_result_;                                     \
  } while (0)

/* --- generated content (docs/inputs.md) */

enum ts__init_kind {
  TS__INIT_UNIFORM,
  TS__INIT_INT, /* a = low, b = high */
  TS__INIT_BITS,
  TS__INIT_META24,
  TS__INIT_FILL,  /* a = byte */
  TS__INIT_CONST, /* value; a as well when it is an integer */
  TS__INIT_IOTA   /* a = divisor, b = modulus */
};

struct ts__init {
  enum ts__init_kind kind;
  bool value_is_int;
  int64_t a, b;
  double value;
};

/* Parses a mode at the beginning of text; answers the rest, or NULL when it is none. */
const char *ts__init_parse(const char *text, struct ts__init *init);
/* Fills elem_count packed elements. False when the dtype cannot be made from float32. */
bool ts__init_fill(const struct ts__init *init, uint64_t seed, enum ts_dtype dtype,
                   uint64_t elem_count, void *packed);

/* --- .npy */

struct ts__npy {
  enum ts_dtype dtype;
  bool is_raw; /* void elements (V1, V2): dtype is the unsigned integer of that width */
  uint32_t rank;
  int64_t shape[TS_MAX_RANK];
  uint8_t *data; /* compact, row-major, little-endian */
  uint64_t size_bytes;
  const struct ts_allocator *allocator;
};

/* Parses a whole file in memory; path is for messages. TS_BAD_INPUT, TS_UNSUPPORTED (structured or
 * object dtypes). */
enum ts_status ts__npy_parse(struct ts_ctx *ctx, const char *path, const void *bytes,
                             size_t size_bytes, struct ts__npy *npy);
enum ts_status ts__npy_read(struct ts_ctx *ctx, const char *path, uint64_t limit_bytes,
                            struct ts__npy *npy);
void ts__npy_free(struct ts__npy *npy);
/* The header for an array, NULL when memory is short. Types without a NumPy name become unsigned
 * integers of their width; sub-byte types become bytes and need rank 1. */
char *ts__npy_header(struct ts_arena *arena, enum ts_dtype dtype, uint32_t rank,
                     const int64_t *shape, size_t *size_bytes);
/* Whether NumPy has the type itself. */
bool ts__npy_is_native(enum ts_dtype dtype);

/* --- arguments */

enum ts__argument_kind {
  TS__ARGUMENT_NONE,
  TS__ARGUMENT_MEMORY,
  TS__ARGUMENT_INIT,
  TS__ARGUMENT_SCALAR,
  TS__ARGUMENT_NULL /* an optional tensor that is not there */
};

struct ts__argument {
  enum ts__argument_kind kind;
  uint8_t dtype; /* enum ts_dtype */
  bool has_shape, has_strides;
  uint32_t rank;
  int64_t shape[TS_MAX_RANK], strides[TS_MAX_RANK];
  uint8_t *data; /* MEMORY: owned, data_bytes */
  uint64_t data_bytes;
  struct ts__init init;
  uint64_t seed;
  bool scalar_is_float;
  uint64_t scalar; /* int64 or double bits */
};

/* An argument with its device memory, as a run uses it. */
struct ts__tensor {
  uint8_t dtype;
  bool is_null; /* no memory: rank, sizes and address are 0 */
  uint32_t rank;
  int64_t shape[TS_MAX_RANK], strides[TS_MAX_RANK];
  bool has_strides;    /* given by the user; else strides are the compact ones */
  uint64_t elem_count; /* of the shape */
  uint64_t size_bytes; /* of the memory, gaps of strides included */
  uint64_t address;
};

struct ts__parameter {
  const struct ts_tvm_param *tvm;
  struct ts__argument argument;         /* given by the user */
  struct ts__argument default_argument; /* of launch.json */
  bool has_role;                        /* launch.json states it */
  enum ts_role role;
  struct ts__tensor tensor; /* of the last run */
};

struct ts__fidelity_list {
  TS_VEC(struct ts_fidelity_info) rows;
};

struct ts_sim {
  struct ts_allocator allocator;
  struct ts_diag_list diags;
  struct ts_ctx ctx;
  struct ts_machine machine;
  uint64_t memory_limit_bytes; /* 0: from the host's memory */
  /* The open case. */
  struct ts_arena case_arena;
  struct ts_tvm_case *tvm;
  struct ts__parameter *parameters;
  uint32_t parameter_count;
  char *ir_text;
  size_t ir_bytes;
  /* The last run. */
  struct ts_arena run_arena;
  struct ts_device_memory memory;
  struct ts_launch_plan plan;
  struct ts_run_stats stats;
  struct ts__fidelity_list fidelity;
  bool has_run, has_fidelity;
  bool addresses_only; /* of the run that is being prepared (interp.h): tensors have contents only
                          where they matter; ts__run_clear ends it */
};

/* Reports to the simulation's diagnostics and answers the status as a result. */
enum ts_result ts__sim_fail(struct ts_sim *sim, enum ts_status status, enum ts_diag_code code,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));
static inline enum ts_result ts__result(enum ts_status status) { return (enum ts_result)status; }

/* Frees memory that an argument owns and makes it NONE. */
void ts__argument_clear(struct ts_sim *sim, struct ts__argument *argument);
/* Drops the open case, and the last run. */
void ts__case_close(struct ts_sim *sim);
void ts__run_clear(struct ts_sim *sim);
/* NULL, and a diagnostic that suggests the nearest name, when there is none. */
struct ts__parameter *ts__find_parameter(struct ts_sim *sim, const char *name);
/* Elements of a shape; false on overflow or a negative extent. */
bool ts__shape_count(uint32_t rank, const int64_t *shape, uint64_t *elem_count);
/* Elements from the first to one past the last that shape and strides reach. */
bool ts__shape_span(uint32_t rank, const int64_t *shape, const int64_t *strides,
                    uint64_t *elem_count);
uint64_t ts__memory_limit(const struct ts_sim *sim);
enum ts_role ts__parameter_role(const struct ts__parameter *parameter);
/* "1024x512" in buffer. */
const char *ts__shape_text(uint32_t rank, const int64_t *shape, char *buffer, size_t capacity);
/* Number of single-character edits between two texts, at most limit + 1. */
unsigned ts__edit_distance(const char *a, const char *b, unsigned limit);

/* --- what run.c does for time.c */

/* Device memory and the launch plan, from the arguments. */
enum ts_result ts__prepare_run(struct ts_sim *sim);
/* The tables of the event stream, in the run's arena. */
enum ts_status ts__describe_program(struct ts_sim *sim, struct ts_trace_program *program);

/* --- spans to files (spans.c) */

struct ts__span_writer;
/* *writer is NULL when the settings name no file. The program is read while the writer is open. */
enum ts_status ts__span_writer_open(struct ts_ctx *ctx, const struct ts_time_settings *settings,
                                    const struct ts_machine *machine,
                                    const struct ts_trace_program *program,
                                    struct ts__span_writer **writer);
/* NULL for no writer. */
struct ts_span_sink *ts__span_writer_sink(struct ts__span_writer *writer);
/* Keeps or removes the files, and frees the writer. NULL is fine. */
enum ts_status ts__span_writer_close(struct ts__span_writer *writer, bool is_kept);

/* --- instructions by name (num.c, num_matrix.c) */

struct ts_num_instruction;
struct ts_num_listing;
struct ts_num_operand;

/* What one name of a profile means to the tables of src/num. */
struct ts__num_profile {
  const char *name;
  uint8_t scalar; /* enum ts_scalar_profile */
  enum ts_mma_profile matrix;
  const char *fidelity; /* of all its scalar instructions, or NULL */
};

enum { TS__NUM_PROFILE_COUNT = 5 };
extern const struct ts__num_profile ts__num_profiles[TS__NUM_PROFILE_COUNT];

/* Which code carries out an instruction. */
enum ts__num_kind { TS__NUM_SCALAR, TS__NUM_MATRIX, TS__NUM_MATRIX_SCALED, TS__NUM_MATRIX_BITS };

/* type may be followed by a blank and more. */
void ts__num_operand(struct ts_num_operand *operand, const char *name, size_t name_length,
                     const char *type, uint32_t rows, uint32_t columns);
/* instruction has its name and profile. */
enum ts_result ts__num_matrix_find(const char *name, const struct ts__num_profile *profile,
                                   struct ts_num_instruction *instruction);
enum ts_result ts__num_matrix_run(const struct ts_num_instruction *instruction, void *result,
                                  const void *const *operands, size_t count);
enum ts_result ts__num_matrix_list(uint32_t index, struct ts_num_listing *listing);

#endif
