/* Opening a case: its launch.json (if any), then the modules, then what the parameters are. */
#include "api/api_priv.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { LAUNCH_FILE_LIMIT_BYTES = 1 << 24 };

/* launch.json while a case is being opened. */
struct launch_info {
  const char *path;
  cJSON *root; /* NULL: there is no such file */
};

static enum ts_status fail_json(struct ts_sim *sim, const struct launch_info *info,
                                const char *what, const char *name) {
  return ts_fail(&sim->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, TS_FILE_PLACE(info->path), "%s%s%s",
                 what, name ? ": " : "", name ? name : "");
}

static enum ts_status parse_json(struct ts_sim *sim, struct launch_info *info,
                                 const struct ts_file *file) {
  const char *end = NULL;
  info->root = cJSON_ParseWithLengthOpts(file->data, file->size_bytes + 1, &end, 1);
  if (info->root && cJSON_IsObject(info->root)) return TS_OK;
  struct ts_source_place place = {info->path, 1, 0};
  for (const char *at = file->data; end && at < end; at++)
    place.line += *at == '\n';
  if (info->root)
    return ts_fail(&sim->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, TS_FILE_PLACE(info->path),
                   "expected a JSON object, found a value of another type");
  size_t good_bytes = end ? (size_t)(end - file->data) : 0;
  return ts_fail(&sim->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_SYNTAX, place,
                 "expected a JSON object, found %s at byte %zu",
                 good_bytes < file->size_bytes ? "something else" : "the end of the text",
                 good_bytes);
}

static enum ts_status read_launch_info(struct ts_sim *sim, const char *folder,
                                       struct launch_info *info) {
  struct ts_file file;
  info->root = NULL;
  info->path = ts_arena_printf(&sim->case_arena, "%s/launch.json", folder);
  if (!info->path) return ts_fail_memory(&sim->ctx);
  struct stat entry; /* a link to nowhere is no missing file, it is a mistake */
  if (lstat(info->path, &entry) && errno == ENOENT) return TS_OK;
  if (!ts_file_exists(info->path))
    return ts_fail(&sim->ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(info->path),
                   "neither a file nor a link to one");
  TS_TRY(ts_file_read(&sim->ctx, info->path, LAUNCH_FILE_LIMIT_BYTES, &file));
  enum ts_status status = parse_json(sim, info, &file);
  ts_file_free(&file);
  return status;
}

static bool config_fast_math(const struct launch_info *info) {
  const cJSON *config = cJSON_GetObjectItemCaseSensitive(info->root, "config");
  return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(config, "tl.enable_fast_math"));
}

/* --- default arguments */

static struct ts__parameter *parameter_named(struct ts_sim *sim, const cJSON *name) {
  for (uint32_t i = 0; cJSON_IsString(name) && i < sim->parameter_count; i++) {
    if (strcmp(sim->parameters[i].tvm->name, name->valuestring) == 0) return &sim->parameters[i];
  }
  return NULL;
}

/* An integer that a double holds exactly. */
static bool get_int(const cJSON *item, int64_t *value) {
  if (!cJSON_IsNumber(item) || !(item->valuedouble >= -0x1p53 && item->valuedouble <= 0x1p53))
    return false;
  *value = (int64_t)item->valuedouble;
  return (double)*value == item->valuedouble;
}

static bool get_shape(const cJSON *item, struct ts__argument *argument) {
  const cJSON *extent;
  if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) > TS_MAX_RANK) return false;
  argument->rank = 0;
  cJSON_ArrayForEach(extent, item) {
    int64_t *value = &argument->shape[argument->rank++];
    if (!get_int(extent, value) || *value < 0) return false;
  }
  argument->has_shape = true;
  return true;
}

