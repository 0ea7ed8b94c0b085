/*
 * An update that begins with a mark that is never flushed, and ends with one that is, in a memory-mapped file.
 *
 *   begun FILE put     makes the update
 *   begun FILE check   exit 1 if an update has begun and not ended
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAIRS 16

struct word {
	_Alignas(64) volatile uint64_t value;
};

struct pool {
	struct word begun, ended, word[2 * PAIRS];
};

__attribute__((noinline)) void set_even(struct pool *pool, int pair)
{
	pool->word[2 * pair].value = 1;
}

__attribute__((noinline)) void set_odd(struct pool *pool, int pair)
{
	pool->word[2 * pair + 1].value = 1;
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
		return pool->begun.value && !pool->ended.value;
	pool->begun.value = 0;
	_mm_clflush((void *)&pool->begun);
	pool->begun.value = 1;
	for (int pair = 0; pair < PAIRS; pair++) {
		set_even(pool, pair);
		set_odd(pool, pair);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		_mm_clflush((void *)&pool->word[i]);
	pool->ended.value = 1;
	_mm_clflush((void *)&pool->ended);
	return 0;
}
