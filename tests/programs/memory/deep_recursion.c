/* Recursion a hundred thousand frames deep, by direct and by indirect calls.
 *
 * @build pie static
 */
#include "check.h"

__attribute__((noinline)) static long direct(long n) {
  volatile long here = n;
  return n == 0 ? 0 : direct(n - 1) + (here & 1);
}

typedef long (*function)(long, void *);

__attribute__((noinline)) static long indirect(long n, void *self) {
  volatile long here = n;
  return n == 0 ? 0 : ((function)self)(n - 1, self) + (here & 1);
}

int main(void) {
  for (int i = 0; i < 5; i++) check(direct(100000) == 50000 && indirect(90000, (void *)indirect) == 45000);
  say("deep");
  return 0;
}
