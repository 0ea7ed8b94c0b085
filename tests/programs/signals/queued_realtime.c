/* Blocked real-time signals queue, each with its value, and come lowest number first, in order.
 *
 * @build pie musl
 */
#include "check.h"

static volatile int seen;
static int signals[64], values[64];

static void handler(int signal, siginfo_t *info, void *context) {
  (void)context;
  check(info->si_code == SI_QUEUE && info->si_pid == getpid() && info->si_signo == signal);
  signals[seen] = signal;
  values[seen++] = info->si_value.sival_int;
}

int main(void) {
  sigset_t set, old;
  sigemptyset(&set);
  for (int i = 0; i < 3; i++) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigfillset(&action.sa_mask);
    check(sigaction(SIGRTMIN + i, &action, NULL) == 0);
    sigaddset(&set, SIGRTMIN + i);
  }
  check(sigprocmask(SIG_BLOCK, &set, &old) == 0);
  for (int i = 0; i < 30; i++) {
    union sigval value = {.sival_int = i};
    check(sigqueue(getpid(), SIGRTMIN + 2 - i % 3, value) == 0);
  }
  check(seen == 0);
  check(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
  check(seen == 30);
  for (int i = 0; i < 30; i++) {
    check(signals[i] == SIGRTMIN + i / 10);
    check(values[i] == i % 10 * 3 + 2 - i / 10);
  }
  say("30 in order");
  return 0;
}
