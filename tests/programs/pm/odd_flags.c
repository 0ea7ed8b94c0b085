/* Stores with the alignment-check, the direction or the trap flag set. What the program sees of each is stored, too. */
#include <ucontext.h>
#include "pm.h"

struct seen {
  uint64_t form, signal, code, address, trap, at;
};
static struct seen *next_seen;
static volatile uint64_t faults, steps;
static volatile uintptr_t instruction, skip_to;

static void on_fault(int signal, siginfo_t *info, void *argument) {
  greg_t *registers = ((ucontext_t *)argument)->uc_mcontext.gregs;
  __asm__ volatile("pushf\nandq $~0x40000, (%%rsp)\npopf" ::: "memory", "cc");
  faults++;
  *next_seen++ = (struct seen){faults, (uint64_t)signal, (uint64_t)info->si_code, (uintptr_t)info->si_addr,
                               (uint64_t)registers[REG_TRAPNO], (uintptr_t)registers[REG_RIP] - instruction};
  registers[REG_RIP] = (greg_t)skip_to;
}

static void on_step(int signal, siginfo_t *info, void *argument) {
  check(signal == SIGTRAP && info->si_code == TRAP_TRACE);
  uintptr_t at = (uintptr_t)((ucontext_t *)argument)->uc_mcontext.gregs[REG_RIP];
  steps = steps * 31 + (at - instruction);
}

/* An instruction with a flag set, its operand (%rdi), and with noise in the registers. */
#define WITH(flag, address, text)                                                                                  \
  do {                                                                                                             \
    char *to_ = (address), *from_ = source + 128;                                                                  \
    uint64_t a_ = noise(), d_ = noise(), c_ = 9;                                                                   \
    __asm__ volatile("movq %%rax, %%xmm0\nmovq %%rdx, %%xmm1\npunpcklqdq %%xmm1, %%xmm0\n"                         \
                     "lea 1f(%%rip), %%r8\nmov %%r8, %5\nlea 2f(%%rip), %%r8\nmov %%r8, %6\n"                      \
                     "sub $128, %%rsp\npushf\norq %7, (%%rsp)\npopf\n"                                             \
                     "1: " text "\n2: pushf\nandq $~0x40500, (%%rsp)\npopf\nadd $128, %%rsp\n"                     \
                     : "+a"(a_), "+d"(d_), "+c"(c_), "+D"(to_), "+S"(from_), "=m"(instruction), "=m"(skip_to)      \
                     : "i"(flag)                                                                                   \
                     : "r8", "r11", "xmm0", "xmm1", "memory", "cc");                                               \
  } while (0)

static char source[256] __attribute__((aligned(64)));

/* All forms at one address; compiled code never runs with the flag set. */
#define FORMS(flag, at)                                                                  \
  WITH(flag, at, "movb %%al, (%%rdi)");                                                  \
  WITH(flag, at, "movw %%ax, (%%rdi)");                                                  \
  WITH(flag, at, "movl %%eax, (%%rdi)");                                                 \
  WITH(flag, at, "movq %%rax, (%%rdi)");                                                 \
  WITH(flag, at, "addq %%rax, (%%rdi)");                                                 \
  WITH(flag, at, "lock xaddl %%eax, (%%rdi)");                                           \
  WITH(flag, at, "xchgq %%rax, (%%rdi)");                                                \
  WITH(flag, at, "cmpxchgl %%edx, (%%rdi)");                                             \
  WITH(flag, at, "movnti %%rax, (%%rdi)");                                               \
  WITH(flag, at, "movups %%xmm0, (%%rdi)");                                              \
  WITH(flag, at, "movlps %%xmm0, (%%rdi)");                                              \
  WITH(flag, at, "movss %%xmm0, (%%rdi)");                                               \
  WITH(flag, at, "fnstcw (%%rdi)");                                                      \
  WITH(flag, at, "fninit\nfnstenv (%%rdi)");                                                     \
  WITH(flag, at, "fninit\nfldpi\nfstpt (%%rdi)");                                                \
  WITH(flag, at, "fninit\nfld1\nfstpl (%%rdi)");                                                 \
  WITH(flag, at, "fninit\nfldz\nfstps (%%rdi)");                                                 \
  WITH(flag, at, "stosq");                                                               \
  WITH(flag, at, "movsl");                                                               \
  WITH(flag, at, "movsw");                                                               \
  WITH(flag, at, "btsl %%ecx, (%%rdi)");                                                 \
  WITH(flag, at, "clflush (%%rdi)\nsfence");                                             \
  WITH(flag, at, "movl %%eax, (%%rdi)\ncall 3f\nmovb %%dl, 12(%%rdi)\n"                 \
                 ".subsection 1\n3: movw %%dx, 8(%%rdi)\nret\n.subsection 0");           \
  WITH(flag, at, "movq %%rax, (%%rdi)\nmov $39, %%eax\nsyscall\nmovb %%dl, (%%rdi)")

int main(int argc, char **argv) {
  const char *directory = directory_of(argc, argv);
  char *map = pm_map(directory, "pool", 1 << 20);
  next_seen = (struct seen *)(map + (1 << 19));
  handle(SIGBUS, on_fault, SA_NODEFER);
  handle(SIGTRAP, on_step, SA_NODEFER);
  for (int i = 0; i < 256; i++) source[i] = (char)(i * 7 + 1);
  for (int round = 0; round < 2; round++)
    for (int place = 0; place < 16; place++) {
      char *at = map + 4096 * (round * 16 + place) + 64 * 5 + place;
      FORMS(0x40000, at); /* alignment check */
      FORMS(0x400, at + 1024); /* direction */
      WITH(0x400, at + 1024 + 64, "rep movsb");
      if (place > 2) continue;
      FORMS(0x100, at + 2048); /* trap */
      WITH(0x100, at + 2048 + 64, "rep stosb");
      next_seen++->form = steps;
    }
  return 0;
}
