/* Matrix instructions by name: what a name means, how it is carried out, which names there are. */
#include "api/api_priv.h"
#include "tilesim/num.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names */

enum family { FAMILY_NONE, FAMILY_MMA, FAMILY_WGMMA, FAMILY_TCGEN05, FAMILY_MMAD };

enum token_flag {
  IS_SATFINITE = 1 << 0,
  IS_AND = 1 << 1,
  IS_XOR = 1 << 2,
  IS_NEGATE_A = 1 << 3,
  IS_NEGATE_B = 1 << 4
};

/* A name taken apart. */
struct name {
  enum family family;
  char kind[12]; /* of tcgen05 */
  uint32_t m, n, k;
  char types[4][8]; /* D, A, B, then C or the scale */
  uint32_t type_count;
  unsigned flags;
  uint32_t block;
};

/* The next piece between dots, "" at the end; false when it is too long for anything known. */
static bool next_token(const char **at, char token[16]) {
  size_t length = strcspn(*at, ".");
  if (length >= 16) return false;
  memcpy(token, *at, length);
  token[length] = '\0';
  *at += length;
  if (**at == '.') ++*at;
  return true;
}

static bool is_type(const char *token) {
  return strcmp(token, "b1") == 0 || strcmp(token, "ue8m0") == 0 || strcmp(token, "ue4m3") == 0 ||
         ts_dtype_from_name(token, strlen(token)) != TS_DTYPE_NONE;
}

/* "m16n8k16" */
static bool take_shape(struct name *name, const char *token) {
  int used = 0;
  if (sscanf(token, "m%3un%3uk%4u%n", &name->m, &name->n, &name->k, &used) != 3) return false;
  return token[used] == '\0';
}

static bool take_token(struct name *name, const char *token) {
  static const struct {
    const char *text;
    unsigned flag;
  } words[] = {
      {"satfinite", IS_SATFINITE},
      {"and", IS_AND},
      {"xor", IS_XOR},
      {"nega", IS_NEGATE_A},
      {"negb", IS_NEGATE_B},
      {"popc", 0},
      {"sync", 0},
      {"aligned", 0},
      {"row", 0},
      {"col", 0},
      {"mma_async", 0},
      {"cta_group::1", 0},
  };
  if (token[0] == 'm' && token[1] >= '0' && token[1] <= '9') return take_shape(name, token);
  if (strcmp(token, "block16") == 0 || strcmp(token, "block32") == 0) {
    name->block = token[5] == '1' ? 16 : 32;
    return true;
  }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    if (strcmp(words[i].text, token) != 0) continue;
    name->flags |= words[i].flag;
    return true;
  }
  if (!is_type(token) || name->type_count == 4 || strlen(token) >= sizeof name->types[0])
    return false;
  memcpy(name->types[name->type_count++], token, strlen(token) + 1);
  return true;
}

static bool take_family(struct name *name, const char **at) {
  char token[16], second[16];
  if (!next_token(at, token)) return false;
  name->family = strcmp(token, "mma") == 0       ? FAMILY_MMA
                 : strcmp(token, "wgmma") == 0   ? FAMILY_WGMMA
                 : strcmp(token, "tcgen05") == 0 ? FAMILY_TCGEN05
                 : strcmp(token, "ascend") == 0  ? FAMILY_MMAD
                                                 : FAMILY_NONE;
  if (name->family == FAMILY_MMA || name->family == FAMILY_WGMMA) return true;
  if (name->family == FAMILY_NONE || !next_token(at, second)) return false;
  if (name->family == FAMILY_MMAD) return strcmp(second, "mmad") == 0;
  if (strcmp(second, "mma") != 0 || !next_token(at, token)) return false;
  if (strcmp(token, "cta_group::1") == 0 && !next_token(at, token)) return false;
  const char *kind = strncmp(token, "kind::", 6) == 0 ? token + 6 : token;
  return (size_t)snprintf(name->kind, sizeof name->kind, "%s", kind) < sizeof name->kind;
}