static bool get_role(const cJSON *item, struct ts__parameter *parameter) {
  static const struct {
    const char *text;
    enum ts_role role;
  } roles[] = {{"in", TS_ROLE_IN}, {"out", TS_ROLE_OUT}, {"inout", TS_ROLE_INOUT}};
  for (size_t i = 0; cJSON_IsString(item) && i < sizeof roles / sizeof *roles; i++) {
    if (strcmp(item->valuestring, roles[i].text) != 0) continue;
    parameter->role = roles[i].role;
    parameter->has_role = true;
    return true;
  }
  return false;
}

static bool get_init(const cJSON *mode, struct ts__argument *argument) {
  const char *rest =
      cJSON_IsString(mode) ? ts__init_parse(mode->valuestring, &argument->init) : NULL;
  return rest && !*rest;
}

/* A mode that draws must state its seed: another one would silently be other data. */
static bool get_seed(const cJSON *seed, struct ts__argument *argument) {
  enum ts__init_kind kind = argument->init.kind;
  bool is_drawn = kind == TS__INIT_UNIFORM || kind == TS__INIT_INT || kind == TS__INIT_BITS ||
                  kind == TS__INIT_META24;
  int64_t value = 0;
  if (seed ? !get_int(seed, &value) || value < 0 : is_drawn) return false;
  argument->seed = (uint64_t)value;
  return true;
}

static enum ts_status read_tensor(struct ts_sim *sim, const struct launch_info *info,
                                  const cJSON *item) {
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
  const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype");
  struct ts__parameter *parameter = parameter_named(sim, name);
  const char *text = cJSON_IsString(name) ? name->valuestring : "(no name)";
  if (!parameter || !parameter->tvm->is_tensor)
    return fail_json(sim, info, "the host function has no such tensor", text);
  struct ts__argument *argument = &parameter->default_argument;
  enum ts_dtype type = cJSON_IsString(dtype)
                           ? ts_dtype_from_tvm(dtype->valuestring, strlen(dtype->valuestring))
                           : TS_DTYPE_NONE;
  if (type == TS_DTYPE_NONE) return fail_json(sim, info, "unknown dtype of tensor", text);
  argument->dtype = (uint8_t)type;
  if (!get_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), argument))
    return fail_json(sim, info, "expected `shape` to be an array of integers, none below 0, tensor",
                     text);
  if (argument->rank != parameter->tvm->rank)
    return fail_json(sim, info, "`shape` has another rank than the host function's tensor", text);
  if (!get_role(cJSON_GetObjectItemCaseSensitive(item, "role"), parameter))
    return fail_json(sim, info, "expected `role` to be in, out or inout, tensor", text);
  if (!get_init(cJSON_GetObjectItemCaseSensitive(item, "init"), argument))
    return fail_json(sim, info,
                     "expected `init` to be uniform, int:LOW:HIGH, bits, meta24, fill:HH, const:V "
                     "or iota:D:M, tensor",
                     text);
  if (!get_seed(cJSON_GetObjectItemCaseSensitive(item, "seed"), argument))
    return fail_json(sim, info, "expected `seed` to be an integer from 0 to 2^53, tensor", text);
  argument->kind = TS__ARGUMENT_INIT;
  return TS_OK;
}

static enum ts_status read_scalar(struct ts_sim *sim, const struct launch_info *info,
                                  const cJSON *item) {
  const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "name");
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(item, "value");
  struct ts__parameter *parameter = parameter_named(sim, name);
  if (!parameter || parameter->tvm->is_tensor)
    return fail_json(sim, info, "the host function has no such scalar",
                     cJSON_IsString(name) ? name->valuestring : "(no name)");
  if (cJSON_IsNull(value)) return TS_OK;
  if (!cJSON_IsNumber(value))
    return fail_json(sim, info, "expected `value` to be a number, scalar", name->valuestring);
  struct ts__argument *argument = &parameter->default_argument;
  int64_t integer;
  argument->kind = TS__ARGUMENT_SCALAR;
  argument->scalar_is_float = !get_int(value, &integer);
  if (argument->scalar_is_float)
    memcpy(&argument->scalar, &value->valuedouble, sizeof argument->scalar);
  else
    argument->scalar = (uint64_t)integer;
  return TS_OK;
}

