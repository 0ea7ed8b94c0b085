/* Frames of all shapes: fixed, of variable size, realigned, both, with arguments on the stack, with all
 * callee-saved registers in use, recursive. */
#include "chain.h"

static NOINLINE int leaf(int n)
{
    ENTER;
    EVENT;
    LEAVE;
    return n + 1;
}

static NOINLINE int variable(int n)
{
    volatile char room[n * 40 + 1];
    ENTER;
    room[n] = (char)n;
    int result = leaf(n) + room[n];
    LEAVE;
    return result;
}

static NOINLINE int realigned(int n)
{
    volatile char room[128] __attribute__((aligned(64)));
    ENTER;
    room[n] = (char)n;
    int result = variable(n) + room[n];
    LEAVE;
    return result;
}

static NOINLINE int realigned_variable(int n)
{
    volatile char room[n * 24 + 1];
    volatile char line[64] __attribute__((aligned(64)));
    ENTER;
    room[n] = line[n] = (char)n;
    int result = realigned(n) + room[n] + line[n];
    EVENT;
    LEAVE;
    return result;
}

static NOINLINE long many(long a, long b, long c, long d, long e, long f, long g, long h)
{
    ENTER;
    long x = a * b, y = c * d, z = e * f, v = g * h, w = a ^ h, u = b ^ g;
    long result = realigned_variable((int)a);
    EVENT;
    LEAVE;
    return result + x + y + z + v + w + u;
}

static NOINLINE long recursive(int n)
{
    ENTER;
    long result = n > 0 ? recursive(n - 1) + 1 : many(1, 2, 3, 4, 5, 6, 7, 8);
    LEAVE;
    return result;
}

int main(void)
{
    ENTER;
    for (int i = 0; i < 4; i++)
        recursive(i * 3);
    leaf(1);
    LEAVE;
    return 0;
}