static bool parse(const char *text, struct name *name) {
  char token[16];
  memset(name, 0, sizeof *name);
  if (!take_family(name, &text)) return false;
  while (*text) {
    if (!next_token(&text, token) || !take_token(name, token)) return false;
  }
  return name->m && name->n && name->k && name->type_count >= 3;
}

static enum ts_dtype type_at(const struct name *name, uint32_t index) {
  return ts_dtype_from_name(name->types[index], strlen(name->types[index]));
}

/* --- shapes */

static bool is_multiple(uint32_t value, uint32_t unit, uint32_t most) {
  return value != 0 && value % unit == 0 && value <= most;
}

/* Integer wgmma has steps of 8 up to 32 and of 16 beyond. */
static bool is_integer_n(uint32_t n) { return n <= 32 ? is_multiple(n, 8, 32) : n % 16 == 0; }

/* m8n8 is for f64 k4 and the smaller integer shapes; m16n8 of f64 came with sm_90. */
static bool mma_shape_exists(const struct name *name, enum ts_mma_profile profile) {
  enum ts_dtype a = type_at(name, 1);
  if (name->n != 8) return false;
  if (name->m == 16 && a == TS_DTYPE_f64) return profile != TS_MMA_PROFILE_nv_sm80;
  if (name->m == 16) return true;
  if (name->m != 8) return false;
  uint32_t bits = ts_dtype_is_int(a) ? ts_dtype_bits(a) : 0;
  return (a == TS_DTYPE_f64 && name->k == 4) || (bits && name->k * bits == 128);
}

static bool wgmma_shape_exists(const struct name *name) {
  bool is_integer = ts_dtype_is_int(type_at(name, 1)) || strcmp(name->types[1], "b1") == 0;
  return name->m == 64 && is_multiple(name->n, 8, 256) && (!is_integer || is_integer_n(name->n));
}

static bool tcgen05_shape_exists(const struct name *name) {
  bool has_scale = name->kind[0] == 'm' && name->kind[1] == 'x';
  if (name->m != 128 && (name->m != 64 || has_scale)) return false;
  return is_multiple(name->n, name->m == 128 && !has_scale ? 16 : 8, 256);
}

/* --- look-up */

static unsigned mma_flags(const struct name *name) {
  unsigned flags = 0;
  if (name->flags & IS_SATFINITE) flags |= TS_MMA_SATFINITE;
  if (name->flags & IS_NEGATE_A) flags |= TS_MMA_NEGATE_A;
  if (name->flags & IS_NEGATE_B) flags |= TS_MMA_NEGATE_B;
  return flags;
}

static void set_operands(struct ts_num_instruction *instruction, const struct name *name) {
  ts__num_operand(&instruction->operands[0], "a", 1, name->types[1], name->m, name->k);
  ts__num_operand(&instruction->operands[1], "b", 1, name->types[2], name->k, name->n);
  ts__num_operand(&instruction->operands[2], "c", 1, name->types[0], name->m, name->n);
  ts__num_operand(&instruction->result, "d", 1, name->types[0], name->m, name->n);
  instruction->operand_count = 3;
  instruction->m = name->m;
  instruction->n = name->n;
  instruction->k = name->k;
  instruction->flags = mma_flags(name);
}

static enum ts_result find_bits(const struct name *name, const struct ts__num_profile *profile,
                                struct ts_num_instruction *instruction) {
  bool is_wgmma = name->family == FAMILY_WGMMA;
  bool is_xor = name->flags & IS_XOR;
  if (strcmp(name->types[0], "s32") != 0 || strcmp(name->types[2], "b1") != 0 ||
      is_xor == ((name->flags & IS_AND) != 0) || (profile->scalar & TS_SCALAR_ASCEND))
    return TS_RESULT_UNSUPPORTED;
  if (is_wgmma && (name->k != 256 || is_xor || !wgmma_shape_exists(name) ||
                   profile->matrix != TS_MMA_PROFILE_nv_sm90))
    return TS_RESULT_UNSUPPORTED;
  bool has_shape = name->n == 8 && ((name->m == 8 && name->k == 128) ||
                                    (name->m == 16 && (name->k == 128 || name->k == 256)));
  if (!is_wgmma && (!has_shape || !profile->scalar)) return TS_RESULT_UNSUPPORTED;
  set_operands(instruction, name);
  instruction->kind = TS__NUM_MATRIX_BITS;
  instruction->flags = is_xor;
  instruction->fidelity = "exact";
  return TS_RESULT_OK;
}

