/* Stores that run off the end of the mapping into a page that is not there: what was written stays, a handler goes on. */
#include <setjmp.h>
#include "pm.h"

static sigjmp_buf back;
static volatile int repair;
static char *wall;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  if (!repair) siglongjmp(back, 1);
  check(mprotect(wall, 4096, PROT_READ | PROT_WRITE) == 0);
}

int main(int argc, char **argv) {
  char *reserved = mmap(NULL, 8 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int fd = pm_open(directory_of(argc, argv), "file", 4 * 4096);
  char *map = mmap(reserved, 4 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  check(map == reserved);
  wall = map + 4 * 4096;
  handle(SIGSEGV, handler, 0);
  if (sigsetjmp(back, 1) == 0) {
    *(volatile uint64_t *)(wall - 3) = noise(); /* faults as a whole */
    check(!"reached");
  }
  if (sigsetjmp(back, 1) == 0) {
    char *to = wall - 1000;
    long count = 2000;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0x41) : "memory"); /* faults after a thousand */
    check(!"reached");
  }
  check(wall[-1] == 0x41);
  if (sigsetjmp(back, 1) == 0) {
    char *to = wall - 80;
    long count = 20;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(count) : "a"(0x4242424242424242) : "memory");
    check(!"reached");
  }
  repair = 1;
  char *to = wall - 333;
  long count = 999;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0x43) : "memory");
  check(count == 0 && wall[665] == 0x43);
  check(mprotect(wall, 4096, PROT_NONE) == 0);
  *(volatile uint64_t *)(wall - 5) = 0x4444444444444444;
  check(mprotect(map, 4096, PROT_READ) == 0);
  wall = map;
  *(volatile uint64_t *)(map + 100) = 0x4545454545454545; /* the program's own protection faults as natively */
  check(map[100] == 0x45);
  return 0;
}
