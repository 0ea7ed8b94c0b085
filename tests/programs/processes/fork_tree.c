/* A tree of forks, each process computing, all collected. */
#include "check.h"

static int grow(int depth) {
  int nodes = 1;
  for (int i = 0; i < 2 && depth > 0; i++) {
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) _exit(grow(depth - 1));
    nodes += exit_status(child);
  }
  return nodes;
}

int main(void) {
  printf("%d processes\n", grow(5));
  return 0;
}
