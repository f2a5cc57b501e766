/* The list of diagnostics: codes from diag.def, merging, thread-safe appending. */
#include "base/diag.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_LIMIT = 256, SHORT_MESSAGE_BYTES = 512 };

static const struct {
  const char *text;
  enum ts_severity severity;
  const char *title;
} code_table[] = {
#define DIAG(name, code, severity, title) {code, TS_SEVERITY_##severity, title},
#include "base/diag.def"
#undef DIAG
};

const char *ts_diag_code_text(enum ts_diag_code code) {
  return (unsigned)code < TS_DIAG_CODE_COUNT ? code_table[code].text : "TS-UNKNOWN";
}

const char *ts_diag_code_title(enum ts_diag_code code) {
  return (unsigned)code < TS_DIAG_CODE_COUNT ? code_table[code].title : "unknown diagnostic";
}

enum ts_severity ts_diag_severity(enum ts_diag_code code) {
  return (unsigned)code < TS_DIAG_CODE_COUNT ? code_table[code].severity : TS_SEVERITY_ERROR;
}

enum ts_status ts_diag_list_init(struct ts_diag_list *list, const struct ts_allocator *allocator) {
  memset(list, 0, sizeof *list);
  ts_arena_init(&list->arena, allocator);
  list->limit = DEFAULT_LIMIT;
  pthread_mutex_t *lock = allocator->resize(allocator->user, NULL, 0, sizeof *lock);
  if (!lock) return TS_NO_MEMORY;
  if (pthread_mutex_init(lock, NULL)) {
    allocator->resize(allocator->user, lock, sizeof *lock, 0);
    return TS_NO_MEMORY;
  }
  list->lock = lock;
  return TS_OK;
}

void ts_diag_list_free(struct ts_diag_list *list) {
  const struct ts_allocator *allocator = list->arena.allocator;
  if (list->lock) {
    pthread_mutex_destroy(list->lock);
    allocator->resize(allocator->user, list->lock, sizeof(pthread_mutex_t), 0);
    list->lock = NULL;
  }
  ts_vec_free(&list->items, allocator);
  ts_arena_free(&list->arena);
}

static int compare_text(const char *a, const char *b) {
  if (a == b) return 0;
  if (!a || !b) return a ? 1 : -1;
  return strcmp(a, b);
}

