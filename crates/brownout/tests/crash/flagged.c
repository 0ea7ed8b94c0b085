/* A flag must not be durable before both words. With `old`, the first is late; with `both`, the second is, too. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct pool {
	_Alignas(64) volatile uint64_t first;
	_Alignas(64) volatile uint64_t second;
	_Alignas(64) volatile uint64_t flag;
};

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc != 3 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 10;
	struct pool *pool = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pool == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0)
		return pool->flag != 0 && (pool->first != 1 || pool->second != 1);
	if (strcmp(argv[2], "beside") == 0) {
		int log = open("log", O_WRONLY | O_CREAT, 0600);
		if (write(log, "x", 1) != 1)
			return 12;
	}
	if (strcmp(argv[2], "old") == 0) {
		pool->second = 1;
		_mm_clflush((void *)&pool->second);
	}
	pool->first = 1;
	if (strcmp(argv[2], "old") != 0)
		pool->second = 1;
	pool->flag = 1;
	_mm_clflush((void *)&pool->first);
	_mm_clflush((void *)&pool->second);
	_mm_clflush((void *)&pool->flag);
	return 0;
}
