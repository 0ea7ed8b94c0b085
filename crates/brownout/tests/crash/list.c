/*
 * A list of nodes in a memory-mapped file, and its own recovery.
 *
 *   list FILE put COUNT [KIND]   appends nodes at the head
 *   list FILE check              follows the list
 *   list FILE count              prints how many nodes there are
 *   list FILE gap                looks at all nodes; exits 1 if exactly one of the first 16 is missing
 *   list FILE sum                looks at all nodes
 *   list FILE luck               looks at a node that it chooses at random, then at the head
 *
 * KIND is `late` if a node is made durable after the head that points to it, `batch` if all nodes are made durable at once.
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
	_Alignas(64) uint64_t key;
	uint64_t next;
};

struct pool {
	_Alignas(64) uint64_t head;
	struct node nodes[63];
};

static void persist(const void *line)
{
	_mm_clflush(line);
	_mm_sfence();
}

__attribute__((noinline)) static void put(struct pool *pool, uint64_t number, const char *kind)
{
	struct node *node = &pool->nodes[number];
	node->key = number;
	node->next = pool->head;
	if (*kind == 0)
		persist(node);
	pool->head = number;
	persist(&pool->head);
	if (strcmp(kind, "late") == 0)
		persist(node);
}

static void put_all(struct pool *pool, uint64_t count)
{
	for (uint64_t number = 1; number <= count; number++)
		pool->nodes[number].key = number;
	msync(pool, sizeof *pool, MS_SYNC);
	pool->head = count;
	persist(&pool->head);
}

static int check(const struct pool *pool)
{
	for (uint64_t at = pool->head; at != 0; at = pool->nodes[at].next) {
		if (at > 62 || pool->nodes[at].key != at) {
			fprintf(stderr, "node %lu is damaged\n", (unsigned long)at);
			return 1;
		}
	}
	return 0;
}

static int count(const struct pool *pool)
{
	int nodes = 0;
	for (uint64_t at = pool->head; at != 0; at = pool->nodes[at].next)
		nodes++;
	return nodes;
}

static int present(const struct pool *pool)
{
	int nodes = 0;
	for (int at = 1; at <= 16; at++)
		nodes += pool->nodes[at].key != 0;
	return nodes;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, sizeof(struct pool)) != 0)
		return 2;
	struct pool *pool = mmap(0, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0)
		return check(pool);
	if (strcmp(argv[2], "count") == 0)
		return printf("%d\n", count(pool)) < 0;
	if (strcmp(argv[2], "done") == 0) {
		int more = count(pool) - atoi(getenv("BROWNOUT_OP"));
		return check(pool) || more < 0 || more > atoi(getenv("BROWNOUT_OP_ACTIVE"));
	}
	if (strcmp(argv[2], "gap") == 0)
		return present(pool) == 15;
	if (strcmp(argv[2], "sum") == 0)
		return present(pool) > 62;
	if (strcmp(argv[2], "luck") == 0) {
		uint64_t chance = 0;
		(void)!getentropy(&chance, 1);
		return pool->nodes[1 + chance % 32].key == 99 || pool->head == 99;
	}
	if (argc > 4 && strcmp(argv[4], "batch") == 0) {
		put_all(pool, atoi(argv[3]));
		return 0;
	}
	for (int number = 1; number <= atoi(argv[3]); number++)
		put(pool, number, argc > 4 ? argv[4] : "");
	return 0;
}