static int compare_u64(uint64_t a, uint64_t b) { return (a > b) - (a < b); }
static int compare_i64(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_places(const struct ts_source_place *a, const struct ts_source_place *b) {
  int order = compare_u64(a->line, b->line);
  if (!order) order = compare_u64(a->column, b->column);
  if (!order) order = compare_text(a->file, b->file);
  return order;
}

/* Who met it: block, warp, lane. */
static int compare_agents(const struct ts_diag *a, const struct ts_diag *b) {
  int order = compare_i64(a->block, b->block);
  if (!order) order = compare_i64(a->warp, b->warp);
  if (!order) order = compare_i64(a->lane, b->lane);
  return order;
}

/* What it is: the identity under which diagnostics are merged. */
static int compare_kinds(const struct ts_diag *a, const struct ts_diag *b) {
  int order = compare_places(&a->place, &b->place);
  if (!order) order = compare_u64(a->code, b->code);
  if (!order) order = compare_places(&a->other, &b->other);
  if (!order) order = compare_text(a->function, b->function);
  return order;
}

/* A copy of text in the list's arena; NULL only for NULL or when memory is short. */
static const char *keep(struct ts_diag_list *list, const char *text) {
  if (!text) return NULL;
  const char *copy = ts_arena_copy(&list->arena, text, strlen(text));
  if (!copy) list->out_of_memory = true;
  return copy;
}

/* The wording and the agent of the lowest occurrence stay, whichever thread came first. */
static void merge(struct ts_diag_list *list, struct ts_diag *item, const struct ts_diag *diag) {
  item->repeat_count += diag->repeat_count ? diag->repeat_count : 1;
  if (compare_agents(diag, item) >= 0) return;
  const char *message = item->message, *hint = item->hint;
  if (compare_text(message, diag->message)) message = keep(list, diag->message);
  if (compare_text(hint, diag->hint)) hint = keep(list, diag->hint);
  if (!message) return;
  item->message = message;
  item->hint = hint;
  item->block = diag->block;
  item->warp = diag->warp;
  item->lane = diag->lane;
}

static void append(struct ts_diag_list *list, const struct ts_diag *diag) {
  struct ts_diag copy = *diag;
  copy.message = keep(list, diag->message ? diag->message : ts_diag_code_title(diag->code));
  copy.hint = keep(list, diag->hint);
  copy.place.file = keep(list, diag->place.file);
  copy.other.file = keep(list, diag->other.file);
  copy.function = keep(list, diag->function);
  if (!copy.repeat_count) copy.repeat_count = 1;
  if (!copy.message) return;
  if (ts_vec_push(&list->items, list->arena.allocator, copy)) list->out_of_memory = true;
}

/* An error without a source line is told apart by its message as well: "no argument A" and "no
 * argument B" are two. */
static bool is_equal(const struct ts_diag *a, const struct ts_diag *b) {
  if (a->code != b->code || compare_kinds(a, b)) return false;
  if (ts_diag_severity(a->code) != TS_SEVERITY_ERROR || a->place.line) return true;
  return !b->message || compare_text(a->message, b->message) == 0;
}

static struct ts_diag *find_equal(struct ts_diag_list *list, const struct ts_diag *diag) {
  for (size_t i = 0; i < list->items.count; i++) {
    if (is_equal(&list->items.data[i], diag)) return &list->items.data[i];
  }
  return NULL;
}

void ts_diag_add(struct ts_diag_list *list, const struct ts_diag *diag) {
  pthread_mutex_lock(list->lock);
  struct ts_diag *equal = find_equal(list, diag);
  if (equal) {
    merge(list, equal, diag);
  } else if (list->items.count >= list->limit) {
    list->dropped_count++;
  } else {
    append(list, diag);
  }
  pthread_mutex_unlock(list->lock);
}

/* Diagnostics without a block come first, in the order in which they came. */
static bool is_before(const struct ts_diag *a, const struct ts_diag *b) {
  int order = compare_agents(a, b);
  if (order == 0 && a->block >= 0) order = compare_kinds(a, b);
  return order < 0;
}

/* Insertion sort: stable, and the list is short by its limit. */
void ts_diag_list_sort(struct ts_diag_list *list) {
  pthread_mutex_lock(list->lock);
  for (size_t i = 1; i < list->items.count; i++) {
    struct ts_diag moving = list->items.data[i];
    size_t to = i;
    for (; to > 0 && is_before(&moving, &list->items.data[to - 1]); to--) {
      list->items.data[to] = list->items.data[to - 1];
    }
    list->items.data[to] = moving;
  }
  pthread_mutex_unlock(list->lock);
}

static enum ts_status add_message(struct ts_ctx *ctx, enum ts_status status, enum ts_diag_code code,
                                  struct ts_source_place place, const char *message) {
  struct ts_diag diag = {.code = code, .message = message, .place = place};
  diag.block = diag.warp = diag.lane = -1;
  ts_diag_add(ctx->diags, &diag);
  return status;
}

enum ts_status ts_fail(struct ts_ctx *ctx, enum ts_status status, enum ts_diag_code code,
                       struct ts_source_place place, const char *format, ...) {
  char message[SHORT_MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  if (length < (int)sizeof message) return add_message(ctx, status, code, place, message);
  /* When there is no memory for the long message, its beginning must do. */
  struct ts_arena scratch;
  ts_arena_init(&scratch, ctx->allocator);
  va_start(arguments, format);
  const char *text = ts_arena_vprintf(&scratch, format, arguments);
  va_end(arguments);
  add_message(ctx, status, code, place, text ? text : message);
  ts_arena_free(&scratch);
  return status;
}

enum ts_status ts_fail_memory(struct ts_ctx *ctx) {
  return add_message(ctx, TS_NO_MEMORY, TS_DIAG_MEMORY, TS_NO_PLACE, "out of memory");
}
