/* Structs without a name: in an array, as a member, with the name of a typedef, and in a member without a name. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
	uint64_t count, limit;
} counter;

struct pool {
	struct {
		volatile uint64_t key, value;
	} slots[4];
	struct {
		volatile uint64_t low, high;
	} range;
	struct {
		volatile uint64_t plain;
	};
	volatile counter used;
};

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc != 2 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 10;
	struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pool == MAP_FAILED)
		return 11;
	pool->slots[2].key = 1;
	pool->slots[2].value = 1;
	pool->range.low = 1;
	pool->range.high = 1;
	pool->plain = 1;
	pool->used.count = 1;
	_mm_clflush(pool);
	_mm_clflush((char *)pool + 64);
	return 0;
}
