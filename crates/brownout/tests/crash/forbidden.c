/*
 * Counts in the first page of a memory-mapped file; the second page holds a number that the count must not be.
 *
 *   forbidden FILE put COUNT     counts up
 *   forbidden FILE check [OTHER] exits 1 if the count is the forbidden number, or that in the file OTHER
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
	_Alignas(4096) volatile uint64_t count;
	_Alignas(4096) volatile uint64_t forbidden;
};

static int is_in(const char *path, uint64_t count)
{
	char text[32] = "";
	int fd = open(path, O_RDONLY);
	return fd < 0 || read(fd, text, sizeof text - 1) < 0 || strtoull(text, 0, 10) == count;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR);
	struct pool *pool = mmap(0, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (argc < 3 || pool == MAP_FAILED)
		return 2;
	if (strcmp(argv[2], "check") == 0) {
		uint64_t count = pool->count;
		return count == pool->forbidden || (argc > 3 && is_in(argv[3], count));
	}
	for (int number = 1; number <= atoi(argv[3]); number++) {
		pool->count = number;
		_mm_clflush((void *)&pool->count);
		_mm_sfence();
	}
	return 0;
}
