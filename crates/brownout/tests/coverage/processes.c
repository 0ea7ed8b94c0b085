/* Counts in threads, in a forked child, in an executed program, in a loaded library, around faults, and until SIGKILL. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic long work;
static volatile sig_atomic_t ticks;
static sigjmp_buf after_fault;

static void step(void) {
    work++; /* line: step */
}

static void *run_thread(void *argument) {
    for (int i = 0; i < 100000; i++)
        step();
    return argument;
}

static void tick(int signal) {
    ticks += signal != 0;
}

static void fault(int signal) {
    siglongjmp(after_fault, signal); /* line: fault */
}

static void store(volatile long *word) {
    long value = work; *word = value; *word += 1; value++; work = value; /* line: store */
}

static void touch(volatile char *address) {
    *address = 1;
    work++; /* line: beyond-fault */
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "executed")) {
        work++; /* line: executed */
        return 0;
    }
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run_thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);

    signal(SIGALRM, tick);
    ualarm(500, 500);
    while (ticks < 40)
        step();
    ualarm(0, 0);
    printf("%ld\n", work);
    fflush(stdout);

    FILE *file = fopen("pool", "w+");
    ftruncate(fileno(file), 4096);
    volatile long *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    for (int i = 0; i < 5; i++)
        store(&pool[i]);

    signal(SIGSEGV, fault);
    for (int i = 0; i < 3; i++)
        if (!sigsetjmp(after_fault, 1))
            touch(NULL);

    int (*triple)(int) = dlsym(dlopen("./library.so", RTLD_NOW), "triple");
    for (int i = 0; i < 6; i++)
        work += triple(i);

    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            work++; /* line: forked */
            execl("/proc/self/exe", argv[0], "executed", NULL);
        }
    while (wait(NULL) > 0)
        ;
    if (vfork() == 0)
        _exit(0); /* line: vforked */
    kill(getpid(), SIGKILL); /* line: killed */
    work++; /* line: beyond-kill */
}
