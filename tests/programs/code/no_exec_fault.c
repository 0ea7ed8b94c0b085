/* A call into a page without PROT_EXEC faults at that address; after mprotect it succeeds. */
#include <ucontext.h>
#include "generated.h"

static unsigned char *page;
static volatile int faults;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  ucontext_t *machine = context;
  check(info->si_code == SEGV_ACCERR && info->si_addr == page);
  check((unsigned char *)machine->uc_mcontext.gregs[REG_RIP] == page);
  check(machine->uc_mcontext.gregs[REG_ERR] & 16); /* instruction fetch */
  faults++;
  check(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
}

int main(void) {
  handle(SIGSEGV, handler, 0);
  page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  write_function(page, 66);
  for (int i = 1; i <= 20; i++) {
    check(call(page) == 66 && faults == i);
    check(call(page) == 66 && faults == i);
    check(mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0);
  }
  say("twenty faults");
  return 0;
}
