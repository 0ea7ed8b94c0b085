/*
 * A pool that is not opened atomically, and pairs that are not put atomically, in a memory-mapped file.
 *
 *   opened FILE put     opens the pool and puts three pairs
 *   opened FILE check   exit 1 if the pool is opened in part, or a pair is there in part
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct word {
	_Alignas(64) volatile uint64_t value;
};

struct pool {
	struct word magic, size, first, second;
};

static void set(struct word *word, uint64_t value)
{
	word->value = value;
	_mm_clflush((void *)&word->value);
}

__attribute__((noinline)) void open_pool(struct pool *pool)
{
	set(&pool->magic, 42);
	set(&pool->size, 4096);
}

__attribute__((noinline)) void put(struct pool *pool, uint64_t value)
{
	set(&pool->first, value);
	set(&pool->second, value);
}

static int check(struct pool *pool)
{
	if (pool->magic.value && !pool->size.value) {
		puts("the pool has no size");
		return 1;
	}
	if (pool->first.value != pool->second.value) {
		puts("a pair is torn");
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc < 3 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 10;
	struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pool == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0)
		return check(pool);
	open_pool(pool);
	for (uint64_t value = 1; value <= 3; value++)
		put(pool, value);
	return 0;
}
