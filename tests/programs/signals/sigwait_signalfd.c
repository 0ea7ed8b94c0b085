/* Signals taken without handlers: sigwait, sigwaitinfo, sigtimedwait and signalfd. */
#include <sys/signalfd.h>
#include "check.h"

int main(void) {
  sigset_t set;
  siginfo_t info;
  int signal;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &set, NULL);
  raise(SIGUSR1);
  check(sigwait(&set, &signal) == 0 && signal == SIGUSR1);
  sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 5});
  check(sigwaitinfo(&set, &info) == SIGRTMIN && info.si_value.sival_int == 5);
  struct timespec time = {0, 5000000};
  check(sigtimedwait(&set, &info, &time) == -1 && errno == EAGAIN);
  int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  struct signalfd_siginfo got[4];
  check(read(fd, got, sizeof got) == -1 && errno == EAGAIN);
  kill(getpid(), SIGUSR1);
  sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 6});
  sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = 7});
  check(read(fd, got, sizeof got) == 3 * sizeof got[0]);
  check(got[0].ssi_signo == SIGUSR1 && got[0].ssi_pid == (unsigned)getpid());
  check(got[1].ssi_int == 6 && got[2].ssi_int == 7);
  say("taken");
  return 0;
}
