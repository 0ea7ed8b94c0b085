/*
 * Two memory-mapped files, and their recovery.
 *
 *   pools FIRST SECOND put      stores to both, and flushes all of it
 *   pools FIRST SECOND forget   also leaves stores to the first file unflushed
 *   pools FIRST SECOND check    reads both
 *   pools FIRST - check         reads the first file only
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
	_Alignas(64) volatile uint64_t value;
	_Alignas(64) volatile uint64_t lock;
	_Alignas(64) volatile uint64_t hits;
	_Alignas(64) volatile uint64_t misses;
};

static struct pool *map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		_exit(2);
	return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void store(volatile uint64_t *word, uint64_t value)
{
	*word = value;
	_mm_clflush((void *)word);
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	struct pool *first = map(argv[1]);
	struct pool *second = strcmp(argv[2], "-") == 0 ? first : map(argv[2]);
	if (strcmp(argv[3], "check") == 0)
		return first->value > 2 || first->hits > 9 || second->value > 2;
	store(&first->value, 1);
	store(&first->lock, 1);
	store(&second->value, 1);
	if (strcmp(argv[3], "put") == 0)
		return 0;
	first->lock = 0;
	first->misses = 4;
	first->hits = 5;
	first->value = 2;
	return 0;
}
