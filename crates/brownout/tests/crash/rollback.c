/*
 * An account in each of two lines, changed in place with an undo log in a third, and its own recoveries.
 *
 *   rollback FILE transfer N    N transfers
 *   rollback FILE careful       undoes a transfer that is marked, and then removes the mark
 *   rollback FILE careless      removes the mark first
 *   rollback FILE lazy          undoes a transfer that is marked, and makes nothing durable
 *   rollback FILE locked        takes a lock while it does so, and exits 1 if the lock is taken
 *   rollback FILE stamped       stores the time while it does so
 *
 * Each recovery exits 1 if the accounts do not add up then.
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef REMOVED
#define REMOVED 0 /* a mark that is removed */
#endif

struct bank {
	struct {
		_Alignas(64) uint64_t marked;
		uint64_t from, to;
	} log;
	_Alignas(64) uint64_t from;
	_Alignas(64) uint64_t to;
	_Alignas(64) uint64_t lock;
};

static void persist(const volatile void *line)
{
	_mm_clflush((void *)line);
	_mm_sfence();
}

__attribute__((noinline)) static void mark(volatile struct bank *bank, uint64_t marked)
{
	bank->log.marked = marked;
	persist(&bank->log);
}

__attribute__((noinline)) static void restore(volatile struct bank *bank)
{
	bank->from = bank->log.from;
	bank->to = bank->log.to;
}

static void transfer(volatile struct bank *bank, uint64_t amount)
{
	bank->log.from = bank->from;
	bank->log.to = bank->to;
	persist(&bank->log);
	mark(bank, 1);
	bank->from -= amount;
	bank->to += amount;
	persist(&bank->from);
	persist(&bank->to);
	mark(bank, 0);
}

static void recover(volatile struct bank *bank, const char *how)
{
	if (strcmp(how, "locked") == 0) {
		if (bank->lock) {
			fprintf(stderr, "the lock is taken\n");
			exit(1);
		}
		bank->lock = 1;
		persist(&bank->lock);
	}
	if (strcmp(how, "stamped") == 0) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		bank->lock = (uint64_t)now.tv_nsec | 1;
		persist(&bank->lock);
	}
	if (bank->log.marked) {
		if (strcmp(how, "careless") == 0)
			mark(bank, REMOVED);
		restore(bank);
		if (strcmp(how, "lazy") == 0) {
			bank->log.marked = 0;
		} else {
			persist(&bank->from);
			persist(&bank->to);
			mark(bank, 0);
		}
	}
	if (strcmp(how, "locked") == 0) {
		bank->lock = 0;
		persist(&bank->lock);
	}
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, 4096) != 0)
		return 2;
	struct bank *bank = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (strcmp(argv[2], "transfer") == 0) {
		for (int amount = 1; amount <= atoi(argv[3]); amount++)
			transfer(bank, amount);
		return 0;
	}
	recover(bank, argv[2]);
	if (bank->from + bank->to != 0) {
		fprintf(stderr, "the accounts do not add up\n");
		return 1;
	}
	return 0;
}
