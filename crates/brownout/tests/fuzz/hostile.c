/* A store that uses another file on `second`. Depending on the third argument, it does what no store should: `kill` what runs it on the
   command `die`, `spin` without end on that command, or always `fail`. */
#include <fcntl.h>
#include <immintrin.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *map(const char *path)
{
	int file = open(path, O_RDWR | O_CREAT, 0644);
	if (file < 0 || ftruncate(file, 4096))
		return 0;
	return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

static void persist(const void *address)
{
	_mm_clflush(address);
	_mm_sfence();
}

int main(int argc, char **argv)
{
	uint64_t *pool = map(argv[1]);
	if (argc < 3 || !pool)
		return 2;
	pool[0]++;
	persist(pool);
	const char *mode = argc > 3 ? argv[3] : "";
	char line[80];
	while (fgets(line, sizeof line, stdin)) {
		if (!strcmp(mode, "kill") && !strcmp(line, "die\n") && getppid() > 1) {
			kill(getppid(), SIGKILL);
			pause();
		}
		if (!strcmp(mode, "spin") && !strcmp(line, "spin\n"))
			for (volatile int spin = 1; spin;)
				;
		if (!strcmp(line, "second\n")) {
			uint64_t *second = map(argv[2]);
			second[0]++;
			persist(second);
			if (second[0] > 100)
				__builtin_trap();
		}
	}
	return !strcmp(mode, "fail");
}
