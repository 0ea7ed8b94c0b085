/* Whole register states saved to persistent memory: fnstenv, fnsave, fxsave, xsave, xsaveopt, xsavec.
 *
 * @varying
 */
#include "pm.h"

#define save(text, mask) __asm__ volatile(text ::"D"(at), "a"(mask), "d"(0) : "memory")

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20), *at = map;
  memset(map, 0x33, 1 << 20);
  __asm__ volatile("fldpi\nfld1" ::: "memory");
  save("fnstenv (%0)", 0);
  at += 4096 - 10;
  save("fnsave (%0)\nfrstor (%0)", 0);
  at = map + 3 * 4096;
  save("fxsave (%0)", 0);
  at += 1024;
  save("fxsave64 (%0)", 0);
  if (cpu_has("xsave")) {
    for (unsigned mask = 0; mask < 256; mask = mask * 2 + 1) {
      at = map + 65536 + mask * 2048;
      memset(at + 512, 0, 64); /* the header must be valid */
      save("xsave (%0)", mask & 0xe7);
      at += 64;
      memset(at + 512, 0, 64);
      save("xsave64 (%0)", mask & 0xe7);
      if (cpu_has("xsaveopt")) save("xsaveopt64 (%0)", mask & 0xe7);
      __asm__ volatile("pxor %%xmm7, %%xmm7" ::: "xmm7");
      if (cpu_has("xsaveopt")) save("xsaveopt (%0)", mask & 0xe7); /* leaves out what has not changed */
      at += 64;
      if (cpu_has("xsavec")) save("xsavec (%0)", mask & 0xe7);
    }
  }
  __asm__ volatile("fninit");
  return 0;
}
