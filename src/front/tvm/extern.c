/* Functions of TileLang's device library that device modules call by name, expanded into the
 * instructions they consist of, in their order: AllReduce (reduce.h), CumSum and CumMax (scan.h);
 * and its printing. */
#include "front/tvm/lower_priv.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* --- "tl::Name<a, b<c>, d>::member" */

enum { MAX_TEMPLATE_ARGS = 8, MAX_WORD = 64 };

struct name {
  char base[MAX_WORD], member[MAX_WORD];
  char args[MAX_TEMPLATE_ARGS][MAX_WORD];
  uint32_t arg_count;
};

static bool copy_word(char *out, const char *begin, const char *end) {
  while (begin < end && *begin == ' ')
    begin++;
  if (end - begin >= MAX_WORD) return false;
  memcpy(out, begin, (size_t)(end - begin));
  out[end - begin] = '\0';
  return true;
}

static bool parse_name(const char *text, struct name *name) {
  const char *open = strchr(text, '<');
  name->arg_count = 0;
  if (!open || !copy_word(name->base, text, open)) return false;
  int depth = 0;
  const char *begin = open + 1, *at = begin;
  for (;; at++) {
    if (!*at) return false;
    if (*at == '<') depth++;
    if (depth == 0 && (*at == ',' || *at == '>')) {
      if (name->arg_count == MAX_TEMPLATE_ARGS) return false;
      if (!copy_word(name->args[name->arg_count++], begin, at)) return false;
      begin = at + 1;
      if (*at == '>') break;
    }
    if (*at == '>') depth--;
  }
  if (strncmp(at + 1, "::", 2)) return false;
  return copy_word(name->member, at + 3, at + strlen(at));
}

static bool parse_count(const char *text, uint32_t *out) {
  char *end;
  unsigned long value = strtoul(text, &end, 10);
  if (end == text || *end || value > INT_MAX) return false;
  *out = (uint32_t)value;
  return true;
}

/* --- AllReduce */

struct all_reduce {
  enum ts_op op;
  bool nan;
  uint32_t threads, scale, thread_offset;
  bool is_named; /* NamedBarrier<barrier_threads>, else __syncthreads */
  uint32_t barrier_threads;
  uint32_t batch, workspace_stride;
};

/* Reducers on pairs (SumOp_fp16x2 ..) do the same to each half. */
static bool is_pair_suffix(const char *text) {
  return !strcmp(text, "_fp16x2") || !strcmp(text, "_bf16x2") || !strcmp(text, "_f32x2");
}

static bool parse_op(const char *text, struct all_reduce *reduce) {
  static const struct {
    const char *name;
    enum ts_op op;
    bool nan;
  } ops[] = {{"tl::SumOp", TS_OP_add, false},   {"tl::MaxOp", TS_OP_max, false},
             {"tl::MinOp", TS_OP_min, false},   {"tl::MaxOpNan", TS_OP_max, true},
             {"tl::MinOpNan", TS_OP_min, true}, {"tl::BitAndOp", TS_OP_and, false},
             {"tl::BitOrOp", TS_OP_or, false},  {"tl::BitXorOp", TS_OP_xor, false}};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    size_t length = strlen(ops[i].name);
    if (strncmp(text, ops[i].name, length)) continue;
    if (text[length] && !is_pair_suffix(text + length)) continue;
    reduce->op = ops[i].op;
    reduce->nan = ops[i].nan;
    return true;
  }
  return false;
}

static bool parse_barrier(const char *text, struct all_reduce *reduce) {
  static const char named[] = "tl::NamedBarrier<";
  if (!strcmp(text, "tl::SyncThreadsBarrier")) return true;
  if (strncmp(text, named, sizeof named - 1)) return false;
  char count[MAX_WORD];
  const char *begin = text + sizeof named - 1, *end = strchr(begin, '>');
  reduce->is_named = true;
  return end && !end[1] && copy_word(count, begin, end) &&
         parse_count(count, &reduce->barrier_threads);
}

