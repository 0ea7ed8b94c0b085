/* /proc/self/maps names the program, its libraries, heap, stack and vdso where they are. */
#include "check.h"

static int data = 1;

int main(void) {
  char line[4200], exe[4096];
  ssize_t length = readlink("/proc/self/exe", exe, sizeof exe - 1);
  check(length > 0);
  exe[length] = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  check(maps);
  int code = 0, writable = 0, libc = 0, stack = 0, vdso = 0;
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to;
    char rights[5];
    check(sscanf(line, "%lx-%lx %4s", &from, &to, rights) == 3);
    unsigned long here = (unsigned long)main, there = (unsigned long)&data, local = (unsigned long)line;
    if (from <= here && here < to) code = strstr(line, exe) && rights[0] == 'r' && rights[2] == 'x';
    if (from <= there && there < to) writable = strstr(line, exe) && rights[1] == 'w';
    if (from <= local && local < to) stack = strstr(line, "[stack]") != NULL;
    if (from <= (unsigned long)printf && (unsigned long)printf < to) libc = strstr(line, "libc") != NULL;
    if (strstr(line, "[vdso]")) vdso = 1;
  }
  check(code && writable && libc && stack && vdso);
  say("mapped");
  return 0;
}
