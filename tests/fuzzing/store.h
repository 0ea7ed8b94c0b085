/* What the stores share: a pool in a file, and a loop that reads commands with up to two numbers and a word. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE _Alignas(64)
#define POOL 65536

struct command {
	const char *name;
	void (*run)(long a, long b, const char *word);
};

static void *pool;
static void start(void);
static int check(void);
static const struct command commands[];

static void persist(const void *address, size_t size)
{
	uintptr_t line = (uintptr_t)address & ~63ul;
	for (; line < (uintptr_t)address + size; line += 64)
		_mm_clflush((void *)line);
	_mm_sfence();
}

#define SET(place, value) (*(&(place)) = (value), persist(&(place), sizeof(place)))

int main(int argc, char **argv)
{
	int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
	if (file < 0 || ftruncate(file, POOL))
		return 2;
	pool = mmap(0, POOL, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (pool == MAP_FAILED)
		return 2;
	if (argc > 2)
		return check();
	start();
	char line[256], name[32], word[128];
	while (fgets(line, sizeof line, stdin)) {
		long a = 0, b = 0;
		word[0] = 0;
		if (sscanf(line, "%31s", name) != 1)
			continue;
		sscanf(line, "%*s %ld %ld", &a, &b);
		sscanf(line, "%*s %127s", word);
		for (const struct command *command = commands; command->name; command++)
			if (!strcmp(command->name, name))
				command->run(a, b, word);
	}
	return 0;
}
