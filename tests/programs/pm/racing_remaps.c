/* Threads grow, move, replace and cut mappings of persistent files while others map plain memory that the kernel
 * may put where those were, and write both through the same instructions.
 *
 * @threaded
 * @varying
 */
#include "racing.h"

enum { PAGE = 4096, ROUNDS = 150 };

static const char *directory;
static char *shared;

/* One instruction stores to persistent memory and to plain memory by turns. */
__attribute__((noinline)) static void put(char *at, char value) { *(volatile char *)at = value; }

static void remaps(int number, uint64_t *random) {
  char name[16];
  snprintf(name, sizeof name, "own%d", number);
  int rights = PROT_READ | PROT_WRITE, fd = pm_open(directory, name, 16 * PAGE);
  char *map = mmap(NULL, 4 * PAGE, rights, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED);
  for (int i = 0; i < ROUNDS; i++) {
    size_t pages = 1 + next_random(random) % 16;
    put(map + 17, (char)i);
    char *target = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(target != MAP_FAILED);
    map = mremap(map, 4 * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    check(map == target);
    for (size_t page = 0; page < pages; page++) put(map + page * PAGE + i, (char)i);
    check(munmap(map + pages * PAGE, (16 - pages) * PAGE) == 0 || pages == 16);
    map = mremap(map, pages * PAGE, 4 * PAGE, MREMAP_MAYMOVE);
    check(map != MAP_FAILED);
    put(map + 3 * PAGE + i, (char)i);
  }
  close(fd);
}

/* What was written to plain memory stays there. */
static void plain(uint64_t *random) {
  for (int i = 0; i < ROUNDS * 4; i++) {
    size_t length = (1 + next_random(random) % 16) * PAGE;
    char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check(memory != MAP_FAILED);
    for (size_t at = 0; at < length; at += PAGE) put(memory + at, (char)(i + 1));
    for (size_t at = 0; at < length; at += PAGE) check(memory[at] == (char)(i + 1));
    check(munmap(memory, length) == 0);
  }
}

/* A page of a mapping that others write is replaced by itself, over and over. */
static void replaces(int number) {
  int fd = pm_open(directory, "shared", 8 * PAGE);
  for (int i = 0; i < ROUNDS; i++) {
    char *page = shared + (number + i) % 8 * PAGE;
    off_t offset = page - shared;
    check(mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == page);
    check(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
  }
  close(fd);
}

static void work(int number, uint64_t *random) {
  if (number < 2) remaps(number, random);
  if (number == 2) plain(random);
  if (number == 3) replaces(number);
  if (number >= 4)
    for (int i = 0; i < 4000; i++) {
      uint64_t value = next_random(random);
      put(shared + value % (8 * PAGE), (char)(value >> 32));
    }
}

int main(int argc, char **argv) {
  directory = directory_of(argc, argv);
  shared = pm_map(directory, "shared", 8 * PAGE);
  race(6, work);
  return 0;
}
