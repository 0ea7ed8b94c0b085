/* wait4 with usage, waitid with WNOWAIT, WNOHANG, process groups. */
#include <sys/resource.h>
#include "check.h"

int main(void) {
  pid_t child = fork();
  if (child == 0) {
    for (volatile long i = 0; i < 3000000; i++) {
    }
    _exit(1);
  }
  siginfo_t info;
  check(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_pid == child && info.si_code == CLD_EXITED);
  int status;
  struct rusage usage;
  check(wait4(child, &status, 0, &usage) == child && WEXITSTATUS(status) == 1);
  /* The kernel guesses from its ticks how time divides between user and system. */
  long used = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
  check(used > 0);
  child = fork();
  if (child == 0) {
    setpgid(0, 0);
    for (;;) pause();
  }
  setpgid(child, child);
  check(waitpid(-child, &status, WNOHANG) == 0);
  kill(-child, SIGTERM);
  check(waitpid(-child, &status, 0) == child && WTERMSIG(status) == SIGTERM);
  check(wait(&status) == -1 && errno == ECHILD);
  say("waited");
  return 0;
}
