/* tilesim: runs lowered tile kernels on the CPU, bit for bit as the device would.
 *
 * A struct ts_sim is one simulation: open a case folder, give arguments, run, read outputs. There
 * are no globals; several simulations may live in one process, each used by one thread at a time.
 * Nothing prints and nothing exits: every call that can fail returns an enum ts_result, and the
 * story behind a result other than TS_RESULT_OK is in the simulation's diagnostics.
 *
 *   struct ts_sim *sim;
 *   ts_sim_create(NULL, &sim);
 *   if (ts_sim_open(sim, "gemm", TS_FAST_MATH_AUTO) == TS_RESULT_OK && ts_sim_run(sim, NULL) ==
 *       TS_RESULT_OK)
 *     ts_sim_sha256(sim, "C", hash);
 *   ts_sim_free(sim);
 *
 * Pointers that a call hands out belong to the simulation and stay valid until it is freed or
 * until the call named in the comment. Texts are UTF-8 and end with NUL. Sizes and shapes are in
 * elements unless the name says bytes; shapes are outermost dimension first. */
#ifndef TILESIM_TILESIM_H
#define TILESIM_TILESIM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TS_API __attribute__((visibility("default")))
#else
#define TS_API
#endif

enum { TS_API_VERSION = 1, TS_MAX_RANK = 32, TS_SHA256_TEXT_BYTES = 65 };

/* What a call answers. */
enum ts_result {
  TS_RESULT_OK,           /* success */
  TS_RESULT_HAZARD,       /* the kernel has a hazard; outputs can be read nevertheless */
  TS_RESULT_DEADLOCK,     /* the kernel deadlocked */
  TS_RESULT_TRAP,         /* the kernel trapped */
  TS_RESULT_MISMATCH,     /* results differ */
  TS_RESULT_BAD_INPUT,    /* a file is malformed */
  TS_RESULT_BAD_ARGUMENT, /* an argument, of the kernel or of the call, is wrong */
  TS_RESULT_UNSUPPORTED,  /* the input uses something tilesim does not know */
  TS_RESULT_IO,           /* a file could not be read or written */
  TS_RESULT_LIMIT,        /* a limit was exceeded */
  TS_RESULT_NO_MEMORY,    /* out of memory */
  TS_RESULT_INTERNAL      /* a fault of tilesim */
};

TS_API const char *ts_version(void); /* "0.1.0" */
/* A sentence, never NULL. */
TS_API const char *ts_result_text(enum ts_result result);
/* The exit status of the command line: 0 fine, 1 the kernel is at fault, 2 the input is wrong,
 * 3 a limit or a fault of tilesim. */
TS_API int ts_result_exit_status(enum ts_result result);

/* --- life */

struct ts_sim;

/* Memory from elsewhere. resize(user, NULL, 0, n) allocates; resize(user, p, old, 0) frees and
 * returns NULL; otherwise it reallocates. NULL on failure, the old block then stays valid. Called
 * from several threads at once. */
struct ts_memory_hooks {
  void *(*resize)(void *user, void *old_block, size_t old_size_bytes, size_t new_size_bytes);
  void *user;
};

/* hooks NULL: malloc and free. The only result besides OK is TS_RESULT_NO_MEMORY. */
TS_API enum ts_result ts_sim_create(const struct ts_memory_hooks *hooks, struct ts_sim **sim);
TS_API void ts_sim_free(struct ts_sim *sim); /* NULL is fine */

/* Runs that would need more bytes for tensors are refused (TS_RESULT_LIMIT). 0, the default:
 * three quarters of the host's memory. */
TS_API void ts_sim_set_memory_limit(struct ts_sim *sim, uint64_t limit_bytes);

/* --- the machine */

struct ts_machine_info {
  const char *name;    /* "h200-sxm" */
  const char *profile; /* numerics profile, "nv_sm90" */
  uint32_t sm_count, max_threads_per_block, max_registers_per_thread;
  uint64_t max_shared_bytes_per_block, global_bytes;
};

/* Selects the machine: a name that is looked up in directory, or a path to a .mach file. directory
 * may be NULL ("machines"). The default, "h200-sxm", needs no file. */
TS_API enum ts_result ts_sim_set_machine(struct ts_sim *sim, const char *directory,
                                         const char *name);
TS_API void ts_sim_machine(const struct ts_sim *sim, struct ts_machine_info *info);

