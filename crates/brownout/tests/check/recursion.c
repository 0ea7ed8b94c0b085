/*
 * A tree in a memory-mapped file, filled by a function that calls itself in two places and forgets a flush.
 *
 *   recursion FILE
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

struct node {
	_Alignas(64) volatile uint64_t key;
	volatile uint64_t levels;
};

static struct node *nodes;

static int fill(unsigned node, unsigned levels)
{
	nodes[node].key = node;
	_mm_clflush(&nodes[node]);
	nodes[node].levels = levels;
	if (levels == 0)
		return 1;
	int left = fill(2 * node, levels - 1);
	int right = fill(2 * node + 1, levels - 1);
	return 1 + left + right;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 2 || ftruncate(fd, 1 << 16) != 0)
		return 2;
	nodes = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return fill(1, 8) != 511;
}
