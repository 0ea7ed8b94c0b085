/*
 * A child process leaves a mark in the file, and its parent removes it when the child has ended.
 *
 *   child POOL         does this
 *   child POOL check   fails if the mark is there
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave_mark(volatile uint64_t *mark)
{
	*mark = 1;
}

int main(int argc, char **argv)
{
	int fd = argc < 2 ? -1 : open(argv[1], O_RDWR | O_CREAT, 0644);
	if (fd < 0 || ftruncate(fd, 4096) != 0)
		return 2;
	volatile uint64_t *mark = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (argc > 2)
		return *mark != 0;
	if (fork() == 0) {
		leave_mark(mark);
		_exit(0);
	}
	wait(0);
	*mark = 0;
	_mm_clflush((void *)mark);
	return 0;
}
