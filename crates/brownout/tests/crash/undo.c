/*
 * An account in each of two lines, changed in place with an undo log in a third, and their own recovery.
 *
 *   undo FILE transfer N         N transfers; the mark of the log is flushed only together with the accounts
 *   undo FILE transfer N mark    it is flushed before the accounts change
 *   undo FILE check              undoes what is marked; exit 1 if the accounts do not add up then
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct bank {
	struct {
		uint64_t marked, from, to;
	} log __attribute__((aligned(64)));
	uint64_t from __attribute__((aligned(64)));
	uint64_t to __attribute__((aligned(64)));
};

static void mark(volatile struct bank *bank)
{
	bank->log.marked = 1;
}

__attribute__((noinline)) static void transfer(volatile struct bank *bank, uint64_t amount, int flush_mark)
{
	bank->log.from = bank->from;
	bank->log.to = bank->to;
	_mm_clflush((void *)&bank->log);
	mark(bank);
	if (flush_mark)
		_mm_clflush((void *)&bank->log);
	bank->from -= amount;
	bank->to += amount;
	_mm_clflush((void *)&bank->from);
	_mm_clflush((void *)&bank->to);
	bank->log.marked = 0;
	_mm_clflush((void *)&bank->log);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	struct bank *bank = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "check") == 0) {
		if (bank->log.marked) {
			bank->from = bank->log.from;
			bank->to = bank->log.to;
		}
		if (bank->from + bank->to != 0)
			fprintf(stderr, "the accounts do not add up\n");
		return bank->from + bank->to != 0;
	}
	for (int amount = 1; amount <= atoi(argv[3]); amount++)
		transfer(bank, amount, argc > 4);
	return 0;
}
