/* String instructions: all widths, both directions, repeated or not, ended by a fault or by equality. */
#include <setjmp.h>
#include "check.h"

static sigjmp_buf back;
static void *volatile fault_address;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  fault_address = info->si_addr;
  siglongjmp(back, 1);
}

int main(void) {
  char from[300], to[300];
  for (int i = 0; i < 300; i++) from[i] = (char)(i * 7);
  char *source = from, *target = to;
  long count = 200;
  __asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
  check(memcmp(from, to, 200) == 0 && source == from + 200 && target == to + 200 && count == 0);
  source = from + 199, target = to + 249, count = 200;
  __asm__ volatile("std\nrep movsb\ncld" : "+S"(source), "+D"(target), "+c"(count) : : "memory", "cc");
  check(memcmp(from, to + 50, 200) == 0 && source == from - 1);
  target = to, count = 37;
  __asm__ volatile("rep stosq" : "+D"(target), "+c"(count) : "a"(0x1122334455667788) : "memory");
  check(to[295] == 0x11 && target == to + 296);
  target = from, count = 300;
  __asm__ volatile("repne scasb" : "+D"(target), "+c"(count) : "a"(70) : "memory", "cc");
  check(target == from + 11 && count == 289);
  source = from, target = to, count = 100;
  memcpy(to, from, 300);
  to[60] ^= 1;
  __asm__ volatile("repe cmpsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory", "cc");
  check(source == from + 61 && count == 39);
  source = from;
  unsigned loaded = 0;
  __asm__ volatile("lodsl" : "+S"(source), "=a"(loaded) : : "memory");
  check(loaded == 0x150e0700 && source == from + 4);
  char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(mprotect(pages + 4096, 4096, PROT_NONE) == 0);
  handle(SIGSEGV, handler, 0);
  if (sigsetjmp(back, 1) == 0) {
    target = pages + 4000, count = 500;
    __asm__ volatile("rep stosb" : "+D"(target), "+c"(count) : "a"(5) : "memory");
    check(!"reached");
  }
  check(fault_address == pages + 4096 && pages[4095] == 5);
  say("strings");
  return 0;
}
