/* Builder: scopes, ifs, loops, and what becomes of code that nobody reaches. */
#include "ir/ir_priv.h"

uint32_t ts__build_scope(const struct ts_build *build) {
  return build->open.count ? build->open.data[build->open.count - 1].scope : 0;
}

void ts__build_open_scope(struct ts_build *build, uint32_t preheader) {
  struct ts__scope scope = {(uint32_t)build->open.count, true};
  struct ts__open_scope open = {(uint32_t)build->scopes.count, preheader};
  if (ts_vec_push(&build->scopes, build->allocator, scope) ||
      ts_vec_push(&build->open, build->allocator, open))
    ts__build_no_memory(build);
}

void ts__build_close_scope(struct ts_build *build) {
  if (build->open.count < 2) return; /* the function's stays */
  build->scopes.data[ts__build_scope(build)].is_open = false;
  build->open.count--;
}

uint32_t ts__build_branch(struct ts_build *build, uint32_t block, uint32_t target) {
  struct ts_operand operand = {TS_OPERAND_BLOCK, target};
  struct ts_build_insn insn = {.op = TS_OP_br, .operands = &operand, .operand_count = 1};
  return ts__build_append(build, &insn, TS_NONE, block);
}

static uint32_t new_block(struct ts_build *build) {
  uint32_t block = ts__add_block(build->function, build->region);
  if (block == TS_NONE) ts__build_no_memory(build);
  return block;
}

/* Code goes on in a new block of the current region. */
static uint32_t start_block(struct ts_build *build) {
  uint32_t block = new_block(build);
  if (block != TS_NONE) build->block = block;
  return block;
}

static void enter_region(struct ts_build *build, uint32_t head) {
  uint32_t region = ts__add_region(build->function, build->region, head);
  if (region == TS_NONE) {
    ts__build_no_memory(build);
    return;
  }
  build->region = region;
}

static struct ts__build_frame *top_frame(struct ts_build *build, bool wants_loop) {
  if (build->status != TS_OK) return NULL;
  struct ts__build_frame *frame =
      build->frames.count ? &build->frames.data[build->frames.count - 1] : NULL;
  if (!frame || (frame->kind == TS__FRAME_LOOP) != wants_loop) {
    ts__build_misuse(build, wants_loop ? "no loop is open here" : "no if is open here");
    return NULL;
  }
  return frame;
}

static void push_frame(struct ts_build *build, struct ts__build_frame frame) {
  if (ts_vec_push(&build->frames, build->allocator, frame)) ts__build_no_memory(build);
}

/* Targets are not known yet; set_target fills them in. */
static uint32_t append_cbr(struct ts_build *build, struct ts_operand pred) {
  struct ts_operand operands[4] = {
      pred, {TS_OPERAND_BLOCK, TS_NONE}, {TS_OPERAND_BLOCK, TS_NONE}, {TS_OPERAND_BLOCK, TS_NONE}};
  struct ts_build_insn insn = {.op = TS_OP_cbr, .operands = operands, .operand_count = 4};
  return ts__build_append(build, &insn, TS_NONE, build->block);
}

static void set_target(struct ts_build *build, uint32_t insn, uint32_t i, uint32_t block) {
  struct ts_function *function = build->function;
  if (insn == TS_NONE || block == TS_NONE) return;
  function->operands.data[function->insns.data[insn].operands + i].index = block;
}

/* An if whose outcome is known: the taken arm goes on where the code was, the other one gets a block
 * that nobody jumps to. */
static void begin_constant_arm(struct ts_build *build, struct ts__build_frame *frame,
                               bool is_taken) {
  frame->is_taken = is_taken;
  if (is_taken) {
    build->block = frame->live_end;
    build->is_dead = frame->was_dead;
    return;
  }
  start_block(build);
  build->is_dead = true;
}

void ts_build_if(struct ts_build *build, struct ts_operand pred) {
  if (build->status != TS_OK) return;
  struct ts__build_frame frame = {.kind = TS__FRAME_IF,
                                  .cbr = TS_NONE,
                                  .region = build->region,
                                  .then_end = TS_NONE,
                                  .live_end = build->block,
                                  .was_dead = build->is_dead};
  uint64_t value;
  if (ts_build_is_constant(build, pred, &value)) {
    frame.kind = TS__FRAME_CONSTANT_IF;
    begin_constant_arm(build, &frame, value & 1);
  } else {
    frame.cbr = append_cbr(build, pred);
    enter_region(build, build->block);
    set_target(build, frame.cbr, 1, start_block(build));
  }
  ts__build_open_scope(build, TS_NONE);
  push_frame(build, frame);
}

