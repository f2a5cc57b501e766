/* Matrix ops on the simulated SM: mma.sync, wgmma, tcgen05 and tensor memory. */
#include "model_nv/sm_priv.h"

#include "num/dtype.h"

static bool is_sparse(uint16_t op) {
  return op == TS_OP_mma_sp || op == TS_OP_wgmma_sp_ss || op == TS_OP_wgmma_sp_rs;
}

double ts__matrix_rate(const struct ts_code_insn *insn) {
  uint32_t bits = ts_dtype_bits((enum ts_dtype)insn->dtype2);
  return (bits ? 16.0 / bits : 1) * (is_sparse(insn->op) ? 2 : 1);
}

static bool is_float8(const struct ts_code_insn *insn) {
  enum ts_dtype dtype = (enum ts_dtype)insn->dtype2;
  return insn->op == TS_OP_mma && ts_dtype_is_float(dtype) && ts_dtype_bits(dtype) == 8;
}

/* Words of the factors, the last slots that the product reads, that are not there as f16 yet. */
static uint32_t packed_words(const struct ts__sm *sm, struct ts__warp_state *warp,
                             const struct ts_code_insn *insn) {
  uint32_t left = (uint32_t)(insn->m + insn->n) * insn->k * 8 / (32 * TS__WARP_LANES), packed = 0;
  for (uint32_t u = insn->use_count; u-- > 0 && left;) {
    const struct ts_code_ref *use = &sm->code->refs[insn->first_ref + u];
    for (uint32_t i = use->count; i-- > 0 && left; left--) {
      struct ts__ready *ready = &warp->ready[use->first + i];
      packed += !ready->is_unpacked;
      ready->is_unpacked = true;
    }
  }
  return packed;
}

/* Compute capability 9.0 has no mma.sync of 8-bit floats. nvcc unpacks each word of a factor once, by two
 * F2FP, makes two products of f16 that start from zero, and adds them to the accumulator (MEASURED:
 * machine code, and mma_m16n8k32_e4m3_*). Answers when the products may start. */
static double unpack(struct ts__sm *sm, struct ts__warp_state *warp,
                     const struct ts_code_insn *insn, double start) {
  uint32_t conversions = 2 * packed_words(sm, warp, insn);
  uint32_t additions = (uint32_t)insn->m * insn->n / TS__WARP_LANES;
  double cycles = conversions * sm->timing[TS_TIMING_cvt_interval];
  struct ts__server *issue = &sm->issue[warp->sub];
  ts__serve(issue, start, conversions + additions);
  ts__serve(&sm->pipe[warp->sub][TS__PIPE_FP32], start, additions);
  if (!conversions) return start;
  double at = ts__serve(&sm->pipe[warp->sub][TS__PIPE_CVT], start, cycles);
  return at + cycles - 1 + sm->timing[TS_TIMING_cvt_latency];
}

double ts__do_mma(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                  enum ts_stall *stall) {
  const struct ts_code_insn *insn = &sm->code->insns[op->insn];
  struct ts__server *issue = &sm->issue[warp->sub], *tensor = &sm->mma[warp->sub];
  bool is_unpacked = sm->unpacks_floats && is_float8(insn);
  double macs = (double)insn->m * insn->n * insn->k, latency = sm->timing[TS_TIMING_mma_latency];
  double rate =
      sm->timing[TS_TIMING_mma_macs_per_cycle] * (is_unpacked ? 1 : ts__matrix_rate(insn));
  double interval = macs / rate, start = warp->candidate;
  if (issue->free_cycle > start) start = issue->free_cycle, *stall = TS_STALL_ISSUE;
  if (tensor->free_cycle > start) start = tensor->free_cycle, *stall = TS_STALL_TENSOR;
  ts__serve(issue, start, is_unpacked ? 2 : 1);
  ts__serve(tensor, start, interval); /* conversions shift all products alike */
  double product = is_unpacked ? unpack(sm, warp, insn, start) : start;
  if (is_unpacked) latency = 2 * latency + sm->timing[TS_TIMING_alu_latency];
  warp->next_cycle = product + 1;
  ts__define(sm, warp, op, product + latency, TS_STALL_TENSOR);
  ts__span(sm, warp, op, TS_MODEL_UNIT_TENSOR, product, product + interval, 0);
  return start;
}

