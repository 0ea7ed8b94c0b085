/* Calls in every form, with a label behind each. It is compiled, not run. */
#include <stdlib.h>

__attribute__((used)) static int local(int value) { return value + 1; }

int main(void) {
  int (*pointer)(int) = abs;
  __asm__ volatile("call abs@PLT\n.globl after_stub\nafter_stub:\n"
                   "call *labs@GOTPCREL(%%rip)\n.globl after_slot\nafter_slot:\n"
                   "call local\n.globl after_local\nafter_local:\n"
                   "call *%0\n.globl after_pointer\nafter_pointer:\n"
                   :
                   : "r"(pointer)
                   : "memory");
  return (int)labs(0) + abs(0);
}