void ts_build_else(struct ts_build *build) {
  struct ts__build_frame *frame = top_frame(build, false);
  if (!frame) return;
  if (frame->has_else) {
    ts__build_misuse(build, "an if has two else arms");
    return;
  }
  frame->has_else = true;
  ts__build_close_scope(build);
  ts__build_open_scope(build, TS_NONE);
  if (frame->kind == TS__FRAME_CONSTANT_IF) {
    if (frame->is_taken) frame->live_end = build->block;
    begin_constant_arm(build, frame, !frame->is_taken);
    return;
  }
  frame->then_end = build->block;
  build->is_dead = frame->was_dead;
  build->region = frame->region;
  enter_region(build, build->function->insns.data[frame->cbr].block);
  set_target(build, frame->cbr, 2, start_block(build));
}

static void end_constant_if(struct ts_build *build, const struct ts__build_frame *frame) {
  if (!frame->is_taken) build->block = frame->live_end;
}

void ts_build_end_if(struct ts_build *build) {
  struct ts__build_frame *frame = top_frame(build, false);
  if (!frame) return;
  ts__build_close_scope(build);
  uint32_t last_end = build->block;
  if (frame->kind == TS__FRAME_CONSTANT_IF) {
    end_constant_if(build, frame);
  } else {
    build->region = frame->region;
    uint32_t join = start_block(build);
    if (frame->then_end != TS_NONE) ts__build_branch(build, frame->then_end, join);
    ts__build_branch(build, last_end, join);
    if (!frame->has_else) set_target(build, frame->cbr, 2, join);
    set_target(build, frame->cbr, 3, join);
  }
  build->is_dead = frame->was_dead;
  build->frames.count--;
}

void ts_build_loop(struct ts_build *build) {
  if (build->status != TS_OK) return;
  struct ts__build_frame frame = {.kind = TS__FRAME_LOOP,
                                  .cbr = TS_NONE,
                                  .region = build->region,
                                  .first_break = build->breaks.count,
                                  .was_dead = build->is_dead};
  uint32_t preheader = build->block;
  enter_region(build, TS_NONE);
  frame.loop_region = build->region;
  frame.header = start_block(build);
  ts__build_branch(build, preheader, frame.header);
  build->loop_at = ++build->clock;
  ts__build_open_scope(build, preheader);
  push_frame(build, frame);
}

void ts_build_loop_while(struct ts_build *build, struct ts_operand pred) {
  struct ts__build_frame *frame = top_frame(build, true);
  if (!frame) return;
  if (frame->cbr != TS_NONE) {
    ts__build_misuse(build, "a loop has two conditions");
    return;
  }
  frame->cbr = append_cbr(build, pred);
  build->function->regions.data[frame->loop_region].head = build->block;
  set_target(build, frame->cbr, 1, start_block(build));
}

void ts_build_end_loop(struct ts_build *build) {
  struct ts__build_frame *frame = top_frame(build, true);
  if (!frame) return;
  if (frame->cbr == TS_NONE) {
    ts__build_misuse(build, "a loop has no condition");
    return;
  }
  ts__build_branch(build, build->block, frame->header);
  ts__build_close_scope(build);
  build->region = frame->region;
  uint32_t exit = start_block(build);
  set_target(build, frame->cbr, 2, exit);
  set_target(build, frame->cbr, 3, exit);
  for (size_t i = frame->first_break; i < build->breaks.count; i++)
    set_target(build, build->breaks.data[i], 0, exit);
  build->breaks.count = frame->first_break;
  build->is_dead = frame->was_dead;
  build->frames.count--;
}

void ts_build_break(struct ts_build *build) {
  if (build->status != TS_OK) return;
  size_t depth = build->frames.count;
  while (depth && build->frames.data[depth - 1].kind != TS__FRAME_LOOP)
    depth--;
  if (!depth || build->frames.data[depth - 1].cbr == TS_NONE) {
    ts__build_misuse(build, "a break outside the body of a loop");
    return;
  }
  uint32_t branch = ts__build_branch(build, build->block, TS_NONE);
  if (ts_vec_push(&build->breaks, build->allocator, branch)) ts__build_no_memory(build);
  start_block(build);
  build->is_dead = true;
}

