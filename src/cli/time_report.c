/* The report of a time, as text and JSON. */
#include "cli/cli_priv.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- sums */

static int compare_shares(const void *a, const void *b) {
  const struct cli_share *x = a, *y = b;
  if (x->share != y->share) return x->share > y->share ? -1 : 1;
  return strcmp(x->name, y->name);
}

static void add_share(struct cli_share *shares, uint32_t *count, const char *name, double cycles) {
  uint32_t at = 0;
  while (at < *count && strcmp(shares[at].name, name) != 0)
    at++;
  if (at == CLI_SHARE_LIMIT) return;
  if (at == *count) shares[(*count)++] = (struct cli_share){name, 0};
  shares[at].share += cycles;
}

uint32_t cli_stall_shares(const struct ts_time *time, struct cli_share shares[CLI_SHARE_LIMIT]) {
  uint32_t count = 0;
  double all = 0;
  for (uint32_t i = 0; i < time->launch_count; i++) {
    const struct ts_time_launch *launch = &time->launches[i];
    for (uint32_t r = 0; r < launch->role_count; r++) {
      const struct ts_time_role *role = &launch->roles[r];
      double warps = role->warp_count * (double)launch->block_count;
      add_share(shares, &count, "issuing", role->issue_cycles * warps);
      for (uint32_t s = 0; s < role->stall_count; s++)
        add_share(shares, &count, role->stalls[s].name, role->stalls[s].value * warps);
    }
  }
  for (uint32_t i = 0; i < count; i++)
    all += shares[i].share;
  for (uint32_t i = 0; i < count && all > 0; i++)
    shares[i].share /= all;
  qsort(shares, count, sizeof *shares, compare_shares);
  return count;
}

static double role_life(const struct ts_time_role *role) {
  double life = role->issue_cycles;
  for (uint32_t s = 0; s < role->stall_count; s++)
    life += role->stalls[s].value;
  return life > 0 ? life : 1;
}

/* Share of what the machine could do at most, and what sets that bound. */
struct bound {
  double share;
  const char *what;
};

static double unit_share(const struct ts_time_launch *launch, const char *name) {
  for (uint32_t i = 0; i < launch->unit_count; i++)
    if (strcmp(launch->units[i].name, name) == 0) return launch->units[i].value;
  return 0;
}

static struct bound find_bound(const struct ts_time_launch *launch) {
  struct bound bound = {launch->peak_flop_share, "peak of the matrix units"};
  double dram = unit_share(launch, "DRAM bandwidth"), l2 = unit_share(launch, "L2 bandwidth");
  if (l2 > bound.share) bound = (struct bound){l2, "L2 bandwidth"};
  if (dram > bound.share) bound = (struct bound){dram, "DRAM bandwidth"};
  return bound;
}

bool cli_is_latency_bound(const struct ts_time_launch *launch) {
  enum { BOUND_PERCENT = 60 }; /* a unit that is busier than that sets the pace */
  return 100 * unit_share(launch, launch->limiting_unit) < BOUND_PERCENT;
}

/* --- text: at most 80 columns */

/* A number with a unit prefix: "2.15 G". */
static const char *scaled(double value, char text[32]) {
  static const char prefixes[] = " kMGTP";
  size_t prefix = 0;
  while (value >= 1000 && prefix + 2 < sizeof prefixes) {
    value /= 1000;
    prefix++;
  }
  snprintf(text, 32, "%.3g%s%.*s", value, prefix ? " " : "", prefix ? 1 : 0, prefixes + prefix);
  if (!prefix) snprintf(text, 32, "%.3g ", value);
  return text;
}

/* Two digits, and none of what is too small to matter, so that a line of these fits 80 columns. */
static const char *rounded(double value, char text[32]) {
  if (value > 0 && value < 0.01) return "<0.01";
  snprintf(text, 32, value < 100 ? "%.2g" : "%.0f", value);
  return text;
}

/* Items of a list, broken before column 80. */
struct list {
  size_t column, indent;
};

static void put_item(struct list *list, bool is_first, const char *item) {
  enum { WIDTH = 80 };
  size_t length = strlen(item);
  if (!is_first) {
    putchar(',');
    list->column++;
  }
  if (!is_first && list->column + 2 + length > WIDTH) {
    printf("\n%*s", (int)list->indent, "");
    list->column = list->indent;
  } else if (!is_first) {
    putchar(' ');
    list->column++;
  }
  list->column += (size_t)printf("%s", item);
}

