/* A timer interrupts long string stores to persistent memory; the handler stores there too, and now and then jumps out.
 *
 * @varying
 */
#include <setjmp.h>
#include <sys/time.h>
#include "pm.h"

enum { LENGTH = 1 << 20, HALF = LENGTH / 2 };
static char *map;
static volatile sig_atomic_t depth, ticks, jumps;
static sigjmp_buf back;
static volatile int may_jump;

static void on_tick(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  int number = ++ticks;
  memset(map + HALF + (number % 100) * 1000, number, 900);
  if (depth == 0 && number % 3 == 0) { /* another one inside */
    depth = 1;
    raise(SIGUSR1);
    depth = 0;
  }
  if (may_jump && number % 5 == 0) {
    jumps++;
    siglongjmp(back, 1);
  }
}

int main(int argc, char **argv) {
  map = pm_map(directory_of(argc, argv), "file", LENGTH);
  handle(SIGALRM, on_tick, 0);
  handle(SIGUSR1, on_tick, SA_NODEFER);
  struct itimerval often = {{0, 300}, {0, 300}};
  check(setitimer(ITIMER_REAL, &often, NULL) == 0);
  for (volatile int round = 0; ticks < 400; round++) {
    if (sigsetjmp(back, 1) == 0) {
      may_jump = 1;
      char *to = map + round % 64;
      size_t count = HALF - 64;
      unsigned char value = (unsigned char)round;
      if (round % 3 == 0) {
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(value) : "memory");
      } else if (round % 3 == 1) {
        char *from = map + 4096;
        count = HALF - 8192;
        __asm__ volatile("rep movsb" : "+D"(to), "+c"(count), "+S"(from)::"memory");
      } else {
        to += HALF - 128;
        count = HALF / 16;
        __asm__ volatile("std\nrep stosq\ncld" : "+D"(to), "+c"(count) : "a"(value * 0x0101010101010101UL) : "memory");
      }
    }
    may_jump = 0;
  }
  struct itimerval never = {{0, 0}, {0, 0}};
  check(setitimer(ITIMER_REAL, &never, NULL) == 0 && ticks >= 400);
  return 0;
}
