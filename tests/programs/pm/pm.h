/* What the persistent-memory programs share: mapped files in the directory given as last argument, and
 * places in them for stores that are aligned, misaligned, and across lines and pages. */
#ifndef PM_H
#define PM_H

#include <fcntl.h>
#include <sys/stat.h>
#include "check.h"

/* The directory for files: the last argument. */
__attribute__((unused)) static const char *directory_of(int argc, char **argv) {
  check(argc > 1);
  return argv[argc - 1];
}

/* Opens `name` in the directory, `length` bytes long. */
__attribute__((unused)) static int pm_open(const char *directory, const char *name, off_t length) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  check(fd >= 0 && ftruncate(fd, length) == 0);
  return fd;
}

/* Maps a new file of that name and length. */
__attribute__((unused)) static char *pm_map(const char *directory, const char *name, size_t length) {
  int fd = pm_open(directory, name, (off_t)length);
  char *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED);
  close(fd);
  return map;
}

/* Numbers that are the same in every run and never zero in any byte. */
__attribute__((unused)) static uint64_t noise(void) {
  static uint64_t state = 0x9e3779b97f4a7c15;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state | 0x0101010101010101;
}

/* A cursor through a mapping: each call gives a fresh place, by turns aligned to a line, misaligned, across two
 * lines, and across two pages. 512 bytes from there on are the caller's. */
enum { PLACES = 4 };
struct cursor {
  char *at;
  char *end;
};

__attribute__((unused)) static char *place(struct cursor *cursor, int kind) {
  static const int offset[PLACES] = {64, 129, 64 * 3 - 3, 0};
  check(cursor->at + 8192 <= cursor->end);
  if (kind == 3) { /* across a page: the next boundary, minus a bit */
    char *boundary = (char *)(((uintptr_t)cursor->at + 4096 + 512) & ~4095UL);
    cursor->at = boundary + 1024;
    return boundary - 5;
  }
  char *line = (char *)(((uintptr_t)cursor->at + 63) & ~63UL);
  cursor->at = line + 1024;
  return line + offset[kind];
}

/* Runs an instruction: its operand is (%rdi); rax, rdx and xmm0 to xmm3 hold noise, ecx a small number. */
#define run_at(address, text)                                                                        \
  do {                                                                                               \
    char *at_ = (address);                                                                           \
    uint64_t a_ = noise(), d_ = noise(), c_ = noise() % 60 + 1;                                      \
    __asm__ volatile("movq %%rax, %%xmm0\nmovq %%rdx, %%xmm1\npunpcklqdq %%xmm1, %%xmm0\n"           \
                     "pshufd $0x1b, %%xmm0, %%xmm1\npshufd $0x93, %%xmm0, %%xmm2\nmovaps %%xmm1, %%xmm3\n" \
                     text                                                                            \
                     : "+a"(a_), "+d"(d_), "+c"(c_), "+D"(at_)                                       \
                     :                                                                               \
                     : "rbx", "rsi", "r8", "r9", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "memory", "cc"); \
  } while (0)

/* At each kind of place. */
#define form(cursor, text) \
  for (int kind_ = 0; kind_ < PLACES; kind_++) run_at(place(cursor, kind_), text);

/* At places inside one line: systems may forbid locks that are split. */
#define locked_form(cursor, text) \
  for (int kind_ = 0; kind_ < 2; kind_++) run_at(place(cursor, kind_), text);

/* At aligned places. */
#define aligned_form(cursor, text) \
  for (int kind_ = 0; kind_ < PLACES; kind_++) run_at(place(cursor, 0) + kind_ * 64, text);

#endif
