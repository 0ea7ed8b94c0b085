/* PR_SET_PDEATHSIG reaches a child whose parent dies. */
#include <sys/prctl.h>
#include "check.h"

int main(void) {
  check(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  int ends[2];
  check(pipe(ends) == 0);
  pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) {
      check(prctl(PR_SET_PDEATHSIG, SIGUSR1) == 0);
      check(write(ends[1], "r", 1) == 1);
      for (;;) pause();
    }
    char byte;
    check(read(ends[0], &byte, 1) == 1);
    _exit(0);
  }
  check(exit_status(child) == 0);
  int status;
  check(wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
  say("died with its parent");
  return 0;
}
