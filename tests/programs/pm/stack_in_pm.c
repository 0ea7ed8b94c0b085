/* A whole call tree with its stack in persistent memory: calls, pushes, enter, pushf, alloca, printf, system calls.
 *
 * @varying
 */
#include <alloca.h>
#include <ucontext.h>
#include "pm.h"

static ucontext_t home, there;
static long result;

__attribute__((noinline)) static long recurse(long n) {
  volatile char *more = alloca((size_t)(n % 100 + 10));
  more[0] = (char)n;
  return n == 0 ? 0 : recurse(n - 1) + more[0];
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static void body(void) {
  int numbers[200];
  for (int i = 0; i < 200; i++) numbers[i] = (i * 7919) % 211;
  qsort(numbers, 200, sizeof(int), compare);
  char text[200];
  snprintf(text, sizeof text, "%d %f %s", numbers[100], 3.25, "text");
  result = recurse(300) + (long)strlen(text);
  __asm__ volatile("sub $128, %%rsp\nenter $64, $0\npushf\npushq $5\npushw $6\npopw -100(%%rbp)\nadd $8, %%rsp\npopf\nleave\nadd $128, %%rsp" ::: "memory", "cc");
  getppid();
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 20);
  check(getcontext(&there) == 0);
  there.uc_stack.ss_sp = map;
  there.uc_stack.ss_size = 1 << 20;
  there.uc_link = &home;
  makecontext(&there, body, 0);
  check(swapcontext(&home, &there) == 0 && result != 0);
  return 0;
}
