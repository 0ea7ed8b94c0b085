/* A nested function whose address is taken: GCC puts a trampoline on the executable stack.
 *
 * @flags -z execstack
 */
#include "check.h"

static int apply(int (*function)(int), int value) { return function(value); }

int main(void) {
  int sum = 0;
  for (int i = 0; i < 100; i++) {
    int add(int value) { return value + i; }
    sum += apply(add, 1000);
  }
  printf("%d\n", sum);
  return 0;
}
