/* Aborts if its input begins with a number of four bytes and one of eight. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	unsigned char input[64];
	uint32_t first;
	uint64_t second;
	int file = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 2 || file < 0 || ftruncate(file, 4096))
		return 2;
	uint64_t *runs = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	++*runs;
	_mm_clflush(runs);
	_mm_sfence();
	ssize_t len = read(0, input, sizeof input);
	if (len < 4)
		return 1;
	memcpy(&first, input, 4);
	if (first != 0xdeadc0de || len < 12)
		return 2;
	memcpy(&second, input + 4, 8);
	if (second == 0x1122334455667788)
		abort();
	return 0;
}
