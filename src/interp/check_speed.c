/* Performance remarks: what an instruction's addresses cost at their worst, told once per
 * instruction at the end of a launch.
 *
 * Shared memory has 32 banks of 4 bytes. An access of 4 bytes a lane is one pass over 32 lanes, of
 * 8 bytes two over 16, of 16 bytes four over 8; lanes that name different words of one bank in a
 * pass are served one after the other (DOC: CUDA C Programming Guide, shared memory; MEASURED on an
 * H200, docs). Global memory moves sectors of 32 bytes. */
#include "interp/check_priv.h"

#include <stdio.h>

enum { BANKS = 32, BANK_BYTES = 4, SECTOR_BYTES = 32 };

/* The number of words that the busiest bank has to serve for the lanes. */
static uint32_t degree(const struct ts__access *access, uint32_t lanes) {
  uint64_t words[BANKS][TS__LANES];
  uint32_t counts[BANKS] = {0}, worst = 0;
  for (; lanes; lanes &= lanes - 1) {
    uint64_t begin = access->lane[ts__first_lane(lanes)];
    for (uint64_t word = begin / BANK_BYTES; word * BANK_BYTES < begin + access->size_bytes;
         word++) {
      uint32_t bank = (uint32_t)(word % BANKS), i = 0;
      while (i < counts[bank] && words[bank][i] != word)
        i++;
      if (i == counts[bank] && i < TS__LANES) words[bank][counts[bank]++] = word;
      if (counts[bank] > worst) worst = counts[bank];
    }
  }
  return worst;
}

static void shared_cost(const struct ts__access *access, uint32_t *passes, uint32_t *best,
                        uint32_t *lanes) {
  uint32_t per_pass = access->size_bytes <= 4 ? 32 : access->size_bytes <= 8 ? 16 : 8;
  uint32_t worst = 0;
  *passes = *best = *lanes = 0;
  for (uint32_t first = 0; first < TS__LANES; first += per_pass) {
    uint32_t window = per_pass == 32 ? UINT32_MAX : ((1u << per_pass) - 1) << first;
    uint32_t d = degree(access, access->mask & window);
    *passes += d;
    *best += d != 0;
    if (d > worst) {
      worst = d;
      *lanes = access->mask & window;
    }
  }
}

static bool seen(const uint64_t *sectors, uint32_t count, uint64_t sector) {
  for (uint32_t i = 0; i < count; i++)
    if (sectors[i] == sector) return true;
  return false;
}

