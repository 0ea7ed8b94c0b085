/* A stack overflow is caught on the alternate stack, in the first thread and in another.
 *
 * @build pie static musl
 */
#include <pthread.h>
#include <setjmp.h>
#include "check.h"

static __thread sigjmp_buf back;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)context;
  check(signal == SIGSEGV && info->si_addr != NULL);
  siglongjmp(back, 1);
}

__attribute__((noinline)) static long recurse(volatile long *depth) {
  volatile char frame[200];
  frame[0] = (char)(*depth)++;
  long below = recurse(depth);
  return below + frame[0];
}

static void *overflow(void *argument) {
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  volatile long depth = 0;
  check(sigaltstack(&stack, NULL) == 0);
  for (int i = 0; i < 2; i++)
    if (sigsetjmp(back, 1) == 0) recurse(&depth);
  check(depth > 100);
  stack.ss_flags = SS_DISABLE;
  check(sigaltstack(&stack, NULL) == 0);
  return argument;
}

int main(void) {
  pthread_t thread;
  handle(SIGSEGV, handler, SA_ONSTACK);
  overflow(NULL);
  check(pthread_create(&thread, NULL, overflow, NULL) == 0 && pthread_join(thread, NULL) == 0);
  say("caught four times");
  return 0;
}
