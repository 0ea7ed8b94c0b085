/* One file mapped several times, in parts, with different rights; parts unmapped, protected, mapped again. */
#include "pm.h"

int main(int argc, char **argv) {
  enum { PAGES = 64 };
  int rights = PROT_READ | PROT_WRITE, fd = pm_open(directory_of(argc, argv), "file", PAGES * 4096);
  char *whole = mmap(NULL, PAGES * 4096, rights, MAP_SHARED, fd, 0);
  char *upper = mmap(NULL, 32 * 4096, rights, MAP_SHARED, fd, 32 * 4096);
  char *reader = mmap(NULL, PAGES * 4096, PROT_READ, MAP_SHARED, fd, 0);
  char *mine = mmap(NULL, PAGES * 4096, rights, MAP_PRIVATE, fd, 0);
  check(whole != MAP_FAILED && upper != MAP_FAILED && reader != MAP_FAILED && mine != MAP_FAILED);
  for (int i = 0; i < 5000; i++) {
    size_t offset = noise() % (32 * 4096 - 8);
    memcpy(whole + offset, &(uint64_t){noise()}, 8);
    memcpy(upper + offset, &(uint64_t){noise()}, 8);
    memcpy(whole + 32 * 4096 + offset + 3, &(uint64_t){noise()}, 5);
    memcpy(mine + offset, &(uint64_t){noise()}, 8); /* never reaches the file */
  }
  check(memcmp(whole, reader, PAGES * 4096) == 0 && memcmp(whole + 32 * 4096, upper, 32 * 4096) == 0);
  check(munmap(whole + 8 * 4096, 8 * 4096) == 0);
  memset(whole + 7 * 4096, 1, 4096);
  memset(whole + 16 * 4096, 2, 4096);
  check(mmap(whole + 8 * 4096, 4 * 4096, rights, MAP_SHARED | MAP_FIXED, fd, 40 * 4096) == whole + 8 * 4096); /* other pages of the file */
  memset(whole + 8 * 4096 + 50, 3, 100);
  check(upper[8 * 4096 + 50] == 3);
  check(mprotect(whole, 4 * 4096, PROT_READ) == 0 && whole[100] == reader[100]);
  check(mprotect(whole, 4 * 4096, rights) == 0);
  memset(whole + 4000, 4, 200);
  check(mprotect(reader + 4096, 4096, rights) == 0); /* a reader becomes a writer */
  memset(reader + 4096 + 1000, 5, 300);
  check(munmap(upper, 32 * 4096) == 0 && munmap(reader, PAGES * 4096) == 0);
  memset(whole + 60 * 4096, 6, 4096);
  check(mmap(whole + 62 * 4096, 4096, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
  memset(whole + 62 * 4096, 7, 4096); /* no longer the file */
  return 0;
}
