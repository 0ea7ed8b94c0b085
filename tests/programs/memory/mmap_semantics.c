/* mmap, munmap, mprotect, mremap, MAP_FIXED, MAP_FIXED_NOREPLACE, hints: results and contents as promised. */
#include <setjmp.h>
#include "check.h"

static sigjmp_buf back;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  siglongjmp(back, 1);
}

static int readable(volatile char *at) {
  if (sigsetjmp(back, 1)) return 0;
  (void)*at;
  return 1;
}

static int writable(volatile char *at) {
  if (sigsetjmp(back, 1)) return 0;
  *at = *at;
  return 1;
}

int main(void) {
  handle(SIGSEGV, handler, 0);
  int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  char *area = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, anonymous, -1, 0);
  check(munmap(area + 4 * 4096, 4096) == 0);
  check(!readable(area + 4 * 4096) && readable(area + 5 * 4096));
  check(mmap(area + 4 * 4096, 4096, PROT_READ, anonymous, -1, 0) == area + 4 * 4096); /* a free hint is taken */
  check(readable(area + 4 * 4096) && !writable(area + 4 * 4096));
  check(mmap(area, 4096, PROT_READ, anonymous | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED && errno == EEXIST);
  memset(area, 'a', 4 * 4096);
  check(mmap(area + 4096, 4096, PROT_READ | PROT_WRITE, anonymous | MAP_FIXED, -1, 0) == area + 4096);
  check(area[0] == 'a' && area[4096] == 0 && area[8192] == 'a');
  char *moved = mremap(area, 4096, 8 * 4096, MREMAP_MAYMOVE);
  check(moved != MAP_FAILED && moved[0] == 'a' && moved[8 * 4096 - 1] == 0);
  check(moved == area || !readable(area));
  check(mremap(moved, 8 * 4096, 4096, 0) == moved && !readable(moved + 4096));
  check(mprotect(moved, 4096, PROT_NONE) == 0 && !readable(moved));
  check(mprotect((void *)0x1000, 4096, PROT_READ) == -1 && errno == ENOMEM);
  check(mprotect(moved + 1, 10, PROT_READ) == -1 && errno == EINVAL);
  check(munmap(moved + 1, 10) == -1 && errno == EINVAL);
  check(mmap(NULL, 0, PROT_READ, anonymous, -1, 0) == MAP_FAILED && errno == EINVAL);
  check(mmap(NULL, 1L << 47, PROT_READ, anonymous, -1, 0) == MAP_FAILED && errno == ENOMEM);
  check(madvise(area + 8 * 4096, 4096, MADV_DONTNEED) == 0);
  say("as promised");
  return 0;
}