static void print_geometry(const struct ts_time_launch *launch,
                           const struct ts_machine_info *info) {
  char shared[32];
  printf("\n%s\n", launch->function);
  printf("  blocks     %llu of %u threads, %u registers (%s), %sB shared\n",
         (unsigned long long)launch->block_count, launch->threads_per_block,
         launch->registers_per_thread, launch->registers_are_estimated ? "estimated" : "given",
         scaled((double)launch->shared_bytes, shared));
  printf("  occupancy  %u a SM, bound by %s; %.2f waves on %u SMs\n", launch->blocks_per_sm,
         launch->occupancy_limit, launch->wave_count, info->sm_count);
}

static void print_work(const struct ts_time_launch *launch) {
  char flop[32], rate[32], intensity[32], share[32], l2[32], dram[32];
  double seconds = launch->kernel_us * 1e-6;
  struct bound bound = find_bound(launch);
  printf("  cycles     %.0f at %.0f MHz\n", launch->cycles, launch->clock_mhz);
  printf("  phases     of the first block: prologue %.0f, steady %.0f, epilogue %.0f\n",
         launch->prologue_cycles, launch->steady_cycles, launch->epilogue_cycles);
  printf("  traffic    L2 %sB, %.1f %% hits; DRAM %sB\n", scaled(launch->l2_bytes, l2),
         100 * launch->l2_hit_rate, scaled(launch->dram_bytes, dram));
  if (launch->flop > 0 && seconds > 0)
    printf("  work       %sFLOP, %sFLOP/s; roofline at %s FLOP/B: %s %% of peak\n",
           scaled(launch->flop, flop), scaled(launch->flop / seconds, rate),
           rounded(launch->intensity_flop_per_byte, intensity),
           rounded(100 * launch->roofline_flop_share, share));
  printf("  achieved   %.1f %% of the %s\n", 100 * bound.share, bound.what);
  if (cli_is_latency_bound(launch))
    printf("  limited by latency; the busiest unit, %s, has %.1f %%\n", launch->limiting_unit,
           100 * unit_share(launch, launch->limiting_unit));
  else
    printf("  limited by %s\n", launch->limiting_unit);
}

static void print_units(const struct ts_time_launch *launch) {
  enum { WIDTH = 40 };
  printf("\n  unit                 busy\n");
  for (uint32_t i = 0; i < launch->unit_count; i++) {
    double share = launch->units[i].value;
    if (share < 0.0005) continue;
    int filled = (int)(share * WIDTH + 0.5);
    printf("  %-18s %5.1f %%%s%.*s\n", launch->units[i].name, 100 * share, filled ? "  " : "",
           filled < WIDTH ? filled : WIDTH, "########################################");
  }
}

static void print_roles(const struct ts_time_launch *launch) {
  enum { SHOWN = 5, INDENT = 20 };
  printf("\n  %% of a warp's life\n");
  for (uint32_t r = 0; r < launch->role_count; r++) {
    const struct ts_time_role *role = &launch->roles[r];
    double life = role_life(role);
    char item[64];
    printf("  %-17s ", role->name);
    struct list list = {INDENT, INDENT};
    snprintf(item, sizeof item, "issuing %.1f", 100 * role->issue_cycles / life);
    put_item(&list, true, item);
    for (uint32_t s = 0; s < role->stall_count && s < SHOWN; s++) {
      double share = role->stalls[s].value / life;
      if (share < 0.005) break;
      snprintf(item, sizeof item, "%s %.1f", role->stalls[s].name, 100 * share);
      put_item(&list, false, item);
    }
    printf("\n");
  }
}

/* The instructions of one source line and op together. */
static bool is_same_place(const struct ts_time_bank *a, const struct ts_time_bank *b) {
  return a->line == b->line && strcmp(a->op, b->op) == 0 &&
         (a->file == b->file || (a->file && b->file && strcmp(a->file, b->file) == 0));
}

