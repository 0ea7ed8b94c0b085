/* Recurses until the stack is gone.
 *
 * @signal SIGSEGV
 * @build pie static
 */
#include "check.h"

__attribute__((noinline)) static int deeper(int n) {
  volatile char frame[1000];
  frame[0] = (char)n;
  return deeper(n + 1) + frame[0];
}

int main(void) {
  say("before");
  return deeper(0);
}
