/*
 * Entries and their count in a memory-mapped file, and recoveries that do different things before they check them.
 *
 *   counted FILE put NUMBER [early]   appends entries; `early` makes the count durable before the entry
 *   counted FILE HOW                  checks the entries, in one of the ways below
 */
#include <fcntl.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ENTRIES = 60 };

struct pool {
	_Alignas(64) uint64_t count;
	struct {
		_Alignas(64) uint64_t value, unread;
	} entry[ENTRIES];
};

static struct pool *pool;

static void persist(const void *line)
{
	_mm_clflush(line);
	_mm_sfence();
}

__attribute__((noinline)) static void append(uint64_t number, int early)
{
	if (early) {
		pool->count = number + 1;
		persist(&pool->count);
	}
	pool->entry[number].value = number + 1;
	pool->entry[number].unread = 7;
	persist(&pool->entry[number]);
	pool->count = number + 1;
	persist(&pool->count);
}

static int check(void)
{
	for (uint64_t at = 0; at < pool->count; at++) {
		if (pool->entry[at].value != at + 1) {
			fprintf(stderr, "entry %lu is missing\n", (unsigned long)at);
			return 1;
		}
	}
	return 0;
}

static void *check_in_thread(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)check();
}

static int in_thread(void)
{
	pthread_t thread;
	void *result;
	if (pthread_create(&thread, NULL, check_in_thread, NULL) != 0)
		return 3;
	pthread_join(thread, &result);
	return (intptr_t)result;
}

static int in_child(void)
{
	pid_t child = fork();
	int status;
	if (child == 0)
		_exit(check());
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static int with_file(void)
{
	FILE *file = fopen("notes", "w");
	fprintf(file, "%lu\n", (unsigned long)pool->count);
	fclose(file);
	return check();
}

static int at_a_time(void)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec == 0 || check();
}

/* Only complains if it can see when power failed, by a variable whose name is in no file. */
static int secretly(uint64_t few)
{
	char name[] = "BROWNOUT_EVENX";
	name[strlen(name) - 1] = 'T';
	return getenv(name) != NULL && pool->count >= few;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0644);
	if (argc < 3 || ftruncate(fd, sizeof *pool) != 0)
		return 2;
	pool = mmap(0, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	const char *how = argv[2];
	if (strcmp(how, "check") == 0)
		return check();
	if (strcmp(how, "print") == 0)
		return printf("%lu\n", (unsigned long)(pool->count < 4 ? 0 : pool->count)) < 0;
	if (strcmp(how, "thread") == 0)
		return in_thread();
	if (strcmp(how, "child") == 0)
		return in_child();
	if (strcmp(how, "file") == 0)
		return with_file();
	if (strcmp(how, "time") == 0)
		return at_a_time();
	if (strcmp(how, "process") == 0)
		return getpid() == 1 || check();
#ifdef MENTION
	if (strcmp(how, "event") == 0)
		return getenv(MENTION) != NULL && pool->count >= 5 && pool->count < ENTRIES;
#endif
	if (strcmp(how, "secret") == 0)
		return secretly(5) && pool->count < ENTRIES;
	for (int number = 0; number < atoi(argv[3]); number++)
		append(number, argc > 4);
	return 0;
}
