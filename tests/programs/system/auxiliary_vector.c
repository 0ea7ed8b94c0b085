/* The auxiliary vector describes this program: headers, entry, name, randomness, page size, ids, vDSO.
 *
 * @build pie static static-pie nopie
 */
#include <elf.h>
#include <sys/auxv.h>
#include "check.h"

extern char _start[];
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

int main(int argc, char **argv) {
  (void)argc;
  const Elf64_Ehdr *header = (const void *)__ehdr_start;
  check(getauxval(AT_ENTRY) == (unsigned long)_start);
  check(getauxval(AT_PHDR) == (unsigned long)__ehdr_start + header->e_phoff);
  check(getauxval(AT_PHNUM) == header->e_phnum && getauxval(AT_PHENT) == sizeof(Elf64_Phdr));
  check(getauxval(AT_PAGESZ) == 4096 && getauxval(AT_UID) == getuid() && getauxval(AT_SECURE) == 0);
  const char *name = (const char *)getauxval(AT_EXECFN);
  check(name && strcmp(name, argv[0]) == 0);
  check(strcmp((const char *)getauxval(AT_PLATFORM), "x86_64") == 0);
  unsigned char *random = (unsigned char *)getauxval(AT_RANDOM);
  int different = 0;
  for (int i = 1; i < 16; i++) different |= random[i] != random[0];
  check(different);
  const Elf64_Ehdr *vdso = (const void *)getauxval(AT_SYSINFO_EHDR);
  check(vdso && memcmp(vdso->e_ident, ELFMAG, SELFMAG) == 0 && vdso->e_machine == EM_X86_64);
  unsigned long base = getauxval(AT_BASE);
  check(base == 0 || memcmp((void *)base, ELFMAG, SELFMAG) == 0);
  say(base ? "with an interpreter" : "without an interpreter");
  return 0;
}
