/* mov in all sizes and sources, at all kinds of places. */
#include "pm.h"

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20);
  struct cursor cursor = {map, map + (1 << 20)};
  form(&cursor, "movb %%al, (%%rdi)");
  form(&cursor, "movb %%ah, (%%rdi)");
  form(&cursor, "movw %%ax, (%%rdi)");
  form(&cursor, "movl %%eax, (%%rdi)");
  form(&cursor, "movq %%rax, (%%rdi)");
  form(&cursor, "movb $0x5a, (%%rdi)");
  form(&cursor, "movw $0x5a5b, (%%rdi)");
  form(&cursor, "movl $0x5a5b5c5d, (%%rdi)");
  form(&cursor, "movq $-0x5a5b5c5d, (%%rdi)");
  form(&cursor, "mov %%rdx, %%r9\nmovb %%r9b, 3(%%rdi)");
  form(&cursor, "mov %%rdx, %%r9\nmovq %%r9, -8(%%rdi)");
  form(&cursor, "mov %%cs, (%%rdi)\nmov %%ds, 2(%%rdi)");
  form(&cursor, "movbe %%rax, (%%rdi)\nmovbe %%edx, 8(%%rdi)\nmovbe %%ax, 12(%%rdi)");
  form(&cursor, "cmp %%rax, %%rdx\nsetb (%%rdi)\nsetae 1(%%rdi)\nsete 2(%%rdi)\nsetne 3(%%rdi)\nsets 4(%%rdi)\nsetp 5(%%rdi)\nsetl 6(%%rdi)\nseto 7(%%rdi)\nsetg 8(%%rdi)");
  form(&cursor, "mov %%rax, (%%rdi)\nmov %%eax, 4(%%rdi)\nmov %%al, 2(%%rdi)\nmov %%rdx, 1(%%rdi)");
  form(&cursor, "movq $0, (%%rdi)\nmovq $0, (%%rdi)\nmovq %%rax, (%%rdi)\nmovq $0, (%%rdi)");
  return 0;
}
