/* Limits, usage, ids, priorities, scheduling, names: what a program asks the kernel about itself. */
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include "check.h"

int main(void) {
  struct rlimit limit, again;
  struct rusage usage;
  struct utsname name;
  struct tms times_used;
  cpu_set_t cores;
  check(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 0);
  check(getrlimit(RLIMIT_NPROC, &limit) == 0 && prlimit(0, RLIMIT_NPROC, NULL, &again) == 0 && limit.rlim_cur == again.rlim_cur);
  check(getrlimit(RLIMIT_AS, &limit) == 0);
  printf("%lx\n", limit.rlim_cur);
  fflush(stdout);
  check(getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0);
  check(uname(&name) == 0 && strcmp(name.machine, "x86_64") == 0);
  check(sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 0);
  check(syscall(SYS_gettid) == getpid() && getsid(0) >= 0 && getpgid(0) == getpgrp());
  int priority = getpriority(PRIO_PROCESS, 0);
  check(priority == 19 || nice(1) == priority + 1);
  check(times(&times_used) != (clock_t)-1);
  check(syscall(9999) == -1 && errno == ENOSYS);
  check(sysconf(_SC_PAGESIZE) == 4096);
  say(name.sysname);
  return 0;
}
