/* tilesim machines: what machines there are, and every value of one with its source. */
#include "cli/cli_priv.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_option options[] = {
    {"--format", NULL, "text|json", "form of the list (text)"},
    {NULL, NULL, NULL, NULL},
};

struct machines_request {
  const struct cli_command *command;
  const char *name;
  bool is_json;
};

static bool take_option(void *user, const char *name, const char *value) {
  struct machines_request *request = user;
  return strcmp(name, "--format") != 0 || cli_format(request->command, value, &request->is_json);
}

/* --- all of them */

static void print_machine(const struct ts_machine_info *info, bool is_json, bool is_first) {
  if (!is_json) {
    printf("%-16s %-10s %4u SMs %6llu KB shared per block %4llu GiB\n", info->name, info->profile,
           info->sm_count, (unsigned long long)info->max_shared_bytes_per_block / 1024,
           (unsigned long long)(info->global_bytes >> 30));
    return;
  }
  printf("%s\n  {\"name\": ", is_first ? "" : ",");
  cli_json_text(stdout, info->name);
  printf(", \"profile\": ");
  cli_json_text(stdout, info->profile);
  printf(", \"sms\": %u, \"shared_bytes_per_block\": %llu, \"global_bytes\": %llu}", info->sm_count,
         (unsigned long long)info->max_shared_bytes_per_block,
         (unsigned long long)info->global_bytes);
}

static int is_machine_file(const struct dirent *entry) {
  const char *dot = strrchr(entry->d_name, '.');
  return dot && dot != entry->d_name && strcmp(dot, ".mach") == 0;
}

static bool is_built_in(const char *name) {
  for (uint32_t i = 0; ts_machine_name(i); i++)
    if (strcmp(ts_machine_name(i), name) == 0) return true;
  return false;
}

static enum ts_result list_one(struct ts_sim *sim, const char *folder, const char *name,
                               bool is_json, bool *is_first) {
  struct ts_machine_info info;
  enum ts_result result = ts_sim_set_machine(sim, folder, name);
  if (result != TS_RESULT_OK) return result;
  ts_sim_machine(sim, &info);
  print_machine(&info, is_json, *is_first);
  *is_first = false;
  return TS_RESULT_OK;
}

/* The machines compiled in, as the folder may have overruled them, then the folder's other files. */
static enum ts_result list_machines(struct ts_sim *sim, const char *folder, bool is_json) {
  struct dirent **entries = NULL;
  enum ts_result worst = TS_RESULT_OK;
  bool is_first = true;
  for (uint32_t i = 0; ts_machine_name(i); i++) {
    enum ts_result result = list_one(sim, folder, ts_machine_name(i), is_json, &is_first);
    if (result != TS_RESULT_OK) worst = result;
  }
  int count = scandir(folder, &entries, is_machine_file, alphasort);
  for (int i = 0; i < count; i++) {
    char path[8192], name[256];
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    snprintf(name, sizeof name, "%.*s", (int)(strlen(entries[i]->d_name) - strlen(".mach")),
             entries[i]->d_name);
    free(entries[i]);
    if (is_built_in(name)) continue;
    enum ts_result result = list_one(sim, folder, path, is_json, &is_first);
    if (result != TS_RESULT_OK) worst = result;
  }
  free(entries);
  return worst;
}

/* --- one */

struct listing {
  bool is_json, is_first;
};

static void print_row(void *user, const struct ts_machine_row *row) {
  struct listing *listing = user;
  if (!listing->is_json) {
    char left[80], text[512];
    snprintf(left, sizeof left, "%s %s %s", row->key, row->value, row->unit);
    snprintf(text, sizeof text, "%s  %s", row->tag, row->source);
    cli_print_row(stdout, left, 44, text);
    return;
  }
  printf("%s\n  {\"key\": ", listing->is_first ? "" : ",");
  listing->is_first = false;
  cli_json_text(stdout, row->key);
  printf(", \"value\": %s, \"unit\": ", strcmp(row->value, "none") == 0 ? "null" : row->value);
  cli_json_text(stdout, row->unit);
  printf(", \"tag\": \"%s\", \"source\": ", row->tag);
  cli_json_text(stdout, row->source);
  printf(", \"meaning\": ");
  cli_json_text(stdout, *row->meaning ? row->meaning : NULL);
  printf("}");
}

/* What is wrong with the file is known before the first line is printed. */
static enum ts_result list_values(struct ts_sim *sim, const char *folder, const char *name,
                                  bool is_json) {
  struct listing listing = {is_json, true};
  struct ts_machine_info info;
  enum ts_result result = ts_sim_set_machine(sim, folder, name);
  if (result != TS_RESULT_OK) return result;
  ts_sim_machine(sim, &info);
  if (is_json)
    printf("[");
  else
    printf("%s, numerics %s\n", info.name, info.profile);
  result = ts_sim_list_machine(sim, folder, name, print_row, &listing);
  if (is_json) printf("\n]\n");
  return result;
}

static int run_machines(const struct cli_command *command, int argc, char **argv) {
  struct machines_request request = {.command = command};
  char buffer[4096];
  int status = cli_parse(command, argc, argv, take_option, &request, &request.name);
  if (status >= 0) return status;
  struct ts_sim *sim = cli_create();
  if (!sim) return ts_result_exit_status(TS_RESULT_NO_MEMORY);
  const char *folder = cli_machine_folder(buffer, sizeof buffer);
  enum ts_result result;
  if (request.name) {
    result = list_values(sim, folder, request.name, request.is_json);
  } else {
    if (request.is_json) printf("[");
    result = list_machines(sim, folder, request.is_json);
    if (request.is_json) printf("\n]\n");
  }
  cli_print_diagnostics(sim);
  return cli_finish(sim, result);
}

const struct cli_command cli_command_machines = {
    .name = "machines",
    .synopsis = "machines [NAME] [options]",
    .summary = "list the machines, or the values of one with unit, tag and source; files in "
               "$TILESIM_MACHINES, or the folder beside the program, overrule those compiled in",
    .example = "tilesim machines\n"
               "         tilesim machines h200",
    .operand = "NAME",
    .options = options,
    .run = run_machines,
};
