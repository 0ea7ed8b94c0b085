/* Children that are killed, abort or overflow their stack leave what they stored.
 *
 * @varying
 */
#include "pm.h"

__attribute__((noinline)) static int overflow(volatile char *map, int n) {
  volatile char frame[2000];
  frame[0] = map[n % 100 + 30000] = (char)n;
  return overflow(map, n + 1) + frame[0];
}

int main(int argc, char **argv) {
  char *map = pm_map(directory_of(argc, argv), "file", 1 << 16);
  int ends[2];
  check(pipe(ends) == 0);
  for (int i = 0; i < 4; i++) {
    pid_t child = fork();
    if (child == 0) {
      for (int n = 0; n < 3000; n++) map[i * 5000 + n] = (char)(n + i);
      if (i == 0) {
        check(write(ends[1], "x", 1) == 1);
        for (;;) pause();
      }
      if (i == 1) abort();
      if (i == 2) *(volatile int *)8 = 1;
      overflow(map, 0);
    }
    char byte;
    if (i == 0) check(read(ends[0], &byte, 1) == 1 && kill(child, SIGKILL) == 0);
    check(death_signal(child) == (i == 0 ? SIGKILL : i == 1 ? SIGABRT : SIGSEGV));
  }
  map[65000] = 1;
  return 0;
}
