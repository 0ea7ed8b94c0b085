/* A store that reads commands from standard input, or from a file. `put` is right. `drop` forgets a flush, which only shows if there is
   something to drop. `swap` has a moment in which the store does not start again after a crash. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct store {
	uint64_t magic, swapping;
	_Alignas(64) uint64_t count;
	_Alignas(64) uint64_t dropped;
	_Alignas(64) uint64_t value[64];
};

static void persist(const void *address)
{
	_mm_clflush(address);
	_mm_sfence();
}

static void drop(struct store *store)
{
	if (store->count == 0)
		return;
	store->count--;
	persist(&store->count);
	store->dropped++; /* never flushed, unless something else is in the line */
}

static void swap(struct store *store)
{
	if (store->count < 2)
		return;
	store->swapping = 1;
	persist(&store->swapping);
	store->value[0] = store->value[1];
	persist(&store->value[0]);
	store->swapping = 0;
	persist(&store->swapping);
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 2 || file < 0 || ftruncate(file, sizeof(struct store)))
		return 2;
	struct store *store = mmap(0, sizeof *store, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	FILE *input = argc > 2 ? fopen(argv[2], "r") : stdin;
	if (store->magic != 42) {
		store->dropped = 0;
		persist(&store->dropped);
		store->magic = 42;
		persist(&store->magic);
	}
	if (store->swapping)
		abort(); /* recovery of an interrupted swap is not written yet */
	char line[80];
	while (input && fgets(line, sizeof line, input)) {
		uint64_t value;
		if (sscanf(line, "put %lu", &value) == 1 && store->count < 64) {
			store->value[store->count] = value;
			persist(&store->value[store->count]);
			store->count++;
			persist(&store->count);
		} else if (!strncmp(line, "drop", 4)) {
			drop(store);
		} else if (!strncmp(line, "swap", 4)) {
			swap(store);
		}
	}
	return 0;
}
