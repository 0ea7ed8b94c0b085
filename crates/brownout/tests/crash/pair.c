/*
 * A value and a flag that says it is there, in two lines of a memory-mapped file, and their own recovery.
 *
 *   pair FILE put        stores the value, then the flag, and only then makes both durable
 *   pair FILE check      exit 1 if the flag is there without the value
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

__attribute__((noinline)) static void store_value(volatile struct pool *pool)
{
	pool->value = 42;
}

__attribute__((noinline)) static void store_flag(volatile struct pool *pool)
{
	pool->valid = 1;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0)
		return pool->valid && pool->value != 42;
	store_value(pool);
	store_flag(pool);
	_mm_clflush(&pool->value);
	_mm_clflush(&pool->valid);
	return 0;
}