static bool parse_all_reduce(const struct name *name, struct all_reduce *reduce) {
  *reduce = (struct all_reduce){.batch = 1};
  uint32_t count = name->arg_count;
  if (count < 3 || count == 6 || count > 7) return false;
  if (!parse_op(name->args[0], reduce)) return false;
  if (!parse_count(name->args[1], &reduce->threads)) return false;
  if (!parse_count(name->args[2], &reduce->scale)) return false;
  if (count > 3 && !parse_count(name->args[3], &reduce->thread_offset)) return false;
  if (count > 4 && !parse_barrier(name->args[4], reduce)) return false;
  if (count > 6 && !parse_count(name->args[5], &reduce->batch)) return false;
  if (count > 6 && !parse_count(name->args[6], &reduce->workspace_stride)) return false;
  if (reduce->scale == 0 || reduce->threads % reduce->scale) return false;
  uint32_t width = reduce->threads / reduce->scale;
  return (width & (width - 1)) == 0 && reduce->batch >= 1 && reduce->batch <= 256;
}

static struct ts__value combine(struct ts__lower *lower, const struct all_reduce *reduce,
                                struct ts__value own, struct ts__value other) {
  bool is_half = own.type.dtype == TS_DTYPE_f16 || own.type.dtype == TS_DTYPE_bf16;
  if (!reduce->nan || !is_half) return ts__lower_emit_2(lower, reduce->op, own, other);
  struct ts__attrs attrs = {.count = 0};
  struct ts__value operands[2] = {own, other};
  ts__attr_add(&attrs, TS_ATTR_nan, 1);
  return ts__lower_emit(lower, reduce->op, own.type, (enum ts_dtype)own.type.dtype, operands, 2,
                        &attrs);
}

static void reduce_barrier(struct ts__lower *lower, const struct all_reduce *reduce,
                           int64_t phase) {
  ts__lower_emit_bar_sync(lower, reduce->is_named ? phase : 0,
                          reduce->is_named ? reduce->barrier_threads : 0);
}

/* Through shared memory: everyone writes its own and reads the partner's. */
static void exchange_shared(struct ts__lower *lower, const struct all_reduce *reduce,
                            const struct ts__pointer *workspace, struct ts__value *values,
                            uint32_t offset) {
  struct ts__value thread = ts__lower_emit_sreg(lower, TS_SREG_tid_x);
  struct ts__value first = ts__value_imm(lower, thread.type, reduce->thread_offset);
  struct ts__value own = ts__lower_emit_2(lower, TS_OP_sub, thread, first);
  struct ts__value partner =
      ts__lower_emit_2(lower, TS_OP_xor, own, ts__value_imm(lower, own.type, offset));
  struct ts__pointer at = *workspace;
  int64_t stride = (int64_t)reduce->workspace_stride * workspace->scale;
  reduce_barrier(lower, reduce, 1);
  for (uint32_t i = 0; i < reduce->batch; i++) {
    at.index = own;
    at.offset = ts__wrap_add(workspace->offset, i * stride);
    ts__lower_emit_store(lower, &at, values[i]);
  }
  reduce_barrier(lower, reduce, 2);
  for (uint32_t i = 0; i < reduce->batch; i++) {
    at.index = partner;
    at.offset = ts__wrap_add(workspace->offset, i * stride);
    struct ts__value other = ts__lower_emit_load(lower, &at, values[i].type.lanes);
    values[i] = combine(lower, reduce, values[i], other);
  }
}

/* Partners at threads / 2, threads / 4 .. scale; own operand on the left. */
static void all_reduce(struct ts__lower *lower, const struct all_reduce *reduce,
                       const struct ts__pointer *workspace, struct ts__value *values) {
  for (uint32_t offset = reduce->threads / 2; offset >= reduce->scale; offset /= 2) {
    if (reduce->threads == reduce->scale) return;
    if (offset >= TS_WARP_LANES && !workspace) {
      ts__lower_unknown(lower, "tl::AllReduce over %u threads without a workspace",
                        reduce->threads);
      return;
    }
    if (offset >= TS_WARP_LANES) {
      exchange_shared(lower, reduce, workspace, values, offset);
      continue;
    }
    for (uint32_t i = 0; i < reduce->batch; i++) {
      struct ts__value other =
          ts__lower_emit_shfl_constant(lower, TS_IR_MODE_bfly, values[i], offset);
      values[i] = combine(lower, reduce, values[i], other);
    }
  }
}