/* A line of a machine file; texts are valid during the call. */
struct ts_machine_row {
  const char *key, *value, *unit;
  const char *tag; /* "DOC", "MEASURED", "FITTED" or "GUESS" */
  const char *source;
  const char *meaning; /* of a constant of timing, else "" */
};
/* Selects the machine as ts_sim_set_machine does, and calls take for each value of its file, in order. */
TS_API enum ts_result
ts_sim_list_machine(struct ts_sim *sim, const char *directory, const char *name,
                    void (*take)(void *user, const struct ts_machine_row *row), void *user);
/* Names of the machines that are compiled in, sorted; NULL beyond the last. */
TS_API const char *ts_machine_name(uint32_t index);

/* --- the case */

/* Device modules do not say whether nvcc was told --use_fast_math. */
enum ts_fast_math {
  TS_FAST_MATH_AUTO, /* as launch.json says; without one: off */
  TS_FAST_MATH_OFF,
  TS_FAST_MATH_ON
};

/* Opens a case folder: device.json and host.json as tvm.ir.save_json writes them, plain or .xz, and
 * optionally launch.json, whose `tensors` and `scalars` become default arguments. A case that was
 * open before is closed. Results: TS_RESULT_BAD_INPUT, TS_RESULT_UNSUPPORTED, TS_RESULT_IO. */
TS_API enum ts_result ts_sim_open(struct ts_sim *sim, const char *folder,
                                  enum ts_fast_math fast_math);

/* The IR of the open case in text form, valid until the next ts_sim_open. */
TS_API enum ts_result ts_sim_ir(struct ts_sim *sim, const char **text, size_t *size_bytes);

enum ts_role { TS_ROLE_IN, TS_ROLE_OUT, TS_ROLE_INOUT };

/* A parameter of the host function. */
struct ts_parameter {
  const char *name;
  int is_tensor;
  const char *dtype;            /* "f16", "bf16", "f32", "e4m3", "s32", "pred", ... */
  uint32_t dtype_bits;          /* width of an element in memory */
  enum ts_role role;            /* from launch.json, else from what the kernels do */
  int has_default;              /* launch.json states an argument */
  uint32_t rank;                /* tensors */
  const int64_t *shape;         /* per dimension the required size, or -1 for a run-time symbol */
  const char *const *symbols;   /* per dimension the symbol's name, or NULL */
  const int64_t *default_shape; /* shape in launch.json, or NULL; its rank is `rank` */
};

TS_API uint32_t ts_sim_parameter_count(const struct ts_sim *sim);
/* TS_RESULT_BAD_ARGUMENT when index is not below the count. Texts and arrays are valid until the
 * next ts_sim_open. */
TS_API enum ts_result ts_sim_parameter(const struct ts_sim *sim, uint32_t index,
                                       struct ts_parameter *parameter);

/* --- arguments
 *
 * Every setter replaces the argument that the parameter had. Whether shapes and dtypes suit is
 * decided by the case's own host function when it runs. A parameter without an argument takes the
 * one of launch.json; an output without either is filled with 0xA5 bytes. */

/* A tensor in memory. Sub-byte elements are packed, low bits first. */
struct ts_tensor {
  const char *dtype; /* as in struct ts_parameter, or TVM's name: "float16" */
  uint32_t rank;     /* at most TS_MAX_RANK */
  const int64_t *shape;
  const int64_t *strides; /* elements, not negative; NULL: compact, last dimension fastest */
  const void *data;
  uint64_t size_bytes; /* of data: at least what shape and strides reach */
};

/* The tensor is copied, with its strides. */
TS_API enum ts_result ts_sim_set_tensor(struct ts_sim *sim, const char *name,
                                        const struct ts_tensor *tensor);
/* No tensor at all: None in Python. Whether the kernel can do without is decided by the host function;
 * a TileLang kernel can when it never uses the tensor. */
TS_API enum ts_result ts_sim_set_null(struct ts_sim *sim, const char *name);
/* The content of a .npy file (which may be xz-compressed). bf16, fp8 and other types that NumPy
 * lacks are taken from unsigned integers of their width. */
TS_API enum ts_result ts_sim_set_npy(struct ts_sim *sim, const char *name, const char *path);
/* Generated content: element i of the flattened tensor is a function of seed and i. Modes:
 * "uniform" in [-1, 1), "int:LOW:HIGH", "bits", "meta24", "fill:HH" (every byte), "const:V",
 * "iota:D:M" ((i / D) mod M); docs/inputs.md defines them. shape NULL: that of launch.json, else the
 * parameter's; run-time symbols are then taken from the other arguments. */
TS_API enum ts_result ts_sim_set_init(struct ts_sim *sim, const char *name, const char *mode,
                                      uint64_t seed, const int64_t *shape, uint32_t rank);
