/* Appends records, each of two lines; the count makes them valid. What is forgotten is an argument. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct record {
	_Alignas(64) volatile uint64_t number;
	_Alignas(64) volatile uint64_t check;
};

struct log {
	_Alignas(64) volatile uint64_t count;
	struct record records[8];
};

static void persist(volatile void *place)
{
	_mm_clflush((void *)place);
	_mm_sfence();
}

static void append(struct log *log, uint64_t number, const char *forgotten)
{
	struct record *record = &log->records[log->count];
	record->number = number;
	if (strcmp(forgotten, "number") != 0)
		persist(&record->number);
	record->check = ~number;
	if (strcmp(forgotten, "check") != 0)
		persist(&record->check);
	log->count++;
	persist(&log->count);
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (argc != 3 || fd < 0 || ftruncate(fd, 4096) != 0)
		return 10;
	struct log *log = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (log == MAP_FAILED)
		return 11;
	if (strcmp(argv[2], "recover") == 0) {
		for (uint64_t i = 0; i < log->count; i++)
			if (log->records[i].number != i + 1 || log->records[i].check != ~(i + 1))
				return 1;
		return 0;
	}
	for (uint64_t i = 1; i <= 4; i++)
		append(log, i, argv[2]);
	return 0;
}
