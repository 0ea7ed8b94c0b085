/*
 * A value and a flag that says it is there, in two lines of a memory-mapped file, and their own recovery.
 *
 *   unflushed FILE put     stores the value before the flag, and flushes only the flag
 *   unflushed FILE late    stores the value after the flag, too
 *   unflushed FILE check   exit 1 if the flag is there without the value
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
	_Alignas(64) volatile uint64_t value;
	_Alignas(64) volatile uint64_t valid;
};

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0)
		return pool->valid && pool->value != 42;
	pool->value = 1;
	_mm_clflush((void *)&pool->value);
	if (strcmp(argv[2], "put") == 0)
		pool->value = 42;
	pool->valid = 1;
	_mm_clflush((void *)&pool->valid);
	if (strcmp(argv[2], "late") == 0)
		pool->value = 42;
	return 0;
}
