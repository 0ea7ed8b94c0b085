/* Instructions that lie on two mappings of code, made one after the other; cut off while the second is missing. */
#include <setjmp.h>
#include "generated.h"

static sigjmp_buf back;
static siginfo_t last;
static unsigned char *faulted;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal;
  last = *info;
  faulted = (unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  siglongjmp(back, 1);
}

int main(void) {
  handle(SIGSEGV, handler, SA_NODEFER);
  int all = PROT_READ | PROT_WRITE | PROT_EXEC, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  unsigned char *place = mmap(NULL, 64 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(place != MAP_FAILED && mmap(place, 4096, all, flags, -1, 0) == place);
  for (int page = 1; page < 60; page++) {
    unsigned char *border = place + page * 4096, *code = border - 1 - page % 6;
    unsigned char whole[6];
    write_function(whole, page);
    memcpy(code, whole, (size_t)(border - code));
    for (int times = 0; times < 2; times++)
      if (page % 6 < 5 && sigsetjmp(back, 1) == 0) { /* the rest is missing */
        call(code);
        check(!"cut off");
      } else if (page % 6 < 5) {
        check(last.si_addr == border && last.si_code == SEGV_ACCERR);
        check(faulted == (page % 6 < 4 ? code : border));
      }
    check(mmap(border, 4096, page % 2 ? all : PROT_READ | PROT_WRITE, flags, -1, 0) == border);
    write_function(code, page);
    if (page % 2 == 0)
      check(mprotect(border, 4096, PROT_READ | PROT_EXEC) == 0);
    check(call(code) == page);
    if (page % 2 == 0)
      check(mprotect(border, 4096, all) == 0);
    write_function(code, page + 1000); /* on both */
    check(call(code) == page + 1000);
  }
  say("on both");
  return 0;
}