static enum ts_result find_scaled(const struct name *name, struct ts_num_instruction *instruction) {
  bool has_scale = name->type_count == 4;
  const char *scale = name->types[3];
  if (has_scale && strcmp(scale, "ue8m0") != 0 && strcmp(scale, "ue4m3") != 0)
    return TS_RESULT_UNSUPPORTED;
  enum ts_dtype scale_dtype = !has_scale                    ? TS_DTYPE_NONE
                              : strcmp(scale, "ue8m0") == 0 ? TS_DTYPE_e8m0
                                                            : TS_DTYPE_e4m3;
  enum ts_dtype a = type_at(name, 1), b = type_at(name, 2);
  const struct ts_mma_scaled_op *op =
      ts_mma_scaled_find(name->kind, a, b, type_at(name, 0), scale_dtype, name->block);
  if (!op || op->k != name->k || (name->flags & (IS_NEGATE_A | IS_NEGATE_B | IS_SATFINITE)))
    return TS_RESULT_UNSUPPORTED;
  set_operands(instruction, name);
  if (has_scale) {
    uint32_t blocks = name->k / op->block;
    ts__num_operand(&instruction->operands[3], "scale_a", 7, scale, name->m, blocks);
    ts__num_operand(&instruction->operands[4], "scale_b", 7, scale, blocks, name->n);
    instruction->operand_count = 5;
  }
  instruction->kind = TS__NUM_MATRIX_SCALED;
  instruction->row = op;
  instruction->flags = (uint32_t)a | (uint32_t)b << 8;
  instruction->fidelity = ts_fidelity_name(op->fidelity);
  return TS_RESULT_OK;
}

/* Whether the kind of tcgen05 is the one that its operands belong to. */
static bool kind_fits(const char *kind, enum ts_dtype a) {
  if (a == TS_DTYPE_f16 || a == TS_DTYPE_bf16) return strcmp(kind, "f16") == 0;
  if (a == TS_DTYPE_tf32) return strcmp(kind, "tf32") == 0;
  if (ts_dtype_is_int(a)) return strcmp(kind, "i8") == 0;
  return strcmp(kind, "f8f6f4") == 0;
}

static bool shape_exists(const struct name *name, const struct ts__num_profile *profile) {
  switch (name->family) {
  case FAMILY_MMA: return mma_shape_exists(name, profile->matrix);
  case FAMILY_WGMMA: return wgmma_shape_exists(name);
  case FAMILY_TCGEN05: return tcgen05_shape_exists(name);
  default: return name->m <= 256 && name->n <= 256;
  }
}

static enum ts_result find_plain(const struct name *name, const struct ts__num_profile *profile,
                                 struct ts_num_instruction *instruction) {
  static const enum ts_mma_path paths[] = {
      [FAMILY_MMA] = TS_MMA_SYNC,
      [FAMILY_WGMMA] = TS_MMA_WGMMA,
      [FAMILY_TCGEN05] = TS_MMA_TCGEN05,
      [FAMILY_MMAD] = TS_MMA_CUBE,
  };
  enum ts_dtype a = type_at(name, 1), b = type_at(name, 2), acc = type_at(name, 0);
  bool is_mmad = name->family == FAMILY_MMAD;
  const struct ts_mma_op *op =
      ts_mma_find(profile->matrix, paths[name->family], a, b, acc, is_mmad ? 0 : name->k);
  if (!op || name->k % op->k != 0) return TS_RESULT_UNSUPPORTED;
  if ((name->flags & IS_SATFINITE) && !ts_dtype_is_int(a)) return TS_RESULT_UNSUPPORTED;
  if (name->family == FAMILY_TCGEN05 && !kind_fits(name->kind, a)) return TS_RESULT_UNSUPPORTED;
  set_operands(instruction, name);
  instruction->kind = TS__NUM_MATRIX;
  instruction->row = op;
  instruction->fidelity = ts_fidelity_name(op->fidelity);
  return TS_RESULT_OK;
}

