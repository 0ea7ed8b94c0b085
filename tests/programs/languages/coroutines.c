/* makecontext and swapcontext: a hundred coroutines on stacks of their own, round and round. */
#include <ucontext.h>
#include "check.h"

static ucontext_t home, coroutines[100];
static long sum;

static void body(int number) {
  for (int i = 0; i < 50; i++) {
    sum += number * i;
    swapcontext(&coroutines[number], &home);
  }
}

int main(void) {
  for (volatile int i = 0; i < 100; i++) {
    check(getcontext(&coroutines[i]) == 0);
    coroutines[i].uc_stack.ss_sp = malloc(32768);
    coroutines[i].uc_stack.ss_size = 32768;
    coroutines[i].uc_link = &home;
    makecontext(&coroutines[i], (void (*)(void))body, 1, i);
  }
  for (int round = 0; round < 51; round++)
    for (int i = 0; i < 100; i++) check(swapcontext(&home, &coroutines[i]) == 0);
  printf("%ld\n", sum);
  return 0;
}
