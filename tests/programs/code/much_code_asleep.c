/* More code than a cache keeps, while threads sleep in system calls that the old code made; then they go on.
 *
 * @slow
 */
#include <poll.h>
#include <pthread.h>
#include "generated.h"

enum { SLEEPERS = 6, AREA = 32 << 20, PADDED = 3072, ROUNDS = 20 };

static int wake[2];

static void *sleeper(void *argument) {
  long kind = (long)argument;
  char byte = 0;
  switch (kind % 3) {
    case 0:
      check(read(wake[0], &byte, 1) == 1);
      break;
    case 1: {
      struct pollfd ready = {wake[0], POLLIN, 0};
      check(poll(&ready, 1, -1) == 1 && read(wake[0], &byte, 1) == 1);
      break;
    }
    default:
      pause_ms(500);
      byte = 'w';
  }
  return (void *)(long)byte;
}

/* Long nops, then a function: a lot of code for few instructions. */
static void write_padded(unsigned char *at, int number) {
  static const unsigned char nop[15] = {0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84};
  int done = 0;
  for (; done + 15 + 6 <= PADDED; done += 15) memcpy(at + done, nop, 15);
  write_function(at + done, number);
}

int main(void) {
  pthread_t threads[SLEEPERS];
  check(pipe(wake) == 0);
  for (long i = 0; i < SLEEPERS; i++) check(pthread_create(&threads[i], NULL, sleeper, (void *)i) == 0);
  unsigned char *area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(area != MAP_FAILED);
  for (int round = 0; round < ROUNDS; round++) {
    check(mprotect(area, AREA, PROT_READ | PROT_WRITE) == 0);
    for (int i = 0; i + PADDED <= AREA; i += PADDED) write_padded(area + i, i + round);
    check(mprotect(area, AREA, PROT_READ | PROT_EXEC) == 0);
    for (int i = 0; i + PADDED <= AREA; i += PADDED) check(call(area + i) == i + round);
  }
  check(write(wake[1], "wwwwww", SLEEPERS) == SLEEPERS);
  for (int i = 0; i < SLEEPERS; i++) {
    void *result;
    check(pthread_join(threads[i], &result) == 0 && result == (void *)'w');
  }
  say("all awake");
  return 0;
}
