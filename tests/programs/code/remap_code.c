/* Code is unmapped and other code mapped in its place; moved by mremap; copied over with MAP_FIXED. */
#include <fcntl.h>
#include <setjmp.h>
#include "generated.h"

static sigjmp_buf back;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  siglongjmp(back, 1);
}

static unsigned char *fresh(void *where, int number) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0);
  unsigned char *page = mmap(where, 4096, PROT_READ | PROT_WRITE, flags, -1, 0);
  check(page != MAP_FAILED);
  write_function(page, number);
  check(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
  return page;
}

int main(void) {
  handle(SIGSEGV, handler, 0);
  unsigned char *page = fresh(NULL, 1);
  for (int i = 1; i < 100; i++) {
    check(call(page) == i);
    check(munmap(page, 4096) == 0);
    check(fresh(page, i + 1) == page); /* where the old code was */
  }
  unsigned char *moved = mremap(page, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(NULL, 7));
  check(moved != MAP_FAILED && moved != page && call(moved) == 100);
  if (sigsetjmp(back, 1) == 0) {
    call(page);
    check(!"the old place is gone");
  }
  int fd = open("code", O_RDWR | O_CREAT, 0700);
  unsigned char bytes[4096] = {0};
  for (int i = 0; i < 20; i++) {
    write_function(bytes, i + 500);
    check(pwrite(fd, bytes, sizeof bytes, i * 4096) == 4096);
  }
  for (int i = 0; i < 20; i++) {
    check(mmap(moved, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, i * 4096) == moved);
    check(call(moved) == i + 500);
  }
  say("replaced");
  return 0;
}
