/* For programs that print which calls of their watched functions a recording must contain, in order:
 * `call NAME FIRST-ARGUMENT`, `return NAME RESULT`, `left NAME`. */
#ifndef CALL_LOG_H
#define CALL_LOG_H

#include "check.h"

#define watched __attribute__((noinline, noclone, externally_visible, used))

__attribute__((unused)) static void log_call(const char *what, const char *name, long value) {
  char line[128];
  snprintf(line, sizeof line, "%s %s %ld", what, name, value);
  say(line);
}

__attribute__((unused)) static void log_left(const char *name) {
  char line[128];
  snprintf(line, sizeof line, "left %s", name);
  say(line);
}

#endif
