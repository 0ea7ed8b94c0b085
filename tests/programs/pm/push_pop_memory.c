/* push from, and pop to, persistent memory, with operands based on the stack pointer, and calls through it. */
#include "pm.h"

static long calls;
static void called(void) { calls++; }

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20);
  struct cursor cursor = {map, map + (1 << 20)};
  form(&cursor, "sub $128, %%rsp\npush %%rax\npopq (%%rdi)\nadd $128, %%rsp");
  form(&cursor, "sub $128, %%rsp\npush %%rax\npopw (%%rdi)\npopw 2(%%rdi)\npopw 4(%%rdi)\npopw 6(%%rdi)\nadd $128, %%rsp");
  form(&cursor, "sub $128, %%rsp\nmov %%rax, (%%rdi)\npushq (%%rdi)\npopq 8(%%rdi)\nadd $128, %%rsp");
  form(&cursor, "mov %%rsp, %%r8\nmov %%rdi, %%rsp\nadd $256, %%rsp\npush %%rax\npopq 64(%%rsp)\npushq 56(%%rsp)\nmov %%r8, %%rsp"); /* the stack is persistent too */
  void **slot = (void **)(map + 900000);
  *slot = (void *)called;
  __asm__ volatile("sub $128, %%rsp\ncall *(%0)\nadd $128, %%rsp" ::"r"(slot) : "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11");
  check(calls == 1);
  *slot = NULL; /* addresses differ from run to run */
  return 0;
}
