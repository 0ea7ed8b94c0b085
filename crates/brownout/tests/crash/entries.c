/* Fills entries of a table; `valid` must not be durable before `key` and `value`. Built with LATE, it flushes the value too late. As
 * `entries POOL check` it is the recovery; built with STRICT, that is another program. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct entry {
	_Alignas(64) volatile uint64_t key;
	_Alignas(64) volatile uint64_t value;
	_Alignas(64) volatile uint64_t valid;
};

enum { ENTRIES = 8 };

static void persist(volatile void *at)
{
	_mm_clflush((void *)at);
	_mm_sfence();
}

static void fill(struct entry *entry, uint64_t key)
{
	entry->key = key;
	persist(&entry->key);
	entry->value = key + 1;
#ifndef LATE
	persist(&entry->value);
#endif
	entry->valid = 1;
	persist(&entry->valid);
#ifdef LATE
	persist(&entry->value);
#endif
}

static void erase(struct entry *entry)
{
	entry->valid = 0;
	persist(&entry->valid);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc != 3 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 10;
	struct entry *entries = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (entries == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0) {
		for (struct entry *entry = entries; entry < entries + ENTRIES; entry++)
			if (entry->valid && (!entry->key || entry->value != entry->key + 1))
				return 1;
#ifdef STRICT
		return entries[0].valid > 1;
#else
		return 0;
#endif
	}
	for (int at = 0; at < atoi(argv[2]); at++)
		fill(&entries[at], at + 10);
	if (atoi(argv[2]) > 4)
		erase(&entries[0]);
	return 0;
}
