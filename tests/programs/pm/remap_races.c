/* Threads store to a mapping that another one keeps moving, protecting and replacing; faults wait for it to come back.
 *
 * @threaded
 * @varying
 */
#include <pthread.h>
#include <stdatomic.h>
#include "pm.h"

enum { PAGE = 4096, PAGES = 16, THREADS = 3 };
static char *map;
static _Atomic int over;
static _Atomic long stored;

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  check((char *)info->si_addr >= map && (char *)info->si_addr < map + PAGES * PAGE);
  sched_yield(); /* and again */
}

static void *store(void *argument) {
  long number = (long)argument, value = 1;
  while (!over) {
    for (int page = 0; page < PAGES; page++) {
      *(volatile long *)(map + page * PAGE + number * 8) = value++;
      atomic_fetch_add((_Atomic long *)(map + page * PAGE + 512), 1);
      memset(map + page * PAGE + 1024 + number * 300, (int)value, 250);
    }
    stored++;
  }
  return NULL;
}

int main(int argc, char **argv) {
  int fd = pm_open(directory_of(argc, argv), "file", PAGES * PAGE), prot = PROT_READ | PROT_WRITE;
  map = mmap(NULL, PAGES * PAGE, prot, MAP_SHARED, fd, 0);
  char *aside = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  handle(SIGSEGV, on_fault, 0);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) check(pthread_create(&threads[i], NULL, store, (void *)i) == 0);
  for (int round = 0; round < 60; round++) {
    int page = round % PAGES;
    char *at = map + page * PAGE;
    check(mprotect(at, PAGE, PROT_READ) == 0);
    sched_yield();
    check(mprotect(at, PAGE, prot) == 0);
    check(mremap(at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, aside) == aside);
    sched_yield();
    check(mremap(aside, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
    check(mmap(at, PAGE, prot, MAP_SHARED | MAP_FIXED, fd, page * PAGE) == at);
    check(munmap(at, PAGE) == 0);
    sched_yield();
    check(mmap(at, PAGE, prot, MAP_SHARED | MAP_FIXED, fd, page * PAGE) == at);
  }
  while (stored < 10) sched_yield();
  over = 1;
  for (int i = 0; i < THREADS; i++) check(pthread_join(threads[i], NULL) == 0);
  return 0;
}
