/*
 * A key-value store in a memory-mapped file: an append-only log of entries. `brownout demo` compiles
 * and checks it.
 *
 *   kvlog FILE put COUNT    add COUNT entries and erase every fourth of them
 *   kvlog FILE check        recovery: exits with 0 if the store is consistent
 *
 * It works as long as it does not crash. It has four typical mistakes:
 *
 *   1. put() stores `entries` after `end`, in another cache line, and never flushes it: a crash between
 *      the two, or one that loses it, leaves a count that does not match the log. That is two bugs.
 *   2. put() executes a redundant fence.
 *   3. erase() flushes a whole entry although it has changed only one line of it.
 *   4. erase() removes an entry and updates the count in two steps: after a crash between them,
 *      recovery finds one entry too few.
 */
#include <cpuid.h>
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64
#define FILE_SIZE (1 << 20)
#define MAGIC 0x676f6c766bull /* "kvlog" */

struct entry {
	uint32_t size; /* of the whole entry, a multiple of LINE */
	uint32_t live;
	char key[24];
	char value[];
};

struct store {
	uint64_t magic;
	uint64_t end; /* bytes of the log in use; the rest is garbage */
	char pad[LINE - 16];
	uint64_t entries; /* live entries, in a line of its own */
	char pad2[LINE - 8];
	char log[];
};

__attribute__((target("clwb"))) static void flush_clwb(void *line) { _mm_clwb(line); }
__attribute__((target("clflushopt"))) static void flush_opt(void *line) { _mm_clflushopt(line); }
static void flush_old(void *line) { _mm_clflush(line); }

static void (*flush_line)(void *);

static void choose_flush(void)
{
	unsigned a, b = 0, c, d;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	flush_line = b & (1u << 24) ? flush_clwb : b & (1u << 23) ? flush_opt : flush_old;
}

static void flush(const void *from, size_t size)
{
	uintptr_t line = (uintptr_t)from & ~(uintptr_t)(LINE - 1);
	for (; line < (uintptr_t)from + size; line += LINE)
		flush_line((void *)line);
}

static void persist(const void *from, size_t size)
{
	flush(from, size);
	_mm_sfence();
}

static struct store *open_store(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, FILE_SIZE) != 0) {
		perror(path);
		exit(1);
	}
	struct store *store = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (store == MAP_FAILED) {
		perror(path);
		exit(1);
	}
	close(fd);
	if (store->magic != MAGIC) {
		store->end = 0;
		store->entries = 0;
		persist(store, sizeof *store);
		store->magic = MAGIC;
		persist(&store->magic, sizeof store->magic);
	}
	return store;
}

static struct entry *put(struct store *store, const char *key, const char *value)
{
	size_t size = sizeof(struct entry) + strlen(value) + 1;
	size = (size + LINE - 1) / LINE * LINE;
	if (sizeof *store + store->end + size > FILE_SIZE)
		return NULL;
	struct entry *entry = (struct entry *)(store->log + store->end);
	entry->size = size;
	entry->live = 1;
	strncpy(entry->key, key, sizeof entry->key);
	strcpy(entry->value, value);
	persist(entry, size);

	store->end += size;
	store->entries += 1; /* mistake 1: the line below flushes `end` alone */
	persist(&store->end, sizeof store->end);
	_mm_sfence(); /* mistake 2: persist() has already fenced */
	return entry;
}

static void erase(struct store *store, struct entry *entry)
{
	entry->live = 0;
	persist(entry, entry->size); /* mistake 3: only the first line has changed */
	store->entries -= 1;	     /* mistake 4: too late, or too early */
	persist(&store->entries, sizeof store->entries);
}

static int check(const struct store *store)
{
	uint64_t live = 0;
	for (uint64_t at = 0; at < store->end;) {
		const struct entry *entry = (const struct entry *)(store->log + at);
		if (entry->size == 0 || entry->size % LINE != 0 || entry->size > store->end - at) {
			fprintf(stderr, "the entry at %llu is damaged\n", (unsigned long long)at);
			return 1;
		}
		live += entry->live;
		at += entry->size;
	}
	if (live != store->entries) {
		fprintf(stderr, "the count is %llu, but the log has %llu entries\n",
			(unsigned long long)store->entries, (unsigned long long)live);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	choose_flush();
	if (argc == 3 && strcmp(argv[2], "check") == 0)
		return check(open_store(argv[1]));
	if (argc != 4 || strcmp(argv[2], "put") != 0) {
		fprintf(stderr, "usage: kvlog FILE put COUNT | kvlog FILE check\n");
		return 2;
	}
	struct store *store = open_store(argv[1]);
	for (int i = 0; i < atoi(argv[3]); i++) {
		char key[24], value[200];
		snprintf(key, sizeof key, "key-%d", i);
		snprintf(value, sizeof value, "value %d %.*s", i, i * 7 % 150,
			 "........................................................................"
			 "........................................................................");
		struct entry *entry = put(store, key, value);
		if (!entry) {
			fprintf(stderr, "the file is full\n");
			return 1;
		}
		if (i % 4 == 3)
			erase(store, entry);
	}
	printf("%llu entries\n", (unsigned long long)store->entries);
	return check(store);
}
