/* The C library's string functions, which choose their code by CPUID, on all alignments near page ends. */
#include "check.h"

int main(void) {
  char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(munmap(pages + 2 * 4096, 4096) == 0);
  char *end = pages + 2 * 4096;
  unsigned long hash = 0;
  for (size_t length = 0; length < 300; length++) {
    char *text = end - length - 1;
    memset(pages, 0, 4096);
    memset(text, 'a', length);
    text[length] = 0;
    check(strlen(text) == length && strchr(text, 0) == text + length && strnlen(text, 100) == (length < 100 ? length : 100));
    if (length > 2) {
      text[length / 2] = 'b';
      check(strchr(text, 'b') == text + length / 2 && memchr(text, 'b', length) == text + length / 2);
      check(strrchr(text, 'b') == text + length / 2 && strspn(text, "a") == length / 2);
    }
    char copy[400];
    strcpy(copy, text);
    check(strcmp(copy, text) == 0 && memcmp(copy, text, length) == 0);
    memmove(copy + 7, copy, length + 1);
    check(strcmp(copy + 7, text) == 0);
    for (size_t i = 0; i < length; i++) hash = hash * 31 + (unsigned char)text[i];
  }
  printf("%lu\n", hash);
  return 0;
}
