/* Children store without pause and are killed at any moment, two hundred times. What a child stored last may be
 * missing: it was in memory and its record was not yet out.
 *
 * @varying
 * @missed 1600
 */
#include "pm.h"

enum { CHILDREN = 200, PAGE = 4096 };

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", CHILDREN * PAGE);
  int ends[2];
  check(pipe(ends) == 0);
  for (int i = 0; i < CHILDREN; i++) {
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
      volatile uint64_t *words = (volatile uint64_t *)(map + i * PAGE);
      words[0] = noise();
      check(write(ends[1], "x", 1) == 1);
      for (unsigned n = 0;; n++) words[n % (PAGE / 8)] = noise();
    }
    char byte;
    check(read(ends[0], &byte, 1) == 1);
    struct timespec time = {0, (long)(noise() % 2000000)};
    nanosleep(&time, NULL);
    check(kill(child, SIGKILL) == 0 && death_signal(child) == SIGKILL);
  }
  return 0;
}