enum ts_result ts__num_matrix_find(const char *text, const struct ts__num_profile *profile,
                                   struct ts_num_instruction *instruction) {
  struct name name;
  if (!parse(text, &name) || !shape_exists(&name, profile)) {
    if (!parse(text, &name) || strcmp(name.types[1], "b1") != 0) return TS_RESULT_UNSUPPORTED;
  }
  bool has_c = name.family == FAMILY_MMA;
  if (has_c && (name.type_count != 4 || strcmp(name.types[3], name.types[0]) != 0))
    return TS_RESULT_UNSUPPORTED;
  if (strcmp(name.types[1], "b1") == 0 && name.family <= FAMILY_WGMMA)
    return find_bits(&name, profile, instruction);
  if (name.flags & (IS_AND | IS_XOR)) return TS_RESULT_UNSUPPORTED;
  bool is_sm100 = profile->matrix == TS_MMA_PROFILE_nv_sm100;
  if (name.family == FAMILY_TCGEN05 && !is_sm100) return TS_RESULT_UNSUPPORTED;
  if (!has_c && name.family != FAMILY_TCGEN05 && name.type_count != 3) return TS_RESULT_UNSUPPORTED;
  bool is_plain = name.family != FAMILY_TCGEN05 || name.type_count == 3;
  if (is_plain && find_plain(&name, profile, instruction) == TS_RESULT_OK) return TS_RESULT_OK;
  return name.family == FAMILY_TCGEN05 ? find_scaled(&name, instruction) : TS_RESULT_UNSUPPORTED;
}

/* --- execution */

/* What one matrix takes, and where the converted forms of its operands are. */
struct job {
  const struct ts_num_instruction *instruction;
  const struct ts_mma_op *op;
  struct ts_mma_scratch *scratch;
  uint8_t *packed_a, *packed_b; /* 4-bit operands, two per byte */
  uint32_t *slots;              /* f16 accumulators */
};

static void pack_nibbles(uint8_t *packed, const uint8_t *elements, size_t count) {
  for (size_t i = 0; i < count; i += 2)
    packed[i / 2] = (uint8_t)((elements[i] & 15) | elements[i + 1] << 4);
}

static void run_plain(const struct job *job, void *d, const void *a, const void *b, const void *c) {
  const struct ts_num_instruction *x = job->instruction;
  const struct ts_mma_op *op = job->op;
  size_t a_bits = ts_dtype_bits(op->a), b_bits = ts_dtype_bits(op->b), count = (size_t)x->m * x->n;
  bool is_half = op->acc == TS_DTYPE_f16;
  if (a_bits == 4) pack_nibbles(job->packed_a, a, (size_t)x->m * x->k);
  if (b_bits == 4) pack_nibbles(job->packed_b, b, (size_t)x->k * x->n);
  if (is_half) ts_dtype_unpack(TS_DTYPE_f16, job->slots, c, count);
  ts_mma_prepare_a(op, job->scratch, x->m, x->k / op->k, a_bits == 4 ? job->packed_a : a,
                   x->k * a_bits / 8, a_bits / 8, x->flags);
  ts_mma_prepare_b(op, job->scratch, x->n, x->k / op->k, b_bits == 4 ? job->packed_b : b,
                   b_bits / 8, x->n * b_bits / 8, x->flags);
  ts_mma_multiply(op, job->scratch, 0, x->m, x->n, x->k / op->k, is_half ? job->slots : c,
                  is_half ? job->slots : d, x->n, x->flags);
  if (is_half) ts_dtype_pack(TS_DTYPE_f16, d, job->slots, count);
}

