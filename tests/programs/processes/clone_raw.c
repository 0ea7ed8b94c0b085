/* clone and clone3 without the C library: as fork, with shared memory, with a pidfd, with an exit signal. */
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include "check.h"

static volatile int written;

static int child_function(void *argument) {
  written = *(int *)argument;
  return 12;
}

int main(void) {
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(4);
  check(exit_status(child) == 4);

  int pidfd = -1;
  pid_t tid = 0;
  struct clone_args arguments = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID,
                                 .pidfd = (uintptr_t)&pidfd,
                                 .parent_tid = (uintptr_t)&tid,
                                 .exit_signal = SIGCHLD};
  child = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
  if (child == 0) _exit(5);
  siginfo_t info;
  check(child > 0 && tid == child && pidfd >= 0);
  check(waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) == 0 && info.si_status == 5);

  char *stack = malloc(65536);
  int value = 33;
  child = clone(child_function, stack + 65536, CLONE_VM | SIGCHLD, &value);
  check(child > 0 && exit_status(child) == 12 && written == 33);

  value = 44;
  child = clone(child_function, stack + 65536, CLONE_VM | CLONE_VFORK | SIGCHLD, &value);
  check(child > 0 && written == 44 && exit_status(child) == 12);

  child = clone(child_function, stack + 65536, CLONE_FS | CLONE_FILES | SIGCHLD, &value);
  check(child > 0 && exit_status(child) == 12);

  child = clone(child_function, stack + 65536, 0, &value); /* no exit signal: only __WALL sees it */
  int status;
  check(waitpid(child, &status, 0) == -1 && errno == ECHILD);
  check(waitpid(child, &status, __WALL) == child && WEXITSTATUS(status) == 12);
  say("cloned");
  return 0;
}
