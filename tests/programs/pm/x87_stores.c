/* x87 stores: real, integer, truncating and decimal, control and status words. */
#include "pm.h"

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20);
  struct cursor cursor = {map, map + (1 << 20)};
  form(&cursor, "fldpi\nfsts (%%rdi)\nfstl 4(%%rdi)\nfstps 12(%%rdi)") form(&cursor, "fldl2e\nfstpl (%%rdi)") form(&cursor, "fldln2\nfstpt (%%rdi)");
  form(&cursor, "push $12345\nfildl (%%rsp)\npop %%r8\nfist (%%rdi)\nfistl 2(%%rdi)\nfistps 8(%%rdi)");
  form(&cursor, "push $-777\nfildl (%%rsp)\npop %%r8\nfistpl (%%rdi)") form(&cursor, "push $98765\nfildl (%%rsp)\npop %%r8\nfistpq (%%rdi)");
  form(&cursor, "fldpi\nfisttps (%%rdi)\nfldpi\nfisttpl 2(%%rdi)\nfldl2e\nfisttpq 6(%%rdi)") form(&cursor, "push $31415926\nfildl (%%rsp)\npop %%r8\nfbstp (%%rdi)");
  form(&cursor, "fninit\nfnstcw (%%rdi)\nfnstsw 2(%%rdi)") form(&cursor, "fninit\nfld1\nfldz\nfcompp\nfstsw (%%rdi)\nfstcw 2(%%rdi)");
  __asm__ volatile("fninit");
  return 0;
}
