/*
 * A record that an update changes in three lines and never flushes, and its own recovery.
 *
 *   record FILE put     changes the record, then counts the update
 *   record FILE check   exit 1 if an update counts and a part of it is not there
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
	_Alignas(64) volatile uint64_t key;
	volatile uint64_t value, size;
	_Alignas(64) volatile uint64_t updates;
};

static __attribute__((noinline)) void update(struct pool *pool, uint64_t to)
{
	pool->key = to;
	pool->value = to;
	pool->size = to;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0)
		return pool->updates && (pool->key != 7 || pool->value != 7);
	pool->key = 1;
	_mm_clflush((void *)&pool->key);
	update(pool, 7);
	pool->updates = 1;
	_mm_clflush((void *)&pool->updates);
	return 0;
}
