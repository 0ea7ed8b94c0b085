/* What the programs with a recovery share. `PROGRAM POOL` does the work, `PROGRAM POOL check` is the recovery: it
 * repairs what its design can repair, and fails if what it finds then cannot be.
 *
 * Every word is durable before the next is stored, so that the only thing a program can do wrong is the order. A
 * pool of zeros is one in which nothing has happened yet. */
#ifndef RECOVERY_H
#define RECOVERY_H

#include "pm.h"
#include <stdio.h>

#define SET(place, value) \
  do {                    \
    STORE(place, value);  \
    PERSIST(place);       \
  } while (0)

#define REQUIRE(condition)                                    \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "it does not hold: %s\n", #condition); \
      exit(1);                                                \
    }                                                         \
  } while (0)

#endif
