/* Bytes of a persistent file that change otherwise than by stores under its name.
 *
 *   ./replaced POOL rename     fills POOL.new, never flushes the value, and renames it to POOL
 *   ./replaced POOL truncate   cuts the value off, then adds zeros
 *   ./replaced POOL cut        never flushes the value and the mark, and cuts the value off
 *   ./replaced POOL move       fills POOL.new without flushing, renames it to POOL, and flushes
 *   ./replaced POOL check      fails if the value is gone before the file says so
 *   ./replaced POOL uncut      the same, if the file is complete
 *   ./replaced POOL unmoved    the same for POOL.new, if it is there
 *   ./replaced POOL hang       does not end then
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MARK = 0, VALUE = 8, GONE = 16, OTHER = 24, WORDS = 512 };

static volatile uint64_t *map(const char *path, int *file) {
  *file = open(path, O_RDWR | O_CREAT, 0644);
  if (*file < 0 || ftruncate(*file, WORDS * 8) != 0) exit(2);
  void *words = mmap(0, WORDS * 8, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
  if (words == MAP_FAILED) exit(2);
  return words;
}

static void persist(volatile uint64_t *word) {
  _mm_clflush((const void *)word);
  _mm_sfence();
}

static void persist_value(volatile uint64_t *word, uint64_t value) {
  *word = value;
  persist(word);
}

int main(int argc, char **argv) {
  const char *pool = argv[1], *mode = argv[argc - 1];
  char new[4096];
  struct stat stat_of;
  int file;
  snprintf(new, sizeof new, "%s.new", pool);
  if (strcmp(mode, "uncut") == 0 && (stat(pool, &stat_of) != 0 || stat_of.st_size < WORDS * 8)) return 0;
  if (strcmp(mode, "unmoved") == 0) {
    if (access(new, F_OK) != 0) return 0;
    pool = new;
  }
  if (strcmp(mode, "move") == 0) {
    volatile uint64_t *words = map(new, &file);
    words[VALUE] = 7;
    words[MARK] = 1;
    if (rename(new, pool) != 0) return 2;
    persist(&words[VALUE]);
    persist(&words[MARK]);
    return 0;
  }
  if (strcmp(mode, "rename") == 0) {
    volatile uint64_t *words = map(new, &file);
    words[VALUE] = 7; /* never flushed */
    persist_value(&words[MARK], 1);
    if (rename(new, pool) != 0) return 2;
    persist_value(&words[OTHER], 1);
    return 0;
  }
  volatile uint64_t *words = map(pool, &file);
  if (strcmp(mode, "cut") == 0) {
    persist_value(&words[OTHER], 1);
    words[VALUE] = 7;
    words[MARK] = 1;
    return ftruncate(file, 64) != 0;
  }
  if (strcmp(mode, "truncate") == 0) {
    persist_value(&words[VALUE], 7);
    persist_value(&words[MARK], 1);
    if (ftruncate(file, 64) != 0 || ftruncate(file, WORDS * 8) != 0) return 2;
    persist_value(&words[OTHER], 1);
    persist_value(&words[GONE], 1);
    return 0;
  }
  if (words[MARK] == 1 && words[GONE] == 0 && words[VALUE] != 7) {
    while (strcmp(mode, "hang") == 0) continue;
    return 1;
  }
  return 0;
}
