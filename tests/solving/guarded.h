/* What the programs share: a store in a file, and a step behind a condition on the input. The step forgets its last flush, except in the
   clean twin, which is built with -DCLEAN. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE _Alignas(64)

struct store {
	uint64_t runs;
	LINE uint64_t extra;
	LINE unsigned char key[16];
};

/* The input, with a NUL behind it. */
static unsigned char in[257];
static size_t size;
static int is_met(const struct store *store);

static void persist(const void *address)
{
	_mm_clflush(address);
	_mm_sfence();
}

static void guarded_step(struct store *store)
{
	store->extra = 1;
	persist(&store->extra);
	store->extra = 2;
#ifdef CLEAN
	persist(&store->extra);
#endif
}

int main(int argc, char **argv)
{
	int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0644) : -1;
	if (file < 0 || ftruncate(file, 4096))
		return 2;
	struct store *store = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (store == MAP_FAILED)
		return 2;
	ssize_t got;
	while (size < sizeof in - 1 && (got = read(0, in + size, sizeof in - 1 - size)) > 0)
		size += got;
	if (is_met(store))
		guarded_step(store);
	store->runs++;
	persist(&store->runs);
	return 0;
}
