/* sigsuspend, ppoll, pselect and epoll_pwait: the temporary mask lets the signal in, the old one comes back. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include "check.h"

static volatile int seen;
static sigset_t none, blocked;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  sigset_t now;
  sigprocmask(SIG_BLOCK, NULL, &now);
  check(sigismember(&now, SIGUSR1) && !sigismember(&now, SIGUSR2));
  seen++;
}

static void finished(long result, int count) {
  sigset_t now;
  check(result == -1 && errno == EINTR && seen == count);
  sigprocmask(SIG_BLOCK, NULL, &now);
  check(sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2));
}

int main(void) {
  struct timespec time = {20, 0};
  struct epoll_event event;
  int epoll = epoll_create1(0);
  sigemptyset(&none);
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  sigaddset(&blocked, SIGUSR2);
  handle(SIGUSR1, handler, SA_RESTART);
  sigprocmask(SIG_BLOCK, &blocked, NULL);
  raise(SIGUSR1);
  finished(sigsuspend(&none), 1);
  raise(SIGUSR1);
  finished(ppoll(NULL, 0, &time, &none), 2);
  raise(SIGUSR1);
  finished(pselect(0, NULL, NULL, NULL, &time, &none), 3);
  raise(SIGUSR1);
  finished(epoll_pwait(epoll, &event, 1, 20000, &none), 4);
  say("four waits");
  return 0;
}
