/* Returns to an address that was overwritten.
 *
 * @signal SIGSEGV
 */
#include "check.h"

int main(void) {
  say("before");
  __asm__ volatile("movq $0x41414141, -8(%rsp)\nsub $8, %rsp\nret");
  say("after");
  return 0;
}
