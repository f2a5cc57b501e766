/* Branches, reconvergence, exit, traps and prints.
 *
 * A divergent branch pushes a frame: the active lanes go one way, the others wait in the frame, and
 * all meet at the frame's join. Every split leaves fewer lanes active than the frame's mask has, so
 * at most 31 frames are ever in use. Lanes that leave a loop in several iterations wait at the
 * loop's one frame.
 *
 * Lanes that block let the other arm of the innermost branch run, so that lanes of one warp may wait
 * for each other there. Arms of outer branches do not get a turn then, and lanes that poll memory
 * without blocking never give one: such kernels, which rely on independent thread scheduling inside
 * a warp, are reported as deadlocks or run into max_insns_per_warp. */
#include "interp/interp_priv.h"

#include <stdio.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

_Static_assert((int)TS__MAX_FRAMES >= (int)TS__LANES, "a split leaves at least one lane less");

static struct ts__frame *top_frame(struct ts__warp *warp) {
  return warp->frame_count ? &warp->frames[warp->frame_count - 1] : NULL;
}

static void run_other_arm(struct ts__warp *warp, struct ts__frame *frame) {
  warp->active = frame->other_mask & warp->alive;
  warp->pc = frame->other_pc;
  warp->barrier_phase = frame->other_barrier_phase;
  frame->other_mask = 0;
  frame->other_barrier_phase = 0;
}

/* Continues with lanes that wait in frames, when the active ones are gone (ended, or waiting at an
 * outer join). False when there are none. */
static bool resume(struct ts__warp *warp) {
  for (struct ts__frame *frame = top_frame(warp); frame; frame = top_frame(warp)) {
    if (frame->other_mask & warp->alive) {
      run_other_arm(warp, frame);
      return true;
    }
    warp->frame_count--;
    warp->active = frame->mask & warp->alive;
    warp->pc = frame->join;
    if (warp->active) return true;
  }
  return false;
}

/* The innermost frame that joins at pc, or frame_count when there is none. */
static uint32_t find_join(const struct ts__warp *warp, uint32_t pc) {
  for (uint32_t i = warp->frame_count; i > 0; i--)
    if (warp->frames[i - 1].join == pc) return i - 1;
  return warp->frame_count;
}

/* The active lanes leave all frames above `frame` (a break out of inner branches): they wait at its
 * join. */
static void leave_frames_above(struct ts__warp *warp, uint32_t frame) {
  for (uint32_t i = frame + 1; i < warp->frame_count; i++)
    warp->frames[i].mask &= ~warp->active;
}

enum ts__step ts__control_goto(struct ts__warp *warp, uint32_t pc) {
  warp->pc = pc;
  while (warp->frame_count) {
    uint32_t found = find_join(warp, warp->pc);
    if (found == warp->frame_count) break;
    leave_frames_above(warp, found);
    warp->active = 0;
    if (!resume(warp)) return TS__STEP_DONE;
  }
  return TS__STEP_JUMP;
}

bool ts__control_switch(struct ts__warp *warp) {
  struct ts__frame *frame = top_frame(warp);
  if (!frame || !(frame->other_mask & warp->alive)) return false;
  struct ts__frame old = *frame;
  frame->other_pc = warp->pc;
  frame->other_mask = warp->active;
  frame->other_barrier_phase = warp->barrier_phase;
  warp->pc = old.other_pc;
  warp->active = old.other_mask & warp->alive;
  warp->barrier_phase = old.other_barrier_phase;
  return true;
}

/* --- branches */

static enum ts__step emit_branch(struct ts__warp *warp, const struct ts__code *code,
                                 uint32_t taken) {
  struct ts_event event = {.kind = TS_EVENT_BRANCH, .work = taken};
  enum ts_status status = ts__emit(warp, code, event, NULL);
  if (status == TS_OK) return TS__STEP_JUMP;
  warp->block->status = status;
  return TS__STEP_FAULT;
}

enum ts__step ts__exec_br(struct ts__warp *warp, const struct ts__code *code) {
  if (ts__listening(warp->block) && emit_branch(warp, code, warp->active) == TS__STEP_FAULT)
    return TS__STEP_FAULT;
  return ts__control_goto(warp, code->operands[0].offset);
}

/* Bit l: slot l is not 0. */
static uint32_t predicate_mask(const uint32_t *slots) {
#ifdef __SSE2__
  uint32_t mask = 0;
  for (uint32_t i = 0; i < TS__LANES; i += 4) {
    __m128i four = _mm_loadu_si128((const __m128i *)(const void *)(slots + i));
    __m128i zeros = _mm_cmpeq_epi32(four, _mm_setzero_si128());
    mask |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(zeros)) << i;
  }
  return ~mask;
#else
  uint32_t mask = 0;
  for (uint32_t lane = 0; lane < TS__LANES; lane++)
    mask |= (uint32_t)(slots[lane] != 0) << lane;
  return mask;
#endif
}

/* Active lanes whose predicate holds. */
static uint32_t lanes_where(const struct ts__warp *warp, const struct ts__operand *predicate) {
  const uint32_t *slots = ts__operand_words(warp, predicate);
  if (predicate->is_uniform) return slots[0] ? warp->active : 0;
  return predicate_mask(slots) & warp->active;
}

