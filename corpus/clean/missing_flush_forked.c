/* Parent and child work on one pool, each making its own stores durable. */
// variants: clwb clflushopt clflush nt
#include "../pm.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  pid_t child = fork();
  if (child == 0) {
    STORE(pm[0].word[0], 1);
    PERSIST(pm[0]);
    return 0;
  }
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  int status;
  waitpid(child, &status, 0);
  STORE(pm[0].word[0], 2);
  PERSIST(pm[0]);
  return status;
}
