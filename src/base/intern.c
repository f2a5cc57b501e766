/* String interning by open addressing. Order never depends on the hash: only identity does. */
#include "base/intern.h"

#include <string.h>

enum { FIRST_SLOT_COUNT = 64 };

void ts_intern_init(struct ts_intern *table, struct ts_arena *arena) {
  *table = (struct ts_intern){.arena = arena};
}

/* The length stands before the text, so that a NUL inside a string is a character like others. */
static size_t length_of(const char *interned) {
  size_t length;
  memcpy(&length, interned - sizeof length, sizeof length);
  return length;
}

/* FNV-1a; see http://www.isthe.com/chongo/tech/comp/fnv/ for the constants. */
static uint64_t hash_of(const char *text, size_t length) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < length; i++) {
    hash = (hash ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
  }
  return hash ^ hash >> 32;
}

/* The slot that holds the string, or the empty one where it belongs. */
static const char **find_slot(const char **slots, size_t slot_count, const char *text,
                              size_t length) {
  size_t index = (size_t)hash_of(text, length) & (slot_count - 1);
  while (slots[index]) {
    const char *other = slots[index];
    if (length_of(other) == length && (length == 0 || memcmp(other, text, length) == 0)) break;
    index = (index + 1) & (slot_count - 1);
  }
  return &slots[index];
}

/* Old slots stay in the arena; doubling bounds the waste by the table's own size. */
static int grow(struct ts_intern *table) {
  size_t slot_count = table->slot_count ? 2 * table->slot_count : FIRST_SLOT_COUNT;
  const char **slots = ts_new_array(table->arena, const char *, slot_count);
  if (!slots) return -1;
  for (size_t i = 0; i < table->slot_count; i++) {
    const char *text = table->slots[i];
    if (text) *find_slot(slots, slot_count, text, length_of(text)) = text;
  }
  table->slots = slots;
  table->slot_count = slot_count;
  return 0;
}

static const char *new_string(struct ts_intern *table, const char *text, size_t length) {
  char *block = ts_arena_alloc(table->arena, sizeof length + length + 1, _Alignof(size_t));
  if (!block) return NULL;
  memcpy(block, &length, sizeof length);
  if (length) memcpy(block + sizeof length, text, length);
  return block + sizeof length;
}

const char *ts_intern(struct ts_intern *table, const char *text, size_t length) {
  if (length > SIZE_MAX / 4) return NULL;
  if (table->slot_count) {
    const char *found = *find_slot(table->slots, table->slot_count, text, length);
    if (found) return found;
  }
  if (4 * (table->used_count + 1) > 3 * table->slot_count && grow(table)) return NULL;
  const char **slot = find_slot(table->slots, table->slot_count, text, length);
  *slot = new_string(table, text, length);
  if (*slot) table->used_count++;
  return *slot;
}
