/* Aborts on a line that is a password, of which it knows only a hash. Depending on further arguments: `threads` starts a thread before the
   input is used, `uptime` does different things with persistent memory from one run to the next. */
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t *pool;

static void store(int at)
{
	pool[8 * at]++;
	_mm_clflush(&pool[8 * at]);
	_mm_sfence();
}

static void *idle(void *unused)
{
	pause();
	return unused;
}

static uint64_t hash(const char *text)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (; *text && *text != '\n'; text++)
		hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
	return hash;
}

static int reads_uptime;

static void store_uptime(void)
{
	double up = 0;
	FILE *clock = fopen("/proc/uptime", "r");
	if (clock && fscanf(clock, "%lf", &up) == 1)
		for (int times = (int)(up * 100) % 64; times > 0; times--)
			store(2 + times % 7);
}

__attribute__((noinline)) void serve(FILE *input)
{
	char line[80];
	while (fgets(line, sizeof line, input)) {
		store(1);
		if (reads_uptime)
			store_uptime();
		if (hash(line) * 2654435761 >> 8 == 0xaaaaa008d0df78)
			abort();
	}
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 2 || file < 0 || ftruncate(file, 4096))
		return 2;
	pool = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	store(0);
	if (argc > 2 && !strcmp(argv[2], "threads")) {
		pthread_t thread;
		pthread_create(&thread, 0, idle, 0);
	}
	reads_uptime = argc > 2 && !strcmp(argv[2], "uptime");
	serve(stdin);
	return 0;
}
