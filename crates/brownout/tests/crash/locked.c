/*
 * Ten functions update their own part of a file, each under one lock in the file.
 *
 *   locked POOL         calls all of them
 *   locked POOL check   waits until the lock is free, for ever if the crash has left it held; then fails if the eighth
 *                       function has stored only one of its two words
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PARTS = 10 };

struct pool {
	_Alignas(64) volatile uint64_t lock;
	struct {
		_Alignas(64) volatile uint64_t first;
		_Alignas(64) volatile uint64_t second;
	} part[PARTS];
};

static void store(volatile uint64_t *word, uint64_t value)
{
	*word = value;
	_mm_clflush((void *)word);
}

/* Each function has failure points of its own. */
#define UPDATE(number)                                                 \
	static __attribute__((noinline)) void update_##number(struct pool *pool) \
	{                                                              \
		store(&pool->lock, 1);                                 \
		store(&pool->lock, 0);                                 \
		store(&pool->part[number].first, 1);                   \
		store(&pool->part[number].second, 1);                  \
	}
UPDATE(0) UPDATE(1) UPDATE(2) UPDATE(3) UPDATE(4) UPDATE(5) UPDATE(6) UPDATE(7) UPDATE(8) UPDATE(9)

int main(int argc, char **argv)
{
	int fd = argc < 2 ? -1 : open(argv[1], O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		return 2;
	struct pool *pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (argc > 2) {
		while (pool->lock)
			usleep(1000);
		return pool->part[7].first != pool->part[7].second;
	}
	update_0(pool);
	update_1(pool);
	update_2(pool);
	update_3(pool);
	update_4(pool);
	update_5(pool);
	update_6(pool);
	update_7(pool);
	update_8(pool);
	update_9(pool);
	return 0;
}
