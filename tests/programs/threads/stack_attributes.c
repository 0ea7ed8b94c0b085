/* Stacks given by the program, guard pages, and the first thread's own stack bounds. */
#include <pthread.h>
#include "check.h"

static char *area;

static void *work(void *argument) {
  char local[1000];
  memset(local, 1, sizeof local);
  check(&local[0] >= area && &local[0] < area + 262144);
  return argument;
}

int main(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  void *base;
  size_t size;
  area = mmap(NULL, 262144, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  pthread_attr_init(&attributes);
  check(pthread_attr_setstack(&attributes, area, 262144) == 0);
  check(pthread_create(&thread, &attributes, work, NULL) == 0 && pthread_join(thread, NULL) == 0);
  check(pthread_getattr_np(pthread_self(), &attributes) == 0);
  check(pthread_attr_getstack(&attributes, &base, &size) == 0);
  char *here = __builtin_frame_address(0);
  check(here > (char *)base && here < (char *)base + size);
  check(size >= 1 << 20);
  say("bounds");
  return 0;
}
