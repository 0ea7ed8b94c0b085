/*
 * Two words of one line that must agree, changed together with one flush, and their own recovery.
 *
 *   torn FILE put N      changes both words N times
 *   torn FILE sync N     likewise, with msync instead of a flush
 *   torn FILE check      exit 1 if they differ
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) static void put(volatile uint64_t *pool, uint64_t value)
{
	pool[0] = value;
	pool[1] = value;
	_mm_clflush((void *)pool);
}

__attribute__((noinline)) static void sync_both(volatile uint64_t *pool, uint64_t value)
{
	pool[0] = value;
	pool[1] = value;
	msync((void *)pool, 4096, MS_SYNC);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	uint64_t *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0) {
		if (pool[0] != pool[1])
			fprintf(stderr, "the words differ\n");
		return pool[0] != pool[1];
	}
	for (int value = 1; value <= atoi(argv[3]); value++)
		strcmp(argv[2], "sync") == 0 ? sync_both(pool, value) : put(pool, value);
	return 0;
}
