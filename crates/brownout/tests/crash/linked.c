/*
 * A list in a memory-mapped file, and its own recovery.
 *
 *   linked FILE put COUNT HOW     puts nodes in front; HOW says when a node is flushed:
 *                                 `before` it is linked, `after` that, `never`, or with the link and `one` fence
 *   linked FILE check [weak]      exit 1 if a node of the list is not whole; `weak` looks at the head only
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
	_Alignas(64) uint64_t head;
	struct {
		_Alignas(64) uint64_t next;
		uint64_t value;
	} node[];
};

#define CLFLUSHOPT(place) __asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)(place))::"memory")

static void fence(void)
{
	_mm_sfence();
}

__attribute__((noinline)) void link_node(struct pool *pool, uint64_t at)
{
	*(volatile uint64_t *)&pool->head = at;
	CLFLUSHOPT(&pool->head);
	fence();
}

__attribute__((noinline)) void put(struct pool *pool, uint64_t at, const char *how)
{
	volatile uint64_t *value = &pool->node[at].value, *next = &pool->node[at].next;
	/* On one line, so that both are one finding, of which only the value is harmful. */
	*value = at + 1000, *next = pool->head;
	if (strcmp(how, "before") == 0 || strcmp(how, "one") == 0)
		CLFLUSHOPT(&pool->node[at]);
	if (strcmp(how, "before") == 0)
		fence();
	link_node(pool, at);
	if (strcmp(how, "after") == 0) {
		CLFLUSHOPT(&pool->node[at]);
		fence();
	}
}

static int check(const struct pool *pool)
{
	uint64_t last = 1 << 20;
	for (uint64_t at = pool->head; at; at = pool->node[at].next) {
		if (at >= last || pool->node[at].value != at + 1000) {
			fprintf(stderr, "node %llu is damaged\n", (unsigned long long)at);
			return 1;
		}
		last = at;
	}
	return 0;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || argc < 3 || ftruncate(fd, SIZE) != 0)
		return 10;
	struct pool *pool = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (pool == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0)
		return argc > 3 ? pool->head > 1 << 20 : check(pool);
	for (int at = 1; at <= atoi(argv[3]); at++)
		put(pool, at, argv[4]);
	return 0;
}
