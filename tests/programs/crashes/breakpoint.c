/* Meets a breakpoint.
 *
 * @signal SIGTRAP
 */
#include "check.h"

int main(void) {
  say("before");
  __asm__ volatile("int3");
  say("after");
  return 0;
}
