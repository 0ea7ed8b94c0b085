/* SIGCHLD reports which child, how and why; SA_NOCLDWAIT leaves no zombies; stop and continue are reported. */
#include "check.h"

static volatile pid_t who;
static volatile int code, status;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  who = info->si_pid;
  code = info->si_code;
  status = info->si_status;
}

static void await_code(int wanted) {
  sigset_t none;
  sigemptyset(&none);
  while (code != wanted) sigsuspend(&none);
}

int main(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, NULL);
  handle(SIGCHLD, handler, 0);
  pid_t child = fork();
  if (child == 0) _exit(7);
  await_code(CLD_EXITED);
  check(who == child && status == 7 && exit_status(child) == 7);
  child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    for (;;) pause();
  }
  await_code(CLD_STOPPED);
  int result;
  check(waitpid(child, &result, WUNTRACED) == child && WIFSTOPPED(result) && WSTOPSIG(result) == SIGSTOP);
  kill(child, SIGCONT);
  await_code(CLD_CONTINUED); /* else the next SIGCHLD would be lost in it */
  check(waitpid(child, &result, WCONTINUED) == child && WIFCONTINUED(result));
  kill(child, SIGTERM);
  await_code(CLD_KILLED);
  check(status == SIGTERM && death_signal(child) == SIGTERM);
  handle(SIGCHLD, handler, SA_NOCLDWAIT);
  if (fork() == 0) _exit(0);
  check(wait(NULL) == -1 && (errno == ECHILD || errno == EINTR));
  say("children");
  return 0;
}
