/* Locked instructions stay atomic between threads: add, cmpxchg, xchg, or, and 16 bytes at once.
 *
 * @flags -mcx16 -latomic
 */
#include <pthread.h>
#include "check.h"

static volatile long added, swapped, bits, exchanged;
static volatile struct pair { unsigned long low, high; } pair __attribute__((aligned(16)));

static void *work(void *argument) {
  long number = (long)argument;
  for (int i = 0; i < 5000; i++) {
    __atomic_add_fetch(&added, 3, __ATOMIC_SEQ_CST);
    long old = swapped;
    while (!__atomic_compare_exchange_n(&swapped, &old, old + 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
    __atomic_or_fetch(&bits, 1L << (i % 16 * 4 + number), __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&exchanged, -__atomic_exchange_n(&exchanged, 0, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
    unsigned char done;
    do {
      unsigned long low = pair.low, high = pair.high, new_low = low + 1, new_high = high + 2;
      __asm__ volatile("lock cmpxchg16b %1\nsete %0"
                       : "=q"(done), "+m"(pair), "+a"(low), "+d"(high)
                       : "b"(new_low), "c"(new_high)
                       : "cc", "memory");
    } while (!done);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  for (long i = 0; i < 4; i++) check(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < 4; i++) check(pthread_join(threads[i], NULL) == 0);
  printf("%ld %ld %lx %lu %lu\n", added, swapped, bits, pair.low, pair.high);
  return 0;
}
