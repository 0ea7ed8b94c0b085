/*
 * A bank: accounts in a memory-mapped file, transfers with an undo log, and their own recovery.
 *
 *   bank FILE run TRANSFERS [BROKEN]      makes transfers; the log of transfer number BROKEN, from 1, is not valid
 *   bank FILE check [MILLISECONDS]        undoes a transfer that was interrupted; exit 1 if money is lost or made; takes
 *                                         at least so long
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
#define ACCOUNTS 8
#define BALANCE 1000

struct word {
	_Alignas(64) uint64_t value;
};

struct bank {
	struct word valid, from, to, old_from, old_to;
	struct word opened;
	struct word account[ACCOUNTS];
};

static void set(struct word *word, uint64_t value)
{
	*(volatile uint64_t *)&word->value = value;
	_mm_clflush(word);
}

__attribute__((noinline)) void transfer(struct bank *bank, uint64_t from, uint64_t to, int logged)
{
	set(&bank->from, from);
	set(&bank->to, to);
	set(&bank->old_from, bank->account[from].value);
	set(&bank->old_to, bank->account[to].value);
	set(&bank->valid, logged);
	set(&bank->account[from], bank->account[from].value - 10);
	set(&bank->account[to], bank->account[to].value + 10);
	set(&bank->valid, 0);
}

static int check(struct bank *bank)
{
	if (!bank->opened.value)
		return 0;
	if (bank->valid.value) {
		bank->account[bank->from.value].value = bank->old_from.value;
		bank->account[bank->to.value].value = bank->old_to.value;
	}
	uint64_t sum = 0;
	for (int i = 0; i < ACCOUNTS; i++)
		sum += bank->account[i].value;
	if (sum != ACCOUNTS * BALANCE)
		fprintf(stderr, "the accounts hold %llu\n", (unsigned long long)sum);
	return sum != ACCOUNTS * BALANCE;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || argc < 3 || ftruncate(fd, SIZE) != 0)
		return 10;
	struct bank *bank = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (bank == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "check") == 0) {
		if (argc > 3)
			usleep(1000 * atoi(argv[3]));
		return check(bank);
	}
	for (int i = 0; i < ACCOUNTS; i++)
		set(&bank->account[i], BALANCE);
	set(&bank->opened, 1);
	for (int i = 1; i <= atoi(argv[3]); i++)
		transfer(bank, i % ACCOUNTS, (i + 3) % ACCOUNTS, argc < 5 || i != atoi(argv[4]));
	return 0;
}
