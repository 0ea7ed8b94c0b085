/* Runs an instruction that does not exist.
 *
 * @signal SIGILL
 */
#include "check.h"

int main(void) {
  say("before");
  __asm__ volatile("ud2");
  say("after");
  return 0;
}
