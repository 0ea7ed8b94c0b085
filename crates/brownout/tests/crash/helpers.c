/*
 * A value and a flag that says it is there, in two lines of a memory-mapped file, stored by helpers, and their own recovery.
 *
 *   helpers FILE put     flushes the flag before the value
 *   helpers FILE check   exit 1 if the flag is there without the value
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
	_Alignas(64) uint64_t value;
	_Alignas(64) uint64_t valid;
};

static void __attribute__((noinline)) store(volatile uint64_t *at, uint64_t value)
{
	*at = value;
}

static void __attribute__((noinline)) persist(void *at)
{
	_mm_clflush(at);
	_mm_sfence();
}

static void __attribute__((noinline)) put(struct pool *pool, uint64_t value)
{
	store(&pool->value, value);
	store(&pool->valid, value);
	persist(&pool->valid);
	persist(&pool->value);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0)
		return pool->valid > pool->value;
	for (uint64_t value = 1; value < 5; value++)
		put(pool, value);
	return 0;
}