static const struct ts__pointer *workspace_arg(struct ts__lower *lower, const struct tir_expr *call,
                                               size_t i, struct ts__pointer *out) {
  if (call->call.args.count <= i) return NULL;
  *out = ts__lower_pointer(lower, call->call.args.items[i]);
  if (!ts__pointer_expect(lower, out, TS__STORAGE_SHARED, call)) return NULL;
  if (!ts__value_is(lower, out->index, 0)) {
    ts__lower_unknown(lower, "a reduction workspace at a computed offset");
  }
  return out;
}

/* run(x[, workspace]) */
static struct ts__value lower_run(struct ts__lower *lower, const struct tir_expr *call,
                                  const struct all_reduce *reduce) {
  struct ts__pointer memory;
  struct ts__value value = ts__lower_expr(lower, call->call.args.items[1]);
  const struct ts__pointer *workspace = workspace_arg(lower, call, 2, &memory);
  if (lower->status == TS_OK) all_reduce(lower, reduce, workspace, &value);
  return value;
}

/* run_batch(x pointer[, workspace]): x[0 .. batch) in place */
static void lower_run_batch(struct ts__lower *lower, const struct tir_expr *call,
                            const struct all_reduce *reduce) {
  struct ts__value values[256];
  struct ts__pointer memory, x = ts__lower_pointer(lower, call->call.args.items[1]);
  const struct ts__pointer *workspace = workspace_arg(lower, call, 2, &memory);
  if (!ts__pointer_expect(lower, &x, TS__STORAGE_ARRAY, call)) return;
  struct ts__pointer at = x;
  for (uint32_t i = 0; i < reduce->batch; i++) {
    at.offset = ts__wrap_add(x.offset, i * x.scale);
    values[i] = ts__lower_emit_load(lower, &at, (uint32_t)x.scale);
  }
  all_reduce(lower, reduce, workspace, values);
  for (uint32_t i = 0; i < reduce->batch; i++) {
    at.offset = ts__wrap_add(x.offset, i * x.scale);
    ts__lower_emit_store(lower, &at, values[i]);
  }
}

static struct ts__value lower_all_reduce(struct ts__lower *lower, const struct tir_expr *call,
                                         const struct name *name) {
  struct all_reduce reduce;
  size_t count = call->call.args.count;
  if (!parse_all_reduce(name, &reduce) || count < 2 || count > 3) {
    ts__lower_unknown(lower, "%s", call->call.args.items[0]->string);
    return ts__value_none();
  }
  if (!strcmp(name->member, "run") && reduce.batch == 1) return lower_run(lower, call, &reduce);
  if (!strcmp(name->member, "run_batch")) {
    lower_run_batch(lower, call, &reduce);
    return ts__value_none();
  }
  ts__lower_unknown(lower, "%s", call->call.args.items[0]->string);
  return ts__value_none();
}

/* --- scans: a line of elements by one warp, 32 at a time */

enum { SEGMENT = TS_WARP_LANES, MAX_SEGMENTS = 1024 };

struct scan {
  struct all_reduce op; /* how two elements are combined */
  struct ts__pointer src, dst;
  struct ts__value lane, warp;
  struct ts__value first_src, first_dst; /* index of a line's first element */
  uint32_t threads, extent, src_stride, dst_stride;
  bool reverse;
};

static struct ts__value identity(struct ts__lower *lower, const struct scan *scan,
                                 struct ts_type type) {
  if (scan->op.op == TS_OP_add) return ts__value_imm(lower, type, 0);
  if (ts_dtype_is_float(type.dtype)) return ts__value_float(lower, type, -1.0 / 0.0);
  if (!ts_dtype_is_signed_int(type.dtype)) return ts__value_imm(lower, type, 0);
  return ts__value_encoding(lower, type, UINT64_C(1) << (ts_dtype_bits(type.dtype) - 1));
}

