/* Programs that do one thing over and over for as many seconds as the last argument says. */
#ifndef SOAK_H
#define SOAK_H

#include "check.h"

static struct timespec soak_end;

__attribute__((unused)) static void soak_start(int argc, char **argv) {
  check(argc > 1 && clock_gettime(CLOCK_MONOTONIC, &soak_end) == 0);
  soak_end.tv_sec += atoi(argv[argc - 1]);
}

/* Whether there is time for more. */
__attribute__((unused)) static int soak_on(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec < soak_end.tv_sec || (now.tv_sec == soak_end.tv_sec && now.tv_nsec < soak_end.tv_nsec);
}

/* A file of the working directory that has a name no longer. */
__attribute__((unused)) static int soak_file(size_t length) {
  char name[] = "soak-XXXXXX";
  int fd = mkstemp(name);
  check(fd >= 0 && unlink(name) == 0 && ftruncate(fd, (off_t)length) == 0);
  return fd;
}

#endif