TS_API enum ts_result ts_sim_set_int(struct ts_sim *sim, const char *name, int64_t value);
TS_API enum ts_result ts_sim_set_float(struct ts_sim *sim, const char *name, double value);
/* As the command line's --arg: "FILE.npy", "init:MODE[:SEED][@AxBx..]", "null", or a number. */
TS_API enum ts_result ts_sim_set_text(struct ts_sim *sim, const char *name, const char *value);
/* Forgets every argument that was set; those of launch.json are in force again. */
TS_API void ts_sim_clear_arguments(struct ts_sim *sim);

/* --- running */

/* All zero is the default. */
struct ts_run_settings {
  /* "eager" (NULL), "lazy", "random:SEED" or "last:WARP" (that warp, and what it copies, as late as
   * possible). "explore:N": eager, lazy, last: of every warp and N random ones; the tensors are then
   * those of the eager run, and a difference is TS_RESULT_HAZARD. */
  const char *schedule;
  uint32_t worker_count;   /* host threads; 0: one. The bits do not depend on it */
  const char *events_path; /* event file to write, or NULL; forces one worker */
  int stop_at_first_hazard;
  /* Called now and then by the calling thread. */
  void (*progress)(void *user, uint64_t done_blocks, uint64_t all_blocks);
  void *progress_user;
  int checks;        /* all hazard checks: one thread, several times slower, the same bits */
  int check_numbers; /* with checks: remarks where NaNs and infinities are born */
  int check_speed;   /* with checks: performance remarks */
};

/* Executes the host function and all its launches. Every run starts from the arguments as they were
 * set. settings may be NULL. After TS_RESULT_HAZARD, _DEADLOCK and _TRAP the tensors hold what had
 * been computed and the event file is complete; after other failures there are neither. */
TS_API enum ts_result ts_sim_run(struct ts_sim *sim, const struct ts_run_settings *settings);

/* A tensor as the last run left it; valid until the next run or ts_sim_open. One that was null has no
 * data and no bytes. */
TS_API enum ts_result ts_sim_tensor(struct ts_sim *sim, const char *name, struct ts_tensor *tensor);
/* SHA-256 of the tensor's elements, compact, little-endian, as 64 hex digits and NUL. */
TS_API enum ts_result ts_sim_sha256(struct ts_sim *sim, const char *name,
                                    char text[TS_SHA256_TEXT_BYTES]);
/* Writes NAME.npy for every tensor of role out or inout, and args.json (name, dtype, shape, sha256
 * of each) to the folder, which is made if need be. All of them or none. */
TS_API enum ts_result ts_sim_write_outputs(struct ts_sim *sim, const char *folder);

/* --- time */

enum { TS_TIME_UNITS = 16, TS_TIME_STALLS = 16, TS_TIME_ROLES = 8, TS_TIME_BANKS = 32 };

/* A named number, such as the utilisation of a unit or the cycles of a stall. */
struct ts_time_share {
  const char *name;
  double value;
};

/* Warps of a block that go one way. issue_cycles and stalls add up to a warp's life. */
struct ts_time_role {
  const char *name; /* "producer w0-3" */
  uint32_t first_warp, warp_count;
  double issue_cycles;
  struct ts_time_share stalls[TS_TIME_STALLS]; /* cycles, largest first */
  uint32_t stall_count;
};

/* Shared accesses of one instruction: wavefronts an access takes, and would without conflicts. */
struct ts_time_bank {
  const char *op, *file;
  uint32_t line, insn;
  uint64_t access_count;
  double wavefronts, ideal_wavefronts;
};

struct ts_time_launch {
  const char *function;
  uint64_t block_count, simulated_block_count, event_count;
  uint32_t blocks_per_sm, registers_per_thread, threads_per_block;
  int registers_are_estimated;
  uint64_t shared_bytes;
  const char *occupancy_limit; /* resource that bounds blocks_per_sm */
  double wave_count;
  double cycles, kernel_us, cold_us; /* without the cost of an empty kernel */
  double clock_mhz;                  /* mean over the launch; lower while tensor cores work */
  double prologue_cycles, steady_cycles, epilogue_cycles;
  struct ts_time_share units[TS_TIME_UNITS]; /* busy share, 0 .. 1 */
  uint32_t unit_count;
  const char *limiting_unit;
  double flop, l2_bytes, dram_bytes, l2_hit_rate;
  double peak_flop_share, intensity_flop_per_byte, roofline_flop_share;
  struct ts_time_role roles[TS_TIME_ROLES];
  uint32_t role_count;
  struct ts_time_bank banks[TS_TIME_BANKS];
  uint32_t bank_count;
};