static struct ts__value s32(struct ts__lower *lower, int64_t value) {
  return ts__value_imm(lower, ts__scalar_type(TS_DTYPE_s32), value);
}

static struct ts__pointer element(struct ts__lower *lower, struct ts__pointer base,
                                  struct ts__value first, struct ts__value index, uint32_t stride) {
  struct ts__value at = ts__lower_emit_2(lower, TS_OP_mul, index, s32(lower, stride));
  base.index = ts__lower_emit_2(lower, TS_OP_add, first, at);
  return base;
}

/* The element of this lane; lanes beyond the end get the identity. */
static struct ts__value read_element(struct ts__lower *lower, const struct scan *scan,
                                     struct ts__value index, bool is_whole) {
  struct ts__pointer src = element(lower, scan->src, scan->first_src, index, scan->src_stride);
  struct ts_type type = ts__scalar_type(src.elem);
  if (is_whole) return ts__lower_emit_load(lower, &src, 1);
  struct ts__value value = ts__lower_emit_variable(lower, identity(lower, scan, type), NULL);
  struct ts__value inside = ts__lower_emit_2(lower, TS_OP_lt, index, s32(lower, scan->extent));
  ts_build_if(lower->build, inside.operand);
  ts__lower_emit_assign(lower, value, ts__lower_emit_load(lower, &src, 1));
  ts_build_end_if(lower->build);
  value.is_varying = true;
  return value;
}

static void write_element(struct ts__lower *lower, const struct scan *scan, struct ts__value index,
                          struct ts__value value, bool is_whole) {
  struct ts__pointer dst = element(lower, scan->dst, scan->first_dst, index, scan->dst_stride);
  if (!is_whole) {
    struct ts__value inside = ts__lower_emit_2(lower, TS_OP_lt, index, s32(lower, scan->extent));
    ts_build_if(lower->build, inside.operand);
  }
  ts__lower_emit_store(lower, &dst, value);
  if (!is_whole) ts_build_end_if(lower->build);
}

/* Hillis-Steele over the segment, the carry of the earlier ones last. */
static struct ts__value scan_segment(struct ts__lower *lower, const struct scan *scan,
                                     struct ts__value value, struct ts__value carry) {
  enum ts_ir_mode mode = scan->reverse ? TS_IR_MODE_down : TS_IR_MODE_up;
  for (uint32_t offset = 1; offset < SEGMENT; offset *= 2) {
    struct ts__value other = ts__lower_emit_shfl_constant(lower, mode, value, offset);
    struct ts__value takes =
        scan->reverse
            ? ts__lower_emit_2(lower, TS_OP_lt, scan->lane, s32(lower, SEGMENT - (int64_t)offset))
            : ts__lower_emit_2(lower, TS_OP_le, s32(lower, offset), scan->lane);
    value = ts__lower_emit_select(lower, takes, combine(lower, &scan->op, value, other), value);
  }
  return combine(lower, &scan->op, value, carry);
}

static void scan_line(struct ts__lower *lower, const struct scan *scan) {
  uint32_t segments = (scan->extent + SEGMENT - 1) / SEGMENT;
  struct ts__value carry = identity(lower, scan, ts__scalar_type(scan->src.elem));
  for (uint32_t i = 0; i < segments && lower->status == TS_OK; i++) {
    uint32_t segment = scan->reverse ? segments - 1 - i : i;
    bool is_whole = (segment + 1) * SEGMENT <= scan->extent;
    struct ts__value index =
        ts__lower_emit_2(lower, TS_OP_add, scan->lane, s32(lower, (int64_t)segment * SEGMENT));
    struct ts__value value = read_element(lower, scan, index, is_whole);
    value = scan_segment(lower, scan, value, carry);
    write_element(lower, scan, index, value, is_whole);
    carry =
        ts__lower_emit_shfl_constant(lower, TS_IR_MODE_idx, value, scan->reverse ? 0 : SEGMENT - 1);
  }
}

