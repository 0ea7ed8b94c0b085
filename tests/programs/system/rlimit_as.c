/* A limit on address space makes mmap fail with ENOMEM, not the program. */
#include <sys/resource.h>
#include "check.h"

int main(void) {
  struct rlimit limit = {3UL << 30, 3UL << 30};
  if (setrlimit(RLIMIT_DATA, &limit) == 0) {
    check(mmap(NULL, 4L << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    void *small = malloc(1 << 20);
    check(small);
    free(small);
  }
  say("limited");
  return 0;
}