struct ts_time {
  const char *machine;
  double clock_mhz;
  double kernel_us;      /* back-to-back launches, an empty kernel's cost included */
  double kernel_us_cold; /* alone, with L2 full of other data */
  double launch_us;      /* what an empty kernel costs, in kernel_us */
  double cycles;
  double uncertainty; /* relative half width of kernel_us */
  const char *const *unverified;
  uint32_t unverified_count;
  const struct ts_time_launch *launches;
  uint32_t launch_count;
};

struct ts_time_settings {
  uint32_t registers_per_thread; /* 0: estimated */
  const char *events_path;       /* an event file to read instead of running, or NULL */
  int full_run;                  /* interpret every block with values, not addresses alone */
  const char *spans_path;        /* file of spans to write, or NULL (docs/timing.md) */
  const char *chrome_path;       /* Chrome trace to write, for Perfetto, or NULL */
  /* As in struct ts_run_settings, while blocks are interpreted. */
  void (*progress)(void *user, uint64_t done_blocks, uint64_t all_blocks);
  void *progress_user;
};

/* How long the open case would take on the machine. settings may be NULL. *time is valid until the
 * next run or ts_sim_open. TS_RESULT_UNSUPPORTED: the machine lacks a constant, or an instruction has
 * no cost. */
TS_API enum ts_result ts_sim_time(struct ts_sim *sim, const struct ts_time_settings *settings,
                                  const struct ts_time **time);

/* What the last run executed. */
struct ts_statistics {
  uint64_t launches, blocks, warps;
  uint64_t warp_insns;  /* instructions, each counted once per warp */
  uint64_t lane_ops;    /* lanes x components of data instructions */
  uint64_t matrix_macs; /* multiply-adds of matrix instructions */
  uint64_t tma_boxes, tma_bytes;
  uint64_t tensor_bytes; /* of all tensor arguments */
};
TS_API void ts_sim_statistics(const struct ts_sim *sim, struct ts_statistics *statistics);
/* How often warps executed an op (index as in ts_op_row_get). */
TS_API uint64_t ts_sim_op_executed(const struct ts_sim *sim, uint32_t op);

/* How well the results of an executed kind of instruction are known to agree with the hardware. */
struct ts_fidelity_info {
  const char *what;    /* "wgmma k16 f16 x f16 -> f32" */
  const char *level;   /* "exact", "modelled" or "unknown" */
  const char *source;  /* what that rests on */
  uint32_t insn_count; /* instructions in the kernels' code that fall under it */
};
/* Rows for the last run; they are valid until the next one. */
TS_API uint32_t ts_sim_fidelity_count(struct ts_sim *sim);
TS_API enum ts_result ts_sim_fidelity(struct ts_sim *sim, uint32_t index,
                                      struct ts_fidelity_info *info);

/* --- diagnostics: errors, hazards of the kernel, remarks; docs/diagnostics.md lists the codes */

struct ts_diagnostic {
  const char *code;       /* "TS-RACE-001" */
  const char *title;      /* of the code: "read of data still in flight" */
  const char *severity;   /* "error", "hazard" or "remark" */
  const char *message;    /* a sentence about this one */
  const char *hint;       /* what would help, or NULL */
  const char *file;       /* or NULL */
  uint32_t line, column;  /* 0 when unknown */
  const char *other_file; /* the second access of a hazard, or NULL */
  uint32_t other_line, other_column;
  const char *function;      /* kernel, or NULL */
  int64_t block, warp, lane; /* -1 when not applicable */
  uint64_t repeat_count;     /* equal ones are merged */
};

/* Diagnostics gather until they are cleared. */
TS_API uint32_t ts_sim_diagnostic_count(const struct ts_sim *sim);
/* TS_RESULT_BAD_ARGUMENT when index is not below the count. Texts are valid until
 * ts_sim_clear_diagnostics. */
TS_API enum ts_result ts_sim_diagnostic(const struct ts_sim *sim, uint32_t index,
                                        struct ts_diagnostic *diagnostic);
/* Distinct ones that were not kept because there were too many. */
TS_API uint64_t ts_sim_dropped_diagnostics(const struct ts_sim *sim);
TS_API void ts_sim_clear_diagnostics(struct ts_sim *sim);

/* --- the ops of the IR */

struct ts_op_row {
  const char *mnemonic;
  const char *unit;     /* "MOVE", "MATRIX", ... */
  const char *operands; /* one letter each, see docs/ir.md */
  const char *synopsis;
};
TS_API uint32_t ts_op_row_count(void);
/* Returns 0 when index is too large. */
TS_API int ts_op_row_get(uint32_t index, struct ts_op_row *row);

#ifdef __cplusplus
}
#endif

#endif
