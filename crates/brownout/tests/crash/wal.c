/*
 * A count in a memory-mapped file, with a write-ahead log beside it that is written with system calls, and their recovery.
 *
 *   wal DIRECTORY put COUNT      appends to the log, then counts
 *   wal DIRECTORY check          exit 0 if the count is that of the log
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 4096

static int open_log(const char *create)
{
	if (create[0] == 'p') {
		int fd = open("log.new", O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || write(fd, "log\n", 4) != 4 || close(fd) != 0 || rename("log.new", "log") != 0)
			exit(12);
	}
	return open("log", O_RDWR);
}

int main(int argc, char **argv)
{
	if (argc < 3 || chdir(argv[1]) != 0)
		return 9;
	int log = open_log(argv[2]);
	int fd = open("pool", O_RDWR | O_CREAT, 0600);
	if (log < 0 || fd < 0 || ftruncate(fd, SIZE) != 0)
		return 10;
	volatile uint64_t *count = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (count == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0)
		return *count + 4 != (uint64_t)lseek(log, 0, SEEK_END);
	for (int i = 0; i < atoi(argv[3]); i++) {
		if (pwrite(log, "x", 1, 4 + i) != 1)
			return 13;
		*count = i + 1;
		_mm_clflush((void *)count);
	}
	return 0;
}
