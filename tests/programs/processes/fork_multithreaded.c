/* fork from a process whose other threads allocate, lock and translate new code all the time. */
#include <pthread.h>
#include "check.h"

static volatile int stop;

static void *busy(void *argument) {
  unsigned long sum = 0;
  while (!stop) {
    char *block = malloc(1 + sum % 3000);
    block[0] = (char)sum;
    sum += strtoul("12345", NULL, 10) + (unsigned long)block[0];
    free(block);
  }
  return argument;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) check(pthread_create(&threads[i], NULL, busy, NULL) == 0);
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
      int numbers[100];
      for (int n = 0; n < 100; n++) numbers[n] = (n * 37) % 101;
      qsort(numbers, 100, sizeof(int), compare);
      free(malloc(100));
      _exit(numbers[0] + i % 7);
    }
    check(exit_status(child) == i % 7);
  }
  stop = 1;
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  say("forty forks");
  return 0;
}