static uint32_t merge_banks(const struct ts_time_launch *launch,
                            struct ts_time_bank merged[TS_TIME_BANKS]) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < launch->bank_count; i++) {
    const struct ts_time_bank *bank = &launch->banks[i];
    uint32_t at = 0;
    if (bank->wavefronts < 1.005 * bank->ideal_wavefronts) continue;
    while (at < count && !is_same_place(&merged[at], bank))
      at++;
    if (at == count)
      merged[count++] = (struct ts_time_bank){bank->op, bank->file, bank->line, 0, 0, 0, 0};
    double accesses = (double)bank->access_count;
    merged[at].access_count += bank->access_count;
    merged[at].wavefronts += bank->wavefronts * accesses;
    merged[at].ideal_wavefronts += bank->ideal_wavefronts * accesses;
  }
  return count;
}

static void print_banks(const struct ts_time_launch *launch) {
  enum { NAME_WIDTH = 34 };
  struct ts_time_bank merged[TS_TIME_BANKS];
  uint32_t count = merge_banks(launch, merged);
  if (count)
    printf("\n  bank conflicts                       op             accesses  waves  least\n");
  for (uint32_t i = 0; i < count; i++) {
    const struct ts_time_bank *bank = &merged[i];
    char place[512];
    double accesses = (double)bank->access_count;
    snprintf(place, sizeof place, "%s:%u", bank->file ? bank->file : "?", bank->line);
    size_t length = strlen(place);
    printf("  %-*s   %-14s %8llu %6.2f %6.2f\n", NAME_WIDTH,
           length > NAME_WIDTH ? place + length - NAME_WIDTH : place, bank->op,
           (unsigned long long)bank->access_count, bank->wavefronts / accesses,
           bank->ideal_wavefronts / accesses);
  }
}

static void print_unverified(const struct ts_time *time) {
  if (time->unverified_count == 0) return;
  int start = printf("\nguesses    ");
  struct list list = {(size_t)start - 1, (size_t)start - 1};
  for (uint32_t i = 0; i < time->unverified_count; i++)
    put_item(&list, i == 0, time->unverified[i]);
  printf("\n");
}

void cli_print_time(struct ts_sim *sim, const struct ts_time *time, const char *what) {
  struct ts_machine_info info;
  ts_sim_machine(sim, &info);
  printf("%s\non %s at %.0f MHz\n\n", what, time->machine, time->clock_mhz);
  printf("hot   %10.3f us  +- %.0f %%; an empty kernel's %.2f us are in it\n", time->kernel_us,
         100 * time->uncertainty, time->launch_us);
  printf("cold  %10.3f us  L2 holds other data\n", time->kernel_us_cold);
  for (uint32_t i = 0; i < time->launch_count; i++) {
    const struct ts_time_launch *launch = &time->launches[i];
    if (launch->block_count == 0) continue;
    print_geometry(launch, &info);
    print_work(launch);
    print_units(launch);
    print_roles(launch);
    print_banks(launch);
  }
  print_unverified(time);
}

/* --- JSON */

/* NaN and infinities are not JSON. */
static void json_number(FILE *stream, const char *key, double value) {
  if (isfinite(value))
    fprintf(stream, ", \"%s\": %.9g", key, value);
  else
    fprintf(stream, ", \"%s\": null", key);
}

static void json_shares(FILE *stream, const struct ts_time_share *shares, uint32_t count) {
  putc('{', stream);
  for (uint32_t i = 0; i < count; i++)
    fprintf(stream, "%s\"%s\": %.6g", i ? ", " : "", shares[i].name, shares[i].value);
  putc('}', stream);
}

static void json_roles(FILE *stream, const struct ts_time_launch *launch) {
  fprintf(stream, ",\n     \"roles\": [");
  for (uint32_t i = 0; i < launch->role_count; i++) {
    const struct ts_time_role *role = &launch->roles[i];
    fprintf(stream, "%s\n      {\"name\": ", i ? "," : "");
    cli_json_text(stream, role->name);
    fprintf(stream,
            ", \"first_warp\": %u, \"warps\": %u, \"life_cycles\": %.6g, \"issue_cycles\": %.6g"
            ", \"stalls\": ",
            role->first_warp, role->warp_count, role_life(role), role->issue_cycles);
    json_shares(stream, role->stalls, role->stall_count);
    putc('}', stream);
  }
  putc(']', stream);
}

