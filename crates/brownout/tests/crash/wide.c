/*
 * Two words that one instruction of 16 bytes changes together, and their own recovery.
 *
 *   wide FILE put N      changes both words N times
 *   wide FILE check      exit 1 if they differ
 */
#include <emmintrin.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) static void put(uint64_t *pair, int64_t value)
{
	__m128i both = _mm_set1_epi64x(value);
	__asm__ volatile("movdqa %1, %0" : "=m"(*(__m128i *)pair) : "x"(both) : "memory");
	_mm_clflush(pair);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	uint64_t *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	uint64_t *pair = pool + 8;
	if (strcmp(argv[2], "check") == 0) {
		if (pair[0] != pair[1])
			fprintf(stderr, "the words are %lu and %lu\n", (unsigned long)pair[0], (unsigned long)pair[1]);
		return pair[0] != pair[1];
	}
	for (int value = 1; value <= atoi(argv[3]); value++)
		put(pair, value);
	return 0;
}
