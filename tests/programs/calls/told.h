/* Programs that tell on standard output which calls of their watched functions a recording must hold, in
 * order: `call NAME FIRST-ARGUMENT`, `return NAME RESULT`, `left NAME`. */
#ifndef TOLD_H
#define TOLD_H

#include "check.h"

#define watched __attribute__((noinline, noclone, externally_visible, used))

__attribute__((unused)) static void told(const char *what, const char *name, long value) {
  char line[128];
  snprintf(line, sizeof line, "%s %s %ld", what, name, value);
  say(line);
}

__attribute__((unused)) static void told_left(const char *name) {
  char line[128];
  snprintf(line, sizeof line, "left %s", name);
  say(line);
}

#endif
