/* What a run left behind: tensors, their hashes, and files. */
#include "api/api_priv.h"

#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ts__parameter *find_result(struct ts_sim *sim, const char *name) {
  struct ts__parameter *parameter = ts__find_parameter(sim, name ? name : "");
  if (!parameter) return NULL;
  if (!sim->has_run || !parameter->tvm->is_tensor) {
    ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING, "%s %s", name,
                 sim->has_run ? "is a scalar, not a tensor"
                              : "cannot be read: there was no complete run");
    return NULL;
  }
  return parameter;
}

static const uint8_t *tensor_data(const struct ts_sim *sim, const struct ts__tensor *tensor) {
  if (tensor->is_null) return NULL;
  return ts_device_pointer(&sim->memory, tensor->address, tensor->size_bytes);
}

enum ts_result ts_sim_tensor(struct ts_sim *sim, const char *name, struct ts_tensor *out) {
  const struct ts__parameter *parameter = find_result(sim, name);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  const struct ts__tensor *tensor = &parameter->tensor;
  *out = (struct ts_tensor){.dtype = ts_dtype_name((enum ts_dtype)tensor->dtype),
                            .rank = tensor->rank,
                            .shape = tensor->shape,
                            .strides = tensor->has_strides ? tensor->strides : NULL,
                            .data = tensor_data(sim, tensor),
                            .size_bytes = tensor->size_bytes};
  return TS_RESULT_OK;
}

/* --- compact content, in pieces: strided tensors are gathered row by row */

typedef bool take_piece_fn(void *user, const uint8_t *data, size_t size_bytes);

static bool gather(const struct ts__tensor *tensor, const uint8_t *data, take_piece_fn *take,
                   void *user) {
  int64_t index[TS_MAX_RANK] = {0};
  size_t elem_bytes = ts_dtype_bits((enum ts_dtype)tensor->dtype) / 8;
  uint64_t offset = 0;
  for (uint64_t i = 0; i < tensor->elem_count; i++) {
    if (!take(user, data + offset * elem_bytes, elem_bytes)) return false;
    for (uint32_t d = tensor->rank; d-- > 0;) {
      offset += (uint64_t)tensor->strides[d];
      if (++index[d] < tensor->shape[d]) break;
      offset -= (uint64_t)tensor->strides[d] * (uint64_t)tensor->shape[d];
      index[d] = 0;
    }
  }
  return true;
}

static bool feed(const struct ts_sim *sim, const struct ts__tensor *tensor, take_piece_fn *take,
                 void *user) {
  const uint8_t *data = tensor_data(sim, tensor);
  bool has_whole_bytes = ts_dtype_bits((enum ts_dtype)tensor->dtype) % 8 == 0;
  if (tensor->has_strides && has_whole_bytes) return gather(tensor, data, take, user);
  return tensor->size_bytes == 0 || take(user, data, (size_t)tensor->size_bytes);
}

static bool hash_piece(void *user, const uint8_t *data, size_t size_bytes) {
  SHA256Update(user, data, size_bytes);
  return true;
}

static void hash_tensor(const struct ts_sim *sim, const struct ts__tensor *tensor,
                        char text[TS_SHA256_TEXT_BYTES]) {
  SHA2_CTX hash;
  uint8_t digest[SHA256_DIGEST_LENGTH];
  SHA256Init(&hash);
  feed(sim, tensor, hash_piece, &hash);
  SHA256Final(digest, &hash);
  for (unsigned i = 0; i < SHA256_DIGEST_LENGTH; i++)
    snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

enum ts_result ts_sim_sha256(struct ts_sim *sim, const char *name,
                             char text[TS_SHA256_TEXT_BYTES]) {
  const struct ts__parameter *parameter = find_result(sim, name);
  if (!parameter) return TS_RESULT_BAD_ARGUMENT;
  hash_tensor(sim, &parameter->tensor, text);
  return TS_RESULT_OK;
}

/* --- files: everything goes to a temporary folder first, then is renamed */

struct output_folder {
  struct ts_sim *sim;
  struct ts_arena arena;
  const char *path, *temporary;
  bool was_there;
};

static enum ts_status fail_path(struct ts_sim *sim, const char *path, const char *what) {
  int number = errno;
  char reason[128];
  if (strerror_r(number, reason, sizeof reason))
    snprintf(reason, sizeof reason, "error %d", number);
  return ts_fail(&sim->ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(path), "cannot %s: %s", what,
                 reason);
}

static bool is_output(const struct ts__parameter *parameter) {
  return parameter->tvm->is_tensor && !parameter->tensor.is_null &&
         ts__parameter_role(parameter) != TS_ROLE_IN;
}

/* A parameter's name as a file name: a path separator in it must not lead elsewhere. */
static const char *file_name(struct output_folder *folder, const char *name) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  char *copy = ts_arena_printf(&folder->arena, "%s.npy", name);
  for (size_t i = 0; copy && copy[i]; i++) {
    if (!strchr(plain, copy[i]) || (i == 0 && copy[i] == '.')) copy[i] = '_';
  }
  return copy;
}

