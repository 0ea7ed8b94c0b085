/* Parent and child write different code at the same address. */
#include "generated.h"

int main(void) {
  unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  write_function(page, 1);
  check(call(page) == 1);
  for (int i = 2; i < 30; i++) {
    pid_t child = fork();
    if (child == 0) {
      check(call(page) == i - 1);
      write_function(page, 200 + i);
      _exit(call(page));
    }
    check(exit_status(child) == 200 + i);
    check(call(page) == i - 1);
    write_function(page, i);
    check(call(page) == i);
  }
  say("apart");
  return 0;
}
