/* A table whose size is never durable, and whose entries can be announced before they are durable; recovery says the same of both. */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ENTRIES 2

struct line {
  volatile uint64_t word;
  char rest[56];
};

struct table {
  struct line size;
  struct {
    struct line key, used;
  } entries[ENTRIES];
};

static void set_size(struct table *table) { table->size.word = ENTRIES; }

static void put_key(struct table *table, int entry) { table->entries[entry].key.word = 7; }

static void put(struct table *table, int entry) {
  put_key(table, entry);
  table->entries[entry].used.word = 1;
  _mm_clflush((void *)&table->entries[entry].used);
  _mm_clflush((void *)&table->entries[entry].key);
  _mm_sfence();
}

static int check(struct table *table) {
  for (uint64_t entry = 0; entry < ENTRIES; entry++) {
    if (!table->entries[entry].used.word)
      continue;
    if (table->size.word <= entry || table->entries[entry].key.word != 7) {
      fprintf(stderr, "an entry is lost\n");
      return 1;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 4096) != 0)
    return 2;
  struct table *table = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (table == MAP_FAILED)
    return 2;
  if (argc > 2 && strcmp(argv[2], "check") == 0)
    return check(table);
  set_size(table);
  for (int entry = 0; entry < ENTRIES; entry++)
    put(table, entry);
  return 0;
}
