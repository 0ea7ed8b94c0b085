/* Loops, branches, calls and signals: line counts are compared with those of gcov. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t signals;

static void handler(int signal) {
    signals += signal == SIGUSR1;
}

static int collatz(long n) {
    int steps = 0;
    while (n != 1) {
        if (n % 2 == 0)
            n /= 2;
        else
            n = 3 * n + 1;
        steps++;
    }
    return steps;
}

static const char *kind(int n) {
    switch (n % 4) {
    case 0:
        return "zero";
    case 1:
        return "one";
    case 2:
        return "two";
    default:
        return n > 90 ? "many" : "three";
    }
}

static int never(int n) {
    return n + 1;
}

static int compare(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

int main(int argc, char **argv) {
    int total = 0;
    signal(SIGUSR1, handler);
    for (int n = 1; n <= 100; n++) {
        total += collatz(n);
        if (n % 10 == 0 && n > 30)
            total += (int)strlen(kind(n));
        if (n == 50)
            continue;
        total ^= n;
    }
    for (int i = 0; i < 7; i++)
        raise(SIGUSR1);
    int values[64];
    for (int i = 0; i < 64; i++)
        values[i] = i * 37 % 64;
    qsort(values, 64, sizeof values[0], compare);
    do {
        total -= values[total % 64 < 0 ? 0 : total % 64];
    } while (total > 10000);
    if (argc > 9)
        total = never(total);
    printf("%d %d\n", total, (int)signals);
    return 0;
}
