/* Time by the vDSO and by system calls agree and go forward. */
#include <sys/syscall.h>
#include <sys/time.h>
#include "check.h"

static long long nanoseconds(struct timespec time) { return time.tv_sec * 1000000000LL + time.tv_nsec; }

int main(void) {
  static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_MONOTONIC_COARSE, CLOCK_PROCESS_CPUTIME_ID};
  for (int c = 0; c < 5; c++) {
    struct timespec before, between, after;
    for (int i = 0; i < 1000; i++) {
      check(syscall(SYS_clock_gettime, clocks[c], &before) == 0);
      check(clock_gettime(clocks[c], &between) == 0);
      check(syscall(SYS_clock_gettime, clocks[c], &after) == 0);
      check(nanoseconds(before) <= nanoseconds(between) && nanoseconds(between) <= nanoseconds(after));
    }
  }
  struct timeval day;
  check(gettimeofday(&day, NULL) == 0 && day.tv_sec - time(NULL) <= 1);
  unsigned core;
  check(syscall(SYS_getcpu, &core, NULL, NULL) == 0 && core < 4096);
  say("forward");
  return 0;
}
