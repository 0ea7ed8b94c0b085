/* Four processes write the same bytes of a shared mapping.
 *
 * @threaded
 */
#include <sched.h>
#include "racing.h"

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 8192);
  volatile int *start = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int number = 0; number < 4; number++) {
    if (fork() != 0) continue;
    uint64_t random = 0x9e3779b97f4a7c15 * (uint64_t)(number + 1);
    while (!*start) sched_yield();
    for (int i = 0; i < 3000; i++) {
      uint64_t value = next_random(&random);
      char *at = map + (value & 255);
      if (i % 3 == 0) *(volatile uint64_t *)at = value;
      if (i % 3 == 1) __atomic_add_fetch((long *)(map + 1024), 1, __ATOMIC_SEQ_CST);
      if (i % 3 == 2) *(volatile uint8_t *)at = (uint8_t)(value >> 8);
    }
    _exit(0);
  }
  *start = 1;
  for (int i = 0; i < 4; i++) {
    int status;
    check(wait(&status) > 0 && status == 0);
  }
  check(*(long *)(map + 1024) == 4000);
  return 0;
}
