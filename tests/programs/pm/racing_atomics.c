/* Locked instructions of all kinds on shared words, with plain stores in between; sums are right at the end.
 *
 * @threaded
 * @flags -mcx16
 */
#include "racing.h"

static struct {
  long added, swapped, bits, exchanged;
  char pad[32];
  unsigned long pair[2] __attribute__((aligned(16)));
  int small[8];
} *shared;

static void work(int number, uint64_t *random) {
  for (int i = 0; i < 1500; i++) {
    __atomic_add_fetch(&shared->added, 5, __ATOMIC_SEQ_CST);
    __asm__ volatile("lock incl %0" : "+m"(shared->small[i % 4]) : : "cc", "memory");
    long old = shared->swapped;
    while (!__atomic_compare_exchange_n(&shared->swapped, &old, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    __atomic_fetch_xor(&shared->bits, (long)next_random(random), __ATOMIC_SEQ_CST);
    __atomic_exchange_n(&shared->exchanged, (long)next_random(random), __ATOMIC_SEQ_CST);
    ((volatile int *)shared->small)[4 + number % 4] = i;
    unsigned char done;
    unsigned long low = shared->pair[0], high = shared->pair[1], new_low = low + 1, new_high = high + 3;
    do {
      new_low = low + 1, new_high = high + 3;
      __asm__ volatile("lock cmpxchg16b %1\nsete %0" : "=q"(done), "+m"(shared->pair), "+a"(low), "+d"(high) : "b"(new_low), "c"(new_high) : "cc", "memory");
    } while (!done);
  }
}

int main(int argc, char **argv) {
  shared = (void *)pm_map(directory_of(argc, argv), "file", 4096);
  race(4, work);
  check(shared->added == 4 * 1500 * 5 && shared->swapped == 6000 && shared->pair[0] == 6000 && shared->pair[1] == 18000);
  check(shared->small[0] + shared->small[1] + shared->small[2] + shared->small[3] == 6000);
  return 0;
}
