/* AMX tiles, where the kernel permits them, survive a system call and a handler. */
#include <sys/syscall.h>
#include "check.h"

static void handler(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

__attribute__((target("amx-tile"))) static void use_tiles(void) {
  unsigned char config[64] __attribute__((aligned(64))) = {1};
  static int in[16][16] __attribute__((aligned(64))), out[16][16] __attribute__((aligned(64)));
  config[16] = 64;
  config[48] = 16;
  for (int i = 0; i < 256; i++) in[i / 16][i % 16] = i * 3;
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(in), "r"(64L) : "memory");
  raise(SIGUSR1);
  getppid();
  __asm__ volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(out), "r"(64L) : "memory");
  __asm__ volatile("tilerelease");
  check(memcmp(in, out, sizeof in) == 0);
}

int main(void) {
  handle(SIGUSR1, handler, 0);
  if (cpu_has("amx") && syscall(SYS_arch_prctl, 0x1023, 18) == 0) use_tiles();
  say("tiles kept, or not there");
  return 0;
}
