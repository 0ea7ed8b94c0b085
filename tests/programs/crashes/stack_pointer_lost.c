/* Faults with a stack pointer that points nowhere: no handler can run, the kernel kills.
 *
 * @signal SIGSEGV
 */
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  say("never");
}

int main(void) {
  handle(SIGSEGV, handler, 0);
  say("before");
  __asm__ volatile("mov $0x1000, %rsp\npush %rax");
  return 0;
}
