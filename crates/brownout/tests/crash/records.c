/*
 * Records in a file that is kept with msync, and their own recovery.
 *
 *   records FILE put COUNT [early]     adds records; `early` syncs the count before the record that it counts
 *   records FILE check                 exit 1 if a record that counts is not whole
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define SIZE (8 * PAGE)

struct file {
	_Alignas(PAGE) uint64_t count;
	_Alignas(PAGE) uint64_t record[PAGE / 8];
};

__attribute__((noinline)) int add(struct file *file, uint64_t at, int early)
{
	*(volatile uint64_t *)&file->record[at] = at + 1000;
	if (!early && msync(file->record, PAGE, MS_SYNC) != 0)
		return 1;
	*(volatile uint64_t *)&file->count = at + 1;
	if (msync(&file->count, PAGE, MS_SYNC) != 0)
		return 1;
	return early ? msync(file->record, PAGE, MS_SYNC) : 0;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || argc < 3 || ftruncate(fd, SIZE) != 0)
		return 10;
	struct file *file = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0) {
		for (uint64_t at = 0; at < file->count; at++)
			if (file->record[at] != at + 1000)
				return 1;
		return 0;
	}
	for (int at = 0; at < atoi(argv[3]); at++)
		if (add(file, at, argc > 4))
			return 12;
	return 0;
}
