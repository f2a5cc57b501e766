/* String interning: equal strings become the same pointer, valid as long as the table. */
#ifndef TS_BASE_INTERN_H
#define TS_BASE_INTERN_H

#include "base/alloc.h"

struct ts_intern {
  struct ts_arena *arena;
  const char **slots; /* open addressing, power-of-two size */
  size_t slot_count, used_count;
};

/* The table's strings live in the arena. */
void ts_intern_init(struct ts_intern *table, struct ts_arena *arena);

/* The unique NUL-terminated copy, or NULL when memory is short. */
const char *ts_intern(struct ts_intern *table, const char *text, size_t length);

#endif
