/*
 * Records of two lines whose halves must agree, a count of them, and their own recovery.
 *
 *   halves FILE put early     counts each record before it persists it
 *   halves FILE put place     changes each record in place when it is counted
 *   halves FILE check         exit 1 if the halves of a counted record differ
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct record {
	uint64_t half[2][8];
};

struct pool {
	uint64_t count, padding[7];
	struct record records[8];
};

#define CLFLUSHOPT(place) __asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)(place))::"memory")

static void persist(void *start, unsigned size)
{
	for (unsigned at = 0; at < size; at += 64)
		CLFLUSHOPT((char *)start + at);
	__asm__ volatile("sfence" ::: "memory");
}

static void write_halves(volatile struct record *record, uint64_t value)
{
	record->half[0][0] = value;
	record->half[1][0] = value;
}

__attribute__((noinline)) static void put(struct pool *pool, uint64_t value, const char *how)
{
	struct record *record = &pool->records[pool->count];
	write_halves(record, value);
	if (strcmp(how, "early") != 0)
		persist(record, sizeof *record);
	pool->count++;
	persist(&pool->count, sizeof pool->count);
	if (strcmp(how, "place") == 0)
		write_halves(record, value + 100);
	persist(record, sizeof *record);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, sizeof(struct pool)) != 0)
		return 2;
	struct pool *pool = mmap(0, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0) {
		for (uint64_t at = 0; at < pool->count; at++) {
			struct record *record = &pool->records[at];
			if (record->half[0][0] == 0 || record->half[0][0] != record->half[1][0])
				return fprintf(stderr, "record %lu is torn\n", at) > 0;
		}
		return 0;
	}
	for (uint64_t value = 1; value <= 3; value++)
		put(pool, value, argv[3]);
	return 0;
}
