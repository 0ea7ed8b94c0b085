/*
 * A table whose buckets have a lock beside their data. The lock is taken and released by plain stores, and not flushed.
 *
 *   buckets POOL put      puts values into the buckets
 *   buckets POOL reset    recovery: initialises the locks, then checks the data
 *   buckets POOL ignore   recovery: checks the data alone
 *   buckets POOL wait     recovery: waits until the locks are free, then checks the data
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUCKETS = 3 };

struct bucket {
	_Alignas(64) volatile uint64_t lock;
	volatile uint64_t value, check;
};

static void put(struct bucket *bucket, uint64_t value)
{
	bucket->lock = 1;
	bucket->check = ~value;
	_mm_clflush((void *)bucket);
	bucket->value = value;
	_mm_clflush((void *)bucket);
	bucket->lock = 0;
}

static int is_damaged(const struct bucket *bucket)
{
	return bucket->value != 0 && bucket->check != ~bucket->value;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		return 2;
	struct bucket *buckets = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int damaged = 0;
	for (int i = 0; i < BUCKETS; i++) {
		if (strcmp(argv[2], "put") == 0) {
			put(&buckets[i], i + 1);
			continue;
		}
		if (strcmp(argv[2], "reset") == 0)
			buckets[i].lock = 0;
		while (strcmp(argv[2], "wait") == 0 && buckets[i].lock != 0)
			usleep(1000);
		damaged |= is_damaged(&buckets[i]);
	}
	return damaged;
}
