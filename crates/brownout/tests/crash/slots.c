/*
 * Slots in a memory-mapped file, filled one after the other, and their own recovery.
 *
 *   slots FILE put COUNT [early]      fills slots; `early` counts each before it is written
 *   slots FILE check [HOW]            exit 0 if each slot that counts is whole; else, as HOW says, exit 1,
 *                                     `abort`, `hang`, `spin`; `print` prints the number of slots, `op` compares it with
 *                                     the operations that brownout knows of
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 65536

struct pool {
	_Alignas(64) uint64_t count;
	struct {
		_Alignas(64) uint64_t number;
		uint64_t twice;
	} slot[];
};

static void write_slot(struct pool *pool, uint64_t at)
{
	pool->slot[at].number = at + 1;
	pool->slot[at].twice = 2 * (at + 1);
	_mm_clflush(&pool->slot[at]);
}

static void write_count(struct pool *pool, uint64_t count)
{
	pool->count = count;
	_mm_clflush(&pool->count);
}

__attribute__((noinline)) void put(struct pool *pool, uint64_t at, int early)
{
	if (early)
		write_count(pool, at + 1);
	write_slot(pool, at);
	if (!early)
		write_count(pool, at + 1);
}

__attribute__((noinline)) static int damaged(const char *how, uint64_t at)
{
	fprintf(stderr, "slot %llu is damaged\n", (unsigned long long)at);
	if (strcmp(how, "abort") == 0)
		abort();
	while (strcmp(how, "hang") == 0)
		pause();
	while (strcmp(how, "spin") == 0)
		__asm__ volatile("" ::: "memory");
	return 1;
}

static int check(const struct pool *pool, const char *how)
{
	for (uint64_t i = 0; i < pool->count; i++)
		if (pool->slot[i].number != i + 1 || pool->slot[i].twice != 2 * (i + 1))
			return damaged(how, i);
	if (strcmp(how, "print") == 0)
		printf("%llu\n", (unsigned long long)pool->count);
	if (strcmp(how, "op") == 0) {
		uint64_t done = strtoull(getenv("BROWNOUT_OP"), NULL, 10);
		uint64_t active = strtoull(getenv("BROWNOUT_OP_ACTIVE"), NULL, 10);
		if (pool->count < done || pool->count > done + active) {
			fprintf(stderr, "%llu slots after operation %llu\n", (unsigned long long)pool->count,
				(unsigned long long)done);
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, SIZE) != 0)
		return 10;
	struct pool *pool = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pool == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0)
		return check(pool, argc > 3 ? argv[3] : "");
	for (int i = 0; i < atoi(argv[3]); i++)
		put(pool, i, argc > 4 && strcmp(argv[4], "early") == 0);
	return 0;
}
