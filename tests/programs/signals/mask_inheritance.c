/* The signal mask and ignored signals go over fork, threads and exec; handlers go over fork only.
 *
 * @build pie static
 */
#include <pthread.h>
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

static void verify(int handled) {
  sigset_t now;
  struct sigaction action;
  sigprocmask(SIG_BLOCK, NULL, &now);
  check(sigismember(&now, SIGUSR1) && sigismember(&now, SIGRTMIN + 3) && !sigismember(&now, SIGUSR2));
  check(sigaction(SIGPIPE, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
  check(sigaction(SIGUSR2, NULL, &action) == 0);
  check(handled ? action.sa_sigaction == handler : action.sa_handler == SIG_DFL);
}

static void *thread(void *argument) {
  verify(1);
  return argument;
}

int main(int argc, char **argv) {
  sigset_t set;
  pthread_t id;
  if (argc > 1) {
    verify(0);
    sigpending(&set);
    check(sigismember(&set, SIGUSR1));
    say("after exec");
    return 0;
  }
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN + 3);
  sigprocmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
  handle(SIGUSR2, handler, 0);
  raise(SIGUSR1);
  pid_t child = fork();
  if (child == 0) {
    verify(1);
    sigpending(&set);
    check(!sigismember(&set, SIGUSR1));
    _exit(0);
  }
  check(exit_status(child) == 0);
  check(pthread_create(&id, NULL, thread, NULL) == 0 && pthread_join(id, NULL) == 0);
  kill(getpid(), SIGUSR1);
  execl("/proc/self/exe", argv[0], "again", NULL);
  return 1;
}
