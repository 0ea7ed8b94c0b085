/* Handlers call a watched function while others are open, at any instruction.
 *
 * @flags -O1
 */
#include <sys/time.h>
#include "call_log.h"

static volatile long handled;

watched long tick(long n) { return n + 1; }

watched long descend(long n) { return n == 0 ? 0 : descend(n - 1) + 1; }

static void on_alarm(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  handled = tick(handled);
}

int main(void) {
  handle(SIGALRM, on_alarm, SA_RESTART);
  struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
  check(setitimer(ITIMER_REAL, &often, NULL) == 0);
  for (long i = 0; i < 20000 || handled < 20; i++) check(descend(i % 7) == i % 7);
  check(setitimer(ITIMER_REAL, &never, NULL) == 0);
  return 0;
}