/* --- unreachable code: what follows a break or an exit, arms of constant conditions */

struct compaction {
  struct ts_arena arena;
  uint32_t *terminators; /* instruction by block */
  uint32_t *blocks;      /* new number of a block, TS_NONE when dropped */
  uint32_t *regions;     /* new number of a region */
  uint32_t *work;
};

static void visit(struct compaction *c, uint32_t block, size_t *work_count) {
  if (c->blocks[block] != TS_NONE) return;
  c->blocks[block] = 0;
  c->work[(*work_count)++] = block;
}

/* Marks reached blocks in c->blocks. A join counts as reached even when no arm ends there. */
static void mark_reached(const struct ts_function *function, struct compaction *c) {
  size_t work_count = 0;
  for (size_t i = 0; i < function->blocks.count; i++)
    c->terminators[i] = c->blocks[i] = TS_NONE;
  for (size_t i = 0; i < function->insns.count; i++)
    if (ts_op_info((enum ts_op)function->insns.data[i].op)->flags & F_TERM)
      c->terminators[function->insns.data[i].block] = (uint32_t)i;
  visit(c, function->entry, &work_count);
  while (work_count) {
    uint32_t terminator = c->terminators[c->work[--work_count]];
    if (terminator == TS_NONE) continue;
    const struct ts_insn *insn = &function->insns.data[terminator];
    for (uint32_t i = 0; i < insn->operand_count; i++) {
      const struct ts_operand *target = ts_insn_operand(function, insn, i);
      if (target->kind == TS_OPERAND_BLOCK) visit(c, target->index, &work_count);
    }
  }
}

/* Parents come before children and new numbers are never larger, so the work is done in place. */
static void renumber_regions(struct ts_function *function, struct compaction *c) {
  struct ts_region *regions = function->regions.data;
  uint32_t count = 1;
  c->regions[0] = 0;
  for (size_t i = 1; i < function->regions.count; i++) {
    struct ts_region region = regions[i];
    if (region.head == TS_NONE || c->blocks[region.head] == TS_NONE) {
      c->regions[i] = c->regions[region.parent];
      continue;
    }
    c->regions[i] = count;
    regions[count++] = (struct ts_region){c->regions[region.parent], c->blocks[region.head]};
  }
  function->regions.count = count;
}

static void renumber_blocks(struct ts_function *function, struct compaction *c) {
  uint32_t count = 0;
  for (size_t i = 0; i < function->blocks.count; i++) {
    if (c->blocks[i] == TS_NONE) continue;
    c->blocks[i] = count;
    function->blocks.data[count++] = function->blocks.data[i];
  }
  function->blocks.count = count;
}

static void renumber_insns(struct ts_function *function, const struct compaction *c) {
  size_t count = 0;
  for (size_t i = 0; i < function->insns.count; i++) {
    struct ts_insn insn = function->insns.data[i];
    if (c->blocks[insn.block] == TS_NONE) continue;
    insn.block = c->blocks[insn.block];
    for (uint32_t k = insn.operands; k < insn.operands + insn.operand_count; k++)
      if (function->operands.data[k].kind == TS_OPERAND_BLOCK)
        function->operands.data[k].index = c->blocks[function->operands.data[k].index];
    function->insns.data[count++] = insn;
  }
  function->insns.count = count;
}

enum ts_status ts__build_compact(struct ts_build *build) {
  struct ts_function *function = build->function;
  struct compaction c;
  size_t block_count = function->blocks.count;
  ts_arena_init(&c.arena, build->allocator);
  c.terminators = ts_new_array(&c.arena, uint32_t, block_count);
  c.blocks = ts_new_array(&c.arena, uint32_t, block_count);
  c.work = ts_new_array(&c.arena, uint32_t, block_count);
  c.regions = ts_new_array(&c.arena, uint32_t, function->regions.count);
  bool has_memory = c.terminators && c.blocks && c.work && c.regions;
  if (has_memory) {
    mark_reached(function, &c);
    renumber_blocks(function, &c);
    renumber_regions(function, &c);
    for (size_t i = 0; i < function->blocks.count; i++)
      function->blocks.data[i].region = c.regions[function->blocks.data[i].region];
    renumber_insns(function, &c);
    function->entry = c.blocks[function->entry];
  }
  ts_arena_free(&c.arena);
  return has_memory ? TS_OK : ts_fail_memory(build->ctx);
}
