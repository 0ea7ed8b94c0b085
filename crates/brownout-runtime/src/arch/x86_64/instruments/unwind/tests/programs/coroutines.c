/* Two stacks in turn, each with a chain of its own. */
#include "chain.h"
#include <string.h>
#include <ucontext.h>

static ucontext_t outside, inside;
static char stack[1 << 16];

static NOINLINE void yielding(int n)
{
    ENTER;
    EVENT;
    if (n > 0)
        yielding(n - 1);
    int mine = depth;
    uintptr_t saved[64];
    memcpy(saved, chain, sizeof(saved));
    swapcontext(&inside, &outside);
    memcpy(chain, saved, sizeof(saved));
    depth = mine;
    EVENT;
    LEAVE;
}

static void coroutine(void)
{
    ENTER;
    yielding(3);
    LEAVE;
}

int main(void)
{
    uintptr_t mine = (uintptr_t)__builtin_return_address(0);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = sizeof(stack);
    inside.uc_link = &outside;
    makecontext(&inside, coroutine, 0);
    for (int i = 0; i < 4; i++) {
        depth = 0;
        whole = 1;
        swapcontext(&outside, &inside);
        depth = whole = 0;
        EXPECT(mine);
        EVENT;
    }
    return 0;
}