static void run_scaled(const struct job *job, void *d, const void *const *operands) {
  const struct ts_num_instruction *x = job->instruction;
  const struct ts_mma_scaled_op *op = x->row;
  size_t count = (size_t)x->m * x->n;
  bool is_half = op->acc == TS_DTYPE_f16;
  if (is_half) ts_dtype_unpack(TS_DTYPE_f16, job->slots, operands[2], count);
  ts_mma_scaled_tile(op, (enum ts_dtype)(x->flags & 0xff), (enum ts_dtype)(x->flags >> 8), x->m,
                     x->n, operands[0], operands[1], is_half ? job->slots : operands[2],
                     is_half ? job->slots : d, operands[3], operands[4]);
  if (is_half) ts_dtype_pack(TS_DTYPE_f16, d, job->slots, count);
}

static void run_one(const struct job *job, void *d, const void *const *operands) {
  const struct ts_num_instruction *x = job->instruction;
  if (x->kind == TS__NUM_MATRIX)
    run_plain(job, d, operands[0], operands[1], operands[2]);
  else if (x->kind == TS__NUM_MATRIX_SCALED)
    run_scaled(job, d, operands);
  else
    ts_mma_bits_tile(x->flags != 0, x->m, x->n, x->k, operands[0], operands[1], operands[2], d);
}

static size_t matrix_bytes(const struct ts_num_operand *operand) {
  return (size_t)operand->rows * operand->columns * operand->element_bytes;
}

static bool take_memory(struct job *job) {
  const struct ts_num_instruction *x = job->instruction;
  size_t a = (size_t)x->m * x->k, b = (size_t)x->k * x->n, d = (size_t)x->m * x->n;
  bool is_plain = x->kind == TS__NUM_MATRIX;
  job->slots = malloc(d * sizeof *job->slots);
  job->packed_a = malloc(a);
  job->packed_b = malloc(b);
  if (is_plain) job->scratch = ts_mma_scratch_new(&ts_allocator_libc, x->m, x->n, x->k);
  return job->slots && job->packed_a && job->packed_b && (job->scratch || !is_plain);
}

enum ts_result ts__num_matrix_run(const struct ts_num_instruction *instruction, void *result,
                                  const void *const *operands, size_t count) {
  struct job job = {.instruction = instruction, .op = instruction->row};
  bool has_memory = take_memory(&job);
  for (size_t i = 0; has_memory && i < count; i++) {
    const void *matrices[TS_NUM_MAX_OPERANDS] = {NULL};
    for (uint32_t j = 0; j < instruction->operand_count; j++)
      matrices[j] = (const char *)operands[j] + i * matrix_bytes(&instruction->operands[j]);
    run_one(&job, (char *)result + i * matrix_bytes(&instruction->result), matrices);
  }
  ts_mma_scratch_free(job.scratch);
  free(job.packed_b);
  free(job.packed_a);
  free(job.slots);
  return has_memory ? TS_RESULT_OK : TS_RESULT_NO_MEMORY;
}

/* --- the list */

static void describe_shape(struct ts_num_listing *listing, const char *m, const char *n, uint32_t k,
                           const char *a, const char *b, const char *acc) {
  snprintf(listing->operands, sizeof listing->operands, "a:%s[%s][%u] b:%s[%u][%s] c:%s[%s][%s]", a,
           m, k, b, k, n, acc, m, n);
  snprintf(listing->result, sizeof listing->result, "%s[%s][%s]", acc, m, n);
}

static const char *kind_name(enum ts_dtype a) {
  if (ts_dtype_is_int(a)) return "i8";
  if (a == TS_DTYPE_tf32) return "tf32";
  return ts_dtype_bits(a) == 8 ? "f8f6f4" : "f16";
}

