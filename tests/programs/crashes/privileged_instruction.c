/* Runs an instruction that only the kernel may.
 *
 * @signal SIGSEGV
 */
#include "check.h"

int main(void) {
  say("before");
  __asm__ volatile("hlt");
  say("after");
  return 0;
}
