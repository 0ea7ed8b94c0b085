/* Handlers on the same stack and on another one, also nested, called in the midst of a function; they
 * return behind the instruction at fault, or jump out. */
#define _GNU_SOURCE
#include "chain.h"
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <ucontext.h>

static sigjmp_buf back;
static int nested, escapes;

static NOINLINE void fault(int n)
{
    ENTER;
    uintptr_t store;
    __asm__ volatile("lea 1f(%%rip), %0" : "=r"(store));
    EXPECT(store + 1);
    __asm__ volatile("1: movl %0, 0" : : "a"(n) : "memory");
    depth -= 2;
}

static NOINLINE void deeper(void)
{
    ENTER;
    EVENT;
    LEAVE;
}

static void handler(int signal, siginfo_t *info, void *context)
{
    ENTER;
    EVENT;
    deeper();
    if (nested-- > 0)
        fault(signal);
    if (escapes)
        siglongjmp(back, 1);
    /* The length of the store. */
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 7;
    LEAVE;
}

int main(void)
{
    ENTER;
    stack_t other = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&other, NULL);
    for (volatile int i = 0; i < 8; i++) {
        struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_NODEFER | SA_SIGINFO};
        action.sa_flags |= i & 1 ? SA_ONSTACK : 0;
        sigaction(SIGSEGV, &action, NULL);
        nested = i / 2 % 2;
        escapes = i / 4;
        if (sigsetjmp(back, 1) == 0)
            fault(i);
        depth = 1;
        deeper();
    }
    return 0;
}