static enum ts_status read_defaults(struct ts_sim *sim, const struct launch_info *info) {
  const cJSON *item;
  const cJSON *tensors = cJSON_GetObjectItemCaseSensitive(info->root, "tensors");
  const cJSON *scalars = cJSON_GetObjectItemCaseSensitive(info->root, "scalars");
  if ((tensors && !cJSON_IsArray(tensors)) || (scalars && !cJSON_IsArray(scalars)))
    return fail_json(sim, info, "expected `tensors` and `scalars` to be arrays", NULL);
  cJSON_ArrayForEach(item, tensors) TS_TRY(read_tensor(sim, info, item));
  cJSON_ArrayForEach(item, scalars) TS_TRY(read_scalar(sim, info, item));
  return TS_OK;
}

/* --- opening */

static enum ts_status list_parameters(struct ts_sim *sim) {
  uint32_t count = ts_tvm_param_count(sim->tvm);
  sim->parameters = ts_new_array(&sim->case_arena, struct ts__parameter, count ? count : 1);
  if (!sim->parameters) return ts_fail_memory(&sim->ctx);
  sim->parameter_count = count;
  for (uint32_t i = 0; i < count; i++) {
    sim->parameters[i].tvm = ts_tvm_param(sim->tvm, i);
    if (sim->parameters[i].tvm->rank > TS_MAX_RANK)
      return ts_fail(&sim->ctx, TS_LIMIT, TS_DIAG_LIMIT, TS_NO_PLACE,
                     "parameter %s has %u dimensions; the limit is %d",
                     sim->parameters[i].tvm->name, sim->parameters[i].tvm->rank, TS_MAX_RANK);
  }
  return TS_OK;
}

static enum ts_status open_modules(struct ts_sim *sim, const char *folder,
                                   const struct launch_info *info, enum ts_fast_math fast_math) {
  struct ts_tvm_options options = {.fast_math = fast_math == TS_FAST_MATH_ON};
  if (fast_math == TS_FAST_MATH_AUTO) options.fast_math = config_fast_math(info);
  TS_TRY(ts_tvm_open(&sim->ctx, folder, &options, &sim->tvm));
  TS_TRY(list_parameters(sim));
  return info->root ? read_defaults(sim, info) : TS_OK;
}

static enum ts_status check_folder(struct ts_sim *sim, const char *folder) {
  struct stat file;
  bool is_there = folder && stat(folder, &file) == 0;
  if (is_there && !S_ISDIR(file.st_mode))
    return ts_fail(&sim->ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(folder),
                   "is a file; expected a folder with device.json and host.json");
  if (!is_there)
    return ts_fail(&sim->ctx, TS_IO, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(folder),
                   "there is no such folder; a case is a folder with device.json and host.json");
  if (ts_tvm_sniff(folder)) return TS_OK;
  const char *plain = ts_arena_printf(&sim->case_arena, "%s/device.json", folder);
  const char *packed = ts_arena_printf(&sim->case_arena, "%s/device.json.xz", folder);
  if (!plain || !packed) return ts_fail_memory(&sim->ctx);
  bool has_device = ts_file_exists(plain) || ts_file_exists(packed);
  return ts_fail(&sim->ctx, TS_BAD_INPUT, TS_DIAG_INPUT_FILE, TS_FILE_PLACE(folder),
                 "not a case folder: expected the files device.json and host.json in it, plain or "
                 "with .xz; found no %s",
                 has_device ? "host.json" : "device.json");
}

enum ts_result ts_sim_open(struct ts_sim *sim, const char *folder, enum ts_fast_math fast_math) {
  struct launch_info info;
  ts__case_close(sim);
  enum ts_status status = check_folder(sim, folder);
  if (status != TS_OK) return ts__result(status);
  status = read_launch_info(sim, folder, &info);
  if (status == TS_OK) status = open_modules(sim, folder, &info, fast_math);
  cJSON_Delete(info.root);
  if (status != TS_OK) ts__case_close(sim);
  return ts__result(status);
}