static uint32_t count_arg(struct ts__lower *lower, const struct tir_expr *call, size_t i) {
  int64_t value = ts__lower_constant(lower, call->call.args.items[i], "the size of a scan");
  if (value >= 0 && value <= 1 << 20) return (uint32_t)value;
  ts__lower_unknown(lower, "a scan of this size");
  return 0;
}

static bool is_too_long(struct ts__lower *lower, uint64_t segments) {
  if (segments <= MAX_SEGMENTS) return false;
  ts__lower_fail(lower, TS_LIMIT, TS_DIAG_LIMIT, "a scan of more than %d segments", MAX_SEGMENTS);
  return true;
}

/* run(src, dst, n): the first warp scans. */
static void scan_1d(struct ts__lower *lower, const struct tir_expr *call, struct scan *scan) {
  scan->extent = count_arg(lower, call, 3);
  scan->src_stride = scan->dst_stride = 1;
  scan->first_src = scan->first_dst = s32(lower, 0);
  if (is_too_long(lower, scan->extent / SEGMENT)) return;
  struct ts__value is_first = ts__lower_emit_2(lower, TS_OP_lt, scan->warp, s32(lower, 1));
  ts_build_if(lower->build, is_first.operand);
  scan_line(lower, scan);
  ts_build_end_if(lower->build);
}

/* run(src, dst, height, width, src_stride, dst_stride): warps take lines in turn. Axis 1 scans
 * rows, axis 0 columns. */
static void scan_2d(struct ts__lower *lower, const struct tir_expr *call, struct scan *scan,
                    uint32_t axis) {
  uint32_t height = count_arg(lower, call, 3), width = count_arg(lower, call, 4);
  uint32_t src_pitch = count_arg(lower, call, 5), dst_pitch = count_arg(lower, call, 6);
  uint32_t lines = axis ? height : width, warps = scan->threads / SEGMENT;
  scan->extent = axis ? width : height;
  scan->src_stride = axis ? 1 : src_pitch;
  scan->dst_stride = axis ? 1 : dst_pitch;
  if (is_too_long(lower, (uint64_t)(lines / warps + 1) * (scan->extent / SEGMENT + 1))) return;
  for (uint32_t first = 0; first < lines && lower->status == TS_OK; first += warps) {
    struct ts__value line = ts__lower_emit_2(lower, TS_OP_add, scan->warp, s32(lower, first));
    scan->first_src = axis ? ts__lower_emit_2(lower, TS_OP_mul, line, s32(lower, src_pitch)) : line;
    scan->first_dst = axis ? ts__lower_emit_2(lower, TS_OP_mul, line, s32(lower, dst_pitch)) : line;
    bool is_whole = first + warps <= lines;
    if (!is_whole) {
      struct ts__value inside = ts__lower_emit_2(lower, TS_OP_lt, line, s32(lower, lines));
      ts_build_if(lower->build, inside.operand);
    }
    scan_line(lower, scan);
    if (!is_whole) ts_build_end_if(lower->build);
  }
}

static bool begin_scan(struct ts__lower *lower, const struct tir_expr *call, struct scan *scan) {
  scan->src = ts__lower_pointer(lower, call->call.args.items[1]);
  scan->dst = ts__lower_pointer(lower, call->call.args.items[2]);
  if (!ts__pointer_expect(lower, &scan->src, TS__STORAGE_SHARED, call) ||
      !ts__pointer_expect(lower, &scan->dst, TS__STORAGE_SHARED, call)) {
    return false;
  }
  if (!ts__value_is(lower, scan->src.index, 0) || !ts__value_is(lower, scan->dst.index, 0)) {
    ts__lower_unknown(lower, "a scan at a computed offset");
    return false;
  }
  struct ts__value thread = ts__lower_emit_sreg(lower, TS_SREG_tid_x);
  scan->lane = ts__lower_emit_2(lower, TS_OP_and, thread, s32(lower, SEGMENT - 1));
  scan->warp = ts__lower_emit_2(lower, TS_OP_shr, thread, s32(lower, 5));
  return true;
}

