/* Diagnostics as SARIF 2.1.0 (DOC: OASIS, Static Analysis Results Interchange Format). */
#include "cli/cli_priv.h"

#include <string.h>

static bool get(const struct ts_sim *sim, uint32_t i, struct ts_diagnostic *diagnostic) {
  return ts_sim_diagnostic(sim, i, diagnostic) == TS_RESULT_OK;
}

/* Whether no diagnostic before i has its code. */
static bool is_first_of_code(const struct ts_sim *sim, uint32_t i, const char *code) {
  struct ts_diagnostic diagnostic;
  for (uint32_t k = 0; k < i; k++)
    if (get(sim, k, &diagnostic) && strcmp(diagnostic.code, code) == 0) return false;
  return true;
}

static void print_rules(FILE *stream, const struct ts_sim *sim) {
  const char *separator = "";
  for (uint32_t i = 0; i < ts_sim_diagnostic_count(sim); i++) {
    struct ts_diagnostic diagnostic;
    if (!get(sim, i, &diagnostic) || !is_first_of_code(sim, i, diagnostic.code)) continue;
    fprintf(stream, "%s\n      {\"id\": \"%s\", \"shortDescription\": {\"text\": ", separator,
            diagnostic.code);
    cli_json_text(stream, diagnostic.title);
    fprintf(stream, "}}");
    separator = ",";
  }
}

static void print_location(FILE *stream, const char *file, uint32_t line, uint32_t column,
                           const char *text) {
  fprintf(stream, "{\"physicalLocation\": {\"artifactLocation\": {\"uri\": ");
  cli_json_text(stream, file);
  fprintf(stream, "}");
  if (line) {
    fprintf(stream, ", \"region\": {\"startLine\": %u", line);
    if (column) fprintf(stream, ", \"startColumn\": %u", column);
    fprintf(stream, "}");
  }
  fprintf(stream, "}");
  if (text) {
    fprintf(stream, ", \"message\": {\"text\": ");
    cli_json_text(stream, text);
    fprintf(stream, "}");
  }
  fprintf(stream, "}");
}

static void print_result(FILE *stream, const struct ts_diagnostic *diagnostic) {
  const char *level = strcmp(diagnostic->severity, "remark") == 0 ? "note" : "error";
  fprintf(stream,
          "{\"ruleId\": \"%s\", \"level\": \"%s\", \"message\": {\"text\": ", diagnostic->code,
          level);
  cli_json_text(stream, diagnostic->message);
  fprintf(stream, "}");
  if (diagnostic->file) {
    fprintf(stream, ", \"locations\": [");
    print_location(stream, diagnostic->file, diagnostic->line, diagnostic->column, NULL);
    fprintf(stream, "]");
  }
  if (diagnostic->other_file) {
    fprintf(stream, ", \"relatedLocations\": [");
    print_location(stream, diagnostic->other_file, diagnostic->other_line, diagnostic->other_column,
                   "the other access");
    fprintf(stream, "]");
  }
  fprintf(stream,
          ", \"occurrenceCount\": %llu, \"properties\": {\"block\": %lld, \"warp\": %lld, "
          "\"lane\": %lld, \"hint\": ",
          (unsigned long long)diagnostic->repeat_count, (long long)diagnostic->block,
          (long long)diagnostic->warp, (long long)diagnostic->lane);
  cli_json_text(stream, diagnostic->hint);
  fprintf(stream, "}}");
}

void cli_sarif(FILE *stream, const struct ts_sim *sim) {
  const char *separator = "";
  fprintf(stream,
          "{\n  \"$schema\": \"https://json.schemastore.org/sarif-2.1.0.json\",\n"
          "  \"version\": \"2.1.0\",\n  \"runs\": [{\n    \"tool\": {\"driver\": {\"name\": "
          "\"tilesim\", \"version\": \"%s\", \"rules\": [",
          ts_version());
  print_rules(stream, sim);
  fprintf(stream, "\n    ]}},\n    \"results\": [");
  for (uint32_t i = 0; i < ts_sim_diagnostic_count(sim); i++) {
    struct ts_diagnostic diagnostic;
    if (!get(sim, i, &diagnostic)) continue;
    fprintf(stream, "%s\n      ", separator);
    print_result(stream, &diagnostic);
    separator = ",";
  }
  fprintf(stream, "\n    ]\n  }]\n}\n");
}
