/* A store with a step that only few inputs reach; the test chooses the condition. The step forgets a flush, except in the clean twin. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct store {
	uint64_t runs;
	_Alignas(64) char mode[8];
	_Alignas(64) uint64_t extra;
};

static unsigned char input[128];

static void persist(const void *address)
{
	_mm_clflush(address);
	_mm_sfence();
}

static int is_met(const struct store *store, int argc, char **argv)
{
#if defined MAGIC
	uint32_t number;
	memcpy(&number, input + 1, sizeof number);
	return (number ^ 0x5a5a5a5a) * 3 == 0x1234567u;
#elif defined DECIMAL
	return atoi((char *)input) == 7351;
#elif defined KEYWORD
	return !strcmp((char *)input, "compact");
#elif defined CHECKSUM
	uint16_t sum = 7, wanted;
	for (int i = 2; i < 10; i++)
		sum = sum * 31 + input[i];
	memcpy(&wanted, input, sizeof wanted);
	return sum == wanted && input[2] == '#' && input[9] / 3 == 20;
#elif defined IMAGE
	return store->runs > 0 && !memcmp(store->mode, "recover", 7);
#elif defined ARGUMENT
	return argc > 2 && !strcmp(argv[2], "--deep");
#elif defined VARIABLE
	const char *mode = getenv("STORE_MODE");
	return mode && !strncmp(mode, "wild", 4);
#endif
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (file < 0 || ftruncate(file, sizeof(struct store)))
		return 2;
	struct store *store = mmap(0, sizeof *store, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	const char *path = argc > 2 && argv[2][0] != '-' ? argv[2] : "/dev/stdin";
	int source = open(path, O_RDONLY);
	if (source >= 0 && read(source, input, sizeof input - 1) < 0)
		return 2;
	if (is_met(store, argc, argv)) {
		store->extra = 1;
		persist(&store->extra);
		store->extra = 2;
#ifdef CLEAN
		persist(&store->extra);
#endif
	}
	store->runs++;
	persist(&store->runs);
	return 0;
}
