/* Writes through a null pointer.
 *
 * @signal SIGSEGV
 * @build pie static musl
 * @flags -fno-delete-null-pointer-checks
 */
#include "check.h"

int main(void) {
  say("before");
  *(volatile int *)0 = 1;
  say("after");
  return 0;
}
