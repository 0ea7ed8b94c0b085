/* timer_create by signal with a value, by thread, and with overrun. */
#include <pthread.h>
#include "check.h"

static volatile sig_atomic_t ticks;
static volatile int notified;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  check(info->si_code == SI_TIMER && info->si_value.sival_int == 77);
  ticks++;
}

static void notify(union sigval value) {
  *(volatile int *)value.sival_ptr = 1;
}

int main(void) {
  timer_t timer;
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 77};
  struct itimerspec every = {{0, 2000000}, {0, 2000000}}, once = {{0, 0}, {0, 1000000}}, left;
  sigset_t set;
  handle(SIGRTMIN + 1, handler, 0);
  check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
  check(timer_settime(timer, 0, &every, NULL) == 0);
  while (ticks < 5) pause();
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN + 1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  pause_ms(30);
  check(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 2000000);
  siginfo_t info;
  check(sigwaitinfo(&set, &info) == SIGRTMIN + 1 && info.si_overrun >= 1);
  check(timer_delete(timer) == 0);
  struct sigevent thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = notify};
  thread.sigev_value.sival_ptr = (void *)&notified;
  check(timer_create(CLOCK_REALTIME, &thread, &timer) == 0);
  check(timer_settime(timer, 0, &once, NULL) == 0);
  for (int i = 0; i < 5000 && !notified; i++) pause_ms(1);
  check(notified);
  say("timers");
  return 0;
}