static void list_plain(const struct ts_mma_op *op, struct ts_num_listing *listing) {
  static const char *const notes[] = {
      [TS_MMA_SYNC] = "",
      [TS_MMA_WGMMA] = "N = 8, 16 .. 256",
      [TS_MMA_TCGEN05] = "M = 64 or 128, N = 16, 32 .. 256",
      [TS_MMA_CUBE] = "M, N = 1 .. 256, K any multiple",
  };
  const char *a = ts_dtype_name(op->a), *b = ts_dtype_name(op->b), *acc = ts_dtype_name(op->acc);
  bool is_fixed = op->path == TS_MMA_SYNC;
  bool is_small = op->a == TS_DTYPE_f64 && op->k == 4;
  const char *m = is_fixed ? (is_small ? "8" : "16") : op->path == TS_MMA_WGMMA ? "64" : "M";
  const char *n = is_fixed ? "8" : "N";
  const char *family = op->path == TS_MMA_SYNC    ? "mma"
                       : op->path == TS_MMA_WGMMA ? "wgmma"
                       : op->path == TS_MMA_CUBE  ? "ascend.mmad"
                                                  : "tcgen05.mma";
  bool has_kind = op->path == TS_MMA_TCGEN05;
  const char *kind = kind_name(op->a);
  snprintf(listing->name, sizeof listing->name, "%s%s%s.m%sn%sk%u.%s.%s.%s%s%s", family,
           has_kind ? "." : "", has_kind ? kind : "", m, n, op->k, acc, a, b, is_fixed ? "." : "",
           is_fixed ? acc : "");
  snprintf(listing->note, sizeof listing->note, "%s", notes[op->path]);
  describe_shape(listing, m, n, op->k, a, b, acc);
}

static bool is_same(const struct ts_mma_op *x, const struct ts_mma_op *y) {
  return x->path == y->path && x->a == y->a && x->b == y->b && x->acc == y->acc && x->k == y->k;
}

static void add_profile(struct ts_num_listing *listing, enum ts_mma_profile matrix) {
  size_t length = strlen(listing->profiles);
  for (size_t i = 0; i < TS__NUM_PROFILE_COUNT; i++) {
    if (ts__num_profiles[i].matrix == matrix)
      snprintf(listing->profiles + length, sizeof listing->profiles - length, "%s%s",
               length ? " " : "", ts__num_profiles[i].name);
  }
}

/* m16n8 of f64 came with sm_90; before there is m8n8k4 alone. */
static bool is_missing(const struct ts_mma_op *op) {
  return op->a == TS_DTYPE_f64 && op->k != 4 && op->profile == TS_MMA_PROFILE_nv_sm80;
}

/* Rows of several profiles are one entry. Answers whether index was below the number of entries,
 * and counts it down by that number otherwise. */
static bool list_plain_at(uint32_t *index, struct ts_num_listing *listing) {
  const struct ts_mma_op *op, *other;
  for (size_t i = 0; (op = ts_mma_at(i)) != NULL; i++) {
    size_t first = 0;
    while (!is_same(ts_mma_at(first), op))
      first++;
    if (first != i) continue;
    if ((*index)-- != 0) continue;
    list_plain(op, listing);
    for (size_t j = 0; (other = ts_mma_at(j)) != NULL; j++) {
      if (is_same(other, op) && !is_missing(other)) add_profile(listing, other->profile);
    }
    return true;
  }
  return false;
}

static void list_scaled(const struct ts_mma_scaled_op *op, const char *a, const char *b,
                        struct ts_num_listing *listing) {
  bool has_scale = op->scale != TS_DTYPE_NONE;
  const char *acc = ts_dtype_name(op->acc), *scale = op->scale == TS_DTYPE_e8m0 ? "ue8m0" : "ue4m3";
  const char *m = has_scale ? "128" : "M";
  uint32_t blocks = op->k / op->block;
  snprintf(listing->name, sizeof listing->name, "tcgen05.mma.%s.m%snNk%u.%s.%s.%s%s%s%s", op->kind,
           m, op->k, acc, a, b, has_scale ? "." : "", has_scale ? scale : "",
           !has_scale        ? ""
           : op->block == 16 ? ".block16"
                             : ".block32");
  describe_shape(listing, m, "N", op->k, a, b, acc);
  size_t length = strlen(listing->operands);
  if (has_scale)
    snprintf(listing->operands + length, sizeof listing->operands - length,
             " scale_a:%s[128][%u] scale_b:%s[%u][N]", scale, blocks, scale, blocks);
  snprintf(listing->note, sizeof listing->note, "%s",
           has_scale ? "N = 8, 16 .. 256" : "M = 64 or 128, N = 16, 32 .. 256");
  snprintf(listing->profiles, sizeof listing->profiles, "sm_100");
}

