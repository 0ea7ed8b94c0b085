/* A SIGSEGV handler that maps the missing page and returns lets the instruction succeed.
 *
 * @build pie static musl
 */
#include "check.h"

static char *area;
static volatile int faults;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  check(info->si_code == SEGV_ACCERR);
  char *page = (char *)((uintptr_t)info->si_addr & ~4095UL);
  check(page >= area && page < area + 16 * 4096);
  faults++;
  check(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
}

int main(void) {
  area = mmap(NULL, 16 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(area != MAP_FAILED);
  handle(SIGSEGV, handler, 0);
  for (int i = 0; i < 16; i++) area[i * 4096 + 123] = (char)i;
  check(faults == 16);
  check(mprotect(area, 16 * 4096, PROT_NONE) == 0);
  memset(area + 100, 'x', 15 * 4096);
  check(faults == 32);
  int sum = 0;
  for (int i = 0; i < 16 * 4096; i++) sum += area[i];
  check(sum == 15 * 4096 * 'x' + 15);
  say("faults repaired");
  return 0;
}
