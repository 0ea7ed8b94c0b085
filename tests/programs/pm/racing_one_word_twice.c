/* Two threads meet before each word of a file and write it at once, each through a mapping of its own, around
 * the caches or not.
 *
 * @threaded
 * @varying
 */
#include <sched.h>
#include "racing.h"

enum { WORDS = 20000 };

static volatile uint64_t *words[2];
static int arrived;

static void work(int number, uint64_t *random) {
  for (int i = 0; i < WORDS; i++) {
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    for (int spins = 0; __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < 2 * (i + 1); spins++)
      if (spins > 200) sched_yield();
    uint64_t value = next_random(random);
    if (i % 2)
      words[number][i] = value;
    else
      __asm__ volatile("movnti %1, %0" : "=m"(words[number][i]) : "r"(value));
  }
}

int main(int argc, char **argv) {
  size_t length = WORDS * sizeof(uint64_t);
  int fd = pm_open(directory_of(argc, argv), "file", (off_t)length);
  for (int i = 0; i < 2; i++) {
    words[i] = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    check(words[i] != MAP_FAILED);
  }
  race(2, work);
  return 0;
}