void ts__case_close(struct ts_sim *sim) {
  ts__run_clear(sim);
  for (uint32_t i = 0; i < sim->parameter_count; i++)
    ts__argument_clear(sim, &sim->parameters[i].argument);
  sim->parameters = NULL;
  sim->parameter_count = 0;
  if (sim->ir_text) sim->allocator.resize(sim->allocator.user, sim->ir_text, sim->ir_bytes + 1, 0);
  sim->ir_text = NULL;
  if (sim->tvm) ts_tvm_close(sim->tvm);
  sim->tvm = NULL;
  ts_arena_free(&sim->case_arena);
  ts_arena_init(&sim->case_arena, &sim->allocator);
}

enum ts_result ts_sim_ir(struct ts_sim *sim, const char **text, size_t *size_bytes) {
  if (!sim->tvm) return ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING, "no case is open");
  if (!sim->ir_text) {
    enum ts_status status =
        ts_print_module(&sim->ctx, ts_tvm_module(sim->tvm), &sim->ir_text, &sim->ir_bytes);
    if (status != TS_OK) return ts__result(status);
  }
  *text = sim->ir_text;
  *size_bytes = sim->ir_bytes;
  return TS_RESULT_OK;
}

/* --- parameters */

uint32_t ts_sim_parameter_count(const struct ts_sim *sim) { return sim->parameter_count; }

enum ts_role ts__parameter_role(const struct ts__parameter *parameter) {
  if (parameter->has_role) return parameter->role;
  if (!parameter->tvm->is_written) return TS_ROLE_IN;
  return parameter->tvm->is_read ? TS_ROLE_INOUT : TS_ROLE_OUT;
}

enum ts_result ts_sim_parameter(const struct ts_sim *sim, uint32_t index,
                                struct ts_parameter *out) {
  if (index >= sim->parameter_count) return TS_RESULT_BAD_ARGUMENT;
  const struct ts__parameter *parameter = &sim->parameters[index];
  const struct ts__argument *fallback = &parameter->default_argument;
  bool has_shape = fallback->kind == TS__ARGUMENT_INIT && fallback->rank == parameter->tvm->rank;
  *out = (struct ts_parameter){
      .name = parameter->tvm->name,
      .is_tensor = parameter->tvm->is_tensor,
      .dtype = ts_dtype_name(parameter->tvm->dtype),
      .dtype_bits = ts_dtype_bits(parameter->tvm->dtype),
      .role = ts__parameter_role(parameter),
      .has_default = fallback->kind != TS__ARGUMENT_NONE,
      .rank = parameter->tvm->rank,
      .shape = parameter->tvm->shape,
      .symbols = parameter->tvm->symbol,
      .default_shape = has_shape ? fallback->shape : NULL,
  };
  return TS_RESULT_OK;
}

struct ts__parameter *ts__find_parameter(struct ts_sim *sim, const char *name) {
  enum { NEAR = 2 };
  const char *nearest = NULL;
  unsigned best = NEAR + 1;
  if (!sim->tvm) {
    ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING, "no case is open");
    return NULL;
  }
  for (uint32_t i = 0; i < sim->parameter_count; i++) {
    const char *candidate = sim->parameters[i].tvm->name;
    if (strcmp(candidate, name) == 0) return &sim->parameters[i];
    unsigned distance = ts__edit_distance(name, candidate, NEAR);
    if (strcasecmp(name, candidate) == 0) distance = 0;
    if (distance < best && distance < strlen(candidate)) {
      best = distance;
      nearest = candidate;
    }
  }
  char list[256] = "";
  size_t used = 0;
  for (uint32_t i = 0; i < sim->parameter_count && used < sizeof list; i++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "",
                             sim->parameters[i].tvm->name);
  ts__sim_fail(sim, TS_BAD_ARGUMENT, TS_DIAG_ARG_MISSING,
               "the host function has no parameter %s (it has %s)%s%s%s", name, list,
               nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
  return NULL;
}
