/*
 * Two failure points, of which the second leaves an order open, and a recovery that takes its time.
 *
 *   late FILE          stores
 *   late FILE check    exit 0 after 300 ms if the file holds what it should
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0600);

	if (ftruncate(file, 4096))
		return 1;
	volatile uint64_t *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);

	if (argc > 2) {
		usleep(300000);
		return words[0] > 1;
	}
	words[0] = 1;
	_mm_clflush((void *)&words[0]);
	words[8] = 1;
	words[16] = 2;
	_mm_clflush((void *)&words[8]);
	_mm_clflush((void *)&words[16]);
	return 0;
}
