/*
 * Two values, each marked as set before it is durable: two mistakes of one kind.
 *
 *   sides POOL put      sets both
 *   sides POOL check    exit 1 if one is marked and not there
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct side {
	_Alignas(64) volatile uint64_t is_set;
	_Alignas(64) volatile uint64_t value;
};

__attribute__((noinline)) void put_left(struct side *side)
{
	side->is_set = 1;
	_mm_clflush((void *)&side->is_set);
	side->value = 7;
	_mm_clflush((void *)&side->value);
}

__attribute__((noinline)) void put_right(struct side *side)
{
	side->is_set = 1;
	_mm_clflush((void *)&side->is_set);
	side->value = 8;
	_mm_clflush((void *)&side->value);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc < 3 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 2;
	struct side *side = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "put") == 0) {
		put_left(&side[0]);
		put_right(&side[1]);
		return 0;
	}
	if (side[0].is_set && side[0].value != 7) {
		fprintf(stderr, "the left value is lost\n");
		return 1;
	}
	if (side[1].is_set && side[1].value != 8) {
		fprintf(stderr, "the right value is lost\n");
		return 1;
	}
	return 0;
}
