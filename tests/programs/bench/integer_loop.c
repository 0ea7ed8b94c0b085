/* Integer and memory work in small loops: a sieve, a hash, a sort.
 *
 * @flags -O2
 */
#include "check.h"

enum { LIMIT = 1 << 20 };
static unsigned char composite[LIMIT];
static unsigned numbers[1 << 16];

static unsigned sieve(void) {
  unsigned primes = 0;
  memset(composite, 0, sizeof composite);
  for (unsigned i = 2; i < LIMIT; i++) {
    if (composite[i]) continue;
    primes++;
    for (unsigned long n = (unsigned long)i * i; n < LIMIT; n += i) composite[n] = 1;
  }
  return primes;
}

static unsigned long hash(void) {
  unsigned long state = 14695981039346656037UL;
  for (int i = 0; i < LIMIT; i++) state = (state ^ composite[i]) * 1099511628211UL;
  return state;
}

static void shell_sort(void) {
  for (unsigned gap = 1 << 15; gap > 0; gap /= 2)
    for (unsigned i = gap; i < 1 << 16; i++) {
      unsigned value = numbers[i], at = i;
      for (; at >= gap && numbers[at - gap] > value; at -= gap) numbers[at] = numbers[at - gap];
      numbers[at] = value;
    }
}

int main(void) {
  unsigned long sum = 0;
  for (int round = 0; round < 80; round++) {
    sum += sieve();
    sum ^= hash();
    for (unsigned i = 0; i < 1 << 16; i++) numbers[i] = (unsigned)(i * 2654435761u + sum);
    shell_sort();
    sum += numbers[100];
  }
  printf("%lu\n", sum);
  return 0;
}
