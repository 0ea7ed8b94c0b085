/* A filter that allows little and kills for the rest, while code runs that has not run before.
 *
 * @signal SIGSYS
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "check.h"

#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static volatile int handled;
static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  handled++;
}

/* Ever new code. */
#define F(n) __attribute__((noinline)) static long f##n(long x) { return x * n + (x >> (n % 7)) + (x ? 1 : n); }
F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12)
static long (*const functions[])(long) = {f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12};

int main(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(write), ALLOW(exit_group), ALLOW(rt_sigreturn), ALLOW(getppid), ALLOW(tgkill), ALLOW(getpid), ALLOW(gettid),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getuid, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  handle(SIGUSR1, handler, 0);
  say("before");
  check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  long sum = 0;
  for (int round = 0; round < 1000; round++)
    for (int i = 0; i < 12; i++) sum += functions[i](sum & 0xff);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
  check(handled == 1);
  check(syscall(SYS_getuid) == -1 && errno == 77);
  char line[64];
  snprintf(line, sizeof line, "sum %ld", sum);
  say(line);
  syscall(SYS_getpgid, 0); /* not allowed */
  say("after");
  return 0;
}
