/* A seccomp filter of the program's own: refused calls fail with its errno, or signal with SIGSYS. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include "check.h"

static volatile int trapped;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  check(info->si_syscall == SYS_getpgid && info->si_arch == AUDIT_ARCH_X86_64);
  trapped++;
}

int main(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sethostname, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  handle(SIGSYS, handler, 0);
  check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
  check(syscall(SYS_sethostname, "x", 1) == -1 && errno == 77);
  syscall(SYS_getpgid, 0);
  check(trapped == 1);
  say("filtered");
  return 0;
}