/* The frame in which lanes wait for a join: the innermost one when it has that join already and
 * room for lanes of another arm, else a new one. */
static struct ts__frame *join_frame(struct ts__warp *warp, uint32_t join) {
  struct ts__frame *frame = top_frame(warp);
  if (frame && frame->join == join && frame->other_mask == 0) return frame;
  frame = &warp->frames[warp->frame_count++];
  *frame = (struct ts__frame){.join = join, .mask = warp->active};
  return frame;
}

static enum ts__step split(struct ts__warp *warp, const struct ts__code *code, uint32_t taken) {
  uint32_t yes = code->operands[1].offset, no = code->operands[2].offset;
  uint32_t join = code->operands[3].offset, others = warp->active & ~taken;
  struct ts__frame *frame = join_frame(warp, join);
  if (yes == join) { /* these lanes are there already */
    warp->active = others;
    return ts__control_goto(warp, no);
  }
  if (no != join) {
    frame->other_pc = no;
    frame->other_mask = others;
    frame->other_barrier_phase = 0;
  }
  warp->active = taken;
  return ts__control_goto(warp, yes);
}

enum ts__step ts__exec_cbr(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t taken = lanes_where(warp, &code->operands[0]);
  if (ts__listening(warp->block) && emit_branch(warp, code, taken) == TS__STEP_FAULT)
    return TS__STEP_FAULT;
  if (taken == warp->active) return ts__control_goto(warp, code->operands[1].offset);
  if (taken == 0) return ts__control_goto(warp, code->operands[2].offset);
  return split(warp, code, taken);
}

enum ts__step ts__exec_exit(struct ts__warp *warp, const struct ts__code *code) {
  (void)code;
  warp->alive &= ~warp->active;
  warp->active = 0;
  bool goes_on = resume(warp);
  ts__barrier_thread_exit(warp->block);
  if (!goes_on) return TS__STEP_DONE;
  return ts__control_goto(warp, warp->pc);
}

/* --- traps */

static const char *text_of(const struct ts__warp *warp, const struct ts__operand *operand) {
  const char *text = warp->program->function->texts.data[operand->offset];
  return text ? text : "";
}

static enum ts__step trap(struct ts__warp *warp, const struct ts__code *code, uint32_t lanes,
                          const char *text) {
  ts__hazard(warp, code, TS_DIAG_DEVICE_TRAP, ts__first_lane(lanes), TS_NONE, NULL, "%s",
             *text ? text : "trap");
  warp->block->status = TS_TRAP;
  return TS__STEP_FAULT;
}

enum ts__step ts__exec_trap(struct ts__warp *warp, const struct ts__code *code) {
  return trap(warp, code, warp->active, text_of(warp, &code->operands[0]));
}

enum ts__step ts__exec_assert(struct ts__warp *warp, const struct ts__code *code) {
  uint32_t failed = warp->active & ~lanes_where(warp, &code->operands[0]);
  if (!failed) return TS__STEP_NEXT;
  return trap(warp, code, failed, text_of(warp, &code->operands[1]));
}

/* --- prints */

/* The value of an operand in a lane, as text: integers in decimal, everything else as its
 * encoding. */
static int print_value(const struct ts__warp *warp, const struct ts__operand *operand,
                       uint32_t lane, char *text, size_t size_bytes) {
  enum ts_dtype dtype = (enum ts_dtype)operand->dtype;
  uint64_t value = ts__operand_lane(warp, operand, lane);
  if (ts_dtype_is_signed_int(dtype)) return snprintf(text, size_bytes, " %lld", (long long)value);
  if (ts_dtype_is_unsigned_int(dtype) || dtype == TS_DTYPE_pred)
    return snprintf(text, size_bytes, " %llu", (unsigned long long)value);
  if (!ts_dtype_is_float(dtype))
    return snprintf(text, size_bytes, " 0x%llx", (unsigned long long)value);
  uint64_t bits = ts_num_convert1(TS_DTYPE_f64, dtype, 0, value);
  double number;
  memcpy(&number, &bits, sizeof number);
  return snprintf(text, size_bytes, " %.9g", number);
}

/* One remark per warp, with the values of the first active lane. */
enum ts__step ts__exec_print(struct ts__warp *warp, const struct ts__code *code) {
  char text[512];
  uint32_t lane = ts__first_lane(warp->active);
  int used = snprintf(text, sizeof text, "%s", text_of(warp, &code->operands[0]));
  for (uint32_t i = 1; i < code->operand_count; i++) {
    if (used < 0 || (size_t)used >= sizeof text) break;
    int length =
        print_value(warp, &code->operands[i], lane, text + used, sizeof text - (size_t)used);
    used = length < 0 ? -1 : used + length;
  }
  struct ts_diag diag = {.code = TS_DIAG_PRINT,
                         .message = text,
                         .place = ts_insn_place(warp->program->function, code->insn),
                         .function = warp->program->function->name,
                         .block = warp->block->index,
                         .warp = warp->index,
                         .lane = lane};
  ts_diag_add(warp->block->ctx->diags, &diag);
  return TS__STEP_NEXT;
}
