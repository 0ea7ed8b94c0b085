/* A child process stores and flushes, its parent fences. */
// variants: clwb clflushopt
#include "../pm.h"
#include <sys/wait.h>

int main(int argc, char **argv) {
  struct line *pm = map_pool(argv[1]);
  STORE(pm[1].word[0], 1);
  PERSIST(pm[1]);
  pid_t child = fork();
  if (child == 0) {
    STORE(pm[0].word[0], 1);
    FLUSH(pm[0]); // expect: missing-fence
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  SFENCE(); // expect: redundant-fence
  return status;
}
