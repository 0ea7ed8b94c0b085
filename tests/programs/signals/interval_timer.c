/* setitimer interrupts a loop without system calls, again and again; virtual and profiling too.
 *
 * @build pie static
 */
#include <sys/time.h>
#include "check.h"

static volatile int ticks;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  check(info->si_code == SI_KERNEL);
  ticks++;
}

int main(void) {
  static const int kinds[3][2] = {{ITIMER_REAL, SIGALRM}, {ITIMER_VIRTUAL, SIGVTALRM}, {ITIMER_PROF, SIGPROF}};
  for (int i = 0; i < 3; i++) {
    struct itimerval every = {{0, 3000}, {0, 3000}}, off = {{0, 0}, {0, 0}}, left;
    handle(kinds[i][1], handler, SA_RESTART);
    ticks = 0;
    check(setitimer(kinds[i][0], &every, NULL) == 0);
    volatile unsigned spins = 0;
    while (ticks < 10) spins = spins + 1;
    check(setitimer(kinds[i][0], &off, &left) == 0);
    check(left.it_interval.tv_usec >= 3000 && left.it_interval.tv_usec <= 4000);
    check(spins > 0);
  }
  say("ticked");
  return 0;
}
