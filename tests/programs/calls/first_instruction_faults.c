/* The first instruction of a watched function faults, for the engine or for the program: it is one call all
 * the same.
 *
 * @flags -O2 -fcf-protection=none
 */
#include <ucontext.h>
#include "call_log.h"

watched void put(long *to, long value) { *to = value; }

static long *guarded;

static void allow(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  check(mprotect(guarded, 4096, PROT_READ | PROT_WRITE) == 0);
}

int main(void) {
  FILE *file = tmpfile();
  check(file && ftruncate(fileno(file), 4096) == 0);
  long *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  check(shared != MAP_FAILED);
  guarded = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(guarded != MAP_FAILED);
  handle(SIGSEGV, allow, 0);
  long *places[] = {shared, shared + 1, guarded, guarded + 1};
  for (int i = 0; i < 4; i++) {
    put(places[i], i);
    printf("put %d\n", i);
    check(*places[i] == i);
  }
  return 0;
}
