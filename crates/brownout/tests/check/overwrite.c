/*
 * Stores a value twice and flushes it once: dirty-overwrite, a pedantic rule.
 *
 *   overwrite FILE
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc < 2 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 10;
	volatile uint64_t *value = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (value == MAP_FAILED)
		return 11;
	*value = 1;
	*value = 2;
	_mm_clflush((void *)value);
	_mm_sfence();
	return 0;
}
