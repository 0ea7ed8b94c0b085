/* The stacks of threads end where threads start. */
#include "chain.h"
#include <pthread.h>

static NOINLINE void work(int n)
{
    ENTER;
    if (n > 0)
        work(n - 1);
    EVENT;
    LEAVE;
}

static void *run(void *argument)
{
    ENTER;
    work(3);
    LEAVE;
    return argument;
}

int main(void)
{
    ENTER;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, run, NULL);
        pthread_join(thread, NULL);
    }
    work(1);
    LEAVE;
    return 0;
}