static bool write_piece(void *user, const uint8_t *data, size_t size_bytes) {
  return fwrite(data, 1, size_bytes, user) == size_bytes;
}

static enum ts_status write_npy(struct output_folder *folder, const char *path,
                                const struct ts__tensor *tensor) {
  size_t header_bytes;
  enum ts_dtype dtype = (enum ts_dtype)tensor->dtype;
  bool is_packed = ts_dtype_bits(dtype) % 8 != 0; /* sub-byte: a row of bytes */
  int64_t bytes_shape[1] = {(int64_t)tensor->size_bytes};
  char *header =
      is_packed ? ts__npy_header(&folder->arena, TS_DTYPE_u8, 1, bytes_shape, &header_bytes)
                : ts__npy_header(&folder->arena, dtype, tensor->rank, tensor->shape, &header_bytes);
  if (!header) return ts_fail_memory(&folder->sim->ctx);
  FILE *stream = fopen(path, "wb");
  if (!stream) return fail_path(folder->sim, path, "write");
  bool is_good = write_piece(stream, (const uint8_t *)header, header_bytes) &&
                 feed(folder->sim, tensor, write_piece, stream);
  if (!is_good) {
    enum ts_status status = fail_path(folder->sim, path, "write");
    fclose(stream);
    return status;
  }
  return fclose(stream) ? fail_path(folder->sim, path, "write") : TS_OK;
}

static void print_json_text(FILE *stream, const char *text) {
  putc('"', stream);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') putc('\\', stream);
    if (c < 0x20)
      fprintf(stream, "\\u%04x", c);
    else
      putc(c, stream);
  }
  putc('"', stream);
}

static void print_entry(const struct output_folder *folder, FILE *stream,
                        const struct ts__parameter *parameter, const char *name, bool is_first) {
  const struct ts__tensor *tensor = &parameter->tensor;
  char hash[TS_SHA256_TEXT_BYTES];
  hash_tensor(folder->sim, tensor, hash);
  fprintf(stream, "%s\n  {\"name\": ", is_first ? "" : ",");
  print_json_text(stream, parameter->tvm->name);
  fprintf(stream, ", \"file\": ");
  print_json_text(stream, name);
  fprintf(stream, ", \"dtype\": \"%s\", \"shape\": [", ts_dtype_name((enum ts_dtype)tensor->dtype));
  for (uint32_t d = 0; d < tensor->rank; d++)
    fprintf(stream, "%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
  fprintf(stream, "], \"sha256\": \"%s\"}", hash);
}

static enum ts_status write_index(struct output_folder *folder) {
  struct ts_sim *sim = folder->sim;
  const char *path = ts_arena_printf(&folder->arena, "%s/args.json", folder->temporary);
  bool is_first = true;
  if (!path) return ts_fail_memory(&sim->ctx);
  FILE *stream = fopen(path, "wb");
  if (!stream) return fail_path(sim, path, "write");
  fprintf(stream, "{\"tensors\": [");
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    if (!is_output(&sim->parameters[i])) continue;
    const char *name = file_name(folder, sim->parameters[i].tvm->name);
    print_entry(folder, stream, &sim->parameters[i], name ? name : "", is_first);
    is_first = false;
  }
  fprintf(stream, "\n]}\n");
  bool has_failed = ferror(stream) != 0;
  return fclose(stream) || has_failed ? fail_path(sim, path, "write") : TS_OK;
}

