/*
 * Programs that leave little to judge.
 *
 *   quiet POOL read           maps the pool writable and only reads it
 *   quiet POOL beside FILE    stores to the pool, and to another file that it never flushes
 *   quiet POOL check          whether the pool holds what it should
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *map(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT, 0600);

	if (ftruncate(file, 4096))
		_exit(1);
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

int main(int argc, char **argv)
{
	volatile uint64_t *pool = map(argv[1]);

	if (strcmp(argv[2], "check") == 0)
		return pool[0] != 0 && pool[0] != 7;
	if (strcmp(argv[2], "read") == 0)
		return pool[0] == 1;
	uint64_t *other = map(argv[3]);

	other[0] = 1;
	pool[0] = 7;
	_mm_clflush((void *)pool);
	_mm_sfence();
	return argc == 2;
}
