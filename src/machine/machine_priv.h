/* The files of machines/ as the build compiles them in (cmake/machines.cmake). */
#ifndef TS_MACHINE_MACHINE_PRIV_H
#define TS_MACHINE_MACHINE_PRIV_H

#include "machine/machine.h"

#include <stddef.h>

struct ts__machine_text {
  const char *name;
  const unsigned char *bytes;
  size_t size_bytes;
};
extern const struct ts__machine_text ts__machine_texts[];
extern const size_t ts__machine_text_count;

#endif
