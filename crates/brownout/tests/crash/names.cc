/*
 * A log of values in a memory-mapped file, in C++, and its own recovery.
 *
 *   names FILE put COUNT      appends values
 *   names FILE check          exit 0 if each value that counts is whole
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 65536

namespace kv {

struct Pool {
	alignas(64) uint64_t count;
	struct {
		alignas(64) uint64_t value;
	} slot[];
};

static inline __attribute__((always_inline)) void seal(Pool *pool, uint64_t count)
{
	pool->count = count;
	_mm_clflush(&pool->count);
}

template <class T> struct Log {
	Pool *pool;

	__attribute__((noinline)) void put(T value)
	{
		pool->slot[pool->count].value = value;
		_mm_clflush(&pool->slot[pool->count]);
		seal(pool, pool->count + 1);
	}

	__attribute__((noinline)) void put_pair(T value)
	{
		put(value);
		put(value);
	}
};

__attribute__((noinline)) Pool *open_pool(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, SIZE) != 0)
		exit(10);
	void *pool = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pool == MAP_FAILED)
		exit(11);
	return (Pool *)pool;
}

__attribute__((noinline)) void never_called(Pool *pool)
{
	seal(pool, 0);
}

} // namespace kv

int main(int argc, char **argv)
{
	kv::Pool *pool = kv::open_pool(argv[1]);
	if (strcmp(argv[2], "check") == 0) {
		for (uint64_t i = 0; i < pool->count; i++)
			if (pool->slot[i].value == 0)
				return 1;
		return 0;
	}
	if (argc > 4)
		kv::never_called(pool);
	kv::Log<long> log = {pool};
	log.put_pair(1);
	for (int i = 2; i < atoi(argv[3]); i++)
		log.put(i + 1);
	return 0;
}
