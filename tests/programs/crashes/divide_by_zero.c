/* Divides by zero.
 *
 * @signal SIGFPE
 */
#include "check.h"

int main(void) {
  say("before");
  volatile int zero = 0, one = 1;
  zero = one / zero;
  say("after");
  return 0;
}
