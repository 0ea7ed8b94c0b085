/* A child that outlives its parent, in a session of its own, goes on. */
#include <sys/prctl.h>
#include "check.h"

int main(void) {
  check(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  int ends[2];
  check(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    pid_t middle = getpid();
    if (fork() == 0) {
      setsid();
      while (getppid() == middle) pause_ms(1);
      check(write(ends[1], "alive", 5) == 5);
      _exit(21);
    }
    _exit(0);
  }
  check(exit_status(child) == 0);
  char text[6] = {0};
  check(read(ends[0], text, 5) == 5);
  int status;
  check(wait(&status) > 0 && WEXITSTATUS(status) == 21);
  say(text);
  return 0;
}
