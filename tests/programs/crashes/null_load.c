/* Reads through a null pointer.
 *
 * @signal SIGSEGV
 * @flags -fno-delete-null-pointer-checks
 */
#include "check.h"

int main(void) {
  say("before");
  (void)*(volatile int *)0;
  say("after");
  return 0;
}
