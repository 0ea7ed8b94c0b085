/* An instruction that modifies the one right after it: the new one runs. */
#include "generated.h"

int main(void) {
  static const unsigned char code[] = {
      0xc7, 0x05, 0x01, 0x00, 0x00, 0x00, 0, 0, 0, 0, /* movl $N, 1(%rip): the constant below */
      0xb8, 0, 0, 0, 0,                               /* mov $0, %eax */
      0xc3,
  };
  unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, code, sizeof code);
  for (int i = 0; i < 100; i++) {
    memcpy(page + 6, &i, 4);
    check(call(page) == i);
  }
  say("modified itself");
  return 0;
}
