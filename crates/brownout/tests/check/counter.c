/*
 * Counts in a memory-mapped file, with mistakes that the arguments choose.
 *
 *   counter FILE [last] [fence] [scratch] [noise] [fail] [crash]
 *
 * Built with SYNC, a flag of msync, it syncs instead of flushing.
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef SIZE
#define SIZE 4096
#endif

struct counter {
	_Alignas(64) uint64_t value;
	_Alignas(64) uint64_t steps;
	_Alignas(64) uint64_t scratch;
};

#ifdef SYNC
#define FLUSH(place) msync((void *)((uintptr_t)(place) & ~4095ul), 4096, SYNC)
#else
#define FLUSH(place) _mm_clflush(place)
#endif

static void step(struct counter *counter)
{
	counter->value += 1;
	FLUSH(&counter->value);
	counter->steps += 1;
	FLUSH(&counter->steps);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, SIZE) != 0)
		return 10;
	struct counter *counter = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counter == MAP_FAILED)
		return 11;
	for (int i = 0; i < 3; i++)
		step(counter);
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "last") == 0)
			counter->steps = 99; /* missing-flush */
		if (strcmp(argv[i], "scratch") == 0)
			counter->scratch = 1; /* transient-data */
		if (strcmp(argv[i], "fence") == 0)
			_mm_sfence(); /* redundant-fence */
		for (uint64_t n = 1; strcmp(argv[i], "noise") == 0 && n < 100000; n++) {
			/* Values that do not compress make for a long trace. */
			counter->value = n * 0x9e3779b97f4a7c15 ^ n * n * 0x5851f42d4c957f2d;
			_mm_clflush(&counter->value);
		}
		if (strcmp(argv[i], "fail") == 0)
			return 7;
		if (strcmp(argv[i], "crash") == 0)
			abort();
	}
	write(1, "counted\n", 8);
	return 0;
}