/* "tl::CumSum2D<threads, axis, reverse>::run", "tl::CumMax1D<threads, reverse>::run" */
static bool parse_scan(const struct name *name, struct scan *scan, bool *is_2d, uint32_t *axis) {
  *is_2d = strstr(name->base, "2D") != NULL;
  *axis = 0;
  scan->op.op = !strncmp(name->base, "tl::CumSum", 10) ? TS_OP_add : TS_OP_max;
  if (name->arg_count != (*is_2d ? 3u : 2u) || strcmp(name->member, "run")) return false;
  if (!parse_count(name->args[0], &scan->threads)) return false;
  if (scan->threads < SEGMENT || scan->threads % SEGMENT) return false;
  if (*is_2d && (!parse_count(name->args[1], axis) || *axis > 1)) return false;
  const char *reverse = name->args[name->arg_count - 1];
  scan->reverse = !strcmp(reverse, "true");
  return scan->reverse || !strcmp(reverse, "false");
}

static void lower_scan(struct ts__lower *lower, const struct tir_expr *call,
                       const struct name *name) {
  struct scan scan = {.reverse = false};
  bool is_2d;
  uint32_t axis;
  if (!parse_scan(name, &scan, &is_2d, &axis) || call->call.args.count != (is_2d ? 7u : 4u)) {
    ts__lower_unknown(lower, "%s", call->call.args.items[0]->string);
    return;
  }
  if (!begin_scan(lower, call, &scan)) return;
  lower->nesting++;
  if (is_2d) {
    scan_2d(lower, call, &scan, axis);
  } else {
    scan_1d(lower, call, &scan);
  }
  lower->nesting--;
}

/* --- printing: debug_print_msg(text), _var(text, value), _buffer_value(text, name, index, value) */

static bool lower_print(struct ts__lower *lower, const struct tir_expr *call, const char *text) {
  static const char prefix[] = "debug_print_";
  if (strncmp(text, prefix, sizeof prefix - 1)) return false;
  struct ts_operand operands[TS_MAX_OPERANDS];
  const char *message = "";
  uint32_t count = 1;
  for (size_t i = 1; i < call->call.args.count && count < TS_MAX_OPERANDS; i++) {
    const struct tir_expr *arg = call->call.args.items[i];
    const char *word = tir_expr_string(arg);
    if (word) {
      const char *joined =
          ts_arena_printf(lower->scratch, "%s%s%s", message, *message ? " " : "", word);
      message = joined ? joined : word;
    } else {
      operands[count++] = ts__lower_expr(lower, arg).operand;
    }
  }
  operands[0] = ts_build_text(lower->build, message);
  ts__lower_emit_raw(lower, TS_OP_print, ts__scalar_type(TS_DTYPE_u32), TS_DTYPE_u32, operands,
                     count, NULL);
  return true;
}

/* --- dispatch */

struct ts__value ts__builtin_extern(struct ts__lower *lower, const struct tir_expr *call,
                                    int unused) {
  (void)unused;
  struct name name;
  const char *text = ts__lower_string(lower, call->call.args.items[0], "the name of a function");
  if (lower->status != TS_OK) return ts__value_none();
  if (parse_name(text, &name)) {
    if (!strcmp(name.base, "tl::AllReduce")) return lower_all_reduce(lower, call, &name);
    if (!strcmp(name.base, "tl::CumSum1D") || !strcmp(name.base, "tl::CumSum2D") ||
        !strcmp(name.base, "tl::CumMax1D") || !strcmp(name.base, "tl::CumMax2D")) {
      lower_scan(lower, call, &name);
      return ts__value_none();
    }
  }
  if (lower_print(lower, call, text)) return ts__value_none();
  if (!strcmp(text, "DP4A")) {
    ts__lower_dp4a(lower, call);
    return ts__value_none();
  }
  if (!strcmp(text, "__nanosleep")) return ts__value_none(); /* time has no meaning here */
  ts__lower_unknown(lower, "the function '%s'", text);
  return ts__value_none();
}