/* Calls visit for args.json (last) and every output's file name. */
static enum ts_status visit_files(struct output_folder *folder,
                                  enum ts_status (*visit)(struct output_folder *folder,
                                                          const char *name)) {
  struct ts_sim *sim = folder->sim;
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    if (!is_output(&sim->parameters[i])) continue;
    const char *name = file_name(folder, sim->parameters[i].tvm->name);
    if (!name) return ts_fail_memory(&sim->ctx);
    TS_TRY(visit(folder, name));
  }
  return visit(folder, "args.json");
}

static enum ts_status remove_file(struct output_folder *folder, const char *name) {
  const char *path = ts_arena_printf(&folder->arena, "%s/%s", folder->temporary, name);
  if (path) unlink(path);
  return TS_OK;
}

static enum ts_status move_file(struct output_folder *folder, const char *name) {
  const char *from = ts_arena_printf(&folder->arena, "%s/%s", folder->temporary, name);
  const char *to = ts_arena_printf(&folder->arena, "%s/%s", folder->path, name);
  if (!from || !to) return ts_fail_memory(&folder->sim->ctx);
  return rename(from, to) ? fail_path(folder->sim, to, "write") : TS_OK;
}

static enum ts_status write_files(struct output_folder *folder) {
  struct ts_sim *sim = folder->sim;
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    if (!is_output(&sim->parameters[i])) continue;
    const char *name = file_name(folder, sim->parameters[i].tvm->name);
    const char *path =
        name ? ts_arena_printf(&folder->arena, "%s/%s", folder->temporary, name) : NULL;
    struct stat info;
    if (!path) return ts_fail_memory(&sim->ctx);
    if (stat(path, &info) == 0)
      return ts_fail(&sim->ctx, TS_UNSUPPORTED, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(name),
                     "two outputs would have this file name");
    TS_TRY(write_npy(folder, path, &sim->parameters[i].tensor));
  }
  return write_index(folder);
}

/* A new folder appears as a whole; in one that exists the files are replaced one by one, which
 * can only fail for reasons that writing to the folder's disk did not show. */
static enum ts_status commit(struct output_folder *folder) {
  if (!folder->was_there && rename(folder->temporary, folder->path) == 0) return TS_OK;
  if (!folder->was_there && errno != ENOTEMPTY && errno != EEXIST)
    return fail_path(folder->sim, folder->path, "write");
  folder->was_there = true; /* perhaps only since a moment ago: another run made it */
  return visit_files(folder, move_file);
}

static enum ts_status write_folder(struct output_folder *folder) {
  struct stat info;
  folder->was_there = stat(folder->path, &info) == 0;
  if (folder->was_there && !S_ISDIR(info.st_mode)) {
    errno = ENOTDIR;
    return fail_path(folder->sim, folder->path, "write");
  }
  size_t length = strlen(folder->path);
  while (length > 1 && folder->path[length - 1] == '/')
    length--;
  folder->temporary =
      folder->was_there
          ? ts_arena_printf(&folder->arena, "%s/.tilesim-%ld", folder->path, (long)getpid())
          : ts_arena_printf(&folder->arena, "%.*s.tmp-%ld", (int)length, folder->path,
                            (long)getpid());
  if (!folder->temporary) return ts_fail_memory(&folder->sim->ctx);
  if (mkdir(folder->temporary, 0777)) return fail_path(folder->sim, folder->path, "make");
  enum ts_status status = write_files(folder);
  if (status == TS_OK) status = commit(folder);
  if (status != TS_OK) visit_files(folder, remove_file);
  if (status != TS_OK || folder->was_there) rmdir(folder->temporary);
  return status;
}

enum ts_result ts_sim_write_outputs(struct ts_sim *sim, const char *path) {
  struct output_folder folder = {.sim = sim, .path = path};
  if (!sim->has_run || !path || !*path)
    return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
                        "no outputs to write: there was no complete run, or no folder was named");
  ts_arena_init(&folder.arena, &sim->allocator);
  enum ts_status status = write_folder(&folder);
  ts_arena_free(&folder.arena);
  return ts__result(status);
}
