/* A restricted transaction either commits or aborts into its fallback; xtest says where we are. */
#include "check.h"

int main(void) {
  long value = 0;
  if (cpu_has("rtm")) {
    for (int i = 0; i < 100; i++) {
      int status = -1;
      __asm__ volatile("xbegin 1f\nincq %1\nxend\n1:" : "+a"(status), "+m"(value) : : "memory", "cc");
      if (status != -1) value++;
    }
    check(value == 100);
    unsigned char inside;
    __asm__ volatile("xtest\nsetne %0" : "=q"(inside) : : "cc");
    check(!inside);
  }
  say("a hundred, one way or the other");
  return 0;
}
