/* A hash table in persistent memory, whose functions also serve volatile memory. Lines that end with "by hand" are left out, and then
   added by `brownout fix`. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct item {
	uint64_t key;
	uint64_t next;
	char text[112];
};

struct store {
	uint64_t count;
	uint64_t gap[7];
	uint64_t bucket[1024];
	struct item item[4096];
};

static void flush(const void *from, size_t size) // by hand
{ // by hand
	static int has_clwb = -1; // by hand
	if (has_clwb < 0) // by hand
		has_clwb = __builtin_cpu_supports("clwb") != 0; // by hand
	for (uintptr_t line = (uintptr_t)from & ~63ul; line < (uintptr_t)from + size; line += 64) // by hand
		if (has_clwb) // by hand
			__asm__ volatile(".byte 0x66; xsaveopt %0" : "+m"(*(volatile char *)line)); // by hand
		else // by hand
			_mm_clflush((void *)line); // by hand
} // by hand

static __attribute__((noinline)) void copy(char *to, const char *from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		to[i] = from[i];
}

static __attribute__((noinline)) void fill(struct item *item, uint64_t key, const char *text)
{
	item->key = key;
	copy(item->text, text, sizeof item->text);
}

static __attribute__((noinline)) void put(struct store *store, uint64_t key)
{
	struct item staged, *item = &store->item[store->count % 4096];
	char text[112];
	for (unsigned i = 0; i < sizeof text; i++)
		text[i] = (char)(key + i);
	fill(&staged, key, text);
	fill(item, key, staged.text);
	flush(item, sizeof *item); // by hand
	item->next = store->bucket[key % 1024];
	flush(&item->next, sizeof item->next); // by hand
	_mm_sfence();
	store->bucket[key % 1024] = store->count + 1;
	flush(&store->bucket[key % 1024], sizeof(uint64_t)); // by hand
	_mm_sfence();
	store->count++;
	flush(&store->count, sizeof store->count); // by hand
	_mm_sfence();
}

int main(int argc, char **argv)
{
	int file = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc < 3 || file < 0 || ftruncate(file, sizeof(struct store)))
		return 2;
	struct store *store = mmap(0, sizeof(struct store), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (store == MAP_FAILED)
		return 2;
	for (long i = 0; i < atol(argv[2]); i++)
		put(store, (uint64_t)i * 7919);
	printf("%lu\n", (unsigned long)store->count);
	return 0;
}
