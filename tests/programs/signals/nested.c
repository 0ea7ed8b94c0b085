/* A handler interrupted by another signal goes on afterwards; sa_mask holds off what it names. */
#include "check.h"

static char order[16];
static volatile int used;

static void second(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  order[used++] = '2';
}

static void first(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  order[used++] = '(';
  raise(SIGUSR2);
  order[used++] = ')';
}

int main(void) {
  struct sigaction action = {.sa_sigaction = first, .sa_flags = SA_SIGINFO};
  handle(SIGUSR2, second, 0);
  handle(SIGUSR1, first, 0);
  raise(SIGUSR1);
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  say(order);
  check(strcmp(order, "(2)()2") == 0);
  return 0;
}