static bool list_scaled_at(uint32_t *index, struct ts_num_listing *listing) {
  for (size_t i = 0; i < ts_mma_scaled_count(); i++) {
    const struct ts_mma_scaled_op *op = ts_mma_scaled_at(i);
    for (unsigned pair = 0; pair < TS_DTYPE_COUNT * TS_DTYPE_COUNT; pair++) {
      enum ts_dtype a = (enum ts_dtype)(pair / TS_DTYPE_COUNT),
                    b = (enum ts_dtype)(pair % TS_DTYPE_COUNT);
      if (!ts_mma_scaled_takes(op, a) || !ts_mma_scaled_takes(op, b)) continue;
      bool is_plain = op->scale == TS_DTYPE_NONE &&
                      ts_mma_find(TS_MMA_PROFILE_nv_sm100, TS_MMA_TCGEN05, a, b, op->acc, op->k);
      if (is_plain || (*index)-- != 0) continue;
      list_scaled(op, ts_dtype_name(a), ts_dtype_name(b), listing);
      return true;
    }
  }
  return false;
}

/* Shapes that the tables have not as rows of their own. */
static const struct {
  const char *name, *profiles, *operands, *result, *note;
} extra_rows[] = {
#define SMALL_INT(a, b, k)                                                                         \
  {"mma.m8n8k" #k ".s32." #a "." #b ".s32", "sm_90 sm_100 sm_80",                                  \
   "a:" #a "[8][" #k "] b:" #b "[" #k "][8] c:s32[8][8]", "s32[8][8]", ""},
    SMALL_INT(s8, s8, 16) SMALL_INT(s8, u8, 16) SMALL_INT(u8, s8, 16) SMALL_INT(u8, u8, 16)
        SMALL_INT(s4, s4, 32) SMALL_INT(s4, u4, 32) SMALL_INT(u4, s4, 32) SMALL_INT(u4, u4, 32)
#define BITS(op, m, k)                                                                             \
  {"mma.m" #m "n8k" #k ".s32.b1.b1.s32." #op ".popc", "sm_90 sm_100 sm_80",                        \
   "a:b1[" #m "][" #k "] b:b1[" #k "][8] c:s32[" #m "][8]", "s32[" #m "][8]", ""},
            BITS(and, 8, 128) BITS(and, 16, 128) BITS(and, 16, 256) BITS(xor, 8, 128)
                BITS(xor, 16, 128) BITS(xor, 16, 256){"wgmma.m64nNk256.s32.b1.b1.and.popc", "sm_90",
                                                      "a:b1[64][256] b:b1[256][N] c:s32[64][N]",
                                                      "s32[64][N]", "N = 8, 16, 24, 32, 48 .. 256"},
    {"mma.m16n8k4.f64.f64.f64.f64", "sm_90 sm_100", "a:f64[16][4] b:f64[4][8] c:f64[16][8]",
     "f64[16][8]", ""},
};

enum ts_result ts__num_matrix_list(uint32_t index, struct ts_num_listing *listing) {
  if (list_plain_at(&index, listing) || list_scaled_at(&index, listing)) return TS_RESULT_OK;
  if (index >= sizeof extra_rows / sizeof *extra_rows) return TS_RESULT_BAD_ARGUMENT;
  snprintf(listing->name, sizeof listing->name, "%s", extra_rows[index].name);
  snprintf(listing->profiles, sizeof listing->profiles, "%s", extra_rows[index].profiles);
  snprintf(listing->operands, sizeof listing->operands, "%s", extra_rows[index].operands);
  snprintf(listing->result, sizeof listing->result, "%s", extra_rows[index].result);
  snprintf(listing->note, sizeof listing->note, "%s", extra_rows[index].note);
  return TS_RESULT_OK;
}