static void json_banks(FILE *stream, const struct ts_time_launch *launch) {
  fprintf(stream, ",\n     \"banks\": [");
  for (uint32_t i = 0; i < launch->bank_count; i++) {
    const struct ts_time_bank *bank = &launch->banks[i];
    fprintf(stream, "%s\n      {\"op\": \"%s\", \"insn\": %u, \"file\": ", i ? "," : "", bank->op,
            bank->insn);
    cli_json_text(stream, bank->file);
    fprintf(stream, ", \"line\": %u, \"accesses\": %llu, \"wavefronts\": %.6g, \"least\": %.6g}",
            bank->line, (unsigned long long)bank->access_count, bank->wavefronts,
            bank->ideal_wavefronts);
  }
  putc(']', stream);
}

static void json_launch(FILE *stream, const struct ts_time_launch *launch) {
  struct bound bound = find_bound(launch);
  fprintf(stream, "\n    {\"function\": ");
  cli_json_text(stream, launch->function);
  fprintf(stream,
          ", \"blocks\": %llu, \"simulated_blocks\": %llu, \"events\": %llu"
          ", \"threads_per_block\": %u,\n     \"registers_per_thread\": %u"
          ", \"registers_are_estimated\": %s, \"shared_bytes\": %llu, \"blocks_per_sm\": %u"
          ", \"occupancy_limit\": ",
          (unsigned long long)launch->block_count,
          (unsigned long long)launch->simulated_block_count,
          (unsigned long long)launch->event_count, launch->threads_per_block,
          launch->registers_per_thread, launch->registers_are_estimated ? "true" : "false",
          (unsigned long long)launch->shared_bytes, launch->blocks_per_sm);
  cli_json_text(stream, launch->occupancy_limit);
  json_number(stream, "waves", launch->wave_count);
  fprintf(stream,
          ",\n     \"cycles\": %.9g, \"clock_mhz\": %.6g, \"kernel_us\": %.9g, \"cold_us\": %.9g, "
          "\"phases\": "
          "{\"prologue\": %.6g, \"steady\": %.6g, \"epilogue\": %.6g}",
          launch->cycles, launch->clock_mhz, launch->kernel_us, launch->cold_us,
          launch->prologue_cycles, launch->steady_cycles, launch->epilogue_cycles);
  fprintf(stream, ",\n     \"limiting_unit\": \"%s\", \"units\": ", launch->limiting_unit);
  json_shares(stream, launch->units, launch->unit_count);
  fprintf(stream, ", \"is_latency_bound\": %s", cli_is_latency_bound(launch) ? "true" : "false");
  fprintf(stream, ",\n     \"limit\": \"%s\"", bound.what);
  json_number(stream, "limit_share", bound.share);
  json_number(stream, "flop", launch->flop);
  json_number(stream, "l2_bytes", launch->l2_bytes);
  json_number(stream, "dram_bytes", launch->dram_bytes);
  json_number(stream, "l2_hit_rate", launch->l2_hit_rate);
  json_number(stream, "peak_flop_share", launch->peak_flop_share);
  json_number(stream, "intensity_flop_per_byte", launch->intensity_flop_per_byte);
  json_number(stream, "roofline_flop_share", launch->roofline_flop_share);
  json_roles(stream, launch);
  json_banks(stream, launch);
  putc('}', stream);
}

void cli_json_time(FILE *stream, const struct ts_time *time) {
  struct cli_share shares[CLI_SHARE_LIMIT];
  uint32_t count = cli_stall_shares(time, shares);
  fprintf(stream, ",\n  \"machine\": ");
  cli_json_text(stream, time->machine);
  fprintf(
      stream,
      ",\n  \"kernel_us\": %.6f,\n  \"kernel_us_cold\": %.6f,\n  \"launch_us\": %.6g"
      ",\n  \"cycles\": %.9g,\n  \"clock_mhz\": %.6g,\n  \"uncertainty\": %.6g,\n  \"stalls\": {",
      time->kernel_us, time->kernel_us_cold, time->launch_us, time->cycles, time->clock_mhz,
      time->uncertainty);
  for (uint32_t i = 0; i < count; i++)
    fprintf(stream, "%s\"%s\": %.6g", i ? ", " : "", shares[i].name, shares[i].share);
  fprintf(stream, "},\n  \"unverified\": [");
  for (uint32_t i = 0; i < time->unverified_count; i++) {
    fputs(i ? ", " : "", stream);
    cli_json_text(stream, time->unverified[i]);
  }
  fprintf(stream, "],\n  \"launches\": [");
  for (uint32_t i = 0; i < time->launch_count; i++) {
    fputs(i ? "," : "", stream);
    json_launch(stream, &time->launches[i]);
  }
  fprintf(stream, "]");
}
