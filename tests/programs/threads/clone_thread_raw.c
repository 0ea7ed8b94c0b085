/* A thread made by clone itself: its TLS, its tid words, and the futex wake at its end. */
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include "check.h"

static volatile int ran;
static int parent_tid, child_tid = 1;

static int function(void *argument) {
  ran = (int)(long)argument;
  return 0;
}

int main(void) {
  char *stack = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (long i = 1; i <= 20; i++) {
    child_tid = 1;
    int tid = clone(function, stack + 65536,
                    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                        CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
                    (void *)i, &parent_tid, NULL, &child_tid);
    check(tid > 0 && parent_tid == tid);
    while (__atomic_load_n(&child_tid, __ATOMIC_ACQUIRE) != 0)
      syscall(SYS_futex, &child_tid, FUTEX_WAIT, 1, NULL, NULL, 0);
    check(ran == i);
  }
  say("twenty");
  return 0;
}
