/* Faults inside handlers: a second SIGSEGV in its own handler kills, in another's handler nests. */
#include "check.h"

static volatile int inner;

static void on_segv(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  inner++;
  check(mprotect((void *)((uintptr_t)info->si_addr & ~4095UL), 4096, PROT_READ | PROT_WRITE) == 0);
}

static void on_usr1(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  *(volatile int *)info->si_value.sival_ptr = 9;
}

static void twice(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  *(volatile int *)8 = 1;
}

int main(void) {
  int *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  handle(SIGSEGV, on_segv, 0);
  handle(SIGUSR1, on_usr1, 0);
  sigqueue(getpid(), SIGUSR1, (union sigval){.sival_ptr = page});
  check(inner == 1 && *page == 9);
  pid_t child = fork();
  if (child == 0) {
    handle(SIGSEGV, twice, 0);
    *(volatile int *)16 = 1;
    _exit(0);
  }
  check(death_signal(child) == SIGSEGV);
  say("nested");
  return 0;
}