static void global_cost(const struct ts__access *access, uint32_t *sectors, uint32_t *best) {
  enum { MAX_SECTORS = TS__LANES * 17 };
  uint64_t all[MAX_SECTORS];
  uint32_t count = 0, lanes = 0;
  uint64_t last = UINT64_MAX;
  for (uint32_t rest = access->mask; rest; rest &= rest - 1) {
    uint64_t begin = access->lane[ts__first_lane(rest)];
    lanes += begin != last;
    last = begin;
    for (uint64_t s = begin / SECTOR_BYTES; s * SECTOR_BYTES < begin + access->size_bytes; s++)
      if (count < MAX_SECTORS && !seen(all, count, s)) all[count++] = s;
  }
  *sectors = count;
  *best = (lanes * access->size_bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
}

void ts__check_speed_access(struct ts__warp *warp, const struct ts__code *code, enum ts_space space,
                            const struct ts__access *access) {
  struct ts__speed *speed = &warp->block->check->speed[code->insn];
  uint32_t units, best, lanes = access->mask;
  if (!access->mask) return;
  if (space == TS_SPACE_SHARED)
    shared_cost(access, &units, &best, &lanes);
  else
    global_cost(access, &units, &best);
  speed->executions++;
  speed->units += units;
  speed->best_units += best;
  if (units <= best) return;
  speed->slow_executions++;
  if (units - best <= speed->worst) return;
  speed->worst = units - best;
  speed->worst_units = units;
  speed->block = warp->block->index;
  speed->warp = warp->index;
  speed->lanes = lanes;
}

void ts__check_speed_branch(struct ts__warp *warp, const struct ts__code *code, uint32_t before) {
  struct ts__speed *speed = &warp->block->check->speed[code->insn];
  speed->executions++;
  if (warp->active == before || (warp->active & ~before)) return;
  if (speed->slow_executions++ == 0) {
    speed->block = warp->block->index;
    speed->warp = warp->index;
    speed->lanes = warp->active;
  }
}

/* bar.red is not asked about: its result is wanted. */
void ts__check_speed_barrier(struct ts__warp *warp, const struct ts__code *code) {
  const struct ts__program *program = warp->program;
  if (code->op != TS_OP_bar_sync && code->op != TS_OP_bar_red) return;
  uint64_t threads = ts__operand_lane(warp, &code->operands[1], ts__first_lane(warp->active));
  if (threads && threads < program->threads_per_block) return;
  struct ts__speed *speed = &warp->block->check->speed[code->insn];
  if (speed->executions++ == 0) speed->block = warp->block->index;
  ts_race_log_barrier(&warp->block->check->race, warp->index, code->insn);
}

static void report(const struct ts__check *check, uint32_t insn, enum ts_diag_code kind,
                   const char *hint, const char *message) {
  const struct ts__speed *speed = &check->speed[insn];
  struct ts_diag diag = {.code = kind,
                         .message = message,
                         .hint = hint,
                         .place = ts_insn_place(check->program->function, insn),
                         .function = check->program->function->name,
                         .block = speed->block,
                         .warp = speed->warp,
                         .lane = speed->lanes ? (int64_t)ts__first_lane(speed->lanes) : -1};
  ts_diag_add(check->ctx->diags, &diag);
}

void ts__check_speed_report(struct ts__check *check) {
  char message[320];
  for (uint32_t i = 0; i < check->program->code_count; i++) {
    const struct ts__speed *speed = &check->speed[i];
    const struct ts__code *code = &check->program->code[i];
    if (code->op == TS_OP_bar_sync && speed->executions && !check->barrier_log.is_needed[i] &&
        check->program->blocks_per_unit == 1)
      report(check, i, TS_DIAG_SPEED_BARRIER, "leave it out, if other arguments do not need it",
             "no access before the barrier conflicts with one after it that another barrier of the "
             "block does not order as well");
    if (!speed->slow_executions) continue;
    const char *mnemonic = ts_op_info((enum ts_op)code->op)->mnemonic;
    unsigned long long slow = speed->slow_executions, all = speed->executions;
    double factor = speed->best_units ? (double)speed->units / (double)speed->best_units : 1;
    bool is_shared = code->op == TS_OP_ld_shared || code->op == TS_OP_st_shared ||
                     code->op == TS_OP_atom_shared || code->op == TS_OP_atom_shared_ret ||
                     code->op == TS_OP_ldmatrix || code->op == TS_OP_stmatrix;
    if (code->op == TS_OP_cbr) {
      snprintf(message, sizeof message, "%llu of %llu executions part the lanes of a warp", slow,
               all);
      report(check, i, TS_DIAG_SPEED_DIVERGENT, NULL, message);
    } else if (is_shared) {
      snprintf(message, sizeof message,
               "%s needs %u passes where %u would do (lanes 0x%08x), %.2f times the least on "
               "average; %llu of %llu executions have conflicts",
               mnemonic, speed->worst_units, speed->worst_units - speed->worst, speed->lanes,
               factor, slow, all);
      report(check, i, TS_DIAG_SPEED_BANKS, "pad the rows or swizzle the tile", message);
    } else {
      snprintf(message, sizeof message,
               "%s moves %u sectors of 32 bytes where %u would do, %.2f times the least on average",
               mnemonic, speed->worst_units, speed->worst_units - speed->worst, factor);
      report(check, i, TS_DIAG_SPEED_SECTORS, "let neighbouring lanes take neighbouring elements",
             message);
    }
  }
}
