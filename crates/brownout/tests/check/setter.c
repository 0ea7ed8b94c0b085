/* Two mistakes that use one function: each pair must not be seen with the second greater than the first. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
    _Alignas(64) uint64_t first;
    _Alignas(64) uint64_t second;
    _Alignas(64) uint64_t third;
    _Alignas(64) uint64_t fourth;
};

static void __attribute__((noinline)) set(uint64_t *at, uint64_t value) {
    *at = value;
    _mm_clflush(at);
}

static void __attribute__((noinline)) first_pair(struct pool *pool, uint64_t value) {
    set(&pool->second, value);
    set(&pool->first, value);
}

static void __attribute__((noinline)) second_pair(struct pool *pool, uint64_t value) {
    set(&pool->fourth, value);
    set(&pool->third, value);
}

int main(int argc, char **argv) {
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096)) return 3;
    struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (pool == MAP_FAILED) return 3;
    if (!strcmp(argv[2], "check")) {
        if (pool->second > pool->first) {
            puts("the first pair is torn");
            exit(1);
        }
        if (pool->fourth > pool->third) {
            puts("the second pair is torn");
            exit(2);
        }
        return 0;
    }
    for (uint64_t value = 1; value < 5; value++) {
        first_pair(pool, value);
        if (!strcmp(argv[2], "both")) second_pair(pool, value);
        else {
            set(&pool->third, value);
            set(&pool->fourth, value);
        }
    }
    return 0;
}
