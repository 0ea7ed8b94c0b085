/* One file mapped several times, shared and privately, replaced, punched, advised away, made read-only and writable again by
 * a handler, of a temporary file without name, and of anonymous memory. */
#include <sys/syscall.h>
#include "pm.h"

enum { PAGE = 4096, LENGTH = 64 * PAGE };
static char *guarded;
static volatile int unlocked;

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  check(info->si_code == SEGV_ACCERR && (char *)info->si_addr >= guarded && (char *)info->si_addr < guarded + PAGE);
  check(mprotect(guarded, PAGE, PROT_READ | PROT_WRITE) == 0);
  unlocked++;
}

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  int fd = pm_open(directory, "file", LENGTH), prot = PROT_READ | PROT_WRITE;
  char *one = mmap(NULL, LENGTH, prot, MAP_SHARED, fd, 0), *two = mmap(NULL, LENGTH, prot, MAP_SHARED, fd, 0);
  char *part = mmap(NULL, 4 * PAGE, prot, MAP_SHARED, fd, 3 * PAGE);
  char *copy = mmap(NULL, LENGTH, prot, MAP_PRIVATE, fd, 0);
  check(one != MAP_FAILED && two != MAP_FAILED && part != MAP_FAILED && copy != MAP_FAILED);
  for (int i = 0; i < 200; i++) {
    one[i * 64] = (char)i;
    check(two[i * 64] == (char)i);
    two[i * 64 + 1] = one[i * 64];
    part[i * 16 + 2] = (char)noise();
    check(one[3 * PAGE + i * 16 + 2] == part[i * 16 + 2]);
    copy[i * 64 + 3] = 'p'; /* nobody's business */
    *(volatile long *)(two + PAGE - 4 + i % 3) += i;
  }
  check(one[3] == 0);
  handle(SIGSEGV, on_fault, SA_NODEFER);
  for (int i = 0; i < 50; i++) {
    guarded = (i % 2 ? one : two) + (10 + i % 5) * PAGE;
    check(mprotect(guarded, PAGE, PROT_READ) == 0);
    guarded[i] = 'g';
    memset(guarded + 100, i, 1000);
    check(unlocked == i + 1);
  }
  check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2 * PAGE, 2 * PAGE) == 0 && one[3 * PAGE + 2] == 0);
  two[2 * PAGE + 5] = 'h';
  check(madvise(one + 11 * PAGE, PAGE, MADV_DONTNEED) == 0 && one[11 * PAGE + 100] != 0); /* the file keeps it */
  if (madvise(one + 12 * PAGE, PAGE, MADV_REMOVE) == 0) check(one[12 * PAGE + 100] == 0);
  check(mmap(two + 20 * PAGE, 4 * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == two + 20 * PAGE);
  memset(two + 19 * PAGE, 'x', 6 * PAGE); /* the middle is not the file any more */
  check(one[20 * PAGE] == 0 && one[24 * PAGE] == 'x');
  check(mmap(two + 21 * PAGE, PAGE, prot, MAP_SHARED | MAP_FIXED, fd, 40 * PAGE) == two + 21 * PAGE);
  memset(two + 20 * PAGE + 100, 'y', 2 * PAGE);
  check(one[40 * PAGE] == 'y' && one[20 * PAGE + 100] == 0);
  char *moved = mremap(two + 30 * PAGE, 4 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
  check(moved != MAP_FAILED);
  memset(moved, 'z', 8 * PAGE);
  check(one[37 * PAGE] == 'z');
  int nameless = open("/tmp", O_TMPFILE | O_RDWR, 0600); /* nothing is left of it to compare */
  if (nameless >= 0) {
    check(ftruncate(nameless, PAGE) == 0);
    char *map = mmap(NULL, PAGE, prot, MAP_SHARED, nameless, 0);
    memset(map, 't', PAGE);
    check(munmap(map, PAGE) == 0 && close(nameless) == 0);
  }
  int anonymous = (int)syscall(SYS_memfd_create, "memory", 0);
  check(anonymous >= 0 && ftruncate(anonymous, 2 * PAGE) == 0);
  char *memory = mmap(NULL, 2 * PAGE, prot, MAP_SHARED, anonymous, 0);
  memset(memory, 'm', 2 * PAGE);
  check(pwrite(anonymous, "abc", 3, PAGE - 1) == 3 && memory[PAGE] == 'b');
  char *huge = mmap(NULL, 4 << 20, prot, MAP_SHARED, pm_open(directory, "huge", 4 << 20), 0);
  check(huge != MAP_FAILED);
  (void)!madvise(huge, 4 << 20, MADV_HUGEPAGE);
  for (long i = 0; i < 4 << 20; i += 4099) huge[i] = (char)noise();
  return 0;
}
