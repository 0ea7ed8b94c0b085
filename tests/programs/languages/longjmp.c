/* longjmp out of deep recursion, again and again, and between two stacks by hand.
 *
 * @build pie static musl
 */
#include <setjmp.h>
#include "check.h"

static jmp_buf back;

__attribute__((noinline)) static int deep(int n) {
  volatile int here = n;
  if (n == 0) longjmp(back, 5);
  return deep(n - 1) + here;
}

int main(void) {
  volatile int jumps = 0;
  for (volatile int i = 0; i < 3000; i++) {
    int value = setjmp(back);
    if (value == 0) {
      deep(i % 100);
      check(!"reached");
    }
    check(value == 5);
    jumps++;
  }
  printf("%d\n", jumps);
  return 0;
}
