/* Every signal that kills by default kills a child, and the parent sees which. */
#include "check.h"

int main(void) {
  for (int number = 1; number <= SIGRTMAX; number++) {
    if (number == 32 || number == 33) continue; /* the C library's own */
    pid_t child = fork();
    if (child == 0) {
      raise(number);
      _exit(0);
    }
    int status;
    check(waitpid(child, &status, WUNTRACED) == child);
    if (WIFSTOPPED(status)) {
      printf("%d stopped\n", number);
      kill(child, SIGKILL);
      check(waitpid(child, &status, 0) == child);
    } else if (WIFSIGNALED(status)) {
      printf("%d killed by %d\n", number, WTERMSIG(status));
    } else {
      printf("%d ignored\n", number);
    }
    fflush(stdout);
  }
  return 0;
}