/* Interval of one wgmma on the tensor cores: arithmetic, or the fetch of its operands. */
static double wgmma_interval(const struct ts__sm *sm, const struct ts_code_insn *insn,
                             bool is_register_a) {
  double macs = (double)insn->m * insn->n * insn->k;
  double interval = macs / (sm->timing[TS_TIMING_wgmma_macs_per_cycle] * ts__matrix_rate(insn));
  double floor = is_register_a ? sm->timing[TS_TIMING_wgmma_floor_rs]
                               : sm->timing[TS_TIMING_wgmma_floor_ss] +
                                     insn->n * sm->timing[TS_TIMING_wgmma_floor_ss_per_n];
  return interval > floor ? interval : floor;
}

/* The four warps are there: the collective goes to the tensor cores. */
static void fire(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                 struct ts__group_state *group, uint32_t ring) {
  const struct ts_code_insn *insn = &sm->code->insns[op->insn];
  bool is_register_a = insn->op == TS_OP_wgmma_rs || insn->op == TS_OP_wgmma_sp_rs;
  double interval = wgmma_interval(sm, insn, is_register_a);
  double start = ts__serve(&sm->tensor, group->arrival[ring], interval);
  /* Other accesses to shared memory have what the fetch of the operands leaves (MEASURED for STS). */
  double fetch = insn->n * sm->timing[TS_TIMING_wgmma_floor_ss_per_n];
  if (!is_register_a) fetch += sm->timing[TS_TIMING_wgmma_floor_ss];
  ts__serve(&sm->shared, group->arrival[ring], fetch);
  double tail = sm->timing[is_register_a ? TS_TIMING_wgmma_tail_rs : TS_TIMING_wgmma_tail_ss];
  group->start[ring] = start;
  group->fired++;
  ts__span(sm, warp, op, TS_MODEL_UNIT_TENSOR, start, start + interval, 0);
  ts__node_contribute(sm, &sm->blocks[warp->block], op->payload, 4, start + interval + tail);
}

double ts__do_wgmma(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                    enum ts_stall *stall) {
  struct ts__block_state *block = &sm->blocks[warp->block];
  struct ts__group_state *group = &sm->groups[(block->first_warp + warp->warp) / 4];
  uint64_t number = group->issued[warp->warp % 4]++;
  uint64_t queue = (uint64_t)sm->timing[TS_TIMING_wgmma_queue];
  uint32_t ring = (uint32_t)(number % TS__WGMMA_RING);
  struct ts__server *issue = &sm->issue[warp->sub];
  double start = warp->candidate;
  if (issue->free_cycle > start) start = issue->free_cycle, *stall = TS_STALL_ISSUE;
  /* Beyond the queue's depth, issue waits for an earlier collective to begin. */
  if (number >= queue && number - queue < group->fired) {
    double begun = group->start[(number - queue) % TS__WGMMA_RING];
    if (begun > start) start = begun, *stall = TS_STALL_TENSOR;
  }
  ts__serve(issue, start, 1);
  warp->next_cycle = start + sm->timing[TS_TIMING_wgmma_issue];
  if (group->arrived[ring] == 0 || start > group->arrival[ring]) group->arrival[ring] = start;
  if (++group->arrived[ring] == 4) {
    group->arrived[ring] = 0;
    fire(sm, warp, op, group, ring);
  }
  return start;
}

double ts__do_tmem(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                   enum ts_stall *stall) {
  struct ts__server *issue = &sm->issue[warp->sub];
  if (issue->free_cycle > warp->candidate) *stall = TS_STALL_ISSUE;
  double start = ts__serve(issue, warp->candidate, 1);
  double bytes = op->aux ? op->aux : 128;
  double share = sm->timing[TS_TIMING_tmem_bytes_per_cycle] / TS__SUB_PARTITIONS;
  warp->next_cycle = start + 1;
  ts__define(sm, warp, op, start + bytes / share + sm->timing[TS_TIMING_tmem_latency],
             TS_STALL_TENSOR);
  return start;
}

double ts__do_tcgen05(struct ts__sm *sm, struct ts__warp_state *warp, const struct ts__op *op,
                      enum ts_stall *stall) {
  const struct ts_code_insn *insn = &sm->code->insns[op->insn];
  struct ts__server *issue = &sm->issue[warp->sub];
  if (issue->free_cycle > warp->candidate) *stall = TS_STALL_ISSUE;
  double start = ts__serve(issue, warp->candidate, 1);
  double macs = op->payload;
  double interval = macs / (sm->timing[TS_TIMING_tcgen05_macs_per_cycle] * ts__matrix_rate(insn));
  double begun = ts__serve(&sm->tensor, start, interval);
  warp->next_cycle = start + sm->timing[TS_TIMING_tcgen05_issue];
  warp->last_async = begun + interval + sm->timing[TS_TIMING_tcgen05_latency];
  ts__span(sm, warp, op, TS_MODEL_UNIT_TENSOR, begun, begun + interval, 0);
  return start;
}
