/* Restartable sequences that the C library registered, membarrier, and a robust list are there as natively. */
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include "check.h"

int main(void) {
  void *head;
  size_t length;
  check(syscall(SYS_get_robust_list, 0, &head, &length) == 0 && head && length == 24);
  long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  check(commands >= 0);
  if (commands & MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0);
    check(syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0);
  }
  check(sched_getcpu() >= 0);
  say("there");
  return 0;
}
