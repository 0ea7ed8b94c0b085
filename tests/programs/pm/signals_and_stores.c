/* Handlers store to persistent memory in the midst of stores, copies and locked instructions of the program.
 *
 * @varying
 */
#include <sys/time.h>
#include "pm.h"

static char *map;
static volatile int ticks;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  memset(map + 4096 + ticks % 500 * 8, ticks, 40);
  __atomic_add_fetch((long *)(map + 64), 1, __ATOMIC_SEQ_CST);
  *(volatile long *)(map + 128 + ticks % 100) = ticks;
  ticks++;
}

int main(int argc, char **argv) {
  struct itimerval every = {{0, 300}, {0, 300}}, off = {{0, 0}, {0, 0}};
  map = pm_map(directory_of(argc, argv), "file", 1 << 16);
  handle(SIGALRM, handler, SA_RESTART);
  setitimer(ITIMER_REAL, &every, NULL);
  for (long i = 0; ticks < 300; i++) {
    *(volatile long *)(map + 128 + i % 100) = i;
    __atomic_add_fetch((long *)(map + 64), 1, __ATOMIC_SEQ_CST);
    char *to = map + 4096 + i % 3000;
    long count = 700;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(i) : "memory");
    memcpy(map + 9000 + i % 2000, map + 4096, 1500);
  }
  setitimer(ITIMER_REAL, &off, NULL);
  return 0;
}
