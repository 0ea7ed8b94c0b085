/* Stacks cut off by longjmp, and grown again through other calls to the same depth. */
#include "chain.h"
#include <setjmp.h>

static jmp_buf back;

static NOINLINE void fall(int n)
{
    ENTER;
    EVENT;
    if (n == 0)
        longjmp(back, 1);
    fall(n - 1);
    LEAVE;
}

static NOINLINE void left(int n)
{
    ENTER;
    fall(n);
    LEAVE;
}

static NOINLINE void right(int n)
{
    ENTER;
    fall(n);
    LEAVE;
}

int main(void)
{
    ENTER;
    for (volatile int i = 0; i < 4; i++) {
        if (setjmp(back) == 0) {
            if (i & 1)
                left(i);
            else
                right(i);
        }
        depth = 1;
        EVENT;
    }
    return 0;
}
