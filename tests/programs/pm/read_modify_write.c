/* Arithmetic, shifts, bit instructions and exchanges on memory, locked where they can be. */
#include "pm.h"

#define both(cursor, text) form(cursor, text) locked_form(cursor, "lock " text)

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 8 << 20);
  struct cursor cursor = {map, map + (8 << 20)};
  memset(map, 0x35, 8 << 20);
  both(&cursor, "addb %%al, (%%rdi)") both(&cursor, "addw %%ax, (%%rdi)") both(&cursor, "addl %%eax, (%%rdi)");
  both(&cursor, "addq %%rax, (%%rdi)") both(&cursor, "addq $77, (%%rdi)") both(&cursor, "addl $0x12345678, (%%rdi)");
  both(&cursor, "subq %%rdx, (%%rdi)") both(&cursor, "orq %%rax, (%%rdi)") both(&cursor, "orb $0xc0, (%%rdi)");
  both(&cursor, "andq %%rax, (%%rdi)") both(&cursor, "andl $0xf0f0, (%%rdi)") both(&cursor, "xorq %%rax, (%%rdi)");
  form(&cursor, "stc\nadcq %%rax, (%%rdi)") locked_form(&cursor, "stc\nlock adcl $5, (%%rdi)") form(&cursor, "stc\nsbbq %%rax, (%%rdi)");
  both(&cursor, "incb (%%rdi)") both(&cursor, "incl (%%rdi)") both(&cursor, "incq (%%rdi)") both(&cursor, "decw (%%rdi)");
  both(&cursor, "negq (%%rdi)") both(&cursor, "negb (%%rdi)") both(&cursor, "notq (%%rdi)") both(&cursor, "notw (%%rdi)");
  form(&cursor, "shlq %%cl, (%%rdi)") form(&cursor, "shll $3, (%%rdi)") form(&cursor, "shrb (%%rdi)") form(&cursor, "sarw $5, (%%rdi)");
  form(&cursor, "rolq %%cl, (%%rdi)") form(&cursor, "rorl $7, (%%rdi)") form(&cursor, "stc\nrclq %%cl, (%%rdi)") form(&cursor, "stc\nrcrb $3, (%%rdi)");
  form(&cursor, "shldq %%cl, %%rax, (%%rdi)") form(&cursor, "shrdl $9, %%eax, (%%rdi)") form(&cursor, "xor %%ecx, %%ecx\nshlq %%cl, (%%rdi)");
  both(&cursor, "btsq $5, (%%rdi)") both(&cursor, "btrl $20, (%%rdi)") both(&cursor, "btcw $9, (%%rdi)");
  form(&cursor, "mov $1500, %%eax\nbtsq %%rax, (%%rdi)"); /* the bit is 187 bytes behind the operand */
  locked_form(&cursor, "mov $-300, %%rax\nlock btcq %%rax, (%%rdi)") form(&cursor, "mov $-65, %%eax\nbtrl %%eax, (%%rdi)");
  form(&cursor, "mov $99, %%ax\nbtsw %%ax, (%%rdi)") form(&cursor, "btq $3, (%%rdi)") form(&cursor, "mov $600, %%eax\nbtq %%rax, (%%rdi)");
  locked_form(&cursor, "xchgb %%al, (%%rdi)") locked_form(&cursor, "xchgw %%ax, (%%rdi)") locked_form(&cursor, "xchgl %%eax, (%%rdi)") locked_form(&cursor, "xchgq %%rax, (%%rdi)\nxchgq %%rax, 8(%%rdi)");
  both(&cursor, "xaddb %%al, (%%rdi)") both(&cursor, "xaddl %%eax, (%%rdi)") both(&cursor, "xaddq %%rax, (%%rdi)");
  locked_form(&cursor, "mov (%%rdi), %%rax\nlock cmpxchgq %%rdx, (%%rdi)") locked_form(&cursor, "lock cmpxchgq %%rdx, (%%rdi)\nmov %%rax, 16(%%rdi)");
  form(&cursor, "mov (%%rdi), %%al\ncmpxchgb %%dl, (%%rdi)") form(&cursor, "mov (%%rdi), %%eax\ncmpxchgl %%edx, (%%rdi)") form(&cursor, "cmpxchgw %%dx, (%%rdi)");
  locked_form(&cursor, "mov (%%rdi), %%eax\nmov 4(%%rdi), %%edx\nmov $0x1a2b, %%ebx\nmov $0x3c4d, %%ecx\nlock cmpxchg8b (%%rdi)");
  locked_form(&cursor, "mov $0x1a2b, %%ebx\nmov $0x3c4d, %%ecx\nlock cmpxchg8b (%%rdi)\nmov %%eax, 32(%%rdi)\nmov %%edx, 36(%%rdi)");
  aligned_form(&cursor, "mov (%%rdi), %%rax\nmov 8(%%rdi), %%rdx\nmov $0x1a2b, %%ebx\nmov $0x3c4d, %%ecx\nlock cmpxchg16b (%%rdi)");
  aligned_form(&cursor, "mov $0x1a2b, %%ebx\nmov $0x3c4d, %%ecx\nlock cmpxchg16b (%%rdi)\nmov %%rax, 32(%%rdi)");
  return 0;
}
