/* Memory is cleared by code that does not know its type, before code that does uses it. */
#include <fcntl.h>
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPERATION __attribute__((noipa))

struct item {
    uint64_t key;
    uint64_t value;
};

OPERATION static void *cleared(char *pool, size_t at) {
    uint64_t *words = (uint64_t *)(pool + at);
    for (size_t i = 0; i < sizeof(struct item) / sizeof *words; i++)
        *(volatile uint64_t *)(words + i) = 0;
    return words;
}

OPERATION static void set(struct item *item, uint64_t key) {
    item->key = key;
    item->value = 2 * key;
    _mm_clflush(item);
}

int main(int argc, char **argv) {
    (void)argc;
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return 2;
    char *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (uint64_t i = 0; i < 3; i++)
        set(cleared(pool, 64 * i), i + 1);
    return 0;
}
